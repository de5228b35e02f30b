//! Pods are cattle: a member whose pod is gone, has ended or cannot run gets it back, on its own volume.
//!
//! Nothing here needs a quorum or changes the member list: this is how a cold start of every node ends well.

use std::ops::ControlFlow;

use super::members::{Member, Members};
use super::pass::Pass;
use super::{PodDeletion, Step, Waiting, ownership, rollout, storage, version};
use crate::build::pod::{AGENT_CONTAINER, FETCH_CONTAINER, RESTORE_CONTAINER};
use crate::build::{self, InitialState, MemberStart};
use crate::model::{PodObserved, Storage};

/// Recreates what is missing, all at once; deletes at most one pod that ended or cannot follow its spec.
pub(super) fn bring_back(pass: &mut Pass<'_>, members: &Members<'_>) -> ControlFlow<()> {
    let Some(token) = pass.record.lineage.as_ref().map(|lineage| lineage.token.clone()) else {
        return ControlFlow::Continue(());
    };
    let template = build::template_hash(&pass.desired);
    let mut repair: Option<(Step, &str)> = None;
    // Who has data comes first: where a quota has room for one, it is not for a new member.
    let (started, new): (Vec<_>, Vec<_>) = members.all.iter().partition(|member| member.has_started());
    for member in started.into_iter().chain(new) {
        if !ownership::is_free_or_ours(pass, &member.name, &token) {
            continue;
        }
        match member.pod {
            None => create(pass, members, member, &token),
            Some(pod) if pod.deleting => {
                pass.wait(Waiting::ObjectGone { kind: "Pod", name: pod.name.clone() });
            }
            Some(pod) => {
                repair =
                    repair.or_else(|| Some((repair_pod(pass, members, member, pod, &template)?, member.name.as_str())));
                create_volume_if_new(pass, member, &token);
                if !pod.running && member.lost.is_none() {
                    let why = pod.why_not_running.clone().unwrap_or_default();
                    pass.wait(Waiting::PodStart { pod: pod.name.clone(), why });
                }
            }
        }
    }
    match repair {
        Some((step, member)) => {
            // As another one it has its whole time to come up. (One that ended comes back the same.)
            if !matches!(step, Step::DeletePod { why: PodDeletion::Terminal, .. }) {
                pass.record.unreachable_since.remove(member);
            }
            pass.last_step(step)
        }
        None => ControlFlow::Continue(()),
    }
}

/// The pod of a member that has none. A member whose data is lost gets none, a new member gets its volume with it.
fn create(pass: &mut Pass<'_>, members: &Members<'_>, member: &Member<'_>, token: &str) {
    if member.lost.is_some() {
        return;
    }
    if member.volume.is_some_and(|volume| volume.deleting) {
        pass.wait(Waiting::ObjectGone { kind: "PersistentVolumeClaim", name: member.name.clone() });
        return;
    }
    // A member that never started joins with the list as it is now: one that a quorum confirmed, or, where it is this
    // member that the quorum waits for (one voter became two, below etcd 3.4), one that everybody with data holds.
    // One that has data ignores the list, and one with a volume had a pod: who is left of the members may not have heard
    // yet that it started, and wait for a quorum that this very member is missing from.
    let all_answer = members.all.iter().filter(|other| other.has_started()).all(|other| other.status.is_some());
    let may_have_data = member.has_started() || member.volume.is_some();
    if !may_have_data && !members.confirmed && !all_answer {
        return;
    }
    let initial_cluster = members.all.iter().map(|other| {
        let url = other.entry.as_ref().and_then(|entry| entry.peer_urls.first().cloned());
        (other.name.clone(), url.unwrap_or_else(|| build::peer_url(&pass.desired, &other.name)))
    });
    let start = MemberStart {
        name: &member.name,
        lineage: token,
        // Without a list the role is not known: the label follows when it is.
        voter: member.entry.is_some() && !member.is_learner(),
        initial_cluster: initial_cluster.collect(),
        state: InitialState::Existing,
        // The pod of a new member is made before its volume: a volume without a pod has had one.
        expect_data: may_have_data,
        restore: None,
    };
    let mut desired = storage::on_its_volume(&pass.desired, member.volume);
    // The version that a roll-out stopped at would take the next member along. Back within a minor harms no data.
    if let Some(runs) = pass.record.version.clone()
        && (runs.major, runs.minor) == (desired.version.major, desired.version.minor)
        && is_roll_out_stopped(pass, members, member)
    {
        desired.to_mut().version = version::as_tagged(members, runs);
    }
    let pod = build::member_pod(&desired, &start);
    pass.steps.push(Step::CreatePod(Box::new(pod)));
    create_volume_if_new(pass, member, token);
}

/// The volume of a member that has never started. Never for one that has: its data would not be on it.
fn create_volume_if_new(pass: &mut Pass<'_>, member: &Member<'_>, token: &str) {
    let bound = member.pod.is_some_and(|pod| pod.node.is_some());
    if matches!(pass.desired.storage, Storage::Volume(_))
        && member.entry.is_some()
        && !member.has_started()
        && pass.volume(&member.name).is_none()
        && member.pod.is_none_or(|pod| pod.on_claim)
        && !bound
    {
        let volume = build::member_volume(&pass.desired, &member.name, token);
        pass.steps.push(Step::CreateVolume(Box::new(volume)));
    }
}

/// Whether a pod is held up by our own image, and would get another one if it were made now: an operator of another
/// version made it, whose image may be gone from the registry for good. (The hash of the template leaves the agent out: as
/// long as a pod runs, it does not matter.)
pub(super) fn has_dead_agent(pod: &PodObserved, agent_image: &str) -> bool {
    pod.is_held_up_by(&[AGENT_CONTAINER, FETCH_CONTAINER])
        && pod.agent_image.as_ref().is_some_and(|image| image != agent_image)
}

/// Whether another member is as the spec wants it and cannot start so: a roll-out that has stopped. Nobody follows it, who
/// may come up by himself.
fn is_roll_out_stopped(pass: &Pass<'_>, members: &Members<'_>, member: &Member<'_>) -> bool {
    let others = members.all.iter().filter(|other| other.name != member.name && !other.healthy);
    let as_wanted = others.filter(|other| !rollout::is_outdated(pass, other));
    // Between two crashes it runs for a moment, or has just ended.
    let crashes = |pod: &PodObserved| !pod.never_ran && pod.first_started_at.is_none();
    as_wanted.filter_map(|other| other.pod).any(|pod| pod.fails_to_start() || crashes(pod))
}

/// What to do about a pod that does not run and never will as it is. It serves nobody, so no quorum rule is touched; its
/// data must be on a volume, or not exist yet. A container that only starts again is left alone: the roll-out has an order.
fn repair_pod(
    pass: &Pass<'_>,
    members: &Members<'_>,
    member: &Member<'_>,
    pod: &PodObserved,
    template: &str,
) -> Option<Step> {
    let data_stays = member.volume.is_some() || !member.has_started();
    let usable = member.lost.is_none() && member.volume.is_none_or(|volume| !volume.deleting);
    if pod.running || member.healthy || !usable {
        return None;
    }
    let delete = |why| Step::delete_pod(pod, why);
    if pod.terminal {
        return data_stays.then(|| delete(PodDeletion::Terminal));
    }
    let may_start = (pod.node.is_some() && !pod.never_ran) || is_roll_out_stopped(pass, members, member);
    let hopeless = pod.fails_to_start() || !may_start;
    // A spec that could not run was corrected: this pod must not wait for a roll-out that waits for it.
    if data_stays && hopeless && pod.template_hash.as_ref().is_some_and(|hash| hash != template) {
        return Some(delete(PodDeletion::Outdated));
    }
    let agent = &pass.desired.agent_image;
    // What a restored member began with is behind it: made anew, its pod has no such containers.
    let began = &[FETCH_CONTAINER, RESTORE_CONTAINER];
    if data_stays && (has_dead_agent(pod, agent) || pod.is_held_up_by(began)) {
        return Some(delete(PodDeletion::Outdated));
    }
    if has_dead_agent(pod, agent) {
        return Some(Step::PatchAgent {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            resource_version: pod.resource_version.clone(),
            image: agent.clone(),
        });
    }
    let image = pass.desired.image();
    (hopeless && !pass.version_refused && pod.image != image).then(|| Step::PatchImage {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: pod.resource_version.clone(),
        image,
        container: pod.container.clone().filter(|_| !pod.is_yet_to_restart()),
        from: pod.image_version().to_owned(),
        version: pass.desired.version.clone(),
    })
}
