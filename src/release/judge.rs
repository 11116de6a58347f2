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
//! sine of the square root of their share. Pure arithmetic; [`super::windows`] supplies the sums.

use std::f64::consts::FRAC_PI_2;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::value::text::{change, counted, percent, roughly, secs, visible};

/// Expected share of false findings (Benjamini-Hochberg). Without a change, this bounds the chance
/// of any finding in a verdict.
const FALSE_SHARE: f64 = 0.02;
/// Smallest change reported, as a share.
const CHANGE_MIN: f64 = 0.1;
/// Fewest requests of a script in the new window, and in the windows before it.
const REQUESTS_MIN: u64 = 100;
/// Fewest requests of a script in each of the old windows that are compared with it.
const OLD_REQUESTS_MIN: u64 = 10;
/// Fewest errors on one side.
const ERRORS_MIN: u64 = 5;
/// Fewest scripts whose median stands for all of them.
const COMMON_MIN: usize = 5;
/// Fewest requests of a script that is new, or gone.
const NEW_MIN: f64 = 20.0;
/// Largest chance of a status that counts as new.
const STATUS_CHANCE: f64 = 0.001;
/// Maximum number of findings, new scripts and gone scripts that a verdict lists.
const LISTED_MAX: usize = 20;

/// Sums over the requests of a script in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Requests.
    pub requests: u64,
    /// Requests with an error status.
    pub errors: u64,
    /// Request time, microseconds.
    pub time_us: u64,
    /// Requests counted in the next two.
    pub timed: u64,
    /// Sum of the natural logarithms of times in microseconds.
    pub ln: f64,
    /// Sum of their squares.
    pub ln_squared: f64,
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

impl Cell {
    /// Mean of the logarithm of times.
    fn time(&self) -> Option<f64> {
        (self.timed >= OLD_REQUESTS_MIN).then(|| self.ln / self.timed as f64)
    }

    /// Transformed share of errors.
    fn failure(&self) -> Option<f64> {
        let share = (self.errors as f64 + 0.375) / (self.requests as f64 + 0.75);
        (self.requests >= OLD_REQUESTS_MIN).then(|| share.min(1.0).sqrt().asin())
    }

    fn error_share(&self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }

    fn mean_secs(&self) -> f64 {
        self.time_us as f64 / 1e6 / self.requests.max(1) as f64
    }

    /// Variance of the logarithm of times.
    fn variance(&self) -> f64 {
        let count = self.timed as f64;
        ((self.ln_squared - self.ln * self.ln / count) / (count - 1.0).max(1.0)).max(0.0)
    }
}

/// How many windows are compared.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Windows whose mean each window is compared with.
    pub before: usize,
    /// Fewest placebos.
    pub placebos_min: usize,
    /// Most placebos.
    pub placebos_max: usize,
}

/// Windows of half an hour, over a day.
pub const HALF_HOURS: Method = Method {
    before: 4,
    placebos_min: 12,
    placebos_max: 48,
};
/// Days, over two weeks.
pub const DAYS: Method = Method {
    before: 1,
    placebos_min: 6,
    placebos_max: 13,
};

impl Method {
    /// Number of old windows it looks at.
    #[must_use]
    pub const fn windows(&self) -> usize {
        self.before + self.placebos_max
    }
}

/// A script under both releases.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// The new release.
    pub new: Cell,
    /// Windows of the old release, newest first; `None` if a window cannot be used.
    pub old: Vec<Option<Cell>>,
    /// Requests of the old release in all its life.
    pub old_total: u64,
    /// Statuses of the new release, each with its requests under the new and the old one.
    pub statuses: Vec<(u32, u64, u64)>,
}

/// Outcome of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A script, or all of them, became slower.
    #[serde(rename = "slower")]
    Slower,
    /// Something became faster and nothing slower.
    #[serde(rename = "faster")]
    Faster,
    /// More errors, or a new status of errors.
    #[serde(rename = "errors")]
    Errors,
    /// Nothing beyond what the old release varies by itself.
    #[serde(rename = "no notable change")]
    NoChange,
    /// Too few requests, or too short a past.
    #[serde(rename = "not enough to judge")]
    NotEnough,
}

impl Outcome {
    /// Its words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Errors => "errors",
            Self::NoChange => "no notable change",
            Self::NotEnough => "not enough to judge",
        }
    }

    /// Returns true if somebody should look.
    #[must_use]
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Slower | Self::Errors)
    }
}

/// A difference between two releases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The script; `None` for all of them.
    pub script: Option<String>,
    /// `slower`, `faster`, `more errors`, `fewer errors`, or `status 503`.
    pub what: String,
    /// Typical time (geometric mean) in seconds, or share of errors; of a status its requests.
    pub before: f64,
    /// The same of the new release.
    pub after: f64,
    /// Chance of such a difference without a change.
    pub p: f64,
}

impl Finding {
    /// Returns the texts of both values.
    #[must_use]
    pub fn values(&self) -> [String; 2] {
        [self.before, self.after].map(|it| match self.what.as_str() {
            "slower" | "faster" => secs(it),
            "more errors" | "fewer errors" => percent(it * 100.0),
            _ => counted(it as u64, "request"),
        })
    }

    /// Returns true if it is for the better.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self.what.as_str(), "faster" | "fewer errors")
    }

    /// Returns the change as a share; infinite from nothing.
    #[must_use]
    pub fn change(&self) -> f64 {
        self.after / self.before - 1.0
    }

    fn text(&self) -> String {
        let script = visible(self.script.as_deref().unwrap_or("all scripts"));
        let [before, after] = self.values();
        match self.what.as_str() {
            "slower" | "faster" => {
                format!("{script} {} ({before} to {after})", change(self.change()))
            }
            what => format!("{script} {what} ({before} to {after})"),
        }
    }
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// When it was made, unix seconds.
    pub at: u64,
    /// Seconds of the new release that it covers.
    pub seconds: u64,
    /// The outcome.
    pub result: Outcome,
    /// The outcome and the largest difference, in one line.
    pub text: String,
    /// The release before.
    pub against: String,
    /// Number of tests.
    pub tests: usize,
    /// Smallest change of time, as a share, that would have been found in scripts with half of the
    /// requests.
    pub smallest_seen: Option<f64>,
    /// Mean time of the scripts that both have, weighted by the same mix, seconds: before and after.
    pub same_mix: Option<[f64; 2]>,
    /// Differences, those that matter most first.
    pub findings: Vec<Finding>,
    /// Scripts that only the new release has.
    pub new: Vec<String>,
    /// Scripts that only the old release has.
    pub gone: Vec<String>,
}

/// Result of one test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trial {
    pub(super) t: f64,
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
        let t = difference / error.max(f64::MIN_POSITIVE);
        let largest = placebos.iter().fold(0.0_f64, |most, it| most.max(it.abs()));
        Self {
            t,
            p: t_tail(t, placebos.len()),
            error,
            exceeds: difference.abs() > largest,
        }
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
    let inside = match is_odd {
        true => (angle + sine * sum) / FRAC_PI_2,
        false => sine * sum,
    };
    (1.0 - inside).max(0.0)
}

/// Chance of `count` or more events where `mean` are expected (Poisson).
pub(super) fn poisson_tail(count: u64, mean: f64) -> f64 {
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for at in 0..count {
        below += term;
        term *= mean / (at + 1) as f64;
        if term == 0.0 {
            break;
        }
    }
    (1.0 - below).max(0.0)
}

/// Largest accepted chance of Benjamini and Hochberg, or `None`.
pub(super) fn accepted(chances: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = chances.collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let mut places = sorted.iter().enumerate().rev();
    let accepted = places.find(|(at, p)| **p <= FALSE_SHARE * (at + 1) as f64 / count);
    accepted.map(|(_, p)| *p)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(values[low], values[high]))
}

/// Sum of adjacent windows, if all of them can be used.
fn pooled(windows: &[Option<Cell>]) -> Option<Cell> {
    let mut sum = Cell::default();
    windows.iter().try_for_each(|it| {
        sum += it.as_ref()?;
        Some(())
    })?;
    (!windows.is_empty()).then_some(sum)
}

/// Differences of one script: the new one first, then the placebos; each may be unknown.
struct Differences<'a> {
    script: &'a Script,
    before: Cell,
    all: Vec<Option<f64>>,
}

impl<'a> Differences<'a> {
    fn of(
        script: &'a Script,
        method: Method,
        measure: impl Fn(&Cell) -> Option<f64>,
    ) -> Option<Self> {
        let before = pooled(script.old.get(..method.before)?)?;
        if script.new.requests.min(before.requests) < REQUESTS_MIN {
            return None;
        }
        let mut all = vec![Some(measure(&script.new)? - measure(&before)?)];
        all.extend(script.old.windows(method.before + 1).map(|windows| {
            Some(measure(windows[0].as_ref()?)? - measure(&pooled(&windows[1..])?)?)
        }));
        all.truncate(1 + method.placebos_max);
        Some(Self {
            script,
            before,
            all,
        })
    }

    /// The new difference and the placebos, if there are enough.
    fn placebos(&self, method: Method) -> Option<(f64, Vec<f64>)> {
        let (new, placebos) = self.all.split_first()?;
        let placebos: Vec<f64> = placebos.iter().flatten().copied().collect();
        Some(((*new)?, placebos)).filter(|it| it.1.len() >= method.placebos_min)
    }
}

/// A test, and what it found if its chance is small enough.
struct Tested {
    trial: Trial,
    finding: Finding,
    is_large: bool,
}

/// The median over scripts of each difference, `None` where there are too few of them.
fn common(scripts: &[Differences<'_>]) -> Vec<Option<f64>> {
    let places = 0..scripts.iter().map(|it| it.all.len()).max().unwrap_or(0);
    let median = |place: usize| {
        let found = scripts.iter().filter_map(|it| *it.all.get(place)?);
        let found: Vec<f64> = found.collect();
        median(found.clone()).filter(|_| found.len() >= COMMON_MIN)
    };
    places.map(median).collect()
}

/// Tests the times of all scripts. Returns the tests, and the smallest change that each would have
/// found with the script's requests.
fn times(scripts: &[Script], method: Method) -> (Vec<Tested>, Vec<(f64, u64)>) {
    let scripts = scripts.iter();
    let mut scripts: Vec<_> = scripts
        .filter_map(|it| Differences::of(it, method, Cell::time))
        .collect();
    let common = common(&scripts);
    let (mut tested, mut seen, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    let has_common = common.first().is_some_and(Option::is_some);
    for it in &mut scripts {
        let raw = it.all[0].unwrap_or_default();
        if has_common {
            let shifts = common.iter().chain(std::iter::repeat(&None));
            for (difference, shift) in it.all.iter_mut().zip(shifts) {
                *difference = difference.zip(*shift).map(|(a, b)| a - b);
            }
        }
        let Some((new, placebos)) = it.placebos(method) else {
            continue;
        };
        let (requests, before) = (it.script.new.timed as f64, it.before.timed as f64);
        let floor = it.before.variance() * (1.0 / requests + 1.0 / before);
        floors.push(floor);
        let trial = Trial::of(new, &placebos, floor);
        // What five errors make is found in nine of ten, with the few freedoms of a short past six.
        let needed = if placebos.len() < 24 { 6.0 } else { 5.0 };
        let smallest = (trial.error * needed).exp_m1().max(CHANGE_MIN);
        seen.push((smallest, it.script.new.requests));
        tested.push(Tested {
            is_large: is_large(new) && is_large(raw) && (new > 0.0) == (raw > 0.0),
            finding: time_finding(
                Some(it.script.name.clone()),
                [&it.before, &it.script.new],
                trial,
            ),
            trial,
        });
    }
    let placebos: Vec<f64> = common.iter().skip(1).flatten().copied().collect();
    if let Some(new) = common.first().copied().flatten()
        && placebos.len() >= method.placebos_min
        && !floors.is_empty()
    {
        // The variance of a median is half as much again as that of a mean.
        let count = floors.len() as f64;
        let floor = FRAC_PI_2 * median(floors).unwrap_or_default() / count;
        let trial = Trial::of(new, &placebos, floor);
        let mut all = [Cell::default(), Cell::default()];
        for it in &scripts {
            all[0] += &it.before;
            all[1] += &it.script.new;
        }
        let mut finding = time_finding(None, [&all[0], &all[1]], trial);
        // Of the same mix, so that the difference is what was tested.
        finding.after = finding.before * new.exp();
        tested.push(Tested {
            is_large: is_large(new),
            finding,
            trial,
        });
    }
    (tested, seen)
}

fn is_large(difference: f64) -> bool {
    // Either way: a tenth slower, or as fast as if the other were a tenth slower.
    difference.abs() >= CHANGE_MIN.ln_1p()
}

fn time_finding(script: Option<String>, cells: [&Cell; 2], trial: Trial) -> Finding {
    let [before, after] = cells.map(|it| it.time().unwrap_or_default().exp() / 1e6);
    Finding {
        script,
        what: if trial.t > 0.0 { "slower" } else { "faster" }.to_owned(),
        before,
        after,
        p: trial.p,
    }
}

/// Tests the errors of all scripts that have some.
fn errors(scripts: &[Script], method: Method) -> Vec<Tested> {
    let tested = scripts.iter().filter_map(|script| {
        let it = Differences::of(script, method, Cell::failure)?;
        if script.new.errors.max(it.before.errors) < ERRORS_MIN {
            return None;
        }
        let (new, placebos) = it.placebos(method)?;
        let floor = (1.0 / script.new.requests as f64 + 1.0 / it.before.requests as f64) / 4.0;
        let trial = Trial::of(new, &placebos, floor);
        let (before, after) = (it.before.error_share(), script.new.error_share());
        let what = if new > 0.0 {
            "more errors"
        } else {
            "fewer errors"
        };
        Some(Tested {
            trial,
            is_large: (after - before).abs() >= CHANGE_MIN * before,
            finding: Finding {
                script: Some(script.name.clone()),
                what: what.to_owned(),
                before,
                after,
                p: trial.p,
            },
        })
    });
    tested.collect()
}

/// Statuses that the new release has and the old one never had.
fn statuses(script: &Script) -> impl Iterator<Item = Finding> + '_ {
    script
        .statuses
        .iter()
        .filter_map(move |&(status, new, old)| {
            let expected = 3.0 * script.new.requests as f64 / script.old_total.max(1) as f64;
            let p = poisson_tail(new, expected);
            (old == 0 && script.old_total > 0 && new >= ERRORS_MIN && p < STATUS_CHANCE).then(
                || Finding {
                    script: Some(script.name.clone()),
                    what: format!("status {status}"),
                    before: 0.0,
                    after: new as f64,
                    p,
                },
            )
        })
}

/// Mean times of the scripts that both releases have, as if both were asked for the same mix.
pub(super) fn same_mix(scripts: &[(Cell, Cell)]) -> Option<[f64; 2]> {
    let sum = |of: fn(&(Cell, Cell)) -> u64| scripts.iter().map(of).sum::<u64>().max(1) as f64;
    let (old, new) = (sum(|it| it.0.requests), sum(|it| it.1.requests));
    let (mut weights, mut means) = (0.0, [0.0; 2]);
    for (before, after) in scripts
        .iter()
        .filter(|it| it.0.requests.min(it.1.requests) > 0)
    {
        let weight = f64::midpoint(before.requests as f64 / old, after.requests as f64 / new);
        weights += weight;
        means[0] += weight * before.mean_secs();
        means[1] += weight * after.mean_secs();
    }
    (weights > 0.0).then(|| means.map(|it| it / weights))
}

/// The change that would have been seen in scripts with half of the requests.
fn typical(mut seen: Vec<(f64, u64)>) -> Option<f64> {
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = seen.iter().map(|it| it.1).sum::<u64>() / 2;
    let mut sum = 0;
    let found = seen.iter().find(|it| {
        sum += it.1;
        sum > half
    });
    found.map(|it| it.0)
}

/// Compares all scripts. `error_status`: the lowest status of errors; `at` and `seconds`: when the
/// verdict is made, and the length of the new window. `too_short` says what is lacking if the old
/// release has too few windows.
#[must_use]
pub fn judge(
    scripts: &[Script],
    method: Method,
    error_status: u32,
    against: &str,
    too_short: Option<String>,
    (at, seconds): (u64, u64),
) -> Verdict {
    let before = |it: &Script| {
        let windows = it.old.iter().take(method.before).flatten();
        windows.fold(Cell::default(), |mut sum, it| {
            sum += it;
            sum
        })
    };
    let pairs: Vec<(Cell, Cell)> = scripts.iter().map(|it| (before(it), it.new)).collect();
    let (mut tested, seen) = times(scripts, method);
    tested.extend(errors(scripts, method));
    let limit = accepted(tested.iter().map(|it| it.trial.p));
    let tests = tested.len();
    let found = tested.into_iter().filter(|it| {
        limit.is_some_and(|most| it.trial.p <= most) && it.trial.exceeds && it.is_large
    });
    let mut findings: Vec<Finding> = found.map(|it| it.finding).collect();
    findings.extend(scripts.iter().flat_map(statuses));
    let is_error = |it: &Finding| match it.what.strip_prefix("status ") {
        Some(status) => status.parse().is_ok_and(|it: u32| it >= error_status),
        None => it.what == "more errors",
    };
    // Bad news first, then by the size of the change.
    let rank = |it: &Finding| match it.what.as_str() {
        _ if is_error(it) => 0,
        "slower" => 1,
        _ => 2,
    };
    let size = |it: &Finding| (it.after.max(1e-9) / it.before.max(1e-9)).ln().abs();
    findings.sort_by(|a, b| {
        let sizes = size(b).total_cmp(&size(a));
        rank(a).cmp(&rank(b)).then(sizes)
    });
    findings.truncate(LISTED_MAX);
    let total = |of: fn(&(Cell, Cell)) -> u64| pairs.iter().map(of).sum::<u64>() as f64;
    let scale = total(|it| it.1.requests) / total(|it| it.0.requests).max(1.0);
    let named = |is_it: &dyn Fn(&Script, &Cell) -> bool| {
        let mut names: Vec<(u64, String)> = scripts
            .iter()
            .zip(&pairs)
            .filter(|(it, pair)| is_it(it, &pair.0))
            .map(|(it, pair)| (it.new.requests.max(pair.0.requests), it.name.clone()))
            .collect();
        names.sort_by(|a, b| b.cmp(a));
        names.truncate(LISTED_MAX);
        names.into_iter().map(|it| it.1).collect::<Vec<String>>()
    };
    let new = named(&|it, _| it.old_total == 0 && it.new.requests as f64 >= NEW_MIN);
    let gone = named(&|it, before| {
        it.new.requests == 0 && before.requests as f64 * scale.min(1.0) >= NEW_MIN
    });
    let first = findings.first();
    let result = match first {
        Some(it) if is_error(it) => Outcome::Errors,
        Some(it) if it.what == "slower" => Outcome::Slower,
        Some(it) if it.what == "faster" => Outcome::Faster,
        _ if tests == 0 => Outcome::NotEnough,
        _ => Outcome::NoChange,
    };
    let smallest_seen = typical(seen);
    let mut text = result.words().to_owned();
    match first {
        None if tests == 0 => {
            let few = || {
                let span = roughly(seconds as f64);
                format!("no script has {REQUESTS_MIN} requests in {span} under both releases")
            };
            text += &format!(": {}", too_short.unwrap_or_else(few));
        }
        None => {}
        Some(it) => {
            text += &format!(": {}", it.text());
            if findings.len() > 1 {
                text += &format!(", and {} more", findings.len() - 1);
            }
        }
    }
    if tests > 0
        && let Some(smallest) = smallest_seen
    {
        let smallest = percent(smallest * 100.0);
        text +=
            &format!("; a change of {smallest} would be seen in scripts with half of the requests");
    }
    for (names, what) in [(&new, "new"), (&gone, "gone")] {
        if let Some(first) = names.first() {
            text += &format!("; {what}: {}", visible(first));
            if names.len() > 1 {
                text += &format!(" and {} more", names.len() - 1);
            }
        }
    }
    Verdict {
        at,
        seconds,
        result,
        text,
        against: against.to_owned(),
        tests,
        smallest_seen,
        same_mix: same_mix(&pairs),
        findings,
        new,
        gone,
    }
}
