//! What was seen in one pass, with the completeness of each part. Nothing is inferred from absence.

use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::fmt;

use super::desired::Tls;
use super::{Alarm, EtcdMember, MemberId, MemberStatus, Membership, ObjectLocation, Record, Revision};

/// How the reason begins when it is etcd that refuses us: a certificate of ours or of theirs is not trusted.
pub const NOT_AUTHORISED: &str = "not authorised";

/// A reading, or why there is none. `Unknown` is never treated as "absent".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation<T> {
    /// It was read at this moment.
    Known {
        /// What was read.
        value: T,
        /// When.
        at: Timestamp,
    },
    /// It could not be read.
    Unknown {
        /// For status and logs, in the words of the error.
        why: String,
    },
}

impl<T> Observation<T> {
    /// The value, if it could be read.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known { value, .. } => Some(value),
            Self::Unknown { .. } => None,
        }
    }

    /// Why it could not be read.
    pub fn why_unknown(&self) -> Option<&str> {
        match self {
            Self::Known { .. } => None,
            Self::Unknown { why } => Some(why),
        }
    }
}

/// A member's pod, reduced to what decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodObserved {
    /// Pod name = member name.
    pub name: String,
    /// Precondition of every delete.
    pub uid: String,
    /// Precondition of every patch and delete.
    pub resource_version: String,
    /// Value of the lineage label; none on pods of the archived operator.
    pub lineage: Option<String>,
    /// Whether the role label says voter.
    pub labelled_voter: bool,
    /// Whether our EtcdCluster (by uid) controls it.
    pub ours: bool,
    /// `deletionTimestamp` is set.
    pub deleting: bool,
    /// `deletionTimestamp`: when it shall be gone at the latest.
    pub deleted_at: Option<Timestamp>,
    /// Phase Succeeded or Failed: it will never run again.
    pub terminal: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// Node that it is bound to.
    pub node: Option<String>,
    /// `status.podIP`.
    pub ip: Option<String>,
    /// The Ready condition.
    pub ready: bool,
    /// What its kubelet asks it for that depends on a quorum (`/readyz`): by the version that it was made for.
    pub ready_by_quorum: bool,
    /// The etcd container runs at this moment.
    pub running: bool,
    /// When the etcd container started; none unless it runs and never was restarted.
    pub first_started_at: Option<Timestamp>,
    /// Image of the etcd container that was asked for (annotation; on pods without it, what the spec has).
    pub image: String,
    /// The same of the init container that brings our agent; none on pods of the archived operator.
    pub agent_image: Option<String>,
    /// Id of the etcd container that runs, or ran last.
    pub container: Option<String>,
    /// Id of the one that ran when another image was asked for (annotation); none when admission put the image of before
    /// back, for it runs on then.
    pub replaced_container: Option<String>,
    /// Hash of the template that it was made from (annotation), without image and start-up flags.
    pub template_hash: Option<String>,
    /// The agent refused to start etcd because its directory is empty although data is expected: the data is lost.
    pub data_lost: bool,
    /// Its init container found another object in the store than the one that was verified, or none.
    pub snapshot_changed: bool,
    /// The kubelet never started its etcd container: nothing of it is on any disk.
    pub never_ran: bool,
    /// Its data is on a volume claim, and does not go with it.
    pub on_claim: bool,
    /// TLS that it was made with.
    pub tls: Tls,
    /// Why it does not run, in Kubernetes' words (waiting reason and message, or the unschedulable message).
    pub why_not_running: Option<String>,
}

/// What a kubelet says of a container whose image it does not get.
const IMAGE_TROUBLES: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];
/// What it says of one that does not start, or not for long, however often it is tried.
const START_TROUBLES: [&str; 4] =
    ["CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"];

impl PodObserved {
    /// Whether it is one of these containers that keeps it from running.
    pub fn is_held_up_by(&self, containers: &[&str]) -> bool {
        let container = self.why_not_running.as_deref().and_then(|why| why.split_once(':'));
        !self.running && container.is_some_and(|(name, _)| containers.contains(&name))
    }

    /// An image that it needs cannot be had.
    pub fn lacks_image(&self) -> bool {
        self.says_one_of(&IMAGE_TROUBLES)
    }

    /// The kubelet has not started the container with the image that was asked for last.
    pub fn is_yet_to_restart(&self) -> bool {
        self.replaced_container.is_some() && self.replaced_container == self.container
    }

    /// In vain the kubelet tries to start it again and again.
    pub fn fails_to_start(&self) -> bool {
        self.lacks_image() || self.says_one_of(&START_TROUBLES)
    }

    /// What its image is tagged as, without the leading `v`.
    pub fn image_version(&self) -> &str {
        self.image.rsplit_once(':').map_or("", |(_, tag)| tag.trim_start_matches('v'))
    }

    fn says_one_of(&self, words: &[&str]) -> bool {
        let why = self.why_not_running.as_deref().unwrap_or_default();
        words.iter().any(|word| why.contains(word))
    }
}

/// A member's volume claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeObserved {
    /// Claim name = member name.
    pub name: String,
    /// Precondition of every delete; a claim made anew under the old name is another, empty volume.
    pub uid: String,
    /// Precondition of every delete: it is as it was judged.
    pub resource_version: String,
    /// Value of the lineage label.
    pub lineage: Option<String>,
    /// Whether our EtcdCluster (by uid) controls it.
    pub ours: bool,
    /// `deletionTimestamp` is set.
    pub deleting: bool,
    /// Phase Lost: the volume behind it is gone.
    pub lost: bool,
    /// When it was created.
    pub created_at: Timestamp,
}

/// One of the two Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceObserved {
    /// Its name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// Precondition of the replace.
    pub resource_version: String,
    /// Whether our EtcdCluster (by uid) controls it.
    pub ours: bool,
    /// Its selector.
    pub selector: BTreeMap<String, String>,
    /// Whether ports, type and publishNotReadyAddresses are as they shall be (selector aside).
    pub as_built: bool,
}

/// What etcd says of one lineage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdObserved {
    /// The member list by a read that a quorum confirmed; unknown without quorum.
    pub membership: Observation<Membership>,
    /// The member list as any reachable member has it (it may be stale): for status, and to name who is missing.
    pub membership_local: Observation<Membership>,
    /// Maintenance.Status of each member that has a pod with an address, by member (pod) name.
    pub statuses: BTreeMap<String, Observation<MemberStatus>>,
    /// A linearizable read of a key went through, and the store's revision that it saw.
    pub quorum_read: Observation<Revision>,
    /// Raised alarms, and the member that each is about. Zero: etcd could not tell which.
    pub alarms: Observation<Vec<(MemberId, Alarm)>>,
    /// The hash of each member's key space at one revision, by member name; asked for while CORRUPT is raised.
    pub hashes: BTreeMap<String, Observation<u32>>,
}

impl EtcdObserved {
    /// Nothing of this lineage has an address that could be asked.
    pub fn nobody_to_ask(why: &str) -> Self {
        let unknown = || why.to_owned();
        Self {
            membership: Observation::Unknown { why: unknown() },
            membership_local: Observation::Unknown { why: unknown() },
            statuses: BTreeMap::new(),
            quorum_read: Observation::Unknown { why: unknown() },
            alarms: Observation::Unknown { why: unknown() },
            hashes: BTreeMap::new(),
        }
    }

    /// The status of a member by its name, if it answered.
    pub fn status(&self, name: &str) -> Option<&MemberStatus> {
        self.statuses.get(name).and_then(Observation::known)
    }

    /// The alarms that are known to be raised.
    pub fn raised(&self) -> &[(MemberId, Alarm)] {
        self.alarms.known().map_or(&[], Vec::as_slice)
    }

    /// Whether this entry of the member list answered as itself: right id, and it follows a leader.
    pub fn is_healthy(&self, name: &str, member: &EtcdMember) -> bool {
        self.status(name).is_some_and(|status| status.member_id == member.id && status.leader.is_some())
    }
}

/// Why a Secret that the spec names cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretTrouble {
    /// There is none of this name.
    Absent,
    /// It lacks these keys, or they are empty.
    Incomplete {
        /// Their names.
        keys: Vec<&'static str>,
    },
    /// It could not be read; it may be there.
    Unreadable {
        /// In the words of the error.
        why: String,
    },
}

impl fmt::Display for SecretTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(f, "it does not exist"),
            Self::Incomplete { keys } => write!(f, "it lacks {}", keys.join(", ")),
            Self::Unreadable { why } => write!(f, "it could not be read: {why}"),
        }
    }
}

/// From when until when a certificate says that it is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// `notBefore`.
    pub from: Timestamp,
    /// `notAfter`.
    pub until: Timestamp,
}

impl Validity {
    /// Less than a tenth of its life is left: whoever renews certificates has done so long before.
    pub fn ends_soon(&self, now: Timestamp) -> bool {
        self.until.duration_since(now) < self.until.duration_since(self.from) / 10
    }
}

/// A certificate in a Secret that the spec names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateObserved {
    /// Name of the Secret.
    pub secret: String,
    /// Its key.
    pub key: &'static str,
    /// What the certificate says, or why it is none.
    pub validity: Result<Validity, String>,
}

/// An EtcdBackup whose endpoints name the cluster, by its own status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupObserved {
    /// Its name.
    pub name: String,
    /// How often it is taken; none: once.
    pub interval: Option<SignedDuration>,
    /// When the EtcdBackup was created.
    pub created_at: Timestamp,
    /// When its last good backup was taken.
    pub last_success: Option<Timestamp>,
    /// The reason of its condition `BackupSucceeded` when that is False.
    pub failure: Option<String>,
}

/// How late a periodic backup may be on top of a whole interval: it takes its time.
const BACKUP_SLACK: SignedDuration = SignedDuration::from_mins(5);

impl BackupObserved {
    /// A whole interval went by in which no backup came to its good end.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        let last = self.last_success.unwrap_or(self.created_at);
        let allowed = self.interval.and_then(|interval| interval.checked_mul(2)?.checked_add(BACKUP_SLACK));
        allowed.is_some_and(|allowed| now.duration_since(last) > allowed)
    }
}

/// A restore that its EtcdRestore asks for and whose snapshot has been fetched and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreWanted {
    /// Name of the EtcdRestore (equals the EtcdCluster's).
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Where the snapshot is, for the agent in the seeds' init containers.
    pub source: ObjectLocation,
    /// Size of the object in bytes, as verified.
    pub size: u64,
    /// Lower-case hexadecimal sha256 of the whole object, as verified: every seed starts from these bytes.
    pub sha256: String,
    /// The snapshot's own revision: what the read-back must find.
    pub revision: Revision,
    /// When it was verified: one that was verified anew is another snapshot. None of an earlier version.
    pub verified_at: Option<Timestamp>,
}

/// Everything that one pass over an EtcdCluster has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Drawn anew for each pass: the names of new members come from it, so that no name is invented twice.
    pub entropy: u64,
    /// `metadata.generation` of the EtcdCluster: a spec that cannot be used was looked at, too.
    pub generation: Option<i64>,
    /// What status remembers.
    pub record: Record,
    /// Pods that carry the cluster's label, or are controlled by it; by name.
    pub pods: BTreeMap<String, PodObserved>,
    /// Volume claims likewise.
    pub volumes: BTreeMap<String, VolumeObserved>,
    /// The headless Service `<cluster>`.
    pub peer_service: Option<ServiceObserved>,
    /// The Service `<cluster>-client`.
    pub client_service: Option<ServiceObserved>,
    /// Secrets that the spec names: for each that is not usable, why.
    pub secrets_missing: BTreeMap<String, SecretTrouble>,
    /// The same for the Secrets that the spec names: another kind of TLS than the members run with is for restored ones.
    pub spec_secrets_missing: BTreeMap<String, SecretTrouble>,
    /// The certificates in the Secrets that are usable.
    pub certificates: Vec<CertificateObserved>,
    /// EtcdBackups of this cluster, as the watch has them.
    pub backups: Vec<BackupObserved>,
    /// The lineage of `record.lineage`.
    pub etcd: EtcdObserved,
    /// The lineage that a restore is making.
    pub etcd_restoring: Option<EtcdObserved>,
    /// A lock of the archived operator is fresh: it may still act on this cluster.
    pub legacy_alive: Option<String>,
    /// Since when status says that the EtcdCluster is not ready; none while it is.
    pub not_ready_since: Option<Timestamp>,
}
