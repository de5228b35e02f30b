//! The Kubernetes port over the fake server: quorum reads and writes at once, watches through a view that lags behind,
//! coalesces, is cut, and now and then starts over from an older state (A1, A2, A4, A5 of the fault list).

use async_trait::async_trait;
use etcd_operator::ports::{Kind, Kubernetes, KubernetesError, Object, ObjectKey, Preconditions, Scope, WatchEvent};
use fake_k8s::server::{self, Request, ResourceName, Status, WatchCursor, WatchRequest};
use futures::StreamExt;
use futures::channel::mpsc;
use futures::stream::BoxStream;
use serde_json::Value;
use std::collections::VecDeque;

use super::Caller;
use crate::effect::Effect;
use crate::network::Place;
use crate::store::FakeStore;
use crate::world::World;

/// The API server as this caller reaches it.
pub struct SimKubernetes(pub Caller);

fn resource(kind: Kind) -> ResourceName {
    ResourceName::new(kind.group(), kind.version(), kind.plural())
}

fn error(status: &Status) -> KubernetesError {
    let message = status.message.clone();
    match status.code {
        404 => KubernetesError::NotFound { message },
        409 if status.is_already_exists() => KubernetesError::AlreadyExists { message },
        409 => KubernetesError::Conflict { message },
        400 | 422 => KubernetesError::Invalid { message },
        401 | 403 => KubernetesError::Forbidden { message },
        410 => KubernetesError::Expired { message },
        429 | 503 => KubernetesError::Unavailable { message, retry_after: None },
        _ => KubernetesError::Ambiguous { message },
    }
}

fn parse(kind: Kind, value: Value) -> Result<Object, KubernetesError> {
    Object::from_json(kind, value).map_err(|error| KubernetesError::Invalid { message: error.to_string() })
}

impl SimKubernetes {
    async fn request(&self, effect: Option<Effect>, request: Request) -> Result<Value, KubernetesError> {
        let writes = effect.is_some();
        let answer = self
            .0
            .exchange(Place::Api, effect, move |world: &mut World| {
                if FakeStore::strikes(&mut world.faults.api_error_before) {
                    let message = "the server is currently unable to handle the request".to_owned();
                    return Err(KubernetesError::Unavailable { message, retry_after: None });
                }
                let now = world.timestamp();
                let result = world.server.handle(now, &request).map_err(|status| error(&status));
                world.lose_answer = writes && FakeStore::strikes(&mut world.faults.api_lost_answer);
                result
            })
            .await;
        answer.unwrap_or_else(|| Err(KubernetesError::Ambiguous { message: "request timed out".into() }))
    }
}

#[async_trait]
impl Kubernetes for SimKubernetes {
    async fn get(&self, kind: Kind, key: &ObjectKey) -> Result<Option<Object>, KubernetesError> {
        match self.request(None, Request::get(resource(kind), &key.namespace, &key.name)).await {
            Ok(value) => parse(kind, value).map(Some),
            Err(KubernetesError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, kind: Kind, scope: &Scope, selector: Option<&str>) -> Result<Vec<Object>, KubernetesError> {
        let mut request = Request::list(resource(kind), namespace(scope));
        request.options.label_selector = selector.map(str::to_owned);
        items(kind, self.request(None, request).await?)
    }

    async fn create(&self, object: &Object) -> Result<Object, KubernetesError> {
        let (kind, key) = (object.kind(), object.key());
        let effect = Effect::Create { kind: kind.to_string(), key: key.to_string() };
        let request = Request::create(resource(kind), &key.namespace, object.to_json());
        parse(kind, self.request(Some(effect), request).await?)
    }

    async fn replace(&self, object: &Object) -> Result<Object, KubernetesError> {
        let (kind, key, body) = (object.kind(), object.key(), object.to_json());
        let effect = Effect::Update { kind: kind.to_string(), key: key.to_string(), status: false, body: body.clone() };
        parse(
            kind,
            self.request(Some(effect), Request::replace(resource(kind), &key.namespace, &key.name, body)).await?,
        )
    }

    async fn replace_status(&self, object: &Object) -> Result<Object, KubernetesError> {
        let (kind, key, body) = (object.kind(), object.key(), object.to_json());
        let effect = Effect::Update { kind: kind.to_string(), key: key.to_string(), status: true, body: body.clone() };
        let request = Request::replace_status(resource(kind), &key.namespace, &key.name, body);
        parse(kind, self.request(Some(effect), request).await?)
    }

    async fn merge_patch(&self, kind: Kind, key: &ObjectKey, patch: &Value) -> Result<Object, KubernetesError> {
        let effect =
            Effect::Update { kind: kind.to_string(), key: key.to_string(), status: false, body: patch.clone() };
        let request = Request::merge_patch(resource(kind), &key.namespace, &key.name, patch.clone());
        parse(kind, self.request(Some(effect), request).await?)
    }

    async fn delete(
        &self,
        kind: Kind,
        key: &ObjectKey,
        preconditions: &Preconditions,
        grace_seconds: Option<i64>,
    ) -> Result<(), KubernetesError> {
        let uid = preconditions.uid.clone();
        let effect = Effect::Delete { kind: kind.to_string(), key: key.to_string(), uid: uid.clone() };
        let mut request = Request::delete(resource(kind), &key.namespace, &key.name);
        request.options.propagation = Some(server::Propagation::Background);
        request.options.grace_period_seconds = grace_seconds;
        if !uid.is_empty() {
            request = request.if_uid(&uid);
        }
        if let Some(version) = &preconditions.resource_version {
            request = request.if_version(version);
        }
        self.request(Some(effect), request).await.map(drop)
    }

    fn watch(&self, kind: Kind, scope: &Scope) -> BoxStream<'static, WatchEvent> {
        let watch = Watch {
            caller: self.0.clone(),
            kind,
            namespace: namespace(scope).to_owned(),
            cursor: None,
            ready: VecDeque::new(),
            wake: None,
            lag: 0,
            cuts_seen: 0,
        };
        futures::stream::unfold(watch, |mut watch| async move { Some((watch.next().await, watch)) }).boxed()
    }
}

fn namespace(scope: &Scope) -> &str {
    match scope {
        Scope::Cluster => "",
        Scope::Namespace(namespace) => namespace,
    }
}

fn items(kind: Kind, mut list: Value) -> Result<Vec<Object>, KubernetesError> {
    let Value::Array(items) = list["items"].take() else { return Ok(Vec::new()) };
    items.into_iter().map(|item| parse(kind, item)).collect()
}

/// One watch: a list that may be old, then events that come late.
struct Watch {
    caller: Caller,
    kind: Kind,
    namespace: String,
    cursor: Option<WatchCursor>,
    ready: VecDeque<WatchEvent>,
    wake: Option<mpsc::UnboundedReceiver<()>>,
    /// How far this replica is behind, in milliseconds; drawn anew at every reconnect.
    lag: u64,
    cuts_seen: u64,
}

impl Watch {
    async fn next(&mut self) -> WatchEvent {
        loop {
            self.caller.thawed().await;
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            if let Err(error) = self.fill().await {
                self.cursor = None;
                if matches!(error, KubernetesError::Expired { .. }) {
                    self.caller.shared.enter().sometimes.mark(crate::sometimes::RELISTED);
                }
                let pause = self.caller.shared.enter().streams.watch.between(200, 2000);
                self.caller.wait(pause).await;
                return WatchEvent::Interrupted(error);
            }
        }
    }

    async fn fill(&mut self) -> Result<(), KubernetesError> {
        if self.cursor.is_none() {
            let latency = self.caller.shared.enter().draw_latency(&Place::Api).0;
            self.caller.wait(latency).await;
            return self.start();
        }
        if let Some(wake) = &mut self.wake {
            // Either something was committed, or the driver wants every watch to look whether it was cut.
            let _ = wake.next().await;
            while wake.try_recv().is_ok() {}
        }
        let jitter = self.caller.shared.enter().streams.watch.between(1, 20);
        self.caller.wait(self.lag + jitter).await;
        self.advance()
    }

    /// Lists, at a version that may be old, and watches from there.
    fn start(&mut self) -> Result<(), KubernetesError> {
        let mut world = self.caller.shared.enter();
        self.cuts_seen = world.faults.watch_cuts;
        if !world.network.linked(&self.caller.place, &Place::Api) {
            let message = "connection refused".into();
            return Err(KubernetesError::Unavailable { message, retry_after: None });
        }
        self.lag = world.draw_lag();
        let at = world.version_before(self.lag);
        let request = Request::list(resource(self.kind), &self.namespace);
        let list = world.server.snapshot_list(&request, at).map_err(|status| error(&status))?;
        let from = at.to_string();
        let watch = WatchRequest::new(resource(self.kind), &self.namespace, Some(&from));
        self.cursor = Some(world.server.watch(&watch).map_err(|status| error(&status))?);
        self.wake = Some(world.subscribe());
        drop(world);
        self.ready.push_back(WatchEvent::Relisted(items(self.kind, list)?));
        Ok(())
    }

    fn advance(&mut self) -> Result<(), KubernetesError> {
        let world = self.caller.shared.enter();
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        if self.cuts_seen != world.faults.watch_cuts {
            let message = "the watch was cut".into();
            return Err(KubernetesError::Unavailable { message, retry_after: None });
        }
        if !world.network.linked(&self.caller.place, &Place::Api) {
            return Ok(());
        }
        let up_to = world.version_before(self.lag);
        let events = world.server.poll(cursor, up_to, usize::MAX).map_err(|status| error(&status))?;
        drop(world);
        for event in events {
            let (object, gone) = match event {
                server::WatchEvent::Added(object) | server::WatchEvent::Modified(object) => (object, false),
                server::WatchEvent::Deleted(object) => (object, true),
                server::WatchEvent::Bookmark(_) => continue,
            };
            let object = parse(self.kind, Value::clone(&object))?;
            self.ready.push_back(if gone { WatchEvent::Deleted(object) } else { WatchEvent::Applied(object) });
        }
        Ok(())
    }
}
