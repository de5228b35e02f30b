//! The world of one run: the fakes, the agenda of what is due when, and what the checkers saw. Everything in it happens
//! under one lock, at one instant of simulated time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fake_k8s::controllers::Controller;
use fake_k8s::controllers::kubelet::{Kubelet, KubeletConfig};
use fake_k8s::controllers::runtime::{PodId, ProbeAction, RuntimeEvent};
use fake_k8s::server::Server;
use futures::channel::{mpsc, oneshot};
use jiff::{SignedDuration, Timestamp};

use crate::checker::{Checkers, Violation};
use crate::effect::Effect;
use crate::etcd::Etcds;
use crate::event::{EventLog, HASH_OF_NOTHING, Millis, hashed};
use crate::fault::{Faults, Planned};
use crate::ghost::Ghost;
use crate::names::Names;
use crate::network::{Network, Place};
use crate::runtime::SimPod;
use crate::sometimes::Sometimes;
use crate::store::FakeStore;
use crate::stream::Stream;
use crate::workload::Clients;

/// etcd's heartbeat and election clock.
const ETCD_TICK: Millis = 250;
/// How long a life of the operator that was frozen goes on beside its successor.
const AFTER_THAW: Millis = 25_000;
/// How long the history of versions by time reaches back.
const MARKS_REACH: Millis = 300_000;

/// Streams of randomness by purpose.
#[derive(Debug)]
pub struct Streams {
    /// Latencies between operator and everything.
    pub network: Stream,
    /// Lag of watches.
    pub watch: Stream,
    /// When controllers and kubelets look.
    pub controllers: Stream,
    /// Container starts and stops.
    pub runtime: Stream,
    /// Damage in the store.
    pub store: Stream,
    /// Clients.
    pub workload: Stream,
    /// Whom a fault hits.
    pub fault: Stream,
    /// The operator's own randomness.
    pub operator: Stream,
}

impl Streams {
    fn new(seed: u64) -> Self {
        let stream = |purpose| Stream::new(seed, purpose);
        Self {
            network: stream("network"),
            watch: stream("watch"),
            controllers: stream("controllers"),
            runtime: stream("runtime"),
            store: stream("store"),
            workload: stream("workload"),
            fault: stream("fault"),
            operator: stream("operator"),
        }
    }
}

/// Something that will happen.
#[derive(Clone, Debug)]
pub enum Due {
    /// A controller looks.
    Controller(usize),
    /// A kubelet looks.
    Kubelet(String),
    /// Time passes for etcd.
    EtcdTick,
    /// A runtime tells its kubelet.
    Report(String, RuntimeEvent),
    /// An accepted container starts.
    Launch {
        /// Pod uid.
        pod: PodId,
        /// Container.
        container: String,
        /// Attempt.
        attempt: u32,
    },
    /// A container ends because it was told to.
    Stop {
        /// Pod uid.
        pod: PodId,
        /// Container.
        container: String,
        /// Attempt.
        attempt: u32,
        /// Exit code and signal.
        how: (i32, Option<i32>),
    },
    /// A container ends by itself.
    End {
        /// Pod uid.
        pod: PodId,
        /// Container.
        container: String,
        /// Attempt.
        attempt: u32,
        /// Exit code and signal.
        how: (i32, Option<i32>),
        /// Last words.
        message: String,
    },
    /// A probe is answered.
    Probe {
        /// Pod uid.
        pod: PodId,
        /// Container.
        container: String,
        /// The kubelet's id.
        probe_id: u64,
        /// What is tried.
        action: ProbeAction,
    },
    /// A client does its next thing.
    Client(usize),
    /// A planned fault strikes.
    Fault(usize),
    /// A fault ends.
    Heal(u64),
    /// A life of the operator ends.
    EndOfLife(u64),
}

/// A node.
pub struct Node {
    /// Its kubelet; none while it is down.
    pub kubelet: Option<Kubelet>,
    /// What the kubelet has not heard yet.
    pub inbox: Vec<RuntimeEvent>,
    /// Paused: nothing on it moves.
    pub paused: bool,
}

/// The operator's process, seen from outside.
#[derive(Default)]
pub struct OperatorProcess {
    /// Which life.
    pub incarnation: u64,
    /// Effects so far, over all lives.
    pub effects: u64,
    /// Lives that do not move at the moment.
    pub frozen: BTreeSet<u64>,
    /// Effects before (false) or after (true) which it crashes.
    pub crash_plan: Vec<(u64, bool)>,
    /// It manages the annotated objects of all namespaces.
    pub clusterwide: bool,
    /// It was asked to stop, and no other is started.
    pub away: bool,
    /// The last life that ended because it was asked to.
    pub stopped: Option<u64>,
    stop: Option<oneshot::Sender<()>>,
    crash: BTreeMap<u64, oneshot::Sender<()>>,
    relieve: Option<oneshot::Sender<()>>,
}

/// A life of the operator that begins, and what may become of it.
pub struct Life {
    /// Which one.
    pub number: u64,
    /// Ends when it shall die.
    pub crash: oneshot::Receiver<()>,
    /// Ends when another life shall begin beside it.
    pub relieved: oneshot::Receiver<()>,
    /// Ends when it is asked to stop.
    pub asked: oneshot::Receiver<()>,
}

/// The world.
pub struct World {
    /// Now.
    pub now: Millis,
    /// The API server.
    pub server: Server,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// Pods by uid, as the runtimes hold them.
    pub runtime: BTreeMap<PodId, SimPod>,
    /// etcd.
    pub etcds: Etcds,
    /// The object store.
    pub store: FakeStore,
    /// Who reaches whom.
    pub network: Network,
    /// Faults that count down, and the plan of those to come.
    pub faults: Faults,
    /// The operator's process.
    pub operator: OperatorProcess,
    /// Randomness.
    pub streams: Streams,
    /// What really happened.
    pub ghost: Ghost,
    /// Clients of etcd.
    pub clients: Clients,
    /// Checkers.
    pub checkers: Checkers,
    /// The first thing that should not have happened.
    pub violation: Option<Violation>,
    /// The log.
    pub log: EventLog,
    /// The world has converged: from now on nothing may be written.
    pub quiet: bool,
    /// The run is over.
    pub over: bool,
    /// When the effect that is being judged was sent.
    pub issued: Millis,
    /// Which corners of the world this run visited.
    pub sometimes: Sometimes,
    /// Set by an exchange whose answer is lost.
    pub lose_answer: bool,
    /// Counts pod addresses.
    pub next_ip: u32,
    controllers: Vec<Box<dyn Controller + Send>>,
    agenda: BTreeMap<(Millis, u64), Due>,
    sequence: u64,
    planned: BTreeMap<String, Millis>,
    marks: VecDeque<(Millis, u64)>,
    watchers: Vec<mpsc::UnboundedSender<()>>,
    poke: mpsc::UnboundedSender<()>,
    this: Weak<Mutex<World>>,
}

/// The world, shared between the driver and everybody who calls into it.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    /// Looks at the world at this instant.
    pub fn enter(&self) -> MutexGuard<'_, World> {
        let elapsed = madsim::time::TimeHandle::current().elapsed();
        let mut world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        world.now = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        world
    }

    /// Tells the driver that something may be due earlier than it thinks.
    pub fn poke(&self) {
        let world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A driver that is gone has ended the run.
        let _ = world.poke.unbounded_send(());
    }
}

/// How a world is made.
pub struct Blueprint {
    /// The seed of all streams.
    pub seed: u64,
    /// How many nodes.
    pub nodes: usize,
    /// The controllers of Kubernetes.
    pub controllers: Vec<Box<dyn Controller + Send>>,
    /// What goes wrong, and when.
    pub faults: Vec<Planned>,
    /// Keep the whole log.
    pub trace: bool,
}

/// Builds the world, and the receiver that its driver listens on.
pub fn build(blueprint: Blueprint) -> (Shared, mpsc::UnboundedReceiver<()>) {
    let (poke, poked) = mpsc::unbounded();
    let seed = blueprint.seed;
    let nodes = (0..blueprint.nodes).map(|index| (format!("node-{index}"), new_node(index))).collect();
    let shared = Arc::new_cyclic(|this| {
        Mutex::new(World {
            now: 0,
            server: Server::new(Stream::new(seed, "server").bits()),
            nodes,
            runtime: BTreeMap::new(),
            etcds: Etcds::new(seed),
            store: FakeStore::default(),
            network: Network::default(),
            faults: Faults::new(blueprint.faults),
            operator: OperatorProcess::default(),
            streams: Streams::new(seed),
            ghost: Ghost::default(),
            clients: Clients::default(),
            checkers: Checkers::all(),
            violation: None,
            log: EventLog::new(blueprint.trace),
            quiet: false,
            over: false,
            issued: 0,
            sometimes: Sometimes::default(),
            lose_answer: false,
            next_ip: 0,
            controllers: blueprint.controllers,
            agenda: BTreeMap::new(),
            sequence: 0,
            planned: BTreeMap::new(),
            marks: VecDeque::new(),
            watchers: Vec::new(),
            poke,
            this: this.clone(),
        })
    });
    (Shared(shared), poked)
}

fn new_node(index: usize) -> Node {
    Node { kubelet: Some(Kubelet::new(&format!("node-{index}"), config(index))), inbox: Vec::new(), paused: false }
}

fn config(index: usize) -> KubeletConfig {
    KubeletConfig { address: format!("192.168.0.{}", index + 1), events: false, ..KubeletConfig::default() }
}

impl World {
    /// Begins: everybody looks once, etcd's clock runs, faults are on the agenda.
    pub fn begin(&mut self) {
        for index in 0..self.controllers.len() {
            self.plan_controller(index, 0);
        }
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.plan_kubelet(&node, 0);
        }
        self.after(ETCD_TICK, Due::EtcdTick);
        for (index, at) in self.faults.timed() {
            self.after(at, Due::Fault(index));
        }
    }

    /// Another handle to this world, for what goes on by itself.
    pub fn shared(&self) -> Shared {
        Shared(self.this.upgrade().expect("whoever calls holds the world"))
    }

    /// Now, as Kubernetes tells time.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp_of(self.now)
    }

    /// A moment, as Kubernetes tells time.
    pub fn timestamp_of(&self, at: Millis) -> Timestamp {
        // 2030-01-01T00:00:00Z
        let start = Timestamp::from_second(1_893_456_000).expect("a constant in range");
        start + SignedDuration::from_millis(i64::try_from(at).unwrap_or(i64::MAX / 2))
    }

    /// A moment, as the object_store crate tells time.
    pub fn chrono(&self, at: Millis) -> chrono::DateTime<chrono::Utc> {
        chrono::DateTime::from_timestamp_millis(self.timestamp_of(at).as_millisecond()).unwrap_or_default()
    }

    fn millis_of(&self, at: Timestamp) -> Millis {
        let start = self.timestamp_of(0);
        // Controllers speak in whole instants; half a millisecond early would be an idle turn.
        u64::try_from(at.as_millisecond() - start.as_millisecond() + 1).unwrap_or(0)
    }

    /// Writes into the log.
    pub fn note(&mut self, actor: &'static str, what: String) {
        self.log.push(self.now, actor, what);
    }

    /// What the world has come to: how far the API's history is, and hashes of all that it and the store hold.
    pub fn fingerprint(&self) -> String {
        let names: Vec<_> = self.server.resources().map(|info| info.name.clone()).collect();
        let objects = names.iter().flat_map(|name| self.server.peek_all(name, None));
        let api = objects.fold(HASH_OF_NOTHING, |hash, object| hashed(hash, object.to_string().as_bytes()));
        let store = self.store.objects.iter().fold(HASH_OF_NOTHING, |hash, ((bucket, key), stored)| {
            let place = format!("{bucket}/{key} {} {}", stored.etag, stored.modified);
            hashed(hashed(hash, place.as_bytes()), &stored.data)
        });
        let version = self.server.resource_version();
        format!("resourceVersion {version}, objects {api:016x}, store {store:016x}")
    }

    /// Records the first violation; later ones are its consequences.
    pub fn violate(&mut self, violation: Violation) {
        if self.violation.is_none() {
            self.note("checker", violation.to_string());
            self.violation = Some(violation);
        }
    }

    /// Puts something on the agenda.
    pub fn after(&mut self, millis: Millis, due: Due) {
        self.sequence += 1;
        self.agenda.insert((self.now + millis, self.sequence), due);
    }

    /// A runtime will tell its kubelet.
    pub fn report(&mut self, node: &str, low: Millis, high: Millis, event: RuntimeEvent) {
        let after = self.streams.runtime.latency(low, high);
        self.after(after, Due::Report(node.to_owned(), event));
    }

    /// When the next thing is due.
    pub fn next_at(&self) -> Option<Millis> {
        self.agenda.keys().next().map(|(at, _)| *at)
    }

    /// Does everything that is due.
    pub fn run_due(&mut self) {
        self.committed();
        while let Some(entry) = self.agenda.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let ((at, _), due) = entry.remove_entry();
            self.run(at, due);
            self.committed();
        }
    }

    fn run(&mut self, at: Millis, due: Due) {
        match due {
            Due::Controller(index) => self.run_controller(index, at),
            Due::Kubelet(node) => self.run_kubelet(&node, at),
            Due::EtcdTick => self.tick(),
            Due::Report(node, event) => {
                if let Some(found) = self.nodes.get_mut(&node) {
                    found.inbox.push(event);
                    self.plan_kubelet(&node, 0);
                }
            }
            Due::Launch { pod, container, attempt } => {
                if self.is_paused(&pod) {
                    self.after(1000, Due::Launch { pod, container, attempt });
                } else {
                    self.launch(&pod, &container, attempt);
                }
            }
            Due::Stop { pod, container, attempt, how } => self.end(&pod, &container, attempt, how, "terminated"),
            Due::End { pod, container, attempt, how, message } => self.end(&pod, &container, attempt, how, &message),
            Due::Probe { pod, container, probe_id, action } => self.probe(&pod, &container, probe_id, &action),
            Due::Client(index) => crate::workload::turn(self, index),
            Due::Fault(index) => self.strike(index),
            Due::Heal(id) => self.heal(id),
            // It may be over by now.
            Due::EndOfLife(life) => _ = self.crash_life(life),
        }
    }

    fn is_paused(&self, pod: &str) -> bool {
        self.runtime.get(pod).and_then(|pod| self.nodes.get(&pod.node)).is_some_and(|node| node.paused)
    }

    fn tick(&mut self) {
        self.after(ETCD_TICK, Due::EtcdTick);
        self.etcds.tick(self.now, &self.network);
        for exit in self.etcds.take_exits() {
            self.process_exited(&exit);
        }
        crate::ghost::look(self);
        let mut checkers = std::mem::take(&mut self.checkers);
        let verdict = checkers.tick(self);
        self.checkers = checkers;
        if let Some(violation) = verdict {
            self.violate(violation);
        }
    }

    /// Judges the directories that were made just now.
    pub fn judge_births(&mut self) {
        for birth in std::mem::take(&mut self.etcds.births) {
            let mut checkers = std::mem::take(&mut self.checkers);
            let verdict = checkers.birth(self, &birth);
            self.checkers = checkers;
            crate::ghost::born(self, &birth);
            if let Some(violation) = verdict {
                self.violate(violation);
            }
        }
    }

    fn run_controller(&mut self, index: usize, at: Millis) {
        let name = format!("controller/{index}");
        if self.planned.get(&name) != Some(&at) {
            return;
        }
        self.planned.remove(&name);
        let now = self.timestamp();
        self.controllers[index].step(now, &mut self.server);
        if let Some(wake) = self.controllers[index].wake_at() {
            let delay = self.millis_of(wake).saturating_sub(self.now).max(1);
            self.plan_controller(index, delay);
        }
    }

    fn run_kubelet(&mut self, node: &str, at: Millis) {
        if self.planned.get(node) != Some(&at) {
            return;
        }
        self.planned.remove(node);
        let now = self.timestamp();
        let Some(found) = self.nodes.get_mut(node).filter(|node| !node.paused) else { return };
        let Some(kubelet) = &mut found.kubelet else { return };
        let events = std::mem::take(&mut found.inbox);
        let orders = kubelet.step(now, &mut self.server, events);
        let wake = kubelet.wake_at();
        for order in orders {
            self.order(node, order);
        }
        if let Some(wake) = wake {
            let delay = self.millis_of(wake.max(self.timestamp_of(0))).saturating_sub(self.now).max(1);
            self.plan_kubelet(node, delay);
        }
    }

    fn plan(&mut self, name: String, delay: Millis, due: Due) {
        let at = self.now + delay;
        if self.planned.get(&name).is_none_or(|known| *known > at) {
            self.planned.insert(name, at);
            self.after(delay, due);
        }
    }

    fn plan_controller(&mut self, index: usize, delay: Millis) {
        self.plan(format!("controller/{index}"), delay, Due::Controller(index));
    }

    /// A kubelet will look.
    pub fn plan_kubelet(&mut self, node: &str, delay: Millis) {
        self.plan(node.to_owned(), delay, Due::Kubelet(node.to_owned()));
    }

    /// A node's kubelet starts anew.
    pub fn restart_kubelet(&mut self, node: &str) {
        let index = node.rsplit_once('-').and_then(|(_, index)| index.parse().ok()).unwrap_or(0);
        self.nodes.insert(node.to_owned(), new_node(index));
        self.plan_kubelet(node, 0);
    }

    /// After commits in the API: everybody who watches will look.
    fn committed(&mut self) {
        let version = self.server.resource_version();
        if self.marks.back().is_some_and(|(_, known)| *known == version) {
            return;
        }
        self.marks.push_back((self.now, version));
        while self.marks.get(1).is_some_and(|(at, _)| at + MARKS_REACH < self.now) {
            self.marks.pop_front();
        }
        for index in 0..self.controllers.len() {
            let delay = self.streams.controllers.latency(1, 60);
            self.plan_controller(index, delay);
        }
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            let delay = self.streams.controllers.latency(1, 60);
            self.plan_kubelet(&node, delay);
        }
        self.wake_watchers();
    }

    /// Every watch looks whether there is something new, or whether it was cut.
    pub fn wake_watchers(&mut self) {
        self.watchers.retain(|watcher| watcher.unbounded_send(()).is_ok());
    }

    /// A watch wants to be woken.
    pub fn subscribe(&mut self) -> mpsc::UnboundedReceiver<()> {
        let (sender, receiver) = mpsc::unbounded();
        self.watchers.push(sender);
        receiver
    }

    /// The version that a replica shows which is so far behind.
    pub fn version_before(&self, lag: Millis) -> u64 {
        let then = self.now.saturating_sub(lag);
        let newest = self.marks.iter().rev().find(|(at, _)| *at <= then);
        newest.or(self.marks.front()).map_or_else(|| self.server.resource_version(), |(_, version)| *version)
    }

    /// How far behind a watch is served from now on.
    pub fn draw_lag(&mut self) -> Millis {
        match self.faults.stale_views {
            0 => self.streams.watch.latency(1, 200),
            most => self.streams.watch.between(most / 4, most),
        }
    }

    /// Latencies of an exchange: there and back.
    pub fn draw_latency(&mut self, to: &Place) -> (Millis, Millis) {
        let high = match to {
            Place::Store => 1500,
            Place::Api => 300,
            Place::Pod(_) | Place::Client | Place::Operator => 120,
        };
        (self.streams.network.latency(1, high), self.streams.network.latency(1, high))
    }

    /// The operator is about to have an effect.
    pub fn number_effect(&mut self) -> u64 {
        self.operator.effects += 1;
        self.operator.effects
    }

    /// A life of the operator begins.
    pub fn operator_starts(&mut self) -> Life {
        let (sender, crash) = oneshot::channel();
        let (relieve, relieved) = oneshot::channel();
        let (stop, asked) = oneshot::channel();
        self.operator.incarnation += 1;
        let life = self.operator.incarnation;
        self.operator.crash.insert(life, sender);
        self.operator.relieve = Some(relieve);
        self.operator.stop = Some(stop);
        self.note("operator", format!("life {life} begins"));
        Life { number: life, crash, relieved, asked }
    }

    /// The operator of now is asked to stop; which life that is.
    pub fn stop_operator(&mut self) -> u64 {
        self.operator.away = true;
        let life = self.operator.incarnation;
        self.note("operator", format!("life {life} is asked to stop"));
        if let Some(stop) = self.operator.stop.take() {
            // It may have ended just now; then it is not among those that stopped in order.
            let _ = stop.send(());
        }
        life
    }

    /// The operator of now dies. Whether one ran.
    pub fn crash_operator(&mut self) -> bool {
        self.crash_life(self.operator.incarnation)
    }

    /// A life of the operator ends here, in whatever it does. Whether it ran.
    pub fn crash_life(&mut self, life: u64) -> bool {
        let Some(crash) = self.operator.crash.remove(&life) else { return false };
        self.note("fault", format!("life {life} of the operator crashes"));
        crate::sometimes::crashed(self);
        // It may have ended just now, by itself.
        crash.send(()).is_ok()
    }

    /// The operator of now does not move any more, and another one is started beside it.
    pub fn freeze_operator(&mut self) -> Option<u64> {
        let life = self.operator.incarnation;
        let relieve = self.operator.relieve.take().filter(|_| self.operator.crash.contains_key(&life))?;
        self.operator.frozen.insert(life);
        // Whoever starts operators is there until the run is over.
        let _ = relieve.send(());
        Some(life)
    }

    /// A frozen life goes on where it was; its days are counted.
    pub fn thaw_operator(&mut self, life: u64) {
        self.operator.frozen.remove(&life);
        self.after(AFTER_THAW, Due::EndOfLife(life));
    }

    /// Crashes a life of the operator if the plan says so for this effect.
    pub fn crash_due(&mut self, life: u64, number: u64, after: bool) -> bool {
        let due = self.operator.crash_plan.contains(&(number, after));
        if due {
            self.crash_life(life);
        }
        due
    }

    /// Carries out an exchange: judged by the checkers, logged.
    pub fn commit<V, E: std::fmt::Display>(
        &mut self,
        actor: &'static str,
        number: u64,
        effect: Option<Effect>,
        act: impl FnOnce(&mut World) -> Result<V, E>,
    ) -> Result<V, E> {
        let Some(effect) = effect else { return act(self) };
        let mut checkers = std::mem::take(&mut self.checkers);
        let verdict = checkers.effect(self, &effect);
        self.checkers = checkers;
        let before = self.server.resource_version();
        if crate::sometimes::refused_for_uid(self, &effect) {
            self.sometimes.mark(crate::sometimes::UID_REFUSED);
        }
        let result = act(self);
        let outcome = match &result {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        if !effect.is_bookkeeping() || result.is_err() {
            self.note(actor, format!("#{number} {effect}: {outcome}"));
        }
        if result.is_ok() {
            let silent = self.server.resource_version() == before && matches!(effect, Effect::Update { .. });
            crate::ghost::happened(self, &effect, silent);
            self.checkers.done();
            if let Some(violation) = verdict {
                self.violate(violation);
            }
        }
        self.faults_by_effect(number);
        result
    }

    /// Who is called what at this instant.
    pub fn names(&self) -> Names {
        Names::of(self)
    }

    /// The pod behind a URL.
    pub fn resolve(&self, url: &str) -> Option<String> {
        self.names().resolve(url).or_else(|| crate::names::service_backend(self, url))
    }
}
