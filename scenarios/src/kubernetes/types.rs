//! The table of types that fake-k8s has of the built-in kinds, as a real server publishes them (OpenAPI v3): which fields
//! there are, what they hold, and how their lists and maps are merged. What the table's words mean stands in fake-k8s, with
//! its reader.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use fake_k8s::Server;
use fake_k8s::conformance::Api;
use fake_k8s::conformance::client::OverHttp;
use fake_k8s::process::sandbox;
use serde_json::{Map, Value, json};

use super::{Controllers, Kubernetes, get};
use crate::binaries::catalogue;
use crate::live::inside::{End, NO_SANDBOX};

/// Writes the table. To be called before any thread starts.
///
/// # Errors
/// When the server does not come up, or publishes something that the table has no word for.
pub fn run(output: &Path, logs: &Path) -> anyhow::Result<End> {
    let programs = super::programs(&|_| {})?;
    sandbox::enter(|| Ok(Vec::new())).context(NO_SANDBOX)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let end = runtime.block_on(async {
        let kubernetes = Kubernetes::start(&programs, Controllers::None, logs).await?;
        let table = table(&kubernetes.api()?).await?;
        std::fs::write(output, table).with_context(|| format!("cannot write {}", output.display()))?;
        kubernetes.stop().await;
        Ok(End::Passed)
    });
    runtime.shutdown_background();
    end
}

/// The sources that the published types are made from: folder below the module cache, with the version of the catalogue.
const SOURCES: &[(&str, &[&str])] = &[
    (
        "k8s.io/api",
        &["core", "apps", "batch", "policy", "coordination", "discovery", "storage", "scheduling", "rbac", "events"],
    ),
    ("k8s.io/apimachinery", &["pkg/apis/meta"]),
    ("k8s.io/apiextensions-apiserver", &["pkg/apis/apiextensions"]),
];

/// What Go shows of a struct's fields that hold nothing: the published types do not say so.
#[derive(Default)]
struct Shown {
    /// Left out where they hold their type's nothing.
    left_out: BTreeSet<String>,
    /// There in any case.
    always: BTreeSet<String>,
}

fn shown(version: &str) -> anyhow::Result<BTreeMap<String, Shown>> {
    let cache = Command::new("go").args(["env", "GOMODCACHE"]).output().context("there is no go")?;
    let cache = Path::new(String::from_utf8_lossy(&cache.stdout).trim()).to_owned();
    let mut out: BTreeMap<String, Shown> = BTreeMap::new();
    for (module, groups) in SOURCES {
        for group in *groups {
            let folder = cache.join(format!("{module}@v0.{version}")).join(group).join("v1");
            let package = group.rsplit('/').next().unwrap_or(group);
            for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
                let path = entry?.path();
                let is_types = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("types"));
                if is_types {
                    read_structs(package, &std::fs::read_to_string(&path)?, &mut out);
                }
            }
        }
    }
    Ok(out)
}

fn read_structs(package: &str, source: &str, out: &mut BTreeMap<String, Shown>) {
    let mut name = String::new();
    for line in source.lines() {
        if let Some(begin) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
            name = format!("{package}.v1.{begin}");
        }
        let Some((field, tag)) = line.split_once("`json:\"") else { continue };
        let tag = tag.split('"').next().unwrap_or_default();
        let (json, options) = tag.split_once(',').unwrap_or((tag, ""));
        if json.is_empty() || json == "-" {
            continue;
        }
        let kind = field.split_whitespace().nth(1).unwrap_or_default();
        let is_plain = !kind.starts_with(['*', '[']) && !kind.starts_with("map[");
        let shown = out.entry(name.clone()).or_default();
        // To Go, which looks at whether a struct is empty and not at what it means, these always hold something.
        let is_struct = ["Time", "IntOrString", "Quantity"].iter().any(|end| kind.ends_with(end));
        let omits = options.contains("omitzero") || (options.contains("omitempty") && !(is_plain && is_struct));
        if !omits {
            shown.always.insert(json.to_owned());
        } else if is_plain {
            shown.left_out.insert(json.to_owned());
        }
    }
}

async fn table(api: &OverHttp) -> anyhow::Result<String> {
    let version = catalogue::only("kubernetes")?.version;
    let shown = shown(version.strip_prefix("1.").unwrap_or(version))?;
    let server = Server::new(1);
    let wanted: BTreeSet<(String, String, String)> = server
        .resources()
        .map(|info| (info.name.group.clone(), info.name.version.clone(), info.kind.clone()))
        .collect();
    let groups: BTreeSet<String> = wanted.iter().map(|(group, version, _)| root(group, version)).collect();
    let mut schemas = Map::new();
    for group in groups {
        let reply = api.call(get(&format!("/openapi/v3/{group}"))).await?;
        let document: Value = serde_json::from_str(&reply.body).with_context(|| format!("{group} is no document"))?;
        schemas.extend(document["components"]["schemas"].as_object().cloned().unwrap_or_default());
    }
    let mut kinds = BTreeMap::new();
    for (name, schema) in &schemas {
        for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let text = |field: &str| kind[field].as_str().unwrap_or_default().to_owned();
            let key = (text("group"), text("version"), text("kind"));
            if wanted.contains(&key) {
                kinds.insert(format!("{}/{}/{}", key.0, key.1, key.2), short(name));
            }
        }
    }
    let (mut types, mut open) = (BTreeMap::new(), kinds.values().cloned().collect::<Vec<_>>());
    let long: BTreeMap<String, &String> = schemas.keys().map(|name| (short(name), name)).collect();
    while let Some(name) = open.pop() {
        if types.contains_key(&name) {
            continue;
        }
        let schema = &schemas[*long.get(&name).with_context(|| format!("there is no type {name}"))?];
        let mut record = record(schema, &mut open).with_context(|| format!("in {name}"))?;
        if let Some(shown) = shown.get(&name) {
            // Records are always shown, if only as empty ones.
            let is_scalar =
                |field: &&String| record["fields"][*field].as_str().is_some_and(|word| !word.starts_with('='));
            let left_out: Vec<&String> = shown.left_out.iter().filter(is_scalar).collect();
            record["leftOut"] = json!(left_out);
            record["required"] = json!(shown.always);
        }
        types.insert(name, record);
    }
    let mut out = String::from("{\n\"kinds\": {\n");
    let lines = |map: BTreeMap<String, Value>| {
        let lines: Vec<String> = map.into_iter().map(|(name, value)| format!("{}: {value}", json!(name))).collect();
        lines.join(",\n")
    };
    out.push_str(&lines(kinds.into_iter().map(|(name, to)| (name, json!(to))).collect()));
    out.push_str("\n},\n\"types\": {\n");
    out.push_str(&lines(types));
    out.push_str("\n}\n}\n");
    Ok(out)
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `core.v1.Pod` of `io.k8s.api.core.v1.Pod`.
fn short(name: &str) -> String {
    for prefix in ["io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis."] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return rest.to_owned();
        }
    }
    name.rsplit('.').next().unwrap_or(name).to_owned()
}

fn record(schema: &Value, open: &mut Vec<String>) -> anyhow::Result<Value> {
    let mut fields = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        fields.insert(name.clone(), word(field, open).with_context(|| format!("in field {name}"))?);
    }
    let mut record = json!({"fields": fields});
    // What a field of a list's key is when it is left out.
    let defaults = schema["properties"].as_object().into_iter().flatten().filter_map(|(name, field)| {
        let default = field["default"].as_str().filter(|default| !default.is_empty())?;
        Some((name.clone(), json!(default)))
    });
    let defaults: Map<String, Value> = defaults.collect();
    if !defaults.is_empty() {
        record["defaults"] = Value::Object(defaults);
    }
    if let Some(required) = schema["required"].as_array() {
        record["required"] = json!(required);
    }
    if schema["x-kubernetes-map-type"] == "atomic" {
        record["atomic"] = json!(true);
    }
    Ok(record)
}

/// What a field holds.
fn word(schema: &Value, open: &mut Vec<String>) -> anyhow::Result<Value> {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(reference) = reference {
        let name = short(reference.rsplit('/').next().unwrap_or_default());
        return Ok(json!(match name.as_str() {
            "Quantity" => "quantity".to_owned(),
            "IntOrString" => "int-or-string".to_owned(),
            "meta.v1.Time" => "time".to_owned(),
            "meta.v1.MicroTime" => "micro-time".to_owned(),
            "meta.v1.FieldsV1" | "RawExtension" => "any".to_owned(),
            // They hold one of several types, and publish none.
            name if name.contains(".JSON") && !name.ends_with(".JSONSchemaProps") => "any".to_owned(),
            _ => {
                open.push(name.clone());
                // Where nothing is the same as an empty one, Go has the value itself and not a pointer.
                let word = if schema["default"].is_object() { format!("={name}") } else { format!("*{name}") };
                if schema["x-kubernetes-map-type"] == "granular" {
                    return Ok(json!({"granular": word}));
                }
                word
            }
        }));
    }
    let kind = schema["type"].as_str().unwrap_or_default();
    let format = schema["format"].as_str().unwrap_or_default();
    Ok(match (kind, format) {
        ("string", "byte") => json!("bytes"),
        ("string", _) => json!("string"),
        ("boolean", _) => json!("boolean"),
        ("integer", "int32") => json!("int32"),
        ("integer", _) => json!("int64"),
        ("number", _) => json!("number"),
        ("array", _) => {
            let mut list = json!({"list": word(&schema["items"], open)?});
            match schema["x-kubernetes-list-type"].as_str() {
                Some("map") => list["keys"] = schema["x-kubernetes-list-map-keys"].clone(),
                Some("set") => list["set"] = json!(true),
                _ => {}
            }
            patch(schema, &mut list);
            list
        }
        ("object", _) if schema["additionalProperties"].is_object() => {
            let mut map = json!({"map": word(&schema["additionalProperties"], open)?});
            if schema["x-kubernetes-map-type"] == "atomic" {
                map["atomic"] = json!(true);
            }
            map
        }
        ("object" | "", _) => json!("any"),
        (other, _) => bail!("there is no word for {other}"),
    })
}

/// How a strategic merge patch merges a list.
fn patch(schema: &Value, list: &mut Value) {
    if schema["x-kubernetes-patch-strategy"].as_str().is_some_and(|strategy| strategy.contains("merge")) {
        list["merge"] = schema.get("x-kubernetes-patch-merge-key").cloned().unwrap_or_else(|| json!(""));
    }
}
