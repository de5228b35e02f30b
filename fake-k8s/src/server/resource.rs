//! Which resources there are: the built-in kinds, and those that CustomResourceDefinitions add.
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::request::ResourceName;
use super::schema::Schema;
use super::status::Status;

/// Where objects of a resource are kept; all its versions share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StorageKey {
    /// The group.
    pub group: String,
    /// The plural.
    pub plural: String,
}

/// The JSON paths of a scale subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// For example `.spec.replicas`.
    pub spec_replicas: String,
    /// For example `.status.replicas`.
    pub status_replicas: String,
    /// For example `.status.selector`; may be empty.
    pub label_selector: String,
}

/// A column of `kubectl get`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Column {
    /// Its title.
    pub name: String,
    /// string, integer, date, ...
    pub kind: String,
    /// OpenAPI format.
    pub format: String,
    /// For `kubectl explain`-like clients.
    pub description: String,
    /// 0 is always shown; greater only with `-o wide`.
    pub priority: i32,
    /// Where the cell comes from.
    pub json_path: String,
}

/// What the server knows of a resource.
#[derive(Debug, Clone)]
pub struct ResourceInfo {
    /// Group, version, plural.
    pub name: ResourceName,
    /// For example `Pod`.
    pub kind: String,
    /// For example `PodList`.
    pub list_kind: String,
    /// For example `pod`.
    pub singular: String,
    /// Does it live in namespaces?
    pub namespaced: bool,
    /// For example `po`.
    pub short_names: Vec<String>,
    /// For example `all`.
    pub categories: Vec<String>,
    /// Has a status subresource.
    pub status: bool,
    /// Has a scale subresource.
    pub scale: Option<ScalePaths>,
    /// Subresources beside these two.
    pub subresources: Vec<String>,
    /// Printer columns of a custom resource; built-in kinds have their own tables.
    pub columns: Vec<Column>,
    /// Fields beside name and namespace that a field selector may name.
    pub selectable_fields: Vec<String>,
    /// Comes from a CustomResourceDefinition.
    pub custom: bool,
    /// Keeps `metadata.generation`.
    pub generation: bool,
    /// A PUT without resourceVersion is allowed.
    pub unconditional_update: bool,
    /// A PUT of what does not exist creates it.
    pub create_on_update: bool,
    pub(crate) storage: StorageKey,
    pub(crate) schema: Option<Arc<Schema>>,
    /// The OpenAPI schema as its definition has it; null for built-in kinds.
    pub schema_source: Value,
}

impl ResourceInfo {
    /// The `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        match self.name.group.as_str() {
            "" => self.name.version.clone(),
            group => format!("{group}/{}", self.name.version),
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.name.group
    }

    pub(crate) fn plural(&self) -> &str {
        &self.name.plural
    }

    /// Has it this subresource?
    pub fn has_subresource(&self, name: &str) -> bool {
        match name {
            "status" => self.status,
            "scale" => self.scale.is_some(),
            other => self.subresources.iter().any(|known| known == other),
        }
    }

    /// 405: a custom resource says what is not done with it.
    pub(crate) fn no_method(&self, verb: &str) -> Status {
        if self.custom {
            Status::method_not_supported(self.group(), self.plural(), verb)
        } else {
            Status::method_not_allowed()
        }
    }

    /// The key of an object in the store of Kubernetes, which some of its errors name; a trial run has another.
    pub(crate) fn key_of(&self, namespace: &str, name: &str, dry_run: bool) -> String {
        let place = match (self.group(), self.plural()) {
            ("", "services") => "services/specs".to_owned(),
            ("", "endpoints") => "services/endpoints".to_owned(),
            ("", "nodes") => "minions".to_owned(),
            ("events.k8s.io", _) => "events".to_owned(),
            (group, plural) if self.custom || group == "apiextensions.k8s.io" => format!("{group}/{plural}"),
            (_, plural) => plural.to_owned(),
        };
        let root = if dry_run { "" } else { "/registry" };
        let home = if namespace.is_empty() { String::new() } else { format!("/{namespace}") };
        format!("{root}/{place}{home}/{name}")
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.name.group == group && self.name.plural == plural
    }
}

/// All resources, by group, version and plural.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry {
    /// Counts the changes, so that who follows what is served need not compare all of it.
    pub generation: u64,
    groups: BTreeMap<String, BTreeMap<String, BTreeMap<String, Arc<ResourceInfo>>>>,
}

impl Registry {
    pub fn with_builtins() -> Self {
        let mut registry = Self::default();
        for row in BUILTINS {
            registry.insert(row.info());
        }
        registry
    }

    pub fn find(&self, name: &ResourceName) -> Option<&Arc<ResourceInfo>> {
        self.groups.get(&name.group)?.get(&name.version)?.get(&name.plural)
    }

    pub fn insert(&mut self, info: ResourceInfo) {
        self.generation += 1;
        let versions = self.groups.entry(info.name.group.clone()).or_default();
        versions.entry(info.name.version.clone()).or_default().insert(info.name.plural.clone(), Arc::new(info));
    }

    pub fn remove(&mut self, group: &str, plural: &str) {
        self.generation += 1;
        if let Some(versions) = self.groups.get_mut(group) {
            versions.values_mut().for_each(|resources| drop(resources.remove(plural)));
            versions.retain(|_, resources| !resources.is_empty());
        }
        self.groups.retain(|_, versions| !versions.is_empty());
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<ResourceInfo>> {
        self.groups.values().flat_map(|v| v.values()).flat_map(|r| r.values())
    }
}

/// One line of the table of built-in kinds. Flags: n = namespaced, s = status, g = generation, c = a PUT may create,
/// r = a PUT must carry a resourceVersion.
struct Row(&'static str, &'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

impl Row {
    fn info(&self) -> ResourceInfo {
        let Row(group, version, plural, kind, short, categories, flags) = *self;
        let words = |s: &str| s.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let scale = (group == "apps" && kind != "DaemonSet").then(|| ScalePaths {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            label_selector: String::new(),
        });
        let subresources = match plural {
            "pods" => words("binding eviction log"),
            "namespaces" => words("finalize"),
            _ => Vec::new(),
        };
        let storage_group = if group == "events.k8s.io" { "" } else { group };
        ResourceInfo {
            name: ResourceName::new(group, version, plural),
            kind: kind.into(),
            list_kind: format!("{kind}List"),
            singular: kind.to_lowercase(),
            namespaced: flags.contains('n'),
            short_names: words(short),
            categories: words(categories),
            status: flags.contains('s'),
            scale,
            subresources,
            columns: Vec::new(),
            selectable_fields: Vec::new(),
            custom: false,
            generation: flags.contains('g'),
            unconditional_update: !flags.contains('r'),
            create_on_update: flags.contains('c'),
            storage: StorageKey { group: storage_group.into(), plural: plural.into() },
            schema: None,
            schema_source: Value::Null,
        }
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

#[rustfmt::skip]
const BUILTINS: &[Row] = &[
    Row("", "v1", "namespaces", "Namespace", "ns", "", "s"),
    Row("", "v1", "nodes", "Node", "no", "", "s"),
    Row("", "v1", "pods", "Pod", "po", "all", "nsg"),
    Row("", "v1", "services", "Service", "svc", "all", "nsc"),
    Row("", "v1", "endpoints", "Endpoints", "ep", "", "nc"),
    Row("", "v1", "secrets", "Secret", "", "", "n"),
    Row("", "v1", "configmaps", "ConfigMap", "cm", "", "n"),
    Row("", "v1", "serviceaccounts", "ServiceAccount", "sa", "", "n"),
    Row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "", "ns"),
    Row("", "v1", "persistentvolumes", "PersistentVolume", "pv", "", "s"),
    Row("", "v1", "events", "Event", "ev", "", "nc"),
    Row("events.k8s.io", "v1", "events", "Event", "ev", "", "nc"),
    Row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "", "", "ng"),
    Row("storage.k8s.io", "v1", "storageclasses", "StorageClass", "sc", "", ""),
    Row("coordination.k8s.io", "v1", "leases", "Lease", "", "", "ncr"),
    Row("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "", "nsgr"),
    Row("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", "", "g"),
    Row("apps", "v1", "deployments", "Deployment", "deploy", "all", "nsg"),
    Row("apps", "v1", "replicasets", "ReplicaSet", "rs", "all", "nsg"),
    Row("apps", "v1", "statefulsets", "StatefulSet", "sts", "all", "nsg"),
    Row("apps", "v1", "daemonsets", "DaemonSet", "ds", "all", "nsg"),
    Row("batch", "v1", "jobs", "Job", "", "all", "nsg"),
    Row("batch", "v1", "cronjobs", "CronJob", "cj", "all", "nsg"),
    Row(RBAC, "v1", "roles", "Role", "", "", "nc"),
    Row(RBAC, "v1", "rolebindings", "RoleBinding", "", "", "nc"),
    Row(RBAC, "v1", "clusterroles", "ClusterRole", "", "", "c"),
    Row(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", "", "", "c"),
    Row("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "crd crds", "api-extensions", "sgr"),
];
