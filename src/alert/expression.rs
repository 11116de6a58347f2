//! The language of conditions: `p95 > 800ms`, `errors / req_count > 5%`.
//!
//! ```text
//!   condition:  sum (">" | ">=" | "<" | "<=" | "==" | "!=") sum
//!   sum:        product (("+" | "-") product)*          product:  value (("*" | "/") value)*
//!   value:      a column | a number, with or without a unit | "(" sum ")"
//! ```
//!
//! Columns are those of the report, those of the native form and any percentile (`p99_9`). What is
//! computed has a unit too: `req_time_total / req_count` are seconds. A number with a unit of time
//! or size is converted to the unit of the other side, and refused if that side has none. Pure.

use std::fmt;
use std::ops::{Add as _, Div as _, Mul as _, Sub as _};

use crate::config::suggest::accepting;
use crate::grammar::percentile::{PERCENTILES_ACCEPTED, percentile_of_name};
use crate::report::definition::{Columns, Defaults, Definition};
use crate::report::layout::{Cell, LayoutColumn};
use crate::value::Unit;
use crate::value::text::with_unit;

/// A comparison of two sums over a row's columns, in the same unit.
#[derive(Debug, Clone)]
pub struct Expression {
    left: Sum,
    comparison: Comparison,
    right: Sum,
    /// The report with all columns that the condition names.
    pub definition: Definition,
    /// These columns: position and name.
    pub columns: Vec<(usize, String)>,
    /// Whether the value of one of them needs a histogram.
    pub has_quantiles: bool,
}

/// An arithmetic expression.
#[derive(Debug, Clone)]
struct Sum {
    /// Its unit; none for numbers without one, and for what has no unit that we know.
    unit: Unit,
    moves: Moves,
    term: Term,
}

/// Whether a value can grow, and whether it can fall, as more is counted. Sums grow; rates,
/// quotients of sums and percentiles are taken as they are.
type Moves = [bool; 2];

fn difference(left: Moves, right: Moves) -> Moves {
    [left[0] || right[1], left[1] || right[0]]
}

/// A sum over numbers alone is a number.
#[derive(Debug, Clone)]
enum Term {
    Number(f64),
    /// A column, by its position in the report and its name.
    Column(usize, String),
    Of(Box<Sum>, Operator, Box<Sum>),
}

/// A comparison as it is written.
type Comparison = (&'static str, fn(&f64, &f64) -> bool);

const COMPARISONS: [Comparison; 6] = [
    (">=", f64::ge),
    ("<=", f64::le),
    ("==", f64::eq),
    ("!=", f64::ne),
    (">", f64::gt),
    ("<", f64::lt),
];

/// Of each, the one that says the same when the sides are swapped.
const MIRRORED: [usize; 6] = [1, 0, 2, 3, 5, 4];

/// Units as they are written, with the base unit; a number of them is multiplied by the first
/// factor and divided by the second, so that 700 ms are exactly 0.7 s.
const UNITS: [(&str, Unit, f64, f64); 14] = [
    ("us", Unit::Seconds, 1.0, 1e6),
    ("ms", Unit::Seconds, 1.0, 1e3),
    ("s", Unit::Seconds, 1.0, 1.0),
    ("min", Unit::Seconds, 60.0, 1.0),
    ("h", Unit::Seconds, 3600.0, 1.0),
    ("B", Unit::Bytes, 1.0, 1.0),
    ("kB", Unit::Bytes, 1e3, 1.0),
    ("MB", Unit::Bytes, 1e6, 1.0),
    ("GB", Unit::Bytes, 1e9, 1.0),
    ("KiB", Unit::Bytes, 1024.0, 1.0),
    ("MiB", Unit::Bytes, 1_048_576.0, 1.0),
    ("GiB", Unit::Bytes, 1_073_741_824.0, 1.0),
    ("%", Unit::Ratio, 1.0, 100.0),
    ("", Unit::None, 1.0, 1.0),
];

/// Aliases of columns.
const ALIASES: [(&str, &str); 2] = [("errors", "error_count"), ("median", "p50")];

/// An operator as it is written, and its rank: those of the second one come first.
type Operator = (char, u8, fn(f64, f64) -> f64);

const OPERATORS: [Operator; 4] =
    [('+', 0, f64::add), ('-', 0, f64::sub), ('*', 1, f64::mul), ('/', 1, f64::div)];

/// Maximum number of values and parentheses in a condition.
const VALUES_MAX: usize = 32;

impl Expression {
    /// Parses a condition over a report.
    ///
    /// # Errors
    /// A message that says what is wrong and what is accepted.
    pub fn parse(text: &str, report: &Definition, defaults: &Defaults) -> Result<Self, String> {
        let none = || format!("no comparison; accepted: {}", COMPARISONS.map(|it| it.0).join(" "));
        let mut comparisons = COMPARISONS.iter().enumerate();
        let found = comparisons.find_map(|(at, it)| Some((at, text.split_once(it.0)?)));
        let (mut comparison, (left, right)) = found.ok_or_else(none)?;
        let names = text.split(|it: char| !it.is_alphanumeric() && it != '_');
        let percentiles = names.filter_map(|it| percentile_of_name(known_as(it))).take(VALUES_MAX);
        let definition = report.read_as(&Columns::Extended(percentiles.collect()), defaults);
        let definition = definition.unwrap_or_else(|| report.clone());
        let columns = Vec::new();
        let mut reader = Reader { rest: "", definition: &definition, columns, values: 0 };
        let (mut left, mut right) = (reader.read(left)?, reader.read(right)?);
        let columns = reader.columns;
        // The value is what is compared with a number.
        if matches!(left.term, Term::Number(_)) {
            std::mem::swap(&mut left, &mut right);
            comparison = MIRRORED[comparison];
        }
        let comparison = COMPARISONS[comparison];
        let unit = match (&left.term, left.unit, &right.term) {
            (Term::Number(_), ..) => return Err("no column of the report in it".to_owned()),
            // A share as percent, any other quotient as a number: `p95 / p50 > 3`.
            (_, Unit::Ratio, Term::Number(..=1.0)) => Unit::Ratio,
            (_, Unit::Ratio, Term::Number(_)) if right.unit == Unit::Ratio => Unit::Ratio,
            (_, Unit::Ratio, _) => Unit::None,
            (_, unit, _) => unit,
        };
        right = right.in_unit_of(left.unit)?;
        (left.unit, right.unit) = (unit, unit);
        let has_quantiles = definition.layout.want(columns.iter().map(|it| it.0)).quantiles;
        Ok(Self { left, comparison, right, definition, columns, has_quantiles })
    }

    /// Evaluates the condition; returns the result and the value of the left side, or `None` if a
    /// value is missing.
    pub fn holds(&self, column: &impl Fn(usize) -> Option<f64>) -> Option<(bool, f64)> {
        let (left, right) = (self.left.value(column)?, self.right.value(column)?);
        Some((self.comparison.1(&left, &right), left))
    }

    /// Returns whether this result stays, whatever else is counted in the window.
    pub fn is_final(&self, holds: bool) -> bool {
        match (difference(self.left.moves, self.right.moves), self.comparison.0) {
            ([grows, falls], ">" | ">=") => !(if holds { falls } else { grows }),
            ([grows, falls], "<" | "<=") => !(if holds { grows } else { falls }),
            (moves, _) => moves == [false; 2],
        }
    }

    /// Returns the right side as text.
    pub fn threshold(&self) -> String {
        format!("{} {}", self.comparison.0, self.right)
    }

    /// Returns a value of the left side with its unit.
    pub fn text(&self, value: f64) -> String {
        with_unit(value, self.left.unit)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.left, self.threshold())
    }
}

impl Sum {
    fn value(&self, column: &impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let number = match &self.term {
            Term::Number(number) => *number,
            Term::Column(at, _) => column(*at)?,
            Term::Of(left, (.., apply), right) => apply(left.value(column)?, right.value(column)?),
        };
        number.is_finite().then_some(number)
    }

    /// Converts a number into the unit of what it is added to or compared with.
    fn in_unit_of(mut self, other: Unit) -> Result<Self, String> {
        let Term::Number(number) = &mut self.term else { return Ok(self) };
        // The unit in which such a number is written, and what one of it is in the other.
        let (written, factor) = match other {
            Unit::Kib => (Unit::Bytes, 1.0 / 1024.0),
            Unit::Percent => (Unit::Ratio, 100.0),
            other => (other, 1.0),
        };
        match self.unit {
            own if own == Unit::None || own == other => {}
            own if own == written => *number *= factor,
            own => {
                let of = if own == Unit::Ratio { "percent" } else { own.name() };
                let units = UNITS.iter().filter(|it| it.1 == written && !it.0.is_empty());
                let units: Vec<&str> = units.map(|it| it.0).collect();
                let accepted = match units.is_empty() {
                    true => "a number without a unit".to_owned(),
                    false => format!("the units {}", units.join(", ")),
                };
                return Err(format!(
                    "a number of {of} is compared with what is none; accepted: {accepted}"
                ));
            }
        }
        self.unit = other;
        Ok(self)
    }

    /// Returns the unit of what is computed from it and another value; none if we know none.
    fn unit_with(&self, operator: char, other: &Self) -> Unit {
        let is_plain = |it: &Self| it.unit == Unit::None && matches!(it.term, Term::Number(_));
        // Twice a time is a time; a hundred times a share, or sixty times a rate, is another unit.
        let scaled = |unit: Unit| match unit {
            Unit::Seconds | Unit::Bytes | Unit::Kib | Unit::Percent => unit,
            _ => Unit::None,
        };
        match (self.unit, operator, other.unit) {
            (unit, '*' | '/', _) if is_plain(other) => scaled(unit),
            (_, '*', unit) if is_plain(self) => scaled(unit),
            (Unit::None, ..) | (.., Unit::None) => Unit::None,
            (own, '+' | '-', other) if own == other => own,
            (own, '/', other) if own == other => Unit::Ratio,
            (unit, '*' | '/', Unit::Ratio) | (Unit::Ratio, '*', unit) => unit,
            // For each request or hit: `req_time_total / req_count`; and for all of them.
            (unit, '*' | '/', Unit::Count) | (Unit::Count, '*', unit) => unit,
            (unit, '/', Unit::Seconds) if unit.per_second() != unit => unit.per_second(),
            (rate, '/', Unit::CountPerSecond) => {
                let is_of_rate = |it: &Unit| *it != rate && it.per_second() == rate;
                Unit::ALL.into_iter().find(is_of_rate).unwrap_or_default()
            }
            _ => Unit::None,
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.term {
            Term::Number(number) => f.write_str(&with_unit(*number, self.unit)),
            Term::Column(_, name) => f.write_str(name),
            Term::Of(left, (sign, rank, _), right) => {
                match &left.term {
                    Term::Of(_, (_, of_left, _), _) if of_left < rank => write!(f, "({left})"),
                    _ => write!(f, "{left}"),
                }?;
                match &right.term {
                    Term::Of(..) => write!(f, " {sign} ({right})"),
                    _ => write!(f, " {sign} {right}"),
                }
            }
        }
    }
}

/// Reads the sides of a condition.
struct Reader<'a> {
    /// What is left of a side, without blanks before it.
    rest: &'a str,
    definition: &'a Definition,
    /// Columns read so far.
    columns: Vec<(usize, String)>,
    /// Values read so far, and sums in parentheses.
    values: usize,
}

impl<'a> Reader<'a> {
    fn read(&mut self, side: &'a str) -> Result<Sum, String> {
        self.rest = side.trim_start();
        if self.rest.is_empty() {
            return Err("nothing on one side of the comparison".to_owned());
        }
        let sum = self.sum(0)?;
        match self.rest {
            "" => Ok(sum),
            rest => Err(format!(
                "an operator is missing before {rest:?}, or a parenthesis is not closed"
            )),
        }
    }

    /// Takes the characters of a kind off the front.
    fn take(&mut self, is_such: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|it: char| !is_such(it)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        taken
    }

    /// Takes a sign off the front; returns false if it is not there.
    fn skip(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.map_or(self.rest, str::trim_start);
        rest.is_some()
    }

    /// Reads values and the operators of this rank and above between them.
    fn sum(&mut self, least: u8) -> Result<Sum, String> {
        let mut all = self.value()?;
        while let Some(operator) = OPERATORS.iter().find(|it| it.1 >= least && self.skip(it.0)) {
            let mut next = self.sum(operator.1 + 1)?;
            if operator.1 == 0 {
                let units = (all.unit, next.unit);
                (all, next) = (all.in_unit_of(units.1)?, next.in_unit_of(units.0)?);
            }
            let unit = all.unit_with(operator.0, &next);
            let (of_all, of_next) = (all.moves, next.moves);
            let moves = match (&all.term, operator.0, &next.term) {
                (.., '/', Term::Number(0.0)) => return Err("a division by 0".to_owned()),
                (_, '+', _) => difference(of_all, [of_next[1], of_next[0]]),
                (_, '-', _) => difference(of_all, of_next),
                (.., Term::Number(0.0..)) => of_all,
                (Term::Number(0.0..), '*', _) => of_next,
                // A quotient of sums, too, is that of what was counted.
                (_, '/', _) if of_all == of_next && !of_all[1] => [false; 2],
                _ => [[of_all, of_next] != [[false; 2]; 2]; 2],
            };
            let term = match (&all.term, &next.term) {
                (&Term::Number(a), &Term::Number(b)) => Term::Number(operator.2(a, b)),
                _ => Term::Of(Box::new(all), *operator, Box::new(next)),
            };
            all = Sum { unit, moves, term };
        }
        Ok(all)
    }

    fn value(&mut self) -> Result<Sum, String> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(format!("more than {VALUES_MAX} values"));
        }
        if self.skip('(') {
            let inner = self.sum(0)?;
            return self.skip(')').then_some(inner).ok_or("a parenthesis is not closed".to_owned());
        }
        match self.rest.chars().next() {
            None => Err("something is missing at an end".to_owned()),
            Some('0'..='9' | '.') => self.number(),
            Some(first) if first.is_alphabetic() || first == '_' => self.column(),
            Some(first) => Err(format!("{first:?} stands where a value should")),
        }
    }

    /// Reads a number, with or without a unit.
    fn number(&mut self) -> Result<Sum, String> {
        let digits = self.take(|it| it.is_ascii_digit() || it == '.');
        let name = self.take(|it| it.is_ascii_alphabetic() || it == '%');
        let number: f64 = digits.parse().map_err(|_| format!("{digits:?} is not a number"))?;
        let (_, unit, times, by) = UNITS.iter().find(|it| it.0 == name).ok_or_else(|| {
            let names: Vec<&str> = UNITS[..13].iter().map(|it| it.0).collect();
            format!("{name:?} is not a unit; accepted: {}", names.join(", "))
        })?;
        Ok(Sum { unit: *unit, moves: [false; 2], term: Term::Number(number * times / by) })
    }

    fn column(&mut self) -> Result<Sum, String> {
        let name = self.take(|it| it.is_alphanumeric() || it == '_');
        let Definition { name: report, layout, .. } = self.definition;
        let at = layout.position(name).or_else(|| layout.position(known_as(name)));
        let is_number = |it: &LayoutColumn| it.column.unit != Unit::None;
        let found = at.map(|at| (at, &layout.columns()[at])).filter(|it| is_number(it.1));
        let Some((at, LayoutColumn { column, cell })) = found else {
            let numbers = layout.columns().iter().filter(|it| is_number(it));
            let names: Vec<&str> = numbers.map(|it| it.column.name.as_str()).collect();
            let accepted = accepting(name, &names);
            return Err(format!(
                "report {report} has no number {name:?}{accepted}; {PERCENTILES_ACCEPTED}"
            ));
        };
        self.columns.push((at, column.name.clone()));
        let moves = [matches!(cell, Cell::Sum(..) | Cell::TimeInterval), false];
        Ok(Sum { unit: column.unit, moves, term: Term::Column(at, column.name.clone()) })
    }
}

fn known_as(name: &str) -> &str {
    ALIASES.iter().find(|it| it.0 == name).map_or(name, |it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::native::ReportForm;

    fn parse(text: &str) -> Result<Expression, String> {
        let defaults = Defaults::default();
        let form = ReportForm::of_comment("x", "report1");
        let report = form.definition(&defaults).unwrap();
        Expression::parse(text, &report, &defaults)
    }

    #[test]
    fn conditions_are_read_and_numbers_taken_into_the_units_of_columns() {
        for (text, shown) in cases![
            "p95 > 800ms" => "p95 > 800 ms";
            "p90 > 700ms" => "p90 > 700 ms";
            "p50 > 35us" => "p50 > 35 \u{b5}s";
            "p50 > 2min" => "p50 > 120 s";
            "0.5 >= req_time_median" => "req_time_median <= 500 ms";
            "2 * 400ms < p95 + p50" => "p95 + p50 > 800 ms";
            "5 != req_count" => "req_count != 5";
            "errors/req_count>5%" => "error_count / req_count > 5.0 %";
            "errors/req_count>0.5" => "error_count / req_count > 50.0 %";
            "req_per_sec > 800" => "req_per_sec > 800/s";
            "traffic_total > 1MiB" => "traffic_total > 1.00 MiB";
            "req_time_percent < 30%" => "req_time_percent < 30.0 %";
            "(errors + 1) / (req_count - 2) != 3" => "(error_count + 1) / (req_count - 2) != 3";
            "p99_9 * 2 <= req_time_max" => "p99_9 * 2 <= req_time_max";
            "p99_999999 <= req_time_max" => "p99_999999 <= req_time_max";
            "p95 > p50 + 400ms" => "p95 > p50 + 400 ms";
            "p95 > 2 * 400ms" => "p95 > 800 ms";
            "traffic_total > 2 * 1MiB" => "traffic_total > 2.00 MiB";
            "p95 / p50 > 3" => "p95 / p50 > 3";
        ] {
            assert_eq!(parse(text).map(|it| it.to_string()).as_deref(), Ok(shown));
        }
        for (text, value, shown) in [
            ("p95 > 1", 0.912_345, "912 ms"),
            ("errors / req_count > 0.02", 0.123_4, "12.3 %"),
            ("errors / req_count * 100 > 2", 12.34, "12.3"),
            ("100 * errors / req_count > 0.5", 12.34, "12.3"),
            ("req_per_sec * 60 > 10", 12.34, "12.3"),
            ("p95 / p50 > 3", 4.567, "4.57"),
            ("2 * req_time_total / req_count > 0.1", 0.25, "250 ms"),
            ("req_time_total / (req_count + 1) > 100ms", 0.25, "250 ms"),
            ("p95 - p50 > 0.1", 0.25, "250 ms"),
            ("req_time_median * req_count > 1min", 90.0, "90.0 s"),
            ("traffic_total / req_count > 10kB", 20.0, "20.0 KiB"),
            ("traffic_per_sec / req_per_sec > 10kB", 20.0, "20.0 KiB"),
            ("req_time_per_sec / req_per_sec > 1s", 1.5, "1.50 s"),
            ("traffic_total / req_time_total > 3", 20.0, "20.0 KiB/s"),
            ("req_count / req_time_total > 3", 20.5, "20.5/s"),
            ("req_count / traffic_total > 3", 20.0, "20"),
            ("1 / p95 > 3", 20.0, "20"),
            ("traffic_total * (1 - errors / req_count) > 1", 2.0, "2.00 KiB"),
        ] {
            let parsed = parse(text).unwrap();
            assert_eq!(parsed.text(value), shown, "{text}");
        }
        let kib = parse("traffic_total > 2 * 1MiB").unwrap();
        assert_eq!(kib.holds(&|_| Some(2_049.0)), Some((true, 2_049.0)));
        let holds = |text: &str, number: f64| parse(text).unwrap().holds(&|_| Some(number));
        assert_eq!(holds("p95 > 800ms", 0.9), Some((true, 0.9)));
        assert_eq!(holds("50ms < p95", 0.1), Some((true, 0.1)));
        assert_eq!(holds("2 * p95 + 1 < 3", 1.0), Some((false, 3.0)));
        assert_eq!(holds("errors / req_count > 0", 0.0), None, "of nothing");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, problem) in cases![
            "p95" => "no comparison; accepted: >= <= == != > <";
            "p95 >" => "nothing on one side";
            "1 > 2" => "no column of the report";
            "pp95 > 1" => "has no number \"pp95\"; accepted: req_count, ";
            "script_name > 1" => "has no number \"script_name\"";
            "p95 > 1parsec" => "\"parsec\" is not a unit; accepted: us, ms";
            "p95 > 1MB" => "a number of bytes is compared with what is none; accepted: the units us, ms, s, min, h";
            "req_count > 1 %" => "a number of percent is compared with what is none; accepted: a number without a unit";
            "req_count > 1s" => "a number of seconds is compared";
            "req_count / p95 > 1s" => "a number of seconds is compared";
            "req_count + 1s > 1" => "a number of seconds is compared";
            "p95 > (1" => "a parenthesis is not closed";
            "p95 p50 > 1" => "an operator is missing";
            "p95 > * 2" => "'*' stands where a value should";
            "p95 / 0 > 1" => "a division by 0";
            "p95 > 1 / (2 - 2)" => "a division by 0";
            "p95 > 1.2.3" => "\"1.2.3\" is not a number";
            "p95 > €" => "'€' stands where a value should";
            "p95 > 1€" => "an operator is missing before \"€\"";
            "p95 > " => "nothing on one side";
            "p95 > 1 + " => "something is missing at an end";
            "p95 > 1--1" => "'-' stands where a value should";
            "p101 > 1" => "has no number";
            "p99_9999999 > 1" => "; a percentile is above 0 and at most 100, as p95 or p99_9";
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let long = format!("p95 > {}1", "1+".repeat(40));
        assert!(parse(&long).unwrap_err().contains("more than 32"));
    }
}
