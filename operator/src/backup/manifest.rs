//! The manifest beside a backup: its record, as JSON, so that a bucket alone is enough to know what it holds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::BackupRecord;

/// What `<key>.manifest.json` holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Of this layout.
    pub format_version: u32,
    /// Key of the backup in its bucket.
    pub key: String,
    /// Revision of the snapshot itself.
    pub revision: i64,
    /// Size of the object in bytes.
    pub size: i64,
    /// sha256 of the object, in hex.
    pub sha256: String,
    /// Version of the etcd server.
    pub etcd_version: String,
    /// etcd's cluster id, in hex: the lineage that the data belongs to.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// The member that the snapshot came from, in hex.
    #[serde(rename = "memberID")]
    pub member_id: String,
    /// When the snapshot was taken.
    pub time: Timestamp,
    /// The EtcdBackup that wrote it.
    pub backup: Owner,
}

/// An EtcdBackup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// The layout that this operator writes.
pub const FORMAT_VERSION: u32 = 1;
/// No manifest is larger: what is larger is not one.
pub const SIZE_MAX: u64 = 64 << 10;

impl Manifest {
    /// The manifest of a record.
    pub fn new(record: &BackupRecord, backup: Owner) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            key: record.key.clone(),
            revision: record.revision,
            size: record.size,
            sha256: record.sha256.clone(),
            etcd_version: record.etcd_version.clone(),
            cluster_id: record.cluster_id.clone(),
            member_id: record.member_id.clone(),
            time: record.time.0,
            backup,
        }
    }

    /// As stored.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a struct of strings and numbers serialises")
    }

    /// Whether an EtcdBackup may remove what this manifest describes: its own, or those of an earlier EtcdBackup of the
    /// same name that saved the same etcd cluster. Anything else in a shared bucket is somebody else's.
    pub fn belongs_to(&self, owner: &Owner, cluster_ids: &[&str]) -> bool {
        let same_name = self.backup.namespace == owner.namespace && self.backup.name == owner.name;
        self.backup.uid == owner.uid || (same_name && cluster_ids.contains(&self.cluster_id.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[test]
    fn a_manifest_round_trips_and_knows_its_owner() {
        let record = BackupRecord {
            key: "k".to_owned(),
            revision: 7,
            size: 544,
            sha256: "00".to_owned(),
            etcd_version: "3.5.26".to_owned(),
            cluster_id: "c1".to_owned(),
            member_id: "a".to_owned(),
            time: Time(Timestamp::UNIX_EPOCH),
            superseded: false,
            storage_type: None,
            endpoint: String::new(),
            bucket: String::new(),
            etcd_endpoints: Vec::new(),
        };
        let owner = |name: &str, uid: &str| Owner { namespace: "ns".into(), name: name.into(), uid: uid.into() };
        let manifest = Manifest::new(&record, owner("b", "u1"));
        assert_eq!(serde_json::from_slice::<Manifest>(&manifest.to_json()).unwrap(), manifest);
        assert!(manifest.belongs_to(&owner("b", "u1"), &[]), "its own, whatever cluster it saves now");
        assert!(manifest.belongs_to(&owner("b", "u2"), &["c1"]), "made anew under its name, for the same cluster");
        assert!(!manifest.belongs_to(&owner("b", "u2"), &["c2"]), "the same name in another Kubernetes cluster");
        assert!(!manifest.belongs_to(&owner("other", "u2"), &["c1"]));
    }
}
