//! Every effect that a pass over an EtcdCluster can have. A step leaves its executor no choice.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};

use crate::api::labels;
use crate::model::{Alarm, MemberId, PodObserved, Version, VolumeObserved};

/// The membership that a call was planned against: ids and whether each is a learner, ordered by id.
pub type Fence = Vec<(MemberId, bool)>;

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodDeletion {
    /// It ended for good (Succeeded, Failed); it comes back on the same volume.
    Terminal,
    /// Its member is no longer in etcd's member list.
    MemberRemoved,
    /// Its attempt at a formation is thrown away.
    FormationAbandoned,
    /// The template changed in a way that a running pod cannot follow.
    Outdated,
    /// A restored lineage takes over.
    Superseded,
    /// A restore was called off before its switch.
    RestoreCancelled,
}

/// Why a volume claim is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeDeletion {
    /// Its member was removed from etcd, and its pod is gone.
    MemberRemoved,
    /// Its attempt at a formation is thrown away.
    FormationAbandoned,
    /// A restored lineage serves in its place.
    Superseded,
    /// A restore was called off before its switch.
    RestoreCancelled,
}

/// Why a member is removed from etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberRemoval {
    /// More members than wanted.
    ScaleIn,
    /// Its data is gone: volume lost, wiped, or the pod that held it is gone.
    DataLost,
    /// It has not answered for longer than `replaceAfter`.
    Unreachable,
    /// It was added and never started; it stands in the way of every other change.
    NeverStarted,
    /// It is a learner that answers and did not catch up in time; another one is tried.
    NeverCaughtUp,
    /// It must be made anew to follow its template, and cannot be restarted without losing its data.
    Outdated,
    /// etcd raised CORRUPT, and a quorum of the others agrees on other data.
    Corrupt,
}

/// Why an alarm is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisarmReason {
    /// Who it is about is no member any more; etcd keeps it all the same.
    Gone,
    /// CORRUPT of a member whose data is what a quorum has.
    Cleared,
}

/// One effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Creates a Service.
    CreateService(Box<Service>),
    /// Gives a Service our part of it back; it carries uid and resourceVersion of what it was planned against.
    UpdateService(Box<Service>),
    /// Creates a member's volume claim.
    CreateVolume(Box<PersistentVolumeClaim>),
    /// Creates a member's pod.
    CreatePod(Box<Pod>),
    /// Deletes a pod.
    DeletePod {
        /// Pod name.
        name: String,
        /// uid precondition.
        uid: String,
        /// resourceVersion precondition: what it was judged by is still so.
        resource_version: String,
        /// Why.
        why: PodDeletion,
    },
    /// Deletes a volume claim.
    DeleteVolume {
        /// Claim name.
        name: String,
        /// uid precondition.
        uid: String,
        /// resourceVersion precondition: what it was judged by is still so.
        resource_version: String,
        /// Why.
        why: VolumeDeletion,
    },
    /// Gives the running pod another etcd image: the container restarts in place, its data stays.
    PatchImage {
        /// Pod name.
        name: String,
        /// uid precondition.
        uid: String,
        /// resourceVersion precondition.
        resource_version: String,
        /// The image.
        image: String,
        /// The container that runs now: as long as it does, the kubelet has not followed.
        container: Option<String>,
        /// The version of the image that it has, for the event.
        from: String,
        /// Goes into the `etcd.version` annotation.
        version: Version,
    },
    /// Gives a pod that does not run the image of this operator for its agent: its data goes with it, so that it cannot be
    /// made anew.
    PatchAgent {
        /// Pod name.
        name: String,
        /// uid precondition.
        uid: String,
        /// resourceVersion precondition.
        resource_version: String,
        /// The image.
        image: String,
    },
    /// Lets the client Service select a member that has its vote.
    LabelVoter {
        /// Pod name.
        name: String,
        /// uid precondition.
        uid: String,
        /// resourceVersion precondition.
        resource_version: String,
    },
    /// Adds a member to etcd, before it has a volume or a pod.
    AddMember {
        /// Its name, which its peer URL carries.
        name: String,
        /// Its peer URL.
        peer_url: String,
        /// As a learner (etcd 3.4 and later).
        learner: bool,
        /// Client URLs to ask, healthy voters first.
        endpoints: Vec<String>,
        /// The membership that this was planned against.
        fence: Fence,
    },
    /// Gives a caught-up learner its vote.
    PromoteMember {
        /// Its name, for the event.
        name: String,
        /// Its id.
        id: MemberId,
        /// Client URLs to ask.
        endpoints: Vec<String>,
        /// The membership that this was planned against.
        fence: Fence,
    },
    /// Takes a member out of etcd, which fences it wherever it still runs.
    RemoveMember {
        /// Its name, for the event.
        name: String,
        /// Its id.
        id: MemberId,
        /// Client URLs to ask, never the member's own.
        endpoints: Vec<String>,
        /// The membership that this was planned against.
        fence: Fence,
        /// Why.
        why: MemberRemoval,
    },
    /// Appends entries that change nothing to the raft log, so that members take a raft snapshot.
    AdvanceLog {
        /// How many.
        entries: u64,
        /// Client URLs to ask, the leader's first.
        endpoints: Vec<String>,
    },
    /// Takes an alarm back: etcd refuses writes because of it.
    Disarm {
        /// Who it is about.
        member: MemberId,
        /// Which.
        alarm: Alarm,
        /// Why.
        why: DisarmReason,
        /// Client URLs to ask, the leader's first.
        endpoints: Vec<String>,
    },
    /// Hands leadership on.
    MoveLeader {
        /// The leader's name.
        from: String,
        /// The leader's client URL.
        endpoint: String,
        /// The new leader's id.
        to: MemberId,
        /// The new leader's name, for the event.
        to_name: String,
    },
}

/// An object of a member, to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made<'a> {
    /// The member's.
    pub(super) name: &'a str,
    /// Value of its lineage label.
    pub(super) lineage: Option<&'a str>,
}

impl Step {
    /// What a step makes of a member: a pod or a volume claim.
    pub(super) fn made(&self) -> Option<Made<'_>> {
        let meta = match self {
            Self::CreatePod(pod) => &pod.metadata,
            Self::CreateVolume(volume) => &volume.metadata,
            _ => return None,
        };
        let lineage = meta.labels.as_ref().and_then(|labels| labels.get(labels::LABEL_LINEAGE));
        Some(Made { name: meta.name.as_deref()?, lineage: lineage.map(String::as_str) })
    }

    /// Deletes this pod as it was seen.
    pub(super) fn delete_pod(pod: &PodObserved, why: PodDeletion) -> Self {
        let (name, uid) = (pod.name.clone(), pod.uid.clone());
        Self::DeletePod { name, uid, resource_version: pod.resource_version.clone(), why }
    }

    /// Deletes this claim as it was seen.
    pub(super) fn delete_volume(volume: &VolumeObserved, why: VolumeDeletion) -> Self {
        let (name, uid) = (volume.name.clone(), volume.uid.clone());
        Self::DeleteVolume { name, uid, resource_version: volume.resource_version.clone(), why }
    }

    /// Whether it takes a serving process, a vote or data away. A plan holds at most one such step,
    /// except that a superseded or abandoned lineage goes as a whole.
    pub fn is_disruptive(&self) -> bool {
        match self {
            Self::CreateService(_)
            | Self::UpdateService(_)
            | Self::CreateVolume(_)
            | Self::CreatePod(_)
            | Self::LabelVoter { .. }
            | Self::Disarm { .. }
            | Self::AdvanceLog { .. } => false,
            Self::DeletePod { .. }
            | Self::DeleteVolume { .. }
            | Self::PatchImage { .. }
            | Self::PatchAgent { .. }
            | Self::AddMember { .. }
            | Self::PromoteMember { .. }
            | Self::RemoveMember { .. }
            | Self::MoveLeader { .. } => true,
        }
    }
}
