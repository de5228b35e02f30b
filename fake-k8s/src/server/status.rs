//! `metav1.Status` as a Rust error: what the API answers when it does not answer with an object.
use std::fmt;

use serde_json::{Value, json};

/// The machine-readable reason of a failure, as Kubernetes spells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // The variants are the documentation: each is the Kubernetes reason of the same name.
pub enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServiceUnavailable,
    Timeout,
    Unknown,
}

impl Reason {
    /// The spelling on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::BadRequest => "BadRequest",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Expired => "Expired",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::Invalid => "Invalid",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::InternalError => "InternalError",
            Reason::ServiceUnavailable => "ServiceUnavailable",
            Reason::Timeout => "Timeout",
            Reason::Unknown => "",
        }
    }

    /// The HTTP status code that goes with it.
    pub fn code(self) -> u16 {
        match self {
            Reason::BadRequest => 400,
            Reason::Unauthorized => 401,
            Reason::Forbidden => 403,
            Reason::NotFound => 404,
            Reason::MethodNotAllowed => 405,
            Reason::NotAcceptable => 406,
            Reason::AlreadyExists | Reason::Conflict => 409,
            Reason::Expired => 410,
            Reason::RequestEntityTooLarge => 413,
            Reason::UnsupportedMediaType => 415,
            Reason::Invalid => 422,
            Reason::TooManyRequests => 429,
            Reason::InternalError | Reason::Unknown => 500,
            Reason::ServiceUnavailable => 503,
            Reason::Timeout => 504,
        }
    }
}

/// One of the reasons behind a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// For example `FieldValueInvalid`.
    pub reason: String,
    /// The sentence without the field.
    pub message: String,
    /// The JSON path, may be empty.
    pub field: String,
}

/// What the failure is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Details {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    /// Shown even when there is nothing in it: so the parts of a server do that know of no resource.
    pub always: bool,
}

/// A failure of a request, as `metav1.Status` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: Reason,
    /// The sentence that people read.
    pub message: String,
    /// What it is about.
    pub details: Box<Details>,
}

impl Status {
    /// A failure without details.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { code: reason.code(), reason, message: message.into(), details: Box::default() }
    }

    fn about(reason: Reason, group: &str, kind: &str, name: &str, message: String) -> Self {
        let details = Details { name: name.into(), group: group.into(), kind: kind.into(), ..Details::default() };
        Self { code: reason.code(), reason, message, details: Box::new(details) }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// 404 for an object.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(plural, group));
        Self::about(Reason::NotFound, group, plural, name, message)
    }

    /// A failure of the layer before the resources, which has but one sentence for each code.
    fn general(reason: Reason, message: impl Into<String>) -> Self {
        let details = Details { always: true, ..Details::default() };
        Self { details: Box::new(details), ..Self::new(reason, message) }
    }

    /// 404 for a path that no resource serves.
    pub fn no_such_path() -> Self {
        Self::general(Reason::NotFound, "the server could not find the requested resource")
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self::general(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
    }

    /// 405 for a custom resource.
    pub fn method_not_supported(group: &str, plural: &str, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind {:?}", qualified(plural, group));
        Self::about(Reason::MethodNotAllowed, group, plural, "", message)
    }

    /// 415 for a path that takes a body of another kind only.
    pub fn unsupported_media_type() -> Self {
        Self::general(Reason::UnsupportedMediaType, "415: Unsupported Media Type")
    }

    /// 422 for a patch that does not fit the object.
    pub fn patch_does_not_apply() -> Self {
        Self::general(Reason::Invalid, "the server rejected our request due to an error in our request")
    }

    /// 500 for what Kubernetes did not expect: without a reason.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::new(Reason::Unknown, message)
    }

    /// 409 for a create.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(plural, group));
        Self::about(Reason::AlreadyExists, group, plural, name, message)
    }

    /// 409 for a write whose precondition does not hold.
    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(plural, group));
        Self::about(Reason::Conflict, group, plural, name, message)
    }

    /// 409 for a stale resourceVersion.
    pub fn modified(group: &str, plural: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, plural, name, why)
    }

    /// 403.
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", qualified(plural, group));
        Self::about(Reason::Forbidden, group, plural, name, message)
    }

    /// 410: the history no longer reaches that far back.
    pub fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(Reason::Expired, format!("too old resource version: {asked} ({oldest})"))
    }

    /// 422 with every field that is wrong; the message says the same thing once, the causes as often as it was found.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut sentences: Vec<String> = Vec::new();
        for sentence in errors.iter().map(ToString::to_string) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        let what = match sentences.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {what}", qualified(kind, group));
        let mut status = Self::about(Reason::Invalid, group, kind, name, message);
        status.details.causes = errors
            .iter()
            .map(|e| Cause { reason: e.kind.cause().into(), message: e.body(), field: e.field.clone() })
            .collect();
        status
    }

    /// 404?
    pub fn is_not_found(&self) -> bool {
        self.reason == Reason::NotFound
    }

    /// 409 for a failed precondition?
    pub fn is_conflict(&self) -> bool {
        self.reason == Reason::Conflict
    }

    /// 409 for a name that is taken?
    pub fn is_already_exists(&self) -> bool {
        self.reason == Reason::AlreadyExists
    }

    /// 422?
    pub fn is_invalid(&self) -> bool {
        self.reason == Reason::Invalid
    }

    /// 410: list again?
    pub fn is_expired(&self) -> bool {
        self.reason == Reason::Expired
    }

    /// The object on the wire.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if self.reason != Reason::Unknown {
            value["reason"] = json!(self.reason.as_str());
        }
        let details = details_value(&self.details);
        if self.details.always || details.as_object().is_some_and(|d| !d.is_empty()) {
            value["details"] = details;
        }
        value
    }
}

fn details_value(details: &Details) -> Value {
    let mut out = serde_json::Map::new();
    for (key, text) in
        [("name", &details.name), ("group", &details.group), ("kind", &details.kind), ("uid", &details.uid)]
    {
        if !text.is_empty() {
            out.insert(key.into(), Value::String(text.clone()));
        }
    }
    if !details.causes.is_empty() {
        let cause = |c: &Cause| -> Value {
            let all = [("reason", &c.reason), ("message", &c.message), ("field", &c.field)];
            all.into_iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(key, text)| (key.to_owned(), json!(text)))
                .collect()
        };
        out.insert("causes".into(), details.causes.iter().map(cause).collect());
    }
    Value::Object(out)
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

fn qualified(word: &str, group: &str) -> String {
    if group.is_empty() { word.to_owned() } else { format!("{word}.{group}") }
}

/// What is wrong with a field, in the classes that Kubernetes has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FieldErrorKind {
    Invalid,
    Required,
    NotSupported,
    Forbidden,
    Duplicate,
    TooLong,
    TooMany,
    NotFound,
    TypeInvalid,
}

impl FieldErrorKind {
    fn cause(self) -> &'static str {
        match self {
            FieldErrorKind::Invalid => "FieldValueInvalid",
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::NotSupported => "FieldValueNotSupported",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::Duplicate => "FieldValueDuplicate",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany => "FieldValueTooMany",
            FieldErrorKind::NotFound => "FieldValueNotFound",
            FieldErrorKind::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn text(self) -> &'static str {
        match self {
            FieldErrorKind::Invalid | FieldErrorKind::TypeInvalid => "Invalid value",
            FieldErrorKind::Required => "Required value",
            FieldErrorKind::NotSupported => "Unsupported value",
            FieldErrorKind::Forbidden => "Forbidden",
            FieldErrorKind::Duplicate => "Duplicate value",
            FieldErrorKind::TooLong => "Too long",
            FieldErrorKind::TooMany => "Too many",
            FieldErrorKind::NotFound => "Not found",
        }
    }
}

/// One field that is wrong: `field.Error` of apimachinery.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The class.
    pub kind: FieldErrorKind,
    /// The JSON path.
    pub field: String,
    /// The value that was refused, where the class shows one.
    pub value: Value,
    /// The explanation.
    pub detail: String,
    /// How the value is shown where that is not its JSON; nothing, when it is not shown.
    pub printed: Option<String>,
}

impl FieldError {
    /// `Invalid value`.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Invalid,
            field: field.into(),
            value: value.into(),
            detail: detail.into(),
            printed: None,
        }
    }

    /// `Required value`.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Required,
            field: field.into(),
            value: Value::Null,
            detail: detail.into(),
            printed: None,
        }
    }

    /// `Forbidden`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorKind::Forbidden,
            field: field.into(),
            value: Value::Null,
            detail: detail.into(),
            printed: None,
        }
    }

    /// `Duplicate value`.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        let value = value.into();
        Self { kind: FieldErrorKind::Duplicate, field: field.into(), value, detail: String::new(), printed: None }
    }

    /// `Unsupported value`, with those that are.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[String]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self { kind: FieldErrorKind::NotSupported, field: field.into(), value: value.into(), detail, printed: None }
    }

    /// Any other class.
    pub fn of(kind: FieldErrorKind, field: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self { kind, field: field.into(), value, detail: detail.into(), printed: None }
    }

    /// The same, with the value shown in this way.
    #[must_use]
    pub fn printed(self, text: impl Into<String>) -> Self {
        Self { printed: Some(text.into()), ..self }
    }

    /// The same, with the value not shown.
    #[must_use]
    pub fn without_value(self) -> Self {
        self.printed("")
    }

    fn body(&self) -> String {
        let text = self.kind.text();
        let shows_value = !matches!(
            self.kind,
            FieldErrorKind::Required | FieldErrorKind::Forbidden | FieldErrorKind::TooLong | FieldErrorKind::TooMany
        );
        let head = match (&self.printed, &self.value) {
            (Some(printed), _) if printed.is_empty() => text.to_owned(),
            (Some(printed), _) => format!("{text}: {printed}"),
            _ if !shows_value => text.to_owned(),
            (None, Value::String(_)) => format!("{text}: {}", self.value),
            // As Go writes JSON.
            (None, other) => {
                let shown = other.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
                format!("{text}: {shown}")
            }
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}
