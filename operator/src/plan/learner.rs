//! How long a learner may take: one that answers and never catches up would stand in the way of every other change.
//!
//! Nothing is remembered for it. A learner came to be when its volume did (without volumes, its pod); what it waited for
//! since then, an image perhaps, is not held against it when its container has just started for the first time. From
//! there it has the time that a member has to start (`replaceAfter`), the time to copy the leader's database at a slow
//! rate, and ten minutes. When it is given up, the next one has at least as long as the EtcdCluster had not been ready by
//! then, which its Ready condition tells: each attempt in vain doubles the time of the next, up to two hours, and all is as
//! at first once it was ready.

use jiff::SignedDuration;

use super::members::{Member, Members};
use super::pass::Pass;

/// What a learner has for catching up, besides its start and the copy of the database.
const CATCH_UP: SignedDuration = SignedDuration::from_mins(10);
/// Bytes of the leader's database that a learner receives in a second at the least.
const COPY_BYTES_PER_SECOND: u64 = 4 << 20;
/// Most that attempts in vain add up to.
const BACK_OFF_MAX: SignedDuration = SignedDuration::from_hours(2);

/// How long until a learner that lags is given up; negative when it is overdue. None as long as it has no objects.
pub(super) fn patience(pass: &Pass<'_>, members: &Members<'_>, learner: &Member<'_>) -> Option<SignedDuration> {
    let created = learner.volume.map(|volume| volume.created_at).or(learner.pod.map(|pod| pod.created_at))?;
    let bytes = members.leader_status().map_or(0, |status| status.db_size);
    let copy = SignedDuration::from_secs(i64::try_from(bytes / COPY_BYTES_PER_SECOND).unwrap_or(i64::MAX / 4));
    let first = pass.desired.replace_after + CATCH_UP + copy;
    let in_vain = pass.observed.not_ready_since.map_or(SignedDuration::ZERO, |since| created.duration_since(since));
    let begun = learner.pod.and_then(|pod| pod.first_started_at).map_or(created, |started| started.max(created));
    Some(first.max(in_vain.min(BACK_OFF_MAX)) - pass.now.duration_since(begun))
}
