//! Claims, volumes and storage classes.
use serde_json::{Value, json};

use super::set_default;
use crate::server::{FieldError, object};

pub fn default_claim(claim: &mut Value) {
    set_default(object::entry_object(claim, "spec"), "volumeMode", json!("Filesystem"));
}

pub fn default_volume(volume: &mut Value) {
    let spec = object::entry_object(volume, "spec");
    set_default(spec, "volumeMode", json!("Filesystem"));
    set_default(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
}

pub fn default_class(class: &mut Value) {
    let fields = class.as_object_mut().expect("decoded objects are objects");
    set_default(fields, "reclaimPolicy", json!("Delete"));
    set_default(fields, "volumeBindingMode", json!("Immediate"));
}

pub fn validate_claim(claim: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if claim["spec"]["accessModes"].as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required("spec.accessModes", "at least 1 access mode is required"));
    }
    let storage = &claim["spec"]["resources"]["requests"]["storage"];
    match storage.as_str().map(quantity) {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(None) => errors.push(FieldError::invalid(
            "spec.resources[storage]",
            storage.clone(),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )),
        Some(Some(amount)) if amount <= 0.0 => {
            errors.push(FieldError::invalid("spec.resources[storage]", storage.clone(), "must be greater than zero"));
        }
        Some(Some(_)) => {}
    }
    errors
}

pub fn validate_claim_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut allowed = new["spec"].clone();
    let before = &old["spec"]["resources"]["requests"]["storage"];
    let after = &new["spec"]["resources"]["requests"]["storage"];
    let bound = old["status"]["phase"] == "Bound";
    if bound && allowed["resources"]["requests"].is_object() {
        allowed["resources"]["requests"]["storage"] = before.clone();
    }
    let fields = allowed.as_object_mut();
    if let Some(fields) = fields
        && old["spec"]["volumeName"].as_str().is_none_or(str::is_empty)
    {
        object::set_or_remove(fields, "volumeName", &old["spec"]["volumeName"]);
    }
    // A claim made before there was a default class gets it later.
    if old["spec"].get("storageClassName").is_none_or(Value::is_null)
        && let Some(fields) = allowed.as_object_mut()
    {
        fields.remove("storageClassName");
    }
    if allowed != old["spec"] {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", detail));
    }
    let amount = |v: &Value| v.as_str().and_then(quantity).unwrap_or(0.0);
    let capacity = &old["status"]["capacity"]["storage"];
    if amount(after) < amount(before) && amount(after) <= amount(capacity) {
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", detail));
    }
    errors
}

pub fn validate_class_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if old[field] != new[field] {
            errors.push(FieldError::forbidden(field, format!("updates to {field} are forbidden.")));
        }
    }
    if old["volumeBindingMode"] != new["volumeBindingMode"] {
        let value = new["volumeBindingMode"].clone();
        errors.push(FieldError::invalid("volumeBindingMode", value, "field is immutable"));
    }
    errors
}

/// A Kubernetes quantity as a number; only for comparing.
pub fn quantity(text: &str) -> Option<f64> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let number: f64 = number.parse().ok()?;
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        "Pi" => 1024f64.powi(5),
        "Ei" => 1024f64.powi(6),
        exponent => 10f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    Some(number * factor)
}
