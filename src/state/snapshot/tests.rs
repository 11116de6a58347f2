//! Snapshots written and restored: bit for bit, after expiry, under another configuration, and from
//! impossible files.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::json;

use super::*;
use crate::clock::ManualClock;
use crate::config::Config;
use crate::input::pinba::{Decoder, model};
use crate::input::record::Hasher;
use crate::input::squid::sums;
use crate::merger::Turn;
use crate::merger::test_harness::{self, Limits};
use crate::report::read::reading::Want;
use crate::report::totals::Totals;

mod samples;
mod turn;

const HISTORY: Duration = Duration::from_secs(60);

const PLAN: Limits = Limits {
    window: HISTORY,
    requests: 3_000,
    timers: 9_000,
    words: 4 << 20,
    rows_max: 40,
    memory: 64 << 20,
};

/// A process: its data, and its decoder.
struct Process {
    live: SharedLive,
    decoder: Decoder,
    clock: ManualClock,
    now_ms: u64,
}

/// Base reports, and one of each kind that keeps data of its own.
fn definitions() -> Vec<(Definition, DefinedBy)> {
    test_harness::of_each_kind(&test_harness::defaults(HISTORY), ["30s", "120s"], 32_768)
}

impl Process {
    fn start(plan: Limits) -> Self {
        let hasher = Hasher::new();
        let live = plan.live(&hasher, definitions());
        Self::over(live, hasher, 0)
    }

    fn over(mut live: Live, hasher: Hasher, now_ms: u64) -> Self {
        let clock = ManualClock::new(1_700_000_000_000);
        clock.advance_ms(now_ms);
        Self {
            decoder: test_harness::decoder(hasher, &mut live),
            live: Arc::new(RwLock::new(live)),
            clock,
            now_ms,
        }
    }

    /// The next process, `away_ms` later.
    fn next(
        &self,
        bytes: &[u8],
        plan: Limits,
        away_ms: u64,
    ) -> Result<(Self, Restored), ReadError> {
        let contents = inspect(bytes)?;
        let now_ms = contents.mono_now(self.clock.unix_ms() + away_ms);
        let hasher = Hasher::new();
        let mut live = plan.live(&hasher, Vec::new());
        let restored = restore(bytes, &mut live, definitions(), &[], None, now_ms)?;
        Ok((Self::over(live, hasher, now_ms), restored))
    }

    /// Sends a hundred requests at this moment, numbered from `from`.
    fn send(&mut self, from: u64) {
        let mut records = Vec::new();
        for n in from..from + 100 {
            let script = format!("/{}", n % 57);
            let mut sent = model::Request::named(format!("h{}", n % 3), "s", script);
            sent.request_time = Some((n % 1000) as f32 / 700.0);
            sent.status = Some(if n % 9 == 0 { 500 } else { 200 });
            sent.memory_peak = Some((n * 1000 % 70_001) as u32);
            if n % 4 > 0 {
                sent.add_tag("env", if n % 2 == 0 { "prod" } else { "test" });
            }
            for timer in 0..n % 3 {
                let op = format!("op{}", (n + timer) % 60);
                let tags = [("group", "db"), ("op", op.as_str())];
                let tags = &tags[..2 - usize::from(n % 7 == 0)];
                sent.add_timer(1 + timer as u32, 0.01 * (n % 50) as f32, tags);
            }
            test_harness::decode(&mut self.decoder, &sent, &mut records);
        }
        self.live.write().merge(&records, self.now_ms);
    }

    /// Sends more than the sums of one slot hold: the longest possible requests, timers with the
    /// most hits.
    fn send_longest(&mut self) {
        let mut sent = model::Request::named("h1", "s", "/1");
        sent.request_time = Some(2_147_483_520.0);
        sent.add_tag("env", "prod");
        sent.add_timer(u32::MAX, 2_147_483_520.0, &[("group", "db"), ("op", "op1")]);
        let mut records = Vec::new();
        (0..2_500).for_each(|_| test_harness::decode(&mut self.decoder, &sent, &mut records));
        self.live.write().merge(&records, self.now_ms);
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.clock.advance_ms(ms);
        self.live.write().advance(self.now_ms);
    }

    fn write(&self) -> Vec<u8> {
        self.write_with(&Counters::new(1))
    }

    fn write_with(&self, counters: &Counters) -> Vec<u8> {
        let cut = Cut::of(&self.live.read(), (counters, &[]), None);
        self.write_cut(cut)
    }

    fn write_cut(&self, cut: Cut) -> Vec<u8> {
        let subject =
            Subject { live: &self.live, profile: None, clock: &self.clock, stop: &Shutdown::new() };
        write(subject, cut, Vec::new()).unwrap().0
    }

    /// Everything that can be queried, as text.
    fn shown(&self) -> Vec<String> {
        let live = self.live.read();
        let want = Want { keys: true, quantiles: true, histograms: true };
        let mut shown: Vec<_> = live
            .reports
            .iter()
            .map(|entry| {
                let reading = live.reports.read(entry, want, &live.pool, 0);
                let folded = live.reports.overflowed(entry);
                format!("{} {folded} {reading:?}", entry.definition.name)
            })
            .collect();
        let ids = live.pool.requests.oldest_id()..live.pool.requests.next_id();
        shown.extend(ids.map(|id| {
            let row = live.pool.requests.get(id).unwrap();
            let origin = live.pool.origins.get(row.origin);
            let script = live.pool.strings.text(origin.script_name);
            let timers = live.pool.timers_of(&row).count();
            format!("{id} {script} {} {timers}", row.merged_at(self.now_ms))
        }));
        shown
    }
}

/// Some minutes of traffic, with more raw rows and report rows than there is room for.
fn busy() -> Process {
    let mut process = Process::start(PLAN);
    for step in 0..80 {
        process.send(step * 100);
        if step > 76 {
            process.send_longest();
        }
        process.pass(700 + step % 5 * 300);
    }
    process.send(8_000);
    process.send_longest();
    process.send_longest();
    process
}

#[test]
fn everything_comes_back_bit_for_bit_and_goes_on_alike() {
    let mut before = busy();
    let bytes = before.write();
    let (mut after, restored) = before.next(&bytes, PLAN, 0).unwrap();
    assert_eq!(restored.left_out, []);
    assert_eq!(after.shown(), before.shown());
    // Both continue: overflowed keys unfold at the same time, and counted requests leave at the
    // same time.
    for step in 0..150 {
        for process in [&mut before, &mut after] {
            if step < 60 {
                process.send(9_000 + step * 100);
            }
            process.pass(900);
        }
        if step % 10 == 0 {
            assert_eq!(after.shown(), before.shown(), "step {step}");
        }
    }
    assert_eq!(after.live.read().pool.strings.len(), before.live.read().pool.strings.len());
}

#[test]
fn what_expired_meanwhile_is_dropped_as_if_the_process_had_run_on() {
    for away_ms in [1, 999, 5_000, 31_000, 59_500, 86_400_000, 5_000_000_000] {
        let mut before = busy();
        let bytes = before.write();
        let (after, _) = before.next(&bytes, PLAN, away_ms).unwrap();
        before.pass(away_ms);
        assert_eq!(after.shown(), before.shown(), "{away_ms} ms away");
    }
}

#[test]
fn a_wall_clock_that_was_set_back_loses_nothing() {
    let before = busy();
    let contents = inspect(&before.write()[..]).unwrap();
    let day_back = before.clock.unix_ms() - 86_400_000;
    assert_eq!(contents.mono_now(day_back), before.now_ms);
    assert_eq!(contents.mono_now(u64::MAX), before.now_ms + MOMENT_MAX - before.clock.unix_ms());
}

#[test]
fn another_configuration_takes_what_fits() {
    let before = busy();
    let bytes = before.write();
    let names = |process: &Process| -> Vec<String> {
        let live = process.live.read();
        let reports = live.reports.iter();
        reports.map(|it| it.definition.name.clone()).collect()
    };
    // Fewer raw rows do not affect reports.
    let fewer = Limits { requests: 100, timers: 50, ..PLAN };
    let (after, restored) = before.next(&bytes, fewer, 0).unwrap();
    assert_eq!(restored.left_out, []);
    let reports = names(&before).len();
    assert_eq!(after.shown()[..reports], before.shown()[..reports]);
    assert!(after.live.read().pool.requests.len() <= 100);
    // With more rows per report, keys under `(other)` get rows of their own, and sums stay the
    // same.
    let wider = Limits { rows_max: 1_000, ..PLAN };
    let (after, _) = before.next(&bytes, wider, 0).unwrap();
    let folded = |process: &Process| {
        let live = process.live.read();
        let reports = live.reports.iter();
        reports.map(|it| live.reports.overflowed(it)).sum::<usize>()
    };
    assert!(folded(&before) > 0);
    assert_eq!(folded(&after), 0);
    // With too little memory, aggregates are left out, named, and filled from raw rows as far as
    // there is room.
    let poor = Limits { memory: 1 << 20, ..PLAN };
    let (after, _) = before.next(&bytes, poor, 0).unwrap();
    assert_eq!(names(&after), names(&before));
    let (used, limit, _) = after.live.read().reports.memory();
    assert!(used < limit * 2, "{used} of {limit}");
}

#[test]
fn reports_that_are_defined_otherwise_are_filled_from_raw_rows() {
    let before = busy();
    let bytes = before.write();
    let contents = inspect(&bytes[..]).unwrap();
    let now_ms = contents.mono_now(before.clock.unix_ms());
    let hasher = Hasher::new();
    let mut live = PLAN.live(&hasher, Vec::new());
    let mut wanted = definitions();
    // The last two swap places, and so definitions; one goes, one is new.
    let end = wanted.len();
    let names = [2, 1].map(|from_end| wanted[end - from_end].0.name.clone());
    wanted[end - 2].0.name.clone_from(&names[1]);
    wanted[end - 1].0.name.clone_from(&names[0]);
    let gone = wanted.remove(end - 3).0.name;
    let restored = restore(&bytes[..], &mut live, wanted, &[], None, now_ms).unwrap();
    let left_out = restored.left_out.iter();
    let mut left_out: Vec<_> = left_out.map(|it| it.report.as_str()).collect();
    left_out.sort_unstable();
    let mut expected = [&gone[..], &names[0], &names[1]];
    expected.sort_unstable();
    assert_eq!(left_out, expected);
    assert!(live.reports.find(&gone).is_none());
    let raw = live.pool.requests.len() as u64;
    assert_eq!(restored.requests, raw);
    let entry = live.reports.find(&names[1]).unwrap();
    assert_eq!(live.reports.usage(entry).flow.requests_offered, raw);
}

/// Errors counted by another limit are no errors: the log says so, and raw rows are counted anew.
#[test]
fn reports_with_other_errors_are_filled_from_raw_rows() {
    let before = busy();
    let bytes = before.write();
    let mut reader = RecordsReader::new(&bytes[..]).unwrap();
    let mut writer = RecordsWriter::new(Vec::new()).unwrap();
    while reader.advance().unwrap() {
        match reader.record().unwrap() {
            Record::ErrorStatus(500) => writer.record(&Record::ErrorStatus(400)).unwrap(),
            _ => writer.bytes(&reader.record).unwrap(),
        }
    }
    let (after, restored) = before.next(&writer.finish().unwrap(), PLAN, 0).unwrap();
    assert_eq!(restored.left_out.len(), definitions().len());
    assert!(restored.left_out[0].reason.contains("error_status"), "{:?}", restored.left_out);
    let live = after.live.read();
    let info = live.reports.iter().next().unwrap();
    let counted = live.reports.usage(info).flow.requests_offered;
    assert_eq!(counted, live.pool.requests.len() as u64);
}

/// Any content gives an error, or a daemon that works. The checksums are corrected, so that the
/// readers of each part are tested.
#[test]
fn a_file_that_cannot_be_ends_in_an_error_and_nothing_worse() {
    let small = Limits { requests: 150, timers: 400, rows_max: 10, memory: 16 << 20, ..PLAN };
    let mut before = Process::start(small);
    for step in 0..3 {
        before.send(step * 100);
        before.pass(1_100);
    }
    before.send(900);
    let bytes = before.write();
    let mut records = Vec::new();
    let mut reader = RecordsReader::new(&bytes[..]).unwrap();
    while reader.advance().unwrap() {
        records.push(reader.record.clone());
    }
    let mut refused = 0;
    let mut attempt = |changed: &[Vec<u8>]| {
        let mut writer = RecordsWriter::new(Vec::new()).unwrap();
        for record in changed {
            writer.bytes(record).unwrap();
        }
        let bytes = writer.finish().unwrap();
        match before.next(&bytes, small, 0) {
            Err(_) => refused += 1,
            Ok((mut after, _)) => {
                after.send(5);
                after.shown();
                after.pass(130_000);
            }
        }
    };
    let mut dice = crate::dice::Dice(12_345);
    let mut roll = |sides: usize| dice.index(sides);
    for _ in 0..400 {
        let mut changed = records.clone();
        let at = roll(changed.len());
        match roll(10) {
            0 => {
                changed.remove(at);
            }
            1 => {
                let other = roll(changed.len());
                changed.swap(at, other);
            }
            2 => {
                let twice = changed[at].clone();
                changed.insert(at, twice);
            }
            3 => {
                let cut = roll(changed[at].len() + 1);
                changed[at].truncate(cut);
            }
            _ => {
                let record = &mut changed[at];
                if !record.is_empty() {
                    let place = roll(record.len());
                    record[place] = [0, 1, 0x7f, 0x80, 0xff, roll(256) as u8][roll(6)];
                }
            }
        }
        attempt(&changed);
    }
    assert!(refused > 80, "{refused}");
}

/// A file so slow that the merger adds a hundred names between one write and the next; ticks end
/// meanwhile.
struct Meanwhile<'a> {
    bytes: Vec<u8>,
    process: &'a mut Process,
    name: u64,
}

impl Write for Meanwhile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The magic at the start is written before the cut.
        if self.bytes.len() > 16 && self.name < 9_500 {
            self.process.send_names(self.name, 100);
            self.name += 100;
            if self.name.is_multiple_of(1_000) {
                self.process.pass(1_000);
            }
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Process {
    /// Sends requests with every field named by a number, from `from` on.
    fn send_names(&mut self, from: u64, count: u64) {
        let mut records = Vec::new();
        for n in from..from + count {
            let string = |kind: &str| format!("{kind}-{n}");
            let mut sent =
                model::Request::named(string("host"), string("server"), string("script"));
            sent.request_time = Some((n % 1000) as f32 / 700.0);
            sent.memory_peak = Some(n as u32);
            sent.add_tag("env", string("env"));
            sent.add_timer(1, 0.25, &[("group", &*string("group")), ("op", "op")]);
            test_harness::decode(&mut self.decoder, &sent, &mut records);
        }
        self.live.write().merge(&records, self.now_ms);
    }

    /// The sums of every report, in total and in each row.
    fn sums(&self) -> BTreeMap<String, (Totals, BTreeMap<String, u64>)> {
        let live = self.live.read();
        let want = Want { keys: true, quantiles: false, histograms: false };
        let reports = live.reports.iter().map(|entry| {
            let reading = live.reports.read(entry, want, &live.pool, 0);
            let keys = 0..entry.definition.keys.len();
            let rows = (0..reading.len()).map(|row| {
                let keys: Vec<_> = keys.clone().map(|at| reading.key(row, at)).collect();
                (format!("{keys:?}"), reading.totals[row].requests)
            });
            (entry.definition.name.clone(), (reading.grand, rows.collect()))
        });
        reports.collect()
    }
}

/// Each under the name it had at the cut, or under `(other)`, and complete: never under the name of
/// a later group.
#[test]
fn names_that_fold_while_it_is_written() {
    let plan =
        Limits { requests: 20_000, timers: 20_000, rows_max: 20_000, memory: 6 << 20, ..PLAN };
    let mut process = Process::start(plan);
    for _ in 0..20 {
        process.send_names(0, 1_000);
        process.pass(1_000);
    }
    process.send_names(5_000, 700);
    let at_cut = process.sums();
    let folded = process.live.read().reports.memory().2;
    let live = Arc::clone(&process.live);
    let clock = ManualClock::new(1_700_000_000_000);
    clock.advance_ms(process.now_ms);
    let file = Meanwhile { bytes: Vec::new(), process: &mut process, name: 6_000 };
    let cut = Cut::of(&live.read(), (&Counters::new(1), &[]), None);
    let subject = Subject { live: &live, profile: None, clock: &clock, stop: &Shutdown::new() };
    let (file, _) = write(subject, cut, file).unwrap();
    let Meanwhile { bytes, name, .. } = file;
    assert!(name >= 8_000, "ticks ended meanwhile: {name}");
    let folded_meanwhile = process.live.read().reports.memory().2 - folded;
    assert!(folded_meanwhile > 1_000, "{folded_meanwhile}");
    let (after, _) = process.next(&bytes, plan, 0).unwrap();
    for (report, (grand, rows)) in after.sums() {
        let (grand_then, rows_then) = &at_cut[&report];
        assert_eq!(grand, *grand_then, "{report}");
        for (key, requests) in rows.iter().filter(|(key, _)| !key.contains("None")) {
            let then = rows_then.get(key).copied().unwrap_or(0);
            assert!(*requests <= then, "{report} {key}: {requests} of {then}");
        }
    }
}

/// A tick may end between the cut and the copying of groups, and be half closed at the cut.
#[test]
fn extremes_are_those_of_the_cut() {
    let extremes = |process: &Process| {
        let live = process.live.read();
        let want = Want { keys: true, quantiles: false, histograms: false };
        let reports = live.reports.iter().filter(|entry| entry.definition.extremes);
        let rows = reports.flat_map(|entry| {
            let reading = live.reports.read(entry, want, &live.pool, 0);
            let keys = 0..entry.definition.keys.len();
            let row = |row| {
                let keys: Vec<_> = keys.clone().map(|at| reading.key(row, at)).collect();
                (format!("{} {keys:?}", entry.definition.name), reading.extremes[row])
            };
            (0..reading.len()).map(row).collect::<Vec<_>>()
        });
        rows.collect::<BTreeMap<_, _>>()
    };
    let plan = Limits { rows_max: 1_000, ..PLAN };
    for pieces in 0.. {
        let mut process = Process::start(plan);
        process.send_names(0, 150);
        process.pass(1_000);
        process.send_names(150, 150);
        process.now_ms += 1_000;
        process.clock.advance_ms(1_000);
        let is_over = (0..pieces).any(|_| {
            let Live { reports, pool, holds, .. } = &mut *process.live.write();
            !reports.advance_some(process.now_ms, pool, holds)
        });
        let at_cut = extremes(&process);
        let cut = Cut::of(&process.live.read(), (&Counters::new(1), &[]), None);
        process.pass(0);
        // These exceed the earlier ones of the same names.
        process.send_names(0, 150);
        process.pass(1_000);
        let (after, _) = process.next(&process.write_cut(cut), plan, 0).unwrap();
        assert!(at_cut.len() > 600, "{}", at_cut.len());
        assert_eq!(extremes(&after), at_cut, "after {pieces} pieces");
        if is_over {
            assert!(pieces > 10, "{pieces} pieces");
            break;
        }
    }
}

/// Those of a source that is read from elsewhere do not.
#[test]
fn what_lines_of_squid_add_up_to_comes_back_to_their_source() {
    let source = |port: u16| {
        let text = format!("[[squid]]\nlisten = 'udp://127.0.0.1:{port}'");
        let config = Config::from_toml("c", &text).unwrap();
        let source = Source::new(config.squids[0].clone());
        source.sums.lock().window_secs = 900;
        source
    };
    let swaps = |source: &Source| {
        let rows = sums::swaps([source].into_iter(), 0);
        rows.into_iter().map(|(key, sum)| (key, sum.count))
    };
    let [before, other, same] = [1, 2, 1].map(source);
    let saved = json!({"from": "", "answers": [], "swaps": [[0, b"SWAPIN\0\0t/x",
        {"count": 2, "bytes": 3, "timed": 0, "first_delay_us": 0, "total_us": 0}]]});
    let saved = serde_json::from_value(saved).unwrap();
    before.sums.lock().restore(saved, 0);
    let bytes =
        Process::start(PLAN).write_with(&Counters { squids: vec![before], ..Counters::new(1) });
    let mut live = PLAN.live(&Hasher::new(), Vec::new());
    let squids = [Arc::clone(&other), Arc::clone(&same)];
    restore(&bytes[..], &mut live, definitions(), &squids, None, 0).unwrap();
    let key = ["SWAPIN", "", "t/x"].map(str::to_owned).to_vec();
    assert_eq!(swaps(&same).collect::<Vec<_>>(), [(key, 2)]);
    assert_eq!(swaps(&other).count(), 0);
}

/// Groups that became one on their way back are one in the next snapshot.
#[test]
fn what_folds_on_its_way_back_can_be_written_again() {
    let little = Limits { memory: 3 << 20, ..PLAN };
    let mut process = Process::start(PLAN);
    for step in 0..30 {
        process.send_names(step * 100, 200);
        process.pass(1_000);
    }
    let (folded, restored) = process.next(&process.write(), little, 0).unwrap();
    assert_eq!(restored.left_out, []);
    assert!(folded.live.read().reports.memory().2 > 0);
    let (again, restored) = folded.next(&folded.write(), little, 0).unwrap();
    assert_eq!(restored.left_out, []);
    let sums = |process: &Process| {
        let sums = process.sums().into_iter();
        sums.map(|(name, (all, _))| (name, all))
    };
    assert!(sums(&again).eq(sums(&folded)));
}
