//! Names of the objects of an EtcdCluster, and the URLs that carry them.
//!
//! Member, pod and volume share one name, `<cluster>-<10 lower-case alphanumerics>`. The members of a formation get
//! names that follow from (uid, attempt, index), so that a pass with a stale view names the same members again; later
//! members get theirs from entropy.

use sha2::{Digest, Sha256};

/// Port for clients.
pub const CLIENT_PORT: i32 = 2379;
/// Port for peers.
pub const PEER_PORT: i32 = 2380;
/// Characters after the last dash of a member name.
pub const SUFFIX_LENGTH: usize = 10;
/// Longest name of an EtcdCluster: member names must fit in a DNS label of 63 characters.
pub const CLUSTER_NAME_LENGTH_MAX: usize = 63 - 1 - SUFFIX_LENGTH;

/// Kubernetes' own alphabet for random names: no vowels, so no words, and nothing that looks like something else.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The headless Service of the members.
pub fn peer_service_name(cluster: &str) -> String {
    cluster.to_owned()
}

/// The Service for clients.
pub fn client_service_name(cluster: &str) -> String {
    format!("{cluster}-client")
}

/// The volume of a member.
pub fn volume_name(member: &str) -> String {
    member.to_owned()
}

/// The initial-cluster-token of an attempt at a formation; also the name of the lineage. `uid` is of the EtcdCluster,
/// or of the EtcdRestore when the formation begins with a snapshot. A label value, as every uid of Kubernetes is.
pub fn formation_token(uid: &str, attempt: i32) -> String {
    format!("{uid}-{attempt}")
}

/// A member of a formation; `uid` and `attempt` as in [`formation_token`], `index` from 0.
pub fn formation_member_name(cluster: &str, uid: &str, attempt: i32, index: usize) -> String {
    member_name(cluster, &format!("formation/{uid}/{attempt}/{index}"))
}

/// A member that joins a formed cluster. The caller makes sure that the name is new before it uses it.
pub fn fresh_member_name(cluster: &str, entropy: u64) -> String {
    member_name(cluster, &format!("fresh/{cluster}/{entropy}"))
}

fn member_name(cluster: &str, origin: &str) -> String {
    let digest = Sha256::digest(origin.as_bytes());
    let mut number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let mut name = format!("{cluster}-");
    for _ in 0..SUFFIX_LENGTH {
        let digit = usize::try_from(number % 27).expect("below 27");
        name.push(char::from(ALPHABET[digit]));
        number /= 27;
    }
    name
}

/// Where a member is found in DNS.
#[derive(Clone, Copy, Debug)]
pub struct MemberAddress<'a> {
    /// Name of the member.
    pub member: &'a str,
    /// Name of the EtcdCluster, which is the name of the headless Service.
    pub cluster: &'a str,
    /// Namespace of both.
    pub namespace: &'a str,
    /// What `pod.ClusterDomain` says; may be empty.
    pub cluster_domain: &'a str,
}

impl MemberAddress<'_> {
    /// `<member>.<cluster>.<namespace>.svc<domain>`; the dot before the domain may be missing in the spec.
    pub fn host(&self) -> String {
        let dot = if self.cluster_domain.is_empty() || self.cluster_domain.starts_with('.') { "" } else { "." };
        format!("{}.{}.{}.svc{dot}{}", self.member, self.cluster, self.namespace, self.cluster_domain)
    }

    /// Peer URL.
    pub fn peer_url(&self, tls: bool) -> String {
        format!("{}://{}:{PEER_PORT}", scheme(tls), self.host())
    }

    /// Client URL.
    pub fn client_url(&self, tls: bool) -> String {
        format!("{}://{}:{CLIENT_PORT}", scheme(tls), self.host())
    }
}

fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

/// The member whose peer URL this is: the first label of its host. None for anything that is no such URL, an address
/// in digits included.
pub fn member_name_from_peer_url(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let host = match rest.split_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) => return None,
        None => rest,
    };
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let (name, _) = host.split_once('.')?;
    let number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    (!name.is_empty() && !number && host.bytes().all(legal)).then_some(name)
}

/// The EtcdClusters that a client endpoint may be of, as (namespace, name): its host is the client Service, the headless
/// one, or a member's own name, with or without the namespace behind it (without, it is `namespace`). An address in digits
/// names none.
pub fn clusters_of_endpoint(endpoint: &str, namespace: &str) -> Vec<(String, String)> {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let host = rest.split(['/', ':']).next().unwrap_or_default();
    let legal =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let labels: Vec<&str> = host.split('.').collect();
    let is_address = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_address || !labels.iter().all(|label| legal(label)) {
        return Vec::new();
    }
    let of = |at: usize, cluster: &str| (labels.get(at).copied().unwrap_or(namespace).to_owned(), cluster.to_owned());
    let mut found = vec![of(1, labels[0])];
    found.extend(labels[0].strip_suffix("-client").map(|cluster| of(1, cluster)));
    if let [member, cluster, ..] = labels[..]
        && member.strip_prefix(cluster).is_some_and(|suffix| suffix.starts_with('-'))
    {
        found.push(of(2, cluster));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const UID: &str = "5d3c1b5e-8a55-4b1f-9f40-0d6f4a4c7b1e";

    #[test]
    fn names_of_a_formation_are_the_same_every_time_and_never_meet_another_attempt() {
        assert_eq!(formation_member_name("etcd-cluster", UID, 1, 0), formation_member_name("etcd-cluster", UID, 1, 0));
        let mut seen = BTreeSet::new();
        for attempt in 1..=100 {
            for index in 0..9 {
                assert!(seen.insert(formation_member_name("etcd-cluster", UID, attempt, index)));
            }
        }
        assert_ne!(formation_member_name("c", UID, 1, 0), formation_member_name("c", "another", 1, 0));
        assert_ne!(formation_member_name("c", UID, 1, 11), formation_member_name("c", UID, 11, 1));
    }

    #[test]
    fn names_of_a_formation_do_not_change_between_releases() {
        assert_eq!(formation_member_name("etcd-cluster", UID, 1, 0), "etcd-cluster-c8qd2kxjg4");
        assert_eq!(formation_token(UID, 2), "5d3c1b5e-8a55-4b1f-9f40-0d6f4a4c7b1e-2");
    }

    #[test]
    fn a_token_is_a_label_value() {
        let token = formation_token(UID, i32::MAX);
        assert!(token.len() <= 63);
        assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    }

    #[test]
    fn the_longest_cluster_name_gives_names_of_63_characters() {
        let cluster = "c".repeat(CLUSTER_NAME_LENGTH_MAX);
        assert_eq!(fresh_member_name(&cluster, 7).len(), 63);
        assert!(client_service_name(&cluster).len() <= 63);
    }

    #[test]
    fn urls_are_those_of_the_contract() {
        let address = MemberAddress { member: "c-x", cluster: "c", namespace: "ns", cluster_domain: "" };
        assert_eq!(address.peer_url(false), "http://c-x.c.ns.svc:2380");
        assert_eq!(address.client_url(true), "https://c-x.c.ns.svc:2379");
        let address = MemberAddress { cluster_domain: ".cluster.local", ..address };
        assert_eq!(address.peer_url(true), "https://c-x.c.ns.svc.cluster.local:2380");
        let address = MemberAddress { cluster_domain: "cluster.local", ..address };
        assert_eq!(address.host(), "c-x.c.ns.svc.cluster.local");
    }

    #[test]
    fn only_a_peer_url_gives_a_member_name() {
        assert_eq!(member_name_from_peer_url("http://c-x.c.ns.svc"), Some("c-x"));
        for url in [
            "",
            "c-x.c.ns.svc:2380",
            "ftp://c-x.c.ns.svc:2380",
            "http://",
            "http://:2380",
            "http://.c.ns.svc:2380",
            "http://10.0.0.1:2380",
            "http://c-x:2380",
            "http://c-x.c.ns.svc:",
            "http://c-x.c.ns.svc:23a",
            "http://c-x.c.ns.svc:2380/path",
            "http://c_x.c.ns.svc:2380",
            "http://[::1]:2380",
        ] {
            assert_eq!(member_name_from_peer_url(url), None, "{url}");
        }
    }

    #[test]
    fn an_endpoint_names_its_cluster_by_service_or_member() {
        let of = |endpoint: &str, cluster: (&str, &str)| {
            clusters_of_endpoint(endpoint, "own").contains(&(cluster.0.to_owned(), cluster.1.to_owned()))
        };
        for (endpoint, cluster) in [
            ("http://c-client:2379", ("own", "c")),
            ("c-client:2379", ("own", "c")),
            ("https://c-client.ns:2379", ("ns", "c")),
            ("https://c-client.ns.svc.cluster.local:2379/", ("ns", "c")),
            ("http://c.ns.svc:2379", ("ns", "c")),
            ("http://c-bcdf.c.ns.svc:2379", ("ns", "c")),
            ("http://c-bcdf.c:2379", ("own", "c")),
            ("http://a-client-client:2379", ("own", "a-client")),
        ] {
            assert!(of(endpoint, cluster), "{endpoint}");
        }
        assert!(!of("http://c-client.ns:2379", ("own", "c")));
        for endpoint in ["", "http://", "http://10.0.0.1:2379", "http://[::1]:2379", "http://.c:2379", "http://a b:1"] {
            assert_eq!(clusters_of_endpoint(endpoint, "own"), [], "{endpoint}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_a_label_and_comes_back_from_its_peer_url(
            cluster in "[a-z][a-z0-9-]{0,50}[a-z0-9]", entropy: u64, tls: bool,
        ) {
            let member = fresh_member_name(&cluster, entropy);
            prop_assert!(member.len() == cluster.len() + 1 + SUFFIX_LENGTH && member.len() <= 63);
            let address = MemberAddress { member: &member, cluster: &cluster, namespace: "ns", cluster_domain: "" };
            let url = address.peer_url(tls);
            prop_assert_eq!(member_name_from_peer_url(&url), Some(member.as_str()));
        }
    }
}
