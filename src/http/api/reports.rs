//! `/api/v1/reports` and below: lists, reads, creates and drops reports; `/api/v1/info` and
//! `/api/v1/reset`.
//!
//! Parameters are checked twice: their form before a report is looked for, the columns they name
//! against those it has. What is read are the rows that they select; here these are written.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value as Json, json};

use super::requests::LIMIT_DEFAULT;
use crate::clock::rfc3339;
use crate::config::suggest;
use crate::grammar::native::ReportForm;
use crate::grammar::percentile::{percentile_hint, percentile_of_name, percentiles};
use crate::http::answer::body::RowBody;
use crate::http::answer::format::{self, Answer, Format, ok};
use crate::http::answer::json as write;
use crate::http::answer::order::Sort;
use crate::http::answer::writer::RowWriter;
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::fleet;
use crate::http::params::{NoParams, Params, encode, list_items, whole};
use crate::http::request_checks::{JsonBody, members};
use crate::http::time_range::Span;
use crate::query::answer::{INDEX_VALUE, MEANT_ROWS, OfSpan, ReportAnswer, ReportSummary};
use crate::query::catalog::{Catalog, SelectedRows};
use crate::query::error::QueryError;
use crate::query::question::{ReportQuestion, When};
use crate::report::definition::Columns;
use crate::report::read::selection::RowSelection;
use crate::value::{Column, Value};

/// `GET /api/v1/reports`
pub(in crate::http) async fn list(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let reports = app.query(|source| Ok(source.reports())).await?;
    let reports: Vec<Json> = reports.iter().map(summary).collect();
    ok(json!({ "reports": reports }))
}

/// One report as listed.
fn summary(report: &ReportSummary) -> Json {
    let column = |column: &Column| {
        json!({
            "name": column.name,
            "type": column.column_type.name(),
            "unit": column.unit.name(),
        })
    };
    let mut summary = json!({
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
        // It is listed when it has been filled.
        "complete": true,
    });
    if !report.partial.is_empty() {
        summary["partial"] = json!(report.partial);
    }
    summary
}

/// `POST /api/v1/reports`
pub(in crate::http) async fn create(
    State(app): State<Arc<App>>,
    _: NoParams,
    JsonBody(body): JsonBody,
) -> Answer {
    let form = form(body)?;
    let report = app.query(move |source| Ok(source.create_report(&form)?)).await?;
    let location = format!("/api/v1/reports/{}", encode(&report.name));
    let mut response = format::json(StatusCode::CREATED, summary(&report).to_string());
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Parses an object with a name; the read model checks the rest.
fn form(body: Option<Json>) -> Result<ReportForm, Problem> {
    const EXAMPLE: &str = r#"{"name": "by_group", "comment": "tag_info:group"}"#;
    let mut definition = members(body, EXAMPLE)?;
    let bad = |why: String| Err(Problem::parameter("name", why));
    match definition.shift_remove("name") {
        Some(Json::String(name)) if !name.is_empty() => {
            let form = ReportForm::from_members(&name, definition);
            Ok(form.map_err(QueryError::from)?)
        }
        Some(_) => bad("must be a text that is not empty".to_owned()),
        None => bad(format!("is missing; accepted: {EXAMPLE}")),
    }
}

/// `DELETE /api/v1/reports/{name}`
pub(in crate::http) async fn drop_one(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    _: NoParams,
    _: JsonBody,
) -> Answer {
    let body = app.query(move |source| {
        Ok(json!({"persistent": source.drop_report(&name)?, "dropped": name}))
    });
    ok(body.await?)
}

/// `GET /api/v1/reports/{name}`
pub(in crate::http) async fn read(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> Answer {
    let is_fleet = fleet::is_named(&params);
    let mut query = Query::parse(params, &headers)?;
    app.read_rows(is_fleet, move |source| {
        let (when, whose) = fleet::take_time(&query.span, &mut query.keys, source, &name)?;
        let question = ReportQuestion {
            when,
            whose,
            columns: query.report_columns(source, &name)?,
            needed: None,
            equal: query.keys.key_texts(),
        };
        let selection = |all: &[Column], keys: &[usize]| query.selection(all, keys);
        let selected = source.select(&name, &question, selection)?;
        check_chosen(&question, &selected)?;
        let mut head = match &selected.answer.of_span {
            Some(of_span) => span_members(of_span, &selected.answer.partial),
            None => live_members(source, &name, &selected.answer),
        };
        if selected.total == 0 && question.when == When::Now && !question.equal.is_empty() {
            let some = |_: &[Column], keys: &[usize]| -> Result<_, Problem> {
                let columns = Some(keys.to_vec());
                Ok(RowSelection { columns, limit: MEANT_ROWS, ..RowSelection::default() })
            };
            let some = source.select(&name, &ReportQuestion::default(), some)?.answer;
            if let Some(meant) = some.meant(&question.equal) {
                let remarks = head.entry("partial").or_insert_with(|| json!([]));
                remarks.as_array_mut().into_iter().for_each(|it| it.push(meant.as_str().into()));
            }
        }
        Ok(query.write(source, &name, selected, head))
    })
    .await
}

/// The additional members of a live answer: what it rests on, if that is less than everything, and
/// the span for which it has rows of history, or lacks them, if its window reaches that.
fn live_members(source: &Catalog, name: &str, answer: &ReportAnswer) -> Map<String, Json> {
    let mut members = Map::new();
    let mut remarks = answer.partial.clone();
    let [refilled, _] = source.refilled_in(name).unwrap_or_default();
    if reaches(answer, &refilled) {
        let Range { start, end } = refilled;
        let span = json!({"from": start, "to": end, "resolution_seconds": 60});
        members.insert("refilled".to_owned(), span);
    }
    remarks.extend(lost_remark(source, name, answer));
    remarks.extend(source.counted_again(answer.window_seconds));
    remarks.extend(source.why_lacking().filter(|_| answer.window_seconds > 0.0));
    if !remarks.is_empty() {
        members.insert("partial".to_owned(), remarks.into());
    }
    members
}

/// A remark on the span that a live answer lacks after a kill.
pub(in crate::http) fn lost_remark(
    source: &Catalog,
    name: &str,
    answer: &ReportAnswer,
) -> Option<String> {
    let [_, lost] = source.refilled_in(name)?;
    reaches(answer, &lost).then(|| {
        format!(
            "what was counted from {} to {}, before this start, is lost to {name}: history has no rows of it",
            rfc3339(lost.start),
            rfc3339(lost.end)
        )
    })
}

/// Whether the window of a live answer reaches a span.
fn reaches(answer: &ReportAnswer, span: &Range<u64>) -> bool {
    let begin = (answer.as_of_ms as f64 / 1e3 - answer.window_seconds).max(0.0) as u64;
    !span.is_empty() && begin < span.end
}

/// The additional members of an answer about the past.
fn span_members(of_span: &OfSpan, partial: &[String]) -> Map<String, Json> {
    let mut members = Map::new();
    let mut set = |name: &str, value: Json| members.insert(name.to_owned(), value);
    set("from", of_span.spans.span.start.into());
    set("to", of_span.spans.span.end.into());
    if let Some(before) = &of_span.spans.before {
        set("compare_from", before.start.into());
        set("compare_to", before.end.into());
    }
    set("resolution_seconds", of_span.resolution_seconds.into());
    set("percentile_error", of_span.percentile_error.into());
    set("partial", partial.into());
    members
}

/// The formats for the rows of a report.
const FORMATS: &[Format] = match cfg!(feature = "sql") {
    true => &[Format::Json, Format::Ndjson, Format::Csv, Format::Arrow],
    false => &[Format::Json, Format::Ndjson, Format::Csv],
};

/// The parameters of a read.
#[derive(Debug)]
struct Query {
    sort: Vec<Sort>,
    limit: usize,
    offset: usize,
    columns: Option<Vec<String>>,
    /// Additional percentiles, which bring the columns of the native form along.
    percentiles: Option<Vec<f64>>,
    format: Format,
    span: Span,
    /// Remaining parameters: key columns with the text their values must have.
    keys: Params,
}

impl Query {
    fn parse(mut params: Params, headers: &HeaderMap) -> Result<Self, Problem> {
        let sort = list_of_columns(&mut params, "sort")?.unwrap_or_default();
        let limit = params.count("limit", LIMIT_DEFAULT)?;
        let offset = params.count("offset", 0)?;
        let columns = list_of_columns(&mut params, "columns")?;
        let sort = sort.iter().map(|text| Sort::parse(text)).collect();
        let ranks = params.text("percentiles").map(|text| percentiles(&text)).transpose();
        let ranks = ranks.map_err(|why| Problem::parameter("percentiles", why))?;
        Ok(Self {
            sort,
            limit,
            offset,
            percentiles: ranks,
            columns,
            format: Format::wanted(params.text("format").as_deref(), headers, FORMATS)?,
            span: Span::take_compared(&mut params),
            keys: params,
        })
    }

    /// The columns in which to read the report: `columns=script_name,p95,error_count` needs no
    /// `percentiles` beside it, nor does `sort=-p95`. Tables of other kinds have only their own,
    /// some of which are called like a percentile.
    fn report_columns(&mut self, source: &Catalog, name: &str) -> Result<Columns, Problem> {
        let own = match &self.percentiles {
            None => Columns::Own,
            Some(ranks) => Columns::Extended(ranks.clone()),
        };
        let shown = match &own {
            Columns::Own => source.columns_of(name),
            added => source.columns_with(name, added),
        };
        let shown = shown.map(|it| it.0);
        if shown.is_none() && own != Columns::Own && source.listed(name).is_ok() {
            return Err(Problem::parameter("percentiles", format!("{name:?} has none to add")));
        }
        let names = self.columns.iter().flatten().chain(self.sort.iter().map(|by| &by.column));
        let names: Vec<&String> = names.collect();
        // A column of a comparison is there if the one that it compares is.
        let compared = ["_change", "_before"];
        let has = |all: &[Column], name: &str| all.iter().any(|it| it.name == name);
        let has_all = |all: &[Column]| {
            names.iter().all(|name| {
                let mut of = compared.iter().filter_map(|end| name.strip_suffix(end));
                has(all, name) || of.any(|name| has(all, name))
            })
        };
        if names.is_empty() || shown.as_deref().is_some_and(has_all) {
            return Ok(own);
        }
        let named = names.iter().filter_map(|name| percentile_of_name(name));
        let mut ranks: Vec<f64> = self.percentiles.iter().flatten().copied().chain(named).collect();
        ranks.sort_by(f64::total_cmp);
        ranks.dedup();
        match (&shown, source.columns_with(name, &Columns::Extended(ranks.clone()))) {
            (Some(_), None) => return Ok(own),
            // The error lists one.
            (_, Some((all, _))) if ranks.is_empty() && !has_all(&all) => ranks.push(95.0),
            _ => {}
        }
        if let (None, Some(shown)) = (&self.columns, shown) {
            // `sort` alone adds no columns.
            self.columns = Some(shown.into_iter().map(|it| it.name).collect());
        }
        Ok(Columns::Extended(ranks))
    }

    /// Checks the query against the columns that the report has. Gives the rows and columns that
    /// are shown.
    fn selection(&self, all: &[Column], keys: &[usize]) -> Result<RowSelection<'_>, Problem> {
        let shown = |names: &Vec<String>| {
            names.iter().map(|name| column(all, "columns", name)).collect::<Result<_, _>>()
        };
        let columns = self.columns.as_ref().map(shown).transpose()?;
        let sort = self.sort.iter();
        let sort = sort.map(|by| Ok((column(all, "sort", &by.column)?, by.descending)));
        let order = sort.collect::<Result<_, Problem>>()?;
        let names: Vec<&str> = keys.iter().map(|key| all[*key].name.as_str()).collect();
        let equal = self.keys.keys(&names, all)?.into_iter();
        let equal = equal.map(|(key, text)| Ok((keys[key], wanted(&all[keys[key]], text)?)));
        Ok(RowSelection {
            columns,
            equal: equal.collect::<Result<_, Problem>>()?,
            order,
            offset: self.offset,
            limit: self.limit,
        })
    }

    /// Writes the answer's beginning.
    fn write(
        &self,
        source: &Catalog,
        name: &str,
        selected: SelectedRows,
        further: Map<String, Json>,
    ) -> RowBody {
        let answer = selected.answer;
        let all = answer.table.columns();
        let named = selected.columns.iter().map(|at| (*at, all[*at].name.as_str()));
        let writer = RowWriter::new(self.format, true, named);
        let mut head = json!({
            "report": name,
            "window_seconds": write::number(answer.window_seconds),
            "covered_seconds": source.covered_secs(&answer),
            "as_of": write::number(answer.as_of_ms as f64 / 1e3),
            "total_rows": selected.total,
        });
        if let Some(head) = head.as_object_mut() {
            head.extend(further);
        }
        RowBody::start(answer.table, selected.rows, writer, &head, &json!({}))
    }
}

/// Checks that a row of a histogram view was named: without one there is nothing to show.
fn check_chosen(question: &ReportQuestion, selected: &SelectedRows) -> Result<(), Problem> {
    let mut columns = selected.answer.table.columns().iter();
    let is_view = columns.next().is_some_and(|it| it.name == INDEX_VALUE)
        && columns.next().is_some_and(|it| it.name == "segment");
    let is_chosen = question.equal.iter().any(|(column, _)| column == INDEX_VALUE);
    match is_view && !is_chosen && selected.rows.is_empty() {
        true => Err(Problem::parameter(
            INDEX_VALUE,
            "is missing; accepted: that of a row of the report, as the report itself shows it",
        )),
        false => Ok(()),
    }
}

/// The number of a column.
fn column(all: &[Column], parameter: &str, name: &str) -> Result<usize, Problem> {
    let names = || all.iter().map(|column| column.name.as_str());
    names().position(|other| other == name).ok_or_else(|| {
        // `req_time_p95` as there is `req_time_median`.
        let ranked = name.rsplit_once("_p").map(|(_, rank)| format!("p{rank}"));
        let ranked = ranked.filter(|it| percentile_of_name(it).is_some());
        let question = match ranked.filter(|_| names().any(|it| it.ends_with("_median"))) {
            Some(ranked) => format!("; did you mean {ranked:?}?"),
            None => suggest::question(name, names()),
        };
        let percentile = percentile_hint(name);
        let why = format!("there is no column {name:?}{question}{percentile}");
        Problem::parameter(parameter, why).accepting(names())
    })
}

/// Parses a list of distinct columns; each may have a leading minus.
fn list_of_columns(
    params: &mut Params,
    name: &'static str,
) -> Result<Option<Vec<String>>, Problem> {
    let Some(text) = params.text(name) else { return Ok(None) };
    let mut known = HashSet::new();
    let columns = list_items(&text);
    for column in &columns {
        let bare = column.strip_prefix('-').filter(|_| name == "sort");
        let column = bare.unwrap_or(column);
        if column.is_empty() || column == "-" {
            let why = "is not a list of columns; accepted: names with commas between them";
            return Err(Problem::parameter(name, format!("{text:?} {why}")));
        }
        if !known.insert(column) {
            let why = format!("column {column:?} is given more than once");
            return Err(Problem::parameter(name, why));
        }
    }
    Ok(Some(columns))
}

/// The value that a key column must have.
fn wanted<'a>(column: &Column, text: &'a str) -> Result<Value<'a>, Problem> {
    if column.column_type.is_text() {
        return Ok(Value::Text(text.into()));
    }
    let bad = || format!("{text:?} is not accepted; a whole number is");
    // No value is beyond 64 bits.
    let number = text.parse().ok().or_else(|| whole(text).map(|_| i64::MAX));
    number.map(Value::Int).ok_or_else(|| Problem::parameter(&column.name, bad()))
}

/// `GET /api/v1/info`
pub(in crate::http) async fn info(State(app): State<Arc<App>>, mut params: Params) -> Answer {
    let span = Span::take_compared(&mut params);
    let is_fleet = fleet::is_named(&params);
    let row = app.read(is_fleet, move |source| {
        let (when, whose) = fleet::take_time(&span, &mut params, source, "info")?;
        params.finish()?;
        let question = ReportQuestion { when, whose, ..ReportQuestion::default() };
        let answer = source.report("info", &question)?;
        let further = match &answer.of_span {
            Some(of_span) => {
                let mut members = span_members(of_span, &answer.partial);
                members.insert("covered_seconds".into(), answer.covered_seconds.into());
                members
            }
            None => live_members(source, "info", &answer),
        };
        let mut table = answer.table;
        if table.is_empty() {
            return Err(Problem::not_found("there is no info yet"));
        }
        let columns: Vec<usize> = (0..table.columns().len()).collect();
        table.load(&columns, None)?;
        let mut row = Vec::new();
        let writer = RowWriter::of_table(Format::Json, table.as_ref());
        writer.bare_row(&mut row, &writer.rows(table.as_ref(), &[0]), 0);
        if !further.is_empty() {
            row.pop();
            let further = Json::from(further).to_string();
            row.push(b',');
            row.extend_from_slice(&further.as_bytes()[1..]);
        }
        Ok(row)
    });
    Ok(format::json(StatusCode::OK, row.await?))
}

/// `POST /api/v1/reset`
pub(in crate::http) async fn reset(
    State(app): State<Arc<App>>,
    _: NoParams,
    body: JsonBody,
) -> Answer {
    body.nothing()?;
    app.query(|source| Ok(source.reset()?)).await?;
    ok(r#"{"reset":true}"#)
}
