//! Sets of fields, and the questions that they answer: what differs between two objects, what a configuration speaks of,
//! what two objects make together. The rules are those of structured-merge-diff, which server-side apply stands on.
//!
//! A field is a path of steps, each spelt as in `fieldsV1`: `f:spec`, `k:{"name":"x"}`, `v:"x"`.
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub(super) mod check;
pub(super) mod compare;
pub(super) mod merge;
pub(super) mod shape;

/// A set of fields, as a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// The field that leads here is a member itself.
    member: bool,
    below: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// A set of these paths.
    #[cfg(test)]
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>());
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        !self.member && self.below.values().all(Self::is_empty)
    }

    pub fn insert(&mut self, path: &[String]) {
        let place = path.iter().fold(self, |place, step| place.below.entry(step.clone()).or_default());
        place.member = true;
    }

    /// Whether this step is a member.
    pub fn has(&self, step: &str) -> bool {
        self.below.get(step).is_some_and(|below| below.member)
    }

    /// What is below a step.
    pub fn below(&self, step: &str) -> Option<&Self> {
        self.below.get(step).filter(|below| !below.below.values().all(Self::is_empty))
    }

    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.member |= other.member;
        for (step, theirs) in &other.below {
            let ours = out.below.entry(step.clone()).or_default();
            *ours = ours.union(theirs);
        }
        out
    }

    pub fn intersection(&self, other: &Self) -> Self {
        let both = self
            .below
            .iter()
            .filter_map(|(step, ours)| Some((step.clone(), ours.intersection(other.below.get(step)?))));
        Self { member: self.member && other.member, below: both.collect() }.tidy()
    }

    /// Without the members of `other`; what is below one stays.
    pub fn difference(&self, other: &Self) -> Self {
        let below = self.below.iter().map(|(step, ours)| {
            (step.clone(), other.below.get(step).map_or_else(|| ours.clone(), |theirs| ours.difference(theirs)))
        });
        Self { member: self.member && !other.member, below: below.collect() }.tidy()
    }

    /// Without the members of `other` and all that is below them.
    pub fn without(&self, other: &Self) -> Self {
        if other.member {
            return Self::default();
        }
        let below = self.below.iter().map(|(step, ours)| {
            (step.clone(), other.below.get(step).map_or_else(|| ours.clone(), |theirs| ours.without(theirs)))
        });
        Self { member: self.member, below: below.collect() }.tidy()
    }

    /// With every named field that leads to a member: those of a map are entries and do not count.
    pub fn with_named(&self, shape: shape::Shape<'_>) -> Self {
        let mut out = Self { member: self.member, below: BTreeMap::new() };
        for (step, below) in &self.below {
            let (inner, named) = shape.step(step);
            let mut below = below.with_named(inner);
            below.member |= named && !below.below.is_empty();
            out.below.insert(step.clone(), below);
        }
        out
    }

    fn tidy(mut self) -> Self {
        self.below.retain(|_, below| !below.is_empty());
        self
    }

    /// All members, those of a level before what is below them.
    pub fn paths(&self) -> Vec<Vec<String>> {
        fn walk(set: &FieldSet, path: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
            for (step, _) in set.below.iter().filter(|(_, below)| below.member) {
                out.push(path.iter().cloned().chain([step.clone()]).collect());
            }
            for (step, below) in &set.below {
                path.push(step.clone());
                walk(below, path, out);
                path.pop();
            }
        }
        let mut out = Vec::new();
        walk(self, &mut Vec::new(), &mut out);
        out
    }

    /// `fieldsV1`.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        if self.member && !self.below.is_empty() {
            out.insert(".".into(), json!({}));
        }
        for (step, below) in &self.below {
            out.insert(step.clone(), below.to_value());
        }
        Value::Object(out)
    }

    /// From `fieldsV1`.
    pub fn from_value(value: &Value) -> Self {
        fn read(value: &Value) -> FieldSet {
            let entries = value.as_object();
            let is_leaf = entries.is_none_or(Map::is_empty);
            let mut set = FieldSet { member: is_leaf, below: BTreeMap::new() };
            for (step, below) in entries.into_iter().flatten() {
                match step.as_str() {
                    "." => set.member = true,
                    _ => drop(set.below.insert(step.clone(), read(below))),
                }
            }
            set
        }
        let mut set = read(value);
        set.member = false;
        set
    }
}

/// A path as messages show it: `.spec.containers[name="x"].image`.
pub(super) fn text_of(path: &[String]) -> String {
    let mut out = String::new();
    for step in path {
        match step.split_once(':') {
            Some(("f", field)) => out.push_str(&format!(".{field}")),
            Some(("k", key)) => {
                let key: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
                let parts: Vec<String> = key.iter().map(|(name, value)| format!("{name}={value}")).collect();
                out.push_str(&format!("[{}]", parts.join(",")));
            }
            Some(("i", place)) => out.push_str(&format!("[{place}]")),
            Some(("v", value)) => out.push_str(&format!("[={value}]")),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_what_it_was_after_it_was_written() {
        let value =
            json!({"f:spec": {"f:list": {".": {}, "k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}, "f:data": {}});
        let set = FieldSet::from_value(&value);
        assert_eq!(set.to_value(), value);
        let texts: Vec<String> = set.paths().iter().map(|path| text_of(path)).collect();
        assert_eq!(texts, [".data", ".spec.list", ".spec.list[name=\"a\"]", ".spec.list[name=\"a\"].name"]);
    }

    #[test]
    fn sets_are_taken_apart_by_member() {
        let both = FieldSet::of(&[&["f:a"], &["f:a", "f:b"], &["f:c"]]);
        let one = FieldSet::of(&[&["f:a"]]);
        assert_eq!(both.difference(&one), FieldSet::of(&[&["f:a", "f:b"], &["f:c"]]));
        assert_eq!(both.without(&one), FieldSet::of(&[&["f:c"]]));
        assert_eq!(both.intersection(&one), one);
        assert_eq!(one.union(&both), both);
    }
}
