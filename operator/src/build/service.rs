//! The two Services: a headless one that gives members their names, and one for clients.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

use super::metadata;
use crate::api::labels::{LABEL_LINEAGE, LABEL_ROLE, Role, cluster_labels, selector_labels};
use crate::api::names::{CLIENT_PORT, PEER_PORT, client_service_name, peer_service_name};
use crate::model::Desired;

/// Value of the lineage label in the client Service's selector while nobody serves. No token is so short.
pub const LINEAGE_NONE: &str = "none";

/// The headless Service `<cluster>`: the names in peer and client URLs resolve through it, from the moment that a pod
/// has an address. Members find each other before they are ready, because together they become ready.
pub fn peer_service(desired: &Desired) -> Service {
    let cluster = &desired.identity.name;
    Service {
        metadata: metadata(&desired.identity, &peer_service_name(cluster), cluster_labels(cluster)),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            ports: Some(vec![port("client", CLIENT_PORT), port("peer", PEER_PORT)]),
            publish_not_ready_addresses: Some(true),
            selector: Some(selector_labels(cluster)),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The Service `<cluster>-client`: the voters of the lineage that serves, and nobody while none does.
pub fn client_service(desired: &Desired, serving: Option<&str>) -> Service {
    let cluster = &desired.identity.name;
    Service {
        metadata: metadata(&desired.identity, &client_service_name(cluster), cluster_labels(cluster)),
        spec: Some(ServiceSpec {
            ports: Some(vec![port("client", CLIENT_PORT)]),
            selector: Some(client_selector(cluster, serving)),
            type_: Some("ClusterIP".to_owned()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// What the client Service selects.
pub fn client_selector(cluster: &str, serving: Option<&str>) -> BTreeMap<String, String> {
    let mut selector = selector_labels(cluster);
    selector.insert(LABEL_LINEAGE.to_owned(), serving.unwrap_or(LINEAGE_NONE).to_owned());
    selector.insert(LABEL_ROLE.to_owned(), Role::Voter.as_str().to_owned());
    selector
}

/// Whether a Service is as it was built, the selector and what the API server fills in aside.
pub fn service_as_built(actual: &Service, wanted: &Service) -> bool {
    let (Some(is), Some(shall)) = (&actual.spec, &wanted.spec) else {
        return actual.spec.is_none() && wanted.spec.is_none();
    };
    let kind = |spec: &ServiceSpec| spec.type_.clone().unwrap_or_else(|| "ClusterIP".to_owned());
    let headless = |spec: &ServiceSpec| spec.cluster_ip.as_deref() == Some("None");
    let unready = |spec: &ServiceSpec| spec.publish_not_ready_addresses.unwrap_or(false);
    let ports = |spec: &ServiceSpec| spec.ports.iter().flatten().map(effective_port).collect::<Vec<_>>();
    let labels = |service: &Service| service.metadata.labels.clone().unwrap_or_default();
    let labelled = labels(wanted).iter().all(|(key, value)| labels(actual).get(key) == Some(value));
    labelled
        && kind(is) == kind(shall)
        && headless(is) == headless(shall)
        && unready(is) == unready(shall)
        && ports(is) == ports(shall)
}

/// A Service with what we say of it as it was built, and all that others said (annotations of a load balancer or a mesh,
/// their labels and finalizers, the session affinity) as it is.
pub fn service_changed(actual: &Service, wanted: &Service) -> Service {
    let mut changed = actual.clone();
    let labels = wanted.metadata.labels.clone().unwrap_or_default();
    changed.metadata.labels.get_or_insert_default().extend(labels);
    if let Some(shall) = &wanted.spec {
        let spec = changed.spec.get_or_insert_default();
        spec.selector.clone_from(&shall.selector);
        spec.ports.clone_from(&shall.ports);
        spec.type_ = Some(shall.type_.clone().unwrap_or_else(|| "ClusterIP".to_owned()));
        spec.publish_not_ready_addresses = shall.publish_not_ready_addresses;
        // The API server refuses these on a Service that is no load balancer.
        spec.load_balancer_source_ranges = None;
        spec.load_balancer_ip = None;
        spec.load_balancer_class = None;
        spec.allocate_load_balancer_node_ports = None;
        spec.health_check_node_port = None;
        spec.external_traffic_policy = None;
    }
    if let Some(annotations) = &mut changed.metadata.annotations {
        annotations.remove("service.beta.kubernetes.io/load-balancer-source-ranges");
    }
    changed
}

/// A port with the API server's defaults: protocol TCP, target port equal to the port.
fn effective_port(port: &ServicePort) -> (Option<String>, i32, IntOrString, String) {
    let target = port.target_port.clone().unwrap_or(IntOrString::Int(port.port));
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    (port.name.clone(), port.port, target, protocol)
}

fn port(name: &str, number: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(number)),
        ..ServicePort::default()
    }
}
