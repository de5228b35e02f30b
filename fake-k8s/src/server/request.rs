//! What a caller asks: one value for every verb, with builders for those in the same process.
use serde_json::Value;

use super::{FieldError, Status};

/// Group, version and plural of a resource, as in a URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName {
    /// Empty for the core group.
    pub group: String,
    /// For example `v1`.
    pub version: String,
    /// For example `pods`.
    pub plural: String,
}

impl ResourceName {
    /// From its three words.
    pub fn new(group: impl Into<String>, version: impl Into<String>, plural: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), plural: plural.into() }
    }

    /// A resource of the core group, `v1`.
    pub fn core(plural: impl Into<String>) -> Self {
        Self::new("", "v1", plural)
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Verb {
    Get,
    List,
    Create,
    Replace,
    Patch(PatchKind),
    Delete,
    DeleteCollection,
}

/// How the body of a patch is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, lists merged by key.
    StrategicMerge,
    /// Server-side apply.
    Apply,
}

/// What to do with fields that the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// 400.
    Strict,
    /// Drop and warn: the default of Kubernetes.
    #[default]
    Warn,
    /// Drop.
    Ignore,
}

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They stay, without their owner.
    Orphan,
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
}

impl Propagation {
    /// From its word; 422 where there is no such word.
    pub(crate) fn parse(word: &str) -> Result<Self, Status> {
        match word {
            "Orphan" => Ok(Self::Orphan),
            "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            other => {
                let supported = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
                let error = FieldError::not_supported("propagationPolicy", other, &supported);
                Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &[error]))
            }
        }
    }
}

/// What must be true of an object when it is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its resourceVersion.
    pub resource_version: Option<String>,
}

/// The query parameters and `DeleteOptions` of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// `labelSelector`.
    pub label_selector: Option<String>,
    /// `fieldSelector`.
    pub field_selector: Option<String>,
    /// `limit`: the largest number of items of a list; 0 is none.
    pub limit: usize,
    /// `continue`.
    pub continue_token: Option<String>,
    /// `dryRun=All`: answer as if, change nothing.
    pub dry_run: bool,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// `fieldManager`: who applies.
    pub field_manager: Option<String>,
    /// What the client calls itself: who updates, where `fieldManager` does not say.
    pub user_agent: String,
    /// `force`: take fields from other managers.
    pub force: bool,
    /// `propagationPolicy`.
    pub propagation: Option<Propagation>,
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// Of a delete.
    pub preconditions: Option<Preconditions>,
    /// `resourceVersion` of a get or list.
    pub resource_version: Option<String>,
    /// `resourceVersionMatch=Exact`: exactly that version, not one at least as new.
    pub exact_version: bool,
}

impl Options {
    /// Who it is that updates: `fieldManager`, or the client's name up to its version.
    pub(crate) fn manager(&self) -> &str {
        let own = self.user_agent.split('/').next().unwrap_or_default();
        self.field_manager.as_deref().filter(|name| !name.is_empty()).unwrap_or(own)
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What to do.
    pub verb: Verb,
    /// With which resource.
    pub resource: ResourceName,
    /// In which namespace; a list without one is over all.
    pub namespace: Option<String>,
    /// With which object.
    pub name: Option<String>,
    /// `status`, `scale`, ...
    pub subresource: Option<String>,
    /// The object or the patch.
    pub body: Option<Value>,
    /// The bytes that the body was read from, for complaints about it; those that are no JSON have no body.
    pub raw: Vec<u8>,
    /// Everything else.
    pub options: Options,
}

impl Request {
    /// A request with nothing but its verb.
    pub fn new(verb: Verb, resource: ResourceName) -> Self {
        let (namespace, name, subresource, body) = (None, None, None, None);
        Self { verb, resource, namespace, name, subresource, body, raw: Vec::new(), options: Options::default() }
    }

    /// Reads one object; `namespace` is empty for what lives in none.
    pub fn get(resource: ResourceName, namespace: &str, name: &str) -> Self {
        Self::new(Verb::Get, resource).in_namespace(namespace).named(name)
    }

    /// Reads many; an empty `namespace` means all.
    pub fn list(resource: ResourceName, namespace: &str) -> Self {
        Self::new(Verb::List, resource).in_namespace(namespace)
    }

    /// Creates `body`.
    pub fn create(resource: ResourceName, namespace: &str, body: Value) -> Self {
        Self::new(Verb::Create, resource).in_namespace(namespace).with_body(body)
    }

    /// Replaces an object by `body`, which carries the resourceVersion it was made from.
    pub fn replace(resource: ResourceName, namespace: &str, name: &str, body: Value) -> Self {
        Self::new(Verb::Replace, resource).in_namespace(namespace).named(name).with_body(body)
    }

    /// Replaces the status of an object by that of `body`.
    pub fn replace_status(resource: ResourceName, namespace: &str, name: &str, body: Value) -> Self {
        Self::replace(resource, namespace, name, body).on_subresource("status")
    }

    /// Changes an object by a merge patch (RFC 7386).
    pub fn merge_patch(resource: ResourceName, namespace: &str, name: &str, body: Value) -> Self {
        Self::new(Verb::Patch(PatchKind::Merge), resource).in_namespace(namespace).named(name).with_body(body)
    }

    /// Deletes an object.
    pub fn delete(resource: ResourceName, namespace: &str, name: &str) -> Self {
        Self::new(Verb::Delete, resource).in_namespace(namespace).named(name)
    }

    /// Sets the namespace; an empty one clears it.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        self
    }

    /// Sets the name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the subresource.
    pub fn on_subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Sets the body.
    pub fn with_body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Sets the options.
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Sets the label selector.
    pub fn labelled(mut self, selector: &str) -> Self {
        self.options.label_selector = Some(selector.to_owned());
        self
    }

    /// Sets the field selector.
    pub fn where_field(mut self, selector: &str) -> Self {
        self.options.field_selector = Some(selector.to_owned());
        self
    }

    /// Deletes only the object with this uid.
    pub fn if_uid(mut self, uid: &str) -> Self {
        self.options.preconditions.get_or_insert_default().uid = Some(uid.to_owned());
        self
    }

    /// Deletes only the object at this resourceVersion.
    pub fn if_version(mut self, version: &str) -> Self {
        self.options.preconditions.get_or_insert_default().resource_version = Some(version.to_owned());
        self
    }

    /// Sets the grace period.
    pub fn grace(mut self, seconds: i64) -> Self {
        self.options.grace_period_seconds = Some(seconds);
        self
    }
}
