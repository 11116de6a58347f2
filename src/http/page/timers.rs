//! `/timers?by=TAG,...`: raw timers by any tags, without a report for them.
//!
//! Searches the newest requests in memory ([`Catalog::timer_groups`]), or the stored ones of a
//! span, so the answer says how far back it reaches; a report covers a whole window at no cost to
//! the reader, and the page offers to create it. `by` takes timer tags by name, `+request_tag`, and
//! request fields; a comma in a name is `\,`. `t.NAME=VALUE` keeps timers with that tag; the
//! conditions of the search for requests work here too.
//!
//! [`Catalog::timer_groups`]: crate::query::catalog::Catalog::timer_groups

use maud::{Markup, html};
use serde_json::{Value as Json, json};

use super::formatting::{self, Name, Scale, or_empty, read_empty, visible};
use super::frame::hidden_fields;
use super::ranking::remarks;
use super::render::View;
use super::requests::{received, search_of};
use super::table::{Head, Listing, conditions, table};
use super::time::{NAMES, Time};
use super::timer_groups::{self, GROUPS_MAX, SEARCHED_MAX, USUAL_TAG, as_key};
use crate::grammar::native::FilterForm;
use crate::http::answer::order::Sort;
use crate::http::error::Problem;
use crate::http::fleet;
use crate::http::params::{Params, as_list_item, list_items, pairs};
use crate::query::timer_groups::{HELD_BYTES_MAX, SlowTimer, TimerGroups, TimerSearch};
use crate::report::definition::{Field, Filter, KeySource, Pattern};
use crate::report::histogram::per_hit;

/// Most keys.
const KEYS_MAX: usize = 6;
/// Most bytes of one search: its rows, and for each timer a bucket of one histogram, on `/calls` of
/// two.
pub(super) const SUMS_BYTES: usize = HELD_BYTES_MAX + 2 * SEARCHED_MAX * 40;
/// Longest single timers shown.
const SLOWEST: usize = 10;
/// Parameters that are not conditions.
const VIEW: [&str; 4] = ["by", "sort", "limit", "offset"];

/// `GET /timers`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = added(view.form()?);
    let keys = keys(&params)?;
    let requests = search_of(view, &mut params)?;
    let mut tags = params.prefixed("t.NAME");
    tags.iter_mut().for_each(|(_, value)| read_empty(value));
    params.text("by");
    let listing = Listing::take(&mut params)?;
    params.finish()?;
    let search = TimerSearch {
        requests,
        tags,
        by: keys.iter().map(|key| key_source(key)).collect(),
        scanned_max: SEARCHED_MAX,
        groups_max: GROUPS_MAX,
        slowest_max: SLOWEST,
        per_request: false,
    };
    let groups = timer_groups::find(view, search)?;
    let main = html! {
        h1 { "Timers" }
        p { a href=(view.time.link("/calls", [])) { "Calls per request: which scripts repeat the same call too often" } }
        (form(&params, &keys, &groups, &view.time))
        div #timers data-live {
            (remarks(&groups.partial, &view.time))
            (rows(&params, &keys, &listing, &groups, &view.time)?)
            h2 { "Longest" }
            (slow_table(&groups, &view.time))
        }
        @if groups.from_report.is_none() { (make_report(&params, &keys, &view.time)) }
    };
    view.page("/timers", "Timers", &main)
}

/// Converts the form fields that add a key or condition to the parameters they mean.
fn added(mut params: Params) -> Params {
    if let Some(more) = params.get("add") {
        let by = format!("{},{more}", params.get("by").unwrap_or(USUAL_TAG));
        params = params.changed(&[("add", None), ("by", Some(&by))]);
    }
    params.with_added_tag("t.")
}

/// The parameters that are conditions.
pub(super) fn given_conditions(params: &Params) -> impl Iterator<Item = (&str, &str)> {
    let is_other =
        |name: &str| VIEW.contains(&name) || NAMES.contains(&name) || fleet::NAMES.contains(&name);
    params.iter().filter(move |(name, _)| !is_other(name))
}

fn keys(params: &Params) -> Result<Vec<String>, Problem> {
    let mut keys: Vec<String> = Vec::new();
    // Commas alone name no key.
    let by = params.get("by").filter(|by| by.bytes().any(|byte| byte != b','));
    for key in list_items(by.unwrap_or(USUAL_TAG)) {
        if !key.is_empty() && !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.len() > KEYS_MAX {
        let why = format!("{} keys are too many; accepted: {KEYS_MAX}", keys.len());
        return Err(Problem::parameter("by", why));
    }
    Ok(keys)
}

/// A bare name is a tag of the timer, unless a request field has that name; `@` makes it a tag in
/// any case.
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

fn form(params: &Params, keys: &[String], groups: &TimerGroups, time: &Time) -> Markup {
    let fields = ["script_name", "hostname", "server_name", "status"];
    let unused = |name: &str| !keys.iter().any(|key| key.trim_start_matches('@') == name);
    let without = |key: &String| {
        let rest = keys.iter().filter(|other| *other != key);
        let rest: Vec<String> = rest.map(|it| as_list_item(it)).collect();
        params.link("/timers", &[("by", Some(&rest.join(","))), ("sort", None)])
    };
    let hidden =
        |name: &str| !matches!(name, "add" | "sort" | "offset" | "script_name" | "min_time");
    html! {
        ul.conditions aria-label="Rows by" {
            li.plain { "by" }
            @for key in keys {
                li { (Name(key)) @if keys.len() > 1 { " " a href=(without(key)) aria-label={ "Not by " (visible(key)) } { "\u{d7}" } } }
            }
        }
        (conditions("Conditions", given_conditions(params), "/timers", params))
        form.filters method="get" action="/timers" {
            (hidden_fields(params.iter().filter(|(name, _)| hidden(name))))
            label { "Add "
                select name="add" {
                    option value="" { "a tag or field" }
                    optgroup label="Timer tags" {
                        @for name in groups.tag_names.iter().filter(|name| unused(name)) {
                            option value=(as_key(name)) { (visible(name)) }
                        }
                    }
                    optgroup label="Of the request" {
                        @for name in fields.iter().filter(|name| unused(name)) { option value=(name) { (name) } }
                    }
                }
            }
            label { "Tag " input name="tag" size="10" list="tags" autocomplete="off"; }
            label { "is " input name="value" size="14" autocomplete="off"; }
            datalist #tags { @for name in &groups.tag_names { option value=(name) {} } }
            label { "Script " input name="script_name" value=[params.get("script_name")] size="22" autocomplete="off"; }
            label { "Request time from, s " input name="min_time" value=[params.get("min_time")] size="6" inputmode="decimal" placeholder="0.5" autocomplete="off"; }
            button type="submit" { "Show" }
            a href=(time.link("/timers", [])) { "Reset" }
        }
    }
}

/// The timers that were searched, in words.
pub(super) fn searched(groups: &TimerGroups, time: &Time) -> String {
    let timers = formatting::counted(groups.timers_scanned, "timer");
    format!("{timers} of {}", timer_groups::searched(&groups.scanned, time))
}

fn rows(
    params: &Params,
    keys: &[String],
    listing: &Listing,
    groups: &TimerGroups,
    time: &Time,
) -> Result<Markup, Problem> {
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut ranking = timer_groups::ranking(groups, &names);
    // The sum of all others stands last in any order.
    let other = groups.rows.len();
    let usual = Sort::largest("time");
    let sort = listing.sort.as_ref().unwrap_or(&usual);
    let (rows, total) = ranking.choose(&|_, row| row < other, sort, listing.page())?;
    let mut cells = ranking.cells(&rows, &ranking.columns, sort, |row, key| {
        let value = groups.rows[row].keys[key].as_deref()?;
        Some(narrowed(params, &keys[key], value))
    });
    if groups.other.is_some() && listing.is_last(rows.len(), total) {
        cells.push(html! {
            th.key scope="row" { span.none { "(other)" } }
            @for _ in keys.iter().skip(1) { td.key {} }
            @for column in &ranking.columns { (ranking.cell(column, other)) }
        });
    }
    let mut heads = ranking.heads(&ranking.columns, Some((sort, "/timers", params)));
    for (head, key) in heads.iter_mut().zip(keys) {
        *head = Head::text(Name(key));
    }
    let fields = Field::ALL.map(Field::name);
    let known = groups.tag_names.iter().map(String::as_str).chain(fields);
    let lacks =
        |at: usize| groups.rows.iter().all(|row| row.keys.get(at).is_none_or(Option::is_none));
    let absent = (0..keys.len()).filter(|at| !groups.rows.is_empty() && lacks(*at));
    Ok(html! {
        @for at in absent { p.note { (timer_groups::absent(&keys[at], known.clone())) } }
        @let caption = match &groups.from_report {
            Some(report) => format!("counted by {}", visible(report)),
            None => searched(groups, time),
        };
        (table("Timers", caption, heads, cells, ""))
        (listing.pager(rows.len(), total, "/timers", params))
        @if groups.rows.is_empty() {
            p.note {
                @if groups.scanned.kept {
                    "No timer that was kept matches. " a href=(time.link("/timers", [])) { "All timers of that time" }
                } @else if groups.timers_scanned > 0 || time.spans.is_some() || given_conditions(params).next().is_some() {
                    "No timer in memory matches. " a href=(time.link("/timers", [])) { "All timers" }
                } @else {
                    "No timers in memory. PHP sends them with " code { "pinba_timer_start([\"group\" => \"mysql\"])" } " and "
                    code { "pinba_timer_stop()" } " around the code to measure."
                }
            }
        }
    })
}

/// The URL of the same page, restricted to this value.
fn narrowed(params: &Params, key: &str, value: &str) -> String {
    let name = match key_source(key) {
        KeySource::Field(field) => field.name().to_owned(),
        KeySource::RequestTag(tag) => format!("tag.{tag}"),
        KeySource::TimerTag(tag) | KeySource::TimerTagOrField(tag, _) => format!("t.{tag}"),
    };
    params.link("/timers", &[(&name, Some(&or_empty(value)))])
}

/// The longest single timers.
pub(super) fn slow_table(groups: &TimerGroups, time: &Time) -> Markup {
    let heads = [
        Head::text("Received").class("when"),
        Head::number("Per hit"),
        Head::number("Hits"),
        Head::text("Tags"),
        Head::text("Script"),
    ];
    let each_secs =
        |slow: &SlowTimer| per_hit(slow.timer.value_us, slow.timer.hit_count) as f64 / 1e6;
    let scale = Scale::of_secs(groups.slowest.iter().map(each_secs));
    let rows = groups.slowest.iter().map(|slow| {
        let hits = u64::from(slow.timer.hit_count.max(1));
        html! {
            (received(slow.request_id, slow.run, slow.timestamp.into(), time))
            td { (scale.text(each_secs(slow))) }
            td { (formatting::count(hits)) }
            td.key.text { (formatting::tags(pairs(&slow.timer.tags))) }
            td.key.script_name { (Name(&slow.script_name)) }
        }
    });
    let caption = html! { "Longest per hit among " (searched(groups, time)) };
    table("Longest timers", caption, heads, rows, "")
}

/// The form of a report with the same keys and conditions.
fn form_of(params: &Params, keys: &[String]) -> Json {
    let sources: Vec<String> = keys.iter().map(|key| key_source(key).to_string()).collect();
    let filters = params.iter().filter_map(|(name, value)| {
        if matches!(name, "min_time" | "max_time") {
            return Some(FilterForm::Text(format!("{name}={value}")));
        }
        let mut value = value.to_owned();
        read_empty(&mut value);
        let equals = Pattern::Equals(value);
        let filter = match (name.strip_prefix("t."), name.strip_prefix("tag.")) {
            (Some(tag), _) => Filter::TimerTag(tag.to_owned(), equals),
            (_, Some(tag)) => Filter::RequestTag(tag.to_owned(), equals),
            _ => Filter::Field(Field::named(name)?, equals),
        };
        Some(FilterForm::of(&filter))
    });
    json!({
        "level": "timer",
        "keys": sources,
        "filters": filters.collect::<Vec<_>>(),
        "percentiles": [95, 99],
    })
}

/// A link that creates a report of the same keys.
fn make_report(params: &Params, keys: &[String], time: &Time) -> Markup {
    let form = form_of(params, keys);
    html! {
        p.note {
            "This page scans raw timers on every load. A report counts them as packets come in, over its whole window: "
            a href=(time.link("/reports", [("form", form.to_string().as_str())]) + "#make-h") { "create a report with these keys" } "."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::timer_groups::TimerGroup;

    fn given(query: &str) -> Params {
        Params::of_form(Some(query)).unwrap()
    }

    #[test]
    fn keys_are_tags_fields_and_request_tags() {
        let keys = keys(&given("by=group,script_name,%2Benv,@status,group,")).unwrap();
        assert_eq!(keys, ["group", "script_name", "+env", "@status"]);
        let sources: Vec<String> = keys.iter().map(|key| key_source(key).to_string()).collect();
        assert_eq!(sources, ["@group", "script_name", "+env", "@status"]);
        assert_eq!(super::keys(&given("by=,,")).unwrap(), [USUAL_TAG]);
        for tag in ["a,b", "a", r"App\Db", r"a\,b", "status", "@x", "+y,z"] {
            let by = Params::from_pairs(vec![("by".into(), format!("{},c", as_key(tag)))]);
            let keys = super::keys(&by).unwrap();
            let sources: Vec<KeySource> = keys.iter().map(|key| key_source(key)).collect();
            assert_eq!(sources, [tag, "c"].map(|tag| KeySource::TimerTag(tag.to_owned())));
            // The link without the other key leads to the same.
            let form = form(&by, &keys, &TimerGroups::default(), &Time::default());
            let link = by.link("/timers", &[("by", Some(&as_key(tag))), ("sort", None)]);
            assert_has!(form.into_string() => format!("\"{link}\" aria-label=\"Not by c\""));
        }
    }

    #[test]
    fn the_form_adds_to_the_address() {
        let given = added(given("by=group&add=server&tag=group&value=<x>&script_name="));
        assert_eq!(given.link("/timers", &[]), "/timers?by=group%2Cserver&t.group=%3Cx%3E");
        assert_eq!(
            narrowed(&given, "+env", "a&b"),
            "/timers?by=group%2Cserver&t.group=%3Cx%3E&tag.env=a%26b"
        );
    }

    #[test]
    fn a_report_has_the_conditions_of_the_page() {
        let page =
            "by=group&t.group=%28empty%29&t.op=g*&tag.env=%5C%28empty%29&status=200&min_time=0.5";
        let form = form_of(&given(page), &["group".to_owned()]);
        let starred = json!({"key": "@op", "equals": "g*"});
        let filters = json!(["@group=", starred, "+env=(empty)", "status=200", "min_time=0.5"]);
        assert_eq!((&form["keys"], &form["filters"]), (&json!(["@group"]), &filters));
    }

    #[test]
    fn rows_sort_by_any_column() {
        let row = |hits: u64, value_us| TimerGroup {
            keys: vec![Some(hits.to_string())],
            hits,
            value_us,
            ..TimerGroup::default()
        };
        let groups = TimerGroups {
            rows: vec![row(1, 5), row(3, 1), row(1, 9)],
            other: Some(row(7, 7)),
            ..TimerGroups::default()
        };
        // A key named like a number is not one.
        let (keys, time) = (["hits".to_owned()], Time::default());
        let order = |sort: &str| {
            let mut params = given(&format!("sort={sort}&limit=10"));
            let listing = Listing::take(&mut params)?;
            let page = rows(&Params::default(), &keys, &listing, &groups, &time)?;
            let page = page.into_string();
            let cells = page.split("<td data-l=").skip(1).step_by(10);
            Ok::<_, Problem>(
                cells.map(|cell| cell.split(['<', '>']).nth(1).unwrap().to_owned()).collect(),
            )
        };
        let sorted: Vec<String> = order("-hits").unwrap();
        assert_eq!(sorted[..4], ["1 \u{b5}s", "9 \u{b5}s", "5 \u{b5}s", "7 \u{b5}s"]);
        assert!(order("-nope").is_err());
    }
}
