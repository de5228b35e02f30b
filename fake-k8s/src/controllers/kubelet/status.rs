//! A pod's status as its kubelet reports it: phase, conditions, and the states of its containers.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::container::{Activity, Container};
use super::pod::{Pod, Stage};
use crate::controllers::object;

/// `status.phase`, by the rules of kubelet's `getPhase`.
pub fn phase(pod: &Pod) -> &'static str {
    let idle = !pod.containers.iter().any(Container::is_active);
    let ran = pod.containers.iter().any(|container| container.starts > 0);
    let failed = |container: &Container| container.exit_code().is_some_and(|code| code != 0);
    if pod.finished || pod.failed.is_some() || (pod.is_ending() && idle && ran) {
        let bad = pod.failed.is_some() || pod.containers.iter().any(failed);
        return if bad || pod.containers.iter().any(|c| !c.init && c.exit_code().is_none()) {
            "Failed"
        } else {
            "Succeeded"
        };
    }
    let policy = pod.restart_policy();
    let (init, main): (Vec<_>, Vec<_>) = pod.containers.iter().partition(|container| container.init);
    if policy == "Never" && init.iter().any(|container| failed(container)) {
        return "Failed";
    }
    let never_ran = |container: &&&Container| container.starts == 0 && container.exit_code().is_none();
    if init.iter().any(|container| !container.succeeded()) || main.iter().any(|container| never_ran(&container)) {
        return "Pending";
    }
    let ended = main.iter().all(|container| container.exit_code().is_some() && !container.restart_wanted);
    match (ended, policy) {
        (true, "Never") if main.iter().any(|container| failed(container)) => "Failed",
        (true, "Never" | "OnFailure") if main.iter().all(|container| container.succeeded()) => "Succeeded",
        _ => "Running",
    }
}

/// The whole status. Equal to the one that the object has when there is nothing to write.
pub fn build(pod: &Pod, now: Timestamp, host_ip: &str) -> Value {
    let old = pod.object.get("status").cloned().unwrap_or_else(|| json!({}));
    let phase = phase(pod);
    let mut status = old.clone();
    status["phase"] = json!(phase);
    status["hostIP"] = json!(host_ip);
    status["hostIPs"] = json!([{"ip": host_ip}]);
    status["startTime"] = object::time(pod.start_time);
    if object::text(&status, "/qosClass").is_empty() {
        status["qosClass"] = json!("BestEffort");
    }
    if !pod.ip.is_empty() {
        status["podIP"] = json!(pod.ip);
        status["podIPs"] = json!([{"ip": pod.ip}]);
    }
    if let Some((reason, message)) = &pod.failed {
        (status["reason"], status["message"]) = (json!(reason), json!(message));
    }
    status["conditions"] = conditions(pod, now, &old, phase);
    let waiting_for_init = !pod.containers.iter().filter(|c| c.init).all(Container::succeeded);
    for (field, init) in [("initContainerStatuses", true), ("containerStatuses", false)] {
        let own = pod.containers.iter().filter(|container| container.init == init);
        let all: Vec<_> = own.map(|container| container_status(pod, container, waiting_for_init)).collect();
        if !all.is_empty() {
            status[field] = json!(all);
        }
    }
    status
}

fn conditions(pod: &Pod, now: Timestamp, old: &Value, phase: &str) -> Value {
    let mut conditions = object::items(old, "/conditions").to_vec();
    let names = |wanted: &dyn Fn(&Container) -> bool| {
        let found = pod.containers.iter().filter(|container| wanted(container));
        found.map(|container| container.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    let (unready, incomplete) = (names(&|c| !c.init && !c.ready), names(&|c| c.init && !c.succeeded()));
    let sandbox = matches!(pod.stage, Stage::Up);
    let mut set = |kind: &str, good: bool, reason: &str, message: &str| {
        let (status, why) = if good { ("True", ("", "")) } else { ("False", (reason, message)) };
        object::set_condition(&mut conditions, now, kind, status, why);
    };
    set("PodReadyToStartContainers", sandbox, "", "");
    set(
        "Initialized",
        incomplete.is_empty() || phase == "Succeeded",
        "ContainersNotInitialized",
        &format!("containers with incomplete status: [{incomplete}]"),
    );
    let (reason, message) = match phase {
        "Succeeded" => ("PodCompleted", String::new()),
        "Failed" => ("PodFailed", String::new()),
        _ => ("ContainersNotReady", format!("containers with unready status: [{unready}]")),
    };
    let ready = unready.is_empty() && phase == "Running";
    set("ContainersReady", ready, reason, &message);
    let gates = object::items(&pod.object, "/spec/readinessGates").iter();
    let open = gates
        .map(|gate| object::text(gate, "/conditionType"))
        .all(|kind| object::condition(&pod.object, kind) == "True");
    if ready && !open {
        set("Ready", false, "ReadinessGatesNotReady", "the status of a pod readiness gate is not \"True\"");
    } else {
        set("Ready", ready, reason, &message);
    }
    set("PodScheduled", true, "", "");
    json!(conditions)
}

fn container_status(pod: &Pod, container: &Container, waiting_for_init: bool) -> Value {
    let id = |attempt: u32| format!("fake://{}/{}/{attempt}", pod.id, container.name);
    let current = container.starts.saturating_sub(1);
    let waiting = |reason: &str, message: &str| {
        let mut state = json!({"waiting": {"reason": reason}});
        if !message.is_empty() {
            state["waiting"]["message"] = json!(message);
        }
        state
    };
    let creating = if waiting_for_init && pod.containers[0].name != container.name {
        "PodInitializing"
    } else {
        "ContainerCreating"
    };
    let state = match &container.activity {
        Activity::Waiting { reason, message: _ } if reason == "ContainerCreating" || reason == "PodInitializing" => {
            waiting(creating, "")
        }
        Activity::Waiting { reason, message } => waiting(reason, message),
        Activity::Starting => waiting(creating, ""),
        Activity::Running { since } => json!({"running": {"startedAt": object::time(*since)}}),
        Activity::Terminated(ended) => json!({"terminated": ended.value(&id(current))}),
    };
    let last = match &container.last {
        Some(ended) => {
            let attempt = if container.is_running() { current.saturating_sub(1) } else { current };
            json!({"terminated": ended.value(&id(attempt))})
        }
        None => json!({}),
    };
    let (ran, image) = (container.starts > 0, container.image.as_str());
    let shown = if image.is_empty() { spec_image(pod, container) } else { image };
    json!({
        "name": container.name, "image": shown, "imageID": if ran { format!("fake://{shown}") } else { String::new() },
        "containerID": if ran { id(current) } else { String::new() },
        "restartCount": container.restarts(), "state": state, "lastState": last,
        "ready": if container.init { container.succeeded() } else { container.ready }, "started": container.started,
    })
}

fn spec_image<'a>(pod: &'a Pod, container: &Container) -> &'a str {
    let field = if container.init { "/spec/initContainers" } else { "/spec/containers" };
    let spec = object::items(&pod.object, field).iter().find(|spec| object::text(spec, "/name") == container.name);
    spec.map_or("", |spec| object::text(spec, "/image"))
}
