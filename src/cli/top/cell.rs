//! One value of a table: formats the daemon's JSON by the column's unit, and compares values. Pure.

use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::cli::format::{EMPTY, bytes, grouped, number, secs, visible};
use crate::value;
use crate::value::text::{Scale, percent, roughly, with_unit};

/// Width of a bar.
const BAR: usize = 10;

/// The unit of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Text; all others are numbers.
    Text,
    /// A count.
    Count,
    /// Seconds.
    Seconds,
    /// A span of seconds, as pages show it.
    Span,
    /// Percent.
    Percent,
    /// Percent, with a bar.
    Share,
    /// KiB.
    Kib,
    /// Bytes.
    Bytes,
    /// Microseconds, never in a larger unit.
    Micros,
    /// A plain number: an id, a status.
    Plain,
    /// Any other number, such as a rate.
    Number,
}

impl Unit {
    /// The unit of a column of numbers; without one, whole numbers are ids and codes.
    pub const fn of(unit: value::Unit, is_whole: bool) -> Self {
        match unit {
            value::Unit::None if !is_whole => Self::Number,
            value::Unit::None | value::Unit::UnixSeconds => Self::Plain,
            value::Unit::Count => Self::Count,
            value::Unit::Seconds => Self::Seconds,
            value::Unit::Bytes | value::Unit::BytesPerSecond => Self::Bytes,
            value::Unit::Kib | value::Unit::KibPerSecond => Self::Kib,
            value::Unit::Percent => Self::Percent,
            value::Unit::Microseconds => Self::Micros,
            value::Unit::Part
            | value::Unit::Ratio
            | value::Unit::CountPerSecond
            | value::Unit::SecondsPerSecond => Self::Number,
        }
    }

    /// The scale that these numbers of a column share, if its unit has scales.
    pub(super) fn scale(self, numbers: impl IntoIterator<Item = f64>) -> Option<Scale> {
        let numbers = numbers.into_iter();
        match self {
            Self::Seconds => Some(Scale::of_secs(numbers)),
            Self::Bytes => Some(Scale::of_bytes(numbers)),
            Self::Kib => Some(Scale::of_bytes(numbers.map(|it| it * 1024.0))),
            _ => None,
        }
    }

    /// Formats a value on the scale of its column.
    pub(super) fn format_in(self, scale: Option<Scale>, value: &Json) -> String {
        match (scale, value.as_f64()) {
            (Some(scale), Some(of)) if self == Self::Kib => scale.text(of * 1024.0),
            (Some(scale), Some(of)) => scale.text(of),
            _ => self.format(value),
        }
    }

    /// Formats a value; escapes anything that a terminal would execute.
    pub fn format(self, value: &Json) -> String {
        let of = match value {
            Json::Null => return "-".to_owned(),
            Json::Number(number) => number.as_f64().unwrap_or_default(),
            Json::String(text) if text.is_empty() => return EMPTY.to_owned(),
            Json::String(text) => return visible(text).into_owned(),
            other => return visible(&other.to_string()).into_owned(),
        };
        match self {
            Self::Seconds => secs(of),
            Self::Span => roughly(of),
            Self::Micros => with_unit(of, value::Unit::Microseconds),
            Self::Percent => percent(of),
            Self::Share => format!("{} {:>6}", bar(of / 100.0), percent(of)),
            Self::Kib => bytes(of * 1024.0),
            Self::Bytes => bytes(of),
            Self::Count => grouped(of),
            Self::Plain => format!("{of}"),
            Self::Number | Self::Text => number(of),
        }
    }
}

/// Compares two values; missing ones sort last in either order.
pub fn compare(a: &Json, b: &Json, descending: bool) -> Ordering {
    if a.is_null() || b.is_null() {
        return a.is_null().cmp(&b.is_null());
    }
    let order = match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (None, None) => a.as_str().cmp(&b.as_str()),
        // Numbers before texts.
        (a, b) => a.is_none().cmp(&b.is_none()),
    };
    if descending { order.reverse() } else { order }
}

/// A fraction as a bar of fixed width, in eighths of a character.
fn bar(part: f64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (part.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    (0..BAR)
        .map(|at| match eighths.saturating_sub(at * 8) {
            8.. => '█',
            part => EIGHTHS[part],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_as_their_column_says() {
        for (unit, number, text) in [
            (Unit::Count, 1_234_567.0, "1,234,567"),
            (Unit::Number, 10.5, "10.5"),
            (Unit::Number, 1234.0, "1,234"),
            (Unit::Number, 0.0, "0"),
            (Unit::Seconds, 0.0352, "35.2 ms"),
            (Unit::Span, 900.0, "15 min"),
            (Unit::Percent, 7.159, "7.2 %"),
            (Unit::Kib, 2048.0, "2.00 MiB"),
            (Unit::Plain, 500.0, "500"),
            (Unit::Share, 50.0, "█████      50.0 %"),
            (Unit::Share, 400.0, "██████████  400 %"),
            (Unit::Share, 1.25, "▏           1.2 %"),
            (Unit::Share, 0.000_2, "           <0.1 %"),
        ] {
            assert_eq!(unit.format(&json!(number)), text);
        }
        assert_eq!(Unit::Count.format(&Json::Null), "-");
    }

    #[test]
    fn values_are_harmless() {
        assert_eq!(Unit::Text.format(&json!("a\u{1b}[2J")), "a\\x1b[2J");
        assert_eq!(Unit::Text.format(&json!("")), "(empty)");
        assert_eq!(Unit::Count.format(&json!({"a": 1})), "{\"a\":1}");
    }

    #[test]
    fn what_is_not_there_comes_last_either_way() {
        for (descending, expected) in
            [(false, json!([-2.0, 1, "a", "b", null])), (true, json!(["b", "a", 1, -2.0, null]))]
        {
            let mut values = vec![json!(null), json!(1), json!("b"), json!(-2.0), json!("a")];
            values.sort_by(|a, b| compare(a, b, descending));
            assert_eq!(Json::Array(values), expected);
        }
    }
}
