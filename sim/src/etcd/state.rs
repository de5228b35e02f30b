//! What a member has in memory: the result of applying its log.

use std::collections::{BTreeMap, BTreeSet};

use etcd_operator::model::{ClusterId, EtcdMember, MemberId, Membership};

use super::log::{Disk, KeyValue, Keys, Op};
use crate::stream::fnv;

/// The applied state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Index of the last entry that was applied.
    pub applied: usize,
    /// Store revision; 1 when nothing was ever written.
    pub revision: i64,
    /// Keys.
    pub keys: Keys,
    /// Members.
    pub members: BTreeMap<MemberId, EtcdMember>,
    /// Ids that left; they never come back.
    pub removed: BTreeSet<MemberId>,
    /// Minor of the cluster version; 0 before one was agreed on.
    pub cluster_minor: u32,
}

impl State {
    /// Before the first entry.
    pub fn empty() -> Self {
        Self {
            applied: 0,
            revision: 1,
            keys: Keys::new(),
            members: BTreeMap::new(),
            removed: BTreeSet::new(),
            cluster_minor: 0,
        }
    }

    /// What a disk holds up to its commit index.
    pub fn of(disk: &Disk) -> Self {
        let mut state = Self::empty();
        if let Some(base) = &disk.base {
            state.revision = base.revision;
            state.keys = base.keys.clone();
        }
        for entry in &disk.log[..disk.commit] {
            state.apply(&entry.op);
        }
        state
    }

    /// Applies the next entry.
    pub fn apply(&mut self, op: &Op) {
        self.applied += 1;
        match op {
            Op::Noop => {}
            Op::Put { key, value } => self.put(key, value),
            Op::Add(member) => {
                if !self.removed.contains(&member.id) {
                    self.members.insert(member.id, member.clone());
                }
            }
            Op::Promote(id) => {
                if let Some(member) = self.members.get_mut(id) {
                    member.learner = false;
                }
            }
            Op::Remove(id) => {
                self.members.remove(id);
                self.removed.insert(*id);
            }
            Op::Publish { id, name, client_urls } => {
                if let Some(member) = self.members.get_mut(id) {
                    member.name.clone_from(name);
                    member.client_urls.clone_from(client_urls);
                }
            }
            Op::ClusterVersion(minor) => self.cluster_minor = *minor,
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.revision += 1;
        let revision = self.revision;
        let entry = self.keys.entry(key.to_vec()).or_insert(KeyValue {
            value: Vec::new(),
            create_revision: revision,
            mod_revision: revision,
            version: 0,
        });
        entry.value = value.to_vec();
        entry.mod_revision = revision;
        entry.version += 1;
    }

    /// Ids with a vote.
    pub fn voters(&self) -> BTreeSet<MemberId> {
        self.members.values().filter(|member| !member.learner).map(|member| member.id).collect()
    }

    /// As the member list API shows it.
    pub fn membership(&self, cluster: ClusterId) -> Membership {
        Membership { cluster_id: cluster, members: self.members.values().cloned().collect() }
    }

    /// A hash over the keys, as HashKV gives one.
    pub fn hash(&self) -> u32 {
        let mut hash = 0_u64;
        for (key, value) in &self.keys {
            hash = fnv(&[&hash.to_le_bytes(), key, &value.value, &value.mod_revision.to_le_bytes()]);
        }
        (hash >> 32) as u32 ^ hash as u32
    }
}
