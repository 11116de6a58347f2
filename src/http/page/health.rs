//! `/daemon`: how the daemon itself is doing: what comes in and how fast, what was lost and why, what it holds and takes.
//!
//! Rates are what counters grew by since the page was last made, for whomever: a page that nobody looked at for a minute shows none
//! at first.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, Uri};
use maud::{Markup, html};
use parking_lot::Mutex;
use serde_json::{Map, Value as Json};

use super::Kept;
use super::ask::Given;
use super::frame::{self, Section};
use super::ranking::bar;
use super::show::{self, visible};
use crate::http::Planned;
use crate::http::routes::App;
use crate::query::source::{Readiness, Source};
use crate::telemetry::{cpu, memory};

/// `GET /daemon`
pub(super) async fn read(State(app): State<App>, uri: Uri) -> Response<Body> {
    let given = Given::parse(uri.query());
    let view = given.and_then(|given| {
        given.only(&[], &[])?;
        let kept = app.clone();
        Ok(move |source: &dyn Source| {
            let Kept { rates, plan, .. } = kept.kept();
            Ok(page(&source.status(), &source.readiness(), rates, plan))
        })
    });
    super::answer(app, &uri, view).await
}

/// Counters of what was lost or refused: name, what it means.
const LOSSES: [(&str, &str); 9] = [
    (
        "kernel_drops",
        "Packets that the kernel dropped: the socket's buffer was full",
    ),
    ("datagrams_invalid", "Packets that could not be read"),
    (
        "requests_overwritten",
        "Requests that gave way in the temporary pool: the merger was behind",
    ),
    ("requests_invalid", "Requests that break the rules"),
    (
        "elements_mended",
        "Parts of requests that were mended or left out",
    ),
    (
        "rows_evicted",
        "Raw rows that left before their time: a pool was full",
    ),
    (
        "words_overflowed",
        "Texts that are shown as (other): no room for more words",
    ),
    (
        "report_keys_folded",
        "Keys that are counted under (other): no memory for more",
    ),
    ("receive_errors", "Errors of a socket"),
];

/// Counters of what came in.
const CAME: [(&str, &str); 6] = [
    ("datagrams_received", "Packets received"),
    ("received_bytes", "Bytes received"),
    ("requests_decoded", "Requests decoded"),
    ("requests_merged", "Requests in the reports"),
    ("timers_merged", "Timers in the reports"),
    ("merges", "Runs of the merger"),
];

/// What is held now: name, what it means, and what says how much of it there is room for.
const HELD: [(&str, &str, &str); 7] = [
    ("request_rows", "Raw requests in memory", "request_rows_max"),
    ("timer_rows", "Raw timers in memory", "timer_rows_max"),
    ("ring_depth", "Requests that wait for the merger", ""),
    ("dictionary_size", "Distinct texts", ""),
    (
        "origins",
        "Distinct combinations of host, server, script, schema, status",
        "",
    ),
    ("tag_sets", "Distinct sets of tags", ""),
    ("report_families", "Counts that a request takes part in", ""),
];

/// A counter, or the sum of one that is kept by reason.
fn sum(value: &Json) -> f64 {
    match value {
        Json::Object(reasons) => reasons.values().map(sum).sum(),
        other => other.as_f64().unwrap_or(0.0),
    }
}

/// Looks that are further apart say little about now.
const APART_MAX: Duration = Duration::from_secs(60);

/// What counters showed at the last look, for rates.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<Option<(Instant, Vec<f64>)>>);

impl Rates {
    /// What each counter grew by a second since the last look; `None`: there was none of late.
    fn since(&self, now: Instant, counters: Vec<f64>) -> Option<Vec<f64>> {
        let mut last = self.0.lock();
        let rates = last.as_ref().and_then(|(then, before)| {
            let apart = now.duration_since(*then);
            let secs = apart.as_secs_f64();
            let rate = |(now, before): (&f64, &f64)| (now - before) / secs;
            (apart < APART_MAX && secs > 0.0)
                .then(|| counters.iter().zip(before).map(rate).collect())
        });
        *last = Some((now, counters));
        rates
    }
}

/// What the process takes by the kernel's account.
struct Process {
    /// CPU seconds of all threads, and of the merger's.
    cpu: [f64; 2],
    resident: Option<u64>,
}

impl Process {
    fn look() -> Self {
        let secs = |times: Option<cpu::CpuTimes>| {
            times.map_or(0.0, |times| times.user_secs + times.system_secs)
        };
        Self {
            cpu: [
                secs(cpu::process()),
                secs(cpu::threads(|name| name == "merge")),
            ],
            resident: memory::resident_bytes(),
        }
    }
}

fn page(
    status: &Map<String, Json>,
    readiness: &Readiness,
    rates: &Rates,
    plan: &[Planned],
) -> Markup {
    let get = |name: &str| status.get(name).map_or(0.0, sum);
    let process = Process::look();
    let counters = CAME.iter().map(|(name, _)| get(name)).chain(process.cpu);
    let rates = rates.since(Instant::now(), counters.collect());
    let rate = |at: usize| rates.as_ref().and_then(|rates| rates.get(at)).copied();
    let main = html! {
        h1 { "Daemon" }
        div #state data-live {
            @if readiness.reasons.is_empty() {
                p.good { "Ready: all sockets are bound, and the merger keeps up: its last run began "
                    (show::micros(get("merge_lag_us") as u64)) " late." }
            } @else {
                p.problem { "Not ready: " (visible(&readiness.reasons.join("; "))) }
            }
        }
        div.columns #counters data-live {
            (came(&get, rate))
            (table(&get))
            (losses(status))
            (takes(&process, rate, &get))
        }
        (planned(plan))
        div #sockets data-live { (sockets(status)) }
    };
    frame::page(Section::Daemon, "Daemon", &main)
}

/// What came in, and how fast.
fn came(get: &impl Fn(&str) -> f64, rate: impl Fn(usize) -> Option<f64>) -> Markup {
    let shown = |name: &str, value: f64| match name {
        "received_bytes" => show::bytes(value),
        _ if value < 100.0 => show::number(value),
        _ => show::count(value as u64),
    };
    html! {
        table {
            caption { "Came in" }
            thead { tr { th.key scope="col" { "What" } th scope="col" { "Since the start" } th scope="col" { "Now, per s" } } }
            tbody { @for (at, (name, meaning)) in CAME.iter().enumerate() {
                tr {
                    th.key scope="row" title=(name) { (meaning) }
                    td { (shown(name, get(name))) }
                    td { @if let Some(rate) = rate(at) { (shown(name, rate)) } @else { span.none { "\u{2013}" } } }
                }
            } }
        }
    }
}

fn table(get: &impl Fn(&str) -> f64) -> Markup {
    html! {
        table {
            caption { "Held now" }
            tbody { @for (name, meaning, room) in HELD {
                @let (held, room) = (get(name), get(room));
                tr {
                    th.key scope="row" title=(name) {
                        @if room > 0.0 { (bar(held / room)) }
                        span { (meaning) @if room > 0.0 { ", of " (show::count(room as u64)) } }
                    }
                    td { (show::count(held as u64)) @if room > 0.0 { " " small { (show::percent(100.0 * held / room)) } } }
                }
            } }
        }
    }
}

/// What the daemon takes of the machine.
fn takes(
    process: &Process,
    rate: impl Fn(usize) -> Option<f64>,
    get: &impl Fn(&str) -> f64,
) -> Markup {
    let (used, most) = (get("report_memory_bytes"), get("report_memory_bytes_max"));
    let share = if most > 0.0 { 100.0 * used / most } else { 0.0 };
    let cores =
        |at: usize| rate(CAME.len() + at).map_or_else(|| "\u{2013}".to_owned(), show::number);
    html! {
        table {
            caption { "Takes now" }
            tbody {
                tr { th.key scope="row" { "Cores busy, all threads" } td { (cores(0)) } }
                tr { th.key scope="row" { "Cores busy, the merger" } td { (cores(1)) } }
                tr { th.key scope="row" { "Memory of the process" } td { @if let Some(bytes) = process.resident { (show::bytes(bytes as f64)) } @else { "\u{2013}" } } }
                tr { th.key scope="row" { (bar(share / 100.0)) span { "Memory of the reports, of " (show::bytes(most)) } } td { (show::bytes(used)) " " small { (show::percent(share)) } } }
            }
        }
    }
}

/// The memory plan.
fn planned(plan: &[Planned]) -> Markup {
    let total: u64 = plan.iter().map(|planned| planned.bytes).sum();
    html! {
        @if !plan.is_empty() {
            div.wide tabindex="0" role="region" aria-label="Memory plan" {
                table {
                    caption { "Memory plan: the most that the daemon takes, whatever is sent to it" }
                    thead { tr { th.key scope="col" { "What" } th scope="col" { "At most" } th.key scope="col" { "Why" } } }
                    tbody {
                        @for planned in plan {
                            tr { th.key scope="row" { (planned.name) } td { (show::bytes(planned.bytes as f64)) } td.key.text { (planned.why) } }
                        }
                        tr { th.key scope="row" { b { "total" } } td { b { (show::bytes(total as f64)) } } td {} }
                    }
                }
            }
        }
    }
}

/// What was lost, by reason where there is one.
fn losses(status: &Map<String, Json>) -> Markup {
    let reasons = |name: &str| {
        let by_reason = if name == "requests_invalid" {
            "requests_invalid_by_reason"
        } else {
            name
        };
        let reasons = status.get(by_reason).and_then(Json::as_object);
        reasons
            .into_iter()
            .flatten()
            .filter(|(_, count)| sum(count) > 0.0)
    };
    html! {
        table {
            caption { "Lost, refused, mended" }
            tbody { @for (name, meaning) in LOSSES {
                @let count = status.get(name).map_or(0.0, sum);
                tr { th.key scope="row" title=(name) { (meaning)
                        @for (reason, count) in reasons(name) { br; small { (visible(reason)) ": " (show::count(sum(count) as u64)) } } }
                    td.bad[count > 0.0] { (show::count(count as u64)) } }
            } }
        }
    }
}

fn sockets(status: &Map<String, Json>) -> Markup {
    let columns = [
        ("datagrams_received", "Received"),
        ("datagrams_invalid", "Unreadable"),
        ("requests_decoded", "Requests"),
        ("requests_overwritten", "Gave way"),
        ("kernel_drops", "Dropped by the kernel"),
        ("kernel_queue_bytes", "Waiting in the kernel"),
        ("recv_buffer_granted_bytes", "Buffer"),
    ];
    let sockets = status.get("sockets").and_then(Json::as_array);
    html! {
        div.wide tabindex="0" role="region" aria-label="Sockets" {
            table {
                caption { "Sockets" }
                thead { tr { th.key scope="col" { "Address" } @for (_, title) in columns { th scope="col" { (title) } } } }
                tbody { @for socket in sockets.into_iter().flatten() {
                    tr {
                        th.key scope="row" { (visible(socket["address"].as_str().unwrap_or_default())) }
                        @for (name, _) in columns {
                            @let count = sum(&socket[name]);
                            td.bad[count > 0.0 && matches!(name, "kernel_drops" | "requests_overwritten" | "datagrams_invalid")] {
                                @if name.ends_with("_bytes") { (show::bytes(count)) } @else { (show::count(count as u64)) }
                            }
                        }
                    }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_between_looks() {
        let (rates, start) = (Rates::default(), Instant::now());
        assert_eq!(rates.since(start, vec![100.0, 7.0]), None);
        let later = start + Duration::from_secs(2);
        assert_eq!(rates.since(later, vec![300.0, 7.0]), Some(vec![100.0, 0.0]));
        assert_eq!(rates.since(later + APART_MAX, vec![400.0, 7.0]), None);
    }
}
