//! S3 and OSS: MinIO, or s3s-fs where there is no Go. It answers as `store.default.svc`: with the bucket in the path, and
//! as OSS wants it, in the host name.

use std::path::Path;

use anyhow::Context;
use fake_k8s::process::network::GATEWAY;
use tokio::process::Command;

use super::{BUCKETS, Keys};
use crate::binaries::s3::S3Server;

/// Where it listens.
pub const PORT: u16 = 9000;
const HOST: &str = "store.default.svc";

/// What pods call it.
pub fn endpoint() -> String {
    format!("http://{HOST}:{PORT}")
}

/// How it is started.
///
/// # Errors
/// When its directories cannot be made.
pub fn command(server: &S3Server, data: &Path, keys: &Keys) -> anyhow::Result<Command> {
    // Its buckets are the directories under its data.
    BUCKETS.iter().try_for_each(|bucket| std::fs::create_dir_all(data.join(bucket))).context("cannot make a bucket")?;
    let mut command;
    match server {
        S3Server::Minio(program) => {
            command = Command::new(program);
            command.args(["server", "--quiet", "--address", &format!("{GATEWAY}:{PORT}")]);
            command.args(["--console-address", "127.0.0.1:9001"]).env_clear();
            command.envs([("MINIO_ROOT_USER", &keys.user), ("MINIO_ROOT_PASSWORD", &keys.password)]);
            command.envs([("MINIO_DOMAIN", HOST), ("MINIO_BROWSER", "off")]);
        }
        S3Server::S3s(program) => {
            command = Command::new(program);
            command.args(["--host", &GATEWAY.to_string(), "--port", &PORT.to_string()]).env_clear();
            command.args(["--access-key", &keys.user, "--secret-key", &keys.password]);
            // What comes before these in the name of a request's host is a bucket.
            command.args(["--domain", &format!("{HOST}:{PORT}"), "--domain", &format!("{GATEWAY}:{PORT}")]);
        }
    }
    command.arg(data).envs([("HOME", "/run"), ("PATH", "/usr/bin:/bin")]);
    Ok(command)
}
