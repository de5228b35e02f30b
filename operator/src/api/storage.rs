//! Where backups are kept: the four kinds of store, written the same way in EtcdBackup and EtcdRestore.
//!
//! What the schema requires and the archived operator's definitions did not is read as empty where it is missing: such an
//! object gets a status that names the field, instead of being one that nobody can read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::Rule;
use super::{is_default, null_is_default};

/// Default endpoint of OSS.
pub const OSS_ENDPOINT_DEFAULT: &str = "http://oss-cn-hangzhou.aliyuncs.com";

/// The kind of object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum StorageType {
    /// Amazon S3, or a store that speaks its protocol.
    S3,
    /// Azure Blob Storage.
    #[serde(rename = "ABS")]
    Abs,
    /// Google Cloud Storage.
    #[serde(rename = "GCS")]
    Gcs,
    /// Alibaba Cloud Object Storage Service.
    #[serde(rename = "OSS")]
    Oss,
}

/// Reads a missing or unknown kind of store as none.
pub(super) fn known_or_none<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<StorageType>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(StorageType::deserialize(value).ok())
}

impl StorageType {
    /// As written in `storageType`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::S3 => "S3",
            Self::Abs => "ABS",
            Self::Gcs => "GCS",
            Self::Oss => "OSS",
        }
    }
}

/// The block of the store; the one that `storageType` or `backupStorageType` names, and no other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageSource {
    /// Amazon S3, or a store that speaks its protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Storage>,
    /// Azure Blob Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abs: Option<AbsStorage>,
    /// Google Cloud Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcs: Option<GcsStorage>,
    /// Alibaba Cloud Object Storage Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oss: Option<OssStorage>,
}

impl StorageSource {
    /// The path in the block of this kind of store, if that block is there.
    pub fn path(&self, storage_type: StorageType) -> Option<&str> {
        match storage_type {
            StorageType::S3 => self.s3.as_ref().map(|s3| s3.path.as_str()),
            StorageType::Abs => self.abs.as_ref().map(|abs| abs.path.as_str()),
            StorageType::Gcs => self.gcs.as_ref().map(|gcs| gcs.path.as_str()),
            StorageType::Oss => self.oss.as_ref().map(|oss| oss.path.as_str()),
        }
    }
}

/// Amazon S3, or a store that speaks its protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3Storage {
    /// Where the backup is: `<bucket>/<key>`.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(!default, length(max = 1200))]
    pub path: String,
    /// Secret with the AWS files `credentials` and `config` (profile `default`). Empty: the credentials of the
    /// operator's own environment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub aws_secret: String,
    /// URL of the store. Empty: AWS.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub endpoint: String,
    /// Put the bucket in the path of the URL instead of its host name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force_path_style: bool,
}

/// Azure Blob Storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AbsStorage {
    /// Where the backup is: `<container>/<key>`.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(!default, length(max = 1200))]
    pub path: String,
    /// Secret with `storage-account`, `storage-key` and optionally `cloud`, or `storage-endpoint`: the URL of the blob
    /// service where it is none of the cloud's own, as `BlobEndpoint` in a connection string.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub abs_secret: String,
}

/// Google Cloud Storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcsStorage {
    /// Where the backup is: `<bucket>/<key>`.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(!default, length(max = 1200))]
    pub path: String,
    /// Secret with `access-token` or `credentials.json`. Empty: application default credentials.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub gcp_secret: String,
}

/// Alibaba Cloud Object Storage Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OssStorage {
    /// Where the backup is: `<bucket>/<key>`.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(!default, length(max = 1200))]
    pub path: String,
    /// Secret with `accessKeyID` and `accessKeySecret`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub oss_secret: String,
    /// URL of the store. Empty: `http://oss-cn-hangzhou.aliyuncs.com`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub endpoint: String,
}

/// What schema types cannot say about the blocks, in both kinds.
pub(super) const RULES: &[Rule] = &[
    Rule {
        at: "spec.s3.path",
        rule: "self.matches('^[^/]+/.')",
        message: "`path` must be `<bucket>/<key>`, such as backups/etcd.backup",
    },
    Rule {
        at: "spec.abs.path",
        rule: "self.matches('^[^/]+/.')",
        message: "`path` must be `<container>/<key>`, such as backups/etcd.backup",
    },
    Rule {
        at: "spec.gcs.path",
        rule: "self.matches('^[^/]+/.')",
        message: "`path` must be `<bucket>/<key>`, such as backups/etcd.backup",
    },
    Rule {
        at: "spec.oss.path",
        rule: "self.matches('^[^/]+/.')",
        message: "`path` must be `<bucket>/<key>`, such as backups/etcd.backup",
    },
];
