//! Charts as SVG, drawn on the server: lines over time, and histograms.
//!
//! The scales and their round numbers come from plotters; the drawing is written with maud, so that
//! a chart inside a page takes its colours from the style sheet (light, dark) and text from packets
//! is escaped. Colours are also set as attributes, for a stand-alone chart, as in a wiki: the
//! policy allows no inline style. A chart has a title and a description in words, for those who do
//! not see it. Work and size are bounded by the number of points and bars.

use maud::{Markup, html};
use plotters::coord::ranged1d::{BoldPoints, Ranged};
use plotters::coord::types::RangedCoordf64;

mod heat;
mod histogram;
mod lines;

pub(super) use self::heat::heat;
pub(super) use self::histogram::histogram;
pub(super) use self::lines::{Chart, Line, Mark, ticks_to_now};

const WIDTH: i32 = 400;
const HEIGHT: i32 = 156;
/// Position of the vertical scale.
const LEFT: i32 = 64;
const BOTTOM: i32 = 126;
/// Top of the texts of the horizontal scale, whose baseline is a line and a half below: clear of
/// the lowest one on the left, whatever their size.
const BELOW: i32 = BOTTOM + 1;
const TOP: i32 = 8;
const RIGHT: i32 = WIDTH - 6;
/// Magnification of a stand-alone chart.
const ALONE: i32 = 2;

/// Whether the page sets colours, or the chart must have its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    /// Inside a page.
    Page,
    /// Alone, on white.
    Light,
    /// Stand-alone, on white.
    Dark,
}

/// A colour on white, and on black.
type Colour = (&'static str, &'static str);

/// Colours of lines; the style sheet has the same.
const COLOURS: [Colour; 4] = [
    ("#1f6fd1", "#6fb1ff"),
    ("#b45309", "#f5a742"),
    ("#b3261e", "#ff8a80"),
    ("#0f766e", "#4fd1c5"),
];
/// Number of distinct colours of lines.
pub(super) const COLOURS_MAX: usize = COLOURS.len();
const INK: Colour = ("#4b5563", "#c3c9d3");
const GRID: Colour = ("#e3e7ee", "#343b47");
const BACK: Colour = ("#ffffff", "#14181f");

impl Theme {
    fn colour(self, (light, dark): Colour) -> &'static str {
        if self == Self::Dark { dark } else { light }
    }
}

/// Everything around the drawing.
fn frame(id: &str, theme: Theme, title: &str, described: &str, body: &Markup) -> Markup {
    let alone = theme != Theme::Page;
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
            aria-labelledby={ (id) "-t " (id) "-d" } font-family="system-ui, sans-serif" font-size="12"
            width=[alone.then_some(ALONE * WIDTH)] height=[alone.then_some(ALONE * HEIGHT)] {
            title id={ (id) "-t" } { (title) }
            desc id={ (id) "-d" } { (described) }
            @if alone { rect width=(WIDTH) height=(HEIGHT) fill=(theme.colour(BACK)) {} }
            (body)
        }
    }
}

/// The vertical scale: from 0 to a round number above all values.
struct Scale {
    coordinate: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Scale {
    fn new(highest: f64) -> Self {
        let room = if highest > 0.0 { highest * 1.08 } else { 1.0 };
        let coordinate = RangedCoordf64::from(0.0..room);
        let ticks = coordinate.key_points(BoldPoints(5));
        Self { coordinate, ticks }
    }

    /// The position of a value. plotters counts in whole pixels, so it is asked in tenths.
    fn y(&self, value: f64) -> f64 {
        f64::from(self.coordinate.map(&value, (BOTTOM * 10, TOP * 10))) / 10.0
    }

    fn grid(&self, text: impl Fn(f64) -> String, theme: Theme) -> Markup {
        let shown: Vec<String> = self.ticks.iter().map(|tick| text(*tick)).collect();
        // There is no room for more to the left of the plot.
        let is_long = shown.iter().any(|text| text.chars().count() > 6);
        html! {
            @for (tick, text) in self.ticks.iter().zip(&shown) {
                @let y = coordinate(self.y(*tick));
                line.grid x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) stroke=(theme.colour(GRID)) {}
                text.tick.long[is_long] x=(LEFT - 6) y=(y) dy="0.32em" text-anchor="end" fill=(theme.colour(INK)) { (text) }
            }
        }
    }
}

/// Largest width of a text of the horizontal scale: the widest digits in the largest size on a
/// page.
fn width(text: &str) -> f64 {
    9.7 * text.chars().count() as f64
}

/// Marks on the horizontal scale with labels. Where two would collide, the later one stays; of
/// marks in equal steps every second one, or every third, so that the steps stay equal.
fn ticks(marks: &[(f64, String)], theme: Theme) -> Markup {
    let mut marks: Vec<_> = marks.iter().collect();
    marks.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let is_even = |it: &[&(f64, String)]| (it[0].0 - 2.0 * it[1].0 + it[2].0).abs() < 1.0;
    let widest = marks.iter().map(|(_, text)| width(text)).fold(0.0, f64::max);
    let every = match marks[..] {
        [(last, _), (other, _), ..] if marks.windows(3).all(is_even) => {
            ((widest + 8.0) / (last - other)).ceil() as usize
        }
        _ => 1,
    };
    let mut shown: Vec<(f64, &str, &str)> = Vec::new();
    let mut free = f64::from(WIDTH);
    for (x, text) in marks.into_iter().step_by(every.max(1)) {
        let width = width(text);
        // At the right edge there is no room for the second half of a text.
        let (x, anchor, from) = match x + width / 2.0 > f64::from(WIDTH) {
            true => (f64::from(RIGHT), "end", f64::from(RIGHT) - width),
            false => (*x, "middle", x - width / 2.0),
        };
        let to = if anchor == "end" { x } else { from + width };
        if to <= free && from >= 0.0 {
            shown.push((x, text, anchor));
            free = from - 8.0;
        }
    }
    html! {
        @for (x, text, anchor) in shown.iter().rev() {
            text.tick x=(coordinate(*x)) y=(BELOW) dy="1.5em" text-anchor=(anchor) fill=(theme.colour(INK)) { (text) }
        }
    }
}

/// Strips zeros after the point, for the round numbers of a scale.
fn round(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

/// Formats a coordinate; one decimal is a tenth of a pixel.
fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
