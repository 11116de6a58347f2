//! Pushed bodies compared with the messages of the crate `opentelemetry-proto`.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest as Reference;
use opentelemetry_proto::tonic::common::v1::KeyValue as Attribute;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use parking_lot::RwLock;
use prost::Message as _;
use serde_json::json;

use super::body::{Bodies, Interval, Kind as PointKind};
use super::exponential::Exponential;
use super::own::Own;
use super::*;
use crate::clock::ManualClock;
use crate::input::otlp::messages::{HistogramPoint, NumberPoint};
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, RejectReason, TextLimits};
use crate::merger::test_harness::{self, Limits};
use crate::query::status::{SocketStatus, Status};
use crate::report::histogram::BucketLayout;
use crate::report::{DefinedBy, WatchSettings};
use crate::ring::{RingPlan, TempRing};
use crate::telemetry::Counters;
use crate::telemetry::reading::{Kind, Reading};

const INTERVAL: Interval = Interval { start_ms: 1_000, end_ms: 11_000 };

fn bodies(is_delta: bool) -> Bodies {
    let resource = Resource { attributes: vec![KeyValue::text("service.name", "pinbad")] };
    Bodies::new(resource, is_delta, false)
}

fn decoded(bodies: &[Body]) -> Vec<Reference> {
    let bodies = bodies.iter();
    bodies.map(|it| Reference::decode(&*it.bytes).unwrap()).collect()
}

#[test]
fn the_crate_reads_every_field() {
    let mut times = Exponential::default();
    for us in [0, 500, 1_000, 90_000] {
        times.add(&BucketLayout::LogLinear, BucketLayout::LogLinear.bucket(us), 3);
    }
    let mut bodies = bodies(false);
    let kind = PointKind::Histogram;
    let durations = bodies.metric("durations".to_owned(), "Request times", "s", kind);
    let [start, time] = [500, INTERVAL.end_ms].map(|ms| ms * 1_000_000);
    let point = HistogramPoint {
        attributes: vec![
            KeyValue::text("http.route", "/a"),
            KeyValue::number("http.response.status_code", 404),
            KeyValue::truth("otel.metric.overflow"),
        ],
        start,
        time,
        count: 12,
        sum: Some(0.75),
        zero_threshold: 0.25,
        ..times.point()
    };
    bodies.point(durations, &point);
    let sizes = "Document sizes";
    let traffic = bodies.metric("traffic".to_owned(), sizes, "By", PointKind::Sum);
    let waiting = bodies.metric("waiting".to_owned(), "Waiting", "", PointKind::Gauge);
    let point = NumberPoint { time, as_double: Some(0.0), ..NumberPoint::default() };
    bodies.point(waiting, &point);
    let point = NumberPoint { start, time, as_int: Some(0), ..NumberPoint::default() };
    bodies.point(traffic, &point);
    let bodies = bodies.end();
    assert_eq!((bodies.len(), bodies[0].points), (1, 3));
    let decoded = decoded(&bodies);
    let of = &decoded[0].resource_metrics[0];
    let service = &of.resource.as_ref().unwrap().attributes[0];
    assert_eq!(service.key, "service.name");
    let scope = of.scope_metrics[0].scope.as_ref().unwrap();
    assert_eq!((&*scope.name, &*scope.version), ("pinbad", env!("CARGO_PKG_VERSION")));
    let metrics = &of.scope_metrics[0].metrics;
    let names: Vec<_> = metrics.iter().map(|it| (&*it.name, &*it.unit)).collect();
    assert_eq!(names, [("durations", "s"), ("traffic", "By"), ("waiting", "")]);
    let Some(Data::ExponentialHistogram(histogram)) = &metrics[0].data else {
        panic!("{metrics:?}");
    };
    assert_eq!(histogram.aggregation_temporality, 2);
    let point = &histogram.data_points[0];
    let values: Vec<_> =
        point.attributes.iter().map(|it| it.value.clone().unwrap().value.unwrap()).collect();
    assert_eq!(
        values,
        [
            AnyValue::StringValue("/a".to_owned()),
            AnyValue::IntValue(404),
            AnyValue::BoolValue(true)
        ]
    );
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (500_000_000, 11_000_000_000));
    assert_eq!(
        (point.count, point.sum, point.zero_count, point.zero_threshold),
        (12, Some(0.75), 3, 0.25)
    );
    let buckets = Buckets { offset: times.offset, bucket_counts: times.counts.clone() };
    assert_eq!((point.scale, point.positive.as_ref()), (times.scale(), Some(&buckets)));
    let Some(Data::Sum(sum)) = &metrics[1].data else {
        panic!("{metrics:?}");
    };
    assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
    assert_eq!(sum.data_points[0].value, Some(Number::AsInt(0)));
    let Some(Data::Gauge(gauge)) = &metrics[2].data else {
        panic!("{metrics:?}");
    };
    assert_eq!(gauge.data_points[0].value, Some(Number::AsDouble(0.0)));
}

#[test]
fn bodies_have_2000_points_at_most_and_4_mib() {
    let mut bodies = bodies(true);
    let errors = bodies.metric("errors".to_owned(), "", "{request}", PointKind::Sum);
    bodies.metric("traffic".to_owned(), "", "By", PointKind::Sum);
    let long = "x".repeat(10_000);
    for nth in 0..4_500 {
        let attributes = vec![KeyValue::text("a", if nth < 4_000 { "" } else { &long })];
        let point = NumberPoint { attributes, ..NumberPoint::default() };
        bodies.point(errors, &point);
    }
    let bodies = bodies.end();
    let points: Vec<u64> = bodies.iter().map(|it| it.points).collect();
    assert!(
        points.starts_with(&[2_000, 2_000]) && points.iter().sum::<u64>() == 4_500,
        "{points:?}"
    );
    assert!(points.len() > 3 && bodies.iter().all(|it| it.bytes.len() <= 4 << 20), "{points:?}");
    for body in decoded(&bodies) {
        let metrics = &body.resource_metrics[0].scope_metrics[0].metrics;
        assert_eq!((metrics.len(), &*metrics[0].name), (1, "errors"));
    }
}

#[test]
fn own_counters_count_from_the_start_or_from_the_last_point() {
    let groups = |merged: u64, empty: u64| {
        let reasons = json!({"empty": empty, "v1": 0});
        let readings = vec![
            Reading::new(Kind::Counter, "requests_merged", "Merged.", merged),
            Reading::new(Kind::Counter, "invalid", "Invalid.", reasons),
            Reading::new(Kind::Gauge, "request_lag_us", "Lag.", 1_500_u64),
            Reading::new(Kind::Alias, "lost", "", 1_u64),
        ];
        vec![Group::new(Place::Top, readings)]
    };
    for (started_ms, second) in [(Some(0), 25), (None, 15)] {
        let mut own = Own::begin(&groups(100, 1), started_ms);
        let mut values = |merged, empty| {
            let mut bodies = bodies(started_ms.is_none());
            own.cut(&groups(merged, empty), &INTERVAL, &mut bodies);
            let decoded = decoded(&bodies.end());
            let metrics = decoded[0].resource_metrics[0].scope_metrics[0].metrics.clone();
            // As /metrics names them, also those that begin like metrics of rows.
            let names: Vec<&str> = metrics.iter().map(|it| &*it.name).collect();
            let expected = ["pinbad.requests_merged", "pinbad.invalid", "pinbad.request_lag"];
            assert_eq!(names, expected);
            let points = metrics.into_iter().flat_map(|it| match it.data {
                Some(Data::Sum(sum)) => sum.data_points,
                Some(Data::Gauge(gauge)) => gauge.data_points,
                other => panic!("{other:?}"),
            });
            points.map(|it| it.value.unwrap()).collect::<Vec<_>>()
        };
        let numbers = |merged, empty| {
            let [merged, empty, v1] = [merged, empty, 0].map(Number::AsInt);
            vec![merged, empty, v1, Number::AsDouble(0.0015)]
        };
        assert_eq!(values(110, 3), numbers(10, 2));
        let empty = if started_ms.is_some() { 2 } else { 0 };
        assert_eq!(values(125, 3), numbers(second, empty));
    }
}

/// Packets are received before the push begins, and counters go on from a snapshot.
#[test]
fn own_counters_count_from_before_anything_was_received() {
    let limits = Limits::SMALL;
    let reports = test_harness::with_own(&test_harness::defaults(limits.window), &[]);
    let live = Arc::new(RwLock::new(limits.live(&Hasher::new(), reports)));
    let counters = Counters::new(1);
    let (ring, ..) = TempRing::new(RingPlan::new(1024, 1 << 20, 1), &counters.sockets);
    let mut status = Status::bare(counters.clone(), ring);
    let address = "127.0.0.1:1".to_owned();
    status.sockets = vec![SocketStatus { address, gauge: None, handed_over: false }];
    let receive = || {
        let mut invalid = [0; RejectReason::COUNT];
        invalid[RejectReason::Empty as usize] = 1;
        counters.sockets[0].datagrams_received.add(5);
        counters.sockets[0].requests_invalid.add(&invalid);
        counters.merge.requests_merged.add(5);
    };
    receive();
    let before = Status::before_start(&counters, &status.sockets);
    receive();
    let mut own = Own::begin(&[status.groups(&live), before].concat(), None);
    receive();
    let mut bodies = bodies(true);
    own.cut(&status.groups(&live), &INTERVAL, &mut bodies);
    let decoded = decoded(&bodies.end());
    let metrics = &decoded[0].resource_metrics[0].scope_metrics[0].metrics;
    for (name, expected) in [
        ("pinbad.datagrams_received", 10),
        ("pinbad.socket_datagrams_received", 10),
        ("pinbad.requests_invalid", 2),
        ("pinbad.socket_requests_invalid", 2),
        ("pinbad.requests_merged", 10),
    ] {
        let metric = metrics.iter().find(|it| it.name == name).unwrap();
        let Some(Data::Sum(sum)) = &metric.data else {
            panic!("{metric:?}");
        };
        let counts = sum.data_points.iter().map(|it| match it.value {
            Some(Number::AsInt(count)) => count,
            other => panic!("{other:?}"),
        });
        assert_eq!(counts.sum::<i64>(), expected, "{name}");
    }
}

/// Points by metric and attributes: their start, time, and count or sum.
type Streams = BTreeMap<(String, BTreeSet<String>), (u64, u64, f64)>;

/// Returns the points of bodies; no stream may have two.
fn streams(bodies: Bodies) -> Streams {
    let mut streams = Streams::new();
    let bodies = decoded(&bodies.end()).into_iter().flat_map(|it| it.resource_metrics);
    for metric in bodies.flat_map(|it| it.scope_metrics).flat_map(|it| it.metrics) {
        let mut add = |attributes: &[Attribute], point| {
            let attributes = attributes.iter().map(|it| format!("{it:?}")).collect();
            let stream = (metric.name.clone(), attributes);
            let twice = streams.insert(stream.clone(), point);
            assert_eq!(twice, None, "{stream:?}");
        };
        match metric.data {
            Some(Data::ExponentialHistogram(of)) => of.data_points.iter().for_each(|it| {
                let point = (it.start_time_unix_nano, it.time_unix_nano, it.count as f64);
                add(&it.attributes, point);
            }),
            Some(Data::Sum(of)) => of.data_points.iter().for_each(|it| {
                let value = match it.value.unwrap() {
                    Number::AsInt(number) => number as f64,
                    Number::AsDouble(number) => number,
                };
                add(&it.attributes, (it.start_time_unix_nano, it.time_unix_nano, value));
            }),
            other => panic!("{other:?}"),
        }
    }
    streams
}

/// However a report is redefined within a second, no stream is in a body twice, cumulative ones do
/// not go back without a new start, and nothing is lost as a delta.
#[test]
fn streams_of_a_redefined_report_go_on() {
    let definitions = [
        r#"{"level": "request", "keys": ["script_name", "+env"]}"#,
        r#"{"level": "request", "keys": ["script_name", "+env"], "window": "30s"}"#,
        r#"{"level": "request", "keys": ["+env", "script_name"], "percentiles": [95]}"#,
        r#"{"level": "request", "keys": ["+env", "script_name"], "histogram": "hv=10:60000:2000"}"#,
        // From here on the keys are others.
        r#"{"level": "request", "keys": ["script_name"]}"#,
        r#"{"level": "packet"}"#,
        r#"{"level": "request", "keys": ["script_name", "+env"]}"#,
    ];
    for (is_delta, lag) in [(false, 1), (true, 1), (false, 2), (true, 3)] {
        let (limits, hasher) = (Limits::SMALL, Hasher::new());
        let defaults = test_harness::defaults(limits.window);
        let own = [("made", definitions[0])];
        let mut live = limits.live(&hasher, test_harness::with_own(&defaults, &own));
        let pushed = vec!["made".to_owned()];
        let (reports_max, bytes_max) = (10, 1 << 20);
        let settings = WatchSettings { pushed, reports_max, bytes_max, ..WatchSettings::default() };
        let (_, mut reader) = live.watch(settings, 0, 1_000_000);
        let mut rows = Rows::new(is_delta, 1_000_000);
        let mut decoder = Decoder::new(TextLimits::default(), hasher);
        let (mut now_ms, mut sent, mut all) = (0, 0, 0.0);
        let mut last = Streams::new();
        let mut cut_ns = 1_000_000_000_000;
        for (nth, next) in (1..).zip(definitions.iter().cycle().skip(1).take(20)) {
            for is_redefined in [false, true] {
                if is_redefined {
                    let new = Arc::new(test_harness::definition("made", next, &defaults));
                    assert!(live.reports.remove("made", &mut live.pool));
                    let mut filling = live.reports.define(new, DefinedBy::BuiltIn, &live.pool);
                    while let Some(rest) = filling {
                        filling = live.reports.fill(rest, &mut live.pool, 100);
                    }
                }
                let mut records = Vec::new();
                for (script, env) in [("/a", "x"), ("/a", "y"), ("/b", "x"), ("(other)", "(other)")]
                {
                    let mut request = model::Request::named("h", "s", script);
                    request.request_time = Some(0.25);
                    request.status = Some(500);
                    request.add_tag("env", env);
                    test_harness::decode(&mut decoder, &request, &mut records);
                    sent += 1;
                }
                live.merge(&records, now_ms);
            }
            now_ms += 1_000;
            live.advance_second(now_ms, 1_000_000 + now_ms);
            if nth % lag != 0 {
                continue;
            }
            reader.poll(|second, _| rows.take(second, |rows| second.read(&mut [rows])));
            let mut bodies = bodies(is_delta);
            rows.cut(false, &[], &mut bodies);
            for (stream, (start, time, value)) in streams(bodies) {
                assert_eq!(time, 1_000_000_000_000 + now_ms * 1_000_000);
                all += if stream.0 == "pinbad.request.duration" { value } else { 0.0 };
                let before = last.insert(stream.clone(), (start, time, value));
                if is_delta {
                    assert_eq!(start, cut_ns, "{stream:?}");
                } else if let Some(before) = before {
                    let goes_on = start == before.0 && value >= before.2;
                    assert!(goes_on || start >= before.1, "{stream:?} {before:?} {start} {value}");
                    assert!(goes_on || nth >= 4, "{stream:?} {before:?} {start} {value}");
                }
            }
            cut_ns = 1_000_000_000_000 + now_ms * 1_000_000;
            if is_delta {
                assert_eq!(all, f64::from(sent));
            } else if nth < 4 {
                let counts = last.iter().filter(|it| it.0.0 == "pinbad.request.duration");
                assert_eq!(counts.map(|it| it.1.2).sum::<f64>(), f64::from(sent));
            }
        }
    }
}

/// Whether the queue has room when the daemon stops, or not.
#[test]
fn what_the_last_interval_has_is_counted_at_the_stop() {
    let limits = Limits::SMALL;
    let live = Arc::new(RwLock::new(limits.live(&Hasher::new(), Vec::new())));
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1_000_000));
    let text = "[otlp]\nurl = 'http://127.0.0.1:1'\ntemporality = 'delta'\n";
    let config = Config::from_toml("pinbad.toml", text).unwrap();
    for waiting_bytes in [1, QUEUE_BYTES_MAX] {
        let push = Push::new(&config, &*clock).unwrap().unwrap();
        let numbers: OwnNumbers = Box::new(|| {
            vec![Group::new(Place::Top, vec![Reading::new(Kind::Gauge, "lag", "Lag.", 5_u64)])]
        });
        let mut pusher = push.pusher(&config, &clock, &live, (numbers, Vec::new()));
        let bytes = vec![0; waiting_bytes];
        pusher.queue.push_back(Arc::new(Body { signal: Signal::Metrics, bytes, points: 1 }));
        push.counters.points_waiting.set(1);
        push.counters.waiting_bytes.set(waiting_bytes as u64);
        // The server asked for patience.
        pusher.back_off.end();
        let stop = Shutdown::new();
        stop.request();
        pusher.run(&stop);
        assert_eq!(push.counters.points_given_up.get()[GivenUp::Stopped as usize], 2);
        assert_eq!(push.counters.points_waiting.get(), 0);
        assert_eq!(push.counters.waiting_bytes.get(), 0);
    }
}
