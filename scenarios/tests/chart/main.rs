//! The chart, as helm sees it and as Kubernetes would: it is linted, rendered with each of the values in `ci/`, and every
//! object that comes out is held against Kubernetes' own schema and created on an API server that has our definitions.
//!
//! Not verified: what helm does on an upgrade of a release, and that a real cluster schedules the Deployment.
#![allow(clippy::print_stdout)] // A test that cannot run says so.

mod flags;
mod helm;
mod rights;
mod schemas;
mod values;

use etcd_operator::api::{EtcdCluster, GROUP, schema};
use etcd_operator::validate::{Settings, validate};
use fake_k8s::server::{FieldValidation, Options, Request, ResourceName, Server};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;

use helm::{NAMESPACE, Values, kind, of_kind, rendered, with};
use schemas::Schemas;

#[test]
fn helm_finds_nothing_wrong_with_any_of_the_values() {
    for values in Values::all() {
        let Some(answer) = helm::run(&["lint", "--quiet", "--strict"], &values) else { return };
        assert!(answer.status.success(), "{values}: {}", helm::words(&answer));
    }
}

#[test]
fn every_rendered_object_meets_the_schema_that_kubernetes_publishes() {
    for values in Values::all() {
        let Some(objects) = rendered(&values) else { return };
        let mut schemas = Schemas::new();
        // Ours have theirs in the definitions, by which the next test creates them.
        for object in objects.iter().filter(|object| !text(&object["apiVersion"]).starts_with(GROUP)) {
            let refusal = schemas.refusal(object);
            assert_eq!(refusal, None, "{values}: {} {}", kind(object), object["metadata"]["name"]);
        }
    }
}

#[test]
fn every_rendered_object_is_created_by_a_strict_api_server() {
    for values in Values::all() {
        let Some(objects) = rendered(&values) else { return };
        let mut server = Server::new(1);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        create(&mut server, &namespace, "namespaces").expect("a namespace is a namespace");
        let (definitions, others): (Vec<_>, Vec<_>) =
            objects.iter().partition(|object| kind(object) == "CustomResourceDefinition");
        for object in definitions.into_iter().chain(others) {
            let created = create(&mut server, object, &plural(object));
            let created = created.unwrap_or_else(|status| panic!("{values}: {}: {status}\n{object:#}", kind(object)));
            if kind(&created) == "EtcdCluster" {
                assert_valid(&created, &values);
            }
        }
    }
}

#[test]
fn the_rendered_definitions_are_the_ones_of_the_code() {
    let Some(objects) = rendered(&Values::None) else { return };
    let wanted = schema::custom_resource_definitions();
    let found: Vec<_> = of_kind(&objects, "CustomResourceDefinition").collect();
    assert_eq!(found.len(), wanted.len());
    for definition in wanted {
        let definition = serde_json::to_value(&definition).expect("it serialises");
        assert!(found.contains(&&definition), "{} differs", definition["metadata"]["name"]);
    }
}

#[test]
fn without_the_other_controllers_no_deployment_of_theirs_is_there() {
    let off = "deployments.etcdOperator=false,deployments.backupOperator=false,deployments.restoreOperator=false";
    let Some(objects) = rendered(&with(off)) else { return };
    assert_eq!(of_kind(&objects, "Deployment").count(), 0, "nothing is to be run");
    let Some(objects) = rendered(&Values::None) else { return };
    assert_eq!(of_kind(&objects, "Deployment").count(), 1, "three controllers are one process");
}

#[test]
fn names_that_objects_refer_to_each_other_by_are_rendered_too() {
    for values in Values::all().into_iter().chain([with("serviceAccount.name=another"), with("clusterWide=true")]) {
        let Some(objects) = rendered(&values) else { return };
        let there: BTreeSet<_> =
            objects.iter().map(|object| (kind(object), text(&object["metadata"]["name"]))).collect();
        let deployment = of_kind(&objects, "Deployment").next().expect("it is rendered");
        let pod = &deployment["spec"]["template"];
        let account = text(&pod["spec"]["serviceAccountName"]);
        assert!(there.contains(&("ServiceAccount".to_owned(), account.clone())), "{values}: account {account}");
        for (key, value) in deployment["spec"]["selector"]["matchLabels"].as_object().expect("it selects by labels") {
            assert_eq!(&pod["metadata"]["labels"][key], value, "{values}: the pods are the Deployment's");
        }
        let bindings: Vec<_> = objects.iter().filter(|object| kind(object).ends_with("Binding")).collect();
        assert!(!bindings.is_empty());
        for binding in bindings {
            let role = (text(&binding["roleRef"]["kind"]), text(&binding["roleRef"]["name"]));
            assert!(there.contains(&role), "{values}: {role:?}");
            assert_eq!(binding["subjects"][0]["name"], account.as_str(), "{values}");
            assert_eq!(binding["subjects"][0]["namespace"], NAMESPACE, "{values}");
        }
    }
}

#[test]
fn a_backup_or_a_restore_without_its_path_is_refused_with_the_value_to_set() {
    for (value, expected) in [
        ("customResources.createBackupCRD=true", "backupOperator.spec.s3.s3Bucket must be <bucket>/<key>"),
        ("customResources.createRestoreCRD=true", "restoreOperator.spec.s3.path must be <bucket>/<key>"),
    ] {
        let Some(answer) = helm::template(&with(value)) else { return };
        assert!(!answer.status.success(), "{value}");
        assert!(helm::words(&answer).contains(expected), "{value}: {}", helm::words(&answer));
    }
}

fn create(server: &mut Server, object: &Value, plural: &str) -> Result<Value, fake_k8s::server::Status> {
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let options = Options { field_validation: FieldValidation::Strict, ..Options::default() };
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let request = Request::create(ResourceName::new(group, version, plural), namespace, object.clone());
    server.handle(Timestamp::UNIX_EPOCH, &request.with_options(options))
}

fn plural(object: &Value) -> String {
    format!("{}s", kind(object).to_lowercase())
}

/// What the chart makes of the values is a cluster that the operator takes.
fn assert_valid(cluster: &Value, values: &Values) {
    assert!(text(&cluster["apiVersion"]).starts_with(GROUP));
    let cluster: EtcdCluster = serde_json::from_value(cluster.clone()).expect("the server validated it");
    let settings = Settings { agent_image: "etcd-operator".into(), replace_after: SignedDuration::from_mins(5) };
    if let Err(findings) = validate(&cluster, None, &settings) {
        panic!("{values}: {findings:#?}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
