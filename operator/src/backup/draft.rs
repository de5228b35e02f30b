//! One status being made from another: what the drafts of an EtcdBackup's and of an EtcdRestore's status share.

use jiff::Timestamp;

use crate::api::conditions::{BackupCondition, Condition, ConditionKind, ConditionStatus, RestoreCondition};
use crate::api::conditions::{complete, set};
use crate::api::{EtcdBackupStatus, EtcdRestoreStatus};

/// A status with conditions of one set.
pub trait Conditioned: Clone {
    /// The set.
    type Kind: ConditionKind + Copy;
    /// Where the generation that it is about is written, and the conditions.
    fn parts(&mut self) -> (&mut Option<i64>, &mut Vec<Condition>);
}

impl Conditioned for EtcdBackupStatus {
    type Kind = BackupCondition;

    fn parts(&mut self) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut self.observed_generation, &mut self.conditions)
    }
}

impl Conditioned for EtcdRestoreStatus {
    type Kind = RestoreCondition;

    fn parts(&mut self) -> (&mut Option<i64>, &mut Vec<Condition>) {
        (&mut self.observed_generation, &mut self.conditions)
    }
}

/// A status in the making.
pub struct Draft<S> {
    /// As far as it is made.
    pub status: S,
    /// When.
    pub now: Timestamp,
    generation: Option<i64>,
}

impl<S: Conditioned> Draft<S> {
    /// Begins with the previous status, and every condition there.
    pub fn new(previous: &S, generation: Option<i64>, now: Timestamp) -> Self {
        let mut status = previous.clone();
        let (observed_generation, conditions) = status.parts();
        *observed_generation = generation;
        complete::<S::Kind>(conditions, generation, now);
        Self { status, now, generation }
    }

    /// Sets a condition.
    pub fn set(&mut self, condition: S::Kind, status: ConditionStatus, message: &str) {
        set(self.status.parts().1, &condition, status, message, self.generation, self.now);
    }
}
