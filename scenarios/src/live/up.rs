//! A world to play with: the embedded Kubernetes with its kubelets, the operator and the S3 server, until Ctrl-C.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use anyhow::Context;
use fake_k8s::process::sandbox;
use sim::scenario::OperatorOptions;
use tokio::signal::unix::{SignalKind, signal};

use super::inside::{End, NO_SANDBOX};
use super::programs;
use super::store::{SECRET, Stores};
use super::world::World;
use crate::binaries;

/// Builds what is needed.
///
/// # Errors
/// When something cannot be had.
pub fn prepare(report: binaries::Report<'_>) -> anyhow::Result<()> {
    programs::locate_all(report).map(drop)
}

/// Runs it in a new sandbox; `listen` is where kubectl reaches the API. To be called before any thread starts.
///
/// # Errors
/// When there is no sandbox to be had, or something does not come up.
pub fn run(listen: SocketAddr, logs: &Path) -> anyhow::Result<End> {
    let programs = programs::locate_all(&|_| {})?;
    let kubeconfig = logs.join("kubeconfig");
    let bind = || {
        let listener = TcpListener::bind(listen)?;
        std::fs::write(&kubeconfig, fake_k8s::http::kubeconfig(listener.local_addr()?))?;
        Ok(vec![listener])
    };
    let sandbox = sandbox::enter(bind).context(NO_SANDBOX)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    let end = runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let world = World::start(&programs, logs, sandbox.listeners, None, &OperatorOptions::default()).await?;
        tell(&programs, &kubeconfig, logs);
        tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
        world.stop().await?;
        Ok(End::Passed)
    });
    runtime.shutdown_background();
    end
}

#[allow(clippy::print_stdout, reason = "what there is, is told to whoever started this")]
fn tell(programs: &programs::Programs, kubeconfig: &Path, logs: &Path) {
    let versions: Vec<&str> = programs.etcds.iter().map(|etcd| etcd.version.as_str()).collect();
    println!("export KUBECONFIG={}", kubeconfig.display());
    println!("# etcd {}", versions.join(", "));
    println!("# S3 and OSS in the cluster: {}, buckets backups and other, Secret {SECRET}", Stores::endpoint());
    println!("# logs: {}", logs.display());
    println!("# Ctrl-C ends all of it.");
}
