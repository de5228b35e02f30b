//! The real programs of the live lane: etcd 3.2 to 3.7, MinIO as an S3 server, emulators of GCS and ABS,
//! helm, kubectl.
//!
//! None of them is downloaded as a binary: each is built by Go from the `go.mod` and `go.sum` under
//! `scenarios/modules`, so that its source is pinned by hash and a machine needs nothing but Go and a module proxy. One,
//! Azurite, there is only for Node.js: npm installs it by its `package-lock.json`, and a machine without npm goes without.
//! A build happens once per machine; the result stays in the user's cache directory.
//!
//! Everything here blocks (a cold build takes minutes): from async code, call it in `spawn_blocking`.

mod build;
pub mod cache;
pub mod catalogue;
pub mod go;
pub mod npm;
pub mod s3;
#[cfg(test)]
pub(crate) mod scratch;

use std::path::{Path, PathBuf};

pub use cache::{Cache, Installed};
pub use catalogue::{CATALOGUE, Package, Program, Toolchain};

/// Why a program is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody wrote module files for it.
    #[error("no `{name}-{version}` in the catalogue; it has {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What was asked for.
        version: String,
        /// All that could have been asked for.
        known: String,
    },
    /// The cache is cold and nothing can fill it.
    #[error("{package} must be built, and Go is not installed: {}", go::HOW_TO_INSTALL)]
    GoMissing {
        /// What was to be built.
        package: String,
    },
    /// The cache is cold and the Go that is there refuses the module files.
    #[error(
        "{package} must be built with Go {}.{} or later, and `{path}` is {found}: {}",
        go::OLDEST.0, go::OLDEST.1, go::HOW_TO_INSTALL
    )]
    GoTooOld {
        /// What was to be built.
        package: String,
        /// Which Go was found.
        path: PathBuf,
        /// Its version, as it says it.
        found: String,
    },
    /// The cache is cold and nothing can fill it.
    #[error("{package} must be installed with npm, and there is none: {}", npm::HOW_TO_INSTALL)]
    NpmMissing {
        /// What was to be installed.
        package: String,
    },
    /// The compiler, or the module proxy, said no.
    #[error("the build of {package} failed ({status}); its last lines:\n{tail}")]
    Build {
        /// What was being built.
        package: String,
        /// How the process ended.
        status: std::process::ExitStatus,
        /// The end of what it wrote.
        tail: String,
    },
    /// It was built, and is not what the catalogue says.
    #[error("{program} was built and should answer with `{expected}`, but said: {said}")]
    NotItself {
        /// Path of the program.
        program: PathBuf,
        /// Part of the answer that the catalogue expects.
        expected: String,
        /// What it answered.
        said: String,
    },
    /// The directory to keep them in is not known.
    #[error("neither XDG_CACHE_HOME nor HOME is set: there is no place to keep what is built")]
    NoCacheDirectory,
    /// The file system said no.
    #[error("{doing} {path}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// Whether nothing is wrong but that there is no Go to build with.
    pub fn is_want_of_go(&self) -> bool {
        matches!(self, Self::GoMissing { .. } | Self::GoTooOld { .. })
    }

    fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

/// Called with one sentence when something slow starts or ends.
pub type Report<'a> = &'a dyn Fn(&str);

/// The programs of `name` at exactly `version`, from the user's cache; built first if they are not there.
pub fn locate(name: &str, version: &str, report: Report<'_>) -> Result<Installed, Error> {
    Cache::of_user()?.locate(catalogue::find(name, version)?, report)
}

/// As [`locate`], but never builds: `None` when the cache has nothing.
pub fn cached(name: &str, version: &str) -> Result<Option<Installed>, Error> {
    Cache::of_user()?.cached(catalogue::find(name, version)?)
}

/// The etcd of the system's packages (Debian's etcd-server and etcd-client), whatever its version is: the demo's way
/// out when there is no Go. Either they are installed, or `make tools` unpacked them into the cache.
pub fn etcd_of_the_system() -> Option<Installed> {
    let unpacked = Cache::of_user().ok().map(|cache| cache.root().join("debian/usr/bin"));
    first_etcd([Some(PathBuf::from("/usr/bin")), unpacked].into_iter().flatten())
}

fn first_etcd(directories: impl IntoIterator<Item = PathBuf>) -> Option<Installed> {
    directories.into_iter().find_map(|directory| etcd_in(&directory))
}

fn etcd_in(directory: &Path) -> Option<Installed> {
    let version = catalogue::etcd_version(&go::said(&directory.join("etcd"), &["--version"])?)?;
    let programs = ["etcd", "etcdctl", "etcdutl"].map(|name| (name.to_owned(), directory.join(name)));
    let programs = programs.into_iter().filter(|(_, path)| path.exists()).collect();
    Some(Installed { name: "etcd".to_owned(), version, programs })
}

/// kubectl: the machine's, or else ours. `None` where there is neither, nor a Go to build it with.
///
/// With its whole path: it is run where another `PATH` holds.
#[expect(clippy::disallowed_methods, reason = "where a shell would look for it")]
pub fn kubectl(report: Report<'_>) -> Result<Option<PathBuf>, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(of_the_machine) = first_kubectl(std::env::split_paths(&path)) {
        return Ok(Some(of_the_machine));
    }
    match Cache::of_user()?.locate(catalogue::only("kubectl")?, report) {
        Ok(installed) => Ok(installed.program("kubectl").map(Path::to_owned)),
        Err(error) if error.is_want_of_go() => Ok(None),
        Err(error) => Err(error),
    }
}

fn first_kubectl(directories: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let programs = directories.into_iter().filter_map(|directory| directory.join("kubectl").canonicalize().ok());
    programs.into_iter().find(|program| go::said(program, &["version", "--client"]).is_some())
}

#[cfg(test)]
mod tests {
    use super::scratch::Scratch;
    use super::*;

    #[test]
    fn the_kubectl_of_the_machine_has_its_whole_path() {
        let none = Scratch::new("no-kubectl");
        let one = Scratch::with_programs("kubectl", &[("kubectl", "Client Version: v1.34.4")]);
        let found = first_kubectl([none.0.clone(), one.0.clone()]).expect("it is there");
        assert!(found.is_absolute() && found.ends_with("kubectl"), "{}", found.display());
        assert_eq!(first_kubectl([none.0.clone()]), None);
    }

    #[test]
    fn the_etcd_of_the_system_is_the_first_that_says_what_it_is() {
        let none = Scratch::new("no-etcd");
        let other = Scratch::with_programs("other", &[("etcd", "command not found")]);
        let debian = [("etcd", "etcd Version: 3.4.23"), ("etcdctl", "etcdctl version: 3.4.23")];
        let debian = Scratch::with_programs("debian", &debian);
        let later = Scratch::with_programs("later", &[("etcd", "etcd Version: 3.5.16"), ("etcdutl", "")]);
        let path = |scratch: &Scratch| scratch.0.clone();

        assert_eq!(first_etcd([path(&none), path(&other)]), None);
        let etcd = first_etcd([path(&none), path(&other), path(&debian), path(&later)]).expect("there is one");
        assert_eq!((etcd.name.as_str(), etcd.version.as_str()), ("etcd", "3.4.23"));
        assert_eq!(etcd.program("etcd"), Some(path(&debian).join("etcd").as_path()));
        assert_eq!(etcd.program("etcdctl"), Some(path(&debian).join("etcdctl").as_path()));
        assert_eq!(etcd.program("etcdutl"), None, "3.4 has none");
        assert!(first_etcd([path(&later)]).expect("there is one").program("etcdutl").is_some());
    }
}
