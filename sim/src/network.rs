//! Who reaches whom. Partitions live here and not in the executor, whose own network answers a cut with a refusal.

use std::collections::BTreeMap;
use std::fmt;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The operator's process.
    Operator,
    /// The Kubernetes API server.
    Api,
    /// The object store.
    Store,
    /// A client of etcd.
    Client,
    /// A pod (`namespace/name`).
    Pod(String),
}

/// A cut between two groups of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The operator reaches no pod.
    OperatorFromEtcd,
    /// The operator does not reach the API server.
    OperatorFromApi,
    /// The operator does not reach the object store.
    OperatorFromStore,
    /// This pod reaches no other pod; the operator and clients still reach it.
    PodFromPods(String),
    /// Nobody reaches this pod.
    PodFromAll(String),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OperatorFromEtcd => write!(f, "operator | etcd"),
            Self::OperatorFromApi => write!(f, "operator | api"),
            Self::OperatorFromStore => write!(f, "operator | store"),
            Self::PodFromPods(pod) => write!(f, "{pod} | other pods"),
            Self::PodFromAll(pod) => write!(f, "{pod} | everybody"),
        }
    }
}

impl Cut {
    fn between(&self, a: &Place, b: &Place) -> bool {
        match self {
            Self::OperatorFromEtcd => matches!((a, b), (Place::Operator, Place::Pod(_))),
            Self::OperatorFromApi => matches!((a, b), (Place::Operator, Place::Api)),
            Self::OperatorFromStore => matches!((a, b), (Place::Operator, Place::Store)),
            Self::PodFromPods(pod) => {
                matches!((a, b), (Place::Pod(x), Place::Pod(y)) if x != y && (x == pod || y == pod))
            }
            Self::PodFromAll(pod) => {
                a != b && (matches!(a, Place::Pod(x) if x == pod) || matches!(b, Place::Pod(y) if y == pod))
            }
        }
    }
}

/// The cuts in force, by the id of the fault that made them.
#[derive(Debug, Default)]
pub struct Network {
    cuts: BTreeMap<u64, Cut>,
}

impl Network {
    /// Cuts.
    pub fn cut(&mut self, id: u64, cut: Cut) {
        self.cuts.insert(id, cut);
    }

    /// Heals one cut.
    pub fn heal(&mut self, id: u64) {
        self.cuts.remove(&id);
    }

    /// Heals all.
    pub fn heal_all(&mut self) {
        self.cuts.clear();
    }

    /// Whether anything is cut.
    pub fn is_whole(&self) -> bool {
        self.cuts.is_empty()
    }

    /// Whether packets pass between the two, in both directions.
    pub fn linked(&self, a: &Place, b: &Place) -> bool {
        !self.cuts.values().any(|cut| cut.between(a, b) || cut.between(b, a))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_cut_from_its_peers_still_answers_the_operator() {
        let mut network = Network::default();
        network.cut(1, Cut::PodFromPods("ns/a".into()));
        let pod = |name: &str| Place::Pod(format!("ns/{name}"));
        assert!(!network.linked(&pod("a"), &pod("b")) && !network.linked(&pod("b"), &pod("a")));
        assert!(network.linked(&pod("b"), &pod("c")) && network.linked(&Place::Operator, &pod("a")));
        network.heal(1);
        assert!(network.linked(&pod("a"), &pod("b")));
    }
}
