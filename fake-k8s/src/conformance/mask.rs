//! What may differ between two servers that behave the same, made equal; everything else is left as it is.
//!
//! | what | becomes |
//! |---|---|
//! | a uid | `uid-1`, `uid-2`, ... in the order in which they are first shown |
//! | the resourceVersion of an object | `rv-1`, ... in the same way: that a write made a new one, or none, is seen |
//! | the resourceVersion of a list, a token to continue it | one word |
//! | a moment of the time in which the server ran | `<now>` |
//! | the random end of a generated name | `<1>`, ... |
//! | an address or port that the server allocates | `<address-1>`, `<port-1>`, ... |
//! | the order of managers, which is that of their times | that of their names |
//! | mistakes that stand together at one field, conflicts with several managers | in the order of their messages |
//! | the order of a list in which names were generated | that of the masked names |
//! | an object quoted in a message | itself, with its fields in order |
use std::collections::BTreeMap;

use serde_json::Value;

use super::play::Answer;
use super::sequence::Sequence;

/// Masks the answers to a sequence.
pub fn mask(sequence: &Sequence, answers: &[Answer]) -> Vec<Answer> {
    let mut mask = Mask { prefixes: prefixes(sequence), ..Mask::default() };
    // What a watch shows was mostly shown before: it has its turn when all else has its name.
    let watches: Vec<bool> = sequence.steps.iter().map(super::sequence::Step::is_watch).collect();
    let mut out: Vec<Answer> = answers.to_vec();
    for turn in [false, true] {
        for (answer, _) in out.iter_mut().zip(&watches).filter(|(_, watch)| **watch == turn) {
            mask.learn(&answer.body);
            answer.body = mask.value("", &answer.body);
            order_causes(&mut answer.body);
            order_items(&mut answer.body);
            for warning in &mut answer.warnings {
                *warning = mask.text(warning);
            }
        }
    }
    out
}

/// Mistakes in the entries of one map, and conflicts with several managers, are found in an order that Go draws by chance.
/// The message that lists the causes again is taken for what it is.
fn order_causes(status: &mut Value) {
    let Some(causes) = status["details"]["causes"].as_array().filter(|causes| causes.len() > 1).cloned() else {
        return;
    };
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    let listed: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect();
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    let mut sorted = causes.clone();
    if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
        sorted.sort_by_key(|cause| text(cause, "message"));
        let head = message.split(": ").next().unwrap_or_default();
        status["message"] = Value::String(format!("{head}: <causes>"));
    } else {
        for run in sorted.chunk_by_mut(|left, right| left["field"] == right["field"]) {
            run.sort_by_key(|cause| text(cause, "message"));
        }
        status["message"] = Value::String(message.replace(&listed.join(", "), "<causes>"));
    }
    status["details"]["causes"] = Value::Array(sorted);
}

/// Items whose names were generated stand in the order of these.
fn order_items(list: &mut Value) {
    let Some(items) = list.get_mut("items").and_then(Value::as_array_mut) else { return };
    if items.iter().any(|item| item["metadata"]["generateName"].is_string()) {
        items.sort_by_key(|item| [&item["metadata"]["namespace"], &item["metadata"]["name"]].map(Value::to_string));
    }
}

/// What generated names begin with.
fn prefixes(sequence: &Sequence) -> Vec<String> {
    let text = serde_json::to_string(&sequence.steps).unwrap_or_default();
    let mut found: Vec<String> = text
        .split("\"generateName\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|prefix| !prefix.is_empty())
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

#[derive(Debug, Default)]
struct Mask {
    prefixes: Vec<String>,
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, String>,
    names: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
    ports: BTreeMap<String, String>,
}

fn word(known: &mut BTreeMap<String, String>, key: &str, stem: &str) {
    let next = known.len() + 1;
    let end = if stem.contains('<') { ">" } else { "" };
    known.entry(key.to_owned()).or_insert_with(|| format!("{stem}{next}{end}"));
}

impl Mask {
    fn learn_name(&mut self, prefix: &str, name: &str) {
        if self.prefixes.iter().any(|known| known == prefix)
            && let Some(end) = name.strip_prefix(prefix).filter(|end| end.len() == 5)
        {
            word(&mut self.names, &format!("{prefix}{end}"), &format!("{prefix}<"));
        }
    }

    /// Finds what is to be replaced wherever it is shown, in messages too.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Value::Object(fields) => {
                let meta = &value["metadata"];
                if let Some(uid) = meta["uid"].as_str() {
                    word(&mut self.uids, uid, "uid-");
                    if let Some(version) = meta["resourceVersion"].as_str() {
                        word(&mut self.versions, version, "rv-");
                    }
                }
                if let (Some(prefix), Some(name)) = (meta["generateName"].as_str(), meta["name"].as_str()) {
                    self.learn_name(prefix, name);
                }
                // A name is generated also for what is refused then.
                if let (Some("Status"), Some(name)) = (value["kind"].as_str(), value["details"]["name"].as_str()) {
                    for prefix in self.prefixes.clone() {
                        self.learn_name(&prefix, name);
                    }
                }
                if value["kind"] == "Service" {
                    for address in
                        value["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str)
                    {
                        if address != "None" {
                            word(&mut self.addresses, address, "<address-");
                        }
                    }
                    let ports = value["spec"]["ports"].as_array().into_iter().flatten();
                    for port in ports.filter_map(|port| port["nodePort"].as_u64()) {
                        word(&mut self.ports, &port.to_string(), "<port-");
                    }
                }
                fields.values().for_each(|field| self.learn(field));
            }
            _ => {}
        }
    }

    fn value(&self, field: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let is_list = fields.contains_key("items") && fields["metadata"]["uid"].is_null();
                let masked = fields.iter().map(|(name, value)| {
                    let value =
                        if is_list && name == "metadata" { self.list_metadata(value) } else { self.value(name, value) };
                    (self.text(name), value)
                });
                Value::Object(masked.collect())
            }
            Value::Array(items) if field == "managedFields" => {
                // Their order is that of their times, and a second may pass on one side only.
                let mut entries: Vec<Value> = items.iter().map(|item| self.value(field, item)).collect();
                let key = |entry: &Value| {
                    ["operation", "manager", "apiVersion", "subresource"].map(|name| entry[name].to_string())
                };
                entries.sort_by_key(key);
                Value::Array(entries)
            }
            Value::Array(items) => items.iter().map(|item| self.value(field, item)).collect(),
            Value::String(text) if field == "resourceVersion" => {
                Value::String(self.versions.get(text).cloned().unwrap_or_else(|| "<version>".into()))
            }
            Value::String(text) => Value::String(self.text(text)),
            Value::Number(number) if field == "nodePort" => {
                self.ports.get(&number.to_string()).map_or_else(|| value.clone(), |word| Value::String(word.clone()))
            }
            other => other.clone(),
        }
    }

    fn list_metadata(&self, value: &Value) -> Value {
        let mut out = value.clone();
        for field in ["resourceVersion", "continue"] {
            if out[field].as_str().is_some_and(|text| !text.is_empty()) {
                out[field] = Value::String(format!("<{field}>"));
            }
        }
        out
    }

    fn text(&self, text: &str) -> String {
        if is_now(text) {
            return "<now>".into();
        }
        let mut out = moments_in_message(&self.objects_in_message(text));
        let known = [&self.uids, &self.names, &self.addresses].into_iter().flatten();
        let mut known: Vec<(&String, &String)> = known.filter(|(from, _)| text.contains(from.as_str())).collect();
        // One may begin as another does.
        known.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        for (from, to) in known {
            out = out.replace(from.as_str(), to);
        }
        self.versions_in_message(out)
    }

    /// Whole objects that a message quotes: the order of their fields is nobody's.
    fn objects_in_message(&self, text: &str) -> String {
        let Some(at) = text.find("Invalid value: \"{").map(|at| at + "Invalid value: ".len()) else {
            return text.to_owned();
        };
        let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter::<String>();
        let Some(Ok(quoted)) = stream.next() else { return text.to_owned() };
        let end = at + stream.byte_offset();
        match serde_json::from_str::<Value>(&quoted) {
            Ok(object) => format!("{}{}{}", &text[..at], self.value("", &object), &text[end..]),
            Err(_) => text.to_owned(),
        }
    }

    /// Versions in the few messages that name them.
    fn versions_in_message(&self, mut text: String) -> String {
        for (before, after) in [
            ("the ResourceVersion in the precondition (", ")"),
            ("does not match the ResourceVersion in record (", ")"),
            ("too old resource version: ", " ("),
            ("Too large resource version: ", ","),
            ("current: ", ""),
            (" resourceVersion:", "]"),
            ("[resourceVersion:", "]"),
        ] {
            let Some(at) = text.find(before).map(|at| at + before.len()) else { continue };
            let end = text[at..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |end| at + end);
            if end > at && text[end..].starts_with(after) {
                let word = self.versions.get(&text[at..end]).map_or("<version>", String::as_str).to_owned();
                text.replace_range(at..end, &word);
            }
        }
        text
    }
}

/// Moments of the time in which the server ran, in a message.
fn moments_in_message(text: &str) -> String {
    const LENGTH: usize = "0000-00-00T00:00:00Z".len();
    let mut out = text.to_owned();
    let mut at = 0;
    while at + LENGTH <= out.len() {
        match out.get(at..at + LENGTH) {
            Some(moment) if is_now(moment) => out.replace_range(at..at + LENGTH, "<now>"),
            _ => {}
        }
        at += 1;
    }
    out
}

/// A moment that nobody wrote into a request: those are all of long ago.
fn is_now(text: &str) -> bool {
    let shape = |pattern: &str| {
        text.len() == pattern.len()
            && text.bytes().zip(pattern.bytes()).all(|(c, p)| if p == b'0' { c.is_ascii_digit() } else { c == p })
    };
    (shape("0000-00-00T00:00:00Z") || shape("0000-00-00T00:00:00.000000Z")) && text >= "2020"
}
