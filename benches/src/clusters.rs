//! EtcdClusters as they are when all is well, made of the objects that `build` makes, and what etcd says of them.

use etcd_operator::agent::InitialState;
use etcd_operator::api::{EtcdCluster, names};
use etcd_operator::build::{self, MemberStart};
use etcd_operator::cache::Cache;
use etcd_operator::model::{
    ClusterId, Desired, EtcdMember, EtcdObserved, Lineage, MemberId, MemberStatus, Membership, Observation, Observed,
    RaftTerm, Record, Revision, ServiceObserved, Tls,
};
use etcd_operator::observe::{View, observe_objects};
use etcd_operator::ports::{Object, ObjectKey, Typed};
use etcd_operator::validate::{Settings, validate};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodCondition, PodStatus, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

/// The namespace of all of them.
pub const NAMESPACE: &str = "bench";

/// The moment of all that is observed.
pub fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().expect("a time")
}

/// What the operator is set to.
pub fn settings() -> Settings {
    Settings { agent_image: "etcd-operator:0.1.0".into(), replace_after: SignedDuration::from_mins(5) }
}

/// A cluster of the API with a volume for each member.
pub fn cluster(name: &str, size: usize) -> EtcdCluster {
    let volume = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}}});
    let object = json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "generation": 1, "resourceVersion": "1"},
        "spec": {"size": size, "version": "3.6.10", "pod": {"persistentVolumeClaimSpec": volume}},
    });
    serde_json::from_value(object).expect("it is an EtcdCluster")
}

/// A cluster that was formed an hour ago and is as wanted.
pub struct Formed {
    /// What is wanted.
    pub desired: Desired,
    /// What status remembers.
    pub record: Record,
    /// The EtcdCluster, its Services, pods and volumes, as the API server has them.
    pub objects: Vec<Object>,
    /// What its members say.
    pub etcd: EtcdObserved,
}

impl Formed {
    /// All members run and follow one leader.
    pub fn new(name: &str, size: usize) -> Self {
        let cluster = cluster(name, size);
        let desired = validate(&cluster, None, &settings()).expect("the spec is valid");
        let uid = &desired.identity.uid;
        let lineage = Lineage {
            attempt: 1,
            token: names::formation_token(uid, 1),
            seeds: (0..size).map(|index| names::formation_member_name(name, uid, 1, index)).collect(),
            formed: true,
            formed_at: now().checked_sub(SignedDuration::from_hours(1)).ok(),
            cluster_id: Some(ClusterId(7)),
            restored_from: None,
            tls: Some(Tls::default()),
            cluster_domain: Some(String::new()),
        };
        let mut objects = vec![cluster.into_object()];
        objects
            .extend([build::peer_service(&desired), build::client_service(&desired, Some(&lineage.token))].map(stored));
        for (index, member) in lineage.seeds.iter().enumerate() {
            let start = MemberStart {
                name: member,
                lineage: &lineage.token,
                voter: true,
                initial_cluster: build::initial_cluster(&desired, lineage.seeds.iter().map(String::as_str)),
                state: InitialState::New,
                expect_data: false,
                restore: None,
            };
            objects.push(stored(running(build::member_pod(&desired, &start), index)));
            objects.push(stored(build::member_volume(&desired, member, &lineage.token)));
        }
        let etcd = healthy(&desired, &lineage.seeds);
        let record = Record { version: Some(desired.version.clone()), lineage: Some(lineage), ..Record::default() };
        Self { desired, record, objects, etcd }
    }

    /// Its key.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(NAMESPACE, &self.desired.identity.name)
    }

    /// What a pass sees of it, when the cache has its objects.
    pub fn observe(&self, cache: &Cache) -> Observed {
        let view = View::cached(cache, &self.key()).expect("the cache has it");
        let mut observed = observe_objects(&view, self.record.clone(), 1, None);
        observed.peer_service = view.peer_service.as_deref().map(observed_service);
        observed.client_service = view.client_service.as_deref().map(observed_service);
        observed.etcd = self.etcd.clone();
        observed
    }

    /// The same, when its last member has answered nobody for ten minutes: time to replace it.
    pub fn observe_with_a_failed_member(&self, cache: &Cache) -> Observed {
        let mut observed = self.observe(cache);
        let failed = self.record.lineage.iter().flat_map(|lineage| &lineage.seeds).next_back().expect("it has members");
        let why = "no answer in 5 s".to_owned();
        observed.etcd.statuses.insert(failed.clone(), Observation::Unknown { why });
        let since = now().checked_sub(SignedDuration::from_mins(10)).expect("within range");
        observed.record.unreachable_since.insert(failed.clone(), since);
        let pod = observed.pods.get_mut(failed).expect("it has a pod");
        (pod.ready, pod.running) = (false, false);
        observed
    }
}

/// What the API server adds.
fn stored<K: Typed + k8s_openapi::Metadata<Ty = ObjectMeta>>(mut object: K) -> Object {
    let metadata = object.metadata_mut();
    metadata.uid = Some(format!("uid-of-{}", metadata.name.as_deref().unwrap_or_default()));
    metadata.resource_version = Some("1".to_owned());
    metadata.creation_timestamp = Some(Time(now()));
    object.into_object()
}

/// What the scheduler and the kubelet add.
fn running(mut pod: Pod, index: usize) -> Pod {
    let condition = |kind: &str| PodCondition { type_: kind.into(), status: "True".into(), ..PodCondition::default() };
    let spec = pod.spec.as_mut().expect("members have a spec");
    spec.node_name = Some(format!("node-{index}"));
    let status = |container: &k8s_openapi::api::core::v1::Container| ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        ready: true,
        started: Some(true),
        state: Some(ContainerState { running: Some(ContainerStateRunning::default()), ..ContainerState::default() }),
        ..ContainerStatus::default()
    };
    let statuses = spec.containers.iter().map(status).collect();
    pod.status = Some(PodStatus {
        phase: Some("Running".into()),
        pod_ip: Some(format!("10.0.0.{index}")),
        conditions: Some(["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition).into()),
        container_statuses: Some(statuses),
        ..PodStatus::default()
    });
    pod
}

fn healthy(desired: &Desired, members: &[String]) -> EtcdObserved {
    let at = now();
    let id = |index: usize| MemberId(0x1000 + index as u64);
    let list = members.iter().enumerate().map(|(index, name)| EtcdMember {
        id: id(index),
        name: name.clone(),
        peer_urls: vec![build::peer_url(desired, name)],
        client_urls: vec![build::client_url(desired, name)],
        learner: false,
    });
    let membership = Membership { cluster_id: ClusterId(7), members: list.collect() };
    let status = |index: usize| MemberStatus {
        cluster_id: ClusterId(7),
        member_id: id(index),
        version: desired.version.to_string(),
        storage_version: None,
        leader: Some(id(0)),
        term: RaftTerm(3),
        raft_index: 1000,
        raft_applied_index: 1000,
        revision: Revision(900),
        db_size: 1 << 20,
        learner: false,
        errors: Vec::new(),
    };
    let statuses = members.iter().enumerate();
    EtcdObserved {
        membership: Observation::Known { value: membership.clone(), at },
        membership_local: Observation::Known { value: membership, at },
        statuses: statuses
            .map(|(index, name)| (name.clone(), Observation::Known { value: status(index), at }))
            .collect(),
        quorum_read: Observation::Known { value: Revision(900), at },
        alarms: Observation::Known { value: Vec::new(), at },
        hashes: std::collections::BTreeMap::new(),
    }
}

fn observed_service(service: &Service) -> ServiceObserved {
    let (meta, spec) = (&service.metadata, service.spec.as_ref());
    ServiceObserved {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        ours: true,
        selector: spec.and_then(|spec| spec.selector.clone()).unwrap_or_default(),
        as_built: true,
    }
}
