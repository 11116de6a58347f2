//! Compares requests of the past with the merged ones: each exists once at any moment, and rows
//! skipped by column statistics satisfy no condition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, Operator, cast, lit};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, DynamicFilterPhysicalExpr, col as place, lit as number,
};
use datafusion::prelude::{col, ident};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::super::tests::{BEGIN, Process, RETENTION, publish_all, sent};
use super::super::{REQUEST, REQUEST_TAG, Requests, TIMER};
use super::*;
use crate::config::KeptRequests;
use crate::history::parquet::ReadAs;
use crate::history::scan::{Scan, Wanted};
use crate::history::sql_columns::View;
use crate::history::store::Store;
use crate::input::pinba::model;

/// The column by which requests are sorted.
const TIME: &str = "req_time_us";

/// Run and id.
type Name = (i64, i64);

fn at(store: &Store, requests: &Requests) -> RequestsSnapshot {
    let parts = store.parts();
    let parts = parts.read();
    RequestsSnapshot::new(&parts, Some(requests.unflushed()))
}

fn wanted(table: &'static str, condition: Option<Expr>) -> Wanted {
    let view = View::stored(table);
    let schema = Arc::clone(&view.schema);
    let columns = DFSchema::try_from(Arc::clone(&schema)).unwrap();
    let physical = |expr| {
        create_physical_expr(&expr, &columns, &Default::default(), &Default::default()).unwrap()
    };
    Wanted {
        conditions: condition.map(physical).into_iter().collect(),
        shown: (0..schema.fields().len()).collect(),
        view: Arc::new(view),
        schema,
        read_as: ReadAs::default(),
    }
}

/// All rows, read in shares, and how many were read.
fn read(at: &RequestsSnapshot, wanted: &Wanted) -> (Vec<RecordBatch>, u64) {
    let (mut batches, mut looked_at) = (Vec::new(), 0);
    for share in 0..2 {
        let sources = at.sources(&wanted.view.dataset.report).skip(share).step_by(2);
        let mut reader = Scan::new(sources, wanted.clone());
        while let Some(batch) = reader.next().unwrap() {
            batches.extend(Some(batch).filter(|batch| batch.num_rows() > 0));
        }
        looked_at += reader.looked_at;
    }
    (batches, looked_at)
}

fn names(batches: &[RecordBatch], id: &str) -> Vec<Name> {
    let of = |batch: &RecordBatch, name| {
        let column = batch.column_by_name(name).unwrap();
        column.as_primitive::<Int64Type>().values().to_vec()
    };
    let names = batches.iter().flat_map(|batch| of(batch, "run").into_iter().zip(of(batch, id)));
    names.collect()
}

/// Compares the content with the merged requests.
fn check(at: &RequestsSnapshot, all: &BTreeMap<Name, model::Request>, at_step: &str) {
    let (requests, _) = read(at, &wanted(REQUEST, None));
    let mut found = names(&requests, "id");
    found.sort_unstable();
    let expected: Vec<Name> = all.keys().copied().collect();
    assert_eq!(found, expected, "{at_step}");
    let (timers, _) = read(at, &wanted(TIMER, None));
    let mut of_requests: BTreeMap<Name, usize> = BTreeMap::new();
    for name in names(&timers, "request_id") {
        *of_requests.entry(name).or_default() += 1;
    }
    let expected = all.iter().map(|(name, sent)| (*name, sent.timer_value.len()));
    assert_eq!(of_requests, expected.collect(), "{at_step}");
    let (tags, _) = read(at, &wanted(REQUEST_TAG, None));
    let tagged: BTreeSet<Name> = names(&tags, "request_id").into_iter().collect();
    let expected = all.iter().filter(|(_, sent)| !sent.tag_name.is_empty());
    assert_eq!(tagged, expected.map(|(name, _)| *name).collect(), "{at_step}");
}

#[test]
fn every_request_is_there_once_at_any_moment() {
    for seed in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let mut random = StdRng::seed_from_u64(seed);
        let mut all = BTreeMap::new();
        let mut now = BEGIN;
        for run in 1..=3_i64 {
            let mut store = Store::open(dir.path(), RETENTION).unwrap();
            let mut process = Process::new(20_000);
            let requests = process.requests(KeptRequests::All, 4 << 20, store.run());
            let (mut next, mut flushed) = (1, 1);
            for step in 0..30 {
                match random.random_range(0..5) {
                    0 | 1 => {
                        // While pieces are written only the pool has new requests.
                        let is_flushing = random.random_bool(0.3);
                        requests.0.copier.lock().is_flushing = is_flushing;
                        let count = random.random_range(1..40);
                        let batch: Vec<_> = (0..count).map(|_| sent(&mut random)).collect();
                        process.merge(now, &batch);
                        all.extend((next..).map(|id| (run, id)).zip(batch));
                        next += count;
                        assert!(requests.select());
                    }
                    2 => assert!(requests.select()),
                    3 => {
                        store.flush_requests(&requests, now.into()).unwrap();
                        flushed = requests.0.copier.lock().next.cast_signed();
                    }
                    _ => {
                        assert!(requests.select());
                        now += random.random_range(0..2_500);
                        let _more = store.publish_due(now.into(), &mut |_| Ok(())).unwrap();
                    }
                }
                let step = format!("seed {seed}, run {run}, step {step}");
                check(&at(&store, &requests), &all, &step);
                requests.0.copier.lock().is_flushing = false;
                assert!(requests.select());
            }
            // Killed: unflushed requests are lost; or stopped.
            if random.random_bool(0.5) {
                all.retain(|(of, id), _| *of < run || *id < flushed);
            } else {
                assert!(requests.select());
                store.flush_requests(&requests, now.into()).unwrap();
            }
        }
        let mut store = Store::open(dir.path(), RETENTION).unwrap();
        publish_all(&mut store, u64::from(now) + 10_000);
        let parts = Arc::clone(&store.parts().read());
        assert!(parts.iter().all(|part| part.is_published()));
        check(&RequestsSnapshot::new(&parts, None), &all, "published");
    }
}

/// Some hours of requests in files, one of them of several row groups, a piece, and memory.
fn hours(dir: &std::path::Path) -> (RequestsSnapshot, Store) {
    let mut store = Store::open(dir, RETENTION).unwrap();
    let mut process = Process::new(100_000);
    let requests = process.requests(KeptRequests::All, 64 << 20, store.run());
    let mut random = StdRng::seed_from_u64(3);
    let mut now = BEGIN;
    for count in [3 * GROUP_ROWS_TESTED, 900, 800, 700, 600] {
        for _ in 0..3 {
            let batch: Vec<_> = (0..count / 3).map(|_| sent(&mut random)).collect();
            process.merge(now, &batch);
            now += 7;
        }
        assert!(requests.select());
        if count > 600 {
            store.flush_requests(&requests, now.into()).unwrap();
        }
        if count > 700 {
            now += 3_800;
            publish_all(&mut store, now.into());
        }
    }
    (at(&store, &requests), store)
}

const GROUP_ROWS_TESTED: usize = super::super::files::GROUP_ROWS;

#[test]
fn what_is_not_read_is_what_no_condition_holds_for() {
    let dir = tempfile::tempdir().unwrap();
    let (at, _store) = hours(dir.path());
    let unpruned = wanted(REQUEST, None);
    let (all, total) = read(&at, &unpruned);
    let mut random = StdRng::seed_from_u64(8);
    let value_of = |name: &str, row: usize| {
        let column = all[0].column_by_name(name).unwrap();
        column.as_primitive::<Int64Type>().value(row)
    };
    let mut least = total;
    for round in 0..60 {
        let row = random.random_range(0..all[0].num_rows());
        let name = ["req_time_us", "received", "id", "status", "doc_size_bytes"][round % 5];
        let value = value_of(name, row) + random.random_range(-1..2);
        let one = match random.random_range(0..4) {
            0 => ident(name).gt(lit(value)),
            1 => ident(name).lt_eq(lit(value)),
            2 => ident(name).eq(lit(value)),
            _ => ident(name).in_list(vec![lit(value), lit(value + 1)], random.random_bool(0.2)),
        };
        let host = format!("web{:02}", random.random_range(0..22));
        let host = col("hostname").eq(lit(ScalarValue::Utf8View(Some(host))));
        let condition = match random.random_range(0..4) {
            0 => one,
            1 => one.and(host),
            2 => one.or(host.and(ident("req_time_us").gt(lit(1_000_000_i64)))),
            _ => one.and(ident("req_time_us").gt(lit(100_000_i64))),
        };
        let (pruned, looked_at) = read(&at, &wanted(REQUEST, Some(condition.clone())));
        let mut found = names(&pruned, "id");
        found.sort_unstable();
        let test = &wanted(REQUEST, Some(condition.clone())).conditions[0];
        let tested = all.iter().map(|batch| {
            let passes = test.evaluate(batch).unwrap().into_array(batch.num_rows());
            filter_record_batch(batch, passes.unwrap().as_boolean()).unwrap()
        });
        let mut expected = names(&tested.collect::<Vec<_>>(), "id");
        expected.sort_unstable();
        assert_eq!(found, expected, "{condition}");
        least = least.min(looked_at);
    }
    assert!(least < total / 4, "{least} of {total}");
}

/// A search for the slowest refines its condition meanwhile; next to nothing is read then, and the
/// slowest are found.
#[test]
fn the_slowest_are_found_first() {
    let dir = tempfile::tempdir().unwrap();
    let (at, _store) = hours(dir.path());
    let host = col("hostname").eq(lit(ScalarValue::Utf8View(Some("web07".into()))));
    let (all, total) = read(&at, &wanted(REQUEST, Some(host)));
    let mut expected = times(&all);
    expected.sort_unstable_by_key(|time| Reverse(*time));
    expected.truncate(10);

    let (slowest, looked_at) = slowest(&at, "web07");
    assert_eq!(slowest, expected);
    assert!(looked_at < total / 2, "{looked_at} of {total}");
}

fn times(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches.iter().filter_map(|it| it.column_by_name(TIME));
    let times = columns.flat_map(|it| it.as_primitive::<Int64Type>().values().to_vec());
    times.collect()
}

/// The times of the slowest ten of a host, and how many rows were read.
fn slowest(at: &RequestsSnapshot, host: &str) -> (Vec<i64>, u64) {
    let host = col("hostname").eq(lit(ScalarValue::Utf8View(Some(host.to_owned()))));
    let wanted = wanted(REQUEST, Some(host));
    let place = place(TIME, &wanted.schema).unwrap();
    let moving = DynamicFilterPhysicalExpr::new(vec![Arc::clone(&place)], number(true));
    let moving = Arc::new(moving);
    let mut reader = Scan::new(at.sources(REQUEST), wanted);
    reader.narrow(Arc::clone(&moving) as _);
    let mut slowest = Vec::new();
    while let Some(batch) = reader.next().unwrap() {
        slowest.extend(times(&[batch]));
        slowest.sort_unstable_by_key(|time| Reverse(*time));
        slowest.truncate(10);
        if let Some(tenth) = slowest.get(9) {
            let above = BinaryExpr::new(Arc::clone(&place), Operator::Gt, number(*tenth));
            moving.update(Arc::new(above)).unwrap();
        }
    }
    (slowest, reader.looked_at)
}

/// As when its statement ends in the middle of a file.
#[test]
fn a_condition_that_fails_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (mut at, _store) = hours(dir.path());
    at.unflushed = None;
    let fails = cast(col("hostname"), DataType::Int64).eq(lit(7_i64));
    let mut reader = Scan::new(at.sources(REQUEST), wanted(REQUEST, Some(fails)));
    let error = loop {
        match reader.next() {
            Ok(batch) => assert!(batch.is_some(), "the condition did not fail"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("web"), "{error}");
    assert!(at.parts.iter().all(|part| !part.suspect.load(Ordering::Relaxed)));
}

#[test]
fn live_tables_are_shown_with_all_their_columns() {
    let columns = cases![
        REQUEST => ["run", "weight", "time"].as_slice();
        TIMER => &["run", "weight", "time", "ru_utime", "ru_stime", "tags", "start"];
        REQUEST_TAG => &["run", "weight", "time"];
    ];
    for (table, further) in columns {
        let live = crate::grammar::FixedTable::raw(table).unwrap();
        let live = live.columns(&crate::report::definition::Defaults::default());
        let fields = live.iter().map(|column| {
            datafusion::arrow::datatypes::Field::new(
                &column.name,
                datafusion::arrow::datatypes::DataType::Null,
                true,
            )
        });
        let schema = datafusion::arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
        let view = View::live(table, &schema);
        let shown: Vec<&str> = view.schema.fields().iter().map(|it| it.name().as_str()).collect();
        let names = live.iter().map(|column| column.name.as_str());
        assert_eq!(shown, names.chain(further.iter().copied()).collect::<Vec<_>>());
    }
}

/// A day of requests (`PINBAD_ROWS`, 50 million) in files of an hour, and the slowest ten of one of
/// its twenty hosts.
#[test]
#[ignore = "for measuring: in a release build it takes some minutes and a gigabyte"]
#[expect(clippy::print_stdout, reason = "what was measured")]
fn slowest_of_a_day() {
    let rows = std::env::var("PINBAD_ROWS").map_or(50_000_000, |rows| rows.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let parts: Vec<Arc<Part>> = (0..24).map(|hour| hour_of(dir.path(), hour, rows / 24)).collect();
    let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
    println!("{rows} rows in {bytes} bytes");
    let at = RequestsSnapshot::new(&parts, None);
    for round in 0..5 {
        let begun = std::time::Instant::now();
        let (slowest, looked_at) = slowest(&at, &format!("web{:02}", round * 3));
        println!("{:?}, {looked_at} rows looked at: {:?}", begun.elapsed(), slowest.first());
    }
}

/// The requests of an hour, in a file.
fn hour_of(dir: &std::path::Path, hour: u64, rows: u64) -> Arc<Part> {
    use crate::history::Resolution;
    use crate::history::parquet::FileWriter;
    use crate::pool::resolved::{Request, Rusage};
    let mut random = StdRng::seed_from_u64(hour);
    let path = dir.join(format!("{hour}.parquet"));
    let file = std::fs::File::create(&path).unwrap();
    let mut to =
        FileWriter::new((path, file), &Arc::new(Dataset::raw(REQUEST)), Resolution::Minute);
    let begin = u64::from(BEGIN) / 86_400 * 86_400 + hour * 3_600;
    for row in 0..rows {
        // Most take some milliseconds, one in a million a minute.
        let rank = (row as f64 + random.random_range(0.0..1.0)) / rows as f64;
        let request = Request {
            time_us: (5_000.0 / (rank + 1e-7).powf(0.7)) as u64,
            run: 1,
            id: hour * rows + random.random_range(0..rows),
            received: (begin + random.random_range(0..3_600)) as u32,
            hostname: &format!("web{:02}", random.random_range(0..20)),
            request_count: 1,
            server_name: "shop.example.com",
            script_name: &format!("/shop/{}.php", random.random_range(0..2_000)),
            document_size: random.random_range(500..60_000),
            memory_peak: random.random_range(8..64) << 18,
            rusage: match random.random_range(0..8) {
                0 => Rusage::Span(0),
                _ => Rusage::Times([random.random_range(0..40_000), random.random_range(0..4_000)]),
            },
            timers: 4,
            status: 200,
            memory_footprint: 0,
            schema: None,
            tags: Vec::new(),
        };
        to.add(|rows| rows.push_request(&(request, 1.0))).unwrap();
    }
    let ((path, _), section) = to.finish().unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    let (span, sections) = (begin..begin + 3_600, vec![section]);
    Arc::new(Part { path, span, sections, bytes, written: begin, ..Part::default() })
}
