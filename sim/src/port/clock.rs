//! Time and randomness of the operator.

use std::time::Duration;

use async_trait::async_trait;
use etcd_operator::ports::{Clock, Random};
use jiff::{SignedDuration, Timestamp};

use super::Caller;
use crate::world::Shared;

/// Simulated time.
pub struct SimClock(pub Caller);

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.0.shared.enter().timestamp()
    }

    fn monotonic(&self) -> SignedDuration {
        SignedDuration::from_millis(i64::try_from(self.0.shared.enter().now).unwrap_or(i64::MAX))
    }

    async fn sleep(&self, duration: SignedDuration) {
        madsim::time::sleep(Duration::try_from(duration).unwrap_or(Duration::ZERO)).await;
        self.0.thawed().await;
    }
}

/// The operator's own stream.
pub struct SimRandom(pub Shared);

impl Random for SimRandom {
    fn bits(&self) -> u64 {
        self.0.enter().streams.operator.bits()
    }
}
