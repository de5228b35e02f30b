//! Changes of etcd's member list: one at a time, each against the list that a quorum confirmed in this pass.

use jiff::SignedDuration;
use std::ops::ControlFlow;

use super::members::{Member, Members};
use super::pass::Pass;
use super::{DisarmReason, MemberRemoval, Safety, Step, Unsafe, Waiting, learner, rollout};
use crate::api::names;
use crate::build;
use crate::build::pod::{AGENT_CONTAINER, FETCH_CONTAINER};
use crate::model::quorum::quorum;
use crate::model::{Alarm, MemberId, Observation, PodObserved, Version};

/// Most entries of the log that a learner may lack when it is promoted. etcd refuses one that has less than nine tenths
/// of the leader's log; this is stricter for long logs. Answers of two members are not of the same moment, so under load
/// a bound near zero would never be met.
const LEARNER_LAG_MAX: u64 = 1000;

/// Since when each member has not answered as itself, while a quorum of the others did.
///
/// Time without quorum does not count: after a cold start of everything each member gets its whole `replaceAfter` from
/// the moment that the first of them serve again. Nor does time in which nobody looked: the cluster was paused, its spec
/// could not be used, a restore was under way. A reading that failed for once neither counts nor resets.
pub(super) fn track_unreachable(pass: &mut Pass<'_>, members: &Members<'_>) {
    let before = &pass.observed.record.unreachable_since;
    if !members.confirmed {
        if members.votes().has_quorum() {
            pass.record.unreachable_since.clone_from(before);
        }
        return;
    }
    let now = pass.now;
    let since = |name: &String| before.get(name).copied().unwrap_or(now).min(now);
    let unhealthy = members.all.iter().filter(|member| !member.healthy);
    pass.record.unreachable_since = unhealthy.map(|member| (member.name.clone(), since(&member.name))).collect();
}

/// How long until a member that does not answer is given up; none when it is healthy.
fn patience(pass: &Pass<'_>, member: &Member<'_>) -> Option<SignedDuration> {
    let since = pass.record.unreachable_since.get(&member.name)?;
    Some(pass.desired.replace_after - pass.now.duration_since(*since))
}

/// Seconds, rounded up to minutes, so that status is not written every second of the wait.
fn in_minutes(left: SignedDuration) -> i64 {
    (left.as_secs().max(0) + 59) / 60 * 60
}

/// Whether a member has not answered for as long as `replaceAfter` gives it.
pub(super) fn has_had_its_time(pass: &Pass<'_>, member: &Member<'_>) -> bool {
    patience(pass, member).is_some_and(|left| left <= SignedDuration::ZERO)
}

fn is_overdue(pass: &Pass<'_>, members: &Members<'_>, member: &Member<'_>) -> bool {
    has_had_its_time(pass, member) && why_kept(pass, members, member).is_none()
}

/// Why a member is not replaced however long it has been silent: its successor would fare no better, and a good volume
/// would be lost for it.
fn why_kept(pass: &Pass<'_>, members: &Members<'_>, member: &Member<'_>) -> Option<&'static str> {
    // One that Kubernetes refuses: a quota, an admission policy. That of its successor would be refused too.
    let awaits_its_pod = member.pod.is_none() && member.volume.is_none_or(|volume| !volume.deleting);
    if awaits_its_pod {
        Some("its pod is yet to be made")
    } else if is_ready_for_kubernetes(pass, member) {
        Some("Kubernetes calls it ready, and it does not answer the operator: the way to it is broken")
    } else if is_first_of_its_kind(pass, members, member) {
        Some("it is the first that is as the spec wants it, and is not replaced")
    } else {
        None
    }
}

/// Its kubelet sees this voter take part in the quorum, where it was made to ask for that, and only we do not hear it. (A
/// learner that we do not hear is never promoted, and costs nothing to replace.)
fn is_ready_for_kubernetes(pass: &Pass<'_>, member: &Member<'_>) -> bool {
    let ready = member.pod.is_some_and(|pod| pod.ready && pod.ready_by_quorum && !pod.deleting);
    ready && !member.is_learner() && pass.observed.etcd.status(&member.name).is_none()
}

/// It is as the spec wants it, and no other member that serves is: replacing it cannot help, correcting the spec will (an
/// image that does not exist, a node selector that no node has, a flag that etcd does not know).
///
/// A member that does not come up with what another one runs is on a broken node, and one that lacks our agent's image gets
/// a newer one in its successor: those are replaced like all others, and so is one whose node is gone.
fn is_first_of_its_kind(pass: &Pass<'_>, members: &Members<'_>, member: &Member<'_>) -> bool {
    // A pod that is deleted comes back in a moment; one whose node is gone never is.
    let is_gone = |pod: &PodObserved| {
        let since = pod.deleted_at.map_or(pass.desired.replace_after, |at| pass.now.duration_since(at));
        pod.deleting && since >= pass.desired.replace_after
    };
    // Where the volume is there is no node for it any more: that is not the spec's fault.
    let is_parted = |pod: &PodObserved| {
        pod.node.is_none() && pod.why_not_running.as_ref().is_some_and(|why| why.contains("volume node affinity"))
    };
    let Some(pod) = member.pod.filter(|pod| !pod.terminal && !is_gone(pod) && !is_parted(pod)) else { return false };
    // One that came up and stays up was made as it should be, whatever it suffers from now.
    let is_up = pod.running && pod.first_started_at.is_some();
    if is_up || rollout::is_outdated(pass, member) || pod.is_held_up_by(&[AGENT_CONTAINER, FETCH_CONTAINER]) {
        return false;
    }
    let is_same = |other: &PodObserved| other.image == pod.image && other.template_hash == pod.template_hash;
    !members.all.iter().any(|other| other.healthy && other.pod.is_some_and(is_same))
}

/// Stops everything below when no change of the list could be committed, and says what is missing.
pub(super) fn need_quorum(pass: &mut Pass<'_>, members: &Members<'_>, safety: &Safety) -> ControlFlow<()> {
    let recorded = pass.record.lineage.as_ref().and_then(|lineage| lineage.cluster_id);
    if let (Some(recorded), Some(list)) = (recorded, pass.observed.etcd.membership.known())
        && list.cluster_id != recorded
    {
        let why = format!("cluster id {} answers, {recorded} is recorded", list.cluster_id);
        pass.refuse(Unsafe::MembershipUnknown { why });
        return ControlFlow::Break(());
    }
    if members.confirmed && safety.votes.has_quorum() {
        return ControlFlow::Continue(());
    }
    let refused = if members.all.iter().all(|member| member.lost.is_some()) {
        Unsafe::AllDataLost
    } else if safety.votes.has_quorum() || nobody_could_be_asked(pass, members) {
        let why = pass.observed.etcd.membership.why_unknown().unwrap_or("too few members answer");
        Unsafe::MembershipUnknown { why: why.to_owned() }
    } else {
        let names = |select: &dyn Fn(&&Member<'_>) -> bool| {
            members.voters().filter(select).map(|member| member.name.clone()).collect::<Vec<_>>()
        };
        Unsafe::QuorumLost {
            healthy: safety.votes.healthy,
            needed: safety.votes.quorum(),
            missing: names(&|member| !member.healthy),
            data_lost: names(&|member| member.lost.is_some()),
        }
    };
    pass.refuse(refused);
    ControlFlow::Break(())
}

/// Kubernetes calls a quorum of pods ready and not one of them answers us: it is we who are cut off, not they.
fn nobody_could_be_asked(pass: &Pass<'_>, members: &Members<'_>) -> bool {
    let ready = members.voters().filter(|member| member.pod.is_some_and(|pod| pod.ready)).count();
    let answers = pass.observed.etcd.statuses.values().any(|status| status.known().is_some());
    !answers && ready >= quorum(members.voters().count())
}

/// Takes back alarms of who is no member any more. etcd drops a member and keeps its alarms (`RemoveMember` does not look at
/// them), and refuses writes while one is raised. One that names nobody needs a person.
pub(super) fn disarm(pass: &mut Pass<'_>, members: &Members<'_>) -> ControlFlow<()> {
    let raised = pass.observed.etcd.raised();
    if raised.contains(&(MemberId(0), Alarm::Corrupt)) {
        pass.refuse(Unsafe::CorruptSomewhere { unheard: Vec::new() });
        return ControlFlow::Break(());
    }
    let is_member = |id: MemberId| members.all.iter().any(|member| member.id() == id);
    let orphaned = raised.iter().find(|(id, _)| *id != MemberId(0) && !is_member(*id));
    match orphaned {
        Some(&(member, alarm)) => {
            let endpoints = endpoints(pass, members, None);
            pass.last_step(Step::Disarm { member, alarm, why: DisarmReason::Gone, endpoints })
        }
        None => ControlFlow::Continue(()),
    }
}

/// CORRUPT: etcd accuses the follower that differs from its leader (`PeriodicCheck` in etcd's `corrupt.go`), and it may be
/// the leader that is wrong. A member is removed when a quorum of the others agrees on other data; an accused one that
/// agrees with a quorum is cleared. Without such a quorum a person must decide.
pub(super) fn settle_corrupt(pass: &mut Pass<'_>, members: &Members<'_>, safety: &Safety) -> ControlFlow<()> {
    let Some(accused) = members.all.iter().find(|member| member.corrupt) else { return ControlFlow::Continue(()) };
    // It has no vote, and is filled anew.
    if accused.is_learner() {
        return remove(pass, members, safety, accused, MemberRemoval::Corrupt);
    }
    let hash = |member: &Member<'_>| pass.observed.etcd.hashes.get(&member.name).and_then(Observation::known).copied();
    let agree = |with: u32| members.voters().filter(|member| hash(member) == Some(with)).count();
    // (One voter alone agrees with itself, which says nothing.)
    let needed = quorum(members.voters().count()).max(2);
    let right = members.voters().filter_map(hash).find(|right| agree(*right) >= needed);
    let Some(right) = right else {
        let unheard = members.voters().filter(|member| hash(member).is_none());
        pass.refuse(Unsafe::CorruptSomewhere { unheard: unheard.map(|member| member.name.clone()).collect() });
        return ControlFlow::Break(());
    };
    let is_wrong = |member: &&Member<'_>| hash(member).is_some_and(|hash| hash != right);
    let unheard = Some(accused).filter(|accused| hash(accused).is_none());
    let Some(wrong) = members.voters().find(is_wrong).or(unheard) else {
        let (member, endpoints) = (accused.id(), endpoints(pass, members, None));
        let why = DisarmReason::Cleared;
        return pass.last_step(Step::Disarm { member, alarm: Alarm::Corrupt, why, endpoints });
    };
    if members.leads(wrong)
        && let Some(step) = move_leader(pass, members, wrong)
    {
        return pass.last_step(step);
    }
    remove(pass, members, safety, wrong, MemberRemoval::Corrupt)
}

/// A learner becomes a voter once it has caught up; one that is lost, never starts, never catches up or is not needed any
/// more goes.
pub(super) fn finish_learner(pass: &mut Pass<'_>, members: &Members<'_>, safety: &Safety) -> ControlFlow<()> {
    label_voters(pass, members);
    let Some(learner) = members.learners().min_by_key(|member| member.healthy) else {
        return ControlFlow::Continue(());
    };
    if let Some(why) = why_failed(pass, members, learner) {
        return remove(pass, members, safety, learner, why);
    }
    if members.voters().count() >= voters_wanted(pass, members) || members.learners().count() > 1 {
        return remove(pass, members, safety, learner, MemberRemoval::ScaleIn);
    }
    let Some(behind) = members.behind(learner).filter(|_| learner.stays) else {
        let why = "it has not joined yet".to_owned();
        pass.wait(Waiting::MemberHealth { member: learner.name.clone(), why });
        return ControlFlow::Continue(());
    };
    let log = members.leader_status().map_or(0, |status| status.raft_index);
    if behind > LEARNER_LAG_MAX.min(log / 10) {
        let left = learner::patience(pass, members, learner);
        let overdue = left.is_some_and(|left| left <= SignedDuration::ZERO);
        if overdue && behind > log / 10 {
            return remove(pass, members, safety, learner, MemberRemoval::NeverCaughtUp);
        }
        if !overdue {
            let seconds = in_minutes(left.unwrap_or_default());
            pass.wait(Waiting::LearnerSync { member: learner.name.clone(), behind, seconds });
            return ControlFlow::Continue(());
        }
        // As good as etcd asks for, and under this load never better: etcd refuses it if it is not.
    }
    let step = Step::PromoteMember {
        name: learner.name.clone(),
        id: learner.id(),
        endpoints: endpoints(pass, members, None),
        fence: pass.fence(),
    };
    pass.last_step_unless(safety.why_unsafe_to_promote(learner), step)
}

/// Lets the client Service select members that have their vote.
fn label_voters(pass: &mut Pass<'_>, members: &Members<'_>) {
    for member in members.voters().filter(|member| member.healthy) {
        let Some(pod) = member.pod.filter(|pod| !pod.labelled_voter && !pod.deleting) else { continue };
        pass.steps.push(Step::LabelVoter {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            resource_version: pod.resource_version.clone(),
        });
    }
}

/// Why a member that is not healthy has failed for good.
fn why_failed(pass: &Pass<'_>, members: &Members<'_>, member: &Member<'_>) -> Option<MemberRemoval> {
    if member.healthy {
        None
    } else if member.lost.is_some() {
        Some(MemberRemoval::DataLost)
    } else if !is_overdue(pass, members, member) {
        None
    } else if member.has_started() {
        Some(MemberRemoval::Unreachable)
    } else {
        Some(MemberRemoval::NeverStarted)
    }
}

/// Removes one voter that has failed: those whose data is lost at once, those that do not answer after `replaceAfter`.
///
/// Not while another member has yet to start: it was given the list as it is, and could not start with another.
pub(super) fn replace_failed(pass: &mut Pass<'_>, members: &Members<'_>, safety: &Safety) -> ControlFlow<()> {
    let failed = members.voters().filter_map(|member| Some((why_failed(pass, members, member)?, member)));
    let failed = failed.min_by_key(|(why, member)| (*why != MemberRemoval::DataLost, member.name.clone()));
    if let Some((why, member)) = failed {
        let starting = members.all.iter().find(|other| !other.has_started() && other.id() != member.id());
        let Some(starting) = starting else { return remove(pass, members, safety, member, why) };
        let why = format!("before member {} is replaced", member.name);
        pass.wait(Waiting::MemberHealth { member: starting.name.clone(), why });
        return ControlFlow::Continue(());
    }
    for member in members.voters().filter(|member| !member.healthy) {
        let name = member.name.clone();
        // (One whose pod is made in this very pass has its time like all others.)
        let kept = why_kept(pass, members, member).filter(|_| member.pod.is_some() || has_had_its_time(pass, member));
        pass.wait(match kept {
            Some(why) => Waiting::MemberHealth { member: name, why: why.to_owned() },
            None => {
                let left = patience(pass, member).unwrap_or(pass.desired.replace_after);
                Waiting::MemberReturn { member: name, seconds: in_minutes(left) }
            }
        });
    }
    ControlFlow::Continue(())
}

/// Voters that there shall be for now: one more than `spec.size` while a member that cannot be restarted without losing
/// its data (emptyDir) has to be made anew.
fn voters_wanted(pass: &Pass<'_>, members: &Members<'_>) -> usize {
    let surplus = members.voters().any(|member| rollout::must_be_made_anew(pass, member));
    pass.desired.size + usize::from(surplus)
}

/// Adds one member: as a learner, which takes nothing from the quorum while it catches up.
pub(super) fn scale_out(pass: &mut Pass<'_>, members: &Members<'_>, safety: &Safety) -> ControlFlow<()> {
    if members.all.len() >= voters_wanted(pass, members) {
        return ControlFlow::Continue(());
    }
    let busy = members.all.iter().find(|member| member.is_learner() || !member.has_started());
    if let Some(member) = busy.or_else(|| members.voters().find(|member| !member.healthy)) {
        let why = "before the next member is added".to_owned();
        pass.wait(Waiting::MemberHealth { member: member.name.clone(), why });
        return ControlFlow::Break(());
    }
    let learner = members.oldest_version().as_ref().is_some_and(Version::supports_learners);
    let name = fresh_name(pass, members);
    let step = Step::AddMember {
        peer_url: build::peer_url(&pass.desired, &name),
        name,
        learner,
        endpoints: endpoints(pass, members, None),
        fence: pass.fence(),
    };
    pass.last_step_unless(safety.why_unsafe_to_add(learner, pass.desired.size), step)
}

/// A name that nothing visible has. Names that are not visible differ by their 64 bits of entropy.
fn fresh_name(pass: &Pass<'_>, members: &Members<'_>) -> String {
    let cluster = &pass.desired.identity.name;
    let mut entropy = pass.observed.entropy;
    loop {
        let name = names::fresh_member_name(cluster, entropy);
        if pass.pod(&name).is_none() && pass.volume(&name).is_none() && members.by_name(&name).is_none() {
            return name;
        }
        entropy = entropy.wrapping_add(1);
    }
}

/// Removes one member: those that do not serve or are on their way out first, then one that must be made anew anyway, then the youngest. The leader hands
/// on before it goes; where it cannot (below etcd 3.3) another one goes.
pub(super) fn scale_in(pass: &mut Pass<'_>, members: &Members<'_>, safety: &Safety) -> ControlFlow<()> {
    if members.voters().count() <= pass.desired.size {
        return ControlFlow::Continue(());
    }
    let mut candidates: Vec<_> = members.voters().collect();
    // One more than wanted stands in for a member that must be made anew: it is that one that goes, and only once the
    // others serve. (The stand-in itself, not healthy yet, would otherwise be the first to go, for ever.)
    if candidates.len() == pass.desired.size + 1
        && candidates.iter().any(|member| rollout::must_be_made_anew(pass, member))
    {
        candidates.retain(|member| rollout::must_be_made_anew(pass, member));
        let starting = members.voters().find(|member| !member.stays && !rollout::must_be_made_anew(pass, member));
        if let Some(member) = starting {
            let why = "before the member that it stands in for goes".to_owned();
            pass.wait(Waiting::MemberHealth { member: member.name.clone(), why });
            return ControlFlow::Continue(());
        }
    }
    candidates.sort_by_key(|member| {
        let age = member.pod.map_or(i64::MAX, |pod| pod.created_at.as_second());
        let anew = rollout::must_be_made_anew(pass, member);
        (member.stays, !anew, anew && members.leads(member), std::cmp::Reverse(age), member.name.clone())
    });
    let others_can_go = candidates.len() > 1;
    for member in candidates {
        if members.leads(member) && member.healthy {
            match move_leader(pass, members, member) {
                Some(step) => return pass.last_step(step),
                None if others_can_go => continue,
                // Below etcd 3.3, and it alone must go: its successor is elected once it is gone.
                None => {}
            }
        }
        let anew = member.healthy && rollout::must_be_made_anew(pass, member);
        let why = if anew { MemberRemoval::Outdated } else { MemberRemoval::ScaleIn };
        return remove(pass, members, safety, member, why);
    }
    ControlFlow::Continue(())
}

/// Hands leadership to the healthiest other voter: one that is as wanted, has caught up, and is oldest. None when etcd
/// cannot (below 3.3) or nobody can take it.
pub(super) fn move_leader(pass: &Pass<'_>, members: &Members<'_>, leader: &Member<'_>) -> Option<Step> {
    if !members.oldest_version()?.supports_move_leader() {
        return None;
    }
    let others = members.voters().filter(|member| member.stays && member.id() != leader.id());
    let to = others.min_by_key(|member| {
        let age = member.pod.map_or(i64::MAX, |pod| pod.created_at.as_second());
        (rollout::is_outdated(pass, member), members.behind(member) > Some(LEARNER_LAG_MAX), age, member.name.clone())
    })?;
    Some(Step::MoveLeader {
        from: leader.name.clone(),
        endpoint: pass.client_url(&leader.name),
        to: to.id(),
        to_name: to.name.clone(),
    })
}

/// Whether a member's log is as good as the leader's.
pub(super) fn has_caught_up(members: &Members<'_>, member: &Member<'_>) -> bool {
    members.behind(member).is_some_and(|behind| behind <= LEARNER_LAG_MAX)
}

fn remove(
    pass: &mut Pass<'_>,
    members: &Members<'_>,
    safety: &Safety,
    member: &Member<'_>,
    why: MemberRemoval,
) -> ControlFlow<()> {
    let id: MemberId = member.id();
    let endpoints = endpoints(pass, members, Some(&member.name));
    let step = Step::RemoveMember { name: member.name.clone(), id, endpoints, fence: pass.fence(), why };
    pass.last_step_unless(safety.why_unsafe_to_remove(member), step)
}

fn endpoints(pass: &Pass<'_>, members: &Members<'_>, except: Option<&str>) -> Vec<String> {
    members.askable(except).into_iter().map(|name| pass.client_url(name)).collect()
}
