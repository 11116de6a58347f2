//! Type coercion as MySQL does it, while DataFusion plans and once over the plan.
//!
//! MySQL compares a text with a number as numbers and calculates with texts; FLOAT columns are calculated as doubles.
//! Constants are converted on the spot, so that the tables can still look them up, columns by a function.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::sql::{cancellation, functions};

/// Plans operators as MySQL means them.
#[derive(Debug)]
pub(crate) struct MysqlOperators {
    /// Whether texts are compared without telling cases apart.
    pub(crate) case_insensitive: bool,
}

/// What a type is to MySQL's operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Null,
    Text,
    Whole,
    Decimal,
    Real,
    Truth,
    Time,
    Other,
}

fn class(data_type: &DataType) -> Class {
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

fn call(name: &str, argument: Expr) -> Expr {
    match functions::call(name, vec![argument.clone()]) {
        Some(call) => call,
        None => argument,
    }
}

/// What a constant text says.
fn constant(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// As a number.
fn number(expr: Expr, class: Class) -> Expr {
    match class {
        Class::Text => match constant(&expr) {
            Some(said) => Expr::Literal(functions::literal_number(said), None),
            None => call("__real", expr),
        },
        Class::Truth => cast(expr, DataType::Int64),
        Class::Time => call("__int", expr),
        Class::Null => cast(expr, DataType::Int64),
        Class::Whole | Class::Decimal | Class::Real | Class::Other => expr,
    }
}

/// As a double, if the other side is one.
fn double(expr: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    Ok(match expr.get_type(schema)? {
        DataType::Float64 => expr,
        _ => match &expr {
            Expr::Literal(value, metadata) => match value.cast_to(&DataType::Float64) {
                Ok(value) => Expr::Literal(value, metadata.clone()),
                Err(_) => cast(expr, DataType::Float64),
            },
            _ => cast(expr, DataType::Float64),
        },
    })
}

impl MysqlOperators {
    /// Two sides that are compared.
    fn compared(&self, left: Expr, right: Expr, schema: &dyn ExprSchema) -> Result<(Expr, Expr)> {
        let (l, r) = (
            class(&left.get_type(schema)?),
            class(&right.get_type(schema)?),
        );
        Ok(match (l, r) {
            (Class::Text, Class::Text) if self.case_insensitive => {
                (call("__fold", left), call("__fold", right))
            }
            (Class::Text, Class::Text) | (Class::Null, _) | (_, Class::Null) => (left, right),
            (Class::Truth, Class::Truth) => (left, right),
            (Class::Time, Class::Time) => (call("__datetime", left), call("__datetime", right)),
            (Class::Time, Class::Text) => {
                let right = call("__datetime", right);
                (call("__datetime", left), right)
            }
            (Class::Text, Class::Time) => {
                let left = call("__datetime", left);
                (left, call("__datetime", right))
            }
            (Class::Other, _) | (_, Class::Other) => (left, right),
            _ => {
                let (left, right) = (number(left, l), number(right, r));
                let is_real = |expr: &Expr| -> Result<bool> {
                    Ok(class(&expr.get_type(schema)?) == Class::Real)
                };
                match is_real(&left)? || is_real(&right)? {
                    true => (double(left, schema)?, double(right, schema)?),
                    false => (left, right),
                }
            }
        })
    }

    /// Two sides that are calculated with.
    fn calculated(left: Expr, right: Expr, schema: &dyn ExprSchema) -> Result<(Expr, Expr)> {
        let (l, r) = (
            class(&left.get_type(schema)?),
            class(&right.get_type(schema)?),
        );
        let real = |class: Class| matches!(class, Class::Text | Class::Real);
        let (left, right) = (number(left, l), number(right, r));
        match real(l) || real(r) {
            true => Ok((double(left, schema)?, double(right, schema)?)),
            false => Ok((left, right)),
        }
    }

    fn condition(expr: Expr, schema: &dyn ExprSchema) -> Result<Expr> {
        Ok(match class(&expr.get_type(schema)?) {
            Class::Truth => expr,
            _ => call("__truth", expr),
        })
    }

    /// Puts right what DataFusion plans without asking: IN with values of other types, and truths as results.
    ///
    /// # Errors
    /// DataFusion's.
    pub(crate) fn finish(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let changed = std::cell::Cell::new(false);
        let plan = plan.transform_up_with_subqueries(|plan| {
            let plan = match plan {
                LogicalPlan::Union(union) => match united(&union)? {
                    Some(plan) => {
                        changed.set(true);
                        return Ok(Transformed::yes(plan));
                    }
                    None => LogicalPlan::Union(union),
                },
                // What stands above a union whose types changed.
                other if changed.get() => other.recompute_schema()?,
                other => other,
            };
            let schema = match plan.inputs().as_slice() {
                [] => (**plan.schema()).clone(),
                inputs => {
                    let mut schema = (**inputs[0].schema()).clone();
                    for input in &inputs[1..] {
                        schema.merge(input.schema());
                    }
                    schema
                }
            };
            let names = NamePreserver::new(&plan);
            let mapped = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let mapped = expr.transform_up(|expr| self.in_list(expr, &schema))?;
                Ok(match mapped.transformed {
                    true => mapped.update_data(|expr| name.restore(expr)),
                    false => mapped,
                })
            })?;
            changed.set(changed.get() || mapped.transformed);
            match mapped.transformed {
                true => mapped.map_data(LogicalPlan::recompute_schema),
                false => Ok(mapped),
            }
        })?;
        truths_as_numbers(plan.data)
    }

    /// Of texts and other values COALESCE makes texts.
    fn coalesced(mut call_of: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let classes: Vec<Class> = call_of
            .args
            .iter()
            .map(|argument| Ok(class(&argument.get_type(schema)?)))
            .collect::<Result<_>>()?;
        let others = |class: &Class| !matches!(class, Class::Text | Class::Null);
        if !classes.contains(&Class::Text) || !classes.iter().any(others) {
            return Ok(Transformed::no(Expr::ScalarFunction(call_of)));
        }
        for (argument, class) in call_of.args.iter_mut().zip(&classes) {
            if others(class) {
                *argument = call("__text", std::mem::take(argument));
            }
        }
        Ok(Transformed::yes(Expr::ScalarFunction(call_of)))
    }

    fn in_list(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let list = match expr {
            Expr::InList(list) => list,
            Expr::ScalarFunction(call_of) if call_of.name() == "coalesce" => {
                return Self::coalesced(call_of, schema);
            }
            other => return Ok(Transformed::no(other)),
        };
        let InList {
            expr: inner,
            list,
            negated,
        } = list;
        let mut of = *inner;
        let mut made = Vec::with_capacity(list.len());
        let given = of.clone();
        let watch = cancellation::current();
        for value in list {
            if let Some(watch) = &watch {
                watch.check()?;
            }
            let (left, value) = self.compared(given.clone(), value, schema)?;
            if left.get_type(schema)? != of.get_type(schema)? || left != given {
                of = left;
            }
            made.push(value);
        }
        // Values of several kinds: numbers decide, as in MySQL.
        let wanted = of.get_type(schema)?;
        if class(&wanted) == Class::Real {
            made = made
                .into_iter()
                .map(|value| {
                    let class = class(&value.get_type(schema)?);
                    double(number(value, class), schema)
                })
                .collect::<Result<_>>()?;
        }
        Ok(Transformed::yes(Expr::InList(InList::new(
            Box::new(of),
            made,
            negated,
        ))))
    }
}

/// A union of texts and numbers is one of texts. `None` when there is nothing to put right.
fn united(union: &Union) -> Result<Option<LogicalPlan>> {
    let classes = |at: usize| {
        let types = union
            .inputs
            .iter()
            .map(move |input| input.schema().field(at));
        types.map(|field| class(field.data_type()))
    };
    let width = union.schema.fields().len();
    let texts: Vec<bool> = (0..width)
        .map(|at| {
            classes(at).any(|class| class == Class::Text)
                && classes(at).any(|class| !matches!(class, Class::Text | Class::Null))
        })
        .collect();
    if !texts.contains(&true) {
        return Ok(None);
    }
    let inputs = union.inputs.iter().map(|input| {
        let as_text = |at: usize, column: &Expr| texts[at].then(|| call("__text", column.clone()));
        with_columns(LogicalPlan::clone(input), as_text)
    });
    let mut made: Option<LogicalPlan> = None;
    for input in inputs {
        let input = input?;
        made = Some(match made {
            Some(before) => LogicalPlanBuilder::from(before).union(input)?.build()?,
            None => input,
        });
    }
    Ok(made)
}

/// TRUE is 1 in an answer.
fn truths_as_numbers(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan
        .schema()
        .iter()
        .any(|(_, field)| *field.data_type() == DataType::Boolean)
    {
        return Ok(plan);
    }
    let truths: Vec<bool> = plan
        .schema()
        .fields()
        .iter()
        .map(|field| *field.data_type() == DataType::Boolean)
        .collect();
    with_columns(plan, |at, column| {
        truths[at].then(|| cast(column.clone(), DataType::Int64))
    })
}

/// A plan's rows with other columns in the places of some, under the same names.
fn with_columns(
    plan: LogicalPlan,
    other: impl Fn(usize, &Expr) -> Option<Expr>,
) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().enumerate();
    let items = columns.map(|(at, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match other(at, &column) {
            Some(other) => other.alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    });
    let items: Vec<Expr> = items.collect();
    LogicalPlanBuilder::from(plan).project(items)?.build()
}

impl ExprPlanner for MysqlOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        // What many operators mean takes long to find out: once each knows the types of all that is in it.
        if let Some(watch) = cancellation::current() {
            watch.check()?;
        }
        let RawBinaryExpr { op, left, right } = expr;
        // Outer columns of a sub-query have types of their own; whatever has none is DataFusion's to judge.
        if left.get_type(schema).is_err() || right.get_type(schema).is_err() {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        let (left, right) = match op {
            BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Spaceship => self.compared(left, right, schema)?,
            BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply => {
                let (left, right) = Self::calculated(left, right, schema)?;
                let whole =
                    |expr: &Expr| -> Result<bool> { Ok(expr.get_type(schema)? == DataType::Int64) };
                if whole(&left)? && whole(&right)? {
                    // DataFusion's would come out wrong when they are too large.
                    let name = match op {
                        BinaryOperator::Plus => "__plus",
                        BinaryOperator::Minus => "__minus",
                        _ => "__times",
                    };
                    if let Some(call) = functions::call(name, vec![left.clone(), right.clone()]) {
                        return Ok(PlannerResult::Planned(call));
                    }
                }
                (left, right)
            }
            BinaryOperator::And | BinaryOperator::Or => (
                Self::condition(left, schema)?,
                Self::condition(right, schema)?,
            ),
            _ => (left, right),
        };
        if op == BinaryOperator::Spaceship {
            let same = Expr::BinaryExpr(datafusion::logical_expr::BinaryExpr::new(
                Box::new(left),
                datafusion::logical_expr::Operator::IsNotDistinctFrom,
                Box::new(right),
            ));
            return Ok(PlannerResult::Planned(same));
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}
