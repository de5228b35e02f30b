//! S3 and OSS: MinIO. It answers as `store.default.svc`: with the bucket in the path, and as OSS wants it, in the host
//! name.

use std::path::Path;

use anyhow::Context;
use fake_k8s::process::network::GATEWAY;
use tokio::process::Command;

use super::{BUCKETS, Keys};

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
pub fn command(program: &Path, data: &Path, keys: &Keys) -> anyhow::Result<Command> {
    // Its buckets are the directories under its data.
    BUCKETS.iter().try_for_each(|bucket| std::fs::create_dir_all(data.join(bucket))).context("cannot make a bucket")?;
    let mut command = Command::new(program);
    command
        .args(["server", "--quiet", "--address", &format!("{GATEWAY}:{PORT}")])
        .args(["--console-address", "127.0.0.1:9001"])
        .arg(data)
        .env_clear()
        .envs([("MINIO_ROOT_USER", &keys.user), ("MINIO_ROOT_PASSWORD", &keys.password)])
        .envs([("MINIO_DOMAIN", HOST), ("MINIO_BROWSER", "off"), ("HOME", "/run"), ("PATH", "/usr/bin:/bin")]);
    Ok(command)
}
