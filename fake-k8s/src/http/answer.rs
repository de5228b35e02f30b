//! Responses: objects, Tables, partial metadata, failures, warnings.
use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::route::Words;
use crate::server::table::{IncludeObject, table};
use crate::server::{Request, ResourceInfo, Server, Status, Verb};

pub fn json(code: u16, value: &Value) -> Response {
    let mut body = value.to_string();
    body.push('\n');
    respond(code, "application/json", body)
}

pub fn text(body: &str) -> Response {
    respond(200, "text/plain; charset=utf-8", body.to_owned())
}

/// The last resort of Kubernetes: no Status.
pub fn nowhere() -> Response {
    respond(404, "text/plain; charset=utf-8", "404 page not found\n".into())
}

pub fn failure(status: &Status) -> Response {
    json(status.code, &status.to_value())
}

fn respond(code: u16, content_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Warnings are headers with code 299, as RFC 7234 had them.
pub fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

pub fn code_of(request: &Request, created: bool) -> u16 {
    if created || request.verb == Verb::Create { 201 } else { 200 }
}

/// How the client wants objects to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Whole,
    Table(IncludeObject),
    Partial,
}

pub fn shape_of(words: &Words) -> Shape {
    for part in words.accept.split(',') {
        if part.contains("as=Table") {
            return Shape::Table(match words.get("includeObject") {
                Some("None") => IncludeObject::None,
                Some("Object") => IncludeObject::Object,
                _ => IncludeObject::Metadata,
            });
        }
        if part.contains("as=PartialObjectMetadata") {
            return Shape::Partial;
        }
    }
    Shape::Whole
}

/// The answer in the shape that the client asked for, where it is an object or a list.
pub fn shape(server: &Server, words: &Words, request: &Request, mut value: Value, now: Timestamp) -> Value {
    let name = &request.resource;
    let Some(info) = server.resource(&name.group, &name.version, &name.plural) else { return value };
    if value["kind"] == "Status" || request.subresource.is_some() {
        return value;
    }
    if let Some(other) = reshape(info, &value, shape_of(words), now) {
        return other;
    }
    if matches!(request.verb, Verb::List | Verb::DeleteCollection) {
        as_list(info, &mut value);
    }
    value
}

/// In lists, objects of Kubernetes' own kinds do not say what they are; lists of others say that nothing follows.
fn as_list(info: &ResourceInfo, list: &mut Value) {
    if info.custom {
        if list["metadata"]["continue"].is_null() {
            list["metadata"]["continue"] = json!("");
        }
        return;
    }
    for item in list["items"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        item.remove("apiVersion");
        item.remove("kind");
    }
}

/// One object or list as `shape` has it; `None` where it is as it is.
pub fn reshape(info: &ResourceInfo, value: &Value, shape: Shape, now: Timestamp) -> Option<Value> {
    let items = value["items"].as_array();
    match shape {
        Shape::Whole => None,
        Shape::Table(include) => {
            let objects = items.map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
            let metadata = match items {
                Some(_) => value["metadata"].clone(),
                None => json!({"resourceVersion": value["metadata"]["resourceVersion"]}),
            };
            Some(table(info, objects, &metadata, include, now))
        }
        Shape::Partial => {
            let partial = |o: &Value| json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o["metadata"]});
            Some(match items {
                Some(all) => json!({
                    "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                    "metadata": value["metadata"], "items": all.iter().map(partial).collect::<Vec<_>>(),
                }),
                None => partial(value),
            })
        }
    }
}
