//! The daemon's health: rates from its counters, and its last minutes.
//!
//! A rate is the difference of a counter over the time between two polls; a counter that shrinks
//! means that the daemon was restarted, and rates start again. The minutes come from the daemon.
//! Pure; times come from the poller.

use std::time::Duration;

use serde_json::Value as Json;

/// The daemon at one poll.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// `/api/v1/status`.
    pub status: Json,
    /// Requests a second in the last minutes, newest last; empty if the daemon keeps no series.
    pub requests: Vec<Option<f64>>,
    /// The 95th percentile of their times, in seconds.
    pub latency: Vec<Option<f64>>,
    /// Seconds that each value of both is of.
    pub step_secs: u64,
    /// Wall clock of this machine, unix seconds.
    pub unix_secs: u64,
}

impl Sample {
    /// A number in the status; for an object of counters, their sum.
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

    /// Requests that were sent but are in no report.
    pub fn lost(&self) -> f64 {
        self.number("lost")
    }

    /// Datagrams and requests that were refused.
    pub fn refused(&self) -> f64 {
        self.number("datagrams_invalid") + self.number("requests_invalid")
    }
}

/// The last two samples, and values computed from both.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// The last sample.
    pub sample: Option<Sample>,
    /// The sample before it, and the seconds between them; `None` if there can be no rates.
    pub before: Option<(Sample, f64)>,
}

impl Stats {
    /// Adds a sample, taken `since` the previous one.
    pub fn take(&mut self, sample: Sample, since: Duration) {
        let merged = sample.merged();
        let before = self.sample.replace(sample);
        self.before = before
            .filter(|before| !since.is_zero() && before.merged() <= merged)
            .map(|before| (before, since.as_secs_f64()));
    }

    /// Gain per second of a sum of counters, between the last two samples.
    pub fn rate(&self, of: impl Fn(&Sample) -> f64) -> Option<f64> {
        let (before, seconds) = self.before.as_ref()?;
        Some((of(self.sample.as_ref()?) - of(before)).max(0.0) / seconds)
    }
}

/// A row of blocks for the newest values that fit, scaled to the highest; a gap is a blank.
pub fn sparkline(values: &[Option<f64>], columns: usize) -> String {
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
            status: json!({"requests_merged": requests, "lost": requests / 10,
                "datagrams_invalid": {"empty": 1, "bad_key": 2}, "requests_invalid": 3}),
            ..Sample::default()
        }
    }

    #[test]
    fn rates_are_differences_and_begin_anew_with_another_daemon() {
        let mut stats = Stats::default();
        stats.take(sample(100), Duration::ZERO);
        assert_eq!(stats.rate(Sample::lost), None);
        assert_eq!(stats.sample.as_ref().unwrap().refused(), 6.0);
        stats.take(sample(300), Duration::from_secs(2));
        let rates = [Sample::merged, Sample::lost, Sample::refused].map(|of| stats.rate(of));
        assert_eq!(rates, [Some(100.0), Some(10.0), Some(0.0)]);
        stats.take(sample(5), Duration::from_secs(1));
        assert_eq!(stats.rate(Sample::merged), None);
    }

    #[test]
    fn blocks() {
        let values = [Some(0.0), Some(1.0), None, Some(8.0), Some(4.0)];
        assert_eq!(sparkline(&values, 5), "▁▁ █▄");
        assert_eq!(sparkline(&values, 8), "   ▁▁ █▄");
        assert_eq!(sparkline(&values, 2), "█▄");
        assert_eq!(sparkline(&[Some(0.0)], 1), "▁");
        assert_eq!(sparkline(&[], 0), "");
    }
}
