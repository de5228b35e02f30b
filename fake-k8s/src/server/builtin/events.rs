//! The rules of events: those of core/v1 for all, and stricter ones for what comes by way of events.k8s.io/v1.
use serde_json::{Value, json};

use super::bounds::immutable;
use super::checks::Faults;
use super::{drop_empty, set_default};
use crate::server::{FieldError, object};

const MOST: usize = 128;
const MOST_OF_MESSAGE: usize = 1024;

pub fn default_event(event: &mut Value) {
    drop_empty(event, &["reason", "message", "type", "action"]);
    if let Some(fields) = event.as_object_mut() {
        for field in ["involvedObject", "source"] {
            set_default(fields, field, json!({}));
        }
        for field in ["reportingComponent", "reportingInstance"] {
            set_default(fields, field, json!(""));
        }
        if fields.get("count") == Some(&json!(0)) {
            fields.remove("count");
        }
    }
    let about = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
    drop_empty(&mut event["involvedObject"], &about);
    drop_empty(&mut event["source"], &["component", "host"]);
}

pub fn validate_event(event: &Value, strict: bool) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let (namespace, about) = (object::namespace(event), event["involvedObject"]["namespace"].as_str().unwrap_or(""));
    let mut elsewhere = || faults.invalid("involvedObject.namespace", about, "does not match event.namespace");
    if event["eventTime"].is_null() {
        let same = if about.is_empty() { namespace.is_empty() || namespace == "default" } else { about == namespace };
        if !same {
            elsewhere();
        }
    } else {
        if about.is_empty() && namespace != "default" && namespace != "kube-system" {
            elsewhere();
        }
        validate_reporting(event, strict, &mut faults);
    }
    faults.0
}

fn validate_reporting(event: &Value, strict: bool, faults: &mut Faults) {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let controller = if strict { "reportingController" } else { "reportingComponent" };
    if text("reportingComponent").is_empty() {
        faults.required(controller, "");
    }
    faults.qualified_name(controller, text("reportingComponent"));
    for field in ["reportingInstance", "action", "reason"] {
        if text(field).is_empty() {
            faults.required(field, "");
        }
        if text(field).len() > MOST {
            faults.invalid(field, "", format!("can have at most {MOST} characters"));
        }
    }
    if text("message").len() > MOST_OF_MESSAGE {
        faults.invalid("message", "", format!("can have at most {MOST_OF_MESSAGE} characters"));
    }
}

/// What is new by way of events.k8s.io/v1 has none of the old fields.
pub fn validate_new(event: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    validate_series(event, &mut faults);
    if event["eventTime"].is_null() {
        faults.required("eventTime", "");
    }
    let kind = event["type"].as_str().unwrap_or_default();
    if kind != "Normal" && kind != "Warning" {
        faults.invalid("type", "", format!("has invalid value: {kind}"));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if !event[field].is_null() && event[field] != json!({}) {
            faults.invalid(field, "", "needs to be unset");
        }
    }
    faults.0
}

fn validate_series(event: &Value, faults: &mut Faults) {
    let series = &event["series"];
    if !series.is_object() {
        return;
    }
    if series["count"].as_i64().unwrap_or(0) < 2 {
        faults.invalid("series.count", "", "should be at least 2");
    }
    if series["lastObservedTime"].is_null() {
        faults.required("series.lastObservedTime", "");
    }
}

/// By way of events.k8s.io/v1 only the series changes.
pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    if old["series"] != new["series"] {
        validate_series(new, &mut faults);
    }
    for (field, path) in [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        faults.0.extend(immutable(&old[field], &new[field], path));
    }
    faults.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_event_is_where_its_object_is() {
        let elsewhere = |of: &str| {
            vec![format!("involvedObject.namespace: Invalid value: \"{of}\": does not match event.namespace")]
        };
        for (namespace, of, wrong) in
            [("a", "a", vec![]), ("default", "", vec![]), ("a", "", elsewhere("")), ("a", "b", elsewhere("b"))]
        {
            let event = json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": of}});
            assert_eq!(said(&validate_event(&event, false)), wrong);
        }
    }

    #[test]
    fn an_event_with_a_time_says_who_reports_it() {
        let event = json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}, "reason": "R",
            "eventTime": "2001-01-01T00:00:00.000000Z", "reportingComponent": "c", "type": "Normal"});
        assert_eq!(
            said(&validate_event(&event, true)),
            ["reportingInstance: Required value", "action: Required value"]
        );
        assert_eq!(said(&validate_new(&event)), Vec::<String>::new());
        let mut other = event.clone();
        other["type"] = json!("Odd");
        assert_eq!(said(&validate_new(&other)), ["type: Invalid value: \"\": has invalid value: Odd"]);
        assert_eq!(said(&validate_update(&event, &other)), ["type: Invalid value: \"Odd\": field is immutable"]);
    }
}
