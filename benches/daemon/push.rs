//! What pushing ten thousand rows over OTLP costs, and what is noticed of a server that is away.
//!
//! A thread of this process stands in for the server and takes every body, or nobody listens.
//! 2,000 packets a second reach each of 10,000 scripts every five seconds, so each row gains
//! something in each period of ten. The daemon's processor time is that of the whole process: a
//! body is sent by a thread of its own, which is gone afterwards.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pinbad::cli::format::{bytes, grouped};

use crate::load::{Load, pace};
use crate::receiver::{Daemon, Receiver as _};
use crate::table::Table;
use crate::{Options, Result, compare};

const PACKETS: &str = "--scripts=10000 --hosts=1 --servers=1 --distribution=each --corpus=10000";
const RATE: f64 = 2_000.0;
const REPORTS: &str = "otlp.reports=['report_by_script_name']";

/// A name; settings, where there is a push; whether anybody listens.
type Case = (&'static str, Option<&'static [&'static str]>, bool);

const CASES: [Case; 5] = [
    ("none", None, true),
    ("cumulative", Some(&[]), true),
    ("delta", Some(&["otlp.temporality=delta"]), true),
    ("cumulative, gzip", Some(&["otlp.gzip=true"]), true),
    ("cumulative, server away", Some(&[]), false),
];

pub(crate) fn run(options: &Options) -> Result<Table> {
    // Two periods at least, after two in which bodies fill the queue when nobody takes them.
    let secs = if options.quick { 20 } else { 120 };
    let warm = if options.quick { 20 } else { 60 };
    let load = Load::new(options, PACKETS)?;
    let mut table = Table::new(
        format!("Push of 10,000 rows every 10 s, for {secs} s"),
        "push | points a period | bytes a period | the daemon | thread otlp-push | series | memory | lost",
    );
    for (name, settings, listens) in CASES {
        eprintln!("  {name}");
        let server = Server::start()?;
        let address = match listens {
            true => server.address.clone(),
            // Nobody is there any more.
            false => TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string(),
        };
        let url = format!("otlp.url='http://{address}'");
        let settings = settings.map(|it| [&[url.as_str(), REPORTS], it].concat());
        let daemon = compare::start(options, None, &settings.unwrap_or_default(), &[])?;
        load.run_apart(&daemon, &pace(RATE, Duration::from_secs(warm)))?;
        let (cpu, spent, points) = (daemon.cpu(), daemon.spent()?, counted(&daemon)?);
        server.bytes.store(0, Ordering::Relaxed);
        let start = Instant::now();
        let trial = load.run_apart(&daemon, &pace(RATE, Duration::from_secs(secs)))?;
        let share = |spent: Duration| {
            let share = spent.as_secs_f64() / start.elapsed().as_secs_f64();
            format!("{:.2} %", 100.0 * share)
        };
        let after = daemon.cpu();
        let of = |thread: &str| share(after.since(&cpu, |name| name == thread));
        let periods = secs as f64 / 10.0;
        table.row([
            name.to_owned(),
            grouped(counted(&daemon)?.saturating_sub(points) as f64 / periods),
            bytes(server.bytes.load(Ordering::Relaxed) as f64 / periods),
            share(daemon.spent()?.saturating_sub(spent)),
            of("otlp-push"),
            of("series"),
            bytes(daemon.resident_bytes()? as f64),
            grouped(trial.lost as f64),
        ]);
    }
    Ok(table.note(format!("Percent of a core, at {} packets a second. {PACKETS}", grouped(RATE))))
}

/// Points that were taken.
fn counted(daemon: &Daemon) -> Result<u64> {
    let status = daemon.get("/api/v1/status")?;
    Ok(status["otlp"]["points_sent"].as_u64().unwrap_or_default())
}

/// Takes every body.
struct Server {
    address: String,
    bytes: Arc<AtomicU64>,
}

impl Server {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                thread::spawn(move || take_bodies(stream, &counted));
            }
        });
        Ok(Self { address, bytes })
    }
}

fn take_bodies(mut stream: TcpStream, counted: &AtomicU64) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(given) = line.strip_prefix("content-length:") {
                length = given.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        counted.fetch_add(length as u64, Ordering::Relaxed);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
