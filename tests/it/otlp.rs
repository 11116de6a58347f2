//! Spans over HTTP: the rules of the protocol, what PHP's instrumentation sends, and the real SDKs
//! of Python and Node.
//!
//! The latter need what `tests/run.sh` installs where it may; where it may not, it skips those
//! tests and says so at its end.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::harness::{
    Collector, Here, Program, Reply, START_SECS, Sender, Site, Status, await_until, clients,
    run_within,
};
use crate::packets::{corpus_file, packet};

const PROTOBUF: &str = "application/x-protobuf";

/// The status of the input.
fn input(site: &Site) -> Status {
    Status(site.status().0["otlp_inputs"][0].clone())
}

/// The same by where it listens.
fn at_input(site: &Site) -> Site {
    let listen = input(site).0["listen"].as_str().unwrap().to_owned();
    Site::new(Vec::new(), listen.parse().unwrap())
}

/// Each span that came is counted as what became of it.
#[track_caller]
fn assert_accounted(site: &Site) -> Status {
    let input = input(site);
    let parts =
        ["requests", "timers", "spans_merged", "spans_left_out", "spans_refused", "spans_waiting"];
    let parts: u64 = parts.iter().map(|part| input.count(part)).sum();
    assert_eq!(input.count("spans_received"), parts, "{input:?}");
    for name in ["spans_left_out", "spans_refused", "bodies_refused"] {
        let reasons = input.count(&format!("{name}_by_reason"));
        assert_eq!(input.count(name), reasons, "{input:?}");
    }
    input
}

/// Nothing waits any more, and all of it is merged.
#[track_caller]
fn at_rest(site: &Site, requests: u64) -> Status {
    await_until(
        "all spans have left",
        || site.status(),
        |status| {
            let input = Status(status.0["otlp_inputs"][0].clone());
            input.count("spans_waiting") == 0
                && input.count("requests") == requests
                && status.count("requests_merged") == requests
        },
    )
    .assert_accounted();
    assert_accounted(site)
}

fn fixture(name: &str) -> String {
    String::from_utf8(corpus_file(&format!("otlp/{name}.json"))).unwrap()
}

/// Sends a body with these headers, as it is.
fn send(site: &Site, headers: &[(&str, &str)], body: &[u8]) -> (Reply, Vec<u8>) {
    let url = format!("http://{}/v1/traces", at_input(site).http);
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let mut request = ureq::Agent::new_with_config(config.build()).post(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut answer = request.send(body).unwrap();
    let bytes = answer.body_mut().read_to_vec().unwrap();
    let header = answer.headers().get("content-type").unwrap();
    let reply = Reply {
        status: answer.status().as_u16(),
        content_type: header.to_str().unwrap().to_owned(),
        body: String::from_utf8_lossy(&bytes).into_owned(),
    };
    (reply, bytes)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

const ONE: &str = "otlp_input=[{listen='127.0.0.1:0'}]";

/// The requests with their timers, as text, by script.
fn shown(site: &Site) -> BTreeMap<String, Vec<String>> {
    let rows = site.json("/api/v1/requests?limit=1000")["rows"].clone();
    let rows = rows.as_array().unwrap().iter().map(|row| {
        let request = site.json(&format!("/api/v1/requests/{}", row["id"]));
        let text = |name: &str| request[name].as_str().unwrap_or("-").to_owned();
        let mut lines = vec![format!(
            "{} {} {} {} {} {} {}",
            text("hostname"),
            text("server_name"),
            text("schema"),
            request["status"],
            request["doc_size"],
            request["req_time"],
            request["tags"],
        )];
        let timers = request["timers"].as_array().unwrap().iter();
        lines.extend(timers.map(|timer| {
            let tags = timer["tags"].as_object().unwrap().values();
            let tags: Vec<_> = tags.map(|it| it.as_str().unwrap()).collect();
            format!("{} {} {}", timer["hit_count"], timer["value"], tags.join(" "))
        }));
        (text("script_name"), lines)
    });
    rows.collect()
}

#[test]
fn what_php_sends_becomes_requests_with_timers() {
    let (here, clock) = Here::with_manual_clock(&[ONE]);
    let names = ["laravel", "laravel-queue", "symfony", "wordpress", "pdo", "guzzle"];
    for name in names {
        let (reply, _) = send(
            &here.site,
            &[("content-type", "application/json"), ("content-encoding", "gzip")],
            &gzip(fixture(name).as_bytes()),
        );
        assert_eq!((reply.status, &*reply.body), (200, "{}"), "{name}");
    }
    // All of it is there, whatever the time is.
    let input = at_rest(&here.site, 6);
    assert_eq!(input.reason("spans_left_out_by_reason", "receive"), 2);
    // What lies inside of others and asks nobody; curl below Guzzle.
    assert_eq!(input.reason("spans_left_out_by_reason", "internal"), 4);
    assert_eq!(input.reason("spans_left_out_by_reason", "nested"), 1);
    let shown = shown(&here.site);
    let lines: Vec<String> = shown
        .into_iter()
        .map(|(script, lines)| format!("{script}: {}", lines.join("\n  ")))
        .collect();
    let expected = include_str!("../corpus/otlp/expected.txt");
    assert_eq!(lines.join("\n"), expected.trim_end());
    clock.advance_ms(1_000);
}

/// Starts of the timers of a request.
#[cfg(feature = "sql")]
fn starts(request: &Json) -> Vec<f64> {
    let timers = request["timers"].as_array().unwrap().iter();
    timers.map(|it| it["start"].as_f64().unwrap()).collect()
}

#[test]
#[cfg(feature = "sql")]
fn cpu_and_memory_of_spans_are_unknown_and_timers_know_when_they_began() {
    let dir = tempfile::tempdir().unwrap();
    let clock = std::sync::Arc::new(pinbad::clock::ManualClock::new(START_SECS * 1_000));
    let [history, state] = ["history", "state"].map(|it| dir.path().join(it));
    let settings = [ONE, &format!("state.dir={}", state.display())];
    let here = Here::with_history(&history, &clock, &settings);
    let form = [("content-type", "application/json")];
    send(&here.site, &form, fixture("laravel").as_bytes());
    at_rest(&here.site, 1);
    let mut sender = crate::harness::Sender::new(&here.site);
    for _ in 0..3 {
        sender.send(&crate::packets::packet("users/{id}", 200, 0.5));
    }
    await_until("all is merged", || here.site.status(), |it| it.count("requests_merged") == 4);
    let check = |here: &Here| {
        let columns = "columns=req_count,ru_utime_total,unmeasured_count";
        let report = format!("/api/v1/reports/report_by_script_name?percentiles=95&{columns}");
        let all = here.site.json(&report)["rows"][0].clone();
        assert_members!(all => {"req_count": 4, "unmeasured_count": 1, "ru_utime_total": 0.1875});
        // Raw rows do not make it 0.
        let rows = here.site.json("/api/v1/requests?min_time=0.05&max_time=0.1")["rows"].clone();
        let unknown = ["ru_utime", "ru_stime", "memory_footprint", "mem_peak_usage"];
        for name in unknown {
            assert!(rows[0][name].is_null(), "{name}: {rows}");
        }
        let sql = "SELECT COUNT(*), COUNT(ru_utime), COUNT(ru_stime), COUNT(memory_footprint), COUNT(mem_peak_usage), \
                   AVG(mem_peak_usage) FROM";
        let expected = json!([[4, 3, 3, 3, 3, 1024]]);
        assert_eq!(here.site.sql(&format!("{sql} request")), expected);
        assert_eq!(here.site.sql(&format!("{sql} history.request")), expected);
        let request = here.site.json(&format!("/api/v1/requests/{}", rows[0]["id"]));
        assert_eq!(starts(&request), [0.002, 0.003, 0.01, 0.045], "{request}");
        assert!(request["timers"][0]["ru_utime"].is_null(), "{request}");
        let page = here.site.get(&format!("/requests/{}", rows[0]["id"])).body;
        assert_has!(page => "Each bar stands where its span began");
        assert_lacks!(here.site.get("/requests").body => "NaN");
    };
    check(&here);
    let packet = here.site.json("/api/v1/requests?min_time=0.4")["rows"][0].clone();
    assert_members!(packet => {"ru_utime": 0.0625, "mem_peak_usage": 1024});
    let of_packet = here.site.json(&format!("/api/v1/requests/{}", packet["id"]));
    assert!(of_packet["timers"][0].get("start").is_none(), "{of_packet}");
    // Averages of the last hour, and of the past, are those of packets.
    clock.advance_ms(1_000);
    let average = |site: &Site, metric: &str, of: &str| {
        let target = format!("/api/v1/reports/report_by_script_name/series?metric={metric}{of}");
        let points = site.json(&target)["points"].clone();
        let points: Vec<f64> = points.as_array().unwrap().iter().filter_map(Json::as_f64).collect();
        points
    };
    let of = format!("&from={START_SECS}&to={}", START_SECS + 1);
    let drawn = || average(&here.site, "memory_avg", &of);
    await_until("the second is drawn", drawn, |points| *points == [4096.0]);
    assert_eq!(average(&here.site, "cpu_avg", &of), [0.09375]);
    assert_eq!(average(&here.site, "req_count", &of), [4.0]);
    // After a restart, from the snapshot and from files.
    clock.advance_ms(120_000);
    await_until(
        "a minute is on disk",
        || {
            here.site.sql(
                "SELECT SUM(unmeasured_count), SUM(req_count) FROM history.report_by_script_name",
            )
        },
        |found| *found == json!([[1, 4]]),
    );
    here.stop();
    let here = Here::with_history(&history, &clock, &settings);
    check(&here);
    let found = here.site.sql("SELECT request_id IS NOT NULL, start, ru_utime IS NULL FROM history.timer WHERE start > 0.04");
    let [known, start, is_null] = [&found[0][0], &found[0][1], &found[0][2]];
    assert_eq!((known, is_null), (&json!(1), &json!(1)), "{found}");
    assert!((start.as_f64().unwrap() - 0.045).abs() < 1e-6, "{found}");
    let of = format!("&from={}&to={}", START_SECS - 60, START_SECS + 60);
    assert_eq!(average(&here.site, "memory_avg", &of), [4096.0]);
    // Averages of spans alone are not known at all.
    let (here, clock) = Here::with_manual_clock(&[ONE]);
    send(&here.site, &form, fixture("laravel").as_bytes());
    at_rest(&here.site, 1);
    clock.advance_ms(1_000);
    let of = format!("&from={START_SECS}&to={}", START_SECS + 1);
    let drawn = || average(&here.site, "req_count", &of);
    await_until("the second is drawn", drawn, |points| *points == [1.0]);
    for metric in ["cpu_avg", "cpu_per_sec"] {
        assert_eq!(average(&here.site, metric, &of), [0.0; 0]);
    }
}

#[test]
fn what_is_not_taken_is_answered_in_the_form_of_the_body() {
    let (here, _clock) = Here::with_manual_clock(&[ONE]);
    let direct = at_input(&here.site);
    for path in ["/v1/metrics", "/v1/logs"] {
        let reply = direct.post(path, "{}");
        assert_eq!((reply.status, &*reply.content_type), (404, "application/json"));
        assert_has!(reply.body => "OTEL_METRICS_EXPORTER=none");
        assert_eq!(reply.any_json()["code"], 12);
    }
    assert_eq!(direct.post("/", "{}").status, 404);
    assert_eq!(direct.ask("OPTIONS", "/v1/traces", None).status, 405);
    let by_hand = direct.get("/v1/traces");
    assert_eq!((by_hand.status, &*by_hand.content_type), (405, "application/json"));
    let form = ("content-type", "application/json");
    let deep = format!("{{\"a\": {}", "[".repeat(1_000));
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 100_000);
    for (headers, body, status) in cases![
        &[("content-type", "text/plain")][..] => &b"{}"[..], 415;
        &[form, ("content-encoding", "br")] => b"{}", 415;
        &[form, ("content-encoding", "GZIP")] => &gzip(b"{}"), 200;
        &[form, ("content-encoding", "x-gzip")] => &gzip(b"{}"), 200;
        &[form, ("origin", "http://evil.example")] => b"{}", 403;
        &[("content-type", PROTOBUF), ("origin", "null")] => b"", 403;
        &[form, ("content-encoding", "gzip")] => b"{}", 400;
        &[form, ("content-encoding", "gzip")] => &bomb, 413;
        &[form] => b"{", 400;
        &[form] => deep.as_bytes(), 400;
        &[("content-type", PROTOBUF)] => b"\x0a", 400;
        &[form] => b"{}", 200;
        &[("content-type", PROTOBUF)] => b"", 200;
        &[("content-type", "application/json; charset=utf-8")] => b"{}", 200;
    ] {
        let (reply, _) = send(&here.site, headers, body);
        assert_eq!(reply.status, status, "{headers:?} {reply:?}");
        let is_json = headers[0].1.starts_with("application/json");
        let expected = if is_json { "application/json" } else { PROTOBUF };
        assert_eq!(reply.content_type, expected);
        if is_json && status != 200 {
            let message = reply.any_json()["message"].as_str().unwrap().to_owned();
            assert!(body != b"{" || message.contains("line 1 column 1"), "{reply:?}");
        }
    }
    // It need not be sent.
    let mut stream = TcpStream::connect(direct.http).unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 4194305\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = [0; 12];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 413");
    let input = assert_accounted(&here.site);
    for (reason, count) in [
        ("not_traces", 3),
        ("method", 2),
        ("media_type", 2),
        ("cross_origin", 2),
        ("bad_gzip", 1),
        ("too_large", 2),
        ("bad_json", 2),
        ("bad_protobuf", 1),
        ("unauthorized", 0),
    ] {
        let counted = input.reason("bodies_refused_by_reason", reason);
        assert_eq!(counted, count, "{reason}");
    }
    assert_eq!(input.count("bodies_received"), 20);
    let metrics = here.site.get("/metrics").body;
    let refused = format!(
        "pinbad_otlp_input_bodies_refused_total{{otlp_input=\"0\",listen=\"{}\"",
        direct.http
    );
    assert_has!(metrics => &format!("{refused},reason=\"cross_origin\"}} 2\n"));
}

#[test]
fn the_first_body_refused_for_a_reason_is_in_the_log() {
    let mut here = Program::serve(&[ONE]);
    let direct = at_input(&here.site);
    for path in ["/", "/v1/metrics", "/x"] {
        assert_eq!(direct.post(path, "{}").status, 404);
    }
    for _ in 0..2 {
        assert_eq!(send(&here.site, &[("content-type", "text/plain")], b"{}").0.status, 415);
    }
    here.signal("TERM");
    here.wait();
    let log = here.log();
    let is_ours = |it: &str| it.starts_with("Refused a body");
    let refused = |line: &&Json| line["message"].as_str().is_some_and(is_ours);
    let refused: Vec<_> = log.iter().filter(refused).collect();
    let reasons: Vec<_> = refused.iter().map(|line| &line["reason"]).collect();
    assert_eq!(reasons, ["not_traces", "media_type"], "{log:?}");
    assert_has!(refused[0]["problem"].as_str().unwrap() => "accepted: /v1/traces");
}

#[test]
fn slow_senders_of_large_bodies_do_not_hold_up_small_ones() {
    let (here, _clock) = Here::with_manual_clock(&[ONE]);
    let direct = at_input(&here.site);
    let slow = [(); 4].map(|()| {
        let mut stream = TcpStream::connect(direct.http).unwrap();
        let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 4194304\r\n\r\n{";
        stream.write_all(head.as_bytes()).unwrap();
        stream
    });
    await_until("all are seen", || input(&here.site), |it| it.count("bodies_received") == 4);
    let (reply, _) = send(&here.site, &[("content-type", "application/json")], b"{}");
    assert_eq!(reply.status, 200);
    // They have not been given up meanwhile.
    for mut stream in slow {
        stream.set_nonblocking(true).unwrap();
        let waits = stream.read(&mut [0]).unwrap_err();
        assert_eq!(waits.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[test]
fn what_is_refused_of_a_body_is_said_with_its_reasons() {
    let (here, clock) = Here::with_manual_clock(&[ONE]);
    let mut body: Json = serde_json::from_str(&fixture("pdo")).unwrap();
    let spans = &mut body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    spans[0]["traceId"] = json!("00");
    spans[1]["startTimeUnixNano"] = json!("0");
    let (reply, _) =
        send(&here.site, &[("content-type", "application/json")], body.to_string().as_bytes());
    assert_eq!(reply.status, 200);
    let partial = &reply.any_json()["partialSuccess"];
    assert_eq!(partial["rejectedSpans"], "2");
    assert_eq!(partial["errorMessage"], "spans refused, by reason: trace_id 1, time 1");
    // A span of protobuf with an id of three bytes: resource spans, scope spans, span, trace id.
    let span = b"\x0a\x09\x12\x07\x12\x05\x0a\x03abc";
    let (reply, bytes) = send(&here.site, &[("content-type", PROTOBUF)], span);
    assert_eq!(reply.status, 200);
    assert!(bytes.starts_with(b"\x0a") && reply.body.contains("trace_id 1"), "{reply:?}");
    let input = at_rest(&here.site, 1);
    assert_eq!(input.count("spans_refused"), 3);
    // The fixtures are two seconds old; an hour later they are too old.
    clock.advance_ms(3_700_000);
    let (reply, _) =
        send(&here.site, &[("content-type", "application/json")], fixture("guzzle").as_bytes());
    assert!(reply.body.contains("too_old 4"), "{reply:?}");
}

#[test]
fn others_wait_six_seconds_and_what_waits_at_the_stop_is_counted() {
    let (here, clock) = Here::with_manual_clock(&[ONE]);
    let python = fixture("laravel").replace("\"php\"", "\"python\"");
    let form = [("content-type", "application/json")];
    assert_eq!(send(&here.site, &form, python.as_bytes()).0.status, 200);
    assert_eq!(input(&here.site).count("spans_waiting"), 6);
    clock.advance_ms(5_900);
    assert_eq!(send(&here.site, &form, python.as_bytes()).0.status, 200);
    // What came twice waits too, until its trace is looked at.
    assert_eq!(assert_accounted(&here.site).count("spans_waiting"), 12);
    clock.advance_ms(200);
    let input = at_rest(&here.site, 1);
    assert_eq!(input.reason("spans_left_out_by_reason", "duplicate"), 6);
    assert_eq!(START_SECS, 1_700_000_000, "the fixtures are of then");
}

#[test]
fn who_sends_logs_in_where_there_are_users() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "correct horse").unwrap();
    let settings = [
        "otlp_input=[{listen='127.0.0.1:0', name='web', attributes=['url.scheme'], internal=true}]",
        &format!("user=[{{name='php',role='read',password_file={file:?}}}]"),
    ];
    let (here, _clock) = Here::with_manual_clock(&settings);
    here.site.log_in("Basic cGhwOmNvcnJlY3QgaG9yc2U=");
    let form = ("content-type", "application/json");
    let body = fixture("wordpress");
    let (reply, _) = send(&here.site, &[form], body.as_bytes());
    assert_eq!((reply.status, &reply.any_json()["code"]), (401, &json!(16)));
    let (reply, _) = send(&here.site, &[form, ("authorization", "Basic cGhwOng=")], b"{}");
    assert_eq!(reply.status, 401);
    let login = ("authorization", "Basic cGhwOmNvcnJlY3QgaG9yc2U=");
    assert_eq!(send(&here.site, &[form, login], body.as_bytes()).0.status, 200);
    let input = at_rest(&here.site, 1);
    assert_eq!(input.reason("bodies_refused_by_reason", "unauthorized"), 2);
    let row = here.site.json("/api/v1/requests")["rows"][0].clone();
    assert_eq!(row["hostname"], "web");
    assert_has!(row["tags"].as_str().unwrap() => "url.scheme=http");
    let timers = here.site.json(&format!("/api/v1/requests/{}", row["id"]))["timers"].clone();
    assert_eq!(timers.as_array().unwrap().len(), 4, "internal ones too");
}

/// They would be requests that are pushed again, with every round more of them.
#[test]
fn spans_that_were_pushed_are_refused_when_a_collector_sends_them_back() {
    let collector = Collector::start();
    let url = format!("otlp.url={}", collector.url);
    let (here, clock) = Here::with_manual_clock(&[ONE, &url, "otlp.period=1s", "otlp.traces=slow"]);
    let mut sender = Sender::new(&here.site);
    sender.send(&packet("/a", 200, 0.5));
    sender.at_rest();
    clock.advance_ms(1_000);
    let pushed = || collector.bodies("/v1/traces http").pop();
    let pushed = await_until("spans are pushed", pushed, Option::is_some).unwrap();
    let (reply, _) = send(&here.site, &[("content-type", PROTOBUF)], &pushed);
    assert_eq!(reply.status, 200);
    assert_has!(reply.body => "spans refused, by reason: own_span 3");
    let input = assert_accounted(&here.site);
    assert_eq!(input.reason("spans_refused_by_reason", "own_span"), 3);
    assert_eq!(input.count("spans_received"), 3);
    here.stop();
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    for (entry, why) in cases![
        "{name='x'}" => "no listen";
        "{listen='0.0.0.0:4318'}" => "not a loopback address";
        "{listen='127.0.0.1:4318', tls_cert='/x'}" => "tls_key is missing";
        "{listen='127.0.0.1:4318', attributes=['a', 'a']}" => "the same twice";
        "{listen='127.0.0.1:4318', listn=''}" => "did you mean otlp_input.listen?";
        "{listen='127.0.0.1:4318'}, {listen='127.0.0.1:4318'}" => "take the same port";
    ] {
        let mut check = crate::harness::pinbad();
        let said = crate::harness::run(
            check.args(["check", "--set"]).arg(format!("otlp_input=[{entry}]")),
        );
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains(why), "{said:?}");
    }
    let mut check = crate::harness::pinbad();
    let listen = "otlp_input=[{listen='127.0.0.1:4318'}]";
    let said = crate::harness::run(check.args(["check", "--set", "data.dir=", "--set", listen]));
    assert_has!(said.out => "spans  127.0.0.1:4318", "([[otlp_input]])");
}

/// Runs a program whose spans go to this input, in the names of the semantic conventions of
/// `opt_in`.
#[track_caller]
fn run_instrumented(site: &Site, command: &mut Command, opt_in: &str) {
    let endpoint = format!("http://{}", at_input(site).http);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        .env("OTEL_TRACES_EXPORTER", "otlp")
        .env("OTEL_METRICS_EXPORTER", "none")
        .env("OTEL_LOGS_EXPORTER", "none")
        .env("OTEL_SERVICE_NAME", "shop")
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
        .env("OTEL_SEMCONV_STABILITY_OPT_IN", opt_in);
    let said = run_within(Duration::from_mins(5), command);
    assert!(said.code == Some(0) && said.out.ends_with("ok\n"), "{command:?} {said:?}");
}

#[test]
fn python_flask_and_sqlite() {
    for opt_in in ["", "http,database", "http/dup,database/dup"] {
        let here = Program::serve(&[ONE]);
        let bin = clients().join("otel/bin");
        let mut python = Command::new(bin.join("opentelemetry-instrument"));
        python
            .args(["--traces_exporter", "otlp_proto_http"])
            .arg(bin.join("python"))
            .arg(format!("{}/tests/clients/otel_flask.py", env!("CARGO_MANIFEST_DIR")))
            .arg("20");
        run_instrumented(&here.site, &mut python, opt_in);
        let input = at_rest(&here.site, 21);
        assert_eq!((input.count("timers"), input.count("spans_left_out")), (60, 0), "{input:?}");
        let rows = here.site.rows("report_by_script_name");
        let row =
            |script: &str| rows.iter().find(|row| row["script_name"] == script).unwrap().clone();
        assert_eq!(row("/items/<int:item>")["req_count"], 20, "{rows:?}");
        assert_eq!(row("/broken")["req_count"], 1, "{rows:?}");
        let broken = here.site.json("/api/v1/requests?status=500")["rows"][0].clone();
        let tags = broken["tags"].as_str().unwrap();
        assert_has!(tags => "exception.type=ValueError", "service.name=shop"; "{broken}");
        let tags = here.site.sql(
            "SELECT t.name, v.value, COUNT(*) FROM timertag v JOIN tag t ON t.id = v.tag_id WHERE t.name <> 'server' \
             GROUP BY 1, 2 ORDER BY 1, 2",
        );
        let operation = |name: &str| json!(["operation", name, 20]);
        let expected = ["CREATE", "INSERT", "SELECT"].map(operation);
        let expected = [&[json!(["group", "sqlite", 60])][..], &expected].concat();
        assert_eq!(tags, json!(expected), "{opt_in}");
    }
}

#[test]
fn node_express() {
    for opt_in in ["", "http"] {
        let here = Program::serve(&[ONE]);
        let modules = clients().join("otel-node/node_modules");
        let mut node = Command::new("node");
        node.args(["--require", "@opentelemetry/auto-instrumentations-node/register"])
            .arg(format!("{}/tests/clients/otel_express.js", env!("CARGO_MANIFEST_DIR")))
            .arg("20")
            .current_dir(&modules)
            .env("NODE_PATH", &modules)
            .env("OTEL_NODE_RESOURCE_DETECTORS", "env,host,process")
            // Connections have spans without a parent.
            .env("OTEL_NODE_DISABLED_INSTRUMENTATIONS", "net,dns");
        run_instrumented(&here.site, &mut node, opt_in);
        let input = at_rest(&here.site, 40);
        let rows = here.site.rows("report_by_script_name");
        let row =
            |script: &str| rows.iter().find(|row| row["script_name"] == script).unwrap().clone();
        assert_eq!(row("/items/:item")["req_count"], 20, "{rows:?}");
        assert_eq!(row("/stock")["req_count"], 20, "{rows:?}");
        // What the first asked the second; what it was asked by is a root that asks.
        assert_eq!(input.count("timers"), 20, "{input:?}");
        assert_eq!(input.reason("spans_left_out_by_reason", "client_root"), 20, "{input:?}");
    }
}
