//! Everything that a case runs against, inside the sandbox: the Kubernetes API with its kubelets, the object
//! stores, the operator.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fake_k8s::controllers::object;
use fake_k8s::http::access::Access;
use fake_k8s::process::cluster::{Cluster, ClusterConfig};
use fake_k8s::server::{Request, ResourceName, Server, Status};
use serde_json::Value;
use sim::scenario::{OperatorOptions, place, place_of};

use super::operator::Operator;
use super::programs::{Programs, images};
use super::store::Stores;

/// Where the objects of a case live that do not say another place.
pub const NAMESPACE: &str = sim::scenario::NAMESPACE;
/// How long the operator may take to serve its kinds.
const PATIENCE: Duration = Duration::from_secs(60);
const GROUP: &str = "etcd.database.coreos.com";

/// The world of one case.
#[derive(Debug)]
pub struct World {
    /// The Kubernetes API and the pods.
    pub cluster: Cluster,
    /// The operator.
    pub operator: Operator,
    /// The object stores.
    pub store: Stores,
    /// The kubectl that a user would have.
    pub kubectl: Option<PathBuf>,
}

impl World {
    /// Starts everything; returns when our kinds are served and the bucket can be opened. With `access`, the Kubernetes API
    /// is for the operator, kubectl and whoever else has it.
    ///
    /// # Errors
    /// When something does not come up.
    pub async fn start(
        programs: &Programs,
        logs: &Path,
        listeners: Vec<std::net::TcpListener>,
        access: Option<Access>,
        options: &OperatorOptions,
    ) -> anyhow::Result<Self> {
        let access = access.map(Arc::new);
        let config = ClusterConfig { listeners, access, ..ClusterConfig::new(Arc::new(images(programs))) };
        let data = config.run_dir.join("store");
        let cluster = Cluster::start(config).await.context("the Kubernetes API did not start")?;
        let operator = Operator::start(&programs.operator, options, &cluster.kubeconfig, &cluster.run_dir, logs)?;
        for (plural, body) in Stores::objects() {
            let create = Request::create(ResourceName::core(plural), NAMESPACE, body);
            cluster.shared.run(|now, server| server.handle(now, &create))?;
        }
        let store = Stores::start(programs, &data, logs).await?;
        let world = Self { cluster, operator, store, kubectl: programs.kubectl.clone() };
        world.handle(&Request::create(ResourceName::core("secrets"), NAMESPACE, world.store.secret()))?;
        let start = Instant::now();
        let served = |server: &Server| {
            let plurals = ["etcdclusters", "etcdbackups", "etcdrestores"];
            plurals.iter().all(|plural| server.resource(GROUP, "v1beta2", plural).is_some())
        };
        while !world.cluster.shared.run(|_, server| served(server)) {
            if start.elapsed() > PATIENCE {
                bail!("the operator did not create its kinds in {} s", PATIENCE.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(world)
    }

    /// One request to the API.
    ///
    /// # Errors
    /// The API's answer when it says no.
    pub fn handle(&self, request: &Request) -> Result<Value, Status> {
        self.cluster.shared.run(|now, server| server.handle(now, request))
    }

    /// An object of a kind.
    pub fn find(&self, kind: &str, name: &str) -> Option<Arc<Value>> {
        let (namespace, name) = place_of(kind, name);
        self.cluster.shared.run(|_, server| server.peek(&resource(kind), namespace, name))
    }

    /// All objects of a kind in a namespace.
    pub fn all_in(&self, kind: &str, namespace: &str) -> Vec<Arc<Value>> {
        self.cluster.shared.run(|_, server| server.peek_all(&resource(kind), Some(namespace)))
    }

    /// All objects of a kind that carry the cluster's label.
    pub fn all(&self, kind: &str, cluster: &str) -> Vec<Arc<Value>> {
        let (namespace, name) = place(cluster);
        let mut all = self.all_in(kind, namespace);
        all.retain(|found| object::text(found, "/metadata/labels/etcd_cluster") == name);
        all
    }

    /// Ends everything; the operator first, so that it sees the others while it gives its leases back.
    ///
    /// # Errors
    /// When the operator did not end in order; everything is ended all the same.
    pub async fn stop(self) -> anyhow::Result<()> {
        let ended = self.operator.end().await;
        self.cluster.shutdown().await;
        self.store.stop().await;
        match ended? {
            Some(status) if !status.success() => bail!("the operator that was asked to stop ended with {status}"),
            _ => Ok(()),
        }
    }
}

/// The resource of a kind.
pub fn resource(kind: &str) -> ResourceName {
    match kind {
        "EtcdCluster" | "EtcdBackup" | "EtcdRestore" => {
            ResourceName::new(GROUP, "v1beta2", format!("{}s", kind.to_lowercase()))
        }
        "Endpoints" => ResourceName::core("endpoints"),
        "Lease" => ResourceName::new("coordination.k8s.io", "v1", "leases"),
        other => ResourceName::core(format!("{}s", other.to_lowercase())),
    }
}
