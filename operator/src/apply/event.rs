//! What a step is called: in errors and logs, and in the events that users see.
//!
//! The words of the four events that the archived operator had are kept; its reasons are written in CamelCase.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::api::labels;
use crate::plan::{DisarmReason, MemberRemoval, PodDeletion, Step, VolumeDeletion};
use crate::recorder::News;

/// A step in words.
pub fn describe(step: &Step) -> String {
    match step {
        Step::CreateService(service) => format!("create Service {}", service.name_any()),
        Step::UpdateService(service) => format!("update Service {}", service.name_any()),
        Step::CreateVolume(volume) => format!("create PersistentVolumeClaim {}", volume.name_any()),
        Step::CreatePod(pod) => format!("create pod {}", pod.name_any()),
        Step::DeletePod { name, why, .. } => format!("delete pod {name} ({})", pod_deletion(*why)),
        Step::DeleteVolume { name, why, .. } => {
            format!("delete PersistentVolumeClaim {name} ({})", volume_deletion(*why))
        }
        Step::PatchImage { name, image, .. } => format!("give pod {name} image {image}"),
        Step::PatchAgent { name, image, .. } => format!("give pod {name} agent {image}"),
        Step::LabelVoter { name, .. } => format!("label pod {name} as voter"),
        Step::AddMember { name, learner: true, .. } => format!("add member {name} as learner"),
        Step::AddMember { name, learner: false, .. } => format!("add member {name}"),
        Step::PromoteMember { name, .. } => format!("promote member {name}"),
        Step::RemoveMember { name, id, why, .. } => format!("remove member {name} ({id}): {}", member_removal(*why)),
        Step::AdvanceLog { entries, .. } => format!("advance the raft log by {entries} entries"),
        Step::Disarm { member, alarm, why, .. } => format!("disarm {alarm} of {member}: {}", disarm_reason(*why)),
        Step::MoveLeader { from, to_name, .. } => format!("move leadership from {from} to {to_name}"),
    }
}

const fn pod_deletion(why: PodDeletion) -> &'static str {
    match why {
        PodDeletion::Terminal => "it ended, and comes back on its volume",
        PodDeletion::MemberRemoved => "its member was removed",
        PodDeletion::FormationAbandoned => "its attempt to form the cluster was given up",
        PodDeletion::Outdated => "its template changed",
        PodDeletion::Superseded => "restored members take over",
        PodDeletion::RestoreCancelled => "the restore was called off",
    }
}

const fn disarm_reason(why: DisarmReason) -> &'static str {
    match why {
        DisarmReason::Gone => "it is no member any more",
        DisarmReason::Cleared => "a quorum has the same data as it",
    }
}

const fn volume_deletion(why: VolumeDeletion) -> &'static str {
    match why {
        VolumeDeletion::MemberRemoved => "its member was removed",
        VolumeDeletion::FormationAbandoned => "its attempt to form the cluster was given up",
        VolumeDeletion::Superseded => "restored members took over",
        VolumeDeletion::RestoreCancelled => "the restore was called off",
    }
}

const fn member_removal(why: MemberRemoval) -> &'static str {
    match why {
        MemberRemoval::ScaleIn => "more members than wanted",
        MemberRemoval::DataLost => "its data is lost",
        MemberRemoval::Unreachable => "it does not answer",
        MemberRemoval::NeverStarted => "it never started",
        MemberRemoval::NeverCaughtUp => "it did not catch up in time",
        MemberRemoval::Outdated => "its template changed",
        MemberRemoval::Corrupt => "etcd raised CORRUPT on it",
    }
}

/// The news that a step is, once it was carried out.
pub fn news(step: &Step) -> Option<News> {
    words(step).map(|(reason, message)| News::normal(reason, message))
}

/// Reason and message.
fn words(step: &Step) -> Option<(&'static str, String)> {
    Some(match step {
        Step::AddMember { name, .. } => ("NewMemberAdded", format!("New member {name} added to cluster")),
        Step::RemoveMember { name, why: MemberRemoval::ScaleIn | MemberRemoval::NeverStarted, .. } => {
            ("MemberRemoved", format!("Existing member {name} removed from the cluster"))
        }
        Step::RemoveMember { name, why, .. } => (
            "ReplacingDeadMember",
            match why {
                MemberRemoval::Outdated | MemberRemoval::NeverCaughtUp => {
                    format!("Member {name} is being replaced: {}", member_removal(*why))
                }
                _ => format!("The dead member {name} is being replaced"),
            },
        ),
        Step::PatchImage { name, from, version, .. } => {
            ("MemberUpgraded", format!("Member {name} upgraded from {from} to {version}"))
        }
        Step::PatchAgent { name, image, .. } => ("PodUpdated", format!("Pod {name} gets the agent's image {image}")),
        Step::PromoteMember { name, .. } => ("MemberPromoted", format!("Learner {name} has its vote")),
        Step::Disarm { member, alarm, why, .. } => {
            ("AlarmDisarmed", format!("Alarm {alarm} of {member} disarmed: {}", disarm_reason(*why)))
        }
        Step::MoveLeader { from, to_name, .. } => ("LeaderMoved", format!("Leadership moved from {from} to {to_name}")),
        Step::DeletePod { name, why, .. } => ("PodDeleted", format!("Pod {name} deleted: {}", pod_deletion(*why))),
        Step::DeleteVolume { name, why, .. } => {
            ("VolumeDeleted", format!("PersistentVolumeClaim {name} deleted: {}", volume_deletion(*why)))
        }
        Step::CreatePod(pod) => ("PodCreated", format!("Pod {} created{}", pod.name_any(), as_what(pod))),
        Step::UpdateService(_)
        | Step::CreateService(_)
        | Step::CreateVolume(_)
        | Step::LabelVoter { .. }
        | Step::AdvanceLog { .. } => return None,
    })
}

fn as_what(pod: &Pod) -> &'static str {
    match pod.labels().get(labels::LABEL_ROLE).and_then(|role| labels::Role::parse(role)) {
        Some(labels::Role::Learner) => " for a learner",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
