//! An etcd operator for Kubernetes. Modules in reading order.
//!
//! One pass: observe -> validate -> plan -> status -> apply; see ARCHITECTURE.md.

pub mod api;
