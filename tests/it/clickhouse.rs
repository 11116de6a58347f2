//! Shipping to ClickHouse, run on its own engine (`chdb`): whatever happens on the way, every row
//! of history arrives exactly once.
//!
//! These tests do not recount the packets that were sent; other tests check that history has them
//! all. They compare every minute row of history, with all sums, extremes and buckets, with the row
//! in ClickHouse.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pinbad::clock::{Clock, ManualClock};
use pinbad::history::parquet::Want;
use pinbad::history::{Resolution, Retention, Store};
use pinbad::report::row_key::key_texts;
use pinbad::report::totals::Extremes;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Running, await_condition, pass, pinbad, run};
use crate::packets::request;
use crate::past::{START_SECS, python};

mod fleet;
mod killed;
mod trouble;

/// ClickHouse's engine behind its HTTP interface; the folder outlives it.
struct ClickHouse {
    _server: Running,
    port: u16,
    /// Where it speaks TLS, if it has a certificate.
    secure_port: Option<u16>,
}

impl ClickHouse {
    /// `None` where there is no `chdb`.
    fn start(dir: &Path, port: u16) -> Option<Self> {
        let mut command = python("clickhouse.py", dir);
        command.arg(port.to_string()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Running(command.spawn().unwrap());
        let mut line = String::new();
        let mut said = BufReader::new(server.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let mut ports = line.split_whitespace().map(|it| it.parse().unwrap());
        let (Some(port), secure_port) = (ports.next(), ports.next()) else {
            let mut stderr = std::io::stderr();
            writeln!(stderr, "ClickHouse got nothing: there is no chdb").unwrap();
            return None;
        };
        Some(Self { _server: server, port, secure_port })
    }

    /// As JSON, a row a line.
    fn query(&self, query: &str) -> Vec<Json> {
        let url = format!("http://127.0.0.1:{}/?default_format=JSONEachRow", self.port);
        let mut answer =
            ureq::post(url).config().http_status_as_error(false).build().send(query).unwrap();
        let status = answer.status();
        let text = answer.body_mut().with_config().limit(1 << 30).read_to_string().unwrap();
        assert_eq!(status, 200, "{query}: {text}");
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Sets the faults for the next requests that carry rows.
fn faults(dir: &Path, words: &str) {
    std::fs::write(dir.join("fault"), words).unwrap();
}

fn start(dir: &Path, port: u16, clock: &Arc<ManualClock>, more: &[&str]) -> Here {
    serve(dir, port, Arc::<ManualClock>::clone(clock), more)
}

fn serve(dir: &Path, port: u16, clock: Arc<dyn Clock>, more: &[&str]) -> Here {
    let dir = format!("history.dir={}", dir.display());
    let url = format!("clickhouse.url=http://127.0.0.1:{port}/");
    let settings = [
        &dir,
        "history.free_min=0",
        "history.flush_period=60s",
        &url,
        "clickhouse.create_tables=true",
        "history.requests=all",
    ];
    Here::with_clock(&[&settings, more].concat(), clock)
}

/// How many, and their time, microseconds.
type Sent = (u64, u64);

fn send(here: &Here, step: u64, sent: &mut Sent) {
    here.site.send((0..=step % 7).map(|number| {
        let script = format!("/{}", (step * 31 + number) % 5);
        let mut packet = request("h", ["a", "ä'\\\""][step as usize % 2], &script);
        let secs = ((step * 7_919 + number * 104_729) % 2_000_000) as f32 / 1e6;
        packet.request_time = Some(secs);
        sent.0 += 1;
        sent.1 += (f64::from(secs) * 1e6).round_ties_even() as u64;
        packet.status = Some(if number == 3 { 500 } else { 200 });
        packet
    }));
}

/// Lets time pass until all is shipped that was written before a moment: as long as there is more
/// of it all the time.
fn drain(here: &Here, clock: &ManualClock, before: u64) {
    let mut shipped_rows = 0;
    let mut is_over = false;
    while !is_over {
        is_over = await_condition("all is shipped, or more of it", || {
            clock.advance_ms(1_000);
            let shipped = here.site.json("/api/v1/status")["clickhouse"].clone();
            let age = shipped["waiting_age_seconds"].as_u64().unwrap();
            let rows = shipped["rows_shipped"].as_u64().unwrap();
            if shipped["rows_waiting"] == 0 || clock.unix_ms() / 1_000 - age > before {
                Ok(true)
            } else if rows > shipped_rows {
                shipped_rows = rows;
                Ok(false)
            } else {
                Err(shipped)
            }
        });
    }
}

/// Lets time pass until all requests are on disk: they leave the pool before an hour is over.
fn collect(here: &Here, clock: &ManualClock) {
    await_condition("all requests are on disk", || {
        clock.advance_ms(1_000);
        let status = here.site.json("/api/v1/status");
        match status["history"]["raw_requests_kept"] == status["requests_merged"] {
            true => Ok(()),
            false => Err(status["history"].clone()),
        }
    });
}

/// Every row of minutes: report, definition, key, minute, other to sums, extremes and histogram.
type Rows = BTreeMap<String, Json>;

fn at_home(dirs: &[&Path], before: u64) -> Rows {
    let retention = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };
    type Sums = ([u128; 9], Extremes, Option<BTreeMap<u32, u64>>);
    let mut rows: BTreeMap<String, Sums> = BTreeMap::new();
    for dir in dirs {
        let store = Store::open(dir, retention).unwrap();
        for part in store.parts().read().iter() {
            if part.resolution != Resolution::Minute || part.is_raw() {
                continue;
            }
            for section in &part.sections {
                let dataset = &section.dataset;
                part.read(dataset, 0..before, Want::All, &mut |row| {
                    let key: Vec<_> = key_texts(&row.key).collect();
                    let totals = row.gain.sum.totals;
                    let sums = [
                        totals.requests.into(),
                        totals.hits,
                        totals.errors.into(),
                        totals.time,
                        totals.ru_utime,
                        totals.ru_stime,
                        totals.traffic,
                        totals.memory,
                        totals.unmeasured,
                    ];
                    let id = json!([dataset.report, dataset.hash, key, row.time, row.is_other]);
                    let (all, extremes, histogram) = rows
                        .entry(id.to_string())
                        .or_insert_with(|| ([0; 9], Extremes::NOTHING, Some(BTreeMap::new())));
                    all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
                    extremes.widen(&row.gain.extremes);
                    match (row.gain.buckets(), histogram) {
                        (Some(more), Some(all)) => {
                            for (bucket, count) in more {
                                *all.entry(bucket).or_default() += count;
                            }
                        }
                        (_, all) => *all = None,
                    }
                })
                .unwrap();
            }
        }
    }
    let rows = rows.into_iter();
    rows.map(|(id, (sums, extremes, histogram))| {
        let sums = sums.map(|sum| sum.to_string());
        let has = extremes != Extremes::NOTHING;
        let extremes =
            has.then(|| [extremes.time_min, extremes.time_max, extremes.memory_peak_max.into()]);
        (id, json!([sums, extremes, histogram]))
    })
    .collect()
}

/// The same in ClickHouse.
fn there(clickhouse: &ClickHouse, before: u64) -> Rows {
    let sums = "[toString(sum(req_count)), toString(sum(hit_count)), toString(sum(error_count)), toString(sum(time_total_us)), \
                toString(sum(ru_utime_total_us)), toString(sum(ru_stime_total_us)), toString(sum(traffic_total)), \
                toString(sum(memory_footprint_total)), toString(sum(unmeasured_count))] AS sums";
    let found = clickhouse.query(&format!(
        "SELECT report, definition, key, toUnixTimestamp(t) AS time, other, {sums}, min(time_min_us) AS low, max(time_max_us) AS high, \
         max(memory_peak_max) AS peak, min(has_histogram) AS known, sumMap(histogram) AS histogram FROM pinba.rollup FINAL \
         WHERE t < {before} GROUP BY ALL SETTINGS output_format_json_quote_64bit_integers = 0"
    ));
    let coverage = clickhouse.query(&format!(
        "SELECT report, definition, toUnixTimestamp(t) AS time, [toString(sum(seconds)), toString(sum(missed_requests)), \
         toString(sum(rows_lost)), '0', '0', '0', toString(sum(histograms_dropped)), toString(sum(keys_folded)), '0'] AS sums \
         FROM pinba.coverage FINAL WHERE t < {before} GROUP BY ALL",
    ));
    let coverage = coverage.into_iter().map(|row| {
        let id = json!(["coverage", "", [row["report"], row["definition"]], row["time"], false]);
        (id.to_string(), json!([row["sums"], null, null]))
    });
    let found = found.into_iter().map(|row| {
        let id = json!([row["report"], row["definition"], row["key"], row["time"], row["other"]]);
        let extremes = match &row["low"] {
            Json::Null => Json::Null,
            low => json!([low, row["high"], row["peak"]]),
        };
        let histogram = match row["known"] == json!(true) {
            true => row["histogram"].clone(),
            false => Json::Null,
        };
        (id.to_string(), json!([row["sums"], extremes, histogram]))
    });
    found.chain(coverage).collect()
}

/// Every row of minutes before a moment is in both.
#[track_caller]
fn assert_same(clickhouse: &ClickHouse, dirs: &[&Path], before: u64) {
    let (ours, theirs) = (at_home(dirs, before), there(clickhouse, before));
    assert!(ours.len() > 100, "{}", ours.len());
    for (id, row) in &ours {
        assert_eq!(theirs.get(id), Some(row), "{id}");
    }
    assert_eq!(ours.len(), theirs.len());
}

/// Stops, starts once more, and ships what was written by the stop; the minute in which that was.
fn settle(here: Here, home: &Path, port: u16, clock: &Arc<ManualClock>, more: &[&str]) -> u64 {
    here.stop();
    let stopped = clock.unix_ms() / 1_000;
    let here = start(home, port, clock, more);
    drain(&here, clock, stopped);
    // What was refused is sent again once nothing else is to be sent.
    await_condition("nothing is set aside", || {
        clock.advance_ms(1_000);
        let shipped = here.site.json("/api/v1/status")["clickhouse"].clone();
        (shipped["rows_refused"] == 0).then_some(()).ok_or(shipped)
    });
    here.stop();
    stopped / 60 * 60
}

#[test]
fn every_row_is_there_once_whatever_happens() {
    let (home, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut clickhouse = ClickHouse::start(far.path(), 0);
    let Some(port) = clickhouse.as_ref().map(|it| it.port) else {
        return;
    };
    let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
    let mut here = start(home.path(), port, &clock, &[]);
    let mut sent = Sent::default();
    let again = |here: Here| {
        here.stop();
        start(home.path(), port, &clock, &[])
    };
    for step in 0..30 {
        send(&here, step, &mut sent);
        pass(&here.site, &clock, 20_000);
        match step {
            5 => faults(far.path(), "lose cut refuse slow"),
            // Started anew with a shipment half taken.
            8 => {
                faults(far.path(), "lose lose lose lose");
                pass(&here.site, &clock, 200_000);
                here = again(here);
            }
            // Away for so long that hours are published.
            12 => clickhouse = None,
            13 | 18 => {
                collect(&here, &clock);
                pass(&here.site, &clock, 3_700_000);
            }
            14 => here = again(here),
            24 => clickhouse = ClickHouse::start(far.path(), port),
            _ => {}
        }
    }
    let before = settle(here, home.path(), port, &clock, &[]);
    let clickhouse = clickhouse.unwrap();
    assert_same(&clickhouse, &[home.path()], before);
    let requests = clickhouse.query(
        "SELECT count() AS requests, uniqExact(store, run, id) AS ids, sum(req_time_us) AS us, sum(weight) AS weight, \
         sum(arraySum(timers.value_us)) AS timer_us, sum(arraySum(timers.hits)) AS hits, groupUniqArray(tags) AS tags, \
         groupUniqArray(timers.tags) AS timer_tags, sum(doc_size) AS bytes FROM pinba.request FINAL",
    );
    let (count, us) = sent;
    let expected = json!({
        "requests": count, "ids": count, "us": us, "weight": count, "timer_us": 750_000 * count, "hits": 3 * count,
        "tags": [{"env": "test"}], "timer_tags": [[{"group": "db", "op": "read"}, {"group": "cache"}]], "bytes": 2048 * count,
    });
    assert_eq!(requests, [expected]);
}

/// A container gets another name while a shipment is on its way: the server stored it and withheld
/// the answer.
#[test]
fn a_shipment_that_began_under_one_name_ends_under_it() {
    let home = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Of inserts; others are answered.
    let (tokens, answers) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let (seen, is_answered) = (Arc::clone(&tokens), Arc::clone(&answers));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut bytes) = (String::new(), 0);
            while stream.read_line(&mut head).is_ok_and(|read| read > 2) {}
            for line in head.lines() {
                if let Some((name, value)) = line.split_once(": ")
                    && name.eq_ignore_ascii_case("content-length")
                {
                    bytes = value.parse().unwrap();
                }
            }
            let mut body = vec![0; bytes];
            stream.read_exact(&mut body).unwrap();
            let token = head.split_once("insert_deduplication_token=");
            if let Some((_, token)) = token {
                let token: String = token.chars().take(64).collect();
                seen.lock().unwrap().push(token);
                if !is_answered.load(Ordering::SeqCst) {
                    continue;
                }
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.get_mut().write_all(answer).unwrap();
        }
    });
    let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
    let await_token = || {
        await_condition("something is sent", || {
            clock.advance_ms(1_000);
            let first = tokens.lock().unwrap().first().cloned();
            first.ok_or(())
        })
    };
    let here = start(home.path(), port, &clock, &["clickhouse.collector=a"]);
    let mut sent = Sent::default();
    for step in 0..8 {
        send(&here, step, &mut sent);
        pass(&here.site, &clock, 30_000);
    }
    let token = await_token();
    here.stop();
    tokens.lock().unwrap().clear();
    let here = start(home.path(), port, &clock, &["clickhouse.collector=b"]);
    assert_eq!(await_token(), token);
    answers.store(true, Ordering::SeqCst);
    drain(&here, &clock, clock.unix_ms() / 1_000);
    here.stop();
}

/// Of three pinbads; one does without most tags, one has rows refused, and all need a password.
#[test]
fn many_ship_into_one() {
    let far = tempfile::tempdir().unwrap();
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    let port = clickhouse.port;
    let homes = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
    let password = far.path().join("password");
    std::fs::write(far.path().join("key"), "s3cret").unwrap();
    std::fs::write(&password, "wrong\n").unwrap();
    let password = format!("clickhouse.password_file={}", password.display());
    let more = [
        [&*password, "clickhouse.dc=ams", r#"clickhouse.tags=["group"]"#],
        [&password, "clickhouse.dc=fra", "clickhouse.tags=*"],
        [&password, "clickhouse.dc=fra", "clickhouse.what=rollups"],
    ];
    let mut sent = [Sent::default(); 3];
    let mut ours = Rows::new();
    for (at, home) in homes.iter().enumerate() {
        let here = start(home.path(), port, &clock, &more[at]);
        for step in 0..6 {
            send(&here, step * 3 + at as u64, &mut sent[at]);
            pass(&here.site, &clock, 30_000);
        }
        let status = || here.site.json("/api/v1/status")["clickhouse"].clone();
        if at == 0 {
            await_condition("the password is wrong", || {
                clock.advance_ms(1_000);
                let said = status();
                match said["error"].as_str().unwrap_or_default() {
                    error if error.contains("Authentication") => Ok(()),
                    _ => Err(said),
                }
            });
            std::fs::write(far.path().join("password"), "s3cret\n").unwrap();
            await_condition("it is read again", || {
                clock.advance_ms(1_000);
                let said = status();
                match said["error"].is_null() && said["rows_shipped"] != 0 {
                    true => Ok(()),
                    false => Err(said),
                }
            });
        }
        if at == 1 {
            faults(far.path(), "column");
            await_condition("rows are refused", || {
                clock.advance_ms(1_000);
                let said = status();
                match said["rows_refused"].as_u64() {
                    Some(1..) => Ok(said),
                    _ => Err(said),
                }
            });
            let said = status()["refused"][0]["error"].clone();
            assert!(said.as_str().unwrap().contains("No such column"), "{said}");
        }
        let before = settle(here, home.path(), port, &clock, &more[at]);
        ours.extend(at_home(&[home.path()], before));
    }
    std::fs::remove_file(far.path().join("key")).unwrap();
    // One after the other they ran, each in minutes of its own.
    let theirs = there(&clickhouse, u32::MAX.into());
    assert!(ours.len() > 100, "{}", ours.len());
    for (id, row) in &ours {
        assert_eq!(theirs.get(id), Some(row), "{id}");
    }
    let requests = clickhouse.query(
        "SELECT dc, count() AS requests, groupUniqArray(tags) AS tags, groupUniqArray(timers.tags) AS timer_tags \
         FROM pinba.request FINAL GROUP BY dc ORDER BY dc",
    );
    let expected = [
        json!({"dc": "ams", "requests": sent[0].0, "tags": [{}], "timer_tags": [[{"group": "db"}, {"group": "cache"}]]}),
        json!({"dc": "fra", "requests": sent[1].0, "tags": [{"env": "test"}],
               "timer_tags": [[{"group": "db", "op": "read"}, {"group": "cache"}]]}),
    ];
    assert_eq!(requests, expected);
    // The views: all of them, together.
    let all: u64 = sent.iter().map(|it| it.0).sum();
    let view = "SELECT sum(req_count) AS requests, round(sum(req_time_total) * 1e6) AS us, min(p95) > 0 AS has, countIf(dc = 'fra') > 0 AS fra \
                FROM pinba.report_by_script_name_hour WHERE t >= 0";
    let us: u64 = sent.iter().map(|it| it.1).sum();
    let rows = clickhouse.query(view);
    assert_eq!(rows, [json!({"requests": all, "us": us, "has": 1, "fra": 1})]);
    for name in ["report_by_script_name", "report_by_status_minute", "info_day"] {
        clickhouse.query(&format!("SELECT * FROM pinba.{name}"));
    }
    // And what the dashboard asks.
    let board = concat!(env!("CARGO_MANIFEST_DIR"), "/config/grafana/pinbad-clickhouse.json");
    let board: Json = serde_json::from_str(&std::fs::read_to_string(board).unwrap()).unwrap();
    clickhouse.query("USE pinba");
    for panel in board["panels"].as_array().unwrap() {
        let query = panel["targets"][0]["rawSql"].as_str().unwrap();
        let query = query
            .replace("$__timeFilter(", "0 < toUInt32(")
            .replace("${dc:singlequote}", "'ams', 'fra'");
        let rows = clickhouse.query(&query);
        assert!(!rows.is_empty(), "{query}");
    }
}

/// Returns the output of `pinbad tables --clickhouse`, one statement per element.
fn print_tables(more: &[&str]) -> Vec<String> {
    let said = run(pinbad().args(["tables", "--clickhouse"]).args(more));
    assert_eq!(said.code, Some(0), "{}", said.err);
    let text = said.out.trim_end().trim_end_matches(';');
    text.split(";\n\n").map(str::to_owned).collect()
}

/// A single server executes the output of `pinbad tables --clickhouse`; the output for a cluster
/// passes ClickHouse's parser.
#[test]
fn statements_are_what_clickhouse_takes() {
    let far = tempfile::tempdir().unwrap();
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    let report = r#"report=[{name = "by-x.y", comment = "tag_info:group"}]"#;
    let print = |more: &[&str]| print_tables(&[&["--set", report], more].concat());
    // Twice: what is there is left as it is.
    for statement in [print(&[]), print(&[])].concat() {
        clickhouse.query(&statement);
    }
    for view in ["report_by_server_name", "`by-x.y_day`"] {
        assert!(clickhouse.query(&format!("SELECT * FROM pinba.{view}")).is_empty());
    }
    let statements = print(&["--cluster", "all's"]);
    assert!(statements.iter().any(|it| it.contains("ENGINE = Distributed('all\\'s'")));
    for statement in statements {
        clickhouse.query(&format!("EXPLAIN AST {statement}"));
    }
}
