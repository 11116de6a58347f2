//! Lines over the last minutes or hour, up to now: one chart of some metrics of one row.
//!
//! Points come from the series in memory, a step apart; what is not known is a gap. The legend says what is now.

use std::fmt::Write as _;
use std::ops::Range;

use maud::{Markup, PreEscaped, html};

use super::{BOTTOM, COLOURS, LEFT, RIGHT, Scale, Theme, coordinate, frame, tick};
use crate::http::page::columns::Show;

/// Points of one line at most; more are put together by whoever asks for the data. Held by a test there.
#[cfg(test)]
pub(in crate::http::page) const POINTS_MAX: usize = 360;

/// One line of a chart.
#[derive(Debug, Clone)]
pub(in crate::http::page) struct Line {
    /// What the legend says.
    pub(in crate::http::page) name: &'static str,
    /// Which of the colours, from 0.
    pub(in crate::http::page) colour: usize,
    /// From the oldest to the newest, a step apart; NaN: nothing known.
    pub(in crate::http::page) points: Vec<f64>,
}

/// Lines over time, up to now.
#[derive(Debug, Clone)]
pub(in crate::http::page) struct Chart {
    /// What is shown, plain text made visible.
    pub(in crate::http::page) title: String,
    /// How a value is written.
    pub(in crate::http::page) unit: Show,
    pub(in crate::http::page) lines: Vec<Line>,
    /// Seconds from one point to the next.
    pub(in crate::http::page) step_secs: f64,
}

impl Chart {
    /// The chart. `id` tells it from others on the same page.
    pub(in crate::http::page) fn svg(&self, id: &str, theme: Theme) -> Markup {
        let points = self.lines.iter().map(|line| line.points.len()).max();
        let points = points.unwrap_or(0);
        let all = self.lines.iter().flat_map(|line| known(&line.points));
        let scale = Scale::new(all.fold(0.0, f64::max));
        let steps = points.saturating_sub(1).max(1) as f64;
        let x = |at: usize| f64::from(LEFT) + f64::from(RIGHT - LEFT) * at as f64 / steps;
        let span = steps * self.step_secs;
        let body = html! {
            (scale.grid(|value| super::round(&self.unit.text(value)), theme))
            @for (ago, text) in time_ticks(span) {
                @let at = f64::from(RIGHT) - f64::from(RIGHT - LEFT) * ago / span;
                (tick(at, &text, theme))
            }
            @if let [line] = &self.lines[..] {
                path class={ "area c" (line.colour) } fill=(theme.colour(COLOURS[line.colour])) fill-opacity="0.12"
                    d=(path(&line.points, x, |value| scale.y(value), true)) {}
            }
            @for line in &self.lines {
                path class={ "line c" (line.colour) } fill="none" stroke=(theme.colour(COLOURS[line.colour])) stroke-width="1.5"
                    stroke-linejoin="round" d=(path(&line.points, x, |value| scale.y(value), false)) {}
            }
        };
        frame(id, theme, &self.title, &self.described(), &body)
    }

    /// The chart with its heading and legend, as a figure of a page. `address`: where it is alone.
    pub(in crate::http::page) fn figure(&self, id: &str, address: &str) -> Markup {
        html! {
            figure.chart {
                figcaption {
                    a href=(address) { (self.title) }
                    span.legend {
                        @for line in &self.lines {
                            span class={ "key c" (line.colour) } {
                                (line.name) " "
                                b { (self.unit.text(Self::newest(line).unwrap_or(f64::NAN))) }
                            }
                        }
                    }
                }
                (self.svg(id, Theme::Page))
            }
        }
    }

    fn newest(line: &Line) -> Option<f64> {
        known(&line.points).last()
    }

    /// The chart in words.
    fn described(&self) -> String {
        let described = |line: &Line| {
            let least = known(&line.points).fold(f64::INFINITY, f64::min);
            let most = known(&line.points).fold(f64::NEG_INFINITY, f64::max);
            let Some(newest) = Self::newest(line) else {
                return format!("{}: no data. ", line.name);
            };
            let [newest, least, most] = [newest, least, most].map(|it| self.unit.text(it));
            format!("{}: now {newest}, between {least} and {most}. ", line.name)
        };
        self.lines.iter().map(described).collect()
    }
}

/// The points of a line that are known.
fn known(points: &[f64]) -> impl DoubleEndedIterator<Item = f64> {
    points.iter().copied().filter(|value| value.is_finite())
}

/// The points as path data, a gap where nothing is known; or, with `area`, what is below them.
fn path(
    points: &[f64],
    x: impl Fn(usize) -> f64,
    y: impl Fn(f64) -> f64,
    area: bool,
) -> PreEscaped<String> {
    let mut data = String::with_capacity(points.len() * 12);
    // Writing to a String cannot fail.
    for run in runs(points) {
        // A point alone is drawn as a dot.
        let end = if run.len() == 1 { "h3" } else { "" };
        let mut verb = 'M';
        if area {
            let _ = write!(data, "M{} {BOTTOM}", coordinate(x(run.start)));
            verb = 'L';
        }
        for at in run {
            let _ = write!(
                data,
                "{verb}{} {}",
                coordinate(x(at)),
                coordinate(y(points[at]))
            );
            verb = 'L';
        }
        let _ = match area {
            true => write!(data, "V{BOTTOM}Z"),
            false => write!(data, "{end}"),
        };
    }
    PreEscaped(data)
}

/// Points that are known and stand side by side.
fn runs(points: &[f64]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in points.iter().enumerate().filter(|(_, it)| it.is_finite()) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

/// Round moments before now: how many seconds ago, and what to call it.
fn time_ticks(span: f64) -> Vec<(f64, String)> {
    let steps = [
        5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0,
    ];
    let step = steps.into_iter().find(|step| span / step <= 4.5);
    let step = step.unwrap_or(span / 4.0);
    let count = (span / step + 1e-9).floor() as usize;
    let text = |ago: f64| match ago {
        0.0 => "now".to_owned(),
        ago if step < 60.0 => format!("\u{2212}{ago:.0} s"),
        ago => format!("\u{2212}{:.0} min", ago / 60.0),
    };
    (0..=count)
        .map(|tick| tick as f64 * step)
        // No room for a word that would stick out on the left.
        .filter(|ago| *ago < span * 0.98)
        .map(|ago| (ago, text(ago)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::TOP;
    use super::*;

    fn chart(points: Vec<f64>) -> Chart {
        Chart {
            title: "<b>".into(),
            unit: Show::Secs,
            lines: vec![Line {
                name: "p95",
                colour: 0,
                points,
            }],
            step_secs: 10.0,
        }
    }

    #[test]
    fn lines_stay_inside_and_gaps_are_gaps() {
        let svg = chart(vec![0.0, 1.0, f64::NAN, 0.5, 0.25])
            .svg("x", Theme::Light)
            .into_string();
        let line = svg.split("class=\"line").nth(1).unwrap();
        let path = line
            .split(" d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert_eq!(path.matches('L').count(), 2, "{path}");
        assert!(path.starts_with(&format!("M{LEFT} {BOTTOM}")), "{path}");
        for y in path
            .split(['M', 'L'])
            .filter_map(|point| point.split(' ').nth(1))
        {
            let y: f64 = y.parse().unwrap();
            assert!((f64::from(TOP)..=f64::from(BOTTOM)).contains(&y), "{y}");
        }
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("<b>"), "{svg}");
        assert!(
            svg.contains("p95: now 250 ms, between 0 and 1.00 s."),
            "{svg}"
        );
        assert!(!svg.contains("style"), "{svg}");
    }

    #[test]
    fn nothing_known_is_an_empty_chart() {
        for points in [vec![], vec![f64::NAN; 3], vec![0.0; 3]] {
            let svg = chart(points).svg("x", Theme::Page).into_string();
            assert!(svg.contains("</svg>") && !svg.contains("NaN"), "{svg}");
        }
    }
}
