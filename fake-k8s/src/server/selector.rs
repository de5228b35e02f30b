//! Label and field selectors.
use serde_json::Value;

use super::object;
use super::resource::ResourceInfo;
use super::status::Status;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Label {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    path: String,
    value: String,
    equal: bool,
}

/// What of a collection is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selector {
    labels: Vec<Label>,
    fields: Vec<Field>,
    name: Option<String>,
}

impl Selector {
    pub fn parse(info: &ResourceInfo, labels: Option<&str>, fields: Option<&str>) -> Result<Self, Status> {
        let mut selector = Self { labels: parse_labels(labels.unwrap_or(""))?, ..Self::default() };
        for term in split_top(fields.unwrap_or("")) {
            let field = parse_field(term)?;
            if !is_selectable(info, &field.path) {
                let message = format!("field label not supported: {}", field.path);
                return Err(Status::bad_request(message));
            }
            selector.fields.push(field);
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

    pub fn matches(&self, value: &Value) -> bool {
        self.name.as_ref().is_none_or(|n| n == object::name(value))
            && self.labels.iter().all(|l| matches_label(l, value))
            && self.fields.iter().all(|f| (field_text(value, &f.path) == f.value) == f.equal)
    }
}

/// Does a label selector in its string form (`a=b,c in (d,e)`) match these labels (`metadata` is around them)?
pub fn label_selector_matches(selector: &str, value: &Value) -> Result<bool, Status> {
    Ok(parse_labels(selector)?.iter().all(|l| matches_label(l, value)))
}

fn matches_label(rule: &Label, value: &Value) -> bool {
    let get = |key: &String| object::label(value, key);
    match rule {
        Label::In(key, any) => get(key).is_some_and(|v| any.iter().any(|a| a == v)),
        Label::NotIn(key, none) => get(key).is_none_or(|v| none.iter().all(|a| a != v)),
        Label::Exists(key) => get(key).is_some(),
        Label::Absent(key) => get(key).is_none(),
        Label::Greater(key, than) => get(key).and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *than),
        Label::Less(key, than) => get(key).and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *than),
    }
}

/// Splits at commas that are not within parentheses.
fn split_top(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut out) = (0usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out.into_iter().map(str::trim).filter(|t| !t.is_empty()).collect()
}

fn parse_labels(text: &str) -> Result<Vec<Label>, Status> {
    split_top(text).into_iter().map(parse_label).collect()
}

fn parse_label(term: &str) -> Result<Label, Status> {
    let bad = || Status::bad_request(format!("unable to parse requirement: found '{term}'"));
    if let Some(key) = term.strip_prefix('!') {
        return Ok(Label::Absent(key.trim().to_owned()));
    }
    for (word, positive) in [(" notin ", false), (" in ", true)] {
        let spaced = term.replacen('(', " (", 1);
        if let Some((key, list)) = spaced.split_once(word) {
            let list = list.trim().strip_prefix('(').and_then(|l| l.strip_suffix(')')).ok_or_else(bad)?;
            let values = list.split(',').map(|v| v.trim().to_owned()).collect();
            let key = key.trim().to_owned();
            return Ok(if positive { Label::In(key, values) } else { Label::NotIn(key, values) });
        }
    }
    let owned = |key: &str, value: &str| (key.trim().to_owned(), vec![value.trim().to_owned()]);
    if let Some((key, value)) = term.split_once("!=") {
        let (key, values) = owned(key, value);
        return Ok(Label::NotIn(key, values));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        let (key, values) = owned(key, value);
        return Ok(Label::In(key, values));
    }
    if let Some((key, value)) = term.split_once('>') {
        return Ok(Label::Greater(key.trim().to_owned(), value.trim().parse().map_err(|_| bad())?));
    }
    if let Some((key, value)) = term.split_once('<') {
        return Ok(Label::Less(key.trim().to_owned(), value.trim().parse().map_err(|_| bad())?));
    }
    if term.contains(char::is_whitespace) || term.contains(['(', ')']) {
        return Err(bad());
    }
    Ok(Label::Exists(term.to_owned()))
}

fn parse_field(term: &str) -> Result<Field, Status> {
    let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
        (path, value, false)
    } else if let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (path, value, true)
    } else {
        return Err(Status::bad_request(format!("invalid selector: '{term}'; can't understand '{term}'")));
    };
    Ok(Field { path: path.trim().to_owned(), value: value.trim().to_owned(), equal })
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

    fn selects(selector: &str) -> bool {
        let pod = json!({"metadata": {"labels": {"app": "etcd", "tier": "3"}}});
        label_selector_matches(selector, &pod).unwrap()
    }

    #[test]
    fn label_selectors_read_as_kubectl_writes_them() {
        for yes in [
            "",
            "app=etcd",
            "app==etcd",
            "app!=x",
            "app",
            "!gone",
            "app in (a, etcd)",
            "app notin (a,b),tier",
            "gone notin (a)",
            "gone!=x",
            "tier>2",
            "tier<4",
        ] {
            assert!(selects(yes), "{yes}");
        }
        for no in ["app=x", "gone", "!app", "app in (a)", "app notin (etcd)", "tier>3", "app=etcd,gone"] {
            assert!(!selects(no), "{no}");
        }
        assert_eq!(label_selector_matches("a b", &json!({})).unwrap_err().code, 400);
    }
}
