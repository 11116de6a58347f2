//! `/api/v1/requests` and `/api/v1/requests/{id}`: raw requests in memory, and those of the past.
//!
//! The search runs in the read model, which knows how rows are kept; this module writes its answer.
//! A page holds at most [`LIMIT_MAX`] rows; `before_id` asks for the next one, which works because
//! ids only grow. In the past ids are unique within a run, so `before` also has the run, and the
//! second, by which files are found.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Map, json};

use super::search::{conditions, range, with_timers};
use crate::http::answer::body::RowBody;
use crate::http::answer::format::{self, Answer, Format};
use crate::http::answer::json as write;
use crate::http::answer::writer::{Member, RowWriter};
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::params::{self, Params, limited};
use crate::http::time_range::Span;
use crate::input::squid::activity::{Activity, Measures};
use crate::query::answer::{RequestDetail, RequestPage, TimerDetail};
use crate::query::catalog::Catalog;
use crate::query::question::{RequestName, RequestQuestion, Spans, When};
use crate::value::Value;

/// Rows in an answer without `limit`.
pub(in crate::http) const LIMIT_DEFAULT: usize = 100;

/// Most rows in one page, and the meaning of `limit=0`.
const LIMIT_MAX: usize = 100_000;

/// Most rows in one page with timers.
const TIMERS_LIMIT_MAX: usize = 1_000;

/// `GET /api/v1/requests`
pub(in crate::http) async fn list(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
) -> Answer {
    app.read_rows(false, move |source| {
        let (question, format) = parse(params, &headers, source.unix_ms())?;
        let page = source.requests(&question)?;
        Ok(write_page(page, &question.when, format))
    })
    .await
}

/// The parameters of the past: its span, whether the slowest come first, and the request after
/// which the page begins; `None` if it is not requested.
fn past(params: &mut Params) -> Result<Option<(Span, bool, Option<RequestName>)>, Problem> {
    let is_past = params.get("from").or(params.get("to")).is_some();
    let span = Span::take(params);
    let slowest = params.word("sort", &["-timestamp", "-req_time"])? == "-req_time";
    let accepted = "the next_before of the page before, with sort=-timestamp";
    let name = |text: &str| RequestName::parse(text).filter(|_| !slowest);
    let before = params.parsed("before", accepted, name)?;
    match ["sort", "before"].into_iter().find(|name| params.get(name).is_some()) {
        Some(name) if !is_past => Err(Problem::parameter(name, "goes with from and to")),
        _ => Ok(is_past.then_some((span, slowest, before))),
    }
}

/// Parses the parameters of a search.
pub(in crate::http) fn parse(
    mut params: Params,
    headers: &HeaderMap,
    now_ms: u64,
) -> Result<(RequestQuestion, Format), Problem> {
    let limit = params.count("limit", LIMIT_DEFAULT)?;
    let timers = with_timers(&mut params)?;
    let (limit_max, with) =
        if timers { (TIMERS_LIMIT_MAX, " with timers") } else { (LIMIT_MAX, "") };
    let limit = limited(limit, limit_max, with, ", and before_id for the next page")?;
    let mut search = range(&mut params, now_ms)?;
    search.limit = limit;
    search.timers = timers;
    conditions(&mut params, &mut search)?;
    let past = past(&mut params)?;
    if past.is_some() && search.before_id.is_some() {
        let why = "is for requests in memory; pages of the past go on with before";
        return Err(Problem::parameter("before_id", why));
    }
    let format = Format::wanted(params.text("format").as_deref(), headers, Format::ROWS)?;
    params.finish()?;
    if timers && format == Format::Csv {
        let problem = Problem::parameter("timers", "a line of CSV has no place for timers");
        return Err(problem.accepting(["format=json", "format=ndjson"]));
    }
    let (when, slowest, before) = match past {
        None => (When::Now, None, None),
        Some((span, slowest, before)) => {
            let spans = span.at(now_ms, None)?;
            let spans = spans.ok_or_else(|| Problem::parameter("from", "is missing"))?;
            (When::Span(spans), slowest.then_some(0), before)
        }
    };
    Ok((RequestQuestion { when, search, slowest, before }, format))
}

fn write_page(page: RequestPage, when: &When, format: Format) -> RowBody {
    let table = page.table;
    let mut head = Map::new();
    head.insert("as_of".into(), write::number(page.as_of_ms as f64 / 1e3));
    let mut tail = json!({"next_before_id": page.next_before_id});
    if let When::Span(Spans { span, .. }) = when {
        head.insert("from".into(), span.start.into());
        head.insert("to".into(), span.end.into());
        tail["next_before"] = page.next_before.map(|it| it.to_string()).into();
    }
    if when != &When::Now || !page.partial.is_empty() {
        head.insert("partial".into(), page.partial.into());
    }
    let mut writer = RowWriter::of_table(format, table.as_ref());
    if !page.timers.is_empty() {
        writer = writer.with_member("timers", timers_member(page.timers));
    }
    let rows = (0..table.len()).collect();
    RowBody::start(table, rows, writer, &head.into(), &tail)
}

/// `GET /api/v1/requests/{id}`
pub(in crate::http) async fn read(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    mut params: Params,
) -> Answer {
    let id = params::id(&id)?;
    let run = params.number("run")?;
    params.finish()?;
    let find = move |source: &Catalog| Ok(write_detail(source.request(id, run)?));
    let body = match run {
        None => app.query(find).await,
        // Files may have to be searched.
        Some(_) => app.read(false, find).await,
    };
    Ok(format::json(StatusCode::OK, body?))
}

/// Writes the row, with the tags as an object instead of text, and the timers.
fn write_detail(detail: RequestDetail) -> Vec<u8> {
    let mut out = b"{".to_vec();
    let row = detail.row.as_ref();
    for (at, column) in row.columns().iter().enumerate() {
        write::name(&mut out, &column.name);
        if column.name == "tags" {
            write::tags(&mut out, &detail.tags);
        } else {
            write::value(&mut out, &row.value(0, at));
        }
        out.push(b',');
    }
    write::name(&mut out, "timers");
    write_timers(&mut out, &detail.timers);
    if let Some(measures) = &detail.activities {
        out.push(b',');
        write::name(&mut out, "activities");
        write_activities(&mut out, measures);
    }
    out.push(b'}');
    out
}

/// Writes the data on a Squid request's activities as an array. Unknown values are null.
fn write_activities(out: &mut Vec<u8>, measures: &Measures) {
    for (activity, known) in Activity::ALL.iter().zip(measures) {
        out.push(if *activity as usize == 0 { b'[' } else { b',' });
        let (name, state) = (activity.name(), known.state().name());
        out.extend_from_slice(
            format!("{{\"activity\":\"{name}\",\"state\":\"{state}\"").as_bytes(),
        );
        let resident_us = known.resident_ms.map(|ms| ms.saturating_mul(1000));
        let times = [known.start_us, known.first_delay_us, known.total_us, resident_us];
        write_times(out, ["start", "first_delay", "total", "resident"].into_iter().zip(times));
        out.push(b'}');
    }
    out.push(b']');
}

/// Writes times as further members of an object; unknown ones are null.
fn write_times<'a>(out: &mut Vec<u8>, times: impl IntoIterator<Item = (&'a str, Option<u64>)>) {
    for (name, us) in times {
        out.push(b',');
        write::name(out, name);
        write::value(out, &us.map_or(Value::Null, Value::Micros));
    }
}

/// A writer for the timers of each row.
pub(in crate::http) fn timers_member(timers: Vec<Vec<TimerDetail>>) -> Member {
    Box::new(move |out, row| write_timers(out, timers.get(row).map_or(&[], Vec::as_slice)))
}

/// Writes the timers of one request as an array.
fn write_timers(out: &mut Vec<u8>, timers: &[TimerDetail]) {
    for (at, timer) in timers.iter().enumerate() {
        out.push(if at == 0 { b'[' } else { b',' });
        let (id, hits) = (timer.id, timer.hit_count);
        out.extend_from_slice(format!("{{\"id\":{id},\"hit_count\":{hits}").as_bytes());
        let times = timer.rusage.times_us();
        let start = timer.rusage.start_us().map(|us| ("start", Some(us)));
        let numbers = [
            ("value", Some(timer.value_us)),
            ("ru_utime", times.map(|it| it[0])),
            ("ru_stime", times.map(|it| it[1])),
        ];
        write_times(out, numbers.into_iter().chain(start));
        out.extend_from_slice(b",\"tags\":");
        write::tags(out, &timer.tags);
        out.push(b'}');
    }
    out.extend_from_slice(if timers.is_empty() { b"[]" } else { b"]" });
}
