//! Versions: rolled member by member, waited for, refused, taken back.

use k8s_openapi::api::core::v1::EnvVar;

use super::{check, is_ready};
use crate::api::conditions::{ConditionStatus, find};
use crate::plan::tests::world::World;

#[test]
fn a_version_is_rolled_member_by_member_the_leader_last() {
    let mut world = World::formed(3, true, "3.5.26");
    world.want_version("3.6.10");
    world.run();
    check(
        &world,
        r"
         1 patch image of m1 to 3.6.10
         2 patch image of m2 to 3.6.10
         3 move leader m3 -> m1
         4 patch image of m3 to 3.6.10
    ",
    );
    assert_eq!(world.status.current_version, "3.6.10");
    assert_eq!(world.status.target_version, "");
}

#[test]
fn a_minor_that_is_taken_back_half_way_does_not_take_the_last_old_member_along() {
    let mut world = World::three();
    world.want_version("3.7.3");
    while world.pods.values().filter(|pod| pod.seen.image == "etcd:v3.7.3").count() < 2 {
        world.run_passes(1);
    }
    let old = world.pods.values().find(|pod| pod.seen.image == "etcd:v3.6.10").expect("the last one");
    let old = old.seen.name.clone();
    world.kill_pod(&old);
    world.want_version("3.6.10");
    world.run();
    assert!(world.pods.values().all(|pod| pod.seen.image == "etcd:v3.6.10"));
}

#[test]
fn the_next_minor_waits_until_the_databases_are_migrated() {
    let mut world = World::formed(1, true, "3.6.10");
    world.storage_lags = true;
    world.want_version("3.7.3");
    world.run_passes(2);
    world.say("etcd has done it");
    world.storage_lags = false;
    world.run();
    check(
        &world,
        r"
         1 [waiting for etcd to bring all members to cluster version 3.6]
        -- etcd has done it
         3 patch image of m1 to 3.7.3
    ",
    );
}

#[test]
fn what_members_below_3_6_left_in_the_log_is_behind_a_snapshot_before_3_7() {
    let mut world = World::new(1, true, "3.5.35");
    let (name, value) = ("ETCD_SNAPSHOT_COUNT".to_owned(), Some("1500".to_owned()));
    world.desired.pod.etcd_env = vec![EnvVar { name, value, value_from: None }];
    world.run();
    world.transcript.clear();
    world.want_version("3.6.10");
    world.run();
    world.say("at once further to 3.7");
    world.want_version("3.7.3");
    world.run();
    assert_eq!(world.record.legacy_log_index, None, "nothing is left of it");
    check(
        &world,
        r"
         4 patch image of m1 to 3.6.10
        -- at once further to 3.7
         6 advance the raft log by 1000
           [waiting for raft snapshots: etcd 3.7.3 cannot read what members below 3.6 left in the log; it is advanced by 1492 entries]
         7 advance the raft log by 482
           [waiting for raft snapshots: etcd 3.7.3 cannot read what members below 3.6 left in the log; it is advanced by 482 entries]
         8 patch image of m1 to 3.7.3
    ",
    );
}

/// What the members still run with says how often they take a snapshot, not what they shall run with.
#[test]
fn another_snapshot_count_reaches_all_members_before_the_version_that_relies_on_it() {
    let count = |count: &str| {
        let (name, value) = ("ETCD_SNAPSHOT_COUNT".to_owned(), Some(count.to_owned()));
        vec![EnvVar { name, value, value_from: None }]
    };
    let mut world = World::new(3, true, "3.5.35");
    world.desired.pod.etcd_env = count("100000");
    world.run();
    world.want_version("3.6.10");
    world.run();
    world.want_version("3.7.3");
    world.desired.pod.etcd_env = count("10");
    let hash = crate::build::template_hash(&world.desired);
    for _ in 0..60 {
        world.run_passes(1);
        let old = world.pods.values().filter(|pod| pod.seen.template_hash.as_deref() != Some(hash.as_str())).count();
        let new = world.pods.values().any(|pod| pod.seen.image.ends_with("3.7.3"));
        assert!(!new || old == 0, "{old} members take snapshots as before: {}", world.readable());
    }
    world.run();
    assert!(world.pods.values().all(|pod| pod.seen.image.ends_with("3.7.3")), "{}", world.readable());
}

#[test]
fn a_version_that_cannot_be_pulled_stops_at_the_first_member_and_can_be_undone() {
    let mut world = World::formed(3, true, "3.6.9");
    world.missing_images.insert("3.6.99".into());
    world.want_version("3.6.99");
    world.run_passes(4);
    let words = "etcd: ErrImagePull";
    let says = |world: &World, type_: &str| {
        let condition = find(&world.status.conditions, type_).expect("it is always there").clone();
        assert!(condition.status == ConditionStatus::False && type_ == "Stalled" || condition.message.contains(words));
        (condition.status.as_str(), condition.reason)
    };
    assert_eq!(says(&world, "Upgrading"), ("True", "Stopped".to_owned()));
    assert_eq!(says(&world, "Progressing"), ("False", "RollOutStopped".to_owned()));
    assert_eq!(says(&world, "Stalled"), ("False", "NotStalled".to_owned()), "the image may still appear");
    assert_eq!(world.status.target_version, "3.6.99");
    world.wait(10);
    world.run_passes(2);
    assert_eq!(says(&world, "Stalled"), ("True", "RollOutStopped".to_owned()));
    world.say("undone");
    world.want_version("3.6.9");
    world.run();
    check(
        &world,
        r"
         1 patch image of m1 to 3.6.99
         2 [waiting for pod m1 to start: etcd: ErrImagePull]
           [waiting for member m1 to be healthy: it is the first that is as the spec wants it, and is not replaced]
           [the roll-out stopped at member m1: etcd: ErrImagePull; the others are left as they are]
        -- undone
         7 patch image of m1 to 3.6.9
           [waiting for pod m1 to start: etcd: ErrImagePull]
    ",
    );
}

#[test]
fn a_forbidden_version_is_refused_before_anything_is_touched() {
    let mut world = World::formed(3, true, "3.5.20");
    world.want_version("3.6.10");
    world.run_passes(1);
    world.say("a pod made meanwhile keeps the version that runs");
    let name = world.follower();
    world.kill_pod(&name);
    world.run_passes(3);
    check(
        &world,
        r"
         1 [! version 3.5.20 to 3.6.10 is refused: 3.6 is safe only from 3.5.26 or later, which completes the member list that 3.6 reads: must go to 3.5.26 or later first]
        -- a pod made meanwhile keeps the version that runs
         2 create pod m1 (existing, expects data)
           [member m1 does not answer; it is replaced in 300 s unless it comes back]
           [! version 3.5.20 to 3.6.10 is refused: 3.6 is safe only from 3.5.26 or later, which completes the member list that 3.6 reads: must go to 3.5.26 or later first]
         3 [! version 3.5.20 to 3.6.10 is refused: 3.6 is safe only from 3.5.26 or later, which completes the member list that 3.6 reads: must go to 3.5.26 or later first]
    ",
    );
    assert!(world.pods.values().all(|pod| pod.seen.image == "etcd:v3.5.20"));
}

/// The only member of a cluster leaves no roll-out to stop, and no quorum either.
#[test]
fn the_only_member_whose_version_cannot_be_pulled_says_so() {
    let mut world = World::formed(1, true, "3.6.9");
    world.missing_images.insert("3.6.99".into());
    world.want_version("3.6.99");
    world.run_passes(4);
    let upgrading = find(&world.status.conditions, "Upgrading").expect("it is always there");
    assert_eq!((upgrading.status.as_str(), upgrading.reason.as_str()), ("True", "Stopped"));
    assert!(upgrading.message.ends_with(": etcd: ErrImagePull"), "{}", upgrading.message);
    world.want_version("3.6.9");
    world.run();
    let upgrading = find(&world.status.conditions, "Upgrading").expect("it is always there");
    assert_eq!((upgrading.status.as_str(), upgrading.reason.as_str()), ("False", "NotUpgrading"));
}

/// Nothing is inferred from a member that is not there: what it has on its disk may be what the step must wait for.
#[test]
fn a_member_that_is_made_anew_before_it_said_what_it_has_keeps_the_version_that_runs() {
    let mut world = World::new(1, true, "3.5.35");
    world.run();
    world.want_version("3.6.10");
    world.run();
    world.want_version("3.7.3");
    world.want_other_template();
    world.run_passes(3);
    assert!(world.pods.values().all(|pod| pod.seen.image == "etcd:v3.6.10"), "{}", world.readable());
    world.run();
    assert!(is_ready(&world) && world.pods.values().all(|pod| pod.seen.image == "etcd:v3.7.3"), "{}", world.readable());
}

/// Its image was made after a spec that is corrected since: nobody waits for what it cannot say.
#[test]
fn a_member_whose_image_cannot_be_pulled_does_not_hold_up_the_next_minor() {
    let mut world = World::formed(3, true, "3.6.10");
    world.missing_images.insert("3.6.99".into());
    world.want_version("3.6.99");
    world.run_passes(3);
    world.want_version("3.7.3");
    world.run();
    assert!(is_ready(&world) && world.pods.values().all(|pod| pod.seen.image == "etcd:v3.7.3"), "{}", world.readable());
}

/// Its server calls itself 3.6.10, and an image of that tag may be of another architecture, or not be there.
#[test]
fn a_build_for_an_architecture_is_the_release_that_its_server_says() {
    let mut world = World::formed(3, true, "3.6.10-arm64");
    world.run();
    let upgrading = find(&world.status.conditions, "Upgrading").expect("it is always there");
    assert_eq!((is_ready(&world), upgrading.reason.as_str()), (true, "NotUpgrading"));
    world.want_version("3.8.0-arm64");
    let name = world.follower();
    world.kill_pod(&name);
    world.run_passes(2);
    assert_eq!(world.pods[&name].seen.image, "etcd:v3.6.10-arm64", "{}", world.readable());
}

/// It serves 3.6.10 like the others, and the tag that cannot be pulled is of the same release.
#[test]
fn a_pod_that_is_made_beside_a_stopped_roll_out_gets_what_serves() {
    for lost in [vec![0], vec![1], vec![0, 1]] {
        let mut world = World::three();
        world.missing_images.insert("3.6.10-arm64".into());
        world.want_version("3.6.10-arm64");
        world.run_passes(3);
        let stopped =
            |world: &World| world.pods.values().find(|pod| !pod.seen.running).map(|pod| pod.seen.name.clone());
        let first = stopped(&world).expect("one was changed");
        let others: Vec<_> = world.members().into_iter().filter(|name| *name != first).collect();
        lost.iter().for_each(|which| world.kill_pod(&others[*which]));
        world.go_on();
        world.run_passes(2);
        assert!(others.iter().all(|name| world.pods[name].seen.image == "etcd:v3.6.10"), "{}", world.readable());
    }
}
