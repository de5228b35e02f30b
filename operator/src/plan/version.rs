//! Which version the pods of this pass get: the wanted one, or the one that runs when the step to it is refused.

use super::Unsafe;
use super::members::Members;
use super::pass::Pass;
use crate::model::Version;

/// Records what runs, and refuses a forbidden step before anything is touched: not only the roll-out, but also every pod
/// that is made meanwhile keeps the version that runs.
pub(super) fn decide(pass: &mut Pass<'_>, members: &Members<'_>) {
    if let Some(oldest) = members.oldest_version() {
        let all_answer = members.confirmed && members.voters().all(|member| member.status.is_some());
        if all_answer || pass.record.version.is_none() {
            pass.record.version = Some(oldest);
        }
    }
    let Some(from) = pass.record.version.clone() else { return };
    let to = pass.desired.version.clone();
    if let Some(why) = Version::why_not_step(&from, &to) {
        pass.refuse(Unsafe::Version { from: from.clone(), to, why });
        pass.desired.to_mut().version = from;
        pass.version_refused = true;
    }
}
