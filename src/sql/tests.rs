//! Statements against a small pool.

pub(crate) mod pools;

use std::sync::Arc;

use datafusion::physical_plan::{collect, displayable};

use super::dialect::context::Context;
use super::dialect::lex::Mode;
use super::engine::Engine;
use super::error::SqlError;
use super::run_plan::interruptible;
use super::session::Session;
use super::snapshot::Snapshot;
use super::statement::{self, Statement};

impl Engine {
    /// The plan of a SELECT, and the number of rows it read.
    pub(super) async fn rows_read(&self, text: &str) -> Result<(String, usize, u64), SqlError> {
        let session = Session::new(0, "test", false);
        let parsed = statement::parse(text, Mode::default())?;
        let Statement::Query(query) = parsed.statement else {
            panic!("{text}");
        };
        let context = Context::new(&session, &self.0.settings, None);
        let query = self.plan(query, &parsed.items, context).await?;
        let plan = interruptible(self.physical(&query.plan).await?)?;
        let context = self.context();
        let shown = displayable(&*plan).indent(false).to_string();
        let rows = collect(plan, Arc::clone(&context)).await?;
        let rows = rows.iter().map(|batch| batch.num_rows()).sum();
        Ok((shown, rows, Snapshot::of(&context)?.rows_read()))
    }
}
