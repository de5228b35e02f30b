//! Evictions: a pod that is being deleted answers until its kubelet stops it, and counts for nothing that is begun
//! meanwhile.

use super::is_ready;
use crate::plan::Step;
use crate::plan::tests::world::World;

/// Its data is in its pod: the youngest of the others would leave one of two.
#[test]
fn a_smaller_size_takes_the_member_that_is_on_its_way_out() {
    for (from, to) in [(3, 1), (3, 2), (2, 1), (5, 3)] {
        let mut world = World::formed(from, false, "3.6.10");
        let going = world.follower();
        world.evict(&going);
        world.want_size(to);
        world.run_passes(1);
        assert!(!world.serving().members.iter().any(|member| member.name == going), "{from} to {to}");
        world.kill_pod(&going);
        world.run();
        assert!(is_ready(&world), "{from} to {to}");
        assert_eq!(world.members().len(), to);
    }
}

#[test]
fn nothing_is_restarted_while_another_member_is_on_its_way_out() {
    let others: Vec<_> = World::three().members();
    for going in others {
        let mut world = World::three();
        world.evict(&going);
        world.want_other_template();
        for _ in 0..3 {
            let planned = world.pass_of(usize::MAX);
            let restarts = |step: &Step| matches!(step, Step::DeletePod { .. } | Step::PatchImage { .. });
            assert!(!planned.steps.iter().any(restarts), "{going} goes: {:?}", planned.steps);
        }
        world.kill_pod(&going);
        world.run();
        assert!(is_ready(&world));
    }
}

#[test]
fn leadership_goes_to_nobody_who_is_on_its_way_out() {
    let mut world = World::three_without_volumes();
    let leads = world.leader();
    let going = world.follower();
    let stays = world.other_than(&[&going]);
    world.evict(&going);
    world.evict(&leads);
    world.want_size(1);
    for _ in 0..4 {
        world.run_passes(1);
        assert_ne!(world.leader(), going);
    }
    [going, leads].iter().for_each(|name| world.kill_pod(name));
    world.run();
    assert_eq!((is_ready(&world), world.members()), (true, vec![stays]));
}

/// One of two is on its way out: with the learner's vote, two of three are left.
#[test]
fn a_learner_gets_its_vote_while_there_are_two_to_give_it() {
    let mut world = World::three_without_volumes();
    let lost = world.follower();
    let going = world.other_than(&[&lost]);
    world.kill_pod(&lost);
    while !world.serving().members.iter().any(|member| member.learner && member.has_started()) {
        world.run_passes(1);
    }
    world.evict(&going);
    world.run_passes(1);
    assert_eq!(world.serving().members.iter().filter(|member| !member.learner).count(), 3);
    world.kill_pod(&going);
    world.run();
    assert!(is_ready(&world));
}

/// Its container will be stopped whenever its kubelet gets to it: it is no vote to count on, and the first to go.
#[test]
fn a_smaller_size_takes_the_member_that_is_yet_to_be_started_anew() {
    let mut world = World::three();
    world.kubelets_follow_in = 3;
    world.desired.repository = "mirror/etcd".into();
    world.run_until(|step| matches!(step, Step::PatchImage { .. }));
    let waiting = world.pods.values().find(|pod| pod.seen.is_yet_to_restart()).expect("one").seen.name.clone();
    world.want_size(1);
    world.run_passes(1);
    assert!(world.members().len() == 2 && !world.members().contains(&waiting), "{}", world.readable());
    world.run();
    assert_eq!((world.members().len(), is_ready(&world)), (1, true), "{}", world.readable());
}
