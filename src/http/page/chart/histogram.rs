//! A histogram over a logarithmic scale of time.
//!
//! Buckets of whatever widths become bars of a quarter of a doubling each, at most some two hundred.

use maud::{Markup, html};

use super::{BOTTOM, LEFT, RIGHT, Scale, TOP, Theme, coordinate, frame, round};
use crate::http::page::show;
use crate::query::read_model::DistributionBucket;

/// Bars for one doubling of time.
const BARS_A_DOUBLING: f64 = 4.0;

/// A histogram over a logarithmic scale of time, with marks at some quantiles.
pub(in crate::http::page) fn histogram(
    id: &str,
    theme: Theme,
    title: &str,
    buckets: &[DistributionBucket],
    marks: &[(&str, f64)],
) -> Markup {
    let place = |us: u64| (us.max(1) as f64).log2() * BARS_A_DOUBLING;
    let known = buckets.iter().filter(|bucket| bucket.count > 0);
    let first = known
        .clone()
        .map(|bucket| place(bucket.low_us).floor())
        .fold(f64::INFINITY, f64::min);
    let last = known
        .clone()
        .map(|bucket| place(bucket.high_us.saturating_sub(1)).floor())
        .fold(0.0, f64::max);
    if first > last {
        return html! { p.none { "No times are known." } };
    }
    let (first, last) = (first - 1.0, last + 2.0);
    let bars = (last - first) as usize;
    let mut counts = vec![0.0; bars];
    for bucket in known {
        // A wide bucket goes where its middle is.
        let middle = place(bucket.low_us.midpoint(bucket.high_us.saturating_sub(1)));
        let at = (middle.floor() - first).max(0.0) as usize;
        if let Some(count) = counts.get_mut(at) {
            *count += bucket.count as f64;
        }
    }
    let total: f64 = counts.iter().sum();
    let scale = Scale::new(counts.iter().copied().fold(0.0, f64::max));
    let width = f64::from(RIGHT - LEFT) / bars as f64;
    let x = |place: f64| f64::from(LEFT) + (place - first) * width;
    let edge = |bar: f64| (bar / BARS_A_DOUBLING).exp2() / 1e6;
    let described = format!(
        "{} values in {bars} classes from {} to {}. {}",
        show::count(total as u64),
        show::secs(edge(first)),
        show::secs(edge(last)),
        marks
            .iter()
            .map(|(name, secs)| format!("{name} {}. ", show::secs(*secs)))
            .collect::<String>()
    );
    let body = html! {
        (scale.grid(|count| show::count(count as u64), theme))
        @for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            @let y = scale.y(*count).min(f64::from(BOTTOM) - 1.0);
            rect.column x=(coordinate(x(first + at as f64) + 0.5)) y=(coordinate(y)) width=(coordinate((width - 1.0).max(0.5)))
                height=(coordinate(f64::from(BOTTOM) - y)) fill=(theme.colour(0)) {
                title { (show::secs(edge(first + at as f64))) " to " (show::secs(edge(first + at as f64 + 1.0))) ": " (show::count(*count as u64)) " (" (show::percent(100.0 * count / total)) ")" }
            }
        }
        @for us in decades(edge(first) * 1e6, edge(last) * 1e6) {
            text.tick x=(coordinate(x(us.log2() * BARS_A_DOUBLING))) y=(BOTTOM + 17) text-anchor="middle" fill=(theme.ink()) { (round(&show::secs(us / 1e6))) }
        }
        @for (at, (name, secs)) in marks.iter().enumerate().filter(|(_, (_, secs))| *secs > 0.0) {
            @let x = coordinate(x((secs * 1e6).max(1.0).log2() * BARS_A_DOUBLING).clamp(f64::from(LEFT), f64::from(RIGHT)));
            line.mark x1=(x) x2=(x) y1=(TOP) y2=(BOTTOM) stroke=(theme.colour(1)) stroke-dasharray="3 2" {}
            text.mark x=(x) y=(TOP + 8 + 11 * i32::try_from(at).unwrap_or(0)) dx="3" fill=(theme.colour(1)) { (name) }
        }
    };
    frame(id, theme, title, &described, &body)
}

/// Round times between two, not more than fit.
fn decades(from_us: f64, to_us: f64) -> Vec<f64> {
    let steps: &[f64] = if to_us / from_us > 500.0 {
        &[1.0]
    } else {
        &[1.0, 3.0]
    };
    let mut ticks = Vec::new();
    let mut decade = 1.0;
    while decade <= to_us {
        ticks.extend(
            steps
                .iter()
                .map(|step| step * decade)
                .filter(|us| (from_us..=to_us).contains(us)),
        );
        decade *= 10.0;
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_count_everything_once() {
        let bucket = |low_us, high_us, count| DistributionBucket {
            low_us,
            high_us,
            count,
        };
        let buckets = [
            bucket(0, 1, 3),
            bucket(1000, 1008, 5),
            bucket(1 << 40, (1 << 40) + 9, 2),
        ];
        let svg = histogram("x", Theme::Page, "t", &buckets, &[("p50", 0.001)]).into_string();
        assert!(svg.contains("10 values in"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(
            histogram("x", Theme::Page, "t", &[], &[])
                .into_string()
                .contains("No times")
        );
    }
}
