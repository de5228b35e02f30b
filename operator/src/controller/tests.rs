//! What one process does with its queues, and with objects that are another operator's.

use super::*;
use crate::api::EtcdClusterStatus;
use crate::backup::tests::world::{World, now};
use crate::ports::{NoMeter, PassResult};
use serde_json::Value;

const META: &str = "name: a, namespace: ns, uid: u1, generation: 1";
const GROUP: &str = "apiVersion: etcd.database.coreos.com/v1beta2";

fn options(clusterwide: bool) -> Options {
    Options {
        scope: Scope::Cluster,
        clusterwide,
        controllers: Controller::ALL.into_iter().collect(),
        settings: settings(),
        candidate: Candidate { namespace: "ns".into(), identity: "me".into() },
        part_bytes: 6000,
    }
}

fn settings() -> Settings {
    Settings { agent_image: "operator:v1".into(), replace_after: SignedDuration::from_mins(2) }
}

/// A process that has its leases and its caches.
fn process(world: &World) -> Process {
    let mut process = Process::new(world.ports(), options(false), Arc::new(NoMeter));
    for kind in WATCHED {
        process.take_in(Happening::Watched(kind, WatchEvent::Relisted(Vec::new())));
    }
    let until = process.ports.clock.monotonic() + leadership::LEASE_DURATION;
    process.fences.values().for_each(|fence| fence.extend(until));
    process
}

/// How many EtcdClusters a process manages, and how many of them have failed.
#[derive(Default)]
struct Counts(Mutex<(usize, usize)>);

impl Meter for Counts {
    fn pass(&self, _: &Target, _: SignedDuration, _: PassResult) {}
    fn cluster(&self, _: ClusterChange) {}
    fn clusters(&self, managed: usize, failed: usize) {
        *self.0.lock().unwrap() = (managed, failed);
    }
    fn queue(&self, _: Controller, _: usize, _: bool) {}
    fn ready(&self, _: bool) {}
    fn alive(&self) {}
}

#[test]
fn clusters_are_counted_as_they_come_fail_change_their_operator_and_go() {
    let counts = Arc::new(Counts::default());
    let mut process = Process::new(World::new().ports(), options(false), counts.clone());
    let cluster = |name: &str, version: u64, scope: &str, phase: &str| {
        let text = format!(
            "{{{GROUP}, kind: EtcdCluster, metadata: {{name: {name}, namespace: ns, uid: u, resourceVersion: '{version}', \
             annotations: {{etcd.database.coreos.com/scope: '{scope}'}}}}, spec: {{size: 3}}, status: {{phase: {phase}}}}}"
        );
        Object::from_json(Kind::EtcdCluster, serde_saphyr::from_str(&text).expect("a manifest")).expect("a cluster")
    };
    let mut after = |event: WatchEvent| {
        process.take_in(Happening::Watched(Kind::EtcdCluster, event));
        *counts.0.lock().unwrap()
    };
    assert_eq!(
        after(WatchEvent::Relisted(vec![cluster("a", 1, "", "Running"), cluster("b", 2, "", "Failed")])),
        (2, 1)
    );
    assert_eq!(after(WatchEvent::Applied(cluster("a", 3, "", "Failed"))), (2, 2));
    assert_eq!(after(WatchEvent::Applied(cluster("b", 4, "clusterwide", "Failed"))), (1, 1));
    assert_eq!(after(WatchEvent::Applied(cluster("a", 5, "", "Running"))), (1, 0));
    assert_eq!(after(WatchEvent::Deleted(cluster("a", 6, "", "Running"))), (0, 0));
}

#[test]
fn a_queue_without_a_free_place_is_not_looked_at_again_and_again() {
    for controller in Controller::ALL {
        let mut process = process(&World::new());
        let moment = process.ports.clock.monotonic();
        process.add(controller, &ObjectKey::new("ns", "a"));
        assert_eq!(process.idle_time(moment), SignedDuration::ZERO, "there is work");
        process.in_flight.insert(controller, passes_max(controller));
        assert_eq!(process.idle_time(moment), IDLE_PERIOD, "{controller:?}: a pass that ends wakes the process");
    }
}

/// What /readyz would answer.
#[derive(Default)]
struct Readiness(Mutex<Option<bool>>);

impl Meter for Readiness {
    fn pass(&self, _: &Target, _: SignedDuration, _: PassResult) {}
    fn cluster(&self, _: ClusterChange) {}
    fn clusters(&self, _: usize, _: usize) {}
    fn queue(&self, _: Controller, _: usize, _: bool) {}
    fn ready(&self, ready: bool) {
        *self.0.lock().unwrap() = Some(ready);
    }
    fn alive(&self) {}
}

#[test]
fn a_process_is_ready_once_its_caches_are_filled_and_each_lease_is_somebodys() {
    let readiness = Arc::new(Readiness::default());
    let mut process = Process::new(World::new().ports(), options(false), readiness.clone());
    let mut is_ready = |change: &dyn Fn(&mut Process)| {
        change(&mut process);
        process.start_due();
        readiness.0.lock().unwrap().take()
    };
    let others = |process: &mut Process| process.fences.values().for_each(|fence| fence.lose());
    assert_eq!(is_ready(&others), Some(false), "no cache is filled");
    let fill = |process: &mut Process| {
        for kind in WATCHED {
            process.take_in(Happening::Watched(kind, WatchEvent::Relisted(Vec::new())));
        }
    };
    assert_eq!(is_ready(&fill), Some(true), "a follower is ready");
    assert_eq!(is_ready(&|process| process.fences[&Controller::Backup].refuse()), Some(false));
    assert_eq!(is_ready(&others), Some(true));
}

#[test]
fn work_that_is_due_without_the_lease_or_without_the_caches_does_not_spin() {
    let mut process = process(&World::new());
    let moment = process.ports.clock.monotonic();
    process.add(Controller::Cluster, &ObjectKey::new("ns", "a"));
    process.fences[&Controller::Cluster].lose();
    assert_eq!(process.idle_time(moment), FOLLOWER_PERIOD);
    let mut process = Process::new(World::new().ports(), options(false), Arc::new(NoMeter));
    process.fences.values().for_each(|fence| fence.extend(moment + leadership::LEASE_DURATION));
    process.add(Controller::Cluster, &ObjectKey::new("ns", "a"));
    assert_eq!(process.idle_time(moment), IDLE_PERIOD);
}

fn held(world: &World) -> Arc<Fence> {
    let fence = Arc::new(Fence::default());
    fence.extend(world.ports().clock.monotonic() + SignedDuration::from_hours(1));
    fence
}

fn context(world: &World, clusterwide: bool) -> Context {
    Context {
        ports: world.ports(),
        cache: Arc::default(),
        settings: settings(),
        part_bytes: 6000,
        clusterwide,
        legacy_alive: None,
        refusals: Refusals::default(),
    }
}

/// The watch tells what there is.
fn show(context: &Context, kind: Kind, key: &ObjectKey) {
    let seen = now(context.ports.kubernetes.get(kind, key)).expect("it is read").expect("it is there");
    context.cache.lock().expect("nobody panicked").apply(kind, WatchEvent::Applied(seen));
}

/// A quota, an admission policy, a role that lacks a verb: without these words a person sees members that never come.
#[test]
fn what_kubernetes_refuses_is_told_once_and_stands_in_the_status_as_long_as_it_lasts() {
    let message = "exceeded quota: pods=0".to_owned();
    refused_until_it_is_not(KubernetesError::Forbidden { message }, "exceeded quota: pods=0");
}

/// `kubectl label pod a-x etcd_cluster-` takes a pod out of our sight.
#[test]
fn an_object_in_the_way_that_does_not_look_like_ours_is_told() {
    let message = "services \"a\" already exists".to_owned();
    refused_until_it_is_not(
        KubernetesError::AlreadyExists { message },
        "already exists, and does not carry the label `etcd_cluster` of this cluster",
    );
}

fn refused_until_it_is_not(error: KubernetesError, words: &str) {
    let (world, kind) = (World::new(), Kind::EtcdCluster);
    let manifest = format!("{{{GROUP}, kind: EtcdCluster, metadata: {{{META}}}, spec: {{size: 3, version: 3.6.10}}}}");
    let key = world.kubernetes.insert(kind, &manifest);
    let (context, fence) = (context(&world, false), held(&world));
    let target = Target { controller: Controller::Cluster, key: key.clone() };
    *world.kubernetes.refuse_creates.lock().unwrap() = Some(error);
    let status = || {
        show(&context, kind, &key);
        let cluster = now(world.ports().kubernetes.get_typed::<EtcdCluster>(&key)).expect("it is read");
        cluster.expect("it is there").status.clone().unwrap_or_default()
    };
    let mut told = Vec::new();
    for _ in 0..4 {
        let _seen = status();
        assert!(now(run_pass(&context, &target, fence.clone())).is_err());
        told.extend(world.kubernetes.told().into_iter().filter(|event| event.contains("StepRefused")));
    }
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with(words), "{told:?}");
    let progressing = |status: &EtcdClusterStatus| {
        let condition = crate::api::conditions::find(&status.conditions, "Progressing").expect("it is always there");
        (condition.reason.clone(), condition.message.contains(words))
    };
    assert_eq!(progressing(&status()), ("StepRefused".to_owned(), true));
    *world.kubernetes.refuse_creates.lock().unwrap() = None;
    for _ in 0..3 {
        let _seen = status();
        let _end = now(run_pass(&context, &target, fence.clone()));
    }
    assert!(!progressing(&status()).1);
}

/// The others were planned without it.
#[test]
fn what_kubernetes_refuses_holds_up_no_other_step_of_the_pass() {
    let (world, kind) = (World::new(), Kind::EtcdCluster);
    let manifest = format!("{{{GROUP}, kind: EtcdCluster, metadata: {{{META}}}, spec: {{size: 3, version: 3.6.10}}}}");
    let key = world.kubernetes.insert(kind, &manifest);
    let context = context(&world, false);
    show(&context, kind, &key);
    let message = "exceeded quota: services=0".to_owned();
    *world.kubernetes.refuse_creates.lock().unwrap() = Some(KubernetesError::Forbidden { message });
    *world.kubernetes.refused_kind.lock().unwrap() = Some(Kind::Service);
    let target = Target { controller: Controller::Cluster, key };
    let (reason, why) = now(run_pass(&context, &target, held(&world))).expect_err("a step was refused");
    assert_eq!((reason, why.contains("exceeded quota")), (FailureReason::KubernetesWrite, true), "{why}");
    let pods = world.kubernetes.created.lock().unwrap().iter().filter(|kind| **kind == Kind::Pod).count();
    assert_eq!(pods, 3);
}

/// An object of each kind, queued while it was ours and moved to the other operator since.
#[test]
fn an_object_whose_scope_was_changed_while_it_was_queued_is_left_to_the_other_operator() {
    let objects = [
        (Controller::Cluster, Kind::EtcdCluster, "EtcdCluster", "size: 3, version: 3.6.10"),
        (
            Controller::Backup,
            Kind::EtcdBackup,
            "EtcdBackup",
            "etcdEndpoints: ['http://a:2379'], storageType: S3, s3: {path: bucket/key}",
        ),
        (
            Controller::Restore,
            Kind::EtcdRestore,
            "EtcdRestore",
            "etcdCluster: {name: a}, backupStorageType: S3, s3: {path: bucket/key}",
        ),
    ];
    for (controller, kind, name, spec) in objects {
        for clusterwide in [false, true] {
            let annotated = |yes: bool| {
                let scope = if yes { ", annotations: {etcd.database.coreos.com/scope: clusterwide}" } else { "" };
                format!("{{{GROUP}, kind: {name}, metadata: {{{META}{scope}}}, spec: {{{spec}}}}}")
            };
            let world = World::new();
            let key = world.kubernetes.insert(kind, &annotated(clusterwide));
            let fence = held(&world);
            let context = context(&world, clusterwide);
            show(&context, kind, &key);
            let target = Target { controller, key: key.clone() };
            world.kubernetes.edit(kind, &key, |json| {
                let moved: Value = serde_saphyr::from_str(&annotated(!clusterwide)).expect("a manifest");
                json["metadata"]["annotations"] = moved["metadata"]["annotations"].clone();
            });
            assert_eq!(now(run_pass(&context, &target, fence.clone())), Ok(None), "{name}");
            assert_eq!(*world.kubernetes.writes.lock().unwrap(), 0, "{name}: nothing is said in its status");
            world.kubernetes.edit(kind, &key, |json| {
                let back: Value = serde_saphyr::from_str(&annotated(clusterwide)).expect("a manifest");
                json["metadata"]["annotations"] = back["metadata"]["annotations"].clone();
            });
            let _passed = now(run_pass(&context, &target, fence));
            assert!(*world.kubernetes.writes.lock().unwrap() > 0, "{name}: as soon as it is ours it is worked on");
        }
    }
}
