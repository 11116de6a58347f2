//! `pinbad doctor`: is this machine set up for what the configuration asks of it?
//!
//! Looks at what the kernel grants (receive buffers, descriptors, memory), whether the addresses can be had, whether secrets and
//! certificates can be read and `state.dir` can be written or made, and says for each what to change and how. It binds what
//! `serve` would bind, for a moment; a daemon that runs already is therefore found "in use". Called by `main`; changes nothing
//! and stops nothing. What cannot be read (no `/proc`, no permission) is left out.

use std::fmt;
use std::fs;
use std::net::TcpListener;

use crate::config::Config;
use crate::config::units::{exact_bytes, rounded_bytes};
use crate::daemon::{self, StartError};
use crate::ingest::kernel;
use crate::ingest::socket::{self, RecvBuffer, SocketError};
use crate::plan::MemoryPlan;
use crate::state::{self, Standing, StateError};

/// Descriptors beside connections and UDP sockets: log, runtimes, snapshot files.
const DESCRIPTORS_BESIDE: u64 = 64;

const USERS: &str = "users";
const TLS: &str = "TLS";
const STATE_DIR: &str = "state.dir";

/// What was found about one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether something should be changed.
    pub verdict: Verdict,
    /// What was looked at.
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// What to change, as commands or settings; empty when nothing.
    pub change: String,
}

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Right as it is.
    Right,
    /// It works, and would work better.
    Better,
    /// `serve` would fail, or lose packets, or could not write what is to survive a restart.
    Wrong,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.verdict {
            Verdict::Right => "ok    ",
            Verdict::Better => "better",
            Verdict::Wrong => "wrong ",
        };
        write!(f, "{mark}  {:<17} {}", self.what, self.found)?;
        for line in self.change.lines() {
            write!(f, "\n{:26}-> {line}", "")?;
        }
        Ok(())
    }
}

/// Looks at everything.
#[must_use]
pub fn examine(config: &Config) -> Vec<Finding> {
    let ingest = &config.ingest;
    let asked = ingest.recv_buffer_bytes;
    // Open only for the question.
    let opened = socket::open(&ingest.listen, ingest.receivers, asked).map(|sockets| {
        let buffers = sockets.iter().map(|socket| socket.buffer);
        buffers.collect::<Vec<_>>()
    });
    let buffers = match &opened {
        Ok(buffers) => buffers.clone(),
        // Somebody has the address; what would be granted can be asked all the same.
        Err(_) => socket::grantable(asked).map_or_else(
            |_| Vec::new(),
            |buffer| vec![buffer; ingest.listen.len() * ingest.receivers],
        ),
    };
    let allowed = kernel::udp_memory_max();
    let plan = MemoryPlan::of(config).granted(&buffers, allowed);
    let mut findings = configured(config);
    findings.push(udp(config, opened));
    findings.extend(front("HTTP", "http.listen", config.http.listen));
    if cfg!(feature = "sql") {
        findings.extend(front("MySQL", "mysql.listen", config.mysql.listen));
    }
    findings.extend(allowed.map(|allowed| udp_memory(&plan, allowed)));
    findings.push(traffic(&plan));
    findings.extend(descriptors(config));
    findings.extend(memory(&plan, allowed));
    findings.push(cores(config));
    findings.extend(state_dir(config));
    findings
}

fn right(what: &'static str, found: String) -> Finding {
    Finding {
        verdict: Verdict::Right,
        what,
        found,
        change: String::new(),
    }
}

/// Whether the UDP addresses could be had, and what buffers their sockets got.
fn udp(config: &Config, opened: Result<Vec<RecvBuffer>, SocketError>) -> Finding {
    let ingest = &config.ingest;
    let asked = ingest.recv_buffer_bytes;
    match opened {
        Err(error) => Finding {
            verdict: Verdict::Wrong,
            what: "UDP",
            found: error.to_string(),
            change: String::new(),
        },
        Ok(buffers) => {
            let granted = buffers.iter().map(|buffer| buffer.granted_bytes).min();
            let granted = granted.unwrap_or_default();
            let found = format!(
                "{} can be had; each socket gets {} of receive buffer",
                ingest
                    .listen
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", "),
                rounded_bytes(granted as u64)
            );
            if granted >= asked {
                return right("UDP", found);
            }
            Finding {
                verdict: Verdict::Better,
                what: "UDP",
                found: format!(
                    "{found}, {} are asked for (ingest.recv_buffer)",
                    exact_bytes(asked as u64)
                ),
                change: format!(
                    "sysctl -w net.core.rmem_max={asked}     (and in /etc/sysctl.d/ for the next boot)\n\
                     or give the program CAP_NET_ADMIN: setcap cap_net_admin+ep PATH, AmbientCapabilities= in systemd"
                ),
            }
        }
    }
}

/// Binds a front end's address.
fn front(what: &'static str, key: &str, address: Option<std::net::SocketAddr>) -> Option<Finding> {
    let address = address?;
    Some(match TcpListener::bind(address) {
        Ok(_) => right(what, format!("{address} can be had")),
        Err(error) => Finding {
            verdict: Verdict::Wrong,
            what,
            found: format!("{address} cannot be had: {error}"),
            change: format!("stop what listens there (a pinbad that runs?), or change {key}"),
        },
    })
}

/// What all UDP sockets of the machine may hold together.
fn udp_memory(plan: &MemoryPlan, allowed: u64) -> Finding {
    let ours = plan.kernel.bytes;
    let found = format!(
        "all UDP sockets of this machine may hold {}; ours may come to {}",
        rounded_bytes(allowed),
        rounded_bytes(ours)
    );
    if ours <= allowed {
        return right("kernel memory", found);
    }
    let wanted = ours / rustix::param::page_size() as u64 * 5 / 4;
    Finding {
        verdict: Verdict::Better,
        what: "kernel memory",
        found,
        change: format!(
            "sysctl -w net.ipv4.udp_mem=\"{} {} {wanted}\", or a smaller ingest.recv_buffer",
            wanted / 2,
            wanted * 3 / 4
        ),
    }
}

/// How long the buffers last.
fn traffic(plan: &MemoryPlan) -> Finding {
    let spans: Vec<String> = plan
        .backlog
        .iter()
        .map(|backlog| {
            format!(
                "{:.1} s at {}/s",
                backlog.ring_secs + backlog.kernel_secs,
                backlog.packets_per_second
            )
        })
        .collect();
    right(
        "buffers",
        format!(
            "if the daemon stood still they would hold {}",
            spans.join(", ")
        ),
    )
}

/// Whether connections and sockets fit under the limit of descriptors.
fn descriptors(config: &Config) -> Option<Finding> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    let sockets = (config.ingest.listen.len() * config.ingest.receivers) as u64;
    let needed = sockets
        + DESCRIPTORS_BESIDE
        + crate::http::HttpSettings::new(Vec::new()).connections_max as u64
        + config.mysql_limits.connections_max as u64;
    let found = format!("{limit} may be open, {needed} may be needed");
    if limit >= needed {
        return Some(right("descriptors", found));
    }
    Some(Finding {
        verdict: Verdict::Better,
        what: "descriptors",
        found,
        change: format!("ulimit -n {needed}, or LimitNOFILE={needed} in systemd"),
    })
}

/// Whether what the plan says fits into what the machine, or its control group, has.
fn memory(plan: &MemoryPlan, allowed: Option<u64>) -> Option<Finding> {
    // Sockets hold no more than that together, whatever each of them may.
    let sockets = allowed.map_or(plan.kernel.bytes, |allowed| allowed.min(plan.kernel.bytes));
    let needed = plan.total_bytes() + sockets;
    let has = available()?;
    let found = format!(
        "{} available; the plan comes to {}, socket buffers included",
        rounded_bytes(has),
        rounded_bytes(needed)
    );
    if needed <= has {
        return Some(right("memory", found));
    }
    Some(Finding {
        verdict: Verdict::Wrong,
        what: "memory",
        found,
        change: "smaller pools (`pinbad check` shows what takes how much), or more memory"
            .to_owned(),
    })
}

/// Bytes that can be had: of the machine, and under the limit of the control group if there is one.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = group
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(u64::MAX);
    Some((kib * 1024).min(limit))
}

fn cores(config: &Config) -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let receivers = config.ingest.receivers * config.ingest.listen.len();
    let found = format!(
        "{cores}; {} and a merger want one each",
        if receivers == 1 {
            "1 receiver".to_owned()
        } else {
            format!("{receivers} receivers")
        }
    );
    if receivers < cores {
        return right("cores", found);
    }
    Finding {
        verdict: Verdict::Better,
        what: "cores",
        found,
        change: format!(
            "ingest.receivers = {}",
            (cores.saturating_sub(1) / config.ingest.listen.len().max(1)).max(1)
        ),
    }
}

/// What `pinbad check` would refuse, and the secrets and certificates that it would not. What it says of `state.dir` is left to
/// [`state_dir`].
fn configured(config: &Config) -> Vec<Finding> {
    let errors = daemon::check(config).err().unwrap_or_default();
    let wrong = errors.iter().filter_map(|error| {
        let what = match error {
            StartError::Report(_) | StartError::Choice { .. } => "reports",
            StartError::User(_) => USERS,
            StartError::Tls(_) => TLS,
            StartError::Socket(_)
            | StartError::Http { .. }
            | StartError::MySql { .. }
            | StartError::State(_)
            | StartError::Handed(_)
            | StartError::Thread { .. } => return None,
        };
        Some(Finding {
            verdict: Verdict::Wrong,
            what,
            found: error.to_string(),
            change: String::new(),
        })
    });
    let mut findings: Vec<Finding> = wrong.collect();
    let is_wrong = |what| findings.iter().any(|finding| finding.what == what);
    let users = config.users.len();
    let mut fine = Vec::new();
    if users > 0 && !is_wrong(USERS) {
        fine.push(right(
            USERS,
            format!("{users} configured; their secrets can be read"),
        ));
    }
    let tls: Vec<String> = [&config.http.tls, &config.mysql.tls]
        .into_iter()
        .flatten()
        .map(|files| files.cert.display().to_string())
        .collect();
    if !tls.is_empty() && !is_wrong(TLS) {
        fine.push(right(
            TLS,
            format!("{} can be used with the key", tls.join(", ")),
        ));
    }
    findings.extend(fine);
    findings
}

/// Whether `state.dir` can be written to, or made.
fn state_dir(config: &Config) -> Option<Finding> {
    let dir = config.state_dir.as_deref()?;
    let error = match state::examine(dir) {
        Ok(Standing::There) => {
            return Some(right(
                STATE_DIR,
                format!("{} can be written", dir.display()),
            ));
        }
        Ok(Standing::Missing { .. }) => {
            return Some(right(
                STATE_DIR,
                format!("{} will be created", dir.display()),
            ));
        }
        Err(error) => error,
    };
    let change = match error {
        StateError::Folder { .. } | StateError::Unwritable { .. } => {
            format!("mkdir -p {0} && chown USER {0}", dir.display())
        }
        StateError::InUse { .. }
        | StateError::NotAFolder { .. }
        | StateError::Unreadable { .. } => String::new(),
    };
    let said = error.to_string();
    let found = said.strip_prefix("state.dir: ").unwrap_or(&said);
    Some(Finding {
        verdict: Verdict::Wrong,
        what: STATE_DIR,
        found: found.to_owned(),
        change,
    })
}

#[cfg(test)]
mod tests;
