//! What must hold: one property a file. Each is asked at the commit of every effect of the operator, at each birth of a
//! data directory, a few times a second, and at the end.

pub mod backups_restore;
pub mod converged;
pub mod quorum_kept;
pub mod restore_is_safe;
pub mod single_birth;
pub mod volumes_kept;
pub mod writes_survive;

#[cfg(test)]
pub(crate) mod fixture;

use std::fmt;

use crate::effect::Effect;
use crate::etcd::Birth;
use crate::world::World;

/// The kind of a failure: what the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something happened that must never happen.
    Safety,
    /// Something did not happen that must.
    Liveness,
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `S1`, `L1`, ...
    pub invariant: &'static str,
    /// Safety or liveness.
    pub severity: Severity,
    /// One sentence.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violated: {}", self.invariant, self.what)
    }
}

/// One property.
pub trait Checker: Send {
    /// Its name: sim/README.md has them all.
    fn invariant(&self) -> &'static str;

    /// Safety unless it says otherwise.
    fn severity(&self) -> Severity {
        Severity::Safety
    }

    /// An effect of the operator is about to be committed; what is wrong with it, if it goes through.
    fn effect(&mut self, _world: &World, _effect: &Effect) -> Option<String> {
        None
    }

    /// The effect that was asked about last went through.
    fn done(&mut self) {}

    /// A data directory was made.
    fn birth(&mut self, _world: &World, _birth: &Birth) -> Option<String> {
        None
    }

    /// Time passes.
    fn tick(&mut self, _world: &World) -> Option<String> {
        None
    }

    /// The run is over, all is healed, and the world is converged or cannot be.
    fn end(&mut self, _world: &World) -> Option<String> {
        None
    }
}

/// All of them.
#[derive(Default)]
pub struct Checkers(Vec<Box<dyn Checker>>);

impl Checkers {
    /// Every property of this simulation.
    pub fn all() -> Self {
        Self(vec![
            Box::new(quorum_kept::QuorumKept::default()),
            Box::new(single_birth::SingleBirth::default()),
            Box::new(volumes_kept::VolumesKept),
            Box::new(writes_survive::WritesSurvive),
            Box::new(backups_restore::BackupsRestore),
            Box::new(restore_is_safe::RestoreIsSafe::default()),
            Box::new(converged::NoWritesWhenConverged::default()),
        ])
    }

    fn ask(&mut self, ask: impl Fn(&mut dyn Checker) -> Option<String>) -> Option<Violation> {
        self.0.iter_mut().find_map(|checker| {
            let what = ask(checker.as_mut())?;
            Some(Violation { invariant: checker.invariant(), severity: checker.severity(), what })
        })
    }

    /// See [`Checker::effect`].
    pub fn effect(&mut self, world: &World, effect: &Effect) -> Option<Violation> {
        self.ask(|checker| checker.effect(world, effect))
    }

    /// See [`Checker::done`].
    pub fn done(&mut self) {
        self.0.iter_mut().for_each(|checker| checker.done());
    }

    /// See [`Checker::birth`].
    pub fn birth(&mut self, world: &World, birth: &Birth) -> Option<Violation> {
        self.ask(|checker| checker.birth(world, birth))
    }

    /// See [`Checker::tick`].
    pub fn tick(&mut self, world: &World) -> Option<Violation> {
        self.ask(|checker| checker.tick(world))
    }

    /// See [`Checker::end`].
    pub fn end(&mut self, world: &World) -> Option<Violation> {
        self.ask(|checker| checker.end(world))
    }
}
