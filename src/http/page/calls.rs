//! `/calls?by=TAG`: finds scripts that repeat the same call many times in a request, such as a
//! database query: timer hits per request.
//!
//! Reads the raw timers in memory, or the stored ones of a span, as `/timers` does; conditions of
//! the request search apply here too. Each row links to the waterfall of the request with the most
//! hits, grouped by the same tag.

use maud::{Markup, html};

use super::formatting::{Name, or_empty, visible};
use super::frame::hidden_fields;
use super::ranking::remarks;
use super::render::View;
use super::requests::search_of;
use super::table::{Head, Listing, conditions, table};
use super::timer_groups::{self, GROUPS_MAX, SEARCHED_MAX, as_key, is_estimate, rounded};
use super::timers::{given_conditions, searched};
use crate::http::answer::order::Sort;
use crate::http::error::Problem;
use crate::http::params::Params;
use crate::query::tables::int;
use crate::query::timer_groups::{TimerGroup, TimerGroups, TimerSearch};
use crate::report::definition::{Field, KeySource};
use crate::value::Value;

/// `GET /calls`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.form()?;
    let by = params.text("by");
    let requests = search_of(view, &mut params)?;
    let listing = Listing::take(&mut params)?;
    params.finish()?;
    let find = |tag: &str| {
        let tag = KeySource::TimerTag(tag.to_owned());
        let search = TimerSearch {
            requests: requests.clone(),
            by: vec![KeySource::Field(Field::ScriptName), tag],
            scanned_max: SEARCHED_MAX,
            groups_max: GROUPS_MAX,
            per_request: true,
            ..TimerSearch::default()
        };
        timer_groups::find(view, search)
    };
    let (tag, groups) = match by {
        Some(tag) => find(&tag).map(|groups| (tag, groups))?,
        None => timer_groups::find_by_tag(find)?,
    };
    let main = html! {
        h1 { "Calls per request" }
        p.about { "How often one request repeats the same call, by script: hits of timers with the same value of a tag. Many in one request often mean a missing join." }
        (form(&params, &tag, &groups))
        div #calls data-live {
            (remarks(&groups.partial, &view.time))
            (rows(view, &params, &tag, &listing, &groups)?)
        }
    };
    view.page("/timers", "Calls per request", &main)
}

fn form(params: &Params, tag: &str, groups: &TimerGroups) -> Markup {
    // The order may name the tag, which this form changes.
    let hidden = |name: &str| !matches!(name, "by" | "sort" | "script_name" | "offset");
    let others = groups.tag_names.iter().filter(|name| *name != tag);
    html! {
        (conditions("Conditions", given_conditions(params), "/calls", params))
        form.filters method="get" action="/calls" {
            (hidden_fields(params.iter().filter(|(name, _)| hidden(name))))
            label { "By the timer tag "
                select name="by" {
                    option value=(tag) selected { (visible(tag)) }
                    @for name in others { option value=(name) { (visible(name)) } }
                }
            }
            label { "Script " input name="script_name" value=[params.get("script_name")] size="22" autocomplete="off"; }
            button type="submit" { "Show" }
        }
    }
}

fn rows(
    view: &View<'_>,
    params: &Params,
    tag: &str,
    listing: &Listing,
    groups: &TimerGroups,
) -> Result<Markup, Problem> {
    let known = groups.rows.iter().filter(|group| group.keys.iter().all(Option::is_some));
    let known: Vec<&TimerGroup> = known.collect();
    let keys = ["script_name", tag];
    let numbers = |group: &TimerGroup| {
        let hits = group.per_request.unwrap_or_default();
        let [requests, all, time] =
            [group.requests, group.hits, group.value_us].map(|sum| rounded(groups, sum));
        let [p95, max, requests, all] = [hits.p95, hits.max, requests, all].map(int);
        vec![Value::Float(hits.mean), p95, max, requests, all, Value::Micros(time)]
    };
    let mut ranking = timer_groups::ranked(known.iter().copied(), &keys, "many_calls", numbers);
    ranking.at_least = if is_estimate(groups) { "hits_max" } else { "" };
    let usual = Sort::largest("hits_p95");
    let sort = listing.sort.as_ref().unwrap_or(&usual);
    let (shown, total) = ranking.choose(&|_, _| true, sort, listing.page())?;
    let (by, narrowed) = (as_key(tag), format!("t.{tag}"));
    let cells = ranking.cells(&shown, &ranking.columns, sort, |row, _| {
        let [Some(script), Some(value)] = &known[row].keys[..] else { return None };
        let (script, value) = (or_empty(script), or_empty(value));
        // That page may lack the column of the order.
        let changes = [
            ("by", Some(&*by)),
            ("script_name", Some(&*script)),
            (&*narrowed, Some(&*value)),
            ("sort", None),
            ("limit", None),
        ];
        Some(params.link("/timers", &changes))
    });
    let cells = cells.into_iter().zip(&shown).map(|(cells, row)| {
        let (run, id) = known[*row].per_request.unwrap_or_default().request;
        let address = view.time.request_link(id, run, Some(("by", tag)));
        html! { (cells) td { a href=(address) { "#" (id) } } }
    });
    let mut heads = ranking.heads(&ranking.columns, Some((sort, "/calls", params)));
    for (head, key) in heads.iter_mut().zip(keys) {
        *head = Head::text(Name(key));
    }
    heads.push(Head::number("Example").hint("The request with the most, with its waterfall"));
    let empty = timer_groups::absent(tag, groups.tag_names.iter().map(String::as_str));
    Ok(html! {
        (table("Calls per request", searched(groups, &view.time), heads, cells, &empty))
        (listing.pager(shown.len(), total, "/calls", params))
    })
}
