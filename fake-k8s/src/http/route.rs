//! From URL, query and headers to a request of the server.
use std::collections::BTreeMap;

use axum::extract::Query;
use http::request::Parts;
use http::{Method, header};
use serde_json::Value;

use crate::server::{
    FieldError, FieldValidation, Options, PatchKind, Propagation, Reason, Request, ResourceName, Status, Verb,
    WatchRequest,
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
    Logs {
        namespace: String,
        pod: String,
    },
    Watch(Box<WatchRequest>),
    Request(Box<Request>),
    /// Nobody knows of such a path, not even to say so in words.
    Nowhere,
}

/// What there is at the path of a resource.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    pub custom: bool,
    pub namespaced: bool,
    /// The subresource that was asked for is there, or none was.
    pub subresource: bool,
}

/// Looks up a resource and a subresource of it; without one, tells whether anything of Kubernetes itself is near.
pub type Lookup<'a> = &'a dyn Fn(&ResourceName, Option<&str>) -> Result<Served, bool>;

pub fn target(words: &Words, body: &[u8], lookup: Lookup<'_>) -> Result<Target, Status> {
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
        ["api", version, rest @ ..] => resource("", version, rest, words, body, lookup),
        ["apis", group, version, rest @ ..] => resource(group, version, rest, words, body, lookup),
        _ => Err(Status::no_such_path()),
    }
}

fn resource(
    group: &str,
    version: &str,
    rest: &[&str],
    words: &Words,
    body: &[u8],
    lookup: Lookup<'_>,
) -> Result<Target, Status> {
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
    let served = match lookup(&resource, sub) {
        Ok(served) if served.namespaced || namespace.is_none() => served,
        Ok(Served { custom: true, .. }) | Err(false) => return Ok(Target::Nowhere),
        Ok(_) | Err(true) => return Err(Status::no_such_path()),
    };
    if served.namespaced && namespace.is_none() && (name.is_some() || words.method != Method::GET) {
        return match (served.custom, name) {
            (true, _) => Ok(Target::Nowhere),
            (false, Some(_)) => Err(Status::no_such_path()),
            (false, None) => Err(Status::method_not_allowed()),
        };
    }
    if !served.subresource {
        return Err(match served.custom {
            true => Status::not_found(group, plural, name.unwrap_or_default()),
            false => Status::no_such_path(),
        });
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
    let verb = verb(words, name.is_some(), sub.is_some(), served.custom)?;
    let mut request = Request::new(verb, resource);
    request.namespace = namespace.map(str::to_owned);
    request.name = name.map(str::to_owned);
    request.subresource = sub.map(str::to_owned);
    request.options = options(words, verb, body)?;
    Ok(Target::Request(Box::new(request)))
}

fn verb(words: &Words, named: bool, sub: bool, custom: bool) -> Result<Verb, Status> {
    Ok(match (words.method.as_str(), named) {
        ("GET", true) => Verb::Get,
        ("GET", false) => Verb::List,
        ("POST", false) => Verb::Create,
        ("POST", true) if sub => Verb::Create,
        ("PUT", true) => Verb::Replace,
        ("DELETE", true) => Verb::Delete,
        ("DELETE", false) => Verb::DeleteCollection,
        ("PATCH", _) if named || custom => {
            let kind = patch_kind(&words.content_type, custom)?;
            if !named {
                return Err(Status::bad_request("name must be provided"));
            }
            Verb::Patch(kind)
        }
        ("PUT", false) if custom => return Err(Status::bad_request("name must be provided")),
        _ => return Err(Status::method_not_allowed()),
    })
}

/// Custom resources have no strategy, and say themselves what they take.
fn patch_kind(content_type: &str, custom: bool) -> Result<PatchKind, Status> {
    Ok(match media_type(content_type) {
        "application/json-patch+json" => PatchKind::Json,
        "application/merge-patch+json" => PatchKind::Merge,
        "application/strategic-merge-patch+json" if !custom => PatchKind::StrategicMerge,
        "application/apply-patch+yaml" | "application/apply-patch+json" => PatchKind::Apply,
        _ if custom => {
            return Err(unknown_format(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
        _ => return Err(Status::unsupported_media_type()),
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

/// What is wrong with the parameters of a request, which are an object of their own to Kubernetes.
fn invalid_options(verb: Verb, error: FieldError) -> Status {
    let kind = match verb {
        Verb::Create => "CreateOptions",
        Verb::Replace => "UpdateOptions",
        Verb::Patch(_) => "PatchOptions",
        Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
        Verb::Get | Verb::List => "ListOptions",
    };
    Status::invalid("meta.k8s.io", kind, "", &[error])
}

/// The parameters; of a delete, a body is in the place of those that are about it.
fn options(words: &Words, verb: Verb, body: &[u8]) -> Result<Options, Status> {
    let text = |name: &str| words.get(name).map(str::to_owned);
    let deletes = matches!(verb, Verb::Delete | Verb::DeleteCollection);
    let writes = deletes || matches!(verb, Verb::Create | Verb::Replace | Verb::Patch(_));
    let here = !deletes || body.is_empty();
    let propagation = match words.get("propagationPolicy").filter(|_| deletes && here) {
        Some(policy) => Some(Propagation::parse(policy)?),
        None => (here && words.is("orphanDependents")).then_some(Propagation::Orphan),
    };
    let field_validation = match words.get("fieldValidation").filter(|_| writes && !deletes) {
        None | Some("" | "Warn") => FieldValidation::Warn,
        Some("Strict") => FieldValidation::Strict,
        Some("Ignore") => FieldValidation::Ignore,
        Some(other) => {
            let supported = ["", "Ignore", "Strict", "Warn"].map(str::to_owned);
            return Err(invalid_options(verb, FieldError::not_supported("fieldValidation", other, &supported)));
        }
    };
    let dry_run = match words.get("dryRun").filter(|_| writes && here) {
        None => false,
        Some("All") => true,
        Some(other) => {
            let value = serde_json::json!([other]);
            return Err(invalid_options(verb, FieldError::not_supported("dryRun", value, &["All".to_owned()])));
        }
    };
    Ok(Options {
        label_selector: text("labelSelector"),
        field_selector: text("fieldSelector"),
        limit: words.number("limit")?.and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
        continue_token: text("continue"),
        dry_run,
        field_validation,
        field_manager: text("fieldManager"),
        user_agent: words.user_agent.clone(),
        force: words.is("force"),
        propagation,
        grace_period_seconds: if here { words.number("gracePeriodSeconds")? } else { None },
        preconditions: None,
        resource_version: text("resourceVersion"),
        exact_version: words.get("resourceVersionMatch") == Some("Exact"),
    })
}

/// The body as JSON, whether it was JSON or YAML; nothing for an empty one, and for what is no JSON: the server complains
/// of it when it knows what it should have been.
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
        | "application/strategic-merge-patch+json" => Ok(serde_json::from_slice(body).ok()),
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

/// What asks for something beside an object says so when it has no body.
pub fn check_body(request: &Request) -> Result<(), Status> {
    let writes =
        request.verb == Verb::Patch(PatchKind::Apply) || request.verb == Verb::Create && request.subresource.is_some();
    if writes && request.body.is_none() {
        return Err(Status::bad_request("the request has no body"));
    }
    Ok(())
}
