//! From the body of a request to an object of the kind that is asked for, and the complaints of Kubernetes where it is none.
use std::borrow::Cow;

use serde_json::{Value, json};

use super::fields::check::plain as go_text;
use super::resource::ResourceInfo;
use super::types::{self, decode::Mistake};
use super::{
    FieldError, FieldValidation, PatchKind, Request, Server, Status, Verb, admission, definitions, object, schema,
};

/// The scheme of Kubernetes' kinds, as its errors name it.
const SCHEME: &str = "pkg/runtime/scheme.go:110";
/// So much of a body is shown in a complaint.
const SUMMARY: usize = 30;

impl Server {
    /// The body of a create or replace as an object: of the right kind, without what its schema does not know, and with
    /// what it defaults.
    pub(super) fn decoded(&mut self, info: &ResourceInfo, request: &Request) -> Result<Value, Status> {
        let Some(body) = &request.body else {
            return Err(unrecognized(info, &no_version(&syntax_fault(&request.raw)), &request.raw));
        };
        if let Some(fault) = type_meta_fault(body) {
            return Err(unrecognized(info, &fault, &bytes_of(request, body)));
        }
        if info.custom {
            check_custom_type(info, request, body)?;
        } else {
            self.check_type(info, body)?;
        }
        let mut object = decode(info, Some(body))?;
        let unknown = prune(info, &mut object).map_err(|mistake| undecodable(info, &mistake.text))?;
        if !unknown.is_empty() {
            match request.options.field_validation {
                FieldValidation::Strict => {
                    return Err(Status::bad_request(format!(
                        "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
                        info.name.version,
                        unknown.join(", "),
                        kind = info.kind
                    )));
                }
                FieldValidation::Warn => self.warnings.extend(unknown),
                FieldValidation::Ignore => {}
            }
        }
        self.warnings.extend(drop_same_owners(&mut object, ""));
        Ok(object)
    }

    /// The same for what a patch has made.
    pub(super) fn decoded_patch(
        &mut self,
        info: &ResourceInfo,
        patched: &Value,
        request: &Request,
    ) -> Result<Value, Status> {
        let options = &request.options;
        let refuse = |why: String| {
            // A strategic merge patch is shown itself, as Go prints a map.
            let shown = match (request.verb, &request.body) {
                (Verb::Patch(PatchKind::StrategicMerge), Some(patch)) => go_text(patch),
                _ => patched.to_string(),
            };
            let error = FieldError::invalid("patch", shown, why);
            Status::invalid("", "", "", &[error])
        };
        if info.custom && patched["kind"].as_str().is_none_or(str::is_empty) {
            return Err(refuse(format!("Object 'Kind' is missing in '{patched}'")));
        }
        let mut object = decode(info, Some(patched))?;
        let strategic = request.verb == Verb::Patch(PatchKind::StrategicMerge);
        let words = |mistake: Mistake| match mistake.converted {
            Some(converted) if strategic => converted,
            _ => mistake.text,
        };
        let unknown = prune(info, &mut object).map_err(|mistake| refuse(words(mistake)))?;
        if !unknown.is_empty() {
            match options.field_validation {
                FieldValidation::Strict => {
                    return Err(refuse(format!("strict decoding error: {}", unknown.join(", "))));
                }
                FieldValidation::Warn => self.warnings.extend(unknown),
                FieldValidation::Ignore => {}
            }
        }
        self.warnings.extend(drop_same_owners(&mut object, " after mutating admission happens"));
        Ok(object)
    }

    /// Is the body, which may leave its type out, of the kind that is asked for?
    fn check_type(&self, info: &ResourceInfo, body: &Value) -> Result<(), Status> {
        let text = |field: &str| body[field].as_str().filter(|t| !t.is_empty());
        let wanted = info.api_version();
        let (version, kind) = (text("apiVersion").unwrap_or(&wanted), text("kind").unwrap_or(&info.kind));
        if (version, kind) == (wanted.as_str(), info.kind.as_str()) {
            return Ok(());
        }
        let own = |i: &ResourceInfo| !i.custom && (i.storage == definitions::storage()) == is_definition(info);
        let found = self.registry.all().find(|i| own(i) && i.kind == kind && i.api_version() == version);
        let short = version.rsplit('/').next().unwrap_or(version);
        let why = match found {
            None => format!("no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}"),
            Some(other) if other.storage == info.storage => return Err(other_version(version, &wanted)),
            Some(_) => format!("converting ({short}.{kind}) to ({}.{}): unknown conversion", package(info), info.kind),
        };
        Err(Status::bad_request(format!("{kind} in version {short:?} cannot be handled as a {}: {why}", info.kind)))
    }
}

fn is_definition(info: &ResourceInfo) -> bool {
    info.storage == definitions::storage()
}

/// The package of Kubernetes in which the kinds of a group are.
fn package(info: &ResourceInfo) -> &str {
    match info.group().split('.').next() {
        None | Some("" | "events") => "core",
        Some(group) => group,
    }
}

fn other_version(found: &str, wanted: &str) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({found}) does not match the expected API version ({wanted})"
    ))
}

/// The body as it came; who is in the same process sends none.
fn bytes_of<'a>(request: &'a Request, body: &Value) -> Cow<'a, [u8]> {
    if request.raw.is_empty() { body.to_string().into_bytes().into() } else { Cow::from(&request.raw) }
}

/// A custom resource says what it is.
fn check_custom_type(info: &ResourceInfo, request: &Request, body: &Value) -> Result<(), Status> {
    let text = |field: &str| body[field].as_str().unwrap_or_default();
    if text("kind").is_empty() {
        let shown = bytes_of(request, body);
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(&shown));
        // Who does not want to know of unknown fields is answered by another reader, which takes the kind as given.
        return Err(match request.options.field_validation {
            FieldValidation::Ignore => Status::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: {why}",
                info.name.version,
                kind = info.kind
            )),
            FieldValidation::Strict | FieldValidation::Warn => unrecognized(info, &why, &shown),
        });
    }
    let wanted = info.api_version();
    if text("apiVersion") != wanted {
        return Err(other_version(text("apiVersion"), &wanted));
    }
    if text("kind") != info.kind {
        let error = FieldError::invalid("kind", text("kind"), format!("must be {}", info.kind));
        return Err(Status::invalid(info.group(), text("kind"), object::name(body), &[error]));
    }
    Ok(())
}

fn unrecognized(info: &ResourceInfo, why: &str, body: &[u8]) -> Status {
    let mut start = if body.starts_with(b"{") {
        String::from_utf8_lossy(&body[..body.len().min(SUMMARY)]).into_owned()
    } else {
        body.iter().take(SUMMARY).map(|byte| format!("{byte:02x}")).collect()
    };
    if body.is_empty() {
        start.push_str("<empty>");
    } else if body.len() > SUMMARY {
        start.push_str(" ...");
    }
    Status::bad_request(format!("the object provided is unrecognized (must be of type {}): {why} ({start})", info.kind))
}

fn no_version(why: &str) -> String {
    format!("couldn't get version/kind; json parse error: {why}")
}

/// What is wrong with these bytes as JSON.
pub(super) fn syntax_fault(raw: &[u8]) -> String {
    match serde_json::from_slice::<Value>(raw) {
        Err(e) if !e.is_eof() => {
            let before: usize =
                raw.split_inclusive(|b| *b == b'\n').take(e.line().saturating_sub(1)).map(<[u8]>::len).sum();
            let at = before + e.column().saturating_sub(1);
            let found = raw.get(at).copied().map_or(' ', char::from);
            format!("invalid character {found:?} looking for beginning of value")
        }
        _ => "unexpected end of JSON input".into(),
    }
}

/// What Go calls a value of JSON.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn type_meta_fault(body: &Value) -> Option<String> {
    if !body.is_object() && !body.is_null() {
        let into = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
        let why = format!("json: cannot unmarshal {} into Go value of type {into}", json_type(body));
        return Some(no_version(&why));
    }
    for field in ["apiVersion", "kind"] {
        if !body[field].is_null() && !body[field].is_string() {
            let found = json_type(&body[field]);
            return Some(no_version(&format!(
                "json: cannot unmarshal {found} into Go struct field .{field} of type string"
            )));
        }
    }
    let version = body["apiVersion"].as_str().unwrap_or_default();
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

/// An object that is not of its kind's type.
pub(super) fn undecodable(info: &ResourceInfo, why: &str) -> Status {
    let (kind, version) = (&info.kind, &info.name.version);
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

/// Drops what the schema or the type does not know, and fills in what a schema defaults; the sentences about what was
/// dropped.
///
/// # Errors
/// What is not of its type, in the words of Go's decoder.
pub(super) fn prune(info: &ResourceInfo, object: &mut Value) -> Result<Vec<String>, Mistake> {
    let mut unknown = Vec::new();
    match (&info.schema, admission::record(info)) {
        (Some(schema), _) => {
            unknown = schema::prune(schema, object);
            schema::default(schema, object);
        }
        (None, Some(record)) => types::decode::read(record, object, &mut unknown)?,
        (None, None) => {}
    }
    Ok(unknown.iter().map(|path| format!("unknown field {path:?}")).collect())
}

/// A value as an object of the resource's kind.
pub(super) fn decode(info: &ResourceInfo, body: Option<&Value>) -> Result<Value, Status> {
    let mut object = match body {
        Some(Value::Null) | None => json!({}),
        Some(body) if body.is_object() => body.clone(),
        Some(_) => return Err(Status::bad_request("the request body is not an object")),
    };
    for (field, expected) in [("kind", info.kind.as_str()), ("apiVersion", &info.api_version())] {
        match object[field].as_str().filter(|v| !v.is_empty()) {
            Some(found) if found == expected => {}
            Some(found) => {
                return Err(Status::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: the {field} of the data ({found}) does not match the expected one ({expected})",
                    object["kind"].as_str().unwrap_or(""),
                    object["apiVersion"].as_str().unwrap_or(""),
                    info.kind
                )));
            }
            None => object[field] = Value::String(expected.to_owned()),
        }
    }
    if object.get("metadata").is_some_and(|m| !m.is_object() && !m.is_null()) {
        return Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: json: cannot unmarshal {} into Go struct field {kind}.metadata of type v1.ObjectMeta",
            info.name.version,
            json_type(&object["metadata"]),
            kind = info.kind
        )));
    }
    if info.custom {
        drop_nulls(object.get_mut("metadata").unwrap_or(&mut Value::Null));
    } else if !is_definition(info) {
        drop_nulls(&mut object);
    }
    let meta = object::meta_mut(&mut object);
    // In what has a type in Kubernetes' own code, what is empty is the same as nothing.
    meta.retain(|field, value| match value {
        _ if field == "managedFields" => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    });
    if meta.get("generation").is_some_and(|g| *g == 0) {
        meta.remove("generation");
    }
    if info.is("events.k8s.io", "events") {
        super::events::to_core(&mut object);
    }
    Ok(object)
}

/// An owner that is there twice is there once; that is worth a warning. `when` it was found.
fn drop_same_owners(object: &mut Value, when: &str) -> Option<String> {
    let owners = object.get_mut("metadata")?.get_mut("ownerReferences")?.as_array_mut()?;
    let (mut once, mut twice): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for owner in owners.drain(..) {
        if once.contains(&owner) {
            twice.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            once.push(owner);
        }
    }
    *owners = once;
    (!twice.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        )
    })
}

/// In what has a type in Kubernetes' own code, a null is the same as nothing.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, v| !v.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ResourceName;

    fn said(raw: &str, plural: &str) -> String {
        let mut server = Server::new(1);
        let mut request = Request::create(ResourceName::core(plural), "default", Value::Null);
        request.body = serde_json::from_str(raw).ok();
        request.raw = raw.as_bytes().to_vec();
        server.handle(jiff::Timestamp::UNIX_EPOCH, &request).unwrap_err().message
    }

    #[test]
    fn bodies_of_no_kind_are_complained_of() {
        for (raw, why) in [
            (
                "{\"kind\":",
                "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({\"kind\":)",
            ),
            (
                "",
                "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
            ),
            (
                "[]",
                "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b5d)",
            ),
            (
                "{\"kind\":\"Node\",\"apiVersion\":\"v1\"}",
                "Node in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Node) to (core.ConfigMap): unknown conversion",
            ),
            (
                "{\"kind\":\"ConfigMap\",\"apiVersion\":\"odd/v1\"}",
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"odd/v1\" in scheme \"pkg/runtime/scheme.go:110\"",
            ),
            (
                "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\"}",
                "Event in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Event) to (core.ConfigMap): unknown conversion",
            ),
        ] {
            assert_eq!(said(raw, "configmaps"), why);
        }
        assert_eq!(
            said("{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\"}", "events"),
            "the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)"
        );
    }
}
