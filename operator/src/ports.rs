//! Everything that the operator's logic needs of the outside world, as traits.
//!
//! Production gives it the adapters, the simulator its fakes; the logic between is the same.
//! Rules that hold for every method of every port:
//! - it ends within its documented deadline, and its error tells whether the request may have been carried out (`Ambiguous`);
//! - it never retries by itself what is not safe to repeat: the next pass observes and decides again.

pub mod clock;
pub mod etcd;
pub mod fence;
pub mod kubernetes;
pub mod meter;
pub mod object;
pub mod store;
pub mod target;

use std::sync::Arc;

pub use clock::{Clock, Random};
pub use etcd::{Etcd, EtcdAccess, EtcdError, EtcdTls};
pub use fence::Fence;
pub use kubernetes::{Kubernetes, KubernetesError, Preconditions, Scope, WatchEvent};
pub use meter::{ClusterChange, FailureReason, Meter, NoMeter, PassResult};
pub use object::{Kind, Object, ObjectKey, Typed};
pub use store::{Credentials, SecretWords, StoreError, Stores};
pub use target::{Controller, Target};

/// The ports of one operator process.
#[derive(Clone)]
pub struct Ports {
    /// The Kubernetes API.
    pub kubernetes: Arc<dyn Kubernetes>,
    /// etcd members.
    pub etcd: Arc<dyn Etcd>,
    /// Object stores.
    pub stores: Arc<dyn Stores>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}
