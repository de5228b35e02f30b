//! Templates: pods that must be made anew, on their volumes or by members that stand in.

use super::{check, is_ready};
use crate::model::Storage;
use crate::plan::Step;
use crate::plan::tests::world::World;

#[test]
fn another_template_recreates_pods_on_their_volumes_one_at_a_time() {
    let mut world = World::three();
    world.want_other_template();
    world.run();
    check(
        &world,
        r"
         1 delete pod m1 (Outdated)
         2 create pod m1 (existing, expects data)
           [member m1 does not answer; it is replaced in 300 s unless it comes back]
           [waiting for member m1 to be healthy: it was changed and does not serve; the others are left as they are]
         3 delete pod m2 (Outdated)
         4 create pod m2 (existing, expects data)
           [member m2 does not answer; it is replaced in 300 s unless it comes back]
           [waiting for member m2 to be healthy: it was changed and does not serve; the others are left as they are]
         5 move leader m3 -> m1
         6 delete pod m3 (Outdated)
         7 create pod m3 (existing, expects data)
           [member m3 does not answer; it is replaced in 300 s unless it comes back]
    ",
    );
}

#[test]
fn another_template_replaces_members_without_volumes_by_one_more() {
    let mut world = World::three_without_volumes();
    let before = world.members();
    world.want_other_template();
    world.run();
    check(
        &world,
        r"
         1 add learner m1
         2 create pod m1 (existing)
           [waiting for member m1 to be healthy: it has not joined yet]
         3 promote m1
         4 label voter m1
           remove member m2 (Outdated)
         5 delete pod m2 (MemberRemoved)
         6 add learner m3
         7 create pod m3 (existing)
           [waiting for member m3 to be healthy: it has not joined yet]
         8 promote m3
         9 label voter m3
           remove member m4 (Outdated)
        10 delete pod m4 (MemberRemoved)
        11 add learner m5
        12 create pod m5 (existing)
           [waiting for member m5 to be healthy: it has not joined yet]
        13 promote m5
        14 label voter m5
           move leader m6 -> m1
        15 remove member m6 (Outdated)
        16 delete pod m6 (MemberRemoved)
    ",
    );
    assert!(world.members().iter().all(|name| !before.contains(name)));
}

/// Found by the simulator: scale-in took the stand-in, which was not healthy yet, before the member that it stands in for,
/// and another one was added, for ever.
#[test]
fn a_stand_in_that_is_not_healthy_stays_until_it_serves_and_the_roll_out_ends() {
    let mut world = World::three_without_volumes();
    let before = world.members();
    world.want_other_template();
    world.run_until(|step| matches!(step, Step::PromoteMember { .. }));
    let stand_in = world.members().into_iter().find(|name| !before.contains(name)).expect("it was added");
    world.say("the stand-in is cut off");
    world.cut.insert(stand_in.clone());
    world.go_on();
    world.run_passes(3);
    assert!(world.members().contains(&stand_in));
    world.say("it is back");
    world.cut.clear();
    world.go_on();
    world.run_passes(2);
    check(
        &world,
        r"
         1 add learner m1
         2 create pod m1 (existing)
           [waiting for member m1 to be healthy: it has not joined yet]
         3 promote m1
        -- the stand-in is cut off
         4 [member m1 does not answer; it is replaced in 300 s unless it comes back]
           [waiting for member m1 to be healthy: before the member that it stands in for goes]
        -- it is back
         7 label voter m1
           remove member m2 (Outdated)
         8 delete pod m2 (MemberRemoved)
    ",
    );
    world.run();
    assert!(world.members().contains(&stand_in) && world.members().len() == 3);
    assert!(before.iter().all(|name| !world.members().contains(name)));
}

/// The same fault's other half: below 3.3 leadership cannot be handed on, and the leader is the last that must go.
#[test]
fn below_etcd_3_3_the_leader_that_alone_must_be_made_anew_goes() {
    let mut world = World::formed(3, false, "3.2.25");
    let (before, leader) = (world.members(), world.leader());
    world.want_other_template();
    for _ in 0..2 {
        world.run_until(|step| matches!(step, Step::RemoveMember { .. }));
    }
    assert!(world.members().contains(&leader), "the others go first");
    world.say("only the leader is left to be made anew");
    world.run();
    check(
        &world,
        r"
         1 add voter m1
         2 create pod m1 (existing)
           [member m1 does not answer; it is replaced in 300 s unless it comes back]
           [waiting for member m1 to be healthy: before the member that it stands in for goes]
         3 remove member m2 (Outdated)
         4 delete pod m2 (MemberRemoved)
         5 add voter m3
         6 create pod m3 (existing)
           [member m3 does not answer; it is replaced in 300 s unless it comes back]
           [waiting for member m3 to be healthy: before the member that it stands in for goes]
         7 remove member m4 (Outdated)
        -- only the leader is left to be made anew
         8 delete pod m4 (MemberRemoved)
         9 add voter m5
        10 create pod m5 (existing)
           [member m5 does not answer; it is replaced in 300 s unless it comes back]
           [waiting for member m5 to be healthy: before the member that it stands in for goes]
        11 remove member m6 (Outdated)
        12 delete pod m6 (MemberRemoved)
    ",
    );
    assert!(before.iter().all(|name| !world.members().contains(name)) && world.members().len() == 3);
}

/// The claim is held by the pod alone: with the pod goes the data.
#[test]
fn the_pod_of_a_claim_that_is_being_deleted_is_not_made_anew_before_another_member_has_its_data() {
    for size in 1..=3 {
        let mut world = World::formed(size, true, "3.6.10");
        let member = world.members()[0].clone();
        world.volumes.get_mut(&member).expect("it has one").seen.deleting = true;
        world.want_other_template();
        for _ in 0..40 {
            let planned = world.pass_of(usize::MAX);
            let still_member = world.members().contains(&member);
            let deletes = |step: &Step| matches!(step, Step::DeletePod { name, .. } if *name == member);
            assert!(!still_member || !planned.steps.iter().any(deletes), "size {size}");
        }
        assert_eq!(world.members().len(), size, "size {size}");
        assert!(!world.members().contains(&member), "size {size}: another one has its data");
    }
}

/// The kind of storage is no part of the template: the pod of a new member stays on what it was made for.
#[test]
fn a_new_member_whose_pod_mounts_no_claim_gets_none_again_and_again() {
    let mut world = World::three_without_volumes();
    world.want_size(4);
    world.no_room = true;
    world.run_passes(3);
    world.desired.storage = Storage::Volume(Box::default());
    for _ in 0..4 {
        let planned = world.pass_of(usize::MAX);
        assert!(!planned.steps.iter().any(|step| matches!(step, Step::CreateVolume(_))));
    }
    world.wait(10);
    world.no_room = false;
    world.run();
    assert_eq!(world.members().len(), 4);
}

/// Its successor would fare no better, and one volume after the other would go.
#[test]
fn a_template_that_cannot_run_costs_no_member_and_no_volume() {
    for crashes in [true, false] {
        let mut world = World::three();
        let (members, desired) = (world.members(), world.desired.clone());
        let volumes = world.volumes.keys().cloned().collect::<Vec<_>>();
        world.want_other_template();
        if crashes {
            world.crashing_templates.insert(crate::build::template_hash(&world.desired));
        } else {
            world.no_room = true;
        }
        world.run_passes(3);
        world.wait(6);
        world.run_passes(5);
        assert_eq!(world.members(), members, "crashes: {crashes}");
        assert_eq!(world.volumes.keys().cloned().collect::<Vec<_>>(), volumes, "crashes: {crashes}");
        assert!(!is_ready(&world));
        world.no_room = false;
        world.desired = desired;
        world.run();
        assert_eq!((world.members(), is_ready(&world)), (members, true), "crashes: {crashes}");
    }
}

#[test]
fn a_stopped_roll_out_takes_nobody_along_whose_container_only_starts_again() {
    for template in [true, false] {
        let mut world = World::three();
        let members = world.members();
        if template {
            world.want_other_template();
            world.crashing_templates.insert(crate::build::template_hash(&world.desired));
        } else {
            world.missing_images.insert("3.6.11".into());
            world.want_version("3.6.11");
        }
        world.run_passes(3);
        let stopped = world.pods.values().find(|pod| !pod.seen.running).expect("it cannot start").seen.name.clone();
        let other = world.other_than(&[&stopped]);
        world.reboot_under(&other);
        for _ in 0..5 {
            let planned = world.pass_of(usize::MAX);
            assert!(!planned.steps.iter().any(Step::is_disruptive), "template {template}: {:?}", planned.steps);
        }
        assert!(world.pods[&other].seen.running, "template {template}: it came up by itself");
        if !template {
            world.kill_pod(&other);
            world.run_passes(3);
            assert!(world.pods[&other].seen.image.ends_with("3.6.10"), "{}", world.pods[&other].seen.image);
        }
        world.want_version("3.6.12");
        world.crashing_templates.clear();
        world.run();
        assert_eq!((world.members(), is_ready(&world)), (members, true), "template {template}");
    }
}

/// It has been silent for long, and is kept; that its pod is deleted by a drain makes it no worse.
#[test]
fn a_member_that_is_kept_is_kept_when_its_pod_is_deleted() {
    let mut world = World::three();
    let members = world.members();
    world.want_other_template();
    world.crashing_templates.insert(crate::build::template_hash(&world.desired));
    world.run_passes(3);
    world.wait(60);
    world.run_passes(2);
    let stopped = world.pods.values().find(|pod| !pod.seen.running).expect("it cannot start").seen.name.clone();
    world.evict(&stopped);
    world.run_passes(2);
    world.kill_pod(&stopped);
    world.run_passes(3);
    assert_eq!(world.members(), members);
    world.evict(&stopped);
    world.wait(6);
    world.run_passes(1);
    assert!(!world.members().contains(&stopped), "its node is gone");
}
