//! Estimates the size of snapshots, and how long the disk space for history lasts, for
//! `pinbad check` and `pinbad doctor`.

use crate::config::units::rounded_bytes;
use crate::config::{Config, HistoryConfig, KeptRequests};

/// Bytes of a row in a file, including its histogram: of a minute with some requests, and of an
/// hour or day.
const MINUTE_ROW_BYTES: u64 = 90;
const COARSE_ROW_BYTES: u64 = 160;

/// Bytes of a raw request with four timers in a file.
const REQUEST_BYTES: u64 = 30;

/// Bytes of a raw request, and of each of its timers, in a snapshot.
const SNAPSHOT_REQUEST_BYTES: u64 = 40;
const SNAPSHOT_TIMER_BYTES: u64 = 17;

/// Keys with a gain per minute, in all reports together.
const ROWS_PER_MINUTE: [u64; 3] = [100, 1_000, 10_000];

/// Requests per second, with `history.requests = "all"`.
const REQUESTS_PER_SECOND: [u64; 2] = [1_000, 10_000];
/// Busy scripts, with "tail": that many requests of each are kept per flush period, in addition to
/// errors and a sample.
const SCRIPTS: [u64; 2] = [100, 2_000];
const SLOWEST: u64 = 10;
const SAMPLED: u64 = 1_024 + 2_048;

/// About the size of a snapshot with full pools.
pub(crate) fn snapshot_bytes(config: &Config) -> u64 {
    let pool = &config.pool;
    pool.request_pool_size as u64 * SNAPSHOT_REQUEST_BYTES
        + pool.timer_pool_size as u64 * SNAPSHOT_TIMER_BYTES
}

/// How much time fits within `history.size_max`, for some rates; empty without `history.dir`.
pub(crate) fn estimated_retention(config: &Config) -> Vec<String> {
    let history = &config.history;
    if history.dir.is_none() {
        return Vec::new();
    }
    let rows = ROWS_PER_MINUTE.map(|rows| retention_at(rows, history));
    rows.into_iter().chain(requests(config)).collect()
}

/// How much time raw requests cover: they get the part of `history.size_max` that rows leave.
fn requests(config: &Config) -> Vec<String> {
    let history = &config.history;
    let size_max = history.size_max as u64;
    let line = |what: String, requests: u64, secs: u64| {
        let bytes = requests * REQUEST_BYTES;
        let day = bytes * 86_400 / secs.max(1);
        let kept = history.retention_minute.as_secs() as f64 / 86_400.0;
        let days = kept.min(size_max as f64 / day as f64);
        let day = rounded_bytes(day);
        format!(
            "{what} {day} a day, and are kept for {days:.1} days if rows of reports leave them all of history.size_max"
        )
    };
    let flush_secs = history.flush_period.as_secs();
    let tail = |scripts| {
        let requests = scripts * SLOWEST + SAMPLED;
        let what =
            format!("raw requests of {scripts} scripts (history.requests = \"tail\") take at most");
        line(what, requests, flush_secs)
    };
    let all = |requests| line(format!("all raw requests at {requests}/s take"), requests, 1);
    if config.pool.request_pool_size == 0 {
        return Vec::new();
    }
    match history.requests {
        KeptRequests::None => Vec::new(),
        KeptRequests::Tail => SCRIPTS.map(tail).to_vec(),
        KeptRequests::All => REQUESTS_PER_SECOND.map(all).to_vec(),
    }
}

fn retention_at(rows: u64, history: &HistoryConfig) -> String {
    let size_max = history.size_max as u64;
    let [minute, hour, day] =
        [history.retention_minute, history.retention_hour, history.retention_day]
            .map(|kept| kept.as_secs());
    let minutes = minute / 60 * rows * MINUTE_ROW_BYTES;
    let coarse = (hour / 3_600 + day / 86_400) * rows * COARSE_ROW_BYTES;
    let at = format!("at {rows} rows a minute");
    if minutes + coarse <= size_max {
        let all = rounded_bytes(minutes + coarse);
        return format!("{at}, all that is to be kept takes {all}");
    }
    match size_max.checked_sub(coarse) {
        Some(rest) => {
            let minutes = rest / (rows * MINUTE_ROW_BYTES);
            let days = minutes as f64 / 1_440.0;
            format!("{at}, rows of minutes are kept for {days:.1} days (history.size_max)")
        }
        None => {
            let hours = size_max / (rows * COARSE_ROW_BYTES);
            let days = hours as f64 / 24.0;
            format!(
                "{at}, rows of minutes hardly last, those of hours are kept for {days:.1} days (history.size_max)"
            )
        }
    }
}

/// The assumptions of [`estimated_retention`].
pub(crate) fn assumption() -> String {
    format!(
        "rows of all reports that gain something in a minute; {MINUTE_ROW_BYTES} bytes each, {COARSE_ROW_BYTES} of an hour or a day, {REQUEST_BYTES} a raw request with four timers"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said() {
        let mut config = Config::default();
        assert!(estimated_retention(&config).is_empty());
        config.history.dir = Some("/x".into());
        let said = estimated_retention(&config);
        assert!(said[0].ends_with("all that is to be kept takes 347.4 MiB"), "{said:?}");
        assert!(said[2].contains("rows of minutes hardly last"), "{said:?}");
        assert_has!(said[3] => "take at most 167.8 MiB a day, and are kept for 14.0 days");
        assert_has!(said[4] => "take at most 950.5 MiB a day, and are kept for 10.0 days");
        config.history.requests = KeptRequests::All;
        let said = estimated_retention(&config);
        assert_has!(said[4] => "at 10000/s take 24.14 GiB a day, and are kept for 0.4 days");
        config.history.requests = KeptRequests::None;
        config.history.size_max = 20_000_000_000;
        let said = estimated_retention(&config);
        assert!(said[2].contains("minutes are kept for 1."), "{said:?}");
        assert_eq!(said.len(), 3);
    }
}
