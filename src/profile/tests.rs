//! Tests of the way from lines to the pool, of reports over samples, and of snapshots.

use super::*;
use crate::clock::ManualClock;
use crate::input::record::Hasher;
use crate::input::rewrite::NameRules;
use crate::input::stat::Chunk;
use crate::input::stat::line::{SampleType, split};

pub(crate) fn named() -> Names {
    Names::new(NameRules::new(&[], Hasher::with_seed(1), Arc::default()))
}

pub(crate) fn sample(pid: u64, elapsed: &str, function: &str) -> String {
    format!(
        r#"{{"type": "internal", "request": {{"pid": {pid}, "elapsed": 0.5, "path": "/var/www/a.php", "method":GET", "uri":/a?b"}}, "elapsed": {elapsed}, "memory": {{"used": 7, "peak": 8}}, "symbol": {{"function": "{function}"}}, "caller": {{"file": "/var/www/a.php", "scope": "A"}}}}"#
    ) + "\n"
}

fn add(pool: &mut Pool, run: &Arc<Run>, line: &str) {
    let line = split(line.trim_end().as_bytes()).unwrap();
    pool.add(run, Some("/var/www"), &line, &mut named(), |_| {}).unwrap();
}

fn run() -> Arc<Run> {
    Arc::new(Run::new(1, "web".into()))
}

#[test]
fn the_oldest_samples_give_way() {
    let (mut pool, run) = (Pool::new(10_000), run());
    for number in 0..50_000 {
        add(&mut pool, &run, &sample(number % 100, "1.0", "md5"));
    }
    assert!(pool.len() <= 10_000 && pool.len() > 1_000, "{}", pool.len());
    let snapshot = pool.snapshot().unwrap();
    assert_eq!(snapshot.len(), pool.len());
    let last = snapshot.segments.last().unwrap();
    assert_eq!(last.first_id + last.samples.len() as u64 - 1, 50_000);
    assert!(last.requests.len() <= 100 && last.frames.len() == 2);
    pool.clear();
    assert_eq!((pool.len(), pool.snapshot().unwrap().len()), (0, 0));
    add(&mut pool, &run, &sample(1, "1.0", "md5"));
    assert_eq!(pool.snapshot().unwrap().segments[0].first_id, 50_001);
}

#[test]
fn names_without_end_do_not_grow_it() {
    let (mut pool, run) = (Pool::new(100_000), run());
    let long = "f".repeat(3_000);
    for number in 0..20_000 {
        add(&mut pool, &run, &sample(number, "1.0", &format!("{long}{number}")));
    }
    let snapshot = pool.snapshot().unwrap();
    let texts = |it: &Frame| it.function.as_ref().map_or(0, |it| it.len());
    let all = snapshot.segments.iter().flat_map(|it| &it.frames);
    let bytes: usize = all.map(texts).sum();
    assert!(bytes < pool_bytes(100_000) / 2, "{bytes}");
    assert!(snapshot.len() < 2_000, "{}", snapshot.len());
}

#[test]
fn who_reads_slowly_gets_no_more_than_so_much() {
    let (mut pool, run) = (Pool::new(20_000), run());
    let mut held = Vec::new();
    let mut refused = false;
    for number in 0..400_000 {
        add(&mut pool, &run, &sample(1, "1.0", "md5"));
        if number % 10_000 == 0 {
            match pool.snapshot() {
                Some(snapshot) => held.push(snapshot),
                None => refused = true,
            }
        }
    }
    assert!(refused);
    held.clear();
    assert!(pool.snapshot().is_some());
}

/// A profile with one source, and the intake that takes its lines.
pub(crate) fn profile() -> (Arc<Profile>, Intake, Arc<ManualClock>) {
    let source = crate::input::stat::tests::source(std::path::Path::new("/nowhere"));
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let profile = Profile::new(vec![source], 100_000, Arc::clone(&clock) as Arc<dyn Clock>);
    let intake = Intake::new(Arc::clone(&profile), named());
    (profile, intake, clock)
}

/// Feeds these bytes as if they had just been read.
pub(crate) fn feed(profile: &Profile, intake: &mut Intake, connection: u64, bytes: &[u8]) {
    push(profile, intake, (connection, false), bytes);
}

fn push(profile: &Profile, intake: &mut Intake, (connection, is_dump): (u64, bool), bytes: &[u8]) {
    profile.sources[0].queue.push(Chunk {
        connection,
        received_ms: profile.clock.mono_ms(),
        after_gap: false,
        is_dump,
        bytes: bytes.into(),
    });
    while intake.turn() {}
}

#[test]
fn a_backlog_lies_where_it_happened() {
    let (profile, mut intake, clock) = profile();
    clock.advance_ms(100_000);
    // First a backlog of 30 seconds, which arrives at once; then a sample that arrives as it is
    // taken.
    let backlog = [sample(1, "10.0", "a"), sample(1, "40.0", "b")].concat();
    feed(&profile, &mut intake, 1, backlog.as_bytes());
    clock.advance_ms(5_000);
    feed(&profile, &mut intake, 2, sample(1, "44.0", "c").as_bytes());
    clock.advance_ms(1_000);
    feed(&profile, &mut intake, 2, sample(1, "46.0", "d").as_bytes());
    let snapshot = profile.snapshot().unwrap();
    let segment = &snapshot.segments[0];
    let times: Vec<_> = segment
        .samples
        .iter()
        .map(|it| segment.request(it).run.time_us(it.elapsed) / 1000)
        .collect();
    let first = times[0];
    assert_eq!(times.iter().map(|it| it - first).collect::<Vec<_>>(), [0, 30_000, 34_000, 36_000]);
    assert_eq!(times[1], 100_000);
    assert_eq!(profile.sources[0].counters.runs.get(), 1);
    // Another process, whose clock starts over.
    feed(&profile, &mut intake, 3, sample(1, "0.6", "e").as_bytes());
    let snapshot = profile.snapshot().unwrap();
    let segment = &snapshot.segments[0];
    let last = segment.samples.last().unwrap();
    let run = &segment.request(last).run;
    assert_eq!(run.time_us(last.elapsed), 106_000_000);
    assert_eq!(profile.sources[0].counters.runs.get(), 2);
    assert_eq!(
        segment.requests.len(),
        2,
        "the same process and start in another run is another request"
    );
}

/// PHP was restarted, or it is another dump: the clock need not go back.
#[test]
fn a_connection_whose_clock_shows_another_start_is_another_run() {
    let (profile, mut intake, clock) = profile();
    clock.advance_ms(7_200_000);
    // Idle until it was restarted; a dump of an hour; one that begins a little later.
    for (connection, secs) in [(1, "2.0"), (2, "3.0"), (3, "3600.0"), (4, "3601.0")] {
        feed(&profile, &mut intake, connection, sample(1, secs, "a").as_bytes());
        clock.advance_ms(60_000);
    }
    let snapshot = profile.snapshot().unwrap();
    let segment = &snapshot.segments[0];
    let times = segment.samples.iter();
    let times = times.map(|it| segment.request(it).run.time_us(it.elapsed) / 1_000_000);
    assert_eq!(times.collect::<Vec<_>>(), [7_200, 7_260, 7_320, 7_380]);
    assert_eq!(profile.sources[0].counters.runs.get(), 4);
}

/// Two runs of a short script: the clock of the second may begin where that of the first ended.
#[test]
fn each_dump_is_a_run() {
    let (profile, mut intake, clock) = profile();
    clock.advance_ms(7_200_000);
    for (connection, secs) in [(1, "0.5"), (2, "0.6")] {
        push(&profile, &mut intake, (connection, true), sample(1, secs, "a").as_bytes());
        clock.advance_ms(8_000);
    }
    let snapshot = profile.snapshot().unwrap();
    let segment = &snapshot.segments[0];
    let times = segment.samples.iter();
    let times = times.map(|it| segment.request(it).run.time_us(it.elapsed) / 1_000_000);
    assert_eq!(times.collect::<Vec<_>>(), [7_200, 7_208]);
    assert_eq!(profile.sources[0].counters.runs.get(), 2);
    assert_eq!(segment.requests.len(), 2);
}

#[test]
fn every_line_is_a_sample_or_counted_as_bad() {
    let (profile, mut intake, _) = profile();
    let mut bytes = sample(1, "1.0", "md5").into_bytes();
    bytes.extend_from_slice(b"nonsense\n");
    bytes.extend_from_slice(&sample(1, "0.9", "md5").into_bytes());
    bytes.extend_from_slice(b"{\"type\": \"user\", \"request\": {\"pi");
    feed(&profile, &mut intake, 1, &bytes);
    feed(&profile, &mut intake, 2, sample(1, "1.1", "md5").as_bytes());
    let late = sample(1, "1.100025", "md5");
    feed(&profile, &mut intake, 2, late.as_bytes());
    let counters = profile.sources[0].counters.counts();
    assert_eq!(counters.lines_received.get(), 5);
    assert_eq!(counters.samples.get(), 4);
    assert_eq!(counters.lines_invalid.total(), 1);
    assert_eq!(counters.lines_cut.get(), 1);
    // One line out of order, one burst and one without quotes: later lines of the request are still
    // recognized.
    assert_eq!(counters.samples_mended.total(), 3);
    let example = profile.sources[0].example.lock().clone().unwrap();
    assert_eq!((example.reason, &*example.line), ("no_sample", "nonsense"));
    let status = profile.status();
    assert_eq!(status.len(), 2);
}

#[test]
fn what_a_sample_says() {
    let (mut pool, run) = (Pool::new(10_000), run());
    add(
        &mut pool,
        &run,
        "{\"type\": \"user\", \"request\": {\"pid\": 1, \"elapsed\": 0.5, \"path\": \"/var/www/a.php\"}, \"elapsed\": 1.0, \"memory\": {\"used\": 1, \"peak\": 2}, \"symbol\": {\"file\": \"/var/www/a.php\", \"scope\": \"class@anonymous\0/var/www/a.php:9$0\", \"function\": \"busy\"}, \"arginfo\": [\"int(1.0)\",\"string\"], \"opline\": {\"line\": 9, \"offset\": 7, \"opcode\": \"ASSIGN_OP\"}}",
    );
    let snapshot = pool.snapshot().unwrap();
    let segment = &snapshot.segments[0];
    let sample = &segment.samples[0];
    let symbol = segment.symbol(sample).unwrap();
    assert_eq!(symbol.file.as_deref(), Some("/a.php"));
    assert_eq!(symbol.scope.as_deref(), Some("class@anonymous\\x00/var/www/a.php:9$0"));
    assert_eq!(segment.arguments(sample), Some("int, string"));
    assert_eq!((sample.line(), sample.offset()), (Some(9), Some(7)));
    assert_eq!(segment.opcode(sample), Some("ASSIGN_OP"));
    assert_eq!(sample.sample_type, SampleType::User);
    assert_eq!(segment.request(sample).path.as_deref(), Some("/var/www/a.php"));
    assert_eq!(segment.request(sample).script.as_deref(), Some("/a.php"));
}

/// A line of any type; `what` selects the sampled function.
fn any(pid: u64, begun: u64, elapsed: u64, used: u64, what: &str) -> String {
    let (kind, rest) = match what {
        "" => ("memory", String::new()),
        "{main}" => (
            "user",
            r#", "symbol": {"file": "/var/www/a.php"}, "opline": {"line": 3, "offset": 1, "opcode": "ECHO"}"#.to_owned(),
        ),
        name if name.starts_with('f') => (
            "user",
            format!(r#", "symbol": {{"file": "/var/www/lib.php", "scope": "App\\Shop", "function": "{name}"}}, "opline": {{"line": 7, "offset": 1, "opcode": "ADD"}}"#).replace("\\\\", "\\"),
        ),
        name => (
            "internal",
            format!(r#", "symbol": {{"function": "{name}"}}, "caller": {{"file": "/var/www/a.php"}}"#),
        ),
    };
    let (a, b) = (elapsed / 10_000, elapsed % 10_000);
    format!(
        r#"{{"type": "{kind}", "request": {{"pid": {pid}, "elapsed": {begun}.5, "path": "/var/www/{}.php", "method":GET", "uri":/{pid}"}}, "elapsed": {a}.{b:04}, "memory": {{"used": {used}, "peak": {used}}}{rest}}}"#,
        ["a", "b"][(pid % 2) as usize]
    ) + "\n"
}

/// A row of a report, computed independently: (samples, seconds, memory, largest, growth).
type Row = (u64, f64, f64, u64, i64);

#[test]
fn a_recount_of_all_samples_comes_to_the_same() {
    for seed in 1..=20_u64 {
        let (profile, mut intake, clock) = profile();
        clock.advance_ms(1_000_000);
        let mut dice = crate::dice::Dice(seed);
        let mut random = |end: u64| dice.below(end);
        // (pid, begun, elapsed, used, what), a few requests at a time, out of order and with gaps.
        let mut all = Vec::new();
        let mut elapsed = 100_000;
        for _ in 0..400 {
            elapsed += match random(40) {
                0 => 20_000,
                1..=5 => 0,
                _ => random(30),
            };
            let pid = random(3);
            let begun = elapsed / 40_000;
            let what = ["", "{main}", "f1", "f2", "md5", "sqrt"][random(6) as usize];
            let late = random(10) == 0;
            all.push((
                pid,
                begun,
                elapsed - if late { random(50) } else { 0 },
                random(1_000_000),
                what,
            ));
        }
        let mut text = String::new();
        for (pid, begun, elapsed, used, what) in &all {
            text += &any(*pid, *begun, *elapsed, *used, what);
        }
        for piece in text.as_bytes().chunks(97) {
            feed(&profile, &mut intake, 1, piece);
        }
        assert_eq!(profile.pool.lock().len(), all.len());
        let recent = profile.recent(None).unwrap();
        // Independent computation: by request, sorted, with plain vectors.
        let mut requests: Vec<(u64, u64)> = all.iter().map(|it| (it.0, it.1)).collect();
        requests.sort_unstable();
        requests.dedup();
        assert_eq!(recent.requests.len(), requests.len());
        let mut expected: std::collections::BTreeMap<String, Row> =
            std::collections::BTreeMap::new();
        for of in requests {
            // Of samples with equal times, the one that arrived first is the first.
            let mut samples: Vec<_> = all.iter().filter(|it| (it.0, it.1) == of).collect();
            samples.sort_by_key(|it| it.2);
            let mut gaps: Vec<_> = samples.windows(2).map(|it| it[1].2 - it[0].2).collect();
            gaps.sort_unstable();
            let median = gaps.get(gaps.len().saturating_sub(1) / 2).copied().unwrap_or(0);
            let sampled: u64 = gaps.iter().filter(|gap| **gap <= 10 * median).sum();
            let busy = samples.iter().filter(|it| !it.4.is_empty()).count().max(1);
            let mut before = None;
            for it in samples {
                let name = if it.4.is_empty() { "(idle)" } else { it.4 };
                let row = expected.entry(name.to_owned()).or_default();
                row.0 += 1;
                if !it.4.is_empty() {
                    row.1 += sampled as f64 / 1e4 / busy as f64;
                }
                row.2 += it.3 as f64;
                row.3 = row.3.max(it.3);
                row.4 += before.map_or(0, |before: i64| it.3 as i64 - before);
                before = Some(it.3 as i64);
            }
        }
        let report = |keys: &[&str], filters: &[&str]| {
            let owned = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            definition::SampleReport::read(&owned(keys), &owned(filters), Duration::from_secs(900))
                .unwrap()
        };
        let groups = recent.report(&report(&["function"], &[]));
        let found: std::collections::BTreeMap<String, Row> = groups
            .rows
            .iter()
            .map(|row| {
                let report::KeyValue::Text(name) = &row.keys[0] else { panic!("{row:?}") };
                (
                    name.to_string(),
                    (
                        row.samples,
                        row.seconds,
                        row.memory_sum as f64,
                        row.memory_max,
                        row.memory_growth,
                    ),
                )
            })
            .collect();
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (name, (samples, seconds, sum, max, growth)) in &expected {
            let row = &found[name];
            assert_eq!(
                (row.0, row.2, row.3, row.4),
                (*samples, *sum, *max, *growth),
                "{name}, seed {seed}"
            );
            assert!((row.1 - seconds).abs() < 1e-9, "{name}: {} {seconds}, seed {seed}", row.1);
        }
        let busy = all.iter().filter(|it| !it.4.is_empty()).count() as u64;
        assert_eq!(groups.busy, busy);
        // By steps of time: one row again computed independently, and all steps together are the
        // row.
        let first = all.iter().map(|it| it.2).min().unwrap();
        for row in &groups.rows {
            let report::KeyValue::Text(name) = &row.keys[0] else { panic!("{row:?}") };
            let wanted = crate::report::definition::Pattern::Equals(name.to_string());
            let key = [(definition::SampleKey::Function, wanted)];
            let mut steps = vec![report::Step::default(); 2_000];
            let from_us = recent.oldest_us.unwrap();
            let by_function = report(&["function"], &[]);
            let place = (from_us, 50_000);
            assert!(report::fill_steps(&mut steps, &by_function, &key, &recent, place));
            let what = if &**name == "(idle)" { "" } else { name };
            for (at, step) in steps.iter().enumerate() {
                let in_step = |it: &&(u64, u64, u64, u64, &str)| (it.2 - first) / 500 == at as u64;
                let of = all.iter().filter(in_step);
                assert_eq!(step.row.samples, of.clone().filter(|it| it.4 == what).count() as u64);
                let busy = of.filter(|it| !it.4.is_empty()).count();
                assert_eq!(step.busy, busy as u64, "{name}, seed {seed}");
            }
            let sum = |of: fn(&report::SampleRow) -> i64| -> i64 {
                steps.iter().map(|step| of(&step.row)).sum()
            };
            assert_eq!(sum(|it| it.memory_growth), row.memory_growth);
            let seconds: f64 = steps.iter().map(|step| step.row.seconds).sum();
            assert!((seconds - row.seconds).abs() < 1e-9);
        }
        // Filters remove rows and change none of the others.
        let some = recent.report(&report(&["function"], &["type=internal"]));
        for row in &some.rows {
            assert!(groups.rows.contains(row), "{row:?}");
        }
        let names = ["md5", "sqrt"].map(|name| expected.get(name).map_or(0, |row| row.0));
        assert_eq!(some.busy, names.iter().sum::<u64>());
        let callers = recent.report(&report(&["caller"], &["type=internal"]));
        assert_eq!(callers.rows[0].keys[0], report::KeyValue::Text("{main} /a.php".into()));
        let none =
            recent.report(&report(&["line"], &["scope=App*", "function!=f1", "function!=f2"]));
        assert!(none.rows.is_empty());
    }
}

#[test]
fn requests_end_by_a_newer_one_or_by_time() {
    let (profile, mut intake, clock) = profile();
    clock.advance_ms(1_000_000);
    let text =
        [any(1, 0, 10_000, 5, "md5"), any(1, 1, 20_000, 6, "md5"), any(2, 1, 21_000, 7, "md5")]
            .concat();
    feed(&profile, &mut intake, 1, text.as_bytes());
    let ended = |profile: &Profile| {
        let recent = profile.recent(None).unwrap();
        let mut all: Vec<_> =
            recent.requests.iter().map(|it| (it.request.pid, it.first, it.ended)).collect();
        all.sort_unstable();
        all.iter().map(|it| it.2).collect::<Vec<_>>()
    };
    assert_eq!(ended(&profile), [true, false, false]);
    clock.advance_ms(61_000);
    assert_eq!(ended(&profile), [true, true, true]);
    // They leave the window too.
    assert_eq!(profile.recent(Some(Duration::from_secs(30))).unwrap().requests.len(), 0);
}

#[test]
fn what_was_looked_at_does_not_keep_others_from_looking() {
    let (profile, mut intake, clock) = profile();
    let many: String = (0..20_000).map(|_| sample(1, "1.0", "md5")).collect();
    feed(&profile, &mut intake, 1, many.as_bytes());
    assert_eq!(profile.recent(None).unwrap().iter().count(), 20_000);
    // No snapshot is taken while the pool wraps twice.
    for _ in 0..12 {
        feed(&profile, &mut intake, 1, many.as_bytes());
    }
    clock.advance_ms(2_000);
    assert!(profile.snapshot().is_some());
    assert!(profile.recent(None).is_some());
}
