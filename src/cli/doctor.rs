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
use std::time::UNIX_EPOCH;

use clap::Args as FlagGroup;

use super::client::{AccessFlags, Client, ClientError};
use super::format::visible;
use super::{Failure, check, print};
use crate::access::certificate::{AUTHORITY, moment, validity_remark};
use crate::access::tls;
use crate::config::units::rounded_bytes;
use crate::config::{Config, ConfigFlags, TlsFiles};
use crate::daemon::memory_limit;
use crate::daemon::memory_plan::{MemoryPlan, counted};
use crate::daemon::{self, StartError};
use crate::input::squid::tcp::CONNECTIONS_MAX;
use crate::input::udp::kernel;
use crate::input::udp::socket;
use crate::value::text::{joined, mebibytes};

pub(super) mod folders;
mod inputs;
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
    fn right(what: &'static str, found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Right, what, found: found.into(), change: String::new() }
    }

    fn better(what: &'static str, found: impl Into<String>, change: impl Into<String>) -> Self {
        Self { verdict: Verdict::Better, change: change.into(), ..Self::right(what, found) }
    }

    fn wrong(what: &'static str, found: impl Into<String>, change: impl Into<String>) -> Self {
        Self { verdict: Verdict::Wrong, ..Self::better(what, found, change) }
    }

    /// Returns the finding unchanged if `holds`, else with what would be better.
    fn unless(self, holds: bool, change: impl Into<String>) -> Self {
        if holds { self } else { Self::better(self.what, self.found, change) }
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
        Finding::wrong("memory limit", error.to_string().replace("memory: ", ""), "")
    }));
    print(&joined(&findings, "\n"))?;
    match findings.iter().any(|it| it.verdict == Verdict::Wrong) {
        true => Err(Failure::reported()),
        false => Ok(()),
    }
}

/// Names the flag of this command in advice about `--url`, which it does not have.
fn with_flag(mut failure: Failure, flag: &str) -> Failure {
    for problem in &mut failure.problems {
        *problem = problem.replace(" or --http", "").replace("--url", flag);
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
            Finding::better(what, format!("{url} is ready, but: {}", visible(&detail)), "")
        }
        Err(error @ ClientError::Refused { status: 503, .. }) => {
            Finding::wrong(what, format!("{url}: {error}"), "")
        }
        Err(error) => {
            let found = format!("{url} does not say whether it is ready: {error}");
            Finding::better(what, found, error.advice().unwrap_or_default())
        }
    }
}

/// Examines everything; `serving` is the URL of a pinbad that has the HTTP address of the
/// configuration already.
fn examine(config: &Config, serving: Option<&str>) -> Vec<Finding> {
    let ingest = &config.ingest;
    let requested = ingest.recv_buffer;
    // Closed again at once.
    let opened = socket::open(&ingest.listen, ingest.receivers, requested)
        .map(|sockets| sockets.iter().map(|socket| socket.buffer).collect::<Vec<_>>());
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
    findings.push(inputs::udp(config, opened, serving));
    findings.extend(inputs::spans(config, serving));
    if !findings.iter().any(|finding| finding.what == OTLP) {
        findings.extend(check::pushes(config).map(|push| Finding::right(OTLP, push)));
    }
    findings.extend(inputs::squids(config, serving));
    findings.extend(inputs::stats(config));
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
    Finding::right("kernel memory", found).unless(ours <= allowed, change)
}

/// Says how long the buffers last.
fn traffic(plan: &MemoryPlan) -> Finding {
    let backlog = plan.backlog.iter().map(|backlog| {
        let secs = backlog.ring_secs + backlog.kernel_secs;
        format!("{secs:.1} s at {}/s", backlog.packets_per_second)
    });
    let backlog = joined(backlog, ", ");
    Finding::right("buffers", format!("while the daemon stands still they hold {backlog}"))
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
    Some(Finding::right("descriptors", found).unless(limit >= needed, change))
}

/// Checks whether the memory plan fits the memory of the machine or control group.
fn memory(plan: &MemoryPlan) -> Option<Finding> {
    let needed = plan.needed_bytes();
    let available = available()?;
    let found = format!(
        "{} available; the plan needs up to {}, socket buffers included",
        mebibytes(available),
        mebibytes(needed)
    );
    let change = "smaller pools (`pinbad check` shows what each takes), or more memory";
    Some(match needed <= available {
        true => Finding::right("memory", found),
        false => Finding::wrong("memory", found, change),
    })
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
    Finding::right("cores", found).unless(fits, change)
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
        Some(Finding::wrong(what, error.to_string(), ""))
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
    let (shown, validity) = (files.cert.display(), acceptor.validity);
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let mut finding = match (validity.as_ref().and_then(validity_remark), &validity) {
        (Some(remark), Some(validity)) if !validity.contains(&now) => {
            let change = "use another certificate, or check the clock of this machine";
            Finding::wrong(TLS, format!("{shown} {remark}"), change)
        }
        (Some(remark), _) => Finding::better(TLS, format!("{shown} {remark}"), ""),
        (None, validity) => {
            let until = validity.as_ref().map(|it| format!(" until {}", moment(*it.end())));
            let until = until.unwrap_or_default();
            Finding::right(TLS, format!("{shown} can be used with the key{until}"))
        }
    };
    if acceptor.is_authority && finding.verdict != Verdict::Wrong {
        finding.verdict = Verdict::Better;
        finding.found += &format!("; it {AUTHORITY}");
    }
    Some(finding)
}

#[cfg(test)]
mod tests;
