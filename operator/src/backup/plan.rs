//! What to do about an EtcdBackup now. Pure; status is the only memory.

use jiff::{SignedDuration, Timestamp};
use std::fmt;

use super::names::parse_periodic;
use super::observe::{Missing, Observed};
use super::schedule::{Schedule, due, retry_after};
use super::validate::Desired;
use crate::api::conditions::reason::BackupSucceededReason as Succeeded;
use crate::api::conditions::{BackupCondition, ConditionKind, find};
use crate::api::{BackupPhase, BackupRecord, EtcdBackupStatus};
use crate::ports::KubernetesError;

/// How often something that somebody else has to bring is looked for, beside the watch.
pub const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(15);
/// How often an untouched one-shot backup is asked whether it is still what its record says.
pub const LOOK_BACK: SignedDuration = SignedDuration::from_hours(1);

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Take a backup.
    Run {
        /// A run before this one left no result: the operator stopped while it ran.
        interrupted: bool,
    },
    /// Remove what retention has no place for.
    Retain,
    /// Nothing before this moment.
    Wait {
        /// What for.
        waiting: Waiting,
        /// When to look again.
        until: Timestamp,
    },
    /// A one-shot backup has been taken.
    Done,
    /// The archived operator's only attempt failed.
    FailedBefore,
    /// It is being deleted.
    Deleting,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Secrets.
    Missing(Vec<Missing>),
    /// The archived operator may still act.
    LegacyOperator {
        /// Which lock is fresh.
        lock: String,
    },
    /// What is at the path of a one-shot backup is being restored.
    Restored {
        /// By this EtcdRestore.
        by: String,
    },
    /// Whether it is could not be read.
    RestoresUnread {
        /// Why.
        why: KubernetesError,
    },
    /// The next slot.
    Slot,
    /// The next attempt.
    Retry,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(missing) => {
                let all: Vec<_> = missing.iter().map(Missing::to_string).collect();
                f.write_str(&all.join("; "))
            }
            Self::LegacyOperator { lock } => {
                write!(f, "the archived operator still holds `{lock}`; scale it to 0 before this one may act")
            }
            Self::Restored { by } => {
                write!(f, "waiting for EtcdRestore `{by}` to end: its members fetch what this backup would overwrite")
            }
            Self::RestoresUnread { why } => {
                write!(f, "whether an EtcdRestore needs what this backup would overwrite could not be read: {why}")
            }
            Self::Slot => f.write_str("waiting for the next slot"),
            Self::Retry => f.write_str("waiting to try again"),
        }
    }
}

/// Whether a one-shot backup has been taken: its object is in the records, or the archived operator said so.
pub fn is_done(desired: &Desired, status: &EtcdBackupStatus) -> bool {
    let recorded = status.records.iter().any(|record| desired.location.is_of(record));
    // It kept neither records nor the time of a run; ours always have both.
    let by_the_archived_operator = status.succeeded && status.last_run_time.is_none();
    recorded || by_the_archived_operator
}

/// Whether a one-shot backup failed under the archived operator, for which that was the end: its `path` may hold another
/// backup by now. Neither a phase nor a generation was written by it; ours repeats its word for as long as the spec stays.
fn has_failed_before(desired: &Desired, status: &EtcdBackupStatus) -> bool {
    let by_the_archived_operator = status.phase.is_none() && status.observed_generation.is_none();
    let failed = !status.succeeded && !status.reason.is_empty();
    let why = BackupCondition::BackupSucceeded(Succeeded::FailedBefore);
    let said = find(&status.conditions, why.type_name()).is_some_and(|condition| condition.reason == why.reason());
    (by_the_archived_operator && failed) || (said && status.observed_generation == desired.generation)
}

/// Whether there is something for retention to do, as far as status tells. The store's list is asked after each run.
pub fn retention_is_due(desired: &Desired, status: &EtcdBackupStatus) -> bool {
    if desired.schedule == Schedule::Once {
        return false;
    }
    let location = &desired.location;
    let is_own =
        |record: &&BackupRecord| location.bucket.has(record) && parse_periodic(&location.key, &record.key).is_some();
    let own = || status.records.iter().filter(is_own);
    let kept = own().filter(|record| !record.superseded).count();
    own().any(|record| record.superseded) || (desired.keep > 0 && kept > desired.keep)
}

/// Decides. `legacy` names a lock of the archived backup operator that is fresh.
pub fn plan(
    desired: &Desired,
    status: &EtcdBackupStatus,
    observed: &Observed,
    legacy: Option<&str>,
    now: Timestamp,
) -> Plan {
    let wait = |waiting, pause| Plan::Wait { waiting, until: now.checked_add(pause).unwrap_or(Timestamp::MAX) };
    if desired.deleting {
        return Plan::Deleting;
    }
    // Before anything is waited for: what that writes to status would be taken for a beginning of ours.
    if desired.schedule == Schedule::Once && has_failed_before(desired, status) {
        return Plan::FailedBefore;
    }
    if let Some(lock) = legacy {
        return wait(Waiting::LegacyOperator { lock: lock.to_owned() }, LOOK_AGAIN);
    }
    let attempts = u32::try_from(status.attempts).unwrap_or_default();
    let interrupted = status.phase == Some(BackupPhase::Running);
    let last_run = status.last_run_time.as_ref().map(|time| time.0);
    let done = desired.schedule == Schedule::Once && is_done(desired, status);
    let Some(due) = due(desired.schedule, last_run, attempts, done, now) else { return Plan::Done };
    // A run without a result is repeated at once, but a backup that takes the operator down must not do so in a loop.
    let due = match last_run {
        Some(last_run) if interrupted => due.min(last_run.min(now) + retry_after(attempts + 1)),
        _ => due,
    };
    let missing: Vec<_> =
        [observed.credentials.as_ref().err(), observed.tls.as_ref().err()].into_iter().flatten().cloned().collect();
    if due <= now && missing.is_empty() {
        return match &observed.restored_by {
            Ok(None) => Plan::Run { interrupted },
            Ok(Some(by)) => wait(Waiting::Restored { by: by.clone() }, LOOK_AGAIN),
            Err(why) => wait(Waiting::RestoresUnread { why: why.clone() }, LOOK_AGAIN),
        };
    }
    if !missing.is_empty() {
        return wait(Waiting::Missing(missing), LOOK_AGAIN);
    }
    if retention_is_due(desired, status) && !interrupted {
        return Plan::Retain;
    }
    Plan::Wait { waiting: if attempts > 0 || interrupted { Waiting::Retry } else { Waiting::Slot }, until: due }
}
