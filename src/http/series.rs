//! `GET /api/v1/reports/{name}/series`: one metric of one row over the last hour.
//!
//! The row is named as rows are filtered elsewhere, by key columns; without any it is all rows together. What is not
//! kept is a 404 that says why. A line has some thousand points at most, so the answer is written in one piece.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{Value as Json, json};

use super::answer;
use super::error::Problem;
use super::json as write;
use super::params::{self, Params, Rounding};
use super::reports::{KEY_PREFIX, named};
use super::routes::App;
use crate::query::error::QueryError;
use crate::query::source::Source;
use crate::series::{Line, Metric, Series, SeriesStatus, TrackedReport};

/// Points of an answer at most: an hour by the second.
const POINTS_MAX: u64 = 3_600;
/// How far back an answer reaches when `from` is not given, seconds.
const SPAN_DEFAULT: u64 = 300;

/// `GET /api/v1/reports/{name}/series`
pub(super) async fn read(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let name = named(name)?;
    let ask = Ask::parse(request.uri().query())?;
    let series = app.series();
    let body = app
        .ask(move |source| ask.answer(&name, series.as_ref(), source))
        .await?;
    Ok(answer::json(StatusCode::OK, body))
}

/// What a client wants to see.
#[derive(Debug)]
struct Ask {
    metric: Metric,
    step: Option<u64>,
    from: Option<u64>,
    to: Option<u64>,
    /// Key columns and the texts they must show.
    equal: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl Ask {
    fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let mut params = Params::parse(query)?;
        let metric = match params.take("metric") {
            None => Metric::ReqPerSec,
            Some(name) => Metric::parse(&name).ok_or_else(|| {
                let names = Metric::ALL.iter().map(Metric::name);
                Problem::parameter("metric", format!("there is no metric {name:?}"))
                    .accepting(names.chain(["p99_9 and the like".to_owned()]))
            })?,
        };
        let step = params.number("step")?;
        if step == Some(0) || step.is_some_and(|step| step > 3_600) {
            return Err(Problem::parameter("step", "must be from 1 to 3600 seconds"));
        }
        let from = params.moment("from", Rounding::Down)?;
        let to = params.moment("to", Rounding::Up)?;
        let (equal, known) = params.into_rest();
        Ok(Self {
            metric,
            step,
            from,
            to,
            equal,
            known,
        })
    }

    fn answer(
        &self,
        name: &str,
        series: Option<&Series>,
        source: &dyn Source,
    ) -> Result<Vec<u8>, Problem> {
        let nothing = Series::nothing();
        let series = series.unwrap_or(&nothing);
        let not_found = |why: String| Problem::new(StatusCode::NOT_FOUND, why);
        if source.reports().iter().all(|report| report.name != name) {
            let name = name.to_owned();
            return Err(QueryError::UnknownReport { name }.into());
        }
        let tracked = series.tracked();
        let Some(report) = tracked.iter().find(|report| report.name == name) else {
            return Err(not_found(series.why_not(name, None).unwrap_or_default()));
        };
        let key = self.key(report)?;
        let (from, to, step) = self.span(series)?;
        let line = series.line(name, key.as_deref(), self.metric, from, to, step);
        let line = line.ok_or_else(|| {
            let why = series.why_not(name, key.as_deref());
            // It may have come in between.
            not_found(why.unwrap_or_else(|| "no such row is kept; ask again".to_owned()))
        })?;
        Ok(self.write(report, key.as_deref(), &line))
    }

    /// From when to when, by which step.
    fn span(&self, series: &Series) -> Result<(u64, u64, u64), Problem> {
        let end = series.coverage().map_or(0, |reach| reach.to);
        // Before the first second is complete there is no end yet, and no point.
        let to = self.to.unwrap_or(end.max(self.from.unwrap_or_default()));
        let from = self.from.unwrap_or_else(|| to.saturating_sub(SPAN_DEFAULT));
        if from > to {
            return Err(Problem::parameter("from", "is later than to"));
        }
        // What is beyond the end has no points.
        let span = to.min(end).saturating_sub(from);
        let step = self
            .step
            .unwrap_or(if span <= SPAN_DEFAULT { 1 } else { 10 });
        if span.div_ceil(step) > POINTS_MAX {
            let why = format!(
                "{span} seconds by steps of {step} are too many points; accepted: up to {POINTS_MAX}, by a later from or a \
                 larger step (no more than an hour is kept)"
            );
            return Err(Problem::parameter("from", why));
        }
        Ok((from, to, step))
    }

    /// The key values in column order; `None`: all rows together.
    fn key(&self, report: &TrackedReport) -> Result<Option<Vec<String>>, Problem> {
        let mut values: Vec<Option<&String>> = vec![None; report.keys.len()];
        for (name, value) in &self.equal {
            let bare = name.strip_prefix(KEY_PREFIX).unwrap_or(name);
            let mut places = [name, bare]
                .into_iter()
                .filter_map(|name| report.keys.iter().position(|key| key == name));
            let at = places.next().ok_or_else(|| {
                let known = self.known.iter().map(|known| (*known).to_owned());
                params::unknown(name, known.chain(report.keys.iter().cloned()))
            })?;
            if values[at].replace(value).is_some() {
                return Err(Problem::parameter(name, "is given more than once"));
            }
        }
        if self.equal.is_empty() {
            return Ok(None);
        }
        if let Some(missing) = values.iter().position(Option::is_none) {
            return Err(Problem::parameter(
                &report.keys[missing],
                "is missing: a row is named by all of its key columns; none of them means all rows together",
            )
            .accepting(report.keys.iter().cloned()));
        }
        Ok(Some(values.into_iter().flatten().cloned().collect()))
    }

    fn write(&self, report: &TrackedReport, key: Option<&[String]>, line: &Line) -> Vec<u8> {
        let mut out = b"{\"report\":".to_vec();
        write::text(&mut out, &report.name);
        out.extend_from_slice(b",\"key\":");
        match key {
            None => out.extend_from_slice(b"null"),
            Some(values) => {
                out.push(b'{');
                for (at, (name, value)) in report.keys.iter().zip(values).enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write::text(&mut out, name);
                    out.push(b':');
                    write::text(&mut out, value);
                }
                out.push(b'}');
            }
        }
        out.extend_from_slice(b",\"metric\":");
        write::text(&mut out, &self.metric.name());
        out.extend_from_slice(b",\"unit\":");
        write::text(&mut out, self.metric.unit());
        out.extend_from_slice(b",\"step\":");
        write::uint(&mut out, line.step);
        out.extend_from_slice(b",\"from\":");
        write::uint(&mut out, line.from);
        out.extend_from_slice(b",\"points\":[");
        for (at, point) in line.points.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            match point {
                Some(point) => write::float(&mut out, *point),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.extend_from_slice(b"]}");
        out
    }
}

/// What the series holds, as it stands in the status.
pub(super) fn status(status: &SeriesStatus) -> Json {
    json!({
        "memory_bytes": status.memory_bytes,
        "memory_bytes_max": status.memory_bytes_max,
        "reports": status.reports,
        "rows": status.rows,
        "rows_full": status.rows_full,
        "rows_without_percentiles": status.rows_without_percentiles,
        "rows_folded": status.rows_folded,
        "requests_counted": status.requests_counted,
        "requests_missed": status.requests_missed,
    })
}
