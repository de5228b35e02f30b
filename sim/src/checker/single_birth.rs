//! S3: a cluster is born once. A directory is made with state `new` only while no lineage of the EtcdCluster has formed,
//! or by a restore under a fresh token; and no member's directory is made twice. An attempt may be thrown away as long as
//! no client was let into it: status never named it, and nothing was acknowledged. (It may have formed behind the back of
//! an operator that is cut off from it: the Service of the clients is closed until status says so.)
//!
//! NOT verified: that an abandoned attempt had good reason to be abandoned.

use std::collections::BTreeMap;

use etcd_operator::model::{ClusterId, MemberId};
use fake_k8s::server::ResourceName;

use super::Checker;
use crate::etcd::Birth;
use crate::ghost;
use crate::world::World;

/// S3.
#[derive(Default)]
pub struct SingleBirth {
    born: BTreeMap<(ClusterId, MemberId), String>,
}

impl Checker for SingleBirth {
    fn invariant(&self) -> &'static str {
        "S3"
    }

    fn birth(&mut self, world: &World, birth: &Birth) -> Option<String> {
        let twice = self.born.insert((birth.cluster, birth.member), birth.pod.clone());
        if let Some(before) = twice.filter(|_| world.etcds.formed_at(birth.cluster).is_some()) {
            return Some(format!(
                "member {} of {} starts with an empty directory in {} after it had one in {before}",
                birth.member, birth.cluster, birth.pod
            ));
        }
        if !birth.new || birth.restored {
            return None;
        }
        let (namespace, name) = birth.pod.split_once('/')?;
        let pod = world.server.peek(&ResourceName::core("pods"), namespace, name)?;
        let owner = format!("{namespace}/{}", ghost::cluster_of(&pod)?);
        let formed = world.ghost.owner.iter().find(|(cluster, known)| {
            **known == owner
                && **cluster != birth.cluster
                && world.etcds.formed_at(**cluster).is_some()
                && !ghost::is_unused_attempt(world, **cluster)
        });
        formed
            .map(|(cluster, _)| format!("{} starts a new cluster although {owner} was formed as {cluster}", birth.pod))
    }
}
