//! Where a pod may run: tolerations, affinity, spreading.
use std::collections::BTreeSet;

use serde_json::Value;

use super::checks::{Faults, count, items, number, text};
use crate::server::metadata::{label_value_fault, validate_labels};

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const NO_OPERATOR: &str = "not a valid selector operator";

/// Checks tolerations at `at`.
pub fn check_tolerations(faults: &mut Faults, at: &str, tolerations: &Value) {
    for (i, toleration) in items(tolerations) {
        let at = format!("{at}[{i}]");
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|field| text(&toleration[field]));
        if !key.is_empty() {
            faults.qualified_name(format!("{at}.key"), key);
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            faults.invalid(format!("{at}.operator"), operator, why);
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.invalid(format!("{at}.effect"), effect, why);
        }
        match operator {
            "" | "Equal" => faults.fault(format!("{at}.operator"), value, label_value_fault(value)),
            "Exists" if !value.is_empty() => {
                faults.invalid(format!("{at}.operator"), value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            _ => faults.not_supported(format!("{at}.operator"), &toleration["operator"], &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            faults.one_of(format!("{at}.effect"), &toleration["effect"], EFFECTS);
        }
    }
}

/// Checks the affinity of a pod.
pub fn check_affinity(faults: &mut Faults, at: &str, affinity: &Value) {
    let [required, preferred] =
        ["required", "preferred"].map(|kind| format!("{kind}DuringSchedulingIgnoredDuringExecution"));
    let (nodes, here) = (&affinity["nodeAffinity"], format!("{at}.nodeAffinity"));
    if !nodes[&required].is_null() {
        check_node_selector(faults, &format!("{here}.{required}.nodeSelectorTerms"), &nodes[&required]);
    }
    for (i, term) in items(&nodes[&preferred]) {
        let here = format!("{here}.{preferred}[{i}]");
        check_weight(faults, &here, term);
        check_node_term(faults, &format!("{here}.preference"), &term["preference"], false);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (pods, here) = (&affinity[kind], format!("{at}.{kind}"));
        for (i, term) in items(&pods[&required]) {
            check_pod_term(faults, &format!("{here}.{required}[{i}]"), term);
        }
        for (i, term) in items(&pods[&preferred]) {
            let here = format!("{here}.{preferred}[{i}]");
            check_weight(faults, &here, term);
            check_pod_term(faults, &format!("{here}.podAffinityTerm"), &term["podAffinityTerm"]);
        }
    }
}

fn check_weight(faults: &mut Faults, at: &str, term: &Value) {
    let weight = number(&term["weight"]);
    if !(1..=100).contains(&weight) {
        faults.invalid(format!("{at}.weight"), weight, "must be in the range 1-100");
    }
}

fn check_node_selector(faults: &mut Faults, at: &str, selector: &Value) {
    if count(&selector["nodeSelectorTerms"]) == 0 {
        return faults.required(at, "must have at least one node selector term");
    }
    for (i, term) in items(&selector["nodeSelectorTerms"]) {
        check_node_term(faults, &format!("{at}[{i}]"), term, true);
    }
}

fn check_node_term(faults: &mut Faults, at: &str, term: &Value, values_too: bool) {
    for (i, rule) in items(&term["matchExpressions"]) {
        check_node_rule(faults, &format!("{at}.matchExpressions[{i}]"), rule, values_too);
    }
    for (i, rule) in items(&term["matchFields"]) {
        let at = format!("{at}.matchFields[{i}]");
        if !["In", "NotIn"].contains(&text(&rule["operator"])) {
            faults.invalid(format!("{at}.operator"), text(&rule["operator"]), NO_OPERATOR);
        } else if count(&rule["values"]) != 1 {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            faults.required(format!("{at}.values"), why);
        }
        if rule["key"] != "metadata.name" {
            faults.invalid(format!("{at}.key"), text(&rule["key"]), "not a valid field selector key");
            continue;
        }
        for (j, value) in items(&rule["values"]) {
            faults.subdomain(format!("{at}.values[{j}]"), text(value));
        }
    }
}

fn check_node_rule(faults: &mut Faults, at: &str, rule: &Value, values_too: bool) {
    let values = format!("{at}.values");
    match text(&rule["operator"]) {
        "Gt" | "Lt" => {
            if count(&rule["values"]) != 1 {
                faults.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
        }
        _ => check_operator(faults, at, rule),
    }
    check_rule_names(faults, at, rule, values_too);
}

fn check_operator(faults: &mut Faults, at: &str, rule: &Value) {
    let values = format!("{at}.values");
    match (text(&rule["operator"]), count(&rule["values"])) {
        ("In" | "NotIn", 0) => {
            faults.required(values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        ("Exists" | "DoesNotExist", 1..) => {
            faults.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        (other, _) => faults.invalid(format!("{at}.operator"), other, NO_OPERATOR),
    }
}

fn check_rule_names(faults: &mut Faults, at: &str, rule: &Value, values_too: bool) {
    faults.qualified_name(format!("{at}.key"), text(&rule["key"]));
    for (i, value) in items(&rule["values"]).filter(|_| values_too) {
        faults.label_value(format!("{at}.values[{i}]"), text(value));
    }
}

/// Checks a selector of labels.
pub fn check_selector(faults: &mut Faults, at: &str, selector: &Value) {
    validate_labels(&selector["matchLabels"], &format!("{at}.matchLabels"), &mut faults.0);
    for (i, rule) in items(&selector["matchExpressions"]) {
        let at = format!("{at}.matchExpressions[{i}]");
        check_operator(faults, &at, rule);
        check_rule_names(faults, &at, rule, true);
    }
}

fn check_pod_term(faults: &mut Faults, at: &str, term: &Value) {
    check_selector(faults, &format!("{at}.labelSelector"), &term["labelSelector"]);
    check_selector(faults, &format!("{at}.namespaceSelector"), &term["namespaceSelector"]);
    for (_, namespace) in items(&term["namespaces"]) {
        faults.label(format!("{at}.namespace"), text(namespace));
    }
    check_label_keys(faults, at, term);
    let key = text(&term["topologyKey"]);
    if key.is_empty() {
        faults.required(format!("{at}.topologyKey"), "can not be empty");
    }
    faults.qualified_name(format!("{at}.topologyKey"), key);
}

fn check_label_keys(faults: &mut Faults, at: &str, term: &Value) {
    let selector = &term["labelSelector"];
    for list in ["matchLabelKeys", "mismatchLabelKeys"].into_iter().filter(|list| count(&term[*list]) > 0) {
        if selector.is_null() {
            faults.forbidden(format!("{at}.{list}"), "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in items(&term[list]) {
            faults.qualified_name(format!("{at}.{list}[{i}]"), text(key));
        }
    }
    let mut known: BTreeSet<&str> =
        selector["matchLabels"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    for (_, rule) in items(&selector["matchExpressions"]) {
        let key = text(&rule["key"]);
        let place = items(&term["matchLabelKeys"]).filter(|(_, k)| *k == key).last();
        if let Some((i, _)) = place.filter(|_| known.contains(key)) {
            faults.invalid(format!("{at}[{i}]"), key, "exists in both matchLabelKeys and labelSelector");
        }
        known.insert(key);
    }
    for (i, key) in items(&term["matchLabelKeys"]) {
        if items(&term["mismatchLabelKeys"]).any(|(_, other)| other == key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            faults.invalid(format!("{at}.matchLabelKeys[{i}]"), text(key), why);
        }
    }
}

/// Checks how pods are to be spread.
pub fn check_spreading(faults: &mut Faults, at: &str, constraints: &Value) {
    for (i, constraint) in items(constraints) {
        let at = format!("{at}[{i}]");
        let (key, action) = (text(&constraint["topologyKey"]), text(&constraint["whenUnsatisfiable"]));
        check_positive(faults, format!("{at}.maxSkew"), &constraint["maxSkew"]);
        if key.is_empty() {
            faults.required(format!("{at}.topologyKey"), "can not be empty");
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        faults.one_of(format!("{at}.whenUnsatisfiable"), &constraint["whenUnsatisfiable"], &actions);
        let same = |other: &Value| text(&other["topologyKey"]) == key && text(&other["whenUnsatisfiable"]) == action;
        if items(constraints).skip(i + 1).any(|(_, other)| same(other)) {
            faults.duplicate(format!("{at}.{{topologyKey, whenUnsatisfiable}}"), format!("{{{key}, {action}}}"));
        }
        let domains = &constraint["minDomains"];
        if !domains.is_null() {
            check_positive(faults, format!("{at}.minDomains"), domains);
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                faults.invalid(format!("{at}.minDomains"), domains.clone(), why);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if !constraint[policy].is_null() {
                faults.one_of(format!("{at}.{policy}"), &constraint[policy], &["Honor", "Ignore"]);
            }
        }
        check_label_keys(faults, &at, constraint);
        check_selector(faults, &format!("{at}.labelSelector"), &constraint["labelSelector"]);
    }
}

fn check_positive(faults: &mut Faults, at: String, value: &Value) {
    if number(value) <= 0 {
        faults.invalid(at, number(value), "must be greater than zero");
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(check: impl Fn(&mut Faults)) -> Vec<String> {
        let mut faults = Faults::default();
        check(&mut faults);
        faults.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tolerations_are_checked() {
        let with = |toleration: Value| said(|f| check_tolerations(f, "t", &json!([toleration])));
        let nothing: [&str; 0] = [];
        assert_eq!(with(json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"})), nothing);
        assert_eq!(
            with(json!({"operator": "Equal"})),
            [
                "t[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\""
            ]
        );
        assert_eq!(
            with(json!({"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1})),
            ["t[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"]
        );
    }

    #[test]
    fn affinity_and_spreading_are_checked() {
        let term = json!({"weight": 0, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}});
        let affinity = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}});
        let at = "a.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]";
        assert_eq!(
            said(|f| check_affinity(f, "a", &affinity)),
            [
                format!("{at}.weight: Invalid value: 0: must be in the range 1-100"),
                format!(
                    "{at}.podAffinityTerm.labelSelector.matchExpressions[0].operator: Invalid value: \"Odd\": not a valid selector operator"
                ),
            ]
        );
        assert_eq!(
            said(|f| check_spreading(f, "s", &json!([{"maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]))),
            [
                "s[0].maxSkew: Invalid value: 0: must be greater than zero",
                "s[0].topologyKey: Required value: can not be empty"
            ]
        );
    }
}
