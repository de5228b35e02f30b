//! EtcdRestore -> [`Desired`]; the last reader of its spec.

use jiff::SignedDuration;

use crate::api::EtcdRestore;
use crate::api::backup::TIMEOUT_SECONDS_DEFAULT;
use crate::backup::validate::{Invalid, location};
use crate::model::ObjectLocation;
use crate::ports::ObjectKey;

/// How long nothing may move while the snapshot is read; the kind has no field for it.
pub const STALL: SignedDuration = SignedDuration::from_secs(TIMEOUT_SECONDS_DEFAULT);

/// What is wanted of one EtcdRestore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Which one; the EtcdCluster has the same key.
    pub key: ObjectKey,
    /// Its uid: a new EtcdRestore of the same name is another restore.
    pub uid: String,
    /// `metadata.generation` that this was made from.
    pub generation: Option<i64>,
    /// Being deleted: nothing is begun, and the EtcdCluster's plan rolls back what can be.
    pub deleting: bool,
    /// The snapshot.
    pub location: ObjectLocation,
}

/// What an EtcdRestore asks for.
///
/// # Errors
/// Every field that cannot be used, with what is allowed.
pub fn validate(restore: &EtcdRestore) -> Result<Desired, Vec<Invalid>> {
    let (meta, spec) = (&restore.metadata, &restore.spec);
    let name = meta.name.clone().unwrap_or_default();
    let mut faults = Vec::new();
    if spec.etcd_cluster.name.is_empty() {
        faults.push(Invalid {
            field: "spec.etcdCluster.name".to_owned(),
            message: format!("must be the name of the EtcdCluster, and equal to `metadata.name`, which is `{name}`"),
        });
    } else if spec.etcd_cluster.name != name {
        faults.push(Invalid {
            field: "metadata.name".to_owned(),
            message: format!("must be equal to `spec.etcdCluster.name`, which is `{}`", spec.etcd_cluster.name),
        });
    }
    match location(("spec.backupStorageType", spec.backup_storage_type), &spec.source, false) {
        Ok(location) if faults.is_empty() => Ok(Desired {
            key: ObjectKey::new(meta.namespace.clone().unwrap_or_default(), name),
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            location,
        }),
        Ok(_) => Err(faults),
        Err(more) => {
            faults.extend(more);
            Err(faults)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::validate::sentence;

    fn restore(name: &str, spec: &str) -> EtcdRestore {
        let text = format!(
            "{{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdRestore, \
             metadata: {{name: {name}, namespace: ns, uid: u}}, spec: {spec}}}"
        );
        serde_saphyr::from_str(&text).expect("a manifest")
    }

    #[test]
    fn the_manifest_of_the_contract_is_understood() {
        let spec = "{etcdCluster: {name: example-etcd-cluster}, backupStorageType: OSS, \
                    oss: {path: bucket/dir/key_v9_2026-11-30-02:03:04, ossSecret: name, endpoint: 'http://oss:9000'}}";
        let desired = validate(&restore("example-etcd-cluster", spec)).unwrap();
        assert_eq!(desired.location.to_string(), "bucket/dir/key_v9_2026-11-30-02:03:04");
        assert_eq!(desired.location.bucket.endpoint.as_deref(), Some("http://oss:9000"));
    }

    #[test]
    fn what_nobody_checked_when_it_was_stored_is_named() {
        assert_eq!(
            sentence(&validate(&restore("a", "{s3: {path: bucket/key}}")).unwrap_err()),
            "`spec.etcdCluster.name` must be the name of the EtcdCluster, and equal to `metadata.name`, which is `a`; \
             `spec.backupStorageType` must be S3, ABS, GCS or OSS"
        );
    }

    #[test]
    fn a_wrong_name_is_refused_with_the_right_one() {
        let spec = "{etcdCluster: {name: a}, backupStorageType: S3, s3: {path: b}}";
        assert_eq!(
            sentence(&validate(&restore("b", spec)).unwrap_err()),
            "`metadata.name` must be equal to `spec.etcdCluster.name`, which is `a`; \
             `spec.s3.path` must be `<bucket>/<key>`, neither of them empty"
        );
    }
}
