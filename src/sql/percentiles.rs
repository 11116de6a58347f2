//! `p50`, `p90`, `p95` and `p99` of every report, which can be named but are not part of `SELECT
//! *`, like MySQL's invisible columns.
//!
//! A statement is first planned without them, so existing statements keep their meaning. Only if it
//! names one of them and no such column exists, it is planned again, against reports that have
//! them; before that, each `*` is replaced by the visible columns. Runs on the engine's threads;
//! works on sqlparser's tree, before it is rewritten.

use std::collections::HashSet;
use std::convert::Infallible;
use std::iter;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    TableFactor, TableWithJoins, VisitMut, VisitorMut, WildcardAdditionalOptions,
    visit_expressions,
};

use super::dialect::rewrite::{column_name, ident, joins_by_name};
use super::error::SqlError;
use super::tables;
use crate::query::catalog::Catalog;

/// The columns.
const NAMED: [&str; 4] = ["p50", "p90", "p95", "p99"];

/// The percentiles in them.
pub(super) const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Suffix of the name of a table whose percentiles are wanted.
const MARK: char = '\u{1}';

/// Marks the name of a table whose percentiles are wanted.
pub(super) fn marked(table: &str) -> String {
    format!("{table}{MARK}")
}

/// The name without the mark; `None` if it has none.
pub(super) fn unmarked(table: &str) -> Option<&str> {
    table.strip_suffix(MARK)
}

fn is_one(name: &str) -> bool {
    NAMED.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Whether one of them occurs anywhere in a query.
pub(super) fn are_named(query: &Query) -> bool {
    let found = visit_expressions(query, |expr| {
        match column_name(expr).is_some_and(|name| is_one(&name.value)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// Whether a statement failed because there is no column of that name.
pub(super) fn is_lacking(error: &SqlError) -> bool {
    let column = error.message.split('\'').nth(1).unwrap_or_default();
    let name = column.rsplit('.').next().unwrap_or_default();
    error.code == 1054 && is_one(name)
}

/// Expands `*`, so that it does not include them.
pub(super) fn write_out(query: &mut Query, catalog: &Catalog, database: Option<&str>) {
    let mut stars = Stars { catalog, database, local: HashSet::new() };
    // The visitor never breaks off.
    let _done: ControlFlow<Infallible> = VisitMut::visit(query, &mut stars);
}

/// A table of a SELECT.
struct Table {
    /// The statement's name for it.
    name: String,
    /// Its columns, if they have to be expanded.
    columns: Option<Vec<String>>,
}

struct Stars<'a> {
    catalog: &'a Catalog,
    database: Option<&'a str>,
    /// Names defined by WITH.
    local: HashSet<String>,
}

impl VisitorMut for Stars<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        let named = named.map(|table| table.alias.name.value.to_lowercase());
        self.local.extend(named);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let Some(tables) = self.tables(&select.from) else {
            return ControlFlow::Continue(());
        };
        // There, `*` is written out later, with the columns that are always visible.
        let is_by_name = joins_by_name(&select.from);
        let mut items = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            match &item {
                SelectItem::Wildcard(_) if !is_by_name => {
                    tables.iter().for_each(|table| all(table, &mut items));
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let last = name.0.last().and_then(ObjectNamePart::as_ident);
                    let last = last.map(|last| last.value.to_lowercase());
                    let mut named = tables.iter();
                    match named.find(|table| Some(&table.name) == last.as_ref()) {
                        Some(table) => all(table, &mut items),
                        None => items.push(item),
                    }
                }
                _ => items.push(item),
            }
        }
        select.projection = items;
        ControlFlow::Continue(())
    }
}

impl Stars<'_> {
    /// The tables of a FROM; `None` if there is a join in parentheses.
    fn tables(&self, from: &[TableWithJoins]) -> Option<Vec<Table>> {
        let mut all = Vec::new();
        for TableWithJoins { relation, joins } in from {
            for table in iter::once(relation).chain(joins.iter().map(|join| &join.relation)) {
                all.push(self.table(table)?);
            }
        }
        Some(all)
    }

    fn table(&self, table: &TableFactor) -> Option<Table> {
        let (name, columns) = match table {
            TableFactor::Table { name, alias, .. } => {
                let mut parts = name.0.iter().rev().filter_map(ObjectNamePart::as_ident);
                let own = parts.next()?.value.as_str();
                let database = parts.next().map(|part| part.value.as_str());
                let is_local = database.is_none() && self.local.contains(&own.to_lowercase());
                let called = alias.as_ref().map_or(own, |alias| alias.name.value.as_str());
                let database = database.or(self.database);
                let is_ours = database.is_some_and(|it| it.eq_ignore_ascii_case("pinba"));
                let columns = || {
                    let own = tables::own_name(self.catalog, own)?;
                    let (columns, _) = self.catalog.columns_of(&own)?;
                    Some(columns.into_iter().map(|column| column.name).collect())
                };
                let columns = (is_ours && !is_local).then(columns).flatten();
                (called, columns)
            }
            TableFactor::Derived { alias, .. } => (alias.as_ref()?.name.value.as_str(), None),
            _ => return None,
        };
        Some(Table { name: name.to_lowercase(), columns })
    }
}

/// Adds the columns of a table to the items of a SELECT.
fn all(table: &Table, items: &mut Vec<SelectItem>) {
    let name = ident(table.name.as_str());
    match &table.columns {
        Some(columns) => {
            for column in columns {
                let parts = vec![name.clone(), ident(column.as_str())];
                items.push(SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)));
            }
        }
        None => items.push(SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![name])),
            WildcardAdditionalOptions::default(),
        )),
    }
}
