//! What must be remembered of a cluster, and is remembered in its status: its lineage and a restore under way.
//!
//! A lineage is one etcd cluster id with everything that descends from one formation. An EtcdCluster is born once;
//! each later lineage comes from a restore. Nothing else that decides anything is remembered anywhere.

use jiff::Timestamp;
use std::collections::BTreeMap;

use super::desired::Tls;
use super::{ClusterId, Version};

/// One formation of members under one token, and whether it became a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// Counts from 1; an attempt in which a member lost its disk before the cluster had formed is thrown away whole.
    pub attempt: u32,
    /// `--initial-cluster-token`, and the value of the lineage label on pods and volumes.
    pub token: String,
    /// Names of the members of the formation: all of them are in `--initial-cluster`.
    pub seeds: Vec<String>,
    /// Once true, no process of this lineage ever starts with `--initial-cluster-state=new` on an empty directory.
    pub formed: bool,
    /// When it was first seen to serve.
    pub formed_at: Option<Timestamp>,
    /// Known from the moment of formation.
    pub cluster_id: Option<ClusterId>,
    /// uid of the EtcdRestore whose snapshot the seeds were made from.
    pub restored_from: Option<String>,
    /// TLS that its members run with, known from the moment of formation.
    pub tls: Option<Tls>,
    /// The domain in its members' URLs, known from when they first answered under it.
    pub cluster_domain: Option<String>,
}

/// How far a restore has come. Before `Switched` it can be rolled back, after it only goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestorePhase {
    /// The new lineage's volumes and pods are being made beside the old ones.
    Starting,
    /// It has quorum, and what was read back from it is what the snapshot holds: the old pods may be stopped.
    Confirmed,
    /// The client Service points to it: what is left of the old lineage is being dropped.
    Switched,
}

/// A restore under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreRecord {
    /// Name of the EtcdRestore.
    pub name: String,
    /// Its uid: a new EtcdRestore of the same name is another restore.
    pub uid: String,
    /// The lineage that is being made.
    pub lineage: Lineage,
    /// How far it has come.
    pub phase: RestorePhase,
    /// Voters of the old lineage when the new one was confirmed: what its quorum is counted by.
    pub old_voters: Option<usize>,
    /// When the snapshot was verified that its seeds were given.
    pub verified_at: Option<Timestamp>,
    /// A seed found another object in the store than that.
    pub snapshot_changed: bool,
}

/// Everything that the EtcdCluster's status remembers for the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The lineage that serves, or is being formed; none before the first attempt.
    pub lineage: Option<Lineage>,
    /// A restore under way.
    pub restore: Option<RestoreRecord>,
    /// The EtcdRestore (by uid) that was called off last, and the attempt that it would begin with.
    pub called_off: Option<(String, u32)>,
    /// Since when each member (by name) has not answered, while it should have.
    pub unreachable_since: BTreeMap<String, Timestamp>,
    /// The oldest version that a member of the formed cluster ran when all of its voters last answered: where the next
    /// version step begins, known even while nobody can be asked.
    pub version: Option<Version>,
    /// The last entry of the raft log that a member below 3.6 may have written; none when there never was one.
    pub legacy_log_index: Option<u64>,
}

impl Record {
    /// The lineage of a token: the one that serves, or the one that a restore makes.
    pub fn lineage_of(&self, token: &str) -> Option<&Lineage> {
        let restoring = self.restore.as_ref().map(|restore| &restore.lineage);
        self.lineage.iter().chain(restoring).find(|lineage| lineage.token == token)
    }
}
