//! Voluntary changes of running members, one at a time: another image is patched in place, another template recreates
//! the pod on its volume. Unhealthy members first, the leader last; the first failure stops the roll-out.

use std::ops::ControlFlow;

use super::members::{Member, Members};
use super::pass::Pass;
use super::{PodDeletion, Safety, Step, Waiting, membership};
use crate::build;
use crate::model::{PodObserved, Version};

/// Whether the member's pod is not as the spec says. A pod without a hash is not of our making: only its image counts.
pub(super) fn is_outdated(pass: &Pass<'_>, member: &Member<'_>) -> bool {
    has_old_image(pass, member) || has_old_template(pass, member)
}

fn has_old_image(pass: &Pass<'_>, member: &Member<'_>) -> bool {
    !pass.version_refused && member.pod.is_some_and(|pod| pod.image != pass.desired.image())
}

pub(super) fn has_old_template(pass: &Pass<'_>, member: &Member<'_>) -> bool {
    let hash = member.pod.and_then(|pod| pod.template_hash.as_ref());
    hash.is_some_and(|hash| *hash != build::template_hash(&pass.desired))
}

/// Whether its data would go with its pod, and its pod must go: it is replaced, one more member than wanted meanwhile.
/// A claim that is being deleted is held by the pod alone (`kubernetes.io/pvc-protection`).
pub(super) fn must_be_made_anew(pass: &Pass<'_>, member: &Member<'_>) -> bool {
    let goes_with_its_pod = member.volume.is_none_or(|volume| volume.deleting);
    goes_with_its_pod && member.has_started() && has_old_template(pass, member)
}

/// Changes one member, when all that was changed before it is well.
pub(super) fn roll(pass: &mut Pass<'_>, members: &Members<'_>, safety: &Safety) -> ControlFlow<()> {
    let outdated: Vec<_> = members.all.iter().filter(|member| is_outdated(pass, member)).collect();
    if outdated.is_empty() || members.voters().count() != pass.desired.size || members.learners().next().is_some() {
        return ControlFlow::Continue(());
    }
    for member in members.all.iter().filter(|member| !is_outdated(pass, member)) {
        if let Some(waiting) = why_not_next(pass, members, member) {
            pass.wait(waiting);
            return ControlFlow::Break(());
        }
    }
    let next = outdated.into_iter().min_by_key(|member| (member.stays, members.leads(member), member.name.clone()));
    let Some(member) = next else { return ControlFlow::Continue(()) };
    let Some(pod) = member.pod.filter(|pod| !pod.deleting) else { return ControlFlow::Continue(()) };
    if members.leads(member)
        && members.voters().count() > 1
        && let Some(step) = membership::move_leader(pass, members, member)
    {
        return pass.last_step(step);
    }
    let step = if has_old_template(pass, member) && !must_be_made_anew(pass, member) {
        Step::delete_pod(pod, PodDeletion::Outdated)
    } else if !has_old_image(pass, member) {
        return ControlFlow::Continue(());
    } else {
        Step::PatchImage {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            resource_version: pod.resource_version.clone(),
            image: pass.desired.image(),
            // (Taken back before the kubelet had followed, it is what still runs.)
            container: pod.container.clone().filter(|_| !pod.is_yet_to_restart()),
            from: pod.image_version().to_owned(),
            version: pass.desired.version.clone(),
        }
    };
    pass.last_step_unless(safety.why_unsafe_to_restart(member), step)
}

/// The gate between two members: the one that was changed is healthy, runs what it should, and has caught up.
fn why_not_next(pass: &Pass<'_>, members: &Members<'_>, member: &Member<'_>) -> Option<Waiting> {
    let name = || member.name.clone();
    if let Some(pod) = member.pod.filter(|pod| !pod.running && !member.healthy && pod.fails_to_start()) {
        let why = pod.why_not_running.clone().unwrap_or_default();
        return Some(Waiting::RollOutStopped {
            member: name(),
            why,
            overdue: membership::has_had_its_time(pass, member),
        });
    }
    why_not_well(pass, members, member).map(|why| Waiting::MemberHealth { member: name(), why })
}

fn why_not_well(pass: &Pass<'_>, members: &Members<'_>, member: &Member<'_>) -> Option<String> {
    if member.healthy && member.pod.is_some_and(|pod| pod.deleting) {
        return Some("its pod is being deleted".to_owned());
    }
    if member.pod.is_some_and(PodObserved::is_yet_to_restart) {
        return Some("its container was not started anew yet".to_owned());
    }
    let status = member.status.filter(|_| member.healthy);
    let Some(status) = status else {
        return Some("it was changed and does not serve; the others are left as they are".to_owned());
    };
    let wanted = &pass.desired.version;
    if let Ok(runs) = status.version.parse::<Version>()
        && (runs.major, runs.minor, runs.patch) != (wanted.major, wanted.minor, wanted.patch)
        && !pass.version_refused
    {
        return Some(format!("it runs {runs}, not yet {wanted}"));
    }
    (!membership::has_caught_up(members, member)).then(|| "it has not caught up with the leader".to_owned())
}
