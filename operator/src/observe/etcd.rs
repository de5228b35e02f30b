//! What etcd says of itself: every member that has an address is asked, and a quorum confirms what decides.

use std::collections::BTreeMap;

use crate::build::client_url_with;
use crate::model::{Alarm, ClusterId, Desired, EtcdObserved, MemberStatus, Observation, PodObserved};
use crate::ports::{EtcdAccess, EtcdTls, Ports};

/// Asks the members of one lineage, all at once. Who answers under another cluster id than the recorded one (somebody put
/// other data into its volume) is heard, and asked for nobody else: it may call itself a leader.
pub async fn observe_etcd(
    ports: &Ports,
    desired: &Desired,
    tls: Option<&EtcdTls>,
    pods: &BTreeMap<String, PodObserved>,
    (token, cluster_id): (&str, Option<ClusterId>),
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

    let asked = whom_to_ask(&statuses, cluster_id);
    let endpoints = endpoints_in_order(desired, pods, &asked);
    let has_leader = asked.values().any(|status| status.leader.is_some());
    let mut observed = EtcdObserved { statuses, ..EtcdObserved::nobody_to_ask("no member answers") };
    if endpoints.is_empty() {
        return observed;
    }
    observed.membership_local = observation(ports, ports.etcd.members(&access(endpoints.clone()), false).await);
    if !has_leader {
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

/// Who answered as one of the recorded cluster; where all answer as others, what they say is told.
fn whom_to_ask(
    statuses: &BTreeMap<String, Observation<MemberStatus>>,
    cluster_id: Option<ClusterId>,
) -> BTreeMap<&str, &MemberStatus> {
    let answering = statuses.iter().filter_map(|(name, status)| Some((name.as_str(), status.known()?)));
    let mut asked: BTreeMap<_, _> = answering.collect();
    let is_known = |status: &MemberStatus| cluster_id.is_none_or(|known| known == status.cluster_id);
    if asked.values().any(|status| is_known(status)) {
        asked.retain(|_, status| is_known(status));
    }
    asked
}

/// While it is raised, writes and compactions are refused, so that the members' hashes of one revision can be compared.
fn has_corrupt(observed: &EtcdObserved) -> bool {
    observed.raised().iter().any(|(_, alarm)| *alarm == Alarm::Corrupt)
}

/// Client URLs of those that answered: the leader, then other voters, then learners.
fn endpoints_in_order(
    desired: &Desired,
    pods: &BTreeMap<String, PodObserved>,
    answering: &BTreeMap<&str, &MemberStatus>,
) -> Vec<String> {
    let mut answering: Vec<_> = answering.iter().collect();
    answering.sort_by_key(|(name, status)| {
        (status.leader != Some(status.member_id), status.learner, status.leader.is_none(), **name)
    });
    let speaks_tls = |name: &str| pods.get(name).is_some_and(|pod| pod.tls.client.is_some());
    answering.into_iter().map(|(name, _)| client_url_with(desired, name, speaks_tls(name))).collect()
}

fn observation<T, E: std::fmt::Display>(ports: &Ports, answer: Result<T, E>) -> Observation<T> {
    match answer {
        Ok(value) => Observation::Known { value, at: ports.clock.now() },
        Err(error) => Observation::Unknown { why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::tests::world::status;
    use jiff::Timestamp;

    /// It sorts first and calls itself a leader: its list would be the list, and its quorum the quorum.
    #[test]
    fn a_member_of_another_cluster_is_not_asked_for_ours() {
        let known = |value| Observation::Known { value, at: Timestamp::UNIX_EPOCH };
        let foreign =
            MemberStatus { cluster_id: ClusterId(0xbad), leader: Some(crate::model::MemberId(7)), ..status(7, 9) };
        let silent = Observation::Unknown { why: "no answer".to_owned() };
        let statuses: BTreeMap<_, _> = [("a", known(foreign)), ("b", known(status(1, 5))), ("c", silent)]
            .map(|(name, of)| (name.to_owned(), of))
            .into();
        let asked = |id: Option<u64>| whom_to_ask(&statuses, id.map(ClusterId)).into_keys().collect::<Vec<_>>();
        assert_eq!(asked(Some(0xc1)), ["b"]);
        assert_eq!(asked(None), ["a", "b"], "nobody knows yet which it is");
        assert_eq!(asked(Some(0x1)), ["a", "b"], "the plan says that others answer");
    }
}
