//! What is counted, under the names of the archived operator and a few of our own.
//!
//! The format is Prometheus' text 0.0.4, because its names are the counters' own: OpenMetrics would append `_total`.

use jiff::SignedDuration;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::ports::{Clock, ClusterChange, Controller, Meter, PassResult, Target};

/// `Content-Type` of what [`Metrics::text`] gives.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The main loop turns every 15 seconds when it has nothing to do; this long without one turn is a hang.
pub const ALIVE_WITHIN: SignedDuration = SignedDuration::from_secs(90);

/// Seconds of a pass: from one that finds nothing to do, to one that waits for every deadline there is.
const PASS_BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0];
/// Seconds of a pass over a backup or a restore, which may stream many gigabytes.
const STREAM_BUCKETS: [f64; 10] = [0.01, 0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(non_snake_case, reason = "the label of the archived operator")]
struct ClusterLabel {
    ClusterName: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(non_snake_case, reason = "the label of the archived operator")]
struct ReasonLabel {
    Reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    controller: &'static str,
    result: &'static str,
}

/// The measurements of one process.
pub struct Metrics {
    registry: Registry,
    clusters: Gauge,
    clusters_created: Counter,
    clusters_deleted: Counter,
    clusters_modified: Counter,
    clusters_failed: Gauge,
    reconcile_duration: Family<ClusterLabel, Histogram>,
    reconcile_failed: Family<ReasonLabel, Counter>,
    passes: Family<PassLabels, Counter>,
    pass_duration: Family<ControllerLabel, Histogram>,
    queue_length: Family<ControllerLabel, Gauge>,
    lease_held: Family<ControllerLabel, Gauge>,
    by_cluster_name: bool,
    clock: Arc<dyn Clock>,
    ready: AtomicBool,
    /// Milliseconds of the monotonic clock.
    alive_at: AtomicI64,
}

impl Metrics {
    /// Nothing was measured yet. `by_cluster_name`: one time series of durations for each EtcdCluster, for ever.
    pub fn new(clock: Arc<dyn Clock>, by_cluster_name: bool) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            clusters: Gauge::default(),
            clusters_created: Counter::default(),
            clusters_deleted: Counter::default(),
            clusters_modified: Counter::default(),
            clusters_failed: Gauge::default(),
            reconcile_duration: Family::new_with_constructor(|| Histogram::new(PASS_BUCKETS)),
            reconcile_failed: Family::default(),
            passes: Family::default(),
            pass_duration: Family::new_with_constructor(|| Histogram::new(STREAM_BUCKETS)),
            queue_length: Family::default(),
            lease_held: Family::default(),
            by_cluster_name,
            ready: AtomicBool::new(false),
            alive_at: AtomicI64::new(milliseconds(clock.monotonic())),
            clock,
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let of_controller = "etcd_operator_controller";
        let r = &mut self.registry;
        let name = |name: &str| format!("{of_controller}_{name}");
        r.register(name("clusters"), "EtcdClusters that this operator manages", self.clusters.clone());
        r.register(name("clusters_created"), "EtcdClusters seen for the first time", self.clusters_created.clone());
        r.register(name("clusters_deleted"), "EtcdClusters gone", self.clusters_deleted.clone());
        r.register(name("clusters_modified"), "Changes of an EtcdCluster's spec", self.clusters_modified.clone());
        r.register(name("clusters_failed"), "EtcdClusters in phase Failed", self.clusters_failed.clone());
        let of_cluster = "etcd_operator_cluster_reconcile";
        let help = "Seconds of a pass over an EtcdCluster";
        r.register(format!("{of_cluster}_duration"), help, self.reconcile_duration.clone());
        let help = "Passes over EtcdClusters that failed, by reason";
        r.register(format!("{of_cluster}_failed"), help, self.reconcile_failed.clone());
        r.register("etcd_operator_passes", "Passes, by controller and result", self.passes.clone());
        r.register("etcd_operator_pass_duration_seconds", "Seconds of a pass", self.pass_duration.clone());
        r.register("etcd_operator_queue_length", "Objects that wait for a pass", self.queue_length.clone());
        let help = "Whether this process holds the controller's lease";
        r.register("etcd_operator_lease_held", help, self.lease_held.clone());
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("commit", COMMIT)]);
        r.register("etcd_operator_build", "What is running", build);
    }

    /// All of them, in the text format 0.0.4.
    pub fn text(&self) -> String {
        let mut encoded = String::new();
        text::encode_registry(&mut encoded, &self.registry).expect("a string takes everything");
        to_text_format(&encoded)
    }

    /// What /readyz answers: whether the caches are filled.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// What /livez answers: whether the main loop turned within [`ALIVE_WITHIN`].
    pub fn is_alive(&self) -> bool {
        milliseconds(self.clock.monotonic()) - self.alive_at.load(Ordering::Relaxed) < milliseconds(ALIVE_WITHIN)
    }
}

/// The commit that this was built from, if the build said it.
pub const COMMIT: &str = match option_env!("ETCD_OPERATOR_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

fn milliseconds(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

const fn label(controller: Controller) -> &'static str {
    match controller {
        Controller::Cluster => "cluster",
        Controller::Backup => "backup",
        Controller::Restore => "restore",
    }
}

/// OpenMetrics without what 0.0.4 does not know: the suffix `_total` of every counter, the type `info`.
fn to_text_format(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut counter: Option<String> = None;
    for line in open_metrics.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.rsplit_once(' ').unwrap_or((declared, ""));
            counter = (kind == "counter").then(|| format!("{name}_total"));
            if kind == "info" {
                text.push_str(&format!("# TYPE {name}_info gauge\n"));
                continue;
            }
        }
        let bare = counter.as_ref().and_then(|counter| {
            let rest = line.strip_prefix(counter.as_str()).filter(|rest| rest.starts_with([' ', '{']))?;
            Some(format!("{}{rest}", counter.trim_end_matches("_total")))
        });
        text.push_str(bare.as_deref().unwrap_or(line));
        text.push('\n');
    }
    text
}

impl Meter for Metrics {
    fn pass(&self, target: &Target, took: SignedDuration, result: PassResult) {
        let controller = label(target.controller);
        let (outcome, reason) = match result {
            PassResult::Done => ("done", None),
            PassResult::Failed(reason) => ("failed", Some(reason)),
        };
        self.passes.get_or_create(&PassLabels { controller, result: outcome }).inc();
        self.pass_duration.get_or_create(&ControllerLabel { controller }).observe(took.as_secs_f64());
        if target.controller != Controller::Cluster {
            return;
        }
        if let Some(reason) = reason {
            self.reconcile_failed.get_or_create(&ReasonLabel { Reason: reason.as_str() }).inc();
        }
        // Empty, it says the same of all clusters together, under the name that scripts know.
        let name = if self.by_cluster_name { target.key.name.clone() } else { String::new() };
        self.reconcile_duration.get_or_create(&ClusterLabel { ClusterName: name }).observe(took.as_secs_f64());
    }

    fn cluster(&self, change: ClusterChange) {
        match change {
            ClusterChange::Created => self.clusters_created.inc(),
            ClusterChange::Modified => self.clusters_modified.inc(),
            ClusterChange::Deleted => self.clusters_deleted.inc(),
        };
    }

    fn clusters(&self, managed: usize, failed: usize) {
        self.clusters.set(i64::try_from(managed).unwrap_or(i64::MAX));
        self.clusters_failed.set(i64::try_from(failed).unwrap_or(i64::MAX));
    }

    fn queue(&self, controller: Controller, length: usize, leads: bool) {
        let label = ControllerLabel { controller: label(controller) };
        self.queue_length.get_or_create(&label).set(i64::try_from(length).unwrap_or(i64::MAX));
        self.lease_held.get_or_create(&label).set(i64::from(leads));
    }

    fn ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    fn alive(&self) {
        self.alive_at.store(milliseconds(self.clock.monotonic()), Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ports::{FailureReason, ObjectKey};
    use async_trait::async_trait;
    use jiff::Timestamp;
    use std::sync::Mutex;

    /// A clock that stands still until it is moved by hand.
    #[derive(Default)]
    pub(crate) struct Hand(Mutex<SignedDuration>);

    #[async_trait]
    impl Clock for Hand {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn monotonic(&self) -> SignedDuration {
            *self.0.lock().expect("whole")
        }
        async fn sleep(&self, _: SignedDuration) {}
    }

    fn target(controller: Controller) -> Target {
        Target { controller, key: ObjectKey::new("ns", "etcd-a") }
    }

    #[test]
    fn the_names_are_those_of_the_archived_operator() {
        let metrics = Metrics::new(Arc::new(Hand::default()), true);
        metrics.cluster(ClusterChange::Created);
        metrics.clusters(2, 1);
        metrics.pass(&target(Controller::Cluster), SignedDuration::from_millis(30), PassResult::Done);
        let failed = PassResult::Failed(FailureReason::Etcd);
        metrics.pass(&target(Controller::Cluster), SignedDuration::from_millis(30), failed);
        metrics.pass(&target(Controller::Backup), SignedDuration::from_secs(3), failed);
        metrics.queue(Controller::Restore, 4, true);
        let text = metrics.text();
        for line in [
            "# TYPE etcd_operator_controller_clusters gauge",
            "etcd_operator_controller_clusters 2",
            "# TYPE etcd_operator_controller_clusters_created counter",
            "etcd_operator_controller_clusters_created 1",
            "etcd_operator_controller_clusters_deleted 0",
            "etcd_operator_controller_clusters_modified 0",
            "etcd_operator_controller_clusters_failed 1",
            "# TYPE etcd_operator_cluster_reconcile_duration histogram",
            "etcd_operator_cluster_reconcile_duration_count{ClusterName=\"etcd-a\"} 2",
            "etcd_operator_cluster_reconcile_failed{Reason=\"Etcd\"} 1",
            "etcd_operator_passes{controller=\"backup\",result=\"failed\"} 1",
            "etcd_operator_queue_length{controller=\"restore\"} 4",
            "etcd_operator_lease_held{controller=\"restore\"} 1",
            "# TYPE etcd_operator_build_info gauge",
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line:?} in\n{text}");
        }
        assert!(!text.contains("EOF") && !text.contains("_total"), "{text}");
    }

    #[test]
    fn the_clusters_name_is_a_label_only_when_asked_for() {
        let metrics = Metrics::new(Arc::new(Hand::default()), false);
        metrics.pass(&target(Controller::Cluster), SignedDuration::from_millis(30), PassResult::Done);
        assert!(!metrics.text().contains("etcd-a"));
    }

    #[test]
    fn a_main_loop_that_does_not_turn_is_not_alive() {
        let hand = Arc::new(Hand::default());
        let metrics = Metrics::new(hand.clone(), false);
        *hand.0.lock().expect("whole") = ALIVE_WITHIN - SignedDuration::from_secs(1);
        assert!(metrics.is_alive());
        *hand.0.lock().expect("whole") = ALIVE_WITHIN;
        assert!(!metrics.is_alive());
        metrics.alive();
        assert!(metrics.is_alive());
    }
}
