//! The snapshot: raw rows, reports, counters and ids as they stood at one moment, in one file.
//!
//! ```text
//!   HEAD      who wrote it, where the ids go on
//!   COUNTERS  of the sockets and of the merger
//!   FAMILY    what its reports count    ┐
//!   GROUPS    what its groups are ..    │ for each family
//!   JOURNAL   tick by tick ..           ┘
//!   ROWS      raw requests with their timers and names ..
//!   END       monotonic time and wall clock
//! ```
//!
//! [`write()`] runs while the merger goes on. The moment is the cut: taken under one hold of the read lock, a few
//! milliseconds at most, and it fixes what the running ticks have and the id up to which rows belong to it. The rest is
//! copied piece by piece, each under the lock for about a millisecond, and written out without it: rows, closed
//! journals and the names of groups do not change. One block is in memory at a time, and the cut.
//!
//! [`inspect`] reads a file through once and sees that it is whole; [`restore`] fills an empty [`Live`] from it. Neither trusts
//! it: lengths are looked at first, everything goes through the budgets of the configuration, and what cannot be is an
//! error, never a panic. Time passes by the wall clock between two processes, and not at all when that was set back.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::blocks::{BlockError, BlockReader, BlockWriter, Kind};
use super::counters::{self, SavedCounters, SocketName};
use crate::clock::Clock;
use crate::merger::{Live, SharedLive};
use crate::packed::{Damage, Packer, Unpacker};
use crate::pool::saved::{PoolIds, RowsCopy};
use crate::report::definition::Definition;
use crate::report::{DefinedBy, NotRestored, ReportsCut, ReportsRestore};
use crate::shutdown::Shutdown;
use crate::telemetry::Counters;

/// Latest moment that a snapshot may name, milliseconds: in thirty thousand years.
const MOMENT_MAX: u64 = 1 << 50;

/// What is written.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Rows and reports.
    pub live: &'a SharedLive,
    /// Counters.
    pub counters: &'a Counters,
    /// The sockets that they are of.
    pub sockets: &'a [SocketName],
    /// Time.
    pub clock: &'a dyn Clock,
    /// Whether to give up.
    pub stop: &'a Shutdown,
}

/// What [`write()`] did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written {
    /// Bytes in the file.
    pub bytes: u64,
    /// Raw requests in it.
    pub requests: u64,
    /// The longest hold of the lock.
    pub held: Duration,
    /// The cut's own hold.
    pub cut: Duration,
}

/// Why a snapshot was not written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A report was dropped, or all were emptied, while it was written: it has to begin anew.
    #[error("reports were dropped or emptied meanwhile")]
    Overtaken,
    /// It was to give up.
    #[error("the daemon stops")]
    Stopped,
}

/// Why a snapshot was not read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// A block.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// What is in one.
    #[error("block {block} is damaged: {damage}")]
    Damaged {
        /// Counted from 1.
        block: u64,
        /// What is wrong.
        damage: Damage,
    },
}

/// What a snapshot says of itself.
#[derive(Debug)]
pub struct Contents {
    /// The counters.
    pub counters: SavedCounters,
    /// When it was finished, wall clock.
    pub unix_ms: u64,
    /// When it was finished, monotonic time of the process that wrote it.
    pub mono_ms: u64,
}

impl Contents {
    /// What the monotonic time is now, `unix_ms` by the wall clock: the process that wrote it goes on, so to speak. A
    /// wall clock that was set back stands still.
    #[must_use]
    pub fn mono_now(&self, unix_ms: u64) -> u64 {
        let away = unix_ms.min(MOMENT_MAX).saturating_sub(self.unix_ms);
        self.mono_ms + away
    }
}

/// What [`restore`] did.
#[derive(Debug, Default)]
pub struct Restored {
    /// Raw requests that came back.
    pub requests: u64,
    /// Reports that did not come back as they were.
    pub left_out: Vec<NotRestored>,
}

/// Writes a snapshot.
///
/// # Errors
/// Those of `to`, [`WriteError::Overtaken`] and [`WriteError::Stopped`]; what was written until then is of no use.
pub fn write<W: Write>(subject: Subject<'_>, to: W) -> Result<(W, Written), WriteError> {
    let mut writer = Writer {
        blocks: BlockWriter::new(to)?,
        live: subject.live,
        stop: subject.stop,
        written: Written::default(),
    };
    let mut counted = Packer::new();
    let (cut, ids, folded) = writer.hold(|live| {
        // Of this moment too: nothing is merged, and counted as merged, while this is held.
        counters::pack(subject.counters, subject.sockets, &mut counted);
        let (_, _, folded) = live.reports.memory();
        (live.reports.cut(), live.pool.ids(), folded)
    });
    writer.written.cut = writer.written.held;
    let mut packer = Packer::new();
    packer.text(env!("CARGO_PKG_VERSION").as_bytes());
    ids.pack(&mut packer);
    packer.number(folded);
    writer.blocks.block(Kind::Head, packer.bytes())?;
    writer.blocks.block(Kind::Counters, counted.bytes())?;
    for family in 0..cut.len() {
        writer.family(&cut, family)?;
    }
    writer.rows(&cut, ids)?;
    packer.clear();
    packer.number(subject.clock.mono_ms());
    packer.number(subject.clock.unix_ms());
    packer.number(writer.blocks.blocks());
    writer.blocks.block(Kind::End, packer.bytes())?;
    let Writer {
        blocks,
        mut written,
        ..
    } = writer;
    let (to, bytes) = blocks.finish()?;
    written.bytes = bytes;
    Ok((to, written))
}

struct Writer<'a, W> {
    blocks: BlockWriter<W>,
    live: &'a SharedLive,
    stop: &'a Shutdown,
    written: Written,
}

impl<W: Write> Writer<'_, W> {
    /// Looks at what is live for as long as that is what the cut saw.
    fn hold_current<T>(
        &mut self,
        cut: &ReportsCut,
        look: impl FnOnce(&Live) -> T,
    ) -> Result<T, WriteError> {
        if self.stop.requested() {
            return Err(WriteError::Stopped);
        }
        let seen = self.hold(|live| live.reports.is_current(cut).then(|| look(live)));
        seen.ok_or(WriteError::Overtaken)
    }

    /// Looks at what is live, and at how long that takes.
    fn hold<T>(&mut self, look: impl FnOnce(&Live) -> T) -> T {
        let live = self.live.read();
        let start = Instant::now();
        let seen = look(&live);
        let held = start.elapsed();
        drop(live);
        self.written.held = self.written.held.max(held);
        seen
    }

    fn family(&mut self, cut: &ReportsCut, at: usize) -> Result<(), WriteError> {
        self.blocks.block(Kind::Family, cut.head(at).bytes())?;
        let mut packer = Packer::new();
        let mut from = Some(0);
        let mut now_ms = 0;
        while let Some(group) = from {
            packer.clear();
            from = self.hold_current(cut, |live| {
                now_ms = live.reports.now_ms();
                let (reports, pool) = (&live.reports, &live.pool);
                reports.copy_groups(cut, at, group, pool, &mut packer)
            })?;
            if !packer.is_empty() {
                self.blocks.block(Kind::Groups, packer.bytes())?;
            }
        }
        cut.journals(at, now_ms, |part| {
            self.blocks.block(Kind::Journal, part.bytes())
        })?;
        Ok(())
    }

    fn rows(&mut self, cut: &ReportsCut, ids: PoolIds) -> Result<(), WriteError> {
        let mut copy = RowsCopy::new();
        let mut from = 1;
        loop {
            let next = self.hold_current(cut, |live| {
                let now_ms = live.reports.now_ms();
                let (pool, until) = (&live.pool, ids.next_request);
                pool.copy_rows(from, until, now_ms, &mut copy)
            })?;
            let Some(next) = next else {
                return Ok(());
            };
            self.blocks.block(Kind::Rows, copy.bytes())?;
            self.written.requests += copy.rows();
            from = next;
        }
    }
}

/// Reads a snapshot through: whether it is whole, and what it says of itself.
///
/// # Errors
/// When it is not what [`write()`] wrote, or cannot be read.
pub fn inspect(from: impl Read) -> Result<Contents, ReadError> {
    let mut reader = BlockReader::new(from)?;
    let mut counters = SavedCounters::default();
    loop {
        let before = reader.blocks();
        let kind = reader.advance()?;
        let damaged = |damage| ReadError::Damaged {
            block: before + 1,
            damage,
        };
        if (kind == Kind::Head) != (before == 0) {
            return Err(damaged(Damage("the head is not where it should be")));
        }
        match kind {
            Kind::Counters => {
                let mut from = Unpacker::new(reader.unpack()?);
                counters = SavedCounters::unpack(&mut from).map_err(damaged)?;
            }
            Kind::End => {
                let mut from = Unpacker::new(reader.unpack()?);
                let (mono_ms, unix_ms) = unpack_end(&mut from, before).map_err(damaged)?;
                return Ok(Contents {
                    counters,
                    unix_ms,
                    mono_ms,
                });
            }
            Kind::Head | Kind::Family | Kind::Groups | Kind::Journal | Kind::Rows => {}
        }
    }
}

fn unpack_end(from: &mut Unpacker<'_>, blocks: u64) -> Result<(u64, u64), Damage> {
    let mono_ms = from.at_most(MOMENT_MAX, "it is of a time that cannot be")?;
    let unix_ms = from.at_most(MOMENT_MAX, "it is of a time that cannot be")?;
    if from.number()? != blocks {
        return Err(Damage("blocks are missing"));
    }
    from.finish()?;
    Ok((mono_ms, unix_ms))
}

/// Fills `live`, which is empty, from a snapshot, at monotonic time `now_ms` of the clock that its [`Contents`] gave. `reports`
/// are those that are to be there from the start; all of them are, afterwards.
///
/// # Errors
/// When it is not what [`write()`] wrote, or cannot be read; then `live` is sound but of no use.
pub fn restore(
    from: impl Read,
    live: &mut Live,
    reports: Vec<(Definition, DefinedBy)>,
    now_ms: u64,
) -> Result<Restored, ReadError> {
    let mut reader = BlockReader::new(from)?;
    let mut restoring = Restoring::new(live, reports, now_ms);
    loop {
        let block = reader.blocks() + 1;
        let (kind, bytes) = reader.read()?;
        if kind == Kind::End {
            return Ok(restoring.finish());
        }
        restoring
            .block(kind, bytes)
            .map_err(|damage| ReadError::Damaged { block, damage })?;
    }
}

/// A [`Live`] that is being filled, block by block.
#[derive(Debug)]
pub struct Restoring<'a> {
    live: &'a mut Live,
    reports: ReportsRestore,
    ids: Option<PoolIds>,
    requests: u64,
    now_ms: u64,
}

impl<'a> Restoring<'a> {
    /// Begins with an empty one; see [`restore`].
    #[must_use]
    pub fn new(live: &'a mut Live, reports: Vec<(Definition, DefinedBy)>, now_ms: u64) -> Self {
        Self {
            live,
            reports: ReportsRestore::new(reports, now_ms),
            ids: None,
            requests: 0,
            now_ms,
        }
    }

    /// Takes a block in, whatever its bytes are.
    ///
    /// # Errors
    /// When it cannot be what was written.
    pub fn block(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), Damage> {
        let mut from = Unpacker::new(bytes);
        let (reports, pool) = (&mut self.live.reports, &mut self.live.pool);
        match kind {
            Kind::Head => {
                let (ids, folded) = unpack_head(&mut from)?;
                if self.ids.replace(ids).is_some() {
                    return Err(Damage("it has two heads"));
                }
                reports.restore_folded(folded);
            }
            Kind::Family => self.reports.family(&mut from, reports, pool)?,
            Kind::Groups => self.reports.groups(&mut from, reports, pool)?,
            Kind::Journal => self.reports.journal(&mut from, reports, pool)?,
            Kind::Rows => self.requests += self.live.restore_rows(&mut from, self.now_ms)?,
            // Looked at before.
            Kind::Counters | Kind::End => {}
        }
        Ok(())
    }

    /// Ends it: all reports are there, those that did not come back are filled from the raw rows, and ids go on.
    #[must_use]
    pub fn finish(self) -> Restored {
        let left_out = self.live.restored(self.ids, self.reports, self.now_ms);
        Restored {
            requests: self.requests,
            left_out,
        }
    }
}

fn unpack_head(from: &mut Unpacker<'_>) -> Result<(PoolIds, u64), Damage> {
    from.name()?;
    let ids = PoolIds::unpack(from)?;
    let folded = from.at_most(1 << 62, "a counter is too large")?;
    from.finish()?;
    Ok((ids, folded))
}

#[cfg(test)]
mod tests;
