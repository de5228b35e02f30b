//! The HTTP front: the server of this crate as real clients see it, on HTTP/1.1 and HTTP/2; plain for everybody, or with TLS
//! for whoever has the token.
//!
//! This is where the clock, the threads and the sockets are; every decision is the [`Server`]'s.
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::server::{Reason, ResourceInfo, ResourceName, Server, Status};

pub mod access;
mod answer;
mod deprecation;
mod discovery;
pub mod driver;
pub mod logs;
mod openapi;
mod protobuf;
mod route;
mod tls;
mod watching;

use access::Access;
use logs::LogSource;
use route::{Served, Target, Words};
use tls::TlsListener;

/// The largest body that is read: etcd's own limit of 1.5 MiB, doubled as Kubernetes does for its requests.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Commits that are kept: a watcher that is further behind lists again.
const HISTORY: usize = 20_000;

/// The server, shared between connections and controllers.
#[derive(Clone)]
pub struct Shared {
    inner: Arc<Inner>,
}

struct Inner {
    server: Mutex<Server>,
    version: watch::Sender<u64>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    logs: Mutex<Option<Arc<dyn LogSource>>>,
}

impl Shared {
    /// Shares a server that lives by the clock of this machine.
    #[allow(clippy::disallowed_methods)] // The HTTP front is the live edge: here real time comes in.
    pub fn new(server: Server) -> Self {
        Self::with_clock(server, Timestamp::now)
    }

    /// Shares a server that lives by another clock.
    pub fn with_clock(server: Server, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let (version, _) = watch::channel(server.resource_version());
        let inner = Inner { server: Mutex::new(server), version, clock: Box::new(clock), logs: Mutex::new(None) };
        Self { inner: Arc::new(inner) }
    }

    /// Runs something under the lock, and wakes watchers and drivers when it committed.
    pub fn run<T>(&self, work: impl FnOnce(Timestamp, &mut Server) -> T) -> T {
        let now = self.now();
        let mut server = self.lock();
        let result = work(now, &mut server);
        let version = server.resource_version();
        server.compact(HISTORY);
        drop(server);
        self.inner.version.send_if_modified(|known| {
            let newer = version > *known;
            *known = version.max(*known);
            newer
        });
        result
    }

    /// The version of the last commit, as it changes: a driver steps its controllers on each change.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.inner.version.subscribe()
    }

    /// Where the logs of containers come from.
    pub fn set_log_source(&self, source: Arc<dyn LogSource>) {
        *self.inner.logs.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    /// The time by the clock of this server.
    pub fn now(&self) -> Timestamp {
        (self.inner.clock)()
    }

    fn log_source(&self) -> Option<Arc<dyn LogSource>> {
        self.inner.logs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A request that panicked has committed whole changes or none: the server stays usable.
    fn lock(&self) -> MutexGuard<'_, Server> {
        self.inner.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves on `listener` until `stop` is ready; with `access`, only who has it, and encrypted.
pub async fn serve(
    shared: Shared,
    listener: std::net::TcpListener,
    access: Option<Arc<Access>>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let app = Router::new().fallback(handle).with_state(shared);
    let serving = async {
        let Some(access) = access else { return axum::serve(listener, app).await };
        let encrypted = TlsListener { tcp: listener, config: access.config.clone() };
        let app = app.layer(axum::middleware::from_fn_with_state(access, access::check));
        axum::serve(encrypted, app).await
    };
    tokio::select! {
        // Watches never end by themselves: stopping means leaving them.
        () = stop => Ok(()),
        result = serving => result,
    }
}

/// Answers a request without a socket.
pub async fn answer_in_process(shared: &Shared, request: axum::extract::Request) -> Response {
    handle(State(shared.clone()), request).await
}

async fn handle(State(shared): State<Shared>, request: axum::extract::Request) -> Response {
    let (head, body) = request.into_parts();
    let words = Words::of(&head);
    let body = match to_bytes(body, BODY_LIMIT).await {
        Ok(bytes) => bytes,
        Err(_) => {
            let message = format!("limit is {BODY_LIMIT} bytes");
            return answer::failure(&Status::new(Reason::RequestEntityTooLarge, message));
        }
    };
    let response = match answer_to(&shared, &words, &body) {
        Ok(response) => response,
        Err(status) => answer::failure(&status),
    };
    deprecation::with_warning(&words, response)
}

fn answer_to(shared: &Shared, words: &Words, body: &[u8]) -> Result<Response, Status> {
    match route::target(words, body, &|name, sub| served(&shared.lock(), name, sub))? {
        Target::Nowhere => Ok(answer::nowhere()),
        Target::Health => Ok(answer::text("ok")),
        Target::Version => Ok(answer::json(200, &discovery::version())),
        Target::Discovery(path) => discovery::answer(shared, &path).map(|v| answer::json(200, &v)),
        Target::OpenApi(path) => openapi::answer(shared, &path).map(|v| answer::json(200, &v)),
        Target::AccessReview => {
            // Whatever is asked, and in whatever form: the answer is yes.
            let mut review = serde_json::from_slice(body).unwrap_or_else(
                |_| serde_json::json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}),
            );
            review["status"] = serde_json::json!({"allowed": true, "reason": "everybody may do everything here"});
            Ok(answer::json(201, &review))
        }
        Target::Logs { namespace, pod } => logs::answer(shared, words, &namespace, &pod),
        Target::Watch(request) => watching::answer(shared, words, &request),
        Target::Request(mut request) => {
            request.body = route::decode_body(words, body)?;
            request.raw = body.to_vec();
            route::check_body(&request)?;
            let (result, warnings, created) = shared.run(|now, server| {
                let result = server.handle(now, &request).map(|v| answer::shape(server, words, &request, v, now));
                (result, server.warnings().to_vec(), server.created())
            });
            let response = match result {
                Ok(value) => answer::json(answer::code_of(&request, created), &value),
                Err(status) => answer::failure(&status),
            };
            Ok(answer::with_warnings(response, &warnings))
        }
    }
}

/// What there is of a resource, for the route to a request.
fn served(server: &Server, name: &ResourceName, sub: Option<&str>) -> Result<Served, bool> {
    let Some(info) = server.resource(&name.group, &name.version, &name.plural) else {
        let near =
            |info: &ResourceInfo| !info.custom && info.name.group == name.group && info.name.version == name.version;
        return Err(server.resources().any(near));
    };
    let subresource = sub.is_none_or(|sub| info.has_subresource(sub));
    Ok(Served { custom: info.custom, namespaced: info.namespaced, subresource })
}

/// A body that is streamed.
fn stream(body: Body, content_type: &'static str) -> Response {
    let mut response = Response::new(body);
    let value = http::HeaderValue::from_static(content_type);
    response.headers_mut().insert(http::header::CONTENT_TYPE, value);
    response
}

/// A kubeconfig that leads to a server at `address` that lets everybody in.
pub fn kubeconfig(address: std::net::SocketAddr) -> String {
    kubeconfig_of(&format!("http://{address}"), "{}")
}

fn kubeconfig_of(server: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: fake\nclusters:\n- name: fake\n  cluster:\n    server: {server}\ncontexts:\n- name: fake\n  context:\n    cluster: fake\n    user: fake\n    namespace: default\nusers:\n- name: fake\n  user: {user}\n"
    )
}
