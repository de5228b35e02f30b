//! The scheduler: binds pods to nodes that meet every hard requirement, the emptiest first, or says in Kubernetes' words why
//! there is none. Ties go by name, so that a run can be repeated.
//!
//! Not here: preemption, priorities, host ports, preferred pod affinity, images already on a node.
mod fit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Controller;
use super::informer::Informer;
use super::object::{self, Key};
use super::recorder::{Recorder, Severity};
use super::volumes::SELECTED_NODE;
use crate::server::{Request, ResourceName, Server};

/// The scheduler with its view of the cluster.
#[derive(Debug)]
pub struct Scheduler {
    pods: Informer,
    nodes: Informer,
    claims: Informer,
    volumes: Informer,
    classes: Informer,
    recorder: Recorder,
    pending: BTreeSet<Key>,
    /// Pods that hold room on a node, by node.
    assigned: BTreeMap<String, BTreeMap<Key, Arc<Value>>>,
}

/// Why a pod has no node (yet).
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// Said to the user.
    Unschedulable(String),
    /// A volume is being made for the node that was chosen.
    VolumeUnderWay,
}

impl Scheduler {
    /// A scheduler that has seen nothing. `events` says whether it records events.
    pub fn new(events: bool) -> Self {
        let core = |plural: &str| Informer::new(ResourceName::core(plural));
        Self {
            pods: core("pods"),
            nodes: core("nodes"),
            claims: core("persistentvolumeclaims"),
            volumes: core("persistentvolumes"),
            classes: Informer::new(ResourceName::new("storage.k8s.io", "v1", "storageclasses")),
            recorder: Recorder::new("default-scheduler", "", events),
            pending: BTreeSet::new(),
            assigned: BTreeMap::new(),
        }
    }

    /// Takes in what changed; true when pods that found no node may find one now.
    fn sync(&mut self, server: &Server) -> bool {
        let mut news = false;
        for change in self.pods.sync(server) {
            if let Some(old) = &change.old
                && let Some(pods) = self.assigned.get_mut(object::text(old, "/spec/nodeName"))
            {
                news |= pods.remove(&change.key).is_some();
            }
            self.pending.remove(&change.key);
            let Some(pod) = change.new.filter(|pod| !object::is_finished_pod(pod)) else { continue };
            let node = object::text(&pod, "/spec/nodeName");
            if !node.is_empty() {
                news |= self.assigned.entry(node.to_owned()).or_default().insert(change.key, pod.clone()).is_none();
            } else if !object::is_terminating(&pod) && is_ours(&pod) {
                news |= self.pending.insert(change.key);
            }
        }
        for informer in [&mut self.nodes, &mut self.claims, &mut self.volumes, &mut self.classes] {
            // A heartbeat is no news, but telling it apart costs as much as trying the few pending pods again.
            news |= !informer.sync(server).is_empty();
        }
        news
    }

    fn choose(&self, server: &mut Server, now: Timestamp, pod: &Value) -> Result<String, Obstacle> {
        let claims = self.claims_of(pod)?;
        let total = self.nodes.iter().count();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<((i64, usize), &str)> = None;
        let unwanted = BTreeMap::new();
        for (key, node) in self.nodes.iter() {
            let here = self.assigned.get(&key.1).unwrap_or(&unwanted);
            let found = fit::node_reasons(pod, node, here)
                .or_else(|| self.volume_reason(&claims, node))
                .or_else(|| fit::neighbour_reason(pod, node, &self.nodes, &self.assigned));
            match found {
                Some(said) => said.into_iter().for_each(|reason| *reasons.entry(reason).or_default() += 1),
                None => {
                    let score = (-fit::preference(pod, node), here.len());
                    if best.is_none_or(|(least, _)| score < least) {
                        best = Some((score, &key.1));
                    }
                }
            }
        }
        let Some((_, node)) = best else {
            let mut said: Vec<_> = reasons.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            said.sort();
            let said =
                if total == 0 { "no nodes available to schedule pods".to_owned() } else { said.join(", ") + "." };
            let message = if total == 0 { said } else { format!("0/{total} nodes are available: {said}") };
            return Err(Obstacle::Unschedulable(message));
        };
        let node = node.to_owned();
        if self.claim_volumes(server, now, &claims, &node) { Err(Obstacle::VolumeUnderWay) } else { Ok(node) }
    }

    /// The pod's claims; all must exist, and those that do not wait for a pod must be bound.
    fn claims_of(&self, pod: &Value) -> Result<Vec<Arc<Value>>, Obstacle> {
        let total = self.nodes.iter().count();
        let refuse = |why: String| Obstacle::Unschedulable(format!("0/{total} nodes are available: {why}"));
        let mut found = Vec::new();
        for (_, name) in object::claims(pod) {
            let claim = self.claims.find(object::namespace(pod), name);
            let claim = claim.ok_or_else(|| refuse(format!("persistentvolumeclaim \"{name}\" not found.")))?;
            if object::is_terminating(claim) {
                return Err(refuse(format!("persistentvolumeclaim \"{name}\" is being deleted.")));
            }
            if object::text(claim, "/status/phase") == "Lost" {
                let volume = object::text(claim, "/spec/volumeName");
                return Err(refuse(format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\"."
                )));
            }
            if !is_bound(claim) && !self.waits_for_consumer(claim) {
                return Err(refuse("pod has unbound immediate PersistentVolumeClaims.".to_owned()));
            }
            found.push(claim.clone());
        }
        Ok(found)
    }

    fn waits_for_consumer(&self, claim: &Value) -> bool {
        let class = self.classes.find("", object::text(claim, "/spec/storageClassName"));
        class.is_some_and(|class| object::text(class, "/volumeBindingMode") == "WaitForFirstConsumer")
    }

    fn volume_reason(&self, claims: &[Arc<Value>], node: &Value) -> Option<Vec<String>> {
        for claim in claims {
            if is_bound(claim) {
                let volume = self.volumes.find("", object::text(claim, "/spec/volumeName"));
                if volume.is_some_and(|volume| !fit::volume_fits(volume, node)) {
                    return Some(vec!["node(s) didn't match PersistentVolume's node affinity".to_owned()]);
                }
                continue;
            }
            let chosen = object::map(claim, "/metadata/annotations").get(SELECTED_NODE).and_then(Value::as_str);
            if chosen.is_some_and(|chosen| chosen != object::name(node)) {
                return Some(vec!["node(s) didn't match PersistentVolume's node affinity".to_owned()]);
            }
            let class = self.classes.find("", object::text(claim, "/spec/storageClassName"));
            let provisions =
                class.is_some_and(|class| object::text(class, "/provisioner") != "kubernetes.io/no-provisioner");
            let free = |volume: &Value| super::volumes::satisfies(volume, claim) && fit::volume_fits(volume, node);
            if !provisions && !self.volumes.iter().any(|(_, volume)| free(volume)) {
                return Some(vec!["node(s) didn't find available persistent volumes to bind".to_owned()]);
            }
        }
        None
    }

    /// Tells the volumes controller which node was chosen; true while a claim is not bound.
    fn claim_volumes(&self, server: &mut Server, now: Timestamp, claims: &[Arc<Value>], node: &str) -> bool {
        let unbound: Vec<_> = claims.iter().filter(|claim| !is_bound(claim)).collect();
        for claim in &unbound {
            if object::map(claim, "/metadata/annotations").contains_key(SELECTED_NODE) {
                continue;
            }
            let (namespace, name) = object::key(claim);
            let patch = json!({"metadata": {"uid": object::uid(claim), "annotations": {SELECTED_NODE: node}}});
            // Refused: the claim changed under us, and the news of it brings the pod up again.
            let _ = server.handle(now, &Request::merge_patch(claims_resource(), &namespace, &name, patch));
        }
        !unbound.is_empty()
    }

    fn bind(&mut self, server: &mut Server, now: Timestamp, pod: &Value, node: &str) {
        let (namespace, name) = object::key(pod);
        let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": object::uid(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let request = Request::create(pods_resource(), &namespace, body).named(&name).on_subresource("binding");
        if server.handle(now, &request).is_ok() {
            let message = format!("Successfully assigned {namespace}/{name} to {node}");
            self.recorder.record(server, now, pod, (Severity::Normal, "Scheduled", &message));
            // The next pod of this step must see it.
            let mut bound = Value::clone(pod);
            bound["spec"]["nodeName"] = json!(node);
            self.assigned.entry(node.to_owned()).or_default().insert((namespace, name), Arc::new(bound));
        }
    }

    fn say_unschedulable(&mut self, server: &mut Server, now: Timestamp, pod: &Value, message: &str) {
        let mut status = pod.get("status").cloned().unwrap_or_else(|| json!({}));
        let mut conditions = object::items(&status, "/conditions").to_vec();
        let why = ("Unschedulable", message);
        if !object::set_condition(&mut conditions, now, "PodScheduled", "False", why) {
            return;
        }
        status["conditions"] = json!(conditions);
        status["phase"] = json!("Pending");
        let (namespace, name) = object::key(pod);
        let mut wanted = Value::clone(pod);
        wanted["status"] = status;
        // Refused: the pod changed, and comes up again.
        let _ = server.handle(now, &Request::replace_status(pods_resource(), &namespace, &name, wanted));
        self.recorder.record(server, now, pod, (Severity::Warning, "FailedScheduling", message));
    }
}

impl Controller for Scheduler {
    fn step(&mut self, now: Timestamp, server: &mut Server) {
        if !self.sync(server) {
            return;
        }
        let mut queue: Vec<_> = self.pending.iter().filter_map(|key| self.pods.find(&key.0, &key.1)).cloned().collect();
        queue.sort_by(|a, b| order(a).cmp(&order(b)));
        for pod in queue {
            match self.choose(server, now, &pod) {
                Ok(node) => self.bind(server, now, &pod, &node),
                Err(Obstacle::Unschedulable(message)) => self.say_unschedulable(server, now, &pod, &message),
                Err(Obstacle::VolumeUnderWay) => {}
            }
        }
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }
}

fn order(pod: &Value) -> (&str, &str, &str) {
    (object::text(pod, "/metadata/creationTimestamp"), object::namespace(pod), object::name(pod))
}

fn is_ours(pod: &Value) -> bool {
    let gated = !object::items(pod, "/spec/schedulingGates").is_empty();
    !gated && matches!(object::text(pod, "/spec/schedulerName"), "" | "default-scheduler")
}

fn is_bound(claim: &Value) -> bool {
    object::text(claim, "/status/phase") == "Bound" && !object::text(claim, "/spec/volumeName").is_empty()
}

fn pods_resource() -> ResourceName {
    ResourceName::core("pods")
}

fn claims_resource() -> ResourceName {
    ResourceName::core("persistentvolumeclaims")
}

#[cfg(test)]
mod tests;
