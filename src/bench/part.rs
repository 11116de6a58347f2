//! The parts that are compared, each a child process: started, asked, measured, stopped.
//!
//! A child is this very program with a hidden subcommand. It is told to end when the process that started it is gone,
//! stands in a process group of its own, so that Ctrl-C at the terminal reaches only us, and is killed by its number
//! when its [`Part`] is dropped. Processor time is that of all its threads, from `/proc`, in nanoseconds.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde_json::Value as Json;

use super::client::Client;
use super::options::{BenchOptions, BenchPart};
use super::{BenchError, sink};

/// How long a part may take to start.
const START_MAX: Duration = Duration::from_secs(20);
/// How long a part may take to end when it is asked to; then it is killed.
const STOP_MAX: Duration = Duration::from_secs(12);

/// Runs a hidden part in this process.
///
/// # Errors
/// When it cannot start.
pub fn run_part(part: BenchPart) -> std::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    match part {
        BenchPart::Sink {
            receivers,
            recv_buffer,
        } => sink::run(receivers, recv_buffer),
        // The wish to end with the parent survives this.
        BenchPart::Serve { arguments } => Err(Command::new(std::env::current_exe()?)
            .arg("serve")
            .args(arguments)
            .exec()),
    }
}

/// What a part has counted since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Packets that reached the end of the part: thrown away by the sink, merged or refused by the daemon.
    pub(super) done: u64,
    /// Packets that the kernel had no room for.
    pub(super) dropped: u64,
    /// Requests that the daemon's temporary pool had no room for.
    pub(super) overwritten: u64,
}

impl Counts {
    /// Packets whose fate is known.
    pub(super) const fn settled(&self) -> u64 {
        self.done + self.dropped + self.overwritten
    }

    /// Packets lost.
    pub(super) const fn lost(&self) -> u64 {
        self.dropped + self.overwritten
    }
}

/// A running child.
#[derive(Debug)]
pub(super) struct Part {
    name: &'static str,
    child: Child,
    /// Where it receives.
    pub(super) udp: SocketAddr,
    /// Receive buffer that the kernel granted each socket, bytes.
    pub(super) granted_bytes: u64,
    /// Where it answers; the sink does not.
    pub(super) http: Option<SocketAddr>,
    asked: Asked,
}

/// How a part is asked for its counts.
#[derive(Debug)]
enum Asked {
    Sink {
        to: ChildStdin,
        from: BufReader<ChildStdout>,
    },
    Daemon(Client),
}

impl Part {
    /// The bare loop.
    pub(super) fn sink(options: &BenchOptions) -> Result<Self, BenchError> {
        let name = "the bare loop";
        let failed = |problem: String| BenchError::Part {
            part: name,
            problem,
        };
        let mut child = spawn(
            name,
            Command::new(program(name)?)
                .args(["bench-part", "sink", "--receivers"])
                .arg(options.receivers().to_string())
                .arg("--recv-buffer")
                .arg(options.recv_buffer.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit()),
        )?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (to, from) = pipes.ok_or_else(|| failed("no pipes".to_owned()))?;
        let mut from = BufReader::new(from);
        let mut line = String::new();
        let said = from.read_line(&mut line).ok().and_then(|_| {
            let (address, granted) = line.trim().split_once(' ')?;
            Some((address.parse().ok()?, granted.parse().ok()?))
        });
        let Some((udp, granted_bytes)) = said else {
            stop(&mut child);
            return Err(failed(format!("it did not start: {line:?}")));
        };
        Ok(Self {
            name,
            child,
            udp,
            granted_bytes,
            http: None,
            asked: Asked::Sink { to, from },
        })
    }

    /// `pinbad serve` with these settings beside those of the options.
    pub(super) fn daemon(options: &BenchOptions, settings: &[String]) -> Result<Self, BenchError> {
        let name = "the daemon";
        let mut command = Command::new(program(name)?);
        command
            .args(["bench-part", "serve", "--", "--log-format", "json"])
            .args(["--udp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--mysql", ""])
            .args([
                "--set",
                &format!("ingest.recv_buffer={}", options.recv_buffer),
            ]);
        if !settings
            .iter()
            .any(|setting| setting.starts_with("ingest.receivers="))
        {
            command.args([
                "--set",
                &format!("ingest.receivers={}", options.receivers()),
            ]);
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        // What configures a daemon of this machine is none of ours.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("PINBAD_") {
                command.env_remove(variable);
            }
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = spawn(name, &mut command)?;
        let log = log_of(&mut child);
        match addresses(&log) {
            Ok((udp, http, granted_bytes)) => {
                // Else its log would fill the pipe and it would wait for us to read it.
                thread::spawn(move || log.iter().count());
                let client = Client::connect(http);
                let client = client.map_err(|error| BenchError::Part {
                    part: name,
                    problem: error.to_string(),
                });
                match client {
                    Ok(client) => Ok(Self {
                        name,
                        child,
                        udp,
                        granted_bytes,
                        http: Some(http),
                        asked: Asked::Daemon(client),
                    }),
                    Err(error) => {
                        stop(&mut child);
                        Err(error)
                    }
                }
            }
            Err(problem) => {
                stop(&mut child);
                Err(BenchError::Part {
                    part: name,
                    problem,
                })
            }
        }
    }

    /// What it has counted so far.
    pub(super) fn counts(&mut self) -> Result<Counts, BenchError> {
        let counts = match &mut self.asked {
            Asked::Sink { to, from } => ask_sink(to, from),
            Asked::Daemon(client) => ask_daemon(client),
        };
        counts.map_err(|error| self.failed(&error))
    }

    /// The daemon's `/api/v1/status`.
    pub(super) fn status(&mut self) -> Result<Json, BenchError> {
        self.get("/api/v1/status")
    }

    /// What the daemon answers to a question.
    pub(super) fn get(&mut self, path: &str) -> Result<Json, BenchError> {
        let answer = match &mut self.asked {
            Asked::Daemon(client) => client.json(path),
            Asked::Sink { .. } => Err(std::io::Error::other("the sink has no HTTP")),
        };
        answer.map_err(|error| self.failed(&error))
    }

    /// Processor time of each of its threads so far, by thread number.
    pub(super) fn cpu(&self) -> Cpu {
        let mut threads = HashMap::new();
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in std::fs::read_dir(tasks).into_iter().flatten().flatten() {
            let spent = std::fs::read_to_string(task.path().join("schedstat")).ok();
            let spent = spent.and_then(|line| line.split(' ').next()?.parse().ok());
            let name = std::fs::read_to_string(task.path().join("comm"));
            if let (Some(nanos), Ok(name)) = (spent, name) {
                threads.insert(task.file_name(), (name, Duration::from_nanos(nanos)));
            }
        }
        Cpu(threads)
    }

    /// Memory of it that is in RAM, bytes.
    pub(super) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    pub(super) fn failed(&self, problem: &dyn std::fmt::Display) -> BenchError {
        BenchError::Part {
            part: self.name,
            problem: problem.to_string(),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// Processor time, user and system, by thread: its number, its name.
#[derive(Debug)]
pub(super) struct Cpu(HashMap<std::ffi::OsString, (String, Duration)>);

impl Cpu {
    /// What was spent since `before`; of threads that ended in between, nothing.
    pub(super) fn since(&self, before: &Self) -> Duration {
        self.of_threads_since(before, |_| true)
    }

    /// The same, of threads with such names.
    pub(super) fn of_threads_since(&self, before: &Self, named: fn(&str) -> bool) -> Duration {
        let threads = self.0.iter().filter(|(_, (name, _))| named(name));
        let spent = threads.map(|(thread, (_, after))| {
            let before = before
                .0
                .get(thread)
                .map_or(Duration::ZERO, |(_, spent)| *spent);
            after.saturating_sub(before)
        });
        spent.sum()
    }
}

fn program(part: &'static str) -> Result<std::path::PathBuf, BenchError> {
    std::env::current_exe().map_err(|error| BenchError::Part {
        part,
        problem: format!("cannot find this program: {error}"),
    })
}

fn spawn(part: &'static str, command: &mut Command) -> Result<Child, BenchError> {
    command
        .process_group(0)
        .spawn()
        .map_err(|error| BenchError::Part {
            part,
            problem: format!("cannot start it: {error}"),
        })
}

/// Asks for an end, waits, and kills what does not end.
fn stop(child: &mut Child) {
    // A sink ends with its stdin.
    drop(child.stdin.take());
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(number) = number
        && ended(child).is_none()
    {
        // It may have ended in this moment: then there is nothing to do.
        let _told = kill_process(number, Signal::TERM);
    }
    let deadline = Instant::now() + STOP_MAX;
    while ended(child).is_none() {
        if Instant::now() > deadline {
            let _killed = child.kill();
            let _reaped = child.wait();
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn ended(child: &mut Child) -> Option<ExitStatus> {
    child.try_wait().ok().flatten()
}

/// The lines that a child writes to its log.
fn log_of(child: &mut Child) -> Receiver<String> {
    let (lines, log) = mpsc::channel();
    if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    break;
                }
            }
        });
    }
    log
}

/// Waits until a daemon's log has named its addresses: UDP, HTTP, and the receive buffer granted.
fn addresses(log: &Receiver<String>) -> Result<(SocketAddr, SocketAddr, u64), String> {
    let deadline = Instant::now() + START_MAX;
    let (mut udp, mut granted, mut last) = (None, 0, String::new());
    loop {
        let line = match log.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(format!("it does not start: {last}")),
            Err(RecvTimeoutError::Disconnected) => return Err(format!("it ended: {last}")),
        };
        let entry: Json = serde_json::from_str(&line).unwrap_or_default();
        let address = entry["address"].as_str().and_then(|text| text.parse().ok());
        match entry["message"].as_str() {
            Some("Receiving.") => {
                udp = udp.or(address);
                granted = entry["granted_bytes"].as_u64().unwrap_or(0);
            }
            Some("Listening for HTTP.") => {
                if let (Some(udp), Some(http)) = (udp, address) {
                    return Ok((udp, http, granted));
                }
            }
            _ => {}
        }
        last = line;
    }
}

fn ask_sink(to: &mut ChildStdin, from: &mut BufReader<ChildStdout>) -> std::io::Result<Counts> {
    to.write_all(b"\n")?;
    to.flush()?;
    let mut line = String::new();
    from.read_line(&mut line)?;
    let numbers: Vec<u64> = line
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    let [done, dropped] = numbers[..] else {
        return Err(std::io::Error::other(format!("it said {line:?}")));
    };
    Ok(Counts {
        done,
        dropped,
        overwritten: 0,
    })
}

fn ask_daemon(client: &mut Client) -> std::io::Result<Counts> {
    let status = client.json("/api/v1/status")?;
    let number = |name: &str| {
        let of = status[name].as_u64();
        of.ok_or_else(|| std::io::Error::other(format!("no {name} in its status")))
    };
    Ok(Counts {
        // What `load` sends is valid and holds one request each; what is not would be missing here and be seen.
        done: number("requests_merged")?,
        dropped: number("kernel_drops")?,
        overwritten: number("requests_overwritten")?,
    })
}
