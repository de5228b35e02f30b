//! Events of the core group, as controllers leave them: repeated ones are counted up, not piled up.
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object;
use crate::server::{Request, ResourceName, Server};

/// Kinds of events remembered for counting; beyond it the memory starts afresh, and so do the counts.
const REMEMBERED_MAX: usize = 512;
/// Names tried for one event. Components of one process record in the same nanosecond: each may have taken one.
const NAMES_TRIED_MAX: usize = 16;

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
        let body = self.body(now, about, (severity, reason, message));
        for _ in 0..NAMES_TRIED_MAX {
            self.written += 1;
            // The number alone would begin again after a restart, and the time alone is another component's too.
            let name = format!("{}.{:x}{:04x}", object::name(about), now.as_nanosecond(), self.written & 0xffff);
            let mut body = body.clone();
            body["metadata"] = json!({"name": name, "namespace": namespace});
            match server.handle(now, &Request::create(events(), namespace, body)) {
                Ok(_) => {
                    self.remembered.insert(kind, (name, 1));
                    return;
                }
                Err(status) if status.is_already_exists() => {}
                // Refused (an admission fault in a simulation): an event is lost, as it is on a cluster.
                Err(_) => return,
            }
        }
    }

    /// An event without its name.
    fn body(&self, now: Timestamp, about: &Value, (severity, reason, message): (Severity, &str, &str)) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Event",
            "involvedObject": {
                "apiVersion": about["apiVersion"], "kind": about["kind"], "namespace": object::namespace(about),
                "name": object::name(about), "uid": object::uid(about), "resourceVersion": object::version(about),
            },
            "type": match severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
            "reason": reason, "message": message,
            "source": {"component": self.component, "host": self.host},
            "reportingComponent": self.component, "reportingInstance": self.host,
            "firstTimestamp": object::time(now), "lastTimestamp": object::time(now), "count": 1,
        })
    }
}

fn events() -> ResourceName {
    ResourceName::core("events")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scheduler and kubelet live in one process and are stepped with one reading of the clock: the kubelet's first event
    /// of a pod had the name of the scheduler's, and was lost.
    #[test]
    fn components_that_record_at_the_same_moment_lose_nothing() {
        let mut server = Server::new(1);
        let now = Timestamp::UNIX_EPOCH;
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u"}});
        for component in ["scheduler", "kubelet", "volumes"] {
            let mut recorder = Recorder::new(component, "", true);
            recorder.record(&mut server, now, &pod, (Severity::Normal, component, "said once"));
            recorder.record(&mut server, now, &pod, (Severity::Normal, component, "said twice"));
            recorder.record(&mut server, now, &pod, (Severity::Normal, component, "said twice"));
        }
        let found = server.peek_all(&events(), None);
        let said = |reason: &str, message: &str| {
            let mut all = found.iter().filter(|event| event["reason"] == reason && event["message"] == message);
            (all.next().map(|event| event["count"].clone()), all.count())
        };
        for component in ["scheduler", "kubelet", "volumes"] {
            assert_eq!(said(component, "said once"), (Some(json!(1)), 0));
            assert_eq!(said(component, "said twice"), (Some(json!(2)), 0));
        }
    }
}
