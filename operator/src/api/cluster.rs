//! EtcdCluster: a set of etcd members that is kept at a wanted size and version.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, PersistentVolumeClaimSpec, PodSecurityContext, ResourceRequirements, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::Condition;
use super::schema::Rule;
use super::{is_default, null_is_default};

/// Image repository when `repository` is empty.
pub const REPOSITORY_DEFAULT: &str = "quay.io/coreos/etcd";
/// Version when `version` is empty: the archived operator's.
pub const VERSION_DEFAULT: &str = "3.2.13";
/// Most members that an EtcdCluster may have.
pub const SIZE_MAX: i32 = 9;

/// What is wanted of an etcd cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "etcd.database.coreos.com",
    version = "v1beta2",
    kind = "EtcdCluster",
    plural = "etcdclusters",
    shortname = "etcd",
    category = "database",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    status = "EtcdClusterStatus",
    doc = "EtcdCluster is a set of etcd members, kept at a wanted size and version.",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.size",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size", description = "Wanted members"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.ready",
        description = "Members ready, of members that there are"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.currentVersion",
        description = "Version that the members run"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.leader", priority = 1),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterSpec {
    /// Wanted number of members, 1 to 9. Odd sizes tolerate as many failures as the next even one.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(!default, range(min = 1, max = 9))]
    pub size: i32,
    /// Image repository; the image is `<repository>:v<version>`. Empty: `quay.io/coreos/etcd`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub repository: String,
    /// Wanted version of etcd, such as `3.6.10`; a leading `v` is ignored. Empty: `3.2.13`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub version: String,
    /// While true the operator looks at the cluster but changes nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// How the pods of the members are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodPolicy>,
    /// Encryption and authentication of client and peer connections.
    #[serde(rename = "TLS", default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPolicy>,
}

/// How the pods of the members are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodPolicy {
    /// Labels to put on the pods. The key `app` and keys that begin with `etcd_` are reserved.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub labels: BTreeMap<String, String>,
    /// Labels that a node must have to run a member.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Scheduling constraints of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Deprecated, use `affinity`: no two members of this cluster on one node. Ignored when `affinity` is given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub anti_affinity: bool,
    /// Resource requirements of every container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Environment of the etcd container, `ETCD_*`. Do not override the flags that form the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub etcd_env: Vec<EnvVar>,
    /// Volume of each member. Absent: emptyDir, whose data goes with its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_spec: Option<PersistentVolumeClaimSpec>,
    /// Annotations to put on the pods. The key `etcd.version` is the operator's, whatever is given here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Accepted for old manifests and unused: nothing waits in a busybox container any more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub busybox_image: String,
    /// Security context of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<PodSecurityContext>,
    /// Seconds that a pod may wait for its own name to resolve before its container ends and is started again; 0 is for
    /// ever. A change takes effect at the next start of a pod.
    #[serde(rename = "DNSTimeoutInSecond", default, skip_serializing_if = "is_default")]
    pub dns_timeout_in_second: i64,
    /// Domain put after `.svc` in the URLs of the members, such as `.cluster.local`.
    #[serde(rename = "ClusterDomain", default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub cluster_domain: String,
}

/// Encryption and authentication of client and peer connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsPolicy {
    /// Certificates that the user keeps in Secrets.
    #[serde(rename = "static", default, skip_serializing_if = "Option::is_none")]
    pub static_: Option<StaticTls>,
}

/// Certificates that the user keeps in Secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticTls {
    /// Secrets mounted into the members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberSecrets>,
    /// Secret with `etcd-client.crt`, `etcd-client.key`, `etcd-client-ca.crt`, which the operator uses as a client.
    /// Clients use TLS if and only if it is set; `member.serverSecret` must be set with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub operator_secret: String,
}

/// Secrets mounted into the members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberSecrets {
    /// Secret with `peer.crt`, `peer.key`, `peer-ca.crt`. Peers use TLS if and only if it is set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub peer_secret: String,
    /// Secret with `server.crt`, `server.key`, `server-ca.crt`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub server_secret: String,
}

/// What the operator last saw of an etcd cluster, and what it must not forget about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterStatus {
    /// Summary for old scripts; derived from the conditions.
    #[serde(default)]
    pub phase: ClusterPhase,
    /// Why `phase` is what it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// True while the operator leaves the cluster alone because of `spec.paused`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub control_paused: bool,
    /// Conditions.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Members that there are.
    #[serde(default)]
    pub size: i32,
    /// Members ready, of members that there are, such as `3/3`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ready: String,
    /// Label selector of the pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Service for clients.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    /// Port for clients, on the Service and on the pods.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client_port: i32,
    /// Names of the members.
    #[serde(default, deserialize_with = "null_is_default")]
    pub members: MembersStatus,
    /// Pod of the raft leader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub leader: String,
    /// Version that the cluster runs.
    #[serde(default)]
    pub current_version: String,
    /// Version that the cluster is being taken to; empty when it is not.
    #[serde(default)]
    pub target_version: String,
    /// The last entry of the raft log that a member below 3.6 may have written. Members of 3.7 cannot read such entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_log_index: Option<i64>,
    /// The formation that the cluster descends from. What keeps it from being born twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// The restore under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<RestoreProgress>,
    /// The restore that was called off last, should it be wanted again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_off_restore: Option<CalledOffRestore>,
    /// Members that do not answer, with the moment of the first unanswered question.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["member"]))]
    pub unreachable_since: Vec<UnreachableMember>,
}

/// Summary of an EtcdCluster for old scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ClusterPhase {
    /// Nothing was done yet.
    #[default]
    #[serde(rename = "")]
    None,
    /// The first formation is under way.
    Creating,
    /// The cluster was formed.
    Running,
    /// The cluster cannot go on without a person.
    Failed,
}

/// Names of the members, which are names of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MembersStatus {
    /// Members that can serve.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<String>,
    /// Members that cannot.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<String>,
}

/// One birth of an etcd cluster: the members that are in its first `initial-cluster`, and how far they got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    /// Which attempt at formation this is, from 1.
    #[schemars(range(min = 1))]
    pub attempt: i32,
    /// The initial-cluster-token of the attempt.
    pub token: String,
    /// True once the members had quorum: from then on no process ever starts with state `new`.
    #[serde(default)]
    pub formed: bool,
    /// When it was seen to be formed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formed_time: Option<Time>,
    /// etcd's own cluster id, in hex.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Names of the members of the formation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<String>,
    /// uid of the EtcdRestore whose snapshot the members began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_from: Option<String>,
    /// TLS that its members run with. It can be turned neither on nor off under them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<LineageTls>,
    /// What `pod.ClusterDomain` was when they first answered. It cannot be changed under them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_domain: Option<String>,
}

/// TLS of the members of a lineage: the Secrets that they were started with. Without a Secret there is no TLS to that side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineageTls {
    /// Between peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_secret: Option<String>,
    /// To clients: the servers'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_secret: Option<String>,
    /// To clients: the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_secret: Option<String>,
}

/// A restore under way: the new lineage, beside the one that still serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreProgress {
    /// Name of the EtcdRestore.
    pub name: String,
    /// uid of the EtcdRestore.
    pub uid: String,
    /// The lineage that comes from the snapshot.
    pub lineage: Lineage,
    /// How far it is.
    pub phase: RestorePhase,
    /// Voters of the old lineage when the new one was confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_voters: Option<i32>,
    /// When the snapshot was verified that its seeds were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_time: Option<Time>,
    /// A seed found another object in the store than the one that was verified, or none: it is verified anew.
    #[serde(default, skip_serializing_if = "is_default")]
    pub snapshot_changed: bool,
}

/// A restore that was called off, and whose members are gone: their names and their token are not used a second time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalledOffRestore {
    /// uid of the EtcdRestore.
    pub uid: String,
    /// The attempt that it would begin with.
    pub attempt: i32,
}

/// How far a new lineage is on its way to replace the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum RestorePhase {
    /// Its seeds are being started; the old lineage still serves.
    Starting,
    /// It has quorum and its data was read back; the old pods may be stopped.
    Confirmed,
    /// Clients were switched to it; the old lineage may be cleaned up.
    Switched,
}

/// A member that does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreachableMember {
    /// Name of the member.
    pub member: String,
    /// When it was first found not to answer.
    pub since: Time,
}

/// What schema types cannot say about an EtcdCluster.
pub(super) const RULES: &[Rule] = &[
    Rule {
        at: "",
        rule: "self.metadata.name.size() <= 52",
        message: "`metadata.name` must be at most 52 characters long: member names add 11 and must fit in 63",
    },
    Rule {
        at: "",
        rule: "self.metadata.name.matches('^[a-z][a-z0-9-]*$')",
        message: "`metadata.name` must consist of a-z, 0-9 and `-` and begin with a letter: it names Services",
    },
    Rule {
        at: "spec.version",
        rule: "self == '' || self.matches('^v*(0|[1-9][0-9]{0,5})[.](0|[1-9][0-9]{0,5})[.](0|[1-9][0-9]{0,5})(-[0-9A-Za-z.-]+)?$')",
        message: "`version` must be a version of etcd with major, minor and patch, such as 3.6.10 or v3.5.26-rc.0",
    },
    Rule {
        at: "spec.repository",
        rule: "!self.matches('@') && !self.matches('[^ \\t\\n][ \\t\\n]+[^ \\t\\n]') && !self.matches(':[^/]*$')",
        message: "`repository` must be an image without tag or digest, such as quay.io/coreos/etcd",
    },
    Rule {
        at: "spec.pod.etcdEnv",
        rule: "self.all(e, !(e.name in ['ETCD_FORCE_NEW_CLUSTER', 'ETCD_WAL_DIR', 'ETCD_PROXY', 'ETCD_DISCOVERY', 'ETCD_DISCOVERY_SRV', 'ETCD_CONFIG_FILE']))",
        message: "`pod.etcdEnv` must not contain ETCD_FORCE_NEW_CLUSTER, ETCD_WAL_DIR, ETCD_PROXY, ETCD_DISCOVERY, ETCD_DISCOVERY_SRV or ETCD_CONFIG_FILE: they make another cluster of a member, or hide its data",
    },
    Rule {
        at: "spec.pod.persistentVolumeClaimSpec",
        rule: "has(self.resources) && has(self.resources.requests) && 'storage' in self.resources.requests",
        message: "`pod.persistentVolumeClaimSpec.resources.requests.storage` must be set, such as 10Gi",
    },
    Rule {
        at: "spec.pod.persistentVolumeClaimSpec",
        rule: "has(self.accessModes) && self.accessModes.size() > 0",
        message: "`pod.persistentVolumeClaimSpec.accessModes` must be set, such as [ReadWriteOnce]",
    },
    Rule {
        at: "spec.pod.persistentVolumeClaimSpec",
        rule: "!has(self.volumeMode) || self.volumeMode == 'Filesystem'",
        message: "`pod.persistentVolumeClaimSpec.volumeMode` must be Filesystem",
    },
    Rule {
        at: "spec.pod.ClusterDomain",
        rule: "self.matches('^[.]*([a-z0-9-]+([.][a-z0-9-]+)*)?[.]*$')",
        message: "`pod.ClusterDomain` must be a DNS domain, such as .cluster.local",
    },
    Rule {
        at: "spec.pod.labels",
        rule: "self.all(key, key != 'app' && !key.startsWith('etcd_'))",
        message: "`pod.labels` must not contain the key `app` or a key that begins with `etcd_`: they are reserved",
    },
    Rule {
        at: "spec.TLS.static",
        rule: "!(has(self.operatorSecret) && self.operatorSecret != '') || (has(self.member) && has(self.member.serverSecret) && self.member.serverSecret != '')",
        message: "`member.serverSecret` must be set when `operatorSecret` is",
    },
    Rule {
        at: "spec.TLS.static",
        rule: "!(has(self.member) && has(self.member.serverSecret) && self.member.serverSecret != '') || (has(self.operatorSecret) && self.operatorSecret != '')",
        message: "`operatorSecret` must be set when `member.serverSecret` is",
    },
];
