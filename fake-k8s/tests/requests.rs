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
