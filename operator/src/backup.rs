//! EtcdBackup: snapshots of an etcd cluster, once or at intervals, to an object store.
//!
//! One pass: validate -> observe -> plan -> apply -> status. What is remembered is in status alone: a run is written
//! there before it begins (which also fences it: a pass with a stale view fails at that write), and its result after
//! the store confirmed it. A pass may be dropped at any await; the next one finds a run without a result and takes the
//! backup again. Time comes from the Clock port, and nothing is spawned, so that the simulator runs exactly this.
//!
//! `backupPolicy.timeoutInSecond` bounds the time without progress, not the whole backup: a database of any size gets
//! through as long as something moves, and what stands still is noticed as fast as before.

pub mod validate;

pub mod observe;

pub mod plan;
pub mod schedule;

pub mod apply;
pub mod bucket;
pub mod manifest;
pub mod names;
pub mod news;
pub mod resume;
pub mod retention;
pub mod snapshot;
pub mod source;
pub mod standing;
pub mod transfer;
pub mod verify;

pub mod draft;
pub mod status;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::sync::Arc;

use crate::api::backup::LEGACY_FINALIZER;
use crate::api::{BackupPhase, BackupRecord, EtcdBackup, EtcdBackupStatus, EtcdRestore};
use crate::ports::{Fence, Kind, KubernetesError, ObjectKey, Ports, Scope, Typed};
use crate::recorder::{self, About};
use apply::{Found, Needed};
use observe::{Observed, observe};
use plan::{LOOK_AGAIN, LOOK_BACK, Plan, plan};
use schedule::Schedule;
use standing::{Standing, Stop};
use validate::{Desired, validate};

/// How often the result of a run is written before it is left to the next pass, which would take the backup again.
const RESULT_WRITES_MAX: u32 = 6;
/// Pause before it is written again, doubled each time.
const RESULT_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(1);
/// Old backups that could not be removed are tried again after this time.
const REMOVE_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// What a pass needs to know of the process that it runs in.
#[derive(Clone, Debug)]
pub struct BackupContext {
    /// Size of the parts of an upload; smaller in tests and in the simulator.
    pub part_bytes: usize,
    /// Lock of the archived backup (restore) operator that is fresh: it may still act on the same resources.
    pub legacy_alive: Option<String>,
    /// The lease that a long transfer must still have; none where nobody else acts.
    pub fence: Option<Arc<Fence>>,
}

impl Default for BackupContext {
    fn default() -> Self {
        Self { part_bytes: transfer::PART_BYTES, legacy_alive: None, fence: None }
    }
}

/// When to look at the object again, beside any change of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// After this time; none when only a change can matter.
    pub after: Option<SignedDuration>,
}

impl Next {
    /// On change only.
    pub const ON_CHANGE: Self = Self { after: None };

    /// After a time.
    pub fn after(duration: SignedDuration) -> Self {
        Self { after: Some(duration.max(SignedDuration::ZERO)) }
    }

    /// At a moment, as a time from now.
    pub fn at(moment: Timestamp, now: Timestamp) -> Self {
        Self::after(moment.duration_since(now))
    }
}

/// Why a pass ended early. Everything else is in status; the pass is to be repeated with a back-off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// Status could not be written, or the finalizer not removed.
    #[error("writing {key}")]
    Write {
        /// Which object.
        key: ObjectKey,
        /// What happened.
        source: KubernetesError,
    },
    /// Somebody else (an operator that took over) has begun another run: what this one came to does not count.
    #[error("{key}: another run has begun meanwhile")]
    Overtaken {
        /// Which object.
        key: ObjectKey,
    },
    /// The lease was lost while a backup ran, or a snapshot was read: that was called off, and whoever has the lease now
    /// does it again.
    #[error("{key}: the lease was lost; what was under way was called off")]
    LeaseLost {
        /// Which object.
        key: ObjectKey,
    },
}

/// One pass over an EtcdBackup.
///
/// # Errors
/// When status could not be written; nothing was begun, or what was begun is found by the next pass.
pub async fn reconcile(
    ports: &Ports,
    key: &ObjectKey,
    backup: Arc<EtcdBackup>,
    context: &BackupContext,
) -> Result<Next, BackupError> {
    if context.legacy_alive.is_some() && has_legacy_finalizer(&backup) {
        // Whoever put the finalizer there still acts by it, and a lock that ends is no change of this object.
        let next = act(ports, key, backup, context).await?;
        return Ok(Next { after: next.after.into_iter().chain([LOOK_AGAIN]).min() });
    }
    let backup = release(ports, key, backup).await?;
    act(ports, key, backup, context).await
}

/// A pass over an EtcdBackup whose finalizers are settled.
async fn act(
    ports: &Ports,
    key: &ObjectKey,
    backup: Arc<EtcdBackup>,
    context: &BackupContext,
) -> Result<Next, BackupError> {
    let previous = backup.status.clone().unwrap_or_default();
    let now = ports.clock.now();
    let desired = match validate(&backup) {
        Ok(desired) => desired,
        Err(_) if backup.metadata.deletion_timestamp.is_some() => return Ok(Next::ON_CHANGE),
        Err(faults) => {
            let status = status::invalid(&previous, backup.metadata.generation, &faults, now);
            write(ports, key, &backup, status).await?;
            return Ok(Next::ON_CHANGE);
        }
    };
    let observed = observe(ports, &desired).await;
    let pass = Pass { ports, key, context, desired: &desired, observed: &observed, now };
    match plan(&desired, &previous, &observed, context.legacy_alive.as_deref(), now) {
        Plan::Deleting => Ok(Next::ON_CHANGE),
        Plan::Wait { waiting, until } => {
            write(ports, key, &backup, status::waiting(&previous, &desired, &waiting, until, now)).await?;
            Ok(Next::at(until, now))
        }
        Plan::Run { interrupted } => pass.run(&backup, &previous, interrupted).await,
        Plan::Retain => pass.retain(backup).await,
        Plan::FailedBefore => {
            write(ports, key, &backup, status::failed_before(&previous, &desired, now)).await?;
            Ok(Next::ON_CHANGE)
        }
        Plan::Done => pass.look_back(&backup, &previous).await,
    }
}

fn has_legacy_finalizer(backup: &EtcdBackup) -> bool {
    backup.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == LEGACY_FINALIZER)
}

/// Takes the archived operator's finalizer off: nobody is left who would, and ours has none.
async fn release(ports: &Ports, key: &ObjectKey, backup: Arc<EtcdBackup>) -> Result<Arc<EtcdBackup>, BackupError> {
    if !has_legacy_finalizer(&backup) {
        return Ok(backup);
    }
    let finalizers = backup.metadata.finalizers.clone().unwrap_or_default();
    let rest: Vec<_> = finalizers.iter().filter(|finalizer| *finalizer != LEGACY_FINALIZER).collect();
    let patch = json!({ "metadata": {
        "uid": backup.metadata.uid, "resourceVersion": backup.metadata.resource_version, "finalizers": rest,
    }});
    match ports.kubernetes.merge_patch(Kind::EtcdBackup, key, &patch).await {
        Ok(object) => Ok(object.typed().unwrap_or(backup)),
        // It was being deleted, and this was the last thing that held it.
        Err(KubernetesError::NotFound { .. }) => Ok(backup),
        Err(source) => Err(BackupError::Write { key: key.clone(), source }),
    }
}

/// Writes a status where it differs, and tells what is new in it; the object as it is then.
async fn write(
    ports: &Ports,
    key: &ObjectKey,
    backup: &Arc<EtcdBackup>,
    status: EtcdBackupStatus,
) -> Result<Arc<EtcdBackup>, BackupError> {
    let news = news::news(&backup.status.clone().unwrap_or_default(), &status);
    let written = write_silently(ports, key, backup, status).await?;
    tell(ports, key, backup, &news).await;
    Ok(written)
}

async fn tell(ports: &Ports, key: &ObjectKey, backup: &EtcdBackup, news: &[recorder::News]) {
    let uid = backup.metadata.uid.as_deref().unwrap_or_default();
    let about = About { kind: Kind::EtcdBackup, key, uid };
    for news in news {
        recorder::tell(ports, &about, news).await;
    }
}

async fn write_silently(
    ports: &Ports,
    key: &ObjectKey,
    backup: &Arc<EtcdBackup>,
    status: EtcdBackupStatus,
) -> Result<Arc<EtcdBackup>, BackupError> {
    if backup.status.as_ref() == Some(&status) {
        return Ok(backup.clone());
    }
    let mut next = EtcdBackup::clone(backup);
    next.status = Some(status);
    let written = ports.kubernetes.replace_status(&next.into_object()).await;
    let written = written.map_err(|source| BackupError::Write { key: key.clone(), source })?;
    Ok(written.typed().unwrap_or_else(|| backup.clone()))
}

/// What the arms of one pass share.
struct Pass<'a> {
    ports: &'a Ports,
    key: &'a ObjectKey,
    context: &'a BackupContext,
    desired: &'a Desired,
    observed: &'a Observed,
    now: Timestamp,
}

impl Pass<'_> {
    async fn run(
        &self,
        backup: &Arc<EtcdBackup>,
        previous: &EtcdBackupStatus,
        interrupted: bool,
    ) -> Result<Next, BackupError> {
        let status = status::running(previous, self.desired, interrupted, self.now);
        let began = status.last_run_time.as_ref().map_or(self.now, |time| time.0);
        let running = write(self.ports, self.key, backup, status).await?;
        let standing = Standing::new(self.ports, self.context.fence.as_ref(), self.desired, &running);
        let report = apply::run(self.ports, self.desired, self.observed, self.context, began, &standing).await;
        if let Some(stop) = report.outcome.as_ref().err().and_then(apply::RunError::stopped) {
            return self.called_off(&running, previous, stop).await;
        }
        let now = self.ports.clock.now();
        let failed = &report.failed_endpoints;
        let written = match &report.outcome {
            Ok((record, note)) => {
                let make = |status: &_| status::succeeded(status, self.desired, record.clone(), failed, note, now);
                self.write_result(running, &make).await?
            }
            Err(error) => {
                tracing::warn!(backup = %self.key, %error, "backup failed");
                self.write_result(running, &|status: &_| status::failed(status, self.desired, error, failed, now))
                    .await?
            }
        };
        if report.outcome.is_ok() && self.desired.schedule != Schedule::Once {
            return self.retain_after_run(written, now).await;
        }
        Ok(self.next(&written, now))
    }

    /// Retention by what is wanted when the run ends: how many to keep may have been changed while it ran, and what was
    /// removed by an old number does not come back. Any other change is looked at by the next pass, at once.
    async fn retain_after_run(&self, written: Arc<EtcdBackup>, now: Timestamp) -> Result<Next, BackupError> {
        match validate(&written) {
            Ok(wanted) if wanted.deleting || !wanted.is_same_run(self.desired) => Ok(Next::after(SignedDuration::ZERO)),
            Ok(wanted) if wanted.keep > 0 => Pass { desired: &wanted, ..*self }.retain(written).await,
            Ok(_) => Ok(self.next(&written, now)),
            Err(_) => Ok(Next::after(SignedDuration::ZERO)),
        }
    }

    /// A run was called off, and left nothing in the store. It is as if it had not begun: what is wanted now is due when
    /// it would have been.
    async fn called_off(
        &self,
        running: &EtcdBackup,
        previous: &EtcdBackupStatus,
        stop: Stop,
    ) -> Result<Next, BackupError> {
        tracing::info!(backup = %self.key, %stop, "backup called off");
        let next = match stop {
            Stop::LeaseLost => return Err(BackupError::LeaseLost { key: self.key.clone() }),
            Stop::Deleted => return Ok(Next::ON_CHANGE),
            Stop::Deleting => Next::ON_CHANGE,
            Stop::Changed => Next::after(SignedDuration::ZERO),
            Stop::Restored | Stop::RestoresUnread => Next::after(LOOK_AGAIN),
        };
        let current = self.ports.kubernetes.get_typed::<EtcdBackup>(self.key).await;
        let current = current.map_err(|source| BackupError::Write { key: self.key.clone(), source })?;
        let is_ours =
            |now: &Arc<EtcdBackup>| now.metadata.uid == running.metadata.uid && run_of(now) == run_of(running);
        if let Some(current) = current.filter(is_ours) {
            let now = self.ports.clock.now();
            let status = current.status.clone().unwrap_or_default();
            let undone = status::called_off(&status, self.desired, previous, stop, now);
            write_silently(self.ports, self.key, &current, undone).await?;
            tell(self.ports, self.key, &current, &[news::called_off(stop)]).await;
        }
        Ok(next)
    }

    /// When the next run is due, by the status that was just written.
    fn next(&self, backup: &EtcdBackup, now: Timestamp) -> Next {
        let next = backup.status.as_ref().and_then(|status| status.next_run_time.as_ref());
        next.map_or(Next::after(LOOK_BACK), |next| Next::at(next.0, now))
    }

    /// Writes what a run came to. A long transfer outlives edits of its object, so a conflict is answered by reading
    /// again and writing onto what is there, as long as it is still this run that status speaks of.
    async fn write_result(
        &self,
        mut backup: Arc<EtcdBackup>,
        make: &(dyn Fn(&EtcdBackupStatus) -> EtcdBackupStatus + Sync),
    ) -> Result<Arc<EtcdBackup>, BackupError> {
        let (uid, began) = (backup.metadata.uid.clone(), run_of(&backup));
        let result = make(&backup.status.clone().unwrap_or_default());
        // Told once, however often it has to be written.
        let news = news::news(&backup.status.clone().unwrap_or_default(), &result);
        let mut pause = RESULT_AGAIN_AFTER;
        for attempt in 1.. {
            let status = make(&backup.status.clone().unwrap_or_default());
            let error = match write_silently(self.ports, self.key, &backup, status).await {
                Ok(written) => {
                    tell(self.ports, self.key, &written, &news).await;
                    return Ok(written);
                }
                Err(error) => error,
            };
            let BackupError::Write { source, .. } = &error else { return Err(error) };
            use KubernetesError::{Ambiguous, Conflict, Unavailable};
            if attempt >= RESULT_WRITES_MAX
                || !matches!(source, Conflict { .. } | Ambiguous { .. } | Unavailable { .. })
            {
                return Err(error);
            }
            self.ports.clock.sleep(pause).await;
            pause *= 2;
            let Ok(Some(current)) = self.ports.kubernetes.get_typed::<EtcdBackup>(self.key).await else { continue };
            if current.metadata.uid == uid && current.status.as_ref() == Some(&result) {
                tell(self.ports, self.key, &current, &news).await;
                return Ok(current);
            }
            if current.metadata.uid != uid || run_of(&current) != began {
                return Err(BackupError::Overtaken { key: self.key.clone() });
            }
            backup = current;
        }
        unreachable!("the loop returns at its last attempt")
    }

    /// Removes old backups: chosen by looking at the store, marked in status, then removed, then dropped from status.
    async fn retain(&self, backup: Arc<EtcdBackup>) -> Result<Next, BackupError> {
        let previous = backup.status.clone().unwrap_or_default();
        let Ok(credentials) = &self.observed.credentials else { return Ok(Next::after(LOOK_AGAIN)) };
        let bucket = match apply::open(self.ports, self.desired, credentials).await {
            Ok(bucket) => bucket,
            Err(error) => return self.retained(&backup, &[], &[error.to_string()]).await,
        };
        let needed = match self.needed().await {
            Ok(needed) => needed,
            Err(error) => {
                let why = format!("what others need of them could not be read: {error}");
                return self.retained(&backup, &[], &[why]).await;
            }
        };
        let chosen = match apply::choose(&bucket, self.desired, &previous.records, &needed, self.now).await {
            Ok(chosen) => chosen,
            Err(failure) => return self.retained(&backup, &[], &[failure.to_string()]).await,
        };
        let is_here = |record: &&BackupRecord| self.desired.location.bucket.has(record) && !record.superseded;
        let recorded = |key: &String| previous.records.iter().filter(is_here).any(|record| record.key == *key);
        let marks: Vec<_> = chosen.remove.iter().filter(|key| recorded(key)).cloned().collect();
        let mut backup = backup;
        if !marks.is_empty() {
            let now = self.ports.clock.now();
            let marked = status::superseded(&previous, self.desired, &marks, now);
            backup = write(self.ports, self.key, &backup, marked).await?;
        }
        let (mut gone, failures) = apply::remove(&bucket, &chosen.remove, self.context.fence.as_deref()).await;
        tell(self.ports, self.key, &backup, news::deleted(&gone).as_slice()).await;
        gone.extend(chosen.vanished);
        let failures: Vec<_> = failures.iter().map(ToString::to_string).collect();
        self.retained(&backup, &gone, &failures).await
    }

    /// What the EtcdRestores and the other EtcdBackups of the namespace need in this bucket.
    async fn needed(&self) -> Result<Needed, KubernetesError> {
        let scope = Scope::Namespace(self.key.namespace.clone());
        let restores = self.ports.kubernetes.list_typed::<EtcdRestore>(&scope, None).await?;
        let backups = self.ports.kubernetes.list_typed::<EtcdBackup>(&scope, None).await?;
        let bucket = &self.desired.location.bucket.bucket;
        Ok(Needed {
            in_use: retention::in_use(restores.iter().map(|restore| &**restore), bucket),
            of_others: retention::recorded_by_others(backups.iter().map(|backup| &**backup), &self.desired.uid, bucket),
        })
    }

    async fn retained(
        &self,
        backup: &Arc<EtcdBackup>,
        gone: &[String],
        failures: &[String],
    ) -> Result<Next, BackupError> {
        let now = self.ports.clock.now();
        let previous = backup.status.clone().unwrap_or_default();
        let status = status::retained(&previous, self.desired, gone, failures, now);
        let written = write(self.ports, self.key, backup, status).await?;
        let status = written.status.clone().unwrap_or_default();
        if status.next_run_time.is_none() && self.desired.schedule != Schedule::Once {
            // The spec could not be used before this: what comes next has yet to be said. Not at once where this very
            // stage would come again.
            let is_through = failures.is_empty() && !plan::retention_is_due(self.desired, &status);
            return Ok(Next::after(if is_through { SignedDuration::ZERO } else { REMOVE_AGAIN_AFTER }));
        }
        let next = self.next(&written, now);
        let again = (!failures.is_empty()).then_some(REMOVE_AGAIN_AFTER);
        Ok(Next { after: next.after.into_iter().chain(again).min() })
    }

    /// A one-shot backup that was taken: is it still there as its record says?
    async fn look_back(&self, backup: &Arc<EtcdBackup>, previous: &EtcdBackupStatus) -> Result<Next, BackupError> {
        let own = |record: &&BackupRecord| self.desired.location.is_of(record);
        let mut found = None;
        let mut look_again = Next::ON_CHANGE;
        if let Some(record) = previous.records.iter().rfind(own) {
            if record.superseded {
                found = Some(Found::Overwritten);
            } else if let Ok(credentials) = &self.observed.credentials {
                look_again = Next::after(LOOK_BACK);
                if let Ok(bucket) = apply::open(self.ports, self.desired, credentials).await {
                    found = apply::look_back(&bucket, record).await.ok();
                }
            }
        }
        write(self.ports, self.key, backup, status::done(previous, self.desired, found, self.now)).await?;
        Ok(look_again)
    }
}

/// The run that a status speaks of, if it is still under way.
fn run_of(backup: &EtcdBackup) -> Option<Timestamp> {
    let status = backup.status.as_ref()?;
    let running = status.phase == Some(BackupPhase::Running);
    status.last_run_time.as_ref().map(|time| time.0).filter(|_| running)
}

#[cfg(test)]
pub(crate) mod tests;
