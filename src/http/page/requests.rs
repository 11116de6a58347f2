//! `/requests`: the search among raw requests, newest or slowest first.
//!
//! The parameters are those of `/api/v1/requests`, so a search found here can be used there. The form has a field for each; tags
//! are added one at a time and stay in the address as `tag.NAME=VALUE`.

use maud::{Markup, html};

use super::frame::{self, Section};
use super::render::View;
use super::report::{LIMIT_DEFAULT, LIMIT_MAX};
use super::show;
use super::table::{self, Head};
use super::timer_groups::searched;
use crate::http::api::search;
use crate::http::error::Problem;
use crate::http::params::{Params, owned};
use crate::query::read_model::RequestSearch;
use crate::query::table::Table;
use crate::value::Value;

/// Raw rows searched for the slowest at most.
pub(super) const SEARCHED_MAX: usize = 500_000;

/// `GET /requests`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = added(view.form()?);
    let mut search = search::range(&mut params)?;
    search::conditions(&mut params, &mut search)?;
    let slowest = params.word("order", &["newest", "slowest"])? == "slowest";
    search.limit = params.rows(LIMIT_DEFAULT, LIMIT_MAX)?;
    // As in the API, where it chooses between JSON and CSV.
    params.text("format");
    params.finish()?;
    let (requests, next, order) = if slowest {
        let found = view.source.slowest(&search, SEARCHED_MAX)?;
        let order = format!("the slowest of {}", searched(&found.scanned));
        (found.table, None, order)
    } else {
        let found = view.source.requests(&search)?;
        (found.table, found.next_before_id, "newest first".to_owned())
    };
    let next = next.map(|id| id.to_string());
    let tags = params.iter().filter(|(name, _)| name.starts_with("tag."));
    let main = html! {
        h1 { "Requests" }
        (form(&params))
        (table::conditions("Tags", tags, |name| params.link("/requests", &[(name, None)])))
        div #found data-live {
            (rows(requests.as_ref(), &order, &columns_of(&search)))
            nav.pager aria-label="Pages of the table" {
                @if params.get("before_id").is_some() { a href=(params.link("/requests", &[])) { "\u{2190} newest" } }
                @if next.is_some() {
                    a rel="next" href=(params.link("/requests", &[("before_id", next.as_deref())])) { "older \u{2192}" }
                }
            }
        }
    };
    Ok(frame::page(Section::Requests, "Requests", &main))
}

/// The two fields of the form by which a tag is added, as the condition that they mean.
fn added(params: Params) -> Params {
    let (tag, value) = (params.get("tag"), params.get("value"));
    let name = format!("tag.{}", tag.unwrap_or_default());
    let pairs = params.iter().filter(|(other, _)| *other != name);
    let pairs = pairs.filter(|(name, _)| !matches!(*name, "tag" | "value"));
    let set = tag.and(value).map(|value| (name.as_str(), value));
    Params::from_pairs(pairs.chain(set).map(owned).collect())
}

/// Columns that are the same in every row, since the search says so.
pub(super) fn columns_of(search: &RequestSearch) -> Vec<&'static str> {
    let is_searched = |field| search.texts.iter().any(|(known, _)| *known == field);
    let texts = search::TEXTS
        .into_iter()
        .filter(|(_, field)| is_searched(*field));
    texts.map(|(name, _)| name).collect()
}

/// A field of the form: parameter, label, size, an example if it is a number.
type Field = (&'static str, &'static str, usize, Option<&'static str>);

const FIELDS: [Field; 6] = [
    ("script_name", "Script", 24, None),
    ("hostname", "Host", 12, None),
    ("server_name", "Server", 16, None),
    ("status", "Status", 8, Some("200")),
    ("min_time", "Time from, s", 8, Some("0.5")),
    ("max_time", "to", 8, Some("10")),
];

const MORE_FIELDS: [Field; 7] = [
    ("schema", "Schema", 8, None),
    ("since", "Since", 20, None),
    ("until", "Until", 20, None),
    ("timers_cnt", "Timers", 8, Some("")),
    ("tags_cnt", "Tags", 8, Some("")),
    ("req_count", "Requests in packet", 8, Some("")),
    ("timestamp", "Second", 8, Some("1700000000")),
];

fn form(params: &Params) -> Markup {
    let field = |(name, label, size, example): &Field| {
        html! {
            label { (label) " "
                input name=(name) value=[params.get(name)] size=(size) inputmode=[example.map(|_| "decimal")]
                    placeholder=[example] autocomplete="off"; }
        }
    };
    let more = MORE_FIELDS
        .iter()
        .any(|(name, ..)| params.get(name).is_some());
    let order = params.get("order").unwrap_or("newest");
    html! {
        form.filters method="get" action="/requests" role="search" {
            @for it in &FIELDS { (field(it)) }
            label { "Tag " input name="tag" size="8" placeholder="env" autocomplete="off"; }
            label { "is " input name="value" size="10" placeholder="production" autocomplete="off"; }
            @for (name, value) in params.iter().filter(|(name, _)| name.starts_with("tag.")) {
                input type="hidden" name=(name) value=(value);
            }
            label { "Order "
                select name="order" {
                    @for (name, text) in [("newest", "newest first"), ("slowest", "slowest first")] {
                        option value=(name) selected[order == name] { (text) }
                    }
                }
            }
            details open[more] {
                summary { "More" }
                @for it in &MORE_FIELDS { (field(it)) }
            }
            button type="submit" { "Search" }
            a href="/requests" { "Reset" }
        }
    }
}

/// Rows of table `request`; columns in `known` are left out.
pub(super) fn rows(requests: &dyn Table, order: &str, known: &[&str]) -> Markup {
    let at = |name: &str| requests.column(name);
    let columns = [
        ("req_time", "Time", false),
        ("status", "Status", false),
        ("script_name", "Script", true),
        ("server_name", "Server", true),
        ("hostname", "Host", true),
        ("ru_utime", "User CPU", false),
        ("ru_stime", "System", false),
        ("mem_peak_usage", "Peak memory", false),
        ("doc_size", "Size", false),
        ("timers_cnt", "Timers", false),
        ("tags", "Tags", true),
    ];
    let is_shown = |(name, _, _): &(&str, &str, bool)| !known.contains(name) && at(name).is_some();
    let columns: Vec<_> = columns.into_iter().filter(is_shown).collect();
    let head = |(_, title, text): &(&str, &str, bool)| match text {
        true => Head::text(title),
        false => Head::number(title),
    };
    let mut heads = vec![Head::text("Request")];
    heads.extend(columns.iter().map(head));
    heads.push(Head::number("Received"));
    let cells = |row| {
        let get = |name: &str| at(name).map_or(Value::Null, |column| requests.value(row, column));
        let id = show::plain(&get("id"));
        html! {
            th.key scope="row" { a href={ "/requests/" (id) } { "#" (id) } }
            @for (name, _, text) in &columns {
                @match (get(name), *name) {
                    (Value::Int(status), "status") => td.bad[status >= 500] { (status) },
                    (Value::Float(size), "mem_peak_usage" | "doc_size") => td { (show::bytes(size * 1024.0)) },
                    (value, name) => td.key[*text] { (show::value(name, &value)) },
                }
            }
            td { @if let Value::Int(secs) = get("timestamp") { (show::moment(secs.unsigned_abs())) } }
        }
    };
    let cells: Vec<Markup> = (0..requests.len()).map(cells).collect();
    let caption = html! { (show::count(requests.len() as u64)) " requests, " (order) };
    html! {
        (table::table("Requests", &caption, &heads, &cells, ""))
        @if requests.is_empty() {
            p.note {
                "Nothing in memory matches. " a href="/requests" { "All requests" } " reach back as far as "
                code { "pool.stats_history" } " and the pool allow."
            }
        }
    }
}
