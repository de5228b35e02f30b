//! S1: a removal leaves a quorum of healthy members, and so does the deletion or the restart of a pod, unless that member
//! was already unhealthy.
//!
//! The operator cannot know what happened within the last moments before it sent the effect, nor while the effect was on
//! its way (nothing calls a request back): a member counts as healthy here if it was so within [`FRESH`], and the one that
//! is hit counts as unhealthy if it was so within that time. Waived: a cluster of one or two voters is restarted (there is
//! no way to do it without an interruption), a lineage that a restore supersedes, and an attempt that no client was let
//! into.
//! NOT verified: learners, and what a user deletes.

use etcd_operator::model::{ClusterId, MemberId};

use super::Checker;
use crate::effect::Effect;
use crate::event::Millis;
use crate::ghost;
use crate::world::World;

/// What the operator saw when it sent the effect may be so old: its poll, its calls' deadlines, its own latency.
const FRESH: Millis = 20_000;

/// S1.
pub struct QuorumKept;

impl Checker for QuorumKept {
    fn invariant(&self) -> &'static str {
        "S1"
    }

    fn effect(&mut self, world: &World, effect: &Effect) -> Option<String> {
        match effect {
            Effect::MemberRemove { cluster, member } => removed(world, *cluster, *member),
            Effect::Delete { kind, key, .. } if kind == "Pod" => stopped(world, key, "deletes"),
            Effect::Update { kind, key, status: false, body } if kind == "Pod" => {
                let image =
                    body["spec"]["containers"].as_array()?.iter().find(|container| container["name"] == "etcd")?;
                let pod = super::volumes_kept::peek(world, "pods", key)?;
                let now = pod["spec"]["containers"].as_array()?.iter().find(|container| container["name"] == "etcd")?;
                (now["image"] != image["image"]).then(|| stopped(world, key, "restarts")).flatten()
            }
            _ => None,
        }
    }
}

fn recently(world: &World, at: Option<&Millis>) -> bool {
    at.is_some_and(|at| at + FRESH >= world.issued)
}

/// Voters of the configuration that were healthy a moment ago, without this one.
fn others_healthy(world: &World, cluster: ClusterId, without: MemberId) -> (usize, usize) {
    let Some(state) = world.etcds.configuration(cluster) else { return (0, 0) };
    let voters = state.voters();
    let healthy = voters
        .iter()
        .filter(|voter| **voter != without && recently(world, world.ghost.healthy_at.get(&(cluster, **voter))))
        .count();
    (healthy, voters.len())
}

fn removed(world: &World, cluster: ClusterId, member: MemberId) -> Option<String> {
    let state = world.etcds.configuration(cluster)?;
    if !state.voters().contains(&member) {
        return None;
    }
    let (healthy, voters) = others_healthy(world, cluster, member);
    let needed = (voters - 1) / 2 + 1;
    (healthy < needed).then(|| {
        format!("member {member} is removed from {voters} voters although only {healthy} others are healthy ({needed} needed)")
    })
}

fn stopped(world: &World, key: &str, verb: &str) -> Option<String> {
    let process = world.etcds.of_pod(key)?;
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
    let (healthy, voters) = others_healthy(world, cluster, member);
    let needed = voters / 2 + 1;
    let wiped = world.data_of(key).is_some_and(|volume| volume.starts_with("dir:")) && verb == "deletes";
    if voters <= 2 && !wiped {
        return None;
    }
    (healthy < needed).then(|| {
        format!("the operator {verb} {key}, a healthy voter of {voters}, although only {healthy} others are healthy ({needed} needed)")
    })
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
