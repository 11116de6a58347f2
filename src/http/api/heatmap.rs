//! `GET /api/v1/reports/{name}/heatmap`: the distribution of one row's request times in each step
//! of a span.
//!
//! Pages draw the result of [`read`]. Spans within the last hour are read from memory, by the
//! second; older ones from history, by the minute.

use std::ops::Range;
use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::json;

use super::series::{key_of, named};
use crate::http::answer::format::{Answer, ok};
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::fleet;
use crate::http::params::Params;
use crate::http::time_range::Span;
use crate::query::catalog::Catalog;
use crate::query::error::QueryError;
use crate::query::heatmap::{HeatMap, step_of};
use crate::query::question::{LineQuestion, Whose};
use crate::series::{Metric, Series};

/// Default span, seconds.
const SPAN_DEFAULT: u64 = 3_600;

/// Returns the heat map of a row over a span, or the reason why there is none. `key` has a text for
/// each key; `None` stands for all rows together.
pub(in crate::http) fn read(
    (source, series): (&Catalog, &Series),
    report: &str,
    key: Option<&[String]>,
    span: &Range<u64>,
    whose: &Whose,
) -> Result<HeatMap, QueryError> {
    let step = step_of(span.end - span.start);
    let recent = || series.spreads(report, key, (span.start, span.end, step));
    let reaches_back = series.coverage().is_some_and(|it| it.from <= span.start);
    let why_not = match (reaches_back && !whose.is_fleet()).then(recent) {
        Some(Ok(found)) => return Ok(HeatMap::of(found)),
        Some(Err(why)) => Some(QueryError::NoHistory(why)),
        None => None,
    };
    let mut span = span.clone();
    if why_not.is_some() {
        // History has whole minutes, and that in which memory begins has requests from before.
        span.start = span.start.next_multiple_of(60).min(span.end);
    }
    let question = LineQuestion {
        key: key.map(<[String]>::to_vec),
        // A percentile makes the query return histograms.
        metrics: ["p50", "errors"].into_iter().filter_map(Metric::parse).collect(),
        span,
        step,
        whose: whose.clone(),
    };
    match (source.past_spreads(report, &question), why_not) {
        (Ok(found), None) => Ok(HeatMap::of(found)),
        (Ok(found), Some(why)) => Some(HeatMap::of(found)).filter(|map| map.total > 0).ok_or(why),
        (Err(_), Some(why)) => Err(why),
        // If history cannot answer, show what the last hour in memory has.
        (Err(why), None) if !whose.is_fleet() => recent().map(HeatMap::of).map_err(|_| why),
        (Err(why), None) => Err(why),
    }
}

/// `GET /api/v1/reports/{name}/heatmap`
pub(in crate::http) async fn get(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    mut params: Params,
) -> Answer {
    let is_fleet = fleet::is_named(&params);
    let span = Span::take(&mut params);
    let series = app.settings.series.clone().unwrap_or_else(Series::nothing);
    let body = app.read(is_fleet, move |source| {
        let whose = fleet::take_of(&mut params, source, &name)?;
        let keys = source.past_keys(&name).ok();
        let keys = keys.or_else(|| Some(series.report(&name).ok()?.key_names.clone()));
        let keys = keys.unwrap_or_default();
        let key = key_of(&params, &keys)?;
        let spans = span.at(source.now_ms(&whose), Some(SPAN_DEFAULT))?;
        let span = spans.ok_or_else(Problem::internal)?.span;
        let map = read((source, &series), &name, key.as_deref(), &span, &whose)?;
        let edges = map.edges_us.iter().map(|us| *us as f64 / 1e6);
        let columns = map.columns.iter().zip(&map.errors);
        let errors = columns.map(|(known, errors)| known.as_ref().map(|_| *errors));
        let columns = source.listed(&name).map_or_else(|_| Vec::new(), |it| it.columns);
        let limits = source.time_limits(&name, key.as_deref()).into_iter();
        let limits = limits.map(|(slo, us)| json!({"slo": slo, "slow_from": us as f64 / 1e6}));
        Ok(json!({
            "report": name,
            "key": key.map(|key| named(&keys, &key, &columns)),
            "from": map.from,
            "step": map.step,
            "edges": edges.collect::<Vec<_>>(),
            "columns": map.columns,
            "errors": errors.collect::<Vec<_>>(),
            "limits": limits.collect::<Vec<_>>(),
            "total": map.total,
            "partial": map.partial,
        }))
    });
    ok(body.await?)
}
