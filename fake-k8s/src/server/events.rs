//! Events have two faces, core/v1 and events.k8s.io/v1, and one store: the core one.
use serde_json::{Map, Value, json};

/// (events.k8s.io, core): the fields that only have another name.
const NAMES: &[(&str, &str)] = &[
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

/// From events.k8s.io to core.
pub(super) fn to_core(event: &mut Value) {
    event["apiVersion"] = json!("v1");
    if let Some(fields) = event.as_object_mut() {
        NAMES.iter().for_each(|(new, core)| rename(fields, new, core));
    }
}

/// From core to events.k8s.io.
pub(super) fn to_new(event: &mut Value) {
    event["apiVersion"] = json!("events.k8s.io/v1");
    if let Some(fields) = event.as_object_mut() {
        NAMES.iter().for_each(|(new, core)| rename(fields, core, new));
    }
}
