//! `plan(&Desired, &Observed, now) -> Plan`: everything that is decided about an EtcdCluster.
//!
//! Pure: no port, no clock, no randomness. This file reads as a table of contents; its order is the order of safety:
//! the first stage that has work wins, so that nothing is ever built on top of what is about to be taken away.
//!
//! To add a step: a variant in `step.rs`, the decision in the stage where it belongs, one arm in `apply`.

mod bootstrap;
mod formation;
mod learner;
mod members;
mod membership;
mod ownership;
mod pass;
mod pods;
pub mod reason;
mod restore;
mod rollout;
mod safety;
mod services;
pub mod step;
mod storage;
mod version;

#[cfg(test)]
pub(crate) mod tests;

use jiff::{SignedDuration, Timestamp};
use std::ops::ControlFlow;

use crate::model::{Desired, Observed, Record, RestorePhase};

pub(crate) use members::{Member, Members};
use pass::Pass;
pub use reason::{Unsafe, Waiting};
pub use safety::Safety;
pub use step::{DisarmReason, Fence, MemberRemoval, PodDeletion, Step, VolumeDeletion};

/// What one pass decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What status shall remember. It is written before any step is taken; if the write fails, none is.
    pub record: Record,
    /// Effects in order. The first failure ends the pass, but for what Kubernetes refuses to make: that only keeps from being
    /// done what relies on it ([`Plan::relies_on`]).
    pub steps: Vec<Step>,
    /// What is waited for.
    pub waiting: Vec<Waiting>,
    /// What is refused.
    pub refused: Vec<Unsafe>,
}

/// How soon etcd is asked again while something is under way.
const POLL_BUSY: SignedDuration = SignedDuration::from_secs(2);
/// How soon while somebody else has to act: a user, Kubernetes, or members that come back.
const POLL_HELD_UP: SignedDuration = SignedDuration::from_secs(5);
/// How soon when all is well. Objects that change are seen at once by their watches; this is for etcd alone. Short
/// enough that status follows a member that was cut off within 15 seconds.
const POLL_IDLE: SignedDuration = SignedDuration::from_secs(10);

impl Plan {
    /// The plan for a spec that cannot be used: nothing is done, and what is remembered stays; nobody looked at the members.
    pub fn refusing(mut record: Record, refused: Vec<Unsafe>) -> Self {
        record.unreachable_since.clear();
        Self { record, steps: Vec::new(), waiting: Vec::new(), refused }
    }

    /// Whether a step was planned with an earlier one done. What is there tells what was: a volume tells that there was a
    /// pod, which is made first, and the objects of a seed that those before it in the formation were made. Without the
    /// earlier one such a step would lie.
    pub fn relies_on(&self, step: &Step, earlier: &Step) -> bool {
        let (Some(made), Some(before)) = (step.made(), earlier.made()) else { return false };
        let restore = self.record.restore.as_ref().filter(|restore| restore.phase != RestorePhase::Switched);
        let forming = self.record.lineage.iter().filter(|lineage| !lineage.formed);
        let forming = forming.chain(restore.map(|restore| &restore.lineage));
        let lineage = made.lineage.filter(|_| made.lineage == before.lineage);
        made.name == before.name || forming.into_iter().any(|forming| lineage == Some(forming.token.as_str()))
    }

    /// When the next pass should look, if nothing happens before. Without jitter: the controller adds it.
    pub fn poll_after(&self) -> SignedDuration {
        let hands_off = |waiting: &Waiting| matches!(waiting, Waiting::Paused | Waiting::Deletion);
        if !self.steps.is_empty() {
            POLL_BUSY
        } else if !self.refused.is_empty() {
            POLL_HELD_UP
        } else if self.waiting.iter().all(hands_off) {
            POLL_IDLE
        } else {
            POLL_BUSY
        }
    }
}

/// Decides what this pass does. Equal arguments give equal plans.
pub fn plan(desired: &Desired, observed: &Observed, now: Timestamp) -> Plan {
    let mut pass = Pass::new(desired, observed, now);
    if hands_off(&mut pass).is_continue() {
        let _stage = work(&mut pass);
        // Supporting objects follow the record that the stages have just made: the client Service opens in the pass in
        // which the formation is recorded, and moves in the pass in which a restore is switched.
        services::keep(&mut pass);
    }
    pass.into_plan()
}

/// Reasons to touch nothing at all, most serious first.
fn hands_off(pass: &mut Pass<'_>) -> ControlFlow<()> {
    // What is not ours is never touched, and what we forgot is not born again: both would destroy somebody's data.
    ownership::conflicts(pass)?;
    // Two operators with different ideas of one cluster are worse than none.
    pass.stop_if(pass.observed.legacy_alive.clone().map(|lock| Waiting::LegacyOperator { lock }))?;
    // The user's word.
    pass.stop_if(pass.desired.paused.then_some(Waiting::Paused))?;
    // Garbage collection follows the owner references; nothing of ours stands in its way.
    pass.stop_if(pass.desired.deleting.then_some(Waiting::Deletion))
}

/// The stages, in the order of safety. A stage that breaks has work that must be done before anything after it.
fn work(pass: &mut Pass<'_>) -> ControlFlow<()> {
    ownership::kept_for_life(pass);
    ownership::refusals(pass);
    // A restore replaces everything below: nothing else is changed while it is under way.
    restore::carry_out(pass)?;
    // A member without its certificates only crashes: wait for them, and say which are missing.
    ownership::secrets(pass)?;
    // Until the cluster is formed there is no member list to reason about.
    bootstrap::form(pass)?;

    // From here on the cluster is formed, and no process is started with state=new whatever is lost.
    let members = Members::of(pass);
    membership::track_unreachable(pass, &members);
    version::decide(pass, &members);
    // A member that only lacks its pod comes back by itself: cheaper and safer than any change of the member list, and
    // possible without quorum, which is how a cold start of everything ends well.
    pods::bring_back(pass, &members)?;
    // No change of the member list without a list that a quorum confirmed.
    let safety = Safety::of(&members);
    membership::need_quorum(pass, &members, &safety)?;
    // An alarm outlives its member, and writes are refused as long as it is raised.
    membership::disarm(pass, &members)?;
    // CORRUPT spreads wrong answers: whoever is wrong goes first.
    membership::settle_corrupt(pass, &members, &safety)?;
    // A learner under way is finished or given up before anything else changes the list: one change at a time.
    membership::finish_learner(pass, &members, &safety)?;
    // A failed member is removed, which fences it; the deficit is filled by scale-out.
    membership::replace_failed(pass, &members, &safety)?;
    // What removed members leave behind would hold nodes that their successors need.
    storage::drop_leftovers(pass, &members)?;
    membership::scale_out(pass, &members, &safety)?;
    membership::scale_in(pass, &members, &safety)?;
    // Voluntary restarts come last: they are the only thing that can wait.
    version::advance_log(pass, &members)?;
    rollout::roll(pass, &members, &safety)
}
