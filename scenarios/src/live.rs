//! The live lane: a case against real things. The built operator as a process, pods as local processes with real etcd of
//! the wanted version, a real S3 server; only the Kubernetes API is our own (fake-k8s).
//!
//! [`lane`] is outside: it gets the programs, starts one process for each case, and looks whether anything was left.
//! [`inside`] is that process in its sandbox (docs/adr/0011): it makes a [`world`] and carries out the [`steps`].
#![allow(clippy::disallowed_methods, reason = "real processes live in the time of this machine")]

pub(crate) mod certificates;
pub mod display;
mod etcd;
pub mod inside;
mod keys;
pub mod lane;
mod leftovers;
mod look;
mod operator;
mod programs;
pub mod runs;
mod steps;
pub(crate) mod store;
pub mod up;
pub mod verdict;
mod world;
