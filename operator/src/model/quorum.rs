//! The quorum kernel: pure arithmetic over votes, from which every safety check of the plan is made.

/// Votes needed in a cluster of this many voters: `|V|/2 + 1`.
pub const fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}
