//! Services: their defaults, what follows a change of their type, and what is said of one that is taken.
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use super::checks::{count, items, items_mut, number, text};
use super::{addresses, set_default};
use crate::server::object;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";

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

    /// A free address, the first that is higher than the one that was given out `last`: an address that was given back
    /// is not soon used again. The first of all is kept for the API server itself.
    pub fn allocate(&self, taken: &BTreeSet<String>, last: &mut u32) -> Option<String> {
        let places = self.size - 3;
        for step in 0..places {
            let at = 2 + (*last + step) % places;
            let address = Ipv4Addr::from(self.base + at).to_string();
            if !taken.contains(&address) {
                *last = at - 1;
                return Some(address);
            }
        }
        None
    }

    /// Is the address one of these?
    pub fn contains(&self, address: &str) -> bool {
        address.parse::<Ipv4Addr>().is_ok_and(|a| (1..self.size - 1).contains(&u32::from(a).wrapping_sub(self.base)))
    }

    /// The address that stands for all of them.
    pub fn first(&self) -> String {
        Ipv4Addr::from(self.base).to_string()
    }
}

pub fn default_service(service: &mut Value) {
    for port in service.get_mut("spec").map(|s| items_mut(s, "ports")).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            set_default(port, "protocol", json!("TCP"));
            let number = port.get("port").cloned().unwrap_or(json!(0));
            if port.get("targetPort").is_none_or(|t| t.is_null() || *t == 0 || *t == "") {
                port.insert("targetPort".into(), number);
            }
        }
    }
    default_affinity(object::entry_object(service, "spec"));
    let reachable = externally_accessible(service);
    let spec = object::entry_object(service, "spec");
    set_default(spec, "type", json!("ClusterIP"));
    if reachable && spec.get("externalTrafficPolicy").is_none_or(|p| text(p).is_empty()) {
        spec.insert("externalTrafficPolicy".into(), json!("Cluster"));
    }
    match text(&spec["type"]) {
        "ExternalName" => drop(spec.remove("internalTrafficPolicy")),
        "ClusterIP" | "NodePort" => set_default(spec, "internalTrafficPolicy", json!("Cluster")),
        "LoadBalancer" => {
            set_default(spec, "internalTrafficPolicy", json!("Cluster"));
            set_default(spec, "allocateLoadBalancerNodePorts", json!(true));
        }
        _ => {}
    }
    let ingress = service.pointer_mut("/status/loadBalancer").map(|b| items_mut(b, "ingress"));
    for place in ingress.into_iter().flatten().filter(|i| !text(&i["ip"]).is_empty()) {
        if let Some(place) = place.as_object_mut() {
            set_default(place, "ipMode", json!("VIP"));
        }
    }
}

fn default_affinity(spec: &mut Map<String, Value>) {
    if spec.get("sessionAffinity").is_none_or(|a| text(a).is_empty()) {
        spec.insert("sessionAffinity".into(), json!("None"));
    }
    if spec["sessionAffinity"] == "None" {
        spec.remove("sessionAffinityConfig");
    }
    let seconds = spec.get("sessionAffinityConfig").map_or(&Value::Null, |c| &c["clientIP"]["timeoutSeconds"]);
    if spec["sessionAffinity"] == "ClientIP" && seconds.is_null() {
        spec.insert("sessionAffinityConfig".into(), json!({"clientIP": {"timeoutSeconds": 10800}}));
    }
}

/// Can it be reached from outside of the cluster?
pub fn externally_accessible(service: &Value) -> bool {
    let spec = &service["spec"];
    match text(&spec["type"]) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" | "" => count(&spec["externalIPs"]) > 0,
        _ => false,
    }
}

/// Is there a port at which a load balancer asks for its health?
pub fn needs_health_check(service: &Value) -> bool {
    service["spec"]["type"] == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local"
}

pub fn is_external_name(service: &Value) -> bool {
    service["spec"]["type"] == "ExternalName"
}

/// Does its type have ports on the nodes?
pub fn has_node_ports(service: &Value) -> bool {
    matches!(text(&service["spec"]["type"]), "NodePort" | "LoadBalancer")
}

/// The ports on the nodes that it has.
pub fn node_ports(service: &Value) -> BTreeSet<i64> {
    items(&service["spec"]["ports"]).map(|(_, p)| number(&p["nodePort"])).filter(|p| *p != 0).collect()
}

/// What a changed service keeps of the old one where the writer left it out: values that the server allocated.
pub fn carry_over(old: &Value, new: &mut Value) {
    if !is_external_name(old) && !is_external_name(new) {
        carry_addresses(old, new);
    }
    let gets_ports = |s: &Value| {
        has_node_ports(s) && (s["spec"]["type"] == "NodePort" || s["spec"]["allocateLoadBalancerNodePorts"] != false)
    };
    if gets_ports(old) && gets_ports(new) {
        carry_node_ports(old, new);
    }
    if needs_health_check(old) && needs_health_check(new) && number(&new["spec"]["healthCheckNodePort"]) == 0 {
        new["spec"]["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
    }
    normalize(Some(old), new);
}

fn carry_addresses(old: &Value, new: &mut Value) {
    for field in ["clusterIP", "clusterIPs"] {
        let missing = text(&new["spec"][field]).is_empty() && count(&new["spec"][field]) == 0;
        if missing && !old["spec"][field].is_null() {
            new["spec"][field] = old["spec"][field].clone();
        }
    }
}

fn carry_node_ports(old: &Value, new: &mut Value) {
    let used: BTreeSet<i64> = node_ports(old).intersection(&node_ports(new)).copied().collect();
    let by_name: std::collections::BTreeMap<&str, i64> =
        items(&old["spec"]["ports"]).map(|(_, p)| (text(&p["name"]), number(&p["nodePort"]))).collect();
    for port in items_mut(&mut new["spec"], "ports").filter(|p| number(&p["nodePort"]) == 0) {
        let known = by_name.get(text(&port["name"])).copied().unwrap_or(0);
        if known != 0 && !used.contains(&known) {
            port["nodePort"] = json!(known);
        }
    }
}

/// Keeps `clusterIP` and `clusterIPs` in step, where the writer knows only one of them.
pub fn normalize(old: Option<&Value>, new: &mut Value) {
    let single = text(&new["spec"]["clusterIP"]).to_owned();
    let Some(old) = old else {
        if !single.is_empty() && count(&new["spec"]["clusterIPs"]) == 0 {
            new["spec"]["clusterIPs"] = json!([single]);
        }
        return;
    };
    let before = text(&old["spec"]["clusterIP"]);
    let same_list = |new: &Value| old["spec"]["clusterIPs"] == new["spec"]["clusterIPs"];
    if before == single {
        if count(&old["spec"]["clusterIPs"]) > 0 && count(&new["spec"]["clusterIPs"]) == 0 {
            new["spec"]["clusterIPs"] = old["spec"]["clusterIPs"].clone();
        }
    } else if same_list(new) && single.is_empty() {
        object::entry_object(new, "spec").remove("clusterIPs");
    } else if same_list(new) {
        new["spec"]["clusterIPs"] = json!([single]);
    }
}

/// Takes away what its new type has no use for, where the writer did not change it.
pub fn drop_dependents(old: &Value, new: &mut Value) {
    let (was, is) = (old["spec"].clone(), new.clone());
    let spec = object::entry_object(new, "spec");
    let mut drop_same = |fields: &[&str]| {
        if fields.iter().all(|field| spec.get(*field).unwrap_or(&Value::Null) == &was[*field]) {
            fields.iter().for_each(|field| drop(spec.remove(*field)));
        }
    };
    if !is_external_name(old) && is_external_name(&is) {
        drop_same(&["clusterIP", "clusterIPs"]);
        drop_same(&["ipFamilies"]);
        drop_same(&["ipFamilyPolicy"]);
    }
    if needs_health_check(old) && !needs_health_check(&is) {
        drop_same(&["healthCheckNodePort"]);
    }
    if was["type"] == "LoadBalancer" && is["spec"]["type"] != "LoadBalancer" {
        drop_same(&["allocateLoadBalancerNodePorts"]);
        drop_same(&["loadBalancerClass"]);
    }
    if externally_accessible(old) && !externally_accessible(&is) {
        drop_same(&["externalTrafficPolicy"]);
    }
    if has_node_ports(old) && !has_node_ports(&is) && node_ports(old).is_superset(&node_ports(&is)) {
        for port in items_mut(&mut new["spec"], "ports").filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    if is["spec"]["type"] != "LoadBalancer" {
        new["status"]["loadBalancer"] = json!({});
    }
}

/// What is said of a service that is taken.
pub fn warnings(service: &Value) -> Vec<String> {
    let (spec, mut warnings) = (&service["spec"], Vec::new());
    if object::annotation(service, HINTS).is_some() {
        warnings
            .push(format!("annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"));
    }
    let single = text(&spec["clusterIP"]);
    if !single.is_empty() && single != "None" {
        warnings.extend(list_warnings("spec.clusterIPs", &spec["clusterIPs"]));
    }
    let has_externals = count(&spec["externalIPs"]) > 0;
    if spec["type"] == "ClusterIP" && single == "None" {
        for (ignored, field) in [
            (!text(&spec["loadBalancerIP"]).is_empty(), "loadBalancerIP"),
            (has_externals, "externalIPs"),
            (spec["sessionAffinity"] != "None", "SessionAffinity"),
        ] {
            if ignored {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    warnings.extend(list_warnings("spec.externalIPs", &spec["externalIPs"]));
    warnings.extend(addresses::warning("spec.loadBalancerIP", text(&spec["loadBalancerIP"])));
    for (i, range) in items(&spec["loadBalancerSourceRanges"]) {
        warnings.extend(addresses::network_warnings(&format!("spec.loadBalancerSourceRanges[{i}]"), text(range)));
    }
    if is_external_name(service) && has_externals {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".into());
    }
    if !is_external_name(service) && !text(&spec["externalName"]).is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
    }
    warnings
}

fn list_warnings(field: &str, list: &Value) -> Vec<String> {
    items(list).filter_map(|(i, address)| addresses::warning(&format!("{field}[{i}]"), text(address))).collect()
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_defaults() {
        let spec = |spec: Value| {
            let mut service = json!({"spec": spec});
            default_service(&mut service);
            service["spec"].take()
        };
        assert_eq!(
            spec(json!({"ports": [{"port": 1}]})),
            json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "ports": [{"port": 1, "targetPort": 1, "protocol": "TCP"}]})
        );
        assert_eq!(spec(json!({"type": "NodePort"}))["externalTrafficPolicy"], "Cluster");
        assert_eq!(spec(json!({"type": "LoadBalancer"}))["allocateLoadBalancerNodePorts"], true);
        assert_eq!(spec(json!({"type": "ExternalName"})).get("internalTrafficPolicy"), None);
        assert_eq!(
            spec(json!({"sessionAffinity": "ClientIP"}))["sessionAffinityConfig"],
            json!({"clientIP": {"timeoutSeconds": 10800}})
        );
    }

    #[test]
    fn a_service_keeps_its_addresses_and_ports() {
        let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.96.0.2", "clusterIPs": ["10.96.0.2"],
            "ports": [{"name": "a", "port": 1, "nodePort": 30000}]}});
        let mut new = json!({"spec": {"type": "NodePort", "ports": [{"name": "a", "port": 2}]}});
        carry_over(&old, &mut new);
        assert_eq!(new["spec"]["clusterIPs"], json!(["10.96.0.2"]));
        assert_eq!(new["spec"]["ports"][0]["nodePort"], 30000);
        new["spec"]["type"] = json!("ClusterIP");
        drop_dependents(&old, &mut new);
        assert_eq!(new["spec"]["ports"][0], json!({"name": "a", "port": 2}));
    }

    #[test]
    fn addresses_are_not_soon_used_again() {
        let network = ServiceNetwork::parse("10.0.0.0/29").unwrap();
        let mut last = 0;
        let drawn: Vec<String> = (0..6).map(|_| network.allocate(&BTreeSet::new(), &mut last).unwrap()).collect();
        assert_eq!(drawn, ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2"]);
    }
}
