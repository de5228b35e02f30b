//! S5: a volume claim, or a pod whose data goes with it, is deleted only when its member is out of the committed membership,
//! or its lineage never formed, or a restored lineage took over, or its lineage is an attempt that no client was let into (a
//! seed of it lost its disk, say: the attempt is thrown away whole, and what it held is in the snapshot); and every delete
//! carries a uid, which is that of the object that it hits.
//!
//! NOT verified: deletions by garbage collection after the EtcdCluster itself is gone; that the uid is the one that the plan
//! looked at (what a plan read is not recorded: that a delete names it is for the tests of `apply`).

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
        let hit = peek(world, &format!("{}s", kind.to_lowercase()), key);
        if let Some(other) = hit.as_deref().and_then(|hit| hit["metadata"]["uid"].as_str()).filter(|hit| hit != uid) {
            return Some(format!("{kind} {key} of uid {other} is deleted, and {uid} was meant"));
        }
        let volume = match kind.as_str() {
            "PersistentVolumeClaim" => {
                let claim = peek(world, "persistentvolumeclaims", key)?;
                format!("pv:{}", claim["spec"]["volumeName"].as_str()?)
            }
            "Pod" => world.data_of(key).filter(|volume| volume.starts_with("dir:"))?,
            _ => return None,
        };
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

#[cfg(test)]
mod tests {
    use super::super::fixture::in_world;
    use crate::effect::Effect;

    #[test]
    fn a_delete_names_the_uid_of_what_it_hits() {
        in_world(|world| {
            world.form("birth-1", 1);
            let key = world.pods("birth-1")[0].clone();
            let uid = world.object("Pod", key.split_once('/').unwrap().1)["metadata"]["uid"].clone();
            let mut delete =
                |uid: &str| world.effect(Effect::Delete { kind: "Pod".into(), key: key.clone(), uid: uid.to_owned() });
            assert_eq!(delete(uid.as_str().unwrap()), None);
            assert!(delete("").is_some_and(|what| what.contains("without a uid precondition")));
            let what = delete("another").expect("it was made anew");
            assert!(what.starts_with("S5") && what.contains("and another was meant"), "{what}");
        });
    }
}
