//! Name resolution: pods under their headless Service, and the pods behind a Service.

use std::collections::BTreeMap;

use fake_k8s::server::ResourceName;
use serde_json::Value;

use crate::world::World;

/// Host names of pods at one instant.
#[derive(Debug, Default)]
pub struct Names {
    pods: BTreeMap<String, String>,
}

/// The host of a URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split([':', '/']).next().unwrap_or(rest)
}

impl Names {
    /// Of this world: a pod has a name while its headless Service exists.
    pub fn of(world: &World) -> Self {
        let services = ResourceName::core("services");
        let mut names = Self::default();
        for pod in world.runtime.values() {
            let (Some(subdomain), Some((namespace, _))) = (&pod.subdomain, pod.key.split_once('/')) else { continue };
            if world.server.peek(&services, namespace, subdomain).is_some() {
                names.pods.insert(format!("{}.{subdomain}.{namespace}.svc", pod.hostname), pod.key.clone());
            }
        }
        names
    }

    /// The pod behind a URL.
    pub fn resolve(&self, url: &str) -> Option<String> {
        let host = host(url);
        let end = host.find(".svc").map_or(host.len(), |at| at + 4);
        self.pods.get(&host[..end]).cloned()
    }
}

/// The ready pods behind a Service, in order of their names.
pub fn backends(world: &World, namespace: &str, service: &str) -> Vec<String> {
    let Some(service) = world.server.peek(&ResourceName::core("services"), namespace, service) else {
        return Vec::new();
    };
    let Some(selector) = service["spec"]["selector"].as_object().filter(|selector| !selector.is_empty()) else {
        return Vec::new();
    };
    let pods = world.server.peek_all(&ResourceName::core("pods"), Some(namespace));
    pods.iter()
        .filter(|pod| selector.iter().all(|(key, value)| &pod["metadata"]["labels"][key] == value))
        .filter(|pod| is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null())
        .filter_map(|pod| Some(format!("{namespace}/{}", pod["metadata"]["name"].as_str()?)))
        .collect()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// One of the pods behind the Service that a URL names.
pub fn service_backend(world: &World, url: &str) -> Option<String> {
    let mut parts = host(url).split('.');
    let (service, namespace) = (parts.next()?, parts.next()?);
    let backends = backends(world, namespace, service);
    let turn = usize::try_from(world.now / 100).unwrap_or(0);
    (!backends.is_empty()).then(|| backends[turn % backends.len()].clone())
}
