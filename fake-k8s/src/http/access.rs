//! Who may come in, where that is not everybody: clients speak TLS, trust one authority, and show one bearer token.
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::answer;
use crate::server::{Reason, Status};

/// What the server shows, and what it wants to be shown.
#[derive(Debug)]
pub struct Access {
    pub(super) config: Arc<ServerConfig>,
    authority: String,
    token: String,
}

impl Access {
    /// The server's certificate and key, and the authority that clients are to trust, all in PEM; and the token.
    ///
    /// # Errors
    /// When one of them is not what it should be.
    pub fn new(certificate: &str, key: &str, authority: &str, token: &str) -> Result<Self, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let chain = chain.map_err(|cause| format!("the certificate: {cause}"))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|cause| format!("the key: {cause}"))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|cause| cause.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|cause| cause.to_string())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), authority: authority.to_owned(), token: token.to_owned() })
    }

    /// A kubeconfig for a server at `address` that lets in whoever has it.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        kubeconfig(address, &self.authority, &self.token)
    }
}

/// A kubeconfig for a server at `address`, with the authority to trust (in PEM) and a bearer token.
pub fn kubeconfig(address: SocketAddr, authority: &str, token: &str) -> String {
    super::kubeconfig_of(
        &format!("https://{address}\n    certificate-authority-data: {}", STANDARD.encode(authority)),
        &format!("{{token: {token}}}"),
    )
}

/// Lets a request through that shows the token.
pub(super) async fn check(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if shown.and_then(|value| value.strip_prefix("Bearer ")) == Some(access.token.as_str()) {
        return next.run(request).await;
    }
    answer::failure(&Status::new(Reason::Unauthorized, "Unauthorized".to_owned()))
}
