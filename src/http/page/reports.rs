//! `/reports`: all reports, and the form that creates one.
//!
//! Creating and dropping goes through the API, by the script, which keeps other sites' forms out
//! (`request_checks.rs`). Without JavaScript the page says how to do it from a shell.

use maud::{Markup, html};

use super::formatting::{self, Name, visible};
use super::render::View;
use super::table::{Head, pager, table};
use crate::http::error::Problem;
use crate::http::params::encode;
use crate::query::answer::ReportSummary;

/// Reports on one page.
const LIMIT: usize = 200;

/// `GET /reports`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.form()?;
    let part = params.text("q");
    let offset = params.count("offset", 0)?;
    let definition = params.text("form");
    params.finish()?;
    let lower = part.as_ref().map(|part| part.to_lowercase());
    let mut reports = view.source.reports();
    reports.retain(|report| {
        lower.as_ref().is_none_or(|part| {
            let comment = report.comment.as_deref().unwrap_or_default();
            report.name.to_lowercase().contains(part) || comment.to_lowercase().contains(part)
        })
    });
    let shown = reports.iter().skip(offset).take(LIMIT);
    let rows = shown.clone().map(|report| row(view, report));
    let mut heads = Head::list(&["Report", "Kind", "Keys"], &["Rows", "Window"]);
    heads.extend(["COMMENT", "Defined"].map(Head::text));
    heads.push(Head::hidden("Drop"));
    let caption = html! { (formatting::count(reports.len() as u64)) " reports" };
    let empty = "No report has this in its name or COMMENT.";
    let main = html! {
        h1 { "Reports" }
        (view.time.only_now())
        form.filters method="get" action="/reports" role="search" {
            label { "Find reports " input type="search" name="q" value=[part] size="24"; }
            (view.time.fields())
            button type="submit" { "Show" }
            a href=(view.time.link("/reports", []) + "#make-h") { "Create a report" }
        }
        (table("Reports", caption, heads, rows, empty))
        (pager(offset, shown.len(), reports.len(), LIMIT, |offset| {
            params.link("/reports", &[("offset", Some(offset))])
        }))
        (form(definition.as_deref(), view.who_changes()))
    };
    view.page("/reports", "Reports", &main)
}

fn row(view: &View<'_>, report: &ReportSummary) -> Markup {
    let name = visible(&report.name);
    let path = format!("/reports/{}", encode(&report.name));
    let is_past = view.time.spans.is_some();
    let no_past = is_past.then(|| view.source.past_keys(&report.name).err()).flatten();
    let no_past = no_past.map(|why| visible(&why.to_string()));
    html! {
        th.key scope="row" title=[no_past.as_ref()] {
            @if no_past.is_some() { (Name(&report.name)) } @else { a href=(view.time.link(&path, [])) { (Name(&report.name)) } }
        }
        td.key { (visible(&report.kind)) }
        td.key.text { (visible(&report.keys.join(", "))) }
        td { (formatting::count(report.rows)) }
        td { @if report.window_seconds > 0.0 { (formatting::roughly(report.window_seconds)) } }
        td.key.text { @if let Some(comment) = &report.comment { code { (visible(comment)) } } }
        td.key.text { (report.defined.name()) @if !report.persistent { ", until a restart" } @if no_past.is_some() { ", no past" } }
        td {
            @if report.defined.is_droppable() && view.who_changes().is_none() {
                button type="button" data-drop=(report.name) hidden aria-label={ "Drop " (name) } { "Drop" }
            }
        }
    }
}

/// The form. `filled` is a definition in the native form, as JSON; `who` may use the form, if the
/// client may not.
fn form(filled: Option<&str>, who: Option<&str>) -> Markup {
    if let Some(who) = who {
        return html! {
            h2 #make-h { "Create a report" }
            p.note { "Only " (who) " can create and drop reports." }
        };
    }
    html! {
        section aria-labelledby="make-h" {
            h2 #make-h { "Create a report" }
            p.note {
                "By the COMMENT of a Pinba table (" code { "tag_info:group" } ", " code { "v2/request/60/~script,~status/no_percentiles/no_filters" } "), or in the native form as JSON ("
                code { "{\"level\": \"timer\", \"keys\": [\"@group\", \"script_name\"]}" } "). It starts with what is in memory, and can be dropped here again."
            }
            noscript { p.problem { "Without JavaScript this page cannot create or drop reports. From a shell: "
                code { "curl -H 'content-type: application/json' -d '{\"name\": \"by_group\", \"comment\": \"tag_info:group::50,99.9\"}' http://HOST/api/v1/reports" } ", where HOST is the host and port in this page's address." } }
            form #make hidden {
                label { "Name " input name="name" required pattern="[A-Za-z0-9_][A-Za-z0-9_.\\-]*" maxlength="64" size="24" autocomplete="off"; }
                label { "COMMENT or JSON "
                    textarea name="definition" required rows="3" cols="60" spellcheck="false" placeholder="tag_info:group::50,99.9" { (filled.unwrap_or_default()) } }
                button type="submit" { "Create report" }
                p #made role="status" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::native::read_comment;
    use crate::report::definition::Defaults;

    #[test]
    fn the_examples_of_the_form_are_accepted() {
        let page = form(None, None).into_string();
        let page = page.split("<noscript>").next().unwrap().replace("&quot;", "\"");
        let examples = page.split("<code>").skip(1).map(|it| it.split("</code>").next().unwrap());
        let examples: Vec<&str> = examples.collect();
        assert_eq!(examples.len(), 3);
        for example in examples {
            let read = read_comment("x", example, &Defaults::default());
            assert!(read.is_ok(), "{example}: {read:?}");
        }
    }
}
