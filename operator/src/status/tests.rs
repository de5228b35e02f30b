//! What the status of an EtcdCluster says in each kind of situation: one table of all conditions, and of the fields that
//! scripts read.
//!
//! The table is operator/tests/golden/status.snap, to be read. After a change that is wanted: `INSTA_UPDATE=always`.

use jiff::SignedDuration;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;
use crate::api::conditions::reason::{
    AvailableReason, BackupHealthyReason, CertificatesValidReason, DegradedReason, LegacyConflictReason,
    MembersHealthyReason, PausedReason, ProgressingReason, QuorumAtRiskReason, ReadyReason, SpecWarningsReason,
    StalledReason, StorageHealthyReason, UpgradingReason,
};
use crate::api::conditions::{ConditionStatus, find};
use crate::model::{
    Alarm, BackupObserved, CertificateObserved, EtcdObserved, MemberId, SecretTrouble, SpecWarning, Validity,
};
use crate::plan::Step;
use crate::plan::tests::world::{World, with_short_names};

/// Type, status, reason and message of one condition.
fn condition<'a>(world: &'a World, type_: &str) -> (ConditionStatus, &'a str, &'a str) {
    let condition = find(&world.status.conditions, type_).expect("every condition is there from the first pass on");
    (condition.status, &condition.reason, &condition.message)
}

fn id_of(world: &World, name: &str) -> MemberId {
    let member = world.serving().members.iter().find(|member| member.name == name);
    member.expect("it is a member").id
}

/// A world after some passes.
fn after(passes: usize, mut world: World, change: impl FnOnce(&mut World)) -> World {
    change(&mut world);
    world.run_passes(passes);
    world
}

/// A world right after the pass that takes the first such step.
fn at_step(mut world: World, change: impl FnOnce(&mut World), is_awaited: impl Fn(&Step) -> bool) -> World {
    change(&mut world);
    world.run_until(is_awaited);
    world
}

fn without_quorum(world: &mut World) {
    let leader = world.leader();
    let others: Vec<_> = world.members().into_iter().filter(|name| *name != leader).collect();
    world.cut.extend(others);
    world.go_on();
}

/// The spec became one that cannot be used.
fn with_invalid_spec(mut world: World) -> World {
    let refused = vec![Unsafe::Spec { message: "`spec.size` must be 1 to 9, and is 0".to_owned() }];
    let plan = Plan::refusing(world.record.clone(), refused.clone());
    let etcd = EtcdObserved::nobody_to_ask("the spec cannot be used");
    let generation = Some(world.desired.generation + 1);
    let observed = Observed { generation, peer_service: None, client_service: None, etcd, ..world.observe() };
    world.status = status(&world.status, &Err(refused), &observed, &plan, world.now);
    world
}

fn with_secret(trouble: SecretTrouble) -> World {
    after(1, World::new(3, true, "3.6.10"), |world| {
        world.desired.tls.peer_secret = Some("peer".to_owned());
        world.secrets_missing.insert("peer".to_owned(), trouble);
    })
}

fn with_certificates() -> World {
    let mut world = World::new(3, true, "3.6.10");
    world.desired.tls.peer_secret = Some("peer".to_owned());
    world.run();
    world
}

/// Situations in which most things are as they should be.
fn good_situations() -> Vec<(&'static str, World)> {
    let is_patch = |step: &Step| matches!(step, Step::PatchImage { .. });
    let three = World::three;
    vec![
        ("forming", after(1, World::new(3, true, "3.6.10"), |_| ())),
        ("formed", after(1, three(), |_| ())),
        ("formed, without volumes", after(1, World::three_without_volumes(), |_| ())),
        ("formed, one member", after(1, World::formed(1, true, "3.6.10"), |_| ())),
        ("formed, with certificates", after(1, with_certificates(), |_| ())),
        (
            "another Secret for the certificates",
            after(1, with_certificates(), |world| world.desired.tls.peer_secret = Some("renewed".into())),
        ),
        (
            "TLS turned on under the members",
            after(1, three(), |world| world.desired.tls.peer_secret = Some("peer".into())),
        ),
        ("paused", after(1, three(), |world| world.desired.paused = true)),
        (
            "paused while a change is wanted",
            after(1, three(), |world| {
                world.desired.paused = true;
                world.want_version("3.7.3");
            }),
        ),
        ("deleting", after(1, three(), |world| world.desired.deleting = true)),
        ("scaling out", at_step(three(), |world| world.want_size(4), |step| matches!(step, Step::AddMember { .. }))),
        (
            "learner under way",
            after(3, three(), |world| {
                world.want_size(4);
                world.learners_lag = true;
            }),
        ),
        ("scaling in", at_step(three(), |world| world.want_size(2), |step| matches!(step, Step::RemoveMember { .. }))),
        (
            "what a removed member left is cleaned up",
            at_step(three(), |world| world.want_size(2), |step| matches!(step, Step::DeleteVolume { .. })),
        ),
        (
            "rolling a version",
            at_step(World::formed(3, true, "3.5.26"), |world| world.want_version("3.6.10"), is_patch),
        ),
        (
            "the next minor must wait",
            after(2, World::formed(1, true, "3.6.10"), |world| {
                world.storage_lags = true;
                world.want_version("3.7.3");
            }),
        ),
        (
            "leadership moves before the last one is changed",
            at_step(
                World::formed(3, true, "3.5.26"),
                |world| world.want_version("3.6.10"),
                |step| matches!(step, Step::MoveLeader { .. }),
            ),
        ),
        (
            "rolling a template",
            at_step(three(), World::want_other_template, |step| matches!(step, Step::DeletePod { .. })),
        ),
        ("restore under way", after(2, three(), |world| world.want_restore("r", 1_000_000))),
    ]
}

/// Situations in which something is lost, refused or waited for.
fn bad_situations() -> Vec<(&'static str, World)> {
    let three = World::three;
    vec![
        (
            "one member down",
            after(2, three(), |world| {
                let follower = world.follower();
                world.cut.insert(follower);
            }),
        ),
        (
            "one pod gone",
            after(1, three(), |world| {
                let follower = world.follower();
                world.kill_pod(&follower);
            }),
        ),
        (
            "one disk lost",
            after(1, three(), |world| {
                let follower = world.follower();
                world.lose_volume(&follower);
            }),
        ),
        (
            "one of two voters",
            after(1, World::formed(2, true, "3.6.10"), |world| {
                let follower = world.follower();
                world.cut.insert(follower);
                world.go_on();
            }),
        ),
        ("quorum lost", after(2, three(), without_quorum)),
        (
            "quorum lost for good",
            after(2, three(), |world| {
                let gone: Vec<_> = world.members().into_iter().take(2).collect();
                gone.iter().for_each(|name| world.wipe_under(name));
                world.go_on();
            }),
        ),
        (
            "all data lost",
            after(1, World::three_without_volumes(), |world| {
                world.pods.clear();
                world.go_on();
            }),
        ),
        ("the operator is cut off", after(1, three(), |world| world.operator_cut = true)),
        (
            "NOSPACE",
            after(1, three(), |world| {
                let (token, full) = (world.token(), id_of(world, &world.leader()));
                world.etcd.get_mut(&token).expect("it is formed").alarms.insert((full, Alarm::NoSpace));
            }),
        ),
        (
            "CORRUPT",
            after(1, three(), |world| {
                let (token, corrupt) = (world.token(), id_of(world, &world.follower()));
                world.rotten.insert(world.follower());
                world.etcd.get_mut(&token).expect("it is formed").alarms.insert((corrupt, Alarm::Corrupt));
            }),
        ),
        (
            "CORRUPT, and etcd does not know on whom",
            after(1, three(), |world| {
                let token = world.token();
                world.etcd.get_mut(&token).expect("it is formed").alarms.insert((MemberId(0), Alarm::Corrupt));
            }),
        ),
        (
            "a claim is deleted under its member",
            after(1, three(), |world| {
                let follower = world.follower();
                world.volumes.get_mut(&follower).expect("it has one").seen.deleting = true;
            }),
        ),
        ("Secret missing", with_secret(SecretTrouble::Absent)),
        ("Secret incomplete", with_secret(SecretTrouble::Incomplete { keys: vec!["peer.key"] })),
        ("Secret unreadable", with_secret(SecretTrouble::Unreadable { why: "forbidden".to_owned() })),
        (
            "a version that cannot be pulled",
            after(4, World::formed(3, true, "3.6.9"), |world| {
                world.missing_images.insert("3.6.99".into());
                world.want_version("3.6.99");
            }),
        ),
        (
            "and nobody corrects it",
            after(4, World::formed(3, true, "3.6.9"), |world| {
                world.missing_images.insert("3.6.99".into());
                world.want_version("3.6.99");
                world.run_passes(3);
                world.wait(10);
            }),
        ),
        ("a version that is refused", after(1, World::formed(3, true, "3.5.20"), |world| world.want_version("3.6.10"))),
        ("the archived operator is alive", after(1, three(), |world| world.legacy_alive = Some("Endpoints x".into()))),
        (
            "another cluster answers",
            after(1, three(), |world| {
                world.record.lineage.as_mut().expect("it is formed").cluster_id = Some(ClusterId(1));
            }),
        ),
        (
            "a Service of somebody else",
            after(1, three(), |world| {
                world.services.get_mut("c-client").expect("it is there").ours = false;
            }),
        ),
        (
            "status was lost",
            after(1, three(), |world| {
                world.record = Record::default();
                world.status = EtcdClusterStatus::default();
            }),
        ),
        (
            "a pod is refused",
            after(1, three(), |world| {
                world.kill_pod(&world.follower());
                world.refused_lineages.insert(world.token());
            }),
        ),
        ("invalid spec", with_invalid_spec(World::three())),
        ("invalid spec from the beginning", with_invalid_spec(World::new(3, true, "3.6.10"))),
    ]
}

/// What certificates and backups can be, the world being as it should be.
fn situations_of_others() -> Vec<(&'static str, World)> {
    let at = |world: &World, days: i64| world.now + SignedDuration::from_hours(24 * days);
    let certificate =
        |world: &World, from: i64, until: i64| Ok(Validity { from: at(world, from), until: at(world, until) });
    let with_certificate = |validity: &dyn Fn(&World) -> Result<Validity, String>| {
        after(1, with_certificates(), |world| {
            let good = certificate(world, -10, 400);
            let one = |key, validity| CertificateObserved { secret: "peer".to_owned(), key, validity };
            world.certificates = vec![one("peer-ca.crt", good), one("peer.crt", validity(world))];
        })
    };
    let with_backup = |name, edit: &dyn Fn(&World, &mut BackupObserved)| {
        (
            name,
            after(1, World::three(), |world| {
                let every = Some(SignedDuration::from_hours(1));
                let name = "hourly".to_owned();
                let mut backup =
                    BackupObserved { name, interval: every, created_at: world.now, last_success: None, failure: None };
                edit(world, &mut backup);
                world.backups = vec![backup];
            }),
        )
    };
    vec![
        ("certificates in date", with_certificate(&|world| certificate(world, -10, 90))),
        ("a certificate near its end", with_certificate(&|world| certificate(world, -91, 9))),
        ("a certificate that ended", with_certificate(&|world| certificate(world, -91, -1))),
        ("a certificate that begins tomorrow", with_certificate(&|world| certificate(world, 1, 90))),
        ("no certificate", with_certificate(&|_| Err("it holds no PEM certificate".to_owned()))),
        with_backup("its backup was not taken yet", &|_, _| ()),
        with_backup("its backup succeeds", &|world, backup| backup.last_success = Some(world.now)),
        with_backup("its backup fails", &|_, backup| backup.failure = Some("BucketMissing".to_owned())),
        with_backup("its backup is overdue", &|world, backup| {
            backup.last_success = Some(world.now - SignedDuration::from_hours(3));
        }),
    ]
}

/// Specs that deserve a word.
fn situations_with_warnings() -> Vec<(&'static str, World)> {
    let default = || "3.2.13".parse().expect("a version");
    let warnings = [
        ("an even size", SpecWarning::EvenSize { size: 4 }),
        ("no version", SpecWarning::VersionNotSet { default: default() }),
        ("the old default version", SpecWarning::VersionUnmaintained { version: default() }),
        ("a deprecated field", SpecWarning::AntiAffinityDeprecated),
        ("a field without effect", SpecWarning::AntiAffinityIgnored),
        ("a variable without effect", SpecWarning::EnvironmentIgnored { name: "ETCD_NAME".to_owned() }),
    ];
    let with = |warning| after(1, World::three(), |world| world.desired.warnings = vec![warning]);
    warnings.into_iter().map(|(name, warning)| (name, with(warning))).collect()
}

fn situations() -> Vec<(&'static str, World)> {
    let good = good_situations().into_iter().chain(situations_of_others()).chain(situations_with_warnings());
    good.chain(bad_situations()).collect()
}

/// The fields that scripts read, then the conditions.
fn describe(situation: &str, world: &World) -> String {
    let status = &world.status;
    let mut text = format!("-- {situation}\n");
    let (ready, unready) = (status.members.ready.len(), status.members.unready.len());
    let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let service = format!("{}:{}", or_none(&status.service_name), status.client_port);
    let phase = serde_json::to_value(status.phase).expect("a word");
    writeln!(
        text,
        "phase {}; {service}; size {}, ready {ready}, unready {unready}; version {} -> {}",
        or_none(phase.as_str().expect("a word")),
        status.size,
        or_none(&status.current_version),
        or_none(&status.target_version),
    )
    .expect("a String takes everything");
    writeln!(text, "reason: {}", or_none(&with_short_names(&status.reason))).expect("a String takes everything");
    for condition in &status.conditions {
        let (type_, says) = (&condition.type_, condition.status.as_str());
        writeln!(text, "  {type_:<18}{says:<8}{}", condition.reason).expect("a String takes everything");
    }
    text
}

#[test]
fn golden_table_of_status() {
    let table: Vec<_> = situations().iter().map(|(name, world)| describe(name, world)).collect();
    insta::with_settings!({
        snapshot_path => "../../tests/golden", prepend_module_to_snapshot => false, omit_expression => true,
    }, { insta::assert_snapshot!("status", table.join("\n")) });
}

#[test]
fn every_reason_of_every_condition_is_in_the_table() {
    let worlds = situations();
    let said = worlds.iter().flat_map(|(_, world)| &world.status.conditions);
    let said: BTreeSet<_> = said.map(|condition| (condition.type_.as_str(), condition.reason.as_str())).collect();
    let mut all: Vec<(&str, &str)> = Vec::new();
    macro_rules! reasons_of {
        ($($type_:literal: $reason:ty),+ $(,)?) => {
            $(all.extend(<$reason>::ALL.iter().map(|reason| ($type_, reason.as_str())));)+
        };
    }
    reasons_of!(
        "Ready": ReadyReason, "Available": AvailableReason, "Progressing": ProgressingReason,
        "Degraded": DegradedReason, "Paused": PausedReason, "Upgrading": UpgradingReason,
        "MembersHealthy": MembersHealthyReason, "QuorumAtRisk": QuorumAtRiskReason,
        "StorageHealthy": StorageHealthyReason, "CertificatesValid": CertificatesValidReason,
        "BackupHealthy": BackupHealthyReason, "LegacyConflict": LegacyConflictReason,
        "SpecWarnings": SpecWarningsReason, "Reconciling": ProgressingReason, "Stalled": StalledReason,
    );
    let absent: Vec<_> = all.into_iter().filter(|reason| !said.contains(reason)).collect();
    assert_eq!(absent, []);
}

#[test]
fn what_certificates_and_backups_are_is_said_in_words_that_stay_and_does_not_stop_ready() {
    let said: Vec<_> = situations_of_others()
        .into_iter()
        .map(|(_, mut world)| {
            let type_ = if world.certificates.is_empty() { "BackupHealthy" } else { "CertificatesValid" };
            let (status, reason, message) = condition(&world, type_);
            let said = format!("{} {reason}: {message}", status.as_str());
            assert_eq!(condition(&world, "Ready").0, ConditionStatus::True);
            world.run_passes(1);
            let (status, reason, message) = condition(&world, type_);
            assert_eq!(format!("{} {reason}: {message}", status.as_str()), said);
            said
        })
        .collect();
    insta::with_settings!({
        snapshot_path => "../../tests/golden", prepend_module_to_snapshot => false, omit_expression => true,
    }, { insta::assert_snapshot!("status_of_others", said.join("\n")) });
}

/// kstatus: a status whose generation is not the newest is one of a change that is still in progress.
#[test]
fn a_spec_that_cannot_be_used_was_observed_too() {
    let world = with_invalid_spec(World::three());
    let generation = Some(world.desired.generation + 1);
    assert_eq!(world.status.observed_generation, generation);
    let stalled = find(&world.status.conditions, "Stalled").expect("it is always there");
    assert_eq!((stalled.reason.as_str(), stalled.observed_generation), ("InvalidSpec", generation));
}

#[test]
fn a_backup_is_overdue_when_a_whole_interval_went_by_without_one() {
    let created_at = Timestamp::UNIX_EPOCH;
    let at = |seconds| created_at + SignedDuration::from_secs(seconds);
    let mut backup = BackupObserved {
        name: "b".to_owned(),
        interval: Some(SignedDuration::from_secs(3600)),
        created_at,
        last_success: None,
        failure: None,
    };
    assert!(!backup.is_overdue(at(2 * 3600 + 300)) && backup.is_overdue(at(2 * 3600 + 301)), "it never succeeded");
    backup.last_success = Some(at(3600));
    assert!(!backup.is_overdue(at(3 * 3600 + 300)) && backup.is_overdue(at(3 * 3600 + 301)));
    backup.interval = Some(SignedDuration::MAX);
    assert!(!backup.is_overdue(Timestamp::MAX));
    backup.interval = None;
    assert!(!backup.is_overdue(Timestamp::MAX), "once is once");
}

#[test]
fn a_warning_about_the_spec_is_said_from_the_first_pass_on_and_does_not_stop_ready() {
    let mut world = World::new(2, true, "3.6.10");
    world.desired.warnings = vec![SpecWarning::EvenSize { size: 2 }, SpecWarning::AntiAffinityDeprecated];
    world.run_passes(1);
    let said = "`spec.size` 2 is even: it tolerates no more failures than 1; \
                `spec.pod.antiAffinity` is deprecated: use `spec.pod.affinity`";
    assert_eq!(condition(&world, "SpecWarnings"), (ConditionStatus::True, "EvenSize", said));
    world.run();
    assert_eq!(condition(&world, "SpecWarnings"), (ConditionStatus::True, "EvenSize", said));
    assert_eq!(condition(&world, "Ready").0, ConditionStatus::True);
    world.desired.warnings.clear();
    world.run_passes(1);
    assert_eq!(condition(&world, "SpecWarnings"), (ConditionStatus::False, "NoWarnings", ""));
}
