//! `/api/v1/requests` and `/api/v1/requests/{id}`: raw requests as long as they are in memory.
//!
//! The search runs in the source, which knows how rows are kept; here its conditions are read from the parameters and its
//! answer is written. All bounds belong to the range they bound. A page holds at most [`LIMIT_MAX`] rows; the next one is asked for
//! with `before_id`, which ids allow because they only grow.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};

use super::answer::{self, RowBytes};
use super::error::Problem;
use super::json as write;
use super::order::Rows;
use super::params::{self, Params, Rounding};
use super::reports::LIMIT_DEFAULT;
use super::routes::App;
use super::writer::{Format, Member, Writer};
use crate::query::source::{
    NumberField, RequestDetail, RequestPage, RequestSearch, TextField, TimerDetail,
};

/// Most rows in one page, and what `limit=0` asks for.
pub(super) const LIMIT_MAX: usize = 100_000;

/// The same for rows with their timers.
const TIMERS_LIMIT_MAX: usize = 1_000;

/// Text columns that can be searched.
pub(super) const TEXTS: [(&str, TextField); 4] = [
    ("hostname", TextField::Hostname),
    ("server_name", TextField::ServerName),
    ("script_name", TextField::ScriptName),
    ("schema", TextField::Schema),
];

/// Whole-number columns that can be searched.
pub(super) const NUMBERS: [(&str, NumberField); 5] = [
    ("req_count", NumberField::ReqCount),
    ("timers_cnt", NumberField::TimersCnt),
    ("status", NumberField::Status),
    ("tags_cnt", NumberField::TagsCnt),
    ("timestamp", NumberField::Timestamp),
];

/// `GET /api/v1/requests`
pub(super) async fn list(
    State(app): State<App>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (search, format) = parse(request.uri().query(), request.headers())?;
    app.read(move |source| Ok(write_page(source.requests(&search)?, format)))
        .await
}

fn parse(query: Option<&str>, headers: &HeaderMap) -> Result<(RequestSearch, Format), Problem> {
    let mut params = Params::parse(query)?;
    let limit = params.count("limit", LIMIT_DEFAULT)?;
    let timers = with_timers(&mut params)?;
    let limit_max = if timers { TIMERS_LIMIT_MAX } else { LIMIT_MAX };
    let limit = match limit {
        0 => limit_max,
        limit if limit <= limit_max => limit,
        limit => {
            let with = if timers { " with timers" } else { "" };
            return Err(Problem::parameter(
                "limit",
                format!(
                    "{limit} is too many{with}; accepted: up to {limit_max} (0 means that many), and \
                     before_id for the next page"
                ),
            ));
        }
    };
    let mut search = RequestSearch {
        limit,
        before_id: params.number("before_id")?,
        since: params.moment("since", Rounding::Up)?,
        until: params.moment("until", Rounding::Down)?,
        timers,
        ..RequestSearch::default()
    };
    conditions(&mut params, &mut search)?;
    let format = answer::format(params.take("format").as_deref(), headers)?;
    params.finish()?;
    if timers && format == Format::Csv {
        let problem = Problem::parameter("timers", "a line of CSV has no place for timers");
        return Err(problem.accepting(["format=json", "format=ndjson"]));
    }
    Ok((search, format))
}

/// The parameter `timers`.
pub(super) fn with_timers(params: &mut Params) -> Result<bool, Problem> {
    match params.take("timers").as_deref() {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => {
            let problem = Problem::parameter("timers", format!("{other:?} is neither yes nor no"));
            Err(problem.accepting(["0", "1"]))
        }
    }
}

/// What a request must be like, wherever it stands.
pub(super) fn conditions(params: &mut Params, search: &mut RequestSearch) -> Result<(), Problem> {
    search.min_time_us = params.micros("min_time", Rounding::Up)?;
    search.max_time_us = params.micros("max_time", Rounding::Down)?;
    for (name, field) in TEXTS {
        search
            .texts
            .extend(params.take(name).map(|text| (field, text)));
    }
    for (name, field) in NUMBERS {
        search
            .numbers
            .extend(params.number(name)?.map(|number| (field, number)));
    }
    search.tags = params.take_prefixed("tag.", "tag.NAME");
    Ok(())
}

fn write_page(page: RequestPage, format: Format) -> RowBytes {
    let table = page.table;
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    let mut as_of = Vec::new();
    write::millis(&mut as_of, page.as_of_ms);
    let mut next = Vec::new();
    match page.next_before_id {
        Some(id) => write::uint(&mut next, id),
        None => next.extend_from_slice(b"null"),
    }
    let head = [b"{\"as_of\":", &as_of[..], b",\"rows\":"].concat();
    let tail = [b",\"next_before_id\":", &next[..], b"}\n"].concat();
    let mut writer = Writer::new(format, table.as_ref(), &columns);
    if !page.timers.is_empty() {
        writer = writer.with_member("timers", timers_member(page.timers));
    }
    let rows = Rows::Range(0..table.len());
    let mut bytes = RowBytes::start(table, rows, writer, &head, &tail);
    bytes.header("x-pinbad-as-of", &as_of);
    if page.next_before_id.is_some() {
        bytes.header("x-pinbad-next-before-id", &next);
    }
    bytes
}

/// `GET /api/v1/requests/{id}`
pub(super) async fn read(
    State(app): State<App>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let id = id.map(|Path(id)| id).unwrap_or_default();
    let id = params::number("id", &id)?;
    Params::parse(request.uri().query())?.finish()?;
    let body = app
        .ask(move |source| Ok(write_detail(&source.request(id)?)))
        .await?;
    Ok(answer::json(StatusCode::OK, body))
}

/// The row, with the tags as an object in the place of their text, and the timers.
fn write_detail(detail: &RequestDetail) -> Vec<u8> {
    let mut out = b"{".to_vec();
    let member = |out: &mut Vec<u8>, name: &str| {
        if out.len() > 1 {
            out.push(b',');
        }
        write::text(out, name);
        out.push(b':');
    };
    let row = detail.row.as_ref();
    if !row.is_empty() {
        for (at, column) in row.columns().iter().enumerate() {
            member(&mut out, &column.name);
            match column.name.as_str() {
                "tags" => write::tags(&mut out, &detail.tags),
                _ => write::value(&mut out, &row.value(0, at)),
            }
        }
    }
    member(&mut out, "timers");
    write_timers(&mut out, &detail.timers);
    out.push(b'}');
    out
}

/// What writes the timers of each row.
pub(super) fn timers_member(timers: Vec<Vec<TimerDetail>>) -> Member {
    Box::new(move |out, row| write_timers(out, timers.get(row).map_or(&[], Vec::as_slice)))
}

/// The timers of one request, as an array.
fn write_timers(out: &mut Vec<u8>, timers: &[TimerDetail]) {
    out.push(b'[');
    for (at, timer) in timers.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"{\"id\":" } else { b",{\"id\":" });
        write::uint(out, timer.id);
        out.extend_from_slice(b",\"hit_count\":");
        write::uint(out, timer.hit_count.into());
        for (name, us) in [
            (&b",\"value\":"[..], timer.value_us),
            (b",\"ru_utime\":", timer.ru_utime_us),
            (b",\"ru_stime\":", timer.ru_stime_us),
        ] {
            out.extend_from_slice(name);
            write::micros(out, us);
        }
        out.extend_from_slice(b",\"tags\":");
        write::tags(out, &timer.tags);
        out.push(b'}');
    }
    out.push(b']');
}
