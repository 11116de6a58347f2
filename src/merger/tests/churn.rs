//! Ten thousand groups that come and go, over a thousand seconds, compared with a naive fold of the
//! records in the window: every sum and every bucket of every row; and what readers see between the
//! steps in which time advances.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::test_harness;
use super::super::*;
use crate::config::Config;
use crate::dice::Dice;
use crate::input::pinba::{Decoder, model};
use crate::input::record::Hasher;
use crate::report::histogram::BucketLayout;
use crate::report::read::reading::Want;
use crate::report::totals::Totals;

const WINDOW_SECS: u64 = 120;
const SCRIPTS: u64 = 2_500;
const SECONDS: u64 = 1_000;
const REQUESTS_A_SECOND: u64 = 250;

/// Rows by key: sums, and samples by bucket.
type Rows = BTreeMap<String, (Totals, BTreeMap<u32, u64>)>;

/// The gain of a request, by report and key: a sum, and a number of samples of one time.
type Added = Vec<(&'static str, String, Totals, u64, u64)>;

struct World {
    live: Live,
    decoder: Decoder,
    now_ms: u64,
    dice: Dice,
    /// Gains merged in each second of the window.
    sent: Vec<(u64, Added)>,
}

impl World {
    fn new() -> Self {
        let window = Duration::from_secs(WINDOW_SECS);
        let mut config = Config::default();
        config.pool.stats_history = window;
        let hasher = Hasher::new();
        let own = cases![
            "by_both" =>
                r#"{"level": "timer", "keys": ["script_name", "@group"], "percentiles": [95]}"#;
            "by_script" => r#"{"level": "request", "keys": ["script_name"]}"#;
        ];
        let reports = test_harness::with_own(&test_harness::defaults(window), &own);
        let mut live = test_harness::live(&config, &hasher, reports);
        let aggregates = live.reports.aggregates();
        assert_eq!(aggregates, 2, "requests, whoever wants extremes, and timers");
        let choice = WatchSettings {
            charted: Some(vec!["by_both".to_owned()]),
            reports_max: 10,
            bytes_max: 64 << 20,
            ..WatchSettings::default()
        };
        live.watch(choice, 0, 0);
        Self {
            decoder: test_harness::decoder(hasher, &mut live),
            live,
            now_ms: 0,
            dice: Dice(1),
            sent: Vec::new(),
        }
    }

    /// Sends requests of some scripts, which change every few seconds, and of one that stays.
    fn send(&mut self, second: u64) {
        let mut records = Vec::new();
        let mut added = Added::new();
        for number in 0..REQUESTS_A_SECOND {
            let script = match number % 5 {
                0 => 0,
                _ => (second * 20 + self.dice.below(150)) % SCRIPTS,
            };
            let script = format!("/{script}");
            let steps = 1 + self.dice.below(4_000);
            let mut request = model::Request::named("host", "server", &*script);
            request.request_time = Some(steps as f32 / 64.0);
            let time = steps * 15_625;
            let sum = Totals { time: time.into(), requests: 1, hits: 2, ..Totals::ZERO };
            added.push(("report_by_script_name", script.clone(), sum, 1, time));
            for timer in 0..2 {
                let group = format!("g{}", (number + timer) % 4);
                let hits = 1 + self.dice.below(3) as u32;
                let each = 1 + self.dice.below(500);
                let value = (u64::from(hits) * each) as f32 / 64.0;
                request.add_timer(hits, value, &[("group", &*group)]);
                let sum = Totals {
                    time: u128::from(u64::from(hits) * each * 15_625),
                    requests: 1,
                    hits: hits.into(),
                    ..Totals::ZERO
                };
                let key = format!("{script} {group}");
                added.push(("by_both", key, sum, hits.into(), each * 15_625));
            }
            test_harness::decode(&mut self.decoder, &request, &mut records);
        }
        self.live.merge(&records, self.now_ms);
        self.sent.push((second, added));
    }

    /// Advances a second as the merger does; readers look after every step. Returns the number of
    /// steps.
    fn pass(&mut self) -> usize {
        self.now_ms += 1_000;
        let mut pieces = 0;
        while self.live.cut_second(self.now_ms) {
            pieces += 1;
            self.assert_requests(0);
        }
        self.live.advance_second(self.now_ms, self.now_ms);
        while self.live.advance_reports(self.now_ms) {
            pieces += 1;
        }
        while self.live.expire_rows(self.now_ms) {
            pieces += 1;
        }
        let now = self.now_ms / 1_000;
        self.sent.retain(|(second, _)| second + WINDOW_SECS > now);
        self.assert_requests(1);
        pieces
    }

    /// Checks all requests of the window, whose running second is `running` seconds after the last
    /// one.
    fn assert_requests(&self, running: u64) {
        let last = self.sent.last().map_or(0, |it| it.0) + running;
        let seconds = self.sent.iter().filter(|(second, _)| second + WINDOW_SECS > last);
        let expected = seconds.count() as u64 * REQUESTS_A_SECOND;
        let Live { reports, pool, .. } = &self.live;
        let entry = reports.find("report_by_script_name").unwrap();
        let reading = reports.read(entry, Want::default(), pool, 0);
        assert_eq!(reading.grand.requests, expected);
    }

    /// Every row of a report.
    fn rows(&self, report: &str) -> Rows {
        let Live { reports, pool, .. } = &self.live;
        let want = Want { keys: true, histograms: true, ..Want::default() };
        let entry = reports.find(report).unwrap();
        let reading = reports.read(entry, want, pool, 0);
        let row = |row: usize| {
            let keys = 0..entry.definition.keys.len();
            let texts = keys.map(|key| reading.key(row, key).expect("nothing overflows"));
            let key = texts.collect::<Vec<_>>().join(" ");
            let samples = reading.histograms[row].iter().copied().collect();
            (key, (reading.totals[row], samples))
        };
        (0..reading.len()).map(row).collect()
    }

    /// Shortest and longest request of every script, as the native report has them.
    fn extremes(&self) -> BTreeMap<String, (u64, u64)> {
        let Live { reports, pool, .. } = &self.live;
        let want = Want { keys: true, ..Want::default() };
        let entry = reports.find("by_script").unwrap();
        let reading = reports.read(entry, want, pool, 0);
        let row = |row: usize| {
            let script = reading.key(row, 0).expect("nothing overflows");
            let seen = reading.extremes[row];
            (script.to_owned(), (seen.time_min, seen.time_max))
        };
        (0..reading.len()).map(row).collect()
    }

    fn recount_extremes(&self) -> BTreeMap<String, (u64, u64)> {
        let mut rows = BTreeMap::new();
        let added = self.sent.iter().flat_map(|(_, added)| added);
        for (_, script, _, _, time) in added.filter(|it| it.0 == "report_by_script_name") {
            let (min, max) = rows.entry(script.clone()).or_insert((*time, *time));
            (*min, *max) = ((*min).min(*time), (*max).max(*time));
        }
        rows
    }

    fn recount(&self, report: &str) -> Rows {
        let mut rows = Rows::new();
        let added = self.sent.iter().flat_map(|(_, added)| added);
        for (of, key, sum, samples, time) in added {
            if *of == report {
                let (totals, buckets) = rows.entry(key.clone()).or_default();
                *totals += sum;
                *buckets.entry(BucketLayout::LogLinear.bucket(*time)).or_default() += samples;
            }
        }
        rows
    }
}

#[test]
fn ten_thousand_groups_come_and_go() {
    let mut world = World::new();
    let (mut groups, mut pieces) = (std::collections::HashSet::new(), 0);
    for second in 0..SECONDS {
        world.send(second);
        if second % 40 == 39 {
            for report in ["report_by_script_name", "by_both"] {
                let (rows, recount) = (world.rows(report), world.recount(report));
                assert_eq!(rows.len(), recount.len(), "{report} at {second}");
                for (key, row) in &rows {
                    assert_eq!(Some(row), recount.get(key), "{report} {key} at {second}");
                }
                groups.extend(rows.into_keys());
            }
            assert_eq!(world.extremes(), world.recount_extremes(), "at {second}");
        }
        pieces += world.pass();
    }
    assert!(groups.len() > 10_000, "{}", groups.len());
    assert!(pieces as u64 > 20 * SECONDS, "{pieces} pieces");
    assert_eq!(world.live.reports.memory().2, 0, "nothing overflowed");
}

/// The groups of a busy second leave, and their memory with them, in as many steps as they take.
#[test]
fn a_burst_is_given_back_in_pieces() {
    let mut world = World::new();
    (0..SECONDS).step_by(10).for_each(|second| world.send(second));
    let memory = |world: &World| world.live.reports.memory().0;
    let (mut peak, mut most) = (0, 0);
    for _ in 0..WINDOW_SECS + 30 {
        world.now_ms += 1_000;
        let World { live, now_ms, .. } = &mut world;
        while live.cut_second(*now_ms) {}
        live.advance_second(*now_ms, *now_ms);
        loop {
            let before = memory(&world);
            let is_more = world.live.advance_reports(world.now_ms);
            peak = peak.max(before);
            most = most.max(before.saturating_sub(memory(&world)));
            if !is_more {
                break;
            }
        }
        while world.live.expire_rows(world.now_ms) {}
    }
    let left = memory(&world);
    assert!(peak > 4 << 20 && left < peak / 4, "{left} of {peak} bytes are left");
    assert!(most < peak / 20, "{most} of {peak} bytes were freed at once");
}
