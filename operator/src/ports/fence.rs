//! The fence: ports that send nothing once the lease is not ours, or not for long enough.
//!
//! Reads pass. What race remains: a request that was sent while the lease was ours may be committed after it was lost
//! (by at most the call's deadline); preconditions (resourceVersion, uid, the membership that was planned against) make it safe.

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::SignedDuration;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::etcd::Snapshot;
use super::{
    Clock, Etcd, EtcdAccess, EtcdError, Kind, Kubernetes, KubernetesError, Object, ObjectKey, Ports, Preconditions,
    Scope, WatchEvent,
};
use crate::model::{Alarm, MemberId, MemberStatus, Membership, Revision};

/// An effect is sent only while the lease is ours for at least this long: about what an answered call takes.
pub const MARGIN: SignedDuration = SignedDuration::from_secs(3);

#[derive(Debug, Default)]
struct State {
    /// By `Clock::monotonic`.
    valid_until: Option<SignedDuration>,
    closed: bool,
    settled: bool,
    legacy_lock: Option<String>,
}

/// Whether this process may act, for one controller. Shared between the elector and the fenced ports.
#[derive(Debug, Default)]
pub struct Fence {
    state: Mutex<State>,
}

impl Fence {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held leaves two plain values, which are valid whatever happened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease is ours until then.
    pub fn extend(&self, until: SignedDuration) {
        let mut state = self.state();
        state.valid_until = Some(until);
        state.settled = true;
    }

    /// The lease is not ours.
    pub fn lose(&self) {
        let mut state = self.state();
        state.valid_until = None;
        state.settled = true;
    }

    /// The API server does not let us have the lease, whoever holds it.
    pub fn refuse(&self) {
        self.state().settled = false;
    }

    /// Whether it is known who has the lease: we, or somebody else whom we may follow.
    pub fn is_settled(&self) -> bool {
        self.state().settled
    }

    /// The process is about to end: whatever becomes of the lease, nothing more is sent.
    pub fn close(&self) {
        self.state().closed = true;
    }

    /// Whether an effect may be sent now.
    pub fn is_open(&self, now: SignedDuration) -> bool {
        let state = self.state();
        !state.closed && state.valid_until.is_some_and(|until| now + MARGIN < until)
    }

    /// Tells which lock of the archived operator is fresh, if one is.
    pub fn set_legacy_lock(&self, lock: Option<String>) {
        self.state().legacy_lock = lock;
    }

    /// The lock of the archived operator that is fresh.
    pub fn legacy_lock(&self) -> Option<String> {
        self.state().legacy_lock.clone()
    }
}

/// The same ports behind a fence.
pub fn fenced(ports: &Ports, fence: &Arc<Fence>) -> Ports {
    Ports {
        kubernetes: Arc::new(Fenced {
            inner: ports.kubernetes.clone(),
            clock: ports.clock.clone(),
            fence: fence.clone(),
        }),
        etcd: Arc::new(Fenced { inner: ports.etcd.clone(), clock: ports.clock.clone(), fence: fence.clone() }),
        ..ports.clone()
    }
}

struct Fenced<T: ?Sized> {
    inner: Arc<T>,
    clock: Arc<dyn Clock>,
    fence: Arc<Fence>,
}

impl<T: ?Sized> Fenced<T> {
    fn check<E>(&self, lost: E) -> Result<(), E> {
        if self.fence.is_open(self.clock.monotonic()) { Ok(()) } else { Err(lost) }
    }
}

#[async_trait]
impl Kubernetes for Fenced<dyn Kubernetes> {
    async fn get(&self, kind: Kind, key: &ObjectKey) -> Result<Option<Object>, KubernetesError> {
        self.inner.get(kind, key).await
    }

    async fn list(&self, kind: Kind, scope: &Scope, selector: Option<&str>) -> Result<Vec<Object>, KubernetesError> {
        self.inner.list(kind, scope, selector).await
    }

    async fn create(&self, object: &Object) -> Result<Object, KubernetesError> {
        self.check(KubernetesError::LeaseLost)?;
        self.inner.create(object).await
    }

    async fn replace(&self, object: &Object) -> Result<Object, KubernetesError> {
        self.check(KubernetesError::LeaseLost)?;
        self.inner.replace(object).await
    }

    async fn replace_status(&self, object: &Object) -> Result<Object, KubernetesError> {
        self.check(KubernetesError::LeaseLost)?;
        self.inner.replace_status(object).await
    }

    async fn merge_patch(&self, kind: Kind, key: &ObjectKey, patch: &Value) -> Result<Object, KubernetesError> {
        self.check(KubernetesError::LeaseLost)?;
        self.inner.merge_patch(kind, key, patch).await
    }

    async fn delete(
        &self,
        kind: Kind,
        key: &ObjectKey,
        preconditions: &Preconditions,
        grace_seconds: Option<i64>,
    ) -> Result<(), KubernetesError> {
        self.check(KubernetesError::LeaseLost)?;
        self.inner.delete(kind, key, preconditions, grace_seconds).await
    }

    fn watch(&self, kind: Kind, scope: &Scope) -> BoxStream<'static, WatchEvent> {
        self.inner.watch(kind, scope)
    }
}

#[async_trait]
impl Etcd for Fenced<dyn Etcd> {
    async fn status(&self, access: &EtcdAccess) -> Result<MemberStatus, EtcdError> {
        self.inner.status(access).await
    }

    async fn members(&self, access: &EtcdAccess, linearizable: bool) -> Result<Membership, EtcdError> {
        self.inner.members(access, linearizable).await
    }

    async fn quorum_read(&self, access: &EtcdAccess) -> Result<Revision, EtcdError> {
        self.inner.quorum_read(access).await
    }

    async fn alarms(&self, access: &EtcdAccess) -> Result<Vec<(MemberId, Alarm)>, EtcdError> {
        self.inner.alarms(access).await
    }

    async fn disarm(&self, access: &EtcdAccess, member: MemberId, alarm: Alarm) -> Result<(), EtcdError> {
        self.check(EtcdError::LeaseLost)?;
        self.inner.disarm(access, member, alarm).await
    }

    async fn member_add(&self, access: &EtcdAccess, peer_url: &str, learner: bool) -> Result<MemberId, EtcdError> {
        self.check(EtcdError::LeaseLost)?;
        self.inner.member_add(access, peer_url, learner).await
    }

    async fn member_promote(&self, access: &EtcdAccess, member: MemberId) -> Result<(), EtcdError> {
        self.check(EtcdError::LeaseLost)?;
        self.inner.member_promote(access, member).await
    }

    async fn member_remove(&self, access: &EtcdAccess, member: MemberId) -> Result<(), EtcdError> {
        self.check(EtcdError::LeaseLost)?;
        self.inner.member_remove(access, member).await
    }

    async fn move_leader(&self, access: &EtcdAccess, to: MemberId) -> Result<(), EtcdError> {
        self.check(EtcdError::LeaseLost)?;
        self.inner.move_leader(access, to).await
    }

    async fn hash_kv(&self, access: &EtcdAccess, revision: Revision) -> Result<(u32, Revision), EtcdError> {
        self.inner.hash_kv(access, revision).await
    }

    async fn snapshot(&self, access: &EtcdAccess) -> Result<Snapshot, EtcdError> {
        self.inner.snapshot(access).await
    }
}

#[cfg(test)]
mod tests;
