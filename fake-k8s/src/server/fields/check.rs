//! Whether a configuration that is applied is of its type, told in the words of structured-merge-diff.
use std::collections::BTreeSet;

use serde_json::Value;

use super::shape::{Kind, Parts, Shape};
use super::text_of;

/// What is wrong with it; `None` for nothing.
pub(in crate::server) fn mistakes(shape: Shape<'_>, config: &Value) -> Option<String> {
    let mut check = Check { path: Vec::new(), found: Vec::new() };
    check.value(shape, config);
    match check.found.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(
            std::iter::once("errors:".to_owned())
                .chain(many.iter().map(|one| format!("  {one}")))
                .collect::<Vec<_>>()
                .join("\n"),
        ),
    }
}

struct Check {
    path: Vec<String>,
    found: Vec<String>,
}

impl Check {
    fn say(&mut self, what: &str) {
        let path = text_of(&self.path);
        self.found.push(if path.is_empty() { what.to_owned() } else { format!("{path}: {what}") });
    }

    fn value(&mut self, shape: Shape<'_>, value: &Value) {
        if value.is_null() {
            return;
        }
        match (shape.kind(), value) {
            (Kind::Any, Value::Object(_)) | (Kind::Map, Value::Object(_)) => self.fields(shape, value),
            (Kind::List, Value::Array(items)) => self.items(shape, items),
            (Kind::Map, other) => self.say(&format!("expected map, got &{{{}}}", plain(other))),
            (Kind::List, other) => self.say(&format!("expected list, got &{{{}}}", plain(other))),
            (Kind::Text, Value::String(_))
            | (Kind::Number, Value::Number(_))
            | (Kind::Boolean, Value::Bool(_))
            | (Kind::Any, _) => {}
            (Kind::Scalar, Value::String(_) | Value::Number(_) | Value::Bool(_)) => {}
            (Kind::Text, other) => {
                self.say(&format!("expected string, got &value.valueUnstructured{{Value:{}}}", syntax(other)));
            }
            (Kind::Number, other) => self.say(&format!("expected numeric (int or float), got {}", type_of(other))),
            (Kind::Boolean, other) => self.say(&format!("expected boolean, got &{{{}}}", plain(other))),
            (Kind::Scalar, other) => self.say(&format!("expected any scalar, got &{{{}}}", plain(other))),
        }
    }

    fn fields(&mut self, shape: Shape<'_>, value: &Value) {
        for (name, field) in value.as_object().into_iter().flatten() {
            self.path.push(format!("f:{name}"));
            if shape.declares(name) {
                self.value(shape.field(name).0, field);
            } else {
                self.say("field not declared in schema");
            }
            self.path.pop();
        }
    }

    fn items(&mut self, shape: Shape<'_>, items: &[Value]) {
        let Parts::Items(keys) = shape.parts(&Value::Array(Vec::new())) else {
            for (i, item) in items.iter().enumerate() {
                self.path.push(format!("i:{i}"));
                self.value(shape.items(), item);
                self.path.pop();
            }
            return;
        };
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            if let Some(why) = shape.no_key(item, &keys) {
                return self.say(&format!("element {i}: {why}"));
            }
            let step = shape.item_step(item, &keys);
            if !seen.insert(step.clone()) {
                let key = text_of(std::slice::from_ref(&step));
                self.say(&format!("duplicate entries for key {key}"));
            }
            self.path.push(step);
            self.value(shape.items(), item);
            self.path.pop();
        }
    }
}

/// As Go prints a value with `%v`.
pub(in crate::server) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{}", plain(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// As Go prints it with `%#v`.
fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name:?}:{}", syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::types::Types;

    #[test]
    fn what_is_wrong_is_said_with_its_path() {
        let record = Types::of_this_version().kind("", "v1", "Pod").expect("a kind");
        let shape = Shape::Record { record, granular: false };
        for (config, expected) in [
            (json!({"spec": {"containers": [{"name": "a", "image": "b"}]}}), None),
            (json!({"spec": {"odd": 1}}), Some(".spec.odd: field not declared in schema")),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                Some(".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}"),
            ),
            (json!({"spec": []}), Some(".spec: expected map, got &{[]}")),
            (
                json!({"spec": {"activeDeadlineSeconds": "x"}}),
                Some(".spec.activeDeadlineSeconds: expected numeric (int or float), got string"),
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
                Some(".spec.containers: duplicate entries for key [name=\"a\"]"),
            ),
        ] {
            assert_eq!(mistakes(shape, &config).as_deref(), expected, "{config}");
        }
    }
}
