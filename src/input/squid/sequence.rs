//! Detects repeated and missing lines by the number (`%sn`) that Squid gives each.
//!
//! A run of Squid numbers its lines from 0, in order. Its sender is identified by address and port;
//! a reopened connection has another port and continues the run that it closed. For each run the
//! last `RECENT` numbers are known with the start times of their requests: the same number with the
//! same time is the same line again. A lower number of a younger request starts a new run.
//!
//! A file has the lines of all its writers without saying whose each is: SMP workers, or logs of
//! several proxies that were joined. There a line belongs to the run with the nearest end before
//! it; if there is none, it starts a run. Only senders send again what is long past, so in a file
//! nothing else than the same number with the same time is a repetition.

use std::cmp::Reverse;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::NOBODY;

/// Numbers remembered per run: many times what Squid keeps to send again.
const RECENT: usize = 4096;
/// Most runs at a time; the one that was silent longest is forgotten.
const RUNS_MAX: usize = 64;
/// A larger gap is not missing lines but another run.
const GAP_MAX: u64 = 10_000_000;

/// Bytes of the runs of one source, for the memory plan.
pub const SEQUENCES_BYTES: usize = RUNS_MAX * (RECENT * size_of::<u64>() + size_of::<Run>());

/// The arrival of a line, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It follows, perhaps after a gap.
    Next {
        /// Missing lines before it.
        lost: u64,
    },
    /// It had counted as lost.
    Late,
    /// It had arrived before.
    Repeated,
}

/// The position of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its sender.
    pub sender: SocketAddr,
    /// The next number.
    pub next: u64,
    /// The latest start of its requests, in milliseconds since 1970.
    pub newest_ms: u64,
}

#[derive(Debug)]
struct Run {
    known: Known,
    /// Whether its connection is gone.
    closed: bool,
    /// The first number observed: lower ones are unknown.
    first: u64,
    /// Start of the request of each recent number plus 1, in milliseconds; 0 if it did not arrive.
    recent: Box<[u64]>,
    /// Lines without a number since the last one with a number: they were cut, and are not lost.
    unnumbered: u64,
    /// When it was last used, in lines.
    used: u64,
}

/// The runs of one source.
#[derive(Debug, Default)]
pub struct Sequences {
    runs: Vec<Run>,
    lines: u64,
}

impl Sequences {
    /// Runs known to another process.
    pub fn restored(known: &[Known]) -> Self {
        let runs = known
            .iter()
            .take(RUNS_MAX)
            .map(|known| Run { closed: true, ..Run::new(known.clone()) });
        Self { runs: runs.collect(), lines: 0 }
    }

    /// The positions of the runs.
    pub fn known(&self) -> impl Iterator<Item = &Known> {
        self.runs.iter().map(|run| &run.known)
    }

    /// Records a line without a number from this sender.
    pub fn unnumbered(&mut self, sender: SocketAddr) {
        let runs = self.runs.iter_mut().filter(|run| run.known.sender == sender);
        if let Some(run) = runs.max_by_key(|run| run.used) {
            run.unnumbered = run.unnumbered.saturating_add(1);
        }
    }

    /// Records that the connection of this sender is gone.
    pub fn close(&mut self, sender: SocketAddr) {
        if let Some(run) = self.runs.iter_mut().find(|run| run.known.sender == sender) {
            run.closed = true;
        }
    }

    /// Records line `number` of a request that began at `start_ms` from this sender.
    pub fn record(&mut self, sender: SocketAddr, number: u64, start_ms: u64) -> Arrival {
        self.lines = self.lines.saturating_add(1);
        let lines = self.lines;
        let Some(run) = self.run(sender, number, start_ms) else {
            return Arrival::Next { lost: 0 };
        };
        run.used = lines;
        run.closed = false;
        run.record(number, start_ms)
    }

    /// The run of a line, a new one if there is none.
    fn run(&mut self, sender: SocketAddr, number: u64, start_ms: u64) -> Option<&mut Run> {
        let is_file = sender == NOBODY;
        let at = match is_file {
            true => self.of_file(number, start_ms),
            false => self.of_sender(sender, number, start_ms),
        };
        let at = at.unwrap_or_else(|| {
            if is_file {
                // Of those that ended, none takes lines of this one.
                let lines = self.lines;
                self.runs.retain(|run| lines.saturating_sub(run.used) <= RECENT as u64);
            }
            if self.runs.len() >= RUNS_MAX {
                let runs = self.runs.iter().enumerate();
                let silent = runs.min_by_key(|(_, run)| run.used).map(|(at, _)| at);
                self.runs.swap_remove(silent.unwrap_or(0));
            }
            self.runs.push(Run::new(Known { sender, next: number, newest_ms: start_ms }));
            self.runs.len().saturating_sub(1)
        });
        let run = self.runs.get_mut(at)?;
        run.known.sender = sender;
        Some(run)
    }

    fn of_sender(&self, sender: SocketAddr, number: u64, start_ms: u64) -> Option<usize> {
        let known = self.runs.iter().position(|run| run.known.sender == sender);
        known.or_else(|| {
            // A reconnected sender has another port.
            let closed = self.runs.iter().enumerate().filter(|(_, run)| {
                let goes_on = run.known.next <= number;
                run.known.sender.ip() == sender.ip()
                    && (run.has(number, start_ms) || run.closed && goes_on)
            });
            closed.max_by_key(|(_, run)| run.used).map(|(at, _)| at)
        })
    }

    /// The run that has this line of a file, else the nearest one; of several the latest.
    fn of_file(&self, number: u64, start_ms: u64) -> Option<usize> {
        let near =
            self.runs.iter().enumerate().filter_map(|(at, run)| {
                Some((run.distance(number, start_ms)?, Reverse(run.used), at))
            });
        near.min().map(|(.., at)| at)
    }
}

impl Run {
    /// A run without lines so far.
    fn new(known: Known) -> Self {
        Self {
            closed: false,
            first: known.next,
            recent: vec![0; RECENT].into(),
            unnumbered: 0,
            used: 0,
            known,
        }
    }

    fn set(&mut self, number: u64, came: u64) {
        if let Some(slot) = self.recent.get_mut(number as usize % RECENT) {
            *slot = came;
        }
    }

    /// Whether this line arrived before.
    fn has(&self, number: u64, start_ms: u64) -> bool {
        let is_recent = self.is_recent(number);
        is_recent && self.recent.get(number as usize % RECENT) == Some(&start_ms.saturating_add(1))
    }

    fn is_recent(&self, number: u64) -> bool {
        let oldest = self.known.next.saturating_sub(RECENT as u64);
        (oldest.max(self.first)..self.known.next).contains(&number)
    }

    /// Whether this line was missing so far.
    fn is_late(&self, number: u64, start_ms: u64) -> bool {
        let is_free = self.recent.get(number as usize % RECENT) == Some(&0);
        self.is_recent(number) && is_free && start_ms <= self.known.newest_ms
    }

    /// How far this line is from the end of the run, if it can be of it: 0 for one that it has.
    fn distance(&self, number: u64, start_ms: u64) -> Option<u64> {
        match number.checked_sub(self.known.next) {
            Some(gap) => (gap <= GAP_MAX).then(|| gap.saturating_add(1)),
            None if self.has(number, start_ms) => Some(0),
            None => self.is_late(number, start_ms).then_some(1),
        }
    }

    fn record(&mut self, number: u64, start_ms: u64) -> Arrival {
        let came = start_ms.saturating_add(1);
        if number < self.known.next {
            if self.has(number, start_ms) {
                return Arrival::Repeated;
            }
            if self.is_late(number, start_ms) {
                self.set(number, came);
                return Arrival::Late;
            }
            if !self.is_recent(number) && start_ms <= self.known.newest_ms {
                return Arrival::Repeated;
            }
        }
        let gap = number.saturating_sub(self.known.next);
        if number < self.known.next || gap > GAP_MAX {
            *self = Self::new(Known { next: number, ..self.known.clone() });
        }
        let gap = number.saturating_sub(self.known.next);
        for skipped in number.saturating_sub(gap.min(RECENT as u64))..number {
            self.set(skipped, 0);
        }
        self.set(number, came);
        self.known.next = number.saturating_add(1);
        self.known.newest_ms = self.known.newest_ms.max(start_ms);
        let unnumbered = std::mem::take(&mut self.unnumbered);
        Arrival::Next { lost: gap.saturating_sub(unnumbered) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Arrival = Arrival::Next { lost: 0 };

    fn sender(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn gaps_are_lost_and_what_comes_after_all_is_late() {
        let mut runs = Sequences::default();
        let mut record = |number, start| runs.record(sender(1), number, start);
        assert_eq!(record(7, 1000), NEXT, "what was before is not ours to miss");
        assert_eq!(record(8, 1001), NEXT);
        assert_eq!(record(11, 1005), Arrival::Next { lost: 2 });
        assert_eq!(record(10, 1003), Arrival::Late);
        assert_eq!(record(10, 1003), Arrival::Repeated);
        assert_eq!(record(11, 1005), Arrival::Repeated);
        assert_eq!(record(12, 1001), NEXT, "a slow request began earlier");
    }

    #[test]
    fn cut_lines_have_no_number_and_are_not_lost() {
        let mut runs = Sequences::default();
        runs.record(sender(1), 225, 1000);
        runs.unnumbered(sender(1));
        assert_eq!(runs.record(sender(1), 227, 1001), NEXT);
        assert_eq!(runs.record(sender(1), 229, 1002), Arrival::Next { lost: 1 });
    }

    #[test]
    fn squid_starts_again() {
        let mut runs = Sequences::default();
        for number in 0..5000 {
            assert_eq!(runs.record(sender(1), number, 1000 + number), NEXT);
        }
        for number in 0..5000 {
            assert_eq!(runs.record(sender(1), number, 9000 + number), NEXT, "{number}");
        }
        assert_eq!(runs.record(sender(1), 4000, 13_000), Arrival::Repeated);
        assert_eq!(runs.record(sender(1), 3, 9003), Arrival::Repeated, "long ago");
        // Another port is another run.
        assert_eq!(runs.record(sender(2), 0, 20_000), NEXT);
        assert_eq!(runs.record(sender(2), 1, 20_000), NEXT);
        assert_eq!(runs.record(sender(1), 5000, 20_001), NEXT);
    }

    #[test]
    fn who_connects_again_goes_on_and_repeats() {
        let mut runs = Sequences::default();
        for number in 0..10 {
            runs.record(sender(1), number, 1000 + number);
        }
        runs.close(sender(1));
        assert_eq!(runs.record(sender(2), 8, 1008), Arrival::Repeated);
        assert_eq!(runs.record(sender(2), 9, 1009), Arrival::Repeated);
        assert_eq!(runs.record(sender(2), 10, 1010), NEXT);
        runs.close(sender(2));
        assert_eq!(runs.record(sender(3), 14, 1014), Arrival::Next { lost: 3 });
        assert_eq!(runs.known().count(), 1);
    }

    /// In one file, whatever the order of their numbers and the starts of their requests.
    #[test]
    fn writers_of_one_file_number_their_own_lines() {
        for firsts in [[100_000, 50_000], [50_000, 100_000], [0, 0], [7, 9]] {
            let mut runs = Sequences::default();
            let mut lost = 0;
            let lines = (0..12_000_u64).map(|at| {
                let (number, writer) = (at / 2, at % 2);
                let slow_ms = [0, 3000, 200, 0, 5000][(at % 5) as usize];
                (firsts[writer as usize] + number, 10_000 + at * 10 - slow_ms + writer)
            });
            for (number, start) in lines.clone() {
                match runs.record(NOBODY, number, start) {
                    Arrival::Next { lost: more } => lost += more,
                    Arrival::Late => {}
                    Arrival::Repeated => panic!("{firsts:?}: {number}"),
                }
            }
            // The first line of the second one may be taken for a later one of the first.
            assert!(lost < 50_000, "{firsts:?}: {lost}");
            for (number, start) in lines.skip(12_000 - 8) {
                assert_eq!(runs.record(NOBODY, number, start), Arrival::Repeated, "{firsts:?}");
            }
        }
    }

    /// Also if its requests are older; what is missing is missing in its own run.
    #[test]
    fn a_log_behind_another_counts() {
        let mut runs = Sequences::default();
        let mut record = |number: u64| runs.record(NOBODY, number, 1_000_000 - number);
        for number in (700_000..705_000).chain(20_000..25_000) {
            assert_eq!(record(number), NEXT, "{number}");
        }
        assert_eq!(record(25_002), Arrival::Next { lost: 2 });
        assert_eq!(record(705_001), Arrival::Next { lost: 1 });
        assert_eq!(record(24_000), Arrival::Repeated);
        assert_eq!(record(3), NEXT);
        assert_eq!(record(4), NEXT);
        assert_eq!(record(3), Arrival::Repeated);
    }

    /// Each restart of Squid begins at 0, and runs of the past take no line of the current one.
    #[test]
    fn a_file_has_no_more_runs_than_write_to_it() {
        let mut runs = Sequences::default();
        for run in 0..100 {
            for number in (0..5000).filter(|number| number % 1000 != run) {
                let lost = u64::from(number % 1000 == run + 1);
                let next = Arrival::Next { lost: if number == 1 { 0 } else { lost } };
                assert_eq!(runs.record(NOBODY, number, run * 10_000 + number), next, "{run}");
            }
            assert!(runs.runs.len() <= 2, "{run}");
        }
    }

    #[test]
    fn another_process_goes_on() {
        let mut runs = Sequences::default();
        for number in 0..10 {
            runs.record(sender(1), number, 1000 + number);
        }
        let known: Vec<Known> = runs.known().cloned().collect();
        for port in [1, 2] {
            let mut runs = Sequences::restored(&known);
            let first = runs.record(sender(port), 12, 1012);
            assert_eq!(first, Arrival::Next { lost: 2 });
            let mut runs = Sequences::restored(&known);
            runs.record(sender(port), 10, 1010);
            assert_eq!(runs.record(sender(port), 9, 1009), Arrival::Repeated);
        }
    }

    #[test]
    fn there_is_an_end_to_runs_and_numbers() {
        let mut runs = Sequences::default();
        for port in 1..1000 {
            assert_eq!(runs.record(sender(port), 5, u64::from(port)), NEXT);
        }
        assert_eq!(runs.runs.len(), RUNS_MAX);
        assert_eq!(runs.record(sender(999), u64::MAX, 2000), NEXT);
        assert_eq!(runs.record(sender(999), u64::MAX, 2001), NEXT);
        assert_eq!(runs.record(sender(999), 0, 2002), NEXT);
        assert_eq!(runs.record(sender(999), 3, u64::MAX), Arrival::Next { lost: 2 });
    }
}
