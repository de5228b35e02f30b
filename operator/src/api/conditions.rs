//! Conditions of the three kinds: the type in the API, and the closed sets of condition types and reasons.
//!
//! A condition is set from an enum whose variant is its type and whose payload is its reason, so that a reason can only
//! be used with the type that it belongs to. To add a reason, add a variant to the enum of its type.
//!
//! `Ready`, `Reconciling` and `Stalled` follow kstatus, which `kubectl wait`, Argo CD and Flux understand: `Ready` is the
//! summary, the other two are True only while there is something to say.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::null_is_default;

/// Reason of a condition that no pass has looked at yet.
pub const NOT_OBSERVED: &str = "NotObserved";

/// Condition types of the archived operator that ours do not have; they would be stale for ever.
const LEGACY_TYPES: [&str; 2] = ["Recovering", "Scaling"];

/// True, False or Unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It could not be told.
    #[default]
    Unknown,
}

impl ConditionStatus {
    /// As written in `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// metav1.Condition plus `lastUpdateTime`. Conditions of the archived operator, which had fewer fields, are read too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub type_: String,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// `metadata.generation` that the condition is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When anything of the condition last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// Why, with the particulars.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(length(max = 32768))]
    pub message: String,
}

/// A condition type together with its reason: one of [`ClusterCondition`], [`BackupCondition`], [`RestoreCondition`].
pub trait ConditionKind {
    /// The type, as in the API.
    fn type_name(&self) -> &'static str;
    /// The reason, as in the API.
    fn reason(&self) -> &'static str;
    /// The types that objects of this kind have, in the order in which they are shown.
    fn types() -> &'static [&'static str]
    where
        Self: Sized;
}

/// The conditions of an object that no pass has looked at: every type of its kind, Unknown.
pub fn initial<K: ConditionKind>(observed_generation: Option<i64>, now: Timestamp) -> Vec<Condition> {
    let mut conditions = Vec::new();
    complete::<K>(&mut conditions, observed_generation, now);
    conditions
}

/// Adds the types that are missing, Unknown, and puts the list in order: ours first, in our order, then those that
/// someone else keeps here. Those that the archived operator left behind go.
pub fn complete<K: ConditionKind>(conditions: &mut Vec<Condition>, observed_generation: Option<i64>, now: Timestamp) {
    let rank = |type_: &str| K::types().iter().position(|known| *known == type_).unwrap_or(usize::MAX);
    conditions
        .retain(|condition| rank(&condition.type_) != usize::MAX || !LEGACY_TYPES.contains(&condition.type_.as_str()));
    for type_ in K::types() {
        if find(conditions, type_).is_none() {
            conditions.push(Condition {
                type_: (*type_).to_owned(),
                status: ConditionStatus::Unknown,
                observed_generation,
                last_update_time: Some(seconds(now)),
                last_transition_time: Some(seconds(now)),
                reason: NOT_OBSERVED.to_owned(),
                message: String::new(),
            });
        }
    }
    conditions.sort_by_key(|condition| rank(&condition.type_));
}

/// Sets one condition. `lastTransitionTime` moves when the status changes, `lastUpdateTime` when anything does; the
/// place in the list does not change. True when anything changed.
pub fn set<K: ConditionKind>(
    conditions: &mut Vec<Condition>,
    kind: &K,
    status: ConditionStatus,
    message: impl Into<String>,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let mut next = Condition {
        type_: kind.type_name().to_owned(),
        status,
        observed_generation,
        last_update_time: Some(seconds(now)),
        last_transition_time: Some(seconds(now)),
        reason: kind.reason().to_owned(),
        message: message.into(),
    };
    let Some(old) = conditions.iter_mut().find(|condition| condition.type_ == next.type_) else {
        conditions.push(next);
        return true;
    };
    if old.status == status && old.last_transition_time.is_some() {
        next.last_transition_time.clone_from(&old.last_transition_time);
    }
    let same = Condition { last_update_time: old.last_update_time.clone(), ..next.clone() } == *old;
    if same && old.last_update_time.is_some() {
        return false;
    }
    *old = next;
    true
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether a condition says something else than before; its words aside. What an event is for.
pub fn turned(before: &[Condition], after: &[Condition], type_: &str) -> bool {
    let says = |conditions| find(conditions, type_).map(|condition| (condition.status, condition.reason.clone()));
    says(before) != says(after)
}

/// The API keeps whole seconds; a fraction would make what was read back differ from what was written.
fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).expect("the whole second of a timestamp is one"))
}

/// Defines the enum of the condition types of one kind; the payload of a variant is the enum of its reasons.
macro_rules! condition_types {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident($reason:ty),)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant($reason),)+ }

        impl ConditionKind for $name {
            fn type_name(&self) -> &'static str {
                match self { $(Self::$variant(_) => stringify!($variant),)+ }
            }

            fn reason(&self) -> &'static str {
                match self { $(Self::$variant(reason) => reason.as_str(),)+ }
            }

            fn types() -> &'static [&'static str] {
                &[$(stringify!($variant)),+]
            }
        }
    };
}

/// Defines a closed enum of reasons.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every reason of this type.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// As written in `reason`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)+ }
            }
        }
    };
}

pub mod reason;

use reason::{
    AvailableReason, BackupHealthyReason, BackupReadyReason, BackupReconcilingReason, BackupStalledReason,
    BackupSucceededReason, CertificatesValidReason, DegradedReason, LegacyConflictReason, MembersHealthyReason,
    PausedReason, ProgressingReason, QuorumAtRiskReason, ReadyReason, RestoreReadyReason, RestoreReconcilingReason,
    RestoreStalledReason, RestoreSucceededReason, SpecWarningsReason, StalledReason, StorageHealthyReason,
    UpgradingReason,
};

condition_types! {
    /// Conditions of an EtcdCluster.
    ClusterCondition {
        /// Summary: as many members as wanted, all as wanted, all healthy.
        Ready(ReadyReason),
        /// A quorum of voters serves.
        Available(AvailableReason),
        /// The operator is changing something, or waits to.
        Progressing(ProgressingReason),
        /// Fewer members serve than there should be.
        Degraded(DegradedReason),
        /// The operator leaves the cluster alone.
        Paused(PausedReason),
        /// The version is being changed.
        Upgrading(UpgradingReason),
        /// Every member answers and is well.
        MembersHealthy(MembersHealthyReason),
        /// One more failure would stop the cluster.
        QuorumAtRisk(QuorumAtRiskReason),
        /// Volumes are bound, none is lost or full.
        StorageHealthy(StorageHealthyReason),
        /// Certificates are there and in date.
        CertificatesValid(CertificatesValidReason),
        /// Backups of this cluster succeed.
        BackupHealthy(BackupHealthyReason),
        /// The archived operator is alive beside this one.
        LegacyConflict(LegacyConflictReason),
        /// The spec says something that its user may not mean. It keeps nothing from being done.
        SpecWarnings(SpecWarningsReason),
        /// kstatus: on the way to what is wanted.
        Reconciling(ProgressingReason),
        /// kstatus: cannot go on without a person.
        Stalled(StalledReason),
    }
}

condition_types! {
    /// Conditions of an EtcdBackup.
    BackupCondition {
        /// Summary: the backup is in the store, or the schedule is being kept.
        Ready(BackupReadyReason),
        /// The last backup is complete in the store, confirmed from there.
        BackupSucceeded(BackupSucceededReason),
        /// kstatus: on the way to what is wanted.
        Reconciling(BackupReconcilingReason),
        /// kstatus: cannot go on without a person.
        Stalled(BackupStalledReason),
    }
}

condition_types! {
    /// Conditions of an EtcdRestore.
    RestoreCondition {
        /// Summary: the cluster serves the data of the backup.
        Ready(RestoreReadyReason),
        /// The cluster served the data of the backup when the restore ended.
        RestoreSucceeded(RestoreSucceededReason),
        /// kstatus: on the way to what is wanted.
        Reconciling(RestoreReconcilingReason),
        /// kstatus: cannot go on without a person.
        Stalled(RestoreStalledReason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(second, 123_456_789).expect("in range")
    }

    fn set_available(list: &mut Vec<Condition>, reason: AvailableReason, holds: bool, message: &str, now: i64) -> bool {
        set(list, &ClusterCondition::Available(reason), holds.into(), message, Some(1), at(now))
    }

    fn times(list: &[Condition]) -> (i64, i64) {
        let available = find(list, "Available").expect("it was set");
        let second = |time: &Option<Time>| time.as_ref().expect("it was set").0.as_second();
        (second(&available.last_update_time), second(&available.last_transition_time))
    }

    #[test]
    fn every_type_is_there_from_the_first_pass_as_unknown() {
        let list = initial::<ClusterCondition>(Some(3), at(10));
        let types: Vec<_> = list.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, ClusterCondition::types());
        for condition in &list {
            assert_eq!(condition.status, ConditionStatus::Unknown);
            assert_eq!(condition.reason, NOT_OBSERVED);
            assert_eq!(condition.observed_generation, Some(3));
        }
        assert_eq!(initial::<BackupCondition>(None, at(0)).len(), 4);
        assert_eq!(initial::<RestoreCondition>(None, at(0)).len(), 4);
    }

    #[test]
    fn transition_time_moves_with_the_status_only_and_update_time_with_anything() {
        let mut list = initial::<ClusterCondition>(Some(1), at(1));
        let order: Vec<_> = list.iter().map(|condition| condition.type_.clone()).collect();
        assert!(set_available(&mut list, AvailableReason::QuorumServes, true, "3 of 3", 2));
        assert_eq!(times(&list), (2, 2));
        assert!(!set_available(&mut list, AvailableReason::QuorumServes, true, "3 of 3", 3));
        assert_eq!(times(&list), (2, 2));
        assert!(set_available(&mut list, AvailableReason::QuorumServes, true, "2 of 3", 4));
        assert_eq!(times(&list), (4, 2));
        assert!(set_available(&mut list, AvailableReason::QuorumLost, false, "1 of 3", 5));
        assert_eq!(times(&list), (5, 5));
        assert_eq!(list.iter().map(|condition| condition.type_.clone()).collect::<Vec<_>>(), order);
    }

    #[test]
    fn a_new_generation_is_an_update_and_no_transition() {
        let mut list = Vec::new();
        assert!(set_available(&mut list, AvailableReason::QuorumServes, true, "", 2));
        let kind = ClusterCondition::Available(AvailableReason::QuorumServes);
        assert!(set(&mut list, &kind, ConditionStatus::True, "", Some(2), at(9)));
        assert_eq!(times(&list), (9, 2));
    }

    #[test]
    fn what_was_written_is_what_is_read_back() {
        let mut list = initial::<ClusterCondition>(Some(1), at(1));
        set_available(&mut list, AvailableReason::QuorumServes, true, "3 of 3", 2);
        let text = serde_json::to_string(&list).expect("serialises");
        assert_eq!(serde_json::from_str::<Vec<Condition>>(&text).expect("parses"), list);
    }

    #[test]
    fn conditions_of_the_archived_operator_are_adopted_and_its_own_types_dropped() {
        let text = r#"[
            {"type": "Scaling", "status": "True", "lastUpdateTime": "2019-05-01T10:00:00+02:00", "reason": "Scaling up"},
            {"type": "Mine", "status": "False"},
            {"type": "Available", "status": "True", "lastUpdateTime": "2019-05-01T10:00:00Z",
             "lastTransitionTime": "2019-05-01T09:00:00Z", "reason": "Cluster available"}
        ]"#;
        let mut list: Vec<Condition> = serde_json::from_str(text).expect("parses");
        complete::<ClusterCondition>(&mut list, Some(1), at(1));
        assert!(find(&list, "Scaling").is_none());
        assert_eq!(list.first().map(|condition| condition.type_.as_str()), Some("Ready"));
        assert_eq!(list.last().map(|condition| condition.type_.as_str()), Some("Mine"));
        let available = find(&list, "Available").expect("it was there");
        assert_eq!(available.status, ConditionStatus::True);
        let since = available.last_transition_time.clone();
        set_available(&mut list, AvailableReason::QuorumServes, true, "", 1_900_000_000);
        assert_eq!(find(&list, "Available").expect("it was there").last_transition_time, since);
    }

    #[test]
    fn types_and_reasons_are_one_camel_case_word_group() {
        let word = |text: &str| {
            text.starts_with(|first: char| first.is_ascii_uppercase())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let kinds = [ClusterCondition::types(), BackupCondition::types(), RestoreCondition::types()];
        assert!(kinds.iter().flat_map(|types| types.iter()).all(|type_| word(type_)));
        assert!(ProgressingReason::ALL.iter().all(|reason| word(reason.as_str())));
        assert!(BackupSucceededReason::ALL.iter().all(|reason| word(reason.as_str())));
    }
}
