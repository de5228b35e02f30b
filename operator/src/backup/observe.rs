//! Ports -> [`Observed`]: the Secrets that a backup or a restore needs, or what is missing of them.

use super::retention::is_fetched;
use super::schedule::Schedule;
use super::validate::Desired;
use crate::api::EtcdRestore;
use crate::model::{BucketLocation, StorageKind};
use crate::ports::{Credentials, EtcdTls, KubernetesError, ObjectKey, Ports, Scope};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::fmt;

/// What stands in the way, and goes away by somebody else's hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The Secret is not there.
    Secret {
        /// The field that names it.
        field: &'static str,
        /// Its name.
        name: String,
    },
    /// The Secret lacks keys.
    Keys {
        /// Its name.
        name: String,
        /// Which.
        keys: String,
    },
    /// It could not be read.
    Unreadable {
        /// Its name.
        name: String,
        /// Why.
        why: KubernetesError,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret { field, name } => write!(f, "waiting for Secret `{name}` (`{field}`), which does not exist"),
            Self::Keys { name, keys } => write!(f, "waiting for Secret `{name}` to hold {keys}"),
            Self::Unreadable { name, why } => write!(f, "Secret `{name}` cannot be read: {why}"),
        }
    }
}

/// What a pass over an EtcdBackup has seen beside the resource itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What opens the bucket.
    pub credentials: Result<Credentials, Missing>,
    /// What opens the endpoints.
    pub tls: Result<Option<EtcdTls>, Missing>,
    /// The EtcdRestore whose members fetch what a one-shot backup would overwrite, if there is one.
    pub restored_by: Result<Option<String>, KubernetesError>,
}

/// Reads what the backup needs.
pub async fn observe(ports: &Ports, desired: &Desired) -> Observed {
    let namespace = &desired.key.namespace;
    let credentials = credentials(ports, namespace, &desired.location.bucket).await;
    let tls = match &desired.tls_secret {
        None => Ok(None),
        Some(name) => client_tls(ports, namespace, name).await.map(Some),
    };
    let restored_by = match desired.schedule {
        Schedule::Once => restored_by(ports, desired).await,
        Schedule::Every(_) => Ok(None),
    };
    Observed { credentials, tls, restored_by }
}

/// The EtcdRestore whose members fetch what is at the path of a one-shot backup, if there is one.
///
/// # Errors
/// When the EtcdRestores cannot be read.
pub async fn restored_by(ports: &Ports, desired: &Desired) -> Result<Option<String>, KubernetesError> {
    let scope = Scope::Namespace(desired.key.namespace.clone());
    let restores = ports.kubernetes.list_typed::<EtcdRestore>(&scope, None).await?;
    let found = restores.iter().find(|restore| is_fetched(restore, &desired.location));
    Ok(found.map(|restore| restore.name_any()))
}

/// The Secret of a bucket. Which keys it needs is known to whom opens the bucket.
pub async fn credentials(ports: &Ports, namespace: &str, bucket: &BucketLocation) -> Result<Credentials, Missing> {
    let Some(name) = &bucket.secret else { return Ok(Credentials(None)) };
    Ok(Credentials(Some(secret(ports, namespace, secret_field(bucket.storage), name).await?)))
}

/// The field that names the Secret of a bucket.
pub const fn secret_field(storage: StorageKind) -> &'static str {
    match storage {
        StorageKind::S3 => "spec.s3.awsSecret",
        StorageKind::Abs => "spec.abs.absSecret",
        StorageKind::Gcs => "spec.gcs.gcpSecret",
        StorageKind::Oss => "spec.oss.ossSecret",
    }
}

async fn client_tls(ports: &Ports, namespace: &str, name: &str) -> Result<EtcdTls, Missing> {
    let mut data = secret(ports, namespace, "spec.clientTLSSecret", name).await?;
    let wanted = ["etcd-client-ca.crt", "etcd-client.crt", "etcd-client.key"];
    let absent: Vec<_> = wanted
        .iter()
        .filter(|key| data.get(**key).is_none_or(Vec::is_empty))
        .map(|key| format!("key `{key}`"))
        .collect();
    if !absent.is_empty() {
        return Err(Missing::Keys { name: name.to_owned(), keys: absent.join(", ") });
    }
    let [ca, certificate, key] = wanted.map(|key| data.remove(key).unwrap_or_default());
    Ok(EtcdTls { ca, certificate, key })
}

async fn secret(
    ports: &Ports,
    namespace: &str,
    field: &'static str,
    name: &str,
) -> Result<BTreeMap<String, Vec<u8>>, Missing> {
    match ports.kubernetes.get_typed::<Secret>(&ObjectKey::new(namespace, name)).await {
        Ok(Some(secret)) => {
            let data = secret.data.iter().flatten();
            Ok(data.map(|(key, value)| (key.clone(), value.0.clone())).collect())
        }
        Ok(None) => Err(Missing::Secret { field, name: name.to_owned() }),
        Err(why) => Err(Missing::Unreadable { name: name.to_owned(), why }),
    }
}
