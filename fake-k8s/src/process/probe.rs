//! Probes as kubelet runs them: from the node, against the pod's address, certificates not verified.
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use nix::unistd::Pid;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;

use super::launch;
use crate::controllers::runtime::ProbeAction;

/// Runs one probe; the error is what kubelet would say.
pub(super) async fn run(action: &ProbeAction, ip: Ipv4Addr, pid: Pid, timeout: Duration) -> Result<(), String> {
    let host = |host: &Option<String>| host.clone().unwrap_or_else(|| ip.to_string());
    match action {
        ProbeAction::Tcp { host: other, port } => {
            let address = format!("{}:{port}", host(other));
            match tokio::time::timeout(timeout, TcpStream::connect(&address)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(cause)) => Err(format!("dial tcp {address}: {cause}")),
                Err(_) => Err(format!("dial tcp {address}: i/o timeout")),
            }
        }
        ProbeAction::Http { tls, host: other, port, path, headers } => {
            let scheme = if *tls { "https" } else { "http" };
            let url = format!("{scheme}://{}:{port}{path}", host(other));
            match tokio::time::timeout(timeout, get(&url, headers)).await {
                Ok(answer) => answer.map_err(|why| format!("Get \"{url}\": {why}")),
                Err(_) => Err(format!("Get \"{url}\": context deadline exceeded")),
            }
        }
        ProbeAction::Exec { command } => {
            let command = command.clone();
            let run = tokio::task::spawn_blocking(move || launch::exec(pid, &command));
            match tokio::time::timeout(timeout, run).await {
                Ok(Ok(Ok((exit, _)))) if exit.code == 0 => Ok(()),
                Ok(Ok(Ok((_, said)))) => Err(said),
                Ok(Ok(Err(why))) => Err(why),
                Ok(Err(cause)) => Err(cause.to_string()),
                Err(_) => Err(format!("command timed out after {}s", timeout.as_secs())),
            }
        }
    }
}

async fn get(url: &str, headers: &[(String, String)]) -> Result<(), String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|cause| cause.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().wrap_connector(http);
    // A connection for each probe: what a reused one says is not whether a new one can be made.
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build::<_, Empty<Bytes>>(connector);
    let mut request = http::Request::get(url).header("User-Agent", "kube-probe/1.34").header("Connection", "close");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Empty::new()).map_err(|cause| cause.to_string())?;
    let answer = client.request(request).await.map_err(|cause| {
        let source = std::error::Error::source(&cause).map(ToString::to_string);
        source.unwrap_or_else(|| cause.to_string())
    })?;
    match answer.status().as_u16() {
        200..400 => Ok(()),
        code => Err(format!("HTTP probe failed with statuscode: {code}")),
    }
}

/// Kubelet does not verify the certificate of a probe's target.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
