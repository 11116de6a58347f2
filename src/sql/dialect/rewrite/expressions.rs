//! Single expressions: functions, operators and literals of MySQL's as those that do the same here.
//!
//! Called for each expression after those in it. Names with two leading underscores are functions of `functions` that stand
//! for MySQL's operators and casts.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DuplicateTreatment, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, ObjectName,
    ObjectNamePart, OrderByExpr, TrimWhereField, UnaryOperator, Value, ValueWithSpan,
};

use super::select::is_aggregate_name as is_aggregate;
use super::{Noted, Surroundings, ident};
use crate::sql::error::SqlError;
use crate::sql::functions;

/// The server's version, as `VERSION()` says it.
use crate::sql::variables::VERSION;

/// Values in an IN of tuples.
const TUPLES_MAX: usize = 200;

/// A call of a function by name.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(function(name, arguments))
}

fn function(name: &str, arguments: Vec<Expr>) -> Function {
    Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(ident(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments
                .into_iter()
                .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
                .collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

fn value(value: Value) -> Expr {
    Expr::Value(ValueWithSpan::from(value))
}

fn text(text: impl Into<String>) -> Expr {
    value(Value::SingleQuotedString(text.into()))
}

fn number(number: impl ToString) -> Expr {
    value(Value::Number(number.to_string(), false))
}

fn null() -> Expr {
    value(Value::Null)
}

/// A function's name in lower case, if it is one word.
pub(super) fn name_of(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name.value.to_lowercase()),
        _ => None,
    }
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(expr))),
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

fn case(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::Case {
        case_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(
        ),
        end_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition,
            result: then,
        }],
        else_result: Some(Box::new(otherwise)),
    }
}

/// Whether an expression is true or false by its form.
fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_condition(inner),
        Expr::BinaryOp { op, .. } => matches!(
            op,
            BinaryOperator::Gt
                | BinaryOperator::Lt
                | BinaryOperator::GtEq
                | BinaryOperator::LtEq
                | BinaryOperator::Spaceship
                | BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::And
                | BinaryOperator::Or
                | BinaryOperator::Xor
                | BinaryOperator::Regexp
        ),
        Expr::UnaryOp { op, .. } => matches!(op, UnaryOperator::Not | UnaryOperator::BangNot),
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::RLike { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Exists { .. } => true,
        Expr::Function(function) => matches!(
            name_of(function).as_deref(),
            Some("__truth" | "__xor" | "__regexp")
        ),
        _ => false,
    }
}

/// Makes true or false of whatever stands where a condition is wanted.
pub(super) fn as_condition(expr: &mut Expr) {
    if !is_condition(expr) {
        *expr = call("__truth", vec![take(expr)]);
    }
}

/// The same for a condition of a join.
pub(super) fn mark_condition(expr: &mut Expr) {
    as_condition(expr);
}

/// One expression, those in it being done already.
pub(super) fn rewrite(
    expr: &mut Expr,
    around: &Surroundings,
    noted: &mut Noted,
) -> Result<(), SqlError> {
    match expr {
        Expr::Function(_) => {
            let Expr::Function(call) = take(expr) else {
                return Ok(());
            };
            *expr = rewrite_call(call, around, noted)?;
        }
        Expr::Value(literal) => match &mut literal.value {
            Value::Number(written, _) if written.contains(['e', 'E']) => {
                let written = written.clone();
                *expr = call("__real", vec![text(written)]);
            }
            Value::Boolean(truth) => *expr = number(u8::from(*truth)),
            Value::DoubleQuotedString(said) | Value::NationalStringLiteral(said) => {
                *expr = text(said.clone());
            }
            Value::HexStringLiteral(_)
            | Value::Number(..)
            | Value::SingleQuotedString(_)
            | Value::Null
            | Value::Placeholder(_) => {}
            other => return Err(SqlError::not_supported(format!("the literal {other}"))),
        },
        Expr::TypedString(typed) => {
            let said = text(typed.value.clone().into_string().unwrap_or_default());
            *expr = match typed.data_type.to_string().to_ascii_uppercase().as_str() {
                "DATE" => call("__date", vec![said]),
                "TIME" => call("__time", vec![said]),
                _ => call("__datetime", vec![said]),
            };
        }
        Expr::BinaryOp { .. } => rewrite_binary(expr)?,
        Expr::UnaryOp { op, expr: inner } => match op {
            UnaryOperator::Minus => {
                if !matches!(&**inner, Expr::Value(literal) if matches!(literal.value, Value::Number(..)))
                {
                    *expr = call("__neg", vec![take(inner)]);
                }
            }
            UnaryOperator::Plus => *expr = take(inner),
            UnaryOperator::BitwiseNot => *expr = call("__bitnot", vec![take(inner)]),
            UnaryOperator::Not | UnaryOperator::BangNot => {
                as_condition(inner);
                *op = UnaryOperator::Not;
            }
            other => return Err(SqlError::parse(format!("MySQL has no operator {other}"))),
        },
        Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner) => as_condition(inner),
        Expr::Between {
            expr: inner,
            negated,
            low,
            high,
        } => {
            let inner = take(inner);
            let both = binary(
                binary(inner.clone(), BinaryOperator::GtEq, take(low)),
                BinaryOperator::And,
                binary(inner, BinaryOperator::LtEq, take(high)),
            );
            *expr = match negated {
                true => not(both),
                false => Expr::Nested(Box::new(both)),
            };
        }
        Expr::InList { .. } => rewrite_in(expr)?,
        Expr::Like {
            negated,
            expr: inner,
            pattern,
            escape_char,
            ..
        } => {
            let pattern = like_pattern(take(pattern), escape_char.take())?;
            let name = if around.case_insensitive {
                "__lower"
            } else {
                "__text"
            };
            *expr = Expr::Like {
                negated: *negated,
                any: false,
                expr: Box::new(call(name, vec![take(inner)])),
                pattern: Box::new(call(name, vec![pattern])),
                escape_char: None,
            };
        }
        Expr::RLike {
            negated,
            expr: inner,
            pattern,
            ..
        } => {
            let matches = regexp(take(inner), take(pattern), around)?;
            *expr = match negated {
                true => not(matches),
                false => matches,
            };
        }
        Expr::Case {
            operand,
            conditions,
            else_result,
            ..
        } => {
            let operand = operand.take();
            for when in conditions.iter_mut() {
                match &operand {
                    Some(operand) => {
                        when.condition = binary(
                            (**operand).clone(),
                            BinaryOperator::Eq,
                            take(&mut when.condition),
                        );
                    }
                    None => as_condition(&mut when.condition),
                }
                as_value(&mut when.result);
            }
            if let Some(otherwise) = else_result {
                as_value(otherwise);
            }
        }
        Expr::Cast {
            expr: inner,
            data_type,
            kind: CastKind::Cast | CastKind::DoubleColon,
            ..
        } => *expr = cast(take(inner), &data_type.to_string())?,
        Expr::Convert {
            expr: inner,
            data_type,
            ..
        } => {
            *expr = match data_type {
                Some(data_type) => cast(take(inner), &data_type.to_string())?,
                // CONVERT(x USING utf8mb4): all texts are.
                None => call("__text", vec![take(inner)]),
            };
        }
        Expr::Extract {
            field, expr: inner, ..
        } => *expr = call("__extract", vec![text(field.to_string()), take(inner)]),
        Expr::Position { expr: what, r#in } => *expr = call("locate", vec![take(what), take(r#in)]),
        Expr::Substring {
            expr: inner,
            substring_from,
            substring_for,
            ..
        } => {
            let mut arguments = vec![take(inner)];
            match (substring_from.take(), &substring_for) {
                (Some(from), _) => arguments.push(*from),
                (None, Some(_)) => arguments.push(number(1)),
                (None, None) => {}
            }
            arguments.extend(substring_for.take().map(|take| *take));
            *expr = call("substring", arguments);
        }
        Expr::Trim {
            trim_where,
            trim_what,
            expr: inner,
            ..
        } => {
            let name = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                Some(TrimWhereField::Both) | None => "trim",
            };
            let mut arguments = vec![take(inner)];
            arguments.extend(trim_what.take().map(|what| *what));
            *expr = call(name, arguments);
        }
        Expr::Floor { expr: inner, .. } => *expr = call("floor", vec![take(inner)]),
        Expr::Ceil { expr: inner, .. } => *expr = call("ceil", vec![take(inner)]),
        Expr::Collate { expr: inner, .. } => *expr = take(inner),
        Expr::Prefixed { value: inner, .. } => *expr = take(inner),
        Expr::MatchAgainst { .. } => {
            return Err(SqlError::not_supported(
                "MATCH ... AGAINST; use LIKE or REGEXP",
            ));
        }
        Expr::JsonAccess { .. } | Expr::CompoundFieldAccess { .. } => {
            return Err(SqlError::not_supported(
                "looking into a value with -> or []",
            ));
        }
        _ => {}
    }
    Ok(())
}

/// A truth beside other values is 1 or 0.
fn as_value(expr: &mut Expr) {
    if is_condition(expr) {
        *expr = call("__int", vec![take(expr)]);
    }
}

fn rewrite_binary(expr: &mut Expr) -> Result<(), SqlError> {
    let Expr::BinaryOp { left, op, right } = expr else {
        return Ok(());
    };
    if let (Expr::Tuple(lefts), Expr::Tuple(rights)) = (&mut **left, &mut **right) {
        let pairs = lefts.iter_mut().map(take).zip(rights.iter_mut().map(take));
        let equal = |(left, right)| binary(left, BinaryOperator::Eq, right);
        let all = pairs
            .map(equal)
            .reduce(|all, one| binary(all, BinaryOperator::And, one))
            .unwrap_or_else(null);
        let meant = match op {
            BinaryOperator::Eq => Expr::Nested(Box::new(all)),
            BinaryOperator::NotEq => not(all),
            other => {
                return Err(SqlError::not_supported(format!("rows compared by {other}")));
            }
        };
        *expr = meant;
        return Ok(());
    }
    let interval = |side: &Expr| matches!(side, Expr::Interval(_));
    let name = match op {
        BinaryOperator::Plus if interval(right) => {
            *expr = date_arithmetic("__date_add", take(left), take(right))?;
            return Ok(());
        }
        BinaryOperator::Plus if interval(left) => {
            *expr = date_arithmetic("__date_add", take(right), take(left))?;
            return Ok(());
        }
        BinaryOperator::Minus if interval(right) => {
            *expr = date_arithmetic("__date_sub", take(left), take(right))?;
            return Ok(());
        }
        BinaryOperator::Divide => "__div",
        BinaryOperator::MyIntegerDivide | BinaryOperator::DuckIntegerDivide => "__div_int",
        BinaryOperator::Modulo => "__mod",
        BinaryOperator::Xor => "__xor",
        BinaryOperator::StringConcat => "__concat",
        BinaryOperator::BitwiseAnd => "__bitand",
        BinaryOperator::BitwiseOr => "__bitor",
        BinaryOperator::BitwiseXor | BinaryOperator::PGBitwiseXor => "__bitxor",
        BinaryOperator::PGBitwiseShiftLeft => "__shl",
        BinaryOperator::PGBitwiseShiftRight => "__shr",
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Multiply
        | BinaryOperator::Gt
        | BinaryOperator::Lt
        | BinaryOperator::GtEq
        | BinaryOperator::LtEq
        | BinaryOperator::Spaceship
        | BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::And
        | BinaryOperator::Or => return Ok(()),
        other => return Err(SqlError::not_supported(format!("the operator {other}"))),
    };
    *expr = call(name, vec![take(left), take(right)]);
    Ok(())
}

/// `(a, b) IN ((1, 2), (3, 4))`.
fn rewrite_in(expr: &mut Expr) -> Result<(), SqlError> {
    let Expr::InList {
        expr: inner,
        list,
        negated,
    } = expr
    else {
        return Ok(());
    };
    let Expr::Tuple(_) = **inner else {
        return Ok(());
    };
    if list.len() > TUPLES_MAX {
        return Err(SqlError::not_supported(format!(
            "IN with more than {TUPLES_MAX} rows"
        )));
    }
    let mut any: Option<Expr> = None;
    for row in list.iter_mut() {
        let mut one = binary((**inner).clone(), BinaryOperator::Eq, take(row));
        rewrite_binary(&mut one)?;
        any = Some(match any {
            Some(any) => binary(any, BinaryOperator::Or, one),
            None => one,
        });
    }
    let any = any.unwrap_or_else(null);
    *expr = match negated {
        true => not(any),
        false => Expr::Nested(Box::new(any)),
    };
    Ok(())
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
    let said = match &pattern {
        Expr::Value(literal) => literal.clone().into_string(),
        _ => None,
    };
    let Some(said) = said else {
        return Err(SqlError::not_supported(
            "LIKE ... ESCAPE with a pattern that is not a text in the statement",
        ));
    };
    let mut made = String::with_capacity(said.len());
    let mut signs = said.chars();
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

fn regexp(inner: Expr, pattern: Expr, around: &Surroundings) -> Result<Expr, SqlError> {
    let mut pattern = pattern;
    if let Expr::Value(literal) = &pattern
        && let Some(said) = literal.clone().into_string()
    {
        functions::check_regex(&said).map_err(|error| SqlError {
            code: 1139,
            state: "42000",
            message: format!("Regex error: {error}"),
        })?;
        if around.case_insensitive {
            pattern = text(format!("(?i){said}"));
        }
    }
    Ok(call("__regexp", vec![inner, pattern]))
}

fn date_arithmetic(name: &str, to: Expr, interval: Expr) -> Result<Expr, SqlError> {
    let Expr::Interval(interval) = interval else {
        return Err(SqlError::parse(format!(
            "INTERVAL n unit is wanted, not {interval}"
        )));
    };
    let unit = interval
        .leading_field
        .map(|unit| unit.to_string().to_ascii_uppercase());
    const UNITS: [&str; 9] = [
        "MICROSECOND",
        "SECOND",
        "MINUTE",
        "HOUR",
        "DAY",
        "WEEK",
        "MONTH",
        "QUARTER",
        "YEAR",
    ];
    match unit {
        Some(unit) if UNITS.contains(&unit.as_str()) => {
            Ok(call(name, vec![to, *interval.value, text(unit)]))
        }
        Some(unit) => Err(SqlError::not_supported(format!("INTERVAL ... {unit}"))),
        None => Err(SqlError::parse("INTERVAL without a unit")),
    }
}

/// CAST and CONVERT, the type as it is written.
fn cast(inner: Expr, data_type: &str) -> Result<Expr, SqlError> {
    let upper = data_type.replace('`', "").to_ascii_uppercase();
    let (name, size) = match upper.split_once('(') {
        Some((name, size)) => (name.trim(), Some(size.trim_end_matches(')'))),
        None => (upper.as_str(), None),
    };
    let name = name.split(" CHARACTER SET").next().unwrap_or(name).trim();
    Ok(match name {
        "SIGNED" | "SIGNED INTEGER" | "INTEGER" | "INT" | "BIGINT" | "SIGNED INT" => {
            call("__signed", vec![inner])
        }
        "UNSIGNED" | "UNSIGNED INTEGER" | "UNSIGNED INT" | "BIGINT UNSIGNED" | "INT UNSIGNED" => {
            call("__unsigned", vec![inner])
        }
        "CHAR" | "NCHAR" | "VARCHAR" | "CHARACTER" | "BINARY" | "VARBINARY" | "TEXT" => {
            match size {
                Some(length) => call("__char", vec![inner, number(length)]),
                None => call("__text", vec![inner]),
            }
        }
        "DOUBLE" | "FLOAT" | "REAL" | "DOUBLE PRECISION" => call("__real", vec![inner]),
        "DECIMAL" | "NUMERIC" | "DEC" => {
            let (digits, scale) = match size.and_then(|size| size.split_once(',')) {
                Some((digits, scale)) => (digits.trim(), scale.trim()),
                None => (size.unwrap_or("10"), "0"),
            };
            call("__decimal", vec![inner, number(digits), number(scale)])
        }
        "DATE" => call("__date", vec![inner]),
        "DATETIME" | "TIMESTAMP" => call("__datetime", vec![inner]),
        "TIME" => call("__time", vec![inner]),
        _ => return Err(SqlError::not_supported(format!("CAST to {data_type}"))),
    })
}

fn rewrite_call(
    mut call_of: Function,
    around: &Surroundings,
    noted: &mut Noted,
) -> Result<Expr, SqlError> {
    let Some(name) = name_of(&call_of) else {
        return Err(SqlError::no_such_function(format!(
            "FUNCTION {} does not exist",
            call_of.name
        )));
    };
    call_of.name = ObjectName(vec![ObjectNamePart::Identifier(ident(name.as_str()))]);
    if matches!(call_of.args, FunctionArguments::None) {
        call_of.args = FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: Vec::new(),
            clauses: Vec::new(),
        });
    }
    if aggregate(&name).is_some() || call_of.over.is_some() || is_aggregate(&name) {
        return rewrite_aggregate(call_of, &name);
    }
    let mut arguments = plain_arguments(&mut call_of, &name)?;
    let count = arguments.len();
    let wrong_count = || SqlError {
        code: 1582,
        state: "42000",
        message: format!("Incorrect parameter count in the call to native function '{name}'"),
    };
    let mut next = || arguments.drain(..1).next().unwrap_or_else(null);
    Ok(match (name.as_str(), count) {
        ("database" | "schema", 0) => around.database.clone().map_or_else(null, text),
        ("user" | "session_user" | "system_user", 0) => text(around.user.clone()),
        ("current_user", 0) => {
            let name = around.user.split('@').next().unwrap_or_default();
            text(format!("{name}@%"))
        }
        ("version", 0) => text(VERSION),
        ("connection_id", 0) => number(around.connection),
        ("now" | "current_timestamp" | "localtime" | "localtimestamp" | "sysdate", 0 | 1) => {
            let shown = around.now.format("%Y-%m-%d %H:%M:%S").to_string();
            call("__datetime", vec![text(shown)])
        }
        ("utc_timestamp", 0 | 1) => {
            let shown = around.now_utc.format("%Y-%m-%d %H:%M:%S").to_string();
            call("__datetime", vec![text(shown)])
        }
        ("curdate" | "current_date", 0) => call(
            "__date",
            vec![text(around.now.format("%Y-%m-%d").to_string())],
        ),
        ("utc_date", 0) => call(
            "__date",
            vec![text(around.now_utc.format("%Y-%m-%d").to_string())],
        ),
        ("curtime" | "current_time", 0 | 1) => text(around.now.format("%H:%M:%S").to_string()),
        ("utc_time", 0 | 1) => text(around.now_utc.format("%H:%M:%S").to_string()),
        ("unix_timestamp", 0) => number(around.now_utc.and_utc().timestamp()),
        ("unix_timestamp", 1) => call(
            "__unix_timestamp",
            vec![next(), text(around.time_zone.clone())],
        ),
        ("from_unixtime", 1) => call(
            "__from_unixtime",
            vec![next(), text(around.time_zone.clone())],
        ),
        ("from_unixtime", 2) => {
            let at = call(
                "__from_unixtime",
                vec![next(), text(around.time_zone.clone())],
            );
            call("date_format", vec![at, next()])
        }
        ("if", 3) => {
            let (mut condition, mut then, mut otherwise) = (next(), next(), next());
            as_condition(&mut condition);
            as_value(&mut then);
            as_value(&mut otherwise);
            case(condition, then, otherwise)
        }
        ("ifnull" | "nvl", 2) => {
            let (mut first, mut second) = (next(), next());
            as_value(&mut first);
            as_value(&mut second);
            call("coalesce", vec![first, second])
        }
        ("nullif", 2) => {
            let (first, second) = (next(), next());
            case(
                binary(first.clone(), BinaryOperator::Eq, second),
                null(),
                first,
            )
        }
        ("isnull", 1) => Expr::IsNull(Box::new(next())),
        ("interval", 2..) => {
            return Err(SqlError::not_supported("INTERVAL(n, ...); use CASE"));
        }
        ("date_add" | "adddate" | "date_sub" | "subdate", 2) => {
            let sub = name.ends_with("sub") || name.starts_with("sub");
            let (to, by) = (next(), next());
            let made = if sub { "__date_sub" } else { "__date_add" };
            match by {
                interval @ Expr::Interval(_) => date_arithmetic(made, to, interval)?,
                days => call(made, vec![to, days, text("DAY")]),
            }
        }
        ("sleep", 1) => {
            let seconds = match next() {
                Expr::Value(literal) => literal.to_string().trim_matches('\'').parse::<f64>().ok(),
                _ => None,
            };
            match seconds.filter(|seconds| *seconds >= 0.0) {
                Some(seconds) => {
                    noted.sleep += seconds;
                    number(0)
                }
                None => return Err(SqlError::wrong_arguments("SLEEP takes a number of seconds")),
            }
        }
        ("rand", 0 | 1) => call("random", Vec::new()),
        ("uuid", 0) => call("uuid", Vec::new()),
        ("last_insert_id" | "row_count" | "found_rows", 0) => number(0),
        ("current_role", 0) => null(),
        ("if" | "ifnull" | "nullif" | "isnull" | "sleep" | "from_unixtime", _) => {
            return Err(wrong_count());
        }
        ("md5" | "sha1" | "sha" | "sha2" | "password" | "aes_encrypt" | "compress", _) => {
            return Err(SqlError::not_supported(format!("the function {name}()")));
        }
        (other, _) if other.starts_with("json_") => {
            return Err(SqlError::not_supported(format!("the function {other}()")));
        }
        _ => call(&name, arguments),
    })
}

/// Arguments that are expressions and nothing more.
fn plain_arguments(call_of: &mut Function, name: &str) -> Result<Vec<Expr>, SqlError> {
    let FunctionArguments::List(list) = &mut call_of.args else {
        return Err(SqlError::parse(format!("{name}(SELECT ...) is no call")));
    };
    if !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
        return Err(SqlError::parse(format!("{name}() is no aggregate")));
    }
    list.args
        .drain(..)
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
            other => Err(SqlError::parse(format!(
                "not an argument of {name}(): {other}"
            ))),
        })
        .collect()
}

/// What an aggregate of MySQL's is here.
fn aggregate(name: &str) -> Option<&'static str> {
    Some(match name {
        "std" | "stddev" | "stddev_pop" => "stddev_pop",
        "stddev_samp" => "stddev_samp",
        "variance" | "var_pop" => "var_pop",
        "var_samp" => "var_samp",
        "any_value" => "first_value",
        "count" => "count",
        "sum" => "sum",
        "avg" => "avg",
        "group_concat" => "string_agg",
        "bit_and" => "bit_and",
        "bit_or" => "bit_or",
        "bit_xor" => "bit_xor",
        _ => return None,
    })
}

fn rewrite_aggregate(mut call_of: Function, name: &str) -> Result<Expr, SqlError> {
    let meant = aggregate(name).unwrap_or(name).to_owned();
    call_of.name = ObjectName(vec![ObjectNamePart::Identifier(ident(meant.as_str()))]);
    let FunctionArguments::List(list) = &mut call_of.args else {
        return Err(SqlError::parse(format!("{name}(SELECT ...) is no call")));
    };
    let distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
    list.duplicate_treatment = distinct.then_some(DuplicateTreatment::Distinct);
    match meant.as_str() {
        "count" if list.args.len() > 1 => {
            let all = unnamed(list)?;
            list.args = vec![argument(call("__tuple", all))];
        }
        "sum" => {
            of_numbers(list)?;
            return Ok(call("__sum_type", vec![Expr::Function(call_of)]));
        }
        "avg" => {
            of_numbers(list)?;
            let mut counted = call_of.clone();
            let mut summed = call_of;
            summed.name = ObjectName(vec![ObjectNamePart::Identifier(ident("sum"))]);
            counted.name = ObjectName(vec![ObjectNamePart::Identifier(ident("count"))]);
            let sum = call("__sum_type", vec![Expr::Function(summed)]);
            return Ok(call("__div", vec![sum, Expr::Function(counted)]));
        }
        "stddev_pop" | "stddev_samp" | "var_pop" | "var_samp" => {
            let all = unnamed(list)?;
            list.args = all
                .into_iter()
                .map(|expr| argument(call("__real", vec![expr])))
                .collect();
        }
        "bit_and" | "bit_or" | "bit_xor" => {
            let all = unnamed(list)?;
            list.args = all
                .into_iter()
                .map(|expr| argument(call("__unsigned", vec![expr])))
                .collect();
        }
        "string_agg" => {
            let mut separator = ",".to_owned();
            let mut kept = Vec::new();
            for clause in list.clauses.drain(..) {
                match clause {
                    FunctionArgumentClause::Separator(said) => {
                        separator = said.into_string().unwrap_or_default();
                    }
                    FunctionArgumentClause::OrderBy(orders) => {
                        kept.push(FunctionArgumentClause::OrderBy(orders));
                    }
                    other => {
                        return Err(SqlError::not_supported(format!("GROUP_CONCAT({other})")));
                    }
                }
            }
            list.clauses = kept;
            let mut all = unnamed(list)?;
            let joined = match all.len() {
                0 => return Err(SqlError::parse("GROUP_CONCAT() of nothing")),
                1 => call("__text", vec![all.remove(0)]),
                _ => call("concat", all),
            };
            if distinct {
                // What is told apart is what is put in order.
                for clause in &mut list.clauses {
                    if let FunctionArgumentClause::OrderBy(orders) = clause {
                        let ordered = orders.drain(..).next().map(|order| OrderByExpr {
                            expr: joined.clone(),
                            ..order
                        });
                        orders.extend(ordered);
                    }
                }
            }
            list.args = vec![argument(joined), argument(text(separator))];
        }
        _ => {}
    }
    Ok(Expr::Function(call_of))
}

fn argument(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

/// The arguments, taken out.
fn unnamed(list: &mut FunctionArgumentList) -> Result<Vec<Expr>, SqlError> {
    list.args
        .drain(..)
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
            other => Err(SqlError::parse(format!("not an argument here: {other}"))),
        })
        .collect()
}

/// Texts are added up as the numbers they begin with.
fn of_numbers(list: &mut FunctionArgumentList) -> Result<(), SqlError> {
    let all = unnamed(list)?;
    list.args = all
        .into_iter()
        .map(|expr| argument(call("__number", vec![expr])))
        .collect();
    Ok(())
}
