//! `/requests/{id}`: one request with its tags and a waterfall of its timers.
//!
//! A packet says how long each timer ran, not when it began. The waterfall therefore lays timers
//! end to end in packet order, each with its length, on the scale of the request's time, and says
//! so. Timers that came as spans stand where they began. With `by=TAG` timers of the same value are
//! one bar. At most [`ROWS_MAX`] bars stand on one page. Above it one bar shows where the time
//! went: the values of one tag ([`Palette`]), each in the colour of its timers below, and the time
//! that no timer covers. A Squid request has a waterfall of its activities instead (`activities`).

use std::cmp::Reverse;
use std::collections::HashMap;

use maud::{Markup, Render, html};

use super::formatting::{self, Name, Scale, named, or_empty};
use super::frame;
use super::ranking::Ranking;
use super::render::View;
use super::table::{FALL, Head, cell, pager, table};
use super::time::Time;
use super::timer_groups::absent;
use crate::http::error::Problem;
use crate::http::params::{id, pairs};
use crate::query::answer::{RequestDetail, TimerDetail};

mod activities;
mod palette;

use palette::Palette;

/// Fields that link to a search.
const LINKED: [&str; 4] = ["status", "hostname", "server_name", "schema"];
/// Shown if more than one.
const ONE: [&str; 2] = ["req_count", "weight"];
/// Returns the URL of the page with other parameters.
type Address<'a> = dyn Fn(&[(&str, &str)]) -> String + 'a;

/// Most bars on one page.
const ROWS_MAX: usize = 150;
/// Most names of tags offered for grouping.
const TAG_NAMES_MAX: usize = 20;

/// `GET /requests/{id}`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.form()?;
    let id = id(view.name())?;
    let run = params.number("run")?;
    let by = params.text("by");
    let offset = params.count("offset", 0)?;
    params.finish()?;
    let RequestDetail { row, tags, timers, activities } = view.source.request(id, run)?;
    let of_squid = activities.or_else(|| activities::said_by(&timers));
    let request = Ranking::made(row, Vec::new(), "request_facts", "");
    let script = request.plain("script_name");
    let secs = request.number("req_time", 0).unwrap_or(0.0);
    let time_us = (secs * 1e6).round() as u64;
    let (time, path) = (&view.time, format!("/requests/{id}"));
    let run = run.map(|run| run.to_string());
    let run = run.as_deref().map(|run| ("run", run));
    let address =
        |more: &[(&str, &str)]| time.link(&path, run.into_iter().chain(more.iter().copied()));
    let main = html! {
        (frame::crumbs(&[(&time.link("/requests", []), "Requests")], &format!("#{id}")))
        h1 { (Name(&script)) }
        (facts(&request, &script, time))
        @if !tags.is_empty() {
            h2 { "Tags" }
            ul.tags {
                @for (name, value) in &tags {
                    @let search = format!("tag.{name}");
                    li { a href=(time.link("/requests", [(search.as_str(), &*or_empty(value))])) { (Name(name)) " = " (Name(value)) } }
                }
            }
        }
        @match &of_squid {
            Some(measures) => (activities::waterfall(time_us, measures, &timers)),
            None => (waterfall(&address, time_us, &timers, by.as_deref(), offset)),
        }
    };
    let title = format!("#{id} {}", named(&script));
    view.page("/requests", &title, &main)
}

/// The facts on the request in addition to tags and timers. Some link to all requests with the same
/// value.
fn facts(request: &Ranking, script: &str, time: &Time) -> Markup {
    html! {
        dl.facts {
            @for (at, column) in request.columns.iter().enumerate() {
                @let (name, value) = (column.name.as_str(), request.plain(&column.name));
                @let shown = request.shown(column, 0);
                @let is_linked = LINKED.contains(&name);
                @if (is_linked || !value.is_empty()) && (value != "1" || !ONE.contains(&name)) {
                    div { dt { (column.title) } dd.big[at < 2] {
                        @if is_linked { a href=(time.link("/requests", [(name, &*or_empty(&value))])) { (shown) } } @else { (shown) }
                    } }
                }
            }
            @if let Some(received) = request.table().column("timestamp").and_then(|at| request.table().value(0, at).number()) {
                div { dt { "Received" } dd { (time.moment(received as u64)) } }
            }
        }
        p.about {
            a href=(time.row_link("report_by_script_name", "row", [("script_name", script)], None)) { "This script" }
            " \u{b7} "
            a href=(time.link("/requests", [("script_name", &*or_empty(script)), ("sort", "-req_time")])) { "Its slowest requests" }
        }
    }
}

/// One bar of the waterfall.
#[derive(Debug, Clone, Default, PartialEq)]
struct Bar<'a> {
    /// Its tags, or the one value it stands for.
    tags: Vec<(&'a str, &'a str)>,
    timers: usize,
    hits: u64,
    value_us: u64,
    /// CPU time; `None` if that of a timer is not known.
    ru_us: Option<u64>,
    /// Its start if it is known, or else the total time of the bars before it.
    start_us: u64,
}

impl Bar<'_> {
    fn add(&mut self, timer: &TimerDetail) {
        self.timers += 1;
        self.hits += u64::from(timer.hit_count);
        self.value_us += timer.value_us;
        let both = self.ru_us.zip(timer.rusage.cpu_us());
        self.ru_us = both.map(|(sum, us)| sum + us);
    }
}

/// Bars, each timer separately: a span where it began, others end to end in packet order. Or
/// grouped by the value of a tag, end to end, longest first.
fn bars<'a>(timers: &'a [TimerDetail], by: Option<&'a str>) -> Vec<Bar<'a>> {
    let mut bars: Vec<Bar<'a>> = Vec::new();
    let mut known = HashMap::new();
    for (at, timer) in timers.iter().enumerate() {
        let tags = pairs(&timer.tags);
        let (alone, tags): (_, Vec<_>) = match by {
            None => (Some(at), tags.collect()),
            Some(by) => (None, tags.filter(|(name, _)| *name == by).take(1).collect()),
        };
        let key = (alone, tags.first().map(|(_, value)| *value));
        let place = *known.entry(key).or_insert(bars.len());
        if place == bars.len() {
            bars.push(Bar { tags, ru_us: Some(0), ..Bar::default() });
        }
        bars[place].add(timer);
    }
    if by.is_some() {
        bars.sort_by_key(|bar| Reverse(bar.value_us));
    }
    let mut end_us = 0;
    for (at, bar) in bars.iter_mut().enumerate() {
        let known = timers.get(at).filter(|_| by.is_none());
        bar.start_us = known.and_then(|timer| timer.rusage.start_us()).unwrap_or(end_us);
        end_us += bar.value_us;
    }
    bars
}

fn waterfall(
    address: &Address<'_>,
    time_us: u64,
    timers: &[TimerDetail],
    by: Option<&str>,
    offset: usize,
) -> Markup {
    if timers.is_empty() {
        return html! { h2 { "Timers" } p.note { "This request has no timers: its script does not call " code { "pinba_timer_start()" } "." } };
    }
    let bars = bars(timers, by);
    let sum_us: u64 = timers.iter().map(|timer| timer.value_us).sum();
    let has_starts = by.is_none() && timers.iter().any(|it| it.rusage.start_us().is_some());
    let ends = bars.iter().map(|bar| bar.start_us + bar.value_us);
    let whole_us = ends.max().unwrap_or(0).max(time_us);
    let palette = Palette::of(timers, by);
    let secs = |us: u64| us as f64 / 1e6;
    let times = Scale::of_secs(bars.iter().map(|bar| secs(bar.value_us)));
    let cpus = Scale::of_secs(bars.iter().filter_map(|bar| bar.ru_us).map(secs));
    // Nothing has a share of no time.
    let share = |us: u64| formatting::percent(100.0 * us as f64 / time_us as f64);
    let mut heads = vec![
        Head::number("#").class("aside"),
        Head::text(html! { @if let Some(tag) = by { (Name(tag)) } @else { "Tags" } }),
        Head::number("Timers"),
        Head::number("Hits"),
        Head::number("Time"),
        Head::number("Share").hint("Share of the request's time"),
        Head::number("CPU").hint("User and system CPU"),
        axis(whole_us),
    ];
    if by.is_none() {
        heads.remove(2);
    }
    let cells = |(at, bar): (usize, &Bar<'_>)| {
        html! {
            td.aside { (at + 1) }
            th.key.text scope="row" {
                @match (by, bar.tags.first()) {
                    (None, _) => (formatting::tags(bar.tags.iter().copied())),
                    (Some(_), Some((_, value))) => span.tag { (Name(value)) },
                    (Some(_), None) => span.none { "without this tag" },
                }
            }
            @if by.is_some() { td { (formatting::count(bar.timers as u64)) } }
            td { (formatting::count(bar.hits)) }
            td { (times.text(secs(bar.value_us))) }
            (cell((time_us > 0).then_some(bar.value_us), share))
            (cell(bar.ru_us, |us| cpus.text(secs(us))))
            td.fall { (fall(bar, palette.colour(&bar.tags), time_us, whole_us)) }
        }
    };
    let shown = bars.iter().enumerate().skip(offset).take(ROWS_MAX);
    let cells: Vec<Markup> = shown.map(cells).collect();
    let count = cells.len();
    html! {
        section aria-labelledby="waterfall-h" {
            h2 #waterfall-h { "Timers" }
            (palette.shares(time_us, sum_us))
            (choice(address, timers, by))
            p.note {
                @if has_starts { "Each bar stands where its span began" } @else {
                    @if by.is_some() { "The bars stand end to end from longest to shortest" }
                    @else { "A packet says how long each timer ran, not when it began: the bars stand end to end in the order they were sent" }
                }
                ". Timers cover " b { (formatting::micros(sum_us)) } " of " b { (formatting::micros(time_us)) } @if time_us > 0 { " " span.whole { "(" (share(sum_us)) ")" } }
                @if sum_us > time_us { "; that is more than the request took: some ran inside others, or side by side" }
                "."
            }
            div #waterfall { (table("Waterfall", html! { span.hidden { "Timers of the request" } }, heads, cells, "")) }
            (pager(offset, count, bars.len(), ROWS_MAX, |offset| {
                let by = by.map(|tag| ("by", tag));
                let more: Vec<_> = by.into_iter().chain([("offset", offset)]).collect();
                address(&more)
            }))
        }
    }
}

/// The tags by which timers can be grouped.
fn choice(address: &Address<'_>, timers: &[TimerDetail], by: Option<&str>) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in timers.iter().flat_map(|timer| &timer.tags) {
        if names.len() < TAG_NAMES_MAX && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let choice = |name| {
        let text = html! { "by " (Name(name)) };
        (address(&[("by", name)]), text, by == Some(name))
    };
    let each = (address(&[]), html! { "Each timer" }, by.is_none());
    let choices: Vec<_> = [each].into_iter().chain(names.iter().copied().map(choice)).collect();
    html! {
        (frame::views("Group timers", "", &choices))
        @if let Some(by) = by && !names.contains(&by) { p.note { (absent(by, names)) } }
    }
}

/// The head of the column of bars.
fn axis(whole_us: u64) -> Head {
    let whole = formatting::micros(whole_us);
    let text = if whole_us == 0 { whole } else { format!("0 \u{2013} {whole}") };
    Head::number(text).class(FALL)
}

/// A bar in position. The numbers stand in the columns before it.
fn fall(bar: &Bar<'_>, colour: usize, time_us: u64, whole_us: u64) -> Markup {
    let scaled = |us: u64| 1000.0 * us as f64 / whole_us.max(1) as f64;
    let width = scaled(bar.value_us).max(2.0);
    let x = scaled(bar.start_us).min(1000.0 - width);
    track(scaled(time_us), [(colour, x, width)])
}

/// Bars by colour, position and width, of 1000, over the part that is `within` the request.
fn track<C: Render>(within: f64, bars: impl IntoIterator<Item = (C, f64, f64)>) -> Markup {
    html! {
        svg.fall viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.within width=(format!("{within:.1}")) height="10" {}
            @for (colour, x, width) in bars {
                rect class={ "run c" (colour) } x=(format!("{x:.1}")) width=(format!("{width:.1}")) height="10" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::resolved::Rusage;

    /// A timer of two hits.
    pub(super) fn timer(value_us: u64, tags: &[(&str, &str)]) -> TimerDetail {
        TimerDetail {
            id: 1,
            hit_count: 2,
            value_us,
            rusage: Rusage::Times([1, 1]),
            tags: tags.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect(),
        }
    }

    #[test]
    fn bars_stand_end_to_end() {
        let timers = [
            timer(100, &[("group", "a")]),
            timer(300, &[("group", "b")]),
            timer(50, &[("group", "a")]),
            timer(5, &[]),
        ];
        let starts: Vec<u64> = bars(&timers, None).iter().map(|bar| bar.start_us).collect();
        assert_eq!(starts, [0, 100, 400, 450]);
        let grouped = bars(&timers, Some("group"));
        let sums: Vec<_> = grouped
            .iter()
            .map(|bar| {
                (
                    bar.tags.first().map(|tag| tag.1),
                    bar.timers,
                    bar.hits,
                    bar.value_us,
                    bar.start_us,
                )
            })
            .collect();
        assert_eq!(
            sums,
            [(Some("b"), 1, 2, 300, 0), (Some("a"), 2, 4, 150, 300), (None, 1, 2, 5, 450)]
        );
    }

    #[test]
    fn spans_stand_where_they_began() {
        let mut timers = [
            timer(100, &[("group", "a")]),
            timer(300, &[("group", "b")]),
            timer(50, &[("group", "a")]),
        ];
        for (timer, start_us) in timers.iter_mut().zip([40, 60, 900]) {
            timer.rusage = Rusage::Span(start_us);
        }
        let found = bars(&timers, None);
        let starts: Vec<_> = found.iter().map(|bar| (bar.start_us, bar.ru_us)).collect();
        assert_eq!(starts, [(40, None), (60, None), (900, None)]);
        let grouped = bars(&timers, Some("group"));
        let starts: Vec<u64> = grouped.iter().map(|bar| bar.start_us).collect();
        assert_eq!(starts, [0, 300], "sums have no place");
        let address = |_: &[(&str, &str)]| String::new();
        let page = waterfall(&address, 1_000, &timers, None, 0).into_string();
        assert!(page.contains("where its span began"), "{page}");
        assert!(page.contains("0 \u{2013} 1.00 ms"), "{page}");
        let page = waterfall(&address, 1_000, &timers, Some("group"), 0).into_string();
        assert!(page.contains("from longest to shortest"), "{page}");
    }

    #[test]
    fn shares_are_of_the_request_and_overlap_is_said() {
        let timers = [timer(1_500_000, &[("group", "<b>")])];
        let time = Time::default();
        let address = |more: &[(&str, &str)]| time.link("/requests/1", more.iter().copied());
        let page = waterfall(&address, 1_000_000, &timers, None, 0).into_string();
        assert_has!(page => "150 %", "more than the request took");
        assert_has!(page => "&lt;b&gt;");
        assert_lacks!(page => "<b>b");
        let page = waterfall(&address, 0, &timers, None, 0).into_string();
        assert_has!(page => "cover <b>1.50 s</b> of <b>0</b>;");
        assert_lacks!(page => " %");
        let page = waterfall(&address, 0, &[timer(0, &[])], None, 0).into_string();
        assert_has!(page => ">0</th>");
        let page = waterfall(&address, 3_000_000, &timers, None, 0).into_string();
        assert_has!(page => "50.0 %");
        assert_lacks!(page => "more than");
        // A column has one unit.
        let timers = [timer(1_500_000, &[]), timer(250_000, &[])];
        let page = waterfall(&address, 3_000_000, &timers, None, 0).into_string();
        assert_has!(page => ">1.50 s</td>", ">0.250 s</td>");
    }
}
