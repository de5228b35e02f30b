//! Jobs: what is filled in, among it the selector that no other job has, and the rules of what they are asked to do.
use serde_json::{Value, json};

use super::bounds::{all_nonnegative, immutable, one_of};
use super::checks::Faults;
use super::pod_shape::POD_SPEC;
use super::shape::{self, Part, Shape};
use super::{drop_empty, label_selectors, pods, set_default, workloads};
use crate::server::metadata::{label_1123_fault, subdomain_fault};
use crate::server::{FieldError, object};

mod policies;
mod status;

pub use status::validate_status;

const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const MOST_PARALLEL: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const MOST_OF_MANY: i64 = 10_000;
const MOST_OF_MANAGER: usize = 63;

const TEMPLATE: &[Part] = &[
    Part("", "name", Shape::Open),
    Part("", "generateName", Shape::Open),
    Part("", "namespace", Shape::Open),
    Part("", "labels", Shape::Open),
    Part("", "annotations", Shape::Open),
    Part("", "ownerReferences", Shape::Open),
    Part("", "finalizers", Shape::Open),
    Part("Spec", "spec", Shape::Struct(POD_SPEC)),
];

pub fn default_job(job: &mut Value) {
    let spec = object::entry_object(job, "spec");
    spec.retain(|_, value| !value.is_null());
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".into(), json!(1));
    }
    let backoff = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    for (field, value) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(backoff)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("podReplacementPolicy", json!(replacement)),
        ("manualSelector", json!(false)),
    ] {
        set_default(spec, field, value);
    }
    if let Some(policy) = spec.get_mut("podFailurePolicy") {
        policies::default_conditions(policy);
    }
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() && object::meta_mut(job).get("labels").is_none_or(|own| *own == json!({})) {
        object::meta_mut(job).insert("labels".into(), labels);
    }
    object::entry_object(job, "status");
    workloads::drop_zero(&mut job["status"], &["active", "succeeded", "failed"]);
    drop_empty(&mut job["status"], &["conditions", "completedIndexes"]);
}

/// Gives a new job a selector of its own, and its pods the labels for it.
pub fn select(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, name) = (json!(object::uid(job)), json!(object::name(job)));
    let spec = &mut job["spec"];
    object::entry_object(
        object::entry_object(spec, "template").entry("metadata").or_insert_with(|| json!({})),
        "labels",
    );
    if let Some(labels) = spec["template"]["metadata"]["labels"].as_object_mut() {
        NAME_LABELS.iter().for_each(|label| set_default(labels, label, name.clone()));
        UID_LABELS.iter().for_each(|label| set_default(labels, label, uid.clone()));
    }
    object::entry_object(spec, "selector");
    set_default(object::entry_object(&mut spec["selector"], "matchLabels"), UID_LABELS[1], uid);
}

/// The rules of a whole job: those of its name and its selector, then those of its spec.
pub fn validate_job(job: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut faults = Faults::default();
    // Jobs of old servers have the short labels only.
    let had = |label: &str| old.is_none_or(|old| !old["spec"]["template"]["metadata"]["labels"][label].is_null());
    validate_own_selector(job, had(UID_LABELS[1]) && had(NAME_LABELS[1]), &mut faults);
    faults.0.extend(validate_spec(&job["spec"]));
    let completions = job["spec"]["completions"].as_i64().unwrap_or(0);
    if job["spec"]["completionMode"] == "Indexed" && completions > 0 {
        let host = format!("{}-{}", object::name(job), completions - 1);
        if label_1123_fault(&host).is_some() {
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            faults.invalid("metadata.name", object::name(job), detail);
        }
    }
    faults.0
}

fn validate_own_selector(job: &Value, prefixed: bool, faults: &mut Faults) {
    let spec = &job["spec"];
    if spec["manualSelector"] == true || spec["selector"].is_null() {
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let mut expected = vec![
        (UID_LABELS[0], object::uid(job)),
        (NAME_LABELS[0], object::name(job)),
        (UID_LABELS[1], object::uid(job)),
        (NAME_LABELS[1], object::name(job)),
    ];
    expected.truncate(if prefixed { 4 } else { 2 });
    for &(label, value) in &expected {
        let (path, detail) = (format!("spec.template.metadata.labels[{label}]"), format!("must be '{value}'"));
        match labels[label].as_str() {
            None => faults.required(path, &detail),
            Some(actual) if actual != value => faults.invalid(path, labels.clone(), detail),
            Some(_) => {}
        }
    }
    let generated: Value = expected.into_iter().map(|(label, value)| (label.to_owned(), json!(value))).collect();
    let usable = label_selectors::validate(&spec["selector"], "").is_empty();
    if usable && !label_selectors::selects(&spec["selector"], &generated) {
        let error = FieldError::invalid("spec.selector", Value::Null, "`selector` not auto-generated");
        faults.0.push(error.printed(label_selectors::text(&spec["selector"])));
    }
}

fn validate_spec(spec: &Value) -> Vec<FieldError> {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    let mut faults = Faults(all_nonnegative(spec, "spec", &counts));
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        faults.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified");
    }
    validate_manager(&spec["managedBy"], &mut faults);
    validate_indexes(spec, &mut faults);
    policies::validate(spec, &mut faults);
    faults.0.extend(pods::validate_template(&spec["template"], "spec.template"));
    validate_restart(spec, &mut faults);
    if spec["selector"].is_null() {
        faults.required("spec.selector", "");
    }
    let wrong = label_selectors::validate(&spec["selector"], "spec.selector");
    let labels = &spec["template"]["metadata"]["labels"];
    let selected = !wrong.is_empty() || label_selectors::selects(&spec["selector"], labels);
    faults.0.extend(wrong);
    if !selected {
        faults.invalid("spec.template.metadata.labels", labels.clone(), "`selector` does not match template `labels`");
    }
    faults.0
}

/// Who manages the job: `example.com/some/path`.
fn validate_manager(manager: &Value, faults: &mut Faults) {
    let Some(text) = manager.as_str() else { return };
    let path = "spec.managedBy";
    match text.split_once('/') {
        _ if text.is_empty() => faults.required(path, ""),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            faults.fault(path, host, subdomain_fault(host));
            if rest.bytes().any(|byte| !(byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte))) {
                let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                faults.invalid(path, rest, detail);
            }
        }
        _ => faults.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if text.len() > MOST_OF_MANAGER {
        faults.too_long(path, MOST_OF_MANAGER);
    }
}

fn validate_indexes(spec: &Value, faults: &mut Faults) {
    faults.0.extend(one_of(&spec["completionMode"], "spec.completionMode", &["NonIndexed", "Indexed"]));
    let number = |field: &str| spec[field].as_i64();
    if spec["completionMode"] != "Indexed" {
        if spec["completionMode"].is_null() || spec["completionMode"] == "NonIndexed" {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = number(field) {
                    faults.invalid(format!("spec.{field}"), value, "requires indexed completion mode");
                }
            }
        }
        return;
    }
    let (completions, parallel, failed) = (number("completions"), number("parallelism"), number("maxFailedIndexes"));
    if completions.is_none() {
        faults.required("spec.completions", "when completion mode is Indexed");
    }
    let mut at_most = |field: &str, value: Option<i64>, most: i64, when: &str| {
        if let Some(value) = value.filter(|value| *value > most) {
            faults.invalid(format!("spec.{field}"), value, format!("must be less than or equal to {most}{when}"));
        }
    };
    at_most("parallelism", parallel, MOST_PARALLEL, " when completion mode is Indexed");
    if let (Some(all), Some(failed)) = (completions, failed)
        && failed > all
    {
        faults.invalid("spec.maxFailedIndexes", failed, "must be less than or equal to completions");
    }
    let mut at_most = |field: &str, value: Option<i64>, most: i64, when: &str| {
        if let Some(value) = value.filter(|value| *value > most) {
            faults.invalid(format!("spec.{field}"), value, format!("must be less than or equal to {most}{when}"));
        }
    };
    at_most("maxFailedIndexes", failed, MOST_PARALLEL, "");
    if completions.is_some_and(|all| all > MANY_COMPLETIONS) && !spec["backoffLimitPerIndex"].is_null() {
        let when = format!(" when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        at_most("parallelism", parallel, MOST_OF_MANY, &when);
        at_most("maxFailedIndexes", failed, MOST_OF_MANY, &when);
        if failed.is_none() {
            let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            faults.required("spec.maxFailedIndexes", &detail);
        }
    }
}

/// The pods of a job end.
fn validate_restart(spec: &Value, faults: &mut Faults) {
    let path = "spec.template.spec.restartPolicy";
    match spec["template"]["spec"]["restartPolicy"].as_str().unwrap_or_default() {
        "" | "Always" => faults.required(path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if !spec["podFailurePolicy"].is_null() => {
            faults.invalid(path, "OnFailure", "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => faults.not_supported(path, &spec["template"]["spec"]["restartPolicy"], &["OnFailure", "Never"]),
    }
}

/// The rules of the spec of a changed job, and what of it may not change.
pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (before, after) = (&old["spec"], &new["spec"]);
    let mut faults = Faults(validate_spec(after));
    if after["completionMode"] != "Indexed" {
        faults.0.extend(immutable(&before["completions"], &after["completions"], "spec.completions"));
    } else if before["completions"] != after["completions"]
        && !after["completions"].is_null()
        && after["completions"] != after["parallelism"]
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        faults.invalid("spec.completions", after["completions"].clone(), detail);
    }
    faults.0.extend(workloads::validate_update(old, new));
    faults.0.extend(validate_template_update(old, new));
    faults.0.extend(immutable(&before["completionMode"], &after["completionMode"], "spec.completionMode"));
    faults.0.extend(policies::validate_update(before, after));
    faults.0
}

/// The template stays, but for where its pods run, as long as none was made.
fn validate_template_update(old: &Value, new: &Value) -> Option<FieldError> {
    let mut before = old["spec"]["template"].clone();
    let after = &new["spec"]["template"];
    if old["spec"]["suspend"] == true && old["status"]["startTime"].is_null() {
        let fields = [("metadata", "labels"), ("metadata", "annotations")].into_iter();
        let placing = ["nodeSelector", "tolerations", "schedulingGates"].map(|field| ("spec", field));
        for (part, field) in fields.chain(placing) {
            object::set_or_remove(object::entry_object(&mut before, part), field, &after[part][field]);
        }
        let affinity = object::entry_object(&mut before["spec"], "affinity");
        object::set_or_remove(affinity, "nodeAffinity", &after["spec"]["affinity"]["nodeAffinity"]);
        drop_empty(&mut before["spec"], &["affinity"]);
    }
    let [before, shown] = [&before, after].map(template_text);
    (before != shown).then(|| FieldError::invalid("spec.template", Value::Null, "field is immutable").printed(shown))
}

/// A template as messages show it: its metadata is not apart, and what concerns the host is a part of the security context.
fn template_text(template: &Value) -> String {
    let mut flat = template["metadata"].clone();
    let mut spec = template["spec"].clone();
    for field in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        let value = spec[field].take();
        if !value.is_null() {
            object::entry_object(&mut spec, "securityContext").insert(field.into(), value);
        }
    }
    object::entry_object(&mut flat, "spec");
    flat["spec"] = spec;
    shape::compact(Shape::Struct(TEMPLATE), &flat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::builtin::pod_defaults;

    fn job(change: &Value) -> Value {
        let mut job = json!({"metadata": {"name": "x", "uid": "u"}, "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}});
        json_patch::merge(&mut job["spec"], change);
        pod_defaults::default_spec(object::entry_object(&mut job["spec"]["template"], "spec"));
        default_job(&mut job);
        select(&mut job);
        job
    }

    fn said(errors: impl IntoIterator<Item = FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| error.to_string()).collect()
    }

    #[test]
    fn a_job_selects_its_own_pods() {
        let job = job(&json!({}));
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
        let labels = json!({"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u",
            "batch.kubernetes.io/job-name": "x", "job-name": "x"});
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    }

    #[test]
    fn the_rules_of_a_job() {
        for (change, wrong) in [
            (json!({}), vec![]),
            (
                json!({"parallelism": -1}),
                vec!["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                json!({"template": {"spec": {"restartPolicy": "Always"}}}),
                vec!["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
            ),
            (
                json!({"completionMode": "Indexed", "parallelism": 1}),
                vec!["spec.completions: Required value: when completion mode is Indexed"],
            ),
            (
                json!({"maxFailedIndexes": 1}),
                vec![
                    "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                    "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
                ],
            ),
            (
                json!({"managedBy": "me"}),
                vec!["spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")"],
            ),
        ] {
            assert_eq!(said(validate_job(&job(&change), None)), wrong);
        }
    }

    #[test]
    fn what_of_a_job_may_change() {
        for (change, wrong) in [
            (json!({"completions": 1, "parallelism": 3, "suspend": true}), vec![]),
            (json!({"completions": 3}), vec!["spec.completions: Invalid value: 3: field is immutable"]),
            (
                json!({"completionMode": "Indexed", "completions": 1}),
                vec!["spec.completionMode: Invalid value: \"Indexed\": field is immutable"],
            ),
        ] {
            assert_eq!(said(validate_update(&job(&json!({})), &job(&change))), wrong);
        }
    }

    #[test]
    fn where_pods_run_may_change_before_any_was_made() {
        let moved = json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}});
        let mut suspended = job(&json!({"suspend": true}));
        assert_eq!(said(validate_update(&suspended, &job(&moved))), Vec::<String>::new());
        suspended["status"]["startTime"] = json!("2001-01-01T00:00:00Z");
        assert_eq!(validate_update(&suspended, &job(&moved)).len(), 1);
    }
}
