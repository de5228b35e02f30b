//! A Kubernetes API server in memory, its controllers, and kubelets: see the module docs for what is pure and what is not.

pub mod controllers;
