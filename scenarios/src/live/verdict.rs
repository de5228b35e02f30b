//! What became of a case, seen from outside: judged from how its process ended, whether somebody asked it to end, and what
//! it left behind. Whatever else happened, something that is left is a failure.

use std::time::Duration;

use super::display::seconds;

/// The exit code of what somebody asked to end.
pub const INTERRUPTED: u8 = 130;

/// How a case, or a world to play with, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Passed,
    /// A step did not come true, or something is left.
    Failed,
    /// Somebody asked it to end, and nothing is left.
    Interrupted,
}

/// What became of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Somebody asked it to end.
    pub interrupted: bool,
    /// What it left behind.
    pub left: Vec<String>,
    /// What it said, and what it left.
    pub said: String,
}

impl Outcome {
    /// Judges: `code` is how the process of the case ended.
    pub fn new(code: i32, interrupted: bool, left: Vec<String>, mut said: String) -> Self {
        let ending = match (left.is_empty(), interrupted, code) {
            (false, _, _) => Ending::Failed,
            (true, true, _) => Ending::Interrupted,
            (true, false, 0) => Ending::Passed,
            (true, false, _) => Ending::Failed,
        };
        if !left.is_empty() {
            said.push_str(&format!("left behind: {}\n", left.join(", ")));
        }
        Self { ending, interrupted, left, said }
    }

    /// The last line of the demo.
    pub fn demo_line(&self, took: Duration) -> String {
        let took = seconds(took);
        match (self.ending, self.interrupted) {
            (Ending::Passed, _) => format!("The demo passed in {took}. Nothing of it is left."),
            (Ending::Interrupted, _) => "Interrupted. Nothing of it is left.".to_owned(),
            (Ending::Failed, true) => "Interrupted, and not all of it is gone.".to_owned(),
            (Ending::Failed, false) => format!("The demo FAILED after {took}."),
        }
    }

    /// The exit code of the demo.
    pub fn demo_code(&self) -> u8 {
        match self.ending {
            Ending::Passed => 0,
            Ending::Failed => 1,
            Ending::Interrupted => INTERRUPTED,
        }
    }

    /// The exit code of a world to play with: to be asked to end is how it ends.
    pub fn up_code(&self) -> u8 {
        u8::from(self.ending == Ending::Failed)
    }
}

/// What came of the cases so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that passed.
    pub passed: usize,
    /// Cases that failed.
    pub failed: usize,
    /// Somebody asked to end.
    pub interrupted: bool,
    /// Something is left of one of them.
    pub left: bool,
}

impl Tally {
    /// Counts one.
    pub fn count(&mut self, outcome: &Outcome) {
        self.passed += usize::from(outcome.ending == Ending::Passed);
        self.failed += usize::from(outcome.ending == Ending::Failed);
        self.interrupted |= outcome.interrupted;
        self.left |= !outcome.left.is_empty();
    }

    /// The exit code of all: what is left is worse than to have been interrupted.
    pub fn code(&self) -> u8 {
        match (self.left, self.interrupted, self.failed) {
            (false, true, _) => INTERRUPTED,
            (false, false, 0) => 0,
            (true, _, _) | (false, false, _) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(code: i32, interrupted: bool, left: &[&str]) -> Outcome {
        Outcome::new(code, interrupted, left.iter().map(|left| (*left).to_owned()).collect(), String::new())
    }

    #[test]
    fn what_is_left_is_a_failure_however_the_case_ended() {
        for (code, interrupted) in [(0, false), (1, false), (130, true), (0, true)] {
            let outcome = outcome(code, interrupted, &["7 (etcd)"]);
            assert_eq!(outcome.ending, Ending::Failed, "{code} {interrupted}");
            assert_eq!((outcome.demo_code(), outcome.up_code()), (1, 1));
            assert_eq!(outcome.said, "left behind: 7 (etcd)\n");
            assert!(!outcome.demo_line(Duration::ZERO).contains("Nothing"), "{code} {interrupted}");
            let mut tally = Tally::default();
            tally.count(&outcome);
            assert_eq!((tally.failed, tally.code()), (1, 1));
        }
    }

    #[test]
    fn to_be_interrupted_is_no_failure_when_nothing_is_left() {
        let outcome = outcome(130, true, &[]);
        assert_eq!(outcome.ending, Ending::Interrupted);
        assert_eq!((outcome.demo_code(), outcome.up_code()), (130, 0));
        assert_eq!(outcome.demo_line(Duration::ZERO), "Interrupted. Nothing of it is left.");
        let mut tally = Tally { failed: 1, ..Tally::default() };
        tally.count(&outcome);
        assert_eq!((tally.passed, tally.failed, tally.code()), (0, 1, 130));
    }

    #[test]
    fn else_the_exit_code_of_the_case_decides() {
        let (passed, failed) = (outcome(0, false, &[]), outcome(1, false, &[]));
        assert_eq!((passed.ending, passed.demo_code(), passed.up_code()), (Ending::Passed, 0, 0));
        assert_eq!((failed.ending, failed.demo_code(), failed.up_code()), (Ending::Failed, 1, 1));
        assert_eq!(passed.demo_line(Duration::from_secs(2)), "The demo passed in 2.0 s. Nothing of it is left.");
        assert_eq!(failed.demo_line(Duration::from_secs(2)), "The demo FAILED after 2.0 s.");
        let mut tally = Tally::default();
        tally.count(&passed);
        assert_eq!(tally.code(), 0);
        tally.count(&failed);
        assert_eq!((tally.passed, tally.failed, tally.code()), (1, 1, 1));
    }
}
