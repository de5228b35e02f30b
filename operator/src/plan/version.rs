//! Which version the pods of this pass get: the wanted one, or the one that runs when the step to it is refused.

use super::Unsafe;
use super::members::Members;
use super::pass::Pass;
use crate::model::Version;

/// Records what runs, and refuses a forbidden step before anything is touched: not only the roll-out, but also every pod
/// that is made meanwhile keeps the version that runs.
///
/// The step must be allowed from what was recorded when all voters last answered, and from what the answering ones run
/// now: a voter that is silent may be the last old one (no minor may be skipped over it), or may have been changed since
/// (no downgrade because it does not say so).
pub(super) fn decide(pass: &mut Pass<'_>, members: &Members<'_>) {
    let answering = members.oldest_version();
    let all_answer = members.confirmed && members.voters().all(|member| member.status.is_some());
    if answering.is_some() && (all_answer || pass.record.version.is_none()) {
        pass.record.version.clone_from(&answering);
    }
    let to = pass.desired.version.clone();
    let recorded = pass.record.version.clone();
    let refused = answering.iter().chain(recorded.iter()).find_map(|from| {
        Version::why_not_step(from, &to).map(|why| Unsafe::Version { from: from.clone(), to: to.clone(), why })
    });
    if let (Some(refused), Some(runs)) = (refused, answering.or(recorded)) {
        pass.refuse(refused);
        pass.desired.to_mut().version = runs;
        pass.version_refused = true;
    }
}
