//! Time zones: local time at an instant, and the instant of a local time.
//!
//! A zone is a name of the built-in database (`Europe/Berlin`), an offset (`+02:00`), or `SYSTEM`,
//! the daemon's own. A local time that occurs twice means the first occurrence; one that is
//! skipped, when clocks are put forward, means the moment at which they are.

use chrono::{NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion::arrow::array::timezone::Tz;

use super::SECOND;
use crate::sql::functions::value::date_time;

/// A zone by name or offset; `SYSTEM` is the daemon's own.
pub(crate) fn zone(name: &str) -> Option<Tz> {
    match name {
        "Z" | "UTC" => "+00:00".parse().ok(),
        // `+1:00` is one too.
        offset if offset.starts_with(['+', '-']) => {
            let (hours, minutes) = offset[1..].split_once(':')?;
            let is_minute = minutes.len() == 2 && minutes.parse::<u8>().is_ok_and(|it| it < 60);
            is_minute.then(|| format!("{}{hours:0>2}:{minutes}", &offset[..1]).parse().ok())?
        }
        name => name.parse().ok(),
    }
}

/// Local time in a zone at a time since 1970; all in microseconds.
pub(crate) fn shown(micros: i64, name: &str) -> Option<i64> {
    let at = date_time(micros)?;
    let offset = match name.eq_ignore_ascii_case("SYSTEM") {
        true => chrono::Local.offset_from_utc_datetime(&at).fix(),
        false => zone(name)?.offset_from_utc_datetime(&at).fix(),
    };
    micros.checked_add(i64::from(offset.local_minus_utc()) * SECOND)
}

/// The time since 1970 of a local time in a zone.
pub(super) fn unix(shown: i64, name: &str) -> Option<i64> {
    let at = date_time(shown)?;
    match name.eq_ignore_ascii_case("SYSTEM") {
        true => unix_in(&chrono::Local, at),
        false => unix_in(&zone(name)?, at),
    }
}

fn unix_in(zone: &impl TimeZone, at: NaiveDateTime) -> Option<i64> {
    let begin = |at: &NaiveDateTime| zone.from_local_datetime(at).earliest();
    if let Some(found) = begin(&at) {
        return Some(found.timestamp_micros());
    }
    // Clocks are put forward at the end of a minute, by a day at most.
    let minute = at.and_utc().timestamp().div_euclid(60);
    let mut earlier = (minute - 1_440..minute).rev();
    let last = earlier.find_map(|minute| begin(&date_time(minute * 60 * SECOND)?))?;
    Some((last + TimeDelta::minutes(1)).timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones() {
        assert_eq!(shown(0, "+02:00"), Some(7_200 * SECOND));
        assert_eq!(shown(0, "Europe/Berlin"), Some(3_600 * SECOND));
        assert_eq!(unix(3_600 * SECOND, "Europe/Berlin"), Some(0));
        // 2026-03-29: there is no 02:00 to 03:00.
        for local in [1_774_749_600, 1_774_751_400, 1_774_753_200] {
            assert_eq!(unix(local * SECOND, "Europe/Berlin"), Some(1_774_746_000 * SECOND));
        }
        assert_eq!(shown(0, "+1:30"), Some(5_400 * SECOND));
        for wrong in ["nowhere", "+13:61", "+13", "+1:5"] {
            assert_eq!(shown(0, wrong), None, "{wrong}");
        }
    }
}
