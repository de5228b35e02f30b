//! In which order an object is checked: as the kinds of Kubernetes do it, of which some look at the metadata twice and
//! some not at all. What is wrong with an object is told in this order, and as often as it was found.
use serde_json::Value;

use super::builtin;
use super::metadata::{NameRule, validate, validate_own_finalizers, validate_update};
use super::resource::ResourceInfo;
use super::{FieldError, definitions};

/// One look at an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// At its metadata by the rules of Kubernetes' own kinds.
    Metadata,
    /// At its metadata by the rules of everybody.
    PlainMetadata,
    /// At what may not change in the metadata.
    MetadataChange,
    /// At all the rest.
    Rest,
    /// At what may not change in the rest.
    RestChange,
}

use Look::{Metadata, MetadataChange, PlainMetadata, Rest, RestChange};

fn on_create(info: &ResourceInfo) -> &'static [Look] {
    match (info.group(), info.plural()) {
        ("policy", "poddisruptionbudgets") | ("", "events") => &[Rest],
        ("coordination.k8s.io" | "apiextensions.k8s.io", _) => &[PlainMetadata, Rest],
        _ => &[Metadata, Rest],
    }
}

fn on_update(info: &ResourceInfo) -> &'static [Look] {
    match (info.group(), info.plural()) {
        ("", "configmaps" | "secrets" | "services") => &[MetadataChange, RestChange, Metadata, Rest],
        ("", "pods" | "serviceaccounts" | "endpoints") => &[MetadataChange, Metadata, Rest, RestChange],
        ("", "events") => &[Rest, RestChange],
        ("discovery.k8s.io", _) => &[Metadata, Rest, RestChange],
        ("policy", "poddisruptionbudgets") => &[Rest],
        ("apps" | "coordination.k8s.io" | "apiextensions.k8s.io", _) | ("batch", "cronjobs") => {
            &[MetadataChange, Rest, RestChange]
        }
        ("rbac.authorization.k8s.io", _) => &[Metadata, Rest, Metadata, Rest, MetadataChange, RestChange],
        ("scheduling.k8s.io", _) => &[MetadataChange, RestChange],
        _ => &[Metadata, Rest, MetadataChange, RestChange],
    }
}

fn on_status_update(info: &ResourceInfo) -> &'static [Look] {
    match (info.group(), info.plural()) {
        ("policy", "poddisruptionbudgets") => &[],
        _ => &[MetadataChange],
    }
}

fn look(look: Look, info: &ResourceInfo, new: &Value, old: &Value) -> Vec<FieldError> {
    let definition = info.storage == definitions::storage();
    match look {
        Metadata => {
            let mut errors = validate(new, NameRule::of(info));
            errors.extend(validate_own_finalizers(new));
            errors
        }
        PlainMetadata => validate(new, NameRule::of(info)),
        MetadataChange => validate_update(old, new),
        Rest if definition => definitions::validate(new),
        Rest => builtin::validate(info, new),
        RestChange => builtin::validate_update(info, old, new),
    }
}

/// What is wrong with a new object of a built-in kind. Only if its kind finds nothing, the metadata is looked at by the
/// rules of everybody.
pub(super) fn check_new(info: &ResourceInfo, new: &Value) -> Vec<FieldError> {
    let own: Vec<FieldError> = on_create(info).iter().flat_map(|l| look(*l, info, new, &Value::Null)).collect();
    if own.is_empty() { validate(new, NameRule::PathSegment) } else { own }
}

/// What is wrong with a changed object of a built-in kind.
pub(super) fn check_changed(info: &ResourceInfo, old: &Value, new: &Value, status_only: bool) -> Vec<FieldError> {
    let own = if status_only { on_status_update(info) } else { on_update(info) };
    let mut errors = check_common(old, new);
    errors.extend(own.iter().flat_map(|l| look(*l, info, new, old)));
    errors
}

/// What everybody's changes are looked at for.
pub(super) fn check_common(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = validate(new, NameRule::PathSegment);
    errors.extend(validate_update(old, new));
    errors
}
