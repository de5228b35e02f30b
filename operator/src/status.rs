//! `status(previous, desired, observed, plan, now)`: what an EtcdCluster's status says after a pass, and the record in it.
//!
//! Written before any step is taken, and whatever of etcd could not be asked: what is not known is said to be so. Equal
//! to the previous one when nothing changed, so that a converged cluster writes nothing.

mod cluster_conditions;
pub mod news;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeMap;

use crate::api::cluster::{
    CalledOffRestore, ClusterPhase, EtcdClusterStatus, Lineage as LineageStatus, LineageTls, MembersStatus,
    RestorePhase as RestorePhaseStatus, RestoreProgress, UnreachableMember,
};
use crate::api::{labels, names};
use crate::model::quorum::Votes;
use crate::model::{
    ClientTls, ClusterId, Desired, Lineage, Observed, Record, RestorePhase, RestoreRecord, Storage, Tls,
};
use crate::plan::{Member, Members, Plan, Unsafe};

/// Most reasons that `status.reason` tells; the conditions have the rest.
const REASONS_MAX: usize = 4;
/// Most members that are listed anywhere in status: twice the largest cluster.
const MEMBERS_MAX: usize = 18;
/// `conditions[].message` and `reason` are cut here, in bytes; the schema allows more.
const MESSAGE_MAX: usize = 2048;

/// What the conditions are made from, found once.
pub(crate) struct Facts<'a> {
    pub(crate) desired: Option<&'a Desired>,
    pub(crate) observed: &'a Observed,
    pub(crate) plan: &'a Plan,
    pub(crate) members: Members<'a>,
    pub(crate) votes: Votes,
    pub(crate) formed: bool,
    /// A linearizable read went through in this pass.
    pub(crate) serves: bool,
    /// Some member answered.
    pub(crate) asked: bool,
    pub(crate) ready: Vec<String>,
    pub(crate) unready: Vec<String>,
}

impl<'a> Facts<'a> {
    fn of(desired: Option<&'a Desired>, observed: &'a Observed, plan: &'a Plan) -> Self {
        let lineage = observed.record.lineage.as_ref();
        let storage_is_volume = desired.is_some_and(|desired| matches!(desired.storage, Storage::Volume(_)));
        let members = Members::join(observed, lineage.map(|lineage| lineage.token.as_str()), storage_is_volume);
        let asked = observed.etcd.statuses.values().any(|status| status.known().is_some());
        let votes = members.votes();
        // When nobody answers us, the kubelets' probes are the next best witness.
        let is_ready = |healthy: bool, pod_ready: bool| healthy || (!asked && pod_ready);
        let (ready, unready): (Vec<_>, Vec<_>) =
            members.all.iter().partition(|member| is_ready(member.healthy, member.pod.is_some_and(|pod| pod.ready)));
        let names = |members: Vec<&Member<'_>>| {
            members.into_iter().take(MEMBERS_MAX).map(|member| member.name.clone()).collect()
        };
        let (ready, unready) = (names(ready), names(unready));
        Self {
            desired,
            observed,
            plan,
            votes,
            formed: plan.record.lineage.as_ref().is_some_and(|lineage| lineage.formed),
            serves: observed.etcd.quorum_read.known().is_some(),
            asked,
            ready,
            unready,
            members,
        }
    }

    /// Somebody answered, or Kubernetes itself says that too few can: the quorum is lost, and not only unseen.
    pub(crate) fn quorum_lost(&self) -> bool {
        let ready = self.members.voters().filter(|member| member.pod.is_some_and(|pod| pod.ready)).count();
        self.formed && !self.serves && !self.votes.has_quorum() && (self.asked || ready < self.votes.quorum())
    }

    /// Not all members run the wanted release yet, or not any more.
    pub(crate) fn version_differs(&self) -> bool {
        let (Some(desired), Some(runs)) = (self.desired, &self.plan.record.version) else { return false };
        *runs != desired.version && (!runs.is_same_release(&desired.version) || self.image_differs())
    }

    /// The wanted image is not yet, or not any more, what every pod has.
    pub(crate) fn image_differs(&self) -> bool {
        let Some(desired) = self.desired else { return false };
        let image = desired.image();
        self.members.all.iter().filter_map(|member| member.pod).any(|pod| pod.image != image)
    }
}

/// The status after a pass. `desired` is what validation made of the spec, or why it cannot be used.
pub fn status(
    previous: &EtcdClusterStatus,
    desired: &Result<Desired, Vec<Unsafe>>,
    observed: &Observed,
    plan: &Plan,
    now: Timestamp,
) -> EtcdClusterStatus {
    let desired = desired.as_ref().ok();
    let facts = Facts::of(desired, observed, plan);
    let mut status = previous.clone();
    status.observed_generation = observed.generation.or(previous.observed_generation);
    status.phase = phase(&facts);
    status.reason = reasons(plan);
    if let Some(desired) = desired {
        let cluster = &desired.identity.name;
        status.control_paused = desired.paused;
        status.selector = labels::selector(cluster);
        status.service_name = names::client_service_name(cluster);
        status.client_port = names::CLIENT_PORT;
        status.target_version = target_version(&facts, desired);
    }
    status.size = i32::try_from(facts.members.all.len()).unwrap_or(i32::MAX);
    status.ready = format!("{}/{}", facts.ready.len(), facts.members.all.len());
    status.leader = leader(&facts);
    status.members = MembersStatus { ready: facts.ready.clone(), unready: facts.unready.clone() };
    status.current_version = plan.record.version.as_ref().map(ToString::to_string).unwrap_or_default();
    status.legacy_log_index = plan.record.legacy_log_index.map(|index| i64::try_from(index).unwrap_or(i64::MAX));
    status.lineage = plan.record.lineage.as_ref().map(lineage_status);
    status.restore = plan.record.restore.as_ref().map(restore_status);
    status.called_off_restore = plan.record.called_off.as_ref().map(|(uid, attempt)| CalledOffRestore {
        uid: uid.clone(),
        attempt: i32::try_from(*attempt).unwrap_or(i32::MAX),
    });
    let since = plan.record.unreachable_since.iter().take(MEMBERS_MAX);
    status.unreachable_since =
        since.map(|(member, since)| UnreachableMember { member: member.clone(), since: Time(*since) }).collect();
    cluster_conditions::set_all(&mut status.conditions, &facts, status.observed_generation, now);
    status
}

fn phase(facts: &Facts<'_>) -> ClusterPhase {
    let needs_a_person = facts.plan.refused.iter().any(|refused| match refused {
        Unsafe::AllDataLost | Unsafe::FormationLost { .. } | Unsafe::ForgottenCluster { .. } => true,
        Unsafe::Spec { .. } | Unsafe::ForeignObject { .. } => !facts.formed,
        Unsafe::QuorumLost { needed, data_lost, .. } => facts.votes.voters.saturating_sub(data_lost.len()) < *needed,
        Unsafe::CorruptSomewhere { .. }
        | Unsafe::WouldLoseQuorum { .. }
        | Unsafe::MembershipUnknown { .. }
        | Unsafe::Version { .. } => false,
    });
    if needs_a_person {
        ClusterPhase::Failed
    } else if facts.formed {
        ClusterPhase::Running
    } else if facts.plan.record.lineage.is_some() || facts.plan.record.restore.is_some() {
        ClusterPhase::Creating
    } else {
        ClusterPhase::None
    }
}

/// The words of what is refused and waited for: the same that events, logs and transcripts have.
fn reasons(plan: &Plan) -> String {
    let refused = plan.refused.iter().map(ToString::to_string);
    let waiting = plan.waiting.iter().map(ToString::to_string);
    bounded(&refused.chain(waiting).take(REASONS_MAX).collect::<Vec<_>>().join("; "))
}

pub(crate) fn bounded(text: &str) -> String {
    let mut end = text.len().min(MESSAGE_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The name of the leader, from the same answers as the members' health.
fn leader(facts: &Facts<'_>) -> String {
    let leading = facts.members.all.iter().find(|member| member.healthy && facts.members.leads(member));
    leading.map(|member| member.name.clone()).unwrap_or_default()
}

/// Set while members are being taken to another version, empty otherwise.
fn target_version(facts: &Facts<'_>, desired: &Desired) -> String {
    let refused = facts.plan.refused.iter().any(|refused| matches!(refused, Unsafe::Version { .. }));
    if facts.formed && !refused && facts.version_differs() && facts.image_differs() {
        desired.version.to_string()
    } else {
        String::new()
    }
}

fn lineage_status(lineage: &Lineage) -> LineageStatus {
    LineageStatus {
        attempt: i32::try_from(lineage.attempt).unwrap_or(i32::MAX),
        token: lineage.token.clone(),
        formed: lineage.formed,
        formed_time: lineage.formed_at.map(Time),
        cluster_id: lineage.cluster_id.map(|id| id.to_string()),
        seeds: lineage.seeds.clone(),
        restored_from: lineage.restored_from.clone(),
        tls: lineage.tls.as_ref().map(|tls| LineageTls {
            peer_secret: tls.peer_secret.clone(),
            server_secret: tls.client.as_ref().map(|client| client.server_secret.clone()),
            operator_secret: tls.client.as_ref().map(|client| client.operator_secret.clone()),
        }),
        cluster_domain: lineage.cluster_domain.clone(),
    }
}

fn restore_status(restore: &RestoreRecord) -> RestoreProgress {
    RestoreProgress {
        name: restore.name.clone(),
        uid: restore.uid.clone(),
        lineage: lineage_status(&restore.lineage),
        old_voters: restore.old_voters.map(|voters| i32::try_from(voters).unwrap_or(i32::MAX)),
        verified_time: restore.verified_at.map(Time),
        snapshot_changed: restore.snapshot_changed,
        phase: match restore.phase {
            RestorePhase::Starting => RestorePhaseStatus::Starting,
            RestorePhase::Confirmed => RestorePhaseStatus::Confirmed,
            RestorePhase::Switched => RestorePhaseStatus::Switched,
        },
    }
}

/// What in a status this operator would not have written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No identifier of a cluster.
    #[error("`clusterID` {text} in status must be a hexadecimal number")]
    ClusterId {
        /// What is there.
        text: String,
    },
    /// No attempt at a formation.
    #[error("`attempt` {attempt} in status must be 1 or more")]
    Attempt {
        /// What is there.
        attempt: i32,
    },
}

/// The record in a status: the inverse of what [`status`] writes.
///
/// # Errors
/// When somebody has edited it into something that this operator would not write. Nothing is done then: a record that
/// is not understood is not the same as none.
pub fn record_of(status: &EtcdClusterStatus) -> Result<Record, RecordError> {
    let restore = status.restore.as_ref().map(|restore| {
        Ok::<_, RecordError>(RestoreRecord {
            name: restore.name.clone(),
            uid: restore.uid.clone(),
            lineage: lineage_of(&restore.lineage)?,
            old_voters: restore.old_voters.and_then(|voters| usize::try_from(voters).ok()),
            verified_at: restore.verified_time.as_ref().map(|time| time.0),
            snapshot_changed: restore.snapshot_changed,
            phase: match restore.phase {
                RestorePhaseStatus::Starting => RestorePhase::Starting,
                RestorePhaseStatus::Confirmed => RestorePhase::Confirmed,
                RestorePhaseStatus::Switched => RestorePhase::Switched,
            },
        })
    });
    let since = status.unreachable_since.iter().map(|member| (member.member.clone(), member.since.0));
    Ok(Record {
        lineage: status.lineage.as_ref().map(lineage_of).transpose()?,
        restore: restore.transpose()?,
        called_off: status.called_off_restore.as_ref().map(called_off_of).transpose()?,
        unreachable_since: since.collect::<BTreeMap<_, _>>(),
        // The archived operator wrote one too; with what it did not write, no lineage, it decides nothing.
        version: status.current_version.parse().ok(),
        legacy_log_index: status.legacy_log_index.and_then(|index| u64::try_from(index).ok()),
    })
}

fn lineage_of(lineage: &LineageStatus) -> Result<Lineage, RecordError> {
    let cluster_id = lineage.cluster_id.as_ref().map(|text| {
        let id = u64::from_str_radix(text, 16);
        id.map(ClusterId).map_err(|_| RecordError::ClusterId { text: text.clone() })
    });
    Ok(Lineage {
        attempt: attempt_of(lineage.attempt)?,
        token: lineage.token.clone(),
        seeds: lineage.seeds.clone(),
        formed: lineage.formed,
        formed_at: lineage.formed_time.as_ref().map(|time| time.0),
        cluster_id: cluster_id.transpose()?,
        restored_from: lineage.restored_from.clone(),
        tls: lineage.tls.as_ref().map(tls_of),
        cluster_domain: lineage.cluster_domain.clone(),
    })
}

fn called_off_of(restore: &CalledOffRestore) -> Result<(String, u32), RecordError> {
    Ok((restore.uid.clone(), attempt_of(restore.attempt)?))
}

fn attempt_of(attempt: i32) -> Result<u32, RecordError> {
    u32::try_from(attempt).ok().filter(|attempt| *attempt > 0).ok_or(RecordError::Attempt { attempt })
}

fn tls_of(tls: &LineageTls) -> Tls {
    let client = tls.server_secret.clone().zip(tls.operator_secret.clone());
    Tls {
        peer_secret: tls.peer_secret.clone(),
        client: client.map(|(server_secret, operator_secret)| ClientTls { server_secret, operator_secret }),
    }
}

#[cfg(test)]
mod tests;
