//! Ghost state: what really happened, whatever the operator believes. Checkers read it.

use std::collections::{BTreeMap, BTreeSet};

use etcd_operator::model::{ClusterId, MemberId};
use fake_k8s::server::ResourceName;
use serde_json::Value;

use crate::effect::Effect;
use crate::etcd::Birth;
use crate::event::Millis;
use crate::workload::Ledger;
use crate::world::World;

/// A write that a client was told is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The key.
    pub key: Vec<u8>,
    /// Counts the writes of this key.
    pub number: u64,
    /// Its revision.
    pub revision: i64,
    /// When it was acknowledged.
    pub at: Millis,
}

/// The ghost.
#[derive(Debug, Default)]
pub struct Ghost {
    /// When each member was last seen healthy, and last seen not.
    pub healthy_at: BTreeMap<(ClusterId, MemberId), Millis>,
    /// When each member was last seen unhealthy.
    pub unhealthy_at: BTreeMap<(ClusterId, MemberId), Millis>,
    /// `namespace/name` of the EtcdCluster that each lineage belongs to.
    pub owner: BTreeMap<ClusterId, String>,
    /// Acknowledged writes by lineage and key: the last one.
    pub acknowledged: BTreeMap<(ClusterId, Vec<u8>), Acknowledged>,
    /// What the clients wrote and read.
    pub ledger: Ledger,
    /// The first read of each lineage that cannot be explained.
    pub wrong_reads: BTreeMap<ClusterId, String>,
    /// When the operator last changed anything, and what.
    pub last_effect: Option<(Millis, String)>,
    /// Lineages that an EtcdCluster's status has named: the Service of its clients was open to them.
    pub recorded: BTreeSet<ClusterId>,
    /// Lineages that lost a quorum of their disks at some time.
    pub hopeless: BTreeSet<ClusterId>,
}

/// Looks at the health of every member, a few times a second.
pub fn look(world: &mut World) {
    let clusters = world.server.peek_all(&crate::converge::custom("etcdclusters"), None);
    world.ghost.recorded.extend(clusters.iter().filter_map(|cluster| crate::converge::serving(cluster)));
    let lineages: Vec<ClusterId> = world.etcds.committed.keys().copied().collect();
    for cluster in lineages {
        let healthy: BTreeSet<MemberId> = world.etcds.healthy(&world.network, cluster).into_iter().collect();
        crate::sometimes::learners(world, cluster);
        if let Some(state) = world.etcds.configuration(cluster).filter(|_| world.etcds.formed_at(cluster).is_some()) {
            let voters = state.voters();
            let answering = voters.iter().filter(|voter| healthy.contains(voter)).count();
            world.sometimes.quorum(cluster, answering, voters.len());
        }
        let members = members(world, cluster);
        for id in members {
            let key = (cluster, id);
            if healthy.contains(&id) {
                world.ghost.healthy_at.insert(key, world.now);
            } else {
                world.ghost.unhealthy_at.insert(key, world.now);
            }
        }
        if world.etcds.formed_at(cluster).is_some() && !world.ghost.hopeless.contains(&cluster) {
            let (intact, voters) = (disks(world, cluster).0 + unstarted(world, cluster), disks(world, cluster).1);
            if intact < voters / 2 + 1 {
                world.note("ghost", format!("lineage {cluster} has lost a quorum of its disks: {intact} of {voters}"));
                world.ghost.hopeless.insert(cluster);
            }
        }
    }
}

/// Members in the committed configuration.
pub fn members(world: &World, cluster: ClusterId) -> BTreeSet<MemberId> {
    world.etcds.configuration(cluster).map(|state| state.members.keys().copied().collect()).unwrap_or_default()
}

/// Voters whose disk is intact, and all voters.
pub fn disks(world: &World, cluster: ClusterId) -> (usize, usize) {
    let Some(state) = world.etcds.configuration(cluster) else { return (0, 0) };
    let voters = state.voters();
    let intact = voters.iter().filter(|voter| volume_of(world, cluster, **voter).is_some()).count();
    (intact, voters.len())
}

/// Voters that never had a disk: added without a learner's time, below etcd 3.4. Nothing of theirs can be lost.
fn unstarted(world: &World, cluster: ClusterId) -> usize {
    let members = world.etcds.configuration(cluster).map(|state| state.members.values());
    let voters = members.into_iter().flatten().filter(|member| !member.learner);
    voters.filter(|member| !member.has_started() && volume_of(world, cluster, member.id).is_none()).count()
}

/// Whether a lineage is an attempt that no client was ever let into: status never named it, and nothing was acknowledged.
/// The operator may not even know that it formed. Whatever is in it is in the snapshot too, or is nothing.
pub fn is_unused_attempt(world: &World, cluster: ClusterId) -> bool {
    let acknowledged = world.ghost.acknowledged.keys().any(|(lineage, _)| *lineage == cluster);
    !acknowledged && !world.ghost.recorded.contains(&cluster)
}

/// The directory that holds a member's data.
pub fn volume_of(world: &World, cluster: ClusterId, member: MemberId) -> Option<&String> {
    world.etcds.volumes.iter().find_map(|(id, volume)| {
        let disk = volume.disk.as_ref()?;
        (disk.cluster == cluster && disk.member == member).then_some(id)
    })
}

/// A directory was made: whose lineage is it?
pub fn born(world: &mut World, birth: &Birth) {
    let Some((namespace, name)) = birth.pod.split_once('/') else { return };
    let pod = world.server.peek(&ResourceName::core("pods"), namespace, name);
    if let Some(owner) = pod.as_deref().and_then(cluster_of) {
        world.ghost.owner.insert(birth.cluster, format!("{namespace}/{owner}"));
    }
}

/// The EtcdCluster that an object's labels name.
pub fn cluster_of(object: &Value) -> Option<&str> {
    object["metadata"]["labels"]["etcd_cluster"].as_str()
}

/// An effect went through.
pub fn happened(world: &mut World, effect: &Effect, silent: bool) {
    if !effect.is_bookkeeping() && !silent {
        world.ghost.last_effect = Some((world.now, effect.to_string()));
    }
}
