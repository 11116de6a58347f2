//! `/`: what is slow, where and since when, on one page.
//!
//! Numbers over all requests and the scripts that stand out, charts, then the top rows: scripts,
//! timers, servers, hosts, statuses, all by total time, p95, count or errors (`sort`). Every name
//! links to its row's page, every heading to the whole report. While nothing has been received, the
//! page says what to do.

use std::net::SocketAddr;

use maud::{Markup, html};
use serde_json::Value as Json;

use super::alerts;
use super::formatting::{self, visible};
use super::frame;
use super::history::{self, Counted, History};
use super::ranking::{Ranking, changed};
use super::releases;
use super::render::View;
use super::table::{Head, table};
use super::time::Time;
use super::timer_groups::small_table;
use crate::http::answer::order::Sort;
use crate::http::error::Problem;
use crate::http::params::link;
use crate::query::catalog::Catalog;
use crate::query::error::QueryError;
use crate::query::question::RequestSearch;
use crate::query::table::Table;
use crate::series::EVERYTHING;

/// An order of the top rows: in the URL, in words, the column of requests, the column of timers.
type Order = (&'static str, &'static str, &'static str, &'static str);

/// The first is for two compared spans only.
const ORDERS: [Order; 5] = [
    ("p95_change", "what got slower", "p95_change", "p95"),
    ("time", "total time", "req_time_total", "time"),
    ("p95", "p95", "p95", "p95"),
    ("count", "count", "req_count", "hits"),
    ("errors", "errors", "error_count", "time"),
];

/// The reports of the panels: name, heading, rows, columns in addition to the key.
const PANELS: [(&str, &str, usize, &str); 4] = [
    ("report_by_script_name", "Scripts", 12, LARGE),
    ("report_by_server_name", "Servers", 6, SMALL),
    ("report_by_hostname", "Hosts", 6, SMALL),
    ("report_by_status", "Statuses", 6, STATUSES),
];
const LARGE: &str =
    "req_time_total req_time_percent req_time_median p95 p99 req_count req_per_sec error_count";
const SMALL: &str = "req_time_total req_time_percent p95 req_count error_count";
const STATUSES: &str = "req_time_total req_time_percent p95 req_count req_per_sec";

/// Fewest requests of a script for its p95 to stand out: a single slow call at night says little.
const STANDS_OUT: f64 = 10.0;

/// `GET /`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.form()?;
    let span = history::span(&mut params)?;
    let (source, time) = (view.source, &view.time);
    // For two compared spans, rows that became slower come first.
    let is_compared = time.spans.as_ref().is_some_and(|spans| spans.before.is_some());
    let orders = if is_compared { &ORDERS[..] } else { &ORDERS[1..] };
    let words: Vec<&str> = orders.iter().map(|order| order.0).collect();
    let word = params.word("sort", &words)?;
    params.finish()?;
    let order = *orders.iter().find(|order| order.0 == word).unwrap_or(&orders[0]);
    let history = History::of_row(view, EVERYTHING, &[], Counted::Requests, span);
    let address = |span: Option<&str>, sort: &str| {
        let sort = (sort != orders[0].0).then_some(("sort", sort));
        let span = span.map(|span| ("span", span)).into_iter();
        link("/", span.chain(sort).chain(time.pairs()))
    };
    let names = PANELS.map(|panel| panel.0);
    let [all, mut scripts, servers, hosts, statuses] =
        Ranking::read_all(view, [EVERYTHING, names[0], names[1], names[2], names[3]])?;
    // Right after the tables: sums of raw timers may take seconds.
    let drawn = history.as_ref().map(|history| (history.figures(), history.heat()));
    let [first, others @ ..] = PANELS;
    let choice = |it: &Order| (address(span, it.0), html! { (it.1) }, it.0 == order.0);
    let changes = (time.link("/changes", []), html! { "what changed \u{2192}" }, false);
    let choices: Vec<_> = orders.iter().map(choice).chain([changes]).collect();
    let mut all = all?;
    all.choose(&|_, _| true, &all.sort(), (0, 1))?;
    let panels = others.into_iter().zip([servers, hosts, statuses]);
    let panels = panels.map(|(other, mut ranking)| panel(&mut ranking, other, order, time));
    let lead = match time.spans {
        Some(_) => "Top by".to_owned(),
        None => format!("Over the {}, top by", frame::last(source, &all.answer)),
    };
    let main = html! {
        h1.hidden { "Overview" }
        @if time.spans.is_none() && !time.whose.is_fleet() { div #in-short data-live { (alerts::in_short(view)) (releases::in_short(view)) } }
        div #numbers data-live {
            (numbers(&all, source, time))
            @match &mut scripts {
                Ok(scripts) if !scripts.table().is_empty() => (leaders(scripts, first.0, time)?),
                Ok(_) if time.spans.is_none() => (start(view)),
                _ => {},
            }
        }
        (all.remarks(time))
        @if let Some((history, (figures, _))) = history.as_ref().zip(drawn.as_ref()) {
            (history.spans(|span| address(Some(span), order.0)))
            div.charts.four { (figures) }
        }
        div #top-by data-live { (frame::views("Top by", &lead, &choices)) }
        div.panels.top {
            (panel(&mut scripts, first, order, time)?)
            @if !time.whose.is_fleet() && let Some(table) = small_table(view, &RequestSearch::default(), order.3, &[])? {
                section.panel #top-timers data-live aria-label="Timers" { (table) }
            }
            @for panel in panels { (panel?) }
            @if let Some((_, heat)) = &drawn { (heat) }
        }
    };
    view.page("/", "Overview", &main)
}

/// All requests in a few numbers.
fn numbers(all: &Ranking, source: &Catalog, time: &Time) -> Markup {
    let columns = all.columns_named("req_per_sec req_time_median p95 p99 error_count");
    let cpu = |of: [&str; 2]| of.into_iter().map(|it| all.number(it, 0)).sum::<Option<f64>>();
    let is_there = !all.table().is_empty();
    let cores = is_there.then(|| cpu(["ru_utime_per_sec", "ru_stime_per_sec"])).flatten();
    let cores = cores.filter(|_| !all.is_unmeasured("ru_utime_per_sec", 0));
    let before = ["ru_utime_per_sec_before", "ru_stime_per_sec_before"];
    let before = cores.and_then(|_| cpu(before)).filter(|it| *it > 0.0);
    let lost = source.status().get("lost").and_then(Json::as_u64).unwrap_or(0);
    html! {
        p.over { "All requests, " (all.about) }
        dl.facts {
            @if is_there { @for column in &columns { (all.fact(column, 0)) } }
            @if is_there {
                div title="CPU of PHP, user and system, on average" { dt { "CPU" } dd.big { @match cores {
                    Some(cores) => { (formatting::number(cores)) " " small { @if cores == 1.0 { "core busy" } @else { "cores busy" } } @if let Some(before) = before { " " (changed(&formatting::change(cores / before - 1.0))) } },
                    None => (formatting::UNKNOWN),
                } } }
            }
            @if !time.whose.is_fleet() {
                div title="Packets and requests lost so far" {
                    dt { "Lost" } dd.big.bad[lost > 0] { a href=(time.link("/daemon", [])) { (formatting::count(lost)) } }
                }
            }
        }
    }
}

/// The scripts that stand out: by time, by slowness, by failures.
fn leaders(scripts: &mut Ranking, report: &str, time: &Time) -> Result<Markup, Problem> {
    let (requests, longest) = (scripts.table().column("req_count"), scripts.time);
    let requests = |table: &dyn Table, row| table.value(row, requests?).number();
    let busy = |table: &dyn Table, row| requests(table, row).unwrap_or(0.0) >= STANDS_OUT;
    let any = |_: &dyn Table, _| true;
    let mut first = |column: &str, keep: &dyn Fn(&dyn Table, usize) -> bool| {
        if scripts.table().column(column).is_none() {
            return Ok(None);
        }
        let (rows, _) = scripts.choose(keep, &Sort::largest(column), (0, 1))?;
        Ok::<_, Problem>(rows.first().copied())
    };
    let (slow, slowest) = match first("p95", &busy)? {
        None => (first("p95", &any)?, "Slowest".to_owned()),
        found => (found, format!("Slowest, with {STANDS_OUT} requests or more")),
    };
    let (failing, longest) = (first("error_count", &any)?, first(longest, &any)?);
    let number = |column: &str, row: usize| scripts.number(column, row).unwrap_or(0.0);
    let failing = failing.filter(|row| number("error_count", *row) > 0.0);
    let leader = |title: &str, row: Option<usize>, why: &dyn Fn(usize) -> String| {
        html! {
            div { dt { (title) } dd { @match row {
                Some(row) => { span.key { a href=(scripts.row_link(report, row, time)) { @for key in &scripts.answer.key_columns { (scripts.key(row, *key)) } } } " " b { (why(row)) } },
                None => span.good { "none" },
            } } }
        }
    };
    Ok(html! {
        dl.facts.leaders {
            (leader("Takes the most time", longest, &|row| {
                format!("{} of all", formatting::percent(number("req_time_percent", row)))
            }))
            (leader(&slowest, slow, &|row| format!("p95 {}", formatting::secs(number("p95", row)))))
            (leader("Fails the most", failing, &|row| {
                let (errors, all) = (number("error_count", row), number("req_count", row).max(1.0));
                format!("{}, {}", formatting::counted(errors as u64, "error"), formatting::percent(100.0 * errors / all))
            }))
        }
    })
}

/// Instructions while there is nothing to see.
fn start(view: &View<'_>) -> Markup {
    let status = view.source.status();
    let received = status.get("datagrams_received").and_then(Json::as_u64).unwrap_or(0);
    let sockets = status.get("sockets").and_then(Json::as_array).into_iter().flatten();
    let addresses: Vec<&str> = sockets.filter_map(|socket| socket["address"].as_str()).collect();
    let port = addresses.first().and_then(|first| first.rsplit(':').next()).unwrap_or("30002");
    let bound: Option<SocketAddr> = addresses.first().and_then(|it| it.parse().ok());
    let is_everywhere = bound.is_none_or(|it| it.ip().is_unspecified());
    let is_local = bound.is_some_and(|it| it.ip().is_loopback());
    let server = match bound.filter(|_| !is_everywhere) {
        Some(bound) => bound.to_string(),
        None => format!("127.0.0.1:{port}"),
    };
    html! {
        section.start {
            @if received == 0 {
                h2 { "Waiting for the first packet" }
                p { "pinbad listens on UDP " code { (visible(&addresses.join(", "))) } ". Point PHP at it:" }
                ol {
                    li { "Install the Pinba extension, for instance with " code { "apt-get install php-pinba" } "." }
                    li { "Add to " code { "php.ini" } ", and restart PHP:"
                        pre { "pinba.enabled = 1\npinba.server = " (visible(&server)) }
                        @if is_everywhere { p.note { "From other machines, put this machine's address in place of 127.0.0.1; its firewall must let UDP port " (visible(port)) " in." } }
                        @else if is_local { p.note { "Only this machine can send to it: " code { "ingest.listen" } " in the configuration makes it listen elsewhere." } }
                    }
                    li { "Load a page of your site. It shows up here within a second." }
                }
                @if let Some(who) = view.who_changes() {
                    p.note { "Only " (who) " can send a test packet." }
                } @else {
                    p.send {
                        button type="button" data-send { "Send a test packet" }
                        span #sent role="status" {}
                        noscript { "A test packet: " code { "curl -X POST -H 'content-type: application/json' http://HOST/api/v1/test-packet" } ", where HOST is the host and port in this page's address." }
                    }
                }
                p.note { "To fill these pages at once: " code { "pinbad load --target 127.0.0.1:" (visible(port)) " --rate 200 --duration 10m" } }
            } @else {
                h2 { "No requests lately" }
                p { (formatting::counted(received, "packet")) " arrived so far, but none in this window. "
                    "If there should be some, see " a href="/daemon" { "what became of them" } "." }
            }
        }
    }
}

/// The top rows of one report, or why there are none.
fn panel(
    ranking: &mut Result<Ranking, QueryError>,
    (report, title, limit, names): (&str, &str, usize, &str),
    order: Order,
    time: &Time,
) -> Result<Markup, Problem> {
    let ranking = match ranking {
        Ok(ranking) => ranking,
        Err(why) => {
            let why = visible(&why.to_string());
            return Ok(
                html! { section.panel aria-label=(title) { p.note { (title) ": " (why) } } },
            );
        }
    };
    let sort = Sort::largest(order.2);
    let (rows, total) = ranking.choose(&|_, _| true, &sort, (0, limit))?;
    let mut columns = ranking.columns_named(names);
    // The number that rows are ordered by stands next to their names, on a phone too.
    let by = order.2.trim_end_matches("_change");
    columns.sort_by_key(|column| column.name != by);
    let mut heads = ranking.heads(&columns, None);
    heads[0] = Head::hidden("Name");
    let cells =
        ranking.cells(&rows, &columns, &sort, |row, _| Some(ranking.row_link(report, row, time)));
    let by = format!("-{}", order.2);
    let is_compared =
        columns.iter().any(|it| rows.iter().any(|row| ranking.change(it, *row).is_some()));
    let caption = html! {
        a href=(time.link(&format!("/reports/{report}"), [("sort", by.as_str())])) { (title) }
        " " small { @if total > limit { (limit) " of " (formatting::count(total as u64)) ", " } "by " (order.1)
            @if is_compared { "; below each number its change" } }
    };
    Ok(html! {
        section.panel.large[limit > 6] id={ "top-" (report) } data-live aria-label=(title) {
            (table(&format!("{title}, rows"), caption, heads, cells, ranking.nothing()))
        }
    })
}
