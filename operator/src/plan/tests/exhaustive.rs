//! Every vector of member health up to seven members: whatever is planned, the quorum survives it.

use std::collections::BTreeMap;

use super::super::members::{Members, name_of};
use super::super::safety::Safety;
use super::world::World;
use crate::model::quorum::quorum;
use crate::model::{EtcdMember, MemberId};
use crate::plan::Step;

/// What one member of a vector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Healthy,
    Silent,
    Wiped,
}

const STATES: [State; 3] = [State::Healthy, State::Silent, State::Wiped];

/// Every vector of this many states.
fn vectors(size: usize) -> impl Iterator<Item = Vec<State>> {
    let all = 3_usize.pow(u32::try_from(size).expect("small"));
    (0..all).map(move |number| {
        (0..size).map(|at| STATES[number / 3_usize.pow(u32::try_from(at).expect("small")) % 3]).collect()
    })
}

/// `World` checks the safety rules at every step that is applied, from what is really alive.
#[test]
fn rule_whatever_is_planned_for_any_vector_of_health_leaves_a_quorum() {
    for size in 1..=7 {
        let formed = World::formed(size, true, "3.6.10");
        for (number, vector) in vectors(size).enumerate() {
            let mut world = formed.clone();
            for (name, state) in formed.members().iter().zip(&vector) {
                match state {
                    State::Healthy => {}
                    State::Silent => drop(world.cut.insert(name.clone())),
                    State::Wiped => world.pods.get_mut(name).expect("a pod").seen.data_lost = true,
                }
                if *state == State::Wiped {
                    world.pods.get_mut(name).expect("a pod").seen.running = false;
                }
            }
            world.go_on();
            // What is wanted varies along: as many, fewer, more, another template.
            world.desired.size = [size, 1, size.min(6) + 2, size][number % 4];
            if number % 4 == 3 {
                world.desired.pod.annotations.insert("a".into(), "b".into());
            }
            world.run_passes(1);
            world.wait(6);
            world.run_passes(2);
            let healthy = vector.iter().filter(|state| **state == State::Healthy).count();
            if healthy < quorum(size) {
                assert_eq!(world.volumes.len(), size, "nothing is deleted without quorum: {vector:?}");
                assert!(!world.status.reason.is_empty(), "and it is said: {vector:?}");
            }
        }
    }
}

#[test]
fn rule_nobody_is_added_beside_a_learner_or_an_unstarted_member() {
    let world = World::formed(3, true, "3.6.10");
    let observed = world.observe();
    let token = world.token();
    let members = Members::join(&observed, Some(&token), true);
    assert_eq!(Safety::of(&members).why_unsafe_to_add(true, 3), None);
    assert!(Safety::of(&members).why_unsafe_to_add(true, 2).is_some(), "voters + learners <= wanted + 1");
    for learner in [true, false] {
        let mut world = world.clone();
        let entry = EtcdMember {
            id: MemberId(99),
            name: String::new(),
            peer_urls: vec!["http://c-bcdfghjklm.c.ns.svc:2380".into()],
            client_urls: Vec::new(),
            learner,
        };
        assert_eq!(name_of(&entry), "c-bcdfghjklm");
        world.etcd.get_mut(&token).expect("there").members.push(entry);
        world.desired.size = 5;
        let observed = world.observe();
        let members = Members::join(&observed, Some(&token), true);
        assert!(Safety::of(&members).why_unsafe_to_add(true, 5).is_some());
        let planned = world.pass_of(0);
        assert!(!planned.steps.iter().any(|step| matches!(step, Step::AddMember { .. })), "{:?}", planned.steps);
    }
}

#[test]
fn a_converged_cluster_plans_nothing_and_keeps_its_status() {
    for (size, volumes, version) in [(1, true, "3.2.25"), (3, false, "3.4.23"), (5, true, "3.6.10"), (7, true, "3.7.3")]
    {
        let mut world = World::formed(size, volumes, version);
        let before = world.status.clone();
        for _ in 0..3 {
            world.wait(30);
            let planned = world.pass_of(usize::MAX);
            assert_eq!((planned.steps, planned.waiting, planned.refused), (vec![], vec![], vec![]));
            assert_eq!(world.status, before);
        }
        assert_eq!(world.record.unreachable_since, BTreeMap::new());
    }
}
