//! The daemon's health: rates from its counters, latency from its newest requests, and the history of both.
//!
//! A rate is the difference of a counter over the time between two polls; a counter that shrinks means that the daemon was
//! restarted, and rates begin anew. The history is what was polled since the start (`KEPT` polls) and, before that, what the
//! daemon keeps of its last hour. Pure; times come from the poller.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value as Json;

/// Polls that are kept: as many as a very wide terminal has columns.
const KEPT: usize = 400;

/// The counters that `top` shows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    /// Requests that became rows.
    pub requests: f64,
    /// Datagrams that came.
    pub datagrams: f64,
    /// Their bytes.
    pub bytes: f64,
    /// What the kernel dropped.
    pub kernel_drops: f64,
    /// What was overwritten in the temporary pool.
    pub overwritten: f64,
    /// Datagrams and requests that were refused.
    pub invalid: f64,
}

impl Counters {
    /// Requests that were sent and are in no report.
    pub fn lost(&self) -> f64 {
        self.kernel_drops + self.overwritten
    }
}

/// The daemon's status at one poll.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Its counters.
    pub counters: Counters,
    /// Raw requests in memory.
    pub request_rows: f64,
    /// Raw timers in memory.
    pub timer_rows: f64,
    /// Interned strings.
    pub words: f64,
    /// What reports take, and may take, bytes.
    pub report_bytes: (f64, f64),
    /// Requests that wait for the merger.
    pub ring_depth: f64,
    /// How long the oldest of them waited, seconds.
    pub lag: f64,
    /// Median and 95th percentile of the requests that came since the last sample; seconds.
    pub latency: Option<(f64, f64)>,
    /// Wall clock of this machine, unix seconds.
    pub unix_secs: u64,
}

impl Sample {
    /// From `/api/v1/status`.
    pub fn of(status: &Json) -> Self {
        let number = |name: &str| match &status[name] {
            Json::Object(reasons) => reasons.values().filter_map(Json::as_f64).sum(),
            other => other.as_f64().unwrap_or_default(),
        };
        Self {
            counters: Counters {
                requests: number("requests_merged"),
                datagrams: number("datagrams_received"),
                bytes: number("received_bytes"),
                kernel_drops: number("kernel_drops"),
                overwritten: number("requests_overwritten"),
                invalid: number("datagrams_invalid") + number("requests_invalid"),
            },
            request_rows: number("request_rows"),
            timer_rows: number("timer_rows"),
            words: number("dictionary_size"),
            report_bytes: (
                number("report_memory_bytes"),
                number("report_memory_bytes_max"),
            ),
            ring_depth: number("ring_depth"),
            lag: number("merge_lag_us") / 1e6,
            latency: None,
            unix_secs: 0,
        }
    }
}

/// Per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Requests.
    pub requests: f64,
    /// Datagrams.
    pub datagrams: f64,
    /// Bytes.
    pub bytes: f64,
    /// Requests that were lost.
    pub lost: f64,
    /// Datagrams and requests that were refused.
    pub invalid: f64,
}

/// The last sample, and what is computed from all of them.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// The last sample.
    pub sample: Option<Sample>,
    /// Between the last two samples.
    pub rates: Option<Rates>,
    requests: VecDeque<Option<f64>>,
    latency: VecDeque<Option<f64>>,
}

impl Stats {
    /// Another sample, so long after the previous one.
    pub fn take(&mut self, sample: Sample, since: Duration) {
        let seconds = since.as_secs_f64();
        let before = self.sample.as_ref().map(|sample| sample.counters);
        self.rates = before
            .filter(|before| seconds > 0.0 && before.requests <= sample.counters.requests)
            .map(|before| {
                let now = sample.counters;
                let rate = |was: f64, is: f64| (is - was).max(0.0) / seconds;
                Rates {
                    requests: rate(before.requests, now.requests),
                    datagrams: rate(before.datagrams, now.datagrams),
                    bytes: rate(before.bytes, now.bytes),
                    lost: rate(before.lost(), now.lost()),
                    invalid: rate(before.invalid, now.invalid),
                }
            });
        if before.is_some() {
            keep(&mut self.requests, self.rates.map(|rates| rates.requests));
            keep(&mut self.latency, sample.latency.map(|(_, p95)| p95));
        }
        self.sample = Some(sample);
    }

    /// History from before the first sample: requests a second and their 95th percentile, the newest last.
    pub fn prepend(&mut self, requests: Vec<Option<f64>>, latency: Vec<Option<f64>>) {
        let put = |past: &mut VecDeque<Option<f64>>, before: Vec<Option<f64>>| {
            let room = KEPT.saturating_sub(past.len());
            for value in before.into_iter().rev().take(room) {
                past.push_front(value);
            }
        };
        put(&mut self.requests, requests);
        put(&mut self.latency, latency);
    }

    /// A poll that failed: a gap.
    pub fn add_gap(&mut self) {
        self.rates = None;
        if self.sample.is_some() {
            keep(&mut self.requests, None);
            keep(&mut self.latency, None);
        }
    }

    /// Requests a second, the newest last.
    pub fn requests(&self) -> &VecDeque<Option<f64>> {
        &self.requests
    }

    /// The 95th percentile of their times, seconds, the newest last.
    pub fn latency(&self) -> &VecDeque<Option<f64>> {
        &self.latency
    }
}

fn keep(past: &mut VecDeque<Option<f64>>, value: Option<f64>) {
    if past.len() == KEPT {
        past.pop_front();
    }
    past.push_back(value);
}

/// Median and 95th percentile.
pub fn latency(mut times: Vec<f64>) -> Option<(f64, f64)> {
    times.sort_by(f64::total_cmp);
    let rank = |part: f64| {
        let rank = (times.len() as f64 * part).ceil() as usize;
        times.get(rank.saturating_sub(1)).copied()
    };
    rank(0.5).zip(rank(0.95))
}

/// A row of blocks for the newest values that fit, the highest of which is as high as a line; a gap is a blank.
pub fn sparkline(values: &VecDeque<Option<f64>>, columns: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = values.iter().skip(values.len().saturating_sub(columns));
    let highest = shown.clone().flatten().fold(0.0, |a: f64, b| a.max(*b));
    let block = |value: &Option<f64>| match value {
        None => ' ',
        Some(value) if highest > 0.0 => {
            BLOCKS[((value / highest * 8.0).ceil() as usize).clamp(1, 8) - 1]
        }
        Some(_) => BLOCKS[0],
    };
    let line: String = shown.map(block).collect();
    format!("{line:>columns$}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(requests: u64) -> Sample {
        let mut sample = Sample::of(
            &json!({"requests_merged": requests, "kernel_drops": requests / 10,
            "datagrams_invalid": {"empty": 1, "bad_key": 2}, "requests_invalid": 3}),
        );
        sample.latency = Some((0.1, 0.5));
        sample
    }

    #[test]
    fn rates_are_differences_and_begin_anew_with_another_daemon() {
        let mut stats = Stats::default();
        stats.take(sample(100), Duration::ZERO);
        assert_eq!((stats.rates, stats.requests().len()), (None, 0));
        assert_eq!(stats.sample.as_ref().unwrap().counters.invalid, 6.0);
        stats.take(sample(300), Duration::from_secs(2));
        let rates = stats.rates.unwrap();
        assert_eq!(
            (rates.requests, rates.lost, rates.invalid),
            (100.0, 10.0, 0.0)
        );
        stats.take(sample(5), Duration::from_secs(1));
        assert_eq!(stats.rates, None);
        stats.add_gap();
        stats.take(sample(10), Duration::from_secs(1));
        let past: Vec<Option<f64>> = stats.requests().iter().copied().collect();
        assert_eq!(past, [Some(100.0), None, None, Some(5.0)]);
        stats.prepend(vec![Some(7.0)], vec![Some(1.0); 1000]);
        assert_eq!(stats.requests().front(), Some(&Some(7.0)));
        assert_eq!((stats.requests().len(), stats.latency().len()), (5, KEPT));
        for at in 0..1000 {
            stats.take(sample(at), Duration::from_secs(1));
        }
        assert_eq!(
            (stats.requests().len(), stats.latency().len()),
            (KEPT, KEPT)
        );
    }

    #[test]
    fn ranks() {
        assert_eq!(latency(Vec::new()), None);
        assert_eq!(latency(vec![2.0]), Some((2.0, 2.0)));
        assert_eq!(
            latency((1..=100).rev().map(f64::from).collect()),
            Some((50.0, 95.0))
        );
    }

    #[test]
    fn blocks() {
        let values = [Some(0.0), Some(1.0), None, Some(8.0), Some(4.0)].into();
        assert_eq!(sparkline(&values, 5), "▁▁ █▄");
        assert_eq!(sparkline(&values, 8), "   ▁▁ █▄");
        assert_eq!(sparkline(&values, 2), "█▄");
        assert_eq!(sparkline(&[Some(0.0)].into(), 1), "▁");
        assert_eq!(sparkline(&VecDeque::new(), 0), "");
    }
}
