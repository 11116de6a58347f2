//! The engine: text in, a [`Reply`] out.
//!
//! A statement is parsed with MySQL's grammar, rewritten to what DataFusion understands, planned against the tables as
//! they are now, and run on the engine's own threads. Batches go to the front end through a short channel: a client
//! that reads slowly makes its query wait, nothing else.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement;
use futures::StreamExt;
use tokio::sync::{Semaphore, mpsc};

use super::error::SqlError;
use super::reply::{Reply, Rows, Running, SqlColumn};
use super::session::{Literal, Session};
use super::settings::SqlSettings;
use super::snapshot::Snapshot;
use super::tables::{self, PinbaTables};
use crate::query::catalog::Catalog;

/// Batches that are made and not yet taken.
const BATCHES_AHEAD: usize = 2;

/// Runs statements. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    catalog: Arc<Catalog>,
    state: SessionState,
    settings: SqlSettings,
    running: Arc<Semaphore>,
    /// `None` only while it is being dropped.
    runtime: Option<tokio::runtime::Runtime>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last handle may be dropped on a thread that must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A statement that was prepared.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The text.
    pub text: Arc<str>,
    /// How many `?` it has.
    pub parameters: usize,
    /// The columns of its answer; none when it brings no rows.
    pub columns: Arc<[SqlColumn]>,
}

impl Engine {
    /// An engine over what a daemon keeps.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(catalog: Arc<Catalog>, settings: SqlSettings) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.threads)
            .thread_name("sql")
            .enable_time()
            .build()?;
        let config = SessionConfig::new()
            .with_target_partitions(settings.threads)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema("def", "pinba")
            .with_information_schema(false)
            // Of two tables that are joined one is small, as a rule: read first and as a whole, it tells the scan of the other
            // which rows are wanted.
            .with_repartition_joins(false);
        let environment = RuntimeEnvBuilder::new()
            .with_memory_limit(settings.memory_max, 1.0)
            .build_arc()
            .unwrap_or_else(|_| Arc::new(RuntimeEnv::default()));
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(environment)
            .with_default_features()
            .with_catalog_list(Arc::new(PinbaTables::new(Arc::clone(&catalog))))
            .build();
        Ok(Self(Arc::new(Inner {
            catalog,
            state,
            running: Arc::new(Semaphore::new(settings.queries_max)),
            settings,
            runtime: Some(runtime),
        })))
    }

    /// Runs one statement, with a value for each `?` in it.
    ///
    /// # Errors
    /// What is wrong with it, or with the time.
    pub async fn run(
        &self,
        session: &mut Session,
        text: &str,
        values: &[Literal],
    ) -> Result<Reply, SqlError> {
        let _ = (session, values);
        let plan = self.plan(text).await?;
        let columns = tables::columns_of(&plan);
        let physical = self.0.state.create_physical_plan(&plan).await?;
        self.start(physical, columns)
    }

    /// Plans one statement whose `?` have no values yet.
    ///
    /// # Errors
    /// What is wrong with it: the same as when it is run.
    pub async fn prepare(&self, session: &Session, text: &str) -> Result<Prepared, SqlError> {
        let _ = session;
        let plan = self.plan(text).await?;
        Ok(Prepared {
            text: text.into(),
            parameters: 0,
            columns: tables::columns_of(&plan),
        })
    }

    async fn plan(&self, text: &str) -> Result<LogicalPlan, SqlError> {
        if text.len() > self.0.settings.text_max {
            return Err(SqlError::parse(format!(
                "the statement has {} bytes, at most {} are accepted",
                text.len(),
                self.0.settings.text_max
            )));
        }
        let state = &self.0.state;
        let dialect = datafusion::config::Dialect::MySQL;
        let statement = state.sql_to_statement(text, &dialect)?;
        match &statement {
            Statement::Statement(inner)
                if matches!(
                    **inner,
                    datafusion::sql::sqlparser::ast::Statement::Query(_)
                ) => {}
            _ => return Err(SqlError::not_supported("only SELECT is answered here")),
        }
        Ok(state.statement_to_plan(statement).await?)
    }

    /// What a query runs in: the engine's settings, and the rows that there are now.
    fn context(&self) -> Arc<TaskContext> {
        let context = TaskContext::from(&self.0.state);
        let snapshot = Arc::new(Snapshot::take(&self.0.catalog));
        let config = context.session_config().clone().with_extension(snapshot);
        Arc::new(context.with_session_config(config))
    }

    /// Starts a plan on the engine's threads.
    fn start(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        columns: Arc<[SqlColumn]>,
    ) -> Result<Reply, SqlError> {
        let permit = Arc::clone(&self.0.running)
            .try_acquire_owned()
            .map_err(|_| SqlError::busy("too many queries at once; ask again in a moment"))?;
        let runtime = self
            .0
            .runtime
            .as_ref()
            .ok_or_else(|| SqlError::busy("the daemon stops"))?;
        let context = self.context();
        let schema = plan.schema();
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let time_max = self.0.settings.time_max;
        let task = runtime.spawn(async move {
            let _permit = permit;
            let work = async {
                let mut stream = match execute_stream(plan, context) {
                    Ok(stream) => stream,
                    Err(error) => {
                        let _nobody_waits = sender.send(Err(error.into())).await;
                        return;
                    }
                };
                while let Some(batch) = stream.next().await {
                    let failed = batch.is_err();
                    if sender.send(batch.map_err(SqlError::from)).await.is_err() || failed {
                        return;
                    }
                }
            };
            if tokio::time::timeout(time_max, work).await.is_err() {
                let late = SqlError::timeout(format!(
                    "the query took longer than {} s (sql.time_max)",
                    time_max.as_secs_f64()
                ));
                let _nobody_waits = sender.send(Err(late)).await;
            }
        });
        Ok(Reply::Rows(Rows {
            columns,
            schema,
            batches,
            _running: Running(task.abort_handle()),
        }))
    }
}
