//! Roles and what binds them (rbac.authorization.k8s.io).
use serde_json::{Map, Value, json};

use super::{drop_empty, set_default};
use crate::server::FieldError;
use crate::server::metadata::{path_segment_fault, subdomain_fault};

const GROUP: &str = "rbac.authorization.k8s.io";

pub fn default_role(role: &mut Value) {
    for rule in role.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_empty(rule, &["apiGroups", "resources", "resourceNames", "nonResourceURLs"]);
    }
}

pub fn default_binding(binding: &mut Value) {
    let reference = crate::server::object::entry_object(binding, "roleRef");
    set_default_group(reference);
    for field in ["kind", "name"] {
        set_default(reference, field, json!(""));
    }
    for subject in binding.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_empty(subject, &["namespace", "apiGroup"]);
        let Some(subject) = subject.as_object_mut() else { continue };
        if subject.get("kind").is_some_and(|kind| kind == "User" || kind == "Group") {
            set_default_group(subject);
        }
        for field in ["kind", "name"] {
            set_default(subject, field, json!(""));
        }
    }
    drop_empty(binding, &["subjects"]);
}

fn set_default_group(reference: &mut Map<String, Value>) {
    if reference.get("apiGroup").is_none_or(|group| group.is_null() || group == "") {
        reference.insert("apiGroup".into(), json!(GROUP));
    }
}

pub fn validate_role(role: &Value, namespaced: bool) -> Vec<FieldError> {
    let rules = role["rules"].as_array().into_iter().flatten().enumerate();
    let mut errors: Vec<FieldError> =
        rules.flat_map(|(i, rule)| validate_rule(rule, namespaced, &format!("rules[{i}]"))).collect();
    if role["aggregationRule"].is_object() {
        validate_aggregation(&role["aggregationRule"]["clusterRoleSelectors"], &mut errors);
    }
    errors
}

fn validate_aggregation(selectors: &Value, errors: &mut Vec<FieldError>) {
    let path = "aggregationRule.clusterRoleSelectors";
    if selectors.as_array().is_none_or(Vec::is_empty) {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(path, detail));
    }
    for (i, selector) in selectors.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{i}]");
        let faults = super::label_selectors::validate(selector, &path);
        let unusable = !faults.is_empty();
        errors.extend(faults);
        if unusable {
            errors.push(FieldError::invalid(path, Value::Null, "invalid label selector.").printed("null"));
        }
    }
}

fn validate_rule(rule: &Value, namespaced: bool, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let filled = |field: &str| rule[field].as_array().is_some_and(|list| !list.is_empty());
    let mut required = |field: &str, detail: &str| errors.push(FieldError::required(format!("{path}.{field}"), detail));
    if !filled("verbs") {
        required("verbs", "verbs must contain at least one value");
    }
    if filled("nonResourceURLs") {
        let mut refuse = |detail: &str| {
            let path = format!("{path}.nonResourceURLs");
            errors.push(FieldError::invalid(path, rule["nonResourceURLs"].clone(), detail));
        };
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].into_iter().any(filled) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return errors;
    }
    if !filled("apiGroups") {
        required("apiGroups", "resource rules must supply at least one api group");
    }
    if !filled("resources") {
        required("resources", "resource rules must supply at least one resource");
    }
    errors
}

pub fn validate_binding(binding: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut unsupported = |path: String, value: &Value, words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let value = if value.is_null() { json!("") } else { value.clone() };
        errors.push(FieldError::not_supported(path, value, &words));
    };
    let reference = &binding["roleRef"];
    if reference["apiGroup"] != GROUP {
        unsupported("roleRef.apiGroup".into(), &reference["apiGroup"], &[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&reference["kind"].as_str().unwrap_or_default()) {
        unsupported("roleRef.kind".into(), &reference["kind"], kinds);
    }
    match reference["name"].as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required("roleRef.name", "")),
        name => errors
            .extend(path_segment_fault(name).into_iter().map(|why| FieldError::invalid("roleRef.name", name, why))),
    }
    for (i, subject) in binding["subjects"].as_array().into_iter().flatten().enumerate() {
        errors.extend(validate_subject(subject, namespaced, &format!("subjects[{i}]")));
    }
    errors
}

fn validate_subject(subject: &Value, namespaced: bool, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |field: &str| subject[field].as_str().unwrap_or_default();
    let unsupported = |field: &str, words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        FieldError::not_supported(format!("{path}.{field}"), text(field), &words)
    };
    if text("name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    match text("kind") {
        "ServiceAccount" => {
            let name = Some(text("name")).filter(|name| !name.is_empty());
            let faults = name.into_iter().flat_map(|name| subdomain_fault(name).into_iter());
            errors.extend(faults.map(|why| FieldError::invalid(format!("{path}.name"), text("name"), why)));
            if !text("apiGroup").is_empty() {
                errors.push(unsupported("apiGroup", &[""]));
            }
            if !namespaced && text("namespace").is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" if text("apiGroup") != GROUP => errors.push(unsupported("apiGroup", &[GROUP])),
        "User" | "Group" => {}
        _ => errors.push(unsupported("kind", &["ServiceAccount", "User", "Group"])),
    }
    errors
}

pub fn validate_binding_update(old: &Value, new: &Value) -> Vec<FieldError> {
    if old["roleRef"] == new["roleRef"] {
        return Vec::new();
    }
    let text = |field: &str| Value::from(new["roleRef"][field].as_str().unwrap_or_default());
    let shown = json!({"APIGroup": text("apiGroup"), "Kind": text("kind"), "Name": text("name")});
    vec![FieldError::invalid("roleRef", shown, "cannot change roleRef")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_rules_of_a_role() {
        for (rule, namespaced, wrong) in [
            (json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}), true, vec![]),
            (json!({"nonResourceURLs": ["/a"], "verbs": ["get"]}), false, vec![]),
            (
                json!({"nonResourceURLs": ["/a"], "verbs": ["get"]}),
                true,
                vec![
                    "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: namespaced rules cannot apply to non-resource URLs",
                ],
            ),
            (
                json!({"verbs": []}),
                true,
                vec![
                    "rules[0].verbs: Required value: verbs must contain at least one value",
                    "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                    "rules[0].resources: Required value: resource rules must supply at least one resource",
                ],
            ),
        ] {
            assert_eq!(said(&validate_role(&json!({"rules": [rule]}), namespaced)), wrong);
        }
    }

    #[test]
    fn the_rules_of_a_binding() {
        let mut binding = json!({"roleRef": {"kind": "Role", "name": "a"}, "subjects": [
            {"kind": "User", "name": "a"}, {"kind": "ServiceAccount", "name": "a"}, {"kind": "Odd", "name": "a"}]});
        default_binding(&mut binding);
        let odd =
            "subjects[2].kind: Unsupported value: \"Odd\": supported values: \"ServiceAccount\", \"User\", \"Group\"";
        assert_eq!(said(&validate_binding(&binding, true)), [odd]);
        assert_eq!(
            said(&validate_binding(&binding, false)),
            [
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "subjects[1].namespace: Required value",
                odd,
            ]
        );
        let mut other = binding.clone();
        other["roleRef"]["name"] = json!("b");
        assert_eq!(
            said(&validate_binding_update(&binding, &other)),
            [
                "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"b\"}: cannot change roleRef"
            ]
        );
    }
}
