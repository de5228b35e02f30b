//! One pod on its node, from the first sight of it to the last: what to order next, given what is known. Every pass looks at
//! the whole pod again, so that it does not matter in which order things became known.
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::container::{Activity, Container, Shown, Termination};
use super::node::KubeletConfig;
use super::probe::{Probe, ProbeKind, Verdict};
use super::resolve::{self, Place, Sources};
use super::status;
use crate::controllers::object;
use crate::controllers::recorder::{Recorder, Severity};
use crate::controllers::runtime::{ContainerStart, PodId, PodVolume, RuntimeCommand, RuntimePod};
use crate::server::Server;

/// How long a failed pull is shown as `ErrImagePull` before it becomes `ImagePullBackOff`.
const PULL_FAILURE_SHOWN: SignedDuration = SignedDuration::from_secs(1);
/// `spec.terminationGracePeriodSeconds` when absent.
const GRACE_SECONDS_DEFAULT: i64 = 30;

/// How far the runtime is with the pod as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing was asked for.
    New,
    /// Network and volumes were asked for.
    SettingUp,
    /// Network and volumes are there.
    Up,
    /// They are being taken away.
    TearingDown,
    /// Nothing is left.
    Down,
}

/// All that a pod's status is made of. Where it is as it was, so is the status, and need not be built to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// resourceVersion of the object that it stands in: its spec and the status before count too.
    pub version: String,
    stage: Stage,
    ip: String,
    failed: Option<(String, String)>,
    marks: [bool; 2],
    containers: Vec<Shown>,
}

/// What a pass over a pod needs beside the pod.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time.
    pub now: Timestamp,
    /// The API.
    pub server: &'a mut Server,
    /// Secrets and ConfigMaps.
    pub sources: &'a Sources,
    /// How the kubelet behaves.
    pub config: &'a KubeletConfig,
    /// The node's name.
    pub node: &'a str,
    /// Orders to the runtime.
    pub commands: &'a mut Vec<RuntimeCommand>,
    /// Events.
    pub recorder: &'a mut Recorder,
    /// Probes that were sent, and for whom.
    pub probes: &'a mut BTreeMap<u64, PodId>,
    /// The next probe's id.
    pub next_probe: &'a mut u64,
}

impl Context<'_> {
    fn place<'a>(&'a self, pod_ip: &'a str) -> Place<'a> {
        Place { node: self.node, host_ip: &self.config.address, pod_ip }
    }

    /// Records an event about `pod`.
    pub fn record(&mut self, pod: &Value, severity: Severity, reason: &str, message: &str) {
        self.recorder.record(self.server, self.now, pod, (severity, reason, message));
    }
}

/// One pod and all that the kubelet remembers of it.
#[derive(Debug)]
pub struct Pod {
    /// Its uid.
    pub id: PodId,
    /// The object as last seen.
    pub object: Arc<Value>,
    /// The object is gone from the API.
    pub gone: bool,
    /// How far the runtime is.
    pub stage: Stage,
    /// Its address; empty before it has one.
    pub ip: String,
    /// Init containers first, in the spec's order.
    pub containers: Vec<Container>,
    /// When this node first saw it.
    pub start_time: Timestamp,
    /// It ended for good as a whole: reason and message.
    pub failed: Option<(String, String)>,
    /// Its last status had a terminal phase.
    pub finished: bool,
    /// Something may have changed since the last pass.
    pub dirty: bool,
    /// A Secret or ConfigMap of its namespace changed.
    pub volumes_stale: bool,
    /// When the next pass is due in any case.
    pub wake: Option<Timestamp>,
    /// The resourceVersion of the kubelet's own last write.
    pub written: String,
    /// What the last status was made of.
    pub reported: Option<Reported>,
    files: Vec<PodVolume>,
    complaint: String,
}

impl Pod {
    /// A pod as the API and the runtime have it.
    pub fn adopt(object: Arc<Value>, found: Option<&RuntimePod>, now: Timestamp) -> Self {
        let finished = object::is_finished_pod(&object);
        let mut containers = Vec::new();
        for (field, statuses, init) in [
            ("/spec/initContainers", "/status/initContainerStatuses", true),
            ("/spec/containers", "/status/containerStatuses", false),
        ] {
            for spec in object::items(&object, field) {
                let name = object::text(spec, "/name");
                let named = |status: &&Value| object::text(status, "/name") == name;
                let status = object::items(&object, statuses).iter().find(named);
                let running = found.and_then(|pod| pod.containers.iter().find(|c| c.container == name));
                let mut container = Container::adopt(name, init, status, running, now);
                if init && found.is_none() && !finished && container.starts > 0 {
                    // A new sandbox runs its init containers again.
                    container.wait("PodInitializing", "");
                }
                container.probes.clear();
                containers.push(container);
            }
        }
        let stage = match found {
            Some(_) => Stage::Up,
            None if finished => Stage::Down,
            None => Stage::New,
        };
        let mut pod = Self {
            id: object::uid(&object).to_owned(),
            gone: false,
            stage,
            ip: found.map(|pod| pod.ip.clone()).unwrap_or_default(),
            containers,
            start_time: object::moment(&object, "/status/startTime").unwrap_or(now),
            failed: None,
            finished,
            dirty: true,
            volumes_stale: true,
            wake: None,
            written: String::new(),
            reported: None,
            files: Vec::new(),
            complaint: String::new(),
            object,
        };
        pod.start_probes(now);
        pod
    }

    /// All that its status is made of.
    pub fn to_report(&self) -> Reported {
        Reported {
            version: object::version(&self.object).to_owned(),
            stage: self.stage,
            ip: self.ip.clone(),
            failed: self.failed.clone(),
            marks: [self.gone, self.finished],
            containers: self.containers.iter().map(Container::shown).collect(),
        }
    }

    /// Whether nothing of the pod may start any more.
    pub fn is_ending(&self) -> bool {
        self.gone || self.finished || self.failed.is_some() || object::is_terminating(&self.object)
    }

    /// `spec.restartPolicy`.
    pub fn restart_policy(&self) -> &str {
        match object::text(&self.object, "/spec/restartPolicy") {
            "" => "Always",
            policy => policy,
        }
    }

    /// One of its containers.
    pub fn container(&mut self, name: &str) -> Option<&mut Container> {
        self.containers.iter_mut().find(|container| container.name == name)
    }

    /// One pass: everything that can be ordered now is ordered.
    pub fn sync(&mut self, context: &mut Context<'_>) {
        (self.dirty, self.wake) = (false, None);
        self.check_deadline(context.now);
        if self.is_ending() {
            return self.sync_ending(context);
        }
        match self.stage {
            Stage::New => self.set_up(context),
            Stage::Up => {
                self.update_volumes(context);
                self.sync_containers(context);
                self.finished = matches!(status::phase(self), "Succeeded" | "Failed");
                if self.finished {
                    self.sync_ending(context);
                }
            }
            Stage::SettingUp | Stage::TearingDown | Stage::Down => {}
        }
    }

    /// The runtime could not make network or volumes.
    pub fn set_up_failed(&mut self, context: &mut Context<'_>, message: &str) {
        if self.stage == Stage::SettingUp {
            self.stage = Stage::New;
            self.complain(context, "FailedCreatePodSandBox", &format!("Failed to create pod sandbox: {message}"));
            self.wake_by(context.now + context.config.retry);
        }
    }

    /// A container's process runs.
    pub fn container_started(&mut self, context: &mut Context<'_>, name: &str, attempt: u32) {
        let (pod, now) = (self.object.clone(), context.now);
        let Some(container) = self.container(name) else { return };
        // What ended at once may be told to have ended first.
        if !container.is_active() && attempt < container.starts {
            return;
        }
        container.starts = attempt + 1;
        container.activity = Activity::Running { since: now };
        container.failed_at = None;
        self.start_probes(now);
        context.record(&pod, Severity::Normal, "Started", &format!("Started container {name}"));
    }

    /// A container's process ended, or could not be started.
    pub fn container_ended(&mut self, name: &str, attempt: u32, mut ended: Termination) {
        let Some(container) = self.container(name) else { return };
        if !container.is_active() || attempt + 1 < container.starts {
            return;
        }
        if let Activity::Running { since } = container.activity {
            ended.started_at = Some(since);
        }
        container.starts = attempt + 1;
        container.ended(ended);
    }

    /// The runtime has no such image.
    pub fn image_missing(&mut self, context: &mut Context<'_>, name: &str, message: &str) {
        let (pod, now) = (self.object.clone(), context.now);
        let Some(container) = self.container(name) else { return };
        container.wait("ErrImagePull", message);
        container.failed_at = Some(now);
        let text = format!("Failed to pull image \"{}\": {message}", container.image);
        context.record(&pod, Severity::Warning, "Failed", &text);
    }

    /// A probe was answered.
    pub fn probed(&mut self, context: &mut Context<'_>, probe_id: u64, ok: bool, message: &str) {
        let index = self.containers.iter().position(|container| container.probes.iter().any(|p| p.awaits(probe_id)));
        let Some(index) = index else { return };
        let mut container = self.containers.remove(index);
        if let Some(probe) = container.probes.iter().position(|probe| probe.awaits(probe_id)) {
            self.judge(context, &mut container, probe, ok, message);
        }
        self.containers.insert(index, container);
    }

    /// Asks for a pass at `at` or earlier.
    pub fn wake_by(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    fn check_deadline(&mut self, now: Timestamp) {
        let Some(seconds) = object::number(&self.object, "/spec/activeDeadlineSeconds") else { return };
        let deadline = self.start_time + SignedDuration::from_secs(seconds);
        if self.finished || self.failed.is_some() {
            return;
        }
        if deadline > now {
            return self.wake_by(deadline);
        }
        let message = "Pod was active on the node longer than the specified deadline";
        self.failed = Some(("DeadlineExceeded".to_owned(), message.to_owned()));
    }

    fn set_up(&mut self, context: &mut Context<'_>) {
        let place = Place { node: context.node, host_ip: &context.config.address, pod_ip: "" };
        let volumes = match context.sources.volumes(context.server, &self.object, place) {
            Ok(volumes) => volumes,
            Err(message) => {
                self.complain(context, "FailedMount", &message);
                return self.wake_by(context.now + context.config.retry);
            }
        };
        let text = |pointer: &str| Some(object::text(&self.object, pointer).to_owned()).filter(|text| !text.is_empty());
        context.commands.push(RuntimeCommand::SetUpPod {
            pod: self.id.clone(),
            namespace: object::namespace(&self.object).to_owned(),
            name: object::name(&self.object).to_owned(),
            hostname: text("/spec/hostname"),
            subdomain: text("/spec/subdomain"),
            volumes,
        });
        self.stage = Stage::SettingUp;
        self.complaint.clear();
    }

    fn update_volumes(&mut self, context: &mut Context<'_>) {
        if !std::mem::take(&mut self.volumes_stale) {
            return;
        }
        // A source that is gone leaves the files as they are, as kubelet does.
        let Ok(files) = context.sources.file_volumes(&self.object, context.place(&self.ip)) else { return };
        let changed: Vec<_> = files.iter().filter(|volume| !self.files.contains(volume)).cloned().collect();
        if !changed.is_empty() {
            context.commands.push(RuntimeCommand::UpdateVolumes { pod: self.id.clone(), volumes: changed });
        }
        self.files = files;
    }

    fn sync_containers(&mut self, context: &mut Context<'_>) {
        let mut containers = std::mem::take(&mut self.containers);
        for container in &mut containers {
            if container.init && container.succeeded() {
                continue;
            }
            self.advance(context, container);
            if container.init && !container.succeeded() {
                break;
            }
        }
        self.containers = containers;
    }

    fn advance(&mut self, context: &mut Context<'_>, container: &mut Container) {
        match &container.activity {
            Activity::Starting => {}
            Activity::Running { .. } => self.tend(context, container),
            Activity::Waiting { .. } => self.try_start(context, container),
            Activity::Terminated(ended) => {
                let failed = ended.exit_code != 0;
                let again = match self.restart_policy() {
                    "Always" => failed || !container.init,
                    "OnFailure" => failed,
                    _ => false,
                };
                if again || container.restart_wanted {
                    self.try_start(context, container);
                }
            }
        }
    }

    /// Looks after a running container: its image, then its probes.
    fn tend(&mut self, context: &mut Context<'_>, container: &mut Container) {
        if container.stopping_until.is_some() {
            return;
        }
        let pod = self.object.clone();
        let Some(spec) = spec_of(&pod, container) else { return };
        if !container.init && object::text(spec, "/image") != container.image {
            container.restart_wanted = true;
            let message = format!("Container {} definition changed, will be restarted", container.name);
            context.record(&pod, Severity::Normal, "Killing", &message);
            return self.stop(context, container, self.grace_seconds());
        }
        for index in 0..container.probes.len() {
            let probe = &container.probes[index];
            if (probe.kind == ProbeKind::Startup) == container.started {
                continue;
            }
            if probe.is_lost(context.now) {
                self.judge(context, container, index, false, "no answer");
            } else if probe.is_due(context.now) {
                self.send_probe(context, container, index);
            }
            if let Some(probe) = container.probes.get(index) {
                self.wake_by(probe.wake_at());
            }
        }
    }

    fn send_probe(&mut self, context: &mut Context<'_>, container: &mut Container, index: usize) {
        let probe_id = *context.next_probe;
        *context.next_probe += 1;
        let probe = &mut container.probes[index];
        probe.sent(probe_id, context.now);
        let Some(action) = probe.action.clone() else {
            return self.judge(context, container, index, false, "the probe names no port that the container has");
        };
        let timeout_seconds = probe.timeout_seconds;
        let (pod, container) = (self.id.clone(), container.name.clone());
        context.probes.insert(probe_id, pod.clone());
        context.commands.push(RuntimeCommand::Probe { pod, container, probe_id, action, timeout_seconds });
    }

    /// Counts an answer and acts on what it adds up to.
    fn judge(&mut self, context: &mut Context<'_>, container: &mut Container, index: usize, ok: bool, message: &str) {
        let kind = container.probes[index].kind;
        let verdict = container.probes[index].answered(ok);
        self.dirty = true;
        if !ok {
            let text = format!("{} probe failed: {message}", kind.title());
            context.record(&self.object, Severity::Warning, "Unhealthy", &text);
        }
        match (kind, verdict) {
            (ProbeKind::Startup, Verdict::Good) => {
                container.started = true;
                container.ready = !container.probes.iter().any(|probe| probe.kind == ProbeKind::Readiness);
            }
            (ProbeKind::Readiness, Verdict::Good) => container.ready = true,
            (ProbeKind::Readiness, Verdict::Bad) => container.ready = false,
            (ProbeKind::Startup | ProbeKind::Liveness, Verdict::Bad) if container.stopping_until.is_none() => {
                let probe = kind.title().to_lowercase();
                let text = format!("Container {} failed {probe} probe, will be restarted", container.name);
                context.record(&self.object, Severity::Normal, "Killing", &text);
                self.stop(context, container, self.grace_seconds());
            }
            _ => {}
        }
    }

    fn try_start(&mut self, context: &mut Context<'_>, container: &mut Container) {
        let pod = self.object.clone();
        let Some(spec) = spec_of(&pod, container) else { return };
        let image = object::text(spec, "/image");
        if image != container.image {
            // Kubelet counts failures per image: a new one starts clean.
            (container.back_off, container.pull_back_off, container.failed_at) = Default::default();
        }
        if self.must_wait(context, container, image) {
            return;
        }
        let env = match context.sources.environment(&pod, spec, context.place(&self.ip), &context.config.env) {
            Ok(env) => env,
            Err(message) => {
                container.wait("CreateContainerConfigError", &message);
                self.complain(context, "Failed", &format!("Error: {message}"));
                return self.wake_by(context.now + context.config.retry);
            }
        };
        if let Some(failed_at) = container.failed_at {
            container.pull_back_off.advance(failed_at, context.now);
        } else if let Some(crashed_at) = last_end(container) {
            container.back_off.advance(crashed_at, context.now);
        }
        self.order_start(context, container, spec, env);
    }

    /// Whether a back-off holds the container; then it is shown as waiting for it.
    fn must_wait(&mut self, context: &mut Context<'_>, container: &mut Container, image: &str) -> bool {
        if let Some(failed_at) = container.failed_at {
            let shown_until = failed_at + PULL_FAILURE_SHOWN;
            if shown_until > context.now {
                self.wake_by(shown_until);
                return true;
            }
            // The first retry of a pull is not at once: kubelet adds the delay when the pull fails.
            let mut back_off = container.pull_back_off;
            if back_off.delay().is_zero() {
                back_off.advance(failed_at, failed_at);
            }
            if let Some(until) = back_off.not_before(failed_at, context.now) {
                container.pull_back_off = back_off;
                self.wake_by(until);
                self.hold(context, container, ("ImagePullBackOff", format!("Back-off pulling image \"{image}\"")));
                return true;
            }
            return false;
        }
        let Some(crashed_at) = last_end(container).filter(|_| !container.restart_wanted) else { return false };
        let Some(until) = container.back_off.not_before(crashed_at, context.now) else { return false };
        self.wake_by(until);
        let seconds = container.back_off.delay().as_secs();
        let delay = if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) };
        let (namespace, name) = object::key(&self.object);
        let who = format!("container={} pod={name}_{namespace}({})", container.name, self.id);
        self.hold(context, container, ("CrashLoopBackOff", format!("back-off {delay} restarting failed {who}")));
        true
    }

    fn hold(&mut self, context: &mut Context<'_>, container: &mut Container, why: (&str, String)) {
        let (reason, message) = why;
        let held = matches!(&container.activity, Activity::Waiting { reason: now, .. } if now == reason);
        if !held {
            let event = match reason {
                "CrashLoopBackOff" => format!("Back-off restarting failed container {}", container.name),
                _ => message.clone(),
            };
            context.record(&self.object, Severity::Warning, "BackOff", &event);
        }
        container.wait(reason, &message);
    }

    fn order_start(
        &mut self,
        context: &mut Context<'_>,
        container: &mut Container,
        spec: &Value,
        env: Vec<(String, String)>,
    ) {
        let text = |pointer: &str| Some(object::text(spec, pointer).to_owned()).filter(|text| !text.is_empty());
        let start = ContainerStart {
            pod: self.id.clone(),
            container: container.name.clone(),
            init: container.init,
            attempt: container.starts,
            image: object::text(spec, "/image").to_owned(),
            command: resolve::words(spec, "/command", &env),
            args: resolve::words(spec, "/args", &env),
            env,
            mounts: resolve::mounts(spec),
            working_dir: text("/workingDir"),
            run_as_user: object::number(spec, "/securityContext/runAsUser")
                .or_else(|| object::number(&self.object, "/spec/securityContext/runAsUser")),
            read_only_root: object::flag(spec, "/securityContext/readOnlyRootFilesystem"),
            termination_message_path: text("/terminationMessagePath").unwrap_or("/dev/termination-log".to_owned()),
        };
        container.wait("ContainerCreating", "");
        container.image.clone_from(&start.image);
        container.activity = Activity::Starting;
        container.restart_wanted = false;
        self.complaint.clear();
        context.commands.push(RuntimeCommand::StartContainer(Box::new(start)));
    }

    /// Stops what runs, takes the pod away, and lets the API forget it once nothing is left.
    fn sync_ending(&mut self, context: &mut Context<'_>) {
        if self.stage == Stage::Up {
            let grace = self.grace_seconds();
            let mut containers = std::mem::take(&mut self.containers);
            for container in &mut containers {
                if container.is_active() && container.stopping_until.is_none() {
                    let message = format!("Stopping container {}", container.name);
                    context.record(&self.object, Severity::Normal, "Killing", &message);
                }
                self.stop(context, container, grace);
            }
            self.containers = containers;
        }
        let idle = !self.containers.iter().any(Container::is_active);
        match self.stage {
            Stage::New => self.stage = Stage::Down,
            Stage::Up | Stage::SettingUp if idle => {
                context.commands.push(RuntimeCommand::TearDownPod { pod: self.id.clone() });
                self.stage = Stage::TearingDown;
            }
            _ => {}
        }
    }

    fn stop(&mut self, context: &mut Context<'_>, container: &mut Container, grace_seconds: i64) {
        let until = context.now + SignedDuration::from_secs(grace_seconds);
        if !container.is_active() || container.stopping_until.is_some_and(|stopping| stopping <= until) {
            return;
        }
        container.stopping_until = Some(until);
        let (pod, container) = (self.id.clone(), container.name.clone());
        context.commands.push(RuntimeCommand::StopContainer { pod, container, grace_seconds });
    }

    fn grace_seconds(&self) -> i64 {
        let deletion = object::number(&self.object, "/metadata/deletionGracePeriodSeconds");
        let spec = object::number(&self.object, "/spec/terminationGracePeriodSeconds");
        // Who takes a pod out of the API before its kubelet has ended it does so by force: a small grace, as documented.
        let wanted = if self.gone { Some(0) } else { deletion.or(spec) };
        wanted.unwrap_or(GRACE_SECONDS_DEFAULT).max(1)
    }

    /// Gives every running container that has none yet the probes of its spec.
    fn start_probes(&mut self, now: Timestamp) {
        let pod = self.object.clone();
        for container in self.containers.iter_mut().filter(|container| !container.init && container.probes.is_empty()) {
            let Activity::Running { since } = container.activity else { continue };
            let Some(spec) = spec_of(&pod, container) else { continue };
            let probes = ProbeKind::ALL.into_iter().filter_map(|kind| Probe::of(spec, kind, since.min(now)));
            container.probes = probes.collect();
            let has = |kind: ProbeKind| container.probes.iter().any(|probe| probe.kind == kind);
            container.started |= !has(ProbeKind::Startup);
            container.ready |= container.started && !has(ProbeKind::Readiness);
        }
    }

    /// An event when there is something new to complain about, and not at each retry.
    fn complain(&mut self, context: &mut Context<'_>, reason: &str, message: &str) {
        if self.complaint != message {
            context.record(&self.object, Severity::Warning, reason, message);
            message.clone_into(&mut self.complaint);
        }
    }
}

fn spec_of<'a>(pod: &'a Value, container: &Container) -> Option<&'a Value> {
    let field = if container.init { "/spec/initContainers" } else { "/spec/containers" };
    object::items(pod, field).iter().find(|spec| object::text(spec, "/name") == container.name)
}

fn last_end(container: &Container) -> Option<Timestamp> {
    match &container.activity {
        Activity::Terminated(ended) => Some(ended.finished_at),
        _ => container.last.as_ref().map(|ended| ended.finished_at),
    }
}
