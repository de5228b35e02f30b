//! The objects and the history of their changes, each commit with the next resourceVersion.
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::object;
use super::resource::StorageKey;

/// Objects of one resource, by namespace and name.
pub(crate) type Collection = BTreeMap<String, BTreeMap<String, Arc<Value>>>;

/// One commit.
#[derive(Debug, Clone)]
pub(crate) struct Commit {
    pub version: u64,
    pub key: Arc<StorageKey>,
    /// The object before; absent when it was created.
    pub before: Option<Arc<Value>>,
    /// The object after; absent when it was deleted.
    pub after: Option<Arc<Value>>,
    /// Of a deletion: the last state, with the resourceVersion of the deletion.
    pub tombstone: Option<Arc<Value>>,
}

impl Commit {
    fn place(&self) -> Option<(&str, &str)> {
        let object = self.after.as_ref().or(self.before.as_ref())?;
        Some((object::namespace(object), object::name(object)))
    }
}

/// Commits are numbered without gaps, so a version finds its place in the history by subtraction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    objects: BTreeMap<Arc<StorageKey>, Collection>,
    history: VecDeque<Commit>,
    version: u64,
}

impl Store {
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The oldest version that a watch may start from.
    pub fn oldest(&self) -> u64 {
        self.version - self.history.len() as u64
    }

    pub fn get(&self, key: &StorageKey, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(key)?.get(namespace)?.get(name)
    }

    /// In order of namespace and name.
    pub fn list<'a>(
        &'a self,
        key: &StorageKey,
        namespace: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Value>> + 'a> {
        match (self.objects.get(key), namespace) {
            (None, _) => Box::new(std::iter::empty()),
            (Some(all), None) => Box::new(all.values().flat_map(BTreeMap::values)),
            (Some(all), Some(one)) => Box::new(all.get(one).into_iter().flat_map(BTreeMap::values)),
        }
    }

    /// The objects as they were just after commit `at`; `None` when the history does not reach back so far.
    pub fn list_at(&self, key: &StorageKey, namespace: Option<&str>, at: u64) -> Option<Vec<Arc<Value>>> {
        if at < self.oldest() {
            return None;
        }
        let mut then: BTreeMap<(String, String), Arc<Value>> = self
            .list(key, namespace)
            .map(|o| ((object::namespace(o).to_owned(), object::name(o).to_owned()), o.clone()))
            .collect();
        for commit in self.history.iter().rev().take_while(|c| c.version > at).filter(|c| *c.key == *key) {
            let Some((ns, name)) = commit.place() else { continue };
            if namespace.is_some_and(|wanted| wanted != ns) {
                continue;
            }
            let place = (ns.to_owned(), name.to_owned());
            match &commit.before {
                Some(before) => drop(then.insert(place, before.clone())),
                None => drop(then.remove(&place)),
            }
        }
        Some(then.into_values().collect())
    }

    /// Commits after `from` up to `up_to`; `None` when the first of them is forgotten.
    pub fn since(&self, from: u64, up_to: u64) -> Option<impl Iterator<Item = &Commit>> {
        let oldest = self.oldest();
        if from < oldest {
            return None;
        }
        let first = usize::try_from(from - oldest).unwrap_or(usize::MAX).min(self.history.len());
        Some(self.history.range(first..).take_while(move |c| c.version <= up_to))
    }

    /// Writes an object under the next version and returns it as written.
    pub fn put(&mut self, key: &StorageKey, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object::meta_mut(&mut object).insert("resourceVersion".into(), Value::String(self.version.to_string()));
        let object = Arc::new(object);
        let key = self.key(key);
        let places = self.objects.entry(key.clone()).or_default();
        let names = places.entry(object::namespace(&object).to_owned()).or_default();
        let before = names.insert(object::name(&object).to_owned(), object.clone());
        let after = Some(object.clone());
        self.history.push_back(Commit { version: self.version, key, before, after, tombstone: None });
        object
    }

    /// Removes an object; its tombstone is `last`, or what was stored.
    pub fn remove(&mut self, key: &StorageKey, namespace: &str, name: &str, last: Option<Value>) -> Option<Arc<Value>> {
        let key = self.key(key);
        let places = self.objects.get_mut(&key)?;
        let names = places.get_mut(namespace)?;
        let before = names.remove(name)?;
        if names.is_empty() {
            places.remove(namespace);
        }
        self.version += 1;
        let mut gone = last.unwrap_or_else(|| Value::clone(&before));
        object::meta_mut(&mut gone).insert("resourceVersion".into(), Value::String(self.version.to_string()));
        let gone = Arc::new(gone);
        let (before, tombstone) = (Some(before), Some(gone.clone()));
        self.history.push_back(Commit { version: self.version, key, before, after: None, tombstone });
        Some(gone)
    }

    /// Forgets all but the newest `keep` commits.
    pub fn compact(&mut self, keep: usize) {
        let surplus = self.history.len().saturating_sub(keep);
        self.history.drain(..surplus);
    }

    fn key(&mut self, key: &StorageKey) -> Arc<StorageKey> {
        if let Some((known, _)) = self.objects.get_key_value(key) {
            return known.clone();
        }
        let key = Arc::new(key.clone());
        self.objects.insert(key.clone(), Collection::new());
        key
    }
}
