//! What needs the columns of the tables: joins by their names, `*` beside other items, and a name
//! in GROUP BY that is an alias, too.
//!
//! In MySQL the one column that USING and NATURAL make of two is that of the side whose rows all
//! stay, and `*` begins with it. DataFusion takes that of the table whose name sorts first. So,
//! before a statement is rewritten, these joins become joins by ON, and the column is named with
//! its table. A name that stays without a table is ambiguous, which is an error and never another
//! column. `*` is written out over such a join, over groups, and beside an alias, which may be the
//! name of a column. A name in GROUP BY, and then in HAVING, is a column if there is one.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::slice;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectNamePart, OrderBy,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAlias, TableFactor, TableWithJoins, Value, Visit, VisitMut, Visitor, VisitorMut,
};

use super::aggregates::is_aggregate_call;
use super::aliases::aliased;
use super::build::{all, binary};
use super::names::{ColumnNames, is_star, name_items, without_dual};
use super::select::COLUMNS_MAX;
use super::{group_expressions, ident};
use crate::config::suggest;
use crate::sql::dialect::tokens::Items;
use crate::sql::error::SqlError;

/// The names of a table's columns, by database and table; `None` if there is no such table.
pub(crate) type ColumnsOf<'a> = dyn Fn(&str, &str) -> Option<Vec<String>> + 'a;

/// The names of the columns of a query; `None` if they are not known.
type Known = Option<Vec<String>>;

/// Writes out what needs the columns of a query's tables; with `all_stars` each `*`. Returns the
/// names of the columns that it named.
///
/// # Errors
/// Fails if a column that is compared is not on both sides, or is not known.
pub(crate) fn write_out(
    query: &mut Query,
    items: &Items,
    database: Option<&str>,
    columns_of: &ColumnsOf<'_>,
    all_stars: bool,
) -> Result<ColumnNames, SqlError> {
    let needs_columns = |select: &Select| has_star(select, all_stars) || groups_by_alias(select);
    if !any_select(query, needs_columns) {
        return Ok(ColumnNames::new());
    }
    let (with, names) = (Vec::new(), ColumnNames::new());
    let mut writer = ColumnWriter { items, database, columns_of, with, names, is_lacking: false };
    writer.query(query, None)?;
    // Without one of its tables it cannot be planned.
    if !writer.is_lacking && any_select(query, |select| joins_by_name(&select.from)) {
        return Err(SqlError::not_supported(
            "USING and NATURAL beside a table whose columns have no names yet; use ON, or name them: `x (a, b)`",
        ));
    }
    Ok(writer.names)
}

/// Whether a FROM joins by names; sub-queries in it do not count.
fn joins_by_name(from: &[TableWithJoins]) -> bool {
    let within = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, .. } => {
            joins_by_name(slice::from_ref(&**table_with_joins))
        }
        _ => false,
    };
    from.iter().any(|TableWithJoins { relation, joins }| {
        let is_one = |join: &Join| {
            matches!(join.join_operator, on!(JoinConstraint::Using(_) | JoinConstraint::Natural))
        };
        within(relation) || joins.iter().any(|join| is_one(join) || within(&join.relation))
    })
}

/// Whether the `*` of a SELECT has to be written out, if there is one.
fn has_star(select: &Select, all_stars: bool) -> bool {
    let is_grouped = !group_expressions(&select.group_by).is_empty();
    let mut named = select.projection.iter().filter_map(aliased);
    let needs_names = all_stars || is_grouped || named.next().is_some();
    joins_by_name(&select.from) || needs_names && select.projection.iter().any(is_star)
}

/// Whether GROUP BY names an alias of its SELECT, which may be the name of a column, too.
fn groups_by_alias(select: &Select) -> bool {
    let is_alias = |group: &Expr| {
        let Expr::Identifier(name) = group else { return false };
        let mut items = select.projection.iter().filter_map(aliased);
        items.any(|(alias, _)| alias.value.eq_ignore_ascii_case(&name.value))
    };
    group_expressions(&select.group_by).iter().any(is_alias)
}

/// Whether there is such a SELECT anywhere in a query.
fn any_select(query: &Query, is_found: impl Fn(&Select) -> bool) -> bool {
    struct Finds<F>(F);
    impl<F: Fn(&Select) -> bool> Visitor for Finds<F> {
        type Break = ();

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            match (self.0)(select) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    Visit::visit(query, &mut Finds(is_found)).is_break()
}

/// A column of a FROM.
struct Column {
    table: Ident,
    /// As it is shown.
    name: String,
    /// Whether a join made it of two.
    is_common: bool,
}

impl Column {
    fn named(&self) -> Expr {
        Expr::CompoundIdentifier(vec![self.table.clone(), ident(self.name.as_str())])
    }
}

/// The tables of a FROM, or some of them.
#[derive(Default)]
struct Tables {
    /// The columns of `*`, in its order.
    shown: Vec<Column>,
    /// All columns of each table.
    each: Vec<(Ident, Vec<String>)>,
}

impl Tables {
    /// Puts others after these.
    fn and(mut self, others: Self) -> Result<Self, SqlError> {
        self.shown.extend(others.shown);
        self.each.extend(others.each);
        match self.shown.len() {
            ..=COLUMNS_MAX => Ok(self),
            columns => Err(SqlError::parse(format!(
                "the statement joins tables of {columns} columns, at most {COLUMNS_MAX} are accepted"
            ))),
        }
    }

    fn of_name<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Column> {
        self.shown.iter().filter(move |column| column.name.eq_ignore_ascii_case(name))
    }

    /// The one column of a name.
    fn one(&self, name: &str) -> Result<&Column, SqlError> {
        let mut all = self.of_name(name);
        match (all.next(), all.next()) {
            (Some(column), None) => Ok(column),
            (Some(_), Some(_)) => {
                Err(SqlError::ambiguous_column(format!("Column '{name}' is ambiguous")))
            }
            (None, _) => {
                let known = self.shown.iter().map(|column| column.name.as_str());
                let question = suggest::question(name, known);
                Err(SqlError::no_such_column(format!("Unknown column '{name}'{question}")))
            }
        }
    }

    /// The one column of a name with its table, if there is one.
    fn named(&self, name: &str) -> Option<Expr> {
        let mut all = self.of_name(name);
        all.next().filter(|_| all.next().is_none()).map(Column::named)
    }

    /// What a name without a table stands for, where joins made one column of two.
    fn common(&self) -> HashMap<String, Expr> {
        let common = self.shown.iter().filter(|column| column.is_common);
        let named = |column: &Column| Some((column.name.to_lowercase(), self.named(&column.name)?));
        common.filter_map(named).collect()
    }

    /// The columns of `*` or `table.*`; `None` for another item, or an unknown table.
    fn behind(&self, item: &SelectItem) -> Option<Vec<Expr>> {
        match item {
            SelectItem::Wildcard(_) => Some(self.shown.iter().map(Column::named).collect()),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let own = name.0.last()?.as_ident()?.value.to_lowercase();
                let (table, names) = self.each.iter().find(|(table, _)| table.value == own)?;
                let named = |name: &String| {
                    Expr::CompoundIdentifier(vec![table.clone(), ident(name.as_str())])
                };
                Some(names.iter().map(named).collect())
            }
            _ => None,
        }
    }
}

/// Names that the alias of a table gives its columns.
fn renamed(alias: &TableAlias) -> Known {
    let names = alias.columns.iter().map(|column| column.name.value.to_lowercase());
    (!alias.columns.is_empty()).then(|| names.collect())
}

/// Writes out names as it walks down a query.
struct ColumnWriter<'a> {
    items: &'a Items,
    database: Option<&'a str>,
    columns_of: &'a ColumnsOf<'a>,
    /// The names of WITH that can be used, the innermost last, and their columns.
    with: Vec<(String, Known)>,
    names: ColumnNames,
    /// Whether there is no such table as one that was named.
    is_lacking: bool,
}

impl ColumnWriter<'_> {
    /// Rewrites a query, and returns the names of its columns; `recursive` is the place of its own
    /// name in `with` if it can use that.
    fn query(&mut self, query: &mut Query, recursive: Option<usize>) -> Result<Known, SqlError> {
        let outer = self.with.len();
        if let Some(with) = &mut query.with {
            for table in &mut with.cte_tables {
                let (name, renamed) =
                    (table.alias.name.value.to_lowercase(), renamed(&table.alias));
                let at = self.with.len();
                if with.recursive {
                    self.with.push((name.clone(), renamed.clone()));
                }
                let own = self.query(&mut table.query, with.recursive.then_some(at))?;
                self.with.truncate(at);
                self.with.push((name, renamed.or(own)));
            }
        }
        let orders = match &mut query.order_by {
            Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) => orders.as_mut_slice(),
            _ => &mut [],
        };
        let known = self.body(&mut query.body, orders, recursive)?;
        self.with.truncate(outer);
        Ok(known)
    }

    fn body(
        &mut self,
        body: &mut SetExpr,
        orders: &mut [OrderByExpr],
        recursive: Option<usize>,
    ) -> Result<Known, SqlError> {
        match body {
            SetExpr::Select(select) => self.select(select, orders),
            SetExpr::SetOperation { left, right, .. } => {
                let known = self.body(left, &mut [], recursive)?;
                if let Some((_, own @ None)) = recursive.and_then(|at| self.with.get_mut(at)) {
                    own.clone_from(&known);
                }
                self.body(right, &mut [], None)?;
                Ok(known)
            }
            SetExpr::Query(query) => self.query(query, recursive),
            _ => Ok(None),
        }
    }

    fn select(
        &mut self,
        select: &mut Select,
        orders: &mut [OrderByExpr],
    ) -> Result<Known, SqlError> {
        without_dual(select);
        let groups_by_alias = groups_by_alias(select);
        name_items(select, self.items, &mut self.names);
        let mut tables = Some(Tables::default());
        for from in &mut select.from {
            let more = self.tables(from)?;
            tables = tables.zip(more).map(|(before, more)| before.and(more)).transpose()?;
        }
        let common = tables.as_ref().map_or_else(HashMap::new, Tables::common);
        let aliases = select.projection.iter().filter_map(aliased);
        let aliases: Vec<String> = aliases.map(|(alias, _)| alias.value.to_lowercase()).collect();
        let name_of = |expr: &Expr| match expr {
            Expr::Identifier(name) => Some(name.value.to_lowercase()),
            _ => None,
        };
        let is_alias = |expr: &Expr| name_of(expr).is_some_and(|name| aliases.contains(&name));
        // In HAVING an alias goes before a column, unless that is grouped by.
        let groups = group_expressions(&select.group_by).iter();
        let groups: Vec<String> = groups.filter_map(name_of).collect();
        let not_grouped: Vec<String> =
            aliases.iter().filter(|alias| !groups.contains(alias)).cloned().collect();
        let mut grouped = common.clone();
        if let Some(tables) = tables.as_ref().filter(|_| groups_by_alias) {
            let groups = groups.into_iter().filter(|name| aliases.contains(name));
            grouped
                .extend(groups.filter_map(|name| tables.named(&name).map(|column| (name, column))));
        }
        self.rename(&mut select.projection, &common, &[])?;
        self.rename(&mut select.selection, &common, &[])?;
        self.rename(&mut select.group_by, &grouped, &[])?;
        self.rename(&mut select.having, &grouped, &not_grouped)?;
        self.rename(&mut select.named_window, &common, &[])?;
        for order in orders.iter_mut().filter(|order| !is_alias(&order.expr)) {
            self.rename(&mut order.expr, &common, &[])?;
        }
        if let Some(tables) = tables.filter(|_| select.projection.iter().any(is_star)) {
            for item in std::mem::take(&mut select.projection) {
                match tables.behind(&item) {
                    Some(columns) => {
                        let columns = columns.into_iter().map(SelectItem::UnnamedExpr);
                        select.projection.extend(columns);
                    }
                    None => select.projection.push(item),
                }
            }
            name_items(select, &Items::new(), &mut self.names);
        }
        let names = select.projection.iter().map(|item| Some(aliased(item)?.0.value.clone()));
        Ok(names.collect())
    }

    /// Rewrites joined tables; `None` if the columns of one are not known.
    fn tables(&mut self, tables: &mut TableWithJoins) -> Result<Option<Tables>, SqlError> {
        let mut left = self.table(&mut tables.relation)?;
        for join in &mut tables.joins {
            let right = self.table(&mut join.relation)?;
            left = match (left, right) {
                (Some(left), Some(right)) => {
                    Some(self.joined(left, right, &mut join.join_operator)?)
                }
                _ => {
                    self.rename(&mut join.join_operator, &HashMap::new(), &[])?;
                    None
                }
            };
        }
        Ok(left)
    }

    fn table(&mut self, table: &mut TableFactor) -> Result<Option<Tables>, SqlError> {
        let (alias, own, known) = match table {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                return self.tables(table_with_joins);
            }
            TableFactor::Table { name, alias, .. } => {
                let mut parts = name.0.iter().rev().filter_map(ObjectNamePart::as_ident);
                let Some(own) = parts.next() else { return Ok(None) };
                let database = parts.next().map(|database| database.value.as_str());
                let lower = own.value.to_lowercase();
                let of_with = self.with.iter().rev().find(|(name, _)| *name == lower);
                let known = match of_with.filter(|_| database.is_none()) {
                    Some((_, known)) => known.clone(),
                    None => {
                        let database = database.or(self.database).map(str::to_lowercase);
                        let columns = database.and_then(|it| (self.columns_of)(&it, &own.value));
                        self.is_lacking |= columns.is_none();
                        columns
                    }
                };
                (alias, Some(lower), known)
            }
            TableFactor::Derived { subquery, alias, .. } => {
                (alias, None, self.query(subquery, None)?)
            }
            _ => return Ok(None),
        };
        let own = alias.as_ref().map(|alias| alias.name.value.to_lowercase()).or(own);
        let known = alias.as_ref().and_then(renamed).or(known);
        let (Some(own), Some(names)) = (own, known) else { return Ok(None) };
        let table = ident(own);
        let column =
            |name: &String| Column { table: table.clone(), name: name.clone(), is_common: false };
        let shown = names.iter().map(column).collect();
        Ok(Some(Tables { shown, each: vec![(table, names)] }))
    }

    /// Rewrites a join to one by ON, and returns the tables of both sides.
    fn joined(
        &mut self,
        left: Tables,
        right: Tables,
        join: &mut JoinOperator,
    ) -> Result<Tables, SqlError> {
        let is_right = matches!(join, JoinOperator::Right(_) | JoinOperator::RightOuter(_));
        let is_full = matches!(join, JoinOperator::FullOuter(_));
        let on!(constraint) = join else { return left.and(right) };
        let common: Vec<String> = match constraint {
            JoinConstraint::Using(columns) => {
                let names = columns.iter().filter_map(|column| column.0.last()?.as_ident());
                names.map(|name| name.value.to_lowercase()).collect()
            }
            JoinConstraint::Natural => {
                let names = left.shown.iter().map(|column| &column.name);
                names.filter(|name| right.of_name(name).next().is_some()).cloned().collect()
            }
            JoinConstraint::On(condition) => {
                let both = left.and(right)?;
                self.rename(condition, &both.common(), &[])?;
                return Ok(both);
            }
            JoinConstraint::None => return left.and(right),
        };
        if is_full {
            return Err(SqlError::not_supported("FULL JOIN with USING or NATURAL; use ON"));
        }
        let equal = common.iter().map(|name| {
            let (left, right) = (left.one(name)?.named(), right.one(name)?.named());
            Ok(binary(left, BinaryOperator::Eq, right))
        });
        let condition = all(equal.collect::<Result<Vec<_>, SqlError>>()?);
        let condition = condition.unwrap_or_else(|| Expr::Value(Value::Boolean(true).into()));
        *constraint = JoinConstraint::On(condition);
        let (mut first, mut second) = match is_right {
            true => (right, left),
            false => (left, right),
        };
        let is_common =
            |column: &Column| common.iter().any(|name| column.name.eq_ignore_ascii_case(name));
        let (mut shown, rest): (Vec<_>, Vec<_>) = first.shown.into_iter().partition(is_common);
        shown.iter_mut().for_each(|column| column.is_common = true);
        shown.extend(rest);
        first.shown = shown;
        second.shown.retain(|column| !is_common(column));
        first.and(second)
    }

    /// Names the table of each column that a join made of two, and rewrites sub-queries. Names that
    /// are `kept` stay outside of aggregates.
    fn rename(
        &mut self,
        within: &mut impl VisitMut,
        common: &HashMap<String, Expr>,
        kept: &[String],
    ) -> Result<(), SqlError> {
        let mut renames = Renames { writer: self, common, kept, queries: 0, aggregates: 0 };
        VisitMut::visit(within, &mut renames).break_value().map_or(Ok(()), Err)
    }
}

struct Renames<'a, 'j> {
    writer: &'a mut ColumnWriter<'j>,
    common: &'a HashMap<String, Expr>,
    kept: &'a [String],
    /// Nesting depth of sub-queries.
    queries: usize,
    /// Nesting depth of aggregates.
    aggregates: usize,
}

impl VisitorMut for Renames<'_, '_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if self.queries == 0
            && let Err(error) = self.writer.query(query, None)
        {
            return ControlFlow::Break(error);
        }
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<SqlError> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        self.aggregates += usize::from(is_aggregate_call(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        self.aggregates -= usize::from(is_aggregate_call(expr));
        if self.queries == 0
            && let Expr::Identifier(name) = expr
        {
            let name = name.value.to_lowercase();
            let is_kept = self.aggregates == 0 && self.kept.contains(&name);
            if let Some(column) = self.common.get(&name).filter(|_| !is_kept) {
                *expr = column.clone();
            }
        }
        ControlFlow::Continue(())
    }
}
