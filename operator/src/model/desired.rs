//! What is wanted of an EtcdCluster: what `validate` made of the custom resource. Nobody reads the resource after that.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use std::borrow::Cow;

use super::{Lineage, RestoreWanted, SpecWarning, Version};
use crate::api::cluster::PodPolicy;

/// Which EtcdCluster this is. The uid tells it from an earlier one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// Its namespace.
    pub namespace: String,
    /// Its name, which names its Services too.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// Where members keep their data.
#[derive(Clone, Debug, PartialEq)]
pub enum Storage {
    /// In the pod: when the pod goes, the member is lost and replaced.
    EmptyDir,
    /// On a PersistentVolumeClaim of the member's name, which outlives its pods.
    Volume(Box<PersistentVolumeClaimSpec>),
}

/// TLS towards clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// Secret with `server.crt`, `server.key`, `server-ca.crt`, mounted into the members.
    pub server_secret: String,
    /// Secret with `etcd-client.crt`, `etcd-client.key`, `etcd-client-ca.crt`, with which the operator speaks to them.
    pub operator_secret: String,
}

/// Static TLS, from Secrets that the user provides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Secret with `peer.crt`, `peer.key`, `peer-ca.crt`; peers speak https iff it is set.
    pub peer_secret: Option<String>,
    /// Clients speak https iff it is set.
    pub client: Option<ClientTls>,
}

impl Tls {
    /// Whether both speak TLS to the same sides.
    pub fn is_same_kind(&self, other: &Self) -> bool {
        self.client.is_some() == other.client.is_some() && self.peer_secret.is_some() == other.peer_secret.is_some()
    }

    /// `https` or `http` for peer URLs.
    pub fn peer_scheme(&self) -> &'static str {
        if self.peer_secret.is_some() { "https" } else { "http" }
    }

    /// `https` or `http` for client URLs.
    pub fn client_scheme(&self) -> &'static str {
        if self.client.is_some() { "https" } else { "http" }
    }
}

/// One EtcdCluster as it shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Which one.
    pub identity: ClusterIdentity,
    /// `metadata.generation` that this was made from.
    pub generation: i64,
    /// Wanted voters, 1 to 9.
    pub size: usize,
    /// Touch nothing; go on telling the truth in status.
    pub paused: bool,
    /// The EtcdCluster is being deleted: touch nothing, garbage collection does the rest.
    pub deleting: bool,
    /// Image without tag.
    pub repository: String,
    /// Wanted version.
    pub version: Version,
    /// Everything that the user says about pods.
    pub pod: PodPolicy,
    /// Where data lives.
    pub storage: Storage,
    /// Static TLS.
    pub tls: Tls,
    /// Appended after `.svc`; may be empty.
    pub cluster_domain: String,
    /// Image of this operator, whose agent mode starts etcd in each member's pod.
    pub agent_image: String,
    /// How long a member may be unreachable before it is replaced, while the others hold quorum.
    pub replace_after: SignedDuration,
    /// A verified snapshot that the user wants this cluster restored from.
    pub restore: Option<RestoreWanted>,
    /// What is accepted and deserves a word in status: an old default version, an even size.
    pub warnings: Vec<SpecWarning>,
}

impl Desired {
    /// The same for the members of a formed lineage. TLS can be turned neither on nor off under them, and the domain is
    /// theirs for life: they are asked by the URL that they were started with, and peers know one another by such. Another
    /// Secret is no other kind.
    pub fn for_formed(&self, lineage: Option<&Lineage>) -> Cow<'_, Self> {
        let Some(lineage) = lineage.filter(|lineage| lineage.formed) else { return Cow::Borrowed(self) };
        let tls = lineage.tls.as_ref().filter(|runs| !runs.is_same_kind(&self.tls));
        let domain = lineage.cluster_domain.as_ref().filter(|domain| **domain != self.cluster_domain);
        if tls.is_none() && domain.is_none() {
            return Cow::Borrowed(self);
        }
        let mut desired = self.clone();
        if let Some(domain) = domain {
            desired.cluster_domain.clone_from(domain);
        }
        if let Some(runs) = tls {
            if runs.client.is_some() != self.tls.client.is_some() {
                desired.tls.client.clone_from(&runs.client);
            }
            if runs.peer_secret.is_some() != self.tls.peer_secret.is_some() {
                desired.tls.peer_secret.clone_from(&runs.peer_secret);
            }
        }
        Cow::Owned(desired)
    }

    /// The etcd image: `<repository>:v<version>`.
    pub fn image(&self) -> String {
        format!("{}:v{}", self.repository, self.version)
    }
}
