//! S6: acknowledged writes survive as long as a quorum of disks does, members never apply different entries, and a
//! linearizable read sees every write that was acknowledged or read before it, and none that was refused or never sent.
//!
//! Each key has one writer that waits for its answer, so that the last number says all (see `Ledger`). What is asked of a
//! lineage does not depend on what became of another one. NOT verified: the order of concurrent writes of different
//! clients, and reads of a lineage that lost a quorum of its disks.

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
        let mut wrong = world.ghost.wrong_reads.iter().filter(|(cluster, _)| !world.ghost.hopeless.contains(cluster));
        diverged.or_else(|| wrong.next().map(|(_, what)| what.clone()))
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

#[cfg(test)]
mod tests {
    use super::super::fixture::in_world;

    #[test]
    fn a_lineage_that_is_lost_excuses_no_other() {
        in_world(|world| {
            let lineages = ["birth-1", "birth-2"];
            for token in lineages {
                world.form(token, 1);
            }
            for token in lineages {
                let cluster = world.cluster(token);
                world.world.ghost.wrong_reads.insert(cluster, format!("{token} answered wrongly"));
            }
            let lost = world.cluster("birth-1");
            world.world.ghost.hopeless.insert(lost);
            assert_eq!(world.violation(), None);
            world.pass(250);
            assert_eq!(world.violation().as_deref(), Some("S6 violated: birth-2 answered wrongly"));
        });
    }
}
