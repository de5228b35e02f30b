//! In which order, and how often, a kind's own checks look at metadata and at the rest: a mistake is told as often as it is
//! found, and where.
use serde_json::Value;

use crate::server::metadata::{NameRule, validate, validate_own_finalizers, validate_update};
use crate::server::resource::ResourceInfo;
use crate::server::{FieldError, definitions};

/// One of the checks of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// The rules of metadata.
    Metadata,
    /// What of metadata may not change.
    Kept,
    /// The rules of the kind.
    Rules,
    /// Rules that stand beside those.
    Beside,
    /// What of the kind may not change.
    Changes,
}

use Check::{Beside, Changes, Kept, Metadata, Rules};

fn of_new(info: &ResourceInfo) -> &'static [Check] {
    match (info.group(), info.plural()) {
        ("", "events") | ("policy", "poddisruptionbudgets") => &[Rules],
        ("events.k8s.io", _) => &[Rules, Metadata, Beside],
        ("", "persistentvolumes") => &[Metadata, Rules, Beside],
        _ => &[Metadata, Rules],
    }
}

fn of_changed(info: &ResourceInfo) -> &'static [Check] {
    match (info.group(), info.plural()) {
        ("", "configmaps" | "secrets" | "serviceaccounts" | "services") => &[Kept, Changes, Metadata, Rules],
        ("", "persistentvolumeclaims") => &[Metadata, Rules, Kept, Metadata, Rules, Changes],
        ("", "persistentvolumes") => &[Metadata, Rules, Beside, Metadata, Rules, Changes],
        ("", "pods" | "endpoints") => &[Kept, Metadata, Rules, Changes],
        ("", "events") | ("policy", _) => &[Rules],
        ("events.k8s.io", _) => &[Rules, Kept, Changes],
        ("coordination.k8s.io", _) => &[Kept, Rules],
        ("discovery.k8s.io", _) => &[Metadata, Rules, Changes],
        ("storage.k8s.io", _) => &[Metadata, Rules, Kept, Changes],
        ("scheduling.k8s.io", _) => &[Kept, Changes],
        ("batch", "jobs") | ("", "nodes" | "namespaces") => &[Metadata, Rules, Kept, Changes],
        ("rbac.authorization.k8s.io", _) => &[Metadata, Rules, Metadata, Rules, Kept, Changes],
        _ => &[Kept, Rules, Changes],
    }
}

/// The kinds that ask finalizers to be known ones.
fn is_strict(info: &ResourceInfo) -> bool {
    !info.custom && !matches!(info.group(), "coordination.k8s.io" | "apiextensions.k8s.io")
}

/// All that is wrong with a new object.
pub fn check_new(info: &ResourceInfo, object: &Value) -> Vec<FieldError> {
    let errors: Vec<FieldError> =
        of_new(info).iter().flat_map(|check| run(*check, info, &Value::Null, object)).collect();
    // Metadata that the kind itself does not look at has its turn when all else is right.
    if errors.is_empty() { validate(object, NameRule::PathSegment) } else { errors }
}

/// What everybody's changes are looked at for.
pub fn check_common(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate(new, NameRule::PathSegment);
    errors.extend(validate_update(old, new));
    errors
}

/// All that is wrong with a changed object.
pub fn check_changed(info: &ResourceInfo, old: &Value, new: &Value, status_only: bool) -> Vec<FieldError> {
    let mut errors = check_common(old, new);
    if !status_only {
        errors.extend(of_changed(info).iter().flat_map(|check| run(*check, info, old, new)));
        return errors;
    }
    if info.group() != "policy" {
        errors.extend(run(Kept, info, old, new));
    }
    errors.extend(super::validate_status(info, old, new));
    errors
}

fn run(check: Check, info: &ResourceInfo, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = match check {
        Metadata => validate(new, NameRule::of(info)),
        Kept => validate_update(old, new),
        Rules if info.storage == definitions::storage() => return definitions::validate(new),
        Rules => return super::validate(info, new, (!old.is_null()).then_some(old)),
        Beside => return super::validate_beside(info, new),
        Changes => return super::validate_update(info, old, new),
    };
    if is_strict(info) {
        errors.extend(validate_own_finalizers(new));
    }
    errors
}
