//! The engine: SQL text in, a `Reply` out.
//!
//! A statement is parsed, rewritten for DataFusion, planned against the current tables, and run on
//! the engine's own threads. Batches reach the front end through a short channel, so a slow client
//! holds up only its own query.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::registry::FunctionRegistry;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use tokio::sync::Semaphore;

use super::cancellation;
use super::dialect::coercion::MysqlOperators;
use super::error::SqlError;
use super::functions;
use super::optimizer;
use super::planning::Plans;
use super::reply::SqlColumn;
use super::run_plan;
use super::settings::SqlSettings;
use super::snapshot::Snapshot;
use super::tables;
use crate::query::catalog::Catalog;

/// Stack of the engine's threads, in bytes; used only as far as statements need it. A debug build
/// writes the names of a hundred operators in each other with 16 MiB.
pub(super) const STACK: usize = 64 << 20;

/// Bytes read ahead of a merge of sorted inputs.
const READ_AHEAD: usize = 4 << 20;

/// Values of a joined table that are passed to the other scan one by one.
const LOOKUPS: usize = 4_096;

/// Runs statements. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) catalog: Arc<Catalog>,
    pub(super) state: SessionState,
    /// The same on one thread, for queries that start from few rows.
    pub(super) single_threaded: SessionState,
    /// The semantics of operators.
    pub(super) operators: MysqlOperators,
    pub(super) settings: SqlSettings,
    pub(super) plans: Plans,
    /// Permits to plan and run queries.
    pub(super) running: Arc<Semaphore>,
    /// `None` only during drop.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last handle may be dropped on a thread that must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A prepared statement.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The text.
    pub text: Arc<str>,
    /// Number of `?` in it.
    pub parameters: usize,
    /// The columns of its answer; empty if it returns no rows.
    pub columns: Arc<[SqlColumn]>,
}

impl Engine {
    /// Creates an engine over a daemon's tables.
    ///
    /// # Errors
    /// Fails if the system cannot create threads.
    pub fn new(catalog: Arc<Catalog>, settings: SqlSettings) -> std::io::Result<Self> {
        let limits = &settings.limits;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(limits.threads)
            .thread_name("sql")
            .on_thread_start(run_plan::give_way)
            // A statement may be as deep as `limits::complexity` allows.
            .thread_stack_size(STACK)
            .enable_time()
            .build()?;
        cancellation::inherit_in_spawned_tasks();
        let mut config = SessionConfig::new()
            .with_target_partitions(limits.threads)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema("def", "pinba")
            .with_information_schema(false)
            // Usually one of two joined tables is small: reading it first and as a whole tells the
            // scan of the other one which rows are wanted.
            .with_repartition_joins(false)
            // Would be reserved for merging spilled data; nothing is spilled.
            .with_sort_spill_reservation_bytes(0);
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let environment = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(disk)
            .with_memory_limit(limits.memory, 1.0)
            .build_arc()
            .unwrap_or_else(|_| Arc::new(RuntimeEnv::default()));
        let options = config.options_mut();
        // Scans partition themselves; distributing the rows of an ordered one would only lose the
        // order.
        options.optimizer.enable_round_robin_repartition = false;
        // Small results are not partitioned either.
        options.execution.use_row_number_estimates_to_optimize_partitioning = true;
        // The read-ahead where a sort was not needed; the default is a gigabyte.
        options.execution.sort_pushdown_buffer_capacity = READ_AHEAD;
        // Up to this many values of a joined table reach the scan of the other one by one.
        options.optimizer.hash_join_inlist_pushdown_max_distinct_values = LOOKUPS;
        // Columns may get or lose metadata when expressions below them are simplified.
        options.execution.skip_physical_aggregate_schema_check = true;
        options.sql_parser.dialect = datafusion::config::Dialect::MySQL;
        // Names are converted to lower case earlier.
        options.sql_parser.enable_ident_normalization = false;
        options.sql_parser.parse_float_as_decimal = true;
        // As in MySQL, NULL sorts before everything.
        options.sql_parser.default_null_ordering = "nulls_min".to_owned();
        let databases = tables::databases(&catalog, &settings)?;
        let mut state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(environment)
            .with_default_features()
            .with_catalog_list(databases)
            .with_physical_optimizer_rules(optimizer::rules())
            .build();
        let operators = MysqlOperators { case_insensitive: limits.case_insensitive };
        for function in functions::functions() {
            state.register_udf(function)?;
        }
        for aggregate in functions::aggregates() {
            state.register_udaf(aggregate)?;
        }
        state.register_expr_planner(Arc::new(operators))?;
        let one = state.config().clone().with_target_partitions(1);
        let single_threaded = SessionStateBuilder::new_from_existing(state.clone());
        Ok(Self(Arc::new(Inner {
            catalog,
            single_threaded: single_threaded.with_config(one).build(),
            state,
            running: Arc::new(Semaphore::new(limits.queries_max)),
            operators,
            settings,
            plans: Plans::default(),
            runtime: Some(runtime),
        })))
    }

    /// A gauge of the memory that all queries hold together.
    pub fn memory_gauge(&self) -> impl Fn() -> Option<u64> + use<> {
        let memory = Arc::downgrade(&self.0.state.runtime_env().memory_pool);
        move || Some(memory.upgrade()?.reserved() as u64)
    }

    pub(super) fn runtime(&self) -> Result<&tokio::runtime::Runtime, SqlError> {
        self.0.runtime.as_ref().ok_or_else(|| SqlError::busy("the daemon stops"))
    }

    /// The context of a query: the engine's settings, and a snapshot of the rows once it reads any.
    pub(super) fn context(&self) -> Arc<TaskContext> {
        let state = &self.0.state;
        let snapshot = Arc::new(Snapshot::new(&self.0.catalog.live));
        let config = state.config().clone().with_extension(snapshot);
        let (id, runtime) = (String::new(), Arc::clone(state.runtime_env()));
        // A plan contains its functions; the lists of all functions, hundreds of them, only serve
        // plans received over a wire.
        let (scalar, higher, sums, windows) = Default::default();
        Arc::new(TaskContext::new(None, id, config, scalar, higher, sums, windows, runtime))
    }
}
