//! Frames: how packets travel. Four bytes of head (length, number), up to 16 MiB of body; a longer packet takes several.
//!
//! Called by the session, one per connection, on the wire's threads. Reading takes memory only as bytes arrive, never
//! because a head announced them, and large packets take theirs from a [`Budget`] that all connections share; a packet
//! that is over a limit is read to its end and thrown away, so that the client can be told. Writing goes to
//! a buffer that is sent when it has grown, and waits for a slow client only so long. Whatever is wrong with a frame
//! ends in a [`FrameError`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A frame of this many bytes is followed by another one of the same packet.
const FRAME_MAX: usize = (1 << 24) - 1;
/// The packet by which clients say that they leave.
const QUIT: [u8; 5] = [1, 0, 0, 0, 1];
/// Bytes of a frame's head.
const HEAD: usize = 4;
/// What is asked of the socket at once.
const READ_AHEAD: usize = 16 << 10;
/// What is kept of commands that a client sends before it has its answer.
const AHEAD_MAX: usize = 64 << 10;
/// A packet up to here is nobody's business; what is larger comes out of the budget.
const SMALL: usize = 64 << 10;
/// An output buffer that grew beyond this is given back.
const OUTPUT_KEPT: usize = 256 << 10;

/// What packets of all connections may take together, beyond the small ones.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    kib: Arc<Semaphore>,
}

/// A part of the budget, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Share(Option<OwnedSemaphorePermit>);

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        let kib = (bytes >> 10).min(Semaphore::MAX_PERMITS);
        Self {
            kib: Arc::new(Semaphore::new(kib)),
        }
    }

    /// Takes `bytes` more into `share`; false when so much is not left.
    pub(super) fn take(&self, share: &mut Share, bytes: usize) -> bool {
        let Ok(kib) = u32::try_from(bytes.div_ceil(1 << 10)) else {
            return false;
        };
        let Ok(more) = Arc::clone(&self.kib).try_acquire_many_owned(kib) else {
            return false;
        };
        match &mut share.0 {
            Some(held) => held.merge(more),
            None => share.0 = Some(more),
        }
        true
    }
}

/// One packet.
#[derive(Debug, Default)]
pub(super) struct Packet {
    /// Its bytes, without heads.
    pub(super) bytes: Vec<u8>,
    /// What it took of the budget.
    _share: Share,
}

/// Why there is no packet.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    /// The client has gone, properly or not.
    #[error("the client has gone: {0}")]
    Gone(#[from] io::Error),
    /// Nothing came, or nothing could be sent, for too long.
    #[error("{0}")]
    Late(&'static str),
    /// Frames do not count up.
    #[error("got packets out of order")]
    OutOfOrder,
    /// More than a packet may have. It was read to its end: the connection can go on.
    #[error("a packet of more than {0} bytes")]
    TooLarge(usize),
    /// The budget is used up. The packet was read to its end: the connection can go on.
    #[error("the memory for large packets is used up")]
    NoMemory,
}

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the next byte of a packet that has begun.
    pub(super) read: Duration,
    /// For the client to take the next bytes of an answer.
    pub(super) write: Duration,
}

/// A connection's packets.
#[derive(Debug)]
pub(super) struct Frames<S> {
    stream: S,
    /// What was read; before `taken` it has been used.
    input: Vec<u8>,
    taken: usize,
    output: Vec<u8>,
    /// The number of the next frame, whoever sends it.
    sequence: u8,
    budget: Budget,
    patience: Patience,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Frames<S> {
    pub(super) fn new(stream: S, budget: Budget, patience: Patience) -> Self {
        Self {
            stream,
            input: Vec::new(),
            taken: 0,
            output: Vec::new(),
            sequence: 0,
            budget,
            patience,
        }
    }

    /// The stream, and what was read of it already: for the change to TLS.
    pub(super) fn into_parts(self) -> (S, Vec<u8>) {
        let mut ahead = self.input;
        ahead.drain(..self.taken);
        (self.stream, ahead)
    }

    /// As [`Frames::new`], in the middle of a conversation.
    pub(super) fn resumed(stream: S, budget: Budget, patience: Patience, sequence: u8) -> Self {
        Self {
            sequence,
            ..Self::new(stream, budget, patience)
        }
    }

    pub(super) fn sequence(&self) -> u8 {
        self.sequence
    }

    /// The next packet begins a command.
    pub(super) fn restart(&mut self) {
        self.sequence = 0;
    }

    /// The next packet, of at most `limit` bytes, which has to begin within `wait`.
    pub(super) async fn read(
        &mut self,
        limit: usize,
        wait: Duration,
    ) -> Result<Packet, FrameError> {
        let mut wait = wait;
        let mut packet = Packet::default();
        let mut refused = None;
        loop {
            let head = self.head(wait).await?;
            wait = self.patience.read;
            if head[3] != self.sequence {
                return Err(FrameError::OutOfOrder);
            }
            self.sequence = self.sequence.wrapping_add(1);
            let length =
                usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            if packet.bytes.len() + length > limit {
                refused = Some(FrameError::TooLarge(limit));
            }
            let mut left = length;
            while left > 0 {
                if self.taken == self.input.len() {
                    self.fill(wait).await?;
                }
                let piece = left.min(self.input.len() - self.taken);
                if refused.is_none() && !self.make_room(&mut packet, piece, limit) {
                    refused = Some(FrameError::NoMemory);
                }
                if refused.is_some() {
                    packet = Packet::default();
                } else {
                    let from = self.taken;
                    packet
                        .bytes
                        .extend_from_slice(&self.input[from..from + piece]);
                }
                self.taken += piece;
                left -= piece;
            }
            if length < FRAME_MAX {
                return match refused {
                    None => Ok(packet),
                    Some(error) => Err(error),
                };
            }
        }
    }

    /// Room for `more` bytes in a packet; false when the budget does not give it.
    fn make_room(&self, packet: &mut Packet, more: usize, limit: usize) -> bool {
        let (used, has) = (packet.bytes.len(), packet.bytes.capacity());
        if used + more <= has {
            return true;
        }
        let wanted = (used + more).max(2 * has).min(limit.max(used + more));
        if wanted > SMALL && !self.budget.take(&mut packet._share, wanted - has) {
            return false;
        }
        packet.bytes.reserve_exact(wanted - used);
        true
    }

    async fn head(&mut self, wait: Duration) -> Result<[u8; HEAD], FrameError> {
        let mut wait = wait;
        while self.input.len() - self.taken < HEAD {
            self.fill(wait).await?;
            wait = self.patience.read;
        }
        let head = self.input[self.taken..self.taken + HEAD]
            .try_into()
            .expect("a slice of that length");
        self.taken += HEAD;
        Ok(head)
    }

    /// Reads what there is, at least a byte.
    async fn fill(&mut self, wait: Duration) -> Result<(), FrameError> {
        self.make_input_room();
        match timeout(wait, self.stream.read_buf(&mut self.input)).await {
            Err(_) => Err(FrameError::Late("the client sent nothing for too long")),
            Ok(Ok(0)) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
        }
    }

    fn make_input_room(&mut self) {
        if self.taken > 0 {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        if self.input.capacity() - self.input.len() < READ_AHEAD {
            self.input.reserve(READ_AHEAD);
        }
    }

    /// Returns when the client has gone and waits for nothing. What it sends meanwhile is kept, up to a limit; beyond that
    /// nobody looks.
    pub(super) async fn gone(&mut self) {
        loop {
            if self.input.len() - self.taken >= AHEAD_MAX {
                std::future::pending::<()>().await;
            }
            self.make_input_room();
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) if self.has_commands_ahead() => std::future::pending().await,
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    /// Whether a client that closed its side may still wait for answers: it has sent more than that it quits.
    fn has_commands_ahead(&self) -> bool {
        let ahead = &self.input[self.taken..];
        !ahead.is_empty() && ahead != QUIT
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

    /// Sends what waits.
    pub(super) async fn flush(&mut self) -> Result<(), FrameError> {
        let late = |_| FrameError::Late("the client took nothing for too long");
        let mut sent = 0;
        while sent < self.output.len() {
            let write = self.stream.write(&self.output[sent..]);
            match timeout(self.patience.write, write).await.map_err(late)? {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(bytes) => sent += bytes,
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        if self.output.capacity() > OUTPUT_KEPT {
            self.output = Vec::new();
        }
        timeout(self.patience.write, self.stream.flush())
            .await
            .map_err(late)??;
        Ok(())
    }

    /// Sends what waits, then says that there is no more.
    pub(super) async fn close(mut self) {
        if self.flush().await.is_ok() {
            // A client that does not wait for it loses nothing.
            drop(timeout(Duration::from_secs(1), self.stream.shutdown()).await);
        }
    }
}

#[cfg(test)]
mod tests;
