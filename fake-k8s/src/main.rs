//! `fake-k8s serve`: an API server in memory that `kubectl` talks to.
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, Subcommand};
use fake_k8s::Server;
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
    serve(Shared::new(Server::new(seed)), listener, stopped()).await.context("serving failed")
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
