//! What is new in the status of an EtcdRestore, as an event. Pure; a transition is told once.

use crate::api::conditions::reason::{RestoreReconcilingReason as Doing, RestoreSucceededReason as Why};
use crate::api::conditions::{Condition, ConditionKind, ConditionStatus, RestoreCondition, find, turned};
use crate::api::{EtcdRestoreStatus, RestoreRunPhase};
use crate::recorder::News;

const SUCCEEDED: &str = "RestoreSucceeded";

/// From one status to the next.
pub fn news(before: &EtcdRestoreStatus, after: &EtcdRestoreStatus) -> Option<News> {
    let outcome = find(&after.conditions, SUCCEEDED)?;
    if turned(&before.conditions, &after.conditions, SUCCEEDED)
        && let Some(news) = of_outcome(outcome)
    {
        return Some(news);
    }
    let doing = find(&after.conditions, "Reconciling")?;
    let is_new = turned(&before.conditions, &after.conditions, "Reconciling") || before.phase != after.phase;
    if is_new { of_phase(after, doing) } else { None }
}

/// How it ended, or what holds it up.
fn of_outcome(outcome: &Condition) -> Option<News> {
    let is = |why: Why| RestoreCondition::RestoreSucceeded(why).reason() == outcome.reason;
    let message = &outcome.message;
    let news = match outcome.status {
        ConditionStatus::True => News::normal(SUCCEEDED, message),
        ConditionStatus::False if is(Why::InvalidSpec) => News::warning("InvalidSpec", message),
        ConditionStatus::False => News::warning("RestoreFailed", message),
        ConditionStatus::Unknown if is(Why::SecretMissing) => News::warning("WaitingForSecret", message),
        ConditionStatus::Unknown if is(Why::SecretInvalid) => News::warning("SecretInvalid", message),
        ConditionStatus::Unknown if is(Why::ClusterMissing) => News::warning("WaitingForCluster", message),
        ConditionStatus::Unknown if is(Why::NotYet) => return None,
        ConditionStatus::Unknown => News::warning("SnapshotUnread", message),
    };
    Some(news)
}

/// How far it is.
fn of_phase(after: &EtcdRestoreStatus, doing: &Condition) -> Option<News> {
    let is = |reason: Doing| RestoreCondition::Reconciling(reason).reason() == doing.reason;
    let news = match after.phase? {
        RestoreRunPhase::Verified if is(Doing::StartingLineage) => News::normal("SnapshotVerified", &doing.message),
        RestoreRunPhase::Restoring if is(Doing::StartingLineage) => News::normal("RestoreStarted", &doing.message),
        RestoreRunPhase::Restoring if is(Doing::Switching) => News::normal("RestoreSwitching", &doing.message),
        _ => return None,
    };
    Some(news)
}
