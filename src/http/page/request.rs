//! `/requests/{id}`: one request with its tags and a waterfall of its timers.
//!
//! A packet says how long each timer ran, not when it began. The waterfall therefore lays timers end to end in the order in which
//! they were sent, each as long as it was, on the scale of the request's time, and says so. With `by=TAG` timers of the same value
//! are one bar. At most [`ROWS_MAX`] bars stand on one page. Above it one bar shows where the time went: the values of one tag
//! ([`Palette`]), each in a colour that its timers have below, and what no timer covers.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Response, Uri};
use maud::{Markup, html};

use super::ask::Given;
use super::frame::{self, Section};
use super::row;
use super::show::{self, Name, link, visible};
use crate::http::params;
use crate::http::routes::App;
use crate::query::source::{RequestDetail, Source, TimerDetail};
use crate::value::Value;

mod palette;

use palette::Palette;

/// Bars on one page.
const ROWS_MAX: usize = 150;
/// Names of tags that are offered for grouping.
const TAG_NAMES_MAX: usize = 20;

/// `GET /requests/{id}`
pub(super) async fn read(
    State(app): State<App>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response<Body> {
    let given = Given::parse(uri.query());
    let view = given.and_then(|given| {
        let id = params::number("id", &id.map(|Path(id)| id).unwrap_or_default())?;
        given.only(&["by", "from"], &[])?;
        let from = given.number("from")? as usize;
        Ok(move |source: &dyn Source| {
            let detail = source.request(id)?;
            Ok(page(id, &detail, given.get("by"), from))
        })
    });
    super::answer(app, &uri, view).await
}

fn page(id: u64, detail: &RequestDetail, by: Option<&str>, from: usize) -> Markup {
    let row = detail.row.as_ref();
    let get = |name: &str| match row.is_empty() {
        true => Value::Null,
        false => row.column(name).map_or(Value::Null, |at| row.value(0, at)),
    };
    let script = show::plain(&get("script_name"));
    let path = format!("/requests/{id}");
    let time_us = match get("req_time") {
        Value::Micros(us) => us,
        _ => 0,
    };
    let main = html! {
        nav.crumbs aria-label="Where this is" { a href="/requests" { "Requests" } " / " span { "#" (id) } }
        h1 { (Name(&script)) }
        (facts(&get))
        @if !detail.tags.is_empty() {
            h2 { "Tags" }
            ul.tags {
                @for (name, value) in &detail.tags {
                    @let search = format!("tag.{name}");
                    li { a href=(link("/requests", [(search.as_str(), value.as_str())])) { (Name(name)) " = " (Name(value)) } }
                }
            }
        }
        (waterfall(&path, time_us, &detail.timers, by, from))
    };
    frame::page(
        Section::Requests,
        &format!("#{id} {}", visible(&script)),
        &main,
    )
}

/// What is known of the request beside tags and timers.
fn facts<'a>(get: &impl Fn(&str) -> Value<'a>) -> Markup {
    let text = |name: &str| show::plain(&get(name));
    let kib = |name: &str| match get(name) {
        Value::Float(kib) => show::bytes(kib * 1024.0),
        _ => "\u{2013}".to_owned(),
    };
    let script = text("script_name");
    let all_of = |name: &str, value: &str| link("/requests", [(name, value)]);
    let status = text("status");
    html! {
        dl.facts {
            div { dt { "Time" } dd.big { (show::value("req_time", &get("req_time"))) } }
            div { dt { "Status" } dd.big { a href=(all_of("status", &status)) { (status) } } }
            div { dt { "User CPU" } dd { (show::value("ru_utime", &get("ru_utime"))) } }
            div { dt { "System CPU" } dd { (show::value("ru_stime", &get("ru_stime"))) } }
            div { dt { "Peak memory" } dd { (kib("mem_peak_usage")) } }
            div { dt { "Size" } dd { (kib("doc_size")) } }
            @for (name, title) in [("hostname", "Host"), ("server_name", "Server"), ("schema", "Schema")] {
                @let value = text(name);
                @if !value.is_empty() {
                    div { dt { (title) } dd { a href=(all_of(name, &value)) { (Name(&value)) } } }
                }
            }
            div { dt { "Received" } dd { @if let Value::Int(secs) = get("timestamp") { (show::moment(secs.unsigned_abs())) } } }
            @if let Value::Int(count @ 2..) = get("req_count") { div { dt { "Requests in packet" } dd { (count) } } }
        }
        p.about {
            a href=(row::address("report_by_script_name", &[("script_name", &script)])) { "This script" }
            " \u{b7} "
            a href=(link("/requests", [("script_name", script.as_str()), ("order", "slowest")])) { "its slowest requests" }
        }
    }
}

/// One bar of the waterfall.
#[derive(Debug, Clone, PartialEq)]
struct Bar<'a> {
    /// Its tags, or the one value it stands for.
    tags: Vec<(&'a str, &'a str)>,
    timers: usize,
    hits: u64,
    value_us: u64,
    ru_us: u64,
    /// Time of all bars before it.
    start_us: u64,
}

/// Each timer for itself, in the order of the packet.
fn each<'a>(timers: &'a [TimerDetail]) -> Vec<Bar<'a>> {
    let mut start_us = 0;
    let bar = |timer: &'a TimerDetail| {
        let TimerDetail {
            hit_count,
            value_us,
            ru_utime_us,
            ru_stime_us,
            tags,
            ..
        } = timer;
        let bar = Bar {
            tags: tags
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect(),
            timers: 1,
            hits: u64::from(*hit_count),
            value_us: *value_us,
            ru_us: ru_utime_us + ru_stime_us,
            start_us,
        };
        start_us += value_us;
        bar
    };
    timers.iter().map(bar).collect()
}

/// Those with the same value of a tag together, the longest first.
fn grouped<'a>(timers: &'a [TimerDetail], tag: &'a str) -> Vec<Bar<'a>> {
    let mut bars: Vec<Bar<'a>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for timer in timers {
        let found = timer.tags.iter().find(|(name, _)| name == tag);
        let value = found.map(|(_, value)| value.as_str());
        let place = *places.entry(value).or_insert(bars.len());
        if place == bars.len() {
            bars.push(Bar {
                tags: value.map(|value| (tag, value)).into_iter().collect(),
                timers: 0,
                hits: 0,
                value_us: 0,
                ru_us: 0,
                start_us: 0,
            });
        }
        let bar = &mut bars[place];
        bar.timers += 1;
        bar.hits += u64::from(timer.hit_count);
        bar.value_us += timer.value_us;
        bar.ru_us += timer.ru_utime_us + timer.ru_stime_us;
    }
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.value_us));
    let mut start_us = 0;
    for bar in &mut bars {
        bar.start_us = start_us;
        start_us += bar.value_us;
    }
    bars
}

fn waterfall(
    path: &str,
    time_us: u64,
    timers: &[TimerDetail],
    by: Option<&str>,
    from: usize,
) -> Markup {
    if timers.is_empty() {
        return html! { h2 { "Timers" } p.note { "The packet had no timers: the script measures nothing with " code { "pinba_timer_start()" } "." } };
    }
    let bars = match by {
        None => each(timers),
        Some(tag) => grouped(timers, tag),
    };
    let sum_us: u64 = timers.iter().map(|timer| timer.value_us).sum();
    let whole_us = time_us.max(sum_us).max(1);
    let palette = Palette::of(timers, by);
    let shown = bars.iter().skip(from).take(ROWS_MAX);
    let share = |us: u64| 100.0 * us as f64 / time_us.max(1) as f64;
    html! {
        section aria-labelledby="waterfall-h" {
            h2 #waterfall-h { "Timers" }
            (palette.shares(time_us, sum_us))
            (choice(path, timers, by))
            p.note {
                "The packet says how long each timer ran, not when it began: bars stand end to end "
                @if by.is_some() { "from the longest to the shortest" } @else { "in the order in which they were sent" }
                ". Timers cover " b { (show::micros(sum_us)) } " of " b { (show::micros(time_us)) } " (" (show::percent(share(sum_us))) ")"
                @if sum_us > time_us { "; more than the request took: some ran inside others, or side by side" }
                "."
            }
            div.wide tabindex="0" role="region" aria-label="Waterfall" {
                table #waterfall {
                    caption.hidden { "Timers of the request" }
                    thead { tr {
                        th.aside scope="col" { "#" }
                        th.key scope="col" { @if let Some(tag) = by { (Name(tag)) } @else { "Tags" } }
                        @if by.is_some() { th.aside scope="col" { "Timers" } }
                        th.aside scope="col" { "Hits" }
                        th scope="col" { "Time" }
                        th scope="col" title="Share of the request's time" { "Share" }
                        th.aside scope="col" title="User and system CPU" { "CPU" }
                        th.fall scope="col" { "0 \u{2013} " (show::micros(whole_us)) }
                    } }
                    tbody {
                        @for (at, bar) in shown.enumerate() {
                            tr {
                                td.aside { (from + at + 1) }
                                th.key scope="row" {
                                    @if bar.tags.is_empty() { span.none { @if by.is_some() { "without this tag" } @else { "no tags" } } }
                                    @for (at, (name, value)) in bar.tags.iter().enumerate() {
                                        @if at > 0 { " " }
                                        span.tag { @if by.is_none() { small { (Name(name)) " " } } (Name(value)) }
                                    }
                                }
                                @if by.is_some() { td.aside { (show::count(bar.timers as u64)) } }
                                td.aside { (show::count(bar.hits)) }
                                td { (show::micros(bar.value_us)) }
                                td { (show::percent(share(bar.value_us))) }
                                td.aside { (show::micros(bar.ru_us)) }
                                td.fall { (fall(bar, palette.colour(&bar.tags), time_us, whole_us)) }
                            }
                        }
                    }
                }
            }
            (frame::pager(from, bars.len().saturating_sub(from).min(ROWS_MAX), bars.len(), ROWS_MAX, |from| {
                let from = from.to_string();
                let by = by.map(|tag| ("by", tag));
                link(path, by.into_iter().chain([("from", from.as_str())]))
            }))
        }
    }
}

/// What timers can be grouped by.
fn choice(path: &str, timers: &[TimerDetail], by: Option<&str>) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in timers.iter().flat_map(|timer| &timer.tags) {
        if names.len() < TAG_NAMES_MAX && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let current = |is: bool| is.then_some("true");
    html! {
        nav.views aria-label="Group timers" {
            a href=(path) aria-current=[current(by.is_none())] { "Each timer" }
            @for name in names {
                a href=(link(path, [("by", name)])) aria-current=[current(by == Some(name))] { "by " (Name(name)) }
            }
        }
    }
}

/// A bar in its place. The numbers stand in the columns before it.
fn fall(bar: &Bar<'_>, colour: usize, time_us: u64, whole_us: u64) -> Markup {
    let scaled = |us: u64| 1000.0 * us as f64 / whole_us as f64;
    let width = scaled(bar.value_us).max(2.0);
    let x = scaled(bar.start_us).min(1000.0 - width);
    html! {
        svg.fall viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.within width=(format!("{:.1}", scaled(time_us))) height="10" {}
            rect class={ "run c" (colour) } x=(format!("{x:.1}")) width=(format!("{width:.1}")) height="10" {}
        }
    }
}

/// How a timer's tags stand in tables.
pub(super) fn tags(timer: &TimerDetail) -> Markup {
    html! {
        @for (at, (name, value)) in timer.tags.iter().enumerate() {
            @if at > 0 { " " }
            span.tag { small { (Name(name)) " " } (Name(value)) }
        }
        @if timer.tags.is_empty() { span.none { "no tags" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timer of two hits.
    pub(super) fn timer(value_us: u64, tags: &[(&str, &str)]) -> TimerDetail {
        TimerDetail {
            id: 1,
            hit_count: 2,
            value_us,
            ru_utime_us: 1,
            ru_stime_us: 1,
            tags: tags
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect(),
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
        let starts: Vec<u64> = each(&timers).iter().map(|bar| bar.start_us).collect();
        assert_eq!(starts, [0, 100, 400, 450]);
        let bars = grouped(&timers, "group");
        let sums: Vec<_> = bars
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
            [
                (Some("b"), 1, 2, 300, 0),
                (Some("a"), 2, 4, 150, 300),
                (None, 1, 2, 5, 450)
            ]
        );
    }

    #[test]
    fn shares_are_of_the_request_and_overlap_is_said() {
        let timers = [timer(1_500_000, &[("group", "<b>")])];
        let page = waterfall("/requests/1", 1_000_000, &timers, None, 0).into_string();
        assert!(
            page.contains("150 %") && page.contains("more than the request took"),
            "{page}"
        );
        assert!(
            page.contains("&lt;b&gt;") && !page.contains("<b>b"),
            "{page}"
        );
        let page = waterfall("/requests/1", 3_000_000, &timers, None, 0).into_string();
        assert!(
            page.contains("50.0 %") && !page.contains("more than"),
            "{page}"
        );
    }
}
