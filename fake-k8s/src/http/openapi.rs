//! OpenAPI v3: enough for `kubectl explain`, and for kubectl to learn that the server validates fields itself.
use serde_json::{Map, Value, json};

use super::Shared;
use crate::server::{ResourceInfo, Status};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

pub fn answer(shared: &Shared, path: &[String]) -> Result<Value, Status> {
    let infos: Vec<ResourceInfo> = shared.run(|_, server| server.resources().cloned().collect());
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["v3"] => Ok(index(&infos)),
        ["v3", "api", version] => document(&infos, "", version),
        ["v3", "apis", group, version] => document(&infos, group, version),
        _ => Err(Status::no_such_path()),
    }
}

fn root(info: &ResourceInfo) -> String {
    match info.name.group.as_str() {
        "" => format!("api/{}", info.name.version),
        group => format!("apis/{group}/{}", info.name.version),
    }
}

fn index(infos: &[ResourceInfo]) -> Value {
    let mut paths = Map::new();
    for info in infos {
        let root = root(info);
        paths.insert(root.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{root}")}));
    }
    json!({"paths": paths})
}

fn document(infos: &[ResourceInfo], group: &str, version: &str) -> Result<Value, Status> {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for info in infos.iter().filter(|i| i.name.group == group && i.name.version == version) {
        let name = component(info);
        schemas.insert(name.clone(), schema(info));
        let scope = if info.namespaced { "/namespaces/{namespace}" } else { "" };
        let base = format!("/{}{scope}/{}", root(info), info.name.plural);
        paths.insert(
            base.clone(),
            json!({"get": operation(info, &name, "list"), "post": operation(info, &name, "post")}),
        );
        let one = ["get", "put", "patch", "delete"].map(|verb| (verb.to_owned(), operation(info, &name, verb)));
        paths.insert(format!("{base}/{{name}}"), Value::Object(one.into_iter().collect()));
    }
    if paths.is_empty() {
        return Err(Status::no_such_path());
    }
    schemas.insert(META.into(), object_meta());
    Ok(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.34.4"},
        "paths": paths, "components": {"schemas": schemas},
    }))
}

fn component(info: &ResourceInfo) -> String {
    let group = if info.name.group.is_empty() { "core" } else { &info.name.group };
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{}.{}", reversed.join("."), info.name.version, info.kind)
}

fn gvk(info: &ResourceInfo) -> Value {
    json!({"group": info.name.group, "version": info.name.version, "kind": info.kind})
}

fn operation(info: &ResourceInfo, name: &str, verb: &str) -> Value {
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let writes = matches!(verb, "post" | "put" | "patch");
    let parameters: Vec<Value> =
        if writes { ["dryRun", "fieldManager", "fieldValidation"].map(query).to_vec() } else { Vec::new() };
    let reference = json!({"$ref": format!("#/components/schemas/{name}")});
    let mut operation = json!({
        "operationId": format!("{verb}{}", info.kind),
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": gvk(info),
    });
    if writes {
        let content = if verb == "patch" { "application/merge-patch+json" } else { "application/json" };
        operation["requestBody"] = json!({"content": {content: {"schema": reference}}});
    }
    operation
}

fn schema(info: &ResourceInfo) -> Value {
    let mut schema = if info.schema_source.is_object() {
        info.schema_source.clone()
    } else {
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    };
    let string = |text: &str| json!({"type": "string", "description": text});
    schema["properties"]["apiVersion"] = string("The version of this representation of the object.");
    schema["properties"]["kind"] = string("The REST resource that this object represents.");
    let meta = json!({"description": "Standard object's metadata.", "allOf": [{"$ref": format!("#/components/schemas/{META}")}]});
    schema["properties"]["metadata"] = meta;
    schema["x-kubernetes-group-version-kind"] = json!([gvk(info)]);
    schema
}

fn object_meta() -> Value {
    let string = json!({"type": "string"});
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({
        "type": "object",
        "description": "ObjectMeta is metadata that all persisted resources must have.",
        "properties": {
            "name": string, "generateName": string, "namespace": string, "uid": string, "resourceVersion": string,
            "creationTimestamp": string, "deletionTimestamp": string, "generation": {"type": "integer"},
            "deletionGracePeriodSeconds": {"type": "integer"}, "labels": strings, "annotations": strings,
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "ownerReferences": {"type": "array", "items": {"type": "object"}},
            "managedFields": {"type": "array", "items": {"type": "object"}},
        },
    })
}
