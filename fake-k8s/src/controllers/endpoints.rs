//! Who is behind a Service: its Endpoints and its EndpointSlice, kept up from the pods that its selector matches.
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Controller;
use super::informer::Informer;
use super::object::{self, Key};
use crate::server::{Request, ResourceName, Server};

/// The endpoints controller.
#[derive(Debug)]
pub struct EndpointsController {
    services: Informer,
    pods: Informer,
}

/// One pod behind a Service.
#[derive(Debug)]
struct Backend {
    address: Value,
    ready: bool,
    serving: bool,
    terminating: bool,
    node: String,
    ports: Vec<Value>,
}

impl EndpointsController {
    /// A controller that has seen nothing.
    pub fn new() -> Self {
        let core = |plural: &str| Informer::new(ResourceName::core(plural));
        Self { services: core("services"), pods: core("pods") }
    }

    /// The Services about which something may have changed.
    fn sync(&mut self, server: &Server) -> BTreeSet<Key> {
        let mut stale: BTreeSet<Key> = self.services.sync(server).into_iter().map(|change| change.key).collect();
        for change in self.pods.sync(server) {
            for pod in [&change.old, &change.new].into_iter().flatten() {
                let labels = object::map(pod, "/metadata/labels");
                let services = self.services.in_namespace(&change.key.0);
                stale.extend(services.filter(|service| is_behind(service, labels)).map(|service| object::key(service)));
            }
        }
        stale
    }

    fn tend(&self, server: &mut Server, now: Timestamp, key: &Key) {
        let slice_name = |service: &Value| {
            // As unique as the Service itself, and the same at each restart of this controller.
            let uid: String = object::uid(service).chars().filter(char::is_ascii_alphanumeric).take(5).collect();
            format!("{}-{uid}", key.1)
        };
        let Some(service) = self.services.find(&key.0, &key.1) else {
            // Slices go with their owner; Endpoints of old have no owner.
            if server.peek(&endpoints_resource(), &key.0, &key.1).is_some() {
                let _ = server.handle(now, &Request::delete(endpoints_resource(), &key.0, &key.1));
            }
            return;
        };
        if object::map(service, "/spec/selector").is_empty() || object::text(service, "/spec/type") == "ExternalName" {
            return;
        }
        let backends = self.backends(service);
        write(server, now, &endpoints_resource(), endpoints(service, &backends), "subsets");
        write(server, now, &slices_resource(), slice(service, &slice_name(service), &backends), "endpoints");
    }

    fn backends(&self, service: &Value) -> Vec<Backend> {
        let mut backends = Vec::new();
        for pod in self.pods.in_namespace(object::namespace(service)) {
            let ip = object::text(pod, "/status/podIP");
            let matches = is_behind(service, object::map(pod, "/metadata/labels"));
            if !matches || ip.is_empty() || object::is_finished_pod(pod) {
                continue;
            }
            let serving = object::condition(pod, "Ready") == "True";
            let terminating = object::is_terminating(pod);
            let all = object::flag(service, "/spec/publishNotReadyAddresses");
            let mut address = json!({"ip": ip, "nodeName": object::text(pod, "/spec/nodeName"),
                "targetRef": {"kind": "Pod", "namespace": object::namespace(pod), "name": object::name(pod), "uid": object::uid(pod)}});
            let (hostname, subdomain) = (object::text(pod, "/spec/hostname"), object::text(pod, "/spec/subdomain"));
            if !hostname.is_empty() && subdomain == object::name(service) {
                address["hostname"] = json!(hostname);
            }
            backends.push(Backend {
                address,
                ready: all || (serving && !terminating),
                serving,
                terminating,
                node: object::text(pod, "/spec/nodeName").to_owned(),
                ports: ports(service, pod),
            });
        }
        backends
    }
}

impl Default for EndpointsController {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for EndpointsController {
    fn step(&mut self, now: Timestamp, server: &mut Server) {
        let stale = self.sync(server);
        stale.iter().for_each(|key| self.tend(server, now, key));
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }
}

fn is_behind(service: &Value, labels: &Map<String, Value>) -> bool {
    let selector = object::map(service, "/spec/selector");
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The Service's ports as this pod has them; a port whose name the pod does not know is left out.
fn ports(service: &Value, pod: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for port in object::items(service, "/spec/ports") {
        let target = port.get("targetPort").unwrap_or(&port["port"]);
        let number = match target.as_str() {
            None => target.as_i64().filter(|number| *number > 0).or_else(|| object::number(port, "/port")),
            Some(name) => {
                let containers = object::items(pod, "/spec/containers").iter();
                let mut all = containers.flat_map(|container| object::items(container, "/ports"));
                all.find(|port| object::text(port, "/name") == name)
                    .and_then(|port| object::number(port, "/containerPort"))
            }
        };
        let Some(number) = number else { continue };
        let protocol = Some(object::text(port, "/protocol")).filter(|text| !text.is_empty()).unwrap_or("TCP");
        let mut entry = json!({"port": number, "protocol": protocol});
        if !object::text(port, "/name").is_empty() {
            entry["name"] = port["name"].clone();
        }
        found.push(entry);
    }
    found
}

fn endpoints(service: &Value, backends: &[Backend]) -> Value {
    // Pods with the same ports share a subset; with one kind of pod behind a Service, as nearly always, there is one.
    let mut subsets: Vec<(Vec<Value>, Vec<Value>, Vec<Value>)> = Vec::new();
    for backend in backends.iter().filter(|backend| backend.ready || !backend.terminating) {
        let at = subsets.iter().position(|(ports, ..)| *ports == backend.ports).unwrap_or_else(|| {
            subsets.push((backend.ports.clone(), Vec::new(), Vec::new()));
            subsets.len() - 1
        });
        let (_, ready, unready) = &mut subsets[at];
        let list = if backend.ready { ready } else { unready };
        list.push(backend.address.clone());
    }
    let subset = |(ports, ready, unready): (Vec<Value>, Vec<Value>, Vec<Value>)| {
        let mut subset = json!({});
        for (field, content) in [("addresses", ready), ("notReadyAddresses", unready), ("ports", ports)] {
            if !content.is_empty() {
                subset[field] = json!(content);
            }
        }
        subset
    };
    let mut labels = service.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    if object::text(service, "/spec/clusterIP") == "None" {
        labels["service.kubernetes.io/headless"] = json!("");
    }
    let mut metadata = json!({"name": object::name(service), "namespace": object::namespace(service)});
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        metadata["labels"] = labels;
    }
    let subsets: Vec<_> = subsets.into_iter().map(subset).collect();
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets})
}

fn slice(service: &Value, name: &str, backends: &[Backend]) -> Value {
    let endpoint = |backend: &Backend| {
        let mut endpoint = json!({"addresses": [backend.address["ip"]], "nodeName": backend.node,
            "targetRef": backend.address["targetRef"], "conditions": {
                "ready": backend.ready, "serving": backend.serving, "terminating": backend.terminating}});
        if let Some(hostname) = backend.address.get("hostname") {
            endpoint["hostname"] = hostname.clone();
        }
        endpoint
    };
    let mut labels = json!({"kubernetes.io/service-name": object::name(service),
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"});
    if object::text(service, "/spec/clusterIP") == "None" {
        labels["service.kubernetes.io/headless"] = json!("");
    }
    let ports = backends.first().map(|backend| backend.ports.clone()).unwrap_or_default();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": object::namespace(service), "labels": labels, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Service", "name": object::name(service), "uid": object::uid(service),
                "controller": true, "blockOwnerDeletion": true}]},
        "addressType": "IPv4", "endpoints": backends.iter().map(endpoint).collect::<Vec<_>>(), "ports": ports,
    })
}

/// Creates or replaces, if it is not so already.
fn write(server: &mut Server, now: Timestamp, resource: &ResourceName, wanted: Value, content: &str) {
    let (namespace, name) = object::key(&wanted);
    let current: Option<Arc<Value>> = server.peek(resource, &namespace, &name);
    let Some(current) = current else {
        // Refused (the namespace is going away): there is nobody to ask for these addresses.
        let _ = server.handle(now, &Request::create(resource.clone(), &namespace, wanted));
        return;
    };
    let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let same = |field: &str| {
        let (is, should) = (&current[field], &wanted[field]);
        is == should || (empty(is) && empty(should))
    };
    let owned = current["metadata"]["ownerReferences"] == wanted["metadata"]["ownerReferences"];
    if same(content) && same("ports") && owned && current["metadata"]["labels"] == wanted["metadata"]["labels"] {
        return;
    }
    let mut new = Value::clone(&current);
    for field in [content, "ports"] {
        if let Some(value) = wanted.get(field) {
            new[field] = value.clone();
        }
    }
    for field in ["labels", "ownerReferences"] {
        if let Some(value) = wanted["metadata"].get(field) {
            new["metadata"][field] = value.clone();
        }
    }
    // Refused: somebody else wrote it; the next change of a pod or of the Service puts it right.
    let _ = server.handle(now, &Request::replace(resource.clone(), &namespace, &name, new));
}

fn endpoints_resource() -> ResourceName {
    ResourceName::core("endpoints")
}

fn slices_resource() -> ResourceName {
    ResourceName::new("discovery.k8s.io", "v1", "endpointslices")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(server: &mut Server, plural: &str, body: Value) {
        let request = Request::create(ResourceName::core(plural), "default", body);
        server.handle(Timestamp::UNIX_EPOCH, &request).expect("a valid object");
    }

    fn pod(server: &mut Server, name: &str, ip: &str, ready: &str) {
        create(
            server,
            "pods",
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "etcd"}},
            "spec": {"nodeName": "n", "hostname": name, "subdomain": "s",
                "containers": [{"name": "c", "image": "a:1", "ports": [{"name": "client", "containerPort": 2379}]}]}}),
        );
        let status =
            json!({"status": {"podIP": ip, "phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        let request =
            Request::merge_patch(ResourceName::core("pods"), "default", name, status).on_subresource("status");
        server.handle(Timestamp::UNIX_EPOCH, &request).expect("a valid status");
    }

    fn service(server: &mut Server, name: &str, spec: Value) {
        let mut spec = spec;
        spec["selector"] = json!({"app": "etcd"});
        spec["ports"] = json!([{"name": "client", "port": 80, "targetPort": "client"}]);
        create(
            server,
            "services",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}),
        );
    }

    /// Ready and unready addresses of the Endpoints, and the ready flags of the slice.
    fn addresses(server: &Server, name: &str) -> String {
        let endpoints = server.peek(&endpoints_resource(), "default", name).expect("there are Endpoints");
        let ips = |field: &str| {
            let all = object::items(&endpoints, &format!("/subsets/0/{field}")).iter();
            all.map(|address| object::text(address, "/ip")).collect::<Vec<_>>().join(" ")
        };
        let slices = server.peek_all(&slices_resource(), Some("default"));
        let own =
            slices.iter().find(|slice| object::map(slice, "/metadata/labels")["kubernetes.io/service-name"] == name);
        let flags = object::items(own.expect("there is a slice"), "/endpoints").iter();
        let flags: Vec<_> = flags.map(|endpoint| object::flag(endpoint, "/conditions/ready").to_string()).collect();
        format!("{} | {} | {}", ips("addresses"), ips("notReadyAddresses"), flags.join(" "))
    }

    #[test]
    fn only_ready_pods_are_addresses_unless_all_are_published() {
        let (mut server, mut controller) = (Server::new(1), EndpointsController::new());
        service(&mut server, "s", json!({"clusterIP": "None", "publishNotReadyAddresses": true}));
        service(&mut server, "c", json!({}));
        pod(&mut server, "a", "10.244.0.2", "True");
        pod(&mut server, "b", "10.244.0.3", "False");
        controller.step(Timestamp::UNIX_EPOCH, &mut server);
        assert_eq!(addresses(&server, "s"), "10.244.0.2 10.244.0.3 |  | true true");
        assert_eq!(addresses(&server, "c"), "10.244.0.2 | 10.244.0.3 | true false");
        let endpoints = server.peek(&endpoints_resource(), "default", "s").expect("there are Endpoints");
        assert_eq!(object::text(&endpoints, "/subsets/0/addresses/0/hostname"), "a");
        assert_eq!(object::number(&endpoints, "/subsets/0/ports/0/port"), Some(2379));
    }

    #[test]
    fn a_pod_that_is_leaving_is_no_address() {
        let (mut server, mut controller) = (Server::new(1), EndpointsController::new());
        service(&mut server, "c", json!({}));
        pod(&mut server, "a", "10.244.0.2", "True");
        controller.step(Timestamp::UNIX_EPOCH, &mut server);
        let delete = Request::delete(ResourceName::core("pods"), "default", "a").grace(30);
        server.handle(Timestamp::UNIX_EPOCH, &delete).expect("the pod is there");
        controller.step(Timestamp::UNIX_EPOCH, &mut server);
        assert_eq!(addresses(&server, "c"), " |  | false");
    }

    #[test]
    fn nothing_is_written_when_nothing_changed() {
        let (mut server, mut controller) = (Server::new(1), EndpointsController::new());
        service(&mut server, "c", json!({}));
        pod(&mut server, "a", "10.244.0.2", "True");
        controller.step(Timestamp::UNIX_EPOCH, &mut server);
        let version = server.resource_version();
        controller.step(Timestamp::UNIX_EPOCH, &mut server);
        EndpointsController::new().step(Timestamp::UNIX_EPOCH, &mut server);
        assert_eq!(server.resource_version(), version);
    }

    #[test]
    fn endpoints_go_with_their_service() {
        let (mut server, mut controller) = (Server::new(1), EndpointsController::new());
        service(&mut server, "c", json!({}));
        controller.step(Timestamp::UNIX_EPOCH, &mut server);
        let delete = Request::delete(ResourceName::core("services"), "default", "c");
        server.handle(Timestamp::UNIX_EPOCH, &delete).expect("the Service is there");
        controller.step(Timestamp::UNIX_EPOCH, &mut server);
        assert_eq!(server.peek(&endpoints_resource(), "default", "c"), None);
    }
}
