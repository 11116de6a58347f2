//! Every span, over parts in every state, equals a recount of all rows ever written.

use std::collections::BTreeMap;
use std::ops::Range;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::history::chart_lines::{self, Asked};
use crate::history::histogram::{error, fold, settle};
use crate::history::{Gain, Resolution, Retention, Store, UnflushedRows};
use crate::report::definition::Level;
use crate::report::encoded_gain::Sum;
use crate::report::histogram::{BucketLayout, Rank, Rounding};
use crate::report::layout::OTHER;
use crate::report::row_key::push_key;

const DAY: u64 = 86_400;

/// The counts, one request after the other.
#[derive(Debug, Clone)]
struct Request {
    minute: u64,
    dataset: usize,
    key: u32,
    us: u64,
}

struct Model {
    random: StdRng,
    datasets: Vec<Arc<Dataset>>,
    all: Vec<Request>,
    now: u64,
    running: UnflushedRows,
    flushing: Option<Arc<UnflushedRows>>,
}

fn dataset(report: &str, level: Level, keys: &[&str], buckets: BucketLayout) -> Arc<Dataset> {
    Arc::new(Dataset {
        report: report.to_owned(),
        hash: "0123456789abcdef".to_owned(),
        level,
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        status: keys.iter().position(|key| *key == "status"),
        buckets,
        extremes: level == Level::Request,
    })
}

fn key_of(dataset: &Dataset, key: u32) -> Vec<u8> {
    let mut texts = Vec::new();
    for name in &dataset.keys {
        match name.as_str() {
            _ if key == 0 => push_key(&mut texts, OTHER),
            "status" => push_key(&mut texts, &(199 + key).to_string()),
            _ => push_key(&mut texts, &format!("/{}", key / 3)),
        }
    }
    texts
}

fn gain(dataset: &Dataset, us: u64) -> Gain {
    let mut histogram = Histogram::new();
    histogram.add(dataset.buckets.bucket(us), 1);
    let totals = Totals { requests: 1, hits: 3, time: us.into(), ..Totals::ZERO };
    let mut extremes = Extremes::NOTHING;
    if dataset.extremes {
        extremes = Extremes { time_min: us, time_max: us, memory_peak_max: us as u32 };
    }
    Gain { sum: Sum::of(totals, Some(histogram)), extremes }
}

impl Model {
    fn new(seed: u64, begin: u64) -> Self {
        let linear = BucketLayout::linear(10, 1024).unwrap();
        let log = BucketLayout::LogLinear;
        Self {
            random: StdRng::seed_from_u64(seed),
            datasets: vec![
                dataset("scripts", Level::Request, &["script_name", "status"], log),
                dataset("timers", Level::Timer, &["group"], linear),
                dataset("info", Level::Packet, &[], log),
            ],
            all: Vec::new(),
            now: begin,
            running: UnflushedRows::default(),
            flushing: None,
        }
    }

    /// Counts some requests in the minute of a second.
    fn count(&mut self, at: u64) {
        let minute = Resolution::Minute.begin(at);
        for _ in 0..self.random.random_range(0..6) {
            let at = self.random.random_range(0..self.datasets.len());
            let dataset = &self.datasets[at];
            let most = 1_u64 << self.random.random_range(1..34);
            let us = self.random.random_range(0..most);
            let key = match dataset.keys.len() {
                0 => 1,
                _ => self.random.random_range(0..9),
            };
            let texts = key_of(dataset, key);
            let is_other = key == 0;
            self.running.add(dataset, minute, &texts, is_other, &gain(dataset, us));
            self.all.push(Request { minute, dataset: at, key, us });
        }
    }

    fn view(&self, dataset: &Dataset, store: &Store) -> RowsSnapshot {
        let in_memory = self.flushing.iter().map(|batch| &**batch);
        let in_memory = in_memory.chain([&self.running]);
        let memory = in_memory.flat_map(|batch| batch.batches(dataset));
        RowsSnapshot { parts: Arc::clone(&store.parts().read()), memory: memory.collect() }
    }

    fn ask(&mut self, begin: u64, store: &Store, is_kept: bool) {
        let at = self.random.random_range(0..self.datasets.len());
        let dataset = Arc::clone(&self.datasets[at]);
        let latest = self.now + 7_200;
        let mut edge = || match self.random.random_range(0..4) {
            0 => self.random.random_range(begin - DAY..latest),
            1 => Resolution::Hour.begin(self.random.random_range(begin..latest)),
            2 => Resolution::Day.begin(self.random.random_range(begin..latest)),
            _ => Resolution::Minute.begin(self.random.random_range(begin..latest)),
        };
        let (a, b) = (edge(), edge());
        let asked = a.min(b)..a.max(b) + 1;
        let view = self.view(&dataset, store);
        let plan = ReadPlan::new(&view.parts, &dataset, asked.clone());
        let span = plan.span.clone();
        assert!(span.start <= asked.start && asked.end <= span.end);
        let minutes = Resolution::Minute.begin(asked.start)..asked.end.next_multiple_of(60);
        assert!(span == minutes || !is_kept, "{asked:?}: {plan:#?}");
        let mut expected: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        for request in &self.all {
            if request.dataset == at && span.contains(&request.minute) {
                let key = key_of(&dataset, request.key);
                expected.entry(key).or_default().push(request.us);
            }
        }
        if dataset.keys.is_empty() {
            expected.entry(Vec::new()).or_default();
        }
        let sums = Sums::read(view.clone(), &dataset, &plan);
        assert_eq!(sums.lacking, [""; 0]);
        let keys = sums.rows.all.keys().map(|key| &**key);
        assert!(keys.eq(expected.keys().map(Vec::as_slice)), "{asked:?}: {plan:#?}");
        let bits = plan.resolution.bucket_bits();
        for (key, times) in &mut expected {
            let place = sums.rows.all.get_index_of(&**key).unwrap();
            let row = &sums.rows.all[place];
            let time: u128 = times.iter().map(|us| u128::from(*us)).sum();
            let found = (row.totals.requests, row.totals.time);
            assert_eq!(found, (times.len() as u64, time), "{asked:?}: {plan:#?}");
            assert_eq!(row.is_other, *key == key_of(&dataset, 0) && !key.is_empty());
            if dataset.extremes {
                assert_eq!(Some(row.extremes.time_min), times.iter().min().copied());
                assert_eq!(Some(row.extremes.time_max), times.iter().max().copied());
            }
        }
        let rows: Vec<usize> = (0..sums.rows.all.len()).filter(|row| row % 3 != 1).collect();
        let mut shown = 0;
        let read = sums.histograms(&rows, &mut |row, histogram| {
            let times = expected.get_mut(&**sums.rows.all.get_index(row).unwrap().0).unwrap();
            check(&dataset, bits, histogram.unwrap(), times);
            shown += 1;
        });
        assert_eq!((shown, read), (rows.len(), Ok(())));
        self.ask_line(at, &asked, view, is_kept);
    }

    fn ask_line(&mut self, at: usize, asked: &Range<u64>, view: RowsSnapshot, is_kept: bool) {
        let dataset = Arc::clone(&self.datasets[at]);
        let steps = [60, 300, 3_600, 7_200, DAY];
        let wanted = steps[self.random.random_range(0..steps.len())];
        let mut step = wanted;
        let plan = ReadPlan::of_steps(&view.parts, &dataset, asked, &mut step);
        assert!(step == wanted || !is_kept);
        let key = self.random.random_range(0..9);
        let key = (self.random.random_range(0..3) > 0 && at != 2).then(|| key_of(&dataset, key));
        let bits = plan.resolution.bucket_bits();
        let from = plan.span.start - plan.span.start % step;
        let summed = ReadPlan::new(&view.parts, &dataset, asked.clone());
        assert_eq!(plan.span, summed.span, "lines have the requests that sums have");
        let ask = |histogram_bits| {
            let question = Asked { key: key.as_deref(), from, step, histogram_bits };
            let (line, lacking) = chart_lines::read(view.clone(), &dataset, &plan, question);
            assert_eq!(lacking, [""; 0]);
            line
        };
        let (line, spread) = (ask(None), ask(Some(bits)));
        let totals = |line: &[Option<Gain>]| -> Vec<_> {
            line.iter().flatten().map(|gain| gain.sum.totals).collect()
        };
        assert_eq!(totals(&line), totals(&spread));
        let mut expected: Vec<Vec<u64>> = vec![Vec::new(); line.len()];
        for request in &self.all {
            let is_it = key.as_ref().is_none_or(|key| *key == key_of(&dataset, request.key));
            if request.dataset == at && is_it && plan.span.contains(&request.minute) {
                let point = (request.minute - from) / step;
                expected[point as usize].push(request.us);
            }
        }
        for ((gain, spread), times) in line.iter().zip(&spread).zip(&mut expected) {
            let requests = gain.as_ref().map_or(0, |gain| gain.sum.totals.requests);
            assert_eq!(requests, times.len() as u64, "{asked:?} {step} {plan:#?}");
            assert_eq!(gain.is_some(), spread.is_some());
            if let Some(gain) = spread {
                let shortest = times.iter().min().copied().filter(|_| dataset.extremes);
                assert_eq!(shortest, gain.extremes.seen().map(|it| it[0]));
                check(&dataset, bits, gain.sum.histogram().unwrap(), times);
            }
        }
    }
}

/// Compares a histogram with the times in it.
fn check(dataset: &Dataset, bits: u32, histogram: &Histogram, times: &mut [u64]) {
    let mut folded = histogram.clone();
    let mut exact = Histogram::new();
    times.iter().for_each(|us| exact.add(dataset.buckets.bucket(*us), 1));
    if dataset.is_log_linear() {
        fold(&mut folded, bits);
        fold(&mut exact, bits);
    }
    assert_eq!(folded.iter().collect::<Vec<_>>(), exact.iter().collect::<Vec<_>>());
    if !dataset.is_log_linear() || times.is_empty() {
        return;
    }
    times.sort_unstable();
    for percent in [50.0, 95.0, 99.0] {
        let rank = Rank::percent(percent, Rounding::Up).unwrap();
        let count = times.len() as u64;
        let read = dataset.buckets.quantile(rank, count, folded.iter());
        let read = settle(&dataset.buckets, read, bits);
        let sample = times[rank.target(count) as usize - 1] as f64 / 1e6;
        assert!((read - sample).abs() <= sample * error(bits), "{read} {sample}");
    }
}

fn run(seed: u64, secs: [u64; 3], is_kept: bool) {
    // The end of a month, and of a leap day.
    let begin = 1_709_078_400 + seed % 3 * DAY;
    let dir = tempfile::tempdir().unwrap();
    let retention = Retention { secs, size_max: u64::MAX, free_min: 0 };
    let mut store = Store::open(dir.path(), retention).unwrap();
    let mut model = Model::new(seed, begin);
    for step in 0..450 {
        model.count(model.now);
        // An old log.
        if model.random.random_range(0..20) == 0 {
            let at = model.random.random_range(begin - 3 * DAY..model.now);
            model.count(at);
        }
        // Sometimes an hour without requests, sometimes the clock is set back.
        model.now = match model.random.random_range(0..40) {
            0 => model.now + 3_600,
            1 => model.now - 1_200,
            2 => model.now + 6 * 3_600,
            _ => model.now + model.random.random_range(30..700),
        };
        if model.flushing.is_none() && model.random.random_range(0..3) == 0 {
            model.flushing = Some(Arc::new(std::mem::take(&mut model.running)));
        }
        if let Some(batch) = model.flushing.clone()
            && model.random.random_range(0..2) == 0
        {
            if !batch.is_empty() {
                store.flush(&batch, model.now, || {}).unwrap();
            }
            model.flushing = None;
        }
        if model.random.random_range(0..3) == 0 {
            while store.publish_due(model.now, &mut |_| Ok(())).unwrap() {
                if model.random.random_range(0..9) == 0 {
                    model.ask(begin, &store, is_kept);
                }
            }
            store.expire(model.now).unwrap();
        }
        if step % 10 == 0 {
            model.ask(begin, &store, is_kept);
        }
        if step % 150 == 149 {
            drop(store);
            store = Store::open(dir.path(), retention).unwrap();
        }
    }
    let parts = Arc::clone(&store.parts().read());
    let seen: Vec<Resolution> = parts.iter().map(|part| part.resolution).collect();
    assert!(Resolution::ALL.iter().all(|it| seen.contains(it)) || !is_kept);
    for _ in 0..60 {
        model.ask(begin, &store, is_kept);
    }
}

#[test]
fn every_span_equals_a_recount() {
    for seed in 0..2 {
        run(seed, [u64::MAX / 2; 3], true);
    }
}

#[test]
fn where_finer_rows_are_gone_spans_are_widened_and_equal_a_recount() {
    for seed in 10..12 {
        run(seed, [DAY, 4 * DAY, u64::MAX / 2], false);
    }
}

/// Keys without room are counted all the same, and room comes back.
#[test]
fn answers_together_have_so_much_memory() {
    let dataset = Dataset::swaps();
    let small: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
    let fill = |pool: &Arc<dyn MemoryPool>| {
        let memory = MemoryConsumer::new("answer").register(pool);
        let mut rows = Rows { memory, ..Rows::new(&dataset) };
        let one = Totals { requests: 1, ..Totals::ZERO };
        for number in 0..20_000 {
            let mut key = Vec::new();
            push_key(&mut key, &format!("/{number}"));
            let row = rows.of(&key, false);
            rows.add(row, &one, &Extremes::NOTHING);
        }
        let requests: u64 = rows.all.values().map(|row| row.totals.requests).sum();
        assert_eq!(requests, 20_000);
        rows
    };
    let all = fill(&MEMORY);
    assert_eq!((all.all.len(), all.is_full), (20_000, false));
    let first = fill(&small);
    assert!(first.is_full && (2_000..10_000).contains(&first.all.len()));
    let second = fill(&small);
    assert!(second.is_full && second.all.len() < 1_500);
    let kept = first.all.len();
    drop((first, second));
    assert_eq!(fill(&small).all.len(), kept);
}
