//! Which version the pods of this pass get: the wanted one, or the one that runs when the step to it is refused or not
//! possible yet.

use std::ops::ControlFlow;

use super::members::{Member, Members};
use super::pass::Pass;
use super::{Step, Unsafe, Waiting, rollout};
use crate::model::{PodObserved, Version};

/// etcd 3.6 takes a raft snapshot on disk after so many entries, unless the user's environment says another number.
const SNAPSHOT_COUNT: u64 = 10_000;
/// The variable that says it.
const SNAPSHOT_COUNT_ENV: &str = "ETCD_SNAPSHOT_COUNT";
/// Entries that one pass appends: a few seconds' work.
const ENTRIES_PER_PASS: u64 = 1_000;

/// Records what runs, and refuses a forbidden step before anything is touched: not only the roll-out, but also every pod
/// that is made meanwhile keeps the version that runs.
///
/// The step must be allowed from what was recorded when all voters last answered, and from what the answering ones run
/// now: a voter that is silent may be the last old one (no minor may be skipped over it), or may have been changed since
/// (no downgrade because it does not say so).
pub(super) fn decide(pass: &mut Pass<'_>, members: &Members<'_>) {
    let answering = members.oldest_version();
    let all_answer = members.confirmed && members.voters().all(|member| member.status.is_some());
    if let Some(oldest) = answering.as_ref().filter(|_| all_answer || pass.record.version.is_none()) {
        remember_legacy_log(pass, members, oldest);
        pass.record.version = Some(oldest.clone());
    }
    let to = pass.desired.version.clone();
    let recorded = pass.record.version.clone();
    let refused = answering.iter().chain(recorded.iter()).find_map(|from| {
        Version::why_not_step(from, &to).map(|why| Unsafe::Version { from: from.clone(), to: to.clone(), why })
    });
    // The older one: started on newer data it refuses and harms nothing, while the newer one would take the last old
    // member along, and with it the way back that a roll-out has until then.
    let Some(runs) = answering.into_iter().chain(recorded).min() else { return };
    if let Some(refused) = refused {
        pass.refuse(refused);
    } else if let Some(waiting) = why_not_yet(pass, members, &runs, &to) {
        pass.wait(waiting);
    } else {
        return;
    }
    pass.desired.to_mut().version = as_tagged(members, runs);
    pass.version_refused = true;
}

/// What runs, as the tag that the pods have: a server of `3.5.26-arm64` calls itself 3.5.26, and there may be no such image.
///
/// The tag of a pod that cannot start is none: a roll-out may have stopped at it.
pub(super) fn as_tagged(members: &Members<'_>, runs: Version) -> Version {
    let tag = |pod: &PodObserved| pod.image_version().parse().ok().filter(|tag: &Version| tag.is_same_release(&runs));
    let answering = members.all.iter().filter(|member| member.status.is_some());
    let answering: Vec<_> = answering.filter_map(|member| tag(member.pod?)).collect();
    if answering.contains(&runs) {
        return runs;
    }
    let has_run = |pod: &&PodObserved| !pod.never_ran && !pod.fails_to_start();
    let others = members.all.iter().filter_map(|member| tag(member.pod.filter(has_run)?));
    answering.into_iter().chain(others).next().unwrap_or(runs)
}

/// When the last member below 3.6 is gone, what is in the log by then may be theirs, and nothing after it is.
fn remember_legacy_log(pass: &mut Pass<'_>, members: &Members<'_>, oldest: &Version) {
    let before = pass.record.version.as_ref();
    if !oldest.reads_legacy_log() {
        pass.record.legacy_log_index = None;
    } else if !oldest.writes_legacy_log() && before.is_some_and(Version::writes_legacy_log) {
        let statuses = members.all.iter().filter_map(|member| member.status);
        pass.record.legacy_log_index = statuses.map(|status| status.raft_index).max();
    }
}

/// What has to happen inside etcd before a step that is allowed: a member of the next minor would panic, and with one
/// member down etcd makes no progress with either.
fn why_not_yet(pass: &Pass<'_>, members: &Members<'_>, from: &Version, to: &Version) -> Option<Waiting> {
    if to.minor <= from.minor || !from.has_storage_version() {
        return None;
    }
    if let Some(silent) = silent_before(members, to) {
        let why = format!("it does not answer, and what it has on its disk decides whether etcd {to} may start");
        return Some(Waiting::MemberHealth { member: silent.name.clone(), why });
    }
    let migrated = |member: &Member<'_>| {
        let storage = member.status.and_then(|status| status.storage_version.as_ref());
        storage.is_some_and(|storage| storage.minor >= from.minor)
    };
    if members.voters().filter(|member| member.status.is_some()).any(|member| !migrated(member)) {
        return Some(Waiting::ClusterVersion { version: from.clone() });
    }
    if pass.record.legacy_log_index.is_none() || !from.reads_legacy_log() || to.reads_legacy_log() {
        return None;
    }
    // How often a member takes a snapshot says the environment that it was started with, and that is known of no other spec.
    if let Some(member) = members.voters().find(|member| rollout::has_old_template(pass, member)) {
        let why = format!("it gets the changed spec before etcd {to}");
        return Some(Waiting::MemberHealth { member: member.name.clone(), why });
    }
    let entries = legacy_log_left(pass, members)?;
    Some(Waiting::RaftSnapshot { version: to.clone(), entries })
}

/// A voter that does not answer, as long as no pod has the new minor: what it would say may hold the step up. One whose pod
/// cannot start says nothing before its image is corrected.
fn silent_before<'a, 'b>(members: &'a Members<'b>, to: &Version) -> Option<&'a Member<'b>> {
    let is_new =
        |pod: &PodObserved| pod.image_version().parse::<Version>().is_ok_and(|version| version.minor >= to.minor);
    if members.all.iter().filter_map(|member| member.pod).any(is_new) {
        return None;
    }
    members.voters().find(|voter| voter.status.is_none() && voter.pod.is_none_or(|pod| !pod.fails_to_start()))
}

/// Entries until each voter has a raft snapshot behind everything that members below 3.6 wrote; none when they have.
///
/// A member never goes more than the snapshot count beyond its last snapshot: so much beyond the last old entry, there
/// is one behind that.
fn legacy_log_left(pass: &Pass<'_>, members: &Members<'_>) -> Option<u64> {
    let last = pass.record.legacy_log_index?;
    let said = pass.desired.pod.etcd_env.iter().find(|env| env.name == SNAPSHOT_COUNT_ENV);
    let count = said.and_then(|env| env.value.as_ref()?.parse().ok()).unwrap_or(SNAPSHOT_COUNT);
    let slowest = members.voters().filter_map(|member| member.status).map(|status| status.raft_applied_index).min()?;
    let left = last.saturating_add(count).saturating_add(2).saturating_sub(slowest);
    (left > 0).then_some(left)
}

/// Brings members to the raft snapshot that a step waits for; users' writes alone may take days.
pub(super) fn advance_log(pass: &mut Pass<'_>, members: &Members<'_>) -> ControlFlow<()> {
    let Some(entries) = pass.raft_snapshot_in() else { return ControlFlow::Continue(()) };
    let endpoints: Vec<_> = members.askable(None).iter().map(|name| pass.client_url(name)).collect();
    if endpoints.is_empty() {
        return ControlFlow::Continue(());
    }
    pass.last_step(Step::AdvanceLog { entries: entries.min(ENTRIES_PER_PASS), endpoints })
}
