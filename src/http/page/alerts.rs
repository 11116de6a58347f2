//! `/alerts`: firing, pending and recently resolved (15 minutes) alerts, rules, silences and
//! receivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use maud::{Markup, html};

use super::chart::{Chart, Line};
use super::columns::Show;
use super::formatting::{self, Name, UNKNOWN, count, lasting, named, number, visible};
use super::history::{Counted, History};
use super::render::View;
use super::table::{Head, section, table};
use crate::alert::rule::{Rule, budget};
use crate::alert::state::Phase;
use crate::alert::{self, Alert, Alerts, BURN_WINDOWS, ObjectiveView};
use crate::http::error::Problem;
use crate::http::params::owned;
use crate::report::definition::Level;
use crate::report::key_names;
use crate::value::text::cut_name;

/// Maximum number of points in a budget's chart.
const COURSE_POINTS: usize = 360;
/// Maximum number of alerts, and of objectives, with a chart; firing ones come first.
const CHARTS_MAX: usize = 12;
/// Maximum width of a name in a heading, in characters of usual width.
const NAME_COLUMNS: usize = 60;

/// `GET /alerts`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    view.form()?.finish()?;
    let alerts = &view.app.settings.alerts;
    let now = alerts.view();
    let mut heads = Head::list(&["State", "Since", "Alert", "Severity", "Row"], &["Last value"]);
    heads[1] = Head::text("Since").hint("When the condition began to hold");
    heads.extend([Head::text("Condition"), Head::text("Remarks")]);
    let rows = now.alerts.iter().map(|it| row(view, it));
    let charts = now.alerts.iter().enumerate().filter_map(|(at, alert)| chart(view, at, alert));
    let charts = charts.take(CHARTS_MAX);
    let is_firing = |it: &&Alert| it.episode.phase == Phase::Firing;
    let is_silenced = |it: &&Alert| is_firing(it) && it.silenced_by.is_some();
    let firing = now.alerts.iter().filter(is_firing).count();
    let silenced = now.alerts.iter().filter(is_silenced).count();
    let caption = html! { (firing) " firing" @if silenced > 0 { " (" (silenced) " silenced)" } ", " (rows.len() - firing) " pending or resolved in the last 15 minutes; times in " (view.time.zone()) };
    let main = html! {
        h1 { "Alerts" }
        @if now.rules.is_empty() {
            p.note { "There are no rules: add an [[alert]] or [[slo]] to the configuration." }
        }
        div #alerts data-live {
            (table("Alerts", caption, heads, rows, "No alert is firing."))
            @if now.more > 0 { p.note { (count(now.more as u64)) " further rows share one alert: a rule has at most 100." } }
        }
        div.charts.four.many #alert-charts data-live { @for chart in charts { (chart) } }
        (objectives(view, &now))
        (rules(&now.rules))
        (silences(view, alerts))
        (receivers(alerts))
    };
    view.page("/alerts", "Alerts", &main)
}

/// Renders the summary at the top of the overview: firing alerts and the budgets left. Empty if
/// there is nothing to show.
pub(super) fn in_short(view: &View<'_>) -> Markup {
    let now = view.app.settings.alerts.view();
    let is_heard = |it: &&Alert| it.episode.phase == Phase::Firing && it.silenced_by.is_none();
    let firing: Vec<&Alert> = now.alerts.iter().filter(is_heard).collect();
    let budgets: Vec<_> = now.objectives.iter().filter_map(|it| Some((it, it.left?))).collect();
    html! {
        @if let Some(longest) = firing.iter().min_by_key(|it| it.episode.since) {
            p.problem {
                a href=(view.time.link("/alerts", [])) { (firing.len()) @if firing.len() == 1 { " alert fires" } @else { " alerts fire" } }
                ": " (visible(&longest.rule.entry.name)) " on " (row_name(longest)) " since " (view.time.moment(longest.episode.since))
                @if firing.len() > 1 { ", the longest" }
            }
        }
        @if !budgets.is_empty() {
            p.note {
                a href=(view.time.link("/alerts", [])) { "Error budget left" } ": "
                @for (at, (it, left)) in budgets.iter().enumerate() {
                    @let (entry, covered) = (&it.objective.entry, it.count.covered_secs);
                    @if at > 0 { ", " }
                    (visible(&entry.name)) " " span.whole.bad[*left < 0.0] { (budget(*left)) }
                    // Less than half of its period says little about the rest.
                    @if covered < entry.period / 2 { " (of " (lasting(covered)) ")" }
                }
            }
        }
    }
}

/// Renders the last hour of an alert's row, whatever time is selected, in the chart that has the
/// value the rule watches.
fn chart(view: &View<'_>, at: usize, alert: &Alert) -> Option<Markup> {
    alert.key.as_ref()?;
    let rule = &alert.rule;
    let keys: Vec<(String, String)> = match rule.objective() {
        None => alert.key_texts().map(owned).collect(),
        // Charts show one row or all of them.
        Some(objective) => {
            let names = key_names(&rule.report);
            let texts = objective.only_row()?.into_iter().map(str::to_owned);
            names.into_iter().zip(texts).collect()
        }
    };
    let counted = match rule.report.level {
        Level::Timer => Counted::Timers,
        Level::Packet | Level::Request => Counted::Requests,
    };
    let present = view.time.present();
    let history = History::of_row(view, &rule.entry.report, &keys, counted, None)?;
    let history = History { time: &present, ..history };
    let (what, metrics) = rule.chart();
    let title = format!("{}: {}", visible(&rule.entry.name), row_name(alert));
    let title = format!("{title}: {}", what.to_lowercase());
    history.figure(&format!("alert-{at}"), &title, &metrics)
}

fn row_name(alert: &Alert) -> String {
    let texts = alert.key_texts().map(|(_, text)| cut(&named(text)));
    match &alert.key {
        None => "further rows".to_owned(),
        Some(key) if key.is_empty() => all_where(&alert.rule.entry.conditions),
        Some(_) => texts.collect::<Vec<_>>().join(", "),
    }
}

/// Names the requests that an objective counts.
fn all_where(conditions: &[String]) -> String {
    match conditions {
        [] => "all requests".to_owned(),
        _ => cut(&visible(&conditions.join(" and "))),
    }
}

/// Cuts a name that is too long for a heading.
fn cut(name: &str) -> String {
    cut_name(name, NAME_COLUMNS).into_owned()
}

fn row(view: &View<'_>, alert: &Alert) -> Markup {
    let (episode, entry) = (&alert.episode, &alert.rule.entry);
    let mut keys = alert.key_texts().peekable();
    let is_keyed = keys.peek().is_some();
    let path = view.time.row_page(&entry.report, keys);
    let class = (episode.phase == Phase::Firing && alert.silenced_by.is_none()).then_some("bad");
    html! {
        th.key scope="row" { span class=[class] { (episode.phase.name()) } }
        td.key { (view.time.moment(episode.since)) }
        td.key { (Name(&entry.name)) }
        td.key { (visible(&entry.severity)) }
        td.key.text { a href=(path) {
            @if !is_keyed { (row_name(alert)) }
            @for (_, text) in alert.key_texts() { span.pair { (Name(text)) } " " }
        } }
        td { (alert.value_text().unwrap_or_default()) }
        td.key { (visible(&alert.rule.condition_text())) }
        td.key.text {
            @if let Some(id) = alert.silenced_by { "silenced by " (id) }
            @if let Some(secs) = episode.unknown.filter(|it| *it > 0) { " no verdict for " (lasting(secs)) ": too little data" @if episode.firings > 1 { ";" } }
            @if episode.firings > 1 { " fired " (count(episode.firings)) " times since " (view.time.moment(episode.first_started)) @if episode.ended > 0 { ";" } }
            @if episode.ended > 0 { " resolved at " (view.time.moment(episode.ended)) " " (episode.reason) }
        }
    }
}

/// Renders the objectives: budgets left, burn rates and their history.
fn objectives(view: &View<'_>, alerts: &alert::View) -> Markup {
    let numbers = ["Counted for", "Requests", "Bad", "Budget left"];
    let mut heads = Head::list(&["Objective", "State"], &numbers);
    heads.extend(BURN_WINDOWS.map(|(name, _)| Head::number(name)));
    let row = |it: &ObjectiveView| {
        let (of, firing) = (&it.objective, it.firing.as_deref());
        let quiet = it.quiet_state();
        let quiet = if quiet == "unknown" { "too little counted yet" } else { quiet };
        let at_most = if it.is_exact { "" } else { "\u{2264}\u{a0}" };
        html! {
            th.key.text scope="row" { (visible(&of.entry.name)) ": " (visible(&of.words())) }
            td.key { span class=[firing.map(|_| "bad")] { (visible(firing.unwrap_or(quiet))) } }
            td.period { (lasting(it.count.covered_secs)) " " small { "of " (lasting(of.entry.period)) } }
            td { (count(it.count.total)) }
            td { (at_most) (count(it.count.bad())) }
            td { span class=[it.left.filter(|left| *left < 0.0).map(|_| "bad")] { (it.left.map_or_else(|| UNKNOWN.to_owned(), budget)) } }
            @for (_, rate) in it.burn_windows { td { (burn(rate)) } }
        }
    };
    let charts = alerts.objectives.iter().enumerate().filter_map(|(at, it)| course(view, at, it));
    let caption = "Burn rate over these windows, once half of one is counted: at 1 the budget lasts exactly for its period";
    let rows = alerts.objectives.iter().map(row);
    html! {
        @if !alerts.objectives.is_empty() {
            h2 { "Objectives" }
            div #slos data-live { (table("Objectives", caption, heads, rows, "")) }
            div.charts.four.many #slo-charts data-live { @for chart in charts.take(CHARTS_MAX) { (chart) } }
        }
    }
}

/// Charts the budget left at the end of each hour of the period, from the first with requests on;
/// what is left now is in the legend. `None` for a single point, which makes no line.
fn course(view: &View<'_>, at: usize, it: &ObjectiveView) -> Option<Markup> {
    let now = view.source.unix_ms() / 1_000;
    let percent = |left: &Option<f64>| left.map_or(f64::NAN, |it| it.max(0.0) * 100.0);
    // The last is that of the running hour.
    let mut points: Vec<f64> = it.course.iter().map(percent).collect();
    points.pop();
    let first = points.iter().position(|it| !it.is_nan())?;
    if points.len() - first < 2 {
        return None;
    }
    // Thinned to the number of points a line may have.
    let step = (points.len() - first).div_ceil(COURSE_POINTS);
    let kept: Vec<f64> = points.iter().rev().step_by(step).rev().copied().collect();
    let secs = step as u64 * 3_600;
    let start = (now - now % 3_600).saturating_sub(secs * (kept.len() as u64 - 1));
    let begins = kept.iter().position(|it| !it.is_nan())? as u64;
    let span = (start + begins * secs) as f64..(now as f64).max((start + begins * secs + 1) as f64);
    let chart = Chart {
        title: format!("{}: budget left, %", visible(&it.objective.entry.name)),
        unit: Show::Number,
        lines: vec![Line {
            name: "left".to_owned(),
            colour: 0,
            is_before: false,
            start: start as f64,
            step: secs as f64,
            points: kept,
            now: it.left.map(|left| left * 100.0),
        }],
        ticks: view.time.ticks(span.start as u64..span.end as u64),
        span,
        is_live: true,
        by: [formatting::by(secs), String::new()],
        ..Chart::default()
    };
    Some(chart.figure(&format!("slo-{at}"), "/api/v1/slos"))
}

fn burn(rate: Option<f64>) -> String {
    rate.map_or_else(|| UNKNOWN.to_owned(), number)
}

fn rules(rules: &[(Arc<Rule>, usize)]) -> Markup {
    let row = |(rule, rows): &(Arc<Rule>, usize)| {
        html! { th.key.text scope="row" { (visible(&rule.words())) } td { @if rule.objective().is_none() { (count(*rows as u64)) } } }
    };
    let heads = Head::list(&["Rule"], &["Rows now"]);
    section("Rules", "In force now", heads, rules.iter().map(row))
}

fn silences(view: &View<'_>, alerts: &Alerts) -> Markup {
    let heads = ["Silence", "Alerts with", "Until", "Reason", "By"].map(Head::text);
    let silences = alerts.silences(view.source.unix_ms() / 1_000);
    let rows = silences.iter().map(|it| {
        let label = |(name, text): (&String, &String)| format!("{name}={text}");
        let labels: Vec<String> = it.matchers.iter().map(label).collect();
        html! {
            th.key scope="row" { (it.id) }
            td.key.text { (visible(&labels.join(" "))) }
            td.key { (view.time.moment(it.ends)) }
            td.key.text { (visible(&it.reason)) }
            td.key { (visible(it.author.as_deref().unwrap_or_default())) }
        }
    });
    let makes = "pinbad alert silence makes one, and --end ends it";
    let caption = match alerts.why_not_kept() {
        Some(why) => format!("{makes}; a stop would lose what changed: {}", visible(&why)),
        None => makes.to_owned(),
    };
    section("Silences", caption, heads, rows)
}

fn receivers(alerts: &Alerts) -> Markup {
    let heads = Head::list(&["Receiver"], &["Sent", "Refused", "Failed attempts"]);
    let rows = alerts.receivers.iter().map(|it| {
        let number = |number: &AtomicU64| count(number.load(Ordering::Relaxed));
        html! {
            th.key.text scope="row" { (visible(&it.url)) }
            td { (number(&it.sent)) } td { (number(&it.refused)) } td { (number(&it.failed)) }
        }
    });
    section("Receivers", "Since the start", heads, rows)
}

#[cfg(test)]
mod tests {
    use super::{NAME_COLUMNS, UNKNOWN, all_where, budget, burn, cut};

    #[test]
    fn an_objective_is_named_by_what_it_counts() {
        assert_eq!(all_where(&[]), "all requests");
        let conditions = ["script_name=/a".to_owned(), "status!=404".to_owned()];
        assert_eq!(all_where(&conditions[..1]), "script_name=/a");
        assert_eq!(all_where(&conditions), "script_name=/a and status!=404");
    }

    #[test]
    fn long_names_leave_room_for_the_chart() {
        assert_eq!(cut("/a"), "/a");
        let name = cut(&format!("/x{}.php", "\u{439}".repeat(500)));
        assert_eq!(name.chars().count(), NAME_COLUMNS);
        assert!(name.starts_with("/x") && name.ends_with(".php"), "{name}");
    }

    #[test]
    fn budgets_look_like_other_numbers() {
        let texts = [0.853, -0.5, -163.912].map(budget);
        assert_eq!(texts, ["85.3 %", "\u{2212}50 %", "\u{2212}16,391 %"]);
        let rates = [Some(9.985_71), Some(10.62), None].map(burn);
        assert_eq!(rates, ["9.99", "10.6", UNKNOWN]);
    }
}
