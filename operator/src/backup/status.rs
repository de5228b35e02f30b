//! What status says. Pure: the previous status and what happened -> the next one; equal to the previous one when there
//! is nothing new, and then nothing is written.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeSet;

use super::apply::{Found, RunError};
use super::draft::Draft;
use super::observe::Missing;
use super::plan::Waiting;
use super::schedule::{Schedule, due};
use super::standing::Stop;
use super::validate::{Desired, Invalid, sentence};
use crate::api::backup::RECORDS_MAX;
use crate::api::conditions::reason::{
    BackupReadyReason as Ready, BackupReconcilingReason as Reconciling, BackupStalledReason as Stalled,
    BackupSucceededReason as Succeeded,
};
use crate::api::conditions::{BackupCondition, ConditionKind, ConditionStatus, find};
use crate::api::{BackupPhase, BackupRecord, EtcdBackupStatus, FailedEndpoint};

/// A time as the API keeps it: whole seconds.
pub fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).expect("the whole second of a timestamp is one"))
}

impl Draft<EtcdBackupStatus> {
    /// Sets the three summaries; `BackupSucceeded` is left to whom it concerns.
    fn summary(&mut self, phase: BackupPhase, ready: (Ready, bool), reconciling: Reconciling, message: &str) {
        self.status.phase = Some(phase);
        self.set(BackupCondition::Ready(ready.0), ready.1.into(), message);
        let under_way = reconciling != Reconciling::AsWanted;
        self.set(BackupCondition::Reconciling(reconciling), under_way.into(), if under_way { message } else { "" });
        self.set(BackupCondition::Stalled(Stalled::NotStalled), ConditionStatus::False, "");
    }

    /// A run left no result, which is counted like an attempt that failed.
    fn interrupted(&mut self) {
        self.status.attempts = self.status.attempts.saturating_add(1);
        let message = "the operator stopped while the backup ran; it is taken again";
        self.set(BackupCondition::BackupSucceeded(Succeeded::Interrupted), ConditionStatus::False, message);
    }

    /// `BackupSucceeded` of an object that no attempt has ended for yet.
    fn not_yet(&mut self) {
        let failed_before = BackupCondition::BackupSucceeded(Succeeded::FailedBefore).reason();
        let unset = find(&self.status.conditions, "BackupSucceeded")
            .is_none_or(|condition| condition.status == ConditionStatus::Unknown || condition.reason == failed_before);
        if unset {
            self.set(BackupCondition::BackupSucceeded(Succeeded::NotYet), ConditionStatus::Unknown, "");
        }
    }
}

/// Begins a status that holds a run up. The phase, which is about to be overwritten, is the only trace of a run that left
/// no result: without counting it here it would be forgotten, and the next one a whole interval away.
fn held_up(previous: &EtcdBackupStatus, generation: Option<i64>, now: Timestamp) -> Draft<EtcdBackupStatus> {
    let mut draft = Draft::new(previous, generation, now);
    if previous.phase == Some(BackupPhase::Running) {
        draft.interrupted();
    }
    draft
}

/// The spec cannot be used.
pub fn invalid(
    previous: &EtcdBackupStatus,
    generation: Option<i64>,
    faults: &[Invalid],
    now: Timestamp,
) -> EtcdBackupStatus {
    let mut draft = held_up(previous, generation, now);
    let message = sentence(faults);
    draft.status.reason.clone_from(&message);
    draft.status.next_run_time = None;
    draft.summary(BackupPhase::Failed, (Ready::Failed, false), Reconciling::AsWanted, &message);
    draft.set(BackupCondition::BackupSucceeded(Succeeded::InvalidSpec), ConditionStatus::False, &message);
    draft.set(BackupCondition::Stalled(Stalled::InvalidSpec), ConditionStatus::True, &message);
    draft.status
}

/// Something is waited for.
pub fn waiting(
    previous: &EtcdBackupStatus,
    desired: &Desired,
    waiting: &Waiting,
    until: Timestamp,
    now: Timestamp,
) -> EtcdBackupStatus {
    let mut draft = held_up(previous, desired.generation, now);
    let message = waiting.to_string();
    match waiting {
        Waiting::Missing(missing) => {
            let why = match missing.first() {
                Some(Missing::Keys { .. }) => Succeeded::SecretInvalid,
                _ => Succeeded::SecretMissing,
            };
            // Not unless a backup is due: what is in the store stays as good as it is.
            draft.status.reason.clone_from(&message);
            draft.summary(BackupPhase::Pending, (Ready::Waiting, false), Reconciling::Waiting, &message);
            if draft.status.records.is_empty() {
                draft.set(BackupCondition::BackupSucceeded(why), ConditionStatus::False, &message);
            }
        }
        Waiting::LegacyOperator { .. } => {
            draft.summary(BackupPhase::Pending, (Ready::Waiting, false), Reconciling::Waiting, &message);
            draft.set(BackupCondition::Stalled(Stalled::LegacyOperatorAlive), ConditionStatus::True, &message);
            draft.not_yet();
        }
        Waiting::Restored { .. } | Waiting::RestoresUnread { .. } => {
            draft.summary(BackupPhase::Pending, (Ready::Waiting, false), Reconciling::WaitingForRestore, &message);
            draft.not_yet();
        }
        Waiting::Slot => {
            draft.status.next_run_time = Some(seconds(until));
            draft.status.reason.clear();
            draft.summary(BackupPhase::Scheduled, (Ready::Scheduled, true), Reconciling::AsWanted, "");
        }
        Waiting::Retry => {
            draft.status.next_run_time = Some(seconds(until));
            let last = find(&draft.status.conditions, "BackupSucceeded");
            let failed = last.filter(|condition| condition.status == ConditionStatus::False);
            let why = failed.map_or_else(|| draft.status.reason.clone(), |condition| condition.message.clone());
            draft.summary(BackupPhase::Failed, (Ready::Failed, false), Reconciling::RetryScheduled, &why);
        }
    }
    draft.status
}

/// A run begins now. Written before anything is done: a run that leaves no result was interrupted.
pub fn running(previous: &EtcdBackupStatus, desired: &Desired, interrupted: bool, now: Timestamp) -> EtcdBackupStatus {
    let mut draft = Draft::new(previous, desired.generation, now);
    if interrupted {
        draft.interrupted();
    }
    draft.status.last_run_time = Some(seconds(now));
    draft.status.next_run_time = None;
    draft.summary(BackupPhase::Running, (Ready::Running, false), Reconciling::Running, "a backup is being taken");
    draft.not_yet();
    draft.status
}

/// The run was called off and left nothing: what `previous`, the status before it began, says of runs holds again.
pub fn called_off(
    running: &EtcdBackupStatus,
    desired: &Desired,
    previous: &EtcdBackupStatus,
    stop: Stop,
    now: Timestamp,
) -> EtcdBackupStatus {
    let mut draft = Draft::new(running, desired.generation, now);
    draft.status.last_run_time.clone_from(&previous.last_run_time);
    draft.summary(BackupPhase::Pending, (Ready::Waiting, false), Reconciling::Waiting, &stop.to_string());
    draft.status
}

/// The store confirmed the backup.
pub fn succeeded(
    previous: &EtcdBackupStatus,
    desired: &Desired,
    record: BackupRecord,
    failed_endpoints: &[FailedEndpoint],
    note: &str,
    now: Timestamp,
) -> EtcdBackupStatus {
    let mut draft = Draft::new(previous, desired.generation, now);
    let mut message =
        format!("`{}` is complete in the store: revision {}, {} bytes", record.key, record.revision, record.size);
    if !note.is_empty() {
        message = format!("{message}; {note}");
    }
    let status = &mut draft.status;
    status.succeeded = true;
    status.reason.clear();
    status.attempts = 0;
    status.etcd_version.clone_from(&record.etcd_version);
    status.etcd_revision = record.revision;
    status.last_success_date = Some(seconds(now));
    status.failed_endpoints = failed_endpoints.to_vec();
    // A one-shot backup's path was overwritten, as its contract says: what was there before is no more.
    let own = |old: &&mut BackupRecord| old.key == record.key && desired.location.bucket.has(old);
    status.records.iter_mut().filter(own).for_each(|old| old.superseded = true);
    status.records.push(record);
    let surplus = status.records.len().saturating_sub(RECORDS_MAX);
    status.records.drain(..surplus);
    let last_run = status.last_run_time.as_ref().map(|time| time.0);
    let next = due(desired.schedule, last_run, 0, true, now);
    status.next_run_time = next.map(seconds);
    match desired.schedule {
        Schedule::Once => draft.summary(BackupPhase::Succeeded, (Ready::Succeeded, true), Reconciling::AsWanted, ""),
        Schedule::Every(_) => {
            draft.summary(BackupPhase::Scheduled, (Ready::Scheduled, true), Reconciling::AsWanted, "");
        }
    }
    draft.set(BackupCondition::BackupSucceeded(Succeeded::Confirmed), ConditionStatus::True, &message);
    draft.status
}

/// The attempt failed; there will be another.
pub fn failed(
    previous: &EtcdBackupStatus,
    desired: &Desired,
    error: &RunError,
    failed_endpoints: &[FailedEndpoint],
    now: Timestamp,
) -> EtcdBackupStatus {
    let mut draft = Draft::new(previous, desired.generation, now);
    let message = error.to_string();
    let status = &mut draft.status;
    status.succeeded = false;
    status.reason.clone_from(&message);
    status.attempts = status.attempts.saturating_add(1);
    status.failed_endpoints = failed_endpoints.to_vec();
    let last_run = status.last_run_time.as_ref().map(|time| time.0);
    let attempts = u32::try_from(status.attempts).unwrap_or_default();
    status.next_run_time = due(desired.schedule, last_run, attempts, false, now).map(seconds);
    draft.summary(BackupPhase::Failed, (Ready::Failed, false), Reconciling::RetryScheduled, &message);
    draft.set(BackupCondition::BackupSucceeded(error.reason()), ConditionStatus::False, &message);
    draft.status
}

/// Retention chose these recorded backups. Written before the first of them is removed.
pub fn superseded(previous: &EtcdBackupStatus, desired: &Desired, keys: &[String], now: Timestamp) -> EtcdBackupStatus {
    let mut draft = Draft::new(previous, desired.generation, now);
    let chosen = |record: &&mut BackupRecord| keys.contains(&record.key) && desired.location.bucket.has(record);
    draft.status.records.iter_mut().filter(chosen).for_each(|record| record.superseded = true);
    draft.set(
        BackupCondition::Reconciling(Reconciling::RemovingOldBackups),
        ConditionStatus::True,
        "backups above `maxBackups` are being removed",
    );
    draft.status
}

/// Retention is through: these are gone from the store, and this could not be done.
pub fn retained(
    previous: &EtcdBackupStatus,
    desired: &Desired,
    gone: &[String],
    failures: &[String],
    now: Timestamp,
) -> EtcdBackupStatus {
    let mut draft = Draft::new(previous, desired.generation, now);
    let is_gone = |record: &BackupRecord| gone.contains(&record.key) && desired.location.bucket.has(record);
    draft.status.records.retain(|record| !is_gone(record));
    let left = failures.first().map(|first| format!("{} old backups could not be removed: {first}", failures.len()));
    let (reason, message) = match &left {
        Some(message) => (Reconciling::RemovingOldBackups, message.as_str()),
        None if draft.status.attempts > 0 => (Reconciling::RetryScheduled, draft.status.reason.as_str()),
        None => (Reconciling::AsWanted, ""),
    };
    let (under_way, message) = (reason != Reconciling::AsWanted, message.to_owned());
    draft.set(BackupCondition::Reconciling(reason), under_way.into(), &message);
    draft.status
}

/// The one-shot backup failed under the archived operator, and is not taken again by itself.
pub fn failed_before(previous: &EtcdBackupStatus, desired: &Desired, now: Timestamp) -> EtcdBackupStatus {
    let mut draft = Draft::new(previous, desired.generation, now);
    let message = format!("failed under the archived operator, which tried once ({})", draft.status.reason);
    let message = format!("{message}; a change of the spec starts it anew");
    draft.summary(BackupPhase::Failed, (Ready::Failed, false), Reconciling::AsWanted, &message);
    draft.set(BackupCondition::BackupSucceeded(Succeeded::FailedBefore), ConditionStatus::False, &message);
    draft.set(BackupCondition::Stalled(Stalled::FailedBefore), ConditionStatus::True, &message);
    draft.status
}

/// Whether a one-shot backup was taken of other endpoints than the spec names now. Their order does not count.
fn is_of_others(record: &BackupRecord, desired: &Desired) -> bool {
    let set = |endpoints: &[String]| endpoints.iter().cloned().collect::<BTreeSet<_>>();
    !record.etcd_endpoints.is_empty() && set(&record.etcd_endpoints) != set(&desired.endpoints)
}

fn gone(desired: &Desired) -> String {
    format!("the backup was taken; `{}` is no longer in the store", desired.location.key)
}

/// Whether the last look found nothing in the place of a one-shot backup.
fn was_gone(status: &EtcdBackupStatus) -> bool {
    find(&status.conditions, "Ready").is_some_and(|ready| ready.reason == BackupCondition::Ready(Ready::Gone).reason())
}

/// The one-shot backup has been taken, and this is in its place now; none when the store could not be asked, and then what
/// was said before stays.
pub fn done(previous: &EtcdBackupStatus, desired: &Desired, found: Option<Found>, now: Timestamp) -> EtcdBackupStatus {
    let mut draft = Draft::new(previous, desired.generation, now);
    draft.status.next_run_time = None;
    let is_gone = found == Some(Found::Nothing) || found.is_none() && was_gone(previous);
    let mut summary = |ready, message: &str| {
        draft.summary(BackupPhase::Succeeded, ready, Reconciling::AsWanted, message);
    };
    match found {
        Some(Found::Overwritten) => {
            summary((Ready::Succeeded, true), "the backup was taken; another one has overwritten its path since");
            let own = |record: &&mut BackupRecord| desired.location.is_of(record);
            draft.status.records.iter_mut().filter(own).for_each(|record| record.superseded = true);
        }
        // Its record stays: the backup was taken, and is not taken again over what somebody removed.
        Some(Found::Nothing) => summary((Ready::Gone, false), &gone(desired)),
        None if was_gone(previous) => summary((Ready::Gone, false), &gone(desired)),
        Some(Found::AsRecorded) | None => summary((Ready::Succeeded, true), ""),
    }
    let record = draft.status.records.iter().rfind(|record| desired.location.is_of(record));
    if let Some(record) = record.filter(|record| is_of_others(record, desired)) {
        let message = format!(
            "`spec.etcdEndpoints` was changed since `{}` was taken; create another EtcdBackup for what it names now",
            record.key
        );
        let phase = BackupPhase::Succeeded;
        // That it is gone is said whatever else was changed.
        let (ready, message) = if is_gone {
            (Ready::Gone, format!("{}; {message}", gone(desired)))
        } else {
            (Ready::SpecChanged, message)
        };
        draft.summary(phase, (ready, false), Reconciling::AsWanted, &message);
        draft.set(BackupCondition::Stalled(Stalled::SpecChanged), ConditionStatus::True, &message);
    }
    if draft.status.records.is_empty() {
        // Taken by the archived operator, which kept no records; its word is all there is.
        let message = "taken by the archived operator";
        draft.set(BackupCondition::BackupSucceeded(Succeeded::Confirmed), ConditionStatus::True, message);
    }
    draft.status
}
