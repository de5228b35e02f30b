//! Images without a registry: a table from image references to files of this machine and their place in the container.
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What an image brings into a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageRoot {
    /// Files and directories of this machine that appear, read-only, in the container.
    pub files: Vec<ImageFile>,
    /// Replaced by a container's `command`.
    pub entrypoint: Vec<String>,
    /// Replaced by a container's `args`, dropped with a `command`.
    pub arguments: Vec<String>,
    /// Environment below that of the container; `PATH` has a usual default.
    pub env: Vec<(String, String)>,
    /// `WORKDIR`.
    pub working_dir: Option<String>,
}

/// One file or directory of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageFile {
    /// On this machine.
    pub source: PathBuf,
    /// In the container.
    pub target: PathBuf,
}

/// Where images come from.
pub trait Images: Send + Sync + 'static {
    /// The content of an image; the error is shown as the reason of `ErrImagePull`.
    fn resolve(&self, image: &str) -> Result<ImageRoot, String>;
}

/// A table of images: exact references first, then patterns that end in `*`, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImageTable {
    /// Its rows.
    pub images: Vec<ImageRow>,
}

/// One row of an [`ImageTable`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRow {
    /// A reference, or the beginning of one followed by `*`.
    pub image: String,
    /// Its content.
    #[serde(flatten)]
    pub root: ImageRoot,
}

impl ImageTable {
    /// Adds a row.
    pub fn with(mut self, image: &str, root: ImageRoot) -> Self {
        self.images.push(ImageRow { image: image.to_owned(), root });
        self
    }

    /// An image whose only content is one program.
    pub fn with_program(self, image: &str, source: &Path, target: &str) -> Self {
        let files = vec![ImageFile { source: source.to_owned(), target: PathBuf::from(target) }];
        let entrypoint = vec![target.to_owned()];
        self.with(image, ImageRoot { files, entrypoint, ..ImageRoot::default() })
    }
}

impl Images for ImageTable {
    fn resolve(&self, image: &str) -> Result<ImageRoot, String> {
        let exact = self.images.iter().find(|row| row.image == image);
        let matches =
            |row: &&ImageRow| row.image.strip_suffix('*').is_some_and(|beginning| image.starts_with(beginning));
        let found = exact.or_else(|| self.images.iter().find(matches));
        let root = found.ok_or_else(|| format!("failed to resolve reference \"{image}\": not found"))?.root.clone();
        match root.files.iter().find(|file| !file.source.exists()) {
            Some(file) => Err(format!("image \"{image}\" lacks {}", file.source.display())),
            None => Ok(root),
        }
    }
}

/// Whether a program needs a dynamic loader: it then also needs the libraries of this machine. A script needs its own.
pub(super) fn is_dynamic(program: &Path) -> bool {
    let Ok(mut file) = std::fs::File::open(program) else { return false };
    has_interpreter(&mut file).unwrap_or(false)
}

/// Looks for PT_INTERP in a 64-bit little-endian ELF file.
fn has_interpreter(file: &mut (impl std::io::Read + std::io::Seek)) -> std::io::Result<bool> {
    const INTERPRETER: u32 = 3;
    let mut header = [0u8; 64];
    file.read_exact(&mut header)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(false);
    }
    let wide = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let short = |at: usize| u16::from_le_bytes(header[at..at + 2].try_into().expect("two bytes"));
    let (table, size, count) = (wide(32), u64::from(short(54)), u64::from(short(56)));
    for index in 0..count {
        file.seek(std::io::SeekFrom::Start(table + index * size))?;
        let mut kind = [0u8; 4];
        file.read_exact(&mut kind)?;
        if u32::from_le_bytes(kind) == INTERPRETER {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_reference_wins_over_a_pattern_and_an_unknown_one_says_so() {
        let root = |argument: &str| ImageRoot { arguments: vec![argument.to_owned()], ..ImageRoot::default() };
        let table = ImageTable::default().with("etcd:*", root("any")).with("etcd:v3.6.10", root("exact"));
        assert_eq!(table.resolve("etcd:v3.6.10").map(|root| root.arguments), Ok(vec!["exact".to_owned()]));
        assert_eq!(table.resolve("etcd:v3.5.0").map(|root| root.arguments), Ok(vec!["any".to_owned()]));
        let unknown = table.resolve("other:1").expect_err("not in the table");
        assert_eq!(unknown, "failed to resolve reference \"other:1\": not found");
    }

    #[test]
    fn an_image_whose_files_are_gone_is_missing() {
        let table = ImageTable::default().with_program("a:1", Path::new("/nowhere/a"), "/a");
        assert_eq!(table.resolve("a:1"), Err("image \"a:1\" lacks /nowhere/a".to_owned()));
    }

    #[test]
    fn a_program_that_needs_a_loader_is_told_from_one_that_does_not() {
        let own = std::env::current_exe().expect("a test has a program");
        assert!(is_dynamic(&own));
        assert!(!is_dynamic(Path::new("/etc/hostname")));
    }
}
