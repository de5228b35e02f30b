//! Conformance: the same sequences of requests are played against this server and against a real one, and what both
//! answer is compared.
//!
//! A [`sequence`] is data; [`generate`] makes them from a seed; [`play`] sends one to whatever answers as a Kubernetes API
//! does ([`Api`]) and writes down what it says; [`mask`] takes from that what may differ between two servers (uids,
//! versions, times) without losing what may not; [`compare`] finds the differences, and [`table`] counts them. A
//! [`corpus`] is a recording of what a real server said, for where there is none.
//!
//! Only through HTTP: what is compared is what a client sees.
use std::future::Future;

use anyhow::Context;

use crate::http::Shared;
use crate::server::{Admission, Request, ResourceName, Server};

pub mod bodies;
pub mod client;
pub mod compare;
pub mod corpus;
pub mod generate;
pub mod known;
pub mod mask;
pub mod play;
pub mod sequence;
pub mod table;

/// A request as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// `GET`, `POST`, ...
    pub method: String,
    /// Path and query, encoded.
    pub uri: String,
    /// Empty: the header is not sent.
    pub content_type: String,
    /// Empty: the header is not sent.
    pub accept: String,
    /// May be anything.
    pub body: Vec<u8>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub code: u16,
    /// The texts of the Warning headers.
    pub warnings: Vec<String>,
    /// The whole body; that of a watch until its end.
    pub body: String,
}

/// Something that answers as a Kubernetes API does.
pub trait Api: Sync {
    /// Sends one request and waits for the end of the answer.
    ///
    /// # Errors
    /// When there is no answer at all.
    fn call(&self, call: Call) -> impl Future<Output = anyhow::Result<Reply>> + Send;
}

/// A fresh server as a real one is before sequences are played: with the custom resource, and nothing that only a
/// controller would do.
///
/// # Errors
/// When the definition is refused.
pub fn fresh_server(seed: u64) -> anyhow::Result<Shared> {
    let shared = Shared::new(Server::new(seed));
    let definitions = ResourceName::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let create = Request::create(definitions, "", bodies::definition());
    let define = |now, server: &mut Server| {
        server.set_admission(Admission { service_accounts: false, node_taints: true });
        server.track_managers(true);
        server.handle(now, &create)
    };
    shared.run(define).context("the definition is refused")?;
    Ok(shared)
}
