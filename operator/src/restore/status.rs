//! What status says. Pure: the previous status and what happened -> the next one; equal to the previous one when there
//! is nothing new, and then nothing is written.

use jiff::Timestamp;

use super::apply::InspectError;
use super::plan::{Progress, Waiting};
use super::validate::Desired;
use crate::api::conditions::reason::{
    RestoreReadyReason as Ready, RestoreReconcilingReason as Reconciling, RestoreStalledReason as Stalled,
    RestoreSucceededReason as Succeeded,
};
use crate::api::conditions::{ConditionStatus, RestoreCondition};
use crate::api::{EtcdRestoreStatus, RestorePhase, RestoreRunPhase, SnapshotRef};
use crate::backup::draft::Draft;
use crate::backup::observe::Missing;
use crate::backup::status::seconds;
use crate::backup::validate::{Invalid, sentence};

impl Draft<EtcdRestoreStatus> {
    /// Under way, or held up: `reason` (the field) says what is waited for.
    fn open(&mut self, phase: RestoreRunPhase, ready: Ready, reconciling: Reconciling, why: Succeeded, message: &str) {
        self.status.phase = Some(phase);
        message.clone_into(&mut self.status.reason);
        self.set(RestoreCondition::Ready(ready), ConditionStatus::False, message);
        self.set(RestoreCondition::Reconciling(reconciling), ConditionStatus::True, message);
        self.set(RestoreCondition::RestoreSucceeded(why), ConditionStatus::Unknown, message);
        self.set(RestoreCondition::Stalled(Stalled::NotStalled), ConditionStatus::False, "");
    }

    /// Given up.
    fn give_up(&mut self, stalled: Stalled, why: Succeeded, message: &str) {
        self.status.phase = Some(RestoreRunPhase::Failed);
        self.status.succeeded = false;
        message.clone_into(&mut self.status.reason);
        self.set(RestoreCondition::Ready(Ready::Failed), ConditionStatus::False, message);
        self.set(RestoreCondition::Reconciling(Reconciling::AsWanted), ConditionStatus::False, "");
        self.set(RestoreCondition::RestoreSucceeded(why), ConditionStatus::False, message);
        self.set(RestoreCondition::Stalled(stalled), ConditionStatus::True, message);
        if self.status.completed_time.is_none() {
            self.status.completed_time = Some(seconds(self.now));
        }
    }
}

/// The spec cannot be used.
pub fn invalid(
    previous: &EtcdRestoreStatus,
    generation: Option<i64>,
    faults: &[Invalid],
    now: Timestamp,
) -> EtcdRestoreStatus {
    let mut draft = Draft::new(previous, generation, now);
    draft.give_up(Stalled::InvalidSpec, Succeeded::InvalidSpec, &sentence(faults));
    draft.status
}

/// What an EtcdRestore's status is made from: the previous one, what is wanted, and when.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// The previous status.
    pub previous: &'a EtcdRestoreStatus,
    /// What is wanted.
    pub desired: &'a Desired,
    /// When.
    pub now: Timestamp,
}

impl Turn<'_> {
    fn draft(&self) -> Draft<EtcdRestoreStatus> {
        Draft::new(self.previous, self.desired.generation, self.now)
    }

    /// For what is said of a snapshot that was verified before: it stays of the generation that it was verified for.
    fn draft_of_verified(&self) -> Draft<EtcdRestoreStatus> {
        let generation = self.previous.snapshot.as_ref().and(self.previous.observed_generation);
        Draft::new(self.previous, generation.or(self.desired.generation), self.now)
    }

    /// The spec was changed since the snapshot was verified.
    fn is_changed_since(&self) -> bool {
        self.previous.snapshot.is_some() && self.previous.observed_generation != self.desired.generation
    }

    /// It failed under the archived operator, and is not tried again by itself.
    pub fn failed_before(&self) -> EtcdRestoreStatus {
        let mut draft = self.draft();
        let message = format!("failed under the archived operator, which tried once ({})", draft.status.reason);
        let message = format!("{message}; a change of the spec starts it anew");
        draft.give_up(Stalled::FailedBefore, Succeeded::FailedBefore, &message);
        // Nobody wrote down when.
        draft.status.completed_time = None;
        draft.status
    }

    /// Something is waited for.
    pub fn waiting(&self, waiting: &Waiting) -> EtcdRestoreStatus {
        let says_nothing = matches!(waiting, Waiting::Unreadable { .. } | Waiting::LegacyOperator { .. });
        let mut draft = if says_nothing { self.draft_of_verified() } else { self.draft() };
        if !says_nothing && self.is_changed_since() {
            draft.status.snapshot = None;
        }
        let why = match waiting {
            Waiting::Cluster { .. } | Waiting::ClusterGoes { .. } => Succeeded::ClusterMissing,
            Waiting::Secret(Missing::Keys { .. }) => Succeeded::SecretInvalid,
            Waiting::Secret(_) | Waiting::OwnSettings { .. } => Succeeded::SecretMissing,
            Waiting::Unreadable { .. } | Waiting::LegacyOperator { .. } => Succeeded::NotYet,
        };
        let message = waiting.to_string();
        // So that an EtcdCluster that is created again is born from the snapshot, and not empty first.
        let phase = match waiting {
            Waiting::Cluster { verified: true, .. } => RestoreRunPhase::Verified,
            // Says nothing about the restore: another phase would call off what the EtcdCluster has begun.
            // Only what is under way: one that has failed is tried again when its spec changes, and would stay ended.
            Waiting::Unreadable { .. } | Waiting::LegacyOperator { .. } => match self.previous.phase {
                Some(phase @ (RestoreRunPhase::Verified | RestoreRunPhase::Restoring)) => phase,
                _ => RestoreRunPhase::Pending,
            },
            _ => RestoreRunPhase::Pending,
        };
        draft.open(phase, Ready::Waiting, Reconciling::Waiting, why, &message);
        if matches!(waiting, Waiting::LegacyOperator { .. }) {
            draft.set(RestoreCondition::Stalled(Stalled::LegacyOperatorAlive), ConditionStatus::True, &message);
        }
        draft.status
    }

    /// The snapshot is going to be read.
    pub fn verifying(&self) -> EtcdRestoreStatus {
        // A store that is tried again keeps saying why, instead of changing its words with every attempt.
        let tried_before = self.previous.phase == Some(RestoreRunPhase::Verifying)
            && self.previous.observed_generation == self.desired.generation;
        let mut draft = self.draft();
        if tried_before {
            return draft.status;
        }
        let changed = draft.status.snapshot.is_some() && !self.is_changed_since();
        draft.status.snapshot = None;
        draft.status.completed_time = None;
        if draft.status.started_time.is_none() {
            draft.status.started_time = Some(seconds(self.now));
        }
        let mut message = format!("reading `{}`; nothing was touched", self.desired.location);
        if changed {
            message.push_str(": members did not find what was verified in the store, and are called off");
        }
        let reconciling = Reconciling::Verifying;
        draft.open(RestoreRunPhase::Verifying, Ready::InProgress, reconciling, Succeeded::NotYet, &message);
        draft.status
    }

    /// The snapshot could not be read, and will be tried again.
    pub fn unread(&self, error: &InspectError) -> EtcdRestoreStatus {
        let mut draft = self.draft();
        let message = format!("{error}; nothing was touched, it is tried again");
        draft.open(RestoreRunPhase::Verifying, Ready::Waiting, Reconciling::Verifying, error.reason(), &message);
        draft.status
    }

    /// The snapshot is nothing to restore from.
    pub fn unusable(&self, error: &InspectError) -> EtcdRestoreStatus {
        let mut draft = self.draft();
        let message = format!("{error}; the EtcdCluster was not touched");
        draft.give_up(Stalled::SnapshotUnusable, error.reason(), &message);
        draft.status
    }

    /// The snapshot is good. From here on the EtcdCluster's plan acts on it.
    pub fn verified(&self, snapshot: SnapshotRef) -> EtcdRestoreStatus {
        let mut draft = self.draft();
        let message = format!("the snapshot of revision {} is good; nothing was touched yet", snapshot.revision);
        draft.status.snapshot = Some(snapshot);
        let reconciling = Reconciling::StartingLineage;
        draft.open(RestoreRunPhase::Verified, Ready::InProgress, reconciling, Succeeded::NotYet, &message);
        draft.status
    }

    /// The EtcdCluster is this far, and says this of itself: what a restore waits for is nearly always what its members do.
    pub fn following(&self, progress: Progress, cluster_says: &str) -> EtcdRestoreStatus {
        let mut draft = self.draft_of_verified();
        let (phase, reconciling, message) = match progress {
            Progress::NotBegun => (
                RestoreRunPhase::Verified,
                Reconciling::StartingLineage,
                "the snapshot is good; waiting for the EtcdCluster to begin",
            ),
            Progress::Other => (
                RestoreRunPhase::Verified,
                Reconciling::Waiting,
                "the snapshot is good; the EtcdCluster is busy with another restore",
            ),
            Progress::Phase(RestorePhase::Starting) => (
                RestoreRunPhase::Restoring,
                Reconciling::StartingLineage,
                "members are being started from the snapshot; the old ones still serve",
            ),
            Progress::Phase(RestorePhase::Confirmed) => (
                RestoreRunPhase::Restoring,
                Reconciling::Switching,
                "the restored members have quorum and the snapshot's revision; the old ones are being stopped",
            ),
            Progress::Phase(RestorePhase::Switched) => (
                RestoreRunPhase::Restoring,
                Reconciling::Switching,
                "the restored members serve; what is left of the old ones is being removed",
            ),
        };
        let mut message = match cluster_says {
            "" => message.to_owned(),
            says => format!("{message}; the EtcdCluster: {says}"),
        };
        if self.is_changed_since() {
            message.push_str("; the spec was changed too late to have an effect");
        }
        draft.open(phase, Ready::InProgress, reconciling, Succeeded::NotYet, &message);
        draft.status
    }

    /// The EtcdCluster serves the data of the snapshot.
    pub fn succeeded(&self) -> EtcdRestoreStatus {
        let mut draft = self.draft_of_verified();
        draft.status.phase = Some(RestoreRunPhase::Succeeded);
        draft.status.succeeded = true;
        draft.status.reason.clear();
        draft.status.completed_time = Some(seconds(self.now));
        let message = match &draft.status.snapshot {
            Some(snapshot) if self.is_changed_since() => format!(
                "the EtcdCluster serves the data of revision {} of `{}`; the spec was changed too late to have an effect: \
                 create another EtcdRestore for what it says now",
                snapshot.revision, snapshot.key
            ),
            Some(snapshot) => format!("the EtcdCluster serves the data of revision {}", snapshot.revision),
            None => "the EtcdCluster serves the data of the snapshot".to_owned(),
        };
        draft.set(RestoreCondition::Ready(Ready::Succeeded), ConditionStatus::True, &message);
        draft.set(RestoreCondition::RestoreSucceeded(Succeeded::Confirmed), ConditionStatus::True, &message);
        draft.set(RestoreCondition::Reconciling(Reconciling::AsWanted), ConditionStatus::False, "");
        draft.set(RestoreCondition::Stalled(Stalled::NotStalled), ConditionStatus::False, "");
        draft.status
    }
}
