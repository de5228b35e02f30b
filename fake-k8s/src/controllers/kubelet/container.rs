//! One container of a pod: what it does now, how it ended last, and when it may be started again.
use jiff::Timestamp;
use serde_json::{Value, json};

use super::back_off::BackOff;
use super::probe::Probe;
use crate::controllers::object;
use crate::controllers::runtime::RuntimeContainer;

/// What the pod's status shows of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    activity: Activity,
    last: Option<Termination>,
    image: String,
    starts: u32,
    marks: [bool; 3],
}

/// What a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Not started, or to be started again.
    Waiting {
        /// One CamelCase word.
        reason: String,
        /// The particulars.
        message: String,
    },
    /// The runtime was asked to start it.
    Starting,
    /// Its process runs.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// Its process ended, and what comes next is not decided yet, or nothing comes.
    Terminated(Termination),
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Termination {
    /// As a shell counts.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// `Completed`, `Error`, ...
    pub reason: String,
    /// The termination message.
    pub message: String,
    /// When it had started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}

impl Termination {
    /// An exit as the runtime reports it.
    pub fn exit(exit_code: i32, signal: Option<i32>, started_at: Option<Timestamp>, finished_at: Timestamp) -> Self {
        let reason = if exit_code == 0 { "Completed" } else { "Error" };
        Self { exit_code, signal, reason: reason.to_owned(), message: String::new(), started_at, finished_at }
    }

    /// The `terminated` state of a container status.
    pub fn value(&self, container_id: &str) -> Value {
        let mut value = json!({
            "exitCode": self.exit_code, "reason": self.reason, "containerID": container_id,
            "startedAt": self.started_at.map_or(Value::Null, object::time), "finishedAt": object::time(self.finished_at),
        });
        if let Some(signal) = self.signal {
            value["signal"] = json!(signal);
        }
        if !self.message.is_empty() {
            value["message"] = json!(self.message);
        }
        value
    }

    fn read(state: &Value, now: Timestamp) -> Option<Self> {
        let found = state.get("terminated").filter(|found| found.is_object())?;
        Some(Self {
            exit_code: object::number(found, "/exitCode").and_then(|code| i32::try_from(code).ok()).unwrap_or(255),
            signal: object::number(found, "/signal").and_then(|signal| i32::try_from(signal).ok()),
            reason: object::text(found, "/reason").to_owned(),
            message: object::text(found, "/message").to_owned(),
            started_at: object::moment(found, "/startedAt"),
            finished_at: object::moment(found, "/finishedAt").unwrap_or(now),
        })
    }
}

/// One container and everything that is remembered of it.
#[derive(Clone, Debug)]
pub struct Container {
    /// Its name in the pod.
    pub name: String,
    /// Whether it runs before the others.
    pub init: bool,
    /// How often it was started; the next attempt's number.
    pub starts: u32,
    /// What it does.
    pub activity: Activity,
    /// How the attempt before the current one ended.
    pub last: Option<Termination>,
    /// The image of the current attempt.
    pub image: String,
    /// Of restarts.
    pub back_off: BackOff,
    /// Of image pulls.
    pub pull_back_off: BackOff,
    /// The moment of the failure that a retry waits for.
    pub failed_at: Option<Timestamp>,
    /// The grace period with which it was last told to stop, counted from then.
    pub stopping_until: Option<Timestamp>,
    /// It is stopped to run again, whatever the restart policy says.
    pub restart_wanted: bool,
    /// Its readiness.
    pub ready: bool,
    /// Its start-up is over.
    pub started: bool,
    /// Of the current attempt.
    pub probes: Vec<Probe>,
}

impl Container {
    /// What status shows of it.
    pub fn shown(&self) -> Shown {
        Shown {
            activity: self.activity.clone(),
            last: self.last.clone(),
            image: self.image.clone(),
            starts: self.starts,
            marks: [self.ready, self.started, self.restart_wanted],
        }
    }

    /// A container as the last kubelet and the runtime left it; a new one when neither knows it.
    pub fn adopt(
        name: &str,
        init: bool,
        status: Option<&Value>,
        found: Option<&RuntimeContainer>,
        now: Timestamp,
    ) -> Self {
        let restarts = status.and_then(|status| object::number(status, "/restartCount")).unwrap_or_default();
        let restarts = u32::try_from(restarts).unwrap_or_default();
        let state = status.and_then(|status| status.get("state")).unwrap_or(&Value::Null);
        let last = status.and_then(|status| status.get("lastState")).and_then(|last| Termination::read(last, now));
        let since = object::moment(state, "/running/startedAt");
        let ended = Termination::read(state, now);
        let waiting = Activity::Waiting { reason: "ContainerCreating".to_owned(), message: String::new() };
        let mut container = Self {
            name: name.to_owned(),
            init,
            starts: if ended.is_some() || since.is_some() || last.is_some() { restarts + 1 } else { 0 },
            activity: ended.clone().map_or(waiting, Activity::Terminated),
            last,
            image: status.map(|status| object::text(status, "/image").to_owned()).unwrap_or_default(),
            back_off: BackOff::default(),
            pull_back_off: BackOff::default(),
            failed_at: None,
            stopping_until: None,
            restart_wanted: false,
            ready: status.is_some_and(|status| object::flag(status, "/ready")),
            started: status.is_some_and(|status| object::flag(status, "/started")),
            probes: Vec::new(),
        };
        if let Some(found) = found {
            container.starts = found.attempt + 1;
            container.image.clone_from(&found.image);
            container.activity = match found.exited {
                None => Activity::Running { since: since.unwrap_or(now) },
                Some((code, signal)) => Activity::Terminated(Termination::exit(code, signal, since, now)),
            };
        } else if since.is_some() {
            // It ran when the last kubelet looked, and its node has forgotten it since.
            let message = "The container could not be located when the pod was terminated".to_owned();
            let lost = Termination::exit(137, None, since, now);
            container.activity =
                Activity::Terminated(Termination { reason: "ContainerStatusUnknown".to_owned(), message, ..lost });
        }
        if !container.is_running() {
            (container.ready, container.started) = (false, false);
        }
        container
    }

    /// Whether its process runs.
    pub fn is_running(&self) -> bool {
        matches!(self.activity, Activity::Running { .. })
    }

    /// Whether a process runs or is about to.
    pub fn is_active(&self) -> bool {
        matches!(self.activity, Activity::Running { .. } | Activity::Starting)
    }

    /// The exit code, once it ended and is not to run again as far as is known.
    pub fn exit_code(&self) -> Option<i32> {
        match &self.activity {
            Activity::Terminated(ended) => Some(ended.exit_code),
            _ => None,
        }
    }

    /// Whether it ended well.
    pub fn succeeded(&self) -> bool {
        self.exit_code() == Some(0)
    }

    /// `restartCount`.
    pub fn restarts(&self) -> u32 {
        self.starts.saturating_sub(1)
    }

    /// Shows it as waiting; an end that it has seen becomes its last state.
    pub fn wait(&mut self, reason: &str, message: &str) {
        if let Activity::Terminated(ended) = &self.activity {
            self.last = Some(ended.clone());
        }
        self.activity = Activity::Waiting { reason: reason.to_owned(), message: message.to_owned() };
    }

    /// Forgets what belongs to one attempt.
    pub fn ended(&mut self, ended: Termination) {
        self.activity = Activity::Terminated(ended);
        (self.ready, self.started, self.stopping_until) = (false, false, None);
        self.probes.clear();
    }
}
