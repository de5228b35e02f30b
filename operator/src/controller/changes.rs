//! Which changes of a custom resource are news to a controller, and which only say back what it wrote itself.

use std::collections::BTreeSet;

use crate::api::conditions::find;
use crate::api::conditions::reason::BackupReadyReason;
use crate::api::{RestoreRunPhase, SnapshotRef};
use crate::cache::{Change, clusters_of};
use crate::ports::{Object, ObjectKey};

/// Whether nothing changed but the status (which is ours): such a change needs no new pass.
pub(super) fn is_own_status_write(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return false };
    let (before, now) = (before.meta(), now.meta());
    before.uid == now.uid
        && before.generation == now.generation
        && before.deletion_timestamp == now.deletion_timestamp
        && before.annotations == now.annotations
        && before.finalizers == now.finalizers
}

/// Whether the plan of the EtcdCluster may read something new in its EtcdRestore. Of the status it reads the phase and
/// the snapshot. The words in it repeat what the EtcdCluster says of itself: woken by them it would look, say the next
/// number, and be woken by that.
pub(super) fn is_news_to_the_cluster(change: &Change) -> bool {
    !is_own_status_write(change) || read_by_the_plan(&change.before) != read_by_the_plan(&change.now)
}

fn read_by_the_plan(object: &Option<Object>) -> Option<(Option<RestoreRunPhase>, Option<&SnapshotRef>)> {
    let Some(Object::EtcdRestore(restore)) = object else { return None };
    restore.status.as_ref().map(|status| (status.phase, status.snapshot.as_ref()))
}

/// The EtcdClusters whose condition `BackupHealthy` may turn with this change of an EtcdBackup. A good backup after a good
/// one turns nothing.
pub(super) fn clusters_with_news(change: &Change) -> BTreeSet<ObjectKey> {
    let (before, now) = (outcome(&change.before), outcome(&change.now));
    if is_own_status_write(change) && before == now {
        return BTreeSet::new();
    }
    [&change.before, &change.now].into_iter().flatten().flat_map(clusters_of).collect()
}

/// What `BackupHealthy` is made of: how the last attempt ended, and whether what it left is still a backup.
fn outcome(object: &Option<Object>) -> Option<(&str, Option<&str>)> {
    let Some(Object::EtcdBackup(backup)) = object else { return None };
    let conditions = &backup.status.as_ref()?.conditions;
    let is_none = [BackupReadyReason::Gone, BackupReadyReason::SpecChanged].map(|reason| reason.as_str());
    let ready = find(conditions, "Ready").map(|ready| ready.reason.as_str());
    let outcome = find(conditions, "BackupSucceeded")?;
    Some((outcome.reason.as_str(), ready.filter(|ready| is_none.contains(ready))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{EtcdRestore, EtcdRestoreStatus};
    use crate::ports::{Kind, Typed};

    fn restore(edit: impl FnOnce(&mut EtcdRestore)) -> Object {
        let text = "{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdRestore, metadata: {name: c, uid: u1, \
                    generation: 1}, spec: {etcdCluster: {name: c}, backupStorageType: S3, s3: {path: b/k}}, \
                    status: {phase: Restoring, reason: 1 of 3 answer}}";
        let json = serde_saphyr::from_str(text).expect("a manifest");
        let object = Object::from_json(Kind::EtcdRestore, json).expect("a restore");
        let mut restore = EtcdRestore::clone(&*object.typed::<EtcdRestore>().expect("a restore"));
        edit(&mut restore);
        restore.into_object()
    }

    fn status(restore: &mut EtcdRestore) -> &mut EtcdRestoreStatus {
        restore.status.as_mut().expect("it has one")
    }

    #[test]
    fn a_backup_is_news_to_its_cluster_when_its_outcome_turns() {
        let backup = |generation: i64, endpoint: &str, reason: &str, message: &str| {
            let text = format!(
                "{{apiVersion: etcd.database.coreos.com/v1beta2, kind: EtcdBackup, metadata: {{name: b, namespace: ns, uid: u1, \
                 generation: {generation}}}, spec: {{etcdEndpoints: [{endpoint}]}}, status: {{conditions: [{{type: \
                 BackupSucceeded, status: 'True', reason: {reason}, message: {message}}}]}}}}"
            );
            let json = serde_saphyr::from_str(&text).expect("a manifest");
            Some(Object::from_json(Kind::EtcdBackup, json).expect("a backup"))
        };
        let before = || backup(1, "'c-client:2379'", "Confirmed", "one");
        let news = |now: Option<Object>| {
            let news = clusters_with_news(&Change { before: before(), now });
            news.into_iter().map(|key| key.name).filter(|name| !name.ends_with("-client")).collect::<Vec<_>>()
        };
        assert!(news(backup(1, "'c-client:2379'", "Confirmed", "two")).is_empty());
        assert_eq!(news(backup(1, "'c-client:2379'", "StoreFailed", "two")), ["c"]);
        assert_eq!(news(backup(2, "'d-client:2379'", "Confirmed", "one")), ["c", "d"]);
        assert_eq!(news(None), ["c"]);
    }

    #[test]
    fn the_words_of_a_restore_are_no_news_to_its_cluster_and_all_that_its_plan_reads_is() {
        let before = || Some(restore(|_| {}));
        let is_news = |now: Option<Object>| is_news_to_the_cluster(&Change { before: before(), now });
        assert!(!is_news(Some(restore(|restore| status(restore).reason = "2 of 3 answer".into()))));
        assert!(is_news(Some(restore(|restore| status(restore).phase = Some(RestoreRunPhase::Verified)))));
        assert!(is_news(Some(restore(|restore| status(restore).snapshot = Some(Default::default())))));
        assert!(is_news(Some(restore(|restore| restore.metadata.generation = Some(2)))));
        assert!(is_news(Some(restore(|restore| restore.metadata.uid = Some("u2".into())))));
        assert!(is_news(None), "it is gone");
        assert!(is_news_to_the_cluster(&Change { before: None, now: before() }), "it is new");
    }
}
