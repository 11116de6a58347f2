//! `/releases`: what ran, newest first, and what each release changed.

use maud::{Markup, html};

use super::formatting::{self, Name, Scale, count, named, number, percent, secs, visible};
use super::profile::requests_of;
use super::render::View;
use super::table::{Head, table};
use crate::http::error::Problem;
use crate::release::Release;
use crate::release::verdict::{FASTER, Finding, Verdict};
use crate::value::text::counted;

/// Verdicts shown in full.
const VERDICTS_MAX: usize = 5;

/// `GET /releases`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    view.form()?.finish()?;
    let (releases, tag) = (view.source.releases.all(), view.source.releases.tag());
    let numbers = ["Share", "Requests", "Req/s", "Errors", "p50", "p95", "CPU", "Memory"];
    let mut heads = Head::list(&["Release", "First seen", "Last seen"], &numbers);
    heads.push(Head::text("Verdict"));
    let times: [fn(&Release) -> Option<f64>; 3] = [|it| it.p50, |it| it.p95, |it| it.cpu];
    let times = times.map(|of| (of, Scale::of_secs(releases.iter().filter_map(of))));
    let bytes = Scale::of_bytes(releases.iter().filter_map(|it| it.memory));
    let rows = releases.iter().map(|it| {
        let times = times.map(|(of, scale)| of(it).map(|secs| scale.text(secs)));
        row(view, it, times, it.memory.map(|memory| bytes.text(memory)))
    });
    let caption = html! {
        @if let Some(tag) = &tag { "By the request tag " (visible(tag)) "; share" } @else { "Share" }
        " and requests per second from the first request to the last, CPU and memory of a request on average, times in " (view.time.zone())
    };
    let judged = releases.iter().filter(|it| it.verdict.is_some());
    let main = html! {
        h1 { "Releases" }
        @if tag.is_none() {
            p.note { "No request names its release: set one of the request tags of " code { "releases.tag" } ", such as " code { "pinba_tag_set('release', '2.4.1')" } "." }
        }
        div #releases data-live {
            (table("Releases", caption, heads, rows, "No release has 20 requests yet."))
            @for it in judged.take(VERDICTS_MAX) { @if let Some(verdict) = &it.verdict { (details(view, it, verdict)) } }
        }
    };
    view.page("/releases", "Releases", &main)
}

/// Renders the last verdict for the overview, in one line, or after a rollback what is running;
/// nothing if there is neither.
pub(super) fn in_short(view: &View<'_>) -> Markup {
    let releases = view.source.releases.all();
    let back = releases.iter().find_map(|it| Some((it, it.back_since()?)));
    if let Some((release, since)) = back {
        return html! { p.note { a href=(view.time.link("/releases", [])) { "Release " (visible(&release.release)) } " again since " (view.time.moment(since)) } };
    }
    let last = releases.iter().find_map(|it| Some((it, it.verdict.as_ref()?)));
    html! {
        @if let Some((release, verdict)) = last {
            p class=(if verdict.is_bad() { "problem" } else { "note" }) {
                a href=(view.time.link("/releases", [])) { "Release " (visible(&release.release)) }
                " since " (view.time.moment(release.first_seen)) ": " (verdict.text)
            }
        }
    }
}

/// Renders the result of a verdict in a word.
fn result(it: &Verdict) -> Markup {
    let good = (it.result == FASTER).then_some("good");
    html! { span class=[it.is_bad().then_some("bad").or(good)] { (it.result) } }
}

fn row(
    view: &View<'_>,
    it: &Release,
    times: [Option<String>; 3],
    memory: Option<String>,
) -> Markup {
    html! {
        th.key scope="row" { (Name(&it.release))
            @if it.running_since.is_some() { " " small { "running" @if let Some(since) = it.back_since() { " again since " (view.time.moment(since)) } } }
        }
        td.key { (view.time.moment(it.first_seen)) } td.key { (view.time.moment(it.last_seen)) }
        td { (percent(it.share * 100.0)) } td { (count(it.requests)) }
        td { (number(it.requests_per_second)) } td { (count(it.errors)) }
        @for number in times.into_iter().chain([memory]) { td { (number.unwrap_or_default()) } }
        td.key { @if let Some(verdict) = &it.verdict { (result(verdict)) } }
    }
}

/// Renders a verdict in full.
fn details(view: &View<'_>, release: &Release, verdict: &Verdict) -> Markup {
    let heads = Head::list(&["Script", "Is"], &["Before", "After", "Change", "Chance"]);
    let rows = verdict.findings.iter().map(|it| finding(view, it));
    let span = formatting::roughly(verdict.seconds as f64);
    let caption = "Typical times are geometric means; chance is how often a difference as large comes about without a change";
    html! {
        h2 { (visible(&release.release)) " after " (visible(&verdict.against)) ": " (result(verdict)) }
        p.note {
            (verdict.text) ". " (counted(verdict.tests as u64, "test")) " over " (span) ", made at " (view.time.moment(verdict.at)) "."
            @if let Some(times) = verdict.same_mix {
                " Over the same mix of scripts, which p50 and p95 of the table are not, a request took " (before_and_after(times)) " on average"
                @for (name, times) in [("p50", verdict.same_mix_p50), ("p95", verdict.same_mix_p95)] {
                    @if let Some(times) = times { "; " (name) " " (before_and_after(times)) }
                }
                "."
            }
        }
        @if !verdict.findings.is_empty() { (table("Differences", caption, heads, rows, "")) }
        (scripts("New scripts", &verdict.new, |script| requests_of(view, script, None)))
        (scripts("Gone scripts", &verdict.gone, |script| requests_of(view, script, None)))
    }
}

fn before_and_after([before, after]: [f64; 2]) -> String {
    format!("{} before and {} after", secs(before), secs(after))
}

fn finding(view: &View<'_>, it: &Finding) -> Markup {
    let [before, after] = it.values();
    let class = if it.is_good() { "good" } else { "bad" };
    html! {
        th.key scope="row" {
            @match &it.script {
                Some(script) => a href=(requests_of(view, script, None)) { (Name(script)) },
                None => "all scripts",
            }
        }
        td.key { span class=(class) { (it.what) } }
        td { (before) } td { (after) }
        td { (formatting::change(it.change())) }
        td { @if it.p < 0.0001 { "<0.0001" } @else { (number(it.p)) } }
    }
}

fn scripts(title: &str, names: &[String], address: impl Fn(&str) -> String) -> Markup {
    html! {
        @if !names.is_empty() {
            p.note { (title) ": "
                @for (at, name) in names.iter().enumerate() { @if at > 0 { ", " } a href=(address(name)) { (named(name)) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_without_a_name_has_a_link_that_can_be_seen() {
        let names = ["/a".to_owned(), String::new()];
        let page = scripts("New scripts", &names, |name| format!("/row?{name}")).into_string();
        assert_has!(page => ">/a</a>, <a href=\"/row?\">(empty)</a>");
    }
}
