//! A histogram over a logarithmic scale of time.
//!
//! Buckets of any width become bars of a quarter of a doubling each, at most some two hundred.

use maud::{Markup, html};

use super::{
    BACK, BOTTOM, COLOURS, LEFT, RIGHT, Scale, TOP, Theme, coordinate, frame, round, ticks,
};
use crate::http::page::formatting;
use crate::query::answer::DistributionBucket;

/// Bars per doubling of time.
const BARS_A_DOUBLING: f64 = 4.0;
/// Room for the name of a mark beside its line.
const LABEL: f64 = 40.0;

/// A histogram over a logarithmic scale of time, with marks at some quantiles.
pub(in crate::http::page) fn histogram(
    id: &str,
    theme: Theme,
    title: &str,
    buckets: &[DistributionBucket],
    marks: &[(&str, f64)],
) -> Markup {
    let place = |us: u64| (us.max(1) as f64).log2() * BARS_A_DOUBLING;
    let last_of = |bucket: &DistributionBucket| bucket.high_us.saturating_sub(1);
    let known = buckets.iter().filter(|bucket| bucket.count > 0);
    let lowest = known.clone().map(|bucket| place(bucket.low_us).floor());
    let highest = known.clone().map(|bucket| place(last_of(bucket)).floor());
    let first = lowest.fold(f64::INFINITY, f64::min) - 1.0;
    let last = highest.fold(0.0, f64::max) + 2.0;
    if first > last {
        return html! { p.none { "No times are known." } };
    }
    let bars = (last - first) as usize;
    let mut counts = vec![0.0; bars];
    for bucket in known {
        // A wide bucket counts at its middle.
        let middle = place(bucket.low_us.midpoint(last_of(bucket)));
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
    let said = |(name, secs): &(&str, f64)| format!("{name} {}. ", formatting::secs(*secs));
    let described = format!(
        "{} in {bars} classes from {} to {}. {}",
        formatting::counted(total as u64, "value"),
        formatting::secs(edge(first)),
        formatting::secs(edge(last)),
        marks.iter().map(said).collect::<String>()
    );
    let placed = |secs: f64| {
        let place = x((secs * 1e6).max(1.0).log2() * BARS_A_DOUBLING);
        place.clamp(f64::from(LEFT), f64::from(RIGHT))
    };
    let marks = marks.iter().enumerate().filter(|(_, (_, secs))| *secs > 0.0);
    let marks = marks.map(|(at, (name, secs))| (at, *name, placed(*secs)));
    let body = html! {
        (scale.grid(formatting::short, theme))
        @for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            @let y = scale.y(*count).min(f64::from(BOTTOM) - 1.0);
            rect.column x=(coordinate(x(first + at as f64) + 0.5)) y=(coordinate(y)) width=(coordinate((width - 1.0).max(0.5)))
                height=(coordinate(f64::from(BOTTOM) - y)) fill=(theme.colour(COLOURS[0])) {
                title { (formatting::secs(edge(first + at as f64))) " to " (formatting::secs(edge(first + at as f64 + 1.0))) ": " (formatting::count(*count as u64)) " (" (formatting::percent(100.0 * count / total)) ")" }
            }
        }
        (ticks(&round_times(edge(first) * 1e6, edge(last) * 1e6).into_iter().map(|us| {
            (x(us.log2() * BARS_A_DOUBLING), round(&formatting::secs(us / 1e6)))
        }).collect::<Vec<_>>(), theme))
        (drawn_marks(&marks.collect::<Vec<_>>(), theme))
    };
    frame(id, theme, title, &described, &body)
}

/// The marks, each with its number, name and place; all lines first, so that none is drawn over a
/// name.
fn drawn_marks(marks: &[(usize, &str, f64)], theme: Theme) -> Markup {
    html! {
        @for (_, _, place) in marks {
            @let x = coordinate(*place);
            line.mark x1=(x) x2=(x) y1=(TOP) y2=(BOTTOM) stroke=(theme.colour(COLOURS[1])) stroke-dasharray="3 2" {}
        }
        @for (at, name, place) in marks {
            // On the left where the edge or the line of another is in its way.
            @let end = place + LABEL;
            @let is_left = end > f64::from(RIGHT) || marks.iter().any(|(_, _, it)| it > place && *it < end);
            text.mark x=(coordinate(*place)) y=(TOP + 9 + 16 * i32::try_from(*at).unwrap_or(0)) dx=(if is_left { "-3" } else { "3" })
                text-anchor=[is_left.then_some("end")] fill=(theme.colour(COLOURS[1]))
                stroke=(theme.colour(BACK)) stroke-width="3" stroke-linejoin="round" paint-order="stroke" { (name) }
        }
    }
}

/// Round times between two, more of them in a narrow span. Those that would collide are left out
/// where they are drawn.
fn round_times(from_us: f64, to_us: f64) -> Vec<f64> {
    let steps: &[f64] = match to_us / from_us {
        ..6.0 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        ..30.0 => &[1.0, 2.0, 5.0],
        _ => return decades(from_us, to_us).collect(),
    };
    let all = (0..20).flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
    all.filter(|us| (from_us..=to_us).contains(us)).collect()
}

/// Round times between two, not more than fit.
pub(super) fn decades(from_us: f64, to_us: f64) -> impl Iterator<Item = f64> {
    // Of more, the labels of thirds would collide.
    let thirds = to_us / from_us <= 200.0;
    let steps = (0..20).flat_map(|power| [1.0, 3.0].map(|step| step * 10_f64.powi(power)));
    let steps = steps.step_by(if thirds { 1 } else { 2 });
    steps.filter(move |us| (from_us..=to_us).contains(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_count_everything_once() {
        let bucket = |low_us, high_us, count| DistributionBucket { low_us, high_us, count };
        let buckets = [bucket(0, 1, 3), bucket(1000, 1008, 5), bucket(1 << 40, (1 << 40) + 9, 2)];
        let svg = histogram("x", Theme::Page, "t", &buckets, &[("p50", 0.001)]).into_string();
        assert!(svg.contains("10 values in"), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert_has!(histogram("x", Theme::Page, "t", &[], &[]).into_string() => "No times");
    }

    #[test]
    fn a_narrow_scale_can_be_read_and_labels_are_beside_lines() {
        for (low_us, high_us) in [(100_000, 130_000), (20_000, 150_000), (1_000, 9_000)] {
            let bucket = DistributionBucket { low_us, high_us: low_us + 1, count: 1 };
            let last = DistributionBucket { low_us: high_us, high_us: high_us + 1, count: 1 };
            let marks = [
                ("p50", 0.000_001),
                ("p95", high_us as f64 / 1e6),
                ("p99", high_us as f64 * 1.02e-6),
            ];
            let svg = histogram("x", Theme::Page, "t", &[bucket, last], &marks).into_string();
            let below = format!("y=\"{}\"", super::super::BELOW);
            assert!(svg.matches(&below).count() >= 3, "{svg}");
            let label = svg.split("<text class=\"mark\"").find(|it| it.contains(">p95<")).unwrap();
            assert_has!(label => "text-anchor=\"end\"");
            let (line, text) =
                (svg.rfind("<line class=\"mark\""), svg.find("<text class=\"mark\""));
            assert!(line < text, "no line is drawn over a label: {svg}");
        }
    }

    #[test]
    fn the_last_tick_is_not_cut_at_the_edge() {
        let cut = |low_us: u64| {
            let bucket = DistributionBucket { low_us, high_us: low_us * 3, count: 1 };
            let svg = histogram("x", Theme::Page, "t", &[bucket], &[]).into_string();
            let ticks = svg.split("<text class=\"tick\" x=\"").skip(1);
            let below =
                ticks.filter(|tick| tick.contains(&format!("y=\"{}\"", super::super::BELOW)));
            let below: Vec<&str> = below.collect();
            assert!(!below.is_empty(), "{svg}");
            let ends = |tick: &&str| {
                let x: f64 = tick.split('"').next().unwrap().parse().unwrap();
                let text = tick.split(['>', '<']).nth(1).unwrap();
                let part = if tick.contains("\"end\"") { 0.0 } else { 0.5 };
                // The largest text of a page has 15 pixels.
                x + part * 9.0 * text.chars().count() as f64 > f64::from(RIGHT) + 6.0
            };
            below.iter().any(ends)
        };
        let some: Vec<u64> = (0..60).map(|at| 10 + at * at * at * at).collect();
        assert_eq!(some.iter().filter(|low_us| cut(**low_us)).count(), 0);
    }
}
