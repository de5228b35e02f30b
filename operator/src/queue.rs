//! The work queue: which target is due when. Sans-IO, one for all lanes: time is an argument.
//!
//! - A target is in it once; of two wishes the earlier moment wins.
//! - A target that is being worked on is not handed out again; a wish that arrives meanwhile is kept.
//! - Failures back off exponentially to a cap, per target, and one success forgets them.

use jiff::SignedDuration;
use std::collections::{BTreeMap, BTreeSet};

pub use crate::ports::{Controller, Target};

/// First pause after a failed pass.
pub const BACK_OFF_FIRST: SignedDuration = SignedDuration::from_millis(500);
/// Longest pause after failed passes: long enough to be no load, short enough that nobody waits for it after a recovery.
pub const BACK_OFF_MAX: SignedDuration = SignedDuration::from_secs(30);

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Well; look again after this long, or only when something changes.
    Again(Option<SignedDuration>),
    /// It failed; look again after a pause that grows.
    Failed,
}

#[derive(Default)]
struct Entry {
    /// Moment and sequence number under which it stands in `due`.
    due: Option<(SignedDuration, u64)>,
    running: bool,
    failures: u32,
}

/// The queue. Moments are those of `Clock::monotonic`.
#[derive(Default)]
pub struct Queue {
    entries: BTreeMap<Target, Entry>,
    due: BTreeSet<(SignedDuration, u64, Target)>,
    sequence: u64,
}

impl Queue {
    /// Wishes that the target is looked at, at this moment or later. An earlier wish stands.
    pub fn add(&mut self, target: &Target, at: SignedDuration) {
        let entry = self.entries.entry(target.clone()).or_default();
        if let Some((moment, sequence)) = entry.due {
            if moment <= at {
                return;
            }
            self.due.remove(&(moment, sequence, target.clone()));
        }
        self.sequence += 1;
        entry.due = Some((at, self.sequence));
        self.due.insert((at, self.sequence, target.clone()));
    }

    /// Hands out the target that is due the longest and is not being worked on.
    pub fn pop(&mut self, now: SignedDuration) -> Option<Target> {
        let found = self
            .due
            .iter()
            .take_while(|(moment, ..)| *moment <= now)
            .find(|(_, _, target)| !self.entries[target].running)
            .cloned()?;
        self.due.remove(&found);
        let entry = self.entries.get_mut(&found.2).expect("what is due has an entry");
        entry.due = None;
        entry.running = true;
        Some(found.2)
    }

    /// Takes a target back.
    pub fn finish(&mut self, target: &Target, now: SignedDuration, finished: Finished) {
        let Some(entry) = self.entries.get_mut(target) else { return };
        entry.running = false;
        let after = match finished {
            Finished::Again(after) => {
                entry.failures = 0;
                after
            }
            Finished::Failed => {
                entry.failures = entry.failures.saturating_add(1);
                Some(back_off(entry.failures))
            }
        };
        if let Some(after) = after {
            self.add(target, now + after);
        } else if entry.due.is_none() {
            self.entries.remove(target);
        }
    }

    /// The moment at which `pop` has something next, if nothing is added meanwhile.
    pub fn next_due(&self) -> Option<SignedDuration> {
        self.due.iter().find(|(_, _, target)| !self.entries[target].running).map(|(moment, ..)| *moment)
    }

    /// Targets that are due or being worked on.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing to do, now or later.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The pause after so many failures in a row.
fn back_off(failures: u32) -> SignedDuration {
    let doubled = BACK_OFF_FIRST.checked_mul(1 << failures.saturating_sub(1).min(16)).unwrap_or(BACK_OFF_MAX);
    doubled.min(BACK_OFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::ObjectKey;

    fn target(name: &str) -> Target {
        Target { controller: Controller::Cluster, key: ObjectKey::new("ns", name) }
    }

    fn at(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn the_earlier_of_two_wishes_wins_and_the_target_comes_once() {
        let mut queue = Queue::default();
        queue.add(&target("a"), at(10));
        queue.add(&target("a"), at(5));
        queue.add(&target("a"), at(20));
        assert_eq!(queue.next_due(), Some(at(5)));
        assert_eq!(queue.pop(at(4)), None);
        assert_eq!(queue.pop(at(5)), Some(target("a")));
        assert_eq!(queue.pop(at(100)), None);
    }

    #[test]
    fn a_wish_during_the_pass_is_served_after_it_and_never_beside_it() {
        let mut queue = Queue::default();
        queue.add(&target("a"), at(0));
        assert_eq!(queue.pop(at(0)), Some(target("a")));
        queue.add(&target("a"), at(1));
        assert_eq!((queue.pop(at(2)), queue.next_due()), (None, None));
        queue.finish(&target("a"), at(3), Finished::Again(None));
        assert_eq!(queue.pop(at(3)), Some(target("a")));
    }

    #[test]
    fn back_off_grows_to_its_cap_and_one_success_resets_it() {
        let mut queue = Queue::default();
        queue.add(&target("a"), at(0));
        let mut now = at(0);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            queue.pop(now).expect("due");
            queue.finish(&target("a"), now, Finished::Failed);
            pauses.push((queue.next_due().expect("due again") - now).as_millis());
            now = queue.next_due().expect("due again");
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
        queue.pop(now).expect("due");
        queue.finish(&target("a"), now, Finished::Again(Some(at(60))));
        assert_eq!(queue.next_due(), Some(now + at(60)));
        queue.pop(now + at(60)).expect("due");
        queue.finish(&target("a"), now, Finished::Failed);
        assert_eq!(queue.next_due(), Some(now + BACK_OFF_FIRST));
    }

    #[test]
    fn a_target_that_needs_nothing_more_leaves_no_trace() {
        let mut queue = Queue::default();
        queue.add(&target("a"), at(0));
        queue.pop(at(0)).expect("due");
        queue.finish(&target("a"), at(0), Finished::Again(None));
        assert!(queue.is_empty());
    }
}
