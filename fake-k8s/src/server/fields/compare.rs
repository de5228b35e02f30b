//! What differs between two objects, and which fields a configuration speaks of.
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::FieldSet;
use super::shape::{Parts, Shape, is_empty};

/// The fields in which an object differs from an earlier one.
#[derive(Debug, Default)]
pub(in crate::server) struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    /// From `old` to `new`.
    pub fn of(shape: Shape<'_>, old: &Value, new: &Value) -> Self {
        let mut walk = Walk { path: Vec::new(), out: Self::default() };
        walk.value(shape, Some(old), Some(new));
        walk.out
    }

    /// What was written: added or modified.
    pub fn written(&self) -> FieldSet {
        self.added.union(&self.modified)
    }

    /// Each of its sets, changed in the same way.
    pub fn map(self, change: impl Fn(FieldSet) -> FieldSet) -> Self {
        Self { added: change(self.added), modified: change(self.modified), removed: change(self.removed) }
    }
}

struct Walk {
    path: Vec<String>,
    out: Comparison,
}

impl Walk {
    fn value(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) {
        let Some(look) = new.filter(|value| !value.is_null()).or(old).or(new) else { return };
        let parts = shape.parts(look);
        // What is empty on both sides is a leaf: so nothing and emptiness stay apart.
        if parts == Parts::Leaf || (is_empty(old) && is_empty(new)) {
            return self.leaf(old, new);
        }
        match parts {
            Parts::Items(keys) => self.items(shape, &keys, old, new),
            _ => self.fields(shape, old, new),
        }
        match (old, new) {
            (None, Some(_)) => self.out.added.insert(&self.path),
            (Some(_), None) => self.out.removed.insert(&self.path),
            _ => {}
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.out.added.insert(&self.path),
            (_, None) => self.out.removed.insert(&self.path),
            (old, new) if old != new => self.out.modified.insert(&self.path),
            _ => {}
        }
    }

    fn descend(&mut self, step: String, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) {
        self.path.push(step);
        self.value(shape, old, new);
        self.path.pop();
    }

    fn fields(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) {
        let names = |value: Option<&Value>| {
            value
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(|fields| fields.keys().cloned())
                .collect::<BTreeSet<_>>()
        };
        for name in names(old).union(&names(new)) {
            let field = |value: Option<&'_ Value>| value.and_then(|value| value.get(name)).cloned();
            let (before, after) = (field(old), field(new));
            self.descend(format!("f:{name}"), shape.field(name).0, before.as_ref(), after.as_ref());
        }
    }

    fn items(&mut self, shape: Shape<'_>, keys: &[String], old: Option<&Value>, new: Option<&Value>) {
        let (before, after) = (by_step(shape, keys, old), by_step(shape, keys, new));
        let steps: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for step in steps {
            let none = Vec::new();
            let (left, right) = (before.get(step).unwrap_or(&none), after.get(step).unwrap_or(&none));
            // Items with the same key twice are one field: they are compared, and owned, as a whole.
            match (left.as_slice(), right.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.descend(step.clone(), shape.items(), left.first().copied(), right.first().copied());
                }
                ([_, _, ..], [_, _, ..]) if left == right => {}
                ([_, _, ..], [_, _, ..]) => self.mark(step, |out| &mut out.modified),
                ([_, _, ..], rest) => {
                    if let Some(item) = rest.first() {
                        self.descend(step.clone(), shape.items(), None, Some(item));
                    }
                    self.mark(step, |out| &mut out.removed);
                }
                (rest, _) => {
                    if let Some(item) = rest.first() {
                        self.descend(step.clone(), shape.items(), Some(item), None);
                    }
                    self.mark(step, |out| &mut out.added);
                }
            }
        }
    }

    fn mark(&mut self, step: &str, set: impl Fn(&mut Comparison) -> &mut FieldSet) {
        self.path.push(step.to_owned());
        let path = self.path.clone();
        set(&mut self.out).insert(&path);
        self.path.pop();
    }
}

fn by_step<'a>(shape: Shape<'_>, keys: &[String], list: Option<&'a Value>) -> BTreeMap<String, Vec<&'a Value>> {
    let mut out: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        out.entry(shape.item_step(item, keys)).or_default().push(item);
    }
    out
}

/// The fields that a configuration speaks of.
pub(in crate::server) fn fields_of(shape: Shape<'_>, value: &Value) -> FieldSet {
    fn walk(shape: Shape<'_>, value: &Value, path: &mut Vec<String>, out: &mut FieldSet) {
        match shape.parts(value) {
            Parts::Leaf => out.insert(path),
            Parts::Items(keys) => {
                for item in value.as_array().into_iter().flatten() {
                    path.push(shape.item_step(item, &keys));
                    walk(shape.items(), item, path, out);
                    out.insert(path);
                    path.pop();
                }
            }
            Parts::Fields => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    let (inner, named) = shape.field(name);
                    path.push(format!("f:{name}"));
                    walk(inner, field, path, out);
                    let is_bare = field.is_null() || field.as_object().is_some_and(serde_json::Map::is_empty);
                    if is_bare || !named {
                        out.insert(path);
                    }
                    path.pop();
                }
            }
        }
    }
    let mut out = FieldSet::default();
    walk(shape, value, &mut Vec::new(), &mut out);
    out
}
