//! Daemons under test: started on free ports, asked over HTTP, stopped at the end whatever happens.
//!
//! [`Here`] runs the stages inside the test's own process, with a clock that the test may move.
//! [`Program`] runs the binary that a user runs. Both take settings as `--set` does and stop when
//! they are dropped. Packets go through [`Sender`] (or [`Site::send`], which waits for them too);
//! it never has more of them in flight than the receiving socket's buffer holds.
//!
//! [`Kills`] ends daemons at random moments under load, [`Child`] is one with a clock of the test's
//! that can be killed. [`Collector`] is a server of HTTP that records what it gets, and
//! [`Running`] a process that ends with its test.

#[cfg(feature = "sql")]
mod child;
mod killing;
mod outside;
mod program;
mod sender;
mod status;
mod traffic;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::SocketAddr;
#[cfg(feature = "sql")]
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pinbad::clock::{Clock, ManualClock, SystemClock};
use pinbad::config::{Config, ConfigFlags};
use pinbad::daemon::Daemon;
use serde_json::{Value as Json, json};

#[cfg(feature = "sql")]
pub(crate) use self::child::{Child, PacedClock, be_child};
pub(crate) use self::killing::{Kills, number};
#[cfg(feature = "sql")]
pub(crate) use self::killing::{Mortal, numbered};
pub(crate) use self::outside::{Collector, Running, connect, free_address, talk};
pub(crate) use self::program::{Program, Said, clean, clients, pinbad, program, run, run_within};
pub(crate) use self::sender::Sender;
pub(crate) use self::status::Status;
pub(crate) use self::traffic::{Over, Traffic};

/// Where the wall clock of a [`ManualClock`] starts: 2023-11-14 22:13:20 UTC.
pub(crate) const START_SECS: u64 = 1_700_000_000;

/// How long a test waits for what must come. Far more than it takes: two busy cores, a debug build.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it looks.
const GLANCE: Duration = Duration::from_millis(3);

/// The time that a test still waits. A period in which this process did not run at all (it was
/// stopped, the machine stood still) counts for at most one second, since the awaited event had no
/// time either.
struct Waiting {
    left: Duration,
    looked: Instant,
}

impl Waiting {
    fn new(patience: Duration) -> Self {
        Self { left: patience, looked: Instant::now() }
    }

    /// Whether it is over; to be asked again and again.
    fn is_over(&mut self) -> bool {
        let passed = self.looked.elapsed().min(Duration::from_secs(1));
        self.looked = Instant::now();
        self.left = self.left.saturating_sub(passed);
        self.left.is_zero()
    }
}

/// Settings that every daemon under test has; a test's own come later and win.
const SETTINGS: [&str; 5] = [
    // Whatever folder this machine has for a daemon that is installed.
    "data.dir=",
    "ingest.listen=127.0.0.1:0",
    "ingest.receivers=1",
    "http.listen=127.0.0.1:0",
    "mysql.listen=",
];

/// Looks until `look` says that it is there, and gives what it found.
///
/// # Panics
/// After a minute, with what was seen last.
#[track_caller]
pub(crate) fn await_condition<T, E: Debug>(what: &str, look: impl FnMut() -> Result<T, E>) -> T {
    await_condition_for(PATIENCE, what, look)
}

/// The same, after as long as is said.
#[track_caller]
pub(crate) fn await_condition_for<T, E: Debug>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<T, E>,
) -> T {
    let mut waiting = Waiting::new(patience);
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if waiting.is_over() => panic!("{what}: {seen:?}"),
            Err(_) => std::thread::sleep(GLANCE),
        }
    }
}

/// Looks until `is` holds of what there is to see, and gives that.
///
/// # Panics
/// As [`await_condition`].
#[track_caller]
pub(crate) fn await_until<T: Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    is: impl Fn(&T) -> bool,
) -> T {
    await_condition(what, || {
        let found = look();
        if is(&found) { Ok(found) } else { Err(found) }
    })
}

/// A daemon to send to and to ask.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// In the order of `ingest.listen`.
    pub(crate) udp: Vec<SocketAddr>,
    pub(crate) http: SocketAddr,
    /// Only where `mysql.listen` was given.
    pub(crate) mysql: Option<SocketAddr>,
    agent: ureq::Agent,
    /// The `Authorization` header to send, if one is set.
    authorization: Arc<Mutex<Option<String>>>,
}

impl Site {
    pub(crate) fn new(udp: Vec<SocketAddr>, http: SocketAddr) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_global(Some(PATIENCE))
            .build();
        let agent = ureq::Agent::new_with_config(config);
        Self { udp, http, mysql: None, agent, authorization: Arc::default() }
    }

    /// Sends this as `Authorization` from now on.
    pub(crate) fn log_in(&self, authorization: &str) {
        *self.authorization.lock().unwrap() = Some(authorization.to_owned());
    }

    /// GET, whatever comes back.
    pub(crate) fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, None)
    }

    /// POST of JSON.
    pub(crate) fn post(&self, target: &str, body: &str) -> Reply {
        self.ask("POST", target, Some(body))
    }

    /// DELETE.
    pub(crate) fn delete(&self, target: &str) -> Reply {
        self.ask("DELETE", target, None)
    }

    /// GET of what must be there: JSON.
    #[track_caller]
    pub(crate) fn json(&self, target: &str) -> Json {
        let reply = self.get(target);
        assert_eq!(reply.status, 200, "{target}: {reply:?}");
        reply.json()
    }

    pub(crate) fn ask(&self, method: &str, target: &str, body: Option<&str>) -> Reply {
        let url = format!("http://{}{target}", self.http);
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        if method != "GET" {
            request = request.header("content-type", "application/json");
        }
        if let Some(authorization) = &*self.authorization.lock().unwrap() {
            request = request.header("authorization", authorization);
        }
        let mut response = match body {
            Some(body) => self.agent.run(request.body(body.to_owned()).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        }
        .unwrap();
        let content_type = response.headers().get("content-type");
        Reply {
            status: response.status().as_u16(),
            content_type: content_type
                .map_or_else(String::new, |value| value.to_str().unwrap().to_owned()),
            body: response.body_mut().with_config().limit(1 << 30).read_to_string().unwrap(),
        }
    }

    /// The body of an answer that is not text.
    #[cfg(feature = "sql")]
    pub(crate) fn bytes(&self, target: &str) -> Vec<u8> {
        let url = format!("http://{}{target}", self.http);
        ureq::get(url).call().unwrap().body_mut().read_to_vec().unwrap()
    }

    /// `/api/v1/status`.
    #[track_caller]
    pub(crate) fn status(&self) -> Status {
        Status(self.json("/api/v1/status"))
    }

    /// The status once nothing is under way any more: so many datagrams came in, and every request
    /// that was decoded has been merged, overwritten or refused.
    #[track_caller]
    pub(crate) fn at_rest(&self, datagrams: u64) -> Status {
        await_condition("all datagrams received, nothing waits", || {
            let status = self.status();
            let came = status.count("datagrams_received") + status.count("kernel_drops");
            let quiet = status.count("ring_depth") == 0
                && status.count("requests_decoded")
                    == status.count("requests_merged")
                        + status.count("requests_overwritten")
                        + status.count("requests_invalid");
            // Totals are read before the sockets: a receiver may be counting just then.
            let is_whole = status.sums_of_sockets().iter().all(|(_, sum, total)| sum == total);
            if came == datagrams && quiet && is_whole { Ok(status) } else { Err(status) }
        })
    }

    /// The rows of a statement, each a list.
    #[track_caller]
    pub(crate) fn sql(&self, query: &str) -> Json {
        let reply = self.post("/api/v1/sql", &json!({ "query": query }).to_string());
        assert_eq!(reply.status, 200, "{query}: {reply:?}");
        reply.json()["rows"].clone()
    }

    /// Rows of a report by the texts of one of its columns.
    #[track_caller]
    pub(crate) fn rows(&self, report: &str) -> Vec<Json> {
        let answer = self.json(&format!("/api/v1/reports/{report}?limit=0"));
        answer["rows"].as_array().unwrap().clone()
    }
}

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Json {
        assert_eq!(self.content_type, "application/json", "{self:?}");
        self.any_json()
    }

    /// Parses the body as JSON, that of a problem too.
    #[track_caller]
    pub(crate) fn any_json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Asserts that this is a problem of that status and gives its detail.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.content_type, "application/problem+json", "{self:?}");
        let body: Json = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body["status"], status, "{body}");
        body["detail"].as_str().unwrap().to_owned()
    }
}

/// A daemon in this process.
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) site: Site,
    daemon: Option<Daemon>,
}

impl Here {
    /// With the machine's clocks.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::with_clock(settings, Arc::new(SystemClock::new()))
    }

    /// With a clock that stands still until the test moves it.
    pub(crate) fn with_manual_clock(settings: &[&str]) -> (Self, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(START_SECS * 1000));
        let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        (Self::with_clock(settings, shared), clock)
    }

    /// With a clock of the test's.
    pub(crate) fn with_clock(settings: &[&str], clock: Arc<dyn Clock>) -> Self {
        let flags = ConfigFlags {
            set: all_settings(settings).map(str::to_owned).collect(),
            ..ConfigFlags::default()
        };
        let config = Config::load(&flags, []).unwrap();
        let daemon = Daemon::start(&config, clock).unwrap();
        let http = daemon.http_address().unwrap();
        let mut site = Site::new(daemon.udp_addresses().to_vec(), http);
        site.mysql = daemon.mysql_address();
        Self { site, daemon: Some(daemon) }
    }

    /// With a clock of the test's and a history in `dir` that is flushed every minute; other
    /// settings win.
    #[cfg(feature = "sql")]
    pub(crate) fn with_history(dir: &Path, clock: &Arc<ManualClock>, others: &[&str]) -> Self {
        let dir = format!("history.dir={}", dir.display());
        let settings = [&dir, "history.free_min=0", "history.flush_period=60s"];
        let clock = Arc::<ManualClock>::clone(clock);
        Self::with_clock(&[&settings, others].concat(), clock)
    }

    /// The same in a folder of its own, which goes with the test; the clock begins at this second.
    #[cfg(feature = "sql")]
    pub(crate) fn with_own_history(
        unix_secs: u64,
        others: &[&str],
    ) -> (Self, Arc<ManualClock>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(unix_secs * 1_000));
        let here = Self::with_history(dir.path(), &clock, others);
        (here, clock, dir)
    }

    /// What its front ends read from.
    #[cfg(feature = "sql")]
    pub(crate) fn catalog(&self) -> &Arc<pinbad::query::catalog::Catalog> {
        self.daemon.as_ref().unwrap().catalog()
    }

    /// Stops it and waits for that.
    pub(crate) fn stop(mut self) {
        self.daemon.take().unwrap().stop().unwrap();
    }
}

/// Lets time pass, and waits until the merger has seen it.
pub(crate) fn pass(site: &Site, clock: &ManualClock, ms: u64) {
    clock.advance_ms(ms);
    noticed(site);
}

/// Waits until the merger has seen the clock.
pub(crate) fn noticed(site: &Site) {
    let runs = || site.status().count("merges");
    let before = runs();
    await_until("the merger runs", runs, |now| *now > before + 1);
}

/// An address of this machine at which connections are refused for as long as the socket is kept:
/// it has the port and does not listen.
pub(crate) fn nobody_listens() -> (SocketAddr, socket2::Socket) {
    let taken = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    taken.bind(&any.into()).unwrap();
    let address = taken.local_addr().unwrap().as_socket().unwrap();
    (address, taken)
}

fn all_settings<'a>(settings: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let key = |setting: &str| setting.split('=').next().unwrap_or_default().to_owned();
    let given: BTreeSet<_> = settings.iter().map(|setting| key(setting)).collect();
    SETTINGS
        .into_iter()
        .filter(move |setting| !given.contains(&key(setting)))
        .chain(settings.iter().copied())
}
