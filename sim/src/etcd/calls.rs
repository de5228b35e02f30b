//! etcd's client API, as far as the operator and the workload use it, with etcd's own rejections in its own words.

use std::sync::Arc;

use etcd_operator::model::quorum::quorum;
use etcd_operator::model::{Alarm, EtcdMember, MemberId, MemberStatus, Membership, RaftTerm, Revision, Version};
use etcd_operator::ports::EtcdError;
use sha2::{Digest, Sha256};

use super::log::{Base, KeyValue, Op};
use super::{Etcds, ProcessId, Role, linked};
use crate::event::Millis;
use crate::network::Network;
use crate::stream::fnv;

/// How long a peer must have been reachable to count as connected (etcd's HealthInterval).
const CONNECTED_AFTER: Millis = 5000;
/// A learner is ready when it has so many percent of the leader's log (etcd's readyPercent).
const LEARNER_READY_PERCENT: usize = 90;
/// First minor with learners.
const LEARNERS_SINCE: u32 = 4;
/// First minor with MoveLeader.
const MOVE_LEADER_SINCE: u32 = 3;
/// First minor that says which version its database is migrated to.
const STORAGE_VERSION_SINCE: u32 = 6;
/// First minor whose member list can be linearizable.
const LINEARIZABLE_MEMBERS_SINCE: u32 = 5;

fn refused(message: &str) -> EtcdError {
    EtcdError::Refused { message: message.to_owned() }
}

fn unavailable(message: &str) -> EtcdError {
    EtcdError::Unavailable { message: message.to_owned() }
}

/// It was proposed, and nobody knows what became of it.
fn timed_out(detail: &str) -> EtcdError {
    EtcdError::Ambiguous { message: format!("etcdserver: request timed out{detail}") }
}

fn too_few_started() -> EtcdError {
    refused("etcdserver: re-configuration failed due to not enough started members")
}

impl Etcds {
    /// The process that answers, unless its node is paused.
    fn answering(&self, id: ProcessId) -> Result<&super::Process, EtcdError> {
        match self.processes.get(&id) {
            Some(process) if !process.frozen => Ok(process),
            Some(_) => Err(EtcdError::Ambiguous { message: "no answer".into() }),
            None => Err(unavailable("connection refused")),
        }
    }

    /// The leader as this process reaches it.
    fn leader_of(&self, id: ProcessId, network: &Network) -> Result<ProcessId, EtcdError> {
        let process = self.answering(id)?;
        let leader = process.leader().and_then(|leader| self.of_member(process.cluster, leader));
        match leader {
            Some(leader)
                if leader.role == Role::Leader && !leader.frozen && linked(network, &process.pod, &leader.pod) =>
            {
                Ok(leader.id)
            }
            _ => Err(unavailable("etcdserver: no leader")),
        }
    }

    /// Appends through the leader and waits for a quorum; the entry's result is what was applied.
    pub(super) fn propose(&mut self, id: ProcessId, op: Op, now: Millis, network: &Network) -> Result<(), EtcdError> {
        let leader = self.leader_of(id, network)?;
        let Some(index) = self.append(leader, op) else { return Err(unavailable("etcdserver: stopped")) };
        self.replicate(leader, now, network);
        // A second round: the first one may have raised a follower's term or carried only a part.
        self.replicate(leader, now, network);
        let committed = self.disk(leader).is_some_and(|disk| disk.commit >= index);
        if committed { Ok(()) } else { Err(timed_out("")) }
    }

    /// Confirms that the process reaches a leader with a quorum, and brings it up to the leader's commit.
    fn read_index(&mut self, id: ProcessId, now: Millis, network: &Network) -> Result<(), EtcdError> {
        let leader = self.leader_of(id, network)?;
        let quorum = self.replicate(leader, now, network);
        let commit = self.disk(leader).map_or(0, |disk| disk.commit);
        let caught_up = self.processes.get(&id).is_some_and(|process| process.state.applied >= commit);
        if quorum && caught_up { Ok(()) } else { Err(unavailable("etcdserver: request timed out")) }
    }

    /// Maintenance.Status.
    ///
    /// # Errors
    /// When the process does not answer.
    pub fn status(&self, id: ProcessId) -> Result<MemberStatus, EtcdError> {
        let process = self.answering(id)?;
        let disk = self.disk(id).ok_or_else(|| unavailable("etcdserver: stopped"))?;
        let leader = process.leader();
        Ok(MemberStatus {
            cluster_id: process.cluster,
            member_id: process.member,
            version: format!("3.{}.{}", process.version.0, process.version.1),
            // A member migrates its database as soon as it knows the cluster version.
            storage_version: (process.version.0 >= STORAGE_VERSION_SINCE)
                .then(|| Version::new(3, process.state.cluster_minor, 0)),
            leader,
            term: RaftTerm(disk.term),
            raft_index: disk.last() as u64,
            raft_applied_index: process.state.applied as u64,
            revision: Revision(process.state.revision),
            db_size: 20_480 + 512 * process.state.keys.len() as u64,
            learner: process.state.members.get(&process.member).is_none_or(|member| member.learner),
            errors: if leader.is_none() { vec!["etcdserver: no leader".into()] } else { Vec::new() },
        })
    }

    /// The member list.
    ///
    /// # Errors
    /// When the process does not answer, or cannot confirm a linearizable read.
    pub fn members(
        &mut self,
        id: ProcessId,
        linearizable: bool,
        now: Millis,
        network: &Network,
    ) -> Result<Membership, EtcdError> {
        let process = self.answering(id)?;
        if linearizable && process.version.0 >= LINEARIZABLE_MEMBERS_SINCE {
            self.read_index(id, now, network)?;
        }
        let process = self.answering(id)?;
        Ok(process.state.membership(process.cluster))
    }

    /// A linearizable read of a key: its value, and the store's revision.
    ///
    /// # Errors
    /// Without a quorum.
    pub fn read(
        &mut self,
        id: ProcessId,
        key: &[u8],
        now: Millis,
        network: &Network,
    ) -> Result<(Option<Vec<u8>>, Revision), EtcdError> {
        self.not_a_learner(id)?;
        self.read_index(id, now, network)?;
        let state = &self.answering(id)?.state;
        Ok((state.keys.get(key).map(|entry| entry.value.clone()), Revision(state.revision)))
    }

    fn not_a_learner(&self, id: ProcessId) -> Result<(), EtcdError> {
        let process = self.answering(id)?;
        if process.state.members.get(&process.member).is_none_or(|member| member.learner) {
            return Err(unavailable("etcdserver: rpc not supported for learner"));
        }
        Ok(())
    }

    /// The leader as a voter reaches it: learners pass no call on.
    fn leader_through_voter(&self, id: ProcessId, network: &Network) -> Result<ProcessId, EtcdError> {
        self.not_a_learner(id)?;
        self.leader_of(id, network)
    }

    /// Writes a key; its revision.
    ///
    /// # Errors
    /// Without a quorum; `Ambiguous` once it was proposed.
    pub fn write(
        &mut self,
        id: ProcessId,
        key: &[u8],
        value: &[u8],
        now: Millis,
        network: &Network,
    ) -> Result<Revision, EtcdError> {
        self.not_a_learner(id)?;
        self.propose(id, Op::Put { key: key.to_vec(), value: value.to_vec() }, now, network)?;
        // It is committed, whoever leads by now.
        let leader = self.leader_of(id, network).map_err(|_| timed_out(""))?;
        let state = &self.answering(leader)?.state;
        Ok(Revision(state.keys.get(key).map_or(state.revision, |entry| entry.mod_revision)))
    }

    fn change(&mut self, leader: ProcessId, op: Op, now: Millis, network: &Network) -> Result<(), EtcdError> {
        let pending = self.disk(leader).is_some_and(|disk| {
            let applied = self.processes.get(&leader).map_or(0, |process| process.state.applied);
            disk.log[applied.min(disk.last())..]
                .iter()
                .any(|entry| matches!(entry.op, Op::Add(_) | Op::Promote(_) | Op::Remove(_)))
        });
        if pending {
            // raft drops a second change while one is unapplied; the caller only sees a time-out.
            return Err(timed_out(""));
        }
        self.propose(leader, op, now, network)
    }

    fn started_voters(&self, leader: ProcessId) -> (usize, usize) {
        let members = &self.processes[&leader].state.members;
        let voters = members.values().filter(|member| !member.learner);
        (voters.clone().count(), voters.filter(|member| member.has_started()).count())
    }

    fn connected(&self, leader: ProcessId, member: MemberId, now: Millis) -> bool {
        let leader = &self.processes[&leader];
        leader.member == member
            || leader.connected_since.get(&member).is_some_and(|since| since + CONNECTED_AFTER <= now)
    }

    /// MemberAdd.
    ///
    /// # Errors
    /// etcd's rejections, and the usual.
    pub fn member_add(
        &mut self,
        id: ProcessId,
        peer_url: &str,
        learner: bool,
        now: Millis,
        network: &Network,
    ) -> Result<MemberId, EtcdError> {
        let leader = self.leader_through_voter(id, network)?;
        let process = &self.processes[&leader];
        if learner && self.processes[&id].version.0 < LEARNERS_SINCE {
            return Err(EtcdError::Unsupported { message: "unknown field isLearner".into() });
        }
        if process.state.members.values().any(|member| member.peer_urls.iter().any(|url| url == peer_url)) {
            return Err(refused("etcdserver: Peer URLs already exists"));
        }
        let (cluster, voters) = (process.cluster, process.state.voters());
        if learner {
            if process.state.members.values().any(|member| member.learner) {
                return Err(refused("etcdserver: too many learner members in cluster"));
            }
        } else {
            let (count, started) = self.started_voters(leader);
            if !(count == 1 && started == 1) && started < quorum(count + 1) {
                return Err(too_few_started());
            }
        }
        if !voters.iter().all(|voter| self.connected(leader, *voter, now)) {
            return Err(refused("etcdserver: unhealthy cluster"));
        }
        let new = MemberId(fnv(&[peer_url.as_bytes(), &cluster.0.to_le_bytes(), &now.to_le_bytes()]));
        let member = EtcdMember {
            id: new,
            name: String::new(),
            peer_urls: vec![peer_url.to_owned()],
            client_urls: Vec::new(),
            learner,
        };
        self.change(leader, Op::Add(member), now, network)?;
        Ok(new)
    }

    /// MemberPromote.
    ///
    /// # Errors
    /// etcd's rejections, and the usual.
    pub fn member_promote(
        &mut self,
        id: ProcessId,
        member: MemberId,
        now: Millis,
        network: &Network,
    ) -> Result<(), EtcdError> {
        let leader = self.leader_through_voter(id, network)?;
        let process = &self.processes[&leader];
        match process.state.members.get(&member) {
            None => return Err(refused("etcdserver: member not found")),
            Some(member) if !member.learner => {
                return Err(refused("etcdserver: can only promote a learner member"));
            }
            Some(_) => {}
        }
        let last = self.disk(leader).map_or(0, super::log::Disk::last);
        let has = process.progress.get(&member).copied().unwrap_or(0);
        if has * 100 < last * LEARNER_READY_PERCENT {
            return Err(refused("etcdserver: can only promote a learner member which is in sync with leader"));
        }
        let (count, started) = self.started_voters(leader);
        if started + 1 < quorum(count + 1) {
            return Err(too_few_started());
        }
        self.change(leader, Op::Promote(member), now, network)
    }

    /// MemberRemove.
    ///
    /// # Errors
    /// etcd's rejections, and the usual.
    pub fn member_remove(
        &mut self,
        id: ProcessId,
        member: MemberId,
        now: Millis,
        network: &Network,
    ) -> Result<(), EtcdError> {
        let leader = self.leader_through_voter(id, network)?;
        let process = &self.processes[&leader];
        let Some(entry) = process.state.members.get(&member) else {
            return Err(refused("etcdserver: member not found"));
        };
        if !entry.learner {
            let (count, started) = self.started_voters(leader);
            let left = started - usize::from(entry.has_started());
            if left < quorum(count - 1) {
                return Err(too_few_started());
            }
            if self.connected(leader, member, now) {
                let voters = process.state.voters();
                let active = voters.iter().filter(|voter| self.connected(leader, **voter, now)).count();
                if active - 1 < quorum(voters.len() - 1) && voters.len() > 2 {
                    return Err(refused("etcdserver: unhealthy cluster"));
                }
            }
        }
        self.change(leader, Op::Remove(member), now, network)
    }

    /// MoveLeader; the process must be the leader.
    ///
    /// # Errors
    /// etcd's rejections, and the usual.
    pub fn move_leader(
        &mut self,
        id: ProcessId,
        to: MemberId,
        now: Millis,
        network: &Network,
    ) -> Result<(), EtcdError> {
        let process = self.answering(id)?;
        if process.version.0 < MOVE_LEADER_SINCE {
            return Err(EtcdError::Unsupported { message: "unknown method MoveLeader".into() });
        }
        if process.role != Role::Leader {
            return Err(refused("etcdserver: not leader"));
        }
        let (cluster, voters) = (process.cluster, process.state.voters());
        if !voters.contains(&to) {
            return Err(refused("etcdserver: bad leader transferee"));
        }
        self.replicate(id, now, network);
        let Some(target) = self.of_member(cluster, to).map(|process| process.id) else {
            return Err(timed_out(", leader transfer took too long"));
        };
        let last = self.disk(id).map(super::log::Disk::position);
        let linked = linked(network, &self.answering(id)?.pod, &self.processes[&target].pod);
        if self.disk(target).map(super::log::Disk::position) != last || !linked || self.processes[&target].frozen {
            return Err(timed_out(", leader transfer took too long"));
        }
        self.yield_leadership(id, now);
        self.transfer(target, now, network);
        Ok(())
    }

    /// Alarms: this etcd raises none.
    ///
    /// # Errors
    /// Without a quorum: alarms are read through the log, one entry each time.
    pub fn alarms(
        &mut self,
        id: ProcessId,
        now: Millis,
        network: &Network,
    ) -> Result<Vec<(MemberId, Alarm)>, EtcdError> {
        self.propose(id, Op::Noop, now, network)?;
        Ok(Vec::new())
    }

    /// Takes an alarm back; none is ever raised here.
    ///
    /// # Errors
    /// Without a quorum: it goes through the log.
    pub fn disarm(&mut self, id: ProcessId, now: Millis, network: &Network) -> Result<(), EtcdError> {
        self.propose(id, Op::Noop, now, network).map(drop)
    }

    /// HashKV.
    ///
    /// # Errors
    /// When the process does not answer.
    pub fn hash_kv(&self, id: ProcessId) -> Result<(u32, Revision), EtcdError> {
        let process = self.answering(id)?;
        Ok((process.state.hash(), Revision(process.state.revision)))
    }

    /// The snapshot stream of one process: database, then the sha256 over it.
    ///
    /// # Errors
    /// When the process does not answer.
    pub fn snapshot(&mut self, id: ProcessId) -> Result<Vec<u8>, EtcdError> {
        let process = self.answering(id)?;
        let (cluster, revision, keys) = (process.cluster, process.state.revision, process.state.keys.clone());
        let entries = keys.iter().map(|(key, entry)| super::bolt::Entry {
            key: key.clone(),
            value: entry.value.clone(),
            create_revision: entry.create_revision,
            mod_revision: entry.mod_revision,
            version: entry.version,
        });
        let bytes = super::bolt::write(revision, entries);
        let sum: [u8; 32] = Sha256::digest(&bytes).into();
        self.snapshots.insert(sum, (cluster, Arc::new(Base { revision, keys })));
        Ok(bytes)
    }

    /// What these bytes restore to: read from the bytes themselves.
    pub fn read_snapshot(&self, bytes: &[u8]) -> Option<Arc<Base>> {
        let (revision, entries) = super::bolt::read(bytes).ok()?;
        let keys = entries.into_iter().map(|entry| {
            let value = KeyValue {
                value: entry.value,
                create_revision: entry.create_revision,
                mod_revision: entry.mod_revision,
                version: entry.version,
            };
            (entry.key, value)
        });
        Some(Arc::new(Base { revision, keys: keys.collect() }))
    }
}
