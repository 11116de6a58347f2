//! Compares the raw tables with the pools they show, and scans with conditions with scans without.

mod conditions;

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::util::pretty::pretty_format_batches;

use super::reports::{array, of_numbers};
use crate::cli::load::TrafficOptions;
use crate::config::{Config, SqlConfig};
use crate::query::question::ReportQuestion;
use crate::sql::tests::pools::Pools;
use crate::sql::{Engine, Reply, Session, SqlError};

/// An engine over pools.
struct Asked {
    engine: Engine,
    runtime: tokio::runtime::Runtime,
}

impl Asked {
    fn new(pools: &Pools, threads: usize) -> Self {
        let limits = SqlConfig { threads, ..Config::default().sql };
        Self::with(pools, limits)
    }

    fn with(pools: &Pools, limits: SqlConfig) -> Self {
        let engine = Engine::new(std::sync::Arc::clone(&pools.catalog), limits.into()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { engine, runtime }
    }

    fn try_rows(&self, text: &str) -> Result<Vec<RecordBatch>, SqlError> {
        self.runtime.block_on(async {
            let mut session = Session::new(1, "test@localhost", false);
            match self.engine.run(&mut session, text, &[]).await? {
                Reply::Rows(mut rows) => {
                    let mut batches = Vec::new();
                    while let Some(batch) = rows.next().await {
                        batches.push(batch?);
                    }
                    Ok(batches)
                }
                Reply::Done => Ok(Vec::new()),
            }
        })
    }

    /// The answer as a table of text.
    fn shown(&self, text: &str) -> String {
        let rows = self.try_rows(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        pretty_format_batches(&rows).unwrap().to_string()
    }

    /// The first column of the answer.
    fn ids(&self, text: &str) -> Vec<i64> {
        let rows = self.try_rows(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let ids = rows.iter().flat_map(|batch| {
            let ids = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            ids.values().to_vec()
        });
        ids.collect()
    }

    /// The lines of the answer, sorted.
    fn lines(&self, text: &str) -> Vec<String> {
        let shown = self.shown(text);
        let mut lines: Vec<String> = shown.lines().skip(3).map(str::to_owned).collect();
        lines.retain(|line| line.starts_with('|'));
        for line in &mut lines {
            *line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        lines.sort();
        lines
    }
}

fn traffic() -> TrafficOptions {
    TrafficOptions {
        timers: 3,
        tags: 2,
        request_tags: 1,
        schemas: 2,
        scripts: 20,
        ..TrafficOptions::default()
    }
}

#[test]
fn tables_are_read() {
    let mut pools = Pools::new(2_000, 5_000);
    pools.fill(&traffic(), 3_000);
    let asked = Asked::new(&pools, 2);
    for (table, rows) in [
        ("request", 1666),
        ("timer", 4998),
        ("timertag", 2 * 4998),
        ("tag", 2),
        ("request_tag", 1666),
    ] {
        let all = asked.try_rows(&format!("SELECT * FROM {table}")).unwrap();
        let all = concat_batches(&all[0].schema(), &all).unwrap();
        assert_eq!(all.num_rows(), rows, "{table}");
        let count = asked.lines(&format!("SELECT count(*) FROM {table}"));
        assert_eq!(count, [format!("| {rows} |")], "{table}");
    }
}

/// More seconds than are looked up are tested row by row.
#[test]
fn many_seconds_are_tested() {
    let mut pools = Pools::new(2_000, 5_000);
    pools.fill(&traffic(), 1_000);
    let asked = Asked::new(&pools, 2);
    let seconds: Vec<String> = (0..2_000).map(|n| (1_700_000_000 + 2 * n).to_string()).collect();
    let text = format!(
        "SELECT count(*), min(timestamp % 2) FROM request WHERE timestamp IN ({})",
        seconds.join(", ")
    );
    assert_eq!(asked.lines(&text), ["| 500 | 0 |"]);
}

/// A join that starts from few rows reads few rows; so do an order by id and a limit.
#[test]
fn few_rows_are_looked_at_for_few() {
    let mut pools = Pools::new(20_000, 60_000);
    pools.fill(&traffic(), 20_000);
    let asked = Asked::new(&pools, 2);
    let tags = "JOIN timertag tt ON tt.timer_id = t.id JOIN tag ON tt.tag_id = tag.id";
    for (text, rows, most) in cases![
        "SELECT * FROM request WHERE id = 17000".to_owned() => 1, 1;
        "SELECT id, tags FROM request WHERE id IN (5, 17000, 19000)".to_owned() => 3, 3;
        format!("SELECT t.id, t.hit_count, t.value, tag.name, tt.value FROM timer t {tags} WHERE t.request_id = 17000") =>
            6, 20;
        format!("SELECT r.script_name, t.value, tag.name, tt.value FROM timer t JOIN request r ON t.request_id = r.id {tags} \
         WHERE t.request_id IN (15000, 16000, 17000)") =>
            18, 40;
        format!("SELECT r.id, tt.value FROM request r JOIN timer t ON t.request_id = r.id {tags} WHERE r.id = 17000") =>
            6, 20;
        "SELECT * FROM request ORDER BY id DESC LIMIT 10".to_owned() => 10, 10;
        "SELECT * FROM request ORDER BY timestamp DESC, id DESC LIMIT 10".to_owned() => 10, 10;
        "SELECT id FROM request WHERE timestamp = 1700000100 ORDER BY id LIMIT 5".to_owned() => 5,
            5;
        "SELECT * FROM timer LIMIT 10".to_owned() => 10, 10;
        "SELECT count(*) FROM request WHERE timestamp BETWEEN 1700000100 AND 1700000101".to_owned() =>
            1, 200;
    ] {
        let (plan, found, rows_read) =
            asked.runtime.block_on(asked.engine.rows_read(&text)).unwrap();
        assert_eq!(found, rows, "{text}\n{plan}");
        assert!(rows_read <= most, "{rows_read} rows for {text}\n{plan}");
    }
}

/// A query that would run for ages ends at its deadline, or when nobody waits, and frees its
/// thread.
#[test]
fn what_takes_too_long_ends() {
    let mut pools = Pools::new(20_000, 60_000);
    pools.fill(&traffic(), 20_000);
    let limits = SqlConfig {
        threads: 1,
        time_max: std::time::Duration::from_millis(300),
        ..Config::default().sql
    };
    let asked = Asked::with(&pools, limits);
    for text in [
        "SELECT count(*) FROM request a, request b, request c",
        "SELECT count(*) FROM request a JOIN request b ON a.req_time > b.req_time + 1e6",
        "SELECT count(*) FROM request a JOIN request b ON a.status = b.status JOIN request c ON b.status = c.status",
        "SELECT count(*) FROM request a JOIN request b ON a.status = b.status WHERE a.req_time + b.req_time > 1e6",
    ] {
        let error = asked.try_rows(text).unwrap_err();
        assert_eq!(error.code, 1969, "{text}: {error}");
        // The only thread is free again. Even a small query may time out on a busy machine.
        let small = "SELECT count(*) FROM tag";
        let answered = (0..100).any(|_| asked.try_rows(small).is_ok());
        assert!(answered, "nothing is answered after {text}");
    }
}

/// A join that finds nothing returns nothing for long, and does not keep others from the thread.
#[test]
fn a_join_without_matches_leaves_the_thread_to_others() {
    let mut pools = Pools::new(20_000, 60_000);
    pools.fill(&traffic(), 20_000);
    let asked = Asked::with(&pools, SqlConfig { threads: 1, ..Config::default().sql });
    let ask = async |number, text| {
        let mut session = Session::new(number, "test@localhost", false);
        match asked.engine.run(&mut session, text, &[]).await? {
            Reply::Rows(mut rows) => rows.next().await.transpose(),
            _ => Ok(None),
        }
    };
    let text = "SELECT count(*) FROM request a JOIN request b ON a.req_time > b.req_time + 1e6";
    let joins = async {
        loop {
            let _ended = ask(1, text).await;
        }
    };
    let others = async {
        for _ in 0..100 {
            assert!(ask(2, "SELECT count(*) FROM tag").await.unwrap().is_some());
        }
    };
    asked.runtime.block_on(async {
        tokio::select! {
            biased;
            _ = joins => {}
            () = others => {}
        }
    });
}

#[test]
fn limits_are_named() {
    let mut pools = Pools::new(20_000, 60_000);
    pools.fill(&traffic(), 20_000);
    let limits =
        SqlConfig { rows_max: 1_000, memory: 1 << 20, threads: 2, ..Config::default().sql };
    let asked = Asked::with(&pools, limits);
    let error = |text: &str| asked.try_rows(text).unwrap_err();
    let long = error("SELECT id FROM request");
    assert!(long.code == 1104 && long.message.contains("1000 rows (sql.rows_max)"), "{long}");
    let large = error("SELECT * FROM timertag ORDER BY value, timer_id");
    assert!(large.code == 1041 && large.message.contains("(sql.memory)"), "{large}");
    assert_eq!(asked.lines("SELECT count(*) FROM request"), ["| 20000 |"], "it is given back");
    let limits = SqlConfig { queries_max: 1, ..Config::default().sql };
    let asked = Asked::with(&pools, limits);
    asked.runtime.block_on(async {
        let mut session = Session::new(1, "test@localhost", false);
        let held = asked.engine.run(&mut session, "SELECT * FROM timer", &[]).await.unwrap();
        let refused = asked.engine.run(&mut session, "SELECT 1", &[]).await.unwrap_err();
        assert!(refused.code == 1040 && refused.message.contains("sql.queries_max"), "{refused}");
        drop(held);
        asked.engine.run(&mut session, "SELECT 1", &[]).await.unwrap();
    });
}

/// Evicted rows are not made up for: the query fails.
#[test]
fn a_snapshot_expires_or_stays_what_it_was() {
    let mut pools = Pools::new(40_000, 120_000);
    pools.fill(&traffic(), 40_000);
    let limits = SqlConfig {
        threads: 1,
        time_max: std::time::Duration::from_secs(3_600),
        ..Config::default().sql
    };
    let asked = Asked::with(&pools, limits);
    asked.runtime.block_on(async {
        let mut session = Session::new(1, "test@localhost", false);
        let text = "SELECT id, timestamp FROM request";
        for (more, expires) in [(2_000, false), (80_000, true)] {
            let Ok(Reply::Rows(mut rows)) = asked.engine.run(&mut session, text, &[]).await else {
                panic!("no rows");
            };
            let first = rows.next().await.unwrap().unwrap();
            pools.fill(&traffic(), more);
            let (mut count, mut error) = (first.num_rows(), None);
            while let Some(batch) = rows.next().await {
                match batch {
                    Ok(batch) => count += batch.num_rows(),
                    Err(failed) => error = Some(failed),
                }
            }
            match expires {
                false => assert_eq!((count, error), (40_000, None)),
                true => assert_eq!(error.map(|error| error.code), Some(1317)),
            }
        }
    });
}

/// Whole columns of a report equal its values one by one; and SQL returns them all, with or without
/// partitions.
#[test]
fn reports_are_read_by_columns() {
    let mut pools = Pools::new(50_000, 0);
    pools.fill(
        &TrafficOptions {
            distribution: crate::cli::load::Distribution::Each,
            hosts: 100,
            servers: 10,
            scripts: 100,
            ..TrafficOptions::default()
        },
        40_000,
    );
    let asked = Asked::new(&pools, 2);
    let mut fast = 0;
    for report in pools.catalog.reports() {
        let name = &report.name;
        let rows = asked.try_rows(&format!("SELECT * FROM {name}")).unwrap();
        let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
        let again = asked.lines(&format!("SELECT count(*) FROM {name}"));
        assert_eq!(again, [format!("| {count} |")], "{name}");
        let table = pools.catalog.report(name, &ReportQuestion::default()).unwrap().table;
        assert_eq!(count, table.len(), "{name}");
        let Some(batch) = rows.first() else {
            continue;
        };
        for (at, column) in table.columns().iter().enumerate() {
            let data_type = batch.column(at).data_type();
            let all: Vec<usize> = (0..table.len()).collect();
            let mut numbers = Vec::new();
            let Some(kind) = table.numbers(at, &all, &mut numbers) else {
                continue;
            };
            let values = (0..table.len()).map(|row| table.value(row, at));
            let one_by_one = array(data_type, values).unwrap();
            let together = of_numbers(data_type, kind, &numbers).unwrap();
            assert_eq!(&together, &one_by_one, "{name} {column:?}");
            fast += 1;
        }
    }
    assert!(fast > 100, "{fast}");
}

/// A statement that names a report twice sees one moment of it.
#[test]
fn a_report_is_read_once() {
    let mut pools = Pools::new(1_000, 0);
    pools.fill(&traffic(), 500);
    let asked = Asked::new(&pools, 2);
    let text = "SELECT a.script_name, a.req_count = b.req_count, b.req_time_median IS NULL FROM report_by_script_name a \
                JOIN report_by_script_name b ON a.script_name = b.script_name";
    let lines = asked.lines(text);
    assert!(lines.len() > 5 && lines.iter().all(|line| line.contains("1 | 0")), "{lines:?}");
}

#[test]
fn columns_are_what_they_were_declared_as() {
    use crate::sql::SqlType;
    let mut pools = Pools::new(1_000, 1_000);
    pools.fill(&traffic(), 100);
    let asked = Asked::new(&pools, 2);
    let columns = |text: &str| {
        asked.runtime.block_on(async {
            let mut session = Session::new(1, "test@localhost", false);
            match asked.engine.run(&mut session, text, &[]).await.unwrap() {
                Reply::Rows(rows) => rows.columns,
                Reply::Done => panic!("no rows"),
            }
        })
    };
    let shown = columns(
        "SELECT r.id, status AS s, req_time, script_name, tags, req_time * 2, max(hostname) FROM request r GROUP BY 1, 2, 3, 4, 5, 6",
    );
    let types: Vec<SqlType> = shown.iter().map(|column| column.sql_type).collect();
    assert_eq!(
        types[..5],
        [SqlType::BigInt, SqlType::Int, SqlType::Float, SqlType::Varchar(512), SqlType::Text]
    );
    let origins: Vec<_> = shown.iter().map(|column| column.origin.clone()).collect();
    let of = |column: &str| Some(("request".to_owned(), column.to_owned()));
    assert_eq!(origins[..2], [of("id"), of("status")]);
    assert_eq!(origins[5..], [None, None], "{shown:?}");
    assert!(!shown[0].nullable && shown[1].nullable);
    assert_eq!(shown[0].table.as_deref(), Some("r"));
}

/// Every raw table is read from either end.
#[test]
fn descending_orders_are_the_reverse() {
    let mut pools = Pools::new(1_000, 3_000);
    pools.fill(&traffic(), 2_000);
    let asked = Asked::new(&pools, 2);
    for (table, key) in [
        ("request", "id"),
        ("timer", "id"),
        ("timertag", "timer_id"),
        ("tag", "id"),
        ("request_tag", "request_id"),
    ] {
        let select = format!("SELECT {key} FROM {table} ORDER BY {key}");
        let all = asked.ids(&select);
        let mut reverse = asked.ids(&format!("{select} DESC"));
        assert!(reverse.len() > 1 && reverse[0] > reverse[reverse.len() - 1], "{table}");
        assert_eq!(asked.ids(&format!("{select} DESC LIMIT 1")), reverse[..1], "{table}");
        reverse.reverse();
        assert_eq!(all, reverse, "{table}");
    }
}

/// An order by id or timestamp is correct in either direction, with conditions and limits, in one
/// partition or more.
#[test]
fn orders_are_right() {
    let mut pools = Pools::new(1_000, 3_000);
    pools.fill(&traffic(), 2_000);
    for threads in [1, 3] {
        let asked = Asked::new(&pools, threads);
        for (text, first, last) in cases![
            "SELECT id FROM request ORDER BY id DESC LIMIT 3" => 2000, 1998;
            "SELECT id FROM request ORDER BY id LIMIT 3" => 1001, 1003;
            "SELECT id FROM request WHERE status >= 0 ORDER BY timestamp DESC, id DESC LIMIT 50" =>
                2000, 1951;
            "SELECT id FROM request WHERE abs(status) >= 0 ORDER BY id DESC LIMIT 2" => 2000, 1999;
            "SELECT id FROM request ORDER BY id DESC" => 2000, 1001;
            "SELECT id, tags, script_name FROM request ORDER BY id" => 1001, 2000;
            "SELECT request_id FROM timer ORDER BY request_id DESC LIMIT 4" => 2000, 1999;
            "SELECT timer_id FROM timertag ORDER BY timer_id LIMIT 4" => 3001, 3002;
            "SELECT x.id FROM (SELECT id FROM request ORDER BY id DESC LIMIT 20) x ORDER BY x.id LIMIT 5" =>
                1981, 1985;
        ] {
            let ids = asked.ids(text);
            assert_eq!((ids[0], ids[ids.len() - 1]), (first, last), "{text}");
            assert!(ids.is_sorted() || ids.iter().rev().is_sorted(), "{text}");
        }
    }
}
