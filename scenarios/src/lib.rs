//! Scenarios: worlds, schedules of faults and what must hold, run in the model and in the live lane.
//!
//! A case is a file under `cases/`, in the language of [`sim::scenario`]. [`cases`] finds and checks them, [`model`] runs
//! one in the simulator, [`live`] with real processes; [`binaries`] are the programs that the live lane runs.
//!
//! [`kubernetes`] starts a real API server, and [`conformance`] plays the same requests against it and against fake-k8s.

pub mod binaries;
pub mod cases;
pub mod conformance;
pub mod kubernetes;
pub mod live;
pub mod model;
