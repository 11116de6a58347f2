//! Calls of functions by name.
//!
//! Aggregates go to `aggregates`. Values of the session (its clock, user and database) become
//! literals; functions that DataFusion expresses differently (IF, IFNULL, NULLIF) are converted;
//! the rest are called by name if they are in `functions`, or among the few of DataFusion's that
//! match MySQL's. Other functions of DataFusion are not reachable: some take days on long texts and
//! cannot be interrupted.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, ObjectName,
};

use super::aggregates;
use super::build::{binary, call, case, name_of, null, number, text};
use super::conditions::{as_case_condition, as_value};
use super::ident;
use super::types::{date_arithmetic, moved};
use crate::config::suggest;
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;
use crate::sql::functions;
use crate::sql::variables::VERSION;

/// DataFusion's functions that match MySQL's and take time in proportion to their arguments.
const FROM_DATAFUSION: [&str; 2] = ["cot", "grouping"];

/// Functions that need OVER.
const WINDOWS: &str = "cume_dist dense_rank lag lead ntile percent_rank rank row_number";

/// The error for an unknown function.
fn unknown(name: &str, context: &Context<'_>) -> SqlError {
    let database = context.session.database.as_deref().map(|name| format!("{name}."));
    let database = database.unwrap_or_default();
    let names = aggregates::AGGREGATES.split(' ').chain(WINDOWS.split(' '));
    let names = names.chain(functions::names());
    let question = suggest::question(name, names);
    SqlError::no_such_function(format!("FUNCTION {database}{name} does not exist{question}"))
}

/// Rewrites a call to its equivalent; its arguments are done already.
pub(super) fn rewrite(mut call_of: Function, context: &Context<'_>) -> Result<Expr, SqlError> {
    let Some(name) = name_of(&call_of) else {
        return Err(SqlError::no_such_function(format!(
            "FUNCTION {} does not exist",
            call_of.name
        )));
    };
    call_of.name = ObjectName::from(vec![ident(name.as_str())]);
    let is_aggregate = aggregates::is_aggregate_name(&name);
    if is_aggregate || call_of.over.is_some() {
        if !is_aggregate && !WINDOWS.split(' ').any(|it| it == name) {
            return Err(unknown(&name, context));
        }
        let made = aggregates::rewrite(call_of, &name, context)?;
        return Ok(match context.session.number::<u64>("group_concat_max_len") {
            Some(bytes) if name == "group_concat" => {
                call("__left_bytes", vec![made, number(bytes)])
            }
            _ => made,
        });
    }
    let mut arguments = plain_arguments(&mut call_of, &name)?;
    let count = arguments.len();
    if let Some(value) = of_session(&name, count, context) {
        return Ok(value);
    }
    let mut next = || arguments.drain(..1).next().unwrap_or_else(null);
    let zone = || text(context.session.time_zone());
    Ok(match (name.as_str(), count) {
        ("unix_timestamp", 1) => call("__unix_timestamp", vec![next(), zone()]),
        ("from_unixtime", 1) => call("__from_unixtime", vec![next(), zone()]),
        ("from_unixtime", 2) => {
            let at = call("__from_unixtime", vec![next(), zone()]);
            call("date_format", vec![at, next()])
        }
        ("if", 3) => case(vec![as_case_condition(next())?, as_value(next()), as_value(next())]),
        ("ifnull" | "nvl", 2) => call("coalesce", vec![as_value(next()), as_value(next())]),
        ("nullif", 2) => {
            let (first, second) = (next(), next());
            let equal = binary(context.copies.of(&first)?, BinaryOperator::Eq, second);
            case(vec![equal, null(), first])
        }
        ("isnull", 1) => Expr::IsNull(Box::new(next())),
        ("interval", 2..) => {
            return Err(SqlError::not_supported("INTERVAL(n, ...); use CASE"));
        }
        ("date_add" | "adddate" | "date_sub" | "subdate", 2) => {
            let back = name.contains("sub");
            match (next(), next()) {
                (to, Expr::Interval(interval)) => date_arithmetic(to, interval, back)?,
                (to, days) => moved(to, days, "DAY", back),
            }
        }
        ("sleep", 1) => {
            let seconds = match next() {
                Expr::Value(literal) => literal.to_string().trim_matches('\'').parse::<f64>().ok(),
                _ => None,
            };
            match seconds.filter(|seconds| *seconds >= 0.0) {
                Some(seconds) => {
                    context.sleep.set(context.sleep.get() + seconds);
                    number(0)
                }
                None => return Err(SqlError::wrong_arguments("SLEEP takes a number of seconds")),
            }
        }
        ("rand", 0 | 1) => call("random", Vec::new()),
        ("uuid", 0) => call("uuid", Vec::new()),
        ("last_insert_id" | "row_count", 0) => number(0),
        ("found_rows", 0) => {
            return Err(SqlError::not_supported("FOUND_ROWS(); use SELECT COUNT(*)"));
        }
        ("current_role", 0) => null(),
        ("if" | "ifnull" | "nullif" | "isnull" | "sleep" | "from_unixtime", _) => {
            return Err(SqlError::parameter_count(&name));
        }
        ("md5" | "sha1" | "sha" | "sha2" | "password" | "aes_encrypt" | "compress", _) => {
            return Err(SqlError::not_supported(format!("the function {name}()")));
        }
        (other, _) if other.starts_with("json_") => {
            return Err(SqlError::not_supported(format!("the function {other}()")));
        }
        // Those of the implementation are for the rewriter alone, which keeps within their limits.
        (known, _)
            if !known.starts_with("__")
                && (functions::is_known(known) || FROM_DATAFUSION.contains(&known)) =>
        {
            call(&name, arguments)
        }
        _ => return Err(unknown(&name, context)),
    })
}

/// Values of the session: user, database, clock; `None` for any other function.
fn of_session(name: &str, arguments: usize, context: &Context<'_>) -> Option<Expr> {
    let now = match name.starts_with("utc") {
        true => context.now_utc,
        false => context.now,
    };
    let clock = |form| text(now.format(form).to_string());
    Some(match (name, arguments) {
        ("database" | "schema", 0) => context.session.database.clone().map_or_else(null, text),
        ("user" | "session_user" | "system_user", 0) => text(context.session.user.clone()),
        ("current_user", 0) => {
            let name = context.session.user.split('@').next().unwrap_or_default();
            text(format!("{name}@%"))
        }
        ("version", 0) => text(VERSION),
        ("connection_id", 0) => number(context.session.id),
        (
            "now" | "current_timestamp" | "localtime" | "localtimestamp" | "sysdate"
            | "utc_timestamp",
            0 | 1,
        ) => call("__datetime", vec![clock("%Y-%m-%d %H:%M:%S")]),
        ("curdate" | "current_date" | "utc_date", 0) => call("__date", vec![clock("%Y-%m-%d")]),
        ("curtime" | "current_time" | "utc_time", 0 | 1) => clock("%H:%M:%S"),
        ("unix_timestamp", 0) => number(context.now_utc.and_utc().timestamp()),
        _ => return None,
    })
}

/// The error of a function of a sub-query.
pub(super) fn not_a_call(name: &str) -> SqlError {
    SqlError::parse(format!("{name}(SELECT ...) is not a function call"))
}

/// Takes the arguments if they are plain expressions.
fn plain_arguments(call_of: &mut Function, name: &str) -> Result<Vec<Expr>, SqlError> {
    let list = match &mut call_of.args {
        FunctionArguments::None => return Ok(Vec::new()),
        FunctionArguments::List(list) => list,
        FunctionArguments::Subquery(_) => return Err(not_a_call(name)),
    };
    let within = !call_of.within_group.is_empty();
    if within || !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
        return Err(SqlError::parse(format!("{name}() is not an aggregate function")));
    }
    unnamed(list).map_err(|mut error| {
        error.message += &suggest::question(name, ["count"]);
        error
    })
}

/// Takes the arguments out.
pub(super) fn unnamed(list: &mut FunctionArgumentList) -> Result<Vec<Expr>, SqlError> {
    list.args
        .drain(..)
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {
                Err(SqlError::parse("only COUNT takes * as its argument"))
            }
            other => Err(SqlError::parse(format!("not an argument here: {other}"))),
        })
        .collect()
}
