//! `/requests`: the search among raw requests, newest or slowest first.
//!
//! The parameters are those of `/api/v1/requests`, so a search found here can be asked there. The form has a field for each; tags
//! are added one at a time and stay in the address as `tag.NAME=VALUE`.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, Uri};
use maud::{Markup, html};

use super::ask::{Given, LIMIT_DEFAULT, LIMIT_MAX};
use super::frame::{self, Section};
use super::row::LOOKED_MAX;
use super::show::{self, Name, link, visible};
use crate::http::error::Problem;
use crate::http::params::{self, Rounding};
use crate::http::requests::{NUMBERS, TEXTS};
use crate::http::routes::App;
use crate::query::source::{Looked, RequestSearch, Source};
use crate::query::table::Table;
use crate::value::Value;

/// Parameters beside those of the search.
const VIEW: [&str; 6] = ["order", "limit", "before_id", "tag", "value", "format"];
/// Parameters with bounds.
const BOUNDS: [&str; 4] = ["since", "until", "min_time", "max_time"];

/// The conditions of a search as they were given, checked.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions {
    search: RequestSearch,
}

impl Conditions {
    /// From parameters, without those that are not conditions.
    pub(super) fn parse(given: &Given) -> Result<Self, Problem> {
        let mut search = RequestSearch::default();
        for (name, value) in given.iter() {
            if let Some((_, field)) = TEXTS.iter().find(|(known, _)| *known == name) {
                search.texts.push((*field, value.to_owned()));
            } else if let Some((_, field)) = NUMBERS.iter().find(|(known, _)| *known == name) {
                search.numbers.push((*field, params::number(name, value)?));
            } else if let Some(tag) = name.strip_prefix("tag.") {
                search.tags.push((tag.to_owned(), value.to_owned()));
            } else {
                match name {
                    "since" => search.since = Some(params::moment("since", value, Rounding::Up)?),
                    "until" => search.until = Some(params::moment("until", value, Rounding::Down)?),
                    "min_time" => {
                        search.min_time_us = Some(params::micros("min_time", value, Rounding::Up)?);
                    }
                    "max_time" => {
                        search.max_time_us =
                            Some(params::micros("max_time", value, Rounding::Down)?);
                    }
                    _ => {}
                }
            }
        }
        Ok(Self { search })
    }

    /// From pairs made here.
    pub(super) fn from_pairs(pairs: &[(String, String)]) -> Result<Self, Problem> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let query = link("", pairs);
        Self::parse(&Given::parse(query.strip_prefix('?'))?)
    }

    /// What to ask the source for.
    pub(super) fn search(&self) -> RequestSearch {
        self.search.clone()
    }
}

/// All names of conditions, for messages.
pub(super) fn condition_names() -> impl Iterator<Item = &'static str> {
    let texts = TEXTS.iter().map(|(name, _)| *name);
    texts
        .chain(NUMBERS.iter().map(|(name, _)| *name))
        .chain(BOUNDS)
}

/// `GET /requests`
pub(super) async fn read(State(app): State<App>, uri: Uri) -> Response<Body> {
    let given = Given::parse(uri.query());
    let view = given.and_then(|given| {
        let known: Vec<&str> = condition_names().chain(VIEW).collect();
        given.only(&known, &["tag."])?;
        let given = added(given);
        let conditions = Conditions::parse(&given)?;
        let limit = given.rows("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
        let slowest = given.one_of("order", &["newest", "slowest"])? == "slowest";
        let mut search = conditions.search();
        search.limit = limit;
        search.before_id = match given.get("before_id") {
            None => None,
            Some(text) => Some(params::number("before_id", text)?),
        };
        Ok(move |source: &dyn Source| page(source, &given, &search, slowest))
    });
    super::answer(app, &uri, view).await
}

/// The two fields of the form by which a tag is added, as the condition that they mean.
fn added(given: Given) -> Given {
    match (given.get("tag"), given.get("value")) {
        (Some(tag), Some(value)) => {
            let name = format!("tag.{tag}");
            let address = given.with("", &[("tag", None), ("value", None), (&name, Some(value))]);
            Given::parse(address.strip_prefix('?')).unwrap_or(given)
        }
        _ => given,
    }
}

fn page(
    source: &dyn Source,
    given: &Given,
    search: &RequestSearch,
    slowest: bool,
) -> Result<Markup, Problem> {
    let mut next = None;
    let (table, of) = if slowest {
        let found = source.slowest(search, LOOKED_MAX)?;
        let of = format!("the slowest of {}", looked(&found.looked));
        (found.table, of)
    } else {
        let found = source.requests(search)?;
        next = found.next_before_id;
        (found.table, "newest first".to_owned())
    };
    let main = html! {
        h1 { "Requests" }
        (form(given))
        div #found data-live {
            (self::table(table.as_ref(), &of, &columns_of(search)))
            nav.pager aria-label="Pages of the table" {
                @if given.get("before_id").is_some() { a href=(given.with("/requests", &[])) { "\u{2190} newest" } }
                @if let Some(next) = next {
                    a rel="next" href=(given.with("/requests", &[("before_id", Some(&next.to_string()))])) { "older \u{2192}" }
                }
            }
        }
    };
    Ok(frame::page(Section::Requests, "Requests", &main))
}

/// Columns that are the same in every row, since the search says so.
pub(super) fn columns_of(search: &RequestSearch) -> Vec<&'static str> {
    let texts = TEXTS
        .iter()
        .filter(|(_, field)| search.texts.iter().any(|(known, _)| known == field));
    texts.map(|(name, _)| *name).collect()
}

fn form(given: &Given) -> Markup {
    let field = |name: &'static str, label: &'static str, size: usize| {
        html! { label { (label) " " input name=(name) value=[given.get(name)] size=(size) autocomplete="off"; } }
    };
    let number = |name: &'static str, label: &'static str, hint: &'static str| {
        html! { label { (label) " " input name=(name) value=[given.get(name)] size="8" inputmode="decimal" placeholder=(hint) autocomplete="off"; } }
    };
    let more = [
        "req_count",
        "timers_cnt",
        "tags_cnt",
        "timestamp",
        "schema",
        "since",
        "until",
    ];
    let tags: Vec<(&str, &str)> = given
        .iter()
        .filter(|(name, _)| name.starts_with("tag."))
        .collect();
    html! {
        form.filters method="get" action="/requests" role="search" {
            (field("script_name", "Script", 24))
            (field("hostname", "Host", 12))
            (field("server_name", "Server", 16))
            (number("status", "Status", "200"))
            (number("min_time", "Time from, s", "0.5"))
            (number("max_time", "to", "10"))
            label { "Tag " input name="tag" size="8" placeholder="env" autocomplete="off"; }
            label { "is " input name="value" size="10" placeholder="production" autocomplete="off"; }
            @for (name, value) in &tags { input type="hidden" name=(name) value=(value); }
            label { "Order "
                select name="order" {
                    @for (order, text) in [("newest", "newest first"), ("slowest", "slowest first")] {
                        option value=(order) selected[given.get("order").unwrap_or("newest") == order] { (text) }
                    }
                }
            }
            details open[more.iter().any(|name| given.get(name).is_some())] {
                summary { "More" }
                (field("schema", "Schema", 8))
                (field("since", "Since", 20))
                (field("until", "Until", 20))
                (number("timers_cnt", "Timers", ""))
                (number("tags_cnt", "Tags", ""))
                (number("req_count", "Requests in packet", ""))
                (number("timestamp", "Second", "1700000000"))
            }
            button type="submit" { "Search" }
            a href="/requests" { "Reset" }
        }
        @if !tags.is_empty() {
            ul.conditions aria-label="Tags" {
                @for (name, value) in &tags {
                    li { (visible(name.trim_start_matches("tag."))) " = " (Name(value)) " "
                        a href=(given.with("/requests", &[(name, None)])) aria-label={ "Without the tag " (visible(name)) } { "\u{d7}" } }
                }
            }
        }
    }
}

/// What rows were looked at, in words.
pub(super) fn looked(looked: &Looked) -> String {
    let requests = show::count(looked.requests);
    if looked.all {
        format!("all {requests} raw requests in memory")
    } else {
        format!("the newest {requests} raw requests")
    }
}

/// Rows of table `request`; columns in `known` are left out.
pub(super) fn table(table: &dyn Table, of: &str, known: &[&str]) -> Markup {
    let at = |name: &str| table.column(name);
    let shown: Vec<(&str, &str, bool)> = [
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
    ]
    .into_iter()
    .filter(|(name, _, _)| !known.contains(name) && at(name).is_some())
    .collect();
    let kib = ["mem_peak_usage", "doc_size"];
    html! {
        div.wide tabindex="0" role="region" aria-label="Requests" {
            table {
                caption { (show::count(table.len() as u64)) " requests, " (of) }
                thead { tr {
                    th.key scope="col" { "Request" }
                    @for (_, title, text) in &shown { th.key[*text] scope="col" { (title) } }
                    th scope="col" { "Received" }
                } }
                tbody {
                    @for row in 0..table.len() {
                        @let get = |name: &str| at(name).map_or(Value::Null, |column| table.value(row, column));
                        @let id = show::plain(&get("id"));
                        tr {
                            th.key scope="row" { a href={ "/requests/" (id) } { "#" (id) } }
                            @for (name, _, text) in &shown {
                                @let value = get(name);
                                @match (&value, *name) {
                                    (Value::Int(status), "status") => td.bad[*status >= 500] { (status) },
                                    (Value::Float(size), name) if kib.contains(&name) => td { (show::bytes(size * 1024.0)) },
                                    _ => td.key[*text] { (show::value(name, &value)) },
                                }
                            }
                            td { @if let Value::Int(secs) = get("timestamp") { (show::moment(secs.unsigned_abs())) } }
                        }
                    }
                }
            }
        }
        @if table.is_empty() { p.note { "Nothing in memory matches. " a href="/requests" { "All requests" } " reach back as far as " code { "pool.stats_history" } " and the pool allow." } }
    }
}
