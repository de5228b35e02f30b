//! What removed members leave behind: first the pod, then the volume, once a confirmed list no longer names them.

use std::borrow::Cow;
use std::ops::ControlFlow;

use super::members::Members;
use super::pass::Pass;
use super::{PodDeletion, Step, VolumeDeletion, Waiting};
use crate::model::{Desired, Storage, VolumeObserved};

/// What the pod of a member is made from that has a volume: the spec may no longer ask for volumes, and its data is on it.
pub(super) fn on_its_volume<'a>(desired: &'a Desired, volume: Option<&VolumeObserved>) -> Cow<'a, Desired> {
    match (&desired.storage, volume) {
        (Storage::EmptyDir, Some(_)) => {
            let mut desired = desired.clone();
            desired.storage = Storage::Volume(Box::default());
            Cow::Owned(desired)
        }
        _ => Cow::Borrowed(desired),
    }
}

/// Deletes one object of a member that is not in the list. Every member is in the list before it has a pod or a volume,
/// and the list was read after the objects: who is not in it was removed.
///
/// No race remains, in any version of etcd: the list is that of a member which had just answered a quorum read, so it
/// holds every change that was committed before. A later change cannot be about these objects: a member that was removed
/// never comes back, and one that is added has a new name.
pub(super) fn drop_leftovers(pass: &mut Pass<'_>, members: &Members<'_>) -> ControlFlow<()> {
    let Some(token) = pass.record.lineage.as_ref().map(|lineage| lineage.token.clone()) else {
        return ControlFlow::Continue(());
    };
    let left = |ours: bool, lineage: &Option<String>, name: &str| {
        ours && lineage.as_deref() == Some(token.as_str()) && members.by_name(name).is_none()
    };
    let pods = pass.observed.pods.values().filter(|pod| left(pod.ours, &pod.lineage, &pod.name));
    for pod in pods {
        // It follows a leader, so somebody counts it as a member: the list and it disagree, and time will tell. (In a
        // cluster of its own it counts for nothing.)
        let ours = pass.record.lineage.as_ref().and_then(|lineage| lineage.cluster_id);
        let status = pass.observed.etcd.status(&pod.name);
        let status = status.filter(|status| ours.is_none_or(|ours| ours == status.cluster_id));
        let counted = status.is_some_and(|status| status.leader.is_some());
        if pod.deleting || counted {
            pass.wait(Waiting::ObjectGone { kind: "Pod", name: pod.name.clone() });
        } else {
            return pass.last_step(Step::delete_pod(pod, PodDeletion::MemberRemoved));
        }
    }
    let volumes = pass.observed.volumes.values().filter(|volume| left(volume.ours, &volume.lineage, &volume.name));
    for volume in volumes.filter(|volume| pass.pod(&volume.name).is_none()).collect::<Vec<_>>() {
        if volume.deleting {
            pass.wait(Waiting::ObjectGone { kind: "PersistentVolumeClaim", name: volume.name.clone() });
        } else {
            return pass.last_step(Step::delete_volume(volume, VolumeDeletion::MemberRemoved));
        }
    }
    ControlFlow::Continue(())
}
