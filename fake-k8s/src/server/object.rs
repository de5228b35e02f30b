//! Reading and writing the few fields of an object that every part of an API server looks at.
use serde_json::{Map, Value};

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    meta_str(object, "name")
}

/// `metadata.namespace`, empty where there is none.
pub fn namespace(object: &Value) -> &str {
    meta_str(object, "namespace")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    meta_str(object, "uid")
}

/// `metadata.resourceVersion` as the server gave it.
pub fn version(object: &Value) -> &str {
    meta_str(object, "resourceVersion")
}

/// `metadata.generation`, 0 where there is none.
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or(0)
}

/// `metadata.deletionTimestamp` is set.
pub fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// A string field of the metadata, empty where it is absent.
pub fn meta_str<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or("")
}

/// A label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

/// An annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .map(|f| f.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// The metadata for writing; made where it is missing.
pub fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    entry_object(object, "metadata")
}

/// A member of `object` that is an object itself; made where it is missing or of another type.
pub fn entry_object<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let slot = &mut object[field];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("made an object just above")
}

/// Sets a field, or takes it away with `Null`.
pub fn set_or_remove(map: &mut Map<String, Value>, field: &str, value: &Value) {
    if value.is_null() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), value.clone());
    }
}
