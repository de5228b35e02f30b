//! The Kubernetes API, as far as the operator uses it: plain verbs with preconditions (docs/adr: plain verbs).
//!
//! Deadline of every call but `watch`: 10 seconds ([`CALL_DEADLINE`]).

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::sync::Arc;

use super::object::{Kind, Object, ObjectKey, Typed};

/// No call takes longer.
pub const CALL_DEADLINE: SignedDuration = SignedDuration::from_secs(10);

/// Which objects a list or a watch is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All namespaces.
    Cluster,
    /// One namespace.
    Namespace(String),
}

/// What must still be true of an object when it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preconditions {
    /// Always: a new object of the same name is never hit.
    pub uid: String,
    /// Where the decision depended on more than the object's existence.
    pub resource_version: Option<String>,
}

/// Why a call failed. What decides is the variant; the message is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubernetesError {
    /// 404: there is no such object (or no such kind).
    #[error("not found: {message}")]
    NotFound {
        /// The server's words.
        message: String,
    },
    /// 409 AlreadyExists on a create.
    #[error("already exists: {message}")]
    AlreadyExists {
        /// The server's words.
        message: String,
    },
    /// 409 Conflict: a precondition (resourceVersion or uid) did not hold. Nothing was written.
    #[error("conflict: {message}")]
    Conflict {
        /// The server's words.
        message: String,
    },
    /// 400 or 422: the object is not acceptable, and will not be at the next try either.
    #[error("rejected: {message}")]
    Invalid {
        /// The server's words.
        message: String,
    },
    /// 401 or 403: not allowed (RBAC, admission, quota, a namespace that is being deleted).
    #[error("forbidden: {message}")]
    Forbidden {
        /// The server's words.
        message: String,
    },
    /// 410: the version asked for is gone; list again.
    #[error("expired: {message}")]
    Expired {
        /// The server's words.
        message: String,
    },
    /// Certainly not carried out: 429, 503 before the request was taken, connection refused. Try later.
    #[error("not available: {message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// What the server asked for (Retry-After).
        retry_after: Option<SignedDuration>,
    },
    /// Sent, and no reply, or a reply that does not tell (5xx, reset, time-out): it may have been carried out. Read before anything else.
    #[error("no answer, it may have been carried out: {message}")]
    Ambiguous {
        /// What happened.
        message: String,
    },
    /// The lease is no longer ours, or not for long enough: nothing was sent.
    #[error("lease lost, nothing was sent")]
    LeaseLost,
}

/// One change seen by a watch. After a gap the whole state comes as `Relisted`.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// The complete state: what is not in it does not exist (at the version of the list, which may be old).
    Relisted(Vec<Object>),
    /// Created or changed.
    Applied(Object),
    /// Gone; the last state that was seen.
    Deleted(Object),
    /// Listed, created or changed, and nothing that this version can read: the others of its kind come all the same.
    Unreadable {
        /// Its metadata.
        meta: Box<ObjectMeta>,
        /// What is wrong with it.
        why: String,
    },
    /// The watch is interrupted and will come back by itself, beginning with `Relisted` when continuity was lost.
    Interrupted(KubernetesError),
}

/// The Kubernetes API.
#[async_trait]
pub trait Kubernetes: Send + Sync {
    /// A quorum read of one object; none when it does not exist.
    async fn get(&self, kind: Kind, key: &ObjectKey) -> Result<Option<Object>, KubernetesError>;

    /// A quorum read of all objects of a kind, by label selector (`a=b,c=d`). What cannot be read of our own kinds is left out,
    /// as nobody acts on it, and the watch tells of it; of any other kind it fails the whole list: nothing is concluded from
    /// half of the pods or volumes of a cluster.
    async fn list(&self, kind: Kind, scope: &Scope, selector: Option<&str>) -> Result<Vec<Object>, KubernetesError>;

    /// Creates; the answer is the object as stored.
    async fn create(&self, object: &Object) -> Result<Object, KubernetesError>;

    /// Replaces; the object carries the resourceVersion that it was made from.
    async fn replace(&self, object: &Object) -> Result<Object, KubernetesError>;

    /// Replaces the status alone, likewise.
    async fn replace_status(&self, object: &Object) -> Result<Object, KubernetesError>;

    /// JSON merge patch; it carries `metadata.resourceVersion` (and `metadata.uid` where it matters).
    async fn merge_patch(&self, kind: Kind, key: &ObjectKey, patch: &Value) -> Result<Object, KubernetesError>;

    /// Deletes in the background; `grace_seconds` overrides the pod's own grace period.
    async fn delete(
        &self,
        kind: Kind,
        key: &ObjectKey,
        preconditions: &Preconditions,
        grace_seconds: Option<i64>,
    ) -> Result<(), KubernetesError>;

    /// All objects of a kind, then their changes, for ever. Never ends; goes on by itself after an interruption.
    fn watch(&self, kind: Kind, scope: &Scope) -> BoxStream<'static, WatchEvent>;
}

impl dyn Kubernetes + '_ {
    /// [`Kubernetes::get`] with the Rust type.
    pub async fn get_typed<K: Typed>(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, KubernetesError> {
        Ok(self.get(K::KIND, key).await?.and_then(|object| object.typed()))
    }

    /// [`Kubernetes::list`] with the Rust type.
    pub async fn list_typed<K: Typed>(
        &self,
        scope: &Scope,
        selector: Option<&str>,
    ) -> Result<Vec<Arc<K>>, KubernetesError> {
        Ok(self.list(K::KIND, scope, selector).await?.iter().filter_map(Object::typed).collect())
    }
}
