//! What happens to an object between decoding and the commit: defaults, allocation, and every check.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::builtin;
use super::decode::{prune, undecodable};
use super::managed::{self, Manager};
use super::metadata::time_text;
use super::resource::{ResourceInfo, StorageKey};
use super::types::decode;
use super::types::{Record, Types};
use super::write::refuse_if;
use super::{
    FieldValidation, Options, PatchKind, Request, Server, Status, Verb, apply, custom, definitions, metadata, object,
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

/// Takes away what a built-in kind does not store.
fn trim(info: &ResourceInfo, object: &mut Value) {
    if let Some(record) = record(info).filter(|_| !info.custom) {
        decode::trim(record, object);
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
        if info.is("", "pods") {
            self.admit_priority(object)?;
        }
        builtin::begin(info, object, self.admission, &time_text(now));
        complete(info, object);
        if info.is("", "services") {
            self.allocate_service(object, None, options.dry_run)?;
        }
        if info.is("", "persistentvolumeclaims") {
            self.choose_class(object);
        }
        let errors = if info.custom { custom::check_new(info, object) } else { builtin::check_new(info, object) };
        if info.storage == definitions::storage() {
            definitions::complete(object, now);
            object::meta_mut(object).insert("finalizers".into(), json!([definitions::CLEANUP]));
        }
        refuse_if(info, object::name(object), &errors)?;
        trim(info, object);
        self.check_default_priority(info, object)?;
        match info.custom {
            true => self.warnings.extend(metadata::finalizer_warnings(None, object)),
            false => self.warnings.extend(builtin::warnings(info, object, None)),
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
            let unknown = prune(info, new).map_err(|mistake| undecodable(info, &mistake.text))?;
            if request.options.field_validation == FieldValidation::Warn {
                self.warnings.extend(unknown);
            }
        }
        builtin::default_object(info, new);
        complete(info, new);
        if !self.managers_noted {
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
        if status_only {
            builtin::carry_status(info, old, new, &time_text(now));
        } else if info.is("", "services") {
            self.allocate_service(new, Some(old), request.options.dry_run)?;
            builtin::services::drop_dependents(old, new);
        }
        let errors = if info.custom {
            custom::check_changed(info, old, new, status_only)
        } else {
            builtin::check_changed(info, old, new, status_only)
        };
        if !status_only && info.storage == definitions::storage() {
            definitions::complete(new, now);
        }
        refuse_if(info, object::name(old), &errors)?;
        trim(info, new);
        if !status_only {
            self.check_expansion(info, old, new)?;
            self.check_default_priority(info, new)?;
            match info.custom {
                true => self.warnings.extend(metadata::finalizer_warnings(Some(old), new)),
                false => self.warnings.extend(builtin::warnings(info, new, Some(old))),
            }
        }
        Ok(())
    }

    /// Tells who wrote what, where that is kept.
    pub(super) fn note_update(
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

    fn classes(&self) -> Vec<std::sync::Arc<Value>> {
        let key = StorageKey { group: "storage.k8s.io".into(), plural: "storageclasses".into() };
        self.store.list(&key, None).cloned().collect()
    }

    /// A claim that names no class gets the default one, if there is one: of several the newest.
    fn choose_class(&self, claim: &mut Value) {
        let named = claim["spec"].get("storageClassName").is_some_and(|c| !c.is_null());
        if named || object::annotation(claim, "volume.beta.kubernetes.io/storage-class").is_some() {
            return;
        }
        let marks = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
        let mut defaults = self.classes();
        defaults.retain(|class| marks.iter().any(|mark| object::annotation(class, mark) == Some("true")));
        defaults.sort_by_key(|class| {
            let made = object::meta_str(class, "creationTimestamp").to_owned();
            (std::cmp::Reverse(made), object::name(class).to_owned())
        });
        if let Some(class) = defaults.first() {
            claim["spec"]["storageClassName"] = json!(object::name(class));
        }
    }

    /// A claim grows only when it has a volume, and only where its class can grow it.
    fn check_expansion(&self, info: &ResourceInfo, old: &Value, new: &Value) -> Result<(), Status> {
        let size = builtin::requested;
        if !info.is("", "persistentvolumeclaims") || size(new).compare(size(old)) != std::cmp::Ordering::Greater {
            return Ok(());
        }
        let refuse = |why: &str| Err(Status::forbidden("", info.plural(), object::name(old), why));
        if old["status"]["phase"] != "Bound" {
            return refuse("Only bound persistent volume claims can be expanded");
        }
        let [class, before] = [new, old].map(|claim| claim["spec"]["storageClassName"].as_str().unwrap_or_default());
        let can = self.classes().iter().any(|c| object::name(c) == class && c["allowVolumeExpansion"] == true);
        if can && class == before {
            return Ok(());
        }
        refuse(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        )
    }

    /// One class of priorities at most is the default.
    fn check_default_priority(&self, info: &ResourceInfo, object: &Value) -> Result<(), Status> {
        if !info.is("scheduling.k8s.io", "priorityclasses") || object["globalDefault"] != true {
            return Ok(());
        }
        let name = object::name(object);
        let other = |class: &&std::sync::Arc<Value>| class["globalDefault"] == true && object::name(class) != name;
        match self.store.list(&info.storage, None).find(other) {
            None => Ok(()),
            Some(found) => {
                let taken = object::name(found);
                let why = format!("PriorityClass {taken} is already marked as default. Only one default can exist");
                Err(Status::forbidden(info.group(), info.plural(), name, &why))
            }
        }
    }
}
