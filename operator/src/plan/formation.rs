//! A formation: the members that are started together under one token, for a new cluster or from a snapshot.
//!
//! Names and token follow from (uid, attempt, index), and the attempt is recorded before its first object: a pass with a
//! stale view names the same objects again, and an object of an earlier attempt is known by its token.
//!
//! A seed's pod is created before its volume. So a volume without a pod tells that there was a pod before, which may have
//! written to it: the pod that takes its place expects data, and its agent refuses to start etcd on an empty directory.

use std::collections::{BTreeMap, BTreeSet};

use super::pass::Pass;
use super::{PodDeletion, Step, Unsafe, VolumeDeletion, Waiting, ownership, pods, storage};
use crate::api::names;
use crate::build::{self, InitialState, MemberStart};
use crate::model::{
    ClusterId, Desired, EtcdObserved, Lineage, Observation, PodObserved, RestoreWanted, Storage, Tls, VolumeObserved,
    quorum::quorum,
};

use super::members::name_of;

/// Attempts before the current one whose objects are still looked for; older ones are gone long since.
const ATTEMPTS_REMEMBERED: u32 = 100;

/// The lineage of an attempt; `uid` is the EtcdCluster's, or the EtcdRestore's when it begins with a snapshot.
pub(super) fn lineage(desired: &Desired, uid: &str, attempt: u32, restored_from: Option<String>) -> Lineage {
    let number = number(attempt);
    let cluster = &desired.identity.name;
    Lineage {
        attempt,
        token: names::formation_token(uid, number),
        seeds: (0..desired.size).map(|index| names::formation_member_name(cluster, uid, number, index)).collect(),
        formed: false,
        formed_at: None,
        cluster_id: None,
        restored_from,
        tls: None,
        cluster_domain: None,
    }
}

/// TLS that all members of a lineage run with; none while they differ, or none of them has a pod.
pub(super) fn tls_of(pass: &Pass<'_>, lineage: &Lineage) -> Option<Tls> {
    let is_member = |pod: &&PodObserved| pod.ours && pod.lineage.as_ref() == Some(&lineage.token);
    let mut members = pass.observed.pods.values().filter(is_member);
    let first = members.next()?;
    members.all(|pod| pod.tls == first.tls).then(|| first.tls.clone())
}

/// The tokens of the attempts before this one: whatever carries them is thrown away.
pub(super) fn earlier_tokens(uid: &str, attempt: u32) -> BTreeSet<String> {
    let first = attempt.saturating_sub(ATTEMPTS_REMEMBERED).max(1);
    (first..attempt).map(|attempt| names::formation_token(uid, number(attempt))).collect()
}

fn number(attempt: u32) -> i32 {
    i32::try_from(attempt).unwrap_or(i32::MAX)
}

/// Whether the seeds are a cluster: a quorum read went through, the confirmed list names exactly the seeds, all voters,
/// and a majority of them follows one leader under one cluster id.
pub(super) fn formed_as(etcd: &EtcdObserved, seeds: &[String]) -> Option<ClusterId> {
    etcd.quorum_read.known()?;
    let membership = etcd.membership.known()?;
    let listed: BTreeSet<_> = membership.voters().map(name_of).collect();
    if membership.members.len() != seeds.len() || listed != seeds.iter().cloned().collect() {
        return None;
    }
    let statuses = || seeds.iter().filter_map(|seed| etcd.status(seed));
    let agree = statuses().filter_map(|status| status.leader).any(|leader| {
        let follow = |id: ClusterId, follows| id == membership.cluster_id && follows == Some(leader);
        statuses().filter(|status| follow(status.cluster_id, status.leader)).count() >= quorum(seeds.len())
    });
    agree.then_some(membership.cluster_id)
}

/// What becomes of a first attempt.
#[derive(Debug)]
pub(super) enum Prospect {
    /// A quorum of its seeds is there, or may come.
    Open,
    /// No quorum of it ever was: it is thrown away, and the next attempt begins.
    StartOver,
    /// It has no quorum of disks any more, and once may have had one: what is left is kept for a person to decide.
    Lost(Unsafe),
}

/// What becomes of a first attempt. It may have become a cluster, with acknowledged writes in it, while the operator was
/// away or cut off: the client Service is closed, but members can be reached by their own names. So:
///
/// - A lost disk is no reason to start over as long as the disks that are left can be a quorum: whatever was acknowledged
///   is on one of them. The others form the cluster, or have done so, and the lost member is replaced as any other. Nobody
///   has to be asked for that. With more disks lost than that no quorum of this attempt can ever be, and what is left may
///   be the only copy: only when every seed that is left is known to have nothing is it thrown away.
/// - A change of the spec is a reason only when too many seeds are known to have nothing for any quorum to have been.
///
/// Remaining race: seeds that had nothing when they were looked at can become a quorum before their pods are deleted. Only
/// a change of the spec gets there, within the seconds in which a cluster forms.
pub(super) fn prospect(pass: &mut Pass<'_>, lineage: &Lineage, etcd: &EtcdObserved) -> Prospect {
    let (seeds, needed) = (lineage.seeds.len(), quorum(lineage.seeds.len()));
    if etcd.quorum_read.known().is_some() || follows_leader(lineage, etcd) {
        return Prospect::Open;
    }
    let lost = lost_seeds(pass, lineage);
    if seeds - lost.len() < needed {
        let left = lineage.seeds.iter().filter(|seed| !lost.contains_key(seed.as_str()));
        let kept: Vec<String> = left.filter(|seed| !has_nothing(pass, lineage, seed, etcd)).cloned().collect();
        if kept.is_empty() {
            return Prospect::StartOver;
        }
        let lost = lost.into_keys().map(str::to_owned).collect();
        return Prospect::Lost(Unsafe::FormationLost { lost, kept });
    }
    let Some(why) = why_outdated(pass, lineage) else { return Prospect::Open };
    let blank = lineage.seeds.iter().filter(|seed| has_nothing(pass, lineage, seed, etcd)).count();
    if seeds - blank < needed {
        return Prospect::StartOver;
    }
    pass.wait(Waiting::FormationUnknown { why });
    Prospect::Open
}

/// Whether an attempt at a restore is thrown away: for any lost seed, even when the others have a quorum, because it is
/// confirmed with all of its seeds or not at all. What it begins with is in the snapshot, and until it is confirmed the old
/// lineage is the one that clients are served by.
pub(super) fn must_restore_anew(pass: &Pass<'_>, lineage: &Lineage, etcd: &EtcdObserved) -> bool {
    let unformed = etcd.quorum_read.known().is_none() && !follows_leader(lineage, etcd);
    !lost_seeds(pass, lineage).is_empty() || (unformed && why_outdated(pass, lineage).is_some())
}

fn follows_leader(lineage: &Lineage, etcd: &EtcdObserved) -> bool {
    lineage.seeds.iter().any(|seed| etcd.status(seed).is_some_and(|status| status.leader.is_some()))
}

/// The seeds whose disk is gone, and how.
fn lost_seeds<'a>(pass: &Pass<'_>, lineage: &'a Lineage) -> BTreeMap<&'a str, &'static str> {
    let seeds = lineage.seeds.iter().enumerate();
    let lost = seeds.filter_map(|(index, seed)| {
        let later = &lineage.seeds[index + 1..];
        Some((seed.as_str(), why_seed_lost(pass, seed, later, &lineage.token)?))
    });
    lost.collect()
}

/// Whether a seed is known to be in no quorum that acknowledged anything. It says so itself: its log holds no more than
/// the list of the seeds, which is there before the first election. Or it never served: its container did not start yet,
/// or starts in vain again and again. A lost disk says nothing: what was on it may have counted.
fn has_nothing(pass: &Pass<'_>, lineage: &Lineage, seed: &str, etcd: &EtcdObserved) -> bool {
    if let Some(status) = etcd.status(seed) {
        return status.leader.is_none() && status.raft_index <= lineage.seeds.len() as u64;
    }
    let volume = own_volume(pass, seed, &lineage.token);
    match own_pod(pass, seed, &lineage.token) {
        // Pods are created before their volumes: an older volume has had another pod.
        // And one that ended was refused by its kubelet, after it had run perhaps.
        Some(pod) if pod.never_ran && !pod.terminal => volume.is_none_or(|volume| volume.created_at >= pod.created_at),
        Some(pod) => {
            let fails = pod.why_not_running.as_ref().is_some_and(|why| why.contains("CrashLoopBackOff"));
            // What it wrote before it began to crash is on its volume: `raise` gives it the new spec instead.
            fails && !pod.running && !pod.data_lost && volume.is_none()
        }
        None => volume.is_none(),
    }
}

fn own_pod<'a>(pass: &Pass<'a>, name: &str, token: &str) -> Option<&'a PodObserved> {
    pass.pod(name).filter(|pod| pod.ours && pod.lineage.as_deref() == Some(token))
}

fn own_volume<'a>(pass: &Pass<'a>, name: &str, token: &str) -> Option<&'a VolumeObserved> {
    pass.volume(name).filter(|volume| volume.ours && volume.lineage.as_deref() == Some(token))
}

fn is_there(pass: &Pass<'_>, name: &str, token: &str) -> bool {
    own_pod(pass, name, token).is_some() || own_volume(pass, name, token).is_some()
}

/// Why the disk of a seed is gone.
///
/// Remaining race: all that the last seed has can be gone without leaving a trace. It is then started anew under its name before the formation is recorded; the client Service is closed
/// until then.
fn why_seed_lost(pass: &Pass<'_>, seed: &str, later: &[String], token: &str) -> Option<&'static str> {
    let (pod, volume) = (own_pod(pass, seed, token), own_volume(pass, seed, token));
    if pod.is_some_and(|pod| pod.data_lost) {
        return Some("its directory was found empty");
    }
    // Where it has its data counts, not where the spec wants it by now.
    let wants_volume = matches!(pass.desired.storage, Storage::Volume(_));
    let on_volume = pod.map_or(wants_volume || volume.is_some(), |pod| pod.on_claim);
    match (on_volume, pod, volume) {
        (true, _, Some(volume)) if volume.lost => Some("its volume is lost"),
        (true, None, Some(volume)) if volume.deleting => Some("its volume was deleted"),
        (true, Some(pod), None) if pod.node.is_some() => Some("its volume is gone"),
        (false, Some(pod), _) if pod.terminal => Some("its pod ended"),
        // Objects are made in order, and none after one that failed (`Plan::relies_on`): those of a later seed prove that these
        // were there.
        (_, None, None) if later.iter().any(|later| is_there(pass, later, token)) => match pass.desired.storage {
            Storage::Volume(_) => Some("its pod and its volume are gone"),
            Storage::EmptyDir => Some("its pod is gone"),
        },
        _ => None,
    }
}

/// Which pods are not as the spec wants them.
fn outdated_by(desired: &Desired) -> impl Fn(&PodObserved) -> bool + use<> {
    let (image, template, agent) = (desired.image(), build::template_hash(desired), desired.agent_image.clone());
    move |pod| {
        pod.image != image
            || pod.template_hash.as_ref().is_some_and(|hash| *hash != template)
            || pods::has_dead_agent(pod, &agent)
    }
}

/// The spec changed before anything was seen to be formed, and a running attempt cannot follow. A new
/// size alone is no reason while the attempt may still succeed: the cluster is scaled once it is formed.
fn why_outdated(pass: &Pass<'_>, lineage: &Lineage) -> Option<String> {
    let is_outdated = outdated_by(pass.spec);
    let pods = || lineage.seeds.iter().filter_map(|seed| own_pod(pass, seed, &lineage.token));
    if pods().any(is_outdated) {
        return Some("the spec of its pods changed".to_owned());
    }
    let unplaced = pods().any(|pod| pod.node.is_none() && pod.why_not_running.is_some());
    (unplaced && lineage.seeds.len() != pass.desired.size).then(|| "its size changed, and it found no place".to_owned())
}

/// Makes what is missing of the seeds, all of them at once. A seed that lost its disk gets no second one: it would come
/// back without what it has said yes to.
pub(super) fn raise(pass: &mut Pass<'_>, lineage: &Lineage, restore: Option<&RestoreWanted>) {
    let (mut terminal, mut outdated) = (None, None);
    let is_outdated = outdated_by(pass.spec);
    let lost = lost_seeds(pass, lineage);
    for seed in &lineage.seeds {
        if let Some(why) = lost.get(seed.as_str()) {
            pass.wait(Waiting::SeedLost { seed: seed.clone(), why: (*why).to_owned() });
            continue;
        }
        if !ownership::is_free_or_ours(pass, seed, &lineage.token) {
            continue;
        }
        let volume = pass.volume(seed);
        match pass.pod(seed) {
            Some(pod) if pod.deleting => pass.wait(Waiting::ObjectGone { kind: "Pod", name: seed.clone() }),
            Some(pod) if pod.terminal => terminal = terminal.or(Some(pod)),
            Some(pod) if !pod.running => {
                // On its volume it may have data that counts, and nobody else can give it the corrected spec: the pod that
                // takes its place expects data, and says so if there is none. What a restored member begins with is in the
                // snapshot; it is made anew only for what it cannot begin without.
                let is_made_anew = match restore {
                    None => volume.is_some() && is_outdated(pod),
                    Some(_) => pods::has_dead_agent(pod, &pass.spec.agent_image),
                };
                if is_made_anew && volume.is_none_or(|volume| !volume.deleting) {
                    outdated = outdated.or(Some(pod));
                }
                pass.wait(Waiting::PodStart {
                    pod: seed.clone(),
                    why: pod.why_not_running.clone().unwrap_or_default(),
                });
            }
            Some(_) => {}
            None => {
                let start = MemberStart {
                    name: seed,
                    lineage: &lineage.token,
                    voter: true,
                    initial_cluster: build::initial_cluster(pass.spec, lineage.seeds.iter().map(String::as_str)),
                    state: InitialState::New,
                    expect_data: restore.is_some() || volume.is_some(),
                    restore,
                };
                let pod = build::member_pod(&storage::on_its_volume(pass.spec, volume), &start);
                pass.steps.push(Step::CreatePod(Box::new(pod)));
            }
        }
        let mounts_one = pass.pod(seed).is_none_or(|pod| pod.on_claim);
        if volume.is_none() && mounts_one && matches!(pass.desired.storage, Storage::Volume(_)) {
            let volume = build::member_volume(&pass.desired, seed, &lineage.token);
            pass.steps.push(Step::CreateVolume(Box::new(volume)));
        }
    }
    let ended = terminal.map(|pod| (pod, PodDeletion::Terminal));
    if let Some((pod, why)) = ended.or(outdated.map(|pod| (pod, PodDeletion::Outdated))) {
        pass.steps.push(Step::delete_pod(pod, why));
    }
}

/// How many of the seeds answer.
pub(super) fn answering(etcd: &EtcdObserved, seeds: &[String]) -> usize {
    seeds.iter().filter(|seed| etcd.statuses.get(*seed).and_then(Observation::known).is_some()).count()
}

/// Deletes whole lineages: their pods, and each volume once its pod is gone. How many objects are left.
/// Never anything of the lineage that serves, whatever the caller thinks.
pub(super) fn drop_lineages(
    pass: &mut Pass<'_>,
    is_dropped: impl Fn(&str) -> bool,
    pods: PodDeletion,
    volumes: VolumeDeletion,
) -> usize {
    let serving = pass.record.lineage.as_ref().filter(|lineage| lineage.formed).map(|lineage| lineage.token.clone());
    let dropped = |ours: bool, lineage: &Option<String>| {
        ours && *lineage != serving && lineage.as_deref().is_some_and(&is_dropped)
    };
    let mut left = 0;
    for pod in pass.observed.pods.values().filter(|pod| dropped(pod.ours, &pod.lineage)) {
        left += 1;
        if pod.deleting {
            pass.wait(Waiting::ObjectGone { kind: "Pod", name: pod.name.clone() });
        } else {
            pass.steps.push(Step::delete_pod(pod, pods));
        }
    }
    for volume in pass.observed.volumes.values().filter(|volume| dropped(volume.ours, &volume.lineage)) {
        left += 1;
        if volume.deleting {
            pass.wait(Waiting::ObjectGone { kind: "PersistentVolumeClaim", name: volume.name.clone() });
        } else if pass.pod(&volume.name).is_none() {
            pass.steps.push(Step::delete_volume(volume, volumes));
        }
    }
    left
}
