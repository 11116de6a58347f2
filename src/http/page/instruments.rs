//! Where the daemon's own time goes, on `/daemon`: stages and waits by the second, the slowest statements, and what is stuck now.

use std::time::Instant;

use maud::{Markup, html};

use super::formatting::{self, visible};
use super::render::View;
use super::table::{Head, bar, narrow_table};
use crate::instruments::event_history::{Span, events};
use crate::instruments::registry::{Class, Instrument, Kind, Registry, registry};
use crate::instruments::summary::Summary;
use crate::instruments::sums::Totals;
use crate::instruments::{digests, thread};

/// Statements that are shown.
const STATEMENTS: usize = 10;

/// How much of their text.
const TEXT_CHARS: usize = 120;

/// What goes on for longer is stuck, seconds.
const STUCK_SECS: f64 = 1.0;

/// Whether waiting for it is no trouble: there was nothing to do.
fn is_rest(instrument: &Instrument) -> bool {
    matches!(instrument.class, Class::Idle | Class::Socket)
}

/// The tables, where anything is measured.
pub(super) fn section(view: &View<'_>) -> Markup {
    let Some(registry) = registry() else {
        return html! {};
    };
    html! {
        div #stuck data-live { (stuck(registry)) }
        div.columns #instruments data-live { (times(view, registry)) (statements(registry)) }
    }
}

fn secs(registry: &Registry, instrument: &Instrument, units: u64) -> f64 {
    registry.picos(instrument, units) as f64 / 1e12
}

/// Stages and waits, those that take most first.
fn times(view: &View<'_>, registry: &Registry) -> Markup {
    let summary = Summary::read();
    let all = [Kind::Stages, Kind::Waits].map(|kind| summary.global(kind).collect::<Vec<_>>());
    let mut all: Vec<(&Instrument, Totals)> = all.concat();
    all.retain(|(instrument, totals)| totals.count > 0 && !is_rest(instrument));
    // Each time the same instruments in the same order, for the rates; those that never counted are not among them.
    let counters = all.iter().flat_map(|(instrument, totals)| {
        [totals.count as f64, secs(registry, instrument, totals.sum)]
    });
    let counters: Vec<f64> = counters.collect();
    let rates = view.app.instrument_rates.since(Instant::now(), counters);
    let rates = rates.filter(|rates| rates.len() == 2 * all.len());
    let rate = |at: usize| rates.as_ref().map_or(f64::NAN, |rates| rates[at]);
    let mut rows: Vec<_> = all.iter().zip(0..).collect();
    rows.sort_by(|((a, first), _), ((b, second), _)| {
        let [first, second] = [(a, first), (b, second)].map(|(it, of)| secs(registry, it, of.sum));
        second.total_cmp(&first)
    });
    let rows = rows.into_iter().map(|((instrument, totals), at)| {
        let busy = rate(2 * at + 1);
        let mean = secs(registry, instrument, totals.mean());
        html! {
            th.key scope="row" { @if busy > 0.0 { (bar(busy.min(1.0))) } span { (instrument.name) } }
            td { (formatting::number(rate(2 * at))) }
            td { (formatting::percent(100.0 * busy)) }
            td { (formatting::secs(mean)) }
            td { (formatting::secs(secs(registry, instrument, totals.max))) }
        }
    });
    let heads = ["Per s", "Of a second", "Mean", "Longest"].map(Head::number);
    let heads: Vec<Head> = [Head::text("Stage or wait")]
        .into_iter()
        .chain(heads)
        .collect();
    scrolled("Where the time goes", &heads, &rows.collect::<Vec<_>>())
}

/// The statements that took longest.
fn statements(registry: &Registry) -> Markup {
    let timers = &registry.timers;
    let mut all = digests::all();
    all.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.totals.max));
    let rows = all.iter().take(STATEMENTS).map(|(digest, sums)| {
        let text = match digest.text.is_empty() {
            true => "(all others)".to_owned(),
            false => visible(&digest.text),
        };
        let cut: String = text.chars().take(TEXT_CHARS).collect();
        let time = |units| formatting::secs(timers.picos(timers.others, units) as f64 / 1e12);
        html! {
            th.key scope="row" {
                code title=(text) { (cut) @if cut.len() < text.len() { "…" } }
            }
            td { (formatting::count(sums.totals.count)) }
            td { (time(sums.totals.mean())) }
            td { (time(sums.totals.max)) }
        }
    });
    let heads = ["Times", "Mean", "Longest"].map(Head::number);
    let heads: Vec<Head> = [Head::text("Statement")].into_iter().chain(heads).collect();
    scrolled("Slowest statements", &heads, &rows.collect::<Vec<_>>())
}

/// What goes on for too long.
fn stuck(registry: &Registry) -> Markup {
    let going = Kind::ALL
        .into_iter()
        .flat_map(|kind| events(kind, Span::Current));
    let going = going.filter_map(|(event, _)| {
        let instrument = registry.at(event.place)?;
        let start = event
            .start
            .filter(|_| event.end_id.is_none() && !is_rest(instrument))?;
        let lasted = registry.now(instrument).saturating_sub(start);
        let lasted = secs(registry, instrument, lasted);
        let thread = thread::all().find(|thread| thread.id == event.thread)?;
        (lasted > STUCK_SECS).then_some((lasted, instrument.name, thread.class.name))
    });
    let going: Vec<_> = going.collect();
    html! {
        @if going.is_empty() {
            p.note { "Nothing is stuck: no stage, statement or wait that is measured has lasted for more than a second." }
        }
        @for (lasted, what, thread) in going {
            p.problem { (thread) " has been at " (what) " for " (formatting::secs(lasted)) "." }
        }
    }
}

/// A table that is wider than a phone.
fn scrolled(title: &str, heads: &[Head], rows: &[Markup]) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label=(title) { (narrow_table(title, heads, rows)) }
    }
}
