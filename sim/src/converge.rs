//! L1: whether the world is as the specs say, and if not, what is missing (the pending noun of a liveness failure).
//! Judged from the ghost and from what status says: both must agree.

use std::sync::Arc;

use etcd_operator::model::ClusterId;
use fake_k8s::server::ResourceName;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::etcd::log::Disk;
use crate::event::Millis;
use crate::world::World;

/// A backup may be so much later than its schedule: it is taken, sent and read back, at the latencies of a healed world.
const SCHEDULE_TAKES: SignedDuration = SignedDuration::from_secs(60);

/// A resource of the operator's group.
pub fn custom(plural: &str) -> ResourceName {
    ResourceName::new("etcd.database.coreos.com", "v1beta2", plural)
}

/// Whether any backup runs at intervals.
pub fn has_periodic_backups(world: &World) -> bool {
    let backups = world.server.peek_all(&custom("etcdbackups"), None);
    backups.iter().any(|backup| is_periodic(backup))
}

/// Whether a backup runs at intervals.
pub fn is_periodic(backup: &Value) -> bool {
    interval(backup).is_some()
}

/// How long it is from one backup of a schedule to the next; none when it is none.
fn interval(backup: &Value) -> Option<SignedDuration> {
    let seconds = backup["spec"]["backupPolicy"]["backupIntervalInSecond"].as_i64();
    seconds.filter(|seconds| *seconds > 0).map(SignedDuration::from_secs)
}

/// `namespace/name` of an object.
pub fn key(object: &Value) -> String {
    let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", meta("namespace"), meta("name"))
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// What is missing; none when the world is as it shall be.
pub fn pending(world: &World) -> Option<String> {
    let clusters = world.server.peek_all(&custom("etcdclusters"), None);
    let restores = world.server.peek_all(&custom("etcdrestores"), None);
    let backups = world.server.peek_all(&custom("etcdbackups"), None);
    clusters
        .iter()
        .find_map(|cluster| cluster_pending(world, cluster))
        .or_else(|| restores.iter().find_map(restore_pending))
        .or_else(|| backups.iter().find_map(|backup| backup_pending(world, backup)))
}

fn restore_pending(restore: &Arc<Value>) -> Option<String> {
    (restore["status"]["succeeded"] != true)
        .then(|| format!("EtcdRestore {} has not succeeded: {}", key(restore), restore["status"]["reason"]))
}

fn backup_pending(world: &World, backup: &Value) -> Option<String> {
    let done = backup["status"]["succeeded"] == true || (is_periodic(backup) && newest_record(backup).is_some());
    if !done {
        return Some(format!("EtcdBackup {} has not succeeded: {}", key(backup), backup["status"]["Reason"]));
    }
    // What an EtcdCluster says of its backups turns when this does.
    let failed = condition(backup, "BackupSucceeded").is_some_and(|outcome| outcome["status"] == "False");
    if failed {
        return Some(format!("the last attempt of EtcdBackup {} failed: {}", key(backup), backup["status"]["Reason"]));
    }
    overdue(world, backup)
}

/// When the newest backup on record was taken.
fn newest_record(backup: &Value) -> Option<Timestamp> {
    let records = backup["status"]["records"].as_array()?;
    records.iter().filter_map(|record| record["time"].as_str()?.parse().ok()).max()
}

/// Whether a schedule has stopped: nothing is in its way any more, and its newest backup is older than the next one may be.
fn overdue(world: &World, backup: &Value) -> Option<String> {
    let interval = interval(backup).filter(|_| backup["metadata"]["deletionTimestamp"].is_null())?;
    let since = newest_record(backup)?.max(world.timestamp_of(world.faults.healed_at?));
    let late = world.timestamp().duration_since(since) > interval + SCHEDULE_TAKES;
    late.then(|| format!("EtcdBackup {} has none since {since}, and takes one every {interval:#}", key(backup)))
}

/// When a schedule must have shown, after the heal, that it goes on.
pub fn schedules_due(world: &World) -> Option<Millis> {
    let backups = world.server.peek_all(&custom("etcdbackups"), None);
    let longest = backups.iter().filter_map(|backup| interval(backup)).max()?;
    let takes = u64::try_from((longest + SCHEDULE_TAKES).as_millis()).unwrap_or(0);
    Some(world.faults.healed_at? + takes)
}

/// The lineage that status names.
pub fn serving(cluster: &Value) -> Option<ClusterId> {
    let id = cluster["status"]["lineage"]["clusterID"].as_str()?;
    u64::from_str_radix(id.trim_start_matches("0x"), 16).ok().map(ClusterId)
}

fn cluster_pending(world: &World, cluster: &Value) -> Option<String> {
    let name = key(cluster);
    let missing = |what: String| Some(format!("EtcdCluster {name}: {what}"));
    if cluster["metadata"]["deletionTimestamp"].is_string() {
        return missing("it is still being deleted".into());
    }
    let Some(lineage) = serving(cluster) else { return missing("it has no lineage in status".into()) };
    if !cluster["status"]["restore"].is_null() {
        return missing("its restore is still under way".into());
    }
    if let Some(what) = members_pending(world, cluster, lineage) {
        return missing(what);
    }
    if let Some(what) = objects_pending(world, cluster) {
        return missing(what);
    }
    let Some(ready) = condition(cluster, "Ready") else { return missing("it has no condition Ready".into()) };
    if ready["status"] != "True" || ready["observedGeneration"] != cluster["metadata"]["generation"] {
        return missing(format!("Ready is {} ({})", ready["status"], ready["message"]));
    }
    None
}

fn members_pending(world: &World, cluster: &Value, lineage: ClusterId) -> Option<String> {
    let size = cluster["spec"]["size"].as_u64().unwrap_or(0) as usize;
    let Some(state) = world.etcds.configuration(lineage) else { return Some("its lineage does not exist".into()) };
    let voters = state.voters();
    if voters.len() != size || state.members.len() != size {
        return Some(format!("{} voters and {} members, {size} wanted", voters.len(), state.members.len()));
    }
    let healthy = world.etcds.healthy(&world.network, lineage);
    if healthy.len() != size {
        return Some(format!("{} of {size} members are healthy", healthy.len()));
    }
    let version = cluster["spec"]["version"].as_str().unwrap_or_default();
    let behind = voters.iter().find_map(|voter| {
        let process = world.etcds.of_member(lineage, *voter)?;
        let runs = format!("3.{}.{}", process.version.0, process.version.1);
        (runs != version).then(|| format!("{} runs {runs}, {version} wanted", process.pod))
    });
    if behind.is_some() {
        return behind;
    }
    let commits: Vec<usize> = voters
        .iter()
        .filter_map(|voter| world.etcds.of_member(lineage, *voter))
        .filter_map(|process| world.etcds.disk(process.id).map(Disk::last))
        .collect();
    (commits.iter().max() != commits.iter().min()).then(|| "a member has not caught up".to_owned())
}

fn objects_pending(world: &World, cluster: &Value) -> Option<String> {
    let size = cluster["spec"]["size"].as_u64().unwrap_or(0) as usize;
    let (namespace, name) = (cluster["metadata"]["namespace"].as_str()?, cluster["metadata"]["name"].as_str()?);
    let of_cluster = |plural: &str| -> Vec<Arc<Value>> {
        let all = world.server.peek_all(&ResourceName::core(plural), Some(namespace));
        all.into_iter().filter(|object| object["metadata"]["labels"]["etcd_cluster"] == name).collect()
    };
    let pods = of_cluster("pods");
    if pods.len() != size {
        return Some(format!("{} pods, {size} wanted", pods.len()));
    }
    let labels = cluster["spec"]["pod"]["labels"].as_object();
    for pod in &pods {
        for (key, value) in labels.into_iter().flatten() {
            if &pod["metadata"]["labels"][key] != value {
                return Some(format!("pod {} lacks the label {key}={value}", pod["metadata"]["name"]));
            }
        }
    }
    let claims = of_cluster("persistentvolumeclaims").len();
    let wanted = if cluster["spec"]["pod"]["persistentVolumeClaimSpec"].is_object() { size } else { 0 };
    if claims != wanted {
        return Some(format!("{claims} volume claims, {wanted} wanted"));
    }
    let backends = crate::names::backends(world, namespace, &format!("{name}-client")).len();
    (backends != size).then(|| format!("{backends} pods behind the client Service, {size} wanted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::fixture::in_world;
    use serde_json::json;

    #[test]
    fn a_schedule_that_stopped_is_missed_when_nothing_is_in_its_way_any_more() {
        in_world(|fixture| {
            fixture.create(&json!({
                "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup", "metadata": {"name": "b"},
                "spec": {
                    "etcdEndpoints": ["http://c-client.default.svc:2379"], "storageType": "S3",
                    "backupPolicy": {"backupIntervalInSecond": 60},
                    "s3": {"path": "backups/k", "awsSecret": "store-credentials"},
                },
            }));
            let record = |time: &Timestamp| json!({"key": "k", "revision": 1, "size": 1, "sha256": "", "time": time});
            let taken = fixture.world.timestamp();
            fixture.set_status("EtcdBackup", "b", &json!({"succeeded": true, "records": [record(&taken)]}));
            fixture.pass(200_000);
            assert_eq!(schedules_due(fixture.world), None, "nothing is healed yet");
            assert_eq!(
                overdue(fixture.world, &fixture.object("EtcdBackup", "b")),
                None,
                "faults may have been in its way"
            );
            fixture.world.heal_all();
            assert_eq!(schedules_due(fixture.world), Some(320_000));
            fixture.pass(120_000);
            assert_eq!(overdue(fixture.world, &fixture.object("EtcdBackup", "b")), None);
            fixture.pass(1_000);
            let said = backup_pending(fixture.world, &fixture.object("EtcdBackup", "b")).expect("it is overdue");
            assert!(said.contains("EtcdBackup default/b has none since"), "{said}");
            let (first, second) = (record(&taken), record(&fixture.world.timestamp()));
            fixture.set_status("EtcdBackup", "b", &json!({"succeeded": true, "records": [first, second]}));
            assert_eq!(overdue(fixture.world, &fixture.object("EtcdBackup", "b")), None, "it goes on");
        });
    }
}
