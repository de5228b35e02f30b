//! The log of a run: every event feeds a rolling hash, by which two runs of one seed are compared.

use std::collections::VecDeque;
use std::fmt;

/// Milliseconds since the beginning of the run.
pub type Millis = u64;

/// How many of the last events a run keeps when it keeps not all of them.
pub const LAST_EVENTS: usize = 60;

/// What a rolling hash begins with.
pub const HASH_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

/// A rolling hash, with more bytes.
pub fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Millis,
    /// Who did it, or where: `operator`, `api`, `etcd`, `fault`, ...
    pub actor: &'static str,
    /// What.
    pub what: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>5}.{:03} {:<9} {}", self.at / 1000, self.at % 1000, self.actor, self.what)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The log.
#[derive(Debug)]
pub struct EventLog {
    hash: u64,
    count: u64,
    keep_all: bool,
    kept: VecDeque<Event>,
}

impl EventLog {
    /// An empty log, which keeps all events or only the last ones.
    pub fn new(keep_all: bool) -> Self {
        Self { hash: HASH_OF_NOTHING, count: 0, keep_all, kept: VecDeque::new() }
    }

    /// Appends.
    pub fn push(&mut self, at: Millis, actor: &'static str, what: String) {
        let words = [&at.to_le_bytes()[..], actor.as_bytes(), what.as_bytes()];
        self.hash = words.into_iter().fold(self.hash, hashed);
        self.count += 1;
        self.kept.push_back(Event { at, actor, what });
        if !self.keep_all && self.kept.len() > LAST_EVENTS {
            self.kept.pop_front();
        }
    }

    /// The hash over everything so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many events there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those that were kept, oldest first.
    pub fn kept(&self) -> impl Iterator<Item = &Event> {
        self.kept.iter()
    }
}
