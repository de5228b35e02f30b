//! Claims and volumes: the default class, binding, provisioning, growth, and what becomes of a volume whose claim is gone.
//! A volume's data belongs to the runtime; it goes when the PersistentVolume does.
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Controller;
use super::informer::Informer;
use super::object::{self, Key};
use super::recorder::{Recorder, Severity};
use crate::server::{Request, ResourceName, Server};

/// The annotation by which the scheduler tells for which node a volume is wanted.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The provisioner that this controller is.
pub const PROVISIONER: &str = "fake-k8s.io/directory";
/// A parameter of a StorageClass: `node` makes volumes that can be reached from their node only.
pub const TOPOLOGY: &str = "topology";

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// The volumes controller.
#[derive(Debug)]
pub struct Volumes {
    claims: Informer,
    volumes: Informer,
    pods: Informer,
    classes: Informer,
    recorder: Recorder,
    /// Claim to the pods that hold it.
    users: BTreeMap<Key, BTreeMap<Key, ()>>,
    default_class: Option<Value>,
}

impl Volumes {
    /// A controller that creates the StorageClass `standard` when there is none of that name: the default one,
    /// WaitForFirstConsumer, reclaim policy Delete, expandable, its volumes reachable from every node.
    pub fn new(events: bool) -> Self {
        Self::with_class(events, standard_class())
    }

    /// A controller with another first StorageClass.
    pub fn with_class(events: bool, class: Value) -> Self {
        let core = |plural: &str| Informer::new(ResourceName::core(plural));
        Self {
            claims: core("persistentvolumeclaims"),
            volumes: core("persistentvolumes"),
            pods: core("pods"),
            classes: Informer::new(classes_resource()),
            recorder: Recorder::new("persistentvolume-controller", "", events),
            users: BTreeMap::new(),
            default_class: Some(class),
        }
    }

    fn sync(&mut self, server: &Server) -> bool {
        let mut news = false;
        for change in self.pods.sync(server) {
            for (value, holds) in [(&change.old, false), (&change.new, true)] {
                let Some(pod) = value else { continue };
                // An unscheduled pod holds nothing: its kubelet will refuse a claim that is going away.
                if object::text(pod, "/spec/nodeName").is_empty() {
                    continue;
                }
                for (_, claim) in object::claims(pod) {
                    let users = self.users.entry((object::namespace(pod).to_owned(), claim.to_owned())).or_default();
                    news |= if holds {
                        users.insert(change.key.clone(), ()).is_none()
                    } else {
                        users.remove(&change.key).is_some()
                    };
                }
            }
        }
        self.users.retain(|_, users| !users.is_empty());
        for informer in [&mut self.claims, &mut self.volumes, &mut self.classes] {
            news |= !informer.sync(server).is_empty();
        }
        news
    }

    fn tend_claim(&mut self, server: &mut Server, now: Timestamp, claim: &Arc<Value>) {
        let key = object::key(claim);
        let protected = has_finalizer(claim, CLAIM_PROTECTION);
        if object::is_terminating(claim) {
            if protected && !self.users.contains_key(&key) {
                drop_finalizer(server, now, &claims_resource(), claim, CLAIM_PROTECTION);
            }
            return;
        }
        if !protected {
            let mut finalizers = object::texts(claim, "/metadata/finalizers");
            finalizers.push(CLAIM_PROTECTION.to_owned());
            patch(server, now, &claims_resource(), claim, json!({"metadata": {"finalizers": finalizers}}));
            return;
        }
        match object::text(claim, "/status/phase") {
            "Bound" => self.tend_bound(server, now, claim),
            "Lost" => {}
            _ => self.tend_unbound(server, now, claim),
        }
    }

    fn tend_bound(&mut self, server: &mut Server, now: Timestamp, claim: &Value) {
        let name = object::text(claim, "/spec/volumeName");
        let Some(volume) = self.volumes.find("", name).cloned() else {
            let mut status = claim["status"].clone();
            status["phase"] = json!("Lost");
            set_status(server, now, &claims_resource(), claim, &status);
            let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            return self.recorder.record(server, now, claim, (Severity::Warning, "ClaimLost", message));
        };
        let (wanted, size) =
            (storage(claim, "/spec/resources/requests/storage"), storage(&volume, "/spec/capacity/storage"));
        let class = self.classes.find("", object::text(claim, "/spec/storageClassName"));
        let grows = class.is_some_and(|class| object::flag(class, "/allowVolumeExpansion"));
        if wanted > size && grows {
            let capacity = claim["spec"]["resources"]["requests"]["storage"].clone();
            patch(server, now, &volumes_resource(), &volume, json!({"spec": {"capacity": {"storage": capacity}}}));
            let mut status = claim["status"].clone();
            status["capacity"]["storage"] = capacity;
            set_status(server, now, &claims_resource(), claim, &status);
        }
    }

    fn tend_unbound(&mut self, server: &mut Server, now: Timestamp, claim: &Arc<Value>) {
        let Some(class_name) = self.class_name(claim) else {
            return self.say_phase(server, now, claim, "Pending");
        };
        if object::text(claim, "/spec/storageClassName") != class_name {
            // Retroactive assignment of the default class; the next step sees it.
            patch(server, now, &claims_resource(), claim, json!({"spec": {"storageClassName": class_name}}));
            return;
        }
        let class = self.classes.find("", &class_name).cloned();
        let waits =
            class.as_ref().is_some_and(|class| object::text(class, "/volumeBindingMode") == "WaitForFirstConsumer");
        let node = object::map(claim, "/metadata/annotations").get(SELECTED_NODE).and_then(Value::as_str);
        let wanted = object::text(claim, "/spec/volumeName");
        if waits && node.is_none() && wanted.is_empty() {
            self.say_phase(server, now, claim, "Pending");
            let message = "waiting for first consumer to be created before binding";
            return self.say_once(server, now, claim, "WaitForFirstConsumer", message);
        }
        let own = format!("pvc-{}", object::uid(claim));
        let suits = |volume: &Value| match wanted {
            "" => object::name(volume) == own || (satisfies(volume, claim) && on_node(volume, node)),
            name => object::name(volume) == name && is_free_for(volume, claim),
        };
        let mut found: Vec<_> =
            self.volumes.iter().filter(|(_, volume)| suits(volume)).map(|(_, v)| v.clone()).collect();
        found.sort_by_key(|volume| storage(volume, "/spec/capacity/storage"));
        if let Some(volume) = found.first() {
            return self.bind(server, now, claim, volume);
        }
        match class {
            Some(class) if wanted.is_empty() && object::text(&class, "/provisioner") == PROVISIONER => {
                self.provision(server, now, claim, &class, &own, node);
            }
            Some(_) => self.say_phase(server, now, claim, "Pending"),
            None => {
                self.say_phase(server, now, claim, "Pending");
                let message = format!("storageclass.storage.k8s.io \"{class_name}\" not found");
                self.say_once(server, now, claim, "ProvisioningFailed", &message);
            }
        }
    }

    /// The claim's class, or the default one. `None`: there is no default yet. An empty name is a class of its own.
    fn class_name(&self, claim: &Value) -> Option<String> {
        if let Some(name) = claim.pointer("/spec/storageClassName").and_then(Value::as_str) {
            return Some(name.to_owned());
        }
        let is_default = |class: &&Arc<Value>| {
            object::map(class, "/metadata/annotations").get(DEFAULT_CLASS).is_some_and(|value| value == "true")
        };
        self.classes.iter().map(|(_, class)| class).find(is_default).map(|class| object::name(class).to_owned())
    }

    fn provision(
        &mut self,
        server: &mut Server,
        now: Timestamp,
        claim: &Value,
        class: &Value,
        name: &str,
        node: Option<&str>,
    ) {
        let reclaim =
            Some(object::text(class, "/reclaimPolicy")).filter(|policy| !policy.is_empty()).unwrap_or("Delete");
        let mut volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "finalizers": [VOLUME_PROTECTION],
                "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
            "spec": {
                "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "accessModes": claim["spec"]["accessModes"], "persistentVolumeReclaimPolicy": reclaim,
                "storageClassName": object::name(class),
                "volumeMode": claim["spec"].get("volumeMode").cloned().unwrap_or(json!("Filesystem")),
                "claimRef": claim_reference(claim),
                "hostPath": {"path": format!("/var/lib/fake-k8s/volumes/{name}"), "type": "DirectoryOrCreate"},
            },
        });
        if let Some(node) = node.filter(|_| object::text(class, "/parameters/topology") == "node") {
            let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
            volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}});
        }
        // Refused or lost: nothing changed, and the next news of the claim tries again.
        if server.handle(now, &Request::create(volumes_resource(), "", volume)).is_ok() {
            let message = format!("Successfully provisioned volume {name}");
            self.recorder.record(server, now, claim, (Severity::Normal, "ProvisioningSucceeded", &message));
        }
    }

    /// Each side names the other: the volume first, as Kubernetes does, so that a crash in between can be taken up.
    fn bind(&mut self, server: &mut Server, now: Timestamp, claim: &Value, volume: &Value) {
        if object::text(volume, "/spec/claimRef/uid") != object::uid(claim) {
            patch(server, now, &volumes_resource(), volume, json!({"spec": {"claimRef": claim_reference(claim)}}));
        }
        let name = object::name(volume);
        let bound = json!({"spec": {"volumeName": name}, "metadata": {"annotations": {BIND_COMPLETED: "yes"}}});
        if !patch(server, now, &claims_resource(), claim, bound) {
            return;
        }
        let (namespace, claim_name) = object::key(claim);
        let Some(current) = server.peek(&claims_resource(), &namespace, &claim_name) else { return };
        let capacity = json!({"storage": volume["spec"]["capacity"]["storage"]});
        let status = json!({"phase": "Bound", "accessModes": volume["spec"]["accessModes"], "capacity": capacity});
        set_status(server, now, &claims_resource(), &current, &status);
    }

    fn tend_volume(&mut self, server: &mut Server, now: Timestamp, volume: &Arc<Value>) {
        let reference = volume.pointer("/spec/claimRef").filter(|reference| reference.is_object());
        let claim = reference.and_then(|reference| {
            let found = self.claims.find(object::text(reference, "/namespace"), object::text(reference, "/name"));
            let uid = object::text(reference, "/uid");
            found.filter(|claim| uid.is_empty() || object::uid(claim) == uid)
        });
        let in_use = claim.is_some_and(|claim| object::text(claim, "/spec/volumeName") == object::name(volume));
        if object::is_terminating(volume) {
            if !in_use && has_finalizer(volume, VOLUME_PROTECTION) {
                drop_finalizer(server, now, &volumes_resource(), volume, VOLUME_PROTECTION);
            }
            return;
        }
        let orphaned =
            claim.is_none() && reference.is_some_and(|reference| !object::text(reference, "/uid").is_empty());
        let phase = match (in_use, orphaned) {
            (true, _) => "Bound",
            (false, true) => "Released",
            (false, false) => "Available",
        };
        if orphaned && object::text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
            let delete = Request::delete(volumes_resource(), "", object::name(volume)).if_uid(object::uid(volume));
            // Refused: the next news of it tries again.
            let _ = server.handle(now, &delete);
            return;
        }
        self.say_phase_of(server, now, &volumes_resource(), volume, phase);
    }

    fn say_phase(&mut self, server: &mut Server, now: Timestamp, claim: &Value, phase: &str) {
        self.say_phase_of(server, now, &claims_resource(), claim, phase);
    }

    fn say_phase_of(&self, server: &mut Server, now: Timestamp, resource: &ResourceName, about: &Value, phase: &str) {
        if object::text(about, "/status/phase") != phase {
            let mut status = about.get("status").filter(|status| status.is_object()).cloned().unwrap_or(json!({}));
            status["phase"] = json!(phase);
            set_status(server, now, resource, about, &status);
        }
    }

    /// An event that is not repeated while the claim does not change: its phase was just set for the first time.
    fn say_once(&mut self, server: &mut Server, now: Timestamp, claim: &Value, reason: &str, message: &str) {
        if object::text(claim, "/status/phase").is_empty() {
            self.recorder.record(server, now, claim, (Severity::Normal, reason, message));
        }
    }
}

impl Controller for Volumes {
    fn step(&mut self, now: Timestamp, server: &mut Server) {
        if let Some(class) = self.default_class.take() {
            // Already there: somebody else's of the same name is as good.
            let _ = server.handle(now, &Request::create(classes_resource(), "", class));
        }
        if !self.sync(server) {
            return;
        }
        let claims: Vec<_> = self.claims.iter().map(|(_, claim)| claim.clone()).collect();
        claims.iter().for_each(|claim| self.tend_claim(server, now, claim));
        let volumes: Vec<_> = self.volumes.iter().map(|(_, volume)| volume.clone()).collect();
        volumes.iter().for_each(|volume| self.tend_volume(server, now, volume));
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }
}

/// Whether a volume is free and good enough for a claim.
pub fn satisfies(volume: &Value, claim: &Value) -> bool {
    let modes = object::items(volume, "/spec/accessModes");
    let class = |value: &Value| object::text(value, "/spec/storageClassName").to_owned();
    let selector = claim.pointer("/spec/selector");
    is_free_for(volume, claim)
        && class(volume) == class(claim)
        && storage(volume, "/spec/capacity/storage") >= storage(claim, "/spec/resources/requests/storage")
        && object::items(claim, "/spec/accessModes").iter().all(|mode| modes.contains(mode))
        && (selector.is_none() || object::selects(selector, object::map(volume, "/metadata/labels")))
}

/// The StorageClass that a [`Volumes::new`] creates.
pub fn standard_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    })
}

fn is_free_for(volume: &Value, claim: &Value) -> bool {
    if object::is_terminating(volume) {
        return false;
    }
    let Some(reference) = volume.pointer("/spec/claimRef").filter(|reference| reference.is_object()) else {
        return true;
    };
    let uid = object::text(reference, "/uid");
    let named = (object::text(reference, "/namespace"), object::text(reference, "/name"));
    named == (object::namespace(claim), object::name(claim)) && (uid.is_empty() || uid == object::uid(claim))
}

/// Only the node's name is known here; hostname is what local volumes select by.
fn on_node(volume: &Value, node: Option<&str>) -> bool {
    let terms = object::items(volume, "/spec/nodeAffinity/required/nodeSelectorTerms");
    let Some(node) = node.filter(|_| !terms.is_empty()) else { return true };
    let labels = json!({"kubernetes.io/hostname": node});
    let labels = object::map(&labels, "");
    let by_host = |requirement: &&Value| object::text(requirement, "/key") == "kubernetes.io/hostname";
    terms.iter().any(|term| {
        object::items(term, "/matchExpressions").iter().filter(by_host).all(|one| object::meets(one, labels))
    })
}

fn storage(value: &Value, pointer: &str) -> i128 {
    value.pointer(pointer).and_then(object::quantity_milli).unwrap_or_default()
}

fn claim_reference(claim: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": object::namespace(claim),
        "name": object::name(claim), "uid": object::uid(claim)})
}

fn has_finalizer(value: &Value, finalizer: &str) -> bool {
    object::items(value, "/metadata/finalizers").iter().any(|found| found == finalizer)
}

fn drop_finalizer(server: &mut Server, now: Timestamp, resource: &ResourceName, from: &Value, finalizer: &str) {
    let mut left = object::texts(from, "/metadata/finalizers");
    left.retain(|found| found != finalizer);
    patch(server, now, resource, from, json!({"metadata": {"finalizers": left}}));
}

/// A merge patch of exactly this object; false when the API refused it.
fn patch(server: &mut Server, now: Timestamp, resource: &ResourceName, about: &Value, mut body: Value) -> bool {
    body["metadata"]["uid"] = json!(object::uid(about));
    let (namespace, name) = object::key(about);
    server.handle(now, &Request::merge_patch(resource.clone(), &namespace, &name, body)).is_ok()
}

/// Refused: the object changed under us, and the news of it brings it up again.
fn set_status(server: &mut Server, now: Timestamp, resource: &ResourceName, about: &Value, status: &Value) {
    let (namespace, name) = object::key(about);
    let body = json!({"metadata": {"uid": object::uid(about)}, "status": status});
    let _ =
        server.handle(now, &Request::merge_patch(resource.clone(), &namespace, &name, body).on_subresource("status"));
}

fn claims_resource() -> ResourceName {
    ResourceName::core("persistentvolumeclaims")
}

fn volumes_resource() -> ResourceName {
    ResourceName::core("persistentvolumes")
}

fn classes_resource() -> ResourceName {
    ResourceName::new("storage.k8s.io", "v1", "storageclasses")
}

#[cfg(test)]
mod tests;
