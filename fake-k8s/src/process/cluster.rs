//! A whole cluster in the sandbox: server, controllers, one kubelet and runtime per node, names and Service addresses.
//!
//! One task drives the step machines: it steps all of them after every commit and every report of a runtime, and when one
//! of them asked to be woken.
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::images::Images;
use super::logs::PodLogs;
use super::network::{GATEWAY, Network};
use super::proxy::Proxy;
use super::runtime::{ProcessRuntime, RuntimeConfig};
use super::{dns, sandbox};
use crate::controllers::informer::Informer;
use crate::controllers::kubelet::{Kubelet, KubeletConfig};
use crate::controllers::object;
use crate::controllers::runtime::{RuntimeCommand, RuntimeEvent};
use crate::controllers::volumes::standard_class;
use crate::controllers::{Controller, cluster_controllers};
use crate::http::access::Access;
use crate::http::{self, Shared};
use crate::server::{ResourceName, Server};

/// The API's port on the gateway's address, for those inside.
const API_PORT: u16 = 6443;
/// Commits that a slow watcher may be behind.
const HISTORY_KEPT: usize = 20_000;
/// How often the history is cut.
const HISTORY_STEP: u64 = 5_000;
/// The longest sleep of the driver.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// Rounds of all step machines before the driver looks up again.
const ROUNDS_MAX: usize = 100;

/// What a cluster is made of.
pub struct ClusterConfig {
    /// Where everything is kept. In the sandbox `/run` is memory that goes with it.
    pub run_dir: PathBuf,
    /// Where images come from.
    pub images: Arc<dyn Images>,
    /// How many nodes there are: `node-1` and so on.
    pub nodes: u32,
    /// Of uids and generated names.
    pub seed: u64,
    /// The cluster's domains; the first is in the pods' search path.
    pub domains: Vec<String>,
    /// The StorageClass that is there from the start.
    pub storage_class: Value,
    /// Listeners from outside the sandbox on which the API is served too.
    pub listeners: Vec<TcpListener>,
    /// Who is let in; everybody when it is not said.
    pub access: Option<Arc<Access>>,
}

impl ClusterConfig {
    /// Three nodes under `/run/fake-k8s`, with the domain `cluster.local`.
    pub fn new(images: Arc<dyn Images>) -> Self {
        Self {
            run_dir: PathBuf::from("/run/fake-k8s"),
            images,
            nodes: 3,
            seed: 1,
            domains: vec!["cluster.local".to_owned()],
            storage_class: standard_class(),
            listeners: Vec::new(),
            access: None,
        }
    }
}

impl std::fmt::Debug for ClusterConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("ClusterConfig");
        shown.field("run_dir", &self.run_dir).field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

/// A running cluster.
pub struct Cluster {
    /// The server, for those in the same process.
    pub shared: Shared,
    /// The API for processes in the sandbox.
    pub address: SocketAddr,
    /// A kubeconfig that leads to it.
    pub kubeconfig: PathBuf,
    /// Where everything is kept.
    pub run_dir: PathBuf,
    runtimes: Vec<(String, ProcessRuntime)>,
    stop: watch::Sender<bool>,
    driver: JoinHandle<()>,
    servers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Cluster");
        shown.field("address", &self.address).field("run_dir", &self.run_dir).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Starts everything. To be called inside a sandbox (see [`sandbox::enter`]) and in a tokio runtime.
    pub async fn start(config: ClusterConfig) -> io::Result<Self> {
        fs::create_dir_all(&config.run_dir)?;
        let domain = config.domains.first().cloned().unwrap_or("cluster.local".to_owned());
        let network = Arc::new(Mutex::new(Network::create().map_err(io::Error::other)?));
        let resolver = config.run_dir.join("resolv.conf");
        let search = format!("search default.svc.{domain} svc.{domain} {domain}");
        fs::write(&resolver, format!("{search}\nnameserver {GATEWAY}\noptions ndots:5\n"))?;
        sandbox::use_resolver(&resolver).map_err(io::Error::other)?;

        let shared = Shared::new(Server::new(config.seed));
        let (stop, stopped) = watch::channel(false);
        let mut servers = Vec::new();
        let inside = TcpListener::bind((GATEWAY, API_PORT))?;
        let address = inside.local_addr()?;
        for listener in config.listeners.into_iter().chain([inside]) {
            let (shared, access, mut stopped) = (shared.clone(), config.access.clone(), stopped.clone());
            servers.push(tokio::spawn(async move {
                let until = async move { drop(stopped.wait_for(|stop| *stop).await) };
                if let Err(cause) = http::serve(shared, listener, access, until).await {
                    tracing::error!(%cause, "the API is not served any more");
                }
            }));
        }
        let (names, domains) = (shared.clone(), config.domains.clone());
        servers.push(tokio::spawn(async move {
            if let Err(cause) = dns::serve(names, domains, SocketAddr::from((GATEWAY, 53))).await {
                tracing::error!(%cause, "names are not resolved");
            }
        }));
        let kubeconfig = config.run_dir.join("kubeconfig");
        let text =
            config.access.as_ref().map_or_else(|| http::kubeconfig(address), |access| access.kubeconfig(address));
        fs::write(&kubeconfig, text)?;

        let (events, received) = mpsc::unbounded_channel();
        let mut nodes = Vec::new();
        for number in 1..=config.nodes {
            let name = format!("node-{number}");
            let run_dir = config.run_dir.clone();
            let runtime_config = RuntimeConfig { run_dir, cluster_domain: domain.clone(), resolver: GATEWAY };
            let (runtime, mut reports) = ProcessRuntime::start(runtime_config, config.images.clone(), network.clone())?;
            let (events, index) = (events.clone(), nodes.len());
            tokio::spawn(async move {
                while let Some(event) = reports.recv().await {
                    if events.send((index, event)).is_err() {
                        return;
                    }
                }
            });
            nodes.push(Node { kubelet: Kubelet::new(&name, kubelet_config()), runtime, reports: Vec::new() });
        }
        let runtimes: Vec<_> =
            nodes.iter().map(|node| (node.kubelet.node().to_owned(), node.runtime.clone())).collect();
        let sources = runtimes.iter().map(|(_, runtime)| runtime.clone()).collect();
        shared.set_log_source(Arc::new(PodLogs { runtimes: sources }));
        // What a cluster has from the start is there before anybody can ask: a claim made before the default StorageClass
        // would be one without a class.
        let mut controllers = cluster_controllers(config.storage_class);
        shared.run(|now, server| controllers.iter_mut().for_each(|controller| controller.step(now, server)));
        let driver = Driver {
            shared: shared.clone(),
            controllers,
            nodes,
            volumes: Informer::new(ResourceName::core("persistentvolumes")),
            proxy: Proxy::new(),
            compacted: 0,
        };
        let driver = tokio::spawn(driver.run(received, stopped));
        Ok(Self { shared, address, kubeconfig, run_dir: config.run_dir, runtimes, stop, driver, servers })
    }

    /// Stops serving, kills every container and waits until they are gone.
    pub async fn shutdown(self) {
        let _ = self.stop.send(true);
        let _ = self.driver.await;
        let runtimes: Vec<_> = self.runtimes.into_iter().map(|(_, runtime)| runtime).collect();
        let killing = tokio::task::spawn_blocking(move || runtimes.iter().for_each(ProcessRuntime::shut_down));
        let _ = killing.await;
        self.servers.iter().for_each(JoinHandle::abort);
    }

    /// Fault: a signal to a container (SIGKILL, or SIGSTOP and SIGCONT).
    pub fn signal_container(&self, namespace: &str, pod: &str, container: &str, signal: Signal) -> Result<(), String> {
        let (uid, runtime) = self.place(namespace, pod)?;
        runtime.signal(&uid, container, signal)
    }

    /// Fault: a pod is cut off from everything but itself, or joined again.
    pub fn cut_network(&self, namespace: &str, pod: &str, off: bool) -> Result<(), String> {
        let (uid, runtime) = self.place(namespace, pod)?;
        runtime.cut_network(&uid, off)
    }

    /// Fault: the data behind a claim is lost, the claim stays bound.
    pub fn destroy_claim_data(&self, namespace: &str, claim: &str) -> Result<(), String> {
        let directory = self.claim_volume(namespace, claim)?;
        let (_, runtime) = self.runtimes.first().ok_or("there is no node")?;
        runtime.destroy_volume(&directory)
    }

    /// The directory of a claim's data.
    pub fn claim_directory(&self, namespace: &str, claim: &str) -> Result<PathBuf, String> {
        let volume = self.claim_volume(namespace, claim)?;
        let (_, runtime) = self.runtimes.first().ok_or("there is no node")?;
        Ok(runtime.volume_directory(&volume))
    }

    /// The process ids, in the sandbox, of all containers that run.
    pub fn running(&self) -> Vec<i32> {
        self.runtimes.iter().flat_map(|(_, runtime)| runtime.running()).collect()
    }

    fn claim_volume(&self, namespace: &str, claim: &str) -> Result<String, String> {
        let claims = ResourceName::core("persistentvolumeclaims");
        let found = self.shared.run(|_, server| server.peek(&claims, namespace, claim));
        let found = found.ok_or_else(|| format!("no claim {namespace}/{claim}"))?;
        match object::text(&found, "/spec/volumeName") {
            "" => Err(format!("claim {namespace}/{claim} is not bound")),
            volume => Ok(volume.to_owned()),
        }
    }

    fn place(&self, namespace: &str, pod: &str) -> Result<(String, &ProcessRuntime), String> {
        let found = self.shared.run(|_, server| server.peek(&ResourceName::core("pods"), namespace, pod));
        let found = found.ok_or_else(|| format!("no pod {namespace}/{pod}"))?;
        let node = object::text(&found, "/spec/nodeName");
        let runtime = self.runtimes.iter().find(|(name, _)| name == node);
        let (_, runtime) = runtime.ok_or_else(|| format!("pod {namespace}/{pod} is on no node of this cluster"))?;
        Ok((object::uid(&found).to_owned(), runtime))
    }
}

fn kubelet_config() -> KubeletConfig {
    let env = |key: &str, value: String| (key.to_owned(), value);
    KubeletConfig {
        address: GATEWAY.to_string(),
        env: vec![
            env("KUBERNETES_SERVICE_HOST", GATEWAY.to_string()),
            env("KUBERNETES_SERVICE_PORT", API_PORT.to_string()),
        ],
        retry: SignedDuration::from_secs(1),
        ..KubeletConfig::default()
    }
}

struct Node {
    kubelet: Kubelet,
    runtime: ProcessRuntime,
    reports: Vec<RuntimeEvent>,
}

struct Driver {
    shared: Shared,
    controllers: Vec<Box<dyn Controller + Send>>,
    nodes: Vec<Node>,
    volumes: Informer,
    proxy: Proxy,
    compacted: u64,
}

impl Driver {
    async fn run(
        mut self,
        mut events: mpsc::UnboundedReceiver<(usize, RuntimeEvent)>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut commits = self.shared.subscribe();
        loop {
            commits.mark_unchanged();
            let wake = self.step();
            let now = self.shared.now();
            let sleep = wake.map_or(SLEEP_MAX, |at| at.duration_since(now).try_into().unwrap_or(Duration::ZERO));
            tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => return,
                _ = commits.changed() => {}
                Some((node, event)) = events.recv() => self.nodes[node].reports.push(event),
                () = tokio::time::sleep(sleep.min(SLEEP_MAX)) => {}
            }
            while let Ok((node, event)) = events.try_recv() {
                self.nodes[node].reports.push(event);
            }
        }
    }

    /// Steps everything until nobody has anything more to do at this moment; when to wake up in any case.
    fn step(&mut self) -> Option<Timestamp> {
        let Self { shared, controllers, nodes, volumes, proxy, compacted } = self;
        for _ in 0..ROUNDS_MAX {
            let (orders, gone, idle) = shared.run(|now, server| {
                let before = server.resource_version();
                controllers.iter_mut().for_each(|controller| controller.step(now, server));
                let step = |node: &mut Node| node.kubelet.step(now, server, std::mem::take(&mut node.reports));
                let orders: Vec<Vec<RuntimeCommand>> = nodes.iter_mut().map(step).collect();
                proxy.step(server, shared);
                let gone: Vec<_> = volumes.sync(server).into_iter().filter(|change| change.new.is_none()).collect();
                let after = server.resource_version();
                if after > *compacted + HISTORY_STEP {
                    server.compact(HISTORY_KEPT);
                    *compacted = after;
                }
                (orders, gone, after == before)
            });
            for (node, orders) in nodes.iter().zip(orders) {
                orders.into_iter().for_each(|order| node.runtime.execute(order));
            }
            for change in gone {
                if let Some(node) = nodes.first() {
                    node.runtime.delete_volume(&change.key.1);
                }
            }
            if idle {
                break;
            }
        }
        let kubelets = self.nodes.iter().map(|node| node.kubelet.wake_at());
        kubelets.chain(self.controllers.iter().map(|controller| controller.wake_at())).flatten().min()
    }
}
