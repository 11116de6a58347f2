//! Timers of some requests, grouped by their tags; and those of one request.
//!
//! The daemon has reports by timer tags only where they are configured; here timers are aggregated
//! from raw requests, so no report is needed. Called on the polling thread with a few hundred
//! requests. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde_json::{Value as Json, json};

use super::cell::Unit;
use super::table::{Column, Content, Row};
use super::views::{cpu, part, with};
use crate::cli::format::{list, tag_text, tag_values, visible};
use crate::value::text::counted;

/// Most tag names offered for grouping.
const CHOICES_MAX: usize = 16;

#[derive(Default)]
struct Sum {
    requests: u64,
    /// The request counted last, so that none is counted twice.
    last: Option<usize>,
    hits: f64,
    seconds: f64,
    longest: f64,
}

/// Returns the tag names of a timer.
fn names(timer: &Json) -> Vec<&str> {
    timer["tags"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn number(timer: &Json, name: &str) -> f64 {
    timer[name].as_f64().unwrap_or_default()
}

/// Sorts by frequency, most frequent first; ties in alphabetical order.
fn by_frequency<K: Ord>(items: impl Iterator<Item = K>) -> Vec<K> {
    let mut counts: BTreeMap<K, u64> = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_default() += 1;
    }
    let mut counts: Vec<(K, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts.into_iter().map(|(item, _)| item).collect()
}

/// Groups the timers of these requests by one tag, or by all tags together.
pub fn added_up(requests: &[Json], tag: Option<&str>) -> Content {
    let all = || requests.iter().flat_map(|it| list(it, "timers"));
    let mut choices = by_frequency(all().flat_map(names));
    choices.truncate(CHOICES_MAX);
    let mut sums: HashMap<String, Sum> = HashMap::new();
    let mut seconds = 0.0;
    for (at, request) in requests.iter().enumerate() {
        seconds += number(request, "req_time");
        for timer in list(request, "timers") {
            let key = match tag {
                None => tag_text(&timer["tags"]),
                Some(tag) => match tag_values(&timer["tags"][tag]).first() {
                    Some(value) => (*value).to_owned(),
                    None => continue,
                },
            };
            let sum = sums.entry(key).or_default();
            let value = number(timer, "value");
            sum.hits += number(timer, "hit_count");
            sum.seconds += value;
            sum.longest = sum.longest.max(value);
            sum.requests += u64::from(sum.last.replace(at) != Some(at));
        }
    }
    let (key, by) = match tag {
        Some(tag) => (visible(tag).into_owned(), format!("tag {}", visible(tag))),
        None => ("timer".to_owned(), "all tags".to_owned()),
    };
    let count = counted(requests.len() as u64, "request");
    let row = |(key, sum): (String, Sum)| Row {
        values: json!({
            "key": key,
            "total": sum.seconds,
            "share": part(sum.seconds * 100.0, seconds),
            "requests": sum.requests,
            "hits": sum.hits,
            "hits_each": part(sum.hits, sum.requests as f64),
            "avg": part(sum.seconds, sum.hits),
            "longest": sum.longest,
        }),
        ..Row::default()
    };
    Content {
        title: format!("timers of {count}, by {by}"),
        columns: Column::list(&[
            ("key", &key, Unit::Text),
            ("total", "total", Unit::Seconds),
            ("share", "of requests' time", Unit::Share),
            ("requests", "requests", Unit::Count),
            ("hits", "hits", Unit::Count),
            ("hits_each", "hits/req", Unit::Number),
            ("avg", "avg", Unit::Seconds),
            ("longest", "longest", Unit::Seconds),
        ]),
        rows: sums.into_iter().map(row).collect(),
        sort: "total".to_owned(),
        choices: choices.into_iter().map(str::to_owned).collect(),
        ..Content::default()
    }
}

/// Returns the timers of one request, with their shares of its time.
pub fn of_request(request: &Json) -> Content {
    let row = |timer: &Json| {
        let value = number(timer, "value");
        let share = part(value * 100.0, number(request, "req_time"));
        let more = [
            ("timer", json!(tag_text(&timer["tags"]))),
            ("share", json!(share)),
            ("avg", json!(part(value, number(timer, "hit_count")))),
            ("cpu", json!(cpu(timer, ["ru_utime", "ru_stime"]))),
        ];
        Row { values: with(timer, more), ..Row::default() }
    };
    Content {
        title: "its timers".to_owned(),
        columns: Column::list(&[
            ("timer", "timer", Unit::Text),
            ("value", "time", Unit::Seconds),
            ("share", "share of request", Unit::Share),
            ("hit_count", "hits", Unit::Count),
            ("avg", "avg", Unit::Seconds),
            ("cpu", "cpu", Unit::Seconds),
        ]),
        rows: list(request, "timers").iter().map(row).collect(),
        sort: "value".to_owned(),
        ..Content::default()
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
            let columns = content.columns.iter();
            columns.map(|column| column.unit.format(&row.values[&column.name])).collect()
        };
        let mut rows: Vec<Vec<String>> = content.rows.iter().map(row).collect();
        rows.sort();
        rows
    }

    #[test]
    fn by_one_tag_a_request_counts_once() {
        let content = added_up(&requests(), Some("group"));
        assert_eq!(content.title, "timers of 2 requests, by tag group");
        assert_eq!(content.columns[2].title, "of requests' time");
        let rows = shown(&content);
        assert_eq!(rows[0][..5], ["cache", "500 ms", "██▌        25.0 %", "1", "1"]);
        assert_eq!(rows[1][..5], ["db", "500 ms", "██▌        25.0 %", "1", "3"]);
        // Of the requests that have such timers, as on the page of calls.
        assert_eq!(rows[1][5..], ["3.00", "167 ms", "250 ms"]);
        assert_eq!(content.choices, ["group", "server", "\u{1b}"]);
    }

    #[test]
    fn by_all_tags_and_of_one_request() {
        let rows = shown(&added_up(&requests(), None));
        let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(
            names,
            ["group=cache group=x \\x1b=\\x1b", "group=db server=db1", "group=db server=db2"]
        );
        assert_eq!(added_up(&requests(), None).columns[0].title, "timer");
        let one = added_up(&requests()[..1], None);
        assert_eq!(one.title, "timers of 1 request, by all tags");
        let rows = shown(&of_request(&requests()[0]));
        assert_eq!(
            rows[0][..5],
            ["group=db server=db1", "250 ms", "██▌        25.0 %", "2", "125 ms"]
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
