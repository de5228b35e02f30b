//! Server-side apply: what a manager applied before and no longer does is removed, what others own is defended.
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::decode::prune;
use super::fields::check::mistakes;
use super::fields::compare::{Comparison, fields_of};
use super::fields::merge::{merge, remove};
use super::fields::shape::Shape;
use super::fields::{FieldSet, text_of};
use super::managed::{self, Manager, Managers, Owned, of_endpoint, stripped};
use super::metadata::time_text;
use super::resource::ResourceInfo;
use super::types::{Types, decode};
use super::write::decode;
use super::{Cause, Reason, Request, Server, Status, object};

impl Server {
    pub(super) fn apply(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let name = request.options.field_manager.clone().filter(|manager| !manager.is_empty());
        let Some(manager) = name.map(|name| Manager::applying(&name, request.subresource.as_deref())) else {
            let error = super::FieldError::required("fieldManager", "is required for apply patch");
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
        };
        let config = self.configuration(info, request)?;
        let (namespace, name) =
            (request.namespace.as_deref().unwrap_or_default(), request.name.as_deref().unwrap_or_default());
        let Some(stored) = self.store.get(&info.storage, namespace, name).cloned() else {
            return self.apply_first(now, info, request, config, &manager);
        };
        let current = self.shown(info, &stored);
        let applied = Applied { info, manager: &manager, config: &config, force: request.options.force };
        let (mut new, managers) = applied.to(&current, now)?;
        check_conversion(info, &config, &new)?;
        managers.write_to(&mut new);
        self.managers_noted = true;
        if object::version(&config).is_empty() {
            object::meta_mut(&mut new).remove("resourceVersion");
        }
        self.update(now, info, &stored, new, request)
    }

    /// What is applied, read and checked.
    fn configuration(&mut self, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let mut config = decode(info, request.body.as_ref())?;
        let name = request.name.as_deref().unwrap_or_default();
        // Even an empty list of managers is one, so what was sent is asked and not what was read.
        if request.body.as_ref().is_some_and(|body| !body["metadata"]["managedFields"].is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let place = format!("{}/{}", object::namespace(&config), object::name(&config));
        let kind = kind_text(info);
        if let Some(mistakes) = mistakes(Shape::of(info), &config) {
            return Err(Status::unexpected(format!(
                "failed to create typed patch object ({place}; {kind}): {mistakes}"
            )));
        }
        object::meta_mut(&mut config).entry("name").or_insert_with(|| json!(name));
        Ok(config)
    }

    /// Nothing is there yet: the configuration is the object.
    fn apply_first(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        request: &Request,
        config: Value,
        manager: &Manager,
    ) -> Result<Value, Status> {
        if request.subresource.is_some() {
            return Err(Status::not_found(info.group(), info.plural(), object::name(&config)));
        }
        if !object::uid(&config).is_empty() {
            let why = "uid mismatch: the provided object specified uid, and no existing object was found";
            return Err(Status::conflict(info.group(), info.plural(), object::name(&config), why));
        }
        let set = stripped(&of_endpoint(info, None, fields_of(Shape::of(info), &config)));
        let mut managers = Managers::default();
        if !set.is_empty() {
            let owned = Owned { set, api_version: info.api_version(), time: Some(time_text(now)) };
            managers.0.insert(manager.clone(), owned);
        }
        check_conversion(info, &config, &config)?;
        self.applied = Some(managers);
        self.create(now, info, &Request { body: Some(config), ..request.clone() })
    }
}

/// What is of the right type for a merge may still be none for Go: quantities, times and bytes have a form.
fn check_conversion(info: &ResourceInfo, config: &Value, new: &Value) -> Result<(), Status> {
    let Err(mistake) = prune(info, &mut new.clone()) else { return Ok(()) };
    let why = mistake.text;
    let (place, kind) = (format!("{}/{}", object::namespace(config), object::name(config)), kind_text(info));
    // Types that read themselves tell what is wrong in their own words.
    let own = if why.contains("base64") { "error decoding from json: " } else { "" };
    Err(Status::unexpected(format!(
        "failed to convert new object ({place}; {kind}) to proper version: unable to convert unstructured object to {kind}: {own}{why}"
    )))
}

/// Group, version and kind as Go prints them.
fn kind_text(info: &ResourceInfo) -> String {
    format!("{}/{}, Kind={}", info.group(), info.name.version, info.kind)
}

/// The object that a kind has before anything is set.
pub(super) fn blank(info: &ResourceInfo) -> Value {
    let record = Types::of_this_version().kind(info.group(), &info.name.version, &info.kind);
    record.filter(|_| !info.custom).map_or_else(|| json!({}), decode::zero)
}

struct Applied<'a> {
    info: &'a ResourceInfo,
    manager: &'a Manager,
    config: &'a Value,
    force: bool,
}

impl Applied<'_> {
    /// The configuration laid over an object, and who owns what then.
    fn to(&self, current: &Arc<Value>, now: Timestamp) -> Result<(Value, Managers), Status> {
        let shape = Shape::of(self.info);
        let mut live = Value::clone(current);
        let mut managers = Managers::of(&live);
        if managers.0.is_empty() {
            // What was there before anybody applied is owned by a name of its own.
            let before = Manager::updating(self.info, "before-first-apply", None);
            managed::update(self.info, &blank(self.info), &mut live, &before, now);
            managers = Managers::of(&live);
        }
        object::meta_mut(&mut live).remove("managedFields");
        let subresource = Some(self.manager.subresource.as_str()).filter(|name| !name.is_empty());
        let set = of_endpoint(self.info, subresource, fields_of(shape, self.config));
        let last = managers.0.get(self.manager).cloned();
        let owned =
            Owned { set, api_version: self.info.api_version(), time: last.as_ref().and_then(|last| last.time.clone()) };
        managers.0.insert(self.manager.clone(), owned);
        let merged = merge(shape, Some(&live), Some(self.config)).unwrap_or_else(|| json!({}));
        let new = last.map_or_else(|| merged.clone(), |last| prune_unowned(shape, &merged, &managers, &last.set));
        let comparison = Comparison::of(shape, &live, &new).map(|set| of_endpoint(self.info, subresource, set));
        if !self.force {
            self.refuse_conflicts(&managers, &comparison)?;
        }
        managers.give_up(self.manager, &comparison);
        if let Some(owned) = managers.0.get_mut(self.manager) {
            owned.set = stripped(&owned.set);
            if new != live {
                owned.time = Some(time_text(now));
            }
        }
        managers.0.retain(|_, owned| !owned.set.is_empty());
        Ok((new, managers))
    }

    /// Fields of others that would change.
    fn refuse_conflicts(&self, managers: &Managers, comparison: &Comparison) -> Result<(), Status> {
        let written = comparison.written();
        let mut conflicts: Vec<(String, Vec<String>)> = Vec::new();
        for (manager, owned) in managers.0.iter().filter(|(manager, _)| *manager != self.manager) {
            let paths: Vec<String> =
                owned.set.intersection(&written).paths().iter().map(|path| text_of(path)).collect();
            if !paths.is_empty() {
                conflicts.push((manager.text(), paths));
            }
        }
        conflicts.sort();
        let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
        let message = match conflicts.as_slice() {
            [] => return Ok(()),
            [(manager, paths)] if count == 1 => {
                format!("Apply failed with 1 conflict: conflict with {manager}: {}", paths[0])
            }
            many => {
                let lines: Vec<String> = many
                    .iter()
                    .flat_map(|(manager, paths)| {
                        let head = std::iter::once(format!("conflicts with {manager}:"));
                        head.chain(paths.iter().map(|path| format!("- {path}")))
                    })
                    .collect();
                format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
            }
        };
        let mut status = Status::new(Reason::Conflict, message);
        status.details.causes = conflicts
            .iter()
            .flat_map(|(manager, paths)| paths.iter().map(move |path| (manager, path)))
            .map(|(manager, path)| Cause {
                reason: "FieldManagerConflict".into(),
                message: format!("conflict with {manager}"),
                field: path.clone(),
            })
            .collect();
        Err(status)
    }
}

/// Takes away what was applied last time and is not any more, unless somebody owns it.
fn prune_unowned(shape: Shape<'_>, merged: &Value, managers: &Managers, last: &FieldSet) -> Value {
    let last = last.with_named(shape);
    let pruned = remove(shape, merged, &last).unwrap_or_else(|| json!({}));
    let all = managers.0.values().fold(FieldSet::default(), |all, owned| all.union(&owned.set)).with_named(shape);
    let named = |value: &Value| fields_of(shape, value).with_named(shape);
    let (before, after) = (named(merged), named(&pruned));
    // What went with something else, or is owned, comes back.
    let gone = before.difference(&after).difference(&all);
    let pruned = remove(shape, merged, &gone).unwrap_or_else(|| json!({}));
    let dangling = before.difference(&named(&pruned)).intersection(&last);
    remove(shape, merged, &dangling).unwrap_or_else(|| json!({}))
}
