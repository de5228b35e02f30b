//! From URL, query and headers to a request of the server.
use std::collections::BTreeMap;

use axum::extract::Query;
use http::request::Parts;
use http::{Method, header};
use serde_json::Value;

use crate::server::{
    FieldValidation, Options, PatchKind, Propagation, Reason, Request, ResourceName, Status, Verb, WatchRequest,
};

/// What a request says before its body.
pub struct Words {
    pub method: Method,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub accept: String,
    pub content_type: String,
    pub user_agent: String,
}

impl Words {
    pub fn of(head: &Parts) -> Self {
        let text = |name| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let query = Query::<Vec<(String, String)>>::try_from_uri(&head.uri).map(|q| q.0).unwrap_or_default();
        Self {
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            query: query.into_iter().collect(),
            accept: text(header::ACCEPT),
            content_type: text(header::CONTENT_TYPE),
            user_agent: text(header::USER_AGENT),
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub fn is(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1" | "True"))
    }

    pub fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(name).filter(|t| !t.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Status::bad_request(format!("invalid value {text:?} for {name}")))
    }
}

/// What is asked for.
pub enum Target {
    Health,
    Version,
    Discovery(Vec<String>),
    OpenApi(Vec<String>),
    AccessReview,
    Logs { namespace: String, pod: String },
    Watch(Box<WatchRequest>),
    Request(Box<Request>),
}

pub fn target(words: &Words) -> Result<Target, Status> {
    let parts: Vec<&str> = words.path.split('/').filter(|p| !p.is_empty()).collect();
    let owned = |parts: &[&str]| parts.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
    match parts.as_slice() {
        ["readyz" | "livez" | "healthz", ..] => Ok(Target::Health),
        ["version"] => Ok(Target::Version),
        ["openapi", rest @ ..] => Ok(Target::OpenApi(owned(rest))),
        ["api"] | ["api", "v1"] | ["apis"] | ["apis", _] | ["apis", _, _] if words.method == Method::GET => {
            Ok(Target::Discovery(owned(&parts)))
        }
        ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"] if words.method == Method::POST => {
            Ok(Target::AccessReview)
        }
        ["api", version, rest @ ..] => resource("", version, rest, words),
        ["apis", group, version, rest @ ..] => resource(group, version, rest, words),
        _ => Err(Status::no_such_path()),
    }
}

fn resource(group: &str, version: &str, rest: &[&str], words: &Words) -> Result<Target, Status> {
    let (namespace, plural, name, sub) = match rest {
        ["namespaces", name, sub @ ("status" | "finalize")] => (None, "namespaces", Some(*name), Some(*sub)),
        ["namespaces", ns, plural] => (Some(*ns), *plural, None, None),
        ["namespaces", ns, plural, name] => (Some(*ns), *plural, Some(*name), None),
        ["namespaces", ns, plural, name, sub] => (Some(*ns), *plural, Some(*name), Some(*sub)),
        [plural] => (None, *plural, None, None),
        [plural, name] => (None, *plural, Some(*name), None),
        [plural, name, sub] => (None, *plural, Some(*name), Some(*sub)),
        _ => return Err(Status::no_such_path()),
    };
    let resource = ResourceName::new(group, version, plural);
    if let (Some(ns), "pods", Some(pod), Some("log")) = (namespace, plural, name, sub) {
        return Ok(Target::Logs { namespace: ns.to_owned(), pod: pod.to_owned() });
    }
    if words.method == Method::GET && words.is("watch") {
        return Ok(Target::Watch(Box::new(WatchRequest {
            resource,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            label_selector: words.get("labelSelector").map(str::to_owned),
            field_selector: words.get("fieldSelector").map(str::to_owned),
            resource_version: words.get("resourceVersion").map(str::to_owned),
            allow_bookmarks: words.is("allowWatchBookmarks"),
            send_initial_events: words.is("sendInitialEvents"),
        })));
    }
    let verb = verb(words, name.is_some(), sub.is_some())?;
    let mut request = Request::new(verb, resource);
    request.namespace = namespace.map(str::to_owned);
    request.name = name.map(str::to_owned);
    request.subresource = sub.map(str::to_owned);
    request.options = options(words)?;
    Ok(Target::Request(Box::new(request)))
}

fn verb(words: &Words, named: bool, sub: bool) -> Result<Verb, Status> {
    Ok(match (words.method.as_str(), named) {
        ("GET", true) => Verb::Get,
        ("GET", false) => Verb::List,
        ("POST", false) => Verb::Create,
        ("POST", true) if sub => Verb::Create,
        ("PUT", true) => Verb::Replace,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        ("PATCH", true) => Verb::Patch(match media_type(&words.content_type) {
            "application/json-patch+json" => PatchKind::Json,
            "application/merge-patch+json" => PatchKind::Merge,
            "application/strategic-merge-patch+json" => PatchKind::StrategicMerge,
            "application/apply-patch+yaml" | "application/apply-patch+json" => PatchKind::Apply,
            _ => {
                return Err(unknown_format(
                    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml",
                ));
            }
        }),
        _ => return Err(Status::method_not_allowed()),
    })
}

fn media_type(header: &str) -> &str {
    header.split(';').next().unwrap_or_default().trim()
}

fn unknown_format(accepted: &str) -> Status {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    Status::new(Reason::UnsupportedMediaType, message)
}

fn options(words: &Words) -> Result<Options, Status> {
    let text = |name: &str| words.get(name).map(str::to_owned);
    let propagation = match words.get("propagationPolicy") {
        Some("Orphan") => Some(Propagation::Orphan),
        Some("Background") => Some(Propagation::Background),
        Some("Foreground") => Some(Propagation::Foreground),
        Some(other) => return Err(Status::bad_request(format!("invalid propagationPolicy {other:?}"))),
        None => words.is("orphanDependents").then_some(Propagation::Orphan),
    };
    let field_validation = match words.get("fieldValidation") {
        None | Some("" | "Warn") => FieldValidation::Warn,
        Some("Strict") => FieldValidation::Strict,
        Some("Ignore") => FieldValidation::Ignore,
        Some(other) => {
            return Err(Status::bad_request(format!(
                "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            )));
        }
    };
    Ok(Options {
        label_selector: text("labelSelector"),
        field_selector: text("fieldSelector"),
        limit: words.number("limit")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
        continue_token: text("continue"),
        dry_run: words.get("dryRun") == Some("All"),
        field_validation,
        field_manager: text("fieldManager"),
        user_agent: words.user_agent.clone(),
        force: words.is("force"),
        propagation,
        grace_period_seconds: words.number("gracePeriodSeconds")?,
        preconditions: None,
        resource_version: text("resourceVersion"),
        exact_version: words.get("resourceVersionMatch") == Some("Exact"),
    })
}

/// The body as JSON, whether it was JSON or YAML; nothing for an empty one.
pub fn decode_body(words: &Words, body: &[u8]) -> Result<Option<Value>, Status> {
    if body.is_empty() {
        return Ok(None);
    }
    let bad = |e: &dyn std::fmt::Display| Status::bad_request(format!("error decoding the body of the request: {e}"));
    match media_type(&words.content_type) {
        ""
        | "application/json"
        | "application/json-patch+json"
        | "application/merge-patch+json"
        | "application/strategic-merge-patch+json" => serde_json::from_slice(body).map(Some).map_err(|e| bad(&e)),
        "application/yaml" | "application/apply-patch+yaml" | "application/apply-patch+json" => {
            if let Ok(value) = serde_json::from_slice(body) {
                return Ok(Some(value));
            }
            let text = std::str::from_utf8(body).map_err(|e| bad(&e))?;
            serde_saphyr::from_str::<Value>(text).map(Some).map_err(|e| bad(&e))
        }
        "application/vnd.kubernetes.protobuf" => {
            super::protobuf::decode(body).map(Some).map_err(|why| Status::new(Reason::UnsupportedMediaType, why))
        }
        _ => Err(unknown_format("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    }
}

/// A write without a body says so in words that lead somewhere.
pub fn check_body(request: &Request) -> Result<(), Status> {
    let writes = matches!(request.verb, Verb::Create | Verb::Replace | Verb::Patch(_));
    if writes && request.body.is_none() {
        return Err(Status::bad_request("the request has no body"));
    }
    Ok(())
}
