//! The process kubelet: a pod's containers run as local processes, with an address, names, volumes, probes and logs of
//! their own, in a sandbox from which nothing survives.
//!
//! Linux only; root, or unprivileged user namespaces. Not here: cgroups and limits, other users than root, image
//! registries, network policies, UDP Services.
#![allow(clippy::disallowed_methods, reason = "real processes live in the time and the environment of this machine")]
mod container;
mod dns;
mod launch;
mod logs;
mod probe;
mod proxy;

pub mod cluster;
pub mod images;
pub mod network;
pub mod runtime;
pub mod sandbox;
