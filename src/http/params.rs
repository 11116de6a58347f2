//! Query parameters, taken strictly: whatever nobody asked for is an error, not ignored.
//!
//! A handler takes the parameters it knows one by one and then calls [`Params::finish`], which refuses what is left and
//! names all that would have been accepted. A parameter that is given twice, or is not text, is refused too. The number of
//! parameters is bounded by the length of the URI (`guard.rs`).

use axum::http::StatusCode;

use super::error::Problem;
use super::time;

/// The parameters of one request that are not taken yet.
#[derive(Debug)]
pub(super) struct Params {
    pairs: Vec<(String, String)>,
    /// What was asked for so far, in the order in which it is documented.
    known: Vec<&'static str>,
}

impl Params {
    /// Splits and decodes the part of a URI behind the `?`.
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in query
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if pairs.iter().any(|(known, _)| *known == name) {
                return Err(Problem::parameter(&name, "is given more than once"));
            }
            pairs.push((name, value));
        }
        Ok(Self {
            pairs,
            known: Vec::new(),
        })
    }

    /// The text of one parameter.
    pub(super) fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let at = self.pairs.iter().position(|(given, _)| given == name)?;
        Some(self.pairs.remove(at).1)
    }

    /// A whole number that is not negative.
    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        self.take(name).map(|text| number(name, &text)).transpose()
    }

    /// A number of rows; `default` when it is not given.
    pub(super) fn count(&mut self, name: &'static str, default: usize) -> Result<usize, Problem> {
        let given = self.number(name)?;
        Ok(given.map_or(default, |count| {
            usize::try_from(count).unwrap_or(usize::MAX)
        }))
    }

    /// A duration in seconds as whole microseconds. More than six decimals are rounded in the direction given, so that a bound
    /// on whole microseconds means what its digits say.
    pub(super) fn micros(
        &mut self,
        name: &'static str,
        rounding: Rounding,
    ) -> Result<Option<u64>, Problem> {
        self.take(name)
            .map(|text| micros(name, &text, rounding))
            .transpose()
    }

    /// A moment as whole unix seconds, given as such (decimals are rounded in the direction given) or as RFC 3339.
    pub(super) fn moment(
        &mut self,
        name: &'static str,
        rounding: Rounding,
    ) -> Result<Option<u64>, Problem> {
        self.take(name)
            .map(|text| moment(name, &text, rounding))
            .transpose()
    }

    /// All parameters whose names start with `prefix`, without it, in the order given; `shown` is how the documentation writes
    /// them.
    pub(super) fn take_prefixed(
        &mut self,
        prefix: &str,
        shown: &'static str,
    ) -> Vec<(String, String)> {
        self.known.push(shown);
        let (taken, left) = std::mem::take(&mut self.pairs)
            .into_iter()
            .partition(|(name, _)| name.starts_with(prefix));
        self.pairs = left;
        let mut taken: Vec<(String, String)> = taken;
        for (name, _) in &mut taken {
            name.drain(..prefix.len());
        }
        taken
    }

    /// What is left, and what was asked for so far.
    pub(super) fn into_rest(self) -> (Vec<(String, String)>, Vec<&'static str>) {
        (self.pairs, self.known)
    }

    /// Refuses what is left.
    pub(super) fn finish(self) -> Result<(), Problem> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => Err(unknown(name, self.known)),
        }
    }
}

/// Which way a bound with too many decimals goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// For an upper bound.
    Down,
    /// For a lower bound.
    Up,
}

/// 400 for a parameter that does not exist here.
pub(super) fn unknown<S: Into<String>>(name: &str, known: impl IntoIterator<Item = S>) -> Problem {
    let mut known = known.into_iter().peekable();
    if known.peek().is_none() {
        return Problem::parameter(name, "unknown parameter; there are none here");
    }
    Problem::parameter(name, "unknown parameter").accepting(known)
}

/// A whole number that is not negative.
pub(super) fn number(name: &str, text: &str) -> Result<u64, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().ok_or_else(|| {
        Problem::parameter(
            name,
            format!(
                "{text:?} is not accepted; a whole number from 0 to {} is",
                u64::MAX
            ),
        )
    })
}

/// Seconds as whole microseconds; see [`Params::micros`].
pub(super) fn micros(name: &str, text: &str, rounding: Rounding) -> Result<u64, Problem> {
    decimal(text, 6, rounding).ok_or_else(|| {
        Problem::parameter(
            name,
            format!("{text:?} is not a time; accepted: seconds from 0 on, such as 0.25"),
        )
    })
}

/// A moment as whole unix seconds; see [`Params::moment`].
pub(super) fn moment(name: &str, text: &str, rounding: Rounding) -> Result<u64, Problem> {
    let moment = decimal(text, 0, rounding).or_else(|| time::unix_secs(text, rounding));
    moment.ok_or_else(|| {
        Problem::parameter(
            name,
            format!(
                "{text:?} is not a moment; accepted: unix seconds such as 1700000000, \
                 or RFC 3339 such as 2023-11-14T22:13:20Z"
            ),
        )
    })
}

/// `12.5` as a whole number of units of `10^-scale`. `None`: not such a number, or too large.
fn decimal(text: &str, scale: u32, rounding: Rounding) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let mut units: u64 = whole.parse().ok()?;
    let mut fraction = fraction.bytes();
    for _ in 0..scale {
        let digit = fraction.next().map_or(0, |byte| u64::from(byte - b'0'));
        units = units.checked_mul(10)?.checked_add(digit)?;
    }
    let beyond = rounding == Rounding::Up && fraction.any(|byte| byte != b'0');
    units.checked_add(u64::from(beyond))
}

/// Undoes `%41` and `+`.
pub(super) fn decode(text: &str) -> Result<String, Problem> {
    let bad = |why: &str| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            format!("the query {text:?} is {why}; accepted: UTF-8, percent-encoded"),
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let hex = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (Some(high), Some(low)) = (hex(rest.next()), hex(rest.next())) else {
                    return Err(bad("cut short or not hexadecimal behind a %"));
                };
                bytes.push((high * 16 + low) as u8);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).map_err(|_| bad("not text"))
}

/// Percent-encodes a name as one segment of a path.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_taken() {
        let mut params = Params::parse(Some("a=1%2C2+3&tag.x%20y=%C3%A4&&b&limit=007")).unwrap();
        assert_eq!(params.take("a").as_deref(), Some("1,2 3"));
        assert_eq!(params.take("b").as_deref(), Some(""));
        assert_eq!(params.number("limit").unwrap(), Some(7));
        assert_eq!(
            params.take_prefixed("tag.", "tag.NAME"),
            [("x y".into(), "ä".into())]
        );
        params.finish().unwrap();
    }

    #[test]
    fn what_is_left_is_refused_with_what_is_accepted() {
        let mut params = Params::parse(Some("limt=1")).unwrap();
        params.count("limit", 100).unwrap();
        params.take("sort");
        let body = params.finish().unwrap_err().body();
        assert!(
            body.contains(r#"limt: unknown parameter; accepted: limit, sort"#),
            "{body}"
        );
        let body = Params::parse(Some("x=1"))
            .unwrap()
            .finish()
            .unwrap_err()
            .body();
        assert!(body.contains("there are none here"), "{body}");
    }

    #[test]
    fn broken_queries_are_refused() {
        for query in [
            "a=1&a=2",
            "a=%",
            "a=%4",
            "a=%zz",
            "a=%ff",
            "%ff=1",
            "a=1&%61=2",
        ] {
            assert!(Params::parse(Some(query)).is_err(), "{query}");
        }
        for value in ["", "-1", "+1", "1.0", "1e3", "x", "99999999999999999999"] {
            assert!(number("limit", value).is_err(), "{value}");
        }
    }

    #[test]
    fn bounds_mean_what_their_digits_say() {
        use Rounding::{Down, Up};
        assert_eq!(decimal("0.1", 6, Up), Some(100_000));
        assert_eq!(decimal("0.1", 6, Down), Some(100_000));
        assert_eq!(decimal("0.0000001", 6, Up), Some(1));
        assert_eq!(decimal("0.0000009", 6, Down), Some(0));
        assert_eq!(decimal("0.1000000", 6, Up), Some(100_000));
        assert_eq!(decimal("7", 6, Up), Some(7_000_000));
        assert_eq!(decimal("1700000000.5", 0, Up), Some(1_700_000_001));
        assert_eq!(decimal("1700000000.5", 0, Down), Some(1_700_000_000));
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "1e3",
            "nan",
            "1,5",
            "99999999999999999999",
        ] {
            assert_eq!(decimal(text, 6, Up), None, "{text}");
        }
    }

    #[test]
    fn encoding_is_undone_by_decoding() {
        for text in ["report_1", "a b/c%?ä+", ""] {
            assert_eq!(decode(&encode(text)).unwrap(), text);
        }
    }
}
