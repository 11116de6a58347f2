//! `/calls?by=TAG`: finds scripts that repeat the same call many times in a request, such as a
//! database query: timer hits per request.
//!
//! Reads the raw timers in memory, or the stored ones of a span, as `/timers` does; conditions of
//! the request search apply here too. Each row links to the waterfall of the request with the most
//! hits, grouped by the same tag.

use maud::{Markup, html};

use super::columns::columns;
use super::formatting::{self, Name, visible};
use super::ranking::{Ranking, remarks};
use super::render::View;
use super::requests::search_of;
use super::table::{Head, conditions, pager, table};
use super::time::NAMES;
use super::timer_groups::{self, GROUPS_MAX};
use crate::http::answer::order::Sort;
use crate::http::api::search;
use crate::http::error::Problem;
use crate::http::fleet;
use crate::http::params::Params;
use crate::query::read_model::{TimerGroup, TimerGroups, TimerSearch};
use crate::query::table::Rows;
use crate::report::definition::{Field, KeySource};
use crate::value::{Column, ColumnType, Unit, Value};

/// Maximum number of raw rows searched: half as many as on `/timers`, because two histograms are
/// made of each group.
const SEARCHED_MAX: usize = 150_000;
/// Rows on a page: default and maximum.
const ROWS_DEFAULT: usize = 50;
const ROWS_MAX: usize = 100;
/// Default tag, used if it exists.
const BY_DEFAULT: &str = "group";
/// Parameters other than conditions.
const VIEW: [&str; 4] = ["by", "sort", "limit", "offset"];

/// `GET /calls`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.form()?;
    let by = params.text("by");
    let mut requests = search_of(view, &mut params)?;
    search::conditions(&mut params, &mut requests)?;
    let sort = Sort::parse(params.text("sort").as_deref().unwrap_or("-hits_p95"));
    let limit = params.rows(ROWS_DEFAULT, ROWS_MAX)?;
    let offset = params.count("offset", 0)?;
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
    let mut tag = by.clone().unwrap_or_else(|| BY_DEFAULT.to_owned());
    let mut groups = find(&tag)?;
    if let Some(first) = groups.tag_names.first()
        && by.is_none()
        && !groups.tag_names.contains(&tag)
    {
        tag.clone_from(first);
        groups = find(&tag)?;
    }
    let main = html! {
        h1 { "Calls per request" }
        p.about { "How often a request of a script does the same: hits of timers with one value of a tag. Many of them in one request often mean a missing join." }
        (form(&params, &tag, &groups))
        div #calls data-live {
            (remarks(&groups.partial, &view.time))
            (rows(view, &params, &tag, &sort, (offset, limit), &groups)?)
        }
    };
    view.page("/timers", "Calls per request", &main)
}

fn form(params: &Params, tag: &str, groups: &TimerGroups) -> Markup {
    let is_other =
        |name: &str| VIEW.contains(&name) || NAMES.contains(&name) || fleet::NAMES.contains(&name);
    let given = params.iter().filter(|(name, _)| !is_other(name));
    let hidden = |name: &str| !matches!(name, "by" | "script_name" | "offset");
    let others = groups.tag_names.iter().filter(|name| *name != tag);
    html! {
        (conditions("Conditions", given, |name| params.link("/calls", &[(name, None)])))
        form.filters method="get" action="/calls" {
            @for (name, value) in params.iter().filter(|(name, _)| hidden(name)) { input type="hidden" name=(name) value=(value); }
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

/// Converts the groups to rows of keys and numbers.
fn ranking(tag: &str, groups: &[&TimerGroup]) -> Ranking {
    let count = |count: u64| Value::Int(count.cast_signed());
    let values = |group: &&TimerGroup| {
        let hits = group.per_request.unwrap_or_default();
        let keys = group.keys.iter().flatten();
        let keys = keys.map(|key| Value::Text(key.clone().into()));
        let counts = [hits.p95, hits.max, group.requests, group.hits].map(count);
        let numbers = [Value::Float(hits.mean)].into_iter().chain(counts);
        let time = Value::Micros(group.value_us);
        numbers.chain([time]).chain(keys).collect()
    };
    // A key may have the name of a number: numbers come first, so that a name finds the number.
    let numbers = columns("many_calls").iter();
    let numbers = numbers.map(|it| Column::new(it.name.as_str(), ColumnType::Double, Unit::None));
    let keys = ["script_name", tag].map(|name| Column::new(name, ColumnType::Text, Unit::None));
    let columns: Vec<Column> = numbers.chain(keys).collect();
    let places = columns.len() - 2..columns.len();
    let made = Rows {
        columns: columns.into(),
        rows: groups.iter().map(values).collect(),
    };
    Ranking::made(Box::new(made), places.collect(), "many_calls", "time")
}

fn rows(
    view: &View<'_>,
    params: &Params,
    tag: &str,
    sort: &Sort,
    (offset, limit): (usize, usize),
    groups: &TimerGroups,
) -> Result<Markup, Problem> {
    let known = groups.rows.iter();
    let known = known.filter(|group| group.keys.iter().all(Option::is_some));
    let known: Vec<&TimerGroup> = known.collect();
    let mut ranking = ranking(tag, &known);
    let (shown, total) = ranking.choose(&|_, _| true, sort, (offset, limit))?;
    let narrowed = format!("t.{tag}");
    let cells = ranking.cells(&shown, &ranking.columns, sort, |row, _| {
        let [Some(script), Some(value)] = &known[row].keys[..] else {
            return None;
        };
        let timers = [("by", tag), ("script_name", script), (&narrowed, value)];
        Some(view.time.link("/timers", timers))
    });
    let cells = cells.into_iter().zip(&shown).map(|(cells, row)| {
        let (run, id) = known[*row].per_request.unwrap_or_default().request;
        let run = run.map(|run| run.to_string());
        let run = run.as_deref().map(|run| ("run", run));
        let address = view.time.link(
            &format!("/requests/{id}"),
            [("by", tag)].into_iter().chain(run),
        );
        html! { (cells) td { a href=(address) { "#" (id) } } }
    });
    let address = |sort: &str| params.link("/calls", &[("sort", Some(sort))]);
    let mut heads = ranking.heads(&ranking.columns, Some((sort, &address)));
    for (head, key) in heads.iter_mut().zip(["script_name", tag]) {
        *head = Head::text(Name(key));
    }
    heads.push(Head::number("Example").hint("The request with the most, with its waterfall"));
    let timers = formatting::count(groups.timers_scanned);
    let caption = html! { (timers) " timers of " (timer_groups::searched(&groups.scanned)) };
    let empty = "No timer with such a tag.";
    Ok(html! {
        (table("Calls per request", caption, heads, cells, empty))
        (pager(offset, shown.len(), total, limit, |offset| {
            params.link("/calls", &[("offset", (offset != "0").then_some(offset))])
        }))
    })
}
