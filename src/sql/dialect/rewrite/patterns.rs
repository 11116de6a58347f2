//! LIKE with ESCAPE, and REGEXP, both with or without regard to case.
//!
//! A literal pattern of REGEXP is compiled here, so an invalid one is refused before the statement
//! runs.

use datafusion::sql::sqlparser::ast::{Expr, ValueWithSpan};

use super::build::{call, text};
use super::column_name;
use crate::sql::dialect::coercion::OF_VARIABLES;
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;
use crate::sql::functions;

/// LIKE; ignores case if texts are compared that way.
pub(super) fn like(
    inner: Expr,
    pattern: Expr,
    escape: Option<ValueWithSpan>,
    negated: bool,
    context: &Context<'_>,
) -> Result<Expr, SqlError> {
    let escape = escape.map(|escape| escape.into_string().unwrap_or_default());
    // DataFusion's is the backslash.
    let pattern = match escape {
        Some(escape) if escape.chars().count() > 1 => {
            return Err(SqlError::wrong_arguments("ESCAPE takes one character"));
        }
        Some(escape) if escape != "\\" => call("__escaped", vec![pattern, text(escape)]),
        _ => pattern,
    };
    let is_of_variable = column_name(&inner).is_some_and(|name| name.value == OF_VARIABLES);
    let name = match context.case_insensitive() || is_of_variable {
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

/// REGEXP and RLIKE; checks a literal pattern.
pub(super) fn regexp(inner: Expr, pattern: Expr, context: &Context<'_>) -> Result<Expr, SqlError> {
    let mut pattern = pattern;
    if let Expr::Value(literal) = &pattern
        && let Some(value) = literal.clone().into_string()
    {
        functions::regex(&value)
            .map_err(|error| SqlError::bad_regex(format!("Regex error: {error}")))?;
        if context.case_insensitive() {
            pattern = text(format!("(?i){value}"));
        }
    }
    Ok(call("__regexp", vec![inner, pattern]))
}
