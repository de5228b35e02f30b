//! S5: a volume claim is deleted only when its member is out of the committed membership, or its lineage never formed, or
//! a restored lineage took over, or its lineage is an attempt that no client was let into (a seed of it lost
//! its disk, say: the attempt is thrown away whole, and what it held is in the snapshot); and every delete carries the uid of the object that it means.
//!
//! NOT verified: deletions by garbage collection after the EtcdCluster itself is gone.

use std::sync::Arc;

use fake_k8s::server::ResourceName;
use serde_json::Value;

use super::Checker;
use super::quorum_kept::superseded;
use crate::effect::Effect;
use crate::ghost;
use crate::world::World;

/// S5.
pub struct VolumesKept;

/// An object of the core group by its key.
pub fn peek(world: &World, plural: &str, key: &str) -> Option<Arc<Value>> {
    let (namespace, name) = key.split_once('/')?;
    world.server.peek(&ResourceName::core(plural), namespace, name)
}

impl Checker for VolumesKept {
    fn invariant(&self) -> &'static str {
        "S5"
    }

    fn effect(&mut self, world: &World, effect: &Effect) -> Option<String> {
        let Effect::Delete { kind, key, uid } = effect else { return None };
        if uid.is_empty() {
            return Some(format!("{kind} {key} is deleted without a uid precondition"));
        }
        if kind != "PersistentVolumeClaim" {
            return None;
        }
        let claim = peek(world, "persistentvolumeclaims", key)?;
        let volume = format!("pv:{}", claim["spec"]["volumeName"].as_str()?);
        let disk = world.etcds.volumes.get(&volume)?.disk.as_ref()?;
        let state = world.etcds.configuration(disk.cluster)?;
        let needed = state.members.contains_key(&disk.member)
            && world.etcds.formed_at(disk.cluster).is_some()
            && !superseded(world, disk.cluster)
            && !ghost::is_unused_attempt(world, disk.cluster);
        needed.then(|| {
            format!("{key} holds the data of member {} of {}, which is in the membership", disk.member, disk.cluster)
        })
    }
}
