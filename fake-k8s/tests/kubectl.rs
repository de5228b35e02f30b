//! The real kubectl against the HTTP front, on loopback.
#![cfg(feature = "serve")]
#![allow(clippy::print_stdout)] // A test that cannot run says so.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fake_k8s::controllers::Controller;
use fake_k8s::controllers::garbage_collector::GarbageCollector;
use fake_k8s::controllers::namespaces::Namespaces;
use fake_k8s::controllers::volumes::Volumes;
use fake_k8s::http::driver::drive;
use fake_k8s::http::logs::{LogRequest, LogSource, LogStream};
use fake_k8s::http::{Shared, kubeconfig, serve};
use fake_k8s::{Request, ResourceName, Server, Status};
use futures::StreamExt;
use serde_json::{Value, json};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A server of its own for each test.
struct Lab {
    shared: Shared,
    folder: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Lab {
    /// `None`, and a word of it, where there is no kubectl.
    #[expect(clippy::disallowed_methods, reason = "a test's own folder lies among temporary ones")]
    fn start() -> Option<Self> {
        if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
            println!("SKIPPED: kubectl is not on PATH, nothing was checked");
            return None;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::new(Server::new(3));
        runtime.spawn(serve(shared.clone(), listener, None, std::future::pending()));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("fake-k8s-kubectl-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config"), kubeconfig(address)).unwrap();
        Some(Self { shared, folder, runtime })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.folder.join("config")).arg("--cache-dir").arg(self.folder.join("cache"));
        command.args(line.split_whitespace());
        command
    }

    fn output(&self, line: &str, input: &str) -> Output {
        let mut child = self.spawn(line);
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn spawn(&self, line: &str) -> Child {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn ok_with(&self, line: &str, input: &str) -> String {
        let output = self.output(line, input);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {line}\n{out}{err}");
        format!("{out}{err}")
    }

    fn ok(&self, line: &str) -> String {
        self.ok_with(line, "")
    }

    fn refused_with(&self, line: &str, input: &str) -> String {
        let output = self.output(line, input);
        assert!(!output.status.success(), "kubectl {line} was to be refused: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn with_widgets() -> Option<Self> {
        let lab = Self::start()?;
        lab.ok_with("apply -f -", &definition().to_string());
        Some(lab)
    }

    fn set_status(&self, name: &str, status: &Value) {
        self.shared.run(|now, server| {
            let body = json!({"status": status});
            let patch = Request::merge_patch(widgets(), "default", name, body).on_subresource("status");
            server.handle(now, &patch).unwrap();
        });
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn widgets() -> ResourceName {
    ResourceName::new("example.com", "v1", "widgets")
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
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object", "description": "A widget.",
                    "properties": {
                        "spec": {"type": "object", "required": ["size"], "properties": {
                            "size": {"type": "integer", "minimum": 1, "description": "How big it is."},
                            "mode": {"type": "string"}
                        }},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
                    }
                }}
            }]
        }
    })
}

const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 3}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: x}}\nspec:\n  containers:\n  - {name: c, image: 'i:1', env: [{name: A, value: '1'}]}\n";

#[test]
fn apply_get_and_delete_of_a_custom_resource() {
    let Some(lab) = Lab::with_widgets() else { return };
    assert_eq!(lab.ok_with("apply -f -", WIDGET).trim(), "widget.example.com/w created");
    assert_eq!(lab.ok_with("apply -f -", WIDGET).trim(), "widget.example.com/w unchanged");
    assert_eq!(lab.ok_with("apply -f -", &WIDGET.replace("3", "4")).trim(), "widget.example.com/w configured");
    let table = lab.ok("get wd");
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words[..6], ["NAME", "SIZE", "READY", "AGE", "w", "4"], "{table}");
    for (output, wanted) in [
        ("-o name", "widget.example.com/w"),
        ("-o jsonpath={.items[0].spec.size}", "4"),
        ("-o yaml", "kind: Widget"),
        ("-o json", "\"kind\": \"Widget\""),
        ("-o wide", "SIZE"),
        ("-A", "NAMESPACE"),
        ("-l a=b", "No resources found"),
        ("-o custom-columns=N:.metadata.name", "N\nw"),
    ] {
        let found = lab.ok(&format!("get widgets {output}"));
        assert!(found.contains(wanted), "{output}: {found}");
    }
    assert!(lab.ok("get toys").contains("widget.example.com/w") || lab.ok("get toys").contains("w "));
    assert!(lab.ok("get wd,cm,pods").contains("widget.example.com/w"));
    assert!(lab.ok("delete wd w --wait").contains("deleted"));
    assert!(lab.refused_with("get wd w", "").contains("widgets.example.com \"w\" not found"));
}

#[test]
fn server_side_apply_creates_changes_and_conflicts() {
    let Some(lab) = Lab::with_widgets() else { return };
    assert!(lab.ok_with("apply --server-side -f -", WIDGET).contains("serverside-applied"));
    let with_mode = WIDGET.replace("size: 3", "size: 3, mode: x");
    lab.ok_with("apply --server-side -f -", &with_mode);
    lab.ok_with("apply --server-side -f -", WIDGET);
    assert_eq!(lab.ok("get wd w -o jsonpath={.spec}"), "{\"size\":3}");
    let other = WIDGET.replace("3", "5");
    let refusal = lab.refused_with("apply --server-side --field-manager=other -f -", &other);
    assert!(refusal.contains("conflict"), "{refusal}");
    lab.ok_with("apply --server-side --field-manager=other --force-conflicts -f -", &other);
}

#[test]
fn a_misspelt_field_and_a_wrong_value_are_named() {
    let Some(lab) = Lab::with_widgets() else { return };
    let refusal = lab.refused_with("apply -f -", &WIDGET.replace("size", "sise"));
    assert!(refusal.contains("unknown field \"spec.sise\""), "{refusal}");
    let refusal = lab.refused_with("create -f -", &WIDGET.replace("3", "0"));
    let sentence = "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1";
    assert!(refusal.contains(sentence), "{refusal}");
    let warned = lab.ok_with("apply --validate=warn -f -", &WIDGET.replace("size: 3", "size: 3, sise: 2"));
    assert!(warned.contains("Warning: unknown field \"spec.sise\""), "{warned}");
}

#[test]
fn patch_scale_label_and_annotate() {
    let Some(lab) = Lab::with_widgets() else { return };
    lab.ok_with("create -f -", WIDGET);
    lab.ok("patch wd w --type=merge -p {\"spec\":{\"size\":4}}");
    lab.ok("patch wd w --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/size\",\"value\":5}]");
    assert!(lab.ok("scale wd w --replicas=6").contains("scaled"));
    assert_eq!(lab.ok("get wd w -o jsonpath={.spec.size}"), "6");
    lab.ok("label wd w a=b");
    lab.ok("annotate wd w c=d");
    assert!(lab.ok("get wd -l a=b").contains("w "));
    lab.ok("patch wd w --subresource=status --type=merge -p {\"status\":{\"size\":6}}");
    assert_eq!(lab.ok("get wd w -o jsonpath={.status.size}"), "6");
}

#[test]
fn wait_sees_conditions_values_and_deletion() {
    let Some(lab) = Lab::with_widgets() else { return };
    lab.ok_with("create -f -", WIDGET);
    let waits = [
        lab.spawn("wait wd/w --for=condition=Ready --timeout=20s"),
        lab.spawn("wait wd/w --for=jsonpath={.status.phase}=Up --timeout=20s"),
    ];
    lab.set_status("w", &json!({"phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]}));
    for wait in waits {
        let output = wait.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let gone = lab.spawn("wait wd/w --for=delete --timeout=20s");
    lab.ok("delete wd w --wait=false");
    let output = gone.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn get_watch_prints_one_line_for_each_change() {
    let Some(lab) = Lab::with_widgets() else { return };
    lab.ok_with("create -f -", WIDGET);
    let mut watch = lab.spawn("get wd -w --request-timeout=4s");
    for size in [4, 5] {
        lab.ok(&format!("patch wd w --type=merge -p {{\"spec\":{{\"size\":{size}}}}}"));
    }
    drop(watch.stdin.take());
    let output = watch.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("NAME") && text.matches("NAME").count() == 1, "{text}");
    assert!(text.contains("w      5"), "{text}");
}

#[test]
fn pods_are_described_patched_and_immutable() {
    let Some(lab) = Lab::start() else { return };
    lab.ok_with("apply -f -", POD);
    let table = lab.ok("get pods -o wide");
    assert!(table.contains("0/1") && table.contains("Pending") && table.contains("NOMINATED NODE"), "{table}");
    assert_eq!(lab.ok_with("apply -f -", &POD.replace("i:1", "i:2")).trim(), "pod/p configured");
    let refusal = lab.refused_with("apply -f -", &POD.replace("name: A", "name: B"));
    assert!(refusal.contains("pod updates may not change fields other than"), "{refusal}");
    lab.ok("patch pod p -p {\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:3\"}]}}");
    assert_eq!(lab.ok("get pod p -o jsonpath={.spec.containers[0].image}"), "i:3");
    let described = lab.ok("describe pod p");
    assert!(described.contains("Image:") && described.contains("i:3"), "{described}");
    assert!(lab.ok("get all").contains("pod/p"));
    lab.ok("delete pod p");
}

#[test]
fn built_in_kinds_are_created_and_read() {
    let Some(lab) = Lab::start() else { return };
    lab.ok("create namespace n");
    lab.ok("create configmap m --from-literal=a=b -n n");
    lab.ok("create secret generic s --from-literal=a=b -n n");
    lab.ok("create serviceaccount sa -n n");
    lab.ok("create service clusterip svc --tcp=80:8080 -n n");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}});
    lab.ok_with("apply -n n -f -", &deployment.to_string());
    lab.ok("create role r --verb=get --resource=pods -n n");
    assert!(lab.ok("get svc -n n").contains("10.96."));
    let all = lab.ok("get ns,cm,secrets,sa,svc,deploy,roles,events,pvc,pv,nodes,leases,endpoints -n n");
    for part in ["namespace/n", "configmap/m", "secret/s", "service/svc", "deployment.apps/d"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(lab.ok("describe svc svc -n n").contains("10.96."));
    assert!(lab.ok("auth can-i create pods").contains("yes"));
    let refusal = lab.refused_with("create configmap m -n nowhere", "");
    assert!(refusal.contains("namespaces \"nowhere\" not found"), "{refusal}");
    assert!(lab.ok("api-resources").contains("persistentvolumeclaims"));
    assert!(lab.ok("version").contains("Server Version: v1.34"));
}

#[test]
fn explain_reads_the_schema_of_a_definition() {
    let Some(lab) = Lab::with_widgets() else { return };
    let again = lab.ok_with("apply -f -", &definition().to_string());
    assert_eq!(again.trim(), "customresourcedefinition.apiextensions.k8s.io/widgets.example.com unchanged");
    let text = lab.ok("explain widgets.spec");
    assert!(text.contains("How big it is.") && text.contains("-required-"), "{text}");
    assert!(lab.ok("explain wd").contains("A widget."));
    assert!(lab.ok_with("apply --dry-run=server -f -", WIDGET).contains("created (server dry run)"));
    lab.ok_with("create -f -", WIDGET);
    assert!(lab.ok("describe wd w").contains("Kind:         Widget"));
    assert!(lab.ok_with("diff -f -", WIDGET).trim().is_empty());
}

struct Lines;

impl LogSource for Lines {
    fn read(&self, request: &LogRequest) -> Result<LogStream, Status> {
        let text = format!("{} {:?}\n", request.container, request.tail_lines);
        Ok(futures::stream::iter([Ok(text.into())]).boxed())
    }
}

#[test]
fn logs_come_from_the_log_source() {
    let Some(lab) = Lab::start() else { return };
    lab.ok_with("apply -f -", POD);
    lab.shared.set_log_source(Arc::new(Lines));
    assert_eq!(lab.ok("logs p --tail=5"), "c Some(5)\n");
    assert!(lab.refused_with("logs p -c nope", "").contains("container nope is not valid for pod p"));
}

#[test]
fn with_its_controllers_a_namespace_and_dependents_go_away() {
    let Some(lab) = Lab::start() else { return };
    let controllers: Vec<Box<dyn Controller + Send>> =
        vec![Box::new(GarbageCollector::new()), Box::new(Namespaces), Box::new(Volumes::new(true))];
    lab.runtime.spawn(drive(lab.shared.clone(), controllers, std::future::pending()));
    lab.ok("create namespace n");
    lab.ok("create configmap owner -n n");
    let uid = lab.ok("get cm owner -n n -o jsonpath={.metadata.uid}");
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": true}
        ]},
    });
    lab.ok_with("create -n n -f -", &child.to_string());
    lab.ok("delete cm owner -n n --cascade=foreground --timeout=20s");
    assert!(lab.refused_with("get cm child -n n", "").contains("not found"));
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: 'n'}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    lab.ok_with("apply -f -", claim);
    assert!(lab.ok("get pvc -n n").contains("standard"));
    assert!(lab.ok("get sc").contains("standard (default)"));
    lab.ok("delete namespace n --timeout=20s");
    assert!(lab.refused_with("get ns n", "").contains("namespaces \"n\" not found"));
}
