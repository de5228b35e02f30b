//! Claims and volumes in fixed cases.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{SELECTED_NODE, Volumes, claims_resource, standard_class, volumes_resource};
use crate::controllers::{Controller, object};
use crate::server::{Request, ResourceName, Server};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn start(class: Value) -> (Server, Volumes) {
    let (mut server, mut volumes) = (Server::new(1), Volumes::with_class(true, class));
    settle(&mut server, &mut volumes);
    (server, volumes)
}

fn settle(server: &mut Server, volumes: &mut Volumes) {
    for _ in 0..10 {
        let version = server.resource_version();
        volumes.step(NOW, server);
        if server.resource_version() == version {
            return;
        }
    }
    panic!("the volumes controller does not settle");
}

fn create(server: &mut Server, resource: ResourceName, namespace: &str, body: Value) {
    server.handle(NOW, &Request::create(resource, namespace, body)).expect("a valid object");
}

fn claim(server: &mut Server, name: &str, more: &Value) {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    more.as_object().expect("an object").iter().for_each(|(key, value)| spec[key] = value.clone());
    let body = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec});
    create(server, claims_resource(), "default", body);
}

fn patch_claim(server: &mut Server, body: Value) {
    let request = Request::merge_patch(claims_resource(), "default", "c", body);
    server.handle(NOW, &request).expect("a valid patch");
}

fn select_node(server: &mut Server, node: &str) {
    patch_claim(server, json!({"metadata": {"annotations": {SELECTED_NODE: node}}}));
}

fn phase(server: &Server) -> String {
    let claim = server.peek(&claims_resource(), "default", "c").expect("the claim is there");
    object::text(&claim, "/status/phase").to_owned()
}

fn volumes_of(server: &Server) -> Vec<String> {
    let all = server.peek_all(&volumes_resource(), None);
    all.iter().map(|volume| format!("{} {}", object::name(volume), object::text(volume, "/status/phase"))).collect()
}

fn immediate(reclaim: &str) -> Value {
    let mut class = standard_class();
    (class["volumeBindingMode"], class["reclaimPolicy"]) = (json!("Immediate"), json!(reclaim));
    class
}

fn pod_with_claim(server: &mut Server) {
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n",
        "containers": [{"name": "c", "image": "a:1"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}});
    create(server, ResourceName::core("pods"), "default", body);
}

#[test]
fn a_claim_waits_for_its_first_consumer_and_gets_a_volume_named_after_it() {
    let (mut server, mut volumes) = start(standard_class());
    claim(&mut server, "c", &json!({}));
    settle(&mut server, &mut volumes);
    assert_eq!((phase(&server).as_str(), volumes_of(&server).len()), ("Pending", 0));
    select_node(&mut server, "n1");
    settle(&mut server, &mut volumes);
    let found = server.peek(&claims_resource(), "default", "c").expect("the claim is there");
    assert_eq!((phase(&server), object::text(&found, "/spec/storageClassName")), ("Bound".to_owned(), "standard"));
    assert_eq!(volumes_of(&server), [format!("pvc-{} Bound", object::uid(&found))]);
}

#[test]
fn volumes_of_a_local_class_stay_on_their_node() {
    let mut class = standard_class();
    class["parameters"] = json!({"topology": "node"});
    let (mut server, mut volumes) = start(class);
    claim(&mut server, "c", &json!({}));
    settle(&mut server, &mut volumes);
    select_node(&mut server, "n1");
    settle(&mut server, &mut volumes);
    let all = server.peek_all(&volumes_resource(), None);
    let terms = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
    assert_eq!(object::text(&all[0], terms), "n1");
}

#[test]
fn the_reclaim_policy_decides_what_stays() {
    for (policy, left) in [("Delete", 0), ("Retain", 1)] {
        let (mut server, mut volumes) = start(immediate(policy));
        claim(&mut server, "c", &json!({}));
        settle(&mut server, &mut volumes);
        assert_eq!(phase(&server), "Bound");
        server.handle(NOW, &Request::delete(claims_resource(), "default", "c")).expect("it is there");
        settle(&mut server, &mut volumes);
        assert_eq!(server.peek(&claims_resource(), "default", "c"), None);
        let found = volumes_of(&server);
        assert_eq!(found.len(), left, "{policy}");
        assert!(found.iter().all(|volume| volume.ends_with("Released")));
    }
}

#[test]
fn a_claim_that_a_pod_uses_is_not_deleted_under_it() {
    let (mut server, mut volumes) = start(immediate("Delete"));
    claim(&mut server, "c", &json!({}));
    pod_with_claim(&mut server);
    settle(&mut server, &mut volumes);
    server.handle(NOW, &Request::delete(claims_resource(), "default", "c")).expect("it is there");
    settle(&mut server, &mut volumes);
    assert!(server.peek(&claims_resource(), "default", "c").is_some());
    server.handle(NOW, &Request::delete(ResourceName::core("pods"), "default", "p").grace(0)).expect("it is there");
    settle(&mut server, &mut volumes);
    assert_eq!(server.peek(&claims_resource(), "default", "c"), None);
    assert!(volumes_of(&server).is_empty());
}

#[test]
fn a_claim_whose_volume_is_gone_is_lost() {
    let (mut server, mut volumes) = start(immediate("Retain"));
    claim(&mut server, "c", &json!({}));
    settle(&mut server, &mut volumes);
    let name = object::name(&server.peek_all(&volumes_resource(), None)[0]).to_owned();
    let delete = Request::delete(volumes_resource(), "", &name);
    server.handle(NOW, &delete).expect("it is there");
    settle(&mut server, &mut volumes);
    assert_eq!(phase(&server), "Bound", "a volume in use is protected");
    let force = Request::merge_patch(volumes_resource(), "", &name, json!({"metadata": {"finalizers": null}}));
    server.handle(NOW, &force).expect("a valid patch");
    settle(&mut server, &mut volumes);
    assert_eq!(phase(&server), "Lost");
}

#[test]
fn the_smallest_fitting_volume_is_bound_before_one_is_made() {
    let (mut server, mut volumes) = start(immediate("Delete"));
    for (name, size) in [("big", "9Gi"), ("fit", "2Gi"), ("small", "1Mi")] {
        let body = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/x"}}});
        create(&mut server, volumes_resource(), "", body);
    }
    claim(&mut server, "c", &json!({}));
    settle(&mut server, &mut volumes);
    assert_eq!(volumes_of(&server), ["big Available", "fit Bound", "small Available"]);
}

#[test]
fn a_claim_can_grow() {
    let (mut server, mut volumes) = start(immediate("Delete"));
    claim(&mut server, "c", &json!({}));
    settle(&mut server, &mut volumes);
    patch_claim(&mut server, json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}}));
    settle(&mut server, &mut volumes);
    let found = server.peek(&claims_resource(), "default", "c").expect("it is there");
    assert_eq!(object::text(&found, "/status/capacity/storage"), "5Gi");
}

#[test]
fn a_claim_that_is_older_than_the_default_class_gets_it_later() {
    let (mut server, mut volumes) = (Server::new(1), Volumes::with_class(true, immediate("Delete")));
    claim(&mut server, "c", &json!({}));
    settle(&mut server, &mut volumes);
    assert_eq!(phase(&server), "Bound");
}
