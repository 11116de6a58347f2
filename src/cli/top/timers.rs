//! Timers of some requests, grouped by their tags; and those of one request.
//!
//! The daemon has reports by timer tags where they are configured; here they are aggregated from raw requests, so
//! that they can be seen without. Called on the polling thread with a few hundred requests. Pure.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value as Json;

use super::cell::{Cell, Unit};
use super::table::{Column, Content, Row, Severity};
use crate::cli::format::{tag_text, tag_values, visible};

/// Names of tags that are offered for grouping.
const CHOICES_MAX: usize = 16;

#[derive(Default)]
struct Sum {
    requests: u64,
    /// The request that was counted last, so that none is counted twice.
    last: Option<usize>,
    hits: f64,
    seconds: f64,
    longest: f64,
}

/// Names of tags, and how many timers have them.
type Names<'a> = BTreeMap<Vec<&'a str>, u64>;

/// The tag names of all these timers.
fn names(requests: &[Json]) -> Names<'_> {
    let mut names = Names::new();
    for request in requests {
        for timer in request["timers"].as_array().into_iter().flatten() {
            let tags = timer["tags"].as_object().into_iter().flatten();
            *names
                .entry(tags.map(|(name, _)| name.as_str()).collect())
                .or_default() += 1;
        }
    }
    names
}

/// Each single name, the most frequent first.
fn choices(names: &Names<'_>) -> Vec<String> {
    let mut single: BTreeMap<&str, u64> = BTreeMap::new();
    for (names, count) in names {
        for name in names {
            *single.entry(name).or_default() += count;
        }
    }
    let mut single: Vec<(&str, u64)> = single.into_iter().collect();
    single.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    single.truncate(CHOICES_MAX);
    single.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// The values alone where the names are these, which the heading shows; else all of it.
fn values_of(tags: &Json, usual: &[&str]) -> String {
    let members = || tags.as_object().into_iter().flatten();
    let single = members().all(|(_, value)| value.is_string());
    if single
        && members()
            .map(|(name, _)| name.as_str())
            .eq(usual.iter().copied())
    {
        let texts = members().filter_map(|(_, value)| value.as_str());
        texts.map(visible).collect::<Vec<_>>().join("  ")
    } else {
        tag_text(tags)
    }
}

/// Groups the timers of these requests by the tag of that name, or by all tags together.
pub fn added_up(requests: &[Json], tag: Option<&str>) -> Content {
    let mut sums: HashMap<String, Sum> = HashMap::new();
    let names = names(requests);
    let usual = names.iter().max_by_key(|(_, count)| **count);
    let usual: &[&str] = usual.map_or(&[], |(names, _)| names);
    let mut seconds = 0.0;
    for (at, request) in requests.iter().enumerate() {
        seconds += request["req_time"].as_f64().unwrap_or_default();
        for timer in request["timers"].as_array().into_iter().flatten() {
            let tags = &timer["tags"];
            let key = match tag {
                None => values_of(tags, usual),
                Some(tag) => match tag_values(&tags[tag]).first() {
                    Some(value) => visible(value).into_owned(),
                    None => continue,
                },
            };
            let sum = sums.entry(key).or_default();
            let value = timer["value"].as_f64().unwrap_or_default();
            sum.hits += timer["hit_count"].as_f64().unwrap_or_default();
            sum.seconds += value;
            sum.longest = sum.longest.max(value);
            if sum.last.replace(at) != Some(at) {
                sum.requests += 1;
            }
        }
    }
    let key = match tag {
        Some(tag) => visible(tag).into_owned(),
        None if usual.is_empty() => "timer".to_owned(),
        None => visible(&usual.join("  ")).into_owned(),
    };
    let count = requests.len();
    Content {
        title: format!(
            "timers of {} requests, by {}",
            count,
            tag.map_or_else(|| "all tags".into(), |tag| format!("tag {}", visible(tag)))
        ),
        columns: columns(&key),
        rows: sums
            .into_iter()
            .map(|(key, sum)| row(key, &sum, count, seconds))
            .collect(),
        total: None,
        sort: "total".to_owned(),
        choices: choices(&names),
    }
}

fn columns(key: &str) -> Vec<Column> {
    vec![
        Column::own(key, Unit::Text),
        Column::own("total", Unit::Seconds),
        Column::own("share of time", Unit::Share),
        Column::own("requests", Unit::Count),
        Column::own("hits", Unit::Count),
        Column::own("hits/req", Unit::Rate),
        Column::own("avg", Unit::Seconds),
        Column::own("longest", Unit::Seconds),
    ]
}

fn row(key: String, sum: &Sum, requests: usize, request_seconds: f64) -> Row {
    let part = |of: f64, whole: f64| match whole > 0.0 {
        true => Cell::Number(of / whole),
        false => Cell::Nothing,
    };
    Row {
        cells: vec![
            Cell::Text(key),
            Cell::Number(sum.seconds),
            part(sum.seconds * 100.0, request_seconds),
            Cell::Number(sum.requests as f64),
            Cell::Number(sum.hits),
            part(sum.hits, requests as f64),
            part(sum.seconds, sum.hits),
            Cell::Number(sum.longest),
        ],
        target: None,
        severity: Severity::Normal,
    }
}

/// The timers of one request, with their shares of its time.
pub fn of_request(request: &Json) -> Content {
    let whole = request["req_time"].as_f64().unwrap_or_default();
    let columns = vec![
        Column::own("timer", Unit::Text),
        Column::own("time", Unit::Seconds),
        Column::own("share of request", Unit::Share),
        Column::own("hits", Unit::Count),
        Column::own("avg", Unit::Seconds),
        Column::own("cpu", Unit::Seconds),
    ];
    let timers = request["timers"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |timer: &Json| {
        let value = timer["value"].as_f64().unwrap_or_default();
        let hits = timer["hit_count"].as_f64().unwrap_or_default();
        let cpu = timer["ru_utime"].as_f64().zip(timer["ru_stime"].as_f64());
        let part = |of: f64, whole: f64| match whole > 0.0 {
            true => Cell::Number(of / whole),
            false => Cell::Nothing,
        };
        Row {
            cells: vec![
                Cell::Text(tag_text(&timer["tags"])),
                Cell::Number(value),
                part(value * 100.0, whole),
                Cell::Number(hits),
                part(value, hits),
                cpu.map_or(Cell::Nothing, |(user, system)| Cell::Number(user + system)),
            ],
            target: None,
            severity: Severity::Normal,
        }
    };
    Content {
        title: "its timers".to_owned(),
        rows: timers.iter().map(row).collect(),
        columns,
        total: None,
        sort: "time".to_owned(),
        choices: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requests() -> Vec<Json> {
        let timer = |hits: u64, value: f64, tags: Json| json!({"hit_count": hits, "value": value, "tags": tags});
        vec![
            json!({"req_time": 1.0, "timers": [
                timer(2, 0.25, json!({"group": "db", "server": "db1"})),
                timer(1, 0.25, json!({"group": "db", "server": "db2"})),
            ]}),
            json!({"req_time": 1.0, "timers": [timer(1, 0.5, json!({"group": ["cache", "x"], "\u{1b}": "\u{1b}"}))]}),
        ]
    }

    fn shown(content: &Content) -> Vec<Vec<String>> {
        let row = |row: &Row| {
            let cells = row.cells.iter().zip(&content.columns);
            cells
                .map(|(cell, column)| cell.format(column.unit))
                .collect()
        };
        let mut rows: Vec<Vec<String>> = content.rows.iter().map(row).collect();
        rows.sort();
        rows
    }

    #[test]
    fn by_one_tag_a_request_counts_once() {
        let content = added_up(&requests(), Some("group"));
        assert_eq!(content.title, "timers of 2 requests, by tag group");
        let rows = shown(&content);
        assert_eq!(
            rows[0][..5],
            ["cache", "500 ms", "██▌         25%", "1", "1"]
        );
        assert_eq!(rows[1][..5], ["db", "500 ms", "██▌         25%", "1", "3"]);
        assert_eq!(rows[1][5..], ["1.50", "167 ms", "250 ms"]);
        assert_eq!(content.choices, ["group", "server", "\u{1b}"]);
    }

    #[test]
    fn by_all_tags_and_of_one_request() {
        let rows = shown(&added_up(&requests(), None));
        let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(
            names,
            ["db  db1", "db  db2", "group=cache group=x \\x1b=\\x1b"]
        );
        assert_eq!(
            added_up(&requests(), None).columns[0].title,
            "group  server"
        );
        let rows = shown(&of_request(&requests()[0]));
        assert_eq!(
            rows[0][..5],
            [
                "group=db server=db1",
                "250 ms",
                "██▌         25%",
                "2",
                "125 ms"
            ]
        );
    }

    #[test]
    fn odd_answers_are_no_timers() {
        for odd in [
            json!(null),
            json!({"timers": [1, {"tags": 5}, {"tags": {"a": [1]}}]}),
            json!({"timers": {}}),
        ] {
            let content = added_up(std::slice::from_ref(&odd), Some("a"));
            assert!(content.rows.len() < 2);
            let _odd = added_up(std::slice::from_ref(&odd), None);
            let _odd = of_request(&odd);
        }
    }
}
