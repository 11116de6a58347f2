//! Compares the last hour with the reports: a line adds up to what the engine counted.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use super::*;
use crate::cli::load::TrafficOptions;
use crate::cli::load::traffic::Traffic;
use crate::config::Config;
use crate::delta::Reader;
use crate::grammar::builtin;
use crate::grammar::native::ReportForm;
use crate::input::Decode as _;
use crate::input::pinba::Decoder;
use crate::input::record::Hasher;
use crate::merger::{SharedLive, test_harness};
use crate::report::WatchSettings;
use crate::report::definition::{Columns, Defaults};
use crate::report::read::reading::Want;

/// A whole second of the wall clock, at which the monotonic one shows 0.
const START: u64 = 1_700_000_000;

/// The stream's reader and the writer of the series.
type Hour = (Reader, Fold);

/// A series of these reports that begins at `now_ms`.
fn series(names: &[&str], live: &SharedLive, memory: usize, now_ms: u64) -> (Series, Hour) {
    let choice = WatchSettings {
        charted: Some(names.iter().map(|&name| name.to_owned()).collect()),
        reports_max: REPORTS_MAX,
        bytes_max: Series::stream_bytes(memory),
        ..WatchSettings::default()
    };
    let watch = live.write().watch(choice, now_ms, START * 1000 + now_ms);
    let (series, fold) = Series::new(watch.0, memory);
    (series, (watch.1, fold))
}

impl Series {
    /// One metric alone: start, step and points.
    fn line(
        &self,
        report: &str,
        key: Option<&[String]>,
        metric: &str,
        span: (u64, u64, u64),
    ) -> (u64, Vec<Option<f64>>) {
        let metric = Metric::parse(metric).unwrap();
        let mut lines = self.lines(report, key, &[metric], span).unwrap();
        (lines.step, lines.points.remove(0))
    }
}

const WATCHED: [&str; 4] = [EVERYTHING, "report_by_script_name", "report_by_status", CONFIGURED];

/// Pool, reports and series, with time moved by hand.
struct World {
    live: SharedLive,
    hour: Hour,
    series: Series,
    traffic: Traffic,
    decoder: Decoder,
    now_ms: u64,
}

impl World {
    fn new(traffic: &TrafficOptions, comments: &[&str], memory: usize, config: &Config) -> Self {
        let defaults = test_harness::defaults(Duration::from_secs(7200));
        let mut definitions = builtin::reports(&defaults);
        for (comment, number) in comments.iter().zip(0..) {
            let form = ReportForm::of_comment(&format!("own_{number}"), comment);
            definitions.push(form.definition(&defaults).unwrap());
        }
        let hasher = Hasher::new();
        let defined = definitions.into_iter().map(|it| {
            let by = match it.name.starts_with("own_") {
                true => DefinedBy::Configuration("pinbad.toml:1".to_owned()),
                false => DefinedBy::BuiltIn,
            };
            (it, by)
        });
        let mut live = test_harness::live(config, &hasher, defined.collect());
        let decoder = test_harness::decoder(hasher, &mut live);
        let live = Arc::new(RwLock::new(live));
        let (series, hour) = series(&WATCHED, &live, memory, 0);
        Self { live, hour, series, traffic: Traffic::new(traffic), decoder, now_ms: 0 }
    }

    fn send(&mut self, packets: usize) {
        let mut records = Vec::new();
        for _ in 0..packets {
            let packet = self.traffic.packet();
            self.decoder.decode(&packet, START as u32, &mut records).unwrap();
        }
        self.live.write().merge(&records, self.now_ms);
    }

    /// Advances time as merger and series thread do.
    fn pass(&mut self, ms: u64) {
        self.pass_unread(ms);
        let (reader, fold) = &mut self.hour;
        reader.poll(|second, missed| {
            fold.take_rows(second, missed, |rows| second.read(&mut [rows]));
        });
    }

    fn pass_unread(&mut self, ms: u64) {
        self.now_ms += ms;
        let mut live = self.live.write();
        live.advance_second(self.now_ms, START * 1000 + self.now_ms);
        live.advance(self.now_ms);
    }

    fn sum(&self, report: &str, key: Option<&[String]>, metric: &str, step: u64) -> f64 {
        let span = (START, START + 4000, step);
        let (_, points) = self.series.line(report, key, metric, span);
        points.iter().flatten().sum()
    }
}

fn busy() -> TrafficOptions {
    TrafficOptions {
        timers: 4,
        request_tags: 2,
        scripts: 40,
        statuses: 6,
        ..TrafficOptions::default()
    }
}

const COMMENTS: [&str; 7] = [
    "tag_info:group",
    "tag2_report:group,server",
    "rtag_info:env",
    "tag_report:operation:min_time=0.02",
    "report1:::95",
    "report1::min_time=0.05,max_time=0.3:95",
    "v2/timer/3600/~script,@group,+env/hv=0:60000:32768,p95/no_filters",
];

/// Rows restored from a snapshot were counted by the process that merged them.
#[test]
fn what_is_there_already_is_not_counted_again() {
    let memory = 64 << 20;
    let mut world = World::new(&busy(), &[], memory, &long_history());
    world.send(500);
    world.pass(2_000);
    (world.series, world.hour) = series(&WATCHED, &world.live, memory, world.now_ms);
    world.send(70);
    world.pass(2_000);
    assert_eq!(world.sum("info", None, "req_count", 10), 70.0);
    assert_eq!(world.series.status().count("requests_missed"), 0);
}

/// Every row of every watched report, summed over a line, equals the report's own row.
#[test]
fn lines_add_up_to_what_reports_say() {
    let mut world = World::new(&busy(), &COMMENTS, 64 << 20, &long_history());
    for second in 0..40 {
        world.send(50 + second * 3);
        world.pass(300);
        world.send(40);
        world.pass(700);
    }
    let live = Arc::clone(&world.live);
    let live = live.read();
    let mut rows = 0;
    for watched in world.series.0.watched.now().iter() {
        let name = &watched.definition.name;
        // In native columns: charts follow their rule for percentiles.
        let mut entry = live.reports.find(name).unwrap().clone();
        let native = Columns::Native(Vec::new());
        let native = entry.definition.read_as(&native, &Defaults::default());
        entry.definition = Arc::new(native.unwrap());
        let entry = &entry;
        let want = Want { keys: true, quantiles: true, histograms: false };
        let reading = live.reports.read(entry, want, &live.pool, 0);
        assert!(!reading.is_empty(), "{}", name);
        let whole = world.sum(name, None, "req_count", 1);
        assert_eq!(whole, reading.grand.requests as f64, "{}", name);
        for row in 0..reading.len() {
            let key: Vec<String> = (0..watched.key_names.len())
                .map(|key| reading.key(row, key).unwrap_or("(other)").to_owned())
                .collect();
            let totals = &reading.totals[row];
            let sum = |metric, step| world.sum(name, Some(&key), metric, step);
            let seconds = |us: u128| us as f64 / 1e6;
            for (metric, expected) in [
                ("req_count", totals.requests as f64),
                ("hit_count", totals.hits as f64),
                ("time_total", seconds(totals.time)),
                ("cpu", seconds(totals.ru_utime + totals.ru_stime)),
                ("traffic", totals.traffic as f64),
                ("errors", totals.errors as f64),
            ] {
                for step in [1, 7, 10, 60] {
                    let sum = sum(metric, step);
                    let near = (sum - expected).abs() <= expected * 1e-9;
                    assert!(near, "{} {key:?} {metric:?}: {sum} {expected}", name);
                }
            }
            // A single point over everything has the row's own percentiles.
            let span = (START - START % 3600, START + 3600, 3600);
            let (_, points) = world.series.line(name, Some(&key), "p50", span);
            let median = points.last().copied().flatten();
            if entry.definition.buckets == crate::report::histogram::BucketLayout::LogLinear {
                assert_eq!(median, reading.quantile(row, 0), "{} {key:?}", name);
            }
            rows += 1;
        }
    }
    assert!(rows > 150, "{rows}");
}

/// Current values cover the same number of seconds at any time, not only at multiples of it.
#[test]
fn the_newest_seconds_are_as_many_at_any_time() {
    let mut world = World::new(&busy(), &[], 64 << 20, &long_history());
    let metric = [Metric::parse("req_per_sec").unwrap()];
    for second in 1..=17 {
        world.send(second);
        world.pass(1_000);
        if second >= 5 {
            let newest = world.series.newest(EVERYTHING, None, &metric, 5);
            let expected = (second - 4..=second).sum::<usize>() as f64 / 5.0;
            assert_eq!(newest.unwrap(), [Some(expected)], "{second}");
        }
    }
}

fn long_history() -> Config {
    let mut config = Config::default();
    config.pool.stats_history = Duration::from_secs(7200);
    config.pool.request_pool_size = 100_000;
    config.pool.timer_pool_size = 400_000;
    config
}

#[test]
fn what_is_older_than_five_minutes_is_kept_by_tens() {
    let mut world = World::new(&busy(), &[], 64 << 20, &long_history());
    let mut sent = 0;
    for second in 0..700_u64 {
        let packets = 1 + second % 5;
        sent += packets;
        world.send(packets as usize);
        world.pass(1000);
    }
    let reach = world.series.coverage().unwrap();
    assert_eq!((reach.from, reach.fine_from, reach.to), (START, START + 400, START + 700));
    let line = |from, step| {
        let span = (from, START + 700, step);
        world.series.line("info", None, "req_count", span)
    };
    let (step, fine) = line(START + 400, 1);
    assert_eq!((step, fine.len()), (1, 300));
    assert_eq!(fine[7], Some(1.0 + f64::from(407 % 5)));
    let (step, coarse) = line(START, 1);
    assert_eq!((step, coarse.len()), (10, 70));
    assert_eq!(coarse[3], Some(30.0));
    let sum: f64 = coarse.iter().flatten().sum();
    assert_eq!(sum, sent as f64);
    assert_eq!(line(START - 100, 1).1[..10], [None; 10], "before the start");
    let after: Vec<_> = line(START, 7).1.into_iter().flatten().collect();
    assert_eq!(after.iter().sum::<f64>(), sent as f64);
    // The whole hour, and nothing beyond it.
    for _ in 0..3700 {
        world.pass(1000);
    }
    let reach = world.series.coverage().unwrap();
    assert_eq!((reach.to - reach.from, reach.to - reach.fine_from), (3600, 300));
    let (_, points) = world.series.line("info", None, "req_count", (0, u64::MAX, 60));
    assert_eq!(points.last(), Some(&Some(0.0)));
}

#[test]
fn seconds_that_nobody_read_are_counted_as_missed() {
    let mut world = World::new(&busy(), &[], 4 << 20, &long_history());
    for _ in 0..60 {
        world.send(200);
        world.pass_unread(1000);
    }
    world.pass(1000);
    let status = world.series.status();
    let (counted, missed) = (status.count("requests_counted"), status.count("requests_missed"));
    assert_eq!(counted + missed, 60 * 200);
    assert!(missed > 0 && counted > 0, "{status:?}");
    assert_eq!(world.sum("info", None, "req_count", 1), counted as f64);
}

/// Endless names: memory stays within its budget, and heavy rows stay visible throughout.
#[test]
fn a_flood_of_names_costs_its_budget_and_hides_nothing_heavy() {
    let flood = TrafficOptions {
        scripts: 200_000,
        distribution: crate::cli::load::Distribution::Uniform,
        ..TrafficOptions::default()
    };
    let memory = 4 << 20;
    let mut world = World::new(&flood, &[], memory, &long_history());
    let steady = Traffic::new(&TrafficOptions { scripts: 1, seed: 7, ..TrafficOptions::default() });
    let mut flooding = std::mem::replace(&mut world.traffic, steady);
    let mut sent = 0;
    for _ in 0..25 {
        world.send(200);
        std::mem::swap(&mut world.traffic, &mut flooding);
        world.send(2_000);
        std::mem::swap(&mut world.traffic, &mut flooding);
        sent += 2_200;
        world.pass(1000);
    }
    let status = world.series.status();
    assert_eq!(status.count("requests_missed"), 0);
    assert!(status.count("rows_folded") > 0, "{status:?}");
    assert!(status.count("memory_bytes") <= memory as u64 / 10 * 8, "{status:?}");
    assert_eq!(world.sum("info", None, "req_count", 1), f64::from(sent));
    let whole = world.sum("report_by_script_name", None, "req_count", 1);
    assert_eq!(whole, f64::from(sent), "totals stay exact");
    let live = Arc::clone(&world.live);
    let live = live.read();
    let entry = live.reports.find("report_by_script_name").unwrap();
    let reading = live.reports.read(entry, Want::default(), &live.pool, 0);
    let rows = 0..reading.len();
    let heaviest = rows.max_by_key(|&row| reading.totals[row].requests).unwrap();
    let key = reading.key(heaviest, 0).expect("the heaviest is no other");
    let key = [key.to_owned()];
    let requests = reading.totals[heaviest].requests as f64;
    assert!(requests >= 5_000.0, "{requests}");
    let heavy = world.sum("report_by_script_name", Some(&key), "req_count", 1);
    assert_eq!(heavy, requests);
    let span = (START, START + 25, 1);
    let (_, points) = world.series.line("report_by_script_name", Some(&key), "p95", span);
    assert!(points.iter().all(Option::is_some), "in every second");
}

#[test]
fn the_wall_clock_may_be_set() {
    let mut world = World::new(&busy(), &[], 64 << 20, &long_history());
    for _ in 0..10 {
        world.send(5);
        world.pass(1000);
    }
    // An hour back: ten seconds ago is still ten seconds ago, and the second in which the clock was
    // set is cut in two.
    let unix = |now_ms| START * 1000 + now_ms - 3_600_000;
    for now_ms in [world.now_ms, world.now_ms + 1_000] {
        world.live.write().advance_second(now_ms, unix(now_ms));
    }
    let (reader, fold) = &mut world.hour;
    reader.poll(|second, missed| {
        fold.take_rows(second, missed, |rows| second.read(&mut [rows]));
    });
    let reach = world.series.coverage().unwrap();
    assert_eq!((reach.from, reach.to), (START - 3601, START - 3589));
}

#[test]
fn lists_of_reports_name_what_is_there() {
    let defined: Vec<(Definition, DefinedBy)> = builtin::reports(&Defaults::default())
        .into_iter()
        .map(|it| (it, DefinedBy::BuiltIn))
        .collect();
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|&it| it.into()).collect() };
    let all = names(&["info", "*", "report_by_status", "info"]);
    assert_eq!(check_names(&all, &defined), Ok(()));
    let error = check_names(&names(&["report_9"]), &defined).unwrap_err();
    assert!(error.to_string().contains("report_9"), "{error}");
}
