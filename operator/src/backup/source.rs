//! From which member the snapshot is taken: all endpoints are asked, the healthy one with the highest revision wins, and
//! a follower when several are equal, for a snapshot costs the leader more. Endpoints that fail are reported; one that
//! works is enough.

use futures::future::join_all;

use crate::api::FailedEndpoint;
use crate::model::MemberStatus;
use crate::ports::clock::deadline;
use crate::ports::etcd::CALL_DEADLINE;
use crate::ports::{EtcdAccess, EtcdTls, Ports};

/// An endpoint that can give a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The endpoint, as the spec has it.
    pub endpoint: String,
    /// How to reach exactly it.
    pub access: EtcdAccess,
    /// What it said of itself.
    pub status: MemberStatus,
}

/// Why no endpoint is used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// None answers as a member that could give a snapshot.
    #[error("none of the {count} `etcdEndpoints` can be used: {first}")]
    NoneUsable {
        /// How many there are.
        count: usize,
        /// What is wrong with the first of them.
        first: String,
    },
    /// They answer for different clusters: which one was meant?
    #[error("`etcdEndpoints` must all belong to one etcd cluster; they answer for clusters {clusters}")]
    SeveralClusters {
        /// Their ids.
        clusters: String,
    },
}

/// Scheme and host of an endpoint as the spec may write it: a bare `host:port` gets the scheme that fits the TLS Secret.
fn url(endpoint: &str, tls: bool) -> String {
    match endpoint.contains("://") {
        true => endpoint.to_owned(),
        false if tls => format!("https://{endpoint}"),
        false => format!("http://{endpoint}"),
    }
}

/// Asks every endpoint, at the same time and each for [`CALL_DEADLINE`] at most. Best source first, with what is wrong
/// with the others.
pub async fn ask(
    ports: &Ports,
    endpoints: &[String],
    tls: Option<&EtcdTls>,
) -> (Result<Vec<Source>, SourceError>, Vec<FailedEndpoint>) {
    let ask_one = async |endpoint: &String| {
        let access = EtcdAccess { endpoints: vec![url(endpoint, tls.is_some())], tls: tls.cloned() };
        let status = match deadline(ports.clock.as_ref(), CALL_DEADLINE, ports.etcd.status(&access)).await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => return Err((endpoint.clone(), error.to_string())),
            Err(late) => return Err((endpoint.clone(), late.to_string())),
        };
        match why_unusable(&status) {
            Some(why) => Err((endpoint.clone(), why.to_owned())),
            None => Ok(Source { endpoint: endpoint.clone(), access, status }),
        }
    };
    let mut sources = Vec::new();
    let mut failed = Vec::new();
    for answer in join_all(endpoints.iter().map(ask_one)).await {
        match answer {
            Ok(source) => sources.push(source),
            Err((endpoint, message)) => failed.push(FailedEndpoint { endpoint, message }),
        }
    }
    (choose(sources, &failed), failed)
}

/// Members that cannot, or must not, give a snapshot.
fn why_unusable(status: &MemberStatus) -> Option<&'static str> {
    if status.learner {
        return Some("it is a learner, which may lag behind");
    }
    if status.errors.iter().any(|error| error.contains("CORRUPT")) {
        return Some("etcd raised CORRUPT on it");
    }
    None
}

/// Why a member that an endpoint led to, where another one was chosen, cannot give the snapshot in its place.
pub fn why_not_instead(chosen: &MemberStatus, found: &MemberStatus) -> Option<String> {
    if found.cluster_id != chosen.cluster_id {
        return Some(format!("it is of cluster {}, where {} was asked before", found.cluster_id, chosen.cluster_id));
    }
    if found.revision < chosen.revision {
        return Some(format!("it has revision {}, where {} was found before", found.revision, chosen.revision));
    }
    why_unusable(found).map(str::to_owned)
}

fn choose(mut sources: Vec<Source>, failed: &[FailedEndpoint]) -> Result<Vec<Source>, SourceError> {
    let Some(first) = sources.first() else {
        let first = failed.first().map(|failed| format!("{}: {}", failed.endpoint, failed.message));
        return Err(SourceError::NoneUsable { count: failed.len(), first: first.unwrap_or_default() });
    };
    if sources.iter().any(|source| source.status.cluster_id != first.status.cluster_id) {
        let mut clusters: Vec<_> = sources.iter().map(|source| source.status.cluster_id.to_string()).collect();
        clusters.sort();
        clusters.dedup();
        return Err(SourceError::SeveralClusters { clusters: clusters.join(", ") });
    }
    // A member without a leader still has its data, and is better than nothing; sort_by_key keeps the spec's order.
    sources.sort_by_key(|source| {
        let status = &source.status;
        let leads = status.leader == Some(status.member_id);
        (status.leader.is_none(), std::cmp::Reverse(status.revision), leads)
    });
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterId, MemberId, RaftTerm, Revision};

    fn source(member: u64, leader: Option<u64>, revision: i64) -> Source {
        let status = MemberStatus {
            cluster_id: ClusterId(1),
            member_id: MemberId(member),
            version: "3.5.26".to_owned(),
            storage_version: None,
            leader: leader.map(MemberId),
            term: RaftTerm(2),
            raft_index: 10,
            raft_applied_index: 10,
            revision: Revision(revision),
            db_size: 4096,
            learner: false,
            errors: Vec::new(),
        };
        Source { endpoint: member.to_string(), access: EtcdAccess { endpoints: Vec::new(), tls: None }, status }
    }

    fn order(sources: Vec<Source>) -> Vec<u64> {
        choose(sources, &[]).unwrap().iter().map(|source| source.status.member_id.0).collect()
    }

    #[test]
    fn the_highest_revision_wins_and_a_follower_among_equals() {
        assert_eq!(order(vec![source(1, Some(1), 7), source(2, Some(1), 7), source(3, Some(1), 6)]), [2, 1, 3]);
        assert_eq!(order(vec![source(1, Some(1), 8), source(2, Some(1), 7)]), [1, 2]);
        assert_eq!(order(vec![source(1, None, 9), source(2, Some(2), 7)]), [2, 1]);
    }

    #[test]
    fn a_member_that_is_reached_in_place_of_the_chosen_one_must_be_as_good() {
        let why = |chosen, found: &Source| why_not_instead(&source(1, Some(1), chosen).status, &found.status);
        assert_eq!(why(7, &source(2, Some(1), 7)), None);
        assert_eq!(why(7, &source(2, Some(1), 8)), None);
        let behind = "it has revision 6, where 7 was found before";
        assert_eq!(why(7, &source(2, Some(1), 6)).as_deref(), Some(behind));
        let mut learner = source(2, Some(1), 7);
        learner.status.learner = true;
        assert!(why(7, &learner).is_some());
        let mut stranger = source(2, Some(2), 9);
        stranger.status.cluster_id = ClusterId(0xff);
        assert_eq!(why(7, &stranger).as_deref(), Some("it is of cluster ff, where 1 was asked before"));
    }

    #[test]
    fn endpoints_of_two_clusters_are_refused() {
        let mut stranger = source(2, Some(2), 9);
        stranger.status.cluster_id = ClusterId(0xff);
        let error = choose(vec![source(1, Some(1), 7), stranger], &[]).unwrap_err();
        assert_eq!(error, SourceError::SeveralClusters { clusters: "1, ff".to_owned() });
    }

    #[test]
    fn bare_endpoints_get_the_scheme_that_fits() {
        assert_eq!(url("a:2379", false), "http://a:2379");
        assert_eq!(url("a:2379", true), "https://a:2379");
        assert_eq!(url("http://a:2379", true), "http://a:2379");
    }
}
