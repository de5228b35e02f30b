//! S1: a removal leaves a quorum of healthy members, and so does the deletion or the restart of a pod, unless that member
//! was already unhealthy.
//!
//! The operator cannot know what happened within the last moments before it sent the effect, nor while the effect was on
//! its way (nothing calls a request back): a member counts as healthy here if it was so within [`FRESH`], and the one that
//! is hit counts as unhealthy if it was so within that time. What it did itself it does know: a member that it stopped counts
//! as unhealthy until another process of it is healthy. Waived: a cluster of one or two voters is restarted (there is
//! no way to do it without an interruption), a lineage that a restore supersedes, and an attempt that no client was let
//! into.
//! NOT verified: learners, and what a user deletes.

use std::collections::BTreeMap;

use etcd_operator::model::{ClusterId, MemberId};

use super::Checker;
use crate::effect::Effect;
use crate::etcd::{Process, ProcessId};
use crate::event::Millis;
use crate::ghost;
use crate::world::World;

/// What the operator saw when it sent the effect may be so old: its poll, its calls' deadlines, its own latency.
const FRESH: Millis = 20_000;

/// S1.
#[derive(Default)]
pub struct QuorumKept {
    /// The process of each member that the operator stopped, or let start anew, and that is not back yet.
    stopped: BTreeMap<(ClusterId, MemberId), ProcessId>,
    /// What the effect that is about to be committed will stop.
    pending: Option<((ClusterId, MemberId), ProcessId)>,
}

impl Checker for QuorumKept {
    fn invariant(&self) -> &'static str {
        "S1"
    }

    fn effect(&mut self, world: &World, effect: &Effect) -> Option<String> {
        self.pending = None;
        // Who is back since the last tick is back.
        self.tick(world);
        let (key, verb) = match effect {
            Effect::MemberRemove { cluster, member } => return self.removed(world, *cluster, *member),
            Effect::Delete { kind, key, .. } if kind == "Pod" => (key, "deletes"),
            Effect::Update { kind, key, status: false, body } if kind == "Pod" => {
                let image =
                    body["spec"]["containers"].as_array()?.iter().find(|container| container["name"] == "etcd")?;
                let pod = super::volumes_kept::peek(world, "pods", key)?;
                let now = pod["spec"]["containers"].as_array()?.iter().find(|container| container["name"] == "etcd")?;
                if now["image"] == image["image"] {
                    return None;
                }
                (key, "restarts")
            }
            _ => return None,
        };
        let process = world.etcds.of_pod(key)?;
        let wrong = self.stopped(world, process, key, verb);
        self.pending = Some(((process.cluster, process.member), process.id));
        wrong
    }

    fn done(&mut self) {
        self.stopped.extend(self.pending.take());
    }

    fn tick(&mut self, world: &World) -> Option<String> {
        self.stopped.retain(|(cluster, member), stopped| {
            let runs = world.etcds.of_member(*cluster, *member).map(|process| process.id);
            let is_member = world.etcds.configuration(*cluster).is_some_and(|state| state.members.contains_key(member));
            let is_back = runs.is_some_and(|runs| runs != *stopped)
                && world.etcds.healthy(&world.network, *cluster).contains(member);
            is_member && !is_back && !is_taken_back(world, *cluster, *member, *stopped)
        });
        None
    }
}

fn recently(world: &World, at: Option<&Millis>) -> bool {
    at.is_some_and(|at| at + FRESH >= world.issued)
}

impl QuorumKept {
    /// Voters of the configuration that were healthy a moment ago, without this one.
    fn others_healthy(&self, world: &World, cluster: ClusterId, without: MemberId) -> (usize, usize) {
        let Some(state) = world.etcds.configuration(cluster) else { return (0, 0) };
        let voters = state.voters();
        let is_healthy = |voter: &&MemberId| {
            let key = (cluster, **voter);
            !self.stopped.contains_key(&key) && recently(world, world.ghost.healthy_at.get(&key))
        };
        let healthy = voters.iter().filter(|voter| **voter != without).filter(is_healthy).count();
        (healthy, voters.len())
    }

    fn removed(&self, world: &World, cluster: ClusterId, member: MemberId) -> Option<String> {
        let state = world.etcds.configuration(cluster)?;
        if !state.voters().contains(&member) {
            return None;
        }
        let (healthy, voters) = self.others_healthy(world, cluster, member);
        let needed = (voters - 1) / 2 + 1;
        (healthy < needed).then(|| {
            format!("member {member} is removed from {voters} voters although only {healthy} others are healthy ({needed} needed)")
        })
    }

    fn stopped(&self, world: &World, process: &Process, key: &str, verb: &str) -> Option<String> {
        let (cluster, member) = (process.cluster, process.member);
        let state = world.etcds.configuration(cluster)?;
        if !state.voters().contains(&member) || world.etcds.formed_at(cluster).is_none() {
            return None;
        }
        if recently(world, world.ghost.unhealthy_at.get(&(cluster, member)))
            || superseded(world, cluster)
            || ghost::is_unused_attempt(world, cluster)
        {
            return None;
        }
        let (healthy, voters) = self.others_healthy(world, cluster, member);
        let needed = voters / 2 + 1;
        let wiped = world.data_of(key).is_some_and(|volume| volume.starts_with("dir:")) && verb == "deletes";
        if voters <= 2 && !wiped {
            return None;
        }
        (healthy < needed).then(|| {
            format!("the operator {verb} {key}, a healthy voter of {voters}, although only {healthy} others are healthy ({needed} needed)")
        })
    }
}

/// The spec was taken back before the kubelet had followed: what runs is what is asked for again, and nothing will stop it.
fn is_taken_back(world: &World, cluster: ClusterId, member: MemberId, stopped: ProcessId) -> bool {
    let process = world.etcds.of_member(cluster, member).filter(|process| process.id == stopped);
    let Some(process) = process else { return false };
    let Some(pod) = super::volumes_kept::peek(world, "pods", &process.pod) else { return false };
    let (minor, patch) = process.version;
    let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let asked = containers.find(|container| container["name"] == "etcd").and_then(|etcd| etcd["image"].as_str());
    let is_asked = asked.is_some_and(|image| image.ends_with(&format!(":v3.{minor}.{patch}")));
    pod["metadata"]["deletionTimestamp"].is_null() && is_asked
}

/// Whether a restored lineage of the same EtcdCluster has formed.
pub fn superseded(world: &World, cluster: ClusterId) -> bool {
    let Some(owner) = world.ghost.owner.get(&cluster) else { return false };
    world.ghost.owner.iter().any(|(other, other_owner)| {
        other_owner == owner
            && *other != cluster
            && world.etcds.formed_at(*other) > world.etcds.formed_at(cluster)
            && world.etcds.committed.get(other).is_some_and(|committed| committed.base.is_some())
            && !ghost::members(world, *other).is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, in_world};
    use crate::effect::Effect;

    fn delete(world: &Fixture<'_>, key: &str) -> Effect {
        let uid = world.object("Pod", key.split_once('/').unwrap().1)["metadata"]["uid"].as_str().unwrap().to_owned();
        Effect::Delete { kind: "Pod".into(), key: key.to_owned(), uid }
    }

    /// The operator knows of its own first step, however short a time ago it was.
    #[test]
    fn a_second_member_is_not_stopped_before_the_first_is_back() {
        in_world(|world| {
            world.form("birth-1", 3);
            world.record("birth-1", None);
            let pods = world.pods("birth-1").to_vec();
            let (first, second) = (delete(world, &pods[0]), delete(world, &pods[1]));
            assert_eq!(world.effect(first), None, "two of three are left");
            let what = world.effect(second).expect("one of three would be left");
            assert!(what.starts_with("S1") && what.contains("only 1 others are healthy"), "{what}");
        });
    }

    #[test]
    fn a_delete_that_was_refused_has_stopped_nobody() {
        in_world(|world| {
            world.form("birth-1", 3);
            world.record("birth-1", None);
            let pods = world.pods("birth-1").to_vec();
            let (first, second) = (delete(world, &pods[0]), delete(world, &pods[1]));
            world.world.issued = world.world.now;
            let refused = world.world.commit("operator", 1, Some(first), |_| Err::<(), _>("conflict".to_owned()));
            assert!(refused.is_err() && world.violation().is_none());
            assert_eq!(world.effect(second), None);
        });
    }
}
