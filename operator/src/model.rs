//! Our words: what a member, a quorum, a version, a revision and a lineage are, what is wanted and what was seen.
//!
//! Synchronous, without clients, clocks or randomness. Everything below `plan` speaks these words only.

pub mod desired;
pub mod lineage;
pub mod location;
pub mod member;
pub mod observed;
pub mod quorum;
pub mod version;
pub mod warning;

pub use desired::{ClientTls, ClusterIdentity, Desired, Storage, Tls};
pub use lineage::{Lineage, Record, RestorePhase, RestoreRecord};
pub use location::{BucketLocation, ObjectLocation, StorageKind};
pub use member::{Alarm, ClusterId, EtcdMember, MemberId, MemberStatus, Membership, RaftTerm, Revision};
pub use observed::{
    BackupObserved, CertificateObserved, EtcdObserved, NOT_AUTHORISED, Observation, Observed, PodObserved,
    RestoreWanted, SecretTrouble, ServiceObserved, Validity, VolumeObserved,
};
pub use version::{ProbeKind, RestoreTool, Version};
pub use warning::SpecWarning;
