//! The controllers of a Kubernetes cluster as step machines: each talks to nobody but the server, is told the time, and says
//! when it wants to be woken. A simulator calls them in any order and as late as it likes; `process/` calls them after every
//! commit.
pub mod endpoints;
pub mod garbage_collector;
pub mod informer;
pub mod kubelet;
pub mod namespaces;
pub mod object;
pub mod recorder;
pub mod runtime;
pub mod scheduler;
pub mod volumes;

use jiff::Timestamp;
use serde_json::Value;

use crate::server::Server;

/// A step machine that talks to the server only.
pub trait Controller {
    /// Does all that can be done now. Writes nothing when there is nothing to change.
    fn step(&mut self, now: Timestamp, server: &mut Server);

    /// When the next step is due although nothing happens.
    fn wake_at(&self) -> Option<Timestamp>;
}

/// What a cluster has beside its nodes, with the StorageClass that is there from the start.
pub fn cluster_controllers(storage_class: Value) -> Vec<Box<dyn Controller + Send>> {
    vec![
        Box::new(volumes::Volumes::with_class(true, storage_class)),
        Box::new(scheduler::Scheduler::new(true)),
        Box::new(endpoints::EndpointsController::new()),
        Box::new(garbage_collector::GarbageCollector::new()),
        Box::new(namespaces::Namespaces),
    ]
}
