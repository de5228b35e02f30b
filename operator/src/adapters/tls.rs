//! TLS of the adapters: rustls on ring, PEM from Secrets for etcd, the platform's roots for object stores.

use hyper_rustls::ConfigBuilderExt;
use rustls::crypto::ring;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use std::error::Error;
use std::sync::Arc;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::ports::EtcdTls;

/// Makes ring the provider of this process, whichever crate asks rustls for one. Call it first in main.
pub fn install_crypto_provider() {
    // It fails only when one is installed already, and ring is the only one that is linked.
    let _ = ring::default_provider().install_default();
}

/// What a client of an object store trusts: the platform's roots.
pub fn store_client_config() -> ClientConfig {
    match builder().with_native_roots() {
        Ok(trusting) => trusting.with_no_client_auth(),
        Err(error) => {
            tracing::warn!(%error, "no root certificates on this machine: object stores over https will be refused");
            store_client_config_of(RootCertStore::empty())
        }
    }
}

/// The same, trusting these.
pub fn store_client_config_of(roots: RootCertStore) -> ClientConfig {
    builder().with_root_certificates(roots).with_no_client_auth()
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks the default versions of TLS")
}

/// For a member's client URL. The name that its certificate must carry is the URL's host.
pub fn etcd_client_config(tls: &EtcdTls) -> ClientTlsConfig {
    ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&tls.ca))
        .identity(Identity::from_pem(&tls.certificate, &tls.key))
        // etcd below 3.4 does not always negotiate it, and speaks nothing else to a gRPC client.
        .assume_http2(true)
}

/// How rustls words an alert of the other side. In TLS 1.3 a server judges our certificate after the handshake is over
/// for us; the alert then comes through h2, which keeps the words of an error and not its type.
const ALERT: &str = "received fatal alert: ";

/// Whether the chain of causes holds a failure of TLS, such as a certificate that one side does not trust.
pub fn is_tls_error(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<rustls::Error>() || error.to_string().contains(ALERT) {
            return true;
        }
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_tls_failure_is_found_below_io_errors() {
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::BadCertificate);
        let nested = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, alert));
        assert!(is_tls_error(&nested));
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::BadCertificate);
        assert!(is_tls_error(&io::Error::other(format!("connection error: {alert}"))));
        assert!(!is_tls_error(&io::Error::other(io::Error::from(io::ErrorKind::ConnectionRefused))));
    }
}
