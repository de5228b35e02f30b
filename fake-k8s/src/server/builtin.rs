//! Defaults and rules of the built-in kinds: what our users see of them, one file for each group of kinds.
use serde_json::{Map, Value, json};

use super::resource::ResourceInfo;
use super::{Admission, FieldError, object};

mod access;
pub(super) mod addresses;
mod bounds;
mod budgets;
mod checks;
mod claims;
mod classes;
mod data;
mod endpoints;
mod events;
mod jobs;
mod label_selectors;
mod leases;
mod nodes;
mod order;
mod pod_containers;
mod pod_defaults;
mod pod_env;
mod pod_probes;
mod pod_resources;
mod pod_scheduling;
mod pod_security;
mod pod_shape;
mod pod_update;
mod pod_volumes;
mod pod_warnings;
mod pods;
pub(super) mod service_rules;
pub(super) mod services;
mod shape;
mod unified_diff;
mod volumes;
mod workloads;

pub(super) use claims::requested;
pub(super) use order::{check_changed, check_common, check_new};

/// Fills in what the API server fills in, for a new object as for a changed one.
pub(super) fn default_object(info: &ResourceInfo, object: &mut Value) {
    default_template(info, object);
    match (info.group(), info.plural()) {
        ("", "pods") => pod_defaults::default_pod(object),
        ("", "services") => services::default_service(object),
        ("", "nodes") => nodes::default_node(object),
        ("", "endpoints") => endpoints::default_endpoints(object),
        ("discovery.k8s.io", "endpointslices") => endpoints::default_slice(object),
        ("", "configmaps") => data::default_config_map(object),
        ("", "secrets") => data::default_secret(object),
        ("", "serviceaccounts") => data::default_service_account(object),
        ("" | "events.k8s.io", "events") => events::default_event(object),
        ("", "persistentvolumeclaims") => claims::default_claim(object),
        ("", "persistentvolumes") => volumes::default_volume(object),
        ("coordination.k8s.io", "leases") => leases::default_lease(object),
        ("policy", "poddisruptionbudgets") => budgets::default_budget(object),
        ("storage.k8s.io", "storageclasses") => classes::default_storage(object),
        ("scheduling.k8s.io", "priorityclasses") => classes::default_priority(object),
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => access::default_role(object),
        ("rbac.authorization.k8s.io", _) => access::default_binding(object),
        ("apps", "deployments") => workloads::default_deployment(object),
        ("apps", "replicasets") => workloads::default_replica_set(object),
        ("apps", "statefulsets") => set_default(object::entry_object(object, "spec"), "replicas", json!(1)),
        ("batch", "jobs") => jobs::default_job(object),
        _ => {}
    }
}

/// What makes pods has the template of one.
fn default_template(info: &ResourceInfo, object: &mut Value) {
    if !(info.group() == "apps" || info.is("batch", "jobs")) {
        return;
    }
    let spec = object::entry_object(object, "spec");
    if let Some(template) = spec.get_mut("template").filter(|t| t["spec"].is_object()) {
        pod_defaults::default_spec(object::entry_object(template, "spec"));
    }
}

/// What a new object of a kind starts with, status included.
pub(super) fn begin(info: &ResourceInfo, object: &mut Value, admission: Admission, now: &str) {
    if info.status && !info.is("", "nodes") {
        object.as_object_mut().map(|o| o.remove("status"));
        // The new status has its defaults too.
        default_object(info, object);
    }
    match (info.group(), info.plural()) {
        ("", "pods") => {
            pod_defaults::admit(object::entry_object(object, "spec"), admission.service_accounts);
            object["status"] = pod_defaults::first_status(object);
        }
        ("", "nodes") if admission.node_taints => nodes::taint(object),
        ("", "namespaces") => {
            let name = object::name(object).to_owned();
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
            let labels = object::meta_mut(object).entry("labels").or_insert_with(|| json!({}));
            labels["kubernetes.io/metadata.name"] = Value::String(name);
        }
        ("", "services") => object["status"] = json!({"loadBalancer": {}}),
        ("", "persistentvolumeclaims") => {
            claims::align_sources(object, None);
            add_finalizer(object, "kubernetes.io/pvc-protection");
        }
        ("", "persistentvolumes") => {
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
            add_finalizer(object, "kubernetes.io/pv-protection");
        }
        ("batch", "jobs") => jobs::select(object),
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

/// What is wrong with an object, new or changed from `old`.
fn validate(info: &ResourceInfo, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match (info.group(), info.plural()) {
        ("", "pods") if old.is_none() => pods::validate(object),
        ("", "pods") => pods::validate_always(object),
        ("", "services") => service_rules::validate(object, old),
        ("", "nodes") => nodes::validate(object),
        ("", "endpoints") => endpoints::validate(object, old),
        ("discovery.k8s.io", "endpointslices") => endpoints::validate_slice(object, old),
        ("", "configmaps") => data::validate_config_map(object),
        ("", "secrets") => data::validate_secret(object),
        ("", "persistentvolumeclaims") => claims::validate_claim(object),
        ("", "persistentvolumes") => volumes::validate_volume(object),
        ("" | "events.k8s.io", "events") => events::validate_event(object, !info.group().is_empty()),
        ("coordination.k8s.io", "leases") => leases::validate_lease(object),
        ("policy", "poddisruptionbudgets") => budgets::validate_budget(object),
        ("storage.k8s.io", "storageclasses") => classes::validate_storage(object),
        ("scheduling.k8s.io", "priorityclasses") => classes::validate_priority(object),
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => access::validate_role(object, info.namespaced),
        ("rbac.authorization.k8s.io", _) => access::validate_binding(object, info.namespaced),
        ("apps", "deployments") => workloads::validate_deployment(object),
        ("apps", "replicasets") => workloads::validate_replica_set(object),
        ("apps", _) => workloads::validate_template(&object["spec"]["template"]),
        ("batch", "jobs") => jobs::validate_job(object, old),
        _ => Vec::new(),
    }
}

/// What is asked beside the rules of a kind.
fn validate_beside(info: &ResourceInfo, object: &Value) -> Vec<FieldError> {
    match (info.group(), info.plural()) {
        ("events.k8s.io", "events") => events::validate_new(object),
        ("", "persistentvolumes") => volumes::validate_mount_options(object).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// What may not change in this way.
fn validate_update(info: &ResourceInfo, old: &Value, new: &Value) -> Vec<FieldError> {
    match (info.group(), info.plural()) {
        ("", "pods") => pod_update::validate_update(old, new),
        ("", "services") => service_rules::validate_update(old, new),
        ("", "nodes") => nodes::validate_update(old, new),
        ("", "secrets" | "configmaps") => data::validate_update(old, new),
        ("", "persistentvolumeclaims") => claims::validate_update(old, new),
        ("", "persistentvolumes") => volumes::validate_update(old, new),
        ("events.k8s.io", "events") => events::validate_update(old, new),
        ("storage.k8s.io", "storageclasses") => classes::validate_storage_update(old, new),
        ("scheduling.k8s.io", "priorityclasses") => classes::validate_priority_update(old, new),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            access::validate_binding_update(old, new)
        }
        ("batch", "jobs") => jobs::validate_update(old, new),
        ("apps", "deployments" | "daemonsets" | "replicasets") => {
            workloads::validate_update(old, new).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// What is wrong with a status.
fn validate_status(info: &ResourceInfo, old: &Value, new: &Value) -> Vec<FieldError> {
    match (info.group(), info.plural()) {
        ("", "pods") => pod_update::validate_status(old, new),
        ("", "services") => service_rules::validate_status(old, new),
        ("", "nodes") => nodes::validate_update(old, new),
        ("policy", "poddisruptionbudgets") => budgets::validate_status(new),
        ("apps", "deployments" | "replicasets") => workloads::validate_status(old, new, info.plural() == "deployments"),
        ("batch", "jobs") => jobs::validate_status(old, new),
        _ => Vec::new(),
    }
}

/// What is accepted, but not without a word: an object that is new, or changed from `old`.
pub(super) fn warnings(info: &ResourceInfo, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut said: Vec<String> = match (info.group(), info.plural()) {
        ("", "pods") if old.is_none() => pod_warnings::of_pod(new),
        ("", "services") => services::warnings(new),
        ("", "nodes") => nodes::warnings(new),
        ("", "endpoints") => endpoints::warnings(new),
        ("discovery.k8s.io", "endpointslices") => endpoints::slice_warnings(new, old.is_none()),
        ("", "secrets") => data::secret_warning(new).into_iter().collect(),
        ("", "serviceaccounts") => data::account_warning(old, new).into_iter().collect(),
        ("", "persistentvolumeclaims") => claims::warnings(new),
        ("", "persistentvolumes") => volumes::warnings(new),
        ("apps", "deployments" | "replicasets") | ("batch", "jobs") if old.is_none() => {
            workloads::name_warning(object::name(new)).into_iter().collect()
        }
        _ => Vec::new(),
    };
    if info.group() == "apps" || info.is("batch", "jobs") {
        said.extend(template_warnings(info, new, old));
    }
    said
}

/// A template that stays as it was is not spoken of again.
fn template_warnings(info: &ResourceInfo, object: &Value, old: Option<&Value>) -> Vec<String> {
    let is_new = |old: &Value| is_new_generation(info, old, object).unwrap_or(old["spec"] != object["spec"]);
    let changed = old.is_none_or(is_new);
    if !changed || !object["spec"]["template"].is_object() || info.plural() == "cronjobs" {
        return Vec::new();
    }
    pod_warnings::of_template(&object["spec"]["template"], "spec.template.")
}

/// What a changed object keeps of the old one where the writer left it out: values that the server allocated.
pub(super) fn carry_over(info: &ResourceInfo, old: &Value, new: &mut Value) {
    match (info.group(), info.plural()) {
        ("", "pods") => pod_defaults::readmit(old, new),
        ("", "services") => services::carry_over(old, new),
        ("", "namespaces") => new["spec"] = old["spec"].clone(),
        ("", "persistentvolumeclaims") => claims::align_sources(new, Some(old)),
        _ => {}
    }
}

/// What a write of the status does beside.
pub(super) fn carry_status(info: &ResourceInfo, old: &Value, new: &mut Value, now: &str) {
    match (info.group(), info.plural()) {
        ("", "pods") => pod_update::carry_status(old, new),
        ("", "persistentvolumes") => volumes::stamp(old, new, now),
        ("apps", "deployments") => {
            object::set_or_remove(object::meta_mut(new), "labels", &old["metadata"]["labels"]);
        }
        _ => {}
    }
}

/// Does this change begin a new generation? `None` where that is a matter of the spec alone.
pub(super) fn is_new_generation(info: &ResourceInfo, old: &Value, new: &Value) -> Option<bool> {
    match (info.group(), info.plural()) {
        ("scheduling.k8s.io", "priorityclasses") => Some(false),
        // Replica sets are given the annotations too.
        ("apps", "deployments") => {
            let annotations = |object: &Value| object["metadata"]["annotations"].clone();
            Some(old["spec"] != new["spec"] || annotations(old) != annotations(new))
        }
        _ => None,
    }
}

/// Takes out fields that hold nothing: what is not written when it is empty.
fn drop_empty(object: &mut Value, fields: &[&str]) {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if let Some(all) = object.as_object_mut() {
        all.retain(|name, value| !(fields.contains(&name.as_str()) && empty(value)));
    }
}

fn set_default(map: &mut Map<String, Value>, field: &str, value: Value) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.to_owned(), value);
    }
}
