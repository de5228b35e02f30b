//! The built operator as a process in the sandbox. As in Kubernetes it is started again when it ends; ending by itself
//! fails the case all the same.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use sim::scenario::{NAMESPACE, OperatorOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::programs::AGENT_IMAGE;

/// Where it serves its metrics.
const LISTEN: &str = "127.0.0.1:8080";
/// How long an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long it gets to give its leases back.
const GRACE: Duration = Duration::from_secs(25);
/// Between its end and its next start.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// A member that does not answer is replaced after so long: short, because a case must not take minutes.
const REPLACE_AFTER_SECONDS: u32 = 20;

/// The operator, restarted whenever it ends.
#[derive(Debug)]
pub struct Operator {
    orders: mpsc::Sender<Order>,
    supervisor: JoinHandle<()>,
    ended_by_itself: Arc<Mutex<Vec<String>>>,
    /// What it writes.
    pub log: PathBuf,
}

#[derive(Debug)]
enum Order {
    Kill(oneshot::Sender<anyhow::Result<()>>),
    Stop(oneshot::Sender<anyhow::Result<ExitStatus>>),
    Start,
}

/// How it is started.
#[derive(Clone, Debug)]
struct Launch {
    program: PathBuf,
    kubeconfig: PathBuf,
    log: PathBuf,
    cluster_wide: bool,
}

impl Operator {
    /// Starts it; `links` is where it gets another name, if the case wants that.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(
        program: &Path,
        options: &OperatorOptions,
        kubeconfig: &Path,
        links: &Path,
        logs: &Path,
    ) -> anyhow::Result<Self> {
        let log = logs.join("operator.log");
        let program = match &options.program {
            None => program.to_owned(),
            Some(name) => {
                let link = links.join(name);
                std::os::unix::fs::symlink(program, &link)
                    .with_context(|| format!("cannot link {} to the operator", link.display()))?;
                link
            }
        };
        let (kubeconfig, cluster_wide) = (kubeconfig.to_owned(), options.cluster_wide);
        let launch = Launch { program, kubeconfig, log: log.clone(), cluster_wide };
        let (orders, received) = mpsc::channel(4);
        let ended_by_itself: Arc<Mutex<Vec<String>>> = Arc::default();
        let child = launch.spawn()?;
        let supervisor = tokio::spawn(supervise(launch, child, received, ended_by_itself.clone()));
        Ok(Self { orders, supervisor, ended_by_itself, log })
    }

    /// SIGKILL; it is started again at once.
    ///
    /// # Errors
    /// When it does not run: nothing would be interrupted.
    pub async fn kill(&self) -> anyhow::Result<()> {
        let (told, killed) = oneshot::channel();
        self.orders.send(Order::Kill(told)).await.ok().context("nobody starts the operator any more")?;
        killed.await.context("nobody starts the operator any more")?
    }

    /// SIGTERM; how it ended. It stays away until it is started again.
    ///
    /// # Errors
    /// When it does not run, or does not end in its time.
    pub async fn stop(&self) -> anyhow::Result<ExitStatus> {
        let (told, ended) = oneshot::channel();
        self.orders.send(Order::Stop(told)).await.ok().context("nobody starts the operator any more")?;
        ended.await.context("nobody starts the operator any more")?
    }

    /// Starts it again after a stop.
    pub async fn start_again(&self) {
        // A supervisor that is gone has said why in `ended_by_itself`.
        let _ = self.orders.send(Order::Start).await;
    }

    /// What it answers to a GET of this path.
    ///
    /// # Errors
    /// When it does not answer, or with anything but 200.
    pub async fn get(&self, path: &str) -> anyhow::Result<String> {
        let asking = async {
            let mut stream = TcpStream::connect(LISTEN).await.context("the operator does not listen")?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: {LISTEN}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            let (head, body) = answer.split_once("\r\n\r\n").context("no answer in HTTP")?;
            anyhow::ensure!(head.starts_with("HTTP/1.1 200 "), "{path} is answered with {head}: {body}");
            Ok(body.to_owned())
        };
        tokio::time::timeout(ANSWER_PATIENCE, asking).await.context("no answer in time")?
    }

    /// How it ended without being told to, each time.
    pub fn ended_by_itself(&self) -> Vec<String> {
        self.ended_by_itself.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The end of it: SIGTERM if it runs, and how it ended then.
    ///
    /// # Errors
    /// When it does not end in its time; then it is killed.
    pub async fn end(self) -> anyhow::Result<Option<ExitStatus>> {
        let ended = self.stop().await;
        drop(self.orders);
        // It ends when there is nobody left to give orders.
        let _ = self.supervisor.await;
        match ended {
            Err(error) if error.is::<Away>() => Ok(None),
            ended => ended.map(Some),
        }
    }
}

/// It was stopped before.
#[derive(Debug, thiserror::Error)]
#[error("the operator does not run")]
struct Away;

/// As in Kubernetes, it is started again whenever it ends, until it is told to stay away.
async fn supervise(launch: Launch, child: Child, mut orders: mpsc::Receiver<Order>, ends: Arc<Mutex<Vec<String>>>) {
    let note = |how: String| ends.lock().unwrap_or_else(PoisonError::into_inner).push(how);
    let mut running = Some(child);
    loop {
        let order = match running.as_mut() {
            None => orders.recv().await,
            Some(child) => tokio::select! {
                ended = child.wait() => {
                    note(ended.map_or_else(|cause| cause.to_string(), |status| status.to_string()));
                    running = None;
                    tokio::time::sleep(RESTART_PAUSE).await;
                    Some(Order::Start)
                }
                order = orders.recv() => order,
            },
        };
        match (order, running.take()) {
            (Some(Order::Kill(told)), Some(mut child)) => {
                // Whoever asked may have given up.
                let _ = told.send(child.kill().await.context("the operator cannot be killed"));
                tokio::time::sleep(RESTART_PAUSE).await;
            }
            (Some(Order::Start), None) => {}
            (Some(Order::Stop(told)), Some(mut child)) => {
                // Whoever asked may have given up.
                let _ = told.send(stop(&mut child).await);
                continue;
            }
            (Some(Order::Stop(told)), None) => {
                let _ = told.send(Err(Away.into()));
                continue;
            }
            (Some(Order::Kill(told)), None) => {
                let _ = told.send(Err(Away.into()));
                continue;
            }
            (Some(Order::Start), child @ Some(_)) => {
                running = child;
                continue;
            }
            (None, _) => return,
        }
        match launch.spawn() {
            Ok(started) => running = Some(started),
            Err(cause) => return note(format!("{cause:#}")),
        }
    }
}

async fn stop(child: &mut Child) -> anyhow::Result<ExitStatus> {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // It may have ended just now, which is what is wanted.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
    }
    if let Ok(ended) = tokio::time::timeout(GRACE, child.wait()).await {
        return ended.context("the operator is lost");
    }
    // It is to be gone in any case.
    let _ = child.kill().await;
    anyhow::bail!("the operator did not end within {} s of SIGTERM", GRACE.as_secs())
}

impl Launch {
    fn spawn(&self) -> anyhow::Result<Child> {
        let out = OpenOptions::new().create(true).append(true).open(&self.log);
        let out = out.with_context(|| format!("cannot write {}", self.log.display()))?;
        let err = out.try_clone().context("cannot share the log")?;
        let mut command = Command::new(&self.program);
        command
            .args(["--namespace", NAMESPACE, "--listen-addr", LISTEN, "--log-format", "text"])
            .args(["--agent-image", AGENT_IMAGE, "--replace-after-seconds", &REPLACE_AFTER_SECONDS.to_string()])
            .args(self.cluster_wide.then_some("-cluster-wide"))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("RUST_BACKTRACE", "1"), ("MY_POD_NAME", "etcd-operator")])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .kill_on_drop(true);
        command.spawn().with_context(|| format!("cannot start {}", self.program.display()))
    }
}
