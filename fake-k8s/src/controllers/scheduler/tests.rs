//! The scheduler in fixed cases.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Scheduler;
use crate::controllers::volumes::{Volumes, standard_class};
use crate::controllers::{Controller, object};
use crate::server::{Request, ResourceName, Server};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

struct Cluster {
    server: Server,
    scheduler: Scheduler,
    volumes: Volumes,
}

impl Cluster {
    fn new(nodes: usize) -> Self {
        let mut class = standard_class();
        class["parameters"] = json!({"topology": "node"});
        let (server, scheduler) = (Server::new(1), Scheduler::new(true));
        let mut cluster = Self { server, scheduler, volumes: Volumes::with_class(true, class) };
        (1..=nodes).for_each(|number| cluster.node(&format!("n{number}"), &json!({})));
        cluster.settle();
        cluster
    }

    fn create(&mut self, plural: &str, namespace: &str, body: Value) {
        let request = Request::create(ResourceName::core(plural), namespace, body);
        self.server.handle(NOW, &request).expect("a valid object");
    }

    fn node(&mut self, name: &str, spec: &Value) {
        let labels = json!({"kubernetes.io/hostname": name, "disk": "ssd"});
        self.create(
            "nodes",
            "",
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec}),
        );
        let status = json!({"status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"}}});
        let request = Request::merge_patch(ResourceName::core("nodes"), "", name, status).on_subresource("status");
        self.server.handle(NOW, &request).expect("a valid status");
    }

    fn pod(&mut self, name: &str, mut spec: Value) -> String {
        if spec.get("containers").is_none() {
            spec["containers"] = json!([{"name": "c", "image": "a:1"}]);
        }
        self.create(
            "pods",
            "default",
            json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "etcd"}}, "spec": spec}),
        );
        self.settle();
        self.place(name)
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            let version = self.server.resource_version();
            self.scheduler.step(NOW, &mut self.server);
            self.volumes.step(NOW, &mut self.server);
            if self.server.resource_version() == version {
                return;
            }
        }
        panic!("the scheduler does not settle");
    }

    /// The pod's node, or why it has none.
    fn place(&self, name: &str) -> String {
        let pod = self.server.peek(&ResourceName::core("pods"), "default", name).expect("it is there");
        match object::text(&pod, "/spec/nodeName") {
            "" => object::text(&pod, "/status/conditions/0/message").to_owned(),
            node => node.to_owned(),
        }
    }
}

fn apart() -> Value {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "etcd"}}});
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

#[test]
fn pods_are_spread_over_the_emptiest_nodes() {
    let mut cluster = Cluster::new(2);
    let places: Vec<_> = ["a", "b", "c"].iter().map(|name| cluster.pod(name, json!({}))).collect();
    assert_eq!(places, ["n1", "n2", "n1"]);
    let pod = cluster.server.peek(&ResourceName::core("pods"), "default", "a").expect("it is there");
    assert_eq!(object::condition(&pod, "PodScheduled"), "True");
}

#[test]
fn anti_affinity_keeps_pods_apart_and_says_when_it_cannot() {
    let mut cluster = Cluster::new(2);
    assert_eq!([cluster.pod("a", apart()), cluster.pod("b", apart())], ["n1", "n2"]);
    let why = cluster.pod("c", apart());
    assert_eq!(why, "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules.");
    let delete = Request::delete(ResourceName::core("pods"), "default", "a").grace(0);
    cluster.server.handle(NOW, &delete).expect("it is there");
    cluster.settle();
    assert_eq!(cluster.place("c"), "n1");
}

#[test]
fn an_unschedulable_pod_says_why_and_is_placed_when_a_node_comes() {
    let mut cluster = Cluster::new(0);
    assert_eq!(cluster.pod("a", json!({"nodeSelector": {"disk": "ssd"}})), "no nodes available to schedule pods");
    cluster.node("n1", &json!({}));
    cluster.settle();
    assert_eq!(cluster.place("a"), "n1");
}

#[test]
fn taints_selectors_and_cordons_are_respected() {
    let mut cluster = Cluster::new(0);
    cluster.node("n1", &json!({"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]}));
    cluster.node("n2", &json!({"unschedulable": true}));
    let why = cluster.pod("a", json!({}));
    assert_eq!(
        why,
        "0/2 nodes are available: 1 node(s) had untolerated taint {dedicated: db}, 1 node(s) were unschedulable."
    );
    let toleration = json!({"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"});
    assert_eq!(cluster.pod("b", json!({"tolerations": [toleration]})), "n1");
    let why = cluster.pod("c", json!({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"disk": "tape"}}));
    assert!(why.contains("1 node(s) didn't match Pod's node affinity/selector"), "{why}");
}

#[test]
fn node_affinity_terms_are_alternatives() {
    let mut cluster = Cluster::new(3);
    let on = |node: &str| json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [on("n9"), on("n3")]}}}});
    assert_eq!(cluster.pod("a", affinity), "n3");
}

#[test]
fn requests_fill_a_node() {
    let mut cluster = Cluster::new(1);
    let asks =
        |cpu: &str| json!({"containers": [{"name": "c", "image": "a:1", "resources": {"requests": {"cpu": cpu}}}]});
    assert_eq!(cluster.pod("a", asks("1500m")), "n1");
    assert_eq!(cluster.pod("b", asks("600m")), "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(cluster.pod("c", asks("500m")), "n1");
}

#[test]
fn affinity_brings_pods_together_and_the_first_goes_anywhere() {
    let mut cluster = Cluster::new(3);
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "etcd"}}});
    let near = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let places: Vec<_> = ["a", "b"].iter().map(|name| cluster.pod(name, near.clone())).collect();
    assert_eq!(places, ["n1", "n1"]);
}

#[test]
fn topology_spread_bounds_the_skew() {
    let mut cluster = Cluster::new(2);
    let spread = json!({"nodeSelector": {"disk": "ssd"}, "topologySpreadConstraints": [{"maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "etcd"}}}]});
    let places: Vec<_> = ["a", "b", "c"].iter().map(|name| cluster.pod(name, spread.clone())).collect();
    assert_eq!(places, ["n1", "n2", "n1"]);
}

#[test]
fn a_local_volume_ties_its_pod_to_its_node() {
    let mut cluster = Cluster::new(2);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let uses = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}]});
    assert_eq!(cluster.pod("a", uses.clone()), "0/2 nodes are available: persistentvolumeclaim \"d\" not found.");
    cluster.create("persistentvolumeclaims", "default", claim);
    cluster.settle();
    assert_eq!(cluster.place("a"), "n1");
    let delete = Request::delete(ResourceName::core("pods"), "default", "a").grace(0);
    cluster.server.handle(NOW, &delete).expect("it is there");
    let cordon = Request::merge_patch(ResourceName::core("nodes"), "", "n1", json!({"spec": {"unschedulable": true}}));
    cluster.server.handle(NOW, &cordon).expect("a valid patch");
    let why = cluster.pod("a", uses);
    assert!(why.contains("1 node(s) didn't match PersistentVolume's node affinity"), "{why}");
}
