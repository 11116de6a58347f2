//! The method of verdicts: its worked examples, and simulated traffic without and with a change.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, Normal, Poisson};

use super::Releases;
use super::blocks::Times;
use super::judge::{
    Cell, DAYS, Method, SHORT_WINDOWS, Script, Trial, accepted, judge, poisson_tail, same_mix,
    t_tail,
};
use super::tracker::COARSE;
use super::verdict::{ERRORS, NO_CHANGE, NOT_ENOUGH, Verdict};
use crate::cli::load::demo::{self, Shop};
use crate::input::record::micros;
use crate::report::histogram::BucketLayout;
use crate::report::totals::Totals;
use crate::state::folder::{KeptFolder, STATE};

fn assert_near(found: f64, expected: f64) {
    let error = (found / expected - 1.0).abs();
    assert!(error < 0.005, "{found}, not {expected}");
}

#[test]
fn a_difference_is_held_against_placebos() {
    let placebos = [10, -20, 15, -5, 0, 20, -15, 5, -10, 10, -20, 10];
    let placebos = placebos.map(|it| f64::from(it) / 1_000.0);
    let squares: f64 = placebos.iter().map(|it| it * it).sum();
    assert_near(squares / 12.0, 0.000_175);
    let slower = Trial::of(1.2_f64.ln(), &placebos, 0.0);
    assert_near(1.2_f64.ln() / slower.error, 13.24);
    assert_near(slower.p, 1.6e-8);
    assert!(slower.exceeds);
    let little = Trial::of(1.04_f64.ln(), &placebos, 0.0);
    assert_near(1.04_f64.ln() / little.error, 2.848);
    assert_near(little.p, 0.0147);
    assert!(!Trial::of(-0.02, &placebos, 0.0).exceeds, "as large as a placebo");
    // Where requests vary more than windows did, they count.
    assert_near(Trial::of(0.1, &placebos, 0.01).error, (0.01_f64 * 13.0 / 12.0).sqrt());
}

/// Quantiles from tables.
#[test]
fn tails_are_those_of_the_tables() {
    for (freedom, t, p) in [
        (1, 12.706, 0.05),
        (2, 4.303, 0.05),
        (3, 5.841, 0.01),
        (7, 2.365, 0.05),
        (12, 3.055, 0.01),
        (13, 4.221, 0.001),
        (48, 2.682, 0.01),
        (60, 3.460, 0.001),
    ] {
        assert_near(t_tail(t, freedom), p);
        assert_near(t_tail(-t, freedom), p);
        assert_near(t_tail(0.0, freedom), 1.0);
    }
    assert!(t_tail(1e300, 12) < 1e-12);
    assert_near(poisson_tail(1, 0.5), 1.0 - (-0.5_f64).exp());
    assert_near(poisson_tail(5, 2.0), 0.052_653);
    assert!(poisson_tail(u64::MAX, 3.0) < 1e-12);
}

#[test]
fn the_share_of_false_findings_is_bounded() {
    let found = |chances: &[f64]| accepted(chances.iter().copied());
    assert_eq!(found(&[0.5, 0.03, 0.0004, 0.2, 0.006]), Some(0.006), "two");
    // The second is small enough, so the first is too.
    assert_eq!(found(&[0.015, 0.012]), Some(0.015));
    assert_eq!(found(&[0.3, 0.02]), None);
    assert_eq!(found(&[]), None);
}

#[test]
fn a_change_of_the_mix_is_none_of_the_code() {
    let cell = |requests: u64, secs: u64| Cell {
        requests,
        time_us: requests * secs * 100_000,
        ..Cell::default()
    };
    let times =
        |us: u64, count| Times::from([(BucketLayout::LogLinear.bucket(us) / COARSE, count)]);
    let script =
        |[before, new]: [Cell; 2], times| Script { before, new, times, ..Script::default() };
    let scripts = [
        script([cell(900, 1), cell(500, 1)], [times(100_000, 900), times(110_000, 500)]),
        script([cell(100, 10), cell(500, 10)], [times(1_000_000, 100), times(1_000_000, 500)]),
        // Neither release has it.
        Script::default(),
    ];
    let [means, found @ ..] = same_mix(&scripts, [50.0, 71.0]);
    let [before, after] = means.unwrap();
    assert_near(before, 0.37);
    assert_near(after, 0.37);
    // Of percentiles, seven of ten requests are those of the first script.
    let expected = [[0.1, 0.11], [1.0, 1.0]];
    for (found, expected) in found.into_iter().flatten().zip(expected) {
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < 0.035, "{found} {expected}");
        }
    }
    assert!(found.iter().all(Option::is_some), "{found:?}");
    // One that only one of them has, and one without times.
    let gone = script([cell(5, 1), cell(0, 0)], [times(100_000, 5), Times::new()]);
    assert_eq!(same_mix(&[gone], [50.0; 2]), [None; 3]);
    let untimed = script([cell(5, 1), cell(5, 1)], [times(100_000, 5), Times::new()]);
    let [means, percentiles @ ..] = same_mix(&[untimed], [50.0; 2]);
    assert_eq!((means.is_some(), percentiles), (true, [None; 2]));
}

/// Simulated traffic: scripts by Zipf, whose level follows a daily wave and drifts.
struct Traffic {
    rng: StdRng,
    /// Requests of all scripts in a window.
    requests: f64,
    /// Standard deviations of the steps from one window to the next, of all scripts and of each.
    drift: [f64; 2],
    method: Method,
    /// Placebos of the past that is known.
    placebos: usize,
    error_share: f64,
}

const SCRIPTS: usize = 40;
/// Standard deviation of the logarithm of times.
const SIGMA: f64 = 0.9;

impl Traffic {
    fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            requests: 22.0 * 1_800.0,
            drift: [0.02, 0.015],
            method: SHORT_WINDOWS,
            placebos: 48,
            error_share: 0.002,
        }
    }

    fn normal(&mut self, deviation: f64) -> f64 {
        let normal = Normal::new(0.0, deviation).unwrap();
        normal.sample(&mut self.rng)
    }

    fn cell(&mut self, expected: f64, level: f64) -> Cell {
        let requests: f64 = Poisson::new(expected).unwrap().sample(&mut self.rng);
        let errors = Poisson::new(expected * self.error_share).unwrap();
        let mean = level + self.normal(SIGMA / requests.max(1.0).sqrt());
        Cell {
            requests: requests as u64,
            errors: (errors.sample(&mut self.rng) as u64).min(requests as u64),
            time_us: (requests * level.exp()) as u64,
            timed: requests as u64,
            ln: requests * mean,
            ln_squared: requests * (mean * mean + SIGMA * SIGMA),
        }
    }

    /// The verdict on a release that makes the script of this place slower by a factor.
    fn verdict(&mut self, planted: Option<(usize, f64)>) -> Verdict {
        let windows = self.method.before + self.placebos + 1;
        let start = self.rng.random_range(0.0..1.0);
        let mut common = 0.0;
        // Half hours go through the day; a day is as busy as another.
        let wave = |at: usize| (std::f64::consts::TAU * (start + at as f64 / 48.0)).sin();
        let is_daily = self.method.before > 1;
        let levels = (0..windows).map(|at| {
            common += self.normal(self.drift[0]);
            common + if is_daily { 0.1 * wave(at) } else { 0.0 }
        });
        let levels: Vec<f64> = levels.collect();
        let weights: f64 = (1..=SCRIPTS).map(|at| 1.0 / at as f64).sum();
        let scripts = (0..SCRIPTS).map(|place| {
            let expected = self.requests / (place + 1) as f64 / weights;
            let mut own = 11.0;
            let cells = levels.iter().map(|common| {
                own += self.normal(self.drift[1]);
                (common + own, expected)
            });
            let cells: Vec<(f64, f64)> = cells.collect();
            let (&(level, _), old) = cells.split_last().unwrap();
            let slower = planted.filter(|it| it.0 == place).map_or(1.0, |it| it.1);
            let new = self.cell(expected, level + slower.ln());
            let old: Vec<Cell> = old.iter().rev().map(|it| self.cell(it.1, it.0)).collect();
            Script {
                name: format!("/{place}"),
                new,
                before: old.iter().take(self.method.before).sum(),
                old: old.into_iter().map(Some).collect(),
                old_total: Some(100_000),
                ..Script::default()
            }
        });
        let scripts: Vec<Script> = scripts.collect();
        judge(&scripts, self.method, 500, None, 1_800)
    }

    /// The part of verdicts in which a script became slower.
    fn found(&mut self, trials: u32, place: usize) -> f64 {
        let name = format!("/{place}");
        let is_found = |verdict: &Verdict| {
            let mut findings = verdict.findings.iter();
            findings.any(|it| it.script.as_deref() == Some(&name) && it.what == "slower")
        };
        let found = (0..trials).filter(|_| is_found(&self.verdict(Some((place, 1.2)))));
        found.count() as f64 / f64::from(trials)
    }

    /// The part of verdicts that find something although nothing changed.
    fn false_alarms(&mut self, trials: u32) -> f64 {
        let found = (0..trials).filter(|_| self.verdict(None).result != NO_CHANGE);
        found.count() as f64 / f64::from(trials)
    }
}

/// The promise of the manual. The sixth script has 1,540 requests in half an hour.
#[test]
fn no_change_raises_no_alarm_and_a_fifth_more_is_found() {
    let share = Traffic::new(1).false_alarms(400);
    assert!(share <= 0.02, "{share}");
    let share = Traffic::new(2).found(400, 5);
    assert!(share >= 0.9, "{share}");
    let mut days =
        Traffic { method: DAYS, placebos: 13, requests: 48.0 * 22.0 * 1_800.0, ..Traffic::new(3) };
    assert!(days.false_alarms(50) <= 0.02);
    assert!(days.found(20, 5) >= 0.9);
}

/// The figures of the manual: `cargo test --lib -- --ignored --nocapture release::tests::figures`.
#[test]
#[ignore = "takes minutes; prints the figures of the manual"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn figures() {
    const TRIALS: u32 = 2_000;
    let with = |change: &dyn Fn(&mut Traffic)| {
        let mut traffic = Traffic::new(7);
        change(&mut traffic);
        let alarms = 100.0 * traffic.false_alarms(TRIALS);
        let found = [5, 20].map(|place| 100.0 * traffic.found(TRIALS / 4, place));
        format!("false {alarms:.2} %, found: 6th {:.1} %, 21st {:.1} %", found[0], found[1])
    };
    println!("a day of old data       {}", with(&|_| ()));
    println!("half a day              {}", with(&|it| it.placebos = 24));
    println!("a quarter               {}", with(&|it| it.placebos = 12));
    println!("drift 5 %, 3 %          {}", with(&|it| it.drift = [0.05, 0.03]));
    println!("111 requests a second   {}", with(&|it| it.requests *= 5.0));
    println!("errors 2 %              {}", with(&|it| it.error_share = 0.02));
    let days = |it: &mut Traffic| {
        it.method = DAYS;
        it.placebos = 13;
        it.requests *= 48.0;
    };
    println!("days                    {}", with(&days));
}

#[test]
fn what_is_new_gone_failing_or_too_rare_is_told() {
    let mut traffic = Traffic::new(4);
    let mut scripts: Vec<Script> = Vec::new();
    for place in 0..8 {
        let expected = if place == 7 { 60.0 } else { 2_000.0 };
        let new = traffic.cell(expected, 11.0);
        let old: Vec<Cell> = (0..40).map(|_| traffic.cell(expected, 11.0)).collect();
        scripts.push(Script {
            name: format!("/{place}"),
            new,
            before: old.iter().take(4).sum(),
            old: old.into_iter().map(Some).collect(),
            old_total: Some(80_000),
            statuses: vec![(200, 1_990, 79_000), (404, 10, 1_000)],
            ..Script::default()
        });
    }
    let verdict =
        |scripts: &[Script], short: Option<&str>| judge(scripts, SHORT_WINDOWS, 500, short, 1_800);
    let none = verdict(&scripts, None);
    assert_eq!((&*none.result, none.findings.len()), (NO_CHANGE, 0), "{none:?}");
    assert!(
        none.text.starts_with("no notable change in 7 scripts; in half of them a change of 1"),
        "{}",
        none.text
    );
    assert!(none.smallest_seen.is_some_and(|it| (0.1..0.3).contains(&it)), "{none:?}");
    let one = verdict(&scripts[..1], None).text;
    assert!(one.starts_with("no notable change in 1 script; a change of "), "{one}");
    // Seven scripts, and all of them; the rare one is not judged.
    let with_errors = scripts.iter().take(7).filter(|it| {
        let before: u64 = it.old[..4].iter().flatten().map(|it| it.errors).sum();
        it.new.errors.max(before) >= 5
    });
    assert_eq!(none.tests, 8 + with_errors.count());

    scripts[0].new.errors += 200;
    scripts[1].new.ln += scripts[1].new.requests as f64 * 0.3;
    scripts[2].new.ln -= scripts[2].new.requests as f64 * 0.3;
    scripts[3].statuses.push((503, 9, 0));
    // As rare as it may have been before, by chance.
    scripts[4].statuses.push((418, 4, 0));
    scripts[5].new = Cell::default();
    scripts[6].old_total = Some(0);
    let found = verdict(&scripts, None);
    assert_eq!(found.result, ERRORS);
    let findings: Vec<(&str, &str)> =
        found.findings.iter().map(|it| (it.script.as_deref().unwrap(), it.what.as_str())).collect();
    let expected =
        [("/3", "status 503"), ("/0", "more errors"), ("/1", "slower"), ("/2", "faster")];
    assert_eq!(findings, expected, "{found:?}");
    assert_eq!((&*found.new, &*found.gone), (&["/6".to_owned()][..], &["/5".to_owned()][..]));
    assert!(
        found.text.starts_with("errors: /3 status 503 (0 requests to 9 requests); 3 other changes"),
        "{}",
        found.text
    );

    let few = verdict(&scripts[7..], None);
    assert_eq!((&*few.result, few.tests), (NOT_ENOUGH, 0));
    assert_eq!(
        few.text,
        "not enough to judge: no script has 100 requests in 30 min under both releases"
    );
    scripts.iter_mut().for_each(|it| it.old.truncate(15));
    let short = verdict(&scripts[..3], Some("too young"));
    assert_eq!(short.text, "not enough to judge: too young");
}

/// The last window has fewer requests than all that the new release had.
#[test]
fn a_new_status_is_held_against_all_requests_of_the_release() {
    let of_statuses = |failed| Script {
        name: "/s".to_owned(),
        new: Cell { requests: 600, ..Cell::default() },
        old_total: Some(3_000),
        statuses: vec![(200, 3_000 - failed, 3_000), (500, failed, 0)],
        ..Script::default()
    };
    let findings = |failed| judge(&[of_statuses(failed)], SHORT_WINDOWS, 500, None, 60).findings;
    // Of three that may have been before, by chance.
    assert_eq!(findings(5).len(), 0);
    assert_eq!(findings(12).len(), 1);
}

#[test]
fn a_rollback_is_told_and_a_roll_out_is_none() {
    let releases = Releases::new(1_800, 500);
    let start = 1_709_157_600;
    // Requests of the old and the new one in each ten seconds.
    let counts = [(60, 0), (40, 20), (0, 60), (4, 56), (30, 30), (60, 0), (0, 20), (0, 40), (0, 0)];
    let mut told = Vec::new();
    for (step, counts) in (0..).zip(counts) {
        let unix = start + 10 * step;
        let mut tracker = releases.watch("release");
        tracker.begin_second(unix, 10);
        for (release, requests) in [("1", counts.0), ("2", counts.1)] {
            let totals = Totals { requests, ..Totals::ZERO };
            if requests > 0 {
                let texts = [release, "/", "200"];
                tracker.add(texts, &totals, std::iter::empty());
            }
        }
        drop(tracker);
        let began = releases.judge_due().into_iter();
        told.extend(began.map(|it| ((it.time - start) / 10, it.text)));
    }
    let expected = [(0, "1"), (1, "2"), (5, "1 again"), (6, "2 again")];
    assert_eq!(told, expected.map(|it| (it.0, format!("Release {}", it.1))));
    let running = releases.all().into_iter().map(|it| it.back_since());
    let running: Vec<_> = running.collect();
    assert_eq!(running, [Some(start + 6 * 10), None]);
}

/// The careless release is slow in its script, the next one takes that back, and the one after it
/// changes nothing.
#[test]
fn a_share_is_of_all_requests_from_the_first_second_to_the_last() {
    let releases = Releases::new(60, 500);
    let mut tracker = releases.watch("release");
    let mut add = |unix, counts: [(&str, u64); 2]| {
        tracker.begin_second(unix, 1);
        for (release, requests) in counts {
            let totals = Totals { requests, ..Totals::ZERO };
            tracker.add([release, "/", "200"], &totals, std::iter::empty());
        }
    };
    add(60, [("1", 90), ("1", 0)]);
    // Whichever is read first in a second.
    add(61, [("1", 60), ("2", 30)]);
    add(62, [("2", 30), ("1", 60)]);
    add(63, [("1", 90), ("1", 0)]);
    drop(tracker);
    let shares = releases.all().into_iter().map(|it| (it.release, it.share));
    let expected = [("2".to_owned(), 60.0 / 180.0), ("1".to_owned(), 300.0 / 360.0)];
    assert_eq!(shares.collect::<Vec<_>>(), expected);
}

/// CPU times and memory of requests that came as spans are not known, also after a restart.
#[test]
fn what_is_not_known_is_left_out_of_averages() {
    let dir = tempfile::tempdir().unwrap();
    let tags = ["release".to_owned()];
    let releases = Releases::new(1_800, 500);
    let folder = KeptFolder::new(STATE, dir.path());
    let file = releases.open(&folder, &tags, 1).unwrap();
    let mut tracker = releases.watch("release");
    tracker.begin_second(1_709_157_600, 1);
    let (ru_utime, ru_stime, memory) = (90_000_000, 30_000_000, 240_000);
    let sent = Totals { requests: 30, ru_utime, ru_stime, memory, ..Totals::ZERO };
    let spans = Totals { requests: 90, unmeasured: 90, ..Totals::ZERO };
    for (release, totals) in [("1", sent), ("1", spans), ("2", spans)] {
        tracker.add([release, "/", "200"], &totals, std::iter::empty());
    }
    drop(tracker);
    releases.save(&file, true).unwrap();
    let again = Releases::new(1_800, 500);
    again.open(&folder, &tags, 1).unwrap();
    for releases in [releases, again] {
        let shown = releases.all().into_iter().map(|it| (it.requests, it.cpu, it.memory));
        let expected = [(90, None, None), (120, Some(4.0), Some(8_000.0))];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_releases_of_the_demo_tell_its_story() {
    let releases = Releases::new(demo::RELEASE_AFTER.as_secs(), 500);
    let mut shop = Shop::new(demo::SEED, demo::RATE_DEFAULT);
    let start = 1_709_157_600;
    for second in 0..860 {
        let mut tracker = releases.watch("release");
        tracker.begin_second(start + second, 1);
        while shop.next_at().as_secs() <= second {
            let request = shop.next_request();
            let time = micros(request.request_time());
            let totals = Totals {
                requests: 1,
                errors: (request.status() >= 500).into(),
                time: time.into(),
                ..Totals::ZERO
            };
            let text = |at: &u32| String::from_utf8_lossy(&request.dictionary[*at as usize]);
            let mut tags = request.tag_name.iter().zip(&request.tag_value);
            let (_, release) = tags.find(|(name, _)| text(name) == "release").unwrap();
            let script = String::from_utf8_lossy(request.script_name());
            let texts = [&*text(release), &*script, &request.status().to_string()];
            let times = std::iter::once((BucketLayout::LogLinear.bucket(time), 1));
            tracker.add(texts, &totals, times);
        }
        drop(tracker);
        releases.judge_due();
    }
    // The verdict stays: no release comes after it.
    let told = releases.all();
    assert_eq!(told.len(), 2, "{told:#?}");
    let verdict = told[0].verdict.as_ref().unwrap();
    assert!(verdict.text.starts_with("slower: /catalog/product.php +"), "{told:#?}");
}
