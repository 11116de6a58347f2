//! Sub-queries that DataFusion does not join as MySQL answers them: IN with NULLs, of constants and
//! of what depends on the row around it; those that find nothing; those that aggregate without
//! GROUP BY what may be nothing; those for one row of an order; those that refer to rows of an
//! aggregate; IN and EXISTS in what is selected; and those in ON that look at the row around them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::expr_fn::{first_value, nth_value};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable as _, FetchType, Filter, Join, JoinType,
    LogicalPlan, LogicalPlanBuilder, Operator, Projection, SkipType, Subquery, lit, not, when,
};

use super::{LISTED, with_columns};
use crate::sql::dialect::coercion::call;
use crate::sql::error::SqlError;
use crate::sql::functions::NULLABLE;

/// Most rows that a sub-query for one row of an order may skip, since they are kept in memory for
/// each outer row.
const SKIP_MAX: usize = 1_000_000;

/// A correlated sub-query that aggregates without GROUP BY: one row, or none if its HAVING refuses
/// that. DataFusion joins its groups, so it lacks the row where nothing matches (the "count bug").
pub(super) struct Total {
    query: Subquery,
    /// Whether there is a HAVING, or what else changes with the number of rows.
    is_conditional: bool,
}

impl Total {
    /// Whether a sub-query is one.
    ///
    /// # Errors
    /// Returns the sub-query if it is none.
    pub(super) fn new(query: Subquery) -> Result<Self, Subquery> {
        // A row is in order, and there is no other like it.
        let mut shown = &query.subquery;
        while let LogicalPlan::Sort(_) | LogicalPlan::Limit(_) | LogicalPlan::Distinct(_) = **shown
            && let Some(below) = below_row(shown)
        {
            shown = below;
        }
        let (mut row, mut is_conditional) = (shown, false);
        while let Some(below) = below_row(row) {
            is_conditional |= matches!(**row, LogicalPlan::Filter(_) | LogicalPlan::Window(_));
            row = below;
        }
        match &**row {
            LogicalPlan::Aggregate(groups)
                if groups.group_expr.is_empty() && !groups.input.all_out_ref_exprs().is_empty() =>
            {
                let subquery = Arc::clone(shown);
                Ok(Self { query: Subquery { subquery, ..query }, is_conditional })
            }
            _ => Err(query),
        }
    }

    /// The same, with columns for what it compares with the row around it.
    pub(super) fn by_columns(self) -> Result<Self> {
        Ok(Self { query: by_columns(self.query)?, ..self })
    }

    /// Its value: NULL if there is no row.
    pub(super) fn value(self) -> Result<Expr> {
        if !self.is_conditional {
            return Ok(Expr::ScalarSubquery(self.query));
        }
        self.instead(|value, having| when(having, value).end())
    }

    /// Whether there is a row.
    pub(super) fn exists(&self) -> Result<Expr> {
        match self.is_conditional {
            true => Ok(self.instead(|_, having| Ok(having))?.is_true()),
            false => Ok(lit(true)),
        }
    }

    /// The sub-query with something else in place of its value, and without HAVING.
    fn instead(&self, of: impl Fn(Expr, Expr) -> Result<Expr>) -> Result<Expr> {
        if let LogicalPlan::Projection(shown) = &*self.query.subquery
            && let (LogicalPlan::Filter(having), [value, ..]) = (&*shown.input, &*shown.expr)
            && let LogicalPlan::Aggregate(_) = &*having.input
        {
            let name = NamePreserver::new_for_projection().save(value);
            let value = of(value.clone().unalias(), having.predicate.clone())?;
            let shown = Projection::try_new(vec![name.restore(value)], Arc::clone(&having.input))?;
            let subquery = Arc::new(LogicalPlan::Projection(shown));
            return Ok(Expr::ScalarSubquery(Subquery { subquery, ..self.query.clone() }));
        }
        let what =
            "a sub-query that looks at the row around it and has more than HAVING on its one row";
        Err(SqlError::not_supported(what).into())
    }
}

/// The node below one that makes no rows of one row, and keeps it or refuses it.
fn below_row(plan: &LogicalPlan) -> Option<&Arc<LogicalPlan>> {
    match plan {
        LogicalPlan::Projection(node) => Some(&node.input),
        LogicalPlan::Filter(node) => Some(&node.input),
        LogicalPlan::SubqueryAlias(node) => Some(&node.input),
        LogicalPlan::Window(node) => Some(&node.input),
        LogicalPlan::Sort(node) => Some(&node.input),
        LogicalPlan::Distinct(Distinct::All(input)) => Some(input),
        LogicalPlan::Limit(node)
            if matches!(
                (node.get_skip_type(), node.get_fetch_type()),
                (Ok(SkipType::Literal(0)), Ok(FetchType::Literal(fetch))) if fetch != Some(0)
            ) =>
        {
            Some(&node.input)
        }
        _ => None,
    }
}

/// The value of a sub-query; one that finds no row is NULL, whatever its column is.
pub(super) fn value(mut query: Subquery) -> Result<Transformed<Expr>> {
    let is_never_null = |query: &Subquery| !query.subquery.schema().field(0).is_nullable();
    if query.outer_ref_columns.is_empty() {
        let is_changed = is_never_null(&query);
        if is_changed {
            let plan = LogicalPlan::clone(&query.subquery);
            query.subquery =
                Arc::new(with_columns(plan, |_, column| Some(call(NULLABLE, column.clone())))?);
        }
        return Ok(Transformed::new_transformed(Expr::ScalarSubquery(query), is_changed));
    }
    Ok(Transformed::yes(match Total::new(by_columns(query)?) {
        Ok(total) => total.value()?,
        Err(query) => {
            let query = one_row(query)?;
            let is_never_null = is_never_null(&query);
            let value = Expr::ScalarSubquery(query);
            if is_never_null { call(NULLABLE, value) } else { value }
        }
    }))
}

/// Makes columns of what a sub-query compares with the row around it, as `UPPER(x)`: DataFusion
/// joins one that aggregates by columns only.
fn by_columns(mut query: Subquery) -> Result<Subquery> {
    let plan = LogicalPlan::clone(&query.subquery).transform_up(|plan| match plan {
        // HAVING is joined otherwise.
        LogicalPlan::Filter(filter) if !matches!(*filter.input, LogicalPlan::Aggregate(_)) => {
            filtered_by_columns(filter)
        }
        other => Ok(Transformed::no(other)),
    })?;
    query.subquery = Arc::new(plan.data);
    Ok(query)
}

fn filtered_by_columns(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let is_query = |expr: &Expr| Ok(query_of(expr).is_some());
    let is_own = |side: &Expr| {
        let is_column = matches!(side, Expr::Column(_));
        !is_column && side.any_column_refs() && !side.contains_outer() && !side.is_volatile()
    };
    let mut made: Vec<Expr> = Vec::new();
    let mut column_of = |side: Expr| {
        let column = Column::new(Some("__compared"), side.schema_name().to_string());
        let side = side.alias_qualified(column.relation.clone(), column.name.clone());
        if !made.contains(&side) {
            made.push(side);
        }
        Box::new(Expr::Column(column))
    };
    let mut conditions = split_conjunction_owned(filter.predicate.clone());
    for condition in &mut conditions {
        let is_simple = condition.contains_outer() && !condition.exists(is_query)?;
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
            continue;
        };
        if is_simple && is_own(left) && !right.any_column_refs() {
            *left = column_of(std::mem::take(&mut **left));
        } else if is_simple && is_own(right) && !left.any_column_refs() {
            *right = column_of(std::mem::take(&mut **right));
        }
    }
    if made.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let shown: Vec<Expr> = filter.input.schema().columns().into_iter().map(Expr::Column).collect();
    let rows = LogicalPlanBuilder::from(Arc::clone(&filter.input));
    let rows = rows.project(shown.iter().cloned().chain(made))?;
    let rows = rows.filter(conjunction(conditions).unwrap_or_else(|| lit(true)))?;
    Ok(Transformed::yes(rows.project(shown)?.build()?))
}

/// `EXISTS (SELECT ...)`: some aggregates bring a row also where nothing matches.
pub(super) fn exists(exists: Exists) -> Result<Transformed<Expr>> {
    let Exists { subquery, negated } = exists;
    match Total::new(subquery) {
        Ok(total) => {
            let found = total.by_columns()?.exists()?;
            Ok(Transformed::yes(if negated { not(found) } else { found }))
        }
        Err(query) => {
            // DataFusion would look at all rows.
            if let LogicalPlan::Limit(limit) = &*query.subquery
                && !query.outer_ref_columns.is_empty()
                && !matches!(limit.get_skip_type()?, SkipType::Literal(0))
            {
                let what = "EXISTS of a sub-query that looks at the row around it and has LIMIT with an offset";
                return Err(SqlError::not_supported(format!("{what}; count its rows")).into());
            }
            Ok(Transformed::no(Expr::Exists(Exists::new(query, negated))))
        }
    }
}

/// Refuses `IN (SELECT ... LIMIT 1)` where DataFusion looks at all rows instead.
///
/// # Errors
/// [`SqlError::not_supported`].
pub(super) fn refuse_limit(query: &Subquery) -> Result<()> {
    let is_limited = matches!(&*query.subquery, LogicalPlan::Limit(_));
    if is_limited && !query.outer_ref_columns.is_empty() {
        let what = "IN of a sub-query that looks at the row around it and has LIMIT";
        return Err(SqlError::not_supported(what).into());
    }
    Ok(())
}

/// `x IN (SELECT ...)` where DataFusion has no join that knows NULLs: within a condition, of a
/// constant, and with NOT where the sub-query refers to the row around it.
pub(super) fn unknown_rows(mut filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let condition = with_unknown(filter.predicate, filter.input.schema())?;
    filter.predicate = condition.data;
    Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), condition.transformed))
}

/// Sub-queries in ON, where DataFusion lacks the row around them: what an inner join asks is asked
/// of its rows, and what an outer join asks of the side that may be missing before it is joined.
///
/// # Errors
/// [`SqlError::not_supported`] if one in an outer join looks at the side whose rows all stay.
pub(super) fn asked_in_on(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let is_inner = join.join_type == JoinType::Inner;
    let is_asked = |condition: &Expr| {
        let is_query = |query: &Subquery| is_inner || !query.outer_ref_columns.is_empty();
        condition.exists(|expr| Ok(query_of(expr).is_some_and(is_query))).unwrap_or(false)
    };
    let all = join.filter.take().map_or_else(Vec::new, split_conjunction_owned);
    let (asked, others): (Vec<Expr>, Vec<Expr>) = all.into_iter().partition(is_asked);
    let mut is_changed = false;
    if let Some(condition) = conjunction(others) {
        let condition = with_unknown(condition, &join.schema)?;
        is_changed = condition.transformed;
        join.filter = Some(condition.data);
    }
    let Some(asked) = conjunction(asked) else {
        return Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_changed));
    };
    if is_inner {
        let rows = Arc::new(LogicalPlan::Join(join));
        return Ok(Transformed::yes(unknown_rows(Filter::try_new(asked, rows)?)?.data));
    }
    let (stays, side) = match join.join_type {
        JoinType::Right => (&join.right, &mut join.left),
        _ => (&join.left, &mut join.right),
    };
    let mut looks = join.join_type == JoinType::Full;
    asked.apply(|expr| {
        let outer = query_of(expr).into_iter().flat_map(|query| &query.outer_ref_columns);
        for expr in outer.chain([expr]) {
            if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = expr {
                looks |= stays.schema().has_column(column);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if looks {
        let what = "a sub-query that looks at the row around it in ON of an outer join, but at the side that may be missing";
        return Err(SqlError::not_supported(what).into());
    }
    *side = Arc::new(unknown_rows(Filter::try_new(asked, Arc::clone(side))?)?.data);
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// The sub-query that an expression is, or has beside a value.
fn query_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(query) => Some(query),
        Expr::InSubquery(list) => Some(&list.subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        _ => None,
    }
}

fn with_unknown(condition: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let conditions = split_conjunction_owned(condition).into_iter().map(|condition| {
        let is_exact = match &condition {
            Expr::InSubquery(list) => {
                let is_correlated = !list.subquery.outer_ref_columns.is_empty();
                list.expr.any_column_refs() && !(list.negated && is_correlated)
            }
            _ => false,
        };
        if is_exact {
            return Ok(condition);
        }
        let done = condition.transform_up(|expr| match expr {
            Expr::InSubquery(list) => found_or_unknown(list, schema, false).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })?;
        changed |= done.transformed;
        Ok(done.data)
    });
    let conditions = conditions.collect::<Result<Vec<_>>>()?;
    let condition = conjunction(conditions).unwrap_or_else(|| lit(true));
    Ok(Transformed::new_transformed(condition, changed))
}

/// IN and EXISTS in what is selected, which DataFusion has no join for: they are counted.
pub(super) fn counted(mut shown: Projection) -> Result<Transformed<Projection>> {
    let (schema, names) = (Arc::clone(shown.input.schema()), NamePreserver::new_for_projection());
    let mut changed = false;
    for item in &mut shown.expr {
        let name = names.save(item);
        let done = std::mem::take(item).transform_up(|expr| match expr {
            Expr::InSubquery(list) => found_or_unknown(list, &schema, true).map(Transformed::yes),
            Expr::Exists(Exists { subquery, negated }) => {
                let found = any_row(subquery, true)?;
                Ok(Transformed::yes(if negated { not(found) } else { found }))
            }
            other => Ok(Transformed::no(other)),
        })?;
        changed |= done.transformed;
        *item = if done.transformed { name.restore(done.data) } else { done.data };
    }
    Ok(Transformed::new_transformed(shown, changed))
}

/// `x IN (SELECT y ...)` as three questions: is x there; if not, is a NULL there; and if x is NULL,
/// is anything there. With `counts` each is answered by a number of rows.
fn found_or_unknown(mut list: InSubquery, schema: &DFSchema, counts: bool) -> Result<Expr> {
    let listed = Expr::Column(Column::from(list.subquery.subquery.schema().qualified_field(0)));
    let among = |condition: Expr, outer: Vec<Expr>| {
        let rows = LogicalPlanBuilder::from(Arc::clone(&list.subquery.subquery));
        let mut found = list.subquery.clone();
        found.subquery = Arc::new(rows.filter(condition)?.build()?);
        found.outer_ref_columns.extend(outer);
        any_row(found, counts)
    };
    let mut unknown = Vec::new();
    if list.subquery.subquery.schema().field(0).is_nullable() {
        unknown.push(among(listed.clone().is_null(), vec![])?);
    }
    if list.expr.nullable(schema)? {
        unknown.push(list.expr.clone().is_null().and(any_row(list.subquery.clone(), counts)?));
    }
    let is_negated = std::mem::replace(&mut list.negated, false);
    let is_correlated = !list.subquery.outer_ref_columns.is_empty();
    let found = if counts || is_correlated || !list.expr.any_column_refs() {
        let mut outer = Vec::new();
        let expr = (*list.expr).clone().transform_up(|expr| match expr {
            Expr::Column(column) => {
                let (_, field) = schema.qualified_field_from_column(&column)?;
                let column = Expr::OuterReferenceColumn(Arc::clone(field), column);
                outer.push(column.clone());
                Ok(Transformed::yes(column))
            }
            other => Ok(Transformed::no(other)),
        })?;
        among(listed.eq(expr.data), outer)?
    } else {
        // DataFusion takes a column without a table for another than the one that it joins.
        let rows = LogicalPlanBuilder::from(Arc::clone(&list.subquery.subquery));
        list.subquery.subquery = Arc::new(rows.alias(LISTED)?.build()?);
        Expr::InSubquery(list)
    };
    let found = match disjunction(unknown) {
        Some(unknown) => found.or(lit(ScalarValue::Boolean(None)).and(unknown)),
        None => found,
    };
    Ok(if is_negated { not(found) } else { found })
}

/// Whether a sub-query finds anything; counted once if it does not depend on the row around it.
fn any_row(query: Subquery, counts: bool) -> Result<Expr> {
    if !counts && !query.outer_ref_columns.is_empty() {
        return Ok(Expr::Exists(Exists::new(query, false)));
    }
    let rows = LogicalPlanBuilder::from(Arc::clone(&query.subquery));
    let counted = rows.aggregate(Vec::<Expr>::new(), [count_all()])?.build()?;
    let counted = Subquery { subquery: Arc::new(counted), ..query };
    Ok(Expr::ScalarSubquery(counted).gt(lit(0_i64)))
}

/// A sub-query that refers to the outer row and wants one row of an order, as Pinboard writes
/// percentiles: `(SELECT r.x FROM request r WHERE r.host = q.host ORDER BY r.x DESC LIMIT n, 1)` is
/// value `n + 1` of its rows.
fn one_row(query: Subquery) -> Result<Subquery> {
    let LogicalPlan::Limit(limit) = &*query.subquery else { return Ok(query) };
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
    while let LogicalPlan::Projection(Projection { input, .. })
    | LogicalPlan::Filter(Filter { input, .. }) = &**below
    {
        below = input;
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
    Ok(Subquery { subquery, ..query })
}

/// Sub-queries next to aggregates see columns that are not grouped as those of the first row of
/// each group.
pub(super) fn beside_aggregates(shown: Projection) -> Result<Transformed<Projection>> {
    let (having, below) = match &*shown.input {
        LogicalPlan::Filter(having) => (Some(having.predicate.clone()), &*having.input),
        below => (None, below),
    };
    let LogicalPlan::Aggregate(groups) = below else { return Ok(Transformed::no(shown)) };
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
        let Expr::ScalarSubquery(mut query) = expr else { return Ok(Transformed::no(expr)) };
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
        return Ok(Transformed::no(shown));
    }
    let groups =
        Aggregate::try_new(Arc::clone(&groups.input), groups.group_expr.clone(), aggregates)?;
    let rows = LogicalPlanBuilder::from(LogicalPlan::Aggregate(groups));
    let rows = match having {
        Some(having) => rows.filter(having)?,
        None => rows,
    };
    Ok(Transformed::yes(Projection::try_new(items, Arc::new(rows.build()?))?))
}
