//! The environment of a container.
use serde_json::Value;

use super::checks::{Faults, items, text};
use crate::server::quantities::Quantity;

const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields that have names, and that only some places may refer to.
const OTHER_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "spec.host",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const UNITS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const ONE_SOURCE: &str = "may not have more than one field specified at a time";

/// Checks `env` and `envFrom`.
pub fn check(faults: &mut Faults, at: &str, container: &Value) {
    for (i, variable) in items(&container["env"]) {
        let (at, name) = (format!("{at}.env[{i}]"), text(&variable["name"]));
        if name.is_empty() {
            faults.required(format!("{at}.name"), "");
        } else {
            check_name(faults, format!("{at}.name"), name);
        }
        if !variable["valueFrom"].is_null() {
            check_source(faults, &format!("{at}.valueFrom"), variable);
        }
    }
    for (i, source) in items(&container["envFrom"]) {
        check_from(faults, &format!("{at}.envFrom"), i, source);
    }
}

fn check_name(faults: &mut Faults, at: String, name: &str) {
    if !name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        faults.invalid(at, name, NAME);
    }
}

fn check_source(faults: &mut Faults, at: &str, variable: &Value) {
    let source = &variable["valueFrom"];
    let mut found = 0;
    for kind in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"] {
        let (reference, at) = (&source[kind], format!("{at}.{kind}"));
        if reference.is_null() {
            continue;
        }
        found += 1;
        match kind {
            "fieldRef" => check_field_ref(faults, &at, reference, FIELDS),
            "resourceFieldRef" => check_resource_ref(faults, &at, reference, false),
            _ => check_key(faults, &at, reference),
        }
    }
    if found == 0 {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
        faults.invalid(at, "", why);
    } else if !text(&variable["value"]).is_empty() {
        faults.invalid(at, "", "may not be specified when `value` is not empty");
    } else if found > 1 {
        faults.invalid(at, "", ONE_SOURCE);
    }
}

fn check_key(faults: &mut Faults, at: &str, reference: &Value) {
    faults.subdomain(format!("{at}.name"), text(&reference["name"]));
    match text(&reference["key"]) {
        "" => faults.required(format!("{at}.key"), ""),
        key => faults.config_key(&format!("{at}.key"), key),
    }
}

/// A reference to a field of the pod, one of `supported`.
pub fn check_field_ref(faults: &mut Faults, at: &str, reference: &Value, supported: &[&str]) {
    let (version, path) = (text(&reference["apiVersion"]), text(&reference["fieldPath"]));
    for (field, value) in [("apiVersion", version), ("fieldPath", path)] {
        if value.is_empty() {
            return faults.required(format!("{at}.{field}"), "");
        }
    }
    let named = path.strip_suffix("']").and_then(|p| p.split_once("['"));
    let why = match named {
        _ if version != "v1" => Some(format!("unsupported pod version: {version}")),
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {path}")),
        None if FIELDS.contains(&path) || OTHER_FIELDS.contains(&path) => None,
        None => Some(format!("field label not supported: {path}")),
    };
    if let Some(why) = why {
        return faults.invalid(format!("{at}.fieldPath"), path, format!("error converting fieldPath: {why}"));
    }
    match named {
        Some(("metadata.annotations", key)) => faults.qualified_name(at, &key.to_lowercase()),
        Some((_, key)) => faults.qualified_name(at, key),
        None => {
            let path = if path == "spec.host" { "spec.nodeName" } else { path };
            faults.one_of(format!("{at}.fieldPath"), &Value::from(path), supported);
        }
    }
}

/// A reference to what a container may use, or asks for.
pub fn check_resource_ref(faults: &mut Faults, at: &str, reference: &Value, volume: bool) {
    let resource = text(&reference["resource"]);
    let pages = ["requests.hugepages-", "limits.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if volume && text(&reference["containerName"]).is_empty() {
        faults.required(format!("{at}.containerName"), "");
    } else if resource.is_empty() {
        faults.required(format!("{at}.resource"), "");
    } else if !pages {
        faults.one_of(format!("{at}.resource"), &reference["resource"], RESOURCES);
    }
    let Some(divisor) = Quantity::of(&reference["divisor"]).filter(|d| !d.is_zero()) else { return };
    let shown = divisor.to_string();
    let (units, what): (&[&str], &str) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => (&["1m", "1"], "1m and 1 are supported with the cpu"),
        "memory" => (UNITS, "memory"),
        "ephemeral-storage" => (UNITS, "local ephemeral storage"),
        _ if pages => (UNITS, "hugepages"),
        _ => return,
    };
    if !units.contains(&shown.as_str()) {
        let why = match units.len() {
            2 => format!("only divisor's values {what} resource"),
            _ => format!("only divisor's values {} are supported with the {what} resource", UNITS.join(", ")),
        };
        faults.invalid(format!("{at}.divisor"), resource, why);
    }
}

fn check_from(faults: &mut Faults, list: &str, i: usize, source: &Value) {
    let at = format!("{list}[{i}]");
    let prefix = text(&source["prefix"]);
    if !prefix.is_empty() {
        check_name(faults, format!("{at}.prefix"), prefix);
    }
    let mut found = 0;
    for kind in ["configMapRef", "secretRef"].into_iter().filter(|kind| !source[*kind].is_null()) {
        found += 1;
        let at = format!("{at}.{kind}.name");
        match text(&source[kind]["name"]) {
            "" => faults.required(at, ""),
            name => faults.subdomain(at, name),
        }
    }
    match found {
        0 => faults.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`"),
        1 => {}
        _ => faults.invalid(list, "", ONE_SOURCE),
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_checked() {
        let said = |variable: Value| {
            let mut faults = Faults::default();
            check(&mut faults, "c", &json!({"env": [variable]}));
            faults.0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let nothing: [&str; 0] = [];
        let field =
            |path: &str| json!({"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}});
        assert_eq!(said(json!({"name": "A", "value": "1"})), nothing);
        assert_eq!(said(json!({"value": "1"})), ["c.env[0].name: Required value"]);
        assert_eq!(said(field("metadata.labels['a']")), nothing);
        assert_eq!(
            said(field("spec.nothing")),
            [
                "c.env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nothing\": error converting fieldPath: field label not supported: spec.nothing"
            ]
        );
        assert_eq!(
            said(json!({"name": "A", "valueFrom": {}})),
            [
                "c.env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            ]
        );
        assert_eq!(
            said(json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}})),
            [
                "c.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource"
            ]
        );
    }
}
