//! The answer to a statement: rows as they are produced, or a confirmation.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use tokio::sync::mpsc;

use super::cancellation::StatementGuard;
use super::error::SqlError;
use crate::instruments::Active;
use crate::query::catalog::Catalog;

/// The answer to one statement.
#[derive(Debug)]
pub enum Reply {
    /// Rows.
    Rows(Rows),
    /// Done, without rows.
    Done,
}

impl Reply {
    /// Reads rows to their end and discards them.
    pub(super) async fn discard(self) -> Result<(), SqlError> {
        if let Self::Rows(mut rows) = self {
            while let Some(batch) = rows.next().await {
                batch?;
            }
        }
        Ok(())
    }
}

/// The type of a column of an answer, in MySQL's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlType {
    /// `bigint`.
    BigInt,
    /// `bigint unsigned`.
    BigIntUnsigned,
    /// `int`.
    Int,
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// `decimal(digits, scale)`.
    Decimal(u8, u8),
    /// `varchar(characters)`.
    Varchar(u32),
    /// `text`.
    Text,
    /// `datetime(digits)`.
    Datetime(u8),
    /// `date`.
    Date,
    /// NULL in every row.
    Null,
}

impl SqlType {
    /// Parses a type in MySQL's notation; of integers, texts and datetimes those that tables have.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bigint" | "bigint(20)" => Self::BigInt,
            unsigned if unsigned.ends_with("unsigned") => Self::BigIntUnsigned,
            "int" | "int(11)" => Self::Int,
            "float" => Self::Float,
            "double" => Self::Double,
            "text" | "longtext" => Self::Text,
            "datetime" | "timestamp" => Self::Datetime(0),
            choice if choice.starts_with("enum(") => Self::Varchar(16),
            _ => {
                let length = name.strip_prefix("varchar(")?.strip_suffix(')')?;
                Self::Varchar(length.parse().ok()?)
            }
        })
    }

    /// The Arrow type of a table's column.
    pub(super) const fn kept(self) -> DataType {
        match self {
            Self::BigInt | Self::Int => DataType::Int64,
            Self::BigIntUnsigned => DataType::UInt64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Datetime(_) => DataType::Timestamp(TimeUnit::Second, None),
            _ => DataType::Utf8View,
        }
    }
}

impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BigInt => "bigint",
            Self::BigIntUnsigned => "bigint unsigned",
            Self::Int => "int",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal(digits, scale) => return write!(f, "decimal({digits},{scale})"),
            Self::Varchar(length) => return write!(f, "varchar({length})"),
            Self::Text => "text",
            Self::Datetime(0) => "datetime",
            Self::Datetime(digits) => return write!(f, "datetime({digits})"),
            Self::Date => "date",
            Self::Null => "null",
        })
    }
}

/// One column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlColumn {
    /// Its name in the statement.
    pub name: String,
    /// The column of a table that it shows unchanged, if any: table and column, both by their own
    /// names.
    pub origin: Option<(String, String)>,
    /// The statement's name for that table.
    pub table: Option<String>,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
}

/// Rows as they are produced. Dropping this ends the query.
#[derive(Debug)]
pub struct Rows {
    /// The columns; batches have them in this order.
    pub columns: Arc<[SqlColumn]>,
    /// The columns in Arrow's terms: the schema of every batch.
    pub schema: SchemaRef,
    /// The instrument of the statement, which lasts until its rows are sent.
    pub(super) event: Box<Active>,
    pub(super) batches: mpsc::Receiver<Result<RecordBatch, SqlError>>,
    /// Ends the task that produces the rows.
    pub(super) _running: Option<Running>,
}

impl Rows {
    /// Rows that exist already.
    pub(super) fn ready(batch: RecordBatch, columns: Arc<[SqlColumn]>) -> Self {
        let schema = batch.schema();
        let (sender, batches) = mpsc::channel(1);
        let _there_is_room = sender.try_send(Ok(batch));
        Self { columns, schema, event: Box::new(Active::NONE), batches, _running: None }
    }

    /// The next batch; `None` after the last. There are no more after an error.
    pub async fn next(&mut self) -> Option<Result<RecordBatch, SqlError>> {
        let next = self.batches.recv().await;
        match &next {
            Some(Ok(batch)) => {
                let rows = batch.num_rows() as u64;
                self.event.outcome(|statement| statement.rows_sent += rows);
            }
            Some(Err(error)) => error.tell(&mut self.event),
            None => {}
        }
        next
    }
}

/// A task that is aborted on drop. If it cannot be interrupted, the catalog's status has it until
/// it ends.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) task: tokio::task::AbortHandle,
    pub(super) watch: Option<Arc<StatementGuard>>,
    pub(super) catalog: Arc<Catalog>,
}

/// Most of them that the status has: all wait for the same few threads.
const OVERDUE_MAX: usize = 100;

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.leave();
        }
        self.task.abort();
        if !self.task.is_finished() {
            let mut overdue = self.catalog.status.overdue_statements.lock();
            overdue.retain(|(_, task)| !task.is_finished());
            if overdue.len() < OVERDUE_MAX {
                overdue.push((self.catalog.clock.mono_ms(), self.task.clone()));
            }
        }
    }
}
