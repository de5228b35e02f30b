//! S6: acknowledged writes survive as long as a quorum of disks does, members never apply different entries, and a
//! linearizable read sees every write that was acknowledged before it.
//!
//! Each key has one writer that waits for its answer, so that the last acknowledged number says all. NOT verified: the
//! order of concurrent writes of different clients.

use super::Checker;
use crate::world::World;

/// S6.
pub struct WritesSurvive;

impl Checker for WritesSurvive {
    fn invariant(&self) -> &'static str {
        "S6"
    }

    fn tick(&mut self, world: &World) -> Option<String> {
        let diverged = world.etcds.committed.iter().find_map(|(cluster, committed)| {
            let what = committed.diverged.as_ref()?;
            (!world.ghost.hopeless.contains(cluster)).then(|| format!("lineage {cluster} has split: {what}"))
        });
        diverged.or_else(|| world.ghost.stale_read.clone().filter(|_| world.ghost.hopeless.is_empty()))
    }

    fn end(&mut self, world: &World) -> Option<String> {
        world.ghost.acknowledged.iter().find_map(|((cluster, key), acknowledged)| {
            if world.ghost.hopeless.contains(cluster) {
                return None;
            }
            let leader = world.etcds.leader(*cluster)?;
            let found = leader.state.keys.get(key).map_or(0, |entry| entry.mod_revision);
            (found < acknowledged.revision).then(|| {
                format!(
                    "write {} of {} (revision {}) was acknowledged and is gone from lineage {cluster}",
                    acknowledged.number,
                    String::from_utf8_lossy(key),
                    acknowledged.revision
                )
            })
        })
    }
}
