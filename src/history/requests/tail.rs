//! Which requests of a flush period are kept, when not all are: the slowest of each script, errors, and a sample of the rest,
//! such that the weights of any rows add up, on average, to how many there were.
//!
//! ```text
//!   request --> among the slowest ten of its script? ---- yes ---> kept, weight 1; the one that it pushes out goes on below
//!                         | no
//!                         v
//!   an error: one of a sample of ERRORS_MAX        else: one of a sample of OTHERS_MAX
//!   weight = how many came here / how many of them are kept
//! ```
//!
//! What comes to a sample comes there once, and each of them is as likely to be kept as any other (Vitter's algorithm R), in
//! whatever order they come. So with the number that came as a whole the weights are exact, and no estimate leans to one side.
//! Scripts past [`SCRIPTS_MAX`] have no slowest of their own. Past the bytes that it may take, everything is cut to half, at
//! random or the less slow, until the end of the period: weights stay right.

use std::collections::HashMap;

use ahash::RandomState;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::packed::Kept;
use crate::pool::dimensions::Origin;
use crate::pool::strings::StringInterner;

/// Kept of each script.
const SLOWEST: usize = 10;
/// Scripts that have slowest requests of their own.
const SCRIPTS_MAX: usize = 4_096;
/// Errors that are kept before they are sampled.
const ERRORS_MAX: usize = 1_024;
/// Sample of those that are neither errors nor among the slowest.
const OTHERS_MAX: usize = 2_048;
/// What a script takes beside its name and its requests.
const SCRIPT_BYTES: usize = 128 + SLOWEST * size_of::<Kept>();
/// One part in so many of the memory is for the scripts of origins.
const ORIGINS_SHARE: usize = 8;
/// Where the scripts of origins have their number, that of those without slowest requests, and that of origins nobody has looked
/// up yet.
const SCRIPT_MASK: u64 = 0xffff;
const NONE: u64 = 0xffff;
const UNKNOWN: u64 = 0xfffe;
const _: () = assert!(SCRIPTS_MAX < UNKNOWN as usize);

/// What is kept of the period that runs.
#[derive(Debug)]
pub(super) struct Tail {
    bytes_max: usize,
    bytes: usize,
    /// How often everything was halved.
    halved: u32,
    scripts: HashMap<Box<str>, usize, RandomState>,
    /// By the lowest bits of an origin's number: the upper bits of its identity, and the script that was found for it.
    origins: Box<[u64]>,
    /// By number of the script, the slowest first.
    slowest: Vec<Vec<Kept>>,
    /// Errors, and others.
    samples: [Sample; 2],
    random: StdRng,
    /// Rows that were given up for want of memory, ever.
    pub(super) given_up: u64,
}

/// A sample in which everything that came is with the same probability.
#[derive(Debug, Default)]
struct Sample {
    seen: u64,
    kept: Vec<Kept>,
}

impl Sample {
    /// The place of one more that came, if it is to be kept.
    fn place(&mut self, max: usize, random: &mut StdRng) -> Option<usize> {
        self.seen += 1;
        if self.kept.len() < max && self.seen as usize == self.kept.len() + 1 {
            return Some(self.kept.len());
        }
        let place = random.random_range(0..self.seen);
        (place < self.kept.len() as u64).then_some(place as usize)
    }

    /// Puts it there; returns by how many bytes there are more and less.
    fn put(&mut self, place: usize, kept: Kept) -> (usize, usize) {
        let more = kept.bytes();
        match self.kept.get_mut(place) {
            Some(there) => (more, std::mem::replace(there, kept).bytes()),
            None => {
                self.kept.push(kept);
                (more, 0)
            }
        }
    }

    /// Keeps so many of those that it has, at random.
    fn cut(&mut self, max: usize, random: &mut StdRng) -> impl Iterator<Item = Kept> {
        let len = self.kept.len();
        for place in 0..max.min(len) {
            let other = random.random_range(place..len);
            self.kept.swap(place, other);
        }
        self.kept.drain(max.min(len)..)
    }

    fn weight(&self) -> f64 {
        self.seen as f64 / self.kept.len().max(1) as f64
    }
}

impl Tail {
    pub(super) fn new(bytes_max: usize, seed: u64) -> Self {
        let origins = 1
            << (bytes_max / ORIGINS_SHARE / size_of::<u64>())
                .max(2)
                .ilog2();
        Self {
            bytes_max: bytes_max.saturating_sub(origins * size_of::<u64>()),
            bytes: 0,
            halved: 0,
            scripts: HashMap::default(),
            origins: vec![UNKNOWN; origins].into(),
            slowest: Vec::new(),
            samples: Default::default(),
            random: StdRng::seed_from_u64(seed),
            given_up: 0,
        }
    }

    /// The number of an origin's script, if it has slowest requests of its own.
    #[inline]
    pub(super) fn script_of(
        &mut self,
        number: u32,
        origin: &Origin,
        strings: &StringInterner,
    ) -> Option<usize> {
        let place = number as usize & (self.origins.len() - 1);
        let (identity, known) = (origin.identity() & !SCRIPT_MASK, self.origins[place]);
        let script = match known & SCRIPT_MASK {
            UNKNOWN => None,
            script => (known & !SCRIPT_MASK == identity).then_some(script),
        };
        let script = script.unwrap_or_else(|| {
            let script = self.script(strings.text(origin.script_name));
            let script = script.map_or(NONE, |script| script as u64);
            self.origins[place] = identity | script;
            script
        });
        (script != NONE).then_some(script as usize)
    }

    fn script(&mut self, name: &str) -> Option<usize> {
        if let Some(&script) = self.scripts.get(name) {
            return Some(script);
        }
        let script = self.slowest.len();
        if script >= SCRIPTS_MAX >> self.halved {
            return None;
        }
        self.bytes += SCRIPT_BYTES + name.len();
        self.scripts.insert(name.into(), script);
        self.slowest.push(Vec::with_capacity(SLOWEST + 1));
        Some(script)
    }

    /// A request came; `copy` makes it one that is kept. Returns whether that was called.
    #[inline]
    pub(super) fn offer(
        &mut self,
        script: Option<usize>,
        time_us: u64,
        is_error: bool,
        copy: impl FnOnce() -> Kept,
    ) -> bool {
        let max = SLOWEST >> self.halved;
        let is_slow = script.is_some_and(|script| {
            let of_script = &self.slowest[script];
            let last = of_script.last().map(|last| last.time_us);
            of_script.len() < max || max > 0 && last.is_some_and(|last| last < time_us)
        });
        let sample = &mut self.samples[usize::from(!is_error)];
        if let Some(script) = script.filter(|_| is_slow) {
            let kept = copy();
            self.bytes += kept.bytes();
            let of_script = &mut self.slowest[script];
            let at = of_script.partition_point(|other| other.time_us >= time_us);
            of_script.insert(at, kept);
            if of_script.len() > max
                && let Some(pushed_out) = of_script.pop()
            {
                self.sample(pushed_out);
            }
        } else if let Some(place) = sample.place(most(is_error, self.halved), &mut self.random) {
            let (more, less) = sample.put(place, copy());
            self.bytes = self.bytes + more - less;
        } else {
            return false;
        }
        while self.bytes > self.bytes_max && self.halve() {}
        true
    }

    /// What is not among the slowest any more comes to its sample.
    fn sample(&mut self, kept: Kept) {
        self.bytes -= kept.bytes();
        let sample = &mut self.samples[usize::from(!kept.is_error)];
        if let Some(place) = sample.place(most(kept.is_error, self.halved), &mut self.random) {
            let (more, less) = sample.put(place, kept);
            self.bytes = self.bytes + more - less;
        }
    }

    /// Gives up half of what there is; false when there is nothing that could be.
    fn halve(&mut self) -> bool {
        let rows = self.rows().count();
        self.halved += 1;
        let max = SLOWEST >> self.halved;
        for script in 0..self.slowest.len() {
            while self.slowest[script].len() > max
                && let Some(less_slow) = self.slowest[script].pop()
            {
                self.sample(less_slow);
            }
        }
        for (sample, is_error) in self.samples.iter_mut().zip([true, false]) {
            let gone = sample.cut(most(is_error, self.halved), &mut self.random);
            self.bytes -= gone.map(|kept| kept.bytes()).sum::<usize>();
        }
        self.given_up += (rows - self.rows().count()) as u64;
        self.halved < OTHERS_MAX.ilog2()
    }

    /// What is kept, with the weight of each.
    pub(super) fn rows(&self) -> impl Iterator<Item = (f64, &Kept)> {
        let slowest = self.slowest.iter().flatten().map(|kept| (1.0, kept));
        let sampled = self.samples.iter();
        let sampled = sampled.flat_map(|it| it.kept.iter().map(|kept| (it.weight(), kept)));
        slowest.chain(sampled)
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A new period begins.
    pub(super) fn clear(&mut self) {
        self.scripts.clear();
        self.origins.fill(UNKNOWN);
        self.slowest.clear();
        self.samples = Default::default();
        (self.bytes, self.halved) = (0, 0);
    }
}

/// How many a sample has at most; one stays in any case, for without it nothing would stand for the others.
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
            let mut kept = Vec::new();
            for number in 0..40 {
                if let Some(place) = sample.place(10, &mut random) {
                    kept.truncate(10);
                    if place == kept.len() {
                        kept.push(number);
                        sample.kept.push(Kept::empty());
                    } else {
                        kept[place] = number;
                    }
                }
            }
            assert_eq!((kept.len(), sample.seen, sample.weight()), (10, 40, 4.0));
            kept.into_iter().for_each(|number| counts[number] += 1);
        }
        // 1,000 each, with a deviation of 27.
        assert!(
            counts.iter().all(|count| (880..1120).contains(count)),
            "{counts:?}"
        );
    }
}
