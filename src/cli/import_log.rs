//! `pinbad import-log`: imports Squid logs into the history of a running daemon, or replays them as
//! current traffic.
//!
//! Imports go piece by piece over the daemon's HTTP interface; each answer says how much is safely
//! on disk. With `--live`, lines go through a `[[squid]]` entry that listens for connections, which
//! takes lines no faster than they are merged and counts the result of each. Called by `main`, on
//! its thread.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args as FlagGroup;
use socket2::Socket;

use super::client::{AccessFlags, Client};
use super::format::visible;
use super::{Failure, cannot_read, doctor, open};
use crate::config::{Config, SquidFrom};
use crate::daemon::local;
use crate::daemon::memory_plan::counted;
use crate::http::encode;
use crate::input::squid::line::BadLine;
use crate::limits::LOG_PIECE_BYTES_MAX;

/// The flags of `import-log`.
#[derive(Debug, Clone, Default, FlagGroup)]
pub struct ImportLogFlags {
    /// Logs in any of Squid's formats, in the order in which they were written; - for stdin.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Configuration file of the daemon, to find where it listens [default: the defaults].
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The running daemon [default: http.listen of the configuration].
    #[arg(long, visible_alias = "http", value_name = "URL")]
    pub url: Option<String>,
    /// As whom, and whose signature counts.
    #[command(flatten)]
    pub access: AccessFlags,
    /// Hostname of the requests [default: the name of the daemon's first squid entry].
    #[arg(long, value_name = "NAME", conflicts_with = "live")]
    pub name: Option<String>,
    /// Count the lines as if they came now, not in the past.
    #[arg(long)]
    pub live: bool,
    /// Where the daemon listens for Squid's connections [default: the first such entry of squid in
    /// the configuration].
    #[arg(long, value_name = "ADDRESS", requires = "live")]
    pub to: Option<SocketAddr>,
}

/// Refuses the beginning of a packed file, whose lines nobody could read.
fn refuse_packed(path: &Path, begin: &[u8]) -> Result<(), Failure> {
    let path = path.display();
    match begin {
        [0x1f, 0x8b, ..] => Err(Failure::failed(format!(
            "{path}: packed with gzip; accepted: its lines, as from zcat {path} with - in place of the file"
        ))),
        _ => Ok(()),
    }
}

/// Sends the lines of a file, with a newline at its end; returns how many there were. `stdin`
/// stands for the file `-`.
pub(super) fn send_lines(
    path: &Path,
    stdin: &mut impl Read,
    to: &mut impl Write,
    cannot_send: impl Fn(io::Error) -> Failure,
) -> Result<usize, Failure> {
    let mut file = open(path, stdin)?;
    let (mut chunk, mut lines, mut last) = (vec![0; 64 << 10], 0, b'\n');
    loop {
        let bytes = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(cannot_read(path)(error)),
        };
        let read = &chunk[..bytes];
        if lines == 0 {
            refuse_packed(path, read)?;
        }
        lines += read.iter().filter(|byte| **byte == b'\n').count();
        last = read[bytes - 1];
        to.write_all(read).map_err(&cannot_send)?;
    }
    if last != b'\n' {
        lines += 1;
        to.write_all(b"\n").map_err(cannot_send)?;
    }
    Ok(lines)
}

/// Ends the stream and waits until it was read: the daemon sends nothing, and then closes.
pub(super) fn end(mut stream: Socket) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

/// Interval of progress reports.
const PROGRESS: Duration = Duration::from_secs(2);

/// Imports all lines and prints the results. `stdin` stands for the file `-`.
///
/// # Errors
/// Fails if a file cannot be read, nobody takes its lines, or none of all lines can be taken.
pub fn execute(
    flags: &ImportLogFlags,
    config: &Config,
    mut stdin: impl Read,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<(), Failure> {
    if flags.live {
        if flags.url.is_some() {
            return Err(Failure::usage(
                "--live sends the lines to an address for Squid's connections, not to a URL; give --to ADDRESS, or --config FILE \
                 that has it",
            ));
        }
        return replay(flags, config, stdin, out);
    }
    let client = match (&flags.url, doctor::url(config)) {
        (Some(url), _) => Client::at(url, &flags.access)?,
        (None, Some(url)) => Client::at(&url, &flags.access.trusting(config))?,
        (None, None) => {
            return Err(Failure::failed(
                "http.listen is switched off, so there is no daemon to ask; give --url",
            ));
        }
    };
    let (mut lines, mut taken) = (0, 0);
    for path in &flags.files {
        let mut import = LogImport {
            client: &client,
            name: flags.name.as_deref(),
            path,
            covered_to: None,
            counts: BTreeMap::new(),
            bad_number: String::new(),
            begun: Instant::now(),
        };
        import.run(open(path, &mut stdin)?, err)?;
        lines += import.count("lines");
        taken += import.count("requests") + import.count("lines_known");
        writeln!(out, "{}", import.total()).map_err(Failure::write)?;
    }
    match (lines, taken) {
        (1.., 0) => Err(Failure::failed(format!("none of {lines} lines was taken"))),
        _ => Ok(()),
    }
}

/// An import under way.
struct LogImport<'a> {
    client: &'a Client,
    name: Option<&'a str>,
    path: &'a Path,
    /// The end of the time covered, as the daemon says.
    covered_to: Option<u64>,
    /// The daemon's counts, by name; reasons have names of their own.
    counts: BTreeMap<String, u64>,
    /// The field of the last line that should be a number, and the line.
    bad_number: String,
    begun: Instant,
}

impl LogImport<'_> {
    fn run(&mut self, mut from: impl Read, err: &mut impl Write) -> Result<(), Failure> {
        let mut shown = Instant::now();
        let (mut piece, mut is_end) = (Vec::new(), false);
        loop {
            if !is_end {
                let room = (LOG_PIECE_BYTES_MAX - piece.len()) as u64;
                let read = from.by_ref().take(room).read_to_end(&mut piece);
                is_end = (read.map_err(cannot_read(self.path))? as u64) < room;
            }
            // Whole lines, if there are any.
            let end = piece.iter().rposition(|byte| *byte == b'\n');
            let whole = end.map_or(piece.len(), |end| end + 1);
            let sent = if is_end { piece.len() } else { whole };
            if self.count("lines") == 0 {
                refuse_packed(self.path, &piece)?;
            }
            if sent == 0 {
                return Ok(());
            }
            let taken = self.send(&piece[..sent])?;
            piece.drain(..taken);
            if shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                writeln!(err, "{}", self.total()).map_err(Failure::write)?;
            }
        }
    }

    /// Sends a piece to the daemon; returns how much of it was taken.
    fn send(&mut self, piece: &[u8]) -> Result<usize, Failure> {
        let mut path = "/api/v1/import?".to_owned();
        if let Some(name) = self.name {
            path += &format!("name={}&", encode(name));
        }
        if let Some(covered_to) = self.covered_to {
            path += &format!("covered_to={covered_to}");
        }
        let answer = self.client.send_bytes(&path, piece).map_err(|error| {
            let before = match self.count("lines") {
                0 => String::new(),
                lines => format!(
                    "; imported before: {}, and import-log will pass over them when it is run again",
                    counted(lines as usize, "line", "lines")
                ),
            };
            Failure::failed(format!("{}: {error}{before}", self.path.display()))
        })?;
        self.covered_to = answer["covered_to"].as_u64();
        let reasons = answer["lines_invalid_by_reason"].as_object();
        let counts = answer.as_object().into_iter().chain(reasons).flatten();
        for (name, count) in counts {
            if let Some(count) = count.as_u64().filter(|_| name != "covered_to") {
                *self.counts.entry(name.clone()).or_default() += count;
            }
        }
        let last = ["last_invalid_field", "last_invalid"].map(|name| answer[name].as_str());
        if let [Some(field), Some(line)] = last
            && !field.is_empty()
        {
            self.bad_number = format!("{field} in {line:?}");
        }
        match answer["bytes"].as_u64() {
            Some(bytes @ 1..) => Ok(piece.len().min(bytes as usize)),
            _ => Err(Failure::failed("the daemon takes nothing of a piece")),
        }
    }

    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or_default()
    }

    /// The results so far.
    fn total(&self) -> String {
        let mut total = format!(
            "{}: {} in {:.1} s: {}",
            self.path.display(),
            counted(self.count("lines") as usize, "line", "lines"),
            self.begun.elapsed().as_secs_f64(),
            counted(self.count("requests") as usize, "request", "requests")
        );
        for (name, what) in [
            ("lines_known", "imported before"),
            ("swaps", "swaps, which are not counted in the past"),
            ("lines_repeated", "that came twice"),
            ("lines_lost", "that Squid numbered and that are missing"),
            ("lines_in_future", "later than now"),
            ("lines_expired", "older than history.retention_day, which are soon removed"),
        ] {
            let count = self.count(name);
            if count > 0 {
                total += &format!(", {count} {what}");
            }
        }
        for reason in BadLine::ALL {
            let count = self.count(reason.name());
            if count > 0 {
                total += &format!(", {count} not taken: {}", reason.name());
            }
        }
        if !self.bad_number.is_empty() {
            total += &format!("; the last that is no number: {}", visible(&self.bad_number));
        }
        total
    }
}

/// Sends all lines as current traffic, and waits until the daemon has read them.
fn replay(
    flags: &ImportLogFlags,
    config: &Config,
    mut stdin: impl Read,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let configured = || {
        config.squids.iter().find_map(|squid| match squid.from {
            SquidFrom::Tcp(address) => Some(local(address)),
            SquidFrom::Udp(_) | SquidFrom::File(..) => None,
        })
    };
    let Some(to) = flags.to.or_else(configured) else {
        return Err(Failure::usage(
            "the configuration has no [[squid]] with listen = \"tcp://...\", so nobody takes lines; give --to",
        ));
    };
    let cannot = |error: io::Error| {
        Failure::failed(format!(
            "cannot send to {to}: {error}; does a pinbad with [[squid]] listen there?"
        ))
    };
    let mut stream = Socket::from(TcpStream::connect(to).map_err(cannot)?);
    let mut sent = 0;
    for path in &flags.files {
        sent += send_lines(path, &mut stdin, &mut stream, cannot)?;
    }
    end(stream).map_err(cannot)?;
    writeln!(out, "{sent} lines sent to {to}; `squids` in /api/v1/status says what became of them.")
        .map_err(Failure::write)
}
