//! The process of one case, in its sandbox: it makes the world, carries the case out, and says what went wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use fake_k8s::controllers::object;
use fake_k8s::process::network::GATEWAY;
use fake_k8s::process::sandbox;
use tokio::signal::unix::{SignalKind, signal};

use super::display::{Display, Mode, Row};
use super::programs::{Programs, locate};
use super::steps::{Failure, bound, carry_out};
use super::world::{NAMESPACE, World};
use super::{certificates, etcd, programs, runs};
use crate::cases::Case;

/// A case that takes longer is given up.
pub const CASE_PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Lines of the operator's log that are shown when a case fails.
const LOG_LINES: usize = 25;
const REFRESH: Duration = Duration::from_millis(500);
/// What to say when the kernel has no sandbox for us.
pub const NO_SANDBOX: &str = "the live lane needs a sandbox of namespaces (docs/adr/0011-sandbox-of-the-live-lane.md)";

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every step came true.
    Passed,
    /// One did not; what is to be said has been said.
    Failed,
    /// Somebody asked to stop.
    Interrupted,
}

/// Runs one case in a new sandbox. To be called before any thread starts: the process that stays outside ends here.
///
/// # Errors
/// When there is no sandbox to be had, or no program.
pub fn run(case: &Case, mode: Mode, logs: &Path) -> anyhow::Result<End> {
    let (case, programs) = with_programs(case)?;
    sandbox::enter(|| Ok(Vec::new())).context(NO_SANDBOX)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    let end = runtime.block_on(run_inside(&case, &programs, mode, logs));
    // Blocked threads end with the sandbox.
    runtime.shutdown_background();
    end
}

/// The programs were built before this process was started; now they are only found.
fn with_programs(case: &Case) -> anyhow::Result<(Case, Programs)> {
    let located = |case: Case| locate(std::slice::from_ref(&case), &|_| {}).map(|programs| (case, programs));
    located(case.clone()).or_else(|error| {
        let other = programs::with_etcd_of_the_system(&error, case).ok_or(error)?;
        located(other)
    })
}

async fn run_inside(case: &Case, programs: &Programs, mode: Mode, logs: &Path) -> anyhow::Result<End> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let display = Arc::new(Display::new(mode));
    let asked_to_stop = async {
        tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
    };
    let (access, options) = (certificates::access(GATEWAY)?, &case.scenario.operator);
    let world = Arc::new(World::start(programs, logs, Vec::new(), Some(access), options).await?);
    let refreshing = display.has_table().then(|| tokio::spawn(refresh(world.clone(), display.clone())));
    let bound = case.scenario.within.as_deref().map(bound).transpose()?.unwrap_or(CASE_PATIENCE);
    let mut end = tokio::select! {
        result = tokio::time::timeout(bound, carry_out(&world, &case.scenario, &display)) => {
            let ends = world.operator.ended_by_itself();
            match result {
                Ok(Ok(())) if ends.is_empty() => End::Passed,
                Ok(Ok(())) => {
                    say(&format!("the operator ended by itself: {}", ends.join(", ")));
                    End::Failed
                }
                Ok(Err(failure)) => {
                    explain(&world, &failure, &ends);
                    End::Failed
                }
                Err(_) => {
                    say(&format!("the case did not end in {} s", bound.as_secs()));
                    End::Failed
                }
            }
        }
        () = asked_to_stop => End::Interrupted,
    };
    if let Some(refreshing) = refreshing {
        refreshing.abort();
        // It was told to end; how it did is no matter.
        let _ = refreshing.await;
    }
    if end == End::Passed && display.is_watched() {
        display.summary();
    }
    if end == End::Failed {
        keep_logs(&world, logs);
        say(&format!("logs: {}", logs.display()));
    }
    if let Some(world) = Arc::into_inner(world)
        && let Err(error) = world.stop().await
    {
        say(&format!("{error:#}"));
        end = if end == End::Interrupted { end } else { End::Failed };
    }
    Ok(end)
}

/// The table of the members, again and again.
async fn refresh(world: Arc<World>, display: Arc<Display>) {
    loop {
        let mut rows = Vec::new();
        for cluster in world.all_in("EtcdCluster", NAMESPACE) {
            let cluster = object::name(&cluster);
            let members = etcd::members(&world, cluster).await.unwrap_or_default();
            rows.extend(world.all("Pod", cluster).iter().map(|pod| row(pod, &members)));
        }
        display.table(rows);
        tokio::time::sleep(REFRESH).await;
    }
}

fn row(pod: &serde_json::Value, members: &[etcd::Member]) -> Row {
    let name = object::name(pod);
    let member = members.iter().find(|member| member.name == name);
    let state = member.and_then(|member| member.state.as_ref());
    let role = match (member, state) {
        (None, _) => "",
        (Some(member), Some(state)) if state.leader == member.id => "leader",
        (Some(member), _) if member.learner => "learner",
        _ => "voter",
    };
    let waiting = object::text(pod, "/status/containerStatuses/0/state/waiting/reason");
    let shown = match (object::is_terminating(pod), object::condition(pod, "Ready")) {
        (true, _) => "Terminating",
        (false, "True") => "Ready",
        (false, _) if !waiting.is_empty() => waiting,
        (false, _) => "starting",
    };
    Row {
        pod: name.to_owned(),
        role: role.to_owned(),
        state: shown.to_owned(),
        restarts: object::number(pod, "/status/containerStatuses/0/restartCount").unwrap_or_default(),
        version: state.map(|state| state.version.clone()).unwrap_or_default(),
        revision: state.map(|state| state.revision.to_string()).unwrap_or_default(),
    }
}

#[allow(clippy::print_stdout, reason = "what went wrong is told to whoever started this")]
fn say(text: &str) {
    println!("{text}");
}

fn explain(world: &World, failure: &Failure, ends: &[String]) {
    say(&format!("step {}: {}\n  {}", failure.number, failure.sentence, failure.why));
    if let Some(target) = &failure.target
        && let Some(found) = world.find(&target.kind, &target.name)
    {
        say(&format!("status of {} {}:\n{}", target.kind, target.name, status_in_lines(&found["status"])));
    }
    for pod in world.all_in("Pod", NAMESPACE) {
        let statuses = object::items(&pod, "/status/containerStatuses");
        let statuses = statuses.iter().chain(object::items(&pod, "/status/initContainerStatuses"));
        let said: Vec<String> =
            statuses.map(|status| format!("{} {}", object::text(status, "/name"), status["state"])).collect();
        say(&format!("pod {} {}: {}", object::name(&pod), object::text(&pod, "/status/phase"), said.join("; ")));
    }
    if !ends.is_empty() {
        say(&format!("the operator ended by itself: {}", ends.join(", ")));
    }
    say("last lines of the operator's log:");
    runs::tail(&world.operator.log, LOG_LINES).iter().for_each(|line| say(&format!("  {line}")));
}

/// A condition a line, and the rest in one.
fn status_in_lines(status: &serde_json::Value) -> String {
    let mut rest = status.clone();
    rest.as_object_mut().and_then(|fields| fields.remove("conditions"));
    let conditions = object::items(status, "/conditions").iter().map(|condition| {
        let word = |name: &str| object::text(condition, name);
        format!("  {} is {}: {} {}", word("/type"), word("/status"), word("/reason"), word("/message"))
    });
    conditions.chain([format!("  {rest}")]).collect::<Vec<_>>().join("\n")
}

fn keep_logs(world: &World, logs: &Path) {
    let pods = world.all_in("Pod", NAMESPACE);
    let names = |uid: &str| {
        let pod = pods.iter().find(|pod| object::uid(pod) == uid);
        pod.map_or_else(|| uid.to_owned(), |pod| object::name(pod).to_owned())
    };
    runs::keep_pod_logs(&world.cluster.run_dir, &names, logs);
    let kinds =
        ["EtcdCluster", "EtcdBackup", "EtcdRestore", "Pod", "PersistentVolumeClaim", "Service", "Endpoints", "Event"];
    let objects: Vec<_> = kinds.iter().flat_map(|kind| world.all_in(kind, NAMESPACE)).collect();
    let text = serde_json::to_string_pretty(&objects.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap_or_default();
    // Logs are a help; that one is missing must not hide why the case failed.
    let _ = std::fs::write(logs.join(format!("objects-{NAMESPACE}.json")), text);
}
