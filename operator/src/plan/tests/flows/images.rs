//! Images that cannot be pulled: our own agent's of an operator of before, and etcd's on one node or on all.

use super::check;
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

#[test]
fn without_a_volume_a_member_whose_agent_is_gone_is_replaced_after_its_time() {
    let mut world = World::three_without_volumes();
    let name = world.follower();
    upgrade_operator(&mut world);
    world.reboot_under(&name);
    world.go_on();
    world.run_passes(3);
    assert!(world.members().contains(&name) && world.pods.contains_key(&name), "its data may come back");
    world.wait(5);
    world.run();
    check(
        &world,
        r"
         1 [waiting for pod m1 to start: agent: ErrImagePull]
           [member m1 does not answer; it is replaced in 300 s unless it comes back]
         4 remove member m1 (Unreachable)
           [waiting for pod m1 to start: agent: ErrImagePull]
         5 delete pod m1 (MemberRemoved)
         6 add learner m2
         7 create pod m2 (existing)
           [waiting for member m2 to be healthy: it has not joined yet]
         8 promote m2
         9 label voter m2
    ",
    );
    assert!(!world.members().contains(&name));
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
