//! Conditions as numbers, choices, XOR, and regular expressions.

use std::cell::RefCell;

use datafusion::arrow::array::Array as _;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use regex::Regex;

use super::value::Value;
use super::{
    BETWEEN, BITS, CASE, FunctionDef, INTERRUPTIBLE, MANY, NULLABLE, branch_type, def, nullable,
    strict,
};
use crate::sql::error::SqlError;

/// Most memory of a compiled expression, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// Most bytes that one replacement may add: much more than a text may have, and few enough to be
/// made and thrown away.
const GROWN_MAX: usize = 4 * super::TEXT_MAX;

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        strict("__truth", (1, 1), |a| a[0].is_true())
            .identity_for(|given| *given == DataType::Boolean),
        // A boolean used as a value is 1 or 0.
        strict("__value", (1, 1), |a| a[0].int()).identity_for(|given| *given != DataType::Boolean),
        // The condition of a join: the call checks whether the statement should end.
        nullable(INTERRUPTIBLE, (1, 1), |_| None::<bool>).identity_for(|_| true),
        nullable(NULLABLE, (1, 1), |_| None::<bool>).identity_for(|_| true),
        // Of the value once more, the lower end, the value, the upper end.
        nullable(BETWEEN, (4, 4), |_| None::<bool>),
        def(CASE, (2, MANY), |known| branch_type(&results(known.types)), |_| Value::Null),
        // DataFusion's, in the plan.
        def("coalesce", (1, MANY), |known| branch_type(known.types), |_| Value::Null),
        strict(BITS, (2, 2), |_| None::<String>).with_columns(|a| match a[0].data_type() {
            DataType::Null => {
                Err(SqlError::not_supported("bytes that are not UTF-8 as a text").into())
            }
            _ => Ok(Some(cast(&a[0], &DataType::Utf8View)?)),
        }),
        strict("__int", (1, 1), |a| a[0].int()),
        strict("__xor", (2, 2), |a| a[0].is_true() != a[1].is_true()),
        strict("__regexp", (2, 2), |a| {
            with_regex(&a[1].to_text(), |regex| regex.is_match(&a[0].to_text()))
        }),
        strict("regexp_instr", (2, 2), |a| {
            let text = a[0].to_text();
            let found = with_regex(&a[1].to_text(), |regex| regex.find(&text))?;
            let before = found.map(|found| text[..found.start()].chars().count() as i64);
            Some(before.map_or(0, |before| before + 1))
        }),
        strict("regexp_substr", (2, 2), |a| {
            let text = a[0].to_text();
            let found = with_regex(&a[1].to_text(), |regex| regex.find(&text))?;
            Some(found.map_or("", |found| found.as_str()).to_owned())
        }),
        strict("regexp_replace", (3, 3), |a| {
            // MySQL's \1 is $1 in `regex`.
            let to = replacement(&a[2].to_text().replace('$', "$$"));
            let text = a[0].to_text();
            with_regex(&a[1].to_text(), |regex| replaced(regex, &text, &to))?
        }),
    ]
}

/// The types of the results of a CASE.
fn results(types: &[DataType]) -> Vec<DataType> {
    types.chunks(2).filter_map(<[_]>::last).cloned().collect()
}

/// Replaces all matches in a text; `None` as soon as it is too long.
fn replaced(regex: &Regex, text: &str, to: &str) -> Option<String> {
    // Each group reference adds at most the whole text.
    let groups = to.matches("${").count();
    if text.len().checked_mul(groups)? > GROWN_MAX {
        return None;
    }
    let mut made = String::new();
    let mut end = 0;
    for found in regex.captures_iter(text) {
        let whole = found.get_match();
        made.push_str(&text[end..whole.start()]);
        found.expand(to, &mut made);
        end = whole.end();
        if made.len() > super::TEXT_MAX {
            return None;
        }
    }
    made.push_str(&text[end..]);
    Some(made)
}

/// Converts `\1` to `${1}`, and any other escaped character to itself.
fn replacement(to: &str) -> String {
    let mut made = String::with_capacity(to.len());
    let mut signs = to.chars();
    while let Some(sign) = signs.next() {
        let escaped = (sign == '\\').then(|| signs.next());
        match escaped.flatten() {
            Some(digit) if digit.is_ascii_digit() => made.extend(["${", &digit.to_string(), "}"]),
            Some(other) => made.push(other),
            None => made.push(sign),
        }
    }
    made
}

/// Compiles an expression; also to validate it while a statement is planned.
///
/// # Errors
/// A description of the problem.
pub(crate) fn regex(pattern: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(pattern)
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| error.to_string())
}

/// Applies `work` to a compiled expression; each thread caches the last one.
fn with_regex<T>(pattern: &str, work: impl FnOnce(&Regex) -> T) -> Option<T> {
    thread_local! {
        static LAST: RefCell<Option<(String, Regex)>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| {
        if last.as_ref().is_none_or(|(of, _)| of != pattern) {
            *last = regex(pattern).ok().map(|regex| (pattern.to_owned(), regex));
        }
        last.as_ref().map(|(_, regex)| work(regex))
    })
}
