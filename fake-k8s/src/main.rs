//! `fake-k8s serve`: an API server in memory that `kubectl` talks to, and with `--process-kubelet` a whole cluster whose
//! pods are processes of this machine.
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use fake_k8s::Server;
use fake_k8s::controllers::cluster_controllers;
use fake_k8s::controllers::volumes::standard_class;
use fake_k8s::http::access::Access;
use fake_k8s::http::driver::drive;
use fake_k8s::http::{Shared, serve};
use fake_k8s::process::cluster::{Cluster, ClusterConfig};
use fake_k8s::process::images::ImageTable;
use fake_k8s::process::sandbox;

#[derive(Parser)]
#[command(about = "A Kubernetes API server in memory")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API until Ctrl-C or SIGTERM: on plain HTTP for everybody, or with TLS for who has the token.
    Serve(Serve),
}

#[derive(Args)]
struct Serve {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8001")]
    listen: SocketAddr,
    /// Write a kubeconfig that leads here.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Certificate of the server, in PEM.
    #[arg(long, requires_all = ["tls_key", "tls_ca", "token_file"])]
    tls_cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The authority that clients are to trust.
    #[arg(long, requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// A file with the bearer token that every request must show.
    #[arg(long, requires = "tls_cert")]
    token_file: Option<PathBuf>,
    /// Where uids and generated names come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run pods as processes in a sandbox (Linux, as root or with unprivileged user namespaces).
    #[arg(long)]
    process_kubelet: bool,
    /// The images that there are, as YAML: a list of `image`, `files` (`source`, `target`), `entrypoint`, `arguments`, `env`.
    #[arg(long, requires = "process_kubelet")]
    images: Option<PathBuf>,
    /// How many nodes there are.
    #[arg(long, default_value_t = 3, requires = "process_kubelet")]
    nodes: u32,
    /// Where pods, volumes and logs are kept; by default in memory that goes with the sandbox.
    #[arg(long, requires = "process_kubelet")]
    run_dir: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    sandbox::dispatch();
    let Command::Serve(arguments) = Arguments::parse().command;
    let access = access(&arguments)?;
    // Bound outside: inside a sandbox the host's loopback is out of reach.
    let bind = || {
        let listener = TcpListener::bind(arguments.listen)?;
        if let Some(path) = &arguments.kubeconfig {
            let address = listener.local_addr()?;
            let open = || fake_k8s::http::kubeconfig(address);
            std::fs::write(path, access.as_ref().map_or_else(open, |access| access.kubeconfig(address)))?;
        }
        Ok(vec![listener])
    };
    let listeners = match arguments.process_kubelet {
        true => sandbox::enter(bind)?.listeners,
        false => bind().with_context(|| format!("cannot listen on {}", arguments.listen))?,
    };
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::new("info")).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no async runtime")?;
    runtime.block_on(run(&arguments, access.clone(), listeners))
}

async fn run(arguments: &Serve, access: Option<Arc<Access>>, mut listeners: Vec<TcpListener>) -> anyhow::Result<()> {
    let address =
        listeners.first().context("nothing to listen on")?.local_addr().context("the socket has no address")?;
    if !arguments.process_kubelet {
        tracing::info!(%address, "serving");
        let (listener, shared) = (listeners.remove(0), Shared::new(Server::new(arguments.seed)));
        // Pods are scheduled, and stay Pending: there is no node.
        let driving = drive(shared.clone(), cluster_controllers(standard_class()), std::future::pending());
        return tokio::select! {
            result = serve(shared, listener, access, stopped()) => result.context("serving failed"),
            () = driving => anyhow::bail!("the controllers stopped"),
        };
    }
    let images = arguments.images.as_deref().map_or_else(|| Ok(ImageTable::default()), read_images)?;
    let mut config = ClusterConfig {
        seed: arguments.seed,
        nodes: arguments.nodes,
        listeners,
        access,
        ..ClusterConfig::new(Arc::new(images))
    };
    if let Some(run_dir) = &arguments.run_dir {
        config.run_dir.clone_from(run_dir);
    }
    let cluster = Cluster::start(config).await.context("the cluster did not start")?;
    tracing::info!(%address, inside = %cluster.address, "serving, with a process kubelet");
    stopped().await;
    tracing::info!("stopping");
    cluster.shutdown().await;
    Ok(())
}

/// What the four files say, if they are given.
fn access(arguments: &Serve) -> anyhow::Result<Option<Arc<Access>>> {
    let Serve { tls_cert: Some(certificate), tls_key: Some(key), tls_ca: Some(ca), token_file: Some(token), .. } =
        arguments
    else {
        return Ok(None);
    };
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let access = Access::new(&read(certificate)?, &read(key)?, &read(ca)?, read(token)?.trim());
    Ok(Some(Arc::new(access.map_err(anyhow::Error::msg)?)))
}

fn read_images(path: &Path) -> anyhow::Result<ImageTable> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is no table of images", path.display()))
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
