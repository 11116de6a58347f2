//! RFC 3339 moments in query parameters: `2023-11-14T22:13:20Z`.
//!
//! Only what the parameters `since` and `until` need: to whole unix seconds, at or after 1970. A `+` that a
//! query string turned into a blank is understood, because nobody remembers to encode it.

use super::params::Rounding;

/// The moment as unix seconds; a part of a second goes the way given. `None`: not such a moment, or before 1970.
pub(super) fn unix_secs(text: &str, rounding: Rounding) -> Option<u64> {
    let mut rest = Cursor(text.as_bytes());
    let (year, month, day) = (
        rest.digits(4)?,
        rest.then(b"-")?.digits(2)?,
        rest.then(b"-")?.digits(2)?,
    );
    rest.then(b"Tt ")?;
    let (hour, minute) = (rest.digits(2)?, rest.then(b":")?.digits(2)?);
    let second = rest.then(b":")?.digits(2)?;
    let mut beyond = false;
    if rest.then(b".").is_some() {
        let digits = rest
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (fraction, tail) = rest.0.split_at_checked(digits).filter(|_| digits > 0)?;
        beyond = rounding == Rounding::Up && fraction.iter().any(|byte| *byte != b'0');
        rest = Cursor(tail);
    }
    let offset_minutes = match rest.0 {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b' ' | b'-'), tail @ ..] => {
            let mut tail = Cursor(tail);
            let (hours, minutes) = (tail.digits(2)?, tail.then(b":")?.digits(2)?);
            if !tail.0.is_empty() || hours > 23 || minutes > 59 {
                return None;
            }
            let offset = hours * 60 + minutes;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if day < 1 || day > days_in_month || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let secs = (days_since_1970(year, month, day) * 24 + hour) * 3600 + minute * 60 + second
        - offset_minutes * 60
        + i64::from(beyond);
    u64::try_from(secs).ok()
}

/// A moment as `2023-11-14T22:13:20Z`.
pub(super) fn rfc3339(unix_secs: u64) -> String {
    let days = i64::try_from(unix_secs / 86_400).unwrap_or(i64::MAX / 1000);
    let (hour, minute, second) = (unix_secs / 3600 % 24, unix_secs / 60 % 60, unix_secs % 60);
    // The way of `days_since_1970` back: years that begin in March, in eras of 400 of them.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; the year is taken to begin in March, so that the leap day is its
/// last.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// What is not read yet.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits.iter().try_fold(0, |number, byte| {
            byte.is_ascii_digit()
                .then(|| number * 10 + i64::from(byte - b'0'))
        })
    }

    /// Steps over one byte out of `any`.
    fn then(&mut self, any: &[u8]) -> Option<&mut Self> {
        let (first, rest) = self.0.split_first()?;
        any.contains(first).then(|| {
            self.0 = rest;
            self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_become_unix_seconds() {
        use Rounding::{Down, Up};
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2023-11-14T22:13:20Z", 1_700_000_000),
            ("2023-11-15T00:13:20+02:00", 1_700_000_000),
            ("2023-11-15T00:13:20 02:00", 1_700_000_000),
            ("2023-11-14 16:43:20-05:30", 1_700_000_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ];
        for (text, secs) in cases {
            assert_eq!(unix_secs(text, Down), Some(secs), "{text}");
        }
        assert_eq!(
            unix_secs("2023-11-14T22:13:20.001Z", Up),
            Some(1_700_000_001)
        );
        assert_eq!(
            unix_secs("2023-11-14T22:13:20.999Z", Down),
            Some(1_700_000_000)
        );
        assert_eq!(
            unix_secs("2023-11-14T22:13:20.000Z", Up),
            Some(1_700_000_000)
        );
    }

    #[test]
    fn seconds_become_moments_and_come_back() {
        assert_eq!(rfc3339(1_700_000_000), "2023-11-14T22:13:20Z");
        for secs in (0..8_000_000_000).step_by(86_400 * 29 + 12_345) {
            assert_eq!(unix_secs(&rfc3339(secs), Rounding::Down), Some(secs));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "now",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20ZZ",
            "2023-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2023-01-00T00:00:00Z",
            "2023-01-01T24:00:00Z",
            "1969-12-31T23:59:59Z",
            "2023-01-01T00:00:00+2:00",
            "２023-01-01T00:00:00Z",
        ] {
            assert_eq!(unix_secs(text, Rounding::Down), None, "{text}");
        }
    }
}
