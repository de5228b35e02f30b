//! Services: their defaults and their cluster addresses.
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::set_default;
use crate::server::{FieldError, object};

/// Where cluster addresses come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceNetwork {
    base: u32,
    size: u32,
}

impl Default for ServiceNetwork {
    fn default() -> Self {
        Self { base: u32::from(Ipv4Addr::new(10, 96, 0, 0)), size: 1 << 16 }
    }
}

impl ServiceNetwork {
    /// From `10.96.0.0/16`; `None` when that is no IPv4 network with room for addresses.
    pub fn parse(cidr: &str) -> Option<Self> {
        let (base, bits) = cidr.split_once('/')?;
        let (base, bits): (Ipv4Addr, u32) = (base.parse().ok()?, bits.parse().ok()?);
        let size = (8..=30).contains(&bits).then(|| 1u32 << (32 - bits))?;
        Some(Self { base: u32::from(base) & !(size - 1), size })
    }

    /// The lowest address that is free; the first is kept for the API server itself.
    pub fn allocate(&self, taken: &BTreeSet<String>) -> Option<String> {
        let addresses = (2..self.size - 1).map(|i| Ipv4Addr::from(self.base + i).to_string());
        addresses.into_iter().find(|a| !taken.contains(a))
    }

    /// Is the address one of these?
    pub fn contains(&self, address: &str) -> bool {
        address.parse::<Ipv4Addr>().is_ok_and(|a| u32::from(a) & !(self.size - 1) == self.base)
    }
}

pub fn default_service(service: &mut Value) {
    let spec = object::entry_object(service, "spec");
    set_default(spec, "type", json!("ClusterIP"));
    set_default(spec, "sessionAffinity", json!("None"));
    if spec["type"] != "ExternalName" {
        set_default(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            set_default(port, "protocol", json!("TCP"));
            let number = port.get("port").cloned().unwrap_or(Value::Null);
            if port.get("targetPort").is_none_or(|t| t.is_null() || *t == 0 || *t == "") {
                port.insert("targetPort".into(), number);
            }
        }
    }
}

/// Does the service still need a cluster address?
pub fn wants_address(service: &Value) -> bool {
    service["spec"]["type"] != "ExternalName" && service["spec"]["clusterIP"].as_str().is_none_or(str::is_empty)
}

/// Sets the address and what comes with it.
pub fn set_address(service: &mut Value, address: &str) {
    let spec = object::entry_object(service, "spec");
    spec.insert("clusterIP".into(), json!(address));
    spec.insert("clusterIPs".into(), json!([address]));
    set_default(spec, "ipFamilies", json!(["IPv4"]));
    set_default(spec, "ipFamilyPolicy", json!("SingleStack"));
}

pub fn carry_over(old: &Value, new: &mut Value) {
    if new["spec"]["type"] == "ExternalName" {
        return;
    }
    let spec = object::entry_object(new, "spec");
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let missing = spec.get(field).is_none_or(|v| v.is_null() || *v == "");
        if missing && !old["spec"][field].is_null() {
            spec.insert(field.into(), old["spec"][field].clone());
        }
    }
}

pub fn validate(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &service["spec"];
    let headless = spec["clusterIP"] == "None";
    let ports = spec["ports"].as_array().cloned().unwrap_or_default();
    if ports.is_empty() && !headless && spec["type"] != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let number = port["port"].as_i64().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(format!("spec.ports[{i}].port"), number, detail));
        }
        let name = port["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() && ports.len() > 1 {
            errors.push(FieldError::required(format!("spec.ports[{i}].name"), ""));
        } else if !name.is_empty() && !names.insert(name.clone()) {
            errors.push(FieldError::duplicate(format!("spec.ports[{i}].name"), name));
        }
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&spec["type"].as_str().unwrap_or_default()) {
        errors.push(FieldError::not_supported("spec.type", spec["type"].clone(), &kinds.map(str::to_owned)));
    }
    errors
}

pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (before, after) = (&old["spec"]["clusterIP"], &new["spec"]["clusterIP"]);
    let external = old["spec"]["type"] == "ExternalName" || new["spec"]["type"] == "ExternalName";
    if external || before == after || before.as_str().is_none_or(str::is_empty) {
        return Vec::new();
    }
    vec![FieldError::invalid("spec.clusterIPs[0]", json!([after]), "may not change once set")]
}
