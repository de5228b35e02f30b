//! One opened bucket: the few operations that backups need, each bounded in time, with errors that say what to do.
//!
//! Bounded means without progress: an operation fails when nothing moves for `stall`, however large the object is.
//! Store clients put what the server said into their errors, and servers repeat access keys and signatures in what they
//! say; so a message is taken apart here, and only its code and what cannot be a secret goes on.

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::SignedDuration;
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use super::names::MANIFEST_SUFFIX;
use super::resume;
use super::snapshot::Pages;
use crate::ports::clock::deadline;
use crate::ports::{Clock, Credentials, SecretWords};

/// Most objects that one list looks at; a bucket with more beside our key is looked at in part, and nothing is lost by
/// it but room.
const LISTED_MAX: usize = 1_000_000;
/// Messages of stores are cut here.
const MESSAGE_MAX: usize = 300;
/// Longest code of a server that is one.
const CODE_MAX: usize = 64;

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// There is no such object.
    NotFound,
    /// The bucket or container is not there.
    BucketMissing,
    /// The object changed or appeared since it was looked at.
    Exists,
    /// The store refused the credentials, or they may not do this.
    CredentialsRefused,
    /// The store cannot do this kind of request.
    Unsupported,
    /// The store does not answer.
    Unreachable,
    /// Nothing moved for as long as `timeoutInSecond` allows.
    TimedOut,
    /// The store answered with an error.
    Failed,
}

/// A request that a store did not carry out, or may not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} `{bucket}/{key}`: {message}")]
pub struct StoreFailure {
    /// What was tried.
    pub operation: &'static str,
    /// In which bucket.
    pub bucket: String,
    /// On which object.
    pub key: String,
    /// Which kind of failure.
    pub trouble: Trouble,
    /// For people; holds no secret.
    pub message: String,
}

/// When an object may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Only where there is none: periodic backups never overwrite.
    Create,
    /// In the place of what was seen there, if anything: a one-shot backup's fixed path.
    Replace,
}

/// A bucket.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    clock: Arc<dyn Clock>,
    name: String,
    stall: SignedDuration,
    secrets: Arc<SecretWords>,
}

impl Bucket {
    /// `credentials` only tell what must never be printed.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        clock: Arc<dyn Clock>,
        name: &str,
        stall: SignedDuration,
        credentials: &Credentials,
    ) -> Self {
        Self { store, clock, name: name.to_owned(), stall, secrets: Arc::new(credentials.words()) }
    }

    /// The clock that the bucket's deadlines are measured with.
    pub fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// How long anything may stand still.
    pub fn stall(&self) -> SignedDuration {
        self.stall
    }

    fn failure(&self, operation: &'static str, key: &str, trouble: Trouble, message: String) -> StoreFailure {
        StoreFailure { operation, bucket: self.name.clone(), key: key.to_owned(), trouble, message }
    }

    /// Our words for a client's error.
    pub fn explain(&self, operation: &'static str, key: &str, error: &object_store::Error) -> StoreFailure {
        let (trouble, message) = explain(error, &self.secrets);
        self.failure(operation, key, trouble, message)
    }

    /// Runs one request within the deadline.
    pub async fn bounded<T>(
        &self,
        operation: &'static str,
        key: &str,
        request: impl Future<Output = object_store::Result<T>> + Send,
    ) -> Result<T, StoreFailure> {
        match deadline(self.clock.as_ref(), self.stall, request).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.explain(operation, key, &error)),
            Err(late) => Err(self.failure(operation, key, Trouble::TimedOut, late.to_string())),
        }
    }

    fn path(&self, key: &str) -> Result<Path, StoreFailure> {
        let unusable = |error| self.failure("naming", key, Trouble::Unsupported, format!("not a usable key: {error}"));
        Path::parse(key).map_err(unusable)
    }

    /// What the store says of an object; none when it is not there.
    pub async fn head(&self, key: &str) -> Result<Option<ObjectMeta>, StoreFailure> {
        let path = self.path(key)?;
        none_if_missing(self.bounded("looking for", key, self.store.head(&path)).await)
    }

    /// Size and bytes of an object; none when it is not there. Each chunk has the deadline of its own.
    pub async fn get(
        &self,
        key: &str,
    ) -> Result<Option<(u64, BoxStream<'static, Result<Bytes, StoreFailure>>)>, StoreFailure> {
        let path = self.path(key)?;
        let got = none_if_missing(self.bounded("reading", key, resume::get(&self.store, &path)).await)?;
        let Some((meta, stream)) = got else { return Ok(None) };
        let size = meta.size;
        let (bucket, key) = (self.clone(), key.to_owned());
        let chunks = futures::stream::unfold(Some(stream), move |stream| {
            let (bucket, key) = (bucket.clone(), key.clone());
            async move {
                let mut stream = stream?;
                let next = async { Ok(stream.next().await.transpose()) };
                match bucket.bounded("reading", &key, next).await {
                    Ok(Ok(Some(chunk))) => Some((Ok(chunk), Some(stream))),
                    Ok(Ok(None)) => None,
                    Ok(Err(error)) => Some((Err(bucket.explain("reading", &key, &error)), None)),
                    Err(failure) => Some((Err(failure), None)),
                }
            }
        });
        Ok(Some((size, chunks.boxed())))
    }

    /// A small object as a whole; none when it is not there or larger than it should be.
    pub async fn get_small(&self, key: &str, size_max: u64) -> Result<Option<Vec<u8>>, StoreFailure> {
        let Some((size, mut chunks)) = self.get(key).await? else { return Ok(None) };
        if size > size_max {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk?);
        }
        Ok(Some(bytes))
    }

    /// Writes a small object with one request.
    ///
    /// A precondition carries the mode where the store has them. Where it has none (`Unsupported`), the place is looked
    /// at just before; two writers within that moment remain possible there, and what is confirmed afterwards is what
    /// the store then holds.
    pub async fn put(&self, key: &str, payload: Bytes, mode: &WriteMode) -> Result<(), StoreFailure> {
        let path = self.path(key)?;
        let present = match mode {
            WriteMode::Create => None,
            WriteMode::Replace => self.head(key).await?,
        };
        let precondition = match present {
            None => PutMode::Create,
            Some(meta) if meta.e_tag.is_some() || meta.version.is_some() => {
                PutMode::Update(object_store::UpdateVersion { e_tag: meta.e_tag, version: meta.version })
            }
            Some(_) => PutMode::Overwrite,
        };
        let put =
            |mode: PutMode| self.store.put_opts(&path, PutPayload::from_bytes(payload.clone()), PutOptions::from(mode));
        match self.bounded("writing", key, put(precondition)).await {
            Err(failure) if failure.trouble == Trouble::Unsupported => {
                self.refuse_if_present(key, mode).await?;
                self.bounded("writing", key, put(PutMode::Overwrite)).await.map(drop)
            }
            other => other.map(drop),
        }
    }

    /// For writes that cannot carry a precondition: fails when a new object's place is taken.
    pub async fn refuse_if_present(&self, key: &str, mode: &WriteMode) -> Result<(), StoreFailure> {
        if *mode == WriteMode::Create && self.head(key).await?.is_some() {
            return Err(self.failure("writing", key, Trouble::Exists, "there is an object of this name".to_owned()));
        }
        Ok(())
    }

    /// Opens a multipart upload.
    pub async fn multipart(&self, key: &str) -> Result<Box<dyn MultipartUpload>, StoreFailure> {
        let path = self.path(key)?;
        self.bounded("beginning to write", key, self.store.put_multipart(&path)).await
    }

    /// Removes an object; that it is gone already is as good.
    pub async fn delete(&self, key: &str) -> Result<(), StoreFailure> {
        let path = self.path(key)?;
        none_if_missing(self.bounded("removing", key, self.store.delete(&path)).await).map(drop)
    }

    /// Keys that begin with `prefix`, each with whether its manifest was listed too. Manifests themselves are left out.
    pub async fn list(&self, prefix: &str) -> Result<BTreeMap<String, bool>, StoreFailure> {
        let directory = match prefix.rsplit_once('/') {
            Some((directory, _)) => Some(self.path(directory)?),
            None => None,
        };
        // From the first key that can be one of ours to the first that is behind them: beside a key at the root lies all
        // that the bucket holds, and a name there that this client cannot read ends the list. (All four stores list in the
        // order of the keys' bytes.)
        let offset = self.path(prefix)?;
        let mut objects = self.store.list_with_offset(directory.as_ref(), &offset);
        let mut keys = Vec::new();
        for _ in 0..LISTED_MAX {
            let next = async { objects.next().await.transpose() };
            let Some(meta) = self.bounded("listing", prefix, next).await? else { break };
            let key = meta.location.to_string();
            if key.starts_with(prefix) {
                keys.push(key);
            } else if key.as_str() > prefix {
                break;
            }
        }
        let mut listed: BTreeMap<String, bool> =
            keys.iter().filter(|key| !key.ends_with(MANIFEST_SUFFIX)).map(|key| (key.clone(), false)).collect();
        for key in &keys {
            if let Some(backup) = key.strip_suffix(MANIFEST_SUFFIX).and_then(|key| listed.get_mut(key)) {
                *backup = true;
            }
        }
        Ok(listed)
    }

    /// Random access to one object.
    pub fn pages<'a>(&'a self, key: &'a str) -> StoredPages<'a> {
        StoredPages { bucket: self, key }
    }
}

/// An object read by ranges.
pub struct StoredPages<'a> {
    bucket: &'a Bucket,
    key: &'a str,
}

#[async_trait]
impl Pages for StoredPages<'_> {
    type Error = StoreFailure;

    /// No hash covers these few reads, so each is done twice.
    async fn read_at(&self, range: Range<u64>) -> Result<Bytes, StoreFailure> {
        let path = self.bucket.path(self.key)?;
        let read = async || {
            let range = Some(GetRange::Bounded(range.clone()));
            let options = GetOptions { range, ..GetOptions::default() };
            let read = async { self.bucket.store.get_opts(&path, options).await?.bytes().await };
            self.bucket.bounded("reading", self.key, read).await
        };
        let bytes = read().await?;
        if read().await? == bytes {
            return Ok(bytes);
        }
        let message = "the store gives different bytes for the same object".to_owned();
        Err(self.bucket.failure("reading", self.key, Trouble::Failed, message))
    }
}

fn none_if_missing<T>(result: Result<T, StoreFailure>) -> Result<Option<T>, StoreFailure> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(failure) if failure.trouble == Trouble::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Kind of a client's error, and what may be printed of it. Nothing else may: the error itself repeats what a server said.
pub fn explain(error: &object_store::Error, secrets: &SecretWords) -> (Trouble, String) {
    let whole = error.to_string();
    let says = |words: &[&str]| words.iter().any(|word| whole.contains(word));
    let bucket_missing =
        || says(&["NoSuchBucket", "ContainerNotFound", "bucket does not exist", "container does not exist"]);
    let refused = || {
        says(&["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "AuthenticationFailed", "ExpiredToken"])
            || says(&["401 Unauthorized", "403 Forbidden", "invalid_grant", "RequestTimeTooSkewed"])
    };
    let trouble = match error {
        _ if bucket_missing() => Trouble::BucketMissing,
        object_store::Error::NotFound { .. } => Trouble::NotFound,
        object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. } => Trouble::Exists,
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            Trouble::CredentialsRefused
        }
        object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. } => Trouble::Unsupported,
        // What stores that speak S3 without preconditions say, with 400 or 501.
        _ if code(&whole) == Some("NotImplemented") || says(&["501 Not Implemented"]) => Trouble::Unsupported,
        _ if refused() => Trouble::CredentialsRefused,
        _ if says(&["connect", "dns error", "timed out", "timeout", "unreachable", "503", "SlowDown", "429"]) => {
            Trouble::Unreachable
        }
        _ => Trouble::Failed,
    };
    (trouble, message(trouble, error, &whole, secrets))
}

fn message(trouble: Trouble, error: &object_store::Error, whole: &str, secrets: &SecretWords) -> String {
    let words = match trouble {
        Trouble::NotFound => "there is no such object",
        Trouble::BucketMissing => "the bucket does not exist",
        Trouble::Exists => "there is another object of this name",
        Trouble::CredentialsRefused => "the store refused the credentials",
        Trouble::Unsupported => "the store does not support the request",
        Trouble::Unreachable => "the store does not answer",
        Trouble::TimedOut | Trouble::Failed => "the store failed",
    };
    let mut detail = code(whole).map_or_else(|| without_body(&innermost(error)), str::to_owned);
    if detail.contains('<') || secrets.are_in(&detail) {
        detail.clear();
    }
    let detail: String = detail.chars().filter(|c| !c.is_control()).take(MESSAGE_MAX).collect();
    if detail.is_empty() { words.to_owned() } else { format!("{words} ({detail})") }
}

/// The server's own word for the failure: a code of S3, OSS and ABS, a reason of GCS, an error of OAuth. One word, or it
/// is none.
fn code(whole: &str) -> Option<&str> {
    let ends = [("<Code>", "<"), ("\"reason\": \"", "\""), ("\"reason\":\"", "\""), ("\"error\":\"", "\"")];
    ends.iter().find_map(|(before, after)| {
        let (word, _) = whole.split_once(before)?.1.split_once(after)?;
        let is_word = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        (!word.is_empty() && word.len() <= CODE_MAX && is_word(word)).then_some(word)
    })
}

/// A client's words up to where it begins to repeat the body of an answer, whatever form that has.
fn without_body(said: &str) -> String {
    for (before, is_status) in [("non-2xx status code: ", true), ("returned error response", false)] {
        let Some((head, rest)) = said.split_once(before) else { continue };
        let status = if is_status { rest.split(':').next().unwrap_or_default().trim_end() } else { "" };
        return format!("{head}{before}{status}");
    }
    said.to_owned()
}

fn innermost(error: &object_store::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn what_a_server_repeats_of_our_credentials_goes_no_further() {
        let body = "Server returned non-2xx status code: 403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code>\
                    <AWSAccessKeyId>AKIAEXAMPLEKEY</AWSAccessKeyId></Error>";
        let (trouble, message) = explain(&generic(body), &SecretWords::default());
        assert_eq!(trouble, Trouble::CredentialsRefused);
        assert_eq!(message, "the store refused the credentials (SignatureDoesNotMatch)");

        let file = b"[default]\naws_secret_access_key = s3cr3t-example-value\n".to_vec();
        let secrets = Credentials(Some([("credentials".to_owned(), file)].into())).words();
        let (_, message) = explain(&generic("cannot use s3cr3t-example-value here"), &secrets);
        assert_eq!(message, "the store failed");
    }

    /// Whatever the body is: a proxy's text, JSON, XML of another kind.
    #[test]
    fn no_part_of_a_body_is_repeated_but_a_code() {
        let status = "Error performing GET in 3ms - Server returned non-2xx status code: 403 Forbidden: ";
        for (body, detail) in [
            ("token MARKER is not valid", "403 Forbidden"),
            ("token MARKER: <not valid>", "403 Forbidden"),
            (r#"{"error": {"message": "MARKER", "errors": [{"reason": "forbidden"}]}}"#, "(forbidden)"),
            (r#"{"error":"invalid_grant","error_description":"MARKER"}"#, "(invalid_grant)"),
            ("<Error><Code>Sent MARKER</Code></Error>", "403 Forbidden"),
        ] {
            let (trouble, message) = explain(&generic(&format!("{status}{body}")), &SecretWords::default());
            assert_eq!(trouble, Trouble::CredentialsRefused, "{body}");
            assert!(message.contains(detail) && !message.contains("MARKER"), "{message}");
        }
        let (_, message) = explain(&generic("Server returned error response: MARKER"), &SecretWords::default());
        assert!(!message.contains("MARKER"), "{message}");
    }

    #[test]
    fn kinds_of_failure_are_told_apart() {
        for (text, expected) in [
            ("<Code>NoSuchBucket</Code>", Trouble::BucketMissing),
            ("error trying to connect: dns error", Trouble::Unreachable),
            ("500 Internal Server Error", Trouble::Failed),
        ] {
            assert_eq!(explain(&generic(text), &SecretWords::default()).0, expected, "{text}");
        }
    }
}
