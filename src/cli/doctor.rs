//! `pinbad doctor`: checks whether this machine is set up for what the configuration asks of it.
//!
//! Checks what the kernel grants (receive buffers, descriptors, memory), whether the addresses can
//! be bound, whether secrets and certificates can be read, whether `state.dir` and `history.dir`
//! can be written or created, and says for each what to change and how. It briefly binds the
//! addresses of `serve`, so those of a running daemon are reported as in use. Changes nothing.
//! Unreadable sources (no `/proc`, no permission) are skipped.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::process::Command;
use std::time::UNIX_EPOCH;

use clap::Args as FlagGroup;

use super::client::{AccessFlags, Client, ClientError};
use super::format::visible;
use super::{Failure, check, print};
use crate::access::certificate::{AUTHORITY, DAYS_LEFT, moment};
use crate::access::tls;
use crate::config::units::{exact_bytes, rounded_bytes};
use crate::config::{Config, ConfigFlags, SquidFrom, TlsFiles};
use crate::daemon::memory_limit;
use crate::daemon::memory_plan::{MemoryPlan, counted};
use crate::daemon::{self, StartError};
use crate::input::squid::file;
use crate::input::squid::tcp::CONNECTIONS_MAX;
use crate::input::stat::client;
use crate::input::udp::kernel;
use crate::input::udp::socket::{self, RecvBuffer, SocketError};
use crate::shutdown::Shutdown;

pub(super) mod folders;
mod running;

/// Descriptors in addition to connections and UDP sockets: log, runtimes, snapshot files.
const DESCRIPTORS_BESIDE: u64 = 64;

const USERS: &str = "users";
const TLS: &str = "TLS";
const OTLP: &str = "OTLP";
const STATE_DIR: &str = "state.dir";
const HISTORY_DIR: &str = "history.dir";

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    verdict: Verdict,
    /// The thing checked.
    what: &'static str,
    found: String,
    /// The change to make, as commands or settings; empty if none.
    change: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right,
    /// It works, but could work better.
    Better,
    /// `serve` would fail, lose packets, or fail to write data that should survive a restart.
    Wrong,
}

impl Finding {
    fn right(what: &'static str, found: String) -> Self {
        Self { verdict: Verdict::Right, what, found, change: String::new() }
    }

    fn wrong(what: &'static str, found: String, change: String) -> Self {
        Self::right(what, found).unless(false, Verdict::Wrong, change)
    }

    /// Returns the finding unchanged if `holds`, else with this verdict and change.
    fn unless(self, holds: bool, verdict: Verdict, change: String) -> Self {
        match holds {
            true => self,
            false => Self { verdict, change, ..self },
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.verdict {
            Verdict::Right => "ok    ",
            Verdict::Better => "better",
            Verdict::Wrong => "wrong ",
        };
        let found = self.found.replace('\n', &format!("\n{:26}", ""));
        write!(f, "{mark}  {:<17} {found}", self.what)?;
        for line in self.change.lines() {
            write!(f, "\n{:26}-> {line}", "")?;
        }
        Ok(())
    }
}

/// What to look at.
#[derive(Debug, Clone, FlagGroup)]
pub struct DoctorFlags {
    /// What is to be served.
    #[command(flatten)]
    pub config: ConfigFlags,
    /// Say in a sentence what holds a running daemon up most, and check nothing else. Without URL:
    /// the daemon of this configuration.
    #[arg(long, value_name = "URL")]
    pub running: Option<Option<String>>,
    /// Ask a running daemon whether it is ready, for health checks, and check nothing else. Without
    /// URL: the daemon of this configuration.
    #[arg(long, value_name = "URL", conflicts_with = "running")]
    pub ready: Option<Option<String>>,
    /// As whom, and whose signature counts.
    #[command(flatten)]
    pub access: AccessFlags,
}

/// Checks everything and prints the findings.
///
/// # Errors
/// Fails if the configuration is invalid, a finding is wrong, or no daemon answers.
pub fn execute(flags: &DoctorFlags) -> Result<(), Failure> {
    if let Some(url) = &flags.running {
        let done = asked(flags, url.as_deref()).and_then(|client| running::execute(&client));
        return done.map_err(|failure| with_flag(failure, "--running URL"));
    }
    if let Some(url) = &flags.ready {
        let done = asked(flags, url.as_deref()).and_then(|client| running::ready(&client));
        return done.map_err(|failure| with_flag(failure, "--ready URL"));
    }
    let mut config = Config::from_environment(&flags.config)?;
    let too_much = memory_limit::fit(&mut config).err();
    let serving = url(&config).filter(|url| running::serves(url));
    let mut findings = examine(&config, serving.as_deref());
    if let Some(url) = &serving {
        findings.push(readiness(url, Client::at(url, &flags.access.trusting(&config))));
    }
    findings.extend(too_much.map(|error| {
        let found = error.to_string();
        Finding::wrong("memory limit", found.replace("memory: ", ""), String::new())
    }));
    let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
    print(&text.join("\n"))?;
    match findings.iter().any(|it| it.verdict == Verdict::Wrong) {
        true => Err(Failure::reported()),
        false => Ok(()),
    }
}

/// Names the flag of this command in advice about `--url`, which it does not have.
fn with_flag(mut failure: Failure, flag: &str) -> Failure {
    for problem in &mut failure.problems {
        *problem = problem.replace("--url", flag);
    }
    failure
}

/// A client for the URL given, or for the daemon which the configuration describes, whose own
/// certificate is then trusted.
fn asked(flags: &DoctorFlags, given: Option<&str>) -> Result<Client, Failure> {
    if let Some(given) = given {
        return Ok(Client::at(given, &flags.access)?);
    }
    let config = Config::from_environment(&flags.config)?;
    let nothing = "http.listen = \"\": there is nothing to ask; accepted: an address, or a URL behind --running or --ready";
    let url = url(&config).ok_or_else(|| Failure::usage(nothing))?;
    Ok(Client::at(&url, &flags.access.trusting(&config))?)
}

/// Where the daemon of a configuration answers on this machine; `None` without HTTP.
pub(super) fn url(config: &Config) -> Option<String> {
    let http = config.http.front();
    let scheme = http.tls().map_or("http", |_| "https");
    Some(format!("{scheme}://{}", daemon::local(http.listen?)))
}

/// Says that an address or folder is in use by the pinbad at `url`.
fn used(what: &'static str, used: impl fmt::Display, url: &str) -> Finding {
    let found = format!("{used} is in use: pinbad serves at {url}; --ready and --running ask it");
    Finding::right(what, found)
}

/// What the daemon at `url` says about itself.
fn readiness(url: &str, client: Result<Client, ClientError>) -> Finding {
    let what = "daemon";
    let client = client.map(|client| client.patient_for(running::HEALTH_MAX));
    match client.and_then(|client| running::readiness(&client)) {
        Ok(None) => Finding::right(what, format!("{url} is ready")),
        Ok(Some(detail)) => {
            let found = format!("{url} is ready, but: {}", visible(&detail));
            Finding::right(what, found).unless(false, Verdict::Better, String::new())
        }
        Err(error @ ClientError::Refused { status: 503, .. }) => {
            Finding::wrong(what, format!("{url}: {error}"), String::new())
        }
        Err(error) => {
            let found = format!("{url} does not say whether it is ready: {error}");
            let change = error.advice().unwrap_or_default().to_owned();
            Finding::right(what, found).unless(false, Verdict::Better, change)
        }
    }
}

/// Examines everything; `serving` is the URL of a pinbad that has the HTTP address of the
/// configuration already.
fn examine(config: &Config, serving: Option<&str>) -> Vec<Finding> {
    let ingest = &config.ingest;
    let requested = ingest.recv_buffer;
    // Closed again at once.
    let opened = socket::open(&ingest.listen, ingest.receivers, requested).map(|sockets| {
        let buffers = sockets.iter().map(|socket| socket.buffer);
        buffers.collect::<Vec<_>>()
    });
    let buffers = match &opened {
        Ok(buffers) => buffers.clone(),
        // The address is in use, but the buffer the kernel would grant is known all the same.
        Err(_) => socket::grantable(requested).map_or_else(
            |_| Vec::new(),
            |buffer| vec![buffer; ingest.listen.len() * ingest.receivers],
        ),
    };
    let allowed = kernel::udp_memory_max();
    let plan = MemoryPlan::of(config).granted(&buffers, allowed);
    let mut findings = configured(config);
    findings.push(match (opened, serving) {
        (Err(SocketError::InUse { address }), Some(url)) => used("UDP", address, url),
        (Err(SocketError::InUse { address }), None) if is_systemds(address) => {
            let found = format!("{address} is held by {SOCKET_UNIT} of systemd, which starts pinbad and passes it on");
            Finding::right("UDP", found)
        }
        (opened, _) => udp(config, opened),
    });
    findings.extend(otlp_inputs(config, serving));
    if !findings.iter().any(|finding| finding.what == OTLP) {
        findings.extend(check::pushes(config).map(|push| Finding::right(OTLP, push)));
    }
    findings.extend(squids(config, serving));
    findings.extend(stats(config));
    let (http, mysql) = (config.http.listen, config.mysql.listen);
    findings.extend(front("HTTP", "http.listen", http, serving));
    if cfg!(feature = "sql") {
        findings.extend(front("MySQL", "mysql.listen", mysql, serving));
    }
    findings.extend(allowed.map(|allowed| udp_memory(&plan, allowed)));
    findings.push(traffic(&plan));
    findings.extend(descriptors(config));
    findings.extend(memory(&plan));
    findings.push(cores(config));
    findings.extend(folders::kept(config));
    findings.extend(folders::state_dir(config, serving));
    findings.extend(folders::history_dir(config, serving));
    findings
}

/// The unit of the package that holds the UDP socket.
const SOCKET_UNIT: &str = "pinbad.socket";

/// Whether the socket unit is active and holds the port of this address.
fn is_systemds(address: SocketAddr) -> bool {
    let show = ["show", "--property=ActiveState,Listen", SOCKET_UNIT];
    let said = Command::new("systemctl").args(show).output();
    said.is_ok_and(|said| holds(&String::from_utf8_lossy(&said.stdout), address.port()))
}

/// Whether the properties of a socket unit, as systemctl shows them, say that.
fn holds(properties: &str, port: u16) -> bool {
    let wanted = format!(":{port} (Datagram)");
    let listens = |line: &str| line.starts_with("Listen=") && line.ends_with(&wanted);
    properties.lines().any(|line| line == "ActiveState=active") && properties.lines().any(listens)
}

/// Checks whether the UDP addresses can be bound, and the buffers their sockets get.
fn udp(config: &Config, opened: Result<Vec<RecvBuffer>, SocketError>) -> Finding {
    let buffers = match opened {
        Err(error) => return Finding::wrong("UDP", error.to_string(), String::new()),
        Ok(buffers) => buffers,
    };
    let requested = config.ingest.recv_buffer;
    let granted = buffers.iter().map(|buffer| buffer.granted_bytes).min();
    let granted = granted.unwrap_or_default();
    let addresses = config.ingest.listen.iter().map(ToString::to_string);
    let mut found = format!(
        "{} can be bound; each socket gets a receive buffer of {}",
        addresses.collect::<Vec<_>>().join(", "),
        rounded_bytes(granted as u64)
    );
    if granted < requested {
        let requested = exact_bytes(requested as u64);
        found += &format!(", {requested} are requested (ingest.recv_buffer)");
    }
    let change = format!(
        "sysctl -w net.core.rmem_max={requested}     (and in /etc/sysctl.d/ for the next boot)\n\
         or give the program CAP_NET_ADMIN: setcap cap_net_admin+ep PATH, AmbientCapabilities= in systemd"
    );
    Finding::right("UDP", found).unless(granted >= requested, Verdict::Better, change)
}

/// Checks whether the span listeners can be bound.
fn otlp_inputs(config: &Config, serving: Option<&str>) -> Option<Finding> {
    let inputs = config.otlp_inputs.iter();
    let listen: Vec<_> = inputs.map(|input| input.listen.to_string()).collect();
    let found = format!("{} can be bound", listen.join(", "));
    let what = "spans";
    (!listen.is_empty()).then(|| match daemon::otlp::open(config) {
        Ok(_) => Finding::right(what, found),
        Err(error) => not_opened(what, &error, serving),
    })
}

/// The error of an input, unless the pinbad at `serving` has its address.
fn not_opened(what: &'static str, error: &StartError, serving: Option<&str>) -> Finding {
    match (error, serving) {
        (StartError::Input { address, source, .. }, Some(url))
            if source.kind() == ErrorKind::AddrInUse =>
        {
            used(what, address, url)
        }
        _ => Finding::wrong(what, error.to_string(), String::new()),
    }
}

/// Checks whether the Squid log sources are available.
fn squids(config: &Config, serving: Option<&str>) -> Vec<Finding> {
    if config.squids.is_empty() {
        return Vec::new();
    }
    let what = "Squid";
    if let Err(error) = daemon::squid::open(config) {
        return vec![not_opened(what, &error, serving)];
    }
    let found = config.squids.iter().map(|squid| match &squid.from {
        SquidFrom::File(path, _) => match file::check(path) {
            Ok(()) => Finding::right(what, format!("{} can be read", path.display())),
            Err(error) => {
                let found = format!("{} cannot be read now: {error}", path.display());
                let change = match error.kind() {
                    ErrorKind::Other => "name the log itself",
                    _ => "let the daemon's user read it, if it is there (on Debian: group proxy)",
                };
                Finding::right(what, found).unless(false, Verdict::Better, change.to_owned())
            }
        },
        from => Finding::right(what, format!("{from} can be bound")),
    });
    found.collect()
}

/// Checks whether the sockets of stat extensions exist and accept this user.
fn stats(config: &Config) -> Vec<Finding> {
    let sockets = config.stats.iter().flat_map(|stat| {
        let control = stat.control.as_ref().map(|it| ("stat control", it));
        [("stat", &stat.stream)].into_iter().chain(control)
    });
    let found = sockets.map(|(what, address)| match client::connect(address, &Shutdown::new()) {
        Ok(_) => Finding::right(what, format!("{address} can be connected to")),
        Err(error) if client::is_absent(address, &error) => {
            let found = format!(
                "{address} is not there yet: PHP makes it, with zend_extension=stat.so and this address in its php.ini"
            );
            Finding::right(what, found)
        }
        Err(error) => {
            let change = match error.kind() {
                ErrorKind::ConnectionRefused => {
                    "nobody serves it: start PHP, whose stat extension does"
                }
                ErrorKind::PermissionDenied => {
                    "let the daemon's user write to the socket, by a group or chmod"
                }
                _ => "see stat.stream and stat.control in PHP's php.ini",
            };
            let found = format!("{address} cannot be connected to: {error}");
            Finding::right(what, found).unless(false, Verdict::Better, change.to_owned())
        }
    });
    found.collect()
}

/// Checks whether the address of a front end can be bound.
fn front(
    what: &'static str,
    key: &str,
    address: Option<SocketAddr>,
    serving: Option<&str>,
) -> Option<Finding> {
    let address = address?;
    Some(match (TcpListener::bind(address), serving) {
        (Ok(_), _) => Finding::right(what, format!("{address} can be bound")),
        (Err(error), Some(url)) if error.kind() == ErrorKind::AddrInUse => used(what, address, url),
        (Err(error), _) => {
            let change = match error.kind() {
                ErrorKind::PermissionDenied => {
                    format!(
                        "a port from 1024 on in {key}, or the right to use this one (CAP_NET_BIND_SERVICE)"
                    )
                }
                ErrorKind::AddrNotAvailable => format!("an address of this machine in {key}"),
                _ => format!("stop what listens there, or change {key}"),
            };
            Finding::wrong(what, format!("{address} cannot be bound: {error}"), change)
        }
    })
}

/// Checks the limit for all UDP sockets of the machine together.
fn udp_memory(plan: &MemoryPlan, allowed: u64) -> Finding {
    let ours = plan.kernel.bytes;
    let found = format!(
        "all UDP sockets of this machine may hold {}; ours up to {}",
        rounded_bytes(allowed),
        rounded_bytes(ours)
    );
    let pages = ours / rustix::param::page_size() as u64 * 5 / 4;
    let (low, pressure) = (pages / 2, pages * 3 / 4);
    let change = format!(
        "sysctl -w net.ipv4.udp_mem=\"{low} {pressure} {pages}\", or a smaller ingest.recv_buffer"
    );
    Finding::right("kernel memory", found).unless(ours <= allowed, Verdict::Better, change)
}

/// Says how long the buffers last.
fn traffic(plan: &MemoryPlan) -> Finding {
    let backlog = plan.backlog.iter().map(|backlog| {
        let secs = backlog.ring_secs + backlog.kernel_secs;
        format!("{secs:.1} s at {}/s", backlog.packets_per_second)
    });
    let backlog: Vec<String> = backlog.collect();
    let found = format!("while the daemon stands still they hold {}", backlog.join(", "));
    Finding::right("buffers", found)
}

/// Checks whether connections and sockets fit the limit of descriptors.
fn descriptors(config: &Config) -> Option<Finding> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    let sockets = (config.ingest.listen.len() * config.ingest.receivers) as u64;
    let squids = (config.squids.len() * (CONNECTIONS_MAX + 1) + config.stats.len()) as u64;
    let needed = sockets
        + squids
        + DESCRIPTORS_BESIDE
        + (1 + config.otlp_inputs.len() as u64)
            * crate::http::HttpSettings::new(&[]).connections_max as u64
        + config.mysql.connections_max as u64;
    let found = format!("{limit} may be open, {needed} may be needed");
    let change = format!("ulimit -n {needed}, or LimitNOFILE={needed} in systemd");
    let finding = Finding::right("descriptors", found);
    Some(finding.unless(limit >= needed, Verdict::Better, change))
}

/// Checks whether the memory plan fits the memory of the machine or control group.
fn memory(plan: &MemoryPlan) -> Option<Finding> {
    let needed = plan.needed_bytes();
    let available = available()?;
    let found = format!(
        "{} available; the plan needs up to {}, socket buffers included",
        rounded_bytes(available),
        rounded_bytes(needed)
    );
    let change = "smaller pools (`pinbad check` shows what each takes), or more memory".to_owned();
    let finding = Finding::right("memory", found);
    Some(finding.unless(needed <= available, Verdict::Wrong, change))
}

/// Available bytes of the machine, or of its control group if that has fewer.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some((kib * 1024).min(memory_limit::limit().unwrap_or(u64::MAX)))
}

fn cores(config: &Config) -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores_of(cores, config.ingest.listen.len(), config.ingest.receivers)
}

/// Checks whether a machine with that many cores has one for each receiver of each address.
fn cores_of(cores: usize, addresses: usize, each: usize) -> Finding {
    let receivers = each * addresses;
    let found = format!(
        "{cores}; {} and a merger need one each",
        counted(receivers, "receiver", "receivers")
    );
    let fewer = (cores.saturating_sub(1) / addresses.max(1)).max(1);
    let change = match fewer < each {
        true => format!("ingest.receivers = {fewer}"),
        false => "fewer addresses in ingest.listen".to_owned(),
    };
    // One receiver of one address is the least.
    let fits = receivers < cores || receivers <= 1;
    Finding::right("cores", found).unless(fits, Verdict::Better, change)
}

/// The problems that `pinbad check` would find, in configuration, secrets and certificates.
/// `state.dir` is left to the check of that folder.
fn configured(config: &Config) -> Vec<Finding> {
    let errors = daemon::check(config).err().unwrap_or_default();
    let wrong = errors.iter().filter_map(|error| {
        let what = match &error.error {
            StartError::Report(_) | StartError::Choice { .. } => "reports",
            StartError::User(_) => USERS,
            StartError::Tls(_) => TLS,
            StartError::NoHistory => HISTORY_DIR,
            StartError::Push(problem) if problem.starts_with("otlp.") => OTLP,
            StartError::Push(problem) if problem.starts_with("clickhouse.") => "ClickHouse",
            StartError::Alert(_) | StartError::Push(_) => "alerts",
            // The folders have findings of their own.
            _ => return None,
        };
        Some(Finding::wrong(what, error.to_string(), String::new()))
    });
    let mut findings: Vec<Finding> = wrong.collect();
    let is_wrong = |what| findings.iter().any(|finding| finding.what == what);
    let users = config.users.len();
    let users = (users > 0 && !is_wrong(USERS)).then(|| {
        let found = format!("{users} configured; their secrets can be read");
        Finding::right(USERS, found)
    });
    let tls = config.fronts().filter_map(|front| front.tls()).filter(|_| !is_wrong(TLS));
    // Mostly they share one.
    let tls: BTreeMap<_, _> = tls.map(|it| ((it.cert.clone(), it.key.clone()), it)).collect();
    let tls: Vec<Finding> = tls.values().filter_map(certificate).collect();
    findings.extend(users.into_iter().chain(tls));
    findings
}

/// Says how long a certificate remains valid, and whether it is marked as an authority's.
fn certificate(files: &TlsFiles) -> Option<Finding> {
    let acceptor = tls::acceptor(files).ok()?;
    let mut finding = valid(files, acceptor.validity);
    if acceptor.is_authority && finding.verdict != Verdict::Wrong {
        finding.verdict = Verdict::Better;
        finding.found += &format!("; it {AUTHORITY}");
    }
    Some(finding)
}

fn valid(files: &TlsFiles, validity: Option<RangeInclusive<u64>>) -> Finding {
    let shown = files.cert.display();
    let found = format!("{shown} can be used with the key");
    let Some(validity) = validity else {
        return Finding::right(TLS, found);
    };
    let (begin, expires) = validity.into_inner();
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    if now < begin {
        let begin = moment(begin);
        let found = format!("{shown} is not valid before {begin}: clients refuse it until then");
        let change = "check the clock of this machine, or use another certificate".to_owned();
        return Finding::wrong(TLS, found, change);
    }
    let days = expires.saturating_sub(now) / 86_400;
    let change = "renew it; SIGHUP reads the files again".to_owned();
    match now < expires {
        true => {
            Finding::right(TLS, format!("{found}, for {}", counted(days as usize, "day", "days")))
                .unless(days >= DAYS_LEFT, Verdict::Better, change)
        }
        false => Finding::wrong(TLS, format!("{shown} has expired: clients refuse it"), change),
    }
}

#[cfg(test)]
mod tests;
