//! Numbers and names in definitions: seconds, parsed exactly, and names of tags.
//!
//! Record times are integer microseconds, so bounds are too: [`Seconds`] has the nearest on either
//! side and the caller takes the one that keeps exactly the records that the text means.

use crate::report::definition::Defaults;

/// Longest time in a definition, in seconds: no packet contains a longer one.
const SECONDS_MAX: u64 = 1 << 31;

/// A time given in decimal seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seconds {
    /// Integer microseconds, rounded down.
    pub(super) us_floor: u64,
    /// Integer microseconds, rounded up.
    pub(super) us_ceil: u64,
}

impl Seconds {
    /// Parses seconds as a decimal number; the error says what is accepted.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let accepted = "must be seconds as a decimal number from 0 to 2147483648, such as 0.25";
        Self::of_digits(text).ok_or_else(|| accepted.to_owned())
    }

    /// Digits with at most one point among them. No sign, no exponent.
    fn of_digits(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
            return None;
        }
        let (micros, rest) = fraction.split_at(fraction.len().min(6));
        let us_floor: u64 = format!("{whole}{micros:0<6}").parse().ok()?;
        let inexact = rest.bytes().any(|digit| digit != b'0');
        (us_floor <= SECONDS_MAX * 1_000_000)
            .then_some(Self { us_floor, us_ceil: us_floor + u64::from(inexact) })
    }
}

/// Microseconds as decimal seconds, the way [`Seconds::parse`] reads them.
pub(super) fn seconds_text(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Checks for a tag name that some record could have.
///
/// # Errors
/// Fails if none could.
pub(super) fn tag_name(text: &str, defaults: &Defaults) -> Result<String, String> {
    let longest = usize::from(defaults.text_bytes_max);
    if text.is_empty() {
        Err("a tag name is missing".to_owned())
    } else if text.len() > longest {
        Err(format!("tag names are kept up to {longest} bytes"))
    } else {
        Ok(text.to_owned())
    }
}
