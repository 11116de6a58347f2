//! Charts of a row over time: traffic, times, errors, CPU, each also available at its own URL.
//!
//! Live charts show the last hour in memory ([`Series`]), which follows the rows of some reports;
//! for others, and for rows too light to be kept, the page says why there is no chart. `span` is
//! how far back they go: by default everything there is, up to an hour. For samples it is the data
//! of the pool within the report's window. Charts of the past come from the series as far as it
//! reaches back, and from history otherwise; all of a page from one read.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::chart::{COLOURS_MAX, Chart, Line, Mark, Theme, ticks_to_now};
use super::columns::Show;
use super::formatting::{self, visible};
use super::frame;
use super::render::View;
use super::time::Time;
use crate::http::api::series::step_of;
use crate::http::error::Problem;
use crate::http::params::{Params, pairs};
use crate::profile::report::METRICS;
use crate::query::answer::PastLines;
use crate::query::catalog::Catalog;
use crate::query::question::{LineQuestion, SampleQuestion, Whose};
use crate::series::{Coverage, EVERYTHING, Lines, Metric, Series};
use crate::state::annotations::Annotation;

mod heat;
mod lines;

/// How far back a chart can go: in the address, seconds, seconds from one point to the next.
const SPANS: [(&str, u64, u64); 4] =
    [("1m", 60, 1), ("5m", 300, 2), ("15m", 900, 10), ("1h", 3600, 20)];

/// The charts in `charts.toml`.
#[derive(Debug, Deserialize)]
struct Kinds {
    /// For rows of requests.
    requests: Vec<Kind>,
    timers: Vec<Kind>,
    samples: Vec<Kind>,
}

/// The data that the rows of a report count.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    Requests,
    Timers,
    /// Samples that reach back this many seconds.
    Samples(u64),
}

impl Counted {
    /// The name of their times, and of one of them.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Timers => ("time per hit", "hit"),
            Self::Requests | Self::Samples(_) => ("request time", "request"),
        }
    }
}

/// One chart.
#[derive(Debug, Deserialize)]
struct Kind {
    /// Its name in the URL.
    name: String,
    title: String,
    show: Show,
    /// Name, colour and metric of each line.
    lines: Vec<(String, usize, String)>,
}

/// Most points of a line: there are hardly more pixels.
const POINTS_MAX: u64 = 370;
/// Most marks of a chart.
const MARKS_MAX: usize = 100;
/// Possible seconds per point when zooming into the last hour.
const FINE_STEPS: [u64; 6] = [1, 2, 5, 10, 20, 30];

/// Length in seconds of "now": the bar above every page, the legends of live charts.
pub(super) const RECENT_SECS: u64 = 5;
const OVER: &str = "last 5 s";

/// Used when there is no last hour.
static NOTHING: LazyLock<Series> = LazyLock::new(Series::nothing);

static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    toml::from_str(include_str!("charts.toml")).expect("the charts are well formed")
});

/// The names of all charts.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let is_new = |kind: &&Kind| KINDS.requests.iter().all(|it| it.name != kind.name);
    let kinds = KINDS.requests.iter().chain(KINDS.samples.iter().filter(is_new));
    kinds.map(|kind| kind.name.as_str())
}

/// Parses the parameter `span`.
pub(super) fn span(params: &mut Params) -> Result<Option<&'static str>, Problem> {
    let names = SPANS.map(|(name, _, _)| name);
    let span = params.word("span", &names)?;
    Ok(params.get("span").map(|_| span))
}

/// The name of a metric in legends: `errors` of `errors_per_sec`.
fn called(metric: &str) -> String {
    let mut lines = KINDS.requests.iter().chain(&KINDS.timers).flat_map(|kind| &kind.lines);
    let found = lines.find(|(_, _, of)| of == metric).map(|(name, ..)| name.as_str());
    let plain = metric.trim_end_matches("_per_sec").trim_end_matches("_avg");
    found.unwrap_or(plain).to_owned()
}

/// A row whose history is shown.
#[derive(Clone, Copy)]
pub(super) struct History<'a> {
    pub(super) series: &'a Series,
    pub(super) report: &'a str,
    /// The keys, in the order of the report's columns.
    pub(super) keys: &'a [(String, String)],
    pub(super) counted: Counted,
    pub(super) span: Option<&'static str>,
    pub(super) source: &'a Catalog,
    pub(super) time: &'a Time,
}

impl<'a> History<'a> {
    /// The row of a report with these keys; `None` if no data is kept.
    pub(super) fn of_row(
        view: &'a View<'_>,
        report: &'a str,
        keys: &'a [(String, String)],
        counted: Counted,
        span: Option<&'static str>,
    ) -> Option<Self> {
        let nothing = matches!(counted, Counted::Samples(_)).then(|| &*NOTHING);
        Some(Self {
            series: view.app.settings.series.as_ref().or(nothing)?,
            report,
            keys,
            counted,
            span,
            source: view.source,
            time: &view.time,
        })
    }

    /// The values of the keys; `None` for the total.
    fn key(&self) -> Option<Vec<String>> {
        let key = || self.keys.iter().map(|(_, value)| value.clone()).collect();
        (!self.keys.is_empty()).then(key)
    }

    /// The charts of this row as figures, or why there are none.
    pub(super) fn figures(&self) -> Markup {
        let kinds = self.kinds();
        let charts = match self.charts(kinds) {
            Err(why) => return html! { p.note { "No charts: " (visible(&why)) } },
            Ok(charts) => charts,
        };
        let span = self.span.map(|span| ("span", span));
        let is_of_all = self.report == EVERYTHING && self.keys.is_empty();
        let address = |name: &str| {
            let file = format!("{name}.svg");
            self.time.row_link(self.report, &file, pairs(self.keys), span)
        };
        // The bar above the page shows these too, of the same moment.
        let now = |kind: &Kind, chart: &Chart| {
            let lines = kind.lines.iter().zip(&chart.lines);
            let now = lines.filter_map(|((.., metric), it)| Some((metric.clone(), it.now?.into())));
            Some(now.collect::<Map<String, Json>>()).filter(|it| !it.is_empty() && is_of_all)
        };
        html! {
            @for (at, kind) in kinds.iter().enumerate() {
                div id={ "past-" (kind.name) } data-live {
                    @if let Some(chart) = charts.get(at) {
                        @if let Some(now) = now(kind, chart) { span hidden data-now=(Json::from(now)) {} }
                        (chart.figure(&kind.name, &address(&kind.name)))
                    }
                }
            }
        }
    }

    /// One chart of these metrics, linked to the row's page; `None`: there are no points.
    pub(super) fn figure(&self, id: &str, title: &str, metrics: &[String]) -> Option<Markup> {
        let unit = Metric::parse(metrics.first()?)?.unit();
        let lines = metrics.iter().enumerate();
        let lines = lines.map(|(at, name)| (called(name), at % COLOURS_MAX, name.clone()));
        let kind = Kind {
            name: String::new(),
            title: title.to_owned(),
            show: match unit {
                "s" => Show::Secs,
                "bytes" | "bytes/s" => Show::Bytes,
                _ => Show::Number,
            },
            lines: lines.collect(),
        };
        let chart = self.charts(std::slice::from_ref(&kind)).ok()?.pop()?;
        let address = self.time.row_page(self.report, pairs(self.keys));
        Some(chart.figure(id, &address))
    }

    /// Links to other reaches of live charts, and a note where these begin with the daemon, though
    /// history knows more. `address` makes the address of the page with that span.
    pub(super) fn spans(&self, address: impl Fn(&str) -> String) -> Markup {
        if self.time.spans.is_some() {
            return html! {};
        }
        let (now, _, _) = self.reach();
        let choices = SPANS.map(|(name, secs, _)| {
            let text = html! { (formatting::roughly(secs as f64)) };
            (address(name), text, name == now)
        });
        html! {
            div #spans data-live {
                (frame::views("How far back", "Charts of the last", &choices))
                @if let Some(began) = self.began() {
                    p.note {
                        "Live charts and heat maps begin with this run of the daemon, at " (self.time.moment(began)) ". "
                        a href=(self.time.row_link(self.report, "row", pairs(self.keys), Some(("from", "-1h")))) { "The last hour from history" }
                    }
                }
            }
        }
    }

    /// The start of live charts, if it is within their span and history has data from before.
    fn began(&self) -> Option<u64> {
        let reach = self.series.coverage()?;
        let secs = self.span.map_or(SPANS[3].1, |_| self.reach().1);
        let is_whole = reach.to.saturating_sub(reach.from) * 21 / 20 >= secs;
        if is_whole || matches!(self.counted, Counted::Samples(_)) {
            return None;
        }
        let kept_from = self.source.kept_from(self.report).ok().flatten()?;
        (kept_from + 60 <= reach.from).then_some(reach.from)
    }

    fn kinds(&self) -> &'static [Kind] {
        match self.counted {
            Counted::Requests => &KINDS.requests,
            Counted::Timers => &KINDS.timers,
            Counted::Samples(_) => &KINDS.samples,
        }
    }

    /// The span: name, seconds, step. By default, as far as there is data.
    fn reach(&self) -> (&'static str, u64, u64) {
        let covered = match self.counted {
            Counted::Samples(covered) => covered,
            _ => self.series.coverage().map_or(0, |it| it.to.saturating_sub(it.from)),
        };
        let wanted = |(name, secs, _): &&(&str, u64, u64)| match self.span {
            Some(span) => *name == span,
            // At most a twentieth does not fit.
            None => *secs * 21 / 20 >= covered,
        };
        *SPANS.iter().find(wanted).unwrap_or(&SPANS[3])
    }

    /// One stand-alone chart; `of` is the name of its row.
    pub(super) fn picture(&self, name: &str, of: &str, theme: Theme) -> Result<Markup, Problem> {
        let kind = self.kinds().iter().find(|kind| kind.name == name);
        let kind = kind.ok_or_else(|| Problem::not_found("its rows have no such chart"))?;
        let charts = self.charts(std::slice::from_ref(kind));
        let chart = charts.map_err(Problem::not_found)?.pop();
        let nothing = || Problem::not_found("no second is complete yet");
        let mut chart = chart.ok_or_else(nothing)?;
        chart.title = format!("{of}: {}, {}", chart.title, chart.by[0]);
        Ok(chart.svg("alone", theme))
    }

    /// Charts of these kinds, or why there are none, as before the first second is complete.
    fn charts(&self, kinds: &[Kind]) -> Result<Vec<Chart>, String> {
        if let Counted::Samples(_) = self.counted {
            return self.sampled(kinds);
        }
        let lines = kinds.iter().flat_map(|kind| &kind.lines);
        let metrics = lines.filter_map(|(_, _, metric)| Metric::parse(metric));
        let metrics: Vec<Metric> = metrics.collect();
        let time = self.time;
        let Some(spans) = &time.spans else { return self.live(kinds, &metrics) };
        let (mut now, mut by) = self.read(&metrics, &spans.span, 1)?;
        let before = spans.before.as_ref().map(|before| self.read(&metrics, before, 1));
        let (before, by_before) = before.transpose()?.unzip();
        // An average over a minute beside single seconds would look calmer than it was.
        if let Some(before) = before.as_ref().filter(|before| before.step > now.step) {
            (now, by) = self.read(&metrics, &spans.span, before.step)?;
        }
        let before = before.map(|before| before.refined(now.step, &[]));
        let span = now.from..spans.span.end.max(now.from + 1);
        let blank = Chart {
            span: span.start as f64..span.end as f64,
            ticks: time.ticks(span.clone()),
            marks: self.marks(&span),
            by: [by, by_before.unwrap_or_default()],
            can_zoom: time.has_past(),
            ..Chart::default()
        };
        let mut charts = drawn(kinds, &blank, &now, (now.middle(), false));
        if let (Some(read), Some(before)) = (&before, &spans.before) {
            let start = read.middle() + spans.span.start as f64 - before.start as f64;
            let drawn = drawn(kinds, &blank, read, (start, true));
            for (chart, before) in charts.iter_mut().zip(drawn) {
                chart.lines.extend(before.lines);
            }
        }
        Ok(charts)
    }

    /// Charts of samples: up to now, whatever time is selected.
    fn sampled(&self, kinds: &[Kind]) -> Result<Vec<Chart>, String> {
        let lines = kinds.iter().flat_map(|kind| &kind.lines);
        let named = |name: &String| METRICS.iter().find(|metric| metric.0 == name);
        let metrics: Vec<_> = lines.filter_map(|(_, _, metric)| named(metric)).collect();
        let (_, secs, step) = self.reach();
        let (key, now) = (self.key(), self.source.unix_ms() / 1_000);
        let question = SampleQuestion {
            key,
            metrics,
            span: now.saturating_sub(secs)..now,
            step,
            whose: Whose::Own,
        };
        let found = self.source.sample_lines(self.report, &question);
        let found = found.map_err(|why| why.to_string())?;
        Ok(self.drawn_to_now(kinds, found.finished(now), &[]))
    }

    /// Charts of the last hour.
    fn live(&self, kinds: &[Kind], metrics: &[Metric]) -> Result<Vec<Chart>, String> {
        if let Some(why) = self.series.why_not(self.report, self.key().as_deref()) {
            return Err(why);
        }
        let Some(coverage) = self.series.coverage() else { return Ok(Vec::new()) };
        let (_, secs, step) = self.reach();
        let span = (coverage.to.saturating_sub(secs), coverage.to, step);
        let found = self.series.lines(self.report, self.key().as_deref(), metrics, span)?;
        let now = self.series.newest(self.report, self.key().as_deref(), metrics, RECENT_SECS);
        Ok(self.drawn_to_now(kinds, found.finished(span.1), &now.unwrap_or_default()))
    }

    /// Charts of data up to now. `now`: values of the legend if they are not the newest points.
    fn drawn_to_now(&self, kinds: &[Kind], found: Lines, now: &[Option<f64>]) -> Vec<Chart> {
        let count = found.points.iter().map(Vec::len).max().unwrap_or(0);
        let secs = count.saturating_sub(1).max(1) as u64 * found.step;
        let span = found.from as f64..(found.from + secs) as f64;
        let blank = Chart {
            ticks: ticks_to_now(&span),
            span,
            marks: self.marks(&(found.from..found.from + secs)),
            is_live: true,
            over: if now.is_empty() { "" } else { OVER },
            by: [formatting::by(found.step), String::new()],
            can_zoom: self.time.has_past() && !matches!(self.counted, Counted::Samples(_)),
            ..Chart::default()
        };
        let mut charts = drawn(kinds, &blank, &found, (found.from as f64, false));
        let lines = charts.iter_mut().flat_map(|chart| &mut chart.lines);
        for (line, now) in lines.zip(now) {
            line.now = *now;
        }
        charts
    }

    /// The newest annotations of a span.
    fn marks(&self, span: &Range<u64>) -> Vec<Mark> {
        let noted = self.source.annotations.within(&(span.start..=span.end));
        let newest = noted.iter().rev().take(MARKS_MAX);
        let mark = |it: &Arc<Annotation>| Mark {
            time: it.time as f64,
            text: match it.tags.as_str() {
                "" => visible(&it.text),
                tags => format!("{} [{}]", visible(&it.text), visible(tags)),
            },
        };
        newest.map(mark).collect()
    }

    /// Reads a span from the last hour or history, in steps of at least `step_min` seconds; returns
    /// the step in words too.
    fn read(
        &self,
        metrics: &[Metric],
        span: &Range<u64>,
        step_min: u64,
    ) -> Result<(Lines, String), String> {
        let secs = span.end - span.start;
        let fits = |step: &&u64| **step >= step_min && secs.div_ceil(**step) <= POINTS_MAX;
        let fine = FINE_STEPS.iter().find(fits).copied();
        let reaches = |reach: &Coverage| match fine {
            // Earlier times come from history, minute by minute.
            Some(_) => reach.from < span.end,
            None => reach.from <= span.start,
        };
        let reach = self.series.coverage().filter(reaches);
        if let Some(reach) = reach.filter(|_| !self.time.whose.is_fleet()) {
            let asked = (reach.from.max(span.start), span.end, fine.unwrap_or(60));
            let key = self.key();
            if let Ok(found) = self.series.lines(self.report, key.as_deref(), metrics, asked) {
                let by = formatting::by(found.step);
                if found.from <= span.start {
                    return Ok((found, by));
                }
                let minute = reach.from.next_multiple_of(60).min(span.end);
                let secs = reach.to.min(minute).saturating_sub(reach.from);
                if let Ok(earlier) = self.kept(metrics, &(span.start..minute)) {
                    let by = format!("{by}, at first {}", formatting::by(earlier.lines.step));
                    if let Some(all) = found.preceded_by(earlier, secs) {
                        return Ok((all, by));
                    }
                }
            }
        }
        let kept = self.kept(metrics, span)?.lines;
        let by = formatting::by(kept.step);
        Ok((kept, by))
    }

    /// Reads a span from history.
    fn kept(&self, metrics: &[Metric], span: &Range<u64>) -> Result<PastLines, String> {
        let secs = span.end - span.start;
        let question = LineQuestion {
            key: self.key(),
            metrics: metrics.to_vec(),
            span: span.clone(),
            step: step_of(secs, POINTS_MAX),
            whose: self.time.whose.clone(),
        };
        let found = self.source.past_lines(self.report, &question);
        found.map_err(|why| why.to_string())
    }
}

/// A chart for each kind, of lines read in this order. `start` is the position of the first points.
fn drawn(
    kinds: &[Kind],
    blank: &Chart,
    read: &Lines,
    (start, is_before): (f64, bool),
) -> Vec<Chart> {
    let mut found = read.points.iter();
    let chart = |kind: &Kind| {
        let lines = kind.lines.iter().zip(found.by_ref());
        let lines = lines.map(|((name, colour, _), points)| Line {
            name: name.clone(),
            colour: *colour,
            is_before,
            start,
            step: read.step as f64,
            points: points.iter().map(|it| it.unwrap_or(f64::NAN)).collect(),
            now: None,
        });
        let (title, unit, lines) = (kind.title.clone(), kind.show, lines.collect());
        Chart { title, unit, lines, ..blank.clone() }
    };
    kinds.iter().map(chart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::harness::catalog;

    #[test]
    fn no_line_has_more_points_than_a_chart_is_drawn_with() {
        for (name, secs, step) in SPANS {
            assert!(secs / step <= POINTS_MAX, "{name}");
        }
        for secs in [1_u64, 3_600, 86_400 * 30, 253_402_300_800] {
            assert!(secs.div_ceil(step_of(secs, POINTS_MAX)) <= POINTS_MAX, "{secs}");
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
        for (name, _, metric) in KINDS.samples.iter().flat_map(|kind| &kind.lines) {
            assert!(METRICS.iter().any(|it| it.0 == metric), "{name}");
        }
    }

    #[test]
    fn legends_name_what_is_drawn() {
        let names = ["errors_per_sec", "req_per_sec", "p99_9", "memory_avg", "traffic_per_sec"];
        assert_eq!(names.map(called), ["errors", "requests", "p99_9", "memory", "traffic"]);
    }

    #[test]
    fn without_data_there_is_a_reason() {
        let series = Series::nothing();
        let history = History {
            series: &series,
            report: "<x>",
            keys: &[],
            counted: Counted::Requests,
            span: None,
            source: &catalog(0),
            time: &Time::default(),
        };
        let page = history.figures().into_string();
        assert_has!(page => "No charts: ");
        assert_lacks!(page => "<x>");
    }
}
