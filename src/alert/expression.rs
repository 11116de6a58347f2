//! The language of conditions: `p95 > 800ms`, `errors / req_count > 5%`.
//!
//! ```text
//!   condition:  sum (">" | ">=" | "<" | "<=" | "==" | "!=") sum
//!   sum:        product (("+" | "-") product)*          product:  value (("*" | "/") value)*
//!   value:      a column | a number, with or without a unit | "(" sum ")"
//! ```
//!
//! Columns are those of the report, those of the native form and any percentile (`p99_9`). A number
//! with a unit of time or size is converted to the unit of the other side, and refused if that side
//! has none. Pure.

use std::fmt;

use super::rule::shown;
use crate::config::suggest;
use crate::report::definition::{Columns, Defaults, Definition};
use crate::value::Unit;

/// A comparison of two sums over a row's columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    left: Sum,
    comparison: &'static str,
    right: Sum,
    /// The unit of both sides.
    unit: Unit,
}

/// An arithmetic expression.
#[derive(Debug, Clone, PartialEq)]
enum Sum {
    Number(f64),
    /// A column, by its position in the report and its name.
    Column(usize, String),
    Of(Box<Sum>, char, Box<Sum>),
}

/// Dimension of a number, as far as units need it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Dimension {
    Number,
    Seconds,
    /// A size; the field holds the bytes in one unit.
    Bytes(f64),
    Percent,
    Ratio,
}

const COMPARISONS: [&str; 6] = [">=", "<=", "==", "!=", ">", "<"];

/// Units with their dimension and factor to the base unit. A negative factor divides: it says how
/// many of the smaller unit make one base unit, so that 700 ms are exactly 0.7 s.
const UNITS: [(&str, Dimension, f64); 14] = [
    ("us", Dimension::Seconds, -1e6),
    ("ms", Dimension::Seconds, -1e3),
    ("s", Dimension::Seconds, 1.0),
    ("min", Dimension::Seconds, 60.0),
    ("h", Dimension::Seconds, 3600.0),
    ("B", Dimension::Bytes(1.0), 1.0),
    ("kB", Dimension::Bytes(1.0), 1e3),
    ("MB", Dimension::Bytes(1.0), 1e6),
    ("GB", Dimension::Bytes(1.0), 1e9),
    ("KiB", Dimension::Bytes(1.0), 1024.0),
    ("MiB", Dimension::Bytes(1.0), 1_048_576.0),
    ("GiB", Dimension::Bytes(1.0), 1_073_741_824.0),
    ("%", Dimension::Ratio, -100.0),
    ("", Dimension::Number, 1.0),
];

/// Aliases of columns.
const ALIASES: [(&str, &str); 2] = [("errors", "error_count"), ("median", "p50")];

/// Maximum number of values in a condition.
const VALUES_MAX: usize = 32;

impl Expression {
    /// Parses a condition over a report. Returns it together with the report, extended by all
    /// columns that the condition names.
    ///
    /// # Errors
    /// A message that says what is wrong and what is accepted.
    pub fn parse(
        text: &str,
        report: &Definition,
        defaults: &Defaults,
    ) -> Result<(Self, Definition), String> {
        let comparison = COMPARISONS
            .into_iter()
            .find(|it| text.contains(it))
            .ok_or_else(|| format!("no comparison; accepted: {}", COMPARISONS.join(" ")))?;
        let (left, right) = text.split_once(comparison).unwrap_or_default();
        let (left, right) = (tokens(left)?, tokens(right)?);
        let named = left.iter().chain(&right).filter_map(|token| match token {
            Token::Name(name) => percent(&known_as(name)),
            _ => None,
        });
        let mut percentiles: Vec<f64> = named.collect();
        percentiles.sort_by(f64::total_cmp);
        percentiles.dedup();
        let columns = Columns::Extended(percentiles);
        let definition = report
            .read_as(&columns, defaults)
            .unwrap_or_else(|| report.clone());
        let left = Reader::read(&left, &definition)?;
        let right = Reader::read(&right, &definition)?;
        let settle = |sum: Parsed, other: Dimension| sum.in_unit_of(other);
        let dimensions = (left.dimension(), right.dimension());
        if !left.has_column && !right.has_column {
            return Err("no column of the report in it".to_owned());
        }
        let unit = match left.has_column {
            true => left.unit(&definition, right.dimension),
            false => right.unit(&definition, left.dimension),
        };
        let expression = Self {
            left: settle(left, dimensions.1)?,
            comparison,
            right: settle(right, dimensions.0)?,
            unit,
        };
        Ok((expression, definition))
    }

    /// Returns the percentiles used, in percent.
    pub fn percentiles(&self) -> Vec<f64> {
        let mut found = Vec::new();
        self.each_column(&mut |_, name| found.extend(percent(name)));
        found
    }

    /// Passes every column used to `each`.
    pub fn each_column(&self, each: &mut impl FnMut(usize, &str)) {
        self.left.each_column(each);
        self.right.each_column(each);
    }

    /// Evaluates the condition; returns the result and the value of the left side, or `None` if a
    /// value is missing.
    pub fn holds(&self, column: &impl Fn(usize) -> Option<f64>) -> Option<(bool, f64)> {
        let (left, right) = (self.left.of(column)?, self.right.of(column)?);
        let holds = match self.comparison {
            ">=" => left >= right,
            "<=" => left <= right,
            "==" => left == right,
            "!=" => left != right,
            ">" => left > right,
            _ => left < right,
        };
        Some((holds, left))
    }

    /// Returns the right side as text.
    pub fn threshold(&self) -> String {
        format!("{} {}", self.comparison, self.side(&self.right))
    }

    /// Returns a value of the left side with its unit.
    pub fn text(&self, value: f64) -> String {
        with_unit(value, self.unit)
    }

    /// Returns one side as text.
    fn side(&self, sum: &Sum) -> String {
        match sum {
            Sum::Number(number) => self.text(*number),
            other => other.to_string(),
        }
    }
}

/// Formats a number with its unit.
fn with_unit(value: f64, unit: Unit) -> String {
    let scaled = |steps: &[(f64, &str)]| {
        let fits = |step: &&(f64, &str)| value.abs() >= step.0;
        let (size, name) = steps.iter().rev().find(fits).unwrap_or(&steps[0]);
        format!("{} {name}", shown(value / size))
    };
    let bytes = |value: f64| {
        let sizes = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut places = (0..sizes.len()).rev();
        let at = places.find(|at| value.abs() >= 1024_f64.powi(*at as i32));
        let at = at.unwrap_or(0);
        format!("{} {}", shown(value / 1024_f64.powi(at as i32)), sizes[at])
    };
    match unit {
        Unit::Seconds if value == 0.0 => "0 s".to_owned(),
        Unit::Seconds => scaled(&[(1e-6, "\u{b5}s"), (1e-3, "ms"), (1.0, "s")]),
        Unit::Bytes => bytes(value),
        Unit::Kib => bytes(value * 1024.0),
        Unit::BytesPerSecond => bytes(value) + "/s",
        Unit::KibPerSecond => bytes(value * 1024.0) + "/s",
        Unit::Percent => shown(value) + " %",
        Unit::Ratio => shown(value * 100.0) + " %",
        Unit::CountPerSecond => shown(value) + "/s",
        Unit::None | Unit::Count | Unit::UnixSeconds | Unit::SecondsPerSecond => shown(value),
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.side(&self.left), self.threshold())
    }
}

impl Sum {
    fn of(&self, column: &impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let number = match self {
            Self::Number(number) => *number,
            Self::Column(at, _) => column(*at)?,
            Self::Of(left, operator, right) => {
                let (left, right) = (left.of(column)?, right.of(column)?);
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
        };
        number.is_finite().then_some(number)
    }

    fn each_column(&self, each: &mut impl FnMut(usize, &str)) {
        match self {
            Self::Number(_) => {}
            Self::Column(at, name) => each(*at, name),
            Self::Of(left, _, right) => {
                left.each_column(each);
                right.each_column(each);
            }
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Column(_, name) => f.write_str(name),
            Self::Of(left, operator, right) => match (&**left, &**right) {
                (_, Self::Of(..)) => write!(f, "{left} {operator} ({right})"),
                _ => write!(f, "{left} {operator} {right}"),
            },
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Number(f64, Dimension),
    Sign(char),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = |fits: fn(char) -> bool| rest.find(|it| !fits(it)).unwrap_or(rest.len());
        let token_len;
        if first.is_ascii_digit() || first == '.' {
            let digits = length(|it| it.is_ascii_digit() || it == '.');
            let (digits, behind) = rest.split_at(digits);
            let unit_len = behind
                .find(|it: char| !it.is_ascii_alphabetic() && it != '%')
                .unwrap_or(behind.len());
            let (unit, _) = behind.split_at(unit_len);
            let number: f64 = digits
                .parse()
                .map_err(|_| format!("{digits:?} is no number"))?;
            let found = UNITS.iter().find(|it| it.0 == unit).ok_or_else(|| {
                let names: Vec<&str> = UNITS[..13].iter().map(|it| it.0).collect();
                format!("{unit:?} is no unit; accepted: {}", names.join(", "))
            })?;
            let number = match found.2 {
                parts if parts < 0.0 => number / -parts,
                times => number * times,
            };
            tokens.push(Token::Number(number, found.1));
            token_len = digits.len() + unit.len();
        } else if first.is_alphabetic() || first == '_' {
            token_len = length(|it| it.is_alphanumeric() || it == '_');
            let (name, _) = rest.split_at(token_len);
            tokens.push(Token::Name(name.to_owned()));
        } else if "+-*/()".contains(first) {
            tokens.push(Token::Sign(first));
            token_len = 1;
        } else {
            return Err(format!("{first:?} is not understood"));
        }
        rest = rest.split_at(token_len).1.trim_start();
    }
    match tokens.len() {
        0 => Err("nothing on one side of the comparison".to_owned()),
        1..=VALUES_MAX => Ok(tokens),
        _ => Err(format!("more than {VALUES_MAX} names, numbers and signs")),
    }
}

/// A parsed sum.
struct Parsed {
    sum: Sum,
    dimension: Dimension,
    has_column: bool,
}

impl Parsed {
    fn dimension(&self) -> Dimension {
        self.dimension
    }

    /// Returns the unit in which its values are shown, beside a side of this dimension.
    fn unit(&self, definition: &Definition, other: Dimension) -> Unit {
        if let Sum::Column(at, _) = self.sum {
            return definition.layout.columns()[at].column.unit;
        }
        match (self.dimension, other) {
            (Dimension::Seconds, _) => Unit::Seconds,
            (Dimension::Bytes(1024.0), _) => Unit::Kib,
            (Dimension::Bytes(_), _) => Unit::Bytes,
            (Dimension::Percent, _) => Unit::Percent,
            // A fraction that is compared with percent.
            (Dimension::Ratio, Dimension::Ratio) => Unit::Ratio,
            (Dimension::Ratio | Dimension::Number, _) => Unit::None,
        }
    }

    /// Converts a number with a unit into the unit of the other side.
    fn in_unit_of(self, other: Dimension) -> Result<Sum, String> {
        let Sum::Number(number) = self.sum else {
            return Ok(self.sum);
        };
        match (self.dimension, other) {
            (Dimension::Bytes(_), Dimension::Bytes(size)) => Ok(Sum::Number(number / size)),
            (Dimension::Ratio, Dimension::Percent) => Ok(Sum::Number(number * 100.0)),
            (Dimension::Number, _) => Ok(Sum::Number(number)),
            (own, other) if own == other => Ok(Sum::Number(number)),
            (own, _) => Err(format!(
                "a number of {} is compared with what is none; accepted: a number without a unit",
                match own {
                    Dimension::Seconds => "seconds",
                    Dimension::Bytes(_) => "bytes",
                    _ => "percent",
                }
            )),
        }
    }
}

struct Reader<'a> {
    tokens: &'a [Token],
    definition: &'a Definition,
}

impl Reader<'_> {
    fn read(tokens: &[Token], definition: &Definition) -> Result<Parsed, String> {
        let mut reader = Reader { tokens, definition };
        let sum = reader.sum()?;
        match reader.tokens {
            [] => Ok(sum),
            _ => Err("an operator is missing, or a parenthesis is not closed".to_owned()),
        }
    }

    fn sum(&mut self) -> Result<Parsed, String> {
        self.chain(['+', '-'], Self::product)
    }

    fn product(&mut self) -> Result<Parsed, String> {
        self.chain(['*', '/'], Self::value)
    }

    fn chain(
        &mut self,
        operators: [char; 2],
        part: fn(&mut Self) -> Result<Parsed, String>,
    ) -> Result<Parsed, String> {
        let mut all = part(self)?;
        while let [Token::Sign(sign), rest @ ..] = self.tokens
            && operators.contains(sign)
        {
            self.tokens = rest;
            let next = part(self)?;
            let dimension = match sign {
                '/' if all.dimension == next.dimension => Dimension::Ratio,
                '+' | '-' if all.dimension == next.dimension => all.dimension,
                '*' | '/' if next.dimension == Dimension::Number && !next.has_column => {
                    all.dimension
                }
                _ => Dimension::Number,
            };
            all = Parsed {
                sum: Sum::Of(Box::new(all.sum), *sign, Box::new(next.sum)),
                dimension,
                has_column: all.has_column || next.has_column,
            };
        }
        Ok(all)
    }

    fn value(&mut self) -> Result<Parsed, String> {
        let [first, rest @ ..] = self.tokens else {
            return Err("something is missing at an end".to_owned());
        };
        self.tokens = rest;
        match first {
            Token::Number(number, dimension) => Ok(Parsed {
                sum: Sum::Number(*number),
                dimension: *dimension,
                has_column: false,
            }),
            Token::Name(name) => self.column(name),
            Token::Sign('(') => {
                let inner = self.sum()?;
                let [Token::Sign(')'), rest @ ..] = self.tokens else {
                    return Err("a parenthesis is not closed".to_owned());
                };
                self.tokens = rest;
                Ok(inner)
            }
            Token::Sign(sign) => Err(format!("'{sign}' stands where a value should")),
        }
    }

    fn column(&self, name: &str) -> Result<Parsed, String> {
        let layout = &self.definition.layout;
        let known = known_as(name);
        let at = layout.position(name).or_else(|| layout.position(&known));
        let found = at.and_then(|at| Some((at, dimension(layout.columns()[at].column.unit)?)));
        let (at, dimension) = found.ok_or_else(|| {
            let columns = layout.columns().iter();
            let numbers = columns.filter(|it| dimension(it.column.unit).is_some());
            let names: Vec<&str> = numbers.map(|it| it.column.name.as_str()).collect();
            let question = suggest::question(name, names.iter().copied());
            let mark = if question.is_empty() { ";" } else { "" };
            format!(
                "report {} has no number {name:?}{question}{mark} accepted: {}, and percentiles such as p95, p99_9",
                self.definition.name,
                names.join(", ")
            )
        })?;
        Ok(Parsed {
            sum: Sum::Column(at, layout.columns()[at].column.name.clone()),
            dimension,
            has_column: true,
        })
    }
}

fn known_as(name: &str) -> String {
    let alias = ALIASES.iter().find(|it| it.0 == name);
    alias.map_or(name, |it| it.1).to_owned()
}

/// Returns the dimension of a column, or `None` if it is not a number.
const fn dimension(unit: Unit) -> Option<Dimension> {
    match unit {
        Unit::None => None,
        Unit::Seconds | Unit::UnixSeconds => Some(Dimension::Seconds),
        Unit::Bytes => Some(Dimension::Bytes(1.0)),
        Unit::Kib => Some(Dimension::Bytes(1024.0)),
        Unit::Percent => Some(Dimension::Percent),
        _ => Some(Dimension::Number),
    }
}

/// The rank of a percentile column, in percent.
pub(super) fn percent(name: &str) -> Option<f64> {
    let rank = name.strip_prefix('p')?;
    let is_rank = rank.len() <= 7
        && rank.starts_with(|it: char| it.is_ascii_digit())
        && rank.bytes().all(|it| it.is_ascii_digit() || it == b'_');
    let percent: f64 = is_rank.then(|| rank.replacen('_', ".", 1))?.parse().ok()?;
    (percent > 0.0 && percent <= 100.0).then_some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::native::ReportForm;

    fn parse(text: &str) -> Result<Expression, String> {
        let defaults = Defaults::default();
        let form = ReportForm::of_comment("x", "report1");
        let report = form.definition(&defaults).unwrap();
        Expression::parse(text, &report, &defaults).map(|it| it.0)
    }

    #[test]
    fn conditions_are_read_and_numbers_taken_into_the_units_of_columns() {
        for (text, shown) in cases![
            "p95 > 800ms" => "p95 > 800 ms";
            "p90 > 700ms" => "p90 > 700 ms";
            "p50 > 35us" => "p50 > 35 \u{b5}s";
            "p50 > 2min" => "p50 > 120 s";
            "0.5 >= req_time_median" => "500 ms >= req_time_median";
            "errors/req_count>5%" => "error_count / req_count > 5 %";
            "errors/req_count>0.5" => "error_count / req_count > 0.5";
            "req_per_sec > 800" => "req_per_sec > 800/s";
            "traffic_total > 1MiB" => "traffic_total > 1 MiB";
            "req_time_percent < 30%" => "req_time_percent < 30 %";
            "(errors + 1) / (req_count - 2) != 3" => "error_count + 1 / (req_count - 2) != 3";
            "p99_9 * 2 <= req_time_max" => "p99_9 * 2 <= req_time_max";
        ] {
            assert_eq!(parse(text).map(|it| it.to_string()).as_deref(), Ok(shown));
        }
        assert_eq!(parse("p95 > 1").unwrap().text(0.912_345), "912.3 ms");
        let holds = |text: &str, number: f64| parse(text).unwrap().holds(&|_| Some(number));
        assert_eq!(holds("p95 > 800ms", 0.9), Some((true, 0.9)));
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
            "p95 > 1parsec" => "\"parsec\" is no unit; accepted: us, ms";
            "p95 > 1MB" => "a number of bytes is compared with what is none";
            "req_count > 1s" => "a number of seconds is compared";
            "p95 > (1" => "a parenthesis is not closed";
            "p95 p50 > 1" => "an operator is missing";
            "p95 > * 2" => "'*' stands where a value should";
            "p95 > 1.2.3" => "\"1.2.3\" is no number";
            "p95 > €" => "is not understood";
            "p101 > 1" => "has no number";
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let long = format!("p95 > {}1", "1+".repeat(40));
        assert!(parse(&long).unwrap_err().contains("more than 32"));
    }
}
