//! Endpoints and EndpointSlices.
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::checks::{Faults, PROTOCOLS, count, items, items_mut, number, text};
use super::{addresses, set_default};
use crate::server::metadata::validate_labels;
use crate::server::{FieldError, object};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

pub fn default_endpoints(endpoints: &mut Value) {
    for subset in items_mut(endpoints, "subsets") {
        for port in items_mut(subset, "ports").filter_map(Value::as_object_mut) {
            set_default(port, "protocol", json!("TCP"));
        }
    }
}

pub fn default_slice(slice: &mut Value) {
    for port in items_mut(slice, "ports").filter_map(Value::as_object_mut) {
        set_default(port, "name", json!(""));
        set_default(port, "protocol", json!("TCP"));
    }
    for endpoint in items_mut(slice, "endpoints") {
        object::entry_object(endpoint, "conditions");
        // Only the older version of this API has it.
        endpoint.as_object_mut().map(|e| e.remove("deprecatedTopology"));
    }
}

/// What is wrong with Endpoints; what is as it was is not looked at again.
pub fn validate(endpoints: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut faults = Faults::default();
    if old.is_some_and(|old| old["subsets"] == endpoints["subsets"]) {
        return faults.0;
    }
    for (i, subset) in items(&endpoints["subsets"]) {
        if count(&subset["addresses"]) == 0 && count(&subset["notReadyAddresses"]) == 0 {
            faults.required(format!("subsets[{i}]"), "must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (j, address) in items(&subset[list]) {
                check_address(&mut faults, &format!("subsets[{i}].{list}[{j}]"), address);
            }
        }
        let many = count(&subset["ports"]) > 1;
        for (j, port) in items(&subset["ports"]) {
            check_port(&mut faults, &format!("subsets[{i}].ports[{j}]"), port, many);
        }
    }
    faults.0
}

fn check_address(faults: &mut Faults, at: &str, address: &Value) {
    let ip = text(&address["ip"]);
    addresses::check(faults, &format!("{at}.ip"), ip);
    if !text(&address["hostname"]).is_empty() {
        faults.label(format!("{at}.hostname"), text(&address["hostname"]));
    }
    if let Some(node) = address["nodeName"].as_str() {
        faults.subdomain(format!("{at}.nodeName"), node);
    }
    addresses::check_endpoint(faults, &format!("{at}.ip"), ip);
}

fn check_port(faults: &mut Faults, at: &str, port: &Value, many: bool) {
    let name = text(&port["name"]);
    if name.is_empty() && many {
        faults.required(format!("{at}.name"), "");
    } else if !name.is_empty() {
        faults.label(format!("{at}.name"), name);
    }
    faults.port_number(format!("{at}.port"), number(&port["port"]));
    faults.required_one_of(format!("{at}.protocol"), &port["protocol"], PROTOCOLS);
    if let Some(protocol) = port["appProtocol"].as_str() {
        faults.qualified_name(format!("{at}.appProtocol"), protocol);
    }
}

/// What is said of Endpoints that are taken.
pub fn warnings(endpoints: &Value) -> Vec<String> {
    if object::label(endpoints, MANAGED_BY) == Some("endpoint-controller") {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (i, subset) in items(&endpoints["subsets"]) {
        for list in ["addresses", "notReadyAddresses"] {
            let field = |j| format!("subsets[{i}].{list}[{j}].ip");
            warnings.extend(items(&subset[list]).filter_map(|(j, a)| addresses::warning(&field(j), text(&a["ip"]))));
        }
    }
    warnings
}

/// What is wrong with an EndpointSlice.
pub fn validate_slice(slice: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut faults = Faults::default();
    faults.required_one_of("addressType", &slice["addressType"], &["FQDN", "IPv4", "IPv6"]);
    check_slice_ports(&mut faults, &slice["ports"]);
    if old.is_none_or(|old| old["endpoints"] != slice["endpoints"]) {
        check_slice_endpoints(&mut faults, slice);
    }
    if old.is_some_and(|old| old["addressType"] != slice["addressType"]) {
        faults.invalid("addressType", slice["addressType"].clone(), "field is immutable");
    }
    faults.0
}

fn check_slice_ports(faults: &mut Faults, ports: &Value) {
    if count(ports) > 20000 {
        return faults.too_many("ports", count(ports), 20000);
    }
    let mut names = BTreeSet::new();
    for (i, port) in items(ports) {
        let name = text(&port["name"]);
        if !name.is_empty() {
            faults.label(format!("ports[{i}].name"), name);
        }
        if !names.insert(name) {
            faults.duplicate(format!("ports[{i}].name"), name);
        }
        faults.one_of(format!("ports[{i}].protocol"), &port["protocol"], PROTOCOLS);
        if let Some(protocol) = port["appProtocol"].as_str() {
            faults.qualified_name(format!("ports[{i}].appProtocol"), protocol);
        }
    }
}

fn check_slice_endpoints(faults: &mut Faults, slice: &Value) {
    let endpoints = &slice["endpoints"];
    if count(endpoints) > 1000 {
        return faults.too_many("endpoints", count(endpoints), 1000);
    }
    for (i, endpoint) in items(endpoints) {
        let at = format!("endpoints[{i}]");
        let list = format!("{at}.addresses");
        match count(&endpoint["addresses"]) {
            0 => faults.required(&list, "must contain at least 1 address"),
            many if many > 100 => faults.too_many(&list, many, 100),
            _ => {}
        }
        for (j, address) in items(&endpoint["addresses"]) {
            check_slice_address(faults, &list, j, text(address), text(&slice["addressType"]));
        }
        if let Some(node) = endpoint["nodeName"].as_str() {
            faults.subdomain(format!("{at}.nodeName"), node);
        }
        validate_labels(&endpoint["deprecatedTopology"], &format!("{at}.deprecatedTopology"), &mut faults.0);
        if let Some(host) = endpoint["hostname"].as_str() {
            faults.label(format!("{at}.hostname"), host);
        }
        check_hints(faults, &format!("{at}.hints"), &endpoint["hints"]);
    }
}

fn check_slice_address(faults: &mut Faults, list: &str, at: usize, address: &str, kind: &str) {
    let field = format!("{list}[{at}]");
    let known = match kind {
        "IPv4" => addresses::check(faults, &field, address),
        "IPv6" => addresses::check_strictly(faults, &field, address),
        "FQDN" => return check_domain(faults, &field, address),
        _ => return,
    };
    if known {
        if addresses::is_v6(address) != (kind == "IPv6") {
            faults.invalid(list, address, format!("must be an {kind} address"));
        }
        addresses::check_endpoint(faults, &field, address);
    }
}

fn check_domain(faults: &mut Faults, field: &str, name: &str) {
    if name.is_empty() {
        return faults.required(field, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let before = faults.0.len();
    faults.subdomain(field, name);
    if faults.0.len() == before && name.split('.').count() < 2 {
        faults.invalid(field, name, "should be a domain with at least two segments separated by dots");
    }
}

fn check_hints(faults: &mut Faults, at: &str, hints: &Value) {
    for (list, zones) in [("forZones", true), ("forNodes", false)] {
        if count(&hints[list]) > 8 {
            return faults.too_many(format!("{at}.{list}"), count(&hints[list]), 8);
        }
        let mut names = BTreeSet::new();
        for (i, hint) in items(&hints[list]) {
            let (name, field) = (text(&hint["name"]), format!("{at}.{list}[{i}].name"));
            if !names.insert(name) {
                faults.duplicate(&field, name);
            }
            if zones {
                faults.label_value(&field, name);
            } else {
                faults.subdomain(&field, name);
            }
        }
    }
}

/// What is said of an EndpointSlice that is taken; only a new one is told that its type is deprecated.
pub fn slice_warnings(slice: &Value, new: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if new && slice["addressType"] == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let by = object::label(slice, SLICE_MANAGED_BY).unwrap_or_default();
    if ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"].contains(&by) {
        return warnings;
    }
    for (i, endpoint) in items(&slice["endpoints"]) {
        let field = |j| format!("endpoints[{i}].addresses[{j}]");
        let found = items(&endpoint["addresses"]).filter_map(|(j, a)| addresses::warning(&field(j), text(a)));
        warnings.extend(found);
    }
    warnings
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use super::*;

    fn said(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn endpoints_need_addresses_that_can_be_reached() {
        let with = |subset: Value| {
            let mut endpoints = json!({"subsets": [subset]});
            default_endpoints(&mut endpoints);
            said(&validate(&endpoints, None))
        };
        assert_eq!(with(json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]})), Vec::<String>::new());
        assert_eq!(with(json!({})), ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]);
        assert_eq!(
            with(json!({"addresses": [{"ip": "nowhere"}]})),
            [
                "subsets[0].addresses[0].ip: Invalid value: \"nowhere\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "subsets[0].addresses[0].ip: Invalid value: \"nowhere\": must be a valid IP address"
            ]
        );
    }

    #[test]
    fn a_slice_has_one_type_of_addresses() {
        let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["fd00::1"]}]});
        assert_eq!(
            said(&validate_slice(&slice, None)),
            ["endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address"]
        );
        assert_eq!(
            said(&validate_slice(&json!({"addressType": "Odd"}), None)),
            ["addressType: Unsupported value: \"Odd\": supported values: \"FQDN\", \"IPv4\", \"IPv6\""]
        );
        assert_eq!(said(&validate_slice(&json!({}), None)), ["addressType: Required value"]);
    }
}
