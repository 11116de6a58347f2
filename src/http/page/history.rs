//! The last hour of a row as charts: traffic, times, errors, CPU, each also at an address of its own.
//!
//! Data comes from the last hour in memory ([`Series`]), which follows the rows of some reports; of others, and of rows too
//! light to be kept, the page says why there is no chart. `span` is how far back a chart goes: what there is, up to an hour, when
//! it is not given.

use std::sync::LazyLock;

use maud::{Markup, html};
use serde::Deserialize;

use super::chart::{Chart, Line, Theme};
use super::columns::Show;
use super::formatting::{self, visible};
use super::frame;
use crate::http::error::Problem;
use crate::http::params::{Params, row_link};
use crate::series::{Metric, Series};

/// How far back a chart can go: in the address, seconds, seconds from one point to the next.
const SPANS: [(&str, u64, u64); 4] = [
    ("1m", 60, 1),
    ("5m", 300, 2),
    ("15m", 900, 10),
    ("1h", 3600, 20),
];

/// What is drawn: `charts.toml`.
#[derive(Debug, Deserialize)]
struct Kinds {
    /// For rows of requests.
    requests: Vec<Kind>,
    timers: Vec<Kind>,
}

/// One chart.
#[derive(Debug, Deserialize)]
struct Kind {
    /// In the address.
    name: String,
    title: String,
    show: Show,
    /// By name, colour and metric.
    lines: Vec<(String, usize, String)>,
}

static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    toml::from_str(include_str!("charts.toml")).expect("the charts are well formed")
});

/// The names of all charts.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.requests.iter().map(|kind| kind.name.as_str())
}

/// The parameter `span`, checked.
pub(super) fn span(params: &mut Params) -> Result<Option<&'static str>, Problem> {
    let names = SPANS.map(|(name, _, _)| name);
    let span = params.word("span", &names)?;
    Ok(params.get("span").map(|_| span))
}

/// A row whose history is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct History<'a> {
    pub(super) series: &'a Series,
    pub(super) report: &'a str,
    /// The keys, in the order of the report's columns.
    pub(super) keys: &'a [(String, String)],
    pub(super) timers: bool,
    pub(super) span: Option<&'static str>,
}

impl History<'_> {
    /// The values of the keys; `None`: all rows together.
    fn key(&self) -> Option<Vec<String>> {
        let key = self.keys.iter().map(|(_, value)| value.clone());
        (!self.keys.is_empty()).then(|| key.collect())
    }

    /// Why nothing is kept.
    fn why_not(&self) -> Option<String> {
        self.series.why_not(self.report, self.key().as_deref())
    }

    /// The charts of this row, as figures of a page, or why there are none.
    pub(super) fn figures(&self) -> Markup {
        if let Some(why) = self.why_not() {
            return html! { p.note { "No charts: " (visible(&why)) } };
        }
        let more = self.span.map(|span| ("span", span));
        let address = |name: &str| row_link(self.report, &format!("{name}.svg"), self.keys, more);
        html! {
            @for kind in self.kinds() {
                div id={ "past-" (kind.name) } data-live {
                    @if let Some(chart) = self.chart(kind, &kind.title) { (chart.figure(&kind.name, &address(&kind.name))) }
                }
            }
        }
    }

    /// Links to other spans. `address` makes the address of the page with that span.
    pub(super) fn spans(&self, address: impl Fn(&str) -> String) -> Markup {
        let (now, _, _) = self.reach();
        let choices = SPANS.map(|(name, secs, _)| {
            let text = html! { (formatting::roughly(secs as f64)) };
            (address(name), text, name == now)
        });
        frame::views("How far back", "Charts of the last", &choices)
    }

    fn kinds(&self) -> &'static [Kind] {
        match self.timers {
            true => &KINDS.timers,
            false => &KINDS.requests,
        }
    }

    /// How far back: the name, seconds, step. Without a choice, as far as there is anything.
    fn reach(&self) -> (&'static str, u64, u64) {
        let coverage = self.series.coverage();
        let covered = coverage.map_or(0, |it| it.to.saturating_sub(it.from));
        let wanted = |(name, secs, _): &&(&str, u64, u64)| match self.span {
            Some(span) => *name == span,
            // What does not fit is a third at most.
            None => *secs * 3 / 2 >= covered,
        };
        *SPANS.iter().find(wanted).unwrap_or(&SPANS[3])
    }

    /// One chart alone; `of` is what its row is called.
    pub(super) fn picture(&self, name: &str, of: &str, theme: Theme) -> Result<Markup, Problem> {
        let kind = self.kinds().iter().find(|kind| kind.name == name);
        let kind = kind.ok_or_else(|| Problem::not_found("timers have no such chart"))?;
        let chart = self.chart(kind, &format!("{of}: {}", kind.title));
        let chart = chart.ok_or_else(|| {
            let why = self.why_not();
            Problem::not_found(why.unwrap_or_else(|| "no second is complete yet".to_owned()))
        })?;
        Ok(chart.svg("alone", theme))
    }

    fn chart(&self, kind: &'static Kind, title: &str) -> Option<Chart> {
        let to = self.series.coverage()?.to;
        let (_, span, step) = self.reach();
        let from = to.saturating_sub(span);
        let metrics = kind.lines.iter();
        let metrics = metrics.filter_map(|(_, _, metric)| Metric::parse(metric));
        let (metrics, key): (Vec<Metric>, _) = (metrics.collect(), self.key());
        let span = (from, to, step);
        let found = self
            .series
            .lines(self.report, key.as_deref(), &metrics, span)
            .ok()?;
        let points = |points: Vec<Option<f64>>| points.into_iter().map(|it| it.unwrap_or(f64::NAN));
        let lines = kind.lines.iter().zip(found.points);
        let lines = lines.map(|((name, colour, _), found)| Line {
            name,
            colour: *colour,
            points: points(found).collect(),
        });
        Some(Chart {
            title: title.to_owned(),
            unit: kind.show,
            lines: lines.collect(),
            step_secs: found.step as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::chart::POINTS_MAX;
    use super::*;

    #[test]
    fn no_line_has_more_points_than_a_chart_is_drawn_with() {
        for (name, secs, step) in SPANS {
            assert!((secs / step) as usize <= POINTS_MAX, "{name}");
        }
        let span = |text| super::span(&mut Params::parse(Some(text)).unwrap());
        assert_eq!(span(""), Ok(None));
        assert_eq!(span("span=15m"), Ok(Some("15m")));
        let problem = span("span=2h").unwrap_err();
        assert!(problem.detail().contains("1m, 5m, 15m, 1h"), "{problem:?}");
    }

    #[test]
    fn every_line_of_a_chart_has_a_metric() {
        let kinds = KINDS.requests.iter().chain(&KINDS.timers);
        for (name, _, metric) in kinds.flat_map(|kind| &kind.lines) {
            assert!(Metric::parse(metric).is_some(), "{name}");
        }
    }

    #[test]
    fn without_data_there_is_a_reason() {
        let series = Series::nothing();
        let history = History {
            series: &series,
            report: "<x>",
            keys: &[],
            timers: false,
            span: None,
        };
        let page = history.figures().into_string();
        assert!(
            page.contains("No charts: ") && !page.contains("<x>"),
            "{page}"
        );
    }
}
