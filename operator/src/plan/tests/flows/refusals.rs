//! What is refused, and reasons to touch nothing at all.

use super::{check, is_ready};
use crate::model::{ClientTls, Tls};
use crate::plan::tests::world::World;
use crate::plan::{Step, plan};

#[test]
fn members_that_do_not_trust_our_certificate_are_named_with_what_they_say() {
    use crate::model::Observation;
    use crate::plan::Waiting;
    let world = World::formed(1, true, "3.6.10");
    let mut observed = world.observe();
    let why = "not authorised: unknown authority".to_owned();
    observed.etcd.statuses.values_mut().for_each(|status| *status = Observation::Unknown { why: why.clone() });
    let waiting = plan(&world.desired, &observed, world.now).waiting;
    assert!(waiting.contains(&Waiting::MemberHealth { member: world.leader(), why }), "{waiting:?}");
}

#[test]
fn reasons_to_touch_nothing_are_said() {
    let mut world = World::three();
    let name = world.follower();
    world.kill_pod(&name);
    world.desired.paused = true;
    world.run_passes(1);
    world.desired.paused = false;
    world.legacy_alive = Some("etcd-operator".into());
    world.run_passes(1);
    world.legacy_alive = None;
    world.secrets_missing.insert("tls".into(), crate::model::SecretTrouble::Absent);
    world.run_passes(1);
    world.secrets_missing.clear();
    world.services.get_mut("c-client").unwrap().ours = false;
    world.run_passes(1);
    world.services.get_mut("c-client").unwrap().ours = true;
    world.desired.deleting = true;
    world.run_passes(1);
    check(
        &world,
        r"
         1 [paused by spec.paused]
         2 [the archived operator still holds `etcd-operator`; scale it to 0 before this one may act]
         3 [waiting for Secret `tls`: it does not exist]
         4 [! Service `c-client` exists and is not controlled by this EtcdCluster; rename or remove it]
         5 [being deleted]
    ",
    );
    assert_eq!(world.pods.len(), 2);
}

#[test]
fn a_cluster_that_status_forgot_is_not_born_again() {
    let mut world = World::three();
    world.record = crate::model::Record::default();
    world.status = crate::api::cluster::EtcdClusterStatus::default();
    world.pods.clear();
    world.run_passes(2);
    check(
        &world,
        r"
         1 [! status records no cluster, but PersistentVolumeClaim `m1` exists; it is not formatted anew]
    ",
    );
}

fn with_tls(world: &mut World, peer: bool, client: bool) {
    let secrets = || ClientTls { server_secret: "server".into(), operator_secret: "operator".into() };
    world.desired.tls = Tls { peer_secret: peer.then(|| "peer".into()), client: client.then(secrets) };
}

#[test]
fn tls_that_is_turned_on_or_off_under_a_formed_cluster_is_refused_and_the_members_are_still_cared_for() {
    let kinds = [(false, false), (false, true), (true, false), (true, true)];
    for (from, to) in kinds.into_iter().flat_map(|from| kinds.map(|to| (from, to))) {
        for size in [1, 3] {
            let case = format!("{from:?} to {to:?}, size {size}");
            let mut world = World::new(size, true, "3.6.10");
            with_tls(&mut world, from.0, from.1);
            world.run();
            let running = world.desired.tls.clone();
            with_tls(&mut world, to.0, to.1);
            world.run_passes(2);
            assert_eq!(world.status.reason.contains("`spec.TLS` turns TLS"), from != to, "{}", world.status.reason);
            if size > 1 {
                let follower = world.follower();
                world.lose_volume(&follower);
                world.run_passes(20);
                assert!(!world.members().contains(&follower), "{case}: it is replaced all the same");
            }
            world.pods.clear();
            world.run_passes(10);
            assert_eq!((world.members().len(), world.pods.len()), (size, size), "{case}: {}", world.transcript);
            assert!(world.pods.values().all(|pod| pod.seen.tls == running), "{case}: all run with one kind, ever");
            assert_eq!(world.status.reason.contains("`spec.TLS` turns TLS"), from != to, "{}", world.status.reason);
            with_tls(&mut world, from.0, from.1);
            world.run();
            assert!(is_ready(&world), "{case}: the change is taken back");
        }
    }
}

#[test]
fn another_secret_is_no_other_kind_of_tls_and_is_what_is_kept_from_then_on() {
    let mut world = World::new(3, true, "3.6.10");
    with_tls(&mut world, true, true);
    world.run();
    world.desired.tls.peer_secret = Some("renewed".into());
    world.run();
    let renewed = world.desired.tls.clone();
    assert!(is_ready(&world));
    assert!(world.pods.values().all(|pod| pod.seen.tls == renewed));
    world.absent_secrets.insert("peer".into());
    with_tls(&mut world, false, false);
    world.run_passes(10);
    world.pods.clear();
    world.run_passes(10);
    assert!(world.pods.len() == 3 && world.pods.values().all(|pod| pod.seen.tls == renewed && pod.seen.running));
}

#[test]
fn the_pass_that_sees_the_formation_keeps_to_the_kind_of_tls_that_formed() {
    for (size, volumes, version) in [(3, true, "3.6.10"), (3, false, "3.6.10"), (1, false, "3.3.27")] {
        let mut world = World::new(size, volumes, version);
        world.run_passes(1);
        with_tls(&mut world, true, true);
        let planned = world.pass_of(usize::MAX);
        assert!(!planned.steps.iter().any(|step| !matches!(step, Step::UpdateService(_))), "{:?}", planned.steps);
        assert!(world.status.reason.contains("`spec.TLS` turns TLS"), "{}", world.status.reason);
        with_tls(&mut world, false, false);
        world.run();
        assert!(is_ready(&world));
    }
}

#[test]
fn a_restore_to_another_kind_of_tls_needs_the_secrets_of_the_spec_and_no_others() {
    let mut world = World::new(3, true, "3.6.10");
    with_tls(&mut world, true, true);
    world.run();
    with_tls(&mut world, false, false);
    world.absent_secrets.extend(["peer", "server", "operator"].map(str::to_owned));
    world.run_passes(2);
    assert!(world.status.reason.contains("waiting for Secret"), "{}", world.status.reason);
    world.want_restore("r", 100);
    world.run_passes(12);
    world.desired.restore = None;
    world.run();
    assert!(is_ready(&world) && world.pods.values().all(|pod| pod.seen.tls == Tls::default()));
    with_tls(&mut world, true, false);
    world.want_restore("s", 100);
    let before = world.pods.len();
    world.run_passes(3);
    assert_eq!(world.pods.len(), before, "no restored member is made that could not start");
    assert!(world.status.reason.contains("waiting for Secret `peer`"), "{}", world.status.reason);
    world.absent_secrets.clear();
    world.run_passes(12);
    world.desired.restore = None;
    world.run();
    assert!(is_ready(&world) && world.pods.values().all(|pod| pod.seen.tls == world.desired.tls));
}

#[test]
fn a_formation_that_has_not_begun_follows_the_kind_of_tls_that_is_wanted_now() {
    let mut world = World::new(3, true, "3.6.99");
    world.missing_images.insert("3.6.99".into());
    world.run_passes(3);
    with_tls(&mut world, true, true);
    world.want_version("3.6.10");
    world.run();
    assert!(world.pods.values().all(|pod| pod.seen.tls == world.desired.tls));
}

/// It is a new lineage, and serves as what the spec wants.
#[test]
fn a_restore_changes_the_kind_of_tls() {
    let mut world = World::three();
    with_tls(&mut world, true, true);
    world.run_passes(2);
    world.want_restore("r", 100);
    world.run_passes(12);
    world.desired.restore = None;
    world.run();
    assert!(is_ready(&world));
    assert!(world.pods.values().all(|pod| pod.seen.tls == world.desired.tls));
}

/// A quota that is used up: what a new member lacks holds up neither one that has data nor the way back.
#[test]
fn a_new_member_that_is_refused_holds_up_nobody_and_can_be_taken_back() {
    let mut world = World::three();
    let (members, name) = (world.members(), world.follower());
    world.no_new_volumes = true;
    world.want_size(5);
    world.run_passes(3);
    assert_eq!(world.members().len(), 4, "{}", world.readable());
    world.kill_pod(&name);
    world.run_passes(2);
    assert!(world.pods[&name].seen.running, "{}", world.readable());
    world.want_size(3);
    world.run();
    assert_eq!((world.members(), is_ready(&world)), (members, true), "{}", world.readable());
}

#[test]
fn where_there_is_room_for_one_pod_it_is_for_the_member_with_data() {
    let mut world = World::three();
    world.room_for = Some(3);
    world.want_size(5);
    world.run_passes(3);
    for name in world.members().into_iter().filter(|name| world.pods.contains_key(name)).collect::<Vec<_>>() {
        world.kill_pod(&name);
        world.run_passes(2);
        assert!(world.pods.get(&name).is_some_and(|pod| pod.seen.running), "{}", world.readable());
    }
}

/// Asked under another name nobody would answer, and a pod made anew would wait for a name that is not its own.
#[test]
fn another_domain_under_a_formed_cluster_is_refused_and_restored_members_begin_with_it() {
    let mut world = World::three();
    world.run_passes(2);
    let name = world.follower();
    world.desired.cluster_domain = ".cluster.lcal".to_owned();
    world.kill_pod(&name);
    let steps = plan(&world.desired, &world.observe(), world.now).steps;
    let pods: Vec<_> =
        steps.iter().filter_map(|step| if let Step::CreatePod(pod) = step { Some(pod) } else { None }).collect();
    assert!(pods.len() == 1 && !serde_json::to_string(&pods[0]).expect("json").contains("cluster.lcal"));
    world.run_passes(3);
    assert!(world.status.reason.contains("`spec.pod.ClusterDomain` is `.cluster.lcal`"), "{}", world.status.reason);
    assert!(world.pods[&name].seen.running, "{}", world.readable());
    world.want_restore("r", 100);
    while world.record.restore.as_ref().is_none_or(|restore| !restore.lineage.formed) {
        world.run_passes(1);
    }
    let restored = world.record.restore.clone().expect("it is under way").lineage;
    assert_eq!(restored.cluster_domain.as_deref(), Some(".cluster.lcal"), "known from when it was confirmed");
    world.run();
    assert!(is_ready(&world), "{}", world.status.reason);
    let lineage = world.record.lineage.as_ref().expect("it is formed");
    assert_eq!(lineage.cluster_domain.as_deref(), Some(".cluster.lcal"));
}

/// A volume without a pod tells that there was one: a quota on pods alone must not make it lie.
#[test]
fn members_whose_pods_were_refused_begin_as_new_ones_when_there_is_room() {
    let mut world = World::formed(1, true, "3.2.13");
    world.room_for = Some(1);
    world.want_size(3);
    world.run_passes(3);
    assert_eq!((world.pods.len(), world.volumes.len()), (1, 1), "{}", world.readable());
    world.room_for = None;
    world.run();
    assert_eq!((world.members().len(), is_ready(&world)), (3, true), "{}", world.readable());
}

#[test]
fn a_birth_that_ran_into_a_quota_goes_on_in_the_same_attempt() {
    for (volumes, room) in [(true, 0), (true, 1), (true, 2), (false, 1)] {
        let mut world = World::new(3, volumes, "3.6.10");
        world.room_for = Some(room);
        world.run_passes(4);
        assert_eq!(world.pods.len(), room);
        world.room_for = None;
        world.run();
        assert!(is_ready(&world), "volumes {volumes}, room for {room}: {}", world.readable());
        assert_eq!(world.record.lineage.as_ref().map(|lineage| lineage.attempt), Some(1));
    }
}
