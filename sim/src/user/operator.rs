//! The operator is asked to stop, and started again.

use super::{unusable, wait};
use crate::checker::Violation;
use crate::world::{Shared, World};

/// How long it may take to let its passes end and to give its leases back.
const STOP_SECONDS: u64 = 30;

/// Asks it to stop, and waits until it has.
pub async fn stop(shared: &Shared) -> Result<(), Violation> {
    let life = shared.enter().stop_operator();
    let pending = |world: &mut World| {
        (world.operator.stopped != Some(life)).then(|| format!("life {life} of the operator has not stopped"))
    };
    wait(shared, STOP_SECONDS, pending).await.map_err(|violation| unusable(violation.what))
}

/// Lets the next one begin.
pub fn start(world: &mut World) {
    world.operator.away = false;
}
