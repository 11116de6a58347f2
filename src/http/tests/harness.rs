//! A server on port 0 and the catalog behind it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use prost::Message as _;
use serde_json::Value as Json;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::clock::{Clock, ManualClock};
use crate::config::Config;
use crate::grammar::builtin;
use crate::http::{HttpSettings, serve};
use crate::input::Decode as _;
use crate::input::pinba::model;
use crate::input::record::Hasher;
use crate::merger::{Pulse, test_harness};
use crate::query::catalog::Catalog;
use crate::query::status::Status;
use crate::report::DefinedBy;
use crate::report::definition::{Defaults, Definition};
use crate::ring::{RingPlan, TempRing};
use crate::telemetry::Counters;

/// Longest wait for an expected event, however busy the machine is. A server with its limit removed
/// waits longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The wall clock's time when a server starts.
const NOW_MS: u64 = 1_700_000_000_250;

/// A clock that stands still, and can block its readers.
#[derive(Debug)]
pub(super) struct GatedClock {
    pub(super) clock: ManualClock,
    /// Reads of the time block while this is locked.
    pub(super) gate: Mutex<()>,
    /// Number of reads.
    pub(super) asked: AtomicUsize,
    /// Whether reads panic.
    pub(super) panics: AtomicBool,
}

impl Clock for GatedClock {
    fn mono_ms(&self) -> u64 {
        self.clock.mono_ms()
    }

    fn unix_ms(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock());
        assert!(!self.panics.load(Ordering::SeqCst), "as the test wants it");
        self.clock.unix_ms()
    }
}

/// Script and status of the request of this number; no two are alike.
pub(super) fn script_and_status(number: usize) -> (String, u32) {
    let script = format!("/shop/page-{:05}.php", number * 7919 % 99_991);
    (script, [200, 404, 500][number % 3])
}

/// Its packet: requests of even numbers have two timers.
fn packet(number: usize) -> Vec<u8> {
    let (script, status) = script_and_status(number);
    let mut sent = model::Request::named("web\"1", "shop", script);
    sent.status = Some(status);
    sent.request_time = Some((number * 1_000_003 % 10_000_019) as f32 / 1e6);
    sent.add_tag("env", "prod");
    let is_even = number.is_multiple_of(2);
    sent.add_tag("limit", if is_even { "even" } else { "odd" });
    if is_even {
        let rusage = (0.000_001, 0.0);
        sent.add_timer_with_rusage(2, 1.5, rusage, &[("group", "db")]);
        let tags = [("group", "cache"), ("op", "get")];
        sent.add_timer_with_rusage(2, 1.5, rusage, &tags);
    }
    sent.encode_to_vec()
}

/// The built-in reports, `r` by script, status and a tag, `limits` by a tag named like a parameter,
/// and one with a name that has to be quoted.
fn definitions(defaults: &Defaults) -> Vec<(Definition, DefinedBy)> {
    let own = cases![
        "r" =>
            r#"{"level": "request", "keys": ["script_name", "status", "+limit"], "percentiles": [95, 99.9], "window": "900s"}"#;
        "limits" => r#"{"comment": "v2/request/60/+limit/no_percentiles/no_filters"}"#;
        "odd" => r#"{"level": "request", "keys": ["hostname"]}"#;
    ];
    let own = own.into_iter().map(|(name, members)| {
        let definition = test_harness::definition(name, members, defaults);
        // Definitions may not use such a name: pages and the API quote it all the same.
        let name = if name == "odd" { "a b/c?" } else { name };
        Definition { name: name.to_owned(), ..definition }
    });
    let all = own.chain(builtin::reports(defaults));
    all.map(|report| (report, DefinedBy::BuiltIn)).collect()
}

/// A catalog over this many requests, received some seconds ago. The last one is in `(other)`.
pub(in crate::http) fn catalog(requests: usize) -> Catalog {
    let clock = ManualClock::new(NOW_MS);
    catalog_at(requests, true, Arc::new(clock))
}

fn catalog_at(requests: usize, keeps_raw: bool, clock: Arc<dyn Clock>) -> Catalog {
    let mut config = Config::default();
    config.pool.request_pool_size = requests + 1;
    config.pool.timer_pool_size = 2 * (requests + 1);
    config.reports.rows_max = requests.saturating_sub(1).max(1);
    let hasher = Hasher::new();
    let defaults = Defaults::default();
    let mut live = test_harness::live(&config, &hasher, definitions(&defaults));
    let mut decoder = test_harness::decoder(hasher, &mut live);
    // The last one comes later, so that they cover some seconds.
    let last = requests.saturating_sub(1);
    for (numbers, at_ms) in [(0..last, 0), (last..requests, 17_000)] {
        let mut records = Vec::new();
        for number in numbers {
            let received = (NOW_MS / 1_000) as u32;
            let taken = decoder.decode(&packet(number), received, &mut records);
            assert_eq!(taken, Ok(1));
        }
        live.advance(at_ms);
        live.merge(&records, at_ms);
    }
    let counters = Counters::new(1);
    let (ring, ..) = TempRing::new(RingPlan::new(1024, 1 << 20, 1), &counters.sockets);
    let status = Status::bare(counters, ring);
    let live = Arc::new(RwLock::new(live));
    Catalog::new(live, clock, defaults, keeps_raw, status, Arc::new(Pulse::default()))
}

/// A response.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// In lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Json {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    /// Asserts that this is a problem of that status and returns its detail.
    #[track_caller]
    pub(super) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body: Json = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body["status"], status);
        body["detail"].as_str().unwrap().to_owned()
    }
}

/// The front end under test. Stops on drop.
pub(super) struct Server {
    pub(super) catalog: Arc<Catalog>,
    pub(super) clock: Arc<GatedClock>,
    pub(super) address: SocketAddr,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    pub(super) task: Option<JoinHandle<()>>,
}

impl Server {
    /// With 300 requests.
    pub(super) fn start() -> Self {
        Self::with(HttpSettings::new(&["Stats.example".into()]))
    }

    pub(super) fn with(settings: HttpSettings) -> Self {
        Self::over(300, true, settings)
    }

    /// With so many requests.
    pub(super) fn of(requests: usize) -> Self {
        Self::over(requests, true, HttpSettings::new(&[]))
    }

    pub(super) fn over(requests: usize, keeps_raw: bool, settings: HttpSettings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let clock = Arc::new(GatedClock {
            clock: ManualClock::new(NOW_MS),
            gate: Mutex::new(()),
            asked: AtomicUsize::new(0),
            panics: AtomicBool::new(false),
        });
        let of_catalog = Arc::<GatedClock>::clone(&clock);
        let catalog = Arc::new(catalog_at(requests, keeps_raw, of_catalog));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let answers = (Arc::clone(&catalog), None);
        let task = runtime.spawn(serve(listener, answers, settings, async {
            stopped.await.unwrap();
        }));
        Self { catalog, clock, address, runtime, stop: Some(stop), task: Some(task) }
    }

    /// Requests in memory.
    pub(super) fn requests(&self) -> usize {
        self.catalog.live.read().pool.requests.len()
    }

    /// Asks the server to stop, without waiting for it.
    pub(super) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until it has.
    pub(super) fn stopped(&mut self) {
        let task = self.task.take().unwrap();
        let ended = async { tokio::time::timeout(PATIENCE, task).await };
        self.runtime.block_on(ended).expect("it ends").unwrap();
    }

    pub(super) fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, &[], None)
    }

    pub(super) fn post(&self, target: &str, body: &str) -> Reply {
        self.ask("POST", target, &[("content-type", "application/json")], Some(body))
    }

    pub(super) fn delete(&self, target: &str) -> Reply {
        self.ask("DELETE", target, &[("content-type", "application/json")], None)
    }

    /// Sends a request through ureq.
    pub(super) fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Reply {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_global(Some(PATIENCE))
            .build();
        let url = format!("http://{}{target}", self.address);
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let agent = ureq::Agent::new_with_config(config);
        let mut response = match body {
            Some(body) => agent.run(request.body(body.to_owned()).unwrap()),
            None => agent.run(request.body(()).unwrap()),
        }
        .unwrap();
        let text = |value: &ureq::http::HeaderValue| value.to_str().unwrap().to_owned();
        Reply {
            status: response.status().as_u16(),
            headers: response
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), text(value)))
                .collect(),
            body: response.body_mut().with_config().limit(1 << 30).read_to_string().unwrap(),
        }
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends raw bytes and reads to the end of the connection, so the request must ask for it to be
    /// closed.
    pub(super) fn raw(&self, request: &str) -> Reply {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        read_reply(stream)
    }
}

/// Everything until the server closes.
#[track_caller]
pub(super) fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it is not closed: {error}"),
    }
    bytes
}

/// One response up to the end of the connection; a chunked body stays as it is.
pub(super) fn read_reply(mut stream: TcpStream) -> Reply {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("0");
    let headers = lines.filter_map(|line| line.split_once(": "));
    Reply {
        status: status.parse().unwrap(),
        headers: headers.map(|(n, v)| (n.to_lowercase(), v.to_owned())).collect(),
        body: body.to_owned(),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).unwrap_or_default();
        }
        if let Some(task) = self.task.take() {
            drop(self.runtime.block_on(task));
        }
    }
}
