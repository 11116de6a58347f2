//! `/daemon/inside`: where the daemon's time and memory go, for its operators: rates of stages and
//! waits, the slowest statements, the memory plan; and what is stuck, for `/daemon`.

use std::time::Instant;

use maud::{Markup, html};

use super::formatting::{self, Scale, mebibytes, visible};
use super::frame;
use super::render::View;
use super::table::{Head, bar, section, table};
use crate::http::error::Problem;
use crate::http::settings::Planned;
use crate::instruments::event_history::{Span, events};
use crate::instruments::registry::{Class, Instrument, Kind, Registry, registry};
use crate::instruments::summary::Summary;
use crate::instruments::sums::Totals;
use crate::instruments::{digests, thread};
use crate::value::text::cut;

/// Statements shown.
const STATEMENTS: usize = 10;

/// Width of what is shown of their text.
const TEXT_COLUMNS: usize = 120;

/// Seconds after which an activity counts as stuck.
const STUCK_SECS: f64 = 1.0;

/// Whether waiting for it is harmless, since there is nothing to do.
fn is_rest(instrument: &Instrument) -> bool {
    matches!(instrument.class, Class::Idle | Class::Socket)
}

/// `GET /daemon/inside`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    view.form()?.finish()?;
    let main = html! {
        (frame::crumbs(&[(&view.time.link("/daemon", []), "Daemon")], "inside"))
        h1 { "Where the daemon's time and memory go" }
        @if let Some(registry) = registry() {
            div.panels #instruments data-live { (times(view, registry)) (statements(registry)) }
        }
        (memory_plan(&view.app.settings.memory_plan))
    };
    view.page("/daemon", "Inside the daemon", &main)
}

fn memory_plan(plan: &[Planned]) -> Markup {
    let heads = [Head::text("Part"), Head::number("At most"), Head::text("Set by")];
    let row = |planned: &Planned| {
        html! { th.key scope="row" { (planned.name) } td { (mebibytes(planned.bytes)) } td.key.text { (planned.why) } }
    };
    let total_bytes: u64 = plan.iter().map(|planned| planned.bytes).sum();
    let total =
        html! { th.key scope="row" { b { "total" } } td { b { (mebibytes(total_bytes)) } } td {} };
    let rows = plan.iter().map(row).chain((!plan.is_empty()).then_some(total));
    let caption = "Planned at start: the daemon uses no more, whatever is sent to it";
    section("Memory plan", caption, heads, rows)
}

fn secs(registry: &Registry, instrument: &Instrument, units: u64) -> f64 {
    registry.picos(instrument, units) as f64 / 1e12
}

/// Stages and waits, by time.
fn times(view: &View<'_>, registry: &Registry) -> Markup {
    let summary = Summary::read();
    let all = [Kind::Stages, Kind::Waits].map(|kind| summary.global(kind).collect::<Vec<_>>());
    let mut all: Vec<(&Instrument, Totals)> = all.concat();
    all.retain(|(instrument, totals)| totals.count > 0 && !is_rest(instrument));
    // The same instruments in the same order each time, for the rates; those that never counted are
    // left out.
    let counters = |(it, totals): &(&Instrument, Totals)| {
        [totals.count as f64, secs(registry, it, totals.sum)]
    };
    let counters = all.iter().flat_map(counters).collect();
    let rates = view.app.instrument_rates.since(Instant::now(), counters);
    let rate = |at: usize| rates.as_ref().map_or(f64::NAN, |(_, rates)| rates[at]);
    let scale = |of: fn(&Totals) -> u64| {
        Scale::of_secs(all.iter().map(|(it, totals)| secs(registry, it, of(totals))))
    };
    let (means, longest) = (scale(Totals::mean), scale(|totals| totals.max));
    let mut rows: Vec<_> = all.iter().zip(0..).collect();
    rows.sort_by(|((a, first), _), ((b, second), _)| {
        let [first, second] = [(a, first), (b, second)].map(|(it, of)| secs(registry, it, of.sum));
        second.total_cmp(&first)
    });
    let rows = rows.into_iter().map(|((instrument, totals), at)| {
        let busy = rate(2 * at + 1);
        let mean = secs(registry, instrument, totals.mean());
        html! {
            th.key.text scope="row" { @if busy > 0.0 { (bar(busy.min(1.0))) } span { (instrument.name) } }
            td { (formatting::number(rate(2 * at))) }
            td { (formatting::percent(100.0 * busy)) }
            td { (means.text(mean)) }
            td { (longest.text(secs(registry, instrument, totals.max))) }
        }
    });
    let heads = [
        Head::text("Stage or wait"),
        Head::number("Count/s"),
        Head::number("Busy").hint("Part of a core, or of a thread that waits"),
        Head::number("Mean"),
        Head::number("Longest"),
    ];
    let over = rates.as_ref().map(|(secs, _)| formatting::roughly(*secs));
    let caption = html! {
        b { "Stages and waits" }
        @if let Some(over) = over { "; count/s and busy over the last " (over) }
    };
    panel("Stages and waits", &caption, heads, rows)
}

/// The statements that took longest.
fn statements(registry: &Registry) -> Markup {
    let timers = &registry.timers;
    let mut all = digests::all();
    all.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.totals.max));
    all.truncate(STATEMENTS);
    let secs = |units| timers.picos(timers.others, units) as f64 / 1e12;
    let means = Scale::of_secs(all.iter().map(|(_, sums)| secs(sums.totals.mean())));
    let longest = Scale::of_secs(all.iter().map(|(_, sums)| secs(sums.totals.max)));
    let rows = all.iter().map(|(digest, sums)| {
        let text =
            if digest.text.is_empty() { "(all others)".to_owned() } else { visible(&digest.text) };
        let time = |scale: Scale, units| scale.text(secs(units));
        html! {
            th.key.text scope="row" { code title=(text) { (cut(&text, TEXT_COLUMNS)) } }
            td { (formatting::count(sums.totals.count)) }
            td { (time(means, sums.totals.mean())) }
            td { (time(longest, sums.totals.max)) }
        }
    });
    let heads = Head::list(&["Statement"], &["Count", "Mean", "Longest"]);
    let caption = html! { b { "Slowest statements" } " since the start" };
    panel("Slowest statements", &caption, heads, rows)
}

/// Activities that are stuck, in words. Statements may take long: they have their own time limit.
pub(super) fn stuck() -> Vec<String> {
    let Some(registry) = registry() else { return Vec::new() };
    let going = Kind::ALL.into_iter().flat_map(|kind| events(kind, Span::Current));
    let going = going.filter_map(|(event, _)| {
        let instrument = registry.at(event.place)?;
        let may_last = is_rest(instrument) || matches!(instrument.class, Class::Statement);
        let start = event.start.filter(|_| event.end_id.is_none() && !may_last)?;
        let lasted = registry.now(instrument).saturating_sub(start);
        let lasted = secs(registry, instrument, lasted);
        let thread = thread::all().find(|thread| thread.id == event.thread)?;
        let (thread, what) = (thread.class.name, instrument.name);
        let words = || format!("{thread} has been at {what} for {}", formatting::secs(lasted));
        (lasted > STUCK_SECS).then(words)
    });
    going.collect()
}

fn panel(
    title: &str,
    caption: &Markup,
    heads: impl IntoIterator<Item = Head>,
    rows: impl Iterator<Item = Markup>,
) -> Markup {
    html! { section.panel aria-label=(title) { (table(&format!("{title}, rows"), caption, heads, rows, "Nothing yet.")) } }
}
