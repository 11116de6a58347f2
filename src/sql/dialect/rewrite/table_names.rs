//! Tables called like a column of a table nearer by.
//!
//! In `FROM timer value WHERE EXISTS (SELECT 1 FROM timertag WHERE timer_id = value.id)` DataFusion
//! looks for `id` inside the column `value` of `timertag`. Which columns there are is known once
//! that has failed: then the statement is planned again, with other names for its tables.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    TableAlias, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

use crate::sql::error::{IS_COLUMN, SqlError};

/// What makes the name of a table one that no column has.
const SUFFIX: &str = "__table";

/// Whether a query has sub-queries and tables with aliases.
pub(crate) fn may_hide_tables(query: &Query) -> bool {
    let aliases = Aliases::of(query);
    aliases.queries > 1 && !aliases.names.is_empty()
}

/// Whether a statement failed because a column was taken for a table.
pub(crate) fn hides_table(error: &SqlError) -> bool {
    error.message == IS_COLUMN
}

/// Renames tables that have aliases.
pub(crate) fn rename_tables(query: &mut Query) {
    let mut renamer = Renamer(Aliases::of(query).names);
    let _walked = VisitMut::visit(query, &mut renamer);
}

/// The aliases of tables, in lower case.
#[derive(Default)]
struct Aliases {
    names: HashSet<String>,
    queries: usize,
}

impl Aliases {
    fn of(query: &Query) -> Self {
        let mut found = Self::default();
        let _walked = Visit::visit(query, &mut found);
        found
    }
}

impl Visitor for Aliases {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } = table
        {
            self.names.insert(alias.name.value.to_lowercase());
        }
        ControlFlow::Continue(())
    }
}

/// Gives these tables other names.
struct Renamer(HashSet<String>);

impl Renamer {
    fn rename(&self, name: &mut Ident) {
        if self.0.contains(&name.value.to_lowercase()) {
            name.value.push_str(SUFFIX);
        }
    }
}

impl VisitorMut for Renamer {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { alias: Some(TableAlias { name, .. }), .. }
        | TableFactor::Derived { alias: Some(TableAlias { name, .. }), .. } = table
        {
            self.rename(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
                && let [ObjectNamePart::Identifier(table)] = name.0.as_mut_slice()
            {
                self.rename(table);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, _] = parts.as_mut_slice()
        {
            self.rename(table);
        }
        ControlFlow::Continue(())
    }
}
