//! The real clock and real randomness.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::time::{Duration, Instant};

use crate::ports::{Clock, Random};

/// The clock of this machine.
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Its monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the Clock port")]
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }
}

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the Clock port")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> SignedDuration {
        SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Clock port")]
    async fn sleep(&self, duration: SignedDuration) {
        // A negative time is over already.
        tokio::time::sleep(Duration::try_from(duration).unwrap_or_default()).await;
    }
}

/// Randomness of the operating system, through a generator of this thread.
pub struct SystemRandom;

impl Random for SystemRandom {
    #[allow(clippy::disallowed_methods, reason = "this is the port's adapter")]
    fn bits(&self) -> u64 {
        rand::random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_takes_its_time_and_a_negative_one_none() {
        let clock = SystemClock::start();
        let asleep = clock.monotonic();
        clock.sleep(SignedDuration::from_millis(20)).await;
        let awake = clock.monotonic();
        assert!(awake - asleep >= SignedDuration::from_millis(20));
        clock.sleep(SignedDuration::from_secs(-3600)).await;
        assert!(clock.monotonic() - awake < SignedDuration::from_secs(60));
    }

    #[test]
    fn two_draws_differ() {
        assert_ne!(SystemRandom.bits(), SystemRandom.bits());
    }
}
