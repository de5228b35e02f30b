//! Where built programs are kept, and how one gets there without ever being half there.
//!
//! A package is one directory, named by everything that decides its content. It is built under another name and
//! renamed, so it exists whole or not at all, whoever is killed when. One lock for the whole cache lets one build run
//! at a time; the kernel drops it with the process that held it.
//! Not protected against: somebody who edits the cache by hand.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::go::{self, Go};
use super::npm::Npm;
use super::{Error, Package, Program, Report, Toolchain, build};

/// A package that is ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// As in the catalogue: `etcd`.
    pub name: String,
    /// As in the catalogue, or what the system's etcd says of itself.
    pub version: String,
    /// Path of each program by its name: `etcd`, `etcdctl`, and from 3.5 on `etcdutl`.
    pub programs: BTreeMap<String, PathBuf>,
}

impl Installed {
    /// The path of one program; `None` when this version does not have it (`etcdutl` before 3.5).
    pub fn program(&self, name: &str) -> Option<&Path> {
        self.programs.get(name).map(PathBuf::as_path)
    }
}

/// One cache directory.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// What builds a package on this machine.
#[derive(Debug, Clone)]
enum Tool {
    Go(Go),
    Npm(Npm),
}

impl Tool {
    fn find(package: &Package, cache: &Path) -> Result<Self, Error> {
        match package.toolchain {
            Toolchain::Go => Go::usable(Go::find(cache), package).map(Self::Go),
            Toolchain::Npm => Npm::find(package, cache).map(Self::Npm),
        }
    }

    fn version(&self) -> &str {
        match self {
            Self::Go(go) => &go.version,
            Self::Npm(npm) => &npm.version,
        }
    }

    fn build(
        &self,
        package: &Package,
        program: &Program,
        directory: &Path,
        output: &Path,
        report: Report<'_>,
    ) -> Result<(), Error> {
        match self {
            Self::Go(go) => go.build(package, program, directory, output, report),
            Self::Npm(npm) => npm.build(package, program, directory, output, report),
        }
    }
}

/// Directories that are being filled; whoever holds the lock owns all of them.
const UNFINISHED: &str = ".building-";

impl Cache {
    /// A cache in this directory, made when needed.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The user's: `etcd-operator-testbed` under `XDG_CACHE_HOME` or `~/.cache`.
    #[allow(clippy::disallowed_methods, reason = "where the user keeps caches is the environment's to say")]
    pub fn of_user() -> Result<Self, Error> {
        let directory = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = directory("XDG_CACHE_HOME").or_else(|| directory("HOME").map(|home| home.join(".cache")));
        Ok(Self::new(caches.ok_or(Error::NoCacheDirectory)?.join("etcd-operator-testbed")))
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The package, if it was built here. Without a usable tool, one that any built from any sums of that version.
    pub fn cached(&self, package: &Package) -> Result<Option<Installed>, Error> {
        match Tool::find(package, &self.root) {
            Ok(tool) => Ok(installed(package, &self.directory(package, &tool))),
            Err(_) if package.toolchain == Toolchain::Go => self.built_by_any_tool(package),
            // What npm installed runs on the Node.js that is not there.
            Err(_) => Ok(None),
        }
    }

    /// The package; built now if it is not here.
    pub fn locate(&self, package: &Package, report: Report<'_>) -> Result<Installed, Error> {
        if let Some(installed) = self.cached(package)? {
            return Ok(installed);
        }
        let tool = Tool::find(package, &self.root)?;
        self.locate_or(package, &tool, report, |build| {
            for program in package.programs {
                let output = build.join("bin").join(program.name);
                tool.build(package, program, &build.join(package.id()), &output, report)?;
                let said = go::said(&output, program.version_arguments).unwrap_or_default();
                if !said.contains(program.version_answer) {
                    let expected = program.version_answer.to_owned();
                    return Err(Error::NotItself { program: output, expected, said });
                }
            }
            Ok(())
        })
    }

    /// The package; `fill` is given a fresh directory with the module files when it is not here.
    fn locate_or(
        &self,
        package: &Package,
        tool: &Tool,
        report: Report<'_>,
        fill: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Installed, Error> {
        let _lock = self.lock(&package.id(), report)?;
        let directory = self.directory(package, tool);
        if let Some(installed) = installed(package, &directory) {
            return Ok(installed);
        }
        self.remove_unfinished()?;
        let build = self.root.join(format!("{UNFINISHED}{}-{}", package.id(), std::process::id()));
        for (path, content) in package.files {
            write(&build.join(path), content)?;
        }
        let bin = build.join("bin");
        fs::create_dir_all(&bin).map_err(Error::io("making", &bin))?;
        report(&format!("building {} with {} (once per machine)", package.id(), tool.version()));
        let began = build::moment();
        fill(&build)?;
        // A directory that is there and not whole was not put there by us: this one is better.
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(Error::io("removing", &directory))?;
        }
        fs::rename(&build, &directory).map_err(Error::io("putting in place", &directory))?;
        report(&format!("built {} in {:.0} s", package.id(), began.elapsed().as_secs_f64()));
        Ok(installed(package, &directory).expect("it was filled a moment ago, under the lock"))
    }

    /// The directory of that name; `fill` is given an empty one when it is not here.
    pub(super) fn directory_or(
        &self,
        name: &str,
        report: Report<'_>,
        fill: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        let _lock = self.lock(name, report)?;
        let directory = self.root.join(name);
        if directory.exists() {
            return Ok(directory);
        }
        self.remove_unfinished()?;
        let build = self.root.join(format!("{UNFINISHED}{name}-{}", std::process::id()));
        fs::create_dir_all(&build).map_err(Error::io("making", &build))?;
        let began = build::moment();
        fill(&build)?;
        fs::rename(&build, &directory).map_err(Error::io("putting in place", &directory))?;
        report(&format!("built {name} in {:.0} s", began.elapsed().as_secs_f64()));
        Ok(directory)
    }

    /// One build at a time: two at once would each take twice as long, and as much memory again.
    fn lock(&self, name: &str, report: Report<'_>) -> Result<File, Error> {
        fs::create_dir_all(&self.root).map_err(Error::io("making", &self.root))?;
        let path = self.root.join("lock");
        let file = File::create(&path).map_err(Error::io("opening", &path))?;
        if file.try_lock().is_err() {
            report(&format!("{name} waits for another build to end"));
            file.lock().map_err(Error::io("locking", &path))?;
        }
        Ok(file)
    }

    /// What a killed build left. Only with the lock held.
    fn remove_unfinished(&self) -> Result<(), Error> {
        for path in self.entries()? {
            if name_of(&path).starts_with(UNFINISHED) {
                fs::remove_dir_all(&path).map_err(Error::io("removing", &path))?;
            }
        }
        Ok(())
    }

    fn built_by_any_tool(&self, package: &Package) -> Result<Option<Installed>, Error> {
        if !self.root.exists() {
            return Ok(None);
        }
        let prefix = format!("{}-", package.id());
        let entries = self.entries()?;
        Ok(entries.iter().filter(|path| name_of(path).starts_with(&prefix)).find_map(|path| installed(package, path)))
    }

    fn entries(&self) -> Result<Vec<PathBuf>, Error> {
        let read = fs::read_dir(&self.root).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let mut entries: Vec<PathBuf> = read.map_err(Error::io("listing", &self.root))?;
        entries.sort();
        Ok(entries)
    }

    /// Named by everything that decides what is in it: another sum, or another compiler, is another directory.
    fn directory(&self, package: &Package, tool: &Tool) -> PathBuf {
        let mut hash = Sha256::new();
        hash.update(tool.version());
        for (path, content) in package.files {
            hash.update(format!("\0{path}\0{content}"));
        }
        if !package.linker_flags.is_empty() {
            hash.update(format!("\0{}", package.linker_flags));
        }
        let hash: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        self.root.join(format!("{}-{hash}", package.id()))
    }
}

/// The package in this directory, if all of its programs are there.
fn installed(package: &Package, directory: &Path) -> Option<Installed> {
    let mut programs = BTreeMap::new();
    for program in package.programs {
        let path = directory.join("bin").join(program.name);
        let mode = fs::metadata(&path).ok()?.permissions().mode();
        (mode & 0o111 != 0).then_some(())?;
        programs.insert(program.name.to_owned(), path);
    }
    Some(Installed { name: package.name.to_owned(), version: package.version.to_owned(), programs })
}

fn write(path: &Path, content: &str) -> Result<(), Error> {
    let directory = path.parent().expect("the catalogue's paths are below the build directory");
    fs::create_dir_all(directory).map_err(Error::io("making", directory))?;
    fs::write(path, content).map_err(Error::io("writing", path))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::CATALOGUE;
    use crate::binaries::scratch::Scratch;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn some_go() -> Tool {
        Tool::Go(Go::pretended("go1.26.8"))
    }

    /// Stands in for the compiler: puts an executable for every program.
    fn filled(package: &Package, build: &Path) -> Result<(), Error> {
        for program in package.programs {
            let path = build.join("bin").join(program.name);
            fs::write(&path, "#!/bin/sh\n").map_err(Error::io("writing", &path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(Error::io("writing", &path))?;
        }
        Ok(())
    }

    fn refused(package: &Package) -> Error {
        Error::GoMissing { package: package.id() }
    }

    #[test]
    fn a_package_is_built_once_and_then_found() {
        let scratch = Scratch::new("once");
        let cache = Cache::new(&scratch.0);
        let package = &CATALOGUE[0];
        let first = cache.locate_or(package, &some_go(), &|_| (), |build| filled(package, build)).expect("built");
        let again = cache.locate_or(package, &some_go(), &|_| (), |_| panic!("built twice")).expect("found");
        assert_eq!(first, again);
        assert!(first.program("etcdctl").expect("3.2 has it").starts_with(&scratch.0));
        assert_eq!(first.program("etcdutl"), None);
    }

    #[test]
    fn a_failed_build_leaves_no_package_and_the_next_one_cleans_up() {
        let scratch = Scratch::new("failed");
        let cache = Cache::new(&scratch.0);
        let package = &CATALOGUE[0];
        let halfway = |build: &Path| {
            fs::write(build.join("bin/etcd"), "half of it").map_err(Error::io("writing", build))?;
            Err(refused(package))
        };
        cache.locate_or(package, &some_go(), &|_| (), halfway).expect_err("the compiler said no");
        assert_eq!(cache.built_by_any_tool(package).expect("readable"), None);
        let left: Vec<_> = cache.entries().expect("readable").iter().map(|path| name_of(path)).collect();
        assert!(left.iter().any(|name| name.starts_with(UNFINISHED)), "as a kill would leave it: {left:?}");
        cache.locate_or(package, &some_go(), &|_| (), |build| filled(package, build)).expect("built");
        let left: Vec<_> = cache.entries().expect("readable").iter().map(|path| name_of(path)).collect();
        assert_eq!(left.len(), 2, "the lock and the package: {left:?}");
    }

    #[test]
    fn a_directory_without_all_of_its_programs_is_built_anew() {
        let scratch = Scratch::new("partial");
        let cache = Cache::new(&scratch.0);
        let package = &CATALOGUE[0];
        let built = cache.locate_or(package, &some_go(), &|_| (), |build| filled(package, build)).expect("built");
        fs::remove_file(built.program("etcdctl").expect("there")).expect("ours");
        let again = cache.locate_or(package, &some_go(), &|_| (), |build| filled(package, build)).expect("built");
        assert!(again.program("etcdctl").expect("there").exists());
    }

    #[test]
    fn a_directory_is_filled_once_and_never_half() {
        let scratch = Scratch::new("directory");
        let cache = Cache::new(&scratch.0);
        let fails = |_: &Path| Err(Error::NoCacheDirectory);
        cache.directory_or("a", &|_| (), fails).expect_err("it was not filled");
        assert!(!scratch.0.join("a").exists());
        let fill = |path: &Path| fs::write(path.join("program"), "").map_err(Error::io("writing", path));
        let first = cache.directory_or("a", &|_| (), fill).expect("filled");
        assert!(first.join("program").exists());
        assert_eq!(first, cache.directory_or("a", &|_| (), |_| panic!("filled twice")).expect("found"));
    }

    #[test]
    fn two_at_once_build_once() {
        let scratch = Scratch::new("two");
        let cache = Cache::new(&scratch.0);
        let package = &CATALOGUE[0];
        let builds = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let fill = |build: &Path| {
                        builds.fetch_add(1, Ordering::SeqCst);
                        filled(package, build)
                    };
                    cache.locate_or(package, &some_go(), &|_| (), fill).expect("built or found");
                });
            }
        });
        assert_eq!(builds.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn another_compiler_or_another_sum_is_another_directory() {
        let cache = Cache::new("/nowhere");
        let package = &CATALOGUE[0];
        let here = cache.directory(package, &some_go());
        assert_ne!(here, cache.directory(package, &Tool::Go(Go::pretended("go1.27.0"))));
        let other = Package { files: &[("etcd-3.2.25/go.sum", "another")], ..*package };
        assert_ne!(here, cache.directory(&other, &some_go()));
    }

    #[test]
    fn without_go_what_was_built_before_still_serves() {
        let scratch = Scratch::new("without");
        let cache = Cache::new(&scratch.0);
        let package = &CATALOGUE[0];
        assert_eq!(cache.built_by_any_tool(package).expect("an empty cache is no error"), None);
        let built = cache.locate_or(package, &some_go(), &|_| (), |build| filled(package, build)).expect("built");
        assert_eq!(cache.built_by_any_tool(package).expect("readable"), Some(built));
        assert_eq!(cache.built_by_any_tool(&CATALOGUE[1]).expect("readable"), None, "another version is not it");
    }
}
