//! The quorum kernel: pure arithmetic over votes, from which every safety check of the plan is made.
//!
//! `q(V) = |V|/2 + 1`. Every rule is an inequality over the voters (V), the healthy ones (h) and those of them that stay
//! (s): a change is committed by h, and what is left after it is counted in s. Each is written at its function and checked
//! for every vector of member health up to nine members.

/// Votes needed in a cluster of this many voters: `|V|/2 + 1`.
pub const fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// How many voters there are, how many of them answer and follow a leader, and how many of these will go on doing so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Votes {
    /// Voters in the member list, those that never started included.
    pub voters: usize,
    /// Healthy ones among them.
    pub healthy: usize,
    /// Healthy ones whose pods nobody is deleting: an evicted member answers until the kubelet stops it, and not after.
    pub staying: usize,
}

/// A change would leave fewer healthy voters than a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFew {
    /// Healthy voters that would be left.
    pub healthy: usize,
    /// Votes that would be needed.
    pub needed: usize,
}

impl Votes {
    /// Votes needed now.
    pub const fn quorum(self) -> usize {
        quorum(self.voters)
    }

    /// `h >= q(V)`: without it no change of the member list can be committed at all.
    pub const fn has_quorum(self) -> bool {
        self.voters > 0 && self.healthy >= self.quorum()
    }

    /// How many healthy voters may fail before the quorum is lost.
    pub const fn spare(self) -> usize {
        self.healthy.saturating_sub(self.quorum())
    }

    /// Removing a voter: `h >= q(V)` in the old configuration, which has to commit it, and for one that stays
    /// `s - 1 >= q(V-1)` in the new one. One that does not stay counts for nothing in either: `q(V-1) <= q(V)`, so that
    /// without it no more votes are missing than with it. The last voter is never removed.
    ///
    /// # Errors
    /// The first inequality that does not hold.
    pub fn check_remove(self, stays: bool) -> Result<(), TooFew> {
        if self.voters <= 1 {
            return Err(TooFew { healthy: 0, needed: 1 });
        }
        self.check_commit()?;
        if stays { enough(self.staying.saturating_sub(1), self.voters - 1) } else { Ok(()) }
    }

    /// Restarting a voter: one that does not stay anyway takes nothing away; another one needs `s - 1 >= q(V)`.
    ///
    /// One or two voters never satisfy it. There a restart is what the user asked for by changing the spec, and no order
    /// of steps would do better, so it is allowed while every voter is there to stay: `V <= 2` and `s = V`.
    ///
    /// # Errors
    /// What would be left.
    pub fn check_restart(self, stays: bool) -> Result<(), TooFew> {
        if !stays || (self.voters <= 2 && self.staying == self.voters) {
            return Ok(());
        }
        enough(self.staying.saturating_sub(1), self.voters)
    }

    /// Whether a change of the member list can be committed: `h >= q(V)`. It is all that a learner needs, coming or going:
    /// votes do not change.
    ///
    /// # Errors
    /// When there is no quorum.
    pub fn check_commit(self) -> Result<(), TooFew> {
        enough(self.healthy, self.voters)
    }

    /// Promoting a learner that stays: `h >= q(V)` to commit it, and `s + 1 >= q(V+1)` after it.
    ///
    /// # Errors
    /// The first inequality that does not hold.
    pub fn check_promote(self) -> Result<(), TooFew> {
        self.check_commit()?;
        enough(self.staying + 1, self.voters + 1)
    }

    /// Adding a voter that has not started, the only way below etcd 3.4: every voter is there to stay (`s = V`), and
    /// `s >= q(V+1)`. A single voter cannot satisfy the second (`1 >= 2`): etcd itself lets one become two, and so do we;
    /// it does not serve until the second has started.
    ///
    /// # Errors
    /// The first inequality that does not hold.
    pub fn check_add_voter(self) -> Result<(), TooFew> {
        if self.staying < self.voters || self.voters == 0 {
            return Err(TooFew { healthy: self.staying, needed: self.voters.max(1) });
        }
        if self.voters == 1 { Ok(()) } else { enough(self.staying, self.voters + 1) }
    }
}

/// `h >= q(V)`, of some voters.
const fn enough(healthy: usize, voters: usize) -> Result<(), TooFew> {
    if voters > 0 && healthy >= quorum(voters) { Ok(()) } else { Err(TooFew { healthy, needed: quorum(voters) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every (voters, healthy, staying) up to nine voters.
    fn every() -> impl Iterator<Item = Votes> {
        let all = (1..=9).flat_map(|voters| (0..=voters).map(move |healthy| (voters, healthy)));
        all.flat_map(|(voters, healthy)| (0..=healthy).map(move |staying| Votes { voters, healthy, staying }))
    }

    #[test]
    fn two_quorums_of_one_membership_always_meet() {
        for voters in 1..=100 {
            assert!(2 * quorum(voters) > voters && 2 * (quorum(voters) - 1) <= voters, "{voters}");
        }
    }

    #[test]
    fn rule_remove_leaves_a_quorum_before_and_after() {
        for votes in every() {
            for stays in [true, false] {
                if (stays && votes.staying == 0) || (!stays && votes.staying == votes.voters) {
                    continue;
                }
                let kept = !stays || votes.staying > quorum(votes.voters - 1);
                let safe = votes.voters > 1 && votes.has_quorum() && kept;
                assert_eq!(votes.check_remove(stays).is_ok(), safe, "{votes:?} {stays}");
                // Whatever stays, a removal does not leave more votes missing than there were.
                let missing = |voters: usize, staying: usize| quorum(voters).saturating_sub(staying);
                let after = missing(votes.voters - 1, votes.staying - usize::from(stays));
                assert!(!safe || after <= missing(votes.voters, votes.staying), "{votes:?} {stays}");
            }
        }
    }

    #[test]
    fn rule_a_voter_that_does_not_stay_can_always_be_removed_while_there_is_a_quorum() {
        for votes in every().filter(|votes| votes.staying < votes.voters && votes.voters > 1) {
            assert_eq!(votes.check_remove(false).is_ok(), votes.has_quorum(), "{votes:?}");
        }
    }

    #[test]
    fn rule_restart_of_a_voter_keeps_a_quorum_unless_one_or_two_voters_all_stay() {
        for votes in every().filter(|votes| votes.staying > 0) {
            let keeps = votes.staying > quorum(votes.voters);
            let no_better_way = votes.voters <= 2 && votes.staying == votes.voters;
            assert_eq!(votes.check_restart(true).is_ok(), keeps || no_better_way, "{votes:?}");
            assert!(votes.check_restart(false).is_ok());
        }
    }

    #[test]
    fn rule_a_promotion_never_takes_the_quorum_away() {
        for votes in every() {
            let safe = votes.has_quorum() && votes.staying + 1 >= quorum(votes.voters + 1);
            assert_eq!(votes.check_promote().is_ok(), safe, "{votes:?}");
        }
    }

    #[test]
    fn rule_a_voter_is_added_only_when_all_are_there_to_stay() {
        for votes in every() {
            assert_eq!(votes.check_add_voter().is_ok(), votes.staying == votes.voters, "{votes:?}");
        }
    }
}
