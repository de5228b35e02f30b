//! Every safety check of a pass, over one count of votes that is made once.
//!
//! The arithmetic and its inequalities are in `model::quorum`; here they are put into the words of `Unsafe`.
//! Race that remains in all of them: a healthy voter can fail between the observation and the effect. Membership calls
//! are fenced by the member list read again right before them, and etcd's own rules; a deleted or patched pod is not:
//! there the cluster loses at most the voters that failed in between, and none of their data.

use super::Unsafe;
use super::members::{Member, Members};
use crate::model::quorum::{TooFew, Votes};

/// The votes of this pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Safety {
    /// Voters, healthy ones, and those of them that stay.
    pub votes: Votes,
    learners: usize,
    unstarted: usize,
}

impl Safety {
    /// Counts.
    pub(super) fn of(members: &Members<'_>) -> Self {
        Self {
            votes: members.votes(),
            learners: members.learners().count(),
            unstarted: members.all.iter().filter(|member| !member.has_started()).count(),
        }
    }

    /// `h >= q(V)` and, for a voter that stays, `s - 1 >= q(V-1)`. Removing a learner only needs the quorum that commits it.
    pub(super) fn why_unsafe_to_remove(&self, member: &Member<'_>) -> Option<Unsafe> {
        let check = if member.is_learner() { self.votes.check_commit() } else { self.votes.check_remove(member.stays) };
        would_lose(check, || format!("remove member {}", member.name))
    }

    /// `s - 1 >= q(V)` for a voter that stays; see `Votes::check_restart` for one and two voters.
    pub(super) fn why_unsafe_to_restart(&self, member: &Member<'_>) -> Option<Unsafe> {
        let check = if member.is_learner() { Ok(()) } else { self.votes.check_restart(member.stays) };
        would_lose(check, || format!("restart member {}", member.name))
    }

    /// `h >= q(V)` and `s + 1 >= q(V+1)`.
    pub(super) fn why_unsafe_to_promote(&self, member: &Member<'_>) -> Option<Unsafe> {
        would_lose(self.votes.check_promote(), || format!("promote learner {}", member.name))
    }

    /// Nobody is added while a learner or an unstarted member exists; a learner needs the quorum that commits it, a voter
    /// (below etcd 3.4) needs every voter there to stay. At most one more member than wanted: `voters + learners <= wanted + 1`.
    pub(super) fn why_unsafe_to_add(&self, as_learner: bool, wanted: usize) -> Option<Unsafe> {
        let check = if self.learners > 0 || self.unstarted > 0 || self.votes.voters > wanted {
            Err(TooFew { healthy: self.votes.staying, needed: self.votes.voters + self.learners })
        } else if as_learner {
            self.votes.check_commit()
        } else {
            self.votes.check_add_voter()
        };
        would_lose(check, || "add a member".to_owned())
    }
}

fn would_lose(check: Result<(), TooFew>, step: impl Fn() -> String) -> Option<Unsafe> {
    check.err().map(|few| Unsafe::WouldLoseQuorum { step: step(), healthy: few.healthy, needed: few.needed })
}
