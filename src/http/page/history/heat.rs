//! The heat map of a row, over the time span of its charts.

use std::ops::Range;

use maud::{Markup, html};

use super::{Counted, History};
use crate::http::api::heatmap;
use crate::http::error::Problem;
use crate::http::page::chart::{self, Theme, ticks_to_now};
use crate::http::page::formatting::{self, visible};
use crate::http::page::row::conditions::Conditions;
use crate::http::params::{link, pairs};
use crate::query::heatmap::{HeatMap, step_of};

/// A heat map of request or timer durations over a span, and the ticks of its time axis.
struct HeatOfSpan {
    map: HeatMap,
    span: Range<u64>,
    ticks: Vec<(f64, String)>,
}

impl HeatOfSpan {
    /// Seconds of the span from its first known column to its last.
    fn covered_secs(&self) -> u64 {
        let Self { map, span, .. } = self;
        let at = |column: usize| map.from + column as u64 * map.step;
        let first = map.columns.iter().position(Option::is_some).map_or(span.start, at);
        let last = map.columns.iter().rposition(Option::is_some).map_or(0, |it| at(it + 1));
        last.min(span.end).saturating_sub(first.max(span.start))
    }
}

impl History<'_> {
    /// Renders the heat map as part of a page, or the reason why there is none. Samples have no
    /// times.
    pub(in crate::http::page) fn heat(&self) -> Markup {
        if matches!(self.counted, Counted::Samples(_)) {
            return html! {};
        }
        html! { div.charts.heat #past-heat data-live { (self.heat_figure()) } }
    }

    fn heat_figure(&self) -> Markup {
        let span = self.span.map(|span| ("span", span));
        let address = self.time.row_link(self.report, "heat.svg", pairs(self.keys), span);
        let found = match self.heat_map() {
            Ok(found) => found,
            // Above it the charts say so.
            Err(why) if self.charts(self.kinds()).is_err_and(|said| said == why) => {
                return html! {};
            }
            Err(why) => return html! { p.note { "No heat map: " (visible(&why)) } },
        };
        let map = &found.map;
        let (what, counted) = self.counted.words();
        let title = format!("Heat map of the {what}");
        let limits = self.limits();
        let errors: u64 = map.errors.iter().sum();
        html! {
            figure.chart {
                figcaption {
                    @if map.total > 0 { a href=(address) { (title) } } @else { (title) }
                    span.legend {
                        @if map.total == 0 && map.columns.iter().all(Option::is_none) { span { "no data" } }
                        // The page names the span of the past; live, numbers beside it may be of
                        // another.
                        @else { span { (formatting::counted(map.total, counted)) @if self.time.spans.is_none() { " of the last " (formatting::lasting(found.covered_secs())) } } }
                        @if map.total > 0 {
                            span { "columns " (formatting::by(map.step)) }
                            span { "strongest colour: " (formatting::count(map.high())) " or more in a cell" }
                        }
                        @if map.columns.contains(&None) { span { "hatched: not known" } }
                        @if errors > 0 { span { "on top: " (formatting::counted(errors, "error")) } }
                        @for (name, us) in &limits { span { (limit_text(map, name, *us)) } }
                    }
                }
                (self.heat_drawn("heat", &title, Theme::Page, &found, &limits))
            }
        }
    }

    /// Renders only the heat map; `of` names its row.
    pub(in crate::http::page) fn heat_alone(
        &self,
        of: &str,
        theme: Theme,
    ) -> Result<Markup, Problem> {
        let found = self.heat_map().map_err(Problem::not_found)?;
        if found.map.total == 0 {
            return Err(Problem::not_found("no times are known"));
        }
        let title = format!("{of}: heat map");
        Ok(self.heat_drawn("alone", &title, theme, &found, &self.limits()))
    }

    /// The times that objectives allow, with the names of these.
    fn limits(&self) -> Vec<(String, u64)> {
        self.source.time_limits(self.report, self.key().as_deref())
    }

    /// Returns the heat map of the page's span, or of the last hour as far as it goes.
    fn heat_map(&self) -> Result<HeatOfSpan, String> {
        let mut span = match (&self.time.spans, self.series.coverage()) {
            (Some(spans), _) => spans.span.clone(),
            (None, Some(reach)) => {
                reach.from.max(reach.to.saturating_sub(self.reach().1))..reach.to
            }
            (None, None) => return Err("no second is complete yet".to_owned()),
        };
        let ticks = match self.time.spans {
            Some(_) => self.time.ticks(span.clone()),
            None => ticks_to_now(&(span.start as f64..span.end as f64)),
        };
        let key = self.key();
        let (from, whose) = ((self.source, self.series), &self.time.whose);
        let map = heatmap::read(from, self.report, key.as_deref(), &span, whose);
        let map = map.map_err(|why| why.to_string())?;
        let is_empty_now = map.total == 0 && self.time.spans.is_none();
        let why = self.series.why_not(self.report, key.as_deref()).filter(|_| is_empty_now);
        if let (None, Some(reach)) = (&self.time.spans, self.series.coverage()) {
            // The first column is whole.
            let step = step_of(span.end - span.start);
            span.start = reach.from.max(span.start - span.start % step);
        }
        why.map_or(Ok(HeatOfSpan { map, span, ticks }), Err)
    }

    /// Draws a heat map whose columns link to the requests or timers of their time.
    fn heat_drawn(
        &self,
        id: &str,
        title: &str,
        theme: Theme,
        HeatOfSpan { map, span, ticks }: &HeatOfSpan,
        limits: &[(String, u64)],
    ) -> Markup {
        let report = self.source.listed(self.report).ok();
        let conditions = report.map(|report| Conditions::of(&report.definition, self.keys));
        let Conditions { requests, timers, .. } = conditions.unwrap_or_default();
        let of_timers = matches!(self.counted, Counted::Timers);
        let path = if of_timers { "/timers" } else { "/requests" };
        let tags = timers.into_iter().map(|(name, value)| (format!("t.{name}"), value));
        let tags: Vec<(String, String)> = tags.filter(|_| of_timers).collect();
        let memory = self.source.memory_from().filter(|_| self.time.is_now());
        let address = |from: u64, to: u64| {
            // Columns at the ends may stand for times that were not counted.
            let (from, to) = (from.max(span.start), to.min(span.end));
            // Memory has all requests, history perhaps only a sample of them.
            let is_there = memory.is_some_and(|memory| memory <= from);
            let [until, from, to] = [to - 1, from, to].map(|at| at.to_string());
            let of_memory = [("since", from.as_str()), ("until", until.as_str())];
            let of_history = [("from", from.as_str()), ("to", to.as_str())];
            // A page of timers of the past is over whole minutes of history.
            let span = of_history.into_iter().filter(|_| !is_there);
            let span = span.chain(of_memory.into_iter().filter(|_| is_there || of_timers));
            let sort = (!of_timers).then_some(("sort", "-req_time"));
            let others = self.time.pairs().filter(|(name, _)| !["from", "to"].contains(name));
            let given = pairs(&requests).chain(pairs(&tags));
            link(path, given.chain(span).chain(sort).chain(others))
        };
        let links = (&address as &dyn Fn(u64, u64) -> String, !of_timers);
        chart::heat((id, title), theme, map, ticks, limits, links)
    }
}

/// The limit of an objective, for the legend: drawn as a line if it is in the map.
fn limit_text(map: &HeatMap, name: &str, us: u64) -> String {
    let limit = formatting::secs(us as f64 / 1e6);
    let what = match (map.edges_us.first(), map.edges_us.last()) {
        (_, Some(top)) if us > *top => ", above the map",
        (Some(bottom), _) if us < *bottom => ", below the map",
        _ => "",
    };
    format!("dashed: {} allows {limit}{what}", visible(name))
}
