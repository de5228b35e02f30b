//! What happens to an object between decoding and the commit: defaults, allocation, and every check.
use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::builtin::{self, services};
use super::managed::{self, Manager};
use super::resource::{ResourceInfo, StorageKey};
use super::types::decode::{self, Mistake};
use super::types::{Record, Types};
use super::write::refuse_if;
use super::{
    FieldError, FieldErrorKind, FieldValidation, Options, PatchKind, Request, Server, Status, Verb, apply, definitions,
    metadata, object, schema,
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
        self.prune(info, object, options)?;
        builtin::default_object(info, object);
        complete(info, object);
        match self.applied.take() {
            Some(managers) => managers.write_to(object),
            None => self.note_update(now, info, &apply::blank(info), object, options.manager(), None),
        }
        builtin::begin(info, object, self.service_accounts);
        complete(info, object);
        let mut errors = metadata::validate(info, object);
        errors.extend(check_schema(info, object, None));
        errors.extend(builtin::validate(info, object));
        if info.storage == definitions::storage() {
            errors.extend(definitions::validate(object));
            definitions::complete(object, now);
            object::meta_mut(object).insert("finalizers".into(), json!([definitions::CLEANUP]));
        }
        if info.is("", "services") {
            self.allocate_address(object, &mut errors);
        }
        if info.is("", "persistentvolumeclaims") {
            self.choose_class(object);
        }
        refuse_if(info, object::name(object), &errors)
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
        self.prune(info, new, &request.options)?;
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
        let mut errors = metadata::validate(info, new);
        errors.extend(metadata::validate_update(old, new));
        errors.extend(check_schema(info, new, Some(old)));
        if !status_only {
            errors.extend(builtin::validate(info, new));
            errors.extend(builtin::validate_update(info, old, new));
            if info.storage == definitions::storage() {
                errors.extend(definitions::validate(new));
                definitions::complete(new, now);
            }
            if info.is("", "services") && services::wants_address(new) {
                self.allocate_address(new, &mut errors);
            }
        }
        refuse_if(info, object::name(old), &errors)?;
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

    /// Drops what the schema or the type does not know, and says so as the request wants it said.
    fn prune(&mut self, info: &ResourceInfo, object: &mut Value, options: &Options) -> Result<(), Status> {
        let unknown = match (&info.schema, record(info)) {
            (Some(schema), _) => schema::prune(schema, object),
            (None, Some(record)) => {
                let mut unknown = Vec::new();
                let refused = |Mistake(why)| {
                    let (kind, version) = (&info.kind, &info.name.version);
                    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
                };
                decode::read(record, object, &mut unknown).map_err(refused)?;
                unknown
            }
            (None, None) => return Ok(()),
        };
        let unknown: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
        match options.field_validation {
            FieldValidation::Strict if !unknown.is_empty() => {
                return Err(Status::bad_request(format!(
                    "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
                    info.name.version,
                    unknown.join(", "),
                    kind = info.kind
                )));
            }
            FieldValidation::Warn => self.warnings.extend(unknown),
            FieldValidation::Strict | FieldValidation::Ignore => {}
        }
        if let Some(schema) = &info.schema {
            schema::default(schema, object);
        }
        Ok(())
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

/// The schema's verdict. CEL rules run only over what has the right shape.
fn check_schema(info: &ResourceInfo, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let Some(schema) = &info.schema else { return Vec::new() };
    let mut errors = Vec::new();
    schema::validate(schema, new, old, "", &mut errors);
    let blocks = |e: &FieldError| {
        use FieldErrorKind::{Required, TooLong, TooMany, TypeInvalid};
        matches!(e.kind, Required | TooLong | TooMany | TypeInvalid)
    };
    if !errors.iter().any(blocks) {
        errors.extend(schema::rules::run(schema, new, old));
    } else if schema.has_rules {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid("<nil>", Value::Null, detail));
    }
    errors
}
