//! Patches: how each kind of patch turns the current object into the one that is then updated as by a replace.
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::read::scope;
use super::resource::ResourceInfo;
use super::types::Record;
use super::write::decode;
use super::{PatchKind, Reason, Request, Server, Status, admission, object, strategic};

impl Server {
    pub(super) fn patch(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        request: &Request,
        kind: PatchKind,
    ) -> Result<Value, Status> {
        if kind == PatchKind::Apply {
            return self.apply(now, info, request);
        }
        let patch = request.body.as_ref().ok_or_else(|| Status::bad_request("the patch is empty"))?;
        if kind == PatchKind::StrategicMerge && info.custom {
            let message = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            return Err(Status::new(Reason::UnsupportedMediaType, message));
        }
        let namespace = scope(info, request)?.unwrap_or_default();
        let name = request.name.as_deref().unwrap_or_default();
        let Some(stored) = self.store.get(&info.storage, namespace, name).cloned() else {
            return Err(Status::not_found(info.group(), info.plural(), name));
        };
        let current = self.shown(info, &stored);
        let patched = apply_plain(admission::record(info), &current, patch, kind)?;
        self.update_patched(now, info, &stored, &patched, request)
    }

    fn update_patched(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        stored: &Arc<Value>,
        patched: &Value,
        request: &Request,
    ) -> Result<Value, Status> {
        let patched = decode(info, Some(patched))?;
        if object::name(&patched) != object::name(stored) || object::namespace(&patched) != object::namespace(stored) {
            let error = super::FieldError::invalid("metadata.name", object::name(&patched), "field is immutable");
            return Err(Status::invalid(info.group(), &info.kind, object::name(stored), &[error]));
        }
        self.update(now, info, stored, patched, request)
    }
}

/// The kinds of patch that need to know nothing but the object.
pub(super) fn apply_plain(
    record: Option<&Record>,
    current: &Value,
    patch: &Value,
    kind: PatchKind,
) -> Result<Value, Status> {
    let mut target = current.clone();
    match kind {
        PatchKind::Json => return json_patch(current, patch),
        _ if !patch.is_object() => return Err(Status::bad_request("the patch is not an object")),
        PatchKind::StrategicMerge => strategic::merge(record, &mut target, patch),
        PatchKind::Merge | PatchKind::Apply => json_patch::merge(&mut target, patch),
    }
    Ok(target)
}

fn json_patch(current: &Value, patch: &Value) -> Result<Value, Status> {
    let bad = |e: &dyn std::fmt::Display| Status::bad_request(format!("error decoding patch: {e}"));
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).map_err(|e| bad(&e))?;
    let mut target = current.clone();
    json_patch::patch(&mut target, &patch.0).map_err(|e| {
        Status::new(Reason::Invalid, format!("the server rejected our request due to an error in our request: {e}"))
    })?;
    Ok(target)
}
