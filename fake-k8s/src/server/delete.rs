//! Deletion: preconditions, grace, finalizers, and what is left to the garbage collector.
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::decode::syntax_fault;
use super::metadata::time_text;
use super::read::scope;
use super::resource::ResourceInfo;
use super::selector::Selector;
use super::{FieldError, Options, Propagation, Request, Server, Status, object};

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

impl Server {
    pub(super) fn delete(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        if request.subresource.is_some() {
            return Err(info.no_method("delete"));
        }
        let namespace = scope(info, request)?.unwrap_or_default();
        let name = request.name.as_deref().unwrap_or_default();
        let options = with_body(request)?;
        self.warn_of_orphans(info, &options);
        let Some(stored) = self.store.get(&info.storage, namespace, name).cloned() else {
            return Err(Status::not_found(info.group(), info.plural(), name));
        };
        self.delete_stored(now, info, &stored, &options)
    }

    pub(super) fn delete_collection(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        request: &Request,
    ) -> Result<Value, Status> {
        let namespace = if info.namespaced { request.namespace.as_deref() } else { None };
        let selection = &request.options;
        let selector = Selector::parse(info, selection.label_selector.as_deref(), selection.field_selector.as_deref())?;
        let options = with_body(request)?;
        self.warn_of_orphans(info, &options);
        let chosen: Vec<Arc<Value>> =
            self.store.list(&info.storage, namespace).filter(|o| selector.matches(o)).cloned().collect();
        let metadata = json!({"resourceVersion": self.store.version().to_string()});
        for object in &chosen {
            self.delete_stored(now, info, object, &options)?;
        }
        let items: Vec<Value> = chosen.iter().map(|o| Value::clone(&self.shown(info, o))).collect();
        Ok(json!({"apiVersion": info.api_version(), "kind": info.list_kind, "metadata": metadata, "items": items}))
    }

    fn warn_of_orphans(&mut self, info: &ResourceInfo, options: &Options) {
        if info.is("batch", "jobs") && options.propagation.is_none() {
            self.warnings.push("child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning".into());
        }
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
        let grace = match grace_of(info, stored, options) {
            Grace::Pending => return Ok(answer(info, &self.shown(info, stored))),
            Grace::None => None,
            Grace::Seconds(seconds) => Some(seconds),
        };
        let mut new = Value::clone(stored);
        set_finalizers(info, &mut new, options.propagation);
        let held = !object::finalizers(&new).is_empty() || holds_content(info, stored);
        if let Some(seconds) = grace {
            mark_graceful(&mut new, now, seconds);
        } else if held {
            mark(info, &mut new, now);
        }
        let stays = held || grace.is_some_and(|seconds| seconds > 0);
        if options.dry_run {
            return Ok(if stays || grace.is_some() { new } else { answer(info, &self.shown(info, stored)) });
        }
        // A pod that no kubelet runs is marked and deleted at once, as two changes.
        let marked =
            if (stays || grace.is_some()) && new != **stored { self.put(&info.storage, new) } else { stored.clone() };
        if !stays {
            let gone = self.remove(now, &info.storage, namespace, name, None);
            return Ok(answer(info, &self.shown(info, &gone.expect("found just above"))));
        }
        if info.storage == super::definitions::storage() {
            self.clean_definition(now, name);
        }
        Ok(Value::clone(&self.shown(info, &marked)))
    }
}

/// The parameters of a delete may come as a body instead.
fn with_body(request: &Request) -> Result<Options, Status> {
    let mut options = request.options.clone();
    let Some(body) = request.body.as_ref().filter(|b| !b.is_null()) else {
        if !request.raw.is_empty() && request.body.is_none() {
            let fault = syntax_fault(&request.raw);
            return Err(Status::unexpected(format!("couldn't get version/kind; json parse error: {fault}")));
        }
        return Ok(options);
    };
    if let Some(seconds) = body["gracePeriodSeconds"].as_i64() {
        options.grace_period_seconds = Some(seconds);
    }
    let policy = body["propagationPolicy"].as_str();
    if let (Some(policy), Some(_)) = (policy, body["orphanDependents"].as_bool()) {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        let error = FieldError::invalid("propagationPolicy", policy, detail);
        return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
    }
    if let Some(policy) = policy {
        options.propagation = Some(Propagation::parse(policy)?);
    }
    match body["orphanDependents"].as_bool() {
        Some(true) => options.propagation = Some(Propagation::Orphan),
        Some(false) => options.propagation = Some(Propagation::Background),
        None => {}
    }
    if let Some(modes) = body["dryRun"].as_array().filter(|modes| !modes.is_empty()) {
        if modes.iter().any(|mode| mode != "All") {
            let error = FieldError::not_supported("dryRun", modes.clone(), &["All".to_owned()]);
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
        }
        options.dry_run = true;
    }
    for (field, is_uid) in [("uid", true), ("resourceVersion", false)] {
        if let Some(text) = body["preconditions"][field].as_str() {
            let conditions = options.preconditions.get_or_insert_default();
            let slot = if is_uid { &mut conditions.uid } else { &mut conditions.resource_version };
            *slot = Some(text.to_owned());
        }
    }
    Ok(options)
}

/// The errors name the kind where others name the resource.
fn check_preconditions(info: &ResourceInfo, stored: &Value, options: &Options) -> Result<(), Status> {
    let Some(wanted) = &options.preconditions else { return Ok(()) };
    let name = object::name(stored);
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != object::uid(stored)) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            object::uid(stored)
        );
        return Err(Status::conflict(info.group(), &info.kind, name, &why));
    }
    if let Some(version) = wanted.resource_version.as_deref().filter(|v| *v != object::version(stored)) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            object::version(stored)
        );
        return Err(Status::conflict(info.group(), &info.kind, name, &why));
    }
    Ok(())
}

/// How long a deletion takes.
enum Grace {
    /// It is no matter of time.
    None,
    /// So long, which may be no time at all.
    Seconds(i64),
    /// It is under way, and not made faster by this one.
    Pending,
}

/// Only pods have a grace period, and only those that a kubelet may be running have time.
fn grace_of(info: &ResourceInfo, stored: &Value, options: &Options) -> Grace {
    if !info.is("", "pods") {
        return Grace::None;
    }
    let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    if object::is_deleting(stored) {
        // A second delete may shorten the grace period, never lengthen it.
        let left = stored["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        return match asked {
            _ if left == 0 => Grace::None,
            Some(seconds) if seconds < left => Grace::Seconds(seconds),
            _ => Grace::Pending,
        };
    }
    let finished = matches!(stored["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let unscheduled = stored["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    if finished || unscheduled {
        return Grace::Seconds(0);
    }
    let own = stored["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(0);
    let seconds = asked.unwrap_or(own);
    Grace::Seconds(if seconds < 0 { 1 } else { seconds })
}

/// A namespace goes only after what is in it.
fn holds_content(info: &ResourceInfo, stored: &Value) -> bool {
    info.is("", "namespaces") && stored["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty())
}

/// What is to become of dependents is written into the finalizers; without a word, what is there stays, and the pods of
/// jobs are orphaned. Events have no dependents.
fn set_finalizers(info: &ResourceInfo, object: &mut Value, propagation: Option<Propagation>) {
    if info.kind == "Event" && !info.custom {
        return;
    }
    let names: Vec<String> = object::finalizers(object).into_iter().map(str::to_owned).collect();
    let there = |name: &str| names.iter().any(|n| n == name);
    let policy = match propagation {
        Some(policy) => policy,
        None if there(ORPHAN) || there(FOREGROUND) => return,
        None if info.is("batch", "jobs") => Propagation::Orphan,
        None => return,
    };
    let wanted = match policy {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    let others = names.iter().map(String::as_str).filter(|n| *n != FOREGROUND && *n != ORPHAN);
    let new: Vec<&str> = others.chain(wanted).collect();
    // In whatever order they are.
    if new.len() == names.len() && new.iter().all(|n| there(n)) {
        return;
    }
    let value = if new.is_empty() { Value::Null } else { json!(new) };
    object::set_or_remove(object::meta_mut(object), "finalizers", &value);
}

/// A grace period begins, or becomes shorter.
fn mark_graceful(new: &mut Value, now: Timestamp, seconds: i64) {
    let generation = object::generation(new);
    let meta = object::meta_mut(new);
    let began = meta.get("deletionTimestamp").and_then(Value::as_str).and_then(|t| t.parse::<Timestamp>().ok());
    let (at, seconds) = match began {
        None => {
            if generation > 0 {
                meta.insert("generation".into(), json!(generation + 1));
            }
            (now + SignedDuration::from_secs(seconds), seconds)
        }
        Some(end) => {
            let before = meta.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
            let at = end + SignedDuration::from_secs(seconds - before);
            // What has passed already is not given back: it ends now, in one second for who asked for any.
            if at < now { (now, seconds.min(1)) } else { (at, seconds) }
        }
    };
    meta.insert("deletionTimestamp".into(), Value::String(time_text(at)));
    meta.insert("deletionGracePeriodSeconds".into(), json!(seconds));
}

/// It waits for its finalizers.
fn mark(info: &ResourceInfo, new: &mut Value, now: Timestamp) {
    let (first, generation) = (!object::is_deleting(new), object::generation(new));
    let meta = object::meta_mut(new);
    if first {
        if generation > 0 {
            meta.insert("generation".into(), json!(generation + 1));
        }
        meta.insert("deletionTimestamp".into(), Value::String(time_text(now)));
    }
    meta.insert("deletionGracePeriodSeconds".into(), json!(0));
    if info.is("", "namespaces") {
        new["status"]["phase"] = json!("Terminating");
    }
}

/// Pods and a few more answer with the object, the rest with a Status.
fn answer(info: &ResourceInfo, gone: &Value) -> Value {
    let whole = ["pods", "services", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts", "namespaces"];
    if (info.group().is_empty() && whole.contains(&info.plural())) || info.is("storage.k8s.io", "storageclasses") {
        return gone.clone();
    }
    let mut details = json!({"name": object::name(gone), "kind": info.plural(), "uid": object::uid(gone)});
    if !info.group().is_empty() {
        details["group"] = json!(info.group());
    }
    json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "details": details})
}
