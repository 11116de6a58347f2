//! Every second against a naive recount, over resets, new reports, jumps of the clock and too little memory.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex as Shared;
use prost::Message as _;

use super::*;
use crate::config::Config;
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, TextLimits};
use crate::merger::Live;
use crate::pool::Pool;
use crate::report::definition::{Defaults, Definition};
use crate::report::native::ReportForm;
use crate::report::row_key::key_texts;
use crate::report::{DefinedBy, Reports, Ticks, builtin};

/// Requests, microseconds, hits and samples.
type Sums = (u64, u128, u128, u64);

/// By second, report and key.
type Gains = BTreeMap<(u64, String, String), Sums>;

fn add(gains: &mut Gains, second: u64, report: &str, key: &str, more: Sums) {
    let sums = gains
        .entry((second, report.to_owned(), key.to_owned()))
        .or_default();
    sums.0 += more.0;
    sums.1 += more.1;
    sums.2 += more.2;
    sums.3 += more.3;
}

/// Writes down all that it is given.
#[derive(Debug)]
struct Recorder {
    rows: Vec<ReportRows>,
    gains: Arc<Shared<(Gains, u64)>>,
}

impl Consumer for Recorder {
    fn take(&mut self, second: &Second, missed: u64) {
        let mut gains = self.gains.lock();
        gains.1 += missed + second.requests;
        for rows in &mut self.rows {
            let report = rows.definition.name.clone();
            rows.each(second, |row| {
                let key: Vec<&str> = key_texts(row.key).collect();
                let key = match row.id {
                    OTHER_ID => "(other)".to_owned(),
                    _ => key.join(" "),
                };
                let samples = row.histogram.iter().map(|(_, count)| count).sum();
                let of = row.totals;
                let more = (of.requests, of.time, of.hits, samples);
                add(&mut gains.0, second.unix_secs, &report, &key, more);
            });
        }
    }
}

fn definition(name: &str, members: &str) -> Definition {
    let form = ReportForm::from_members(name, serde_json::from_str(members).unwrap()).unwrap();
    form.definition(&Defaults::default()).unwrap()
}

struct World {
    live: Live,
    decoder: Decoder,
    reader: Reader,
    consumers: [Box<dyn Consumer>; 1],
    seen: Arc<Shared<(Gains, u64)>>,
    expected: Gains,
    sent: u64,
    now_ms: u64,
    unix_ms: u64,
    seed: u64,
}

const WATCHED: [&str; 4] = ["info", "report_by_script_name", "by_group", "by_both"];

impl World {
    fn new(memory: usize, stream: usize) -> Self {
        let mut config = Config::default();
        config.reports.memory = memory;
        let hasher = Hasher::new();
        let history = Ticks::of(Duration::from_secs(900));
        let pool = Pool::new(&config.pool, hasher.clone());
        let mut reports = Reports::new(&config.reports, history);
        let mut all = builtin::reports(&Defaults::default());
        all.push(definition(
            "by_group",
            r#"{"level": "timer", "keys": ["@group"]}"#,
        ));
        let both = r#"{"level": "timer", "keys": ["script_name", "@group"], "window": "8s"}"#;
        all.push(definition("by_both", both));
        let all = all.into_iter().map(|it| (it, DefinedBy::BuiltIn)).collect();
        reports.define_at_start(all, &pool, 0);
        let mut live = Live::new(pool, reports, history);
        let unix_ms = 1_700_000_000_000;
        let seen = Arc::new(Shared::new(Default::default()));
        let rows = WATCHED.map(|name| ReportRows::of(&live.reports, name).unwrap());
        let recorder = Recorder {
            rows: rows.into(),
            gains: Arc::clone(&seen),
        };
        Self {
            reader: live.watch(WATCHED.into_iter(), stream, 0, unix_ms),
            live,
            decoder: Decoder::new(TextLimits::default(), hasher),
            consumers: [Box::new(recorder)],
            seen,
            expected: Gains::new(),
            sent: 0,
            now_ms: 0,
            unix_ms,
            seed: 1,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.seed >> 33) % below
    }

    /// Merges some requests with two timers each, of which the second sometimes has no tag, and counts them.
    fn send(&mut self, requests: u64, scripts: u64) {
        let second = self.unix_ms / 1000;
        let mut records = Vec::new();
        for _ in 0..requests {
            let script = format!("/{}", self.random(scripts));
            let steps = self.random(1000);
            let mut request = model::Request::named("host", "server", &*script);
            request.request_time = Some(steps as f32 / 64.0);
            request.add_timer(3, 0.25, &[("group", "db")]);
            let group = ["db", "web"][self.random(2) as usize];
            let tagged = self.random(4) > 0;
            request.add_timer(2, 0.5, &[(if tagged { "group" } else { "else" }, group)]);
            let packet = request.encode_to_vec();
            self.decoder
                .decode(&packet, second as u32, &mut records)
                .unwrap();

            let of_request = (1, u128::from(steps) * 15_625, 2, 1);
            add(&mut self.expected, second, "info", "", of_request);
            add(
                &mut self.expected,
                second,
                "report_by_script_name",
                &script,
                of_request,
            );
            let same = tagged && group == "db";
            let timers = [("db", 3, 1), (group, 2, u64::from(!same))];
            for (group, hits, requests) in &timers[..1 + usize::from(tagged)] {
                let time = if *hits == 3 { 250_000 } else { 500_000 };
                let more = (*requests, time, u128::from(*hits), *hits);
                add(&mut self.expected, second, "by_group", group, more);
                add(
                    &mut self.expected,
                    second,
                    "by_both",
                    &format!("{script} {group}"),
                    more,
                );
            }
        }
        self.sent += requests;
        self.live.merge(&records, self.now_ms);
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.unix_ms += ms;
        self.live.advance_second(self.now_ms, self.unix_ms);
        self.live.advance(self.now_ms);
    }

    fn read(&mut self) -> (Gains, u64) {
        self.pass(1000);
        self.reader.poll(&mut self.consumers);
        self.seen.lock().clone()
    }
}

#[test]
fn every_second_is_what_a_recount_says() {
    let mut world = World::new(64 << 20, 16 << 20);
    for round in 0..600 {
        let requests = world.random(40);
        world.send(requests, 30);
        match world.random(60) {
            0 => world.unix_ms -= 3_500,
            1 => world.unix_ms += 7_000,
            2 => world.live.clear(),
            3 => {
                // Filled with what was gained before.
                let name = format!("new_{round}");
                let members = r#"{"level": "timer", "keys": ["@group"], "window": "30s"}"#;
                let new = Arc::new(definition(&name, members));
                let Live { reports, pool, .. } = &mut world.live;
                let mut filling = reports.define(new, DefinedBy::RunTime, pool);
                while let Some(rest) = filling {
                    filling = reports.fill(rest, pool, 50);
                }
                reports.remove(&name, pool);
            }
            _ => {}
        }
        let ms = world.random(700);
        world.pass(ms);
        world.reader.poll(&mut world.consumers);
    }
    let (seen, requests) = world.read();
    assert_eq!(requests, world.sent);
    assert_eq!(seen, world.expected);
    assert!(seen.len() > 1_000, "{}", seen.len());
}

/// Too many names for the reports, then for the stream: rows are fewer, sums by second and report the same.
#[test]
fn sums_are_exact_whatever_the_memory() {
    for (memory, stream) in [(1 << 20, 16 << 20), (64 << 20, 100_000), (1 << 20, 50_000)] {
        let mut world = World::new(memory, stream);
        for _ in 0..40 {
            world.send(500, 1 << 40);
            world.pass(500);
            world.reader.poll(&mut world.consumers);
        }
        let (seen, requests) = world.read();
        assert_eq!(requests, world.sent);
        let sums = |gains: &Gains| {
            let mut sums = Gains::new();
            for ((second, report, _), more) in gains {
                add(&mut sums, *second, report, "", *more);
            }
            sums
        };
        let (seen_sums, expected) = (sums(&seen), sums(&world.expected));
        assert!(seen.keys().any(|(_, _, key)| key == "(other)"));
        for (at, (requests, time, hits, samples)) in &expected {
            let seen = seen_sums[at];
            assert_eq!((seen.1, seen.2, seen.3), (*time, *hits, *samples), "{at:?}");
            // Of timers under `(other)` those of one request count once.
            assert!(seen.0 <= *requests && (at.1.starts_with("by") || seen.0 == *requests));
        }
    }
}

#[test]
fn who_falls_behind_is_cut_off_and_that_is_counted() {
    let mut world = World::new(64 << 20, 200_000);
    for _ in 0..50 {
        world.send(100, 30);
        world.pass(1000);
    }
    let (seen, requests) = world.read();
    assert_eq!(requests, world.sent, "read or missed");
    let read: u64 = seen
        .iter()
        .filter(|((_, report, _), _)| report == "info")
        .map(|(_, sums)| sums.0)
        .sum();
    assert!(read > 0 && read < world.sent, "{read}");
    assert!(seen.iter().all(|(at, sums)| world.expected[at] == *sums));
}
