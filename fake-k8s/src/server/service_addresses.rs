//! What a service is given: its families, its cluster address, and ports on the nodes. All of it comes before the other
//! rules are asked, so a service that asks for what it cannot have hears of nothing else.
use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::builtin::services::{self, has_node_ports, is_external_name, needs_health_check, node_ports};
use super::builtin::{addresses, service_rules};
use super::resource::StorageKey;
use super::{FieldError, Options, Reason, ResourceName, Server, Status, object};

const FIRST_PORT: i64 = 30000;
const LAST_PORT: i64 = 32767;
/// No such port exists: what a dry run shows begins behind it.
const DRY_PORT: i64 = 32768;

/// The ports that one request takes.
struct Ports<'a> {
    taken: BTreeSet<i64>,
    mine: BTreeSet<i64>,
    last: &'a mut i64,
    dry_run: bool,
}

impl Ports<'_> {
    fn ask(&mut self, port: i64) -> Result<(), String> {
        if !self.dry_run && !(FIRST_PORT..=LAST_PORT).contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
            ));
        }
        if self.taken.contains(&port) || !self.mine.insert(port) {
            return Err("provided port is already allocated".into());
        }
        Ok(())
    }

    fn any(&mut self) -> Result<i64, Status> {
        if self.dry_run {
            let port = self.mine.last().copied().unwrap_or(DRY_PORT) + 1;
            self.mine.insert(port);
            return Ok(port);
        }
        let size = LAST_PORT - FIRST_PORT + 1;
        let free = (0..size).map(|step| FIRST_PORT + (*self.last + step) % size);
        let port = free.into_iter().find(|port| !self.taken.contains(port) && !self.mine.contains(port));
        let port = port.ok_or_else(|| internal("failed to allocate a nodePort: range is full"))?;
        self.mine.insert(port);
        *self.last = port - FIRST_PORT + 1;
        Ok(port)
    }
}

fn internal(why: &str) -> Status {
    Status::new(Reason::InternalError, format!("Internal error occurred: {why}"))
}

fn invalid(service: &Value, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("", "Service", object::name(service), errors)) }
}

impl Server {
    /// Gives the service what its type calls for; `old` is what it was before.
    pub(super) fn allocate_service(
        &mut self,
        service: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), Status> {
        if old.is_none() {
            services::normalize(None, service);
        }
        init_families(service, old)?;
        self.give_address(service, old, dry_run)?;
        let key = StorageKey { group: String::new(), plural: "services".into() };
        let health = |s: &Value| s["spec"]["healthCheckNodePort"].as_i64().filter(|port| *port != 0);
        let taken = self.store.list(&key, None).flat_map(|s| node_ports(s).into_iter().chain(health(s))).collect();
        let mut ports = Ports { taken, mine: BTreeSet::new(), last: &mut self.last_node_port, dry_run };
        if has_node_ports(service) {
            give_ports(service, old, &mut ports)?;
        }
        if needs_health_check(service) && !old.is_some_and(needs_health_check) {
            let port = match health(service) {
                Some(port) => {
                    let failed =
                        |why| internal(&format!("failed to allocate requested HealthCheck NodePort {port}: {why}"));
                    ports.ask(port).map_err(failed)?;
                    port
                }
                None => ports.any()?,
            };
            service["spec"]["healthCheckNodePort"] = json!(port);
        }
        Ok(())
    }

    /// With a service go its Endpoints, so that they do not stand for another of its name.
    pub(super) fn release_service(&mut self, now: Timestamp, namespace: &str, name: &str) {
        let Some(info) = self.registry.find(&ResourceName::core("endpoints")).cloned() else { return };
        if let Some(endpoints) = self.store.get(&info.storage, namespace, name).cloned() {
            // Nothing can stand against it: there are no conditions.
            let _ = self.delete_stored(now, &info, &endpoints, &Options::default());
        }
    }

    fn give_address(&mut self, service: &mut Value, old: Option<&Value>, dry_run: bool) -> Result<(), Status> {
        // Only a service that had no place for an address before is given one.
        if is_external_name(service) || service_rules::is_headless(service) || old.is_some_and(|o| !is_external_name(o))
        {
            return Ok(());
        }
        let key = StorageKey { group: String::new(), plural: "services".into() };
        let address = |s: &Value| s["spec"]["clusterIP"].as_str().map(str::to_owned);
        let taken: BTreeSet<String> = self.store.list(&key, None).filter_map(|s| address(s)).collect();
        let network = self.service_network;
        let given = match address(service).filter(|asked| !asked.is_empty()) {
            None if dry_run => network.first(),
            None => network
                .allocate(&taken, &mut self.last_address)
                .ok_or_else(|| internal("failed to allocate a serviceIP: range is full"))?,
            Some(asked) => {
                let why = match network.contains(&asked) {
                    false => Some("the provided network does not match the current range"),
                    true if taken.contains(&asked) && !dry_run => Some("provided IP is already allocated"),
                    true => None,
                };
                if let Some(why) = why {
                    let why = format!("failed to allocate IP {asked}: {why}");
                    return invalid(service, &[FieldError::invalid("spec.clusterIPs", json!([asked]), why)]);
                }
                asked
            }
        };
        service["spec"]["clusterIP"] = json!(given);
        service["spec"]["clusterIPs"] = json!([given]);
        Ok(())
    }
}

fn give_ports(service: &mut Value, old: Option<&Value>, ports: &mut Ports<'_>) -> Result<(), Status> {
    let gives = service["spec"]["type"] == "NodePort" || service["spec"]["allocateLoadBalancerNodePorts"] != false;
    let before = old.map(node_ports).unwrap_or_default();
    let count = service["spec"]["ports"].as_array().map_or(0, Vec::len);
    for i in 0..count {
        let port = &service["spec"]["ports"][i];
        let (number, asked) = (port["port"].clone(), port["nodePort"].as_i64().unwrap_or(0));
        if asked == 0 && !gives {
            continue;
        }
        // Two ports of one number, for two protocols, share the port on the nodes.
        let sharing =
            |p: &&Value| old.is_none() && p["port"] == number && p["nodePort"].as_i64().is_some_and(|n| n != 0);
        let shared = service["spec"]["ports"].as_array().into_iter().flatten().find(sharing);
        let shared = shared.and_then(|p| p["nodePort"].as_i64());
        let given = match (asked, shared) {
            (0, Some(shared)) => shared,
            (0, None) => ports.any()?,
            (asked, _) => asked,
        };
        let mine = ports.mine.contains(&given) && (old.is_some() || shared.is_none_or(|shared| shared == given));
        if !mine
            && !before.contains(&given)
            && let Err(why) = ports.ask(given)
        {
            let at = format!("spec.ports[{i}].nodePort");
            return invalid(service, &[FieldError::invalid(at, given, why)]);
        }
        service["spec"]["ports"][i]["nodePort"] = json!(given);
    }
    Ok(())
}

fn list<'a>(service: &'a Value, field: &str) -> &'a [Value] {
    service["spec"][field].as_array().map_or(&[], Vec::as_slice)
}

/// Families and their policy, for the one family that there is here.
fn init_families(service: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    if is_external_name(service) || old.is_some_and(|old| keeps_families(service, old)) {
        return Ok(());
    }
    let open = service["spec"]["clusterIP"] == "None"
        && service["spec"]["selector"].as_object().is_none_or(serde_json::Map::is_empty);
    if service["spec"]["ipFamilyPolicy"].is_null() {
        let before = old.map_or(Value::Null, |old| old["spec"]["ipFamilyPolicy"].clone());
        let fresh = || if open { json!("RequireDualStack") } else { json!("SingleStack") };
        service["spec"]["ipFamilyPolicy"] = if before.is_null() { fresh() } else { before };
    }
    invalid(service, &service_rules::address_faults(service, old))?;
    let single = service["spec"]["ipFamilyPolicy"] == "SingleStack";
    let mut errors = policy_faults(service, old, single);
    infer_families(service, &mut errors);
    invalid(service, &errors)?;
    let spec = object::entry_object(service, "spec");
    let missing = spec.get("ipFamilies").is_none_or(|f| f.as_array().is_none_or(Vec::is_empty));
    if open {
        // Whoever is behind such a service may have addresses of any family.
        let families = spec.entry("ipFamilies").or_insert_with(|| json!([]));
        if missing {
            *families = json!(["IPv4"]);
        }
        if let Some(list) = families.as_array_mut().filter(|list| list.len() < 2 && !single) {
            let other = if list[0] == "IPv4" { "IPv6" } else { "IPv4" };
            list.push(json!(other));
        }
        return Ok(());
    }
    if spec["ipFamilyPolicy"] == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", "RequireDualStack", why));
    }
    for (i, family) in list(service, "ipFamilies").iter().enumerate().filter(|(_, family)| **family != "IPv4") {
        let at = format!("spec.ipFamilies[{i}]");
        errors.push(FieldError::invalid(at, family.clone(), "not configured on this cluster"));
    }
    invalid(service, &errors)?;
    if missing {
        service["spec"]["ipFamilies"] = json!(["IPv4"]);
    }
    Ok(())
}

/// A service that would like two families, and is as it was, is left alone.
fn keeps_families(service: &Value, old: &Value) -> bool {
    let same = |field: &str| service["spec"][field] == old["spec"][field];
    let preferred = service["spec"]["ipFamilyPolicy"] == "PreferDualStack";
    let kind = service["spec"]["type"].as_str().unwrap_or_default();
    let fields = ["type", "ipFamilyPolicy", "clusterIP", "clusterIPs", "ipFamilies"];
    preferred && ["ClusterIP", "NodePort", "LoadBalancer"].contains(&kind) && fields.into_iter().all(same)
}

fn policy_faults(service: &mut Value, old: Option<&Value>, single: bool) -> Vec<FieldError> {
    let at = "spec.ipFamilyPolicy";
    let mut errors = Vec::new();
    if let Some(old) = old {
        for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
            let (before, after) = (list(old, field).to_vec(), list(service, field).to_vec());
            if single && before == after && after.len() > 1 {
                service["spec"][field] = json!([after[0]]);
            }
            if !single && !after.is_empty() && after.len() < before.len() {
                let why = format!("must be 'SingleStack' to release the secondary {what}");
                errors.push(FieldError::invalid(at, service["spec"]["ipFamilyPolicy"].clone(), why));
            }
        }
    }
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if single && list(service, field).len() == 2 {
            let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.push(FieldError::invalid(at, service["spec"]["ipFamilyPolicy"].clone(), why));
        }
    }
    errors
}

fn infer_families(service: &mut Value, errors: &mut Vec<FieldError>) {
    let addresses = list(service, "clusterIPs").to_vec();
    for (i, address) in addresses.iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        if text == "None" {
            return;
        }
        if i < list(service, "ipFamilies").len() {
            continue;
        }
        if addresses::is_v6(text) {
            let at = format!("spec.clusterIPs[{i}]");
            errors.push(FieldError::invalid(at, addresses.clone(), "IPv6 is not configured on this cluster"));
        } else {
            let families = object::entry_object(service, "spec").entry("ipFamilies").or_insert_with(|| json!([]));
            if let Some(list) = families.as_array_mut() {
                list.push(json!("IPv4"));
            }
        }
    }
}
