//! Runs one scenario: a fresh thread, madsim's executor, the world with its driver, the operator's own controller over
//! the simulated ports, the user's steps, then the heal, the convergence and the last checks.

use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use etcd_operator::api;
use fake_k8s::controllers::Controller;
use fake_k8s::controllers::endpoints::EndpointsController;
use fake_k8s::controllers::garbage_collector::GarbageCollector;
use fake_k8s::controllers::scheduler::Scheduler;
use fake_k8s::controllers::volumes::Volumes;
use fake_k8s::server::{Request, ResourceName};
use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use futures::future::{Either, select};

use crate::checker::{Severity, Violation};
use crate::course::Course;
use crate::event::{Event, Millis};
use crate::scenario::Scenario;
use crate::store::CREDENTIALS;
use crate::user;
use crate::world::{self, Blueprint, Life, Shared};

/// The namespace of everything that does not say another.
pub const NAMESPACE: &str = crate::scenario::NAMESPACE;
/// How often it is looked whether an operator that was stopped shall be there again.
const RETURN_PERIOD: Duration = Duration::from_millis(100);
/// The Secret that opens the store.
pub const SECRET: &str = "store-credentials";

/// The CRDs: the same in every run, and as dear to derive as seconds of simulation.
static DEFINITIONS: LazyLock<Vec<serde_json::Value>> = LazyLock::new(|| {
    let all = api::schema::custom_resource_definitions().into_iter();
    all.map(|definition| serde_json::to_value(definition).expect("a CRD serialises")).collect()
});

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The scenario's seed.
    pub seed: u64,
    /// What was violated; none: all held.
    pub violation: Option<Violation>,
    /// Hash over all events.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// How many effects the operator had.
    pub effects: u64,
    /// Simulated milliseconds.
    pub simulated: Millis,
    /// Acknowledged writes, uncertain writes, reads.
    pub workload: (u64, u64, u64),
    /// Lives of the operator.
    pub lives: u64,
    /// The last events, or all.
    pub log: Vec<Event>,
    /// What happened at least once: which corners of the world were visited.
    pub sometimes: Vec<&'static str>,
}

/// Runs a scenario file in the model lane.
pub fn run(scenario: &Scenario) -> Outcome {
    run_course(&Course::of(scenario), false)
}

/// Runs a course; `trace` keeps the whole log instead of the last events.
pub fn run_course(course: &Course, trace: bool) -> Outcome {
    let (seed, course) = (course.seed, course.clone());
    // A fresh thread: std's hash maps are seeded per thread, and madsim takes their seed over.
    let thread = std::thread::Builder::new().name(format!("seed {seed}")).stack_size(16 << 20);
    let handle = thread.spawn(move || {
        let runtime = madsim::runtime::Runtime::with_seed_and_config(seed, madsim::Config::default());
        runtime.block_on(drive(course, trace))
    });
    match handle.map(std::thread::JoinHandle::join) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => {
            let what = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "a panic".to_owned());
            failed(seed, what)
        }
        Err(error) => failed(seed, format!("no thread: {error}")),
    }
}

fn failed(seed: u64, what: String) -> Outcome {
    Outcome {
        seed,
        violation: Some(Violation { invariant: "panic", severity: Severity::Safety, what }),
        hash: 0,
        events: 0,
        effects: 0,
        simulated: 0,
        workload: (0, 0, 0),
        lives: 0,
        log: Vec::new(),
        sometimes: Vec::new(),
    }
}

async fn drive(course: Course, trace: bool) -> Outcome {
    let controllers: Vec<Box<dyn Controller + Send>> = vec![
        Box::new(GarbageCollector::new()),
        Box::new(Scheduler::new(false)),
        Box::new(Volumes::new(false)),
        Box::new(EndpointsController::new()),
    ];
    let blueprint =
        Blueprint { seed: course.seed, nodes: course.nodes, controllers, faults: course.faults.clone(), trace };
    let (shared, poked) = world::build(blueprint);
    {
        let mut world = shared.enter();
        install(&mut world);
        world.operator.crash_plan = world.faults.crash_plan();
        world.operator.clusterwide = course.operator.cluster_wide;
        world.begin();
    }
    madsim::task::spawn(turn_the_world(shared.clone(), poked));
    madsim::task::spawn(run_operator(shared.clone()));
    let mut violation = user::carry_out(&shared, &course).await.err();
    if violation.is_none() {
        violation = match course.converge_within_seconds {
            0 => at_the_end(&shared),
            _ => settle(&shared, &course).await,
        }
        .err();
    }
    let mut world = shared.enter();
    if let Some(violation) = violation {
        world.violate(violation);
    }
    world.over = true;
    let end = world.fingerprint();
    world.note("end", end);
    Outcome {
        seed: course.seed,
        violation: world.violation.clone(),
        hash: world.log.hash(),
        events: world.log.count(),
        effects: world.operator.effects,
        simulated: world.now,
        workload: world.clients.counts,
        lives: world.operator.incarnation,
        log: world.log.kept().cloned().collect(),
        sometimes: world.sometimes.marks.iter().copied().collect(),
    }
}

/// The CRDs and the Secret that every scenario may use.
pub fn install(world: &mut world::World) {
    let definitions = ResourceName::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let now = world.timestamp();
    for body in DEFINITIONS.iter() {
        let request = Request::create(definitions.clone(), "", body.clone());
        world.server.handle(now, &request).expect("our CRDs are valid");
    }
    let data: serde_json::Map<String, serde_json::Value> =
        CREDENTIALS.iter().map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value).into())).collect();
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE}, "data": data,
    });
    let created = world.server.handle(now, &Request::create(ResourceName::core("secrets"), NAMESPACE, secret));
    created.expect("the Secret is valid");
}

/// The driver: does what is due, sleeps until the next thing, or until somebody committed something.
async fn turn_the_world(shared: Shared, mut poked: mpsc::UnboundedReceiver<()>) {
    loop {
        let next = {
            let mut world = shared.enter();
            if world.over {
                return;
            }
            world.run_due();
            let now = world.now;
            world.next_at().map_or(1000, |at| at.saturating_sub(now).max(1))
        };
        let sleep = std::pin::pin!(madsim::time::sleep(Duration::from_millis(next)));
        if let Either::Right((None, _)) = select(sleep, poked.next()).await {
            return;
        }
        while poked.try_recv().is_ok() {}
    }
}

/// The operator's processes: one is started, crashes, freezes or is stopped, and the next is started.
async fn run_operator(shared: Shared) {
    loop {
        let Life { number, crash, relieved, asked } = shared.enter().operator_starts();
        let living = madsim::task::spawn(live(shared.clone(), number, crash, asked));
        select(living, relieved).await;
        if was_away(&shared).await {
            continue;
        }
        let pause = {
            let mut world = shared.enter();
            if world.over {
                return;
            }
            world.streams.fault.between(500, 20_000)
        };
        madsim::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// Whether the operator was told to stay away; comes back when it shall be there again.
async fn was_away(shared: &Shared) -> bool {
    let mut was_away = false;
    loop {
        let is_away = {
            let world = shared.enter();
            world.operator.away && !world.over
        };
        if !is_away {
            return was_away;
        }
        was_away = true;
        madsim::time::sleep(RETURN_PERIOD).await;
    }
}

/// One life of the operator.
async fn live(shared: Shared, life: u64, crash: oneshot::Receiver<()>, asked: oneshot::Receiver<()>) {
    let operator = std::pin::pin!(crate::operator::start(&shared, life, asked));
    if matches!(select(operator, crash).await, Either::Left(_)) {
        let mut world = shared.enter();
        let how = if world.operator.away { "stopped" } else { "ended by itself" };
        if world.operator.away {
            world.operator.stopped = Some(life);
        }
        world.note("operator", format!("life {life} {how}"));
    }
}

/// Heals everything, and asks for convergence and quiet.
async fn settle(shared: &Shared, course: &Course) -> Result<(), Violation> {
    shared.enter().heal_all();
    shared.poke();
    if user::is_hopeless(&shared.enter()) {
        user::expect_honesty(shared).await?;
        return at_the_end(shared);
    }
    user::converge(shared, course.converge_within_seconds).await?;
    shared.enter().sometimes.converged();
    // What is still in flight arrives before silence is asked for.
    user::pause(shared, 70).await?;
    user::converge(shared, course.converge_within_seconds).await?;
    shared.enter().quiet = true;
    for _ in 0..quiet_seconds(shared, course).div_ceil(10) {
        user::pause(shared, 10).await?;
        let pending = crate::converge::pending(&shared.enter());
        if let Some(what) = pending {
            let what = format!("the world had converged and did not stay so: {what}");
            return Err(Violation { invariant: "L1", severity: Severity::Liveness, what });
        }
    }
    at_the_end(shared)
}

/// For how long the world must stay as it is: until each schedule had to go on, if that is longer.
fn quiet_seconds(shared: &Shared, course: &Course) -> u64 {
    let world = shared.enter();
    let due = crate::converge::schedules_due(&world).map_or(0, |due| due.saturating_sub(world.now).div_ceil(1000) + 1);
    course.quiet_seconds.max(due)
}

/// The last word of each checker.
fn at_the_end(shared: &Shared) -> Result<(), Violation> {
    let mut world = shared.enter();
    let mut checkers = std::mem::take(&mut world.checkers);
    let verdict = checkers.end(&world);
    world.checkers = checkers;
    verdict.map_or(Ok(()), Err)
}
