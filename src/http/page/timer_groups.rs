//! Sums over raw timers by tags, as rows like those of a report; and the small table of them on the
//! overview and on a row's page.
//!
//! If more raw requests match than a page can afford to read, a sample of them spread over the
//! whole time stands for all, both in memory and in history. The heading of the small table links
//! to the page that searches further, with the same conditions. There timers are grouped by the tag
//! `group`, or by the first tag found.

use std::sync::Arc;

use maud::{Markup, html};

use super::columns::columns;
use super::formatting::{self, or_empty, visible, with_two_digits};
use super::ranking::{Ranking, remarks};
use super::render::View;
use super::table::table;
use super::time::Time;
use crate::clock::rfc3339;
use crate::config::suggest;
use crate::http::answer::order::Sort;
use crate::http::error::Problem;
use crate::http::params::{as_list_item, link, pairs};
use crate::query::answer::{ReportSummary, Scanned};
use crate::query::error::QueryError;
use crate::query::question::{RequestSearch, When};
use crate::query::table::Rows;
use crate::query::tables::int;
use crate::query::timer_groups::{TimerGroup, TimerGroups, TimerSearch};
use crate::report::definition::{Field, KeySource};
use crate::report::layout::OTHER;
use crate::series::EVERYTHING;
use crate::value::{Column, ColumnType, Unit, Value};

/// Groups in the small table.
const ROWS: usize = 8;
/// Most raw rows searched, on every page alike: the same question has the same answer.
pub(super) const SEARCHED_MAX: usize = 150_000;
/// The same for the past, which needs 200 bytes per row.
const PAST_SEARCHED_MAX: usize = 60_000;
/// Most groups.
pub(super) const GROUPS_MAX: usize = 1_000;
/// The tag that timers are grouped by unless another is asked for.
pub(super) const USUAL_TAG: &str = "group";

/// The groups as rows, with the sum of all others last if there are any.
pub(super) fn ranking(groups: &TimerGroups, keys: &[&str]) -> Ranking {
    let rows = || groups.rows.iter().chain(&groups.other);
    let all_us: u64 = rows().map(|row| row.value_us).sum();
    let sum = |sum| rounded(groups, sum);
    let mut ranking = ranked(rows(), keys, "timer_groups", |row| {
        let [p50, p95, p99] = row.quantiles.map(Value::Float);
        let share = Value::Float(100.0 * row.value_us as f64 / all_us.max(1) as f64);
        let time = Value::Micros(sum(row.value_us));
        // A report knows the longest timers, not the longest time per hit.
        let is_known = groups.from_report.is_none();
        let max = if is_known { Value::Micros(row.max_us) } else { Value::Null };
        let known = |it| if it > 0 { int(sum(it)) } else { Value::Null };
        let [hits, timers, requests] = [row.hits, row.timers, row.requests].map(known);
        let cpu = if row.is_measured { Value::Micros(sum(row.cpu_us)) } else { Value::Null };
        vec![time, share, p50, p95, p99, max, hits, timers, requests, cpu]
    });
    ranking.at_least = if is_estimate(groups) { "max" } else { "" };
    ranking
}

/// Whether numbers are those of a sample.
pub(super) fn is_estimate(groups: &TimerGroups) -> bool {
    groups.scanned.is_estimate() && groups.from_report.is_none()
}

/// A sum as far as it is known.
pub(super) fn rounded(groups: &TimerGroups, sum: u64) -> u64 {
    if is_estimate(groups) { with_two_digits(sum) } else { sum }
}

/// Groups as rows of these keys and of numbers, whose columns are those of `table`.
pub(super) fn ranked<'g>(
    groups: impl Iterator<Item = &'g TimerGroup>,
    keys: &[&str],
    table: &str,
    numbers: impl Fn(&TimerGroup) -> Vec<Value<'static>>,
) -> Ranking {
    let values = |group: &TimerGroup| {
        let key = |at: usize| match group.keys.get(at) {
            Some(Some(key)) => Value::Text(key.clone().into()),
            _ => Value::Null,
        };
        let keys = (0..keys.len()).map(key);
        numbers(group).into_iter().chain(keys).collect()
    };
    // A key may be named like a number: numbers come first, so that they are found by name.
    let named = columns(table).iter();
    let named = named.map(|it| Column::new(it.name.as_str(), ColumnType::Double, Unit::None));
    let key = |key: &&str| Column::new(*key, ColumnType::Text, Unit::None);
    let columns: Arc<[Column]> = named.chain(keys.iter().map(key)).collect();
    let places = columns.len() - keys.len()..columns.len();
    let rows = Rows { columns, rows: groups.map(values).collect() };
    Ranking::made(Box::new(rows), places.collect(), table, "time")
}

/// The requests that were searched, and over what time, in words.
pub(super) fn searched(searched: &Scanned, time: &Time) -> String {
    let unread = searched.unread_before.map(|before| {
        let before = time.in_zone(&rfc3339(before));
        format!("; not all from before {before} were read in time: these sums are too low")
    });
    requests_searched(searched, time) + &unread.unwrap_or_default()
}

fn requests_searched(searched: &Scanned, time: &Time) -> String {
    let requests = formatting::count(searched.requests);
    let is_one = searched.sample_of.is_none() && searched.requests == 1;
    let (are, matching) = if is_one { ("is", "matches") } else { ("are", "match") };
    let mut place = match (searched.kept, searched.narrowed) {
        (true, false) => format!("that {are} kept"),
        (true, true) => format!("that {are} kept and {matching}"),
        (false, false) => "in memory".to_owned(),
        (false, true) => format!("in memory that {matching}"),
    };
    if let Some(all) = searched.stands_for {
        place += &format!(", standing for about {}", formatting::roughly_many(all));
    }
    if searched.oldest > 0 {
        place += &format!(", {}", time.since(searched.oldest.into()));
    }
    match (searched.sample_of, searched.requests) {
        (Some(all), _) => {
            // In memory they are counted, of history they are estimated.
            let all = match searched.kept {
                true => format!("about {}", formatting::roughly_many(all)),
                false => formatting::count(all),
            };
            format!("a sample of {requests} of {all} raw requests {place}; numbers are estimates")
        }
        (None, 0) => format!("0 raw requests {place}"),
        (None, 1) => format!("the one raw request {place}"),
        (None, _) if searched.all => format!("all {requests} raw requests {place}"),
        (None, _) => format!("the newest {requests} raw requests {place}"),
    }
}

/// Sums up the timers of the page's time. Rows are those of a report by the same tag, if there is
/// one: it has counted all timers, and what is read may be a sample of them.
pub(super) fn find(view: &View<'_>, search: TimerSearch) -> Result<TimerGroups, QueryError> {
    let counted = counted(view, &search);
    let mut groups = match (&counted, &search.by[..]) {
        // Nothing else is wanted, and raw timers are many.
        (Some(_), [KeySource::TimerTag(tag)]) if search.slowest_max == 0 => {
            TimerGroups { tag_names: vec![tag.clone()], ..TimerGroups::default() }
        }
        _ => find_raw(view, search)?,
    };
    if let Some((report, ranking)) = counted {
        let numbers = |column| ranking.numbers(column);
        let [hits, requests, time] = ["hit_count", "req_count", "timer_value"].map(numbers);
        let cpu = ["ru_utime_total", "ru_stime_total"].map(numbers);
        let about = ranking.about.clone();
        let quantiles = ["timer_median", "p95", "p99"].map(numbers);
        let us = |secs: Option<f64>| (secs.unwrap_or(0.0) * 1e6).round() as u64;
        let group = |row: usize| {
            let count = |count: Option<f64>| count.unwrap_or(0.0) as u64;
            let cpu_us = cpu.iter().map(|secs| us(secs(row))).sum();
            let is_measured = cpu.iter().any(|secs| secs(row).is_some());
            let key = ranking.answer.key_columns.first();
            TimerGroup {
                keys: vec![key.map(|key| ranking.table().value(row, *key).plain())],
                requests: count(requests(row)),
                hits: count(hits(row)),
                value_us: us(time(row)),
                cpu_us,
                is_measured,
                quantiles: quantiles.each_ref().map(|secs| secs(row).unwrap_or(f64::NAN)),
                ..TimerGroup::default()
            }
        };
        groups.rows = (0..ranking.table().len()).map(group).collect();
        groups.other = None;
        groups.partial = ranking.answer.partial.clone();
        groups.from_report = Some(format!("{report}, {about}"));
    }
    Ok(groups)
}

/// The report that counts just the timers of a search, by its tag, over the time of the page, if it
/// has any rows.
fn counted(view: &View<'_>, search: &TimerSearch) -> Option<(String, Ranking)> {
    let [KeySource::TimerTag(tag)] = &search.by[..] else { return None };
    let (mut asked, mut all) = (search.requests.clone(), RequestSearch::default());
    all.limit = asked.limit;
    view.time.narrow(&mut asked);
    view.time.narrow(&mut all);
    let is_all = asked == all && search.tags.is_empty() && !search.per_request;
    if !is_all || view.time.whose.is_fleet() {
        return None;
    }
    let window = view.source.listed(EVERYTHING).ok()?.window_seconds;
    let is_it = |it: &ReportSummary| {
        let of = |member| it.definition.get(member);
        of("level") == Some(&"timer".into())
            && of("keys") == Some(&vec![format!("@{tag}")].into())
            && of("filters").is_none()
            && it.window_seconds == window
            && it.partial.is_empty()
    };
    let report = view.source.reports().into_iter().find(is_it)?;
    // Nothing here has room for what was before.
    let mut ranking = Ranking::read_uncompared(view, &report.name).ok()?;
    let rows: Vec<usize> = (0..ranking.table().len().min(GROUPS_MAX + 1)).collect();
    ranking.load(&rows).ok()?;
    let key = ranking.answer.key_columns.first()?;
    let is_other = |row: &usize| ranking.table().value(*row, *key).plain() == OTHER;
    let is_whole = (1..=GROUPS_MAX).contains(&rows.len()) && !rows.iter().any(is_other);
    is_whole.then_some((report.name, ranking))
}

/// Sums up raw timers: from history, or from memory if there is no history.
fn find_raw(view: &View<'_>, mut search: TimerSearch) -> Result<TimerGroups, QueryError> {
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

/// A timer tag as a key in an address of `/timers`, where a bare name may be a field of the request
/// and commas separate keys.
pub(super) fn as_key(tag: &str) -> String {
    let item = as_list_item(tag);
    match Field::named(tag).is_some() || tag.starts_with(['@', '+']) {
        true => format!("@{item}"),
        false => item,
    }
}

/// Says that no timer has a key, and which of `names` may be meant.
pub(super) fn absent<'a>(key: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let question = suggest::question(key, names);
    let end = if question.is_empty() { "." } else { &question };
    format!("No timer here has \"{}\"{end}", visible(key))
}

/// Groups by the usual tag, or by the first that there is.
pub(super) fn find_by_tag(
    find: impl Fn(&str) -> Result<TimerGroups, QueryError>,
) -> Result<(String, TimerGroups), QueryError> {
    let groups = find(USUAL_TAG)?;
    let is_there = groups.tag_names.iter().any(|name| name == USUAL_TAG);
    match groups.tag_names.first().filter(|_| !is_there).cloned() {
        Some(first) => find(&first).map(|groups| (first, groups)),
        None => Ok((USUAL_TAG.to_owned(), groups)),
    }
}

/// The small table of the timers of some requests, the largest in `column` first; `conditions` are
/// those of the search, as parameters. `None` if raw rows are not kept.
pub(super) fn small_table(
    view: &View<'_>,
    requests: &RequestSearch,
    column: &str,
    conditions: &[(String, String)],
) -> Result<Option<Markup>, Problem> {
    let search = |tag: &str| {
        let search = TimerSearch {
            requests: requests.clone(),
            by: vec![KeySource::TimerTag(tag.to_owned())],
            scanned_max: SEARCHED_MAX,
            groups_max: GROUPS_MAX,
            ..TimerSearch::default()
        };
        find(view, search)
    };
    let (tag, groups) = match find_by_tag(search) {
        Err(QueryError::RawDataOff) => return Ok(None),
        found => found?,
    };
    let mut ranking = ranking(&groups, &[&tag]);
    let sort = Sort::largest(column);
    let other = groups.rows.len();
    let (rows, _) = ranking.choose(&|_, row| row < other, &sort, (0, ROWS))?;
    let address = |more: [(&str, &str); 2]| {
        let more = more.into_iter().chain(pairs(conditions));
        link("/timers", more.chain(view.time.pairs()))
    };
    let (by_tag, narrowed) = (as_key(&tag), format!("t.{tag}"));
    let mut columns = ranking.columns_named("time share p50 p95 hits");
    columns.sort_by_key(|it| it.name != column);
    let cells = ranking.cells(&rows, &columns, &sort, |row, _| {
        let value = groups.rows[row].keys.first()?.as_deref()?;
        Some(address([("by", &by_tag), (&narrowed, &or_empty(value))]))
    });
    let by = format!("-{column}");
    let order = if column == "time" { "total time" } else { column };
    let caption = html! {
        a href=(address([("by", &by_tag), ("sort", &by)])) { "Timers by " (visible(&tag)) }
        " " small { "by " (order) ", " @match &groups.from_report {
            Some(report) => { "counted by " (visible(report)) },
            None => { "from " (searched(&groups.scanned, &view.time)) },
        } }
    };
    let heads = ranking.heads(&columns, None);
    let table = table("Timers, rows", caption, heads, cells, "No timers.");
    Ok(Some(html! { (table) (remarks(&groups.partial, &view.time)) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_a_sample_have_two_digits() {
        let row = TimerGroup {
            keys: vec![Some("db".to_owned())],
            requests: 1_234,
            timers: 2_468,
            hits: 98_765,
            value_us: 1_234_567_890,
            max_us: 123_456,
            ..TimerGroup::default()
        };
        let mut groups = TimerGroups { rows: vec![row], ..TimerGroups::default() };
        let number = |groups: &TimerGroups, column| ranking(groups, &["group"]).number(column, 0);
        assert_eq!(number(&groups, "hits"), Some(98_765.0));
        let longest = |groups: &TimerGroups| {
            let mut ranking = ranking(groups, &["group"]);
            ranking.fit(&[0]);
            let columns = ranking.columns_named("max hits");
            let shown = columns.iter().map(|it| ranking.shown(it, 0).into_string());
            shown.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(longest(&groups), "123 ms, 98,765");
        groups.scanned.sample_of = Some(10_000);
        // Among timers left out there may be a longer one.
        assert_eq!(longest(&groups), "\u{2265}\u{a0}123 ms, 99,000");
        let rough = ["time", "hits", "timers", "requests", "max"];
        let numbers =
            |groups: &TimerGroups| rough.map(|column| number(groups, column).unwrap_or_default());
        let two_digits = [1_200.0, 99_000.0, 2_500.0, 1_200.0, 0.123_456];
        assert_eq!(numbers(&groups), two_digits);
        groups.scanned.sample_of = None;
        assert_eq!(number(&groups, "timers"), Some(2_468.0));
        groups.scanned.stands_for = Some(10_000);
        assert_eq!(numbers(&groups), two_digits);
    }

    #[test]
    fn the_heading_says_what_the_requests_stand_for() {
        let kept = Scanned { requests: 9_816, all: true, kept: true, ..Scanned::default() };
        let weighed = Scanned { stands_for: Some(45_321), ..kept };
        for (scanned, words) in [
            (kept, "all 9,816 raw requests that are kept"),
            (weighed, "all 9,816 raw requests that are kept, standing for about 45,000"),
            (
                Scanned { requests: 1, narrowed: true, ..weighed },
                "the one raw request that is kept and matches, standing for about 45,000",
            ),
            (
                Scanned { all: false, sample_of: Some(20_111), ..weighed },
                "a sample of 9,816 of about 20,000 raw requests that are kept, standing for about 45,000; \
                 numbers are estimates",
            ),
            (
                Scanned { all: false, unread_before: Some(1_700_000_000), ..kept },
                "the newest 9,816 raw requests that are kept; not all from before 2023-11-14 22:13:20 UTC \
                 were read in time: these sums are too low",
            ),
        ] {
            assert_eq!(searched(&scanned, &Time::default()), words);
        }
    }
}
