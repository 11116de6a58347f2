//! Groups that come, go and come again, known by number: compares every row of every second read
//! with a naive fold, including totals, extremes and every bucket, while seconds are missed,
//! reports are created and dropped, and everything is reset.

use std::collections::BTreeSet;

use super::*;
use crate::report::totals::{Extremes, Totals};

/// Totals, extremes, and number of samples by bucket.
type Gain = (Totals, Extremes, BTreeMap<u32, u64>);
/// By second, report and key.
type Fold = BTreeMap<(u64, String, String), Gain>;

fn add(
    gain: &mut Gain,
    totals: &Totals,
    extremes: &Extremes,
    times: impl IntoIterator<Item = (u32, u64)>,
) {
    gain.0 += totals;
    gain.1.widen(extremes);
    for (bucket, count) in times {
        *gain.2.entry(bucket).or_default() += count;
    }
}

/// Two of one aggregate, one of timers, one of another window; and two that come and go.
const REPORTS: [(&str, &str); 6] = [
    ("by_both", r#"{"level": "request", "keys": ["hostname", "script_name"], "window": "6s"}"#),
    ("by_host", r#"{"level": "request", "keys": ["hostname"], "window": "6s"}"#),
    ("by_group", r#"{"level": "timer", "keys": ["script_name", "@group"], "window": "6s"}"#),
    ("by_script", r#"{"level": "request", "keys": ["script_name"], "window": "9s"}"#),
    ("made_like_one", r#"{"level": "request", "keys": ["script_name"], "window": "6s"}"#),
    ("made_alone", r#"{"level": "request", "keys": ["hostname"], "window": "12s"}"#),
];
/// How many of them exist from the start.
const AT_START: usize = 4;

struct World {
    live: Live,
    reader: Reader,
    decoder: Decoder,
    dice: Dice,
    ms: u64,
    reports: Vec<&'static str>,
    sent: u64,
    /// Keys of groups, since the start.
    keys: BTreeMap<String, u64>,
    expected: Fold,
    read: Fold,
    requests: u64,
    missed: u64,
    folded: u64,
    /// Reports that were dropped and made again within a second: it has the rows of both.
    remade: u64,
    /// Largest number of a group.
    largest: u32,
    /// Seconds that were read.
    seconds: Vec<u64>,
}

impl World {
    fn new(stream: usize) -> Self {
        let mut config = Config::default();
        config.pool.stats_history = Duration::from_secs(6);
        let hasher = Hasher::new();
        let all = REPORTS[..AT_START].iter();
        let all = all.map(|(name, members)| (definition(name, members), DefinedBy::BuiltIn));
        let mut live = test_harness::live(&config, &hasher, all.collect());
        let names = REPORTS.map(|it| it.0);
        let choice = WatchSettings {
            charted: Some(names.map(str::to_owned).to_vec()),
            reports_max: 10,
            bytes_max: stream,
            ..WatchSettings::default()
        };
        let (_, reader) = live.watch(choice, 0, 0);
        Self {
            decoder: test_harness::decoder(hasher, &mut live),
            live,
            reader,
            dice: Dice(1),
            ms: 0,
            reports: names[..AT_START].to_vec(),
            sent: 0,
            keys: BTreeMap::new(),
            expected: Fold::new(),
            read: Fold::new(),
            requests: 0,
            missed: 0,
            folded: 0,
            remade: 0,
            largest: 0,
            seconds: Vec::new(),
        }
    }

    fn expect(
        &mut self,
        reports: &[&str],
        key: &str,
        totals: Totals,
        seen: Extremes,
        samples: u64,
    ) {
        for report in reports.iter().filter(|it| self.reports.contains(it)) {
            let at = (self.ms / 1000, (*report).to_owned(), key.to_owned());
            let bucket = BucketLayout::LogLinear.bucket(seen.time_min);
            let gain = self.expected.entry(at).or_default();
            add(gain, &totals, &seen, [(bucket, samples)]);
        }
    }

    /// Requests of scripts that are others some seconds later and come again after a minute, with a
    /// timer each.
    fn send(&mut self, requests: u64) {
        let mut records = Vec::new();
        for _ in 0..requests {
            let script = (self.ms / 2000 * 7 + self.dice.below(20)) % 200;
            let (script, host) = (format!("/{script}"), format!("h{}", self.dice.below(3)));
            let (steps, peak) = (1 + self.dice.below(4_000), self.dice.below(9) as u32);
            let mut request = model::Request::named(&*host, "server", &*script);
            request.request_time = Some(steps as f32 / 64.0);
            request.memory_peak = Some(peak);
            let hits = 1 + self.dice.below(3);
            let each = 1 + self.dice.below(500);
            let group = format!("g{}", self.dice.below(2));
            request.add_timer(hits as u32, (hits * each) as f32 / 64.0, &[("group", &*group)]);
            test_harness::decode(&mut self.decoder, &request, &mut records);
            let totals = |time: u64, hits: u64| Totals {
                requests: 1,
                time: time.into(),
                hits: hits.into(),
                ..Totals::ZERO
            };
            let seen =
                |time, peak| Extremes { time_min: time, time_max: time, memory_peak_max: peak };
            let of_request = (totals(steps * 15_625, 1), seen(steps * 15_625, peak), 1);
            let of_timer = (totals(hits * each * 15_625, hits), seen(each * 15_625, 0), hits);
            let both = format!("{host} {script}");
            let with_group = format!("{script} {group}");
            for (reports, key, (totals, seen, samples)) in [
                (&["by_both"][..], &both, of_request),
                (&["by_host", "made_alone"], &host, of_request),
                (&["by_script", "made_like_one"], &script, of_request),
                (&["by_group"], &with_group, of_timer),
            ] {
                self.expect(reports, key, totals, seen, samples);
            }
            *self.keys.entry(both).or_default() += 1;
        }
        self.sent += requests;
        self.live.merge(&records, self.ms);
    }

    fn make_or_drop(&mut self, at: usize) {
        let (name, members) = REPORTS[at];
        let Live { reports, pool, .. } = &mut self.live;
        if let Some(at) = self.reports.iter().position(|it| *it == name) {
            assert!(reports.remove(name, pool));
            self.reports.remove(at);
            return;
        }
        let new = Arc::new(definition(name, members));
        let mut filling = reports.define(new, DefinedBy::RunTime, pool);
        while let Some(rest) = filling {
            filling = reports.fill(rest, pool, 500);
        }
        self.reports.push(name);
    }

    fn pass(&mut self, ms: u64) {
        self.ms += ms;
        self.live.advance_second(self.ms, self.ms);
        self.live.advance(self.ms);
    }

    fn poll(&mut self) {
        let Self { reader, read, largest, .. } = self;
        reader.poll(|second, missed| {
            self.requests += second.requests;
            self.missed += missed;
            assert!(self.seconds.last() < Some(&second.unix_secs), "a second comes once");
            self.seconds.push(second.unix_secs);
            let mut names = BTreeSet::new();
            for report in second.reports() {
                let name = &report.definition.name;
                self.remade += u64::from(!names.insert(name));
                self.folded += second.folded(report);
                let mut keys = BTreeSet::new();
                second.rows(report, |row| {
                    let key = row.key.bytes();
                    let key = match row.id {
                        OTHER_ID => "(other)".to_owned(),
                        _ => key_texts(&key).collect::<Vec<_>>().join(" "),
                    };
                    assert!(keys.insert(key.clone()), "a row comes once");
                    let at = (second.unix_secs, name.clone(), key);
                    add(
                        read.entry(at).or_default(),
                        &row.totals,
                        &row.extremes,
                        row.times.clone().unwrap(),
                    );
                });
            }
            let logs = second.parts.iter().flat_map(SecondPart::logs);
            let groups = logs.flat_map(|it| it.groups().iter().copied());
            *largest = groups.fold(*largest, u32::max);
        });
    }

    /// Some seconds, most of which are read at once, some much later or never.
    fn run(&mut self, seconds: u64) {
        for second in 0..seconds {
            for _ in 0..3 {
                let requests = self.dice.below(40);
                self.send(requests);
                if self.dice.below(12) == 0 {
                    let at = AT_START + self.dice.below(2) as usize;
                    self.make_or_drop(at);
                }
                if self.dice.below(150) == 0 {
                    self.live.clear();
                }
                self.pass(333 + u64::from(second % 3 == 0));
            }
            if second % 60 < 40 && self.dice.below(4) > 0 {
                self.poll();
            }
        }
        // Should the last second be lost, it is missed before the next one.
        for _ in 0..2 {
            self.pass(1000);
            self.poll();
        }
        assert_eq!(self.requests + self.missed, self.sent);
    }

    /// The gains expected in the seconds that were read.
    fn of_read_seconds(&self) -> Fold {
        let all = self.expected.iter();
        let read = all.filter(|((second, ..), _)| self.seconds.contains(second));
        read.map(|(at, gain)| (at.clone(), gain.clone())).collect()
    }
}

#[test]
fn a_number_is_one_group_whatever_is_missed() {
    let mut world = World::new(400_000);
    world.run(600);
    assert!(world.missed > 0 && world.requests > world.missed);
    assert_eq!(world.folded, 0);
    assert!(world.remade > 0);
    let expected = world.of_read_seconds();
    for (at, gain) in &expected {
        assert_eq!(world.read.get(at), Some(gain), "{at:?}");
    }
    assert_eq!(world.read.len(), expected.len());
    // Scripts come again; numbers are given again, to whoever comes.
    assert!(world.keys.len() == 600, "{}", world.keys.len());
    assert!(world.largest < 400, "{}", world.largest);
}

/// So little memory that groups are not known, and that a reader that misses seconds loses the
/// directories too.
#[test]
fn sums_are_exact_when_groups_are_not_known() {
    for stream in [4_000, 20_000, 200_000] {
        let mut world = World::new(stream);
        world.run(240);
        assert!(world.missed > 0, "{stream}");
        assert_eq!(world.folded > 0, stream < 200_000, "{stream}");
        let by_report = |fold: &Fold| {
            let mut sums: BTreeMap<(u64, String), Gain> = BTreeMap::new();
            for ((second, report, _), (totals, extremes, times)) in fold {
                let sum = sums.entry((*second, report.clone())).or_default();
                add(sum, totals, extremes, times.clone());
            }
            sums
        };
        let expected = by_report(&world.of_read_seconds());
        assert_eq!(by_report(&world.read), expected, "{stream}");
        let others = world.read.keys().filter(|(.., key)| key == "(other)").count();
        assert_eq!(others > 0, world.folded > 0);
    }
}
