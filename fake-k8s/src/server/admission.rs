//! What happens to an object between decoding and the commit: defaults, allocation, and every check.
use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::builtin::{self, services};
use super::decode::{prune, undecodable};
use super::managed::{self, Manager};
use super::resource::{ResourceInfo, StorageKey};
use super::types::decode;
use super::types::{Record, Types};
use super::write::refuse_if;
use super::{
    FieldError, FieldValidation, Options, PatchKind, Request, Server, Status, Verb, apply, custom, definitions,
    metadata, object, order,
};

/// The type of the objects of a built-in kind, as they are stored.
pub(super) fn record(info: &ResourceInfo) -> Option<&'static Record> {
    let types = Types::of_this_version();
    match info.is("events.k8s.io", "events") {
        true => types.kind("", "v1", "Event"),
        false => types.kind(info.group(), &info.name.version, &info.kind),
    }
}

/// Adds what a built-in kind shows in any case.
fn complete(info: &ResourceInfo, object: &mut Value) {
    if let Some(record) = record(info).filter(|_| !info.custom) {
        decode::complete(record, object);
    }
}

impl Server {
    /// Defaults and checks a new object.
    pub(super) fn admit_new(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        object: &mut Value,
        options: &Options,
    ) -> Result<(), Status> {
        builtin::default_object(info, object);
        complete(info, object);
        match self.applied.take() {
            Some(managers) => managers.write_to(object),
            None => self.note_update(now, info, &apply::blank(info), object, options.manager(), None),
        }
        builtin::begin(info, object, self.service_accounts);
        complete(info, object);
        let mut errors = if info.custom { custom::check_new(info, object) } else { order::check_new(info, object) };
        if info.storage == definitions::storage() {
            definitions::complete(object, now);
            object::meta_mut(object).insert("finalizers".into(), json!([definitions::CLEANUP]));
        }
        if info.is("", "services") {
            self.allocate_address(object, &mut errors);
        }
        if info.is("", "persistentvolumeclaims") {
            self.choose_class(object);
        }
        refuse_if(info, object::name(object), &errors)?;
        if info.custom {
            self.warnings.extend(metadata::finalizer_warnings(None, object));
        }
        Ok(())
    }

    /// Reads a changed object as it was sent, and notes who changed what: what the endpoint does not change is put back later.
    pub(super) fn read_changed(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        old: &Value,
        new: &mut Value,
        request: &Request,
    ) -> Result<(), Status> {
        if request.verb == Verb::Patch(PatchKind::Apply) {
            // What was sent otherwise was pruned when it was decoded.
            let unknown = prune(info, new).map_err(|why| undecodable(info, &why))?;
            if request.options.field_validation == FieldValidation::Warn {
                self.warnings.extend(unknown);
            }
        }
        builtin::default_object(info, new);
        complete(info, new);
        if request.verb != Verb::Patch(PatchKind::Apply) {
            self.note_update(now, info, old, new, request.options.manager(), request.subresource.as_deref());
        }
        Ok(())
    }

    /// Checks a changed object; the status split is done.
    pub(super) fn admit_changed(
        &mut self,
        now: Timestamp,
        info: &ResourceInfo,
        old: &Value,
        new: &mut Value,
        request: &Request,
    ) -> Result<(), Status> {
        let status_only = request.subresource.is_some();
        builtin::carry_over(info, old, new);
        let mut errors = if info.custom {
            custom::check_changed(info, old, new, status_only)
        } else {
            order::check_changed(info, old, new, status_only)
        };
        if !status_only {
            if info.storage == definitions::storage() {
                definitions::complete(new, now);
            }
            if info.is("", "services") && services::wants_address(new) {
                self.allocate_address(new, &mut errors);
            }
        }
        refuse_if(info, object::name(old), &errors)?;
        if info.custom && !status_only {
            self.warnings.extend(metadata::finalizer_warnings(Some(old), new));
        }
        if info.is("", "persistentvolumeclaims") && !status_only {
            self.check_expansion(old, new)?;
        }
        Ok(())
    }

    /// Tells who wrote what, where that is kept.
    fn note_update(
        &self,
        now: Timestamp,
        info: &ResourceInfo,
        live: &Value,
        new: &mut Value,
        manager: &str,
        subresource: Option<&str>,
    ) {
        if self.tracks_managers {
            managed::update(info, live, new, &Manager::updating(info, manager, subresource), now);
        }
    }

    fn allocate_address(&self, service: &mut Value, errors: &mut Vec<FieldError>) {
        if service["spec"]["type"] == "ExternalName" {
            return;
        }
        let key = StorageKey { group: String::new(), plural: "services".into() };
        let address = |s: &Value| s["spec"]["clusterIP"].as_str().map(str::to_owned);
        let taken: BTreeSet<String> = self.store.list(&key, None).filter_map(|s| address(s)).collect();
        match address(service).filter(|a| !a.is_empty()) {
            None => match self.service_network.allocate(&taken) {
                Some(free) => services::set_address(service, &free),
                None => {
                    let detail = "failed to allocate IP: range is full";
                    errors.push(FieldError::invalid("spec.clusterIPs", json!([]), detail));
                }
            },
            Some(asked) if asked == "None" => services::set_address(service, "None"),
            Some(asked) if !self.service_network.contains(&asked) => {
                let detail = "failed to allocate IP: the provided network does not match the service network";
                errors.push(FieldError::invalid("spec.clusterIPs", json!([asked]), detail));
            }
            Some(asked) if taken.contains(&asked) => {
                let detail = format!("failed to allocate IP {asked}: provided IP is already allocated");
                errors.push(FieldError::invalid("spec.clusterIPs", json!([asked]), detail));
            }
            Some(asked) => services::set_address(service, &asked),
        }
    }

    fn classes(&self) -> Vec<std::sync::Arc<Value>> {
        let key = StorageKey { group: "storage.k8s.io".into(), plural: "storageclasses".into() };
        self.store.list(&key, None).cloned().collect()
    }

    /// A claim that names no class gets the default one, if there is one.
    fn choose_class(&self, claim: &mut Value) {
        if claim["spec"].get("storageClassName").is_some_and(|c| !c.is_null()) {
            return;
        }
        let default = "storageclass.kubernetes.io/is-default-class";
        if let Some(class) = self.classes().iter().find(|c| object::annotation(c, default) == Some("true")) {
            claim["spec"]["storageClassName"] = json!(object::name(class));
        }
    }

    /// A claim grows only where its class can grow it.
    fn check_expansion(&self, old: &Value, new: &Value) -> Result<(), Status> {
        let size = |v: &Value| v["spec"]["resources"]["requests"]["storage"].clone();
        if size(old) == size(new) {
            return Ok(());
        }
        let class = old["spec"]["storageClassName"].as_str().unwrap_or_default();
        let can = self.classes().iter().any(|c| object::name(c) == class && c["allowVolumeExpansion"] == true);
        if can {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(Status::forbidden("", "persistentvolumeclaims", object::name(old), why))
    }
}
