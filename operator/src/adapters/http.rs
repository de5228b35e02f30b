//! HTTP for object stores: `object_store`'s own connector trait over hyper, with the time-outs that it leaves to us.
//!
//! HTTP/1.1 only, which all four stores speak: one request a connection at a time, and its failure concerns no other.

use async_trait::async_trait;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use rustls::ClientConfig;
use std::error::Error;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

use super::dial::Dialer;
use super::tls;

/// How long nothing may move: from one piece of a request to the next, from the last to the head of the answer, and between
/// two pieces of its body. Whoever has a bound of their own that is shorter sees to it themselves; a longer one has to say so
/// ([`StoreConnector::with_patience`]).
const PATIENCE: Duration = Duration::from_secs(60);
/// Pieces in which a request's body is sent: the line takes a whole part of an upload at once only to look at it.
const PIECE_BYTES: usize = 64 << 10;
/// How long an unused connection is kept: shorter than what servers and balancers allow.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// One client for all stores of the process. Cheap to clone.
#[derive(Clone)]
pub struct StoreConnector {
    client: Client<HttpsConnector<Dialer>, SentBody>,
    patience: Duration,
}

impl StoreConnector {
    /// Dials with this, and trusts the platform's roots.
    pub fn new(dialer: Dialer) -> Self {
        Self::with_tls(dialer, tls::store_client_config())
    }

    /// Dials with this, and speaks TLS so.
    pub fn with_tls(dialer: Dialer, config: ClientConfig) -> Self {
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().wrap_connector(dialer);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { client, patience: PATIENCE }
    }

    /// The same with this long for nothing to move.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}

impl fmt::Debug for StoreConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreConnector")
    }
}

impl HttpConnector for StoreConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for StoreConnector {
    #[expect(clippy::disallowed_methods, reason = "an adapter: the deadline of a real request")]
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let patience = self.patience;
        let moved = Arc::new(Mutex::new(now()));
        let sent = moved.clone();
        let mut answer = pin!(self.client.request(request.map(|body| SentBody { body, piece: Bytes::new(), sent })));
        let response = loop {
            let due = *moved.lock().unwrap_or_else(PoisonError::into_inner) + patience;
            match tokio::time::timeout_at(due, answer.as_mut()).await {
                Ok(response) => break response.map_err(|error| HttpError::new(kind_of(&error), error))?,
                // Something was sent meanwhile.
                Err(_) if *moved.lock().unwrap_or_else(PoisonError::into_inner) + patience > now() => {}
                Err(_) => return Err(timed_out(patience)),
            }
        };
        let sleep = Box::pin(asleep(patience));
        Ok(response.map(|body| HttpResponseBody::new(TimedBody { body, read: patience, sleep })))
    }
}

/// The body of a request in pieces, which tells when the line took one.
struct SentBody {
    body: HttpRequestBody,
    piece: Bytes,
    sent: Arc<Mutex<Instant>>,
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = now();
        if self.piece.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.piece = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return Poll::Ready(other),
            }
        }
        let length = self.piece.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.piece.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.piece.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(left) => SizeHint::with_exact(left + self.piece.len() as u64),
            None => SizeHint::default(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an adapter: the deadline of a real read")]
fn asleep(duration: Duration) -> Sleep {
    tokio::time::sleep(duration)
}

fn timed_out(after: Duration) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, std::io::Error::other(format!("the store was silent for {after:?}")))
}

/// What `object_store` may do about it: `Connect` and `Request` were certainly not carried out.
fn kind_of(error: &ClientError) -> HttpErrorKind {
    if error.is_connect() {
        return HttpErrorKind::Connect;
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_canceled() {
                return HttpErrorKind::Request;
            }
            if error.is_parse() || error.is_user() {
                return HttpErrorKind::Unknown;
            }
        }
        cause = error.source();
    }
    HttpErrorKind::Interrupted
}

/// The body of an answer, which may not pause for longer than `read`.
struct TimedBody {
    body: Incoming,
    read: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let due = now() + self.read;
            self.sleep.as_mut().reset(due);
            return Poll::Ready(
                frame.map(|frame| frame.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))),
            );
        }
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(timed_out(self.read))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[expect(clippy::disallowed_methods, reason = "an adapter: the deadline of a real read")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Sends this to whoever asks, and then nothing, for ever.
    async fn silent_after(answer: &'static str) -> (StoreConnector, HttpRequest) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut asked = [0; 1024];
            assert!(stream.read(&mut asked).await.expect("a request") > 0);
            stream.write_all(answer.as_bytes()).await.expect("sent");
            std::future::pending::<()>().await;
        });
        let connector = StoreConnector::new(Dialer::tcp()).with_patience(Duration::from_millis(100));
        (connector, http::Request::get(url).body(HttpRequestBody::empty()).expect("a request"))
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_given_up() {
        let (connector, request) = silent_after("").await;
        let error = connector.call(request).await.expect_err("no answer");
        assert_eq!(error.kind(), HttpErrorKind::Timeout, "{error}");
    }

    /// A slow line is not a silent one: what counts is that something moves, not how long the whole takes.
    #[tokio::test]
    async fn a_server_that_reads_slowly_is_waited_for() {
        const BODY: usize = 16 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        let began = now();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let (mut piece, mut read) = (vec![0; 1 << 20], 0);
            while read < BODY {
                read += stream.read(&mut piece).await.expect("a piece");
                asleep(Duration::from_millis(20)).await;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("sent");
            std::future::pending::<()>().await;
        });
        let patience = Duration::from_millis(200);
        let connector = StoreConnector::new(Dialer::tcp()).with_patience(patience);
        let body = HttpRequestBody::from(Bytes::from(vec![7; BODY]));
        let answer = connector.call(http::Request::put(url).body(body).expect("a request")).await;
        assert_eq!(answer.expect("an answer").status(), http::StatusCode::OK);
        assert!(now() - began > patience, "it took longer than nothing may move");
    }

    #[tokio::test]
    async fn a_body_that_stops_in_the_middle_is_given_up() {
        let (connector, request) = silent_after("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await;
        let response = connector.call(request).await.expect("a head");
        let error = response.into_body().bytes().await.expect_err("half a body");
        assert_eq!(error.kind(), HttpErrorKind::Timeout, "{error}");
    }
}
