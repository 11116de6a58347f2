//! Runs statements: what each does to its session, and the way of a query from text to plan.
//!
//! Front ends call this from their own tasks; parsing and planning run on the engine's threads, whose stacks are deep, so that a
//! statement that takes long or makes the planner panic harms no other. Dropping the future ends the statement.

use std::sync::Arc;
use std::time::Duration;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as PlannedStatement;
use datafusion::sql::sqlparser::ast;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::cancellation::{self, StatementGuard};
use super::dialect::context::Context;
use super::dialect::lex::{Mode, is_query};
use super::dialect::rewrite::{ColumnNames, MARK, number, rewrite};
use super::dialect::tokens::Items;
use super::engine::{Engine, Prepared};
use super::error::SqlError;
use super::functions;
use super::plan_size;
use super::reply::{Done, Reply, Running, SqlColumn};
use super::session::{Literal, Session};
use super::statement::{self, Create, Drop, Parsed, Setting, Statement};
use super::tables;
use super::variables;
use crate::query::error::QueryError;
use crate::query::read_model::ReadModel;
use crate::report::form::ReportForm;

/// A query, ready to be run.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) plan: LogicalPlan,
    pub(super) columns: Arc<[SqlColumn]>,
    sleep: Duration,
}

/// A query as DataFusion's planner wants it.
pub(super) struct Rewritten {
    query: Box<ast::Query>,
    names: ColumnNames,
    sleep: f64,
}

/// Rewrites a query for DataFusion's planner: everything before tables are resolved.
///
/// # Errors
/// What is wrong with it, or not done here.
pub(super) fn rewrite_query(
    mut query: Box<ast::Query>,
    items: &Items,
    context: &Context<'_>,
) -> Result<Rewritten, SqlError> {
    if let Some(rows) = context.session.number("sql_select_limit") {
        limit_rows(&mut query, rows);
    }
    let names = rewrite(&mut *query, items, context)?;
    let sleep = context.sleep.get();
    Ok(Rewritten {
        query,
        names,
        sleep,
    })
}

/// Limits the rows of a query that has no LIMIT of its own: `sql_select_limit`.
fn limit_rows(query: &mut ast::Query, rows: u64) {
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return;
    }
    if let ast::SetExpr::Query(inner) = query.body.as_mut() {
        return limit_rows(inner, rows);
    }
    query.limit_clause = Some(ast::LimitClause::LimitOffset {
        limit: Some(number(rows)),
        offset: None,
        limit_by: Vec::new(),
    });
}

impl Engine {
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
        self.check_length(text.len())?;
        if let Some(found) = self.look_up(session, text, Some(values)).await? {
            let place = self.place().await?;
            return self.start(place, self.guard(session), found.plan, found.columns);
        }
        let mode = Mode::of(session);
        let owned = text.to_owned();
        if is_query(text) {
            let query = move || statement::parse(&owned, mode);
            return self.run_query(session, values, query).await;
        }
        let parsed = self.parse(session, owned).await?;
        check_count(&parsed, values)?;
        self.execute(session, parsed, values).await
    }

    /// Reads a statement on the engine's threads, whose stacks are deep enough.
    async fn parse(&self, session: &Session, text: String) -> Result<Parsed, SqlError> {
        let mode = Mode::of(session);
        let parse = async move { statement::parse(&text, mode) };
        self.on_own_threads(&self.guard(session), parse).await
    }

    /// Runs a statement that was parsed.
    fn execute<'a>(
        &'a self,
        session: &'a mut Session,
        parsed: Parsed,
        values: &'a [Literal],
    ) -> BoxFuture<'a, Result<Reply, SqlError>> {
        let Parsed {
            statement,
            parameters,
            items,
        } = parsed;
        let with = move |statement| Parsed {
            statement,
            parameters,
            items,
        };
        let work = async move {
            match statement {
                query @ Statement::Query(_) => {
                    return self.run_query(session, values, || Ok(with(query))).await;
                }
                Statement::Show(show) => return self.show(session, *show).await,
                Statement::Explain(query) => {
                    let items = with(Statement::Nothing).items;
                    return self.explain(session, query, items).await;
                }
                Statement::Create(create) => return self.create(session, create).await,
                Statement::Drop(drop) => return self.drop_tables(session, drop).await,
                Statement::SetFor(settings, statement) => {
                    let before = Arc::clone(&session.variables);
                    let reply = match self.set_all(session, &settings, values).await {
                        Ok(()) => self.execute(session, with(*statement), values).await,
                        Err(error) => Err(error),
                    };
                    session.put_back(&before, settings.iter().filter_map(Setting::name));
                    return reply;
                }
                Statement::Do(query) => {
                    let query = Statement::Query(query);
                    let reply = self.run_query(session, values, || Ok(with(query))).await?;
                    if let Reply::Rows(mut rows) = reply {
                        while let Some(batch) = rows.next().await {
                            batch?;
                        }
                    }
                }
                Statement::Set(settings) => self.set_all(session, &settings, values).await?,
                Statement::Use(name) => session.database = Some(database(&name)?),
                Statement::Begin => session.in_transaction = true,
                Statement::End => session.in_transaction = false,
                Statement::Nothing => {}
            }
            Ok(Reply::Done(Done::default()))
        };
        work.boxed()
    }

    /// Plans one statement whose `?` have no values yet.
    ///
    /// # Errors
    /// What is wrong with it: the same as when it is run.
    pub async fn prepare(&self, session: &Session, text: &str) -> Result<Prepared, SqlError> {
        self.check_length(text.len())?;
        if let Some(found) = self.look_up(session, text, None).await? {
            return Ok(Prepared {
                text: text.into(),
                parameters: found.parameters,
                columns: found.columns,
            });
        }
        let mut parsed = self.parse(session, text.to_owned()).await?;
        while let Statement::SetFor(_, statement) = parsed.statement {
            parsed.statement = *statement;
        }
        let parameters = parsed.parameters;
        let columns = match parsed.statement {
            Statement::Query(_) => self.query(session, parsed).await?.columns,
            Statement::Show(show) => self.sheet(session, &show)?.answer_columns(),
            Statement::Explain(_) => super::show::plan_columns(),
            _ => Arc::from([]),
        };
        Ok(Prepared {
            text: text.into(),
            parameters,
            columns,
        })
    }

    /// Whether so many bytes may be looked at: also for who cuts them into statements first.
    ///
    /// # Errors
    /// When it is more than `sql.text_max`.
    pub fn check_length(&self, bytes: usize) -> Result<(), SqlError> {
        let most = self.settings().text_max;
        if bytes > most {
            return Err(SqlError::packet_too_large(format!(
                "the statement has {bytes} bytes, at most {most} are accepted (sql.text_max)"
            )));
        }
        Ok(())
    }

    /// Plans a query without its values on the engine's threads.
    pub(super) async fn query(&self, session: &Session, parsed: Parsed) -> Result<Query, SqlError> {
        let (engine, session) = (self.clone(), session.clone());
        self.on_own_threads(&self.guard(&session), async move {
            let _place = engine.place().await?;
            let context = Context::new(&session, engine.settings(), None);
            engine
                .plan(rewrite_query(
                    query_of(parsed.statement)?,
                    &parsed.items,
                    &context,
                )?)
                .await
        })
        .await
    }

    pub(super) async fn plan(&self, rewritten: Rewritten) -> Result<Query, SqlError> {
        let statement = ast::Statement::Query(rewritten.query);
        let statement = PlannedStatement::Statement(Box::new(statement));
        let plan = self.state().statement_to_plan(statement).await?;
        let plan = self.operators().finish(plan)?;
        plan_size::check(&plan)?;
        // (1, 2) can be compared, and not shown.
        let mut fields = plan.schema().fields().iter();
        if fields.any(|field| field.data_type().is_nested()) {
            return Err(SqlError::several_values(
                "Operand should contain 1 column(s)",
            ));
        }
        let columns = named(tables::columns_of(&plan), &rewritten.names);
        let sleep = Duration::try_from_secs_f64(rewritten.sleep).unwrap_or(Duration::MAX);
        Ok(Query {
            plan,
            columns,
            sleep: sleep.min(self.settings().time_max),
        })
    }

    /// Plans a query and starts it: one way to the engine's threads and back, since waking a thread costs as much as planning
    /// something small.
    async fn run_query(
        &self,
        session: &Session,
        values: &[Literal],
        read: impl FnOnce() -> Result<Parsed, SqlError> + Send + 'static,
    ) -> Result<Reply, SqlError> {
        let (engine, session) = (self.clone(), session.clone());
        let values = values.to_vec();
        let watch = self.guard(&session);
        let (place, plan, columns) = self
            .on_own_threads(&watch, async move {
                let mut place = engine.place().await?;
                let parsed = read()?;
                check_count(&parsed, &values)?;
                let context = Context::new(&session, engine.settings(), Some(&values));
                let rewritten =
                    rewrite_query(query_of(parsed.statement)?, &parsed.items, &context)?;
                let query = engine.plan(rewritten).await?;
                if !query.sleep.is_zero() {
                    // Who sleeps keeps nobody from anything.
                    drop(place);
                    tokio::time::sleep(query.sleep).await;
                    place = engine.place().await?;
                }
                let plan = engine.physical(&query.plan).await?;
                Ok((place, plan, query.columns))
            })
            .await?;
        self.start(place, watch, plan, columns)
    }

    /// Does something for a statement on the engine's threads; ends it when nobody waits any more, or when its time is over: a
    /// thread that cannot be interrupted then goes on, in the place of the statement, and nobody waits for it.
    pub(super) async fn on_own_threads<T: Send + 'static>(
        &self,
        watch: &Arc<StatementGuard>,
        work: impl Future<Output = Result<T, SqlError>> + Send + 'static,
    ) -> Result<T, SqlError> {
        let task = self
            .runtime()?
            .spawn(cancellation::scope(Arc::clone(watch), work));
        let ends_with_us = Running::new(task.abort_handle(), Some(Arc::clone(watch)));
        let Ok(ended) = tokio::time::timeout_at(watch.until().into(), task).await else {
            return Err(watch.late());
        };
        ends_with_us.finish();
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

    /// Does something that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SqlError> {
        let done = self.runtime()?.spawn_blocking(work).await;
        done.map_err(|_| SqlError::internal("the change could not be made: a defect of the daemon"))
    }

    async fn create(&self, session: &Session, create: Create) -> Result<Reply, SqlError> {
        let Create {
            database: given,
            name,
            if_not_exists,
            comment,
        } = create;
        may_change(session, given.as_deref())?;
        let catalog = Arc::clone(self.catalog());
        let exists = || SqlError::table_exists(format!("Table '{name}' already exists"));
        if tables::own_name(&catalog, &name).is_some() {
            return match if_not_exists {
                true => Ok(Reply::Done(Done::default())),
                false => Err(exists()),
            };
        }
        let form = ReportForm::of_comment(&name, &comment);
        match self.blocking(move || catalog.create_report(form)).await? {
            Ok(_) => Ok(Reply::Done(Done::default())),
            Err(QueryError::ReportExists { .. }) if if_not_exists => {
                Ok(Reply::Done(Done::default()))
            }
            Err(QueryError::ReportExists { .. }) => Err(exists()),
            Err(other) => Err(SqlError::wrong_arguments(other.to_string())),
        }
    }

    async fn drop_tables(&self, session: &Session, drop: Drop) -> Result<Reply, SqlError> {
        let mut unknown = Vec::new();
        for (given, name) in drop.tables {
            may_change(session, given.as_deref())?;
            let catalog = Arc::clone(self.catalog());
            let own = tables::own_name(&catalog, &name).unwrap_or_else(|| name.clone());
            match self.blocking(move || catalog.drop_report(&own)).await? {
                Ok(_) => {}
                Err(QueryError::UnknownReport { .. })
                    if tables::raw_names().contains(&name.as_str()) =>
                {
                    return Err(SqlError::read_only(format!(
                        "table {name} cannot be dropped"
                    )));
                }
                Err(QueryError::UnknownReport { .. }) => unknown.push(format!("'pinba.{name}'")),
                Err(other) => return Err(SqlError::read_only(other.to_string())),
            }
        }
        match unknown.is_empty() || drop.if_exists {
            true => Ok(Reply::Done(Done::default())),
            false => Err(SqlError::unknown_table(format!(
                "Unknown table {}",
                unknown.join(",")
            ))),
        }
    }

    async fn set_all(
        &self,
        session: &mut Session,
        settings: &[Setting],
        values: &[Literal],
    ) -> Result<(), SqlError> {
        for setting in settings {
            match setting {
                Setting::Own { name, value } => {
                    let value = self.evaluate(session, value, values).await?;
                    session.set_own(name, value)?;
                }
                Setting::System { name, value } => {
                    let value = match value {
                        None => None,
                        Some(ast::Expr::Identifier(word)) => Some(word.value.clone()),
                        Some(value) => Some(match self.evaluate(session, value, values).await? {
                            Literal::Null => "NULL".to_owned(),
                            Literal::Int(value) => value.to_string(),
                            Literal::UInt(value) => value.to_string(),
                            Literal::Float(value) => value.to_string(),
                            Literal::Text(value) => value,
                        }),
                    };
                    variables::set(session, self.settings(), name, value)?;
                }
            }
        }
        Ok(())
    }

    /// What an expression is.
    async fn evaluate(
        &self,
        session: &Session,
        expression: &ast::Expr,
        values: &[Literal],
    ) -> Result<Literal, SqlError> {
        let parsed = Parsed {
            statement: Statement::Query(statement::select_of(vec![expression.clone()])?),
            parameters: values.len(),
            items: Items::new(),
        };
        let Reply::Rows(mut rows) = self.run_query(session, values, || Ok(parsed)).await? else {
            return Ok(Literal::Null);
        };
        let mut first = Literal::Null;
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            count += batch.num_rows();
            if count > 1 || batch.num_columns() != 1 {
                return Err(SqlError::wrong_arguments("one value is wanted"));
            }
            if batch.num_rows() == 1 {
                let cells = functions::value::Cells::new(batch.column(0))?;
                first = match cells.get(0) {
                    functions::value::Value::Null => Literal::Null,
                    functions::value::Value::Int(value) => Literal::Int(value),
                    functions::value::Value::UInt(value) => Literal::UInt(value),
                    functions::value::Value::Double(value) => Literal::Float(value),
                    other => Literal::Text(other.to_text().into_owned()),
                };
            }
        }
        Ok(first)
    }
}

/// The query of a statement that is one.
fn query_of(statement: Statement) -> Result<Box<ast::Query>, SqlError> {
    match statement {
        Statement::Query(query) => Ok(query),
        _ => Err(SqlError::internal("not a query")),
    }
}

/// Refuses more values than a statement has `?`.
fn check_count(parsed: &Parsed, values: &[Literal]) -> Result<(), SqlError> {
    match values.len() > parsed.parameters {
        true => Err(SqlError::wrong_arguments(format!(
            "the statement has {} '?', and {} values were given",
            parsed.parameters,
            values.len()
        ))),
        false => Ok(()),
    }
}

/// Whether reports may be made and dropped.
fn may_change(session: &Session, given: Option<&str>) -> Result<(), SqlError> {
    let database = match given {
        Some(given) => database(given)?,
        None => session.database.clone().unwrap_or_default(),
    };
    match (session.admin, database.as_str()) {
        (true, "pinba") => Ok(()),
        (true, _) => Err(SqlError::no_such_database(format!(
            "reports are made in database pinba, not in '{database}'"
        ))),
        (false, _) => Err(SqlError::access_denied(
            "Access denied; you need the role admin for this operation",
        )),
    }
}

/// A database by its name.
pub(super) fn database(name: &str) -> Result<String, SqlError> {
    let lower = name.to_lowercase();
    match lower.as_str() {
        "pinba" | "information_schema" => Ok(lower),
        _ => Err(SqlError::no_such_database(format!(
            "Unknown database '{name}'"
        ))),
    }
}

/// Columns by the names that MySQL gives them.
fn named(columns: Arc<[SqlColumn]>, names: &ColumnNames) -> Arc<[SqlColumn]> {
    let mut answer = names.answer.iter().peekable();
    columns
        .iter()
        .map(|column| {
            let mut column = column.clone();
            if let Some((_, name)) = answer.next_if(|(internal, _)| *internal == column.name) {
                column.name.clone_from(name);
            } else if let Some((name, _)) = column.name.split_once(MARK) {
                column.name = name.to_owned();
            } else if let Some(name) = names.inner.get(&column.name) {
                column.name.clone_from(name);
            } else if let Some((_, own)) = &column.origin
                && own.eq_ignore_ascii_case(&column.name)
            {
                column.name.clone_from(own);
            }
            column
        })
        .collect()
}

#[cfg(test)]
mod tests;
