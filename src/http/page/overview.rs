//! `/`: what is slow, where and since when, on one page.
//!
//! Numbers over all requests and the scripts that stand out, charts, then the rows that lead: scripts, timers, servers, hosts,
//! statuses, each by the same choice of total time, p95, count or errors (`sort`). Other parameters are let through: nobody asks
//! this page for data by them. Every name leads to its row's page, every heading to the whole report. While nothing has come in
//! yet, the page says what to do.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, Uri};
use maud::{Markup, html};

use super::ask::Given;
use super::frame::{self, Section};
use super::groups::Groups;
use super::past::{self, Past};
use super::ranking::{Ranking, plain_head};
use super::show::{self, link, visible};
use crate::http::error::Problem;
use crate::http::routes::App;
use crate::query::source::{RequestSearch, Source};
use crate::series::{EVERYTHING, Series};

/// What rows can lead by: in the address, in words, the column of requests, the column of timers.
const SORTS: [(&str, &str, &str, &str); 4] = [
    ("time", "total time", "req_time_total", "time"),
    ("p95", "p95", "p95", "p95"),
    ("count", "count", "req_count", "hits"),
    ("errors", "errors", "error_count", "time"),
];

/// Which reports lead: name, heading, rows, columns beside the key.
const PANELS: [(&str, &str, usize, &[&str]); 4] = [
    (
        "report_by_script_name",
        "Scripts",
        12,
        &[
            "req_time_total",
            "req_time_percent",
            "req_time_median",
            "p95",
            "p99",
            "req_count",
            "req_per_sec",
            "error_count",
        ],
    ),
    ("report_by_server_name", "Servers", 6, SMALL),
    ("report_by_hostname", "Hosts", 6, SMALL),
    (
        "report_by_status",
        "Statuses",
        6,
        &[
            "req_time_total",
            "req_time_percent",
            "p95",
            "req_count",
            "req_per_sec",
        ],
    ),
];
const SMALL: &[&str] = &[
    "req_time_total",
    "req_time_percent",
    "p95",
    "req_count",
    "error_count",
];

/// Requests that a script should have before its p95 stands out: the one slow call of a night says little.
const STANDS_OUT: f64 = 10.0;

/// `GET /`
pub(in crate::http) async fn read(State(app): State<App>, uri: Uri) -> Response<Body> {
    let series = app.series();
    let given = Given::parse(uri.query());
    let view = given.and_then(|given| {
        let span = past::span(given.get("span"))?;
        let word = given.one_of("sort", &SORTS.map(|sort| sort.0))?;
        let chosen = SORTS
            .into_iter()
            .find(|sort| sort.0 == word)
            .unwrap_or(SORTS[0]);
        Ok(move |source: &dyn Source| page(source, series.as_ref(), span, chosen))
    });
    super::answer(app, &uri, view).await
}

type Sort = (&'static str, &'static str, &'static str, &'static str);

fn page(
    source: &dyn Source,
    series: Option<&Series>,
    span: Option<&'static str>,
    sort: Sort,
) -> Result<Markup, Problem> {
    let past = series.map(|series| Past {
        series,
        report: EVERYTHING,
        keys: &[],
        timers: false,
        span,
    });
    let address = |span: Option<&str>, sort: &str| {
        let sort = (sort != SORTS[0].0).then_some(("sort", sort));
        link("/", span.map(|span| ("span", span)).into_iter().chain(sort))
    };
    let names = PANELS.map(|panel| panel.0);
    let [all, scripts, servers, hosts, statuses] =
        Ranking::ask_all(source, [EVERYTHING, names[0], names[1], names[2], names[3]])?;
    let [first, others @ ..] = PANELS;
    let main = html! {
        h1.hidden { "Overview" }
        div #numbers data-live {
            (numbers(&all, source))
            @if scripts.table().is_empty() { (start(source)) } @else { (leaders(&scripts, first.0)?) }
        }
        @if let Some(past) = &past {
            (past.choice(|span| address(Some(span), sort.0)))
            div.charts.four { (past.figures()) }
        }
        nav.views aria-label="Lead by" {
            span { "Top by" }
            @for (word, text, _, _) in SORTS {
                a href=(address(span, word)) aria-current=[(word == sort.0).then_some("true")] { (text) }
            }
        }
        div.panels {
            (panel(&scripts, first, sort)?)
            @if let Some(mut groups) = Groups::ask(source, &RequestSearch::default())? {
                section.panel #top-timers data-live aria-label="Timers" { (groups.table(sort.3, &[])) }
            }
            @for (other, ranking) in others.into_iter().zip([&servers, &hosts, &statuses]) { (panel(ranking, other, sort)?) }
        }
    };
    Ok(frame::page(Section::Overview, "Overview", &main))
}

/// The state of things in a few numbers.
fn numbers(all: &Ranking, source: &dyn Source) -> Markup {
    let columns = all.columns_named(&[
        "req_per_sec",
        "req_time_median",
        "p95",
        "p99",
        "error_count",
        "ru_utime_total",
        "ru_stime_total",
    ]);
    let status = source.status();
    let lost = ["kernel_drops", "requests_overwritten"];
    let lost: u64 = lost
        .iter()
        .filter_map(|name| status.get(*name)?.as_u64())
        .sum();
    html! {
        p.over { "All requests, " (frame::span_of(all.answer.covered_seconds, all.answer.window_seconds)) }
        dl.facts {
            @for column in &columns { (all.fact(column, 0)) }
            div title="Packets and requests lost since the start" {
                dt { "Lost" } dd.big.bad[lost > 0] { a href="/daemon" { (show::count(lost)) } }
            }
        }
    }
}

/// The scripts that one should know of: which takes the most time, which is slow, which fails.
fn leaders(scripts: &Ranking, report: &str) -> Result<Markup, Problem> {
    let number = |column: &str, row: usize| scripts.number(column, row).unwrap_or(0.0);
    let first = |column: &str, keep: Option<&dyn Fn(usize) -> bool>| {
        if scripts.answer.table.column(column).is_none() {
            return Ok(None);
        }
        let chosen = scripts.choose(keep, column, true, (0, 1))?;
        Ok::<_, Problem>(chosen.rows.first().copied())
    };
    let requests = scripts.numbers("req_count");
    let busy = |row: usize| requests(row).unwrap_or(0.0) >= STANDS_OUT;
    let slow = match first("p95", Some(&busy))? {
        None => first("p95", None)?,
        found => found,
    };
    let failing = first("error_count", None)?.filter(|row| number("error_count", *row) > 0.0);
    let leader = |title: &str, row: Option<usize>, said: &dyn Fn(usize) -> String| {
        html! {
            div { dt { (title) } dd { @match row {
                Some(row) => { span.key { a href=(scripts.row_link(report, row)) { (scripts.first_key(row)) } } " " b { (said(row)) } },
                None => span.good { "none" },
            } } }
        }
    };
    Ok(html! {
        dl.facts.leaders {
            (leader("Takes the most time", first(scripts.time(), None)?, &|row| {
                format!("{} of all", show::percent(number("req_time_percent", row)))
            }))
            (leader("Slowest", slow, &|row| format!("p95 {}", show::secs(number("p95", row)))))
            (leader("Fails the most", failing, &|row| {
                let (errors, all) = (number("error_count", row), number("req_count", row).max(1.0));
                let word = if errors == 1.0 { "error" } else { "errors" };
                format!("{} {word}, {}", show::count(errors as u64), show::percent(100.0 * errors / all))
            }))
        }
    })
}

/// What to do while nothing is there to see.
fn start(source: &dyn Source) -> Markup {
    let status = source.status();
    let received = status
        .get("datagrams_received")
        .and_then(serde_json::Value::as_u64);
    let sockets = status.get("sockets").and_then(serde_json::Value::as_array);
    let addresses = sockets
        .into_iter()
        .flatten()
        .filter_map(|socket| socket["address"].as_str());
    let addresses: Vec<&str> = addresses.collect();
    let port = addresses
        .first()
        .and_then(|first| first.rsplit(':').next())
        .unwrap_or("30002");
    html! {
        section.start {
            @if received.unwrap_or(0) == 0 {
                h2 { "No packets yet" }
                p { "This daemon listens on " code { (visible(&addresses.join(", "))) } ". PHP sends a packet for each request when the Pinba extension is installed and "
                    code { "php.ini" } " says:" }
                pre { "extension=pinba\npinba.enabled=1\npinba.server=THIS_HOST:" (visible(port)) }
                p { "For traffic to look at right away: " code { "pinbad load --target 127.0.0.1:" (visible(port)) " --rate 200 --duration 10m" } }
            } @else {
                h2 { "No requests in this window" }
                p { (show::count(received.unwrap_or(0))) " packets came in since the daemon was started, none of them lately. "
                    "If there should be some, " a href="/daemon" { "the daemon's page" } " says what became of them." }
            }
        }
    }
}

/// The leading rows of one report.
fn panel(
    ranking: &Ranking,
    (report, title, rows, names): (&str, &str, usize, &[&str]),
    sort: Sort,
) -> Result<Markup, Problem> {
    let chosen = ranking.choose(None, sort.2, true, (0, rows))?;
    let weights = ranking.weights(&chosen.rows, sort.2);
    let mut columns = ranking.columns_named(names);
    // What the rows lead by stands beside their names, on a phone too.
    columns.sort_by_key(|column| column.name != sort.2);
    let id = format!("top-{report}");
    Ok(html! {
        section.panel.large[rows > 6] #(id) data-live aria-label=(title) {
            div.wide tabindex="0" role="region" aria-label={ (title) ", rows" } {
                table {
                    caption {
                        a href=(link(&format!("/reports/{report}"), [("sort", format!("-{}", sort.2).as_str())])) { (title) }
                        " " small { @if chosen.total > rows { (rows) " of " (show::count(chosen.total as u64)) ", " } "by " (sort.1) }
                    }
                    thead { tr { th.key scope="col" { span.hidden { "Name" } } @for column in &columns { (plain_head(column)) } } }
                    tbody {
                        @for (row, weight) in chosen.rows.iter().zip(&weights) {
                            tr { (ranking.key_cells(report, *row, *weight)) @for column in &columns { (ranking.cell(column, *row)) } }
                        }
                        @if chosen.rows.is_empty() { tr { td.none colspan=(columns.len() + 1) { "Nothing yet." } } }
                    }
                }
            }
        }
    })
}
