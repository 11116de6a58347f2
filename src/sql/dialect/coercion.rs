//! MySQL's type coercion, applied while DataFusion plans operators; `analysis` does the rest over
//! the plan.
//!
//! MySQL compares a text with a number as numbers and calculates with texts; FLOAT columns are
//! calculated as doubles. Constants are converted on the spot, so that the tables can still look
//! them up; columns by a function.

use datafusion::arrow::datatypes::{DECIMAL128_MAX_SCALE, DataType};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::history::sql_columns::RESOLUTION;
use crate::sql::cancellation;
use crate::sql::functions::{self, BITS};
use crate::sql::tables::CHOSEN_BY;

/// Plans operators with MySQL's semantics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MysqlOperators {
    /// Whether texts are compared without regard to case.
    pub(crate) case_insensitive: bool,
}

/// Operators of integers: DataFusion's own would overflow silently.
pub(super) const OF_INTEGERS: [(Operator, &str); 3] =
    [(Operator::Plus, "__plus"), (Operator::Minus, "__minus"), (Operator::Multiply, "__times")];

/// The class of a type, for MySQL's operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Null,
    Text,
    Whole,
    Decimal,
    Real,
    Truth,
    Time,
    Other,
}

impl Class {
    pub(super) fn is_number(self) -> bool {
        matches!(self, Self::Whole | Self::Decimal | Self::Real)
    }
}

pub(super) fn class(data_type: &DataType) -> Class {
    match data_type {
        DataType::Null => Class::Null,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => Class::Text,
        DataType::Dictionary(_, values) => class(values),
        DataType::Boolean => Class::Truth,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Class::Real,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => Class::Time,
        whole if whole.is_integer() => Class::Whole,
        decimal if decimal.is_decimal() => Class::Decimal,
        _ => Class::Other,
    }
}

pub(super) fn call(name: &str, argument: Expr) -> Expr {
    functions::call(name, vec![argument])
}

/// The text of a constant.
fn constant(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// Converts to a number.
pub(super) fn number(expr: Expr, class: Class) -> Expr {
    match (class, expr) {
        (Class::Text, Expr::ScalarFunction(mut bits)) if bits.name() == BITS => bits.args.remove(1),
        (Class::Text, expr) => match constant(&expr) {
            Some(said) => Expr::Literal(functions::literal_number(said), None),
            None => call("__real", expr),
        },
        (Class::Truth, expr) => cast(expr, DataType::Int64),
        (Class::Time, expr) => call("__int", expr),
        (Class::Null, expr) => call("__number", expr),
        (Class::Whole | Class::Decimal | Class::Real | Class::Other, expr) => expr,
    }
}

/// A hexadecimal literal as a number; anything else as it is.
fn bits_as_number(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(mut bits) if bits.name() == BITS => bits.args.remove(1),
        other => other,
    }
}

/// Whether it is a text to be compared byte by byte.
pub(super) fn is_binary(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == "binary")
}

/// The column of names of variables, in which case never counts.
pub(super) const OF_VARIABLES: &str = "variable_name";

/// Whether it is the name of a variable.
fn is_of_variable(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if column.name == OF_VARIABLES)
}

/// Whether `expr` is a column that chooses what is read, such as the resolution, and `value` is a
/// constant: their texts must be equal byte for byte.
fn selects(expr: &Expr, value: &Expr) -> bool {
    let Expr::Column(column) = expr else { return false };
    let is_constant = !value.any_column_refs() && !value.contains_outer();
    is_constant && (column.name == RESOLUTION || CHOSEN_BY.contains(&column.name.as_str()))
}

/// Turns a constant like `7e0`, as some clients send 7, into an integer next to one, so that tables
/// can look it up.
fn whole(expr: &Expr, beside: Class) -> Option<Expr> {
    match expr {
        Expr::ScalarFunction(call) if beside == Class::Whole && call.name() == "__real" => {
            let value: f64 = constant(&call.args[0])?.parse().ok()?;
            (value.fract() == 0.0 && value.abs() < 1e15).then(|| lit(value as i64))
        }
        _ => None,
    }
}

/// Converts to a double, if the other side is one.
pub(super) fn double(expr: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    if let Expr::Literal(value, metadata) = &expr
        && let Ok(value) = value.cast_to(&DataType::Float64)
    {
        return Ok(Expr::Literal(value, metadata.clone()));
    }
    Ok(match expr.get_type(schema)? {
        DataType::Float64 => expr,
        _ => cast(expr, DataType::Float64),
    })
}

impl MysqlOperators {
    /// Converts two sides of a comparison.
    pub(super) fn compared(
        &self,
        left: Expr,
        right: Expr,
        schema: &dyn ExprSchema,
    ) -> Result<(Expr, Expr)> {
        let (l, r) = (class(&left.get_type(schema)?), class(&right.get_type(schema)?));
        Ok(match (l, r) {
            (Class::Text, Class::Text)
                if (self.case_insensitive || is_of_variable(&left) || is_of_variable(&right))
                    && ![(&left, &right), (&right, &left)]
                        .into_iter()
                        .any(|(side, other)| is_binary(side) || selects(side, other)) =>
            {
                (call("__fold", left), call("__fold", right))
            }
            (Class::Time, Class::Time | Class::Text) | (Class::Text, Class::Time) => {
                (call("__datetime", left), call("__datetime", right))
            }
            (Class::Text, Class::Text)
            | (Class::Truth, Class::Truth)
            | (Class::Null | Class::Other, _)
            | (_, Class::Null | Class::Other) => (left, right),
            _ => {
                let left = whole(&left, r).unwrap_or_else(|| number(left, l));
                let right = whole(&right, l).unwrap_or_else(|| number(right, r));
                let types = [left.get_type(schema)?, right.get_type(schema)?];
                match types.iter().any(|side| class(side) == Class::Real) {
                    true => (double(left, schema)?, double(right, schema)?),
                    false => (left, right),
                }
            }
        })
    }

    /// Converts two sides of a calculation.
    fn calculated(left: Expr, right: Expr, schema: &dyn ExprSchema) -> Result<(Expr, Expr)> {
        let (left, right) = (bits_as_number(left), bits_as_number(right));
        let (l, r) = (class(&left.get_type(schema)?), class(&right.get_type(schema)?));
        let (left, right) = (number(left, l), number(right, r));
        match [l, r].iter().any(|class| matches!(class, Class::Text | Class::Real)) {
            true => Ok((double(left, schema)?, double(right, schema)?)),
            false => Ok((left, right)),
        }
    }

    /// Plans an operator for the types of its sides.
    pub(super) fn operation(
        &self,
        op: Operator,
        left: Expr,
        right: Expr,
        schema: &dyn ExprSchema,
    ) -> Result<Expr> {
        let (left, right) = match op {
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                let (left, right) = Self::calculated(left, right, schema)?;
                if left.get_type(schema)?.is_integer()
                    && right.get_type(schema)?.is_integer()
                    && let Some((_, name)) = OF_INTEGERS.iter().find(|it| it.0 == op)
                {
                    return Ok(functions::call(name, vec![left, right]));
                }
                if op == Operator::Multiply && class(&left.get_type(schema)?) == Class::Real {
                    // Groups, joins and IN take -0 for another number than 0.
                    let product = binary_expr(left, op, right);
                    return Ok(binary_expr(product, Operator::Plus, lit(0.0)));
                }
                if op == Operator::Multiply
                    && let DataType::Decimal128(all, after) = left.get_type(schema)?
                    && let DataType::Decimal128(others, behind) = right.get_type(schema)?
                    && after + behind > DECIMAL128_MAX_SCALE
                {
                    // More digits after the point than there is room for beside those before it.
                    let [all, after, others, behind] =
                        [all.into(), after.into(), others.into(), behind.into()];
                    let whole = all - after + others - behind;
                    let kept: i64 = i64::from(DECIMAL128_MAX_SCALE) - whole;
                    let kept = lit(kept.max(after).max(behind));
                    return Ok(functions::call("__product", vec![left, right, kept]));
                }
                (left, right)
            }
            Operator::And | Operator::Or => {
                (Self::condition(left, schema)?, Self::condition(right, schema)?)
            }
            _ => self.compared(left, right, schema)?,
        };
        Ok(binary_expr(left, op, right))
    }

    fn condition(expr: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
        Ok(match class(&expr.get_type(schema)?) {
            Class::Truth => expr,
            _ => call("__truth", expr),
        })
    }
}

impl ExprPlanner for MysqlOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        // Resolving nested operators takes long, because each looks up the types of everything
        // inside it.
        cancellation::check()?;
        let RawBinaryExpr { op, left, right } = expr;
        // Outer columns of a sub-query have types of their own; an expression without a type is
        // left to DataFusion.
        if left.get_type(schema).is_err() || right.get_type(schema).is_err() {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        let meant = match op {
            BinaryOperator::Eq => Operator::Eq,
            BinaryOperator::NotEq => Operator::NotEq,
            BinaryOperator::Lt => Operator::Lt,
            BinaryOperator::LtEq => Operator::LtEq,
            BinaryOperator::Gt => Operator::Gt,
            BinaryOperator::GtEq => Operator::GtEq,
            BinaryOperator::Spaceship => Operator::IsNotDistinctFrom,
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            BinaryOperator::Multiply => Operator::Multiply,
            BinaryOperator::And => Operator::And,
            BinaryOperator::Or => Operator::Or,
            _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        Ok(PlannerResult::Planned(self.operation(meant, left, right, schema)?))
    }
}
