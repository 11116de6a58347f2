//! The waterfall of a Squid request: its activities where they ran, side by side, and the resources
//! they used.
//!
//! Only the pool has start times, and only if the line had them. Otherwise consecutive activities
//! stand end to end, and the page says so. Unknown values are dashes, never 0.

use maud::{Markup, html};

use super::palette::Palette;
use super::{axis, track};
use crate::http::page::formatting::{self, Scale};
use crate::http::page::table::{Head, cell, table};
use crate::input::squid::activity::{Activity, Measure, Measures, State};
use crate::query::answer::TimerDetail;

/// The activities that current Squids log, in order of occurrence.
const IN_TURN: [Activity; 3] = [Activity::Dns, Activity::ServerOut, Activity::ServerIn];

/// The activities as far as timers tell, if nothing else is kept: no starts. `None` if it is not a
/// Squid request.
pub(super) fn said_by(timers: &[TimerDetail]) -> Option<Measures> {
    let mut measures = Measures::default();
    let mut is_squid = false;
    for timer in timers {
        let [(name, value)] = &timer.tags[..] else { continue };
        is_squid |= name == "bottleneck";
        let activity = Activity::ALL.iter().find(|it| it.name() == value);
        let Some(known) = activity.and_then(|it| measures.get_mut(*it as usize)) else { continue };
        match name.as_str() {
            "activity" => known.total_us = Some(timer.value_us),
            "first_byte" => known.first_delay_us = Some(timer.value_us),
            "resident" => known.resident_ms = Some(timer.value_us / 1000),
            _ => {}
        }
    }
    is_squid.then_some(measures)
}

/// Start of an activity in microseconds after the request began, time of its first bytes, and end.
fn run(at: usize, measures: &Measures, time_us: u64) -> Option<(u64, u64, u64)> {
    let known = measures.get(at)?;
    if known.resident_ms.is_some() {
        return None;
    }
    let in_turn = IN_TURN.iter().take_while(|it| **it as usize != at);
    let before = in_turn.filter_map(|it| measures[*it as usize].total_us);
    let start = known.start_us.or_else(|| {
        let is_in_turn = IN_TURN.iter().any(|it| *it as usize == at);
        (is_in_turn && known.total_us.is_some()).then(|| before.sum())
    })?;
    let end = known.total_us.map_or(time_us, |total| start.saturating_add(total));
    let first = start.saturating_add(known.first_delay_us.unwrap_or(0));
    Some((start, first.min(end), end.max(start)))
}

fn remark(known: &Measure) -> Markup {
    let state = known.state();
    html! {
        @match (known.resident_ms, state) {
            (Some(ms), _) => { "in memory for " (formatting::micros(ms.saturating_mul(1000))) ": work for an earlier request" },
            (None, State::Done) => (state.name()),
            (None, _) => span.none { (state.name()) },
        }
    }
}

pub(super) fn waterfall(time_us: u64, measures: &Measures, timers: &[TimerDetail]) -> Markup {
    let is_set = |timer: &&TimerDetail| timer.tags.iter().any(|(name, _)| name == "bottleneck");
    let sets: Vec<TimerDetail> = timers.iter().filter(is_set).cloned().collect();
    let palette = Palette::of(&sets, Some("bottleneck"));
    let busy_us = sets.iter().map(|timer| timer.value_us).sum();
    let runs: Vec<_> = (0..measures.len()).map(|at| run(at, measures, time_us)).collect();
    let ends = runs.iter().flatten().map(|(_, _, end)| *end);
    let whole_us = ends.chain([time_us]).max().unwrap_or(0);
    let has_starts = measures.iter().any(|it| it.start_us.is_some());
    let is_known = measures.iter().any(|it| *it != Measure::default());
    let heads = [
        Head::text("Activity"),
        Head::text("State"),
        Head::number("Start"),
        Head::number("First byte").hint("From its start to its first bytes"),
        Head::number("Time").hint("From its start to its end"),
        axis(whole_us),
    ];
    let times: [fn(&Measure) -> Option<u64>; 3] =
        [|it| it.start_us, |it| it.first_delay_us, |it| it.total_us];
    let secs = |us: u64| us as f64 / 1e6;
    let times = times.map(|of| (of, Scale::of_secs(measures.iter().filter_map(of).map(secs))));
    let scaled = |us: u64| 1000.0 * us as f64 / whole_us.max(1) as f64;
    let cells = Activity::ALL.iter().zip(measures).zip(&runs);
    let cells = cells.map(|((activity, known), run)| {
        let colour = palette.colour(&[("bottleneck", activity.resource().name())]);
        let bars = run.iter().flat_map(|(start, first, end)| {
            let bar = |from: u64, to: u64| (scaled(from), scaled(to) - scaled(from));
            let (x, width) = bar(*start, *end);
            let (_, waiting) = bar(*start, *first);
            let width = width.max(2.0);
            let x = x.min(1000.0 - width);
            // The wait for first bytes is the lighter part.
            let rest = (colour.to_string(), x + waiting, width - waiting);
            [(format!("{colour} waits"), x, waiting), rest]
        });
        html! {
            th.key scope="row" { span.tag { (activity.name()) } }
            td.key { (remark(known)) }
            @for (of, scale) in times { (cell(of(known), |us| scale.text(secs(us)))) }
            td.fall { (track(scaled(time_us), bars)) }
        }
    });
    html! {
        section aria-labelledby="waterfall-h" {
            h2 #waterfall-h { "Activities" }
            @if !sets.is_empty() { (palette.shares(time_us, busy_us)) }
            p.note {
                @if has_starts {
                    "Bars stand where the activities ran; several ran at a time. What had not ended runs to the end of the request. \
                     Microseconds are as fine as Squid's own clock, which it reads once for each turn of its loop; the request itself is \
                     known to the millisecond."
                } @else if is_known {
                    "This format tells how long activities took, not when they began: they stand one after the other. Times are as fine \
                     as Squid's own clock, which it reads once for each turn of its loop, and milliseconds today."
                } @else {
                    "The log format has no activities, or this request had none."
                }
            }
            div #waterfall { (table("Waterfall", html! { span.hidden { "Activities of the request" } }, heads, cells, "")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::timer;
    use super::*;
    use crate::input::squid::line::{Line, parse};

    fn measures(line: &str) -> Measures {
        match parse(line.as_bytes(), false) {
            Ok(Line::Request(request)) => request.activities,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn activities_stand_where_they_ran() {
        let patch = measures(
            "873487336.614 111 123 TCP_CLIENT_REFRESH/200 7517 GET http://www.com/ - DIRECT/www.com text/html 0/55320/55320 \
             72028/1395/38993 57173/3795/4674 61847/10181/26720 -38024/16356/16356 88567/-2/-2",
        );
        let runs: Vec<_> = (0..7).map(|at| run(at, &patch, 111_000)).collect();
        assert_eq!(
            runs,
            [
                Some((0, 55_320, 55_320)),
                Some((72_028, 73_423, 111_021)),
                Some((57_173, 60_968, 61_847)),
                Some((61_847, 72_028, 88_567)),
                None,
                Some((88_567, 88_567, 111_000)),
                None,
            ]
        );
        let page = waterfall(111_000, &patch, &[timer(111_000, &[("bottleneck", "proxy")])]);
        let page = page.into_string();
        for part in ["Squid's own clock", "in memory for 38.0 s", "unfinished", "100 %"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn without_starts_they_stand_in_turn() {
        let today = measures("sq1 start=1.000 tr=32 ss=TCP_MISS dt=20 pt=4 tt=7");
        let runs: Vec<_> = (0..7).filter_map(|at| run(at, &today, 32_000)).collect();
        assert_eq!(runs, [(20_000, 20_000, 23_000), (23_000, 23_000, 27_000), (0, 0, 20_000)]);
        let timers = [
            timer(20_000, &[("activity", "dns")]),
            timer(20_000, &[("bottleneck", "dns")]),
            timer(9, &[("first_byte", "server_in")]),
        ];
        let said = said_by(&timers).unwrap();
        assert_eq!(said[Activity::Dns as usize].total_us, Some(20_000));
        assert_eq!(said[Activity::ServerIn as usize].first_delay_us, Some(9));
        assert_eq!(said_by(&timers[..1]), None, "anybody may call a tag so");
    }
}
