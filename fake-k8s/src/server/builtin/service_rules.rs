//! What is wrong with a service, and what may not change in one.
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::checks::{Faults, PROTOCOLS, count, items, number, text};
use super::shape::{Part, Shape, compact};
use super::{addresses, services};
use crate::server::metadata::validate_labels;
use crate::server::{FieldError, object};

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const BALANCERS_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

const PORT: &[Part] = &[
    Part("Name", "name", Shape::Text),
    Part("Protocol", "protocol", Shape::Text),
    Part("AppProtocol", "appProtocol", Shape::Open),
    Part("Port", "port", Shape::Number),
    Part("TargetPort", "targetPort", Shape::Number),
    Part("NodePort", "nodePort", Shape::Number),
];

/// Is it one that has no address, but those of its pods?
pub fn is_headless(service: &Value) -> bool {
    let list = &service["spec"]["clusterIPs"];
    count(list) == 1 && list[0] == "None"
}

/// What is wrong with a service; `old` is what it was before.
pub fn validate(service: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let spec = &service["spec"];
    if let (Some(mode), Some(hints)) = (object::annotation(service, MODE), object::annotation(service, HINTS))
        && mode != hints
    {
        let why = format!("must match annotations[{HINTS}] when both are specified");
        faults.invalid(format!("metadata.annotations[{MODE}]"), mode, why);
    }
    if count(&spec["ports"]) == 0 && !is_headless(service) && !services::is_external_name(service) {
        faults.required("spec.ports", "");
    }
    check_type(&mut faults, service);
    let mut names = BTreeSet::new();
    for (i, port) in items(&spec["ports"]) {
        check_port(&mut faults, &format!("spec.ports[{i}]"), port, count(&spec["ports"]) > 1, &mut names);
    }
    validate_labels(&spec["selector"], "spec.selector", &mut faults.0);
    check_affinity(&mut faults, spec);
    if !services::is_external_name(service) {
        faults.0.extend(address_faults(service, old));
    }
    check_external_addresses(&mut faults, spec, old);
    faults.required_one_of("spec.type", &spec["type"], &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    check_doubles(&mut faults, spec);
    check_source_ranges(&mut faults, service, old);
    check_balancer(&mut faults, spec);
    check_traffic(&mut faults, service);
    faults.0
}

fn check_type(faults: &mut Faults, service: &Value) {
    let spec = &service["spec"];
    match text(&spec["type"]) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            faults.invalid("spec.clusterIPs[0]", "None", format!("may not be set to 'None' for {kind} services"));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if count(&spec[field]) > 0 || spec[field].is_string() {
                    faults.forbidden(format!("spec.{field}"), "may not be set for ExternalName services");
                }
            }
            let name = text(&spec["externalName"]);
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                faults.required("spec.externalName", "");
            } else {
                faults.subdomain("spec.externalName", name);
            }
        }
        _ => {}
    }
}

fn check_port<'a>(faults: &mut Faults, at: &str, port: &'a Value, many: bool, names: &mut BTreeSet<&'a str>) {
    let name = text(&port["name"]);
    if name.is_empty() && many {
        faults.required(format!("{at}.name"), "");
    } else if !name.is_empty() {
        faults.label(format!("{at}.name"), name);
        if !names.insert(name) {
            faults.duplicate(format!("{at}.name"), name);
        }
    }
    faults.port_number(format!("{at}.port"), number(&port["port"]));
    faults.required_one_of(format!("{at}.protocol"), &port["protocol"], PROTOCOLS);
    faults.port(&format!("{at}.targetPort"), &port["targetPort"]);
    if let Some(protocol) = port["appProtocol"].as_str() {
        faults.qualified_name(format!("{at}.appProtocol"), protocol);
    }
}

fn check_affinity(faults: &mut Faults, spec: &Value) {
    faults.required_one_of("spec.sessionAffinity", &spec["sessionAffinity"], &["ClientIP", "None"]);
    if spec["sessionAffinity"] != "ClientIP" {
        return;
    }
    let seconds = number(&spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]);
    if seconds <= 0 || seconds > 86400 {
        let at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        faults.invalid(at, seconds, "must be greater than 0 and less than 86400");
    }
}

/// What is wrong with the addresses and their families, apart from all else.
pub fn address_faults(service: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let spec = &service["spec"];
    let (single, list) = (text(&spec["clusterIP"]), &spec["clusterIPs"]);
    let shown = || if list.is_null() { Value::Array(Vec::new()) } else { list.clone() };
    if single.is_empty() {
        if count(list) > 0 {
            faults.invalid("spec.clusterIPs", shown(), "must be empty when `clusterIP` is not specified");
        }
    } else if count(list) == 0 {
        faults.required("spec.clusterIPs", "");
    } else if list[0] != single {
        faults.invalid("spec.clusterIPs", shown(), "first value must match `clusterIP`");
    }
    let mut families = BTreeSet::new();
    for (i, family) in items(&spec["ipFamilies"]) {
        faults.one_of(format!("spec.ipFamilies[{i}]"), family, &["IPv4", "IPv6"]);
        if !families.insert(text(family)) {
            faults.duplicate(format!("spec.ipFamilies[{i}]"), family.clone());
        }
    }
    if !spec["ipFamilyPolicy"].is_null() {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        faults.one_of("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], &policies);
    }
    let known: Vec<&str> =
        old.map(|o| items(&o["spec"]["clusterIPs"]).map(|(_, a)| text(a)).collect()).unwrap_or_default();
    let mut wrong = false;
    for (i, address) in items(list).map(|(i, a)| (i, text(a))) {
        if i == 0 && address == "None" {
            if count(list) > 1 {
                wrong = true;
                faults.invalid("spec.clusterIPs", shown(), "'None' must be the first and only value");
            }
        } else if !known.contains(&address) {
            wrong |= !addresses::check(&mut faults, &format!("spec.clusterIPs[{i}]"), address);
        }
    }
    if count(list) > 2 {
        faults.invalid("spec.clusterIPs", shown(), "may only hold up to 2 values");
    }
    if !wrong {
        check_families(&mut faults, service);
    }
    faults.0
}

fn check_families(faults: &mut Faults, service: &Value) {
    let spec = &service["spec"];
    let list = &spec["clusterIPs"];
    let sixes = items(list).filter(|(_, a)| addresses::is_v6(text(a))).count();
    if count(list) > 1 && (sixes == 0 || sixes == count(list)) {
        faults.invalid("spec.clusterIPs", list.clone(), "may specify no more than one IP for each IP family");
    }
    if is_headless(service) {
        return;
    }
    for ((i, address), (_, family)) in items(list).zip(items(&spec["ipFamilies"])) {
        let six = addresses::is_v6(text(address));
        if (family == "IPv4" && six) || (family == "IPv6" && !six) {
            let why = format!("expected an {} value as indicated by `ipFamilies[{i}]`", text(family));
            faults.invalid(format!("spec.clusterIPs[{i}]"), address.clone(), why);
        }
    }
}

fn check_external_addresses(faults: &mut Faults, spec: &Value, old: Option<&Value>) {
    let before = old.and_then(|o| o["spec"]["externalIPs"].as_array());
    for (i, address) in items(&spec["externalIPs"]) {
        let at = format!("spec.externalIPs[{i}]");
        let known = before.is_some_and(|list| list.contains(address));
        if known || addresses::check(faults, &at, text(address)) {
            addresses::check_endpoint(faults, &at, text(address));
        }
    }
}

fn check_doubles(faults: &mut Faults, spec: &Value) {
    let ports = || items(&spec["ports"]).map(|(i, p)| (format!("spec.ports[{i}]"), p));
    let with_node_port = || ports().filter(|(_, p)| number(&p["nodePort"]) != 0);
    if spec["type"] == "ClusterIP" {
        for (at, _) in with_node_port() {
            faults.forbidden(format!("{at}.nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = BTreeSet::new();
    for (at, port) in with_node_port() {
        if !seen.insert((text(&port["protocol"]), number(&port["nodePort"]))) {
            faults.duplicate(format!("{at}.nodePort"), number(&port["nodePort"]));
        }
    }
    let mut seen = BTreeSet::new();
    for (at, port) in ports() {
        let (protocol, number) = (text(&port["protocol"]), number(&port["port"]));
        if !seen.insert((protocol, number)) {
            let shown = compact(Shape::Struct(PORT), &json!({"protocol": protocol, "port": number}));
            faults.0.push(FieldError::duplicate(at, Value::Null).printed(shown));
        }
    }
}

fn check_source_ranges(faults: &mut Faults, service: &Value, old: Option<&Value>) {
    let spec = &service["spec"];
    let balancer = spec["type"] == "LoadBalancer";
    if count(&spec["loadBalancerSourceRanges"]) > 0 {
        let at = "spec.LoadBalancerSourceRanges";
        if !balancer {
            faults.forbidden(at, BALANCERS_ONLY);
        }
        let known: Vec<&str> = old
            .map(|o| items(&o["spec"]["loadBalancerSourceRanges"]).map(|(_, r)| text(r).trim()).collect())
            .unwrap_or_default();
        for (i, range) in items(&spec["loadBalancerSourceRanges"]).map(|(i, r)| (i, text(r).trim())) {
            if !known.contains(&range) {
                addresses::check_network(faults, &format!("{at}[{i}]"), range);
            }
        }
    } else if let Some(ranges) = object::annotation(service, RANGES) {
        let at = format!("metadata.annotations[{RANGES}]");
        if !balancer {
            faults.forbidden(&at, BALANCERS_ONLY);
        }
        let unchanged = old.is_some_and(|old| object::annotation(old, RANGES) == Some(ranges));
        if !unchanged && !ranges.trim().is_empty() {
            ranges.trim().split(',').for_each(|range| addresses::check_network(faults, &at, range.trim()));
        }
    }
}

fn check_balancer(faults: &mut Faults, spec: &Value) {
    let balancer = spec["type"] == "LoadBalancer";
    if !spec["allocateLoadBalancerNodePorts"].is_null() && !balancer {
        faults.forbidden("spec.allocateLoadBalancerNodePorts", BALANCERS_ONLY);
    }
    check_class(faults, spec);
}

fn check_class(faults: &mut Faults, spec: &Value) {
    let Some(class) = spec["loadBalancerClass"].as_str() else { return };
    if spec["type"] == "LoadBalancer" {
        faults.qualified_name("spec.loadBalancerClass", class);
    } else {
        faults.forbidden("spec.loadBalancerClass", BALANCERS_ONLY);
    }
}

fn check_traffic(faults: &mut Faults, service: &Value) {
    let spec = &service["spec"];
    let (external, at) = (&spec["externalTrafficPolicy"], "spec.externalTrafficPolicy");
    if services::externally_accessible(service) {
        faults.required_one_of(at, external, &["Cluster", "Local"]);
    } else if !text(external).is_empty() {
        faults.invalid(at, external.clone(), "may only be set for externally-accessible services");
    }
    let (port, at) = (number(&spec["healthCheckNodePort"]), "spec.healthCheckNodePort");
    if services::needs_health_check(service) {
        if port == 0 {
            faults.required(at, "");
        } else {
            faults.port_number(at, port);
        }
    } else if port != 0 {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        faults.invalid(at, port, why);
    }
    let (internal, at) = (&spec["internalTrafficPolicy"], "spec.internalTrafficPolicy");
    if !internal.is_null() {
        faults.one_of(at, internal, &["Cluster", "Local"]);
    }
    let distribution = &spec["trafficDistribution"];
    if !distribution.is_null() {
        let supported: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
        faults.one_of("spec.trafficDistribution", distribution, supported);
    }
}

/// What may not change in this way; all that a new service is checked for follows it.
pub fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    if !services::is_external_name(old) && !services::is_external_name(new) {
        check_address_change(&mut faults, old, new);
        check_family_change(&mut faults, old, new);
    }
    let class = |s: &Value| s["spec"]["loadBalancerClass"].clone();
    let balancer = |s: &Value| s["spec"]["type"] == "LoadBalancer";
    if balancer(old) && balancer(new) && class(old) != class(new) {
        faults.invalid("spec.loadBalancerClass", class(new), "may not change once set");
    }
    check_class(&mut faults, &new["spec"]);
    let port = |s: &Value| number(&s["spec"]["healthCheckNodePort"]);
    if services::needs_health_check(old) && services::needs_health_check(new) && port(old) != port(new) {
        faults.forbidden("spec.healthCheckNodePort", "field is immutable");
    }
    faults.0
}

fn check_address_change(faults: &mut Faults, old: &Value, new: &Value) {
    if is_headless(old) && is_headless(new) {
        return;
    }
    let (before, after) = (&old["spec"]["clusterIPs"], &new["spec"]["clusterIPs"]);
    if count(before) == count(after) {
        for (i, _) in items(before).filter(|(i, address)| after[*i] != **address) {
            faults.invalid(format!("spec.clusterIPs[{i}]"), after.clone(), "may not change once set");
        }
        return;
    }
    if count(after) == 0 {
        faults.invalid("spec.clusterIPs[0]", after.clone(), "primary clusterIP can not be unset");
    } else if count(before) > 0 && after[0] != before[0] {
        faults.invalid("spec.clusterIPs[0]", after.clone(), "may not change once set");
    }
    if count(before) > count(after) && count(after) == 1 {
        check_release(faults, new, "clusterIP");
    }
}

fn check_family_change(faults: &mut Faults, old: &Value, new: &Value) {
    if is_headless(old) || is_headless(new) {
        return;
    }
    let (before, after) = (&old["spec"]["ipFamilies"], &new["spec"]["ipFamilies"]);
    let (at, stays) = ("spec.ipFamilies[0]", "may not change once set");
    if count(before) == count(after) {
        for _ in items(before).filter(|(i, family)| after[*i] != **family) {
            faults.invalid(at, after.clone(), stays);
        }
        return;
    }
    if count(before) > count(after) && count(&new["spec"]["clusterIPs"]) == 0 {
        faults.invalid(at, after.clone(), "primary ipFamily can not be unset");
    }
    if count(before) > 0 && count(after) > 0 && after[0] != before[0] {
        faults.invalid(at, new["spec"]["clusterIPs"].clone(), stays);
    }
    if count(before) > count(after) && count(after) == 1 {
        check_release(faults, new, "ipFamily");
    }
}

fn check_release(faults: &mut Faults, new: &Value, what: &str) {
    let policy = &new["spec"]["ipFamilyPolicy"];
    if policy != "SingleStack" {
        let why = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        faults.invalid("spec.ipFamilyPolicy", policy.clone(), why);
    }
}

/// What is wrong with the status of a service.
pub fn validate_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let (ingress, at) = (&new["status"]["loadBalancer"]["ingress"], "status.loadBalancer.ingress");
    if new["spec"]["type"] != "LoadBalancer" {
        if count(ingress) > 0 {
            faults.forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return faults.0;
    }
    let known: Vec<&str> =
        items(&old["status"]["loadBalancer"]["ingress"]).map(|(_, place)| text(&place["ip"])).collect();
    for (i, place) in items(ingress) {
        let (ip, mode, host) = (text(&place["ip"]), &place["ipMode"], text(&place["hostname"]));
        if !ip.is_empty() && !known.contains(&ip) {
            addresses::check(&mut faults, &format!("{at}[{i}].ip"), ip);
        }
        if !mode.is_null() && ip.is_empty() {
            faults.forbidden(format!("{at}[{i}].ipMode"), "may not be specified when `ip` is not set");
        } else if !mode.is_null() {
            faults.one_of(format!("{at}[{i}].ipMode"), mode, &["Proxy", "VIP"]);
        }
        if !host.is_empty() {
            faults.subdomain(format!("{at}[{i}].hostname"), host);
            if addresses::parse(host).is_some() {
                faults.invalid(format!("{at}[{i}].hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
    faults.0
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]
mod tests {
    use super::*;

    fn said(mut service: Value) -> Vec<String> {
        services::default_service(&mut service);
        services::normalize(None, &mut service);
        validate(&service, None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_rule_has_its_words() {
        let nothing: [&str; 0] = [];
        let port = json!({"name": "a", "port": 1});
        assert_eq!(said(json!({"spec": {"ports": [port]}})), nothing);
        assert_eq!(said(json!({"spec": {}})), ["spec.ports: Required value"]);
        assert_eq!(said(json!({"spec": {"clusterIP": "None"}})), nothing);
        assert_eq!(
            said(json!({"spec": {"ports": [{"port": 0}]}})),
            [
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive"
            ]
        );
        assert_eq!(
            said(json!({"spec": {"ports": [port, {"name": "b", "port": 1}]}})),
            [
                "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":1,\"TargetPort\":0,\"NodePort\":0}"
            ]
        );
        assert_eq!(said(json!({"spec": {"type": "ExternalName"}})), ["spec.externalName: Required value"]);
        assert_eq!(
            said(json!({"spec": {"type": "NodePort", "clusterIP": "None", "ports": [port]}})),
            ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"]
        );
        assert_eq!(
            said(json!({"spec": {"ports": [port], "clusterIP": "nowhere"}})),
            [
                "spec.clusterIPs[0]: Invalid value: \"nowhere\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            ]
        );
    }

    #[test]
    fn an_address_stays() {
        let with = |address: &str| json!({"spec": {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"]}});
        let said: Vec<String> =
            validate_update(&with("10.96.0.2"), &with("10.96.0.3")).iter().map(ToString::to_string).collect();
        assert_eq!(said, ["spec.clusterIPs[0]: Invalid value: [\"10.96.0.3\"]: may not change once set"]);
    }
}
