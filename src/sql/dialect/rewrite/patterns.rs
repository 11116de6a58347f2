//! LIKE with ESCAPE, and REGEXP, both with or without telling cases apart.
//!
//! A literal pattern of REGEXP is compiled here: an invalid one is refused before the statement runs.

use datafusion::sql::sqlparser::ast::{Expr, ValueWithSpan};

use super::build::{call, text};
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;
use crate::sql::functions;

/// LIKE; without telling cases apart if that is how texts are compared.
pub(super) fn like(
    inner: Expr,
    pattern: Expr,
    escape: Option<ValueWithSpan>,
    negated: bool,
    context: &Context<'_>,
) -> Result<Expr, SqlError> {
    let pattern = like_pattern(pattern, escape)?;
    let name = match context.case_insensitive() {
        true => "__lower",
        false => "__text",
    };
    Ok(Expr::Like {
        negated,
        any: false,
        expr: Box::new(call(name, vec![inner])),
        pattern: Box::new(call(name, vec![pattern])),
        escape_char: None,
    })
}

/// A pattern whose escape is the backslash.
fn like_pattern(pattern: Expr, escape: Option<ValueWithSpan>) -> Result<Expr, SqlError> {
    let Some(escape) = escape else {
        return Ok(pattern);
    };
    let escape = escape.into_string().unwrap_or_default();
    let mut signs = escape.chars();
    let (escape, None) = (signs.next(), signs.next()) else {
        return Err(SqlError::wrong_arguments("ESCAPE takes one character"));
    };
    if escape == Some('\\') {
        return Ok(pattern);
    }
    let value = match &pattern {
        Expr::Value(literal) => literal.clone().into_string(),
        _ => None,
    };
    let Some(value) = value else {
        return Err(SqlError::not_supported(
            "LIKE ... ESCAPE with a pattern that is not a text in the statement",
        ));
    };
    let mut made = String::with_capacity(value.len());
    let mut signs = value.chars();
    while let Some(sign) = signs.next() {
        if Some(sign) == escape {
            made.push('\\');
            made.extend(signs.next());
        } else if sign == '\\' {
            made.push_str("\\\\");
        } else {
            made.push(sign);
        }
    }
    Ok(text(made))
}

/// REGEXP and RLIKE; a pattern that is written out is checked now.
pub(super) fn regexp(inner: Expr, pattern: Expr, context: &Context<'_>) -> Result<Expr, SqlError> {
    let mut pattern = pattern;
    if let Expr::Value(literal) = &pattern
        && let Some(value) = literal.clone().into_string()
    {
        functions::check_regex(&value)
            .map_err(|error| SqlError::bad_regex(format!("Regex error: {error}")))?;
        if context.case_insensitive() {
            pattern = text(format!("(?i){value}"));
        }
    }
    Ok(call("__regexp", vec![inner, pattern]))
}
