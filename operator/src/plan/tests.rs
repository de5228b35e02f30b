//! Tests of the plan: transcripts of whole flows, every vector of member health, and properties over random histories.

mod exhaustive;
mod flows;
mod properties;
pub(crate) mod world;

use super::Step;

/// A step in a few words, for transcripts.
pub(crate) fn describe(step: &Step) -> String {
    let name =
        |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| meta.name.clone().unwrap_or_default();
    match step {
        Step::CreateService(service) => format!("create Service {}{}", name(&service.metadata), serving(service)),
        Step::UpdateService(service) => format!("update Service {}{}", name(&service.metadata), serving(service)),
        Step::CreateVolume(volume) => format!("create volume {}", name(&volume.metadata)),
        Step::CreatePod(pod) => {
            let start = world::Start::of(pod);
            let data = if start.restored {
                ", from the snapshot"
            } else if start.expect_data {
                ", expects data"
            } else {
                ""
            };
            format!("create pod {} ({}{data})", name(&pod.metadata), start.flags.initial_state)
        }
        Step::DeletePod { name, why, .. } => format!("delete pod {name} ({why:?})"),
        Step::DeleteVolume { name, why, .. } => format!("delete volume {name} ({why:?})"),
        Step::PatchImage { name, version, .. } => format!("patch image of {name} to {version}"),
        Step::PatchAgent { name, image, .. } => format!("patch agent of {name} to {image}"),
        Step::LabelVoter { name, .. } => format!("label voter {name}"),
        Step::AddMember { name, learner, .. } => format!("add {} {name}", if *learner { "learner" } else { "voter" }),
        Step::PromoteMember { name, .. } => format!("promote {name}"),
        Step::RemoveMember { name, why, .. } => format!("remove member {name} ({why:?})"),
        Step::AdvanceLog { entries, .. } => format!("advance the raft log by {entries}"),
        Step::Disarm { member, alarm, .. } => format!("disarm {alarm} of {member}"),
        Step::MoveLeader { from, to_name, .. } => format!("move leader {from} -> {to_name}"),
    }
}

fn serving(service: &k8s_openapi::api::core::v1::Service) -> String {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let lineage = selector.and_then(|selector| selector.get(crate::api::labels::LABEL_LINEAGE));
    lineage.map(|lineage| format!(" -> {lineage}")).unwrap_or_default()
}
