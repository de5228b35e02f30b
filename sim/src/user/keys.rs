//! Keys that a scenario writes and later compares.

use std::collections::BTreeMap;

use super::wait;
use crate::checker::{Severity, Violation};
use crate::etcd::ProcessId;
use crate::ghost::Acknowledged;
use crate::names::backends;
use crate::scenario::place;
use crate::world::{Shared, World};

/// How long a client goes on trying one write or read.
const PATIENCE_SECONDS: u64 = 600;

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was acknowledged, by EtcdCluster, and what it was at each mark.
#[derive(Debug, Default)]
pub struct Remembered {
    clusters: BTreeMap<String, Keys>,
    marks: BTreeMap<String, BTreeMap<String, Keys>>,
    written: u64,
}

impl Remembered {
    /// Remembers the state of this moment under a name.
    pub fn mark(&mut self, name: &str) {
        self.marks.insert(name.to_owned(), self.clusters.clone());
    }

    /// What a cluster shall have: what was written to one, up to a mark or all of it.
    fn wanted(&self, of: &str, at: Option<&str>) -> Result<Keys, Violation> {
        let then = match at {
            None => &self.clusters,
            Some(mark) => self.marks.get(mark).ok_or_else(|| wrong(format!("there is no mark {mark}")))?,
        };
        Ok(then.get(of).cloned().unwrap_or_default())
    }
}

fn backend(world: &World, cluster: &str) -> Option<ProcessId> {
    let (namespace, name) = place(cluster);
    let pods = backends(world, namespace, &format!("{name}-client"));
    pods.iter().find_map(|pod| world.etcds.of_pod(pod).map(|process| process.id))
}

/// Writes so many new keys, each until it is acknowledged.
pub async fn write(
    shared: &Shared,
    remembered: &mut Remembered,
    cluster: &str,
    count: u32,
    value_bytes: u32,
) -> Result<(), Violation> {
    for _ in 0..count {
        remembered.written += 1;
        let number = remembered.written;
        let key = format!("key-{number:06}");
        let mut value = format!("value of {key} ").into_bytes();
        value.resize(value_bytes as usize, b'.');
        wait(shared, PATIENCE_SECONDS, |world| {
            let Some(process) = backend(world, cluster) else {
                return Some(format!("nobody takes the write of {key}"));
            };
            let lineage = world.etcds.processes.get(&process).map(|process| process.cluster);
            match world.etcds.write(process, key.as_bytes(), &value, world.now, &world.network) {
                Ok(revision) => {
                    let key = key.clone().into_bytes();
                    let acknowledged = Acknowledged { key: key.clone(), number, revision: revision.0, at: world.now };
                    world.ghost.acknowledged.extend(lineage.map(|lineage| ((lineage, key), acknowledged)));
                    None
                }
                Err(error) => Some(format!("write of {key}: {error}")),
            }
        })
        .await?;
        remembered.clusters.entry(cluster.to_owned()).or_default().insert(key.into_bytes(), value);
    }
    Ok(())
}

fn wrong(what: String) -> Violation {
    Violation { invariant: "S6", severity: Severity::Safety, what }
}

/// All keys that were written to `of` are there with their values, and no others.
pub async fn compare(
    shared: &Shared,
    remembered: &mut Remembered,
    cluster: &str,
    of: &str,
    at: Option<&str>,
) -> Result<(), Violation> {
    let wanted = remembered.wanted(of, at)?;
    let mut found = BTreeMap::new();
    wait(shared, PATIENCE_SECONDS, |world| {
        let Some(process) = backend(world, cluster) else { return Some("nobody takes a read".to_owned()) };
        // A linearizable read brings the member up to date; then its whole key space is what a range would give.
        match world.etcds.read(process, b"key", world.now, &world.network) {
            Ok(_) => {
                let keys = world.etcds.processes.get(&process).map(|process| process.state.keys.clone());
                found = keys.unwrap_or_default().into_iter().map(|(key, entry)| (key, entry.value)).collect();
                None
            }
            Err(error) => Some(format!("read: {error}")),
        }
    })
    .await?;
    let name = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    for (key, value) in &wanted {
        match found.get(key) {
            None => return Err(wrong(format!("key {} is gone", name(key)))),
            Some(other) if other != value => return Err(wrong(format!("key {} has another value", name(key)))),
            Some(_) => {}
        }
    }
    if let Some(key) = found.keys().find(|key| !wanted.contains_key(*key)) {
        return Err(wrong(format!("key {} is there although it should not be", name(key))));
    }
    remembered.clusters.insert(cluster.to_owned(), wanted);
    Ok(())
}
