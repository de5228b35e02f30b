//! Which S3 server the live lane has: MinIO, which Go builds; without Go s3s-fs, which cargo builds from its registry. So
//! the demo needs nothing but Rust and an etcd.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Cache, Error, Installed, Report, build, catalogue};

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
    let cache = Cache::of_user()?;
    either(cache.locate(catalogue::only("minio")?, report), || s3s(&cache, report))
}

fn either(minio: Result<Installed, Error>, s3s: impl FnOnce() -> Result<PathBuf, Error>) -> Result<S3Server, Error> {
    match minio {
        Ok(installed) => Ok(S3Server::Minio(installed.program("minio").map(Path::to_owned).unwrap_or_default())),
        Err(error) if error.is_want_of_go() => s3s().map(S3Server::S3s),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::scratch::Scratch;

    fn minio() -> Installed {
        let programs = [("minio".to_owned(), PathBuf::from("/there/minio"))].into();
        Installed { name: "minio".to_owned(), version: "1".to_owned(), programs }
    }

    #[test]
    fn minio_serves_where_it_can_be_had() {
        let server = either(Ok(minio()), || panic!("it is not asked for")).expect("it is there");
        assert_eq!(server, S3Server::Minio("/there/minio".into()));
    }

    #[test]
    fn s3s_serves_for_want_of_go_and_for_no_other_reason() {
        let package = || "minio-1".to_owned();
        let old = Error::GoTooOld { package: package(), path: "go".into(), found: "go1.19.8".to_owned() };
        for error in [Error::GoMissing { package: package() }, old] {
            let server = either(Err(error), || Ok("/there/s3s-fs".into())).expect("it takes its place");
            assert_eq!(server, S3Server::S3s("/there/s3s-fs".into()));
        }
        let error = either(Err(Error::NoCacheDirectory), || panic!("it is not asked for")).expect_err("still wrong");
        assert!(matches!(error, Error::NoCacheDirectory), "{error}");
    }

    #[test]
    fn s3s_is_built_once_and_then_found() {
        let (scratch, program) = (Scratch::new("s3s"), "s3s-fs-0.14.1/bin/s3s-fs");
        scratch.put(Path::new(program), "");
        let found = s3s(&Cache::new(&scratch.0), &|sentence| panic!("{sentence}")).expect("it is there");
        assert_eq!(found, scratch.0.join(program));
    }
}
