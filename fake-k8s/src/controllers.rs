//! The controllers of a Kubernetes cluster as step machines: each talks to nobody but the server, is told the time, and says
//! when it wants to be woken. A simulator calls them in any order and as late as it likes; `process/` calls them after every
//! commit.
pub mod runtime;
