//! The outside of the live lane: gets the programs, starts one process for each case, hands signals on to it, and looks
//! whether anything of it was left.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::inside::CASE_PATIENCE;
use super::{programs, runs};
use crate::cases::Case;

/// How long a case may take to clean up.
const GRACE: Duration = Duration::from_secs(60);

/// The processes of cases that run just now.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The exit code of what somebody asked to end.
pub const INTERRUPTED: i32 = 130;

/// What became of one case.
#[derive(Debug)]
pub struct Outcome {
    /// How its process ended: 0 passed, 1 failed, 130 interrupted.
    pub code: i32,
    /// What it said.
    pub said: String,
}

/// Builds what the cases need.
///
/// # Errors
/// When something cannot be had.
pub fn prepare(cases: &[Case], report: crate::binaries::Report<'_>) -> anyhow::Result<()> {
    let Err(error) = programs::locate(cases, report) else { return Ok(()) };
    let others = cases.iter().map(|case| programs::with_etcd_of_the_system(&error, case)).collect::<Option<Vec<_>>>();
    let others = others.ok_or(error)?;
    report("there is no Go to build etcd with: the system's etcd serves instead");
    programs::locate(&others, report).map(drop)
}

/// The cases that can run on this machine, and of the others why not.
pub fn runnable(cases: Vec<Case>, report: crate::binaries::Report<'_>) -> (Vec<Case>, Vec<(String, String)>) {
    let (mut runnable, mut left_out) = (Vec::new(), Vec::new());
    for case in cases {
        match programs::unavailable(&case, report) {
            Some(why) => left_out.push((case.path, why)),
            None => runnable.push(case),
        }
    }
    (runnable, left_out)
}

/// Runs a case in a process of its own. When it is watched its output is that of this process.
///
/// # Errors
/// When the process cannot be started.
pub fn run(case: &Case, watched: bool) -> anyhow::Result<Outcome> {
    let arguments = ["inside".to_owned(), case.path.clone()];
    supervise(&case.path, &arguments, watched, Some(CASE_PATIENCE))
}

/// Runs `scenarios up` in a process of its own, until it is asked to end.
///
/// # Errors
/// When the process cannot be started.
pub fn up(listen: std::net::SocketAddr) -> anyhow::Result<Outcome> {
    supervise("up", &["inside-up".to_owned(), "--listen".to_owned(), listen.to_string()], true, None)
}

fn supervise(name: &str, arguments: &[String], watched: bool, patience: Option<Duration>) -> anyhow::Result<Outcome> {
    // On this thread: the case's process ends with the thread that started it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // What a process of the case leaves behind becomes a child of this one, and is seen.
    nix::sys::prctl::set_child_subreaper(true).context("cannot watch for what is left")?;
    let logs = runs::make(name)?;
    let outcome = runtime.block_on(run_process(arguments, watched, &logs, patience))?;
    if matches!(outcome.code, 0 | INTERRUPTED) {
        runs::remove(&logs);
    }
    Ok(outcome)
}

async fn run_process(
    arguments: &[String],
    watched: bool,
    logs: &Path,
    patience: Option<Duration>,
) -> anyhow::Result<Outcome> {
    let own = std::env::current_exe().context("cannot find own program")?;
    let mut command = Command::new(own);
    command.args(arguments).arg("--logs").arg(logs).stdin(Stdio::null());
    // A group of its own: Ctrl-C on a terminal reaches this process only, which hands it on once.
    command.process_group(0);
    if !watched {
        command.arg("--silent").stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let child = command.spawn().context("cannot start a process for the case")?;
    let own = child.id().unwrap_or_default();
    running().insert(own);
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let forever = Duration::from_secs(365 * 24 * 60 * 60);
    let mut deadline = std::pin::pin!(tokio::time::sleep(patience.map_or(forever, |patience| patience + GRACE)));
    let mut ending = std::pin::pin!(child.wait_with_output());
    let mut interrupted = false;
    let output = loop {
        let handed_on = tokio::select! {
            output = &mut ending => break output.context("the process of the case is lost")?,
            _ = interrupt.recv() => Signal::SIGINT,
            _ = terminate.recv() => Signal::SIGTERM,
            _ = hangup.recv() => Signal::SIGTERM,
            () = &mut deadline => Signal::SIGKILL,
        };
        interrupted |= handed_on != Signal::SIGKILL;
        // Whoever does not clean up in time is killed, and the kernel ends the rest.
        deadline.set(tokio::time::sleep(GRACE));
        if let Some(pid) = pid {
            // It may have ended just now, which is what is wanted.
            let _ = nix::sys::signal::kill(pid, handed_on);
        }
    };
    let mut said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let mut code = if interrupted { INTERRUPTED } else { code_of(output.status) };
    running().remove(&own);
    let left = left_behind();
    if !left.is_empty() {
        said.push_str(&format!("left behind: {}\n", left.join(", ")));
        code = code.max(1);
    }
    Ok(Outcome { code, said })
}

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    // A set of numbers is whole whatever panicked meanwhile.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or(1)
}

/// Processes that the case left: the kernel made them children of this one.
fn left_behind() -> Vec<String> {
    let own = std::process::id().to_string();
    let running = running().clone();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = processes.filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // `pid (name) state parent ...`; a name may contain anything, so it is read from the end of it.
        let (before, after) = stat.rsplit_once(')')?;
        let mut fields = after.split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?);
        let is_case =
            before.split(' ').next().and_then(|pid| pid.parse().ok()).is_some_and(|pid| running.contains(&pid));
        (parent == own && state != "Z" && !is_case).then(|| format!("{before})"))
    });
    found.collect()
}
