//! Nodes: what a new one starts with, and its taints.
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::addresses;
use super::checks::{Faults, count, items, text};
use super::shape::{Part, Shape, compact};
use crate::server::quantities::Quantity;
use crate::server::{FieldError, object};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const NODE_INFO: &[&str] = &[
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

const TAINT: &[Part] = &[
    Part("Key", "key", Shape::Text),
    Part("Value", "value", Shape::Text),
    Part("Effect", "effect", Shape::Text),
    Part("TimeAdded", "timeAdded", Shape::Open),
];
const ADDRESS: &[Part] = &[Part("Type", "type", Shape::Text), Part("Address", "address", Shape::Text)];

pub fn default_node(node: &mut Value) {
    let spec = object::entry_object(node, "spec");
    if spec.get("unschedulable").is_some_and(|u| *u == false) {
        spec.remove("unschedulable");
    }
    let cidr = spec.get("podCIDR").filter(|c| !text(c).is_empty()).cloned();
    if let Some(cidr) = cidr
        && count(spec.get("podCIDRs").unwrap_or(&Value::Null)) == 0
    {
        spec.insert("podCIDRs".into(), json!([cidr]));
    }
    let status = object::entry_object(node, "status");
    if !status.contains_key("allocatable")
        && let Some(capacity) = status.get("capacity").cloned()
    {
        status.insert("allocatable".into(), capacity);
    }
    let info = status.entry("nodeInfo").or_insert_with(|| json!({}));
    for field in NODE_INFO {
        if info[*field].is_null() {
            info[*field] = json!("");
        }
    }
    let kubelet = &mut status.entry("daemonEndpoints").or_insert_with(|| json!({}))["kubeletEndpoint"];
    if kubelet["Port"].is_null() {
        kubelet["Port"] = json!(0);
    }
}

/// Nothing runs on a new node before it says that it is ready.
pub fn taint(node: &mut Value) {
    let spec = object::entry_object(node, "spec");
    spec.remove("configSource");
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    if let Some(list) = taints.as_array_mut()
        && !list.iter().any(|t| t["key"] == NOT_READY && t["effect"] == "NoSchedule")
    {
        list.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

pub fn validate(node: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    check_taints(&mut faults, node);
    check_resources(&mut faults, node);
    let networks = &node["spec"]["podCIDRs"];
    for (i, network) in items(networks) {
        addresses::check_network(&mut faults, &format!("spec.podCIDRs[{i}]"), text(network));
    }
    let sixes = items(networks).filter(|(_, n)| text(n).contains(':')).count();
    if count(networks) > 1 && (count(networks) != 2 || sixes != 1) {
        faults.invalid("spec.podCIDRs", networks.clone(), "may specify no more than one CIDR for each IP family");
    }
    faults.0
}

// The taints are checked under this path, though they are elsewhere.
fn check_taints(faults: &mut Faults, node: &Value) {
    let mut seen = BTreeSet::new();
    for (i, taint) in items(&node["spec"]["taints"]) {
        let at = format!("metadata.taints[{i}]");
        let (key, value, effect) = (text(&taint["key"]), text(&taint["value"]), text(&taint["effect"]));
        faults.qualified_name(format!("{at}.key"), key);
        faults.label_value(format!("{at}.value"), value);
        faults.required_one_of(format!("{at}.effect"), &taint["effect"], EFFECTS);
        if !seen.insert((effect, key)) {
            let shown = compact(Shape::Struct(TAINT), taint);
            let why = "taints must be unique by key and effect pair";
            let error = FieldError::duplicate(at, Value::Null).printed(shown);
            faults.0.push(FieldError { detail: why.into(), ..error });
        }
    }
}

fn check_resources(faults: &mut Faults, node: &Value) {
    for part in ["capacity", "allocatable"] {
        for (name, amount) in node["status"][part].as_object().into_iter().flatten() {
            let at = format!("status.{part}.{name}");
            let Some(quantity) = Quantity::of(amount) else { continue };
            if quantity.is_negative() {
                faults.invalid(&at, quantity.to_string(), "must be greater than or equal to 0");
            }
            if super::pod_resources::is_counted(name) && !quantity.is_whole() {
                faults.invalid(&at, quantity.to_string(), "must be an integer");
            }
        }
    }
}

/// What may not change; all that a new node is checked for comes before it, some of it twice.
pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    check_resources(&mut faults, new);
    let mut seen = BTreeSet::new();
    for (i, address) in items(&new["status"]["addresses"]) {
        let (kind, at) = (text(&address["type"]), text(&address["address"]));
        if !seen.insert((kind, at)) {
            let shown = compact(Shape::Struct(ADDRESS), address);
            let at = format!("status.addresses[{i}]");
            faults.0.push(FieldError::duplicate(at, Value::Null).printed(shown));
        }
    }
    let keeps = "node updates may not change";
    let (before, after) = (&old["spec"]["podCIDRs"], &new["spec"]["podCIDRs"]);
    if count(before) > 0 && before != after {
        let changed = items(before).filter(|(i, network)| after[*i] != **network).count();
        let times = if count(before) == count(after) { changed } else { 1 };
        for _ in 0..times {
            faults.forbidden("spec.podCIDRs", format!("{keeps} podCIDR except from \"\" to valid"));
        }
    }
    let provider = |node: &Value| text(&node["spec"]["providerID"]).to_owned();
    if !provider(old).is_empty() && provider(old) != provider(new) {
        faults.forbidden("spec.providerID", format!("{keeps} providerID except from \"\" to valid"));
    }
    check_taints(&mut faults, new);
    if old["spec"]["externalID"] != new["spec"]["externalID"] {
        faults.forbidden("spec.externalID", "may not be updated");
    }
    faults.0
}

pub fn warnings(node: &Value) -> Vec<String> {
    let spec = &node["spec"];
    let mut warnings = Vec::new();
    if !spec["configSource"].is_null() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(&spec["externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    for (i, network) in items(&spec["podCIDRs"]) {
        warnings.extend(addresses::network_warnings(&format!("spec.podCIDRs[{i}]"), text(network)));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_is_not_ready() {
        let mut node = json!({"spec": {"unschedulable": false}});
        default_node(&mut node);
        taint(&mut node);
        assert_eq!(node["spec"], json!({"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}));
        assert_eq!(node["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
        assert_eq!(node["status"]["nodeInfo"]["osImage"], "");
    }

    #[test]
    fn taints_are_checked() {
        let taints = json!([{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}, {"key": "b"}]);
        let said: Vec<String> =
            validate(&json!({"spec": {"taints": taints}})).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "metadata.taints[1]: Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoExecute\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
                "metadata.taints[2].effect: Required value"
            ]
        );
    }
}
