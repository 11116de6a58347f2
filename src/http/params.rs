//! Query parameters, parsed strictly: one that no handler reads is an error, not ignored.
//!
//! A handler reads its parameters one by one and then calls [`Params::finish`], which refuses the
//! rest and lists all accepted ones. Repeated parameters and invalid text are refused too. The
//! number of parameters is bounded by the length of the URI (`request_checks.rs`).

use std::ops::RangeInclusive;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use chrono::{DateTime, FixedOffset};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value as Json};

use super::error::Problem;
use crate::value::Column;
use crate::value::link::KEY_PREFIX;
pub use crate::value::link::encode;
pub(super) use crate::value::link::link;

/// The parameters of one request, in the order given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Params {
    pairs: Vec<(String, String)>,
    /// The names read so far, in the order of the documentation.
    known: Vec<&'static str>,
}

impl Params {
    /// Splits and decodes the part of a URI after the `?`.
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let mut params = Self::default();
        let pairs = query.unwrap_or_default().split('&');
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if params.pairs.iter().any(|(known, _)| *known == name) {
                return Err(Problem::parameter(&name, "is given more than once"));
            }
            params.pairs.push((name, value));
        }
        Ok(params)
    }

    /// For a page: forms send empty fields, so those count as absent.
    pub(super) fn of_form(query: Option<&str>) -> Result<Self, Problem> {
        let mut params = Self::parse(query)?;
        params.pairs.retain(|(_, value)| !value.is_empty());
        Ok(params)
    }

    /// From pairs created here.
    pub(super) fn from_pairs(pairs: Vec<(String, String)>) -> Self {
        Self { pairs, known: Vec::new() }
    }

    /// All of them, in the order given.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(&self.pairs)
    }

    /// One of them, whether or not a handler reads it.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(given, value)| (given == name).then_some(value))
    }

    /// Those that no handler has read yet.
    pub(super) fn rest(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_known = |given: &str, known: &str| match known.strip_suffix("NAME") {
            Some(prefix) => given.starts_with(prefix),
            None => given == known,
        };
        self.iter().filter(move |(given, _)| !self.known.iter().any(|known| is_known(given, known)))
    }

    /// [`rest`](Self::rest) as names of key columns, without the prefix, with the text to match.
    pub(super) fn key_texts(&self) -> Vec<(String, String)> {
        let bare = |name: &'_ str| name.strip_prefix(KEY_PREFIX).unwrap_or(name).to_owned();
        self.rest().map(|(name, text)| (bare(name), text.to_owned())).collect()
    }

    /// [`rest`](Self::rest) as key columns, each by its index in `keys`, with the text to match.
    /// `all` are the columns of the table, for the message.
    pub(super) fn keys(
        &self,
        keys: &[&str],
        all: &[Column],
    ) -> Result<Vec<(usize, &str)>, Problem> {
        let mut found: Vec<(usize, &str)> = Vec::new();
        for (name, text) in self.rest() {
            let named = |name: &str| keys.iter().position(|key| *key == name);
            let bare = name.strip_prefix(KEY_PREFIX).unwrap_or(name);
            let Some(key) = named(name).or_else(|| named(bare)) else {
                // A key named like a parameter is told from it by the prefix.
                let named = |key: &&str| match self.known.contains(key) {
                    true => format!("{KEY_PREFIX}{key}"),
                    false => (*key).to_owned(),
                };
                let named: Vec<String> = keys.iter().map(named).collect();
                let known = self.known.iter().copied().chain(named.iter().map(String::as_str));
                if all.iter().all(|column| column.name != bare) {
                    return Err(unknown(name, known));
                }
                let why = "is not a key column, so it cannot be filtered by";
                return Err(Problem::parameter(name, why).accepting(known));
            };
            if found.iter().any(|(other, _)| *other == key) {
                return Err(Problem::parameter(name, "is given more than once"));
            }
            found.push((key, text));
        }
        Ok(found)
    }

    /// Every key of a row with its text, in order.
    pub(super) fn row(&self, keys: &[&str]) -> Result<Vec<(String, String)>, Problem> {
        let given = self.keys(keys, &[])?;
        let text = |(at, key): (usize, &&str)| {
            let found = given.iter().find(|(known, _)| *known == at);
            let (_, text) = found.ok_or_else(|| {
                let why = "is missing: a row is named by all key columns of its report";
                Problem::parameter(key, why).accepting(keys.iter().copied())
            })?;
            Ok(owned((key, text)))
        };
        keys.iter().enumerate().map(text).collect()
    }

    /// The text of one parameter.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.get(name).map(str::to_owned)
    }

    /// One parameter, parsed by `read`; `accepted` describes valid values.
    pub(super) fn parsed<T>(
        &mut self,
        name: &'static str,
        accepted: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        read(&text).map(Some).ok_or_else(|| Problem::refused(name, &text, accepted))
    }

    /// An unsigned integer.
    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        self.number_in(name, 0..=u64::MAX)
    }

    /// An integer in a range.
    pub(super) fn number_in(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Problem> {
        let accepted = match (range.start(), range.end()) {
            (start, &u64::MAX) => format!("a whole number from {start} on"),
            (start, end) => format!("a whole number from {start} to {end}"),
        };
        let read = |text: &str| whole(text).filter(|number| range.contains(number));
        self.parsed(name, &accepted, read)
    }

    /// A number of rows, with a default.
    pub(super) fn count(&mut self, name: &'static str, default: usize) -> Result<usize, Problem> {
        let count = self.number(name)?;
        Ok(count.map_or(default, |count| count.try_into().unwrap_or(usize::MAX)))
    }

    /// A number of rows on a page, from 1 to `max`.
    pub(super) fn rows(&mut self, default: usize, max: usize) -> Result<usize, Problem> {
        let rows = self.number_in("limit", 1..=max as u64)?;
        Ok(rows.map_or(default, |rows| rows as usize))
    }

    /// One of a few words; the first by default.
    pub(super) fn word(
        &mut self,
        name: &'static str,
        words: &[&'static str],
    ) -> Result<&'static str, Problem> {
        let Some(text) = self.text(name) else { return Ok(words[0]) };
        let found = words.iter().find(|word| **word == text);
        found.copied().ok_or_else(|| {
            let why = format!("{text:?} is not accepted");
            Problem::none_of(name, why, &text, words.iter().copied())
        })
    }

    /// A duration in seconds as integer microseconds. More than six decimals are rounded in the
    /// given direction, so that a bound on integer microseconds has the meaning of its digits.
    pub(super) fn micros(
        &mut self,
        name: &'static str,
        rounding: Rounding,
    ) -> Result<Option<u64>, Problem> {
        let read = |text: &str| decimal(text, 6, rounding);
        self.parsed(name, "seconds from 0 on, such as 0.25", read)
    }

    /// All parameters whose names start with a prefix, without it, in the order given. `shown` is
    /// the notation of the documentation: `tag.NAME`.
    pub(super) fn prefixed(&mut self, shown: &'static str) -> Vec<(String, String)> {
        self.known.push(shown);
        let prefix = shown.trim_end_matches("NAME");
        let strip = |(name, value): (&'_ str, _)| Some(owned((name.strip_prefix(prefix)?, value)));
        self.iter().filter_map(strip).collect()
    }

    /// Refuses parameters that no handler has read.
    pub(super) fn finish(&self) -> Result<(), Problem> {
        let bad = |(name, _)| Err(unknown(name, self.known.iter().copied()));
        self.rest().next().map_or(Ok(()), bad)
    }

    /// The same with some parameters changed: `None` removes one. Changed ones stand last; the
    /// position in the list (`offset`, `before_id`) is removed too, since it has no meaning in
    /// another list.
    pub(super) fn changed(&self, changes: &[(&str, Option<&str>)]) -> Self {
        let stays = |name: &str| {
            let changed = changes.iter().any(|(other, _)| *other == name);
            !changed && !matches!(name, "offset" | "before_id" | "before")
        };
        let kept = self.iter().filter(|(name, _)| stays(name));
        let set = changes.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        Self::from_pairs(kept.chain(set).map(owned).collect())
    }

    /// Converts the two form fields that add a tag, `tag` and `value`, to the condition they mean:
    /// the tag's name after `prefix`. One of the two alone means nothing.
    pub(super) fn with_added_tag(self, prefix: &str) -> Self {
        let (tag, value) = (self.get("tag"), self.get("value"));
        if tag.or(value).is_none() {
            return self;
        }
        let condition = format!("{prefix}{}", tag.unwrap_or_default());
        let mut changes = vec![("tag", None), ("value", None)];
        changes.extend(tag.and(value).map(|value| (condition.as_str(), Some(value))));
        self.changed(&changes)
    }

    /// The URL of the same page with some parameters changed.
    pub(super) fn link(&self, path: &str, changes: &[(&str, Option<&str>)]) -> String {
        link(path, self.changed(changes).iter())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.query())
    }
}

/// For an endpoint without parameters.
#[derive(Debug)]
pub(super) struct NoParams;

impl<S: Send + Sync> FromRequestParts<S> for NoParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Params::parse(parts.uri.query())?.finish()?;
        Ok(Self)
    }
}

/// Parses the id in a path.
pub(super) fn id(text: &str) -> Result<u64, Problem> {
    whole(text).ok_or_else(|| Problem::refused("id", text, "a whole number from 0 on"))
}

/// Checks a number of rows, of which 0 means `most`. `with` says of what, `and` what else there is.
pub(super) fn limited(limit: usize, most: usize, with: &str, and: &str) -> Result<usize, Problem> {
    if limit > most {
        let accepted = format!("up to {most} (0 means that many){and}");
        let why = format!("{limit} is too many{with}; accepted: {accepted}");
        return Err(Problem::parameter("limit", why));
    }
    Ok(if limit == 0 { most } else { limit })
}

/// The rounding of a bound with too many decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// For an upper bound.
    Down,
    /// For a lower bound.
    Up,
}

/// Parses integer unix seconds, given as such (decimals are rounded in the given direction) or as
/// RFC 3339.
pub(super) fn moment(text: &str, rounding: Rounding) -> Option<u64> {
    decimal(text, 0, rounding).or_else(|| unix_secs(text, rounding))
}

/// 400 for an unknown parameter.
fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let known: Vec<&str> = known.collect();
    if known.is_empty() {
        return Problem::parameter(name, "unknown parameter; there are none here");
    }
    Problem::none_of(name, "unknown parameter", name, known)
}

/// Refuses members of a body that no handler has taken; `known` are those that there may be.
pub(super) fn no_others(members: &Map<String, Json>, known: &[&str]) -> Result<(), Problem> {
    let Some(name) = members.keys().next() else { return Ok(()) };
    Err(Problem::none_of(name, "is unknown", name, known.iter().copied()))
}

/// An integer. One beyond 64 bits becomes the largest, which no count, id or time exceeds.
pub(super) fn whole(text: &str) -> Option<u64> {
    let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| text.parse().unwrap_or(u64::MAX))
}

/// `12.5` as an integer number of units of `10^-scale`, at most the largest. `None` if it is not
/// such a number.
fn decimal(text: &str, scale: u32, rounding: Rounding) -> Option<u64> {
    let (integer, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut units = whole(integer)?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut fraction = fraction.bytes();
    for _ in 0..scale {
        let digit = fraction.next().map_or(0, |byte| u64::from(byte - b'0'));
        units = units.saturating_mul(10).saturating_add(digit);
    }
    let beyond = rounding == Rounding::Up && fraction.any(|byte| byte != b'0');
    Some(units.saturating_add(u64::from(beyond)))
}

/// An RFC 3339 time as unix seconds; fractions are rounded in the given direction. A `+` that the
/// query string turned into a blank is accepted, because nobody remembers to encode it. `None` if
/// it is not such a time, or before 1970.
fn unix_secs(text: &str, rounding: Rounding) -> Option<u64> {
    let plus = text.len().checked_sub("+00:00".len());
    let mut text = text.to_owned();
    if let Some(plus) = plus
        && text.get(plus..=plus) == Some(" ")
    {
        text.replace_range(plus..=plus, "+");
    }
    let moment: DateTime<FixedOffset> = DateTime::parse_from_rfc3339(&text).ok()?;
    let nanos = moment.timestamp_subsec_nanos();
    let beyond = rounding == Rounding::Up && !nanos.is_multiple_of(1_000_000_000);
    u64::try_from(moment.timestamp() + i64::from(beyond)).ok()
}

/// Decodes `%41` and `+`.
fn decode(text: &str) -> Result<String, Problem> {
    let bad = |why: &str| {
        Problem::bad(format!("the query {text:?} is {why}; accepted: UTF-8, percent-encoded"))
    };
    let is_hex = |part: &str| part.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !text.split('%').skip(1).all(is_hex) {
        return Err(bad("cut short or not hexadecimal behind a %"));
    }
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().map_err(|_| bad("not text"))?;
    Ok(decoded.into_owned())
}

/// The items of a list with commas between them. A backslash before a comma, or before another
/// backslash, makes it a part of an item.
pub(super) fn list_items(text: &str) -> Vec<String> {
    let (mut items, mut item) = (Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let escaped = match letter {
            '\\' => letters.next_if(|next| matches!(next, ',' | '\\')),
            _ => None,
        };
        match escaped {
            None if letter == ',' => items.push(std::mem::take(&mut item)),
            _ => item.push(escaped.unwrap_or(letter)),
        }
    }
    items.push(item);
    items
}

/// A text as an item of such a list.
pub(super) fn as_list_item(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,")
}

/// Names and values, borrowed.
pub(super) fn pairs(pairs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

pub(super) fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::rfc3339;

    #[test]
    fn pairs_are_decoded_and_read() {
        let mut params = Params::parse(Some("a=1%2C2+3&tag.x%20y=%C3%A4&&b&limit=007")).unwrap();
        assert_eq!(params.text("a").as_deref(), Some("1,2 3"));
        assert_eq!(params.text("b").as_deref(), Some(""));
        assert_eq!(params.number("limit").unwrap(), Some(7));
        assert_eq!(params.rest().count(), 1);
        assert_eq!(params.prefixed("tag.NAME"), [("x y".into(), "ä".into())]);
        params.finish().unwrap();
    }

    #[test]
    fn what_is_left_is_refused_with_what_is_accepted() {
        let mut params = Params::parse(Some("limt=1")).unwrap();
        params.count("limit", 100).unwrap();
        params.text("sort");
        let problem = params.finish().unwrap_err();
        assert_eq!(
            problem.detail(),
            "limt: unknown parameter; did you mean \"limit\"? accepted: limit, sort"
        );
        let body = Params::parse(Some("x=1")).unwrap().finish().unwrap_err().body();
        assert!(body.contains("there are none here"), "{body}");
    }

    #[test]
    fn keys_named_like_parameters_are_accepted_with_a_prefix() {
        let mut params = Params::parse(Some("limit=1&key.limit=2&nope=3")).unwrap();
        params.number("limit").unwrap();
        let problem = params.keys(&["limit", "host"], &[]).unwrap_err();
        assert_eq!(problem.detail(), "nope: unknown parameter; accepted: limit, key.limit, host");
    }

    #[test]
    fn broken_queries_are_refused() {
        for query in "a=1&a=2 a=% a=%4 a=%zz a=%ff %ff=1 a=1&%61=2".split(' ') {
            assert!(Params::parse(Some(query)).is_err(), "{query}");
        }
        for value in ["", "-1", "+1", "1.0", "1e3", "x", "9999999999999999999x"] {
            let mut params = Params::from_pairs(vec![("limit".into(), value.into())]);
            assert!(params.number("limit").is_err(), "{value}");
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_the_largest() {
        for value in ["18446744073709551615", "18446744073709551616", "99999999999999999999"] {
            let mut params = Params::from_pairs(vec![("before_id".into(), value.into())]);
            assert_eq!(params.number("before_id"), Ok(Some(u64::MAX)), "{value}");
            assert_eq!(params.micros("before_id", Rounding::Up), Ok(Some(u64::MAX)), "{value}");
            assert_eq!(id(value), Ok(u64::MAX));
        }
        let mut params = Params::parse(Some("limit=99999999999999999999")).unwrap();
        assert!(params.rows(50, 100).unwrap_err().detail().contains("from 1 to 100"));
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
        assert_eq!(decimal("99999999999999999999.5", 6, Down), Some(u64::MAX));
        for text in ["", ".", "1.", ".5", "-1", "1e3", "nan", "1,5", "9999999999999999999x"] {
            assert_eq!(decimal(text, 6, Up), None, "{text}");
        }
    }

    #[test]
    fn lists_have_items_with_commas() {
        assert_eq!(list_items("a,b"), ["a", "b"]);
        assert_eq!(list_items(",a,"), ["", "a", ""]);
        assert_eq!(list_items(r"App\Db,\,c\"), [r"App\Db", r",c\"]);
        let items = ["", "a", "a,b", ",", r"\", r"\,", r"App\Db", r"\\,\"];
        assert_eq!(list_items(&items.map(as_list_item).join(",")), items);
    }

    #[test]
    fn encoding_is_undone_by_decoding() {
        for text in ["report_1", "a b/c%?ä+", ""] {
            assert_eq!(decode(&encode(text)).unwrap(), text);
        }
    }

    #[test]
    fn addresses_keep_what_was_given() {
        let params = Params::of_form(Some("sort=-p95&q=&a%20b=%3C&offset=50")).unwrap();
        assert_eq!(params.get("q"), None);
        assert_eq!(params.link("/x", &[]), "/x?sort=-p95&a%20b=%3C");
        assert_eq!(
            params.link("/x", &[("sort", None), ("offset", Some("100"))]),
            "/x?a%20b=%3C&offset=100"
        );
    }

    #[test]
    fn numbers_and_words_out_of_their_range_are_refused_with_the_range() {
        for limit in ["0", "101"] {
            let mut params = Params::from_pairs(vec![("limit".into(), limit.into())]);
            let problem = params.rows(50, 100).unwrap_err();
            assert!(problem.detail().contains("from 1 to 100"), "{problem:?}");
        }
        let mut params = Params::parse(Some("view=onw")).unwrap();
        let problem = params.word("view", &["main", "own"]).unwrap_err();
        let said = "view: \"onw\" is not accepted; did you mean \"own\"? accepted: main, own";
        assert_eq!(problem.detail(), said);
        assert_eq!(params.word("order", &["newest", "slowest"]), Ok("newest"));
    }

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
        assert_eq!(unix_secs("2023-11-14T22:13:20.001Z", Up), Some(1_700_000_001));
        assert_eq!(unix_secs("2023-11-14T22:13:20.999Z", Down), Some(1_700_000_000));
        assert_eq!(unix_secs("2023-11-14T22:13:20.000Z", Up), Some(1_700_000_000));
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
