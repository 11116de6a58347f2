//! `/timers?by=TAG,...`: raw timers by any tags, without a report for them.
//!
//! The newest requests in memory are looked through ([`Source::timer_groups`]), so the answer is about them and says how far
//! it reaches; a report is the way to have it over a whole window and at no cost to whoever asks, and the page offers to make it. `by`
//! takes timer tags by name, `+request_tag`, and request fields. `t.NAME=VALUE` keeps timers with that tag; the conditions of the
//! search for requests work here too.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, Uri};
use maud::{Markup, html};

use super::ask::{Given, LIMIT_MAX};
use super::frame::{self, Section};
use super::ranking::{against_largest, bar};
use super::request;
use super::requests::{self, Conditions};
use super::show::{self, Name, link, visible};
use crate::http::error::Problem;
use crate::http::routes::App;
use crate::query::source::{Source, TimerGroup, TimerGroups, TimerSearch};
use crate::report::definition::{Field, KeySource};

/// Rows summed up; the rest is one row.
const GROUPS_MAX: usize = 1_000;
/// Raw rows looked at, at most.
const LOOKED_MAX: usize = 300_000;
/// Keys at once.
const KEYS_MAX: usize = 6;
/// Bytes that one look takes at most: each row's keys, kept twice, and a bucket of a histogram for each timer looked at.
pub(super) const SUMS_BYTES: usize = GROUPS_MAX * KEYS_MAX * 2 * 512 + LOOKED_MAX * 40;
/// Longest single timers that are shown.
const SLOWEST: usize = 10;
/// Keys when none are given.
const BY_DEFAULT: &str = "group";
/// Parameters beside conditions.
const VIEW: [&str; 6] = ["by", "add", "sort", "limit", "tag", "value"];

/// `GET /timers`
pub(super) async fn read(State(app): State<App>, uri: Uri) -> Response<Body> {
    let given = Given::parse(uri.query());
    let view = given.and_then(|given| {
        let known: Vec<&str> = requests::condition_names().chain(VIEW).collect();
        given.only(&known, &["tag.", "t."])?;
        let given = added(given);
        let conditions = Conditions::parse(&given)?;
        let keys = keys(&given)?;
        let limit = given.rows("limit", LIMIT_MAX, LIMIT_MAX)?;
        let sort = sort(&given)?;
        let tags = given.iter().filter_map(|(name, value)| {
            Some((name.strip_prefix("t.")?.to_owned(), value.to_owned()))
        });
        let search = TimerSearch {
            requests: conditions.search(),
            tags: tags.collect(),
            by: keys.iter().map(|key| key_source(key)).collect(),
            looked_max: LOOKED_MAX,
            groups_max: GROUPS_MAX,
            slowest_max: SLOWEST,
        };
        Ok(move |source: &dyn Source| {
            let found = source.timer_groups(&search)?;
            Ok(page(&given, &keys, sort, limit, found))
        })
    });
    super::answer(app, &uri, view).await
}

/// The fields of the form by which a key or a condition is added, as the address that they mean.
fn added(given: Given) -> Given {
    let mut given = given;
    if let Some(more) = given.get("add") {
        let by = format!("{},{more}", given.get("by").unwrap_or(BY_DEFAULT));
        given = again(&given, &[("add", None), ("by", Some(&by))]);
    }
    if let (Some(tag), Some(value)) = (given.get("tag"), given.get("value")) {
        let name = format!("t.{tag}");
        given = again(
            &given,
            &[("tag", None), ("value", None), (&name, Some(value))],
        );
    }
    given
}

fn again(given: &Given, changes: &[(&str, Option<&str>)]) -> Given {
    let address = given.with("", changes);
    Given::parse(address.strip_prefix('?')).unwrap_or_default()
}

fn keys(given: &Given) -> Result<Vec<String>, Problem> {
    let mut keys: Vec<String> = Vec::new();
    for key in given.get("by").unwrap_or(BY_DEFAULT).split(',') {
        if !key.is_empty() && !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }
    if keys.len() > KEYS_MAX {
        return Err(Problem::parameter(
            "by",
            format!("{} keys are too many; accepted: {KEYS_MAX}", keys.len()),
        ));
    }
    Ok(keys)
}

/// A bare name is a tag of the timer, unless it is called as a field of the request; `@` makes it a tag in any case.
fn key_source(key: &str) -> KeySource {
    if let Some(tag) = key.strip_prefix('@') {
        return KeySource::TimerTag(tag.to_owned());
    }
    match (key.strip_prefix('+'), Field::named(key)) {
        (Some(tag), _) => KeySource::RequestTag(tag.to_owned()),
        (None, Some(field)) => KeySource::Field(field),
        (None, None) => KeySource::TimerTag(key.to_owned()),
    }
}

/// The columns: name in the address, heading, meaning.
const COLUMNS: [(&str, &str, &str); 9] = [
    ("time", "Total time", "Time of all hits together"),
    ("p50", "p50", "Median of the time per hit"),
    ("p95", "p95", "95th percentile of the time per hit"),
    ("p99", "p99", "99th percentile of the time per hit"),
    ("max", "Longest", "Longest time per hit"),
    ("hits", "Hits", "Hits of these timers"),
    ("timers", "Timers", "Timers sent"),
    ("requests", "Requests", "Requests with such timers"),
    ("cpu", "CPU", "User and system CPU"),
];

fn sort(given: &Given) -> Result<(&'static str, bool), Problem> {
    let text = given.get("sort").unwrap_or("-time");
    let (name, descending) = text
        .strip_prefix('-')
        .map_or((text, false), |name| (name, true));
    let names = COLUMNS.map(|(name, _, _)| name);
    let found = names.into_iter().find(|known| *known == name);
    found.map(|name| (name, descending)).ok_or_else(|| {
        Problem::parameter("sort", format!("there is no column {name:?}")).accepting(names)
    })
}

/// One number of a group, by the column's name in the address.
pub(super) fn number(group: &TimerGroup, column: &str) -> f64 {
    match column {
        "hits" => group.hits as f64,
        "timers" => group.timers as f64,
        "requests" => group.requests as f64,
        "p50" => group.quantiles[0],
        "p95" => group.quantiles[1],
        "p99" => group.quantiles[2],
        "max" => group.max_us as f64 / 1e6,
        "cpu" => (group.ru_utime_us + group.ru_stime_us) as f64 / 1e6,
        _ => group.value_us as f64 / 1e6,
    }
}

/// The rows in their order.
pub(super) fn sorted(found: &mut TimerGroups, column: &str, descending: bool) {
    found.rows.sort_by(|a, b| {
        let order = number(a, column).total_cmp(&number(b, column));
        let order = if descending { order.reverse() } else { order };
        order
            .then_with(|| b.value_us.cmp(&a.value_us))
            .then_with(|| a.keys.cmp(&b.keys))
    });
}

fn page(
    given: &Given,
    keys: &[String],
    sort: (&str, bool),
    limit: usize,
    mut found: TimerGroups,
) -> Markup {
    sorted(&mut found, sort.0, sort.1);
    let main = html! {
        h1 { "Timers" }
        (form(given, keys, &found))
        div #timers data-live {
            (table(given, keys, sort, limit, &found))
            h2 { "Longest" }
            (slow_table(&found))
        }
        (make_report(given, keys))
    };
    frame::page(Section::Timers, "Timers", &main)
}

fn form(given: &Given, keys: &[String], found: &TimerGroups) -> Markup {
    let fields = ["script_name", "hostname", "server_name", "status"];
    let unused = |name: &str| !keys.iter().any(|key| key.trim_start_matches('@') == name);
    let without = |key: &String| {
        let rest: Vec<&str> = keys
            .iter()
            .filter(|other| *other != key)
            .map(String::as_str)
            .collect();
        let rest = rest.join(",");
        given.with(
            "/timers",
            &[("by", (!rest.is_empty()).then_some(&rest)), ("sort", None)],
        )
    };
    let conditions = given.iter().filter(|(name, _)| !VIEW.contains(name));
    let conditions: Vec<(&str, &str)> = conditions.collect();
    html! {
        ul.conditions aria-label="Rows by" {
            li.plain { "by" }
            @for key in keys {
                li { (Name(key)) @if keys.len() > 1 { " " a href=(without(key)) aria-label={ "Not by " (visible(key)) } { "\u{d7}" } } }
            }
            @for (name, value) in &conditions {
                li { (visible(name.strip_prefix("t.").unwrap_or(name))) " = " (Name(value)) " "
                    a href=(given.with("/timers", &[(name, None)])) aria-label={ "Without the condition on " (visible(name)) } { "\u{d7}" } }
            }
        }
        form.filters method="get" action="/timers" {
            @for (name, value) in given.iter().filter(|(name, _)| !matches!(*name, "add" | "sort" | "tag" | "value" | "script_name" | "min_time")) {
                input type="hidden" name=(name) value=(value);
            }
            label { "Add "
                select name="add" {
                    option value="" { "a tag or field" }
                    optgroup label="Timer tags" {
                        @for name in found.tag_names.iter().filter(|name| unused(name)) {
                            @let value = if Field::named(name).is_some() { format!("@{name}") } else { name.clone() };
                            option value=(value) { (visible(name)) }
                        }
                    }
                    optgroup label="Of the request" {
                        @for name in fields.iter().filter(|name| unused(name)) { option value=(name) { (name) } }
                    }
                }
            }
            label { "Only with tag " input name="tag" size="10" list="tags" autocomplete="off"; }
            label { "is " input name="value" size="14" autocomplete="off"; }
            datalist #tags { @for name in &found.tag_names { option value=(name) {} } }
            label { "Script " input name="script_name" value=[given.get("script_name")] size="22" autocomplete="off"; }
            label { "Requests from, s " input name="min_time" value=[given.get("min_time")] size="6" inputmode="decimal" placeholder="0.5" autocomplete="off"; }
            button type="submit" { "Show" }
            a href="/timers" { "Reset" }
        }
    }
}

/// What timers were looked at, in words.
pub(super) fn looked(found: &TimerGroups) -> String {
    format!(
        "{} timers of {}",
        show::count(found.timers_looked),
        requests::looked(&found.looked)
    )
}

fn table(
    given: &Given,
    keys: &[String],
    sort: (&str, bool),
    limit: usize,
    found: &TimerGroups,
) -> Markup {
    let all_us: u64 = found
        .rows
        .iter()
        .chain(&found.other)
        .map(|row| row.value_us)
        .sum();
    let shown = found.rows.iter().take(limit);
    let weights = against_largest(shown.map(|row| number(row, sort.0)).collect());
    html! {
        div.wide tabindex="0" role="region" aria-label="Timers" {
            table {
                caption { (looked(found)) @if found.rows.len() > limit { ", the first " (limit) " of " (show::count(found.rows.len() as u64)) " rows" } }
                thead { tr {
                    @for key in keys { th.key scope="col" { (Name(key)) } }
                    @for (name, title, hint) in COLUMNS {
                        @let is_this = sort.0 == name;
                        @let order = is_this.then_some(if sort.1 { "descending" } else { "ascending" });
                        @let next = if is_this && sort.1 { name.to_owned() } else { format!("-{name}") };
                        th scope="col" title=(hint) aria-sort=[order] {
                            a href=(given.with("/timers", &[("sort", Some(&next))])) { (title)
                                @if is_this { span aria-hidden="true" { @if sort.1 { " \u{2193}" } @else { " \u{2191}" } } } }
                        }
                        @if name == "time" { th scope="col" title="Share of the time of all rows" { "Share" } }
                    }
                } }
                tbody {
                    @for (row, weight) in found.rows.iter().take(limit).zip(&weights) {
                        tr {
                            @for (at, (name, key)) in keys.iter().zip(&row.keys).enumerate() {
                                @let cell = html! { @match key {
                                    Some(value) => a href=(narrowed(given, name, value)) { (Name(value)) },
                                    None => span.none { "without" },
                                } };
                                @if at == 0 { th.key scope="row" { (bar(*weight)) (cell) } } @else { td.key { (cell) } }
                            }
                            (cells(row, all_us))
                        }
                    }
                    @if let Some(other) = &found.other {
                        tr { th.key scope="row" colspan=(keys.len()) { "(other)" } (cells(other, all_us)) }
                    }
                }
            }
        }
        @if found.rows.is_empty() {
            p.note {
                @if found.timers_looked > 0 || given.iter().any(|(name, _)| !VIEW.contains(&name)) {
                    "No timers in memory match. " a href="/timers" { "All timers" }
                } @else {
                    "No timers in memory. PHP sends them with " code { "pinba_timer_start([\"group\" => \"mysql\"])" } " and "
                    code { "pinba_timer_stop()" } " around what is to be measured."
                }
            }
        }
    }
}

/// The same page with only what has this value.
fn narrowed(given: &Given, key: &str, value: &str) -> String {
    let name = match key_source(key) {
        KeySource::Field(field) => field.name().to_owned(),
        KeySource::RequestTag(tag) => format!("tag.{tag}"),
        KeySource::TimerTag(tag) | KeySource::TimerTagOrField(tag, _) => format!("t.{tag}"),
    };
    given.with("/timers", &[(&name, Some(value))])
}

fn cells(row: &TimerGroup, all_us: u64) -> Markup {
    html! {
        @for (name, _, _) in COLUMNS {
            @let number = number(row, name);
            td { @if matches!(name, "hits" | "timers" | "requests") { (show::count(number as u64)) } @else { (show::secs(number)) } }
            @if name == "time" {
                @let share = 100.0 * row.value_us as f64 / all_us.max(1) as f64;
                td { (show::percent(share)) }
            }
        }
    }
}

/// The longest single timers.
pub(super) fn slow_table(found: &TimerGroups) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Longest timers" {
            table {
                caption { "the longest per hit of " (looked(found)) }
                thead { tr {
                    th.key scope="col" { "Request" } th scope="col" { "Per hit" } th scope="col" { "Hits" }
                    th.key scope="col" { "Tags" } th.key scope="col" { "Script" } th scope="col" { "Received" }
                } }
                tbody {
                    @for slow in &found.slowest {
                        @let hits = u64::from(slow.timer.hit_count.max(1));
                        tr {
                            th.key scope="row" { a href={ "/requests/" (slow.request_id) } { "#" (slow.request_id) } }
                            td { (show::micros(slow.timer.value_us / hits)) }
                            td { (show::count(hits)) }
                            td.key { (request::tags(&slow.timer)) }
                            td.key { (Name(&slow.script_name)) }
                            td { (show::moment(u64::from(slow.timestamp))) }
                        }
                    }
                }
            }
        }
    }
}

/// A link to the form that makes a report of the same keys.
fn make_report(given: &Given, keys: &[String]) -> Markup {
    let sources: Vec<String> = keys.iter().map(|key| key_source(key).to_string()).collect();
    let filters = given.iter().filter_map(|(name, value)| {
        if let Some(tag) = name.strip_prefix("t.") {
            return Some(format!("@{tag}={value}"));
        }
        if let Some(tag) = name.strip_prefix("tag.") {
            return Some(format!("+{tag}={value}"));
        }
        let known = matches!(name, "min_time" | "max_time") || Field::named(name).is_some();
        known.then(|| format!("{name}={value}"))
    });
    let form = serde_json::json!({
        "level": "timer",
        "keys": sources,
        "filters": filters.collect::<Vec<_>>(),
        "percentiles": [95, 99],
    });
    html! {
        p.note {
            "This looks through raw timers each time. To have it for the whole window, kept as packets come in, "
            a href=(link("/reports", [("form", form.to_string().as_str())])) { "make a report of it" } "."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(query: &str) -> Given {
        Given::parse(Some(query)).unwrap()
    }

    #[test]
    fn keys_are_tags_fields_and_request_tags() {
        let keys = keys(&given("by=group,script_name,%2Benv,@status,group,")).unwrap();
        assert_eq!(keys, ["group", "script_name", "+env", "@status"]);
        let sources: Vec<String> = keys.iter().map(|key| key_source(key).to_string()).collect();
        assert_eq!(sources, ["@group", "script_name", "+env", "@status"]);
    }

    #[test]
    fn the_form_adds_to_the_address() {
        let given = added(given(
            "by=group&add=server&tag=group&value=<x>&script_name=",
        ));
        assert_eq!(
            given.with("/timers", &[]),
            "/timers?by=group%2Cserver&t.group=%3Cx%3E"
        );
        assert_eq!(
            narrowed(&given, "+env", "a&b"),
            "/timers?by=group%2Cserver&t.group=%3Cx%3E&tag.env=a%26b"
        );
    }

    #[test]
    fn rows_sort_by_any_column() {
        let row = |hits, value_us| TimerGroup {
            hits,
            value_us,
            ..TimerGroup::default()
        };
        let mut found = TimerGroups {
            rows: vec![row(1, 5), row(3, 1), row(1, 9)],
            ..TimerGroups::default()
        };
        sorted(&mut found, "hits", true);
        let order: Vec<u64> = found.rows.iter().map(|row| row.value_us).collect();
        assert_eq!(order, [1, 9, 5]);
        assert!(sort(&Given::parse(Some("sort=-nope")).unwrap()).is_err());
    }
}
