//! Whole flows as transcripts: a world and what happens to it in, every pass that said something new out.
//!
//! Members are m1, m2, ... in the order in which they first appear. `[...]` is waited for, `[! ...]` is refused.

mod births;
mod changes;
mod evictions;
mod images;
mod losses;
mod refusals;
mod restores;
mod templates;
mod versions;

use super::world::World;

/// Compares a transcript with what is expected of it.
fn check(world: &World, expected: &str) {
    let actual = world.readable();
    let trim = |text: &str| text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    assert!(trim(&actual) == trim(expected), "the transcript is now:<<<\n{actual}>>>");
}

fn is_ready(world: &World) -> bool {
    use crate::api::conditions::{ConditionStatus, find};
    find(&world.status.conditions, "Ready").is_some_and(|ready| ready.status == ConditionStatus::True)
}
