//! Create and replace, and the way every change of an existing object takes to its commit.
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) use super::decode::decode;
use super::metadata::time_text;
use super::read::scope;
use super::resource::ResourceInfo;
use super::{Options, PatchKind, Request, Server, Status, Verb, managed, object};

/// How often a generated name that is taken is drawn again.
const NAME_ATTEMPTS: usize = 8;

impl Server {
    pub(super) fn create(&mut self, now: Timestamp, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        if request.subresource.is_some() {
            return Err(info.no_method("create"));
        }
        let object = self.decoded(info, request)?;
        self.create_decoded(now, info, request, object)
    }

    fn create_decoded(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        request: &Request,
        mut object: Value,
    ) -> Result<Value, Status> {
        let namespace = place(info, request, &mut object)?;
        self.check_namespace(info, namespace.as_deref(), object::name(&object))?;
        if info.is("", "pods") {
            self.check_priority(&object)?;
        }
        self.name_new(info, namespace.as_deref().unwrap_or_default(), &mut object)?;
        let meta = object::meta_mut(&mut object);
        let version = meta.remove("resourceVersion");
        // A generation that somebody sends is kept where nobody counts it. Only a create wipes what says that it goes.
        let wiped: &[&str] = match request.verb {
            Verb::Create => &["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"],
            _ => &["selfLink", "managedFields"],
        };
        for field in wiped {
            meta.remove(*field);
        }
        meta.insert("uid".into(), Value::String(self.names.uid()));
        meta.insert("creationTimestamp".into(), Value::String(time_text(now)));
        if info.generation {
            meta.insert("generation".into(), json!(1));
        }
        self.admit_new(now, info, &mut object, &request.options)?;
        let versioned = version.as_ref().and_then(Value::as_str).is_some_and(|v| !is_no_version(v));
        if versioned && !request.options.dry_run {
            return Err(Status::unexpected("resourceVersion should not be set on objects to be created"));
        }
        let (ns, name) = (namespace.unwrap_or_default(), object::name(&object).to_owned());
        if let Some(there) = self.store.get(&info.storage, &ns, &name) {
            let mut status = Status::already_exists(info.group(), info.plural(), &name);
            if object::is_deleting(there) {
                status.message = format!("object is being deleted: {}", status.message);
            }
            return Err(status);
        }
        self.created = true;
        if request.options.dry_run {
            if let Some(version) = version {
                object::meta_mut(&mut object).insert("resourceVersion".into(), version);
            }
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
        let mut object = self.decoded(info, request)?;
        place(info, request, &mut object)?;
        check_name(request, &object)?;
        let asked = request.name.as_deref().unwrap_or_default();
        let namespace = scope(info, request)?.unwrap_or_default();
        let Some(old) = self.store.get(&info.storage, namespace, asked).cloned() else {
            if info.create_on_update {
                check_uid(info, namespace, asked, &object, "", request)?;
            }
            if !info.create_on_update || request.subresource.is_some() {
                return Err(Status::not_found(info.group(), info.plural(), asked));
            }
            object::meta_mut(&mut object).remove("resourceVersion");
            let fresh = Request { name: None, ..request.clone() };
            return self.create_decoded(now, info, &fresh, object);
        };
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
        check_preconditions(info, old, &new, request)?;
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
        let (namespace, name) = (object::namespace(old).to_owned(), object::name(old).to_owned());
        if object::is_deleting(old) && object::finalizers(&new).is_empty() && no_grace_left(old) {
            // The last finalizer is gone: this update is the deletion. Who wrote it sees what was written, who watches the
            // object as it was.
            if !options.dry_run {
                self.remove(now, &info.storage, &namespace, &name, None);
            }
            return Ok(Value::clone(&self.shown(info, &Arc::new(new))));
        }
        if managed::same_but_for_times(old, &new) {
            return Ok(Value::clone(&self.shown(info, old)));
        }
        if options.dry_run {
            return Ok(new);
        }
        let stored = self.put(&info.storage, new);
        Ok(Value::clone(&self.shown(info, &stored)))
    }
}

/// A pod in its grace period is still run by its kubelet; everything else has none.
fn no_grace_left(object: &Value) -> bool {
    object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}

/// Kubernetes reads a version of 0 as none.
fn is_no_version(version: &str) -> bool {
    version.is_empty() || version.bytes().all(|digit| digit == b'0')
}

/// An object that is written says the name that the URL says.
pub(super) fn check_name(request: &Request, object: &Value) -> Result<(), Status> {
    let (name, asked) = (object::name(object), request.name.as_deref().unwrap_or_default());
    let why = if name.is_empty() {
        format!("the name of the object ({asked} based on URL) was undeterminable: name must be provided")
    } else if name != asked {
        format!("the name of the object ({name}) does not match the name on the URL ({asked})")
    } else {
        let (inside, around) = (object::namespace(object), request.namespace.as_deref().unwrap_or_default());
        if inside.is_empty() || around.is_empty() || inside == around {
            return Ok(());
        }
        format!("the namespace of the object ({inside}) does not match the namespace on the request ({around})")
    };
    Err(Status::bad_request(why))
}

/// Whoever says which object is meant means no other one: a replace names its uid. `actual` is empty where there is none.
fn check_uid(
    info: &ResourceInfo,
    namespace: &str,
    name: &str,
    new: &Value,
    actual: &str,
    request: &Request,
) -> Result<(), Status> {
    let wanted = object::uid(new);
    if wanted.is_empty() || wanted == actual {
        return Ok(());
    }
    let key = info.key_of(namespace, name, request.options.dry_run);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    );
    Err(Status::conflict(info.group(), info.plural(), name, &why))
}

/// Is the write for this object, and for this version of it?
fn check_preconditions(info: &ResourceInfo, old: &Value, new: &Value, request: &Request) -> Result<(), Status> {
    let name = object::name(old);
    // What a patch made has no precondition: a uid that it changed is a change that is not allowed.
    if request.verb == Verb::Replace {
        check_uid(info, object::namespace(old), name, new, object::uid(old), request)?;
    }
    let wanted = object::version(new);
    if is_no_version(wanted) {
        // What was applied is laid over the newest version.
        if info.unconditional_update || request.verb == Verb::Patch(PatchKind::Apply) {
            return Ok(());
        }
        let detail = "must be specified for an update";
        let error = super::FieldError::invalid("metadata.resourceVersion", 0, detail);
        return Err(Status::invalid(info.group(), info.plural(), name, &[error]));
    }
    if wanted != object::version(old) {
        return Err(Status::modified(info.group(), info.plural(), name));
    }
    Ok(())
}

/// What only the server sets is kept, whatever the writer sent.
fn keep_system_fields(old: &Value, new: &mut Value) {
    let before = &old["metadata"];
    let meta = object::meta_mut(new);
    for field in ["resourceVersion", "generation", "selfLink"] {
        object::set_or_remove(meta, field, &before[field]);
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if !before[field].is_null() {
            meta.insert(field.into(), before[field].clone());
        }
    }
    for field in ["uid", "deletionGracePeriodSeconds", "managedFields", "namespace"] {
        if meta.get(field).is_none_or(Value::is_null) {
            object::set_or_remove(meta, field, &before[field]);
        }
    }
    new["apiVersion"] = old["apiVersion"].clone();
    new["kind"] = old["kind"].clone();
}

/// The main endpoint does not touch status; the status endpoint touches it, and of Kubernetes' own kinds the metadata.
fn split_status(info: &ResourceInfo, old: &Value, new: &mut Value, status_only: bool) {
    if status_only && (info.custom || info.storage == super::definitions::storage()) {
        let status = new.get("status").cloned().unwrap_or(Value::Null);
        let managers = new["metadata"]["managedFields"].clone();
        *new = old.clone();
        object::set_or_remove(object::meta_mut(new), "managedFields", &managers);
        let fields = new.as_object_mut().expect("stored objects are objects");
        object::set_or_remove(fields, "status", &status);
    } else if status_only {
        for field in old.as_object().into_iter().flatten().map(|(field, _)| field) {
            if !matches!(field.as_str(), "metadata" | "status") {
                new[field] = old[field].clone();
            }
        }
        let fields = new.as_object_mut().expect("decoded objects are objects");
        fields.retain(|field, _| matches!(field.as_str(), "metadata" | "status") || old.get(field).is_some());
    } else if info.status {
        let status = old.get("status").cloned().unwrap_or(Value::Null);
        let fields = new.as_object_mut().expect("decoded objects are objects");
        object::set_or_remove(fields, "status", &status);
    }
}

fn is_new_generation(info: &ResourceInfo, old: &Value, new: &Value) -> bool {
    if let Some(is_new) = super::builtin::is_new_generation(info, old, new) {
        return is_new;
    }
    let labels = |object: &Value| object["metadata"]["labels"].clone();
    if info.is("discovery.k8s.io", "endpointslices") && labels(old) != labels(new) {
        return true;
    }
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
