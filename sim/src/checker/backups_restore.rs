//! S7: a backup that is reported as succeeded restores to exactly the state at its revision, until retention removes it.
//!
//! Checked when the status that reports it is committed, and of every record at the end: the object is in the store with
//! that size and hash, a scratch etcd restored from its bytes has the revision that was recorded, and its keys are those
//! that the lineage had at that revision. In between, at every effect on the store: an object that a record names is
//! overwritten only by a one-shot backup of that very path which is still to be taken, and removed only after status says
//! that it is superseded; none is removed that an EtcdRestore names. A record goes only when its object is gone. At the end
//! there are no more records of a schedule than `maxBackups`.
//! NOT verified: the manifest beside the object, backups of lineages that lost a quorum of their disks, objects of an
//! EtcdBackup that is gone, and objects that nobody recorded.

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Checker;
use crate::converge::{custom, is_periodic, key as key_of};
use crate::effect::Effect;
use crate::event::Millis;
use crate::store::Stored;
use crate::world::World;

/// An EtcdRestore that is younger when the removal is sent may not have been known when the removal was decided.
const RESTORE_KNOWN_AFTER: Millis = 60_000;
/// So long after a backup succeeded, retention may still be at it.
const RETENTION_TAKES: Millis = 60_000;
/// Above so many records the oldest is dropped.
const RECORDS_MAX: usize = etcd_operator::api::backup::RECORDS_MAX;

/// S7.
pub struct BackupsRestore;

impl Checker for BackupsRestore {
    fn invariant(&self) -> &'static str {
        "S7"
    }

    fn effect(&mut self, world: &World, effect: &Effect) -> Option<String> {
        match effect {
            Effect::Update { kind, key, status: true, body } if kind == "EtcdBackup" => reported(world, key, body),
            Effect::StorePut { bucket, key } | Effect::StoreComplete { bucket, key } => overwritten(world, bucket, key),
            Effect::StoreDelete { bucket, key } => removed(world, bucket, key),
            _ => None,
        }
    }

    fn end(&mut self, world: &World) -> Option<String> {
        let backups = world.server.peek_all(&custom("etcdbackups"), None);
        backups.iter().find_map(|backup| {
            let wrong = live(backup).find_map(|record| judge(world, &key_of(backup), bucket_of(backup), record));
            wrong.or_else(|| too_many(world, backup))
        })
    }
}

fn records(backup: &Value) -> impl Iterator<Item = &Value> {
    backup["status"]["records"].as_array().into_iter().flatten()
}

/// Records of what is to be there.
fn live(backup: &Value) -> impl Iterator<Item = &Value> {
    records(backup).filter(|record| record["superseded"] != true)
}

/// Where an EtcdBackup or an EtcdRestore keeps its snapshots: bucket and key.
fn path_of(object: &Value) -> (&str, &str) {
    let paths = ["s3", "abs", "gcs", "oss"].into_iter().filter_map(|kind| object["spec"][kind]["path"].as_str());
    paths.filter_map(|path| path.split_once('/')).next().unwrap_or_default()
}

fn bucket_of(backup: &Value) -> &str {
    path_of(backup).0
}

/// Whether a record of an EtcdBackup names this object.
fn names(backup: &Value, record: &Value, bucket: &str, key: &str) -> bool {
    let named = record["key"].as_str().unwrap_or_default();
    bucket_of(backup) == bucket && (named == key || named.strip_prefix(bucket) == Some(&format!("/{key}")))
}

fn stored<'a>(world: &'a World, bucket: &str, record: &Value) -> Option<&'a Stored> {
    let named = record["key"].as_str().unwrap_or_default();
    let within = named.strip_prefix(bucket).and_then(|rest| rest.strip_prefix('/'));
    world.store.get(bucket, named).or_else(|| world.store.get(bucket, within?))
}

/// What an EtcdBackup's status is about to say.
fn reported(world: &World, key: &str, body: &Value) -> Option<String> {
    let (namespace, name) = key.split_once('/')?;
    let before = world.server.peek(&custom("etcdbackups"), namespace, name);
    let before = before.as_deref().unwrap_or(&Value::Null);
    if body["status"]["succeeded"] == true && records(body).next().is_none() {
        return Some(format!("EtcdBackup {key} reports success without a record"));
    }
    let fresh = live(body).filter(|record| records(before).all(|known| known != *record));
    let wrong = fresh.into_iter().find_map(|record| judge(world, key, bucket_of(body), record));
    wrong.or_else(|| {
        let full = records(before).count() >= RECORDS_MAX;
        let dropped = records(before).filter(|known| records(body).all(|record| record["key"] != known["key"]));
        let mut kept = dropped.filter(|known| stored(world, bucket_of(before), known).is_some());
        let kept = kept.next().filter(|_| !full)?;
        Some(format!("EtcdBackup {key} forgets {}, which is in the store", kept["key"]))
    })
}

/// An object is about to be written.
fn overwritten(world: &World, bucket: &str, key: &str) -> Option<String> {
    let backups = world.server.peek_all(&custom("etcdbackups"), None);
    let holds = |backup: &Value| live(backup).any(|record| names(backup, record, bucket, key));
    let holder = backups.iter().find(|backup| holds(backup))?;
    // By the contract of a backup that is taken once to a fixed path.
    let mut once = backups.iter().filter(|backup| !is_periodic(backup) && path_of(backup) == (bucket, key));
    let taken_now = !is_periodic(holder) && once.any(|backup| !holds(backup));
    (!taken_now).then(|| format!("{bucket}/{key} is overwritten, which EtcdBackup {} has on record", key_of(holder)))
}

/// An object is about to be removed.
fn removed(world: &World, bucket: &str, key: &str) -> Option<String> {
    let backups = world.server.peek_all(&custom("etcdbackups"), None);
    let holder = backups.iter().find(|backup| live(backup).any(|record| names(backup, record, bucket, key)));
    if let Some(holder) = holder {
        return Some(format!("{bucket}/{key} is removed, which EtcdBackup {} has on record", key_of(holder)));
    }
    let restores = world.server.peek_all(&custom("etcdrestores"), None);
    let known_at = world.timestamp_of(world.issued.saturating_sub(RESTORE_KNOWN_AFTER));
    let user = restores.iter().find(|restore| {
        let created = restore["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        created.is_some_and(|created| created <= known_at) && is_wanted(restore, bucket, key)
    })?;
    Some(format!("{bucket}/{key} is removed, which EtcdRestore {} is to be restored from", key_of(user)))
}

/// Whether an EtcdRestore that has not ended is about this object.
fn is_wanted(restore: &Value, bucket: &str, key: &str) -> bool {
    let ended = matches!(restore["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let snapshot = &restore["status"]["snapshot"];
    let is_it = path_of(restore) == (bucket, key) || (snapshot["bucket"] == bucket && snapshot["key"] == key);
    !ended && restore["metadata"]["deletionTimestamp"].is_null() && is_it
}

/// Whether a schedule has more backups on record than its policy keeps.
fn too_many(world: &World, backup: &Value) -> Option<String> {
    let keep = usize::try_from(backup["spec"]["backupPolicy"]["maxBackups"].as_i64()?).ok()?;
    if keep == 0 || !is_periodic(backup) || backup["metadata"]["deletionTimestamp"].is_string() {
        return None;
    }
    let (bucket, path) = path_of(backup);
    let restores = world.server.peek_all(&custom("etcdrestores"), None);
    let counted = |record: &Value| {
        let key = record["key"].as_str().unwrap_or_default();
        key.starts_with(&format!("{path}_v")) && !restores.iter().any(|restore| is_wanted(restore, bucket, key))
    };
    let kept = records(backup).filter(|record| counted(record)).count();
    let last = backup["status"]["lastSuccessDate"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let at_it = last.is_some_and(|last| last > world.timestamp_of(world.now.saturating_sub(RETENTION_TAKES)));
    let allowed = keep + usize::from(at_it);
    (kept > allowed).then(|| format!("EtcdBackup {} keeps {kept} backups, and {keep} are wanted", key_of(backup)))
}

fn judge(world: &World, backup: &str, bucket: &str, record: &Value) -> Option<String> {
    let object = record["key"].as_str().unwrap_or_default();
    let revision = record["revision"].as_i64().unwrap_or_default();
    let complain =
        |what: String| Some(format!("EtcdBackup {backup} reports {object} at revision {revision}, but {what}"));
    let Some(stored) = stored(world, bucket, record) else { return complain("there is no such object".into()) };
    if record["size"].as_u64() != Some(stored.data.len() as u64) {
        return complain(format!("it has {} bytes", stored.data.len()));
    }
    let sum: [u8; 32] = Sha256::digest(&stored.data).into();
    let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    if record["sha256"].as_str() != Some(&hex) {
        return complain(format!("its sha256 is {hex}"));
    }
    let Some((cluster, base)) = world.etcds.snapshots.get(&sum) else {
        return complain("no member ever gave these bytes".into());
    };
    if world.etcds.read_snapshot(&stored.data).is_none_or(|restored| restored != *base) {
        return complain("a scratch etcd restored from it has other keys".into());
    }
    if base.revision != revision {
        return complain(format!("the snapshot is of revision {}", base.revision));
    }
    let state = world.etcds.state_at(*cluster, revision);
    if world.ghost.hopeless.contains(cluster) {
        return None;
    }
    match state {
        None => complain(format!("lineage {cluster} never had that revision")),
        Some(state) if state.keys != base.keys => complain("its keys are not those of that revision".into()),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sha2::{Digest, Sha256};

    use super::super::fixture::{Fixture, in_world};
    use crate::effect::Effect;

    const BIRTH: &str = "birth-1";
    const BACKUP: &str = "nightly";

    /// A formed EtcdCluster and an EtcdBackup of it with this policy.
    fn with_backup(world: &mut Fixture<'_>, policy: &Value) {
        world.form(BIRTH, 1);
        world.record(BIRTH, None);
        create_backup(world, BACKUP, policy);
    }

    fn create_backup(world: &mut Fixture<'_>, name: &str, policy: &Value) {
        world.create(&json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup", "metadata": {"name": name},
            "spec": {
                "etcdEndpoints": ["http://etcd-client.default.svc:2379"], "storageType": "S3", "backupPolicy": policy,
                "s3": {"path": "backups/k", "awsSecret": "store-credentials"},
            },
        }));
    }

    /// A snapshot of now is in the store under this key; its record.
    fn taken(world: &mut Fixture<'_>, key: &str) -> Value {
        world.write(BIRTH, "a", key);
        let bytes = world.snapshot(BIRTH);
        let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let (size, revision) = (bytes.len(), world.world.etcds.read_snapshot(&bytes).unwrap().revision);
        world.world.store.put(0, "backups", key, bytes.into(), false);
        json!({"key": key, "revision": revision, "size": size, "sha256": sum, "time": "2030-01-01T00:00:00Z"})
    }

    fn status(records: &[&Value]) -> Value {
        json!({"succeeded": true, "records": records})
    }

    fn superseded(record: &Value) -> Value {
        let mut record = record.clone();
        record["superseded"] = true.into();
        record
    }

    fn put(key: &str) -> Effect {
        Effect::StorePut { bucket: "backups".into(), key: key.into() }
    }

    fn remove(key: &str) -> Effect {
        Effect::StoreDelete { bucket: "backups".into(), key: key.into() }
    }

    fn every_minute(keep: u32) -> Value {
        json!({"backupIntervalInSecond": 60, "maxBackups": keep})
    }

    #[test]
    fn retention_in_its_order_is_sound() {
        in_world(|world| {
            with_backup(world, &every_minute(1));
            let first = taken(world, "k_v2_2030-01-01-00:00:00");
            assert_eq!(world.write_status("EtcdBackup", BACKUP, &status(&[&first])), None);
            let second = taken(world, "k_v3_2030-01-01-00:01:00");
            assert_eq!(world.write_status("EtcdBackup", BACKUP, &status(&[&first, &second])), None);
            let marked = status(&[&superseded(&first), &second]);
            assert_eq!(world.write_status("EtcdBackup", BACKUP, &marked), None);
            assert_eq!(world.effect(remove("k_v2_2030-01-01-00:00:00")), None);
            world.world.store.delete("backups", "k_v2_2030-01-01-00:00:00");
            assert_eq!(world.write_status("EtcdBackup", BACKUP, &status(&[&second])), None);
            assert_eq!(world.end(), None);
        });
    }

    #[test]
    fn what_is_on_record_is_there_at_the_end() {
        in_world(|world| {
            with_backup(world, &every_minute(3));
            let record = taken(world, "k_v2_2030-01-01-00:00:00");
            assert_eq!(world.write_status("EtcdBackup", BACKUP, &status(&[&record])), None);
            assert_eq!(world.end(), None);
            let place = ("backups".to_owned(), "k_v2_2030-01-01-00:00:00".to_owned());
            let whole = world.world.store.objects[&place].data.clone();
            world.world.store.objects.get_mut(&place).unwrap().data = whole.slice(..whole.len() - 1);
            assert!(world.end().is_some_and(|what| what.starts_with("S7") && what.contains("bytes")));
            world.world.store.objects.remove(&place);
            assert!(world.end().is_some_and(|what| what.contains("there is no such object")));
        });
    }

    #[test]
    fn what_is_on_record_is_neither_removed_nor_overwritten() {
        in_world(|world| {
            with_backup(world, &every_minute(3));
            let key = "k_v2_2030-01-01-00:00:00";
            let record = taken(world, key);
            world.write_status("EtcdBackup", BACKUP, &status(&[&record]));
            assert!(world.effect(remove(key)).is_some_and(|what| what.contains("is removed, which EtcdBackup")));
            assert!(world.effect(put(key)).is_some_and(|what| what.contains("is overwritten")));
            assert_eq!(world.effect(remove("k_v1_2030-01-01-00:00:00")), None, "nobody recorded it");
            assert_eq!(world.effect(put("k_v2_2030-01-01-00:00:00.manifest.json")), None);
        });
    }

    #[test]
    fn a_record_goes_after_its_object() {
        in_world(|world| {
            with_backup(world, &every_minute(1));
            let first = taken(world, "k_v2_2030-01-01-00:00:00");
            let second = taken(world, "k_v3_2030-01-01-00:01:00");
            world.write_status("EtcdBackup", BACKUP, &status(&[&superseded(&first), &second]));
            let what = world.write_status("EtcdBackup", BACKUP, &status(&[&second])).expect("it is still there");
            assert!(what.contains("forgets") && what.contains("k_v2"), "{what}");
        });
    }

    #[test]
    fn no_more_are_kept_than_wanted() {
        in_world(|world| {
            with_backup(world, &every_minute(1));
            let (first, second) = (taken(world, "k_v2_2030-01-01-00:00:00"), taken(world, "k_v3_2030-01-01-00:01:00"));
            let mut both = status(&[&first, &second]);
            world.write_status("EtcdBackup", BACKUP, &both);
            assert!(world.end().is_some_and(|what| what.contains("keeps 2 backups, and 1 are wanted")));
            both["lastSuccessDate"] = world.world.timestamp().to_string().into();
            world.write_status("EtcdBackup", BACKUP, &both);
            assert_eq!(world.end(), None, "retention may be at it");
        });
    }

    #[test]
    fn what_is_being_restored_is_kept() {
        in_world(|world| {
            with_backup(world, &every_minute(1));
            world.ask_restore();
            assert_eq!(world.effect(remove("once")), None, "it may have been asked for just now");
            world.pass(120_000);
            let what = world.effect(remove("once")).expect("an EtcdRestore names it");
            assert!(what.contains("is removed, which EtcdRestore"), "{what}");
            world.set_status("EtcdRestore", "etcd", &json!({"phase": "Failed"}));
            assert_eq!(world.effect(remove("once")), None, "it has ended");
        });
    }

    #[test]
    fn a_fixed_path_is_overwritten_by_a_backup_that_is_still_to_be_taken() {
        in_world(|world| {
            with_backup(world, &json!({}));
            let record = taken(world, "k");
            world.write_status("EtcdBackup", BACKUP, &status(&[&record]));
            assert!(world.effect(put("k")).is_some_and(|what| what.contains("is overwritten")), "nobody is to take it");
            create_backup(world, "another", &json!({}));
            assert_eq!(world.effect(put("k")), None);
        });
    }
}
