//! S11: nothing of the old lineage is destroyed before the restored one has a quorum and holds what the snapshot holds.
//!
//! Looked at: deletions of running members' pods and of volume claims of a formed lineage while another lineage of the
//! same EtcdCluster is being restored; an earlier attempt that no client was let into is not old data.
//! NOT verified: that the snapshot was the one that the user asked for.

use etcd_operator::model::ClusterId;

use super::Checker;
use super::volumes_kept::peek;
use crate::effect::Effect;
use crate::event::Millis;
use crate::ghost;
use crate::world::World;

/// The new lineage must have had its quorum so recently.
const FRESH: Millis = 60_000;

/// S11.
pub struct RestoreIsSafe;

impl Checker for RestoreIsSafe {
    fn invariant(&self) -> &'static str {
        "S11"
    }

    fn effect(&mut self, world: &World, effect: &Effect) -> Option<String> {
        let Effect::Delete { kind, key, .. } = effect else { return None };
        let (cluster, member) = match kind.as_str() {
            "Pod" => world.etcds.of_pod(key).map(|process| (process.cluster, process.member))?,
            "PersistentVolumeClaim" => {
                let claim = peek(world, "persistentvolumeclaims", key)?;
                let volume = format!("pv:{}", claim["spec"]["volumeName"].as_str()?);
                let disk = world.etcds.volumes.get(&volume)?.disk.as_ref()?;
                (disk.cluster, disk.member)
            }
            _ => return None,
        };
        let old = world.etcds.configuration(cluster)?;
        let unused = world.etcds.formed_at(cluster).is_none() || ghost::is_unused_attempt(world, cluster);
        if unused || !old.members.contains_key(&member) {
            return None;
        }
        let owner = world.ghost.owner.get(&cluster)?;
        let newer: Vec<ClusterId> = world
            .ghost
            .owner
            .iter()
            .filter(|(other, known)| {
                *known == owner && **other != cluster && is_restored_after(world, **other, cluster)
            })
            .map(|(other, _)| *other)
            .collect();
        if newer.is_empty() || newer.iter().any(|other| is_sound(world, *other)) {
            return None;
        }
        Some(format!("{kind} {key} of lineage {cluster} is deleted before a restored lineage serves"))
    }
}

fn is_restored_after(world: &World, other: ClusterId, cluster: ClusterId) -> bool {
    let formed = world.etcds.formed_at(other);
    let restored = world.etcds.committed.get(&other).is_some_and(|committed| committed.base.is_some());
    restored && (formed.is_none() || formed > world.etcds.formed_at(cluster))
}

fn is_sound(world: &World, cluster: ClusterId) -> bool {
    let Some(committed) = world.etcds.committed.get(&cluster) else { return false };
    let voters = committed.state.voters();
    let healthy = voters
        .iter()
        .filter(|voter| world.ghost.healthy_at.get(&(cluster, **voter)).is_some_and(|at| at + FRESH >= world.now))
        .count();
    let revision = committed.base.as_ref().map_or(0, |base| base.revision);
    healthy > voters.len() / 2 && committed.state.revision >= revision
}
