//! Classes of storage and of priority.
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::bounds::{immutable, one_of};
use super::checks::Faults;
use super::{drop_empty, set_default};
use crate::server::metadata::qualified_name_fault;
use crate::server::{FieldError, object};

const MOST_PARAMETERS: usize = 512;
const MOST_BYTES: usize = 256 * 1024;
const HIGHEST_PRIORITY: i64 = 1_000_000_000;
const SYSTEM: &[(&str, i64)] = &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub fn default_storage(class: &mut Value) {
    if let Some(fields) = class.as_object_mut() {
        set_default(fields, "provisioner", json!(""));
        set_default(fields, "reclaimPolicy", json!("Delete"));
        set_default(fields, "volumeBindingMode", json!("Immediate"));
    }
    drop_empty(class, &["parameters", "mountOptions", "allowedTopologies"]);
}

pub fn validate_storage(class: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    match class["provisioner"].as_str().unwrap_or_default().to_lowercase().as_str() {
        "" => faults.required("provisioner", ""),
        name => faults.fault("provisioner", name, qualified_name_fault(name)),
    }
    validate_parameters(&class["parameters"], &mut faults);
    if class["reclaimPolicy"] != "" {
        faults.0.extend(one_of(&class["reclaimPolicy"], "reclaimPolicy", &["Delete", "Retain"]));
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    faults.0.extend(one_of(&class["volumeBindingMode"], "volumeBindingMode", &modes));
    validate_topologies(&class["allowedTopologies"], &mut faults);
    faults.0
}

fn validate_parameters(parameters: &Value, faults: &mut Faults) {
    let all = parameters.as_object().cloned().unwrap_or_default();
    if all.len() > MOST_PARAMETERS {
        return faults.too_long("parameters", MOST_PARAMETERS);
    }
    if all.contains_key("") {
        faults.invalid("parameters", "", "field can not be empty.");
    }
    if all.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum::<usize>() > MOST_BYTES {
        faults.too_long("parameters", MOST_BYTES);
    }
}

fn validate_topologies(terms: &Value, faults: &mut Faults) {
    let mut seen = Vec::new();
    for (i, term) in terms.as_array().into_iter().flatten().enumerate() {
        let path = format!("allowedTopologies[{i}].matchLabelExpressions");
        let mut keys: Vec<(String, BTreeSet<String>)> = Vec::new();
        for (j, rule) in term["matchLabelExpressions"].as_array().into_iter().flatten().enumerate() {
            let path = format!("{path}[{j}]");
            let values = validate_topology(rule, &path, faults);
            let key = rule["key"].as_str().unwrap_or_default().to_owned();
            if keys.iter().any(|(known, _)| *known == key) {
                faults.duplicate(format!("{path}.key"), key.as_str());
            }
            keys.retain(|(known, _)| *known != key);
            keys.push((key, values));
        }
        keys.sort();
        if seen.contains(&keys) {
            faults.duplicate(path, "");
        }
        seen.push(keys);
    }
}

fn validate_topology(rule: &Value, path: &str, faults: &mut Faults) -> BTreeSet<String> {
    let values: Vec<&str> = rule["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut set = BTreeSet::new();
    if values.is_empty() {
        faults.required(format!("{path}.values"), "");
    }
    for (i, value) in values.into_iter().enumerate() {
        if !set.insert(value.to_owned()) {
            faults.duplicate(format!("{path}.values[{i}]"), value);
        }
    }
    faults.qualified_name(format!("{path}.key"), rule["key"].as_str().unwrap_or_default());
    set
}

pub fn validate_storage_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let fixed = ["parameters", "provisioner", "reclaimPolicy"];
    let changed = fixed.into_iter().filter(|field| old[*field] != new[*field]);
    let mut errors: Vec<FieldError> =
        changed.map(|field| FieldError::forbidden(field, format!("updates to {field} are forbidden."))).collect();
    errors.extend(immutable(&old["volumeBindingMode"], &new["volumeBindingMode"], "volumeBindingMode"));
    errors
}

pub fn default_priority(class: &mut Value) {
    drop_empty(class, &["description"]);
    if let Some(fields) = class.as_object_mut() {
        set_default(fields, "value", json!(0));
        set_default(fields, "preemptionPolicy", json!("PreemptLowerPriority"));
        if fields.get("globalDefault") == Some(&json!(false)) {
            fields.remove("globalDefault");
        }
    }
}

pub fn validate_priority(class: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let (name, value) = (object::name(class), class["value"].as_i64().unwrap_or(0));
    if name.starts_with("system-") {
        let why = match SYSTEM.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, fixed)) if *fixed != value => Some(format!("value of {name} PriorityClass must be {fixed}")),
            Some(_) if class["globalDefault"] == true => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let detail =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
            faults.forbidden("metadata.name", detail);
        }
    } else if value > HIGHEST_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        faults.forbidden("value", detail);
    }
    match class["preemptionPolicy"].as_str() {
        Some("") => faults.required("preemptionPolicy", ""),
        _ => {
            faults.0.extend(one_of(&class["preemptionPolicy"], "preemptionPolicy", &["PreemptLowerPriority", "Never"]));
        }
    }
    faults.0
}

pub fn validate_priority_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old["value"] != new["value"] {
        errors.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
    errors.extend(immutable(&old["preemptionPolicy"], &new["preemptionPolicy"], "preemptionPolicy"));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_rules_of_storage_classes() {
        for (class, wrong) in [
            (json!({"provisioner": "Example.com/a"}), vec![]),
            (json!({}), vec!["provisioner: Required value"]),
            (
                json!({"provisioner": "a", "reclaimPolicy": "Odd"}),
                vec!["reclaimPolicy: Unsupported value: \"Odd\": supported values: \"Delete\", \"Retain\""],
            ),
            (
                json!({"provisioner": "a", "allowedTopologies": [
                    {"matchLabelExpressions": [{"key": "a", "values": ["b", "b"]}]}, {"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}]}),
                vec![
                    "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"b\"",
                    "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"",
                ],
            ),
        ] {
            let mut class = class;
            default_storage(&mut class);
            assert_eq!(said(&validate_storage(&class)), wrong);
        }
        let [old, new] = [json!({"provisioner": "a"}), json!({"provisioner": "b"})];
        assert_eq!(
            said(&validate_storage_update(&old, &new)),
            ["provisioner: Forbidden: updates to provisioner are forbidden."]
        );
    }

    #[test]
    fn the_rules_of_priority_classes() {
        let most = "value: Forbidden: maximum allowed value of a user defined priority is 1000000000";
        let reserved = "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: ";
        for (name, value, wrong) in [
            ("a", 1_000_000_000, vec![]),
            ("a", 1_000_000_001, vec![most.to_owned()]),
            ("system-node-critical", 2_000_001_000, vec![]),
            (
                "system-node-critical",
                1,
                vec![format!("{reserved}value of system-node-critical PriorityClass must be 2000001000")],
            ),
            ("system-odd", 1, vec![format!("{reserved}system-odd is not a known system priority class")]),
        ] {
            assert_eq!(said(&validate_priority(&json!({"metadata": {"name": name}, "value": value}))), wrong);
        }
    }
}
