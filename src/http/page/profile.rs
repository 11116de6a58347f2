//! `/profile`: which functions of which scripts are running, by samples of PHP's stat extension.
//!
//! An icicle of the samples: for PHP code its script, function and line; for a built-in function
//! its script, caller and function. A sample has no deeper stack, and the page says so. Each box
//! links to the same page with its keys as conditions (`(empty)` is a key that a sample does not
//! have), and `q` marks names that contain a text, so zoom and search need no script.
//! `format=folded` returns the same for tools that draw flame graphs: frames separated by
//! semicolons, and the number of samples.

use std::borrow::Cow;

use maud::{Markup, PreEscaped, html};
use serde_json::{Map, Value as Json};

use super::formatting::{self, or_empty, read_empty, visible};
use super::ranking::Ranking;
use super::render::View;
use super::table::{conditions, table};
use crate::http::api::profile::{Node, STACK_KEYS, Tree, shown};
use crate::http::api::search::sample_conditions;
use crate::http::error::Problem;
use crate::http::params::{Params, owned, pairs};
use crate::profile::definition::SampleKey::{self, Caller, File, Function, Line, Scope};
use crate::query::answer::ReportAnswer;
use crate::report::definition::Pattern;
use crate::value::text::cut;

/// Rows of a table.
const ROWS: usize = 25;

/// The width of the icicle, and the height of one of its layers.
const WIDTH: f64 = 1000.0;
const LAYER: f64 = 22.0;

/// Narrowest box that is drawn, and narrowest with a name.
const NARROW: f64 = 1.0;
const NAMED: f64 = 24.0;

/// Width of a character.
const CHARACTER: f64 = 6.6;

/// The first fields of the form; the other keys are below.
const ASKED: [SampleKey; 3] = [SampleKey::Script, Scope, Function];

/// A table below the icicle.
struct Listed {
    title: &'static str,
    /// The type of samples that have its keys; any if empty.
    of_type: &'static str,
    /// Which samples these are, and the others.
    words: [&'static str; 2],
    keys: &'static [SampleKey],
}

/// They count what `profile_functions`, `profile_callers` and `profile_lines` do.
const TABLES: [Listed; 3] = [
    Listed {
        title: "Functions",
        of_type: "",
        words: ["with something running", ""],
        keys: &[Function, Scope, File],
    },
    Listed {
        title: "Callers of functions",
        of_type: "internal",
        words: ["in PHP\u{2019}s own functions", "in PHP code or idle"],
        keys: &[Function, Caller],
    },
    Listed {
        title: "Lines",
        of_type: "user",
        words: ["in PHP code", "in PHP\u{2019}s own functions or idle"],
        keys: &[File, Line],
    },
];

/// `GET /profile`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.form()?;
    let is_folded = params.word("format", &["html", "folded"])? == "folded";
    let search = params.text("q");
    let filters = read_conditions(&mut params);
    params.finish()?;
    let Some(boxes) = view.source.samples(&STACK_KEYS, &filters)? else {
        let main = html! {
            h1 { "Profile" }
            p.note { "Samples of PHP's stat extension show which function is running. None are taken: the configuration does not say where they come from, as in" }
            pre { "[[stat]]\nstream = \"unix:///run/php/zend.stat.stream\"" }
        };
        return view.page("/profile", "Profile", &main);
    };
    let tree = Tree::of(&boxes);
    if is_folded {
        return Ok(PreEscaped(tree.folded()));
    }
    let given = |key: SampleKey| params.get(key.name());
    let meant = |key: SampleKey| match filters.iter().find(|(known, _)| *known == key) {
        Some((_, Pattern::Equals(text))) => Some(text.as_str()),
        _ => None,
    };
    let title = given(SampleKey::Script)
        .map_or("Profile".to_owned(), |script| format!("Profile of {}", visible(script)));
    let shown = params.iter().filter(|(name, _)| SampleKey::named(name).is_some());
    let main = html! {
        h1 { (title) }
        (view.time.only_now())
        form.filters method="get" action="/profile" role="search" {
            @for key in ASKED { (field(key, given(key))) }
            label { "Mark " input type="search" name="q" value=[search.as_deref()] size="16"; }
            button type="submit" { "Show" }
            @let others = SampleKey::ALL.into_iter().filter(|key| !ASKED.contains(key));
            details open[others.clone().any(|key| given(key).is_some())] {
                summary { "More conditions" }
                div.filters { @for key in others { (field(key, given(key))) } }
            }
            @if let Some(script) = meant(SampleKey::Script).filter(|script| !script.is_empty()) { a href=(requests_of(view, script, meant(SampleKey::Host))) { "Its requests" } }
            a href=(params.link("/profile", &[("format", Some("folded"))])) { "Folded, for flame graphs" }
        }
        (conditions("Samples with", shown, "/profile", &params))
        div #profile data-live {
            @let status = view.source.status();
            @for problem in unconnected(&status, false) { p.problem { (visible(&problem)) } }
            @for absent in unconnected(&status, true) { p.note { (visible(&absent)) } }
            p.over { (formatting::count(tree.root.samples)) " samples with something running"
                @if tree.idle > 0 { ", " (formatting::count(tree.idle)) " idle" }
                " in the " (super::frame::span_of(view.source, "", &boxes)) }
            @if tree.root.samples > 0 {
                div.wide tabindex="0" role="region" aria-label="Samples as boxes" { (drawn(&tree, &params, search.as_deref())) }
                p.note { "Top to bottom: script, function, line of PHP code; script, caller, function of PHP\u{2019}s own (in the other colour). \
                          A sample has no deeper stack than that. With the JIT a line may be an older one." }
            }
            @for listed in &TABLES {
                @let wanted = (SampleKey::Type, Pattern::Equals(listed.of_type.to_owned()));
                @let wanted = (!listed.of_type.is_empty()).then_some(wanted);
                @let filters: Vec<_> = filters.iter().cloned().chain(wanted).collect();
                @if let Some(answer) = view.source.samples(listed.keys, &filters)? {
                    h2 { (listed.title) } (rows(listed, answer, tree.root.samples + tree.idle, &params)?)
                }
            }
        }
    };
    view.page("/profile", &title, &main)
}

/// Parses the conditions of the page, on which `(empty)` is the empty text.
fn read_conditions(params: &mut Params) -> Vec<(SampleKey, Pattern)> {
    let mut conditions = sample_conditions(params);
    for (_, wanted) in &mut conditions {
        if let Pattern::Equals(text) = wanted {
            read_empty(text);
        }
    }
    conditions
}

/// The parameters narrowed to the samples with these keys.
fn narrowed<K: AsRef<str>>(params: &Params, keys: &[(K, String)]) -> Params {
    let given: Vec<_> = keys.iter().map(|(key, value)| (key.as_ref(), or_empty(value))).collect();
    let changes = given.iter().map(|(key, value)| (*key, Some(&**value)));
    params.changed(&changes.collect::<Vec<_>>())
}

/// The URL of the samples with these keys.
pub(super) fn samples_of<K: AsRef<str>>(view: &View<'_>, keys: &[(K, String)]) -> String {
    view.time.link("/profile", narrowed(&Params::default(), keys).iter())
}

/// The sources that send no samples, each with its reason: those whose socket is `absent`, which is
/// no ill health, or the others.
pub(super) fn unconnected(
    status: &Map<String, Json>,
    absent: bool,
) -> impl Iterator<Item = String> {
    let sources = status.get("stats").and_then(Json::as_array).into_iter().flatten();
    sources.filter(move |source| (source["absent"] == true) == absent).filter_map(|source| {
        let text = |name: &str| source[name].as_str();
        Some(format!("No samples come from {}: {}", text("stream")?, text("problem")?))
    })
}

/// A condition in the form.
fn field(key: SampleKey, given: Option<&str>) -> Markup {
    let size =
        if key.is_number() || matches!(key, SampleKey::Type | SampleKey::Method) { 8 } else { 20 };
    html! { label { span.capital { (key.name()) } " " input type="search" name=(key.name()) value=[given] size=(size); } }
}

/// The URL of the requests of a script, perhaps on one host.
pub(super) fn requests_of(view: &View<'_>, script: &str, host: Option<&str>) -> String {
    let report = match host {
        None => "report_by_script_name",
        Some(_) => "report_by_hostname_and_script",
    };
    let host = host.map(|host| ("hostname", host)).into_iter();
    view.time.row_link(report, "row", host.chain([("script_name", script)]), None)
}

/// The URL of the profile for a row of requests, by script and host, if samples are kept.
pub(super) fn link_to(view: &View<'_>, keys: &[(String, String)]) -> Option<String> {
    let is_now = view.time.spans.is_none() && view.source.has_samples();
    let named = pairs(keys).filter_map(|(key, value)| match key {
        "script_name" => Some(("script", value)),
        "hostname" => Some(("host", value)),
        _ => None,
    });
    let has_script = keys.iter().any(|(key, _)| key == "script_name");
    (is_now && has_script).then(|| samples_of(view, &named.map(owned).collect::<Vec<_>>()))
}

/// The rows of a report with the most samples; each links to the same page with its keys as
/// conditions. `all`: samples of the page.
fn rows(
    Listed { title, of_type, words: [which, rest], .. }: &Listed,
    answer: ReportAnswer,
    all: u64,
    params: &Params,
) -> Result<Markup, Problem> {
    let mut ranking = Ranking::sampled(answer);
    let sort = ranking.sort();
    let (rows, total) = ranking.choose(&|_, _| true, &sort, (0, ROWS))?;
    let of_type = (!of_type.is_empty()).then(|| owned(("type", *of_type)));
    let link = |row| {
        let keys: Vec<_> = ranking.row_keys(row).into_iter().chain(of_type.clone()).collect();
        narrowed(params, &keys).link("/profile", &[])
    };
    let cells = ranking.cells(&rows, &ranking.columns, &sort, |row, _| Some(link(row)));
    let (samples, share) = (ranking.numbers("samples"), ranking.numbers("samples_percent"));
    let counted = (0..ranking.table().len()).filter(|row| share(*row).is_some());
    let counted: f64 = counted.filter_map(samples).sum();
    let others = all.saturating_sub(counted as u64);
    let caption = html! {
        (formatting::counted(total as u64, "row")) "; shares are of the " (formatting::count(counted as u64)) " samples " (which)
        @if !rest.is_empty() && others > 0 { "; the other " (formatting::count(others)) " are " (rest) }
    };
    Ok(table(title, caption, ranking.heads(&ranking.columns, None), cells, "No samples."))
}

/// Draws the tree; boxes whose names contain `search` are marked.
fn drawn(tree: &Tree, params: &Params, search: Option<&str>) -> Markup {
    let all = tree.root.samples.max(1) as f64;
    let lower = search.map(str::to_lowercase);
    html! {
        svg.icicle viewBox={ "0 0 " (WIDTH) " " (3.0 * LAYER) } role="group" aria-label="Samples by script, function and line" {
            (draw(&tree.root, (0.0, 0.0), all, params, lower.as_deref()))
        }
    }
}

/// As much of a name as there is room for.
fn short(name: &str, width: f64) -> Cow<'_, str> {
    cut(name, (((width - 6.0) / CHARACTER) as usize).max(1))
}

/// Draws the nodes below one from (`x`, `y`) on, each with those below it. `all`: samples in the
/// tree.
fn draw(
    node: &Node,
    (mut x, y): (f64, f64),
    all: f64,
    params: &Params,
    search: Option<&str>,
) -> Markup {
    let mut below: Vec<_> = node.below.iter().collect();
    below.sort_by_key(|(_, child)| std::cmp::Reverse(child.samples));
    let boxes = below.into_iter().map(|(frame, child)| {
        let (start, width) = (x, child.samples as f64 * (WIDTH / all));
        x += width;
        (start, width, shown(&frame.name), frame, child)
    });
    let is_marked = |name: &str| search.is_some_and(|it| name.to_lowercase().contains(it));
    html! {
        @for (x, width, name, frame, child) in boxes.filter(|(_, width, ..)| *width >= NARROW) {
            @let params = narrowed(params, &frame.keys);
            a href=(params.link("/profile", &[])) class=[is_marked(name).then_some("marked")] {
                rect class=(if frame.is_internal { "own" } else { "code" }) x=(x) y=(y) width=(width) height=(LAYER - 1.0) {}
                @if width >= NAMED {
                    text x=(x + 3.0) y=(y + 15.0) { (short(&visible(name), width)) }
                }
                title { (visible(name)) ": " (formatting::count(child.samples)) " samples, "
                    (format!("{:.1}", 100.0 * child.samples as f64 / all)) " %" }
            }
            (draw(child, (x, y + LAYER), all, &params, search))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_to_their_box() {
        assert_eq!(short("abc", 100.0), "abc");
        assert_eq!(short("abcdefghij", 40.0), "abcd\u{2026}");
        assert_eq!(short("xy", 1.0), "\u{2026}");
    }

    #[test]
    fn conditions_of_a_link_are_read_as_they_were_written() {
        let keys = ["", "(empty)", "\\(empty)", "total"].map(str::to_owned);
        let names = [SampleKey::Scope, SampleKey::File, SampleKey::Caller, SampleKey::Function];
        let keys: Vec<(&str, String)> = names.map(SampleKey::name).into_iter().zip(keys).collect();
        let params = Params::parse(Some("scope=Cart&q=x&offset=50")).unwrap();
        let link = narrowed(&params, &keys).link("/profile", &[]);
        let (_, query) = link.split_once('?').unwrap();
        let mut params = Params::of_form(Some(query)).unwrap();
        assert_eq!(params.text("q").as_deref(), Some("x"));
        let read = read_conditions(&mut params);
        params.finish().unwrap();
        assert_eq!(read.len(), keys.len());
        for (name, text) in names.into_iter().zip(keys) {
            assert!(read.contains(&(name, Pattern::Equals(text.1.clone()))), "{text:?} of {link}");
        }
    }
}
