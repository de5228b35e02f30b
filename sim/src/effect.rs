//! What somebody does to the world, as the checkers see it at the instant of its commit.

use etcd_operator::model::{ClusterId, MemberId};
use std::fmt;

/// One effect of the operator (writes only: reads have none).
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// An object is created.
    Create {
        /// Its kind.
        kind: String,
        /// `namespace/name`.
        key: String,
    },
    /// An object is replaced or patched.
    Update {
        /// Its kind.
        kind: String,
        /// `namespace/name`.
        key: String,
        /// The status only.
        status: bool,
        /// What a patch changes, or the new object.
        body: serde_json::Value,
    },
    /// An object is deleted.
    Delete {
        /// Its kind.
        kind: String,
        /// `namespace/name`.
        key: String,
        /// The uid precondition; empty when the request carries none.
        uid: String,
    },
    /// A member is added.
    MemberAdd {
        /// Lineage.
        cluster: ClusterId,
        /// Its peer URL.
        peer_url: String,
        /// As a learner.
        learner: bool,
    },
    /// A learner is promoted.
    MemberPromote {
        /// Lineage.
        cluster: ClusterId,
        /// Its id.
        member: MemberId,
    },
    /// A member is removed.
    MemberRemove {
        /// Lineage.
        cluster: ClusterId,
        /// Its id.
        member: MemberId,
    },
    /// Leadership is handed on.
    MoveLeader {
        /// Lineage.
        cluster: ClusterId,
        /// To whom.
        member: MemberId,
    },
    /// An alarm is taken back.
    Disarm {
        /// Lineage.
        cluster: ClusterId,
        /// Whose alarm.
        member: MemberId,
    },
    /// An object is written to the store.
    StorePut {
        /// Bucket.
        bucket: String,
        /// Key.
        key: String,
    },
    /// A multipart upload begins.
    StoreBegin {
        /// Bucket.
        bucket: String,
        /// Key.
        key: String,
    },
    /// A part is uploaded.
    StorePart {
        /// Bucket.
        bucket: String,
        /// Key.
        key: String,
    },
    /// A multipart upload is completed.
    StoreComplete {
        /// Bucket.
        bucket: String,
        /// Key.
        key: String,
    },
    /// A multipart upload is aborted.
    StoreAbort {
        /// Bucket.
        bucket: String,
        /// Key.
        key: String,
    },
    /// An object is deleted from the store.
    StoreDelete {
        /// Bucket.
        bucket: String,
        /// Key.
        key: String,
    },
}

impl Effect {
    /// Leases and Events are written at any time, also in a converged world.
    pub fn is_bookkeeping(&self) -> bool {
        match self {
            Self::Create { kind, .. } | Self::Update { kind, .. } => kind == "Lease" || kind == "Event",
            _ => false,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { kind, key } => write!(f, "create {kind} {key}"),
            Self::Update { kind, key, status: true, .. } => write!(f, "status {kind} {key}"),
            Self::Update { kind, key, .. } => write!(f, "update {kind} {key}"),
            Self::Delete { kind, key, uid } => write!(f, "delete {kind} {key} uid {uid}"),
            Self::MemberAdd { peer_url, learner, .. } => {
                write!(f, "member add {peer_url}{}", if *learner { " as learner" } else { "" })
            }
            Self::MemberPromote { member, .. } => write!(f, "member promote {member}"),
            Self::MemberRemove { member, .. } => write!(f, "member remove {member}"),
            Self::MoveLeader { member, .. } => write!(f, "move leader to {member}"),
            Self::Disarm { member, .. } => write!(f, "disarm {member}"),
            Self::StorePut { bucket, key } => write!(f, "put {bucket}/{key}"),
            Self::StoreBegin { bucket, key } => write!(f, "begin upload {bucket}/{key}"),
            Self::StorePart { bucket, key } => write!(f, "part of {bucket}/{key}"),
            Self::StoreComplete { bucket, key } => write!(f, "complete {bucket}/{key}"),
            Self::StoreAbort { bucket, key } => write!(f, "abort {bucket}/{key}"),
            Self::StoreDelete { bucket, key } => write!(f, "delete {bucket}/{key}"),
        }
    }
}
