//! Frames, which carry packets: a header of four bytes (length, number) and a body of up to 16 MiB;
//! a longer packet takes several.
//!
//! Called by the session, one per connection, on the wire's threads. Memory is allocated as bytes
//! arrive, never because a header announced them, and large packets take theirs from a [`Budget`]
//! shared by all connections; a packet over a limit is read to its end and discarded, so that the
//! client can be told. Output is buffered, sent when the buffer is large enough, and waits for a
//! slow client only for a limited time. Every malformed frame ends in a [`CommandError`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::errors::{CommandError, error};
use crate::sql::SqlError;

/// A frame of this many bytes is followed by another one of the same packet.
const FRAME_MAX: usize = (1 << 24) - 1;
/// The packet with which clients take their leave.
const QUIT: [u8; 5] = [1, 0, 0, 0, 1];
/// Bytes of a frame's header.
const HEAD: usize = 4;
/// Most bytes read ahead from a client.
const READ_AHEAD: usize = 16 << 10;
/// Packets up to this size are free; larger ones take from the budget.
const SMALL: usize = 64 << 10;
/// An output buffer larger than this is freed.
const OUTPUT_KEPT: usize = 256 << 10;

/// Memory for large packets of all connections together, in KiB.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Semaphore>);

/// A part of the budget; returned on drop.
#[derive(Debug, Default)]
pub(super) struct Share(Option<OwnedSemaphorePermit>);

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        let kib = (bytes >> 10).min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(kib)))
    }

    /// Adds `bytes` to `share`; false if the budget does not have them.
    pub(super) fn take(&self, share: &mut Share, bytes: usize) -> bool {
        let Ok(kib) = u32::try_from(bytes.div_ceil(1 << 10)) else { return false };
        let Ok(more) = Arc::clone(&self.0).try_acquire_many_owned(kib) else { return false };
        match &mut share.0 {
            Some(held) => held.merge(more),
            None => share.0 = Some(more),
        }
        true
    }
}

/// A packet, or a value that comes in several.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// The bytes, without headers.
    pub(super) bytes: Vec<u8>,
    /// Their share of the budget.
    share: Share,
}

impl Received {
    /// Adds bytes; false if the budget does not have room for them. The first `free` bytes take
    /// none of it.
    pub(super) fn add(&mut self, bytes: &[u8], limit: usize, free: usize, budget: &Budget) -> bool {
        let (used, has) = (self.bytes.len(), self.bytes.capacity());
        let needed = used + bytes.len();
        if needed > has {
            let wanted = needed.max(2 * has).min(limit.max(needed));
            if wanted > free && !budget.take(&mut self.share, wanted - has) {
                return false;
            }
            self.bytes.reserve_exact(wanted - used);
        }
        self.bytes.extend_from_slice(bytes);
        true
    }
}

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the next byte of a packet that has begun.
    pub read: Duration,
    /// For the client to accept the next bytes of an answer.
    pub write: Duration,
}

/// A client's stream, plain or under TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The packets of a connection.
pub(super) struct Frames {
    stream: BufReader<Box<dyn Stream>>,
    output: Vec<u8>,
    /// Bytes of the output that were sent already.
    sent: usize,
    /// The number of the next frame in either direction.
    sequence: u8,
    budget: Budget,
    patience: Patience,
    /// Cipher and version of TLS by their names in MySQL; empty without TLS.
    pub(super) tls: [String; 2],
}

impl Frames {
    pub(super) fn new(stream: impl Stream + 'static, budget: Budget, patience: Patience) -> Self {
        Self {
            stream: BufReader::with_capacity(READ_AHEAD, Box::new(stream)),
            output: Vec::new(),
            sent: 0,
            sequence: 0,
            budget,
            patience,
            tls: Default::default(),
        }
    }

    /// Continues under TLS; the client may have started the handshake already.
    pub(super) async fn under(
        self,
        tls: TlsAcceptor,
        deadline: Instant,
    ) -> Result<Self, CommandError> {
        let accepted = timeout_at(deadline, tls.accept(self.stream)).await;
        let stream = accepted.map_err(io::Error::from).flatten();
        let stream = stream.map_err(|error| CommandError::Lost(format!("TLS: {error}")))?;
        let (_, connection) = stream.get_ref();
        let cipher = connection.negotiated_cipher_suite();
        let cipher = cipher.map(|it| format!("{:?}", it.suite()).replace("TLS13_", "TLS_"));
        let version = connection.protocol_version();
        let version = version.map(|it| format!("{it:?}").replace('_', "."));
        let tls = [cipher, version].map(Option::unwrap_or_default);
        Ok(Self { tls, sequence: self.sequence, ..Self::new(stream, self.budget, self.patience) })
    }

    /// Restarts the numbering: the next packet begins a command.
    pub(super) fn restart(&mut self) {
        self.sequence = 0;
    }

    /// Reads the next packet, of at most `limit` bytes, which has to begin within `wait`.
    pub(super) async fn read(
        &mut self,
        limit: usize,
        mut wait: Duration,
    ) -> Result<Received, CommandError> {
        let mut packet = Ok(Received::default());
        loop {
            let mut head = [0; HEAD];
            for byte in &mut head {
                *byte = self.ahead(wait).await?[0];
                self.stream.consume(1);
                wait = self.patience.read;
            }
            let [low, middle, high, sequence] = head;
            if sequence != self.sequence {
                let message = "Got packets out of order";
                return Err(CommandError::Fatal(error(1156, "08S01", message)));
            }
            self.sequence = self.sequence.wrapping_add(1);
            let length = u32::from_le_bytes([low, middle, high, 0]) as usize;
            let before = packet.as_ref().map_or(0, |packet| packet.bytes.len());
            if before + length > limit {
                packet = Err(SqlError::packet_too_large(format!(
                    "Got a packet bigger than 'max_allowed_packet' bytes ({limit}; mysql.packet_max)"
                )));
            }
            let mut left = length;
            while left > 0 {
                let budget = self.budget.clone();
                let piece = self.ahead(wait).await?;
                let piece = &piece[..piece.len().min(left)];
                if let Ok(whole) = &mut packet
                    && !whole.add(piece, limit, SMALL, &budget)
                {
                    packet = Err(SqlError::out_of_memory(
                        "the memory for large packets is used up (mysql.memory); ask again in a moment",
                    ));
                }
                let taken = piece.len();
                self.stream.consume(taken);
                left -= taken;
            }
            if length < FRAME_MAX {
                return Ok(packet?);
            }
        }
    }

    /// Waits for at least one byte from the client.
    async fn ahead(&mut self, wait: Duration) -> Result<&[u8], CommandError> {
        match timeout(wait, self.stream.fill_buf()).await {
            Err(_) => Err(CommandError::late("the client sent nothing for too long")),
            Ok(Ok([])) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(error.into()),
        }
    }

    /// Returns when the client has gone or leaves. A client that sent more commands still waits for
    /// answers, even if it closed its side.
    pub(super) async fn gone(&mut self) {
        if let Ok(ahead) = self.stream.fill_buf().await
            && !ahead.is_empty()
            && *ahead != QUIT
        {
            std::future::pending::<()>().await;
        }
    }

    /// Adds a packet to the output: `write` appends its body.
    pub(super) fn packet(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.output.len();
        self.output.extend_from_slice(&[0; HEAD]);
        write(&mut self.output);
        let length = self.output.len() - start - HEAD;
        if length < FRAME_MAX {
            self.put_head(start, length);
            return;
        }
        let body = self.output.split_off(start + HEAD);
        self.output.truncate(start);
        let whole = body.chunks(FRAME_MAX);
        let last_is_full = body.len().is_multiple_of(FRAME_MAX);
        for frame in whole.chain(last_is_full.then_some(&[] as &[u8])) {
            let at = self.output.len();
            self.output.extend_from_slice(&[0; HEAD]);
            self.output.extend_from_slice(frame);
            self.put_head(at, frame.len());
        }
    }

    fn put_head(&mut self, at: usize, length: usize) {
        let [low, middle, high, _] = (length as u32).to_le_bytes();
        self.output[at..at + HEAD].copy_from_slice(&[low, middle, high, self.sequence]);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Bytes that wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.output.len()
    }

    /// Sends the output. If dropped, the next call sends the rest.
    pub(super) async fn flush(&mut self) -> Result<(), CommandError> {
        let late = |_| CommandError::late("the client took nothing for too long");
        while self.sent < self.output.len() {
            let write = self.stream.write(&self.output[self.sent..]);
            match timeout(self.patience.write, write).await.map_err(late)?? {
                0 => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                bytes => self.sent += bytes,
            }
        }
        self.output.clear();
        self.sent = 0;
        if self.output.capacity() > OUTPUT_KEPT {
            self.output = Vec::new();
        }
        let flush = timeout(self.patience.write, self.stream.flush());
        Ok(flush.await.map_err(late)??)
    }

    /// Sends the output, then closes the sending side.
    pub(super) async fn close(&mut self) {
        if self.flush().await.is_ok() {
            // A client that does not wait for it loses nothing.
            drop(timeout(Duration::from_secs(1), self.stream.shutdown()).await);
        }
    }
}

#[cfg(test)]
mod tests;
