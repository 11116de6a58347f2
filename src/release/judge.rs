//! Compares a release with the one before it.
//!
//! Neighbouring windows of the same code differ by more than chance alone, so a plain test between
//! two releases raises false alarms. The measure here is how much the old release differed from
//! itself:
//!
//! ```text
//!   old windows      .. 5 4 3 2 1 0 | new
//!   d_k              window k less the mean of those before it, k = 0 1 2 ..: placebos
//!   d_new            the new window less the mean of the same number before it
//!   t                d_new / sqrt(v (1 + 1/K)),  v = mean d_k^2, and no less than chance alone gives
//! ```
//!
//! Times are compared by the mean of their logarithm, less the median over all scripts, since load
//! moves all of them; that median is tested as a script of its own. Errors are compared by the arc
//! sine of the square root of their share. Pure arithmetic; `tracker` supplies the sums.

use std::collections::BTreeMap;
use std::f64::consts::FRAC_PI_2;
use std::iter::{self, Sum};
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::blocks::{Times, quantile};
use super::tracker::COARSE;
use super::verdict::{
    ERRORS, FASTER, FEWER, Finding, MORE, NO_CHANGE, NOT_ENOUGH, SLOWER, STATUS, Verdict,
};

/// Expected share of false findings (Benjamini-Hochberg). Without a change, this bounds the chance
/// of any finding in a verdict.
const FALSE_SHARE: f64 = 0.02;
/// Smallest change reported, as a share.
const CHANGE_MIN: f64 = 0.1;
/// Fewest requests of a script in the new window, and in the windows before it.
pub(super) const REQUESTS_MIN: u64 = 100;
/// Fewest requests of a script in each of the old windows that are compared with it.
const OLD_REQUESTS_MIN: u64 = 10;
/// Fewest errors on one side.
const ERRORS_MIN: u64 = 5;
/// Fewest scripts whose median stands for all of them.
const COMMON_MIN: usize = 5;
/// Fewest requests of a script that is new, or gone.
const NEW_MIN: u64 = 20;
/// A status counts as new if the chance of so many requests with it is below this.
const STATUS_CHANCE: f64 = 0.001;
/// Maximum number of findings, new scripts and gone scripts that a verdict lists.
const LISTED_MAX: usize = 20;

/// Sums over the requests of a script in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    /// Requests.
    pub(super) requests: u64,
    /// Requests with an error status.
    pub(super) errors: u64,
    /// Request time, microseconds.
    pub(super) time_us: u64,
    /// Requests whose time is in `ln` and `ln_squared`.
    pub(super) timed: u64,
    /// Sum of the natural logarithms of times in microseconds.
    pub(super) ln: f64,
    /// Sum of their squares.
    pub(super) ln_squared: f64,
}

impl AddAssign<&Self> for Cell {
    fn add_assign(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.time_us = self.time_us.saturating_add(other.time_us);
        self.timed += other.timed;
        self.ln += other.ln;
        self.ln_squared += other.ln_squared;
    }
}

impl<'a> Sum<&'a Self> for Cell {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        let mut sum = Self::default();
        all.for_each(|it| sum += it);
        sum
    }
}

impl Cell {
    /// A measure in the scale of tests: mean of the logarithm of times, or share of errors, its
    /// variance made alike (arc sine of its root).
    fn score(&self, measure: Measure) -> Option<f64> {
        let share = (self.errors as f64 + 0.375) / (self.requests as f64 + 0.75);
        let (count, score) = match measure {
            Measure::Time => (self.timed, self.ln / self.timed as f64),
            Measure::Errors => (self.requests, share.min(1.0).sqrt().asin()),
        };
        (count >= OLD_REQUESTS_MIN).then_some(score)
    }

    /// A measure for people: geometric mean of times, seconds, or share of errors.
    fn shown(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Time => (self.ln / self.timed.max(1) as f64).exp() / 1e6,
            Measure::Errors => self.errors as f64 / self.requests.max(1) as f64,
        }
    }

    /// Variance of a score, times the number of requests.
    fn variance(&self, measure: Measure) -> f64 {
        let count = self.timed.max(2) as f64;
        let of_ln = (self.ln_squared - self.ln * self.ln / count) / (count - 1.0);
        if measure == Measure::Time { of_ln.max(0.0) } else { 0.25 }
    }
}

/// What is compared of a script.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Measure {
    Time,
    Errors,
}

/// How many windows are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Method {
    /// Windows whose mean each window is compared with.
    pub(super) before: usize,
    /// Fewest and most placebos.
    pub(super) placebos: [usize; 2],
}

impl Method {
    /// Number of old windows it looks at.
    pub(super) const fn windows(&self) -> usize {
        self.before + self.placebos[1]
    }
}

/// Windows of `releases.after`: by default half an hour each, over a day.
pub(super) const SHORT_WINDOWS: Method = Method { before: 4, placebos: [12, 48] };
/// Days, over two weeks.
pub(super) const DAYS: Method = Method { before: 1, placebos: [6, 13] };

/// A script under both releases.
#[derive(Debug, Clone, Default)]
pub(super) struct Script {
    /// Its name.
    pub(super) name: String,
    /// The new release.
    pub(super) new: Cell,
    /// The windows right before it, as far as they can be used.
    pub(super) before: Cell,
    /// Windows of the old release, newest first; `None` if a window cannot be used.
    pub(super) old: Vec<Option<Cell>>,
    /// Requests of the old release in all its life; `None` if unknown.
    pub(super) old_total: Option<u64>,
    /// Times in these and of the new release; empty if not known.
    pub(super) times: [Times; 2],
    /// Statuses of the new release, each with its requests under the new and the old one.
    pub(super) statuses: Vec<(u32, u64, u64)>,
}

/// Result of one test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trial {
    pub(super) p: f64,
    /// Standard error of the difference, placebos included.
    pub(super) error: f64,
    /// Whether no placebo is as large.
    pub(super) exceeds: bool,
}

impl Trial {
    /// Tests a difference against placebos, whose variance is at least `floor`.
    pub(super) fn of(difference: f64, placebos: &[f64], floor: f64) -> Self {
        let count = placebos.len() as f64;
        let squares: f64 = placebos.iter().map(|it| it * it).sum();
        let error = ((squares / count).max(floor) * (1.0 + 1.0 / count)).sqrt();
        let p = t_tail(difference / error.max(f64::MIN_POSITIVE), placebos.len());
        let largest = placebos.iter().fold(0.0_f64, |most, it| most.max(it.abs()));
        Self { p, error, exceeds: difference.abs() > largest }
    }
}

/// Two-sided tail of Student's t with whole degrees of freedom: the finite sums of Abramowitz and
/// Stegun, 26.7.3 and 26.7.4. Exact to about 1e-15 in all.
pub(super) fn t_tail(t: f64, freedom: usize) -> f64 {
    let angle = (t.abs() / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    for at in ((if is_odd { 2 } else { 1 })..freedom.saturating_sub(2)).step_by(2) {
        term *= cosine * cosine * at as f64 / (at + 1) as f64;
        sum += term;
    }
    let inside = if is_odd { (angle + sine * sum) / FRAC_PI_2 } else { sine * sum };
    (1.0 - inside).max(0.0)
}

/// Chance of `count` or more events where `mean` are expected (Poisson).
pub(super) fn poisson_tail(count: u64, mean: f64) -> f64 {
    let next = |(term, at): &(f64, f64)| Some((term * (mean / at), at + 1.0));
    let terms = iter::successors(Some(((-mean).exp(), 1.0)), next).map(|it| it.0);
    let below: f64 = terms.take(count as usize).take_while(|term| *term > 0.0).sum();
    (1.0 - below).max(0.0)
}

/// Largest accepted chance of Benjamini and Hochberg, or `None`.
pub(super) fn accepted(chances: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = chances.collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let mut places = sorted.iter().enumerate().rev();
    places.find(|(at, p)| **p <= FALSE_SHARE * (at + 1) as f64 / count).map(|(_, p)| *p)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(values[low], values[high]))
}

/// Differences of a script, or of all of them.
struct Differences {
    script: Option<String>,
    before: Cell,
    new: Cell,
    /// The new one first, then the placebos; each may be unknown.
    all: Vec<Option<f64>>,
    /// The new one before the shift that all scripts have in common is subtracted.
    raw: Option<f64>,
    /// Variance that chance alone gives.
    floor: f64,
}

/// A test, and what it found if its chance is small enough.
struct Tested {
    finding: Finding,
    /// Whether the change is large, and larger than any placebo.
    is_notable: bool,
    /// Smallest change of the time of a script that it would have found.
    seen: Option<f64>,
}

impl Differences {
    fn of(script: &Script, method: Method, measure: Measure) -> Option<Self> {
        let Script { before, new, .. } = *script;
        let is_rare = new.requests.min(before.requests) < REQUESTS_MIN;
        let fails = new.errors.max(before.errors) >= ERRORS_MIN;
        if is_rare || measure == Measure::Errors && !fails {
            return None;
        }
        let windows = [&[Some(new)][..], &script.old].concat();
        let all = windows.windows(method.before + 1).map(|windows| {
            let before = windows[1..].iter().map(Option::as_ref).sum::<Option<Cell>>()?;
            Some(windows[0]?.score(measure)? - before.score(measure)?)
        });
        let all: Vec<Option<f64>> = all.take(1 + method.placebos[1]).collect();
        let parts = 1.0 / new.requests as f64 + 1.0 / before.requests as f64;
        Some(Self {
            script: Some(script.name.clone()),
            raw: all[0],
            all,
            floor: before.variance(measure) * parts,
            before,
            new,
        })
    }

    /// Of all scripts: the median of each difference, unknown where there are too few of them.
    fn common(of: &[Self]) -> Option<Self> {
        let places = 0..of.iter().map(|it| it.all.len()).max()?;
        let median_at = |place: usize| {
            let found: Vec<f64> = of.iter().filter_map(|it| *it.all.get(place)?).collect();
            let is_enough = found.len() >= COMMON_MIN;
            median(found).filter(|_| is_enough)
        };
        let all: Vec<Option<f64>> = places.map(median_at).collect();
        // The variance of a median is half as much again as that of a mean.
        let floor = median(of.iter().map(|it| it.floor).collect())?;
        all[0].is_some().then_some(Self {
            script: None,
            before: of.iter().map(|it| &it.before).sum(),
            new: of.iter().map(|it| &it.new).sum(),
            raw: all[0],
            all,
            floor: FRAC_PI_2 * floor / of.len() as f64,
        })
    }

    fn test(self, method: Method, measure: Measure) -> Option<Tested> {
        let (raw, new) = (self.raw?, self.all[0]?);
        let placebos: Vec<f64> = self.all[1..].iter().flatten().copied().collect();
        if placebos.len() < method.placebos[0] {
            return None;
        }
        let trial = Trial::of(new, &placebos, self.floor);
        let before = self.before.shown(measure);
        let after = match self.script {
            // Of the same mix, so that the difference is the one that was tested.
            None => before * new.exp(),
            Some(_) => self.new.shown(measure),
        };
        // A change of five standard errors is found nine times in ten; a short past has few degrees
        // of freedom, and there it takes six.
        let needed = if placebos.len() < 24 { 6.0 } else { 5.0 };
        let smallest = (trial.error * needed).exp_m1().max(CHANGE_MIN);
        // Load moves all scripts: one must have changed both relative to the others and by itself
        // (`raw`).
        let is_long = new.abs().min(raw.abs()) >= CHANGE_MIN.ln_1p() && new * raw > 0.0;
        let (is_large, words) = match measure {
            Measure::Time => (is_long, [SLOWER, FASTER]),
            Measure::Errors => ((after - before).abs() >= CHANGE_MIN * before, [MORE, FEWER]),
        };
        Some(Tested {
            is_notable: is_large && trial.exceeds,
            seen: self.script.as_ref().filter(|_| measure == Measure::Time).map(|_| smallest),
            finding: Finding {
                script: self.script,
                what: words[usize::from(new < 0.0)].to_owned(),
                before,
                after,
                p: trial.p,
            },
        })
    }
}

/// All tests of a measure.
fn tests(scripts: &[Script], method: Method, measure: Measure) -> Vec<Tested> {
    let found = scripts.iter();
    let mut found: Vec<_> = found.filter_map(|it| Differences::of(it, method, measure)).collect();
    let common = (measure == Measure::Time).then(|| Differences::common(&found)).flatten();
    for (at, shift) in common.iter().flat_map(|it| it.all.iter().enumerate()) {
        for it in found.iter_mut().filter_map(|it| it.all.get_mut(at)) {
            *it = it.zip(*shift).map(|(all, shift)| all - shift);
        }
    }
    found.into_iter().chain(common).filter_map(|it| it.test(method, measure)).collect()
}

/// Statuses that the new release has and the old one never had.
fn statuses(script: &Script) -> impl Iterator<Item = Finding> + '_ {
    // Statuses are of the whole life of a release.
    let new_total: u64 = script.statuses.iter().map(|it| it.1).sum();
    script.statuses.iter().filter_map(move |&(status, new, old)| {
        let old_total = script.old_total.filter(|it| *it > 0)?;
        // Rule of three: the 95 % upper bound for a rate of which nothing was seen.
        let p = poisson_tail(new, 3.0 * new_total as f64 / old_total as f64);
        let is_new = old == 0 && new >= ERRORS_MIN && p < STATUS_CHANCE;
        is_new.then(|| Finding {
            script: Some(script.name.clone()),
            what: format!("{STATUS}{status}"),
            before: 0.0,
            after: new as f64,
            p,
        })
    })
}

/// Requests of all scripts under both releases.
fn requests(scripts: &[Script]) -> [f64; 2] {
    let sum = |of: fn(&Script) -> &Cell| scripts.iter().map(of).sum::<Cell>().requests as f64;
    [sum(|it| &it.before), sum(|it| &it.new)]
}

/// Of the scripts that both releases have, as if both were asked for the same mix: mean times, and
/// two percentiles of those whose times are known of both.
pub(super) fn same_mix(scripts: &[Script], percents: [f64; 2]) -> [Option<[f64; 2]>; 3] {
    let all = requests(scripts);
    let (mut sum, mut means) = (0.0, [0.0; 2]);
    let mut mixed: [BTreeMap<u32, f64>; 2] = Default::default();
    for script in scripts.iter().filter(|it| it.before.requests.min(it.new.requests) > 0) {
        let cells = [script.before, script.new];
        let [old, new] = cells.map(|it| it.requests as f64);
        let weight = f64::midpoint(old / all[0], new / all[1]);
        sum += weight;
        let totals: [u64; 2] = script.times.each_ref().map(|it| it.values().sum());
        let are_known = !totals.contains(&0);
        for (at, cell) in cells.into_iter().enumerate() {
            means[at] += weight * (cell.time_us as f64 / 1e6 / cell.requests as f64);
            for (bucket, count) in script.times[at].iter().filter(|_| are_known) {
                let part = *count as f64 / totals[at] as f64;
                *mixed[at].entry(*bucket).or_default() += weight * part;
            }
        }
    }
    // In billionths, since ranks are of whole numbers.
    let count = |(bucket, part): (u32, f64)| (bucket * COARSE + COARSE / 2, (part * 1e9) as u64);
    let [before, after] = mixed.map(|it| it.into_iter().map(count).collect::<Times>());
    let percentile = |percent| Some([quantile(&before, percent)?, quantile(&after, percent)?]);
    let [low, high] = percents.map(percentile);
    [(sum > 0.0).then(|| means.map(|it| it / sum)), low, high]
}

/// Compares all scripts. A status from `error_status` on is an error. `too_short` says what is
/// missing if the old release has too few windows.
pub(super) fn judge(
    scripts: &[Script],
    method: Method,
    error_status: u32,
    too_short: Option<&str>,
    seconds: u64,
) -> Verdict {
    let measures = [Measure::Time, Measure::Errors].into_iter();
    let tested: Vec<Tested> = measures.flat_map(|it| tests(scripts, method, it)).collect();
    let tests = tested.len();
    let seen: Vec<f64> = tested.iter().filter_map(|it| it.seen).collect();
    let limit = accepted(tested.iter().map(|it| it.finding.p)).unwrap_or(-1.0);
    let found = tested.into_iter().filter(|it| it.finding.p <= limit && it.is_notable);
    let mut findings: Vec<Finding> = found.map(|it| it.finding).collect();
    findings.extend(scripts.iter().flat_map(statuses));
    // What is worst, then what changed most.
    let worst = [ERRORS, SLOWER, FASTER, NO_CHANGE];
    let rank = |it: &Finding| worst.iter().position(|word| *word == it.result(error_status));
    let size = |it: &Finding| it.change().abs().min(f64::MAX);
    findings.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
    findings.truncate(LISTED_MAX);
    let result = match findings.first().map_or(NO_CHANGE, |it| it.result(error_status)) {
        NO_CHANGE if tests == 0 => NOT_ENOUGH,
        result => result,
    };
    let [before, after] = requests(scripts);
    let scale = (after / before.max(1.0)).min(1.0);
    let new = scripts.iter().filter(|it| it.old_total == Some(0) && it.new.requests >= NEW_MIN);
    let gone = scripts
        .iter()
        .filter(|it| it.new.requests == 0 && it.before.requests as f64 * scale >= NEW_MIN as f64);
    let [same_mix, same_mix_p50, same_mix_p95] = same_mix(scripts, [50.0, 95.0]);
    let mut verdict = Verdict {
        seconds,
        result: result.to_owned(),
        tests,
        smallest_seen: median(seen.clone()),
        same_mix,
        same_mix_p50,
        same_mix_p95,
        new: new.map(|it| it.name.clone()).take(LISTED_MAX).collect(),
        gone: gone.map(|it| it.name.clone()).take(LISTED_MAX).collect(),
        findings,
        ..Verdict::default()
    };
    verdict.text = verdict.words(seen.len(), too_short);
    verdict
}
