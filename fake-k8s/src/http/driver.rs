//! Stepping controllers in real time: after every commit, and when one of them wants to be woken.
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;

use super::Shared;
use crate::controllers::Controller;

/// Controllers that feed one another settle in a few rounds; more in one go would keep clients waiting.
const ROUNDS: usize = 20;
/// A driver looks again at least so often: real clocks jump.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// Steps the controllers until `stop` is ready.
pub async fn drive(
    shared: Shared,
    mut controllers: Vec<Box<dyn Controller + Send>>,
    stop: impl Future<Output = ()> + Send,
) {
    let mut changes = shared.subscribe();
    let work = async {
        loop {
            changes.borrow_and_update();
            let wake = settle(&shared, &mut controllers);
            let left = wake.and_then(|at| Duration::try_from(at.duration_since(shared.now())).ok());
            let left = left.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
            #[allow(clippy::disallowed_methods)] // The live edge: controllers wait in real time.
            let waited = tokio::time::timeout(left, changes.changed()).await;
            if matches!(waited, Ok(Err(_))) {
                return;
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = stop => {}
    }
}

/// Steps all of them until nothing is committed any more; when the earliest wants to be woken.
fn settle(shared: &Shared, controllers: &mut [Box<dyn Controller + Send>]) -> Option<Timestamp> {
    for _ in 0..ROUNDS {
        let quiet = shared.run(|now, server| {
            let before = server.resource_version();
            controllers.iter_mut().for_each(|c| c.step(now, server));
            server.resource_version() == before
        });
        if quiet {
            return controllers.iter().filter_map(|c| c.wake_at()).min();
        }
    }
    Some(shared.now())
}
