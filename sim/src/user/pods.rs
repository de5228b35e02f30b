//! Pods that are remembered and compared, and who of them leads.

use std::collections::BTreeMap;

use fake_k8s::controllers::object;
use fake_k8s::server::ResourceName;

use super::{chosen, lineage, resource, unusable, wait};
use crate::checker::Violation;
use crate::ghost;
use crate::scenario::{Pods, Who, out_of_order, place};
use crate::world::{Shared, World};

/// How long a member may take to lead.
const LEAD_SECONDS: u64 = 60;

/// The pods of every cluster at each mark, by `namespace/name` of the cluster.
#[derive(Debug, Default)]
pub struct Marks(BTreeMap<String, BTreeMap<String, Pods>>);

impl Marks {
    /// Remembers the pods of this moment under a name.
    pub fn mark(&mut self, world: &World, name: &str) {
        let clusters = world.server.peek_all(&resource("EtcdCluster"), None);
        let pods = clusters.iter().map(|cluster| {
            let key = crate::converge::key(cluster);
            let pods = pods_of(world, &key);
            (key, pods)
        });
        self.0.insert(name.to_owned(), pods.collect());
    }

    /// The pods of a cluster at a mark.
    pub fn then(&self, cluster: &str, since: &str) -> Result<&Pods, Violation> {
        let (namespace, name) = place(cluster);
        let then = self.0.get(since).and_then(|mark| mark.get(&format!("{namespace}/{name}")));
        then.ok_or_else(|| unusable(format!("there is no mark {since} with {cluster}")))
    }
}

/// The pods of a cluster.
pub fn pods_of(world: &World, cluster: &str) -> Pods {
    let (namespace, name) = place(cluster);
    let mut pods = world.server.peek_all(&ResourceName::core("pods"), Some(namespace));
    pods.retain(|pod| ghost::cluster_of(pod) == Some(name));
    Pods::of(&pods)
}

/// What is missing until these events were told in this order.
pub fn untold(world: &World, about: &str, reasons: &[String]) -> Option<String> {
    let (namespace, name) = place(about);
    out_of_order(&world.server.peek_all(&resource("Event"), Some(namespace)), name, reasons)
}

/// The pod that was made last.
pub fn youngest(world: &World, pods: &[String]) -> Option<String> {
    let made = |key: &String| {
        let (namespace, name) = place(key);
        let pod = world.server.peek(&ResourceName::core("pods"), namespace, name);
        pod.map(|pod| object::text(&pod, "/metadata/creationTimestamp").to_owned()).unwrap_or_default()
    };
    pods.iter().min_by_key(|pod| (std::cmp::Reverse(made(pod)), (*pod).clone())).cloned()
}

/// Leadership is moved to a member, as often as it takes.
pub async fn lead(shared: &Shared, cluster: &str, who: Who) -> Result<(), Violation> {
    let wanted = chosen(&shared.enter(), cluster, who)?.first().cloned();
    let Some(wanted) = wanted else { return Err(unusable(format!("{cluster} has no {who:?}"))) };
    wait(shared, LEAD_SECONDS, |world| {
        let leader = lineage(world, cluster).and_then(|lineage| world.etcds.leader(lineage));
        let Some((leader, pod)) = leader.map(|leader| (leader.id, leader.pod.clone())) else {
            return Some(format!("{cluster} has no leader"));
        };
        if pod == wanted {
            return None;
        }
        let member = world.etcds.of_pod(&wanted).map(|process| process.member);
        let Some(member) = member else { return Some(format!("{wanted} does not run")) };
        let moved = world.etcds.move_leader(leader, member, world.now, &world.network);
        Some(format!("{pod} leads; moving it: {moved:?}"))
    })
    .await
}
