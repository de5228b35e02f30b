//! The outside of the live lane: gets the programs, starts one process for each case, hands signals on to it, and looks
//! whether anything of it was left.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::inside::CASE_PATIENCE;
use super::leftovers::{self, Machine};
use super::verdict::{Ending, Outcome};
use super::{programs, runs};
use crate::cases::Case;

/// How long a case may take to clean up.
const GRACE: Duration = Duration::from_secs(60);

/// How long the kernel may take to end what was in a sandbox.
const KERNEL_TIME: Duration = Duration::from_secs(5);

/// A process that was asked to end is asked again after so long, until it has ended: what was sent before it listened is
/// lost, for the kernel keeps no signal for the first process of a sandbox.
const AGAIN: Duration = Duration::from_secs(1);

/// What somebody asked of this process, once and for all cases, those to come too.
static ASKED: LazyLock<watch::Sender<Option<Signal>>> = LazyLock::new(|| watch::Sender::new(None));

/// The processes of cases that run just now.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// From now on a signal does not end this process but what it runs.
///
/// # Errors
/// When nobody can listen.
pub fn listen() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let context = runtime.enter();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    drop(context);
    let listening = async move {
        loop {
            let asked = tokio::select! {
                _ = interrupt.recv() => Signal::SIGINT,
                _ = terminate.recv() => Signal::SIGTERM,
                _ = hangup.recv() => Signal::SIGTERM,
            };
            ASKED.send_replace(Some(asked));
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(listening))?;
    Ok(())
}

/// Whether somebody asked this process to end: then nothing more is begun.
pub fn is_interrupted() -> bool {
    ASKED.borrow().is_some()
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

/// Runs `scenarios kubernetes up` in a process of its own, until it is asked to end.
///
/// # Errors
/// When the process cannot be started.
pub fn kubernetes(listen: std::net::SocketAddr) -> anyhow::Result<Outcome> {
    supervise("kubernetes", &["inside-kubernetes".to_owned(), "--listen".to_owned(), listen.to_string()], true, None)
}

/// Runs `scenarios kubernetes types` in a process of its own, to its end.
///
/// # Errors
/// When the process cannot be started.
pub fn kubernetes_types(output: &Path) -> anyhow::Result<Outcome> {
    let output = output.display().to_string();
    supervise("types", &["inside-types".to_owned(), "--output".to_owned(), output], true, None)
}

/// Runs `scenarios conformance` in a process of its own, to its end.
///
/// # Errors
/// When the process cannot be started.
pub fn conformance(options: &[String]) -> anyhow::Result<Outcome> {
    supervise("conformance", &[&["inside-conformance".to_owned()], options].concat(), true, None)
}

fn supervise(name: &str, arguments: &[String], watched: bool, patience: Option<Duration>) -> anyhow::Result<Outcome> {
    // On this thread: the case's process ends with the thread that started it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // What a process of the case leaves behind becomes a child of this one, and is seen.
    nix::sys::prctl::set_child_subreaper(true).context("cannot watch for what is left")?;
    let (logs, before) = (runs::make(name)?, Machine::look());
    let End { code, interrupted, said } = runtime.block_on(run_process(arguments, watched, &logs.path, patience))?;
    let left = look_for_leftovers(&before);
    let outcome = Outcome::new(code, interrupted, left, said);
    if outcome.ending == Ending::Failed {
        return Ok(outcome);
    }
    match runs::remove(&logs.path) {
        Ok(()) => Ok(outcome),
        Err(error) => {
            Ok(Outcome::new(code, interrupted, vec![format!("{} ({error})", logs.path.display())], outcome.said))
        }
    }
}

/// What is still there when the kernel has had its time to end everything.
fn look_for_leftovers(before: &Machine) -> Vec<String> {
    let start = Instant::now();
    loop {
        let mut left = leftovers::children(&running());
        left.extend(Machine::look().since(before));
        if left.is_empty() || start.elapsed() > KERNEL_TIME {
            return left;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How the process of a case ended.
struct End {
    code: i32,
    interrupted: bool,
    said: String,
}

async fn run_process(
    arguments: &[String],
    watched: bool,
    logs: &Path,
    patience: Option<Duration>,
) -> anyhow::Result<End> {
    let own = std::env::current_exe().context("cannot find own program")?;
    let mut command = Command::new(own);
    command.args(arguments).arg("--logs").arg(logs).stdin(Stdio::null());
    // A group of its own: Ctrl-C on a terminal reaches this process only, which hands it on once.
    command.process_group(0);
    if !watched {
        command.arg("--silent").stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let (child, own) = {
        // Whoever looks for what is left finds it either unborn or known.
        let mut running = running();
        let child = command.spawn().context("cannot start a process for the case")?;
        let own = child.id().unwrap_or_default();
        running.insert(own);
        (child, own)
    };
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
    let mut asked = ASKED.subscribe();
    let forever = Duration::from_secs(365 * 24 * 60 * 60);
    let mut deadline = std::pin::pin!(tokio::time::sleep(patience.map_or(forever, |patience| patience + GRACE)));
    let mut ending = std::pin::pin!(child.wait_with_output());
    let mut interrupted = false;
    let output = loop {
        let handed_on = tokio::select! {
            output = &mut ending => break output.context("the process of the case is lost")?,
            signal = wanted(&mut asked, interrupted) => signal,
            () = &mut deadline => Signal::SIGKILL,
        };
        match (handed_on, interrupted) {
            (Signal::SIGKILL, _) => deadline.set(tokio::time::sleep(AGAIN)),
            // Whoever does not clean up in time is killed, and the kernel ends the rest. More of Ctrl-C is no more time.
            (_, false) => deadline.set(tokio::time::sleep(GRACE)),
            (_, true) => {}
        }
        interrupted |= handed_on != Signal::SIGKILL;
        if let Some(pid) = pid {
            // It may have ended just now, which is what is wanted.
            let _ = nix::sys::signal::kill(pid, handed_on);
        }
    };
    running().remove(&own);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Ok(End { code: output.status.code().unwrap_or(1), interrupted, said })
}

/// What the process of a case is to be sent: at once when somebody has asked or asks, and then again and again.
async fn wanted(asked: &mut watch::Receiver<Option<Signal>>, again: bool) -> Signal {
    if again {
        tokio::time::sleep(AGAIN).await;
    }
    // Whoever could ask is never gone.
    let signal = asked.wait_for(Option::is_some).await.map(|signal| *signal);
    signal.ok().flatten().unwrap_or(Signal::SIGTERM)
}

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    // A set of numbers is whole whatever panicked meanwhile.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
