//! What a custom resource must be: its metadata, its schema, the fields that scaling uses, its lists and its CEL rules.
use serde_json::Value;

use super::metadata::{self, NameRule};
use super::resource::ResourceInfo;
use super::schema::{self, Schema};
use super::{FieldError, FieldErrorKind, builtin};

/// What is wrong with a new custom resource.
pub(super) fn check_new(info: &ResourceInfo, new: &Value) -> Vec<FieldError> {
    let Some(schema) = &info.schema else { return Vec::new() };
    let mut errors = metadata::validate(new, NameRule::Subdomain);
    schema::validate(schema, new, None, "", &mut errors);
    errors.extend(check_scale(info, new, true));
    schema::validate_lists(schema, new, "", &mut errors);
    run_rules(schema, new, None, &mut errors);
    errors
}

/// What is wrong with a changed custom resource.
pub(super) fn check_changed(info: &ResourceInfo, old: &Value, new: &Value, status_only: bool) -> Vec<FieldError> {
    let Some(schema) = &info.schema else { return Vec::new() };
    let mut errors = metadata::validate_update(old, new);
    if status_only {
        errors.extend(check_status(schema, old, new));
    } else {
        schema::validate(schema, new, Some(old), "", &mut errors);
    }
    errors.extend(check_scale(info, new, !status_only));
    let (mut before, mut after) = (Vec::new(), Vec::new());
    schema::validate_lists(schema, old, "", &mut before);
    schema::validate_lists(schema, new, "", &mut after);
    // Lists that were wrong before may stay so.
    if before.is_empty() {
        errors.extend(after);
    }
    run_rules(schema, new, Some(old), &mut errors);
    let mut all = builtin::check_common(old, new);
    all.extend(errors);
    all
}

/// The status is validated as if it were all: sentences name its fields without it.
fn check_status(schema: &Schema, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let (Some(schema), Some(status)) = (schema.properties.get("status"), new.get("status")) {
        schema::validate(schema, status, old.get("status"), "", &mut errors);
    }
    for error in &mut errors {
        let inside = !matches!(error.field.as_str(), "" | schema::ROOT);
        error.field = if inside { format!("status.{}", error.field) } else { "status".into() };
    }
    errors
}

/// Rules run only over what has the right shape.
fn run_rules(schema: &Schema, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let blocks = |e: &FieldError| {
        use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        matches!(e.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
    };
    if !schema.has_rules {
        return;
    }
    if errors.iter().any(blocks) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid(schema::ROOT, Value::Null, detail));
        return;
    }
    errors.extend(schema::rules::run(schema, new, old));
}

/// The numbers and the selector that the scale subresource shows.
fn check_scale(info: &ResourceInfo, new: &Value, spec_too: bool) -> Vec<FieldError> {
    let Some(paths) = &info.scale else { return Vec::new() };
    let mut errors = Vec::new();
    let numbers = [spec_too.then_some(&paths.spec_replicas), Some(&paths.status_replicas)];
    for path in numbers.into_iter().flatten() {
        match number_at(new, path) {
            Err(why) => errors.push(FieldError::invalid(path, 0, why)),
            Ok(number) if number < 0 => {
                errors.push(FieldError::invalid(path, number, "should be a non-negative integer"));
            }
            Ok(number) if number > i64::from(i32::MAX) => {
                errors.push(FieldError::invalid(path, number, format!("should be less than or equal to {}", i32::MAX)));
            }
            Ok(_) => {}
        }
    }
    if !paths.label_selector.is_empty()
        && let Err(why) = text_at(new, &paths.label_selector)
    {
        errors.push(FieldError::invalid(&paths.label_selector, "", why));
    }
    errors
}

/// The whole number at a path like `.spec.replicas`; 0 where there is none.
pub(super) fn number_at(object: &Value, path: &str) -> Result<i64, String> {
    match value_at(object, path)? {
        None => Ok(0),
        Some(value) => value.as_i64().ok_or_else(|| wrong_type(path, value, "int64")),
    }
}

/// The text at a path; empty where there is none.
pub(super) fn text_at(object: &Value, path: &str) -> Result<String, String> {
    match value_at(object, path)? {
        None => Ok(String::new()),
        Some(value) => value.as_str().map(str::to_owned).ok_or_else(|| wrong_type(path, value, "string")),
    }
}

/// The value at a path, if it is there.
pub(super) fn value_at<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let (mut place, mut so_far) = (object, String::new());
    for step in path.trim_start_matches('.').split('.') {
        match place {
            Value::Null => return Ok(None),
            Value::Object(fields) => {
                so_far = format!("{so_far}.{step}");
                let Some(next) = fields.get(step) else { return Ok(None) };
                place = next;
            }
            other => {
                so_far = format!("{so_far}.{step}");
                return Err(wrong_type(&so_far, other, "map[string]interface{}"));
            }
        }
    }
    Ok(Some(place))
}

fn wrong_type(path: &str, found: &Value, expected: &str) -> String {
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!("{path} accessor error: {} is of the type {kind}, expected {expected}", go_text(found))
}

/// A value as Go prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let all: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{}", go_text(value))).collect();
            format!("map[{}]", all.join(" "))
        }
        other => other.to_string(),
    }
}
