//! What is wrong with a pod, or with the template of one.
use std::collections::BTreeSet;

use serde_json::Value;

use super::checks::{Faults, count, items, number, text};
use super::pod_containers::{self, Surroundings};
use super::pod_shape::POD_RESOURCE_CLAIM;
use super::shape::{Shape, compact};
use super::{addresses, pod_resources, pod_scheduling, pod_security, pod_volumes};
use crate::server::metadata::{validate_annotations, validate_labels};
use crate::server::{FieldError, object};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What is wrong with a new pod, apart from its metadata.
pub fn validate(pod: &Value) -> Vec<FieldError> {
    let mut faults = Faults(validate_always(pod));
    let spec = &pod["spec"];
    if count(&spec["ephemeralContainers"]) > 0 {
        faults.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if !text(&spec["nodeName"]).is_empty() && count(&spec["schedulingGates"]) > 0 {
        faults.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
    }
    faults.0
}

/// What is wrong with a pod, new or changed.
pub fn validate_always(pod: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let spec = &pod["spec"];
    check_annotations(&mut faults, "metadata.annotations", pod);
    check_spec(&mut faults, "spec", spec, Some(object::name(pod)));
    if text(&spec["serviceAccountName"]).is_empty() {
        check_no_tokens(&mut faults, spec);
    }
    for list in ["containers", "initContainers"] {
        for (i, container) in items(&spec[list]) {
            pod_containers::check_image(&mut faults, &format!("spec.{list}[{i}]"), container);
        }
    }
    faults.0
}

fn check_no_tokens(faults: &mut Faults, spec: &Value) {
    for (i, volume) in items(&spec["volumes"]) {
        for (j, source) in items(&volume["projected"]["sources"]) {
            if !source["serviceAccountToken"].is_null() {
                let at = format!("spec.volumes[{i}].projected.sources[{j}].serviceAccountToken");
                faults.forbidden(at, "must not be specified when serviceAccountName is not set");
            }
        }
    }
}

/// What is wrong with a template of pods at `at`.
pub fn validate_template(template: &Value, at: &str) -> Vec<FieldError> {
    let mut faults = Faults::default();
    validate_labels(&template["metadata"]["labels"], &format!("{at}.labels"), &mut faults.0);
    validate_annotations(&template["metadata"]["annotations"], &format!("{at}.annotations"), &mut faults.0);
    check_annotations(&mut faults, &format!("{at}.annotations"), template);
    check_spec(&mut faults, &format!("{at}.spec"), &template["spec"], None);
    if count(&template["spec"]["ephemeralContainers"]) > 0 {
        faults.forbidden(format!("{at}.spec.ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
    faults.0
}

/// Checks what annotations say of a pod.
pub fn check_annotations(faults: &mut Faults, at: &str, pod: &Value) {
    if let Some(mirror) = object::annotation(pod, MIRROR)
        && text(&pod["spec"]["nodeName"]).is_empty()
    {
        faults.invalid(format!("{at}[{MIRROR}]"), mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    if let Some(cost) = object::annotation(pod, DELETION_COST) {
        // A number that could also be written without its sign or its zeros is none.
        let plain = !cost.starts_with('+') && (cost == "0" || !cost.trim_start_matches('-').starts_with('0'));
        if !plain || cost.parse::<i32>().is_err() {
            faults.invalid(format!("{at}[{DELETION_COST}]"), cost, "must be a 32bit integer");
        }
    }
}

/// Checks a spec; the pod's name is known unless this is a template.
fn check_spec(faults: &mut Faults, at: &str, spec: &Value, pod: Option<&str>) {
    let volumes = pod_volumes::check(faults, at, spec, pod);
    let claims: BTreeSet<&str> =
        items(&spec["resourceClaims"]).map(|(_, c)| text(&c["name"])).filter(|n| !n.is_empty()).collect();
    check_claims(faults, &format!("{at}.resourceClaims"), spec);
    let around = Surroundings { volumes, claims, spec };
    pod_containers::check_main(faults, at, &around);
    pod_containers::check_init(faults, at, &around);
    pod_containers::check_ephemeral(faults, at, &around);
    pod_resources::check_pod(faults, at, spec);
    check_host_network(faults, at, spec, pod.is_some());
    faults.required_one_of(format!("{at}.restartPolicy"), &spec["restartPolicy"], &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    faults.required_one_of(format!("{at}.dnsPolicy"), &spec["dnsPolicy"], &policies);
    validate_labels(&spec["nodeSelector"], &format!("{at}.nodeSelector"), &mut faults.0);
    pod_security::check_pod(faults, at, spec);
    pod_scheduling::check_affinity(faults, &format!("{at}.affinity"), &spec["affinity"]);
    check_dns(faults, &format!("{at}.dnsConfig"), spec);
    check_gates(faults, at, spec);
    let spreading = format!("{at}.topologySpreadConstraints");
    pod_scheduling::check_spreading(faults, &spreading, &spec["topologySpreadConstraints"]);
    check_host_users(faults, at, spec);
    check_names(faults, at, spec);
}

fn check_claims(faults: &mut Faults, at: &str, spec: &Value) {
    let mut names = BTreeSet::new();
    for (i, claim) in items(&spec["resourceClaims"]) {
        let (at, name) = (format!("{at}[{i}]"), text(&claim["name"]));
        if name.is_empty() {
            faults.required(format!("{at}.name"), "");
        } else if names.contains(name) {
            faults.duplicate(format!("{at}.name"), name);
        } else {
            faults.label(format!("{at}.name"), name);
            names.insert(name);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let why = match sources.iter().filter(|field| !claim[**field].is_null()).count() {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            2 => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            _ => "",
        };
        if !why.is_empty() {
            let shown = compact(Shape::Struct(POD_RESOURCE_CLAIM), claim);
            let error = FieldError::invalid(&at, Value::Null, why);
            faults.0.push(error.printed(shown));
        }
        for field in sources {
            if let Some(source) = claim[field].as_str() {
                faults.subdomain(format!("{at}.{field}"), source);
            }
        }
    }
}

fn check_host_network(faults: &mut Faults, at: &str, spec: &Value, is_pod: bool) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (i, container) in items(&spec["containers"]) {
        for (j, port) in items(&container["ports"]) {
            let (host, own) = (number(&port["hostPort"]), number(&port["containerPort"]));
            if (is_pod || host != 0) && host != own {
                let at = format!("{at}.containers[{i}].ports[{j}].hostPort");
                faults.invalid(at, host, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn check_dns(faults: &mut Faults, at: &str, spec: &Value) {
    let config = &spec["dnsConfig"];
    let servers = &config["nameservers"];
    if spec["dnsPolicy"] == "None" {
        if config.is_null() {
            return faults.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if count(servers) == 0 {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return faults.required(format!("{at}.nameservers"), why);
        }
    }
    if count(servers) > 3 {
        faults.invalid(format!("{at}.nameservers"), servers.clone(), "must not have more than 3 nameservers");
    }
    for (i, server) in items(servers) {
        addresses::check(faults, &format!("{at}.nameservers[{i}]"), text(server));
    }
    let searches = &config["searches"];
    if count(searches) > 32 {
        faults.invalid(format!("{at}.searches"), searches.clone(), "must not have more than 32 search paths");
    }
    if items(searches).map(|(_, search)| text(search).len() + 1).sum::<usize>() > 2049 {
        let why = "must not have more than 2048 characters (including spaces) in the search list";
        faults.invalid(format!("{at}.searches"), searches.clone(), why);
    }
    for (i, search) in items(searches).map(|(i, search)| (i, text(search))).filter(|(_, search)| *search != ".") {
        check_search(faults, format!("{at}.searches[{i}]"), search.strip_suffix('.').unwrap_or(search));
    }
    for (i, option) in items(&config["options"]) {
        if text(&option["name"]).is_empty() {
            faults.required(format!("{at}.options[{i}]"), "must not be empty");
        }
    }
}

// Unlike other names, a search path may have underscores.
fn check_search(faults: &mut Faults, at: String, search: &str) {
    const SHAPE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character or an underscore (e.g. 'example.com', regex used for validation is '[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?(\\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*')";
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_';
    let part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|b| edge(b) || *b == b'-')
    };
    if search.len() > 253 {
        faults.invalid(at.clone(), search, "must be no more than 253 characters");
    }
    if !search.split('.').all(part) {
        faults.invalid(at, search, SHAPE);
    }
}

fn check_gates(faults: &mut Faults, at: &str, spec: &Value) {
    for (i, gate) in items(&spec["readinessGates"]) {
        faults.qualified_name(format!("{at}.readinessGates[{i}].conditionType"), text(&gate["conditionType"]));
    }
    let mut names = BTreeSet::new();
    for (i, gate) in items(&spec["schedulingGates"]) {
        let (at, name) = (format!("{at}.schedulingGates[{i}]"), text(&gate["name"]));
        faults.qualified_name(&at, name);
        if !names.insert(name) {
            faults.duplicate(at, name);
        }
    }
}

fn check_host_users(faults: &mut Faults, at: &str, spec: &Value) {
    if spec["hostUsers"] != false {
        return;
    }
    let why = "when `hostUsers` is false";
    for (field, named) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[field] == true {
            faults.forbidden(format!("{at}.{named}"), why);
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (i, _) in items(&spec[list]).filter(|(_, container)| count(&container["volumeDevices"]) > 0) {
            faults.forbidden(format!("{at}.{list}[{i}].volumeDevices"), why);
        }
    }
}

fn check_names(faults: &mut Faults, at: &str, spec: &Value) {
    for field in ["serviceAccountName", "nodeName"].into_iter().filter(|field| !text(&spec[*field]).is_empty()) {
        faults.subdomain(format!("{at}.{field}"), text(&spec[field]));
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64() {
        faults.within(format!("{at}.activeDeadlineSeconds"), seconds, 1, i64::from(i32::MAX));
    }
    for field in ["hostname", "subdomain"].into_iter().filter(|field| !text(&spec[*field]).is_empty()) {
        faults.label(format!("{at}.{field}"), text(&spec[field]));
    }
    pod_scheduling::check_tolerations(faults, &format!("{at}.tolerations"), &spec["tolerations"]);
    for (i, alias) in items(&spec["hostAliases"]) {
        addresses::check(faults, &format!("{at}.hostAliases[{i}].ip"), text(&alias["ip"]));
        for (j, host) in items(&alias["hostnames"]) {
            faults.subdomain(format!("{at}.hostAliases[{i}].hostnames[{j}]"), text(host));
        }
    }
    for field in ["priorityClassName", "runtimeClassName"].into_iter().filter(|f| !text(&spec[*f]).is_empty()) {
        faults.subdomain(format!("{at}.{field}"), text(&spec[field]));
    }
    if !spec["preemptionPolicy"].is_null() {
        let policies = ["PreemptLowerPriority", "Never"];
        faults.required_one_of(format!("{at}.preemptionPolicy"), &spec["preemptionPolicy"], &policies);
    }
    let os = &spec["os"];
    if !os.is_null() {
        if text(&os["name"]).is_empty() {
            faults.required(format!("{at}.os.name"), "");
        } else {
            faults.one_of(format!("{at}.os"), &os["name"], &["linux", "windows"]);
        }
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use serde_json::json;

    use super::super::pod_defaults;
    use super::*;

    fn said(change: impl Fn(&mut Value)) -> Vec<String> {
        let mut pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}});
        change(&mut pod["spec"]);
        pod_defaults::default_pod(&mut pod);
        validate(&pod).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_rule_has_its_words() {
        let nothing: [&str; 0] = [];
        assert_eq!(said(|_| {}), nothing);
        assert_eq!(said(|s| s["containers"] = json!([])), ["spec.containers: Required value"]);
        assert_eq!(
            said(|s| s["restartPolicy"] = json!("Sometimes")),
            [
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\""
            ]
        );
        assert_eq!(
            said(|s| s["containers"][0]["volumeMounts"] = json!([{"name": "none", "mountPath": "/a"}])),
            ["spec.containers[0].volumeMounts[0].name: Not found: \"none\""]
        );
        assert_eq!(
            said(|s| s["containers"][0]["ports"] = json!([{"containerPort": 70000}])),
            ["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"]
        );
        assert_eq!(
            said(|s| s["initContainers"] =
                json!([{"name": "main", "image": "a", "livenessProbe": {"exec": {"command": ["a"]}}}])),
            [
                "spec.initContainers[0].name: Duplicate value: \"main\"",
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"
            ]
        );
        assert_eq!(
            said(|s| s["containers"][0]["image"] = json!(" a")),
            ["spec.containers[0].image: Invalid value: \" a\": must not have leading or trailing whitespace"]
        );
    }

    #[test]
    fn a_template_is_judged_at_its_place() {
        let template =
            json!({"metadata": {"labels": {"a": "-"}}, "spec": {"restartPolicy": "Always", "dnsPolicy": "Default"}});
        let said: Vec<String> = validate_template(&template, "spec.template").iter().map(|e| e.field.clone()).collect();
        assert_eq!(said, ["spec.template.labels", "spec.template.spec.containers"]);
    }
}
