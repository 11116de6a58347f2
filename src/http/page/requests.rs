//! `/requests`: the search among raw requests, newest or slowest first.
//!
//! The parameters are those of `/api/v1/requests`, so a search found here can be used there. The
//! form has a field for each; tags are added one at a time and stay in the URL as `tag.NAME=VALUE`.

use std::fmt::Display;

use maud::{Markup, html};

use super::columns::{Column, Show, columns};
use super::formatting;
use super::frame::hidden_fields;
use super::ranking::{Ranking, remarks};
use super::render::View;
use super::row::conditions::read_conditions;
use super::table::{Head, ROWS_DEFAULT, ROWS_MAX, conditions, table};
use super::time::Time;
use super::timer_groups::searched;
use crate::config::rewrite::TEXT_FIELDS;
use crate::http::api::search;
use crate::http::error::Problem;
use crate::http::params::Params;
use crate::query::error::QueryError;
use crate::query::question::{RequestName, RequestQuestion, RequestSearch, When};
use crate::query::table::Table;

/// Most raw rows searched for the slowest.
pub(super) const SEARCHED_MAX: usize = 500_000;

/// `GET /requests`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.form()?.with_added_tag("tag.");
    let mut search = search_of(view, &mut params)?;
    let sort = params.word("sort", &["-timestamp", "-req_time"])?;
    // As addresses of before have it.
    let order = params.word("order", &["newest", "slowest"])?;
    let slowest = sort == "-req_time" || order == "slowest";
    search.limit = params.rows(ROWS_DEFAULT, ROWS_MAX)?;
    // As in the API, where it selects JSON or CSV.
    params.text("format");
    let accepted = "that of the link to older requests";
    let before = params.parsed("before", accepted, RequestName::parse)?;
    params.finish()?;
    let (rows, next) = find(view, search, slowest, before)?;
    let main = html! {
        h1 { "Requests" }
        (form(&params, slowest, &view.time))
        (conditions("Tags", tags(&params), "/requests", &params))
        div #found data-live {
            (rows)
            nav.pager aria-label="Pages of the table" {
                @if params.get("before_id").or(params.get("before")).is_some() { a href=(params.link("/requests", &[])) { "\u{2190} newest" } }
                @if let Some((name, next)) = &next {
                    a rel="next" href=(params.link("/requests", &[(name, Some(next))])) { "older \u{2192}" }
                }
            }
        }
    };
    view.page("/requests", "Requests", &main)
}

/// The parameter for older requests.
type Older = Option<(&'static str, String)>;

/// Searches in the page's time: in history, or in memory if there is no history. Returns the table
/// of rows.
pub(super) fn find(
    view: &View<'_>,
    search: RequestSearch,
    slowest: bool,
    before: Option<RequestName>,
) -> Result<(Markup, Older), QueryError> {
    let time = &view.time;
    // Columns that the search fixes to one value.
    let known = search.texts.iter().map(|(field, _)| TEXT_FIELDS[*field as usize].0);
    let known: Vec<&str> = known.collect();
    let question = RequestQuestion {
        when: time.spans.clone().into(),
        search,
        slowest: slowest.then_some(SEARCHED_MAX),
        before,
    };
    let found = match view.source.requests(&question) {
        Err(QueryError::NoHistory(_)) => {
            view.source.requests(&RequestQuestion { when: When::Now, ..question })?
        }
        found => found?,
    };
    let order = match &found.scanned {
        Some(scanned) => format!("slowest first; searched: {}", searched(scanned, time)),
        None if slowest => "slowest first".to_owned(),
        None => "newest first".to_owned(),
    };
    let next = found.next_before_id.map(|id| ("before_id", id.to_string()));
    let next = next.or_else(|| Some(("before", found.next_before?.to_string())));
    let remarks = remarks(&found.partial, time);
    Ok((html! { (remarks) (rows(found.table, &order, &known, time)) }, next))
}

/// The search for requests, by the parameters and the page's time.
pub(super) fn search_of(view: &View<'_>, params: &mut Params) -> Result<RequestSearch, Problem> {
    let mut search = search::range(params, view.source.unix_ms())?;
    view.time.narrow(&mut search);
    read_conditions(params, &mut search)?;
    Ok(search)
}

/// The conditions on tags.
fn tags(params: &Params) -> impl Iterator<Item = (&str, &str)> {
    params.iter().filter(|(name, _)| name.starts_with("tag."))
}

fn form(params: &Params, slowest: bool, time: &Time) -> Markup {
    let field = |it: &Column| {
        let size = if it.show == Show::Text { 20 } else { 8 };
        html! {
            label { (it.title) " "
                input name=(it.name) value=[params.get(&it.name)] size=(size) inputmode=[(it.show == Show::Number).then_some("decimal")]
                    placeholder=[(!it.hint.is_empty()).then_some(&it.hint)] autocomplete="off"; }
        }
    };
    let more = columns("more_fields");
    let is_open = more.iter().any(|it| params.get(&it.name).is_some());
    let sorts = [("-timestamp", "newest first"), ("-req_time", "slowest first")];
    html! {
        form.filters method="get" action="/requests" role="search" {
            @for it in columns("fields") { (field(it)) }
            label { "Tag " input name="tag" size="8" placeholder="env" autocomplete="off"; }
            label { "is " input name="value" size="10" placeholder="production" autocomplete="off"; }
            (hidden_fields(tags(params)))
            label { "Order "
                select name="sort" {
                    @for (at, (name, text)) in sorts.iter().enumerate() {
                        option value=(name) selected[(at == 1) == slowest] { (text) }
                    }
                }
            }
            details open[is_open] {
                summary { "More" }
                div.filters { @for it in more { (field(it)) } }
            }
            (time.fields())
            button type="submit" { "Search" }
            a href=(time.link("/requests", [])) { "Reset" }
        }
    }
}

/// User and system CPU of a request together.
fn cpu(ranking: &Ranking, column: &Column, row: usize) -> String {
    match ["ru_utime", "ru_stime"].map(|name| ranking.number(name, row)) {
        [Some(user), Some(system)] => column.show.text_in(column.scale, user + system),
        _ => formatting::UNKNOWN.to_owned(),
    }
}

/// When a request was received and its number, as a cell that links to its page.
pub(super) fn received(
    id: impl Display,
    run: Option<impl ToString>,
    at: u64,
    time: &Time,
) -> Markup {
    let address = time.request_link(&id, run, None);
    html! { th.when scope="row" { a href=(address) { (time.moment(at)) " " small { "#" (id) } } } }
}

/// Rows of table `request`; columns in `known` are left out.
fn rows(requests: Box<dyn Table>, order: &str, known: &[&str], time: &Time) -> Markup {
    let count = requests.len();
    let [id, timestamp] = ["id", "timestamp"].map(|name| requests.column(name).unwrap_or_default());
    let run = requests.column("run");
    let mut ranking = Ranking::made(requests, Vec::new(), "raw_requests", "");
    ranking.columns.retain(|column| !known.contains(&column.name.as_str()));
    ranking.fit(&(0..count).collect::<Vec<_>>());
    let hint = format!("When it was received, in the time zone {}", time.zone());
    let mut heads = vec![Head::text("Received").class("when").hint(&hint)];
    heads.extend(ranking.heads(&ranking.columns, None));
    let cells = |row| {
        let plain = |column| ranking.table().value(row, column).plain();
        let at = ranking.table().value(row, timestamp).number().unwrap_or(0.0) as u64;
        html! {
            (received(plain(id), run.map(plain), at, time))
            @for column in &ranking.columns {
                @if column.name == "ru_utime" { td { (cpu(&ranking, column, row)) } } @else { (ranking.cell(column, row)) }
            }
        }
    };
    let caption = html! { (formatting::counted(count as u64, "request")) ", " (order) };
    html! {
        (table("Requests", caption, heads, (0..count).map(cells), ""))
        @if count == 0 {
            p.note {
                @if run.is_some() { "No request that was kept matches. " a href=(time.link("/requests", [])) { "All requests of that time" } }
                @else {
                    "No request in memory matches. " a href=(time.link("/requests", [])) { "All requests" } " go back as far as "
                    code { "pool.stats_history" } " and the size of the pool allow."
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rarer_field_has_an_example_that_is_accepted() {
        let fields = columns("more_fields").iter();
        let query: Vec<String> = fields
            .map(|it| {
                assert!(!it.hint.is_empty(), "{}", it.name);
                format!("{}={}", it.name, it.hint)
            })
            .collect();
        let mut params = Params::parse(Some(&query.join("&"))).unwrap();
        let mut search = search::range(&mut params, 1_795_867_200_000).unwrap();
        read_conditions(&mut params, &mut search).unwrap();
        params.finish().unwrap();
        assert_eq!(search.since, Some(1_795_867_200 - 3_600));
    }
}
