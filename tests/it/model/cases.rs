//! Small stories, each once told wrong by the engine: found by the recount, shrunk by hand.

use std::sync::Arc;

use pinbad::grammar::native::ReportForm;
use pinbad::input::pinba::model::Request;
use pinbad::report::DefinedBy;
use pinbad::report::definition::Defaults;
use pinbad::report::read::reading::{Reading, Want};
use prost::Message as _;

use super::traffic::read;
use super::world::{Plan, World};

fn plan() -> Plan {
    Plan { reports: 0, ..Plan::default() }
}

/// A request to this script.
fn request(script: &str) -> Request {
    let mut request = Request::named("h", "s", script);
    request.request_time = Some(1.0);
    request
}

impl World {
    fn send(&mut self, requests: &[Request]) {
        let mut block = Vec::new();
        let mut seen = Vec::new();
        for request in requests {
            let datagram = request.encode_to_vec();
            seen.extend(read(&datagram));
            self.decode(&datagram, &mut block);
        }
        self.merge(&block, seen);
    }

    /// Makes a report; true when it was live at once.
    fn make(&mut self, json: &str) -> bool {
        let form: ReportForm = serde_json::from_str(json).expect("a form");
        let definition = Arc::new(form.definition(&Defaults::default()).expect("a report"));
        let by = DefinedBy::RunTime;
        let (reports, pool) = (&mut self.live.reports, &mut self.live.pool);
        match reports.define(definition, by, pool) {
            None => true,
            Some(filling) => {
                let rest = reports.fill(filling, pool, usize::MAX);
                assert!(rest.is_none(), "all rows fit one piece");
                false
            }
        }
    }

    fn reading(&self, name: &str) -> Reading {
        let want = Want { keys: true, quantiles: true, histograms: true };
        let entry = self.live.reports.find(name).expect("it was made");
        self.live.reports.read(entry, want, &self.live.pool, 0)
    }

    /// (keys, requests) of every row, sorted.
    fn rows(&self, name: &str) -> Vec<(Vec<String>, u64)> {
        let keys = self.live.reports.find(name).expect("it was made").definition.keys.len();
        let reading = self.reading(name);
        let text = |row, key| reading.key(row, key).unwrap_or("OTHER").to_owned();
        let mut rows: Vec<_> = (0..reading.len())
            .map(|row| {
                let keys = (0..keys).map(|key| text(row, key)).collect();
                (keys, reading.totals[row].requests)
            })
            .collect();
        rows.sort();
        rows
    }
}

fn row(keys: &[&str], requests: u64) -> (Vec<String>, u64) {
    (keys.iter().map(|key| (*key).to_owned()).collect(), requests)
}

#[test]
fn a_report_filled_from_raw_rows_covers_their_span() {
    let mut world = World::new(1, plan());
    world.advance(0);
    world.send(&[request("/a")]);
    world.advance(20_000);
    world.send(&[request("/a")]);
    assert!(!world.make(r#"{"name": "r", "level": "request", "keys": ["+env"], "window": "30s"}"#));
    assert!(
        !world
            .make(r#"{"name": "s", "level": "request", "keys": ["script_name"], "window": "30s"}"#)
    );
    assert_eq!(world.reading("s").covered_secs, 20);
    // It counts whatever came, not what passed.
    assert_eq!(world.reading("r").covered_secs, 20);
    assert_eq!(world.rows("s"), [row(&["/a"], 2)]);
    world.advance(15_000);
    world.send(&[request("/a")]);
    assert_eq!(world.reading("s").covered_secs, 15, "the first has left");
    world.advance(40_000);
    assert_eq!(world.reading("s").covered_secs, 0, "all have left");
}

#[test]
fn a_report_made_without_raw_rows_covers_what_it_has_seen() {
    let mut world = World::new(1, Plan { request_rows: 0, timer_rows: 0, ..plan() });
    world.advance(0);
    world.send(&[request("/a")]);
    world.advance(10_000);
    world.make(r#"{"name": "r", "level": "request", "keys": ["+env"], "window": "60s"}"#);
    world.advance(5_000);
    world.send(&[request("/a")]);
    world.advance(2_000);
    world.send(&[request("/a")]);
    assert_eq!(world.reading("r").covered_secs, 2);
    assert_eq!(world.reading("info").covered_secs, 17);
}

#[test]
fn without_the_tag_and_with_an_empty_one_a_request_is_one_request() {
    let mut world = World::new(1, plan());
    world.make(
        r#"{"name": "empty", "level": "timer", "keys": [{"key": "@a", "missing": "empty"}]}"#,
    );
    world.make(r#"{"name": "skip", "level": "timer", "keys": [{"key": "@a", "missing": "skip"}]}"#);
    let mut two = request("/");
    two.add_timer(1, 0.5, &[("a", "")]);
    two.add_timer(1, 0.25, &[("b", "x")]);
    world.send(&[two]);
    assert_eq!(world.rows("empty"), [row(&[""], 1)]);
    assert_eq!(world.reading("empty").totals[0].hits, 2);
    assert_eq!(world.rows("skip"), [row(&[""], 1)]);
    assert_eq!(world.reading("skip").totals[0].hits, 1);
}

#[test]
fn an_empty_field_stands_in_for_no_tag() {
    let mut world = World::new(1, plan());
    world.make(
        r#"{"name": "r", "level": "timer", "keys": [{"key": "@__schema", "missing": "skip"}]}"#,
    );
    let mut without = request("/");
    without.add_timer(1, 0.5, &[("a", "b")]);
    let mut with = without.clone();
    with.schema = Some(b"https".to_vec());
    let mut tagged = request("/");
    tagged.add_timer(1, 0.5, &[("__schema", "")]);
    world.send(&[without, with, tagged]);
    assert_eq!(world.rows("r"), [row(&[""], 1), row(&["https"], 1)]);
}

#[test]
fn a_status_that_a_tag_gave_is_let_go_once() {
    let mut world = World::new(1, plan());
    world.make(r#"{"name": "r", "level": "timer", "keys": ["@__status"], "window": "5s"}"#);
    let mut tagged = request("/");
    tagged.status = Some(200);
    tagged.add_timer(1, 0.5, &[("__status", "teapot")]);
    world.send(&[tagged]);
    assert_eq!(world.rows("r"), [row(&["teapot"], 1)]);
    world.advance(10_000);
    assert!(world.rows("r").is_empty());
    assert!(world.live.pool.strings.find(b"teapot").is_some(), "the raw row still has it");
}

#[test]
fn a_key_leaves_the_other_row_with_everything_it_has() {
    let mut world = World::new(1, Plan { rows_max: 1, ..plan() });
    let by_script = "report_by_script_name";
    world.advance(0);
    world.send(&[request("/first")]);
    world.advance(30_000);
    // One key, two groups: another report tells the hosts apart.
    let mut elsewhere = request("/second");
    elsewhere.hostname = Some(b"elsewhere".to_vec());
    world.send(&[request("/second"), elsewhere]);
    assert_eq!(world.rows(by_script), [row(&["/first"], 1), row(&["OTHER"], 2)]);
    world.advance(30_000);
    assert_eq!(world.rows(by_script), [row(&["/second"], 2)]);
}

#[test]
fn expiry_of_rows_that_were_evicted_spares_the_timers_of_others() {
    let mut world = World::new(1, Plan { request_rows: 2, ..plan() });
    let mut timed = request("/");
    timed.add_timer(1, 0.5, &[("a", "b")]);
    // A full pool drops the rows of the first two ticks long before their time; the third is still
    // young.
    for _ in 0..3 {
        world.advance(20_000);
        world.send(&[timed.clone(), timed.clone()]);
    }
    world.advance(30_000);
    let pool = &world.live.pool;
    assert_eq!((pool.requests.len(), pool.timers.len()), (2, 2));
}
