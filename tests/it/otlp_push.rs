//! Metrics and spans pushed over OTLP: what a collector gets adds up to the reports, however it
//! answers, and over a restart; slow requests come as traces.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest as Body;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Spans;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Exemplar;
use opentelemetry_proto::tonic::metrics::v1::exemplar::Value as Exemplified;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span;
use pinbad::clock::{Clock as _, ManualClock};
use prost::Message as _;
use serde_json::{Value as Json, json};

use crate::harness::{
    Collector, Here, Program, Sender, Site, Status, await_condition, await_until, clients, pinbad,
    run, run_within,
};
use crate::packets::request;

impl Collector {
    fn points(&self) -> Vec<Point> {
        let bodies = self.bodies(METRICS);
        bodies.iter().flat_map(|body| points(body)).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let bodies = self.bodies(TRACES).into_iter();
        let bodies = bodies.map(|body| Spans::decode(&*body).unwrap());
        let scopes = bodies.flat_map(|body| body.resource_spans).flat_map(|it| it.scope_spans);
        scopes.flat_map(|it| it.spans).collect()
    }
}

const METRICS: &str = "/v1/metrics http";
const TRACES: &str = "/v1/traces http";

/// A point as it came.
#[derive(Debug, Clone)]
struct Point {
    metric: String,
    /// As text, sorted by name.
    attributes: String,
    start: u64,
    time: u64,
    /// The count of a histogram, or a sum.
    value: f64,
    /// The sum of a histogram.
    sum: f64,
    /// Times of exemplars in seconds, with the last bytes of their traces.
    exemplars: BTreeMap<u8, f64>,
    scale: i32,
    is_gauge: bool,
}

fn shown(attributes: &[KeyValue]) -> String {
    let value = |it: &KeyValue| format!("{:?}", it.value.clone().unwrap().value.unwrap());
    let shown: BTreeMap<_, _> = attributes.iter().map(|it| (it.key.clone(), value(it))).collect();
    format!("{shown:?}")
}

fn exemplar(it: &Exemplar) -> (u8, f64) {
    assert_eq!(it.trace_id.len(), 16);
    assert!(it.time_unix_nano / 1_000_000_000 >= crate::harness::START_SECS);
    let Some(Exemplified::AsDouble(secs)) = it.value else {
        panic!("{it:?}");
    };
    (it.trace_id[15], secs)
}

fn points(body: &[u8]) -> Vec<Point> {
    let body = Body::decode(body).unwrap();
    let metrics = body.resource_metrics.iter().flat_map(|it| &it.scope_metrics);
    let metrics = metrics.flat_map(|it| &it.metrics);
    let points = metrics.flat_map(|metric| {
        let name = metric.name.clone();
        let (numbers, is_gauge) = match metric.data.clone().unwrap() {
            Data::ExponentialHistogram(of) => {
                let points = of.data_points.into_iter().map(|it| {
                    let positive = it.positive.unwrap();
                    let in_buckets: u64 = positive.bucket_counts.iter().sum();
                    assert_eq!(it.count, in_buckets + it.zero_count);
                    assert!(positive.bucket_counts.len() <= 160);
                    Point {
                        metric: name.clone(),
                        attributes: shown(&it.attributes),
                        start: it.start_time_unix_nano,
                        time: it.time_unix_nano,
                        value: it.count as f64,
                        sum: it.sum.unwrap(),
                        exemplars: it.exemplars.iter().map(exemplar).collect(),
                        scale: it.scale,
                        is_gauge: false,
                    }
                });
                return points.collect::<Vec<_>>();
            }
            Data::Sum(of) => {
                assert!(of.is_monotonic);
                (of.data_points, false)
            }
            Data::Gauge(of) => (of.data_points, true),
            other => panic!("{other:?}"),
        };
        let points = numbers.into_iter().map(|it| Point {
            metric: name.clone(),
            attributes: shown(&it.attributes),
            start: it.start_time_unix_nano,
            time: it.time_unix_nano,
            value: match it.value.unwrap() {
                Number::AsInt(number) => number as f64,
                Number::AsDouble(number) => number,
            },
            sum: 0.0,
            exemplars: BTreeMap::new(),
            scale: 0,
            is_gauge,
        });
        points.collect()
    });
    points.collect()
}

/// The points of a metric of a report, added up by script.
fn by_script(points: &[Point], metric: &str, of: &str) -> BTreeMap<String, (f64, f64)> {
    let mut all = BTreeMap::new();
    for point in points.iter().filter(|it| it.metric == metric && it.attributes.contains(of)) {
        let script = point.attributes.split("http.route\": \"StringValue(\\\"").nth(1);
        let script = script.map_or("", |it| it.split('\\').next().unwrap());
        let (value, sum) = all.entry(script.to_owned()).or_insert((0.0, 0.0));
        *value += point.value;
        *sum += point.sum;
    }
    all
}

fn status(site: &Site) -> Status {
    Status(site.status().0["otlp"].clone())
}

/// Ten requests of two scripts, of which some fail.
fn send_ten(sender: &mut Sender<'_>, second: u64) {
    for nth in 0..10 {
        let mut packet = request("h", "s", if nth % 3 == 0 { "/a" } else { "/b" });
        packet.request_time = Some(0.001 * (second * 37 + nth * nth + 1) as f32);
        packet.status = Some(if nth == second % 10 { 500 } else { 200 });
        sender.send(&packet.encode_to_vec());
    }
    sender.at_rest();
}

const BY_SCRIPT: &str = "report_by_script_name";

#[test]
fn deltas_join_and_add_up_to_the_reports_however_a_collector_answers() {
    let collector = Collector::start();
    let (url, gate) = (format!("otlp.url={}/", collector.url), Arc::clone(&collector.gate));
    let (here, clock) = Here::with_manual_clock(&[
        &url,
        "otlp.period=1s",
        "otlp.temporality=delta",
        "otlp.reports=[\"report_by_script_name\",\"groups\"]",
        "report=[{name='groups', comment='tag_info:group'}]",
    ]);
    let mut sender = Sender::new(&here.site);
    collector.answer(&["200 OK", "429 Slow down\r\nretry-after: 3", "503 Busy", "", "200 OK"]);
    let mut held = None;
    for second in 0..20 {
        send_ten(&mut sender, second);
        if second == 12 {
            // It takes its time from here on.
            held = Some(gate.lock().unwrap());
        }
        if second == 16 {
            held = None;
        }
        clock.advance_ms(1_000);
    }
    drop(held);
    let all_there = |points: &Vec<Point>| {
        let counts = by_script(points, "pinbad.request.duration", BY_SCRIPT);
        counts.values().map(|it| it.0).sum::<f64>() == 200.0
    };
    await_condition("all seconds are pushed", || {
        // What failed is tried again as time passes.
        clock.advance_ms(500);
        let points = collector.points();
        if all_there(&points) { Ok(()) } else { Err(points.len()) }
    });
    let failed = status(&here.site).count("attempts_failed");
    assert_eq!(failed, 3, "{:?}", status(&here.site));
    let rows = here.site.rows(BY_SCRIPT);
    let groups = here.site.rows("groups");
    send_ten(&mut sender, 7);
    let before = collector.points();
    collector.answer(&["503 Busy\r\nretry-after: 0"]);
    here.stop();
    let points = collector.points();
    // The last interval is pushed at the stop, at the second attempt.
    let last: f64 = by_script(&points[before.len()..], "pinbad.request.duration", BY_SCRIPT)
        .values()
        .map(|it| it.0)
        .sum();
    assert_eq!(last, 10.0);
    // Intervals join: none overlaps another, and none is left out.
    let sums = points.iter().filter(|it| !it.is_gauge);
    let intervals: BTreeSet<(u64, u64)> = sums.map(|it| (it.start, it.time)).collect();
    let intervals: Vec<_> = intervals.into_iter().collect();
    assert!(intervals.len() > 5, "{intervals:?}");
    for pair in intervals.windows(2) {
        assert_eq!(pair[0].1, pair[1].0, "{intervals:?}");
    }
    // Cell by cell.
    let of = |metric: &str| by_script(&before, metric, BY_SCRIPT);
    let (times, traffic) = (of("pinbad.request.duration"), of("pinbad.request.traffic"));
    assert_eq!(rows.len(), 2);
    for row in &rows {
        let script = row["script_name"].as_str().unwrap();
        let (count, sum) = times[script];
        assert_eq!(row["req_count"].as_f64().unwrap(), count, "{row}");
        assert!((row["req_time_total"].as_f64().unwrap() - sum).abs() < 1e-9, "{row} {sum}");
        assert_eq!(traffic[script].0, count * 2048.0);
    }
    let cpu: f64 = of("pinbad.request.cpu").values().map(|it| it.0).sum();
    assert!((cpu - 200.0 * 0.09375).abs() < 1e-9, "{cpu}");
    let errors: f64 = of("pinbad.request.errors").values().map(|it| it.0).sum();
    assert_eq!(errors, 20.0);
    let info = by_script(&before, "pinbad.request.duration", "\"info\\");
    assert_eq!(info[""].0, 200.0);
    let timers = before.iter().filter(|it| it.metric == "pinbad.timer.duration");
    let db = timers.filter(|it| it.attributes.contains("\"group\": \"StringValue(\\\"db\\\")\""));
    let (hits, secs) = db.fold((0.0, 0.0), |(hits, secs), it| (hits + it.value, secs + it.sum));
    let row = groups.iter().find(|row| row["tag_value"] == "db").unwrap();
    assert_eq!(row["hit_count"].as_f64().unwrap(), hits, "{row}");
    assert!((row["timer_value"].as_f64().unwrap() - secs).abs() < 1e-6, "{row} {secs}");
    let merged = points.iter().filter(|it| it.metric == "pinbad.requests_merged");
    assert_eq!(merged.map(|it| it.value).sum::<f64>(), 210.0);
}

#[test]
fn cumulative_values_never_go_back_and_begin_anew_after_a_restart() {
    let (dir, collector) = (tempfile::tempdir().unwrap(), Collector::start());
    let headers = dir.path().join("headers");
    std::fs::write(&headers, "Authorization: Bearer hunter2\n").unwrap();
    let settings = [
        format!("otlp.url={}/api/v1/otlp/v1/metrics", collector.url),
        "otlp.period=1s".to_owned(),
        format!("otlp.headers_file={}", headers.display()),
        "otlp.resource={\"deployment.environment.name\"=\"test\"}".to_owned(),
        format!("data.dir={}", dir.path().join("data").display()),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut last_time = 0;
    for round in 1..=2_u64 {
        let clock =
            Arc::new(ManualClock::new((crate::harness::START_SECS + 1_000 * round) * 1_000));
        let shared: Arc<dyn pinbad::clock::Clock> = Arc::<ManualClock>::clone(&clock);
        let here = Here::with_clock(&settings, shared);
        let started = clock.unix_ms() * 1_000_000;
        let before = collector.points().len();
        let mut sender = Sender::new(&here.site);
        for second in 0..5 {
            send_ten(&mut sender, second);
            clock.advance_ms(1_000);
        }
        let now = || {
            let points = collector.points();
            points[before..].to_vec()
        };
        let is_complete = |points: &Vec<Point>| {
            let ends = points.iter().filter(|it| it.metric == "pinbad.request.duration");
            ends.filter(|it| it.attributes.contains("info\\")).any(|it| it.value == 50.0)
        };
        await_until("all requests are told of", now, is_complete);
        here.stop();
        let mut series: BTreeMap<(String, String), Point> = BTreeMap::new();
        for point in now().into_iter().filter(|it| !it.is_gauge) {
            assert_eq!(point.start, started, "{point:?}");
            assert!(point.time > point.start && point.time > last_time);
            let key = (point.metric.clone(), point.attributes.clone());
            if let Some(before) = series.insert(key, point.clone()) {
                assert!(
                    before.time < point.time && before.value <= point.value,
                    "{before:?} {point:?}"
                );
                assert!(
                    before.sum <= point.sum && before.scale >= point.scale,
                    "{before:?} {point:?}"
                );
            }
        }
        last_time = series.values().map(|it| it.time).max().unwrap();
        let merged = &series[&("pinbad.requests_merged".to_owned(), "{}".to_owned())];
        assert_eq!(merged.value, 50.0, "those of the process before are not counted again");
    }
    let taken = collector.taken.lock().unwrap();
    for (head, _) in taken.iter() {
        assert!(head.starts_with("post /api/v1/otlp/v1/metrics http/1.1"), "{head}");
        assert!(head.contains("authorization: bearer hunter2"), "{head}");
        assert_has!(head => "content-type: application/x-protobuf");
    }
}

#[test]
fn what_is_given_up_is_counted_and_nothing_else_notices() {
    let collector = Collector::start();
    let url = format!("otlp.url={}", collector.url);
    let (here, clock) = Here::with_manual_clock(&[&url, "otlp.period=1s", "otlp.reports=[]"]);
    // A body is refused, of the next one two points are.
    collector.answer(&["400 Bad Request"]);
    let partial = b"\x0a\x09\x08\x02\x12\x05later".to_vec();
    let answers = || collector.answers.lock().unwrap();
    answers().push_back(("200 OK".to_owned(), partial));
    clock.advance_ms(1_000);
    let given_up =
        |reason: &'static str| move |it: &Status| it.reason("points_given_up", reason) > 0;
    await_until("a body is refused", || status(&here.site), given_up("refused"));
    clock.advance_ms(1_000);
    let after = await_until("points are refused", || status(&here.site), given_up("partial"));
    assert_eq!(after.reason("points_given_up", "partial"), 2);
    assert_eq!(after.0["last_problem"], "later");
    let sent = collector.points().len() as u64;
    assert_eq!(after.count("points_sent"), sent - 2, "{after:?}");
    let error = format!("{}/v1/metrics: later", collector.url);
    assert_eq!(after.0["error"], error);
    let detail = here.site.json("/readyz")["detail"].as_str().unwrap().to_owned();
    assert_eq!(detail, format!("not everything is pushed over OTLP: {error}"));
    assert_has!(here.site.get("/daemon").body => "not everything is pushed over OTLP: ");
    clock.advance_ms(1_000);
    await_until("a body is accepted", || status(&here.site), |it| it.0["error"].is_null());
    assert_eq!(here.site.json("/readyz"), json!({"status": "ready"}));
    // Then it does not answer for a long time: everything else goes on.
    let held = collector.gate.lock().unwrap();
    let mut sender = Sender::new(&here.site);
    for second in 0..5 {
        send_ten(&mut sender, second);
        clock.advance_ms(1_000);
    }
    await_until("points wait", || status(&here.site), |it| it.count("points_waiting") > 0);
    assert_eq!(here.site.json("/api/v1/info")["req_count"], 50);
    let metrics = here.site.get("/metrics").body;
    assert_has!(metrics => "pinbad_otlp_points_given_up_total{reason=\"partial\"} 2");
    here.stop();
    drop(held);
}

#[test]
fn what_is_beyond_ten_thousand_rows_is_pushed_as_other() {
    let collector = Collector::start();
    let url = format!("otlp.url={}", collector.url);
    let script = format!("otlp.reports=[\"{BY_SCRIPT}\"]");
    let (here, clock) =
        Here::with_manual_clock(&[&url, "otlp.period=1s", "otlp.gzip=true", &script]);
    here.site.send((0..10_050).map(|nth| request("h", "s", &format!("/{nth}"))));
    clock.advance_ms(1_000);
    let all_sent =
        |it: &Status| it.count("points_sent") > 50_000 && it.count("points_waiting") == 0;
    let status = await_until("all is pushed", || status(&here.site), all_sent);
    // The row of `info` has a place too.
    assert_eq!((status.count("rows"), status.count("requests_folded")), (10_000, 51));
    let (mut requests, mut other) = (0.0, Vec::new());
    for (head, body) in &*collector.taken.lock().unwrap() {
        assert!(head.contains("content-encoding: gzip"), "{head}");
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        let points = points(&plain);
        assert!(points.len() <= 2_000, "{}", points.len());
        for point in points.iter().filter(|it| it.metric == "pinbad.request.duration") {
            let is_of_script = point.attributes.contains(BY_SCRIPT);
            requests += if is_of_script { point.value } else { 0.0 };
            if point.attributes.contains("\"otel.metric.overflow\": \"BoolValue(true)\"") {
                assert!(!point.attributes.contains("http.route"), "{point:?}");
                other.push(point.value);
            }
        }
    }
    assert_eq!((requests, other), (10_050.0, vec![51.0]));
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let headers = dir.path().join("headers");
    std::fs::write(&headers, "Authorization hunter2\n").unwrap();
    let file = dir.path().join("pinbad.toml");
    for (setting, why) in cases![
        "url = \"collector:4318\"" => "not a URL; accepted: a URL";
        "period = \"500ms\"" => "too short; accepted: a duration from 1s to 10m";
        "temporality = \"both\"" => "no such choice; accepted: cumulative, delta";
        "resource = {service.name = \"x\"}" =>
            "service is not a text; a name with dots stands in quotes";
        "resource = \"x\"" => "not a table; accepted: up to 32 names with texts";
        "reports = [\"nothing\"]" => "pinbad.toml:5: otlp.reports: there is no report called \"nothing\"";
        &format!("headers_file = {headers:?}") => "headers:1: no colon; accepted: a header a line";
        "urls = \"\"" => "did you mean otlp.url?";
    ] {
        let url = if setting.starts_with("url =") { "" } else { "url = \"http://127.0.0.1:1\"\n" };
        std::fs::write(&file, format!("[data]\ndir = \"\"\n[otlp]\n{url}{setting}\n")).unwrap();
        let said = run(pinbad().arg("check").arg("--config").arg(&file));
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains(why), "{setting}: {said:?}");
        assert!(!said.err.contains("hunter2"), "{said:?}");
        let line = if url.is_empty() { 4 } else { 5 };
        let names_file = setting.starts_with("reports") || setting.starts_with("headers");
        assert!(names_file || said.err.contains(&format!("pinbad.toml:{line}")), "{said:?}");
    }
    let check = ["check", "--set", "data.dir=", "--set", "otlp.url=http://127.0.0.1:1/v1/traces"];
    let said = run(pinbad().args(check));
    let shown = "OTLP   metrics of info, report_by_script_name, report_by_status to http://127.0.0.1:1/v1/metrics every 10s";
    assert_has!(said.out => &format!("{shown}\n"), "otlp.url");
    let said = run(pinbad().args(check).args(["--set", "otlp.traces=slow"]));
    assert_has!(said.out => &format!("{shown}, traces to http://127.0.0.1:1/v1/traces\n"));
}

/// Sends a request of a script with this time in milliseconds.
fn send_one(sender: &mut Sender<'_>, script: &str, ms: u32, status: u32, tags: &[(&str, &str)]) {
    let mut packet = request("h", "s", script);
    packet.request_time = Some(ms as f32 / 1_000.0);
    packet.status = Some(status);
    tags.iter().for_each(|(name, value)| packet.add_tag(name, value));
    sender.send(&packet.encode_to_vec());
}

/// Length of a span, microseconds.
fn micros(span: &Span) -> u64 {
    (span.end_time_unix_nano - span.start_time_unix_nano) / 1_000
}

#[test]
fn slow_requests_are_pushed_as_spans() {
    let collector = Collector::start();
    let url = format!("otlp.url={}/", collector.url);
    let settings = [&url, "otlp.period=1s", "otlp.traces=slow", "otlp.reports=[]"];
    let (here, clock) = Here::with_manual_clock(&settings);
    let mut sender = Sender::new(&here.site);
    // The metrics are taken, the spans at the third attempt.
    collector.answer(&["200 OK", "503 Busy", "429 Slow down"]);
    let trace = "0123456789abcdef0123456789ABCDEF";
    let ids = [("trace_id", trace), ("span_id", "00000000000000ff"), ("http.route", "taken")];
    for ms in 1..=150 {
        let tags = if ms == 150 { &ids[..] } else { &[("trace_id", "none")] };
        send_one(&mut sender, "/a", ms * 10, if ms == 149 { 500 } else { 200 }, tags);
    }
    sender.at_rest();
    clock.advance_ms(1_000);
    let spans = await_condition("the spans are there", || {
        clock.advance_ms(500);
        let spans = collector.spans();
        if spans.is_empty() { Err(status(&here.site)) } else { Ok(spans) }
    });
    assert_eq!(spans.len(), 300, "a hundred with two timers each");
    let roots = || spans.iter().filter(|it| it.parent_span_id.is_empty());
    let times: Vec<u64> = roots().map(micros).collect();
    let expected: Vec<u64> = (51..=150).rev().map(|ms| ms * 10_000).collect();
    assert_eq!(times, expected, "the slowest first");
    let traces: BTreeSet<&Vec<u8>> = roots().map(|it| &it.trace_id).collect();
    let all: BTreeSet<&Vec<u8>> = spans.iter().map(|it| &it.span_id).collect();
    assert_eq!((traces.len(), all.len()), (100, 300));
    let ends = roots().map(|it| it.end_time_unix_nano / 1_000_000_000);
    assert!(ends.eq(std::iter::repeat_n(crate::harness::START_SECS, 100)));
    let [slowest, failed] = [0, 1].map(|nth| roots().nth(nth).unwrap());
    assert_eq!((slowest.kind, &*slowest.name), (2, "/a"));
    let attributes = shown(&slowest.attributes);
    assert_has!(attributes =>
        "\"http.route\": \"StringValue(\\\"/a\\\")\"",
        "\"pinbad.http.route\": \"StringValue(\\\"taken\\\")\"",
        "\"http.response.status_code\": \"IntValue(200)\"",
        "\"pinbad.synthetic\": \"BoolValue(true)\"",
        "\"env\": "
    );
    let link = &slowest.links[0];
    assert_eq!((link.trace_id[15], &link.span_id[6..]), (0xef, &[0, 255][..]));
    assert!(failed.links.is_empty() && slowest.status.is_none());
    assert_eq!(failed.status.as_ref().unwrap().code, 2);
    let timers: Vec<&Span> =
        spans.iter().filter(|it| it.parent_span_id == slowest.span_id).collect();
    let starts = timers.iter().map(|it| it.start_time_unix_nano - slowest.start_time_unix_nano);
    assert_eq!(starts.collect::<Vec<_>>(), [0, 250_000_000], "end to end");
    let names: Vec<_> = timers.iter().map(|it| (&*it.name, micros(it), it.kind)).collect();
    assert_eq!(names, [("db read", 250_000, 1), ("cache", 500_000, 1)]);
    let attributes = shown(&timers[0].attributes);
    assert_has!(attributes =>
        "\"group\": ", "\"pinbad.hits\": \"IntValue(2)\"", "\"pinbad.synthetic\""
    );
    assert!(timers.iter().all(|it| it.trace_id == slowest.trace_id));
    // Nothing is sent twice, and what a server refuses is counted.
    let sent = status(&here.site);
    assert_eq!((sent.count("spans_sent"), sent.count("attempts_failed")), (300, 2), "{sent:?}");
    send_one(&mut sender, "/b", 5, 200, &[]);
    sender.at_rest();
    collector.answer(&["400 Bad Request"; 50]);
    clock.advance_ms(2_000);
    let refused = |it: &Status| it.reason("spans_given_up", "refused") == 3;
    let after = await_until("one is refused", || status(&here.site), refused);
    assert_eq!((after.count("spans_sent"), after.count("spans_waiting")), (300, 0), "{after:?}");
    here.stop();
}

#[test]
fn buckets_name_a_recent_trace() {
    let collector = Collector::start();
    let url = format!("otlp.url={}", collector.url);
    let settings = [
        &url,
        "otlp.period=1s",
        "otlp.reports=[\"report_by_script_name\",\"by_env\",\"slow\"]",
        "report=[{name='by_env', level='request', keys=['+env']}, \
         {name='slow', level='request', keys=['script_name'], filters=['min_time=0.1']}]",
    ];
    let (here, clock) = Here::with_manual_clock(&settings);
    let mut sender = Sender::new(&here.site);
    for (nth, script, ms) in [(1, "/a", 100), (2, "/a", 100), (3, "/b", 100), (4, "/a", 900)] {
        send_one(&mut sender, script, ms, 200, &[("trace_id", &format!("{nth:032x}"))]);
    }
    for trace in ["5", "0000000000000000000000000000000g", ""] {
        send_one(&mut sender, "/a", 700, 200, &[("trace_id", trace)]);
    }
    sender.at_rest();
    clock.advance_ms(1_000);
    let is_there = |points: &Vec<Point>| points.iter().any(|it| it.attributes.contains("\"info\\"));
    let points = await_until("points are there", || collector.points(), is_there);
    let of = |report: &str, key: &str| {
        let is_it = |it: &&Point| {
            it.metric == "pinbad.request.duration"
                && it.attributes.contains(&format!("\"{report}\\"))
                && it.attributes.contains(key)
        };
        points.iter().find(is_it).unwrap().exemplars.clone()
    };
    // Of equal times the newest.
    assert_eq!(of("info", ""), BTreeMap::from([(3, 0.1), (4, 0.9)]));
    assert_eq!(of(BY_SCRIPT, "/a"), BTreeMap::from([(2, 0.1), (4, 0.9)]));
    assert_eq!(of(BY_SCRIPT, "/b"), BTreeMap::from([(3, 0.1)]));
    assert_eq!(of("by_env", "test"), BTreeMap::from([(3, 0.1), (4, 0.9)]));
    assert_eq!(of("slow", "/a"), BTreeMap::new(), "filters are not applied here");
    here.stop();
}

#[test]
fn the_tail_has_the_slowest_of_each_script_and_errors() {
    let collector = Collector::start();
    let url = format!("otlp.url={}/v1/metrics", collector.url);
    let settings = [&url, "otlp.period=1s", "otlp.traces=tail", "otlp.reports=[]"];
    let (here, clock) = Here::with_manual_clock(&settings);
    let mut sender = Sender::new(&here.site);
    for nth in 0..15 {
        for script in ["/a", "/b"] {
            send_one(&mut sender, script, 10 + nth, if nth == 2 { 503 } else { 200 }, &[]);
        }
    }
    sender.at_rest();
    clock.advance_ms(1_000);
    let spans = await_until("the spans are there", || collector.spans(), |it| !it.is_empty());
    let roots = spans.iter().filter(|it| it.parent_span_id.is_empty());
    let found: BTreeSet<(&str, u64)> = roots.map(|it| (&*it.name, micros(it) / 1_000)).collect();
    let expected = ["/a", "/b"].into_iter().flat_map(|script| {
        let slowest = (15..25).chain([12]);
        slowest.map(move |ms| (script, ms))
    });
    assert_eq!(found, expected.collect());
    here.stop();
}

#[test]
fn python_decodes_what_is_pushed() {
    let (dir, collector) = (tempfile::tempdir().unwrap(), Collector::start());
    let url = format!("otlp.url={}", collector.url);
    let here = Program::serve(&[
        &url,
        "otlp.period=1s",
        "otlp.traces=tail",
        "otlp.reports=[\"report_by_status\",\"report_by_hostname_and_script\"]",
    ]);
    let mut sender = Sender::new(&here.site);
    (0..20).for_each(|second| send_ten(&mut sender, second));
    let is_complete = |points: &Vec<Point>| {
        points.iter().any(|it| it.attributes.contains("info\\") && it.value == 200.0)
    };
    await_until("all is pushed", || collector.points(), is_complete);
    await_until("spans too", || collector.spans(), |it| !it.is_empty());
    let rows = ["report_by_status", "report_by_hostname_and_script"].map(|it| here.site.rows(it));
    let mut python = Command::new(clients().join("otel/bin/python"));
    python.arg(format!("{}/tests/clients/otlp_decode.py", env!("CARGO_MANIFEST_DIR")));
    for path in [METRICS, TRACES] {
        for (nth, body) in collector.bodies(path).iter().enumerate() {
            let file = dir.path().join(format!("{nth}{}", path.split(['/', ' ']).nth(2).unwrap()));
            std::fs::write(&file, body).unwrap();
            python.arg(file);
        }
    }
    let said = run_within(Duration::from_mins(2), &mut python);
    assert_eq!(said.code, Some(0), "{said:?}");
    let all: Vec<Json> = serde_json::from_str(&said.out).unwrap();
    let (spans, points): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| it["kind"] == "span");
    let root = spans.iter().find(|it| it["parent"] == "").unwrap();
    let timers: Vec<_> = spans.iter().filter(|it| it["parent"] == root["span"]).collect();
    assert_eq!((root["span_kind"].as_i64(), timers.len()), (Some(2), 2), "{root}");
    assert_eq!(
        timers[0]["attributes"],
        json!({"pinbad.hits": 2, "pinbad.synthetic": true, "group": "db", "op": "read"})
    );
    assert_eq!(root["attributes"]["host.name"], "h");
    // The last point of each row of a metric, by its attributes.
    let last = |metric: &str, attributes: Json| {
        let mut of = points.iter().rev();
        let is_it = |it: &&Json| it["metric"] == metric && it["attributes"] == attributes;
        of.find(is_it).unwrap_or_else(|| panic!("{metric} {attributes}")).clone()
    };
    let mut compared = 0;
    for (report, rows) in ["report_by_status", "report_by_hostname_and_script"].iter().zip(rows) {
        for row in rows {
            let keys = match *report {
                "report_by_status" => {
                    json!({"pinbad.report": report, "http.response.status_code": row["status"]})
                }
                _ => {
                    json!({"pinbad.report": report, "host.name": row["hostname"], "http.route": row["script_name"]})
                }
            };
            let times = last("pinbad.request.duration", keys.clone());
            assert_eq!(
                (&times["count"], &times["unit"]),
                (&row["req_count"], &json!("s")),
                "{row}"
            );
            assert_members!(times => {"kind": "exponential_histogram", "temporality": 2});
            let close =
                |a: &Json, b: &Json| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-6;
            assert!(close(&times["sum"], &row["req_time_total"]), "{row} {times}");
            let traffic = last("pinbad.request.traffic", keys.clone());
            assert_eq!(
                traffic["value"].as_f64().unwrap() / 1024.0,
                row["traffic_total"].as_f64().unwrap(),
                "{row}"
            );
            for (mode, column) in [("user", "ru_utime_total"), ("system", "ru_stime_total")] {
                let mut keys = keys.clone();
                keys["cpu.mode"] = json!(mode);
                assert!(close(&last("pinbad.request.cpu", keys)["value"], &row[column]), "{row}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}
