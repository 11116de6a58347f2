//! Clients: how long answers took, and what queries beside packets cost either.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use pinbad::cli::client::Client;
use pinbad::cli::format::seconds;
use pinbad::shutdown::Shutdown;

use crate::Result;
use crate::load::{Load, Trial};
use crate::receiver::{Daemon, Receiver as _};
use crate::table::median;

/// How long answers took.
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn new(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self(seconds)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> f64 {
        median(self.0.iter().copied())
    }

    /// The least, the median, and what one in a hundred exceeds, as cells of a table.
    pub(crate) fn cells(&self) -> [String; 3] {
        let cell = |at: usize| self.0.get(at).map_or("-".to_owned(), |secs| seconds(*secs));
        [0, self.0.len() / 2, self.0.len() * 99 / 100].map(cell)
    }
}

/// Reads the answer to GET `path` to its last byte and throws it away: seconds, bytes.
pub(crate) fn fetch(client: &Client, path: &str) -> io::Result<(f64, u64)> {
    let start = Instant::now();
    let mut answer = client.stream(path).map_err(io::Error::other)?;
    let bytes = io::copy(&mut answer, &mut io::sink())?;
    Ok((start.elapsed().as_secs_f64(), bytes))
}

/// What a trial was like while clients sent queries.
pub(crate) struct Beside {
    pub(crate) trial: Trial,
    pub(crate) times: Times,
    /// Processor time of the daemon's threads that answer.
    pub(crate) answering: Duration,
    /// Processor time of receivers and merger for each packet, as a cell of a table.
    pub(crate) ingest: String,
}

/// A trial with a thread for each of `clients`, which sends queries until it is stopped and returns how long each took.
pub(crate) fn beside<C>(
    clients: impl IntoIterator<Item = C>,
    daemon: &Daemon,
    load: &Load,
    (rate, time): (f64, Duration),
) -> Result<Beside>
where
    C: FnOnce(&Client, &Shutdown) -> io::Result<Vec<f64>> + Send,
{
    let stop = &Shutdown::new();
    let before = daemon.cpu();
    let (trial, times) = thread::scope(|scope| {
        let start = |run: C| {
            let client = daemon.client.clone();
            scope.spawn(move || run(&client, stop))
        };
        let threads: Vec<_> = clients.into_iter().map(start).collect();
        let trial = load.run(daemon, rate, time);
        stop.request();
        let times: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (trial, times)
    });
    let trial = trial?;
    let mut all = Vec::new();
    for times in times {
        all.extend(times.map_err(|_| "a client panicked")??);
    }
    let after = daemon.cpu();
    let answers = |name: &str| name.starts_with("sql") || name.starts_with("http");
    let ingest = after.since(&before, |name| !answers(name));
    Ok(Beside {
        trial,
        times: Times::new(all),
        answering: after.since(&before, answers),
        ingest: format!(
            "{:.2} us",
            ingest.as_secs_f64() * 1e6 / trial.sent.max(1) as f64
        ),
    })
}
