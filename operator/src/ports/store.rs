//! Object stores. The operations are those of the `object_store` crate's own trait; this port only opens one.

use async_trait::async_trait;
use object_store::ObjectStore;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::BucketLocation;

/// The data of the Secret that opens a bucket, by key; none: the platform's ambient credentials.
/// Never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(pub Option<BTreeMap<String, Vec<u8>>>);

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.0.iter().flatten().map(|(key, _)| key.as_str()).collect();
        write!(f, "Credentials(keys: {keys:?})")
    }
}

/// Why a bucket could not be opened. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The Secret lacks a key, or a value in it does not parse. Names the key and what is expected, never the value.
    #[error("secret `{secret}`: {message}")]
    Credentials {
        /// Name of the Secret.
        secret: String,
        /// Which key, and what is expected.
        message: String,
    },
    /// The location itself is not usable (endpoint is no URL, bucket name not allowed).
    #[error("{field}: {message}")]
    Location {
        /// The field of the spec.
        field: String,
        /// What is allowed.
        message: String,
    },
}

/// Opens buckets.
#[async_trait]
pub trait Stores: Send + Sync {
    /// A client for one bucket. Sends nothing.
    async fn open(
        &self,
        bucket: &BucketLocation,
        credentials: &Credentials,
    ) -> Result<Arc<dyn ObjectStore>, StoreError>;
}
