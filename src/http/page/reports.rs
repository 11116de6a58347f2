//! `/reports`: all reports, and the form that makes one.
//!
//! Making and dropping goes through the API, by the script: that is what keeps other sites' forms out (`guard.rs`). Without
//! JavaScript the page says how to do it from a shell.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, Uri};
use maud::{Markup, html};

use super::ask::Given;
use super::frame::{self, Section};
use super::show::{self, visible};
use crate::http::params::encode;
use crate::http::routes::App;
use crate::query::source::{Defined, ReportSummary, Source};

/// Reports on one page.
const LIMIT: usize = 200;

/// `GET /reports`
pub(super) async fn read(State(app): State<App>, uri: Uri) -> Response<Body> {
    let given = Given::parse(uri.query());
    let view = given.and_then(|given| {
        given.only(&["q", "offset", "form"], &[])?;
        let offset = given.number("offset")? as usize;
        Ok(move |source: &dyn Source| Ok(page(&source.reports(), &given, offset)))
    });
    super::fresh(app, view).await
}

fn page(reports: &[ReportSummary], given: &Given, offset: usize) -> Markup {
    let part = given.get("q").map(str::to_lowercase);
    let matches = |report: &&ReportSummary| {
        part.as_ref().is_none_or(|part| {
            let comment = report.comment.as_deref().unwrap_or_default();
            report.name.to_lowercase().contains(part) || comment.to_lowercase().contains(part)
        })
    };
    let found: Vec<&ReportSummary> = reports.iter().filter(matches).collect();
    let shown: Vec<&ReportSummary> = found.iter().skip(offset).take(LIMIT).copied().collect();
    let main = html! {
        h1 { "Reports" }
        form.filters method="get" action="/reports" role="search" {
            label { "Reports with " input type="search" name="q" value=[given.get("q")] size="24"; }
            button type="submit" { "Show" }
            a href="/reports#make-h" { "Make a report" }
        }
        div.wide tabindex="0" role="region" aria-label="Reports" {
            table #reports {
                caption { (show::count(found.len() as u64)) " reports" }
                thead { tr {
                    th.key scope="col" { "Report" } th.key scope="col" { "Kind" } th.key scope="col" { "Keys" }
                    th scope="col" { "Rows" } th scope="col" { "Window" } th.key scope="col" { "COMMENT" }
                    th.key scope="col" { "Defined" } th scope="col" { span.hidden { "Drop" } }
                } }
                tbody {
                    @for report in &shown { (row(report)) }
                    @if shown.is_empty() { tr { td.none colspan="8" { "No report has this in its name or COMMENT." } } }
                }
            }
        }
        (frame::pager(offset, shown.len(), found.len(), LIMIT, |offset| {
            given.with("/reports", &[("offset", Some(&offset.to_string()))])
        }))
        (form(given.get("form")))
    };
    frame::page(Section::Reports, "Reports", &main)
}

fn row(report: &ReportSummary) -> Markup {
    let name = visible(&report.name);
    // The keys in one text are no further key.
    let keys: Vec<&str> = report.keys.iter().map(String::as_str).collect();
    let keys = match &keys[..] {
        [keys @ .., "index_value"] if !keys.is_empty() => keys.to_vec(),
        _ => keys,
    };
    html! {
        tr {
            th.key scope="row" { a href={ "/reports/" (encode(&report.name)) } { (name) } }
            td.key { (visible(&report.kind)) }
            td.key { (visible(&keys.join(", "))) }
            td { (show::count(report.rows)) }
            td { @if report.window_seconds > 0.0 { (show::roughly(report.window_seconds)) } }
            td.key { @if let Some(comment) = &report.comment { code { (visible(comment)) } } }
            td.key { (report.defined.name()) @if !report.persistent { ", until a restart" } @if !report.complete { ", being filled" } }
            td {
                @if report.defined == Defined::RunTime {
                    button type="button" data-drop=(report.name) hidden aria-label={ "Drop " (name) } { "Drop" }
                }
            }
        }
    }
}

/// The form. `filled` is a definition in the native form, as JSON.
fn form(filled: Option<&str>) -> Markup {
    html! {
        section aria-labelledby="make-h" {
            h2 #make-h { "Make a report" }
            p.note {
                "By the COMMENT of a Pinba table (" code { "tag_info:group" } ", " code { "v2/request/60/~script,~status" } "), or in the native form as JSON ("
                code { "{\"level\": \"timer\", \"keys\": [\"@group\", \"script_name\"]}" } "). It is filled from what is in memory, and can be dropped here again."
            }
            noscript { p.problem { "Without JavaScript this page cannot make or drop reports; from a shell: "
                code { "curl -H 'content-type: application/json' -d '{\"name\": \"by_group\", \"comment\": \"tag_info:group::50,99.9\"}' http://HOST/api/v1/reports" } } }
            form #make hidden {
                label { "Name " input name="name" required pattern="[A-Za-z0-9_][A-Za-z0-9_.\\-]*" maxlength="64" size="24" autocomplete="off"; }
                label { "COMMENT or JSON "
                    textarea name="definition" required rows="3" cols="60" spellcheck="false" placeholder="tag_info:group::50,99.9" { (filled.unwrap_or_default()) } }
                button type="submit" { "Make it" }
                p #made role="status" {}
            }
        }
    }
}
