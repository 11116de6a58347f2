//! How much of a source is in history: everything up to a position, and later lines that came back
//! from the log of seconds (`history/log_of_seconds.rs`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::sums::Moves;
use super::{Progress, Source};
use crate::telemetry::counters::SocketCounters;

/// How much of a followed file is in history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The position up to which everything is.
    #[serde(flatten)]
    pub progress: Progress,
    /// Requests. Only their gains in reports can be ahead: raw rows are written up to the position.
    #[serde(default)]
    pub requests: Tally,
    /// Objects that moved to or from disk.
    #[serde(default)]
    pub swaps: Tally,
}

/// Lines of one kind that are in history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The number of the first one behind a position, see [`LineNumbers`](super::LineNumbers).
    pub lines: u64,
    /// Numbers of later ones in the same file, from the log of seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<Range<u64>>,
}

impl Tally {
    /// The same at a later position.
    pub fn at(&self, lines: u64) -> Self {
        let later = self.ahead.iter().filter(|it| it.end > lines);
        Self { lines, ahead: later.cloned().collect() }
    }

    /// How many of the lines before this number it has not.
    pub(super) fn lacks(&self, before: u64) -> u64 {
        let ahead = self.ahead.iter();
        let ahead = ahead.map(|it| it.end.min(before).saturating_sub(it.start.max(self.lines)));
        before.saturating_sub(self.lines).saturating_sub(ahead.fold(0, u64::saturating_add))
    }

    /// A number that no line has yet, neither up to the position nor ahead.
    pub(super) fn end(&self) -> u64 {
        let ahead = self.ahead.iter().map(|it| it.end).max();
        ahead.map_or(self.lines, |ahead| ahead.max(self.lines))
    }

    /// Advances by one line; returns whether that line is in history already.
    pub(super) fn advance(&mut self) -> bool {
        let has_it = self.ahead.iter().any(|it| it.contains(&self.lines));
        self.lines = self.lines.saturating_add(1);
        has_it
    }

    /// Adds numbers of lines.
    pub fn add(&mut self, more: Range<u64>) {
        let touches = |it: &mut Range<u64>| it.start <= more.end && more.start <= it.end;
        let touched: Vec<_> = self.ahead.extract_if(.., touches).collect();
        let all = touched.iter().fold(more, |all, it| all.start.min(it.start)..all.end.max(it.end));
        self.ahead.push(all);
    }
}

/// The parts of followed files that are in history, by the source.
pub type Positions = BTreeMap<String, Reading>;

/// All sources, each with its ring counters.
#[derive(Debug, Default)]
pub struct Followed(pub Vec<(Arc<Source>, Arc<SocketCounters>)>);

impl Followed {
    /// Positions of followed files up to the records that have left the ring, if any is followed;
    /// takes what moved up to there, of all sources. Call it while nothing can be merged.
    pub fn reached(&self) -> (Option<Arc<Positions>>, Moves) {
        let mut moves = Moves::default();
        let mut positions = None;
        for (source, counters) in &self.0 {
            if !source.is_followed() {
                source.take_moves(&mut moves);
                continue;
            }
            let positions = positions.get_or_insert_with(Positions::new);
            if source.has_begun() {
                let progress = source.reach(counters.requests_left(), &mut moves);
                let begun_at = source.begun_at.lock();
                let reading = Reading {
                    requests: begun_at.requests.at(progress.next.requests),
                    swaps: begun_at.swaps.at(progress.next.swaps),
                    progress,
                };
                positions.insert(source.config.from.to_string(), reading);
            }
        }
        (positions.map(Arc::new), moves)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sums::swaps;
    use super::super::tests::{UDP, decoder, source};
    use super::super::{Decoder, Ending, LineNumbers, file};
    use super::*;
    use crate::config::Config;
    use crate::input::record::Record;

    /// Moved objects are taken with the position up to which it was read, over and over: of a log
    /// that had more, that is not counted again.
    #[expect(clippy::single_range_in_vec_init, reason = "a list of one range")]
    #[test]
    fn what_moved_belongs_to_a_position() {
        let swap = b"873497970.671 SWAPIN 200 1 1 -2 text/html 1718/1718 GET http://h/ 1/2";
        let request = b"sq1 start=1.000 tr=4 ss=TCP_MISS url=http://h/";
        let config = Config::from_toml("c", "[[squid]]\npath = '/nowhere'").unwrap();
        let begin = |known: Option<Reading>| {
            let source = Source::new(config.squids[0].clone());
            source.sums.lock().fresh.get_or_insert_default();
            source.begin(known);
            let mut decoder = decoder(&source);
            decoder.go_on();
            let counters = Arc::new(SocketCounters::default());
            let followed = Followed(vec![(Arc::clone(&source), Arc::clone(&counters))]);
            (source, decoder, counters, followed)
        };
        let position = |offset: u64| {
            let json = serde_json::json!({"device": 1, "inode": 2, "offset": offset, "head": 3});
            serde_json::from_value::<file::Position>(json).unwrap()
        };
        let moved = |moves: &Moves| moves.iter().map(|(_, sum)| sum.count).sum::<u64>();
        let (source, mut decoder, counters, followed) = begin(None);
        let mut block = Vec::new();
        let mut read = |decoder: &mut Decoder, source: &Source, counters: &SocketCounters| {
            for line in [&swap[..], request, swap] {
                block.clear();
                assert!(decoder.take(line, Ending::Whole, 1, &mut block));
                let pushed = u64::from(!block.is_empty());
                counters.requests_pushed.add(pushed);
            }
            let _counts = decoder.publish();
            source.mark(position(counters.requests_pushed.get()), counters);
        };
        for _ in 0..3 {
            read(&mut decoder, &source, &counters);
        }
        let (files, moves) = followed.reached();
        assert_eq!((moved(&moves), files.unwrap().len()), (0, 1), "nothing was merged");
        counters.requests_popped.add(2);
        let (files, moves) = followed.reached();
        let reading = files.unwrap().values().next().unwrap().clone();
        assert_eq!((moved(&moves), reading.requests.lines, reading.swaps.lines), (4, 2, 4));
        assert_eq!(moved(&followed.reached().1), 0, "once");
        for _ in 0..100 {
            read(&mut decoder, &source, &counters);
        }
        counters.requests_popped.add(101);
        let (_, moves) = followed.reached();
        assert_eq!(moved(&moves), 2 * 101, "more marks than there may be");
        // The next process reads on from the first position, and knows three requests more.
        let mut known = reading;
        known.requests.add(2..4);
        known.requests.add(4..5);
        known.swaps.add(4..9);
        let (source, mut decoder, counters, followed) = begin(Some(known));
        for _ in 0..5 {
            read(&mut decoder, &source, &counters);
        }
        counters.requests_popped.add(2);
        let (files, moves) = followed.reached();
        let reading = files.unwrap().values().next().unwrap().clone();
        assert_eq!(moved(&moves), 0);
        assert_eq!((reading.requests.lines, reading.requests.ahead), (4, Vec::from([2..5])));
        assert_eq!((reading.swaps.lines, reading.swaps.ahead), (8, Vec::from([4..9])));
        counters.requests_popped.add(3);
        let (files, moves) = followed.reached();
        let reading = files.unwrap().values().next().unwrap().clone();
        assert_eq!(moved(&moves), 10 - 5);
        assert!(reading.requests.ahead.is_empty() && reading.swaps.ahead.is_empty());
    }

    /// What is known of a file says nothing of the next one, whether or not it was read to its end.
    #[test]
    fn numbers_of_lines_are_those_of_one_file() {
        let request = b"sq1 start=1.000 tr=4 ss=TCP_MISS url=http://h/";
        let swap = b"873497970.671 SWAPIN 200 1 1 -2 text/html 1718/1718 GET http://h/ 1/2";
        for before in [0, 2, 4] {
            let source = source("path = '/nowhere'");
            let mut known = Reading::default();
            known.progress.merged = 3;
            known.requests.add(1..6);
            known.swaps.add(1..6);
            source.begin(Some(known));
            source.sums.lock().next = LineNumbers { requests: 7, swaps: 7 };
            source.sums.lock().fresh.get_or_insert_default();
            let mut decoder = decoder(&source);
            decoder.go_on();
            let read = |decoder: &mut Decoder, lines: u64| {
                let mut block = Vec::new();
                for line in (0..lines).flat_map(|_| [&request[..], swap]) {
                    assert!(decoder.take(line, Ending::Whole, 1, &mut block));
                }
                let _counts = decoder.publish();
                let mut rest = &block[..];
                let marked = std::iter::from_fn(|| Record::next(&mut rest));
                let marked = marked.map(|it| it.is_counted()).collect::<Vec<_>>();
                let mut moves = Moves::default();
                source.take_moves(&mut moves);
                let moved = moves.iter().map(|(_, sum)| sum.count).sum::<u64>();
                let summed = swaps([&*source].into_iter(), 1);
                (marked, moved, summed.first().map_or(0, |it| it.1.count))
            };
            read(&mut decoder, before);
            let position = file::Position::of([1, 2, 0, 0]).unwrap();
            decoder.begin_file(Some(position), |_| false);
            let progress = source.progress.lock().clone();
            assert_eq!((progress.file, progress.merged), (Some(position), 0));
            let behind_all = LineNumbers { requests: 7, swaps: 7 };
            assert_eq!((progress.files_begun, progress.next), (1, behind_all));
            assert_eq!(read(&mut decoder, 5), (vec![false; 5], 5, 5), "behind {before}");
        }
    }

    /// A snapshot was made while history could not be written, or without it.
    #[test]
    fn requests_that_a_snapshot_has_and_history_has_not_are_read_again() {
        let mut known = Reading::default();
        known.requests.lines = 4;
        known.requests.add(2..5);
        known.requests.add(6..8);
        for (saved, again) in [(0, 0), (4, 0), (5, 0), (6, 1), (7, 1), (10, 3)] {
            let source = source("path = '/nowhere'");
            source.progress.lock().next.requests = saved;
            source.begin(Some(known.clone()));
            assert_eq!(source.sums.lock().counted_again, again, "{saved}");
            source.sums.lock().clear();
            assert_eq!(source.sums.lock().counted_again, 0, "a reset");
        }
        let source = source("path = '/nowhere'");
        source.progress.lock().next.requests = 10;
        source.begin(None);
        assert_eq!(source.sums.lock().counted_again, 0, "it goes on there");
    }

    /// Raw rows get what reports have already; reports do not.
    #[test]
    fn requests_that_reports_have_are_marked() {
        let source = source(UDP);
        let mut reading = Reading::default();
        reading.requests.add(1..3);
        source.begin(Some(reading));
        let mut decoder = decoder(&source);
        decoder.go_on();
        let line = b"sq1 start=1.000 tr=4 ss=TCP_MISS url=http://h/";
        let mut block = Vec::new();
        (0..5).for_each(|_| assert!(decoder.take(line, Ending::Whole, 1, &mut block)));
        let mut rest = &block[..];
        let marked = std::iter::from_fn(|| Record::next(&mut rest)).map(|it| it.is_counted());
        assert_eq!(marked.collect::<Vec<_>>(), [false, true, true, false, false]);
    }
}
