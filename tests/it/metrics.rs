//! `/metrics`: what it counts is what was sent, and only grows; `promtool` finds nothing to say
//! about it; and a real Prometheus that scrapes it under load comes to the rate that was sent.
//! `prometheus` (with `promtool`) comes from Debian; without it these tests fail, so that nobody
//! leaves them out unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prost::Message as _;
use serde_json::Value as Json;

use crate::harness::{
    Here, Program, Running, Sender, Site, await_condition, await_until, free_address, pinbad, run,
};
use crate::packets::{packet, request};

/// Samples by name and labels.
type Samples = BTreeMap<String, f64>;

fn samples(site: &Site) -> Samples {
    let reply = site.get("/metrics");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.content_type, "text/plain; version=0.0.4; charset=utf-8");
    let lines = reply.body.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// The samples once the row `sample` has counted so much.
fn samples_when(site: &Site, sample: &str, count: f64) -> Samples {
    await_until(
        "the metrics have counted",
        || samples(site),
        |samples| samples.get(sample) == Some(&count),
    )
}

const COUNT: &str = "pinbad_request_duration_seconds_count";

#[test]
fn rows_are_counters_and_histograms_that_only_grow() {
    let (here, clock) = Here::with_manual_clock(&[
        r#"report=[{name = "groups", comment = "tag_info:group"}]"#,
        r#"metrics.reports=["report_by_script_name", "*"]"#,
        "metrics.buckets=[100ms,250ms,1s]",
        "pool.stats_history=5s",
    ]);
    let site = &here.site;
    let hostile = "/\"a\"\\\n=#";
    let mut sender = Sender::new(site);
    // Bounds are the ends of their buckets: 0.100352, 0.251904 and 1.007616.
    for time in [0.05, 0.1, 0.100_002, 0.25, 7.0] {
        sender.send(&packet("/a", 200, time));
    }
    sender.send(&packet(hostile, 503, 0.5));
    sender.at_rest();
    clock.advance_ms(1500);
    let all = format!("{COUNT}{{report=\"info\"}}");
    let first = samples_when(site, &all, 6.0);
    let of = |name: &str, labels: &str| {
        let name = format!("{name}{{{labels}}}");
        *first.get(&name).unwrap_or_else(|| panic!("{name} in {first:#?}"))
    };
    let a = "report=\"report_by_script_name\",script_name=\"/a\"";
    assert_eq!(of(COUNT, a), 5.0);
    for (le, count) in [("0.1", 3.0), ("0.25", 4.0), ("1.0", 4.0), ("+Inf", 5.0)] {
        let bucket = "pinbad_request_duration_seconds_bucket";
        assert_eq!(of(bucket, &format!("le=\"{le}\",{a}")), count, "{le}");
    }
    let sum = of("pinbad_request_duration_seconds_sum", a);
    assert!((sum - 7.500_002).abs() < 1e-5, "{sum}");
    assert_eq!(of("pinbad_request_errors_total", a), 0.0);
    assert_eq!(of("pinbad_request_traffic_bytes_total", a), 5.0 * 2048.0);
    let user = of("pinbad_request_cpu_seconds_total", &format!("{a},mode=\"user\""));
    assert_eq!(user, 5.0 * 0.0625);
    let escaped = "report=\"report_by_script_name\",script_name=\"/\\\"a\\\"\\\\\\n=#\"";
    assert_eq!(of("pinbad_request_errors_total", escaped), 1.0);
    // Timers: two hits of db a request, an eighth of a second each.
    let db: Vec<&String> = first.keys().filter(|name| name.contains("=\"db\"")).collect();
    let count = db.iter().find(|name| name.starts_with("pinbad_timer_duration_seconds_count"));
    assert_eq!(first[*count.unwrap()], 12.0, "{db:?}");
    let below = db.iter().find(|name| name.contains("le=\"0.25\"")).unwrap();
    assert_eq!(first[*below], 12.0);

    // The window passes, the pool is emptied: rows leave the report, not the counters.
    sender.send(&packet("/a", 200, 0.3));
    sender.at_rest();
    // Within its five seconds; a clock that leaps would take the row away before anyone has seen
    // it.
    clock.advance_ms(1_500);
    samples_when(site, &all, 7.0);
    clock.advance_ms(20_000);
    let second = samples_when(site, &all, 7.0);
    await_until(
        "the report is empty",
        || site.rows("report_by_script_name"),
        |rows| rows.is_empty(),
    );
    assert_eq!(site.post("/api/v1/reset", "{}").status, 200);
    clock.advance_ms(2_000);
    let third = samples(site);
    for (before, after) in [(&first, &second), (&second, &third)] {
        let counters = before.iter().filter(|(name, _)| {
            name.contains("_total") || name.contains("_bucket") || name.contains("_count")
        });
        for (name, value) in counters {
            assert!(after[name] >= *value, "{name}: {value}, then {:?}", after.get(name));
        }
    }
    here.stop();
}

#[test]
fn what_finds_no_room_is_counted_as_other() {
    let (here, clock) = Here::with_manual_clock(&[
        "metrics.reports=report_by_script_name",
        // 8 series a row: two for info and the two (other), nine for scripts.
        "metrics.buckets=[1s]",
        "metrics.series_max=100",
    ]);
    let mut sender = Sender::new(&here.site);
    let mut send = |scripts: std::ops::Range<u32>| {
        for n in scripts {
            // The later ones weigh more.
            let time = 0.001 * (n + 1) as f32;
            sender.send(&packet(&format!("/{n}"), 200, time));
        }
        sender.at_rest();
        clock.advance_ms(1500);
    };
    send(0..50);
    let all = format!("{COUNT}{{report=\"info\"}}");
    let other = format!("{COUNT}{{report=\"report_by_script_name\",script_name=\"(other)\"}}");
    let first = samples_when(&here.site, &all, 50.0);
    send(0..50);
    let second = samples_when(&here.site, &all, 100.0);
    let own = |samples: &Samples| -> BTreeSet<String> {
        let rows = samples.keys().filter(|name| {
            name.starts_with(COUNT) && name.contains("script_name=") && **name != other
        });
        rows.cloned().collect()
    };
    let shown = own(&first);
    assert_eq!(shown, own(&second), "who is shown stays, and nobody else comes");
    assert!((5..=11).contains(&shown.len()), "{shown:?}");
    let heaviest = format!("{COUNT}{{report=\"report_by_script_name\",script_name=\"/49\"}}");
    assert!(shown.contains(&heaviest), "{shown:?}");
    for (samples, sent) in [(&first, 50.0), (&second, 100.0)] {
        let sum: f64 = shown.iter().map(|name| samples[name]).sum::<f64>() + samples[&other];
        assert_eq!(sum, sent);
    }
    let folded = second["pinbad_metrics_requests_folded_total"];
    assert_eq!(folded, second[&other]);
    assert!(second["pinbad_metrics_series"] <= 100.0);
    here.stop();
}

/// Everything that the status counts, in both formats.
#[test]
fn the_daemons_own_numbers_are_all_there() {
    let here = Here::start(&[
        r#"rewrite=[{field = "script_name", cut = "?"}]"#,
        "ingest.listen=127.0.0.1:0,127.0.0.1:0",
    ]);
    let site = &here.site;
    let mut sender = Sender::new(site);
    sender.send(&packet("/a?b", 200, 0.1));
    sender.send(b"nonsense");
    sender.at_rest();
    let status = site.json("/api/v1/status");
    let samples = samples(site);
    let legacy = [
        "current_temp_pool_size",
        "current_timer_pool_size",
        "lost_tmp_records",
        "invalid_packets",
        "invalid_request_data",
        "requests_invalid",
        "lost",
    ];
    let mut numbers = 0;
    let mut look = |path: &str, value: &Json| {
        if legacy.contains(&path) || !value.is_number() {
            return;
        }
        numbers += 1;
        let bare = path.trim_end_matches("_by_reason");
        let seconds = bare.strip_suffix("_us").map(|it| format!("{it}_seconds"));
        let bare = seconds.as_deref().unwrap_or(bare);
        let word = match bare {
            "dictionary_size" => "words",
            "ring_depth" => "temp_pool_requests",
            "received_bytes" => "received_bytes_total",
            "report_memory_bytes_max" => "report_memory_max_bytes",
            "series_memory_bytes_max" => "series_memory_max_bytes",
            other => other,
        };
        let name = format!("pinbad_{word}");
        let there = samples.keys().any(|sample| sample.starts_with(&name));
        assert!(there, "{path}: no {name}");
    };
    for (key, value) in status.as_object().unwrap() {
        match value {
            Json::Object(inner) if ["series", "metrics"].contains(&key.as_str()) => {
                for (name, value) in inner {
                    look(&format!("{key}_{name}"), value);
                }
            }
            Json::Object(reasons) => look(key, reasons.values().next().unwrap()),
            value => look(key, value),
        }
    }
    assert!(numbers > 30, "{numbers}");
    assert_eq!(
        samples["pinbad_datagrams_invalid_total{reason=\"truncated\"}"]
            + samples["pinbad_datagrams_invalid_total{reason=\"bad_key\"}"]
            + samples["pinbad_datagrams_invalid_total{reason=\"wrong_wire_type\"}"]
            + samples["pinbad_datagrams_invalid_total{reason=\"bad_varint\"}"]
            + samples["pinbad_datagrams_invalid_total{reason=\"bad_group\"}"],
        1.0
    );
    for (socket, address) in site.udp.iter().enumerate() {
        let labels = format!("{{socket=\"{socket}\",address=\"{address}\"}}");
        let count = samples[&format!("pinbad_socket_datagrams_received_total{labels}")];
        assert_eq!(count, if socket == 0 { 2.0 } else { 0.0 });
    }
    assert_eq!(
        samples["pinbad_rewrite_matched_total{rule=\"0\",field=\"script_name\",pattern=\"?\"}"],
        1.0
    );
    assert!(samples["process_resident_memory_bytes"] > 1e6);
    here.stop();
}

#[test]
fn promtool_finds_nothing_to_say() {
    let program = Program::serve(&[
        r#"report=[{name = "groups", comment = "tag2_info:group,server"}]"#,
        r#"metrics.reports=["report_by_script_name", "report_by_status", "*"]"#,
    ]);
    let sent = load(&program.site, &["--count", "2000", "--timers", "2"]);
    let requests = sent["totals"]["requests"].as_f64().unwrap();
    let all = format!("{COUNT}{{report=\"info\"}}");
    samples_when(&program.site, &all, requests);
    let text = program.site.get("/metrics").body;
    assert!(text.lines().count() > 1000);
    promtool(&["check", "metrics"], Some(&text));

    // The same in OpenMetrics, for whom that is better.
    let url = format!("http://{}/metrics", program.site.http);
    let mut open = ureq::get(url)
        .header("accept", "application/openmetrics-text; version=1.0.0, */*;q=0.1")
        .call()
        .unwrap();
    let content_type = open.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(content_type.starts_with("application/openmetrics-text; version=1.0.0"));
    let open = open.body_mut().read_to_string().unwrap();
    assert!(open.ends_with("# EOF\n"));
    assert!(open.contains("# TYPE pinbad_requests_merged counter\n"));
    assert!(open.contains("# UNIT pinbad_request_duration_seconds seconds\n"));
}

/// Buckets of request times have the newest traced request as an exemplar, in OpenMetrics alone.
#[test]
fn buckets_have_exemplars_of_traced_requests() {
    let settings = ["metrics.buckets=[\"100ms\", \"1s\"]"];
    let (here, clock) = Here::with_manual_clock(&settings);
    let mut sender = Sender::new(&here.site);
    let ids: Vec<String> = (1..=3).map(|nth| format!("{nth:032x}")).collect();
    for (script, secs, id) in [
        ("/a", 0.05, ids[0].as_str()),
        ("/a", 0.08, &ids[1]),
        ("/a", 2.0, "no trace"),
        ("/b", 0.5, &ids[2]),
    ] {
        let mut packet = request("h", "s", script);
        packet.request_time = Some(secs);
        packet.add_tag("trace_id", id);
        sender.send(&packet.encode_to_vec());
        sender.at_rest();
    }
    let scrape = |accept: &str| {
        let url = format!("http://{}/metrics", here.site.http);
        let answer = ureq::get(url).header("accept", accept).call();
        answer.unwrap().body_mut().read_to_string().unwrap()
    };
    let open = await_until(
        "all are counted",
        || {
            clock.advance_ms(1_000);
            scrape("application/openmetrics-text")
        },
        |it| it.contains("pinbad_request_duration_seconds_count{report=\"info\"} 4\n"),
    );
    let exemplar = |report: &str, le: &str| {
        let of = format!("{{le=\"{le}\",{report}}} ");
        let line = open.lines().find(|it| it.contains(&of));
        let line = line.unwrap_or_else(|| panic!("{of}: {open}"));
        let found = line.split_once(" # {trace_id=\"")?.1.split_once("\"} ")?;
        let (secs, time) = found.1.split_once(' ').unwrap();
        assert!(time.parse::<f64>().unwrap() > 1e9, "{line}");
        Some((found.0.to_owned(), secs.parse::<f64>().unwrap()))
    };
    let info = "report=\"info\"";
    assert_eq!(exemplar(info, "0.1"), Some((ids[1].clone(), 0.08)));
    assert_eq!(exemplar(info, "1.0"), Some((ids[2].clone(), 0.5)));
    assert_eq!(exemplar(info, "+Inf"), None);
    let script = |name| format!("report=\"report_by_script_name\",script_name=\"{name}\"");
    assert_eq!(exemplar(&script("/b"), "0.1"), None);
    assert_eq!(exemplar(&script("/b"), "1.0"), Some((ids[2].clone(), 0.5)));
    assert!(!scrape("text/plain").contains("trace_id"));
}

/// The rules and dashboards that ship with pinbad are well formed and refer only to metrics that
/// exist.
#[test]
fn rules_and_dashboards_ask_for_what_there_is() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let rules = config.join("prometheus/pinbad.rules.yml");
    promtool(&["check", "rules", rules.to_str().unwrap()], None);
    let scrape = config.join("prometheus/prometheus.yml");
    promtool(&["check", "config", scrape.to_str().unwrap()], None);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/metrics/rules.yml");
    promtool(&["test", "rules", tests.to_str().unwrap()], None);

    let state = tempfile::tempdir().unwrap();
    let history = tempfile::tempdir().unwrap();
    let dirs = [("state", &state), ("history", &history)];
    let [state, history] = dirs.map(|(of, dir)| format!("{of}.dir={}", dir.path().display()));
    // History needs what SQL does. Nobody is at that port.
    let sql = cfg!(feature = "sql");
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let place = tempfile::tempdir().unwrap();
    let [cert, key] =
        [("cert", params.self_signed(&key).unwrap().pem()), ("key", key.serialize_pem())].map(
            |(name, pem)| {
                let file = place.path().join(name);
                std::fs::write(&file, pem).unwrap();
                format!("mysql.tls_{name}={}", file.display())
            },
        );
    let settings = [
        &*state,
        &*history,
        "clickhouse.url=http://127.0.0.1:1",
        "mysql.listen=127.0.0.1:0",
        &cert,
        &key,
    ];
    let here = Here::start(&settings[..if sql { 6 } else { 1 }]);
    here.site.send([packet("/a", 200, 0.1)]);
    let all = format!("{COUNT}{{report=\"info\"}}");
    let there = samples_when(&here.site, &all, 1.0);
    let there: BTreeSet<&str> = there.keys().map(|name| name.split('{').next().unwrap()).collect();
    let dashboard = std::fs::read_to_string(config.join("grafana/pinbad-prometheus.json")).unwrap();
    let rules = std::fs::read_to_string(&rules).unwrap();
    let board: Json = serde_json::from_str(&dashboard).unwrap();
    let mut asked = 0;
    for text in [&dashboard, &rules] {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("pinbad_") || word.starts_with("process_"))
        {
            let of_sql = ["pinbad_history", "pinbad_clickhouse", "pinbad_certificate"];
            let is_there =
                there.contains(name) || !sql && of_sql.iter().any(|it| name.starts_with(it));
            assert!(is_there, "{name} is not in /metrics");
            asked += 1;
        }
    }
    assert!(asked > 30, "{asked}");

    let text = std::fs::read_to_string(config.join("grafana/pinbad-mysql.json")).unwrap();
    let mysql: Json = serde_json::from_str(&text).unwrap();
    for board in [&board, &mysql] {
        let panels = board["panels"].as_array().unwrap();
        let ids: BTreeSet<u64> = panels.iter().map(|it| it["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len(), "numbers are not used twice");
        let empty = |panel: &&Json| panel["type"] != "row" && panel["targets"][0].is_null();
        assert_eq!(panels.iter().find(empty), None);
    }
    here.stop();
}

/// A real Prometheus, started for this and stopped at the end.
struct Prometheus {
    _server: Running,
    _dir: tempfile::TempDir,
    address: String,
}

impl Prometheus {
    fn start(target: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("prometheus.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: pinbad\n    static_configs:\n      \
             - targets: [\"{target}\"]\n"
        );
        std::fs::write(&config, text).unwrap();
        let address = free_address("127.77.0.6").to_string();
        let server = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{MISSING}: {error}"));
        Self { _server: Running(server), _dir: dir, address }
    }

    /// The value of an instant query, if there is one.
    fn ask(&self, query: &str) -> Result<f64, String> {
        let url = format!("http://{}/api/v1/query", self.address);
        let answer = ureq::get(url).query("query", query).call();
        let mut answer = answer.map_err(|error| error.to_string())?;
        let text = answer.body_mut().read_to_string().unwrap();
        let json: Json = serde_json::from_str(&text).unwrap();
        let value = json["data"]["result"][0]["value"][1].as_str();
        value.and_then(|text| text.parse().ok()).ok_or(text)
    }
}

const MISSING: &str = "there is no prometheus: `apt-get install prometheus`, or leave these tests out with \
    `cargo test -- --skip metrics::promtool --skip metrics::rules --skip metrics::prometheus`";

/// How long Prometheus looks on, seconds; `PINBAD_TESTS_SCRAPE_SECS` makes it longer.
fn scrape_secs() -> u64 {
    let given = std::env::var("PINBAD_TESTS_SCRAPE_SECS").ok();
    given.map_or(15, |text| text.parse().unwrap())
}

/// Sends at a steady pace from a thread of its own until it is told to stop.
struct Pace {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
    /// Longest time that packets were late, milliseconds; taken out by who looks.
    late_ms: Arc<AtomicU64>,
}

impl Pace {
    fn start(target: SocketAddr, per_second: u64) -> Self {
        let (stop, late_ms) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, late) = (Arc::clone(&stop), Arc::clone(&late_ms));
        let thread = std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let packets: Vec<Vec<u8>> =
                (0..40).map(|n| packet(&format!("/{n}"), 200 + n % 5, 0.001 * n as f32)).collect();
            let (begun, mut sent) = (Instant::now(), 0);
            while !stopped.load(Ordering::Relaxed) {
                // What is late is sent at once: over seconds the pace is right.
                let due = begun.elapsed().as_millis() as u64 * per_second / 1000;
                late.fetch_max((due - sent) * 1000 / per_second, Ordering::Relaxed);
                for number in sent..due {
                    let packet = &packets[number as usize % packets.len()];
                    socket.send_to(packet, target).unwrap();
                }
                sent = sent.max(due);
                std::thread::sleep(Duration::from_millis(5));
            }
            sent
        });
        Self { stop, thread: Some(thread), late_ms }
    }

    /// Stops, and tells how many were sent in all.
    fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[test]
fn prometheus_comes_to_the_rate_that_was_sent() {
    const RATE: u64 = 1_000;
    let program = Program::serve(&[]);
    let prometheus = Prometheus::start(&program.site.http.to_string());
    let all = format!("{COUNT}{{report=\"info\"}}");
    await_condition("the first scrape", || prometheus.ask(&all));
    let secs = scrape_secs();
    let pace = Pace::start(program.site.udp[0], RATE);
    let rates = |rate: &dyn Fn(&str) -> f64| -> Vec<(&str, f64)> {
        [
            "pinbad_requests_merged_total",
            "pinbad_datagrams_received_total",
            "pinbad_request_duration_seconds_count{report=\"info\"}",
            "pinbad_request_duration_seconds_bucket{report=\"info\",le=\"+Inf\"}",
            "pinbad_request_duration_seconds_count{report=\"report_by_script_name\"}",
            "pinbad_request_duration_seconds_count{report=\"report_by_status\"}",
        ]
        .map(|selector| (selector, rate(selector)))
        .into()
    };
    let mut tries = 0;
    loop {
        // Well inside the load: a rate must not see its beginning.
        let begun = Instant::now();
        let span = Duration::from_secs(secs + 4);
        pace.late_ms.store(0, Ordering::Relaxed);
        while begun.elapsed() < span {
            std::thread::sleep(Duration::from_millis(50));
        }
        let off = rates(&|selector| {
            let query = format!("sum(rate({selector}[{secs}s]))");
            let rate = prometheus.ask(&query);
            rate.unwrap_or_else(|error| panic!("{query}: {error}")) / RATE as f64 - 1.0
        });
        if off.iter().all(|(_, off)| off.abs() < 0.01) {
            break;
        }
        // A machine so busy that nothing was sent or asked for a while proves nothing; another span
        // may.
        let late_ms = pace.late_ms.load(Ordering::Relaxed);
        tries += 1;
        assert!(tries < 6, "{off:?}, late by {late_ms} ms");
    }
    let sent = pace.stop();
    let status = program.site.at_rest(sent);
    assert_eq!(status.count("requests_merged"), sent, "{status:?}");
    // At the end what was counted is what was sent, in every report.
    let at_end = samples_when(&program.site, &all, sent as f64);
    for report in ["report_by_script_name", "report_by_status"] {
        let rows = at_end.iter().filter(|(name, _)| {
            name.starts_with(COUNT) && name.contains(&format!("report=\"{report}\""))
        });
        let sum: f64 = rows.map(|(_, count)| count).sum();
        assert_eq!(sum, sent as f64, "{report}");
    }
    await_condition("Prometheus has the end too", || match prometheus.ask(&all) {
        Ok(count) if count == sent as f64 => Ok(()),
        other => Err(other),
    });
}

/// Runs `pinbad load` to its end and gives its totals.
fn load(site: &Site, arguments: &[&str]) -> Json {
    let said = run(pinbad()
        .args(["load", "--format", "json", "--rate", "2000", "--target"])
        .arg(site.udp[0].to_string())
        .args(arguments));
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"))
}

/// Runs `promtool`, which must end well and find nothing.
fn promtool(arguments: &[&str], input: Option<&str>) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{MISSING}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.unwrap_or_default().as_bytes()).unwrap();
    drop(stdin);
    let said = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "promtool {arguments:?}: {out}{err}");
    if input.is_some() {
        assert_eq!((&*out, &*err), ("", ""), "promtool {arguments:?}");
    }
}
