//! `/api/v1/reports` and what is below it: list, read, make and drop reports; `/api/v1/info` and `/api/v1/reset`.
//!
//! Reading is the work of this front end that can be large: the read model hands over the whole report as a table, and here rows
//! are filtered by key, sorted, cut and written. Parameters are checked twice: their form before the read model is queried,
//! the columns they name against the table that came back, so that a report that was replaced in between cannot be misread.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value as Json, json};

use super::requests::LIMIT_DEFAULT;
use crate::http::answer::body::RowBody;
use crate::http::answer::format::{self, Format};
use crate::http::answer::json as write;
use crate::http::answer::order::{Sort, SortBy, choose};
use crate::http::answer::writer::RowWriter;
use crate::http::app::{Answer, App};
use crate::http::error::Problem;
use crate::http::params::{self, KEY_PREFIX, NoParams, Params, PathParts, encode};
use crate::http::request_checks::JsonBody;
use crate::query::error::QueryError;
use crate::query::read_model::{ReportAnswer, ReportSummary};
use crate::report::comment;
use crate::report::form::ReportForm;
use crate::value::{Column, ColumnType, Value};

/// `GET /api/v1/reports`
pub(in crate::http) async fn list(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let reports = app.query(|source| Ok(source.reports())).await?;
    let reports: Vec<Json> = reports.iter().map(summary).collect();
    let body = json!({ "reports": reports });
    Ok(format::json(StatusCode::OK, body.to_string()))
}

/// One report as it is listed.
fn summary(report: &ReportSummary) -> Json {
    let column = |column: &Column| json!({"name": column.name, "type": column.column_type.name()});
    json!({
        "name": report.name,
        "kind": report.kind,
        "comment": report.comment,
        "keys": report.keys,
        "window_seconds": write::number(report.window_seconds),
        "rows": report.rows,
        "columns": report.columns.iter().map(column).collect::<Vec<_>>(),
        "definition": report.definition,
        "defined": report.defined.name(),
        "persistent": report.persistent,
        "complete": report.complete,
    })
}

/// `POST /api/v1/reports`
pub(in crate::http) async fn create(
    State(app): State<Arc<App>>,
    _: NoParams,
    JsonBody(body): JsonBody,
) -> Answer {
    let form = form(body)?;
    let created = app.query(move |source| Ok(source.create_report(form)?));
    let report = created.await?;
    let location = format!("/api/v1/reports/{}", encode(&report.name));
    let mut response = format::json(StatusCode::CREATED, summary(&report).to_string());
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// An object with a name; the rest is for the read model to check.
fn form(body: Option<Json>) -> Result<ReportForm, Problem> {
    const EXAMPLE: &str = r#"{"name": "by_group", "comment": "tag_info:group"}"#;
    let Some(Json::Object(mut definition)) = body else {
        let why = format!("the body must be a JSON object such as {EXAMPLE}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, why));
    };
    let bad = |why: String| Err(Problem::parameter("name", why));
    match definition.shift_remove("name") {
        Some(Json::String(name)) if !name.is_empty() => {
            let form = ReportForm::from_members(&name, definition);
            Ok(form.map_err(|error| QueryError::bad_value("report", error.to_string()))?)
        }
        Some(_) => bad("must be a text that is not empty".to_owned()),
        None => bad(format!("is missing; accepted: {EXAMPLE}")),
    }
}

/// `DELETE /api/v1/reports/{name}`
pub(in crate::http) async fn drop_one(
    State(app): State<Arc<App>>,
    PathParts(name): PathParts<String>,
    _: NoParams,
    _: JsonBody,
) -> Answer {
    let dropped = {
        let name = name.clone();
        app.query(move |source| Ok(source.drop_report(&name)?))
    };
    let body = json!({"persistent": dropped.await?, "dropped": name});
    Ok(format::json(StatusCode::OK, body.to_string()))
}

/// `GET /api/v1/reports/{name}`
pub(in crate::http) async fn read(
    State(app): State<Arc<App>>,
    PathParts(name): PathParts<String>,
    params: Params,
    headers: HeaderMap,
) -> Answer {
    let query = Query::parse(params, &headers)?;
    app.read_rows(move |source| {
        let answer = match &query.percentiles {
            None => source.report(&name, query.needed().as_deref(), &query.keys)?,
            Some(percentiles) => source.ranking(&name, percentiles)?,
        };
        query.write(&name, answer)
    })
    .await
}

/// What a client wants to see of a report.
#[derive(Debug)]
struct Query {
    sort: Vec<Sort>,
    limit: usize,
    offset: usize,
    columns: Option<Vec<String>>,
    /// Native columns with these are wanted instead of the report's own.
    percentiles: Option<Vec<f64>>,
    /// Key columns and the text their values must have.
    keys: Vec<(String, String)>,
    format: Format,
    /// The parameters with a name of their own, for messages.
    known: Vec<&'static str>,
}

impl Query {
    fn parse(mut params: Params, headers: &HeaderMap) -> Result<Self, Problem> {
        let sort = list_of_columns(&mut params, "sort")?.unwrap_or_default();
        let sort: Vec<Sort> = sort.iter().map(|text| Sort::parse(text)).collect();
        not_twice("sort", sort.iter().map(|by| &by.column))?;
        let limit = params.count("limit", LIMIT_DEFAULT)?;
        let offset = params.count("offset", 0)?;
        let columns = list_of_columns(&mut params, "columns")?;
        not_twice("columns", columns.iter().flatten())?;
        let percentiles = params.text("percentiles");
        let percentiles = percentiles
            .map(|text| comment::percentiles(&text))
            .transpose();
        let percentiles = percentiles.map_err(|why| Problem::parameter("percentiles", why))?;
        let format = Format::wanted(params.text("format").as_deref(), headers, Format::ROWS)?;
        let (keys, known) = params.into_keys();
        Ok(Self {
            sort,
            limit,
            offset,
            columns,
            percentiles,
            keys,
            format,
            known,
        })
    }

    /// The columns that will be read; `None`: all.
    fn needed(&self) -> Option<Vec<String>> {
        let sort = self.sort.iter().map(|by| &by.column);
        let keys = self.keys.iter().map(|(name, _)| name);
        let names = self.columns.as_ref()?.iter().chain(sort).chain(keys);
        let bare = |name: &String| name.strip_prefix(KEY_PREFIX).unwrap_or(name).to_owned();
        Some(names.flat_map(|name| [name.clone(), bare(name)]).collect())
    }

    /// Checks the query against what the report has, and writes the answer's beginning.
    fn write(&self, name: &str, answer: ReportAnswer) -> Result<RowBody, Problem> {
        let table = answer.table;
        let all = table.columns();
        let find = |parameter: &str, name: &str| {
            table.column(name).ok_or_else(|| {
                let problem = Problem::parameter(parameter, format!("there is no column {name:?}"));
                problem.accepting(all.iter().map(|column| column.name.as_str()))
            })
        };
        let columns = match &self.columns {
            None => (0..all.len()).collect(),
            Some(names) => {
                let columns = names.iter().map(|name| find("columns", name));
                columns.collect::<Result<Vec<_>, _>>()?
            }
        };
        let sort = self.sort.iter().map(|by| {
            Ok(SortBy {
                column: find("sort", &by.column)?,
                descending: by.descending,
            })
        });
        let sort: Vec<SortBy> = sort.collect::<Result<_, Problem>>()?;
        let keys = self.keys.iter().map(|(name, text)| {
            let column = self.key_column(name, all, &answer.key_columns)?;
            Ok((column, wanted(name, all[column].column_type, text)?))
        });
        let keys: Vec<(usize, Value<'_>)> = keys.collect::<Result<_, Problem>>()?;
        let keep = |row| {
            keys.iter()
                .all(|(column, wanted)| table.value(row, *column) == *wanted)
        };
        let (rows, total) = choose(table.as_ref(), &keep, &sort, self.offset, self.limit);
        let named = columns.iter().map(|at| (*at, all[*at].name.as_str()));
        let writer = RowWriter::new(self.format, true, named);
        let head = json!({
            "report": name,
            "window_seconds": write::number(answer.window_seconds),
            "covered_seconds": answer.covered_seconds,
            "as_of": write::number(answer.as_of_ms as f64 / 1e3),
            "total_rows": total,
        });
        Ok(RowBody::start(table, rows, writer, &head, &json!({})))
    }

    /// The key column that a parameter means.
    fn key_column(&self, name: &str, all: &[Column], keys: &[usize]) -> Result<usize, Problem> {
        let named = |name: &str| keys.iter().copied().find(|key| all[*key].name == name);
        let bare = name.strip_prefix(KEY_PREFIX).unwrap_or(name);
        named(name).or_else(|| named(bare)).ok_or_else(|| {
            let known = self.known.iter().copied();
            let known = known.chain(keys.iter().map(|key| all[*key].name.as_str()));
            if all.iter().all(|column| column.name != bare) {
                return params::unknown(name, known);
            }
            let why = "is not a key column, so it cannot be filtered by";
            Problem::parameter(name, why).accepting(known)
        })
    }
}

/// A parameter that is a list of columns.
fn list_of_columns(
    params: &mut Params,
    name: &'static str,
) -> Result<Option<Vec<String>>, Problem> {
    let Some(text) = params.text(name) else {
        return Ok(None);
    };
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    if names.iter().any(|name| name.is_empty() || name == "-") {
        let accepted = "names with commas between them";
        let why = format!("{text:?} is not a list of columns; accepted: {accepted}");
        return Err(Problem::parameter(name, why));
    }
    Ok(Some(names))
}

/// Refuses a list that has a name more than once.
fn not_twice<'a>(
    parameter: &str,
    mut names: impl Iterator<Item = &'a String>,
) -> Result<(), Problem> {
    let mut known = HashSet::new();
    match names.find(|name| !known.insert(*name)) {
        None => Ok(()),
        Some(name) => {
            let why = format!("column {name:?} is given more than once");
            Err(Problem::parameter(parameter, why))
        }
    }
}

/// The value that a key column must have.
fn wanted<'a>(name: &str, column_type: ColumnType, text: &'a str) -> Result<Value<'a>, Problem> {
    if matches!(column_type, ColumnType::Varchar(_) | ColumnType::Text) {
        return Ok(Value::Text(text.into()));
    }
    let bad = || format!("{text:?} is not accepted; a whole number is");
    let number = text.parse().map_err(|_| Problem::parameter(name, bad()))?;
    Ok(Value::Int(number))
}

/// `GET /api/v1/info`
pub(in crate::http) async fn info(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let row = app.query(|source| {
        let table = source.info()?;
        let mut row = Vec::new();
        if table.is_empty() {
            return Err(Problem::not_found("there is no info yet"));
        }
        RowWriter::of_table(Format::Json, table.as_ref()).bare_row(&mut row, table.as_ref(), 0);
        Ok(row)
    });
    Ok(format::json(StatusCode::OK, row.await?))
}

/// `POST /api/v1/reset`
pub(in crate::http) async fn reset(
    State(app): State<Arc<App>>,
    _: NoParams,
    JsonBody(body): JsonBody,
) -> Answer {
    if body.is_some_and(|body| body != json!({})) {
        let why = "the body must be empty or {}: there is nothing to choose";
        return Err(Problem::new(StatusCode::BAD_REQUEST, why));
    }
    app.query(|source| Ok(source.reset()?)).await?;
    Ok(format::json(StatusCode::OK, r#"{"reset":true}"#))
}
