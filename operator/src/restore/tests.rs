//! Whole passes over an EtcdRestore: what is said of each kind of object in the store, and how progress is followed.

use super::*;
use crate::api::conditions::find;
use crate::api::{EtcdCluster, RestoreRunPhase};
use crate::backup::tests::called_off::Stepped;
use crate::backup::tests::snapshot;
use crate::backup::tests::world::{Fault, Op, World, now};
use crate::ports::{Clock, Fence, Kind};
use serde_json::json;

struct Bench {
    world: World,
    key: ObjectKey,
}

impl Bench {
    fn new() -> Self {
        let world = World::new();
        world.kubernetes.insert(
            Kind::EtcdCluster,
            "{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdCluster, \
             metadata: {name: c, namespace: ns, uid: c1}, spec: {size: 3}}",
        );
        let key = world.kubernetes.insert(
            Kind::EtcdRestore,
            "{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdRestore, \
             metadata: {name: c, namespace: ns, uid: r1, generation: 1}, \
             spec: {etcdCluster: {name: c}, backupStorageType: S3, s3: {path: bucket/dir/key, awsSecret: aws}}}",
        );
        world.kubernetes.insert(
            Kind::Secret,
            "{apiVersion: v1, kind: Secret, metadata: {name: aws, namespace: ns}, data: {credentials: Cg==}}",
        );
        Self { world, key }
    }

    fn pass(&self) -> Next {
        let restore = self.world.kubernetes.read::<EtcdRestore>(&self.key);
        let context = BackupContext::default();
        now(reconcile(&self.world.ports(), &self.key, restore, &context)).expect("status can be written")
    }

    fn pass_beside_the_archived_operator(&self) {
        let restore = self.world.kubernetes.read::<EtcdRestore>(&self.key);
        let context = BackupContext { legacy_alive: Some("Endpoints ns/lock".to_owned()), ..BackupContext::default() };
        now(reconcile(&self.world.ports(), &self.key, restore, &context)).expect("status can be written");
    }

    fn status(&self) -> EtcdRestoreStatus {
        self.world.kubernetes.read::<EtcdRestore>(&self.key).status.clone().unwrap_or_default()
    }

    fn why(&self) -> String {
        find(&self.status().conditions, "RestoreSucceeded").expect("always there").reason.clone()
    }

    fn cluster_says(&self, status: serde_json::Value) {
        self.world.kubernetes.edit(Kind::EtcdCluster, &self.key, |json| json["status"] = status);
    }

    fn untouched(&self) {
        assert_eq!(self.world.kubernetes.read::<EtcdCluster>(&self.key).status, None);
    }
}

fn lineage(restored_from: Option<&str>) -> serde_json::Value {
    json!({"attempt": 1, "token": "t", "formed": true, "seeds": ["c-a"], "restoredFrom": restored_from})
}

#[test]
fn a_good_snapshot_is_recorded_and_the_cluster_is_followed_to_the_end() {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    assert_eq!(bench.pass(), Next::after(FOLLOW));
    let verified = bench.status();
    assert_eq!(verified.phase, Some(RestoreRunPhase::Verified));
    let recorded = verified.snapshot.unwrap();
    assert_eq!((recorded.revision, recorded.size), (42, snapshot(42).len() as i64));
    assert_eq!((recorded.bucket.as_str(), recorded.key.as_str()), ("bucket", "dir/key"));
    assert!(!verified.succeeded);
    bench.untouched();

    for phase in ["Starting", "Confirmed", "Switched"] {
        bench.cluster_says(under_way(phase));
        assert_eq!(bench.pass(), Next::after(FOLLOW));
        assert_eq!(bench.status().phase, Some(RestoreRunPhase::Restoring), "{phase}");
        assert!(!bench.status().succeeded);
    }
    bench.cluster_says(json!({"lineage": lineage(Some("r1"))}));
    assert_eq!(bench.pass(), Next::ON_CHANGE);
    let status = bench.status();
    assert!(status.succeeded && status.reason.is_empty());
    assert_eq!(status.phase, Some(RestoreRunPhase::Succeeded));

    let told = bench.world.kubernetes.told();
    assert_eq!(
        told,
        [
            "Normal SnapshotVerified: the snapshot of revision 42 is good; nothing was touched yet",
            "Normal RestoreStarted: members are being started from the snapshot; the old ones still serve",
            "Normal RestoreSwitching: the restored members have quorum and the snapshot's revision; \
             the old ones are being stopped",
            "Normal RestoreSucceeded: the EtcdCluster serves the data of revision 42",
        ]
    );

    // Never twice: not even when the EtcdCluster is another one by now.
    bench.cluster_says(json!({}));
    let writes = *bench.world.kubernetes.writes.lock().unwrap();
    assert_eq!(bench.pass(), Next::ON_CHANGE);
    assert_eq!(*bench.world.kubernetes.writes.lock().unwrap(), writes);
}

/// The EtcdCluster calls a restore off that its EtcdRestore does not want any more, with all that was restored by then.
#[test]
fn what_holds_the_pass_up_for_a_moment_does_not_call_the_restore_off() {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    bench.pass();
    bench.cluster_says(under_way("Starting"));
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Restoring));
    bench.pass_beside_the_archived_operator();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Restoring));
    assert_eq!(bench.why(), "NotYet");
}

fn under_way(phase: &str) -> serde_json::Value {
    json!({"lineage": lineage(None), "restore":
        {"name": "c", "uid": "r1", "phase": phase, "lineage": lineage(Some("r1"))}})
}

#[test]
fn another_snapshot_is_verified_before_members_start_from_it_and_the_first_one_is_called_off() {
    for (path, secret) in [("bucket/dir/other", "aws"), ("bucket/dir/key", "aws2")] {
        let bench = Bench::new();
        bench.world.put("dir/key", snapshot(42));
        bench.world.put("dir/other", snapshot(7));
        bench.pass();
        bench.cluster_says(under_way("Starting"));
        bench.pass();
        bench.world.kubernetes.edit(Kind::EtcdRestore, &bench.key, |json| {
            json["spec"]["s3"] = json!({"path": path, "awsSecret": secret});
            json["metadata"]["generation"] = json!(2);
        });
        bench.pass_beside_the_archived_operator();
        assert_eq!(bench.status().observed_generation, Some(1), "nothing of the new spec was looked at");
        bench.pass();
        let status = bench.status();
        if secret == "aws2" {
            // Only `Verified` and `Restoring` make the EtcdCluster go on: it stops and waits for the Secret, too.
            assert_eq!(status.phase, Some(RestoreRunPhase::Pending), "{}", status.reason);
            bench.world.kubernetes.insert(
                Kind::Secret,
                "{apiVersion: v1, kind: Secret, metadata: {name: aws2, namespace: ns}, data: {credentials: Cg==}}",
            );
            bench.pass();
        }
        let verifying = bench.world.kubernetes.phases("EtcdRestore");
        assert!(verifying.contains(&"Verifying".to_owned()), "the EtcdCluster sees that it is to stop: {verifying:?}");
        let status = bench.status();
        assert_eq!((status.phase, status.observed_generation), (Some(RestoreRunPhase::Verified), Some(2)));
        assert_eq!(status.snapshot.map(|snapshot| snapshot.key), Some(path.trim_start_matches("bucket/").to_owned()));
    }
}

#[test]
fn a_spec_that_is_changed_once_the_restored_members_are_confirmed_is_not_said_to_be_restored() {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    bench.pass();
    bench.cluster_says(under_way("Starting"));
    bench.pass();
    bench.cluster_says(under_way("Confirmed"));
    bench.world.kubernetes.edit(Kind::EtcdRestore, &bench.key, |json| {
        json["spec"]["s3"]["path"] = json!("bucket/dir/other");
        json["metadata"]["generation"] = json!(2);
    });
    bench.pass();
    let status = bench.status();
    assert_eq!((status.phase, status.observed_generation), (Some(RestoreRunPhase::Restoring), Some(1)));
    assert!(status.reason.ends_with("the spec was changed too late to have an effect"), "{}", status.reason);
    bench.cluster_says(json!({"lineage": lineage(Some("r1"))}));
    assert_eq!(bench.pass(), Next::ON_CHANGE);
    let status = bench.status();
    assert!(status.succeeded);
    assert_eq!(status.observed_generation, Some(1));
    let said = &find(&status.conditions, "RestoreSucceeded").expect("always there").message;
    assert!(said.starts_with("the EtcdCluster serves the data of revision 42 of `dir/key`; the spec was"), "{said}");
    let writes = *bench.world.kubernetes.writes.lock().unwrap();
    assert_eq!(bench.pass(), Next::ON_CHANGE);
    assert_eq!(*bench.world.kubernetes.writes.lock().unwrap(), writes, "it has ended");
}

#[test]
fn a_snapshot_that_was_overwritten_before_the_members_had_it_is_verified_anew() {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    bench.pass();
    let first = bench.status().snapshot.expect("verified");
    let changed = |of: &crate::api::SnapshotRef| {
        let mut status = under_way("Starting");
        status["restore"]["snapshotChanged"] = json!(true);
        status["restore"]["verifiedTime"] = json!(of.verified_time);
        status
    };
    bench.cluster_says(under_way("Starting"));
    bench.pass();
    bench.world.put("dir/key", snapshot(50));
    bench.world.pass_time(60);
    bench.cluster_says(changed(&first));
    bench.pass();
    let status = bench.status();
    let second = status.snapshot.expect("verified");
    assert_eq!((status.phase, second.revision), (Some(RestoreRunPhase::Verified), 50));
    assert!(second.verified_time > first.verified_time && second.sha256 != first.sha256);
    bench.pass();
    assert_eq!(
        bench.status().snapshot,
        Some(second.clone()),
        "what the members were given before says nothing about it"
    );
    for phase in ["Confirmed", "Switched"] {
        let mut further = changed(&second);
        further["restore"]["phase"] = json!(phase);
        bench.cluster_says(further);
        bench.pass();
        assert_eq!(bench.status().phase, Some(RestoreRunPhase::Restoring), "{phase}: they have it");
    }

    bench.world.put("dir/key", b"no snapshot".to_vec());
    bench.world.pass_time(60);
    bench.cluster_says(changed(&second));
    bench.pass();
    assert_eq!((bench.why().as_str(), bench.status().phase), ("SnapshotForeign", Some(RestoreRunPhase::Failed)));
}

#[test]
fn a_failed_restore_whose_spec_is_corrected_is_tried_again_whatever_holds_it_up_first() {
    let bench = Bench::new();
    bench.world.put("dir/key", b"no snapshot".to_vec());
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Failed));
    bench.world.put("dir/good", snapshot(42));
    bench.world.kubernetes.edit(Kind::EtcdRestore, &bench.key, |json| {
        json["spec"]["s3"]["path"] = json!("bucket/dir/good");
        json["metadata"]["generation"] = json!(2);
    });
    bench.pass_beside_the_archived_operator();
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Verified));
}

#[test]
fn a_restore_that_failed_under_the_archived_operator_is_not_tried_again_before_its_spec_changes() {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    bench.world.kubernetes.edit(Kind::EtcdRestore, &bench.key, |json| {
        json["status"] = json!({"succeeded": false, "reason": "no such key"});
    });
    bench.pass_beside_the_archived_operator();
    assert_eq!(bench.pass(), Next::ON_CHANGE);
    let status = bench.status();
    assert_eq!((bench.why().as_str(), status.phase), ("FailedBefore", Some(RestoreRunPhase::Failed)));
    assert!(status.reason.contains("no such key") && status.snapshot.is_none(), "{}", status.reason);
    bench.untouched();
    bench.world.kubernetes.edit(Kind::EtcdRestore, &bench.key, |json| json["metadata"]["generation"] = json!(2));
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Verified));
}

#[test]
fn an_object_that_is_no_snapshot_fails_the_restore_and_nothing_else() {
    let whole = snapshot(42);
    let mut corrupt = whole.clone();
    corrupt[9000] ^= 1;
    let mut foreign = vec![7; 4096];
    foreign.extend(<sha2::Sha256 as sha2::Digest>::digest(&foreign));
    let cases = [
        (None, "SnapshotMissing", "`dir/key` is not in the store"),
        (Some(whole[..whole.len() - 4096].to_vec()), "SnapshotTruncated", "truncated"),
        (Some(whole[..200].to_vec()), "SnapshotTruncated", "truncated"),
        (Some(Vec::new()), "SnapshotTruncated", "truncated"),
        (Some(whole[..whole.len() - 100].to_vec()), "SnapshotTruncated", "truncated"),
        (Some(corrupt), "SnapshotCorrupt", "own sha256 does not match"),
        (Some(foreign), "SnapshotForeign", "not an etcd snapshot"),
        (Some(b"hello".to_vec()), "SnapshotForeign", "not an etcd snapshot"),
        (Some(b"a text of more than one page; ".repeat(300)), "SnapshotForeign", "not an etcd snapshot"),
    ];
    for (object, reason, words) in cases {
        let bench = Bench::new();
        if let Some(object) = object {
            bench.world.put("dir/key", object);
        }
        assert_eq!(bench.pass(), Next::ON_CHANGE);
        let status = bench.status();
        assert_eq!((bench.why().as_str(), status.phase), (reason, Some(RestoreRunPhase::Failed)));
        assert!(status.reason.contains(words), "{}", status.reason);
        assert!(status.reason.ends_with("the EtcdCluster was not touched"), "{}", status.reason);
        assert!(status.snapshot.is_none() && !status.succeeded);
        let told = bench.world.kubernetes.told();
        assert_eq!(told, [format!("Warning RestoreFailed: {}", status.reason)]);
        bench.untouched();
    }
}

#[test]
fn a_store_that_does_not_answer_is_tried_again() {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    for fault in [Fault::Before, Fault::Hang, Fault::Truncate] {
        bench.world.store.fail(Op::Get, fault, 3);
        assert_eq!(bench.pass(), Next::after(LOOK_AGAIN), "{fault:?}");
        assert_eq!(bench.status().phase, Some(RestoreRunPhase::Verifying));
        assert!(bench.status().reason.contains("it is tried again"));
    }
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Verified));
}

/// A store that gives nothing, and what happens three seconds after the reading began.
fn verify_while(happens: impl FnOnce(&Bench, &Fence)) -> (Result<Next, BackupError>, SignedDuration, Bench) {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    bench.world.store.fail(Op::Get, Fault::Hang, 3);
    let (clock, fence) = (Arc::new(Stepped::default()), Arc::new(Fence::default()));
    fence.extend(SignedDuration::from_hours(1));
    let ports = Ports { clock: clock.clone(), ..bench.world.ports() };
    let context = BackupContext { fence: Some(fence.clone()), ..BackupContext::default() };
    let restore = bench.world.kubernetes.read::<EtcdRestore>(&bench.key);
    let end = clock.run(reconcile(&ports, &bench.key, restore, &context), 3, || happens(&bench, &fence));
    (end, clock.monotonic(), bench)
}

#[test]
fn reading_a_snapshot_is_called_off_when_nobody_wants_it_any_more() {
    let edit = |bench: &Bench, field: &str, value: serde_json::Value| {
        bench.world.kubernetes.edit(Kind::EtcdRestore, &bench.key, |json| json["metadata"][field] = value);
    };
    let soon = |took: SignedDuration, what: &str| assert!(took <= SignedDuration::from_secs(5), "{what}: {took}");
    let (end, took, _) = verify_while(|bench, _| bench.world.kubernetes.remove(Kind::EtcdRestore, &bench.key));
    soon(took, "deleted");
    assert_eq!(end, Ok(Next::ON_CHANGE));
    let (end, took, _) = verify_while(|bench, _| edit(bench, "deletionTimestamp", json!("2026-11-30T02:03:07Z")));
    soon(took, "being deleted");
    assert_eq!(end, Ok(Next::ON_CHANGE));
    let (end, took, bench) = verify_while(|bench, _| edit(bench, "generation", json!(2)));
    soon(took, "changed");
    assert_eq!(end, Ok(Next::after(SignedDuration::ZERO)));
    bench.world.store.faults.lock().unwrap().clear();
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Verified), "what is wanted now is read");
    let (end, took, bench) = verify_while(|_, fence| fence.lose());
    soon(took, "without the lease");
    assert_eq!(end, Err(BackupError::LeaseLost { key: bench.key.clone() }));
    assert_eq!(bench.world.kubernetes.phases("EtcdRestore"), ["Verifying"], "nothing more was written");
}

#[test]
fn of_a_large_object_that_is_no_snapshot_the_beginning_is_read() {
    let bench = Bench::new();
    bench.world.put("dir/key", vec![7; 10 << 20]);
    assert_eq!(bench.pass(), Next::ON_CHANGE);
    assert_eq!(bench.why(), "SnapshotForeign");
    assert!(bench.status().reason.contains("10485760 bytes"), "{}", bench.status().reason);
    assert!(*bench.world.store.read.lock().unwrap() < 1 << 20);
    bench.untouched();
}

#[test]
fn what_is_missing_is_waited_for_and_named() {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    let secret = ObjectKey::new("ns", "aws");
    bench.world.kubernetes.remove(Kind::Secret, &secret);
    assert_eq!(bench.pass(), Next::after(LOOK_AGAIN));
    assert_eq!(bench.status().reason, "waiting for Secret `aws` (`spec.s3.awsSecret`), which does not exist");
    bench.world.kubernetes.remove(Kind::EtcdCluster, &bench.key);
    bench.pass();
    assert_eq!(bench.status().reason, "waiting for EtcdCluster `c` (`spec.etcdCluster.name`), which does not exist");
    assert_eq!(bench.why(), "ClusterMissing");
}

#[test]
fn a_secret_that_appears_lets_the_restore_go_on() {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    bench.world.kubernetes.remove(Kind::Secret, &ObjectKey::new("ns", "aws"));
    bench.pass();
    assert_eq!(bench.why(), "SecretMissing");
    bench.world.kubernetes.insert(
        Kind::Secret,
        "{apiVersion: v1, kind: Secret, metadata: {name: aws, namespace: ns}, data: {credentials: Cg==}}",
    );
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Verified));
    bench.untouched();
}

/// The members fetch the snapshot, and have nothing of the operator's environment.
#[test]
fn a_restore_without_a_secret_waits_for_one_where_the_operators_own_settings_open_the_bucket() {
    let mut bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    let name_no_secret = |json: &mut serde_json::Value| json["spec"]["s3"] = json!({"path": "bucket/dir/key"});
    bench.world.kubernetes.edit(Kind::EtcdRestore, &bench.key, name_no_secret);
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Verified), "the nodes have what the operator has");

    bench.world.own_settings = vec!["AWS_ACCESS_KEY_ID".to_owned(), "AWS_REGION".to_owned()];
    assert_eq!(bench.pass(), Next::after(LOOK_AGAIN));
    assert_eq!((bench.why().as_str(), bench.status().phase), ("SecretMissing", Some(RestoreRunPhase::Pending)));
    assert_eq!(
        bench.status().reason,
        "`spec.s3.awsSecret` must name a Secret: the members fetch the snapshot themselves, and have nothing of what opens \
         the bucket for the operator (AWS_ACCESS_KEY_ID, AWS_REGION in its environment); nothing was touched"
    );
    assert!(!bench.world.kubernetes.phases("EtcdRestore").contains(&"Restoring".to_owned()));
    bench.untouched();

    bench.world.kubernetes.edit(Kind::EtcdRestore, &bench.key, |json| {
        json["spec"]["s3"]["awsSecret"] = json!("aws");
        json["metadata"]["generation"] = json!(2);
    });
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Verified));
}

#[test]
fn a_store_that_does_not_let_us_in_is_named_and_tried_again() {
    for (fault, reason, words) in [
        (Fault::Denied, "CredentialsRefused", "the store refused the credentials"),
        (Fault::NoBucket, "BucketMissing", "the bucket does not exist"),
    ] {
        let bench = Bench::new();
        bench.world.put("dir/key", snapshot(42));
        bench.world.store.fail(Op::Get, fault, 1);
        assert_eq!(bench.pass(), Next::after(LOOK_AGAIN), "{fault:?}");
        assert_eq!((bench.why().as_str(), bench.status().phase), (reason, Some(RestoreRunPhase::Verifying)));
        assert!(bench.status().reason.contains(words), "{}", bench.status().reason);
        bench.untouched();
        bench.pass();
        assert_eq!(bench.status().phase, Some(RestoreRunPhase::Verified), "{fault:?}: somebody mended it");
    }
}

#[test]
fn another_key_in_the_spec_is_another_look() {
    let bench = Bench::new();
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Failed));
    bench.world.put("dir/other", snapshot(7));
    bench.world.kubernetes.edit(Kind::EtcdRestore, &bench.key, |json| {
        json["spec"]["s3"]["path"] = json!("bucket/dir/other");
        json["metadata"]["generation"] = json!(2);
    });
    bench.pass();
    let status = bench.status();
    assert_eq!(status.phase, Some(RestoreRunPhase::Verified));
    assert_eq!(status.snapshot.map(|snapshot| snapshot.revision), Some(7));
    assert_eq!(status.completed_time, None);
}

#[test]
fn a_cluster_that_is_deleted_meanwhile_is_waited_for_and_restored_from_the_beginning() {
    let bench = Bench::new();
    bench.world.put("dir/key", snapshot(42));
    bench.pass();
    let under_way = json!({"reason": "waiting for c-a: the volume is full", "lineage": lineage(None), "restore":
        {"name": "c", "uid": "r1", "phase": "Starting", "lineage": lineage(Some("r1"))}});
    bench.cluster_says(under_way);
    bench.pass();
    assert_eq!(bench.status().phase, Some(RestoreRunPhase::Restoring));
    assert!(bench.status().reason.ends_with("the EtcdCluster: waiting for c-a: the volume is full"));

    bench.world.kubernetes.edit(Kind::EtcdCluster, &bench.key, |json| {
        json["metadata"]["deletionTimestamp"] = json!("2026-11-30T02:03:04Z");
    });
    assert_eq!(bench.pass(), Next::after(LOOK_AGAIN));
    assert_eq!(bench.status().reason, "EtcdCluster `c` is being deleted; it is restored if it is created again");

    bench.world.kubernetes.remove(Kind::EtcdCluster, &bench.key);
    assert_eq!(bench.pass(), Next::after(LOOK_AGAIN));
    assert_eq!(
        bench.status().reason,
        "the snapshot is good; waiting for EtcdCluster `c` (`spec.etcdCluster.name`), which does not exist; \
         it is restored from the beginning when it is created again"
    );
    assert_eq!((bench.why().as_str(), bench.status().phase), ("ClusterMissing", Some(RestoreRunPhase::Verified)));
    let told = bench.world.kubernetes.told();
    let waits =
        told.iter().filter(|event| event.starts_with("Warning WaitingForCluster: EtcdCluster `c` is being deleted"));
    assert_eq!(waits.count(), 1, "{told:?}");
    let writes = *bench.world.kubernetes.writes.lock().unwrap();
    bench.pass();
    assert_eq!(*bench.world.kubernetes.writes.lock().unwrap(), writes, "said once");

    bench.world.kubernetes.insert(
        Kind::EtcdCluster,
        "{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdCluster, \
         metadata: {name: c, namespace: ns, uid: c2}, spec: {size: 3}}",
    );
    assert_eq!(bench.pass(), Next::after(FOLLOW));
    assert_eq!(bench.status().reason, "the snapshot is good; waiting for the EtcdCluster to begin");
    bench.cluster_says(json!({"lineage": lineage(Some("r1"))}));
    bench.pass();
    assert!(bench.status().succeeded);
}
