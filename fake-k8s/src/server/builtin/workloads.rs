//! Deployments and replica sets; the pods that they make have their own rules.
use serde_json::{Value, json};

use super::bounds::{all_nonnegative, at_most_all, int_or_percent, nonnegative, positive_int_or_percent};
use super::checks::Faults;
use super::shape::{self, Part, Shape};
use super::{drop_empty, label_selectors, pods, set_default};
use crate::server::metadata::label_1123_fault;
use crate::server::{FieldError, object};

const STRATEGY: &[Part] = &[
    Part("Type", "type", Shape::Text),
    Part(
        "RollingUpdate",
        "rollingUpdate",
        Shape::Pointer(&[
            Part("MaxUnavailable", "maxUnavailable", Shape::Number),
            Part("MaxSurge", "maxSurge", Shape::Number),
        ]),
    ),
];

pub fn default_deployment(deployment: &mut Value) {
    let spec = object::entry_object(deployment, "spec");
    for (field, value) in [("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)] {
        set_default(spec, field, json!(value));
    }
    let strategy = object::entry_object(&mut deployment["spec"], "strategy");
    if strategy.get("type").is_none_or(|kind| kind.is_null() || kind == "") {
        strategy.insert("type".into(), json!("RollingUpdate"));
    }
    if strategy["type"] == "RollingUpdate" {
        let rolling = object::entry_object(&mut deployment["spec"]["strategy"], "rollingUpdate");
        set_default(rolling, "maxUnavailable", json!("25%"));
        set_default(rolling, "maxSurge", json!("25%"));
    }
    drop_zero(&mut deployment["spec"], &["minReadySeconds", "paused"]);
    object::entry_object(deployment, "status");
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
    ];
    drop_zero(&mut deployment["status"], &counts);
    drop_empty(&mut deployment["status"], &["conditions"]);
}

pub fn default_replica_set(set: &mut Value) {
    set_default(object::entry_object(set, "spec"), "replicas", json!(1));
    drop_zero(&mut set["spec"], &["minReadySeconds"]);
    set_default(object::entry_object(set, "status"), "replicas", json!(0));
    let counts =
        ["fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration", "terminatingReplicas"];
    drop_zero(&mut set["status"], &counts);
    drop_empty(&mut set["status"], &["conditions"]);
}

/// Numbers and flags that are not written when they are zero.
pub fn drop_zero(object: &mut Value, fields: &[&str]) {
    if let Some(all) = object.as_object_mut() {
        all.retain(|name, value| {
            !fields.contains(&name.as_str()) || !(value.is_null() || *value == 0 || *value == false)
        });
    }
}

pub fn validate_deployment(deployment: &Value) -> Vec<FieldError> {
    let spec = &deployment["spec"];
    let mut faults = Faults(all_nonnegative(spec, "spec", &["replicas"]));
    validate_pods(spec, &mut faults);
    validate_strategy(&spec["strategy"], &mut faults);
    faults.0.extend(all_nonnegative(spec, "spec", &["minReadySeconds", "revisionHistoryLimit"]));
    faults.0.extend(nonnegative(spec, "spec", "progressDeadlineSeconds"));
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64()
        && deadline <= spec["minReadySeconds"].as_i64().unwrap_or(0)
    {
        faults.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
    }
    faults.0
}

pub fn validate_replica_set(set: &Value) -> Vec<FieldError> {
    let mut faults = Faults(all_nonnegative(&set["spec"], "spec", &["replicas", "minReadySeconds"]));
    validate_pods(&set["spec"], &mut faults);
    faults.0
}

/// The selector, the template, and that the one selects what the other makes.
fn validate_pods(spec: &Value, faults: &mut Faults) {
    let selector = &spec["selector"];
    let wrong = label_selectors::validate(selector, "spec.selector");
    let usable = wrong.is_empty();
    faults.0.extend(wrong);
    let shown = || label_selectors::text(selector);
    if selector.is_null() {
        faults.required("spec.selector", "");
    } else if label_selectors::is_empty(selector) {
        let detail = "empty selector is invalid for deployment";
        faults.0.push(FieldError::invalid("spec.selector", Value::Null, detail).printed(shown()));
    }
    if !usable {
        let detail = "invalid label selector";
        return faults.0.push(FieldError::invalid("spec.selector", Value::Null, detail).printed(shown()));
    }
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    if !label_selectors::selects(selector, labels) {
        faults.invalid("spec.template.metadata.labels", labels.clone(), "`selector` does not match template `labels`");
    }
    faults.0.extend(pods::validate_template(template, "spec.template"));
    let policy = &template["spec"]["restartPolicy"];
    if *policy != "Always" {
        faults.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        faults.forbidden("spec.template.spec.activeDeadlineSeconds", detail);
    }
}

/// The rules of a pod, of one that is yet to be made.
pub fn validate_template(template: &Value) -> Vec<FieldError> {
    pods::validate_template(template, "spec.template")
}

fn validate_strategy(strategy: &Value, faults: &mut Faults) {
    let path = "spec.strategy";
    let rolling = &strategy["rollingUpdate"];
    match strategy["type"].as_str().unwrap_or_default() {
        "Recreate" => {
            if !rolling.is_null() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                faults.forbidden(format!("{path}.rollingUpdate"), detail);
            }
        }
        "RollingUpdate" => validate_rolling(rolling, &format!("{path}.rollingUpdate"), faults),
        _ => {
            let words = ["Recreate", "RollingUpdate"].map(str::to_owned);
            let shown = shape::compact(Shape::Struct(STRATEGY), strategy);
            faults.0.push(FieldError::not_supported(path, Value::Null, &words).printed(shown));
        }
    }
}

fn validate_rolling(rolling: &Value, path: &str, faults: &mut Faults) {
    let (most, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
    let path = |field: &str| format!("{path}.{field}");
    faults.0.extend(positive_int_or_percent(most, &path("maxUnavailable")));
    faults.0.extend(positive_int_or_percent(surge, &path("maxSurge")));
    if int_or_percent(most) == 0 && int_or_percent(surge) == 0 {
        faults.invalid(path("maxUnavailable"), most.clone(), "may not be 0 when `maxSurge` is 0");
    }
    faults.0.extend(at_most_all(most, &path("maxUnavailable")));
}

pub fn validate_update(old: &Value, new: &Value) -> Option<FieldError> {
    let (before, after) = (&old["spec"]["selector"], &new["spec"]["selector"]);
    (before != after).then(|| {
        let error = FieldError::invalid("spec.selector", Value::Null, "field is immutable");
        error.printed(label_selectors::text(after))
    })
}

/// The counts of a status, and which of them may not be more than all.
pub fn validate_status(old: &Value, new: &Value, deployment: bool) -> Vec<FieldError> {
    let status = &new["status"];
    let counts: &[&str] = if deployment {
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ]
    } else {
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ]
    };
    let mut faults = Faults(all_nonnegative(status, "status", counts));
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let first = if deployment { "updatedReplicas" } else { "fullyLabeledReplicas" };
    for field in [first, "readyReplicas", "availableReplicas"] {
        if count(field) > count("replicas") {
            faults.invalid(format!("status.{field}"), count(field), "cannot be greater than status.replicas");
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let detail = "cannot be greater than readyReplicas";
        faults.invalid("status.availableReplicas", count("availableReplicas"), detail);
    }
    let collisions = |object: &Value| object["status"]["collisionCount"].as_i64();
    if deployment && collisions(old).is_some_and(|before| before > collisions(new).unwrap_or(0)) {
        faults.invalid("status.collisionCount", collisions(new).unwrap_or(0), "cannot be decremented");
    }
    faults.0
}

/// A name that is no name of a host is no mistake, but pods have it in theirs.
pub fn name_warning(name: &str) -> Option<String> {
    label_1123_fault(name).map(|why| {
        format!("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{why}]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::builtin::pod_defaults;

    fn deployment(change: &Value) -> Value {
        let container = json!({"name": "a", "image": "a", "imagePullPolicy": "Always"});
        let mut deployment = json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": {
            "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}}});
        json_patch::merge(&mut deployment["spec"], change);
        pod_defaults::default_spec(object::entry_object(&mut deployment["spec"]["template"], "spec"));
        default_deployment(&mut deployment);
        deployment
    }

    fn said(errors: impl IntoIterator<Item = FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| error.to_string()).collect()
    }

    #[test]
    fn the_rules_of_a_deployment() {
        for (change, wrong) in [
            (json!({}), vec![]),
            (json!({"replicas": -1}), vec!["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
            (
                json!({"selector": {"matchLabels": null}}),
                vec!["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
            ),
            (
                json!({"selector": null}),
                vec![
                    "spec.selector: Required value",
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                json!({"strategy": {"type": "Odd"}}),
                vec![
                    "spec.strategy: Unsupported value: {\"Type\":\"Odd\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"",
                ],
            ),
            (
                json!({"strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}}),
                vec!["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
            ),
            (
                json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5}),
                vec!["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
            ),
        ] {
            assert_eq!(said(validate_deployment(&deployment(&change))), wrong);
        }
    }

    #[test]
    fn a_selector_stays() {
        let other = deployment(&json!({"selector": {"matchLabels": {"b": "c"}}}));
        let shown = "{\"matchLabels\":{\"app\":\"a\",\"b\":\"c\"}}";
        assert_eq!(
            said(validate_update(&deployment(&json!({})), &other)),
            [format!("spec.selector: Invalid value: {shown}: field is immutable")]
        );
    }

    #[test]
    fn the_counts_of_a_status() {
        for (status, deployment, wrong) in [
            (json!({"replicas": 1, "readyReplicas": 1}), true, vec![]),
            (
                json!({"replicas": -1}),
                false,
                vec!["status.replicas: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                json!({"availableReplicas": 1}),
                true,
                vec![
                    "status.availableReplicas: Invalid value: 1: cannot be greater than status.replicas",
                    "status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas",
                ],
            ),
        ] {
            assert_eq!(said(validate_status(&json!({}), &json!({"status": status}), deployment))[..wrong.len()], wrong);
        }
    }
}
