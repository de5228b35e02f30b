//! EtcdBackup: snapshots of an etcd cluster, once or at intervals, to an object store.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::Condition;
use super::schema::Rule;
use super::storage::{StorageSource, StorageType, known_or_none};
use super::{is_default, null_is_default};

/// How long a backup may stand still when `timeoutInSecond` is not above 0.
pub const TIMEOUT_SECONDS_DEFAULT: i64 = 60;
/// Most records that a status keeps. Older backups are still found by their names in the store.
pub const RECORDS_MAX: usize = 256;
/// The finalizer of the archived operator on periodic backups, to recognise and to remove.
pub const LEGACY_FINALIZER: &str = "backup-operator-periodic";

/// What is wanted of a backup.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "etcd.database.coreos.com",
    version = "v1beta2",
    kind = "EtcdBackup",
    plural = "etcdbackups",
    shortname = "etcdbackup",
    category = "database",
    namespaced,
    derive = "PartialEq",
    status = "EtcdBackupStatus",
    doc = "EtcdBackup takes snapshots of an etcd cluster, once or at intervals, to an object store.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.storageType"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Revision",
        type_ = "integer",
        format = "int64",
        json_path = ".status.etcdRevision",
        description = "Revision of the last good backup"
    ),
    printcolumn(name = "Last Success", type_ = "date", json_path = ".status.lastSuccessDate"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.Reason", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupSpec {
    /// Client endpoints of one etcd cluster. The snapshot is taken from the one with the most up-to-date state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 2048)))]
    pub etcd_endpoints: Vec<String>,
    /// Kind of the object store; the block of that name must be given.
    #[serde(default, deserialize_with = "known_or_none")]
    #[schemars(!default, with = "StorageType")]
    pub storage_type: Option<StorageType>,
    /// When to take backups and how many to keep. Absent: one backup, now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_policy: Option<BackupPolicy>,
    /// The object store.
    #[serde(flatten)]
    pub source: StorageSource,
    /// Secret with `etcd-client.crt`, `etcd-client.key`, `etcd-client-ca.crt`. Empty: no TLS.
    #[serde(rename = "clientTLSSecret", default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub client_tls_secret: String,
}

/// When to take backups and how many to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupPolicy {
    /// Seconds for which a backup may stand still, with nothing read from etcd and nothing written to the store, before
    /// the attempt is given up and made again; 60 when not above 0. It does not limit a backup that moves on, however
    /// large it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout_in_second: i64,
    /// Seconds between backups; 0 is one backup, once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backup_interval_in_second: i64,
    /// Backups to keep; 0 is all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_backups: i32,
}

/// What became of a backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupStatus {
    /// Whether the last backup is complete in the store.
    #[serde(default)]
    pub succeeded: bool,
    /// Why the last backup failed.
    #[serde(rename = "Reason", default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Version of the etcd server of the last good backup.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub etcd_version: String,
    /// Revision of the last good backup.
    #[serde(default, skip_serializing_if = "is_default")]
    pub etcd_revision: i64,
    /// When the last good backup was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_date: Option<Time>,
    /// `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Summary; derived from the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupPhase>,
    /// When the last run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_time: Option<Time>,
    /// When the next run is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_run_time: Option<Time>,
    /// Backups that are in the store, the newest last.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub records: Vec<BackupRecord>,
    /// Endpoints that the last run could not use.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub failed_endpoints: Vec<FailedEndpoint>,
    /// Failed attempts since the last good backup.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempts: i32,
}

/// Summary of an EtcdBackup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum BackupPhase {
    /// Something that it needs is missing.
    Pending,
    /// A backup is being taken.
    Running,
    /// The backup is complete in the store.
    Succeeded,
    /// The last attempt failed.
    Failed,
    /// The last backup is complete in the store and the next one has its time.
    Scheduled,
}

/// One backup in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupRecord {
    /// Key of the object in its bucket.
    pub key: String,
    /// Revision of the snapshot itself.
    pub revision: i64,
    /// Size of the object in bytes.
    pub size: i64,
    /// sha256 of the object, in hex.
    pub sha256: String,
    /// Version of the etcd server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub etcd_version: String,
    /// etcd's cluster id, in hex.
    #[serde(rename = "clusterID", default, skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
    /// Id of the member that the snapshot came from, in hex.
    #[serde(rename = "memberID", default, skip_serializing_if = "String::is_empty")]
    pub member_id: String,
    /// When the snapshot was taken.
    pub time: Time,
    /// True once retention chose it for removal.
    #[serde(default, skip_serializing_if = "is_default")]
    pub superseded: bool,
    /// Kind of the object store that it is in. Absent in records of earlier versions, which do not say where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_type: Option<StorageType>,
    /// URL of that store; empty where the spec had none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Bucket or container that it is in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// `spec.etcdEndpoints` that a one-shot backup was taken of. Absent in records of a schedule and of earlier versions.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub etcd_endpoints: Vec<String>,
}

/// An endpoint that the last run could not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedEndpoint {
    /// The endpoint, as in `spec.etcdEndpoints`.
    pub endpoint: String,
    /// Why.
    pub message: String,
}

/// What schema types cannot say about an EtcdBackup.
pub(super) const RULES: &[Rule] = &[
    Rule {
        at: "spec",
        rule: "has(self.etcdEndpoints) && self.etcdEndpoints.size() > 0",
        message: "`etcdEndpoints` must name at least one endpoint, such as http://my-etcd-client:2379",
    },
    Rule {
        at: "spec.etcdEndpoints",
        rule: "self.all(e, e != '' && (e.startsWith('http://') || e.startsWith('https://') || !e.contains('://')))",
        message: "each of `etcdEndpoints` must be an http:// or https:// URL, or host:port",
    },
    Rule {
        at: "spec",
        rule: "has(self.s3) == (self.storageType == 'S3')",
        message: "`s3` must be given with `storageType` S3, and with no other",
    },
    Rule {
        at: "spec",
        rule: "has(self.abs) == (self.storageType == 'ABS')",
        message: "`abs` must be given with `storageType` ABS, and with no other",
    },
    Rule {
        at: "spec",
        rule: "has(self.gcs) == (self.storageType == 'GCS')",
        message: "`gcs` must be given with `storageType` GCS, and with no other",
    },
    Rule {
        at: "spec",
        rule: "has(self.oss) == (self.storageType == 'OSS')",
        message: "`oss` must be given with `storageType` OSS, and with no other",
    },
    Rule {
        at: "spec.backupPolicy.backupIntervalInSecond",
        rule: "self >= 0",
        message: "`backupIntervalInSecond` must be 0 (one backup) or above",
    },
    Rule {
        at: "spec.backupPolicy.maxBackups",
        rule: "self >= 0",
        message: "`maxBackups` must be 0 (keep all) or above",
    },
];
