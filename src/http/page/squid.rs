//! `/squid`: where the proxy spent its time, what its cache saves, and what is in it.
//!
//! Each part is one of the built-in reports of `[[squid]]`, or several side by side, and links to
//! all of it. A dropped report has a line that says so. Unknown values are dashes, never 0. The
//! numbers are this daemon's, also where the address asks for the fleet.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use ahash::RandomState;
use maud::{Markup, html};

use super::columns::{Column, Show};
use super::formatting::{self, Name, Scale};
use super::frame;
use super::ranking::Ranking;
use super::render::View;
use super::table::{Head, cell, table};
use crate::http::answer::order::Sort;
use crate::http::error::Problem;
use crate::query::error::QueryError;
use crate::query::question::ReportQuestion;
use crate::report::layout::OTHER;
use crate::report::read::selection::RowSelection;
use crate::value::Value;

/// Rows of a table on this page.
const ROWS: usize = 12;
/// How many of the largest rows of a report have their percentiles read, for rows of another report
/// to look them up.
const LOOKED_UP: usize = 1_000;
/// Bottlenecks with a column of their own.
const SETS: usize = 6;

/// Names of key columns for people.
const KEYS: [(&str, &str); 8] = [
    ("server_name", "Origin"),
    ("tag_code", "Result code"),
    ("timer_bottleneck", "Bottleneck"),
    ("timer_unfinished", "Activity"),
    ("mime", "Type"),
    ("code", "Result code"),
    ("action", "Action"),
    ("size_class", "Size"),
];

/// `GET /squid`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    view.form()?.finish()?;
    if !view.source.knows_squid() {
        let main = html! {
            h1 { "Squid" }
            p.note { "Squid's log is not read: the configuration has no " code { "[[squid]]" } " entry." }
        };
        return view.page("/squid", "Squid", &main);
    }
    let codes = "req_count req_time_total req_time_percent req_time_median p95 traffic_total";
    let sets = "timer_value timer_value_percent hit_count timer_median p95";
    let main = html! {
        h1 { "Squid" }
        p.about {
            "Activities overlap, so their times exceed those of the requests; the times of bottlenecks add up. Times are as precise as \
             Squid's own clock."
        }
        div.panels {
            (report(view, "squid_codes", "Result codes", "req_time_total", codes)?)
            (report(view, "squid_bottlenecks", "Where the time went", "timer_value", sets)?)
            (shares(view, "squid_bottlenecks_by_code", "Bottlenecks by result code")?)
            (shares(view, "squid_bottlenecks_by_server", "Bottlenecks by origin")?)
            (shares(view, "squid_bottlenecks_by_peer", "Bottlenecks by peer")?)
            (activities(view)?)
            (origins(view)?)
            (sums(view, "squid_savings", "Saved by revalidation", "saved_time")?)
            (objects(view)?)
            (report(view, "squid_unfinished", "Unfinished activities", "hit_count", "hit_count timer_value timer_median")?)
            (sums(view, "squid_swap", "To and from the disk", "count")?)
        }
    };
    view.page("/squid", "Squid", &main)
}

/// A part of the page. `rows`: its heads and their cells; `None` if the report does not exist.
fn part(
    view: &View<'_>,
    report: &str,
    title: &str,
    rows: Option<(Vec<Head>, Vec<Markup>)>,
) -> Markup {
    let id = format!("part-{report}");
    let Some((heads, cells)) = rows else {
        return html! {
            section.panel id=(id) data-live aria-label=(title) { p.note {
                (title) ": report " code { (report) } " "
                @if view.time.spans.is_some() { "has no past." }
                @else { "does not exist. A " code { "[[squid]]" } " entry in the configuration creates it." }
            } }
        };
    };
    let caption = html! { a href=(view.time.link(&format!("/reports/{report}"), [])) { (title) } };
    html! {
        section.panel.large id=(id) data-live aria-label=(title) {
            (table(&format!("{title}, rows"), caption, heads, cells, "Nothing yet."))
        }
    }
}

/// An answer, or `None` if there is no such report, or it has no past. That there is no answer now
/// says nothing about the report.
fn if_there<T>(answer: Result<T, QueryError>) -> Result<Option<T>, QueryError> {
    match answer {
        Err(QueryError::UnknownReport { .. } | QueryError::NoHistory(_)) => Ok(None),
        answer => answer.map(Some),
    }
}

/// By names: a page may add up 100,000 rows.
type ByKey<K, V> = HashMap<K, V, RandomState>;

/// The first [`ROWS`] in this order.
fn first_rows<T>(mut all: Vec<T>, order: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    if all.len() > ROWS {
        all.select_nth_unstable_by(ROWS, &order);
        all.truncate(ROWS);
    }
    all.sort_by(order);
    all
}

/// Rows of a report.
struct Found {
    ranking: Ranking,
    rows: Vec<usize>,
}

/// The largest rows of a report by a sum, and only their percentiles; `None` if it does not exist.
/// `key`: a key column by number, and the text that rows have there.
fn largest(
    view: &View<'_>,
    report: &str,
    sum: &str,
    key: Option<(usize, &'static str)>,
    limit: usize,
) -> Result<Option<Found>, Problem> {
    let found = Ranking::select(view, report, |columns, keys| {
        let sum = columns.iter().position(|column| column.name == sum);
        let equal = key.and_then(|(at, text)| Some((*keys.get(at)?, Value::Text(text.into()))));
        RowSelection {
            equal: equal.into_iter().collect(),
            order: sum.map(|sum| (sum, true)).into_iter().collect(),
            limit,
            ..RowSelection::default()
        }
    });
    Ok(if_there(found)?.map(|(mut ranking, rows)| {
        ranking.fit(&rows);
        Found { ranking, rows }
    }))
}

/// One sum of all rows of a report; `None` if it does not exist.
fn all(view: &View<'_>, report: &str, sum: &str) -> Result<Option<Found>, Problem> {
    let found = Ranking::select(view, report, |columns, keys| {
        let sum = columns.iter().position(|column| column.name == sum);
        let needed = keys.iter().copied().chain(sum).collect();
        RowSelection { columns: Some(needed), ..RowSelection::default() }
    });
    Ok(if_there(found)?.map(|(ranking, rows)| Found { ranking, rows }))
}

impl Found {
    /// The texts in the first key columns of a row.
    fn keys<const N: usize>(&self, row: usize) -> [Cow<'_, str>; N] {
        let (table, columns) = (self.ranking.table(), &self.ranking.answer.key_columns);
        let text = |column: &usize| match table.value(row, *column) {
            Value::Text(text) => text,
            other => other.plain().into(),
        };
        std::array::from_fn(|at| columns.get(at).map_or(Cow::Borrowed(""), text))
    }

    /// The rows by their keys.
    fn by_keys<const N: usize>(&self) -> ByKey<[Cow<'_, str>; N], usize> {
        self.rows.iter().map(|row| (self.keys(*row), *row)).collect()
    }
}

/// The heads of a report, with names for people above its keys.
fn heads(ranking: &Ranking, columns: &[Column]) -> Vec<Head> {
    let mut heads = ranking.heads(columns, None);
    for (head, key) in heads.iter_mut().zip(ranking.answer.keys()) {
        if let Some((_, title)) = KEYS.iter().find(|(name, _)| *name == key) {
            *head = Head::text(*title).hint(key);
        }
    }
    heads
}

/// The largest rows of one report.
fn report(
    view: &View<'_>,
    name: &str,
    title: &str,
    sort: &str,
    columns: &str,
) -> Result<Markup, Problem> {
    let rows = largest(view, name, sort, None, ROWS)?.map(|Found { ranking, rows }| {
        let columns = ranking.columns_named(columns);
        let link = |row, _| Some(ranking.row_link(name, row, &view.time));
        let cells = ranking.cells(&rows, &columns, &Sort::largest(sort), link);
        (heads(&ranking, &columns), cells)
    });
    Ok(part(view, name, title, rows))
}

/// Sums over the last minutes only.
fn sums(
    view: &View<'_>,
    name: &'static str,
    title: &str,
    sort: &'static str,
) -> Result<Markup, Problem> {
    let mut over = String::new();
    let rows = match if_there(view.source.report(name, &ReportQuestion::default()))? {
        Some(answer) => {
            over = frame::last(view.source, &answer);
            let mut ranking = Ranking::made(answer.table, answer.key_columns, name, sort);
            let sort = Sort::largest(sort);
            let (rows, _) = ranking.choose(&|_, _| true, &sort, (0, ROWS))?;
            let cells = ranking.cells(&rows, &ranking.columns, &sort, |_, _| None);
            Some((heads(&ranking, &ranking.columns), cells))
        }
        None => None,
    };
    let title = match (&view.time.spans, over.as_str()) {
        (Some(_), _) => format!("{title}, at present"),
        (None, "") => title.to_owned(),
        (None, over) => format!("{title}, {over}"),
    };
    Ok(part(view, name, &title, rows))
}

/// A name, or a placeholder.
fn name(name: &str) -> Markup {
    html! { th.key scope="row" { @if name.is_empty() { span.none { "none" } } @else { (Name(name)) } } }
}

/// A count as a cell.
fn count(number: Option<f64>) -> Markup {
    cell(number, |number| formatting::count(number as u64))
}

/// A time of a row as a cell.
fn time(report: Option<&Found>, row: Option<usize>, name: &str) -> Markup {
    let column = report.and_then(|it| it.ranking.columns.iter().find(|it| it.name == name));
    let number = report.zip(row).and_then(|(it, row)| it.ranking.number(name, row));
    cell(number, |secs| Show::Secs.text_in(column.and_then(|it| it.scale), secs))
}

/// Median and 95th percentile of a row's times, as cells.
fn times(report: Option<&Found>, row: Option<usize>) -> Markup {
    html! { @for name in ["timer_median", "p95"] { (time(report, row, name)) } }
}

/// The time of the rows with the same first key: in all, and by bottleneck.
#[derive(Default)]
struct Group<'a> {
    all: f64,
    sets: BTreeMap<Cow<'a, str>, f64>,
}

/// For each value of a report's first key, the shares of the bottlenecks, which are its second: a
/// row is all of its time.
fn shares(view: &View<'_>, report: &str, title: &str) -> Result<Markup, Problem> {
    let rows = all(view, report, "timer_value")?.map(|found| {
        let times = found.ranking.numbers("timer_value");
        let mut sets: BTreeMap<Cow<'_, str>, f64> = BTreeMap::new();
        let mut groups: ByKey<Cow<'_, str>, Group<'_>> = ByKey::default();
        for row in &found.rows {
            let [group, set] = found.keys(*row);
            let time = times(*row).unwrap_or(0.0);
            *sets.entry(set.clone()).or_default() += time;
            let group = groups.entry(group).or_default();
            group.all += time;
            *group.sets.entry(set).or_default() += time;
        }
        let mut sets: Vec<(Cow<'_, str>, f64)> = sets.into_iter().collect();
        sets.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let named = sets.get(..SETS).unwrap_or(&sets);
        let groups = first_rows(groups.into_iter().collect(), |(a_name, a), (b_name, b)| {
            b.all.total_cmp(&a.all).then_with(|| a_name.cmp(b_name))
        });
        let mut heads = vec![Head::hidden("Name"), Head::number("Time")];
        heads.extend(named.iter().map(|(set, _)| Head::number(formatting::visible(set))));
        heads.extend((sets.len() > SETS).then(|| Head::number("others")));
        let scale = Scale::of_secs(groups.iter().map(|(_, of)| of.all));
        let cells = groups.iter().map(|(group, of)| {
            let share =
                |time: f64| formatting::percent(100.0 * time / of.all.max(f64::MIN_POSITIVE));
            let known = |set: &str| of.sets.get(set).copied();
            let others: f64 = sets.iter().skip(SETS).filter_map(|(set, _)| known(set)).sum();
            html! {
                (name(group))
                td { (scale.text(of.all)) }
                @for (set, _) in named { (cell(known(set), share)) }
                @if sets.len() > SETS { (cell(Some(others), share)) }
            }
        });
        (heads, cells.collect())
    });
    Ok(part(view, report, title, rows))
}

/// First byte against total, by activity.
fn activities(view: &View<'_>) -> Result<Markup, Problem> {
    let first = largest(view, "squid_first_bytes", "timer_value", None, ROWS)?;
    let rows = largest(view, "squid_activities", "timer_value", None, ROWS)?.map(|found| {
        let firsts = first.as_ref().map(Found::by_keys).unwrap_or_default();
        let heads = vec![
            Head::hidden("Activity"),
            Head::number("Count"),
            Head::number("First byte p50").hint("From its start to its first bytes: median"),
            Head::number("p95").hint("From its start to its first bytes: 95th percentile"),
            Head::number("Total p50").hint("From its start to its end: median"),
            Head::number("p95").hint("From its start to its end: 95th percentile"),
        ];
        let cells = found.rows.iter().map(|row| {
            let keys: [Cow<'_, str>; 1] = found.keys(*row);
            html! {
                (name(&keys[0]))
                (count(found.ranking.number("hit_count", *row)))
                (times(first.as_ref(), firsts.get(&keys).copied()))
                (times(Some(&found), Some(*row)))
            }
        });
        (heads, cells.collect())
    });
    Ok(part(view, "squid_activities", "First byte and total, by activity", rows))
}

/// The time of origins: to connect and until the first byte of the response, if known, and for the
/// response.
fn origins(view: &View<'_>) -> Result<Markup, Problem> {
    let first = largest(view, "squid_first_bytes_by_server", "hit_count", None, LOOKED_UP)?;
    let answers = Some((1, "server_in"));
    let rows = largest(view, "squid_activities_by_server", "hit_count", answers, ROWS)?;
    let rows = rows.map(|found| {
        let firsts = first.as_ref().map(Found::by_keys).unwrap_or_default();
        let heads = vec![
            Head::text("Origin"),
            Head::number("Answers"),
            Head::number("Connect p50").hint("server_out until its first bytes: median"),
            Head::number("p95"),
            Head::number("First byte p50").hint("server_in until its first bytes: median"),
            Head::number("p95"),
            Head::number("Answer p50").hint("server_in until its end: median"),
            Head::number("p95"),
        ];
        let cells = found.rows.iter().map(|row| {
            let [server, activity]: [Cow<'_, str>; 2] = found.keys(*row);
            let until_first = [Cow::Borrowed("server_out"), activity];
            html! {
                (name(&server))
                (count(found.ranking.number("hit_count", *row)))
                @for activity in until_first {
                    (times(first.as_ref(), firsts.get(&[server.clone(), activity]).copied()))
                }
                (times(Some(&found), Some(*row)))
            }
        });
        (heads, cells.collect())
    });
    let title = "Connecting and the first byte, by origin";
    Ok(part(view, "squid_first_bytes_by_server", title, rows))
}

/// Requests of one object.
#[derive(Default)]
struct Object {
    all: f64,
    memory: f64,
    disk: f64,
}

/// Hot objects: in memory, on disk, and for how long in memory.
fn objects(view: &View<'_>) -> Result<Markup, Problem> {
    // Read first: the catalog keeps this reading, which also has the sums of all rows.
    let longest = largest(view, "squid_resident", "hit_count", None, LOOKED_UP)?;
    let times = longest.as_ref().map(Found::by_keys).unwrap_or_default();
    let resident = all(view, "squid_resident", "hit_count")?;
    let mut residents: ByKey<[Cow<'_, str>; 2], f64> = ByKey::default();
    if let Some(found) = &resident {
        let hits = found.ranking.numbers("hit_count");
        for row in &found.rows {
            *residents.entry(found.keys(*row)).or_default() += hits(*row).unwrap_or(0.0);
        }
    }
    let rows = all(view, "squid_objects", "req_count")?.map(|found| {
        let counts = found.ranking.numbers("req_count");
        let mut objects: ByKey<[Cow<'_, str>; 2], Object> =
            ByKey::with_capacity_and_hasher(found.rows.len(), RandomState::new());
        for row in &found.rows {
            let [server, path, code] = found.keys(*row);
            // Those that did not fit are no object: how many of them are hits is not known.
            if code == OTHER {
                continue;
            }
            let count = counts(*row).unwrap_or(0.0);
            let object = objects.entry([server, path]).or_default();
            object.all += count;
            match &*code {
                code if code.contains("MEM_HIT") => object.memory += count,
                "TCP_HIT" => object.disk += count,
                _ => {}
            }
        }
        let hits = |it: &Object| it.memory + it.disk;
        let objects = first_rows(objects.into_iter().collect(), |(a_key, a), (b_key, b)| {
            let by_hits = hits(b).total_cmp(&hits(a)).then(b.all.total_cmp(&a.all));
            by_hits.then_with(|| a_key.cmp(b_key))
        });
        let numbers = ["Requests", "From memory", "From disk"];
        let mut heads = Head::list(&["Origin", "Object"], &numbers);
        let hint = "For how long it was in memory when it was asked for: median";
        heads.push(Head::number("In memory for").hint(hint));
        let cells = objects.iter().map(|(place, object)| {
            // A hit in a log of 1997 with a time in memory came from there.
            let moved = residents.get(place).map_or(0.0, |hits| hits.min(object.disk));
            html! {
                (name(&place[0]))
                td.key { (Name(&place[1])) }
                (count(Some(object.all)))
                (count(Some(object.memory + moved)))
                (count(Some(object.disk - moved)))
                (time(longest.as_ref(), times.get(place).copied(), "timer_median"))
            }
        });
        (heads, cells.collect())
    });
    Ok(part(view, "squid_objects", "Hot objects", rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rows_are_those_of_all_in_order() {
        let all: Vec<u32> = (0..100).map(|number| number * 37 % 101).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(first_rows(all, u32::cmp), sorted[..ROWS]);
        assert_eq!(first_rows(vec![3, 1], u32::cmp), [1, 3]);
    }

    #[test]
    fn only_a_report_that_is_not_there_is_called_so() {
        for absent in [QueryError::unknown_report("squid_codes"), QueryError::no_history()] {
            assert_eq!(if_there(Err::<(), _>(absent)), Ok(None));
        }
        assert_eq!(if_there(Ok(1)), Ok(Some(1)));
        let busy = QueryError::Busy("too many readings at once".to_owned());
        assert_eq!(if_there(Err::<(), _>(busy.clone())), Err(busy));
    }
}
