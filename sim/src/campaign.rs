//! Many seeds: each is run twice and compared.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::checker::Violation;
use crate::event::Event;
use crate::run::{Outcome, run_course};
use crate::swarm;

/// What became of a seed.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// All held, twice the same.
    Passed,
    /// Something did not hold.
    Failed(Violation),
    /// Two runs differ: the first event in which they do, from both.
    Diverged(String),
}

/// One seed's result.
#[derive(Clone, Debug)]
pub struct SeedResult {
    /// The first run.
    pub outcome: Outcome,
    /// What became of it.
    pub verdict: Verdict,
}

/// How a campaign is run.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// Threads.
    pub jobs: usize,
    /// Begin no more seeds once one has failed.
    pub stop_at_first: bool,
    /// Run each seed twice and compare.
    pub twice: bool,
}

/// Runs a seed, twice if the two runs shall be compared.
pub fn run_seed(seed: u64, twice: bool) -> SeedResult {
    let course = swarm::course(seed);
    let outcome = run_course(&course, false);
    let same = !twice || outcome == run_course(&course, false);
    let verdict = match &outcome.violation {
        _ if !same => Verdict::Diverged(first_difference(seed)),
        Some(violation) => Verdict::Failed(violation.clone()),
        None => Verdict::Passed,
    };
    SeedResult { outcome, verdict }
}

/// The first event in which two runs of a seed differ, with its neighbours from both; else what is counted otherwise.
fn first_difference(seed: u64) -> String {
    let course = swarm::course(seed);
    let (first, second) = (run_course(&course, true), run_course(&course, true));
    if first.log == second.log {
        let counts = |run: &Outcome| format!("{:?}", Outcome { log: Vec::new(), ..run.clone() });
        return format!(
            "every event is the same\nfirst run:\n  {}\nsecond run:\n  {}",
            counts(&first),
            counts(&second)
        );
    }
    let (a, b) = (first.log, second.log);
    let at = a.iter().zip(&b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    let around = |log: &[Event]| {
        let lines = log.iter().skip(at.saturating_sub(3)).take(6);
        lines.map(|event| format!("  {event}\n")).collect::<String>()
    };
    format!("event {at} differs\nfirst run:\n{}second run:\n{}", around(&a), around(&b))
}

/// Runs seeds, in no particular order; `done` hears of each.
pub fn run_seeds(
    seeds: std::ops::Range<u64>,
    campaign: Campaign,
    done: &(dyn Fn(&SeedResult) + Sync),
) -> Vec<SeedResult> {
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..campaign.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let result = run_seed(seed, campaign.twice);
                    if campaign.stop_at_first && !matches!(result.verdict, Verdict::Passed) {
                        stop.store(true, Ordering::Relaxed);
                    }
                    done(&result);
                    results.lock().expect("no holder of this lock panics").push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no holder of this lock panics");
    results.sort_by_key(|result| result.outcome.seed);
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_event_of_a_run_tells_what_the_world_has_come_to() {
        let (first, other) = (run_course(&swarm::course(1), false), run_course(&swarm::course(2), false));
        let end =
            |run: &Outcome| run.log.last().map(|event| (event.actor, event.what.clone())).expect("something happened");
        assert_eq!(end(&first).0, "end");
        assert_ne!(end(&first), end(&other), "two worlds are not the same in the end");
        assert_eq!(first, run_course(&swarm::course(1), false));
    }
}
