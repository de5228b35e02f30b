//! The two Services: always there, and the client's selects the members of the lineage that serves, or nobody.

use k8s_openapi::api::core::v1::Service;

use super::Step;
use super::pass::Pass;
use crate::build;
use crate::model::{RestorePhase, ServiceObserved};

/// Puts what the Services need in front of everything else: members find one another through the headless one.
pub(super) fn keep(pass: &mut Pass<'_>) {
    let wanted = build::peer_service(&pass.desired);
    let peer = difference(pass.observed.peer_service.as_ref(), wanted);
    let serving = pass.record.lineage.as_ref().filter(|lineage| lineage.formed).map(|lineage| lineage.token.as_str());
    // Between "confirmed" and "switched" the old lineage is being stopped: nothing new connects to it.
    let stopping = pass.record.restore.as_ref().is_some_and(|restore| restore.phase == RestorePhase::Confirmed);
    let wanted = build::client_service(&pass.desired, serving.filter(|_| !stopping));
    // Members that no record knows (the archived operator's, or ours whose status was lost) serve on until the restored ones
    // are confirmed.
    let is_theirs = pass.record.lineage.is_none() && !stopping && pass.observed.client_service.is_some();
    let client = if is_theirs { None } else { difference(pass.observed.client_service.as_ref(), wanted) };
    pass.steps.splice(0..0, peer.into_iter().chain(client));
}

fn difference(actual: Option<&ServiceObserved>, mut wanted: Service) -> Option<Step> {
    let Some(actual) = actual else { return Some(Step::CreateService(Box::new(wanted))) };
    let selector = wanted.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    if actual.as_built && actual.selector == selector {
        return None;
    }
    wanted.metadata.uid = Some(actual.uid.clone());
    wanted.metadata.resource_version = Some(actual.resource_version.clone());
    Some(Step::UpdateService(Box::new(wanted)))
}
