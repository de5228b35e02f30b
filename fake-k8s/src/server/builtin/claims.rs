//! Claims of volumes.
use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::bounds::{immutable, one_of};
use super::checks::Faults;
use super::shape::{self, Part, Shape};
use super::unified_diff::unified_diff;
use super::{drop_empty, label_selectors, set_default};
use crate::server::quantities::{MUST_MATCH, Quantity};
use crate::server::{FieldError, object};

/// The ways in which a volume is used.
pub const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// What a volume is to its user.
pub const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

const RESOURCES: &[Part] = &[Part("Limits", "limits", Shape::Open), Part("Requests", "requests", Shape::Open)];
const SOURCE: &[Part] =
    &[Part("APIGroup", "apiGroup", Shape::Open), Part("Kind", "kind", Shape::Text), Part("Name", "name", Shape::Text)];
const SOURCE_REFERENCE: &[Part] = &[
    Part("APIGroup", "apiGroup", Shape::Open),
    Part("Kind", "kind", Shape::Text),
    Part("Name", "name", Shape::Text),
    Part("Namespace", "namespace", Shape::Open),
];
const SPEC: &[Part] = &[
    Part("AccessModes", "accessModes", Shape::Open),
    Part("Selector", "selector", Shape::Pointer(shape::SELECTOR)),
    Part("Resources", "resources", Shape::Struct(RESOURCES)),
    Part("VolumeName", "volumeName", Shape::Text),
    Part("StorageClassName", "storageClassName", Shape::Open),
    Part("VolumeMode", "volumeMode", Shape::Open),
    Part("DataSource", "dataSource", Shape::Pointer(SOURCE)),
    Part("DataSourceRef", "dataSourceRef", Shape::Pointer(SOURCE_REFERENCE)),
    Part("VolumeAttributesClassName", "volumeAttributesClassName", Shape::Open),
];

/// Writes the quantities of these resource lists as the API server does; what is none is left as it is.
pub fn default_amounts(object: &mut Value, lists: &[&str]) {
    for list in lists {
        let list = object.get_mut(*list).and_then(Value::as_object_mut);
        for value in list.into_iter().flat_map(Map::values_mut) {
            if let Some(quantity) = Quantity::of(value) {
                *value = json!(quantity.rounded().to_string());
            }
        }
    }
}

pub fn default_claim(claim: &mut Value) {
    let spec = object::entry_object(claim, "spec");
    set_default(spec, "volumeMode", json!("Filesystem"));
    set_default(spec, "resources", json!({}));
    default_amounts(&mut claim["spec"]["resources"], &["limits", "requests"]);
    drop_empty(&mut claim["spec"]["resources"], &["limits"]);
    drop_empty(&mut claim["spec"], &["volumeName"]);
    set_default(object::entry_object(claim, "status"), "phase", json!("Pending"));
    default_amounts(&mut claim["status"], &["capacity", "allocatedResources"]);
    drop_empty(&mut claim["status"], &["accessModes", "conditions", "capacity", "allocatedResources"]);
}

/// The two fields that say what a volume begins with follow each other; what the older one may not hold is dropped.
pub fn align_sources(claim: &mut Value, old: Option<&Value>) {
    let had = |field: &str| old.is_some_and(|old| old["spec"][field].is_object());
    let spec = object::entry_object(claim, "spec");
    let elsewhere = |reference: &Value| reference["namespace"].as_str().is_some_and(|name| !name.is_empty());
    if spec.get("dataSourceRef").is_some_and(elsewhere) && !had("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    let usual = |source: &Value| {
        let group = source["apiGroup"].as_str().unwrap_or_default();
        (source["kind"] == "PersistentVolumeClaim" && group.is_empty())
            || (source["kind"] == "VolumeSnapshot" && group == "snapshot.storage.k8s.io")
    };
    let (source, reference) = (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned());
    match (source, reference) {
        (Some(source), None) if usual(&source) || had("dataSource") || had("dataSourceRef") => {
            spec.insert("dataSourceRef".into(), source);
        }
        (Some(_), None) => drop(spec.remove("dataSource")),
        (None, Some(reference)) if !elsewhere(&reference) => {
            let mut source = reference;
            drop_empty(&mut source, &["namespace"]);
            spec.insert("dataSource".into(), source);
        }
        _ => {}
    }
}

/// The rules of access modes, as claims and volumes have them.
pub fn validate_modes(modes: &Value, faults: &mut Faults) {
    let (mut alone, mut shared) = (false, false);
    for mode in modes.as_array().into_iter().flatten() {
        let error = one_of(mode, "spec.accessModes", ACCESS_MODES);
        match mode.as_str() {
            Some("ReadWriteOncePod") => alone = true,
            _ => shared |= error.is_none(),
        }
        faults.0.extend(error);
    }
    if alone && shared {
        faults.forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes");
    }
}

/// The name of a class.
pub fn validate_class_name(name: &Value, path: &str, faults: &mut Faults) {
    if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
        faults.subdomain(path, name);
    }
}

pub fn validate_claim(claim: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let spec = &claim["spec"];
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        faults.required("spec.accessModes", "at least 1 access mode is required");
    }
    faults.0.extend(label_selectors::validate(&spec["selector"], "spec.selector"));
    validate_modes(&spec["accessModes"], &mut faults);
    let storage = &spec["resources"]["requests"]["storage"];
    match (storage.is_null(), Quantity::of(storage)) {
        (true, _) => faults.required("spec.resources[storage]", ""),
        (false, None) => faults.invalid("spec.resources[storage]", storage.clone(), MUST_MATCH),
        (false, Some(amount)) if amount.is_negative() || amount.is_zero() => {
            faults.invalid("spec.resources[storage]", storage.clone(), "must be greater than zero");
        }
        (false, Some(_)) => {}
    }
    validate_class_name(&spec["storageClassName"], "spec.storageClassName", &mut faults);
    faults.0.extend(one_of(&spec["volumeMode"], "spec.volumeMode", VOLUME_MODES));
    for field in ["dataSource", "dataSourceRef"] {
        validate_source(&spec[field], &format!("spec.{field}"), &mut faults);
    }
    validate_class_name(&spec["volumeAttributesClassName"], "spec.volumeAttributesClassName", &mut faults);
    faults.0
}

fn validate_source(source: &Value, path: &str, faults: &mut Faults) {
    if !source.is_object() {
        return;
    }
    let text = |field: &str| source[field].as_str().unwrap_or_default();
    for field in ["name", "kind"].into_iter().filter(|field| text(field).is_empty()) {
        faults.required(format!("{path}.{field}"), "");
    }
    match text("apiGroup") {
        "" if text("kind") != "PersistentVolumeClaim" => {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            faults.invalid(path, text("kind"), detail);
        }
        "" => {}
        group => faults.subdomain(format!("{path}.apiGroup"), group),
    }
}

pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let (mut before, mut after) = (old["spec"].clone(), new["spec"].clone());
    let bound = new["status"]["phase"] == "Bound";
    // A volume is named once.
    if old["spec"]["volumeName"].as_str().is_none_or(str::is_empty) {
        set(&mut before, "volumeName", &new["spec"]["volumeName"]);
    }
    allow_class(old, new, &mut after, &mut faults);
    if bound {
        if after["resources"]["requests"].is_object() {
            set(&mut after["resources"]["requests"], "storage", &old["spec"]["resources"]["requests"]["storage"]);
        }
        set(&mut after, "volumeAttributesClassName", &old["spec"]["volumeAttributesClassName"]);
    }
    let [before, after] = [before, after].map(|spec| shape::pretty(Shape::Struct(SPEC), &spec));
    if before != after {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        faults.forbidden("spec", format!("{detail}\n{}", unified_diff(&before, &after)));
    }
    let size = |claim: &Value| requested(claim);
    let capacity = amount(&old["status"]["capacity"]["storage"]);
    if size(new).compare(size(old)) == Ordering::Less && size(new).compare(capacity) != Ordering::Greater {
        faults.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    faults.0.extend(immutable(&old["spec"]["volumeMode"], &new["spec"]["volumeMode"], "volumeMode"));
    if !old["status"]["currentVolumeAttributesClassName"].is_null() {
        let why = match &new["spec"]["volumeAttributesClassName"] {
            Value::Null => "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil",
            Value::String(name) if name.is_empty() => {
                "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"
            }
            _ => return faults.0,
        };
        faults.forbidden("spec.volumeAttributesClassName", why);
    }
    faults.0
}

/// A claim that was made before there was a default class gets one later; one that had it in an annotation may move it.
fn allow_class(old: &Value, new: &Value, after: &mut Value, faults: &mut Faults) {
    let [annotated, annotated_now] = [old, new].map(|claim| object::annotation(claim, CLASS));
    let [class, class_now] = [old, new].map(|claim| claim["spec"]["storageClassName"].as_str());
    let free = class.is_none() && class_now.is_some();
    if free && annotated.is_some() && class_now == annotated && (annotated_now.is_none() || annotated_now == annotated)
    {
        set(after, "storageClassName", &Value::Null);
        return;
    }
    if annotated.unwrap_or_default() != annotated_now.unwrap_or_default() {
        let path = format!("metadata.annotations.{CLASS}");
        faults.invalid(path, annotated_now.unwrap_or_default(), "field is immutable");
    }
    if free && (annotated.is_none() || annotated == class_now) {
        set(after, "storageClassName", &Value::Null);
    }
}

fn set(object: &mut Value, field: &str, value: &Value) {
    if let Some(fields) = object.as_object_mut() {
        object::set_or_remove(fields, field, value);
    }
}

fn amount(value: &Value) -> Quantity {
    Quantity::of(value).or_else(|| Quantity::of(&json!("0"))).expect("nothing is an amount")
}

/// How much a claim asks for.
pub fn requested(claim: &Value) -> Quantity {
    amount(&claim["spec"]["resources"]["requests"]["storage"])
}

pub fn warnings(claim: &Value) -> Vec<String> {
    let mut out = Vec::new();
    if object::annotation(claim, CLASS).is_some() {
        out.push(format!(
            "metadata.annotations[{CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    for list in ["requests", "limits"] {
        let value = &claim["spec"]["resources"][list]["storage"];
        if Quantity::of(value).is_some_and(|amount| !amount.is_whole()) {
            out.push(format!(
                "spec.resources.{list}[storage]: fractional byte value {value} is invalid, must be an integer"
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Value {
        let mut claim =
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}});
        default_claim(&mut claim);
        claim
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut claim = claim();
        *claim.pointer_mut(pointer).expect("it is there") = value;
        claim
    }

    fn said(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_rules_of_a_claim() {
        assert_eq!(claim()["spec"]["resources"]["requests"]["storage"], "1Gi");
        let modes = "supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"";
        for (claim, wrong) in [
            (claim(), vec![]),
            (
                with("/spec/accessModes", json!([])),
                vec!["spec.accessModes: Required value: at least 1 access mode is required".to_owned()],
            ),
            (
                with("/spec/accessModes", json!(["Odd"])),
                vec![format!("spec.accessModes: Unsupported value: \"Odd\": {modes}")],
            ),
            (
                with("/spec/accessModes", json!(["ReadWriteOncePod", "ReadOnlyMany"])),
                vec!["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes".to_owned()],
            ),
            (with("/spec/resources", json!({})), vec!["spec.resources[storage]: Required value".to_owned()]),
            (
                with("/spec/resources/requests/storage", json!("0")),
                vec!["spec.resources[storage]: Invalid value: \"0\": must be greater than zero".to_owned()],
            ),
            (
                with("/spec/volumeMode", json!("Odd")),
                vec![
                    "spec.volumeMode: Unsupported value: \"Odd\": supported values: \"Block\", \"Filesystem\""
                        .to_owned(),
                ],
            ),
        ] {
            assert_eq!(said(&validate_claim(&claim)), wrong);
        }
    }

    #[test]
    fn a_claim_stays_as_it_was_made() {
        let new = with("/spec/accessModes", json!(["ReadOnlyMany"]));
        let detail = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
        let diff = "@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \"ReadWriteOnce\"\n+  \"ReadOnlyMany\"\n  ],\n  \"Selector\": null,\n  \"Resources\": {\n";
        assert_eq!(said(&validate_update(&claim(), &new)), [format!("{detail}{diff}")]);
        let mut named = claim();
        named["spec"]["volumeName"] = json!("v");
        named["spec"]["storageClassName"] = json!("fast");
        assert!(validate_update(&claim(), &named).is_empty());
        let grown = with("/spec/resources/requests/storage", json!("2Gi"));
        assert_eq!(validate_update(&claim(), &grown).len(), 1);
        let bound = |mut claim: Value, capacity: &str| {
            claim["status"] = json!({"phase": "Bound", "capacity": {"storage": capacity}});
            claim
        };
        assert!(validate_update(&bound(claim(), "1Gi"), &bound(grown.clone(), "1Gi")).is_empty());
        assert_eq!(
            said(&validate_update(&bound(grown, "1Gi"), &bound(claim(), "1Gi"))),
            ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
        );
    }

    #[test]
    fn the_two_sources_follow_each_other() {
        for (source, reference, kept) in [
            (json!({"kind": "PersistentVolumeClaim", "name": "a"}), Value::Null, true),
            (json!({"kind": "Odd", "name": "a"}), Value::Null, false),
            (Value::Null, json!({"kind": "Odd", "apiGroup": "example.com", "name": "a"}), true),
        ] {
            let mut claim = json!({"spec": {}});
            set(&mut claim["spec"], "dataSource", &source);
            set(&mut claim["spec"], "dataSourceRef", &reference);
            align_sources(&mut claim, None);
            assert_eq!(claim["spec"].get("dataSource").is_some(), kept, "{claim}");
            assert_eq!(claim["spec"].get("dataSourceRef").is_some(), kept, "{claim}");
        }
    }
}
