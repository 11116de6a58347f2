//! Splits a piece of a log into records by minute, and computes the time that it covers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::history::Resolution;
use crate::input::record::{Hasher, Record, TextLimits};
use crate::input::rewrite::Rewrite;
use crate::input::squid::line::{self, Line};
use crate::input::squid::{Decoder, Lines, Source};

/// Lines processed at once.
pub(super) const LINES_MAX: usize = 16_384;
/// Approximate limit on the hours of a piece's requests: each is a file to write.
const HOURS_MAX: usize = 256;
/// Longest time between lines during which Squid counts as running.
const GAP_SECS: u64 = 3_600;
/// How far ahead Squid's clock may be.
const AHEAD_SECS: u64 = 300;

/// The processed part of a piece.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// Its bytes.
    pub(super) bytes: usize,
    /// Records of requests by the minute in which they ended.
    pub(super) minutes: BTreeMap<u64, Vec<u8>>,
    /// Their number.
    pub(super) requests: u64,
    /// When the first request ended, in unix seconds.
    pub(super) first: Option<u64>,
    /// Lines in the future.
    pub(super) in_future: u64,
    /// Requests that ended before the oldest time that is kept.
    pub(super) expired: u64,
    /// End of the time that the log covers so far, in unix seconds.
    pub(super) covered_to: Option<u64>,
    /// Seconds covered by minute.
    pub(super) covered: BTreeMap<u64, u64>,
}

impl Piece {
    /// Reads the lines, as many as are processed at once.
    pub(super) fn decode<R: Rewrite>(
        lines: &[u8],
        source: &Arc<Source>,
        (limits, hasher, rules): (TextLimits, Hasher, R),
        (oldest, now): (u64, u64),
        covered_to: Option<u64>,
    ) -> Self {
        let decoder = Decoder::new(Arc::clone(source), limits, hasher, rules);
        let mut decoder = decoder.of_the_past();
        let mut piece = Self { covered_to, ..Self::default() };
        let (mut hours, mut split, mut record) = (BTreeSet::new(), Lines::default(), Vec::new());
        let latest = now + AHEAD_SECS;
        for line in lines.split_inclusive(|byte| *byte == b'\n').take(LINES_MAX) {
            piece.bytes += line.len();
            let mut take = |line: &[u8], ending| {
                record.clear();
                decoder.take(line, ending, 0, &mut record);
                let Some(read) = Record::next(&mut &record[..]) else {
                    return;
                };
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
                let records = piece.minutes.entry(minute).or_default();
                records.extend_from_slice(&record);
            };
            split.feed(line, &mut take);
            if !line.ends_with(b"\n") {
                split.feed(b"\n", &mut take);
            }
            if hours.len() >= HOURS_MAX {
                break;
            }
        }
        decoder.publish();
        piece
    }

    /// Adds the time up to a line of this second.
    fn cover(&mut self, secs: u64) {
        // Otherwise the log has a gap, or goes back.
        let continued = self.covered_to.filter(|to| to.abs_diff(secs) <= GAP_SECS);
        let from = continued.unwrap_or(secs);
        let to = secs + 1;
        if from < to {
            self.covered_to = Some(to);
            for (minute, secs) in Resolution::Minute.split(from..to) {
                *self.covered.entry(minute).or_default() += secs;
            }
        }
    }
}

/// When the first request of these lines ended.
pub(super) fn first_secs(lines: &[u8]) -> Option<u64> {
    ended(lines.split(|byte| matches!(byte, b'\n' | 0)))
}

/// When the last one did.
pub(super) fn last_secs(lines: &[u8]) -> Option<u64> {
    ended(lines.rsplit(|byte| matches!(byte, b'\n' | 0)))
}

fn ended<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Option<u64> {
    lines.find_map(|line| match line::parse(line, false) {
        Ok(Line::Request(request)) => Some(request.ended_secs().into()),
        Ok(Line::Swap(_)) | Err(_) => None,
    })
}
