//! `/reports/{name}`: any report as a table, sorted, filtered, a page at a time.
//!
//! By default all reports are shown in the same columns, with errors and percentiles ([`ranking`](super::ranking));
//! `view=own` shows the columns that the report itself has, as the API and SQL do. Tables of the daemon's own counters have only those.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Response, Uri};
use maud::{Markup, html};

use super::ask::{Given, LIMIT_DEFAULT, LIMIT_MAX};
use super::frame::{self, Section};
use super::ranking::{Chosen, Ranking, key_text, sort_head};
use super::show::{self, visible};
use crate::http::error::Problem;
use crate::http::order::{SortBy, choose};
use crate::http::params::{encode, unknown};
use crate::http::routes::App;
use crate::query::error::QueryError;
use crate::query::source::{Needed, ReportAnswer, ReportSummary, Source};
use crate::query::table::Table;
use crate::value::ColumnType;

/// Parameters beside the keys.
const KNOWN: [&str; 5] = ["sort", "limit", "offset", "q", "view"];

/// `GET /reports/{name}`
pub(super) async fn read(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response<Body> {
    let given = Given::parse(uri.query());
    let view = given.and_then(|given| {
        let name = named(name)?;
        Ok(move |source: &dyn Source| page(source, &name, &given))
    });
    super::answer(app, &uri, view).await
}

/// The name in the path.
pub(super) fn named(name: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    name.map(|Path(name)| name)
        .map_err(|_| QueryError::bad_value("name", "is not UTF-8 in percent-encoding").into())
}

/// The report as it is listed.
pub(super) fn summary(source: &dyn Source, name: &str) -> Result<ReportSummary, Problem> {
    let mut reports = source.reports().into_iter();
    reports.find(|report| report.name == name).ok_or_else(|| {
        QueryError::UnknownReport {
            name: name.to_owned(),
        }
        .into()
    })
}

fn page(source: &dyn Source, name: &str, given: &Given) -> Result<Markup, Problem> {
    let report = summary(source, name)?;
    let path = format!("/reports/{}", encode(name));
    let own = given.one_of("view", &["main", "own"])? == "own";
    let limit = given.rows("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    let offset = usize::try_from(given.number("offset")?).unwrap_or(usize::MAX);
    let ask = Ask {
        name,
        path: &path,
        given,
        limit,
        offset,
    };
    let ranking = match own {
        true => None,
        false => match Ranking::ask(source, name) {
            Ok(ranking) => Some(ranking),
            // A table of counters, or the histogram of a row.
            Err(problem) if problem.status.as_u16() == 404 => None,
            Err(problem) => return Err(problem),
        },
    };
    let table = match &ranking {
        Some(ranking) => ask.ranked(ranking)?,
        None => ask.own(source)?,
    };
    let main = html! {
        nav.crumbs aria-label="Where this is" { a href="/reports" { "Reports" } " / " span { (visible(name)) } }
        h1 { (visible(name)) }
        (about(&report))
        (ask.filters(&report))
        div.views {
            @if report.kind != crate::query::tables::KIND {
                @if ranking.is_some() {
                    a href=(given.with(&path, &[("view", Some("own")), ("sort", None)])) { "All columns, as in SQL" }
                } @else {
                    a href=(given.with(&path, &[("view", None), ("sort", None)])) { "The usual columns" }
                }
            }
            a href=(format!("/api/v1{path}?format=csv&limit=0")) download { "CSV" }
            a href=(format!("/api/v1{path}")) { "JSON" }
        }
        div #table data-live { (table) }
    };
    Ok(frame::page(Section::Reports, &visible(name), &main))
}

/// What the report is.
fn about(report: &ReportSummary) -> Markup {
    html! {
        p.about {
            (visible(&report.kind)) " report, " (report.defined.name())
            @if let Some(comment) = &report.comment { ", COMMENT " code { (visible(comment)) } }
            @if !report.persistent { ", gone after a restart" }
            @if !report.complete { ", still being filled" }
        }
    }
}

/// What is asked for.
struct Ask<'a> {
    name: &'a str,
    path: &'a str,
    given: &'a Given,
    limit: usize,
    offset: usize,
}

impl Ask<'_> {
    /// The column to sort by, and whether the largest comes first.
    fn sort<'a>(&'a self, default: &'a str) -> (&'a str, bool) {
        match self.given.get("sort") {
            None => (default, true),
            Some(text) => match text.strip_prefix('-') {
                Some(name) => (name, true),
                None => (text, false),
            },
        }
    }

    /// The conditions: keys that are given, and the text that any key has to hold.
    fn keep<'a>(
        &'a self,
        answer: &'a ReportAnswer,
    ) -> Result<impl Fn(usize) -> bool + use<'a>, Problem> {
        let table = answer.table.as_ref();
        let columns = table.columns();
        let mut equal: Vec<(usize, &str)> = Vec::new();
        for (name, value) in self.given.iter().filter(|(name, _)| !KNOWN.contains(name)) {
            let bare = name.strip_prefix("key.").unwrap_or(name);
            let mut keys = answer.key_columns.iter();
            let Some(key) = keys.find(|key| columns[**key].name == bare) else {
                let keys = answer
                    .key_columns
                    .iter()
                    .map(|key| columns[*key].name.clone());
                return Err(unknown(
                    name,
                    KNOWN.map(str::to_owned).into_iter().chain(keys),
                ));
            };
            equal.push((*key, value));
        }
        let part = self.given.get("q").map(str::to_lowercase);
        let text = |row: usize, key: usize| show::plain(&table.value(row, key));
        Ok(move |row: usize| {
            equal.iter().all(|(key, wanted)| text(row, *key) == *wanted)
                && part.as_ref().is_none_or(|part| {
                    let mut keys = answer.key_columns.iter();
                    keys.any(|key| text(row, *key).to_lowercase().contains(part))
                })
        })
    }

    /// The search box, and the conditions in force with a way out of each.
    fn filters(&self, report: &ReportSummary) -> Markup {
        let conditions = self.given.iter().filter(|(name, _)| !KNOWN.contains(name));
        let conditions: Vec<(&str, &str)> = conditions.collect();
        html! {
            form.filters method="get" action=(self.path) role="search" {
                @for (name, value) in self.given.iter().filter(|(name, _)| !matches!(*name, "q" | "limit" | "offset")) {
                    input type="hidden" name=(name) value=(value);
                }
                @if !report.keys.is_empty() {
                    label { "Rows with " input type="search" name="q" value=[self.given.get("q")] placeholder="part of a name" size="24"; }
                }
                label { "Rows a page "
                    select name="limit" {
                        @for rows in [20, 50, 100] {
                            option value=(rows) selected[rows == self.limit] { (rows) }
                        }
                    }
                }
                button type="submit" { "Show" }
            }
            @if !conditions.is_empty() {
                ul.conditions aria-label="Conditions" {
                    @for (name, value) in conditions {
                        li {
                            (visible(name)) " = " (show::Name(value)) " "
                            a href=(self.given.with(self.path, &[(name, None)])) aria-label={ "Without the condition on " (visible(name)) } { "\u{d7}" }
                        }
                    }
                }
            }
        }
    }

    fn pager(&self, shown: usize, total: usize) -> Markup {
        frame::pager(self.offset, shown, total, self.limit, |offset| {
            let offset = offset.to_string();
            self.given
                .with(self.path, &[("offset", (offset != "0").then_some(&offset))])
        })
    }

    /// The table in the columns that all reports have.
    fn ranked(&self, ranking: &Ranking) -> Result<Markup, Problem> {
        let keep = self.keep(&ranking.answer)?;
        let sorted = self.sort(ranking.time());
        let cut = (self.offset, self.limit);
        let Chosen { rows, total } = ranking.choose(Some(&keep), sorted.0, sorted.1, cut)?;
        let weights = ranking.weights(&rows, sorted.0);
        let address = |sort: &str| self.given.with(self.path, &[("sort", Some(sort))]);
        let key_name = |name: &str| {
            let is_this = name == sorted.0;
            let next = if is_this && !sorted.1 {
                format!("-{name}")
            } else {
                name.to_owned()
            };
            let order = is_this.then_some(if sorted.1 { "descending" } else { "ascending" });
            html! {
                th.key scope="col" aria-sort=[order] {
                    a href=(address(&next)) {
                        (visible(name))
                        @if is_this { span aria-hidden="true" { @if sorted.1 { " \u{2193}" } @else { " \u{2191}" } } }
                    }
                }
            }
        };
        Ok(html! {
            div.wide tabindex="0" role="region" aria-label="Rows of the report" {
                table {
                    caption { (visible(self.name)) ", " (frame::span_of(ranking.answer.covered_seconds, ranking.answer.window_seconds)) }
                    thead { tr {
                        @for name in ranking.keys() { (key_name(name)) }
                        @if ranking.answer.key_columns.is_empty() { th.key scope="col" { "What" } }
                        @for column in ranking.columns() { (sort_head(column, sorted, address)) }
                    } }
                    tbody {
                        @for (row, weight) in rows.iter().zip(&weights) {
                            tr {
                                (ranking.key_cells(self.name, *row, *weight))
                                @for column in ranking.columns() { (ranking.cell(column, *row)) }
                            }
                        }
                        @if rows.is_empty() {
                            tr { td.none colspan=(ranking.columns().len() + ranking.keys().count().max(1)) {
                                @if ranking.table().is_empty() { "Nothing in the window yet: rows come with the first packet that this report counts." }
                                @else { "No row has this name or key." }
                            } }
                        }
                    }
                }
            }
            (self.pager(rows.len(), total))
        })
    }

    /// The table in the report's own columns.
    fn own(&self, source: &dyn Source) -> Result<Markup, Problem> {
        let equal: Vec<(String, String)> = self
            .given
            .iter()
            .filter(|(name, _)| !KNOWN.contains(name))
            .map(|(name, value)| {
                (
                    name.strip_prefix("key.").unwrap_or(name).to_owned(),
                    value.to_owned(),
                )
            })
            .collect();
        let answer = source.report(self.name, &Needed::All, &equal)?;
        let keep = self.keep(&answer)?;
        let table: &dyn Table = answer.table.as_ref();
        let columns = table.columns();
        let (by, descending) = self.sort("");
        let mut sort = Vec::new();
        if !by.is_empty() {
            let names = || columns.iter().map(|column| column.name.as_str());
            let column = table.column(by).ok_or_else(|| {
                Problem::parameter("sort", format!("there is no column {by:?}")).accepting(names())
            })?;
            sort.push(SortBy { column, descending });
        }
        let (rows, total) = choose(table, Some(&keep), &sort, self.offset, self.limit);
        let rows: Vec<usize> = (0..rows.len()).filter_map(|at| rows.get(at)).collect();
        let is_text = |at: usize| {
            matches!(
                columns[at].column_type,
                ColumnType::Text | ColumnType::Varchar(_)
            )
        };
        Ok(html! {
            div.wide tabindex="0" role="region" aria-label="Rows of the report" {
                table {
                    caption { (visible(self.name)) ", " (frame::span_of(answer.covered_seconds, answer.window_seconds)) }
                    thead { tr {
                        @for (at, column) in columns.iter().enumerate() {
                            @let order = (column.name == by).then_some(if descending { "descending" } else { "ascending" });
                            @let next = if column.name == by && descending { column.name.clone() } else { format!("-{}", column.name) };
                            th.key[is_text(at)] scope="col" aria-sort=[order] {
                                a href=(self.given.with(self.path, &[("sort", Some(&next))])) {
                                    (visible(&column.name))
                                    @if order.is_some() { span aria-hidden="true" { @if descending { " \u{2193}" } @else { " \u{2191}" } } }
                                }
                            }
                        }
                    } }
                    tbody {
                        @for row in &rows {
                            tr {
                                @for at in 0..columns.len() {
                                    @if answer.key_columns.contains(&at) {
                                        td.key { (key_text(&table.value(*row, at))) }
                                    } @else {
                                        td.key[is_text(at)] { (show::value(&columns[at].name, &table.value(*row, at))) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            (self.pager(rows.len(), total))
        })
    }
}
