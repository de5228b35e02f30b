//! Defaults and rules of the built-in kinds: what our users see of them, one file for each group of kinds.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::resource::ResourceInfo;
use super::{FieldError, object};

mod pods;
pub(super) mod services;
mod volumes;

/// Fills in what the API server fills in, for a new object as for a changed one.
pub(super) fn default_object(info: &ResourceInfo, object: &mut Value) {
    match (info.group(), info.plural()) {
        ("", "pods") => pods::default_spec(object::entry_object(object, "spec")),
        ("", "services") => services::default_service(object),
        ("", "secrets") => default_secret(object),
        ("", "persistentvolumeclaims") => volumes::default_claim(object),
        ("", "persistentvolumes") => volumes::default_volume(object),
        ("storage.k8s.io", "storageclasses") => volumes::default_class(object),
        ("apps", _) | ("batch", "jobs") => default_workload(info, object),
        _ => {}
    }
}

/// What a new object of a kind starts with, status included.
pub(super) fn begin(info: &ResourceInfo, object: &mut Value, service_accounts: bool) {
    if info.status && !info.is("", "nodes") {
        object.as_object_mut().map(|o| o.remove("status"));
    }
    match (info.group(), info.plural()) {
        ("", "pods") => {
            pods::admit(object::entry_object(object, "spec"), service_accounts);
            object["status"] = json!({"phase": "Pending", "qosClass": pods::qos_class(object)});
        }
        ("", "namespaces") => {
            let name = object::name(object).to_owned();
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
            let labels = object::meta_mut(object).entry("labels").or_insert_with(|| json!({}));
            labels["kubernetes.io/metadata.name"] = Value::String(name);
        }
        ("", "services") => object["status"] = json!({"loadBalancer": {}}),
        ("", "persistentvolumeclaims" | "persistentvolumes") => {
            object["status"] = json!({"phase": "Pending"});
            let name = if info.plural() == "persistentvolumes" { "pv" } else { "pvc" };
            add_finalizer(object, &format!("kubernetes.io/{name}-protection"));
        }
        _ => {}
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    if object::finalizers(object).contains(&finalizer) {
        return;
    }
    let list = object::meta_mut(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.push(json!(finalizer));
    }
}

/// What is wrong with an object, whether new or changed.
pub(super) fn validate(info: &ResourceInfo, object: &Value) -> Vec<FieldError> {
    match (info.group(), info.plural()) {
        ("", "pods") => pods::validate(object),
        ("", "services") => services::validate(object),
        ("", "persistentvolumeclaims") => volumes::validate_claim(object),
        _ => Vec::new(),
    }
}

/// What may not change in this way.
pub(super) fn validate_update(info: &ResourceInfo, old: &Value, new: &Value) -> Vec<FieldError> {
    match (info.group(), info.plural()) {
        ("", "pods") => pods::validate_update(old, new),
        ("", "services") => services::validate_update(old, new),
        ("", "persistentvolumeclaims") => volumes::validate_claim_update(old, new),
        ("", "secrets" | "configmaps") => immutable_data(old, new),
        ("storage.k8s.io", "storageclasses") => volumes::validate_class_update(old, new),
        ("batch", "jobs") => immutable(old, new, "spec", "template"),
        ("apps", "deployments" | "daemonsets" | "replicasets") => immutable(old, new, "spec", "selector"),
        _ => Vec::new(),
    }
}

/// What a changed object keeps of the old one where the writer left it out: values that the server allocated.
pub(super) fn carry_over(info: &ResourceInfo, old: &Value, new: &mut Value) {
    if info.is("", "services") {
        services::carry_over(old, new);
    }
    if info.is("", "namespaces") {
        new["spec"] = old["spec"].clone();
    }
}

fn immutable(old: &Value, new: &Value, part: &str, field: &str) -> Vec<FieldError> {
    if old[part][field] == new[part][field] {
        return Vec::new();
    }
    vec![FieldError::invalid(format!("{part}.{field}"), new[part][field].clone(), "field is immutable")]
}

fn immutable_data(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old["type"] != new["type"] {
        errors.push(FieldError::invalid("type", new["type"].clone(), "field is immutable"));
    }
    if old["immutable"] == true {
        if new["immutable"] != true {
            errors.push(FieldError::forbidden("immutable", "field is immutable when `immutable` is set"));
        }
        for field in ["data", "binaryData"] {
            if old[field] != new[field] {
                errors.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
            }
        }
    }
    errors
}

fn default_secret(object: &mut Value) {
    let plain = object.as_object_mut().and_then(|o| o.remove("stringData"));
    if let Some(Value::Object(plain)) = plain {
        let data = object::entry_object(object, "data");
        for (key, text) in plain {
            if let Value::String(text) = text {
                data.insert(key, Value::String(STANDARD.encode(text)));
            }
        }
    }
    let fields = object.as_object_mut().expect("decoded objects are objects");
    set_default(fields, "type", json!("Opaque"));
}

fn default_workload(info: &ResourceInfo, object: &mut Value) {
    let spec = object::entry_object(object, "spec");
    if let Some(template) = spec.get_mut("template").filter(|t| t["spec"].is_object()) {
        pods::default_spec(object::entry_object(template, "spec"));
    }
    match info.plural() {
        "deployments" => {
            set_default(spec, "replicas", json!(1));
            set_default(spec, "revisionHistoryLimit", json!(10));
            set_default(spec, "progressDeadlineSeconds", json!(600));
            let strategy =
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
            set_default(spec, "strategy", strategy);
        }
        "replicasets" | "statefulsets" => set_default(spec, "replicas", json!(1)),
        "jobs" => {
            for (field, value) in [
                ("parallelism", json!(1)),
                ("completions", json!(1)),
                ("backoffLimit", json!(6)),
                ("suspend", json!(false)),
                ("completionMode", json!("NonIndexed")),
            ] {
                set_default(spec, field, value);
            }
        }
        _ => {}
    }
}

fn set_default(map: &mut Map<String, Value>, field: &str, value: Value) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.to_owned(), value);
    }
}
