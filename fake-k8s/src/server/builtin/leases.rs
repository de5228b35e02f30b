//! Leases: who holds one, for how long, and how often it changed hands.
use serde_json::Value;

use super::bounds::nonnegative;
use crate::server::{FieldError, object};

/// What belongs to a feature that is not on is not kept.
pub fn default_lease(lease: &mut Value) {
    let spec = object::entry_object(lease, "spec");
    spec.remove("strategy");
    spec.remove("preferredHolder");
}

pub fn validate_lease(lease: &Value) -> Vec<FieldError> {
    let spec = &lease["spec"];
    let mut errors = Vec::new();
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    errors.extend(nonnegative(spec, "spec", "leaseTransitions"));
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rules_of_a_lease() {
        let lease = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
        let said: Vec<String> = validate_lease(&lease).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"
            ]
        );
        assert!(validate_lease(&json!({"spec": {"leaseDurationSeconds": 1}})).is_empty());
    }
}
