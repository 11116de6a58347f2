//! Daemons under test: started on free ports, asked over HTTP, stopped at the end whatever happens.
//!
//! [`Here`] runs the stages inside the test's own process, with a clock that the test may move. [`Program`] runs the
//! binary that a user runs. Both take settings as `--set` does and stop when they are dropped. Packets go through
//! [`Sender`], which never has more of them in flight than the receiving socket's buffer holds.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinbad::clock::{Clock, ManualClock, SystemClock};
use pinbad::config::{Config, ConfigFlags};
use pinbad::daemon::Daemon;
use serde_json::Value as Json;

/// Where the wall clock of a [`ManualClock`] starts: 2023-11-14 22:13:20 UTC.
pub(crate) const START_SECS: u64 = 1_700_000_000;

/// How long a test waits for what must come. Far more than it takes: two busy cores, a debug build.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it looks.
const GLANCE: Duration = Duration::from_millis(3);

/// What a test waits. A time in which this process did nothing at all (it was stopped, the machine stood still) counts for no more
/// than a second of it: what was to come had none either.
struct Waiting {
    left: Duration,
    looked: Instant,
}

impl Waiting {
    fn new(patience: Duration) -> Self {
        Self {
            left: patience,
            looked: Instant::now(),
        }
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
const SETTINGS: [&str; 4] = [
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
pub(crate) fn await_condition<T, E: Debug>(
    what: &str,
    mut look: impl FnMut() -> Result<T, E>,
) -> T {
    let mut waiting = Waiting::new(PATIENCE);
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if waiting.is_over() => panic!("{what}: {seen:?}"),
            Err(_) => std::thread::sleep(GLANCE),
        }
    }
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
    /// What is sent as `Authorization`, once there is something.
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
        Self {
            udp,
            http,
            mysql: None,
            agent,
            authorization: Arc::default(),
        }
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
            body: response
                .body_mut()
                .with_config()
                .limit(1 << 30)
                .read_to_string()
                .unwrap(),
        }
    }

    /// The body of an answer that is not text.
    #[cfg(feature = "sql")]
    pub(crate) fn bytes(&self, target: &str) -> Vec<u8> {
        let url = format!("http://{}{target}", self.http);
        ureq::get(url)
            .call()
            .unwrap()
            .body_mut()
            .read_to_vec()
            .unwrap()
    }

    /// `/api/v1/status`.
    #[track_caller]
    pub(crate) fn status(&self) -> Status {
        Status(self.json("/api/v1/status"))
    }

    /// The status once nothing is under way any more: so many datagrams came in, and every request that was decoded
    /// has been merged, overwritten or refused.
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
            if came == datagrams && quiet {
                Ok(status)
            } else {
                Err(status)
            }
        })
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

/// The object of `/api/v1/status`.
#[derive(Clone)]
pub(crate) struct Status(pub(crate) Json);

impl Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl Status {
    /// A counter; of one that is an object by reason, the sum.
    #[track_caller]
    pub(crate) fn count(&self, name: &str) -> u64 {
        sum(&self.0[name]).unwrap_or_else(|| panic!("{name} in {self:?}"))
    }

    /// One reason of a counter.
    #[track_caller]
    pub(crate) fn reason(&self, name: &str, reason: &str) -> u64 {
        let count = self.0[name][reason].as_u64();
        count.unwrap_or_else(|| panic!("{name}.{reason} in {self:?}"))
    }

    /// The sockets, each as a status of its own.
    pub(crate) fn sockets(&self) -> Vec<Self> {
        let sockets = self.0["sockets"].as_array().unwrap();
        sockets.iter().cloned().map(Self).collect()
    }

    /// Asserts the two identities, for all and for each socket, and that the sockets add up.
    #[track_caller]
    pub(crate) fn assert_accounted(&self) {
        assert_eq!(
            self.count("datagrams_received"),
            self.count("datagrams_accepted") + self.count("datagrams_invalid"),
            "{self:?}"
        );
        assert_eq!(
            self.count("requests_decoded"),
            self.count("requests_merged")
                + self.count("requests_overwritten")
                + self.count("requests_invalid"),
            "{self:?}"
        );
        assert_eq!(
            self.count("requests_invalid"),
            self.count("requests_invalid_by_reason"),
            "{self:?}"
        );
        let sockets = self.sockets();
        for socket in &sockets {
            assert_eq!(
                socket.count("datagrams_received"),
                socket.count("datagrams_accepted") + socket.count("datagrams_invalid"),
                "{socket:?}"
            );
        }
        for name in [
            "datagrams_received",
            "datagrams_accepted",
            "datagrams_invalid",
            "requests_decoded",
            "requests_invalid",
            "requests_overwritten",
            "kernel_drops",
        ] {
            let of_sockets: u64 = sockets.iter().map(|socket| socket.count(name)).sum();
            assert_eq!(of_sockets, self.count(name), "{name}: {self:?}");
        }
        // What Pinba calls these.
        assert_eq!(
            self.count("lost_tmp_records"),
            self.count("requests_overwritten")
        );
        assert_eq!(
            self.count("invalid_packets"),
            self.count("datagrams_invalid")
        );
    }
}

fn sum(counter: &Json) -> Option<u64> {
    match counter {
        Json::Object(reasons) => reasons.values().map(Json::as_u64).sum(),
        other => other.as_u64(),
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
        Self {
            site,
            daemon: Some(daemon),
        }
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

/// The daemon as a user starts it.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) site: Site,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Program {
    /// `pinbad serve` with these settings.
    pub(crate) fn serve(settings: &[&str]) -> Self {
        Self::start(&["serve"], settings)
    }

    /// `pinbad ARGUMENTS --set ...`, which must serve; its ports are read from its log.
    pub(crate) fn start(arguments: &[&str], settings: &[&str]) -> Self {
        Self::start_as(pinbad(), arguments, settings)
    }

    /// The same by a command that ends in running the program with the arguments it is given.
    pub(crate) fn start_as(mut command: Command, arguments: &[&str], settings: &[&str]) -> Self {
        command.args(arguments).args(["--log-format", "json"]);
        for setting in all_settings(settings) {
            command.args(["--set", setting]);
        }
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in lines.lines() {
                kept.lock().unwrap().push(line.unwrap());
            }
        });
        // The MySQL wire comes after HTTP, and only where a test asks for it.
        let mysql_too = all_settings(settings)
            .any(|setting| setting.starts_with("mysql.listen=") && setting.len() > 13);
        let addresses = await_condition("the log names the ports", || {
            let lines = log.lock().unwrap().clone();
            let addresses = addresses(&lines).filter(|(.., mysql)| mysql.is_some() || !mysql_too);
            addresses.ok_or(lines)
        });
        let (udp, http, mysql) = addresses;
        let mut site = Site::new(udp, http);
        site.mysql = mysql;
        Self {
            site,
            child,
            log,
            reader: Some(reader),
        }
    }

    /// Memory of it that is in RAM, bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kib = line.split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }

    /// The parts of glibc's heap that are not the main thread's: one an arena, until it holds 64 MiB.
    pub(crate) fn heaps(&self) -> usize {
        const HEAP_BYTES: u64 = 64 << 20;
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap();
        let maps = maps.lines().map(|line| {
            let mut fields = line.split_whitespace();
            let (range, may) = (fields.next().unwrap(), fields.next().unwrap());
            let (from, to) = range.split_once('-').unwrap();
            let [from, to] = [from, to].map(|it| u64::from_str_radix(it, 16).unwrap());
            (from, to, may)
        });
        // What is used of it, and then what is kept for it.
        let maps: Vec<_> = maps.collect();
        let heaps = maps.windows(2).filter(|pair| {
            let [(from, used, may), (rest, to, may_rest)] = **pair else {
                return false;
            };
            let reserved = used == rest && to == from + HEAP_BYTES;
            from % HEAP_BYTES == 0 && may == "rw-p" && may_rest == "---p" && reserved
        });
        heaps.count()
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name (`TERM`).
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let done = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(done.success(), "{kill}");
    }

    /// Waits for its end: how it ended and how long that took.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let status = await_condition("the program ends", || {
            self.child.try_wait().unwrap().ok_or(())
        });
        let took = start.elapsed();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (status, took)
    }

    /// The lines of its log so far.
    pub(crate) fn log(&self) -> Vec<Json> {
        let lines = self.log.lock().unwrap();
        lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| line.as_str().into()))
            .collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended, or it shall: nothing to do about an error here.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The binary, without the settings that the environment of the tests may have.
pub(crate) fn pinbad() -> Command {
    clean(Command::new(program()))
}

/// Where the binary is: `PINBAD_TEST_PROGRAM` names another one, for tests at full size.
pub(crate) fn program() -> String {
    std::env::var("PINBAD_TEST_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_pinbad").to_owned())
}

/// A command without the settings that the environment of the tests may have.
pub(crate) fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PINBAD_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// An address of this machine at which connections are refused for as long as the socket is kept: it has the port and does not
/// listen.
pub(crate) fn nobody_listens() -> (SocketAddr, socket2::Socket) {
    let taken = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    taken.bind(&any.into()).unwrap();
    let address = taken.local_addr().unwrap().as_socket().unwrap();
    (address, taken)
}

/// What a command that ends by itself said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command to its end; one that does not end within a minute is ended, and an error.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Said {
    run_within(PATIENCE, command)
}

/// The same with another limit.
#[track_caller]
pub(crate) fn run_within(patience: Duration, command: &mut Command) -> Said {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let out = read_all(child.stdout.take().unwrap());
    let err = read_all(child.stderr.take().unwrap());
    let mut waiting = Waiting::new(patience);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if waiting.is_over() {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?} does not end: {}", err.join().unwrap());
        }
        std::thread::sleep(GLANCE);
    };
    Said {
        code: status.code(),
        out: out.join().unwrap(),
        err: err.join().unwrap(),
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn all_settings<'a>(settings: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let key = |setting: &str| setting.split('=').next().unwrap_or_default().to_owned();
    let given: BTreeSet<_> = settings.iter().map(|setting| key(setting)).collect();
    SETTINGS
        .into_iter()
        .filter(move |setting| !given.contains(&key(setting)))
        .chain(settings.iter().copied())
}

/// The addresses that a log in JSON names: UDP, HTTP and MySQL, once it has named that of HTTP.
fn addresses(lines: &[String]) -> Option<(Vec<SocketAddr>, SocketAddr, Option<SocketAddr>)> {
    let (mut udp, mut http, mut mysql) = (Vec::new(), None, None);
    for line in lines {
        let Ok(line) = serde_json::from_str::<Json>(line) else {
            continue;
        };
        let address = line["address"].as_str().and_then(|text| text.parse().ok());
        match (line["message"].as_str(), address) {
            (Some("Receiving."), Some(address)) => udp.push(address),
            (Some("Listening for HTTP."), Some(address)) => http = Some(address),
            (Some("Listening for MySQL clients."), address @ Some(_)) => mysql = address,
            _ => {}
        }
    }
    udp.dedup();
    http.map(|http| (udp, http, mysql))
}

/// Sends datagrams from several sockets in turn, never more at once than the daemon's receive buffer holds.
#[derive(Debug)]
pub(crate) struct Sender<'a> {
    site: &'a Site,
    sources: Vec<(UdpSocket, SocketAddr)>,
    /// Bytes of receive buffer that a datagram may take, all in flight together.
    room: usize,
    in_flight: usize,
    /// How many datagrams were sent to each of the addresses.
    pub(crate) sent: Vec<u64>,
    /// How many had come before.
    before: u64,
}

impl<'a> Sender<'a> {
    /// One source for the first address.
    pub(crate) fn new(site: &'a Site) -> Self {
        let address = site.udp[0];
        Self::with_sources(site, &[address], 1)
    }

    /// So many sources for each of the addresses.
    pub(crate) fn with_sources(site: &'a Site, to: &[SocketAddr], sources: usize) -> Self {
        let status = site.status();
        let granted = status
            .sockets()
            .iter()
            .map(|socket| socket.count("recv_buffer_granted_bytes"))
            .min();
        let from = |to: SocketAddr| SocketAddr::new(to.ip(), 0);
        Self {
            site,
            sources: (0..sources)
                .flat_map(|_| to)
                .map(|to| (UdpSocket::bind(from(*to)).unwrap(), *to))
                .collect(),
            room: usize::try_from(granted.unwrap()).unwrap(),
            in_flight: 0,
            sent: vec![0; site.udp.len()],
            before: status.count("datagrams_received") + status.count("kernel_drops"),
        }
    }

    /// Sends one datagram from source number `source`, counted round.
    pub(crate) fn send_from(&mut self, source: usize, datagram: &[u8]) {
        self.book(datagram);
        let (socket, to) = &self.sources[source % self.sources.len()];
        assert_eq!(socket.send_to(datagram, to).unwrap(), datagram.len());
        let address = self.site.udp.iter().position(|udp| udp == to).unwrap();
        self.sent[address] += 1;
    }

    /// Sends one datagram to the first address through a socket of the caller's.
    pub(crate) fn send_through(&mut self, socket: &UdpSocket, datagram: &[u8]) {
        self.book(datagram);
        let sent = socket.send_to(datagram, self.site.udp[0]).unwrap();
        assert_eq!(sent, datagram.len());
        self.sent[0] += 1;
    }

    /// Waits until there is room for one more datagram.
    fn book(&mut self, datagram: &[u8]) {
        // The kernel books up to a page more for each, and pages in powers of two.
        let booked = datagram.len() * 2 + 4096;
        if self.in_flight > 0 && self.in_flight + booked > self.room {
            self.settle();
        }
        self.in_flight += booked;
    }

    /// Sends one datagram.
    pub(crate) fn send(&mut self, datagram: &[u8]) {
        self.send_from(0, datagram);
    }

    /// All datagrams so far, those of before this sender included.
    pub(crate) fn total(&self) -> u64 {
        self.before + self.sent.iter().sum::<u64>()
    }

    /// Waits until all that was sent has been taken by the receivers.
    pub(crate) fn settle(&mut self) {
        let total = self.total();
        await_condition("the receivers have taken all", || {
            let status = self.site.status();
            let came = status.count("datagrams_received") + status.count("kernel_drops");
            if came == total { Ok(()) } else { Err(status) }
        });
        self.in_flight = 0;
    }

    /// Waits until all that was sent has become rows or is counted, and gives the counters.
    #[track_caller]
    pub(crate) fn at_rest(&self) -> Status {
        let status = self.site.at_rest(self.total());
        assert_eq!(status.count("kernel_drops"), 0, "{status:?}");
        status
    }
}
