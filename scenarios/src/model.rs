//! The model lane: a case in the simulator. The operator's own controller runs; everything around it is simulated.

use crate::cases::Case;

/// Events that are shown when a case fails.
const EVENTS_SHOWN: usize = 30;

/// Runs a case: none when it passed, else what went wrong and what happened last.
pub fn run(case: &Case) -> Option<String> {
    let outcome = sim::run(&case.scenario);
    let violation = outcome.violation?;
    let events = outcome.log.iter().rev().take(EVENTS_SHOWN).rev().map(|event| format!("  {event}"));
    Some([violation.to_string()].into_iter().chain(events).collect::<Vec<_>>().join("\n"))
}
