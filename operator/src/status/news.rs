//! What is new in the status of an EtcdCluster, as events. Pure; a transition is told once.
//!
//! Steps have events of their own (`apply/event.rs`); these are for what no step is taken for: a cluster that lost its
//! quorum, a version that is refused, a Secret that is waited for. What conditions say all the time is not repeated.

use crate::api::conditions::reason::{
    AvailableReason, BackupHealthyReason, CertificatesValidReason, StorageHealthyReason,
};
use crate::api::conditions::{ClusterCondition, Condition, ConditionKind, ConditionStatus, find, turned};
use crate::recorder::News;

/// From one list of conditions to the next. Two of one reason are one.
pub fn news(before: &[Condition], after: &[Condition]) -> Vec<News> {
    let mut all: Vec<News> = Vec::new();
    for type_ in ["Stalled", "Available", "CertificatesValid", "StorageHealthy", "BackupHealthy", SPEC_WARNINGS] {
        let is_new = turned(before, after, type_) || type_ == SPEC_WARNINGS && reworded(before, after, type_);
        let Some(now) = find(after, type_).filter(|_| is_new) else { continue };
        if let Some(news) = of_condition(find(before, type_), now)
            && all.iter().all(|told| told.reason != news.reason)
        {
            all.push(news);
        }
    }
    all
}

/// The one condition whose words are told anew: they only change with the spec.
const SPEC_WARNINGS: &str = "SpecWarnings";

fn reworded(before: &[Condition], after: &[Condition], type_: &str) -> bool {
    let message = |conditions| find(conditions, type_).map(|condition| condition.message.as_str());
    message(before) != message(after)
}

fn of_condition(before: Option<&Condition>, now: &Condition) -> Option<News> {
    let says = |condition: &Condition, kind: ClusterCondition, status: ConditionStatus| {
        condition.type_ == kind.type_name() && condition.reason == kind.reason() && condition.status == status
    };
    let is = |kind, status| says(now, kind, status);
    let was = |kind, status| before.is_some_and(|before| says(before, kind, status));
    let (no, yes) = (ConditionStatus::False, ConditionStatus::True);
    let quorum_lost = ClusterCondition::Available(AvailableReason::QuorumLost);
    let message = &now.message;
    if now.type_ == "Stalled" && now.status == yes {
        return Some(News::warning(stalled_reason(&now.reason), message));
    }
    if now.type_ == SPEC_WARNINGS && now.status == yes {
        return Some(News::warning("SpecWarning", message));
    }
    if is(quorum_lost, no) {
        return Some(News::warning("QuorumLost", message));
    }
    if is(ClusterCondition::Available(AvailableReason::QuorumServes), yes) {
        let back = was(quorum_lost, no);
        let born = was(ClusterCondition::Available(AvailableReason::NotFormed), no);
        return if back {
            Some(News::normal("QuorumRestored", message))
        } else {
            born.then(|| News::normal("ClusterFormed", message))
        };
    }
    if is(ClusterCondition::CertificatesValid(CertificatesValidReason::SecretMissing), no)
        || is(ClusterCondition::CertificatesValid(CertificatesValidReason::SecretIncomplete), no)
    {
        return Some(News::warning("WaitingForSecret", message));
    }
    if now.type_ == "CertificatesValid" {
        return certificates(now).map(|reason| News::warning(reason, message));
    }
    // (Whose last attempt failed says so itself.)
    if is(ClusterCondition::BackupHealthy(BackupHealthyReason::BackupOverdue), no) {
        return Some(News::warning("BackupOverdue", message));
    }
    is(ClusterCondition::StorageHealthy(StorageHealthyReason::NoSpace), no).then(|| News::warning("NoSpace", message))
}

/// What somebody must do something about, as the event's reason.
fn certificates(condition: &Condition) -> Option<&'static str> {
    use CertificatesValidReason::{Expired, ExpiresSoon, Malformed, NotYetValid};
    let is = |reason: CertificatesValidReason| condition.reason == reason.as_str();
    match () {
        () if is(Malformed) => Some("CertificateMalformed"),
        () if is(Expired) => Some("CertificateExpired"),
        () if is(NotYetValid) => Some("CertificateNotYetValid"),
        () if is(ExpiresSoon) => Some("CertificateExpiresSoon"),
        () => None,
    }
}

/// The reason of the condition as the event's, whose set is closed too.
fn stalled_reason(reason: &str) -> &'static str {
    const KNOWN: [&str; 9] = [
        "QuorumLost",
        "DataLost",
        "DataCorrupt",
        "VersionRefused",
        "RollOutStopped",
        "OwnershipConflict",
        "StatusLost",
        "InvalidSpec",
        "LegacyOperatorAlive",
    ];
    KNOWN.into_iter().find(|known| *known == reason).unwrap_or("Stalled")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::conditions::reason::{SpecWarningsReason, StalledReason};
    use crate::api::conditions::{initial, set};
    use jiff::Timestamp;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn with(before: &[Condition], kind: ClusterCondition, status: ConditionStatus, message: &str) -> Vec<Condition> {
        let mut after = before.to_vec();
        set(&mut after, &kind, status, message, None, NOW);
        after
    }

    fn told(before: &[Condition], after: &[Condition]) -> Vec<(bool, &'static str)> {
        news(before, after).into_iter().map(|news| (news.warning, news.reason)).collect()
    }

    #[test]
    fn a_quorum_that_goes_and_comes_is_told_once_each_way() {
        let new = initial::<ClusterCondition>(None, NOW);
        let forming = with(&new, ClusterCondition::Available(AvailableReason::NotFormed), false.into(), "");
        let serves = with(&forming, ClusterCondition::Available(AvailableReason::QuorumServes), true.into(), "3 of 3");
        let lost = with(&serves, ClusterCondition::Available(AvailableReason::QuorumLost), false.into(), "no leader");
        let other_words =
            with(&lost, ClusterCondition::Available(AvailableReason::QuorumLost), false.into(), "timeout");
        let unknown = with(
            &serves,
            ClusterCondition::Available(AvailableReason::Unobserved),
            ConditionStatus::Unknown,
            "cannot be reached",
        );
        assert_eq!(told(&new, &forming), []);
        assert_eq!(told(&forming, &serves), [(false, "ClusterFormed")]);
        assert_eq!(told(&serves, &lost), [(true, "QuorumLost")]);
        assert_eq!(told(&lost, &other_words), []);
        assert_eq!(told(&lost, &serves), [(false, "QuorumRestored")]);
        assert_eq!(told(&serves, &unknown), []);
        assert_eq!(told(&unknown, &serves), []);
    }

    #[test]
    fn what_only_a_person_can_mend_is_a_warning_under_its_own_reason() {
        let new = initial::<ClusterCondition>(None, NOW);
        for reason in StalledReason::ALL.iter().filter(|reason| **reason != StalledReason::NotStalled).copied() {
            let kind = ClusterCondition::Stalled(reason);
            let stalled = with(&new, kind, true.into(), "why");
            assert_eq!(told(&new, &stalled), [(true, kind.reason())], "a known reason is not called Stalled");
            assert_eq!(news(&new, &stalled)[0].message, "why");
        }
        let going = with(&new, ClusterCondition::Stalled(StalledReason::NotStalled), false.into(), "");
        assert_eq!(told(&new, &going), []);
    }

    #[test]
    fn a_warning_about_the_spec_is_told_when_it_comes_and_when_its_words_change() {
        let new = initial::<ClusterCondition>(None, NOW);
        let silent = with(&new, ClusterCondition::SpecWarnings(SpecWarningsReason::NoWarnings), false.into(), "");
        let even = ClusterCondition::SpecWarnings(SpecWarningsReason::EvenSize);
        let four = with(&silent, even, true.into(), "4 is even");
        let both = with(&silent, even, true.into(), "4 is even; `antiAffinity` is deprecated");
        assert_eq!(told(&new, &silent), []);
        assert_eq!(told(&silent, &four), [(true, "SpecWarning")]);
        assert_eq!(told(&four, &four), []);
        assert_eq!(told(&four, &both), [(true, "SpecWarning")]);
        assert_eq!(news(&four, &both)[0].message, "4 is even; `antiAffinity` is deprecated");
        assert_eq!(told(&both, &silent), []);
    }

    #[test]
    fn a_secret_that_is_missing_or_incomplete_is_told_and_one_that_cannot_be_read_is_not() {
        let new = initial::<ClusterCondition>(None, NOW);
        for reason in [CertificatesValidReason::SecretMissing, CertificatesValidReason::SecretIncomplete] {
            let waits = with(&new, ClusterCondition::CertificatesValid(reason), false.into(), "Secret `s`");
            assert_eq!(told(&new, &waits), [(true, "WaitingForSecret")]);
        }
        let kind = ClusterCondition::CertificatesValid(CertificatesValidReason::Unobserved);
        assert_eq!(told(&new, &with(&new, kind, ConditionStatus::Unknown, "Secret `s`")), []);
    }

    #[test]
    fn a_certificate_that_ends_and_a_backup_that_does_not_come_are_told() {
        let new = initial::<ClusterCondition>(None, NOW);
        for (reason, event) in [
            (CertificatesValidReason::Malformed, Some("CertificateMalformed")),
            (CertificatesValidReason::Expired, Some("CertificateExpired")),
            (CertificatesValidReason::NotYetValid, Some("CertificateNotYetValid")),
            (CertificatesValidReason::ExpiresSoon, Some("CertificateExpiresSoon")),
            (CertificatesValidReason::InDate, None),
            (CertificatesValidReason::NotUsed, None),
        ] {
            let kind = ClusterCondition::CertificatesValid(reason);
            let expected: Vec<_> = event.map(|event| (true, event)).into_iter().collect();
            assert_eq!(told(&new, &with(&new, kind, ConditionStatus::True, "why")), expected);
        }
        for reason in BackupHealthyReason::ALL.iter().copied() {
            let expected: &[_] =
                if reason == BackupHealthyReason::BackupOverdue { &[(true, "BackupOverdue")] } else { &[] };
            assert_eq!(told(&new, &with(&new, ClusterCondition::BackupHealthy(reason), false.into(), "why")), expected);
        }
    }

    #[test]
    fn a_quorum_lost_for_good_is_told_once() {
        let serves = with(
            &initial::<ClusterCondition>(None, NOW),
            ClusterCondition::Available(AvailableReason::QuorumServes),
            true.into(),
            "",
        );
        let lost = with(&serves, ClusterCondition::Available(AvailableReason::QuorumLost), false.into(), "no leader");
        let lost = with(&lost, ClusterCondition::Stalled(StalledReason::QuorumLost), true.into(), "data lost: a, b");
        let all = news(&serves, &lost);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].message, "data lost: a, b");
    }
}
