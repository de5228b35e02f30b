//! Scenarios: worlds, schedules of faults and what must hold, run in the model and in the live lane.

pub mod binaries;
