//! The birth of a cluster: all members of the first formation at once, behind a client Service that selects nobody.
//!
//! A cluster is born once. What makes it so: the attempt is recorded before its first object; once formed, which is
//! recorded before the Service opens, this stage does nothing; a new attempt is made only when the one before cannot have
//! become a cluster behind our back.

use std::ops::ControlFlow;

use super::formation::{self, Prospect};
use super::pass::Pass;
use super::{PodDeletion, Unsafe, VolumeDeletion, Waiting, ownership};
use crate::model::Lineage;

/// Forms the cluster, attempt by attempt, until it is formed.
pub(super) fn form(pass: &mut Pass<'_>) -> ControlFlow<()> {
    let mut lineage = match &pass.record.lineage {
        Some(lineage) if lineage.formed => {
            let lineage = lineage.clone();
            drop_earlier_attempts(pass, &lineage);
            return ControlFlow::Continue(());
        }
        Some(lineage) => lineage.clone(),
        None => first_attempt(pass)?,
    };
    if let Some(cluster_id) = formation::formed_as(&pass.observed.etcd, &lineage.seeds) {
        lineage.formed = true;
        lineage.formed_at = Some(pass.now);
        lineage.cluster_id = Some(cluster_id);
        lineage.tls = formation::tls_of(pass, &lineage);
        pass.record.lineage = Some(lineage);
        // From here on it is a formed cluster, in this pass already.
        ownership::kept_for_life(pass);
        return ControlFlow::Continue(());
    }
    // No missing seed and no other attempt at such a version, either; what is there stays.
    if let Some(refused) = why_not_start(pass) {
        pass.refuse(refused);
        return ControlFlow::Break(());
    }
    let observed = pass.observed;
    let prospect = formation::prospect(pass, &lineage, &observed.etcd);
    if matches!(prospect, Prospect::StartOver) {
        let uid = pass.desired.identity.uid.clone();
        lineage = formation::lineage(&pass.desired, &uid, lineage.attempt + 1, None);
        pass.record.lineage = Some(lineage.clone());
    }
    drop_earlier_attempts(pass, &lineage);
    formation::raise(pass, &lineage, None);
    if let Prospect::Lost(why) = prospect {
        pass.refuse(why);
    } else {
        let answering = formation::answering(&observed.etcd, &lineage.seeds);
        pass.wait(Waiting::Formation { answering, seeds: lineage.seeds.len() });
    }
    ControlFlow::Break(())
}

fn first_attempt(pass: &mut Pass<'_>) -> ControlFlow<(), Lineage> {
    if let Some(refused) = why_not_start(pass) {
        pass.refuse(refused);
        return ControlFlow::Break(());
    }
    let lineage = formation::lineage(&pass.desired, &pass.desired.identity.uid, 1, None);
    pass.record.lineage = Some(lineage.clone());
    ControlFlow::Continue(lineage)
}

fn why_not_start(pass: &Pass<'_>) -> Option<Unsafe> {
    let why = pass.desired.version.why_not_start()?;
    Some(Unsafe::Spec { message: format!("`spec.version` {}: {why}", pass.desired.version) })
}

/// What earlier attempts at this lineage left behind. Exact tokens, not "everything else".
fn drop_earlier_attempts(pass: &mut Pass<'_>, lineage: &Lineage) {
    let uid = lineage.restored_from.as_ref().unwrap_or(&pass.desired.identity.uid);
    let earlier = formation::earlier_tokens(uid, lineage.attempt);
    let is_earlier = |token: &str| earlier.contains(token);
    formation::drop_lineages(pass, is_earlier, PodDeletion::FormationAbandoned, VolumeDeletion::FormationAbandoned);
}
