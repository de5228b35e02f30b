//! The conditions of an EtcdCluster, one function each. Every one is set in every pass.

use jiff::Timestamp;

use super::{Facts, bounded};
use crate::api::conditions::reason::{
    AvailableReason, BackupHealthyReason, CertificatesValidReason, DegradedReason, LegacyConflictReason,
    MembersHealthyReason, PausedReason, ProgressingReason, QuorumAtRiskReason, ReadyReason, SpecWarningsReason,
    StalledReason, StorageHealthyReason, UpgradingReason,
};
use crate::api::conditions::{self, ClusterCondition, Condition, ConditionStatus};
use crate::model::{Alarm, BackupObserved, CertificateObserved, MemberId, SecretTrouble, SpecWarning, Storage};
use crate::plan::{MemberRemoval, PodDeletion, Step, Unsafe, Waiting};

/// A condition as it shall be: type and reason, status, message.
type Verdict = (ClusterCondition, ConditionStatus, String);

/// Sets all of them.
pub(super) fn set_all(list: &mut Vec<Condition>, facts: &Facts<'_>, generation: Option<i64>, now: Timestamp) {
    conditions::complete::<ClusterCondition>(list, generation, now);
    let (progressing, under_way) = progressing(facts);
    let all = [
        ready(facts),
        available(facts),
        (ClusterCondition::Progressing(progressing), under_way.0, under_way.1.clone()),
        degraded(facts),
        paused(facts),
        upgrading(facts),
        members_healthy(facts),
        quorum_at_risk(facts),
        storage_healthy(facts),
        certificates_valid(facts, now),
        backup_healthy(facts, now),
        legacy_conflict(facts),
        spec_warnings(facts),
        (ClusterCondition::Reconciling(progressing), under_way.0, under_way.1),
        stalled(facts),
    ];
    for (kind, status, message) in all {
        conditions::set(list, &kind, status, bounded(&message), generation, now);
    }
}

fn refused(facts: &Facts<'_>) -> String {
    facts.plan.refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn waiting(facts: &Facts<'_>) -> String {
    facts.plan.waiting.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn of_size(facts: &Facts<'_>) -> String {
    format!("{} of {} members are healthy", facts.ready.len(), facts.members.all.len())
}

/// True only when as many voters as wanted are healthy, all as wanted, and nothing is waited for or refused.
fn ready(facts: &Facts<'_>) -> Verdict {
    let is = |reason, holds: bool, message: String| (ClusterCondition::Ready(reason), holds.into(), message);
    let Some(desired) = facts.desired else { return is(ReadyReason::Stalled, false, refused(facts)) };
    if desired.deleting {
        return is(ReadyReason::Deleting, false, String::new());
    }
    if !facts.formed {
        let stopped = !facts.plan.refused.is_empty();
        let reason = if stopped { ReadyReason::Stalled } else { ReadyReason::NotFormed };
        return is(reason, false, if stopped { refused(facts) } else { waiting(facts) });
    }
    if facts.quorum_lost() {
        return is(ReadyReason::QuorumLost, false, refused(facts));
    }
    if !facts.serves || !facts.members.confirmed {
        return (ClusterCondition::Ready(ReadyReason::Unobserved), ConditionStatus::Unknown, refused(facts));
    }
    let voters = facts.members.voters().count();
    if facts.votes.healthy < voters || voters < desired.size {
        return is(ReadyReason::MembersNotReady, false, of_size(facts));
    }
    if let Some(message) = alarms(facts) {
        return is(ReadyReason::AlarmRaised, false, message);
    }
    if !facts.plan.refused.is_empty() {
        return is(ReadyReason::Stalled, false, refused(facts));
    }
    if let Some(why) = facts.observed.etcd.alarms.why_unknown() {
        return (ClusterCondition::Ready(ReadyReason::Unobserved), ConditionStatus::Unknown, why.to_owned());
    }
    let as_wanted = facts.members.all.len() == desired.size && !facts.image_differs();
    let nothing_to_do = facts.plan.steps.is_empty() && facts.plan.waiting.iter().all(is_pause);
    if !as_wanted || !nothing_to_do {
        let reason = if desired.paused { ReadyReason::Paused } else { ReadyReason::ChangeInProgress };
        return is(reason, false, waiting(facts));
    }
    is(ReadyReason::AllMembersReady, true, of_size(facts))
}

/// The alarms that are raised: writes are refused because of them.
fn alarms(facts: &Facts<'_>) -> Option<String> {
    let name = |id: MemberId| {
        let member = facts.members.all.iter().find(|member| member.id() == id);
        member.map_or_else(|| format!("member {id}"), |member| format!("member {}", member.name))
    };
    let raised = facts.observed.etcd.raised().iter().map(|(id, alarm)| format!("{} has the alarm {alarm}", name(*id)));
    let raised: Vec<_> = raised.collect();
    (!raised.is_empty()).then(|| format!("{}: writes are refused", raised.join(", ")))
}

fn is_pause(waiting: &Waiting) -> bool {
    matches!(waiting, Waiting::Paused)
}

/// True when a linearizable read went through in this pass, and only then.
fn available(facts: &Facts<'_>) -> Verdict {
    let is = |reason, status, message| (ClusterCondition::Available(reason), status, message);
    if !facts.formed {
        return is(AvailableReason::NotFormed, ConditionStatus::False, String::new());
    }
    if facts.serves {
        let message = format!("{} of {} voters are healthy", facts.votes.healthy, facts.votes.voters);
        return is(AvailableReason::QuorumServes, ConditionStatus::True, message);
    }
    let why = facts.observed.etcd.quorum_read.why_unknown().unwrap_or_default().to_owned();
    if facts.quorum_lost() {
        is(AvailableReason::QuorumLost, ConditionStatus::False, why)
    } else {
        is(AvailableReason::Unobserved, ConditionStatus::Unknown, why)
    }
}

/// What is under way, in one word, from the step that matters most, else from what is waited for.
fn progressing(facts: &Facts<'_>) -> (ProgressingReason, (ConditionStatus, String)) {
    let plan = facts.plan;
    let Some(desired) = facts.desired else {
        return (ProgressingReason::Stalled, (ConditionStatus::False, refused(facts)));
    };
    if desired.deleting {
        return (ProgressingReason::Deleting, (ConditionStatus::True, String::new()));
    }
    if plan.waiting.iter().any(is_pause) {
        return (ProgressingReason::Paused, (ConditionStatus::False, waiting(facts)));
    }
    if plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::StepRefused { .. })) {
        return (ProgressingReason::StepRefused, (ConditionStatus::False, waiting(facts)));
    }
    let disruptive = plan.steps.iter().find(|step| step.is_disruptive()).or(plan.steps.first());
    let reason = if plan.record.restore.is_some() {
        ProgressingReason::Restoring
    } else if !facts.formed && plan.refused.is_empty() {
        ProgressingReason::Forming
    } else if let Some(step) = disruptive {
        reason_of_step(step)
    } else if !plan.refused.is_empty() {
        let stalled = plan.refused.iter().any(|refused| stalled_by(refused) != StalledReason::NotStalled);
        let reason = if stalled { ProgressingReason::Stalled } else { ProgressingReason::Unsafe };
        return (reason, (ConditionStatus::False, refused(facts)));
    } else if plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::RollOutStopped { .. })) {
        return (ProgressingReason::RollOutStopped, (ConditionStatus::False, waiting(facts)));
    } else if plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::LearnerSync { .. })) {
        ProgressingReason::PromotingLearner
    } else if !plan.waiting.is_empty() {
        ProgressingReason::Waiting
    } else {
        return (ProgressingReason::AsWanted, (ConditionStatus::False, String::new()));
    };
    (reason, (ConditionStatus::True, waiting(facts)))
}

fn reason_of_step(step: &Step) -> ProgressingReason {
    match step {
        Step::CreateService(_)
        | Step::UpdateService(_)
        | Step::CreateVolume(_)
        | Step::CreatePod(_)
        | Step::PatchAgent { .. } => ProgressingReason::Recovering,
        Step::DeletePod { why, .. } => match why {
            PodDeletion::Terminal => ProgressingReason::Recovering,
            PodDeletion::Outdated => ProgressingReason::RollingOut,
            PodDeletion::Superseded | PodDeletion::RestoreCancelled => ProgressingReason::Restoring,
            PodDeletion::MemberRemoved | PodDeletion::FormationAbandoned => ProgressingReason::CleaningUp,
        },
        Step::DeleteVolume { .. } => ProgressingReason::CleaningUp,
        Step::PatchImage { .. } | Step::AdvanceLog { .. } => ProgressingReason::Upgrading,
        Step::LabelVoter { .. } | Step::PromoteMember { .. } => ProgressingReason::PromotingLearner,
        Step::AddMember { .. } => ProgressingReason::ScalingOut,
        Step::RemoveMember { why: MemberRemoval::ScaleIn, .. } => ProgressingReason::ScalingIn,
        Step::RemoveMember { why: MemberRemoval::Outdated, .. } => ProgressingReason::RollingOut,
        Step::RemoveMember { .. } | Step::Disarm { .. } => ProgressingReason::ReplacingMember,
        Step::MoveLeader { .. } => ProgressingReason::MovingLeader,
    }
}

/// True while fewer members serve than there should be.
fn degraded(facts: &Facts<'_>) -> Verdict {
    let is = |reason, status, message| (ClusterCondition::Degraded(reason), status, message);
    if !facts.formed {
        return is(DegradedReason::NotFormed, ConditionStatus::False, String::new());
    }
    if facts.quorum_lost() {
        return is(DegradedReason::QuorumLost, ConditionStatus::True, of_size(facts));
    }
    if !facts.asked {
        return is(DegradedReason::Unobserved, ConditionStatus::Unknown, String::new());
    }
    let wanted = facts.desired.map_or(facts.votes.voters, |desired| desired.size);
    if facts.votes.healthy < facts.votes.voters {
        is(DegradedReason::MembersUnhealthy, ConditionStatus::True, of_size(facts))
    } else if facts.votes.voters < wanted {
        let message = format!("{} of {wanted} voters", facts.votes.voters);
        is(DegradedReason::MembersMissing, ConditionStatus::True, message)
    } else {
        is(DegradedReason::FullStrength, ConditionStatus::False, String::new())
    }
}

fn paused(facts: &Facts<'_>) -> Verdict {
    let paused = facts.desired.is_some_and(|desired| desired.paused);
    let reason = if paused { PausedReason::PausedBySpec } else { PausedReason::NotPaused };
    (ClusterCondition::Paused(reason), paused.into(), String::new())
}

/// Whether the version is being changed, and what holds it up.
fn upgrading(facts: &Facts<'_>) -> Verdict {
    let is = |reason, holds: bool, message| (ClusterCondition::Upgrading(reason), holds.into(), message);
    let version = facts.plan.refused.iter().find(|refused| matches!(refused, Unsafe::Version { .. }));
    if let Some(why) = version {
        return is(UpgradingReason::Refused, false, why.to_string());
    }
    if !facts.formed || !facts.version_differs() {
        return is(UpgradingReason::NotUpgrading, false, String::new());
    }
    if let Some(why) = failed_change(facts) {
        return is(UpgradingReason::Stopped, true, why);
    }
    if facts.plan.steps.is_empty() && !facts.plan.waiting.is_empty() {
        return is(UpgradingReason::Waiting, true, waiting(facts));
    }
    is(UpgradingReason::MemberByMember, true, String::new())
}

/// Why a member that has the wanted image already does not start. Also where no roll-out was left to stop, because it is
/// the last member, or the only one.
fn failed_change(facts: &Facts<'_>) -> Option<String> {
    let image = facts.desired?.image();
    facts.members.all.iter().find_map(|member| {
        let pod = member.pod.filter(|pod| pod.image == image && !pod.running && pod.fails_to_start())?;
        Some(format!("member {}: {}", member.name, pod.why_not_running.as_deref().unwrap_or_default()))
    })
}

fn members_healthy(facts: &Facts<'_>) -> Verdict {
    let is = |reason, holds: bool, message| (ClusterCondition::MembersHealthy(reason), holds.into(), message);
    if !facts.formed {
        return is(MembersHealthyReason::NotFormed, false, String::new());
    }
    if !facts.asked {
        let kind = ClusterCondition::MembersHealthy(MembersHealthyReason::Unobserved);
        return (
            kind,
            ConditionStatus::Unknown,
            facts.observed.etcd.quorum_read.why_unknown().unwrap_or_default().into(),
        );
    }
    if let Some(member) = facts.members.all.iter().find(|member| member.corrupt) {
        return is(MembersHealthyReason::MemberCorrupt, false, member.name.clone());
    }
    let cluster_id = facts.observed.record.lineage.as_ref().and_then(|lineage| lineage.cluster_id);
    let foreign = facts.members.all.iter().find(|member| {
        member.status.is_some_and(|status| cluster_id.is_some_and(|cluster_id| status.cluster_id != cluster_id))
    });
    if let Some(member) = foreign {
        return is(MembersHealthyReason::MemberForeign, false, member.name.clone());
    }
    let unhealthy: Vec<_> = facts.members.all.iter().filter(|member| !member.healthy).collect();
    let Some(first) = unhealthy.first() else {
        return is(MembersHealthyReason::AllHealthy, true, String::new());
    };
    let reason = if first.pod.is_none_or(|pod| !pod.running) {
        MembersHealthyReason::MemberNotReady
    } else if first.status.is_some_and(|status| status.leader.is_none()) {
        MembersHealthyReason::NoLeader
    } else {
        MembersHealthyReason::MemberUnreachable
    };
    is(reason, false, unhealthy.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", "))
}

/// True when one more failure would stop the cluster.
fn quorum_at_risk(facts: &Facts<'_>) -> Verdict {
    let is = |reason, status, message| (ClusterCondition::QuorumAtRisk(reason), status, message);
    if !facts.formed {
        return is(QuorumAtRiskReason::NotFormed, ConditionStatus::Unknown, String::new());
    }
    if facts.quorum_lost() {
        return is(QuorumAtRiskReason::QuorumLost, ConditionStatus::True, String::new());
    }
    if !facts.asked {
        return is(QuorumAtRiskReason::Unobserved, ConditionStatus::Unknown, String::new());
    }
    let message = format!("{} healthy voters, {} needed", facts.votes.healthy, facts.votes.quorum());
    if facts.votes.spare() > 0 {
        is(QuorumAtRiskReason::FailureTolerated, ConditionStatus::False, message)
    } else if facts.votes.voters <= 2 && facts.votes.healthy == facts.votes.voters {
        is(QuorumAtRiskReason::SizeToleratesNone, ConditionStatus::True, message)
    } else {
        is(QuorumAtRiskReason::NoFailureTolerated, ConditionStatus::True, message)
    }
}

fn storage_healthy(facts: &Facts<'_>) -> Verdict {
    let is = |reason, holds: bool, message| (ClusterCondition::StorageHealthy(reason), holds.into(), message);
    if let Some((id, _)) = facts.observed.etcd.raised().iter().find(|(_, alarm)| *alarm == Alarm::NoSpace) {
        let message = format!("member {id} has reached its quota and refuses writes");
        return is(StorageHealthyReason::NoSpace, false, message);
    }
    let lost = facts.members.all.iter().find_map(|member| Some((member.name.as_str(), member.lost?)));
    if let Some((name, why)) = lost.filter(|_| facts.formed) {
        return is(StorageHealthyReason::VolumeLost, false, format!("member {name}: {why}"));
    }
    let claims = facts.members.all.iter().filter_map(|member| member.volume);
    let deleted: Vec<_> = claims.filter(|claim| claim.deleting).map(|claim| claim.name.as_str()).collect();
    if !deleted.is_empty() && facts.desired.is_some_and(|desired| !desired.deleting) {
        let message = format!("claims were deleted, and their data goes when their pods do: {}", deleted.join(", "));
        return is(StorageHealthyReason::VolumeTerminating, false, message);
    }
    match facts.desired.map(|desired| &desired.storage) {
        None => {
            let kind = ClusterCondition::StorageHealthy(StorageHealthyReason::Unobserved);
            (kind, ConditionStatus::Unknown, String::new())
        }
        Some(Storage::EmptyDir) => is(StorageHealthyReason::EmptyDir, true, String::new()),
        Some(Storage::Volume(_)) => {
            let pending = facts.members.all.iter().find(|member| member.volume.is_none());
            match pending {
                None if facts.members.all.is_empty() => is(StorageHealthyReason::VolumePending, false, String::new()),
                None => is(StorageHealthyReason::VolumesBound, true, String::new()),
                Some(member) => is(StorageHealthyReason::VolumePending, false, member.name.clone()),
            }
        }
    }
}

/// That Secrets are complete is checked; dates are not, so that is not claimed.
fn certificates_valid(facts: &Facts<'_>, now: Timestamp) -> Verdict {
    let is = |reason, status, message| (ClusterCondition::CertificatesValid(reason), status, message);
    let desired = facts.desired.map(|desired| desired.for_formed(facts.plan.record.lineage.as_ref()));
    let used = desired.is_some_and(|desired| desired.tls.peer_secret.is_some() || desired.tls.client.is_some());
    if facts.desired.is_some() && !used {
        return is(CertificatesValidReason::NotUsed, ConditionStatus::True, String::new());
    }
    match facts.observed.secrets_missing.iter().next() {
        Some((name, trouble)) => {
            let (reason, status) = match trouble {
                SecretTrouble::Absent => (CertificatesValidReason::SecretMissing, ConditionStatus::False),
                SecretTrouble::Incomplete { .. } => (CertificatesValidReason::SecretIncomplete, ConditionStatus::False),
                SecretTrouble::Unreadable { .. } => (CertificatesValidReason::Unobserved, ConditionStatus::Unknown),
            };
            is(reason, status, format!("Secret `{name}`: {trouble}"))
        }
        None => {
            // The reasons are ordered, the worst first; of two that are alike, the one that ends first.
            let until = |one: &CertificateObserved| one.validity.as_ref().map(|validity| validity.until).ok();
            let of_each = facts.observed.certificates.iter().map(|one| (until(one), validity(one, now)));
            match of_each.min_by_key(|(until, (reason, ..))| (*reason, *until)) {
                Some((_, (reason, status, message))) => is(reason, status, message),
                None => is(CertificatesValidReason::Unobserved, ConditionStatus::Unknown, String::new()),
            }
        }
    }
}

/// What one certificate is at this time.
fn validity(certificate: &CertificateObserved, now: Timestamp) -> (CertificatesValidReason, ConditionStatus, String) {
    let what = format!("`{}` of Secret `{}`", certificate.key, certificate.secret);
    let (no, yes) = (ConditionStatus::False, ConditionStatus::True);
    match &certificate.validity {
        Err(why) => (CertificatesValidReason::Malformed, no, format!("{what}: {why}")),
        Ok(validity) if validity.until < now => {
            (CertificatesValidReason::Expired, no, format!("{what} expired at {}", validity.until))
        }
        Ok(validity) if now < validity.from => {
            (CertificatesValidReason::NotYetValid, no, format!("{what} is not valid before {}", validity.from))
        }
        Ok(validity) if validity.ends_soon(now) => {
            (CertificatesValidReason::ExpiresSoon, yes, format!("{what} expires at {}", validity.until))
        }
        Ok(validity) => {
            (CertificatesValidReason::InDate, yes, format!("{what} is the first to expire, at {}", validity.until))
        }
    }
}

/// What the EtcdBackups that name this cluster say of themselves. (No times that move with every backup, or this status
/// would, too.)
fn backup_healthy(facts: &Facts<'_>, now: Timestamp) -> Verdict {
    let is = |reason, status, message| (ClusterCondition::BackupHealthy(reason), status, message);
    let backups = &facts.observed.backups;
    // A backup that was to be taken once and failed is no trouble of today when another one was good since.
    let newest = backups.iter().filter_map(|backup| backup.last_success).max();
    let counts = |backup: &&BackupObserved| {
        let is_good = backup.interval.is_some() || backup.last_success.is_some();
        is_good || newest.is_none_or(|newest| newest < backup.created_at)
    };
    for backup in backups.iter().filter(counts) {
        if let Some(why) = &backup.failure {
            let message = format!("EtcdBackup `{}`: {why}", backup.name);
            return is(BackupHealthyReason::BackupFailed, ConditionStatus::False, message);
        }
    }
    if let Some(late) = backups.iter().find(|backup| backup.is_overdue(now)) {
        let last = late
            .last_success
            .map_or("there is no good backup".to_owned(), |last| format!("the last good backup is of {last}"));
        let every = late.interval.unwrap_or_default().as_secs();
        let message = format!("EtcdBackup `{}`: {last}, and one is due every {every} s", late.name);
        return is(BackupHealthyReason::BackupOverdue, ConditionStatus::False, message);
    }
    let (done, waiting): (Vec<_>, Vec<_>) =
        backups.iter().filter(counts).partition(|backup| backup.last_success.is_some());
    let names = |of: &[&BackupObserved]| {
        of.iter().map(|backup| format!("EtcdBackup `{}`", backup.name)).collect::<Vec<_>>().join(", ")
    };
    match (done.is_empty(), waiting.is_empty()) {
        (true, true) => {
            let message = "no EtcdBackup names this cluster in `spec.etcdEndpoints`".to_owned();
            is(BackupHealthyReason::NoBackup, ConditionStatus::Unknown, message)
        }
        (_, false) => is(BackupHealthyReason::NotYet, ConditionStatus::Unknown, names(&waiting)),
        (false, true) => is(BackupHealthyReason::BackedUp, ConditionStatus::True, names(&done)),
    }
}

fn legacy_conflict(facts: &Facts<'_>) -> Verdict {
    let (reason, status, message) = match &facts.observed.legacy_alive {
        Some(lock) => (LegacyConflictReason::LegacyOperatorAlive, ConditionStatus::True, format!("`{lock}` is fresh")),
        None => (LegacyConflictReason::NoConflict, ConditionStatus::False, String::new()),
    };
    (ClusterCondition::LegacyConflict(reason), status, message)
}

/// True when the spec says something that its user may not mean.
fn spec_warnings(facts: &Facts<'_>) -> Verdict {
    let is = |reason, status, message| (ClusterCondition::SpecWarnings(reason), status, message);
    let Some(desired) = facts.desired else {
        return is(SpecWarningsReason::InvalidSpec, ConditionStatus::Unknown, String::new());
    };
    let Some(first) = desired.warnings.first() else {
        return is(SpecWarningsReason::NoWarnings, ConditionStatus::False, String::new());
    };
    let reason = match first {
        SpecWarning::EvenSize { .. } => SpecWarningsReason::EvenSize,
        SpecWarning::VersionNotSet { .. } | SpecWarning::VersionUnmaintained { .. } => {
            SpecWarningsReason::VersionUnmaintained
        }
        SpecWarning::AntiAffinityDeprecated => SpecWarningsReason::DeprecatedField,
        SpecWarning::AntiAffinityIgnored | SpecWarning::EnvironmentIgnored { .. } => {
            SpecWarningsReason::FieldWithoutEffect
        }
    };
    let words = desired.warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    is(reason, ConditionStatus::True, words.join("; "))
}

/// True when only a person can get it going again.
fn stalled(facts: &Facts<'_>) -> Verdict {
    let by = facts.plan.refused.iter().map(|refused| (stalled_by(refused), refused));
    if let Some((reason, refused)) = by.into_iter().find(|(reason, _)| *reason != StalledReason::NotStalled) {
        return (ClusterCondition::Stalled(reason), ConditionStatus::True, refused.to_string());
    }
    let is_overdue = |waiting: &&Waiting| matches!(waiting, Waiting::RollOutStopped { overdue: true, .. });
    if let Some(stopped) = facts.plan.waiting.iter().find(is_overdue) {
        let kind = ClusterCondition::Stalled(StalledReason::RollOutStopped);
        return (kind, ConditionStatus::True, stopped.to_string());
    }
    if let Some(lock) = &facts.observed.legacy_alive {
        let kind = ClusterCondition::Stalled(StalledReason::LegacyOperatorAlive);
        return (kind, ConditionStatus::True, format!("`{lock}` is fresh: scale the archived operator to 0"));
    }
    (ClusterCondition::Stalled(StalledReason::NotStalled), ConditionStatus::False, String::new())
}

fn stalled_by(refused: &Unsafe) -> StalledReason {
    match refused {
        Unsafe::QuorumLost { data_lost, .. } if !data_lost.is_empty() => StalledReason::QuorumLost,
        Unsafe::FormationLost { .. } => StalledReason::QuorumLost,
        Unsafe::QuorumLost { .. } | Unsafe::WouldLoseQuorum { .. } | Unsafe::MembershipUnknown { .. } => {
            StalledReason::NotStalled
        }
        Unsafe::CorruptSomewhere { .. } => StalledReason::DataCorrupt,
        Unsafe::AllDataLost => StalledReason::DataLost,
        Unsafe::Version { .. } => StalledReason::VersionRefused,
        Unsafe::ForeignObject { .. } => StalledReason::OwnershipConflict,
        Unsafe::ForgottenCluster { .. } => StalledReason::StatusLost,
        Unsafe::Spec { .. } => StalledReason::InvalidSpec,
    }
}
