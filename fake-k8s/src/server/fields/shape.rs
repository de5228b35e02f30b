//! How a value is taken apart: by the type of a built-in kind, by the schema of a custom one, or by what it looks like.
use serde_json::{Map, Value};

use crate::server::resource::ResourceInfo;
use crate::server::schema::{Additional, ListType, Schema};
use crate::server::types::{Record, Scalar, Type, Types};

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) enum Shape<'a> {
    Record {
        record: &'a Record,
        granular: bool,
    },
    Type(&'a Type),
    /// The root of a custom resource, whose metadata is as that of all kinds.
    Custom(&'a Schema),
    Schema(&'a Schema),
    /// Nothing: maps are taken apart, lists are whole.
    Guessed,
    Whole,
}

/// How it is taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) enum Parts {
    /// Not at all.
    Leaf,
    /// By name.
    Fields,
    /// By the fields that are its items' key, or by the items themselves where there are none.
    Items(Vec<String>),
}

/// What a value has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Kind {
    Any,
    Map,
    List,
    Text,
    Number,
    Boolean,
    /// Text, a number, or yes or no.
    Scalar,
}

impl<'a> Shape<'a> {
    /// What a value of this shape has to be.
    pub fn kind(self) -> Kind {
        match self {
            Self::Guessed => Kind::Any,
            Self::Whole => Kind::Text,
            Self::Record { .. } | Self::Custom(_) | Self::Type(Type::Map { .. } | Type::Record { .. }) => Kind::Map,
            Self::Type(Type::List { .. }) => Kind::List,
            Self::Type(Type::Any) => Kind::Any,
            Self::Type(Type::Scalar(scalar)) => match scalar {
                Scalar::Text | Scalar::Bytes | Scalar::Time | Scalar::MicroTime => Kind::Text,
                Scalar::Boolean => Kind::Boolean,
                Scalar::Int32 | Scalar::Int64 | Scalar::Number => Kind::Number,
                Scalar::Quantity | Scalar::IntOrString => Kind::Scalar,
            },
            Self::Schema(schema) => match schema.kind.as_str() {
                "object" => Kind::Map,
                "array" => Kind::List,
                "string" => Kind::Text,
                "integer" | "number" => Kind::Number,
                "boolean" => Kind::Boolean,
                _ if schema.int_or_string => Kind::Scalar,
                _ => Kind::Any,
            },
        }
    }

    /// Whether it has a field of this name, or may have any.
    pub fn declares(self, name: &str) -> bool {
        match self {
            Self::Record { record, .. } => record.fields.contains_key(name),
            Self::Custom(_) if matches!(name, "apiVersion" | "kind" | "metadata") => true,
            Self::Custom(schema) | Self::Schema(schema) => {
                schema.properties.contains_key(name)
                    || schema.preserve_unknown
                    || !matches!(schema.additional, Additional::None)
            }
            _ => true,
        }
    }

    /// Why an item cannot be told from others.
    pub fn no_key(self, item: &Value, keys: &[String]) -> Option<String> {
        if keys.is_empty() {
            let is_scalar = !item.is_object() && !item.is_array() && !item.is_null();
            return (!is_scalar).then(|| "associative list without keys has an element that's a map type".into());
        }
        if !item.is_object() {
            return Some("associative list with keys may not have non-map elements".into());
        }
        let given = |key: &&String| !item[key.as_str()].is_null() || self.items().default_of(key).is_some();
        let missing = !keys.iter().any(|key| given(&key));
        missing.then(|| "associative list with keys has an element that omits all key fields".to_owned())
    }

    /// The objects of a resource.
    pub fn of(info: &'a ResourceInfo) -> Self {
        if let Some(schema) = info.schema.as_deref() {
            return Self::Custom(schema);
        }
        let record = Types::of_this_version().kind(info.group(), &info.name.version, &info.kind);
        record.map_or(Self::Guessed, |record| Self::Record { record, granular: false })
    }

    fn of_type(kind: &'a Type) -> Self {
        match kind {
            Type::Record { name, is_granular, .. } => {
                Self::Record { record: Types::of_this_version().record(name), granular: *is_granular }
            }
            Type::Any => Self::Guessed,
            other => Self::Type(other),
        }
    }

    fn of_schema(schema: &'a Schema) -> Self {
        let knows_nothing =
            schema.properties.is_empty() && matches!(schema.additional, Additional::None | Additional::Any);
        let is_free = schema.preserve_unknown || matches!(schema.additional, Additional::Any);
        if is_free && knows_nothing && schema.items.is_none() { Self::Guessed } else { Self::Schema(schema) }
    }

    /// How a value of this shape is taken apart.
    pub fn parts(self, value: &Value) -> Parts {
        match self {
            Self::Whole => Parts::Leaf,
            Self::Guessed if value.is_object() => Parts::Fields,
            Self::Guessed => Parts::Leaf,
            Self::Custom(_) => Parts::Fields,
            Self::Record { record, granular } if record.atomic && !granular => Parts::Leaf,
            Self::Record { .. } => Parts::Fields,
            Self::Type(Type::Map { atomic: false, .. }) => Parts::Fields,
            Self::Type(Type::List { keyed, .. }) => of_list(keyed),
            Self::Type(_) => Parts::Leaf,
            Self::Schema(schema) if schema.items.is_some() => of_list(&schema.list_type),
            Self::Schema(schema) if schema.kind == "object" => Parts::Fields,
            Self::Schema(_) => Parts::Leaf,
        }
    }

    /// The shape of a field, and whether its name is one of the shape's own.
    pub fn field(self, name: &str) -> (Shape<'a>, bool) {
        match self {
            Self::Record { record, .. } => match record.fields.get(name) {
                Some(kind) => (Self::of_type(kind), true),
                None => (Self::Guessed, false),
            },
            Self::Type(Type::Map { of, .. }) => (Self::of_type(of), false),
            Self::Custom(_) if name == "metadata" => {
                (Self::Record { record: Types::of_this_version().record("meta.v1.ObjectMeta"), granular: false }, true)
            }
            Self::Custom(_) if matches!(name, "apiVersion" | "kind") => (Self::Whole, true),
            Self::Custom(schema) | Self::Schema(schema) => match (schema.properties.get(name), &schema.additional) {
                (Some(child), _) => (Self::of_schema(child), true),
                (None, Additional::Of(each)) => (Self::of_schema(each), false),
                _ => (Self::Guessed, false),
            },
            Self::Type(_) | Self::Guessed | Self::Whole => (Self::Guessed, false),
        }
    }

    /// The shape of the items.
    pub fn items(self) -> Shape<'a> {
        match self {
            Self::Type(Type::List { of, .. }) => Self::of_type(of),
            Self::Schema(schema) => schema.items.as_deref().map_or(Self::Guessed, Self::of_schema),
            _ => Self::Guessed,
        }
    }

    /// The shape behind a step, and whether that is a named field.
    pub fn step(self, step: &str) -> (Shape<'a>, bool) {
        match step.strip_prefix("f:") {
            Some(name) => self.field(name),
            None => (self.items(), false),
        }
    }

    /// The step that leads to an item.
    pub fn item_step(self, item: &Value, keys: &[String]) -> String {
        if keys.is_empty() {
            return format!("v:{item}");
        }
        let of = |key: &String| {
            let given = item.get(key).filter(|value| !value.is_null()).cloned();
            given.or_else(|| self.items().default_of(key))
        };
        let key: Map<String, Value> = keys.iter().filter_map(|key| Some((key.clone(), of(key)?))).collect();
        format!("k:{}", Value::Object(key))
    }

    fn default_of(self, field: &str) -> Option<Value> {
        match self {
            Self::Record { record, .. } => record.defaults.get(field).cloned(),
            Self::Schema(schema) => schema.properties.get(field)?.default.clone(),
            _ => None,
        }
    }
}

fn of_list(keyed: &ListType) -> Parts {
    match keyed {
        ListType::Atomic => Parts::Leaf,
        ListType::Set => Parts::Items(Vec::new()),
        ListType::Map(keys) => Parts::Items(keys.clone()),
    }
}

/// A map or list without anything in it, or nothing at all.
pub(super) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}
