//! What users and the world do to a [`World`]: where a flow begins, what is wanted next, what goes wrong.

use jiff::SignedDuration;

use super::World;
use crate::model::{BucketLocation, ObjectLocation, RestoreWanted, Revision, StorageKind};
use crate::plan::Step;

fn restore(uid: &str, revision: i64) -> RestoreWanted {
    let bucket = BucketLocation {
        storage: StorageKind::S3,
        bucket: "b".into(),
        endpoint: None,
        force_path_style: false,
        secret: None,
    };
    RestoreWanted {
        name: "c".into(),
        uid: uid.into(),
        source: ObjectLocation { bucket, key: "k".into() },
        size: 1,
        sha256: "0".repeat(64),
        revision: Revision(revision),
        verified_at: None,
    }
}

impl World {
    // Where flows begin.

    /// A cluster that has been formed and is as wanted.
    pub(crate) fn formed(size: usize, volumes: bool, version: &str) -> Self {
        let mut world = Self::new(size, volumes, version);
        world.run();
        world.transcript.clear();
        world.passes = 0;
        world
    }

    /// Three members of 3.6.10 on volumes: what most flows begin with.
    pub(crate) fn three() -> Self {
        Self::formed(3, true, "3.6.10")
    }

    /// The same without volumes.
    pub(crate) fn three_without_volumes() -> Self {
        Self::formed(3, false, "3.6.10")
    }

    /// A first attempt whose pods were made in the last pass: members have formed, and nobody has looked since.
    pub(crate) fn formed_unseen(size: usize, volumes: bool) -> Self {
        let mut world = Self::new(size, volumes, "3.6.10");
        world.run_passes(1);
        world.transcript.clear();
        world
    }

    pub(crate) fn seeds(&self) -> Vec<String> {
        self.record.lineage.as_ref().expect("there is an attempt").seeds.clone()
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.record.lineage.as_ref().expect("there is an attempt").attempt
    }

    // Users.

    pub(crate) fn want_version(&mut self, version: &str) {
        self.desired.version = version.parse().expect("a version");
    }

    pub(crate) fn want_size(&mut self, size: usize) {
        self.desired.size = size;
    }

    /// Something that a running pod cannot follow.
    pub(crate) fn want_other_template(&mut self) {
        self.desired.pod.annotations.insert("a".into(), "b".into());
    }

    /// An EtcdRestore of this uid, from a snapshot of this revision.
    pub(crate) fn want_restore(&mut self, uid: &str, revision: i64) {
        self.desired.restore = Some(restore(uid, revision));
    }

    /// Passes until one adds, promotes, removes ... what the test waits for.
    pub(crate) fn run_until(&mut self, is_awaited: impl Fn(&Step) -> bool) {
        for _ in 0..100 {
            if self.pass_of(usize::MAX).steps.iter().any(&is_awaited) {
                return;
            }
        }
        panic!("it never comes:\n{}", self.readable());
    }

    // Faults.

    pub(crate) fn kill_pod(&mut self, name: &str) {
        self.pods.remove(name);
    }

    /// Somebody deletes the pod; its kubelet has not stopped it yet.
    pub(crate) fn evict(&mut self, name: &str) {
        let seen = &mut self.pods.get_mut(name).expect("it runs").seen;
        (seen.deleting, seen.deleted_at) = (true, Some(self.now));
    }

    pub(crate) fn end_pod(&mut self, name: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod.seen.terminal = true;
            pod.seen.running = false;
            pod.seen.ready = false;
        }
    }

    /// The node under a pod comes up with nothing but its disks: the pod starts again from its first container on.
    pub(crate) fn reboot_under(&mut self, name: &str) {
        let pod = self.pods.get_mut(name).expect("it runs");
        (pod.has_agent, pod.pulled) = (false, None);
        (pod.seen.running, pod.seen.ready) = (false, false);
    }

    pub(crate) fn lose_volume(&mut self, name: &str) {
        self.volumes.remove(name);
        self.pods.remove(name);
    }

    /// The directory is emptied under the running container: its agent finds it so at the next start.
    pub(crate) fn wipe_under(&mut self, name: &str) {
        if let Some(volume) = self.volumes.get_mut(name) {
            volume.data = None;
        }
        let pod = self.pods.get_mut(name).expect("it runs");
        pod.data = None;
        (pod.seen.data_lost, pod.seen.running, pod.seen.ready) = (true, false, false);
    }

    /// The volume comes back empty under a pod that is made anew.
    pub(crate) fn wipe(&mut self, name: &str) {
        if let Some(volume) = self.volumes.get_mut(name) {
            volume.data = None;
        }
        self.pods.remove(name);
    }

    pub(crate) fn wait(&mut self, minutes: i64) {
        self.now = self.now.checked_add(SignedDuration::from_mins(minutes)).expect("in range");
    }
}
