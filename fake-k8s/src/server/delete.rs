//! Deletion: preconditions, grace, finalizers, and what is left to the garbage collector.
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::metadata::time_text;
use super::read::scope;
use super::resource::ResourceInfo;
use super::selector::Selector;
use super::{Options, Propagation, Request, Server, Status, object};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

impl Server {
    pub(super) fn delete(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        if request.subresource.is_some() {
            return Err(Status::method_not_allowed());
        }
        let namespace = scope(info, request)?.unwrap_or_default();
        let name = request.name.as_deref().unwrap_or_default();
        let Some(stored) = self.store.get(&info.storage, namespace, name).cloned() else {
            return Err(Status::not_found(info.group(), info.plural(), name));
        };
        let options = with_body(&request.options, request.body.as_ref())?;
        self.delete_stored(now, info, &stored, &options)
    }

    pub(super) fn delete_collection(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        request: &Request,
    ) -> Result<Value, Status> {
        let namespace = if info.namespaced { request.namespace.as_deref() } else { None };
        let options = with_body(&request.options, request.body.as_ref())?;
        let selector = Selector::parse(info, options.label_selector.as_deref(), options.field_selector.as_deref())?;
        let chosen: Vec<Arc<Value>> =
            self.store.list(&info.storage, namespace).filter(|o| selector.matches(o)).cloned().collect();
        for object in &chosen {
            self.delete_stored(now, info, object, &options)?;
        }
        let items: Vec<Value> = chosen.iter().map(|o| Value::clone(&self.shown(info, o))).collect();
        let metadata = json!({"resourceVersion": self.store.version().to_string()});
        Ok(json!({"apiVersion": info.api_version(), "kind": info.list_kind, "metadata": metadata, "items": items}))
    }

    pub(super) fn delete_stored(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        stored: &Arc<Value>,
        options: &Options,
    ) -> Result<Value, Status> {
        check_preconditions(info, stored, options)?;
        let (namespace, name) = (object::namespace(stored), object::name(stored));
        let grace = grace_seconds(info, stored, options);
        let mut new = Value::clone(stored);
        set_finalizers(&mut new, options.propagation);
        let stays = grace > 0 || !object::finalizers(&new).is_empty() || holds_content(info, stored);
        if !stays {
            if options.dry_run {
                return Ok(answer(info, stored));
            }
            let gone = self.remove(now, &info.storage, namespace, name, None);
            return Ok(answer(info, &self.shown(info, &gone.expect("found just above"))));
        }
        mark(info, stored, &mut new, now, grace);
        if new == **stored || options.dry_run {
            return Ok(Value::clone(&self.shown(info, stored)));
        }
        let stored = self.put(&info.storage, new);
        if info.storage == super::definitions::storage() {
            let name = object::name(&stored).to_owned();
            self.clean_definition(now, &name);
        }
        Ok(Value::clone(&self.shown(info, &stored)))
    }
}

/// Query parameters may come as a DeleteOptions body instead.
fn with_body(options: &Options, body: Option<&Value>) -> Result<Options, Status> {
    let mut options = options.clone();
    let Some(body) = body.filter(|b| !b.is_null()) else { return Ok(options) };
    if let Some(seconds) = body["gracePeriodSeconds"].as_i64() {
        options.grace_period_seconds = Some(seconds);
    }
    if let Some(policy) = body["propagationPolicy"].as_str() {
        options.propagation = Some(match policy {
            "Orphan" => Propagation::Orphan,
            "Background" => Propagation::Background,
            "Foreground" => Propagation::Foreground,
            other => return Err(Status::bad_request(format!("invalid propagationPolicy {other:?}"))),
        });
    }
    if body["orphanDependents"] == true {
        options.propagation = Some(Propagation::Orphan);
    }
    if body["dryRun"].as_array().is_some_and(|d| d.iter().any(|v| v == "All")) {
        options.dry_run = true;
    }
    for (field, is_uid) in [("uid", true), ("resourceVersion", false)] {
        if let Some(text) = body["preconditions"][field].as_str().filter(|t| !t.is_empty()) {
            let conditions = options.preconditions.get_or_insert_default();
            let slot = if is_uid { &mut conditions.uid } else { &mut conditions.resource_version };
            *slot = Some(text.to_owned());
        }
    }
    Ok(options)
}

fn check_preconditions(info: &ResourceInfo, stored: &Value, options: &Options) -> Result<(), Status> {
    let Some(wanted) = &options.preconditions else { return Ok(()) };
    let name = object::name(stored);
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != object::uid(stored)) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            object::uid(stored)
        );
        return Err(Status::conflict(info.group(), info.plural(), name, &why));
    }
    if let Some(version) = wanted.resource_version.as_deref().filter(|v| *v != object::version(stored)) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            object::version(stored)
        );
        return Err(Status::conflict(info.group(), info.plural(), name, &why));
    }
    Ok(())
}

/// Only pods have a grace period, and only those that a kubelet may be running.
fn grace_seconds(info: &ResourceInfo, stored: &Value, options: &Options) -> i64 {
    if !info.is("", "pods") {
        return 0;
    }
    let finished = matches!(stored["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let unscheduled = stored["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    if finished || unscheduled {
        return 0;
    }
    let own = stored["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let asked = options.grace_period_seconds.unwrap_or(own).max(0);
    if !object::is_deleting(stored) {
        return asked;
    }
    // A second delete may shorten the grace period, never lengthen it.
    let left = stored["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(own);
    if options.grace_period_seconds.is_some() { asked.min(left) } else { left }
}

/// A namespace goes only after what is in it.
fn holds_content(info: &ResourceInfo, stored: &Value) -> bool {
    info.is("", "namespaces") && stored["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty())
}

fn set_finalizers(object: &mut Value, propagation: Option<Propagation>) {
    let Some(policy) = propagation else { return };
    let mut names: Vec<String> = object::finalizers(object).into_iter().map(str::to_owned).collect();
    names.retain(|n| n != FOREGROUND && n != ORPHAN);
    match policy {
        Propagation::Background => {}
        Propagation::Foreground => names.push(FOREGROUND.into()),
        Propagation::Orphan => names.push(ORPHAN.into()),
    }
    let meta = object::meta_mut(object);
    if names.is_empty() {
        meta.remove("finalizers");
    } else {
        meta.insert("finalizers".into(), json!(names));
    }
}

fn mark(info: &ResourceInfo, stored: &Value, new: &mut Value, now: Timestamp, grace: i64) {
    let first = !object::is_deleting(stored);
    let shorter = stored["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|left| grace < left);
    if !first && !shorter {
        return;
    }
    let generation = object::generation(stored);
    let meta = object::meta_mut(new);
    let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    meta.insert("deletionTimestamp".into(), Value::String(time_text(at)));
    meta.insert("deletionGracePeriodSeconds".into(), json!(grace));
    if first && generation > 0 {
        meta.insert("generation".into(), json!(generation + 1));
    }
    if info.is("", "namespaces") {
        new["status"]["phase"] = json!("Terminating");
    }
}

/// Pods and a few more answer with the object, the rest with a Status.
fn answer(info: &ResourceInfo, gone: &Value) -> Value {
    let whole = ["pods", "services", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"];
    if info.group().is_empty() && whole.contains(&info.plural()) {
        return gone.clone();
    }
    let mut details = json!({"name": object::name(gone), "kind": info.plural(), "uid": object::uid(gone)});
    if !info.group().is_empty() {
        details["group"] = json!(info.group());
    }
    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "details": details})
}
