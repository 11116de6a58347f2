//! Splits a piece of a log into records by minute, and computes the time that it covers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::history::Resolution;
use crate::input::record::Record;
use crate::input::squid::line::{self, Line};
use crate::input::squid::{Decoder, Ending, Lines};

/// Lines processed at once.
pub(super) const LINES_MAX: usize = 16_384;
/// Approximate limit on the hours of a piece's requests: each is a file to write.
const HOURS_MAX: usize = 256;
/// Approximate limit on the rows of a piece in all reports: they fit in the memory of
/// [`counting`](super::counting), and are counted within seconds, also if every line has a minute
/// of its own.
const ROWS_MAX: usize = 400_000;
/// What a minute takes besides its rows, in rows.
const MINUTE_ROWS: usize = 2;
/// Longest time between lines during which Squid counts as running.
const GAP_SECS: u64 = 3_600;
/// How much earlier than the covered time ends a line may be in one log; otherwise another log
/// begins. The covered time ends up to a minute after the line before.
const DISORDER_SECS: u64 = 120;
/// How far ahead Squid's clock may be.
const AHEAD_SECS: u64 = 300;

/// The processed part of a piece.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// Its bytes.
    pub(crate) bytes: usize,
    /// Records of requests by the minute in which they ended.
    pub(crate) minutes: BTreeMap<u64, Vec<u8>>,
    /// Their number.
    pub(crate) requests: u64,
    /// When the first request ended, in unix seconds.
    pub(crate) first: Option<u64>,
    /// Lines in the future.
    pub(crate) in_future: u64,
    /// Requests that ended before the oldest time that is kept.
    pub(crate) expired: u64,
    /// End of the time that the log covers so far, in unix seconds.
    pub(crate) covered_to: Option<u64>,
    /// Seconds covered by minute.
    pub(crate) covered: BTreeMap<u64, u64>,
    /// Of the log that goes on: seconds between those that have lines, and the number of gaps.
    gaps: Option<(u64, u64)>,
    /// The second of its first line, unless a piece before had that.
    begun: Option<u64>,
}

impl Piece {
    /// Reads the lines, as many as are processed at once by so many reports.
    pub(super) fn decode(
        lines: &[u8],
        mut decoder: Decoder,
        reports: usize,
        (oldest, now): (u64, u64),
        covered_to: Option<u64>,
    ) -> Self {
        let mut piece = Self { covered_to, ..Self::default() };
        let (mut hours, mut split, mut record) = (BTreeSet::new(), Lines::default(), Vec::new());
        let latest = now + AHEAD_SECS;
        for line in lines.split_inclusive(|byte| *byte == b'\n').take(LINES_MAX) {
            piece.bytes += line.len();
            let mut take = |line: &[u8], ending| {
                record.clear();
                decoder.take(line, ending, 0, &mut record);
                let Some(read) = Record::next(&mut &record[..]) else { return };
                let secs = u64::from(read.received_secs());
                if secs > latest {
                    piece.in_future += 1;
                    return;
                }
                piece.expired += u64::from(secs < oldest);
                piece.requests += 1;
                piece.first.get_or_insert(secs);
                piece.cover(secs);
                hours.insert(Resolution::Hour.begin(secs));
                let minute = Resolution::Minute.begin(secs);
                piece.minutes.entry(minute).or_default().extend_from_slice(&record);
            };
            split.feed(line, &mut take);
            if !line.ends_with(b"\n") {
                split.feed(b"\n", &mut take);
            }
            // About as many rows as reports make of it: one for each request, and of coverage.
            let minutes = MINUTE_ROWS * piece.minutes.len() + piece.covered.len();
            let rows = reports * (piece.requests as usize + minutes);
            if hours.len() >= HOURS_MAX || rows >= ROWS_MAX {
                break;
            }
        }
        piece.end();
        decoder.publish();
        piece
    }

    /// The piece of these lines, which was imported before: only its length, and what it covers.
    pub(super) fn known(lines: &[u8], covered_to: Option<u64>) -> Self {
        let mut piece = Self { bytes: lines.len(), covered_to, ..Self::default() };
        ended(lines).into_iter().for_each(|secs| piece.cover(secs));
        piece.end();
        piece
    }

    /// Adds the time up to a line of this second.
    fn cover(&mut self, secs: u64) {
        // Otherwise the log has a gap, or goes back. What two logs cover both is limited to the
        // seconds of a minute when it is counted.
        let goes_on = |to: &u64| (to.saturating_sub(DISORDER_SECS)..=to + GAP_SECS).contains(&secs);
        let from = self.covered_to.filter(goes_on).unwrap_or_else(|| {
            self.end();
            *self.begun.insert(secs)
        });
        let to = secs + 1;
        if from < to {
            let more = |(secs, count)| (secs + to - from, count + 1);
            self.gaps = Some(self.gaps.map_or((0, 0), more));
            self.cover_span(from..to);
        }
    }

    /// Adds the time around the lines of a log: the mean gap before the first and after the last,
    /// within their minutes.
    fn end(&mut self) {
        let (begun, gaps) = (self.begun.take(), self.gaps.take());
        let (Some((secs, count @ 1..)), Some(from)) = (gaps, self.covered_to) else { return };
        let gap = secs.div_ceil(count);
        if let Some(first) = begun {
            let minute = Resolution::Minute.begin(first);
            self.cover_span((first + 1).saturating_sub(gap).max(minute)..first);
        }
        let minute_end = from.next_multiple_of(Resolution::Minute.secs());
        self.cover_span(from..minute_end.min(from - 1 + gap));
    }

    fn cover_span(&mut self, span: Range<u64>) {
        self.covered_to = Some(span.end);
        for (minute, secs) in Resolution::Minute.split(span) {
            *self.covered.entry(minute).or_default() += secs;
        }
    }
}

/// When the requests of these lines ended, also of those that do not count.
pub(super) fn ended(lines: &[u8]) -> Vec<u64> {
    let (mut split, mut ended) = (Lines::default(), Vec::new());
    let mut take = |line: &[u8], ending| {
        if let Ok(Line::Request(request)) = line::parse(line, ending == Ending::Cut) {
            ended.push(u64::from(request.ended_secs()));
        }
    };
    split.feed(lines, &mut take);
    split.end(Ending::Whole, &mut take);
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::config::Config;
    use crate::input::record::{Hasher, TextLimits};
    use crate::input::rewrite::NameRules;
    use crate::input::squid::Source;

    /// Proxy b logged the first half hour, proxy a from the tenth minute on; a's log comes first.
    #[test]
    fn what_a_second_log_covers_before_the_first_counts() {
        let mut piece = Piece::default();
        let start = 1_000_000 / 3_600 * 3_600;
        for minute in (10..50).chain(0..30) {
            piece.cover(start + 60 * minute);
        }
        let covered = piece.covered.values().map(|secs| *secs.min(&60));
        assert_eq!(covered.sum::<u64>(), 50 * 60);
        // Lines in the order in which requests began, not ended.
        let mut piece = Piece::default();
        for secs in [100, 160, 130, 161] {
            piece.cover(start + secs);
        }
        assert_eq!(piece.covered.values().sum::<u64>(), 62);
    }

    fn line(secs: u64) -> String {
        format!("{secs}.000 5 ::1 TCP_MISS/200 9 GET http://a/ - NONE/- -\n")
    }

    fn decoded(log: &str, reports: usize, covered_to: Option<u64>) -> Piece {
        let config = Config::from_toml("pinbad.toml", "[[squid]]\nlisten = 'udp://127.0.0.1:0'\n");
        let source = Source::new(config.unwrap().squids[0].clone());
        let (limits, hasher) = (TextLimits::default(), Hasher::with_seed(1));
        let rules = NameRules::new(&[], hasher.clone(), Arc::default());
        let decoder = Decoder::new(source, limits, hasher, rules).of_the_past();
        Piece::decode(log.as_bytes(), decoder, reports, (0, 1 << 40), covered_to)
    }

    /// Every minute of a steady log has the same rate, also the last one, which ends in its first
    /// second, whether it grows, comes in pieces, or stops for hours.
    #[test]
    fn a_log_covers_the_mean_gap_before_its_first_and_after_its_last_line() {
        let start = 1_000_000 / 3_600 * 3_600;
        let log = |lines: Range<u64>| lines.map(|at| line(start + 20 * at)).collect::<String>();
        let (first, more) = (log(0..31), log(31..61));
        let piece = decoded(&first, 1, None);
        let covered: Vec<u64> = piece.covered.values().copied().collect();
        assert_eq!(covered, [60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 20]);
        assert_eq!(piece.covered_to, Some(start + 620));
        let known = Piece::known(first.as_bytes(), None);
        assert_eq!((known.bytes, known.covered_to), (first.len(), piece.covered_to));
        let next = decoded(&more, 1, piece.covered_to);
        let covered = piece.covered.values().chain(next.covered.values());
        assert_eq!((covered.sum::<u64>(), next.covered_to), (61 * 20, Some(start + 61 * 20)));
        let stopped = decoded(&(first + &log(1_000..1_031)), 1, None);
        // The first line after the gap is 20 s into its minute.
        assert_eq!(stopped.covered.values().sum::<u64>(), 2 * 620 + 19);
        // Not further than the minute; a single line says nothing.
        let rare = [start + 44, start + 944].map(line).concat();
        let piece = decoded(&rare, 1, None);
        assert_eq!(piece.covered.into_values().collect::<Vec<_>>(), [60; 16]);
        assert_eq!(piece.covered_to, Some(start + 960));
        assert_eq!(decoded(&line(start), 1, None).covered_to, Some(start + 1));
        // A piece that goes on has no first line: it would cover the same seconds again.
        let [first, more] = [[30, 35], [46, 48]].map(|all| all.map(|at| line(start + at)).concat());
        let piece = decoded(&first, 1, None);
        assert_eq!((piece.covered[&start], piece.covered_to), (14, Some(start + 40)));
        assert_eq!(decoded(&more, 1, piece.covered_to).covered[&start], 10);
    }

    /// A piece ends before its rows are too many, also if its lines are few and far apart.
    #[test]
    fn a_piece_has_as_many_lines_as_its_rows_fit() {
        let log: String = (1_000_000..1_005_000).map(|at| line(at * 1_800)).collect();
        let lines_taken = |reports| {
            let piece = decoded(&log, reports, None);
            assert_eq!(piece.bytes % line(1_800_000_000).len(), 0);
            piece.requests
        };
        assert_eq!(lines_taken(1), HOURS_MAX as u64 * 2 - 1);
        assert_eq!(lines_taken(100), 123);
    }
}
