//! Validation against a schema: what is looked at, in which order, and the sentences are those of Kubernetes.
use serde_json::{Value, json};

use super::formats::has_format;
use super::{Additional, ROOT, Schema, join};
use crate::server::{FieldError, FieldErrorKind};

/// Everything that is wrong with `value`, which sits at `path`. What did not change since `old` is let be, as Kubernetes
/// does: a schema that became stricter must not lock the rest of an object.
pub(crate) fn validate(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    if old == Some(value) {
        return;
    }
    if let Some((expected, found)) = type_fault(schema, value) {
        let detail = format!("{path} in body must be of type {expected}: {found:?}");
        errors.push(FieldError::of(FieldErrorKind::TypeInvalid, place(path), json!(found), detail));
    }
    if !value.is_null() {
        validate_junctors(schema, value, old, path, errors);
    }
    match value {
        Value::String(text) => validate_text(schema, text, path, errors),
        Value::Number(_) => validate_number(schema, value, path, errors),
        Value::Array(items) => validate_list(schema, items, old, path, errors),
        _ => {}
    }
    if let Some(choices) = &schema.choices
        && (value.is_null() || !choices.contains(value))
    {
        let plain = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let all: Vec<String> = choices.iter().map(plain).collect();
        errors.push(FieldError::not_supported(place(path), value.clone(), &all));
    }
    if value.is_object() {
        validate_object(schema, value, old, path, errors);
    }
}

fn place(path: &str) -> &str {
    if path.is_empty() { ROOT } else { path }
}

fn validate_junctors(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let faults = |s: &Schema| {
        let mut found = Vec::new();
        validate(s, value, old, path, &mut found);
        found
    };
    // These sentences are about no field.
    let refuse = |errors: &mut Vec<FieldError>, what: &str| {
        errors.push(FieldError::invalid(ROOT, "", format!("{path:?} must {what}")));
    };
    let best = |all: Vec<Vec<FieldError>>| all.into_iter().min_by_key(Vec::len).unwrap_or_default();
    if !schema.any_of.is_empty() {
        let all: Vec<Vec<FieldError>> = schema.any_of.iter().map(faults).collect();
        if !all.iter().any(Vec::is_empty) {
            refuse(errors, "validate at least one schema (anyOf)");
            errors.extend(best(all));
        }
    }
    if !schema.one_of.is_empty() {
        let all: Vec<Vec<FieldError>> = schema.one_of.iter().map(faults).collect();
        match all.iter().filter(|found| found.is_empty()).count() {
            1 => {}
            0 => {
                refuse(errors, "validate one and only one schema (oneOf). Found none valid");
                errors.extend(best(all));
            }
            n => refuse(errors, &format!("validate one and only one schema (oneOf). Found {n} valid alternatives")),
        }
    }
    if !schema.all_of.is_empty() {
        let all: Vec<Vec<FieldError>> = schema.all_of.iter().map(faults).collect();
        let valid = all.iter().filter(|found| found.is_empty()).count();
        let count = all.len();
        errors.extend(all.into_iter().flatten());
        if valid != count {
            let none = if valid == 0 { ". None validated" } else { "" };
            refuse(errors, &format!("validate all the schemas (allOf){none}"));
        }
    }
    if schema.not.as_ref().is_some_and(|s| faults(s).is_empty()) {
        refuse(errors, "not validate the schema (not)");
    }
}

/// The type of a value, and the format that goes with it.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(n) if n.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

/// The type that was expected and the one that was found, where they do not go together. A format without a type, or one
/// that is not of numbers, says nothing about texts and lists: whether a text has it is another question.
fn type_fault(schema: &Schema, value: &Value) -> Option<(String, &'static str)> {
    let types: Vec<&str> = match schema.kind.as_str() {
        _ if schema.int_or_string => vec!["integer", "string"],
        "" => Vec::new(),
        kind => vec![kind],
    };
    let (found, format) = type_of(value);
    if value.is_null() {
        return (!types.is_empty() && !schema.nullable).then(|| (types.join(","), found));
    }
    if types.is_empty() && schema.format.is_empty() {
        return None;
    }
    let whole = found == "number" && value.as_f64().is_some_and(|f| f.fract() == 0.0);
    let numeric = whole && types.contains(&"integer") || found == "integer" && types.contains(&"number");
    let fits = types.contains(&found) || numeric;
    if !schema.format.is_empty() {
        if value.is_string() || value.is_array() {
            if !types.contains(&"number") && !types.contains(&"integer") {
                return None;
            }
        } else if !fits && format != schema.format {
            return Some((schema.format.clone(), format));
        }
    }
    (!fits).then(|| (types.join(","), found))
}

/// Only the first of what is wrong with a text is told, and then whether it has the format.
fn validate_text(schema: &Schema, text: &str, path: &str, errors: &mut Vec<FieldError>) {
    let length = text.chars().count() as u64;
    let limits = &schema.limits;
    if let Some(max) = limits.max_length.filter(|max| length > *max) {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {bytes}");
        errors.push(FieldError::of(FieldErrorKind::TooLong, place(path), json!(text), detail));
    } else if let Some(min) = limits.min_length.filter(|min| length < *min) {
        let detail = format!("{path} in body should be at least {min} chars long");
        errors.push(FieldError::invalid(place(path), text, detail));
    } else if let Some((pattern, regex)) = &schema.pattern
        && !regex.is_match(text)
    {
        errors.push(FieldError::invalid(place(path), text, format!("{path} in body should match '{pattern}'")));
    }
    if !has_format(&schema.format, text) {
        let detail = format!("{path} in body must be of type {}: {text:?}", schema.format);
        errors.push(FieldError::of(FieldErrorKind::TypeInvalid, place(path), json!(text), detail));
    }
}

fn validate_number(schema: &Schema, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let number = value.as_f64().unwrap_or(0.0);
    let limits = &schema.limits;
    let mut refuse = |detail: String| {
        errors.push(FieldError::invalid(place(path), value.clone(), format!("{path} in body {detail}")));
    };
    if let Some(factor) = limits.multiple_of.filter(|f| (number / f).fract() != 0.0) {
        refuse(format!("should be a multiple of {factor}"));
    }
    if let Some(bound) = &limits.minimum {
        let min = bound.value.as_f64().unwrap_or(f64::MIN);
        if number < min || (bound.exclusive && number == min) {
            let or = if bound.exclusive { "" } else { " or equal to" };
            refuse(format!("should be greater than{or} {}", bound.value));
        }
    }
    if let Some(bound) = &limits.maximum {
        let max = bound.value.as_f64().unwrap_or(f64::MAX);
        if number > max || (bound.exclusive && number == max) {
            let or = if bound.exclusive { "" } else { " or equal to" };
            refuse(format!("should be less than{or} {}", bound.value));
        }
    }
}

fn too_many(path: &str, count: u64, max: u64) -> FieldError {
    let items = if max == 1 { "item" } else { "items" };
    let detail = format!("{count}: must have at most {max} {items}");
    FieldError::of(FieldErrorKind::TooMany, place(path), json!(count), detail)
}

fn validate_list(schema: &Schema, items: &[Value], old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(each) = &schema.items {
        for (i, item) in items.iter().enumerate() {
            validate(each, item, schema.earlier(item, old), &format!("{path}[{i}]"), errors);
        }
    }
    let count = items.len() as u64;
    if let Some(min) = schema.limits.min_items.filter(|min| count < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        errors.push(FieldError::invalid(place(path), count, detail));
    }
    if let Some(max) = schema.limits.max_items.filter(|max| count > *max) {
        errors.push(too_many(path, count, max));
    }
    if schema.limits.unique_items && items.iter().enumerate().any(|(i, item)| items[..i].contains(item)) {
        errors.push(FieldError::invalid(place(path), "", format!("{path} in body shouldn't contain duplicates")));
    }
}

fn validate_object(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(fields) = value.as_object() else { return };
    let count = fields.len() as u64;
    if let Some(min) = schema.limits.min_properties.filter(|min| count < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        errors.push(FieldError::invalid(place(path), count, detail));
    }
    if let Some(max) = schema.limits.max_properties.filter(|max| count > *max) {
        errors.push(too_many(path, count, max));
    }
    let before = |name: &str| old.and_then(|o| o.get(name));
    if let Additional::Of(each) = &schema.additional {
        for (name, child) in fields.iter().filter(|(name, _)| !schema.properties.contains_key(*name)) {
            validate(each, child, before(name), &format!("{path}.{name}"), errors);
        }
    }
    for (name, known) in &schema.properties {
        if let Some(child) = fields.get(name) {
            validate(known, child, before(name), &join(path, name), errors);
        }
    }
    for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
        errors.push(FieldError::required(join(path, name), ""));
    }
    if schema.embedded {
        for name in ["apiVersion", "kind"] {
            if fields.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                errors.push(FieldError::required(join(path, name), "must not be empty"));
            }
        }
    }
}
