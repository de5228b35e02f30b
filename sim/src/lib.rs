//! A deterministic simulation of the operator's world: the operator's own controller runs unchanged over ports that are
//! implemented by fakes, on simulated time, while faults strike and checkers watch.
//!
//! One seed and one commit give one run, byte for byte. Reading order: [`course`] is what a run is made of, [`swarm`]
//! makes one from a seed, [`run()`] runs it; [`world`] holds everything that there is in it, [`port`] is how the operator
//! reaches it, [`checker`] is what must hold.

#[cfg(not(madsim))]
compile_error!("build with --cfg madsim: .cargo/config.toml sets it, and a RUSTFLAGS variable replaces it");

pub mod course;
pub mod scenario;
pub mod swarm;

pub mod campaign;
pub mod run;
pub mod user;

pub mod fault;
pub mod world;

pub mod agent;
pub mod etcd;
pub mod files;
pub mod names;
pub mod network;
pub mod runtime;
pub mod store;
pub mod workload;

pub mod operator;
pub mod port;

pub mod checker;
pub mod converge;
pub mod effect;
pub mod event;
pub mod ghost;
pub mod sometimes;
pub mod stream;

pub use run::{Outcome, run, run_course};
pub use scenario::Scenario;
