//! When a job has failed, and when it has succeeded: the policies of jobs.
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::server::builtin::bounds::{immutable, nonnegative, one_of};
use crate::server::builtin::checks::Faults;
use crate::server::builtin::shape::{self, Part, Shape};
use crate::server::{FieldError, FieldErrorKind};

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: &[&str] = &["In", "NotIn"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];
const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;
const MOST_PATTERNS: usize = 20;
const MOST_OF_INDEXES: usize = 64 * 1024;

const FAILURE: &[Part] = &[Part(
    "Rules",
    "rules",
    Shape::List(&[
        Part("Action", "action", Shape::Text),
        Part(
            "OnExitCodes",
            "onExitCodes",
            Shape::Pointer(&[
                Part("ContainerName", "containerName", Shape::Open),
                Part("Operator", "operator", Shape::Text),
                Part("Values", "values", Shape::Open),
            ]),
        ),
        Part(
            "OnPodConditions",
            "onPodConditions",
            Shape::List(&[Part("Type", "type", Shape::Text), Part("Status", "status", Shape::Text)]),
        ),
    ]),
)];
const SUCCESS: &[Part] = &[Part(
    "Rules",
    "rules",
    Shape::List(&[
        Part("SucceededIndexes", "succeededIndexes", Shape::Open),
        Part("SucceededCount", "succeededCount", Shape::Open),
    ]),
)];

pub fn default_conditions(policy: &mut Value) {
    for rule in policy.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        for pattern in rule.get_mut("onPodConditions").and_then(Value::as_array_mut).into_iter().flatten() {
            if pattern["status"].as_str().is_none_or(str::is_empty) {
                pattern["status"] = json!("True");
            }
        }
    }
}

pub fn validate(spec: &Value, faults: &mut Faults) {
    let (failure, success) = (&spec["podFailurePolicy"], &spec["successPolicy"]);
    if failure.is_object() {
        validate_failure(spec, failure, faults);
    }
    if success.is_object() {
        if spec["completionMode"] == "Indexed" {
            validate_success(spec, success, faults);
        } else {
            let shown = shape::compact(Shape::Pointer(SUCCESS), success);
            let detail = "requires indexed completion mode";
            faults.0.push(FieldError::invalid("spec.successPolicy", Value::Null, detail).printed(shown));
        }
    }
    let policies: &[&str] = if failure.is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    faults.0.extend(one_of(&spec["podReplacementPolicy"], "spec.podReplacementPolicy", policies));
}

fn too_many(path: String, count: usize, most: usize) -> FieldError {
    FieldError::of(FieldErrorKind::TooMany, path, count.into(), format!("must have at most {most} items"))
}

/// A word that must be there, with the choice as Go shows a list.
fn word(value: &Value, path: String, words: &[&str], faults: &mut Faults) {
    if value.as_str().is_none_or(str::is_empty) {
        let list: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        faults.required(path, &format!("valid values: [{}]", list.join(" ")));
    } else {
        faults.0.extend(one_of(value, &path, words));
    }
}

fn validate_failure(spec: &Value, policy: &Value, faults: &mut Faults) {
    let rules = policy["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let path = "spec.podFailurePolicy.rules";
    if rules.len() > MOST_RULES {
        faults.0.push(too_many(path.into(), rules.len(), MOST_RULES));
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = format!("{path}[{i}]");
        if rule["action"] == "FailIndex" {
            if spec["backoffLimitPerIndex"].is_null() {
                let detail = "requires the backoffLimitPerIndex to be set";
                faults.invalid(format!("{path}.action"), "FailIndex", detail);
            }
        } else {
            word(&rule["action"], format!("{path}.action"), ACTIONS, faults);
        }
        let codes = &rule["onExitCodes"];
        let patterns = rule["onPodConditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        if codes.is_object() {
            validate_exit_codes(spec, codes, &format!("{path}.onExitCodes"), faults);
        }
        validate_patterns(patterns, &format!("{path}.onPodConditions"), faults);
        let both = match (codes.is_object(), patterns.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        faults.0.push(FieldError::invalid(path, Value::Null, both).without_value());
    }
}

fn validate_exit_codes(spec: &Value, codes: &Value, path: &str, faults: &mut Faults) {
    word(&codes["operator"], format!("{path}.operator"), OPERATORS, faults);
    if let Some(name) = codes["containerName"].as_str() {
        let template = &spec["template"]["spec"];
        let mut all = ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| template[list].as_array().into_iter().flatten());
        if !all.any(|container| container["name"] == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            faults.invalid(format!("{path}.containerName"), name, detail);
        }
    }
    let path = format!("{path}.values");
    let values: Vec<i64> = codes["values"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    let shown = codes["values"].clone();
    if values.is_empty() {
        faults.invalid(&path, shown.clone(), "at least one value is required");
    } else if values.len() > MOST_EXIT_CODES {
        faults.0.push(too_many(path.clone(), values.len(), MOST_EXIT_CODES));
    }
    let mut seen = BTreeSet::new();
    for (i, value) in values.iter().enumerate() {
        if codes["operator"] == "In" && *value == 0 {
            faults.invalid(format!("{path}[{i}]"), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(*value) {
            faults.duplicate(format!("{path}[{i}]"), *value);
        }
    }
    if !values.is_sorted() {
        faults.invalid(path, shown, "must be ordered");
    }
}

fn validate_patterns(patterns: &[Value], path: &str, faults: &mut Faults) {
    if patterns.len() > MOST_PATTERNS {
        faults.0.push(too_many(path.into(), patterns.len(), MOST_PATTERNS));
    }
    for (i, pattern) in patterns.iter().enumerate() {
        faults.qualified_name(format!("{path}[{i}].type"), pattern["type"].as_str().unwrap_or_default());
        word(&pattern["status"], format!("{path}[{i}].status"), STATUSES, faults);
    }
}

fn validate_success(spec: &Value, policy: &Value, faults: &mut Faults) {
    let rules = policy["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let path = "spec.successPolicy.rules";
    if rules.is_empty() {
        faults.required(path, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > MOST_RULES {
        faults.0.push(too_many(path.into(), rules.len(), MOST_RULES));
    }
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (i, rule) in rules.iter().enumerate() {
        validate_success_rule(rule, completions, &format!("{path}[{i}]"), faults);
    }
}

fn validate_success_rule(rule: &Value, completions: i64, path: &str, faults: &mut Faults) {
    let (indexes, count) = (rule["succeededIndexes"].as_str(), rule["succeededCount"].as_i64());
    if indexes.is_none() && count.is_none() {
        faults.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let path = format!("{path}.succeededIndexes");
        if indexes.len() > MOST_OF_INDEXES {
            faults.too_long(&path, MOST_OF_INDEXES);
        }
        match count_indexes(indexes, completions) {
            Ok(found) => total = found,
            Err(why) => faults.invalid(path, indexes, format!("error parsing succeededIndexes: {why}")),
        }
    }
    if let Some(count) = count {
        faults.0.extend(nonnegative(rule, path, "succeededCount"));
        let path = format!("{path}.succeededCount");
        let most = |most: i64, what: &str| format!("must be less than or equal to {most} (the number of {what})");
        if count > completions {
            faults.invalid(&path, count, most(completions, "specified completions"));
        }
        if indexes.is_some() && count > total {
            faults.invalid(path, count, most(total, "indexes in the specified succeededIndexes field"));
        }
    }
}

/// One index, or the first and last of several.
pub fn parse_interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = text.split('-').collect();
    if limits.len() > 2 {
        return Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let limit = |text: &str| {
        let index: i64 = text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if index < completions { Ok(index) } else { Err(format!("too large index: {text:?}")) }
    };
    let first = limit(limits[0])?;
    let last = limits.get(1).map_or(Ok(first), |text| limit(text))?;
    if limits.len() > 1 && first >= last {
        return Err(format!("non-increasing order, previous: {first}, current: {last}"));
    }
    Ok((first, last))
}

/// How many indexes a text such as `0-2,5` names.
pub fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut previous) = (0, None);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = parse_interval(interval, completions)?;
        if let Some(previous) = previous.filter(|previous| *previous >= first) {
            return Err(format!("non-increasing order, previous: {previous}, current: {first}"));
        }
        total += last - first + 1;
        previous = Some(last);
    }
    Ok(total)
}

/// The policies of a job that exists stay.
pub fn validate_update(before: &Value, after: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, shape) in [
        ("podFailurePolicy", Some(FAILURE)),
        ("backoffLimitPerIndex", None),
        ("managedBy", None),
        ("successPolicy", Some(SUCCESS)),
    ] {
        let error = immutable(&before[field], &after[field], &format!("spec.{field}"));
        errors.extend(error.map(|error| match shape {
            Some(parts) => error.printed(shape::compact(Shape::Pointer(parts), &after[field])),
            None => error,
        }));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(spec: &Value) -> Vec<String> {
        let mut faults = Faults::default();
        validate(spec, &mut faults);
        faults.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_rules_of_a_failure_policy() {
        let path = "spec.podFailurePolicy.rules[0]";
        for (rule, wrong) in [
            (json!({"action": "Ignore", "onPodConditions": [{"type": "a", "status": "True"}]}), vec![]),
            (
                json!({"action": "Odd", "onExitCodes": {"operator": "In", "values": [2, 1, 1, 0]}}),
                vec![
                    format!(
                        "{path}.action: Unsupported value: \"Odd\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\""
                    ),
                    format!("{path}.onExitCodes.values[2]: Duplicate value: 1"),
                    format!("{path}.onExitCodes.values[3]: Invalid value: 0: must not be 0 for the In operator"),
                    format!("{path}.onExitCodes.values: Invalid value: [2,1,1,0]: must be ordered"),
                ],
            ),
            (
                json!({"action": "FailIndex"}),
                vec![
                    format!("{path}.action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"),
                    format!("{path}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
                ],
            ),
        ] {
            assert_eq!(said(&json!({"podFailurePolicy": {"rules": [rule]}})), wrong);
        }
    }

    #[test]
    fn indexes_are_counted() {
        for (text, count) in [
            ("", Ok(0)),
            ("0-2,5", Ok(4)),
            ("2,1", Err("non-increasing order, previous: 2, current: 1".to_owned())),
            ("3-3", Err("non-increasing order, previous: 3, current: 3".to_owned())),
            ("9", Err("too large index: \"9\"".to_owned())),
            ("a", Err("cannot convert string to integer for index: \"a\"".to_owned())),
        ] {
            assert_eq!(count_indexes(text, 9), count, "{text}");
        }
        let spec =
            json!({"completionMode": "Indexed", "completions": 2, "successPolicy": {"rules": [{"succeededCount": 3}]}});
        let wrong = "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of specified completions)";
        assert_eq!(said(&spec), [wrong]);
    }
}
