//! `/daemon`: is it healthy, did it lose anything, is it full? Everything else is collapsed, or one
//! page below (`inside`).

use std::time::Instant;

use maud::{Markup, html};
use serde_json::{Map, Value as Json};

use super::columns::{Column, Show, columns};
use super::formatting::{self, visible};
use super::inside;
use super::profile;
use super::render::View;
use super::table::{Head, bar, narrow_table, table};
use crate::config::units::exact_bytes;
use crate::http::error::Problem;
use crate::telemetry::{cpu, memory};

/// Consequences of a full pool, dictionary or report.
const CROWDED: [&str; 3] = ["rows_evicted", "words_overflowed", "report_keys_folded"];
/// Fraction from which on something is nearly full.
const NEARLY: f64 = 0.9;

/// A counter, or its sum if it is kept by reason.
fn sum(value: &Json) -> f64 {
    match value {
        Json::Object(reasons) => reasons.values().map(sum).sum(),
        other => other.as_f64().unwrap_or(0.0),
    }
}

/// The daemon's status, and the rates of its counters.
struct Look<'a> {
    view: &'a View<'a>,
    status: Map<String, Json>,
    /// The number of seconds, and rates: those of table `received`, then CPU of all threads and of
    /// the merger.
    rates: Option<(f64, Vec<f64>)>,
}

/// `GET /daemon`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    view.form()?.finish()?;
    let look = Look::read(view);
    let folded = |id: &str, title: &str, shown: &Markup| {
        html! { details { summary { (title) } div id=(id) data-live { (shown) } } }
    };
    let main = html! {
        h1 { "Daemon" }
        div.panels.three #state data-live { (look.healthy()) (look.lost()) (look.full()) }
        (folded("received", "Received", &look.received()))
        (folded("sockets", "Sockets", &look.sockets()))
        (folded("losses", "All loss counters", &look.losses(|_| true)))
        @for (name, title) in [("history", "History on disk"), ("clickhouse", "Shipping to ClickHouse")] {
            @if let Some(group) = look.group(name) { (folded(name, title, &group)) }
        }
        p { a href=(view.time.link("/daemon/inside", [])) { "Where its time and memory go" } }
    };
    view.page("/daemon", "Daemon", &main)
}

/// A row with a name and a number, also as a part of its limit and its text if there is one.
fn row(name: &str, title: &str, how: Show, number: f64, room: Option<(f64, String)>) -> Markup {
    let room = room.filter(|(room, _)| *room > 0.0);
    html! {
        th.key scope="row" title=[(!name.is_empty()).then_some(name)] {
            @if let Some((room, text)) = &room { (bar(number / room)) span { (title) " " small { "of " (text) } } } @else { (title) }
        }
        td {
            (how.text(number))
            @if let Some((room, _)) = &room { " " small { (formatting::percent(100.0 * number / room)) } }
        }
    }
}

/// A counter as such a row.
fn counter(it: &Column, number: f64, room: Option<f64>) -> Markup {
    row(&it.name, &it.title, it.show, number, room.map(|room| (room, it.show.text(room))))
}

/// One of the three questions, with a short answer and the details. `alarming`: whether the answer
/// is bad news.
fn question(title: &str, answer: &str, alarming: bool, behind: &Markup) -> Markup {
    html! {
        section.panel aria-label=(title) {
            h2 { (title) " " span.good[!alarming].bad[alarming] { (answer) } }
            (behind)
        }
    }
}

impl<'a> Look<'a> {
    fn read(view: &'a View<'a>) -> Self {
        let status = view.source.status();
        let used = [cpu::process(), cpu::threads(|name| name == "merge")];
        let used = used.map(|cpu| cpu.map_or(0.0, |cpu| cpu.user_secs + cpu.system_secs));
        let received = columns("received").iter();
        let growing = received.map(|it| status.get(&it.name).map_or(0.0, sum));
        let growing = growing.chain(used).collect();
        let rates = view.app.rates.since(Instant::now(), growing);
        Self { view, status, rates }
    }

    /// A counter, perhaps of an optional part: `history.memory_bytes`.
    fn find(&self, name: &str) -> Option<f64> {
        let value = match name.split_once('.') {
            Some((part, name)) => self.status.get(part)?.get(name),
            None => self.status.get(name),
        };
        value.map(sum)
    }

    fn get(&self, name: &str) -> f64 {
        self.find(name).unwrap_or(0.0)
    }

    /// The rate of the counter at this index; NaN if not known yet.
    fn rate(&self, at: usize) -> f64 {
        self.rates.as_ref().map_or(f64::NAN, |(_, rates)| rates[at])
    }

    /// The span of the rates, in words.
    fn over(&self) -> String {
        let secs = self.rates.as_ref().map(|(secs, _)| *secs);
        secs.map_or_else(String::new, |secs| format!(", last {}", formatting::roughly(secs)))
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.view.source.unready();
        problems.extend(self.view.source.warnings());
        problems.extend(profile::unconnected(&self.status, false));
        problems.extend(inside::stuck());
        problems
    }

    fn healthy(&self) -> Markup {
        let problems = self.problems();
        let answer = if problems.is_empty() { "Yes" } else { "No" };
        let received = columns("received");
        let merged = received.iter().position(|it| it.name == "requests_merged");
        let plan = &self.view.app.settings.memory_plan;
        let planned: u64 = plan.iter().map(|planned| planned.bytes).sum();
        let resident = memory::process_bytes().map_or(f64::NAN, |[_, resident]| resident as f64);
        let (over, lag) = (self.over(), self.get("merge_lag_us") / 1e6);
        let rates = [
            ("Requests/s", merged.map_or(f64::NAN, |at| self.rate(at))),
            ("CPU, cores busy", self.rate(received.len())),
            ("Merger, cores busy", self.rate(received.len() + 1)),
        ]
        .map(|(title, rate)| row("", &format!("{title}{over}"), Show::Number, rate, None));
        let planned = (planned as f64, formatting::mebibytes(planned));
        let others = [
            row("", "Memory", Show::Bytes, resident, Some(planned)),
            row("merge_lag_us", "Delay of the merger's last run", Show::Secs, lag, None),
        ];
        let behind = html! {
            @for problem in &problems { p.problem { (visible(problem)) } }
            @for absent in profile::unconnected(&self.status, true) { p.note { (visible(&absent)) } }
            @if problems.is_empty() { p.note { "All sockets are bound, the merger keeps up, nothing is stuck." } }
            (narrow_table("", &[], rates.into_iter().chain(others)))
        };
        question("Healthy?", answer, !problems.is_empty(), &behind)
    }

    fn lost(&self) -> Markup {
        let lost = self.get("lost");
        let answer = match lost {
            0.0 => "No".to_owned(),
            lost => format!("Yes, {}", formatting::count(lost as u64)),
        };
        let others: f64 = columns("losses").iter().map(|it| self.get(&it.name)).sum();
        let is_said = |name: &str| ["datagrams_received", "requests_merged"].contains(&name);
        let came = columns("received").iter().filter(|it| is_said(&it.name));
        let came = came.map(|it| counter(it, self.get(&it.name), None));
        // Those that one counter has and the other has not yet.
        let waiting = self.get("ring_depth");
        let waiting = row("ring_depth", "Waiting for the merger", Show::Count, waiting, None);
        let came = came.chain([waiting]);
        let behind = html! {
            @if self.view.source.refilled().is_some() { p.note { "These counters go on from the last snapshot: what came between it and the kill is not in them." } }
            @else if others == 0.0 { p.note { "Everything received was counted in the reports." } }
            (narrow_table("", &[], came))
            @if others > 0.0 { (self.losses(|count| count > 0.0)) }
        };
        question("Lost?", &answer, lost > 0.0, &behind)
    }

    /// The counters of losses and refusals that `keep` accepts, with their reasons.
    fn losses(&self, keep: impl Fn(f64) -> bool) -> Markup {
        let shown = columns("losses").iter().filter(|it| keep(self.get(&it.name)));
        let rows = shown.map(|it| {
            let reasons = match it.name.as_str() {
                "requests_invalid" => "requests_invalid_by_reason",
                name => name,
            };
            let reasons = self.status.get(reasons).and_then(Json::as_object).into_iter().flatten();
            let reasons = reasons.filter(|(_, count)| sum(count) > 0.0);
            let count = self.get(&it.name);
            html! {
                th.key scope="row" title=(it.name) {
                    (it.title)
                    @for (reason, count) in reasons { br; small { (visible(reason)) ": " (formatting::count(sum(count) as u64)) } }
                }
                td.bad[count > 0.0] { (formatting::count(count as u64)) }
            }
        });
        narrow_table("All together", &[], rows)
    }

    fn full(&self) -> Markup {
        let used = |it: &'static Column| Some((it, self.get(&it.name), self.find(&it.room)?));
        let rooms: Vec<_> = columns("in_memory").iter().filter_map(used).collect();
        let crowded = columns("losses")
            .iter()
            .filter(|it| CROWDED.contains(&it.name.as_str()) && self.get(&it.name) > 0.0)
            .map(|it| it.title.clone());
        let crowded: Vec<String> = crowded.chain(self.full_disks()).collect();
        let mut parts = rooms.iter().map(|(_, used, room)| used / room.max(1.0));
        let is_nearly = parts.any(|part| part >= NEARLY);
        let answer = match (crowded.is_empty(), is_nearly) {
            (false, _) => "Yes",
            (true, true) => "Nearly",
            (true, false) => "No",
        };
        let rows = rooms.into_iter().map(|(it, used, room)| counter(it, used, Some(room)));
        let behind = html! {
            @for why in &crowded { p.problem { (why) "." } }
            @if crowded.is_empty() { p.note { "There is room. When a pool is full its oldest rows give way; sums stay exact." } }
            (narrow_table("", &[], rows))
        };
        question("Full?", answer, !crowded.is_empty(), &behind)
    }

    /// The disks that have less room than is needed or is to stay free, in a sentence each without
    /// its full stop.
    fn full_disks(&self) -> impl Iterator<Item = String> {
        let disks = [
            ("history", "disk_free_min_bytes", "history", "must stay free"),
            ("snapshot", "disk_needed_bytes", "snapshots", "are needed by the next snapshot"),
        ];
        disks.into_iter().filter_map(move |(name, needed, whose, what)| {
            let of = self.status.get(name)?;
            let free = sum(of.get("disk_free_bytes")?);
            let [needed, failing] = [needed, "failing"].map(|name| of.get(name).map_or(0.0, sum));
            // What a snapshot needs is an estimate.
            let is_known = failing > 0.0 || name == "history";
            let is_full = is_known && (free < needed || free == 0.0);
            is_full.then(|| {
                let needed = match name {
                    _ if needed == 0.0 => return format!("The disk for {whose} is full"),
                    // As the setting has it.
                    "history" => exact_bytes(needed as u64),
                    _ => Show::Bytes.text(needed),
                };
                let free = Show::Bytes.text(free);
                format!("The disk for {whose} is full: {free} free, {needed} {what}")
            })
        })
    }

    fn received(&self) -> Markup {
        let received = columns("received").iter().enumerate().map(|(at, it)| {
            let how = if it.show == Show::Count { Show::Number } else { it.show };
            html! { (counter(it, self.get(&it.name), None)) td { (how.text(self.rate(at))) } }
        });
        let per_second = format!("Per second{}", self.over());
        let heads = Head::list(&["Counter"], &["All together", &per_second]);
        narrow_table("Received", &heads, received)
    }

    /// The counters of an optional part of the daemon.
    fn group(&self, name: &str) -> Option<Markup> {
        let of = self.status.get(name)?;
        let number = |name: &str| of.get(name).map(sum);
        let row = |it: &Column| counter(it, number(&it.name).unwrap_or(0.0), number(&it.room));
        let rows = columns(name).iter().map(row);
        Some(narrow_table("Since the start", &[], rows))
    }

    fn sockets(&self) -> Markup {
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
        let sockets = self.status.get("sockets").and_then(Json::as_array);
        let rows = sockets.into_iter().flatten().map(row);
        table("Sockets", "All together", heads, rows, "")
    }
}
