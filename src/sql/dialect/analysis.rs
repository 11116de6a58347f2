//! Corrections that need tables and types: one pass over DataFusion's plan, before it is optimized.
//!
//! Covers conditions and values; IN, CASE, COALESCE and UNION over several types; sub-queries that
//! find nothing, those for one row of an order, and those that refer to rows of an aggregate, which
//! DataFusion does not join; with `sql.case_insensitive`, grouping, ordering and DISTINCT of texts;
//! and booleans, which are numbers in an answer.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, internal_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{first_value, nth_value};
use datafusion::logical_expr::expr::{AggregateFunction, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{
    conjunction, disjunction, grouping_set_to_exprlist, merge_schema,
};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Case, Distinct, Expr, ExprSchemable, FetchType, GroupingSet,
    LogicalPlan, LogicalPlanBuilder, Operator, Projection, SkipType, Subquery, Union, cast, lit,
    not, when,
};

use super::coercion::{Class, MysqlOperators, call, class, double, is_binary, number};
use crate::sql::cancellation;
use crate::sql::error::SqlError;
use crate::sql::functions::{self, BETWEEN, CASE, NULLABLE, branch_type};

/// Most rows that a sub-query for one row of an order may skip, since they are kept in memory for
/// each outer row.
const SKIP_MAX: usize = 1_000_000;

impl MysqlOperators {
    /// Applies the corrections.
    ///
    /// # Errors
    /// Errors of DataFusion; sub-queries that are not supported.
    pub(crate) fn finish(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let (changed, retyped) = (Cell::new(false), Cell::new(false));
        let plan = plan.transform_up_with_subqueries(|plan| {
            // Rebuilds the nodes above a plan whose types changed.
            let plan = match changed.get() {
                true => plan.recompute_schema()?,
                false => plan,
            };
            let is_union = matches!(plan, LogicalPlan::Union(_));
            let done = self.expressions(plan, retyped.get())?;
            let done = done.transform_data(|plan| self.shape(plan))?;
            changed.set(changed.get() || done.transformed);
            retyped.set(retyped.get() || (is_union && done.transformed));
            Ok(done)
        })?;
        truths_as_numbers(plan.data)
    }

    /// Corrects the expressions of one node; `retyped` if a UNION below it has other types than
    /// when its operators were planned.
    fn expressions(&self, plan: LogicalPlan, retyped: bool) -> Result<Transformed<LogicalPlan>> {
        let schema = match plan.inputs().as_slice() {
            [] => Arc::clone(plan.schema()),
            [input] => Arc::clone(input.schema()),
            inputs => Arc::new(merge_schema(inputs)),
        };
        let names = NamePreserver::new(&plan);
        let mapped = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let mapped = expr.transform_up(|expr| match expr {
                Expr::BinaryExpr(BinaryExpr { left, op, right }) if retyped => {
                    self.operation(op, *left, *right, &schema).map(Transformed::yes)
                }
                Expr::ScalarFunction(mut call) if retyped && integer_operator(&call).is_some() => {
                    let op = integer_operator(&call).unwrap_or(Operator::Plus);
                    let (right, left) = (call.args.remove(1), call.args.remove(0));
                    self.operation(op, left, right, &schema).map(Transformed::yes)
                }
                expr => self.expression(expr, &schema),
            })?;
            Ok(match mapped.transformed {
                true => mapped.update_data(|expr| name.restore(expr)),
                false => mapped,
            })
        })?;
        match mapped.transformed {
            true => mapped.map_data(LogicalPlan::recompute_schema),
            false => Ok(mapped),
        }
    }

    fn expression(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        match expr {
            Expr::InList(list) => self.in_list(list, schema),
            Expr::ScalarFunction(call) if call.name() == CASE => chosen(call, schema),
            Expr::ScalarFunction(call) if call.name() == BETWEEN => self.between(call, schema),
            Expr::ScalarFunction(all) if self.case_insensitive && is_extreme(&all, schema) => {
                let folded = format!("__{}_folded", all.name());
                Ok(Transformed::yes(functions::call(&folded, all.args)))
            }
            Expr::ScalarFunction(mut call) if call.name() == "coalesce" => {
                let wanted = branch_type_of(call.args.iter(), schema)?;
                let each = call.args.drain(..).map(|argument| branch(argument, &wanted, schema));
                Ok(Transformed::yes(coalesce(each.collect::<Result<_>>()?)))
            }
            // Already a condition, or a value.
            Expr::ScalarFunction(mut call) if matches!(call.name(), "__truth" | "__value") => {
                let given = call.args[0].get_type(schema);
                let is_truth = given.is_ok_and(|given| class(&given) == Class::Truth);
                Ok(match is_truth == (call.name() == "__truth") {
                    true => Transformed::yes(call.args.remove(0)),
                    false => Transformed::no(Expr::ScalarFunction(call)),
                })
            }
            Expr::ScalarSubquery(query) => one_row(query)?.transform_data(or_null),
            Expr::InSubquery(list) => self.in_subquery(list, schema),
            Expr::AggregateFunction(counted)
                if self.case_insensitive
                    && counted.params.distinct
                    && counted.func.name() == "count" =>
            {
                let AggregateFunction { func, mut params } = counted;
                for argument in &mut params.args {
                    match argument {
                        // Several values as one text: each is compared.
                        Expr::ScalarFunction(all) if all.name() == "__tuple" => {
                            fold(&mut all.args, schema)?;
                        }
                        one => fold([one], schema)?,
                    }
                }
                let counted = AggregateFunction { func, params };
                Ok(Transformed::yes(Expr::AggregateFunction(counted)))
            }
            Expr::WindowFunction(mut window) if self.case_insensitive => {
                fold(&mut window.params.partition_by, schema)?;
                let orders = window.params.order_by.iter_mut();
                fold(orders.map(|order| &mut order.expr), schema)?;
                Ok(Transformed::yes(Expr::WindowFunction(window)))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    /// Compares with each value as `=` does: values that the left side is converted for in the
    /// same way stay one list.
    fn in_list(&self, list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let (mut lists, mut nulls): (Vec<(Expr, Vec<Expr>)>, _) = (Vec::new(), Vec::new());
        let guard = cancellation::current();
        for value in list.list {
            if let Some(guard) = &guard {
                guard.check()?;
            }
            let (left, value) = self.compared((*list.expr).clone(), value, schema)?;
            if class(&value.get_type(schema)?) == Class::Null {
                nulls.push(value);
                continue;
            }
            match lists.iter_mut().find(|(of, _)| *of == left) {
                Some((_, values)) => values.push(value),
                None => lists.push((left, vec![value])),
            }
        }
        match lists.first_mut() {
            Some((_, values)) => values.append(&mut nulls),
            None => lists.push((*list.expr, nulls)),
        }
        let is_alone = lists.len() == 1;
        let lists = lists.into_iter().map(|(of, values)| {
            Expr::InList(InList::new(Box::new(of), values, list.negated && is_alone))
        });
        let found = disjunction(lists).unwrap_or_else(|| lit(false));
        Ok(Transformed::yes(match list.negated && !is_alone {
            true => not(found),
            false => found,
        }))
    }

    /// `x BETWEEN low AND high` compares as its operators do, but all three in one way: two texts
    /// as numbers if the third is a number, as times if it is one.
    fn between(&self, parts: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let types = parts.args.iter().map(|part| part.get_type(schema));
        let classes: Vec<Class> = types.map(|it| Ok(class(&it?))).collect::<Result<_>>()?;
        let has_time = classes.contains(&Class::Time);
        let is_number =
            |it: &Class| matches!(it, Class::Whole | Class::Decimal | Class::Real | Class::Truth);
        let has_number = classes.iter().any(is_number);
        let mut sides = parts.args.into_iter().zip(classes).map(|(part, class)| match class {
            Class::Text if has_time => call("__datetime", part),
            Class::Text if has_number => number(part, Class::Text),
            _ => part,
        });
        let mut found = Vec::new();
        for op in [Operator::GtEq, Operator::LtEq] {
            let (Some(value), Some(end)) = (sides.next(), sides.next()) else {
                return internal_err!("BETWEEN has four parts");
            };
            found.push(self.operation(op, value, end, schema)?);
        }
        Ok(Transformed::yes(conjunction(found).unwrap_or_else(|| lit(true))))
    }

    /// `x IN (SELECT ...)`: texts regardless of case, a text beside a number as one.
    fn in_subquery(&self, mut list: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let left = class(&list.expr.get_type(schema)?);
        let listed = class(list.subquery.subquery.schema().field(0).data_type());
        let is_number = |class| matches!(class, Class::Whole | Class::Decimal | Class::Real);
        let expr = std::mem::take(&mut *list.expr);
        match (left, listed) {
            (Class::Text, Class::Text) if self.case_insensitive && !is_binary(&expr) => {
                *list.expr = call("__fold", expr);
                in_rows(list, |column, _| Ok(call("__fold", column))).map(Transformed::yes)
            }
            (text, other) | (other, text) if text == Class::Text && is_number(other) => {
                *list.expr = double(number(expr, left), schema)?;
                let listed = |column, schema: &DFSchema| double(number(column, listed), schema);
                in_rows(list, listed).map(Transformed::yes)
            }
            _ => {
                *list.expr = expr;
                Ok(Transformed::no(Expr::InSubquery(list)))
            }
        }
    }

    /// Corrects one node whose expressions are done.
    fn shape(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Union(union) => united(union),
            LogicalPlan::Projection(shown) => beside_aggregates(shown),
            LogicalPlan::Sort(mut sort) if self.case_insensitive => {
                let orders = sort.expr.iter_mut().map(|order| &mut order.expr);
                fold(orders, sort.input.schema())?;
                Ok(Transformed::yes(LogicalPlan::Sort(sort)))
            }
            LogicalPlan::Aggregate(groups) if self.case_insensitive => folded(groups),
            LogicalPlan::Distinct(Distinct::All(input)) if self.case_insensitive => {
                let columns = input.schema().columns().into_iter().map(Expr::Column);
                let groups = Aggregate::try_new(Arc::clone(&input), columns.collect(), vec![])?;
                let folded = folded(groups)?;
                Ok(match folded.transformed {
                    true => folded,
                    false => Transformed::no(LogicalPlan::Distinct(Distinct::All(input))),
                })
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Whether it is GREATEST or LEAST of texts, none of which is to be compared byte by byte.
fn is_extreme(call: &ScalarFunction, schema: &DFSchema) -> bool {
    let is_text = |part: &Expr| {
        let given = part.get_type(schema);
        given.is_ok_and(|given| class(&given) == Class::Text) && !is_binary(part)
    };
    matches!(call.name(), "greatest" | "least") && call.args.iter().all(is_text)
}

/// The operator that an addition, a subtraction or a multiplication of integers was.
fn integer_operator(call: &ScalarFunction) -> Option<Operator> {
    Some(match call.name() {
        "__plus" => Operator::Plus,
        "__minus" => Operator::Minus,
        "__times" => Operator::Multiply,
        _ => return None,
    })
}

/// The type of a choice between expressions.
fn branch_type_of<'a>(
    exprs: impl Iterator<Item = &'a Expr>,
    schema: &DFSchema,
) -> Result<DataType> {
    let types = exprs.map(|expr| expr.get_type(schema)).collect::<Result<Vec<_>>>()?;
    Ok(branch_type(&types))
}

/// Converts an expression to the type of a choice.
fn branch(expr: Expr, wanted: &DataType, schema: &DFSchema) -> Result<Expr> {
    let given = expr.get_type(schema)?;
    Ok(match expr {
        same if given == *wanted => same,
        // Arrow has no conversion from booleans to decimals.
        truth if class(&given) == Class::Truth && wanted.is_decimal() => {
            cast(number(truth, Class::Truth), wanted.clone())
        }
        Expr::Literal(value, _) if class(wanted) != Class::Text => {
            Expr::Literal(value.cast_to(wanted)?, None)
        }
        other if class(wanted) == Class::Text && class(&given) != Class::Text => {
            call("__text", other)
        }
        other => cast(other, wanted.clone()),
    })
}

/// A CASE as DataFusion has it, with results of one type.
fn chosen(mut parts: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let wanted = branch_type_of(parts.args.chunks(2).filter_map(<[_]>::last), schema)?;
    let otherwise = if parts.args.len() % 2 == 1 { parts.args.pop() } else { None };
    let otherwise = otherwise.map(|otherwise| branch(otherwise, &wanted, schema)).transpose()?;
    let mut parts = parts.args.into_iter();
    let mut when_then = Vec::new();
    while let (Some(when), Some(then)) = (parts.next(), parts.next()) {
        when_then.push((Box::new(when), Box::new(branch(then, &wanted, schema)?)));
    }
    Ok(Transformed::yes(Expr::Case(Case::new(None, when_then, otherwise.map(Box::new)))))
}

/// A sub-query that finds no row is NULL, whatever its column is.
fn or_null(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarSubquery(mut query)
            if query.outer_ref_columns.is_empty()
                && !query.subquery.schema().field(0).is_nullable() =>
        {
            let plan = LogicalPlan::clone(&query.subquery);
            query.subquery =
                Arc::new(with_columns(plan, |_, column| Some(call(NULLABLE, column.clone())))?);
            Ok(Transformed::yes(Expr::ScalarSubquery(query)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Converts the rows that IN looks for a value in.
fn in_rows(mut list: InSubquery, with: impl Fn(Expr, &DFSchema) -> Result<Expr>) -> Result<Expr> {
    let plan = LogicalPlan::clone(&list.subquery.subquery);
    let schema = Arc::clone(plan.schema());
    let plan = with_columns(plan, |_, column| with(column.clone(), &schema).ok())?;
    list.subquery.subquery = Arc::new(plan);
    Ok(Expr::InSubquery(list))
}

/// The columns of a union have types with room for all its rows.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let wanted = |at: usize| {
        let types = union.inputs.iter().map(|input| input.schema().field(at).data_type().clone());
        let types: Vec<DataType> = types.collect();
        let wanted = branch_type(&types);
        types.iter().any(|given| *given != wanted).then_some(wanted)
    };
    let wanted: Vec<Option<DataType>> = (0..union.schema.fields().len()).map(wanted).collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter().map(|input| {
        with_columns(LogicalPlan::clone(input), |at, column| {
            let wanted = wanted[at].as_ref()?;
            branch(column.clone(), wanted, input.schema()).ok()
        })
        .map(Arc::new)
    });
    let union = Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// TRUE is 1 in an answer.
fn truths_as_numbers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let fields = plan.schema().fields().iter();
    let truths = fields.map(|field| *field.data_type() == DataType::Boolean);
    let truths: Vec<bool> = truths.collect();
    match truths.contains(&true) {
        true => with_columns(plan, |at, column| {
            truths[at].then(|| cast(column.clone(), DataType::Int64))
        }),
        false => Ok(plan),
    }
}

/// Replaces some columns of a plan, under the same names.
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

/// Folds the case of texts, except in sub-queries: a grouping expression occurs twice, and nesting
/// would double it each time.
fn fold<'a>(exprs: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> Result<()> {
    for expr in exprs {
        let is_query = |expr: &Expr| Ok(matches!(expr, Expr::ScalarSubquery(_)));
        if class(&expr.get_type(schema)?) == Class::Text && !expr.exists(is_query)? {
            *expr = call("__fold", std::mem::take(expr));
        }
    }
    Ok(())
}

/// Groups texts regardless of case; each group shows its first text.
fn folded(groups: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let Aggregate { input, mut group_expr, mut aggr_expr, schema, .. } = groups.clone();
    let given = grouping_set_to_exprlist(&group_expr)?;
    let given: Vec<Expr> = given.into_iter().cloned().collect();
    for expr in &mut group_expr {
        match expr {
            Expr::GroupingSet(GroupingSet::Rollup(all)) => fold(all, input.schema())?,
            one => fold([one], input.schema())?,
        }
    }
    let by = grouping_set_to_exprlist(&group_expr)?;
    let mut shown: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    for (at, (given, by)) in given.into_iter().zip(by).enumerate() {
        if given == *by {
            continue;
        }
        let first = first_value(given, vec![]);
        let column = |expr: &Expr| Column::new_unqualified(expr.schema_name().to_string());
        // NULL in the row of a total over the column.
        let text = when(Expr::Column(column(by)).is_not_null(), Expr::Column(column(&first)));
        let (qualifier, field) = schema.qualified_field(at);
        shown[at] = text.end()?.alias_qualified(qualifier.cloned(), field.name());
        if !aggr_expr.contains(&first) {
            aggr_expr.push(first);
        }
    }
    if aggr_expr.len() == groups.aggr_expr.len() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(groups)));
    }
    let groups = Aggregate::try_new(input, group_expr, aggr_expr)?;
    let shown = LogicalPlanBuilder::from(LogicalPlan::Aggregate(groups)).project(shown)?;
    Ok(Transformed::yes(shown.build()?))
}

/// A sub-query that refers to the outer row and wants one row of an order, as Pinboard writes
/// percentiles: `(SELECT r.x FROM request r WHERE r.host = q.host ORDER BY r.x DESC LIMIT n, 1)` is
/// value `n + 1` of its rows.
fn one_row(query: Subquery) -> Result<Transformed<Expr>> {
    let (LogicalPlan::Limit(limit), false) = (&*query.subquery, query.outer_ref_columns.is_empty())
    else {
        return Ok(Transformed::no(Expr::ScalarSubquery(query)));
    };
    let refuse = |what: &str| {
        SqlError::not_supported(format!(
            "a sub-query with LIMIT that looks at the row around it and {what}; accepted: one column, ORDER BY, LIMIT n, 1"
        ))
    };
    let (SkipType::Literal(skip), FetchType::Literal(Some(1))) =
        (limit.get_skip_type()?, limit.get_fetch_type()?)
    else {
        return Err(refuse("does not want exactly one row").into());
    };
    if skip > SKIP_MAX {
        return Err(refuse("skips more than 1,000,000 rows").into());
    }
    let wanted = Column::from(limit.input.schema().qualified_field(0));
    let (mut rows, mut orders) = (&limit.input, Vec::new());
    // The order may use more columns than are shown.
    if let LogicalPlan::Projection(shown) = &**rows
        && let LogicalPlan::Sort(_) = &*shown.input
    {
        rows = &shown.input;
    }
    if let LogicalPlan::Sort(sort) = &**rows {
        orders.clone_from(&sort.expr);
        rows = &sort.input;
    }
    let mut below = rows;
    while let LogicalPlan::Projection(shown) = &**below {
        below = &shown.input;
    }
    if matches!(
        &**below,
        LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Window(_)
    ) {
        return Err(refuse("has groups").into());
    }
    let value = match (skip, Expr::Column(wanted.clone())) {
        (0, value) => first_value(value, orders),
        (skip, value) => nth_value(value, skip as i64 + 1, orders),
    };
    let name = Column::new_unqualified(value.schema_name().to_string());
    let shown = Expr::Column(name).alias_qualified(wanted.relation, wanted.name);
    let plan = LogicalPlanBuilder::from(Arc::clone(rows));
    let plan = plan.aggregate(Vec::<Expr>::new(), [value])?;
    let subquery = Arc::new(plan.project([shown])?.build()?);
    Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery, ..query })))
}

/// Sub-queries next to aggregates see columns that are not grouped as those of the first row of
/// each group.
fn beside_aggregates(shown: Projection) -> Result<Transformed<LogicalPlan>> {
    let (having, below) = match &*shown.input {
        LogicalPlan::Filter(having) => (Some(having.predicate.clone()), &*having.input),
        below => (None, below),
    };
    let LogicalPlan::Aggregate(groups) = below else {
        return Ok(Transformed::no(LogicalPlan::Projection(shown)));
    };
    let (mut aggregates, mut looked) = (groups.aggr_expr.clone(), false);
    let mut first_of = |column: &Column| {
        if groups.schema.has_column(column) || !groups.input.schema().has_column(column) {
            return None;
        }
        let first = first_value(Expr::Column(column.clone()), vec![]);
        let name = first.schema_name().to_string();
        if !groups.schema.has_column_with_unqualified_name(&name) && !aggregates.contains(&first) {
            aggregates.push(first);
        }
        Some(Column::new_unqualified(name))
    };
    let mut outer = |expr: Expr| match expr {
        Expr::OuterReferenceColumn(field, column) => Ok(match first_of(&column) {
            Some(first) => Transformed::yes(Expr::OuterReferenceColumn(field, first)),
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        }),
        other => Ok(Transformed::no(other)),
    };
    let mut looking = |expr: Expr| {
        let Expr::ScalarSubquery(mut query) = expr else {
            return Ok(Transformed::no(expr));
        };
        let plan = LogicalPlan::clone(&query.subquery);
        let plan =
            plan.transform_up(|plan| plan.map_expressions(|expr| expr.transform_up(&mut outer)))?;
        for column in &mut query.outer_ref_columns {
            *column = outer(std::mem::take(column))?.data;
        }
        looked |= plan.transformed;
        query.subquery = Arc::new(plan.data);
        Ok(Transformed::new_transformed(Expr::ScalarSubquery(query), plan.transformed))
    };
    let names = NamePreserver::new_for_projection();
    let items = shown.expr.iter().map(|expr| {
        let name = names.save(expr);
        Ok(name.restore(expr.clone().transform_up(&mut looking)?.data))
    });
    let items = items.collect::<Result<Vec<_>>>()?;
    if !looked {
        return Ok(Transformed::no(LogicalPlan::Projection(shown)));
    }
    let groups =
        Aggregate::try_new(Arc::clone(&groups.input), groups.group_expr.clone(), aggregates)?;
    let rows = LogicalPlanBuilder::from(LogicalPlan::Aggregate(groups));
    let rows = match having {
        Some(having) => rows.filter(having)?,
        None => rows,
    };
    let shown = Projection::try_new(items, Arc::new(rows.build()?))?;
    Ok(Transformed::yes(LogicalPlan::Projection(shown)))
}
