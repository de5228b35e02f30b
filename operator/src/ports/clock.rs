//! Time and randomness.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::future::Future;

/// The clock of this process; it may be wrong, and it may jump.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Wall-clock time: what goes into status, records and names.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary moment, which never goes back: what leases and deadlines are measured with.
    fn monotonic(&self) -> SignedDuration;
    /// Ends after this long (at once when negative).
    async fn sleep(&self, duration: SignedDuration);
}

/// A deadline passed before the future ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {after:#}")]
pub struct DeadlineExceeded {
    /// The time that was given.
    pub after: SignedDuration,
}

/// Runs a future for so long at most.
pub async fn deadline<T>(
    clock: &dyn Clock,
    after: SignedDuration,
    future: impl Future<Output = T> + Send,
) -> Result<T, DeadlineExceeded> {
    let future = std::pin::pin!(future);
    let sleep = clock.sleep(after);
    match futures::future::select(future, sleep).await {
        futures::future::Either::Left((value, _)) => Ok(value),
        futures::future::Either::Right(((), _)) => Err(DeadlineExceeded { after }),
    }
}

/// Randomness: names of new members, jitter. Never a decision.
pub trait Random: Send + Sync {
    /// 64 random bits.
    fn bits(&self) -> u64;
}
