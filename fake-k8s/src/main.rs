//! `fake-k8s serve`: an API server in memory that `kubectl` talks to.
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, Subcommand};
use fake_k8s::Server;
use fake_k8s::controllers::Controller;
use fake_k8s::controllers::endpoints::EndpointsController;
use fake_k8s::controllers::garbage_collector::GarbageCollector;
use fake_k8s::controllers::namespaces::Namespaces;
use fake_k8s::controllers::scheduler::Scheduler;
use fake_k8s::controllers::volumes::Volumes;
use fake_k8s::http::driver::drive;
use fake_k8s::http::{Shared, serve};

#[derive(Parser)]
#[command(about = "A Kubernetes API server in memory")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API on plain HTTP until Ctrl-C or SIGTERM.
    Serve {
        /// Where to listen; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:8001")]
        listen: SocketAddr,
        /// Write a kubeconfig that leads here.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Where uids and generated names come from.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::new("info")).init();
    let Command::Serve { listen, kubeconfig, seed } = Arguments::parse().command;
    let listener = TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr().context("the socket has no address")?;
    if let Some(path) = &kubeconfig {
        std::fs::write(path, fake_k8s::http::kubeconfig(address))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    tracing::info!(%address, "serving");
    let shared = Shared::new(Server::new(seed));
    // Kubelets are controllers too: whoever runs containers puts one for each node into this list.
    let controllers = cluster_controllers();
    let driving = drive(shared.clone(), controllers, std::future::pending());
    tokio::select! {
        result = serve(shared, listener, stopped()) => result.context("serving failed"),
        () = driving => anyhow::bail!("the controllers stopped"),
    }
}

/// What a cluster has beside its nodes.
fn cluster_controllers() -> Vec<Box<dyn Controller + Send>> {
    vec![
        Box::new(GarbageCollector::new()),
        Box::new(Scheduler::new(true)),
        Box::new(Volumes::new(true)),
        Box::new(EndpointsController::new()),
        Box::new(Namespaces),
    ]
}

/// Ctrl-C or SIGTERM.
async fn stopped() {
    let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    match terminate {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}
