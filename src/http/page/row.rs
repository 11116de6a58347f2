//! `/reports/{name}/row?KEY=VALUE...`: one row of a report, with its past, how its times are spread, its timers and its slowest requests.
//!
//! The parameters are the key columns of the report, as in `/reports/{name}/{chart}.svg`; a key that is called as a parameter is
//! (`span`, `theme`) has `key.` before it, and any may have. From the keys a search for raw requests follows (`searched`); of a
//! timer report, whose keys are timer tags, the longest single timers are shown instead.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode, Uri};
use maud::{Markup, html};

use super::frame::{self, Section};
use super::groups::Groups;
use super::past::{self, Past};
use super::ranking::Ranking;
use super::requests::{self, Conditions};
use super::show::{self, Name, link, visible};
use super::{chart, report, timers};
use crate::http::error::Problem;
use crate::http::params::{Params, encode, unknown};
use crate::http::routes::App;
use crate::query::error::QueryError;
use crate::query::source::{ReportSummary, Source, Spread, TimerSearch};
use crate::series::Series;

mod searched;

use searched::Searched;

/// Slowest requests, or longest timers, that are shown.
const SLOWEST: usize = 12;
/// Raw rows looked at for them at most.
pub(super) const LOOKED_MAX: usize = 500_000;
/// Before a key that is called as a parameter is.
const KEY_MARK: &str = "key.";

/// `GET /reports/{name}/row`
pub(super) async fn read(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response<Body> {
    let series = app.series();
    // Not `Given`: a key may be the empty text.
    let params = Params::parse(uri.query());
    let view = params.and_then(|mut params| {
        let name = report::named(name)?;
        let span = past::span(params.take("span").as_deref())?;
        let keys = unmarked(params.into_rest().0);
        Ok(move |source: &dyn Source| {
            Row::ask(source, &name, &keys)?.page(source, series.as_ref(), span)
        })
    });
    super::answer(app, &uri, view).await
}

/// Keys out of parameters.
pub(super) fn unmarked(mut keys: Vec<(String, String)>) -> Vec<(String, String)> {
    for (key, _) in &mut keys {
        if key.starts_with(KEY_MARK) {
            key.drain(..KEY_MARK.len());
        }
    }
    keys
}

/// Keys as parameters.
pub(super) fn marked(keys: &[(String, String)]) -> Vec<(String, &str)> {
    let mark = |key: &String| {
        let taken = key == "span" || key == "theme" || key.starts_with(KEY_MARK);
        if taken {
            format!("{KEY_MARK}{key}")
        } else {
            key.clone()
        }
    };
    keys.iter()
        .map(|(key, value)| (mark(key), value.as_str()))
        .collect()
}

/// One row of a report.
#[derive(Debug)]
pub(super) struct Row {
    summary: ReportSummary,
    pub(super) ranking: Ranking,
    /// Its keys, in the order of the report's columns.
    pub(super) keys: Vec<(String, String)>,
    /// Where it stands; `None`: nothing in the window has these keys.
    place: Option<usize>,
}

impl Row {
    /// The row with these keys, given in any order.
    pub(super) fn ask(
        source: &dyn Source,
        name: &str,
        given: &[(String, String)],
    ) -> Result<Self, Problem> {
        let summary = report::summary(source, name)?;
        let ranking = Ranking::ask(source, name)?;
        let names: Vec<&str> = ranking.keys().collect();
        if let Some((other, _)) = given.iter().find(|(key, _)| !names.contains(&key.as_str())) {
            return Err(unknown(other, names));
        }
        let key = |name: &&str| {
            let found = given.iter().find(|(key, _)| key == name);
            found.cloned().ok_or_else(|| {
                Problem::parameter(
                    name,
                    "is missing; a row is chosen by all keys of its report",
                )
                .accepting(names.iter().copied())
            })
        };
        let keys = names.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        let table = ranking.table();
        let shows = |row: usize| {
            let wanted = ranking.answer.key_columns.iter().zip(&keys);
            wanted
                .into_iter()
                .all(|(column, (_, wanted))| show::plain(&table.value(row, *column)) == *wanted)
        };
        let place = (0..table.len()).find(|row| shows(*row));
        Ok(Self {
            summary,
            ranking,
            keys,
            place,
        })
    }

    /// The keys as the title of a window.
    pub(super) fn title(&self) -> String {
        let values: Vec<String> = self.keys.iter().map(|(_, value)| visible(value)).collect();
        if values.is_empty() {
            "all requests".to_owned()
        } else {
            values.join(" \u{b7} ")
        }
    }

    fn path(&self) -> String {
        format!("/reports/{}", encode(&self.summary.name))
    }

    fn page(
        &self,
        source: &dyn Source,
        series: Option<&Series>,
        span: Option<&'static str>,
    ) -> Result<Markup, Problem> {
        let spread = source.spread(&self.summary.name, &self.keys)?;
        let searched = Searched::of(&self.summary.definition, &self.keys);
        let past = series.map(|series| Past {
            series,
            report: &self.summary.name,
            keys: &self.keys,
            timers: self.ranking.timers,
            span,
        });
        let with_span = |span: &str| {
            let keys = marked(&self.keys);
            let keys = keys.iter().map(|(name, value)| (name.as_str(), *value));
            link(
                &format!("{}/row", self.path()),
                keys.chain([("span", span)]),
            )
        };
        let main = html! {
            nav.crumbs aria-label="Where this is" {
                a href="/reports" { "Reports" } " / " a href=(self.path()) { (visible(&self.summary.name)) } " / " span { "row" }
            }
            h1 { @if self.keys.is_empty() { "All requests" } @for (at, (_, value)) in self.keys.iter().enumerate() {
                @if at > 0 { span.sep { " \u{b7} " } } (Name(value))
            } }
            p.about { @for (at, (key, value)) in self.keys.iter().enumerate() {
                @if at > 0 { ", " } (visible(key)) " = " (Name(value))
            } }
            div #row data-live {
                @match self.place {
                    Some(place) => (self.numbers(place)),
                    None => p.note { "Nothing in the report's window has these keys now. " a href=(self.path()) { "All rows of the report" } }
                }
            }
            @if let Some(past) = &past { (past.choice(with_span)) }
            div.charts {
                @if let Some(past) = &past { (past.figures()) }
                @if let (Some(spread), Some(place)) = (&spread, self.place) {
                    div #spread data-live { (self.histogram(place, spread)) }
                }
                @if !self.ranking.timers && let Some(mut groups) = Groups::ask(source, &Conditions::from_pairs(&searched.requests)?.search())? {
                    section.panel #row-timers data-live aria-label="Timers" { (groups.table("time", &searched.requests)) }
                }
            }
            @if self.ranking.timers { (longest(source, &searched)?) } @else { (slowest(source, &searched)?) }
        };
        Ok(frame::page(Section::Reports, &self.title(), &main))
    }

    fn numbers(&self, place: usize) -> Markup {
        let answer = &self.ranking.answer;
        html! {
            p.over { (frame::span_of(answer.covered_seconds, answer.window_seconds)) }
            dl.facts { @for column in self.ranking.columns() { (self.ranking.fact(column, place)) } }
        }
    }

    /// The quantiles that a histogram is marked with.
    fn marks(&self, place: usize) -> [(&'static str, f64); 3] {
        let median = if self.ranking.timers {
            "timer_median"
        } else {
            "req_time_median"
        };
        let value = |column| self.ranking.number(column, place).unwrap_or(f64::NAN);
        [
            ("p50", value(median)),
            ("p95", value("p95")),
            ("p99", value("p99")),
        ]
    }

    fn histogram(&self, place: usize, spread: &Spread) -> Markup {
        let title = if self.ranking.timers {
            "Time per hit"
        } else {
            "Request time"
        };
        let keys = marked(&self.keys);
        let keys = keys.iter().map(|(name, value)| (name.as_str(), *value));
        let address = link(&format!("{}/spread.svg", self.path()), keys);
        html! {
            figure.chart {
                figcaption { a href=(address) { (title) ", how it is spread" } span.legend { (show::count(spread.count)) " in all" } }
                (chart::histogram("spread-svg", chart::Theme::Page, title, &spread.buckets, &self.marks(place)))
            }
        }
    }

    /// The histogram as a picture of its own.
    pub(super) fn spread_alone(
        &self,
        source: &dyn Source,
        theme: chart::Theme,
    ) -> Result<Markup, Problem> {
        let spread = source.spread(&self.summary.name, &self.keys)?;
        let (Some(spread), Some(place)) = (spread, self.place) else {
            return Err(Problem::new(
                StatusCode::NOT_FOUND,
                "there is no such row now",
            ));
        };
        Ok(chart::histogram(
            "spread",
            theme,
            &self.title(),
            &spread.buckets,
            &self.marks(place),
        ))
    }
}

/// The slowest raw requests of the row.
fn slowest(source: &dyn Source, searched: &Searched) -> Result<Markup, Problem> {
    let conditions = Conditions::from_pairs(&searched.requests)?;
    let mut search = conditions.search();
    search.limit = SLOWEST;
    let address = link(
        "/requests",
        searched
            .requests
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str())),
    );
    let found = match source.slowest(&search, LOOKED_MAX) {
        Ok(found) => found,
        Err(QueryError::RawDataOff) => return Ok(html! { p.note { (QueryError::RawDataOff) } }),
        Err(error) => return Err(error.into()),
    };
    Ok(html! {
        section aria-labelledby="slowest-h" {
            h2 #slowest-h { "Slowest requests " a.more href=(address) { "all, newest first" } }
            (searched.note())
            div #slowest data-live {
                (requests::table(found.table.as_ref(), &format!("the slowest of {}", requests::looked(&found.looked)), &requests::columns_of(&search)))
            }
        }
    })
}

/// The longest single timers of the row.
fn longest(source: &dyn Source, searched: &Searched) -> Result<Markup, Problem> {
    let conditions = Conditions::from_pairs(&searched.requests)?;
    let search = TimerSearch {
        requests: conditions.search(),
        tags: searched.timers.clone(),
        by: Vec::new(),
        looked_max: LOOKED_MAX,
        groups_max: 1,
        slowest_max: SLOWEST,
    };
    let found = match source.timer_groups(&search) {
        Ok(found) => found,
        Err(QueryError::RawDataOff) => return Ok(html! { p.note { (QueryError::RawDataOff) } }),
        Err(error) => return Err(error.into()),
    };
    Ok(html! {
        section aria-labelledby="longest-h" {
            h2 #longest-h { "Longest timers" }
            (searched.note())
            div #longest data-live { (timers::slow_table(&found)) }
        }
    })
}

/// Nothing but what a row's address needs.
pub(super) fn address(report: &str, keys: &[(&str, &str)]) -> String {
    link(
        &format!("/reports/{}/row", encode(report)),
        keys.iter().copied(),
    )
}
