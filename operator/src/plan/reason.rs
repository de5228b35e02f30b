//! Why a pass does not do something: what it waits for, and what it refuses because it is not safe.
//!
//! These are values, not errors: status, events, logs and test transcripts show the same words.

use std::fmt;

use crate::model::Version;

/// What a pass waits for. It will go on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// `spec.paused` is set.
    Paused,
    /// The EtcdCluster is being deleted.
    Deletion,
    /// A Secret that the spec names is absent or lacks a key.
    Secret {
        /// Its name.
        name: String,
        /// What is missing.
        why: String,
    },
    /// The archived operator may still act on this cluster.
    LegacyOperator {
        /// Which lock is fresh.
        lock: String,
    },
    /// The API server refused a step, and will again until somebody changes what it refuses it for: a quota, an admission
    /// policy, missing rights.
    StepRefused {
        /// The step.
        step: String,
        /// The server's words.
        why: String,
    },
    /// A pod does not run yet.
    PodStart {
        /// Its name.
        pod: String,
        /// Kubernetes' words, empty when it says nothing.
        why: String,
    },
    /// A pod or volume claim is on its way out.
    ObjectGone {
        /// `Pod` or `PersistentVolumeClaim`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The first members have not formed a quorum yet.
    Formation {
        /// How many of the seeds answer.
        answering: usize,
        /// How many there are.
        seeds: usize,
    },
    /// A seed lost its disk before the cluster was seen to be formed, and gets no second one under its name.
    SeedLost {
        /// Its name.
        seed: String,
        /// What became of its disk.
        why: String,
    },
    /// The first attempt cannot follow a change of the spec, and may have become a cluster while nobody looked.
    FormationUnknown {
        /// What changed.
        why: String,
    },
    /// A member runs and is not healthy yet.
    MemberHealth {
        /// Its name.
        member: String,
        /// What is missing.
        why: String,
    },
    /// A member was changed and cannot start as it is now: the others are left as they were.
    RollOutStopped {
        /// Its name.
        member: String,
        /// Kubernetes' words.
        why: String,
        /// It had as long as any member has to come back: somebody must correct the spec, or what it asks for.
        overdue: bool,
    },
    /// A learner has not caught up yet.
    LearnerSync {
        /// Its name.
        member: String,
        /// Entries that it lacks.
        behind: u64,
        /// Seconds until it is given up.
        seconds: i64,
    },
    /// A member does not answer, and is replaced unless it comes back.
    MemberReturn {
        /// Its name.
        member: String,
        /// Seconds until it is replaced.
        seconds: i64,
    },
    /// A restore: the new lineage does not serve yet.
    RestoredLineage {
        /// What is missing.
        why: String,
    },
    /// etcd agrees on the new cluster version only after all members run it, and migrates each database after that.
    ClusterVersion {
        /// Which is waited for.
        version: Version,
    },
    /// The raft log still holds entries that the wanted version cannot read; a raft snapshot takes them out.
    RaftSnapshot {
        /// The wanted version.
        version: Version,
        /// Entries until every member has taken one.
        entries: u64,
    },
}

/// What a pass refuses to do, and what would have to change. It needs somebody's decision or somebody else's recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsafe {
    /// etcd has no quorum: no membership call can go through, and nothing may be restarted or deleted.
    QuorumLost {
        /// Voters that are healthy.
        healthy: usize,
        /// Votes needed.
        needed: usize,
        /// Names of those that are not.
        missing: Vec<String>,
        /// Those of them whose data is gone for good.
        data_lost: Vec<String>,
    },
    /// etcd has found that data of members differs, and nobody could tell whose is wrong.
    CorruptSomewhere {
        /// Names of the voters that did not tell the hash of their data.
        unheard: Vec<String>,
    },
    /// All members of a formed cluster are gone with their data: it is not born a second time by itself.
    AllDataLost,
    /// Too many of the first members lost their disks before the cluster was seen to be formed. They may have been one.
    FormationLost {
        /// Names of those whose disk is gone.
        lost: Vec<String>,
        /// Names of those that may have data.
        kept: Vec<String>,
    },
    /// The step would leave fewer healthy members than a quorum.
    WouldLoseQuorum {
        /// Which step, in words.
        step: String,
        /// Healthy voters left.
        healthy: usize,
        /// Votes needed.
        needed: usize,
    },
    /// The member list could not be read by a quorum, so nothing may be inferred from it.
    MembershipUnknown {
        /// Why.
        why: String,
    },
    /// A version that etcd or experience forbids as the next step.
    Version {
        /// What runs.
        from: Version,
        /// What is wanted.
        to: Version,
        /// The rule.
        why: String,
    },
    /// An object of a name that we need is not ours.
    ForeignObject {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The CR says that this cluster was never born, and there is a volume or pod of it.
    ForgottenCluster {
        /// The evidence.
        evidence: String,
    },
    /// A field of the spec cannot be used; admission should have refused it.
    Spec {
        /// Names the field and what is allowed.
        message: String,
    },
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => write!(f, "paused by spec.paused"),
            Self::Deletion => write!(f, "being deleted"),
            Self::Secret { name, why } => write!(f, "waiting for Secret `{name}`: {why}"),
            Self::LegacyOperator { lock } => {
                write!(f, "the archived operator still holds `{lock}`; scale it to 0 before this one may act")
            }
            Self::StepRefused { step, why } => write!(f, "Kubernetes refuses to {step}: {why}"),
            Self::PodStart { pod, why } if why.is_empty() => write!(f, "waiting for pod {pod} to start"),
            Self::PodStart { pod, why } => write!(f, "waiting for pod {pod} to start: {why}"),
            Self::ObjectGone { kind, name } => write!(f, "waiting for {kind} {name} to be gone"),
            Self::Formation { answering, seeds } => {
                write!(f, "waiting for the first quorum: {answering} of {seeds} members answer")
            }
            Self::MemberHealth { member, why } => write!(f, "waiting for member {member} to be healthy: {why}"),
            Self::RollOutStopped { member, why, .. } => {
                write!(f, "the roll-out stopped at member {member}: {why}; the others are left as they are")
            }
            Self::SeedLost { seed, why } => {
                write!(
                    f,
                    "member {seed} lost its disk ({why}); it is replaced once the others are seen to be a cluster"
                )
            }
            Self::FormationUnknown { why } => write!(
                f,
                "{why}, but the first members may already be a cluster: nothing is thrown away until they say that they \
                 are not"
            ),
            Self::LearnerSync { member, behind, seconds } => write!(
                f,
                "waiting for learner {member} to catch up: {behind} entries behind; it is given up in {seconds} s"
            ),
            Self::MemberReturn { member, seconds } => {
                write!(f, "member {member} does not answer; it is replaced in {seconds} s unless it comes back")
            }
            Self::RestoredLineage { why } => write!(f, "waiting for the restored members: {why}"),
            Self::ClusterVersion { version } => {
                write!(
                    f,
                    "waiting for etcd to bring all members to cluster version {}.{}",
                    version.major, version.minor
                )
            }
            Self::RaftSnapshot { version, entries } => write!(
                f,
                "waiting for raft snapshots: etcd {version} cannot read what members below 3.6 left in the log; it is \
                 advanced by {entries} entries"
            ),
        }
    }
}

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QuorumLost { healthy, needed, missing, data_lost } => {
                write!(f, "quorum lost: {healthy} healthy voters, {needed} needed; missing: {}", missing.join(", "))?;
                if !data_lost.is_empty() {
                    write!(f, "; data lost: {}", data_lost.join(", "))?;
                }
                write!(f, "; nothing is deleted, and the cluster goes on by itself when enough members return")?;
                if data_lost.is_empty() { Ok(()) } else { write!(f, "; otherwise restore it from an EtcdBackup") }
            }
            Self::CorruptSomewhere { unheard } => write!(
                f,
                "etcd raised CORRUPT, and no quorum of members {}: writes are refused, and no member is added or removed; \
                 compare the members (`etcdctl endpoint hashkv --cluster`), take the data of the one that differs away, and \
                 disarm the alarm; or restore the cluster from an EtcdBackup",
                if unheard.is_empty() {
                    "agrees on the same data".to_owned()
                } else {
                    format!(
                        "is known to agree on the same data ({} did not tell the hash of theirs)",
                        unheard.join(", ")
                    )
                }
            ),
            Self::AllDataLost => {
                write!(f, "all members are gone with their data; restore the cluster from a backup with an EtcdRestore")
            }
            Self::FormationLost { lost, kept } => write!(
                f,
                "quorum lost before the cluster was seen to be formed: the disks of {} are gone; {} may have the only copy \
                 of what was written, so nothing is deleted; restore the cluster from an EtcdBackup, or delete the \
                 EtcdCluster and create it anew",
                lost.join(", "),
                kept.join(", ")
            ),
            Self::WouldLoseQuorum { step, healthy, needed } => {
                write!(f, "not safe to {step}: {healthy} healthy voters would be left, {needed} are needed")
            }
            Self::MembershipUnknown { why } => write!(f, "the member list is not known: {why}"),
            Self::Version { from, to, why } => write!(f, "version {from} to {to} is refused: {why}"),
            Self::ForeignObject { kind, name } => {
                write!(f, "{kind} `{name}` exists and is not controlled by this EtcdCluster; rename or remove it")
            }
            Self::ForgottenCluster { evidence } => {
                write!(f, "status records no cluster, but {evidence} exists; it is not formatted anew")
            }
            Self::Spec { message } => write!(f, "{message}"),
        }
    }
}
