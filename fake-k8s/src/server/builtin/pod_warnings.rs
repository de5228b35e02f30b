//! What is said of pods and templates that are taken, though something about them is odd.
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::addresses;
use super::checks::{items, number, text};
use crate::server::metadata::label_1123_fault;
use crate::server::object;
use crate::server::quantities::Quantity;

const OLD_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];
const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
const OLD_VOLUMES: &[(&str, &str)] = &[
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const NO_MATCH: &str = "a null labelSelector results in matching no pod";

fn old_label(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(label, _)| *label == key).map(|(_, why)| *why)
}

/// What is said of a new pod.
pub fn of_pod(pod: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(why) = label_1123_fault(object::name(pod)) {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{why}]"
        ));
    }
    warnings.extend(of_template(pod, ""));
    warnings
}

/// What is said of a template at `at`, which is empty for a pod, and ends with a dot otherwise.
pub fn of_template(template: &Value, at: &str) -> Vec<String> {
    let (spec, mut out) = (&template["spec"], Vec::new());
    placing(&mut out, at, spec);
    for (key, why) in OLD_ANNOTATIONS.iter().filter(|(key, _)| object::annotation(template, key).is_some()) {
        out.push(format!("{at}metadata.annotations[{key}]: {why}"));
    }
    for (i, volume) in items(&spec["volumes"]) {
        for (kind, why) in OLD_VOLUMES.iter().filter(|(kind, _)| !volume[*kind].is_null()) {
            out.push(format!("{at}spec.volumes[{i}].{kind}: {why}"));
        }
    }
    doubles(&mut out, at, spec);
    for name in ["memory", "ephemeral-storage"] {
        fraction(&mut out, &format!("{at}spec.overhead"), name, &spec["overhead"]);
    }
    for (path, container) in containers(at, spec) {
        for name in ["memory", "ephemeral-storage"] {
            for kind in ["limits", "requests"] {
                fraction(&mut out, &format!("{path}.resources.{kind}"), name, &container["resources"][kind]);
            }
        }
        variables(&mut out, &path, container);
    }
    ports(&mut out, at, spec);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        out.push(format!(
            "{at}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    pod_terms(&mut out, at, spec);
    for (i, server) in items(&spec["dnsConfig"]["nameservers"]) {
        out.extend(addresses::warning(&format!("{at}spec.dnsConfig.nameservers[{i}]"), text(server)));
    }
    for (i, alias) in items(&spec["hostAliases"]) {
        out.extend(addresses::warning(&format!("{at}spec.hostAliases[{i}].ip"), text(&alias["ip"])));
    }
    out
}

fn containers<'a>(at: &str, spec: &'a Value) -> Vec<(String, &'a Value)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"].into_iter();
    lists.flat_map(|list| items(&spec[list]).map(move |(i, c)| (format!("{at}spec.{list}[{i}]"), c))).collect()
}

fn placing(out: &mut Vec<String>, at: &str, spec: &Value) {
    for key in spec["nodeSelector"].as_object().into_iter().flat_map(|s| s.keys()) {
        out.extend(old_label(key).map(|why| format!("{at}spec.nodeSelector[{key}]: {why}")));
    }
    let nodes = &spec["affinity"]["nodeAffinity"];
    let [required, preferred] =
        ["required", "preferred"].map(|kind| format!("{kind}DuringSchedulingIgnoredDuringExecution"));
    let here = format!("{at}spec.affinity.nodeAffinity");
    let mut rules = |at: String, term: &Value| {
        for (i, rule) in items(&term["matchExpressions"]) {
            let key = text(&rule["key"]);
            out.extend(old_label(key).map(|why| format!("{at}.matchExpressions[{i}].key: {key} is {why}")));
        }
    };
    for (i, term) in items(&nodes[&required]["nodeSelectorTerms"]) {
        rules(format!("{here}.{required}.nodeSelectorTerms[{i}]"), term);
    }
    for (i, term) in items(&nodes[&preferred]) {
        rules(format!("{here}.{preferred}[{i}].preference"), &term["preference"]);
    }
    for (i, constraint) in items(&spec["topologySpreadConstraints"]) {
        let (here, key) = (format!("{at}spec.topologySpreadConstraints[{i}]"), text(&constraint["topologyKey"]));
        out.extend(old_label(key).map(|why| format!("{here}.topologyKey: {key} is {why}")));
        if constraint["labelSelector"].is_null() {
            out.push(format!("{here}.labelSelector: {NO_MATCH}"));
        }
    }
}

fn doubles(out: &mut Vec<String>, at: &str, spec: &Value) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        for (i, item) in items(&spec[list]) {
            if !seen.insert(text(&item[field])) {
                out.push(format!("{at}spec.{list}[{i}].{field}: duplicate {field} {:?}", text(&item[field])));
            }
        }
    }
    for (i, _) in items(&spec["imagePullSecrets"]).filter(|(_, secret)| text(&secret["name"]).is_empty()) {
        out.push(format!("{at}spec.imagePullSecrets[{i}].name: invalid empty name \"\""));
    }
}

fn fraction(out: &mut Vec<String>, at: &str, name: &str, list: &Value) {
    if let Some(amount) = Quantity::of(&list[name]).filter(|amount| !amount.is_whole()) {
        out.push(format!("{at}[{name}]: fractional byte value \"{amount}\" is invalid, must be an integer"));
    }
}

fn variables(out: &mut Vec<String>, at: &str, container: &Value) {
    let mut seen = BTreeSet::new();
    for (i, variable) in items(&container["env"]) {
        let (name, value) = (text(&variable["name"]), text(&variable["value"]));
        let reference = format!("$({name})");
        let hides = !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference);
        if !seen.insert(name) && hides {
            out.push(format!(
                "{at}.env[{i}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn ports(out: &mut Vec<String>, at: &str, spec: &Value) {
    let all: Vec<(String, &Value)> = containers(at, spec)
        .into_iter()
        .flat_map(|(path, c)| items(&c["ports"]).map(move |(i, port)| (format!("{path}.ports[{i}]"), port)))
        .collect();
    let host = |port: &Value| (text(&port["hostIP"]).to_owned(), number(&port["hostPort"]));
    for (i, (field, port)) in all.iter().enumerate() {
        let (ip, number_on_host) = host(port);
        if !ip.is_empty() && number_on_host == 0 {
            let (name, protocol) = (text(&port["name"]), text(&port["protocol"]));
            out.push(format!(
                "{field}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{} Protocol:{protocol} HostIP:{ip}}}",
                number(&port["containerPort"])
            ));
        }
        let same = |other: &Value| {
            other["containerPort"] == port["containerPort"] && text(&other["protocol"]) == text(&port["protocol"])
        };
        for (other_field, other) in all[..i].iter().filter(|(_, other)| same(other)) {
            let (other_ip, other_number) = host(other);
            let what = if (&ip, number_on_host) == (&other_ip, other_number) {
                "duplicate"
            } else if number_on_host == 0 || other_number == 0 {
                "overlapping"
            } else if number_on_host == other_number && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            out.push(format!("{field}: {what} port definition with {other_field}"));
        }
    }
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for (field, port) in all.iter().filter(|(_, port)| !text(&port["name"]).is_empty()) {
        let name = text(&port["name"]);
        if let Some(other) = names.get(name) {
            out.push(format!(
                "{field}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
            ));
        } else {
            names.insert(name, field);
        }
    }
}

fn pod_terms(out: &mut Vec<String>, at: &str, spec: &Value) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (when, inner) in [("required", ""), ("preferred", ".podAffinityTerm")] {
            let list = format!("{when}DuringSchedulingIgnoredDuringExecution");
            for (i, term) in items(&spec["affinity"][kind][&list]) {
                let term = if inner.is_empty() { term } else { &term["podAffinityTerm"] };
                if term["labelSelector"].is_null() {
                    out.push(format!("{at}spec.affinity.{kind}.{list}[{i}]{inner}.labelSelector: {NO_MATCH}"));
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn odd_pods_earn_warnings() {
        let with = |spec: Value| of_template(&json!({"spec": spec}), "spec.template.");
        assert_eq!(
            with(json!({"terminationGracePeriodSeconds": -1})),
            [
                "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
            ]
        );
        assert_eq!(
            with(json!({"containers": [{"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}]})),
            [
                "spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply"
            ]
        );
        assert_eq!(
            with(
                json!({"containers": [{"ports": [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 1, "protocol": "TCP"}]}]})
            ),
            [
                "spec.template.spec.containers[0].ports[1]: duplicate port definition with spec.template.spec.containers[0].ports[0]"
            ]
        );
        assert_eq!(of_pod(&json!({"metadata": {"name": "a.b"}})).len(), 1);
    }
}
