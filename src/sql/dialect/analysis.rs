//! Corrections that need tables and types: one pass over DataFusion's plan, before it is optimized.
//!
//! Covers conditions and values; IN, CASE, COALESCE and UNION over several types; sub-queries that
//! find nothing, those for one row of an order, and those that refer to rows of an aggregate, which
//! DataFusion does not join; with `sql.case_insensitive`, grouping, ordering and DISTINCT of texts;
//! and booleans, which are numbers in an answer.

mod quotients;
mod subqueries;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeContainer as _};
use datafusion::common::{
    Column, DFSchema, JoinConstraint, JoinType, NullEquality, Result, ScalarValue, internal_err,
};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::expr::{InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{
    conjunction, disjunction, grouping_set_to_exprlist, merge_schema,
};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Case, Distinct, Expr, ExprSchemable, GroupingSet, Join, LogicalPlan,
    LogicalPlanBuilder, Operator, Union, cast, lit, not, when,
};

use datafusion::optimizer::AnalyzerRule as _;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;

use self::quotients::{calculated, called, is_rounded, unrounded, widened};
use self::subqueries::{
    Total, asked_in_on, beside_aggregates, counted, refuse_limit, unknown_rows,
};
use super::coercion::{Class, MysqlOperators, OF_INTEGERS, call, class, double, is_binary, number};
use crate::sql::cancellation;
use crate::sql::functions::{self, BETWEEN, CASE, branch_type};

/// The table and column of converted rows that IN looks for a value in.
const LISTED: &str = "__listed";

impl MysqlOperators {
    /// Applies the corrections.
    ///
    /// # Errors
    /// Errors of DataFusion; sub-queries that are not supported.
    pub(crate) fn finish(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        // It compares the arguments of GROUPING with the groups as they are written.
        let plan = ResolveGroupingFunction::new().analyze(plan, &ConfigOptions::default())?;
        let (mut changed, mut retyped) = (false, false);
        let plan = plan.transform_up_with_subqueries(|plan| {
            // Rebuilds the nodes above a plan whose types changed.
            let plan = if changed { plan.recompute_schema()? } else { plan };
            let is_union = match &plan {
                LogicalPlan::Union(_) => true,
                LogicalPlan::Join(join) => is_of_sets(join),
                _ => false,
            };
            let done = self.expressions(plan, retyped)?;
            let done = done.transform_data(|plan| self.shape(plan))?;
            changed |= done.transformed;
            retyped |= is_union && done.transformed;
            Ok(done)
        })?;
        truths_as_numbers(plan.data)
    }

    /// Corrects the expressions of one node; `retyped` if a UNION or the like below it has
    /// other types than when its operators were planned.
    fn expressions(&self, plan: LogicalPlan, retyped: bool) -> Result<Transformed<LogicalPlan>> {
        let schema = match plan.inputs().as_slice() {
            [] => Arc::clone(plan.schema()),
            [input] => Arc::clone(input.schema()),
            inputs => Arc::new(merge_schema(inputs)),
        };
        let names = NamePreserver::new(&plan);
        let mut corrected = |expr: Expr| {
            let name = names.save(&expr);
            let mapped = expr.transform_up(|expr| match expr {
                Expr::BinaryExpr(BinaryExpr { left, op, right }) if retyped => {
                    self.operation(op, *left, *right, &schema).map(Transformed::yes)
                }
                Expr::ScalarFunction(mut call) if retyped => {
                    match OF_INTEGERS.iter().find(|(_, name)| call.name() == *name) {
                        Some((op, _)) => {
                            let (right, left) = (call.args.remove(1), call.args.remove(0));
                            self.operation(*op, left, right, &schema).map(Transformed::yes)
                        }
                        None => self.expression(Expr::ScalarFunction(call), &schema),
                    }
                }
                expr => self.expression(expr, &schema),
            })?;
            Ok(match mapped.transformed {
                true => mapped.update_data(|expr| name.restore(expr)),
                false => mapped,
            })
        };
        let mapped = plan.map_expressions(|expr| match expr {
            Expr::GroupingSet(GroupingSet::Rollup(all)) => {
                let all = all.map_elements(&mut corrected)?;
                Ok(all.update_data(|all| Expr::GroupingSet(GroupingSet::Rollup(all))))
            }
            one => corrected(one),
        })?;
        match mapped.transformed {
            true => mapped.map_data(LogicalPlan::recompute_schema),
            false => Ok(mapped),
        }
    }

    fn expression(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        match expr {
            Expr::InList(list) => self.in_list(list, schema),
            Expr::BinaryExpr(sides)
                if is_rounded(&sides.left, schema) || is_rounded(&sides.right, schema) =>
            {
                calculated(sides, schema)
            }
            // In a double all digits count.
            Expr::Cast(mut cast)
                if *cast.field.data_type() == DataType::Float64
                    && is_rounded(&cast.expr, schema) =>
            {
                *cast.expr = unrounded(std::mem::take(&mut *cast.expr), schema)?;
                Ok(Transformed::yes(Expr::Cast(cast)))
            }
            Expr::ScalarFunction(call) if call.name() == CASE => {
                chosen(call.args, schema).map(Transformed::yes)
            }
            Expr::ScalarFunction(call) if call.name() == BETWEEN => self.between(call, schema),
            Expr::ScalarFunction(all) if self.case_insensitive && is_extreme(&all, schema) => {
                let folded = format!("__{}_folded", all.name());
                Ok(Transformed::yes(functions::call(&folded, all.args)))
            }
            Expr::ScalarFunction(call) if call.name() == "coalesce" => {
                first_known(call.args, schema).map(Transformed::yes)
            }
            Expr::ScalarFunction(call)
                if call.name() != "__value"
                    && call.args.iter().any(|it| is_rounded(it, schema)) =>
            {
                called(call, schema)
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
            Expr::ScalarSubquery(query) => subqueries::value(query),
            Expr::Exists(exists) => subqueries::exists(exists),
            Expr::InSubquery(list) => self.in_subquery(list, schema),
            Expr::AggregateFunction(mut counted)
                if self.case_insensitive
                    && counted.params.distinct
                    && counted.func.name() == "count" =>
            {
                for argument in &mut counted.params.args {
                    match argument {
                        // Several values as one text: each is compared.
                        Expr::ScalarFunction(all) if all.name() == "__tuple" => {
                            fold(&mut all.args, schema)?;
                        }
                        one => fold([one], schema)?,
                    }
                }
                Ok(Transformed::yes(Expr::AggregateFunction(counted)))
            }
            // DataFusion wants GROUP_CONCAT(DISTINCT x) ordered by x.
            Expr::AggregateFunction(mut joined)
                if self.case_insensitive
                    && !joined.params.distinct
                    && !joined.params.order_by.is_empty() =>
            {
                let orders = joined.params.order_by.iter_mut();
                fold(orders.map(|order| &mut order.expr), schema)?;
                Ok(Transformed::yes(Expr::AggregateFunction(joined)))
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
        if class(&list.expr.get_type(schema)?) == Class::Null {
            return Ok(Transformed::yes(lit(ScalarValue::Boolean(None))));
        }
        let (mut lists, mut equal) = (Vec::<(Expr, Vec<Expr>)>::new(), Vec::new());
        let mut has_null = false;
        for value in list.list {
            cancellation::check()?;
            let (left, value) = self.compared((*list.expr).clone(), value, schema)?;
            if class(&value.get_type(schema)?) == Class::Null {
                has_null = true;
                continue;
            }
            // DataFusion evaluates a list once, for all rows.
            if value.any_column_refs() || value.is_volatile() {
                equal.push(left.eq(value));
                continue;
            }
            match lists.iter_mut().find(|(of, _)| *of == left) {
                Some((_, values)) => values.push(value),
                None => lists.push((left, vec![value])),
            }
        }
        let is_alone = lists.len() == 1 && equal.is_empty() && !has_null;
        let lists = lists.into_iter().map(|(of, values)| {
            Expr::InList(InList::new(Box::new(of), values, list.negated && is_alone))
        });
        // DataFusion's optimizer loses a NULL where it joins two lists.
        let unknown = has_null.then(|| lit(ScalarValue::Boolean(None)));
        let found = disjunction(lists.chain(equal).chain(unknown));
        let found = found.unwrap_or_else(|| lit(false));
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
        let has_number = classes.iter().any(|it| it.is_number() || *it == Class::Truth);
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

    /// `x IN (SELECT ...)`: texts regardless of case, whatever is beside a number as a number,
    /// texts beside times as times, and one row as `=` compares.
    fn in_subquery(&self, mut list: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
        list.subquery = match Total::new(list.subquery) {
            Ok(total) => {
                let total = total.by_columns()?;
                let exists = total.exists()?;
                let equal = self.operation(Operator::Eq, *list.expr, total.value()?, schema)?;
                let found = exists.and(self.expression(equal, schema)?.data);
                return Ok(Transformed::yes(if list.negated { not(found) } else { found }));
            }
            Err(subquery) => subquery,
        };
        refuse_limit(&list.subquery)?;
        let left = class(&list.expr.get_type(schema)?);
        let listed = class(list.subquery.subquery.schema().field(0).data_type());
        let has = |class: Class| left == class || listed == class;
        // DataFusion would round doubles beside decimals, and integers beside FLOATs.
        let doubles = has(Class::Text) || has(Class::Real);
        let as_numbers = left != listed
            && [left, listed].iter().any(|it| it.is_number() || *it == Class::Truth)
            && (doubles || has(Class::Truth) || has(Class::Time))
            && !(has(Class::Null) || has(Class::Other));
        let convert: fn(Expr, Class, &DFSchema) -> Result<Expr> = match (left, listed) {
            (Class::Text, Class::Text) if self.case_insensitive && !is_binary(&list.expr) => {
                |side, _, _| Ok(call("__fold", side))
            }
            (Class::Text, Class::Time) | (Class::Time, Class::Text) => {
                |side, _, _| Ok(call("__datetime", side))
            }
            _ if as_numbers && doubles => |side, class, schema| double(number(side, class), schema),
            _ if as_numbers => |side, class, _| Ok(number(side, class)),
            _ => return Ok(Transformed::no(Expr::InSubquery(list))),
        };
        *list.expr = convert(std::mem::take(&mut *list.expr), left, schema)?;
        let plan = LogicalPlan::clone(&list.subquery.subquery);
        let column = Expr::Column(Column::from(plan.schema().qualified_field(0)));
        let column = convert(column, listed, plan.schema())?;
        // A name of its own, since the sub-query may compare the column as it was with the row
        // around it.
        let column = column.alias_qualified(Some(LISTED), LISTED);
        let plan = LogicalPlanBuilder::from(plan).project([column])?.build()?;
        list.subquery.subquery = Arc::new(plan);
        Ok(Transformed::yes(Expr::InSubquery(list)))
    }

    /// Corrects one node whose expressions are done.
    fn shape(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Union(union) => united(union),
            LogicalPlan::Filter(filter) => unknown_rows(filter),
            LogicalPlan::Projection(shown) => {
                let shown = counted(shown)?.transform_data(beside_aggregates)?;
                Ok(shown.update_data(LogicalPlan::Projection))
            }
            LogicalPlan::Sort(mut sort) if self.case_insensitive => {
                let orders = sort.expr.iter_mut().map(|order| &mut order.expr);
                fold(orders, sort.input.schema())?;
                Ok(Transformed::yes(LogicalPlan::Sort(sort)))
            }
            LogicalPlan::Join(join) => {
                let join = intersected(join)?.transform_data(|join| self.keys(join))?;
                join.transform_data(asked_in_on)
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

    /// Compares a text beside a number in the keys of a join as a number, and texts regardless of
    /// case if that is set.
    fn keys(&self, mut join: Join) -> Result<Transformed<Join>> {
        let schemas = [join.left.schema(), join.right.schema()].map(Arc::clone);
        let mut is_changed = self.case_insensitive && !join.on.is_empty();
        for (left, right) in &mut join.on {
            let classes =
                [class(&left.get_type(&*schemas[0])?), class(&right.get_type(&*schemas[1])?)];
            let are_mixed = match classes {
                [Class::Text, other] | [other, Class::Text] => other.is_number(),
                _ => false,
            };
            for ((key, class), schema) in [left, right].into_iter().zip(classes).zip(&schemas) {
                if are_mixed {
                    *key = double(number(std::mem::take(key), class), &**schema)?;
                } else if self.case_insensitive {
                    fold([key], schema)?;
                }
            }
            is_changed |= are_mixed;
        }
        if is_changed {
            // Names are resolved already, and keys of USING have to be columns.
            join.join_constraint = JoinConstraint::On;
        }
        Ok(Transformed::new_transformed(join, is_changed))
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
        real if *wanted == DataType::Float64 => cast(unrounded(real, schema)?, wanted.clone()),
        other => match *wanted {
            DataType::Decimal128(_, scale) => cast(widened(other, scale, schema)?, wanted.clone()),
            _ => cast(other, wanted.clone()),
        },
    })
}

/// COALESCE as DataFusion has it, with values of one type.
fn first_known(values: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let wanted = branch_type_of(values.iter(), schema)?;
    let each = values.into_iter().map(|value| branch(value, &wanted, schema));
    Ok(coalesce(each.collect::<Result<_>>()?))
}

/// A CASE as DataFusion has it, with results of one type.
fn chosen(mut parts: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let wanted = branch_type_of(parts.chunks(2).filter_map(<[_]>::last), schema)?;
    let otherwise = if parts.len() % 2 == 1 { parts.pop() } else { None };
    let otherwise = otherwise.map(|otherwise| branch(otherwise, &wanted, schema)).transpose()?;
    let mut parts = parts.into_iter();
    let mut when_then = Vec::new();
    while let (Some(when), Some(then)) = (parts.next(), parts.next()) {
        when_then.push((Box::new(when), Box::new(branch(then, &wanted, schema)?)));
    }
    Ok(Expr::Case(Case::new(None, when_then, otherwise.map(Box::new))))
}

/// The rows of a plan, with the columns that are wanted so in other types.
fn in_types(plan: &LogicalPlan, wanted: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let rows = with_columns(plan.clone(), |at, column| {
        branch(column.clone(), wanted[at].as_ref()?, plan.schema()).ok()
    });
    rows.map(Arc::new)
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
    let inputs = union.inputs.iter().map(|input| in_types(input, &wanted));
    let union = Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// Whether a join is an INTERSECT or an EXCEPT; sub-queries are joined later.
fn is_of_sets(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
}

/// The columns of both sides of an INTERSECT or an EXCEPT are compared in the types that they would
/// have in a union; other joins stay.
fn intersected(mut join: Join) -> Result<Transformed<Join>> {
    if !is_of_sets(&join) {
        return Ok(Transformed::no(join));
    }
    let [left, right] = [&join.left, &join.right].map(|side| side.schema().fields().iter());
    let wanted = left.zip(right).map(|(left, right)| {
        let types = [left, right].map(|field| field.data_type().clone());
        let [left, right] = types.each_ref().map(class);
        let is_same = types[0] == types[1] || (left == Class::Text && right == Class::Text);
        (!is_same).then(|| branch_type(&types))
    });
    let wanted: Vec<Option<DataType>> = wanted.collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(Transformed::no(join));
    }
    for side in [&mut join.left, &mut join.right] {
        *side = in_types(side, &wanted)?;
    }
    match LogicalPlan::Join(join).recompute_schema()? {
        LogicalPlan::Join(join) => Ok(Transformed::yes(join)),
        _ => internal_err!("a join stays one"),
    }
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

/// Folds the case of texts, except of BINARY ones, and in sub-queries: a grouping expression occurs
/// twice, and nesting would double it each time.
fn fold<'a>(exprs: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> Result<()> {
    for expr in exprs {
        let is_query = |expr: &Expr| Ok(matches!(expr, Expr::ScalarSubquery(_)));
        let is_text = class(&expr.get_type(schema)?) == Class::Text && !is_binary(expr);
        if is_text && !expr.exists(is_query)? {
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
