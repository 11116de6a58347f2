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

/// The daemon's status at one poll.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// `/api/v1/status`.
    pub status: Json,
    /// The 95th percentile of the times of requests that came since the last sample; seconds.
    pub p95: Option<f64>,
    /// Wall clock of this machine, unix seconds.
    pub unix_secs: u64,
}

impl Sample {
    /// A number of the status; for an object of counters their sum.
    pub fn number(&self, name: &str) -> f64 {
        match &self.status[name] {
            Json::Object(reasons) => reasons.values().filter_map(Json::as_f64).sum(),
            other => other.as_f64().unwrap_or_default(),
        }
    }

    /// Requests that became rows.
    pub fn merged(&self) -> f64 {
        self.number("requests_merged")
    }

    /// Requests that were sent and are in no report.
    pub fn lost(&self) -> f64 {
        self.number("kernel_drops") + self.number("requests_overwritten")
    }

    /// Datagrams and requests that were refused.
    pub fn refused(&self) -> f64 {
        self.number("datagrams_invalid") + self.number("requests_invalid")
    }
}

/// The last samples, and what is computed from all of them.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// The last sample.
    pub sample: Option<Sample>,
    /// The one before it, and the seconds between them; `None` where there can be no rates.
    before: Option<(Sample, f64)>,
    /// Requests a second, the newest last.
    pub requests: VecDeque<Option<f64>>,
    /// The 95th percentile of their times, seconds, the newest last.
    pub latency: VecDeque<Option<f64>>,
}

impl Stats {
    /// Another sample, so long after the previous one.
    pub fn take(&mut self, sample: Sample, since: Duration) {
        let (p95, merged) = (sample.p95, sample.merged());
        let before = self.sample.replace(sample);
        let is_first = before.is_none();
        self.before = before
            .filter(|before| !since.is_zero() && before.merged() <= merged)
            .map(|before| (before, since.as_secs_f64()));
        if !is_first {
            let requests = self.rate(Sample::merged);
            keep(&mut self.requests, requests);
            keep(&mut self.latency, p95);
        }
    }

    /// What a sum of counters gained a second, between the last two samples.
    pub fn rate(&self, of: impl Fn(&Sample) -> f64) -> Option<f64> {
        let (before, seconds) = self.before.as_ref()?;
        Some((of(self.sample.as_ref()?) - of(before)).max(0.0) / seconds)
    }

    /// History from before the first sample.
    pub fn prepend(&mut self, requests: Vec<Option<f64>>, latency: Vec<Option<f64>>) {
        for (past, more) in [(&mut self.requests, requests), (&mut self.latency, latency)] {
            let room = KEPT - past.len();
            for value in more.into_iter().rev().take(room) {
                past.push_front(value);
            }
        }
    }

    /// A poll that failed: a gap.
    pub fn add_gap(&mut self) {
        self.before = None;
        if self.sample.is_some() {
            keep(&mut self.requests, None);
            keep(&mut self.latency, None);
        }
    }
}

fn keep(past: &mut VecDeque<Option<f64>>, value: Option<f64>) {
    if past.len() == KEPT {
        past.pop_front();
    }
    past.push_back(value);
}

/// The 95th percentile.
pub fn p95(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    let rank = (times.len() as f64 * 0.95).ceil() as usize;
    times.get(rank.saturating_sub(1)).copied()
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
        Sample {
            status: json!({"requests_merged": requests, "kernel_drops": requests / 10,
                "datagrams_invalid": {"empty": 1, "bad_key": 2}, "requests_invalid": 3}),
            p95: Some(0.5),
            unix_secs: 0,
        }
    }

    #[test]
    fn rates_are_differences_and_begin_anew_with_another_daemon() {
        let mut stats = Stats::default();
        stats.take(sample(100), Duration::ZERO);
        assert_eq!((stats.rate(Sample::lost), stats.requests.len()), (None, 0));
        assert_eq!(stats.sample.as_ref().unwrap().refused(), 6.0);
        stats.take(sample(300), Duration::from_secs(2));
        let rates = [Sample::merged, Sample::lost, Sample::refused].map(|of| stats.rate(of));
        assert_eq!(rates, [Some(100.0), Some(10.0), Some(0.0)]);
        stats.take(sample(5), Duration::from_secs(1));
        assert_eq!(stats.rate(Sample::merged), None);
        stats.add_gap();
        stats.take(sample(10), Duration::from_secs(1));
        let past: Vec<Option<f64>> = stats.requests.iter().copied().collect();
        assert_eq!(past, [Some(100.0), None, None, Some(5.0)]);
        stats.prepend(vec![Some(7.0)], vec![Some(1.0); 1000]);
        assert_eq!(stats.requests.front(), Some(&Some(7.0)));
        assert_eq!((stats.requests.len(), stats.latency.len()), (5, KEPT));
        for at in 0..1000 {
            stats.take(sample(at), Duration::from_secs(1));
        }
        assert_eq!((stats.requests.len(), stats.latency.len()), (KEPT, KEPT));
    }

    #[test]
    fn ranks() {
        assert_eq!(p95(Vec::new()), None);
        assert_eq!(p95(vec![2.0]), Some(2.0));
        assert_eq!(p95((1..=100).rev().map(f64::from).collect()), Some(95.0));
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
