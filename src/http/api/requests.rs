//! `/api/v1/requests` and `/api/v1/requests/{id}`: raw requests as long as they are in memory.
//!
//! The search runs in the read model, which knows how rows are kept; here its answer is written. A page holds at most
//! [`LIMIT_MAX`] rows; the next one is asked for with `before_id`, which ids allow because they only grow.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::json;

use super::search::{conditions, range, with_timers};
use crate::http::answer::body::RowBody;
use crate::http::answer::format::{self, Format};
use crate::http::answer::json as write;
use crate::http::answer::order::choose;
use crate::http::answer::writer::{Member, RowWriter};
use crate::http::app::{Answer, App};
use crate::http::error::Problem;
use crate::http::params::{self, NoParams, Params};
use crate::query::read_model::{RequestDetail, RequestPage, RequestSearch, TimerDetail};
use crate::value::digits;

/// Rows in an answer when no `limit` is given.
pub(in crate::http) const LIMIT_DEFAULT: usize = 100;

/// Most rows in one page, and what `limit=0` asks for.
const LIMIT_MAX: usize = 100_000;

/// The same for rows with their timers.
const TIMERS_LIMIT_MAX: usize = 1_000;

/// `GET /api/v1/requests`
pub(in crate::http) async fn list(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
) -> Answer {
    let (search, format) = parse(params, &headers)?;
    app.read_rows(move |source| Ok(write_page(source.requests(&search)?, format)))
        .await
}

fn parse(mut params: Params, headers: &HeaderMap) -> Result<(RequestSearch, Format), Problem> {
    let limit = params.count("limit", LIMIT_DEFAULT)?;
    let timers = with_timers(&mut params)?;
    let (limit_max, with) = match timers {
        true => (TIMERS_LIMIT_MAX, " with timers"),
        false => (LIMIT_MAX, ""),
    };
    if limit > limit_max {
        let accepted =
            format!("up to {limit_max} (0 means that many), and before_id for the next page");
        let why = format!("{limit} is too many{with}; accepted: {accepted}");
        return Err(Problem::parameter("limit", why));
    }
    let mut search = range(&mut params)?;
    search.limit = if limit == 0 { limit_max } else { limit };
    search.timers = timers;
    conditions(&mut params, &mut search)?;
    let format = Format::wanted(params.text("format").as_deref(), headers, Format::ROWS)?;
    params.finish()?;
    if timers && format == Format::Csv {
        let problem = Problem::parameter("timers", "a line of CSV has no place for timers");
        return Err(problem.accepting(["format=json", "format=ndjson"]));
    }
    Ok((search, format))
}

fn write_page(page: RequestPage, format: Format) -> RowBody {
    let table = page.table;
    let head = json!({"as_of": write::number(page.as_of_ms as f64 / 1e3)});
    let tail = json!({"next_before_id": page.next_before_id});
    let mut writer = RowWriter::of_table(format, table.as_ref());
    if !page.timers.is_empty() {
        writer = writer.with_member("timers", timers_member(page.timers));
    }
    let (rows, _) = choose(table.as_ref(), &|_| true, &[], 0, 0);
    RowBody::start(table, rows, writer, &head, &tail)
}

/// `GET /api/v1/requests/{id}`
pub(in crate::http) async fn read(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    _: NoParams,
) -> Answer {
    let id = params::id(&id)?;
    let body = app.query(move |source| Ok(write_detail(source.request(id)?)));
    Ok(format::json(StatusCode::OK, body.await?))
}

/// The row, with the tags as an object in the place of their text, and the timers.
fn write_detail(detail: RequestDetail) -> Vec<u8> {
    let mut out = b"{".to_vec();
    let row = detail.row.as_ref();
    for (at, column) in row.columns().iter().enumerate() {
        write::name(&mut out, &column.name);
        if column.name == "tags" {
            write::tags(&mut out, &detail.tags);
        } else if !write::value(&mut out, &row.value(0, at), write::text) {
            out.extend_from_slice(b"null");
        }
        out.push(b',');
    }
    write::name(&mut out, "timers");
    write_timers(&mut out, &detail.timers);
    out.push(b'}');
    out
}

/// What writes the timers of each row.
pub(in crate::http) fn timers_member(timers: Vec<Vec<TimerDetail>>) -> Member {
    Box::new(move |out, row| write_timers(out, timers.get(row).map_or(&[], Vec::as_slice)))
}

/// The timers of one request, as an array.
fn write_timers(out: &mut Vec<u8>, timers: &[TimerDetail]) {
    for (at, timer) in timers.iter().enumerate() {
        out.push(if at == 0 { b'[' } else { b',' });
        let (id, hits) = (timer.id, timer.hit_count);
        out.extend_from_slice(format!("{{\"id\":{id},\"hit_count\":{hits}").as_bytes());
        for (name, us) in [
            ("value", timer.value_us),
            ("ru_utime", timer.ru_utime_us),
            ("ru_stime", timer.ru_stime_us),
        ] {
            out.push(b',');
            write::name(out, name);
            digits::micros(out, us);
        }
        out.extend_from_slice(b",\"tags\":");
        write::tags(out, &timer.tags);
        out.push(b'}');
    }
    out.extend_from_slice(if timers.is_empty() { b"[]" } else { b"]" });
}
