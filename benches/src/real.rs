//! Real etcd and a real S3 server on loopback, for as long as the values here live.

use anyhow::{Context, Result, bail, ensure};
use etcd_client::Client;
use futures::stream::{self, StreamExt, TryStreamExt};
use scenarios::binaries::locate;
use std::ffi::OsStr;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::machine::moment;

/// The version that is measured.
pub const ETCD_VERSION: &str = "3.6.10";
const MINIO_VERSION: &str = "2026.2.12";
const PATIENCE: Duration = Duration::from_secs(60);
/// Below etcd's limit of a request.
const VALUE_BYTES: usize = 64 << 10;
const PUTS_IN_FLIGHT: usize = 16;

/// A directory that goes when this goes.
pub struct Scratch(PathBuf);

impl Scratch {
    /// On the disk of the temporary files.
    ///
    /// # Errors
    /// When it cannot be made.
    #[expect(clippy::disallowed_methods, reason = "files of a benchmark lie among temporary ones")]
    pub fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("etcd-operator-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that ends when this goes.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &Path, arguments: &[impl AsRef<OsStr>], env: &[(&str, &str)], log: &Path) -> Result<Process> {
    let log = File::create(log).with_context(|| format!("creating {}", log.display()))?;
    let mut command = Command::new(program);
    command.args(arguments).envs(env.iter().copied()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(Process(command.spawn().with_context(|| format!("starting {}", program.display()))?))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[allow(clippy::disallowed_methods, reason = "a benchmark of real programs waits in real time")]
async fn wait_for(port: u16, what: &str) -> Result<()> {
    let began = moment();
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        ensure!(began.elapsed() < PATIENCE, "{what} does not listen after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// One member of etcd.
pub struct Etcd {
    /// Its client URL.
    pub url: String,
    etcdctl: PathBuf,
    _process: Process,
}

impl Etcd {
    /// With an empty directory below this one.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(scratch: &Path) -> Result<Self> {
        let installed = tokio::task::spawn_blocking(|| locate("etcd", ETCD_VERSION, &|_| ())).await??;
        let program = |name: &str| installed.program(name).map(Path::to_owned).context("the package has it");
        let (port, peer_port) = (free_port()?, free_port()?);
        let (url, peer_url) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
        let arguments = [
            format!("--data-dir={}", scratch.join("etcd").display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=default={peer_url}"),
            "--unsafe-no-fsync".to_owned(),
        ];
        let process = start(&program("etcd")?, &arguments, &[], &scratch.join("etcd.log"))?;
        wait_for(port, "etcd").await?;
        Ok(Self { url, etcdctl: program("etcdctl")?, _process: process })
    }

    /// Writes about so many bytes, no two values alike.
    ///
    /// # Errors
    /// When etcd refuses.
    pub async fn fill(&self, bytes: usize) -> Result<()> {
        let client = Client::connect([&self.url], None).await?;
        let puts = (0..bytes / VALUE_BYTES).map(|index| {
            let mut kv = client.kv_client();
            async move { kv.put(format!("key-{index:08}"), noise(index as u64), None).await.map(drop) }
        });
        stream::iter(puts).buffer_unordered(PUTS_IN_FLIGHT).try_collect::<()>().await?;
        Ok(())
    }

    /// `etcdctl snapshot save`.
    ///
    /// # Errors
    /// When it fails.
    pub fn save_snapshot(&self, to: &Path) -> Result<()> {
        let mut command = Command::new(&self.etcdctl);
        command.args(["--endpoints", &self.url, "snapshot", "save"]).arg(to).env("ETCDCTL_API", "3");
        let output = command.output()?;
        if !output.status.success() {
            bail!("etcdctl snapshot save: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

/// Bytes that do not compress (xorshift), the same for the same number.
fn noise(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..VALUE_BYTES / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

/// MinIO with one bucket.
pub struct Minio {
    /// Its URL.
    pub url: String,
    _process: Process,
}

impl Minio {
    /// Name of the bucket.
    pub const BUCKET: &str = "backups";
    /// Who may use it.
    pub const USER: &str = "benchmark";
    /// The password.
    pub const PASSWORD: &str = "benchmark-password";

    /// With its data below this directory.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(scratch: &Path) -> Result<Self> {
        let installed = tokio::task::spawn_blocking(|| locate("minio", MINIO_VERSION, &|_| ())).await??;
        let program = installed.program("minio").context("the package is this program")?;
        let (port, console_port, data) = (free_port()?, free_port()?, scratch.join("minio"));
        // Its buckets are the directories under its data.
        std::fs::create_dir_all(data.join(Self::BUCKET))?;
        let (address, console) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{console_port}"));
        let arguments = [
            OsStr::new("server"),
            "--quiet".as_ref(),
            "--address".as_ref(),
            address.as_ref(),
            "--console-address".as_ref(),
            console.as_ref(),
            data.as_os_str(),
        ];
        let env = [("MINIO_ROOT_USER", Self::USER), ("MINIO_ROOT_PASSWORD", Self::PASSWORD), ("MINIO_BROWSER", "off")];
        let process = start(program, &arguments, &env, &scratch.join("minio.log"))?;
        wait_for(port, "MinIO").await?;
        Ok(Self { url: format!("http://{address}"), _process: process })
    }
}
