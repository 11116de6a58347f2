//! Runs statements: their effect on the session, and the path of a query from text to plan.
//!
//! Front ends call this from their own tasks; parsing and planning run on the engine's threads,
//! whose stacks are deep, so that a slow statement, or one that makes the planner panic, harms no
//! other. Dropping the future ends the statement.

use std::sync::Arc;
use std::time::Duration;

use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as PlannedStatement;
use datafusion::sql::sqlparser::ast;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::cancellation::{self, StatementGuard};
use super::dialect::context::Context;
use super::dialect::lex::Mode;
use super::dialect::rewrite::{ColumnNames, rewrite, write_out_columns};
use super::dialect::tokens::Items;
use super::digest;
use super::engine::{Engine, Prepared};
use super::error::{NO_DATABASE, SqlError};
use super::functions::value::{Cells, Value};
use super::information_schema::list;
use super::invisible_columns;
use super::limits::plan_size;
use super::reply::{Reply, Running, SqlColumn};
use super::session::{Literal, Session};
use super::statement::{self, Create, Drop, Setting, Statement};
use super::tables;
use super::variables;
use crate::config::suggest;
use crate::grammar::FixedTable;
use crate::grammar::native::ReportForm;
use crate::instruments::digests;
use crate::query::answer::ReportSummary;
use crate::query::error::QueryError;
use crate::report::definition::Columns;

/// Longest name of a column in an answer, in bytes, as in MariaDB. PHP refuses definitions of
/// columns beyond 4 KB.
const NAME_MAX: usize = 255;

/// A planned query.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) plan: LogicalPlan,
    pub(super) columns: Arc<[SqlColumn]>,
    sleep: Duration,
}

impl Engine {
    /// Runs one statement, with a value for each `?` in it.
    ///
    /// # Errors
    /// Errors of the statement, or a timeout.
    pub async fn run(
        &self,
        session: &mut Session,
        text: &str,
        values: &[Literal],
    ) -> Result<Reply, SqlError> {
        let mut event = digest::verb(text).begin_in_task();
        event.statement(|| {
            let digest = digest::digest(text, Mode::of(session));
            digests::Statement::new(text, &digest, session.database.as_deref())
        });
        match self.run_one(session, text, values).await {
            Ok(Reply::Rows(mut rows)) => {
                *rows.event = event;
                Ok(Reply::Rows(rows))
            }
            Ok(Reply::Done) => Ok(Reply::Done),
            Err(error) => {
                error.tell(&mut event);
                Err(error)
            }
        }
    }

    async fn run_one(
        &self,
        session: &mut Session,
        text: &str,
        values: &[Literal],
    ) -> Result<Reply, SqlError> {
        self.check_length(text.len())?;
        // Goes to the engine's threads and back just once: waking a thread costs as much as
        // planning a small query.
        let (text, given) = (text.to_owned(), values.to_vec());
        let read = self.on_own_threads(session, |engine, asking| async move {
            if let Some((place, (plan, columns))) = engine.kept(&asking, &text, &given).await? {
                return Ok(Ok(engine.start(place, plan, columns).await?));
            }
            let parsed = statement::parse(&text, Mode::of(&asking))?;
            if given.len() > parsed.parameters {
                return Err(SqlError::wrong_arguments(format!(
                    "the statement has {} '?', and {} values were given",
                    parsed.parameters,
                    given.len()
                )));
            }
            match parsed.statement {
                Statement::Query(query) => {
                    let reply = engine.answer(&asking, query, &parsed.items, &given);
                    Ok(Ok(reply.await?))
                }
                other => Ok(Err((other, parsed.items))),
            }
        });
        let read = read.await?;
        if !matches!(read, Err((Statement::Show(_), _))) {
            session.warnings.clear();
        }
        match read {
            Ok(reply) => Ok(reply),
            Err((statement, items)) => self.execute(session, statement, items, values).await,
        }
    }

    /// Runs a parsed statement.
    fn execute<'a>(
        &'a self,
        session: &'a mut Session,
        statement: Statement,
        items: Items,
        values: &'a [Literal],
    ) -> BoxFuture<'a, Result<Reply, SqlError>> {
        let work = async move {
            match statement {
                Statement::Query(query) => {
                    return self.run_query(session, query, items, values).await;
                }
                Statement::Show(show) => return self.show(session, *show, values).await,
                Statement::Explain(query) => {
                    return self.explain(session, query, items, values).await;
                }
                Statement::Create(create) => {
                    session.warnings = self.create(session, create).await?;
                }
                Statement::Drop(drop) => self.drop_tables(session, drop).await?,
                Statement::Update(update) => self.update(session, update, values).await?,
                Statement::Truncate(database, table) => {
                    self.truncate(session, database.as_deref(), &table)?;
                }
                Statement::SetFor(settings, statement) => {
                    // A copy, since the statement may end anywhere.
                    let mut set = session.clone();
                    self.set_all(&mut set, &settings, values).await?;
                    let reply = self.execute(&mut set, *statement, items, values).await;
                    let names = settings.iter().map(|setting| &*setting.name);
                    set.put_back(&session.variables, names);
                    *session = set;
                    return reply;
                }
                Statement::Do(query) => {
                    self.run_query(session, query, items, values).await?.discard().await?;
                }
                Statement::Set(settings) => self.set_all(session, &settings, values).await?,
                Statement::Use(name) => session.database = Some(self.database(&name)?),
                Statement::Begin => session.in_transaction = true,
                Statement::End => session.in_transaction = false,
                Statement::Nothing => {}
            }
            Ok(Reply::Done)
        };
        work.boxed()
    }

    /// A database by its name.
    ///
    /// # Errors
    /// Fails if there is no database of that name; the error lists those that exist.
    pub fn database(&self, name: &str) -> Result<String, SqlError> {
        if name.is_empty() {
            return Err(SqlError::no_database(NO_DATABASE));
        }
        let all: Vec<&str> = tables::database_names(&self.0.catalog).collect();
        let known = all.iter().find(|known| known.eq_ignore_ascii_case(name));
        known.map(|known| (*known).to_owned()).ok_or_else(|| {
            let all = all.join(", ");
            SqlError::no_such_database(format!("Unknown database '{name}'; there are {all}"))
        })
    }

    /// The database that a statement names, or that of its session.
    pub(super) fn database_of(
        &self,
        session: &Session,
        given: Option<&str>,
    ) -> Result<String, SqlError> {
        match given {
            Some(given) => self.database(given),
            None => Ok(session.database.clone().unwrap_or_default()),
        }
    }

    /// Plans a statement whose `?` have no values yet.
    ///
    /// # Errors
    /// The errors that running it would give.
    pub async fn prepare(&self, session: &Session, text: &str) -> Result<Prepared, SqlError> {
        self.check_length(text.len())?;
        let text = Arc::<str>::from(text);
        let prepare = self.on_own_threads(session, |engine, session| async move {
            let mut parsed = statement::parse(&text, Mode::of(&session))?;
            if let Statement::SetFor(_, statement) = parsed.statement {
                parsed.statement = *statement;
            }
            let columns = match parsed.statement {
                Statement::Query(query) => {
                    let _place = engine.place().await?;
                    let context = Context::new(&session, &engine.0.settings, None);
                    engine.plan(query, &parsed.items, context).await?.columns
                }
                Statement::Show(show) => engine.list(&session, &show)?.answer_columns(),
                Statement::Explain(_) => list("PLAN").answer_columns(),
                _ => Arc::from([]),
            };
            Ok(Prepared { text, parameters: parsed.parameters, columns })
        });
        prepare.await
    }

    /// Checks the length of a text; also for callers that split it into statements first.
    ///
    /// # Errors
    /// Fails if it is longer than `sql.text_max`.
    pub fn check_length(&self, bytes: usize) -> Result<(), SqlError> {
        let most = self.0.settings.limits.text_max;
        if bytes > most {
            return Err(SqlError::packet_too_large(format!(
                "the statement has {bytes} bytes, at most {most} are accepted (sql.text_max)"
            )));
        }
        Ok(())
    }

    /// Plans a query against the current tables.
    ///
    /// # Errors
    /// Errors of the query, or of unsupported parts.
    pub(super) async fn plan(
        &self,
        query: Box<ast::Query>,
        items: &Items,
        mut context: Context<'_>,
    ) -> Result<Query, SqlError> {
        let again = query.clone();
        let mut planned = self.plan_once(query, items, &mut context).await;
        for is_all in [false, true] {
            let Err(error) = &planned else { break };
            if error.code != 1054 || !is_all && !invisible_columns::is_lacking(error) {
                continue;
            }
            let mut query = again.clone();
            let ranks = invisible_columns::name_columns(&mut query);
            context.columns = if is_all { Columns::Extended(ranks) } else { Columns::With(ranks) };
            context.sleep.set(0.0);
            planned = self.plan_once(query, items, &mut context).await;
        }
        planned.map_err(|error| self.suggesting(error))
    }

    /// Adds a suggestion to the error for a table that does not exist.
    fn suggesting(&self, mut error: SqlError) -> SqlError {
        let lacking = error.message.strip_prefix("Table '");
        let lacking = lacking.and_then(|rest| rest.strip_suffix("' doesn't exist"));
        let lacking = lacking.and_then(|name| name.split_once('.'));
        if let Some((database, table)) = lacking.filter(|_| error.code == 1146) {
            let names = |database: &str| tables::names(&self.0.catalog, database);
            let hint = if database == "history" && names("pinba").iter().any(|it| it == table) {
                "; its past is not kept, see history.dir and history.reports".to_owned()
            } else if self.database(database).is_err() {
                let all: Vec<&str> = tables::database_names(&self.0.catalog).collect();
                format!("; there are the databases {}", all.join(", "))
            } else {
                suggest::question(table, names(database).iter().map(String::as_str))
            };
            error.message.push_str(&hint);
        }
        error
    }

    /// The names of the columns of a table; `None` if there is no such table.
    fn columns_of(&self, database: &str, table: &str) -> Option<Vec<String>> {
        let databases = self.0.state.catalog_list().catalog(tables::CATALOG)?;
        // There is nothing to wait for.
        let found = databases.schema(database)?.table(table).now_or_never()?;
        let schema = found.ok()??.schema();
        let names = schema.fields().iter().map(|field| {
            let column = tables::column_of(None, field);
            // As the answer shows it: some are in capitals.
            match column.origin {
                Some((_, own)) if own.eq_ignore_ascii_case(&column.name) => own,
                _ => column.name,
            }
        });
        Some(names.collect())
    }

    /// Plans a query as written.
    async fn plan_once(
        &self,
        mut query: Box<ast::Query>,
        items: &Items,
        // Not shared: it moves from thread to thread with the statement.
        context: &mut Context<'_>,
    ) -> Result<Query, SqlError> {
        let database = context.session.database.as_deref();
        let columns_of = |database: &str, table: &str| self.columns_of(database, table);
        // Added columns are no columns of `*`.
        let all_stars = context.columns != Columns::Own;
        let named_before = write_out_columns(&mut query, items, database, &columns_of, all_stars)?;
        let mut names = rewrite(&mut *query, items, context)?;
        names.extend(named_before);
        let statement = PlannedStatement::Statement(Box::new(ast::Statement::Query(query)));
        let plan = self.0.state.statement_to_plan(statement).await?;
        let plan = match context.session.number::<i64>("sql_select_limit") {
            Some(rows) if !matches!(plan, LogicalPlan::Limit(_)) => {
                let rows = usize::try_from(rows).ok();
                LogicalPlanBuilder::from(plan).limit(0, rows)?.build()?
            }
            _ => plan,
        };
        let plan = self.0.operators.finish(plan)?;
        plan_size::check(&plan)?;
        // (1, 2) can be compared, but not returned.
        let mut fields = plan.schema().fields().iter();
        if fields.any(|field| field.data_type().is_nested()) {
            return Err(SqlError::several_values("Operand should contain 1 column(s)"));
        }
        let columns = named(tables::columns_of(&plan), &names);
        let sleep = Duration::try_from_secs_f64(context.sleep.get()).unwrap_or(Duration::MAX);
        Ok(Query { plan, columns, sleep: sleep.min(self.0.settings.limits.time_max) })
    }

    /// Plans a query with its values, holding a permit from then on, and starts it.
    async fn answer(
        &self,
        session: &Session,
        query: Box<ast::Query>,
        items: &Items,
        values: &[Literal],
    ) -> Result<Reply, SqlError> {
        let mut place = self.place().await?;
        let context = Context::new(session, &self.0.settings, Some(values));
        let query = self.plan(query, items, context).await?;
        if !query.sleep.is_zero() {
            // A sleeping statement needs no permit.
            drop(place);
            tokio::time::sleep(query.sleep).await;
            place = self.place().await?;
        }
        let plan = self.physical(&query.plan).await?;
        self.start(place, plan, query.columns).await
    }

    /// The part of [`answer`](Self::answer) that runs on the engine's threads.
    async fn run_query(
        &self,
        session: &Session,
        query: Box<ast::Query>,
        items: Items,
        values: &[Literal],
    ) -> Result<Reply, SqlError> {
        let values = values.to_vec();
        let answer = self.on_own_threads(session, |engine, asking| async move {
            engine.answer(&asking, query, &items, &values).await
        });
        answer.await
    }

    /// Runs work for a statement of this session on the engine's threads. Ends it when nobody waits
    /// any more, or at the deadline: a thread that cannot be interrupted then continues, holding
    /// the statement's permit, and nobody waits for it.
    pub(super) async fn on_own_threads<T, W>(
        &self,
        session: &Session,
        work: impl FnOnce(Self, Session) -> W,
    ) -> Result<T, SqlError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, SqlError>> + Send + 'static,
    {
        let pool = &self.0.state.runtime_env().memory_pool;
        let watch = StatementGuard::new(session, &self.0.settings, pool);
        let work = cancellation::scope(Arc::clone(&watch), work(self.clone(), session.clone()));
        let task = self.runtime()?.spawn(work);
        let catalog = Arc::clone(&self.0.catalog);
        let mut ends_with_us =
            Running { task: task.abort_handle(), watch: Some(Arc::clone(&watch)), catalog };
        let Ok(ended) = tokio::time::timeout_at(watch.until.into(), task).await else {
            return Err(watch.late.clone());
        };
        // The task is over, but the statement may run on.
        ends_with_us.watch = None;
        match ended {
            Ok(done) => done,
            Err(error) if error.is_panic() => {
                tracing::error!(target: "pinbad::sql", "planning a statement panicked");
                Err(SqlError::internal(
                    "the statement could not be planned: a defect of the daemon",
                ))
            }
            Err(_) => Err(SqlError::interrupted("the daemon stops")),
        }
    }

    /// Runs work that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SqlError> {
        let done = self.runtime()?.spawn_blocking(work).await;
        done.map_err(|_| SqlError::internal("the change could not be made: a defect of the daemon"))
    }

    /// Creates a report; returns warnings about the statement.
    async fn create(&self, session: &Session, create: Create) -> Result<Vec<String>, SqlError> {
        may_change(self, session, create.database.as_deref())?;
        let (catalog, name) = (Arc::clone(&self.0.catalog), create.name);
        let exists = tables::own_name(&catalog, &name).is_some();
        let form = ReportForm::of_comment(&name, &create.comment);
        let exists = exists
            || match self.blocking(move || catalog.create_report(&form)).await? {
                Ok(made) => return Ok(other_columns(&made, &create.columns)),
                Err(QueryError::ReportExists { .. }) => true,
                Err(other) => return Err(SqlError::wrong_arguments(other.to_string())),
            };
        match exists && !create.if_not_exists {
            true => Err(SqlError::table_exists(format!("Table '{name}' already exists"))),
            false => Ok(Vec::new()),
        }
    }

    async fn drop_tables(&self, session: &Session, drop: Drop) -> Result<(), SqlError> {
        let mut unknown = Vec::new();
        for (given, name) in drop.tables {
            may_change(self, session, given.as_deref())?;
            let catalog = Arc::clone(&self.0.catalog);
            let own = tables::own_name(&catalog, &name).unwrap_or_else(|| name.clone());
            match self.blocking(move || catalog.drop_report(&own)).await? {
                Ok(_) => {}
                Err(QueryError::UnknownReport { .. }) if FixedTable::raw(&name).is_some() => {
                    return Err(SqlError::read_only(format!("table {name} cannot be dropped")));
                }
                Err(QueryError::UnknownReport { .. }) => unknown.push(format!("'pinba.{name}'")),
                Err(other) => return Err(SqlError::read_only(other.to_string())),
            }
        }
        match unknown.is_empty() || drop.if_exists {
            true => Ok(()),
            false => Err(SqlError::unknown_table(format!("Unknown table {}", unknown.join(",")))),
        }
    }

    /// Sets all of these, or none.
    async fn set_all(
        &self,
        session: &mut Session,
        settings: &[Setting],
        values: &[Literal],
    ) -> Result<(), SqlError> {
        let mut set = session.clone();
        for Setting { name, value } in settings {
            let value = match value {
                Some(ast::Expr::Identifier(word)) if !name.starts_with('@') => {
                    Some(Literal::Text(word.value.clone()))
                }
                Some(value) => Some(self.evaluate(&set, value, values).await?),
                None => None,
            };
            match name.strip_prefix('@') {
                Some(own) => set.set_own(own, value.unwrap_or(Literal::Null))?,
                None => {
                    let value = value.map(|value| value.to_string());
                    variables::set(&mut set, &self.0.settings, name, value)?;
                }
            }
        }
        *session = set;
        Ok(())
    }

    /// Evaluates an expression.
    async fn evaluate(
        &self,
        session: &Session,
        expression: &ast::Expr,
        values: &[Literal],
    ) -> Result<Literal, SqlError> {
        if let Some(constant) = constant(expression) {
            return Ok(constant);
        }
        let query = statement::select_of(vec![expression.clone()])?;
        let asking = session.without_row_limit();
        let reply = self.run_query(&asking, query, Items::new(), values);
        let Reply::Rows(mut rows) = reply.await? else { return Ok(Literal::Null) };
        let Some(batch) = rows.next().await.transpose()? else { return Ok(Literal::Null) };
        if (batch.num_rows(), batch.num_columns()) != (1, 1) {
            return Err(SqlError::wrong_arguments("one value is wanted"));
        }
        let cells = Cells::new(batch.column(0))?;
        Ok(match cells.get(0) {
            Value::Null => Literal::Null,
            Value::Int(value) => Literal::Int(value),
            Value::UInt(value) => Literal::UInt(value),
            Value::Double(value) => Literal::Float(value),
            Value::Float(value) => Literal::Float(value.into()),
            digits @ Value::Decimal(..) => Literal::Decimal(digits.to_text().into_owned()),
            text @ (Value::Text(_) | Value::Datetime(_) | Value::Date(_)) => {
                Literal::Text(text.to_text().into_owned())
            }
        })
    }
}

/// The value of a literal. Drivers SET some at login, which should take no permit.
fn constant(expression: &ast::Expr) -> Option<Literal> {
    let ast::Expr::Value(literal) = expression else { return None };
    Some(match &literal.value {
        ast::Value::Null => Literal::Null,
        ast::Value::Boolean(truth) => Literal::Int((*truth).into()),
        ast::Value::Number(digits, _) => Literal::Int(digits.parse().ok()?),
        ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => {
            Literal::Text(text.clone())
        }
        _ => return None,
    })
}

/// Checks whether reports may be created and dropped.
fn may_change(engine: &Engine, session: &Session, given: Option<&str>) -> Result<(), SqlError> {
    let database = engine.database_of(session, given)?;
    match (session.admin, database.as_str()) {
        (true, "pinba") => Ok(()),
        (true, _) => Err(SqlError::no_such_database(format!(
            "reports are made in database pinba, not in '{database}'"
        ))),
        (false, _) => Err(SqlError::wants_admin()),
    }
}

/// Names the columns of a report, if the statement that created it listed one that it does not
/// have.
fn other_columns(made: &ReportSummary, written: &[String]) -> Vec<String> {
    let own = || made.columns.iter().map(|column| column.name.as_str());
    let is_there = |name: &&String| own().any(|own| own.eq_ignore_ascii_case(name));
    let unknown: Vec<&str> =
        written.iter().filter(|name| !is_there(name)).map(String::as_str).collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    let own: Vec<&str> = own().collect();
    vec![format!(
        "The columns of a report follow from its COMMENT: '{}' has no {}; it has {}",
        made.name,
        unknown.join(", "),
        own.join(", ")
    )]
}

/// Replaces the names of columns by those that MySQL gives them, and cuts them where it does. In
/// the plan they keep their length, so that two may begin alike.
fn named(columns: Arc<[SqlColumn]>, names: &ColumnNames) -> Arc<[SqlColumn]> {
    let named = columns.iter().map(|column| {
        let mut column = column.clone();
        if let Some(name) = names.get(&column.name) {
            column.name.clone_from(name);
        } else if let Some((_, own)) = &column.origin
            && own.eq_ignore_ascii_case(&column.name)
        {
            column.name.clone_from(own);
        }
        column.name.truncate(column.name.floor_char_boundary(NAME_MAX));
        column
    });
    named.collect()
}

#[cfg(test)]
mod tests;
