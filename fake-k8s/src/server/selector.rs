//! Label and field selectors.
use serde_json::Value;

use super::label_selector::{self, Requirement};
use super::object;
use super::resource::ResourceInfo;
use super::status::Status;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    path: String,
    value: String,
    equal: bool,
}

/// What of a collection is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Field>,
    name: Option<String>,
}

impl Selector {
    pub fn parse(info: &ResourceInfo, labels: Option<&str>, fields: Option<&str>) -> Result<Self, Status> {
        let mut selector = Self { labels: parse_labels(labels.unwrap_or(""))?, ..Self::default() };
        let fields = fields.unwrap_or("");
        let mut terms = split_terms(fields);
        terms.sort_unstable();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            selector.fields.push(parse_field(fields, term)?);
        }
        if let Some(unknown) = selector.fields.iter().find(|field| !is_selectable(info, &field.path)) {
            return Err(Status::bad_request(not_selectable(info, &unknown.path)));
        }
        Ok(selector)
    }

    pub fn named(mut self, name: Option<&str>) -> Self {
        self.name = name.map(str::to_owned);
        self
    }

    /// Does it select everything?
    pub fn is_open(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    /// The name, where only one can be chosen.
    pub fn only_name(&self) -> Option<&str> {
        let by_field = self.fields.iter().find(|field| field.equal && field.path == "metadata.name");
        self.name.as_deref().or_else(|| by_field.map(|field| field.value.as_str()))
    }

    pub fn matches(&self, value: &Value) -> bool {
        self.name.as_ref().is_none_or(|n| n == object::name(value))
            && self.labels.iter().all(|l| l.matches(value))
            && self.fields.iter().all(|f| (field_text(value, &f.path) == f.value) == f.equal)
    }
}

/// Does a label selector in its string form (`a=b,c in (d,e)`) match these labels (`metadata` is around them)?
pub fn label_selector_matches(selector: &str, value: &Value) -> Result<bool, Status> {
    Ok(parse_labels(selector)?.iter().all(|l| l.matches(value)))
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, Status> {
    label_selector::parse(text).map_err(Status::bad_request)
}

/// Splits at commas that have no backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut slash, mut start, mut out) = (false, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            _ if slash => slash = false,
            '\\' => slash = true,
            ',' => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out
}

fn parse_field(all: &str, term: &str) -> Result<Field, Status> {
    let first = term.char_indices().find_map(|(at, _)| {
        let sign = ["!=", "==", "="].into_iter().find(|sign| term[at..].starts_with(*sign))?;
        Some((&term[..at], sign, &term[at + sign.len()..]))
    });
    let Some((path, sign, value)) = first else {
        return Err(Status::bad_request(format!("invalid selector: '{all}'; can't understand '{term}'")));
    };
    let value = unescape(value).map_err(Status::bad_request)?;
    Ok(Field { path: path.to_owned(), value, equal: sign != "!=" })
}

fn unescape(value: &str) -> Result<String, String> {
    let (mut out, mut chars) = (String::new(), value.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(format!("invalid field selector: invalid escape sequence: \\{other}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {}", u32::from(c))),
            other => out.push(other),
        }
    }
    Ok(out)
}

/// Kinds that can be selected by more than their name have a sentence of their own.
fn not_selectable(info: &ResourceInfo, path: &str) -> String {
    match (info.group(), info.plural()) {
        ("batch", "jobs") => format!("field label {path:?} not supported for Job"),
        ("", "pods" | "nodes" | "events" | "namespaces" | "secrets" | "services") | ("events.k8s.io", _) => {
            format!("field label not supported: {path}")
        }
        _ if info.custom => format!("field label not supported: {path}"),
        _ => format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    }
}

fn is_selectable(info: &ResourceInfo, path: &str) -> bool {
    let more: &[&str] = match (info.group(), info.plural()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "namespaces") => &["status.phase"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("" | "events.k8s.io", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("batch", "jobs") => &["status.successful"],
        _ => &[],
    };
    matches!(path, "metadata.name" | "metadata.namespace")
        || more.contains(&path)
        || info.selectable_fields.iter().any(|f| f == path)
}

fn field_text(value: &Value, path: &str) -> String {
    match path.split('.').fold(value, |v, step| &v[step]) {
        Value::String(text) => text.clone(),
        Value::Null if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".into(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_selectors_are_read_and_refused() {
        let registry = crate::server::resource::Registry::with_builtins();
        let info = |plural: &str| registry.find(&crate::server::ResourceName::core(plural)).unwrap().clone();
        let object = json!({"metadata": {"name": "a", "namespace": "n"}});
        let matches = |fields: &str| Selector::parse(&info("configmaps"), None, Some(fields)).unwrap().matches(&object);
        assert!(matches("metadata.name=a,metadata.namespace!=m"));
        assert!(matches("metadata.name==a,"));
        assert!(!matches("metadata.name!=a"));
        for (plural, fields, why) in [
            (
                "configmaps",
                "spec.x=1",
                "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            ("pods", "spec.x=1", "field label not supported: spec.x"),
            ("pods", "a", "invalid selector: 'a'; can't understand 'a'"),
            ("pods", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ] {
            let status = Selector::parse(&info(plural), None, Some(fields)).unwrap_err();
            assert_eq!((status.code, status.message.as_str()), (400, why));
        }
    }
}
