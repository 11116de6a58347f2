//! Imports old logs: their requests are counted in the minutes in which they ended, however long
//! ago.
//!
//! ```text
//!   a piece of a log --> records, by minute --> pool and reports of its own, minute by minute --> rows --(history thread)--> pieces
//! ```
//!
//! A piece is whole lines, at most [`LOG_PIECE_BYTES_MAX`], and is imported on a front end's
//! thread, one at a time. It counts as live requests would: the reports are defined like the
//! daemon's ([`counting`]), and raw requests are selected as in a flush period, minute by minute.
//! Rows, raw requests and the piece's identity are written in one commit: either all of a piece
//! counts or nothing.
//!
//! **Repeats.** Each piece has a row of coverage, under no report's name, that identifies it: a
//! digest of its first line, its length, a digest of all of it. It stands at the minute of the
//! first request that counted, so it is kept as long as the rows are; it is looked for in all
//! minutes of the lines, as it also depended on the clock which line that was. If a piece begins
//! with a known one, only that part is taken and not counted: so a log can be imported again, even
//! if it has grown, or if the last import was broken off.
//!
//! **Coverage.** A log covers the time from each line to the next, unless that is more than an
//! hour. Before the first and after the last it covers the mean gap between seconds with lines,
//! within their minutes: a log does not begin or end with a peak. So it does after a piece, of
//! which the answer says where it ends: the next one goes on from there. In a minute that was
//! covered before, by the daemon or another log, only the seconds missing to 60 are added.
//!
//! **Bounds.** [`BYTES`] for a piece, while it is taken.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};

use parking_lot::Mutex;

use self::counting::Counting;
use self::piece::{LINES_MAX, Piece};
use super::columns::Want;
use super::dataset::{COVERAGE, Coverage, digest};
use super::read_plan::ReadPlan;
use super::read_unit::{ReadUnit, RowsSnapshot};
use super::requests::Kept;
use super::resolution::hull;
use super::row::StoredRow;
use super::{Dataset, History, Resolution, UnflushedRows, Writer};
use crate::config::{Config, SquidSource};
use crate::input::record::TextLimits;
use crate::input::rewrite::{NameRules, RuleCounters};
use crate::input::squid::{Decoder, Source};
use crate::limits::LOG_PIECE_BYTES_MAX;
use crate::report::definition::Definition;
use crate::report::row_key::{key_of, key_texts};

mod counting;
mod piece;

/// Memory for importing a piece, for the memory plan: the piece, its records, their counts, its
/// rows, and those being written.
pub(crate) const BYTES: usize = 4 * LOG_PIECE_BYTES_MAX + counting::BYTES;

/// The content of one commit; the result goes to `done`.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) rows: Arc<UnflushedRows>,
    pub(super) requests: Vec<(f64, Kept)>,
    pub(super) done: SyncSender<Result<(), String>>,
}

/// Imports logs into history.
#[derive(Debug)]
pub struct Importer {
    config: Config,
    rule_counters: Arc<RuleCounters>,
    history: History,
    inbox: SyncSender<Import>,
    /// Requests imported in this run. Locked while a piece is imported.
    taken: Mutex<u64>,
}

/// The result of importing a piece.
#[derive(Debug)]
pub struct ImportResult {
    /// The imported part; the next piece starts after its bytes, and where its time ends.
    pub(crate) piece: Piece,
    /// Lines in it.
    pub(crate) lines: u64,
    /// Whether it was known, and therefore not counted again.
    pub(crate) is_known: bool,
    /// Counts of its lines, unless it was known.
    pub(crate) source: Arc<Source>,
}

/// The reason why a piece was not imported; nothing of it counts.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No entry says how to read its lines.
    #[error("there is no [[squid]] entry, whose reports would count them")]
    NoEntry,
    /// It could not be checked whether it is known.
    #[error("cannot tell whether these lines were imported before: {0}")]
    Unreadable(String),
    /// It cannot be written.
    #[error("{0}")]
    NotWritten(String),
    /// The daemon stops.
    #[error("the daemon stops")]
    Stopping,
}

/// The result of a step of an import.
type Imported<T = ()> = Result<T, ImportError>;

impl Importer {
    /// An importer into the history that `writer` writes.
    pub(crate) fn new(config: &Config, rule_counters: &Arc<RuleCounters>, writer: &Writer) -> Self {
        let (history, inbox) = writer.imports();
        let (config, rule_counters) = (config.clone(), Arc::clone(rule_counters));
        Self { config, rule_counters, history, inbox, taken: Mutex::new(0) }
    }

    /// Imports a piece: whole lines, from hosts of this name (by default that of the first entry).
    /// `covered_to` is that of the previous piece of the same log.
    ///
    /// # Errors
    /// See [`ImportError`].
    pub fn take(
        &self,
        reports: Vec<Arc<Definition>>,
        lines: &[u8],
        name: Option<String>,
        covered_to: Option<u64>,
    ) -> Imported<ImportResult> {
        let entry = self.config.squids.first().cloned().ok_or(ImportError::NoEntry)?;
        let source = Source::new(SquidSource { name: name.or(entry.name), ..entry });
        let mut taken = self.taken.lock();
        let result = |piece: Piece, is_known| ImportResult {
            lines: count_lines(&lines[..piece.bytes]),
            piece,
            is_known,
            source: Arc::clone(&source),
        };
        if let Some(bytes) = self.known(lines)? {
            return Ok(result(Piece::known(&lines[..bytes], covered_to), true));
        }
        let ingest = &self.config.ingest;
        let limits = TextLimits::new(ingest.text_bytes_max, ingest.script_name_bytes_max);
        let mut counting = Counting::new(self, &reports, *taken);
        let counters = Arc::clone(&self.rule_counters);
        let rules = NameRules::new(&self.config.rewrites, counting.hasher.clone(), counters);
        let hasher = counting.hasher.clone();
        let decoder = Decoder::new(Arc::clone(&source), limits, hasher, rules).of_the_past();
        let now = self.history.clock().unix_ms() / 1000;
        let kept = self.config.history.retention_day.max(self.config.history.retention_hour);
        let oldest = now.saturating_sub(kept.as_secs());
        let piece = Piece::decode(lines, decoder, reports.len(), (oldest, now), covered_to);
        *taken += piece.requests;
        if let Some(first) = piece.first {
            for (&minute, records) in &piece.minutes {
                counting.merge(minute, records);
            }
            self.cover(&counting, &piece, &reports)?;
            // The row that identifies the piece.
            let name = key_of([NO_REPORT, &named(&lines[..piece.bytes])]);
            counting.cover(&name, &BTreeMap::from([(Resolution::Minute.begin(first), 0)]));
            let (rows, requests) = counting.end();
            let (done, is_done) = mpsc::sync_channel(1);
            self.inbox.send(Import { rows, requests, done }).map_err(|_| ImportError::Stopping)?;
            is_done.recv().map_err(|_| ImportError::Stopping)?.map_err(ImportError::NotWritten)?;
        }
        Ok(result(piece, false))
    }

    /// Adds coverage of reports for the piece, where nothing covered the time before.
    fn cover(&self, counting: &Counting, piece: &Piece, reports: &[Arc<Definition>]) -> Imported {
        let minutes = &piece.covered;
        let mut covered = CoveredSecs::new();
        let times = minutes.keys().map(|&minute| minute..minute + Resolution::Minute.secs());
        self.each_coverage(times, &mut |resolution, row| {
            let Coverage { secs, .. } = Coverage::of(&row.totals);
            if secs > 0 {
                *covered.entry((row.key.to_vec(), resolution, row.time)).or_default() += secs;
            }
        })?;
        let error_status = self.config.reports.error_status;
        for report in reports {
            let key = Dataset::of(report, error_status).coverage_key();
            let mut added = BTreeMap::new();
            for (&minute, &secs) in minutes {
                let of = |by: Resolution| (key.clone(), by, by.begin(minute));
                let places = Resolution::ALL.map(of);
                let room = places.iter().map(|place| {
                    let has = covered.get(place).copied().unwrap_or_default();
                    place.1.secs().saturating_sub(has)
                });
                let secs = room.min().unwrap_or_default().min(secs);
                if secs > 0 {
                    // Where coarser rows have coverage, finer ones are gone.
                    for place in places {
                        covered.entry(place).and_modify(|has| *has += secs);
                    }
                    added.insert(minute, secs);
                }
            }
            counting.cover(&key, &added);
        }
        Ok(())
    }

    /// Passes the rows of coverage to `each`, of each day from the first of these times to the
    /// last: minutes, where these are kept. A line of a wrong year concerns its own day only.
    fn each_coverage(
        &self,
        times: impl Iterator<Item = Range<u64>>,
        each: &mut dyn FnMut(Resolution, &StoredRow<'_>),
    ) -> Imported {
        let mut days = BTreeMap::<u64, Range<u64>>::new();
        for span in times {
            let day = days.entry(Resolution::Day.begin(span.start)).or_insert_with(|| span.clone());
            *day = hull(day.clone(), span);
        }
        let at = RowsSnapshot::of(&self.history, &COVERAGE);
        for span in days.into_values() {
            if let Some(why) = self.history.lacks(&COVERAGE, &span) {
                return Err(ImportError::Unreadable(why));
            }
            let mut step = Resolution::Minute.secs();
            let plan = ReadPlan::of_steps(&at.parts, &COVERAGE, &span, &mut step);
            let (units, lacking) = ReadUnit::all(at.clone(), &COVERAGE, &plan, None);
            let read = units.iter().try_for_each(|unit| {
                unit.rows(&COVERAGE, Want::Sums, &mut |_, row| each(unit.resolution(), row))
            });
            lacking.into_iter().next().map_or(read, Err).map_err(ImportError::Unreadable)?;
        }
        Ok(())
    }

    /// Returns how many bytes of these lines were imported before.
    fn known(&self, lines: &[u8]) -> Imported<Option<usize>> {
        let ended = piece::ended(lines).into_iter().take(LINES_MAX).map(|secs| secs..secs + 1);
        let head = head(lines);
        let bytes_of = |row: &StoredRow<'_>| {
            let mut texts = key_texts(row.key);
            let (NO_REPORT, name) = (texts.next()?, texts.next()?) else { return None };
            let bytes: usize = name.strip_prefix(&head)?.split('-').nth(1)?.parse().ok()?;
            (named(lines.get(..bytes)?) == name).then_some(bytes)
        };
        let mut known = None;
        self.each_coverage(ended, &mut |_, row| known = known.max(bytes_of(row)))?;
        Ok(known)
    }
}

/// Covered seconds, by coverage key and minute, or hour or day where finer rows are gone.
type CoveredSecs = HashMap<(Vec<u8>, Resolution, u64), u64>;

/// The report of coverage rows that identify imports: no report has an empty name.
const NO_REPORT: &str = "";

/// The identity of a piece: digest of its first line, its length, digest of all of it.
fn named(lines: &[u8]) -> String {
    format!("{}-{}-{}", head(lines), lines.len(), digest(lines, 16))
}

fn head(lines: &[u8]) -> String {
    let end = lines.iter().position(|byte| *byte == b'\n');
    digest(&lines[..end.unwrap_or(lines.len())], 8)
}

/// The number of lines that are not blank, split at newlines and NUL as the reader does.
fn count_lines(lines: &[u8]) -> u64 {
    let lines = lines.split(|byte| matches!(byte, b'\n' | 0));
    lines.filter(|line| !line.trim_ascii().is_empty()).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_they_are_read() {
        assert_eq!(count_lines(b"a\0\0b\n\n c"), 3);
        assert_eq!(count_lines(b"\n"), 0);
    }
}
