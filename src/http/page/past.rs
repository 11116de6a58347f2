//! The past of a row as charts: traffic, times, errors, CPU, each also at an address of its own.
//!
//! Data comes from the last hour in memory ([`Series`]), which follows the rows of some reports; of others, and of rows too
//! light to be kept, the page says why there is no chart. `span` is how far back a chart goes: what there is, up to an hour, when it is not given.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode, Uri};
use maud::{Markup, html};

use super::chart::{self, Chart, Line, Unit};
use super::row;
use super::show::{link, visible};
use crate::http::error::Problem;
use crate::http::params::{Params, encode};
use crate::http::routes::App;
use crate::query::source::Source;
use crate::series::{Metric, Series};

/// How far back a chart can go: in the address, seconds, seconds from one point to the next.
const SPANS: [(&str, u64, u64); 4] = [
    ("1m", 60, 1),
    ("5m", 300, 2),
    ("15m", 900, 10),
    ("1h", 3600, 20),
];

/// What a chart shows: in the address, in words, its unit, its lines (name, colour, metric), for requests and for timers.
type Kind = (
    &'static str,
    &'static str,
    Unit,
    &'static [(&'static str, usize, Metric)],
);

const TIMES: &[(&str, usize, Metric)] = &[
    ("p99", 2, Metric::P99),
    ("p95", 1, Metric::P95),
    ("p50", 0, Metric::P50),
];

const REQUESTS: [Kind; 4] = [
    (
        "traffic",
        "Requests per second",
        Unit::Rate,
        &[("requests", 0, Metric::ReqPerSec)],
    ),
    ("times", "Request time", Unit::Secs, TIMES),
    (
        "errors",
        "Errors per second",
        Unit::Rate,
        &[("errors", 2, Metric::ErrorsPerSec)],
    ),
    (
        "cpu",
        "CPU, cores",
        Unit::Cores,
        &[("busy", 3, Metric::CpuPerSec)],
    ),
];

const TIMERS: [Kind; 3] = [
    (
        "traffic",
        "Hits per second",
        Unit::Rate,
        &[("hits", 0, Metric::HitPerSec)],
    ),
    ("times", "Time per hit", Unit::Secs, TIMES),
    (
        "cpu",
        "CPU, cores",
        Unit::Cores,
        &[("busy", 3, Metric::CpuPerSec)],
    ),
];

/// The parameter `span`, checked.
pub(super) fn span(text: Option<&str>) -> Result<Option<&'static str>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let found = SPANS.iter().find(|(name, _, _)| *name == text);
    found.map(|(name, _, _)| Some(*name)).ok_or_else(|| {
        Problem::parameter("span", format!("{text:?} is not accepted"))
            .accepting(SPANS.map(|span| span.0))
    })
}

/// A row whose past is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past<'a> {
    pub(super) series: &'a Series,
    pub(super) report: &'a str,
    /// The keys, in the order of the report's columns.
    pub(super) keys: &'a [(String, String)],
    pub(super) timers: bool,
    pub(super) span: Option<&'static str>,
}

impl Past<'_> {
    /// The charts of this row, as figures of a page, or why there are none.
    pub(super) fn figures(&self) -> Markup {
        let key: Vec<String> = self.keys.iter().map(|(_, value)| value.clone()).collect();
        let key = (!key.is_empty()).then_some(key.as_slice());
        if let Some(why) = self.series.why_not(self.report, key) {
            return html! { p.note { "No charts: " (visible(&why)) } };
        }
        html! {
            @for kind in self.kinds() {
                div id={ "past-" (kind.0) } data-live {
                    @if let Some(chart) = self.chart(kind, kind.1) { (chart.figure(kind.0, &self.address(kind.0))) }
                }
            }
        }
    }

    /// Links to other spans. `address` makes the address of the page with that span.
    pub(super) fn choice(&self, address: impl Fn(&str) -> String) -> Markup {
        let (now, _, _) = self.reach();
        html! {
            nav.views aria-label="How far back" {
                span { "Charts of the last" }
                @for (name, secs, _) in SPANS {
                    a href=(address(name)) aria-current=[(name == now).then_some("true")] { (super::show::roughly(secs as f64)) }
                }
            }
        }
    }

    fn kinds(&self) -> &'static [Kind] {
        if self.timers { &TIMERS } else { &REQUESTS }
    }

    /// The address of a chart alone. Keys that are called as a parameter is have a mark before them.
    fn address(&self, chart: &str) -> String {
        let path = format!("/reports/{}/{chart}.svg", encode(self.report));
        let keys = row::marked(self.keys);
        let keys = keys.iter().map(|(name, value)| (name.as_str(), *value));
        link(&path, keys.chain(self.span.map(|span| ("span", span))))
    }

    /// How far back: the name, seconds, step. Without a choice, as far as there is anything.
    fn reach(&self) -> (&'static str, u64, u64) {
        let covered = self
            .series
            .coverage()
            .map_or(0, |it| it.to.saturating_sub(it.from));
        let wanted = |(name, secs, _): &&(&str, u64, u64)| match self.span {
            Some(span) => *name == span,
            // The past that does not fit is a third at most.
            None => *secs * 3 / 2 >= covered,
        };
        *SPANS.iter().find(wanted).unwrap_or(&SPANS[3])
    }

    fn chart(&self, (_, _, unit, lines): &Kind, title: &str) -> Option<Chart> {
        let coverage = self.series.coverage()?;
        let (_, span, step) = self.reach();
        let from = coverage.to.saturating_sub(span);
        let key: Vec<String> = self.keys.iter().map(|(_, value)| value.clone()).collect();
        let key = (!key.is_empty()).then_some(key.as_slice());
        let metrics: Vec<Metric> = lines.iter().map(|(_, _, metric)| *metric).collect();
        let found = self
            .series
            .lines(self.report, key, &metrics, from, coverage.to, step)?;
        let step = found.first()?.step;
        let lines = lines
            .iter()
            .zip(found)
            .map(|((name, colour, _), line)| Line {
                name,
                colour: *colour,
                points: line
                    .points
                    .into_iter()
                    .map(|point| point.unwrap_or(f64::NAN))
                    .collect(),
            });
        Some(Chart {
            title: title.to_owned(),
            unit: *unit,
            lines: lines.collect(),
            step_secs: step as f64,
        })
    }
}

/// `GET /reports/{name}/{chart}`: one chart alone, `traffic.svg` and its like, or `spread.svg`.
pub(super) async fn read(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
) -> Response<Body> {
    let series = app.series();
    let view =
        ask(path, &uri).map(|ask| move |source: &dyn Source| ask.picture(source, series.as_ref()));
    super::picture(app, &uri, view).await
}

/// Which chart is asked for.
struct Ask {
    report: String,
    chart: String,
    keys: Vec<(String, String)>,
    theme: chart::Theme,
    span: Option<&'static str>,
}

fn ask(path: Result<Path<(String, String)>, PathRejection>, uri: &Uri) -> Result<Ask, Problem> {
    let none = || {
        let all = REQUESTS.map(|kind| format!("{}.svg", kind.0)).into_iter();
        Problem::new(StatusCode::NOT_FOUND, "a report has no such page")
            .accepting(all.chain(["spread.svg".to_owned(), "row".to_owned()]))
    };
    let Path((report, file)) = path.map_err(|_| none())?;
    let chart = file.strip_suffix(".svg").ok_or_else(none)?.to_owned();
    if chart != "spread" && !REQUESTS.iter().any(|kind| kind.0 == chart) {
        return Err(none());
    }
    let mut params = Params::parse(uri.query())?;
    let theme = chart::theme(params.take("theme").as_deref())?;
    let span = span(params.take("span").as_deref())?;
    let keys = row::unmarked(params.into_rest().0);
    Ok(Ask {
        report,
        chart,
        keys,
        theme,
        span,
    })
}

impl Ask {
    fn picture(&self, source: &dyn Source, series: Option<&Series>) -> Result<Markup, Problem> {
        let row = row::Row::ask(source, &self.report, &self.keys)?;
        if self.chart == "spread" {
            return row.spread_alone(source, self.theme);
        }
        let gone = |why: String| Problem::new(StatusCode::NOT_FOUND, why);
        let series = series.ok_or_else(|| gone("no history is kept: series.memory is 0".into()))?;
        let past = Past {
            series,
            report: &self.report,
            keys: &row.keys,
            timers: row.ranking.timers,
            span: self.span,
        };
        let key: Vec<String> = row.keys.iter().map(|(_, value)| value.clone()).collect();
        let key = (!key.is_empty()).then_some(key.as_slice());
        let kind = past.kinds().iter().find(|kind| kind.0 == self.chart);
        let kind = kind.ok_or_else(|| gone("timers have no such chart".into()))?;
        let title = format!("{}: {}", row.title(), kind.1);
        let chart = past.chart(kind, &title).ok_or_else(|| {
            let why = series.why_not(&self.report, key);
            gone(why.unwrap_or_else(|| "no second is complete yet".into()))
        })?;
        Ok(chart.svg("alone", self.theme))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_has_more_points_than_a_chart_is_drawn_with() {
        for (name, secs, step) in SPANS {
            assert!((secs / step) as usize <= chart::POINTS_MAX, "{name}");
        }
        assert_eq!(span(Some("15m")).unwrap(), Some("15m"));
        assert!(
            span(Some("2h"))
                .unwrap_err()
                .detail()
                .contains("1m, 5m, 15m, 1h")
        );
    }

    #[test]
    fn without_data_there_is_a_reason() {
        let series = Series::nothing();
        let past = Past {
            series: &series,
            report: "<x>",
            keys: &[],
            timers: false,
            span: None,
        };
        let page = past.figures().into_string();
        assert!(
            page.contains("No charts: ") && !page.contains("<x>"),
            "{page}"
        );
    }
}
