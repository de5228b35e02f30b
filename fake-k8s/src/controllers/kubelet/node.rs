//! The kubelet's own Node object: registered once, its heartbeat renewed.
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::controllers::object;
use crate::server::{Request, ResourceName, Server};

/// How a node looks, and how its kubelet behaves.
#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// Labels beside hostname, operating system and architecture.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints` at registration.
    pub taints: Vec<Value>,
    /// The node's address.
    pub address: String,
    /// Cores, as a quantity.
    pub cpu: String,
    /// Memory, as a quantity.
    pub memory: String,
    /// How many pods it takes.
    pub pods_max: u32,
    /// How often the node's status is renewed.
    pub heartbeat: SignedDuration,
    /// How long a pod waits before it looks again for what is missing (a Secret, a volume).
    pub retry: SignedDuration,
    /// Environment of every container, e.g. `KUBERNETES_SERVICE_HOST`.
    pub env: Vec<(String, String)>,
    /// Whether events are recorded.
    pub events: bool,
}

impl Default for KubeletConfig {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            taints: Vec::new(),
            address: "10.0.0.1".to_owned(),
            cpu: "16".to_owned(),
            memory: "64Gi".to_owned(),
            pods_max: 110,
            heartbeat: SignedDuration::from_secs(60),
            retry: SignedDuration::from_secs(2),
            env: Vec::new(),
            events: true,
        }
    }
}

/// Registers the node or renews its heartbeat.
pub fn renew(server: &mut Server, now: Timestamp, name: &str, config: &KubeletConfig) {
    let current = match server.handle(now, &Request::get(nodes(), "", name)) {
        Ok(found) => found,
        Err(_) => match server.handle(now, &Request::create(nodes(), "", registration(name, config))) {
            Ok(created) => created,
            // Refused (an admission fault in a simulation): the next heartbeat tries again.
            Err(_) => return,
        },
    };
    let status = status(now, config, &current);
    let mut wanted = current;
    wanted["status"] = status;
    // A lost heartbeat is made up for by the next one.
    let _ = server.handle(now, &Request::replace_status(nodes(), "", name, wanted));
}

fn nodes() -> ResourceName {
    ResourceName::core("nodes")
}

fn registration(name: &str, config: &KubeletConfig) -> Value {
    let mut labels =
        json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
    for (key, value) in &config.labels {
        labels[key] = json!(value);
    }
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": config.taints}})
}

fn status(now: Timestamp, config: &KubeletConfig, current: &Value) -> Value {
    let resources = json!({"cpu": config.cpu, "memory": config.memory, "pods": config.pods_max.to_string()});
    let mut conditions = object::items(current, "/status/conditions").to_vec();
    let told = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    for (kind, status, reason, message) in told {
        object::set_condition(&mut conditions, now, kind, status, (reason, message));
    }
    for condition in &mut conditions {
        if let Some(fields) = condition.as_object_mut() {
            fields.remove("lastProbeTime");
            fields.insert("lastHeartbeatTime".to_owned(), object::time(now));
        }
    }
    let mut status = current.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    status["capacity"] = resources.clone();
    status["allocatable"] = resources;
    status["conditions"] = json!(conditions);
    status["addresses"] = json!([{"type": "InternalIP", "address": config.address},
        {"type": "Hostname", "address": object::name(current)}]);
    status["nodeInfo"] = json!({
        "kubeletVersion": "v1.34.0", "kubeProxyVersion": "", "containerRuntimeVersion": "fake://0.1.0", "osImage": "fake-k8s",
        "operatingSystem": "linux", "architecture": "amd64", "kernelVersion": "", "bootID": "", "machineID": "", "systemUUID": "",
    });
    status
}
