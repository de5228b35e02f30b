//! Clients of the etcd clusters: each writes its own keys with a number that grows, and reads them back, through the
//! client Service's ready pods. What was acknowledged must be there for ever after; errors leave it open.

use std::collections::BTreeMap;

use etcd_operator::model::ClusterId;
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
        let written = world.etcds.write(process, &key, &value, world.now, &world.network);
        let fate = match &written {
            Ok(_) => Fate::Acknowledged,
            Err(EtcdError::Ambiguous { .. }) => Fate::Open,
            Err(_) => Fate::Refused,
        };
        world.ghost.ledger.wrote(cluster, &key, number, fate);
        if let Ok(revision) = written {
            world.clients.counts.0 += 1;
            let acknowledged = Acknowledged { key, number, revision: revision.0, at: world.now };
            world.ghost.acknowledged.insert(place, acknowledged);
        } else if fate == Fate::Open {
            world.clients.counts.1 += 1;
        }
    } else if let Ok((value, _)) = world.etcds.read(process, &key, world.now, &world.network) {
        world.clients.counts.2 += 1;
        let base = world.etcds.committed.get(&cluster).and_then(|committed| committed.base.clone());
        let restored = base.as_ref().and_then(|base| base.keys.get(&key)).and_then(|entry| number(&entry.value));
        if let Some(what) = world.ghost.ledger.read(cluster, &key, value.as_deref(), restored) {
            let key = String::from_utf8_lossy(&key);
            let what = format!("{pod} answered a linearizable read of {key} with {what}");
            world.ghost.wrong_reads.entry(cluster).or_insert(what);
        }
    }
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// What became of a write, as far as its client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Acknowledged,
    /// Nobody knows.
    Open,
    /// It was not done, and never will be.
    Refused,
}

/// How a lineage is known to hold a number.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    how: &'static str,
}

/// What the clients wrote and read. Each key has one writer, which waits for its answer, so that the numbers of a key in a
/// lineage only grow.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Each write: to which lineage, and what became of it.
    issued: BTreeMap<(Vec<u8>, u64), (ClusterId, Fate)>,
    /// The highest number that each lineage was seen to hold.
    known: BTreeMap<(ClusterId, Vec<u8>), Known>,
}

impl Ledger {
    /// A write has ended.
    pub fn wrote(&mut self, cluster: ClusterId, key: &[u8], number: u64, fate: Fate) {
        self.issued.insert((key.to_owned(), number), (cluster, fate));
        if fate == Fate::Acknowledged {
            self.raise(cluster, key, Known { number, how: "acknowledged" });
        }
    }

    fn raise(&mut self, cluster: ClusterId, key: &[u8], seen: Known) {
        let known = self.known.entry((cluster, key.to_owned())).or_insert(seen);
        if known.number < seen.number {
            *known = seen;
        }
    }

    /// A linearizable read of a lineage gave this value. `restored` is the number that its snapshot had, if it came from
    /// one. What is wrong with that.
    pub fn read(
        &mut self,
        cluster: ClusterId,
        key: &[u8],
        value: Option<&[u8]>,
        restored: Option<u64>,
    ) -> Option<String> {
        if let Some(number) = restored {
            self.raise(cluster, key, Known { number, how: "in the snapshot" });
        }
        let seen = match value.map(|value| number(value).ok_or(value)) {
            None => 0,
            Some(Ok(seen)) => seen,
            Some(Err(value)) => return Some(format!("`{}`, which is no number", String::from_utf8_lossy(value))),
        };
        let known = self.known.get(&(cluster, key.to_owned()));
        if let Some(Known { number, how }) = known.filter(|known| seen < known.number) {
            return Some(format!("write {seen}, after write {number} was {how}"));
        }
        if seen == 0 {
            return None;
        }
        match self.issued.get(&(key.to_owned(), seen)) {
            None => return Some(format!("write {seen}, which nobody ever sent")),
            Some((_, Fate::Refused)) => return Some(format!("write {seen}, which was refused")),
            Some((of, _)) if *of != cluster && restored != Some(seen) => {
                return Some(format!("write {seen}, which was sent to {of} and is not what the snapshot has"));
            }
            Some(_) => {}
        }
        self.raise(cluster, key, Known { number: seen, how: "read" });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: ClusterId = ClusterId(1);
    const NEW: ClusterId = ClusterId(2);
    const KEY: &[u8] = b"client-0/key-0";

    /// Numbers 1 to 4: acknowledged, open, refused, open.
    fn written() -> Ledger {
        let mut ledger = Ledger::default();
        let fates = [Fate::Acknowledged, Fate::Open, Fate::Refused, Fate::Open];
        for (number, fate) in (1..).zip(fates) {
            ledger.wrote(OLD, KEY, number, fate);
        }
        ledger
    }

    fn read(ledger: &mut Ledger, value: &str) -> String {
        ledger.read(OLD, KEY, Some(value.as_bytes()), None).unwrap_or_default()
    }

    #[test]
    fn what_was_acknowledged_or_is_open_may_be_read() {
        let mut ledger = written();
        for value in ["1", "1", "2", "4", "4"] {
            assert_eq!(read(&mut ledger, value), "", "{value}");
        }
        assert_eq!(Ledger::default().read(OLD, KEY, None, None), None, "nobody wrote it yet");
    }

    #[test]
    fn a_read_does_not_go_back_behind_a_write_nor_behind_a_read() {
        let mut ledger = written();
        let gone = ledger.read(OLD, KEY, None, None);
        assert_eq!(gone.as_deref(), Some("write 0, after write 1 was acknowledged"));
        assert_eq!(read(&mut ledger, "2"), "");
        assert_eq!(read(&mut ledger, "1"), "write 1, after write 2 was read");
    }

    #[test]
    fn what_was_refused_or_never_sent_is_not_read() {
        let mut ledger = written();
        assert_eq!(read(&mut ledger, "3"), "write 3, which was refused");
        assert_eq!(read(&mut ledger, "5"), "write 5, which nobody ever sent");
        assert_eq!(read(&mut ledger, "x"), "`x`, which is no number");
    }

    #[test]
    fn a_restored_lineage_has_what_its_snapshot_has_and_what_was_written_to_it() {
        let mut ledger = written();
        assert_eq!(ledger.read(NEW, KEY, Some(b"2"), Some(2)), None);
        let other = ledger.read(NEW, KEY, Some(b"4"), Some(2));
        assert!(other.is_some_and(|what| what.contains("is not what the snapshot has")));
        let less = ledger.read(NEW, KEY, Some(b"1"), Some(2));
        assert_eq!(less.as_deref(), Some("write 1, after write 2 was in the snapshot"));
        ledger.wrote(NEW, KEY, 5, Fate::Acknowledged);
        assert_eq!(ledger.read(NEW, KEY, Some(b"5"), Some(2)), None);
        assert_eq!(read(&mut ledger, "1"), "", "the old one goes on where it was");
    }
}
