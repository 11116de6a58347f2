//! `/reports/{name}/row?KEY=VALUE...`: one row of a report, with how its times are spread and its slowest requests.
//!
//! The parameters are the key columns of the report. From them the search for raw requests follows where request
//! fields and request tags are concerned; of a timer report, whose keys are timer tags, the longest single timers are shown instead.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode, Uri};
use maud::{Markup, html};
use serde_json::Value as Json;

use super::frame::{self, Section};
use super::ranking::Ranking;
use super::requests::{self, Conditions};
use super::show::{self, Name, link, visible};
use super::{chart, report, timers};
use crate::http::error::Problem;
use crate::http::params::{encode, unknown};
use crate::http::routes::App;
use crate::query::error::QueryError;
use crate::query::source::{ReportSummary, Source, Spread, TimerSearch};

/// Slowest requests, or longest timers, that are shown.
const SLOWEST: usize = 12;
/// Raw rows looked at for them at most.
pub(super) const LOOKED_MAX: usize = 500_000;

/// `GET /reports/{name}/row`
pub(super) async fn read(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response<Body> {
    // Not `Given`: a key may be the empty text.
    let keys = crate::http::params::Params::parse(uri.query());
    let view = keys.and_then(|keys| {
        let (name, (keys, _)) = (report::named(name)?, keys.into_rest());
        Ok(move |source: &dyn Source| page(source, &name, &keys))
    });
    super::answer(app, &uri, view).await
}

fn page(source: &dyn Source, name: &str, keys: &[(String, String)]) -> Result<Markup, Problem> {
    let summary = report::summary(source, name)?;
    let ranking = Ranking::ask(source, name)?;
    let names: Vec<&str> = ranking.keys().collect();
    if let Some((other, _)) = keys.iter().find(|(key, _)| !names.contains(&key.as_str())) {
        return Err(unknown(other, names));
    }
    if let Some(missing) = names
        .iter()
        .find(|name| !keys.iter().any(|(key, _)| key == *name))
    {
        return Err(Problem::parameter(
            missing,
            "is missing; a row is chosen by all keys of its report",
        )
        .accepting(names.iter().copied()));
    }
    let row = find(&ranking, keys);
    let spread = source.spread(name, keys)?;
    let path = format!("/reports/{}", encode(name));
    let title = title(keys);
    let conditions = conditions(&summary, keys);
    let main = html! {
        nav.crumbs aria-label="Where this is" {
            a href="/reports" { "Reports" } " / " a href=(path) { (visible(name)) } " / " span { "row" }
        }
        h1 { @if keys.is_empty() { "All requests" } @for (at, (_, value)) in keys.iter().enumerate() {
            @if at > 0 { span.sep { " \u{b7} " } } (Name(value))
        } }
        p.about { @for (at, (key, value)) in keys.iter().enumerate() {
            @if at > 0 { ", " } (visible(key)) " = " (Name(value))
        } }
        div #row data-live {
            @match row {
                Some(row) => (numbers(&ranking, row)),
                None => p.problem { "There is no such row now: nothing in the report's window has these keys." }
            }
        }
        div.charts {
            @if let (Some(spread), Some(row)) = (&spread, row) {
                div #spread data-live { (histogram(&ranking, row, spread, &path, keys)) }
            }
        }
        @if ranking.timers { (longest(source, &conditions)?) } @else { (slowest(source, &conditions)?) }
    };
    Ok(frame::page(Section::Reports, &title, &main))
}

/// The keys as the title of a window.
fn title(keys: &[(String, String)]) -> String {
    let values: Vec<String> = keys.iter().map(|(_, value)| visible(value)).collect();
    if values.is_empty() {
        "all requests".to_owned()
    } else {
        values.join(" \u{b7} ")
    }
}

/// The row that shows these keys.
fn find(ranking: &Ranking, keys: &[(String, String)]) -> Option<usize> {
    let wanted: Vec<(usize, &str)> = ranking
        .answer
        .key_columns
        .iter()
        .zip(ranking.keys())
        .filter_map(|(column, name)| {
            let (_, value) = keys.iter().find(|(key, _)| key == name)?;
            Some((*column, value.as_str()))
        })
        .collect();
    let table = ranking.table();
    (0..table.len()).find(|row| {
        wanted
            .iter()
            .all(|(column, wanted)| show::plain(&table.value(*row, *column)) == *wanted)
    })
}

fn numbers(ranking: &Ranking, row: usize) -> Markup {
    html! {
        p.over { (frame::span_of(ranking.answer.covered_seconds, ranking.answer.window_seconds)) }
        dl.facts { @for column in ranking.columns() { (ranking.fact(column, row)) } }
    }
}

/// The quantiles that a histogram is marked with.
fn marks(ranking: &Ranking, row: usize) -> [(&'static str, f64); 3] {
    let median = if ranking.timers {
        "timer_median"
    } else {
        "req_time_median"
    };
    [("p50", median), ("p95", "p95"), ("p99", "p99")]
        .map(|(name, column)| (name, ranking.number(column, row).unwrap_or(f64::NAN)))
}

fn histogram(
    ranking: &Ranking,
    row: usize,
    spread: &Spread,
    path: &str,
    keys: &[(String, String)],
) -> Markup {
    let title = if ranking.timers {
        "Time per hit"
    } else {
        "Request time"
    };
    let address = link(
        &format!("{path}/spread.svg"),
        keys.iter().map(|(k, v)| (k.as_str(), v.as_str())),
    );
    html! {
        figure.chart {
            figcaption { a href=(address) { (title) ", how it is spread" } span.legend { (show::count(spread.count)) " in all" } }
            (chart::histogram("spread-svg", chart::Theme::Page, title, &spread.buckets, &marks(ranking, row)))
        }
    }
}

/// `GET /reports/{name}/spread.svg`: the histogram of a row alone.
pub(super) async fn spread_svg(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response<Body> {
    let parsed = crate::http::params::Params::parse(uri.query());
    let view = parsed.and_then(|mut params| {
        let theme = chart::theme(params.take("theme").as_deref())?;
        let (name, (keys, _)) = (report::named(name)?, params.into_rest());
        Ok(move |source: &dyn Source| {
            let ranking = Ranking::ask(source, &name)?;
            let spread = source.spread(&name, &keys)?;
            let (Some(spread), Some(row)) = (spread, find(&ranking, &keys)) else {
                let why = "there is no such row now";
                return Err(Problem::new(StatusCode::NOT_FOUND, why));
            };
            let marks = marks(&ranking, row);
            Ok(chart::histogram(
                "spread",
                theme,
                &title(&keys),
                &spread.buckets,
                &marks,
            ))
        })
    });
    super::picture(app, &uri, view).await
}

/// What the keys mean for a search: for raw requests, and for timers.
#[derive(Debug, Default)]
struct Searched {
    requests: Vec<(String, String)>,
    timers: Vec<(String, String)>,
    /// Keys or filters that a search cannot have.
    left_out: Vec<String>,
}

/// The keys of a row as conditions. What each key column counts by stands in the report's definition, in their order.
fn conditions(summary: &ReportSummary, keys: &[(String, String)]) -> Searched {
    let mut searched = Searched::default();
    let member = |name: &str| summary.definition.get(name).and_then(Json::as_array);
    let sources = member("keys").into_iter().flatten().map(|key| match key {
        Json::String(text) => text.clone(),
        other => other
            .get("key")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned(),
    });
    for (source, (key, value)) in sources.zip(keys) {
        searched.add(&source, key, value);
    }
    for filter in member("filters").into_iter().flatten() {
        let text = filter.as_str().unwrap_or_default();
        match text.split_once('=') {
            Some((source, value))
                if !value.ends_with('*') && !source.ends_with(['!', '<', '>']) =>
            {
                searched.add(source, text, value);
            }
            _ => searched.left_out.push(if text.is_empty() {
                filter.to_string()
            } else {
                text.to_owned()
            }),
        }
    }
    searched
}

impl Searched {
    /// A condition in the words of the native form.
    fn add(&mut self, source: &str, key: &str, value: &str) {
        let fields = [
            "hostname",
            "server_name",
            "script_name",
            "schema",
            "status",
            "min_time",
            "max_time",
        ];
        if value.is_empty() || value == crate::report::shape::OTHER {
            self.left_out.push(key.to_owned());
        } else if fields.contains(&source) {
            self.requests.push((source.to_owned(), value.to_owned()));
        } else if let Some(tag) = source.strip_prefix('+') {
            self.requests.push((format!("tag.{tag}"), value.to_owned()));
        } else if let Some(tag) = source.strip_prefix('@') {
            self.timers.push((tag.to_owned(), value.to_owned()));
        } else {
            self.left_out.push(key.to_owned());
        }
    }

    fn note(&self) -> Markup {
        html! {
            @if !self.left_out.is_empty() {
                p.note { "Not part of this search: "
                    @for (at, left) in self.left_out.iter().enumerate() { @if at > 0 { ", " } code { (visible(left)) } } "."
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::query::source::Defined;

    #[test]
    fn keys_and_filters_become_conditions() {
        let summary = ReportSummary {
            name: "x".into(),
            kind: "native".into(),
            comment: None,
            keys: vec![],
            window_seconds: 1.0,
            rows: 0,
            columns: vec![],
            definition: json!({
                "keys": ["script_name", "+env", {"key": "@group", "missing": "empty"}, "status"],
                "filters": ["min_time=0.5", "server_name!=x", "hostname=web*", "+a=b"],
            }),
            defined: Defined::RunTime,
            persistent: false,
            complete: true,
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let keys = [
            pair("script_name", "/<x>"),
            pair("tag_env", "p"),
            pair("timer_group", "db"),
            pair("status", ""),
        ];
        let searched = conditions(&summary, &keys);
        assert_eq!(
            searched.requests,
            [
                pair("script_name", "/<x>"),
                pair("tag.env", "p"),
                pair("min_time", "0.5"),
                pair("tag.a", "b")
            ]
        );
        assert_eq!(searched.timers, [pair("group", "db")]);
        assert_eq!(
            searched.left_out,
            ["status", "server_name!=x", "hostname=web*"]
        );
    }
}
