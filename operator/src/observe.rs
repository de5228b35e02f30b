//! Ports -> [`Observed`]: what one pass sees, and why it could not see the rest.
//!
//! Kubernetes objects come from the cache (to find out whether there is anything to do) or are read anew (before
//! anything is done): [`View`]. etcd is always asked.

pub mod certificates;
pub mod etcd;
pub mod pod;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::cluster::EtcdClusterStatus;
use crate::api::conditions::reason::{BackupReadyReason, BackupSucceededReason};
use crate::api::conditions::{self, BackupCondition, ConditionKind, ConditionStatus};
use crate::api::{EtcdBackup, EtcdCluster, EtcdRestore, labels, names};
use crate::build;
use crate::cache::Cache;
use crate::model::{
    BackupObserved, CertificateObserved, ClusterId, Desired, EtcdObserved, Lineage, Observed, PodObserved, Record,
    SecretTrouble, ServiceObserved, VolumeObserved,
};
use crate::ports::{EtcdTls, Kubernetes, KubernetesError, ObjectKey, Ports, Scope};

/// The Kubernetes objects around one EtcdCluster, as of one look.
#[derive(Clone, Debug)]
pub struct View {
    /// The EtcdCluster itself.
    pub cluster: Arc<EtcdCluster>,
    /// The EtcdRestore of its name.
    pub restore: Option<Arc<EtcdRestore>>,
    /// Pods with its label.
    pub pods: Vec<Arc<Pod>>,
    /// Volume claims with its label.
    pub volumes: Vec<Arc<PersistentVolumeClaim>>,
    /// Service `<cluster>`.
    pub peer_service: Option<Arc<Service>>,
    /// Service `<cluster>-client`.
    pub client_service: Option<Arc<Service>>,
    /// EtcdBackups that name it. They decide nothing here, so they always are what the watch told.
    pub backups: Vec<Arc<EtcdBackup>>,
}

impl View {
    /// From the cache; none when it does not know the EtcdCluster.
    pub fn cached(cache: &Cache, key: &ObjectKey) -> Option<Self> {
        Some(Self {
            cluster: cache.get(key)?,
            restore: cache.get(key),
            pods: cache.of_cluster(key),
            volumes: cache.of_cluster(key),
            peer_service: cache.get(&service_key(key, names::peer_service_name)),
            client_service: cache.get(&service_key(key, names::client_service_name)),
            backups: cache.of_cluster(key),
        })
    }

    /// By quorum reads, the backups aside; none when the EtcdCluster does not exist.
    ///
    /// # Errors
    /// When one of them fails: half a view decides nothing.
    pub async fn read(
        kubernetes: &dyn Kubernetes,
        key: &ObjectKey,
        backups: Vec<Arc<EtcdBackup>>,
    ) -> Result<Option<Self>, KubernetesError> {
        let Some(cluster) = kubernetes.get_typed::<EtcdCluster>(key).await? else { return Ok(None) };
        let scope = Scope::Namespace(key.namespace.clone());
        let selector = format!("{}={}", labels::LABEL_CLUSTER, key.name);
        let (peer_key, client_key) =
            (service_key(key, names::peer_service_name), service_key(key, names::client_service_name));
        let (restore, pods, volumes, peer_service, client_service) = futures::try_join!(
            kubernetes.get_typed(key),
            kubernetes.list_typed(&scope, Some(&selector)),
            kubernetes.list_typed(&scope, Some(&selector)),
            kubernetes.get_typed(&peer_key),
            kubernetes.get_typed(&client_key),
        )?;
        Ok(Some(Self { cluster, restore, pods, volumes, peer_service, client_service, backups }))
    }
}

fn service_key(cluster: &ObjectKey, name: impl Fn(&str) -> String) -> ObjectKey {
    ObjectKey::new(&cluster.namespace, name(&cluster.name))
}

/// What is observed without a valid spec: objects only, so that status can still tell the truth about them.
pub fn observe_objects(view: &View, record: Record, entropy: u64, legacy_alive: Option<String>) -> Observed {
    let uid = view.cluster.uid().unwrap_or_default();
    Observed {
        entropy,
        generation: view.cluster.metadata.generation,
        record,
        pods: view.pods.iter().map(|pod| (pod.name_any(), pod::observe_pod(pod, &uid))).collect(),
        volumes: view.volumes.iter().map(|volume| (volume.name_any(), observe_volume(volume, &uid))).collect(),
        peer_service: None,
        client_service: None,
        secrets_missing: BTreeMap::new(),
        spec_secrets_missing: BTreeMap::new(),
        certificates: Vec::new(),
        backups: view.backups.iter().filter_map(|backup| observe_backup(&view.cluster, backup)).collect(),
        etcd: EtcdObserved::nobody_to_ask("the spec cannot be used"),
        etcd_restoring: None,
        legacy_alive,
        not_ready_since: view.cluster.status.as_ref().and_then(not_ready_since),
    }
}

/// Since when a status says that its EtcdCluster is not ready.
pub(crate) fn not_ready_since(status: &EtcdClusterStatus) -> Option<Timestamp> {
    let ready = conditions::find(&status.conditions, "Ready")?;
    if ready.status == ConditionStatus::True { None } else { ready.last_transition_time.as_ref().map(|time| time.0) }
}

/// What is observed of a cluster with a valid spec.
pub async fn observe(
    ports: &Ports,
    view: &View,
    desired: &Desired,
    record: Record,
    entropy: u64,
    legacy_alive: Option<String>,
) -> (Observed, Option<EtcdTls>) {
    let mut observed = observe_objects(view, record, entropy, legacy_alive);
    let uid = &desired.identity.uid;
    let serving = observed.record.lineage.as_ref().filter(|lineage| lineage.formed).map(|lineage| &*lineage.token);
    let wanted = build::peer_service(desired);
    observed.peer_service = view.peer_service.as_deref().map(|actual| observe_service(actual, &wanted, uid));
    let wanted = build::client_service(desired, serving);
    observed.client_service = view.client_service.as_deref().map(|actual| observe_service(actual, &wanted, uid));

    let of_members = desired.for_formed(observed.record.lineage.as_ref());
    let Secrets { missing, certificates, tls } = observe_secrets(ports, &of_members).await;
    observed.spec_secrets_missing = match &of_members {
        Cow::Borrowed(_) => missing.clone(),
        Cow::Owned(_) => observe_secrets(ports, desired).await.missing,
    };
    (observed.secrets_missing, observed.certificates) = (missing, certificates);
    if desired.deleting {
        observed.etcd = EtcdObserved::nobody_to_ask("the EtcdCluster is being deleted");
        return (observed, tls);
    }
    let unable = match (&of_members.tls.client, &tls) {
        (Some(client), None) => Some(format!("Secret `{}` is needed to ask the members", client.operator_secret)),
        _ => None,
    };
    let identity = |lineage: &Lineage| (lineage.token.clone(), lineage.cluster_id);
    let serving = observed.record.lineage.as_ref().map(identity);
    let restoring = observed.record.restore.as_ref().map(|restore| identity(&restore.lineage));
    let (etcd, etcd_restoring) = futures::join!(
        async {
            match &serving {
                Some(_) if unable.is_some() => EtcdObserved::nobody_to_ask(unable.as_deref().unwrap_or_default()),
                Some((token, id)) => ask(ports, &of_members, tls.as_ref(), &observed.pods, (token, *id)).await,
                None => EtcdObserved::nobody_to_ask("the cluster was not formed yet"),
            }
        },
        async {
            match &restoring {
                Some((token, id)) => Some(ask(ports, desired, tls.as_ref(), &observed.pods, (token, *id)).await),
                None => None,
            }
        }
    );
    observed.etcd = etcd;
    observed.etcd_restoring = etcd_restoring;
    (observed, tls)
}

/// Asks the members of a lineage. They may speak TLS although it is not wanted: those of a formation that has yet to follow
/// the spec, or restored ones beside the old. Then the Secret is the one that they were started with.
async fn ask(
    ports: &Ports,
    desired: &Desired,
    tls: Option<&EtcdTls>,
    pods: &BTreeMap<String, PodObserved>,
    (token, cluster_id): (&str, Option<ClusterId>),
) -> EtcdObserved {
    let mut members = pods.values().filter(|pod| pod.ours && pod.lineage.as_deref() == Some(token));
    let theirs = members.find_map(|pod| pod.tls.client.as_ref());
    let own = match (tls, theirs) {
        (None, Some(client)) => operator_tls(ports, desired, &client.operator_secret).await.ok(),
        _ => None,
    };
    etcd::observe_etcd(ports, desired, tls.or(own.as_ref()), pods, (token, cluster_id)).await
}

async fn operator_tls(ports: &Ports, desired: &Desired, secret: &str) -> Result<EtcdTls, SecretTrouble> {
    let [certificate, key, ca] = read_secret(ports, desired, secret, OPERATOR_KEYS).await?;
    Ok(EtcdTls { ca, certificate, key })
}

/// Whether the EtcdCluster of this uid controls the object.
pub(crate) fn is_controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    let owners = meta.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

fn label(meta: &ObjectMeta, key: &str) -> Option<String> {
    meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned()
}

fn observe_volume(volume: &PersistentVolumeClaim, cluster_uid: &str) -> VolumeObserved {
    VolumeObserved {
        name: volume.name_any(),
        uid: volume.uid().unwrap_or_default(),
        resource_version: volume.resource_version().unwrap_or_default(),
        lineage: label(&volume.metadata, labels::LABEL_LINEAGE),
        ours: is_controlled_by(&volume.metadata, cluster_uid),
        deleting: volume.metadata.deletion_timestamp.is_some(),
        lost: volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost"),
        created_at: volume.metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
    }
}

/// None of one that is being deleted, or is another operator's than the cluster.
fn observe_backup(cluster: &EtcdCluster, backup: &EtcdBackup) -> Option<BackupObserved> {
    let scope = |meta: &ObjectMeta| labels::is_clusterwide(meta.annotations.as_ref());
    if scope(&backup.metadata) != scope(&cluster.metadata) {
        return None;
    }
    let status = backup.status.as_ref();
    let outcome = status.and_then(|status| conditions::find(&status.conditions, "BackupSucceeded"));
    let interrupted = BackupCondition::BackupSucceeded(BackupSucceededReason::Interrupted).reason();
    let failed = outcome.filter(|outcome| outcome.status == ConditionStatus::False && outcome.reason != interrupted);
    // One whose object is gone is no backup, and one that was taken of what another spec named is none of this cluster.
    let says = |reason: BackupReadyReason| {
        let ready = status.and_then(|status| conditions::find(&status.conditions, "Ready"));
        ready.is_some_and(|ready| ready.reason == BackupCondition::Ready(reason).reason())
    };
    let is_gone = says(BackupReadyReason::Gone);
    if says(BackupReadyReason::SpecChanged) {
        return None;
    }
    let interval = backup.spec.backup_policy.as_ref().map_or(0, |policy| policy.backup_interval_in_second);
    backup.metadata.deletion_timestamp.is_none().then(|| BackupObserved {
        name: backup.name_any(),
        interval: (interval > 0).then(|| SignedDuration::from_secs(interval)),
        created_at: backup.metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
        last_success: status
            .filter(|_| !is_gone)
            .and_then(|status| status.last_success_date.as_ref())
            .map(|time| time.0),
        failure: failed
            .map(|failed| failed.reason.clone())
            .or(is_gone.then(|| BackupCondition::Ready(BackupReadyReason::Gone).reason().to_owned())),
    })
}

fn observe_service(actual: &Service, wanted: &Service, cluster_uid: &str) -> ServiceObserved {
    ServiceObserved {
        name: actual.name_any(),
        uid: actual.uid().unwrap_or_default(),
        resource_version: actual.resource_version().unwrap_or_default(),
        ours: is_controlled_by(&actual.metadata, cluster_uid),
        selector: actual.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default(),
        as_built: build::service_as_built(actual, wanted),
    }
}

/// Keys of the three Secrets of static TLS, as the archived operator wants them.
const PEER_KEYS: [&str; 3] = ["peer.crt", "peer.key", "peer-ca.crt"];
const SERVER_KEYS: [&str; 3] = ["server.crt", "server.key", "server-ca.crt"];
const OPERATOR_KEYS: [&str; 3] = ["etcd-client.crt", "etcd-client.key", "etcd-client-ca.crt"];

/// The Secrets that a spec names.
#[derive(Default)]
struct Secrets {
    /// What is wrong with each that cannot be used.
    missing: BTreeMap<String, SecretTrouble>,
    /// What is in the others.
    certificates: Vec<CertificateObserved>,
    /// Our own client's material.
    tls: Option<EtcdTls>,
}

async fn observe_secrets(ports: &Ports, desired: &Desired) -> Secrets {
    let mut secrets = Secrets::default();
    let mut wanted: Vec<(&String, [&'static str; 3])> = Vec::new();
    wanted.extend(desired.tls.peer_secret.iter().map(|name| (name, PEER_KEYS)));
    if let Some(client) = &desired.tls.client {
        wanted.push((&client.server_secret, SERVER_KEYS));
        wanted.push((&client.operator_secret, OPERATOR_KEYS));
    }
    for (name, keys) in wanted {
        match read_secret(ports, desired, name, keys).await {
            Ok([certificate, private_key, ca]) => {
                let [of_certificate, _, of_ca] = keys;
                let of = |key, validity| CertificateObserved { secret: name.clone(), key, validity };
                secrets.certificates.push(of(of_certificate, certificates::presented(&certificate)));
                secrets.certificates.push(of(of_ca, certificates::authorities(&ca)));
                if keys == OPERATOR_KEYS {
                    secrets.tls = Some(EtcdTls { ca, certificate, key: private_key });
                }
            }
            Err(trouble) => {
                secrets.missing.insert(name.clone(), trouble);
            }
        }
    }
    secrets
}

async fn read_secret(
    ports: &Ports,
    desired: &Desired,
    name: &str,
    keys: [&'static str; 3],
) -> Result<[Vec<u8>; 3], SecretTrouble> {
    let key = ObjectKey::new(&desired.identity.namespace, name);
    match ports.kubernetes.get_typed::<Secret>(&key).await {
        Ok(Some(secret)) => secret_values(&secret, keys),
        Ok(None) => Err(SecretTrouble::Absent),
        Err(error) => Err(SecretTrouble::Unreadable { why: error.to_string() }),
    }
}

fn secret_values(secret: &Secret, keys: [&'static str; 3]) -> Result<[Vec<u8>; 3], SecretTrouble> {
    let value = |key: &str| {
        let data = secret.data.as_ref().and_then(|data| data.get(key));
        data.filter(|value| !value.0.is_empty()).map(|value| value.0.clone())
    };
    let found = keys.map(value);
    let absent: Vec<_> = keys.iter().zip(&found).filter(|(_, value)| value.is_none()).map(|(key, _)| *key).collect();
    if absent.is_empty() {
        Ok(found.map(Option::unwrap_or_default))
    } else {
        Err(SecretTrouble::Incomplete { keys: absent })
    }
}
