//! Installing a program of Node.js with npm, exactly as the lock file says, and without running anybody's scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::go::said;
use super::{Error, Package, Program, Report, build};

/// The Node.js that runs what is installed.
#[derive(Debug, Clone)]
pub struct Npm {
    /// As it says it: `v20.20.2`.
    pub version: String,
}

impl Npm {
    /// Node.js with npm, in the PATH.
    pub fn find(package: &Package) -> Result<Self, Error> {
        let missing = || Error::NpmMissing { package: package.id() };
        said(Path::new("npm"), &["--version"]).ok_or_else(missing)?;
        let version = said(Path::new("node"), &["--version"]).ok_or_else(missing)?;
        Ok(Self { version: version.trim().to_owned() })
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
        let mut command = Command::new("nice");
        command
            .args(["-n", "10", "npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(directory);
        build::run(&mut command, &package.id(), directory, report)?;
        // The directory is renamed once it is whole: the script finds the program from where it is itself.
        let main = format!("$(dirname \"$0\")/../{}/{}", package.id(), program.source);
        let script = format!("#!/bin/sh\nexec node \"{main}\" \"$@\"\n");
        fs::write(output, script).map_err(Error::io("writing", output))?;
        fs::set_permissions(output, fs::Permissions::from_mode(0o755)).map_err(Error::io("writing", output))
    }
}
