//! One probe of one container: when it is due, and what its answers add up to.
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::controllers::object;
use crate::controllers::runtime::ProbeAction;

/// A runtime that says nothing for this long after the time-out has lost the probe; it counts as failed.
const SILENCE: SignedDuration = SignedDuration::from_secs(2);

/// What a probe's verdict is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Holds the other two back until it succeeded once.
    Startup,
    /// Its failure restarts the container.
    Liveness,
    /// Decides whether the container is ready.
    Readiness,
}

impl ProbeKind {
    /// The three, in the order in which they matter.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];

    /// As events have it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Startup => "startupProbe",
            Self::Liveness => "livenessProbe",
            Self::Readiness => "readinessProbe",
        }
    }
}

/// What an answer changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Too few answers in a row to change anything.
    Undecided,
    /// As many successes in a row as asked for.
    Good,
    /// As many failures in a row as asked for.
    Bad,
}

/// The schedule and memory of one probe.
#[derive(Clone, Debug)]
pub struct Probe {
    /// What it is for.
    pub kind: ProbeKind,
    /// What it tries; `None` when the spec makes no sense (an unknown port name), which counts as failure.
    pub action: Option<ProbeAction>,
    /// `timeoutSeconds`.
    pub timeout_seconds: i64,
    period: SignedDuration,
    successes_needed: i64,
    failures_needed: i64,
    due: Timestamp,
    in_flight: Option<(u64, Timestamp)>,
    successes: i64,
    failures: i64,
}

impl Probe {
    /// The probe of this kind in the container's spec, if it has one.
    pub fn of(container: &Value, kind: ProbeKind, started_at: Timestamp) -> Option<Self> {
        let spec = container.get(kind.field()).filter(|spec| spec.is_object())?;
        let number = |field: &str, default: i64| object::number(spec, field).filter(|n| *n > 0).unwrap_or(default);
        Some(Self {
            kind,
            action: action(container, spec),
            timeout_seconds: number("/timeoutSeconds", 1),
            period: SignedDuration::from_secs(number("/periodSeconds", 10)),
            successes_needed: number("/successThreshold", 1),
            failures_needed: number("/failureThreshold", 3),
            due: started_at + SignedDuration::from_secs(number("/initialDelaySeconds", 0)),
            in_flight: None,
            successes: 0,
            failures: 0,
        })
    }

    /// Whether it must be sent now.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.in_flight.is_none() && self.due <= now
    }

    /// When it next needs attention.
    pub fn wake_at(&self) -> Timestamp {
        self.in_flight.map_or(self.due, |(_, lost_at)| lost_at)
    }

    /// Notes that it was sent.
    pub fn sent(&mut self, probe_id: u64, now: Timestamp) {
        self.due = now + self.period;
        self.in_flight = Some((probe_id, now + SignedDuration::from_secs(self.timeout_seconds) + SILENCE));
    }

    /// Whether the answer to it was lost.
    pub fn is_lost(&self, now: Timestamp) -> bool {
        self.in_flight.is_some_and(|(_, lost_at)| lost_at <= now)
    }

    /// Whether it waits for the answer to this id.
    pub fn awaits(&self, probe_id: u64) -> bool {
        self.in_flight.is_some_and(|(id, _)| id == probe_id)
    }

    /// Counts an answer.
    pub fn answered(&mut self, ok: bool) -> Verdict {
        self.in_flight = None;
        if ok {
            (self.successes, self.failures) = (self.successes + 1, 0);
        } else {
            (self.successes, self.failures) = (0, self.failures + 1);
        }
        if ok && self.successes >= self.successes_needed {
            Verdict::Good
        } else if !ok && self.failures >= self.failures_needed {
            Verdict::Bad
        } else {
            Verdict::Undecided
        }
    }
}

fn action(container: &Value, spec: &Value) -> Option<ProbeAction> {
    let host = |at: &str| Some(object::text(spec, at).to_owned()).filter(|host| !host.is_empty());
    if spec.get("exec").is_some_and(Value::is_object) {
        return Some(ProbeAction::Exec { command: object::texts(spec, "/exec/command") });
    }
    if let Some(tcp) = spec.get("tcpSocket").filter(|tcp| tcp.is_object()) {
        return Some(ProbeAction::Tcp { host: host("/tcpSocket/host"), port: port(container, tcp.get("port")?)? });
    }
    let http = spec.get("httpGet").filter(|http| http.is_object())?;
    let headers = object::items(http, "/httpHeaders").iter();
    let path = object::text(http, "/path");
    Some(ProbeAction::Http {
        tls: object::text(http, "/scheme").eq_ignore_ascii_case("HTTPS"),
        host: host("/httpGet/host"),
        port: port(container, http.get("port")?)?,
        path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        headers: headers.map(|h| (object::text(h, "/name").into(), object::text(h, "/value").into())).collect(),
    })
}

/// A port given as a number or as the name of a container port.
fn port(container: &Value, port: &Value) -> Option<u16> {
    if let Some(number) = port.as_u64() {
        return u16::try_from(number).ok();
    }
    let name = port.as_str()?;
    let named = object::items(container, "/ports").iter().find(|port| object::text(port, "/name") == name);
    match named {
        Some(found) => u16::try_from(object::number(found, "/containerPort")?).ok(),
        None => name.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_probe_changes_its_mind_only_at_its_thresholds() {
        let spec = json!({"ports": [{"name": "client", "containerPort": 2379}], "readinessProbe":
            {"tcpSocket": {"port": "client"}, "successThreshold": 2, "failureThreshold": 2, "initialDelaySeconds": 5}});
        let start = Timestamp::UNIX_EPOCH;
        let mut probe = Probe::of(&spec, ProbeKind::Readiness, start).expect("there is one");
        assert_eq!(probe.action, Some(ProbeAction::Tcp { host: None, port: 2379 }));
        assert!(!probe.is_due(start + SignedDuration::from_secs(4)));
        assert!(probe.is_due(start + SignedDuration::from_secs(5)));
        let verdicts: Vec<_> =
            [true, true, false, true, false, false].into_iter().map(|ok| probe.answered(ok)).collect();
        use Verdict::{Bad, Good, Undecided};
        assert_eq!(verdicts, [Undecided, Good, Undecided, Undecided, Undecided, Bad]);
    }

    #[test]
    fn an_answer_that_never_comes_is_noticed() {
        let spec = json!({"livenessProbe": {"httpGet": {"port": 80, "scheme": "HTTPS", "path": "live"}}});
        let start = Timestamp::UNIX_EPOCH;
        let mut probe = Probe::of(&spec, ProbeKind::Liveness, start).expect("there is one");
        probe.sent(7, start);
        assert!(probe.awaits(7) && !probe.is_due(start + SignedDuration::from_secs(60)));
        assert!(!probe.is_lost(start + SignedDuration::from_secs(2)));
        assert!(probe.is_lost(start + SignedDuration::from_secs(3)));
    }
}
