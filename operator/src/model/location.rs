//! Where a backup lives: which store, which bucket, which key, and the Secret that opens it.

use std::fmt;

use crate::api::BackupRecord;
use crate::api::storage::{OSS_ENDPOINT_DEFAULT, StorageSource, StorageType};

/// The four stores that a backup can go to.
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

impl From<StorageType> for StorageKind {
    fn from(storage: StorageType) -> Self {
        match storage {
            StorageType::S3 => Self::S3,
            StorageType::Abs => Self::Abs,
            StorageType::Gcs => Self::Gcs,
            StorageType::Oss => Self::Oss,
        }
    }
}

/// The endpoint of a store that speaks S3, with the scheme that the archived operator's clients took when there was none;
/// none where S3's own is meant.
pub fn endpoint(storage: StorageKind, text: &str) -> Option<String> {
    let scheme = if storage == StorageKind::Oss { "http" } else { "https" };
    match text {
        "" if storage == StorageKind::Oss => Some(OSS_ENDPOINT_DEFAULT.to_owned()),
        "" => None,
        url if url.contains("://") => Some(url.to_owned()),
        host => Some(format!("{scheme}://{host}")),
    }
}

impl From<StorageKind> for StorageType {
    fn from(storage: StorageKind) -> Self {
        match storage {
            StorageKind::S3 => Self::S3,
            StorageKind::Abs => Self::Abs,
            StorageKind::Gcs => Self::Gcs,
            StorageKind::Oss => Self::Oss,
        }
    }
}

impl BucketLocation {
    /// Whether a backup was written here. Records of earlier versions do not say where, and count as if they were.
    pub fn has(&self, record: &BackupRecord) -> bool {
        let endpoint = self.endpoint.as_deref().unwrap_or_default();
        record.storage_type.is_none_or(|storage| {
            StorageKind::from(storage) == self.storage && record.endpoint == endpoint && record.bucket == self.bucket
        })
    }
}

impl ObjectLocation {
    /// Whether this is the object of a record.
    pub fn is_of(&self, record: &BackupRecord) -> bool {
        self.key == record.key && self.bucket.has(record)
    }

    /// The object that a storage block names.
    ///
    /// # Errors
    /// When the block of this type is absent or its path is not `<bucket>/<key>`; the text names the field.
    pub fn from_source(storage: Option<StorageType>, source: &StorageSource) -> Result<Self, String> {
        let storage = storage.ok_or("the storage type must be S3, ABS, GCS or OSS")?;
        let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
        let (block, settings) = match storage {
            StorageType::S3 => (
                "s3",
                source.s3.as_ref().map(|s3| {
                    (&s3.path, endpoint(StorageKind::S3, &s3.endpoint), s3.force_path_style, text(&s3.aws_secret))
                }),
            ),
            StorageType::Abs => ("abs", source.abs.as_ref().map(|abs| (&abs.path, None, false, text(&abs.abs_secret)))),
            StorageType::Gcs => ("gcs", source.gcs.as_ref().map(|gcs| (&gcs.path, None, false, text(&gcs.gcp_secret)))),
            StorageType::Oss => (
                "oss",
                source
                    .oss
                    .as_ref()
                    .map(|oss| (&oss.path, endpoint(StorageKind::Oss, &oss.endpoint), false, text(&oss.oss_secret))),
            ),
        };
        let Some((path, endpoint, force_path_style, secret)) = settings else {
            return Err(format!("`spec.{block}` must be given with storage type {}", storage.as_str()));
        };
        let parts = path.split_once('/').map(|(bucket, key)| (bucket, key.trim_start_matches('/')));
        let Some((bucket, key)) = parts.filter(|(bucket, key)| !bucket.is_empty() && !key.is_empty()) else {
            return Err(format!("`spec.{block}.path` must be `<bucket>/<key>`, and is `{path}`"));
        };
        let bucket =
            BucketLocation { storage: storage.into(), bucket: bucket.to_owned(), endpoint, force_path_style, secret };
        Ok(Self { bucket, key: key.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::storage::{OssStorage, S3Storage};

    fn s3(path: &str) -> StorageSource {
        StorageSource { s3: Some(S3Storage { path: path.to_owned(), ..Default::default() }), ..Default::default() }
    }

    #[test]
    fn a_path_is_a_bucket_and_a_key_with_any_slashes() {
        let location = ObjectLocation::from_source(Some(StorageType::S3), &s3("bucket/a/b.db")).unwrap();
        assert_eq!((location.bucket.bucket.as_str(), location.key.as_str()), ("bucket", "a/b.db"));
        assert_eq!((location.bucket.endpoint, location.bucket.secret), (None, None));
        for path in ["", "bucket", "bucket/", "/key", "bucket//"] {
            let why = ObjectLocation::from_source(Some(StorageType::S3), &s3(path)).unwrap_err();
            assert!(why.contains("`spec.s3.path`"), "{why}");
        }
    }

    #[test]
    fn the_block_must_be_the_one_of_the_type() {
        let why = ObjectLocation::from_source(Some(StorageType::Abs), &s3("bucket/key")).unwrap_err();
        assert!(why.contains("`spec.abs`"), "{why}");
    }

    #[test]
    fn oss_has_an_endpoint_of_its_own() {
        let oss = OssStorage { path: "bucket/key".to_owned(), ..Default::default() };
        let source = StorageSource { oss: Some(oss), ..Default::default() };
        let location = ObjectLocation::from_source(Some(StorageType::Oss), &source).unwrap();
        assert_eq!(location.bucket.endpoint.as_deref(), Some("http://oss-cn-hangzhou.aliyuncs.com"));
    }

    /// A pod that fetches must go where the operator has looked.
    #[test]
    fn an_endpoint_without_a_scheme_is_the_same_for_whoever_reads_it() {
        for (spelling, s3, oss) in [
            ("store:9000", "https://store:9000", "http://store:9000"),
            ("http://store", "http://store", "http://store"),
            ("https://store", "https://store", "https://store"),
        ] {
            assert_eq!(endpoint(StorageKind::S3, spelling).as_deref(), Some(s3));
            let (path, text) = ("bucket/key".to_owned(), spelling.to_owned());
            let source = StorageSource {
                oss: Some(OssStorage { path, endpoint: text, oss_secret: "s".to_owned() }),
                ..Default::default()
            };
            let fetched = ObjectLocation::from_source(Some(StorageType::Oss), &source).unwrap();
            assert_eq!(fetched.bucket.endpoint.as_deref(), Some(oss));
            assert_eq!(
                crate::backup::validate::location(("storageType", Some(StorageType::Oss)), &source, false),
                Ok(fetched)
            );
        }
    }
}
