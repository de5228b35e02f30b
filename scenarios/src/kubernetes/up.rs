//! A real control plane to play with, until Ctrl-C.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use anyhow::Context;
use fake_k8s::process::sandbox;
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};

use super::{ADDRESS, Controllers, Kubernetes};
use crate::live::inside::{End, NO_SANDBOX};

/// Runs it in a new sandbox; `listen` is where kubectl reaches it. To be called before any thread starts.
///
/// # Errors
/// When there is no sandbox to be had, or something does not come up.
pub fn run(listen: SocketAddr, logs: &Path) -> anyhow::Result<End> {
    let programs = super::programs(&|_| {})?;
    let bind = || Ok(vec![TcpListener::bind(listen)?]);
    let mut sandbox = sandbox::enter(bind).context(NO_SANDBOX)?;
    let listener = sandbox.listeners.pop().context("nothing to listen on")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let end = runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let address = listener.local_addr().context("the socket has no address")?;
        let starting = Kubernetes::start(&programs, Controllers::All, logs);
        let kubernetes = tokio::select! {
            started = starting => started?,
            _ = terminate.recv() => return Ok(End::Interrupted),
            _ = interrupt.recv() => return Ok(End::Interrupted),
        };
        let kubeconfig = logs.join("kubeconfig");
        std::fs::write(&kubeconfig, kubernetes.kubeconfig(address)).context("cannot write the kubeconfig")?;
        let forwarding = tokio::spawn(forward(listener));
        tell(&kubeconfig, logs);
        tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
        forwarding.abort();
        kubernetes.stop().await;
        Ok(End::Passed)
    });
    runtime.shutdown_background();
    end
}

/// Each connection from outside becomes one to the API server inside.
async fn forward(listener: TcpListener) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut outside, _) = listener.accept().await?;
        tokio::spawn(async move {
            if let Ok(mut inside) = TcpStream::connect(ADDRESS).await {
                // However it ends, both sides are closed.
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            }
        });
    }
}

#[allow(clippy::print_stdout, reason = "what there is, is told to whoever started this")]
fn tell(kubeconfig: &Path, logs: &Path) {
    println!("export KUBECONFIG={}", kubeconfig.display());
    println!("# a real control plane without nodes: kube-apiserver, kube-controller-manager, etcd");
    println!("# logs: {}", logs.display());
    println!("# Ctrl-C ends all of it.");
}
