//! Draws heat maps: time from left to right, duration from bottom to top, count as color.
//!
//! Each of the sixteen levels is a single path, so the size is bounded whatever the map shows.
//! Columns link to their requests as far as the addresses fit; if the script is known, each cell
//! has its own link.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::histogram::decades;
use super::{
    BACK, BOTTOM, COLOURS, Colour, GRID, INK, LEFT, RIGHT, TOP, Theme, coordinate, frame, round,
    ticks,
};
use crate::http::page::formatting;
use crate::query::heatmap::{HeatMap, place};

/// Colors of the levels in ascending order: pale to dark on white, dim to bright on black. The
/// style sheet has the same values.
const LEVELS: [Colour; 16] = [
    ("#bcde28", "#3f4988"),
    ("#94d741", "#38578c"),
    ("#6fcd58", "#32658e"),
    ("#4ec26b", "#2d728e"),
    ("#33b67a", "#277f8e"),
    ("#22a884", "#228b8d"),
    ("#1f9a8a", "#1f988b"),
    ("#228b8d", "#21a486"),
    ("#287d8e", "#2cb07e"),
    ("#2e6e8e", "#3fbb74"),
    ("#355f8d", "#58c666"),
    ("#3c4f8a", "#75d054"),
    ("#433e84", "#96d83f"),
    ("#472b7a", "#b9de2a"),
    ("#48186a", "#dbe31d"),
    ("#440154", "#fde725"),
];
/// Color of the lines of limits.
const LIMIT: Colour = ("#111827", "#ffffff");
/// Maximum total length of addresses in a heat map, bytes; if they are longer, several columns
/// share a link.
const ADDRESSES_BYTES: usize = 24_000;

/// Height of the row of errors, and what it takes from the map.
const ERRORS_HEIGHT: i32 = 7;
const ERRORS_ROOM: i32 = 13;
/// Opacities of errors, from few to many.
const ERROR_LEVELS: [f64; 4] = [0.4, 0.6, 0.8, 1.0];

/// Distance between labels of the left axis, so that they do not touch at the largest size on a
/// page.
const LABELS_APART: f64 = 17.0;

/// Returns the level of a count, from 1; counts from `high` on have the last level.
fn level(count: u64, high: u64, levels: usize) -> usize {
    let part = (count as f64).ln_1p() / (high.max(1) as f64).ln_1p();
    ((levels as f64 * part).ceil() as usize).clamp(1, levels)
}

/// Draws a heat map above a time axis with ticks (time and label), with lines at the limits of
/// objectives (name and microseconds), and errors in a row on top. `address` returns the URL of the
/// requests between two times; `of_requests` says whether they are counted, and can be filtered by
/// duration too, or hits of timers.
pub(in crate::http::page) fn heat(
    (id, title): (&str, &str),
    theme: Theme,
    map: &HeatMap,
    marks: &[(f64, String)],
    limits: &[(String, u64)],
    (address, of_requests): (&dyn Fn(u64, u64) -> String, bool),
) -> Markup {
    let (Some(&bottom_us), Some(&top_us)) = (map.edges_us.first(), map.edges_us.last()) else {
        return html! { p.none { "No times are known." } };
    };
    let (columns, rows) = (map.columns.len(), map.edges_us.len() - 1);
    let errors: u64 = map.errors.iter().sum();
    let upper = if errors > 0 { TOP + ERRORS_ROOM } else { TOP };
    let (width, height) = (f64::from(RIGHT - LEFT), f64::from(BOTTOM - upper));
    let (cell_width, cell_height) = (width / columns as f64, height / rows as f64);
    let x = |column: usize| f64::from(LEFT) + cell_width * column as f64;
    let [bottom, top] = [bottom_us, top_us].map(|us| place(us as f64, 1.0));
    let y = |us: f64| f64::from(BOTTOM) - height * (place(us, 1.0) - bottom) / (top - bottom);
    let at = |column: usize| map.from + map.step * column as u64;
    let end = at(columns) as f64;
    let time =
        |unix: f64| f64::from(LEFT) + width * (unix - map.from as f64) / (end - map.from as f64);
    let span = map.from as f64..=end;
    let marks = marks.iter().filter(|(unix, _)| span.contains(unix));
    let mark = |(unix, text): &(f64, String)| (time(*unix), text.clone());
    let marks: Vec<_> = marks.map(mark).collect();
    let paths = paths(map);
    // A label above its line, or below it where there is no room.
    let has_room = |y: f64| y - 13.0 > f64::from(upper);
    let above = |y: f64| if has_room(y) { y - 4.0 } else { y + 11.0 };
    let mut lines: Vec<f64> = Vec::new();
    for us in decades(bottom_us as f64, top_us as f64) {
        let is_apart = |last: &f64| y(*last) - y(us) >= LABELS_APART;
        let is_below_errors = errors == 0 || y(us) - errors_middle() >= LABELS_APART;
        if is_below_errors && lines.last().is_none_or(is_apart) {
            lines.push(us);
        }
    }
    // A few rows may lie between two round times.
    if lines.is_empty() {
        lines.push(bottom_us as f64);
    }
    let mut limits: Vec<u64> = limits.iter().map(|it| it.1).collect();
    limits.retain(|us| (bottom_us..=top_us).contains(us));
    limits.sort_unstable();
    limits.dedup();
    let secs = |us: u64| formatting::secs(us as f64 / 1e6);
    let mut described = format!(
        "{} in {} {}, from {} to {}.",
        formatting::counted(map.total, "value"),
        formatting::counted(columns as u64, "column"),
        formatting::by(map.step),
        secs(bottom_us),
        secs(top_us),
    );
    if errors > 0 {
        described += &format!(" {}.", formatting::counted(errors, "error"));
    }
    for us in &limits {
        described += &format!(" An objective allows {}.", secs(*us));
    }
    let body = html! {
        defs { pattern id={ (id) "-gap" } patternUnits="userSpaceOnUse" width="5" height="5" { path d="M0 5L5 0" stroke=(theme.colour(INK)) stroke-width="0.5" {} } }
        @for us in &lines {
            @let y = coordinate(y(*us));
            line.grid x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) stroke=(theme.colour(GRID)) {}
            text.tick x=(LEFT - 6) y=(y) dy="0.32em" text-anchor="end" fill=(theme.colour(INK)) { (round(&formatting::secs(us / 1e6))) }
        }
        @for (column, _) in map.columns.iter().enumerate().filter(|(_, column)| column.is_none()) {
            rect x=(coordinate(x(column))) y=(upper) width=(coordinate(cell_width)) height=(BOTTOM - upper) fill={ "url(#" (id) "-gap)" } {}
        }
        g shape-rendering="crispEdges" transform={ "translate(" (LEFT) " " (BOTTOM) ") scale(" (format!("{cell_width:.4} {:.4}", -cell_height)) ") translate(0 .5)" } {
            @for (at, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                path class={ "h" (at + 1) } stroke=(theme.colour(LEVELS[at])) d=(PreEscaped(path)) {}
            }
        }
        @if errors > 0 { (error_row(map, theme, cell_width)) }
        @for us in &limits {
            @let y = y(*us as f64);
            // On a ground of its own, since the cells have every brightness.
            @for (class, colour, wide, dashes) in [("under", BACK, 3.0, None), ("limit", LIMIT, 1.4, Some("5 3"))] {
                line class=(class) x1=(LEFT) x2=(RIGHT) y1=(coordinate(y)) y2=(coordinate(y)) stroke=(theme.colour(colour)) stroke-width=(wide) stroke-dasharray=[dashes] {}
            }
            text.limit x=(RIGHT - 3) y=(coordinate(above(y))) text-anchor="end" fill=(theme.colour(LIMIT)) stroke=(theme.colour(BACK)) stroke-width="3" stroke-linejoin="round" paint-order="stroke" { (secs(*us)) }
        }
        (ticks(&marks, theme))
        @if theme == Theme::Page { (links(map, (address, of_requests), upper, x)) }
    };
    frame(id, theme, title, &described, &body)
}

/// Renders columns as links to their requests; `x` converts to the start of a column. With a
/// script, cells have links of their own.
fn links(
    map: &HeatMap,
    (address, of_requests): (&dyn Fn(u64, u64) -> String, bool),
    upper: i32,
    x: impl Fn(usize) -> f64,
) -> Markup {
    let columns = map.columns.len();
    let counted = if of_requests { "request" } else { "hit" };
    let at = |column: usize| map.from + map.step * column as u64;
    let bytes = address(at(0), at(columns)).len() + 120;
    let together = (columns * bytes).div_ceil(ADDRESSES_BYTES).max(1);
    let edges: Vec<String> = map.edges_us.iter().map(u64::to_string).collect();
    html! {
        g.cells data-edges=[of_requests.then(|| edges.join(","))] {
            @for column in (0..columns).step_by(together) {
                @let last = (column + together).min(columns);
                @let count: u64 = map.columns[column..last].iter().flatten().flatten().sum();
                @if count > 0 {
                    a href=(address(at(column), at(last))) tabindex="-1" {
                        @let errors: u64 = map.errors[column..last].iter().sum();
                        title { (formatting::counted(count, counted)) @if errors > 0 { ", " (formatting::counted(errors, "error")) } }
                        rect x=(coordinate(x(column))) y=(upper) width=(coordinate(x(last) - x(column))) height=(BOTTOM - upper) fill="transparent" {}
                    }
                }
            }
        }
    }
}

/// The middle of the row of errors.
fn errors_middle() -> f64 {
    f64::from(TOP) + f64::from(ERRORS_HEIGHT) / 2.0
}

/// Draws the errors of each column, in a row above the map.
fn error_row(map: &HeatMap, theme: Theme, cell_width: f64) -> Markup {
    let high = map.errors.iter().copied().max().unwrap_or(0);
    let mut paths: [String; ERROR_LEVELS.len()] = Default::default();
    add_row(&mut paths, 0, map.errors.len(), |column| {
        let count = map.errors[column];
        (count > 0).then(|| level(count, high, ERROR_LEVELS.len()))
    });
    let middle = coordinate(errors_middle());
    html! {
        text.tick x=(LEFT - 6) y=(middle) dy="0.32em" text-anchor="end" fill=(theme.colour(INK)) { "errors" }
        g.errors shape-rendering="crispEdges" transform={ "translate(" (LEFT) " " (TOP) ") scale(" (format!("{cell_width:.4}")) " " (ERRORS_HEIGHT) ") translate(0 .5)" } {
            @for (path, opacity) in paths.iter().zip(ERROR_LEVELS).filter(|(path, _)| !path.is_empty()) {
                path.c2 stroke=(theme.colour(COLOURS[2])) stroke-opacity=(opacity) d=(PreEscaped(path)) {}
            }
        }
    }
}

/// Returns one path for each level. Cells are one unit wide and high, and drawn as strokes through
/// their middles, which takes the fewest bytes.
fn paths(map: &HeatMap) -> [String; 16] {
    let high = map.high();
    let mut paths: [String; 16] = Default::default();
    for row in 0..map.edges_us.len() - 1 {
        add_row(&mut paths, row, map.columns.len(), |column| {
            let count = map.columns[column].as_ref()?[row];
            (count > 0).then(|| level(count, high, LEVELS.len()))
        });
    }
    paths
}

/// Adds a row to the paths of its levels; `level_at` has that of a column, from 1.
fn add_row(
    paths: &mut [String],
    row: usize,
    columns: usize,
    level_at: impl Fn(usize) -> Option<usize>,
) {
    let mut column = 0;
    while column < columns {
        let found = level_at(column);
        let run = (column..columns).take_while(|at| level_at(*at) == found).count();
        if let Some(level) = found {
            // Writing to a String cannot fail.
            let _ = write!(paths[level - 1], "M{column} {row}h{run}");
        }
        column += run;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::heatmap::{COLUMNS_MAX, ROWS_MAX};

    #[test]
    fn levels_follow_the_logarithm_of_the_count() {
        assert_eq!([1, 9, 99, 999, 5_000].map(|count| level(count, 999, 16)), [2, 6, 11, 16, 16]);
        assert_eq!(level(1, 1, 16), 16);
        assert_eq!(level(1, 1_000_000, 16), 1);
    }

    #[test]
    fn a_single_row_of_cells_has_a_label() {
        let map = HeatMap {
            step: 30,
            edges_us: vec![500_000, 520_000],
            columns: vec![Some(vec![1])],
            errors: vec![0],
            total: 1,
            ..HeatMap::default()
        };
        let address = |_: u64, _: u64| String::new();
        let svg = heat(("x", "t"), Theme::Page, &map, &[], &[], (&address, true));
        assert_has!(svg.into_string() => ">500 ms</text>", "<title>1 request</title>");
        let svg = heat(("x", "t"), Theme::Page, &map, &[], &[], (&address, false));
        assert_has!(svg.into_string() => "<title>1 hit</title>");
    }

    #[test]
    fn the_largest_is_not_too_large() {
        let rows = ROWS_MAX as usize;
        let column = |at: u64| {
            let counts = (0..rows as u64).map(|row| 1 << ((at * 7 + row * 5) % 20));
            (at % 10 != 3).then(|| counts.collect())
        };
        let map = HeatMap {
            from: 1_700_000_000,
            step: 30,
            edges_us: (0..=rows as u64).map(|row| (100 << (row / 4)) | (row % 4)).collect(),
            columns: (0..COLUMNS_MAX).map(column).collect(),
            errors: (0..COLUMNS_MAX).map(|at| at % 7 * at).collect(),
            total: 1,
            partial: Vec::new(),
        };
        let address = |from: u64, to: u64| {
            format!("/requests?from={from}&to={to}&script_name={}", "%2F".repeat(512))
        };
        for theme in [Theme::Page, Theme::Dark] {
            let limits = [("a".to_owned(), 800), ("b".to_owned(), 99_999_999)];
            let svg = heat(("x", "t"), theme, &map, &[], &limits, (&address, true));
            let svg = svg.into_string();
            assert!(svg.len() < 100_000, "{}", svg.len());
            assert!((1..=16).contains(&svg.matches("<path class=\"h").count()), "{svg}");
            assert_eq!(svg.matches("fill=\"url(#x-gap)\"").count(), 12);
            // A line at 800 us; the other limit is above the map. Errors are in four levels.
            assert_eq!(svg.matches("<line class=\"limit\"").count(), 1);
            assert!(svg.contains(">800 \u{b5}s</text>") && !svg.contains(">100 s<"));
            let levels = svg.matches("<path class=\"c2\"").count();
            assert_eq!((levels, svg.matches(">errors<").count()), (4, 1));
        }
    }
}
