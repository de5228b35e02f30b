//! The HTTP endpoints of the operator: /readyz, /livez, /metrics. Nothing secret is served, and nothing can be changed.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

use crate::metrics::{CONTENT_TYPE, Metrics};

/// The address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; --listen-addr takes another address, such as 0.0.0.0:8081")]
pub struct NotListening {
    address: SocketAddr,
    #[source]
    source: io::Error,
}

/// Binds the address, so that a port in use is known before anything else starts.
///
/// # Errors
/// When it cannot be bound.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, NotListening> {
    TcpListener::bind(address).await.map_err(|source| NotListening { address, source })
}

/// Answers for as long as the process lives.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    // It ends only with an error of accept(), which axum itself waits out.
    if let Err(error) = axum::serve(listener, router(metrics)).await {
        tracing::error!(%error, "the health and metrics endpoints stopped");
    }
}

fn router(metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route(
            "/readyz",
            get(async |State(metrics): State<Arc<Metrics>>| {
                said(metrics.is_ready(), "not ready: caches not filled, or no lease to be had; the log says which")
            }),
        )
        .route("/livez", get(async |State(metrics): State<Arc<Metrics>>| said(metrics.is_alive(), "main loop hangs")))
        .route(
            "/metrics",
            get(async |State(metrics): State<Arc<Metrics>>| ([(header::CONTENT_TYPE, CONTENT_TYPE)], metrics.text())),
        )
        .with_state(metrics)
}

fn said(well: bool, otherwise: &'static str) -> impl IntoResponse {
    if well { (StatusCode::OK, "ok\n".to_owned()) } else { (StatusCode::SERVICE_UNAVAILABLE, format!("{otherwise}\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::Hand;
    use crate::ports::Meter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn readiness_liveness_and_metrics_are_served() {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let metrics = Arc::new(Metrics::new(Arc::new(Hand::default()), false));
        let server = tokio::spawn(serve(listener, metrics.clone()));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 503"));
        metrics.ready(true);
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        let text = get(address, "/metrics").await;
        assert!(text.contains("version=0.0.4") && text.contains("etcd_operator_controller_clusters 0"), "{text}");
        assert!(get(address, "/debug").await.starts_with("HTTP/1.1 404"));

        let taken = listen(address).await.expect_err("it is in use");
        assert!(taken.to_string().contains(&address.to_string()), "{taken}");
        server.abort();
    }
}
