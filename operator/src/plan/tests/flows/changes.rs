//! Changes of the member list that a user asks for: scaled out by learners, scaled in.

use super::{check, is_ready};
use crate::plan::tests::world::World;
use crate::plan::{MemberRemoval, Step};

#[test]
fn scaled_out_by_learners_and_in_with_the_leader_moved_first() {
    let mut world = World::three();
    world.say("size 5");
    world.desired.size = 5;
    world.run();
    let youngest = world.pods.values().max_by_key(|pod| pod.seen.created_at).unwrap().seen.name.clone();
    let token = world.token();
    let etcd = world.etcd.get_mut(&token).unwrap();
    etcd.leader = etcd.members.iter().find(|member| member.name == youngest).map(|member| member.id);
    world.say("the youngest leads; size 3");
    world.desired.size = 3;
    world.run();
    check(
        &world,
        r"
        -- size 5
         1 add learner m1
         2 create pod m1 (existing)
           create volume m1
           [waiting for member m1 to be healthy: it has not joined yet]
           [waiting for member m1 to be healthy: before the next member is added]
         3 promote m1
         4 label voter m1
           add learner m2
         5 create pod m2 (existing)
           create volume m2
           [waiting for member m2 to be healthy: it has not joined yet]
         6 promote m2
         7 label voter m2
        -- the youngest leads; size 3
         9 move leader m2 -> m3
        10 remove member m2 (ScaleIn)
        11 delete pod m2 (MemberRemoved)
        12 delete volume m2 (MemberRemoved)
        13 remove member m1 (ScaleIn)
        14 delete pod m1 (MemberRemoved)
        15 delete volume m1 (MemberRemoved)
    ",
    );
    assert_eq!((world.pods.len(), world.volumes.len()), (3, 3));
    assert!(is_ready(&world));
}

#[test]
fn below_learners_a_voter_is_added_only_when_all_are_healthy() {
    let mut world = World::formed(1, true, "3.2.25");
    world.desired.size = 3;
    world.run();
    check(
        &world,
        r"
         1 add voter m1
         2 create pod m1 (existing)
           create volume m1
           [! quorum lost: 0 healthy voters, 2 needed; missing: m1, m2; nothing is deleted, and the cluster goes on by itself when enough members return]
         3 add voter m3
         4 create pod m3 (existing)
           create volume m3
           [member m3 does not answer; it is replaced in 300 s unless it comes back]
    ",
    );
}

#[test]
fn a_learner_is_not_promoted_while_behind_and_is_given_up_when_it_never_starts() {
    let mut world = World::three();
    world.desired.size = 4;
    world.learners_lag = true;
    world.run_passes(6);
    world.say("it catches up, the next one finds no node");
    world.learners_lag = false;
    world.run();
    world.desired.size = 5;
    world.no_room = true;
    world.run_passes(3);
    world.wait(6);
    world.run_passes(4);
    world.say("there is room again");
    world.no_room = false;
    world.run();
    check(
        &world,
        r"
         1 add learner m1
         2 create pod m1 (existing)
           create volume m1
           [waiting for member m1 to be healthy: it has not joined yet]
         3 [waiting for learner m1 to catch up: 53 entries behind; it is given up in 900 s]
         4 [waiting for learner m1 to catch up: 63 entries behind; it is given up in 900 s]
         5 [waiting for learner m1 to catch up: 73 entries behind; it is given up in 900 s]
         6 [waiting for learner m1 to catch up: 83 entries behind; it is given up in 900 s]
        -- it catches up, the next one finds no node
         7 promote m1
         8 label voter m1
        10 add learner m2
        11 create pod m2 (existing)
           create volume m2
           [waiting for member m2 to be healthy: it has not joined yet]
        12 [waiting for pod m2 to start: unschedulable]
           [waiting for member m2 to be healthy: it has not joined yet]
        13 remove member m2 (NeverStarted)
           [waiting for pod m2 to start: unschedulable]
        14 delete pod m2 (MemberRemoved)
        15 delete volume m2 (MemberRemoved)
        16 add learner m3
        -- there is room again
        17 create pod m3 (existing)
           create volume m3
           [waiting for member m3 to be healthy: it has not joined yet]
        18 promote m3
        19 label voter m3
    ",
    );
}

#[test]
fn a_learner_that_never_catches_up_is_given_up_and_the_next_one_has_more_time() {
    let mut world = World::three();
    world.want_size(4);
    world.learners_lag = true;
    let mut given_up = Vec::new();
    for minute in 0..150 {
        world.wait(1);
        for _ in 0..8 {
            let planned = world.pass_of(usize::MAX);
            let gives_up = |step: &Step| matches!(step, Step::RemoveMember { why: MemberRemoval::NeverCaughtUp, .. });
            if planned.steps.iter().any(gives_up) {
                given_up.push(minute);
            }
        }
    }
    let between: Vec<_> = given_up.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(between, [13, 26, 52], "each time in vain doubles the next one's: {given_up:?}");
    world.learners_lag = false;
    world.run();
    assert_eq!(world.members().len(), 4);
}

/// etcd promotes a learner that has nine tenths of the leader's log. Under a load that never lets one come closer than
/// some thousand entries, what is wanted for comfort must not keep it out for ever.
#[test]
fn an_overdue_learner_that_etcd_would_promote_is_promoted_and_not_given_up() {
    for (percent, promoted) in [(8, true), (12, false)] {
        let mut world = World::three();
        let token = world.token();
        world.etcd.get_mut(&token).expect("it is formed").index = 1_000_000;
        world.want_size(4);
        (world.learners_lag, world.lag_percent) = (true, percent);
        world.run_passes(3);
        assert!(world.status.reason.contains("it is given up in"), "not while it has time: {}", world.status.reason);
        let (mut promotions, mut removals) = (0, 0);
        for _ in 0..20 {
            world.wait(1);
            let planned = world.pass_of(usize::MAX);
            promotions += planned.steps.iter().filter(|step| matches!(step, Step::PromoteMember { .. })).count();
            removals += planned.steps.iter().filter(|step| matches!(step, Step::RemoveMember { .. })).count();
        }
        assert_eq!((promotions > 0, removals > 0), (promoted, !promoted), "{percent} % behind");
    }
}

#[test]
fn a_learner_whose_image_was_missing_has_its_time_from_its_start_on() {
    let mut world = World::three();
    world.want_size(4);
    world.learners_lag = true;
    world.missing_images.insert("3.6.10".into());
    world.run_passes(3);
    world.wait(4);
    world.run_passes(3);
    assert!(world.status.reason.contains("ErrImagePull"), "{}", world.status.reason);
    world.missing_images.clear();
    world.run_passes(3);
    world.wait(12);
    world.run_passes(1);
    assert!(world.status.reason.contains("it is given up in"), "{}", world.status.reason);
    world.learners_lag = false;
    world.run();
    assert_eq!(world.members().len(), 4);
}

#[test]
fn a_learner_has_the_time_that_a_large_database_takes() {
    let mut world = World::three();
    world.want_size(4);
    world.learners_lag = true;
    world.database_bytes = 100 << 30;
    world.run_passes(3);
    world.wait(60);
    world.run_passes(3);
    assert!(world.status.reason.contains("it is given up in"), "{}", world.status.reason);
    assert_eq!(world.members().len(), 4);
}

#[test]
fn a_learner_that_is_given_up_is_told() {
    let mut world = World::three();
    world.want_size(4);
    world.learners_lag = true;
    world.run_passes(3);
    world.wait(15);
    world.run_passes(6);
    check(
        &world,
        r"
         1 add learner m1
         2 create pod m1 (existing)
           create volume m1
           [waiting for member m1 to be healthy: it has not joined yet]
         3 [waiting for learner m1 to catch up: 53 entries behind; it is given up in 900 s]
         4 remove member m1 (NeverCaughtUp)
         5 delete pod m1 (MemberRemoved)
         6 delete volume m1 (MemberRemoved)
         7 add learner m2
         8 create pod m2 (existing)
           create volume m2
           [waiting for member m2 to be healthy: it has not joined yet]
         9 [waiting for learner m2 to catch up: 113 entries behind; it is given up in 960 s]
    ",
    );
}
