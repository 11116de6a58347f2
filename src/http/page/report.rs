//! `/reports/{name}`: any report as a table, sorted, filtered and paged.
//!
//! By default all reports are shown in the same columns, with errors and percentiles
//! ([`ranking`](super::ranking)); `view=own` shows the report's own columns, as the API and SQL do.
//! Tables of the daemon's own counters have only those.

use axum::http::StatusCode;
use maud::{Markup, html};

use super::formatting::visible;
use super::frame;
use super::ranking::Ranking;
use super::render::View;
use super::table::{Listing, conditions, table};
use crate::http::error::Problem;
use crate::http::params::{Params, encode};
use crate::query::answer::{INDEX_VALUE, ReportAnswer, ReportSummary};
use crate::query::table::Table;
use crate::query::tables::{KIND, SAMPLES};
use crate::report::DefinedBy;

/// `GET /reports/{name}`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.params()?;
    let (source, name) = (view.source, view.name());
    let report = source.listed(name)?;
    let path = &format!("/reports/{}", encode(name));
    let mut listing = Listing::take(&mut params)?;
    let part = params.text("q").map(|part| part.to_lowercase());
    let is_own = params.word("view", &["main", "own"])? == "own";
    let keys = params.key_texts();
    let own = || Ranking::read_own(view, &report, &keys);
    let (mut ranking, is_own) = match is_own {
        true => (own()?, true),
        false => match Ranking::read(view, &report) {
            // A table of counters, or the histogram of a row.
            Err(problem) if problem.status == StatusCode::NOT_FOUND => (own()?, true),
            ranking => (ranking?, false),
        },
    };
    let keep = keep(&ranking.answer, &params, part)?;
    ranking.heaviest_only = listing.sort.is_none();
    let sort = listing.sort.take().unwrap_or_else(|| ranking.sort());
    let (rows, total) = ranking.choose(&keep, &sort, listing.page())?;
    let is_view = report.is_view();
    let cells = ranking.cells(&rows, &ranking.columns, &sort, |row, key| {
        (key == 0 && report.kind != KIND && !is_view)
            .then(|| ranking.row_link(name, row, &view.time))
    });
    let heads = ranking.heads(&ranking.columns, Some((&sort, path, &params)));
    let answer = &ranking.answer;
    let covered = &ranking.about;
    let is_pinba2 = report.kind.starts_with("v2/") && view.time.spans.is_none();
    let rates = match is_own {
        _ if !is_pinba2 || view.source.covered_secs(answer) as f64 >= answer.window_seconds => "",
        true => "; as in pinba2, rates are over the whole window",
        false => "; in its own columns, as in pinba2, rates are over the whole window",
    };
    let caption = html! { (visible(name)) @if !covered.is_empty() { ", " (covered) (rates) } };
    let empty = match (answer.table.is_empty(), &view.time.spans) {
        (false, _) => "No row matches.",
        (true, _) if is_view && keys.iter().all(|(key, _)| key != INDEX_VALUE) => {
            "This table is the distribution of one row of a report. Add ?index_value=/index.php to the address to choose the row."
        }
        (true, None) if report.kind == KIND => "The table has no rows now.",
        (true, None) if report.kind == SAMPLES => "No samples yet.",
        (true, None) => "Nothing yet: rows appear with the first packet that this report counts.",
        (true, Some(_)) => ranking.nothing(),
    };
    let rows_of = |format| {
        let rows = params.rest().chain([("limit", "0")]).chain(format);
        view.time.link(&format!("/api/v1{path}"), rows)
    };
    // The API does not search.
    let which = if params.get("q").is_some() { " of all rows" } else { "" };
    let main = html! {
        (frame::crumbs(&[(&view.time.link("/reports", []), "Reports")], &visible(name)))
        h1 { (visible(name)) }
        (about(&report, is_own))
        (filters(path, &params, &report, listing.limit))
        (conditions("Conditions", params.rest(), path, &params))
        div.views {
            @if ![KIND, SAMPLES].contains(&report.kind.as_str()) {
                @let (own, text) = if is_own { (None, "Common columns") } else { (Some("own"), "All columns, as in SQL") };
                a href=(params.link(path, &[("view", own), ("sort", None)])) { (text) }
            }
            @if source.past_keys(name).is_ok() { a href=(view.time.link("/changes", [("report", name)])) { "What changed" } }
            a href=(rows_of(Some(("format", "csv")))) download { "CSV" (which) }
            a href=(rows_of(None)) { "JSON" (which) }
        }
        (ranking.remarks(&view.time))
        div #table data-live {
            (table("Rows of the report", caption, heads, cells, empty))
            (listing.pager(rows.len(), total, path, &params))
        }
    };
    view.page("/reports", &visible(name), &main)
}

/// A description of the report.
fn about(report: &ReportSummary, is_own: bool) -> Markup {
    let from = match report.defined {
        DefinedBy::BuiltIn => "",
        DefinedBy::RunTime => "created at ",
        DefinedBy::Configuration(_) | DefinedBy::Source => "from the ",
    };
    html! {
        p.about {
            (visible(&report.kind)) " report, " (from) (report.defined.name())
            @if let Some(comment) = &report.comment { ", COMMENT " code { (visible(comment)) } }
            @if let Some(buckets) = report.definition["histogram"].as_str() {
                ", times in buckets " code { (visible(buckets)) }
                @if is_own { ": percentiles of longer ones are unknown, and shown as the limit or as a mean" }
            }
            @if !report.persistent { ", gone after a restart" }
        }
    }
}

/// The conditions: given keys, and a text that any key has to contain.
fn keep<'a>(
    answer: &ReportAnswer,
    params: &'a Params,
    part: Option<String>,
) -> Result<impl Fn(&dyn Table, usize) -> bool + use<'a>, Problem> {
    let equal = params.keys(&answer.keys(), answer.table.columns())?;
    let keys = answer.key_columns.clone();
    Ok(move |table: &dyn Table, row: usize| {
        let text = |key: usize| table.value(row, key).plain();
        equal.iter().all(|(key, wanted)| text(keys[*key]) == *wanted)
            && part
                .as_ref()
                .is_none_or(|part| keys.iter().any(|key| text(*key).to_lowercase().contains(part)))
    })
}

/// The search box.
fn filters(path: &str, params: &Params, report: &ReportSummary, limit: usize) -> Markup {
    let hidden = |name: &str| !matches!(name, "q" | "limit" | "offset");
    html! {
        form.filters method="get" action=(path) role="search" {
            (frame::hidden_fields(params.iter().filter(|(name, _)| hidden(name))))
            @if !report.keys.is_empty() {
                label { "Find rows " input type="search" name="q" value=[params.get("q")] placeholder="part of a name" size="24"; }
            }
            label { "Rows per page "
                select name="limit" {
                    @for rows in [20, 50, 100] { option value=(rows) selected[rows == limit] { (rows) } }
                }
            }
            button type="submit" { "Show" }
        }
    }
}
