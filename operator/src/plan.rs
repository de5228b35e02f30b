//! `plan(&Desired, &Observed, now) -> Plan`: everything that is decided about an EtcdCluster.
//!
//! Pure: no port, no clock, no randomness. This file shall read as a table of contents; its order is the order of safety.

pub mod reason;
pub mod step;

use crate::model::Record;

pub use reason::{Unsafe, Waiting};
pub use step::{Fence, MemberRemoval, PodDeletion, Step, VolumeDeletion};

/// What one pass decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What status shall remember. It is written before any step is taken; if the write fails, none is.
    pub record: Record,
    /// Effects in order; the first failure ends the pass.
    pub steps: Vec<Step>,
    /// What is waited for.
    pub waiting: Vec<Waiting>,
    /// What is refused.
    pub refused: Vec<Unsafe>,
}
