//! Ports -> [`Observed`]: the EtcdCluster that shall be restored, and the Secret that opens the bucket.

use std::sync::Arc;

use super::validate::Desired;
use crate::api::EtcdCluster;
use crate::backup::observe::{Missing, credentials};
use crate::ports::{Credentials, KubernetesError, Ports};

/// What a pass over an EtcdRestore has seen beside the resource itself.
#[derive(Clone, Debug)]
pub struct Observed {
    /// By a quorum read; none when there is none.
    pub cluster: Result<Option<Arc<EtcdCluster>>, KubernetesError>,
    /// What opens the bucket.
    pub credentials: Result<Credentials, Missing>,
    /// What opens it without a Secret and is the operator's own: the members, which fetch the snapshot, do not have it.
    pub own_settings: Vec<String>,
}

/// Reads what the restore needs.
pub async fn observe(ports: &Ports, desired: &Desired) -> Observed {
    Observed {
        cluster: ports.kubernetes.get_typed(&desired.key).await,
        credentials: credentials(ports, &desired.key.namespace, &desired.location.bucket).await,
        own_settings: match &desired.location.bucket.secret {
            Some(_) => Vec::new(),
            None => ports.stores.own_settings(desired.location.bucket.storage),
        },
    }
}
