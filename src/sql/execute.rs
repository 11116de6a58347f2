//! Statements, one by one: what each does to its session, and the way of a query from text to plan.
//!
//! Called by front ends from their own tasks; plans are made on the engine's threads, so that a statement that takes long to
//! plan, or makes the planner panic, harms nobody else. A front end that goes away ends what it asked for.

use std::sync::Arc;
use std::time::Duration;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as PlannedStatement;
use datafusion::sql::sqlparser::ast;

use super::dialect::grammar;
use super::dialect::normalise::{Mode, Values, normalise};
use super::dialect::rewrite::{MARK, Noted, Surroundings, rewrite};
use super::engine::{Engine, Prepared};
use super::error::SqlError;
use super::functions;
use super::reply::{Done, Reply, Running, SqlColumn};
use super::run;
use super::session::{Literal, Session};
use super::settings::SqlSettings;
use super::statement::{self, Create, Drop, Setting, Statement};
use super::tables;
use super::variables;
use super::watch::{self, Watch};
use super::weight;
use crate::query::error::QueryError;
use crate::query::source::{ReportForm, Source};

/// A query, ready to be run.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) plan: LogicalPlan,
    pub(super) columns: Arc<[SqlColumn]>,
    pub(super) parameters: usize,
    pub(super) sleep: Duration,
}

/// Where the values of one statement come from.
pub(super) struct Given<'a> {
    session: &'a Session,
    settings: &'a SqlSettings,
    /// `None` while it is only prepared.
    values: Option<&'a [Literal]>,
}

impl<'a> Given<'a> {
    pub(super) fn new(
        session: &'a Session,
        settings: &'a SqlSettings,
        values: Option<&'a [Literal]>,
    ) -> Self {
        Self {
            session,
            settings,
            values,
        }
    }
}

impl Values for Given<'_> {
    fn parameter(&self, at: usize) -> Option<Literal> {
        match self.values {
            Some(values) => values.get(at).cloned(),
            None => Some(Literal::Null),
        }
    }

    fn is_preparing(&self) -> bool {
        self.values.is_none()
    }

    fn user_variable(&self, name: &str) -> Literal {
        let value = self.session.user_variables.get(name);
        value.cloned().unwrap_or(Literal::Null)
    }

    fn system_variable(&self, name: &str) -> Result<Literal, SqlError> {
        variables::lookup(name, self.session, self.settings)
    }
}

/// How a session's texts are to be read.
pub(super) fn mode(session: &Session) -> Mode {
    let mode = session.variables.get("sql_mode");
    mode.map(|mode| Mode::new(mode)).unwrap_or_default()
}

/// What a session's statements are read against.
pub(super) fn surroundings(session: &Session, settings: &SqlSettings) -> Surroundings {
    let time_zone = session
        .variables
        .get("time_zone")
        .map_or("SYSTEM", String::as_str);
    let now = chrono::Utc::now();
    let shown = functions::shown(now.timestamp_micros(), time_zone)
        .and_then(chrono::DateTime::from_timestamp_micros);
    Surroundings {
        database: session.database.clone(),
        user: session.user.clone(),
        connection: session.id,
        now: shown.unwrap_or(now).naive_utc(),
        now_utc: now.naive_utc(),
        time_zone: time_zone.to_owned(),
        case_insensitive: settings.case_insensitive,
    }
}

/// A query as DataFusion's planner wants it.
pub(super) struct Written {
    pub(super) query: Box<ast::Query>,
    pub(super) noted: Noted,
    pub(super) parameters: usize,
}

/// Reads a query: everything before tables are looked at.
///
/// # Errors
/// What is wrong with it, or not done here.
pub(super) fn write(
    session: &Session,
    settings: &SqlSettings,
    text: &str,
    values: Option<&[Literal]>,
) -> Result<Written, SqlError> {
    let given = Given::new(session, settings, values);
    let normal = normalise(text, mode(session), &given)?;
    if values.is_some_and(|values| values.len() > normal.parameters) {
        return Err(SqlError::wrong_arguments(format!(
            "the statement has {} '?', and {} values were given",
            normal.parameters,
            values.map_or(0, <[Literal]>::len)
        )));
    }
    let ast::Statement::Query(mut query) = grammar::parse(&normal.text)? else {
        return Err(SqlError::not_supported(
            "SELECT is answered here, not statements that begin like it",
        ));
    };
    let noted = rewrite(&mut query, &normal.items, &surroundings(session, settings))?;
    Ok(Written {
        query,
        noted,
        parameters: normal.parameters,
    })
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
            return self.start(place, self.watch(), found.plan, found.columns);
        }
        match statement::read(text, mode(session).ansi_quotes)? {
            Statement::Query => self.ask(session, text, values).await,
            Statement::Do(expressions) => {
                let text = format!("SELECT {expressions}");
                if let Reply::Rows(mut rows) = self.ask(session, &text, values).await? {
                    while let Some(batch) = rows.next().await {
                        batch?;
                    }
                }
                Ok(Reply::Done(Done::default()))
            }
            Statement::Set(settings) => {
                for setting in settings {
                    self.set(session, setting).await?;
                }
                Ok(Reply::Done(Done::default()))
            }
            Statement::Use(name) => {
                session.database = Some(database(&name)?);
                Ok(Reply::Done(Done::default()))
            }
            Statement::Begin => {
                session.in_transaction = true;
                Ok(Reply::Done(Done::default()))
            }
            Statement::End => {
                session.in_transaction = false;
                Ok(Reply::Done(Done::default()))
            }
            Statement::Nothing => Ok(Reply::Done(Done::default())),
            Statement::Show(show) => self.show(session, &show).await,
            Statement::Explain(text) => self.explain(session, &text).await,
            Statement::Create(create) => self.create(session, create).await,
            Statement::Drop(drop) => self.drop_tables(session, drop).await,
        }
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
        let (parameters, columns) = match statement::read(text, mode(session).ansi_quotes)? {
            Statement::Query => {
                let query = self.query(session, text, None).await?;
                (query.parameters, query.columns)
            }
            Statement::Show(show) => (0, self.sheet(session, &show)?.answer_columns()),
            Statement::Explain(_) => (0, super::show::plan_columns()),
            _ => (0, Arc::from([])),
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
            return Err(SqlError {
                code: 1153,
                state: "08S01",
                message: format!(
                    "the statement has {bytes} bytes, at most {most} are accepted (sql.text_max)"
                ),
            });
        }
        Ok(())
    }

    /// Plans a query on the engine's threads.
    pub(super) async fn query(
        &self,
        session: &Session,
        text: &str,
        values: Option<&[Literal]>,
    ) -> Result<Query, SqlError> {
        let (engine, session, text) = (self.clone(), session.clone(), text.to_owned());
        let values = values.map(<[Literal]>::to_vec);
        self.on_own_threads(&self.watch(), async move {
            let _place = engine.place().await?;
            let written = write(&session, engine.settings(), &text, values.as_deref())?;
            engine.plan(written).await
        })
        .await
    }

    pub(super) async fn plan(&self, written: Written) -> Result<Query, SqlError> {
        let statement = ast::Statement::Query(written.query);
        let statement = PlannedStatement::Statement(Box::new(statement));
        let plan = self.state().statement_to_plan(statement).await?;
        let plan = self.operators().finish(plan)?;
        weight::check(&plan)?;
        // (1, 2) can be compared, and not shown.
        if plan
            .schema()
            .fields()
            .iter()
            .any(|field| field.data_type().is_nested())
        {
            return Err(SqlError::several_values(
                "Operand should contain 1 column(s)",
            ));
        }
        let columns = named(tables::columns_of(&plan), &written.noted);
        Ok(Query {
            plan,
            columns,
            parameters: written.parameters,
            sleep: Duration::try_from_secs_f64(written.noted.sleep)
                .unwrap_or(Duration::MAX)
                .min(self.settings().time_max),
        })
    }

    /// Plans a query and starts it: one way to the engine's threads and back, since waking a thread costs as much as planning
    /// something small.
    pub(super) async fn ask(
        &self,
        session: &Session,
        text: &str,
        values: &[Literal],
    ) -> Result<Reply, SqlError> {
        let (engine, session, text) = (self.clone(), session.clone(), text.to_owned());
        let values = values.to_vec();
        let watch = self.watch();
        let (place, plan, columns) = self
            .on_own_threads(&watch, async move {
                let mut place = engine.place().await?;
                let written = write(&session, engine.settings(), &text, Some(&values))?;
                let query = engine.plan(written).await?;
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
        watch: &Arc<Watch>,
        work: impl Future<Output = Result<T, SqlError>> + Send + 'static,
    ) -> Result<T, SqlError> {
        let task = self.runtime()?.spawn(watch::scope(Arc::clone(watch), work));
        let ends_with_us = Running::new(task.abort_handle(), Some(Arc::clone(watch)));
        let Ok(ended) = tokio::time::timeout_at(watch.until().into(), task).await else {
            return Err(run::late(self.settings()));
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
        let mut definition = serde_json::Map::new();
        definition.insert("comment".to_owned(), comment.into());
        let form = ReportForm {
            name: name.clone(),
            definition,
        };
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

    async fn set(&self, session: &mut Session, setting: Setting) -> Result<(), SqlError> {
        match setting {
            Setting::Names(charset) => {
                let charset = charset.map(|charset| charset.to_lowercase());
                for name in [
                    "character_set_client",
                    "character_set_connection",
                    "character_set_results",
                ] {
                    session.set(name, charset.clone())?;
                }
                Ok(())
            }
            Setting::Own { name, value } => {
                let value = self.evaluate(session, &value).await?;
                session.set_own(&name, value)
            }
            Setting::System { name, value: None } => session.set(variables::canonical(&name), None),
            Setting::System {
                name,
                value: Some(value),
            } => {
                let is_word = value
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
                let value = match is_word {
                    true => value,
                    false => match self.evaluate(session, &value).await? {
                        Literal::Null => String::new(),
                        Literal::Int(value) => value.to_string(),
                        Literal::UInt(value) => value.to_string(),
                        Literal::Float(value) => value.to_string(),
                        Literal::Text(value) => value,
                    },
                };
                let name = variables::canonical(&name);
                if name == "time_zone"
                    && !value.eq_ignore_ascii_case("system")
                    && functions::zone(&value).is_none()
                {
                    return Err(SqlError {
                        code: 1298,
                        state: "HY000",
                        message: format!("Unknown or incorrect time zone: '{value}'"),
                    });
                }
                let value = match name.starts_with("character_set") {
                    true => value.to_lowercase(),
                    false => value,
                };
                session.set(name, Some(value))
            }
        }
    }

    /// What an expression is.
    async fn evaluate(&self, session: &Session, expression: &str) -> Result<Literal, SqlError> {
        let text = format!("SELECT {expression}");
        let Reply::Rows(mut rows) = self.ask(session, &text, &[]).await? else {
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
                    functions::value::V::Null => Literal::Null,
                    functions::value::V::Int(value) => Literal::Int(value),
                    functions::value::V::UInt(value) => Literal::UInt(value),
                    functions::value::V::Real(value) => Literal::Float(value),
                    other => Literal::Text(other.said().into_owned()),
                };
            }
        }
        Ok(first)
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
fn named(columns: Arc<[SqlColumn]>, noted: &Noted) -> Arc<[SqlColumn]> {
    let mut names = noted.names.iter().peekable();
    columns
        .iter()
        .map(|column| {
            let mut column = column.clone();
            if let Some((_, said)) = names.next_if(|(internal, _)| *internal == column.name) {
                column.name.clone_from(said);
            } else if let Some((name, _)) = column.name.split_once(MARK) {
                column.name = name.to_owned();
            } else if let Some(said) = noted.said.get(&column.name) {
                column.name.clone_from(said);
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
