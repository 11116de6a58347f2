//! The engine: SQL text in, a [`Reply`] out.
//!
//! A statement is parsed, rewritten to what DataFusion understands, planned against the tables as they are now, and run on the
//! engine's own threads. Batches reach the front end through a short channel, so a slow client holds up only its own query.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::registry::FunctionRegistry;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::cancellation::{self, StatementGuard};
use super::dialect::coercion::MysqlOperators;
use super::error::SqlError;
use super::functions;
use super::limits::time::TimeLimit;
use super::planning;
use super::reply::{Reply, Rows, Running, SqlColumn};
use super::run;
use super::session::Session;
use super::settings::SqlSettings;
use super::snapshot::Snapshot;
use super::tables::{self, PinbaTables};
use crate::query::catalog::Catalog;

/// Stack of the engine's threads, bytes; used only as far as statements need it.
const STACK: usize = 8 << 20;

/// Bytes read ahead of a merge whose inputs are in order.
const READ_AHEAD: usize = 4 << 20;

/// Values of a joined table that are looked up one by one.
const LOOKUPS: usize = 4_096;

/// Runs statements. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    catalog: Arc<Catalog>,
    state: SessionState,
    /// The same for queries that begin at a few rows.
    single_threaded: SessionState,
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
            .on_thread_start(run::give_way)
            // A statement may be deep, as deep as `limits::nesting` allows.
            .thread_stack_size(STACK)
            .enable_time()
            .build()?;
        cancellation::inherit_in_spawned_tasks();
        let config = SessionConfig::new()
            .with_target_partitions(settings.threads)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema("def", "pinba")
            .with_information_schema(false)
            // Of two tables that are joined one is small, as a rule: read first and as a whole, it tells the scan of the other
            // which rows are wanted.
            .with_repartition_joins(false)
            // Kept back for merging what was spilled; nothing is.
            .with_sort_spill_reservation_bytes(0);
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let environment = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(disk)
            .with_memory_limit(settings.memory_max, 1.0)
            .build_arc()
            .unwrap_or_else(|_| Arc::new(RuntimeEnv::default()));
        let mut config = config;
        // Scans divide themselves; dealing out the rows of one that is in order would only lose the order.
        config
            .options_mut()
            .optimizer
            .enable_round_robin_repartition = false;
        // What is read ahead where a sort was not needed: the default is a gigabyte.
        config.options_mut().execution.sort_pushdown_buffer_capacity = READ_AHEAD;
        // So many values of a joined table are told to the scan of the other one by one.
        let optimizer = &mut config.options_mut().optimizer;
        optimizer.hash_join_inlist_pushdown_max_distinct_values = LOOKUPS;
        let parser = &mut config.options_mut().sql_parser;
        parser.dialect = datafusion::config::Dialect::MySQL;
        // Names are put in lower case before.
        parser.enable_ident_normalization = false;
        parser.parse_float_as_decimal = true;
        // As in MySQL: NULL is less than everything.
        "nulls_min".clone_into(&mut parser.default_null_ordering);
        let mut state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(environment)
            .with_default_features()
            .with_catalog_list(Arc::new(PinbaTables::new(
                Arc::clone(&catalog),
                settings.clone(),
            )))
            .build();
        for function in functions::functions() {
            state
                .register_udf(function)
                .map_err(std::io::Error::other)?;
        }
        for aggregate in functions::aggregates() {
            state
                .register_udaf(aggregate)
                .map_err(std::io::Error::other)?;
        }
        let operators = MysqlOperators {
            case_insensitive: settings.case_insensitive,
        };
        state
            .register_expr_planner(Arc::new(operators))
            .map_err(std::io::Error::other)?;
        Ok(Self(Arc::new(Inner {
            catalog,
            single_threaded: planning::single_threaded(&state),
            state,
            running: Arc::new(Semaphore::new(settings.queries_max)),
            settings,
            runtime: Some(runtime),
        })))
    }

    pub(super) fn settings(&self) -> &SqlSettings {
        &self.0.settings
    }

    /// Whether no query runs and nothing is held for one.
    pub(super) fn is_at_rest(&self) -> bool {
        let Inner {
            running,
            settings,
            state,
            ..
        } = &*self.0;
        let memory = &state.runtime_env().memory_pool;
        running.available_permits() == settings.queries_max && memory.reserved() == 0
    }

    pub(super) fn state(&self) -> &SessionState {
        &self.0.state
    }

    pub(super) fn single_threaded(&self) -> &SessionState {
        &self.0.single_threaded
    }

    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.0.catalog
    }

    /// What operators mean.
    pub(super) fn operators(&self) -> MysqlOperators {
        MysqlOperators {
            case_insensitive: self.0.settings.case_insensitive,
        }
    }

    pub(super) fn runtime(&self) -> Result<&tokio::runtime::Runtime, SqlError> {
        self.0
            .runtime
            .as_ref()
            .ok_or_else(|| SqlError::busy("the daemon stops"))
    }

    /// What a query runs in: the engine's settings, and the rows that there are now.
    pub(super) fn context(&self, plan: &Arc<dyn ExecutionPlan>) -> Arc<TaskContext> {
        let state = &self.0.state;
        let needed = tables::needed(plan);
        let snapshot = Arc::new(Snapshot::take(&self.0.catalog, needed));
        let config = state.config().clone().with_extension(snapshot);
        // A plan has its functions in it; the lists of all of them, some hundreds, are for those that come over a wire.
        let (session, runtime) = (state.session_id().to_owned(), state.runtime_env());
        let context = TaskContext::new(
            None,
            session,
            config,
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            Arc::clone(runtime),
        );
        Arc::new(context)
    }

    /// The plan of a SELECT, and how many rows it looked at when it ran.
    #[cfg(test)]
    pub(super) async fn rows_read(&self, text: &str) -> Result<(String, usize, u64), SqlError> {
        let session = Session::new(0, "test", false);
        let parsed = super::statement::parse(text, super::dialect::lex::Mode::default())?;
        let query = self.query(&session, parsed).await?;
        let plan = self.physical(&query.plan).await?;
        let plan = run::interruptible(plan)?;
        let context = self.context(&plan);
        let shown = datafusion::physical_plan::displayable(&*plan)
            .indent(false)
            .to_string();
        let rows = datafusion::physical_plan::collect(plan, Arc::clone(&context)).await?;
        let rows = rows.iter().map(|batch| batch.num_rows()).sum();
        Ok((shown, rows, Snapshot::of(&context)?.rows_read()))
    }

    /// Rows that are there already, as an answer.
    pub(super) fn ready(
        &self,
        batch: RecordBatch,
        columns: Arc<[SqlColumn]>,
    ) -> Result<Reply, SqlError> {
        let schema = batch.schema();
        let (sender, batches) = mpsc::channel(1);
        let task = self.runtime()?.spawn(async move {
            let _nobody_waits = sender.send(Ok(batch)).await;
        });
        Ok(Reply::Rows(Rows {
            columns,
            schema,
            batches,
            _running: Running::new(task.abort_handle(), None),
        }))
    }

    /// What goes with a statement that begins now.
    pub(super) fn guard(&self, session: &Session) -> Arc<StatementGuard> {
        let pool = &self.0.state.runtime_env().memory_pool;
        StatementGuard::new(TimeLimit::of(session, &self.0.settings), pool)
    }

    /// A place among the queries that may be planned and run at once.
    ///
    /// # Errors
    /// When none becomes free.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, SqlError> {
        run::place(&self.0.running, self.0.settings.queries_max).await
    }

    /// Starts a plan on the engine's threads, in the place where it was planned.
    ///
    /// # Errors
    /// DataFusion's.
    pub(super) fn start(
        &self,
        place: OwnedSemaphorePermit,
        guard: Arc<StatementGuard>,
        plan: Arc<dyn ExecutionPlan>,
        columns: Arc<[SqlColumn]>,
    ) -> Result<Reply, SqlError> {
        let runtime = self.runtime()?.handle();
        let context = |plan: &Arc<dyn ExecutionPlan>| self.context(plan);
        let settings = &self.0.settings;
        run::start(runtime, place, guard, settings, plan, context, columns)
    }
}
