//! The kubelet of one node, as a step machine: it watches the pods bound to its node, orders the runtime about, and writes
//! what became of it into their status. What really runs is behind [`RuntimeCommand`] and [`RuntimeEvent`].
//!
//! A kubelet that crashed is dropped and made anew: its first order is `List`, and from the answer and the pods' own status
//! it takes up where the other left off, while the containers ran on. A node that restarted answers with an empty list.
//!
//! Not here: cgroups and resource limits, lifecycle hooks, ephemeral containers, sidecars (an init container with a
//! restart policy runs as an ordinary one), eviction under pressure, container resize.
mod back_off;
mod container;
mod node;
mod pod;
mod probe;
mod resolve;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use self::container::Termination;
pub use self::node::KubeletConfig;
use self::pod::{Context, Pod, Stage};
use self::resolve::Sources;
use super::informer::{Change, Informer};
use super::object;
use super::recorder::{Recorder, Severity};
use super::runtime::{PodId, RuntimeCommand, RuntimeEvent, RuntimePod};
use crate::server::{Request, ResourceName, Server};

/// The kubelet of one node.
#[derive(Debug)]
pub struct Kubelet {
    node: String,
    config: KubeletConfig,
    informer: Informer,
    sources: Sources,
    recorder: Recorder,
    pods: BTreeMap<PodId, Pod>,
    probes: BTreeMap<u64, PodId>,
    next_probe: u64,
    next_heartbeat: Timestamp,
    asked: bool,
    listed: bool,
}

impl Kubelet {
    /// A kubelet that knows nothing yet.
    pub fn new(node: &str, config: KubeletConfig) -> Self {
        Self {
            node: node.to_owned(),
            informer: Informer::matching(ResourceName::core("pods"), &format!("spec.nodeName={node}")),
            sources: Sources::new(),
            recorder: Recorder::new("kubelet", node, config.events),
            pods: BTreeMap::new(),
            probes: BTreeMap::new(),
            next_probe: 0,
            next_heartbeat: Timestamp::MIN,
            asked: false,
            listed: false,
            config,
        }
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Takes in what happened, and answers with what the runtime shall do.
    pub fn step(&mut self, now: Timestamp, server: &mut Server, events: Vec<RuntimeEvent>) -> Vec<RuntimeCommand> {
        let mut commands = Vec::new();
        if self.next_heartbeat <= now {
            node::renew(server, now, &self.node, &self.config);
            self.next_heartbeat = now + self.config.heartbeat;
        }
        let changes = self.informer.sync(server);
        self.sync_sources(server);
        if !self.asked {
            self.asked = true;
            commands.push(RuntimeCommand::List);
        }
        if self.listed {
            changes.into_iter().for_each(|change| self.take_change(change, now));
        }
        for event in events {
            match event {
                RuntimeEvent::Listed { pods } => self.take_list(&pods, now, &mut commands),
                // Before the list is there its answer contains whatever happened.
                other if self.listed => self.take_event(other, now, server, &mut commands),
                _ => {}
            }
        }
        let due = |pod: &Pod| pod.dirty || pod.wake.is_some_and(|wake| wake <= now);
        let due: Vec<PodId> = self.pods.iter().filter(|(_, pod)| due(pod)).map(|(id, _)| id.clone()).collect();
        for id in due {
            self.with_pod(&id, now, server, &mut commands, |pod, context| pod.sync(context));
            self.report(&id, now, server);
        }
        commands
    }

    /// When the next step is due although nothing happens.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let pods = self.pods.values().map(|pod| if pod.dirty { Some(Timestamp::MIN) } else { pod.wake });
        pods.flatten().chain([self.next_heartbeat]).min()
    }

    fn sync_sources(&mut self, server: &Server) {
        let secrets = self.sources.secrets.sync(server);
        let config_maps = self.sources.config_maps.sync(server);
        for change in secrets.iter().chain(&config_maps) {
            for pod in self.pods.values_mut().filter(|pod| object::namespace(&pod.object) == change.key.0) {
                (pod.volumes_stale, pod.dirty) = (true, true);
            }
        }
    }

    /// The answer to the first order: the pods of the API meet the pods of the runtime.
    fn take_list(&mut self, found: &[RuntimePod], now: Timestamp, commands: &mut Vec<RuntimeCommand>) {
        if self.listed {
            return;
        }
        self.listed = true;
        for (_, object) in self.informer.iter() {
            let id = object::uid(object);
            let running = found.iter().find(|pod| pod.pod == id);
            self.pods.insert(id.to_owned(), Pod::adopt(object.clone(), running, now));
        }
        let unknown = found.iter().filter(|pod| !self.pods.contains_key(&pod.pod));
        commands.extend(unknown.map(|pod| RuntimeCommand::TearDownPod { pod: pod.pod.clone() }));
    }

    fn take_change(&mut self, change: Change, now: Timestamp) {
        // One name can stand for two pods, one after the other: the old one is gone whatever the new one is.
        let new_id = change.new.as_ref().map(|new| object::uid(new).to_owned());
        if let Some(old) = &change.old
            && new_id.as_deref() != Some(object::uid(old))
            && let Some(pod) = self.pods.get_mut(object::uid(old))
        {
            (pod.gone, pod.dirty) = (true, true);
            pod.object = old.clone();
        }
        let (Some(new), Some(id)) = (change.new, new_id) else { return };
        match self.pods.get_mut(&id) {
            Some(pod) => {
                pod.dirty |= object::version(&new) != pod.written;
                pod.object = new;
            }
            None => drop(self.pods.insert(id, Pod::adopt(new, None, now))),
        }
    }

    fn take_event(
        &mut self,
        event: RuntimeEvent,
        now: Timestamp,
        server: &mut Server,
        commands: &mut Vec<RuntimeCommand>,
    ) {
        let id = match &event {
            RuntimeEvent::Listed { .. } => return,
            RuntimeEvent::Probed { probe_id, .. } => match self.probes.remove(probe_id) {
                Some(id) => id,
                None => return,
            },
            RuntimeEvent::PodSetUp { pod, .. }
            | RuntimeEvent::PodSetUpFailed { pod, .. }
            | RuntimeEvent::ImageMissing { pod, .. }
            | RuntimeEvent::Started { pod, .. }
            | RuntimeEvent::StartFailed { pod, .. }
            | RuntimeEvent::Exited { pod, .. }
            | RuntimeEvent::TornDown { pod } => pod.clone(),
        };
        self.with_pod(&id, now, server, commands, |pod, context| happened(pod, context, event));
    }

    fn with_pod(
        &mut self,
        id: &str,
        now: Timestamp,
        server: &mut Server,
        commands: &mut Vec<RuntimeCommand>,
        act: impl FnOnce(&mut Pod, &mut Context<'_>),
    ) {
        let Some(pod) = self.pods.get_mut(id) else { return };
        let mut context = Context {
            now,
            server,
            sources: &self.sources,
            config: &self.config,
            node: &self.node,
            commands,
            recorder: &mut self.recorder,
            probes: &mut self.probes,
            next_probe: &mut self.next_probe,
        };
        act(pod, &mut context);
    }

    /// Writes the status if it changed, and ends the pod's life in the API and in memory.
    fn report(&mut self, id: &str, now: Timestamp, server: &mut Server) {
        let Some(pod) = self.pods.get_mut(id) else { return };
        if pod.gone {
            if pod.stage == Stage::Down {
                self.pods.remove(id);
                self.probes.retain(|_, owner| owner != id);
            }
            return;
        }
        let pods = ResourceName::core("pods");
        let (namespace, name) = object::key(&pod.object);
        let mut reported = pod.to_report();
        let known = pod.reported.as_ref() == Some(&reported);
        let status = if known { Value::Null } else { status::build(pod, now, &self.config.address) };
        if !known && pod.object.get("status") == Some(&status) {
            pod.reported = Some(reported);
        } else if !known {
            let mut wanted = Value::clone(&pod.object);
            wanted["status"] = status;
            match server.handle(now, &Request::replace_status(pods.clone(), &namespace, &name, wanted)) {
                Ok(written) => {
                    object::version(&written).clone_into(&mut pod.written);
                    reported.version.clone_from(&pod.written);
                    pod.reported = Some(reported);
                    pod.object = Arc::new(written);
                }
                // Somebody was faster, or the API refuses: the next pass has the news.
                Err(_) => pod.wake_by(now + self.config.retry),
            }
        }
        if pod.stage == Stage::Down && object::is_terminating(&pod.object) {
            let delete = Request::delete(pods, &namespace, &name).if_uid(id).grace(0);
            if server.handle(now, &delete).is_err() {
                pod.wake_by(now + self.config.retry);
            }
        }
    }
}

/// What an event of the runtime means for its pod.
fn happened(pod: &mut Pod, context: &mut Context<'_>, event: RuntimeEvent) {
    pod.dirty = true;
    let now = context.now;
    match event {
        RuntimeEvent::PodSetUp { ip, .. } => {
            if pod.stage == Stage::SettingUp {
                (pod.stage, pod.ip) = (Stage::Up, ip);
            }
        }
        RuntimeEvent::PodSetUpFailed { message, .. } => {
            pod.set_up_failed(context, &message);
            pod.dirty = pod.is_ending();
        }
        RuntimeEvent::ImageMissing { container, message, .. } => pod.image_missing(context, &container, &message),
        RuntimeEvent::Started { container, attempt, .. } => pod.container_started(context, &container, attempt),
        RuntimeEvent::StartFailed { container, attempt, reason, message, .. } => {
            let text = format!("Error: {message}");
            context.record(&pod.object, Severity::Warning, "Failed", &text);
            let ended = Termination { reason, message, ..Termination::exit(128, None, None, now) };
            pod.container_ended(&container, attempt, ended);
        }
        RuntimeEvent::Exited { container, attempt, exit_code, signal, termination_message, .. } => {
            let ended = Termination { message: termination_message, ..Termination::exit(exit_code, signal, None, now) };
            pod.container_ended(&container, attempt, ended);
        }
        RuntimeEvent::Probed { probe_id, ok, message } => pod.probed(context, probe_id, ok, &message),
        RuntimeEvent::TornDown { .. } => {
            if pod.stage == Stage::TearingDown {
                pod.stage = Stage::Down;
            }
        }
        RuntimeEvent::Listed { .. } => {}
    }
}

#[cfg(test)]
mod tests;
