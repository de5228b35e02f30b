//! Strategic merge patch: lists of the built-in kinds are merged by their keys.
use serde_json::{Map, Value};

use super::types::{Record, Type, Types};

/// The record behind a field, and how its list is merged: by this key, or as a set where the key is empty.
fn known<'a>(record: Option<&'a Record>, field: &str) -> (Option<&'a Record>, Option<&'a str>) {
    fn of(kind: &Type) -> Option<&Record> {
        match kind {
            Type::Record { name, .. } => Some(Types::of_this_version().record(name)),
            _ => None,
        }
    }
    match record.and_then(|record| record.fields.get(field)) {
        Some(Type::List { of: item, merge, .. }) => (of(item), merge.as_deref()),
        Some(kind) => (of(kind), None),
        None => (None, None),
    }
}

/// Applies a strategic merge patch to what this record describes.
pub(super) fn merge(record: Option<&Record>, target: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    match changes.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            let mut whole = changes.clone();
            whole.remove("$patch");
            *target = Value::Object(whole);
            return;
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return;
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().expect("made an object just above");
    for (name, change) in changes {
        if let Some(field) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = change.as_array().cloned().unwrap_or_default();
            if let Some(list) = fields.get_mut(field).and_then(Value::as_array_mut) {
                list.retain(|item| !gone.contains(item));
            }
        } else if name == "$retainKeys" {
            let kept: Vec<&str> = change.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            fields.retain(|field, _| kept.contains(&field.as_str()));
        } else if name.starts_with('$') {
            // Order directives only say where merged items stand.
        } else {
            merge_field(record, fields, name, change);
        }
    }
}

fn merge_field(record: Option<&Record>, fields: &mut Map<String, Value>, name: &str, change: &Value) {
    if change.is_null() {
        fields.remove(name);
        return;
    }
    let (inner, key) = known(record, name);
    match (fields.get_mut(name), change) {
        (Some(there @ Value::Object(_)), Value::Object(_)) => merge(inner, there, change),
        (Some(Value::Array(list)), Value::Array(items)) => match key {
            Some("") => merge_set(list, items),
            Some(key) if items.iter().all(Value::is_object) => merge_list(inner, list, items, key),
            _ => *list = items.clone(),
        },
        // What is not there is taken as it is; what is a directive then has nothing to direct.
        _ => match plain(change) {
            Some(value) => drop(fields.insert(name.to_owned(), value)),
            None => drop(fields.remove(name)),
        },
    }
}

/// A part of a patch without its directives and nulls; nothing where it is a directive itself.
fn plain(patch: &Value) -> Option<Value> {
    match patch {
        Value::Object(fields) if fields.contains_key("$patch") => None,
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Some(Value::Object(kept.filter_map(|(name, value)| Some((name.clone(), plain(value)?))).collect()))
        }
        Value::Array(items) => Some(items.iter().filter_map(plain).collect()),
        other => Some(other.clone()),
    }
}

/// Plain values are merged as a set: what the patch adds stands before what it does not name.
fn merge_set(list: &mut Vec<Value>, items: &[Value]) {
    let mut fresh: Vec<Value> = Vec::new();
    for item in items {
        if !list.contains(item) && !fresh.contains(item) {
            fresh.push(item.clone());
        }
    }
    list.splice(0..0, fresh);
}

fn merge_list(record: Option<&Record>, list: &mut Vec<Value>, items: &[Value], key: &str) {
    if items.iter().any(|i| i["$patch"] == "replace") {
        *list = items.iter().filter(|i| i["$patch"].is_null()).cloned().collect();
        return;
    }
    let mut fresh = Vec::new();
    for item in items {
        let known = list.iter().position(|have| !item[key].is_null() && have[key] == item[key]);
        match (item["$patch"].as_str(), known) {
            (Some("delete"), Some(at)) => drop(list.remove(at)),
            (Some("delete"), None) => {}
            (_, Some(at)) => merge(record, &mut list[at], item),
            (_, None) => fresh.extend(plain(item)),
        }
    }
    // As in Kubernetes, items that the patch adds stand before those it does not name.
    list.splice(0..0, fresh);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> Option<&'static Record> {
        Some(Types::of_this_version().record("core.v1.PodSpec"))
    }

    #[test]
    fn containers_are_merged_by_name_and_deleted_by_directive() {
        let mut pod =
            json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]});
        let patch = json!({"containers": [{"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]}, {"name": "b", "$patch": "delete"}]});
        merge(spec(), &mut pod, &patch);
        assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
        assert_eq!(pod["containers"][0]["image"], "2");
        assert_eq!(pod["containers"][0]["env"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn finalizers_are_merged_as_a_set_and_removed_by_directive() {
        let mut meta = json!({"finalizers": ["a/b"], "labels": {"x": "1", "y": "2"}});
        merge(
            Some(Types::of_this_version().record("meta.v1.ObjectMeta")),
            &mut meta,
            &json!({"finalizers": ["c/d", "a/b"], "labels": {"x": null}}),
        );
        assert_eq!(meta, json!({"finalizers": ["c/d", "a/b"], "labels": {"y": "2"}}));
        merge(
            Some(Types::of_this_version().record("meta.v1.ObjectMeta")),
            &mut meta,
            &json!({"$deleteFromPrimitiveList/finalizers": ["a/b"]}),
        );
        assert_eq!(meta["finalizers"], json!(["c/d"]));
    }

    #[test]
    fn a_directive_for_what_is_not_there_does_nothing() {
        let mut meta = json!({"name": "x"});
        let record = Types::of_this_version().record("meta.v1.ObjectMeta");
        merge(
            Some(record),
            &mut meta,
            &json!({"labels": {"$patch": "replace", "only": "this"}, "annotations": {"a": null}}),
        );
        assert_eq!(meta, json!({"name": "x", "annotations": {}}));
    }

    #[test]
    fn other_lists_are_replaced() {
        let container = Types::of_this_version().record("core.v1.Container");
        let mut target = json!({"args": ["a", "b"]});
        merge(Some(container), &mut target, &json!({"args": ["c"]}));
        assert_eq!(target, json!({"args": ["c"]}));
    }
}
