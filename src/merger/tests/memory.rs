//! The memory of reports compared with `reports.memory`: names that never repeat, names that repeat
//! in every tick, and random ones. At every check the memory is within the budget, and the rows of
//! every report add up to what was sent.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;

use super::super::test_harness::{self, Limits};
use super::super::*;
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, TextLimits};
use crate::report::DefinedBy;
use crate::report::definition::Level;
use crate::report::read::reading::{Reading, Want};
use crate::report::totals::Totals;

const HISTORY: Duration = Duration::from_secs(60);
const MEMORY: usize = 4 << 20;

/// Longest time that is counted.
const TIME_MAX_SECS: u32 = 2_147_483_520;

/// Reports that share groups and reports that do not, over three windows.
const FORMS: [(&str, &str, &str, &str); 5] = [
    ("by_group", "timer", r#"["@group"]"#, "1m"),
    ("by_env", "request", r#"["+env"]"#, "1m"),
    ("by_both", "timer", r#"["script_name", "@group"]"#, "1m"),
    ("shortly", "request", r#"["server_name", "+env"]"#, "8s"),
    ("longer", "timer", r#"["hostname", "@group"]"#, "150s"),
];

fn empty(hasher: &Hasher, memory: usize, window: Duration) -> Live {
    let limits = Limits {
        window,
        requests: 20_000,
        timers: 40_000,
        words: 8 << 20,
        rows_max: 2_000,
        memory,
    };
    let defaults = test_harness::defaults(window);
    let mut all = test_harness::with_own(&defaults, &[]);
    for (name, level, keys, window) in FORMS {
        let form = format!(
            r#"{{"level": "{level}", "keys": {keys}, "percentiles": [95], "window": "{window}"}}"#
        );
        let report = test_harness::definition(name, &form, &defaults);
        all.push((report, DefinedBy::BuiltIn));
    }
    limits.live(hasher, all)
}

/// An empty instance.
pub(super) fn empty_live(hasher: &Hasher) -> Live {
    empty(hasher, MEMORY, HISTORY)
}

/// A request with every field named `name`, the status too; it takes `steps` times 1/64 second.
#[derive(Debug, Clone, Copy)]
struct Sent {
    name: u32,
    steps: u32,
    hits: u32,
}

impl Sent {
    fn packet(self) -> Vec<u8> {
        let string = |kind: &str| format!("{kind}-{}", self.name);
        let mut request = model::Request::named(string("host"), string("server"), string("script"));
        request.schema = Some(string("schema").into_bytes());
        request.status = Some(self.name);
        request.request_time = Some(self.steps as f32 / 64.0);
        request.document_size = Some(self.name);
        request.memory_footprint = Some(self.steps);
        request.add_tag("env", string("env"));
        request.add_timer(self.hits, 0.25, &[("group", &*string("group"))]);
        request.encode_to_vec()
    }

    fn of_request(self) -> Totals {
        Totals {
            time: u128::from(self.steps) * 15_625,
            traffic: self.name.into(),
            memory: self.steps.into(),
            hits: 1,
            requests: 1,
            errors: u64::from(self.name >= 500),
            ..Totals::ZERO
        }
    }

    fn of_timer(self) -> Totals {
        Totals { time: 250_000, hits: self.hits.into(), requests: 1, ..Totals::ZERO }
    }
}

/// The reports, and a recount of what they received.
struct Bounded {
    live: Live,
    decoder: Decoder,
    records: Vec<u8>,
    /// Sent but not merged: sums of requests, and of timers.
    waiting: Vec<(Totals, Totals)>,
    memory: usize,
    now_ms: u64,
    /// Merge time, sums of requests, and of timers.
    sent: Vec<(u64, Totals, Totals)>,
    most: usize,
    /// The requests in the stream of deltas.
    reader: Reader,
    gained: Totals,
}

impl Bounded {
    fn new(memory: usize) -> Self {
        Self::over(memory, HISTORY)
    }

    fn over(memory: usize, window: Duration) -> Self {
        let hasher = Hasher::new();
        let mut live = empty(&hasher, memory, window);
        let names: Vec<_> = live.reports.iter().map(|it| it.definition.name.clone()).collect();
        let choice = WatchSettings {
            charted: Some(names),
            reports_max: 100,
            bytes_max: 1 << 30,
            ..WatchSettings::default()
        };
        let (_, reader) = live.watch(choice, 0, 0);
        Self {
            live,
            reader,
            gained: Totals::ZERO,
            decoder: Decoder::new(TextLimits::default(), hasher),
            records: Vec::new(),
            waiting: Vec::new(),
            memory,
            now_ms: 0,
            sent: Vec::new(),
            most: 0,
        }
    }

    fn send(&mut self, sent: Sent) {
        self.send_packet(&sent.packet(), (sent.of_request(), sent.of_timer()));
    }

    fn send_packet(&mut self, packet: &[u8], sums: (Totals, Totals)) {
        let taken = self.decoder.decode(packet, 1_700_000_000, &mut self.records);
        assert_eq!(taken, Ok(1));
        self.waiting.push(sums);
        if self.waiting.len() == 100 {
            self.merge();
        }
    }

    fn merge(&mut self) {
        self.live.merge(&self.records, self.now_ms);
        self.records.clear();
        let (mut requests, mut timers) = (Totals::ZERO, Totals::ZERO);
        for (of_request, of_timer) in self.waiting.drain(..) {
            requests += &of_request;
            timers += &of_timer;
        }
        self.sent.push((self.now_ms, requests, timers));
        self.look();
    }

    fn pass(&mut self, ms: u64) {
        self.merge();
        self.now_ms += ms;
        self.live.advance_second(self.now_ms, self.now_ms);
        self.live.advance(self.now_ms);
        self.reader.poll(|second, missed| {
            assert_eq!(missed, 0);
            let mut reports = second.reports();
            let by_script = reports.find(|it| it.definition.name == "report_by_script_name");
            second.rows(by_script.unwrap(), |row| {
                self.gained += &row.totals;
            });
        });
        self.look();
    }

    #[track_caller]
    fn look(&mut self) {
        let (used, limit, _) = self.live.reports.memory();
        self.most = self.most.max(used);
        assert!(used <= limit, "{used} at {} ms", self.now_ms);
        assert_eq!(limit, self.memory);
    }

    fn read(&self, name: &str) -> Reading {
        let entry = self.live.reports.find(name).unwrap();
        let want = Want { keys: true, quantiles: true, histograms: true };
        self.live.reports.read(entry, want, &self.live.pool, 0)
    }

    /// Checks that the rows of every report add up to what was sent within its window.
    #[track_caller]
    fn assert_sums(&self) {
        for entry in self.live.reports.iter() {
            let definition = &entry.definition;
            let ticks = Ticks::of(definition.window);
            let gone = ticks.last_gone(ticks.at(self.now_ms));
            let mut expected = Totals::ZERO;
            for (ms, requests, timers) in self.sent.iter().rev() {
                if gone.is_some_and(|gone| ticks.at(*ms) <= gone) {
                    break;
                }
                let of_timers = definition.level == Level::Timer;
                expected += if of_timers { timers } else { requests };
            }
            let reading = self.read(&definition.name);
            let at = format!("{} at {} ms", definition.name, self.now_ms);
            assert_eq!(reading.grand, expected, "{at}");
            let mut sum = Totals::ZERO;
            let mut samples = 0;
            for row in 0..reading.len() {
                sum += &reading.totals[row];
                let histogram = reading.histograms.get(row).map_or(&[][..], |it| it);
                samples += histogram.iter().map(|&(_, count)| count).sum::<u64>();
            }
            assert_eq!(sum, expected, "{at}");
            if self.live.reports.usage(entry).has_histograms {
                let weight = match definition.level {
                    Level::Timer => expected.hits,
                    _ => expected.requests.into(),
                };
                assert_eq!(u128::from(samples), weight, "{at}");
            }
        }
    }

    /// Requests of the row whose first key is `key`.
    fn requests_of(&self, report: &str, key: &str) -> u64 {
        let reading = self.read(report);
        let mut rows = 0..reading.len();
        let row = rows.find(|&row| reading.key(row, 0) == Some(key));
        row.map_or(0, |row| reading.totals[row].requests)
    }

    fn folded(&self) -> u64 {
        self.live.reports.memory().2
    }

    fn is_short(&self) -> bool {
        let mut all = self.live.reports.iter();
        all.any(|entry| self.live.reports.usage(entry).short_of_memory)
    }

    /// Waits until all windows are empty; then new requests have rows of their own, to the last
    /// one.
    fn assert_recovers(&mut self) {
        for _ in 0..200 {
            self.pass(1_000);
        }
        self.assert_sums();
        let mut sent = Totals::ZERO;
        self.sent.iter().for_each(|(_, requests, _)| sent += requests);
        assert_eq!(self.gained, sent);
        assert!(!self.is_short(), "nothing is left under (other)");
        let (used, ..) = self.live.reports.memory();
        assert!(used < self.memory / 2, "{used} of {} kept", self.memory);
        let folded = self.folded();
        for second in 0..70 {
            for name in 0..20 {
                for _ in 0..=name % 3 {
                    let steps = second * 7 + name;
                    self.send(Sent { name, steps, hits: 2 });
                }
            }
            self.pass(1_000);
        }
        self.assert_sums();
        assert_eq!(self.folded(), folded);
        for name in 0..20_u32 {
            let each = u64::from(name % 3 + 1);
            // The running second is empty.
            for (report, key, seconds) in [
                ("report_by_script_name", "script", 59),
                ("report_by_hostname", "host", 59),
                ("by_group", "group", 59),
                ("by_both", "script", 59),
                ("by_env", "env", 59),
                ("shortly", "server", 7),
                ("longer", "host", 70),
            ] {
                let requests = self.requests_of(report, &format!("{key}-{name}"));
                assert_eq!(requests, each * seconds, "{report} {name}");
            }
        }
        assert!(!self.is_short());
    }
}

/// Sends one request of each of these names in each second.
fn send_each_second(seconds: u32, names: impl Fn(u32) -> std::ops::Range<u32>) -> Bounded {
    let mut bounded = Bounded::new(MEMORY);
    for second in 0..seconds {
        for name in names(second) {
            bounded.send(Sent { name, steps: name % 500, hits: 1 });
        }
        if second % 5 == 0 {
            bounded.assert_sums();
        }
        bounded.pass(1_000);
    }
    bounded.assert_sums();
    bounded
}

#[test]
fn names_without_end() {
    let bounded = send_each_second(60, |second| second * 1_000..second * 1_000 + 1_000);
    assert!(bounded.folded() > 0 && bounded.is_short());
}

/// The shortcuts for names take up to their budget; they are dropped first, not the rows of other
/// keys.
#[test]
fn names_without_end_over_long_ticks() {
    let mut bounded = Bounded::over(MEMORY, Duration::from_secs(3_600));
    let well = Sent { name: u32::MAX, steps: 8, hits: 2 };
    let names_each = 12_000;
    for minute in 0..3 {
        for name in minute * names_each..(minute + 1) * names_each {
            bounded.send(Sent { name, steps: 32, hits: 1 });
            if name % 20 == 0 {
                bounded.send(well);
            }
        }
        bounded.assert_sums();
        bounded.pass(60_000);
    }
    assert!(bounded.folded() > 0);
    for (report, key) in [
        ("report_by_script_name", "script"),
        ("report_by_hostname", "host"),
        ("report_by_server_name", "server"),
    ] {
        let requests = bounded.requests_of(report, &format!("{key}-{}", well.name));
        assert_eq!(requests, 3 * u64::from(names_each) / 20, "{report}");
    }
}

#[test]
fn names_that_recur() {
    let mut bounded = send_each_second(130, |_| 0..1_000);
    assert!(bounded.folded() > 0 && bounded.is_short());
    bounded.assert_recovers();
}

/// First endless names, then the same in every tick: known ones, and ones that found no room.
#[test]
fn names_without_end_that_recur() {
    let mut bounded = send_each_second(70, |second| match second {
        0..6 => second * 1_000..second * 1_000 + 1_000,
        _ => second % 6 * 1_000..second % 6 * 1_000 + 1_000,
    });
    bounded.assert_recovers();
}

/// A key with more requests in a tick than those that flood it has a row, with all of them.
#[test]
fn what_comes_often_keeps_its_row() {
    let mut bounded = Bounded::new(2 * MEMORY);
    let well = Sent { name: 70_000, steps: 32, hits: 1 };
    for _ in 0..100 {
        for name in 0..1_000 {
            bounded.send(Sent { name, steps: name % 500, hits: 1 });
            if name % 100 == 0 {
                bounded.send(well);
            }
        }
        bounded.pass(1_000);
    }
    assert!(bounded.folded() > 0);
    bounded.assert_sums();
    for (report, key, seconds) in [
        ("report_by_script_name", "script-70000", 59),
        ("by_group", "group-70000", 59),
        ("by_env", "env-70000", 59),
        ("shortly", "server-70000", 7),
        ("longer", "host-70000", 100),
    ] {
        assert_eq!(bounded.requests_of(report, key), seconds * 10, "{report}");
    }
}

/// A time up to a quarter of an hour, rarely a repeated one.
fn any_steps(seed: &mut u32) -> u32 {
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *seed >> 8 & 0xffff
}

/// Few names with endless distinct times: histograms grow.
#[test]
fn times_without_end() {
    let mut bounded = Bounded::new(MEMORY);
    let mut seed = 0;
    for second in 0..90 {
        for name in 0..150 {
            for _ in 0..8 {
                bounded.send(Sent { name, steps: any_steps(&mut seed), hits: 1 });
            }
        }
        if second % 5 == 0 {
            bounded.assert_sums();
        }
        bounded.pass(1_000);
    }
    bounded.assert_recovers();
}

/// All in one tick, next to known names: the running tick grows until it has to give back.
#[test]
fn times_without_end_in_one_tick() {
    let mut bounded = send_each_second(20, |second| second * 100..second * 100 + 100);
    let mut seed = 0;
    for _ in 0..200 {
        for name in 0..300 {
            bounded.send(Sent { name, steps: any_steps(&mut seed), hits: 1 });
        }
    }
    bounded.assert_sums();
    assert!(bounded.folded() > 0 && bounded.is_short());
    bounded.pass(1_000);
    bounded.assert_sums();
    bounded.assert_recovers();
}

/// With nothing left for closed ticks, sums grow beyond the room of a slot, and that of the total's
/// too.
#[test]
fn sums_without_end() {
    let mut bounded = send_each_second(70, |_| 0..1_000);
    let mut request = model::Request::named("long", "long", "long");
    request.request_time = Some(TIME_MAX_SECS as f32);
    request.add_tag("env", "long");
    request.add_timer(1, TIME_MAX_SECS as f32, &[("group", "long")]);
    let packet = request.encode_to_vec();
    let each = Totals {
        time: u128::from(TIME_MAX_SECS) * 1_000_000,
        hits: 1,
        requests: 1,
        ..Totals::ZERO
    };
    // Its hits are too many for a sample among others.
    let mut heavy = request.clone();
    heavy.timer_hit_count = vec![300_000];
    let heavy_packet = heavy.encode_to_vec();
    let heavy_each = Totals { hits: 300_000, ..each };
    let mut seed = 0;
    for (packet, of_timer) in [(&packet, each), (&heavy_packet, heavy_each)] {
        for number in 0..14_000 {
            bounded.send_packet(packet, (each, of_timer));
            bounded.send(Sent { name: number % 300, steps: any_steps(&mut seed), hits: 1 });
        }
        bounded.assert_sums();
        bounded.pass(1_000);
        bounded.assert_sums();
    }
    bounded.assert_recovers();
}

/// Within a third of the budget nothing overflows, however uneven the traffic.
#[test]
fn what_fits_is_not_folded() {
    let mut bounded = Bounded::new(16 << 20);
    for second in 0..130 {
        let names = if second % 20 == 0 { 1_000 } else { 40 };
        for name in 0..names {
            bounded.send(Sent { name, steps: name % 40, hits: 1 });
        }
        bounded.pass(1_000);
    }
    bounded.assert_sums();
    assert_eq!(bounded.folded(), 0, "{}", bounded.most);
}

#[test]
fn by_chance() {
    let mut seed = 7_u64;
    let mut next = |below: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((seed >> 33) % u64::from(below)) as u32
    };
    for memory in [5 << 20, 12 << 20] {
        let mut bounded = Bounded::new(memory);
        let mut base = 0;
        let mut kinds = BTreeMap::new();
        for _ in 0..6 {
            // Some seconds of one kind of traffic.
            let (names, requests) = ([20, 300, 3_000][next(3) as usize], next(1_000));
            let times = [1, 30, 60_000][next(3) as usize];
            *kinds.entry((names, times)).or_insert(0) += 1;
            for step in 0..next(24) {
                for _ in 0..requests {
                    // Lower names are more frequent.
                    let name = base + next(names).min(next(names));
                    bounded.send(Sent { name, steps: next(times), hits: next(3) + 1 });
                }
                bounded.pass([300, 1_000, 1_700, 9_000][next(4) as usize]);
                if step % 2 == 0 {
                    bounded.assert_sums();
                }
            }
            base += [0, 0, 5_000][next(3) as usize];
        }
        assert!(kinds.len() > 2, "{kinds:?}");
        bounded.assert_recovers();
    }
}
