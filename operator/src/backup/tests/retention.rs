//! What retention removes, and above all what it leaves.

use super::*;

#[test]
fn backups_in_another_bucket_neither_count_nor_go() {
    let bench = Bench::new(PERIODIC);
    let back_up = |revision| {
        bench.world.members.serve("http://a:2379", 1, revision, &snapshot(revision));
        bench.world.pass_time(200);
        bench.pass().unwrap();
    };
    back_up(50);
    back_up(51);
    let first = bench.world.keys();
    let move_to = |path: &str, generation: i64| {
        bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
            json["spec"]["s3"]["path"] = path.into();
            json["metadata"]["generation"] = generation.into();
        });
    };
    move_to("bucket-2/dir/key", 2);
    for revision in [60, 61, 62] {
        back_up(revision);
    }
    assert_eq!(bench.world.keys(), first, "nothing of the first bucket goes");
    let revisions = || bench.records().iter().map(|record| record.revision).collect::<Vec<_>>();
    assert_eq!(revisions(), [50, 51, 61, 62]);
    assert_eq!(World::keys_of(&bench.world.elsewhere).len(), 4, "two with their manifests");
    move_to("bucket/dir/key", 3);
    back_up(70);
    assert_eq!(revisions(), [51, 61, 62, 70], "back again, the oldest of this bucket goes");
    assert_eq!((bench.world.keys().len(), World::keys_of(&bench.world.elsewhere).len()), (4, 4));
}

/// The oldest of those kept is being restored: its members may fetch it for as long as an image takes to be pulled.
#[test]
fn a_backup_that_is_being_restored_is_not_removed_before_that_has_ended() {
    let bench = Bench::new(PERIODIC);
    let back_up = |revision| {
        bench.world.members.serve("http://a:2379", 1, revision, &snapshot(revision));
        bench.world.pass_time(1000);
        bench.pass().unwrap();
    };
    let is_there = |revision: i64| bench.world.keys().iter().any(|key| key.contains(&format!("_v{revision}_")));
    back_up(100);
    back_up(101);
    let oldest = bench.records()[0].key.clone();
    let restore = |status: &str| {
        format!(
            "{{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdRestore, metadata: {{name: c, namespace: ns, \
             uid: r1}}, spec: {{etcdCluster: {{name: c}}, backupStorageType: S3, s3: {{path: 'bucket/{oldest}'}}}}, \
             status: {status}}}"
        )
    };
    for (revision, status) in [(102, "{phase: Pending}"), (103, "{phase: Verifying}"), (104, "{phase: Restoring}")] {
        bench.world.kubernetes.insert(Kind::EtcdRestore, &restore(status));
        back_up(revision);
        assert!(is_there(100), "{status}");
    }
    assert!(!is_there(101) && is_there(103), "the others go as ever");
    *bench.world.kubernetes.refuse_lists.lock().unwrap() =
        Some(KubernetesError::Unavailable { message: "no route to host".into(), retry_after: None });
    back_up(105);
    assert!(is_there(100) && is_there(103), "nothing goes while it is not known what is being restored");
    *bench.world.kubernetes.refuse_lists.lock().unwrap() = None;
    bench.world.kubernetes.insert(Kind::EtcdRestore, &restore("{phase: Succeeded, succeeded: true}"));
    back_up(106);
    assert!(!is_there(100) && is_there(105));
    assert_eq!(bench.records().iter().map(|record| record.revision).collect::<Vec<_>>(), [105, 106]);
    bench.check_records();
}

#[test]
fn retention_marks_before_it_removes_and_tries_again_what_failed() {
    let bench = Bench::new(PERIODIC);
    for revision in [50, 51] {
        bench.world.members.serve("http://a:2379", 1, revision, &snapshot(revision));
        bench.pass().unwrap();
        bench.world.pass_time(200);
    }
    bench.world.store.fail(Op::Delete, Fault::Before, 1);
    bench.world.members.serve("http://a:2379", 1, 52, &snapshot(52));
    assert_eq!(bench.pass(), Ok(Next::after(REMOVE_AGAIN_AFTER)));
    let marks: Vec<_> = bench.records().iter().map(|record| (record.revision, record.superseded)).collect();
    assert_eq!(marks, [(50, true), (51, false), (52, false)]);
    assert!(bench.status().succeeded, "the backup itself is good");
    let reconciling = find(&bench.status().conditions, "Reconciling").unwrap().clone();
    assert!(reconciling.message.starts_with("1 old backups could not be removed: removing"), "{}", reconciling.message);
    bench.world.pass_time(60);
    bench.pass().unwrap();
    assert_eq!(bench.records().len(), 2);
    assert_eq!(bench.world.keys().len(), 4);
    bench.check_records();
}

/// Without a manifest beside it the store does not tell whose it is.
#[test]
fn a_corrected_spec_is_said_to_be_good_although_there_are_old_backups_to_remove() {
    let bench = Bench::new(PERIODIC);
    for revision in [50, 51] {
        bench.world.members.serve("http://a:2379", 1, revision, &snapshot(revision));
        bench.pass().unwrap();
        bench.world.pass_time(126);
    }
    bench.world.turn_back();
    bench.world.pass_time(127);
    set_max_backups(&bench, -1);
    assert_eq!(bench.pass(), Ok(Next::ON_CHANGE));
    set_max_backups(&bench, 1);
    bench.world.store.fail(Op::Delete, Fault::Before, 1);
    assert_eq!(bench.pass(), Ok(Next::after(REMOVE_AGAIN_AFTER)), "not in a loop");
    assert_eq!(bench.pass(), Ok(Next::after(SignedDuration::ZERO)));
    assert_eq!(bench.records().len(), 1);
    assert_eq!(bench.pass(), Ok(Next::after(SignedDuration::from_secs(124))));
    let status = bench.status();
    assert_eq!(find(&status.conditions, "Stalled").expect("always there").reason, "NotStalled");
    assert_eq!((status.phase, status.reason.as_str()), (Some(BackupPhase::Scheduled), ""));
}

#[test]
fn retention_touches_nothing_that_another_backup_has_on_record() {
    let bench = Bench::new(PERIODIC);
    let other = manifest(PERIODIC).replace("name: b,", "name: b2,").replace("uid: u1", "uid: u2");
    let other = bench.world.kubernetes.insert(Kind::EtcdBackup, &other);
    bench.world.store.fail(Op::Put, Fault::Nothing, 1);
    bench.world.store.fail(Op::Put, Fault::Before, 3);
    let backup = bench.world.kubernetes.read::<EtcdBackup>(&other);
    now(reconcile(&bench.world.ports(), &other, backup, &bench.context)).unwrap();
    let theirs = bench.world.keys();
    assert_eq!(theirs.len(), 1, "its manifest could not be written: {theirs:?}");
    for revision in [50, 51, 52] {
        bench.world.pass_time(25 * 3600);
        bench.world.members.serve("http://a:2379", 1, revision, &snapshot(revision));
        bench.pass().unwrap();
    }
    assert_eq!(bench.records().len(), 2);
    assert!(bench.world.keys().contains(&theirs[0]), "{:?}", bench.world.keys());
    bench.world.kubernetes.remove(Kind::EtcdBackup, &other);
    bench.world.pass_time(25 * 3600);
    bench.pass().unwrap();
    assert!(!bench.world.keys().contains(&theirs[0]), "what nobody has on record goes with its time");
}

#[test]
fn retention_touches_nothing_that_it_did_not_write() {
    let bench = Bench::new(PERIODIC);
    let foreign = manifest::Manifest {
        format_version: 1,
        key: "dir/key_v1_2020-01-01-00:00:02".to_owned(),
        revision: 1,
        size: 1,
        sha256: String::new(),
        etcd_version: String::new(),
        cluster_id: "ff".to_owned(),
        member_id: String::new(),
        time: Timestamp::UNIX_EPOCH,
        backup: manifest::Owner { namespace: "ns".to_owned(), name: "b".to_owned(), uid: "elsewhere".to_owned() },
    };
    let strangers =
        ["dir/key", "dir/key2_v1_2020-01-01-00:00:00", "dir/key_v1_notes", "dir/key_v1_2020-01-01-00:00:02"];
    for key in strangers {
        bench.world.put(key, b"x".to_vec());
    }
    bench.world.put("dir/key_v1_2020-01-01-00:00:02.manifest.json", foreign.to_json());
    bench.world.put("dir/key_v1_2020-01-01-00:00:01", b"of the archived operator".to_vec());
    for revision in [50, 51, 52, 53] {
        bench.world.members.serve("http://a:2379", 1, revision, &snapshot(revision));
        bench.pass().unwrap();
        bench.world.pass_time(200);
    }
    let keys = bench.world.keys();
    for key in strangers {
        assert!(keys.iter().any(|present| present == key), "{key}");
    }
    assert!(!keys.iter().any(|key| key == "dir/key_v1_2020-01-01-00:00:01"), "its successor counts for it");
    assert_eq!(bench.records().iter().map(|record| record.revision).collect::<Vec<_>>(), [52, 53]);
}

/// A status has room for 256 records: which of the others are this EtcdBackup's is in their manifests alone.
#[test]
fn more_backups_are_kept_than_a_status_has_records_and_the_oldest_go() {
    for (strangers, left) in [(0, 600), (200, 600), (300, 700)] {
        let bench = Bench::new(&PERIODIC.replace("maxBackups: 2", "maxBackups: 600"));
        let begin: Timestamp = "2026-11-01T00:00:00Z".parse().expect("a time");
        let key_of = |n: i64| names::periodic_key("dir/key", Revision(n), begin + SignedDuration::from_mins(n));
        let put = |n: i64, uid: &str| {
            let manifest = manifest::Manifest {
                format_version: 1,
                key: key_of(n),
                revision: n,
                size: 1,
                sha256: String::new(),
                etcd_version: String::new(),
                cluster_id: "ff".to_owned(),
                member_id: String::new(),
                time: begin,
                backup: manifest::Owner { namespace: "ns".to_owned(), name: "b".to_owned(), uid: uid.to_owned() },
            };
            bench.world.put(&key_of(n), b"x".to_vec());
            bench.world.put(&names::manifest_key(&key_of(n)), manifest.to_json());
        };
        (0..strangers).for_each(|n| put(n, "elsewhere"));
        (1000..1699).for_each(|n| put(n, "u1"));
        let record = |n: i64| serde_json::json!({"key": key_of(n), "revision": n, "size": 1, "sha256": "", "time": begin.to_string()});
        let records: Vec<_> = (1699 - 256..1699).map(record).collect();
        bench.world.kubernetes.edit(Kind::EtcdBackup, &bench.key, |json| {
            json["status"] = serde_json::json!({"succeeded": true, "records": records});
        });
        bench.pass().unwrap();
        assert!(bench.status().succeeded, "{}", bench.status().reason);
        let keys = bench.world.keys();
        let is_there = |n: i64| keys.contains(&key_of(n));
        let own = (1000..1699).filter(|n| is_there(*n)).count() + 1;
        assert_eq!((own, (0..strangers).filter(|n| is_there(*n)).count()), (left, strangers as usize), "{strangers}");
        assert!((1100..1699).all(is_there), "{strangers}: the oldest go");
        assert_eq!(keys.len(), 2 * (left + strangers as usize), "with their manifests");
    }
}

#[test]
fn a_list_that_lags_behind_or_a_backup_that_vanished_costs_no_good_one() {
    let bench = Bench::new(PERIODIC);
    for revision in [50, 51] {
        bench.world.members.serve("http://a:2379", 1, revision, &snapshot(revision));
        bench.pass().unwrap();
        bench.world.pass_time(200);
    }
    // Somebody's lifecycle rule removes the newer one, and the list does not tell anything.
    let newer = bench.records()[1].key.clone();
    now(bench.world.store.inner.delete(&newer.as_str().into())).unwrap();
    bench.world.store.fail(Op::List, Fault::Truncate, 1);
    bench.world.members.serve("http://a:2379", 1, 52, &snapshot(52));
    bench.pass().unwrap();
    assert_eq!(bench.records().iter().map(|record| record.revision).collect::<Vec<_>>(), [50, 52]);
    bench.check_records();
}
