//! Garbage collection by owner references: an object goes when the last of its owners is gone; an owner that is deleted in
//! the foreground waits for the dependents that block it; one that is orphaned leaves them behind.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Controller;
use super::informer::Informer;
use super::object;
use crate::server::{Propagation, Request, ResourceName, Server};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// An object in the graph.
#[derive(Clone, Debug)]
struct Entry {
    resource: ResourceName,
    object: Arc<Value>,
}

/// The garbage collector with its graph of owners and dependents.
#[derive(Debug, Default)]
pub struct GarbageCollector {
    informers: BTreeMap<ResourceName, Informer>,
    known_version: u64,
    /// Of the resources that are watched; the first is not zero.
    known_resources: u64,
    entries: BTreeMap<String, Entry>,
    dependents: BTreeMap<String, BTreeSet<String>>,
    /// Uids that must be looked at.
    stale: BTreeSet<String>,
}

impl GarbageCollector {
    /// A collector that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn sync(&mut self, server: &Server) {
        if self.known_version == server.resource_version() {
            return;
        }
        self.known_version = server.resource_version();
        if self.known_resources != server.resources_generation() {
            self.known_resources = server.resources_generation();
            self.watch_what_is_served(server);
        }
        for (resource, informer) in &mut self.informers {
            for change in informer.sync(server) {
                if let Some(old) = &change.old {
                    let same = change.new.as_ref().is_some_and(|new| object::uid(new) == object::uid(old));
                    remove(&mut self.entries, &mut self.dependents, &mut self.stale, old, !same);
                }
                if let Some(new) = change.new {
                    self.stale.insert(object::uid(&new).to_owned());
                    for owner in owners(&new) {
                        self.stale.insert(owner.to_owned());
                        self.dependents.entry(owner.to_owned()).or_default().insert(object::uid(&new).to_owned());
                    }
                    let entry = Entry { resource: resource.clone(), object: new };
                    self.entries.insert(object::uid(&entry.object).to_owned(), entry);
                }
            }
        }
    }

    /// One version of each kind; Events own nothing and are owned by nobody.
    fn watch_what_is_served(&mut self, server: &Server) {
        let mut served: BTreeMap<(String, String), ResourceName> = BTreeMap::new();
        for info in server.resources().filter(|info| info.name.plural != "events") {
            let kind = (info.name.group.clone(), info.name.plural.clone());
            served.entry(kind).or_insert_with(|| info.name.clone());
        }
        let served: BTreeSet<ResourceName> = served.into_values().collect();
        self.informers.retain(|resource, informer| {
            let stays = served.contains(resource);
            if !stays {
                for (_, object) in informer.iter() {
                    remove(&mut self.entries, &mut self.dependents, &mut self.stale, object, true);
                }
            }
            stays
        });
        for resource in served {
            self.informers.entry(resource.clone()).or_insert_with(|| Informer::new(resource));
        }
    }

    fn tend(&mut self, server: &mut Server, now: Timestamp, uid: &str) {
        let Some(entry) = self.entries.get(uid).cloned() else { return };
        if object::is_terminating(&entry.object) {
            if has_finalizer(&entry.object, ORPHAN) {
                self.orphan_dependents(server, now, &entry);
            } else if has_finalizer(&entry.object, FOREGROUND) {
                self.delete_dependents(server, now, &entry);
            }
            return;
        }
        self.collect(server, now, &entry);
    }

    /// Deletes a dependent without owners, and takes references to owners that are gone out of one that has others.
    fn collect(&self, server: &mut Server, now: Timestamp, entry: &Entry) {
        let references = object::items(&entry.object, "/metadata/ownerReferences");
        if references.is_empty() {
            return;
        }
        let (present, absent): (Vec<&Value>, Vec<&Value>) =
            references.iter().partition(|reference| self.owner_of(server, &entry.object, reference).is_some());
        // An owner that waits for this dependent is as good as gone.
        let waiting = present.iter().filter(|reference| {
            let owner = self.owner_of(server, &entry.object, reference);
            let waits = owner.is_some_and(|owner| object::is_terminating(&owner) && has_finalizer(&owner, FOREGROUND));
            waits && object::flag(reference, "/blockOwnerDeletion")
        });
        let waiting = waiting.count();
        if waiting < present.len() {
            if !absent.is_empty() {
                let kept = json!({"metadata": {"uid": object::uid(&entry.object), "ownerReferences": present,
                    "resourceVersion": object::version(&entry.object)}});
                patch(server, now, entry, kept);
            }
            return;
        }
        // What has dependents itself and is deleted in the foreground passes that on, as Kubernetes does.
        let blocked = waiting > 0 && self.has_blocking_dependents(object::uid(&entry.object));
        let propagation = if blocked { Propagation::Foreground } else { Propagation::Background };
        delete(server, now, entry, propagation);
    }

    fn delete_dependents(&self, server: &mut Server, now: Timestamp, owner: &Entry) {
        let uid = object::uid(&owner.object);
        for dependent in self.dependents.get(uid).into_iter().flatten() {
            if let Some(entry) = self.entries.get(dependent).filter(|entry| !object::is_terminating(&entry.object)) {
                self.collect(server, now, &entry.clone());
            }
        }
        let gone = |dependent: &String| {
            let found = self.entries.get(dependent);
            found
                .and_then(|entry| {
                    server.peek(&entry.resource, object::namespace(&entry.object), object::name(&entry.object))
                })
                .is_none_or(|current| object::uid(&current) != dependent || !blocks(&current, uid))
        };
        if self.dependents.get(uid).is_none_or(|dependents| dependents.iter().all(gone)) {
            drop_finalizer(server, now, owner, FOREGROUND);
        }
    }

    fn orphan_dependents(&self, server: &mut Server, now: Timestamp, owner: &Entry) {
        let uid = object::uid(&owner.object);
        let mut left = false;
        for dependent in self.dependents.get(uid).into_iter().flatten() {
            let Some(entry) = self.entries.get(dependent) else { continue };
            let kept = object::items(&entry.object, "/metadata/ownerReferences").iter();
            let kept: Vec<_> = kept.filter(|reference| object::text(reference, "/uid") != uid).collect();
            let body = json!({"metadata": {"uid": dependent, "ownerReferences": kept,
                "resourceVersion": object::version(&entry.object)}});
            left |= !patch(server, now, entry, body);
        }
        if !left {
            drop_finalizer(server, now, owner, ORPHAN);
        }
    }

    fn has_blocking_dependents(&self, uid: &str) -> bool {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents.filter_map(|dependent| self.entries.get(dependent)).any(|entry| blocks(&entry.object, uid))
    }

    /// The owner, if it is there with that uid. Names are looked up as well, because a reference may be wrong about them.
    fn owner_of(&self, server: &Server, dependent: &Value, reference: &Value) -> Option<Arc<Value>> {
        let uid = object::text(reference, "/uid");
        let (group, version) = object::text(reference, "/apiVersion").split_once('/').unwrap_or(("", "v1"));
        let kind = object::text(reference, "/kind");
        let served = |info: &&crate::server::ResourceInfo| info.kind == kind && info.name.group == group;
        let exact = |info: &&crate::server::ResourceInfo| served(info) && info.name.version == version;
        let info = server.resources().find(exact).or_else(|| server.resources().find(served));
        // A kind that is not served cannot be shown to have gone: leave the dependent alone.
        let Some(info) = info else { return Some(Arc::new(Value::Null)) };
        let namespace = if info.namespaced { object::namespace(dependent) } else { "" };
        let found = server.peek(&info.name, namespace, object::text(reference, "/name"));
        found.filter(|owner| object::uid(owner) == uid)
    }
}

impl Controller for GarbageCollector {
    fn step(&mut self, now: Timestamp, server: &mut Server) {
        self.sync(server);
        for uid in std::mem::take(&mut self.stale) {
            self.tend(server, now, &uid);
        }
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }
}

fn remove(
    entries: &mut BTreeMap<String, Entry>,
    dependents: &mut BTreeMap<String, BTreeSet<String>>,
    stale: &mut BTreeSet<String>,
    old: &Value,
    gone: bool,
) {
    let uid = object::uid(old);
    entries.remove(uid);
    for owner in owners(old) {
        stale.insert(owner.to_owned());
        if let Some(all) = dependents.get_mut(owner) {
            all.remove(uid);
            if all.is_empty() {
                dependents.remove(owner);
            }
        }
    }
    if gone {
        stale.extend(dependents.get(uid).into_iter().flatten().cloned());
    }
}

fn owners(value: &Value) -> impl Iterator<Item = &str> {
    object::items(value, "/metadata/ownerReferences").iter().map(|reference| object::text(reference, "/uid"))
}

fn blocks(dependent: &Value, owner: &str) -> bool {
    let references = object::items(dependent, "/metadata/ownerReferences").iter();
    let mut own = references.filter(|reference| object::text(reference, "/uid") == owner);
    own.any(|reference| object::flag(reference, "/blockOwnerDeletion"))
}

fn has_finalizer(value: &Value, finalizer: &str) -> bool {
    object::items(value, "/metadata/finalizers").iter().any(|found| found == finalizer)
}

fn drop_finalizer(server: &mut Server, now: Timestamp, entry: &Entry, finalizer: &str) {
    let mut left = object::texts(&entry.object, "/metadata/finalizers");
    left.retain(|found| found != finalizer);
    let body = json!({"metadata": {"uid": object::uid(&entry.object), "finalizers": left,
        "resourceVersion": object::version(&entry.object)}});
    patch(server, now, entry, body);
}

/// False when it was refused: the object changed, and the news of it brings it up again.
fn patch(server: &mut Server, now: Timestamp, entry: &Entry, body: Value) -> bool {
    let (namespace, name) = object::key(&entry.object);
    server.handle(now, &Request::merge_patch(entry.resource.clone(), &namespace, &name, body)).is_ok()
}

fn delete(server: &mut Server, now: Timestamp, entry: &Entry, propagation: Propagation) {
    let (namespace, name) = object::key(&entry.object);
    let mut request = Request::delete(entry.resource.clone(), &namespace, &name).if_uid(object::uid(&entry.object));
    // An object that was given a new owner in the meantime has a new version, and stays.
    request = request.if_version(object::version(&entry.object));
    request.options.propagation = Some(propagation);
    let _ = server.handle(now, &request);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_maps() -> ResourceName {
        ResourceName::core("configmaps")
    }

    fn create(server: &mut Server, name: &str, owners: &[(&str, &str)]) -> String {
        let reference = |(name, uid): &(&str, &str)| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true});
        let owners: Vec<_> = owners.iter().map(reference).collect();
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
        let made = server.handle(Timestamp::UNIX_EPOCH, &Request::create(config_maps(), "default", body));
        object::uid(&made.expect("a valid object")).to_owned()
    }

    fn delete(server: &mut Server, name: &str, propagation: Propagation) {
        let mut request = Request::delete(config_maps(), "default", name);
        request.options.propagation = Some(propagation);
        server.handle(Timestamp::UNIX_EPOCH, &request).expect("it is there");
    }

    fn names(server: &Server) -> Vec<String> {
        let all = server.peek_all(&config_maps(), Some("default"));
        all.iter().map(|object| object::name(object).to_owned()).filter(|name| !name.starts_with("kube-")).collect()
    }

    fn settle(server: &mut Server, collector: &mut GarbageCollector) {
        for _ in 0..10 {
            let version = server.resource_version();
            collector.step(Timestamp::UNIX_EPOCH, server);
            if server.resource_version() == version {
                return;
            }
        }
        panic!("the collector does not settle");
    }

    #[test]
    fn dependents_go_after_their_owner_down_to_the_last() {
        let (mut server, mut collector) = (Server::new(1), GarbageCollector::new());
        let a = create(&mut server, "a", &[]);
        let b = create(&mut server, "b", &[("a", &a)]);
        create(&mut server, "c", &[("b", &b)]);
        settle(&mut server, &mut collector);
        assert_eq!(names(&server), ["a", "b", "c"]);
        delete(&mut server, "a", Propagation::Background);
        settle(&mut server, &mut collector);
        assert!(names(&server).is_empty());
    }

    #[test]
    fn a_dependent_stays_while_one_owner_is_there_and_forgets_the_other() {
        let (mut server, mut collector) = (Server::new(1), GarbageCollector::new());
        let (a, b) = (create(&mut server, "a", &[]), create(&mut server, "b", &[]));
        create(&mut server, "c", &[("a", &a), ("b", &b)]);
        delete(&mut server, "a", Propagation::Background);
        settle(&mut server, &mut collector);
        assert_eq!(names(&server), ["b", "c"]);
        let c = server.peek(&config_maps(), "default", "c").expect("it is there");
        assert_eq!(owners(&c).collect::<Vec<_>>(), [b.as_str()]);
    }

    #[test]
    fn an_owner_of_the_same_name_but_another_uid_is_no_owner() {
        let (mut server, mut collector) = (Server::new(1), GarbageCollector::new());
        create(&mut server, "a", &[]);
        create(&mut server, "c", &[("a", "11111111-2222-3333-4444-555555555555")]);
        settle(&mut server, &mut collector);
        assert_eq!(names(&server), ["a"]);
    }

    #[test]
    fn a_foreground_deletion_waits_for_what_blocks_it() {
        let (mut server, mut collector) = (Server::new(1), GarbageCollector::new());
        let a = create(&mut server, "a", &[]);
        create(&mut server, "b", &[("a", &a)]);
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        let hold = Request::merge_patch(config_maps(), "default", "b", hold);
        server.handle(Timestamp::UNIX_EPOCH, &hold).expect("a valid patch");
        settle(&mut server, &mut collector);
        delete(&mut server, "a", Propagation::Foreground);
        settle(&mut server, &mut collector);
        assert_eq!(names(&server), ["a", "b"], "b is held, so a waits");
        let release = Request::merge_patch(config_maps(), "default", "b", json!({"metadata": {"finalizers": null}}));
        server.handle(Timestamp::UNIX_EPOCH, &release).expect("a valid patch");
        settle(&mut server, &mut collector);
        assert!(names(&server).is_empty());
    }

    #[test]
    fn orphans_stay_without_their_owner() {
        let (mut server, mut collector) = (Server::new(1), GarbageCollector::new());
        let a = create(&mut server, "a", &[]);
        create(&mut server, "b", &[("a", &a)]);
        settle(&mut server, &mut collector);
        delete(&mut server, "a", Propagation::Orphan);
        settle(&mut server, &mut collector);
        assert_eq!(names(&server), ["b"]);
        let b = server.peek(&config_maps(), "default", "b").expect("it is there");
        assert_eq!(owners(&b).count(), 0);
    }
}
