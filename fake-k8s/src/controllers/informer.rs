//! One kind as a controller sees it: a map of objects that is kept up by a watch cursor, so that a step costs what changed
//! and not what exists.
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::object::{self, Key};
use crate::server::{ResourceName, Server, WatchCursor, WatchEvent, WatchRequest};

/// Events taken from the server in one poll.
const POLL_EVENTS_MAX: usize = 256;

/// A change of one object; `old` is what the controller last saw.
#[derive(Clone, Debug)]
pub struct Change {
    /// Namespace and name.
    pub key: Key,
    /// What was known before; `None` when it is new.
    pub old: Option<Arc<Value>>,
    /// What it is now; `None` when it is gone.
    pub new: Option<Arc<Value>>,
}

/// The objects of one kind, by namespace and name.
#[derive(Debug)]
pub struct Informer {
    resource: ResourceName,
    field_selector: Option<String>,
    cursor: Option<WatchCursor>,
    seen: u64,
    objects: BTreeMap<Key, Arc<Value>>,
}

impl Informer {
    /// Watches `resource` in all namespaces; reads nothing before the first [`Informer::sync`].
    pub fn new(resource: ResourceName) -> Self {
        Self { resource, field_selector: None, cursor: None, seen: 0, objects: BTreeMap::new() }
    }

    /// Watches only what the field selector matches.
    pub fn matching(resource: ResourceName, field_selector: &str) -> Self {
        Self { field_selector: Some(field_selector.to_owned()), ..Self::new(resource) }
    }

    /// Takes in what was committed since the last call.
    pub fn sync(&mut self, server: &Server) -> Vec<Change> {
        let target = server.resource_version();
        if self.cursor.is_some() && self.seen == target {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if self.cursor.is_none() {
            self.relist(server, &mut changes);
        }
        while let Some(cursor) = &mut self.cursor {
            match server.poll(cursor, target, POLL_EVENTS_MAX) {
                Ok(events) => {
                    let last = events.len() < POLL_EVENTS_MAX;
                    events.into_iter().for_each(|event| self.take(event, &mut changes));
                    if last {
                        break;
                    }
                }
                // The history was compacted under the cursor: start again from a list, as every client must.
                Err(_) => self.relist(server, &mut changes),
            }
        }
        self.seen = target;
        changes
    }

    /// One object.
    pub fn find(&self, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter()
    }

    /// The objects of one namespace.
    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Value>> {
        let from = (namespace.to_owned(), String::new());
        self.objects.range(from..).take_while(move |((found, _), _)| found == namespace).map(|(_, value)| value)
    }

    /// Starts again from what there is now.
    fn relist(&mut self, server: &Server, changes: &mut Vec<Change>) {
        let mut watch = WatchRequest::new(self.resource.clone(), "", None);
        watch.field_selector.clone_from(&self.field_selector);
        // A resource that does not exist (its definition is gone) has no objects.
        self.cursor = server.watch(&watch).ok();
        let target = server.resource_version();
        let first = self.cursor.as_mut().and_then(|cursor| server.poll(cursor, target, usize::MAX).ok());
        let mut gone = std::mem::take(&mut self.objects);
        for new in first.iter().flatten().filter_map(WatchEvent::object) {
            let key = object::key(new);
            let old = gone.remove(&key);
            self.objects.insert(key.clone(), new.clone());
            let same = old.as_ref().is_some_and(|old| object::version(old) == object::version(new));
            if !same {
                changes.push(Change { key, old, new: Some(new.clone()) });
            }
        }
        changes.extend(gone.into_iter().map(|(key, old)| Change { key, old: Some(old), new: None }));
    }

    fn take(&mut self, event: WatchEvent, changes: &mut Vec<Change>) {
        let (key, old, new) = match event {
            WatchEvent::Added(value) | WatchEvent::Modified(value) => {
                let key = object::key(&value);
                let old = self.objects.insert(key.clone(), value.clone());
                (key, old, Some(value))
            }
            WatchEvent::Deleted(value) => {
                let key = object::key(&value);
                self.objects.remove(&key);
                // The last state travels with the event; it can be newer than what was last seen.
                (key, Some(value), None)
            }
            WatchEvent::Bookmark(_) => return,
        };
        changes.push(Change { key, old, new });
    }
}
