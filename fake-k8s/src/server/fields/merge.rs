//! Laying a configuration over an object, and taking fields out of one.
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::FieldSet;
use super::shape::{Parts, Shape, is_empty};

/// `over` laid over `base`: leaves are those of `over`, lists with keys are merged by them.
pub(in crate::server) fn merge(shape: Shape<'_>, base: Option<&Value>, over: Option<&Value>) -> Option<Value> {
    let (Some(left), Some(right)) = (base, over) else { return over.or(base).cloned() };
    let parts = shape.parts(if right.is_null() { left } else { right });
    if parts == Parts::Leaf || (is_empty(base) && is_empty(over)) {
        return Some(right.clone());
    }
    match parts {
        Parts::Items(keys) => {
            let none = Vec::new();
            let (left, right) = (left.as_array().unwrap_or(&none), right.as_array().unwrap_or(&none));
            Some(Value::Array(merge_items(shape, &keys, left, right)))
        }
        _ => {
            let (left, right) = (left.as_object(), right.as_object());
            let names: BTreeSet<&String> = left.into_iter().chain(right).flat_map(Map::keys).collect();
            let fields = names.into_iter().filter_map(|name| {
                let of = |side: Option<&Map<String, Value>>| side.and_then(|fields| fields.get(name)).cloned();
                Some((name.clone(), merge(shape.field(name).0, of(left).as_ref(), of(right).as_ref())?))
            });
            Some(Value::Object(fields.collect()))
        }
    }
}

/// Items of both, in an order that keeps that of `right` among those it has, and of `left` as far as that allows.
fn merge_items(shape: Shape<'_>, keys: &[String], left: &[Value], right: &[Value]) -> Vec<Value> {
    let step = |item: &Value| shape.item_step(item, keys);
    let (lefts, rights): (Vec<String>, Vec<String>) =
        (left.iter().map(step).collect(), right.iter().map(step).collect());
    let known: BTreeMap<&String, &Value> = lefts.iter().zip(left).collect();
    let wanted: BTreeSet<&String> = rights.iter().collect();
    let both = |at: usize| merge(shape.items(), known.get(&rights[at]).copied(), Some(&right[at]));
    let mut shared = rights.iter().filter(|step| known.contains_key(step)).peekable();
    let (mut out, mut done, mut l, mut r) = (Vec::new(), BTreeSet::new(), 0, 0);
    while l < left.len() || r < right.len() {
        if l < left.len() && r < right.len() {
            if lefts[l] == rights[r] {
                out.extend(both(r));
                done.insert(&rights[r]);
                shared.next();
                (l, r) = (l + 1, r + 1);
                continue;
            }
            if wanted.contains(&lefts[l]) && shared.peek().is_some_and(|next| **next != lefts[l]) {
                l += 1;
                continue;
            }
        }
        if l < left.len() {
            if !wanted.contains(&lefts[l]) {
                out.push(left[l].clone());
                l += 1;
                continue;
            }
            if done.contains(&lefts[l]) {
                l += 1;
            }
        }
        if r < right.len() {
            out.extend(both(r));
            done.insert(&rights[r]);
            if shared.peek().is_some_and(|next| **next == rights[r]) {
                shared.next();
            }
            r += 1;
        }
    }
    out
}

/// A value without the members of a set; `None` when nothing of it is left.
pub(in crate::server) fn remove(shape: Shape<'_>, value: &Value, set: &FieldSet) -> Option<Value> {
    let kept = |step: &str, inner: Shape<'_>, child: &Value| -> Option<Value> {
        if set.has(step) {
            return None;
        }
        match set.below(step) {
            Some(below) => remove(inner, child, below),
            None => Some(child.clone()),
        }
    };
    match (shape.parts(value), value) {
        (Parts::Fields, Value::Object(fields)) => {
            let fields: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, child)| {
                    Some((name.clone(), kept(&format!("f:{name}"), shape.field(name).0, child)?))
                })
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        (Parts::Items(keys), Value::Array(items)) => {
            let items: Vec<Value> =
                items.iter().filter_map(|item| kept(&shape.item_step(item, &keys), shape.items(), item)).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        // A whole that something was below of was no whole before.
        (Parts::Leaf, Value::Object(_) | Value::Array(_)) => None,
        _ => Some(value.clone()),
    }
}
