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
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

use super::dial::Dialer;
use super::tls;

/// From the first byte of a request to the head of its answer: time enough for one part of an upload on a slow line.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two pieces of an answer's body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an unused connection is kept: shorter than what servers and balancers allow.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// One client for all stores of the process. Cheap to clone.
#[derive(Clone)]
pub struct StoreConnector {
    client: Client<HttpsConnector<Dialer>, HttpRequestBody>,
    timeouts: Timeouts,
}

#[derive(Clone, Copy)]
struct Timeouts {
    answer: Duration,
    read: Duration,
}

impl StoreConnector {
    /// Dials with this.
    pub fn new(dialer: Dialer) -> Self {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::store_client_config())
            .https_or_http()
            .enable_http1()
            .wrap_connector(dialer);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { client, timeouts: Timeouts { answer: ANSWER_TIMEOUT, read: READ_TIMEOUT } }
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
        let Timeouts { answer, read } = self.timeouts;
        let response = tokio::time::timeout(answer, self.client.request(request))
            .await
            .map_err(|_| timed_out(answer))?
            .map_err(|error| HttpError::new(kind_of(&error), error))?;
        Ok(response.map(|body| HttpResponseBody::new(TimedBody { body, read, sleep: Box::pin(asleep(read)) })))
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
        let mut connector = StoreConnector::new(Dialer::tcp());
        connector.timeouts = Timeouts { answer: Duration::from_millis(100), read: Duration::from_millis(100) };
        (connector, http::Request::get(url).body(HttpRequestBody::empty()).expect("a request"))
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_given_up() {
        let (connector, request) = silent_after("").await;
        let error = connector.call(request).await.expect_err("no answer");
        assert_eq!(error.kind(), HttpErrorKind::Timeout, "{error}");
    }

    #[tokio::test]
    async fn a_body_that_stops_in_the_middle_is_given_up() {
        let (connector, request) = silent_after("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await;
        let response = connector.call(request).await.expect("a head");
        let error = response.into_body().bytes().await.expect_err("half a body");
        assert_eq!(error.kind(), HttpErrorKind::Timeout, "{error}");
    }
}
