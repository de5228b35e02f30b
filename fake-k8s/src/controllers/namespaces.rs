//! The end of a namespace: everything in it is deleted, then it goes itself.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Controller;
use crate::server::{Propagation, Request, ResourceName, Server, object};

/// Empties namespaces that are being deleted.
#[derive(Debug, Default)]
pub struct Namespaces;

impl Controller for Namespaces {
    fn step(&mut self, now: Timestamp, server: &mut Server) {
        let all = server.peek_all(&ResourceName::core("namespaces"), None);
        for namespace in all.iter().filter(|n| object::is_deleting(n)) {
            if empty(now, server, object::name(namespace)) {
                finalize(now, server, namespace);
            }
        }
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }
}

/// Deletes what is there; is nothing left?
fn empty(now: Timestamp, server: &mut Server, namespace: &str) -> bool {
    let kinds: Vec<ResourceName> = server.resources().filter(|i| i.namespaced).map(|i| i.name.clone()).collect();
    let mut left = false;
    for kind in kinds {
        for found in server.peek_all(&kind, Some(namespace)) {
            if !object::is_deleting(&found) {
                let mut delete =
                    Request::delete(kind.clone(), namespace, object::name(&found)).if_uid(object::uid(&found));
                delete.options.propagation = Some(Propagation::Background);
                // It may have gone with its owner meanwhile: the next step looks again.
                server.handle(now, &delete).ok();
            }
        }
        left |= !server.peek_all(&kind, Some(namespace)).is_empty();
    }
    !left
}

fn finalize(now: Timestamp, server: &mut Server, namespace: &Value) {
    let mut body = namespace.clone();
    body["spec"] = json!({"finalizers": []});
    let name = object::name(namespace).to_owned();
    let request = Request::replace(ResourceName::core("namespaces"), "", &name, body).on_subresource("finalize");
    // Refused only when someone else was faster.
    server.handle(now, &request).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn a_deleted_namespace_goes_after_what_is_in_it() {
        let mut server = Server::new(1);
        let spaces = ResourceName::core("namespaces");
        let maps = ResourceName::core("configmaps");
        server.handle(NOW, &Request::create(spaces.clone(), "", json!({"metadata": {"name": "n"}}))).unwrap();
        let held = json!({"metadata": {"name": "m", "finalizers": ["a/b"]}});
        server.handle(NOW, &Request::create(maps.clone(), "n", held)).unwrap();
        server.handle(NOW, &Request::delete(spaces.clone(), "", "n")).unwrap();
        let refused = server.handle(NOW, &Request::create(maps.clone(), "n", json!({"metadata": {"name": "x"}})));
        assert_eq!(refused.unwrap_err().code, 403);
        Namespaces.step(NOW, &mut server);
        assert!(server.peek(&spaces, "", "n").is_some(), "the finalizer holds the map, the map holds the namespace");
        let free = json!({"metadata": {"finalizers": null}});
        server.handle(NOW, &Request::merge_patch(maps, "n", "m", free)).unwrap();
        Namespaces.step(NOW, &mut server);
        assert!(server.peek(&spaces, "", "n").is_none());
    }
}
