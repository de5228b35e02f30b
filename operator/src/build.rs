//! Desired -> Kubernetes objects, one file per kind. Pure: the same input gives the same bytes.
//!
//! Names, labels, ports, paths and mounts are those of the archived operator, so that scripts and a running cluster of
//! its making find what they know.

pub mod etcd;
pub mod pod;
pub mod probe;
pub mod service;
pub mod volume;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

pub use crate::agent::InitialState;
use crate::api;
use crate::api::names::MemberAddress;
use crate::model::{ClusterIdentity, Desired, RestoreWanted};

pub use pod::member_pod;
pub use service::{LINEAGE_NONE, client_service, peer_service, service_as_built, service_changed};
pub use volume::member_volume;

/// One start of a member: everything about its pod that does not follow from the EtcdCluster alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStart<'a> {
    /// Member, pod and volume.
    pub name: &'a str,
    /// Token of the lineage: `--initial-cluster-token` and the lineage label.
    pub lineage: &'a str,
    /// Whether it has a vote already; the client Service selects voters only.
    pub voter: bool,
    /// Names and peer URLs for `--initial-cluster`, computed from live membership at each start.
    pub initial_cluster: Vec<(String, String)>,
    /// `--initial-cluster-state`.
    pub state: InitialState,
    /// The member has started before: an empty directory means that its data is lost.
    pub expect_data: bool,
    /// A seed of a restored lineage makes its data directory from this snapshot.
    pub restore: Option<&'a RestoreWanted>,
}

/// A member's peer URL.
pub fn peer_url(desired: &Desired, member: &str) -> String {
    address(desired, member).peer_url(desired.tls.peer_secret.is_some())
}

/// The client URL of a member that speaks TLS, or does not, whatever is wanted.
pub fn client_url_with(desired: &Desired, member: &str, tls: bool) -> String {
    address(desired, member).client_url(tls)
}

/// A member's client URL.
pub fn client_url(desired: &Desired, member: &str) -> String {
    address(desired, member).client_url(desired.tls.client.is_some())
}

/// Names with their peer URLs, for `--initial-cluster`.
pub fn initial_cluster<'a>(desired: &Desired, members: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
    members.into_iter().map(|name| (name.to_owned(), peer_url(desired, name))).collect()
}

fn address<'a>(desired: &'a Desired, member: &'a str) -> MemberAddress<'a> {
    MemberAddress {
        member,
        cluster: &desired.identity.name,
        namespace: &desired.identity.namespace,
        cluster_domain: &desired.cluster_domain,
    }
}

/// A hash over everything in a member's pod that the user controls and that a running pod cannot follow: 16
/// hexadecimal digits. Another hash means that pods are to be made anew, one at a time.
///
/// Not in it: the image (patched in place), flags that differ from start to start, the lineage, the image of this
/// operator (an upgrade of the operator restarts nobody), and the kind of storage (a pod made anew on other storage
/// would lose its data; the kind holds for members that are yet to come).
pub fn template_hash(desired: &Desired) -> String {
    let policy = &desired.pod;
    let secrets = (&desired.tls.peer_secret, desired.tls.client.as_ref());
    let template = json!({
        "labels": pod::user_labels(desired),
        "annotations": policy.annotations,
        "nodeSelector": policy.node_selector,
        "affinity": pod::affinity(desired),
        "tolerations": policy.tolerations,
        "resources": policy.resources,
        "securityContext": policy.security_context,
        "env": policy.etcd_env,
        "peerSecret": secrets.0,
        "serverSecret": secrets.1.map(|client| &client.server_secret),
        "operatorSecret": secrets.1.map(|client| &client.operator_secret),
    });
    let digest = Sha256::digest(canonical(&template).to_string().as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Keys in order and nulls left out, whatever map `serde_json` was compiled with.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().filter(|(_, value)| !value.is_null()).collect();
            Value::Object(sorted.into_iter().map(|(key, value)| (key.clone(), canonical(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

fn metadata(identity: &ClusterIdentity, name: &str, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(identity.namespace.clone()),
        labels: Some(labels),
        owner_references: Some(vec![owner(identity)]),
        ..ObjectMeta::default()
    }
}

/// The EtcdCluster controls the object: garbage collection removes it with the EtcdCluster.
fn owner(identity: &ClusterIdentity) -> OwnerReference {
    OwnerReference {
        api_version: api::API_VERSION.to_owned(),
        kind: "EtcdCluster".to_owned(),
        name: identity.name.clone(),
        uid: identity.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests;
