//! The rules of single requests, through the public interface.
use fake_k8s::{Request, ResourceName, Server, WatchEvent, WatchRequest};
use jiff::Timestamp;
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn maps() -> ResourceName {
    ResourceName::core("configmaps")
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn server_with_map() -> (Server, Value) {
    let mut server = Server::new(1);
    let made = server.handle(NOW, &Request::create(maps(), "default", map("m"))).unwrap();
    (server, made)
}

#[test]
fn a_created_object_has_uid_version_and_time() {
    let (_, made) = server_with_map();
    assert_eq!(made["metadata"]["creationTimestamp"], "1970-01-01T00:00:00Z");
    assert_eq!(made["metadata"]["uid"].as_str().map(str::len), Some(36));
    assert_eq!(made["metadata"]["namespace"], "default");
}

#[test]
fn a_second_create_of_the_same_name_is_refused() {
    let (mut server, _) = server_with_map();
    let status = server.handle(NOW, &Request::create(maps(), "default", map("m"))).unwrap_err();
    assert!(status.is_already_exists());
    assert_eq!(status.message, "configmaps \"m\" already exists");
}

#[test]
fn a_replace_from_a_stale_version_conflicts() {
    let (mut server, made) = server_with_map();
    let patch = json!({"data": {"a": "2"}});
    server.handle(NOW, &Request::merge_patch(maps(), "default", "m", patch)).unwrap();
    let status = server.handle(NOW, &Request::replace(maps(), "default", "m", made)).unwrap_err();
    assert!(status.is_conflict(), "{status}");
}

#[test]
fn a_replace_that_changes_nothing_writes_nothing() {
    let (mut server, made) = server_with_map();
    let before = server.resource_version();
    server.handle(NOW, &Request::replace(maps(), "default", "m", made)).unwrap();
    assert_eq!(server.resource_version(), before);
}

#[test]
fn a_delete_with_the_uid_of_an_earlier_object_conflicts() {
    let (mut server, _) = server_with_map();
    let status = server.handle(NOW, &Request::delete(maps(), "default", "m").if_uid("other")).unwrap_err();
    assert!(status.is_conflict());
    assert!(status.message.contains("the UID in the precondition (other)"), "{status}");
}

#[test]
fn a_watch_sees_every_change_in_order_and_once() {
    let (mut server, made) = server_with_map();
    let from = made["metadata"]["resourceVersion"].as_str().unwrap();
    let mut cursor = server.watch(&WatchRequest::new(maps(), "default", Some(from))).unwrap();
    server.handle(NOW, &Request::merge_patch(maps(), "default", "m", json!({"data": {"a": "2"}}))).unwrap();
    server.handle(NOW, &Request::delete(maps(), "default", "m")).unwrap();
    let now = server.resource_version();
    let first = server.poll(&mut cursor, now - 1, 10).unwrap();
    assert!(matches!(first.as_slice(), [WatchEvent::Modified(o)] if o["data"]["a"] == "2"), "{first:?}");
    let second = server.poll(&mut cursor, now, 10).unwrap();
    let version = now.to_string();
    assert!(
        matches!(second.as_slice(), [WatchEvent::Deleted(o)] if o["metadata"]["resourceVersion"] == version.as_str())
    );
    assert_eq!(server.poll(&mut cursor, now, 10).unwrap(), []);
}

#[test]
fn an_object_that_leaves_the_selection_is_deleted_for_the_watcher() {
    let (mut server, _) = server_with_map();
    let label = |v: &str| Request::merge_patch(maps(), "default", "m", json!({"metadata": {"labels": {"x": v}}}));
    server.handle(NOW, &label("in")).unwrap();
    let mut watch = WatchRequest::new(maps(), "", Some(&server.resource_version().to_string()));
    watch.label_selector = Some("x=in".into());
    let mut cursor = server.watch(&watch).unwrap();
    server.handle(NOW, &label("out")).unwrap();
    server.handle(NOW, &label("in")).unwrap();
    let events = server.poll(&mut cursor, u64::MAX, 10).unwrap();
    assert!(matches!(events.as_slice(), [WatchEvent::Deleted(_), WatchEvent::Added(_)]), "{events:?}");
}

#[test]
fn a_watch_from_before_the_compaction_is_expired() {
    let (mut server, _) = server_with_map();
    let old = WatchRequest::new(maps(), "", Some("1"));
    let mut cursor = server.watch(&old).unwrap();
    server.compact(0);
    assert!(server.watch(&old).unwrap_err().is_expired());
    assert_eq!(server.poll(&mut cursor, u64::MAX, 10).unwrap_err().code, 410);
}

#[test]
fn a_snapshot_list_shows_what_was_there_then() {
    let (mut server, made) = server_with_map();
    let then: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    server.handle(NOW, &Request::delete(maps(), "default", "m")).unwrap();
    server.handle(NOW, &Request::create(maps(), "default", map("n"))).unwrap();
    let list = server.snapshot_list(&Request::list(maps(), ""), then).unwrap();
    assert_eq!(list["items"][0], made);
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[test]
fn events_written_through_one_group_are_read_through_the_other() {
    let mut server = Server::new(1);
    let fresh = ResourceName::new("events.k8s.io", "v1", "events");
    let event = json!({
        "metadata": {"name": "e"}, "note": "hello", "reason": "R", "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "eventTime": "1970-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c", "reportingInstance": "c-0", "action": "Do",
    });
    let made = server.handle(NOW, &Request::create(fresh, "default", event)).unwrap();
    assert_eq!((&made["note"], &made["apiVersion"]), (&json!("hello"), &json!("events.k8s.io/v1")));
    let about = Request::list(ResourceName::core("events"), "").where_field("involvedObject.name=p");
    let list = server.handle(NOW, &about).unwrap();
    assert_eq!(list["items"][0]["message"], "hello");
}

fn pod(image: &str) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn pods() -> ResourceName {
    ResourceName::core("pods")
}

#[test]
fn a_pod_gets_the_defaults_of_kubernetes() {
    let mut server = Server::new(1);
    let made = server.handle(NOW, &Request::create(pods(), "default", pod("i:1"))).unwrap();
    let spec = &made["spec"];
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(spec["containers"][0]["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(made["status"]["phase"], "Pending");
}

#[test]
fn of_a_pod_only_the_image_and_few_more_may_change() {
    let mut server = Server::new(1);
    server.handle(NOW, &Request::create(pods(), "default", pod("i:1"))).unwrap();
    let image = json!({"spec": {"containers": [{"name": "c", "image": "i:2"}]}});
    let mut patch = Request::merge_patch(pods(), "default", "p", image);
    patch.verb = fake_k8s::Verb::Patch(fake_k8s::PatchKind::StrategicMerge);
    server.handle(NOW, &patch).unwrap();
    patch.body = Some(json!({"spec": {"hostname": "other"}}));
    let status = server.handle(NOW, &patch).unwrap_err();
    assert!(status.is_invalid() && status.message.contains("pod updates may not change fields"), "{status}");
    let name = json!({"metadata": {"name": "P_"}, "spec": {"containers": []}});
    let status = server.handle(NOW, &Request::create(pods(), "default", name)).unwrap_err();
    assert!(
        status.message.contains("a lowercase RFC 1123 subdomain")
            && status.message.contains("spec.containers: Required value")
    );
}

#[test]
fn a_scheduled_pod_has_a_grace_period_and_an_unscheduled_one_has_none() {
    let mut server = Server::new(1);
    for bound in [false, true] {
        server.handle(NOW, &Request::create(pods(), "default", pod("i:1"))).unwrap();
        if bound {
            let target = json!({"target": {"kind": "Node", "name": "n"}});
            let bind = Request::create(pods(), "default", target).named("p").on_subresource("binding");
            server.handle(NOW, &bind).unwrap();
        }
        server.handle(NOW, &Request::delete(pods(), "default", "p")).unwrap();
        assert_eq!(server.peek(&pods(), "default", "p").is_some(), bound);
    }
    let held = server.peek(&pods(), "default", "p").unwrap();
    assert_eq!(held["metadata"]["deletionTimestamp"], "1970-01-01T00:00:30Z");
    server.handle(NOW, &Request::delete(pods(), "default", "p").grace(0)).unwrap();
    assert!(server.peek(&pods(), "default", "p").is_none());
}

#[test]
fn services_get_addresses_that_do_not_change() {
    let mut server = Server::new(1);
    let services = ResourceName::core("services");
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let a = server.handle(NOW, &Request::create(services.clone(), "default", service("a"))).unwrap();
    let b = server.handle(NOW, &Request::create(services.clone(), "default", service("b"))).unwrap();
    assert_ne!(a["spec"]["clusterIP"], b["spec"]["clusterIP"]);
    assert_eq!(a["spec"]["ports"][0], json!({"port": 80, "protocol": "TCP", "targetPort": 80}));
    let kept = server.handle(NOW, &Request::replace(services.clone(), "default", "a", service("a"))).unwrap();
    assert_eq!(kept, a);
    let change = json!({"spec": {"clusterIP": "10.96.9.9"}});
    let status = server.handle(NOW, &Request::merge_patch(services, "default", "a", change)).unwrap_err();
    assert!(status.message.contains("may not change once set"), "{status}");
}

#[test]
fn a_finalizer_holds_a_deleted_object_and_none_may_be_added() {
    let (mut server, _) = server_with_map();
    let finalizers = |f: Value| Request::merge_patch(maps(), "default", "m", json!({"metadata": {"finalizers": f}}));
    server.handle(NOW, &finalizers(json!(["a/b"]))).unwrap();
    server.handle(NOW, &Request::delete(maps(), "default", "m")).unwrap();
    let status = server.handle(NOW, &finalizers(json!(["a/b", "c/d"]))).unwrap_err();
    assert!(status.message.contains("no new finalizers can be added"), "{status}");
    server.handle(NOW, &finalizers(json!(null))).unwrap();
    assert!(server.peek(&maps(), "default", "m").is_none());
}

#[test]
fn a_list_is_read_in_pages_of_one_version() {
    let (mut server, _) = server_with_map();
    server.handle(NOW, &Request::create(maps(), "default", map("n"))).unwrap();
    let mut request = Request::list(maps(), "default");
    request.options.limit = 1;
    let first = server.handle(NOW, &request).unwrap();
    assert_eq!(first["items"][0]["metadata"]["name"], "m");
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    server.handle(NOW, &Request::delete(maps(), "default", "n")).unwrap();
    request.options.continue_token = first["metadata"]["continue"].as_str().map(str::to_owned);
    let second = server.handle(NOW, &request).unwrap();
    assert_eq!(second["items"][0]["metadata"]["name"], "n", "the pages show one moment");
    assert!(second["metadata"].get("continue").is_none());
}

#[test]
fn an_eviction_that_breaks_a_budget_is_refused() {
    let mut server = Server::new(1);
    let mut labelled = pod("i:1");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    server.handle(NOW, &Request::create(pods(), "default", labelled)).unwrap();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    server.handle(NOW, &Request::merge_patch(pods(), "default", "p", ready).on_subresource("status")).unwrap();
    let budgets = ResourceName::new("policy", "v1", "poddisruptionbudgets");
    let budget =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    server.handle(NOW, &Request::create(budgets.clone(), "default", budget)).unwrap();
    let evict = Request::create(pods(), "default", json!({})).named("p").on_subresource("eviction");
    assert_eq!(server.handle(NOW, &evict).unwrap_err().code, 429);
    server.handle(NOW, &Request::delete(budgets, "default", "b")).unwrap();
    server.handle(NOW, &evict).unwrap();
    assert!(server.peek(&pods(), "default", "p").is_none());
}

#[test]
fn of_a_bound_claim_only_the_size_may_grow_and_only_where_its_class_can() {
    let mut server = Server::new(1);
    let classes = ResourceName::new("storage.k8s.io", "v1", "storageclasses");
    let claims = ResourceName::core("persistentvolumeclaims");
    for (name, grows) in [("fixed", false), ("elastic", true)] {
        let class = json!({"metadata": {"name": name}, "provisioner": "x", "allowVolumeExpansion": grows});
        server.handle(NOW, &Request::create(classes.clone(), "", class)).unwrap();
        let claim = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": name, "resources": {"requests": {"storage": "1Gi"}}}});
        server.handle(NOW, &Request::create(claims.clone(), "default", claim)).unwrap();
        let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        server
            .handle(NOW, &Request::merge_patch(claims.clone(), "default", name, bound).on_subresource("status"))
            .unwrap();
    }
    let size = |name: &str, s: &str| {
        let body = json!({"spec": {"resources": {"requests": {"storage": s}}}});
        Request::merge_patch(claims.clone(), "default", name, body)
    };
    server.handle(NOW, &size("elastic", "2Gi")).unwrap();
    assert_eq!(server.handle(NOW, &size("fixed", "2Gi")).unwrap_err().code, 403);
    assert!(server.handle(NOW, &size("elastic", "512Mi")).unwrap_err().message.contains("less than status.capacity"));
    let modes = json!({"spec": {"accessModes": ["ReadWriteMany"]}});
    let status = server.handle(NOW, &Request::merge_patch(claims.clone(), "default", "elastic", modes)).unwrap_err();
    assert!(status.message.contains("spec is immutable after creation except"), "{status}");
}

#[test]
fn plain_data_of_a_secret_is_encoded_and_an_immutable_one_stays() {
    let mut server = Server::new(1);
    let secrets = ResourceName::core("secrets");
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}, "immutable": true});
    let made = server.handle(NOW, &Request::create(secrets.clone(), "default", secret)).unwrap();
    assert_eq!((&made["data"], &made["type"]), (&json!({"a": "Yg=="}), &json!("Opaque")));
    let change = json!({"stringData": {"a": "c"}});
    let status = server.handle(NOW, &Request::merge_patch(secrets, "default", "s", change)).unwrap_err();
    assert!(status.message.contains("data: Forbidden: field is immutable when `immutable` is set"), "{status}");
}

#[test]
fn a_dry_run_answers_and_changes_nothing() {
    let (mut server, _) = server_with_map();
    let before = server.resource_version();
    for mut request in [
        Request::create(maps(), "default", map("n")),
        Request::merge_patch(maps(), "default", "m", json!({"data": {"a": "9"}})),
        Request::delete(maps(), "default", "m"),
    ] {
        request.options.dry_run = true;
        server.handle(NOW, &request).unwrap();
    }
    assert_eq!(server.resource_version(), before);
}
