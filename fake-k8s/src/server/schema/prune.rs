//! Dropping what the schema does not know, and filling in what it defaults.
use serde_json::{Map, Value};

use super::{Additional, Schema, join};

/// The paths of the fields that were dropped.
pub(crate) type Unknown = Vec<String>;

const METADATA: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Prunes a whole object. What was dropped from its metadata comes first.
pub(crate) fn prune(schema: &Schema, object: &mut Value) -> Unknown {
    let mut unknown = Unknown::new();
    let Some(fields) = object.as_object_mut() else { return unknown };
    prune_object(schema, fields, "", true, &mut unknown);
    unknown.sort_by_key(|path| (!path.starts_with("metadata."), path.clone()));
    unknown
}

fn prune_metadata(metadata: &mut Value, path: &str, unknown: &mut Unknown) {
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|name, _| {
            let known = METADATA.contains(&name.as_str());
            if !known {
                unknown.push(join(path, name));
            }
            known
        });
    }
}

fn prune_object(schema: &Schema, fields: &mut Map<String, Value>, path: &str, resource: bool, unknown: &mut Unknown) {
    let mut dropped = Vec::new();
    for (name, value) in fields.iter_mut() {
        let at = join(path, name);
        if resource && matches!(name.as_str(), "apiVersion" | "kind") {
            continue;
        }
        if resource && name == "metadata" {
            prune_metadata(value, &at, unknown);
            continue;
        }
        match (schema.properties.get(name), &schema.additional) {
            (Some(child), _) => prune_value(child, value, &at, unknown),
            (None, Additional::Of(child)) => prune_value(child, value, &at, unknown),
            (None, Additional::Any) => {}
            (None, Additional::None) if schema.preserve_unknown => {}
            (None, Additional::None) => dropped.push(name.clone()),
        }
    }
    for name in dropped {
        fields.remove(&name);
        unknown.push(join(path, &name));
    }
}

fn prune_value(schema: &Schema, value: &mut Value, path: &str, unknown: &mut Unknown) {
    match value {
        Value::Object(fields) if schema.kind == "object" || schema.preserve_unknown => {
            prune_object(schema, fields, path, schema.embedded, unknown);
        }
        Value::Array(items) => {
            if let Some(each) = &schema.items {
                for (i, item) in items.iter_mut().enumerate() {
                    prune_value(each, item, &format!("{path}[{i}]"), unknown);
                }
            }
        }
        _ => {}
    }
}

/// Drops nulls where none may be and fills in defaults, also within what was just filled in.
pub(crate) fn default(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, child) in &schema.properties {
                if fields.get(name).is_some_and(|v| v.is_null() && !child.nullable) {
                    fields.remove(name);
                }
                if !fields.contains_key(name)
                    && let Some(default) = &child.default
                {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    default(child, value);
                }
            }
            if let Additional::Of(each) = &schema.additional {
                let others = fields.iter_mut().filter(|(name, _)| !schema.properties.contains_key(*name));
                others.for_each(|(_, value)| default(each, value));
            }
        }
        Value::Array(items) => {
            if let Some(each) = &schema.items {
                items.iter_mut().for_each(|item| default(each, item));
            }
        }
        _ => {}
    }
}
