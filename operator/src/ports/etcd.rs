//! etcd members, as far as the operator talks to them.
//!
//! Every call names the member or members that it may ask, so that an answer can be told from another member's.
//! Deadline of every call but two: 5 seconds ([`CALL_DEADLINE`]). `hash_kv` reads the whole key space, and has
//! [`HASH_DEADLINE`]. A `snapshot` has none: who reads it sees whether it moves.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use jiff::SignedDuration;

use crate::model::{Alarm, MemberId, MemberStatus, Membership, Revision};

/// No call but `hash_kv` and `snapshot` takes longer.
pub const CALL_DEADLINE: SignedDuration = SignedDuration::from_secs(5);
/// How long a member may take to hash its key space: 2 GB, etcd's default quota, read at 70 MB a second. Meanwhile the pass
/// sees nothing else, so it is no longer than that.
pub const HASH_DEADLINE: SignedDuration = SignedDuration::from_secs(30);

/// PEM-encoded material of a client.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtcdTls {
    /// Certificate authority that signs the servers.
    pub ca: Vec<u8>,
    /// Our certificate.
    pub certificate: Vec<u8>,
    /// Our key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EtcdTls(..)")
    }
}

/// Whom to ask, and how. A call goes to the first endpoint that takes it; one endpoint means exactly that member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtcdAccess {
    /// Client URLs.
    pub endpoints: Vec<String>,
    /// Needed when they are https.
    pub tls: Option<EtcdTls>,
}

impl EtcdAccess {
    /// The same access to one of its endpoints.
    pub fn only(&self, endpoint: &str) -> Self {
        Self { endpoints: vec![endpoint.to_owned()], tls: self.tls.clone() }
    }
}

/// Why a call failed. What decides is the variant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// Certainly not carried out: refused, name not resolved, no leader before it was proposed.
    #[error("not available: {message}")]
    Unavailable {
        /// What happened.
        message: String,
    },
    /// Sent, and no reply: it may have been carried out, now or later. List the members before anything else.
    #[error("no answer, it may have been carried out: {message}")]
    Ambiguous {
        /// What happened.
        message: String,
    },
    /// etcd says no, and why (its own rule, e.g. "re-configuration failed due to not enough started members").
    #[error("etcd refused: {message}")]
    Refused {
        /// etcd's words.
        message: String,
    },
    /// TLS or authentication failed.
    #[error("not authorised: {message}")]
    Unauthorised {
        /// What failed.
        message: String,
    },
    /// The server is too old for the call, or the answer makes no sense.
    #[error("not supported: {message}")]
    Unsupported {
        /// What is missing.
        message: String,
    },
    /// The lease is no longer ours, or not for long enough: nothing was sent.
    #[error("lease lost, nothing was sent")]
    LeaseLost,
}

/// A snapshot on its way, and the member that it comes from.
pub struct Snapshot {
    /// What the member said of itself just before, on the same connection.
    pub status: MemberStatus,
    /// The database file, then 32 bytes of sha256 over it.
    pub chunks: BoxStream<'static, Result<Bytes, EtcdError>>,
}

/// etcd.
#[async_trait]
pub trait Etcd: Send + Sync {
    /// Maintenance.Status of one member: what it knows, without asking others.
    async fn status(&self, access: &EtcdAccess) -> Result<MemberStatus, EtcdError>;

    /// The member list of one member. Linearizable: that same member answers a quorum read first, so its list holds every
    /// change that was committed before the call (works in every version; etcd's own flag exists from 3.5 on only).
    async fn members(&self, access: &EtcdAccess, linearizable: bool) -> Result<Membership, EtcdError>;

    /// A linearizable read of one absent key: proves that the member reaches a quorum; the revision that it saw.
    async fn quorum_read(&self, access: &EtcdAccess) -> Result<Revision, EtcdError>;

    /// All raised alarms, and the member that each is about (zero: etcd could not tell which).
    async fn alarms(&self, access: &EtcdAccess) -> Result<Vec<(MemberId, Alarm)>, EtcdError>;

    /// Takes an alarm back. One that is not raised is as good.
    async fn disarm(&self, access: &EtcdAccess, member: MemberId, alarm: Alarm) -> Result<(), EtcdError>;

    /// Adds a member (a learner from etcd 3.4 on) by its peer URL; its id.
    async fn member_add(&self, access: &EtcdAccess, peer_url: &str, learner: bool) -> Result<MemberId, EtcdError>;

    /// Gives a learner its vote.
    async fn member_promote(&self, access: &EtcdAccess, member: MemberId) -> Result<(), EtcdError>;

    /// Removes a member.
    async fn member_remove(&self, access: &EtcdAccess, member: MemberId) -> Result<(), EtcdError>;

    /// Hands leadership on; the endpoint must be the leader's.
    async fn move_leader(&self, access: &EtcdAccess, to: MemberId) -> Result<(), EtcdError>;

    /// The hash of the key space at a revision (0: the current one) on exactly one member, and that revision. Within
    /// [`HASH_DEADLINE`].
    async fn hash_kv(&self, access: &EtcdAccess, revision: Revision) -> Result<(u32, Revision), EtcdError>;

    /// The snapshot of exactly one member, and which that is: where an address leads to several, status alone does not
    /// tell. The stream has no deadline.
    async fn snapshot(&self, access: &EtcdAccess) -> Result<Snapshot, EtcdError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_begins_as_the_plan_knows_it() {
        let error = EtcdError::Unauthorised { message: "bad certificate".to_owned() };
        assert!(error.to_string().starts_with(crate::model::NOT_AUTHORISED));
    }
}
