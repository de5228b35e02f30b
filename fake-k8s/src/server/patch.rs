//! Patches: how each kind of patch turns the current object into the one that is then updated as by a replace.
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::decode::{json_type, syntax_fault};
use super::read::scope;
use super::resource::ResourceInfo;
use super::types::Record;
use super::write::check_name;
use super::{FieldError, FieldValidation, PatchKind, Reason, Request, Server, Status, admission, strategic};

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
        let patched = self.apply_plain(admission::record(info), &current, request, kind)?;
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
        let patched = self.decoded_patch(info, patched, request)?;
        check_name(request, &patched)?;
        self.update(now, info, stored, patched, request)
    }

    /// The kinds of patch that need to know nothing but the object.
    pub(super) fn apply_plain(
        &mut self,
        record: Option<&Record>,
        current: &Value,
        request: &Request,
        kind: PatchKind,
    ) -> Result<Value, Status> {
        let strict = request.options.field_validation != FieldValidation::Ignore;
        let Some(patch) = &request.body else { return Err(no_patch(&request.raw, kind, strict)) };
        let mut target = current.clone();
        match kind {
            PatchKind::Json => {
                let unknown = check_operations(patch, strict)?;
                match request.options.field_validation {
                    FieldValidation::Strict if !unknown.is_empty() => {
                        let value = json_patch(current, patch)?.to_string();
                        let why = format!("strict decoding error: {}", unknown.join(", "));
                        return Err(Status::invalid("", "", "", &[FieldError::invalid("patch", value, why)]));
                    }
                    FieldValidation::Warn => self.warnings.extend(unknown),
                    FieldValidation::Strict | FieldValidation::Ignore => {}
                }
                return json_patch(current, patch);
            }
            PatchKind::StrategicMerge if !patch.is_object() => {
                return Err(Status::bad_request(no_map(patch)));
            }
            _ if !patch.is_object() && !strict => return Err(Status::bad_request(BAD_PATCH)),
            _ if !patch.is_object() => return Err(undecodable(&no_map(patch))),
            PatchKind::StrategicMerge => strategic::merge(record, &mut target, patch),
            PatchKind::Merge | PatchKind::Apply => json_patch::merge(&mut target, patch),
        }
        Ok(target)
    }
}

const BAD_PATCH: &str = "Invalid JSON Patch";
/// So many operations may be in one patch.
const MOST_OPERATIONS: usize = 10_000;

fn undecodable(why: &str) -> Status {
    Status::bad_request(format!("error decoding patch: {why}"))
}

fn no_map(patch: &Value) -> String {
    format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", json_type(patch))
}

fn no_patch(raw: &[u8], kind: PatchKind, strict: bool) -> Status {
    let fault = syntax_fault(raw);
    match kind {
        PatchKind::Json | PatchKind::Merge if strict => undecodable(&fault),
        PatchKind::Merge => Status::bad_request(BAD_PATCH),
        _ => Status::bad_request(fault),
    }
}

/// Is this a list of operations? The sentences about fields that operations do not have.
fn check_operations(patch: &Value, strict: bool) -> Result<Vec<String>, Status> {
    let refuse = |why: String| Err(if strict { undecodable(&why) } else { Status::bad_request(why) });
    let Some(all) = patch.as_array() else {
        let into = if strict { "[]handlers.jsonPatchOp" } else { "jsonpatch.Patch" };
        return refuse(format!("json: cannot unmarshal {} into Go value of type {into}", json_type(patch)));
    };
    if all.len() > MOST_OPERATIONS {
        return Err(Status::new(
            Reason::RequestEntityTooLarge,
            format!("The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}", all.len()),
        ));
    }
    let mut unknown = Vec::new();
    for (i, operation) in all.iter().enumerate() {
        let Some(fields) = operation.as_object() else {
            let into = if strict { "handlers.jsonPatchOp" } else { "jsonpatch.Operation" };
            return refuse(format!("json: cannot unmarshal {} into Go value of type {into}", json_type(operation)));
        };
        for (name, value) in fields {
            match name.as_str() {
                "op" | "path" | "from" if strict && !value.is_string() && !value.is_null() => {
                    return refuse(format!(
                        "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                        json_type(value)
                    ));
                }
                "op" | "path" | "from" | "value" => {}
                other => unknown.push(format!("json patch unknown field \"[{i}].{other}\"")),
            }
        }
    }
    Ok(unknown)
}

/// Why a patch does not apply is not told.
fn json_patch(current: &Value, patch: &Value) -> Result<Value, Status> {
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).map_err(|_| Status::patch_does_not_apply())?;
    let mut target = current.clone();
    json_patch::patch(&mut target, &patch.0).map_err(|_| Status::patch_does_not_apply())?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_that_are_none_are_refused() {
        let said = |patch: Value, strict| check_operations(&patch, strict).unwrap_err().message;
        assert_eq!(
            said(json!({"op": "add"}), true),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(
            said(json!([{"op": 1}]), true),
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
        );
        let unknown = check_operations(&json!([{"op": "odd", "path": "/a", "who": 1}]), true).unwrap();
        assert_eq!(unknown, ["json patch unknown field \"[0].who\""]);
        let status = json_patch(&json!({}), &json!([{"op": "remove", "path": "/a"}])).unwrap_err();
        assert_eq!((status.code, status.details.always), (422, true));
        assert_eq!(
            no_patch(b"{\"a\":", PatchKind::Merge, true).message,
            "error decoding patch: unexpected end of JSON input"
        );
    }
}
