//! `scenarios`: lists, checks and runs the cases; `scenarios demo` is one of them, for watching.
//!
//! Exit codes: 0 all passed, 1 something failed, 2 wrong usage, 130 interrupted.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]
#![allow(clippy::disallowed_methods, reason = "the time that a case takes is told to a person")]

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use fake_k8s::process::sandbox;
use scenarios::cases::{self, Case};
use scenarios::conformance::Options;
use scenarios::kubernetes;
use scenarios::live::display::{Mode, seconds};
use scenarios::live::inside::{self, End};
use scenarios::live::verdict::{Ending, INTERRUPTED, Outcome, Tally};
use scenarios::live::{lane, up};
use sim::scenario::Lane;

const DEMO: &str = "demo/from-nothing-to-restored";

/// Runs the cases under scenarios/cases: worlds, what goes wrong in them, and what must hold.
#[derive(Parser)]
#[command(name = "scenarios")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the cases.
    List,
    /// Checks that all case files are as they should be, without running them.
    Check,
    /// Runs cases.
    Run {
        /// What is real.
        #[arg(long, value_enum)]
        lane: LaneName,
        /// How many run at a time. When not given: as many as there are processors, and twice that in the live lane, whose
        /// cases wait most of the time.
        #[arg(long)]
        jobs: Option<NonZeroUsize>,
        /// Cases or topics; all of them when none is given.
        cases: Vec<String>,
    },
    /// From nothing to a healthy etcd, a backup and a restore, with real etcd processes.
    Demo,
    /// A Kubernetes to play with, the operator and an S3 server in it, until Ctrl-C.
    Up {
        /// Where the API listens for kubectl; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// The real control plane that fake-k8s is measured against.
    Kubernetes {
        #[command(subcommand)]
        what: KubernetesCommand,
    },
    /// Plays the same requests against a real API server and against fake-k8s, and compares what they answer.
    Conformance {
        #[command(flatten)]
        options: Options,
    },
    /// What `kubernetes up` starts.
    #[command(hide = true)]
    InsideKubernetes {
        /// As there.
        #[arg(long)]
        listen: SocketAddr,
        /// Where logs go.
        #[arg(long)]
        logs: PathBuf,
    },
    /// What `kubernetes types` starts.
    #[command(hide = true)]
    InsideTypes {
        /// As there.
        #[arg(long)]
        output: PathBuf,
        /// Where logs go.
        #[arg(long)]
        logs: PathBuf,
    },
    /// What `conformance` starts.
    #[command(hide = true)]
    InsideConformance {
        #[command(flatten)]
        options: Options,
        /// Where logs go.
        #[arg(long)]
        logs: PathBuf,
    },
    /// What `up` starts.
    #[command(hide = true)]
    InsideUp {
        /// As there.
        #[arg(long)]
        listen: SocketAddr,
        /// Where logs go.
        #[arg(long)]
        logs: PathBuf,
    },
    /// What `run` and `demo` start for each case.
    #[command(hide = true)]
    Inside {
        /// The case.
        case: String,
        /// Where logs go.
        #[arg(long)]
        logs: PathBuf,
        /// Nobody watches.
        #[arg(long)]
        silent: bool,
    },
}

#[derive(Subcommand)]
enum KubernetesCommand {
    /// Builds it, once per machine.
    Build,
    /// Starts kube-apiserver, kube-controller-manager and their etcd, until Ctrl-C; there are no nodes.
    Up {
        /// Where the API listens for kubectl; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Writes the table of the built-in types that fake-k8s has, from what the real server publishes.
    Types {
        /// Which file.
        #[arg(long, default_value = "fake-k8s/src/server/types/v1.34.json")]
        output: PathBuf,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum LaneName {
    /// Everything around the operator's logic is simulated.
    Model,
    /// The built operator, real etcd, a real S3 server.
    Live,
}

fn main() -> ExitCode {
    sandbox::dispatch();
    let result = match Cli::parse().command {
        Command::List => list(),
        Command::Check => check(),
        Command::Run { lane, jobs, cases } => run(lane, jobs, &cases),
        Command::Demo => demo(),
        Command::Up { listen } => up(listen),
        Command::InsideUp { listen, logs } => end_with_parent().and_then(|()| up::run(listen, &logs)).map(code_of),
        Command::Kubernetes { what: KubernetesCommand::Build } => {
            kubernetes::programs(&|sentence| println!("{sentence}")).map(|_| ExitCode::SUCCESS)
        }
        Command::Kubernetes { what: KubernetesCommand::Up { listen } } => kubernetes_up(listen),
        Command::Kubernetes { what: KubernetesCommand::Types { output } } => kubernetes_types(&output),
        Command::InsideTypes { output, logs } => {
            end_with_parent().and_then(|()| kubernetes::types::run(&output, &logs)).map(code_of)
        }
        Command::Conformance { options } => conformance(&options),
        Command::InsideKubernetes { listen, logs } => {
            end_with_parent().and_then(|()| kubernetes::up::run(listen, &logs)).map(code_of)
        }
        Command::InsideConformance { options, logs } => {
            end_with_parent().and_then(|()| scenarios::conformance::run(&options, &logs)).map(code_of)
        }
        Command::Inside { case, logs, silent } => run_inside(&case, &logs, silent),
    };
    result.unwrap_or_else(|error| {
        eprintln!("scenarios: {error:#}");
        ExitCode::FAILURE
    })
}

fn list() -> anyhow::Result<ExitCode> {
    for case in cases::all()? {
        let lanes: Vec<&str> = case.scenario.lanes.iter().map(|lane| lane_name(*lane)).collect();
        println!("{:<60} {:<12} {}", case.path, lanes.join(","), case.scenario.about);
    }
    Ok(ExitCode::SUCCESS)
}

fn lane_name(lane: Lane) -> &'static str {
    match lane {
        Lane::Model => "model",
        Lane::Live => "live",
    }
}

fn check() -> anyhow::Result<ExitCode> {
    let all = cases::all()?;
    let mut bad = 0;
    for case in &all {
        let faults = case.faults();
        bad += usize::from(!faults.is_empty());
        faults.iter().for_each(|fault| println!("{}: {fault}", case.path));
    }
    println!("{} passed, {bad} failed", all.len() - bad);
    Ok(ExitCode::from(u8::from(bad > 0)))
}

fn run(lane: LaneName, jobs: Option<NonZeroUsize>, names: &[String]) -> anyhow::Result<ExitCode> {
    let wanted = match lane {
        LaneName::Model => Lane::Model,
        LaneName::Live => Lane::Live,
    };
    let mut chosen: Vec<Case> = match cases::chosen(names) {
        Ok(chosen) => chosen.into_iter().filter(|case| case.is_in(wanted)).collect(),
        Err(error) => {
            eprintln!("scenarios: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    let mut left_out = Vec::new();
    if wanted == Lane::Live {
        (chosen, left_out) = lane::runnable(chosen, &|sentence| eprintln!("{sentence}"));
        lane::prepare(&chosen, &|sentence| eprintln!("{sentence}"))?;
        lane::listen()?;
        // The long ones first: none of them is then left alone at the end.
        chosen.sort_by_key(|case| std::cmp::Reverse(case.text.len()));
    }
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let at_once = if wanted == Lane::Live { 2 * processors } else { processors };
    let jobs = jobs.map_or(at_once, NonZeroUsize::get);
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !lane::is_interrupted()
                    && let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    run_one(case, wanted, &tally);
                }
            });
        }
    });
    let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    // It may have been between two cases that somebody asked.
    tally.interrupted |= lane::is_interrupted();
    for (path, why) in left_out {
        println!("NOT CHECKED: {path}: {}", why.lines().next().unwrap_or_default());
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(ExitCode::from(tally.code()))
}

/// Runs one case and tells what came of it.
fn run_one(case: &Case, wanted: Lane, tally: &Mutex<Tally>) {
    let start = Instant::now();
    let failed = |why| Outcome::new(1, false, Vec::new(), why);
    let outcome = match wanted {
        Lane::Model => match scenarios::model::run(case) {
            None => Outcome::new(0, false, Vec::new(), String::new()),
            Some(why) => failed(why),
        },
        Lane::Live => lane::run(case, false).unwrap_or_else(|error| failed(format!("{error:#}"))),
    };
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    let verdict = match outcome.ending {
        Ending::Passed => "ok",
        Ending::Interrupted => "ended",
        Ending::Failed => "FAILED",
    };
    println!("{verdict:<7} {:<62} {:>8}", case.path, seconds(start.elapsed()));
    if outcome.ending == Ending::Failed {
        outcome.said.lines().for_each(|line| println!("    {line}"));
    }
    tally.count(&outcome);
}

fn demo() -> anyhow::Result<ExitCode> {
    let chosen = cases::chosen(&[DEMO.to_owned()])?;
    let case = chosen.first().context("the demo's case is not there")?;
    lane::prepare(&chosen, &|sentence| println!("{sentence}"))?;
    lane::listen()?;
    let start = Instant::now();
    let outcome = lane::run(case, true)?;
    print!("{}", outcome.said);
    println!("\n{}", outcome.demo_line(start.elapsed()));
    Ok(ExitCode::from(outcome.demo_code()))
}

fn up(listen: SocketAddr) -> anyhow::Result<ExitCode> {
    up::prepare(&|sentence| println!("{sentence}"))?;
    lane::listen()?;
    let outcome = lane::up(listen)?;
    print!("{}", outcome.said);
    Ok(ExitCode::from(outcome.up_code()))
}

fn kubernetes_up(listen: SocketAddr) -> anyhow::Result<ExitCode> {
    kubernetes::programs(&|sentence| println!("{sentence}"))?;
    lane::listen()?;
    let outcome = lane::kubernetes(listen)?;
    print!("{}", outcome.said);
    Ok(ExitCode::from(outcome.up_code()))
}

fn kubernetes_types(output: &Path) -> anyhow::Result<ExitCode> {
    kubernetes::programs(&|sentence| println!("{sentence}"))?;
    lane::listen()?;
    let outcome = lane::kubernetes_types(output)?;
    print!("{}", outcome.said);
    Ok(ExitCode::from(outcome.up_code()))
}

fn conformance(options: &Options) -> anyhow::Result<ExitCode> {
    kubernetes::programs(&|sentence| println!("{sentence}"))?;
    lane::listen()?;
    let outcome = lane::conformance(&options.arguments())?;
    print!("{}", outcome.said);
    Ok(ExitCode::from(outcome.up_code()))
}

/// Whoever started this may be killed: then this ends too, and with it all that it made.
fn end_with_parent() -> anyhow::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).context("cannot end with its parent")
}

fn run_inside(name: &str, logs: &Path, silent: bool) -> anyhow::Result<ExitCode> {
    end_with_parent()?;
    let chosen = cases::chosen(&[name.to_owned()])?;
    let case = chosen.iter().find(|case| case.path == name).context("a case, not a topic")?;
    let mode = if silent { Mode::Silent } else { Mode::for_watching() };
    inside::run(case, mode, logs).map(code_of)
}

fn code_of(end: End) -> ExitCode {
    match end {
        End::Passed => ExitCode::SUCCESS,
        End::Failed => ExitCode::FAILURE,
        End::Interrupted => ExitCode::from(INTERRUPTED),
    }
}
