//! Questions: how long answers took, and clients that ask while packets arrive.
//!
//! `growth` asks over HTTP so many times a second, `sql` asks statements in a loop; both want to know what that costs the packets.
//! Clients are threads of this process that end with the trial beside which they ask.

use std::io;
use std::thread;
use std::time::Duration;

use super::BenchError;
use super::part::Part;
use super::table::median;
use super::trial::{self, Trial};
use crate::load::{LoadOptions, Packets};
use crate::shutdown::Shutdown;

/// How long answers took, milliseconds; all of them 0 when there were none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Took {
    pub(super) answers: usize,
    pub(super) least: f64,
    pub(super) median: f64,
    /// Of a hundred, one takes longer.
    pub(super) most_of: f64,
}

impl Took {
    pub(super) fn of(mut took: Vec<f64>) -> Self {
        took.sort_by(f64::total_cmp);
        Self {
            answers: took.len(),
            least: took.first().copied().unwrap_or(0.0),
            most_of: took.get(took.len() * 99 / 100).copied().unwrap_or(0.0),
            median: median(took),
        }
    }
}

/// `1.25 ms`.
pub(super) fn milliseconds(ms: f64) -> String {
    format!("{ms:.2} ms")
}

/// What a trial was like while clients asked.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) trial: Trial,
    pub(super) took: Took,
    /// Processor time of the daemon's threads that answer.
    pub(super) answering: Duration,
    /// Processor time of all its other threads.
    ingest: Duration,
}

impl Beside {
    /// Processor time of receivers and merger for each packet sent, as a cell of a table.
    pub(super) fn ingest_a_packet(&self) -> String {
        let packets = self.trial.sent.max(1) as f64;
        format!("{:.2} us", self.ingest.as_secs_f64() * 1e6 / packets)
    }
}

/// A trial as [`trial::run`] does it, with a thread for each of `clients`. A client asks until it is told to stop, and says
/// how long each answer took, milliseconds.
pub(super) fn beside<C>(
    clients: impl IntoIterator<Item = C>,
    part: &mut Part,
    (packets, load): (&Packets, &LoadOptions),
    (rate, time): (f64, Duration),
    shutdown: &Shutdown,
) -> Result<Beside, BenchError>
where
    C: FnOnce(&Shutdown) -> io::Result<Vec<f64>> + Send,
{
    let stop = Shutdown::new();
    let before = part.cpu();
    let (trial, asked) = thread::scope(|scope| {
        let stop = &stop;
        let asking: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(move || client(stop)))
            .collect();
        let trial = trial::run(part, packets, load, rate, time, shutdown);
        stop.request();
        let asked: Vec<_> = asking.into_iter().map(|thread| thread.join()).collect();
        (trial, asked)
    });
    let trial = trial?;
    let mut took = Vec::new();
    for asked in asked {
        let asked = asked.map_err(|_| part.failed(&"a client ended in a panic"))?;
        took.extend(asked.map_err(|error| part.failed(&error))?);
    }
    let spent = part.cpu();
    let answers = |name: &str| name.starts_with("sql") || name.starts_with("http");
    let answering = spent.of_threads_since(&before, answers);
    Ok(Beside {
        trial,
        took: Took::of(took),
        answering,
        ingest: spent.since(&before).saturating_sub(answering),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hundred_answers_one_takes_longer() {
        let took = Took::of((1..=100).rev().map(f64::from).collect());
        assert_eq!((took.least, took.median, took.most_of), (1.0, 50.5, 100.0));
        assert_eq!(took.answers, 100);
        assert_eq!(Took::of(Vec::new()).answers, 0);
    }
}
