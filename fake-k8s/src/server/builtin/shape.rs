//! Values as Kubernetes' own (internal) types are written in its messages: fields in the order in which the type has them,
//! under the names of the code, and with what is absent.
use std::collections::BTreeMap;

use serde_json::Value;

/// What a place of a type holds, and so how it is written when nothing is there.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A string.
    Text,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// A pointer, list or map whose inside needs no shape: null when absent.
    Open,
    /// A struct within.
    Struct(&'static [Part]),
    /// A pointer to a struct.
    Pointer(&'static [Part]),
    /// A list of structs.
    List(&'static [Part]),
}

/// A field: its name in the code, its name on the wire, what it holds. A field without a name in the code is written as on
/// the wire, and left out when it is empty: that is how the types of `meta/v1` are.
#[derive(Debug, Clone, Copy)]
pub struct Part(pub &'static str, pub &'static str, pub Shape);

/// `metav1.LabelSelector`.
pub const SELECTOR: &[Part] =
    &[Part("", "matchLabels", Shape::Open), Part("", "matchExpressions", Shape::List(REQUIREMENT))];
const REQUIREMENT: &[Part] =
    &[Part("", "key", Shape::Text), Part("", "operator", Shape::Text), Part("", "values", Shape::Open)];

enum Node {
    Leaf(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// In one line.
pub fn compact(shape: Shape, value: &Value) -> String {
    let mut out = String::new();
    node(shape, value).write(&mut out, None);
    out
}

/// In lines, each step indented by a space.
pub fn pretty(shape: Shape, value: &Value) -> String {
    let mut out = String::new();
    node(shape, value).write(&mut out, Some(0));
    out
}

fn node(shape: Shape, value: &Value) -> Node {
    match shape {
        Shape::Text if value.is_null() => Node::Leaf("\"\"".into()),
        Shape::Number if value.is_null() => Node::Leaf("0".into()),
        Shape::Flag if value.is_null() => Node::Leaf("false".into()),
        Shape::Text | Shape::Number | Shape::Flag | Shape::Open => plain(value),
        Shape::Struct(parts) => record(parts, value),
        Shape::Pointer(_) | Shape::List(_) if value.is_null() => Node::Leaf("null".into()),
        Shape::Pointer(parts) => record(parts, value),
        Shape::List(parts) => {
            Node::List(value.as_array().into_iter().flatten().map(|item| record(parts, item)).collect())
        }
    }
}

fn record(parts: &[Part], value: &Value) -> Node {
    let mut fields = Vec::new();
    for Part(code, wire, shape) in parts {
        let inside = &value[*wire];
        match *code {
            "" if is_empty(inside) && !matches!(*wire, "key" | "operator") => {}
            "" => fields.push(((*wire).to_owned(), node(*shape, inside))),
            code => fields.push((code.to_owned(), node(*shape, inside))),
        }
    }
    Node::Map(fields)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn plain(value: &Value) -> Node {
    match value {
        Value::Array(items) => Node::List(items.iter().map(plain).collect()),
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            Node::Map(sorted.into_iter().map(|(name, value)| (name.clone(), plain(value))).collect())
        }
        leaf => Node::Leaf(escaped(&leaf.to_string())),
    }
}

/// Go writes JSON so that it may stand in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

impl Node {
    fn write(&self, out: &mut String, depth: Option<usize>) {
        let inner = depth.map(|depth| depth + 1);
        match self {
            Node::Leaf(text) => out.push_str(text),
            Node::List(items) if items.is_empty() => out.push_str("[]"),
            Node::Map(fields) if fields.is_empty() => out.push_str("{}"),
            Node::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    separate(out, i, inner);
                    item.write(out, inner);
                }
                end(out, ']', depth);
            }
            Node::Map(fields) => {
                out.push('{');
                for (i, (name, value)) in fields.iter().enumerate() {
                    separate(out, i, inner);
                    out.push_str(&escaped(&Value::from(name.as_str()).to_string()));
                    out.push_str(if inner.is_some() { ": " } else { ":" });
                    value.write(out, inner);
                }
                end(out, '}', depth);
            }
        }
    }
}

fn separate(out: &mut String, at: usize, depth: Option<usize>) {
    if at > 0 {
        out.push(',');
    }
    if let Some(depth) = depth {
        out.push('\n');
        out.push_str(&" ".repeat(depth));
    }
}

fn end(out: &mut String, bracket: char, depth: Option<usize>) {
    if let Some(depth) = depth {
        out.push('\n');
        out.push_str(&" ".repeat(depth));
    }
    out.push(bracket);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absent_is_written_as_its_type_has_it() {
        const INNER: &[Part] = &[Part("Type", "type", Shape::Text), Part("Count", "count", Shape::Number)];
        const PARTS: &[Part] = &[
            Part("Selector", "selector", Shape::Pointer(SELECTOR)),
            Part("Inner", "inner", Shape::Struct(INNER)),
            Part("Paused", "paused", Shape::Flag),
            Part("Names", "names", Shape::Open),
        ];
        let value =
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Odd"}], "matchLabels": {"b": "<"}}});
        let whole = r#"{"Selector":{"matchLabels":{"b":"\u003c"},"matchExpressions":[{"key":"a","operator":"Odd"}]},"Inner":{"Type":"","Count":0},"Paused":false,"Names":null}"#;
        assert_eq!(compact(Shape::Struct(PARTS), &value), whole);
        assert_eq!(compact(Shape::Pointer(PARTS), &Value::Null), "null");
        assert_eq!(pretty(Shape::Struct(INNER), &json!({"count": 2})), "{\n \"Type\": \"\",\n \"Count\": 2\n}");
        assert_eq!(pretty(Shape::Open, &json!({"a": [1], "b": {}})), "{\n \"a\": [\n  1\n ],\n \"b\": {}\n}");
    }
}
