//! `metav1.LabelSelector` as a field of an object: its rules, and which labels it selects.
use serde_json::Value;

use super::shape::{self, Shape};
use crate::server::FieldError;
use crate::server::metadata::{label_value_fault, qualified_name_fault, validate_labels};

/// What is wrong with a selector; nothing is wrong with one that is absent.
pub fn validate(selector: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_labels(&selector["matchLabels"], &format!("{path}.matchLabels"), &mut errors);
    for (i, rule) in selector["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        validate_requirement(rule, &format!("{path}.matchExpressions[{i}]"), &mut errors);
    }
    errors
}

fn validate_requirement(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let operator = rule["operator"].as_str().unwrap_or_default();
    let values: Vec<&str> = rule["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(format!("{path}.values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(format!("{path}.values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(format!("{path}.operator"), operator, detail));
        }
    }
    let key = rule["key"].as_str().unwrap_or_default();
    let invalid = |why| FieldError::invalid(format!("{path}.key"), key, why);
    errors.extend(qualified_name_fault(key).into_iter().map(invalid));
    for (i, value) in values.into_iter().enumerate() {
        let invalid = |why| FieldError::invalid(format!("{path}.values[{i}]"), value, why);
        errors.extend(label_value_fault(value).into_iter().map(invalid));
    }
}

/// Has it neither labels nor expressions?
pub fn is_empty(selector: &Value) -> bool {
    let labels = selector["matchLabels"].as_object().is_none_or(|labels| labels.is_empty());
    labels && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty)
}

/// Does it select these labels? One that is absent selects nothing.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let mut wanted = selector["matchLabels"].as_object().into_iter().flatten();
    wanted.all(|(key, value)| labels[key] == *value)
        && selector["matchExpressions"].as_array().into_iter().flatten().all(|rule| {
            let actual = &labels[rule["key"].as_str().unwrap_or_default()];
            let listed = rule["values"].as_array().is_some_and(|values| values.contains(actual));
            match rule["operator"].as_str().unwrap_or_default() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => !actual.is_null(),
                "DoesNotExist" => actual.is_null(),
                _ => false,
            }
        })
}

/// As messages show it.
pub fn text(selector: &Value) -> String {
    shape::compact(Shape::Pointer(shape::SELECTOR), selector)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rules_of_a_selector() {
        for (selector, said) in [
            (json!({}), vec![]),
            (Value::Null, vec![]),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}), vec![]),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]}),
                vec!["s.matchExpressions[0].operator: Invalid value: \"Odd\": not a valid selector operator"],
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                vec![
                    "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                ],
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
                vec![
                    "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ],
            ),
        ] {
            let errors: Vec<String> = validate(&selector, "s").iter().map(ToString::to_string).collect();
            assert_eq!(errors, said, "{selector}");
        }
    }

    #[test]
    fn what_a_selector_selects() {
        let rule = |operator: &str| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": ["1"]}]});
        for (selector, labels, selected) in [
            (Value::Null, json!({}), false),
            (json!({}), Value::Null, true),
            (json!({"matchLabels": {"a": "1"}}), json!({"a": "1"}), true),
            (json!({"matchLabels": {"a": "1"}}), Value::Null, false),
            (rule("In"), json!({"a": "1"}), true),
            (rule("NotIn"), json!({"a": "1"}), false),
            (rule("NotIn"), Value::Null, true),
            (rule("DoesNotExist"), Value::Null, true),
        ] {
            assert_eq!(selects(&selector, &labels), selected, "{selector} {labels}");
        }
    }
}
