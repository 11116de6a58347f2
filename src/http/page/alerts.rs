//! `/alerts`: what fires, what is about to, what is over since a quarter of an hour; rules, silences, and who is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use maud::{Markup, html};

use super::formatting::{count, visible};
use super::history::{Counted, History};
use super::render::View;
use super::table::{Head, table};
use crate::alert::rule::{Rule, shown};
use crate::alert::state::Phase;
use crate::alert::{Alert, Alerts};
use crate::http::error::Problem;
use crate::report::definition::Level;

/// Alerts with a chart: what fires comes first.
const CHARTS_MAX: usize = 12;

/// `GET /alerts`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    view.form()?.finish()?;
    let alerts = &view.app.settings.alerts;
    let now = alerts.view();
    let heads = ["State", "Since", "Alert", "Severity", "Row"].map(Head::text);
    let heads = heads.into_iter().chain([
        Head::number("Value"),
        Head::text("Is compared with"),
        Head::hidden("Remarks"),
    ]);
    let heads: Vec<Head> = heads.collect();
    let rows: Vec<Markup> = now.alerts.iter().map(|it| row(view, it)).collect();
    let charts = now.alerts.iter().enumerate();
    let charts = charts.filter_map(|(at, alert)| chart(view, at, alert));
    let charts = charts.take(CHARTS_MAX);
    let firing = now
        .alerts
        .iter()
        .filter(|it| it.episode.phase == Phase::Firing)
        .count();
    let caption = html! { (firing) " firing, " (rows.len() - firing) " pending or over since a quarter of an hour" };
    let main = html! {
        h1 { "Alerts" }
        @if now.rules.is_empty() {
            p.note { "There are no rules: an [[alert]] of the configuration is one." }
        }
        div #alerts data-live {
            (table("Alerts", &caption, &heads, &rows, "Nothing fires."))
            @if now.more > 0 { p.note { (count(now.more as u64)) " further rows are one alert: a rule has up to 100." } }
        }
        div.charts.four.many #alert-charts data-live { @for chart in charts { (chart) } }
        (rules(&now.rules))
        (silences(view, alerts))
        (receivers(alerts))
    };
    view.page("/alerts", "Alerts", &main)
}

/// The last hour of an alert's row, in the chart that has what its rule looks at.
fn chart(view: &View<'_>, at: usize, alert: &Alert) -> Option<Markup> {
    alert.key.as_ref()?;
    let rule = &alert.rule;
    let keys = alert.key_texts();
    let keys = keys.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let keys: Vec<(String, String)> = keys.collect();
    let counted = match rule.report.level {
        Level::Timer => Counted::Timers,
        Level::Packet | Level::Request => Counted::Requests,
    };
    let history = History::of_row(view, &rule.entry.report, &keys, counted, None)?;
    let title = format!("{}: {}", visible(&rule.entry.name), row_name(alert));
    history.figure(&format!("alert-{at}"), rule.chart(), &title)
}

fn row_name(alert: &Alert) -> String {
    let texts = alert.key_texts().map(|(_, text)| visible(text));
    match &alert.key {
        None => "further rows".to_owned(),
        Some(key) if key.is_empty() => "all requests".to_owned(),
        Some(_) => texts.collect::<Vec<_>>().join(", "),
    }
}

fn row(view: &View<'_>, alert: &Alert) -> Markup {
    let (episode, entry, row) = (&alert.episode, &alert.rule.entry, row_name(alert));
    let path = alert.link.strip_prefix(view.app.settings.alerts.page());
    let class = (episode.phase == Phase::Firing && alert.silenced_by.is_none()).then_some("bad");
    html! {
        th.key scope="row" { span class=[class] { (episode.phase.name()) } }
        td.key { (view.time.moment(episode.since)) }
        td.key { (visible(&entry.name)) }
        td.key { (visible(&entry.severity)) }
        td.key.text { a href=(path.unwrap_or_default()) { (row) } }
        td { (episode.value.map(shown).unwrap_or_default()) }
        td.key { (visible(&alert.rule.threshold())) }
        td.key.text {
            @if let Some(id) = alert.silenced_by { "silenced by " (id) }
            @if episode.ended > 0 { " over at " (view.time.moment(episode.ended)) " " (episode.reason) }
        }
    }
}

fn rules(rules: &[(Arc<Rule>, usize)]) -> Markup {
    let heads = [Head::text("Rule"), Head::number("Rows now")];
    let row = |(rule, rows): &(Arc<Rule>, usize)| {
        html! { th.key.text scope="row" { (visible(&rule.words())) } td { (count(*rows as u64)) } }
    };
    let rows: Vec<Markup> = rules.iter().map(row).collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Rules" }
            (table("Rules", &html! { "As they are in force" }, &heads, &rows, ""))
        }
    }
}

fn silences(view: &View<'_>, alerts: &Alerts) -> Markup {
    let heads = ["Silence", "Of alerts with", "Until", "Why", "By"].map(Head::text);
    let silences = alerts.silences(view.source.unix_ms() / 1_000);
    let rows = silences.iter().map(|it| {
        let labels = it
            .matchers
            .iter()
            .map(|(name, text)| format!("{name}={text}"));
        let labels: Vec<String> = labels.collect();
        html! {
            th.key scope="row" { (it.id) }
            td.key.text { (visible(&labels.join(" "))) }
            td.key { (view.time.moment(it.ends)) }
            td.key.text { (visible(&it.reason)) }
            td.key { (visible(it.author.as_deref().unwrap_or_default())) }
        }
    });
    let rows: Vec<Markup> = rows.collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Silences" }
            (table("Silences", &html! { "pinbad alert silence makes one, and --end ends it" }, &heads, &rows, ""))
        }
    }
}

fn receivers(alerts: &Alerts) -> Markup {
    let heads = [
        Head::text("Who is told"),
        Head::number("Taken"),
        Head::number("Refused"),
        Head::number("Failed attempts"),
    ];
    let rows = alerts.receivers().iter().map(|it| {
        let number = |number: &AtomicU64| count(number.load(Ordering::Relaxed));
        html! {
            th.key.text scope="row" { (visible(&it.url)) }
            td { (number(&it.sent)) } td { (number(&it.refused)) } td { (number(&it.failed)) }
        }
    });
    let rows: Vec<Markup> = rows.collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Receivers" }
            (table("Receivers", &html! { "Since the start" }, &heads, &rows, ""))
        }
    }
}
