//! Random histories: faults, edits and operator crashes between any two effects, then everything heals.
//!
//! `World` checks the safety rules at every step. What is verified here besides: the plan never panics, and after the
//! faults end the world becomes as wanted and stays so. Not verified: stale views of Kubernetes objects (the simulator
//! does that), and more failures at a time than the quorum allows.

use proptest::prelude::*;
use std::collections::BTreeSet;

use super::world::World;
use crate::model::Version;

#[derive(Clone, Debug)]
enum Event {
    KillPod(usize),
    EndPod(usize),
    Wipe(usize),
    LoseVolume(usize),
    Cut(usize),
    Heal,
    Size(usize),
    Template(u8),
    Version(usize),
    Paused(bool),
    Wait(i64),
    /// A pass that crashes after so many effects.
    Crash(usize),
    Passes(usize),
}

const VERSIONS: [&str; 3] = ["3.5.26", "3.6.10", "3.7.3"];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..9_usize).prop_map(Event::KillPod),
        (0..9_usize).prop_map(Event::EndPod),
        (0..9_usize).prop_map(Event::Wipe),
        (0..9_usize).prop_map(Event::LoseVolume),
        (0..9_usize).prop_map(Event::Cut),
        Just(Event::Heal),
        (1..6_usize).prop_map(Event::Size),
        (0..3_u8).prop_map(Event::Template),
        (0..3_usize).prop_map(Event::Version),
        any::<bool>().prop_map(Event::Paused),
        (0..10_i64).prop_map(Event::Wait),
        (0..4_usize).prop_map(Event::Crash),
        (1..8_usize).prop_map(Event::Passes),
    ]
}

/// Whether one more member may fail without the quorum being lost for good.
fn may_lose_one(world: &World) -> bool {
    let etcd = world.serving();
    let runs = |name: &String| world.pods.get(name).is_some_and(|pod| pod.seen.running);
    let healthy = etcd.leader.is_some() && world.cut.is_empty() && world.members().iter().all(runs);
    healthy && etcd.members.len() >= 3 && etcd.members.iter().all(|member| !member.learner && member.has_started())
}

fn happen(world: &mut World, event: &Event) {
    let member = |world: &World, at: usize| {
        let members = world.members();
        members[at % members.len()].clone()
    };
    match event {
        Event::KillPod(at) if may_lose_one(world) => world.kill_pod(&member(world, *at)),
        Event::EndPod(at) if may_lose_one(world) => world.end_pod(&member(world, *at)),
        Event::Wipe(at) if may_lose_one(world) => world.wipe(&member(world, *at)),
        Event::LoseVolume(at) if may_lose_one(world) => world.lose_volume(&member(world, *at)),
        Event::Cut(at) if may_lose_one(world) => drop(world.cut.insert(member(world, *at))),
        Event::KillPod(_) | Event::EndPod(_) | Event::Wipe(_) | Event::LoseVolume(_) | Event::Cut(_) => {}
        Event::Heal => world.cut.clear(),
        Event::Size(size) => world.desired.size = *size,
        Event::Template(value) => drop(world.desired.pod.annotations.insert("a".into(), value.to_string())),
        Event::Version(at) => world.desired.version = VERSIONS[*at].parse().expect("a version"),
        Event::Paused(paused) => world.desired.paused = *paused,
        Event::Wait(minutes) => world.wait(*minutes),
        Event::Crash(effects) => drop(world.pass_of(*effects)),
        Event::Passes(passes) => world.run_passes(*passes),
    }
    world.go_on();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_rules_hold_and_the_world_becomes_as_wanted(
        size in 1..6_usize, volumes: bool, events in prop::collection::vec(event(), 0..20),
    ) {
        let mut world = World::formed(size, volumes, "3.6.10");
        for event in &events {
            happen(&mut world, event);
        }
        world.cut.clear();
        world.desired.paused = false;
        // A version that is refused is not waited for. The user takes it back to the oldest that any pod has, which may be
        // too late by now, and then decides for the newest.
        let members = world.members();
        let pods = world.pods.values().filter(|pod| members.contains(&pod.seen.name));
        let versions = pods.filter_map(|pod| pod.seen.image.rsplit_once(":v")?.1.parse().ok());
        // Between a pod and its successor none may have one: then the recorded version runs.
        let versions: BTreeSet<Version> = versions.chain(world.record.version.clone()).collect();
        for version in versions.first().into_iter().chain(versions.last()) {
            world.desired.version = version.clone();
            world.go_on();
            world.run_passes(60);
        }
        world.run();
        prop_assert_eq!(world.members().len(), world.desired.size);
        prop_assert_eq!(world.pods.len(), world.desired.size);
        prop_assert_eq!(world.volumes.len(), if volumes { world.desired.size } else { 0 });
        prop_assert_eq!(&world.status.ready, &format!("{0}/{0}", world.desired.size));
    }
}
