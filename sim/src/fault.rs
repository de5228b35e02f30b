//! Faults as entries of an explicit schedule: when, what, for how long. They never destroy more than the cluster can
//! bear, unless a scenario says so: who is hit is judged against the ghost at the moment of the strike.

use std::collections::BTreeMap;

use fake_k8s::server::{Request, ResourceName};
use serde::{Deserialize, Serialize};

use crate::event::Millis;
use crate::ghost;
use crate::network::Cut;
use crate::world::World;

/// When a fault strikes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trigger {
    /// At this millisecond.
    At(Millis),
    /// With the n-th effect of the operator.
    Effect(u64),
    /// As soon as the restore of an EtcdCluster is recorded to be in this phase.
    RestorePhase(String),
}

/// What happens. Targets are drawn among those that exist when it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// A member's pod is deleted.
    DeletePod,
    /// The etcd container of a pod is killed.
    CrashContainer,
    /// Nothing on a node moves.
    PauseNode,
    /// A node goes down with all its containers, and comes back.
    RebootNode,
    /// Every node goes down at once, and comes back.
    RebootAllNodes,
    /// A data directory is emptied; the volume stays.
    WipeVolume,
    /// A PersistentVolume is gone with its data.
    LoseVolume,
    /// The operator crashes before the effect (with trigger `effect`), or now.
    CrashBefore,
    /// The operator crashes after the effect, before the answer.
    CrashAfter,
    /// The operator's process does not move, and another one takes its place; then it goes on where it was.
    FreezeOperator,
    /// The next write to the API arrives so much later that its sender has given up.
    LateWrite,
    /// The operator reaches no etcd.
    CutOperatorFromEtcd,
    /// The operator does not reach the API.
    CutOperatorFromApi,
    /// The operator does not reach the store.
    CutOperatorFromStore,
    /// A member's pod does not reach the other members.
    CutMember,
    /// Nobody reaches a member's pod.
    IsolateMember,
    /// The next write to the API is committed and its answer lost.
    LoseApiAnswer,
    /// The next call of the API is refused.
    ApiError,
    /// The next membership call is carried out and its answer lost.
    LoseEtcdAnswer,
    /// The next membership call is refused.
    EtcdError,
    /// The next snapshot stream is cut.
    CutSnapshot,
    /// The next write to the store is committed and its answer lost.
    LoseStoreAnswer,
    /// The next requests to the store are refused.
    StoreError,
    /// The next read of the store ends early.
    TruncateRead,
    /// The next read of the store has a bit flipped.
    FlipBit,
    /// The next CompleteMultipartUpload commits and answers with an error.
    AmbiguousComplete,
    /// The store acknowledges the next object, and does not keep it.
    LoseObject,
    /// The store acknowledges the next object, and keeps it with a bit flipped.
    RotObject,
    /// The store answers nothing.
    StoreDown,
    /// Watches are served far behind.
    StaleViews,
    /// Every watch is cut, and begins anew somewhere.
    CutWatches,
    /// The API server forgets its history: watches get 410.
    Compact,
}

/// Classes of faults, of which each seed of the swarm switches some on.
pub const ALL: &[Action] = &[
    Action::DeletePod,
    Action::CrashContainer,
    Action::PauseNode,
    Action::RebootNode,
    Action::RebootAllNodes,
    Action::WipeVolume,
    Action::LoseVolume,
    Action::CrashBefore,
    Action::CrashAfter,
    Action::FreezeOperator,
    Action::LateWrite,
    Action::CutOperatorFromEtcd,
    Action::CutOperatorFromApi,
    Action::CutOperatorFromStore,
    Action::CutMember,
    Action::IsolateMember,
    Action::LoseApiAnswer,
    Action::ApiError,
    Action::LoseEtcdAnswer,
    Action::EtcdError,
    Action::CutSnapshot,
    Action::LoseStoreAnswer,
    Action::StoreError,
    Action::TruncateRead,
    Action::FlipBit,
    Action::AmbiguousComplete,
    Action::LoseObject,
    Action::RotObject,
    Action::StoreDown,
    Action::StaleViews,
    Action::CutWatches,
    Action::Compact,
];

/// One entry of the schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    /// When.
    pub trigger: Trigger,
    /// What.
    pub action: Action,
    /// For how long, in milliseconds, where it lasts; how often, where it counts.
    pub lasts: Millis,
}

/// Faults under way and to come.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Vec<Planned>,
    active: BTreeMap<u64, (Action, String)>,
    next: u64,
    /// After the heal nothing strikes any more.
    pub healed: bool,
    /// When that was.
    pub healed_at: Option<Millis>,
    /// Watches are served up to so many milliseconds behind; 0: as usual.
    pub stale_views: Millis,
    /// Counts the cuts of all watches.
    pub watch_cuts: u64,
    /// The next write to the API travels for so long.
    pub late_write: Millis,
    /// The phase in which the restore was when it was last looked at.
    phase: String,
    /// So many calls of the API are refused.
    pub api_error_before: u32,
    /// So many writes to the API lose their answer.
    pub api_lost_answer: u32,
    /// So many membership calls are refused.
    pub etcd_error_before: u32,
    /// So many membership calls lose their answer.
    pub etcd_lost_answer: u32,
    /// So many snapshot streams are cut.
    pub snapshot_cut: u32,
}

impl Faults {
    /// With a schedule.
    pub fn new(plan: Vec<Planned>) -> Self {
        Self { plan, ..Self::default() }
    }

    /// Entries that strike at a time.
    pub fn timed(&self) -> Vec<(usize, Millis)> {
        let entries = self.plan.iter().enumerate();
        entries
            .filter_map(|(index, planned)| match planned.trigger {
                Trigger::At(at) => Some((index, at)),
                Trigger::Effect(_) | Trigger::RestorePhase(_) => None,
            })
            .collect()
    }

    /// Effects before or after which the operator crashes.
    pub fn crash_plan(&self) -> Vec<(u64, bool)> {
        let crash = |planned: &Planned| match (&planned.trigger, planned.action) {
            (Trigger::Effect(number), Action::CrashBefore) => Some((*number, false)),
            (Trigger::Effect(number), Action::CrashAfter) => Some((*number, true)),
            _ => None,
        };
        self.plan.iter().filter_map(crash).collect()
    }
}

impl World {
    /// Faults that are triggered by an effect.
    pub fn faults_by_effect(&mut self, number: u64) {
        let due: Vec<usize> = self
            .faults
            .plan
            .iter()
            .enumerate()
            .filter(|(_, planned)| planned.trigger == Trigger::Effect(number) && number > 0)
            .filter(|(_, planned)| !matches!(planned.action, Action::CrashBefore | Action::CrashAfter))
            .map(|(index, _)| index)
            .collect();
        for index in due {
            self.strike(index);
        }
    }

    /// Faults that are triggered by what the API holds now.
    pub fn transitions(&mut self) {
        let waits = |planned: &Planned| matches!(planned.trigger, Trigger::RestorePhase(_));
        if self.faults.healed || !self.faults.plan.iter().any(waits) {
            return;
        }
        let clusters = self.server.peek_all(&crate::converge::custom("etcdclusters"), None);
        let phase = clusters.iter().find_map(|cluster| cluster["status"]["restore"]["phase"].as_str());
        let phase = phase.unwrap_or_default().to_owned();
        if phase == self.faults.phase {
            return;
        }
        self.faults.phase.clone_from(&phase);
        let plan = self.faults.plan.iter().enumerate();
        let due = plan.filter(|(_, planned)| planned.trigger == Trigger::RestorePhase(phase.clone()));
        for index in due.map(|(index, _)| index).collect::<Vec<_>>() {
            self.strike(index);
        }
    }

    /// A planned fault strikes.
    pub fn strike(&mut self, index: usize) {
        let planned = self.faults.plan[index].clone();
        if !self.faults.healed {
            self.inflict(planned.action, planned.lasts);
        }
    }

    /// A lasting fault hits this pod now.
    pub fn inflict_on(&mut self, action: Action, pod: &str, lasts: Millis) {
        self.note("fault", format!("{action:?} {pod} ({lasts})"));
        self.begin_lasting(action, pod.to_owned(), lasts);
    }

    /// A fault happens now.
    pub fn inflict(&mut self, action: Action, lasts: Millis) {
        let count = u32::try_from(lasts).unwrap_or(1).max(1);
        let target = match action {
            Action::DeletePod => self.delete_some_pod(),
            Action::CrashContainer => self.crash_some_container(),
            Action::PauseNode => self.pause_some_node(),
            Action::RebootNode => self.stop_some_node(),
            Action::RebootAllNodes => self.stop_all_nodes(),
            Action::FreezeOperator => self.freeze_operator().map(|life| life.to_string()),
            Action::WipeVolume | Action::LoseVolume => self.destroy_some_volume(action == Action::LoseVolume),
            Action::CrashBefore | Action::CrashAfter => {
                self.crash_operator();
                Some(String::new())
            }
            Action::CutMember | Action::IsolateMember => self.some_etcd_pod(),
            _ => Some(String::new()),
        };
        let Some(target) = target else { return };
        self.note("fault", format!("{action:?} {target} ({lasts})"));
        let faults = &mut self.faults;
        match action {
            Action::LateWrite => faults.late_write = lasts,
            Action::LoseObject => self.store.faults.lost_object += count,
            Action::RotObject => self.store.faults.rotten_object += count,
            Action::LoseApiAnswer => faults.api_lost_answer += count,
            Action::ApiError => faults.api_error_before += count,
            Action::LoseEtcdAnswer => faults.etcd_lost_answer += count,
            Action::EtcdError => faults.etcd_error_before += count,
            Action::CutSnapshot => faults.snapshot_cut += count,
            Action::LoseStoreAnswer => self.store.faults.lost_answer += count,
            Action::StoreError => self.store.faults.error_before += count,
            Action::TruncateRead => self.store.faults.truncated_read += count,
            Action::FlipBit => self.store.faults.bit_flip += count,
            Action::AmbiguousComplete => self.store.faults.complete_ambiguous += count,
            Action::CutWatches => {
                faults.watch_cuts += 1;
                self.wake_watchers();
            }
            Action::Compact => {
                self.server.compact(0);
                self.faults.watch_cuts += 1;
                self.wake_watchers();
            }
            Action::PauseNode
            | Action::RebootNode
            | Action::RebootAllNodes
            | Action::FreezeOperator
            | Action::CutMember
            | Action::IsolateMember
            | Action::CutOperatorFromEtcd
            | Action::CutOperatorFromApi
            | Action::CutOperatorFromStore
            | Action::StoreDown
            | Action::StaleViews => self.begin_lasting(action, target, lasts),
            Action::DeletePod
            | Action::CrashContainer
            | Action::WipeVolume
            | Action::LoseVolume
            | Action::CrashBefore
            | Action::CrashAfter => {}
        }
    }

    fn begin_lasting(&mut self, action: Action, target: String, lasts: Millis) {
        self.faults.next += 1;
        let id = self.faults.next;
        match action {
            Action::CutMember => self.network.cut(id, Cut::PodFromPods(target.clone())),
            Action::IsolateMember => self.network.cut(id, Cut::PodFromAll(target.clone())),
            Action::CutOperatorFromEtcd => self.network.cut(id, Cut::OperatorFromEtcd),
            Action::CutOperatorFromApi => self.network.cut(id, Cut::OperatorFromApi),
            Action::CutOperatorFromStore => self.network.cut(id, Cut::OperatorFromStore),
            Action::StoreDown => self.store.faults.unavailable = true,
            Action::StaleViews => {
                self.faults.stale_views = 5_000 + lasts / 8;
                self.faults.watch_cuts += 1;
                self.wake_watchers();
            }
            _ => {}
        }
        self.faults.active.insert(id, (action, target));
        self.after(lasts, crate::world::Due::Heal(id));
    }

    /// A lasting fault ends.
    pub fn heal(&mut self, id: u64) {
        let Some((action, target)) = self.faults.active.remove(&id) else { return };
        self.note("fault", format!("{action:?} {target} is over"));
        self.network.heal(id);
        match action {
            Action::PauseNode => {
                if let Some(node) = self.nodes.get_mut(&target) {
                    node.paused = false;
                }
                self.freeze(&target, false);
                self.plan_kubelet(&target, 0);
            }
            Action::RebootNode => self.restart_kubelet(&target),
            Action::RebootAllNodes => {
                for node in target.split(' ') {
                    self.restart_kubelet(node);
                }
            }
            Action::FreezeOperator => self.thaw_operator(target.parse().unwrap_or_default()),
            Action::StoreDown => self.store.faults.unavailable = false,
            Action::StaleViews => {
                self.faults.stale_views = 0;
                self.faults.watch_cuts += 1;
            }
            _ => {}
        }
        self.wake_watchers();
    }

    /// Everything heals, and nothing strikes any more.
    pub fn heal_all(&mut self) {
        self.faults.healed = true;
        for id in self.faults.active.keys().copied().collect::<Vec<_>>() {
            self.heal(id);
        }
        self.network.heal_all();
        self.store.faults = crate::store::StoreFaults::default();
        self.operator.crash_plan.clear();
        let plan = std::mem::take(&mut self.faults.plan);
        let (next, watch_cuts) = (self.faults.next, self.faults.watch_cuts + 1);
        let healed_at = Some(self.now);
        self.faults = Faults { plan, next, watch_cuts, healed: true, healed_at, ..Faults::default() };
        self.note("fault", "all is healed".into());
        self.wake_watchers();
    }

    fn etcd_pods(&self) -> Vec<String> {
        let pods =
            self.runtime.values().filter(|pod| pod.containers.values().any(|container| container.process.is_some()));
        pods.map(|pod| pod.key.clone()).collect()
    }

    fn some_etcd_pod(&mut self) -> Option<String> {
        let pods = self.etcd_pods();
        self.streams.fault.pick(&pods).cloned()
    }

    /// Deletes a pod as a user would.
    pub fn delete_pod(&mut self, key: &str) -> bool {
        let Some((namespace, name)) = key.split_once('/') else { return false };
        let now = self.timestamp();
        let request = Request::delete(ResourceName::core("pods"), namespace, name);
        self.server.handle(now, &request).is_ok()
    }

    fn delete_some_pod(&mut self) -> Option<String> {
        let key = self.some_etcd_pod()?;
        let data = self.data_of(&key)?;
        if data.starts_with("dir:") && !self.may_destroy(&data) {
            return None;
        }
        self.delete_pod(&key).then_some(key)
    }

    fn crash_some_container(&mut self) -> Option<String> {
        let key = self.some_etcd_pod()?;
        self.kill_etcd(&key).then_some(key)
    }

    /// Kills the etcd process of a pod.
    pub fn kill_etcd(&mut self, key: &str) -> bool {
        let found = self.runtime.iter().find(|(_, pod)| pod.key == *key).and_then(|(id, pod)| {
            let (name, container) = pod.containers.iter().find(|(_, container)| container.process.is_some())?;
            Some((id.clone(), name.clone(), container.start.attempt))
        });
        let Some((pod, container, attempt)) = found else { return false };
        self.end(&pod, &container, attempt, (137, Some(9)), "killed");
        true
    }

    fn usable_node(&mut self) -> Option<String> {
        let nodes: Vec<String> = self
            .nodes
            .iter()
            .filter(|(_, node)| !node.paused && node.kubelet.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        self.streams.fault.pick(&nodes).cloned()
    }

    fn freeze(&mut self, node: &str, frozen: bool) {
        let processes: Vec<u64> = self
            .runtime
            .values()
            .filter(|pod| pod.node == node)
            .flat_map(|pod| pod.containers.values().filter_map(|container| container.process))
            .collect();
        for process in processes {
            if let Some(process) = self.etcds.processes.get_mut(&process) {
                process.frozen = frozen;
            }
        }
    }

    fn pause_some_node(&mut self) -> Option<String> {
        let node = self.usable_node()?;
        self.nodes.get_mut(&node)?.paused = true;
        self.freeze(&node, true);
        Some(node)
    }

    fn stop_some_node(&mut self) -> Option<String> {
        let node = self.usable_node()?;
        self.stop_node(&node);
        Some(node)
    }

    /// All that are up: those of them that are down already come back by themselves.
    fn stop_all_nodes(&mut self) -> Option<String> {
        let up = self.nodes.iter().filter(|(_, node)| !node.paused && node.kubelet.is_some());
        let up: Vec<String> = up.map(|(name, _)| name.clone()).collect();
        for node in &up {
            self.stop_node(node);
        }
        if up.len() == self.nodes.len() {
            self.sometimes.mark(crate::sometimes::ALL_NODES);
        }
        (!up.is_empty()).then(|| up.join(" "))
    }

    fn stop_node(&mut self, node: &str) {
        let Some(found) = self.nodes.get_mut(node) else { return };
        found.kubelet = None;
        found.inbox.clear();
        let mut processes = Vec::new();
        for pod in self.runtime.values_mut().filter(|pod| pod.node == node) {
            for container in pod.containers.values_mut().filter(|container| container.exited.is_none()) {
                container.exited = Some((137, Some(9)));
                container.running = false;
                processes.extend(container.process.take());
            }
        }
        for process in processes {
            self.etcds.kill(process);
        }
    }

    /// The directory with the data of the etcd in a pod.
    pub fn data_of(&self, key: &str) -> Option<String> {
        self.etcds.of_pod(key).map(|process| process.volume.clone())
    }

    /// Whether a quorum of the lineage's disks survives without this directory.
    pub fn may_destroy(&self, volume: &str) -> bool {
        let Some(disk) = self.etcds.volumes.get(volume).and_then(|volume| volume.disk.as_ref()) else { return true };
        let Some(state) = self.etcds.configuration(disk.cluster) else { return true };
        let voters = state.voters();
        let (intact, count) = ghost::disks(self, disk.cluster);
        let formed = self.etcds.formed_at(disk.cluster).is_some();
        !formed || !voters.contains(&disk.member) || intact > count / 2 + 1
    }

    fn destroy_some_volume(&mut self, lose: bool) -> Option<String> {
        let volumes: Vec<String> = self
            .etcds
            .volumes
            .iter()
            .filter(|(id, volume)| volume.disk.is_some() && (!lose || id.starts_with("pv:")))
            .map(|(id, _)| id.clone())
            .collect();
        let volume = self.streams.fault.pick(&volumes).cloned()?;
        if !self.may_destroy(&volume) {
            return None;
        }
        self.destroy_volume(&volume, lose);
        Some(volume)
    }

    /// Empties a directory, or takes the PersistentVolume away with it.
    pub fn destroy_volume(&mut self, volume: &str, lose: bool) {
        if let Some(found) = self.etcds.volumes.get_mut(volume) {
            *found = crate::etcd::Volume::default();
        }
        if let (true, Some(name)) = (lose, volume.strip_prefix("pv:")) {
            let now = self.timestamp();
            let volumes = ResourceName::core("persistentvolumes");
            let unprotected = serde_json::json!({"metadata": {"finalizers": null}});
            let patch = Request::merge_patch(volumes.clone(), "", name, unprotected);
            let delete = Request::delete(volumes, "", name);
            // Gone already is as good.
            let _ = self.server.handle(now, &delete);
            let _ = self.server.handle(now, &patch);
        }
    }
}
