//! An etcd operator for Kubernetes. Modules in reading order.
//!
//! One pass: observe -> validate -> plan -> status -> apply; see ARCHITECTURE.md.

pub mod api;
pub mod model;
pub mod ports;

pub mod validate;

pub mod plan;

pub mod build;

pub mod status;

pub mod agent;

pub mod recorder;

pub mod apply;
pub mod backup;
pub mod restore;

pub mod cache;
pub mod controller;
pub mod leadership;
pub mod observe;
pub mod queue;
pub mod reconcile;

#[cfg(feature = "live")]
pub mod adapters;
#[cfg(feature = "live")]
pub mod cli;
#[cfg(feature = "live")]
pub mod metrics;
#[cfg(feature = "live")]
pub mod own_pod;
#[cfg(feature = "live")]
pub mod server;
#[cfg(feature = "live")]
pub mod telemetry;
