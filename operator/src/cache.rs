//! What the watches have told so far. Sans-IO, one for all lanes.
//!
//! It may be old, and it may have missed states in between: it is good for finding out that something is to be done,
//! never for doing it (`reconcile` reads again before any effect). So it need not be whole either: see [`lean`].

use k8s_openapi::api::core::v1::{Container, PodSpec, SecretVolumeSource, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::{labels, names};
use crate::ports::object::Typed;
use crate::ports::{Kind, Object, ObjectKey, WatchEvent};

/// An object whose state in the cache changed.
#[derive(Clone, Debug)]
pub struct Change {
    /// What was known before; none when it is new.
    pub before: Option<Object>,
    /// What is known now; none when it is gone.
    pub now: Option<Object>,
}

impl Change {
    /// The object as it is, or as it last was.
    pub fn latest(&self) -> &Object {
        self.now.as_ref().or(self.before.as_ref()).expect("a change is of something")
    }
}

/// The cache.
#[derive(Default)]
pub struct Cache {
    objects: BTreeMap<Kind, BTreeMap<ObjectKey, Object>>,
    /// Kind and EtcdCluster -> its objects: those with its label, and the EtcdBackups that name it.
    by_cluster: BTreeMap<(Kind, ObjectKey), BTreeSet<ObjectKey>>,
    synced: BTreeSet<Kind>,
}

impl Cache {
    /// Takes in what a watch said; the changes that it made.
    pub fn apply(&mut self, kind: Kind, event: WatchEvent) -> Vec<Change> {
        match event {
            WatchEvent::Applied(object) => self.put(object).into_iter().collect(),
            WatchEvent::Deleted(object) => self.remove(kind, &object.key()).into_iter().collect(),
            // What it was is no longer true, and what it is is not known. Passes that wanted it find that out by themselves.
            WatchEvent::Unreadable { meta, .. } => self.remove(kind, &ObjectKey::of(&meta)).into_iter().collect(),
            WatchEvent::Interrupted(_) => Vec::new(),
            WatchEvent::Relisted(objects) => {
                let listed: BTreeSet<_> = objects.iter().map(Object::key).collect();
                let gone: Vec<_> = self
                    .objects
                    .get(&kind)
                    .into_iter()
                    .flat_map(BTreeMap::keys)
                    .filter(|key| !listed.contains(key))
                    .cloned()
                    .collect();
                let mut changes: Vec<_> = gone.iter().filter_map(|key| self.remove(kind, key)).collect();
                changes.extend(objects.into_iter().filter_map(|object| self.put(object)));
                self.synced.insert(kind);
                changes
            }
        }
    }

    /// Whether the watch of this kind has delivered its first complete state.
    pub fn is_synced(&self, kind: Kind) -> bool {
        self.synced.contains(&kind)
    }

    /// One object.
    pub fn get<K: Typed>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.objects.get(&K::KIND)?.get(key)?.typed()
    }

    /// All objects of a kind.
    pub fn all<K: Typed>(&self) -> impl Iterator<Item = Arc<K>> {
        self.objects.get(&K::KIND).into_iter().flat_map(BTreeMap::values).filter_map(Object::typed)
    }

    /// All objects of a kind that are of this cluster, as [`clusters_of`] has it.
    pub fn of_cluster<K: Typed>(&self, cluster: &ObjectKey) -> Vec<Arc<K>> {
        let keys = self.by_cluster.get(&(K::KIND, cluster.clone())).into_iter().flatten();
        keys.filter_map(|key| self.get::<K>(key)).collect()
    }

    fn put(&mut self, object: Object) -> Option<Change> {
        let (kind, key) = (object.kind(), object.key());
        let before = self.objects.entry(kind).or_default().get(&key).cloned();
        if let Some(known) = &before {
            if known.resource_version() == object.resource_version() || is_older(&object, known) {
                return None;
            }
            let clusters = clusters_of(known);
            if clusters != clusters_of(&object) {
                self.unindex(kind, clusters, &key);
            }
        }
        for cluster in clusters_of(&object) {
            self.by_cluster.entry((kind, cluster)).or_default().insert(key.clone());
        }
        let object = lean(object);
        self.objects.entry(kind).or_default().insert(key, object.clone());
        Some(Change { before, now: Some(object) })
    }

    fn remove(&mut self, kind: Kind, key: &ObjectKey) -> Option<Change> {
        let object = self.objects.get_mut(&kind)?.remove(key)?;
        self.unindex(kind, clusters_of(&object), key);
        Some(Change { before: Some(object), now: None })
    }

    fn unindex(&mut self, kind: Kind, clusters: BTreeSet<ObjectKey>, key: &ObjectKey) {
        for cluster in clusters {
            let index = (kind, cluster);
            if let Some(keys) = self.by_cluster.get_mut(&index) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_cluster.remove(&index);
                }
            }
        }
    }
}

/// What `observe` looks at of a pod, a volume or a Service. The rest is most of their weight (the volumes of a pod alone
/// are half of it), and with ten thousand clusters it would not fit into what the operator may use.
fn lean(mut object: Object) -> Object {
    match &mut object {
        Object::Pod(pod) => {
            let pod = Arc::make_mut(pod);
            pod.metadata.managed_fields = None;
            if let Some(spec) = &mut pod.spec {
                let named = |container: &Container| Container {
                    name: container.name.clone(),
                    image: container.image.clone(),
                    readiness_probe: container.readiness_probe.clone(),
                    ..Container::default()
                };
                let containers = spec.containers.iter().map(named).collect();
                let init_containers = spec.init_containers.as_ref().map(|all| all.iter().map(named).collect());
                let volumes: Vec<_> = spec.volumes.iter().flatten().filter_map(claim_or_secret).collect();
                *spec = PodSpec {
                    node_name: spec.node_name.take(),
                    containers,
                    init_containers,
                    volumes: (!volumes.is_empty()).then_some(volumes),
                    ..PodSpec::default()
                };
            }
        }
        Object::PersistentVolumeClaim(claim) => Arc::make_mut(claim).metadata.managed_fields = None,
        Object::Service(service) => Arc::make_mut(service).metadata.managed_fields = None,
        _ => {}
    }
    object
}

/// What tells where a member's data is, and with which certificates it was started.
fn claim_or_secret(volume: &Volume) -> Option<Volume> {
    let secret = volume
        .secret
        .as_ref()
        .map(|secret| SecretVolumeSource { secret_name: secret.secret_name.clone(), ..SecretVolumeSource::default() });
    let persistent_volume_claim = volume.persistent_volume_claim.clone();
    let is_one = secret.is_some() || persistent_volume_claim.is_some();
    is_one.then(|| Volume { name: volume.name.clone(), secret, persistent_volume_claim, ..Volume::default() })
}

/// A watch that reconnects to a lagging API server replays the past. Within one object's life (one uid) versions only
/// grow (KEP-5504: resource versions compare as numbers), so the past is recognised and dropped.
fn is_older(new: &Object, known: &Object) -> bool {
    let number = |object: &Object| object.resource_version().parse::<u64>().ok();
    new.uid() == known.uid() && number(new).zip(number(known)).is_some_and(|(new, known)| new < known)
}

/// The EtcdClusters that an object is of: by its label, or, for an EtcdBackup, by the endpoints that it is taken from (in its
/// own namespace: what one of another says is not this one's to repeat).
pub fn clusters_of(object: &Object) -> BTreeSet<ObjectKey> {
    let meta = object.meta();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    if let Object::EtcdBackup(backup) = object {
        let endpoints = backup.spec.etcd_endpoints.iter();
        let named = endpoints.flat_map(|endpoint| names::clusters_of_endpoint(endpoint, namespace));
        let own = named.filter(|(of, _)| of == namespace);
        return own.map(|(namespace, name)| ObjectKey::new(&namespace, &name)).collect();
    }
    let label = meta.labels.as_ref().and_then(|labels| labels.get(labels::LABEL_CLUSTER));
    label.map(|name| ObjectKey::new(namespace, name)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::EtcdBackup;
    use k8s_openapi::api::core::v1::Pod;

    fn pod(name: &str, cluster: &str, uid: &str, version: u64) -> Object {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.into());
        pod.metadata.namespace = Some("ns".into());
        pod.metadata.uid = Some(uid.into());
        pod.metadata.resource_version = Some(version.to_string());
        pod.metadata.labels = Some([(labels::LABEL_CLUSTER.to_owned(), cluster.to_owned())].into());
        pod.into_object()
    }

    fn names(cache: &Cache, cluster: &str) -> Vec<String> {
        let pods = cache.of_cluster::<Pod>(&ObjectKey::new("ns", cluster));
        pods.iter().map(|pod| pod.metadata.name.clone().unwrap_or_default()).collect()
    }

    #[test]
    fn a_relist_drops_what_is_gone_and_tells_of_it() {
        let mut cache = Cache::default();
        assert!(!cache.is_synced(Kind::Pod));
        cache.apply(Kind::Pod, WatchEvent::Relisted(vec![pod("a", "one", "u1", 1), pod("b", "one", "u2", 2)]));
        assert!(cache.is_synced(Kind::Pod));
        let changes = cache.apply(Kind::Pod, WatchEvent::Relisted(vec![pod("b", "one", "u2", 2)]));
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].latest().key().name, "a");
        assert_eq!(names(&cache, "one"), ["b"]);
    }

    #[test]
    fn an_object_that_became_unreadable_is_forgotten_until_it_can_be_read() {
        let mut cache = Cache::default();
        cache.apply(Kind::Pod, WatchEvent::Applied(pod("a", "one", "u1", 1)));
        let meta = Box::new(pod("a", "one", "u1", 2).meta().clone());
        let changes = cache.apply(Kind::Pod, WatchEvent::Unreadable { meta, why: "missing field".into() });
        assert!(changes.len() == 1 && changes[0].now.is_none() && names(&cache, "one").is_empty());
        assert_eq!(cache.apply(Kind::Pod, WatchEvent::Applied(pod("a", "one", "u1", 3))).len(), 1);
    }

    #[test]
    fn the_past_of_the_same_object_is_dropped_and_a_new_uid_is_not() {
        let mut cache = Cache::default();
        cache.apply(Kind::Pod, WatchEvent::Applied(pod("a", "one", "u1", 10)));
        assert!(cache.apply(Kind::Pod, WatchEvent::Applied(pod("a", "one", "u1", 9))).is_empty());
        assert_eq!(cache.apply(Kind::Pod, WatchEvent::Applied(pod("a", "one", "u2", 5))).len(), 1);
    }

    #[test]
    fn a_backup_is_of_the_clusters_that_its_endpoints_name() {
        let backup = |version: u64, endpoints: &str| {
            let text = format!(
                "{{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdBackup, metadata: {{name: b, namespace: ns, \
                 uid: u1, resourceVersion: '{version}'}}, spec: {{etcdEndpoints: [{endpoints}]}}}}"
            );
            let json = serde_saphyr::from_str(&text).expect("a manifest");
            Object::from_json(Kind::EtcdBackup, json).expect("a backup")
        };
        let mut cache = Cache::default();
        let of = |cache: &Cache, cluster: &str| cache.of_cluster::<EtcdBackup>(&ObjectKey::new("ns", cluster)).len();
        cache.apply(
            Kind::EtcdBackup,
            WatchEvent::Applied(backup(1, "'http://one-client.ns:2379', 'one-client.ns:2379'")),
        );
        assert_eq!((of(&cache, "one"), of(&cache, "two")), (1, 0));
        cache.apply(Kind::EtcdBackup, WatchEvent::Applied(backup(2, "'http://two-client.ns:2379'")));
        assert_eq!((of(&cache, "one"), of(&cache, "two")), (0, 1));
        cache.apply(Kind::EtcdBackup, WatchEvent::Applied(backup(3, "'http://two-client.other:2379'")));
        assert_eq!(of(&cache, "two"), 0, "what one of another namespace says is not repeated");
        cache.apply(Kind::EtcdBackup, WatchEvent::Deleted(backup(3, "'http://two-client.other:2379'")));
        assert!(cache.by_cluster.is_empty());
    }

    #[test]
    fn an_object_that_changes_its_cluster_moves_in_the_index() {
        let mut cache = Cache::default();
        cache.apply(Kind::Pod, WatchEvent::Applied(pod("a", "one", "u1", 1)));
        cache.apply(Kind::Pod, WatchEvent::Applied(pod("a", "two", "u1", 2)));
        assert_eq!((names(&cache, "one"), names(&cache, "two")), (vec![], vec!["a".to_owned()]));
        cache.apply(Kind::Pod, WatchEvent::Deleted(pod("a", "two", "u1", 3)));
        assert!(names(&cache, "two").is_empty() && cache.by_cluster.is_empty());
    }
}
