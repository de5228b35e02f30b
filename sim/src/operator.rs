//! The operator's own controller, started over the simulated ports.

use std::sync::Arc;

use etcd_operator::controller::{Options, run};
use etcd_operator::leadership::Candidate;
use etcd_operator::ports::{Controller, NoMeter, Scope};
use etcd_operator::validate::Settings;
use futures::channel::oneshot;
use jiff::SignedDuration;

use crate::run::NAMESPACE;
use crate::world::Shared;

/// The image whose agent mode starts etcd in each member's pod.
pub const AGENT_IMAGE: &str = "etcd-operator:sim";

/// Small, so that the small snapshots of the simulation go up in several parts.
const PART_BYTES: usize = 8 * 1024;

/// One life of the operator, until it is asked to stop. It never ends by itself, unless it gives up.
pub async fn start(shared: &Shared, life: u64, asked: oneshot::Receiver<()>) {
    let clusterwide = shared.enter().operator.clusterwide;
    let options = Options {
        scope: if clusterwide { Scope::Cluster } else { Scope::Namespace(NAMESPACE.to_owned()) },
        clusterwide,
        controllers: Controller::ALL.iter().copied().collect(),
        settings: Settings { agent_image: AGENT_IMAGE.to_owned(), replace_after: SignedDuration::from_mins(5) },
        part_bytes: PART_BYTES,
        candidate: Candidate { namespace: NAMESPACE.to_owned(), identity: format!("operator-{life}") },
    };
    let stop = async move {
        // Whoever could ask is gone: then nobody does.
        if asked.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    run(crate::port::ports(shared, life), options, Arc::new(NoMeter), stop).await;
}
