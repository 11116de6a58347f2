//! Clients: how long answers take, and what queries and packets cost each other.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use pinbad::cli::client::Client;
use pinbad::cli::format::{grouped, secs};
use pinbad::shutdown::Shutdown;

use crate::Result;
use crate::load::{Load, pace};
use crate::receiver::{Daemon, Receiver as _};

/// How long answers took.
pub(crate) struct Times {
    pub(crate) sorted: Vec<f64>,
    /// Bytes of the last answer.
    pub(crate) bytes: u64,
    /// Processor time of the daemon for each.
    pub(crate) cpu: f64,
}

impl Times {
    /// Fetches `times` paths one after the other.
    pub(crate) fn of(
        daemon: &Daemon,
        times: usize,
        mut path: impl FnMut() -> String,
    ) -> Result<Self> {
        let before = daemon.cpu();
        let (mut sorted, mut bytes) = (Vec::new(), 0);
        for _ in 0..times {
            let (secs, size) = fetch(&daemon.client, &path())?;
            sorted.push(secs);
            bytes = size;
        }
        sorted.sort_by(f64::total_cmp);
        let spent = daemon.cpu().since(&before, |_| true).as_secs_f64();
        Ok(Self { sorted, bytes, cpu: spent / times as f64 })
    }

    pub(crate) fn median(&self) -> f64 {
        median(self.sorted.iter().copied())
    }
}

/// The least, the median, and what one in a hundred exceeds, as cells of a table.
pub(crate) fn cells(sorted: &[f64]) -> [String; 3] {
    let cell = |at: usize| sorted.get(at).map_or("-".to_owned(), |it| secs(*it));
    [0, sorted.len() / 2, sorted.len() * 99 / 100].map(cell)
}

/// The one in the middle, 0 of nothing.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// Reads the answer to GET `path` to its last byte and throws it away: seconds, bytes.
fn fetch(client: &Client, path: &str) -> io::Result<(f64, u64)> {
    let start = Instant::now();
    let mut answer = client.stream(path, None).map_err(io::Error::other)?;
    let bytes = io::copy(&mut answer, &mut io::sink())?;
    Ok((start.elapsed().as_secs_f64(), bytes))
}

/// Columns of the measurements of [`beside`].
pub(crate) const BESIDE: &str =
    "packets/s | packets lost | ingest CPU a packet | answers/s | median | 99 % | CPU an answer";

/// Sends packets while a thread for each of `clients` fetches the paths that it names, so many a
/// second or one after the other (0).
pub(crate) fn beside(
    daemon: &Daemon,
    load: &Load,
    (rate, time): (f64, Duration),
    clients: Vec<impl FnMut() -> String + Send>,
    per_second: u32,
) -> Result<[String; 7]> {
    let stop = &Shutdown::new();
    let before = daemon.cpu();
    let (trial, times) = thread::scope(|scope| {
        let start = |mut path| {
            let client = daemon.client.clone();
            scope.spawn(move || fetch_until(stop, &client, &mut path, per_second))
        };
        let threads: Vec<_> = clients.into_iter().map(start).collect();
        let trial = load.run(daemon, &pace(rate, time));
        stop.request();
        let times: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (trial, times)
    });
    let trial = trial?;
    let mut all = Vec::new();
    for times in times {
        all.extend(times.map_err(|_| "a client panicked")??);
    }
    all.sort_by(f64::total_cmp);
    let after = daemon.cpu();
    let answers = |name: &str| name.starts_with("sql") || name.starts_with("http");
    let [ingest, answering] = [false, true].map(|wanted| {
        let spent = after.since(&before, |name| answers(name) == wanted);
        spent.as_secs_f64()
    });
    let [_, median, most] = cells(&all);
    Ok([
        grouped(trial.rate()),
        grouped(trial.lost as f64),
        format!("{:.2} us", ingest * 1e6 / trial.sent.max(1) as f64),
        grouped(all.len() as f64 / trial.seconds),
        median,
        most,
        secs(answering / all.len() as f64),
    ])
}

pub(crate) fn fetch_until(
    stop: &Shutdown,
    client: &Client,
    path: &mut impl FnMut() -> String,
    per_second: u32,
) -> io::Result<Vec<f64>> {
    let mut took = Vec::new();
    let (start, mut due) = (Instant::now(), Duration::ZERO);
    while !stop.requested() {
        let now = start.elapsed();
        if now < due {
            thread::sleep((due - now).min(Duration::from_millis(50)));
            continue;
        }
        if let Some(pause) = Duration::from_secs(1).checked_div(per_second) {
            // Little is made up for: a daemon that answers too slowly gets fewer queries, and the
            // table says so.
            due = (due + pause).max(now.saturating_sub(Duration::from_millis(100)));
        }
        took.push(fetch(client, &path())?.0);
    }
    Ok(took)
}
