//! Watching: a cursor over the history, without a thread, a channel or a clock.
use std::sync::Arc;

use serde_json::Value;

use super::request::ResourceName;
use super::resource::ResourceInfo;
use super::selector::Selector;
use super::status::Status;
use super::store::Commit;
use super::{Server, object};

/// What to watch, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchRequest {
    /// Which resource.
    pub resource: ResourceName,
    /// In one namespace, or in all.
    pub namespace: Option<String>,
    /// One object only.
    pub name: Option<String>,
    /// Which labels.
    pub label_selector: Option<String>,
    /// Which fields.
    pub field_selector: Option<String>,
    /// After which version; absent or "0": begin with what there is now.
    pub resource_version: Option<String>,
    /// Send bookmarks.
    pub allow_bookmarks: bool,
    /// `sendInitialEvents=true`: begin with what there is now, then a bookmark.
    pub send_initial_events: bool,
}

impl WatchRequest {
    /// Everything of a resource (in `namespace` unless that is empty) after `resource_version`.
    pub fn new(resource: ResourceName, namespace: &str, resource_version: Option<&str>) -> Self {
        Self {
            resource,
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: None,
            label_selector: None,
            field_selector: None,
            resource_version: resource_version.map(str::to_owned),
            allow_bookmarks: false,
            send_initial_events: false,
        }
    }
}

/// What happened. The objects carry the resourceVersion of the event.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum WatchEvent {
    Added(Arc<Value>),
    Modified(Arc<Value>),
    Deleted(Arc<Value>),
    Bookmark(u64),
}

impl WatchEvent {
    /// The object, unless it is a bookmark.
    pub fn object(&self) -> Option<&Arc<Value>> {
        match self {
            WatchEvent::Added(o) | WatchEvent::Modified(o) | WatchEvent::Deleted(o) => Some(o),
            WatchEvent::Bookmark(_) => None,
        }
    }
}

/// How far a watcher has read.
#[derive(Debug, Clone)]
pub struct WatchCursor {
    pub(crate) info: Arc<ResourceInfo>,
    namespace: Option<String>,
    selector: Selector,
    position: u64,
    told: u64,
    initial: std::collections::VecDeque<Arc<Value>>,
    bookmarks: bool,
    initial_bookmark: bool,
}

/// A watcher of a quiet resource is told of the version at least once per so many commits, so that it can resume.
const BOOKMARK_EVERY: u64 = 100;

impl WatchCursor {
    /// The version up to which everything was delivered.
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl Server {
    /// Begins to watch.
    pub fn watch(&self, request: &WatchRequest) -> Result<WatchCursor, Status> {
        let info = self.registry.find(&request.resource).ok_or_else(Status::no_such_path)?.clone();
        let selector = Selector::parse(&info, request.label_selector.as_deref(), request.field_selector.as_deref())?
            .named(request.name.as_deref());
        let asked = match request.resource_version.as_deref() {
            None | Some("" | "0") => None,
            Some(text) => Some(parse_version(text)?),
        };
        let mut cursor = WatchCursor {
            namespace: request.namespace.clone(),
            selector,
            position: asked.unwrap_or(self.store.version()),
            told: asked.unwrap_or(self.store.version()),
            initial: std::collections::VecDeque::new(),
            bookmarks: request.allow_bookmarks,
            initial_bookmark: request.send_initial_events,
            info,
        };
        if request.send_initial_events || asked.is_none() {
            cursor.position = self.store.version();
            cursor.told = cursor.position;
            let all = self.store.list(&cursor.info.storage, cursor.namespace.as_deref());
            cursor.initial = all.filter(|o| cursor.selector.matches(o)).map(|o| self.shown(&cursor.info, o)).collect();
        } else if cursor.position < self.store.oldest() {
            return Err(Status::expired(cursor.position, self.store.oldest()));
        }
        Ok(cursor)
    }

    /// The next events with a version of at most `up_to`; at most `limit` of them. 410 once the history has been
    /// compacted past the cursor: list and watch again.
    pub fn poll(&self, cursor: &mut WatchCursor, up_to: u64, limit: usize) -> Result<Vec<WatchEvent>, Status> {
        let mut events = Vec::new();
        while events.len() < limit {
            let Some(object) = cursor.initial.pop_front() else { break };
            events.push(WatchEvent::Added(object));
        }
        if events.len() >= limit {
            return Ok(events);
        }
        if std::mem::take(&mut cursor.initial_bookmark) {
            events.push(WatchEvent::Bookmark(cursor.position));
        }
        if cursor.position >= self.store.version() {
            return Ok(events);
        }
        let Some(commits) = self.store.since(cursor.position, up_to) else {
            return Err(Status::expired(cursor.position, self.store.oldest()));
        };
        for commit in commits {
            if events.len() >= limit {
                return Ok(events);
            }
            cursor.position = commit.version;
            if let Some(event) = self.event_of(cursor, commit) {
                cursor.told = commit.version;
                events.push(event);
            }
        }
        if cursor.bookmarks && cursor.position >= cursor.told + BOOKMARK_EVERY {
            cursor.told = cursor.position;
            events.push(WatchEvent::Bookmark(cursor.position));
        }
        Ok(events)
    }

    /// An object that leaves the selection is deleted as far as this watcher is concerned; one that enters is added.
    fn event_of(&self, cursor: &WatchCursor, commit: &Commit) -> Option<WatchEvent> {
        if *commit.key != cursor.info.storage {
            return None;
        }
        let wanted = |o: &Arc<Value>| {
            cursor.namespace.as_deref().is_none_or(|ns| ns == object::namespace(o)) && cursor.selector.matches(o)
        };
        let before = commit.before.as_ref().filter(|o| wanted(o));
        let after = commit.after.as_ref().filter(|o| wanted(o));
        let show = |o: &Arc<Value>| self.shown(&cursor.info, o);
        match (before, after) {
            (None, None) => None,
            (None, Some(new)) => Some(WatchEvent::Added(show(new))),
            (Some(_), Some(new)) => Some(WatchEvent::Modified(show(new))),
            (Some(old), None) => Some(WatchEvent::Deleted(match &commit.tombstone {
                Some(gone) => show(gone),
                None => {
                    let mut left = Value::clone(old);
                    let version = Value::String(commit.version.to_string());
                    object::meta_mut(&mut left).insert("resourceVersion".into(), version);
                    show(&Arc::new(left))
                }
            })),
        }
    }
}

pub(crate) fn parse_version(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| Status::bad_request(format!("invalid resource version {text:?}")))
}
