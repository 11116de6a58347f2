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
const SCRIPT_BYTES: usize = 128 + SLOWEST * size_of::<Candidate>();
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
    time_us: u64,
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
        match &self.row {
            Row::Copied(kept) => Some(kept),
            Row::Pooled | Row::Missed => None,
        }
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
    /// By number of the script, slowest first; empty for the first, which stands for all others.
    slowest: Vec<Vec<Candidate>>,
    /// By number of the script: the least time of its slowest requests, in microseconds. Nearly all
    /// requests are decided by this alone, so it is small.
    slow_from: Vec<u64>,
    /// Errors, and others.
    samples: [Sample; 2],
    random: StdRng,
    /// Rows given up for lack of memory, since start.
    pub(super) given_up: u64,
}

/// A sample that contains each candidate with the same probability: each draws a number, and those
/// with the smallest are kept.
#[derive(Debug, Default)]
struct Sample {
    seen: u64,
    /// By number, and id.
    kept: BTreeMap<(u64, u64), Candidate>,
    /// The largest number of one that is kept, once it is full.
    bound: Option<u64>,
}

impl Sample {
    /// Offers a candidate for one of `max` places; if it is kept, returns the bytes added and
    /// removed.
    #[inline]
    fn offer(
        &mut self,
        candidate: Candidate,
        max: usize,
        random: &mut StdRng,
    ) -> Option<(usize, usize)> {
        self.seen += 1;
        let number = random.random();
        self.bound.is_none_or(|bound| number < bound).then(|| self.put(number, candidate, max))
    }

    #[cold]
    fn put(&mut self, number: u64, candidate: Candidate, max: usize) -> (usize, usize) {
        let more = candidate.bytes();
        self.kept.insert((number, candidate.id), candidate);
        (more, self.cut(max))
    }

    /// Keeps `max` of them at most; returns the bytes of the others.
    fn cut(&mut self, max: usize) -> usize {
        let mut bytes = 0;
        while self.kept.len() > max
            && let Some((_, gone)) = self.kept.pop_last()
        {
            bytes += gone.bytes();
        }
        if let Some((last, _)) = self.kept.last_key_value()
            && self.kept.len() == max
        {
            self.bound = Some(last.0);
        }
        bytes
    }

    /// The copied ones, with their weights.
    fn rows(&self) -> impl Iterator<Item = (f64, &Kept)> {
        let kept = || self.kept.values().filter_map(Candidate::kept);
        let weight = self.seen as f64 / kept().count().max(1) as f64;
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
            slowest: vec![Vec::new()],
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
        let candidate = Candidate { time_us, id, is_error: known.is_error, row: Row::Pooled };
        if time_us >= self.slow_from[script] {
            self.add_slow(script, candidate);
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
        self.slowest.push(Vec::with_capacity(SLOWEST + 1));
        self.slow_from.push(if SLOWEST >> self.halved > 0 { 0 } else { u64::MAX });
        script
    }

    /// Updates the threshold after a change of a script's slowest.
    fn note_slow_from(&mut self, script: usize) {
        let (of_script, max) = (&self.slowest[script], SLOWEST >> self.halved);
        self.slow_from[script] = match of_script.last() {
            Some(last) if of_script.len() >= max => last.time_us.saturating_add(1),
            _ if max == 0 => u64::MAX,
            _ => 0,
        };
    }

    /// Adds one of the slowest of a script.
    fn add_slow(&mut self, script: usize, candidate: Candidate) {
        self.bytes += candidate.bytes();
        let of_script = &mut self.slowest[script];
        let at = of_script.partition_point(|other| other.time_us >= candidate.time_us);
        of_script.insert(at, candidate);
        if of_script.len() > SLOWEST >> self.halved
            && let Some(pushed_out) = of_script.pop()
        {
            self.bytes -= pushed_out.bytes();
            self.sample(pushed_out);
        }
        self.note_slow_from(script);
    }

    /// Adds a request that is not, or no longer, among the slowest to its sample; returns whether
    /// it is kept.
    #[inline]
    fn sample(&mut self, candidate: Candidate) -> bool {
        let is_error = candidate.is_error;
        let sample = &mut self.samples[usize::from(!is_error)];
        let max = most(is_error, self.halved);
        let Some((more, less)) = sample.offer(candidate, max, &mut self.random) else {
            return false;
        };
        self.bytes = self.bytes + more - less;
        true
    }

    fn candidates_mut(&mut self) -> impl Iterator<Item = &mut Candidate> {
        let sampled = self.samples.iter_mut();
        let sampled = sampled.flat_map(|it| it.kept.values_mut());
        self.slowest.iter_mut().flatten().chain(sampled)
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
        let max = SLOWEST >> self.halved;
        for script in 1..self.slowest.len() {
            while self.slowest[script].len() > max
                && let Some(less_slow) = self.slowest[script].pop()
            {
                self.bytes -= less_slow.bytes();
                self.sample(less_slow);
            }
            self.note_slow_from(script);
        }
        for (sample, is_error) in self.samples.iter_mut().zip([true, false]) {
            self.bytes -= sample.cut(most(is_error, self.halved));
        }
        self.given_up += (candidates - self.candidates_mut().count()) as u64;
        self.halved < OTHERS_MAX.ilog2()
    }

    /// The [copied](Self::copy_out) requests, with their weights.
    pub(super) fn rows(&self) -> impl Iterator<Item = (f64, &Kept)> {
        let slowest = self.slowest.iter().flatten();
        let slowest = slowest.filter_map(|it| Some((1.0, it.kept()?)));
        slowest.chain(self.samples.iter().flat_map(Sample::rows))
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

/// The size limit of a sample; at least one, since otherwise nothing would stand for the rest.
fn most(is_error: bool, halved: u32) -> usize {
    let all = if is_error { ERRORS_MAX } else { OTHERS_MAX };
    (all >> halved).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_each_with_the_same_probability() {
        let mut counts = [0_u32; 40];
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..4_000 {
            let mut sample = Sample::default();
            for id in 0..40 {
                let candidate = Candidate { time_us: 0, id, is_error: false, row: Row::Pooled };
                let _kept = sample.offer(candidate, 10, &mut random);
            }
            assert_eq!((sample.kept.len(), sample.seen), (10, 40));
            let kept = sample.kept.values();
            kept.for_each(|kept| counts[kept.id as usize] += 1);
        }
        // 1,000 each, with a deviation of 27.
        assert!(counts.iter().all(|count| (880..1120).contains(count)), "{counts:?}");
    }
}
