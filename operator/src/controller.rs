//! The controllers: watches fill the cache, changes fill the queues, due targets become passes.
//!
//! One future, without an executor of its own: production drives it on tokio, the simulator on madsim. It needs nothing
//! but ports, so what runs in the simulator is this loop and not a likeness of it.

mod changes;

use futures::StreamExt;
use futures::future::{BoxFuture, Either, FutureExt, select};
use futures::stream::{BoxStream, FuturesUnordered, SelectAll};
use jiff::SignedDuration;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::api::{ClusterPhase, EtcdBackup, EtcdCluster, EtcdRestore, labels};
use crate::backup::{self, BackupContext, BackupError};
use crate::cache::{Cache, Change};
use crate::leadership::{self, Candidate};
use crate::ports::fence::fenced;
use crate::ports::{
    ClusterChange, FailureReason, Fence, Kind, KubernetesError, Meter, Object, ObjectKey, PassResult, Ports, Scope,
    WatchEvent,
};
use crate::queue::{Controller, Finished, Queue, Target};
use crate::reconcile::{self, Context, Refusals};
use crate::recorder::{self, About, News};
use crate::restore;
use crate::validate::Settings;
use changes::{clusters_with_news, is_news_to_the_cluster, is_own_status_write};

/// Passes over EtcdClusters at a time. They wait for answers most of the time.
pub const CLUSTER_PASSES_MAX: usize = 64;
/// Backups at a time: each holds up to 32 MiB.
pub const BACKUP_PASSES_MAX: usize = 4;
/// Verifications of restores at a time, likewise.
pub const RESTORE_PASSES_MAX: usize = 4;
/// How long passes in flight may take to end after the process was asked to stop.
pub const DRAIN_DEADLINE: SignedDuration = SignedDuration::from_secs(20);
/// The last part of it is for calling off what takes longer, so that an upload leaves no parts behind.
const CALL_OFF_TIME: SignedDuration = SignedDuration::from_secs(6);
/// How soon a change of leadership is noticed.
const FOLLOWER_PERIOD: SignedDuration = SignedDuration::from_millis(500);
/// How often a leader looks up when nothing happens and nothing is due: what it says of itself must be true soon after it
/// lost its lease.
const IDLE_PERIOD: SignedDuration = SignedDuration::from_secs(15);

/// What is said of an object that does not decode.
const UNREADABLE: &str = "the object cannot be read and is left alone";

/// The kinds that are watched.
const WATCHED: [Kind; 6] =
    [Kind::EtcdCluster, Kind::EtcdBackup, Kind::EtcdRestore, Kind::Pod, Kind::PersistentVolumeClaim, Kind::Service];

/// How one operator process is set up.
#[derive(Clone)]
pub struct Options {
    /// Which namespaces it sees.
    pub scope: Scope,
    /// Whether it manages the objects that carry the annotation `scope: clusterwide`, or those that do not.
    pub clusterwide: bool,
    /// Which controllers it runs.
    pub controllers: BTreeSet<Controller>,
    /// Settings of validation.
    pub settings: Settings,
    /// Who it is, for the leases.
    pub candidate: Candidate,
    /// Bytes of each part of an upload; what a backup holds in memory is a small multiple of it.
    pub part_bytes: usize,
}

/// Runs until `stop` ends and what is in flight has ended.
pub async fn run(ports: Ports, options: Options, meter: Arc<dyn Meter>, stop: impl Future<Output = ()> + Send) {
    let mut process = Process::new(ports, options, meter);
    let mut stop = std::pin::pin!(stop.fuse());
    loop {
        process.start_due();
        let happened = match select(&mut stop, std::pin::pin!(process.next())).await {
            Either::Left(((), _)) => None,
            Either::Right((happening, _)) => Some(happening),
        };
        match happened {
            Some(happening) => process.take_in(happening),
            None => break,
        }
    }
    process.drain().await;
}

enum Happening {
    Watched(Kind, WatchEvent),
    Finished(Target, SignedDuration, PassEnd),
    Timer,
}

/// When to look again, or why the pass failed and what to say about it.
type PassEnd = Result<Option<SignedDuration>, (FailureReason, String)>;

/// An object that cannot be read: told once for each of its faults.
struct Unreadable {
    uid: String,
    why: String,
    has_event: bool,
}

struct Process {
    ports: Ports,
    options: Options,
    meter: Arc<dyn Meter>,
    cache: Arc<Mutex<Cache>>,
    queues: BTreeMap<Controller, Queue>,
    fences: BTreeMap<Controller, Arc<Fence>>,
    fenced_ports: BTreeMap<Controller, Ports>,
    refusals: Refusals,
    /// The EtcdClusters that it manages, and those of them whose phase is Failed.
    managed: BTreeSet<ObjectKey>,
    failed: BTreeSet<ObjectKey>,
    in_flight: BTreeMap<Controller, usize>,
    watches: SelectAll<BoxStream<'static, (Kind, WatchEvent)>>,
    /// What interrupts the watch of a kind, since it was last whole.
    interruptions: BTreeMap<Kind, String>,
    unreadable: BTreeMap<(Kind, ObjectKey), Unreadable>,
    /// Elections never end, so this is never empty.
    running: FuturesUnordered<BoxFuture<'static, Happening>>,
}

impl Process {
    fn new(ports: Ports, options: Options, meter: Arc<dyn Meter>) -> Self {
        let watches = WATCHED
            .iter()
            .map(|&kind| ports.kubernetes.watch(kind, &options.scope).map(move |event| (kind, event)).boxed());
        let mut process = Self {
            watches: futures::stream::select_all(watches),
            interruptions: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            meter,
            cache: Arc::default(),
            queues: BTreeMap::new(),
            fences: BTreeMap::new(),
            fenced_ports: BTreeMap::new(),
            refusals: Refusals::default(),
            managed: BTreeSet::new(),
            failed: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            running: FuturesUnordered::new(),
            ports,
            options,
        };
        for &controller in &process.options.controllers {
            let fence = Arc::new(Fence::default());
            let election =
                leadership::elect(process.ports.clone(), process.options.candidate.clone(), controller, fence.clone());
            process.running.push(election.map(|()| Happening::Timer).boxed());
            process.fenced_ports.insert(controller, fenced(&process.ports, &fence));
            process.fences.insert(controller, fence);
            process.queues.insert(controller, Queue::default());
        }
        process
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_synced(&self) -> bool {
        WATCHED.iter().all(|&kind| self.cache().is_synced(kind))
    }

    fn is_leader(&self, controller: Controller) -> bool {
        self.fences[&controller].is_open(self.ports.clock.monotonic())
    }

    /// Starts passes for what is due, where the lease is ours and the caches are filled.
    fn start_due(&mut self) {
        self.meter.alive();
        let synced = self.is_synced();
        self.meter.ready(synced && self.fences.values().all(|fence| fence.is_settled()));
        if !synced {
            return;
        }
        let now = self.ports.clock.monotonic();
        for controller in self.options.controllers.clone() {
            while self.is_leader(controller)
                && self.in_flight.get(&controller).copied().unwrap_or(0) < passes_max(controller)
            {
                let Some(target) = self.queues.get_mut(&controller).and_then(|queue| queue.pop(now)) else { break };
                *self.in_flight.entry(controller).or_default() += 1;
                self.running.push(self.pass(target));
            }
            self.tell_unreadable(controller);
            let waiting = self.queues.get(&controller).map_or(0, Queue::len);
            self.meter.queue(controller, waiting, self.is_leader(controller));
        }
    }

    fn pass(&self, target: Target) -> BoxFuture<'static, Happening> {
        let context = Context {
            ports: self.fenced_ports[&target.controller].clone(),
            cache: self.cache.clone(),
            settings: self.options.settings.clone(),
            part_bytes: self.options.part_bytes,
            clusterwide: self.options.clusterwide,
            legacy_alive: self.fences[&target.controller].legacy_lock(),
            refusals: self.refusals.clone(),
        };
        let fence = self.fences[&target.controller].clone();
        async move {
            let started = context.ports.clock.monotonic();
            let end = run_pass(&context, &target, fence).await;
            Happening::Finished(target, context.ports.clock.monotonic() - started, end)
        }
        .boxed()
    }

    /// How long there is nothing to do, if nothing happens.
    fn idle_time(&self, now: SignedDuration) -> SignedDuration {
        // What is due is not started without the lease: to look more often than this would be to spin.
        if self.options.controllers.iter().any(|&controller| !self.is_leader(controller)) {
            return FOLLOWER_PERIOD;
        }
        // A queue whose places are all taken waits for a pass to end, and one without its caches for a watch: both wake us.
        let synced = self.is_synced();
        let has_place = |controller: Controller| {
            synced && self.in_flight.get(&controller).copied().unwrap_or(0) < passes_max(controller)
        };
        let able = self.queues.iter().filter(|(controller, _)| has_place(**controller));
        let due = able.filter_map(|(_, queue)| queue.next_due()).min().map_or(IDLE_PERIOD, |due| due - now);
        due.clamp(SignedDuration::ZERO, IDLE_PERIOD)
    }

    /// The next thing that happens.
    async fn next(&mut self) -> Happening {
        let timer = self.ports.clock.sleep(self.idle_time(self.ports.clock.monotonic()));
        let work = select(self.watches.next(), self.running.next());
        match select(work, timer).await {
            Either::Left((Either::Left((Some((kind, event)), _)), _)) => Happening::Watched(kind, event),
            Either::Left((Either::Right((Some(happening), _)), _)) => happening,
            Either::Left((Either::Left((None, _)) | Either::Right((None, _)), _)) | Either::Right(_) => {
                Happening::Timer
            }
        }
    }

    fn take_in(&mut self, happening: Happening) {
        match happening {
            Happening::Timer => {}
            Happening::Watched(kind, event) => {
                self.log_watch(kind, &event);
                let changes = self.cache().apply(kind, event);
                for change in changes {
                    self.queue_change(&change);
                }
            }
            Happening::Finished(target, took, end) => self.finish(&target, took, end),
        }
    }

    /// What keeps a watch from being whole, and objects that it cannot read, are said in the log once.
    fn log_watch(&mut self, kind: Kind, event: &WatchEvent) {
        match event {
            // Routine: what the watch would go on from is no longer kept.
            WatchEvent::Interrupted(error @ KubernetesError::Expired { .. }) => {
                tracing::debug!(%kind, %error, "watch interrupted");
            }
            WatchEvent::Interrupted(error) => {
                let why = error.to_string();
                if self.interruptions.insert(kind, why.clone()).as_ref() != Some(&why) {
                    tracing::warn!(%kind, %error, "watch interrupted");
                }
            }
            WatchEvent::Unreadable { meta, why } => {
                let (key, uid) = (ObjectKey::of(meta), meta.uid.clone().unwrap_or_default());
                let is_ours = labels::is_clusterwide(meta.annotations.as_ref()) == self.options.clusterwide;
                let known = self.unreadable.get(&(kind, key.clone()));
                if is_ours && known.is_none_or(|known| (&known.uid, &known.why) != (&uid, why)) {
                    tracing::warn!(%kind, object = %key, %why, "{UNREADABLE}");
                    self.unreadable.insert((kind, key), Unreadable { uid, why: why.clone(), has_event: false });
                }
            }
            WatchEvent::Applied(object) | WatchEvent::Deleted(object) => {
                self.interruptions.remove(&kind);
                self.unreadable.remove(&(kind, object.key()));
            }
            WatchEvent::Relisted(objects) => {
                self.interruptions.remove(&kind);
                objects.iter().for_each(|object| drop(self.unreadable.remove(&(kind, object.key()))));
            }
        }
    }

    /// Who has the lease tells of them in events, too.
    fn tell_unreadable(&mut self, controller: Controller) {
        if !self.is_leader(controller) {
            return;
        }
        let of = match controller {
            Controller::Cluster => Kind::EtcdCluster,
            Controller::Backup => Kind::EtcdBackup,
            Controller::Restore => Kind::EtcdRestore,
        };
        for ((kind, key), found) in
            self.unreadable.iter_mut().filter(|((kind, _), found)| *kind == of && !found.has_event)
        {
            found.has_event = true;
            let (kind, key, uid) = (*kind, key.clone(), found.uid.clone());
            let news = News::warning("Unreadable", format!("{UNREADABLE}: {}", found.why));
            let ports = self.fenced_ports[&controller].clone();
            let tell = async move {
                recorder::tell(&ports, &About { kind, key: &key, uid: &uid }, &news).await;
                Happening::Timer
            };
            self.running.push(tell.boxed());
        }
    }

    fn finish(&mut self, target: &Target, took: SignedDuration, end: PassEnd) {
        let now = self.ports.clock.monotonic();
        if let Some(count) = self.in_flight.get_mut(&target.controller) {
            *count = count.saturating_sub(1);
        }
        let (finished, result) = match end {
            Ok(after) => (Finished::Again(after.map(|after| self.jittered(after))), PassResult::Done),
            Err((reason, message)) => {
                if reason == FailureReason::Conflict {
                    tracing::debug!(%target, %message, "pass ended early");
                } else {
                    tracing::warn!(%target, %message, "pass failed");
                }
                (Finished::Failed, PassResult::Failed(reason))
            }
        };
        self.meter.pass(target, took, result);
        if let Some(queue) = self.queues.get_mut(&target.controller) {
            queue.finish(target, now, finished);
        }
    }

    /// Up to a tenth later, so that a thousand clusters that were started at once do not poll at once for ever.
    fn jittered(&self, after: SignedDuration) -> SignedDuration {
        let tenth = i64::try_from(after.as_millis() / 10).unwrap_or(0).max(1);
        let random = i64::try_from(self.ports.random.bits() >> 1).unwrap_or(0) % tenth;
        after + SignedDuration::from_millis(random)
    }

    /// Change by change: to walk through ten thousand of them after every pass would be most of the work.
    fn count_clusters(&mut self, change: &Change) {
        let key = change.latest().key();
        let now = change.now.as_ref().filter(|now| self.manages(now));
        let is_failed = |object: &Object| {
            let cluster = object.typed::<EtcdCluster>();
            cluster.and_then(|cluster| Some(cluster.status.as_ref()?.phase)) == Some(ClusterPhase::Failed)
        };
        self.failed.remove(&key);
        match now {
            Some(now) => {
                if is_failed(now) {
                    self.failed.insert(key.clone());
                }
                self.managed.insert(key);
            }
            None => drop(self.managed.remove(&key)),
        }
        self.meter.clusters(self.managed.len(), self.failed.len());
    }

    /// The scope annotation decides which operator an object belongs to, as with the archived one.
    fn manages(&self, object: &Object) -> bool {
        labels::is_clusterwide(object.meta().annotations.as_ref()) == self.options.clusterwide
    }

    fn queue_change(&mut self, change: &Change) {
        let object = change.latest();
        let key = object.key();
        if object.kind() == Kind::EtcdCluster {
            self.count_clusters(change);
        }
        match object.kind() {
            Kind::EtcdCluster if self.manages(object) => {
                self.count_change(change);
                if !is_own_status_write(change) {
                    self.add(Controller::Cluster, &key);
                }
                self.add_existing::<EtcdRestore>(Controller::Restore, &key);
            }
            Kind::EtcdBackup => {
                if self.manages(object) && !is_own_status_write(change) {
                    self.add(Controller::Backup, &key);
                }
                for cluster in clusters_with_news(change) {
                    self.add_existing::<EtcdCluster>(Controller::Cluster, &cluster);
                }
            }
            Kind::EtcdRestore if self.manages(object) => {
                if !is_own_status_write(change) {
                    self.add(Controller::Restore, &key);
                }
                if is_news_to_the_cluster(change) {
                    self.add_existing::<EtcdCluster>(Controller::Cluster, &key);
                }
            }
            Kind::Pod | Kind::PersistentVolumeClaim | Kind::Service => {
                let labels = object.meta().labels.as_ref();
                if let Some(name) = labels.and_then(|labels| labels.get(labels::LABEL_CLUSTER)) {
                    let key = ObjectKey::new(&key.namespace, name);
                    self.add_existing::<EtcdCluster>(Controller::Cluster, &key);
                }
            }
            _ => {}
        }
    }

    fn count_change(&self, change: &Change) {
        let generation = |object: &Object| object.meta().generation;
        match (&change.before, &change.now) {
            (None, _) => self.meter.cluster(ClusterChange::Created),
            (_, None) => self.meter.cluster(ClusterChange::Deleted),
            (Some(before), Some(now)) if generation(before) != generation(now) => {
                self.meter.cluster(ClusterChange::Modified);
            }
            _ => {}
        }
    }

    fn add(&mut self, controller: Controller, key: &ObjectKey) {
        let now = self.ports.clock.monotonic();
        if let Some(queue) = self.queues.get_mut(&controller) {
            queue.add(&Target { controller, key: key.clone() }, now);
        }
    }

    fn add_existing<K: crate::ports::Typed>(&mut self, controller: Controller, key: &ObjectKey) {
        let known = self.cache().get::<K>(key);
        if known.is_some_and(|known| self.manages(&known.as_ref().clone().into_object())) {
            self.add(controller, key);
        }
    }

    /// Lets passes in flight end, calls off those that take longer, then gives the leases back.
    async fn drain(mut self) {
        self.let_passes_end(DRAIN_DEADLINE - CALL_OFF_TIME).await;
        self.fences.values().for_each(|fence| fence.close());
        self.let_passes_end(CALL_OFF_TIME).await;
        self.running.clear();
        for (&controller, fence) in &self.fences {
            leadership::release(&self.ports, &self.options.candidate, controller, fence).await;
        }
    }

    async fn let_passes_end(&mut self, within: SignedDuration) {
        let deadline = self.ports.clock.monotonic() + within;
        while self.in_flight.values().any(|&count| count > 0) {
            let left = deadline - self.ports.clock.monotonic();
            let clock = self.ports.clock.clone();
            let timer = clock.sleep(left);
            let ended = match select(self.running.next(), timer).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => break,
            };
            if let Some(Happening::Finished(target, took, end)) = ended {
                self.finish(&target, took, end);
            }
        }
    }
}

const fn passes_max(controller: Controller) -> usize {
    match controller {
        Controller::Cluster => CLUSTER_PASSES_MAX,
        Controller::Backup => BACKUP_PASSES_MAX,
        Controller::Restore => RESTORE_PASSES_MAX,
    }
}

async fn run_pass(context: &Context, target: &Target, fence: Arc<Fence>) -> PassEnd {
    let key = &target.key;
    let kubernetes = &context.ports.kubernetes;
    let read = |error: KubernetesError| (FailureReason::KubernetesRead, error.to_string());
    let backup_context = || BackupContext {
        legacy_alive: context.legacy_alive.clone(),
        part_bytes: context.part_bytes,
        fence: Some(fence.clone()),
    };
    match target.controller {
        Controller::Cluster => {
            reconcile::reconcile(context, key).await.map_err(|error| (error.reason(), chain(&error)))
        }
        Controller::Backup => {
            let found = kubernetes.get_typed::<EtcdBackup>(key).await.map_err(read)?;
            let Some(found) = found.filter(|found| context.manages(&found.metadata)) else { return Ok(None) };
            let next = backup::reconcile(&context.ports, key, found, &backup_context()).await;
            next.map(|next| next.after).map_err(|error| (backup_failure(&error), chain(&error)))
        }
        Controller::Restore => {
            let found = kubernetes.get_typed::<EtcdRestore>(key).await.map_err(read)?;
            let Some(found) = found.filter(|found| context.manages(&found.metadata)) else { return Ok(None) };
            let next = restore::reconcile(&context.ports, key, found, &backup_context()).await;
            next.map(|next| next.after).map_err(|error| (backup_failure(&error), chain(&error)))
        }
    }
}

const fn backup_failure(error: &BackupError) -> FailureReason {
    match error {
        BackupError::Write { source, .. } => reconcile::write_failure(source),
        BackupError::Overtaken { .. } => FailureReason::Conflict,
        BackupError::LeaseLost { .. } => FailureReason::LeaseLost,
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
