//! A Pod, reduced to what decisions need.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, Volume};
use kube::ResourceExt;

use super::{is_controlled_by, label};
use crate::agent::{DATA_LOST_EXIT_CODE, SNAPSHOT_CHANGED_EXIT_CODE};
use crate::api::labels;
use crate::build::pod::{
    AGENT_CONTAINER, DATA_VOLUME, ETCD_CONTAINER, FETCH_CONTAINER, OPERATOR_TLS_VOLUME, PEER_TLS_VOLUME,
    SERVER_TLS_VOLUME,
};
use crate::build::probe::READY_PATH;
use crate::model::{ClientTls, PodObserved, Tls};

/// Reads a pod; `cluster_uid` is that of the EtcdCluster that should control it.
pub fn observe_pod(pod: &Pod, cluster_uid: &str) -> PodObserved {
    let status = pod.status.as_ref();
    let container = status
        .and_then(|status| status.container_statuses.as_ref())
        .and_then(|statuses| statuses.iter().find(|status| status.name == ETCD_CONTAINER));
    let fetch = status.and_then(|status| status.init_container_statuses.as_ref());
    let fetch = fetch.and_then(|statuses| statuses.iter().find(|status| status.name == FETCH_CONTAINER));
    let running = container.and_then(|container| container.state.as_ref()).is_some_and(|state| state.running.is_some());
    let condition = |kind: &str| {
        let conditions = status.and_then(|status| status.conditions.as_ref());
        conditions.and_then(|conditions| conditions.iter().find(|condition| condition.type_ == kind))
    };
    let spec = pod.spec.as_ref();
    let image = spec.and_then(|spec| spec.containers.iter().find(|container| container.name == ETCD_CONTAINER));
    let agent = spec.and_then(|spec| spec.init_containers.iter().flatten().find(|init| init.name == AGENT_CONTAINER));
    let annotation = |key: &str| pod.annotations().get(key).cloned();
    let replaced = annotation(labels::ANNOTATION_REPLACED_IMAGE);
    let kept = replaced.is_some() && replaced.as_ref() == image.and_then(|image| image.image.as_ref());
    PodObserved {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        resource_version: pod.resource_version().unwrap_or_default(),
        lineage: label(&pod.metadata, labels::LABEL_LINEAGE),
        labelled_voter: label(&pod.metadata, labels::LABEL_ROLE).as_deref() == Some(labels::Role::Voter.as_str()),
        ours: is_controlled_by(&pod.metadata, cluster_uid),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        deleted_at: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        terminal: matches!(status.and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed")),
        created_at: pod.metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
        node: spec.and_then(|spec| spec.node_name.clone()),
        ip: status.and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty()),
        ready: condition("Ready").is_some_and(|condition| condition.status == "True"),
        ready_by_quorum: image.is_some_and(is_asked_for_quorum),
        running,
        first_started_at: container.and_then(first_started_at),
        image: annotation(labels::ANNOTATION_IMAGE).or(image.and_then(|image| image.image.clone())).unwrap_or_default(),
        agent_image: agent.and_then(|agent| annotation(labels::ANNOTATION_AGENT_IMAGE).or(agent.image.clone())),
        container: container.and_then(|container| container.container_id.clone()).filter(|id| !id.is_empty()),
        replaced_container: annotation(labels::ANNOTATION_REPLACED_CONTAINER).filter(|_| !kept),
        template_hash: annotation(labels::ANNOTATION_POD_TEMPLATE_HASH),
        data_lost: !running && container.and_then(last_exit_code) == Some(DATA_LOST_EXIT_CODE),
        snapshot_changed: fetch.and_then(last_exit_code) == Some(SNAPSHOT_CHANGED_EXIT_CODE),
        never_ran: container.is_none_or(never_ran),
        on_claim: is_on_claim(pod),
        tls: tls_of(pod),
        why_not_running: if running { None } else { why_not_running(pod) },
    }
}

fn is_asked_for_quorum(container: &Container) -> bool {
    let asked = container.readiness_probe.as_ref().and_then(|probe| probe.http_get.as_ref());
    asked.and_then(|get| get.path.as_deref()) == Some(READY_PATH)
}

fn volume<'a>(pod: &'a Pod, name: &str) -> Option<&'a Volume> {
    pod.spec.as_ref()?.volumes.as_ref()?.iter().find(|volume| volume.name == name)
}

fn is_on_claim(pod: &Pod) -> bool {
    volume(pod, DATA_VOLUME).is_some_and(|data| data.persistent_volume_claim.is_some())
}

/// TLS that a pod was made with: the Secrets that it mounts.
pub fn tls_of(pod: &Pod) -> Tls {
    let secret = |name| volume(pod, name)?.secret.as_ref()?.secret_name.clone();
    let client = secret(SERVER_TLS_VOLUME).zip(secret(OPERATOR_TLS_VOLUME));
    Tls {
        peer_secret: secret(PEER_TLS_VOLUME),
        client: client.map(|(server_secret, operator_secret)| ClientTls { server_secret, operator_secret }),
    }
}

/// Whether the kubelet never started the container. (It has no status at all before the pod is bound to a node.)
fn never_ran(container: &ContainerStatus) -> bool {
    let started =
        |state: &k8s_openapi::api::core::v1::ContainerState| state.running.is_some() || state.terminated.is_some();
    container.restart_count == 0
        && !container.state.as_ref().is_some_and(started)
        && !container.last_state.as_ref().is_some_and(started)
}

/// When a container started that was never restarted.
fn first_started_at(container: &ContainerStatus) -> Option<Timestamp> {
    let running = container.state.as_ref()?.running.as_ref().filter(|_| container.restart_count == 0)?;
    running.started_at.as_ref().map(|time| time.0)
}

/// The exit code of the container's latest end.
fn last_exit_code(container: &ContainerStatus) -> Option<i32> {
    let ended = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state.as_ref().and_then(|state| state.terminated.as_ref()).map(|terminated| terminated.exit_code)
    };
    ended(&container.state).or_else(|| ended(&container.last_state))
}

/// What holds the pod up, in the order in which a pod comes up: scheduling, init containers, the container itself.
fn why_not_running(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let scheduled = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled");
    if let Some(condition) = scheduled.filter(|condition| condition.status == "False") {
        return condition.message.clone().or_else(|| condition.reason.clone());
    }
    let containers = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    for container in containers {
        let Some(state) = &container.state else { continue };
        if let Some(waiting) = &state.waiting {
            let reason = waiting.reason.as_deref().unwrap_or_default();
            if matches!(reason, "PodInitializing" | "ContainerCreating" | "") {
                continue;
            }
            let ended = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
            let detail = ended.and_then(|ended| ended.message.clone()).or_else(|| waiting.message.clone());
            return Some(words(&container.name, reason, detail.as_deref()));
        }
        if let Some(ended) = state.terminated.as_ref().filter(|ended| ended.exit_code != 0) {
            let detail = ended.message.clone().unwrap_or_else(|| format!("exit code {}", ended.exit_code));
            return Some(words(&container.name, ended.reason.as_deref().unwrap_or("Error"), Some(&detail)));
        }
    }
    status.message.clone().or_else(|| status.reason.clone())
}

/// Longest detail that is repeated in status: the rest is in the pod's own status.
const DETAIL_CHARACTERS_MAX: usize = 300;

fn words(container: &str, reason: &str, detail: Option<&str>) -> String {
    let detail: String = detail.unwrap_or_default().trim().chars().take(DETAIL_CHARACTERS_MAX).collect();
    if detail.is_empty() { format!("{container}: {reason}") } else { format!("{container}: {reason}: {detail}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::ports::{Kind, ObjectKey, Typed, WatchEvent};
    use serde_json::{Value, json};

    fn observe(status: &Value) -> PodObserved {
        let pod = json!({
            "metadata": { "name": "a", "uid": "u", "ownerReferences": [
                { "apiVersion": "v1", "kind": "EtcdCluster", "name": "c", "uid": "owner", "controller": true },
            ] },
            "spec": { "containers": [{ "name": "etcd", "image": "etcd:v1" }] },
            "status": status,
        });
        observe_pod(&serde_json::from_value(pod).expect("a pod"), "owner")
    }

    fn etcd_container(state: &Value, last_state: &Value) -> Value {
        json!({ "phase": "Running", "containerStatuses": [{
            "name": "etcd", "image": "", "imageID": "", "ready": false, "restartCount": 2,
            "state": state, "lastState": last_state,
        }] })
    }

    #[test]
    fn a_pod_of_the_cache_is_observed_as_the_whole_one() {
        let pod = json!({
            "metadata": { "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "etcd.database.coreos.com/lineage": "l", "etcd.database.coreos.com/role": "voter" },
                "annotations": { "etcd.database.coreos.com/pod-template-hash": "h" },
                "managedFields": [{ "manager": "kubelet" }],
                "ownerReferences": [
                    { "apiVersion": "v1", "kind": "EtcdCluster", "name": "c", "uid": "owner", "controller": true },
                ] },
            "spec": { "nodeName": "n", "volumes": [
                { "name": "agent", "emptyDir": {} },
                { "name": "etcd-data", "persistentVolumeClaim": { "claimName": "a" } },
                { "name": "member-peer-tls", "secret": { "secretName": "peer", "defaultMode": 420 } },
                { "name": "member-server-tls", "secret": { "secretName": "server" } },
                { "name": "etcd-client-tls", "secret": { "secretName": "operator" } },
            ], "containers": [
                { "name": "sidecar", "image": "other:v1" },
                { "name": "etcd", "image": "etcd:v1", "command": ["etcd"], "env": [{ "name": "A", "value": "b" }] },
            ], "initContainers": [{ "name": "agent", "image": "operator:1", "command": ["a"] }] },
            "status": { "podIP": "10.0.0.1", "conditions": [{ "type": "Ready", "status": "True" }],
                "containerStatuses": [{ "name": "etcd", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "state": { "running": { "startedAt": "2026-01-01T00:00:07Z" } } }] },
        });
        let whole: Pod = serde_json::from_value(pod).expect("a pod");
        let mut cache = Cache::default();
        cache.apply(Kind::Pod, WatchEvent::Applied(whole.clone().into_object()));
        let lean = cache.get::<Pod>(&ObjectKey::new("ns", "a")).expect("it is there");
        let volumes = lean.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).map(Vec::len);
        assert_eq!(volumes, Some(4), "it is lean");
        assert_eq!(observe_pod(&lean, "owner"), observe_pod(&whole, "owner"));
        let observed = observe_pod(&lean, "owner");
        assert_eq!(observed.agent_image.as_deref(), Some("operator:1"));
        let client = ClientTls { server_secret: "server".into(), operator_secret: "operator".into() };
        let tls = Tls { peer_secret: Some("peer".into()), client: Some(client) };
        assert_eq!((observed.on_claim, observed.tls), (true, tls));
        let started = observe_pod(&whole, "owner").first_started_at;
        assert_eq!(started, Some("2026-01-01T00:00:07Z".parse().expect("a time")));
    }

    /// A policy that pins digests, or a registry's mirror: what the spec says is not what was asked for.
    #[test]
    fn what_admission_made_of_an_image_is_not_taken_for_another_wish() {
        let mut pod = json!({ "metadata": { "name": "a", "annotations": {
            "etcd.database.coreos.com/image": "quay.io/coreos/etcd:v3.6.10", "etcd.database.coreos.com/agent-image": "o:1",
            "etcd.database.coreos.com/replaced-container": "containerd://1",
            "etcd.database.coreos.com/replaced-image": "mirror/etcd@sha256:9",
        } }, "spec": {
            "containers": [{ "name": "etcd", "image": "mirror/etcd@sha256:0" }],
            "initContainers": [{ "name": "agent", "image": "mirror/o@sha256:1" }],
        }, "status": { "containerStatuses": [{ "name": "etcd", "image": "", "imageID": "", "ready": true,
            "restartCount": 0, "containerID": "containerd://1", "state": { "running": {} } }] } });
        let read = |pod: &Value| observe_pod(&serde_json::from_value(pod.clone()).expect("a pod"), "u");
        let seen = read(&pod);
        assert_eq!(seen.image, "quay.io/coreos/etcd:v3.6.10");
        assert_eq!(seen.agent_image.as_deref(), Some("o:1"));
        assert!(seen.is_yet_to_restart());
        pod["spec"]["containers"][0]["image"] = json!("mirror/etcd@sha256:9");
        assert!(!read(&pod).is_yet_to_restart(), "admission put the image of before back: nothing will restart");
        pod["spec"]["containers"][0]["image"] = json!("mirror/etcd@sha256:0");
        pod["status"]["containerStatuses"][0]["containerID"] = json!("containerd://2");
        assert!(!read(&pod).is_yet_to_restart());
        pod["metadata"]["annotations"] = json!({});
        let seen = read(&pod);
        assert_eq!(
            (seen.image.as_str(), seen.agent_image.as_deref()),
            ("mirror/etcd@sha256:0", Some("mirror/o@sha256:1"))
        );
        assert!(!seen.is_yet_to_restart());
    }

    #[test]
    fn a_container_that_was_restarted_does_not_tell_when_it_first_started() {
        let running = json!({ "running": { "startedAt": "2026-01-01T00:00:07Z" } });
        let mut pod = etcd_container(&running, &json!({}));
        assert_eq!(observe(&pod).first_started_at, None, "two restarts");
        pod["containerStatuses"][0]["restartCount"] = 0.into();
        assert!(observe(&pod).first_started_at.is_some());
    }

    #[test]
    fn data_is_lost_only_when_the_agent_was_the_last_to_say_so_and_nothing_runs() {
        let refused = json!({ "terminated": { "exitCode": DATA_LOST_EXIT_CODE, "reason": "Error" } });
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        let running = json!({ "running": {} });
        let killed = json!({ "terminated": { "exitCode": 137, "reason": "Error" } });
        assert!(observe(&etcd_container(&refused, &json!({}))).data_lost);
        assert!(observe(&etcd_container(&waiting, &refused)).data_lost);
        assert!(!observe(&etcd_container(&running, &refused)).data_lost, "it came back");
        assert!(!observe(&etcd_container(&killed, &refused)).data_lost, "it ran since");
        assert!(!observe(&etcd_container(&waiting, &killed)).data_lost);
    }

    #[test]
    fn a_snapshot_has_changed_when_the_last_fetch_said_so() {
        let (changed, fetched) =
            (json!({ "terminated": { "exitCode": 65 } }), json!({ "terminated": { "exitCode": 0 } }));
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        let pod = |state: &Value, last_state: &Value| {
            let mut pod = etcd_container(state, last_state);
            pod["containerStatuses"][0]["name"] = "fetch".into();
            pod["initContainerStatuses"] = pod["containerStatuses"].take();
            observe(&pod).snapshot_changed
        };
        assert!(pod(&changed, &json!({})) && pod(&waiting, &changed));
        assert!(!pod(&fetched, &changed) && !pod(&waiting, &json!({})));
        assert!(!observe(&etcd_container(&changed, &json!({}))).snapshot_changed, "another container");
    }

    #[test]
    fn a_container_that_never_ran_is_told_from_one_that_ended() {
        let (waiting, none) = (json!({ "waiting": { "reason": "ErrImagePull" } }), json!({}));
        let mut pulling = etcd_container(&waiting, &none);
        pulling["containerStatuses"][0]["restartCount"] = 0.into();
        assert!(observe(&pulling).never_ran && observe(&json!({})).never_ran);
        assert!(!observe(&etcd_container(&waiting, &none)).never_ran, "it was restarted");
        for ran in [json!({ "running": {} }), json!({ "terminated": { "exitCode": 1 } })] {
            let mut pod = etcd_container(&ran, &none);
            pod["containerStatuses"][0]["restartCount"] = 0.into();
            assert!(!observe(&pod).never_ran, "{ran}");
        }
    }

    #[test]
    fn what_holds_a_pod_up_is_told_in_kubernetes_words() {
        let unschedulable = json!({ "phase": "Pending", "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" },
        ] });
        assert_eq!(observe(&unschedulable).why_not_running.as_deref(), Some("0/3 nodes are available"));
        let image = json!({ "waiting": { "reason": "ErrImagePull", "message": "no such image" } });
        let pod = observe(&etcd_container(&image, &json!({})));
        assert_eq!(pod.why_not_running.as_deref(), Some("etcd: ErrImagePull: no such image"));
        assert_eq!(observe(&etcd_container(&json!({ "running": {} }), &json!({}))).why_not_running, None);
    }

    #[test]
    fn only_a_controlling_owner_of_the_right_uid_makes_a_pod_ours() {
        assert!(observe(&json!({})).ours);
        let pod = json!({ "metadata": { "name": "a", "ownerReferences": [
            { "apiVersion": "v1", "kind": "EtcdCluster", "name": "c", "uid": "another", "controller": true },
        ] } });
        assert!(!observe_pod(&serde_json::from_value(pod).expect("a pod"), "owner").ours);
    }
}
