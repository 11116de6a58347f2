//! What lines become in the pool, what of them is kept, and what a snapshot shows.

use super::*;
use crate::clock::ManualClock;
use crate::input::stat::Chunk;
use crate::input::stat::line::{SampleType, split};

fn named() -> Names {
    Names::new(None)
}

fn sample(pid: u64, elapsed: &str, function: &str) -> String {
    format!(
        r#"{{"type": "internal", "request": {{"pid": {pid}, "elapsed": 0.5, "path": "/var/www/a.php", "method":GET", "uri":/a?b"}}, "elapsed": {elapsed}, "memory": {{"used": 7, "peak": 8}}, "symbol": {{"function": "{function}"}}, "caller": {{"file": "/var/www/a.php", "scope": "A"}}}}"#
    ) + "\n"
}

fn add(pool: &mut Pool, run: &Arc<Run>, line: &str) {
    let line = split(line.trim_end().as_bytes()).unwrap();
    pool.add(run, Some("/var/www"), &line, &mut named(), |_| {})
        .unwrap();
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
    assert!(pool.is_empty() && pool.snapshot().unwrap().is_empty());
    add(&mut pool, &run, &sample(1, "1.0", "md5"));
    assert_eq!(pool.snapshot().unwrap().segments[0].first_id, 50_001);
}

#[test]
fn names_without_end_do_not_grow_it() {
    let (mut pool, run) = (Pool::new(100_000), run());
    let long = "f".repeat(3_000);
    for number in 0..20_000 {
        add(
            &mut pool,
            &run,
            &sample(number, "1.0", &format!("{long}{number}")),
        );
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

/// A profile with one source, and what takes its lines.
pub(crate) fn profile() -> (Arc<Profile>, Intake, Arc<ManualClock>) {
    let source = crate::input::stat::tests::source(std::path::Path::new("/nowhere"));
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let profile = Profile::new(vec![source], 100_000, Arc::clone(&clock) as Arc<dyn Clock>);
    let intake = Intake::new(Arc::clone(&profile), named());
    (profile, intake, clock)
}

/// Takes these bytes as if they had just been read.
pub(crate) fn feed(profile: &Profile, intake: &mut Intake, connection: u64, bytes: &[u8]) {
    profile.sources[0].queue.push(Chunk {
        connection,
        received_ms: profile.clock.mono_ms(),
        after_gap: false,
        bytes: bytes.into(),
    });
    while intake.turn() {}
}

#[test]
fn a_backlog_lies_where_it_happened() {
    let (profile, mut intake, clock) = profile();
    clock.advance_ms(100_000);
    // What waited for 30 seconds comes at once; then one as it happens.
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
    assert_eq!(
        times.iter().map(|it| it - first).collect::<Vec<_>>(),
        [0, 30_000, 34_000, 36_000]
    );
    assert_eq!(times[1], 100_000);
    assert_eq!(profile.sources[0].counters.runs.get(), 1);
    // Another process: its clock has begun anew.
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

#[test]
fn every_line_is_a_sample_or_counted_as_bad() {
    let (profile, mut intake, _) = profile();
    let mut bytes = sample(1, "1.0", "md5").into_bytes();
    bytes.extend_from_slice(b"nonsense\n");
    bytes.extend_from_slice(&sample(1, "0.9", "md5").into_bytes());
    bytes.extend_from_slice(b"{\"type\": \"user\", \"request\": {\"pi");
    feed(&profile, &mut intake, 1, &bytes);
    feed(&profile, &mut intake, 2, sample(1, "1.1", "md5").as_bytes());
    let counters = profile.sources[0].counters.counts();
    assert_eq!(counters.lines_received.get(), 4);
    assert_eq!(counters.samples.get(), 3);
    assert_eq!(counters.lines_invalid.total(), 1);
    assert_eq!(counters.lines_cut.get(), 1);
    // Out of order once, unquoted once: later lines of the request are known.
    assert_eq!(counters.samples_mended.total(), 2);
    let example = profile.sources[0].example.lock().clone().unwrap();
    assert_eq!(
        (example.reason.name(), &*example.line),
        ("no_sample", "nonsense")
    );
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
    assert_eq!(
        symbol.scope.as_deref(),
        Some("class@anonymous\\x00/var/www/a.php:9$0")
    );
    assert_eq!(segment.arguments(sample), Some("int, string"));
    assert_eq!((sample.line(), sample.offset()), (Some(9), Some(7)));
    assert_eq!(segment.opcode(sample), Some("ASSIGN_OP"));
    assert_eq!(sample.sample_type, SampleType::User);
    assert_eq!(
        segment.request(sample).path.as_deref(),
        Some("/var/www/a.php")
    );
    assert_eq!(segment.request(sample).script.as_deref(), Some("/a.php"));
}
