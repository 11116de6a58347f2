//! Replaces the lost counts of a killed process by rows of history, until they have left the
//! window.
//!
//! Read at the start, before anything is merged, for the missing spans
//! ([`LastEnd`](crate::state::last_end::LastEnd)): the files on disk then come from earlier
//! processes, so nothing counts twice. If history cannot be read then, it is read as soon as it can
//! be, before anything is written; and once more when the rows restored from its log are in files.
//! A report is read as always, and the rows of the minutes inside its window are added by key.
//! Minutes leave as a whole. Raw requests are not restored, so anything derived from them is not
//! covered.
//!
//! Bounded by [`BYTES_MAX`]: past that the lightest keys are in `(other)`, as in history itself.

use std::collections::{BTreeSet, HashMap, hash_map};
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::Catalog;
use crate::clock::rfc3339;
use crate::history::parquet::Want as Columns;
use crate::history::{
    COVERAGE, Coverage, Dataset, Earlier, Gain, History, Part, Resolution, Row, UnflushedRows,
};
use crate::merger::answering;
use crate::pool::strings::OTHER_TEXT;
use crate::report::definition::Definition;
use crate::report::encoded_gain::Sum;
use crate::report::histogram::Histogram;
use crate::report::read::reading::{Reading, Want};
use crate::report::row_key::{key_of, key_texts, push_key};
use crate::report::totals::{Extremes, Totals};
use crate::report::{Entry, read};
use crate::state::last_end::Lost;

/// Memory of the rows.
pub(crate) const BYTES_MAX: usize = 16 << 20;

/// Why nothing is added of a minute within which a reset came, a snapshot ended that notes no file,
/// or a process began whose files are not known.
const ONE_SUM: &str =
    "history has one sum of that minute, which may include other counts, so it is not added";

/// Rows of history that are in no live report.
#[derive(Debug)]
pub struct Refill {
    rows: UnflushedRows,
    error_status: u32,
    /// The longest window of a report, in seconds.
    window_secs: u64,
    /// The missing spans.
    lost: Vec<Lost>,
    /// Whether history could be read, or there is none.
    is_read: bool,
    /// From the first minute to the end of the last; empty if there is no row.
    filled: Range<u64>,
    /// A remark on what no row replaces although history has it, or had it before.
    lacking: Option<String>,
}

impl Refill {
    /// Reads the rows of these spans, as far as the windows of the reports reach; `None` if nothing
    /// is missing, or ever was in history.
    pub fn read<'a>(
        history: Option<&History>,
        reports: impl Iterator<Item = &'a Definition>,
        error_status: u32,
        lost: &[Lost],
    ) -> Option<Self> {
        let end = lost.iter().map(|lost| lost.end).max()?;
        let earlier = history.and_then(History::earlier);
        let is_read = earlier.is_some() || history.is_none();
        // And whether rows were found.
        let mut spans: Vec<(Lost, bool)> = lost.iter().map(|&lost| (lost, false)).collect();
        let mut rows = UnflushedRows::default();
        let mut longest = 0;
        for report in reports {
            let window = report.window.as_secs();
            longest = longest.max(window);
            let dataset = Arc::new(Dataset::of(report, error_status));
            let own = dataset.coverage_key();
            for (lost, is_found) in &mut spans {
                let Some(earlier) = &earlier else { break };
                let begin = Resolution::Minute.begin(lost.end.saturating_sub(window));
                let lost = (*lost, begin);
                *is_found |= copy(earlier, &dataset, lost, &mut rows, |_| true);
                *is_found |= copy(earlier, &COVERAGE, lost, &mut rows, |key| *key == *own);
            }
            if rows.bytes() > BYTES_MAX {
                rows.shrink(BYTES_MAX);
            }
        }
        spans.retain(|(lost, is_found)| {
            let has_others = || earlier.as_ref().is_some_and(|it| has_any(it, lost, longest));
            *is_found || !is_read || lost.store != 0 || has_others()
        });
        let mut lacking: Vec<(Range<u64>, &'static str)> = Vec::new();
        let mut lack = |span: Range<u64>, why: &'static str| {
            let touches = |(known, of): &&mut (Range<u64>, &'static str)| {
                *of == why && known.start <= span.end && span.start <= known.end
            };
            match lacking.iter_mut().find(touches) {
                _ if span.is_empty() => {}
                Some((known, _)) => *known = known.start.min(span.start)..known.end.max(span.end),
                None => lacking.push((span, why)),
            }
        };
        for (lost, is_found) in &mut spans {
            let (begin, store) = (lost.end.saturating_sub(longest), lost.store);
            let mut rest = Lost { start: lost.start.max(begin), ..*lost };
            if let Some(earlier) = earlier.as_ref().filter(|it| is_by_time(lost, it)) {
                let next = lost.start.next_multiple_of(Resolution::Minute.secs());
                let first = rest.start..next.min(lost.end);
                rest.start = rest.start.max(next);
                // No file has its rows alone: nor does its last minute come back.
                let last = match lost.below {
                    0 => rest.start.max(Resolution::Minute.begin(lost.end))..lost.end,
                    _ => 0..0,
                };
                for minute in [first, last] {
                    if !minute.is_empty() && has_written(earlier, &minute) {
                        lack(minute, ONE_SUM);
                        // For the next process, which has to say it too.
                        lost.store = earlier.store;
                    }
                }
            }
            if *is_found {
                let behind = earlier.as_ref().and_then(|it| set_back(it, lost, begin));
                lack(behind.unwrap_or_default(), "the clock was behind then");
                continue;
            }
            let why = match store {
                _ if !is_read => "history cannot be read yet",
                Lost::NO_STORE => {
                    "the clock was ahead before, so history cannot tell what came later"
                }
                0 if earlier.as_ref().is_some_and(|it| has_any(it, &rest, longest)) => {
                    "history has other reports of that time, and none of these"
                }
                0 => continue,
                _ => "history, which had it, does not have it now",
            };
            lack(rest.start..rest.end, why);
        }
        let remark = |(Range { start, end }, why): &(Range<u64>, &str)| {
            let (start, end) = (rfc3339(*start), rfc3339(*end));
            format!("live reports lack what was counted from {start} to {end}: {why}")
        };
        let lacking = lacking.iter().map(remark).collect::<Vec<_>>().join("; ");
        for (lost, is_found) in &mut spans {
            let Some(earlier) = &earlier else { break };
            if *is_found {
                lost.store = earlier.store;
            }
            // Whether or not rows were found: what comes from now on is not of this span.
            if earlier.unflushed.is_none() && (lost.store == 0 || lost.store == earlier.store) {
                lost.below = lost.below.min(earlier.next);
            }
        }
        if let Some(history) = history {
            // A clock that jumped has written them elsewhere.
            let filled = rows.span();
            let spans = spans.iter().map(|(lost, _)| {
                let (start, end) = (lost.start.min(filled.start), lost.end.max(filled.end));
                (start..end, lost.end + longest)
            });
            history.keep_minutes_of(spans.collect());
        }
        let filled = rows.span();
        // The last row covers a minute, of which this process counts the rest itself.
        let last = Resolution::Minute.begin(filled.end.saturating_sub(1));
        let filled = filled.start.min(end)..end.min(last + Resolution::Minute.secs());
        (!spans.is_empty()).then(|| Self {
            rows,
            error_status,
            window_secs: longest,
            lost: spans.into_iter().map(|(lost, _)| lost).collect(),
            is_read,
            filled,
            lacking: Some(lacking).filter(|it| !it.is_empty()),
        })
    }

    /// From its first minute to the end of its last, or to the start of this process if that was
    /// before, in unix seconds; `None` if it has no row.
    pub fn filled(&self) -> Option<Range<u64>> {
        (!self.rows.is_empty()).then(|| self.filled.clone())
    }

    /// The latest end of a missing span: the start after it.
    pub(in crate::query::catalog) fn lost_until(&self) -> u64 {
        self.lost.iter().map(|lost| lost.end).max().unwrap_or(self.filled.end)
    }

    /// The span for which a report has rows, and the one for which it lacks them: history did not
    /// have the report then, or only later.
    pub(in crate::query::catalog) fn in_report(&self, of: &Definition) -> [Range<u64>; 2] {
        let own = Dataset::of(of, self.error_status).coverage_key();
        let Range { start, end } = self.filled.clone();
        let mut first = None;
        self.rows.rows(&COVERAGE, 0..u64::MAX, |row| {
            if *row.key == *own {
                first = Some(first.unwrap_or(end).min(row.time));
            }
        });
        let window = self.lost_until().saturating_sub(of.window.as_secs());
        let begin = Resolution::Minute.begin(window).max(start);
        match first.unwrap_or(end) {
            begun if begun <= begin => [start..end, 0..0],
            begun => [begun..end, begin..first.unwrap_or(self.lost_until())],
        }
    }

    /// A remark on what no row replaces although history has it, or had it before.
    pub fn why_lacking(&self) -> Option<String> {
        self.lacking.clone()
    }

    /// The missing spans that are still inside a window at this unix second.
    pub fn lost(&self, now: u64) -> Vec<Lost> {
        let lost = self.lost.iter().copied();
        lost.filter(|lost| now.saturating_sub(self.window_secs) < lost.end).collect()
    }

    /// Those for the next process. If history has nothing of one, and which files are earlier is
    /// not known, that would take rows of this process for missing ones.
    pub(crate) fn for_the_next(&self, now: u64) -> Vec<Lost> {
        let mut lost = self.lost(now);
        lost.retain(|it| !self.is_read || it.store != 0 || it.below < u64::MAX);
        lost
    }

    /// Adds the rows of the minutes inside the window of `of` to a live reading with keys, and with
    /// histograms if wanted, in the columns of `shown`.
    fn add_to(&self, live: &Reading, of: &Definition, shown: &Definition, want: Want) -> Reading {
        let now = live.as_of_ms / 1000;
        let begin = now.saturating_sub(of.window.as_secs());
        let span = begin.next_multiple_of(Resolution::Minute.secs())..u64::MAX;
        let dataset = Dataset::of(of, self.error_status);
        let mut rows: HashMap<Vec<u8>, (bool, Gain)> = HashMap::new();
        // Which values of keys are `(other)` in live rows, the fewest first.
        let mut others: BTreeSet<(usize, Vec<bool>)> = BTreeSet::new();
        for row in 0..live.len() {
            let mut key = Vec::new();
            for at in 0..of.keys.len() {
                push_key(&mut key, live.key(row, at).unwrap_or(OTHER_TEXT));
            }
            let gain = gain(live, row);
            if live.is_other(row) {
                let places = (0..of.keys.len()).map(|at| live.key(row, at).is_none());
                let places: Vec<bool> = places.collect();
                others.insert((places.iter().filter(|it| **it).count(), places));
            }
            // A row whose values were all sent as `(other)` has the key of the row of that name.
            match rows.entry(key) {
                hash_map::Entry::Vacant(place) => drop(place.insert((live.is_other(row), gain))),
                hash_map::Entry::Occupied(mut known) => known.get_mut().1.add(&gain),
            }
        }
        self.rows.rows(&dataset, span.clone(), |row| {
            // The live counts of a key without a row are in `(other)`: all of it belongs there.
            let other = |(_, places): &(usize, Vec<bool>)| {
                let texts = key_texts(&row.key).zip(places);
                key_of(texts.map(|(text, is_other)| if *is_other { OTHER_TEXT } else { text }))
            };
            let mut keys = iter::once(row.key.to_vec()).chain(others.iter().map(other));
            let key = keys.find(|it| rows.contains_key(it)).unwrap_or_else(|| row.key.to_vec());
            let (_, gain) = rows.entry(key).or_insert_with(|| (row.is_other, Gain::default()));
            gain.add(&row.gain);
        });
        let covered = self.covered_secs(&dataset.coverage_key(), span, live.covered_secs, now);
        let covered = covered.min(of.window.as_secs());
        let covered = covered.saturating_sub(self.missing_secs(of, covered, now));
        let sums = rows
            .iter()
            .map(|(key, (is_other, gain))| (&**key, *is_other, gain.sum.totals, gain.extremes));
        let mut reading = Reading::of_rows(shown, sums);
        reading.window_secs = live.window_secs;
        reading.covered_secs = covered.max(u64::from(reading.grand != Totals::ZERO));
        reading.as_of_ms = live.as_of_ms;
        if want.histograms {
            reading.histograms = vec![Vec::new(); rows.len()];
        }
        let with_histograms = rows.values().enumerate().filter(|_| want.has_histograms());
        for (row, (_, gain)) in with_histograms {
            if let Some(histogram) = gain.sum.histogram() {
                let ends = |bucket| shown.buckets.ends(bucket);
                reading.know(row, shown, histogram, |secs| secs, ends);
                if want.histograms {
                    reading.histograms[row] = histogram.iter().collect();
                }
            }
        }
        reading
    }

    /// Seconds of missing spans within the last `covered` for which a report has no rows.
    fn missing_secs(&self, of: &Definition, covered: u64, now: u64) -> u64 {
        let [_, lacked] = self.in_report(of);
        let begin = now.saturating_sub(covered);
        let secs = |lost: &Lost| lost.end.min(lacked.end).saturating_sub(lost.start.max(begin));
        self.lost.iter().map(secs).sum()
    }

    /// Seconds for which live data of so many seconds and the rows in a span cover a report, from
    /// the key of its coverage. As in live data, they begin with the first request of any report:
    /// by the minute.
    fn covered_secs(&self, own: &[u8], span: Range<u64>, live: u64, now: u64) -> u64 {
        let ends = self.lost.iter().map(|lost| lost.end);
        let begun = ends.max().unwrap_or(now).min(now);
        let (mut first, mut later) = (now, 0);
        let start = self.rows.first_time_in(span).unwrap_or(u64::MAX);
        self.rows.rows(&COVERAGE, start..u64::MAX, |row| {
            if *row.key == *own {
                let secs = Coverage::of(&row.gain.sum.totals).secs;
                let before = secs.min(begun.saturating_sub(row.time));
                // The clock was set back since: these came before, whatever they say.
                later += secs - before;
                let end = begun.min(row.time + Resolution::Minute.secs());
                first = first.min(end.saturating_sub(before));
            }
        });
        // Of what came back from a snapshot, live data has it all.
        live.max(now.saturating_sub(first)) + later
    }
}

/// The gain of a row of a live reading; its histogram may be unknown, or not requested.
fn gain(live: &Reading, row: usize) -> Gain {
    let totals = live.totals[row];
    let pairs = live.histograms.get(row);
    let is_empty = totals.requests == 0 && totals.hits == 0;
    let known = pairs.filter(|pairs| !pairs.is_empty() || is_empty);
    let histogram = known.map(|pairs| {
        let mut histogram = Histogram::new();
        pairs.iter().for_each(|&(bucket, count)| histogram.add(bucket, count));
        histogram
    });
    Gain {
        sum: Sum::of(totals, histogram),
        extremes: live.extremes.get(row).copied().unwrap_or(Extremes::NOTHING),
    }
}

/// Adds the rows of a span's minutes from a second on that have such keys; returns whether there
/// are any.
fn copy(
    earlier: &Earlier,
    dataset: &Arc<Dataset>,
    (lost, begin): (Lost, u64),
    to: &mut UnflushedRows,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> bool {
    let minute = Resolution::Minute.secs();
    let latest = earlier.parts.iter().map(|part| part.span.end).max().unwrap_or_default();
    let times = match lost.is_by_file() {
        true => begin..latest.max(lost.end),
        false => begin.max(Resolution::Minute.begin(lost.start))..lost.end,
    };
    if times.is_empty() || lost.store != 0 && lost.store != earlier.store {
        return false;
    }
    // The minutes to read from a file with this number; `is_mixed`: it was made of several, or of
    // logs.
    let within = |number: u64, is_mixed: bool| {
        if lost.is_by_file() && !is_mixed {
            return match (lost.from..lost.below).contains(&number) {
                true => 0..u64::MAX,
                false => 0..0,
            };
        }
        // Restored data includes the start of a minute in which it ends.
        let begin = match lost.start {
            // The clock was ahead: times do not tell.
            0 if lost.is_by_file() && lost.from > 0 => lost.end,
            start => start.next_multiple_of(minute),
        };
        // Later files also include, for the last minute, counts of a later process.
        let end = match number < lost.below {
            true => lost.end,
            false => Resolution::Minute.begin(lost.end),
        };
        begin..end
    };
    let mut is_found = false;
    let mut add = |row: &Row| {
        if is_wanted(&row.key) {
            is_found = true;
            to.add(dataset, row.time, &row.key, row.is_other, &row.gain);
        }
    };
    // Whatever is also kept by the hour.
    let parts = earlier.parts.iter().filter(|part| part.resolution == Resolution::Minute);
    for part in parts.filter(|part| part.has(dataset)) {
        let within = within(part.number(), part.is_published() || part.is_imported);
        let Range { start, end } = part.span;
        let of_part = start.max(times.start).max(within.start)..end.min(times.end).min(within.end);
        if !of_part.is_empty()
            && let Err(error) = part.read(dataset, of_part, Columns::All, &mut add)
        {
            tracing::warn!(file = %part.path.display(), %error, "Rows of history cannot be read, and are missing from live reports.");
        }
    }
    if let Some(unflushed) = &earlier.unflushed {
        let Range { start, end } = within(earlier.next, false);
        unflushed.rows(dataset, start.max(times.start)..end, &mut add);
    }
    is_found
}

/// Whether only the times of rows tell what is missing, in a history that may have it.
fn is_by_time(lost: &Lost, earlier: &Earlier) -> bool {
    !lost.is_by_file() && (lost.store == 0 || lost.store == earlier.store)
}

/// Whether history has written rows of a span since it began, which may be within a second.
fn has_written(earlier: &Earlier, span: &Range<u64>) -> bool {
    let is_of_it = |part: &Arc<Part>| span.start < part.span.end && part.span.start < span.end;
    earlier.unflushed.is_some()
        || pieces(earlier).any(|part| is_of_it(part) && part.written + 1 >= span.start)
}

/// Whether history went on in this span, which ends with a window of so many seconds.
fn has_any(earlier: &Earlier, lost: &Lost, window: u64) -> bool {
    let begin = lost.end.saturating_sub(window);
    earlier.unflushed.is_some()
        || pieces(earlier).any(|part| match lost.is_by_file() && !part.is_published() {
            true => (lost.from..lost.below).contains(&part.number()) && begin < part.span.end,
            false => lost.start.max(begin) < part.span.end && part.span.start < lost.end,
        })
}

/// When the clock was behind in this span, so that its rows seem to have left all windows before it
/// began.
fn set_back(earlier: &Earlier, lost: &Lost, begin: u64) -> Option<Range<u64>> {
    let end = Resolution::Minute.begin(lost.start.min(begin));
    let behind = pieces(earlier).filter(|part| {
        let is_lost = (lost.from..lost.below).contains(&part.number());
        is_lost && lost.from > 0 && !part.is_published() && part.span.start < end
    });
    let behind = behind.map(|part| part.span.start..part.span.end.min(end));
    behind.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
}

/// Parts with rows by the minute, apart from imported ones.
fn pieces(earlier: &Earlier) -> impl Iterator<Item = &Arc<Part>> {
    earlier
        .parts
        .iter()
        .filter(|part| part.resolution == Resolution::Minute && !part.is_raw() && !part.is_imported)
}

impl Catalog {
    /// Reads again what replaces lost counts: history has become readable, or the rows restored
    /// from its log are in files now.
    pub(crate) fn refill_again(&self) {
        let mark = self.mark.lock();
        let Some(before) = self.missing() else { return };
        let live = answering(&self.live);
        let reports: Vec<_> = live.reports.iter().map(|it| Arc::clone(&it.definition)).collect();
        drop(live);
        let (reports, lost) = (reports.iter().map(|it| &**it), before.lost(self.unix_secs()));
        let refill =
            Refill::read(self.status.history.as_ref(), reports, before.error_status, &lost);
        if let Some(Range { start, end }) = refill.as_ref().and_then(Refill::filled)
            && before.rows.is_empty()
        {
            let (from, to) = (rfc3339(start), rfc3339(end));
            tracing::info!(from, to, "Live reports are refilled from history, by the minute.");
        }
        *self.refill.write() = refill.map(Arc::new);
        mark.iter().for_each(|mark| mark.record_missing(&self.missing_spans()));
    }

    /// The missing spans, with the rows that replace them, as long as a window reaches them.
    fn missing(&self) -> Option<Arc<Refill>> {
        let refill = self.refill.read().clone()?;
        if refill.lost(self.unix_secs()).is_empty() {
            *self.refill.write() = None;
            return None;
        }
        Some(refill)
    }

    /// The rows that replace lost counts, if there are any.
    pub(in crate::query::catalog) fn refill(&self) -> Option<Arc<Refill>> {
        self.missing().filter(|refill| !refill.rows.is_empty())
    }

    /// A remark on counts that are missing in live reports although history has them, or had them.
    pub(crate) fn why_lacking(&self) -> Option<String> {
        self.missing()?.why_lacking()
    }

    /// The missing spans that history replaces, or may replace later, for the next process.
    pub(crate) fn missing_spans(&self) -> Vec<Lost> {
        self.missing().map_or(Vec::new(), |it| it.for_the_next(self.unix_secs()))
    }

    fn unix_secs(&self) -> u64 {
        self.clock.unix_ms() / 1000
    }

    /// Whole readings of reports, including rows that replace lost counts. `of` has the reports'
    /// own definitions, `asked` those of the columns. `None` if a report was dropped meanwhile.
    pub(in crate::query::catalog) fn read_refilled(
        held: &mut impl read::ReadLock,
        refill: &Refill,
        of: &[Entry],
        asked: &[(&Entry, Want)],
        as_of_ms: u64,
    ) -> Option<Vec<Reading>> {
        let all = |&(entry, want): &(_, Want)| {
            (entry, Want { keys: true, quantiles: false, histograms: want.has_histograms() })
        };
        let all: Vec<_> = asked.iter().map(all).collect();
        let live = read::read_together(held, &all, as_of_ms)?;
        let mut added = Vec::new();
        held.unlocked(|| {
            let live = live.iter().zip(of).zip(asked);
            let add = |((live, of), (entry, want)): ((_, &Entry), &(&Entry, Want))| {
                refill.add_to(live, &of.definition, &entry.definition, *want)
            };
            added = live.map(add).collect();
        });
        Some(added)
    }
}

#[cfg(test)]
mod tests;
