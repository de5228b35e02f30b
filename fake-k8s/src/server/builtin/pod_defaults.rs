//! What the API server fills into pods and templates of pods, and what admission adds to a pod.
use serde_json::{Map, Value, json};

use super::checks::{items_mut, number, text};
use super::set_default;
use crate::server::object;
use crate::server::quantities::Quantity;

/// Fills in a pod.
pub fn default_pod(pod: &mut Value) {
    let spec = object::entry_object(pod, "spec");
    default_spec(spec);
    set_default(spec, "enableServiceLinks", json!(true));
    if spec.get("terminationGracePeriodSeconds").is_some_and(|s| number(s) < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), json!(1));
    }
    let host_network = spec.get("hostNetwork").is_some_and(|h| *h == true);
    for container in containers_mut(spec) {
        default_requests(container);
        for port in items_mut(container, "ports").filter(|_| host_network) {
            if number(&port["hostPort"]) == 0 {
                port["hostPort"] = port["containerPort"].clone();
            }
        }
    }
    default_pod_requests(spec);
}

/// A limit without a request asks for as much.
fn default_requests(container: &mut Value) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Some(requests) = requests.as_object_mut() {
        limits.into_iter().for_each(|(name, limit)| set_default(requests, &name, limit));
    }
}

/// Limits of the whole pod are asked for as far as its containers ask for nothing.
fn default_pod_requests(spec: &mut Map<String, Value>) {
    let asked = super::pod_resources::aggregate_requests(spec);
    let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Some(requests) = requests.as_object_mut() {
        for (name, amount) in asked.into_iter().filter(|(name, _)| name == "cpu" || name == "memory") {
            set_default(requests, &name, json!(amount.to_string()));
        }
        limits.into_iter().for_each(|(name, limit)| set_default(requests, &name, limit));
    }
}

/// Fills in a pod's spec, also that of a template.
pub fn default_spec(spec: &mut Map<String, Value>) {
    let account = ["serviceAccountName", "serviceAccount"].map(|field| spec.get(field).map(text).unwrap_or_default());
    let account = account.into_iter().find(|name| !name.is_empty()).map(str::to_owned);
    if let Some(account) = account {
        spec.insert("serviceAccountName".into(), json!(account));
        spec.insert("serviceAccount".into(), json!(account));
    }
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
    ] {
        set_empty(spec, field, value);
    }
    containers_mut(spec).filter_map(Value::as_object_mut).for_each(default_container);
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(volume) = volume.as_object_mut() {
            default_volume(volume);
        }
    }
    spec.get_mut("overhead").into_iter().for_each(canonical_amounts);
    spec.get_mut("resources").into_iter().for_each(canonical_resources);
}

/// Containers of every sort.
fn containers_mut(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let lists = spec.iter_mut().filter(|(name, _)| ["containers", "initContainers"].contains(&name.as_str()));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten()
}

/// An empty text is as good as none.
fn set_empty(map: &mut Map<String, Value>, field: &str, value: Value) {
    if map.get(field).is_none_or(|v| v.is_null() || *v == "") {
        map.insert(field.to_owned(), value);
    }
}

fn canonical_amounts(list: &mut Value) {
    for amount in list.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(quantity) = Quantity::of(amount) {
            *amount = json!(quantity.rounded().to_string());
        }
    }
}

fn canonical_resources(resources: &mut Value) {
    for kind in ["limits", "requests"] {
        resources.get_mut(kind).into_iter().for_each(canonical_amounts);
    }
}

fn default_container(container: &mut Map<String, Value>) {
    let policy = pull_policy(container.get("image").map(text).unwrap_or_default());
    set_empty(container, "imagePullPolicy", json!(policy));
    set_empty(container, "terminationMessagePath", json!("/dev/termination-log"));
    set_empty(container, "terminationMessagePolicy", json!("File"));
    set_default(container, "resources", json!({}));
    container.get_mut("resources").into_iter().for_each(canonical_resources);
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            set_empty(port, "protocol", json!("TCP"));
        }
    }
    for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(source) = variable.get_mut("valueFrom") {
            default_downward(source);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
            default_probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        let hook = container.get_mut("lifecycle").and_then(|l| l.get_mut(hook));
        if let Some(http) = hook.and_then(|h| h.get_mut("httpGet")).and_then(Value::as_object_mut) {
            default_http(http);
        }
    }
}

/// What has no tag but `latest` is pulled each time; what is no name of an image is of no tag at all.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (folder, last) = name.rsplit_once('/').map_or(("", name), |(folder, last)| (folder, last));
    let (last, tag) = last.split_once(':').map_or((last, None), |(last, tag)| (last, Some(tag)));
    let host =
        |part: &str| part.contains(['.', ':']) || part == "localhost" || part.bytes().any(|b| b.is_ascii_uppercase());
    let folders = folder.split('/').enumerate().filter(|(i, part)| !part.is_empty() && (*i > 0 || !host(part)));
    let known = folders.map(|(_, part)| part).chain([last]).all(|part| {
        let plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = part.as_bytes();
        bytes.first().is_some_and(plain)
            && bytes.last().is_some_and(plain)
            && bytes.iter().all(|b| plain(b) || b"._-".contains(b))
    });
    if known && (tag == Some("latest") || (tag.is_none() && digest.is_none())) { "Always" } else { "IfNotPresent" }
}

fn default_downward(source: &mut Value) {
    if let Some(reference) = source.get_mut("fieldRef").and_then(Value::as_object_mut) {
        set_empty(reference, "apiVersion", json!("v1"));
    }
    if let Some(reference) = source.get_mut("resourceFieldRef").and_then(Value::as_object_mut) {
        let divisor = reference.get("divisor").and_then(Quantity::of).map_or("0".into(), |q| q.to_string());
        reference.insert("divisor".into(), json!(divisor));
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
        default_http(http);
    }
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        set_default(grpc, "service", json!(""));
    }
}

fn default_http(http: &mut Map<String, Value>) {
    set_empty(http, "scheme", json!("HTTP"));
    set_empty(http, "path", json!("/"));
}

fn default_volume(volume: &mut Map<String, Value>) {
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            set_default(source, "defaultMode", json!(420));
        }
    }
    if let Some(path) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        set_default(path, "type", json!(""));
    }
    if let Some(downward) = volume.get_mut("downwardAPI") {
        items_mut(downward, "items").for_each(default_downward);
    }
    if let Some(limit) = volume.get_mut("emptyDir").and_then(|e| e.get_mut("sizeLimit"))
        && let Some(quantity) = Quantity::of(limit)
    {
        *limit = json!(quantity.to_string());
    }
    for source in volume.get_mut("projected").map(|p| items_mut(p, "sources")).into_iter().flatten() {
        if let Some(downward) = source.get_mut("downwardAPI") {
            items_mut(downward, "items").for_each(default_downward);
        }
        if let Some(token) = source.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
            set_default(token, "expirationSeconds", json!(3600));
        }
    }
    let claim = volume.get_mut("ephemeral").and_then(|e| e.get_mut("volumeClaimTemplate"));
    if let Some(claim) = claim.and_then(|c| c.get_mut("spec")).and_then(Value::as_object_mut) {
        set_default(claim, "volumeMode", json!("Filesystem"));
    }
    let named = volume.iter().any(|(field, source)| field != "name" && source.is_object());
    if !named {
        volume.insert("emptyDir".into(), json!({}));
    }
}

/// What admission adds to a pod, new or changed, but not to a template.
pub fn admit(spec: &mut Map<String, Value>, service_accounts: bool) {
    if service_accounts {
        set_empty(spec, "serviceAccountName", json!("default"));
        let account = spec["serviceAccountName"].clone();
        spec.insert("serviceAccount".into(), account);
    }
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(list) = tolerations.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covered = |t: &Value| {
            (t["key"] == key || text(&t["key"]).is_empty()) && matches!(text(&t["effect"]), "" | "NoExecute")
        };
        if !list.iter().any(covered) {
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

/// What admission adds to a changed pod, or keeps of the old one.
pub fn readmit(old: &Value, new: &mut Value) {
    let spec = object::entry_object(new, "spec");
    for field in ["priority", "preemptionPolicy"] {
        if spec.get(field).is_none_or(Value::is_null) {
            object::set_or_remove(spec, field, &old["spec"][field]);
        }
    }
    admit(spec, false);
}

/// The status of a new pod.
pub fn first_status(pod: &Value) -> Value {
    let mut status = json!({"phase": "Pending", "qosClass": super::pod_resources::qos_class(pod)});
    let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    if gated {
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": null, "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates"}]);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_tells_when_to_pull() {
        for (image, policy) in [
            ("app", "Always"),
            ("example.com:5000/app", "Always"),
            ("example.com/app:latest", "Always"),
            ("example.com/app:1", "IfNotPresent"),
            ("app@sha256:0123", "IfNotPresent"),
            ("", "IfNotPresent"),
            ("example.com/App", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn only_a_pod_asks_for_what_it_is_limited_to() {
        let spec = || json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "1000m"}}}]});
        let mut template = spec();
        default_spec(template.as_object_mut().unwrap());
        assert_eq!(template["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
        let mut pod = json!({"spec": spec()});
        default_pod(&mut pod);
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "1"}));
        assert_eq!(pod["spec"]["enableServiceLinks"], true);
    }
}
