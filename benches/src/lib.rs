//! Benchmarks: the plan, ten thousand clusters in one process, the simulator, the backup stream against etcdctl.
//!
//! What they measured last is in `benches/RESULTS.md`; `make bench` runs them. Here is what they share.

pub mod clusters;
pub mod machine;
pub mod real;
