//! Disruption budgets: defaults, the two ways to say how many may be away, and the status.
use serde_json::{Value, json};

use super::bounds::{all_nonnegative, at_most_all, one_of, positive_int_or_percent};
use super::label_selectors;
use super::shape::{self, Part, Shape};
use super::{drop_empty, set_default};
use crate::server::{FieldError, object};

const SPEC: &[Part] = &[
    Part("MinAvailable", "minAvailable", Shape::Open),
    Part("Selector", "selector", Shape::Pointer(shape::SELECTOR)),
    Part("MaxUnavailable", "maxUnavailable", Shape::Open),
    Part("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy", Shape::Open),
];
const COUNTS: &[&str] = &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];

pub fn default_budget(budget: &mut Value) {
    object::entry_object(budget, "spec");
    let status = object::entry_object(budget, "status");
    COUNTS.iter().for_each(|count| set_default(status, count, json!(0)));
    drop_empty(&mut budget["status"], &["observedGeneration", "disruptedPods", "conditions"]);
}

pub fn validate_budget(budget: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &budget["spec"];
    let limits = [("minAvailable", "spec.minAvailable"), ("maxUnavailable", "spec.maxUnavailable")];
    if limits.iter().all(|(field, _)| !spec[*field].is_null()) {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        let shown = shape::compact(Shape::Struct(SPEC), spec);
        errors.push(FieldError::invalid("spec", Value::Null, detail).printed(shown));
    }
    for (field, path) in limits {
        errors.extend(positive_int_or_percent(&spec[field], path));
        errors.extend(at_most_all(&spec[field], path));
    }
    errors.extend(label_selectors::validate(&spec["selector"], "spec.selector"));
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    errors.extend(one_of(&spec["unhealthyPodEvictionPolicy"], "spec.unhealthyPodEvictionPolicy", &policies));
    errors
}

pub fn validate_status(budget: &Value) -> Vec<FieldError> {
    all_nonnegative(&budget["status"], "status", COUNTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_budget() {
        for (spec, wrong) in [
            (json!({"minAvailable": 1}), vec![]),
            (json!({"maxUnavailable": "50%", "unhealthyPodEvictionPolicy": "AlwaysAllow"}), vec![]),
            (
                json!({"minAvailable": 1, "maxUnavailable": "1%", "selector": {"matchLabels": {"a": "b"}}}),
                vec![
                    "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":{\"matchLabels\":{\"a\":\"b\"}},\"MaxUnavailable\":\"1%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set",
                ],
            ),
            (
                json!({"minAvailable": "150%"}),
                vec!["spec.minAvailable: Invalid value: \"150%\": must not be greater than 100%"],
            ),
            (
                json!({"maxUnavailable": -1}),
                vec!["spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
            ),
        ] {
            let said: Vec<String> = validate_budget(&json!({"spec": spec})).iter().map(ToString::to_string).collect();
            assert_eq!(said, wrong);
        }
    }
}
