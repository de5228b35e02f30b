//! What a member keeps on its disk: raft's hard state and its log, from the first entry on (nothing is ever truncated
//! by a raft snapshot; a restored member has a base instead).

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd_operator::model::{ClusterId, EtcdMember, MemberId};

/// One key's value with the revisions that etcd keeps beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The value.
    pub value: Vec<u8>,
    /// Revision of the write that created the key.
    pub create_revision: i64,
    /// Revision of the last write.
    pub mod_revision: i64,
    /// Counts the writes since the creation.
    pub version: i64,
}

/// The key space.
pub type Keys = BTreeMap<Vec<u8>, KeyValue>;

/// What an entry of the log does when it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new leader's first entry.
    Noop,
    /// A write of one key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// A member enters.
    Add(EtcdMember),
    /// A learner gets its vote.
    Promote(MemberId),
    /// A member leaves for good.
    Remove(MemberId),
    /// A started member makes its name and client URLs known.
    Publish {
        /// Who.
        id: MemberId,
        /// Its name.
        name: String,
        /// Its client URLs.
        client_urls: Vec<String>,
    },
    /// All members run at least this minor version.
    ClusterVersion(u32),
}

/// One entry of the log.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term of the leader that appended it.
    pub term: u64,
    /// What it does.
    pub op: Op,
}

/// The key space that a restored member starts from.
#[derive(Debug, PartialEq, Eq)]
pub struct Base {
    /// The snapshot's revision.
    pub revision: i64,
    /// The snapshot's keys.
    pub keys: Keys,
}

/// A member's data directory.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Its lineage.
    pub cluster: ClusterId,
    /// Whose directory it is.
    pub member: MemberId,
    /// Raft: the latest term it saw.
    pub term: u64,
    /// Raft: whom it voted for in that term.
    pub vote: Option<MemberId>,
    /// Raft: the log; entry `i` is at `log[i - 1]`.
    pub log: Vec<Arc<Entry>>,
    /// Raft: the last index known to be committed.
    pub commit: usize,
    /// Of a restored lineage.
    pub base: Option<Arc<Base>>,
}

impl Disk {
    /// Index of the last entry.
    pub fn last(&self) -> usize {
        self.log.len()
    }

    /// Term of the entry at an index; 0 before the first.
    pub fn term_at(&self, index: usize) -> u64 {
        if index == 0 { 0 } else { self.log[index - 1].term }
    }

    /// (term, index) of the last entry: what raft compares when it votes.
    pub fn position(&self) -> (u64, usize) {
        (self.term_at(self.last()), self.last())
    }
}
