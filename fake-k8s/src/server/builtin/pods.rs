//! Pods: their defaults, and the few fields of a running pod that may change.
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::set_default;
use crate::server::metadata::label_1123_fault;
use crate::server::{FieldError, FieldErrorKind};

/// Fills in a pod's spec, also that of a template.
pub fn default_spec(spec: &mut Map<String, Value>) {
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
    ] {
        set_default(spec, field, value);
    }
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                default_container(container);
            }
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for source in ["secret", "configMap", "downwardAPI", "projected"] {
            if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
                set_default(source, "defaultMode", json!(420));
            }
        }
        let known = volume.as_object().is_some_and(|v| v.len() > 1);
        if !known && volume.is_object() {
            volume["emptyDir"] = json!({});
        }
    }
}

/// What admission adds to a pod, but not to a template.
pub fn admit(spec: &mut Map<String, Value>, service_accounts: bool) {
    if service_accounts {
        set_default(spec, "serviceAccountName", json!("default"));
        let account = spec["serviceAccountName"].clone();
        spec.insert("serviceAccount".into(), account);
    }
    set_default(spec, "enableServiceLinks", json!(true));
    set_default(spec, "priority", json!(0));
    set_default(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(list) = tolerations.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covered = |t: &Value| {
            (t["key"] == key || (t["key"].as_str().is_none_or(str::is_empty) && t["operator"] == "Exists"))
                && (t["effect"].as_str().is_none_or(str::is_empty) || t["effect"] == "NoExecute")
        };
        if !list.iter().any(covered) {
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

fn default_container(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let tag = image.rsplit('/').next().unwrap_or_default().split_once(':').map(|(_, tag)| tag);
    let latest = !image.contains('@') && matches!(tag, None | Some("latest"));
    set_default(container, "imagePullPolicy", json!(if latest { "Always" } else { "IfNotPresent" }));
    set_default(container, "terminationMessagePath", json!("/dev/termination-log"));
    set_default(container, "terminationMessagePolicy", json!("File"));
    set_default(container, "resources", json!({}));
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            set_default(port, "protocol", json!("TCP"));
        }
    }
    for field in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = field.pointer_mut("/valueFrom/fieldRef").and_then(Value::as_object_mut) {
            set_default(reference, "apiVersion", json!("v1"));
        }
    }
    // A limit without a request asks for as much.
    let resources = container.get_mut("resources").and_then(Value::as_object_mut);
    if let Some(resources) = resources
        && let Some(Value::Object(limits)) = resources.get("limits").cloned()
    {
        let requests = resources.entry("requests").or_insert_with(|| json!({}));
        if let Some(requests) = requests.as_object_mut() {
            limits.into_iter().for_each(|(name, limit)| set_default(requests, &name, limit));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
            default_probe(probe);
        }
    }
}

fn default_probe(probe: &mut Map<String, Value>) {
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if probe.get(field).and_then(Value::as_i64).unwrap_or(0) == 0 {
            probe.insert(field.into(), json!(value));
        }
    }
    if let Some(http) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
        set_default(http, "scheme", json!("HTTP"));
        set_default(http, "path", json!("/"));
    }
}

/// Guaranteed, Burstable or BestEffort.
pub fn qos_class(pod: &Value) -> &'static str {
    let containers = || containers(pod).map(|(_, c)| &c["resources"]);
    let amount = |r: &Value, kind: &str, name: &str| r[kind][name].as_str().map(str::to_owned).unwrap_or_default();
    let wants =
        |r: &Value| ["requests", "limits"].iter().any(|k| ["cpu", "memory"].iter().any(|n| !r[*k][*n].is_null()));
    if !containers().any(wants) {
        return "BestEffort";
    }
    let fixed = |r: &Value| {
        ["cpu", "memory"].iter().all(|n| {
            let limit = amount(r, "limits", n);
            !limit.is_empty() && limit == amount(r, "requests", n)
        })
    };
    if containers().all(fixed) { "Guaranteed" } else { "Burstable" }
}

/// Every container with its path.
fn containers(pod: &Value) -> impl Iterator<Item = (String, &Value)> {
    ["initContainers", "containers"].into_iter().flat_map(move |list| {
        let all = pod["spec"][list].as_array().into_iter().flatten().enumerate();
        all.map(move |(i, c)| (format!("spec.{list}[{i}]"), c))
    })
}

/// The mistakes in a pod that would otherwise surface as odd behaviour of a kubelet.
pub fn validate(pod: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &pod["spec"];
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required("spec.containers", ""));
    }
    let supported = ["Always", "Never", "OnFailure"];
    if !supported.contains(&spec["restartPolicy"].as_str().unwrap_or_default()) {
        let all = supported.map(str::to_owned);
        errors.push(FieldError::not_supported("spec.restartPolicy", spec["restartPolicy"].clone(), &all));
    }
    for field in ["hostname", "subdomain"] {
        if let Some(why) = spec[field].as_str().filter(|h| !h.is_empty()).and_then(label_1123_fault) {
            errors.push(FieldError::invalid(format!("spec.{field}"), spec[field].clone(), why));
        }
    }
    let mut volumes = BTreeSet::new();
    for (i, volume) in spec["volumes"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.volumes[{i}].name");
        let name = volume["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if let Some(why) = label_1123_fault(name) {
            errors.push(FieldError::invalid(path, name, why));
        } else if !volumes.insert(name) {
            errors.push(FieldError::duplicate(path, name));
        }
    }
    let mut names = BTreeSet::new();
    for (path, container) in containers(pod) {
        let name = container["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if let Some(why) = label_1123_fault(name) {
            errors.push(FieldError::invalid(format!("{path}.name"), name, why));
        } else if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        validate_container(&path, container, &volumes, &mut errors);
    }
    errors
}

fn validate_container(path: &str, container: &Value, volumes: &BTreeSet<&str>, errors: &mut Vec<FieldError>) {
    if container["image"].as_str().is_none_or(str::is_empty) {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    }
    for (i, mount) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
        let name = mount["name"].as_str().unwrap_or_default();
        let at = |field: &str| format!("{path}.volumeMounts[{i}].{field}");
        if name.is_empty() {
            errors.push(FieldError::required(at("name"), ""));
        } else if !volumes.contains(name) {
            errors.push(FieldError::of(FieldErrorKind::NotFound, at("name"), json!(name), ""));
        }
        if mount["mountPath"].as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(at("mountPath"), ""));
        }
    }
    for (i, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        if variable["name"].as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(format!("{path}.env[{i}].name"), ""));
        }
    }
    for (i, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
        let number = port["containerPort"].as_i64().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            let at = format!("{path}.ports[{i}].containerPort");
            errors.push(FieldError::invalid(at, number, "must be between 1 and 65535, inclusive"));
        }
    }
}

const ONLY_THESE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A pod is what it was created as, but for its images and a few more fields.
pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut allowed = new["spec"].clone();
    for list in ["containers", "initContainers"] {
        let (before, after) = (old["spec"][list].as_array(), allowed.get_mut(list).and_then(Value::as_array_mut));
        if let (Some(before), Some(after)) = (before, after) {
            if before.len() != after.len() {
                errors.push(FieldError::forbidden(
                    format!("spec.{list}"),
                    "pod updates may not add or remove containers",
                ));
                return errors;
            }
            for (b, a) in before.iter().zip(after) {
                a["image"] = b["image"].clone();
            }
        }
    }
    let fields = ["activeDeadlineSeconds", "tolerations"];
    for field in fields {
        if let Some(map) = allowed.as_object_mut() {
            crate::server::object::set_or_remove(map, field, &old["spec"][field]);
        }
    }
    let tolerations = |pod: &Value| pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let now = tolerations(new);
    if !tolerations(old).iter().all(|t| now.contains(t)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", detail));
    }
    if let (Some(before), after) =
        (old["spec"]["activeDeadlineSeconds"].as_i64(), &new["spec"]["activeDeadlineSeconds"])
    {
        match after.as_i64() {
            None => errors.push(FieldError::invalid(
                "spec.activeDeadlineSeconds",
                Value::Null,
                "must not update from a positive integer to nil value",
            )),
            Some(now) if now > before => errors.push(FieldError::invalid(
                "spec.activeDeadlineSeconds",
                now,
                format!("must be less than or equal to previous value: {before}"),
            )),
            Some(_) => {}
        }
    }
    if allowed != old["spec"] {
        let changed = differences(&old["spec"], &allowed);
        errors.push(FieldError::forbidden("spec", format!("{ONLY_THESE}\n{}", changed.join("\n"))));
    }
    errors
}

fn differences(old: &Value, new: &Value) -> Vec<String> {
    let keys: BTreeSet<&String> = [old, new].iter().filter_map(|v| v.as_object()).flat_map(|m| m.keys()).collect();
    let changed = keys.into_iter().filter(|k| old[k.as_str()] != new[k.as_str()]);
    changed.map(|k| format!("- {k}: {}\n+ {k}: {}", old[k.as_str()], new[k.as_str()])).collect()
}
