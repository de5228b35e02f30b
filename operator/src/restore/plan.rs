//! What to do about an EtcdRestore now. Pure; its own status and the EtcdCluster's are the only memory.
//!
//! This pipeline only reads the snapshot and says whether it is good. The EtcdCluster's plan carries the restore out and
//! records how far it is; here that record is followed. So whatever is wrong with the snapshot, the cluster is untouched.

use jiff::{SignedDuration, Timestamp};
use std::fmt;

use super::observe::Observed;
use super::validate::Desired;
use crate::api::{EtcdClusterStatus, EtcdRestoreStatus, RestorePhase, RestoreProgress, RestoreRunPhase, SnapshotRef};
use crate::backup::observe::{Missing, secret_field};
use crate::ports::KubernetesError;

/// How often something that somebody else has to bring is looked for, beside the watches.
pub const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(15);
/// How often progress is looked for while the EtcdCluster is being restored.
pub const FOLLOW: SignedDuration = SignedDuration::from_secs(2);

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It has ended, well or not.
    Done,
    /// It failed under the archived operator.
    FailedBefore,
    /// It is being deleted.
    Deleting,
    /// Nothing can be done yet.
    Wait(Waiting),
    /// Read and check the snapshot.
    Verify,
    /// The snapshot is good: this is how far the EtcdCluster is, and what it says of itself meanwhile.
    Follow(Progress, String),
    /// The EtcdCluster serves the data of the snapshot.
    Succeed,
}

/// How far the EtcdCluster is with a verified snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// It has not begun.
    NotBegun,
    /// It is busy with another EtcdRestore.
    Other,
    /// It is in this phase.
    Phase(RestorePhase),
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The EtcdCluster.
    Cluster {
        /// Its name.
        name: String,
        /// The snapshot is good already, so that it is restored as soon as there is an EtcdCluster of this name.
        verified: bool,
    },
    /// The EtcdCluster is being deleted.
    ClusterGoes {
        /// Its name.
        name: String,
    },
    /// The EtcdCluster could not be read.
    Unreadable {
        /// Why.
        why: KubernetesError,
    },
    /// The Secret.
    Secret(Missing),
    /// A Secret that the spec does not name, and that the members need.
    OwnSettings {
        /// The field that should name it.
        field: &'static str,
        /// What the operator has in its place.
        settings: Vec<String>,
    },
    /// The archived operator may still act.
    LegacyOperator {
        /// Which lock is fresh.
        lock: String,
    },
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster { name, verified: false } => {
                write!(f, "waiting for EtcdCluster `{name}` (`spec.etcdCluster.name`), which does not exist")
            }
            Self::Cluster { name, verified: true } => {
                write!(
                    f,
                    "the snapshot is good; waiting for EtcdCluster `{name}` (`spec.etcdCluster.name`), which does "
                )?;
                f.write_str("not exist; it is restored from the beginning when it is created again")
            }
            Self::ClusterGoes { name } => {
                write!(f, "EtcdCluster `{name}` is being deleted; it is restored if it is created again")
            }
            Self::Unreadable { why } => write!(f, "the EtcdCluster cannot be read: {why}"),
            Self::Secret(missing) => missing.fmt(f),
            Self::OwnSettings { field, settings } => {
                let settings = settings.join(", ");
                write!(
                    f,
                    "`{field}` must name a Secret: the members fetch the snapshot themselves, and have nothing of "
                )?;
                write!(f, "what opens the bucket for the operator ({settings} in its environment); nothing was touched")
            }
            Self::LegacyOperator { lock } => {
                write!(f, "the archived operator still holds `{lock}`; scale it to 0 before this one may act")
            }
        }
    }
}

/// Whether a restore has ended: for good, as a new one is a new EtcdRestore. The archived operator's word counts too.
pub fn has_ended(status: &EtcdRestoreStatus) -> bool {
    let ended = matches!(status.phase, Some(RestoreRunPhase::Succeeded | RestoreRunPhase::Failed));
    ended || (status.succeeded && status.observed_generation.is_none())
}

/// Whether a restore failed under the archived operator, for which that was the end. It wrote neither a phase nor a
/// generation.
fn has_failed_before(status: &EtcdRestoreStatus) -> bool {
    status.phase.is_none() && status.observed_generation.is_none() && !status.succeeded && !status.reason.is_empty()
}

/// Whether the snapshot of this very spec was read and found good. Another key is another snapshot, and another Secret or
/// endpoint is what the members must be started with.
fn is_verified(desired: &Desired, status: &EtcdRestoreStatus) -> bool {
    let location = &desired.location;
    let same = |it: &SnapshotRef| it.bucket == location.bucket.bucket && it.key == location.key;
    status.snapshot.as_ref().is_some_and(same) && status.observed_generation == desired.generation
}

/// Whether a member could not fetch the very snapshot that status speaks of, because the store has another one.
fn has_changed(status: &EtcdRestoreStatus, cluster: &EtcdClusterStatus) -> bool {
    let verified = status.snapshot.as_ref().map(|snapshot| &snapshot.verified_time);
    let is_of_it = |restore: &&RestoreProgress| Some(&restore.verified_time) == verified;
    cluster.restore.as_ref().filter(is_of_it).is_some_and(|restore| restore.snapshot_changed)
}

/// How long what was verified is not verified anew.
const VERIFY_AGAIN_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Whether the snapshot was verified a moment ago.
fn is_fresh(status: &EtcdRestoreStatus, now: Timestamp) -> bool {
    let verified = status.snapshot.as_ref().and_then(|snapshot| snapshot.verified_time.as_ref());
    verified.is_some_and(|verified| now.duration_since(verified.0) < VERIFY_AGAIN_AFTER)
}

fn progress(desired: &Desired, cluster: &EtcdClusterStatus) -> Option<Progress> {
    if let Some(restore) = &cluster.restore {
        return Some(if restore.uid == desired.uid { Progress::Phase(restore.phase) } else { Progress::Other });
    }
    let restored_from = cluster.lineage.as_ref().and_then(|lineage| lineage.restored_from.as_ref());
    (restored_from != Some(&desired.uid)).then_some(Progress::NotBegun)
}

/// Decides. `legacy` names a lock of the archived restore operator that is fresh.
pub fn plan(
    desired: &Desired,
    status: &EtcdRestoreStatus,
    observed: &Observed,
    legacy: Option<&str>,
    now: Timestamp,
) -> Plan {
    if desired.deleting {
        return Plan::Deleting;
    }
    let ended = has_ended(status) && (status.succeeded || status.observed_generation == desired.generation);
    if ended {
        return Plan::Done;
    }
    // Before anything is waited for: what that writes to status would be taken for a beginning of ours.
    if has_failed_before(status) {
        return Plan::FailedBefore;
    }
    if let Some(lock) = legacy {
        return Plan::Wait(Waiting::LegacyOperator { lock: lock.to_owned() });
    }
    let name = desired.key.name.clone();
    let verified = is_verified(desired, status);
    let cluster = match &observed.cluster {
        Ok(Some(cluster)) => cluster,
        Ok(None) => return Plan::Wait(Waiting::Cluster { name, verified }),
        Err(why) => return Plan::Wait(Waiting::Unreadable { why: why.clone() }),
    };
    let goes = cluster.metadata.deletion_timestamp.is_some();
    let cluster = cluster.status.clone().unwrap_or_default();
    // What the EtcdCluster has begun or ended by this EtcdRestore's uid counts, whatever became of our own status.
    match progress(desired, &cluster) {
        None => return Plan::Succeed,
        Some(_) if goes => return Plan::Wait(Waiting::ClusterGoes { name }),
        // The restored members have quorum, and the old ones are being stopped: there is no other way than on.
        Some(progress @ Progress::Phase(RestorePhase::Confirmed | RestorePhase::Switched)) => {
            return Plan::Follow(progress, cluster.reason);
        }
        // Nobody could fetch what would be verified. (What members were given before may be with them by now.)
        Some(progress)
            if !observed.own_settings.is_empty()
                && (progress, verified) != (Progress::Phase(RestorePhase::Starting), true) =>
        {
            let (field, settings) = (secret_field(desired.location.bucket.storage), observed.own_settings.clone());
            return Plan::Wait(Waiting::OwnSettings { field, settings });
        }
        // What its members were given is in the store no more: what is there now is looked at, like another spec.
        // (Not at once, should the members see another store than the operator: it would be read again and again.)
        Some(progress @ Progress::Phase(RestorePhase::Starting)) if verified && has_changed(status, &cluster) => {
            if is_fresh(status, now) {
                return Plan::Follow(progress, cluster.reason);
            }
        }
        Some(progress) if verified => return Plan::Follow(progress, cluster.reason),
        // A spec that was changed is looked at anew; what members began with the old one is called off by that.
        Some(_) => {}
    }
    match &observed.credentials {
        Ok(_) => Plan::Verify,
        Err(missing) => Plan::Wait(Waiting::Secret(missing.clone())),
    }
}
