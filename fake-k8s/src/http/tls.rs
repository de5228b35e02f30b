//! TLS on a connection: rustls between a socket and whoever reads and writes. The handshake happens with the first read.
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// A listener whose connections are encrypted.
pub struct TlsListener {
    /// Where connections come from.
    pub tcp: TcpListener,
    /// With which certificate.
    pub config: Arc<ServerConfig>,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TlsStream, SocketAddr) {
        loop {
            let (socket, from) = axum::serve::Listener::accept(&mut self.tcp).await;
            match ServerConnection::new(self.config.clone()) {
                Ok(tls) => return (TlsStream { socket, tls }, from),
                Err(cause) => tracing::error!(%cause, "no TLS"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// One encrypted connection.
pub struct TlsStream {
    socket: TcpStream,
    tls: ServerConnection,
}

/// The socket as rustls wants it: what is pending would block.
struct Now<'a, 'b, 'c>(&'a mut TcpStream, &'b mut Context<'c>);

fn now<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

impl Read for Now<'_, '_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(into);
        now(Pin::new(&mut *self.0).poll_read(self.1, &mut buffer))?;
        Ok(buffer.filled().len())
    }
}

impl Write for Now<'_, '_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        now(Pin::new(&mut *self.0).poll_write(self.1, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        now(Pin::new(&mut *self.0).poll_flush(self.1))
    }
}

impl TlsStream {
    /// Sends what rustls has to say; pending when the socket takes no more.
    fn send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Now(&mut self.socket, context)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match this.tls.reader().read(into.initialize_unfilled()) {
                Ok(length) => {
                    into.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A client that goes without saying so has gone all the same.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
            match this.tls.read_tls(&mut Now(&mut this.socket, context)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
            let processed = this.tls.process_new_packets();
            // Answers of the handshake, or the alert that says what was wrong; a full socket is tried again with the next.
            if let Poll::Ready(Err(error)) = this.send(context) {
                return Poll::Ready(Err(error));
            }
            if let Err(cause) = processed {
                return Poll::Ready(Err(io::Error::new(ErrorKind::InvalidData, cause)));
            }
        }
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // What is buffered goes first: nobody buffers without bound.
        match self.send(context) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
        let length = self.tls.writer().write(bytes)?;
        match self.send(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(length)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.send(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tls.send_close_notify();
        match self.send(context) {
            Poll::Ready(_) => Pin::new(&mut self.socket).poll_shutdown(context),
            Poll::Pending => Poll::Pending,
        }
    }
}
