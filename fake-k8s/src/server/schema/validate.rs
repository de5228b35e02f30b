//! Validation against a schema, with the sentences of Kubernetes.
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Additional, ListType, Schema, join};
use crate::server::{FieldError, FieldErrorKind};

/// Everything that is wrong with `value`, which sits at `path`. What did not change since `old` is let be, as Kubernetes
/// does: a schema that became stricter must not lock the rest of an object.
pub(crate) fn validate(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    if old == Some(value) {
        return;
    }
    if value.is_null() {
        if !schema.nullable && (!schema.kind.is_empty() || schema.int_or_string) {
            wrong_type(expected(schema), value, path, errors);
        }
        return;
    }
    if !has_type(schema, value) {
        wrong_type(expected(schema), value, path, errors);
        return;
    }
    if let Some(choices) = &schema.choices
        && !choices.contains(value)
    {
        let plain = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let all: Vec<String> = choices.iter().map(plain).collect();
        errors.push(FieldError::not_supported(path, value.clone(), &all));
    }
    match value {
        Value::String(text) => validate_text(schema, text, path, errors),
        Value::Number(_) => validate_number(schema, value, path, errors),
        Value::Array(items) => validate_list(schema, items, old, path, errors),
        Value::Object(_) => validate_object(schema, value, old, path, errors),
        Value::Bool(_) | Value::Null => {}
    }
    validate_junctors(schema, value, path, errors);
}

fn validate_junctors(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let holds = |s: &Schema| {
        let mut found = Vec::new();
        validate(s, value, None, path, &mut found);
        found.is_empty()
    };
    for part in &schema.all_of {
        validate(part, value, None, path, errors);
    }
    let shown = || type_name(value);
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(holds) {
        let detail = format!("{path} in body must validate at least one schema (anyOf)");
        errors.push(FieldError::invalid(path, shown(), detail));
    }
    if !schema.one_of.is_empty() {
        let count = schema.one_of.iter().filter(|s| holds(s)).count();
        if count != 1 {
            let found =
                if count == 0 { "Found none valid".to_owned() } else { format!("Found {count} valid alternatives") };
            let detail = format!("{path} in body must validate one and only one schema (oneOf). {found}");
            errors.push(FieldError::invalid(path, shown(), detail));
        }
    }
    if schema.not.as_ref().is_some_and(|s| holds(s)) {
        errors.push(FieldError::invalid(path, shown(), format!("{path} in body must not validate the schema (not)")));
    }
}

fn expected(schema: &Schema) -> &str {
    if schema.int_or_string { "integer,string" } else { &schema.kind }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(schema: &Schema, value: &Value) -> bool {
    let found = type_name(value);
    if schema.int_or_string {
        return matches!(found, "integer" | "string");
    }
    match schema.kind.as_str() {
        "" => true,
        "number" => matches!(found, "number" | "integer"),
        "integer" => found == "integer" || value.as_f64().is_some_and(|f| f.fract() == 0.0),
        kind => kind == found,
    }
}

fn wrong_type(expected: &str, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let found = type_name(value);
    let detail = format!("{path} in body must be of type {expected}: {found:?}");
    errors.push(FieldError::of(FieldErrorKind::TypeInvalid, path, json!(found), detail));
}

fn validate_text(schema: &Schema, text: &str, path: &str, errors: &mut Vec<FieldError>) {
    let length = text.chars().count() as u64;
    if let Some(max) = schema.limits.max_length.filter(|max| length > *max) {
        let detail = format!("may not be more than {max} bytes");
        errors.push(FieldError::of(FieldErrorKind::TooLong, path, json!(text), detail));
    }
    if let Some(min) = schema.limits.min_length.filter(|min| length < *min) {
        errors.push(FieldError::invalid(path, text, format!("{path} in body should be at least {min} chars long")));
    }
    if let Some((pattern, regex)) = &schema.pattern
        && !regex.is_match(text)
    {
        errors.push(FieldError::invalid(path, text, format!("{path} in body should match '{pattern}'")));
    }
    let known = match schema.format.as_str() {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        _ => true,
    };
    if !known {
        let detail = format!("{path} in body must be of type {}: {text:?}", schema.format);
        errors.push(FieldError::invalid(path, text, detail));
    }
}

fn validate_number(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let number = value.as_f64().unwrap_or(0.0);
    let limits = &schema.limits;
    let mut refuse = |detail: String| errors.push(FieldError::invalid(path, value.clone(), detail));
    if let Some(bound) = &limits.maximum {
        let max = bound.value.as_f64().unwrap_or(f64::MAX);
        if number > max || (bound.exclusive && number == max) {
            let or = if bound.exclusive { "" } else { " or equal to" };
            refuse(format!("{path} in body should be less than{or} {}", bound.value));
        }
    }
    if let Some(bound) = &limits.minimum {
        let min = bound.value.as_f64().unwrap_or(f64::MIN);
        if number < min || (bound.exclusive && number == min) {
            let or = if bound.exclusive { "" } else { " or equal to" };
            refuse(format!("{path} in body should be greater than{or} {}", bound.value));
        }
    }
    if let Some(factor) = limits.multiple_of.filter(|f| (number / f).fract() != 0.0) {
        refuse(format!("{path} in body should be a multiple of {factor}"));
    }
    let fits = match schema.format.as_str() {
        "int32" => i32::try_from(value.as_i64().unwrap_or(i64::MAX)).is_ok(),
        "int64" => value.as_i64().is_some() || value.is_f64(),
        _ => true,
    };
    if !fits {
        refuse(format!("{path} in body must be of type {}: {:?}", schema.format, type_name(value)));
    }
}

fn validate_list(schema: &Schema, items: &[Value], old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let count = items.len() as u64;
    if let Some(max) = schema.limits.max_items.filter(|max| count > *max) {
        let detail = format!("must have at most {max} items");
        let mut error = FieldError::of(FieldErrorKind::TooMany, path, json!(count), detail);
        error.detail = format!("{count}: {}", error.detail);
        errors.push(error);
    }
    if let Some(min) = schema.limits.min_items.filter(|min| count < *min) {
        errors.push(FieldError::invalid(path, count, format!("{path} in body should have at least {min} items")));
    }
    if let Some(each) = &schema.items {
        for (i, item) in items.iter().enumerate() {
            validate(each, item, schema.earlier(item, old), &format!("{path}[{i}]"), errors);
        }
    }
    let mut seen = BTreeSet::new();
    for (i, item) in items.iter().enumerate() {
        let key = match &schema.list_type {
            ListType::Map(keys) => keys.iter().map(|k| (k.clone(), item[k].clone())).collect::<Value>(),
            ListType::Set => item.clone(),
            ListType::Atomic if schema.limits.unique_items => item.clone(),
            ListType::Atomic => return,
        };
        if !seen.insert(key.to_string()) {
            errors.push(FieldError::duplicate(format!("{path}[{i}]"), key));
        }
    }
}

fn validate_object(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(fields) = value.as_object() else { return };
    let count = fields.len() as u64;
    for name in &schema.required {
        if !fields.contains_key(name) {
            errors.push(FieldError::required(join(path, name), ""));
        }
    }
    if let Some(max) = schema.limits.max_properties.filter(|max| count > *max) {
        errors.push(FieldError::invalid(path, count, format!("{path} in body should have at most {max} properties")));
    }
    if let Some(min) = schema.limits.min_properties.filter(|min| count < *min) {
        errors.push(FieldError::invalid(path, count, format!("{path} in body should have at least {min} properties")));
    }
    if schema.embedded {
        for name in ["apiVersion", "kind"] {
            if fields.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                errors.push(FieldError::required(join(path, name), "must not be empty"));
            }
        }
    }
    for (name, child) in fields {
        let before = old.and_then(|o| o.get(name));
        match (schema.properties.get(name), &schema.additional) {
            (Some(known), _) => validate(known, child, before, &join(path, name), errors),
            (None, Additional::Of(known)) => validate(known, child, before, &join(path, name), errors),
            (None, _) => {}
        }
    }
}
