//! Reads the snapshot once, from beginning to end, and says what it is. Touches nothing.

use crate::api::SnapshotRef;
use crate::api::conditions::reason::RestoreSucceededReason as Reason;
use crate::backup::bucket::{Bucket, StoreFailure, Trouble};
use crate::backup::status::seconds;
use crate::backup::verify::{self, IntegrityError, VerifyError};
use crate::ports::{Credentials, Ports, StoreError};

use super::validate::{Desired, STALL};

/// Why there is nothing to restore from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// The bucket cannot be opened.
    #[error(transparent)]
    Open(#[from] StoreError),
    /// The object is not what it should be, or cannot be read.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

impl InspectError {
    /// Whether another look can end differently without anybody changing the object: the store's troubles and the
    /// Secret's pass, what an object is does not.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Open(_) | Self::Verify(VerifyError::Store(_) | VerifyError::Inconsistent { .. }) => true,
            Self::Verify(
                VerifyError::Missing { .. }
                | VerifyError::Different { .. }
                | VerifyError::Integrity { .. }
                | VerifyError::Format { .. },
            ) => false,
        }
    }

    /// For the condition.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Open(StoreError::Credentials { .. }) => Reason::SecretInvalid,
            Self::Open(StoreError::Location { .. }) => Reason::InvalidSpec,
            Self::Verify(VerifyError::Store(failure)) => store_reason(failure),
            Self::Verify(VerifyError::Inconsistent { .. }) => Reason::StoreFailed,
            Self::Verify(VerifyError::Missing { .. }) => Reason::SnapshotMissing,
            Self::Verify(
                VerifyError::Format { .. } | VerifyError::Integrity { source: IntegrityError::Foreign { .. }, .. },
            ) => Reason::SnapshotForeign,
            Self::Verify(VerifyError::Integrity { source: IntegrityError::Truncated { .. }, .. }) => {
                Reason::SnapshotTruncated
            }
            Self::Verify(VerifyError::Integrity { source: IntegrityError::Mismatch { .. }, .. })
            | Self::Verify(VerifyError::Different { .. }) => Reason::SnapshotCorrupt,
        }
    }
}

fn store_reason(failure: &StoreFailure) -> Reason {
    match failure.trouble {
        Trouble::BucketMissing => Reason::BucketMissing,
        Trouble::CredentialsRefused => Reason::CredentialsRefused,
        Trouble::Unreachable | Trouble::TimedOut => Reason::StoreUnreachable,
        Trouble::NotFound | Trouble::Exists | Trouble::Unsupported | Trouble::Failed => Reason::StoreFailed,
    }
}

/// Reads and checks the snapshot.
///
/// # Errors
/// When it is none, is not there, or cannot be read.
pub async fn inspect(ports: &Ports, desired: &Desired, credentials: &Credentials) -> Result<SnapshotRef, InspectError> {
    let location = &desired.location;
    let store = ports.stores.open(&location.bucket, credentials).await?;
    let bucket = Bucket::new(store, ports.clock.clone(), &location.bucket.bucket, STALL, credentials);
    let (checked, revision) = verify::inspect(&bucket, &location.key).await?;
    Ok(SnapshotRef {
        bucket: location.bucket.bucket.clone(),
        key: location.key.clone(),
        size: i64::try_from(checked.size).unwrap_or(i64::MAX),
        sha256: checked.sha256,
        revision: revision.0,
        verified_time: Some(seconds(ports.clock.now())),
    })
}
