//! Corners of the world that a campaign must have visited: a property that is never put to the test holds for nothing.
//! Each mark is set by what really happened; a campaign of [`ENOUGH_SEEDS`] that misses one fails.
//!
//! NOT verified: that the operator was the reason; only that it went through it.

use std::collections::{BTreeMap, BTreeSet};

use etcd_operator::model::{ClusterId, MemberId};
use fake_k8s::server::ResourceName;
use serde_json::Value;

use crate::converge;
use crate::effect::Effect;
use crate::run::NAMESPACE;
use crate::world::World;

/// From so many seeds on, every mark must be there.
pub const ENOUGH_SEEDS: u64 = 500;

/// From so many seeds on, the rare ones must be there too.
pub const ENOUGH_SEEDS_FOR_RARE: u64 = 20_000;
/// Marks that need two accidents at one moment: a uid is refused when a pod was made anew under its name between a quorum
/// read and the delete that follows it. (S5 looks at the uid of every delete all the same.)
pub const RARE: &[&str] = &[UID_REFUSED];

/// A quorum of a formed lineage did not answer, and later did.
pub const QUORUM_RECOVERED: &str = "quorum lost and recovered";
/// A learner was removed, and another one added.
pub const LEARNER_REPLACED: &str = "learner replaced";
/// What one operator had sent was carried out after another one had begun to act.
pub const LEADERS_OVERLAPPED: &str = "two leaders overlapped";
/// A watch could not go on from where it was.
pub const RELISTED: &str = "410 and relist";
/// An object was created, the answer was lost, and nothing was created twice.
pub const CREATE_RESOLVED: &str = "ambiguous create resolved";
/// The object of a backup was in the store, nobody recorded it, and the backup was taken again.
pub const BACKUP_RETRIED: &str = "backup retried after a committed PUT";
/// The store answered that it has what it has not.
pub const STORE_LIED: &str = "the store lost or spoiled what it acknowledged";
/// The operator crashed while seeds were being restored.
pub const RESTORE_INTERRUPTED_STARTING: &str = "restore interrupted while Starting";
/// The operator crashed while the old members were being stopped.
pub const RESTORE_INTERRUPTED_CONFIRMED: &str = "restore interrupted while Confirmed";
/// The operator crashed while what is left of the old lineage was being dropped.
pub const RESTORE_INTERRUPTED_SWITCHED: &str = "restore interrupted while Switched";
/// A restore came to its end.
pub const RESTORED: &str = "restore succeeded";
/// A member found its directory empty and did not start.
pub const EMPTY_DISK: &str = "an empty disk under a seed detected";
/// Every node went down at once.
pub const ALL_NODES: &str = "all nodes restarted at once";
/// A delete came too late: its uid was another's by then.
pub const UID_REFUSED: &str = "a delete was refused for its uid";

/// All of them.
pub const ALL: &[&str] = &[
    QUORUM_RECOVERED,
    LEARNER_REPLACED,
    LEADERS_OVERLAPPED,
    RELISTED,
    CREATE_RESOLVED,
    BACKUP_RETRIED,
    STORE_LIED,
    RESTORE_INTERRUPTED_STARTING,
    RESTORE_INTERRUPTED_CONFIRMED,
    RESTORE_INTERRUPTED_SWITCHED,
    RESTORED,
    EMPTY_DISK,
    ALL_NODES,
    UID_REFUSED,
];

/// What has been visited, and what is needed to know.
#[derive(Debug, Default)]
pub struct Sometimes {
    /// Marks.
    pub marks: BTreeSet<&'static str>,
    without_quorum: BTreeSet<ClusterId>,
    learners: BTreeSet<(ClusterId, MemberId)>,
    learner_removed: BTreeSet<ClusterId>,
    unanswered_creates: BTreeSet<(String, String)>,
    unrecorded: BTreeMap<String, String>,
    last_life: u64,
}

impl Sometimes {
    /// Marks.
    pub fn mark(&mut self, what: &'static str) {
        self.marks.insert(what);
    }

    /// A lineage that formed has so many healthy voters.
    pub fn quorum(&mut self, cluster: ClusterId, healthy: usize, voters: usize) {
        if healthy < voters / 2 + 1 {
            self.without_quorum.insert(cluster);
        } else if self.without_quorum.remove(&cluster) {
            self.mark(QUORUM_RECOVERED);
        }
    }

    /// Everything converged: what was created without an answer is there, once.
    pub fn converged(&mut self) {
        if !self.unanswered_creates.is_empty() {
            self.mark(CREATE_RESOLVED);
        }
    }
}

/// An effect of a life of the operator was carried out; its answer may be lost.
pub fn effect(world: &mut World, life: u64, effect: &Effect, answered: bool) {
    if effect.is_bookkeeping() {
        return;
    }
    let sometimes = &mut world.sometimes;
    if life < sometimes.last_life {
        sometimes.mark(LEADERS_OVERLAPPED);
    }
    sometimes.last_life = sometimes.last_life.max(life);
    match effect {
        Effect::Create { kind, key } if !answered => {
            sometimes.unanswered_creates.insert((kind.clone(), key.clone()));
        }
        Effect::MemberAdd { cluster, learner: true, .. } if sometimes.learner_removed.contains(cluster) => {
            sometimes.mark(LEARNER_REPLACED);
        }
        Effect::MemberRemove { cluster, member } if sometimes.learners.contains(&(*cluster, *member)) => {
            sometimes.learner_removed.insert(*cluster);
        }
        Effect::StoreComplete { bucket, key } | Effect::StorePut { bucket, key } => {
            committed(sometimes, bucket, key);
        }
        Effect::StoreBegin { key, .. } if is_retry(sometimes, key) => sometimes.mark(BACKUP_RETRIED),
        Effect::Update { kind, status: true, body, .. } if kind == "EtcdBackup" => recorded(sometimes, body),
        Effect::Update { kind, status: true, body, .. }
            if kind == "EtcdRestore" && body["status"]["succeeded"] == true =>
        {
            sometimes.mark(RESTORED);
        }
        _ => {}
    }
}

/// Learners of a lineage now.
pub fn learners(world: &mut World, cluster: ClusterId) {
    let Some(state) = world.etcds.configuration(cluster) else { return };
    let found = state.members.values().filter(|member| member.learner).map(|member| (cluster, member.id));
    let found: Vec<_> = found.collect();
    let members: BTreeSet<_> = state.members.keys().copied().collect();
    let sometimes = &mut world.sometimes;
    // A member that is gone is kept: its removal may be told after it happened.
    sometimes.learners.retain(|known| known.0 != cluster || found.contains(known) || !members.contains(&known.1));
    sometimes.learners.extend(found);
}

/// The backup that a key belongs to.
fn path(key: &str) -> &str {
    key.rsplit_once("_v").map_or(key, |(path, _)| path)
}

fn committed(sometimes: &mut Sometimes, bucket: &str, key: &str) {
    if key.ends_with(".manifest.json") {
        return;
    }
    if is_retry(sometimes, key) {
        sometimes.mark(BACKUP_RETRIED);
    }
    sometimes.unrecorded.insert(key.to_owned(), bucket.to_owned());
}

fn is_retry(sometimes: &Sometimes, key: &str) -> bool {
    sometimes.unrecorded.keys().any(|known| path(known) == path(key))
}

fn recorded(sometimes: &mut Sometimes, backup: &Value) {
    let records = backup["status"]["records"].as_array().into_iter().flatten();
    for record in records.filter_map(|record| record["key"].as_str()) {
        sometimes.unrecorded.retain(|key, bucket| record != key && record != format!("{bucket}/{key}"));
    }
}

/// The operator crashes now.
pub fn crashed(world: &mut World) {
    let clusters = world.server.peek_all(&converge::custom("etcdclusters"), Some(NAMESPACE));
    for cluster in clusters {
        match cluster["status"]["restore"]["phase"].as_str() {
            Some("Starting") => world.sometimes.mark(RESTORE_INTERRUPTED_STARTING),
            Some("Confirmed") => world.sometimes.mark(RESTORE_INTERRUPTED_CONFIRMED),
            Some("Switched") => world.sometimes.mark(RESTORE_INTERRUPTED_SWITCHED),
            _ => {}
        }
    }
}

/// Whether a delete names an object that has made room for another of its name.
pub fn refused_for_uid(world: &World, effect: &Effect) -> bool {
    let Effect::Delete { kind, key, uid } = effect else { return false };
    let Some((namespace, name)) = key.split_once('/') else { return false };
    let resource = ResourceName::core(format!("{}s", kind.to_lowercase()));
    let found = world.server.peek(&resource, namespace, name);
    found.is_some_and(|object| !uid.is_empty() && object["metadata"]["uid"] != uid.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorum_is_marked_only_when_it_comes_back() {
        let (mut sometimes, cluster) = (Sometimes::default(), ClusterId(7));
        sometimes.quorum(cluster, 3, 3);
        sometimes.quorum(cluster, 1, 3);
        assert!(sometimes.marks.is_empty());
        sometimes.quorum(cluster, 2, 3);
        assert!(sometimes.marks.contains(QUORUM_RECOVERED));
    }

    #[test]
    fn a_backup_is_retried_when_its_object_was_there_and_nobody_had_recorded_it() {
        let mut sometimes = Sometimes::default();
        committed(&mut sometimes, "b", "nightly_v7_2030-01-01-00:00:00");
        let status = serde_json::json!({"status": {"records": [{"key": "nightly_v7_2030-01-01-00:00:00"}]}});
        recorded(&mut sometimes, &status);
        committed(&mut sometimes, "b", "nightly_v8_2030-01-01-00:01:00");
        assert!(sometimes.marks.is_empty(), "the first one was recorded");
        committed(&mut sometimes, "b", "nightly_v9_2030-01-01-00:02:00");
        assert!(sometimes.marks.contains(BACKUP_RETRIED));
    }
}
