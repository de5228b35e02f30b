//! A small etcd: processes with disks, terms and logs; elections and replication by reachability; membership through the
//! log with learners and etcd's own rejections; boot rules; linearizable reads that need a quorum; snapshots.
//!
//! What is simplified: an exchange between two members happens at one instant (there are no messages in flight), a write
//! to a disk is durable at once, and the log is never compacted. What is kept honest: nothing is acknowledged without a
//! quorum of disks, votes and terms are on the disk (so that a member whose disk was wiped under its id can cause data
//! loss, and the checkers can see it), leaders are complete otherwise, and configuration changes take effect when applied.

pub mod bolt;
pub mod boot;
pub mod calls;
pub mod log;
pub mod raft;
pub mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use etcd_operator::model::{ClusterId, MemberId};

use crate::event::Millis;
use crate::network::{Network, Place};
use crate::stream::Stream;
use log::{Disk, Entry};
use state::State;

/// A running etcd process. A restart is another process.
pub type ProcessId = u64;

/// A directory: of a PersistentVolume or of a pod's emptyDir.
pub type VolumeId = String;

/// What a directory holds.
#[derive(Clone, Debug, Default)]
pub struct Volume {
    /// The etcd data directory.
    pub disk: Option<Disk>,
    /// What a restore tool has made and nobody has renamed into place yet.
    pub restoring: Option<Disk>,
    /// Plain files by path relative to the volume.
    pub files: BTreeMap<String, Bytes>,
}

/// A process's role in raft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Follower, or learner.
    Follower,
    /// Leader.
    Leader,
}

/// A running process.
#[derive(Debug)]
pub struct Process {
    /// Which one.
    pub id: ProcessId,
    /// `namespace/name` of its pod, by which the network knows it.
    pub pod: String,
    /// Its directory.
    pub volume: VolumeId,
    /// `--name`.
    pub name: String,
    /// Its raft id.
    pub member: MemberId,
    /// Its lineage.
    pub cluster: ClusterId,
    /// Minor and patch of its version (3 is the only major).
    pub version: (u32, u32),
    /// What it advertises to clients.
    pub client_urls: Vec<String>,
    /// When it started.
    pub started_at: Millis,
    /// Its node is paused: it neither answers nor does anything.
    pub frozen: bool,
    /// What it has applied.
    pub state: State,
    role: Role,
    leader: Option<MemberId>,
    heard_at: Millis,
    election_timeout: Millis,
    published: bool,
    /// Leader: the last index that each member is known to have.
    progress: BTreeMap<MemberId, usize>,
    /// Leader: since when each member has been reachable without a break.
    connected_since: BTreeMap<MemberId, Millis>,
    /// Leader: when it last reached a quorum.
    quorum_at: Millis,
}

/// A process that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Which one.
    pub process: ProcessId,
    /// Its exit code.
    pub code: i32,
    /// Its last words.
    pub message: String,
}

/// Why a process did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootFailure {
    /// Exit code.
    pub code: i32,
    /// Last words.
    pub message: String,
}

/// What the simulation knows of a lineage, whatever the members think.
#[derive(Debug)]
pub struct Committed {
    /// The result of applying `entries` to `base`.
    pub state: State,
    /// Every entry that any member applied, in order.
    pub entries: Vec<Arc<Entry>>,
    /// The key space that it started from.
    pub base: Option<Arc<log::Base>>,
    /// Two members applied different entries at one index: what and where.
    pub diverged: Option<String>,
    /// When it first had a leader that committed an entry of its own.
    pub formed_at: Option<Millis>,
    /// Ids whose directory was once made with state `new`, and how often.
    pub births: BTreeMap<MemberId, u32>,
}

impl Default for Committed {
    fn default() -> Self {
        Self {
            state: State::empty(),
            entries: Vec::new(),
            base: None,
            diverged: None,
            formed_at: None,
            births: BTreeMap::new(),
        }
    }
}

/// A fresh directory that a process made for itself, for the checkers.
#[derive(Clone, Debug)]
pub struct Birth {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// Its lineage.
    pub cluster: ClusterId,
    /// Its id.
    pub member: MemberId,
    /// From `--initial-cluster-state=new` (else by joining, or by a restore).
    pub new: bool,
    /// By a restore of a snapshot.
    pub restored: bool,
    /// `--initial-cluster-token`.
    pub token: String,
}

/// All of etcd.
#[derive(Debug)]
pub struct Etcds {
    /// Running processes.
    pub processes: BTreeMap<ProcessId, Process>,
    /// Directories.
    pub volumes: BTreeMap<VolumeId, Volume>,
    /// Ghost state by lineage.
    pub committed: BTreeMap<ClusterId, Committed>,
    /// Snapshots that were ever taken, by sha256 of the whole stream: what a restore of these bytes gives.
    pub snapshots: BTreeMap<[u8; 32], (ClusterId, Arc<log::Base>)>,
    /// Fresh directories since the last look.
    pub births: Vec<Birth>,
    exits: Vec<Exit>,
    next_process: ProcessId,
    stream: Stream,
}

impl Etcds {
    /// Nothing yet.
    pub fn new(seed: u64) -> Self {
        Self {
            processes: BTreeMap::new(),
            volumes: BTreeMap::new(),
            committed: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            births: Vec::new(),
            exits: Vec::new(),
            next_process: 1,
            stream: Stream::new(seed, "etcd"),
        }
    }

    /// Processes that ended since the last call.
    pub fn take_exits(&mut self) -> Vec<Exit> {
        std::mem::take(&mut self.exits)
    }

    /// Ends a process from outside (SIGKILL, SIGTERM, node gone).
    pub fn kill(&mut self, process: ProcessId) {
        self.processes.remove(&process);
    }

    /// The directory of a process.
    pub fn disk(&self, process: ProcessId) -> Option<&Disk> {
        let process = self.processes.get(&process)?;
        self.volumes.get(&process.volume)?.disk.as_ref()
    }

    /// The process of a member, if it runs.
    pub fn of_member(&self, cluster: ClusterId, member: MemberId) -> Option<&Process> {
        self.processes.values().find(|process| process.cluster == cluster && process.member == member)
    }

    /// The process in a pod, if it runs.
    pub fn of_pod(&self, pod: &str) -> Option<&Process> {
        self.processes.values().find(|process| process.pod == pod)
    }

    /// The leader that a quorum of a lineage follows.
    pub fn leader(&self, cluster: ClusterId) -> Option<&Process> {
        self.processes
            .values()
            .filter(|process| process.cluster == cluster && process.role == Role::Leader && !process.frozen)
            .max_by_key(|process| self.disk(process.id).map(|disk| disk.term))
    }

    /// The members of a lineage that run, follow (or are) the leader and have what it has committed.
    pub fn healthy(&self, network: &Network, cluster: ClusterId) -> Vec<MemberId> {
        let Some(leader) = self.leader(cluster) else { return Vec::new() };
        let voters = leader.state.voters();
        let healthy: Vec<MemberId> = leader
            .state
            .members
            .keys()
            .filter(|id| {
                self.of_member(cluster, **id).is_some_and(|process| {
                    !process.frozen
                        && (process.id == leader.id || process.leader == Some(leader.member))
                        && linked(network, &process.pod, &leader.pod)
                })
            })
            .copied()
            .collect();
        let votes = healthy.iter().filter(|id| voters.contains(*id)).count();
        if votes > voters.len() / 2 { healthy } else { Vec::new() }
    }

    /// The state of a lineage at a revision, from the ghost's log.
    pub fn state_at(&self, cluster: ClusterId, revision: i64) -> Option<State> {
        let committed = self.committed.get(&cluster)?;
        let mut state = State::empty();
        if let Some(base) = &committed.base {
            state.revision = base.revision;
            state.keys = base.keys.clone();
        }
        for entry in &committed.entries {
            if state.revision >= revision && matches!(entry.op, log::Op::Put { .. }) {
                break;
            }
            state.apply(&entry.op);
        }
        (state.revision == revision).then_some(state)
    }

    fn exit(&mut self, process: ProcessId, code: i32, message: impl Into<String>) {
        if self.processes.remove(&process).is_some() {
            self.exits.push(Exit { process, code, message: message.into() });
        }
    }
}

/// Whether two pods reach each other.
fn linked(network: &Network, a: &str, b: &str) -> bool {
    a == b || network.linked(&Place::Pod(a.to_owned()), &Place::Pod(b.to_owned()))
}

impl Process {
    /// Whether it leads.
    pub fn is_leader(&self) -> bool {
        self.role == Role::Leader
    }

    /// The leader that it follows, or itself.
    pub fn leader(&self) -> Option<MemberId> {
        if self.role == Role::Leader { Some(self.member) } else { self.leader }
    }
}

impl Etcds {
    /// The committed configuration of a lineage.
    pub fn configuration(&self, cluster: ClusterId) -> Option<&State> {
        self.committed.get(&cluster).map(|committed| &committed.state)
    }
}
