//! What the controllers tell the metrics. Production counts it; the simulator may look at it.

use jiff::SignedDuration;

use super::target::{Controller, Target};

/// How a pass went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassResult {
    /// To its end.
    Done,
    /// It failed for a reason of this closed set: the `Reason` label of `etcd_operator_cluster_reconcile_failed`.
    Failed(FailureReason),
}

/// Why a pass failed. A closed set, so that the metric's label is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureReason {
    /// The Kubernetes API could not be read.
    KubernetesRead,
    /// The Kubernetes API did not take a write.
    KubernetesWrite,
    /// Somebody else wrote first.
    Conflict,
    /// etcd did not carry out a call.
    Etcd,
    /// The object store did not.
    Store,
    /// The lease was lost meanwhile.
    LeaseLost,
    /// The custom resource cannot be used as it is.
    Spec,
}

impl FailureReason {
    /// As the label's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KubernetesRead => "KubernetesRead",
            Self::KubernetesWrite => "KubernetesWrite",
            Self::Conflict => "Conflict",
            Self::Etcd => "Etcd",
            Self::Store => "Store",
            Self::LeaseLost => "LeaseLost",
            Self::Spec => "Spec",
        }
    }
}

/// How an EtcdCluster entered or left the operator's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterChange {
    /// Seen for the first time.
    Created,
    /// Its spec changed.
    Modified,
    /// Gone.
    Deleted,
}

/// Takes the measurements. Every method returns at once.
pub trait Meter: Send + Sync {
    /// A pass ended.
    fn pass(&self, target: &Target, took: SignedDuration, result: PassResult);
    /// An EtcdCluster came, changed or went.
    fn cluster(&self, change: ClusterChange);
    /// How many EtcdClusters this operator manages, and how many of them are Failed.
    fn clusters(&self, managed: usize, failed: usize);
    /// How many targets of a controller wait for a pass, and whether its lease is ours.
    fn queue(&self, controller: Controller, length: usize, leads: bool);
    /// Whether the caches are filled and the lease question is settled: what /readyz answers.
    fn ready(&self, ready: bool);
    /// The main loop turned: what /livez watches.
    fn alive(&self);
}

/// Measures nothing.
pub struct NoMeter;

impl Meter for NoMeter {
    fn pass(&self, _: &Target, _: SignedDuration, _: PassResult) {}
    fn cluster(&self, _: ClusterChange) {}
    fn clusters(&self, _: usize, _: usize) {}
    fn queue(&self, _: Controller, _: usize, _: bool) {}
    fn ready(&self, _: bool) {}
    fn alive(&self) {}
}
