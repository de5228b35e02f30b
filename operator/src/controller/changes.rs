//! Which changes of a custom resource are news to a controller, and which only say back what it wrote itself.

use crate::api::{RestoreRunPhase, SnapshotRef};
use crate::cache::Change;
use crate::ports::Object;

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
