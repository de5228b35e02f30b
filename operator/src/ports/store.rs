//! Object stores. The operations are those of the `object_store` crate's own trait; this port only opens one.

use async_trait::async_trait;
use object_store::ObjectStore;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{BucketLocation, StorageKind};

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

impl Credentials {
    /// Words of the Secret that must not appear anywhere: everything long enough to be a key.
    pub fn words(&self) -> SecretWords {
        let values = self.0.iter().flatten().map(|(_, value)| String::from_utf8_lossy(value).into_owned());
        let split = |value: String| {
            let words = value.split(|c: char| c.is_whitespace() || matches!(c, '=' | '"' | ',' | ':'));
            words.filter(|word| word.len() >= SECRET_LENGTH_MIN).map(str::to_owned).collect::<Vec<_>>()
        };
        SecretWords(values.flat_map(split).collect())
    }
}

/// Shorter words of a Secret (`default`, `region`) are no keys.
const SECRET_LENGTH_MIN: usize = 8;

/// What must never be printed of [`Credentials`].
#[derive(Clone, Default)]
pub struct SecretWords(Vec<String>);

impl SecretWords {
    /// Whether this text tells one of them.
    pub fn are_in(&self, text: &str) -> bool {
        self.0.iter().any(|word| text.contains(word.as_str()))
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

    /// Names of what this process was given to open buckets of this kind without a Secret, and that nobody else has:
    /// variables of its environment. None where the platform's own service is asked, which every node reaches.
    fn own_settings(&self, _: StorageKind) -> Vec<String> {
        Vec::new()
    }
}
