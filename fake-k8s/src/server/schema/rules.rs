//! CEL rules of schemas (`x-kubernetes-validations`): `self`, and `oldSelf` for what compares with the past.
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, Program, extensions};
use serde_json::Value;

use super::{Additional, ROOT, Schema, join};
use crate::server::{FieldError, FieldErrorKind};

/// The standard library and the string, list and math functions that Kubernetes has too.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for extension in [extensions::strings, extensions::lists, extensions::math] {
        env.add_extension(extension).expect("the extensions do not overlap");
    }
    Arc::new(env)
});

/// A rule, compiled.
#[derive(Debug)]
pub(crate) struct Rule {
    source: String,
    program: Program,
    message: String,
    message_expression: Option<Program>,
    reason: FieldErrorKind,
    field_path: String,
    /// Compares with the past: not run on what is new.
    pub transition: bool,
    /// Looks at nothing but the name, which never changes: once it held, it holds.
    pub name_only: bool,
}

impl Rule {
    /// From an element of `x-kubernetes-validations`.
    pub fn compile(rule: &Value) -> Result<Self, String> {
        let text = |f: &str| rule[f].as_str().unwrap_or_default().to_owned();
        let compile = |source: &str| ENVIRONMENT.compile(source).map_err(|e| e.to_string());
        let source = text("rule");
        if source.trim().is_empty() {
            return Err("rule is not specified".into());
        }
        let program = compile(&source)?;
        let message_expression = match rule["messageExpression"].as_str().filter(|m| !m.is_empty()) {
            Some(source) => Some(compile(source)?),
            None => None,
        };
        let transition = program.references().has_variable("oldSelf");
        let name_only = source.matches("self").count() == source.matches("self.metadata").count();
        Ok(Self {
            name_only,
            program,
            message: text("message"),
            message_expression,
            reason: match rule["reason"].as_str() {
                Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
                Some("FieldValueRequired") => FieldErrorKind::Required,
                Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
                _ => FieldErrorKind::Invalid,
            },
            field_path: text("fieldPath").trim_start_matches('.').to_owned(),
            transition,
            source,
        })
    }
}

/// Runs every rule of a schema over an object and what it was before.
pub(crate) fn run(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if schema.has_rules {
        visit(schema, new, old, "", true, &mut errors);
    }
    errors
}

fn visit(schema: &Schema, new: &Value, old: Option<&Value>, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    if !schema.has_rules || new.is_null() {
        return;
    }
    let unchanged = old == Some(new);
    if unchanged && !schema.has_transitions {
        return;
    }
    let due = |r: &Rule| match (r.transition, old) {
        (true, old) => old.is_some(),
        (false, Some(_)) => !(unchanged || root && r.name_only),
        (false, None) => true,
    };
    if schema.rules.iter().any(|r| due(r)) {
        let mut context = Context::with_env(ENVIRONMENT.clone());
        context.add_variable_from_value("self", convert(schema, new, root));
        if let Some(old) = old {
            context.add_variable_from_value("oldSelf", convert(schema, old, root));
        }
        for rule in schema.rules.iter().filter(|r| due(r)) {
            errors.extend(check(rule, schema, &context, path));
        }
    }
    match new {
        Value::Object(fields) => {
            for (name, value) in fields {
                let (child, at) = match (schema.properties.get(name), &schema.additional) {
                    (Some(child), _) => (child, join(path, name)),
                    (None, Additional::Of(child)) => (&**child, format!("{path}[{name}]")),
                    (None, _) => continue,
                };
                visit(child, value, old.and_then(|o| o.get(name)), &at, false, errors);
            }
        }
        Value::Array(items) => {
            let Some(each) = &schema.items else { return };
            for (i, item) in items.iter().enumerate() {
                let before = schema.earlier(item, old);
                visit(each, item, before, &format!("{path}[{i}]"), false, errors);
            }
        }
        _ => {}
    }
}

fn check(rule: &Rule, schema: &Schema, context: &Context<'_, '_>, path: &str) -> Option<FieldError> {
    let at = if rule.field_path.is_empty() { path.to_owned() } else { join(path, &rule.field_path) };
    let at = if at.is_empty() { ROOT.to_owned() } else { at };
    let shown = Value::String(if schema.kind.is_empty() { "object".into() } else { schema.kind.clone() });
    match rule.program.execute(context) {
        Ok(cel::Value::Bool(true)) => None,
        Ok(cel::Value::Bool(false)) => {
            let from_expression = rule.message_expression.as_ref().and_then(|m| m.execute(context).ok());
            let message = match from_expression {
                Some(cel::Value::String(text)) if !text.trim().is_empty() => text.to_string(),
                _ if !rule.message.is_empty() => rule.message.clone(),
                _ => format!("failed rule: {}", rule.source.trim()),
            };
            Some(FieldError::of(rule.reason, at, shown, message))
        }
        Ok(other) => {
            let detail = format!("rule {:?} gave {other:?}, not a boolean", rule.source);
            Some(FieldError::invalid(at, shown, detail))
        }
        Err(why) => {
            let detail = format!("{why} evaluating rule: {}", rule.source.trim());
            Some(FieldError::invalid(at, shown, detail))
        }
    }
}

/// JSON as CEL sees it through the schema: numbers by their declared type, property names escaped as in Kubernetes.
fn convert(schema: &Schema, value: &Value, root: bool) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(b) => cel::Value::Bool(*b),
        Value::Number(n) if schema.kind == "number" => cel::Value::Float(n.as_f64().unwrap_or(f64::NAN)),
        Value::Number(n) => match n.as_i64() {
            Some(int) => cel::Value::Int(int),
            None => cel::Value::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => cel::Value::from(text.as_str()),
        Value::Array(items) => {
            let any = Schema { preserve_unknown: true, ..Schema::default() };
            let each = schema.items.as_deref().unwrap_or(&any);
            cel::Value::from(items.iter().map(|i| convert(each, i, false)).collect::<Vec<cel::Value>>())
        }
        Value::Object(fields) => {
            let any = Schema { preserve_unknown: true, ..Schema::default() };
            let member = |(name, value): (&String, &Value)| -> Option<(String, cel::Value)> {
                let resource = root || schema.embedded;
                if resource && name == "metadata" {
                    return Some((name.clone(), convert(&any, &visible_metadata(value), false)));
                }
                match (schema.properties.get(name), &schema.additional) {
                    (Some(child), _) => Some((escape(name), convert(child, value, false))),
                    (None, Additional::Of(child)) => Some((name.clone(), convert(child, value, false))),
                    (None, _) => Some((name.clone(), convert(&any, value, false))),
                }
            };
            map_of(fields.iter().filter_map(member))
        }
    }
}

/// Maps of the cel crate are hash maps: rules see them by key, and what they decide does not depend on an order.
#[allow(clippy::disallowed_types, reason = "the cel crate takes no other map")]
fn map_of(members: impl Iterator<Item = (String, cel::Value)>) -> cel::Value {
    cel::Value::from(members.collect::<std::collections::HashMap<String, cel::Value>>())
}

/// Rules see the name of an object, nothing else of its metadata.
fn visible_metadata(metadata: &Value) -> Value {
    let mut seen = serde_json::Map::new();
    for field in ["name", "generateName"] {
        if let Some(text) = metadata.get(field) {
            seen.insert(field.to_owned(), text.clone());
        }
    }
    Value::Object(seen)
}

fn escape(name: &str) -> String {
    const RESERVED: &[&str] = &[
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
    ];
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}
