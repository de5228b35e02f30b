//! Create and replace, and the way every change of an existing object takes to its commit.
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::metadata::time_text;
use super::read::scope;
use super::resource::ResourceInfo;
use super::{Options, Reason, Request, Server, Status, managed, object};

/// How often a generated name that is taken is drawn again.
const NAME_ATTEMPTS: usize = 8;

impl Server {
    pub(super) fn create(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        if request.subresource.is_some() {
            return Err(Status::method_not_allowed());
        }
        let mut object = decode(info, request.body.as_ref())?;
        let namespace = place(info, request, &mut object)?;
        self.check_namespace(info, namespace.as_deref(), object::name(&object))?;
        if !object::version(&object).is_empty() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(Reason::InternalError, message));
        }
        self.name_new(info, namespace.as_deref().unwrap_or_default(), &mut object)?;
        let meta = object::meta_mut(&mut object);
        for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"]
        {
            meta.remove(field);
        }
        meta.insert("uid".into(), Value::String(self.names.uid()));
        meta.insert("creationTimestamp".into(), Value::String(time_text(now)));
        meta.remove("generation");
        if info.generation {
            meta.insert("generation".into(), json!(1));
        }
        self.admit_new(now, info, &mut object, &request.options)?;
        let (ns, name) = (namespace.unwrap_or_default(), object::name(&object).to_owned());
        if self.store.get(&info.storage, &ns, &name).is_some() {
            return Err(Status::already_exists(info.group(), info.plural(), &name));
        }
        self.created = true;
        if request.options.dry_run {
            return Ok(object);
        }
        let stored = self.put(&info.storage, object);
        Ok(Value::clone(&self.shown(info, &stored)))
    }

    fn name_new(&mut self, info: &ResourceInfo, namespace: &str, object: &mut Value) -> Result<(), Status> {
        let prefix = object::meta_str(object, "generateName").to_owned();
        if !object::name(object).is_empty() || prefix.is_empty() {
            return Ok(());
        }
        for _ in 0..NAME_ATTEMPTS {
            let stem: String = prefix.chars().take(58).collect();
            let name = format!("{stem}{}", self.names.suffix());
            if self.store.get(&info.storage, namespace, &name).is_none() {
                object::meta_mut(object).insert("name".into(), Value::String(name));
                return Ok(());
            }
        }
        Err(Status::already_exists(info.group(), info.plural(), &prefix))
    }

    /// Nothing is created in a namespace that is not there, or that is going away.
    fn check_namespace(&self, info: &ResourceInfo, namespace: Option<&str>, name: &str) -> Result<(), Status> {
        let Some(ns) = namespace else { return Ok(()) };
        let home = super::resource::StorageKey { group: String::new(), plural: "namespaces".into() };
        match self.store.get(&home, "", ns) {
            None => Err(Status::not_found("", "namespaces", ns)),
            Some(found) if object::is_deleting(found) => {
                let why = format!("unable to create new content in namespace {ns} because it is being terminated");
                let mut status = Status::forbidden(info.group(), info.plural(), name, &why);
                status.details.causes.push(super::Cause {
                    reason: "NamespaceTerminating".into(),
                    message: format!("namespace {ns} is being terminated"),
                    field: "metadata.namespace".into(),
                });
                Err(status)
            }
            Some(_) => Ok(()),
        }
    }

    pub(super) fn replace(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let mut object = decode(info, request.body.as_ref())?;
        place(info, request, &mut object)?;
        let asked = request.name.as_deref().unwrap_or_default();
        if object::name(&object).is_empty() {
            object::meta_mut(&mut object).insert("name".into(), Value::String(asked.to_owned()));
        }
        if object::name(&object) != asked {
            return Err(Status::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({asked})",
                object::name(&object)
            )));
        }
        let namespace = scope(info, request)?.unwrap_or_default();
        let Some(old) = self.store.get(&info.storage, namespace, asked).cloned() else {
            if info.create_on_update && request.subresource.is_none() && object::uid(&object).is_empty() {
                object::meta_mut(&mut object).remove("resourceVersion");
                let fresh = Request { name: None, body: Some(object), ..request.clone() };
                return self.create(now, info, &fresh);
            }
            return Err(Status::not_found(info.group(), info.plural(), asked));
        };
        if object::version(&object).is_empty() && !info.unconditional_update {
            let detail = "must be specified for an update";
            let error = super::FieldError::invalid("metadata.resourceVersion", 0, detail);
            return Err(Status::invalid(info.group(), &info.kind, asked, &[error]));
        }
        self.update(now, info, &old, object, request)
    }

    /// Turns `old` into `new` as far as the rules and the subresource of the request allow; no commit when nothing changed.
    pub(super) fn update(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        old: &Arc<Value>,
        mut new: Value,
        request: &Request,
    ) -> Result<Value, Status> {
        check_preconditions(info, old, &new)?;
        keep_system_fields(old, &mut new);
        let status_only = match request.subresource.as_deref() {
            None => false,
            Some("status") if info.status => true,
            Some(_) => return Err(Status::no_such_path()),
        };
        self.read_changed(now, info, old, &mut new, request)?;
        split_status(info, old, &mut new, status_only);
        self.admit_changed(now, info, old, &mut new, request)?;
        self.commit_update(now, info, old, new, &request.options)
    }

    fn commit_update(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        old: &Arc<Value>,
        mut new: Value,
        options: &Options,
    ) -> Result<Value, Status> {
        if info.generation && is_new_generation(info, old, &new) {
            let next = object::generation(old) + 1;
            object::meta_mut(&mut new).insert("generation".into(), json!(next));
        }
        if managed::same_but_for_times(old, &new) {
            return Ok(Value::clone(&self.shown(info, old)));
        }
        if options.dry_run {
            return Ok(new);
        }
        let (namespace, name) = (object::namespace(old).to_owned(), object::name(old).to_owned());
        if object::is_deleting(&new) && object::finalizers(&new).is_empty() && no_grace_left(&new) {
            // The last finalizer is gone: this update is the deletion.
            let gone = self.remove(now, &info.storage, &namespace, &name, Some(new));
            let gone = gone.expect("the object that is updated is stored");
            return Ok(Value::clone(&self.shown(info, &gone)));
        }
        let stored = self.put(&info.storage, new);
        Ok(Value::clone(&self.shown(info, &stored)))
    }
}

/// A pod in its grace period is still run by its kubelet; everything else has none.
fn no_grace_left(object: &Value) -> bool {
    object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}

fn check_preconditions(info: &ResourceInfo, old: &Value, new: &Value) -> Result<(), Status> {
    let name = object::name(old);
    let (wanted, actual) = (object::uid(new), object::uid(old));
    if !wanted.is_empty() && wanted != actual {
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}");
        return Err(Status::conflict(info.group(), info.plural(), name, &why));
    }
    let wanted = object::version(new);
    if !wanted.is_empty() && wanted != object::version(old) {
        return Err(Status::modified(info.group(), info.plural(), name));
    }
    Ok(())
}

/// What only the server sets is kept, whatever the writer sent.
fn keep_system_fields(old: &Value, new: &mut Value) {
    let meta = object::meta_mut(new);
    for field in [
        "uid",
        "resourceVersion",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "namespace",
        "name",
        "generateName",
    ] {
        object::set_or_remove(meta, field, &old["metadata"][field]);
    }
    for field in ["creationTimestamp", "managedFields"] {
        if meta.get(field).is_none_or(Value::is_null) {
            object::set_or_remove(meta, field, &old["metadata"][field]);
        }
    }
    for empty in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let is_empty = |v: &Value| {
            v.is_null() || v.as_object().is_some_and(|m| m.is_empty()) || v.as_array().is_some_and(Vec::is_empty)
        };
        if meta.get(empty).is_some_and(is_empty) {
            meta.remove(empty);
        }
    }
    new["apiVersion"] = old["apiVersion"].clone();
    new["kind"] = old["kind"].clone();
}

/// The main endpoint does not touch status; that of the status touches little else: metadata of built-in kinds, but for what
/// their strategies keep.
fn split_status(info: &ResourceInfo, old: &Value, new: &mut Value, status_only: bool) {
    if !status_only {
        if info.status {
            keep(new, old, &["status"]);
        }
        return;
    }
    let status = new.get("status").cloned().unwrap_or(Value::Null);
    let mut meta = new["metadata"].take();
    *new = old.clone();
    let fields = new.as_object_mut().expect("stored objects are objects");
    object::set_or_remove(fields, "status", &status);
    let kept: &[&str] = match (info.group(), info.plural()) {
        ("", "pods") => &["ownerReferences"],
        ("apps", "deployments") => &["labels"],
        _ => &[],
    };
    if info.custom {
        keep(&mut new["metadata"], &meta, &["managedFields"]);
    } else {
        keep(&mut meta, &old["metadata"], kept);
        new["metadata"] = meta;
    }
}

/// Puts fields of one object into another, or takes them away there.
fn keep(target: &mut Value, source: &Value, fields: &[&str]) {
    let Some(target) = target.as_object_mut() else { return };
    for field in fields {
        object::set_or_remove(target, field, &source[*field]);
    }
}

fn is_new_generation(info: &ResourceInfo, old: &Value, new: &Value) -> bool {
    if !info.custom && old.get("spec").is_some() {
        return old["spec"] != new["spec"];
    }
    let counted = |field: &str| field != "metadata" && !(info.status && field == "status");
    let fields = |v: &'_ Value| -> Vec<(String, Value)> {
        let all = v.as_object().into_iter().flatten();
        all.filter(|(k, _)| counted(k)).map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    fields(old) != fields(new)
}

pub(super) fn refuse_if(info: &ResourceInfo, name: &str, errors: &[super::FieldError]) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(info.group(), &info.kind, name, errors)) }
}

/// The body as an object of the resource's kind. Built-in kinds may leave kind and apiVersion out, custom ones may not.
pub(super) fn decode(info: &ResourceInfo, body: Option<&Value>) -> Result<Value, Status> {
    let Some(body) = body.filter(|b| b.is_object()) else {
        return Err(Status::bad_request("the request body is not an object"));
    };
    let mut object = body.clone();
    let wanted = info.api_version();
    for (field, title, expected) in [("kind", "Kind", info.kind.as_str()), ("apiVersion", "apiVersion", &wanted)] {
        match object[field].as_str().filter(|v| !v.is_empty()) {
            Some(found) if found == expected => {}
            Some(found) => {
                return Err(Status::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: the {field} of the data ({found}) does not match the expected one ({expected})",
                    object["kind"].as_str().unwrap_or(""),
                    object["apiVersion"].as_str().unwrap_or(""),
                    info.kind
                )));
            }
            None if info.custom => return Err(Status::bad_request(format!("Object '{title}' is missing in '{body}'"))),
            None => object[field] = Value::String(expected.to_owned()),
        }
    }
    if object.get("metadata").is_some_and(|m| !m.is_object() && !m.is_null()) {
        return Err(Status::bad_request(format!(
            "{} in version {wanted:?} cannot be handled as a {}: metadata is not an object",
            info.kind, info.kind
        )));
    }
    object::meta_mut(&mut object);
    if info.custom {
        drop_nulls(&mut object["metadata"]);
    } else if info.storage != super::definitions::storage() {
        drop_nulls(&mut object);
    }
    if info.is("events.k8s.io", "events") {
        super::events::to_core(&mut object);
    }
    Ok(object)
}

/// In what has a type in Kubernetes' own code, a null is the same as nothing.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, v| !v.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Gives the object the namespace of the request; refuses one that differs.
fn place(info: &ResourceInfo, request: &Request, object: &mut Value) -> Result<Option<String>, Status> {
    let namespace = scope(info, request)?.map(str::to_owned);
    let inside = object::namespace(object).to_owned();
    let meta = object::meta_mut(object);
    match &namespace {
        None => drop(meta.remove("namespace")),
        Some(ns) if inside.is_empty() || inside == *ns => {
            meta.insert("namespace".into(), Value::String(ns.clone()));
        }
        Some(_) => {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(namespace)
}
