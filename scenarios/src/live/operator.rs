//! The built operator as a process in the sandbox. As in Kubernetes it is started again when it ends; ending by itself
//! fails the case all the same.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
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
    Kill,
    Stop,
}

impl Operator {
    /// Starts it.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(program: &Path, kubeconfig: &Path, logs: &Path) -> anyhow::Result<Self> {
        let log = logs.join("operator.log");
        let (orders, mut received) = mpsc::channel(4);
        let ended_by_itself: Arc<Mutex<Vec<String>>> = Arc::default();
        let launch = {
            let (program, kubeconfig, log) = (program.to_owned(), kubeconfig.to_owned(), log.clone());
            move || spawn(&program, &kubeconfig, &log)
        };
        let mut child = launch()?;
        let ends = ended_by_itself.clone();
        let supervisor = tokio::spawn(async move {
            loop {
                tokio::select! {
                    ended = child.wait() => {
                        let how = ended.map_or_else(|cause| cause.to_string(), |status| status.to_string());
                        ends.lock().unwrap_or_else(PoisonError::into_inner).push(how);
                    }
                    order = received.recv() => match order {
                        // It may have ended just now, which is what is wanted.
                        Some(Order::Kill) => drop(child.kill().await),
                        Some(Order::Stop) | None => return stop(&mut child).await,
                    },
                }
                tokio::time::sleep(RESTART_PAUSE).await;
                match launch() {
                    Ok(started) => child = started,
                    Err(cause) => {
                        ends.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{cause:#}"));
                        return;
                    }
                }
            }
        });
        Ok(Self { orders, supervisor, ended_by_itself, log })
    }

    /// SIGKILL; it is started again at once.
    pub async fn kill(&self) {
        // A supervisor that is gone has said why in `ended_by_itself`.
        let _ = self.orders.send(Order::Kill).await;
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

    /// SIGTERM, and SIGKILL when that does not help.
    pub async fn stop(self) {
        let _ = self.orders.send(Order::Stop).await;
        let _ = self.supervisor.await;
    }
}

async fn stop(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // It may have ended just now, which is what is wanted.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

fn spawn(program: &Path, kubeconfig: &Path, log: &Path) -> anyhow::Result<Child> {
    let out = OpenOptions::new().create(true).append(true).open(log);
    let out = out.with_context(|| format!("cannot write {}", log.display()))?;
    let err = out.try_clone().context("cannot share the log")?;
    let mut command = Command::new(program);
    command
        .args(["--namespace", "default", "--listen-addr", LISTEN, "--log-format", "text"])
        .args(["--agent-image", AGENT_IMAGE, "--replace-after-seconds", &REPLACE_AFTER_SECONDS.to_string()])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("RUST_BACKTRACE", "1"), ("MY_POD_NAME", "etcd-operator")])
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .kill_on_drop(true);
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}
