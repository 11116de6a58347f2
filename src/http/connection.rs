//! The connection of one client: its time limits, and how it ends.
//!
//! hyper reads heads with a time limit of its own; bodies have theirs where they are read. That
//! leaves clients that read their answers slowly or not at all. Every connection therefore has a
//! [`Progress`]: the socket records when bytes last moved and since when they wait for the client,
//! and each request when its answer began, and the task that drives the connection checks it once a
//! second. A client that is stuck, asks nothing, or takes longer over one answer than `answer_max`,
//! is cut off: it holds memory and a connection that others could use. Only an answer marked
//! [`Endless`] may take any time, as long as it moves.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::answer::body::holding;
use super::answer::endless::Endless;
use super::auth::Peer;
use super::settings::{HEADER_BYTES_MAX, HttpSettings};
use crate::instruments::Foreground;
use crate::instruments::thread::Client;

/// Room for a head: its first line and headers, twice what the checks accept, so that they refuse
/// and explain. hyper's own limits, which come first, are a hundred headers and a target of 65,534
/// bytes.
const HEAD_BUFFER_BYTES: usize = 4 * HEADER_BYTES_MAX;

/// Interval at which a connection checks its [`Progress`].
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// The progress of one connection. Times are milliseconds since it was opened. All relaxed: the
/// numbers carry no other data, and a late check does no harm.
#[derive(Debug)]
struct Progress {
    opened: Instant,
    /// When a byte last moved in either direction.
    moved_ms: AtomicU64,
    /// Since when bytes wait for the client to read others; 0 if none do.
    stuck_ms: AtomicU64,
    /// When the oldest answer that is not fully sent began; 0 if there is none, and while it is
    /// worked out.
    answering_ms: AtomicU64,
    /// Cloned by each request until hyper has taken all of its answer.
    requests: Arc<()>,
}

impl Progress {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            moved_ms: AtomicU64::new(0),
            stuck_ms: AtomicU64::new(0),
            answering_ms: AtomicU64::new(0),
            requests: Arc::default(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn moved(&self) {
        self.moved_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Records the result of a write.
    fn written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(_) => {
                self.stuck_ms.store(0, Ordering::Relaxed);
                self.moved();
            }
            Poll::Pending if self.stuck_ms.load(Ordering::Relaxed) == 0 => {
                self.stuck_ms.store(self.now_ms(), Ordering::Relaxed);
            }
            Poll::Pending => {}
        }
        written
    }

    /// Records that an answer begins, which the client has to read within some time.
    fn begin(&self) {
        if self.answering_ms.load(Ordering::Relaxed) == 0 {
            self.answering_ms.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// Records that hyper's own buffer was passed to the kernel.
    fn flushed(&self) {
        if self.is_unused() {
            self.answering_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Whether no request waits for its answer, or for the rest of it.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.requests) == 1
    }

    /// The reason to cut the connection off, if any.
    fn overdue(&self, settings: &HttpSettings) -> Option<&'static str> {
        let now = self.now_ms();
        let over =
            |since: u64, limit: Duration| u128::from(now - since.min(now)) > limit.as_millis();
        let [moved, stuck, answering] = [&self.moved_ms, &self.stuck_ms, &self.answering_ms]
            .map(|since| since.load(Ordering::Relaxed));
        if stuck != 0 && over(stuck, settings.idle_max) {
            Some("the client did not read for too long")
        } else if self.is_unused() && over(moved, settings.idle_max) {
            Some("nothing moved for too long")
        } else if answering != 0 && over(answering, settings.answer_max) {
            Some("it took too long over one answer")
        } else {
            None
        }
    }
}

/// Serves one connection until the client leaves, is cut off, or `stop` completes; then the answer
/// in progress is finished.
pub(super) async fn drive(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    settings: HttpSettings,
    stop: watch::Receiver<bool>,
) {
    let progress = Arc::new(Progress::new());
    let stream = Tracked { stream, progress: Arc::clone(&progress) };
    let Some(tls) = &settings.tls else {
        return converse(stream, progress, peer, router, settings, stop).await;
    };
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    match tokio::time::timeout(settings.handshake_max, handshake).await {
        Ok(Ok(stream)) => converse(stream, progress, peer, router, settings, stop).await,
        Ok(Err(error)) => debug!(%error, %peer, "A TLS handshake failed."),
        Err(_) => debug!(%peer, "A TLS handshake took too long."),
    }
}

/// Serves plain HTTP on `stream`.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    progress: Arc<Progress>,
    peer: SocketAddr,
    router: Router,
    settings: HttpSettings,
    mut stop: watch::Receiver<bool>,
) {
    let connection = Arc::new(Foreground::attach("http/connection"));
    connection.set_client(Client {
        id: None,
        user: String::new(),
        host: peer.ip().to_canonical().to_string(),
        protocol: "TCP/IP",
    });
    let io = TokioIo::new(stream);
    let service = TowerToHyperService::new(router);
    let answers = Arc::clone(&progress);
    let service = service_fn(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(Arc::clone(&connection));
        let answering = Arc::clone(&answers.requests);
        let progress = Arc::clone(&answers);
        let answer = service.call(request.map(Body::new));
        async move {
            let response = answer.await?;
            if response.extensions().get::<Endless>().is_none() {
                progress.begin();
            }
            // The guard stays with the body until hyper has taken all of it.
            Ok::<_, Infallible>(response.map(|body| holding(body, answering)))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.head_max)
        .max_buf_size(HEAD_BUFFER_BYTES)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let mut check = tokio::time::interval(CHECK_PERIOD.min(settings.idle_max));
    let mut stopping = false;
    loop {
        tokio::select! {
            end = connection.as_mut() => {
                if let Err(error) = end {
                    debug!(%error, "A connection ended early.");
                }
                return;
            }
            _ = check.tick() => {
                if let Some(reason) = progress.overdue(&settings) {
                    debug!(reason, "Cut off a connection.");
                    return;
                }
            }
            // An error means that the server is gone, which is a stop as well.
            _ = stop.wait_for(|stop| *stop), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The socket, recording when bytes move.
struct Tracked {
    stream: TcpStream,
    progress: Arc<Progress>,
}

impl Tracked {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for Tracked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.as_mut().stream().poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.progress.moved();
        }
        read
    }
}

impl AsyncWrite for Tracked {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write(context, bytes);
        self.progress.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write_vectored(context, bytes);
        self.progress.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.progress.flushed();
        self.as_mut().stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_connection_is_overdue_when_nothing_is_asked_or_read_or_an_answer_lasts() {
        let mut settings = HttpSettings::new(&[]);
        settings.idle_max = Duration::from_secs(10);
        settings.answer_max = Duration::from_secs(25);
        let progress = Arc::new(Progress::new());
        let request = Arc::clone(&progress.requests);
        let wait = |secs| tokio::time::advance(Duration::from_secs(secs));
        wait(60).await;
        assert_eq!(progress.overdue(&settings), None, "its answer is worked out");
        progress.begin();
        for _ in 0..3 {
            wait(8).await;
            progress.moved();
            progress.flushed();
            assert_eq!(progress.overdue(&settings), None);
        }
        wait(2).await;
        assert_eq!(progress.overdue(&settings), Some("it took too long over one answer"));
        settings.answer_max = Duration::from_secs(60);
        for _ in 0..2 {
            assert_eq!(progress.overdue(&settings), None);
            let _ = progress.written(Poll::Pending);
            wait(8).await;
        }
        assert_eq!(progress.overdue(&settings), Some("the client did not read for too long"));
        let _ = progress.written(Poll::Ready(Ok(1)));
        assert_eq!(progress.overdue(&settings), None);
        drop(request);
        progress.flushed();
        wait(9).await;
        assert_eq!(progress.overdue(&settings), None);
        wait(2).await;
        assert_eq!(progress.overdue(&settings), Some("nothing moved for too long"));
    }
}
