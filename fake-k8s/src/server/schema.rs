//! Structural schemas of custom resources: compiled once, then used to prune, default, validate and run CEL rules.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use regex::Regex;
use serde_json::Value;

use super::FieldError;

mod formats;
mod lists;
mod prune;
pub(crate) mod rules;
mod validate;

pub(crate) use lists::validate_lists;
pub(crate) use prune::{default, prune};
pub(crate) use validate::validate;

use rules::Rule;

/// The path of what is about the whole object.
pub(crate) const ROOT: &str = "<nil>";

/// What `additionalProperties` says.
#[derive(Debug, Clone, Default)]
pub(crate) enum Additional {
    #[default]
    None,
    Any,
    Of(Box<Schema>),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// A bound and whether it is excluded.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub value: Value,
    pub exclusive: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub minimum: Option<Bound>,
    pub maximum: Option<Bound>,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
}

/// One node of a schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schema {
    pub kind: String,
    pub format: String,
    pub nullable: bool,
    pub properties: BTreeMap<String, Schema>,
    pub required: Vec<String>,
    pub items: Option<Box<Schema>>,
    pub additional: Additional,
    pub choices: Option<Vec<Value>>,
    pub pattern: Option<(String, Regex)>,
    pub limits: Limits,
    pub default: Option<Value>,
    pub preserve_unknown: bool,
    pub int_or_string: bool,
    pub embedded: bool,
    pub list_type: ListType,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    pub rules: Vec<Arc<Rule>>,
    /// Some rule is here or below: without one, no walk is needed.
    pub has_rules: bool,
    /// Some rule here or below compares with the past: it runs also where nothing changed.
    pub has_transitions: bool,
}

impl Schema {
    /// Compiles a schema; what is wrong with it is reported under `path`.
    fn compile(source: &Value, path: &str, errors: &mut Vec<FieldError>) -> Self {
        let schema = Self::node(source, path, true, errors);
        if schema.kind != "object" {
            let detail = "must be object at the root";
            errors.push(FieldError::invalid(format!("{path}.type"), schema.kind.as_str(), detail));
        }
        schema
    }

    /// The compiled schema of this source. Compiling is slow and says the same each time, so what was compiled without
    /// a mistake is kept for the whole process: a simulator makes thousands of servers with the same definitions.
    pub fn shared(source: &Value, path: &str, errors: &mut Vec<FieldError>) -> Arc<Self> {
        static KNOWN: Mutex<BTreeMap<String, Arc<Schema>>> = Mutex::new(BTreeMap::new());
        let key = source.to_string();
        if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        let before = errors.len();
        let schema = Arc::new(Self::compile(source, path, errors));
        if errors.len() == before {
            KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, schema.clone());
        }
        schema
    }

    /// `structural`: outside of allOf, anyOf, oneOf and not, each node says its type.
    fn node(source: &Value, path: &str, structural: bool, errors: &mut Vec<FieldError>) -> Self {
        let text = |f: &str| source[f].as_str().unwrap_or_default().to_owned();
        let is = |f: &str| source[f] == true;
        let mut schema = Self {
            kind: text("type"),
            format: text("format"),
            nullable: is("nullable"),
            preserve_unknown: is("x-kubernetes-preserve-unknown-fields"),
            int_or_string: is("x-kubernetes-int-or-string"),
            embedded: is("x-kubernetes-embedded-resource"),
            required: strings(&source["required"]),
            choices: source["enum"].as_array().cloned(),
            default: source.get("default").cloned(),
            limits: limits(source),
            list_type: match source["x-kubernetes-list-type"].as_str() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(strings(&source["x-kubernetes-list-map-keys"])),
                _ => ListType::Atomic,
            },
            ..Self::default()
        };
        if structural && schema.kind.is_empty() && !schema.int_or_string && !schema.preserve_unknown {
            errors.push(FieldError::required(format!("{path}.type"), "must not be empty for specified object fields"));
        }
        if let Some(pattern) = source["pattern"].as_str() {
            match Regex::new(pattern) {
                Ok(regex) => schema.pattern = Some((pattern.to_owned(), regex)),
                Err(e) => {
                    let detail = format!("must be a valid regular expression, but isn't: {e}");
                    errors.push(FieldError::invalid(format!("{path}.pattern"), pattern, detail));
                }
            }
        }
        schema.children(source, path, structural, errors);
        for (i, rule) in source["x-kubernetes-validations"].as_array().into_iter().flatten().enumerate() {
            match Rule::compile(rule) {
                Ok(rule) => schema.rules.push(Arc::new(rule)),
                Err(why) => {
                    let at = format!("{path}.x-kubernetes-validations[{i}].rule");
                    let detail = format!("compilation failed: {why}");
                    errors.push(FieldError::invalid(at, rule["rule"].clone(), detail));
                }
            }
        }
        schema.has_rules = !schema.rules.is_empty() || schema.below(|s| s.has_rules);
        schema.has_transitions = schema.rules.iter().any(|r| r.transition) || schema.below(|s| s.has_transitions);
        schema
    }

    /// Is it so of a schema directly below?
    fn below(&self, is: impl Fn(&Self) -> bool) -> bool {
        self.properties.values().any(&is)
            || self.items.as_deref().is_some_and(&is)
            || matches!(&self.additional, Additional::Of(each) if is(each))
    }

    /// The item of an earlier list that was this one: only lists with keys can tell.
    pub fn earlier<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let ListType::Map(keys) = &self.list_type else { return None };
        old?.as_array()?.iter().find(|before| keys.iter().all(|k| before[k] == item[k]))
    }

    fn children(&mut self, source: &Value, path: &str, structural: bool, errors: &mut Vec<FieldError>) {
        for (name, child) in source["properties"].as_object().into_iter().flatten() {
            // The server knows the metadata of objects; a schema may only narrow it.
            let known = matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            let at = format!("{path}.properties[{name}]");
            self.properties.insert(name.clone(), Self::node(child, &at, structural && !known, errors));
        }
        if source["items"].is_object() {
            let at = format!("{path}.items");
            self.items = Some(Box::new(Self::node(&source["items"], &at, structural, errors)));
        }
        self.additional = match &source["additionalProperties"] {
            Value::Bool(true) => Additional::Any,
            child @ Value::Object(_) => {
                let at = format!("{path}.additionalProperties");
                Additional::Of(Box::new(Self::node(child, &at, structural, errors)))
            }
            _ => Additional::None,
        };
        let mut many = |field: &str| -> Vec<Self> {
            let all = source[field].as_array().into_iter().flatten().enumerate();
            all.map(|(i, s)| Self::node(s, &format!("{path}.{field}[{i}]"), false, errors)).collect()
        };
        self.all_of = many("allOf");
        self.any_of = many("anyOf");
        self.one_of = many("oneOf");
        if source["not"].is_object() {
            self.not = Some(Box::new(Self::node(&source["not"], &format!("{path}.not"), false, errors)));
        }
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn limits(source: &Value) -> Limits {
    let bound = |field: &str, exclusive: &str| {
        source[field].is_number().then(|| Bound { value: source[field].clone(), exclusive: source[exclusive] == true })
    };
    let count = |field: &str| source[field].as_u64();
    Limits {
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: source["multipleOf"].as_f64(),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: source["uniqueItems"] == true,
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
    }
}

/// A path below another: the root has an empty one.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
