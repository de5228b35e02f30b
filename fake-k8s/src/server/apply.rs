//! Server-side apply: what a manager applied before and no longer does is removed, what others applied is defended.
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::metadata::time_text;
use super::resource::ResourceInfo;
use super::schema::{ListType, Schema};
use super::write::decode;
use super::{Cause, Reason, Request, Server, Status, object};

/// A leaf that is owned: its steps, as in `fieldsV1` (`f:spec`, `k:{"name":"x"}`, `v:"x"`).
type Path = Vec<String>;

impl Server {
    pub(super) fn apply(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let Some(manager) = request.options.field_manager.clone().filter(|m| !m.is_empty()) else {
            return Err(Status::bad_request(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        };
        let mut config = decode(info, request.body.as_ref())?;
        let name = request.name.as_deref().unwrap_or_default();
        if object::meta_mut(&mut config).remove("managedFields").is_some_and(|m| !m.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        object::meta_mut(&mut config).entry("name").or_insert_with(|| json!(name));
        if object::name(&config) != name {
            return Err(Status::bad_request("the name of the object does not match the name on the URL"));
        }
        let owned = owned_paths(info.schema.as_deref(), &config);
        let entry = entry_for(info, &manager, now, &owned);
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let Some(stored) = self.store.get(&info.storage, namespace, name).cloned() else {
            if !object::uid(&config).is_empty() {
                let why = "uid mismatch: the provided object specified uid, and no existing object was found";
                return Err(Status::conflict(info.group(), info.plural(), name, why));
            }
            self.applied = Some(json!([entry]));
            let create = Request { body: Some(config), ..request.clone() };
            return self.create(now, info, &create);
        };
        let current = self.shown(info, &stored);
        let managers = current["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let (mine, mut others): (Vec<Value>, Vec<Value>) =
            managers.into_iter().partition(|m| m["manager"] == manager.as_str() && m["operation"] == "Apply");
        conflicts(&current, &config, &owned, &others, request.options.force)?;
        let theirs: BTreeSet<Path> = others.iter().flat_map(|m| leaves(&m["fieldsV1"])).collect();
        let mut new = Value::clone(&current);
        for path in mine.iter().flat_map(|m| leaves(&m["fieldsV1"])).collect::<BTreeSet<_>>() {
            if !owned.contains(&path) && !theirs.contains(&path) {
                remove_path(&mut new, &path);
            }
        }
        let version = object::version(&config).to_owned();
        merge(info.schema.as_deref(), &mut new, &config, "");
        others.retain_mut(|m| release(m, &owned, &current, &config));
        // The time of an entry changes only with what it owns: applying the same again writes nothing.
        let same = mine.iter().find(|m| m["fieldsV1"] == entry["fieldsV1"] && m["apiVersion"] == entry["apiVersion"]);
        others.push(same.cloned().unwrap_or(entry));
        others.sort_by_key(|m| m["manager"].as_str().unwrap_or_default().to_owned());
        let meta = object::meta_mut(&mut new);
        meta.insert("managedFields".into(), Value::Array(others));
        if version.is_empty() {
            meta.remove("resourceVersion");
        }
        self.update(now, info, &stored, new, request)
    }
}

fn entry_for(info: &ResourceInfo, manager: &str, now: Timestamp, owned: &BTreeSet<Path>) -> Value {
    let mut fields = json!({});
    for path in owned {
        let mut place = &mut fields;
        for step in path {
            place = place.as_object_mut().expect("steps make objects").entry(step).or_insert_with(|| json!({}));
        }
    }
    json!({
        "manager": manager, "operation": "Apply", "apiVersion": info.api_version(), "time": time_text(now),
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    })
}

/// Another manager that applied a different value for the same leaf objects, unless forced.
fn conflicts(
    current: &Arc<Value>,
    config: &Value,
    owned: &BTreeSet<Path>,
    others: &[Value],
    force: bool,
) -> Result<(), Status> {
    if force {
        return Ok(());
    }
    let mut causes = Vec::new();
    for other in others {
        for path in leaves(&other["fieldsV1"]).iter().filter(|p| owned.contains(*p)) {
            if value_at(current, path) != value_at(config, path) {
                let manager = other["manager"].as_str().unwrap_or_default();
                let message = format!("conflict with {manager:?}");
                causes.push(Cause { reason: "FieldManagerConflict".into(), message, field: path_text(path) });
            }
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.message, c.field)).collect();
    let many = if causes.len() == 1 { "1 conflict".to_owned() } else { format!("{} conflicts", causes.len()) };
    let message = format!("Apply failed with {many}: {}", list.join(", "));
    let mut status = Status::new(Reason::Conflict, message);
    status.details.causes = causes;
    Err(status)
}

/// Takes from another manager the leaves whose value is now ours; an entry that owns nothing goes.
fn release(entry: &mut Value, owned: &BTreeSet<Path>, current: &Value, config: &Value) -> bool {
    for path in leaves(&entry["fieldsV1"]) {
        if owned.contains(&path) && value_at(current, &path) != value_at(config, &path) {
            remove_field(&mut entry["fieldsV1"], &path);
        }
    }
    entry["fieldsV1"].as_object().is_some_and(|f| !f.is_empty())
}

fn remove_field(fields: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    let Some(map) = fields.as_object_mut() else { return };
    if let Some(child) = map.get_mut(first) {
        remove_field(child, rest);
        if rest.is_empty() || child.as_object().is_some_and(Map::is_empty) {
            map.remove(first);
        }
    }
}

fn leaves(fields: &Value) -> Vec<Path> {
    fn walk(fields: &Value, path: &mut Path, out: &mut Vec<Path>) {
        let Some(map) = fields.as_object() else { return };
        if map.is_empty() && !path.is_empty() {
            out.push(path.clone());
        }
        for (step, child) in map {
            path.push(step.clone());
            walk(child, path, out);
            path.pop();
        }
    }
    let mut out = Vec::new();
    walk(fields, &mut Path::new(), &mut out);
    out
}

/// The keys by which items of this list are told apart; empty for a set of plain values.
fn list_keys(schema: Option<&Schema>, field: &str, items: &[Value]) -> Option<Vec<String>> {
    if let Some(schema) = schema {
        return match &schema.list_type {
            ListType::Atomic => None,
            ListType::Set => Some(Vec::new()),
            ListType::Map(keys) => Some(keys.clone()),
        };
    }
    let by = |key: &str| Some(vec![key.to_owned()]);
    match field {
        "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets" => by("name"),
        "volumeMounts" => by("mountPath"),
        "conditions" => by("type"),
        "ownerReferences" => by("uid"),
        "finalizers" => Some(Vec::new()),
        "ports" if items.iter().any(|i| i.get("containerPort").is_some()) => by("containerPort"),
        "ports" => by("port"),
        _ => None,
    }
}

fn child<'a>(schema: Option<&'a Schema>, name: &str) -> Option<&'a Schema> {
    let schema = schema?;
    schema.properties.get(name).or(match &schema.additional {
        super::schema::Additional::Of(each) => Some(each),
        _ => None,
    })
}

fn owned_paths(schema: Option<&Schema>, config: &Value) -> BTreeSet<Path> {
    let mut out = BTreeSet::new();
    for (name, value) in config.as_object().into_iter().flatten() {
        let mut path = vec![format!("f:{name}")];
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                for (field, value) in value.as_object().into_iter().flatten() {
                    if !matches!(
                        field.as_str(),
                        "name" | "namespace" | "uid" | "resourceVersion" | "generateName" | "creationTimestamp"
                    ) {
                        path.push(format!("f:{field}"));
                        own(None, field, value, &mut path, &mut out);
                        path.pop();
                    }
                }
            }
            _ => own(child(schema, name), name, value, &mut path, &mut out),
        }
    }
    out
}

fn own(schema: Option<&Schema>, field: &str, value: &Value, path: &mut Path, out: &mut BTreeSet<Path>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                path.push(format!("f:{name}"));
                own(child(schema, name), name, value, path, out);
                path.pop();
            }
        }
        Value::Array(items) => match list_keys(schema, field, items) {
            None => drop(out.insert(path.clone())),
            Some(keys) => {
                for item in items {
                    path.push(item_step(item, &keys));
                    if keys.is_empty() {
                        out.insert(path.clone());
                    } else {
                        own(schema.and_then(|s| s.items.as_deref()), "", item, path, out);
                    }
                    path.pop();
                }
            }
        },
        _ => drop(out.insert(path.clone())),
    }
}

fn item_step(item: &Value, keys: &[String]) -> String {
    if keys.is_empty() {
        return format!("v:{item}");
    }
    let key: Map<String, Value> = keys.iter().map(|k| (k.clone(), item[k].clone())).collect();
    format!("k:{}", Value::Object(key))
}

fn find_item(list: &[Value], step: &str) -> Option<usize> {
    if let Some(key) = step.strip_prefix("k:").and_then(|k| serde_json::from_str::<Map<String, Value>>(k).ok()) {
        return list.iter().position(|item| key.iter().all(|(k, v)| item[k] == *v));
    }
    let value: Value = serde_json::from_str(step.strip_prefix("v:")?).ok()?;
    list.iter().position(|item| *item == value)
}

fn value_at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |place, step| match step.strip_prefix("f:") {
        Some(field) => place.get(field),
        None => place.as_array().and_then(|list| find_item(list, step).map(|at| &list[at])),
    })
}

/// Removes what is at a path, and the containers that are empty then.
fn remove_path(object: &mut Value, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    let is_empty = |v: &Value| v.as_object().is_some_and(Map::is_empty) || v.as_array().is_some_and(Vec::is_empty);
    if let Some(field) = first.strip_prefix("f:") {
        let Some(map) = object.as_object_mut() else { return };
        let Some(child) = map.get_mut(field) else { return };
        remove_path(child, rest);
        if rest.is_empty() || is_empty(child) {
            map.remove(field);
        }
    } else if let Some(list) = object.as_array_mut()
        && let Some(at) = find_item(list, first)
    {
        remove_path(&mut list[at], rest);
        let only_key =
            first.strip_prefix("k:").is_some_and(|k| serde_json::from_str::<Value>(k).is_ok_and(|k| k == list[at]));
        if rest.is_empty() || is_empty(&list[at]) || only_key {
            list.remove(at);
        }
    }
}

/// Lays the applied configuration over the object; lists with keys are merged by them.
fn merge(schema: Option<&Schema>, target: &mut Value, config: &Value, field: &str) {
    match (config, &mut *target) {
        (Value::Object(changes), Value::Object(fields)) => {
            for (name, change) in changes {
                merge(child(schema, name), fields.entry(name).or_insert(Value::Null), change, name);
            }
        }
        (Value::Array(items), Value::Array(list)) => match list_keys(schema, field, items) {
            None => *target = config.clone(),
            Some(keys) => {
                for item in items {
                    match find_item(list, &item_step(item, &keys)) {
                        Some(at) => merge(schema.and_then(|s| s.items.as_deref()), &mut list[at], item, ""),
                        None => list.push(item.clone()),
                    }
                }
            }
        },
        _ => *target = config.clone(),
    }
}

fn path_text(path: &[String]) -> String {
    let mut out = String::new();
    for step in path {
        match step.split_once(':') {
            Some(("f", field)) => out.push_str(&format!(".{field}")),
            Some((_, item)) => out.push_str(&format!("[{item}]")),
            None => {}
        }
    }
    out
}
