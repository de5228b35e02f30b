//! Where a backup lives: which store, which bucket, which key, and the Secret that opens it.

use std::fmt;

/// The four stores of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StorageKind {
    /// Amazon S3 and everything that speaks its protocol.
    S3,
    /// Azure Blob Storage.
    Abs,
    /// Google Cloud Storage.
    Gcs,
    /// Alibaba Cloud OSS, through its S3 protocol.
    Oss,
}

impl StorageKind {
    /// As the manifests write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::S3 => "S3",
            Self::Abs => "ABS",
            Self::Gcs => "GCS",
            Self::Oss => "OSS",
        }
    }
}

impl fmt::Display for StorageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A bucket (container) and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketLocation {
    /// Which protocol.
    pub storage: StorageKind,
    /// Bucket, or container for ABS.
    pub bucket: String,
    /// Endpoint URL; the store's own default when none.
    pub endpoint: Option<String>,
    /// S3 only: `http://endpoint/bucket/key` instead of `http://bucket.endpoint/key`.
    pub force_path_style: bool,
    /// Secret in the resource's namespace; none means the ambient credentials of the platform.
    pub secret: Option<String>,
}

/// One object, or the prefix that a periodic backup's names begin with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectLocation {
    /// The bucket.
    pub bucket: BucketLocation,
    /// The key within it, without a leading slash.
    pub key: String,
}

impl fmt::Display for ObjectLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket.bucket, self.key)
    }
}
