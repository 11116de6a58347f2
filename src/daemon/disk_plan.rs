//! How long the disk lasts that history may take: for `pinbad check` and `pinbad doctor`, reckoned and not measured.

use crate::config::units::rounded_bytes;
use crate::config::{Config, HistoryConfig};

/// What a row takes in a file, its histogram included: of a minute in which some requests came, of an hour or a day.
const MINUTE_ROW_BYTES: u64 = 90;
const COARSE_ROW_BYTES: u64 = 160;

/// Keys that gain something in a minute, in all reports together.
const RATES: [u64; 3] = [100, 1_000, 10_000];

/// What is kept within `history.size_max`, for each of some rates; nothing without `history.dir`.
#[must_use]
pub fn lasting(config: &Config) -> Vec<String> {
    let history = &config.history;
    let rates = RATES.iter().filter(|_| history.dir.is_some());
    rates.map(|&rows| lasting_at(rows, history)).collect()
}

fn lasting_at(rows: u64, history: &HistoryConfig) -> String {
    let size_max = history.size_max as u64;
    let [minute, hour, day] = [
        history.retention_minute,
        history.retention_hour,
        history.retention_day,
    ]
    .map(|kept| kept.as_secs());
    let minutes = minute / 60 * rows * MINUTE_ROW_BYTES;
    let coarse = (hour / 3_600 + day / 86_400) * rows * COARSE_ROW_BYTES;
    let at = format!("at {rows} rows a minute");
    if minutes + coarse <= size_max {
        let all = rounded_bytes(minutes + coarse);
        return format!("{at} all that is to be kept takes {all}");
    }
    match size_max.checked_sub(coarse) {
        Some(rest) => {
            let minutes = rest / (rows * MINUTE_ROW_BYTES);
            let days = minutes as f64 / 1_440.0;
            format!("{at} minutes are kept for {days:.1} days (history.size_max)")
        }
        None => {
            let hours = size_max / (rows * COARSE_ROW_BYTES);
            let days = hours as f64 / 24.0;
            format!(
                "{at} no minutes are kept for long, hours for {days:.1} days (history.size_max)"
            )
        }
    }
}

/// What [`lasting`] goes by.
#[must_use]
pub fn assumption() -> String {
    format!(
        "rows of all reports that gain something in a minute; {MINUTE_ROW_BYTES} bytes each, {COARSE_ROW_BYTES} of an hour or a day"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said() {
        let mut config = Config::default();
        assert!(lasting(&config).is_empty());
        config.history.dir = Some("/x".into());
        let said = lasting(&config);
        assert!(
            said[0].ends_with("all that is to be kept takes 347.4 MiB"),
            "{said:?}"
        );
        assert!(said[2].contains("no minutes are kept for long"), "{said:?}");
        config.history.size_max = 20_000_000_000;
        let said = lasting(&config);
        assert!(said[2].contains("minutes are kept for 1."), "{said:?}");
    }
}
