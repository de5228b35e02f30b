//! Which S3 server the live lane has: MinIO, which Go builds; without Go s3s-fs, which cargo builds from its registry. So
//! the demo needs nothing but Rust and an etcd.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Cache, Error, Report, build, catalogue};

/// What cargo installs where there is no Go.
const CRATE: (&str, &str) = ("s3s-fs", "0.14.1");

/// An S3 server that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum S3Server {
    /// MinIO.
    Minio(PathBuf),
    /// s3s-fs.
    S3s(PathBuf),
}

/// MinIO, built first if it is not there; s3s-fs where that cannot be for want of Go.
pub fn server(report: Report<'_>) -> Result<S3Server, Error> {
    match Cache::of_user()?.locate(catalogue::only("minio")?, report) {
        Ok(installed) => Ok(S3Server::Minio(installed.program("minio").map(Path::to_owned).unwrap_or_default())),
        Err(Error::GoMissing { .. } | Error::GoTooOld { .. }) => s3s(&Cache::of_user()?, report).map(S3Server::S3s),
        Err(error) => Err(error),
    }
}

fn s3s(cache: &Cache, report: Report<'_>) -> Result<PathBuf, Error> {
    let (name, version) = CRATE;
    let id = format!("{name}-{version}");
    let directory = cache.directory_or(&id, report, |root| {
        report(&format!(
            "there is no Go to build MinIO with: {id} serves S3 instead; cargo builds it (once per machine)"
        ));
        let mut command = Command::new("nice");
        command.args(["-n", "10", "cargo", "install", "--locked", name, "--version", version, "--features", "binary"]);
        // From another folder: this workspace's flags are not for it. Little optimised: it moves a few megabytes.
        command.args(["--config", "profile.release.opt-level=1", "--config", "profile.release.lto=false", "--root"]);
        command.arg(root).current_dir("/").env("CARGO_TARGET_DIR", root.join("target"));
        build::run(&mut command, &id, root, report)?;
        // What was compiled on the way is a hundred times as large as the program.
        let _ = std::fs::remove_dir_all(root.join("target"));
        Ok(())
    })?;
    Ok(directory.join("bin").join(name))
}
