//! Whole passes over an EtcdBackup, against a store and an API server that fail in the ways that real ones do.

pub(crate) mod called_off;
mod memory;
mod retention;
pub(crate) mod world;

use super::*;
use crate::api::conditions::find;
use crate::backup::snapshot::tests::bolt;
use crate::model::Revision;
use object_store::ObjectStoreExt;
use world::{Fault, Member, Op, World, now};

const ONCE: &str = "{etcdEndpoints: ['http://a:2379'], storageType: S3, s3: {path: bucket/dir/key}}";
const PERIODIC: &str = "{etcdEndpoints: ['http://a:2379'], storageType: S3, s3: {path: bucket/dir/key}, \
                        backupPolicy: {backupIntervalInSecond: 125, maxBackups: 2}}";

/// A snapshot of some keys; the last change gives its revision.
pub(crate) fn snapshot(revision: i64) -> Vec<u8> {
    let entry = |n: i64| bolt::Entry {
        key: format!("key-{n}").into_bytes(),
        value: vec![b'v'; 100],
        create_revision: n,
        mod_revision: n,
        version: 1,
    };
    bolt::write(revision, (2..=revision).map(entry))
}

fn manifest(spec: &str) -> String {
    format!(
        "{{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdBackup, \
         metadata: {{name: b, namespace: ns, uid: u1, generation: 1}}, spec: {spec}}}"
    )
}

struct Bench {
    world: World,
    key: ObjectKey,
    context: BackupContext,
}

impl Bench {
    fn new(spec: &str) -> Self {
        let world = World::new();
        world.members.serve("http://a:2379", 1, 40, &snapshot(42));
        let key = world.kubernetes.insert(Kind::EtcdBackup, &manifest(spec));
        Self { world, key, context: BackupContext::default() }
    }

    /// The same with parts so small that the snapshot takes several.
    fn multipart(spec: &str) -> Self {
        Self { context: BackupContext { part_bytes: 6000, ..BackupContext::default() }, ..Self::new(spec) }
    }

    fn pass(&self) -> Result<Next, BackupError> {
        let backup = self.world.kubernetes.read::<EtcdBackup>(&self.key);
        now(reconcile(&self.world.ports(), &self.key, backup, &self.context))
    }

    fn status(&self) -> EtcdBackupStatus {
        self.world.kubernetes.read::<EtcdBackup>(&self.key).status.clone().unwrap_or_default()
    }

    fn why(&self) -> String {
        find(&self.status().conditions, "BackupSucceeded").expect("always there").reason.clone()
    }

    fn records(&self) -> Vec<BackupRecord> {
        self.status().records
    }

    /// Every recorded backup is what its record says.
    fn check_records(&self) {
        for record in self.records().iter().filter(|record| !record.superseded) {
            let mut integrity = verify::Integrity::default();
            integrity.update(&self.world.object(&record.key));
            let checked = integrity.finish().expect("a whole snapshot");
            assert_eq!((checked.size as i64, checked.sha256), (record.size, record.sha256.clone()));
            let (revision, _) = bolt::read(&self.world.object(&record.key)).expect("a whole snapshot");
            assert_eq!(revision, record.revision);
        }
    }
}

#[test]
fn a_one_shot_backup_is_exactly_its_path_and_runs_once() {
    let bench = Bench::new(ONCE);
    assert_eq!(bench.pass(), Ok(Next::after(LOOK_BACK)));
    assert_eq!(bench.world.keys(), ["dir/key", "dir/key.manifest.json"]);
    let status = bench.status();
    assert!(status.succeeded && status.reason.is_empty());
    assert_eq!((status.etcd_version.as_str(), status.etcd_revision), ("3.5.26", 42), "the snapshot's own revision");
    assert_eq!(status.phase, Some(BackupPhase::Succeeded));
    bench.check_records();
    let writes = *bench.world.kubernetes.writes.lock().unwrap();
    for _ in 0..3 {
        bench.world.pass_time(4000);
        assert_eq!(bench.pass(), Ok(Next::after(LOOK_BACK)));
    }
    assert_eq!(*bench.world.kubernetes.writes.lock().unwrap(), writes, "nothing new, nothing written");
    assert_eq!(bench.records().len(), 1);
}

#[test]
fn a_one_shot_backup_whose_bucket_or_store_is_another_one_is_taken_there() {
    for (storage, block, other) in [
        ("S3", "s3", serde_json::json!({"path": "bucket-2/dir/key"})),
        ("S3", "s3", serde_json::json!({"path": "bucket/dir/key", "endpoint": "http://minio:9000"})),
        ("OSS", "oss", serde_json::json!({"path": "bucket/dir/key", "ossSecret": "oss"})),
    ] {
        let bench = Bench::new(ONCE);
        bench.world.kubernetes.insert(
            Kind::Secret,
            "{apiVersion: v1, kind: Secret, metadata: {name: oss, namespace: ns}, data: {accessKeyID: Cg==}}",
        );
        bench.pass().unwrap();
        let first = bench.world.keys();
        bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
            let spec = json["spec"].as_object_mut().expect("it has one");
            spec.remove("s3");
            spec.insert("storageType".to_owned(), storage.into());
            spec.insert(block.to_owned(), other.clone());
            json["metadata"]["generation"] = 2.into();
        });
        bench.world.pass_time(10);
        bench.pass().unwrap();
        assert_eq!(World::keys_of(&bench.world.elsewhere), first, "{other}");
        let told: Vec<_> = bench.records().iter().map(|record| (record.key.clone(), record.superseded)).collect();
        assert_eq!(told, [("dir/key".to_owned(), false), ("dir/key".to_owned(), false)], "both are there");
        assert!(bench.status().succeeded && bench.world.keys() == first, "{other}");
        bench.world.pass_time(4000);
        bench.pass().unwrap();
        assert_eq!(bench.records().len(), 2, "{other}: once");
    }
}

#[test]
fn a_record_that_does_not_say_where_it_is_counts_by_its_key() {
    let bench = Bench::new(ONCE);
    bench.pass().unwrap();
    bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
        for field in ["storageType", "endpoint", "bucket"] {
            json["status"]["records"][0].as_object_mut().expect("a record").remove(field);
        }
        json["spec"]["s3"]["path"] = "bucket-2/dir/key".into();
        json["metadata"]["generation"] = 2.into();
    });
    bench.pass().unwrap();
    assert_eq!(bench.records().len(), 1);
}

#[test]
fn a_one_shot_backup_is_not_called_ready_for_endpoints_that_it_was_not_taken_of() {
    let spec = ONCE.replace("['http://a:2379']", "['http://a:2379', 'http://b:2379']");
    let bench = Bench::new(&spec);
    bench.pass().unwrap();
    let name = |endpoints: &[&str], generation: i64| {
        bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
            json["spec"]["etcdEndpoints"] = endpoints.into();
            json["metadata"]["generation"] = generation.into();
        });
        bench.pass().unwrap();
        let status = bench.status();
        assert_eq!((status.observed_generation, status.records.len()), (Some(generation), 1), "it is not taken again");
        let of = |kind| find(&status.conditions, kind).expect("always there").clone();
        assert!(status.succeeded && of("BackupSucceeded").reason == "Confirmed", "what was taken is there");
        (of("Ready").reason, of("Stalled").reason, of("Ready").message)
    };
    let says = |(ready, stalled, _): &(String, String, String)| (ready.clone(), stalled.clone());
    let ready = ("Succeeded".to_owned(), "NotStalled".to_owned());
    assert_eq!(says(&name(&["http://b:2379", "http://a:2379"], 2)), ready, "in another order");
    let changed = name(&["http://other:2379"], 3);
    assert_eq!(says(&changed), ("SpecChanged".to_owned(), "SpecChanged".to_owned()));
    let words =
        "`spec.etcdEndpoints` was changed since `dir/key` was taken; create another EtcdBackup for what it names now";
    assert_eq!(changed.2, words);
    let writes = *bench.world.kubernetes.writes.lock().unwrap();
    bench.pass().unwrap();
    assert_eq!(*bench.world.kubernetes.writes.lock().unwrap(), writes, "said once");
    assert_eq!(says(&name(&["http://a:2379", "http://b:2379"], 4)), ready, "changed back");
    bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
        json["status"]["records"][0].as_object_mut().expect("a record").remove("etcdEndpoints");
    });
    assert_eq!(says(&name(&["http://other:2379"], 5)), ready, "a record of an earlier version says nothing");
}

#[test]
fn periodic_backups_keep_their_slots_their_names_and_the_newest_two() {
    let bench = Bench::new(PERIODIC);
    assert_eq!(bench.pass(), Ok(Next::after(SignedDuration::from_secs(125))));
    assert_eq!(
        bench.world.keys(),
        ["dir/key_v40_2026-11-30-02:03:04", "dir/key_v40_2026-11-30-02:03:04.manifest.json"]
    );
    bench.world.pass_time(60);
    assert_eq!(bench.pass(), Ok(Next::after(SignedDuration::from_secs(65))), "not before its slot");
    for revision in [99, 100, 101] {
        bench.world.members.serve("http://a:2379", 1, revision, &snapshot(revision));
        bench.world.pass_time(1000);
        bench.pass().unwrap();
    }
    let keys: Vec<_> = bench.world.keys().into_iter().filter(|key| !key.ends_with(".json")).collect();
    assert_eq!(keys, ["dir/key_v100_2026-11-30-02:37:24", "dir/key_v101_2026-11-30-02:54:04"]);
    assert_eq!(bench.records().iter().map(|record| record.revision).collect::<Vec<_>>(), [100, 101]);
    assert_eq!(bench.world.keys().len(), 4, "manifests go with their backups");
    bench.check_records();
}

/// Members that wait for an image would find another object than the one that was verified for them.
#[test]
fn a_one_shot_backup_waits_for_the_members_that_are_made_from_what_it_would_overwrite() {
    let bench = Bench::new(ONCE);
    bench.world.put("dir/key", b"verified".to_vec());
    let restore = |status: &str| {
        format!(
            "{{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdRestore, metadata: {{name: c, namespace: ns, \
             uid: r1}}, spec: {{etcdCluster: {{name: c}}, backupStorageType: S3, s3: {{path: bucket/dir/key}}}}, \
             status: {status}}}"
        )
    };
    let snapshot = "snapshot: {bucket: bucket, key: dir/key, size: 8, sha256: a, revision: 1}";
    for phase in ["Verified", "Restoring"] {
        bench.world.kubernetes.insert(Kind::EtcdRestore, &restore(&format!("{{phase: {phase}, {snapshot}}}")));
        assert_eq!(bench.pass(), Ok(Next::after(LOOK_AGAIN)), "{phase}");
        assert_eq!(bench.world.object("dir/key"), &b"verified"[..]);
        assert_eq!(bench.status().phase, Some(BackupPhase::Pending));
    }
    let why = "waiting for EtcdRestore `c` to end: its members fetch what this backup would overwrite";
    assert_eq!(bench.world.kubernetes.told(), [format!("Warning WaitingForRestore: {why}")]);
    *bench.world.kubernetes.refuse_lists.lock().unwrap() =
        Some(KubernetesError::Unavailable { message: "no route to host".into(), retry_after: None });
    bench.pass().unwrap();
    assert_eq!(bench.world.object("dir/key"), &b"verified"[..], "nor while it is not known");
    *bench.world.kubernetes.refuse_lists.lock().unwrap() = None;
    bench.world.kubernetes.insert(Kind::EtcdRestore, &restore("{phase: Pending}"));
    bench.pass().unwrap();
    assert!(bench.status().succeeded, "{}", bench.status().reason);
    bench.check_records();
}

#[test]
fn an_answer_that_got_lost_is_resolved_by_looking() {
    for bench in [Bench::new(ONCE), Bench::new(PERIODIC), Bench::multipart(ONCE), Bench::multipart(PERIODIC)] {
        bench.world.store.fail(Op::Put, Fault::After, 1);
        bench.world.store.fail(Op::Complete, Fault::After, 1);
        bench.pass().unwrap();
        assert!(bench.status().succeeded, "{}", bench.status().reason);
        assert_eq!(bench.records().len(), 1);
        bench.check_records();
    }
}

#[test]
fn what_is_not_in_the_store_has_not_succeeded_and_is_tried_again() {
    for (bench, op) in [(Bench::new(ONCE), Op::Put), (Bench::multipart(PERIODIC), Op::Complete)] {
        for fault in [Fault::Before, Fault::Hang] {
            bench.world.store.fail(op, fault, 1);
            bench.pass().unwrap();
            assert!(!bench.status().succeeded && bench.records().is_empty());
            assert_eq!(bench.status().phase, Some(BackupPhase::Failed));
            assert!(bench.world.keys().is_empty());
            bench.world.pass_time(100);
        }
        assert_eq!(bench.status().attempts, 2);
        bench.pass().unwrap();
        assert!(bench.status().succeeded && bench.status().attempts == 0, "{}", bench.status().reason);
        bench.check_records();
    }
}

#[test]
fn an_upload_of_parts_that_fails_is_called_off() {
    let bench = Bench::multipart(PERIODIC);
    bench.world.store.fail(Op::Part, Fault::Before, 1);
    bench.pass().unwrap();
    assert_eq!((bench.why().as_str(), *bench.world.store.aborted.lock().unwrap()), ("StoreFailed", 1));
    bench.world.pass_time(100);
    bench.world.members.change("http://a:2379", |member| member.snapshot.truncate(2));
    bench.pass().unwrap();
    assert_eq!((bench.why().as_str(), *bench.world.store.aborted.lock().unwrap()), ("SnapshotCorrupt", 2));
    assert!(bench.world.keys().is_empty(), "nothing becomes visible before the snapshot's own hash was right");
}

#[test]
fn parts_are_as_large_as_they_may_be_and_no_larger() {
    let bench = Bench::multipart(ONCE);
    bench.pass().unwrap();
    assert_eq!(*bench.world.store.largest.lock().unwrap(), 6000);
    bench.check_records();
}

#[test]
fn a_store_that_holds_other_bytes_is_found_out_and_a_bit_flipped_on_the_way_is_forgiven() {
    let bench = Bench::new(PERIODIC);
    bench.world.store.fail(Op::Get, Fault::Flip, 1);
    bench.pass().unwrap();
    assert!(bench.status().succeeded);
    bench.world.pass_time(200);
    bench.world.store.fail(Op::Get, Fault::Flip, 3);
    bench.pass().unwrap();
    assert!(!bench.status().succeeded);
    assert_eq!(bench.why(), "NotConfirmed");
    assert_eq!(bench.records().len(), 1, "the earlier one is still good");
    assert_eq!(bench.world.keys().len(), 2, "what was not confirmed is taken away");
    bench.check_records();
}

#[test]
fn a_bit_flipped_in_any_one_read_never_becomes_a_revision() {
    for read in 0..40 {
        let bench = Bench::new(ONCE);
        bench.world.store.fail(Op::Get, Fault::Nothing, read);
        bench.world.store.fail(Op::Get, Fault::Flip, 1);
        bench.pass().unwrap();
        bench.check_records();
        bench.world.pass_time(100);
        bench.pass().unwrap();
        assert_eq!(bench.records().len(), 1, "read {read}: {}", bench.status().reason);
    }
}

#[test]
fn a_periodic_backup_never_overwrites() {
    for bench in [Bench::new(PERIODIC), Bench::multipart(PERIODIC)] {
        for fault in [None, Some(Fault::Unsupported)] {
            bench.world.put("dir/key_v40_2026-11-30-02:03:04", b"another's".to_vec());
            if let Some(fault) = fault {
                bench.world.store.fail(Op::Put, fault, 1);
            }
            bench.pass().unwrap();
            assert_eq!(bench.world.object("dir/key_v40_2026-11-30-02:03:04"), &b"another's"[..]);
            assert!(bench.records().is_empty());
            bench.world.store.faults.lock().unwrap().clear();
            bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| json["status"] = serde_json::json!({}));
            bench.world.turn_back();
        }
    }
}

#[test]
fn a_store_without_preconditions_is_written_all_the_same() {
    let bench = Bench::new(PERIODIC);
    bench.world.store.fail(Op::Put, Fault::Unsupported, 1);
    bench.pass().unwrap();
    assert!(bench.status().succeeded, "{}", bench.status().reason);
    bench.check_records();
}

#[test]
fn failing_endpoints_are_reported_and_not_fatal() {
    let spec = ONCE.replace("['http://a:2379']", "['http://a:2379', 'b:2379', 'http://c:2379']");
    let bench = Bench::new(&spec);
    bench.world.members.serve("http://c:2379", 3, 41, &snapshot(43));
    bench.world.members.change("http://c:2379", |member| {
        member.snapshot.truncate(1);
        member.snapshot.push(Err(crate::ports::EtcdError::Unavailable { message: "reset".to_owned() }));
    });
    bench.pass().unwrap();
    let status = bench.status();
    assert!(status.succeeded, "{}", status.reason);
    let failed: Vec<_> =
        status.failed_endpoints.iter().map(|one| (one.endpoint.as_str(), one.message.as_str())).collect();
    assert_eq!(
        failed,
        [
            ("b:2379", "not available: connection refused"),
            ("http://c:2379", "the snapshot stream broke off: not available: reset"),
        ]
    );
    assert_eq!(bench.records()[0].member_id, "1");
}

#[test]
fn a_stream_that_stands_still_is_given_up_after_the_time_of_the_spec() {
    let bench = Bench::new(&ONCE.replace("storageType", "backupPolicy: {timeoutInSecond: 7}, storageType"));
    bench.world.members.change("http://a:2379", |member: &mut Member| {
        member.snapshot.truncate(1);
        member.hangs = true;
    });
    bench.pass().unwrap();
    assert_eq!(bench.why(), "TimedOut");
    let expected = "the member's snapshot stood still for 7s (`backupPolicy.timeoutInSecond`) after 5000 bytes";
    assert_eq!(bench.status().reason, expected);
}

/// Its disk hangs, and it is asked first because it leads.
#[test]
fn a_member_whose_snapshot_stands_still_is_skipped_for_one_that_gives_it() {
    let endpoints = "etcdEndpoints: ['http://a:2379']";
    assert!(ONCE.contains(endpoints));
    let bench = Bench::new(&ONCE.replace(endpoints, "etcdEndpoints: ['http://a:2379', 'http://b:2379']"));
    bench.world.members.serve("http://b:2379", 2, 39, &snapshot(42));
    bench.world.members.change("http://a:2379", |member: &mut Member| {
        member.snapshot.truncate(1);
        member.hangs = true;
    });
    bench.pass().unwrap();
    assert_eq!(bench.records().len(), 1, "{}", bench.status().reason);
    assert_eq!(bench.status().failed_endpoints.len(), 1);
    assert_eq!(bench.records()[0].member_id, crate::model::MemberId(2).to_string());
}

/// The endpoint is a Service: each connection leads to another member.
#[test]
fn what_a_member_that_lags_behind_gives_is_not_taken_for_the_snapshot_of_the_one_that_was_asked() {
    for spec in [ONCE, PERIODIC] {
        let bench = Bench::new(spec);
        bench.world.put("dir/key", snapshot(50));
        bench.world.members.serve("http://a:2379", 1, 50, &snapshot(42));
        bench.world.members.change("http://a:2379", |member| member.snapshot_status = Some(world::status(2, 42)));
        bench.pass().unwrap();
        assert!(!bench.status().succeeded);
        assert_eq!((bench.why().as_str(), bench.world.keys()), ("SnapshotFailed", vec!["dir/key".to_owned()]));
        assert_eq!(bench.world.object("dir/key"), &snapshot(50)[..]);
        let why = "this connection led to member 2, from which the snapshot is not taken: it has revision 42, where 50 was \
                   found before (an endpoint may lead to several)";
        assert_eq!(bench.status().reason, why);
        bench.world.members.change("http://a:2379", |member| member.snapshot_status = Some(world::status(3, 51)));
        bench.world.pass_time(10);
        bench.pass().unwrap();
        let record = &bench.records()[0];
        assert_eq!(
            (record.member_id.as_str(), record.key.contains("_v51_")),
            ("3", spec == PERIODIC),
            "{}",
            record.key
        );
    }
}

#[test]
fn a_missing_secret_is_waited_for_and_named() {
    let bench = Bench::new(&ONCE.replace("dir/key}", "dir/key, awsSecret: aws}, clientTLSSecret: tls"));
    assert_eq!(bench.pass(), Ok(Next::after(LOOK_AGAIN)));
    assert_eq!(
        bench.status().reason,
        "waiting for Secret `aws` (`spec.s3.awsSecret`), which does not exist; \
         waiting for Secret `tls` (`spec.clientTLSSecret`), which does not exist"
    );
    let secret = |name: &str, data: &str| {
        format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, namespace: ns}}, data: {data}}}")
    };
    bench.world.kubernetes.insert(Kind::Secret, &secret("aws", "{credentials: Cg==}"));
    bench.world.kubernetes.insert(Kind::Secret, &secret("tls", "{etcd-client.crt: Cg==}"));
    bench.pass().unwrap();
    assert_eq!(
        bench.status().reason,
        "waiting for Secret `tls` to hold key `etcd-client-ca.crt`, key `etcd-client.key`"
    );
    let whole = "{etcd-client.crt: Cg==, etcd-client.key: Cg==, etcd-client-ca.crt: Cg==}";
    bench.world.kubernetes.insert(Kind::Secret, &secret("tls", whole));
    bench.pass().unwrap();
    assert!(bench.status().succeeded && bench.status().reason.is_empty());
}

#[test]
fn a_stale_view_begins_nothing() {
    let bench = Bench::new(PERIODIC);
    let stale = bench.world.kubernetes.read::<EtcdBackup>(&bench.key);
    bench.pass().unwrap();
    bench.world.pass_time(1);
    let keys = bench.world.keys();
    let again = now(reconcile(&bench.world.ports(), &bench.key, stale, &bench.context));
    assert!(matches!(again, Err(BackupError::Write { source: KubernetesError::Conflict { .. }, .. })));
    assert_eq!(bench.world.keys(), keys);
}

#[test]
fn the_result_of_a_run_survives_edits_and_lost_answers() {
    let bench = Bench::new(PERIODIC);
    // The last element is answered first: the run's beginning is written, then its result in three attempts.
    bench.world.kubernetes.lose.lock().unwrap().push(KubernetesError::Ambiguous { message: String::new() });
    let first = bench.pass();
    assert!(matches!(first, Err(BackupError::Write { source: KubernetesError::Ambiguous { .. }, .. })));
    assert_eq!(bench.status().phase, Some(BackupPhase::Running), "it was written, and the pass could not know");
    assert!(bench.world.keys().is_empty());
    bench.world.pass_time(5);
    bench.pass().unwrap();
    assert!(bench.status().succeeded, "an interrupted run is taken again");
    assert_eq!(bench.records().len(), 1);
}

#[test]
fn an_interrupted_run_is_taken_again_although_the_next_pass_came_too_early() {
    let bench = Bench::new(PERIODIC);
    bench.world.kubernetes.lose.lock().unwrap().push(KubernetesError::Ambiguous { message: String::new() });
    assert!(bench.pass().is_err() && bench.world.keys().is_empty());
    bench.world.pass_time(1);
    assert_eq!(bench.pass(), Ok(Next::after(SignedDuration::from_secs(4))));
    assert_eq!((bench.status().attempts, bench.why().as_str()), (1, "Interrupted"));
    bench.world.pass_time(5);
    bench.pass().unwrap();
    assert_eq!(bench.records().len(), 1, "{}", bench.status().reason);
}

#[test]
fn an_interrupted_run_is_taken_again_whatever_holds_it_up_first() {
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: aws, namespace: ns}, data: {credentials: Cg==}}";
    let spec = PERIODIC.replace("dir/key}", "dir/key, awsSecret: aws}").replace("125", "86400");
    type Case = (&'static str, fn(&mut Bench), fn(&mut Bench));
    let cases: [Case; 3] = [
        ("no Secret", |bench| bench.world.kubernetes.remove(Kind::Secret, &ObjectKey::new("ns", "aws")), |_| {}),
        (
            "a fresh lock",
            |bench| bench.context.legacy_alive = Some("lock".into()),
            |bench| bench.context.legacy_alive = None,
        ),
        ("a spec that cannot be used", |bench| set_max_backups(bench, -1), |bench| set_max_backups(bench, 2)),
    ];
    for (what, hold_up, let_go) in cases {
        let mut bench = Bench::new(&spec);
        bench.world.kubernetes.insert(Kind::Secret, secret);
        bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
            json["status"] = serde_json::json!({"phase": "Running", "lastRunTime": "2026-11-30T02:02:04Z"});
        });
        hold_up(&mut bench);
        bench.pass().unwrap();
        assert_eq!(bench.status().attempts, 1, "{what}");
        let told = bench.world.kubernetes.told();
        assert!(!told.is_empty() && bench.world.keys().is_empty(), "{what}: {told:?}");
        let_go(&mut bench);
        bench.world.kubernetes.insert(Kind::Secret, secret);
        bench.pass().unwrap();
        assert_eq!(bench.records().len(), 1, "{what}: {}", bench.status().reason);
    }
}

fn set_max_backups(bench: &Bench, count: i64) {
    bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
        json["spec"]["backupPolicy"]["maxBackups"] = count.into();
    });
}

#[test]
fn what_holds_up_a_backup_that_was_interrupted_is_told_beside_that() {
    let bench = Bench::new(&PERIODIC.replace("dir/key}", "dir/key, awsSecret: aws}"));
    bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
        let record =
            serde_json::json!({"key": "k", "revision": 1, "size": 1, "sha256": "", "time": "2026-11-30T02:02:04Z"});
        json["status"] =
            serde_json::json!({"phase": "Running", "lastRunTime": "2026-11-30T02:02:04Z", "records": [record]});
    });
    bench.pass().unwrap();
    assert_eq!(
        bench.world.kubernetes.told(),
        [
            "Normal BackupRetried: the operator stopped while the backup ran; it is taken again",
            "Warning WaitingForSecret: waiting for Secret `aws` (`spec.s3.awsSecret`), which does not exist",
        ]
    );
}

#[test]
fn the_archived_operators_finalizer_goes_and_its_finished_backup_stays_finished() {
    let bench = Bench::new(ONCE);
    bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
        json["metadata"]["finalizers"] = serde_json::json!(["backup-operator-periodic", "mine"]);
        json["status"] = serde_json::json!({"succeeded": true, "etcdRevision": 7, "etcdVersion": "3.2.13"});
    });
    bench.pass().unwrap();
    let backup = bench.world.kubernetes.read::<EtcdBackup>(&bench.key);
    assert_eq!(backup.metadata.finalizers, Some(vec!["mine".to_owned()]));
    assert!(bench.world.keys().is_empty() && bench.status().succeeded);
    bench.pass().unwrap();
    assert!(bench.world.keys().is_empty(), "not even when its status is ours");
}

#[test]
fn the_archived_operators_finalizer_stays_as_long_as_its_lock_is_fresh() {
    for (spec, deleted) in [(PERIODIC, false), (PERIODIC, true), (ONCE, true), ("{etcdEndpoints: []}", true)] {
        let mut bench = Bench::new(spec);
        bench.context.legacy_alive = Some("etcd-backup-operator".to_owned());
        bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
            json["metadata"]["finalizers"] = serde_json::json!(["backup-operator-periodic", "mine"]);
            if deleted {
                json["metadata"]["deletionTimestamp"] = "2026-11-30T02:03:04Z".into();
            }
        });
        let finalizers = || {
            let backup = bench.world.kubernetes.read::<EtcdBackup>(&bench.key);
            backup.metadata.finalizers.clone().unwrap_or_default()
        };
        for _ in 0..2 {
            let next = bench.pass().unwrap();
            assert_eq!(finalizers(), ["backup-operator-periodic", "mine"]);
            assert_eq!(next, Next::after(LOOK_AGAIN), "nothing tells that the lock has ended: {spec}, {deleted}");
        }
        bench.context.legacy_alive = None;
        bench.pass().unwrap();
        let backup = bench.world.kubernetes.read::<EtcdBackup>(&bench.key);
        assert_eq!(backup.metadata.finalizers, Some(vec!["mine".to_owned()]));
    }
}

/// For the archived operator a reason was the end, and somebody may have put something else at the path since.
#[test]
fn a_backup_that_failed_under_the_archived_operator_is_not_taken_again_before_its_spec_changes() {
    let mut bench = Bench::new(ONCE);
    bench.world.put("dir/key", b"of another one".to_vec());
    bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
        json["status"] = serde_json::json!({"succeeded": false, "Reason": "failed to save snapshot: no such bucket"});
    });
    for lock in [Some("etcd-backup-operator".to_owned()), None, None] {
        bench.context.legacy_alive = lock;
        assert_eq!(bench.pass(), Ok(Next::ON_CHANGE));
        assert_eq!(bench.world.keys(), ["dir/key"]);
        assert_eq!(bench.world.object("dir/key"), &b"of another one"[..]);
    }
    let status = bench.status();
    assert_eq!((bench.why().as_str(), status.phase), ("FailedBefore", Some(BackupPhase::Failed)));
    assert_eq!(status.reason, "failed to save snapshot: no such bucket");
    let said = &find(&status.conditions, "Stalled").expect("always there").message;
    assert!(said.contains("no such bucket") && said.ends_with("a change of the spec starts it anew"), "{said}");
    assert_eq!(bench.world.kubernetes.told(), [format!("Warning BackupFailed: {said}")]);

    bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| json["metadata"]["generation"] = 2.into());
    bench.context.legacy_alive = Some("etcd-backup-operator".to_owned());
    bench.pass().unwrap();
    assert_eq!(bench.world.keys(), ["dir/key"]);
    bench.context.legacy_alive = None;
    bench.pass().unwrap();
    assert!(bench.status().succeeded, "{}", bench.status().reason);
    bench.check_records();
}

#[test]
fn a_schedule_goes_on_after_a_failure_under_the_archived_operator() {
    let bench = Bench::new(PERIODIC);
    bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
        json["status"] = serde_json::json!({"succeeded": false, "Reason": "no such bucket"});
    });
    bench.pass().unwrap();
    assert!(bench.status().succeeded);
}

#[test]
fn a_fresh_lock_of_the_archived_operator_stops_everything() {
    let mut bench = Bench::new(ONCE);
    bench.context.legacy_alive = Some("etcd-backup-operator".to_owned());
    assert_eq!(bench.pass(), Ok(Next::after(LOOK_AGAIN)));
    assert!(bench.world.keys().is_empty());
    assert_eq!(find(&bench.status().conditions, "Stalled").unwrap().reason, "LegacyOperatorAlive");
}

#[test]
fn an_overwritten_one_shot_backup_says_so() {
    let bench = Bench::new(ONCE);
    bench.pass().unwrap();
    let mut other: manifest::Manifest = serde_json::from_slice(&bench.world.object("dir/key.manifest.json")).unwrap();
    other.sha256 = "another".to_owned();
    bench.world.put("dir/key.manifest.json", other.to_json());
    bench.world.pass_time(4000);
    bench.pass().unwrap();
    assert!(bench.records()[0].superseded && bench.status().succeeded);
    let writes = *bench.world.kubernetes.writes.lock().unwrap();
    bench.pass().unwrap();
    assert_eq!(*bench.world.kubernetes.writes.lock().unwrap(), writes);
}

#[test]
fn a_one_shot_backup_that_is_no_longer_in_the_store_says_so() {
    let bench = Bench::new(ONCE);
    bench.pass().unwrap();
    let object = bench.world.object("dir/key").to_vec();
    now(bench.world.store.inner.delete(&"dir/key".into())).unwrap();
    let ready = || {
        let ready = find(&bench.status().conditions, "Ready").expect("always there").clone();
        (ready.reason, ready.message)
    };
    bench.world.kubernetes.told();
    assert_eq!(bench.pass(), Ok(Next::after(LOOK_BACK)));
    let gone = ("Gone".to_owned(), "the backup was taken; `dir/key` is no longer in the store".to_owned());
    assert_eq!(ready(), gone);
    assert_eq!(bench.world.kubernetes.told(), [format!("Warning BackupGone: {}", gone.1)]);
    bench.world.store.fail(Op::Head, Fault::Before, 1);
    let writes = *bench.world.kubernetes.writes.lock().unwrap();
    for _ in 0..2 {
        bench.pass().unwrap();
    }
    assert_eq!(*bench.world.kubernetes.writes.lock().unwrap(), writes, "a store that does not answer says nothing");
    assert!(bench.records().len() == 1 && bench.status().succeeded, "it is not taken again");
    bench.world.put("dir/key", object);
    bench.pass().unwrap();
    assert_eq!(ready(), ("Succeeded".to_owned(), String::new()), "somebody put it back");
}

/// The manifest that is left is that of the object before it.
#[test]
fn a_one_shot_backup_that_could_not_write_its_manifest_is_not_called_overwritten() {
    let bench = Bench::new(ONCE);
    bench.pass().unwrap();
    let second = bench
        .world
        .kubernetes
        .insert(Kind::EtcdBackup, &manifest(ONCE).replace("name: b,", "name: b2,").replace("uid: u1", "uid: u2"));
    let pass = |key: &ObjectKey| {
        let backup = bench.world.kubernetes.read::<EtcdBackup>(key);
        now(reconcile(&bench.world.ports(), key, backup, &bench.context)).unwrap();
        bench.world.kubernetes.read::<EtcdBackup>(key).status.clone().expect("it was written")
    };
    bench.world.pass_time(100);
    bench.world.members.serve("http://a:2379", 1, 400, &snapshot(400));
    bench.world.store.fail(Op::Put, Fault::Nothing, 1);
    bench.world.store.fail(Op::Put, Fault::Before, 3);
    let taken = pass(&second);
    let said = &find(&taken.conditions, "BackupSucceeded").expect("always there").message;
    assert!(said.contains("its manifest could not be written"), "{said}");
    assert_eq!(pass(&second).records.iter().map(|record| record.superseded).collect::<Vec<_>>(), [false]);
    assert!(pass(&bench.key).records[0].superseded, "what it replaced has another size");
}

#[test]
fn each_transition_is_told_in_one_event() {
    let bench = Bench::new(&PERIODIC.replace("dir/key}", "dir/key, awsSecret: aws}"));
    let told = || bench.world.kubernetes.told();
    for expected in
        [&["Warning WaitingForSecret: waiting for Secret `aws` (`spec.s3.awsSecret`), which does not exist"][..], &[]]
    {
        bench.pass().unwrap();
        assert_eq!(told(), expected);
    }
    bench.world.kubernetes.insert(
        Kind::Secret,
        "{apiVersion: v1, kind: Secret, metadata: {name: aws, namespace: ns}, data: {credentials: Cg==}}",
    );
    bench.world.store.fail(Op::Put, Fault::Before, 3);
    for attempt in 1..=3 {
        bench.pass().unwrap();
        let said = told();
        let first = "Warning BackupFailed: writing `bucket/dir/key_v40_2026-11-30-02:03:04`: the store failed \
                     (500 Internal Server Error); and afterwards: `dir/key_v40_2026-11-30-02:03:04` is not in the store; \
                     it is tried again";
        assert_eq!(said, if attempt == 1 { vec![first] } else { Vec::new() }, "attempt {attempt}");
        bench.world.pass_time(100);
    }
    bench.pass().unwrap();
    let said = told();
    assert_eq!(said.len(), 1, "{said:?}");
    let oldest = bench.records()[0].key.clone();
    assert!(said[0].starts_with(&format!("Normal BackupSucceeded: `{oldest}` is complete")), "{said:?}");
    assert!(said[0].ends_with(" bytes, after 3 failed attempts"), "{said:?}");
    for _ in 0..2 {
        bench.world.pass_time(200);
        bench.pass().unwrap();
    }
    let said = told();
    assert_eq!(said.len(), 3, "{said:?}");
    let gone = format!("Normal OldBackupsDeleted: `{oldest}` was removed from the store: `maxBackups` are newer");
    assert_eq!(said[2], gone);
    bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| json["status"]["phase"] = "Running".into());
    bench.world.pass_time(200);
    bench.pass().unwrap();
    let said = told();
    assert_eq!(said[0], "Normal BackupRetried: the operator stopped while the backup ran; it is taken again");
    assert!(said[1].starts_with("Normal BackupSucceeded: "), "{said:?}");
}
