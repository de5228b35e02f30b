//! The one place where the adapters open connections, as a value that can be given from outside.
//!
//! etcd's and the object stores' clients both dial through it: a proxy, or a simulated network, is another [`Dialer`].

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How long a connection may take to be made, name resolution included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a dialer opens.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type DialFn = dyn Fn(Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> + Send + Sync;

/// Opens connections to the host and port of a URL.
#[derive(Clone)]
pub struct Dialer(Arc<DialFn>);

impl Dialer {
    /// Opens them with this function.
    pub fn new<F>(dial: impl Fn(Uri) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Box<dyn Stream>>> + Send + 'static,
    {
        Self(Arc::new(move |uri| dial(uri).boxed()))
    }

    /// Over TCP.
    pub fn tcp() -> Self {
        Self::new(|uri| async move {
            let stream = tcp(&uri).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }

    /// Opens one.
    ///
    /// # Errors
    /// When there is no connection within [`CONNECT_TIMEOUT`]: nothing was sent.
    #[expect(clippy::disallowed_methods, reason = "an adapter: the deadline of a real connection")]
    pub async fn dial(&self, uri: Uri) -> io::Result<DialedStream> {
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let late =
            || io::Error::new(io::ErrorKind::TimedOut, format!("no connection to {authority} in {CONNECT_TIMEOUT:?}"));
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, (self.0)(uri)).await.map_err(|_| late())?;
        let stream = stream.map_err(|error| io::Error::new(error.kind(), format!("{authority}: {error}")))?;
        Ok(DialedStream(TokioIo::new(stream)))
    }
}

async fn tcp(uri: &Uri) -> io::Result<TcpStream> {
    let no_host = || io::Error::new(io::ErrorKind::InvalidInput, format!("no host in {uri}"));
    let host = uri.host().ok_or_else(no_host)?.trim_start_matches('[').trim_end_matches(']');
    let default_port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(default_port))).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl tower::Service<Uri> for Dialer {
    type Response = DialedStream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<DialedStream>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialer = self.clone();
        async move { dialer.dial(uri).await }.boxed()
    }
}

/// A connection as hyper and tonic want it.
pub struct DialedStream(TokioIo<Box<dyn Stream>>);

impl Connection for DialedStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for DialedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for DialedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }
}
