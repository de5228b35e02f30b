//! What stops everything: objects that are not ours, a cluster that status has forgotten, Secrets that are not there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::pass::Pass;
use super::{Unsafe, Waiting, formation};
use crate::model::{Desired, Lineage, NOT_AUTHORISED, SecretTrouble};

/// Objects of others under names that we need, and evidence of a cluster that the record does not know.
pub(super) fn conflicts(pass: &mut Pass<'_>) -> ControlFlow<()> {
    let services = [&pass.observed.peer_service, &pass.observed.client_service];
    let foreign: Vec<_> = services.into_iter().flatten().filter(|service| !service.ours).collect();
    for service in &foreign {
        pass.refuse(Unsafe::ForeignObject { kind: "Service", name: service.name.clone() });
    }
    if !foreign.is_empty() {
        return ControlFlow::Break(());
    }
    forgotten(pass)
}

/// A cluster is born once. Status is written before the first object, so with an empty record any pod or volume that
/// carries the cluster's label, ours or orphaned, belongs to a cluster that existed before this record. An
/// EtcdRestore is the word of a person that the snapshot shall be the cluster.
fn forgotten(pass: &mut Pass<'_>) -> ControlFlow<()> {
    let is_known = pass.record.lineage.is_some() || pass.record.restore.is_some();
    if is_known || pass.desired.restore.is_some() || pass.desired.deleting {
        return ControlFlow::Continue(());
    }
    let volume = pass.observed.volumes.keys().next().map(|name| format!("PersistentVolumeClaim `{name}`"));
    let pod = || pass.observed.pods.keys().next().map(|name| format!("Pod `{name}`"));
    match volume.or_else(pod) {
        Some(evidence) => {
            pass.refuse(Unsafe::ForgottenCluster { evidence });
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    }
}

/// Whether TLS is there or not, and the domain, hold for the life of a formed cluster, which its record remembers. A
/// formation that has not begun to serve, and a restore, begin with what the spec wants.
pub(super) fn kept_for_life(pass: &mut Pass<'_>) {
    remember_tls(pass);
    remember_domain(pass);
    let spec = pass.spec;
    let Cow::Owned(narrowed) = spec.for_formed(pass.record.lineage.as_ref()) else { return };
    let runs = &narrowed.cluster_domain;
    if *runs != spec.cluster_domain {
        let message = format!(
            "`spec.pod.ClusterDomain` is `{}`, and the members of a formed cluster know one another by names under `{runs}`: \
             they run on as they are; take the change back, or restore the cluster from a backup: restored members run as \
             the spec says",
            spec.cluster_domain
        );
        pass.refuse(Unsafe::Spec { message });
    }
    refuse_kind_of_tls(pass, &narrowed);
    pass.desired = Cow::Owned(narrowed);
}

fn refuse_kind_of_tls(pass: &mut Pass<'_>, narrowed: &Desired) {
    let wanted = &pass.spec.tls;
    let runs = &narrowed.tls;
    if runs.is_same_kind(wanted) {
        return;
    }
    let turned = |what: &str, runs: bool, wanted: bool| {
        let how = if wanted { "on" } else { "off" };
        (runs != wanted).then(|| format!("TLS {what} {how}"))
    };
    let clients = turned("to clients", runs.client.is_some(), wanted.client.is_some());
    let peers = turned("between peers", runs.peer_secret.is_some(), wanted.peer_secret.is_some());
    let what = clients.into_iter().chain(peers).collect::<Vec<_>>().join(" and ");
    let message = format!(
        "`spec.TLS` turns {what}, which members of a formed cluster cannot follow: they run on as they are; take the change \
         back, or restore the cluster from a backup: restored members run as the spec says"
    );
    pass.refuse(Unsafe::Spec { message });
}

/// What the members answer under is theirs, from then on.
fn remember_domain(pass: &mut Pass<'_>) {
    let answered = pass.observed.etcd.membership.known().is_some();
    if let Some(lineage) = &mut pass.record.lineage
        && lineage.formed
        && lineage.cluster_domain.is_none()
        && answered
    {
        lineage.cluster_domain = Some(pass.spec.cluster_domain.clone());
    }
}

/// Follows Secrets that are renewed under another name, once every member runs with them. The kind never changes. (A record
/// that was made before TLS was part of it learns that, too.)
fn remember_tls(pass: &mut Pass<'_>) {
    let Some(lineage) = pass.record.lineage.clone().filter(|lineage| lineage.formed) else { return };
    let Some(runs) = formation::tls_of(pass, &lineage) else { return };
    if lineage.tls.as_ref().is_none_or(|known| known.is_same_kind(&runs)) {
        pass.record.lineage = Some(Lineage { tls: Some(runs), ..lineage });
    }
}

/// Secrets that members of the serving lineage mount and that cannot be used yet.
pub(super) fn secrets(pass: &mut Pass<'_>) -> ControlFlow<()> {
    wait_for(pass, &pass.observed.secrets_missing)
}

/// Secrets that the spec names and that cannot be used yet: restored members mount those, whatever the old ones do.
pub(super) fn secrets_of_spec(pass: &mut Pass<'_>) -> ControlFlow<()> {
    wait_for(pass, &pass.observed.spec_secrets_missing)
}

fn wait_for(pass: &mut Pass<'_>, missing: &BTreeMap<String, SecretTrouble>) -> ControlFlow<()> {
    for (name, why) in missing {
        pass.wait(Waiting::Secret { name: name.clone(), why: why.to_string() });
    }
    if missing.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Members that are there and refuse us: nothing else that is said would lead a user to the certificates.
pub(super) fn refusals(pass: &mut Pass<'_>) {
    for (member, status) in &pass.observed.etcd.statuses {
        if let Some(why) = status.why_unknown().filter(|why| why.starts_with(NOT_AUTHORISED)) {
            pass.wait(Waiting::MemberHealth { member: member.clone(), why: why.to_owned() });
        }
    }
}

/// Whether the objects of a member's name are ours and of the lineage; refuses them otherwise.
pub(super) fn is_free_or_ours(pass: &mut Pass<'_>, name: &str, token: &str) -> bool {
    let ours = |ours: bool, lineage: &Option<String>| ours && lineage.as_deref() == Some(token);
    let foreign_pod = pass.pod(name).is_some_and(|pod| !ours(pod.ours, &pod.lineage));
    let foreign_volume = pass.volume(name).is_some_and(|volume| !ours(volume.ours, &volume.lineage));
    if foreign_pod {
        pass.refuse(Unsafe::ForeignObject { kind: "Pod", name: name.to_owned() });
    }
    if foreign_volume {
        pass.refuse(Unsafe::ForeignObject { kind: "PersistentVolumeClaim", name: name.to_owned() });
    }
    !foreign_pod && !foreign_volume
}
