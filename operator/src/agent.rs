//! Agent mode: what this binary does inside a member's pod.
//!
//! `install` brings the executable into the pod, `fetch` and `restore` make a data directory from a snapshot, `run`
//! starts etcd unless data that must be there is gone. The command lines and the decisions are plain values and
//! functions over two ports (a directory and the object store), so that the simulator interprets pods with the same
//! code; only `live` touches files and processes.

pub mod command;
pub mod directory;
pub mod fetch;
pub mod flags;
pub mod guard;
pub mod restore;
pub mod run;

#[cfg(feature = "live")]
pub mod live;

pub use command::Command;
pub use directory::{Directory, FileSink};
pub use fetch::SNAPSHOT_CHANGED_EXIT_CODE;
pub use flags::{EtcdFlags, InitialState};
pub use guard::{DATA_LOST_EXIT_CODE, DataLost, guard};

#[cfg(feature = "live")]
pub use live::main;
