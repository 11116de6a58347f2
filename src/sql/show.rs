//! The answers to SHOW, DESCRIBE and EXPLAIN.
//!
//! Each is a virtual table built on the spot, with MariaDB's columns
//! (`information_schema/layout.txt`). LIKE filters by the first column; WHERE is a condition over
//! all of them, planned as usual.

use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::sql::sqlparser::ast::{ExprWithAlias, Query};

use super::dialect::context::Context;
use super::dialect::rewrite::rewrite_condition;
use super::dialect::tokens::Items;
use super::engine::Engine;
use super::error::SqlError;
use super::information_schema::describe::{self, ColumnInfo, TableInfo};
use super::information_schema::{self, COLLATION, DATABASE as INFORMATION_SCHEMA, list};
use super::limits::plan_size;
use super::reply::Reply;
use super::session::{Literal, Session};
use super::statement::Show;
use super::tables;
use super::variables;
use super::virtual_table::{Cell, VirtualTable, row};
use crate::query::catalog::Catalog;

impl Engine {
    /// Answers a SHOW.
    pub(super) async fn show(
        &self,
        session: &Session,
        show: Show,
        values: &[Literal],
    ) -> Result<Reply, SqlError> {
        let shown = self.list(session, &show)?;
        let Some(mut condition) = show.condition else { return shown.reply() };
        let columns = shown.answer_columns();
        let table = shown.provider("shown")?;
        let plan = LogicalPlanBuilder::scan("shown", provider_as_source(table), None)?;
        let values = values.to_vec();
        let answer = self.on_own_threads(session, |engine, session| async move {
            let place = engine.place().await?;
            let given = Context::new(&session, &engine.0.settings, Some(&values));
            rewrite_condition(&mut condition, &given)?;
            let condition = ExprWithAlias { expr: condition, alias: None };
            let state = &engine.0.state;
            let filter = state.create_logical_expr_from_sql_expr(condition, plan.schema())?;
            let plan = plan.filter(filter)?.build()?;
            let plan = engine.0.operators.finish(plan)?;
            plan_size::check(&plan)?;
            let plan = engine.physical(&plan).await?;
            engine.start(place, plan, columns).await
        });
        answer.await
    }

    /// The rows of a SHOW, before WHERE.
    pub(super) fn list(&self, session: &Session, show: &Show) -> Result<VirtualTable, SqlError> {
        let catalog = &self.0.catalog;
        let database = show.database.as_ref().or(session.database.as_ref());
        let of_database = || self.database(database.map_or("", String::as_str));
        let mut shown = match (show.list, show.full) {
            ("TABLES", true) => list("FULL TABLES"),
            ("COLUMNS", true) => list("FULL COLUMNS"),
            (name, _) => list(name),
        };
        let rows = match show.list {
            "TABLES" => {
                let database = of_database()?;
                shown.columns[0].0.push_str(&database);
                let kind = match database.as_str() {
                    INFORMATION_SCHEMA => "SYSTEM VIEW",
                    _ => "BASE TABLE",
                };
                let tables = describe::tables(catalog, &database).into_iter();
                let rows = tables.map(|table| match show.full {
                    true => row![table.name, kind],
                    false => row![table.name],
                });
                rows.collect()
            }
            "TABLE STATUS" => table_status(catalog, &of_database()?, show.like.as_deref()),
            "COLUMNS" => {
                let info = described(catalog, &of_database()?, &show.table)?;
                info.columns.into_iter().map(|column| column_row(column, show.full)).collect()
            }
            "INDEX" => describe::index_rows(&described(catalog, &of_database()?, &show.table)?),
            "CREATE TABLE" => {
                let database = of_database()?;
                let info = described(catalog, &database, &show.table)?;
                let statement = info.statement;
                let mut statement = statement.ok_or_else(|| no_table(&database, &show.table))?;
                if session.has_mode("NO_TABLE_OPTIONS")
                    && let Some(end) = statement.rfind("\n) ENGINE=")
                {
                    statement.truncate(end + 2);
                }
                vec![row![info.name, statement]]
            }
            "CREATE DATABASE" => {
                let name = of_database()?;
                let statement = format!(
                    "CREATE DATABASE `{name}` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE {COLLATION} */"
                );
                vec![row![name, statement]]
            }
            "VARIABLES" => {
                let session = (!show.global).then_some(session);
                pairs(variables::all(session, &self.0.settings))
            }
            "STATUS" => {
                let mut all = information_schema::status(catalog);
                let names = ["Ssl_cipher", "Ssl_version"].map(str::to_owned);
                all.extend(names.into_iter().zip(session.tls.clone()));
                all.sort();
                pairs(all)
            }
            "PROCESSLIST" => {
                let doing = row!["Query", 0_i64, "", "SHOW PROCESSLIST", "0.000"];
                vec![[information_schema::connection(session), doing].concat()]
            }
            "GRANTS" => {
                let user = session.user.split('@').next().unwrap_or_default();
                shown.columns[0].0 = format!("Grants for {user}@%");
                let rights = if session.admin { "SELECT, CREATE, DROP" } else { "SELECT" };
                vec![row![format!("GRANT {rights} ON `pinba`.* TO `{user}`@`%`")]]
            }
            "WARNINGS" => {
                let warnings = session.warnings.iter();
                let row = |warning: &String| row!["Warning", WARNING, warning.clone()];
                warnings.map(row).collect()
            }
            "COUNT WARNINGS" if !session.warnings.is_empty() => {
                shown.rows.clear();
                vec![row![session.warnings.len() as i64]]
            }
            "DATABASES" => tables::database_names(catalog).map(|name| row![name]).collect(),
            _ => Vec::new(),
        };
        shown.rows.extend(rows);
        if let Some(pattern) = &show.like {
            shown.keep_like(pattern);
            if matches!(show.list, "TABLES" | "DATABASES") {
                shown.columns[0].0.push_str(&format!(" ({pattern})"));
            }
        }
        Ok(shown)
    }

    /// The plan of a query, one line per row.
    pub(super) async fn explain(
        &self,
        session: &Session,
        query: Box<Query>,
        items: Items,
        values: &[Literal],
    ) -> Result<Reply, SqlError> {
        let values = values.to_vec();
        let plans = self.on_own_threads(session, |engine, session| async move {
            let _place = engine.place().await?;
            let given = Context::new(&session, &engine.0.settings, Some(&values));
            let query = engine.plan(query, &items, given).await?;
            let logical = engine.0.state.optimize(&query.plan)?;
            let physical = engine.physical(&query.plan).await?;
            let physical = datafusion::physical_plan::displayable(physical.as_ref()).indent(false);
            Ok([
                ("logical", logical.display_indent().to_string()),
                ("physical", physical.to_string()),
            ])
        });
        let mut shown = list("PLAN");
        for (kind, lines) in plans.await? {
            let lines = lines.lines().map(|line| row![kind, line]);
            shown.rows.extend(lines);
        }
        shown.reply()
    }
}

/// ER_BAD_FIELD_ERROR, the number of every warning here.
const WARNING: i64 = 1054;

fn pairs(pairs: Vec<(String, String)>) -> Vec<Vec<Cell>> {
    pairs.into_iter().map(|(name, value)| row![name, value]).collect()
}

fn table_status(catalog: &Catalog, database: &str, like: Option<&str>) -> Vec<Vec<Cell>> {
    if database == INFORMATION_SCHEMA {
        return Vec::new();
    }
    // A single table by name, as FederatedX asks with each statement: the others are not looked at.
    let exact = like.filter(|name| !name.contains('%'));
    let one = exact.and_then(|name| describe::table(catalog, database, &name.replace('\\', "")));
    let tables = one.map_or_else(|| describe::tables(catalog, database), |one| vec![one]);
    let rows = tables.into_iter().map(|mut table| {
        // A client that sees 0 or 1 rows may treat the table as a constant.
        table.rows = table.rows.max(2);
        let mut row = describe::listed_row(database, table, 100);
        // Without database and kind.
        row.remove(3);
        row.split_off(2)
    });
    rows.collect()
}

fn described(catalog: &Catalog, database: &str, table: &str) -> Result<TableInfo, SqlError> {
    describe::table(catalog, database, table).ok_or_else(|| no_table(database, table))
}

fn no_table(database: &str, table: &str) -> SqlError {
    SqlError::no_such_table(format!("Table '{database}.{table}' doesn't exist"))
}

fn column_row(column: ColumnInfo, full: bool) -> Vec<Cell> {
    let null = if column.nullable { "YES" } else { "NO" };
    let (collation, default) = (column.length().map(|_| COLLATION), column.default());
    let mut cells = row![column.name, column.column_type];
    if full {
        cells.push(collation.into());
    }
    cells.extend(row![null, column.key, default, ""]);
    if full {
        cells.extend(row!["select", ""]);
    }
    cells
}
