//! What the CustomResourceDefinitions admit and what they refuse, asked of an API server that has them.

use etcd_operator::api::{GROUP, VERSION, schema};
use fake_k8s::server::table::IncludeObject;
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

/// What `kubectl get` prints of these objects, with all columns as with `-o wide`.
fn table(server: &mut Server, plural: &str, objects: &[(Value, Value)]) -> String {
    let resource = ResourceName::new(GROUP, VERSION, plural);
    for (object, status) in objects {
        let mut created = create(server, object).unwrap_or_else(|status| panic!("{status}"));
        let name = created["metadata"]["name"].as_str().expect("it has a name").to_owned();
        created["status"] = status.clone();
        let written = Request::replace_status(resource.clone(), "default", &name, created);
        server.handle(Timestamp::UNIX_EPOCH, &strictly(written)).unwrap_or_else(|status| panic!("{status}"));
    }
    let list = Request::list(resource, "default");
    let list = server.handle(Timestamp::UNIX_EPOCH, &list).expect("they are there");
    let info = server.resource(GROUP, VERSION, plural).expect("it is served");
    let now = Timestamp::from_second(125).expect("a time");
    let items = list["items"].as_array().expect("a list");
    let table = fake_k8s::server::table::table(info, items, &json!({}), IncludeObject::None, now);
    let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string().replace("null", ""), str::to_owned);
    let columns = table["columnDefinitions"].as_array().expect("columns").iter();
    let mut lines = vec![columns.map(|column| text(&column["name"]).to_uppercase()).collect::<Vec<_>>()];
    let rows = table["rows"].as_array().expect("rows").iter();
    lines.extend(rows.map(|row| row["cells"].as_array().expect("cells").iter().map(text).collect()));
    let width = |index: usize| lines.iter().map(|line| line[index].len()).max().unwrap_or_default() + 3;
    let padded = |line: &Vec<String>| -> String {
        let cells = line.iter().enumerate().map(|(index, cell)| format!("{cell:<0$}", width(index)));
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    lines.iter().map(padded).collect()
}

#[test]
fn kubectl_get_tells_how_a_cluster_is_at_a_glance() {
    let cluster = |name: &str, size: i64, version: &str| {
        json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
            "metadata": {"name": name}, "spec": {"size": size, "version": version},
        })
    };
    let running = json!({
        "phase": "Running", "ready": "3/3", "size": 3, "currentVersion": "3.6.10", "leader": "good-a",
    });
    let failed = json!({
        "phase": "Failed", "ready": "0/3", "size": 3, "currentVersion": "3.5.35", "reason": "all members are gone",
    });
    let objects = [
        (cluster("bad", 3, "3.6.10"), failed),
        (cluster("good", 3, "3.6.10"), running),
        (cluster("new", 5, "3.7.3"), json!({})),
    ];
    let wanted = "\
NAME   SIZE   READY   VERSION   PHASE     LEADER   REASON                 AGE
bad    3      0/3     3.5.35    Failed             all members are gone   2m5s
good   3      3/3     3.6.10    Running   good-a                          2m5s
new    5                                                                  2m5s
";
    assert_eq!(table(&mut server(), "etcdclusters", &objects), wanted);
}

#[test]
fn kubectl_get_tells_what_became_of_backups_and_restores() {
    let s3 = json!({"path": "backups/one", "awsSecret": "aws"});
    let backup = |name: &str| {
        json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup", "metadata": {"name": name},
            "spec": {"etcdEndpoints": ["http://c-client:2379"], "storageType": "S3", "s3": s3},
        })
    };
    let done = json!({
        "phase": "Succeeded", "succeeded": true, "etcdRevision": 801, "lastSuccessDate": "1970-01-01T00:01:00Z",
    });
    let refused = json!({"phase": "Failed", "succeeded": false, "Reason": "the bucket does not exist"});
    let wanted = "\
NAME      TYPE   PHASE       REVISION   LAST SUCCESS   REASON                      AGE
done      S3     Succeeded   801        65s                                        2m5s
refused   S3     Failed                                the bucket does not exist   2m5s
";
    let objects = [(backup("done"), done), (backup("refused"), refused)];
    assert_eq!(table(&mut server(), "etcdbackups", &objects), wanted);

    let restore = json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdRestore", "metadata": {"name": "c"},
        "spec": {"etcdCluster": {"name": "c"}, "backupStorageType": "S3", "s3": s3},
    });
    let verifying = json!({"phase": "Verifying", "succeeded": false, "reason": "reading `backups/one`"});
    let wanted = "\
NAME   CLUSTER   TYPE   PHASE       REVISION   REASON                  AGE
c      c         S3     Verifying              reading `backups/one`   2m5s
";
    assert_eq!(table(&mut server(), "etcdrestores", &[(restore, verifying)]), wanted);
}
