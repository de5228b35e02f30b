//! A real Kubernetes control plane: kube-apiserver with its etcd, and kube-controller-manager where it is wanted. No nodes.
//!
//! It runs in a sandbox of its own (docs/adr/0011), so that nothing of it is left however the driver ends, and everything
//! listens on that sandbox's loopback. What is asked from outside goes through a listener that was bound there.
#![allow(clippy::disallowed_methods, reason = "a real server lives in the time of this machine")]

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fake_k8s::conformance::client::OverHttp;
use fake_k8s::conformance::{Api, Call};
use fake_k8s::http::access;
use tokio::process::{Child, Command};

use crate::binaries::{self, Installed, catalogue};
use crate::live::certificates::Authority;
use crate::live::store::random_word;

pub mod types;
pub mod up;

/// The etcd that keeps its objects.
const ETCD: &str = "3.6.10";
/// Where etcd listens, inside.
const ETCD_URL: &str = "http://127.0.0.1:2379";
/// Where the API server listens, inside.
pub const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 6443);
/// How long it may take to come up.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a program gets to end by itself.
const GRACE: Duration = Duration::from_secs(10);
/// Data and keys; the sandbox has a `/run` of its own, in memory.
const FOLDER: &str = "/run/kubernetes";

/// The programs that it is made of.
#[derive(Debug, Clone)]
pub struct Programs {
    etcd: Installed,
    kubernetes: Installed,
}

/// Finds the programs, and builds those that are not there yet.
///
/// # Errors
/// When one cannot be had; the text says what to do.
pub fn programs(report: binaries::Report<'_>) -> anyhow::Result<Programs> {
    let etcd = binaries::locate("etcd", ETCD, report)?;
    let kubernetes = binaries::locate("kubernetes", catalogue::only("kubernetes")?.version, report)?;
    Ok(Programs { etcd, kubernetes })
}

/// What is running in it beside the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// Nothing: objects change only by requests. Service accounts are not asked for, as nothing would make them.
    None,
    /// kube-controller-manager with all that it does.
    All,
}

/// A running control plane.
#[derive(Debug)]
pub struct Kubernetes {
    processes: Vec<(&'static str, Child)>,
    /// The authority to trust, in PEM.
    pub ca: String,
    /// The bearer token of an administrator.
    pub token: String,
}

impl Kubernetes {
    /// Starts it inside a sandbox, and waits until it is ready. It can be reached there at [`ADDRESS`].
    ///
    /// # Errors
    /// When something of it does not come up; its logs say why.
    pub async fn start(programs: &Programs, controllers: Controllers, logs: &Path) -> anyhow::Result<Self> {
        let folder = PathBuf::from(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {FOLDER}"))?;
        let authority = Authority::new("kubernetes")?;
        let token = random_word()?;
        let hosts = vec![ADDRESS.ip().to_string(), "localhost".to_owned(), "kubernetes.default.svc".to_owned()];
        let (certificate, key) = authority.sign("kube-apiserver", hosts)?;
        let (accounts_public, accounts) = authority.sign("service-accounts", Vec::new())?;
        let file = |name: &str, content: &str| -> anyhow::Result<String> {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path.display().to_string())
        };
        let ca = file("ca.crt", &authority.pem)?;
        let accounts = file("service-accounts.key", &accounts)?;
        let accounts_public = file("service-accounts.crt", &accounts_public)?;
        let mut kubernetes = Self { processes: Vec::new(), ca: authority.pem.clone(), token: token.clone() };
        let etcd = [
            "--unsafe-no-fsync".to_owned(),
            format!("--data-dir={FOLDER}/etcd"),
            format!("--listen-client-urls={ETCD_URL}"),
            format!("--advertise-client-urls={ETCD_URL}"),
            "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
        ];
        kubernetes.spawn("etcd", &programs.etcd, &etcd, logs)?;
        let disabled = if controllers == Controllers::None { "ServiceAccount" } else { "" };
        let server = [
            format!("--etcd-servers={ETCD_URL}"),
            format!("--secure-port={}", ADDRESS.port()),
            format!("--bind-address={}", ADDRESS.ip()),
            format!("--advertise-address={}", ADDRESS.ip()),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={}", file("server.crt", &certificate)?),
            format!("--tls-private-key-file={}", file("server.key", &key)?),
            format!("--token-auth-file={}", file("tokens", &format!("{token},admin,1,\"system:masters\"\n"))?),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={accounts_public}"),
            format!("--service-account-signing-key-file={accounts}"),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--disable-admission-plugins={disabled}"),
        ];
        kubernetes.spawn("kube-apiserver", &programs.kubernetes, &server, logs)?;
        kubernetes.wait_until_ready(logs).await?;
        if controllers == Controllers::All {
            let kubeconfig = file("kubeconfig", &kubernetes.kubeconfig(ADDRESS))?;
            let manager = [
                format!("--kubeconfig={kubeconfig}"),
                format!("--service-account-private-key-file={accounts}"),
                format!("--root-ca-file={ca}"),
                "--leader-elect=false".to_owned(),
                "--bind-address=127.0.0.1".to_owned(),
            ];
            kubernetes.spawn("kube-controller-manager", &programs.kubernetes, &manager, logs)?;
        }
        Ok(kubernetes)
    }

    fn spawn(&mut self, name: &'static str, from: &Installed, arguments: &[String], logs: &Path) -> anyhow::Result<()> {
        let program = from.program(name).with_context(|| format!("{} has no {name}", from.name))?;
        let log = File::create(logs.join(format!("{name}.log"))).with_context(|| format!("cannot write {name}.log"))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        self.processes.push((name, child));
        Ok(())
    }

    async fn wait_until_ready(&mut self, logs: &Path) -> anyhow::Result<()> {
        let (api, start) = (self.api()?, Instant::now());
        loop {
            for (name, child) in &mut self.processes {
                if let Some(status) = child.try_wait()? {
                    bail!("{name} ended ({status}); its log is {}", logs.join(format!("{name}.log")).display());
                }
            }
            let said = match api.call(get("/readyz")).await {
                Ok(reply) if reply.code == 200 => return Ok(()),
                Ok(reply) => reply.body,
                Err(error) => format!("{error:#}"),
            };
            if start.elapsed() > PATIENCE {
                bail!("kube-apiserver was not ready in {} s: {said}", PATIENCE.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A client of an administrator, inside the sandbox.
    ///
    /// # Errors
    /// When there is no TLS to be had.
    pub fn api(&self) -> anyhow::Result<OverHttp> {
        OverHttp::new(&format!("https://{ADDRESS}"), &self.ca, &self.token)
    }

    /// A kubeconfig of an administrator that leads to it through `address`.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        access::kubeconfig(address, &self.ca, &self.token)
    }

    /// Ends it, the last that was started first.
    pub async fn stop(mut self) {
        while let Some((_, mut child)) = self.processes.pop() {
            if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                // It may have ended just now, which is what is wanted.
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
            }
            if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
                // The sandbox ends what this does not.
                let _ = child.kill().await;
            }
        }
    }
}

/// A plain GET.
pub fn get(path: &str) -> Call {
    Call {
        method: "GET".into(),
        uri: path.into(),
        content_type: String::new(),
        accept: String::new(),
        body: Vec::new(),
    }
}
