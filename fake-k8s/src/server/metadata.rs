//! The rules of `metadata`: names, labels, annotations, owner references, finalizers, and what may never change.
use jiff::Timestamp;
use serde_json::Value;

use super::resource::ResourceInfo;
use super::{FieldError, FieldErrorKind, object};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The wire form of a moment.
pub(crate) fn time_text(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Checks the metadata of an object that is to be stored.
pub(crate) fn validate(info: &ResourceInfo, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_name(info, object::name(object), &mut errors);
    let meta = &object["metadata"];
    validate_labels(&meta["labels"], "metadata.labels", &mut errors);
    validate_annotations(&meta["annotations"], &mut errors);
    validate_owners(&meta["ownerReferences"], &mut errors);
    for (i, finalizer) in object::finalizers(object).iter().enumerate() {
        let known = ["orphan", "foregroundDeletion", "kubernetes"].contains(finalizer);
        if !known && !finalizer.contains('/') && info.group().is_empty() {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{i}]"), *finalizer, detail));
        } else if let Some(why) = qualified_name_fault(finalizer) {
            errors.push(FieldError::invalid(format!("metadata.finalizers[{i}]"), *finalizer, why));
        }
    }
    errors
}

fn validate_name(info: &ResourceInfo, name: &str, errors: &mut Vec<FieldError>) {
    let field = "metadata.name";
    if name.is_empty() {
        errors.push(FieldError::required(field, "name or generateName is required"));
        return;
    }
    let fault = match (info.group(), info.plural()) {
        ("", "services") => label_1035_fault(name),
        ("", "namespaces") => label_1123_fault(name),
        ("rbac.authorization.k8s.io", _) => path_segment_fault(name),
        _ => subdomain_fault(name),
    };
    errors.extend(fault.map(|why| FieldError::invalid(field, name, why)));
}

fn path_segment_fault(name: &str) -> Option<String> {
    match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        n if n.contains('/') => Some("may not contain '/'".into()),
        n if n.contains('%') => Some("may not contain '%'".into()),
        _ => None,
    }
}

fn too_long(name: &str, limit: usize) -> Option<String> {
    (name.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

/// Why this is not a DNS-1123 subdomain.
pub(crate) fn subdomain_fault(name: &str) -> Option<String> {
    too_long(name, 253).or_else(|| {
        let ok = name.split('.').all(|part| is_dns_label(part, false));
        (!ok).then(|| SUBDOMAIN.to_owned())
    })
}

/// Why this is not a DNS-1123 label.
pub(crate) fn label_1123_fault(name: &str) -> Option<String> {
    too_long(name, 63).or_else(|| (!is_dns_label(name, false)).then(|| LABEL_1123.to_owned()))
}

/// Why this is not a DNS-1035 label.
pub(crate) fn label_1035_fault(name: &str) -> Option<String> {
    too_long(name, 63).or_else(|| (!is_dns_label(name, true)).then(|| LABEL_1035.to_owned()))
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

fn qualified_name_fault(key: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                return Some("prefix part must be non-empty".into());
            }
            if let Some(why) = subdomain_fault(prefix) {
                return Some(format!("prefix part {why}"));
            }
            name
        }
        _ => {
            return Some("a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".into());
        }
    };
    if name.is_empty() {
        return Some("name part must be non-empty".into());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".into());
    }
    (!is_word(name)).then(|| QUALIFIED.to_owned())
}

/// Checks a map of labels at `field`.
pub(crate) fn validate_labels(labels: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        if let Some(why) = qualified_name_fault(key) {
            errors.push(FieldError::invalid(field, key.as_str(), why));
        }
        let Some(text) = value.as_str() else {
            errors.push(FieldError::invalid(field, value.clone(), "must be a string"));
            continue;
        };
        if text.len() > 63 {
            errors.push(FieldError::invalid(field, text, "must be no more than 63 bytes"));
        } else if !text.is_empty() && !is_word(text) {
            errors.push(FieldError::invalid(field, text, LABEL_VALUE));
        }
    }
}

fn validate_annotations(annotations: &Value, errors: &mut Vec<FieldError>) {
    let field = "metadata.annotations";
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        if let Some(why) = qualified_name_fault(&key.to_lowercase()) {
            errors.push(FieldError::invalid(field, key.as_str(), why));
        }
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
    let mut controllers = 0;
    for (i, owner) in owners.as_array().into_iter().flatten().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                let detail = format!("{} must not be empty", if field == "apiVersion" { "version" } else { field });
                let path = format!("metadata.ownerReferences[{i}].{field}");
                errors.push(FieldError::invalid(path, owner[field].as_str().unwrap_or(""), detail));
            }
        }
        controllers += i32::from(owner["controller"] == true);
    }
    if controllers > 1 {
        let detail = "Only one reference can have Controller set to true";
        errors.push(FieldError::invalid("metadata.ownerReferences", owners.clone(), detail));
    }
}

/// What a writer may not change; `new` has already been given the fields that only the server sets.
pub(crate) fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if object::is_deleting(old) {
        let before = object::finalizers(old);
        let added: Vec<&str> = object::finalizers(new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    if new["metadata"]["creationTimestamp"] != old["metadata"]["creationTimestamp"] {
        let value = new["metadata"]["creationTimestamp"].clone();
        errors.push(FieldError::invalid("metadata.creationTimestamp", value, "field is immutable"));
    }
    errors
}
