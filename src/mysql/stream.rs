//! A client's stream, plain or under TLS.
//!
//! MySQL's clients ask for TLS in the middle of the conversation, and may have sent the beginning of it already when
//! their wish is read: what was read too early is given back first ([`Prefixed`]).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// A stream that has some bytes before what comes.
#[derive(Debug)]
pub(super) struct Prefixed<S> {
    before: Vec<u8>,
    taken: usize,
    stream: S,
}

impl<S> Prefixed<S> {
    pub(super) fn new(before: Vec<u8>, stream: S) -> Self {
        Self {
            before,
            taken: 0,
            stream,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ahead = &self.before[self.taken..];
        if ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let piece = ahead.len().min(buffer.remaining());
        buffer.put_slice(&ahead[..piece]);
        self.taken += piece;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Plain or under TLS.
pub(super) type Stream<S> = Either<S, Box<TlsStream<Prefixed<S>>>>;
