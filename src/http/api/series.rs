//! `GET /api/v1/reports/{name}/series`: one metric of one row over the last hour.
//!
//! Key columns select the row, as in other filters; without any it is the total. If the data is not
//! kept, a 404 says why. A line has at most a few thousand points, so the answer is written in one
//! piece.

use std::ops::Range;
use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Map, Value as Json, json};

use crate::grammar::percentile::percentile_hint;
use crate::http::answer::format::{Answer, ok};
use crate::http::answer::json::number;
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::fleet;
use crate::http::params::{Params, whole};
use crate::http::time_range::{NOT_BEFORE, Span};
use crate::profile::report::METRICS;
use crate::query::answer::{ReportSummary, add_new};
use crate::query::catalog::Catalog;
use crate::query::error::QueryError;
use crate::query::question::{LineQuestion, SampleQuestion, Spans, Whose};
use crate::query::tables::SAMPLES;
use crate::series::{Lines, Metric, Series};
use crate::value::Column;

/// Most points of an answer: an hour by the second.
const POINTS_MAX: u64 = 3_600;
/// Most points of a line of history if no step is given; and the possible steps.
const POINTS_WANTED: u64 = 800;
const STEPS: [u64; 10] = [60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400];
/// Span in seconds if `from` is not given.
const SPAN_DEFAULT: u64 = 300;

/// The shortest step that covers this many seconds with at most this many points of history.
pub(in crate::http) fn step_of(secs: u64, points: u64) -> u64 {
    let fits = |step: &&u64| secs.div_ceil(**step) <= points;
    let days = secs.div_ceil(86_400 * points);
    STEPS.iter().find(fits).copied().unwrap_or(86_400 * days)
}

/// `GET /api/v1/reports/{name}/series`
pub(in crate::http) async fn read(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    mut params: Params,
) -> Answer {
    let is_fleet = fleet::is_named(&params);
    let mut query = Query {
        metric: params.text("metric"),
        step: params.parsed("step", "a whole number of seconds from 1 to 86400", |text| {
            whole(text).filter(|secs| (1..=86_400).contains(secs))
        })?,
        span: Span::take_compared(&mut params),
        keys: params,
    };
    let series = app.settings.series.clone().unwrap_or_else(Series::nothing);
    let answer = move |source: &Catalog| {
        let whose = fleet::take_of(&mut query.keys, source, &name)?;
        query.answer(&name, &series, whose, source)
    };
    ok(if is_fleet { app.read(true, answer).await? } else { app.query(answer).await? })
}

/// The parameters.
#[derive(Debug)]
struct Query {
    metric: Option<String>,
    step: Option<u64>,
    span: Span,
    /// Remaining parameters: key columns with their texts.
    keys: Params,
}

/// The error for an unknown metric; lists those that exist.
fn no_metric(name: &str, hint: &str, names: impl Iterator<Item = &'static str>) -> Problem {
    let (why, names) = (format!("there is no metric {name:?}{hint}"), names.collect::<Vec<_>>());
    Problem::none_of("metric", why, name, names)
}

impl Query {
    fn answer(
        &self,
        name: &str,
        series: &Series,
        whose: Whose,
        source: &Catalog,
    ) -> Result<Json, Problem> {
        let listed = source.listed(name)?;
        if listed.kind == SAMPLES && !whose.is_fleet() {
            return self.sampled(&listed, source);
        }
        let metric = self.metric.as_deref().unwrap_or("req_per_sec");
        let names = || Metric::names().chain(["p99_9 and the like"]);
        let hint = percentile_hint(metric);
        let metric = Metric::parse(metric).ok_or_else(|| no_metric(metric, &hint, names()))?;
        let now_ms = source.now_ms(&whose);
        let past = |keys: Vec<String>, spans| {
            self.past(&listed, metric, &keys, (spans, whose.clone()), source)
        };
        if self.span.is_compared()
            && let Some(spans) = self.span.at(now_ms, None)?
        {
            return past(source.past_keys(name)?, spans);
        }
        let alone = |span| Spans { span, before: None };
        let (from, to) = self.ends(now_ms)?;
        // There are no points beyond the present; an answer from history has the running minute.
        let past_to = |from: u64| {
            let now = now_ms.div_ceil(1_000);
            to.unwrap_or(now).min(now.max(from + 1))
        };
        if whose.is_fleet() {
            let to = past_to(from.unwrap_or_default());
            let from = from.unwrap_or_else(|| to.saturating_sub(SPAN_DEFAULT));
            return past(source.past_keys(name)?, alone(from..to));
        }
        // Times before the last hour come from history, if there is one.
        let kept_from = series.coverage().map(|reach| reach.from);
        if let Some(from) = from.filter(|from| kept_from.is_none_or(|kept| *from < kept)) {
            match source.past_keys(name) {
                Ok(keys) => return past(keys, alone(from..past_to(from))),
                Err(QueryError::NoHistory(_)) => {}
                Err(other) => return Err(other.into()),
            }
        }
        let report = series.report(name).map_err(Problem::not_found)?;
        let key = key_of(&self.keys, &report.key_names)?;
        let end = series.coverage().map_or(0, |reach| reach.to);
        let (span, step) = self.steps(from, to, end)?;
        let span = (span.start, span.end, step);
        let lines = series.lines(name, key.as_deref(), &[metric], span);
        let lines = lines.map_err(Problem::not_found)?;
        let key = key.map(|key| named(&report.key_names, &key, &listed.columns));
        Ok(body(name, key, (&metric.name(), metric.unit()), lines))
    }

    /// The series of a report over samples, from those in its window.
    fn sampled(&self, report: &ReportSummary, source: &Catalog) -> Result<Json, Problem> {
        let name = self.metric.as_deref().unwrap_or("samples_per_sec");
        let metric = METRICS.iter().find(|it| it.0 == name);
        let names = METRICS.iter().map(|it| it.0);
        let metric = metric.ok_or_else(|| no_metric(name, "", names))?;
        let key = key_of(&self.keys, &report.keys)?;
        let now_ms = source.unix_ms();
        if self.span.is_compared() {
            let why = "a report over samples has no past to compare";
            return Err(Problem::parameter("compare", why));
        }
        let (from, to) = self.ends(now_ms)?;
        let (span, step) = self.steps(from, to, now_ms / 1_000)?;
        let shown = key.as_ref().map(|key| named(&report.keys, key, &report.columns));
        let metrics = vec![metric];
        let question = SampleQuestion { key, metrics, span, step, whose: Whose::Own };
        let lines = source.sample_lines(&report.name, &question)?;
        Ok(body(&report.name, shown, (metric.0, metric.1), lines))
    }

    /// The series of a span from history, and of the one that it is compared with: both in steps of
    /// the same length.
    fn past(
        &self,
        report: &ReportSummary,
        metric: Metric,
        keys: &[String],
        (Spans { span, before }, whose): (Spans, Whose),
        source: &Catalog,
    ) -> Result<Json, Problem> {
        if span.is_empty() {
            return Err(Problem::parameter("from", NOT_BEFORE));
        }
        let secs = span.end - span.start;
        let step_default = || step_of(secs, POINTS_WANTED).min(86_400);
        let step = self.step.unwrap_or_else(step_default).max(60);
        too_many(secs, step)?;
        let key = key_of(&self.keys, keys)?;
        let read = |span: &Range<u64>, step| {
            let (key, metrics, whose) = (key.clone(), vec![metric], whose.clone());
            let question = LineQuestion { key, metrics, span: span.clone(), step, whose };
            source.past_lines(&report.name, &question)
        };
        let mut line = read(&span, step)?;
        let earlier = before.as_ref().map(|before| read(before, line.lines.step)).transpose()?;
        // Of the other span only coarser rows may be kept.
        if let Some(coarser) = earlier.as_ref().map(|it| it.lines.step)
            && coarser > line.lines.step
        {
            line = read(&span, coarser)?;
        }
        let shown = key.as_ref().map(|key| named(keys, key, &report.columns));
        let mut body = body(&report.name, shown, (&metric.name(), metric.unit()), line.lines);
        if let Some((earlier, before)) = earlier.zip(before) {
            line.resolution_seconds = line.resolution_seconds.max(earlier.resolution_seconds);
            add_new(&mut line.partial, &earlier.partial);
            body["compare_from"] = earlier.lines.from.into();
            body["compare_to"] = before.end.into();
            body["points_before"] = points(earlier.lines);
        }
        body["resolution_seconds"] = line.resolution_seconds.into();
        body["partial"] = line.partial.into();
        Ok(body)
    }

    /// The given ends of the span.
    fn ends(&self, now_ms: u64) -> Result<(Option<u64>, Option<u64>), Problem> {
        let ends = self.span.ends(now_ms)?;
        match ends.0.zip(ends.1).is_some_and(|(from, to)| from >= to) {
            true => Err(Problem::parameter("from", NOT_BEFORE)),
            false => Ok(ends),
        }
    }

    /// Start, end and step, where `end` is the last known second.
    fn steps(
        &self,
        from: Option<u64>,
        to: Option<u64>,
        end: u64,
    ) -> Result<(Range<u64>, u64), Problem> {
        // Before the first second is complete there is no end yet, and no point.
        let to = to.unwrap_or(end.max(from.unwrap_or_default()));
        let from = from.unwrap_or_else(|| to.saturating_sub(SPAN_DEFAULT));
        // There are no points beyond the end.
        let span = to.min(end).saturating_sub(from);
        let step_default = if span <= SPAN_DEFAULT { 1 } else { 10 };
        let step = self.step.unwrap_or(step_default);
        too_many(span, step)?;
        Ok((from..to, step))
    }
}

/// The key values that are among the parameters, in column order; `None`: all rows together.
pub(super) fn key_of(params: &Params, keys: &[String]) -> Result<Option<Vec<String>>, Problem> {
    if params.rest().next().is_none() {
        return Ok(None);
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    Ok(Some(params.row(&keys)?.into_iter().map(|(_, value)| value).collect()))
}

fn points(lines: Lines) -> Json {
    lines.points.into_iter().flatten().map(|point| point.map(number)).collect()
}

fn body(name: &str, key: Option<Map<String, Json>>, metric: (&str, &str), lines: Lines) -> Json {
    json!({
        "report": name,
        "key": key,
        "metric": metric.0,
        "unit": metric.1,
        "step": lines.step,
        "from": lines.from,
        "points": points(lines),
    })
}

/// The values of a key under their names, as they are in the report, which has these columns.
pub(super) fn named(names: &[String], texts: &[String], columns: &[Column]) -> Map<String, Json> {
    let value = |(name, text): (&String, &String)| {
        let mut columns = columns.iter().filter(|it| it.name == *name);
        let value = match columns.all(|it| it.column_type.is_text()) {
            true => text.as_str().into(),
            // There is no number in the row for all others.
            false => text.parse::<i64>().map_or(Json::Null, Json::from),
        };
        (name.clone(), value)
    };
    names.iter().zip(texts).map(value).collect()
}

/// Refuses a line with too many points.
fn too_many(secs: u64, step: u64) -> Result<(), Problem> {
    if secs.div_ceil(step) <= POINTS_MAX {
        return Ok(());
    }
    let why = format!(
        "{secs} seconds by steps of {step} are too many points; accepted: up to {POINTS_MAX}, by a later from or a larger \
         step"
    );
    Err(Problem::parameter("from", why))
}
