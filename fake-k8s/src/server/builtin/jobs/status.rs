//! What a controller may say of a job: only what changes is judged.
use serde_json::Value;

use super::policies::{count_indexes, parse_interval};
use crate::server::FieldError;
use crate::server::builtin::bounds::all_nonnegative;
use crate::server::builtin::checks::Faults;

fn condition(job: &Value, kind: &str, status: &str) -> bool {
    let all = job["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|condition| condition["type"] == kind && condition["status"] == status)
}

fn is(job: &Value, kind: &str) -> bool {
    condition(job, kind, "True")
}

fn finished(job: &Value) -> bool {
    is(job, "Complete") || is(job, "Failed")
}

fn number(job: &Value, field: &str) -> i64 {
    job["status"][field].as_i64().unwrap_or(0)
}

/// The rules of a status, and of how it may follow the one before.
pub fn validate_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    let mut faults = Faults(all_nonnegative(&new["status"], "status", &counts));
    validate_uncounted(new, &mut faults);
    validate_end(old, new, &mut faults);
    validate_finished(old, new, &mut faults);
    validate_indexes(old, new, &mut faults);
    validate_counts(old, new, &mut faults);
    validate_success(new, &mut faults);
    validate_course(old, new, &mut faults);
    faults.0
}

fn refuse(faults: &mut Faults, wrong: bool, detail: &str) {
    if wrong {
        faults.0.push(FieldError::invalid("status.conditions", Value::Null, detail).without_value());
    }
}

/// A pod waits once to be counted.
fn validate_uncounted(job: &Value, faults: &mut Faults) {
    let mut seen = Vec::new();
    for list in ["succeeded", "failed"] {
        let all = job["status"]["uncountedTerminatedPods"][list].as_array().into_iter().flatten();
        for (i, uid) in all.enumerate() {
            let path = format!("status.uncountedTerminatedPods.{list}[{i}]");
            if *uid == "" {
                faults.invalid(path, "", "must not be empty");
            } else if seen.contains(&uid) {
                faults.duplicate(path, uid.clone());
            } else {
                seen.push(uid);
            }
        }
    }
}

/// The conditions that say that a job has ended, and when it did.
fn validate_end(old: &Value, new: &Value, faults: &mut Faults) {
    let turned = |kind: &str| is(old, kind) != is(new, kind);
    let changed = |field: &str| old["status"][field] != new["status"][field];
    let (start, end) = (&new["status"]["startTime"], &new["status"]["completionTime"]);
    let complete = is(new, "Complete");
    let both = turned("Complete") || turned("Failed");
    refuse(faults, both && complete && is(new, "Failed"), "cannot set Complete=True and Failed=true conditions");
    let target = (turned("Complete") || turned("FailureTarget")) && complete && is(new, "FailureTarget");
    refuse(faults, target, "cannot set Complete=True and FailureTarget=true conditions");
    let path = "status.completionTime";
    if turned("Complete") || changed("completionTime") {
        if !end.is_null() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            faults.invalid(path, end.clone(), detail);
        }
        if end.is_null() && complete {
            faults.required(path, "completionTime is required for Complete jobs");
        }
    }
    if (changed("startTime") || changed("completionTime"))
        && let (Some(from), Some(to)) = (start.as_str(), end.as_str())
        && to < from
    {
        faults.invalid(path, to, "must be equal to or after `startTime`");
    }
    let failed = (turned("Failed") || changed("failedIndexes")) && is(new, "Failed") && !is(new, "FailureTarget");
    refuse(faults, failed, "cannot set Failed=True condition without the FailureTarget=true condition");
    let met = (turned("Complete") || turned("SuccessCriteriaMet")) && complete && !is(new, "SuccessCriteriaMet");
    refuse(faults, met, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
}

fn validate_finished(old: &Value, new: &Value, faults: &mut Faults) {
    if !finished(new) {
        return;
    }
    let ended = !finished(old);
    let changed = |field: &str| ended || old["status"][field] != new["status"][field];
    if changed("active") && number(new, "active") > 0 {
        faults.invalid("status.active", number(new, "active"), "active>0 is invalid for finished job");
    }
    let idle = new["spec"]["suspend"] == true && new["spec"]["completions"] == 0;
    if changed("startTime") && !idle && new["status"]["startTime"].is_null() {
        faults.required("status.startTime", "startTime is required for finished job");
    }
    let waiting = &new["status"]["uncountedTerminatedPods"];
    let any = ["succeeded", "failed"].iter().any(|list| waiting[*list].as_array().is_some_and(|pods| !pods.is_empty()));
    if changed("uncountedTerminatedPods") && any {
        let list = |field: &str| if waiting[field].is_null() { "null".to_owned() } else { waiting[field].to_string() };
        let shown = format!("{{\"Succeeded\":{},\"Failed\":{}}}", list("succeeded"), list("failed"));
        let error =
            FieldError::invalid("status.uncountedTerminatedPods", Value::Null, "must be empty for finished job");
        faults.0.push(error.printed(shown));
    }
}

fn validate_indexes(old: &Value, new: &Value, faults: &mut Faults) {
    let (done, failed) = (&new["status"]["completedIndexes"], &new["status"]["failedIndexes"]);
    let (new_done, new_failed) =
        (old["status"]["completedIndexes"] != *done, old["status"]["failedIndexes"] != *failed);
    let completions = new["spec"]["completions"].as_i64();
    let limited = !new["spec"]["backoffLimitPerIndex"].is_null();
    let (done_text, failed_text) = (done.as_str().unwrap_or_default(), failed.as_str());
    if let Some(all) = completions {
        if new_done && let Err(why) = count_indexes(done_text, all) {
            faults.invalid("status.completedIndexes", done_text, format!("error parsing completedIndexes: {why}"));
        }
        if new_failed
            && limited
            && let Some(Err(why)) = failed_text.map(|text| count_indexes(text, all))
        {
            faults.invalid("status.failedIndexes", failed.clone(), format!("error parsing failedIndexes: {why}"));
        }
    }
    if new_done && !done_text.is_empty() && new["spec"]["completionMode"] != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        faults.invalid("status.completedIndexes", done_text, detail);
    }
    let Some(text) = failed_text else { return };
    if new_failed && !limited {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        faults.invalid("status.failedIndexes", text, detail);
    }
    if let Some(all) = completions.filter(|_| new_done || new_failed)
        && let Some(index) = overlap(done_text, text, all)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        faults.invalid("status.failedIndexes", text, detail);
    }
}

/// The first index that two texts of indexes share.
fn overlap(done: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|interval| parse_interval(interval, completions).ok()).collect()
    };
    let (done, failed) = (intervals(done), intervals(failed));
    let pairs = done.iter().flat_map(|one| failed.iter().map(move |other| (one, other)));
    pairs.filter(|(one, other)| one.0 <= other.1 && other.0 <= one.1).map(|(one, other)| one.0.max(other.0)).min()
}

fn validate_counts(old: &Value, new: &Value, faults: &mut Faults) {
    let changed = |field: &str| old["status"][field] != new["status"][field];
    let (ready, terminating) = (number(new, "ready"), number(new, "terminating"));
    if finished(new) && (!finished(old) || changed("terminating")) && terminating > 0 {
        faults.invalid("status.terminating", terminating, "terminating>0 is invalid for finished job");
    }
    if (changed("ready") || changed("active")) && ready > number(new, "active") {
        faults.invalid("status.ready", ready, "cannot set more ready pods than active");
    }
}

fn validate_success(new: &Value, faults: &mut Faults) {
    let met = is(new, "SuccessCriteriaMet");
    let failed = met && is(new, "Failed");
    refuse(faults, failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    let target = met && is(new, "FailureTarget");
    refuse(faults, target, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    let early = !new["spec"]["successPolicy"].is_null() && !met && is(new, "Complete");
    let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
    refuse(faults, early, detail);
}

/// What was said stays said.
fn validate_course(old: &Value, new: &Value, faults: &mut Faults) {
    for kind in ["Failed", "Complete", "FailureTarget"] {
        let taken_back = is(old, kind) && !is(new, kind);
        refuse(faults, taken_back, &format!("cannot disable the terminal {kind}=True condition"));
    }
    let spec = &new["spec"];
    let resizable = spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
    for (field, fixed) in [("failed", true), ("succeeded", !resizable)] {
        if fixed && number(new, field) < number(old, field) {
            faults.invalid(
                format!("status.{field}"),
                number(new, field),
                format!("cannot decrease the {field} counter"),
            );
        }
    }
    let [before, after] = [old, new].map(|job| &job["status"]["completionTime"]);
    if !before.is_null() && !after.is_null() && before != after {
        faults.invalid("status.completionTime", after.clone(), "field is immutable");
    }
    let [before, after] = [old, new].map(|job| &job["status"]["startTime"]);
    let resumed = is(old, "Suspended") && condition(new, "Suspended", "False");
    if before != after && !resumed && !before.is_null() && spec["suspend"] != true {
        faults.required("status.startTime", "startTime cannot be removed for unsuspended job");
    }
    let (was, met) = (is(old, "SuccessCriteriaMet"), is(new, "SuccessCriteriaMet"));
    refuse(faults, was && !met, "cannot disable the SuccessCriteriaMet=True condition");
    let late = is(old, "Complete") && !was && met;
    refuse(faults, late, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_may_be_said_of_a_job() {
        let done =
            |kinds: &[&str]| -> Value { kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect() };
        let (from, to) = ("2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z");
        let complete =
            json!({"startTime": from, "completionTime": to, "conditions": done(&["Complete", "SuccessCriteriaMet"])});
        for (old, new, wrong) in [
            (json!({}), json!({"active": 1}), vec![]),
            (
                json!({}),
                json!({"active": 1, "ready": 2}),
                vec!["status.ready: Invalid value: 2: cannot set more ready pods than active"],
            ),
            (json!({}), complete.clone(), vec![]),
            (
                json!({"failed": 2}),
                json!({"failed": 1}),
                vec!["status.failed: Invalid value: 1: cannot decrease the failed counter"],
            ),
            (
                complete,
                json!({"startTime": from}),
                vec![
                    "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                    "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
                ],
            ),
            (
                json!({}),
                json!({"completedIndexes": "0"}),
                vec![
                    "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed completion mode",
                ],
            ),
        ] {
            let job =
                |status: Value| json!({"spec": {"completions": 1, "completionMode": "NonIndexed"}, "status": status});
            let said: Vec<String> = validate_status(&job(old), &job(new)).iter().map(ToString::to_string).collect();
            assert_eq!(said, wrong);
        }
    }

    #[test]
    fn an_index_is_done_or_failed() {
        for (done, failed, index) in [("0-2", "3", None), ("0-2", "2-4", Some(2)), ("", "1", None)] {
            assert_eq!(overlap(done, failed, 9), index);
        }
    }
}
