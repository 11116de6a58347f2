//! `/daemon`: how the daemon itself is doing: what it received and how fast, what was lost and why, what it keeps and uses.

use std::time::Instant;

use maud::{Markup, html};
use serde_json::{Map, Value as Json};

use super::columns::{Show, columns};
use super::formatting::{self, visible};
use super::instruments;
use super::render::View;
use super::table::{Head, bar, narrow_table, table};
use crate::http::error::Problem;
use crate::http::settings::Planned;
use crate::telemetry::{cpu, memory};

/// A counter, or the sum of one that is kept by reason.
fn sum(value: &Json) -> f64 {
    match value {
        Json::Object(reasons) => reasons.values().map(sum).sum(),
        other => other.as_f64().unwrap_or(0.0),
    }
}

/// `GET /daemon`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    view.form()?.finish()?;
    let status = view.source.status();
    let reasons = view.source.unready();
    let lag_us = status.get("merge_lag_us").map_or(0.0, sum);
    let main = html! {
        h1 { "Daemon" }
        (view.time.only_now())
        div #state data-live {
            @if reasons.is_empty() {
                p.good { "Ready: all sockets are bound, and the merger keeps up: its last run began " (formatting::micros(lag_us as u64)) " late." }
            } @else {
                p.problem { "Not ready: " (visible(&reasons.join("; "))) }
            }
            @for problem in ["off", "error"].map(|name| &status.get("history").unwrap_or_default()[name]) {
                @if let Some(problem) = problem.as_str() { p.problem { "No history is written: " (visible(problem)) } }
            }
            @if let Some(problem) = status.get("snapshot").and_then(|it| it["error"].as_str()) { p.problem { "No snapshot can be written: " (visible(problem)) } }
            @if let Some(shipping) = status.get("clickhouse") {
                @if let Some(problem) = shipping["error"].as_str() { p.problem { "Nothing is shipped to ClickHouse: " (visible(problem)) } }
                @for refused in shipping["refused"].as_array().into_iter().flatten() {
                    p.problem { "ClickHouse refused " (refused["rows"].to_string()) " rows for " (visible(refused["table"].as_str().unwrap_or_default())) ": " (visible(refused["error"].as_str().unwrap_or_default())) }
                }
            }
        }
        div.columns #counters data-live { (counters(view, &status)) }
        (instruments::section(view))
        (memory_plan(&view.app.settings.memory_plan))
        div #sockets data-live { (sockets(&status)) }
    };
    view.page("/daemon", "Daemon", &main)
}

/// A row of a name and a number; with what there is room for, also as a part of that.
fn row(name: &str, title: &str, how: Show, number: f64, room: Option<f64>) -> Markup {
    let room = room.filter(|room| *room > 0.0);
    html! {
        th.key scope="row" title=[(!name.is_empty()).then_some(name)] {
            @if let Some(room) = room { (bar(number / room)) span { (title) ", of " (how.text(room)) } } @else { (title) }
        }
        td {
            (how.text(number))
            @if let Some(room) = room { " " small { (formatting::percent(100.0 * number / room)) } }
        }
    }
}

fn counters(view: &View<'_>, status: &Map<String, Json>) -> Markup {
    let get = |name: &str| status.get(name).map_or(0.0, sum);
    let used = [cpu::process(), cpu::threads(|name| name == "merge")];
    let used = used.map(|cpu| cpu.map_or(0.0, |cpu| cpu.user_secs + cpu.system_secs));
    let received = columns("received");
    let growing = received.iter().map(|it| get(&it.name)).chain(used);
    let rates = view.app.rates.since(Instant::now(), growing.collect());
    let rate = |at: usize| rates.as_ref().map_or(f64::NAN, |rates| rates[at]);
    let cores = |at: usize| rate(received.len() + at);
    let received = received.iter().enumerate().map(|(at, it)| {
        let how = match it.show {
            Show::Count => Show::Number,
            bytes => bytes,
        };
        html! { (row(&it.name, &it.title, it.show, get(&it.name), None)) td { (how.text(rate(at))) } }
    });
    let in_memory = columns("in_memory").iter().map(|it| {
        row(
            &it.name,
            &it.title,
            it.show,
            get(&it.name),
            Some(get(&it.room)),
        )
    });
    let losses = columns("losses").iter().map(|it| {
        let reasons = match it.name.as_str() {
            "requests_invalid" => "requests_invalid_by_reason",
            name => name,
        };
        let reasons = status.get(reasons).and_then(Json::as_object);
        let reasons = reasons.into_iter().flatten();
        let reasons = reasons.filter(|(_, count)| sum(count) > 0.0);
        let count = get(&it.name);
        html! {
            th.key scope="row" title=(it.name) {
                (it.title)
                @for (reason, count) in reasons { br; small { (visible(reason)) ": " (formatting::count(sum(count) as u64)) } }
            }
            td.bad[count > 0.0] { (formatting::count(count as u64)) }
        }
    });
    let resident = memory::process_bytes().map_or(f64::NAN, |[_, resident]| resident as f64);
    let (reports, room) = ("report_memory_bytes", get("report_memory_bytes_max"));
    let usage = [
        row("", "Cores busy, all threads", Show::Number, cores(0), None),
        row("", "Cores busy, the merger", Show::Number, cores(1), None),
        row("", "Memory of the process", Show::Bytes, resident, None),
        row(
            reports,
            "Memory of the reports",
            Show::Bytes,
            get(reports),
            Some(room),
        ),
    ];
    let groups = [("History", "history"), ("ClickHouse", "clickhouse")];
    let groups = groups.into_iter().filter_map(|(title, name)| {
        let of = status.get(name)?;
        let kept = columns(name).iter().map(|it| {
            let room = of.get(&it.room).map(sum);
            let number = of.get(&it.name).map_or(0.0, sum);
            row(&it.name, &it.title, it.show, number, room)
        });
        Some(narrow_table(title, &[], &kept.collect::<Vec<_>>()))
    });
    let [since, now] = ["Since the start", "Now, per s"].map(Head::number);
    let heads = [Head::text("Counter"), since, now];
    html! {
        (narrow_table("Received", &heads, &received.collect::<Vec<_>>()))
        (narrow_table("In memory", &[], &in_memory.collect::<Vec<_>>()))
        (narrow_table("Lost, refused, repaired", &[], &losses.collect::<Vec<_>>()))
        @for group in groups { (group) }
        (narrow_table("CPU and memory", &[], &usage))
    }
}

fn memory_plan(plan: &[Planned]) -> Markup {
    let heads = [
        Head::text("Part"),
        Head::number("At most"),
        Head::text("Why"),
    ];
    let row = |planned: &Planned| {
        html! { th.key scope="row" { (planned.name) } td { (formatting::bytes(planned.bytes as f64)) } td.key.text { (planned.why) } }
    };
    let total_bytes: u64 = plan.iter().map(|planned| planned.bytes).sum();
    let total = html! { th.key scope="row" { b { "total" } } td { b { (formatting::bytes(total_bytes as f64)) } } td {} };
    let rows: Vec<Markup> = plan.iter().map(row).chain([total]).collect();
    let caption = html! { "Memory plan: the most that the daemon uses, whatever is sent to it" };
    html! {
        @if !plan.is_empty() {
            details {
                summary { "Memory plan: " (formatting::bytes(total_bytes as f64)) " at most" }
                (table("Memory plan", &caption, &heads, &rows, ""))
            }
        }
    }
}

fn sockets(status: &Map<String, Json>) -> Markup {
    let losses = columns("losses");
    let is_loss = |name: &str| losses.iter().any(|loss| loss.name == name);
    let columns = columns("sockets");
    let mut heads = vec![Head::text("Address")];
    heads.extend(columns.iter().map(|it| Head::number(&it.title)));
    let row = |socket: &Json| {
        html! {
            th.key scope="row" { (visible(socket["address"].as_str().unwrap_or_default())) }
            @for it in columns {
                @let count = sum(&socket[it.name.as_str()]);
                td.bad[count > 0.0 && is_loss(&it.name)] { (it.show.text(count)) }
            }
        }
    };
    let sockets = status.get("sockets").and_then(Json::as_array);
    let rows: Vec<Markup> = sockets.into_iter().flatten().map(row).collect();
    table("Sockets", &html! { "Sockets" }, &heads, &rows, "")
}
