//! Losses: pods, volumes and members that go, and what comes back by itself.

use super::{check, is_ready};
use crate::api::cluster::ClusterPhase;
use crate::api::conditions::{self, ConditionStatus};
use crate::model::{Alarm, ClusterId, MemberId, Observation, Observed};
use crate::plan::tests::describe;
use crate::plan::tests::world::World;
use crate::plan::{Step, plan};
use crate::status::status;

#[test]
fn a_pod_that_is_gone_comes_back_on_its_volume() {
    let mut world = World::three();
    let name = world.follower();
    world.kill_pod(&name);
    world.run();
    check(
        &world,
        r"
         1 create pod m1 (existing, expects data)
           [member m1 does not answer; it is replaced in 300 s unless it comes back]
    ",
    );
}

#[test]
fn a_member_without_volume_is_replaced_when_its_pod_goes() {
    let mut world = World::three_without_volumes();
    let name = world.leader();
    world.kill_pod(&name);
    world.run();
    check(
        &world,
        r"
         1 remove member m1 (DataLost)
         2 add learner m2
         3 create pod m2 (existing)
           [waiting for member m2 to be healthy: it has not joined yet]
         4 promote m2
         5 label voter m2
    ",
    );
    assert!(is_ready(&world));
}

#[test]
fn a_wiped_volume_is_noticed_and_its_member_replaced() {
    let mut world = World::three();
    let name = world.follower();
    world.wipe(&name);
    world.run();
    check(
        &world,
        r"
         1 create pod m1 (existing, expects data)
           [member m1 does not answer; it is replaced in 300 s unless it comes back]
         2 remove member m1 (DataLost)
         3 delete pod m1 (MemberRemoved)
         4 delete volume m1 (MemberRemoved)
         5 add learner m2
         6 create pod m2 (existing)
           create volume m2
           [waiting for member m2 to be healthy: it has not joined yet]
         7 promote m2
         8 label voter m2
    ",
    );
    assert!(!world.members().contains(&name));
}

#[test]
fn a_member_that_does_not_answer_is_replaced_after_its_time_and_not_before() {
    let mut world = World::three();
    let name = world.follower();
    world.cut.insert(name.clone());
    world.go_on();
    world.run_passes(3);
    world.wait(4);
    world.run_passes(1);
    assert!(world.members().contains(&name));
    world.say("five minutes are over");
    world.wait(1);
    world.run();
    check(
        &world,
        r"
         1 [member m1 does not answer; it is replaced in 300 s unless it comes back]
         4 [member m1 does not answer; it is replaced in 60 s unless it comes back]
        -- five minutes are over
         5 remove member m1 (Unreachable)
         6 delete pod m1 (MemberRemoved)
         7 delete volume m1 (MemberRemoved)
         8 add learner m2
         9 create pod m2 (existing)
           create volume m2
           [waiting for member m2 to be healthy: it has not joined yet]
        10 promote m2
        11 label voter m2
    ",
    );
    assert!(!world.members().contains(&name));
}

#[test]
fn a_new_member_comes_back_though_nobody_who_is_left_knows_that_it_had_started() {
    let mut world = World::three();
    let (joined, lost) = (world.follower(), world.leader());
    world.cut.insert(lost);
    world.kill_pod(&joined);
    world.go_on();
    let mut observed = world.observe();
    // Its name was committed by those two alone.
    let Observation::Known { value: list, .. } = &mut observed.etcd.membership_local else { panic!("one is left") };
    for member in list.members.iter_mut().filter(|member| member.name == joined) {
        (member.name, member.client_urls) = (String::new(), Vec::new());
    }
    assert_eq!(observed.etcd.membership.known(), None, "there is no quorum without it");
    let steps: Vec<_> = plan(&world.desired, &observed, world.now).steps.iter().map(describe).collect();
    assert!(steps.contains(&format!("create pod {joined} (existing, expects data)")), "{steps:?}");
    observed.volumes.remove(&joined);
    let steps: Vec<_> = plan(&world.desired, &observed, world.now).steps.iter().map(describe).collect();
    assert!(!steps.iter().any(|step| step.contains(&joined)), "without a list it cannot join: {steps:?}");
}

#[test]
fn a_cold_start_brings_everything_back_by_itself() {
    let mut world = World::three();
    for name in world.members() {
        world.end_pod(&name);
    }
    world.go_on();
    world.run();
    check(
        &world,
        r"
         1 delete pod m1 (Terminal)
           [waiting for pod m1 to start]
           [waiting for pod m2 to start]
           [waiting for pod m3 to start]
         2 create pod m1 (existing, expects data)
           delete pod m2 (Terminal)
           [waiting for pod m2 to start]
           [waiting for pod m3 to start]
         3 create pod m2 (existing, expects data)
           delete pod m3 (Terminal)
           [waiting for pod m3 to start]
         4 create pod m3 (existing, expects data)
           label voter m1
           [member m3 does not answer; it is replaced in 300 s unless it comes back]
    ",
    );
}

#[test]
fn a_lost_quorum_is_said_and_nothing_is_deleted() {
    let mut world = World::three();
    for name in world.members().into_iter().take(2) {
        world.lose_volume(&name);
    }
    world.go_on();
    world.run_passes(3);
    check(
        &world,
        r"
         1 [! quorum lost: 0 healthy voters, 2 needed; missing: m1, m2, m3; data lost: m1, m2; nothing is deleted, and the cluster goes on by itself when enough members return; otherwise restore it from an EtcdBackup]
    ",
    );
    assert_eq!(world.volumes.len(), 1);
    assert_eq!(world.status.phase, ClusterPhase::Failed);
}

#[test]
fn all_data_lost_is_not_born_again() {
    let mut world = World::three_without_volumes();
    world.pods.clear();
    world.go_on();
    world.run_passes(3);
    check(
        &world,
        r"
         1 [! all members are gone with their data; restore the cluster from a backup with an EtcdRestore]
    ",
    );
    assert!(world.pods.is_empty());
}

#[test]
fn a_claim_that_is_deleted_under_its_member_is_said_while_the_data_is_still_there() {
    use crate::api::conditions::{ConditionStatus, find};
    let mut world = World::three();
    let name = world.follower();
    world.volumes.get_mut(&name).expect("it has one").seen.deleting = true;
    world.run_passes(1);
    let storage = find(&world.status.conditions, "StorageHealthy").expect("it is always there");
    assert_eq!((storage.status, storage.reason.as_str()), (ConditionStatus::False, "VolumeTerminating"));
    assert!(storage.message.contains(&name), "{}", storage.message);
}

/// etcd keeps the alarm of a member that it removes, and refuses writes because of it, on every member and for ever.
#[test]
fn the_alarm_of_a_member_that_was_replaced_is_taken_back() {
    let mut world = World::three();
    let token = world.token();
    let corrupt = world.serving().members[2].clone();
    world.etcd.get_mut(&token).expect("it is formed").alarms.insert((corrupt.id, Alarm::Corrupt));
    world.rotten.insert(corrupt.name);
    world.run_passes(1);
    assert!(!is_ready(&world));
    world.run();
    check(
        &world,
        r"
         1 remove member m1 (Corrupt)
         2 disarm CORRUPT of c
         3 delete pod m1 (MemberRemoved)
         4 delete volume m1 (MemberRemoved)
         5 add learner m2
         6 create pod m2 (existing)
           create volume m2
           [waiting for member m2 to be healthy: it has not joined yet]
         7 promote m2
         8 label voter m2
    ",
    );
    assert!(is_ready(&world) && world.serving().alarms.is_empty());
    assert_eq!(world.members().len(), 3);
}

/// etcd accuses whoever differs from the leader, one after the other: both good copies would go.
#[test]
fn a_follower_that_a_corrupt_leader_accuses_is_cleared_and_the_leader_goes() {
    let mut world = World::three();
    let (token, wrong, accused) = (world.token(), world.leader(), world.follower());
    let id = world.serving().members.iter().find(|member| member.name == accused).expect("a member").id;
    world.etcd.get_mut(&token).expect("it is formed").alarms.insert((id, Alarm::Corrupt));
    world.rotten.insert(wrong.clone());
    world.run();
    assert!(!world.members().contains(&wrong) && world.members().contains(&accused), "{}", world.readable());
    assert!(is_ready(&world) && world.members().len() == 3);
}

#[test]
fn where_no_quorum_agrees_a_person_must_say_whose_data_is_right() {
    for size in [1, 2] {
        let mut world = World::formed(size, true, "3.6.10");
        let (token, members) = (world.token(), world.members());
        let accused = world.serving().members[size - 1].clone();
        world.etcd.get_mut(&token).expect("it is formed").alarms.insert((accused.id, Alarm::Corrupt));
        world.rotten.insert(world.serving().members[0].name.clone());
        world.run_passes(4);
        let stalled = conditions::find(&world.status.conditions, "Stalled").expect("it is always there");
        assert_eq!((stalled.reason.as_str(), world.members()), ("DataCorrupt", members));
    }
}

#[test]
fn a_cluster_that_refuses_writes_is_not_ready_and_says_why() {
    for alarm in [Alarm::NoSpace, Alarm::Corrupt] {
        let mut world = World::three();
        let token = world.token();
        let id = if alarm == Alarm::Corrupt { MemberId(0) } else { world.serving().members[0].id };
        world.etcd.get_mut(&token).expect("it is formed").alarms.insert((id, alarm));
        world.run_passes(4);
        let ready = conditions::find(&world.status.conditions, "Ready").expect("it is always there");
        assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "AlarmRaised"));
        if alarm == Alarm::Corrupt {
            world.want_size(5);
            world.run_passes(4);
            assert_eq!(world.members().len(), 3, "no member copies what may be wrong");
            let stalled = conditions::find(&world.status.conditions, "Stalled").expect("it is always there");
            assert_eq!(stalled.reason, "DataCorrupt");
        }
        world.want_size(3);
        world.etcd.get_mut(&token).expect("it is formed").alarms.clear();
        world.run();
        assert!(is_ready(&world));
    }
}

#[test]
fn alarms_that_could_not_be_read_are_not_taken_for_none() {
    let mut world = World::three();
    world.run_passes(1);
    assert!(is_ready(&world));
    let mut observed = world.observe();
    observed.etcd.alarms = Observation::Unknown { why: "timed out".into() };
    let planned = plan(&world.desired, &observed, world.now);
    let status = status(&world.status, &Ok(world.desired.clone()), &observed, &planned, world.now);
    let ready = conditions::find(&status.conditions, "Ready").expect("it is always there");
    assert_eq!(
        (ready.status, ready.reason.as_str(), &*ready.message),
        (ConditionStatus::Unknown, "Unobserved", "timed out")
    );
}

/// Nobody looked, and somebody may have been at work on its node.
#[test]
fn time_in_which_nobody_looked_does_not_count_against_a_member() {
    let mut world = World::three();
    let (name, members) = (world.follower(), world.members());
    world.cut.insert(name.clone());
    world.run_passes(2);
    world.desired.paused = true;
    world.run_passes(1);
    world.wait(10);
    world.run_passes(1);
    world.desired.paused = false;
    world.run_passes(2);
    assert_eq!(world.members(), members);
    world.wait(5);
    world.run_passes(1);
    assert!(!world.members().contains(&name), "from then on it has its time");
}

/// Its successor's pod would be refused too, and one volume after the other would go.
#[test]
fn a_member_whose_pod_is_refused_is_kept() {
    let mut world = World::three();
    let (name, members) = (world.follower(), world.members());
    world.kill_pod(&name);
    world.refused_lineages.insert(world.token());
    world.run_passes(2);
    world.wait(6);
    world.run_passes(3);
    assert_eq!(world.members(), members);
    assert!(world.volumes.contains_key(&name));
    world.refused_lineages.clear();
    world.run();
    assert_eq!(world.members(), members);
}

/// The way from the operator to one node is broken, and none of the others: its successor on that node would be as silent.
#[test]
fn a_voter_that_kubernetes_calls_ready_is_not_replaced_because_the_operator_does_not_hear_it() {
    let mut world = World::three();
    let (name, members) = (world.follower(), world.members());
    world.unheard.insert(name.clone());
    world.run_passes(1);
    world.wait(30);
    world.run_passes(3);
    assert_eq!(world.members(), members, "{}", world.readable());
    assert!(world.status.reason.contains("Kubernetes calls it ready"), "{}", world.status.reason);
    world.cut.insert(name);
    world.go_on();
    world.run_passes(3);
    assert_ne!(world.members(), members, "{}", world.readable());
}

/// Somebody restored a snapshot into one volume by hand: it leads itself, and is no member of ours.
#[test]
fn what_a_removed_member_left_goes_also_when_it_leads_a_cluster_of_its_own() {
    let mut world = World::three();
    let name = world.follower();
    let token = world.token();
    world.etcd.get_mut(&token).expect("it is formed").members.retain(|member| member.name != name);
    let mut observed = world.observe();
    let Some(Observation::Known { value: status, .. }) = observed.etcd.statuses.get_mut(&name) else {
        let steps = plan(&world.desired, &observed, world.now).steps;
        panic!("it answers: {steps:?}");
    };
    let is_deleted = |observed: &Observed| {
        let steps = plan(&world.desired, observed, world.now).steps;
        steps.iter().any(|step| matches!(step, Step::DeletePod { name: gone, .. } if *gone == name))
    };
    status.cluster_id = ClusterId(0xbad);
    assert!(is_deleted(&observed));
}

/// What its kubelet asks it was decided when its pod was made: `/version` is answered without a quorum.
#[test]
fn a_voter_that_is_ready_without_a_quorum_is_replaced_as_ever() {
    let mut world = World::formed(3, true, "3.4.23");
    world.want_version("3.5.26");
    world.run();
    let (name, members) = (world.follower(), world.members());
    world.unheard.insert(name.clone());
    world.run_passes(1);
    assert!(world.pods[&name].seen.ready);
    world.wait(30);
    world.run_passes(3);
    assert_ne!(world.members(), members, "{}", world.readable());
}

/// It has no vote, and is never promoted.
#[test]
fn a_learner_that_the_operator_does_not_hear_is_replaced() {
    let mut world = World::three();
    world.want_size(4);
    world.run_passes(2);
    let learner = world.serving().members.iter().find(|member| member.learner).expect("it was added").name.clone();
    world.unheard.insert(learner.clone());
    world.run_passes(2);
    world.wait(30);
    world.run();
    assert!(!world.members().contains(&learner) && world.members().len() == 4, "{}", world.readable());
}

/// With other data in its volume, and a term beyond ours.
#[test]
fn who_leads_a_cluster_of_its_own_does_not_lead_ours() {
    let world = World::three();
    let (leader, name) = (world.leader(), world.follower());
    let mut observed = world.observe();
    let Some(Observation::Known { value: status, .. }) = observed.etcd.statuses.get_mut(&name) else {
        panic!("it answers");
    };
    (status.cluster_id, status.term) = (ClusterId(0xbad), crate::model::RaftTerm(99));
    (status.member_id, status.leader) = (MemberId(0xbad), Some(MemberId(0xbad)));
    let token = world.token();
    let members = crate::plan::Members::join(&observed, Some(&token), true);
    let member = members.by_name(&leader).expect("it is a member");
    assert!(members.leads(member));
}
