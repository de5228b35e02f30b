//! Benchmarks of the plan, the simulator and the backup stream, and what they measured last; see `benches/`.
