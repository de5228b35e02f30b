//! The two ways to an API: this crate's server in the same process, and any server over HTTP.
use std::time::Duration;

use anyhow::Context;
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{Api, Call, Reply};
use crate::http::{Shared, answer_in_process};

/// A server of this crate, without sockets.
pub struct InProcess(pub Shared);

impl Api for InProcess {
    async fn call(&self, call: Call) -> anyhow::Result<Reply> {
        let request = request(&call, "", None)?.map(|bytes| Body::from(bytes.into_inner().unwrap_or_default()));
        let (head, body) = answer_in_process(&self.0, request).await.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.context("the body of the answer broke off")?;
        Ok(reply(&head, &bytes))
    }
}

/// A server at an address, with a bearer token.
pub struct OverHttp {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    token: String,
}

/// An answer that takes longer than this will not come.
const PATIENCE: Duration = Duration::from_secs(60);

impl OverHttp {
    /// `base` is `https://127.0.0.1:6443`, `ca` the authority to trust, in PEM.
    ///
    /// # Errors
    /// When the authority cannot be read.
    pub fn new(base: &str, ca: &str, token: &str) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(ca.as_bytes()).context("the authority is no certificate")?;
        roots.add(certificate).context("the authority cannot be trusted")?;
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("no protocol version")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, base: base.to_owned(), token: token.to_owned() })
    }
}

impl Api for OverHttp {
    async fn call(&self, call: Call) -> anyhow::Result<Reply> {
        let request = request(&call, &self.base, Some(&self.token))?;
        #[allow(clippy::disallowed_methods, reason = "the live edge: a server that is silent is given up")]
        let answer = tokio::time::timeout(PATIENCE, async {
            let (head, body) = self.client.request(request).await.context("no answer")?.into_parts();
            anyhow::Ok((head, body.collect().await.context("the body of the answer broke off")?.to_bytes()))
        });
        let (head, bytes) = answer.await.context("no answer in time")??;
        Ok(reply(&head, &bytes))
    }
}

fn request(call: &Call, base: &str, token: Option<&str>) -> anyhow::Result<Request<Full<Bytes>>> {
    let mut builder = Request::builder().method(call.method.as_str()).uri(format!("{base}{}", call.uri));
    for (name, value) in [(header::CONTENT_TYPE, &call.content_type), (header::ACCEPT, &call.accept)] {
        if !value.is_empty() {
            builder = builder.header(name, value);
        }
    }
    if let Some(token) = token {
        builder = builder.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    builder = builder.header(header::USER_AGENT, "conformance");
    builder.body(Full::new(Bytes::from(call.body.clone()))).with_context(|| format!("no request: {}", call.uri))
}

fn reply(head: &http::response::Parts, bytes: &[u8]) -> Reply {
    let warnings = head.headers.get_all(header::WARNING).iter();
    let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    Reply { code: head.status.as_u16(), warnings, body: String::from_utf8_lossy(bytes).into_owned() }
}
