//! Clients of the etcd clusters: each writes its own keys with a number that grows, and reads them back, through the
//! client Service's ready pods. What was acknowledged must be there for ever after; errors leave it open.

use etcd_operator::ports::EtcdError;

use crate::event::Millis;
use crate::ghost::Acknowledged;
use crate::names::backends;
use crate::network::Place;
use crate::world::{Due, World};

/// Keys of each client.
const KEYS: u64 = 4;
/// Milliseconds between two things that a client does.
const PAUSE: (Millis, Millis) = (700, 5000);

/// A client.
#[derive(Debug)]
pub struct Client {
    namespace: String,
    cluster: String,
    id: usize,
    next: u64,
}

/// All clients.
#[derive(Debug, Default)]
pub struct Clients {
    list: Vec<Client>,
    /// They stop.
    pub stopped: bool,
    /// What they did: acknowledged writes, uncertain writes, reads.
    pub counts: (u64, u64, u64),
}

impl World {
    /// A client of an EtcdCluster begins.
    pub fn add_client(&mut self, namespace: &str, cluster: &str) {
        let id = self.clients.list.len();
        let client = Client { namespace: namespace.to_owned(), cluster: cluster.to_owned(), id, next: 1 };
        self.clients.list.push(client);
        self.after(PAUSE.1, Due::Client(id));
    }
}

/// One turn of a client.
pub fn turn(world: &mut World, index: usize) {
    if world.clients.stopped {
        return;
    }
    let pause = world.streams.workload.between(PAUSE.0, PAUSE.1);
    world.after(pause, Due::Client(index));
    let client = &world.clients.list[index];
    let pods = backends(world, &client.namespace, &format!("{}-client", client.cluster));
    let Some(pod) = world.streams.workload.pick(&pods).cloned() else { return };
    if !world.network.linked(&Place::Client, &Place::Pod(pod.clone())) {
        return;
    }
    let Some((process, cluster)) = world.etcds.of_pod(&pod).map(|process| (process.id, process.cluster)) else {
        return;
    };
    let key_number = world.streams.workload.between(0, KEYS - 1);
    let client = &mut world.clients.list[index];
    let key = format!("client-{}/key-{key_number}", client.id).into_bytes();
    let place = (cluster, key.clone());
    if world.streams.workload.chance(600) {
        let number = client.next;
        client.next += 1;
        let value = number.to_string().into_bytes();
        match world.etcds.write(process, &key, &value, world.now, &world.network) {
            Ok(revision) => {
                world.clients.counts.0 += 1;
                let acknowledged = Acknowledged { key, number, revision: revision.0, at: world.now };
                world.ghost.acknowledged.insert(place, acknowledged);
            }
            Err(EtcdError::Ambiguous { .. }) => world.clients.counts.1 += 1,
            Err(_) => {}
        }
    } else if let Ok((value, _)) = world.etcds.read(process, &key, world.now, &world.network) {
        world.clients.counts.2 += 1;
        let seen: u64 = value.and_then(|value| String::from_utf8(value).ok()?.parse().ok()).unwrap_or(0);
        let known = world.ghost.acknowledged.get(&place).map_or(0, |acknowledged| acknowledged.number);
        if seen < known {
            let what = format!(
                "{} answered a linearizable read of {} with write {seen}, after write {known} was acknowledged",
                pod,
                String::from_utf8_lossy(&place.1)
            );
            world.ghost.stale_read.get_or_insert(what);
        }
    }
}
