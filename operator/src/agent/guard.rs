//! The last guard before etcd starts: an empty directory where data is expected is a lost member, not a new one.
//!
//! Kubernetes cannot tell a volume that was wiped from one that is new, and etcd, started on an empty directory with
//! the flags of its first start, comes back under its old identity without its log. That breaks raft: entries that it
//! had acknowledged are gone, and a quorum may form without them.

use std::fmt;

/// Exit code of the agent when it refuses to start etcd because data is gone. `EX_CONFIG` of sysexits: no program in
/// the pod uses it, and the operator recognises it in the pod's status.
pub const DATA_LOST_EXIT_CODE: i32 = 78;

/// Why etcd is not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataLost {
    /// The member is in a cluster that was formed, and has started before.
    Expected,
    /// etcd ran in this very pod, and its directory is empty now.
    Vanished,
}

impl fmt::Display for DataLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expected => {
                "data lost: the member has started before and its data directory holds no log; \
                 etcd is not started, the member must be replaced"
            }
            Self::Vanished => {
                "data lost: etcd ran in this pod and its data directory holds no log any more; \
                 etcd is not started, the member must be replaced"
            }
        })
    }
}

/// Whether etcd may start. With data there is nothing to guard: etcd's own checks know whose data it is.
///
/// # Errors
/// When the directory holds no log although one is expected, or although etcd ran in this pod (`seen`).
pub const fn guard(expect_data: bool, seen: bool, has_data: bool) -> Result<(), DataLost> {
    match (has_data, seen, expect_data) {
        (true, _, _) | (false, false, false) => Ok(()),
        (false, true, _) => Err(DataLost::Vanished),
        (false, false, true) => Err(DataLost::Expected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_eight_combinations() {
        let (yes, no) = (true, false);
        let table = [
            // (expect, seen, has)
            ((no, no, no), Ok(()), "first start of a member"),
            ((no, no, yes), Ok(()), "a new pod on a volume of a member whose history is not known"),
            ((no, yes, no), Err(DataLost::Vanished), "wiped while the container restarted"),
            ((no, yes, yes), Ok(()), "the container restarted"),
            ((yes, no, no), Err(DataLost::Expected), "a new pod on an empty volume"),
            ((yes, no, yes), Ok(()), "a new pod on the member's volume"),
            ((yes, yes, no), Err(DataLost::Vanished), "wiped while the container restarted"),
            ((yes, yes, yes), Ok(()), "the container restarted"),
        ];
        for ((expect, seen, has), expected, why) in table {
            assert_eq!(guard(expect, seen, has), expected, "{why}");
        }
    }
}
