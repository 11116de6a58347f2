//! `GET /api/v1/changes`: breaks the change of a report between two spans down by key.
//!
//! The page at `/changes` takes the same parameters and parses them here.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Map, Value as Json, json};

use super::series::named;
use crate::http::answer::format::{Answer, ok};
use crate::http::answer::json::number;
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::fleet;
use crate::http::params::Params;
use crate::http::time_range::Span;
use crate::query::attribution::{Attribution, Change, MEASURES, Measure};
use crate::query::catalog::Catalog;
use crate::value::Unit;

/// Default report.
pub(in crate::http) const REPORT: &str = "report_by_script_name";
/// Number of rows: default and maximum.
const ROWS_DEFAULT: usize = 20;
const ROWS_MAX: usize = 1_000;

/// The parameters other than the spans.
#[derive(Debug)]
pub(in crate::http) struct Query {
    pub(in crate::http) report: String,
    pub(in crate::http) measure: Measure,
    pub(in crate::http) limit: usize,
}

impl Query {
    pub(in crate::http) fn take(params: &mut Params) -> Result<Self, Problem> {
        let report = params.text("report");
        let measure = params.word("measure", &MEASURES.map(|measure| measure.name))?;
        let measure = MEASURES.into_iter().find(|it| it.name == measure);
        Ok(Self {
            report: report.unwrap_or_else(|| REPORT.to_owned()),
            measure: measure.unwrap_or(MEASURES[0]),
            limit: params.rows(ROWS_DEFAULT, ROWS_MAX)?,
        })
    }
}

/// `GET /api/v1/changes`
pub(in crate::http) async fn read(State(app): State<Arc<App>>, mut params: Params) -> Answer {
    let is_fleet = fleet::is_named(&params);
    let query = Query::take(&mut params)?;
    let span = Span::take_compared(&mut params).or_before();
    let body = app.read(is_fleet, move |source: &Catalog| {
        let whose = fleet::take_of(&mut params, source, &query.report)?;
        params.finish()?;
        let window = fleet::window(source, &query.report);
        let spans = span.at(source.now_ms(&whose), Some(window))?.ok_or_else(Problem::internal)?;
        let Query { report, measure, limit } = &query;
        let found = source.changes(report, measure, &spans, &whose, *limit)?;
        Ok(body(report, measure, &found))
    });
    ok(body.await?)
}

fn body(report: &str, measure: &Measure, found: &Attribution) -> Json {
    let members = |change: &Change| {
        let amount = |sum: i64| match measure.unit {
            Unit::Seconds => number(sum as f64 / 1e6),
            _ => sum.into(),
        };
        let numbers = [
            ("before", change.before),
            ("after", change.after),
            ("change", change.change()),
            ("calls", change.calls),
            ("slower", change.slower),
            ("new", change.new),
            ("gone", change.gone),
        ];
        Map::from_iter(numbers.map(|(name, sum)| (name.to_owned(), amount(sum))))
    };
    let names: Vec<String> = found.keys.iter().map(|column| column.name.clone()).collect();
    let row = |(texts, change): &(Vec<String>, Change)| {
        let key = named(&names, texts, &found.keys);
        let mut row = Map::from_iter([("key".to_owned(), Json::from(key))]);
        row.extend(members(change));
        row
    };
    let rows: Vec<_> = found.rows.iter().map(row).collect();
    let [before, after] = &found.spans;
    let mut body = json!({
        "report": report,
        "measure": measure.name,
        "unit": measure.unit.name(),
        "from": after.start,
        "to": after.end,
        "compare_from": before.start,
        "compare_to": before.end,
        "covered_seconds": found.covered_secs[1],
        "covered_seconds_before": found.covered_secs[0],
        "partial": found.partial,
    });
    if let Some(body) = body.as_object_mut() {
        body.extend(members(&found.all));
        body.insert("rows".to_owned(), rows.into());
        body.insert("other".to_owned(), members(&found.other).into());
    }
    body
}
