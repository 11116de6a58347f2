//! The snapshot: raw rows, reports, counters and ids as they stood at one moment, in one file.
//!
//! ```text
//!   Head        where the ids go on, counters of the sockets and of the merger
//!   SquidSums   what Squid's lines tell and no request does ..
//!   Aggregate   what its reports count   \
//!   Part        what its groups are ..    | for each shared aggregate
//!   Part        a piece of a tick log .. /
//!   Rows        raw requests with their timers and strings ..
//!   Activities  what those of Squid's spent their time on ..
//!   End         monotonic time and wall clock
//! ```
//!
//! Each [`Record`] is encoded by itself (`records`). [`write()`] runs while the merger goes on. The moment is
//! the cut: taken under one hold of the read lock, a few milliseconds at most, and it fixes what the running ticks have
//! and the id up to which rows belong to it. The rest is copied piece by piece, each under the lock for about a
//! millisecond, and written out without it: rows, closed tick logs and keys of groups do not change. One record is in
//! memory at a time, and the cut.
//!
//! [`inspect`] reads a file through once and sees that it is whole; [`restore`] fills an empty [`Live`] from it. Neither
//! trusts it: lengths are checked first, everything goes through the budgets of the configuration, and what cannot be is
//! an error, never a panic. Time passes by the wall clock between two processes, and not at all when that was set back.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::counters::{SavedCounters, SocketName};
pub use super::records::ReadError;
use super::records::{RecordsReader, RecordsWriter};
use crate::clock::Clock;
use crate::input::squid::Source;
use crate::input::squid::sums::SavedSums;
use crate::instruments::{Active, Instrument};
use crate::merger::{Live, SharedLive, reading};
use crate::pool::snapshot::{Damage, PoolIds, SavedRows};
use crate::report::definition::Definition;
use crate::report::{
    DefinedBy, NotRestored, ReportsCut, ReportsRestore, SavedAggregate, SavedPart,
};
use crate::shutdown::Shutdown;
use crate::telemetry::Counters;

/// Latest moment that a snapshot may name, milliseconds: in thirty thousand years.
const MOMENT_MAX: u64 = 1 << 50;

/// What a snapshot is made of.
#[derive(Debug, Serialize, Deserialize)]
pub enum Record {
    /// The first.
    Head(Head),
    /// A shared aggregate begins.
    Aggregate(SavedAggregate),
    /// Some of its groups, or a piece of the log of one of its ticks.
    Part(SavedPart),
    /// Raw rows.
    Rows(SavedRows),
    /// The last.
    End(End),
    /// Activities of the rows before, as the pool has them; where none of those came from Squid there is none.
    Activities(Vec<u8>),
    /// Sums of a source of Squid's lines: some of them.
    SquidSums(SavedSums),
}

/// What a snapshot begins with.
#[derive(Debug, Serialize, Deserialize)]
pub struct Head {
    ids: PoolIds,
    /// Keys of reports that overflowed so far.
    overflowed: u64,
    counters: SavedCounters,
}

/// What a snapshot ends with.
#[derive(Debug, Serialize, Deserialize)]
pub struct End {
    mono_ms: u64,
    unix_ms: u64,
}

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
    /// Raw requests in it.
    pub requests: u64,
    /// The longest hold of the lock.
    pub held: Duration,
    /// The cut's own hold.
    pub cut: Duration,
    /// The id that the next request had.
    pub next_id: u64,
}

/// Why a snapshot was not written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A report was dropped, or all were emptied, while it was written: it has to begin anew.
    #[error("reports were dropped or emptied while it was written")]
    Overtaken,
    /// It was to give up.
    #[error("the daemon stops")]
    Stopped,
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

/// Rows, reports and counters go to `state.dir`: in requests.
pub(crate) static WRITE_SNAPSHOT: Instrument = Instrument::new("stage/state/write snapshot");

/// Writes a snapshot.
///
/// # Errors
/// Those of `to`, [`WriteError::Overtaken`] and [`WriteError::Stopped`]; what was written until then is of no use.
pub fn write<W: Write>(subject: Subject<'_>, to: W) -> Result<(W, Written), WriteError> {
    // First: what comes after the cut is read again by the next process, where it is from a file.
    let squids = subject.counters.squids.iter();
    let sums = squids.flat_map(|it| it.sums.lock().save(&it.config.from.to_string()));
    let sums: Vec<_> = sums.collect();
    let mut writer = Writer {
        records: RecordsWriter::new(to)?,
        live: subject.live,
        stop: subject.stop,
        written: Written::default(),
        stage: WRITE_SNAPSHOT.begin(),
    };
    let (cut, ids, counters, requests) = writer.hold(|live| {
        // Of this moment too: nothing is merged, and counted as merged, while this is held.
        let counters = SavedCounters::of(subject.counters, subject.sockets);
        let requests = (live.pool.requests.len(), live.pool.requests.next_id());
        (live.reports.cut(), live.pool.ids(), counters, requests)
    });
    let (requests, next_id) = requests;
    writer.written.next_id = next_id;
    writer.stage.work(0, requests as u64);
    writer.written.cut = writer.written.held;
    writer.records.record(&Record::Head(Head {
        ids,
        overflowed: cut.overflowed,
        counters,
    }))?;
    for saved in sums {
        writer.records.record(&Record::SquidSums(saved))?;
    }
    for (at, aggregate) in cut.aggregates().enumerate() {
        writer
            .records
            .record(&Record::Aggregate(aggregate.clone()))?;
        writer.groups_and_ticks(&cut, at)?;
    }
    writer.rows(&cut, ids)?;
    writer.records.record(&Record::End(End {
        mono_ms: subject.clock.mono_ms(),
        unix_ms: subject.clock.unix_ms(),
    }))?;
    Ok((writer.records.finish()?, writer.written))
}

struct Writer<'a, W: Write> {
    records: RecordsWriter<W>,
    live: &'a SharedLive,
    stop: &'a Shutdown,
    written: Written,
    stage: Active,
}

impl<W: Write> Writer<'_, W> {
    /// Reads live data for as long as that is what the cut saw.
    fn hold_current<T>(
        &mut self,
        cut: &ReportsCut,
        read: impl FnOnce(&Live) -> T,
    ) -> Result<T, WriteError> {
        if self.stop.requested() {
            return Err(WriteError::Stopped);
        }
        let seen = self.hold(|live| live.reports.is_current(cut).then(|| read(live)));
        seen.ok_or(WriteError::Overtaken)
    }

    /// Reads live data, and measures how long that holds the lock.
    fn hold<T>(&mut self, read: impl FnOnce(&Live) -> T) -> T {
        let live = reading(self.live);
        let start = Instant::now();
        let seen = read(&live);
        let held = start.elapsed();
        drop(live);
        self.written.held = self.written.held.max(held);
        seen
    }

    fn groups_and_ticks(&mut self, cut: &ReportsCut, at: usize) -> Result<(), WriteError> {
        let mut from = Some(0);
        let mut now_ms = 0;
        while let Some(group) = from {
            let saved = self.hold_current(cut, |live| {
                now_ms = live.reports.now_ms();
                live.reports.save_groups(cut, at, group, &live.pool)
            })?;
            let Some((groups, next)) = saved else { break };
            self.records.record(&Record::Part(groups))?;
            from = next;
        }
        cut.ticks(at, now_ms, |tick| self.records.record(&Record::Part(tick)))?;
        Ok(())
    }

    fn rows(&mut self, cut: &ReportsCut, ids: PoolIds) -> Result<(), WriteError> {
        let mut from = 1;
        while let Some((rows, activities)) = self.hold_current(cut, |live| {
            let now_ms = live.reports.now_ms();
            let rows = live.pool.copy_rows(from, ids.next_request, now_ms)?;
            let activities = live.pool.activities.save(&rows.ids());
            Some((rows, activities))
        })? {
            from = rows.next();
            self.written.requests += rows.requests();
            self.stage.advance(rows.requests());
            self.records.record(&Record::Rows(rows))?;
            if !activities.is_empty() {
                self.records.record(&Record::Activities(activities))?;
            }
        }
        Ok(())
    }
}

/// Reads a snapshot through: whether it is whole, and what it says of itself.
///
/// # Errors
/// When it is not what [`write()`] wrote, or cannot be read.
pub fn inspect(from: impl Read) -> Result<Contents, ReadError> {
    let mut reader = RecordsReader::new(from)?;
    let begins = reader.advance()?.then(|| reader.record()).transpose()?;
    let Some(Record::Head(head)) = begins else {
        return Err(reader.damaged(Damage("the head is not where it should be")));
    };
    while reader.advance()? {}
    match reader.record()? {
        Record::End(End { mono_ms, unix_ms }) if mono_ms.max(unix_ms) <= MOMENT_MAX => {
            Ok(Contents {
                counters: head.counters,
                unix_ms,
                mono_ms,
            })
        }
        _ => Err(reader.damaged(Damage("it ends at a time that cannot be"))),
    }
}

/// Fills `live`, which is empty, from a snapshot, at monotonic time `now_ms` of the clock that its [`Contents`] gave. `reports`
/// are those that are to be there from the start; all of them are, afterwards. `squids` get what their
/// lines add up to.
///
/// # Errors
/// When it is not what [`write()`] wrote, or cannot be read; then `live` is sound but of no use.
pub fn restore(
    from: impl Read,
    live: &mut Live,
    reports: Vec<(Definition, DefinedBy)>,
    squids: &[Arc<Source>],
    now_ms: u64,
) -> Result<Restored, ReadError> {
    let mut reader = RecordsReader::new(from)?;
    let mut restoring = Restoring {
        live,
        reports: ReportsRestore::new(reports, now_ms),
        squids,
        ids: None,
        requests: 0,
        now_ms,
    };
    while reader.advance()? {
        restoring
            .record(reader.record()?)
            .map_err(|damage| reader.damaged(damage))?;
    }
    let Restoring {
        reports,
        ids,
        requests,
        ..
    } = restoring;
    let left_out = live.finish_restore(ids, reports, now_ms);
    Ok(Restored { requests, left_out })
}

/// A [`Live`] that is being filled, record by record.
struct Restoring<'a> {
    live: &'a mut Live,
    reports: ReportsRestore,
    squids: &'a [Arc<Source>],
    ids: Option<PoolIds>,
    requests: u64,
    now_ms: u64,
}

impl Restoring<'_> {
    fn record(&mut self, record: Record) -> Result<(), Damage> {
        let (reports, pool) = (&mut self.live.reports, &mut self.live.pool);
        match record {
            Record::Head(head) => {
                self.ids = Some(head.ids.checked()?);
                reports.restore_overflowed(head.overflowed.min(1 << 62));
            }
            Record::Aggregate(aggregate) => self.reports.aggregate(aggregate, reports, pool)?,
            Record::Part(part) => self.reports.part(part, reports, pool)?,
            Record::Rows(rows) => self.requests += self.live.restore_rows(&rows, self.now_ms)?,
            Record::Activities(saved) => pool.restore_activities(&saved)?,
            Record::SquidSums(saved) => {
                let mut squids = self.squids.iter();
                if let Some(source) = squids.find(|it| it.config.from.to_string() == saved.from) {
                    source.sums.lock().restore(saved);
                }
            }
            // Inspected before.
            Record::End(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
