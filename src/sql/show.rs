//! The answers to SHOW, DESCRIBE and EXPLAIN.
//!
//! Each is a virtual table built on the spot, with MariaDB's columns (`information_schema/layout.txt`). LIKE filters by the first
//! column; WHERE is a condition over all of them and is planned like any other.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::MemTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::sql::sqlparser::ast::{Expr, ExprWithAlias, Query};

use super::dialect::context::Context;
use super::dialect::rewrite::rewrite_condition;
use super::dialect::tokens::Items;
use super::engine::Engine;
use super::error::{NO_DATABASE, SqlError};
use super::execute::{database, rewrite_query};
use super::information_schema::describe::{self, ColumnInfo, TableInfo, TableRow};
use super::information_schema::layout::list;
use super::information_schema::{
    self, CHARSETS, COLLATION, DATABASE as INFORMATION_SCHEMA, collation_rows, engine_row,
};
use super::plan_size;
use super::reply::{Reply, SqlColumn};
use super::session::Session;
use super::statement::Show;
use super::variables;
use super::virtual_table::{Cell, NULL, Sheet, row};
use crate::query::catalog::Catalog;

type Rows = Vec<Vec<Cell>>;

impl Engine {
    /// Answers a SHOW.
    pub(super) async fn show(&self, session: &Session, show: Show) -> Result<Reply, SqlError> {
        let mut sheet = self.sheet(session, &show)?;
        if let Some(pattern) = &show.like {
            sheet.keep_like(pattern);
        }
        let columns = sheet.answer_columns();
        let Some(condition) = show.condition else {
            let batch = sheet.batch(|name| Field::new(name, DataType::Null, true))?;
            return self.ready(batch, columns);
        };
        let batch = sheet.batch(|name| Field::new(name.to_lowercase(), DataType::Null, true))?;
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        let plan = LogicalPlanBuilder::scan("shown", provider_as_source(Arc::new(table)), None)?;
        let (engine, session) = (self.clone(), session.clone());
        let watch = self.guard(&session);
        let (place, plan) = self
            .on_own_threads(&watch, async move {
                let place = engine.place().await?;
                let filter = engine.condition(&session, condition, plan.schema())?;
                let plan = engine.operators().finish(plan.filter(filter)?.build()?)?;
                plan_size::check(&plan)?;
                Ok((place, engine.physical(&plan).await?))
            })
            .await?;
        self.start(place, watch, plan, columns)
    }

    /// The condition of SHOW ... WHERE.
    fn condition(
        &self,
        session: &Session,
        mut condition: Expr,
        schema: &datafusion::common::DFSchema,
    ) -> Result<datafusion::logical_expr::Expr, SqlError> {
        let given = Context::new(session, self.settings(), Some(&[]));
        rewrite_condition(&mut condition, &given)?;
        let condition = ExprWithAlias {
            expr: condition,
            alias: None,
        };
        let planned = self.state();
        Ok(planned.create_logical_expr_from_sql_expr(condition, schema)?)
    }

    /// What a SHOW shows, before LIKE and WHERE.
    pub(super) fn sheet(&self, session: &Session, show: &Show) -> Result<Sheet, SqlError> {
        let catalog = self.catalog();
        let of_database = || match show.database.as_ref().or(session.database.as_ref()) {
            Some(name) => database(name),
            None => Err(SqlError::no_database(NO_DATABASE)),
        };
        let mut sheet = match (show.list, show.full) {
            ("TABLES", true) => list("FULL TABLES"),
            ("COLUMNS", true) => list("FULL COLUMNS"),
            (name, _) => list(name),
        };
        sheet.rows = match show.list {
            "DATABASES" => vec![row![INFORMATION_SCHEMA], row!["pinba"]],
            "TABLES" => {
                let database = of_database()?;
                sheet.columns[0].0.push_str(&database);
                tables(catalog, &database, show.full)
            }
            "TABLE STATUS" => table_status(catalog, &of_database()?, show.like.as_deref()),
            "COLUMNS" => {
                let info = described(catalog, &of_database()?, &show.table)?;
                let columns = info.columns.into_iter();
                columns
                    .map(|column| column_row(column, show.full))
                    .collect()
            }
            "INDEX" => describe::index_rows(&described(catalog, &of_database()?, &show.table)?),
            "CREATE TABLE" => {
                let database = of_database()?;
                let info = described(catalog, &database, &show.table)?;
                if info.statement.is_empty() {
                    return Err(no_table(&database, &show.table));
                }
                vec![create_table(info, !session.has_mode("NO_TABLE_OPTIONS"))]
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
                pairs(variables::all(session, self.settings()))
            }
            "STATUS" => pairs(information_schema::status(catalog)),
            "COUNT WARNINGS" | "COUNT ERRORS" => vec![row![0_i64]],
            "ENGINES" => vec![engine_row()],
            "PLUGINS" => vec![row!["PINBA", "ACTIVE", "STORAGE ENGINE", NULL, "MIT"]],
            "COLLATION" => collation_rows(),
            "CHARACTER SET" => {
                let rows = CHARSETS
                    .map(|(name, collation, about, bytes)| row![name, about, collation, bytes]);
                rows.into()
            }
            "PROCESSLIST" => {
                let (user, host) = session.user.split_once('@').unwrap_or((&session.user, ""));
                let id = i64::try_from(session.id).unwrap_or(i64::MAX);
                let database = session.database.clone();
                let statement = "SHOW PROCESSLIST";
                vec![row![
                    id, user, host, database, "Query", 0_i64, "", statement, "0.000"
                ]]
            }
            "GRANTS" => {
                let user = session.user.split('@').next().unwrap_or_default();
                sheet.columns[0].0 = format!("Grants for {user}@%");
                let rights = if session.admin {
                    "SELECT, CREATE, DROP"
                } else {
                    "SELECT"
                };
                vec![row![format!("GRANT {rights} ON `pinba`.* TO `{user}`@`%`")]]
            }
            "PRIVILEGES" => vec![row!["Select", "Tables", "To retrieve rows from table"]],
            _ => Vec::new(),
        };
        Ok(sheet)
    }

    /// The plan of a query, a line a row.
    pub(super) async fn explain(
        &self,
        session: &Session,
        query: Box<Query>,
        items: Items,
    ) -> Result<Reply, SqlError> {
        let (engine, session) = (self.clone(), session.clone());
        let watch = self.guard(&session);
        let plans = self.on_own_threads(&watch, async move {
            let _place = engine.place().await?;
            let given = Context::new(&session, engine.settings(), Some(&[]));
            let query = engine.plan(rewrite_query(query, &items, &given)?).await?;
            let logical = engine.state().optimize(&query.plan)?;
            let physical = engine.physical(&query.plan).await?;
            let physical = datafusion::physical_plan::displayable(physical.as_ref()).indent(false);
            Ok([
                ("logical", logical.display_indent().to_string()),
                ("physical", physical.to_string()),
            ])
        });
        let mut sheet = list("PLAN");
        for (kind, lines) in plans.await? {
            let lines = lines.lines().map(|line| row![kind, line]);
            sheet.rows.extend(lines);
        }
        let batch = sheet.batch(|name| Field::new(name, DataType::Null, true))?;
        self.ready(batch, sheet.answer_columns())
    }
}

/// The columns of EXPLAIN SELECT.
pub(super) fn plan_columns() -> Arc<[SqlColumn]> {
    list("PLAN").answer_columns()
}

fn pairs(pairs: Vec<(String, String)>) -> Rows {
    let pairs = pairs.into_iter();
    pairs.map(|(name, value)| row![name, value]).collect()
}

fn tables(catalog: &Catalog, database: &str, full: bool) -> Rows {
    let (names, kind): (Vec<String>, _) = match database {
        INFORMATION_SCHEMA => {
            let names = information_schema::layout::tables();
            (names.map(str::to_owned).collect(), "SYSTEM VIEW")
        }
        _ => {
            let listed = describe::listed(catalog).into_iter();
            (listed.map(|table| table.name).collect(), "BASE TABLE")
        }
    };
    let row = |name: String| match full {
        true => row![name, kind],
        false => row![name],
    };
    names.into_iter().map(row).collect()
}

fn table_status(catalog: &Catalog, database: &str, like: Option<&str>) -> Rows {
    // One table by its name, as FederatedX asks with each statement: the others are not looked at.
    let exact = like.filter(|name| !name.contains('%'));
    let one = exact.and_then(|name| describe::one(catalog, &name.replace('\\', "")));
    let listed = match (database, one) {
        (INFORMATION_SCHEMA, _) => Vec::new(),
        (_, Some(one)) => vec![one],
        _ => describe::listed(catalog),
    };
    // A client that reads 0 or 1 rows may take the table for a constant.
    let listed = listed.into_iter().map(|table| TableRow {
        rows: table.rows.max(2),
        row_bytes: 100,
        ..TableRow::of(table)
    });
    listed.map(|row| row.cells(None)).collect()
}

fn described(catalog: &Catalog, database: &str, table: &str) -> Result<TableInfo, SqlError> {
    let info = match database {
        INFORMATION_SCHEMA => describe::view(table),
        _ => describe::table(catalog, table),
    };
    info.ok_or_else(|| no_table(database, table))
}

fn no_table(database: &str, table: &str) -> SqlError {
    SqlError::no_such_table(format!("Table '{database}.{table}' doesn't exist"))
}

fn column_row(column: ColumnInfo, full: bool) -> Vec<Cell> {
    let null = if column.nullable { "YES" } else { "NO" };
    let collation = column.length.map(|_| COLLATION);
    let mut cells = row![column.name, column.column_type];
    if full {
        cells.push(collation.into());
    }
    cells.extend(row![null, column.key, column.default, ""]);
    if full {
        cells.extend(row!["select", ""]);
    }
    cells
}

fn create_table(info: TableInfo, options: bool) -> Vec<Cell> {
    let mut statement = info.statement;
    if !options && let Some(end) = statement.rfind("\n) ENGINE=") {
        statement.truncate(end + 2);
    }
    row![info.name, statement]
}
