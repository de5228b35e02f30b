//! Lists that are sets, or maps by some of their items' fields: what is in them twice.
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Additional, ListType, Schema, join};
use crate::server::FieldError;

/// What is twice in the lists of `value`, which sits at `path`.
pub(crate) fn validate_lists(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            check(schema, items, path, errors);
            if let Some(each) = &schema.items {
                for (i, item) in items.iter().enumerate() {
                    validate_lists(each, item, &format!("{path}[{i}]"), errors);
                }
            }
        }
        Value::Object(fields) => {
            for (name, child) in fields {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(known), _) => validate_lists(known, child, &join(path, name), errors),
                    (None, Additional::Of(known)) => validate_lists(known, child, &format!("{path}[{name}]"), errors),
                    (None, _) => {}
                }
            }
        }
        _ => {}
    }
}

fn check(schema: &Schema, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let keys: Vec<Value> = match &schema.list_type {
        ListType::Atomic => return,
        ListType::Set => items.to_vec(),
        ListType::Map(names) => {
            if let Some(at) = items.iter().position(|item| !item.is_null() && !item.is_object()) {
                let detail = "must be an object for an array of list-type map";
                errors.push(FieldError::invalid(format!("{path}[{at}]"), items[at].clone(), detail));
                return;
            }
            let key = |item: &Value| -> Map<String, Value> {
                names.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect()
            };
            items.iter().map(|item| json!(key(item))).collect()
        }
    };
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for (i, key) in keys.into_iter().enumerate() {
        let times = seen.entry(key.to_string()).or_default();
        *times += 1;
        // The third and the later ones are not told.
        if *times == 2 {
            errors.push(FieldError::duplicate(format!("{path}[{i}]"), key));
        }
    }
}
