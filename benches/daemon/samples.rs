//! Samples of PHP's `stat` extension: what they cost, and how long whoever sends them waits.
//!
//! A thread of this process stands in for the extension: it serves a Unix socket and writes lines
//! at a fixed rate, one by one as the extension does (at the high rate thirty at a time), and notes
//! how long each write took. Beside the last run clients ask for everything that takes long, of a
//! full pool, one question after the other.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use pinbad::cli::format::{bytes, grouped, secs as seconds};
use pinbad::shutdown::Shutdown;
use serde_json::Value as Json;

use crate::clients::fetch_until;
use crate::receiver::{Daemon, Receiver as _};
use crate::table::Table;
use crate::{Options, Result};

/// Lines a second, how many in one write, and whether clients read meanwhile.
const CASES: [(u32, usize, bool); 3] =
    [(10_000, 1, false), (300_000, 30, false), (10_000, 1, true)];

/// Samples of a full pool.
const POOL: u64 = 1_000_000;

/// A write that takes longer makes PHP wait noticeably.
const LONG: Duration = Duration::from_millis(10);

/// How long the last samples may take to be counted.
const COUNTED_MAX: Duration = Duration::from_secs(30);

/// Paths that clients request, each again and again.
const PATHS: &[&str] = &[
    "/api/v1/reports/profile_lines?limit=0",
    "/profile?format=folded",
    "/api/v1/reports/sample?format=csv&limit=200000",
    "/api/v1/reports/profile_functions/series?metric=seconds_per_sec&from=-15m&step=10",
    #[cfg(feature = "sql")]
    "/api/v1/sql?query=SELECT%20script%2C%20function%2C%20line%2C%20COUNT(*)%2C%20AVG(memory_used)%20FROM%20sample%20GROUP%20BY%201%2C%202%2C%203",
];

pub(crate) fn run(options: &Options) -> Result<Table> {
    let secs = if options.quick { 5 } else { 60 };
    let mut table = Table::new(
        format!("Samples for {secs} s"),
        "lines/s | sent | in the profile | given up | stat thread | profile thread | longest write | writes over 10 ms | memory",
    );
    for (rate, piece, is_read) in CASES {
        let beside = if is_read { ", beside readers" } else { "" };
        eprintln!("  {} lines/s{beside}", grouped(f64::from(rate)));
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("stream");
        let listener = UnixListener::bind(&path)?;
        let stream = format!("stat=[{{stream='unix://{}'}}]", path.display());
        let daemon = Daemon::start(None, &[&[stream][..], &options.set].concat())?;
        let mut extension =
            Extension { stream: listener.accept()?.0, begin: Instant::now(), sent: 0 };
        if is_read {
            // As fast as it goes.
            let full = (POOL + POOL / 20) as usize;
            extension.play(f64::INFINITY, 100, |sent| sent < full as u64)?;
            await_lines(&daemon, extension.sent)?;
        }
        let (before, first) = (daemon.cpu(), extension.sent);
        let stop = &Shutdown::new();
        let (end, time) = (Instant::now(), Duration::from_secs(secs));
        let waits = thread::scope(|scope| {
            let readers = if is_read { PATHS } else { &[] };
            for path in readers {
                let client = daemon.client.clone();
                scope.spawn(move || fetch_until(stop, &client, &mut || (*path).to_owned(), 0));
            }
            let waits = extension.play(f64::from(rate), piece, |_| end.elapsed() < time);
            stop.request();
            waits
        })?;
        let counted = await_lines(&daemon, extension.sent)?;
        let number = |name: &str| counted[name].as_u64().unwrap_or_default();
        let after = daemon.cpu();
        let share = |thread: &str| {
            let spent = after.since(&before, |name| name.starts_with(thread));
            format!("{:.1} % of a core", 100.0 * spent.as_secs_f64() / secs as f64)
        };
        let sent = extension.sent - first;
        table.row([
            format!("{}{beside}", grouped(f64::from(rate))),
            grouped(sent as f64),
            grouped(number("samples").saturating_sub(first) as f64),
            grouped(number("lines_dropped") as f64),
            share("stat-"),
            share("profile"),
            seconds(waits.longest.as_secs_f64()),
            grouped(waits.long as f64),
            bytes(daemon.resident_bytes()? as f64),
        ]);
    }
    Ok(table.note(
        "Readers: five clients, each asking without a pause for a report, the folded text, 200,000 samples as CSV, a series, and \
         (with SQL) an aggregate of all samples, of a pool of a million.",
    ))
}

/// The counters of the source once all lines have been read.
fn await_lines(daemon: &Daemon, lines: u64) -> Result<Json> {
    let start = Instant::now();
    loop {
        let mut status = daemon.get("/api/v1/status")?;
        let source = status["stats"][0].take();
        let count = |name: &str| source[name].as_u64().unwrap_or_default();
        if count("lines_received") + count("lines_dropped") >= lines {
            return Ok(source);
        }
        if start.elapsed() > COUNTED_MAX {
            return Err(format!("of {lines} lines, only these were counted: {source}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The extension's side of the stream.
struct Extension {
    stream: UnixStream,
    begin: Instant,
    sent: u64,
}

/// How long writes took.
#[derive(Default)]
struct Waits {
    longest: Duration,
    /// How many took longer than [`LONG`].
    long: u64,
}

impl Extension {
    /// Writes so many lines a second, `piece` of them at once, for as long as `goes_on` says of the
    /// number that were sent.
    fn play(
        &mut self,
        rate: f64,
        piece: usize,
        goes_on: impl Fn(u64) -> bool,
    ) -> io::Result<Waits> {
        let (start, first) = (Instant::now(), self.sent);
        let (mut waits, mut text) = (Waits::default(), String::new());
        while goes_on(self.sent) {
            if (self.sent - first) as f64 >= start.elapsed().as_secs_f64() * rate {
                thread::sleep(Duration::from_micros(300));
                continue;
            }
            text.clear();
            for _ in 0..piece {
                self.line(&mut text);
            }
            let since = Instant::now();
            self.stream.write_all(text.as_bytes())?;
            let took = since.elapsed();
            waits.longest = waits.longest.max(took);
            waits.long += u64::from(took > LONG);
        }
        Ok(waits)
    }

    /// A sample of now: of ten processes, each with a request every half a second.
    fn line(&mut self, text: &mut String) {
        let (number, elapsed) = (self.sent, self.begin.elapsed().as_secs_f64() + 1.0);
        self.sent += 1;
        let (pid, request) = (100 + number % 10, (elapsed * 2.0).floor() / 2.0);
        let (function, used) = (number / 10 % 97, 400_000 + number % 1_000 * 64);
        // Writing to a string cannot fail.
        let _written = writeln!(
            text,
            "{{\"type\": \"user\", \"request\": {{\"pid\": {pid}, \"elapsed\": {request:.10}, \"path\": \"/var/www/{}.php\", \"method\":GET\", \
             \"uri\":/shop/{}?id={request}\"}}, \"elapsed\": {elapsed:.10}, \"memory\": {{\"used\": {used}, \"peak\": {used}}}, \"symbol\": \
             {{\"file\": \"/var/www/lib.php\", \"scope\": \"App\\Shop\", \"function\": \"f{function}\"}}, \"opline\": {{\"line\": {function}, \
             \"offset\": 3, \"opcode\": \"ASSIGN_OP\"}}}}",
            pid % 3,
            pid % 7,
        );
    }
}
