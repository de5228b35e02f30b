//! S18: a converged world gets no writes at all, and L1's second half: it stays converged.
//!
//! Leases and Events are not counted. NOT verified: how many reads a converged world costs.

use super::{Checker, Severity};
use crate::effect::Effect;
use crate::world::World;

/// S18.
#[derive(Default)]
pub struct NoWritesWhenConverged {
    periodic: bool,
}

impl Checker for NoWritesWhenConverged {
    fn invariant(&self) -> &'static str {
        "S18"
    }

    fn severity(&self) -> Severity {
        Severity::Safety
    }

    fn effect(&mut self, world: &World, effect: &Effect) -> Option<String> {
        self.periodic |= crate::converge::has_periodic_backups(world);
        let backup = match effect {
            Effect::Update { kind, .. } => kind == "EtcdBackup",
            Effect::StorePut { .. }
            | Effect::StoreBegin { .. }
            | Effect::StorePart { .. }
            | Effect::StoreComplete { .. }
            | Effect::StoreAbort { .. }
            | Effect::StoreDelete { .. } => true,
            _ => false,
        };
        if !world.quiet || effect.is_bookkeeping() || (backup && self.periodic) {
            return None;
        }
        Some(format!("the world is converged, and the operator does: {effect}"))
    }
}
