//! Births: members of the first formation, what happens to attempts at it.

use std::collections::BTreeSet;

use super::{check, is_ready};
use crate::api::cluster::ClusterPhase;
use crate::api::conditions::{self, ConditionStatus};
use crate::model::Storage;
use crate::model::quorum::quorum;
use crate::plan::Step;
use crate::plan::tests::world::World;

#[test]
fn one_member_is_born() {
    let mut world = World::new(1, true, "3.6.10");
    world.run();
    check(
        &world,
        r"
         1 create Service c
           create Service c-client -> none
           create pod m1 (new)
           create volume m1
           [waiting for the first quorum: 0 of 1 members answer]
         2 update Service c-client -> u-1
    ",
    );
    assert!(is_ready(&world));
}

#[test]
fn three_members_are_born_at_once_behind_a_closed_service() {
    let mut world = World::new(3, true, "3.6.10");
    world.run();
    check(
        &world,
        r"
         1 create Service c
           create Service c-client -> none
           create pod m1 (new)
           create volume m1
           create pod m2 (new)
           create volume m2
           create pod m3 (new)
           create volume m3
           [waiting for the first quorum: 0 of 3 members answer]
         2 update Service c-client -> u-1
    ",
    );
    assert_eq!(world.status.ready, "3/3");
    assert_eq!(world.status.phase, ClusterPhase::Running);
    assert_eq!(world.status.current_version, "3.6.10");
}

#[test]
fn five_members_without_volumes_are_born() {
    let mut world = World::new(5, false, "3.2.25");
    world.run();
    check(
        &world,
        r"
         1 create Service c
           create Service c-client -> none
           create pod m1 (new)
           create pod m2 (new)
           create pod m3 (new)
           create pod m4 (new)
           create pod m5 (new)
           [waiting for the first quorum: 0 of 5 members answer]
         2 update Service c-client -> u-1
    ",
    );
}

/// Operator and members cannot speak to one another, none of them answers, or all is well.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reached {
    Nobody,
    NobodyAtAll,
    Everybody,
}

/// Whatever was acknowledged is on a quorum of disks. As long as those that are left meet it, they are the cluster; with
/// fewer they are kept all the same, and only a formation of which nothing is left begins anew.
#[test]
fn rule_a_formation_that_may_have_served_is_thrown_away_only_when_nothing_of_it_is_left() {
    for (size, volumes) in (1..=5).flat_map(|size| [(size, true), (size, false)]) {
        for (lost, reached) in (0..=size)
            .flat_map(|lost| [Reached::Nobody, Reached::NobodyAtAll, Reached::Everybody].map(|reached| (lost, reached)))
        {
            let mut world = World::formed_unseen(size, volumes);
            let seeds = world.seeds();
            world.operator_cut = reached == Reached::Nobody;
            if reached == Reached::NobodyAtAll {
                world.cut.extend(seeds.iter().cloned());
            }
            seeds.iter().take(lost).for_each(|seed| world.wipe_under(seed));
            world.go_on();
            world.run_passes(2);
            let nothing_left = lost == size;
            let case = format!("{lost} of {size} lost, volumes {volumes}, reached {reached:?}");
            assert_eq!(world.attempt(), 1 + u32::from(nothing_left), "{case}");
            (world.operator_cut, world.cut) = (false, BTreeSet::new());
            world.go_on();
            if size - lost < quorum(size) && !nothing_left {
                world.run_passes(4);
                assert_eq!((world.attempt(), world.status.phase), (1, ClusterPhase::Failed), "{case}");
                assert!(seeds.iter().skip(lost).all(|seed| world.pods[seed].seen.running), "{case}");
                continue;
            }
            world.run();
            assert_eq!((world.attempt(), world.members().len()), (1 + u32::from(nothing_left), size), "{case}");
            assert!(seeds.iter().take(lost).all(|seed| !world.members().contains(seed)), "{case}");
        }
    }
}

#[test]
fn a_seed_that_lost_its_disk_is_replaced_once_the_others_are_seen_to_have_formed() {
    let mut world = World::formed_unseen(3, true);
    world.say("the operator is cut off, and the first seed's directory is emptied");
    world.operator_cut = true;
    world.wipe_under(&world.seeds()[0]);
    world.run_passes(3);
    world.say("it is back");
    world.operator_cut = false;
    world.run();
    check(
        &world,
        r"
        -- the operator is cut off, and the first seed's directory is emptied
         2 [member m1 lost its disk (its directory was found empty); it is replaced once the others are seen to be a cluster]
           [waiting for the first quorum: 0 of 3 members answer]
        -- it is back
         5 update Service c-client -> u-1
           remove member m1 (DataLost)
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
}

#[test]
fn without_volumes_a_seed_whose_pod_is_gone_is_not_started_a_second_time() {
    let mut world = World::formed_unseen(3, false);
    world.operator_cut = true;
    world.kill_pod(&world.seeds()[0]);
    world.run_passes(2);
    world.say("the operator is back");
    world.operator_cut = false;
    world.run();
    check(
        &world,
        r"
         2 [member m1 lost its disk (its pod is gone); it is replaced once the others are seen to be a cluster]
           [waiting for the first quorum: 0 of 3 members answer]
        -- the operator is back
         4 update Service c-client -> u-1
           remove member m1 (DataLost)
         5 add learner m2
         6 create pod m2 (existing)
           [waiting for member m2 to be healthy: it has not joined yet]
         7 promote m2
         8 label voter m2
    ",
    );
}

#[test]
fn the_last_copy_of_a_cluster_that_nobody_saw_formed_is_kept() {
    let mut world = World::formed_unseen(3, true);
    world.seeds().iter().take(2).for_each(|seed| world.wipe_under(seed));
    world.go_on();
    world.run_passes(4);
    check(
        &world,
        r"
         2 [member m1 lost its disk (its directory was found empty); it is replaced once the others are seen to be a cluster]
           [member m2 lost its disk (its directory was found empty); it is replaced once the others are seen to be a cluster]
           [! quorum lost before the cluster was seen to be formed: the disks of m1, m2 are gone; m3 may have the only copy of what was written, so nothing is deleted; restore the cluster from an EtcdBackup, or delete the EtcdCluster and create it anew]
    ",
    );
    assert_eq!(world.attempt(), 1);
    let stalled = conditions::find(&world.status.conditions, "Stalled").expect("it is always there");
    assert_eq!((stalled.status, stalled.reason.as_str()), (ConditionStatus::True, "QuorumLost"));
}

/// Two seeds found no node and lost their volumes, the third never had a leader: nothing was ever written.
#[test]
fn an_attempt_without_a_quorum_of_disks_is_thrown_away_when_what_is_left_says_that_it_has_nothing() {
    let mut world = World::new(3, true, "3.6.10");
    let seeds = names_of_the_first_attempt(&world);
    world.cut.extend(seeds[..2].iter().cloned());
    world.run_passes(2);
    world.cut.clear();
    seeds[..2].iter().for_each(|seed| world.wipe_under(seed));
    world.run();
    assert_eq!((world.attempt(), world.members().len()), (2, 3));
}

#[test]
fn an_attempt_that_may_have_formed_unseen_does_not_follow_a_changed_spec() {
    let mut world = World::formed_unseen(3, true);
    world.say("the operator is cut off, and the version is changed");
    world.operator_cut = true;
    world.want_version("3.6.11");
    world.run_passes(3);
    world.say("it is back");
    world.operator_cut = false;
    world.run();
    check(
        &world,
        r"
        -- the operator is cut off, and the version is changed
         2 [the spec of its pods changed, but the first members may already be a cluster: nothing is thrown away until they say that they are not]
           [waiting for the first quorum: 0 of 3 members answer]
        -- it is back
         5 update Service c-client -> u-1
           patch image of m1 to 3.6.11
         6 patch image of m2 to 3.6.11
         7 move leader m3 -> m1
         8 patch image of m3 to 3.6.11
    ",
    );
    assert_eq!(world.attempt(), 1);
}

#[test]
fn pods_that_only_crash_follow_a_corrected_spec() {
    let mut world = World::new(3, true, "3.6.10");
    world.crashing_templates.insert(crate::build::template_hash(&world.desired));
    world.run_passes(3);
    assert!(world.status.reason.contains("CrashLoopBackOff"), "{}", world.status.reason);
    world.want_other_template();
    world.run();
    assert_eq!(world.attempt(), 2);
}

/// It may have served before: its data is kept, and shows when it runs under the corrected spec.
#[test]
fn members_that_formed_unseen_and_crash_since_are_corrected_on_their_volumes() {
    let mut world = World::formed_unseen(3, true);
    let seeds = world.seeds();
    world.operator_cut = true;
    world.run_passes(1);
    world.crashing_templates.insert(crate::build::template_hash(&world.desired));
    seeds.iter().for_each(|seed| world.kill_pod(seed));
    world.run_passes(3);
    assert!(world.status.reason.contains("CrashLoopBackOff"), "{}", world.status.reason);
    world.want_other_template();
    world.run_passes(5);
    world.operator_cut = false;
    world.run();
    assert_eq!((world.attempt(), world.members()), (1, seeds));
}

/// Its pod alone holds the claim, and what is on it may count.
#[test]
fn the_pod_of_a_seed_whose_claim_is_being_deleted_is_not_corrected_away() {
    let mut world = World::formed_unseen(3, true);
    let seeds = world.seeds();
    world.operator_cut = true;
    world.run_passes(1);
    world.crashing_templates.insert(crate::build::template_hash(&world.desired));
    seeds.iter().for_each(|seed| world.kill_pod(seed));
    world.run_passes(3);
    world.volumes.get_mut(&seeds[0]).expect("it has one").seen.deleting = true;
    world.want_other_template();
    let mut corrected = BTreeSet::new();
    for _ in 0..6 {
        let planned = world.pass_of(usize::MAX);
        corrected.extend(planned.steps.into_iter().filter_map(|step| match step {
            Step::DeletePod { name, .. } => Some(name),
            _ => None,
        }));
    }
    assert_eq!(corrected, seeds[1..].iter().cloned().collect());
}

/// A kubelet that came back takes no pod that does not fit its node any more: the container has no status then, as one
/// that never ran.
#[test]
fn members_that_formed_unseen_and_are_refused_by_their_kubelets_since_are_not_taken_for_blank() {
    let mut world = World::formed_unseen(3, true);
    let seeds = world.seeds();
    world.operator_cut = true;
    for seed in &seeds {
        world.end_pod(seed);
        world.pods.get_mut(seed).expect("it is there").seen.never_ran = true;
    }
    world.want_other_template();
    world.run_passes(4);
    world.operator_cut = false;
    world.run();
    assert_eq!((world.attempt(), world.members()), (1, seeds));
}

#[test]
fn a_seed_that_was_made_anew_while_its_image_was_wrong_follows_a_corrected_spec() {
    let mut world = World::new(3, true, "3.6.99");
    world.missing_images.insert("3.6.99".into());
    world.run_passes(2);
    world.seeds()[..2].to_vec().iter().for_each(|seed| world.kill_pod(seed));
    world.run_passes(2);
    world.want_version("3.6.10");
    world.run();
    assert_eq!(world.members().len(), 3);
}

#[test]
fn a_seed_whose_objects_are_all_gone_is_not_born_again_under_its_name() {
    let mut world = World::formed_unseen(3, true);
    let first = world.seeds()[0].clone();
    world.operator_cut = true;
    world.lose_volume(&first);
    world.run_passes(2);
    assert!(!world.pods.contains_key(&first), "its member id would come back without what it has said yes to");
    world.operator_cut = false;
    world.run();
    assert_eq!((world.attempt(), world.members().len()), (1, 3));
    assert!(!world.members().contains(&first));
}

#[test]
fn seeds_that_say_that_they_never_had_a_leader_follow_a_changed_spec() {
    let mut world = World::new(3, true, "3.6.10");
    let seeds = names_of_the_first_attempt(&world);
    world.unplaceable.extend(seeds[..2].iter().cloned());
    world.run_passes(3);
    assert!(world.pods[&seeds[2]].seen.running, "one runs and answers");
    world.want_version("3.6.11");
    world.run();
    assert_eq!(world.attempt(), 2);
}

fn names_of_the_first_attempt(world: &World) -> Vec<String> {
    let mut ahead = world.clone();
    ahead.run_passes(1);
    ahead.seeds()
}

#[test]
fn a_formation_that_cannot_start_follows_a_corrected_spec() {
    let mut world = World::new(3, true, "3.6.99");
    world.missing_images.insert("3.6.99".into());
    world.run_passes(3);
    world.say("the version is corrected");
    world.want_version("3.6.10");
    world.run();
    check(
        &world,
        r"
         1 create Service c
           create Service c-client -> none
           create pod m1 (new)
           create volume m1
           create pod m2 (new)
           create volume m2
           create pod m3 (new)
           create volume m3
           [waiting for the first quorum: 0 of 3 members answer]
         2 [waiting for pod m1 to start: etcd: ErrImagePull]
           [waiting for pod m2 to start: etcd: ErrImagePull]
           [waiting for pod m3 to start: etcd: ErrImagePull]
           [waiting for the first quorum: 0 of 3 members answer]
        -- the version is corrected
         4 delete pod m1 (FormationAbandoned)
           delete pod m2 (FormationAbandoned)
           delete pod m3 (FormationAbandoned)
           create pod m4 (new)
           create volume m4
           create pod m5 (new)
           create volume m5
           create pod m6 (new)
           create volume m6
           [waiting for the first quorum: 0 of 3 members answer]
         5 update Service c-client -> u-2
         6 delete volume m1 (FormationAbandoned)
           delete volume m2 (FormationAbandoned)
           delete volume m3 (FormationAbandoned)
    ",
    );
}

/// The spec is changed while nobody looks: where the data is follows from the pods and volumes that are there.
#[test]
fn a_formation_on_the_other_kind_of_storage_is_not_taken_for_lost() {
    for (volumes, pods_stay) in [(false, true), (true, true), (true, false)] {
        let mut world = World::formed_unseen(3, volumes);
        let seeds = world.seeds();
        world.operator_cut = true;
        world.desired.storage = if volumes { Storage::EmptyDir } else { Storage::Volume(Box::default()) };
        if !pods_stay {
            seeds.iter().for_each(|seed| world.kill_pod(seed));
        }
        world.run_passes(3);
        world.operator_cut = false;
        world.run();
        let case = format!("volumes {volumes}, pods stay {pods_stay}");
        assert_eq!((world.attempt(), world.members()), (1, seeds.clone()), "{case}");
        assert_eq!(world.volumes.len(), if volumes { 3 } else { 0 }, "{case}: none that nobody mounts");
    }
}

/// The spec was edited before the cluster was formed.
#[test]
fn no_later_attempt_starts_at_a_version_that_corrupts_data_either() {
    let mut world = World::new(3, true, "3.6.10");
    world.missing_images.insert("3.6.10".into());
    world.run_passes(2);
    world.want_version("3.5.1");
    world.run_passes(4);
    assert!(world.status.reason.contains("`spec.version` 3.5.1: etcd 3.5.0 to 3.5.2"), "{}", world.status.reason);
    assert!(world.pods.values().all(|pod| pod.seen.image == "etcd:v3.6.10"), "{}", world.readable());
    world.want_version("3.6.9");
    world.run();
    assert!(is_ready(&world), "{}", world.readable());
}
