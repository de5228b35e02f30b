//! etcd's own view of its members: identifiers, the member list, and what one member says of itself.

use std::fmt;

use super::Version;

/// The raft identifier of a member. etcd prints it in hexadecimal, and so do we.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// The identifier that all members of one lineage share; a restore makes a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u64);

/// An etcd store revision (`header.revision`), never to be confused with a Kubernetes resourceVersion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Revision(pub i64);

/// A raft term.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RaftTerm(pub u64);

macro_rules! hexadecimal {
    ($($id:ty),*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0)
            }
        }
        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
hexadecimal!(MemberId, ClusterId);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One entry of etcd's member list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    /// The raft identifier.
    pub id: MemberId,
    /// Empty until the member has started for the first time.
    pub name: String,
    /// Carries the member's name before `name` does: `http(s)://<pod>.<cluster>...:2380`.
    pub peer_urls: Vec<String>,
    /// Empty until the member has started for the first time.
    pub client_urls: Vec<String>,
    /// A learner receives the log and has no vote (etcd 3.4 and later).
    pub learner: bool,
}

impl EtcdMember {
    /// Whether the member ever published itself, so that data of it exists or existed.
    pub fn has_started(&self) -> bool {
        !self.name.is_empty() || !self.client_urls.is_empty()
    }
}

/// The member list, as one etcd member answered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The lineage that answered.
    pub cluster_id: ClusterId,
    /// Ordered by id, so that two reads of the same list are equal.
    pub members: Vec<EtcdMember>,
}

impl Membership {
    /// Members with a vote.
    pub fn voters(&self) -> impl Iterator<Item = &EtcdMember> {
        self.members.iter().filter(|member| !member.learner)
    }

    /// Members without a vote.
    pub fn learners(&self) -> impl Iterator<Item = &EtcdMember> {
        self.members.iter().filter(|member| member.learner)
    }

    /// The entry with this id.
    pub fn by_id(&self, id: MemberId) -> Option<&EtcdMember> {
        self.members.iter().find(|member| member.id == id)
    }

    /// What an etcd membership call is fenced with: it is sent only while the list still reads exactly so.
    pub fn fence(&self) -> Vec<(MemberId, bool)> {
        self.members.iter().map(|member| (member.id, member.learner)).collect()
    }
}

/// What one member answers to Maintenance.Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The lineage it belongs to.
    pub cluster_id: ClusterId,
    /// Its own identifier.
    pub member_id: MemberId,
    /// The server's version, as it says it: `3.5.26`.
    pub version: String,
    /// What its database is migrated to, some time after all members run that minor; etcd 3.6 and later say it.
    pub storage_version: Option<Version>,
    /// The leader that it follows; none during an election.
    pub leader: Option<MemberId>,
    /// Its raft term.
    pub term: RaftTerm,
    /// The last index of its raft log.
    pub raft_index: u64,
    /// The last index that it applied to its store.
    pub raft_applied_index: u64,
    /// Its store's revision (serializable: it may lag behind the leader's).
    pub revision: Revision,
    /// Size of the database file, in bytes.
    pub db_size: u64,
    /// Whether it says that it is a learner.
    pub learner: bool,
    /// What it complains of (alarms, no leader).
    pub errors: Vec<String>,
}

/// An alarm of etcd (`etcdserverpb.AlarmType`). While one is raised by any member, or by one that is no member any more, every
/// member refuses writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// The database has reached its quota.
    NoSpace,
    /// The data differs from that of the other members.
    Corrupt,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSpace => "NOSPACE",
            Self::Corrupt => "CORRUPT",
        })
    }
}
