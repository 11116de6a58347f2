//! `/api/v1/reports` and what is below it: list, read, make and drop reports.
//!
//! Reading is the work of this front end that can be large: the source hands over the whole report as a table, and here rows are
//! filtered by key, sorted, cut and written. Parameters are checked twice: their form before the source is asked,
//! the columns they name against the table that came back, so that a report that was replaced in between cannot be misread.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Map, Value as Json, json};

use super::answer::{self, RowBytes};
use super::error::Problem;
use super::guard;
use super::json as write;
use super::order::{SortBy, choose};
use super::params::{self, Params, encode};
use super::routes::App;
use super::writer::{Format, Writer};
use crate::query::source::{Needed, ReportAnswer, ReportForm, ReportSummary};
use crate::query::table::Table;
use crate::report::comment;
use crate::value::{Column, ColumnType, Value};

/// Rows in an answer when no `limit` is given.
pub(super) const LIMIT_DEFAULT: usize = 100;

/// `GET /api/v1/reports`
pub(super) async fn list(
    State(app): State<App>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    Params::parse(request.uri().query())?.finish()?;
    let reports = app.ask(|source| Ok(source.reports())).await?;
    let reports: Vec<Json> = reports.iter().map(summary).collect();
    Ok(answer::json(
        StatusCode::OK,
        json!({ "reports": reports }).to_string().into_bytes(),
    ))
}

/// One report as it is listed.
fn summary(report: &ReportSummary) -> Json {
    let columns: Vec<Json> = report
        .columns
        .iter()
        .map(|column| json!({"name": column.name, "type": column.column_type.name()}))
        .collect();
    json!({
        "name": report.name,
        "kind": report.kind,
        "comment": report.comment,
        "keys": report.keys,
        "window_seconds": seconds(report.window_seconds),
        "rows": report.rows,
        "columns": columns,
        "definition": report.definition,
        "defined": report.defined.name(),
        "persistent": report.persistent,
        "complete": report.complete,
    })
}

/// Seconds without `.0` when they are whole.
fn seconds(seconds: f64) -> Json {
    let mut out = Vec::new();
    write::value(&mut out, &Value::Float(seconds));
    serde_json::from_slice(&out).unwrap_or_default()
}

/// `POST /api/v1/reports`
pub(super) async fn create(
    State(app): State<App>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    Params::parse(request.uri().query())?.finish()?;
    let form = form(guard::read_json(request, app.body_max()).await?)?;
    let created = app
        .ask(move |source| Ok(source.create_report(form)?))
        .await?;
    let location = format!("/api/v1/reports/{}", encode(&created.report.name));
    let body = summary(&created.report).to_string();
    let mut response = answer::json(StatusCode::CREATED, body.into_bytes());
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// An object with a name; the rest is for the source to judge.
fn form(body: Option<Json>) -> Result<ReportForm, Problem> {
    const EXAMPLE: &str = r#"{"name": "by_group", "comment": "tag_info:group"}"#;
    let Some(Json::Object(mut definition)) = body else {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            format!("the body must be a JSON object such as {EXAMPLE}"),
        ));
    };
    match definition.shift_remove("name") {
        Some(Json::String(name)) if !name.is_empty() => Ok(ReportForm { name, definition }),
        Some(_) => Err(Problem::parameter(
            "name",
            "must be a text that is not empty",
        )),
        None => Err(Problem::parameter(
            "name",
            format!("is missing; accepted: {EXAMPLE}"),
        )),
    }
}

/// `DELETE /api/v1/reports/{name}`
pub(super) async fn drop_one(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let name = named(name)?;
    Params::parse(request.uri().query())?.finish()?;
    guard::read_json(request, app.body_max()).await?;
    let (name, dropped) = app
        .ask(move |source| {
            let dropped = source.drop_report(&name)?;
            Ok((name, dropped))
        })
        .await?;
    let body = json!({"dropped": name, "persistent": dropped.persistent}).to_string();
    Ok(answer::json(StatusCode::OK, body.into_bytes()))
}

/// The name in the path.
pub(super) fn named(name: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    name.map(|Path(name)| name).map_err(|_| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "the name in the path is not UTF-8 in percent-encoding",
        )
    })
}

/// `GET /api/v1/reports/{name}`
pub(super) async fn read(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let name = named(name)?;
    let ask = Ask::parse(request.uri().query(), request.headers())?;
    app.read(move |source| {
        let answer = match &ask.percentiles {
            None => source.report(&name, &ask.needed(), &ask.equal)?,
            Some(percentiles) => source.ranking(&name, percentiles)?,
        };
        ask.write(&name, answer)
    })
    .await
}

/// What a client wants to see of a report.
#[derive(Debug)]
struct Ask {
    /// Column names, and whether the largest comes first.
    sort: Vec<(String, bool)>,
    limit: usize,
    offset: usize,
    columns: Option<Vec<String>>,
    /// Native columns with these are wanted instead of the report's own.
    percentiles: Option<Vec<f64>>,
    /// Key columns and the text their values must have.
    equal: Vec<(String, String)>,
    format: Format,
    /// The parameters with a name of their own, for messages.
    known: Vec<&'static str>,
}

impl Ask {
    fn parse(query: Option<&str>, headers: &HeaderMap) -> Result<Self, Problem> {
        let mut params = Params::parse(query)?;
        let sort = params
            .take("sort")
            .map_or(Ok(Vec::new()), |text| list_of("sort", &text))?;
        let sort = sort.into_iter().map(|name| match name.strip_prefix('-') {
            Some(rest) => (rest.to_owned(), true),
            None => (name, false),
        });
        let sort: Vec<(String, bool)> = sort.collect();
        let limit = params.count("limit", LIMIT_DEFAULT)?;
        let offset = params.count("offset", 0)?;
        let columns = params
            .take("columns")
            .map(|text| list_of("columns", &text))
            .transpose()?;
        let percentiles = params
            .take("percentiles")
            .map(|text| comment::percentiles(&text))
            .transpose()
            .map_err(|why| Problem::parameter("percentiles", why))?;
        let format = answer::format(params.take("format").as_deref(), headers)?;
        let (equal, known) = params.into_rest();
        for (what, names) in [
            (
                "sort",
                sort.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            ),
            ("columns", columns.iter().flatten().collect()),
        ] {
            if let Some(twice) = names
                .iter()
                .enumerate()
                .find(|(at, name)| names[..*at].contains(name))
            {
                let why = format!("column {:?} is given more than once", twice.1);
                return Err(Problem::parameter(what, why));
            }
        }
        Ok(Self {
            sort,
            limit,
            offset,
            columns,
            percentiles,
            equal,
            format,
            known,
        })
    }

    /// The columns that will be looked at.
    fn needed(&self) -> Needed {
        let Some(columns) = &self.columns else {
            return Needed::All;
        };
        let sort = self.sort.iter().map(|(name, _)| name);
        let equal = self.equal.iter().map(|(name, _)| name);
        let mut names: Vec<String> = Vec::new();
        for name in columns.iter().chain(sort).chain(equal) {
            let bare = name.strip_prefix(KEY_PREFIX).unwrap_or(name);
            names.extend([name.clone(), bare.to_owned()]);
        }
        names.sort_unstable();
        names.dedup();
        Needed::Only(names)
    }

    /// Checks what is asked against what the report has, and writes the answer's beginning.
    fn write(&self, name: &str, answer: ReportAnswer) -> Result<RowBytes, Problem> {
        let table = answer.table;
        let all = table.columns();
        let find = |parameter: &str, name: &str| {
            table.column(name).ok_or_else(|| {
                Problem::parameter(parameter, format!("there is no column {name:?}"))
                    .accepting(all.iter().map(|column| column.name.as_str()))
            })
        };
        let columns = match &self.columns {
            None => (0..all.len()).collect(),
            Some(names) => names
                .iter()
                .map(|name| find("columns", name))
                .collect::<Result<Vec<_>, _>>()?,
        };
        let sort = self.sort.iter().map(|(name, descending)| {
            find("sort", name).map(|column| SortBy {
                column,
                descending: *descending,
            })
        });
        let sort: Vec<SortBy> = sort.collect::<Result<_, _>>()?;
        let equal = self.equal.iter().map(|(name, text)| {
            let column = self.key_column(name, all, &answer.key_columns)?;
            Equal::new(name, column, all[column].column_type, text)
        });
        let equal: Vec<Equal<'_>> = equal.collect::<Result<_, _>>()?;
        let keep = |row: usize| equal.iter().all(|equal| equal.holds(table.as_ref(), row));
        let keep: Option<&dyn Fn(usize) -> bool> =
            if equal.is_empty() { None } else { Some(&keep) };
        let (rows, total) = choose(table.as_ref(), keep, &sort, self.offset, self.limit);

        let mut head = b"{\"report\":".to_vec();
        write::text(&mut head, name);
        head.extend_from_slice(b",\"window_seconds\":");
        write::value(&mut head, &Value::Float(answer.window_seconds));
        head.extend_from_slice(b",\"covered_seconds\":");
        write::uint(&mut head, answer.covered_seconds);
        head.extend_from_slice(b",\"as_of\":");
        let mut as_of = Vec::new();
        write::millis(&mut as_of, answer.as_of_ms);
        head.extend_from_slice(&as_of);
        head.extend_from_slice(b",\"total_rows\":");
        write::uint(&mut head, total as u64);
        head.extend_from_slice(b",\"rows\":");

        let writer = Writer::new(self.format, table.as_ref(), &columns);
        let mut bytes = RowBytes::start(table, rows, writer, &head, b"}\n");
        bytes.header("x-pinbad-as-of", &as_of);
        bytes.header(
            "x-pinbad-covered-seconds",
            answer.covered_seconds.to_string().as_bytes(),
        );
        bytes.header("x-pinbad-total-rows", total.to_string().as_bytes());
        Ok(bytes)
    }

    /// The key column that a parameter means.
    fn key_column(&self, name: &str, all: &[Column], keys: &[usize]) -> Result<usize, Problem> {
        let named = |name: &str| keys.iter().copied().find(|key| all[*key].name == name);
        let bare = name.strip_prefix(KEY_PREFIX).unwrap_or(name);
        named(name).or_else(|| named(bare)).ok_or_else(|| {
            let known = self.known.iter().map(|known| (*known).to_owned());
            let problem = params::unknown(
                name,
                known.chain(keys.iter().map(|key| all[*key].name.clone())),
            );
            match all.iter().any(|column| column.name == bare) {
                true => {
                    Problem::parameter(name, "is not a key column, so it cannot be filtered by")
                        .accepting(problem.accepted().iter().cloned())
                }
                false => problem,
            }
        })
    }
}

/// What may stand before a key column, for one that is called as another parameter is: `key.limit=5`.
pub(super) const KEY_PREFIX: &str = "key.";

/// Names between commas.
fn list_of(parameter: &str, text: &str) -> Result<Vec<String>, Problem> {
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    if names.iter().any(|name| name.is_empty() || name == "-") {
        return Err(Problem::parameter(
            parameter,
            format!("{text:?} is not a list of columns; accepted: names with commas between them"),
        ));
    }
    Ok(names)
}

/// One condition on a key column.
enum Equal<'a> {
    Text(usize, &'a str),
    Int(usize, i64),
}

impl<'a> Equal<'a> {
    fn new(
        name: &str,
        column: usize,
        column_type: ColumnType,
        text: &'a str,
    ) -> Result<Self, Problem> {
        match column_type {
            ColumnType::Varchar(_) | ColumnType::Text => Ok(Self::Text(column, text)),
            ColumnType::Int | ColumnType::BigInt | ColumnType::Float | ColumnType::Double => {
                let number = text.parse().map_err(|_| {
                    Problem::parameter(name, format!("{text:?} is not accepted; a whole number is"))
                })?;
                Ok(Self::Int(column, number))
            }
        }
    }

    fn holds(&self, table: &dyn Table, row: usize) -> bool {
        match self {
            Self::Text(column, text) => {
                matches!(table.value(row, *column), Value::Text(value) if value == *text)
            }
            Self::Int(column, number) => table.value(row, *column) == Value::Int(*number),
        }
    }
}

/// `GET /api/v1/info`
pub(super) async fn info(
    State(app): State<App>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    Params::parse(request.uri().query())?.finish()?;
    let row = app
        .ask(|source| {
            let table = source.info()?;
            let columns: Vec<usize> = (0..table.columns().len()).collect();
            let mut row = Vec::new();
            if table.is_empty() {
                return Err(Problem::new(StatusCode::NOT_FOUND, "there is no info yet"));
            }
            Writer::new(Format::Json, table.as_ref(), &columns).row(&mut row, table.as_ref(), 0);
            Ok(row)
        })
        .await?;
    Ok(answer::json(StatusCode::OK, row))
}

/// `POST /api/v1/reset`
pub(super) async fn reset(
    State(app): State<App>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    Params::parse(request.uri().query())?.finish()?;
    match guard::read_json(request, app.body_max()).await? {
        None => {}
        Some(Json::Object(members)) if members.is_empty() => {}
        Some(_) => {
            let why = "the body must be empty or {}: there is nothing to choose";
            return Err(Problem::new(StatusCode::BAD_REQUEST, why));
        }
    }
    app.ask(|source| Ok(source.reset()?)).await?;
    let body = Json::Object(Map::from_iter([("reset".to_owned(), Json::Bool(true))]));
    Ok(answer::json(StatusCode::OK, body.to_string().into_bytes()))
}
