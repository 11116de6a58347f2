//! `GET /api/v1/reports/{name}/series`: one metric of one row over the last hour.
//!
//! The row is named as rows are filtered elsewhere, by key columns; without any it is all rows together. What is not
//! kept is a 404 that says why. A line has some thousand points at most, so the answer is written in one piece.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Map, Value as Json, json};

use crate::http::answer::format;
use crate::http::answer::json::number;
use crate::http::app::{Answer, App};
use crate::http::error::Problem;
use crate::http::params::{Params, Rounding};
use crate::query::error::QueryError;
use crate::query::read_model::ReadModel;
use crate::report::Watched;
use crate::series::{Metric, Series};

/// Points of an answer at most: an hour by the second.
const POINTS_MAX: u64 = 3_600;
/// How far back an answer reaches when `from` is not given, seconds.
const SPAN_DEFAULT: u64 = 300;

/// `GET /api/v1/reports/{name}/series`
pub(in crate::http) async fn read(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    mut params: Params,
) -> Answer {
    let query = Query {
        metric: metric(&mut params)?,
        step: params.number_in("step", 1..=3_600)?,
        from: params.moment("from", Rounding::Down)?,
        to: params.moment("to", Rounding::Up)?,
        keys: params,
    };
    let series = app.settings.series.clone().unwrap_or_else(Series::nothing);
    let body = app.query(move |source| query.answer(&name, &series, source));
    Ok(format::json(StatusCode::OK, body.await?.to_string()))
}

/// What a client wants to see.
#[derive(Debug)]
struct Query {
    metric: Metric,
    step: Option<u64>,
    from: Option<u64>,
    to: Option<u64>,
    /// What is left: key columns and the texts they must show.
    keys: Params,
}

/// The parameter `metric`.
fn metric(params: &mut Params) -> Result<Metric, Problem> {
    let name = params.text("metric");
    let name = name.as_deref().unwrap_or("req_per_sec");
    Metric::parse(name).ok_or_else(|| {
        let names = Metric::names().chain(["p99_9 and the like"]);
        Problem::parameter("metric", format!("there is no metric {name:?}"))
            .accepting(names.map(str::to_owned))
    })
}

impl Query {
    fn answer(&self, name: &str, series: &Series, source: &dyn ReadModel) -> Result<Json, Problem> {
        if source.reports().iter().all(|report| report.name != name) {
            let name = name.to_owned();
            return Err(QueryError::UnknownReport { name }.into());
        }
        let report = series.report(name).map_err(Problem::not_found)?;
        let key = self.key(&report)?;
        let span = self.span(series)?;
        let lines = series.lines(name, key.as_deref(), &[self.metric], span);
        let lines = lines.map_err(Problem::not_found)?;
        let key = key.map(|values| {
            let values = values.into_iter().map(Json::from);
            Map::from_iter(report.key_names.iter().cloned().zip(values))
        });
        let points = lines.points.iter().flatten();
        let points = points.map(|point| point.map(number));
        Ok(json!({
            "report": name,
            "key": key,
            "metric": self.metric.name(),
            "unit": self.metric.unit(),
            "step": lines.step,
            "from": lines.from,
            "points": points.collect::<Vec<_>>(),
        }))
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
        let step_default = if span <= SPAN_DEFAULT { 1 } else { 10 };
        let step = self.step.unwrap_or(step_default);
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
    fn key(&self, report: &Watched) -> Result<Option<Vec<String>>, Problem> {
        if self.keys.rest().next().is_none() {
            return Ok(None);
        }
        let keys: Vec<&str> = report.key_names.iter().map(String::as_str).collect();
        let row = self.keys.row(&keys)?.into_iter();
        Ok(Some(row.map(|(_, value)| value).collect()))
    }
}
