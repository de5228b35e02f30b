//! What the CustomResourceDefinitions admit and what they refuse, asked of an API server that has them.

use etcd_operator::api::{GROUP, VERSION, schema};
use fake_k8s::server::{FieldValidation, Options, Request, ResourceName, Server, Status};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

const ADMITTED: [(&str, &str); 2] = [
    ("contract.yaml", include_str!("api_cases/contract.yaml")),
    ("legacy.yaml", include_str!("api_cases/legacy.yaml")),
];
const REJECTED: (&str, &str) = ("rejected.yaml", include_str!("api_cases/rejected.yaml"));

#[derive(Deserialize)]
struct Case {
    case: String,
    /// A part of the answer.
    rejected: Option<String>,
    object: Value,
}

fn cases((file, text): (&str, &str)) -> Vec<Case> {
    let read =
        |document| serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{file}: {error}\n{document}"));
    text.split("\n---\n").map(read).collect()
}

fn server() -> Server {
    let mut server = Server::new(1);
    let definitions = ResourceName::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    for crd in schema::custom_resource_definitions() {
        let mut request = Request::create(definitions.clone(), "", serde_json::to_value(&crd).expect("it serialises"));
        request.namespace = None;
        let answer = server.handle(Timestamp::UNIX_EPOCH, &strictly(request));
        answer.unwrap_or_else(|status| panic!("{}: {status}", crd.spec.names.plural));
    }
    server
}

fn strictly(request: Request) -> Request {
    request.with_options(Options { field_validation: FieldValidation::Strict, ..Options::default() })
}

fn resource(object: &Value) -> ResourceName {
    let kind = object["kind"].as_str().expect("a case has a kind");
    ResourceName::new(GROUP, VERSION, format!("{}s", kind.to_lowercase()))
}

fn create(server: &mut Server, object: &Value) -> Result<Value, Status> {
    let mut object = object.clone();
    object.as_object_mut().expect("an object").remove("status");
    server.handle(Timestamp::UNIX_EPOCH, &strictly(Request::create(resource(&object), "default", object)))
}

#[test]
fn every_manifest_and_stored_object_of_the_archived_operator_is_admitted_with_its_status() {
    let mut server = server();
    for Case { case, object, .. } in ADMITTED.into_iter().flat_map(cases) {
        let name = object["metadata"]["name"].as_str().expect("a case has a name");
        let mut created = create(&mut server, &object).unwrap_or_else(|status| panic!("{case}: {status}"));
        if let Some(status) = object.get("status") {
            created["status"] = status.clone();
            let request = strictly(Request::replace_status(resource(&object), "default", name, created));
            let answer = server.handle(Timestamp::UNIX_EPOCH, &request);
            let answer = answer.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(answer["status"]["succeeded"], status["succeeded"], "{case}");
            assert_eq!(answer["status"]["phase"], status["phase"], "{case}");
        }
        let merge = json!({"metadata": {"finalizers": null}});
        let now = Timestamp::UNIX_EPOCH;
        server.handle(now, &Request::merge_patch(resource(&object), "default", name, merge)).expect("it is there");
        server.handle(now, &Request::delete(resource(&object), "default", name)).expect("it is there");
    }
}

#[test]
fn bad_input_is_refused_with_the_field_and_what_is_allowed() {
    let mut server = server();
    let mut wrong = Vec::new();
    for Case { case, rejected, object } in cases(REJECTED) {
        let wanted = rejected.expect("each of these is to be rejected");
        match create(&mut server, &object) {
            Ok(_) => wrong.push(format!("{case}: was admitted")),
            Err(status) if status.message.contains(&wanted) => {}
            Err(status) => wrong.push(format!("{case}: wanted `{wanted}`, got `{status}`")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_size_is_scaled_through_the_subresource_and_stays_within_bounds() {
    let mut server = server();
    let clusters = ResourceName::new(GROUP, VERSION, "etcdclusters");
    let object = json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": "example"}, "spec": {"size": 3},
    });
    create(&mut server, &object).expect("it is admitted");
    let mut scale = |size: i64| {
        let body = json!({"spec": {"replicas": size}});
        let request = Request::merge_patch(clusters.clone(), "default", "example", body).on_subresource("scale");
        server.handle(Timestamp::UNIX_EPOCH, &request)
    };
    assert_eq!(scale(5).expect("5 is a size")["spec"]["replicas"], 5);
    assert!(scale(10).is_err());
    assert!(scale(0).is_err());
    let get = Request::get(clusters.clone(), "default", "example");
    let cluster = server.handle(Timestamp::UNIX_EPOCH, &get).expect("it is there");
    assert_eq!(cluster["spec"]["size"], 5);
}

#[test]
fn a_null_is_as_good_as_nothing() {
    let mut server = server();
    let object = json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup", "metadata": {"name": "example"},
        "spec": {"etcdEndpoints": ["http://a:2379"], "storageType": "S3", "s3": {"path": "b/k", "awsSecret": null},
                 "oss": null, "backupPolicy": null},
    });
    let created = create(&mut server, &object).expect("it is admitted");
    assert_eq!(created["spec"].get("oss"), None);
    assert_eq!(created["spec"]["s3"].get("awsSecret"), None);
}
