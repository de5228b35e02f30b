//! What etcd says of itself: every member that has an address is asked, and a quorum confirms what decides.

use std::collections::BTreeMap;

use crate::build::client_url_with;
use crate::model::{Alarm, Desired, EtcdObserved, MemberStatus, Observation, PodObserved};
use crate::ports::{EtcdAccess, EtcdTls, Ports};

/// Asks the members of one lineage, all at once.
pub async fn observe_etcd(
    ports: &Ports,
    desired: &Desired,
    tls: Option<&EtcdTls>,
    pods: &BTreeMap<String, PodObserved>,
    token: &str,
) -> EtcdObserved {
    let access = |endpoints: Vec<String>| EtcdAccess { endpoints, tls: tls.cloned() };
    let asked = pods.values().filter(|pod| pod.ours && pod.lineage.as_deref() == Some(token) && pod.ip.is_some());
    let answers = asked.map(|pod| {
        let access = access(vec![client_url_with(desired, &pod.name, pod.tls.client.is_some())]);
        async move { (pod.name.clone(), ports.etcd.status(&access).await) }
    });
    let answers = futures::future::join_all(answers).await;
    let at = ports.clock.now();
    let statuses: BTreeMap<_, _> = answers
        .into_iter()
        .map(|(name, answer)| match answer {
            Ok(value) => (name, Observation::Known { value, at }),
            Err(error) => (name, Observation::Unknown { why: error.to_string() }),
        })
        .collect();
    if statuses.is_empty() {
        return EtcdObserved::nobody_to_ask("no member has an address");
    }

    let endpoints = endpoints_in_order(desired, pods, &statuses);
    let mut observed = EtcdObserved { statuses, ..EtcdObserved::nobody_to_ask("no member answers") };
    if endpoints.is_empty() {
        return observed;
    }
    observed.membership_local = observation(ports, ports.etcd.members(&access(endpoints.clone()), false).await);
    if !has_leader(&observed.statuses) {
        let why = "no member follows a leader";
        observed.quorum_read = Observation::Unknown { why: why.to_owned() };
        observed.membership = Observation::Unknown { why: why.to_owned() };
        return observed;
    }
    observed.quorum_read = observation(ports, ports.etcd.quorum_read(&access(endpoints.clone())).await);
    if let Some(why) = observed.quorum_read.why_unknown() {
        observed.membership = Observation::Unknown { why: why.to_owned() };
        return observed;
    }
    observed.membership = observation(ports, ports.etcd.members(&access(endpoints.clone()), true).await);
    observed.alarms = observation(ports, ports.etcd.alarms(&access(endpoints)).await);
    if let (Some(revision), true) = (observed.quorum_read.known(), has_corrupt(&observed)) {
        let answering = observed.statuses.iter().filter(|(_, status)| status.known().is_some());
        let named = answering.filter_map(|(name, _)| pods.get(name));
        let hashes = named.map(|pod| {
            let access = access(vec![client_url_with(desired, &pod.name, pod.tls.client.is_some())]);
            async move { (pod.name.clone(), ports.etcd.hash_kv(&access, *revision).await.map(|(hash, _)| hash)) }
        });
        let hashes = futures::future::join_all(hashes).await.into_iter();
        observed.hashes = hashes.map(|(name, hash)| (name, observation(ports, hash))).collect();
    }
    observed
}

/// While it is raised, writes and compactions are refused, so that the members' hashes of one revision can be compared.
fn has_corrupt(observed: &EtcdObserved) -> bool {
    observed.raised().iter().any(|(_, alarm)| *alarm == Alarm::Corrupt)
}

/// Client URLs of those that answered: the leader, then other voters, then learners.
fn endpoints_in_order(
    desired: &Desired,
    pods: &BTreeMap<String, PodObserved>,
    statuses: &BTreeMap<String, Observation<MemberStatus>>,
) -> Vec<String> {
    let mut answering: Vec<_> =
        statuses.iter().filter_map(|(name, status)| status.known().map(|status| (name, status))).collect();
    answering.sort_by_key(|(name, status)| {
        (status.leader != Some(status.member_id), status.learner, status.leader.is_none(), (*name).clone())
    });
    let speaks_tls = |name: &str| pods.get(name).is_some_and(|pod| pod.tls.client.is_some());
    answering.into_iter().map(|(name, _)| client_url_with(desired, name, speaks_tls(name))).collect()
}

fn has_leader(statuses: &BTreeMap<String, Observation<MemberStatus>>) -> bool {
    statuses.values().filter_map(Observation::known).any(|status| status.leader.is_some())
}

fn observation<T, E: std::fmt::Display>(ports: &Ports, answer: Result<T, E>) -> Observation<T> {
    match answer {
        Ok(value) => Observation::Known { value, at: ports.clock.now() },
        Err(error) => Observation::Unknown { why: error.to_string() },
    }
}
