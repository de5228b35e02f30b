//! The kubelet against a runtime of a few lines: it obeys at once, and the test says what containers do.
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Kubelet, KubeletConfig};
use crate::controllers::object;
use crate::controllers::runtime::{
    ContainerStart, PodVolume, RuntimeCommand, RuntimeContainer, RuntimeEvent, RuntimePod,
};
use crate::server::{Request, ResourceName, Server};

/// One node: server, kubelet, and what runs.
struct Node {
    server: Server,
    kubelet: Kubelet,
    now: Timestamp,
    running: BTreeMap<String, ContainerStart>,
    pods: BTreeSet<String>,
    missing_images: BTreeSet<String>,
    /// Whether probes succeed.
    healthy: bool,
    /// Everything that was ordered, in short.
    orders: Vec<String>,
    events: Vec<RuntimeEvent>,
}

impl Node {
    fn new() -> Self {
        let mut node = Self {
            server: Server::new(1),
            kubelet: Kubelet::new("node-1", KubeletConfig::default()),
            now: "2026-01-01T00:00:00Z".parse().expect("a moment"),
            running: BTreeMap::new(),
            pods: BTreeSet::new(),
            missing_images: BTreeSet::new(),
            healthy: true,
            orders: Vec::new(),
            events: Vec::new(),
        };
        node.settle();
        node
    }

    /// Steps until nothing happens any more at this moment.
    fn settle(&mut self) {
        for _ in 0..50 {
            let events = std::mem::take(&mut self.events);
            let commands = self.kubelet.step(self.now, &mut self.server, events);
            let idle = commands.is_empty();
            commands.into_iter().for_each(|command| self.obey(command));
            let more = self.kubelet.wake_at().is_some_and(|at| at <= self.now);
            if idle && self.events.is_empty() && !more {
                // Whatever the kubelet wrote itself must not make it write again.
                let version = self.server.resource_version();
                self.kubelet.step(self.now, &mut self.server, Vec::new());
                assert_eq!(self.server.resource_version(), version, "a settled kubelet writes nothing");
                return;
            }
        }
        panic!("the kubelet does not settle");
    }

    /// Lets time pass, waking the kubelet exactly when it asked for it.
    fn pass(&mut self, seconds: i64) {
        let end = self.now + SignedDuration::from_secs(seconds);
        while let Some(at) = self.kubelet.wake_at().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn obey(&mut self, command: RuntimeCommand) {
        match command {
            RuntimeCommand::List => {
                let pods = self.pods.iter().map(|pod| RuntimePod {
                    pod: pod.clone(),
                    ip: "10.244.0.9".to_owned(),
                    containers: self.running.values().filter(|start| start.pod == *pod).map(container).collect(),
                });
                self.events.push(RuntimeEvent::Listed { pods: pods.collect() });
            }
            RuntimeCommand::SetUpPod { pod, name, volumes, .. } => {
                let names: Vec<_> = volumes.iter().map(PodVolume::name).collect();
                self.orders.push(format!("set up {name} [{}]", names.join(" ")));
                self.pods.insert(pod.clone());
                self.events.push(RuntimeEvent::PodSetUp { pod, ip: "10.244.0.9".to_owned() });
            }
            RuntimeCommand::UpdateVolumes { volumes, .. } => self.orders.push(format!("update {}", volumes.len())),
            RuntimeCommand::StartContainer(start) => {
                let ContainerStart { pod, container, attempt, image, .. } = (*start).clone();
                self.orders.push(format!("start {container} #{attempt} {image}"));
                if self.missing_images.contains(&image) {
                    let message = format!("{image}: not found");
                    return self.events.push(RuntimeEvent::ImageMissing { pod, container, message });
                }
                self.running.insert(container.clone(), *start);
                self.events.push(RuntimeEvent::Started { pod, container, attempt });
            }
            RuntimeCommand::StopContainer { container, grace_seconds, .. } => {
                self.orders.push(format!("stop {container} {grace_seconds}s"));
            }
            RuntimeCommand::Probe { probe_id, .. } => {
                let (ok, message) = (self.healthy, "connection refused".to_owned());
                self.events.push(RuntimeEvent::Probed { probe_id, ok, message });
            }
            RuntimeCommand::TearDownPod { pod } => {
                self.orders.push("tear down".to_owned());
                self.pods.remove(&pod);
                self.events.push(RuntimeEvent::TornDown { pod });
            }
        }
    }

    /// A container's process ends.
    fn exit(&mut self, container: &str, exit_code: i32) {
        let start = self.running.remove(container).expect("it runs");
        let (pod, container, attempt) = (start.pod, start.container, start.attempt);
        let (signal, termination_message) = (None, String::new());
        self.events.push(RuntimeEvent::Exited { pod, container, attempt, exit_code, signal, termination_message });
        self.settle();
    }

    fn create(&mut self, plural: &str, body: Value) {
        let request = Request::create(ResourceName::core(plural), "default", body);
        self.server.handle(self.now, &request).expect("a valid object");
        self.settle();
    }

    fn create_pod(&mut self, mut spec: Value) {
        spec["nodeName"] = json!("node-1");
        self.create("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}));
    }

    fn pod(&self) -> Option<Value> {
        self.server.peek(&ResourceName::core("pods"), "default", "p").map(|pod| Value::clone(&pod))
    }

    fn status(&self) -> Value {
        self.pod().expect("the pod is there")["status"].clone()
    }

    fn phase(&self) -> String {
        object::text(&self.status(), "/phase").to_owned()
    }

    /// The state of the first container in one line.
    fn state(&self) -> String {
        let status = self.status();
        let container = &status["containerStatuses"][0];
        let restarts = &container["restartCount"];
        let state = container["state"].as_object().and_then(|state| state.iter().next());
        let (kind, detail) = state.expect("there is a state");
        let reason = object::text(detail, "/reason");
        format!("{kind} {reason}").trim().to_owned() + &format!(" restarts={restarts} ready={}", container["ready"])
    }

    fn orders(&mut self) -> Vec<String> {
        std::mem::take(&mut self.orders)
    }

    fn delete_pod(&mut self, grace: i64) {
        let request = Request::delete(ResourceName::core("pods"), "default", "p").grace(grace);
        self.server.handle(self.now, &request).expect("the pod is there");
        self.settle();
    }

    fn patch_pod(&mut self, patch: Value) {
        let request = Request::merge_patch(ResourceName::core("pods"), "default", "p", patch);
        self.server.handle(self.now, &request).expect("a valid patch");
        self.settle();
    }
}

fn container(start: &ContainerStart) -> RuntimeContainer {
    let (container, image) = (start.container.clone(), start.image.clone());
    RuntimeContainer { container, attempt: start.attempt, image, exited: None }
}

fn one_container() -> Value {
    json!({"containers": [{"name": "c", "image": "a:1"}]})
}

#[test]
fn a_pod_runs_and_is_ready() {
    let mut node = Node::new();
    node.create_pod(one_container());
    assert_eq!(node.orders(), ["set up p []", "start c #0 a:1"]);
    assert_eq!((node.phase().as_str(), node.state().as_str()), ("Running", "running restarts=0 ready=true"));
    let pod = node.pod().expect("the pod");
    for kind in ["PodScheduled", "Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers"] {
        assert_eq!(object::condition(&pod, kind), "True", "{kind}");
    }
    assert_eq!(object::text(&pod, "/status/podIP"), "10.244.0.9");
}

#[test]
fn init_containers_run_one_after_the_other_before_the_rest() {
    let mut node = Node::new();
    node.create_pod(json!({"initContainers": [{"name": "i", "image": "a:1"}, {"name": "j", "image": "a:1"}],
        "containers": [{"name": "c", "image": "a:1"}]}));
    assert_eq!(node.orders(), ["set up p []", "start i #0 a:1"]);
    assert_eq!(
        (node.phase().as_str(), node.state().as_str()),
        ("Pending", "waiting PodInitializing restarts=0 ready=false")
    );
    node.exit("i", 0);
    assert_eq!(node.orders(), ["start j #0 a:1"]);
    node.exit("j", 0);
    assert_eq!(node.orders(), ["start c #0 a:1"]);
    assert_eq!(node.phase(), "Running");
}

#[test]
fn a_start_that_is_told_after_the_end_is_no_start() {
    let mut node = Node::new();
    let containers = json!([{"name": "c", "image": "a:1"}]);
    node.create_pod(json!({"initContainers": [{"name": "i", "image": "a:1"}], "containers": containers}));
    let pod = node.running["i"].pod.clone();
    node.exit("i", 0);
    node.events.push(RuntimeEvent::Started { pod, container: "i".to_owned(), attempt: 0 });
    node.settle();
    assert_eq!(node.status()["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    assert_eq!(node.phase(), "Running");
}

#[test]
fn a_failed_init_container_fails_a_pod_that_never_restarts() {
    let mut node = Node::new();
    node.create_pod(json!({"restartPolicy": "Never", "initContainers": [{"name": "i", "image": "a:1"}],
        "containers": [{"name": "c", "image": "a:1"}]}));
    node.exit("i", 2);
    assert_eq!(node.phase(), "Failed");
    assert_eq!(node.orders(), ["set up p []", "start i #0 a:1", "tear down"]);
}

#[test]
fn a_failed_init_container_is_tried_again_under_on_failure() {
    let mut node = Node::new();
    node.create_pod(json!({"restartPolicy": "OnFailure", "initContainers": [{"name": "i", "image": "a:1"}],
        "containers": [{"name": "c", "image": "a:1"}]}));
    node.exit("i", 2);
    assert_eq!(node.orders(), ["set up p []", "start i #0 a:1", "start i #1 a:1"]);
    node.exit("i", 2);
    assert_eq!(node.phase(), "Pending");
    assert_eq!(object::text(&node.status(), "/initContainerStatuses/0/state/waiting/reason"), "CrashLoopBackOff");
    node.pass(10);
    node.exit("i", 0);
    assert_eq!(node.orders(), ["start i #2 a:1", "start c #0 a:1"]);
}

#[test]
fn a_crashing_container_backs_off_and_says_so() {
    let mut node = Node::new();
    node.create_pod(one_container());
    node.exit("c", 1);
    assert_eq!(node.state(), "running restarts=1 ready=true");
    node.exit("c", 1);
    assert_eq!(node.state(), "waiting CrashLoopBackOff restarts=1 ready=false");
    let status = node.status();
    assert_eq!(object::number(&status, "/containerStatuses/0/lastState/terminated/exitCode"), Some(1));
    assert!(object::text(&status, "/containerStatuses/0/state/waiting/message").starts_with("back-off 10s restarting"));
    node.pass(9);
    assert_eq!(node.state(), "waiting CrashLoopBackOff restarts=1 ready=false");
    node.pass(1);
    assert_eq!(node.state(), "running restarts=2 ready=true");
    node.exit("c", 1);
    node.pass(19);
    assert_eq!(node.state(), "waiting CrashLoopBackOff restarts=2 ready=false");
    node.pass(1);
    assert_eq!(node.state(), "running restarts=3 ready=true");
}

#[test]
fn restart_policies_decide_what_an_exit_means() {
    let cases = [
        ("Never", 0, "Succeeded", "terminated Completed restarts=0 ready=false"),
        ("Never", 3, "Failed", "terminated Error restarts=0 ready=false"),
        ("OnFailure", 0, "Succeeded", "terminated Completed restarts=0 ready=false"),
        ("OnFailure", 3, "Running", "running restarts=1 ready=true"),
        ("Always", 0, "Running", "running restarts=1 ready=true"),
    ];
    for (policy, code, phase, state) in cases {
        let mut node = Node::new();
        node.create_pod(json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "a:1"}]}));
        node.exit("c", code);
        assert_eq!((node.phase().as_str(), node.state().as_str()), (phase, state), "{policy} {code}");
    }
}

#[test]
fn a_patched_image_restarts_the_container_even_under_never() {
    let mut node = Node::new();
    node.create_pod(json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "a:1"}]}));
    node.patch_pod(json!({"spec": {"containers": [{"name": "c", "image": "a:2"}]}}));
    assert_eq!(node.orders(), ["set up p []", "start c #0 a:1", "stop c 30s"]);
    node.exit("c", 0);
    assert_eq!(node.orders(), ["start c #1 a:2"]);
    assert_eq!((node.phase().as_str(), node.state().as_str()), ("Running", "running restarts=1 ready=true"));
    assert_eq!(object::text(&node.status(), "/containerStatuses/0/image"), "a:2");
}

#[test]
fn a_missing_image_is_pulled_again_with_back_off_and_a_new_one_at_once() {
    let mut node = Node::new();
    node.missing_images.insert("a:1".to_owned());
    node.create_pod(one_container());
    assert_eq!(node.state(), "waiting ErrImagePull restarts=0 ready=false");
    node.pass(1);
    assert_eq!(node.state(), "waiting ImagePullBackOff restarts=0 ready=false");
    node.pass(28);
    assert_eq!(node.orders(), ["set up p []", "start c #0 a:1", "start c #0 a:1"]);
    node.pass(1);
    assert_eq!(node.orders(), ["start c #0 a:1"]);
    node.patch_pod(json!({"spec": {"containers": [{"name": "c", "image": "a:2"}]}}));
    assert_eq!(node.orders(), ["start c #0 a:2"]);
    assert_eq!(node.state(), "running restarts=0 ready=true");
}

#[test]
fn deletion_gives_the_grace_and_leaves_when_all_is_gone() {
    let mut node = Node::new();
    node.create_pod(one_container());
    node.delete_pod(30);
    assert_eq!(node.orders(), ["set up p []", "start c #0 a:1", "stop c 30s"]);
    node.pass(5);
    assert!(node.pod().is_some(), "it waits for its containers");
    node.delete_pod(10);
    assert_eq!(node.orders(), ["stop c 10s"]);
    // Three seconds have passed since the deletion: what is left is the least that there is.
    node.delete_pod(3);
    assert_eq!(node.orders(), ["stop c 1s"]);
    node.exit("c", 143);
    assert_eq!(node.orders(), ["tear down"]);
    assert_eq!(node.pod(), None);
}

#[test]
fn a_pod_deleted_by_force_is_still_stopped_on_its_node() {
    let mut node = Node::new();
    node.create_pod(one_container());
    node.delete_pod(0);
    assert_eq!(node.pod(), None);
    assert_eq!(node.orders(), ["set up p []", "start c #0 a:1", "stop c 1s"]);
    node.create_pod(one_container());
    assert_eq!(node.orders(), ["set up p []", "start c #0 a:1"], "the new pod does not wait for the old one");
}

#[test]
fn readiness_follows_its_thresholds_without_a_restart() {
    let mut node = Node::new();
    node.healthy = false;
    node.create_pod(json!({"containers": [{"name": "c", "image": "a:1", "readinessProbe":
        {"tcpSocket": {"port": 80}, "periodSeconds": 5, "failureThreshold": 2}}]}));
    assert_eq!(node.state(), "running restarts=0 ready=false");
    node.healthy = true;
    node.pass(5);
    assert_eq!(node.state(), "running restarts=0 ready=true");
    node.healthy = false;
    node.pass(5);
    assert_eq!(node.state(), "running restarts=0 ready=true");
    node.pass(5);
    assert_eq!(node.state(), "running restarts=0 ready=false");
    let pod = node.pod().expect("the pod");
    assert_eq!(object::condition(&pod, "Ready"), "False");
    assert!(!node.orders().iter().any(|order| order.starts_with("stop")));
}

#[test]
fn a_failed_liveness_probe_restarts_after_its_threshold() {
    let mut node = Node::new();
    node.create_pod(
        json!({"terminationGracePeriodSeconds": 7, "containers": [{"name": "c", "image": "a:1", "livenessProbe":
        {"httpGet": {"port": 80}, "periodSeconds": 10, "failureThreshold": 3, "initialDelaySeconds": 10}}]}),
    );
    node.healthy = false;
    node.orders();
    node.pass(29);
    assert!(node.orders().is_empty());
    node.pass(1);
    assert_eq!(node.orders(), ["stop c 7s"]);
    node.exit("c", 137);
    assert_eq!(node.state(), "running restarts=1 ready=true");
}

#[test]
fn a_startup_probe_holds_the_others_back() {
    let mut node = Node::new();
    node.healthy = false;
    node.create_pod(json!({"containers": [{"name": "c", "image": "a:1",
        "startupProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 10, "failureThreshold": 30},
        "livenessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}}]}));
    node.orders();
    node.pass(60);
    assert!(node.orders().is_empty(), "no liveness probe while it starts");
    assert_eq!(node.status()["containerStatuses"][0]["started"], json!(false));
    node.healthy = true;
    node.pass(10);
    assert_eq!(node.status()["containerStatuses"][0]["started"], json!(true));
    assert_eq!(node.state(), "running restarts=0 ready=true");
    node.healthy = false;
    node.pass(2);
    assert_eq!(node.orders(), ["stop c 30s"]);
}

#[test]
fn a_pod_waits_for_a_secret_that_is_missing() {
    let mut node = Node::new();
    node.create_pod(json!({"containers": [{"name": "c", "image": "a:1"}],
        "volumes": [{"name": "tls", "secret": {"secretName": "s"}}]}));
    assert_eq!(node.state(), "waiting ContainerCreating restarts=0 ready=false");
    node.pass(30);
    assert!(node.orders().is_empty());
    let events = node.server.peek_all(&ResourceName::core("events"), None);
    let mounts: Vec<_> = events.iter().filter(|event| object::text(event, "/reason") == "FailedMount").collect();
    assert_eq!(mounts.len(), 1, "said once, not at each retry");
    assert!(object::text(mounts[0], "/message").contains("secret \"s\" not found"));
    node.create(
        "secrets",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "djE="}}),
    );
    node.pass(2);
    assert_eq!(node.orders(), ["set up p [tls]", "update 1", "start c #0 a:1"]);
}

#[test]
fn a_changed_secret_reaches_the_running_pod() {
    let mut node = Node::new();
    node.create(
        "secrets",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "djE="}}),
    );
    node.create_pod(json!({"containers": [{"name": "c", "image": "a:1"}],
        "volumes": [{"name": "tls", "secret": {"secretName": "s"}}]}));
    node.orders();
    let patch = Request::merge_patch(ResourceName::core("secrets"), "default", "s", json!({"data": {"k": "djI="}}));
    node.server.handle(node.now, &patch).expect("a valid patch");
    node.settle();
    assert_eq!(node.orders(), ["update 1"]);
}

#[test]
fn environment_comes_from_fields_and_secrets_and_is_expanded() {
    let mut node = Node::new();
    node.create(
        "secrets",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "djE="}}),
    );
    node.create_pod(json!({"containers": [{"name": "c", "image": "a:1",
        "command": ["etcd", "--name=$(NAME)", "--url=http://$(IP):2380"], "env": [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "BOTH", "value": "$(NAME)-$(TOKEN)"}]}]}));
    let start = &node.running["c"];
    assert_eq!(start.command, ["etcd", "--name=p", "--url=http://10.244.0.9:2380"]);
    assert!(start.env.contains(&("BOTH".to_owned(), "p-v1".to_owned())));
}

#[test]
fn a_missing_reference_in_the_environment_is_a_config_error_until_it_is_there() {
    let mut node = Node::new();
    node.create_pod(json!({"containers": [{"name": "c", "image": "a:1",
        "env": [{"name": "T", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}]}));
    assert_eq!(node.state(), "waiting CreateContainerConfigError restarts=0 ready=false");
    node.create(
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "v"}}),
    );
    node.pass(2);
    assert_eq!(node.state(), "running restarts=0 ready=true");
}

#[test]
fn a_kubelet_made_anew_adopts_what_runs() {
    let mut node = Node::new();
    node.create_pod(one_container());
    node.exit("c", 1);
    let before = node.status();
    node.orders();
    node.kubelet = Kubelet::new("node-1", KubeletConfig::default());
    node.settle();
    assert!(node.orders().is_empty(), "the container runs on");
    assert_eq!(node.status(), before);
    node.exit("c", 1);
    assert_eq!(node.orders(), ["start c #2 a:1"]);
}

#[test]
fn a_restarted_node_starts_its_pods_again() {
    let mut node = Node::new();
    node.create_pod(
        json!({"initContainers": [{"name": "i", "image": "a:1"}], "containers": [{"name": "c", "image": "a:1"}]}),
    );
    node.exit("i", 0);
    node.orders();
    (node.running, node.pods) = Default::default();
    node.kubelet = Kubelet::new("node-1", KubeletConfig::default());
    node.settle();
    assert_eq!(node.orders(), ["set up p []", "start i #1 a:1"]);
    node.exit("i", 0);
    assert_eq!(node.orders(), ["start c #1 a:1"]);
    assert_eq!(node.state(), "running restarts=1 ready=true");
}

#[test]
fn a_pod_that_went_while_no_kubelet_looked_is_torn_down() {
    let mut node = Node::new();
    node.create_pod(one_container());
    node.orders();
    let delete = Request::delete(ResourceName::core("pods"), "default", "p").grace(0);
    node.server.handle(node.now, &delete).expect("the pod is there");
    node.kubelet = Kubelet::new("node-1", KubeletConfig::default());
    node.settle();
    assert_eq!(node.orders(), ["tear down"]);
}

#[test]
fn a_deadline_ends_a_pod_for_good() {
    let mut node = Node::new();
    node.create_pod(json!({"activeDeadlineSeconds": 20, "containers": [{"name": "c", "image": "a:1"}]}));
    node.pass(20);
    node.exit("c", 143);
    assert_eq!((node.phase().as_str(), object::text(&node.status(), "/reason")), ("Failed", "DeadlineExceeded"));
    assert_eq!(node.orders(), ["set up p []", "start c #0 a:1", "stop c 30s", "tear down"]);
}

#[test]
fn the_node_is_registered_and_its_heartbeat_renewed() {
    let mut node = Node::new();
    node.pass(120);
    let found = node.server.peek(&ResourceName::core("nodes"), "", "node-1").expect("registered");
    assert_eq!(object::condition(&found, "Ready"), "True");
    assert_eq!(object::text(&found, "/status/conditions/0/lastHeartbeatTime"), "2026-01-01T00:02:00Z");
}
