//! Draws heat maps: time from left to right, duration from bottom to top, count as color.
//!
//! Each of the sixteen levels is a single path, so the size is bounded whatever the map shows.
//! Columns link to their requests as far as the addresses fit; if the script is known, each cell
//! has its own link.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use super::histogram::decades;
use super::{BOTTOM, Colour, GRID, INK, LEFT, RIGHT, TOP, Theme, coordinate, frame, round, ticks};
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
/// Maximum total length of addresses in a heat map, bytes; if they are longer, several columns
/// share a link.
const ADDRESSES_BYTES: usize = 24_000;

/// Distance between labels of the left axis, so that they do not touch at the largest size on a
/// page.
const LABELS_APART: f64 = 17.0;

/// Returns the level of a count, from 1; counts from `high` on have the last level.
fn level(count: u64, high: u64) -> usize {
    let part = (count as f64).ln_1p() / (high.max(1) as f64).ln_1p();
    ((LEVELS.len() as f64 * part).ceil() as usize).clamp(1, LEVELS.len())
}

/// Draws a heat map above a time axis with ticks (time and label). `address` has the location of
/// the requests of a part of its time, and whether they can be filtered by duration.
pub(in crate::http::page) fn heat(
    (id, title): (&str, &str),
    theme: Theme,
    map: &HeatMap,
    marks: &[(f64, String)],
    (address, by_time): (&dyn Fn(u64, u64) -> String, bool),
) -> Markup {
    let (Some(&bottom_us), Some(&top_us)) = (map.edges_us.first(), map.edges_us.last()) else {
        return html! { p.none { "No times are known." } };
    };
    let (columns, rows) = (map.columns.len(), map.edges_us.len() - 1);
    let (width, height) = (f64::from(RIGHT - LEFT), f64::from(BOTTOM - TOP));
    let (wide, high) = (width / columns as f64, height / rows as f64);
    let x = |column: usize| f64::from(LEFT) + wide * column as f64;
    let [bottom, top] = [bottom_us, top_us].map(|us| place(us as f64, 1.0));
    let y = |us: f64| f64::from(BOTTOM) - height * (place(us, 1.0) - bottom) / (top - bottom);
    let at = |column: usize| map.from + map.step * column as u64;
    let end = at(columns) as f64;
    let time =
        |unix: f64| f64::from(LEFT) + width * (unix - map.from as f64) / (end - map.from as f64);
    let marks = marks
        .iter()
        .filter(|(unix, _)| (map.from as f64..=end).contains(unix));
    let marks: Vec<_> = marks
        .map(|(unix, text)| (time(*unix), text.clone()))
        .collect();
    let paths = paths(map);
    let mut lines: Vec<f64> = Vec::new();
    for us in decades(bottom_us as f64, top_us as f64) {
        if lines
            .last()
            .is_none_or(|last| y(*last) - y(us) >= LABELS_APART)
        {
            lines.push(us);
        }
    }
    let described = format!(
        "{} in {columns} columns of {}, from {} to {}.",
        formatting::counted(map.total, "value"),
        formatting::roughly(map.step as f64),
        formatting::secs(bottom_us as f64 / 1e6),
        formatting::secs(top_us as f64 / 1e6),
    );
    let body = html! {
        defs { pattern id={ (id) "-gap" } patternUnits="userSpaceOnUse" width="5" height="5" { path d="M0 5L5 0" stroke=(theme.colour(INK)) stroke-width="0.5" {} } }
        @for us in &lines {
            @let y = coordinate(y(*us));
            line.grid x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) stroke=(theme.colour(GRID)) {}
            text.tick x=(LEFT - 6) y=(y) dy="0.32em" text-anchor="end" fill=(theme.colour(INK)) { (round(&formatting::secs(us / 1e6))) }
        }
        @for (column, _) in map.columns.iter().enumerate().filter(|(_, column)| column.is_none()) {
            rect x=(coordinate(x(column))) y=(TOP) width=(coordinate(wide)) height=(BOTTOM - TOP) fill={ "url(#" (id) "-gap)" } {}
        }
        g shape-rendering="crispEdges" transform={ "translate(" (LEFT) " " (BOTTOM) ") scale(" (format!("{wide:.4} {:.4}", -high)) ") translate(0 .5)" } {
            @for (at, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                path class={ "h" (at + 1) } stroke=(theme.colour(LEVELS[at])) d=(PreEscaped(path)) {}
            }
        }
        (ticks(&marks, theme))
        @if theme == Theme::Page { (links(map, (address, by_time), x)) }
    };
    frame(id, theme, title, &described, &body)
}

/// Renders columns as links to their requests; `x` converts to the start of a column. With a
/// script, cells have links of their own.
fn links(
    map: &HeatMap,
    (address, by_time): (&dyn Fn(u64, u64) -> String, bool),
    x: impl Fn(usize) -> f64,
) -> Markup {
    let columns = map.columns.len();
    let at = |column: usize| map.from + map.step * column as u64;
    let bytes = address(at(0), at(columns)).len() + 120;
    let together = (columns * bytes).div_ceil(ADDRESSES_BYTES).max(1);
    let edges: Vec<String> = map.edges_us.iter().map(u64::to_string).collect();
    html! {
        g.cells data-edges=[by_time.then(|| edges.join(","))] {
            @for column in (0..columns).step_by(together) {
                @let last = (column + together).min(columns);
                @let count: u64 = map.columns[column..last].iter().flatten().flatten().sum();
                @if count > 0 {
                    a href=(address(at(column), at(last))) tabindex="-1" {
                        title { (formatting::counted(count, "request")) }
                        rect x=(coordinate(x(column))) y=(TOP) width=(coordinate(x(last) - x(column))) height=(BOTTOM - TOP) fill="transparent" {}
                    }
                }
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
        let level_at = |column: usize| {
            let count = map.columns.get(column)?.as_ref()?[row];
            (count > 0).then(|| level(count, high))
        };
        let mut column = 0;
        while column < map.columns.len() {
            let found = level_at(column);
            let run = (column..).take_while(|at| level_at(*at) == found && *at < map.columns.len());
            let run = run.count();
            if let Some(level) = found {
                // Writing to a String cannot fail.
                let _ = write!(paths[level - 1], "M{column} {row}h{run}");
            }
            column += run;
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::heatmap::{COLUMNS_MAX, ROWS_MAX};

    #[test]
    fn levels_follow_the_logarithm_of_the_count() {
        assert_eq!(
            [1, 9, 99, 999, 5_000].map(|count| level(count, 999)),
            [2, 6, 11, 16, 16]
        );
        assert_eq!(level(1, 1), 16);
        assert_eq!(level(1, 1_000_000), 1);
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
            edges_us: (0..=rows as u64)
                .map(|row| (100 << (row / 4)) | (row % 4))
                .collect(),
            columns: (0..COLUMNS_MAX).map(column).collect(),
            total: 1,
            partial: Vec::new(),
        };
        let address = |from: u64, to: u64| {
            format!(
                "/requests?from={from}&to={to}&script_name={}",
                "%2F".repeat(512)
            )
        };
        for theme in [Theme::Page, Theme::Dark] {
            let svg = heat(("x", "t"), theme, &map, &[], (&address, true)).into_string();
            assert!(svg.len() < 100_000, "{}", svg.len());
            assert!(
                (1..=16).contains(&svg.matches("<path class=\"h").count()),
                "{svg}"
            );
            assert_eq!(svg.matches("fill=\"url(#x-gap)\"").count(), 12);
        }
    }
}
