//! The members of the formed cluster: etcd's list joined with pods, volumes and answers, by name and member id.
//!
//! Never by position, and never inferred from absence: without a list that a quorum confirmed, `confirmed` is false and
//! no stage may change the membership.

use std::borrow::Cow;

use super::pass::Pass;
use crate::api::names;
use crate::model::quorum::Votes;
use crate::model::{
    Alarm, EtcdMember, MemberId, MemberStatus, Observed, PodObserved, Storage, Version, VolumeObserved,
};

/// One member with everything that is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Member<'a> {
    /// Name of the member, its pod and its volume.
    pub(crate) name: String,
    /// Its entry in etcd's list; none when nobody could be asked and the name comes from its pod or volume.
    pub(crate) entry: Option<Cow<'a, EtcdMember>>,
    /// Its pod, of our lineage.
    pub(crate) pod: Option<&'a PodObserved>,
    /// Its volume, of our lineage.
    pub(crate) volume: Option<&'a VolumeObserved>,
    /// What it answered.
    pub(crate) status: Option<&'a MemberStatus>,
    /// It answered as itself and follows a leader.
    pub(crate) healthy: bool,
    /// It is healthy and nobody is deleting its pod: an evicted one answers until the kubelet stops it, and not after.
    pub(crate) stays: bool,
    /// etcd raised CORRUPT on it. It accuses whoever differs from the leader, so that says not yet whose data is wrong.
    pub(crate) corrupt: bool,
    /// Why its data is gone for good, if it is.
    pub(crate) lost: Option<&'static str>,
}

impl Member<'_> {
    /// Its id; zero, which etcd never gives, when it is not known.
    pub(crate) fn id(&self) -> MemberId {
        self.entry.as_ref().map_or(MemberId(0), |entry| entry.id)
    }

    /// Whether it has no vote.
    pub(crate) fn is_learner(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.learner)
    }

    /// Whether data of it exists or existed. A member that nobody could be asked about is taken to have some.
    pub(crate) fn has_started(&self) -> bool {
        self.entry.as_ref().is_none_or(|entry| entry.has_started())
    }
}

/// All of them, ordered by name.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a> {
    /// The members.
    pub(crate) all: Vec<Member<'a>>,
    /// The list was confirmed by a quorum.
    pub(crate) confirmed: bool,
    /// The leader that the answers with the highest term name.
    pub(crate) leader: Option<MemberId>,
}

impl<'a> Members<'a> {
    /// Joins what was seen. Without any list, the names are those of the lineage's pods and volumes.
    pub(super) fn of(pass: &Pass<'a>) -> Self {
        let storage_is_volume = matches!(pass.desired.storage, Storage::Volume(_));
        Self::join(pass.observed, pass.record.lineage.as_ref().map(|lineage| lineage.token.as_str()), storage_is_volume)
    }

    /// As [`Members::of`], for status.
    pub(crate) fn join(observed: &'a Observed, token: Option<&str>, storage_is_volume: bool) -> Self {
        let etcd = &observed.etcd;
        let list = etcd.membership.known().or(etcd.membership_local.known());
        let join = |name: String, entry: Option<Cow<'a, EtcdMember>>| {
            let pod = observed.pods.get(&name).filter(|pod| pod.ours && pod.lineage.as_deref() == token);
            // A claim of its name that its pod does not mount holds nothing of it.
            let mounted = pod.is_none_or(|pod| pod.on_claim);
            let is_its = |volume: &&VolumeObserved| mounted && volume.ours && volume.lineage.as_deref() == token;
            let volume = observed.volumes.get(&name).filter(is_its);
            let status = etcd.status(&name);
            let healthy = entry.as_ref().is_some_and(|entry| etcd.is_healthy(&name, entry));
            let corrupt = entry.as_ref().is_some_and(|entry| etcd.raised().contains(&(entry.id, Alarm::Corrupt)));
            // (One that is to start anew with another image goes for a moment, whenever its kubelet gets to it.)
            let stays = healthy && pod.is_none_or(|pod| !pod.deleting && !pod.is_yet_to_restart());
            let mut member = Member { name, entry, pod, volume, status, healthy, stays, corrupt, lost: None };
            member.lost = why_lost(&member, storage_is_volume);
            member
        };
        let mut all: Vec<_> = match list {
            Some(list) => list.members.iter().map(|entry| join(name_of(entry), Some(Cow::Borrowed(entry)))).collect(),
            None => names_of_lineage(observed, token).into_iter().map(|name| join(name, None)).collect(),
        };
        all.sort_by(|a, b| a.name.cmp(&b.name).then(a.id().cmp(&b.id())));
        // (One that leads a cluster of its own, with other data in its volume, leads nobody here.)
        let ours = token.and_then(|token| observed.record.lineage_of(token)?.cluster_id);
        let leader = etcd.statuses.values().filter_map(|status| status.known());
        let leader = leader.filter(|status| ours.is_none_or(|ours| ours == status.cluster_id));
        let leader = leader.filter(|status| status.leader.is_some()).max_by_key(|status| (status.term, status.leader));
        Self { all, confirmed: etcd.membership.known().is_some(), leader: leader.and_then(|status| status.leader) }
    }

    /// Members with a vote.
    pub(crate) fn voters(&self) -> impl Iterator<Item = &Member<'a>> {
        self.all.iter().filter(|member| !member.is_learner())
    }

    /// How many votes there are, and what they are worth.
    pub(crate) fn votes(&self) -> Votes {
        let count = |counts: fn(&Member<'_>) -> bool| self.voters().filter(|member| counts(member)).count();
        Votes {
            voters: self.voters().count(),
            healthy: count(|member| member.healthy),
            staying: count(|member| member.stays),
        }
    }

    /// Members without one.
    pub(crate) fn learners(&self) -> impl Iterator<Item = &Member<'a>> {
        self.all.iter().filter(|member| member.is_learner())
    }

    /// The member of a name.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Member<'a>> {
        self.all.iter().find(|member| member.name == name)
    }

    /// Whether it leads.
    pub(crate) fn leads(&self, member: &Member<'_>) -> bool {
        self.leader == Some(member.id())
    }

    /// What the leader said of itself.
    pub(crate) fn leader_status(&self) -> Option<&'a MemberStatus> {
        self.all.iter().find(|member| self.leads(member)).and_then(|member| member.status)
    }

    /// Entries of the leader's log that a member has not applied.
    pub(crate) fn behind(&self, member: &Member<'_>) -> Option<u64> {
        let (leader, status) = (self.leader_status()?, member.status?);
        Some(leader.raft_index.saturating_sub(status.raft_applied_index))
    }

    /// The oldest version that an answering member runs: what every member of the cluster can do.
    pub(crate) fn oldest_version(&self) -> Option<Version> {
        self.all.iter().filter_map(|member| member.status?.version.parse().ok()).min()
    }

    /// Names of members whom a membership call may be sent to: the leader, then other healthy voters.
    pub(crate) fn askable(&self, except: Option<&str>) -> Vec<&str> {
        let mut healthy: Vec<_> =
            self.voters().filter(|member| member.healthy && Some(member.name.as_str()) != except).collect();
        healthy.sort_by_key(|member| !self.leads(member));
        healthy.into_iter().map(|member| member.name.as_str()).collect()
    }
}

/// The name that an entry carries: its own, before that the one in its peer URL, else its id.
pub(crate) fn name_of(entry: &EtcdMember) -> String {
    if !entry.name.is_empty() {
        return entry.name.clone();
    }
    let name = entry.peer_urls.first().and_then(|url| names::member_name_from_peer_url(url));
    name.map_or_else(|| entry.id.to_string(), str::to_owned)
}

/// Names that the objects of a lineage carry. A volume that is on its way out belongs to a member that was removed.
fn names_of_lineage(observed: &Observed, token: Option<&str>) -> Vec<String> {
    let pods = observed.pods.values().filter(|pod| pod.ours && pod.lineage.as_deref() == token).map(|pod| &pod.name);
    let volumes = observed.volumes.values();
    let volumes = volumes.filter(|volume| volume.ours && !volume.deleting && volume.lineage.as_deref() == token);
    let mut names: Vec<_> = pods.chain(volumes.map(|volume| &volume.name)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// Why the data of a member is gone for good. A healthy member is never lost, however stale the view of its objects.
///
/// Remaining race: pods and volumes may be seen later than etcd's list. A member whose objects are not visible yet and
/// that does not answer counts as lost; its removal is still bound by the quorum rules, so it costs time, not data.
fn why_lost(member: &Member<'_>, storage_is_volume: bool) -> Option<&'static str> {
    if member.healthy {
        return None;
    }
    if member.pod.is_some_and(|pod| pod.data_lost) {
        return Some("its directory was found empty");
    }
    if member.volume.is_some_and(|volume| volume.lost) {
        return Some("its volume is lost");
    }
    if member.volume.is_some() || !member.has_started() {
        return None;
    }
    match member.pod {
        None => Some("its pod is gone and it has no volume"),
        Some(pod) if pod.terminal => Some("its pod ended and it has no volume"),
        Some(pod) if storage_is_volume && pod.node.is_none() && !pod.running => Some("its volume is gone"),
        Some(_) => None,
    }
}
