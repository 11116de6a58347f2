//! SHOW, DESCRIBE and EXPLAIN: lists that clients ask for before they ask for data.
//!
//! Each is a small table made on the spot ([`Sheet`]), with the columns that MariaDB 10.11 gives it. LIKE looks at the first column;
//! WHERE is a condition over all of them and is planned like any other.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::MemTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::ExprWithAlias;

use super::dialect::grammar;
use super::dialect::normalise::normalise;
use super::dialect::rewrite::rewrite_condition;
use super::engine::Engine;
use super::error::SqlError;
use super::execute::{Given, database, mode, surroundings, write};
use super::information_schema::describe::{self, ColumnInfo, Listed, TableInfo, TableRow};
use super::information_schema::{
    self, CHARSETS, COLLATION, DATABASE as INFORMATION_SCHEMA, InformationSchema, collation_rows,
    engine_row,
};
use super::reply::{Reply, SqlColumn};
use super::session::Session;
use super::sheet::{Kind, NULL, Sheet, row};
use super::statement::{Show, What};
use super::variables;
use super::weight;
use crate::query::catalog::Catalog;

const TEXT: Kind = Kind::Text(192);
const LONG: Kind = Kind::Text(65_535);
const INT: Kind = Kind::Int;
const UINT: Kind = Kind::UInt;
const TIME: Kind = Kind::Datetime;

impl Engine {
    /// Answers a SHOW.
    pub(super) async fn show(&self, session: &Session, show: &Show) -> Result<Reply, SqlError> {
        let mut sheet = self.sheet(session, show)?;
        if let Some(pattern) = &show.like {
            sheet.keep_like(pattern);
        }
        let columns = sheet.answer_columns();
        let Some(condition) = &show.condition else {
            let batch = sheet.batch(|name| Field::new(name, DataType::Null, true))?;
            return self.ready(batch, columns);
        };
        let batch = sheet.batch(|name| Field::new(name.to_lowercase(), DataType::Null, true))?;
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        let plan = LogicalPlanBuilder::scan("shown", provider_as_source(Arc::new(table)), None)?;
        let (engine, session, condition) = (self.clone(), session.clone(), condition.clone());
        let watch = self.watch();
        let (place, plan) = self
            .on_own_threads(&watch, async move {
                let place = engine.place().await?;
                let filter = engine.condition(&session, &condition, plan.schema())?;
                let plan = engine.operators().finish(plan.filter(filter)?.build()?)?;
                weight::check(&plan)?;
                Ok((place, engine.physical(&plan).await?))
            })
            .await?;
        self.start(place, watch, plan, columns)
    }

    /// The condition of SHOW ... WHERE.
    fn condition(
        &self,
        session: &Session,
        text: &str,
        schema: &datafusion::common::DFSchema,
    ) -> Result<Expr, SqlError> {
        let given = Given::new(session, self.settings(), Some(&[]));
        let normal = normalise(text, mode(session), &given)?;
        let mut condition = grammar::parse_expression(&normal.text)?;
        rewrite_condition(&mut condition, &surroundings(session, self.settings()))?;
        let planned = self.state().create_logical_expr_from_sql_expr(
            ExprWithAlias {
                expr: condition,
                alias: None,
            },
            schema,
        )?;
        Ok(planned)
    }

    /// What a SHOW shows, before LIKE and WHERE.
    pub(super) fn sheet(&self, session: &Session, show: &Show) -> Result<Sheet, SqlError> {
        let catalog = self.catalog();
        let of = |given: &Option<String>| match given.as_ref().or(session.database.as_ref()) {
            Some(name) => database(name),
            None => Err(SqlError {
                code: 1046,
                state: "3D000",
                message: "No database selected".to_owned(),
            }),
        };
        Ok(match &show.what {
            What::Databases => {
                let mut sheet = Sheet::of_texts(&["Database"]);
                sheet.rows = vec![row![INFORMATION_SCHEMA], row!["pinba"]];
                sheet
            }
            What::Tables { database, full } => tables(catalog, &of(database)?, *full),
            What::TableStatus { database } => {
                table_status(catalog, &of(database)?, show.like.as_deref())
            }
            What::Columns {
                database,
                table,
                full,
            } => columns(catalog, &of(database)?, table, *full)?,
            What::Index { database, table } => index(catalog, &of(database)?, table)?,
            What::CreateTable { database, table } => {
                let options = !session.variables.get("sql_mode").is_some_and(|modes| {
                    modes
                        .split(',')
                        .any(|mode| mode.trim().eq_ignore_ascii_case("NO_TABLE_OPTIONS"))
                });
                create_table(catalog, &of(database)?, table, options)?
            }
            What::CreateDatabase(name) => {
                let name = database(name)?;
                let mut sheet = Sheet::of_texts(&["Database", "Create Database"]);
                let statement = format!(
                    "CREATE DATABASE `{name}` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE {COLLATION} */"
                );
                sheet.rows.push(row![name, statement]);
                sheet
            }
            What::Variables { global } => {
                let session = (!global).then_some(session);
                pairs(variables::all(session, self.settings()))
            }
            What::Status => pairs(information_schema::status(catalog)),
            What::Warnings | What::Errors => {
                Sheet::new(&[("Level", TEXT), ("Code", INT), ("Message", TEXT)])
            }
            What::CountWarnings => one("@@session.warning_count"),
            What::CountErrors => one("@@session.error_count"),
            What::Engines => {
                let mut sheet = Sheet::of_texts(&[
                    "Engine",
                    "Support",
                    "Comment",
                    "Transactions",
                    "XA",
                    "Savepoints",
                ]);
                sheet.rows.push(engine_row());
                sheet
            }
            What::Plugins => {
                let mut sheet = Sheet::of_texts(&["Name", "Status", "Type", "Library", "License"]);
                sheet
                    .rows
                    .push(row!["PINBA", "ACTIVE", "STORAGE ENGINE", NULL, "MIT"]);
                sheet
            }
            What::Collation => {
                let mut sheet = Sheet::new(&[
                    ("Collation", TEXT),
                    ("Charset", TEXT),
                    ("Id", INT),
                    ("Default", TEXT),
                    ("Compiled", TEXT),
                    ("Sortlen", INT),
                ]);
                sheet.rows = collation_rows();
                sheet
            }
            What::CharacterSet => {
                let mut sheet = Sheet::new(&[
                    ("Charset", TEXT),
                    ("Description", TEXT),
                    ("Default collation", TEXT),
                    ("Maxlen", INT),
                ]);
                sheet
                    .rows
                    .extend(CHARSETS.map(|(name, collation, about, bytes)| {
                        row![name, about, collation, bytes]
                    }));
                sheet
            }
            What::Processlist => {
                let mut sheet = Sheet::new(&[
                    ("Id", INT),
                    ("User", TEXT),
                    ("Host", TEXT),
                    ("db", TEXT),
                    ("Command", TEXT),
                    ("Time", INT),
                    ("State", TEXT),
                    ("Info", LONG),
                    ("Progress", TEXT),
                ]);
                let (user, host) = session.user.split_once('@').unwrap_or((&session.user, ""));
                let id = i64::try_from(session.id).unwrap_or(i64::MAX);
                sheet.rows.push(row![
                    id,
                    user,
                    host,
                    session.database.clone(),
                    "Query",
                    0_i64,
                    "",
                    "SHOW PROCESSLIST",
                    "0.000",
                ]);
                sheet
            }
            What::Grants => {
                let user = session.user.split('@').next().unwrap_or_default();
                let mut sheet = Sheet::new(&[]);
                sheet.columns.push((format!("Grants for {user}@%"), LONG));
                let rights = if session.admin {
                    "SELECT, CREATE, DROP"
                } else {
                    "SELECT"
                };
                sheet
                    .rows
                    .push(row![format!("GRANT {rights} ON `pinba`.* TO `{user}`@`%`")]);
                sheet
            }
            What::Privileges => {
                let mut sheet = Sheet::of_texts(&["Privilege", "Context", "Comment"]);
                sheet
                    .rows
                    .push(row!["Select", "Tables", "To retrieve rows from table"]);
                sheet
            }
            What::Empty(columns) => Sheet::of_texts(columns),
        })
    }

    /// The plan of a query, a line a row.
    pub(super) async fn explain(&self, session: &Session, text: &str) -> Result<Reply, SqlError> {
        let (engine, session, text) = (self.clone(), session.clone(), text.to_owned());
        let watch = self.watch();
        let plans = self.on_own_threads(&watch, async move {
            let _place = engine.place().await?;
            let written = write(&session, engine.settings(), &text, Some(&[]))?;
            let query = engine.plan(written).await?;
            let logical = engine.state().optimize(&query.plan)?;
            let physical = engine.physical(&query.plan).await?;
            let physical = datafusion::physical_plan::displayable(physical.as_ref()).indent(false);
            Ok([
                ("logical", logical.display_indent().to_string()),
                ("physical", physical.to_string()),
            ])
        });
        let mut sheet = plan_sheet();
        for (kind, lines) in plans.await? {
            sheet
                .rows
                .extend(lines.lines().map(|line| row![kind, line]));
        }
        let batch = sheet.batch(|name| Field::new(name, DataType::Null, true))?;
        self.ready(batch, sheet.answer_columns())
    }
}

/// The columns of EXPLAIN SELECT.
pub(super) fn plan_columns() -> Arc<[SqlColumn]> {
    plan_sheet().answer_columns()
}

fn plan_sheet() -> Sheet {
    Sheet::new(&[("plan", TEXT), ("step", LONG)])
}

fn pairs(pairs: Vec<(String, String)>) -> Sheet {
    let mut sheet = Sheet::new(&[("Variable_name", TEXT), ("Value", Kind::Text(2_048))]);
    sheet.rows = pairs
        .into_iter()
        .map(|(name, value)| row![name, value])
        .collect();
    sheet
}

fn one(name: &str) -> Sheet {
    let mut sheet = Sheet::new(&[(name, INT)]);
    sheet.rows.push(row![0_i64]);
    sheet
}

fn tables(catalog: &Catalog, database: &str, full: bool) -> Sheet {
    let mut sheet = Sheet::new(&[]);
    sheet.columns.push((format!("Tables_in_{database}"), TEXT));
    if full {
        sheet.columns.push(("Table_type".to_owned(), TEXT));
    }
    let (names, kind): (Vec<String>, _) = match database {
        INFORMATION_SCHEMA => (
            InformationSchema::names().map(str::to_owned).collect(),
            "SYSTEM VIEW",
        ),
        _ => {
            let listed = describe::listed(catalog).into_iter();
            (listed.map(|table| table.name).collect(), "BASE TABLE")
        }
    };
    sheet.rows = names
        .into_iter()
        .map(|name| match full {
            true => row![name, kind],
            false => row![name],
        })
        .collect();
    sheet
}

fn table_status(catalog: &Catalog, database: &str, like: Option<&str>) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("Name", TEXT),
        ("Engine", TEXT),
        ("Version", UINT),
        ("Row_format", TEXT),
        ("Rows", UINT),
        ("Avg_row_length", UINT),
        ("Data_length", UINT),
        ("Max_data_length", UINT),
        ("Index_length", UINT),
        ("Data_free", UINT),
        ("Auto_increment", UINT),
        ("Create_time", TIME),
        ("Update_time", TIME),
        ("Check_time", TIME),
        ("Collation", TEXT),
        ("Checksum", UINT),
        ("Create_options", TEXT),
        ("Comment", Kind::Text(2_048)),
        ("Max_index_length", UINT),
        ("Temporary", TEXT),
    ]);
    let listed: Vec<Listed> = match (database, like) {
        (INFORMATION_SCHEMA, _) => Vec::new(),
        // One table by its name, as FederatedX asks with each statement: the others are not looked at.
        (_, Some(name)) if !name.contains('%') => {
            let exact = name.replace('\\', "");
            match describe::one(catalog, &exact) {
                Some(one) => vec![one],
                None => describe::listed(catalog),
            }
        }
        _ => describe::listed(catalog),
    };
    // A client that reads 0 or 1 rows may take the table for a constant.
    sheet.rows = listed
        .into_iter()
        .map(|table| {
            let row = TableRow {
                rows: table.rows.max(2),
                row_bytes: 100,
                ..TableRow::of(table)
            };
            row.cells(None)
        })
        .collect();
    sheet
}

fn no_table(database: &str, table: &str) -> SqlError {
    SqlError::no_such_table(format!("Table '{database}.{table}' doesn't exist"))
}

fn described(catalog: &Catalog, database: &str, table: &str) -> Result<TableInfo, SqlError> {
    let info = match database {
        INFORMATION_SCHEMA => InformationSchema::empty(table).map(|sheet| TableInfo {
            name: table.to_uppercase(),
            columns: sheet
                .columns
                .iter()
                .map(|(name, kind)| describe::of_kind(name, *kind))
                .collect(),
            keys: Vec::new(),
            statement: String::new(),
        }),
        _ => describe::table(catalog, table),
    };
    info.ok_or_else(|| no_table(database, table))
}

fn columns(catalog: &Catalog, database: &str, table: &str, full: bool) -> Result<Sheet, SqlError> {
    let info = described(catalog, database, table)?;
    let mut sheet = match full {
        true => Sheet::of_texts(&[
            "Field",
            "Type",
            "Collation",
            "Null",
            "Key",
            "Default",
            "Extra",
            "Privileges",
            "Comment",
        ]),
        false => Sheet::of_texts(&["Field", "Type", "Null", "Key", "Default", "Extra"]),
    };
    let row = |column: &ColumnInfo| {
        let null = if column.nullable { "YES" } else { "NO" };
        match full {
            true => row![
                column.name.as_str(),
                column.column_type.as_str(),
                column.length.map(|_| COLLATION),
                null,
                column.key,
                column.default.clone(),
                "",
                "select",
                "",
            ],
            false => row![
                column.name.as_str(),
                column.column_type.as_str(),
                null,
                column.key,
                column.default.clone(),
                "",
            ],
        }
    };
    sheet.rows = info.columns.iter().map(row).collect();
    Ok(sheet)
}

fn index(catalog: &Catalog, database: &str, table: &str) -> Result<Sheet, SqlError> {
    let info = described(catalog, database, table)?;
    let mut sheet = Sheet::new(&[
        ("Table", TEXT),
        ("Non_unique", INT),
        ("Key_name", TEXT),
        ("Seq_in_index", INT),
        ("Column_name", TEXT),
        ("Collation", TEXT),
        ("Cardinality", INT),
        ("Sub_part", INT),
        ("Packed", TEXT),
        ("Null", TEXT),
        ("Index_type", TEXT),
        ("Comment", TEXT),
        ("Index_comment", TEXT),
        ("Ignored", TEXT),
    ]);
    sheet.rows = describe::index_rows(&info);
    Ok(sheet)
}

fn create_table(
    catalog: &Catalog,
    database: &str,
    table: &str,
    options: bool,
) -> Result<Sheet, SqlError> {
    let info = match database {
        INFORMATION_SCHEMA => None,
        _ => describe::table(catalog, table),
    };
    let info = info.ok_or_else(|| no_table(database, table))?;
    let mut statement = info.statement;
    if !options && let Some(end) = statement.rfind("\n) ENGINE=") {
        statement.truncate(end + 2);
    }
    let mut sheet = Sheet::new(&[("Table", TEXT), ("Create Table", LONG)]);
    sheet.rows.push(row![info.name, statement]);
    Ok(sheet)
}
