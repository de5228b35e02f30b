//! S7: a backup that is reported as succeeded restores to exactly the state at its revision.
//!
//! Checked when the status that reports it is committed: the object is in the store with that size and hash, a scratch
//! etcd restored from its bytes has the revision that was recorded, and its keys are those that the lineage had at that
//! revision. NOT verified: the manifest beside the object, and backups of lineages that lost a quorum of their disks.

use sha2::{Digest, Sha256};

use super::Checker;
use crate::effect::Effect;
use crate::world::World;

/// S7.
pub struct BackupsRestore;

impl Checker for BackupsRestore {
    fn invariant(&self) -> &'static str {
        "S7"
    }

    fn effect(&mut self, world: &World, effect: &Effect) -> Option<String> {
        let Effect::Update { kind, key, status: true, body } = effect else { return None };
        if kind != "EtcdBackup" {
            return None;
        }
        let (namespace, name) = key.split_once('/')?;
        let resource = fake_k8s::server::ResourceName::new("etcd.database.coreos.com", "v1beta2", "etcdbackups");
        let before = world.server.peek(&resource, namespace, name);
        let known = before.as_deref().and_then(|before| before["status"]["records"].as_array().cloned());
        let known = known.unwrap_or_default();
        let records = body["status"]["records"].as_array().cloned().unwrap_or_default();
        if body["status"]["succeeded"] == true && records.is_empty() {
            return Some(format!("EtcdBackup {key} reports success without a record"));
        }
        let fresh = records.iter().filter(|record| !known.contains(record) && record["superseded"] != true);
        fresh.into_iter().find_map(|record| judge(world, key, record))
    }
}

fn judge(world: &World, backup: &str, record: &serde_json::Value) -> Option<String> {
    let object = record["key"].as_str().unwrap_or_default();
    let revision = record["revision"].as_i64().unwrap_or_default();
    let complain =
        |what: String| Some(format!("EtcdBackup {backup} reports {object} at revision {revision}, but {what}"));
    let found =
        world.store.objects.iter().find(|((bucket, key), _)| key == object || format!("{bucket}/{key}") == object);
    let Some((_, stored)) = found else { return complain("there is no such object".into()) };
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
