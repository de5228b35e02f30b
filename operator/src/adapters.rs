//! The ports over the real world: the only users of the client crates.
//!
//! Each adapter dials through one function that can be given from outside, which is where proxies and tests plug in.

pub mod kube;
