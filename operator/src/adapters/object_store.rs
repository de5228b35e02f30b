//! The object store port: a location and the data of its Secret become a client of the `object_store` crate.
//!
//! Nothing is sent here. The environment comes in as a map: what main read once, for credentials that the platform gives.
//! Retries are few and short, because the next pass observes and decides again.

mod aws_files;

use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use self::aws_files::AwsProfile;
use super::dial::Dialer;
use super::http::StoreConnector;
use crate::api::storage::OSS_ENDPOINT_DEFAULT;
use crate::model::{BucketLocation, StorageKind};
use crate::ports::{Credentials, StoreError, Stores};

/// Attempts after the first.
const RETRIES_MAX: usize = 2;
/// No new attempt after this long.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);
/// For the operator: the most that an EtcdBackup's `timeoutInSecond` can ask of a store that stands still. What is shorter
/// sees to itself.
pub const PATIENCE_MAX: Duration = Duration::from_mins(30);
/// Prefixes of the environment variables that tell of the platform's credentials.
pub const ENVIRONMENT_PREFIXES: &[&str] = &["AWS_", "AZURE_", "GOOGLE_"];

/// What is taken of the platform's AWS_ variables: who we are and in which region. Where a backup goes says its spec alone.
const AWS_VARIABLES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_METADATA_ENDPOINT",
    "AWS_IMDSV1_FALLBACK",
];

/// Azure's clouds by the names that its tools give them, and the domain of their blob service.
const AZURE_CLOUDS: &[(&str, &str)] = &[
    ("AzurePublicCloud", "blob.core.windows.net"),
    ("AzureChinaCloud", "blob.core.chinacloudapi.cn"),
    ("AzureUSGovernmentCloud", "blob.core.usgovcloudapi.net"),
    ("AzureGermanCloud", "blob.core.cloudapi.de"),
];

/// Object stores over the network.
pub struct ObjectStores {
    connector: StoreConnector,
    environment: BTreeMap<String, String>,
    base_urls: BTreeMap<StorageKind, String>,
}

impl ObjectStores {
    /// Dials with `dialer`. `environment`: variables that begin with one of [`ENVIRONMENT_PREFIXES`].
    pub fn new(dialer: Dialer, environment: BTreeMap<String, String>) -> Self {
        Self { connector: StoreConnector::new(dialer), environment, base_urls: BTreeMap::new() }
    }

    /// How long a store may stand still; without it, a minute.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.connector = self.connector.with_patience(patience);
        self
    }

    /// Where ABS or GCS is instead of its public endpoint: an emulator. Their blocks in the API have no endpoint.
    #[must_use]
    pub fn with_base_url(mut self, storage: StorageKind, url: &str) -> Self {
        self.base_urls.insert(storage, url.to_owned());
        self
    }

    fn s3(&self, bucket: &BucketLocation, secret: &Secret<'_>) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let mut builder = AmazonS3Builder::new();
        if secret.is_given() {
            let profile = AwsProfile::parse(&secret.text("credentials")?, &secret.text_or_empty("config")?);
            let profile = profile.map_err(|message| secret.error(message))?;
            builder =
                builder.with_access_key_id(profile.access_key_id).with_secret_access_key(profile.secret_access_key);
            if let Some(token) = profile.session_token {
                builder = builder.with_token(token);
            }
            if let Some(region) = profile.region {
                builder = builder.with_region(region);
            }
        } else {
            for (name, value) in self.variables("AWS_").filter(|(name, _)| AWS_VARIABLES.contains(&name.as_str())) {
                if let Ok(key) = name.to_ascii_lowercase().parse() {
                    builder = builder.with_config(key, value);
                }
            }
        }
        match &bucket.endpoint {
            Some(endpoint) => self.addressed(builder, bucket, &EndpointUrl::parse("s3.endpoint", endpoint)?),
            None => {
                // A bucket name with dots matches no wildcard certificate.
                let in_host = !bucket.force_path_style && !bucket.bucket.contains('.');
                self.finish_s3(builder.with_virtual_hosted_style_request(in_host), bucket)
            }
        }
    }

    fn oss(&self, bucket: &BucketLocation, secret: &Secret<'_>) -> Result<Arc<dyn ObjectStore>, StoreError> {
        secret.required("oss.ossSecret", "`accessKeyID` and `accessKeySecret`")?;
        let endpoint = bucket.endpoint.as_deref().unwrap_or(OSS_ENDPOINT_DEFAULT);
        let endpoint = EndpointUrl::parse("oss.endpoint", endpoint)?;
        let builder = AmazonS3Builder::new()
            .with_access_key_id(secret.text("accessKeyID")?)
            .with_secret_access_key(secret.text("accessKeySecret")?)
            .with_region(oss_region(&endpoint.authority));
        // OSS knows no precondition of a write, and refuses one that carries any
        // (https://www.alibabacloud.com/help/en/oss/developer-reference/compatibility-with-amazon-s3).
        self.addressed(builder.with_conditional_put(S3ConditionalPut::Disabled), bucket, &endpoint)
    }

    /// With the bucket in the host name or in the path of this endpoint.
    fn addressed(
        &self,
        builder: AmazonS3Builder,
        bucket: &BucketLocation,
        endpoint: &EndpointUrl,
    ) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let in_host = !bucket.force_path_style && endpoint.takes_bucket_in_host(&bucket.bucket);
        let url = if in_host { endpoint.with_bucket(&bucket.bucket) } else { endpoint.to_string() };
        self.finish_s3(builder.with_endpoint(url).with_virtual_hosted_style_request(in_host), bucket)
    }

    fn finish_s3(&self, builder: AmazonS3Builder, bucket: &BucketLocation) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let store = builder
            .with_bucket_name(&bucket.bucket)
            .with_allow_http(true)
            // Not every store that speaks the protocol knows the call that deletes many.
            .with_disable_bulk_delete(true)
            .with_retry(retries())
            .with_http_connector(self.connector.clone())
            .build()
            .map_err(|error| unusable(bucket, &error))?;
        Ok(Arc::new(store))
    }

    fn abs(&self, bucket: &BucketLocation, secret: &Secret<'_>) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let mut builder = MicrosoftAzureBuilder::new();
        let mut domain = AZURE_CLOUDS[0].1;
        let mut own_endpoint = self.base_urls.get(&StorageKind::Abs).cloned();
        let account = if secret.is_given() {
            domain = azure_domain(&secret.text_or_empty("cloud")?).map_err(|message| secret.error(message))?;
            let key = secret.text("storage-key")?;
            if base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &key).is_err() {
                return Err(secret.error("`storage-key` must be the account's access key, which is base64".to_owned()));
            }
            builder = builder.with_access_key(key);
            let given = secret.text_or_empty("storage-endpoint")?;
            if !given.is_empty() {
                let parsed = EndpointUrl::parse("storage-endpoint", &given);
                let wrong =
                    |_| secret.error("`storage-endpoint` must be a URL such as https://blob.example.com".into());
                own_endpoint = Some(parsed.map_err(wrong)?.to_string());
            }
            secret.text("storage-account")?
        } else {
            for (name, value) in self.variables("AZURE_") {
                if let Ok(key) = name.to_ascii_lowercase().parse() {
                    builder = builder.with_config(key, value);
                }
            }
            own_endpoint = own_endpoint.or_else(|| self.environment.get("AZURE_STORAGE_ENDPOINT").cloned());
            match self.environment.get("AZURE_STORAGE_ACCOUNT_NAME") {
                Some(account) => account.clone(),
                None => return Err(secret.missing("abs.absSecret", "`storage-account` and `storage-key`")),
            }
        };
        let public = || format!("https://{account}.{domain}");
        let store = builder
            .with_endpoint(own_endpoint.unwrap_or_else(public))
            .with_account(&account)
            .with_container_name(&bucket.bucket)
            .with_allow_http(true)
            .with_retry(retries())
            .with_http_connector(self.connector.clone())
            .build()
            .map_err(|error| unusable(bucket, &error))?;
        Ok(Arc::new(store))
    }

    fn gcs(&self, bucket: &BucketLocation, secret: &Secret<'_>) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let mut builder = GoogleCloudStorageBuilder::new();
        if secret.is_given() {
            builder = match (secret.has("access-token"), secret.has("credentials.json")) {
                (true, _) => builder.with_bearer_token(secret.text("access-token")?),
                (false, true) => builder.with_service_account_key(secret.text("credentials.json")?),
                (false, false) => {
                    let message = "must have the key `access-token` or the key `credentials.json`".to_owned();
                    return Err(secret.error(message));
                }
            };
        } else if let Some(path) = self.environment.get("GOOGLE_APPLICATION_CREDENTIALS") {
            builder = builder.with_application_credentials(path);
        }
        if let Some(url) = self.base_urls.get(&StorageKind::Gcs) {
            builder = builder.with_base_url(url);
        }
        let built = builder
            .with_bucket_name(&bucket.bucket)
            .with_retry(retries())
            .with_http_connector(self.connector.clone())
            .build();
        match built {
            Ok(store) => Ok(Arc::new(store)),
            // What the parser says could hold a piece of the key.
            Err(_) if secret.has("credentials.json") => Err(secret.error(
                "`credentials.json` must be the JSON key of a service account, with `client_email` and `private_key`"
                    .to_owned(),
            )),
            Err(error) => Err(unusable(bucket, &error)),
        }
    }

    fn variables(&self, prefix: &str) -> impl Iterator<Item = (&String, &String)> {
        self.environment.iter().filter(move |(name, _)| name.starts_with(prefix))
    }
}

#[async_trait]
impl Stores for ObjectStores {
    async fn open(
        &self,
        bucket: &BucketLocation,
        credentials: &Credentials,
    ) -> Result<Arc<dyn ObjectStore>, StoreError> {
        if bucket.bucket.is_empty() {
            let message = "must be `<bucket>/<key>`".to_owned();
            return Err(StoreError::Location { field: "path".to_owned(), message });
        }
        let secret = Secret { name: bucket.secret.as_deref().unwrap_or_default(), data: credentials.0.as_ref() };
        match bucket.storage {
            StorageKind::S3 => self.s3(bucket, &secret),
            StorageKind::Oss => self.oss(bucket, &secret),
            StorageKind::Abs => self.abs(bucket, &secret),
            StorageKind::Gcs => self.gcs(bucket, &secret),
        }
    }

    fn own_settings(&self, storage: StorageKind) -> Vec<String> {
        let is_read = |name: &&String| match storage {
            StorageKind::S3 => AWS_VARIABLES.contains(&name.as_str()),
            StorageKind::Abs => name.starts_with("AZURE_"),
            StorageKind::Gcs => *name == "GOOGLE_APPLICATION_CREDENTIALS",
            StorageKind::Oss => false,
        };
        self.environment.keys().filter(is_read).cloned().collect()
    }
}

fn retries() -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(200), max_backoff: Duration::from_secs(2), base: 2.0 };
    RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRY_TIMEOUT }
}

fn unusable(bucket: &BucketLocation, error: &object_store::Error) -> StoreError {
    StoreError::Location { field: format!("{} bucket `{}`", bucket.storage, bucket.bucket), message: error.to_string() }
}

fn azure_domain(cloud: &str) -> Result<&'static str, String> {
    if cloud.is_empty() {
        return Ok(AZURE_CLOUDS[0].1);
    }
    let found = AZURE_CLOUDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(cloud));
    let names: Vec<_> = AZURE_CLOUDS.iter().map(|(name, _)| *name).collect();
    found.map(|(_, domain)| *domain).ok_or_else(|| format!("`cloud` must be one of {}", names.join(", ")))
}

/// `oss-cn-hangzhou` of `oss-cn-hangzhou-internal.aliyuncs.com`; it is signed, and OSS checks little more than its form.
fn oss_region(authority: &str) -> String {
    let host = authority.split(':').next().unwrap_or_default();
    let region = host.split('.').find(|label| label.starts_with("oss-")).unwrap_or("oss-cn-hangzhou");
    region.trim_end_matches("-internal").to_owned()
}

/// The endpoint of a store that speaks S3.
struct EndpointUrl {
    scheme: String,
    authority: String,
    path: String,
}

impl EndpointUrl {
    /// https when it does not say; which is how the archived operator's client took it.
    fn parse(field: &str, text: &str) -> Result<Self, StoreError> {
        let wrong = || StoreError::Location {
            field: field.to_owned(),
            message: format!("`{text}` must be a URL such as https://s3.example.com:9000"),
        };
        let url = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let url: http::Uri = url.parse().map_err(|_| wrong())?;
        let scheme = url.scheme_str().filter(|scheme| ["http", "https"].contains(scheme)).ok_or_else(wrong)?;
        let authority = url.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        if url.query().is_some() {
            return Err(wrong());
        }
        let path = url.path().trim_end_matches('/').to_owned();
        Ok(Self { scheme: scheme.to_owned(), authority: authority.to_string(), path })
    }

    /// Not in front of an address, and not with dots under TLS, where no wildcard certificate matches.
    fn takes_bucket_in_host(&self, bucket: &str) -> bool {
        let host = self.authority.parse::<http::uri::Authority>().map(|authority| authority.host().to_owned());
        let host = host.unwrap_or_default();
        let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        let certified = self.scheme == "http" || !bucket.contains('.');
        certified && !is_address
    }

    fn with_bucket(&self, bucket: &str) -> String {
        format!("{}://{bucket}.{}{}", self.scheme, self.authority, self.path)
    }
}

impl std::fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// The Secret, or that there is none. Errors name keys, never values.
struct Secret<'a> {
    name: &'a str,
    data: Option<&'a BTreeMap<String, Vec<u8>>>,
}

impl Secret<'_> {
    fn is_given(&self) -> bool {
        self.data.is_some()
    }

    fn has(&self, key: &str) -> bool {
        self.data.is_some_and(|data| data.contains_key(key))
    }

    fn error(&self, message: String) -> StoreError {
        StoreError::Credentials { secret: self.name.to_owned(), message }
    }

    fn missing(&self, field: &str, keys: &str) -> StoreError {
        StoreError::Location { field: field.to_owned(), message: format!("must name a Secret with the keys {keys}") }
    }

    fn required(&self, field: &str, keys: &str) -> Result<(), StoreError> {
        if self.is_given() { Ok(()) } else { Err(self.missing(field, keys)) }
    }

    /// The value of a key, without the white space that editors leave at its end.
    fn text(&self, key: &str) -> Result<String, StoreError> {
        let text = self.text_or_empty(key)?;
        if text.is_empty() { Err(self.error(format!("must have the key `{key}`, not empty"))) } else { Ok(text) }
    }

    fn text_or_empty(&self, key: &str) -> Result<String, StoreError> {
        let value = self.data.and_then(|data| data.get(key)).cloned().unwrap_or_default();
        let text = String::from_utf8(value).map_err(|_| self.error(format!("`{key}` must be text")))?;
        Ok(text.trim().to_owned())
    }
}

#[cfg(test)]
mod tests;
