//! A restore (ADR 0014): a new lineage from a verified snapshot grows beside the old one and takes its place.
//!
//! Starting: seeds from the same bytes, under new names; the old lineage serves on. Confirmed: every seed answers under
//! one new cluster id and a quorum read found the snapshot's revision; the old pods are stopped. Switched: the new
//! lineage is the cluster, clients included; what is left of the old one is dropped. Nothing old is touched before
//! Confirmed, nor after it in a pass in which they do not serve. When the EtcdRestore vanishes the new lineage is dropped instead, as long as the old one can come back.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;

use super::members::Members;
use super::pass::Pass;
use super::{PodDeletion, Unsafe, VolumeDeletion, Waiting, formation, ownership, pods};
use crate::model::quorum::quorum;
use crate::model::{
    ClusterId, EtcdObserved, Lineage, RestorePhase, RestoreRecord, RestoreWanted, Revision, VolumeObserved,
};

/// Carries a restore on from wherever it is.
pub(super) fn carry_out(pass: &mut Pass<'_>) -> ControlFlow<()> {
    // A restore that already is the cluster is done, whoever still asks for it: its tokens are those that serve.
    let done = pass.record.lineage.as_ref().and_then(|lineage| lineage.restored_from.clone());
    let wanted = pass.desired.restore.clone().filter(|wanted| done.as_ref() != Some(&wanted.uid));
    // Members that took over and died since cannot be waited for when another snapshot shall take their place.
    let is_other = |record: &RestoreRecord| wanted.as_ref().is_some_and(|wanted| wanted.uid != record.uid);
    let is_dead = pass.observed.etcd.quorum_read.known().is_none();
    let given_up = |record: &RestoreRecord| record.phase == RestorePhase::Switched && is_dead && is_other(record);
    let Some(record) = pass.record.restore.clone().filter(|record| !given_up(record)) else {
        let Some(wanted) = wanted else { return ControlFlow::Continue(()) };
        if let Some(refused) = why_not_begin(pass) {
            pass.refuse(refused);
            // Nothing has begun: what serves goes on as if nobody had asked, for as long as the spec stays so.
            let serves = pass.record.lineage.as_ref().is_some_and(|lineage| lineage.formed);
            return if serves { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        }
        // Nobody is born a second time under the token of members that are gone.
        let called_off = pass.record.called_off.as_ref().filter(|(uid, _)| *uid == wanted.uid);
        let attempt = called_off.map_or(1, |(_, attempt)| *attempt);
        let lineage = formation::lineage(&pass.desired, &wanted.uid, attempt, Some(wanted.uid.clone()));
        let record = RestoreRecord {
            name: wanted.name.clone(),
            uid: wanted.uid.clone(),
            lineage,
            phase: RestorePhase::Starting,
            old_voters: None,
            verified_at: wanted.verified_at,
            snapshot_changed: false,
        };
        return start(pass, record, &wanted);
    };
    let wanted = wanted.filter(|wanted| wanted.uid == record.uid);
    match (record.phase, wanted) {
        (RestorePhase::Starting, Some(wanted)) => start(pass, record, &wanted),
        (RestorePhase::Starting, None) => call_off(pass, record),
        (RestorePhase::Confirmed, _) if !old_can_return(pass, &record) && !old_serves(pass) => stop_old(pass, record),
        (RestorePhase::Confirmed, Some(wanted)) => confirm_again(pass, record, &wanted),
        (RestorePhase::Confirmed, None) => call_off(pass, record),
        (RestorePhase::Switched, _) => drop_old(pass, &record),
    }
}

/// Whether the old members can have a quorum again once their pods were stopped: enough of them have a volume that stays
/// without its pod. What the spec says of size and storage now does not count: it may have been changed since they were
/// made. Data in pods is gone for good, and from then on the restore only goes forward.
fn old_can_return(pass: &Pass<'_>, record: &RestoreRecord) -> bool {
    let Some(old) = pass.record.lineage.as_ref().filter(|lineage| lineage.formed) else { return false };
    let stays = |volume: &&VolumeObserved| {
        volume.ours && volume.lineage.as_ref() == Some(&old.token) && !volume.deleting && !volume.lost
    };
    let stay = pass.observed.volumes.values().filter(stays).count();
    let voters = record.old_voters.or_else(|| old_voters(pass)).unwrap_or_default();
    voters > 0 && stay >= quorum(voters)
}

/// Whether the old members serve, and enough of them stay.
fn old_serves(pass: &Pass<'_>) -> bool {
    let votes = Members::of(pass).votes();
    pass.observed.etcd.membership.known().is_some() && votes.staying >= quorum(votes.voters)
}

/// Voters of the lineage that served until now: by etcd's list, or, where nobody could be asked, by what is there of them.
fn old_voters(pass: &Pass<'_>) -> Option<usize> {
    let old = pass.record.lineage.as_ref().filter(|lineage| lineage.formed)?;
    let etcd = &pass.observed.etcd;
    if let Some(list) = etcd.membership.known().or(etcd.membership_local.known()) {
        return Some(list.voters().count());
    }
    let is_old = |ours: bool, lineage: &Option<String>| ours && lineage.as_ref() == Some(&old.token);
    let pods = pass.observed.pods.values().filter(|pod| is_old(pod.ours, &pod.lineage)).map(|pod| &pod.name);
    let volumes = pass.observed.volumes.values().filter(|volume| is_old(volume.ours, &volume.lineage));
    let names: BTreeSet<_> = pods.chain(volumes.map(|volume| &volume.name)).collect();
    // Some may be gone without a trace: no fewer than it began with, or than are wanted.
    Some(names.len().max(old.seeds.len()).max(pass.desired.size))
}

/// No member is started from a snapshot at a version that no cluster may be started at.
fn why_not_begin(pass: &Pass<'_>) -> Option<Unsafe> {
    let why = pass.spec.version.why_not_start()?;
    let message = format!("`spec.version` {}: {why}; the restore has to wait for it", pass.spec.version);
    Some(Unsafe::Spec { message })
}

fn start(pass: &mut Pass<'_>, mut record: RestoreRecord, wanted: &RestoreWanted) -> ControlFlow<()> {
    let nobody = EtcdObserved::nobody_to_ask("no restored member was started yet");
    let observed = pass.observed;
    let etcd = observed.etcd_restoring.as_ref().unwrap_or(&nobody);
    if ownership::secrets_of_spec(pass).is_break() {
        pass.record.restore = Some(record);
        let _old = care_for_serving(pass);
        return ControlFlow::Break(());
    }
    // Members that are all there already are not held up by a spec that was changed since.
    let is_given = !record.lineage.seeds.is_empty() && record.verified_at == wanted.verified_at;
    let is_whole = is_given
        && !formation::must_restore_anew(pass, &record.lineage, etcd)
        && confirm(pass, &record.lineage, etcd, wanted).is_ok();
    if let Some(refused) = why_not_begin(pass).filter(|_| !is_whole) {
        pass.refuse(refused);
        pass.record.restore = Some(record);
        let _old = care_for_serving(pass);
        return ControlFlow::Break(());
    }
    let attempt = |attempt| formation::lineage(&pass.desired, &record.uid, attempt, Some(record.uid.clone()));
    if record.lineage.seeds.is_empty() {
        // It was being called off, and is wanted again.
        record.lineage = attempt(record.lineage.attempt);
    } else if record.verified_at != wanted.verified_at || formation::must_restore_anew(pass, &record.lineage, etcd) {
        // Seeds of two snapshots are no cluster: what was verified anew is given to new ones.
        record.lineage = attempt(record.lineage.attempt + 1);
    }
    let is_changed = |seed: &String| pass.pod(seed).is_some_and(|pod| pod.snapshot_changed && !pod.deleting);
    record.snapshot_changed = record.lineage.seeds.iter().any(is_changed);
    record.verified_at = wanted.verified_at;
    match confirm(pass, &record.lineage, etcd, wanted) {
        Ok(lineage) => {
            record.lineage = lineage;
            record.phase = RestorePhase::Confirmed;
            record.old_voters = old_voters(pass);
            stop_old(pass, record)
        }
        Err(why) => {
            pass.record.restore = Some(record.clone());
            // First: the first step that fails ends a pass, and a seed that is refused must not take these along.
            let _old = care_for_serving(pass);
            drop_attempts(pass, &record, PodDeletion::FormationAbandoned, VolumeDeletion::FormationAbandoned);
            formation::raise(pass, &record.lineage, Some(wanted));
            pass.wait(Waiting::RestoredLineage { why: why.to_string() });
            ControlFlow::Break(())
        }
    }
}

/// What was seen when Confirmed was written may be long ago: the operator was away, and nobody looked after the seeds. As
/// long as the old members can serve, nothing more of them is stopped before the seeds have been seen to serve again. When
/// that takes as long as a member may be away, or a seed is lost, the old members get their place back.
fn confirm_again(pass: &mut Pass<'_>, record: RestoreRecord, wanted: &RestoreWanted) -> ControlFlow<()> {
    let nobody = EtcdObserved::nobody_to_ask("no restored member has an address");
    let etcd = pass.observed.etcd_restoring.as_ref().unwrap_or(&nobody);
    let unformed = Lineage {
        formed: false,
        formed_at: None,
        cluster_id: None,
        tls: None,
        cluster_domain: None,
        ..record.lineage.clone()
    };
    let Err(why) = confirm(pass, &unformed, etcd, wanted) else { return stop_old(pass, record) };
    let confirmed_at = record.lineage.formed_at.unwrap_or(pass.now);
    let overdue = pass.now.duration_since(confirmed_at) > pass.desired.replace_after;
    if overdue || old_serves(pass) || formation::must_restore_anew(pass, &unformed, etcd) {
        let phase = RestorePhase::Starting;
        return start(pass, RestoreRecord { lineage: unformed, phase, old_voters: None, ..record }, wanted);
    }
    pass.record.restore = Some(record);
    formation::raise(pass, &unformed, Some(wanted));
    pass.wait(Waiting::RestoredLineage { why: why.to_string() });
    ControlFlow::Break(())
}

/// What is missing before the old members may be stopped.
enum NotConfirmed {
    /// Not all of them answer.
    Answering { answering: usize, of: usize },
    /// They answer, and not as one cluster with a leader.
    Leaderless,
    /// They have the identity of the cluster that they shall take the place of.
    OldCluster { cluster_id: ClusterId },
    /// They serve less than the snapshot holds.
    Behind { read: Revision, wanted: Revision },
    /// No read went through.
    Unread,
}

impl fmt::Display for NotConfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answering { answering, of } => write!(f, "{answering} of {of} answer"),
            Self::Leaderless => write!(f, "they do not follow one leader yet"),
            Self::OldCluster { cluster_id } => write!(f, "they answer as the old cluster {cluster_id}"),
            Self::Behind { read, wanted } => write!(f, "revision {read} was read back, the snapshot has {wanted}"),
            Self::Unread => write!(f, "their data could not be read back yet"),
        }
    }
}

/// The formed lineage, once everything that Confirmed stands for was seen in this pass.
fn confirm(
    pass: &Pass<'_>,
    lineage: &Lineage,
    etcd: &EtcdObserved,
    wanted: &RestoreWanted,
) -> Result<Lineage, NotConfirmed> {
    let goes = |seed: &&String| pass.pod(seed).is_none_or(|pod| pod.deleting);
    let going = lineage.seeds.iter().filter(goes).count();
    let of = lineage.seeds.len();
    let answering = formation::answering(etcd, &lineage.seeds).min(of - going);
    let cluster_id = formation::formed_as(etcd, &lineage.seeds).ok_or(NotConfirmed::Answering { answering, of })?;
    if answering < of {
        return Err(NotConfirmed::Answering { answering, of });
    }
    let as_one = lineage.seeds.iter().filter_map(|seed| etcd.status(seed));
    if !as_one.into_iter().all(|status| status.cluster_id == cluster_id && status.leader.is_some()) {
        return Err(NotConfirmed::Leaderless);
    }
    if pass.record.lineage.as_ref().and_then(|old| old.cluster_id) == Some(cluster_id) {
        return Err(NotConfirmed::OldCluster { cluster_id });
    }
    match etcd.quorum_read.known() {
        Some(revision) if *revision >= wanted.revision => {
            let (formed_at, cluster_id, tls) = (Some(pass.now), Some(cluster_id), formation::tls_of(pass, lineage));
            let cluster_domain = Some(pass.spec.cluster_domain.clone());
            Ok(Lineage { formed: true, formed_at, cluster_id, tls, cluster_domain, ..lineage.clone() })
        }
        Some(revision) => Err(NotConfirmed::Behind { read: *revision, wanted: wanted.revision }),
        None => Err(NotConfirmed::Unread),
    }
}

/// Stops the old members; once none of them can serve, the new lineage becomes the cluster.
///
/// A pod whose node is gone may stay in deletion for ever. It does not hold up the switch when it is neither ready nor
/// answers: the client Service selects by lineage, so nobody reaches it through that.
fn stop_old(pass: &mut Pass<'_>, mut record: RestoreRecord) -> ControlFlow<()> {
    let token = record.lineage.token.clone();
    let is_old = |token_of: &str| token_of != token;
    let superseded = |pass: &mut Pass<'_>| {
        let old = pass.observed.pods.values();
        // (Those without a lineage are the archived operator's.)
        let old: Vec<_> = old.filter(|pod| pod.ours && pod.lineage.as_deref().is_none_or(is_old)).collect();
        let mut serving = false;
        for pod in old {
            if !pod.deleting {
                pass.steps.push(super::Step::delete_pod(pod, PodDeletion::Superseded));
            }
            if !pod.deleting || pod.ready || pass.observed.etcd.status(&pod.name).is_some() {
                serving = true;
                pass.wait(Waiting::ObjectGone { kind: "Pod", name: pod.name.clone() });
            }
        }
        serving
    };
    if superseded(pass) {
        pass.record.restore = Some(record);
        return ControlFlow::Break(());
    }
    record.phase = RestorePhase::Switched;
    pass.record.lineage = Some(record.lineage.clone());
    pass.record.restore = Some(record);
    pass.record.unreachable_since.clear();
    pass.record.version = None;
    pass.record.legacy_log_index = None;
    ControlFlow::Break(())
}

/// Drops the old lineage's volumes, in passes in which the new one serves; it is looked after like any cluster meanwhile.
fn drop_old(pass: &mut Pass<'_>, record: &RestoreRecord) -> ControlFlow<()> {
    if pass.observed.etcd.quorum_read.known().is_none() {
        let why = "they do not serve, and what is left of the old members is kept".to_owned();
        pass.wait(Waiting::RestoredLineage { why });
        return ControlFlow::Continue(());
    }
    let is_old = |token: &str| token != record.lineage.token;
    let left = formation::drop_lineages(pass, is_old, PodDeletion::Superseded, VolumeDeletion::Superseded);
    if left == 0 {
        pass.record.restore = None;
    }
    if pass.steps.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Rolls back. The attempt counts on first: that write is refused to a pass whose record is stale, so that nothing which
/// a later record relies on is deleted.
fn call_off(pass: &mut Pass<'_>, mut record: RestoreRecord) -> ControlFlow<()> {
    if !record.lineage.seeds.is_empty() {
        let attempt = record.lineage.attempt + 1;
        let next = formation::lineage(&pass.desired, &record.uid, attempt, Some(record.uid.clone()));
        record.lineage = Lineage { seeds: Vec::new(), ..next };
        record.phase = RestorePhase::Starting;
    }
    let left = drop_attempts(pass, &record, PodDeletion::RestoreCancelled, VolumeDeletion::RestoreCancelled);
    if left == 0 {
        pass.record.called_off = Some((record.uid, record.lineage.attempt));
        pass.record.restore = None;
        // Without a cluster to go on with, it is decided anew whether one may be born: what is there may be a forgotten one.
        return pass.stop_if(pass.record.lineage.is_none().then(|| Waiting::RestoredLineage {
            why: "the restore was called off, and there was no cluster before it".to_owned(),
        }));
    }
    pass.record.restore = Some(record);
    pass.wait(Waiting::RestoredLineage { why: "the restore was called off, its members are removed".to_owned() });
    let _old = care_for_serving(pass);
    ControlFlow::Break(())
}

fn drop_attempts(pass: &mut Pass<'_>, record: &RestoreRecord, pods: PodDeletion, volumes: VolumeDeletion) -> usize {
    let earlier = formation::earlier_tokens(&record.uid, record.lineage.attempt);
    formation::drop_lineages(pass, |token| earlier.contains(token), pods, volumes)
}

/// The lineage that still serves gets its pods back; nothing else of it is changed.
fn care_for_serving(pass: &mut Pass<'_>) -> ControlFlow<()> {
    if pass.record.lineage.as_ref().is_none_or(|lineage| !lineage.formed) {
        return ControlFlow::Continue(());
    }
    ownership::secrets(pass)?;
    let members = Members::of(pass);
    super::version::decide(pass, &members);
    pods::bring_back(pass, &members)
}
