//! Images that cannot be pulled: our own agent's of an operator of before, and etcd's on one node or on all.

use super::{check, is_ready};
use crate::plan::tests::world::World;

fn upgrade_operator(world: &mut World) {
    world.desired.agent_image = "operator:2".into();
    world.missing_agents.insert("operator:1".into());
}

#[test]
fn all_nodes_reboot_after_the_image_of_the_last_operator_was_purged_and_everything_comes_back() {
    let mut world = World::three();
    let members = world.members();
    upgrade_operator(&mut world);
    world.run_passes(3);
    assert_eq!(world.transcript, "", "nobody is restarted for the sake of the agent");
    members.iter().for_each(|name| world.reboot_under(name));
    world.go_on();
    world.run();
    check(
        &world,
        r"
         4 delete pod m1 (Outdated)
           [waiting for pod m1 to start: agent: ErrImagePull]
           [waiting for pod m2 to start: agent: ErrImagePull]
           [waiting for pod m3 to start: agent: ErrImagePull]
         5 create pod m1 (existing, expects data)
           delete pod m2 (Outdated)
           [waiting for pod m2 to start: agent: ErrImagePull]
           [waiting for pod m3 to start: agent: ErrImagePull]
         6 create pod m2 (existing, expects data)
           delete pod m3 (Outdated)
           [waiting for pod m3 to start: agent: ErrImagePull]
         7 create pod m3 (existing, expects data)
           label voter m1
           [member m3 does not answer; it is replaced in 300 s unless it comes back]
    ",
    );
    assert_eq!(world.members(), members);
}

/// Its data goes with its pod, and with all nodes down at once nobody could stand in for anybody.
#[test]
fn without_volumes_the_pods_get_the_new_agent_where_they_are() {
    let mut world = World::three_without_volumes();
    let members = world.members();
    upgrade_operator(&mut world);
    members.iter().for_each(|name| world.reboot_under(name));
    world.go_on();
    world.run();
    check(
        &world,
        r"
         1 patch agent of m1 to operator:2
           [waiting for pod m1 to start: agent: ErrImagePull]
           [waiting for pod m2 to start: agent: ErrImagePull]
           [waiting for pod m3 to start: agent: ErrImagePull]
         2 patch agent of m2 to operator:2
           [waiting for pod m2 to start: agent: ErrImagePull]
           [waiting for pod m3 to start: agent: ErrImagePull]
         3 patch agent of m3 to operator:2
           [waiting for pod m3 to start: agent: ErrImagePull]
    ",
    );
    assert_eq!(world.members(), members);
}

/// The operator itself runs that image: it is there, and the node is broken.
#[test]
fn a_node_that_cannot_pull_our_agent_loses_its_member_after_its_time() {
    let mut world = World::three();
    let name = world.follower();
    world.missing_agents.insert("operator:1".into());
    world.reboot_under(&name);
    world.go_on();
    world.run_passes(3);
    assert!(world.members().contains(&name), "its data may come back");
    world.wait(5);
    world.run_passes(1);
    world.missing_agents.clear();
    world.run();
    assert!(!world.members().contains(&name) && world.members().len() == 3);
}

/// A restored member's pod keeps the containers that it began with; the image of one was the version of that day.
#[test]
fn a_restored_member_comes_back_when_the_image_that_restored_it_is_gone() {
    let mut world = World::formed(3, true, "3.6.9");
    world.want_restore("r", 100);
    world.run();
    world.want_version("3.6.10");
    world.run();
    let members = world.members();
    world.missing_images.insert("3.6.9".into());
    members.iter().for_each(|name| world.reboot_under(name));
    world.go_on();
    world.run();
    assert_eq!(world.members(), members);
    assert!(world.pods.values().all(|pod| pod.seen.running));
}

#[test]
fn a_first_attempt_whose_agent_was_never_pulled_starts_over_with_the_new_one() {
    let mut world = World::new(3, true, "3.6.10");
    world.missing_agents.insert("operator:1".into());
    world.run_passes(3);
    assert!(world.status.reason.contains("agent: ErrImagePull"), "{}", world.status.reason);
    upgrade_operator(&mut world);
    world.run();
    assert_eq!((world.attempt(), world.members().len()), (2, 3));
}

#[test]
fn a_node_that_cannot_pull_what_the_others_run_loses_its_member_after_its_time() {
    let mut world = World::three();
    let name = world.follower();
    world.no_registry.insert(name.clone());
    world.reboot_under(&name);
    world.go_on();
    world.run_passes(3);
    assert!(world.members().contains(&name));
    world.wait(5);
    world.run();
    check(
        &world,
        r"
         1 [waiting for pod m1 to start: etcd: ErrImagePull]
           [member m1 does not answer; it is replaced in 300 s unless it comes back]
         4 remove member m1 (Unreachable)
           [waiting for pod m1 to start: etcd: ErrImagePull]
         5 delete pod m1 (MemberRemoved)
         6 delete volume m1 (MemberRemoved)
         7 add learner m2
         8 create pod m2 (existing)
           create volume m2
           [waiting for member m2 to be healthy: it has not joined yet]
         9 promote m2
        10 label voter m2
    ",
    );
    assert!(!world.members().contains(&name));
}

/// The others have a leader by then, so that the attempt is not thrown away for the one.
#[test]
fn a_restored_seed_that_waits_for_the_agent_of_an_operator_of_before_gets_another_pod() {
    for (volumes, late) in [(true, 0), (true, 2), (false, 0), (false, 2)] {
        let mut world = World::formed(3, volumes, "3.6.10");
        world.want_restore("r", 100);
        world.run_passes(1);
        let seeds = world.record.restore.as_ref().expect("it has begun").lineage.seeds.clone();
        world.reboot_under(&seeds[late]);
        world.missing_agents.insert("operator:1".into());
        world.go_on();
        world.run_passes(2);
        upgrade_operator(&mut world);
        world.run_passes(16);
        world.desired.restore = None;
        world.run();
        assert!(is_ready(&world), "volumes {volumes}, seed {late}");
        let serving = world.record.lineage.as_ref().expect("it was formed");
        assert!(serving.restored_from.is_some(), "volumes {volumes}, seed {late}: it was restored, not called off");
        assert_eq!(world.members().len(), 3);
    }
}

/// The version alone does not tell: the new image may be of the same.
#[test]
fn the_next_member_waits_until_the_kubelet_has_followed() {
    let mut world = World::three();
    let members = world.members();
    world.kubelets_follow_in = 3;
    world.desired.repository = "mirror/etcd".into();
    for _ in 0..40 {
        world.run_passes(1);
        let waited_for = world.pods.values().filter(|pod| pod.seen.is_yet_to_restart()).count();
        assert!(waited_for <= 1, "{}", world.readable());
    }
    world.run();
    assert!(world.readable().contains("its container was not started anew yet"), "{}", world.readable());
    assert_eq!((world.members(), is_ready(&world)), (members, true));
    assert!(world.pods.values().all(|pod| pod.seen.image.starts_with("mirror/") && !pod.seen.is_yet_to_restart()));
}
