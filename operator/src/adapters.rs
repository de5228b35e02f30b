//! The ports over the real world: the only users of the client crates.
//!
//! Each adapter dials through one function that can be given from outside, which is where proxies and tests plug in.

pub mod clock;
pub mod connect;
pub mod crds;
pub mod dial;
pub mod etcd;
pub mod http;
pub mod kube;
pub mod object_store;
pub mod tls;
