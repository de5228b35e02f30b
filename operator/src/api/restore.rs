//! EtcdRestore: an etcd cluster gets the data of a backup.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::Condition;
use super::null_is_default;
use super::schema::Rule;
use super::storage::{StorageSource, StorageType, known_or_none};

/// What is wanted of a restore.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "etcd.database.coreos.com",
    version = "v1beta2",
    kind = "EtcdRestore",
    plural = "etcdrestores",
    shortname = "etcdrestore",
    category = "database",
    namespaced,
    derive = "PartialEq",
    status = "EtcdRestoreStatus",
    doc = "EtcdRestore gives an EtcdCluster the data of a backup. Its name must be the name of the EtcdCluster.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.etcdCluster.name"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.backupStorageType"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Revision",
        type_ = "integer",
        format = "int64",
        json_path = ".status.snapshot.revision",
        description = "Revision of the snapshot"
    ),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestoreSpec {
    /// Kind of the object store; the block of that name must be given.
    #[serde(default, deserialize_with = "known_or_none")]
    #[schemars(!default, with = "StorageType")]
    pub backup_storage_type: Option<StorageType>,
    /// The object store.
    #[serde(flatten)]
    pub source: StorageSource,
    /// The EtcdCluster to restore, in the same namespace.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(!default)]
    pub etcd_cluster: EtcdClusterRef,
}

/// The EtcdCluster to restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterRef {
    /// Name of the EtcdCluster.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(!default, length(max = 253))]
    pub name: String,
}

/// What became of a restore.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestoreStatus {
    /// Whether the cluster serves the data of the backup.
    #[serde(default)]
    pub succeeded: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Summary; derived from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestoreRunPhase>,
    /// The snapshot that was verified: what is restored is exactly these bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotRef>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_time: Option<Time>,
    /// When it ended, well or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_time: Option<Time>,
}

/// Summary of an EtcdRestore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum RestoreRunPhase {
    /// Something that it needs is missing.
    Pending,
    /// The snapshot is being read and checked; nothing was touched.
    Verifying,
    /// The snapshot is good; nothing was touched.
    Verified,
    /// The new lineage is being started beside the old one, or put in its place.
    Restoring,
    /// The cluster serves the data of the backup.
    Succeeded,
    /// It was given up; the old lineage was not touched.
    Failed,
}

/// A verified snapshot in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRef {
    /// Bucket or container.
    pub bucket: String,
    /// Key of the object in it.
    pub key: String,
    /// Size of the object in bytes.
    pub size: i64,
    /// sha256 of the object, in hex.
    pub sha256: String,
    /// Revision of the snapshot itself.
    pub revision: i64,
    /// When it was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_time: Option<Time>,
}

/// What schema types cannot say about an EtcdRestore.
pub(super) const RULES: &[Rule] = &[
    Rule {
        at: "",
        rule: "self.metadata.name == self.spec.etcdCluster.name",
        message: "`metadata.name` must be equal to `spec.etcdCluster.name`",
    },
    Rule {
        at: "spec",
        rule: "has(self.s3) == (self.backupStorageType == 'S3')",
        message: "`s3` must be given with `backupStorageType` S3, and with no other",
    },
    Rule {
        at: "spec",
        rule: "has(self.abs) == (self.backupStorageType == 'ABS')",
        message: "`abs` must be given with `backupStorageType` ABS, and with no other",
    },
    Rule {
        at: "spec",
        rule: "has(self.gcs) == (self.backupStorageType == 'GCS')",
        message: "`gcs` must be given with `backupStorageType` GCS, and with no other",
    },
    Rule {
        at: "spec",
        rule: "has(self.oss) == (self.backupStorageType == 'OSS')",
        message: "`oss` must be given with `backupStorageType` OSS, and with no other",
    },
];
