//! The colours of timers on a request's page, and the bar that shows where its time went.
//!
//! Colours are assigned by the values of one tag, heaviest first; the few of the style sheet are
//! used once each, and the rest shares one more. The bar is decoration: its legend says the same in
//! numbers.

use maud::{Markup, html};

use super::{Bar, bars, track};
use crate::http::page::formatting::{self, Name, visible};
use crate::query::answer::TimerDetail;

/// Values with a colour of their own; the style sheet has as many. All others share one more.
const COLOURS: usize = 4;

/// Assigns colours to timers by their value of one tag, heaviest values first.
#[derive(Debug)]
pub(super) struct Palette<'a> {
    tag: &'a str,
    /// Value and time. The first have colours of their own.
    parts: Vec<(Option<&'a str>, u64)>,
}

impl<'a> Palette<'a> {
    /// By the tag used for grouping, else by `group`, else by the first tag of the first timer that
    /// has one.
    pub(super) fn of(timers: &'a [TimerDetail], by: Option<&'a str>) -> Self {
        let tags = || timers.iter().flat_map(|timer| &timer.tags);
        let group = tags().find(|(name, _)| name == "group");
        let group = group.or_else(|| tags().next()).map(|(name, _)| name.as_str());
        let tag = by.or(group).unwrap_or_default();
        let bars = bars(timers, Some(tag));
        let part = |bar: &Bar<'a>| (bar.tags.first().map(|(_, value)| *value), bar.value_us);
        Self { tag, parts: bars.iter().map(part).collect() }
    }

    /// The colour for these tags.
    pub(super) fn colour(&self, tags: &[(&str, &str)]) -> usize {
        let value = tags.iter().find(|(name, _)| *name == self.tag);
        let value = value.map(|(_, value)| *value);
        let at = self.parts.iter().position(|(known, _)| *known == value);
        at.unwrap_or(COLOURS).min(COLOURS)
    }

    /// Where the time of the request went, as one bar with its legend.
    pub(super) fn shares(&self, time_us: u64, sum_us: u64) -> Markup {
        let whole_us = time_us.max(sum_us).max(1);
        let scaled = |us: u64| 1000.0 * us as f64 / whole_us as f64;
        let share = |us: u64| match time_us {
            0 => String::new(),
            _ => formatting::percent(100.0 * us as f64 / time_us as f64),
        };
        // A single other one has room for its name.
        let names = if self.parts.len() == COLOURS + 1 { COLOURS + 1 } else { COLOURS };
        let others: u64 = self.parts.iter().skip(names).map(|(_, us)| us).sum();
        let named = |(at, (value, us)): (usize, &(Option<&str>, u64))| {
            let value = html! { @match value { Some(value) => (Name(value)), None => { "without " (visible(self.tag)) } } };
            (value, at.min(COLOURS), *us)
        };
        let mut legend: Vec<_> = self.parts.iter().enumerate().take(names).map(named).collect();
        if others > 0 {
            let values = self.parts.len() - names;
            legend.push((html! { (values) " others" }, COLOURS, others));
        }
        // Bars stand end to end.
        let bars = legend.iter().scan(0.0, |end, (_, colour, us)| {
            let (x, width) = (*end, scaled(*us));
            *end += width;
            Some((*colour, x, width))
        });
        html! {
            div.shares {
                (track(1000.0, bars))
                ul.legend aria-label="Where the time went" {
                    @for (value, colour, us) in &legend {
                        li class={ "key c" (colour) } { (value) " " b { (formatting::micros(*us)) } " " (share(*us)) }
                    }
                    @if time_us > sum_us {
                        li.key.rest { "outside timers " b { (formatting::micros(time_us - sum_us)) } " " (share(time_us - sum_us)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::timer;
    use super::*;

    #[test]
    fn colours_go_by_the_heaviest_values_of_one_tag() {
        let mut timers: Vec<TimerDetail> = ["e", "d", "c", "b", "a", "f"]
            .iter()
            .zip(1..)
            .map(|(group, us)| timer(us * 100, &[("op", "x"), ("group", group)]))
            .collect();
        timers.push(timer(1000, &[("op", "y")]));
        let palette = Palette::of(&timers, None);
        assert_eq!(palette.tag, "group");
        assert_eq!(palette.colour(&[("op", "y")]), 0, "the heaviest has no group");
        assert_eq!(palette.colour(&[("group", "f")]), 1);
        assert_eq!(palette.colour(&[("group", "d")]), COLOURS);
        let bar = palette.shares(6_200, 3_100).into_string();
        for part in ["without group", "3 others", "outside timers <b>3.10 ms</b> 50.0 %"] {
            assert!(bar.contains(part), "{part}: {bar}");
        }
        // Side by side, not one over the other.
        assert!(bar.contains("x=\"161.3\" width=\"96.8\""), "{bar}");
        let bar = Palette::of(&timers[1..6], None).shares(6_200, 3_100).into_string();
        assert!(bar.contains(">a</bdi>") && !bar.contains("others"), "{bar}");
        assert_eq!(Palette::of(&timers, Some("op")).parts.len(), 2);
        assert_eq!(Palette::of(&[timer(5, &[])], None).tag, "");
    }
}
