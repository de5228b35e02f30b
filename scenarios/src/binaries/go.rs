//! Finding Go, and running `go build` so that nothing of the user's own Go settings leaks into the result.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Error, Package, Program, Report, build};

/// The oldest Go that takes the module files (etcd 3.5.35, 3.7.3 and helm ask for it in their own `go.mod`).
pub const OLDEST: (u32, u32) = (1, 26);

/// What to tell somebody who has no Go, or an old one.
pub const HOW_TO_INSTALL: &str = "`make tools` installs it where a package manager has it; else install Go 1.26 or \
later from your system or from the Go project, and have `go` in PATH";

/// A Go that can build what the catalogue has.
#[derive(Debug, Clone)]
pub struct Go {
    path: PathBuf,
    /// As it says it: `go1.26.8`.
    pub version: String,
}

/// What a Go that was found turned out to be.
#[derive(Debug)]
pub enum Found {
    /// It will do.
    Usable(Go),
    /// There is one, and it is too old.
    TooOld(Go),
    /// There is none.
    Missing,
}

impl Go {
    /// The first usable Go among `go` of the PATH, the Go project's own place, and what `make tools` put in the cache.
    pub fn find(cache: &Path) -> Found {
        let mut old = None;
        for path in [PathBuf::from("go"), PathBuf::from("/usr/local/go/bin/go"), cache.join("go/bin/go")] {
            let Some(said) = said(&path, &["env", "GOVERSION"]) else { continue };
            let go = Self { path, version: said.trim().to_owned() };
            match release(&go.version) {
                Some(release) if release >= OLDEST => return Found::Usable(go),
                _ => old = Some(go),
            }
        }
        old.map_or(Found::Missing, Found::TooOld)
    }

    #[cfg(test)]
    pub(super) fn pretended(version: &str) -> Self {
        Self { path: "go".into(), version: version.to_owned() }
    }

    /// This Go, or the error that says what to do.
    pub fn usable(found: Found, package: &Package) -> Result<Self, Error> {
        match found {
            Found::Usable(go) => Ok(go),
            Found::TooOld(go) => Err(Error::GoTooOld { package: package.id(), path: go.path, found: go.version }),
            Found::Missing => Err(Error::GoMissing { package: package.id() }),
        }
    }

    /// Builds one program of the module in `directory` as the file `output`.
    pub fn build(
        &self,
        package: &Package,
        program: &Program,
        directory: &Path,
        output: &Path,
        report: Report<'_>,
    ) -> Result<(), Error> {
        // `nice`: a build takes both cores for minutes, beside whatever else the machine is for.
        let mut command = Command::new("nice");
        command
            .args(["-n", "10"])
            .arg(&self.path)
            .args(["build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags"])
            .arg(format!("-s -w {}", package.linker_flags).trim())
            .arg("-o")
            .arg(output)
            .arg(program.source)
            .current_dir(directory)
            .env("CGO_ENABLED", "0")
            .env("GOTOOLCHAIN", "local")
            .env("GOFLAGS", "")
            .env("GOWORK", "off")
            .env("GO111MODULE", "on");
        let name = format!("{} ({})", package.id(), program.name);
        build::run(&mut command, &name, directory, report)
    }
}

/// What a program prints when it is asked; `None` when it cannot be run.
pub fn said(program: &Path, arguments: &[&str]) -> Option<String> {
    let answer = Command::new(program)
        .args(arguments)
        .env("GOTOOLCHAIN", "local")
        .env_remove("ETCDCTL_API")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = [answer.stdout, answer.stderr].concat();
    Some(String::from_utf8_lossy(&said).into_owned())
}

/// `(1, 26)` of `go1.26.8`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("go")?.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::{CATALOGUE, Toolchain};

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(release("go1.26.8"), Some((1, 26)));
        assert_eq!(release("go1.27rc1"), Some((1, 27)));
        assert_eq!(release("devel +abc"), None);
        assert!(release("go1.9").expect("a release") < OLDEST);
    }

    #[test]
    fn what_to_install_is_said_when_go_is_absent_or_old() {
        let package = &CATALOGUE[0];
        let absent = Go::usable(Found::Missing, package).expect_err("there is none").to_string();
        assert!(absent.contains("etcd-3.2.25") && absent.contains("Go 1.26"), "{absent}");
        let old = Go::usable(Found::TooOld(Go::pretended("go1.19.8")), package).expect_err("too old").to_string();
        assert!(old.contains("`go` is go1.19.8") && old.contains("make tools"), "{old}");
    }

    #[test]
    fn the_oldest_go_is_what_the_module_files_ask_for() {
        for package in CATALOGUE.iter().filter(|package| package.toolchain == Toolchain::Go) {
            let (_, manifest) = package.files.iter().find(|(path, _)| path.ends_with("/go.mod")).expect("a go.mod");
            let asked = manifest.lines().find_map(|line| line.strip_prefix("go ")).expect("a go directive");
            assert!(release(&format!("go{asked}")).expect("a release") <= OLDEST, "{} asks for {asked}", package.id());
        }
    }
}
