//! Events of the core group, as controllers leave them: repeated ones are counted up, not piled up.
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object;
use crate::server::{Request, ResourceName, Server};

/// Kinds of events remembered for counting; beyond it the memory starts afresh, and so do the counts.
const REMEMBERED_MAX: usize = 512;

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something was done.
    Normal,
    /// Something is wrong.
    Warning,
}

/// Writes the events of one component.
#[derive(Debug)]
pub struct Recorder {
    component: String,
    host: String,
    enabled: bool,
    written: u64,
    remembered: BTreeMap<(String, String, String), (String, u64)>,
}

impl Recorder {
    /// For `component`, on `host` if it runs on a node. One that is not enabled writes nothing.
    pub fn new(component: &str, host: &str, enabled: bool) -> Self {
        let (component, host) = (component.to_owned(), host.to_owned());
        Self { component, host, enabled, written: 0, remembered: BTreeMap::new() }
    }

    /// Records that `reason` happened to `about`.
    pub fn record(&mut self, server: &mut Server, now: Timestamp, about: &Value, event: (Severity, &str, &str)) {
        if !self.enabled {
            return;
        }
        let (severity, reason, message) = event;
        let namespace = Some(object::namespace(about)).filter(|found| !found.is_empty()).unwrap_or("default");
        let kind = (object::uid(about).to_owned(), reason.to_owned(), message.to_owned());
        if let Some((name, count)) = self.remembered.get_mut(&kind) {
            let patch = json!({"count": *count + 1, "lastTimestamp": object::time(now)});
            let answer = server.handle(now, &Request::merge_patch(events(), namespace, name, patch));
            if answer.is_ok() {
                *count += 1;
                return;
            }
        }
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.clear();
        }
        self.written += 1;
        // Unique among components and among restarts of one: the number alone would begin again.
        let name = format!("{}.{:x}{:04x}", object::name(about), now.as_nanosecond(), self.written & 0xffff);
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about["apiVersion"], "kind": about["kind"], "namespace": object::namespace(about),
                "name": object::name(about), "uid": object::uid(about), "resourceVersion": object::version(about),
            },
            "type": match severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
            "reason": reason, "message": message,
            "source": {"component": self.component, "host": self.host},
            "reportingComponent": self.component, "reportingInstance": self.host,
            "firstTimestamp": object::time(now), "lastTimestamp": object::time(now), "count": 1,
        });
        if server.handle(now, &Request::create(events(), namespace, body)).is_ok() {
            self.remembered.insert(kind, (name, 1));
        }
    }
}

fn events() -> ResourceName {
    ResourceName::core("events")
}
