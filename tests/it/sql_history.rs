//! Database `history` over HTTP: every row of the past is there once, by whatever resolution and
//! from wherever it is read.

use std::sync::Arc;

use pinbad::clock::{Clock, ManualClock};
use pinbad::grammar::builtin;
use pinbad::history::{Dataset, Gain, Retention, Store, UnflushedRows};
use pinbad::report::definition::Defaults;
use pinbad::report::row_key::push_key;
use prost::Message as _;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Sender, await_condition, await_until, noticed};
use crate::packets::request;

/// 2024-02-28 22:00:00 UTC.
const START_MS: u64 = 1_709_157_600_000;

#[test]
fn everything_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_MS));
    let mut here = Here::with_history(dir.path(), &clock, &[]);
    // Requests, and those of /1, by the begin of their hour.
    let mut sent: Vec<(u64, u64, u64)> = Vec::new();
    for step in 0..60_u64 {
        let mut sender = Sender::new(&here.site);
        let hour = clock.unix_ms() / 3_600_000 * 3_600;
        for number in 0..=step % 4 {
            let mut packet = request("web", "shop", &format!("/{number}"));
            packet.request_time = Some(if number == 1 { 2.0 } else { 0.5 });
            sender.send(&packet.encode_to_vec());
            sent.push((hour, 1, u64::from(number == 1)));
        }
        sender.at_rest();
        clock.advance_ms(if step % 10 == 9 { 4 * 3_600_000 } else { 40_000 });
        noticed(&here.site);
        if step == 29 {
            here.stop();
            here = Here::with_history(dir.path(), &clock, &[]);
        }
    }
    let site = &here.site;
    let all = sent.len() as u64;
    let scripts = "SELECT SUM(req_count) FROM history.report_by_script_name";
    await_until("the last second is there", || site.sql(scripts), |now| *now == json!([[all]]));
    let published = || site.json("/api/v1/status")["history"]["files_published"].as_u64();
    for round in 0..3 {
        // Minutes are kept for two weeks.
        let kept = ["", "hour", "day", "minute"];
        for resolution in &kept[..if round < 2 { 4 } else { 3 }] {
            let resolution = *resolution;
            let asked = match resolution {
                "" => String::new(),
                name => format!(" WHERE resolution = '{name}'"),
            };
            assert_eq!(
                site.sql(&format!("{scripts}{asked}")),
                json!([[all]]),
                "{round} {resolution}"
            );
            if resolution.is_empty() {
                continue;
            }
            let shown =
                format!("SELECT DISTINCT resolution FROM history.report_by_script_name{asked}");
            assert_eq!(site.sql(&shown), json!([[resolution]]));
        }
        let by_hour = "SELECT UNIX_TIMESTAMP(time) AS hour, SUM(req_count), SUM(IF(script_name = '/1', req_count, 0)) \
                       FROM history.report_by_script_name WHERE resolution = 'hour' GROUP BY hour ORDER BY hour";
        let mut hours: Vec<(u64, u64, u64)> = Vec::new();
        for &(hour, requests, of_one) in &sent {
            match hours.last_mut().filter(|last| last.0 == hour) {
                Some(last) => (last.1, last.2) = (last.1 + requests, last.2 + of_one),
                None => hours.push((hour, requests, of_one)),
            }
        }
        let expected: Vec<Json> = hours.iter().map(|it| json!([it.0, it.1, it.2])).collect();
        assert_eq!(site.sql(by_hour), Json::from(expected), "{round}");
        // Of the pages that may have a key only its rows are read.
        let of_one: u64 = sent.iter().map(|it| it.2).sum();
        for (condition, expected) in cases![
            "script_name = '/1'" => json!([[of_one]]);
            "script_name = '/1' AND resolution = 'hour'" => json!([[of_one]]);
            "script_name = '/1' AND script_name = '/0'" => json!([[null]]);
            "script_name = '/none'" => json!([[null]]);
            "resolution = 'hour' AND resolution = 'day'" => json!([[null]]);
            "resolution = 'none'" => json!([[null]]);
        ] {
            assert_eq!(
                site.sql(&format!("{scripts} WHERE {condition}")),
                expected,
                "{round} {condition}"
            );
        }
        // What conditions on the time leave out is not read, and nothing else.
        let middle = hours[hours.len() / 2].0;
        let before: u64 = sent.iter().filter(|it| it.0 < middle).map(|it| it.1).sum();
        for (condition, count) in cases![
            format!("time < FROM_UNIXTIME({middle})") => before;
            format!("time >= FROM_UNIXTIME({middle})") => all - before;
            format!("time BETWEEN FROM_UNIXTIME({middle}) AND '2030-01-01'") => all - before;
        ] {
            assert_eq!(
                site.sql(&format!("{scripts} WHERE {condition}")),
                json!([[count]]),
                "{condition}"
            );
        }
        let spread = "SELECT script_name, percentile(histogram, 50), SUM(req_time_total) / SUM(req_count) \
                      FROM history.report_by_script_name WHERE script_name IN ('/0', '/1') GROUP BY script_name ORDER BY 1";
        for (row, expected) in site.sql(spread).as_array().unwrap().iter().zip([0.5, 2.0]) {
            let (median, mean) = (row[1].as_f64().unwrap(), row[2].as_f64().unwrap());
            assert!((median / expected - 1.0).abs() < 0.032, "{row}");
            assert_eq!(mean, expected, "{row}");
        }
        // Two days later it is in files, of days too; then the minutes are gone.
        if round < 2 {
            let before = published();
            clock.advance_ms([2, 20][round] * 86_400_000);
            noticed(site);
            await_condition("files are published", || {
                clock.advance_ms(1_000);
                match published() {
                    now if now > before || round == 1 => Ok(()),
                    now => Err(now),
                }
            });
        }
    }
    let names = site.sql("SHOW TABLES FROM history");
    assert_eq!(names[0], json!(["coverage"]));
    assert!(site.sql("SHOW DATABASES").as_array().unwrap().contains(&json!(["history"])));
    let made = site.sql("SHOW CREATE TABLE history.report_by_status").to_string();
    assert!(made.contains("`req_time_total` double DEFAULT NULL"), "{made}");
    let columns = site.sql("DESCRIBE history.report_by_status");
    assert_eq!(
        (&columns[0][0], &columns[1][0], &columns[2][0]),
        (&json!("time"), &json!("resolution"), &json!("status"))
    );
    let covered = site.sql(
        "SELECT SUM(covered_seconds) FROM history.coverage WHERE report = 'info' AND resolution = 'day'",
    );
    assert!(covered[0][0].as_f64().unwrap() > 3_600.0, "{covered}");
    here.stop();
}

/// As many groups as rows, whose histograms together are more than queries may keep: each is done
/// with before the next one.
#[test]
fn percentiles_of_many_groups_are_merged_as_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let retention = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };
    let mut store = Store::open(dir.path(), retention).unwrap();
    let mut reports = builtin::reports(&Defaults::default()).into_iter();
    let report = reports.find(|report| report.name == "report_by_script_name");
    let dataset = Arc::new(Dataset::of(&report.unwrap(), 500));
    let (scripts, hours) = (75, 24);
    let end = START_MS / 1_000;
    let begin = end - hours * 3_600;
    for hour in 0..hours {
        let mut batch = UnflushedRows::default();
        for minute in 0..60 {
            for script in 0..scripts {
                let mut key = Vec::new();
                push_key(&mut key, &format!("/shop/page_{script:02}.php"));
                let times = (1..60).map(|us| (1_000 * us * (1 + script + minute), 1));
                let gain = Gain::of_times(&dataset.buckets, times);
                let time = begin + hour * 3_600 + minute * 60;
                batch.add(&dataset, time, &key, false, &gain);
            }
        }
        let now = begin + (hour + 1) * 3_600;
        store.flush(&batch, now, || ()).unwrap();
        // The last hours are pending still.
        while hour < hours - 2 && store.publish_due(now + 300, &mut |_| Ok(())).unwrap() {}
    }
    drop(store);
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(START_MS));
    let dir = format!("history.dir={}", dir.path().display());
    let settings = [&dir, "history.free_min=0", "sql.memory=24MiB", "sql.threads=2"];
    let here = Here::with_clock(&settings, clock);
    let site = &here.site;
    let of = |percentile: &str, keys: &str| {
        format!(
            "SELECT COUNT(*), MIN(p), MAX(p), SUM(p) FROM (SELECT {percentile} AS p FROM history.report_by_script_name {keys}) AS t"
        )
    };
    let rows = site.sql(&of("req_time_p95", ""));
    assert_eq!(rows[0][0], json!(scripts * 60 * hours));
    let groups = of("percentile(histogram, 95)", "GROUP BY script_name, time");
    let groups = site.sql(&groups);
    for at in 0..3 {
        assert_eq!(groups[0][at], rows[0][at], "{groups} {rows}");
    }
    let [sum, expected] = [&groups, &rows].map(|it| it[0][3].as_f64().unwrap());
    assert!((sum / expected - 1.0).abs() < 1e-9, "{sum} {expected}");
    // In another order they are kept.
    let keys = "GROUP BY time, CONCAT(script_name, '!')";
    let kept = json!({"query": of("percentile(histogram, 95)", keys)}).to_string();
    let kept = site.post("/api/v1/sql", &kept);
    assert_eq!(kept.status, 503, "{kept:?}");
    let of_one = "SELECT script_name, percentile(histogram, 50) FROM history.report_by_script_name";
    let by_script = site.sql(&format!("{of_one} GROUP BY script_name ORDER BY 1"));
    let alone =
        site.sql(&format!("{of_one} WHERE script_name = '/shop/page_07.php' GROUP BY script_name"));
    assert_eq!(by_script[7], alone[0]);
}

#[test]
fn without_a_history_there_is_no_such_database() {
    let here = Here::with_clock(&[], Arc::new(ManualClock::new(START_MS)));
    let asked = json!({"query": "SELECT * FROM history.report_by_script_name"}).to_string();
    let answer = here.site.post("/api/v1/sql", &asked);
    assert_has!(answer.problem(400) => "doesn't exist; its past is not kept, see history.dir");
    here.stop();
}
