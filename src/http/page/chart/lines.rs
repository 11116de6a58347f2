//! Lines over time: one chart of some metrics of one row, up to now or over a span of the past.
//!
//! Points are a step apart; unknown ones are gaps. The legend shows the current value, or the
//! highest for the past. Lines of the comparison span are dashed. Times can be marked. A chart that
//! supports zooming tells the script its drawing area and span.

use std::fmt::Write as _;
use std::ops::Range;

use maud::{Markup, PreEscaped, html};

use super::{BOTTOM, COLOURS, INK, LEFT, RIGHT, Scale, TOP, Theme, coordinate, frame, ticks};
use crate::http::page::columns::Show;
use crate::http::page::formatting::{self, MINUS};

/// One line of a chart.
#[derive(Debug, Clone)]
pub(in crate::http::page) struct Line {
    /// Its label in the legend.
    pub(in crate::http::page) name: String,
    /// Number of its colour, from 0.
    pub(in crate::http::page) colour: usize,
    /// Whether it belongs to the comparison span.
    pub(in crate::http::page) is_before: bool,
    /// Time of the first point, in unix seconds.
    pub(in crate::http::page) start: f64,
    /// Seconds from one point to the next.
    pub(in crate::http::page) step: f64,
    /// Points from oldest to newest; NaN if unknown.
    pub(in crate::http::page) points: Vec<f64>,
    /// The value in the legend if it is not a point.
    pub(in crate::http::page) now: Option<f64>,
}

/// A marked event.
#[derive(Debug, Clone)]
pub(in crate::http::page) struct Mark {
    /// Unix seconds.
    pub(in crate::http::page) time: f64,
    /// Its description.
    pub(in crate::http::page) text: String,
}

/// Lines over time.
#[derive(Debug, Clone, Default)]
pub(in crate::http::page) struct Chart {
    /// Its title, plain text made visible.
    pub(in crate::http::page) title: String,
    /// The format of values.
    pub(in crate::http::page) unit: Show,
    pub(in crate::http::page) lines: Vec<Line>,
    /// The span shown, in unix seconds.
    pub(in crate::http::page) span: Range<f64>,
    /// Marks of the horizontal scale, with labels.
    pub(in crate::http::page) ticks: Vec<(f64, String)>,
    /// Events inside the span.
    pub(in crate::http::page) marks: Vec<Mark>,
    /// Whether it ends now.
    pub(in crate::http::page) is_live: bool,
    /// The span of the numbers in the legend, in words.
    pub(in crate::http::page) over: &'static str,
    /// The step of its lines, and of those of the comparison span, in words.
    pub(in crate::http::page) by: [String; 2],
    /// Whether a part of it can be zoomed into.
    pub(in crate::http::page) can_zoom: bool,
}

impl Chart {
    /// Draws the chart. `id` distinguishes it from others on the same page.
    pub(in crate::http::page) fn svg(&self, id: &str, theme: Theme) -> Markup {
        let all = self.lines.iter().flat_map(|line| known(&line.points));
        let scale = Scale::new(all.fold(0.0, f64::max));
        // One unit for the whole axis.
        let unit = self.unit.scale(scale.ticks.last().copied());
        let value = |value: f64| match (unit, self.unit) {
            (Some(_), _) | (None, Show::Share) => super::round(&self.unit.text_in(unit, value)),
            (None, _) => formatting::short(value),
        };
        let Range { start, end } = self.span;
        let x = |time: f64| {
            let part = (time - start) / (end - start).max(1.0);
            f64::from(LEFT) + f64::from(RIGHT - LEFT) * part.clamp(0.0, 1.0)
        };
        let path = |line: &Line, area| {
            let x = |at: usize| x(line.start + line.step * at as f64);
            path(&line.points, x, |value| scale.y(value), area)
        };
        let own: Vec<&Line> = self.lines.iter().filter(|line| !line.is_before).collect();
        let body = html! {
            (scale.grid(value, theme))
            (ticks(&self.ticks.iter().map(|(time, text)| (x(*time), text.clone())).collect::<Vec<_>>(), theme))
            @if let [line] = own[..] {
                path class={ "area c" (line.colour) } fill=(theme.colour(COLOURS[line.colour])) fill-opacity="0.12"
                    d=(path(line, true)) {}
            }
            @for line in &self.lines {
                path class={ "line c" (line.colour) @if line.is_before { " before" } } fill="none" stroke=(theme.colour(COLOURS[line.colour]))
                    stroke-width=(if line.is_before { "1" } else { "1.5" }) stroke-dasharray=[line.is_before.then_some("4 3")]
                    stroke-linejoin="round" d=(path(line, false)) {}
            }
            (marks(&self.marks, x, theme))
            @if self.can_zoom && theme == Theme::Page {
                rect.plot x=(LEFT) y=(TOP) width=(RIGHT - LEFT) height=(BOTTOM - TOP) fill="none" data-from=(start) data-to=(end) {}
            }
        };
        frame(id, theme, &self.title, &self.described(), &body)
    }

    /// The chart with its heading and legend, as a figure of a page. `address` is the URL of the
    /// chart alone.
    pub(in crate::http::page) fn figure(&self, id: &str, address: &str) -> Markup {
        let [by, by_before] = &self.by;
        html! {
            figure.chart {
                figcaption {
                    div { a href=(address) { (self.title) } @if !by.is_empty() { small { ", " (by) } } }
                    span.legend {
                        @if !self.over.is_empty() { span { (self.over) ":" } }
                        @for line in self.lines.iter().filter(|line| !line.is_before) {
                            span class={ "key c" (line.colour) } {
                                (line.name) " "
                                @if !self.is_live { "up to " }
                                b { (self.unit.text(self.said(line).unwrap_or(f64::NAN))) }
                            }
                        }
                        @if self.lines.iter().any(|line| line.is_before) { span.key.before { "before" @if by_before != by { ", " (by_before) } } }
                    }
                }
                (self.svg(id, Theme::Page))
            }
        }
    }

    /// The value of a line in the legend: the current one, or the highest.
    fn said(&self, line: &Line) -> Option<f64> {
        if self.is_live { self.newest(line) } else { known(&line.points).reduce(f64::max) }
    }

    /// The current value of a line: that of the time `over`, if there is one, or the newest point.
    fn newest(&self, line: &Line) -> Option<f64> {
        match self.over {
            "" => line.now.or_else(|| known(&line.points).next_back()),
            _ => line.now,
        }
    }

    /// A description of the chart in words.
    fn described(&self) -> String {
        let described = |line: &Line| {
            let name = format!("{}{}", line.name, if line.is_before { " before" } else { "" });
            let least = known(&line.points).fold(f64::INFINITY, f64::min);
            let most = known(&line.points).fold(f64::NEG_INFINITY, f64::max);
            let newest = self.newest(line);
            let has_points = least <= most;
            if !has_points && newest.is_none() {
                return format!("{name}: no data. ");
            }
            let newest = newest.unwrap_or(f64::NAN);
            let [newest, least, most] = [newest, least, most].map(|it| self.unit.text(it));
            let word = match (self.is_live, self.over) {
                (false, _) => "at the end",
                (true, "") => "now",
                (true, over) => over,
            };
            let by = &self.by[usize::from(line.is_before)];
            match has_points {
                true => format!("{name}: {word} {newest}; {by} between {least} and {most}. "),
                false => format!("{name}: {word} {newest}; {by} no data yet. "),
            }
        };
        self.lines.iter().map(described).collect()
    }
}

/// The known points of a line.
fn known(points: &[f64]) -> impl DoubleEndedIterator<Item = f64> {
    points.iter().copied().filter(|value| value.is_finite())
}

/// The points as path data, with gaps where unknown; or, with `area`, the area below them.
fn path(
    points: &[f64],
    x: impl Fn(usize) -> f64,
    y: impl Fn(f64) -> f64,
    area: bool,
) -> PreEscaped<String> {
    let mut data = String::with_capacity(points.len() * 12);
    // Writing to a String cannot fail.
    let mut next = 0;
    for run in points.chunk_by(|a, b| a.is_finite() == b.is_finite()) {
        let start = next;
        next += run.len();
        if !run[0].is_finite() {
            continue;
        }
        // A single point is drawn as a dot.
        let end = if run.len() == 1 { "h3" } else { "" };
        let mut verb = 'M';
        if area {
            let _ = write!(data, "M{} {BOTTOM}", coordinate(x(start)));
            verb = 'L';
        }
        for (at, point) in (start..).zip(run) {
            let _ = write!(data, "{verb}{} {}", coordinate(x(at)), coordinate(y(*point)));
            verb = 'L';
        }
        let _ = if area { write!(data, "V{BOTTOM}Z") } else { write!(data, "{end}") };
    }
    PreEscaped(data)
}

/// Events as vertical lines, each with a handle above that shows its description.
fn marks(marks: &[Mark], x: impl Fn(f64) -> f64, theme: Theme) -> Markup {
    html! {
        @for Mark { time, text } in marks {
            @let x = coordinate(x(*time));
            g.event {
                title { (text) }
                line x1=(x) x2=(x) y1=(TOP) y2=(BOTTOM) stroke=(theme.colour(INK)) stroke-dasharray="1 2" {}
                path d={ "M" (x) " " (TOP) "l-4 -7h8z" } fill=(theme.colour(INK)) {}
            }
        }
    }
}

/// Round times before now, with labels.
pub(in crate::http::page) fn ticks_to_now(span: &Range<f64>) -> Vec<(f64, String)> {
    let now = span.end;
    let span = span.end - span.start;
    let steps = [5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0];
    let step = steps.into_iter().find(|step| span / step <= 4.5).unwrap_or(span / 4.0);
    let count = (span / step + 1e-9).floor() as usize;
    let text = |ago: f64| match ago {
        0.0 => "now".to_owned(),
        ago if step < 60.0 => format!("{MINUS}{ago:.0} s"),
        ago => format!("{MINUS}{:.0} min", ago / 60.0),
    };
    (0..=count)
        .map(|tick| tick as f64 * step)
        // No room for a word that would stick out on the left.
        .filter(|ago| *ago < span * 0.98)
        .map(|ago| (now - ago, text(ago)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<f64>) -> Chart {
        Chart {
            title: "<b>".into(),
            unit: Show::Secs,
            lines: vec![Line {
                name: "p95".to_owned(),
                colour: 0,
                is_before: false,
                start: 0.0,
                step: 10.0,
                points,
                now: None,
            }],
            span: 0.0..40.0,
            ticks: vec![(0.0, "10:00".into()), (5.0, "10:01".into()), (40.0, "now".into())],
            marks: vec![Mark { time: 20.0, text: "<i>".into() }],
            is_live: true,
            over: "",
            by: [formatting::by(10), String::new()],
            can_zoom: true,
        }
    }

    #[test]
    fn lines_stay_inside_and_gaps_are_gaps() {
        let svg = chart(vec![0.0, 1.0, f64::NAN, 0.5, 0.25]).svg("x", Theme::Light).into_string();
        let line = svg.split("class=\"line").nth(1).unwrap();
        let path = line.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert_eq!(path.matches('L').count(), 2, "{path}");
        assert!(path.starts_with(&format!("M{LEFT} {BOTTOM}")), "{path}");
        for y in path.split(['M', 'L']).filter_map(|point| point.split(' ').nth(1)) {
            let y: f64 = y.parse().unwrap();
            assert!((f64::from(TOP)..=f64::from(BOTTOM)).contains(&y), "{y}");
        }
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("<b>"), "{svg}");
        assert_has!(svg => "p95: now 250 ms; by 10 s between 0 and 1.00 s.");
        assert!(!svg.contains("style"), "{svg}");
        assert!(svg.contains("&lt;i&gt;") && svg.contains("M229 8"), "{svg}");
        // Marks that would collide are left out; those of the vertical scale have one unit.
        assert_has!(svg => ">now<", ">10:01<");
        assert_lacks!(svg => ">10:00<");
        assert!(svg.contains(">0.5 s<") && svg.contains(">1 s<"), "{svg}");
    }

    #[test]
    fn a_legend_says_nothing_older_than_its_seconds() {
        let legend = |over, now| {
            let mut chart = Chart { over, ..chart(vec![0.25, f64::NAN]) };
            chart.lines[0].now = now;
            chart.figure("x", "/").into_string()
        };
        assert_has!(legend("", None) => "<b>250 ms</b>", "<small>, by 10 s</small>");
        // Of another time than the points, between which it need not be.
        let newest = legend("last 5 s", Some(0.5));
        assert_has!(newest => "<b>500 ms</b>", "p95: last 5 s 500 ms; by 10 s between 250 ms and 250 ms");
        assert_has!(legend("last 5 s", None) => "<b>\u{2013}</b>", "last 5 s \u{2013}; by 10 s between");
    }

    #[test]
    fn nothing_known_is_an_empty_chart() {
        for points in [vec![], vec![f64::NAN; 3], vec![0.0; 3]] {
            let svg = chart(points).svg("x", Theme::Page).into_string();
            assert!(svg.contains("</svg>") && !svg.contains("NaN"), "{svg}");
        }
    }
}
