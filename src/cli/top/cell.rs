//! One value of a table on the screen, and how it is written out.
//!
//! Values come from JSON once, on the polling thread, and are escaped there ([`visible`]); afterwards they are only compared and
//! formatted. Pure.

use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::cli::format::{bytes, grouped, seconds, visible};

/// Columns of a bar.
const BAR: usize = 10;

/// What a column's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Text; the others are numbers.
    Text,
    /// Something that can be counted.
    Count,
    /// So many a second.
    Rate,
    /// Seconds.
    Seconds,
    /// Hundredths.
    Percent,
    /// Hundredths, with a bar.
    Share,
    /// KiB.
    Kib,
    /// Bytes.
    Bytes,
    /// A number as it is: an id, a status.
    Plain,
    /// Any other number.
    Number,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// There is none.
    Nothing,
    /// Text, nothing in it that a terminal would execute.
    Text(String),
    /// A number, in the unit of its column.
    Number(f64),
}

impl Cell {
    /// The value of a JSON member.
    pub fn of(value: &Json) -> Self {
        match value {
            Json::Number(number) => number.as_f64().map_or(Self::Nothing, Self::Number),
            Json::String(text) => Self::text(text),
            Json::Null => Self::Nothing,
            other => Self::text(&other.to_string()),
        }
    }

    /// Text from outside.
    pub fn text(text: &str) -> Self {
        Self::Text(visible(text).into_owned())
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Its text in a column of this unit.
    pub fn format(&self, unit: Unit) -> String {
        let number = match self {
            Self::Nothing => return "-".to_owned(),
            Self::Text(text) => return text.clone(),
            Self::Number(number) => *number,
        };
        match unit {
            Unit::Seconds => seconds(number),
            Unit::Percent => format!("{number:.1}%"),
            Unit::Share => format!("{} {:>4}", bar(number / 100.0), format!("{number:.0}%")),
            Unit::Kib => bytes(number * 1024.0),
            Unit::Bytes => bytes(number),
            Unit::Count => grouped(number),
            Unit::Plain => format!("{number}"),
            Unit::Rate | Unit::Number | Unit::Text => short(number),
        }
    }

    /// The order of two values; what is missing comes last either way.
    pub fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let turned = |order: Ordering| if descending { order.reverse() } else { order };
        match (self, other) {
            (Self::Nothing, Self::Nothing) => Ordering::Equal,
            (Self::Nothing, _) => Ordering::Greater,
            (_, Self::Nothing) => Ordering::Less,
            (Self::Number(a), Self::Number(b)) => turned(a.total_cmp(b)),
            (Self::Text(a), Self::Text(b)) => turned(a.cmp(b)),
            (Self::Number(_), Self::Text(_)) => turned(Ordering::Less),
            (Self::Text(_), Self::Number(_)) => turned(Ordering::Greater),
        }
    }
}

/// A number with three digits or so.
pub fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 99.95 => grouped(number),
        0.0 => "0".to_owned(),
        size if size >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A part of a whole as a bar of fixed width, in eighths of a character.
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
            (Unit::Rate, 10.5, "10.5"),
            (Unit::Rate, 1234.0, "1,234"),
            (Unit::Rate, 0.0, "0"),
            (Unit::Seconds, 0.0352, "35.2 ms"),
            (Unit::Percent, 7.159, "7.2%"),
            (Unit::Kib, 2048.0, "2.1 MB"),
            (Unit::Plain, 500.0, "500"),
            (Unit::Share, 50.0, "█████       50%"),
            (Unit::Share, 400.0, "██████████ 400%"),
            (Unit::Share, 1.25, "▏            1%"),
        ] {
            assert_eq!(Cell::Number(number).format(unit), text);
        }
        assert_eq!(Cell::Nothing.format(Unit::Count), "-");
    }

    #[test]
    fn values_come_from_json_and_are_harmless() {
        assert_eq!(
            Cell::of(&json!("a\u{1b}[2J")),
            Cell::Text("a\\x1b[2J".to_owned())
        );
        assert_eq!(Cell::of(&json!(1.5)), Cell::Number(1.5));
        assert_eq!(Cell::of(&json!(null)), Cell::Nothing);
        assert_eq!(
            Cell::of(&json!({"a": 1})),
            Cell::Text("{\"a\":1}".to_owned())
        );
    }

    #[test]
    fn what_is_not_there_comes_last_either_way() {
        for descending in [false, true] {
            let mut cells = [
                Cell::Nothing,
                Cell::Number(1.0),
                Cell::Number(f64::NAN),
                Cell::Number(-2.0),
            ];
            cells.sort_by(|a, b| a.compare(b, descending));
            assert_eq!(cells[3], Cell::Nothing);
        }
    }
}
