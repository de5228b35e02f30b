//! Installing a program of Node.js with npm, exactly as the lock file says, and without running anybody's scripts.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::go::said;
use super::{Error, Package, Program, Report, build};

/// What to tell somebody who has no npm.
pub const HOW_TO_INSTALL: &str = "`make tools` installs it from PyPI where there is pip; else install Node.js with npm \
from your system, and have both in PATH";

/// The Node.js that runs what is installed.
#[derive(Debug, Clone)]
pub struct Npm {
    /// Where `node` and `npm` are, when they are not in the PATH.
    directory: Option<PathBuf>,
    /// As it says it: `v20.20.2`.
    pub version: String,
}

impl Npm {
    /// Node.js with npm: in the PATH, or what `make tools` put in the cache.
    pub fn find(package: &Package, cache: &Path) -> Result<Self, Error> {
        let found = Self::in_directory(None).or_else(|| Self::in_directory(Some(cache.join("node/bin"))));
        found.ok_or_else(|| Error::NpmMissing { package: package.id() })
    }

    fn in_directory(directory: Option<PathBuf>) -> Option<Self> {
        let mut npm = Self { directory, version: String::new() };
        npm.version = said(&npm.program("node"), &["--version"])?.trim().to_owned();
        let answer = npm.command(&npm.program("npm")).arg("--version").output().ok()?;
        answer.status.success().then_some(npm)
    }

    fn program(&self, name: &str) -> PathBuf {
        self.directory.as_ref().map_or(name.into(), |directory| directory.join(name))
    }

    /// npm is a script, which runs on the node that is first in the PATH.
    #[allow(clippy::disallowed_methods, reason = "where the rest of npm's needs are, is the environment's to say")]
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some(directory) = &self.directory {
            let mut path = OsString::from(directory);
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            command.env("PATH", path);
        }
        command
    }

    /// Installs into `directory`, and makes `output` a script that starts the program from there.
    pub fn build(
        &self,
        package: &Package,
        program: &Program,
        directory: &Path,
        output: &Path,
        report: Report<'_>,
    ) -> Result<(), Error> {
        let mut command = self.command(Path::new("nice"));
        command
            .args(["-n", "10"])
            .arg(self.program("npm"))
            .args(["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(directory);
        build::run(&mut command, &package.id(), directory, report)?;
        fs::write(output, self.script(package, program)).map_err(Error::io("writing", output))?;
        fs::set_permissions(output, fs::Permissions::from_mode(0o755)).map_err(Error::io("writing", output))
    }

    /// The directory is renamed once it is whole: the script finds the program from where it is itself, and the cache's
    /// Node.js beside it.
    fn script(&self, package: &Package, program: &Program) -> String {
        let node = if self.directory.is_some() { "$here/../../node/bin/node" } else { "node" };
        let main = format!("$here/../{}/{}", package.id(), program.source);
        format!("#!/bin/sh\nhere=$(dirname \"$0\")\nexec \"{node}\" \"{main}\" \"$@\"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::catalogue;
    use crate::binaries::scratch::Scratch;

    #[test]
    fn a_node_without_npm_is_none_and_the_caches_is_one() {
        let scratch = Scratch::with_programs("npm", &[("bin/node", "v24.19.0")]);
        let found = || Npm::in_directory(Some(scratch.0.join("bin"))).map(|npm| npm.version);
        assert_eq!(found(), None);
        scratch.put(Path::new("bin/npm"), "11.0.0");
        assert_eq!(found().as_deref(), Some("v24.19.0"));
    }

    #[test]
    fn a_script_starts_the_node_that_installed_it() {
        let package = catalogue::only("azurite").expect("it is in the catalogue");
        let scratch = Scratch::with_programs("script", &[("node/bin/node", "the node of the cache")]);
        let npm = |directory| Npm { directory, version: "v24.19.0".to_owned() };
        let program = &package.programs[0];
        assert!(npm(None).script(package, program).contains("exec \"node\" "));
        scratch.put(Path::new("azurite-1/bin/azurite"), "");
        let script = scratch.0.join("azurite-1/bin/azurite");
        fs::write(&script, npm(Some("/moved/away".into())).script(package, program)).expect("it is ours");
        assert_eq!(said(&script, &[]).as_deref(), Some("the node of the cache\n"));
    }
}
