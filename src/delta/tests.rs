//! Compares every second, every point of a line and every scraped counter with a naive recount:
//! over resets, reports created and dropped meanwhile, jumps of the clock both ways, and too little
//! memory.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::config::Config;
use crate::dice::Dice;
use crate::history::{History, MinuteRollup, Parts};
use crate::input::pinba::{Decoder, model};
use crate::input::record::Hasher;
use crate::input::squid::sums::Swaps;
use crate::merger::{Live, test_harness};
use crate::metrics::{Format, Metrics};
use crate::report::definition::{Defaults, Definition};
use crate::report::histogram::BucketLayout;
use crate::report::row_key::key_texts;
use crate::report::{CONFIGURED, DefinedBy, OTHER_ID, WatchSettings, Watchlist};
use crate::series::{Fold, Metric, Series};

mod numbers;
mod readers;

use readers::{check_history, check_metrics, check_series};

/// Upper bounds of times in microseconds, away from all that are sent.
const BOUNDS: [u64; 2] = [100_000, 508_000];

/// Requests, microseconds, hits, and times by bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    requests: u64,
    time: u128,
    hits: u128,
    times: [u64; 3],
}

impl Sums {
    /// Of a request, or its timers of one group: equal times.
    fn of(requests: u64, hits: u64, each_us: u64) -> Self {
        let mut times = [0; 3];
        times[BOUNDS.partition_point(|&bound| bound < each_us)] = hits;
        Self { requests, time: u128::from(hits * each_us), hits: hits.into(), times }
    }

    /// The difference; panics if it is negative.
    fn without(&self, some: &Self) -> Self {
        Self {
            requests: self.requests - some.requests,
            time: self.time - some.time,
            hits: self.hits - some.hits,
            times: std::array::from_fn(|at| self.times[at] - some.times[at]),
        }
    }

    fn add(&mut self, more: &Self) {
        self.requests += more.requests;
        self.time += more.time;
        self.hits += more.hits;
        let times = self.times.iter_mut().zip(more.times);
        times.for_each(|(time, more)| *time += more);
    }
}

/// By second in the order of the stream, report and key.
type Gains = BTreeMap<(usize, String, String), Sums>;

fn add(gains: &mut Gains, second: usize, report: &str, key: &str, more: Sums) {
    let at = (second, report.to_owned(), key.to_owned());
    gains.entry(at).or_default().add(&more);
}

/// Sums over seconds or keys: `part` maps each key.
fn summed<K: Ord>(
    gains: &Gains,
    part: impl Fn(&(usize, String, String)) -> K,
) -> BTreeMap<K, Sums> {
    let mut sums: BTreeMap<K, Sums> = BTreeMap::new();
    for (at, more) in gains {
        sums.entry(part(at)).or_default().add(more);
    }
    sums
}

/// The data that readers saw.
#[derive(Debug, Default)]
struct Seen {
    gains: Gains,
    /// For each second, how many passed until the next.
    secs: Vec<u64>,
    /// By minute and report: the number of its seconds.
    covered: BTreeMap<(u64, String), u64>,
    requests: u64,
    missed: u64,
    /// Keys of reports kept by history for which the stream had no room.
    folded: u64,
}

impl Seen {
    fn take(&mut self, second: &Second, missed: u64) {
        let kept = second.reports().filter(|it| it.is_kept);
        self.folded += kept.map(|it| second.folded(it)).max().unwrap_or(0);
        self.requests += second.requests;
        self.missed += missed;
        for report in second.reports() {
            for passed in 0..second.secs {
                let at = second.unix_secs + passed;
                let at = (at - at % 60, report.definition.name.clone());
                *self.covered.entry(at).or_default() += 1;
            }
            second.rows(report, |row| {
                let key = row.key.bytes();
                let key: Vec<&str> = key_texts(&key).collect();
                let key = match row.id {
                    OTHER_ID => "(other)".to_owned(),
                    _ => key.join(" "),
                };
                let mut times = [0; 3];
                for (bucket, count) in row.times.clone().unwrap() {
                    let (low, high) = BucketLayout::LogLinear.bounds(bucket);
                    times[BOUNDS.partition_point(|&bound| bound < u64::midpoint(low, high))] +=
                        count;
                }
                let more = Sums {
                    requests: row.totals.requests,
                    time: row.totals.time,
                    hits: row.totals.hits,
                    times,
                };
                add(&mut self.gains, self.secs.len(), &report.definition.name, &key, more);
            });
        }
        self.secs.push(second.secs);
    }
}

fn definition(name: &str, members: &str) -> Definition {
    test_harness::definition(name, members, &Defaults::default())
}

/// A report created while requests arrive.
struct Made {
    name: String,
    kind: &'static str,
    is_watched: bool,
}

struct World {
    live: Live,
    decoder: Decoder,
    reader: Reader,
    watched: Watchlist,
    series: Series,
    fold: Fold,
    metrics: Metrics,
    history: History,
    minute_rows: MinuteRollup,
    seen: Seen,
    expected: Gains,
    made: Vec<Made>,
    /// Number of completed seconds.
    seconds: usize,
    /// The minute of each, in unix seconds.
    minutes: Vec<u64>,
    sent: u64,
    now_ms: u64,
    unix_ms: u64,
    dice: Dice,
}

/// The reports watched from the start; later ones count like one of these.
const WATCHED: [&str; 4] = ["info", "report_by_script_name", "by_group", "by_both"];
const REPORTS_MAX: usize = 7;

/// Reports created later, and the ones they count like.
const KINDS: [(&str, &str); 4] = cases![
    "by_group" => r#"{"level": "timer", "keys": ["@group"], "window": "30s"}"#;
    "report_by_script_name" => r#"{"level": "request", "keys": ["script_name"]}"#;
    "by_both" => r#"{"level": "timer", "keys": ["script_name", "@group"], "window": "8s"}"#;
    "info" => r#"{"level": "packet", "window": "20s"}"#;
];

impl World {
    fn new(memory: usize, stream: usize) -> Self {
        Self::showing(memory, stream, 256 << 20, 1_000_000)
    }

    /// With this memory for the last hour, and this many series of metrics.
    fn showing(memory: usize, stream: usize, hour: usize, series_max: usize) -> Self {
        let mut config = Config::default();
        config.reports.memory = memory;
        let hasher = Hasher::new();
        let own = cases![
            "by_group" => r#"{"level": "timer", "keys": ["@group"]}"#;
            "by_both" => KINDS[2].1;
        ];
        let reports = test_harness::with_own(&Defaults::default(), &own);
        let mut live = test_harness::live(&config, &hasher, reports);
        let unix_ms = 1_700_000_000_000;
        let watched = WATCHED.map(str::to_owned).to_vec();
        let with_made = [&watched[..], &[CONFIGURED.to_owned()]].concat();
        let choice = WatchSettings {
            alerted: Vec::new(),
            pushed: Vec::new(),
            charted: Some(watched),
            scraped: with_made.clone(),
            kept: Some(with_made),
            reports_max: REPORTS_MAX,
            bytes_max: stream,
        };
        let (watched, reader) = live.watch(choice, 0, unix_ms);
        let bounds = BOUNDS.map(Duration::from_micros);
        let metrics = Metrics::new(watched.clone(), &bounds, series_max);
        let (series, fold) = Series::new(watched.clone(), hour);
        let clock = Arc::new(ManualClock::new(unix_ms));
        let history = History::new(Parts::default(), hour, clock);
        Self {
            decoder: test_harness::decoder(hasher, &mut live),
            live,
            reader,
            watched,
            series,
            fold,
            metrics,
            minute_rows: MinuteRollup::new(history.clone(), 500, None),
            history,
            seen: Seen::default(),
            expected: Gains::new(),
            made: Vec::new(),
            seconds: 0,
            minutes: Vec::new(),
            sent: 0,
            now_ms: 0,
            unix_ms,
            dice: Dice(1),
        }
    }

    /// Counts the gain of a row in all reports of a kind.
    fn expect(&mut self, kind: &str, key: &str, more: Sums) {
        add(&mut self.expected, self.seconds, kind, key, more);
        for made in self.made.iter().filter(|it| it.kind == kind && it.is_watched) {
            add(&mut self.expected, self.seconds, &made.name, key, more);
        }
    }

    /// Merges some requests with two timers each, of which the second sometimes has no tag, and
    /// counts them.
    fn send(&mut self, requests: u64, scripts: u64) {
        let mut records = Vec::new();
        for _ in 0..requests {
            let script = format!("/{}", self.dice.below(scripts));
            let steps = self.dice.below(1000);
            let mut request = model::Request::named("host", "server", &*script);
            request.request_time = Some(steps as f32 / 64.0);
            request.add_timer(3, 0.75, &[("group", "db")]);
            let group = ["db", "web"][self.dice.below(2) as usize];
            let tagged = self.dice.below(4) > 0;
            request.add_timer(2, 0.125, &[(if tagged { "group" } else { "else" }, group)]);
            test_harness::decode(&mut self.decoder, &request, &mut records);

            let of_request = Sums { hits: 2, ..Sums::of(1, 1, steps * 15_625) };
            self.expect("info", "", of_request);
            self.expect("report_by_script_name", &script, of_request);
            let same = tagged && group == "db";
            let timers =
                [("db", Sums::of(1, 3, 250_000)), (group, Sums::of(u64::from(!same), 2, 62_500))];
            for (group, more) in &timers[..1 + usize::from(tagged)] {
                self.expect("by_group", group, *more);
                self.expect("by_both", &format!("{script} {group}"), *more);
            }
        }
        self.sent += requests;
        self.live.merge(&records, self.now_ms);
    }

    /// Sets the wall clock, and advances time.
    fn pass(&mut self, ms: u64, set_ms: i64) {
        let second = self.unix_ms / 1000;
        self.now_ms += ms;
        self.unix_ms = (self.unix_ms + ms).saturating_add_signed(set_ms);
        self.live.advance_second(self.now_ms, self.unix_ms);
        self.live.advance(self.now_ms);
        if self.unix_ms / 1000 != second {
            self.seconds += 1;
            self.minutes.push(second - second % 60);
        }
    }

    fn read(&mut self) {
        let Self { reader, seen, fold, metrics, minute_rows, .. } = self;
        reader.poll(|second, missed| {
            seen.take(second, missed);
            fold.take_rows(second, missed, |rows| second.read(&mut [rows]));
            metrics.take_rows(|rows| second.read(&mut [rows]));
            minute_rows.take_rows(second, missed, |rows| second.read(&mut [rows]));
        });
    }

    /// Creates a report, with requests arriving while it is filled, or drops it if there is one of
    /// this number.
    fn make_or_drop(&mut self, number: u64) {
        let name = format!("made_{number}");
        if let Some(at) = self.made.iter().position(|it| it.name == name) {
            let Live { reports, pool, .. } = &mut self.live;
            assert!(reports.remove(&name, pool));
            self.made.remove(at);
            self.watch_made();
            return;
        }
        let (kind, members) = KINDS[self.dice.below(4) as usize];
        let new = Arc::new(definition(&name, members));
        let Live { reports, pool, .. } = &mut self.live;
        let mut filling = reports.define(new, DefinedBy::RunTime, pool);
        while let Some(rest) = filling {
            self.send(3, 30);
            let Live { reports, pool, .. } = &mut self.live;
            filling = reports.fill(rest, pool, 500);
        }
        self.made.push(Made { name, kind, is_watched: false });
        self.watch_made();
    }

    /// The oldest are watched as long as there may be more.
    fn watch_made(&mut self) {
        let mut watched = self.made.iter().filter(|it| it.is_watched).count();
        for made in &mut self.made {
            if !made.is_watched && watched < REPORTS_MAX - WATCHED.len() {
                made.is_watched = true;
                watched += 1;
            }
        }
        let list = self.watched.now();
        assert_eq!(list.len(), WATCHED.len() + watched);
    }
}

#[test]
fn every_second_is_what_a_recount_says() {
    let mut world = World::new(64 << 20, 16 << 20);
    for _ in 0..1_600 {
        let requests = world.dice.below(30);
        world.send(requests, 30);
        let mut set_ms = 0;
        match world.dice.below(60) {
            0 => set_ms = -3_500,
            1 => set_ms = 7_000,
            2 => world.live.clear(),
            3..9 => {
                let number = world.dice.below(6);
                world.make_or_drop(number);
            }
            _ => {}
        }
        let ms = world.dice.below(700);
        world.pass(ms, set_ms);
        if world.dice.below(8) > 0 {
            world.read();
        }
    }
    world.pass(1000, 0);
    world.read();
    assert_eq!(world.seen.requests, world.sent);
    assert_eq!(world.seen.gains, world.expected);
    assert!(world.expected.len() > 20_000, "{}", world.expected.len());
    check_series(&world, &world.expected, false);
    check_metrics(&world, &world.expected, false);
    check_history(&world, &world.expected, false);
    assert_eq!(world.series.status().count("reports") as usize, world.watched.now().len());
}

/// A dropped report leaves nothing; one created under its name has nothing of the first.
#[test]
fn a_series_goes_with_its_report() {
    let mut world = World::new(64 << 20, 16 << 20);
    let run = |world: &mut World, seconds: u32| {
        for _ in 0..seconds {
            world.send(20, 30);
            world.pass(1000, 0);
            world.read();
        }
    };
    run(&mut world, 30);
    let bytes = |world: &World| world.series.status().count("memory_bytes");
    let rows = |world: &World| world.series.status().count("rows");
    let known = rows(&world);
    let is_scraped = |world: &World| {
        let text = world.metrics.write(Vec::new(), Format::Classic, Vec::new());
        text.contains("{report=\"made\"")
    };
    for (round, (_, members)) in KINDS.iter().enumerate() {
        let new = Arc::new(definition("made", members));
        let Live { reports, pool, .. } = &mut world.live;
        let mut filling = reports.define(Arc::clone(&new), DefinedBy::RunTime, pool);
        while let Some(rest) = filling {
            filling = reports.fill(rest, pool, 50);
        }
        let requests = [Metric::parse("req_count").unwrap()];
        let line = |world: &World| {
            let span = (0, u64::MAX, 1);
            world.series.lines("made", None, &requests, span).map(|it| it.points[0].clone())
        };
        let points = line(&world).unwrap();
        assert!(points.iter().all(Option::is_none), "nothing is known before");
        run(&mut world, 5);
        let points = line(&world).unwrap();
        assert_eq!(points.iter().flatten().count(), 5, "round {round}");
        assert!(is_scraped(&world), "round {round}");
        let before = bytes(&world);
        let Live { reports, pool, .. } = &mut world.live;
        assert!(reports.remove("made", pool));
        assert!(line(&world).is_err(), "at once");
        world.pass(1000, 0);
        world.read();
        let after = bytes(&world);
        assert!(after < before, "round {round}: {before} {after}");
        assert_eq!(world.series.status().count("reports"), 4);
        assert_eq!(rows(&world), known, "round {round}");
        assert!(!is_scraped(&world), "round {round}");
    }
}

/// Too many names for the reports, then for the stream: rows are fewer, sums by second and report
/// the same.
#[test]
fn sums_are_exact_whatever_the_memory() {
    for (memory, stream, hour) in [
        (1 << 20, 16 << 20, 64 << 20),
        (64 << 20, 100_000, 1 << 20),
        (1 << 20, 50_000, 256 << 10),
        (64 << 20, 16 << 20, 1 << 20),
    ] {
        let mut world = World::showing(memory, stream, hour, 1_000);
        let mut folded = 0;
        for round in 0..40 {
            if round % 5 == 0 {
                world.make_or_drop(round / 5 % 3);
            }
            world.send(500, 1 << 40);
            world.pass(500, 0);
            world.read();
            folded += world.series.status().count("rows_folded");
        }
        world.pass(1000, 0);
        world.read();
        assert_eq!((world.seen.requests, world.seen.missed), (world.sent, 0));
        let by_report = |gains| summed(gains, |(second, report, _)| (*second, report.clone()));
        let (seen, expected) = (by_report(&world.seen.gains), by_report(&world.expected));
        let mut keys = world.seen.gains.keys();
        let is_whole = memory + stream == (80 << 20);
        assert!(is_whole || keys.any(|(_, _, key)| key == "(other)"));
        assert_eq!(seen.len(), expected.len());
        let of_timers = |(_, report): &(usize, String)| {
            let made = world.made.iter().find(|it| it.name == *report);
            made.map_or(report.starts_with("by"), |it| it.kind.starts_with("by"))
        };
        for (at, expected) in &expected {
            let seen = seen[at];
            // Of timers under `(other)` those of one request count once.
            assert!(seen.requests <= expected.requests, "{at:?}");
            let is_same = seen.requests == expected.requests;
            assert!(is_same || of_timers(at) || at.1.starts_with("made"), "{at:?}");
            let requests = expected.requests;
            assert_eq!(Sums { requests, ..seen }, *expected, "{at:?}");
        }
        check_series(&world, &world.seen.gains, true);
        check_metrics(&world, &world.seen.gains, true);
        check_history(&world, &world.seen.gains, true);
        let kept = world.history.status();
        // If both are short, either may be the cause.
        if stream == 16 << 20 || memory > 1 << 20 {
            let is_short = stream < 16 << 20;
            assert_eq!(world.seen.folded > 0, is_short, "{memory} {stream}");
        }
        let folded_keys = kept.count("keys_folded");
        assert!(folded_keys >= world.seen.folded && (folded_keys > 0 || !is_whole));
        let bytes = world.series.status().count("memory_bytes");
        assert!(bytes <= hour as u64 / 10 * 8, "{bytes} of {hour}");
        assert!(folded > 0 || !is_whole);
    }
}

#[test]
fn who_falls_behind_is_cut_off_and_that_is_counted() {
    let mut world = World::new(64 << 20, 200_000);
    for _ in 0..50 {
        world.send(100, 30);
        world.pass(1000, 0);
    }
    world.read();
    let (read, missed) = (world.seen.requests, world.seen.missed);
    assert_eq!(read + missed, world.sent, "read or missed");
    assert!(read > 0 && missed > 0, "{read} {missed}");
    // Those that were read are the newest.
    let first = world.seconds - world.seen.secs.len();
    let newest = world.expected.split_off(&(first, String::new(), String::new()));
    let newest =
        newest.into_iter().map(|((at, report, key), sums)| ((at - first, report, key), sums));
    assert_eq!(world.seen.gains, newest.collect());
}

#[test]
fn what_moved_in_seconds_that_nobody_read_is_in_the_next() {
    let mut queue = Queue::new(8 * size_of::<Second>());
    let (mut moved, mut missed, mut cuts) = (0, 0, 0);
    for count in 1..=20 {
        let mut second = Second { requests: 1, ..Second::default() };
        let of_second = Swaps { count, ..Swaps::default() };
        second.moves.add(b"SWAPOUT\0t\0image", &of_second);
        cuts += u64::from(!queue.push(second));
    }
    queue.push(Second::default());
    while let Some((second, lost)) = queue.pop() {
        missed += lost.unwrap_or(0) + second.requests * u64::from(lost.is_some());
        if lost.is_some() {
            moved += second.moves.iter().map(|(_, it)| it.count).sum::<u64>();
        }
    }
    assert_eq!((moved, missed), ((1..=20).sum(), 20));
    assert!(cuts > 0, "even the directory was dropped");
}

#[test]
fn a_stop_ends_the_running_second() {
    let mut world = World::new(64 << 20, 16 << 20);
    world.send(20, 30);
    world.pass(1000, 0);
    world.send(30, 30);
    world.pass(10, 0);
    world.live.end_second(world.now_ms, world.unix_ms);
    world.read();
    assert_eq!((world.seen.requests, &world.seen.secs[..]), (50, &[1, 0][..]));
    assert_eq!(world.seen.gains, world.expected);
}
