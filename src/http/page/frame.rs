//! The parts common to all pages: head, skip link, navigation, the switches for light and live, the
//! footer.
//!
//! Parts that change by the second are marked with `data-live` and an id; the script swaps those
//! and leaves the rest, so that focus and scroll position stay. Without the script a reload shows
//! the same page.

use axum::http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use super::time::Time;
use super::{assets, formatting};
use crate::query::answer::ReportAnswer;
use crate::query::catalog::Catalog;
use crate::value::text;

/// The parts of the site, for the navigation.
pub(super) const SECTIONS: [(&str, &str); 9] = [
    ("/", "Overview"),
    ("/reports", "Reports"),
    ("/requests", "Requests"),
    ("/timers", "Timers"),
    ("/squid", "Squid"),
    ("/profile", "Profile"),
    ("/alerts", "Alerts"),
    ("/releases", "Releases"),
    ("/daemon", "Daemon"),
];

/// A document with this title, further elements for its head, and its body. `title` may contain
/// names from packets, made visible before.
fn document(title: &str, head: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " \u{b7} pinbad" }
                (head)
            }
            body { (body) }
        }
    }
}

/// A whole page of the section with this URL. `past`: after how many seconds its parts are read
/// again if it is about the past, 0 for never. `control` selects its time; `absent` lists sections
/// without data, which the navigation leaves out.
pub(super) fn page(
    time: &Time,
    past: Option<u64>,
    control: &Markup,
    section: &str,
    title: &str,
    main: &Markup,
    absent: &[&str],
) -> Markup {
    let sections = SECTIONS.into_iter().filter(|(path, _)| !absent.contains(path));
    let [style, script, icon] = assets::paths();
    let head = html! {
        link rel="icon" type="image/svg+xml" href=(icon);
        link rel="stylesheet" href=(style);
        script src=(script) {}
    };
    let body = html! {
        a.skip href="#main" { "Skip to the content" }
        header.top {
            a.brand href=(time.link("/", [])) { "pinbad" }
            nav aria-label="Pages" {
                @for (path, name) in sections {
                    a href=(time.link(path, [])) aria-current=[(path == section).then_some("page")] { (name) }
                }
            }
            div.switches {
                span #tick {}
                button #live type="button" hidden { "Pause" }
                button #theme type="button" hidden { "Light or dark" }
            }
        }
        (control)
        main #main tabindex="-1" data-past=[past] { (main) }
        footer {
            "pinbad " (env!("CARGO_PKG_VERSION"))
            " \u{b7} " a href="/api/v1/openapi.json" { "API" }
            " \u{b7} " a href="/api/v1/status" { "counters" }
        }
    };
    document(title, &head, &body)
}

/// An error page; `other` is the URL of a page to see instead, and its name. `around` is the
/// control and the absent sections of [`page`]; `None`: nothing but the message, for a client that
/// may see nothing else.
pub(super) fn problem(
    status: StatusCode,
    detail: &str,
    other: Option<(String, &str)>,
    around: Option<(&Markup, &[&str])>,
) -> Markup {
    let log_in = status == StatusCode::UNAUTHORIZED;
    let title = match status.canonical_reason() {
        _ if log_in => "Log in",
        _ if status == StatusCode::NOT_FOUND => "Nothing to show",
        reason => reason.unwrap_or("Error"),
    };
    let main = html! {
        h1 { (title) }
        p.problem { (formatting::visible(&sentence(detail))) }
        @if log_in {
            p { "Reload this page, and your browser will ask for the name and password of a user of this daemon." }
        }
        @if let Some((address, name)) = other { p { a href=(address) { (name) } } }
        @if around.is_some() { p { a href="/" { "Back to the overview" } } }
    };
    if let Some((control, absent)) = around {
        return page(&Time::default(), None, control, "", title, &main, absent);
    }
    let head = html! { meta name="color-scheme" content="light dark"; };
    document(title, &head, &html! { main { (main) } })
}

/// A text of the API as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    // Names stay as they are: "from: is not before to".
    let begins = text
        .split_once(' ')
        .is_some_and(|(word, _)| word.bytes().all(|byte| byte.is_ascii_lowercase()));
    let begin = letters.next().filter(|_| begins);
    let begin = begin.map(|letter| letter.to_ascii_uppercase().to_string() + letters.as_str());
    let mut sentence = begin.unwrap_or_else(|| text.to_owned());
    if !sentence.ends_with(['.', '?', '!']) {
        sentence.push('.');
    }
    sentence
}

/// The links above a heading, and the current place.
pub(super) fn crumbs(links: &[(&str, &str)], here: &str) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumbs" {
            @for (path, name) in links { a href=(path) { (name) } " / " }
            span { (here) }
        }
    }
}

/// Links to other views of the same page. `choices`: URL, text, whether it is the current one.
pub(super) fn views(label: &str, lead: &str, choices: &[(String, Markup, bool)]) -> Markup {
    html! {
        nav.views aria-label=(label) {
            @if !lead.is_empty() { span { (lead) } }
            @for (address, text, is_this) in choices {
                a href=(address) aria-current=[is_this.then_some("true")] { (text) }
            }
        }
    }
}

/// Parameters that a form passes on.
pub(super) fn hidden_fields<'a>(params: impl Iterator<Item = (&'a str, &'a str)>) -> Markup {
    html! { @for (name, value) in params { input type="hidden" name=(name) value=(value); } }
}

/// The part of its window that a live table covers, in words.
pub(super) fn last(source: &Catalog, answer: &ReportAnswer) -> String {
    text::last(source.covered_secs(answer), answer.window_seconds as u64)
}

/// The time span of the data of a live table, in words; empty for a table without one. Rates are
/// over it, as in Pinba's tables.
pub(super) fn span_of(source: &Catalog, name: &str, answer: &ReportAnswer) -> String {
    if answer.window_seconds == 0.0 {
        return String::new();
    }
    let covered = answer.covered_seconds;
    let window = formatting::lasting(answer.window_seconds as u64);
    let now = answer.as_of_ms / 1_000;
    let [filled, lost] = source.refilled_in(name).unwrap_or_default();
    if !lost.is_empty() && covered > now.saturating_sub(lost.end) {
        // It has data from both before and after.
        return format!("counted for {} of the {window} window", formatting::lasting(covered));
    }
    let mut about = last(source, answer);
    if about != format!("last {window}") {
        about += &match filled.contains(&now.saturating_sub(covered)) {
            _ if covered == 0 => ", since the start".to_owned(),
            true => format!(", since the first minute from history in the {window} window"),
            false => format!(", since the first request of the {window} window"),
        };
    }
    // Both are rounded down.
    if covered > source.up_secs() + 1 {
        about += ", with the time that pinbad was down, which rates are over too";
    }
    about
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::harness::catalog;
    use crate::query::question::ReportQuestion;

    #[test]
    fn a_window_without_data_begins_with_the_start_and_one_second_of_data_is_one() {
        // The last request comes 17 s after the others.
        for (requests, name, about) in [
            (0, "info", "last 1 s, since the start"),
            (0, "r", "last 1 s, since the start"),
            (1, "info", "last 1 s, since the first request of the 15 min window"),
            (1, "r", "last 1 s, since the first request of the 15 min window"),
            (
                2,
                "info",
                "last 17 s, since the first request of the 15 min window, with the time that pinbad was down, \
                 which rates are over too",
            ),
        ] {
            let source = catalog(requests);
            let answer = source.report(name, &ReportQuestion::default()).unwrap();
            assert_eq!(span_of(&source, name, &answer), about, "{name} of {requests}");
        }
    }
}
