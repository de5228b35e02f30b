//! The three kinds of group `etcd.database.coreos.com`, version `v1beta2`: their types, conditions, labels and names,
//! and nothing else. What a field means to the operator is decided in `validate`, the last reader of these types.
//!
//! The shapes are those of the archived coreos operator, so that its manifests and scripts keep working; the fields of
//! its `status` that it always wrote, empty or not, are always written here too.

pub mod backup;
pub mod cluster;
pub mod conditions;
pub mod labels;
pub mod names;
pub mod restore;
pub mod schema;
pub mod storage;

pub use backup::{
    BackupPhase, BackupPolicy, BackupRecord, EtcdBackup, EtcdBackupSpec, EtcdBackupStatus, FailedEndpoint,
};
pub use cluster::{
    ClusterPhase, EtcdCluster, EtcdClusterSpec, EtcdClusterStatus, Lineage, MemberSecrets, MembersStatus, PodPolicy,
    RestorePhase, RestoreProgress, StaticTls, TlsPolicy, UnreachableMember,
};
pub use conditions::Condition;
pub use restore::{EtcdClusterRef, EtcdRestore, EtcdRestoreSpec, EtcdRestoreStatus, RestoreRunPhase, SnapshotRef};
pub use storage::{AbsStorage, GcsStorage, OssStorage, S3Storage, StorageSource, StorageType};

/// The API group of the three kinds.
pub const GROUP: &str = "etcd.database.coreos.com";
/// The only version of the group.
pub const VERSION: &str = "v1beta2";
/// `apiVersion` of every object of ours.
pub const API_VERSION: &str = "etcd.database.coreos.com/v1beta2";

/// Reads `null` as the default value: Go wrote `null` for an empty list.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + serde::Deserialize<'de>,
{
    Ok(<Option<T> as serde::Deserialize>::deserialize(deserializer)?.unwrap_or_default())
}

/// For fields that Go's `omitempty` left out when they were zero or false.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
