//! The API server: objects, rules, history. Sans-IO: a request goes in, an answer comes out, time is an argument.
//!
//! The same sequence of requests under the same seed gives the same bytes. Everything that changes an object goes
//! through [`Server::handle`]; every change is one commit with the next resourceVersion, and watchers read the commits.
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

mod admission;
mod apply;
mod binding;
mod builtin;
mod custom;
mod decode;
mod definitions;
mod delete;
mod events;
mod fields;
mod json_path;
mod label_selector;
mod managed;
mod metadata;
mod names;
pub mod object;
mod patch;
mod pod_priority;
mod quantities;
mod read;
mod request;
mod resource;
mod schema;
mod selector;
mod service_addresses;
mod status;
mod store;
mod strategic;
mod subresources;
pub mod table;
mod types;
mod watch;
mod write;

pub use builtin::services::ServiceNetwork;
pub use request::{FieldValidation, Options, PatchKind, Preconditions, Propagation, Request, ResourceName, Verb};
pub use resource::{Column, ResourceInfo, ScalePaths};
pub use selector::label_selector_matches;
pub use status::{Cause, Details, FieldError, FieldErrorKind, Reason, Status};
pub use watch::{WatchCursor, WatchEvent, WatchRequest};

use names::Names;
use resource::Registry;
use store::Store;

/// Admission plug-ins that only make sense where something else does its part. All others of a real server are always on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Gives a service account to each pod (ServiceAccount).
    pub service_accounts: bool,
    /// Taints new nodes until somebody says that they are ready (TaintNodesByCondition).
    pub node_taints: bool,
}

impl Default for Admission {
    /// Pods have accounts. Nobody takes taints off nodes, so none gets any.
    fn default() -> Self {
        Self { service_accounts: true, node_taints: false }
    }
}

/// A whole API server with its data. A clone is cheap: objects are shared until they are changed.
#[derive(Debug, Clone)]
pub struct Server {
    registry: Registry,
    store: Store,
    names: Names,
    warnings: Vec<String>,
    service_network: ServiceNetwork,
    admission: Admission,
    tracks_managers: bool,
    /// The last request made an object that was not there.
    created: bool,
    /// Where the search for the next free cluster address begins.
    last_address: u32,
    /// The same for ports on the nodes.
    last_node_port: i64,
    /// Who manages the object that is about to be changed has been written into it.
    managers_noted: bool,
    /// The managers of the object that an apply is about to create.
    applied: Option<managed::Managers>,
}

impl Server {
    /// A server with the built-in kinds and the namespaces `default` and `kube-system`. Uids and generated names come
    /// from the seed.
    pub fn new(seed: u64) -> Self {
        let mut server = Self {
            registry: Registry::with_builtins(),
            store: Store::default(),
            names: Names::new(seed),
            warnings: Vec::new(),
            service_network: ServiceNetwork::default(),
            admission: Admission::default(),
            tracks_managers: false,
            created: false,
            managers_noted: false,
            last_address: 0,
            last_node_port: 0,
            applied: None,
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let body = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let request = Request::create(ResourceName::core("namespaces"), "", body);
            server.handle(Timestamp::UNIX_EPOCH, &request).expect("the first namespaces are valid");
        }
        server
    }

    /// Answers every verb but watch. A list answers with the List object, a delete with the object or a Status.
    pub fn handle(&mut self, now: Timestamp, request: &Request) -> Result<Value, Status> {
        self.warnings.clear();
        self.created = false;
        self.managers_noted = false;
        self.applied = None;
        let info = self.registry.find(&request.resource).ok_or_else(Status::no_such_path)?.clone();
        if let Some(answer) = self.subresource(now, &info, request) {
            return answer;
        }
        match request.verb {
            Verb::Get => self.get(&info, request),
            Verb::List => self.list(&info, request),
            Verb::Create => self.create(now, &info, request),
            Verb::Replace => self.replace(now, &info, request),
            Verb::Patch(kind) => self.patch(now, &info, request, kind),
            Verb::Delete => self.delete(now, &info, request),
            Verb::DeleteCollection => self.delete_collection(now, &info, request),
        }
    }

    /// Where cluster addresses of Services come from; 10.96.0.0/16 unless set.
    pub fn set_service_network(&mut self, network: ServiceNetwork) {
        self.service_network = network;
    }

    /// Which admission plug-ins are on.
    pub fn set_admission(&mut self, admission: Admission) {
        self.admission = admission;
    }

    /// Whether `metadata.managedFields` tells who updated which fields, as in a real server. It is off: whoever does not
    /// mix updates with server-side apply sees no difference, and needs half the memory. Applying is always told.
    pub fn track_managers(&mut self, on: bool) {
        self.tracks_managers = on;
    }

    /// Whether the last request made an object that was not there, as a replace and an apply may: HTTP 201.
    pub fn created(&self) -> bool {
        self.created
    }

    /// The warnings that the last request earned: HTTP 299 headers.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The version of the last commit.
    pub fn resource_version(&self) -> u64 {
        self.store.version()
    }

    /// Forgets all but the newest `keep` commits; watchers further behind get 410.
    pub fn compact(&mut self, keep: usize) {
        self.store.compact(keep);
    }

    /// What the server knows of a resource.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&ResourceInfo> {
        self.registry.find(&ResourceName::new(group, version, plural)).map(Arc::as_ref)
    }

    /// Changes whenever [`Server::resources`] does.
    pub fn resources_generation(&self) -> u64 {
        self.registry.generation
    }

    /// Every resource that is served.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceInfo> {
        self.registry.all().map(Arc::as_ref)
    }

    /// An object as it is stored, without a copy: for those in the same process that only look.
    pub fn peek(&self, resource: &ResourceName, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let info = self.registry.find(resource)?;
        self.store.get(&info.storage, namespace, name).map(|o| self.shown(info, o))
    }

    /// All objects of a resource, in order of namespace and name, without copies.
    pub fn peek_all(&self, resource: &ResourceName, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let Some(info) = self.registry.find(resource) else { return Vec::new() };
        self.store.list(&info.storage, namespace).map(|o| self.shown(info, o)).collect()
    }

    /// The one way to write: what follows from certain objects follows here.
    fn put(&mut self, key: &resource::StorageKey, object: Value) -> Arc<Value> {
        let stored = self.store.put(key, object);
        if *key == definitions::storage() {
            self.serve_definition(&stored);
        }
        stored
    }

    /// The one way to remove.
    fn remove(
        &mut self,
        now: Timestamp,
        key: &resource::StorageKey,
        namespace: &str,
        name: &str,
        last: Option<Value>,
    ) -> Option<Arc<Value>> {
        let gone = self.store.remove(key, namespace, name, last)?;
        if key.group.is_empty() && key.plural == "services" {
            self.release_service(now, namespace, name);
        }
        if *key == definitions::storage() {
            self.withdraw_definition(&gone);
        } else if key.group.contains('.') {
            self.clean_definition(now, &format!("{}.{}", key.plural, key.group));
        }
        Some(gone)
    }

    /// The stored object as this version of its resource shows it.
    fn shown(&self, info: &ResourceInfo, object: &Arc<Value>) -> Arc<Value> {
        let wanted = info.api_version();
        if object["apiVersion"] == wanted.as_str() {
            return object.clone();
        }
        let mut other = Value::clone(object);
        if info.is("events.k8s.io", "events") {
            events::to_new(&mut other);
        }
        other["apiVersion"] = Value::String(wanted);
        Arc::new(other)
    }
}
