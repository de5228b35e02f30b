//! Objects that nobody checked when they were stored: the operator, over its own client, at an API server whose
//! definitions have no schema, as the archived operator's had none.

use etcd_operator::adapters::clock::{SystemClock, SystemRandom};
use etcd_operator::adapters::dial::Dialer;
use etcd_operator::adapters::etcd::EtcdAdapter;
use etcd_operator::adapters::object_store::ObjectStores;
use etcd_operator::adapters::{connect, kube::KubeAdapter, tls};
use etcd_operator::api::{GROUP, VERSION, schema};
use etcd_operator::controller::{self, Options};
use etcd_operator::leadership::Candidate;
use etcd_operator::ports::{Controller, Kind, NoMeter, Ports, Scope};
use etcd_operator::validate::Settings;
use fake_k8s::http::{Shared, kubeconfig, serve};
use fake_k8s::server::{Request, ResourceName, Server};
use futures::future::select;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;

const DEADLINE: SignedDuration = SignedDuration::from_secs(60);

fn plural(kind: &str) -> ResourceName {
    ResourceName::new(GROUP, VERSION, format!("{}s", kind.to_lowercase()))
}

/// With our definitions less their schemas.
fn server() -> Server {
    let mut server = Server::new(1);
    let definitions = ResourceName::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    for crd in schema::custom_resource_definitions() {
        let mut json = serde_json::to_value(&crd).expect("it serialises");
        json["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        // To be scaled, a size must be a number whatever the schema says.
        if let Some(subresources) = json["spec"]["versions"][0]["subresources"].as_object_mut() {
            subresources.remove("scale");
        }
        let mut request = Request::create(definitions.clone(), "", json);
        request.namespace = None;
        server.handle(Timestamp::UNIX_EPOCH, &request).unwrap_or_else(|status| panic!("{status}"));
    }
    server
}

fn store(server: &mut Server, kind: &str, name: &str, spec: &Value) {
    let object =
        json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind, "metadata": {"name": name}, "spec": spec});
    let stored = server.handle(Timestamp::UNIX_EPOCH, &Request::create(plural(kind), "default", object));
    stored.unwrap_or_else(|status| panic!("{name}: {status}"));
}

fn options() -> Options {
    Options {
        scope: Scope::Namespace("default".into()),
        clusterwide: false,
        controllers: Controller::ALL.into_iter().collect(),
        settings: Settings { agent_image: "operator:v1".into(), replace_after: SignedDuration::from_mins(2) },
        candidate: Candidate { namespace: "default".into(), identity: "me".into() },
        part_bytes: 1 << 20,
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own file lies among temporary ones")]
async fn ports(shared: &Shared) -> Ports {
    tls::install_crypto_provider();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let path = std::env::temp_dir().join(format!("unreadable-{}", std::process::id()));
    std::fs::write(&path, kubeconfig(listener.local_addr().expect("bound"))).expect("a temporary file");
    tokio::spawn(serve(shared.clone(), listener, None, std::future::pending()));
    let client = connect::kubernetes(Some(&path)).await;
    std::fs::remove_file(&path).expect("ours");
    Ports {
        kubernetes: Arc::new(KubeAdapter::new(client.expect("a kubeconfig").0)),
        etcd: Arc::new(EtcdAdapter::new(Dialer::tcp())),
        stores: Arc::new(ObjectStores::new(Dialer::tcp(), BTreeMap::new())),
        clock: Arc::new(SystemClock::start()),
        random: Arc::new(SystemRandom),
    }
}

/// Everything that is to be seen at the end, or what is missing of it.
fn missing(shared: &Shared) -> Option<String> {
    shared.run(|_, server| {
        let pods = server.peek_all(&ResourceName::core("pods"), Some("default"));
        if pods.len() != 3 {
            return Some(format!("{} pods", pods.len()));
        }
        let status = |kind, name| server.peek(&plural(kind), "default", name).expect("it is stored")["status"].clone();
        let named = [
            (status("EtcdBackup", "of-the-old-chart")["Reason"].clone(), "`spec.s3.path` must be"),
            (status("EtcdRestore", "of-nothing")["reason"].clone(), "`spec.backupStorageType` must be S3, ABS"),
            (status("EtcdBackup", "unknown-store")["Reason"].clone(), "`spec.storageType` must be S3, ABS"),
        ];
        if let Some((said, wanted)) =
            named.iter().find(|(said, wanted)| !said.as_str().is_some_and(|said| said.contains(wanted)))
        {
            return Some(format!("{wanted}: {said}"));
        }
        let events = server.peek_all(&ResourceName::core("events"), Some("default"));
        let unreadable = events.iter().filter(|event| event["reason"] == "Unreadable").count();
        (unreadable != 3).then(|| format!("{unreadable} events of unreadable objects"))
    })
}

#[test]
fn no_object_that_cannot_be_read_holds_up_another() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut server = server();
        store(&mut server, "EtcdCluster", "good", &json!({"size": 3, "version": "3.6.10"}));
        store(&mut server, "EtcdCluster", "bad", &json!({"size": "three"}));
        store(&mut server, "EtcdBackup", "bad", &json!({"storageType": "S3", "s3": "bucket/key"}));
        store(&mut server, "EtcdRestore", "bad", &json!({"etcdCluster": "bad"}));
        let chart = json!({"etcdEndpoints": ["http://a:2379"], "storageType": "S3", "s3": {"s3Bucket": "b", "awsSecret": "aws"}});
        store(&mut server, "EtcdBackup", "of-the-old-chart", &chart);
        store(&mut server, "EtcdBackup", "unknown-store", &json!({"etcdEndpoints": ["http://a:2379"], "storageType": "FTP"}));
        store(&mut server, "EtcdRestore", "of-nothing", &json!({"s3": {"path": "bucket/key", "awsSecret": "aws"}}));
        let shared = Shared::new(server);
        let ports = ports(&shared).await;
        let (clock, kubernetes) = (ports.clock.clone(), ports.kubernetes.clone());
        let (mut commits, seen) = (shared.subscribe(), shared.clone());
        let all_seen = async move {
            while missing(&seen).is_some() {
                commits.changed().await.expect("the server lives");
            }
        };
        let stop = async move {
            select(Box::pin(all_seen), clock.sleep(DEADLINE)).await;
        };
        controller::run(ports, options(), Arc::new(NoMeter), stop).await;
        assert_eq!(missing(&shared), None);
        let listed = kubernetes.list(Kind::EtcdRestore, &Scope::Namespace("default".into()), None).await;
        let names: Vec<_> = listed.expect("a list").iter().map(|restore| restore.key().name).collect();
        assert_eq!(names, ["of-nothing"], "what is being restored is known whatever else is stored");
    });
}
