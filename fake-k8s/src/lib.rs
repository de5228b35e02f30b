//! A Kubernetes API server in memory, its controllers, and kubelets.
//!
//! Reading order: [`server`] is the API itself: sans-IO, deterministic, one call, one answer, time is an argument.
//! [`controllers`] are the step machines that make objects come alive. `http` and the process kubelet (feature `serve`)
//! do IO: they let the real `kubectl` talk to the server, and real processes run in its pods.
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod controllers;
#[cfg(feature = "serve")]
pub mod http;
#[cfg(feature = "serve")]
pub mod process;
pub mod server;

pub use server::{
    Admission, FieldValidation, Options, PatchKind, Preconditions, Propagation, Request, ResourceInfo, ResourceName,
    Server, Status, Verb, WatchCursor, WatchEvent, WatchRequest,
};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
