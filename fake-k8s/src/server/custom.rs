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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_the_scale_lead_to_numbers_and_texts() {
        let object =
            json!({"spec": {"size": "three", "many": [1, {"a": null}], "half": 1.5, "size2": 3, "none": null}});
        for (path, expected) in [
            (".spec.size2", Ok(3)),
            (".spec.gone", Ok(0)),
            (".gone.size", Ok(0)),
            (".spec.none.size", Ok(0)),
            (".spec.size", Err(".spec.size accessor error: three is of the type string, expected int64")),
            (".spec.half", Err(".spec.half accessor error: 1.5 is of the type float64, expected int64")),
            (
                ".spec.many",
                Err(".spec.many accessor error: [1 map[a:<nil>]] is of the type []interface {}, expected int64"),
            ),
            (
                ".spec.size.x",
                Err(".spec.size.x accessor error: three is of the type string, expected map[string]interface{}"),
            ),
        ] {
            assert_eq!(number_at(&object, path), expected.map_err(str::to_owned), "{path}");
        }
        assert_eq!(text_at(&object, ".spec.size").as_deref(), Ok("three"));
    }

    #[test]
    fn a_schema_is_looked_at_keyword_by_keyword() {
        let source = json!({"type": "object", "required": ["spec"], "properties": {
            "spec": {"type": "object", "minProperties": 1, "properties": {
                "size": {"type": "integer", "format": "int32", "maximum": 9},
                "title": {"type": "string", "maxLength": 8, "pattern": "^[a-z]*$", "enum": ["a"]},
                "when": {"type": "string", "format": "date-time"},
                "tags": {"type": "array", "maxItems": 1, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "any": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"}}},
            "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
        let schema = Schema::shared(&source, "", &mut Vec::new());
        let said = |object: Value| {
            let mut errors = Vec::new();
            schema::validate(&schema, &object, None, "", &mut errors);
            schema::validate_lists(&schema, &object, "", &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for (object, expected) in [
            (json!({}), vec!["spec: Required value"]),
            (json!({"spec": {}}), vec!["spec: Invalid value: 0: spec in body should have at least 1 properties"]),
            (
                json!({"spec": {"size": "x"}}),
                vec!["spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""],
            ),
            (
                json!({"spec": {"size": true}}),
                vec!["spec.size: Invalid value: \"\": spec.size in body must be of type int32: \"\""],
            ),
            (
                json!({"spec": {"title": "TOO LONG FOR IT"}}),
                vec![
                    "spec.title: Too long: may not be more than 8 bytes",
                    "spec.title: Unsupported value: \"TOO LONG FOR IT\": supported values: \"a\"",
                ],
            ),
            (
                json!({"spec": {"when": "now"}}),
                vec!["spec.when: Invalid value: \"now\": spec.when in body must be of type date-time: \"now\""],
            ),
            (
                json!({"spec": {"tags": ["a", "a", "a"]}}),
                vec!["spec.tags: Too many: 3: must have at most 1 item", "spec.tags[1]: Duplicate value: \"a\""],
            ),
            (
                json!({"spec": {"any": {}}}),
                vec![
                    "<nil>: Invalid value: \"\": \"spec.any\" must validate at least one schema (anyOf)",
                    "spec.any.a: Required value",
                ],
            ),
        ] {
            assert_eq!(said(object.clone()), expected, "{object}");
        }
        let errors = check_status(&schema, &json!({}), &json!({"status": {"size": "x"}}));
        assert_eq!(
            errors[0].to_string(),
            "status.size: Invalid value: \"string\": size in body must be of type integer: \"string\""
        );
    }
}
