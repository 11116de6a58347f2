//! Rewrites single expressions: MySQL's operators, literals and forms.
//!
//! Called for each expression after those inside it; calls by name go to `calls`. Names with two
//! leading underscores are functions of `functions` that implement MySQL's operators and casts.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, Expr, TrimWhereField, UnaryOperator, Value,
};

use super::build::{all, binary, call, case, not, null, number, take, text};
use super::calls;
use super::conditions::{as_case_condition, as_condition, as_value};
use super::patterns::{like, regexp};
use super::types::{cast, date_arithmetic};
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;
use crate::sql::functions::{BETWEEN, BITS, unhex};

/// Most values in an IN of tuples.
const TUPLES_MAX: usize = 200;

/// Rewrites one expression whose children are done already.
pub(super) fn rewrite(expr: &mut Expr, context: &Context<'_>) -> Result<(), SqlError> {
    let is_all = matches!(expr, Expr::AllOp { .. });
    match expr {
        Expr::Function(_) => {
            let Expr::Function(call) = take(expr) else { return Ok(()) };
            *expr = calls::rewrite(call, context)?;
        }
        Expr::Value(literal) => match &mut literal.value {
            Value::Number(written, _) if written.contains(['e', 'E']) => {
                let written = written.clone();
                *expr = call("__real", vec![text(written)]);
            }
            Value::Boolean(truth) => *expr = number(u8::from(*truth)),
            Value::DoubleQuotedString(written) | Value::NationalStringLiteral(written) => {
                *expr = text(written.clone());
            }
            Value::HexStringLiteral(digits) => *expr = bits(digits),
            Value::Number(..)
            | Value::SingleQuotedString(_)
            | Value::Null
            | Value::Placeholder(_) => {}
            other => return Err(SqlError::not_supported(format!("the literal {other}"))),
        },
        Expr::TypedString(typed) => {
            let written = text(typed.value.clone().into_string().unwrap_or_default());
            *expr = cast(written, &typed.data_type.to_string())?;
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
                **inner = as_condition(take(inner));
                *op = UnaryOperator::Not;
            }
            other => return Err(SqlError::parse(format!("MySQL has no operator {other}"))),
        },
        Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner) => **inner = as_condition(take(inner)),
        Expr::Between { expr: inner, negated, low, high } => {
            let (inner, low, high) = (take(inner), take(low), take(high));
            // What is compared how depends on the types of all three.
            let both = call(BETWEEN, vec![context.copies.of(&inner)?, low, inner, high]);
            *expr = if *negated { not(both) } else { both };
        }
        Expr::InList { .. } => rewrite_in(expr, context)?,
        Expr::InSubquery { expr: inner, .. } if matches!(**inner, Expr::Tuple(_)) => {
            return Err(SqlError::not_supported("rows IN a sub-query; use EXISTS"));
        }
        Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right } => {
            let negated = match (is_all, &*compare_op) {
                (false, BinaryOperator::Eq) => false,
                (true, BinaryOperator::NotEq) => true,
                _ => {
                    return Err(SqlError::not_supported(
                        "ANY, SOME and ALL but = ANY and <> ALL; compare with MIN() or MAX() in a sub-query",
                    ));
                }
            };
            let Expr::Subquery(subquery) = take(right) else {
                return Err(SqlError::parse("ANY, SOME and ALL take a sub-query"));
            };
            *expr = Expr::InSubquery { expr: Box::new(take(left)), subquery, negated };
        }
        Expr::Like { negated, expr: inner, pattern, escape_char, .. } => {
            let (inner, pattern) = (take(inner), take(pattern));
            *expr = like(inner, pattern, escape_char.take(), *negated, context)?;
        }
        Expr::RLike { negated, expr: inner, pattern, .. } => {
            let matches = regexp(take(inner), take(pattern), context)?;
            *expr = if *negated { not(matches) } else { matches };
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            let mut parts = Vec::new();
            for when in conditions.iter_mut() {
                let mut condition = take(&mut when.condition);
                if let Some(operand) = &operand {
                    let operand = context.copies.of(&**operand)?;
                    condition = binary(operand, BinaryOperator::Eq, condition);
                }
                parts.extend([as_case_condition(condition)?, as_value(take(&mut when.result))]);
            }
            parts.extend(else_result.take().map(|otherwise| as_value(*otherwise)));
            *expr = case(parts);
        }
        Expr::Cast {
            expr: inner, data_type, kind: CastKind::Cast | CastKind::DoubleColon, ..
        }
        | Expr::Convert { expr: inner, data_type: Some(data_type), .. } => {
            *expr = cast(take(inner), &data_type.to_string())?;
        }
        // CONVERT(x USING utf8mb4): all texts are utf8mb4.
        Expr::Convert { expr: inner, data_type: None, .. } => {
            *expr = call("__text", vec![take(inner)]);
        }
        Expr::Extract { field, expr: inner, .. } => {
            *expr = call("__extract", vec![text(field.to_string()), take(inner)]);
        }
        Expr::Position { expr: what, r#in } => *expr = call("locate", vec![take(what), take(r#in)]),
        Expr::Substring { expr: inner, substring_from, substring_for, .. } => {
            let from = substring_from.take().map(|from| *from);
            let from = from.or_else(|| substring_for.is_some().then(|| number(1)));
            let length = substring_for.take().map(|length| *length);
            let arguments = [Some(take(inner)), from, length].into_iter().flatten();
            *expr = call("substring", arguments.collect());
        }
        Expr::Trim { trim_where, trim_what, expr: inner, .. } => {
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
        Expr::Overlay { .. } => return Err(SqlError::not_supported("OVERLAY; use INSERT()")),
        Expr::MatchAgainst { .. } => {
            return Err(SqlError::not_supported("MATCH ... AGAINST; use LIKE or REGEXP"));
        }
        Expr::JsonAccess { .. } | Expr::CompoundFieldAccess { .. } => {
            return Err(SqlError::not_supported("looking into a value with -> or []"));
        }
        _ => {}
    }
    Ok(())
}

/// `0x41` and `b'1000001'`: a text and a number; `call` and `coercion` choose.
fn bits(digits: &str) -> Expr {
    let written = unhex(digits).and_then(|bytes| String::from_utf8(bytes).ok());
    let digits = digits.trim_start_matches('0');
    let value = match digits {
        "" => 0,
        digits => u64::from_str_radix(digits, 16).unwrap_or(u64::MAX),
    };
    call(BITS, vec![written.map_or_else(null, text), call("__unsigned", vec![number(value)])])
}

fn rewrite_binary(expr: &mut Expr) -> Result<(), SqlError> {
    let Expr::BinaryOp { left, op, right } = expr else { return Ok(()) };
    if let (Expr::Tuple(lefts), Expr::Tuple(rights)) = (&mut **left, &mut **right) {
        let pairs = lefts.iter_mut().map(take).zip(rights.iter_mut().map(take));
        let equal = |(left, right)| binary(left, BinaryOperator::Eq, right);
        let all = all(pairs.map(equal)).unwrap_or_else(null);
        *expr = match op {
            BinaryOperator::Eq => Expr::Nested(Box::new(all)),
            BinaryOperator::NotEq => not(all),
            other => {
                return Err(SqlError::not_supported(format!("rows compared by {other}")));
            }
        };
        return Ok(());
    }
    let back = *op == BinaryOperator::Minus;
    if let (to, BinaryOperator::Plus | BinaryOperator::Minus, Expr::Interval(by))
    | (Expr::Interval(by), BinaryOperator::Plus, to) = (&mut **left, &*op, &mut **right)
    {
        *expr = date_arithmetic(take(to), by.clone(), back)?;
        return Ok(());
    }
    let name = match op {
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
        BinaryOperator::Assignment => {
            return Err(SqlError::not_supported(
                "assignments to variables inside of a SELECT; use SET @name = ...",
            ));
        }
        other => return Err(SqlError::not_supported(format!("the operator {other}"))),
    };
    *expr = call(name, vec![take(left), take(right)]);
    Ok(())
}

/// `(a, b) IN ((1, 2), (3, 4))`.
fn rewrite_in(expr: &mut Expr, context: &Context<'_>) -> Result<(), SqlError> {
    let Expr::InList { expr: inner, list, negated } = expr else { return Ok(()) };
    let Expr::Tuple(_) = **inner else { return Ok(()) };
    if list.len() > TUPLES_MAX {
        return Err(SqlError::not_supported(format!("IN with more than {TUPLES_MAX} rows")));
    }
    let rows = list.iter_mut().map(|row| {
        let mut one = binary(context.copies.of(&**inner)?, BinaryOperator::Eq, take(row));
        rewrite_binary(&mut one).map(|()| one)
    });
    let any = rows.reduce(|any, one| Ok(binary(any?, BinaryOperator::Or, one?)));
    let any = any.unwrap_or_else(|| Ok(null()))?;
    *expr = if *negated { not(any) } else { Expr::Nested(Box::new(any)) };
    Ok(())
}

/// Whether it is a number literal.
pub(super) fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(literal) => matches!(literal.value, Value::Number(..)),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } | Expr::Nested(expr) => is_number(expr),
        _ => false,
    }
}
