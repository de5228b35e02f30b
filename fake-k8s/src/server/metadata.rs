//! The rules of `metadata`: names, labels, annotations, owner references, finalizers, and what may never change.
use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::delete::{FOREGROUND, ORPHAN};
use super::resource::ResourceInfo;
use super::{FieldError, FieldErrorKind, object};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", ORPHAN, FOREGROUND];
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The wire form of a moment.
pub(crate) fn time_text(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What a name must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label1123,
    Label1035,
    PathSegment,
}

impl NameRule {
    /// The rule of the kind itself; before or after it, every name is checked as a part of a path.
    pub fn of(info: &ResourceInfo) -> Self {
        match (info.group(), info.plural()) {
            ("", "services") => Self::Label1035,
            ("", "namespaces") => Self::Label1123,
            ("rbac.authorization.k8s.io", _) => Self::PathSegment,
            _ => Self::Subdomain,
        }
    }

    /// `prefix`: something is still to be appended, so a dash at the end is none.
    fn faults(self, name: &str, prefix: bool) -> Vec<String> {
        let mut masked = name.to_owned();
        if prefix && name.len() > 1 && masked.ends_with('-') {
            masked.pop();
            masked.pop();
            masked.push('a');
        }
        match self {
            Self::Subdomain => subdomain_faults(&masked),
            Self::Label1123 => label_faults(&masked, false),
            Self::Label1035 => label_faults(&masked, true),
            Self::PathSegment => path_segment_faults(name, prefix),
        }
    }
}

/// Checks the metadata of an object that is to be stored.
pub(crate) fn validate(object: &Value, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = object::meta_str(object, "generateName");
    if !prefix.is_empty() {
        let faults = rule.faults(prefix, true).into_iter();
        errors.extend(faults.map(|why| FieldError::invalid("metadata.generateName", prefix, why)));
    }
    let name = object::name(object);
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let faults = rule.faults(name, false).into_iter();
        errors.extend(faults.map(|why| FieldError::invalid("metadata.name", name, why)));
    }
    let generation = object::generation(object);
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", generation, detail));
    }
    validate_maps_and_owners(object, &mut errors);
    validate_finalizers(object, &mut errors);
    errors
}

/// Kubernetes' own kinds take no finalizer that could be anybody's.
pub(crate) fn validate_own_finalizers(object: &Value) -> Vec<FieldError> {
    let all = object::finalizers(object).into_iter().enumerate();
    let bare = all.filter(|(_, name)| !name.contains('/') && !STANDARD_FINALIZERS.contains(name));
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    bare.map(|(i, name)| FieldError::invalid(format!("metadata.finalizers[{i}]"), name, detail)).collect()
}

/// What somebody who adds these finalizers to a custom resource is told.
pub(crate) fn finalizer_warnings(old: Option<&Value>, new: &Value) -> Vec<String> {
    let before: BTreeSet<&str> = old.map(object::finalizers).into_iter().flatten().collect();
    let added: BTreeSet<&str> = object::finalizers(new).into_iter().filter(|name| !before.contains(name)).collect();
    let mut warnings = Vec::new();
    for name in added {
        let mut warn = |why: &str| warnings.push(format!("metadata.finalizers: {name:?}: {why}"));
        qualified_name_faults(name).iter().for_each(|why| warn(why));
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            warn(&format!(
                "prefer a domain-qualified finalizer name {}to avoid accidental conflicts with other finalizer writers",
                if name.contains('.') { "including a path (/) " } else { "" }
            ));
        }
    }
    warnings
}

fn validate_maps_and_owners(object: &Value, errors: &mut Vec<FieldError>) {
    let meta = &object["metadata"];
    validate_labels(&meta["labels"], "metadata.labels", errors);
    validate_annotations(&meta["annotations"], "metadata.annotations", errors);
    validate_owners(&meta["ownerReferences"], errors);
}

fn validate_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    let (field, all) = ("metadata.finalizers", object::finalizers(object));
    for name in &all {
        errors.extend(qualified_name_faults(name).into_iter().map(|why| FieldError::invalid(field, *name, why)));
    }
    if all.contains(&ORPHAN) && all.contains(&FOREGROUND) {
        let detail = format!("finalizer {FOREGROUND} and {ORPHAN} cannot be both set");
        errors.push(FieldError::invalid(field, all, detail));
    }
}

fn path_segment_faults(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|bad| name.contains(*bad)).map(|bad| format!("may not contain '{bad}'")).collect()
}

/// Every fault that there is, as Kubernetes lists them: the length and the form are looked at each for itself.
fn faults(text: &str, limit: usize, well_formed: bool, form: &str) -> Vec<String> {
    let long = (text.len() > limit).then(|| format!("must be no more than {limit} characters"));
    long.into_iter().chain((!well_formed).then(|| form.to_owned())).collect()
}

/// Why this is not a DNS-1123 subdomain.
pub(crate) fn subdomain_faults(name: &str) -> Vec<String> {
    faults(name, 253, name.split('.').all(|part| is_dns_label(part, false)), SUBDOMAIN)
}

/// Why this is not a DNS label: one of RFC 1123, or of RFC 1035, which begins with a letter.
pub(crate) fn label_faults(name: &str, letter_first: bool) -> Vec<String> {
    faults(name, 63, is_dns_label(name, letter_first), if letter_first { LABEL_1035 } else { LABEL_1123 })
}

/// Why this is not a DNS-1123 label, in one sentence.
pub(crate) fn label_1123_fault(name: &str) -> Option<String> {
    label_faults(name, false).into_iter().next()
}

fn is_dns_label(text: &str, letter_first: bool) -> bool {
    let bytes = text.as_bytes();
    let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let first_ok = if letter_first { first.is_ascii_lowercase() } else { plain(first) };
    first_ok && plain(last) && bytes.iter().all(|b| plain(b) || *b == b'-')
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Why this is not a name with an optional domain before it.
pub(crate) fn qualified_name_faults(key: &str) -> Vec<String> {
    let parts: Vec<&str> = key.split('/').collect();
    let mut out = Vec::new();
    let name = match parts.as_slice() {
        [name] => *name,
        ["", name] => {
            out.push("prefix part must be non-empty".to_owned());
            *name
        }
        [prefix, name] => {
            out.extend(subdomain_faults(prefix).into_iter().map(|why| format!("prefix part {why}")));
            *name
        }
        _ => {
            let form = QUALIFIED;
            return vec![format!(
                "a qualified name {form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    }
    out.extend(faults(name, 63, is_word(name), QUALIFIED).into_iter().map(|why| format!("name part {why}")));
    out
}

/// Why this is not the value of a label.
pub(crate) fn label_value_faults(value: &str) -> Vec<String> {
    faults(value, 63, value.is_empty() || is_word(value), LABEL_VALUE)
}

/// Why this cannot be the value of a label.
pub(crate) fn label_value_fault(text: &str) -> Option<String> {
    first(label_value_faults(text))
}

/// Checks a map of labels at `field`.
pub(crate) fn validate_labels(labels: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.extend(qualified_name_faults(key).into_iter().map(|why| FieldError::invalid(field, key.as_str(), why)));
        match value.as_str() {
            Some(text) => {
                errors.extend(label_value_faults(text).into_iter().map(|why| FieldError::invalid(field, text, why)));
            }
            None => errors.push(FieldError::invalid(field, value.clone(), "must be a string")),
        }
    }
}

/// Checks a map of annotations at `field`.
pub(crate) fn validate_annotations(annotations: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let faults = qualified_name_faults(&key.to_lowercase()).into_iter();
        errors.extend(faults.map(|why| FieldError::invalid(field, key.as_str(), why)));
        match value.as_str() {
            Some(text) => size += key.len() + text.len(),
            None => errors.push(FieldError::invalid(field, value.clone(), "must be a string")),
        }
    }
    if size > ANNOTATIONS_LIMIT {
        let detail = format!("may not be more than {ANNOTATIONS_LIMIT} bytes");
        errors.push(FieldError::of(FieldErrorKind::TooLong, field, Value::Null, detail));
    }
}

fn validate_owners(owners: &Value, errors: &mut Vec<FieldError>) {
    let mut controller: Option<String> = None;
    for owner in owners.as_array().into_iter().flatten() {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        for (field, filled, why) in [
            ("apiVersion", version, "version must not be empty"),
            ("kind", text("kind"), "must not be empty"),
            ("name", text("name"), "must not be empty"),
            ("uid", text("uid"), "must not be empty"),
        ] {
            if filled.is_empty() {
                errors.push(FieldError::invalid(format!("metadata.ownerReferences.{field}"), text(field), why));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid("metadata.ownerReferences", owner.clone(), detail));
        }
        if owner["controller"] != true {
            continue;
        }
        let this = format!("{}/{}", text("kind"), text("name"));
        if let Some(first) = &controller {
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
            );
            errors.push(FieldError::invalid("metadata.ownerReferences", owners.clone(), detail));
        } else {
            controller = Some(this);
        }
    }
}

/// What a writer may not change.
pub(crate) fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if object::is_deleting(old) {
        let before = object::finalizers(old);
        let added: BTreeSet<&str> = object::finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = &new["metadata"][field];
        if *value != old["metadata"][field] {
            errors.push(FieldError::invalid(format!("metadata.{field}"), value.clone(), "field is immutable"));
        }
    }
    validate_maps_and_owners(new, &mut errors);
    errors
}

/// The first reason, for those who tell only one.
fn first(faults: Vec<String>) -> Option<String> {
    faults.into_iter().next()
}

/// Why this is not a DNS-1123 subdomain.
pub(crate) fn subdomain_fault(name: &str) -> Option<String> {
    first(subdomain_faults(name))
}

/// Why this cannot be a step of a path.
pub(crate) fn path_segment_fault(name: &str) -> Option<String> {
    first(path_segment_faults(name, false))
}

/// Why this is not a name with an optional domain before it.
pub(crate) fn qualified_name_fault(key: &str) -> Option<String> {
    first(qualified_name_faults(key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(|e| format!("{}: {}", e.field, e.detail)).collect()
    }

    #[test]
    fn every_fault_of_metadata_is_told() {
        let meta = |meta: Value| json!({"metadata": meta});
        let starts = |object: &Value, rule, expected: &[&str]| {
            let told = said(&validate(object, rule));
            assert_eq!(told.len(), expected.len(), "{told:?}");
            for (told, expected) in told.iter().zip(expected) {
                assert!(told.starts_with(expected), "{told} does not start with {expected}");
            }
        };
        starts(&meta(json!({"name": "a-b.c", "generateName": "a-"})), NameRule::Subdomain, &[]);
        starts(&meta(json!({})), NameRule::Subdomain, &["metadata.name: name or generateName is required"]);
        starts(&meta(json!({"name": "1a"})), NameRule::Label1035, &["metadata.name: a DNS-1035 label"]);
        starts(&meta(json!({"name": "A:b"})), NameRule::PathSegment, &[]);
        let long = "A".repeat(254);
        let expected = ["metadata.name: must be no more than 253 characters", "metadata.name: a lowercase RFC 1123"];
        starts(&meta(json!({"name": long})), NameRule::Subdomain, &expected);
        let labels = json!({"name": "a", "labels": {"/": "", "a/b/c": "-x-"}, "annotations": {"bad key!": "x"}});
        let expected = [
            "metadata.labels: prefix part must be non-empty",
            "metadata.labels: name part must be non-empty",
            "metadata.labels: name part must consist of",
            "metadata.labels: a qualified name must consist of",
            "metadata.labels: a valid label must be an empty string or consist of",
            "metadata.annotations: name part must consist of",
        ];
        starts(&meta(labels), NameRule::Subdomain, &expected);
        let owner = |kind: &str| json!({"apiVersion": "", "kind": kind, "name": "n", "uid": "u", "controller": true});
        let expected = [
            "metadata.ownerReferences.apiVersion: version must not be empty",
            "metadata.ownerReferences.apiVersion: version must not be empty",
            "metadata.ownerReferences: Only one reference can have Controller set to true. Found \"true\" in references for A/n and B/n",
        ];
        starts(
            &meta(json!({"name": "a", "ownerReferences": [owner("A"), owner("B")]})),
            NameRule::Subdomain,
            &expected,
        );
        let expected = ["metadata.finalizers: finalizer foregroundDeletion and orphan cannot be both set"];
        starts(
            &meta(json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]})),
            NameRule::Subdomain,
            &expected,
        );
    }

    #[test]
    fn bare_finalizers_are_refused_or_warned_of() {
        let object = json!({"metadata": {"finalizers": ["nothing", "a.b", "example.com/x", "orphan"]}});
        assert_eq!(validate_own_finalizers(&object).len(), 2);
        assert_eq!(
            finalizer_warnings(None, &object),
            [
                "metadata.finalizers: \"a.b\": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers",
                "metadata.finalizers: \"nothing\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers",
            ]
        );
        assert!(finalizer_warnings(Some(&object), &object).is_empty());
    }
}
