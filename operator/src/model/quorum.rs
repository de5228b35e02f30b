//! The quorum kernel: pure arithmetic over votes, from which every safety check of the plan is made.
//!
//! `q(V) = |V|/2 + 1`. Every rule is an inequality over (voters, healthy voters); each is written at its function and
//! checked for every vector of member health up to seven members.

/// Votes needed in a cluster of this many voters: `|V|/2 + 1`.
pub const fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// How many voters there are, and how many of them answer and follow a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Votes {
    /// Voters in the member list, those that never started included.
    pub voters: usize,
    /// Healthy ones among them.
    pub healthy: usize,
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

    /// Removing a voter: `h >= q(V)` in the old configuration, which has to commit it, and `h' >= q(V-1)` in the new one,
    /// where `h' = h - 1` when the removed one is healthy and `h' = h` when it is not. The last voter is never removed.
    ///
    /// # Errors
    /// The first inequality that does not hold.
    pub fn check_remove(self, healthy: bool) -> Result<(), TooFew> {
        if self.voters <= 1 {
            return Err(TooFew { healthy: 0, needed: 1 });
        }
        self.require()?;
        Self { voters: self.voters - 1, healthy: self.healthy.saturating_sub(usize::from(healthy)) }.require()
    }

    /// Restarting a voter: one that is not healthy takes nothing away; a healthy one needs `h - 1 >= q(V)`.
    ///
    /// One or two voters never satisfy it. There a restart is what the user asked for by changing the spec, and no order
    /// of steps would do better, so it is allowed while every voter is healthy: `V <= 2` and `h = V`.
    ///
    /// # Errors
    /// What would be left.
    pub fn check_restart(self, healthy: bool) -> Result<(), TooFew> {
        if !healthy || (self.voters <= 2 && self.healthy == self.voters) {
            return Ok(());
        }
        Self { voters: self.voters, healthy: self.healthy.saturating_sub(1) }.require()
    }

    /// Adding a learner: `h >= q(V)`; votes do not change.
    ///
    /// # Errors
    /// When there is no quorum to commit it.
    pub fn check_add_learner(self) -> Result<(), TooFew> {
        self.require()
    }

    /// Promoting a healthy learner: `h >= q(V)` to commit it, and `h + 1 >= q(V+1)` after it.
    ///
    /// # Errors
    /// The first inequality that does not hold.
    pub fn check_promote(self) -> Result<(), TooFew> {
        self.require()?;
        Self { voters: self.voters + 1, healthy: self.healthy + 1 }.require()
    }

    /// Adding a voter that has not started, the only way below etcd 3.4: every voter is healthy (`h = V`), and
    /// `h >= q(V+1)`. A single voter cannot satisfy the second (`1 >= 2`): etcd itself lets one become two, and so do we;
    /// it does not serve until the second has started.
    ///
    /// # Errors
    /// The first inequality that does not hold.
    pub fn check_add_voter(self) -> Result<(), TooFew> {
        if self.healthy < self.voters || self.voters == 0 {
            return Err(TooFew { healthy: self.healthy, needed: self.voters.max(1) });
        }
        if self.voters == 1 { Ok(()) } else { Self { voters: self.voters + 1, healthy: self.healthy }.require() }
    }

    fn require(self) -> Result<(), TooFew> {
        if self.has_quorum() { Ok(()) } else { Err(TooFew { healthy: self.healthy, needed: self.quorum() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair (voters, healthy) up to nine voters.
    fn every() -> impl Iterator<Item = Votes> {
        (1..=9).flat_map(|voters| (0..=voters).map(move |healthy| Votes { voters, healthy }))
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
            for healthy in [true, false] {
                if (healthy && votes.healthy == 0) || (!healthy && votes.healthy == votes.voters) {
                    continue;
                }
                let left = votes.healthy - usize::from(healthy);
                let safe =
                    votes.voters > 1 && votes.healthy >= quorum(votes.voters) && left >= quorum(votes.voters - 1);
                assert_eq!(votes.check_remove(healthy).is_ok(), safe, "{votes:?} {healthy}");
            }
        }
    }

    #[test]
    fn rule_an_unhealthy_voter_can_always_be_removed_while_there_is_a_quorum() {
        for votes in every().filter(|votes| votes.healthy < votes.voters && votes.voters > 1) {
            assert_eq!(votes.check_remove(false).is_ok(), votes.has_quorum(), "{votes:?}");
        }
    }

    #[test]
    fn rule_restart_of_a_healthy_voter_keeps_a_quorum_unless_one_or_two_voters_are_all_healthy() {
        for votes in every().filter(|votes| votes.healthy > 0) {
            let keeps = votes.healthy > quorum(votes.voters);
            let no_better_way = votes.voters <= 2 && votes.healthy == votes.voters;
            assert_eq!(votes.check_restart(true).is_ok(), keeps || no_better_way, "{votes:?}");
            assert!(votes.check_restart(false).is_ok());
        }
    }

    #[test]
    fn rule_a_promotion_never_takes_the_quorum_away() {
        for votes in every() {
            if votes.check_promote().is_ok() {
                assert!(Votes { voters: votes.voters + 1, healthy: votes.healthy + 1 }.has_quorum(), "{votes:?}");
            }
        }
    }

    #[test]
    fn rule_a_voter_is_added_only_when_all_are_healthy() {
        for votes in every() {
            assert_eq!(votes.check_add_voter().is_ok(), votes.healthy == votes.voters, "{votes:?}");
        }
    }
}
