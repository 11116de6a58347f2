//! What a request of ten spans costs over OTLP, in turns with the same request as a Pinba packet.
//!
//! The requests are those of `pinbad load` with nine timers: as spans each is a SERVER span with
//! nine CLIENT spans that came before it, with the attributes that OpenTelemetry for PHP sends.
//! Bodies are encoded ahead by the crate `opentelemetry-proto`; each time one is sent again its
//! traces get new ids. Four connections send, each waits for its answer. Every span has to be
//! accepted.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memchr::memmem;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use pinbad::cli::format::{bytes, grouped};
use pinbad::cli::load::traffic::Traffic;
use pinbad::cli::load::{LoadOptions, TrafficOptions};
use pinbad::input::pinba::model::Request;
use prost::Message as _;

use crate::clients::median;
use crate::load::{Load, pace};
use crate::receiver::{Cpu, Daemon, Receiver as _};
use crate::table::Table;
use crate::{Options, Result, compare};

/// 10,240 different requests with nine timers: 500 scripts, 20 hosts, 10 servers.
const REQUESTS: &str = "--corpus=10240 --scripts=500 --hosts=20 --servers=10 --distribution=uniform \
                        --tag-values=20 --timers=9 --request-tags=2";
const SPANS: u64 = 10;
const HOSTS: u64 = 20;
const CONNECTIONS: u64 = 4;

/// A name, spans in a body, the language of the SDK, and requests a second; 0: as fast as bodies
/// are answered.
const CASES: [(&str, u64, &str, u64); 5] = [
    ("512 spans a body, from PHP", 512, "php", 10_000),
    ("512 spans a body, from PHP, full speed", 512, "php", 0),
    ("512 spans a body, others", 512, "nodejs", 10_000),
    ("a body for each request, from PHP", SPANS, "php", 10_000),
    ("a body for each request, from PHP, full speed", SPANS, "php", 0),
];

/// Threads whose time is told apart, by the beginnings of their names.
const THREADS: [&str; 4] = ["otlp_input", "otlp-0", "merge", "series"];

/// The trace ids of a body begin with this until it is sent.
const ROUND: [u8; 8] = *b"\xF7round\xFE\xFB";

/// One run: requests a second, processor time of a request in microseconds, of all threads and of
/// each of [`THREADS`], and memory.
struct Run {
    rate: f64,
    all: f64,
    threads: [f64; THREADS.len()],
    resident_bytes: u64,
}

pub(crate) fn run(options: &Options) -> Result<Table> {
    let mut table = Table::new(
        "A request of ten spans, in turns with the same request as a packet",
        "load | spans/s | a core | a packet | the spans | ratio | of that HTTP, joining, merge, series | memory",
    );
    let packets = Load::new(options, REQUESTS)?;
    let pairs = if options.quick { 1 } else { 5 };
    let mut body_bytes = 0.0;
    for (name, body_spans, language, rate) in CASES {
        let mut runs = Vec::new();
        for _ in 0..pairs {
            let mut connections = bodies(body_spans, language)?;
            let all = connections.iter().flat_map(|it| &it.bodies);
            let sum: usize = all.map(Vec::len).sum();
            body_bytes = sum as f64 / 10_240.0;
            let packet = of_packets(options, &packets, rate)?;
            runs.push([packet, of_spans(options, &mut connections, rate)?]);
        }
        let us = |of: fn(&[Run; 2]) -> f64| median(runs.iter().map(of));
        let threads = (0..THREADS.len()).map(|at| {
            let of_thread = runs.iter().map(|[_, spans]| spans.threads[at]);
            format!("{:.2}", median(of_thread))
        });
        let threads: Vec<String> = threads.collect();
        eprintln!("  {name}: {:.2} us", us(|[_, spans]| spans.all));
        table.row([
            name.to_owned(),
            grouped(us(|[_, spans]| spans.rate) * SPANS as f64),
            format!("{:.0} %", us(|[_, spans]| spans.rate * spans.all / 1e4)),
            format!("{:.2} us", us(|[packet, _]| packet.all)),
            format!("{:.2} us", us(|[_, spans]| spans.all)),
            format!("{:.1}", us(|[packet, spans]| spans.all / packet.all)),
            threads.join(", "),
            bytes(us(|[_, spans]| spans.resident_bytes as f64)),
        ]);
    }
    Ok(table.note(format!(
        "Medians of {pairs} pair(s); processor time of all threads of the daemon for a request; default settings. Packets of {:.0} \
         bytes, {body_bytes:.0} bytes of spans a request. {REQUESTS}",
        packets.packet_bytes()
    )))
}

fn times(options: &Options) -> [Duration; 2] {
    // A request of others than PHP waits six seconds.
    let [warm, measured] = if options.quick { [7, 4] } else { [8, 8] };
    [warm, measured].map(Duration::from_secs)
}

fn of_packets(options: &Options, load: &Load, rate: u64) -> Result<Run> {
    let daemon = compare::start(options, None, &[], &[])?;
    let [_, measured] = times(options);
    load.run_apart(&daemon, &pace(rate as f64, measured / 2))?;
    let before = daemon.cpu();
    let trial = load.run_apart(&daemon, &pace(rate as f64, measured))?;
    if rate > 0 && trial.lost > 0 {
        return Err(format!("{} packets were lost", trial.lost).into());
    }
    run_of(&daemon, &before, (trial.sent - trial.lost) as f64, trial.rate())
}

fn of_spans(options: &Options, connections: &mut [Connection], rate: u64) -> Result<Run> {
    let to = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let input = format!("otlp_input=[{{listen='{to}'}}]");
    let daemon = compare::start(options, None, &[&input], &[])?;
    let [warm, measured] = times(options);
    send(connections, to, rate, warm)?;
    let (before, start) = (daemon.cpu(), Instant::now());
    let spans = send(connections, to, rate, measured)?;
    let (secs, requests) = (start.elapsed().as_secs_f64(), spans as f64 / SPANS as f64);
    let status = daemon.get("/api/v1/status")?;
    let input = &status["otlp_inputs"][0];
    for counter in ["spans_refused", "spans_left_out"] {
        if input[counter] != 0 {
            return Err(format!("{counter}: {}", input[format!("{counter}_by_reason")]).into());
        }
    }
    run_of(&daemon, &before, requests, requests / secs)
}

fn run_of(daemon: &Daemon, before: &Cpu, requests: f64, rate: f64) -> Result<Run> {
    let after = daemon.cpu();
    let us =
        |named: &dyn Fn(&str) -> bool| after.since(before, named).as_secs_f64() * 1e6 / requests;
    Ok(Run {
        rate,
        all: us(&|_| true),
        threads: THREADS.map(|thread| us(&|name| name.starts_with(thread))),
        resident_bytes: daemon.resident_bytes()?,
    })
}

/// What one connection sends, over and over.
#[derive(Default)]
struct Connection {
    bodies: Vec<Vec<u8>>,
    /// Where the trace ids of each body begin.
    traces: Vec<Vec<usize>>,
    next: usize,
    rounds: u64,
}

impl Connection {
    /// Gives the traces of the next body new ids.
    fn next(&mut self) -> &[u8] {
        if self.next == self.bodies.len() {
            (self.next, self.rounds) = (0, self.rounds + 1);
        }
        let body = &mut self.bodies[self.next];
        for at in &self.traces[self.next] {
            body[*at..at + 8].copy_from_slice(&self.rounds.to_be_bytes());
        }
        self.next += 1;
        body
    }
}

/// Sends so many requests a second for so long; returns the number of spans.
fn send(connections: &mut [Connection], to: SocketAddr, rate: u64, time: Duration) -> Result<u64> {
    let (start, sent) = (Instant::now(), AtomicU64::new(0));
    let run = |connection: &mut Connection| -> std::io::Result<()> {
        let mut stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        let (mut message, mut answer) = (Vec::new(), [0; 4096]);
        while start.elapsed() < time {
            let due = start.elapsed().as_secs_f64() * (rate * SPANS) as f64;
            if rate > 0 && sent.load(Ordering::Relaxed) as f64 >= due {
                thread::sleep(Duration::from_micros(300));
                continue;
            }
            let spans = connection.spans_of_next();
            sent.fetch_add(spans, Ordering::Relaxed);
            let body = connection.next();
            message.clear();
            write!(
                message,
                "POST /v1/traces HTTP/1.1\r\nhost: {to}\r\nuser-agent: OTel\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
                body.len()
            )?;
            message.extend_from_slice(body);
            stream.write_all(&message)?;
            let read = stream.read(&mut answer)?;
            let text = String::from_utf8_lossy(&answer[..read]);
            let is_taken = text.starts_with("HTTP/1.1 200") && text.contains("content-length: 0");
            if !is_taken || !text.ends_with("\r\n\r\n") {
                return Err(std::io::Error::other(format!("not all was taken: {text}")));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let senders = connections.iter_mut().map(|it| scope.spawn(|| run(it)));
        let senders: Vec<_> = senders.collect();
        for sender in senders {
            sender.join().map_err(|_| "a sender panicked")??;
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    Ok(sent.into_inner())
}

impl Connection {
    fn spans_of_next(&self) -> u64 {
        // A span has one trace id.
        self.traces[self.next % self.traces.len()].len() as u64
    }
}

/// The requests as bodies, those of a host together, spread over the connections.
fn bodies(body_spans: u64, language: &str) -> Result<Vec<Connection>> {
    let LoadOptions { traffic, corpus, .. } = LoadOptions::parse(REQUESTS)?;
    let mut hosts: Vec<(String, Vec<Span>)> = Vec::new();
    let mut requests = Traffic::new(&TrafficOptions { ..traffic });
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    for number in 0..u64::from(corpus) {
        let request = requests.next_request();
        let host = text(&request.hostname);
        let spans = spans_of(&request, number, now_ns);
        match hosts.iter_mut().find(|it| it.0 == host) {
            Some((_, all)) => all.extend(spans),
            None => hosts.push((host, spans)),
        }
    }
    assert_eq!(hosts.len() as u64, HOSTS);
    let mut connections: Vec<Connection> = Vec::new();
    connections.resize_with(CONNECTIONS as usize, Connection::default);
    for (nth, (host, spans)) in hosts.into_iter().enumerate() {
        let connection = &mut connections[nth % CONNECTIONS as usize];
        for spans in spans.chunks(body_spans as usize) {
            let body = body(&host, language, spans);
            let traces = memmem::find_iter(&body, &ROUND).collect();
            connection.traces.push(traces);
            connection.bodies.push(body);
        }
    }
    Ok(connections)
}

fn body(host: &str, language: &str, spans: &[Span]) -> Vec<u8> {
    let resource = Resource {
        attributes: vec![
            attribute("host.name", host),
            attribute("host.arch", "x86_64"),
            attribute("os.type", "linux"),
            attribute("process.runtime.name", "fpm-fcgi"),
            attribute("process.pid", 4711),
            attribute("telemetry.sdk.name", "opentelemetry"),
            attribute("telemetry.sdk.language", language),
            attribute("telemetry.sdk.version", "1.9.0"),
            attribute("service.name", "shop"),
            attribute("service.instance.id", "9d8ba6a4-49ba-4dd8-a1b3-f6e4a4ec44c7"),
        ],
        ..Resource::default()
    };
    let scope_spans = ScopeSpans {
        scope: Some(InstrumentationScope {
            name: "io.opentelemetry.contrib.php.laravel".to_owned(),
            ..InstrumentationScope::default()
        }),
        spans: spans.to_vec(),
        schema_url: "https://opentelemetry.io/schemas/1.36.0".to_owned(),
    };
    let resource_spans = vec![ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scope_spans],
        schema_url: String::new(),
    }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// A request as spans, its own the last as it ends last.
fn spans_of(request: &Request, number: u64, now_ns: u64) -> Vec<Span> {
    let trace_id = [ROUND, (number + 1).to_be_bytes()].concat();
    let id = |nth: u64| (number * SPANS + nth + 1).to_be_bytes().to_vec();
    let ns = |secs: f32| (f64::from(secs) * 1e9) as u64;
    let word = |id: u32| String::from_utf8_lossy(&request.dictionary[id as usize]);
    let start = now_ns - ns(request.request_time.unwrap_or_default());
    let span = |nth: u64, kind: i32, name: &str, time_ns: u64, attributes: Vec<KeyValue>| Span {
        trace_id: trace_id.clone(),
        span_id: id(nth),
        flags: 0x101,
        name: name.to_owned(),
        kind,
        start_time_unix_nano: start,
        end_time_unix_nano: start + time_ns,
        attributes,
        ..Span::default()
    };
    let (mut spans, mut at) = (Vec::new(), 0);
    for (nth, count) in request.timer_tag_count.iter().enumerate() {
        let tags = at..at + *count as usize;
        at = tags.end;
        let [group, server, operation] = [0, 1, 2].map(|tag| {
            let words = &request.timer_tag_value[tags.clone()];
            word(words[tag])
        });
        let attributes = vec![
            attribute("db.system.name", &*group),
            attribute("db.namespace", "shop"),
            attribute("db.operation.name", &*operation),
            attribute(
                "db.query.text",
                "select * from `orders` where `customer_id` = ? and `state` <> ? limit 20",
            ),
            attribute("server.address", &*server),
            attribute("server.port", 3306),
        ];
        let name = format!("sql {operation}");
        spans.push(Span {
            parent_span_id: id(0),
            ..span(nth as u64 + 1, 3, &name, ns(request.timer_value[nth]), attributes)
        });
    }
    let (server, script) = (text(&request.server_name), text(&request.script_name));
    let schema = text(&request.schema);
    let attributes = vec![
        attribute("url.full", format!("{schema}://{server}{script}?page=7&sort=price")),
        attribute("http.request.method", "GET"),
        attribute("url.scheme", schema),
        attribute("server.address", server),
        attribute("url.path", script.as_str()),
        attribute(
            "user_agent.original",
            "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
        ),
        attribute("network.protocol.version", "1.1"),
        attribute("http.route", script.as_str()),
        attribute("http.response.status_code", i64::from(request.status.unwrap_or_default())),
        attribute("http.response.body.size", i64::from(request.document_size.unwrap_or_default())),
    ];
    let time_ns = ns(request.request_time.unwrap_or_default());
    spans.push(span(0, 2, &format!("GET {script}"), time_ns, attributes));
    spans
}

fn text(bytes: &Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
}

/// A text or a number.
struct Value(any_value::Value);

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self(any_value::Value::StringValue(text))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self(any_value::Value::IntValue(number))
    }
}

fn attribute(key: &str, value: impl Into<Value>) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value.into().0) }),
        ..KeyValue::default()
    }
}
