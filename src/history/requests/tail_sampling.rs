//! Selects the requests of a flush period to keep, if not all are: the slowest of each script,
//! errors, and a sample of the rest, such that the weights of any rows add up, on average, to their
//! number.
//!
//! ```text
//!   request --> among the slowest ten of its script? ---- yes ---> kept, weight 1; the one that it pushes out goes on below
//!                         | no
//!                         v
//!   an error: one of a sample of ERRORS_MAX        else: one of a sample of OTHERS_MAX
//!   weight = how many came here / how many of them are kept
//! ```
//!
//! A request enters a sample once, and each of them is equally likely to be kept, in whatever order
//! they come. So with the total number the weights are exact, and estimates are unbiased. Scripts
//! past [`SCRIPTS_MAX`] have no slowest of their own. Past the memory limit, everything is halved,
//! at random or from the less slow end, until the end of the period: weights stay right.
//!
//! Most of the slowest are soon displaced by slower ones. A [`Candidate`] therefore stays in the
//! pool, and is copied only when it is about to leave it or when the tail is read.

use std::collections::{BTreeMap, HashMap};

use ahash::RandomState;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::packed::Kept;
use crate::pool::Pool;

/// Requests kept per script.
const SLOWEST: usize = 10;
/// Scripts with slowest requests of their own.
const SCRIPTS_MAX: usize = 4_096;
/// Errors kept before they are sampled.
const ERRORS_MAX: usize = 1_024;
/// Sample of those that are neither errors nor among the slowest.
const OTHERS_MAX: usize = 2_048;
/// Bytes of a script in addition to its name and requests.
const SCRIPT_BYTES: usize = 128 + (SLOWEST + 2) * size_of::<((u64, u64), Candidate)>();
/// One part in this many of the memory is for data on origins.
const ORIGINS_SHARE: usize = 8;
/// The number of all scripts without slowest requests of their own.
const NO_SCRIPT: u16 = 0;
const _: () = assert!(SCRIPTS_MAX < u16::MAX as usize);
/// Candidates copied under one hold of the lock.
const COPIED: usize = 256;

/// A request to be kept, as things stand.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) id: u64,
    is_error: bool,
    pub(super) row: Row,
}

/// The place of a candidate.
#[derive(Debug)]
pub(super) enum Row {
    /// Only in the pool.
    Pooled,
    Copied(Kept),
    /// It had left the pool before it was copied.
    Missed,
}

impl Candidate {
    fn kept(&self) -> Option<&Kept> {
        let Row::Copied(kept) = &self.row else { return None };
        Some(kept)
    }

    fn bytes(&self) -> usize {
        // With its place in a sample.
        size_of::<((u64, u64), Self)>() + self.kept().map_or(0, Kept::heap_bytes)
    }
}

/// Data on a request's origin.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    /// The last request with it.
    seen: u64,
    /// Its number.
    number: u32,
    script: u16,
    is_error: bool,
}

/// The selection of the current period.
#[derive(Debug)]
pub(super) struct Tail {
    bytes_max: usize,
    /// Bytes taken.
    pub(super) bytes: usize,
    /// How often everything was halved.
    halved: u32,
    scripts: HashMap<Box<str>, u16, RandomState>,
    /// Status of errors, and above.
    error_status: u32,
    /// Indexed by the lowest bits of an origin's id.
    origins: Box<[Known]>,
    /// By number of the script; empty for the first, which stands for all others.
    slowest: Vec<Lowest>,
    /// By number of the script: the least time of its slowest requests, in microseconds. Nearly all
    /// requests are decided by this alone, so it is small.
    slow_from: Vec<u64>,
    /// Errors, and others.
    samples: [Lowest; 2],
    random: StdRng,
    /// Rows given up for lack of memory, since start.
    pub(super) given_up: u64,
}

/// The candidates with the smallest numbers: those of the slowest follow from their times; in a
/// sample each draws one, so each is kept with the same probability.
#[derive(Debug, Default)]
struct Lowest {
    /// How many drew a number.
    seen: u64,
    /// By number, and id.
    kept: BTreeMap<(u64, u64), Candidate>,
    /// The largest number of one that is kept, once it is full.
    bound: Option<u64>,
}

impl Lowest {
    /// Takes out the last one if there are more than `max`.
    fn pop_beyond(&mut self, max: usize) -> Option<Candidate> {
        let popped = (self.kept.len() > max).then(|| self.kept.pop_last()).flatten();
        if self.kept.len() == max {
            self.bound = self.kept.last_key_value().map(|((number, _), _)| *number);
        }
        popped.map(|(_, candidate)| candidate)
    }

    /// The copied ones, each of which stands for `weight` of them, or for its part of all.
    fn rows(&self, weight: Option<f64>) -> impl Iterator<Item = (f64, &Kept)> {
        let kept = || self.kept.values().filter_map(Candidate::kept);
        let weight = weight.unwrap_or_else(|| self.seen as f64 / kept().count().max(1) as f64);
        kept().map(move |kept| (weight, kept))
    }
}

impl Tail {
    pub(super) fn new(bytes_max: usize, error_status: u32, seed: u64) -> Self {
        let origins = 1 << (bytes_max / ORIGINS_SHARE / size_of::<Known>()).max(2).ilog2();
        Self {
            bytes_max: bytes_max.saturating_sub(origins * size_of::<Known>()),
            bytes: 0,
            halved: 0,
            scripts: HashMap::default(),
            error_status,
            origins: vec![Known::default(); origins].into(),
            slowest: vec![Lowest::default()],
            slow_from: vec![u64::MAX],
            samples: Default::default(),
            random: StdRng::seed_from_u64(seed),
            given_up: 0,
        }
    }

    /// Offers a request, whose origin has this id. `held` is the oldest id in the pool: data on an
    /// id found since then is still right, because such a request holds its origin too.
    #[inline]
    pub(super) fn offer(&mut self, (id, held): (u64, u64), number: u32, time_us: u64, pool: &Pool) {
        let place = number as usize & (self.origins.len() - 1);
        let known = self.origins[place];
        if known.number != number || known.seen < held {
            self.origins[place] = self.learn(number, pool);
        }
        let known = &mut self.origins[place];
        known.seen = id;
        let script = usize::from(known.script);
        let candidate = Candidate { id, is_error: known.is_error, row: Row::Pooled };
        if time_us >= self.slow_from[script] {
            self.bytes += candidate.bytes();
            self.slowest[script].kept.insert((u64::MAX - time_us, id), candidate);
            self.cut_slowest(script);
        } else if !self.sample(candidate) {
            return;
        }
        self.make_room();
    }

    #[cold]
    fn learn(&mut self, number: u32, pool: &Pool) -> Known {
        let origin = pool.origins.get(number);
        Known {
            seen: 0,
            number,
            script: self.script(pool.strings.text(origin.script_name)),
            is_error: origin.status >= self.error_status,
        }
    }

    fn script(&mut self, name: &str) -> u16 {
        if let Some(&script) = self.scripts.get(name) {
            return script;
        }
        if self.slowest.len() > SCRIPTS_MAX >> self.halved {
            return NO_SCRIPT;
        }
        let script = self.slowest.len() as u16;
        self.bytes += SCRIPT_BYTES + name.len();
        self.scripts.insert(name.into(), script);
        self.slowest.push(Lowest::default());
        self.slow_from.push(if SLOWEST >> self.halved > 0 { 0 } else { u64::MAX });
        script
    }

    /// Passes on those that are not among the slowest of a script any more.
    fn cut_slowest(&mut self, script: usize) {
        let max = SLOWEST >> self.halved;
        while let Some(pushed_out) = self.slowest[script].pop_beyond(max) {
            self.bytes -= pushed_out.bytes();
            self.sample(pushed_out);
        }
        self.slow_from[script] = match self.slowest[script].bound {
            _ if max == 0 => u64::MAX,
            Some(number) => (u64::MAX - number).saturating_add(1),
            None => 0,
        };
    }

    /// Adds a request that is not, or no longer, among the slowest to its sample; returns whether
    /// it is kept.
    #[inline]
    fn sample(&mut self, candidate: Candidate) -> bool {
        let sample = &mut self.samples[usize::from(!candidate.is_error)];
        sample.seen += 1;
        let number = self.random.random();
        let is_kept = sample.bound.is_none_or(|bound| number < bound);
        if is_kept {
            self.keep(number, candidate);
        }
        is_kept
    }

    #[cold]
    fn keep(&mut self, number: u64, candidate: Candidate) {
        let is_error = candidate.is_error;
        self.bytes += candidate.bytes();
        let sample = &mut self.samples[usize::from(!is_error)];
        sample.kept.insert((number, candidate.id), candidate);
        self.cut_sample(is_error);
    }

    fn cut_sample(&mut self, is_error: bool) {
        // At least one: otherwise nothing would stand for the rest.
        let all = if is_error { ERRORS_MAX } else { OTHERS_MAX };
        let max = (all >> self.halved).max(1);
        while let Some(gone) = self.samples[usize::from(!is_error)].pop_beyond(max) {
            self.bytes -= gone.bytes();
        }
    }

    fn candidates_mut(&mut self) -> impl Iterator<Item = &mut Candidate> {
        self.slowest.iter_mut().chain(&mut self.samples).flat_map(|it| it.kept.values_mut())
    }

    /// Copies those with ids below `before`, some at a time.
    pub(super) fn copy_out(&mut self, before: u64, mut copy: impl FnMut(&mut [&mut Candidate])) {
        let mut is_all = false;
        while !is_all {
            let (bytes_max, mut bytes) = (self.bytes_max, self.bytes);
            let is_due = |it: &&mut Candidate| matches!(it.row, Row::Pooled) && it.id < before;
            let mut due: Vec<_> = self.candidates_mut().filter(is_due).collect();
            due.sort_unstable_by_key(|it| it.id);
            is_all = due.chunks_mut(COPIED).all(|some| {
                copy(some);
                let copied = some.iter().filter_map(|it| it.kept());
                bytes += copied.map(Kept::heap_bytes).sum::<usize>();
                bytes <= bytes_max
            });
            self.bytes = bytes;
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        while self.bytes > self.bytes_max && self.halve() {}
    }

    /// Gives up half of everything; returns false if there is nothing to give up.
    fn halve(&mut self) -> bool {
        let candidates = self.candidates_mut().count();
        self.halved += 1;
        (1..self.slowest.len()).for_each(|script| self.cut_slowest(script));
        [true, false].into_iter().for_each(|is_error| self.cut_sample(is_error));
        self.given_up += (candidates - self.candidates_mut().count()) as u64;
        self.halved < OTHERS_MAX.ilog2()
    }

    /// The [copied](Self::copy_out) requests, with their weights.
    pub(super) fn rows(&self) -> impl Iterator<Item = (f64, &Kept)> {
        let slowest = self.slowest.iter().flat_map(|it| it.rows(Some(1.0)));
        slowest.chain(self.samples.iter().flat_map(|it| it.rows(None)))
    }

    /// Starts a new period.
    pub(super) fn clear(&mut self) {
        self.scripts.clear();
        self.origins.fill(Known::default());
        self.slowest.truncate(1);
        self.slow_from.truncate(1);
        self.samples = Default::default();
        (self.bytes, self.halved) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_each_with_the_same_probability() {
        let mut counts = [0_u32; 40];
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..4_000 {
            let mut sample = Lowest::default();
            for id in 0..40 {
                let candidate = Candidate { id, is_error: false, row: Row::Pooled };
                let number: u64 = random.random();
                sample.seen += 1;
                if sample.bound.is_none_or(|bound| number < bound) {
                    sample.kept.insert((number, id), candidate);
                    let _popped = sample.pop_beyond(10);
                }
            }
            assert_eq!((sample.kept.len(), sample.seen), (10, 40));
            let kept = sample.kept.values();
            kept.for_each(|kept| counts[kept.id as usize] += 1);
        }
        // 1,000 each, with a deviation of 27.
        assert!(counts.iter().all(|count| (880..1120).contains(count)), "{counts:?}");
    }
}
