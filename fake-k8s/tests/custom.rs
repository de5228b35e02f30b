//! Custom resources: schemas, CEL, pruning, subresources, and the end of a definition.
use fake_k8s::{FieldValidation, PatchKind, Request, ResourceName, Server, Status, Verb};
use jiff::Timestamp;
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn widgets() -> ResourceName {
    ResourceName::new("example.com", "v1", "widgets")
}

fn definitions() -> ResourceName {
    ResourceName::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["toys"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-validations": [{"rule": "self.metadata.name.size() <= 12", "message": "name too long"}],
                    "properties": {
                        "spec": {
                            "type": "object", "required": ["size"],
                            "x-kubernetes-validations": [
                                {"rule": "!has(self.kind) || self.kind != 'even' || self.size % 2 == 0", "message": "even wants an even size"},
                                {"rule": "self.size >= oldSelf.size - 1", "messageExpression": "'cannot shrink from ' + string(oldSelf.size)", "fieldPath": ".size"}
                            ],
                            "properties": {
                                "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9},
                                "kind": {"type": "string", "enum": ["odd", "even"]},
                                "version": {"type": "string", "pattern": "^[0-9.]+$", "maxLength": 8, "default": "1.0"},
                                "port": {"x-kubernetes-int-or-string": true},
                                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                                "names": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
                            }
                        },
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
                    }
                }}
            }]
        }
    })
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn server() -> Server {
    let mut server = Server::new(7);
    server.handle(NOW, &Request::create(definitions(), "", definition())).unwrap();
    server
}

fn create(server: &mut Server, spec: &Value) -> Result<Value, Status> {
    server.handle(NOW, &Request::create(widgets(), "default", widget("w", spec)))
}

fn refusal(spec: &Value) -> String {
    create(&mut server(), spec).unwrap_err().message
}

#[test]
fn a_definition_is_established_and_served_at_once() {
    let server = server();
    let info = server.resource("example.com", "v1", "widgets").unwrap();
    assert_eq!(
        (info.kind.as_str(), info.list_kind.as_str(), info.singular.as_str()),
        ("Widget", "WidgetList", "widget")
    );
    let stored = server.peek(&definitions(), "", "widgets.example.com").unwrap();
    assert!(stored["status"]["conditions"].as_array().unwrap().iter().any(|c| c["type"] == "Established"));
}

#[test]
fn wrong_values_are_refused_in_the_words_of_kubernetes() {
    let head = "Widget.example.com \"w\" is invalid: ";
    let cases = [
        (json!({"size": 0}), "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        (json!({"size": 10}), "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"),
        (
            json!({"size": 1, "version": "abc"}),
            "spec.version: Invalid value: \"abc\": spec.version in body should match '^[0-9.]+$'",
        ),
        (json!({"size": 1, "version": "1.2.3.4.5.6"}), "spec.version: Too long: may not be more than 8 bytes"),
        (
            json!({"size": 1, "kind": "big"}),
            "spec.kind: Unsupported value: \"big\": supported values: \"odd\", \"even\"",
        ),
        (
            json!({"size": "3"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (json!({"size": 3, "kind": "even"}), "spec: Invalid value: \"object\": even wants an even size"),
        (
            json!({"size": 3, "port": true}),
            "spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\"",
        ),
        (json!({"size": 3, "names": ["a", "b", "a"]}), "spec.names[2]: Duplicate value: \"a\""),
        (
            json!({"size": 3, "labels": {"a": 1}}),
            "spec.labels.a: Invalid value: \"integer\": spec.labels.a in body must be of type string: \"integer\"",
        ),
    ];
    for (spec, sentence) in cases {
        let found = refusal(&spec);
        assert!(
            found.starts_with(&format!("{head}{sentence}")) || found.starts_with(&format!("{head}[{sentence}")),
            "{spec}: {found}"
        );
    }
    assert!(refusal(&json!({})).contains("spec.size: Required value"), "{}", refusal(&json!({})));
}

#[test]
fn the_root_rule_sees_the_name() {
    let mut server = server();
    let long = widget("much-too-long-a-name", &json!({"size": 1}));
    let status = server.handle(NOW, &Request::create(widgets(), "default", long)).unwrap_err();
    assert!(status.message.ends_with("<nil>: Invalid value: \"object\": name too long"), "{status}");
}

#[test]
fn transition_rules_run_on_updates_only() {
    let mut server = server();
    create(&mut server, &json!({"size": 5})).unwrap();
    let shrink = |n: i64| Request::merge_patch(widgets(), "default", "w", json!({"spec": {"size": n}}));
    let status = server.handle(NOW, &shrink(3)).unwrap_err();
    assert!(status.message.contains("spec.size: Invalid value: \"object\": cannot shrink from 5"), "{status}");
    server.handle(NOW, &shrink(4)).unwrap();
}

#[test]
fn unknown_fields_are_pruned_warned_of_or_refused() {
    let body = json!({"size": 1, "sise": 2, "free": {"x": 1}});
    let mut server = server();
    let made = create(&mut server, &body).unwrap();
    assert_eq!(made["spec"], json!({"size": 1, "free": {"x": 1}, "version": "1.0"}));
    assert_eq!(server.warnings(), ["unknown field \"spec.sise\""]);
    let mut strict = Request::create(widgets(), "default", widget("v", &body));
    strict.options.field_validation = FieldValidation::Strict;
    let status = server.handle(NOW, &strict).unwrap_err();
    assert_eq!(status.code, 400);
    assert!(status.message.ends_with("strict decoding error: unknown field \"spec.sise\""), "{status}");
}

#[test]
fn status_and_spec_are_written_through_their_own_endpoints() {
    let mut server = server();
    let mut body = widget("w", &json!({"size": 1}));
    body["status"] = json!({"size": 1});
    let made = server.handle(NOW, &Request::create(widgets(), "default", body)).unwrap();
    assert!(made.get("status").is_none());
    let mut both = made.clone();
    both["spec"]["size"] = json!(2);
    both["status"] = json!({"size": 2});
    let main = server.handle(NOW, &Request::replace(widgets(), "default", "w", both.clone())).unwrap();
    assert_eq!((main.get("status"), &main["metadata"]["generation"]), (None, &json!(2)));
    both["metadata"]["resourceVersion"] = main["metadata"]["resourceVersion"].clone();
    both["spec"]["size"] = json!(9);
    let status = server.handle(NOW, &Request::replace_status(widgets(), "default", "w", both)).unwrap();
    assert_eq!((&status["spec"]["size"], &status["status"]["size"]), (&json!(2), &json!(2)));
    assert_eq!(status["metadata"]["generation"], 2);
}

#[test]
fn scale_reads_and_writes_through_its_paths() {
    let mut server = server();
    create(&mut server, &json!({"size": 3})).unwrap();
    let get = Request::get(widgets(), "default", "w").on_subresource("scale");
    assert_eq!(server.handle(NOW, &get).unwrap()["spec"]["replicas"], 3);
    let patch =
        Request::merge_patch(widgets(), "default", "w", json!({"spec": {"replicas": 5}})).on_subresource("scale");
    assert_eq!(server.handle(NOW, &patch).unwrap()["spec"]["replicas"], 5);
    assert_eq!(server.peek(&widgets(), "default", "w").unwrap()["spec"]["size"], 5);
}

#[test]
fn a_replace_without_a_version_is_refused_for_custom_resources() {
    let mut server = server();
    create(&mut server, &json!({"size": 3})).unwrap();
    let body = widget("w", &json!({"size": 4}));
    let status = server.handle(NOW, &Request::replace(widgets(), "default", "w", body)).unwrap_err();
    assert!(status.message.contains("metadata.resourceVersion") && status.is_invalid(), "{status}");
}

#[test]
fn a_deleted_definition_takes_its_objects_with_it() {
    let mut server = server();
    create(&mut server, &json!({"size": 3})).unwrap();
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    server.handle(NOW, &Request::merge_patch(widgets(), "default", "w", hold)).unwrap();
    server.handle(NOW, &Request::delete(definitions(), "", "widgets.example.com")).unwrap();
    assert!(server.peek(&widgets(), "default", "w").is_some(), "the finalizer holds the object");
    let free = json!({"metadata": {"finalizers": null}});
    server.handle(NOW, &Request::merge_patch(widgets(), "default", "w", free)).unwrap();
    assert!(server.peek(&definitions(), "", "widgets.example.com").is_none());
    assert!(server.handle(NOW, &Request::list(widgets(), "")).unwrap_err().is_not_found());
}

fn apply(server: &mut Server, manager: &str, spec: &Value, force: bool) -> Result<Value, Status> {
    let mut request = Request::new(Verb::Patch(PatchKind::Apply), widgets()).in_namespace("default").named("w");
    request.body = Some(widget("w", spec));
    request.options.field_manager = Some(manager.into());
    request.options.force = force;
    server.handle(NOW, &request)
}

#[test]
fn what_a_manager_no_longer_applies_is_removed() {
    let mut server = server();
    apply(&mut server, "a", &json!({"size": 3, "labels": {"x": "1", "y": "2"}}), false).unwrap();
    let before = server.resource_version();
    apply(&mut server, "a", &json!({"size": 3, "labels": {"x": "1", "y": "2"}}), false).unwrap();
    assert_eq!(server.resource_version(), before, "applying the same again writes nothing");
    let now = apply(&mut server, "a", &json!({"size": 3, "labels": {"y": "2"}}), false).unwrap();
    assert_eq!(now["spec"]["labels"], json!({"y": "2"}));
}

#[test]
fn two_managers_conflict_unless_forced() {
    let mut server = server();
    apply(&mut server, "a", &json!({"size": 3}), false).unwrap();
    let status = apply(&mut server, "b", &json!({"size": 4}), false).unwrap_err();
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"a\": .spec.size");
    let forced = apply(&mut server, "b", &json!({"size": 4}), true).unwrap();
    assert_eq!(forced["spec"]["size"], 4);
    let left = apply(&mut server, "a", &json!({}), false).unwrap();
    assert_eq!(left["spec"]["size"], 4, "what another manager applies stays");
}

#[test]
fn what_did_not_change_is_not_judged_again_by_a_stricter_schema() {
    let mut server = server();
    create(&mut server, &json!({"size": 9})).unwrap();
    let mut stricter = Value::clone(&server.peek(&definitions(), "", "widgets.example.com").unwrap());
    let root = &mut stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    root["properties"]["spec"]["properties"]["size"]["maximum"] = json!(5);
    server.handle(NOW, &Request::replace(definitions(), "", "widgets.example.com", stricter)).unwrap();
    let patch = |spec: Value| Request::merge_patch(widgets(), "default", "w", json!({"spec": spec}));
    server.handle(NOW, &patch(json!({"kind": "odd"}))).unwrap();
    assert!(server.handle(NOW, &patch(json!({"size": 8}))).unwrap_err().is_invalid());
    server.handle(NOW, &patch(json!({"size": null}))).unwrap_err();
}

#[test]
fn a_definition_with_a_broken_schema_is_refused_with_the_place() {
    let mut server = Server::new(1);
    let mut broken = definition();
    let spec = &mut broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["version"]["pattern"] = json!("(");
    spec["x-kubernetes-validations"][0]["rule"] = json!("self.size >");
    let status = server.handle(NOW, &Request::create(definitions(), "", broken)).unwrap_err();
    assert!(status.message.contains("properties[spec].properties[version].pattern: Invalid value: \"(\""), "{status}");
    assert!(status.message.contains("properties[spec].x-kubernetes-validations[0].rule"), "{status}");
}
