//! What is refused, and reasons to touch nothing at all.

use super::check;
use crate::plan::tests::world::World;

#[test]
fn members_that_do_not_trust_our_certificate_are_named_with_what_they_say() {
    use crate::model::Observation;
    use crate::plan::{Waiting, plan};
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
    world.secrets_missing.insert("tls".into(), "it does not exist".into());
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
