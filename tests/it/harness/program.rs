//! The program that a user runs: daemons whose ports are read from their logs, and commands that
//! end.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::{GLANCE, PATIENCE, Site, Waiting, all_settings, await_condition};

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
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
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
        Self { site, child, log, reader: Some(reader) }
    }

    /// Memory of it that is in RAM, bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kib = line.split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }

    /// The parts of glibc's heap that are not the main thread's: one an arena, until it holds 64
    /// MiB.
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
        let status =
            await_condition("the program ends", || self.child.try_wait().unwrap().ok_or(()));
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

/// Where `tests/run.sh` has installed clients.
pub(crate) fn clients() -> PathBuf {
    // target/debug/pinbad
    let program = Path::new(env!("CARGO_BIN_EXE_pinbad"));
    program.ancestors().nth(2).unwrap().join("clients")
}

/// A command without the settings that the environment of the tests may have.
pub(crate) fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PINBAD_") {
            command.env_remove(name);
        }
    }
    // Whatever folder this machine has for a daemon that is installed.
    command.env_remove("STATE_DIRECTORY").env("PINBAD_DATA_DIR", "");
    command.stdin(Stdio::null());
    command
}

/// The exit code and output of a command that ended by itself.
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
    Said { code: status.code(), out: out.join().unwrap(), err: err.join().unwrap() }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The addresses that a log in JSON names: UDP, HTTP and MySQL, once it has named that of HTTP.
fn addresses(lines: &[String]) -> Option<(Vec<SocketAddr>, SocketAddr, Option<SocketAddr>)> {
    let (mut udp, mut http, mut mysql) = (Vec::new(), None, None);
    for line in lines {
        let Ok(line) = serde_json::from_str::<Json>(line) else {
            continue;
        };
        if line["message"] != "Ready." {
            continue;
        }
        // It may be followed by whether it has TLS.
        let address = |name: &str| {
            let address = line[name].as_str()?.split(' ').next()?;
            address.parse().ok()
        };
        let all = line["udp"].as_str().unwrap().split(',');
        udp = all.map(|address| address.parse().unwrap()).collect();
        (http, mysql) = (address("http"), address("mysql"));
    }
    http.map(|http| (udp, http, mysql))
}
