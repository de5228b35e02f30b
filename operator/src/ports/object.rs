//! The kinds that the operator reads and writes, as one closed set.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Endpoints, Event, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

use crate::api::{EtcdBackup, EtcdCluster, EtcdRestore};

/// Namespace and name. Everything that we touch is namespaced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectKey {
    /// A key.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object with this metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A Rust type of the closed set.
pub trait Typed:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Its kind.
    const KIND: Kind;
    /// Wraps it.
    fn into_object(self) -> Object;
    /// Unwraps it; none when the object is of another kind.
    fn from_object(object: &Object) -> Option<Arc<Self>>;
}

macro_rules! kinds {
    ($($name:ident: $group:literal, $version:literal, $plural:literal;)*) => {
        /// The kinds that the operator reads or writes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $(#[doc = concat!("`", stringify!($name), "`.")] $name,)* }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Kind] = &[$(Kind::$name,)*];
            /// API group, empty for the core group.
            pub const fn group(self) -> &'static str { match self { $(Kind::$name => $group,)* } }
            /// API version.
            pub const fn version(self) -> &'static str { match self { $(Kind::$name => $version,)* } }
            /// The plural that stands in URLs.
            pub const fn plural(self) -> &'static str { match self { $(Kind::$name => $plural,)* } }
            /// `kind` in manifests.
            pub const fn as_str(self) -> &'static str { match self { $(Kind::$name => stringify!($name),)* } }
        }

        /// An object of one of these kinds. Cheap to clone.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Object { $(#[doc = concat!("A `", stringify!($name), "`.")] $name(Arc<$name>),)* }

        impl Object {
            /// Its kind.
            pub fn kind(&self) -> Kind { match self { $(Object::$name(_) => Kind::$name,)* } }
            /// Its metadata.
            pub fn meta(&self) -> &ObjectMeta { match self { $(Object::$name(object) => Resource::meta(object.as_ref()),)* } }
            /// As JSON, with apiVersion and kind.
            pub fn to_json(&self) -> Value {
                let mut json = match self {
                    $(Object::$name(object) => serde_json::to_value(object.as_ref()).expect("API types serialise"),)*
                };
                json["apiVersion"] = Value::String(self.kind().api_version());
                json["kind"] = Value::String(self.kind().as_str().to_owned());
                json
            }
            /// From JSON.
            ///
            /// # Errors
            /// When a field has another type than the kind gives it.
            pub fn from_json(kind: Kind, json: Value) -> Result<Self, serde_json::Error> {
                Ok(match kind { $(Kind::$name => Object::$name(Arc::new(serde_json::from_value(json)?)),)* })
            }
        }

        $(
            impl Typed for $name {
                const KIND: Kind = Kind::$name;
                fn into_object(self) -> Object { Object::$name(Arc::new(self)) }
                fn from_object(object: &Object) -> Option<Arc<Self>> {
                    match object { Object::$name(object) => Some(object.clone()), _ => None }
                }
            }
        )*
    };
}

kinds! {
    EtcdCluster: "etcd.database.coreos.com", "v1beta2", "etcdclusters";
    EtcdBackup: "etcd.database.coreos.com", "v1beta2", "etcdbackups";
    EtcdRestore: "etcd.database.coreos.com", "v1beta2", "etcdrestores";
    Pod: "", "v1", "pods";
    PersistentVolumeClaim: "", "v1", "persistentvolumeclaims";
    Service: "", "v1", "services";
    Secret: "", "v1", "secrets";
    Endpoints: "", "v1", "endpoints";
    Event: "", "v1", "events";
    Lease: "coordination.k8s.io", "v1", "leases";
}

impl Kind {
    /// `group/version`, or `v1` for the core group.
    pub fn api_version(self) -> String {
        if self.group().is_empty() { self.version().to_owned() } else { format!("{}/{}", self.group(), self.version()) }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Object {
    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::of(self.meta())
    }

    /// `metadata.uid`, empty on an object that was not created yet.
    pub fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    /// `metadata.resourceVersion`, empty on an object that was not created yet.
    pub fn resource_version(&self) -> &str {
        self.meta().resource_version.as_deref().unwrap_or_default()
    }

    /// The typed object behind it.
    pub fn typed<K: Typed>(&self) -> Option<Arc<K>> {
        K::from_object(self)
    }
}
