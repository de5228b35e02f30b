//! What is new in the status of an EtcdBackup, as events. Pure.
//!
//! A transition is told when it happens and not again while it lasts: a store that refuses every attempt for a day is
//! one event, and the attempts are counted in status.

use crate::api::conditions::reason::{
    BackupReadyReason as Ready, BackupReconcilingReason as Doing, BackupSucceededReason as Why,
};
use crate::api::conditions::{BackupCondition, Condition, ConditionKind, ConditionStatus, find, turned};
use crate::api::{BackupPhase, EtcdBackupStatus};
use crate::recorder::News;

use super::standing::Stop;

const SUCCEEDED: &str = "BackupSucceeded";

/// From one status to the next.
pub fn news(before: &EtcdBackupStatus, after: &EtcdBackupStatus) -> Vec<News> {
    let Some(outcome) = find(&after.conditions, SUCCEEDED) else { return Vec::new() };
    let is_new = |record: &&crate::api::BackupRecord| {
        before.records.iter().all(|known| (&known.key, &known.time) != (&record.key, &record.time))
    };
    if after.records.last().is_some_and(|record| is_new(&record)) {
        let after_failures = match before.attempts {
            0 => String::new(),
            1 => ", after a failed attempt".to_owned(),
            attempts => format!(", after {attempts} failed attempts"),
        };
        return vec![News::normal(SUCCEEDED, format!("{}{after_failures}", outcome.message))];
    }
    if outcome.status == ConditionStatus::False && turned(&before.conditions, &after.conditions, SUCCEEDED) {
        // That a run was interrupted says nothing of what holds the next one up.
        let interrupted = BackupCondition::BackupSucceeded(Why::Interrupted).reason() == outcome.reason;
        let also = if interrupted { waiting(before, after) } else { None };
        return [unsuccessful(outcome)].into_iter().chain(also).collect();
    }
    gone(before, after).or_else(|| waiting(before, after)).into_iter().collect()
}

/// A one-shot backup is no longer in the store.
fn gone(before: &EtcdBackupStatus, after: &EtcdBackupStatus) -> Option<News> {
    let ready = find(&after.conditions, "Ready")?;
    let is_gone = ready.reason == BackupCondition::Ready(Ready::Gone).reason();
    let is_new = find(&before.conditions, "Ready").is_none_or(|before| before.reason != ready.reason);
    (is_gone && is_new).then(|| News::warning("BackupGone", &ready.message))
}

/// There is no backup, for a reason that is new.
fn unsuccessful(outcome: &Condition) -> News {
    let is = |why: Why| BackupCondition::BackupSucceeded(why).reason() == outcome.reason;
    let message = &outcome.message;
    if is(Why::InvalidSpec) {
        News::warning("InvalidSpec", message)
    } else if is(Why::SecretMissing) {
        News::warning("WaitingForSecret", message)
    } else if is(Why::SecretInvalid) {
        News::warning("SecretInvalid", message)
    } else if is(Why::FailedBefore) {
        News::warning("BackupFailed", message)
    } else if is(Why::Interrupted) {
        News::normal("BackupRetried", message)
    } else {
        News::warning("BackupFailed", format!("{message}; it is tried again"))
    }
}

/// Something is waited for that was not waited for before.
fn waiting(before: &EtcdBackupStatus, after: &EtcdBackupStatus) -> Option<News> {
    let says = |status: &EtcdBackupStatus| find(&status.conditions, "Ready").map(|ready| ready.message.clone());
    let message = says(after).filter(|message| !message.is_empty() && says(before).as_ref() != Some(message))?;
    if after.phase != Some(BackupPhase::Pending) {
        return None;
    }
    let legacy = find(&after.conditions, "Stalled").is_some_and(|stalled| stalled.status == ConditionStatus::True);
    let for_restore = BackupCondition::Reconciling(Doing::WaitingForRestore).reason();
    let doing = find(&after.conditions, "Reconciling").map(|doing| doing.reason.as_str());
    let reason = match doing {
        _ if legacy => "WaitingForLegacyOperator",
        Some(doing) if doing == for_restore => "WaitingForRestore",
        _ => "WaitingForSecret",
    };
    Some(News::warning(reason, message))
}

/// A run was called off, and left nothing.
pub fn called_off(stop: Stop) -> News {
    News::normal("BackupCalledOff", stop.to_string())
}

/// Retention has removed these from the store.
pub fn deleted(keys: &[String]) -> Option<News> {
    let message = match keys {
        [] => return None,
        [key] => format!("`{key}` was removed from the store: `maxBackups` are newer"),
        [key, ..] => format!("`{key}` and {} more were removed from the store: `maxBackups` are newer", keys.len() - 1),
    };
    Some(News::normal("OldBackupsDeleted", message))
}
