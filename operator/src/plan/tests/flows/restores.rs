//! Restores: a new lineage beside the old one, called off, started over.

use super::{check, is_ready};
use crate::api::cluster::ClusterPhase;
use crate::model::quorum::quorum;
use crate::model::{RestorePhase, Storage};
use crate::plan::tests::world::World;
use crate::plan::{PodDeletion, Step};

#[test]
fn a_restore_confirms_before_it_stops_anything_old() {
    let mut world = World::three();
    world.want_restore("r", 100);
    world.run();
    check(
        &world,
        r"
         1 create pod m1 (new, from the snapshot)
           create volume m1
           create pod m2 (new, from the snapshot)
           create volume m2
           create pod m3 (new, from the snapshot)
           create volume m3
           [waiting for the restored members: 0 of 3 answer]
         2 update Service c-client -> none
           delete pod m4 (Superseded)
           delete pod m5 (Superseded)
           delete pod m6 (Superseded)
           [waiting for Pod m4 to be gone]
           [waiting for Pod m5 to be gone]
           [waiting for Pod m6 to be gone]
         3 update Service c-client -> r-1
         4 delete volume m4 (Superseded)
           delete volume m5 (Superseded)
           delete volume m6 (Superseded)
    ",
    );
    assert_eq!(world.record.lineage.as_ref().unwrap().restored_from.as_deref(), Some("r"));
    assert_eq!((world.pods.len(), world.volumes.len()), (3, 3));
    assert!(is_ready(&world));
}

#[test]
fn a_snapshot_that_is_verified_anew_is_given_to_new_members() {
    let mut world = World::three();
    world.want_restore("r", 1_000_000);
    world.run_passes(1);
    let seeds = |world: &World| world.record.restore.as_ref().expect("it is under way").lineage.seeds.clone();
    let first = seeds(&world);
    world.say("somebody overwrites the object");
    world.pods.get_mut(&first[0]).expect("it was made").seen.snapshot_changed = true;
    world.run_passes(1);
    assert!(
        world.record.restore.as_ref().is_some_and(|record| record.snapshot_changed && record.lineage.seeds == first)
    );
    world.say("it is verified anew");
    let verified_at = Some(world.now);
    world.desired.restore.as_mut().expect("it is wanted").verified_at = verified_at;
    world.run_passes(1);
    let record = world.record.restore.clone().expect("it is under way");
    assert_eq!((record.verified_at, record.lineage.attempt, record.snapshot_changed), (verified_at, 2, false));
    assert!(record.lineage.seeds.iter().all(|seed| !first.contains(seed)));
    world.run_passes(4);
    assert_eq!(seeds(&world), record.lineage.seeds, "once");
    assert!(first.iter().all(|seed| !world.pods.contains_key(seed)), "what was begun is dropped");
}

#[test]
fn a_restore_that_is_called_off_leaves_the_old_cluster_as_it_was() {
    let mut world = World::three();
    let (token, members) = (world.token(), world.members());
    world.want_restore("r", 1_000_000);
    world.run_passes(4);
    assert_eq!(world.record.restore.as_ref().unwrap().phase, RestorePhase::Starting);
    world.say("the EtcdRestore is deleted");
    world.desired.restore = None;
    world.run();
    check(
        &world,
        r"
         1 create pod m1 (new, from the snapshot)
           create volume m1
           create pod m2 (new, from the snapshot)
           create volume m2
           create pod m3 (new, from the snapshot)
           create volume m3
           [waiting for the restored members: 0 of 3 answer]
         2 [waiting for the restored members: revision 101 was read back, the snapshot has 1000000]
         3 [waiting for the restored members: revision 102 was read back, the snapshot has 1000000]
         4 [waiting for the restored members: revision 103 was read back, the snapshot has 1000000]
        -- the EtcdRestore is deleted
         5 delete pod m3 (RestoreCancelled)
           delete pod m1 (RestoreCancelled)
           delete pod m2 (RestoreCancelled)
           [waiting for the restored members: the restore was called off, its members are removed]
         6 delete volume m3 (RestoreCancelled)
           delete volume m1 (RestoreCancelled)
           delete volume m2 (RestoreCancelled)
           [waiting for the restored members: the restore was called off, its members are removed]
    ",
    );
    assert_eq!((world.token(), world.members()), (token, members));
    assert_eq!((world.pods.len(), world.volumes.len()), (3, 3));
}

/// Found by the simulator: with a quorum of two the attempt was neither confirmed (it wants all three) nor thrown away.
#[test]
fn a_restore_whose_seed_lost_its_disk_starts_over_although_the_others_have_a_quorum() {
    let mut world = World::three();
    world.want_restore("r", 1_000_000);
    world.run_passes(2);
    let attempt = world.record.restore.clone().unwrap().lineage;
    world.wipe_under(&attempt.seeds[0]);
    world.run_passes(2);
    world.want_restore("r", 100);
    world.run();
    let lineage = world.record.lineage.clone().unwrap();
    assert_eq!((lineage.restored_from.as_deref(), lineage.attempt), (Some("r"), attempt.attempt + 1));
    assert!(world.record.restore.is_none() && is_ready(&world));
}

/// The old members kept their data in their pods, which are being stopped; that the spec wants volumes now changes nothing.
/// Neither does another size.
#[test]
fn a_restore_is_not_called_off_when_the_old_members_could_not_come_back() {
    let cases = [(3, 0, 3), (3, 1, 3), (3, 2, 3), (3, 3, 3), (1, 1, 3), (3, 3, 7), (3, 2, 7), (5, 2, 3), (5, 3, 1)];
    for (size, volumes_stay, wanted) in cases {
        let mut world = World::formed(size, volumes_stay > 0, "3.6.10");
        let old = world.members();
        world.desired.storage = Storage::Volume(Box::default());
        world.want_size(wanted);
        world.want_restore("r", 100);
        while world.record.restore.as_ref().is_none_or(|restore| restore.phase != RestorePhase::Confirmed) {
            world.run_passes(1);
        }
        // Between Confirmed and the end of the old pods, whose volumes somebody has begun to delete.
        for (index, name) in old.iter().enumerate() {
            if let Some(volume) = world.volumes.get_mut(name) {
                volume.seen.deleting = index >= volumes_stay;
            }
        }
        world.desired.restore = None;
        let planned = world.pass_of(0);
        let called_off = |step: &Step| matches!(step, Step::DeletePod { why: PodDeletion::RestoreCancelled, .. });
        let expected = volumes_stay >= quorum(size);
        let case = format!("{volumes_stay} of {size} volumes stay, {wanted} wanted");
        assert_eq!(planned.steps.iter().any(called_off), expected, "{case}");
    }
}

/// Two of three are gone without a trace and the third says nothing: what is left is not all that there was.
#[test]
fn a_restore_is_not_called_off_for_the_last_of_three_members() {
    let mut world = World::three();
    let old = world.members();
    world.cut.insert(old[0].clone());
    old[1..].iter().for_each(|name| world.lose_volume(name));
    world.run_passes(2);
    world.want_restore("r", 100);
    while world.record.restore.as_ref().is_none_or(|restore| restore.phase != RestorePhase::Confirmed) {
        world.run_passes(1);
    }
    world.desired.restore = None;
    let planned = world.pass_of(0);
    let called_off = |step: &Step| matches!(step, Step::DeletePod { why: PodDeletion::RestoreCancelled, .. });
    assert!(!planned.steps.iter().any(called_off));
}

#[test]
fn a_formation_that_lost_its_quorum_unseen_is_restored() {
    let mut world = World::formed_unseen(3, true);
    world.seeds().iter().take(2).for_each(|seed| world.wipe_under(seed));
    world.go_on();
    world.run_passes(2);
    assert_eq!(world.status.phase, ClusterPhase::Failed);
    world.want_restore("r", 100);
    world.run_passes(3);
    world.desired.restore = None;
    world.run();
    assert!(is_ready(&world));
    assert_eq!(world.members().len(), 3);
    assert_eq!((world.pods.len(), world.volumes.len()), (3, 3), "nothing is left of the first formation");
}

#[test]
fn a_cluster_that_lost_everything_is_restored() {
    let mut world = World::three_without_volumes();
    world.pods.clear();
    world.go_on();
    world.run_passes(1);
    world.say("an EtcdRestore");
    world.want_restore("r", 100);
    world.run_passes(3);
    world.desired.restore = None;
    world.run();
    check(
        &world,
        r"
         1 [! all members are gone with their data; restore the cluster from a backup with an EtcdRestore]
        -- an EtcdRestore
         2 create pod m1 (new, from the snapshot)
           create pod m2 (new, from the snapshot)
           create pod m3 (new, from the snapshot)
           [waiting for the restored members: 0 of 3 answer]
         3 update Service c-client -> r-1
    ",
    );
    assert!(is_ready(&world));
}

/// Status is written before anything is done: the operator may die in between, and nobody looks after the seeds then.
#[test]
fn a_restore_that_was_confirmed_long_ago_is_confirmed_again_before_anything_old_is_stopped() {
    for volumes in [true, false] {
        let mut world = World::formed(3, volumes, "3.6.10");
        let (token, old) = (world.token(), world.members());
        world.want_restore("r", 100);
        while world.record.restore.as_ref().is_none_or(|restore| restore.phase != RestorePhase::Confirmed) {
            world.pass_of(if world.record.restore.is_some() { 0 } else { usize::MAX });
        }
        let seeds = world.record.restore.as_ref().unwrap().lineage.seeds.clone();
        seeds.iter().for_each(|seed| world.kill_pod(seed));
        world.run_passes(1);
        assert_eq!(world.token(), token, "volumes {volumes}");
        assert!(old.iter().all(|member| world.pods[member].seen.running), "volumes {volumes}");
        world.run();
        assert_ne!(world.token(), token, "volumes {volumes}: the restore went on");
        assert_eq!(world.record.lineage.as_ref().unwrap().restored_from.as_deref(), Some("r"));
        assert!(is_ready(&world), "volumes {volumes}");
    }
}

#[test]
fn seeds_that_fall_silent_while_the_old_members_are_stopped_hold_up_the_switch() {
    let mut world = World::three();
    let (token, old) = (world.token(), world.members());
    world.want_restore("r", 100);
    world.run_until(|step| matches!(step, Step::DeletePod { why: PodDeletion::Superseded, .. }));
    let seeds = world.record.restore.as_ref().unwrap().lineage.seeds.clone();
    world.cut = seeds.iter().cloned().collect();
    world.run_passes(3);
    assert_eq!(world.token(), token);
    assert!(old.iter().all(|member| world.volumes.contains_key(member)));
    world.wait(6);
    world.run_passes(3);
    assert!(old.iter().all(|member| world.pods[member].seen.running), "the old members have their place back");
    world.cut.clear();
    world.run();
    assert_eq!(world.record.lineage.as_ref().unwrap().restored_from.as_deref(), Some("r"));
}

#[test]
fn what_is_left_of_the_old_members_is_kept_while_the_new_ones_do_not_serve() {
    let mut world = World::three();
    let old = world.members();
    world.want_restore("r", 100);
    while world.record.restore.as_ref().is_none_or(|restore| restore.phase != RestorePhase::Switched) {
        world.run_passes(1);
    }
    world.cut = world.members().into_iter().collect();
    world.run_passes(3);
    assert!(old.iter().all(|member| world.volumes.contains_key(member)));
    world.cut.clear();
    world.run();
    assert!(!old.iter().any(|member| world.volumes.contains_key(member)));
}

/// Its status is gone, or it was made anew under the name of another one: what is there of it is not touched.
#[test]
fn a_forgotten_cluster_can_be_restored() {
    let mut world = World::three();
    let old = world.members();
    (world.record, world.status) = Default::default();
    old.iter().for_each(|member| world.kill_pod(member));
    for member in &old {
        world.volumes.get_mut(member).expect("it has one").seen.ours = false;
    }
    world.run_passes(2);
    assert!(world.record.lineage.is_none(), "it waits for a person");
    world.want_restore("r", 100);
    world.run();
    assert!(is_ready(&world));
    assert!(old.iter().all(|member| world.volumes.contains_key(member)));
}

#[test]
fn seeds_that_are_refused_do_not_keep_the_members_that_serve_from_coming_back() {
    let mut world = World::three();
    let (token, name) = (world.token(), world.follower());
    world.want_restore("r", 100);
    world.refused_lineages.insert("r-1".into());
    world.run_passes(2);
    world.kill_pod(&name);
    world.run_passes(3);
    assert!(world.pods[&name].seen.running, "{}", world.readable());
    assert_eq!((world.token(), world.members().len()), (token, 3));
    world.refused_lineages.clear();
    world.run();
    assert_eq!(world.record.lineage.as_ref().unwrap().restored_from.as_deref(), Some("r"));
}

/// Called off because its snapshot is verified anew, say, and wanted again later: etcd tells clusters apart by their token.
#[test]
fn a_restore_that_is_wanted_again_after_it_was_called_off_begins_under_another_token() {
    let mut world = World::three();
    let mut tokens = Vec::new();
    for _ in 0..3 {
        world.want_restore("r", 1_000_000);
        world.run_passes(3);
        tokens.push(world.record.restore.as_ref().expect("it is under way").lineage.token.clone());
        world.desired.restore = None;
        world.run();
        assert!(world.record.restore.is_none());
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 3, "{tokens:?}");
}

/// Its old volumes are ours, under the token that an empty cluster would be born with: it would delete them.
#[test]
fn a_restore_of_a_forgotten_cluster_that_is_called_off_leaves_it_forgotten() {
    let mut world = World::three();
    let old: Vec<_> = world.volumes.keys().cloned().collect();
    (world.record, world.status) = Default::default();
    let served = world.services["c-client"].selector.clone();
    world.want_restore("r", 1_000_000);
    world.run_passes(3);
    assert_eq!(
        world.services["c-client"].selector, served,
        "clients keep what they have until there is something better"
    );
    world.desired.restore = None;
    world.run_passes(10);
    assert_eq!(world.services["c-client"].selector, served);
    assert!(world.record.lineage.is_none(), "{}", world.readable());
    assert!(old.iter().all(|name| world.volumes.contains_key(name)), "{}", world.readable());
    assert!(world.status.reason.contains("status records no cluster"), "{}", world.status.reason);
}

/// Something of the old members may stay for ever, and nobody else could take the place of the new ones.
#[test]
fn restored_members_that_died_before_all_old_ones_were_gone_can_be_restored_again() {
    let mut world = World::three();
    world.want_restore("r", 100);
    while world.record.restore.as_ref().is_none_or(|restore| restore.phase != RestorePhase::Switched) {
        world.run_passes(1);
    }
    for name in world.members() {
        world.lose_volume(&name);
    }
    world.run_passes(3);
    world.want_restore("s", 100);
    world.run();
    assert_eq!(world.record.lineage.as_ref().unwrap().restored_from.as_deref(), Some("s"));
    assert!(is_ready(&world));
}

/// The archived operator's members carry no lineage; left alone they would serve on under the same name.
#[test]
fn members_of_the_archived_operator_stop_when_the_restored_ones_are_confirmed() {
    let mut world = World::three();
    let old = world.members();
    for name in &old {
        world.pods.get_mut(name).expect("it is there").seen.lineage = None;
    }
    (world.record, world.status) = Default::default();
    world.want_restore("r", 100);
    world.run();
    assert!(old.iter().all(|name| !world.pods.contains_key(name)), "{}", world.readable());
    assert!(is_ready(&world) && world.members().len() == 3);
}

#[test]
fn no_member_is_started_from_a_snapshot_at_a_version_that_corrupts_data() {
    let mut world = World::formed(3, true, "3.5.26");
    let (token, name) = (world.token(), world.follower());
    world.want_version("3.5.1");
    world.want_restore("r", 100);
    world.run_passes(3);
    let refusal = "`spec.version` 3.5.1: etcd 3.5.0 to 3.5.2 can corrupt data: must be 3.5.3 or later; the restore has to \
                   wait for it";
    let planned = world.pass_of(usize::MAX);
    assert_eq!(planned.refused.iter().filter(|why| why.to_string() == refusal).count(), 1, "{}", world.readable());
    assert!(world.status.reason.contains(refusal), "{}", world.status.reason);
    assert!(world.pods.len() == 3 && world.record.restore.is_none(), "nothing was begun: {}", world.readable());
    world.kill_pod(&name);
    world.run_passes(3);
    assert!(world.pods[&name].seen.running, "what serves is cared for: {}", world.readable());
    world.want_version("3.5.26");
    world.run();
    assert_ne!(world.token(), token);
    assert!(is_ready(&world));
}

#[test]
fn a_restore_that_was_begun_makes_no_more_members_at_a_version_that_corrupts_data() {
    let mut world = World::three();
    let token = world.token();
    world.want_restore("r", 1_000_000);
    world.run_passes(2);
    let begun = world.record.restore.clone().expect("it is under way");
    world.want_version("3.5.1");
    world.run_passes(1);
    world.wipe_under(&begun.lineage.seeds[0]);
    world.run_passes(3);
    assert_eq!(world.record.restore.as_ref().map(|record| record.lineage.attempt), Some(begun.lineage.attempt));
    assert_eq!(world.token(), token);
    world.want_version("3.6.10");
    world.want_restore("r", 100);
    world.run();
    assert_eq!(world.record.lineage.as_ref().unwrap().restored_from.as_deref(), Some("r"));
    assert!(is_ready(&world));
}

#[test]
fn restored_members_that_are_all_there_are_not_held_up_by_a_version_that_is_wanted_since() {
    let mut world = World::three();
    let token = world.token();
    world.want_restore("r", 1_000_000);
    world.run_passes(3);
    world.want_version("3.5.1");
    world.want_restore("r", 100);
    world.run_passes(10);
    assert_ne!(world.token(), token, "{}", world.readable());
    assert_eq!(world.record.restore, None);
}
