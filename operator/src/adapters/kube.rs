//! The Kubernetes port over kube's client and `kube_runtime::watcher`.
//!
//! What matters is what an error says about the request (docs of [`KubernetesError`]): a connection that was never made
//! is `Unavailable`; a request that was sent and not answered is `Ambiguous`. kube's own time-outs are off by default, and its
//! own retries on ([`super::connect::client`] turns them off); every call here has a deadline, and a watch that stays silent for longer than the server lets it live is cut.
//!
//! Watches take objects as untyped values and read each for itself. One that does not decode (stored under the archived
//! operator's definitions, which had no schema) would otherwise fail the list of its kind, for all, and for ever.

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::{Method, Request};
use jiff::SignedDuration;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::time::Duration;

use crate::api::GROUP;
use crate::ports::kubernetes::CALL_DEADLINE;
use crate::ports::{Kind, Kubernetes, KubernetesError, Object, ObjectKey, Preconditions, Scope, WatchEvent};

/// The server ends a watch after this long, so that a silent one is noticed.
const WATCH_SECONDS: u32 = 290;
/// Objects asked for in one page of a list.
const PAGE_SIZE: u32 = 500;

/// The Kubernetes API through one client.
#[derive(Clone)]
pub struct KubeAdapter {
    client: Client,
    deadline: Duration,
}

impl KubeAdapter {
    /// Over this client. Its read time-out should be set to more than [`WATCH_SECONDS`]: see [`read_timeout`].
    pub fn new(client: Client) -> Self {
        Self { client, deadline: Duration::try_from(CALL_DEADLINE).expect("a positive constant") }
    }

    async fn call(
        &self,
        method: Method,
        path: String,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<Value, KubernetesError> {
        let writes = method != Method::GET;
        let mut request = Request::builder().method(method).uri(&path);
        if let Some((content_type, _)) = body {
            request = request.header(http::header::CONTENT_TYPE, content_type);
        }
        let request = request
            .body(body.map(|(_, bytes)| bytes).unwrap_or_default())
            .map_err(|error| KubernetesError::Invalid { message: format!("{path}: {error}") })?;
        #[expect(clippy::disallowed_methods, reason = "an adapter: the deadline of a real call")]
        let answer = tokio::time::timeout(self.deadline, self.client.request::<Value>(request)).await;
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(classify(&error, writes)),
            Err(_) => Err(unanswered(format!("no answer within {:?}", self.deadline), writes)),
        }
    }

    async fn call_with(
        &self,
        method: Method,
        path: String,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, KubernetesError> {
        self.call(method, path, Some((content_type, body.to_string().into_bytes()))).await
    }
}

/// What the client's read time-out should be: longer than a watch lives.
pub const fn read_timeout() -> Duration {
    Duration::from_secs(WATCH_SECONDS as u64 + 15)
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

#[async_trait]
impl Kubernetes for KubeAdapter {
    async fn get(&self, kind: Kind, key: &ObjectKey) -> Result<Option<Object>, KubernetesError> {
        match self.call(Method::GET, object_path(kind, key), None).await {
            Ok(value) => object(kind, value).map(Some),
            Err(KubernetesError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, kind: Kind, scope: &Scope, selector: Option<&str>) -> Result<Vec<Object>, KubernetesError> {
        let mut objects = Vec::new();
        let mut next = String::new();
        loop {
            let mut path = format!("{}?limit={PAGE_SIZE}", collection_path(kind, scope));
            if let Some(selector) = selector {
                path.push_str(&format!("&labelSelector={}", escaped(selector)));
            }
            if !next.is_empty() {
                path.push_str(&format!("&continue={}", escaped(&next)));
            }
            let mut list = self.call(Method::GET, path, None).await?;
            for item in list["items"].as_array_mut().map(std::mem::take).unwrap_or_default() {
                match object(kind, item) {
                    Ok(object) => objects.push(object),
                    Err(error) if kind.group() == GROUP => tracing::debug!(%error, "left out of a list"),
                    Err(error) => return Err(error),
                }
            }
            next = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if next.is_empty() {
                return Ok(objects);
            }
        }
    }

    async fn create(&self, created: &Object) -> Result<Object, KubernetesError> {
        let path = collection_path(created.kind(), &Scope::Namespace(created.key().namespace));
        object(created.kind(), self.call_with(Method::POST, path, JSON, &created.to_json()).await?)
    }

    async fn replace(&self, replaced: &Object) -> Result<Object, KubernetesError> {
        let path = object_path(replaced.kind(), &replaced.key());
        object(replaced.kind(), self.call_with(Method::PUT, path, JSON, &replaced.to_json()).await?)
    }

    async fn replace_status(&self, replaced: &Object) -> Result<Object, KubernetesError> {
        let path = format!("{}/status", object_path(replaced.kind(), &replaced.key()));
        object(replaced.kind(), self.call_with(Method::PUT, path, JSON, &replaced.to_json()).await?)
    }

    async fn merge_patch(&self, kind: Kind, key: &ObjectKey, patch: &Value) -> Result<Object, KubernetesError> {
        object(kind, self.call_with(Method::PATCH, object_path(kind, key), MERGE_PATCH, patch).await?)
    }

    async fn delete(
        &self,
        kind: Kind,
        key: &ObjectKey,
        preconditions: &Preconditions,
        grace_seconds: Option<i64>,
    ) -> Result<(), KubernetesError> {
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": { "uid": preconditions.uid },
        });
        if let Some(version) = &preconditions.resource_version {
            options["preconditions"]["resourceVersion"] = version.as_str().into();
        }
        if let Some(seconds) = grace_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        self.call_with(Method::DELETE, object_path(kind, key), JSON, &options).await.map(drop)
    }

    fn watch(&self, kind: Kind, scope: &Scope) -> BoxStream<'static, WatchEvent> {
        let resource = resource(kind);
        let api: Api<DynamicObject> = match scope {
            Scope::Cluster => Api::all_with(self.client.clone(), &resource),
            Scope::Namespace(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
        };
        let config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE_SIZE);
        told(kind, watcher(api, config).default_backoff()).boxed()
    }
}

fn resource(kind: Kind) -> ApiResource {
    ApiResource {
        group: kind.group().to_owned(),
        version: kind.version().to_owned(),
        api_version: kind.api_version(),
        kind: kind.as_str().to_owned(),
        plural: kind.plural().to_owned(),
    }
}

/// Reads each object, and gathers those of a list into one `Relisted`.
fn told(
    kind: Kind,
    events: impl Stream<Item = watcher::Result<Event<DynamicObject>>> + Send + 'static,
) -> impl Stream<Item = WatchEvent> + Send {
    let mut listed = Vec::new();
    events.filter_map(move |event| {
        let told = match event {
            Ok(Event::Init) => {
                listed.clear();
                None
            }
            Ok(Event::InitApply(object)) => match read(kind, object) {
                Ok(object) => {
                    listed.push(object);
                    None
                }
                Err(unreadable) => Some(unreadable),
            },
            Ok(Event::InitDone) => Some(WatchEvent::Relisted(std::mem::take(&mut listed))),
            Ok(Event::Apply(object)) => Some(read(kind, object).map_or_else(|why| why, WatchEvent::Applied)),
            // Whoever knows the object knows it from before it became unreadable, and was told of that.
            Ok(Event::Delete(object)) => read(kind, object).ok().map(WatchEvent::Deleted),
            Err(error) => Some(WatchEvent::Interrupted(interrupted(&error))),
        };
        std::future::ready(told)
    })
}

/// The object, or that it cannot be read.
fn read(kind: Kind, object: DynamicObject) -> Result<Object, WatchEvent> {
    let meta = object.metadata.clone();
    let json = serde_json::to_value(object);
    json.and_then(|json| Object::from_json(kind, json))
        .map_err(|error| WatchEvent::Unreadable { meta: Box::new(meta), why: error.to_string() })
}

fn interrupted(error: &watcher::Error) -> KubernetesError {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => classify(error, false),
        watcher::Error::WatchError(status) => from_status(status.code, &status.reason, &status.message, None, false),
        watcher::Error::NoResourceVersion => unanswered(error.to_string(), false),
    }
}

fn collection_path(kind: Kind, scope: &Scope) -> String {
    let prefix = if kind.group().is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group()) };
    match scope {
        Scope::Cluster => format!("{prefix}/{}/{}", kind.version(), kind.plural()),
        Scope::Namespace(namespace) => {
            format!("{prefix}/{}/namespaces/{}/{}", kind.version(), escaped(namespace), kind.plural())
        }
    }
}

fn object_path(kind: Kind, key: &ObjectKey) -> String {
    format!("{}/{}", collection_path(kind, &Scope::Namespace(key.namespace.clone())), escaped(&key.name))
}

/// Percent-encodes everything that is not unreserved (RFC 3986).
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn object(kind: Kind, value: Value) -> Result<Object, KubernetesError> {
    let part = |name: &str| value["metadata"][name].as_str().unwrap_or_default().to_owned();
    let key = ObjectKey::new(part("namespace"), part("name"));
    Object::from_json(kind, value)
        .map_err(|error| KubernetesError::Invalid { message: format!("{kind} {key} cannot be read: {error}") })
}

/// A write that may have been taken is ambiguous; a read can simply be repeated.
fn unanswered(message: String, writes: bool) -> KubernetesError {
    if writes {
        KubernetesError::Ambiguous { message }
    } else {
        KubernetesError::Unavailable { message, retry_after: None }
    }
}

fn classify(error: &kube::Error, writes: bool) -> KubernetesError {
    match error {
        kube::Error::Api(status) => {
            let seconds = status.details.as_ref().map(|details| i64::from(details.retry_after_seconds));
            from_status(status.code, &status.reason, &status.message, seconds, writes)
        }
        kube::Error::Service(source) if was_never_sent(source.as_ref()) => {
            KubernetesError::Unavailable { message: with_causes(error), retry_after: None }
        }
        kube::Error::Auth(_) => KubernetesError::Forbidden { message: with_causes(error) },
        kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => {
            KubernetesError::Invalid { message: with_causes(error) }
        }
        _ => unanswered(with_causes(error), writes),
    }
}

/// Only a failure to connect is proof that nothing was sent.
fn was_never_sent(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|error| error.is_connect()) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        cause = error.source();
    }
    text
}

/// From a metav1.Status (kubernetes/community, api-conventions.md, "Response Status Kind").
fn from_status(code: u16, reason: &str, message: &str, retry_after: Option<i64>, writes: bool) -> KubernetesError {
    let message = if message.is_empty() { format!("{code} {reason}") } else { message.to_owned() };
    let retry_after = retry_after.filter(|&seconds| seconds > 0).map(SignedDuration::from_secs);
    match code {
        404 => KubernetesError::NotFound { message },
        409 if reason == "AlreadyExists" => KubernetesError::AlreadyExists { message },
        409 => KubernetesError::Conflict { message },
        410 => KubernetesError::Expired { message },
        401 | 403 => KubernetesError::Forbidden { message },
        // 429 is given before the request is looked at (API priority and fairness).
        429 => KubernetesError::Unavailable { message, retry_after },
        400..=499 => KubernetesError::Invalid { message },
        // 500, 502, 503, 504 may come after the write: from a proxy, or when etcd timed out.
        _ => unanswered(message, writes),
    }
}

#[cfg(test)]
mod tests;
