//! When a backup is due. Pure, and from status alone, so that a restart changes nothing.
//!
//! A periodic backup is due one interval after its last run began. Slots that were missed run once: what is due is
//! compared with now, never counted. A failed attempt is repeated with a back-off that is capped, and never later than
//! the next slot.

use jiff::{SignedDuration, Timestamp};

/// First pause after a failed attempt.
pub const RETRY_FIRST: SignedDuration = SignedDuration::from_secs(5);
/// Longest pause: a store that comes back is noticed within this time.
pub const RETRY_MAX: SignedDuration = SignedDuration::from_mins(10);

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Once, at once.
    Once,
    /// At once, then at this interval.
    Every(SignedDuration),
}

/// The pause after so many failed attempts in a row.
pub fn retry_after(attempts: u32) -> SignedDuration {
    let doublings = attempts.saturating_sub(1).min(10);
    (RETRY_FIRST * (1 << doublings)).min(RETRY_MAX)
}

/// When the next run is due, none when there is nothing left to run.
///
/// `last_run` is when the last run began, `attempts` how many failed since the last good one, `done` whether a one-shot
/// backup has been taken. A `last_run` in the future (a clock that was set back) counts as now, so that a wrong clock
/// delays a backup by one interval at most.
pub fn due(
    schedule: Schedule,
    last_run: Option<Timestamp>,
    attempts: u32,
    done: bool,
    now: Timestamp,
) -> Option<Timestamp> {
    let pause = match schedule {
        Schedule::Once if done => return None,
        Schedule::Once if attempts == 0 => SignedDuration::ZERO,
        Schedule::Once => retry_after(attempts),
        Schedule::Every(interval) if attempts == 0 => interval,
        Schedule::Every(interval) => retry_after(attempts).min(interval),
    };
    let Some(last_run) = last_run else { return Some(now) };
    // An interval beyond the end of time is never due; the largest timestamp says so.
    Some(last_run.min(now).checked_add(pause).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn slots_follow_the_last_run() {
        let every = Schedule::Every(SignedDuration::from_secs(125));
        // schedule, last run, attempts, done, now -> due
        let table = [
            (every, None, 0, false, 0, Some(0), "the first run is at once"),
            (every, Some(0), 0, true, 1, Some(125), "then one interval after the last began"),
            (every, Some(0), 0, true, 5000, Some(125), "forty missed slots are one run, due long ago"),
            (every, Some(0), 1, false, 1, Some(5), "a failure is repeated soon"),
            (every, Some(0), 3, false, 1, Some(20), "with a growing pause"),
            (every, Some(0), 30, false, 1, Some(125), "never later than the next slot"),
            (every, Some(9000), 0, true, 100, Some(225), "a clock set back delays by one interval at most"),
            (Schedule::Once, None, 0, false, 7, Some(7), "one-shot is at once"),
            (Schedule::Once, Some(0), 0, true, 1, None, "and only once"),
            (Schedule::Once, Some(0), 0, false, 1, Some(0), "an interrupted one-shot is due"),
            (Schedule::Once, Some(0), 2, false, 1, Some(10), "a failed one-shot is repeated"),
            (Schedule::Once, Some(0), 1000, false, 1, Some(600), "its pause is capped, and it never gives up"),
        ];
        for (schedule, last_run, attempts, done, now, expected, why) in table {
            assert_eq!(due(schedule, last_run.map(at), attempts, done, at(now)), expected.map(at), "{why}");
        }
    }

    #[test]
    fn an_interval_longer_than_time_is_never_due() {
        let every = Schedule::Every(SignedDuration::from_secs(i64::MAX));
        assert_eq!(due(every, Some(at(0)), 0, true, at(1)), Some(Timestamp::MAX));
    }
}
