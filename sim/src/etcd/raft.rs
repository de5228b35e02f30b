//! Elections, replication and commitment.

use std::sync::Arc;

use etcd_operator::model::{ClusterId, MemberId};

use super::log::{Entry, Op};
use super::state::State;
use super::{Committed, Etcds, ProcessId, Role, linked};
use crate::event::Millis;
use crate::network::Network;

/// Election timeouts are drawn between these.
const ELECTION_TIMEOUT: (Millis, Millis) = (1000, 2000);
/// Entries that one exchange carries.
const APPEND_MAX: usize = 128;

impl Etcds {
    /// Lets time pass: heartbeats, elections, catching up. Call it a few times a second.
    pub fn tick(&mut self, now: Millis, network: &Network) {
        self.stop_those_without_a_directory();
        for id in self.ids() {
            let Some(process) = self.processes.get(&id) else { continue };
            if process.frozen {
                continue;
            }
            if process.role == Role::Leader {
                self.replicate(id, now, network);
                self.step_down_without_quorum(id, now);
                self.agree_on_version(id, now, network);
            } else if now.saturating_sub(process.heard_at) >= process.election_timeout {
                self.forget_leader(id);
                self.campaign(id, now, network);
            }
        }
        for id in self.ids() {
            self.stop_if_removed(id, network);
            self.publish(id, now, network);
        }
    }

    fn ids(&self) -> Vec<ProcessId> {
        self.processes.keys().copied().collect()
    }

    /// The next write to a directory that is gone, or is somebody else's, fails.
    fn stop_those_without_a_directory(&mut self) {
        for id in self.ids() {
            let process = &self.processes[&id];
            if self.disk(id).is_none_or(|disk| disk.member != process.member || disk.cluster != process.cluster) {
                self.exit(id, 2, "panic: wal: the data directory is gone");
            }
        }
    }

    fn forget_leader(&mut self, id: ProcessId) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.leader = None;
        }
    }

    fn step_down_without_quorum(&mut self, id: ProcessId, now: Millis) {
        if let Some(process) = self.processes.get_mut(&id)
            && process.role == Role::Leader
            && now.saturating_sub(process.quorum_at) > process.election_timeout
        {
            process.role = Role::Follower;
            process.leader = None;
            process.heard_at = now;
        }
    }

    /// Processes of the same lineage that this one reaches, itself included.
    fn reachable(&self, id: ProcessId, network: &Network) -> Vec<ProcessId> {
        let Some(from) = self.processes.get(&id) else { return Vec::new() };
        self.processes
            .values()
            .filter(|to| to.cluster == from.cluster && !to.frozen && linked(network, &from.pod, &to.pod))
            .map(|to| to.id)
            .collect()
    }

    /// Pre-vote, then vote, over the members that are reached.
    fn campaign(&mut self, id: ProcessId, now: Millis, network: &Network) {
        let Some(candidate) = self.processes.get(&id) else { return };
        let (me, voters) = (candidate.member, candidate.state.voters());
        let draw = self.stream.between(ELECTION_TIMEOUT.0, ELECTION_TIMEOUT.1);
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.heard_at = now;
        process.election_timeout = draw;
        if !voters.contains(&me) {
            return;
        }
        let Some(mine) = self.disk(id).map(|disk| (disk.term, disk.position())) else { return };
        let (mut highest, mut willing) = (mine.0, Vec::new());
        for peer in self.reachable(id, network) {
            let (process, disk) = (&self.processes[&peer], self.disk(peer));
            let Some(disk) = disk else { continue };
            let has_leader =
                peer != id && process.leader().is_some() && now.saturating_sub(process.heard_at) < ELECTION_TIMEOUT.0;
            if voters.contains(&process.member) && !has_leader && disk.position() <= mine.1 {
                highest = highest.max(disk.term);
                willing.push(peer);
            }
        }
        if willing.len() <= voters.len() / 2 {
            return;
        }
        let term = highest + 1;
        let mut votes = 0;
        for peer in willing {
            let volume = self.processes[&peer].volume.clone();
            if let Some(disk) = self.volumes.get_mut(&volume).and_then(|volume| volume.disk.as_mut()) {
                disk.term = term;
                disk.vote = Some(me);
                votes += 1;
            }
            if let Some(process) = self.processes.get_mut(&peer) {
                process.role = Role::Follower;
                process.leader = None;
            }
        }
        if votes > voters.len() / 2 {
            self.lead(id, now, network);
        }
    }

    fn lead(&mut self, id: ProcessId, now: Millis, network: &Network) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.role = Role::Leader;
        process.leader = Some(process.member);
        process.progress.clear();
        process.connected_since.clear();
        process.quorum_at = now;
        self.append(id, Op::Noop);
        self.replicate(id, now, network);
    }

    /// Appends to the leader's own log; the entry's index.
    pub(super) fn append(&mut self, id: ProcessId, op: Op) -> Option<usize> {
        let process = self.processes.get(&id)?;
        let disk = self.volumes.get_mut(&process.volume)?.disk.as_mut()?;
        disk.log.push(Arc::new(Entry { term: disk.term, op }));
        Some(disk.last())
    }

    /// One round of heartbeats and appends from the leader to everybody that it reaches, then commitment; whether a
    /// quorum was reached.
    pub(super) fn replicate(&mut self, id: ProcessId, now: Millis, network: &Network) -> bool {
        let Some(leader) = self.processes.get(&id) else { return false };
        let (me, members, voters) = (leader.member, leader.state.members.clone(), leader.state.voters());
        let Some(own) = self.disk(id) else { return false };
        let (term, last) = (own.term, own.last());
        let mut reached = vec![me];
        for peer in self.reachable(id, network) {
            let member = self.processes[&peer].member;
            if peer == id || !members.contains_key(&member) {
                continue;
            }
            match self.send(id, peer, term, now) {
                Sent::Matched(index) => {
                    reached.push(member);
                    let Some(leader) = self.processes.get_mut(&id) else { return false };
                    leader.progress.insert(member, index);
                }
                Sent::HigherTerm => {
                    if let Some(leader) = self.processes.get_mut(&id) {
                        leader.role = Role::Follower;
                        leader.leader = None;
                        leader.heard_at = now;
                    }
                    return false;
                }
                Sent::Lost => {}
            }
        }
        let Some(leader) = self.processes.get_mut(&id) else { return false };
        leader.progress.insert(me, last);
        leader.progress.retain(|member, _| members.contains_key(member));
        leader.heard_at = now;
        leader.connected_since.retain(|member, _| reached.contains(member));
        for member in &reached {
            leader.connected_since.entry(*member).or_insert(now);
        }
        let quorum = reached.iter().filter(|member| voters.contains(*member)).count() > voters.len() / 2;
        if quorum {
            leader.quorum_at = now;
        }
        self.commit(id, now);
        for member in reached {
            let follower = self.of_member_id(id, member);
            if let Some(follower) = follower.filter(|follower| *follower != id) {
                self.follow_commit(id, follower);
            }
        }
        quorum
    }

    fn of_member_id(&self, near: ProcessId, member: MemberId) -> Option<ProcessId> {
        let cluster = self.processes.get(&near)?.cluster;
        self.of_member(cluster, member).map(|process| process.id)
    }

    fn send(&mut self, leader: ProcessId, peer: ProcessId, term: u64, now: Millis) -> Sent {
        let known = self.processes[&leader].progress.get(&self.processes[&peer].member).copied().unwrap_or(0);
        let from = self.processes[&leader].member;
        let volume = self.processes[&peer].volume.clone();
        let Some(own) = self.disk(leader) else { return Sent::Lost };
        let Some(disk) = self.volumes.get(&volume).and_then(|volume| volume.disk.as_ref()) else { return Sent::Lost };
        // What both have, and what the follower lacks: the log itself grows with the run and is not copied.
        let mut common = disk.last().min(own.last());
        while common > 0 && disk.term_at(common) != own.term_at(common) {
            common -= 1;
        }
        let (last, base) = (own.last(), own.base.clone());
        let append: Vec<_> = own.log[common..].iter().take(APPEND_MAX).cloned().collect();
        let Some(disk) = self.volumes.get_mut(&volume).and_then(|volume| volume.disk.as_mut()) else {
            return Sent::Lost;
        };
        if disk.term > term {
            return Sent::HigherTerm;
        }
        if known > disk.last() {
            let message = format!("panic: tocommit({known}) is out of range [lastIndex({})]", disk.last());
            self.exit(peer, 2, message);
            return Sent::Lost;
        }
        if disk.term < term {
            disk.term = term;
            disk.vote = None;
        }
        if common < disk.commit {
            let message = format!("panic: entry {} conflict with committed entry", common + 1);
            self.exit(peer, 2, message);
            return Sent::Lost;
        }
        if disk.log.is_empty() && disk.base.is_none() {
            disk.base = base;
        }
        if common < last {
            disk.log.truncate(common);
            disk.log.extend(append);
        }
        let matched = disk.last().min(last);
        if let Some(process) = self.processes.get_mut(&peer) {
            if process.state.applied == 0 && process.state.keys.is_empty() {
                process.state = self.volumes[&volume].disk.as_ref().map_or_else(State::empty, State::of);
            }
            process.role = Role::Follower;
            process.leader = Some(from);
            process.heard_at = now;
        }
        Sent::Matched(matched)
    }

    fn commit(&mut self, id: ProcessId, now: Millis) {
        let Some(leader) = self.processes.get(&id) else { return };
        let voters = leader.state.voters();
        let mut matched: Vec<usize> =
            voters.iter().map(|voter| leader.progress.get(voter).copied().unwrap_or(0)).collect();
        matched.sort_unstable_by(|a, b| b.cmp(a));
        let Some(index) = matched.get(voters.len() / 2).copied() else { return };
        let volume = leader.volume.clone();
        let cluster = leader.cluster;
        let Some(disk) = self.volumes.get_mut(&volume).and_then(|volume| volume.disk.as_mut()) else { return };
        if index > disk.commit && disk.term_at(index) == disk.term {
            disk.commit = index;
            self.apply(id);
            let committed = self.committed.entry(cluster).or_default();
            committed.formed_at.get_or_insert(now);
        }
    }

    fn follow_commit(&mut self, leader: ProcessId, follower: ProcessId) {
        let Some(commit) = self.disk(leader).map(|disk| disk.commit) else { return };
        let volume = self.processes[&follower].volume.clone();
        if let Some(disk) = self.volumes.get_mut(&volume).and_then(|volume| volume.disk.as_mut()) {
            disk.commit = disk.commit.max(commit.min(disk.last()));
        }
        self.apply(follower);
    }

    /// Applies what is committed, and lets the ghost compare.
    pub(super) fn apply(&mut self, id: ProcessId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Some(disk) = self.volumes.get(&process.volume).and_then(|volume| volume.disk.as_ref()) else { return };
        let committed = self.committed.entry(process.cluster).or_default();
        while process.state.applied < disk.commit {
            let index = process.state.applied + 1;
            let entry = &disk.log[index - 1];
            process.state.apply(&entry.op);
            record(committed, index, entry, &process.name);
        }
    }

    /// A removed member that hears of it stops, and so does one that reaches a peer that knows.
    fn stop_if_removed(&mut self, id: ProcessId, network: &Network) {
        let Some(process) = self.processes.get(&id) else { return };
        let me = process.member;
        let told = self
            .reachable(id, network)
            .into_iter()
            .any(|peer| self.processes.get(&peer).is_some_and(|peer| peer.state.removed.contains(&me)));
        if told && !process.frozen {
            self.exit(id, 0, "the member has been permanently removed from the cluster");
        }
    }

    fn publish(&mut self, id: ProcessId, now: Millis, network: &Network) {
        let Some(process) = self.processes.get(&id) else { return };
        if process.published || process.frozen || !process.state.members.contains_key(&process.member) {
            return;
        }
        let op =
            Op::Publish { id: process.member, name: process.name.clone(), client_urls: process.client_urls.clone() };
        let member = &process.state.members[&process.member];
        let known = member.name == process.name && member.client_urls == process.client_urls;
        let published = known || self.propose(id, op, now, network).is_ok();
        if published && let Some(process) = self.processes.get_mut(&id) {
            process.published = true;
        }
    }

    /// The leader raises the cluster version when all members run a newer one.
    fn agree_on_version(&mut self, id: ProcessId, now: Millis, network: &Network) {
        let Some(leader) = self.processes.get(&id) else { return };
        if leader.role != Role::Leader {
            return;
        }
        let minors: Option<Vec<u32>> = leader
            .state
            .members
            .keys()
            .map(|member| {
                let process = self.of_member(leader.cluster, *member)?;
                linked(network, &leader.pod, &process.pod).then_some(process.version.0)
            })
            .collect();
        let lowest = minors.and_then(|minors| minors.into_iter().min());
        if let Some(lowest) = lowest.filter(|lowest| *lowest > leader.state.cluster_minor) {
            self.append(id, Op::ClusterVersion(lowest));
            self.replicate(id, now, network);
        }
    }

    /// A leader that hands leadership on stops leading first.
    pub(super) fn yield_leadership(&mut self, id: ProcessId, now: Millis) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.role = Role::Follower;
            process.leader = None;
            process.heard_at = now;
        }
    }

    /// The chosen one campaigns at once, and nobody refuses it for having a leader.
    pub(super) fn transfer(&mut self, to: ProcessId, now: Millis, network: &Network) {
        for peer in self.reachable(to, network) {
            self.forget_leader(peer);
        }
        self.campaign(to, now, network);
    }

    /// The first leader of a lineage, for the ghost.
    pub fn formed_at(&self, cluster: ClusterId) -> Option<Millis> {
        self.committed.get(&cluster)?.formed_at
    }
}

enum Sent {
    Matched(usize),
    HigherTerm,
    Lost,
}

fn record(committed: &mut Committed, index: usize, entry: &Arc<Entry>, name: &str) {
    match committed.entries.get(index - 1) {
        None => {
            committed.entries.push(entry.clone());
            committed.state.apply(&entry.op);
        }
        Some(known) if Arc::ptr_eq(known, entry) || known == entry => {}
        Some(known) => {
            let what = format!("{name} applied {entry:?} at index {index}, where {known:?} was committed");
            committed.diverged.get_or_insert(what);
        }
    }
}
