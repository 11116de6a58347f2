//! `/`: what is slow, where and since when, on one page.
//!
//! Numbers and charts over all requests, then the rows that lead: scripts, timers, servers, hosts, statuses, each by the same choice
//! of total time, p95, count or errors (`sort`). Other parameters are let through: nobody asks this page for data by them. Every name leads to its row's page, every heading to the whole report.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, Uri};
use maud::{Markup, html};

use super::ask::Given;
use super::frame::{self, Section};
use super::past::{self, Past};
use super::ranking::{Ranking, plain_head, share_cell};
use super::show::{self, Name, link, visible};
use super::timers;
use crate::http::error::Problem;
use crate::http::routes::App;
use crate::query::error::QueryError;
use crate::query::source::{Source, TimerGroups, TimerSearch};
use crate::report::definition::KeySource;
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
            "p95",
            "p99",
            "req_time_median",
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
        &["req_time_total", "req_time_percent", "p95", "req_count"],
    ),
];
const SMALL: &[&str] = &[
    "req_time_total",
    "req_time_percent",
    "p95",
    "req_count",
    "error_count",
];

/// Timer groups that are shown.
const TIMER_ROWS: usize = 8;
/// Raw rows looked at for them: as many as a page that is made every second can afford.
const TIMERS_LOOKED: usize = 100_000;

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
    let all = Ranking::ask(source, EVERYTHING)?;
    let [scripts, others @ ..] = PANELS;
    let main = html! {
        h1.hidden { "Overview" }
        div #numbers data-live { (numbers(&all, source)) }
        @if let Some(past) = &past {
            (past.choice(|span| address(Some(span), sort.0)))
            div.charts { (past.figures()) }
        }
        nav.views aria-label="Lead by" {
            span { "Top by" }
            @for (word, text, _, _) in SORTS {
                a href=(address(span, word)) aria-current=[(word == sort.0).then_some("true")] { (text) }
            }
        }
        div.panels {
            (panel(source, scripts, sort)?)
            (timer_panel(source, sort)?)
            @for other in others { (panel(source, other, sort)?) }
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

/// The leading rows of one report.
fn panel(
    source: &dyn Source,
    (report, title, rows, names): (&str, &str, usize, &[&str]),
    sort: Sort,
) -> Result<Markup, Problem> {
    let ranking = Ranking::ask(source, report)?;
    let chosen = ranking.choose(None, sort.2, true, (0, rows))?;
    let columns = ranking.columns_named(names);
    let id = format!("top-{report}");
    Ok(html! {
        section.panel.large[rows > 6] #(id) data-live aria-label=(title) {
            div.wide tabindex="0" role="region" aria-label={ (title) ", rows" } {
                table {
                    caption {
                        a href=(link(&format!("/reports/{report}"), [("sort", format!("-{}", sort.2).as_str())])) { (title) }
                        " " small { @if chosen.total > rows { (rows) " of " (show::count(chosen.total as u64)) ", " } "by " (sort.1) ", "
                            (frame::span_of(ranking.answer.covered_seconds, ranking.answer.window_seconds)) }
                    }
                    thead { tr { th.key scope="col" { span.hidden { "Name" } } @for column in &columns { (plain_head(column)) } } }
                    tbody {
                        @for row in &chosen.rows {
                            tr { (ranking.key_cells(report, *row)) @for column in &columns { (ranking.cell(column, *row)) } }
                        }
                        @if chosen.rows.is_empty() { tr { td.none colspan=(columns.len() + 1) { "Nothing yet." } } }
                    }
                }
            }
        }
    })
}

/// The leading groups of timers, by the tag `group`, or the first that there is.
fn timer_panel(source: &dyn Source, sort: Sort) -> Result<Markup, Problem> {
    let mut tag = "group".to_owned();
    let ask = |tag: &str| {
        source.timer_groups(&TimerSearch {
            by: vec![KeySource::TimerTag(tag.to_owned())],
            looked_max: TIMERS_LOOKED,
            groups_max: 1000,
            ..TimerSearch::default()
        })
    };
    let mut found = match ask(&tag) {
        Ok(found) => found,
        Err(QueryError::RawDataOff) => return Ok(html! {}),
        Err(error) => return Err(error.into()),
    };
    if let Some(first) = found
        .tag_names
        .first()
        .filter(|_| !found.tag_names.contains(&tag))
    {
        tag.clone_from(first);
        found = ask(&tag)?;
    }
    timers::sorted(&mut found, sort.3, true);
    Ok(timer_table(&found, &tag, sort))
}

fn timer_table(found: &TimerGroups, tag: &str, sort: Sort) -> Markup {
    let all_us: u64 = found.rows.iter().map(|row| row.value_us).sum();
    let by_time = sort.3 == "time";
    html! {
        section.panel #top-timers data-live aria-label="Timers" {
            div.wide tabindex="0" role="region" aria-label="Timers, rows" {
                table {
                    caption {
                        a href=(link("/timers", [("by", tag), ("sort", format!("-{}", sort.3).as_str())])) { "Timers by " (visible(tag)) }
                        " " small { "by " (if by_time { "total time" } else { sort.1 }) ", " (timers::looked(found)) }
                    }
                    thead { tr {
                        th.key scope="col" { span.hidden { "Value" } } th scope="col" { "Hits" } th scope="col" { "Total time" }
                        th.share scope="col" { "Share" } th scope="col" { "p50" } th scope="col" { "p95" }
                    } }
                    tbody {
                        @for row in found.rows.iter().take(TIMER_ROWS) {
                            @let share = 100.0 * row.value_us as f64 / all_us.max(1) as f64;
                            @let value = row.keys.first().cloned().flatten();
                            tr {
                                th.key scope="row" {
                                    @match &value {
                                        Some(value) => a href=(link("/timers", [("by", tag), (format!("t.{tag}").as_str(), value.as_str())])) { (Name(value)) },
                                        None => span.none { "without" },
                                    }
                                }
                                td { (show::count(row.hits)) }
                                td { (show::micros(row.value_us)) }
                                (share_cell(share))
                                td { (show::secs(row.quantiles[0])) }
                                td { (show::secs(row.quantiles[1])) }
                            }
                        }
                        @if found.rows.is_empty() { tr { td.none colspan="6" { "No timers yet." } } }
                    }
                }
            }
        }
    }
}
