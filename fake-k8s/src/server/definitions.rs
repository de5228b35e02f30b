//! CustomResourceDefinitions: from the object to resources that are served, and the end of both.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::metadata::time_text;
use super::resource::{Column, ResourceInfo, ScalePaths, StorageKey};
use super::schema::Schema;
use super::{FieldError, Options, Propagation, ResourceName, Server, object};

/// Holds a definition until its last object is gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(super) fn storage() -> StorageKey {
    StorageKey { group: "apiextensions.k8s.io".into(), plural: "customresourcedefinitions".into() }
}

/// Names that Kubernetes derives, and the status that its controller would write.
pub(super) fn complete(definition: &mut Value, now: Timestamp) {
    let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let names = &mut definition["spec"]["names"];
    if names["singular"].as_str().is_none_or(str::is_empty) {
        names["singular"] = json!(kind.to_lowercase());
    }
    if names["listKind"].as_str().is_none_or(str::is_empty) {
        names["listKind"] = json!(format!("{kind}List"));
    }
    let names = names.clone();
    if definition["spec"]["conversion"].is_null() {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    let stored = versions(definition).iter().filter(|v| v["storage"] == true).map(|v| v["name"].clone()).collect();
    let (stored, at): (Vec<Value>, _) = (stored, time_text(now));
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at, "reason": reason, "message": message});
    if definition["status"]["conditions"].as_array().is_none_or(Vec::is_empty) {
        definition["status"] = json!({"conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ]});
    }
    definition["status"]["acceptedNames"] = names;
    definition["status"]["storedVersions"] = Value::Array(stored);
}

fn versions(definition: &Value) -> Vec<Value> {
    definition["spec"]["versions"].as_array().cloned().unwrap_or_default()
}

/// The rules of a definition itself, as far as a mistake in them would go unnoticed otherwise.
pub(super) fn validate(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &definition["spec"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    for (path, value) in [
        ("spec.group", &spec["group"]),
        ("spec.names.plural", &spec["names"]["plural"]),
        ("spec.names.kind", &spec["names"]["kind"]),
    ] {
        if text(value).is_empty() {
            errors.push(FieldError::required(path, ""));
        }
    }
    let expected = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if object::name(definition) != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", object::name(definition), detail));
    }
    if !matches!(spec["scope"].as_str(), Some("Namespaced" | "Cluster")) {
        let supported = ["Cluster".to_owned(), "Namespaced".to_owned()];
        errors.push(FieldError::not_supported("spec.scope", spec["scope"].clone(), &supported));
    }
    let all = versions(definition);
    if all.iter().filter(|v| v["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", spec["versions"].clone(), detail));
    }
    for (i, version) in all.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
            errors.push(FieldError::required(path, "schemas are required"));
        } else {
            let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
            Schema::shared(&version["schema"]["openAPIV3Schema"], &path, &mut errors);
        }
    }
    errors
}

fn infos(definition: &Value) -> Vec<ResourceInfo> {
    let all = versions(definition);
    all.iter().filter(|v| v["served"] == true).map(|v| info(&definition["spec"], v)).collect()
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn info(spec: &Value, version: &Value) -> ResourceInfo {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let scale = version["subresources"]["scale"].as_object().map(|scale| ScalePaths {
        spec_replicas: scale.get("specReplicasPath").map(text).unwrap_or_default(),
        status_replicas: scale.get("statusReplicasPath").map(text).unwrap_or_default(),
        label_selector: scale.get("labelSelectorPath").map(text).unwrap_or_default(),
    });
    let source = &version["schema"]["openAPIV3Schema"];
    let column = |c: &Value| Column {
        name: text(&c["name"]),
        kind: text(&c["type"]),
        format: text(&c["format"]),
        description: text(&c["description"]),
        priority: c["priority"].as_i64().and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
        json_path: text(&c["jsonPath"]),
    };
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    ResourceInfo {
        name: ResourceName::new(group.clone(), text(&version["name"]), plural.clone()),
        kind: text(&spec["names"]["kind"]),
        list_kind: text(&spec["names"]["listKind"]),
        singular: text(&spec["names"]["singular"]),
        namespaced: spec["scope"] == "Namespaced",
        short_names: words(&spec["names"]["shortNames"]),
        categories: words(&spec["names"]["categories"]),
        status: version["subresources"]["status"].is_object(),
        scale,
        subresources: Vec::new(),
        columns: version["additionalPrinterColumns"].as_array().into_iter().flatten().map(column).collect(),
        selectable_fields: fields.map(|f| text(&f["jsonPath"]).trim_start_matches('.').to_owned()).collect(),
        custom: true,
        generation: true,
        unconditional_update: false,
        create_on_update: false,
        storage: StorageKey { group, plural },
        schema: Some(Schema::shared(source, "", &mut Vec::new())),
        schema_source: source.clone(),
    }
}

impl Server {
    /// Serves what a definition says, after it was written.
    pub(super) fn serve_definition(&mut self, definition: &Value) {
        let key = defined_storage(definition);
        self.registry.remove(&key.group, &key.plural);
        for info in infos(definition) {
            self.registry.insert(info);
        }
    }

    /// After a definition was removed.
    pub(super) fn withdraw_definition(&mut self, definition: &Value) {
        let key = defined_storage(definition);
        self.registry.remove(&key.group, &key.plural);
    }

    /// Deletes the objects of a definition that is being deleted, and lets it go once none is left.
    pub(super) fn clean_definition(&mut self, now: Timestamp, name: &str) {
        let Some(definition) = self.store.get(&storage(), "", name).cloned() else { return };
        if !object::is_deleting(&definition) || !object::finalizers(&definition).contains(&CLEANUP) {
            return;
        }
        let key = defined_storage(&definition);
        let options = Options { propagation: Some(Propagation::Background), ..Options::default() };
        let all: Vec<_> = self.store.list(&key, None).cloned().collect();
        if let Some(info) = infos(&definition).first() {
            for object in all.iter().filter(|o| !object::is_deleting(o)) {
                // Without preconditions a delete of a stored object cannot be refused.
                let _ = self.delete_stored(now, info, object, &options);
            }
        }
        if self.store.list(&key, None).next().is_some() {
            return;
        }
        let Some(definition) = self.store.get(&storage(), "", name).cloned() else { return };
        let left: Vec<&str> = object::finalizers(&definition).into_iter().filter(|f| *f != CLEANUP).collect();
        let mut last = Value::clone(&definition);
        object::meta_mut(&mut last).insert("finalizers".into(), json!(left));
        if left.is_empty() {
            object::meta_mut(&mut last).remove("finalizers");
            self.remove(now, &storage(), "", name, Some(last));
        } else {
            self.put(&storage(), last);
        }
    }
}

fn defined_storage(definition: &Value) -> StorageKey {
    let spec = &definition["spec"];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    StorageKey { group: text(&spec["group"]), plural: text(&spec["names"]["plural"]) }
}
