//! Requests written and read: unbiased samples, complete files, kills at every step.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::{Float64Type, Int64Type, TimestampMillisecondType};
use parking_lot::RwLock;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use prost::Message as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::history::Retention;
use crate::history::disk::{Disk, StoreError};
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, model};
use crate::input::record::Hasher;
use crate::merger::test_harness::{self, Limits};

pub(in crate::history) const BEGIN: u32 = 1_700_000_000;
pub(in crate::history) const RETENTION: Retention =
    Retention { secs: [1 << 40; 3], size_max: 1 << 40, free_min: 0 };

/// A process with this many raw rows.
pub(in crate::history) struct Process {
    pub(in crate::history) live: SharedLive,
    decoder: Decoder,
}

impl Process {
    pub(in crate::history) fn new(rows: usize) -> Self {
        let hasher = Hasher::new();
        let limits = Limits {
            window: Duration::from_secs(900),
            requests: rows,
            timers: rows * 5,
            words: 16 << 20,
            rows_max: 100,
            memory: 16 << 20,
        };
        let mut live = limits.live(&hasher, Vec::new());
        let decoder = test_harness::decoder(hasher, &mut live);
        Self { live: Arc::new(RwLock::new(live)), decoder }
    }

    pub(in crate::history) fn merge(&mut self, received: u32, requests: &[model::Request]) {
        let mut records = Vec::new();
        for request in requests {
            let packet = request.encode_to_vec();
            let decoded = self.decoder.decode(&packet, received, &mut records);
            assert_eq!(decoded, Ok(1));
        }
        self.live.write().merge(&records, u64::from(received - BEGIN) * 1_000);
    }

    pub(in crate::history) fn requests(
        &self,
        keep: KeptRequests,
        bytes_max: usize,
        run: u64,
    ) -> Requests {
        let mut config = Config::default();
        config.history.requests = keep;
        Requests::new(&config, bytes_max, run, &self.live).unwrap()
    }
}

impl Store {
    /// Writes what was collected. What cannot be written stays, to be written with what comes.
    pub(in crate::history) fn flush_requests(
        &mut self,
        requests: &Requests,
        now: u64,
    ) -> Result<(), StoreError> {
        let mut rows = requests.begin_flush(u64::MAX);
        let written = match rows.is_empty() {
            true => Ok(()),
            false => self.write((None, &mut rows), None, now, || requests.copier().clear()),
        };
        requests.end_flush(written.is_ok().then_some(rows.len()));
        written
    }
}

/// A request as others send them: some are slow, some fail, most have timers.
pub(in crate::history) fn sent(random: &mut StdRng) -> model::Request {
    // The lower ones are the more frequent ones.
    let most = random.random_range(1..60);
    let script = random.random_range(0..most);
    let host = format!("web{:02}", random.random_range(0..20));
    let mut sent = model::Request::named(host, "shop.example.com", format!("/shop/{script}.php"));
    let slow = f64::exp(random.random_range(0.0..6.0));
    sent.request_time = Some((random.random_range(5_000.0..20_000.0) * slow / 1e6) as f32);
    sent.ru_utime = Some(random.random_range(0..40_000) as f32 / 1e6);
    sent.ru_stime = Some(random.random_range(0..4_000) as f32 / 1e6);
    sent.document_size = Some(random.random_range(500..60_000));
    sent.memory_peak = Some(random.random_range(8..64) << 18);
    sent.status = Some(if random.random_range(0..20) == 0 { 500 } else { 200 });
    if random.random_bool(0.3) {
        sent.add_tag("env", "prod");
    }
    for _ in 0..4 {
        let group = ["db", "cache", "http"][random.random_range(0..3)];
        let op = format!("op{}", random.random_range(0..12));
        let value = (random.random_range(100.0..8_000.0) * slow / 1e6) as f32;
        sent.add_timer(random.random_range(1..4), value, &[("group", group), ("op", &op)]);
    }
    sent
}

fn script_name(sent: &model::Request) -> String {
    String::from_utf8(sent.script_name.clone().unwrap()).unwrap()
}

/// The rows of all published files of a table.
pub(in crate::history) fn published(dir: &Path, table: &str) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    for folder in std::fs::read_dir(dir.join(table)).into_iter().flatten() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|it| it != "parquet") {
                continue;
            }
            let file = File::open(path).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            batches.extend(reader.build().unwrap().map(Result::unwrap));
        }
    }
    batches
}

pub(in crate::history) fn ints(batches: &[RecordBatch], name: &str) -> Vec<i64> {
    let columns = batches.iter().map(|batch| batch.column_by_name(name).unwrap());
    let values = columns.flat_map(|column| column.as_primitive::<Int64Type>().values().to_vec());
    values.collect()
}

fn texts(batches: &[RecordBatch], name: &str) -> Vec<String> {
    let columns = batches.iter().map(|batch| batch.column_by_name(name).unwrap());
    let values = columns.flat_map(|column| {
        let texts = column.as_string::<i32>();
        texts.iter().map(|text| text.unwrap_or("NULL").to_owned()).collect::<Vec<_>>()
    });
    values.collect()
}

fn weights(batches: &[RecordBatch]) -> Vec<f64> {
    let columns = batches.iter().map(|batch| batch.column_by_name("weight").unwrap());
    let values = columns.flat_map(|column| column.as_primitive::<Float64Type>().values().to_vec());
    values.collect()
}

pub(in crate::history) fn publish_all(store: &mut Store, now: u64) {
    while store.publish_due(now, &mut |_| Ok(())).unwrap() {}
}

/// The requests sent, by their ids.
type Sent = BTreeMap<i64, model::Request>;

#[test]
fn all_requests_come_back_as_they_were_sent() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), RETENTION).unwrap();
    let mut process = Process::new(5_000);
    let requests = process.requests(KeptRequests::All, 200_000, store.run());
    let mut random = StdRng::seed_from_u64(1);
    let mut all = Sent::new();
    let mut received = BEGIN;
    for _ in 0..80 {
        let batch: Vec<_> = (0..random.random_range(1..300)).map(|_| sent(&mut random)).collect();
        process.merge(received, &batch);
        let first = all.len() as i64 + 1;
        all.extend((first..).zip(batch));
        while !requests.select() {
            store.flush_requests(&requests, received.into()).unwrap();
        }
        received += random.random_range(0..200);
    }
    store.flush_requests(&requests, received.into()).unwrap();
    assert_eq!(requests.copier().written, all.len() as u64);
    assert_eq!(requests.0.copier.lock().missed, 0);
    publish_all(&mut store, u64::from(received) + 10_000);
    let rows = published(dir.path(), REQUEST);
    assert_eq!(weights(&rows), vec![1.0; all.len()]);
    let (ids, times) = (ints(&rows, "id"), ints(&rows, "req_time_us"));
    let (scripts, tags) = (texts(&rows, "script_name"), texts(&rows, "tags"));
    let mut seen = BTreeSet::new();
    for at in 0..ids.len() {
        let sent = &all[&ids[at]];
        assert!(seen.insert(ids[at]), "twice: {}", ids[at]);
        assert_eq!(times[at] as u64, crate::input::record::micros(sent.request_time.unwrap()));
        assert_eq!(scripts[at], script_name(sent));
        assert_eq!(tags[at], if sent.tag_name.is_empty() { "" } else { "env=prod" });
    }
    assert_eq!(seen.len(), all.len());
    let timers = published(dir.path(), TIMER);
    let mut of_requests: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (request, value) in ints(&timers, "request_id").into_iter().zip(ints(&timers, "value_us")) {
        of_requests.entry(request).or_default().push(value);
    }
    for (id, sent) in &all {
        let values =
            sent.timer_value.iter().map(|value| crate::input::record::micros(*value) as i64);
        assert_eq!(of_requests[id], values.collect::<Vec<_>>());
    }
    assert!(texts(&timers, "tags")[0].starts_with(r#"{"group":""#));
    let with_tags = all.values().filter(|sent| !sent.tag_name.is_empty()).count();
    assert_eq!(
        published(dir.path(), REQUEST_TAG).iter().map(RecordBatch::num_rows).sum::<usize>(),
        with_tags
    );
    // Each file has the longest first, and requests of one hour.
    for folder in std::fs::read_dir(dir.path().join(REQUEST)).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let file = File::open(file.unwrap().path()).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            let rows: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
            assert!(ints(&rows, "req_time_us").is_sorted_by(|a, b| a >= b));
            let received = rows.iter().flat_map(|rows| {
                let received = rows.column_by_name("received").unwrap();
                received.as_primitive::<TimestampMillisecondType>().values().to_vec()
            });
            let hours: BTreeSet<i64> = received.map(|ms| ms / 3_600_000).collect();
            assert_eq!(hours.len(), 1);
        }
    }
    assert!(store.parts().read().iter().all(|part| part.is_published()));
}

type IsMeant = fn(&Truth) -> bool;

/// Counts to be estimated from a sample.
const QUESTIONS: [(&str, IsMeant); 5] = [
    ("all", |_| true),
    ("of the most frequent script", |it| it.script == 0),
    ("of a rare script", |it| it.script == 50),
    ("errors", |it| it.is_error),
    ("over 100 ms", |it| it.time_us > 100_000),
];

struct Truth {
    script: u32,
    is_error: bool,
    time_us: u64,
}

/// Estimates from many periods: their mean is the truth, as near as chance allows, whatever the
/// memory.
#[test]
fn estimates_do_not_lean_to_one_side() {
    for (bytes_max, is_cut) in [(64 << 20, false), (400_000, true), (150_000, true)] {
        let mut process = Process::new(20_000);
        let mut random = StdRng::seed_from_u64(7);
        let all: Vec<_> = (0..4_000).map(|_| sent(&mut random)).collect();
        let truth: Vec<_> = all
            .iter()
            .map(|sent| {
                let script = script_name(sent);
                let script = script.trim_start_matches("/shop/");
                let script = script.trim_end_matches(".php");
                Truth {
                    script: script.parse().unwrap(),
                    is_error: sent.status == Some(500),
                    time_us: crate::input::record::micros(sent.request_time.unwrap()),
                }
            })
            .collect();
        let mut copier = Copier::new(Some(Tail::new(bytes_max, 500, 11)), bytes_max, 1, 1);
        process.merge(BEGIN, &all);
        const PERIODS: usize = 60;
        let mut estimates: HashMap<&str, Vec<f64>> = HashMap::new();
        for period in 0..PERIODS {
            copier.next = 1;
            assert!(copier.select(&process.live, u64::MAX));
            let rows = copier.rows(&process.live);
            let total: f64 = rows.iter().map(|(weight, _)| weight).sum();
            assert!((total - 4_000.0).abs() < 1e-6, "{total}");
            let ids: BTreeSet<u64> = rows.iter().map(|(_, kept)| kept.id).collect();
            assert_eq!(ids.len(), rows.len(), "none is kept twice");
            for (question, is_meant) in QUESTIONS {
                let meant = rows.iter().filter(|(_, kept)| is_meant(&truth[kept.id as usize - 1]));
                estimates.entry(question).or_default().push(meant.map(|(weight, _)| weight).sum());
            }
            if !is_cut && period == 0 {
                // The slowest ten of each script are there.
                for script in 0..59 {
                    let mut times: Vec<_> = truth
                        .iter()
                        .filter(|it| it.script == script)
                        .map(|it| it.time_us)
                        .collect();
                    times.sort_unstable_by_key(|time| Reverse(*time));
                    let mut kept: Vec<_> = rows
                        .iter()
                        .map(|(_, kept)| &truth[kept.id as usize - 1])
                        .filter(|it| it.script == script)
                        .map(|it| it.time_us)
                        .collect();
                    kept.sort_unstable_by_key(|time| Reverse(*time));
                    let slowest = times.len().min(10);
                    assert_eq!(kept[..slowest], times[..slowest]);
                }
            }
            let tail = copier.tail.as_ref().unwrap();
            assert!(tail.bytes <= bytes_max, "{} of {bytes_max}", tail.bytes);
            assert_eq!(tail.given_up > 0, is_cut);
            copier.clear();
        }
        for (question, is_meant) in QUESTIONS {
            let true_count = truth.iter().filter(|it| is_meant(it)).count() as f64;
            let of = &estimates[question];
            let mean = of.iter().sum::<f64>() / PERIODS as f64;
            let variance = of.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / PERIODS as f64;
            let deviation = (variance / PERIODS as f64).sqrt();
            assert!(
                (mean - true_count).abs() <= 4.0 * deviation + 1e-6,
                "{question}, {bytes_max} bytes: {mean} of {true_count}, deviation {deviation}"
            );
        }
    }
}

#[test]
fn what_left_the_pool_before_is_missed() {
    let mut process = Process::new(1_000);
    let requests = process.requests(KeptRequests::Tail, 8 << 20, 1);
    let mut random = StdRng::seed_from_u64(3);
    let mut merge = |count| {
        let batch: Vec<_> = (0..count).map(|_| sent(&mut random)).collect();
        process.merge(BEGIN, &batch);
        assert!(requests.select());
    };
    // The pool holds as many as it keeps for a little longer.
    merge(2_500);
    assert_eq!(requests.0.copier.lock().missed, 500);
    // Some of the last ones are selected, and were not copied.
    merge(2_100);
    let mut copier = requests.0.copier.lock();
    let total = |rows: &[(f64, Kept)]| rows.iter().map(|(weight, _)| weight).sum::<f64>();
    let total = total(&copier.rows(&requests.0.live));
    let missed = copier.missed;
    assert!((601..800).contains(&missed), "{missed}");
    assert!(total <= 4_000.0 + 1e-6 && total + missed as f64 >= 4_600.0 - 1e-6, "{total}");
}

/// Ids of origins are reused as soon as no row has them.
#[test]
fn the_slowest_of_scripts_that_come_and_go_are_kept() {
    let mut process = Process::new(1_000);
    let requests = process.requests(KeptRequests::Tail, 8 << 20, 1);
    let mut random = StdRng::seed_from_u64(4);
    let mut times: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    for of in 0..60 {
        let batch: Vec<_> = (0..500)
            .map(|_| {
                // Each is there for some 10,000 requests.
                let script = format!("/{}.php", of / 20 * 3 + random.random_range(0..3));
                let mut sent = model::Request::named("web", "shop", script.clone());
                sent.request_time = Some(random.random_range(0.001..1.0));
                let time_us = crate::input::record::micros(sent.request_time.unwrap());
                times.insert(times.len() as u64 + 1, (script, time_us));
                sent
            })
            .collect();
        process.merge(BEGIN, &batch);
        assert!(requests.select());
    }
    let mut copier = requests.0.copier.lock();
    let rows = copier.rows(&requests.0.live);
    assert_eq!(copier.missed, 0);
    for script in 0..9 {
        let script = format!("/{script}.php");
        let slowest_of = |ids: &mut dyn Iterator<Item = u64>| {
            let of_script = ids.filter(|id| times[id].0 == script);
            let mut times: Vec<u64> = of_script.map(|id| times[&id].1).collect();
            times.sort_unstable_by_key(|time| Reverse(*time));
            times.truncate(10);
            times
        };
        let kept = slowest_of(&mut rows.iter().map(|(_, kept)| kept.id));
        assert_eq!(kept, slowest_of(&mut times.keys().copied()), "{script}");
    }
}

/// Kills at every step of a run, each time followed by a start from an older snapshot, which reuses
/// ids.
#[test]
fn a_kill_leaves_nothing_twice_and_loses_nothing_that_was_flushed() {
    let mut random = StdRng::seed_from_u64(5);
    for step in (1..120).step_by(5) {
        let dir = tempfile::tempdir().unwrap();
        let mut flushed = BTreeSet::new();
        let mut now = u64::from(BEGIN);
        for run in 1..=3 {
            let disk = Disk::default();
            let faults = disk.faults.clone();
            let mut store = Store::open_on(disk, dir.path(), RETENTION).unwrap();
            assert_eq!(store.run(), run);
            // Its ids start anew, as after a kill without a snapshot.
            let mut process = Process::new(5_000);
            let requests = process.requests(KeptRequests::All, 1 << 20, run);
            if run < 3 {
                faults.die_at(step);
            }
            let mut next = 1_i64;
            for _ in 0..6 {
                let batch: Vec<_> = (0..20).map(|_| sent(&mut random)).collect();
                process.merge(now as u32, &batch);
                requests.select();
                let was = next;
                next += 20;
                if store.flush_requests(&requests, now).is_ok() {
                    flushed.extend((was..next).map(|id| (run as i64, id)));
                }
                now += 1_300;
                let _killed = store.publish_due(now, &mut |_| Ok(()));
            }
        }
        let mut store = Store::open(dir.path(), RETENTION).unwrap();
        publish_all(&mut store, now + 10_000);
        let rows = published(dir.path(), REQUEST);
        let names: Vec<_> = ints(&rows, "run").into_iter().zip(ints(&rows, "id")).collect();
        let distinct: BTreeSet<_> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "step {step}: nothing twice");
        assert!(flushed.is_subset(&distinct), "step {step}: nothing that was flushed is lost");
        let timers = published(dir.path(), TIMER);
        assert_eq!(ints(&timers, "id").len(), names.len() * 4, "step {step}");
    }
}

#[test]
fn a_request_with_four_timers_takes_less_than_thirty_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), RETENTION).unwrap();
    let mut process = Process::new(20_000);
    let requests = process.requests(KeptRequests::All, 4 << 20, store.run());
    let mut random = StdRng::seed_from_u64(9);
    for second in 0..40 {
        let batch: Vec<_> = (0..2_000).map(|_| sent(&mut random)).collect();
        process.merge(BEGIN + second, &batch);
        while !requests.select() {
            store.flush_requests(&requests, BEGIN.into()).unwrap();
        }
    }
    store.flush_requests(&requests, BEGIN.into()).unwrap();
    publish_all(&mut store, u64::from(BEGIN) + 10_000);
    let of = |table| {
        let of_table = Dataset::raw(table);
        let parts = store.parts();
        let parts = parts.read();
        let parts = parts.iter().filter(|part| part.has(&of_table));
        parts.map(|part| part.bytes).sum::<u64>() as f64 / 80_000.0
    };
    let bytes = [REQUEST, TIMER, REQUEST_TAG].map(of);
    assert!(bytes.iter().sum::<f64>() < 30.0, "{bytes:?}");
}
