//! Objects against the schemas that Kubernetes itself publishes: required and unknown fields, types, enums.
//!
//! `kubernetes.json` has those of the kinds that the chart renders, taken out of the Kubernetes module that the testbed's
//! kubectl is built from, whose `go.sum` pins it. To take them anew, with Go:
//! `UPDATE_KUBERNETES_SCHEMAS=1 cargo test -p scenarios --test chart`.
//!
//! What judges is fake-k8s: each schema is the one of a custom resource there. Not verified: what no schema says and the
//! server's code checks (bounds, names, one field against another), what is below the root of a definition's own schema,
//! and enums of what is in a list.

use fake_k8s::server::{FieldValidation, Options, Request, ResourceName, Server};
use jiff::Timestamp;
use scenarios::binaries::catalogue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::helm::{NAMESPACE, kind, root};

/// Kind, its definition, the document of it, and whether it lives in a namespace.
const KINDS: [(&str, &str, &str, bool); 7] = [
    ("ServiceAccount", "io.k8s.api.core.v1.ServiceAccount", "api__v1", true),
    ("Deployment", "io.k8s.api.apps.v1.Deployment", "apis__apps__v1", true),
    ("Role", "io.k8s.api.rbac.v1.Role", "apis__rbac.authorization.k8s.io__v1", true),
    ("RoleBinding", "io.k8s.api.rbac.v1.RoleBinding", "apis__rbac.authorization.k8s.io__v1", true),
    ("ClusterRole", "io.k8s.api.rbac.v1.ClusterRole", "apis__rbac.authorization.k8s.io__v1", false),
    ("ClusterRoleBinding", "io.k8s.api.rbac.v1.ClusterRoleBinding", "apis__rbac.authorization.k8s.io__v1", false),
    (
        "CustomResourceDefinition",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        "apis__apiextensions.k8s.io__v1",
        false,
    ),
];

/// Stands for the groups of all kinds in the server that judges: the real ones have no schemas there.
const GROUP: &str = "schemas.test";

/// A server that knows the kinds by their schemas, and nothing else of them.
pub struct Schemas {
    server: Server,
}

impl Schemas {
    pub fn new() -> Self {
        let mut schemas = Self { server: Server::new(1) };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        schemas.create(ResourceName::core("namespaces"), "", namespace).expect("a namespace is a namespace");
        for (kind, definition, _, namespaced) in KINDS {
            let name = format!("{}.{GROUP}", plural(kind));
            let definition = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
                "spec": {
                    "group": GROUP, "scope": if namespaced { "Namespaced" } else { "Cluster" },
                    "names": {"plural": plural(kind), "kind": kind},
                    "versions": [{
                        "name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": inlined(&json!({"$ref": definition}), &mut Vec::new())},
                    }],
                },
            });
            let definitions = ResourceName::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
            let created = schemas.create(definitions, "", definition);
            created.unwrap_or_else(|why| panic!("the schema of {kind} is none: {why}"));
        }
        schemas
    }

    /// Why Kubernetes would not take the object.
    pub fn refusal(&mut self, object: &Value) -> Option<String> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let resource = ResourceName::new(GROUP, "v1", plural(&kind(object)));
        let mut object = object.clone();
        object["apiVersion"] = format!("{GROUP}/v1").into();
        self.create(resource, &namespace, object).err()
    }

    fn create(&mut self, resource: ResourceName, namespace: &str, object: Value) -> Result<(), String> {
        let options = Options { field_validation: FieldValidation::Strict, ..Options::default() };
        let request = Request::create(resource, namespace, object).with_options(options);
        self.server.handle(Timestamp::UNIX_EPOCH, &request).map(drop).map_err(|status| status.to_string())
    }
}

fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

/// The definitions, by name.
static DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let mut file = read_json(&path());
    match file["definitions"].take() {
        Value::Object(definitions) => definitions,
        other => panic!("{} has no definitions, but {other}", path().display()),
    }
});

fn path() -> PathBuf {
    root().join("scenarios/tests/chart/kubernetes.json")
}

fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The schema with what it refers to in its place, as a structural schema must be. What contains itself (the schema in a
/// definition) may contain anything.
fn inlined(schema: &Value, open: &mut Vec<String>) -> Value {
    if let Some(name) = schema["$ref"].as_str() {
        if open.iter().any(|above| above == name) {
            return json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        open.push(name.to_owned());
        let schema = inlined(&DEFINITIONS[name], open);
        open.pop();
        return schema;
    }
    if schema["format"] == "int-or-string" {
        return json!({"x-kubernetes-int-or-string": true});
    }
    let mut inline = schema.clone();
    for part in ["items", "additionalProperties"] {
        if schema[part].is_object() {
            inline[part] = inlined(&schema[part], open);
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        inline["properties"][name] = inlined(property, open);
    }
    if schema["type"].is_null() {
        inline["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    inline
}

/// The file, made from the module that is unpacked there.
fn extracted(module: &Path, version: &str) -> String {
    let mut definitions = BTreeMap::new();
    for (_, definition, document, _) in KINDS {
        let document = read_json(&module.join(format!("api/openapi-spec/v3/{document}_openapi.json")));
        take(definition, &document["components"]["schemas"], &mut definitions);
    }
    let source = module.join("pkg/generated/openapi/zz_generated.openapi.go");
    let source = std::fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    for (definition, property, choices) in enums(&source) {
        if let Some(schema) = definitions.get_mut(&definition) {
            schema["properties"][property]["enum"] = choices;
        }
    }
    let lines: Vec<_> = definitions.iter().map(|(name, schema)| format!("{}: {schema}", json!(name))).collect();
    let source = format!(
        "k8s.io/kubernetes v{version} (Apache-2.0): api/openapi-spec/v3; enums from pkg/generated/openapi. \
         UPDATE_KUBERNETES_SCHEMAS=1 cargo test -p scenarios --test chart"
    );
    format!("{{\n\"source\": {},\n\"definitions\": {{\n{}\n}}}}\n", json!(source), lines.join(",\n"))
}

/// Takes a definition, and those that it refers to.
fn take(name: &str, all: &Value, definitions: &mut BTreeMap<String, Value>) {
    if definitions.contains_key(name) {
        return;
    }
    assert!(all[name].is_object(), "there is no definition {name}");
    let mut references = Vec::new();
    definitions.insert(name.to_owned(), plain(&all[name], &mut references));
    references.iter().for_each(|name| take(name, all, definitions));
}

/// What of a schema can be checked: no descriptions, and no defaults.
fn plain(schema: &Value, references: &mut Vec<String>) -> Value {
    let mut kept = Map::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        let value = match key.as_str() {
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                properties.map(|(name, property)| (name.clone(), plain(property, references))).collect()
            }
            "items" | "additionalProperties" if value.is_object() => plain(value, references),
            // One reference, so wrapped that it can have a description.
            "allOf" => return plain(&value[0], references),
            "$ref" => {
                let name = value.as_str().unwrap_or_default().trim_start_matches("#/components/schemas/");
                references.push(name.to_owned());
                name.into()
            }
            "type" | "format" | "required" | "oneOf" => value.clone(),
            "x-kubernetes-list-type" | "x-kubernetes-list-map-keys" => value.clone(),
            _ => continue,
        };
        kept.insert(key.clone(), value);
    }
    Value::Object(kept)
}

/// The enums in the source that the server publishes its schemas from, which the documents beside it leave out: definition,
/// property, choices.
fn enums(source: &str) -> Vec<(String, String, Value)> {
    let (mut definition, mut property, mut found) = (None, "", Vec::new());
    for line in source.lines() {
        if let Some(function) = line.strip_prefix("func schema_") {
            let name = function.split('(').next().and_then(|name| name.strip_prefix("k8sio_api_"));
            definition = name.map(|name| format!("io.k8s.api.{}", name.replacen('_', ".", 2)));
        } else if let Some((name, "")) = line.trim().strip_prefix('"').and_then(|line| line.split_once("\": {")) {
            property = name;
        } else if let (Some(definition), Some(choices)) = (&definition, line.strip_prefix("\t\t\t\t\t\t\tEnum:")) {
            let choices = choices.trim().trim_start_matches("[]interface{}{").trim_end_matches("},");
            let choices =
                serde_json::from_str(&format!("[{choices}]")).expect("a list of strings is written as in JSON");
            found.push((definition.clone(), property.to_owned(), choices));
        }
    }
    found
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the switch of a generator, read by a test only")]
fn the_schemas_are_those_of_the_kubectl_that_is_built() {
    let package = catalogue::only("kubectl").expect("it is in the catalogue");
    if std::env::var("UPDATE_KUBERNETES_SCHEMAS").is_ok() {
        let mut go = Command::new("go");
        go.args(["mod", "download", "-json", "k8s.io/kubernetes"]);
        let answer = go.current_dir(root().join("scenarios/modules").join(package.id())).output().expect("there is Go");
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        let answer: Value = serde_json::from_slice(&answer.stdout).expect("go answers in JSON");
        let module = Path::new(answer["Dir"].as_str().expect("it is unpacked"));
        std::fs::write(path(), extracted(module, package.version)).expect("it can be written");
    }
    let source = read_json(&path())["source"].to_string();
    assert!(source.contains(&format!("k8s.io/kubernetes v{} ", package.version)), "{source}");
}

/// A Deployment that is as it should be, but for a change.
fn deployment(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": NAMESPACE},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {
                    "containers": [{
                        "name": "a", "image": "a:1", "imagePullPolicy": "Always",
                        "resources": {"limits": {"cpu": 1.5, "memory": "128Mi"}},
                        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 10},
                    }],
                    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
                },
            },
        },
    });
    change(&mut object);
    object
}

#[test]
fn what_kubernetes_would_not_take_is_refused_with_the_field() {
    fn container(object: &mut Value) -> &mut Value {
        &mut object["spec"]["template"]["spec"]["containers"][0]
    }
    fn remove(object: &mut Value, field: &str) {
        object.as_object_mut().expect("an object").remove(field).expect("it was there");
    }
    let mut schemas = Schemas::new();
    assert_eq!(schemas.refusal(&deployment(|_| {})), None);
    type Change = fn(&mut Value);
    let changes: [(Change, &str, &str); 12] = [
        (|object| remove(&mut object["spec"], "selector"), "spec.selector", "Required"),
        (|object| remove(container(object), "name"), "spec.template.spec.containers[0].name", "Required"),
        (|object| object["spec"]["replica"] = 2.into(), "spec.replica", "unknown field"),
        (|object| object["spec"]["template"]["metadata"]["label"] = json!({}), "metadata.label", "unknown field"),
        (|object| container(object)["resources"]["cpu"] = 1.into(), "containers[0].resources.cpu", "unknown field"),
        (|object| object["spec"]["replicas"] = "2".into(), "spec.replicas", "must be of type integer"),
        (|object| container(object)["args"] = "--a".into(), "containers[0].args", "must be of type array"),
        (|object| container(object)["resources"]["limits"]["cpu"] = json!([1]), "limits.cpu", "one and only one"),
        (|object| object["metadata"]["labels"] = json!({"a": 1}), "metadata.labels", "string"),
        (|object| container(object)["imagePullPolicy"] = "Sometimes".into(), "imagePullPolicy", "\"IfNotPresent\""),
        (
            |object| object["spec"]["template"]["spec"]["tolerations"][0]["effect"] = "None".into(),
            "tolerations[0].effect",
            "\"PreferNoSchedule\"",
        ),
        (
            |object| {
                let twice = container(object).clone();
                object["spec"]["template"]["spec"]["containers"] = json!([twice, twice]);
            },
            "spec.template.spec.containers[1]",
            "Duplicate",
        ),
    ];
    for (change, field, why) in changes {
        let said = schemas.refusal(&deployment(change)).unwrap_or_else(|| panic!("{field} was taken, which is {why}"));
        assert!(said.contains(field) && said.contains(why), "{field}: {said}");
    }
    // A schema does not bound a number by its format; the type of the kind itself does.
    let deployments = ResourceName::new("apps", "v1", "deployments");
    let many = deployment(|object| object["spec"]["replicas"] = 5_000_000_000_u64.into());
    let said = schemas.create(deployments, NAMESPACE, many).expect_err("so many are no int32");
    assert!(said.contains("spec.replicas of type int32"), "{said}");
}

#[test]
fn the_other_kinds_have_their_schemas_too() {
    let mut schemas = Schemas::new();
    for (kind, fields, field) in [
        ("ServiceAccount", json!({"imagePullSecrets": ["a"]}), "imagePullSecrets[0]"),
        ("Role", json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}), "rules[0].verbs"),
        ("ClusterRole", json!({"rules": [{"verbs": ["get"], "resource": ["pods"]}]}), "rules[0].resource"),
        ("RoleBinding", json!({"roleRef": {"apiGroup": "a", "kind": "Role"}}), "roleRef.name"),
        ("ClusterRoleBinding", json!({"subjects": []}), "roleRef"),
        ("CustomResourceDefinition", json!({"spec": {"group": "a", "names": {"kind": "A"}}}), "spec.names.plural"),
    ] {
        let (_, _, _, namespaced) = KINDS.into_iter().find(|(known, ..)| *known == kind).expect("it is in the table");
        let mut object = json!({"kind": kind, "metadata": {"name": "a"}});
        if namespaced {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        for (name, value) in fields.as_object().expect("fields") {
            object[name] = value.clone();
        }
        let said = schemas.refusal(&object).unwrap_or_else(|| panic!("the {kind} was taken"));
        assert!(said.contains(field), "{field}: {said}");
    }
}
