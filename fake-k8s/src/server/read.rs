//! Get and list, also as of an older version.
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::resource::ResourceInfo;
use super::selector::Selector;
use super::watch::parse_version;
use super::{Reason, Request, Server, Status, object};

impl Server {
    pub(super) fn get(&mut self, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let object = self.existing(info, request)?;
        match request.subresource.as_deref() {
            None | Some("status") => Ok(Value::clone(&object)),
            Some(_) => Err(Status::no_such_path()),
        }
    }

    /// The object that a request names.
    pub(super) fn existing(&self, info: &ResourceInfo, request: &Request) -> Result<Arc<Value>, Status> {
        let name = request.name.as_deref().unwrap_or_default();
        let namespace = scope(info, request)?.unwrap_or_default();
        let found = self.store.get(&info.storage, namespace, name);
        found.map(|o| self.shown(info, o)).ok_or_else(|| Status::not_found(info.group(), info.plural(), name))
    }

    pub(super) fn list(&mut self, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let options = &request.options;
        if let Some(token) = options.continue_token.as_deref().filter(|t| !t.is_empty()) {
            let (at, after) = read_token(token)?;
            return self.page(info, request, at, Some(&after));
        }
        let asked = match options.resource_version.as_deref() {
            None | Some("" | "0") => None,
            Some(text) => Some(parse_version(text)?),
        };
        match asked {
            Some(at) if at > self.store.version() => {
                let message = format!("Too large resource version: {at}, current: {}", self.store.version());
                Err(Status::new(Reason::Timeout, message))
            }
            Some(at) if options.exact_version => self.page(info, request, at, None),
            _ => self.page(info, request, self.store.version(), None),
        }
    }

    /// A list as of version `at`, which the history still holds: what a stale reader sees.
    pub fn snapshot_list(&self, request: &Request, at: u64) -> Result<Value, Status> {
        let info = self.registry.find(&request.resource).ok_or_else(Status::no_such_path)?;
        self.page(info, request, at.min(self.store.version()), None)
    }

    fn page(&self, info: &ResourceInfo, request: &Request, at: u64, after: Option<&Place>) -> Result<Value, Status> {
        let options = &request.options;
        let namespace = match request.namespace.as_deref() {
            Some(ns) if info.namespaced => Some(ns),
            Some(_) => return Err(Status::no_such_path()),
            None => None,
        };
        let selector = Selector::parse(info, options.label_selector.as_deref(), options.field_selector.as_deref())?
            .named(request.name.as_deref());
        let all: Vec<Arc<Value>> = if at == self.store.version() {
            self.store.list(&info.storage, namespace).cloned().collect()
        } else {
            let then = self.store.list_at(&info.storage, namespace, at);
            then.ok_or_else(|| Status::expired(at, self.store.oldest()))?
        };
        let past = |o: &Arc<Value>| {
            after.is_none_or(|(ns, n)| (object::namespace(o), object::name(o)) > (ns.as_str(), n.as_str()))
        };
        // Whoever asks for one name is given a list of it, which has no other pages.
        let in_list = |o: &Arc<Value>| past(o) && selector.only_name().is_none_or(|name| name == object::name(o));
        let mut rest = all.into_iter().filter(in_list).peekable();
        let mut chosen: Vec<Arc<Value>> = Vec::new();
        while options.limit == 0 || chosen.len() < options.limit {
            let Some(next) = rest.next() else { break };
            if selector.matches(&next) {
                chosen.push(next);
            }
        }
        let mut metadata = json!({"resourceVersion": at.to_string()});
        // That more follow is said also where none of them will be chosen: nobody has looked yet.
        if let Some(last) = chosen.last().filter(|_| rest.peek().is_some()) {
            metadata["continue"] = Value::String(write_token(at, last));
            if selector.is_open() {
                metadata["remainingItemCount"] = json!(rest.count());
            }
        }
        let items: Vec<Value> = chosen.iter().map(|o| Value::clone(&self.shown(info, o))).collect();
        Ok(json!({"apiVersion": info.api_version(), "kind": info.list_kind, "metadata": metadata, "items": items}))
    }
}

type Place = (String, String);

fn write_token(at: u64, last: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json!({"rv": at, "ns": object::namespace(last), "name": object::name(last)}).to_string())
}

fn read_token(token: &str) -> Result<(u64, Place), Status> {
    let bad = || Status::bad_request("continue key is not valid: incorrectly encoded continue key");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
    let text = |field: &str| value[field].as_str().map(str::to_owned).ok_or_else(bad);
    Ok((value["rv"].as_u64().ok_or_else(bad)?, (text("ns")?, text("name")?)))
}

/// The namespace of a request for one object: given exactly when the resource lives in namespaces.
pub(super) fn scope<'a>(info: &ResourceInfo, request: &'a Request) -> Result<Option<&'a str>, Status> {
    match (info.namespaced, request.namespace.as_deref()) {
        (true, Some(ns)) => Ok(Some(ns)),
        (true, None) => Err(Status::bad_request("an empty namespace may not be set during creation")),
        (false, None) => Ok(None),
        (false, Some(_)) => Err(Status::no_such_path()),
    }
}
