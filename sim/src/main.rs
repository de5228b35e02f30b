//! `sim --seeds N`, `sim --seed N` (or `sim run ...`): seeds of the swarm, each run twice and compared.
//!
//! Exit codes: 0 all held, 1 a safety property did not, 2 wrong usage, 3 a liveness property did not, 4 two runs of one
//! seed differ, 5 all held and a corner of the world was never visited.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, Parser, Subcommand};
use sim::campaign::{Campaign, SeedResult, Verdict, run_seed, run_seeds};
use sim::checker::Severity;
use sim::run::run_course;
use sim::{sometimes, swarm};

/// All held, and a corner of the world was never visited.
const NEVER_VISITED: u8 = 5;

#[derive(Parser)]
#[command(about = "Deterministic simulation of the etcd operator")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Run seeds of the swarm: what is done without a command, too.
    Run(RunArgs),
    /// Print the course of a seed.
    Show {
        /// The seed.
        #[arg(long)]
        seed: u64,
    },
}

#[derive(Args)]
struct RunArgs {
    /// How many seeds.
    #[arg(long, conflicts_with = "seed", required_unless_present = "seed")]
    seeds: Option<u64>,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Threads; as many as the machine runs at once if not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Begin no more seeds once one has failed.
    #[arg(long)]
    stop_at_first: bool,
    /// Run each seed once instead of twice: faster, and blind to runs that differ.
    #[arg(long)]
    once: bool,
    /// This seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// Print every event.
    #[arg(long, requires = "seed")]
    trace: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Show { seed } => {
            println!("{}", serde_json::to_string_pretty(&swarm::course(seed)).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Command::Run(args) => match args.seed {
            Some(seed) => one(seed, args.trace),
            None => many(&args),
        },
    }
}

fn one(seed: u64, trace: bool) -> ExitCode {
    if trace {
        for event in run_course(&swarm::course(seed), true).log {
            println!("{event}");
        }
    }
    let result = run_seed(seed, true);
    explain(&result);
    ExitCode::from(code(&result.verdict))
}

fn many(args: &RunArgs) -> ExitCode {
    let (from, seeds) = (args.from, args.seeds.unwrap_or(1));
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let campaign =
        Campaign { jobs: args.jobs.unwrap_or_else(cores), stop_at_first: args.stop_at_first, twice: !args.once };
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let live = std::io::stderr().is_terminal();
    let results = run_seeds(from..from + seeds, campaign, &|result| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if !matches!(result.verdict, Verdict::Passed) {
            failed.fetch_add(1, Ordering::Relaxed);
            explain(result);
        }
        if live {
            eprint!("\r{done} of {seeds} seeds, {} failed ", failed.load(Ordering::Relaxed));
        } else if done.is_multiple_of(50) {
            eprintln!("{done} of {seeds} seeds, {} failed", failed.load(Ordering::Relaxed));
        }
    });
    if live {
        eprintln!();
    }
    let simulated: u64 = results.iter().map(|result| result.outcome.simulated).sum();
    let effects: u64 = results.iter().map(|result| result.outcome.effects).sum();
    let passed = results.iter().filter(|result| matches!(result.verdict, Verdict::Passed)).count();
    println!(
        "{passed} of {seeds} seeds passed, each run {}; {} simulated hours, {effects} effects",
        if args.once { "once" } else { "twice" },
        simulated / 3_600_000
    );
    let missed = visited(&results, seeds);
    println!("{passed} passed, {} failed", results.len() - passed);
    let worst = results.iter().map(|result| code(&result.verdict)).filter(|code| *code != 0).min();
    ExitCode::from(worst.unwrap_or(if missed { NEVER_VISITED } else { 0 }))
}

/// Prints how often each corner of the world was visited. Whether enough seeds ran and one was not.
fn visited(results: &[SeedResult], seeds: u64) -> bool {
    let count = |mark: &str| results.iter().filter(|result| result.outcome.sometimes.contains(&mark)).count();
    let mut missed = Vec::new();
    for mark in sometimes::ALL {
        println!("  {:>5} x {mark}", count(mark));
        let needed = !sometimes::RARE.contains(mark) || seeds >= sometimes::ENOUGH_SEEDS_FOR_RARE;
        if count(mark) == 0 && needed {
            missed.push(*mark);
        }
    }
    let enough = seeds >= sometimes::ENOUGH_SEEDS;
    if enough && !missed.is_empty() {
        println!("never visited in {seeds} seeds, so nothing is known about it: {}", missed.join("; "));
    }
    enough && !missed.is_empty()
}

fn code(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Passed => 0,
        Verdict::Failed(violation) if violation.severity == Severity::Safety => 1,
        Verdict::Failed(_) => 3,
        Verdict::Diverged(_) => 4,
    }
}

fn explain(result: &SeedResult) {
    let outcome = &result.outcome;
    let seed = outcome.seed;
    match &result.verdict {
        Verdict::Passed => {
            let (acknowledged, uncertain, reads) = outcome.workload;
            println!(
                "seed {seed} passed: {} s simulated, {} events, {} effects in {} lives, {acknowledged} writes, {uncertain} uncertain, {reads} reads, hash {:016x}",
                outcome.simulated / 1000,
                outcome.events,
                outcome.effects,
                outcome.lives,
                outcome.hash
            );
        }
        Verdict::Failed(violation) => {
            println!("\nseed {seed}: {violation}");
            for event in outcome.log.iter().rev().take(25).rev() {
                println!("  {event}");
            }
            println!("replay: cargo run --release -p sim -- run --seed {seed} --trace");
        }
        Verdict::Diverged(difference) => {
            println!("\nseed {seed}: two runs differ: {difference}");
            println!("replay: cargo run --release -p sim -- run --seed {seed}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(line: &[&str]) -> Option<(Option<u64>, Option<u64>)> {
        let cli = Cli::try_parse_from([&["sim"], line].concat()).ok()?;
        match cli.command.unwrap_or(Command::Run(cli.run)) {
            Command::Run(args) => Some((args.seed, args.seeds)),
            Command::Show { .. } => None,
        }
    }

    #[test]
    fn seeds_run_with_or_without_the_word() {
        for word in [&[][..], &["run"]] {
            assert_eq!(run_of(&[word, &["--seed", "7"]].concat()), Some((Some(7), None)));
            assert_eq!(run_of(&[word, &["--seeds", "500"]].concat()), Some((None, Some(500))));
            assert_eq!(run_of(&[word, &["--seeds", "5", "--seed", "7"]].concat()), None, "one or the other");
            assert_eq!(run_of(word), None, "which seeds?");
        }
        assert!(Cli::try_parse_from(["sim", "show", "--seed", "7"]).is_ok());
    }
}
