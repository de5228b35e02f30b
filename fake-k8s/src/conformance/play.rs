//! Playing a sequence against an API, and what it answered.
use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::sequence::{Body, Sequence, Step};
use super::{Api, Call};
use crate::server::object;

/// What was answered to one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// HTTP status.
    pub code: u16,
    /// The texts of the Warning headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The body; that of a watch as a list of its events; text that is not JSON as a string.
    pub body: Value,
}

/// Plays it all. The namespace is made first.
///
/// # Errors
/// When the server does not answer: what it answers is never an error here.
pub async fn play(api: &impl Api, sequence: &Sequence) -> anyhow::Result<Vec<Answer>> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": sequence.namespace}});
    let call = Call {
        method: "POST".into(),
        uri: "/api/v1/namespaces".into(),
        content_type: "application/json".into(),
        accept: String::new(),
        body: namespace.to_string().into_bytes(),
    };
    let made = api.call(call).await.context("the namespace cannot be made")?;
    anyhow::ensure!(made.code == 201, "the namespace {} was not made: {}", sequence.namespace, made.body);
    let mut seen = Seen::default();
    let mut answers: Vec<Option<Answer>> = Vec::new();
    let mut watches = Vec::new();
    for step in &sequence.steps {
        let call = seen.call(step);
        if step.is_watch() {
            watches.push((answers.len(), call));
            answers.push(None);
            continue;
        }
        let reply = api.call(call).await.with_context(|| format!("no answer to {} {}", step.method, step.path))?;
        let body = serde_json::from_str(&reply.body).unwrap_or(Value::String(reply.body));
        seen.note(step, &body);
        answers.push(Some(Answer { code: reply.code, warnings: reply.warnings, body }));
    }
    for (at, reply) in
        futures::future::join_all(watches.into_iter().map(async |(at, call)| (at, api.call(call).await))).await
    {
        let reply = reply.context("no answer to a watch")?;
        let lines: Option<Vec<Value>> = reply.body.lines().map(|line| serde_json::from_str(line).ok()).collect();
        let whole = || serde_json::from_str(&reply.body).unwrap_or(Value::String(reply.body.clone()));
        let body = if reply.code == 200 { lines.map_or_else(whole, Value::Array) } else { whole() };
        answers[at] = Some(Answer { code: reply.code, warnings: reply.warnings, body });
    }
    answers.into_iter().map(|answer| answer.context("a step was not played")).collect()
}

/// What the answers have shown so far.
#[derive(Debug, Default)]
struct Seen {
    objects: BTreeMap<String, Value>,
    versions: BTreeMap<String, Vec<String>>,
    uids: BTreeMap<String, Vec<String>>,
    version: u64,
    token: String,
}

impl Seen {
    fn note(&mut self, step: &Step, body: &Value) {
        let version = object::version(body);
        self.version = self.version.max(version.parse().unwrap_or(0));
        if let Some(token) = body["metadata"]["continue"].as_str() {
            token.clone_into(&mut self.token);
        }
        if step.about.is_empty() || object::uid(body).is_empty() {
            return;
        }
        let push = |list: &mut Vec<String>, text: &str| {
            if list.last().is_none_or(|last| last != text) {
                list.push(text.to_owned());
            }
        };
        push(self.versions.entry(step.about.clone()).or_default(), version);
        push(self.uids.entry(step.about.clone()).or_default(), object::uid(body));
        if !step.path.ends_with("/scale") {
            self.objects.insert(step.about.clone(), body.clone());
        }
    }

    fn call(&self, step: &Step) -> Call {
        let body = match &step.body {
            Body::None => Vec::new(),
            Body::Text(text) => self.text(text).into_bytes(),
            Body::Json(value) => self.value(value).to_string().into_bytes(),
            Body::Changed { of, by } => {
                let mut object = self.objects.get(of).cloned().unwrap_or_else(|| json!({}));
                json_patch::merge(&mut object, &self.value(by));
                object.to_string().into_bytes()
            }
        };
        let mut uri = self.text(&step.path);
        for (i, (name, value)) in step.query.iter().enumerate() {
            let sign = if i == 0 { '?' } else { '&' };
            let _ = write!(uri, "{sign}{name}={}", encoded(&self.text(value)));
        }
        let (content_type, accept) = (step.content_type.clone(), step.accept.clone());
        Call { method: step.method.clone(), uri, content_type, accept, body }
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(name, value)| (name.clone(), self.value(value))).collect())
            }
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, behind)) = after.split_once('}') else { break };
            out.push_str(before);
            out.push_str(&self.placeholder(name));
            rest = behind;
        }
        out + rest
    }

    fn placeholder(&self, name: &str) -> String {
        let newest = |lists: &BTreeMap<String, Vec<String>>, of: &str| {
            let (key, back) = of.split_once('@').map_or((of, 0), |(key, back)| (key, back.parse().unwrap_or(0)));
            lists.get(key).and_then(|list| list.iter().rev().nth(back)).cloned()
        };
        match name.split_once(':') {
            Some(("rv", of)) => newest(&self.versions, of).unwrap_or_else(|| "0".into()),
            Some(("uid", of)) => newest(&self.uids, of).unwrap_or_else(|| "none".into()),
            _ if name == "version" => self.version.to_string(),
            _ if name == "continue" => self.token.clone(),
            _ => String::new(),
        }
    }
}

/// Percent-encoding of all but what RFC 3986 calls unreserved.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
