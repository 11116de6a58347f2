//! Raw requests on disk: over clean stops, kills and restarts from snapshots each is there once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};
use pinbad::clock::{Clock, ManualClock, SystemClock};
use prost::Message as _;

use super::of_history;
use crate::harness::{Here, Program, Sender, Site, await_condition_for, await_until, pass};
use crate::packets::request;

/// The rows of a table, from all files that are published.
pub(super) fn rows(dir: &Path, table: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for date in fs::read_dir(dir.join(table)).unwrap() {
        for file in fs::read_dir(date.unwrap().path()).unwrap() {
            let file = File::open(file.unwrap().path()).unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            rows.extend(reader.get_row_iter(None).unwrap().map(Result::unwrap));
        }
    }
    rows
}

fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
    let mut columns = row.get_column_iter();
    columns.find(|(column, _)| *column == name).unwrap().1
}

pub(super) fn int(row: &Row, name: &str) -> i64 {
    match field(row, name) {
        Field::Long(value) => *value,
        other => panic!("{name}: {other:?}"),
    }
}

fn settings(dir: &Path, more: &[&str]) -> Vec<String> {
    let mut settings = vec![
        format!("history.dir={}", dir.join("history").display()),
        "history.free_min=0".to_owned(),
    ];
    settings.extend(more.iter().map(|&setting| setting.to_owned()));
    settings
}

/// Sends requests whose scripts are numbers that none had before.
fn send(site: &Site, numbers: &mut std::ops::RangeFrom<i64>, count: usize) -> BTreeSet<i64> {
    let mut sender = Sender::new(site);
    let sent: BTreeSet<i64> = numbers.take(count).collect();
    for number in &sent {
        sender.send(&request("web", "shop", &number.to_string()).encode_to_vec());
    }
    sender.at_rest();
    sent
}

/// Hours later everything is published.
fn publish(dir: &Path) {
    publish_at(dir, SystemClock::new().unix_ms() + 10 * 3_600_000);
}

pub(super) fn publish_at(dir: &Path, unix_ms: u64) {
    let clock = Arc::new(ManualClock::new(unix_ms));
    let settings = settings(dir, &[]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let here = Here::with_clock(&settings, Arc::<ManualClock>::clone(&clock) as Arc<dyn Clock>);
    pass(&here.site, &clock, 60_000);
    // What a hundred kills left is a million requests.
    await_condition_for(Duration::from_mins(10), "all is published", || {
        clock.advance_ms(1_000);
        let history = of_history(&here.site);
        match history["raw_pieces_pending"].as_u64() {
            Some(0) => Ok(()),
            _ => Err(history),
        }
    });
    here.stop();
}

#[test]
fn kills_and_restarts_leave_each_request_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let state = format!("state.dir={}", dir.path().join("state").display());
    let more = [
        "history.requests=all",
        "history.flush_period=1s",
        // After a kill ids begin again where the last clean stop was.
        "state.snapshot_period=0",
        "reports.memory=32MiB",
        &*state,
    ];
    let settings = settings(dir.path(), &more);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut numbers = 1..;
    let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
    for life in 0..6 {
        let mut program = Program::serve(&settings);
        let kept = || of_history(&program.site)["raw_requests_kept"].as_u64().unwrap_or(0);
        let written = send(&program.site, &mut numbers, 300);
        await_until("a flush", kept, |now| *now >= 300);
        must.extend(written);
        let last = send(&program.site, &mut numbers, 200);
        if life % 2 == 0 {
            program.signal("KILL");
            may.extend(last);
        } else {
            program.signal("TERM");
            must.extend(last);
        }
        program.wait();
    }
    publish(dir.path());
    let dir = dir.path().join("history");
    let requests = rows(&dir, "request");
    let mut scripts = BTreeMap::new();
    let mut names = BTreeSet::new();
    for row in &requests {
        let Field::Str(script) = field(row, "script_name") else {
            panic!("{row}");
        };
        let script: i64 = script.parse().unwrap();
        *scripts.entry(script).or_insert(0) += 1;
        assert!(names.insert((int(row, "run"), int(row, "id"))), "{row}");
    }
    let twice = scripts.iter().filter(|(_, count)| **count > 1).count();
    assert_eq!(twice, 0, "{scripts:?}");
    let there: BTreeSet<i64> = scripts.into_keys().collect();
    assert_eq!(must.difference(&there).count(), 0, "what was flushed is there");
    assert!(there.is_subset(&must.union(&may).copied().collect()));
    let timers = rows(&dir, "timer");
    for timer in &timers {
        assert!(names.contains(&(int(timer, "run"), int(timer, "request_id"))));
    }
    assert!(timers.len() >= names.len());
}

#[test]
fn of_many_requests_the_tail_is_kept_and_the_weights_say_how_many_there_were() {
    let dir = tempfile::tempdir().unwrap();
    let program_settings = settings(dir.path(), &[]);
    let settings: Vec<&str> = program_settings.iter().map(String::as_str).collect();
    let here = Here::start(&settings);
    here.site.send((0..9_000_u32).map(|number| {
        let mut sent = request("web", "shop", ["/a", "/b"][(number % 2) as usize]);
        sent.request_time = Some(number as f32 / 1e4);
        sent.status = Some(if number % 10 == 3 { 500 } else { 200 });
        sent
    }));
    here.stop();
    publish(dir.path());
    let requests = rows(&dir.path().join("history"), "request");
    assert!(requests.len() < 4_000, "{}", requests.len());
    let weight = |row: &Row| match field(row, "weight") {
        Field::Double(weight) => *weight,
        other => panic!("{other:?}"),
    };
    let total: f64 = requests.iter().map(weight).sum();
    assert!((total - 9_000.0).abs() < 1e-6, "{total}");
    let errors = requests.iter().filter(|row| int(row, "status") == 500);
    let errors: Vec<f64> = errors.map(weight).collect();
    assert!((errors.iter().sum::<f64>() - 900.0).abs() < 1e-6 && errors.len() == 900);
    let slow = requests.iter().filter(|row| int(row, "req_time_us") > 899_000);
    let slow: Vec<f64> = slow.map(weight).collect();
    assert_eq!(slow, [1.0; 9]);
}
