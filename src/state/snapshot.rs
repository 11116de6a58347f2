//! The snapshot: raw rows, reports, counters and ids of one moment, in one file.
//!
//! ```text
//!   Head        where the ids go on, counters of the sockets and of the merger
//!   HistoryFrom where history goes on ..
//!   SquidSums   what Squid's lines tell and no request does ..
//!   Samples     samples of PHP's functions, a segment ..
//!   Aggregate   what its reports count   \
//!   Part        what its groups are ..    | for each shared aggregate
//!   Part        a piece of a tick log .. /
//!   Rows        raw requests with their timers and strings ..
//!   Activities  what those of Squid's spent their time on ..
//!   End         monotonic time and wall clock
//! ```
//!
//! Each [`Record`] is encoded separately (`records`). `write()` runs while the merger continues.
//! The moment of the snapshot is the [`Cut`]: taken under one hold of the lock, a few milliseconds
//! at most, it fixes the content of the running ticks and the id up to which rows are included. The
//! rest is copied piece by piece, each under the lock for about a millisecond, and written without
//! it: rows, closed tick logs and keys of groups do not change. Only the cut and one record are in
//! memory at a time.
//!
//! [`inspect`] reads a file to its end and checks that it is whole; `restore` fills an empty
//! [`Live`] from it. Neither trusts it: lengths are checked first, everything goes through the
//! budgets of the configuration, and anything impossible is an error, never a panic. Time between
//! two processes passes by the wall clock, and not at all if that was set back.

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
use crate::input::squid::sums::{self, SavedSums};
use crate::instruments::{Active, Instrument};
use crate::merger::{Live, SharedLive, reading};
use crate::pool::snapshot::{Damage, PoolIds, SavedRows};
use crate::profile::{Profile, SavedSegment};
use crate::report::definition::Definition;
use crate::report::{
    AggregateCut, DefinedBy, NotRestored, ReportsCut, ReportsRestore, SavedAggregate, SavedPart,
};
use crate::shutdown::Shutdown;
use crate::telemetry::Counters;

/// Latest time that a snapshot may contain, in milliseconds: in thirty thousand years.
const MOMENT_MAX: u64 = 1 << 50;

/// The kinds of records in a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub enum Record {
    /// The first record.
    Head(Head),
    /// Starts a shared aggregate.
    Aggregate(SavedAggregate),
    /// Some of its groups, or a piece of the log of one of its ticks.
    Part(SavedPart),
    /// Raw rows.
    Rows(SavedRows),
    /// The last record.
    End(End),
    /// Activities of the preceding rows, as in the pool; absent if none of these came from Squid.
    Activities(Vec<u8>),
    /// Sums of a source of Squid's lines: some of them.
    SquidSums(SavedSums),
    /// Samples of PHP's functions: a segment of them.
    Samples(SavedSegment),
    /// Where history goes on; absent if that is not known.
    HistoryFrom(HistoryFrom),
    /// `reports.error_status`; absent in older files.
    ErrorStatus(u32),
}

/// The rows of history that a snapshot lacks, because they were counted later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryFrom {
    /// Those from this unix second on. If it is not the first of a minute, the snapshot has what
    /// was counted before in that minute.
    Time(u64),
    /// Those in files from this number on: the snapshot has all that was in earlier ones.
    File(u64),
    /// The same at this unix second: files from that number on have nothing that was counted
    /// before, by whatever clock, and those below it nothing else.
    Cut {
        /// The second.
        secs: u64,
        /// The number.
        file: u64,
        /// A number for the history that has these files.
        store: u64,
    },
}

/// The first record of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub struct Head {
    ids: PoolIds,
    /// Keys of reports that overflowed so far.
    overflowed: u64,
    counters: SavedCounters,
}

/// The last record of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub struct End {
    mono_ms: u64,
    unix_ms: u64,
}

/// The content of one moment, as far as it changes later.
#[derive(Debug)]
pub struct Cut {
    reports: ReportsCut,
    ids: PoolIds,
    counters: SavedCounters,
    sums: Vec<SavedSums>,
    pub(super) history_from: Option<HistoryFrom>,
    requests: usize,
    next_id: u64,
    /// How long it took, under the lock.
    held: Duration,
}

impl Cut {
    /// Takes the cut, with these counters of these sockets. Nothing is merged, or counted as
    /// merged, while the caller holds the lock.
    pub(crate) fn of(
        live: &Live,
        (counters, sockets): (&Counters, &[SocketName]),
        history_from: Option<HistoryFrom>,
    ) -> Self {
        let start = Instant::now();
        let mut saved = SavedCounters::of(counters, sockets);
        Self {
            sums: saved.take_sums(&counters.squids),
            counters: saved,
            reports: live.reports.cut(),
            ids: live.pool.ids(),
            history_from,
            requests: live.pool.requests.len(),
            next_id: live.pool.requests.next_id(),
            held: start.elapsed(),
        }
    }
}

/// The sources of a snapshot, beside its [`Cut`].
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Rows and reports.
    pub live: &'a SharedLive,
    /// Samples, if there are any.
    pub profile: Option<&'a Profile>,
    /// The clock.
    pub clock: &'a dyn Clock,
    /// Requests to give up.
    pub stop: &'a Shutdown,
}

/// The result of `write()`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written {
    /// Raw requests in it.
    pub requests: u64,
    /// The longest hold of the lock.
    pub held: Duration,
    /// The hold of the lock for the cut.
    pub cut: Duration,
    /// The id of the next request at that time.
    pub next_id: u64,
}

/// The reason why a snapshot was not written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// Writing the file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A report was dropped, or all were cleared, during the write: it has to start again.
    #[error("reports were dropped or emptied while it was written")]
    Overtaken,
    /// It was stopped.
    #[error("the daemon stops")]
    Stopped,
}

/// Data about a snapshot.
#[derive(Debug)]
pub struct Contents {
    /// The counters.
    pub counters: SavedCounters,
    /// When it was finished, wall clock.
    pub unix_ms: u64,
    /// When it was finished, monotonic time of the process that wrote it.
    pub mono_ms: u64,
    /// Where history goes on, if that is known.
    pub history_from: Option<HistoryFrom>,
}

impl Contents {
    /// The monotonic time now, at `unix_ms` by the wall clock, as if the process that wrote it had
    /// continued. It stands still if the wall clock was set back.
    pub(crate) fn mono_now(&self, unix_ms: u64) -> u64 {
        let away = unix_ms.min(MOMENT_MAX).saturating_sub(self.unix_ms);
        self.mono_ms + away
    }
}

/// The result of `restore`.
#[derive(Debug, Default)]
pub struct Restored {
    /// Raw requests restored.
    pub requests: u64,
    /// Reports that were not restored unchanged.
    pub left_out: Vec<NotRestored>,
}

/// Writes rows, reports and counters to `state.dir`; counts requests.
pub(crate) static WRITE_SNAPSHOT: Instrument = Instrument::new("stage/state/write snapshot");

/// Writes a snapshot of the moment of `cut`.
///
/// # Errors
/// Errors of `to`, [`WriteError::Overtaken`] and [`WriteError::Stopped`]; the data written until
/// then is useless.
pub(crate) fn write<W: Write>(
    subject: Subject<'_>,
    cut: Cut,
    to: W,
) -> Result<(W, Written), WriteError> {
    let mut writer = Writer {
        records: RecordsWriter::new(to)?,
        live: subject.live,
        stop: subject.stop,
        written: Written {
            held: cut.held,
            cut: cut.held,
            next_id: cut.next_id,
            ..Written::default()
        },
        stage: WRITE_SNAPSHOT.begin(),
    };
    writer.stage.work(0, cut.requests as u64);
    let (ids, counters) = (cut.ids, cut.counters);
    writer.records.record(&Record::Head(Head {
        ids,
        overflowed: cut.reports.overflowed,
        counters,
    }))?;
    if let Some(from) = cut.history_from {
        writer.records.record(&Record::HistoryFrom(from))?;
    }
    writer.records.record(&Record::ErrorStatus(cut.reports.error_status))?;
    for saved in cut.sums {
        writer.records.record(&Record::SquidSums(saved))?;
    }
    for segment in subject.profile.iter().flat_map(|it| it.segments()) {
        let saved = SavedSegment::of(&segment);
        writer.records.record(&Record::Samples(saved))?;
    }
    let cut = &cut.reports;
    for aggregate in &cut.aggregates {
        let saved = aggregate.saved.clone();
        writer.records.record(&Record::Aggregate(saved))?;
        writer.groups_and_ticks(cut, aggregate)?;
    }
    writer.rows(cut, ids)?;
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
    /// Reads live data as long as it is still that of the cut.
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

    /// Reads live data, and measures the hold of the lock.
    fn hold<T>(&mut self, read: impl FnOnce(&Live) -> T) -> T {
        let live = reading(self.live);
        let start = Instant::now();
        let seen = read(&live);
        let held = start.elapsed();
        drop(live);
        self.written.held = self.written.held.max(held);
        seen
    }

    fn groups_and_ticks(
        &mut self,
        cut: &ReportsCut,
        aggregate: &AggregateCut,
    ) -> Result<(), WriteError> {
        let mut from = Some(0);
        let mut now_ms = 0;
        while let Some(group) = from {
            let saved = self.hold_current(cut, |live| {
                now_ms = live.reports.now_ms;
                live.reports.save_groups(aggregate, group, &live.pool)
            })?;
            let Some((groups, next)) = saved else { break };
            self.records.record(&Record::Part(groups))?;
            from = next;
        }
        aggregate.ticks(now_ms, |tick| self.records.record(&Record::Part(tick)))?;
        Ok(())
    }

    fn rows(&mut self, cut: &ReportsCut, ids: PoolIds) -> Result<(), WriteError> {
        let mut from = 1;
        while let Some((rows, activities)) = self.hold_current(cut, |live| {
            let now_ms = live.reports.now_ms;
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

/// Reads a snapshot to its end: checks that it is whole, and returns the data about it.
///
/// # Errors
/// Fails if it is not as `write()` wrote it, or cannot be read.
pub fn inspect(from: impl Read) -> Result<Contents, ReadError> {
    let mut reader = RecordsReader::new(from)?;
    let begins = reader.advance()?.then(|| reader.record()).transpose()?;
    let Some(Record::Head(head)) = begins else {
        return Err(reader.damaged(Damage("the head is not where it should be")));
    };
    let second = reader.advance()?.then(|| reader.record()).transpose()?;
    let history_from = match second {
        Some(Record::HistoryFrom(from)) => Some(from),
        _ => None,
    };
    while reader.advance()? {}
    match reader.record()? {
        Record::End(End { mono_ms, unix_ms }) if mono_ms.max(unix_ms) <= MOMENT_MAX => {
            Ok(Contents { counters: head.counters, unix_ms, mono_ms, history_from })
        }
        _ => Err(reader.damaged(Damage("it ends at a time that cannot be"))),
    }
}

/// Fills `live`, which is empty, from a snapshot, at monotonic time `now_ms` of the clock that its
/// [`Contents`] gave. `reports` are those that are to be there from the start; all of them are,
/// afterwards. `squids` get what their lines add up to, and `profile` the samples.
///
/// # Errors
/// Fails if it is not as [`write()`] wrote it, or cannot be read; then `live` is sound but useless.
pub(crate) fn restore(
    from: impl Read,
    live: &mut Live,
    reports: Vec<(Definition, DefinedBy)>,
    squids: &[Arc<Source>],
    profile: Option<&Profile>,
    now_ms: u64,
) -> Result<Restored, ReadError> {
    let mut reader = RecordsReader::new(from)?;
    let mut restoring = Restoring {
        live,
        reports: ReportsRestore::new(reports, now_ms),
        squids,
        profile,
        ids: None,
        requests: 0,
        now_ms,
    };
    while reader.advance()? {
        restoring.record(reader.record()?).map_err(|damage| reader.damaged(damage))?;
    }
    let Restoring { reports, ids, requests, .. } = restoring;
    let left_out = live.finish_restore(ids, reports, now_ms);
    Ok(Restored { requests, left_out })
}

/// A [`Live`] being filled, record by record.
struct Restoring<'a> {
    live: &'a mut Live,
    reports: ReportsRestore,
    squids: &'a [Arc<Source>],
    profile: Option<&'a Profile>,
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
                    source.sums.lock().restore(saved, sums::now(self.now_ms));
                }
            }
            Record::Samples(saved) => {
                self.profile.map_or(Ok(()), |it| it.restore(saved))?;
            }
            Record::ErrorStatus(status) => self.reports.compare_error_status(status, reports),
            // Inspected before.
            Record::HistoryFrom(_) | Record::End(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
