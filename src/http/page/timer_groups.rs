//! Sums over raw timers by tags, as rows like those of a report; and the small table of them on the
//! overview and on a row's page.
//!
//! If more raw requests match than a page built every second can afford, a sample of them spread
//! over the whole time stands for all, both in memory and in history. The heading of the small
//! table links to the page that searches further, with the same conditions. There timers are
//! grouped by the tag `group`, or by the first tag found.

use maud::{Markup, html};

use super::columns::columns;
use super::formatting::{self, visible};
use super::ranking::{Ranking, remarks};
use super::render::View;
use super::table::table;
use crate::http::answer::order::Sort;
use crate::http::error::Problem;
use crate::http::params::{link, pairs};
use crate::query::error::QueryError;
use crate::query::question::When;
use crate::query::read_model::{RequestSearch, Scanned, TimerGroup, TimerGroups, TimerSearch};
use crate::query::table::Rows;
use crate::report::definition::KeySource;
use crate::value::{Column, ColumnType, Unit, Value};

/// Groups in the small table.
const ROWS: usize = 8;
/// Most raw rows searched for them.
const SEARCHED_MAX: usize = 100_000;
/// The same for the past, which takes longer to read.
const PAST_MAX: usize = 30_000;
/// Most rows of the past for a larger table, which needs 200 bytes per row.
const PAST_SEARCHED_MAX: usize = 60_000;
/// Most groups.
pub(super) const GROUPS_MAX: usize = 1_000;

/// The groups as rows, with the sum of all others last if there are any.
pub(super) fn ranking(groups: &TimerGroups, keys: &[String]) -> Ranking {
    let numbers = columns("timer_groups");
    let rows = || groups.rows.iter().chain(&groups.other);
    let all_us: u64 = rows().map(|row| row.value_us).sum();
    let count = |count: u64| Value::Int(count as i64);
    let values = |row: &TimerGroup| {
        let key = |at: usize| match row.keys.get(at) {
            Some(Some(key)) => Value::Text(key.clone().into()),
            _ => Value::Null,
        };
        let [p50, p95, p99] = row.quantiles.map(Value::Float);
        let share = 100.0 * row.value_us as f64 / all_us.max(1) as f64;
        let [time, max] = [row.value_us, row.max_us].map(Value::Micros);
        let [hits, timers, requests] = [row.hits, row.timers, row.requests].map(count);
        let (share, cpu) = (
            Value::Float(share),
            if row.is_measured {
                Value::Micros(row.cpu_us)
            } else {
                Value::Null
            },
        );
        let numbers = [time, share, p50, p95, p99, max, hits, timers, requests, cpu];
        numbers
            .into_iter()
            .chain((0..keys.len()).map(key))
            .collect()
    };
    let column =
        |(name, column_type): (&str, ColumnType)| Column::new(name, column_type, Unit::None);
    // A key may be named like a number: numbers come first, so that they are found by name.
    let named = numbers.iter();
    let named = named.map(|number| (number.name.as_str(), ColumnType::Double));
    let columns = named.chain(keys.iter().map(|key| (key.as_str(), ColumnType::Text)));
    let table = Rows {
        columns: columns.map(column).collect(),
        rows: rows().map(values).collect(),
    };
    let keys = numbers.len()..numbers.len() + keys.len();
    Ranking::made(Box::new(table), keys.collect(), "timer_groups", "time")
}

/// The requests that were searched, in words.
pub(super) fn searched(searched: &Scanned) -> String {
    let requests = formatting::count(searched.requests);
    let place = match (searched.kept, searched.narrowed) {
        (true, false) => "that are kept",
        (true, true) => "that are kept and match",
        (false, false) => "in memory",
        (false, true) => "in memory that match",
    };
    match (searched.sample_of, searched.requests) {
        (Some(all), _) => {
            let all = formatting::roughly_many(all);
            format!(
                "a sample of {requests} of about {all} raw requests {place}, spread over the whole time; numbers are estimates"
            )
        }
        (None, 0) => format!("0 raw requests {place}"),
        (None, 1) => format!("the one raw request {place}"),
        (None, _) if searched.all => format!("all {requests} raw requests {place}"),
        (None, _) => format!("the newest {requests} raw requests {place}"),
    }
}

/// Sums up the timers of the page's time: from history, or from memory if there is no history.
pub(super) fn find(view: &View<'_>, mut search: TimerSearch) -> Result<TimerGroups, QueryError> {
    let when = When::from(view.time.spans.clone());
    if let When::Span(_) = when {
        let of_past = TimerSearch {
            scanned_max: search.scanned_max.min(PAST_SEARCHED_MAX),
            ..search.clone()
        };
        match view.source.timer_groups(&of_past, &when) {
            Err(QueryError::NoHistory(_)) => view.time.narrow(&mut search.requests),
            found => return found,
        }
    }
    view.source.timer_groups(&search, &When::Now)
}

/// The small table of the timers of some requests, the largest in `column` first; `conditions` are
/// those of the search, as parameters. `None` if raw rows are not kept.
pub(super) fn small_table(
    view: &View<'_>,
    requests: &RequestSearch,
    (column, order): (&str, &str),
    conditions: &[(String, String)],
) -> Result<Option<Markup>, Problem> {
    let search = |tag: &str| {
        let of_past = view.time.spans.is_some();
        let search = TimerSearch {
            requests: requests.clone(),
            by: vec![KeySource::TimerTag(tag.to_owned())],
            scanned_max: if of_past { PAST_MAX } else { SEARCHED_MAX },
            groups_max: GROUPS_MAX,
            ..TimerSearch::default()
        };
        find(view, search)
    };
    let mut tag = "group".to_owned();
    let mut groups = match search(&tag) {
        Ok(groups) => groups,
        Err(QueryError::RawDataOff) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if let Some(first) = groups.tag_names.first()
        && !groups.tag_names.contains(&tag)
    {
        tag.clone_from(first);
        groups = search(&tag)?;
    }
    groups.other = None;
    let mut ranking = ranking(&groups, std::slice::from_ref(&tag));
    let sort = Sort::largest(column);
    let (rows, _) = ranking.choose(&|_, _| true, &sort, (0, ROWS))?;
    let address = |more: [(&str, &str); 2]| {
        let more = more.into_iter().chain(pairs(conditions));
        link("/timers", more.chain(view.time.pairs()))
    };
    let narrowed = format!("t.{tag}");
    let columns = ranking.columns_named("time share p50 p95 hits");
    let cells = ranking.cells(&rows, &columns, &sort, |row, _| {
        let value = groups.rows[row].keys.first()?.as_deref()?;
        Some(address([("by", &tag), (&narrowed, value)]))
    });
    let by = format!("-{column}");
    let caption = html! {
        a href=(address([("by", &tag), ("sort", &by)])) { "Timers by " (visible(&tag)) }
        " " small { "by " (order) ", from " (searched(&groups.scanned)) }
    };
    let heads = ranking.heads(&columns, None);
    let table = table("Timers, rows", caption, heads, cells, "No timers.");
    Ok(Some(
        html! { (table) (remarks(&groups.partial, &view.time)) },
    ))
}
