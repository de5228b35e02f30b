//! What the fields of the built-in kinds hold, and how their lists and maps are merged: a table that `scenarios kubernetes
//! types` writes from what a real API server publishes.
//!
//! Words of the table: `string`, `boolean`, `int32`, `int64`, `number`, `bytes`, `quantity`, `time`, `micro-time`,
//! `int-or-string`, `any`; `=core.v1.PodSpec` is a record that is always there, `*core.v1.Probe` one that may not be.
//! `{"list": .., "keys": [..]}` is merged by these fields of its items, `{"list": .., "set": true}` as a set, any other list
//! is replaced whole; `merge` is what a strategic merge patch goes by. `{"map": .., "atomic": true}` is replaced whole.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

use super::schema::ListType;

pub(super) mod decode;

/// What a field holds.
#[derive(Debug)]
pub(crate) enum Type {
    Scalar(Scalar),
    Any,
    Record { name: String, is_always_there: bool, is_granular: bool },
    List { of: Box<Type>, keyed: ListType, merge: Option<String> },
    Map { of: Box<Type>, atomic: bool },
}

/// What is no list, map or record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Text,
    Boolean,
    Int32,
    Int64,
    Number,
    Bytes,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
}

/// A struct of Kubernetes' own code.
#[derive(Debug)]
pub(crate) struct Record {
    /// As in the table: `core.v1.PodSpec`.
    pub name: String,
    pub fields: BTreeMap<String, Type>,
    /// Are shown even when they hold nothing.
    pub required: BTreeSet<String>,
    /// Are not shown where they hold their type's nothing.
    pub left_out: BTreeSet<String>,
    /// What is a part of a list's key and left out is this.
    pub defaults: BTreeMap<String, Value>,
    /// Is replaced whole.
    pub atomic: bool,
}

/// The whole table.
#[derive(Debug)]
pub(crate) struct Types {
    kinds: BTreeMap<String, String>,
    records: BTreeMap<String, Record>,
}

impl Types {
    /// The table of the version that this server follows.
    pub fn of_this_version() -> &'static Self {
        static TYPES: OnceLock<Types> = OnceLock::new();
        TYPES.get_or_init(|| Self::read(include_str!("types/v1.34.json")).expect("the table is part of the program"))
    }

    fn read(text: &str) -> Option<Self> {
        let table: Value = serde_json::from_str(text).ok()?;
        let kinds = table["kinds"]
            .as_object()?
            .iter()
            .filter_map(|(kind, name)| Some((kind.clone(), name.as_str()?.to_owned())));
        let records =
            table["types"].as_object()?.iter().map(|(name, record)| Some((name.clone(), Record::read(name, record)?)));
        Some(Self { kinds: kinds.collect(), records: records.collect::<Option<_>>()? })
    }

    /// The record of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Record> {
        self.records.get(self.kinds.get(&format!("{group}/{version}/{kind}"))?)
    }

    /// A record by its name in the table.
    pub fn record(&self, name: &str) -> &Record {
        self.records.get(name).expect("the table is closed: a test looks")
    }
}

impl Record {
    fn read(name: &str, value: &Value) -> Option<Self> {
        let fields = value["fields"].as_object()?.iter().map(|(name, word)| Some((name.clone(), Type::read(word)?)));
        let names = |list: &str| {
            let names = value[list].as_array().into_iter().flatten().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        };
        let defaults = value["defaults"].as_object().into_iter().flatten();
        Some(Self {
            name: name.to_owned(),
            fields: fields.collect::<Option<_>>()?,
            required: names("required"),
            left_out: names("leftOut"),
            defaults: defaults.map(|(name, value)| (name.clone(), value.clone())).collect(),
            atomic: value["atomic"] == true,
        })
    }

    /// The name of the struct in Kubernetes' own code: `PodSpec`.
    pub fn go_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

impl Type {
    fn read(word: &Value) -> Option<Self> {
        if let Some(word) = word.as_str() {
            return Self::read_word(word, false);
        }
        if let Some(word) = word["granular"].as_str() {
            return Self::read_word(word, true);
        }
        if word["map"].is_null() {
            let keys =
                word["keys"].as_array().map(|keys| keys.iter().filter_map(Value::as_str).map(str::to_owned).collect());
            let keyed = match keys {
                Some(keys) => ListType::Map(keys),
                None if word["set"] == true => ListType::Set,
                None => ListType::Atomic,
            };
            let merge = word["merge"].as_str().map(str::to_owned);
            return Some(Self::List { of: Box::new(Self::read(&word["list"])?), keyed, merge });
        }
        Some(Self::Map { of: Box::new(Self::read(&word["map"])?), atomic: word["atomic"] == true })
    }

    fn read_word(word: &str, is_granular: bool) -> Option<Self> {
        if let Some(name) = word.strip_prefix('=') {
            return Some(Self::Record { name: name.to_owned(), is_always_there: true, is_granular });
        }
        if let Some(name) = word.strip_prefix('*') {
            return Some(Self::Record { name: name.to_owned(), is_always_there: false, is_granular });
        }
        Some(Self::Scalar(match word {
            "string" => Scalar::Text,
            "boolean" => Scalar::Boolean,
            "int32" => Scalar::Int32,
            "int64" => Scalar::Int64,
            "number" => Scalar::Number,
            "bytes" => Scalar::Bytes,
            "quantity" => Scalar::Quantity,
            "time" => Scalar::Time,
            "micro-time" => Scalar::MicroTime,
            "int-or-string" => Scalar::IntOrString,
            "any" => return Some(Self::Any),
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Server;

    fn names(kind: &Type, out: &mut Vec<String>) {
        match kind {
            Type::Record { name, .. } => out.push(name.clone()),
            Type::List { of, .. } | Type::Map { of, .. } => names(of, out),
            Type::Scalar(_) | Type::Any => {}
        }
    }

    #[test]
    fn every_built_in_kind_has_its_record_and_every_name_leads_to_one() {
        let types = Types::of_this_version();
        for info in Server::new(1).resources() {
            let name = &info.name;
            assert!(types.kind(&name.group, &name.version, &info.kind).is_some(), "{name:?}");
        }
        let mut used = Vec::new();
        types.records.values().flat_map(|record| record.fields.values()).for_each(|field| names(field, &mut used));
        assert!(used.iter().all(|name| types.records.contains_key(name)));
        assert!(used.len() > 300, "{}", used.len());
    }
}
