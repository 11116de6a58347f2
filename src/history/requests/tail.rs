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
//! What comes to a sample comes there once, and each of them is as likely to be kept as any other (Li's algorithm L), in
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
/// Where the scripts of origins have their number, that of all without slowest requests, and that of origins nobody has looked
/// up yet.
const SCRIPT_MASK: u64 = 0xffff;
const NO_SCRIPT: u64 = 0;
const UNKNOWN: u64 = 0xffff;
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
    /// By number of the script, the slowest first; nothing for the first, which is that of all others.
    slowest: Vec<Vec<Kept>>,
    /// By number of the script: how long a request has to take to be among its slowest, microseconds. Nearly all requests are
    /// decided by this alone, so it is small.
    slow_from: Vec<u64>,
    /// Errors, and others.
    samples: [Sample; 2],
    random: StdRng,
    /// Rows that were given up for want of memory, ever.
    pub(super) given_up: u64,
}

/// A sample in which everything that came is with the same probability.
///
/// As if each that came had drawn a number from 0 to 1, and those with the least were kept (Li's algorithm L). These numbers
/// are not drawn: how large the largest of them is, and how many come until one has less, is enough.
#[derive(Debug)]
struct Sample {
    seen: u64,
    kept: Vec<Kept>,
    /// Those that are kept have drawn less than this; once it is full, one of them just this.
    bound: f64,
    /// The number of the next one that has drawn less; 0 until it is known.
    next: u64,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            seen: 0,
            kept: Vec::new(),
            bound: 1.0,
            next: 0,
        }
    }
}

/// The largest of so many numbers from 0 to 1.
fn largest_of(count: usize, random: &mut StdRng) -> f64 {
    let number: f64 = random.random();
    number.powf(1.0 / count as f64)
}

impl Sample {
    /// The place of one more that came, if it is to be kept.
    #[inline]
    fn place(&mut self, max: usize, random: &mut StdRng) -> Option<usize> {
        self.seen += 1;
        if self.seen < self.next {
            return None;
        }
        self.draw(max, random)
    }

    #[cold]
    fn draw(&mut self, max: usize, random: &mut StdRng) -> Option<usize> {
        let len = self.kept.len();
        if len < max && self.next == 0 {
            return Some(len);
        }
        let mut place = None;
        let mut first = self.seen;
        if self.next > 0 {
            place = Some(random.random_range(0..len));
            first += 1;
        }
        self.bound *= largest_of(len, random);
        // How many have drawn more before one has drawn less: a geometric distribution.
        let number: f64 = random.random();
        let others = (1.0 - number).ln() / (-self.bound).ln_1p();
        self.next = first.saturating_add(others as u64);
        if self.next > self.seen {
            return place;
        }
        self.draw(max, random)
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
        if max < len {
            // One after the other the one that has drawn most goes; once it was full, of the first that is known.
            let unknown = len + usize::from(self.next == 0);
            for count in max + 1..unknown {
                self.bound *= largest_of(count, random);
            }
            self.next = 0;
        }
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
            slowest: vec![Vec::new()],
            slow_from: vec![u64::MAX],
            samples: Default::default(),
            random: StdRng::seed_from_u64(seed),
            given_up: 0,
        }
    }

    /// The number of an origin's script.
    #[inline]
    pub(super) fn script_of(
        &mut self,
        number: u32,
        origin: &Origin,
        strings: &StringInterner,
    ) -> usize {
        let place = number as usize & (self.origins.len() - 1);
        let (identity, known) = (origin.identity() & !SCRIPT_MASK, self.origins[place]);
        if known & !SCRIPT_MASK == identity && known != identity | UNKNOWN {
            return (known & SCRIPT_MASK) as usize;
        }
        let script = self.script(strings.text(origin.script_name));
        self.origins[place] = identity | script as u64;
        script
    }

    #[cold]
    fn script(&mut self, name: &str) -> usize {
        if let Some(&script) = self.scripts.get(name) {
            return script;
        }
        let script = self.slowest.len();
        if script > SCRIPTS_MAX >> self.halved {
            return NO_SCRIPT as usize;
        }
        self.bytes += SCRIPT_BYTES + name.len();
        self.scripts.insert(name.into(), script);
        self.slowest.push(Vec::with_capacity(SLOWEST + 1));
        self.slow_from.push(if SLOWEST >> self.halved > 0 {
            0
        } else {
            u64::MAX
        });
        script
    }

    /// The slowest of a script have changed.
    fn note_slow_from(&mut self, script: usize) {
        let (of_script, max) = (&self.slowest[script], SLOWEST >> self.halved);
        self.slow_from[script] = match of_script.last() {
            Some(last) if of_script.len() >= max => last.time_us.saturating_add(1),
            _ if max == 0 => u64::MAX,
            _ => 0,
        };
    }

    /// A request came; `copy` makes it one that is kept. Returns whether that was called.
    #[inline]
    pub(super) fn offer(
        &mut self,
        script: usize,
        time_us: u64,
        is_error: bool,
        copy: impl FnOnce() -> Kept,
    ) -> bool {
        let sample = &mut self.samples[usize::from(!is_error)];
        if time_us >= self.slow_from[script] {
            self.add_slow(script, copy());
        } else if let Some(place) = sample.place(most(is_error, self.halved), &mut self.random) {
            let (more, less) = sample.put(place, copy());
            self.bytes = self.bytes + more - less;
        } else {
            return false;
        }
        while self.bytes > self.bytes_max && self.halve() {}
        true
    }

    /// One of the slowest of a script.
    fn add_slow(&mut self, script: usize, kept: Kept) {
        self.bytes += kept.bytes();
        let of_script = &mut self.slowest[script];
        let at = of_script.partition_point(|other| other.time_us >= kept.time_us);
        of_script.insert(at, kept);
        if of_script.len() > SLOWEST >> self.halved
            && let Some(pushed_out) = of_script.pop()
        {
            self.sample(pushed_out);
        }
        self.note_slow_from(script);
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
        for script in 1..self.slowest.len() {
            while self.slowest[script].len() > max
                && let Some(less_slow) = self.slowest[script].pop()
            {
                self.sample(less_slow);
            }
            self.note_slow_from(script);
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
        self.slowest.truncate(1);
        self.slow_from.truncate(1);
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
