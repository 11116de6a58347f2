//! Values that readers show, compared with the gains.

use super::*;

/// Number by which a second began, and what was gained in it.
type Line = BTreeMap<u64, Sums>;

/// Points of lines are what was gained in those seconds. Of rows that found no room in the memory
/// of the hour they may be unknown.
pub(super) fn check_series(world: &World, gains: &Gains, is_short: bool) {
    let series = &world.series;
    let reach = series.coverage().unwrap();
    // When each second began, by the count of seconds that goes on when the clock is set.
    let mut end = reach.to;
    let mut began: Vec<u64> = Vec::new();
    for secs in world.seen.secs.iter().rev() {
        end -= secs;
        began.push(end);
    }
    began.reverse();
    let mut rows: BTreeMap<(&str, Option<&str>), Line> = BTreeMap::new();
    for ((second, report, key), sums) in gains {
        for key in [Some(key.as_str()), None] {
            let row = rows.entry((report, key)).or_default();
            row.entry(began[*second]).or_default().add(sums);
        }
    }
    let some = rows.len().div_ceil(500);
    let mut shown = 0;
    for (at, ((report, key), line)) in rows.iter().enumerate() {
        let is_made = report.starts_with("made");
        let mut made = world.made.iter();
        let known = !is_made || made.any(|it| it.name == *report && it.is_watched);
        if !known || *key == Some("(other)") || (key.is_some() && at % some > 0) {
            continue;
        }
        let texts = key.map(|key| key.split_whitespace().map(str::to_owned));
        let texts: Option<Vec<String>> = texts.map(Iterator::collect);
        let metrics = ["req_count", "hit_count", "time_total"];
        let metrics = metrics.map(|name| Metric::parse(name).unwrap());
        let spans = [(reach.fine_from, 1), (reach.fine_from + 7, 7), (reach.from, 10)];
        for (from, step) in spans {
            let span = (from, reach.to, step);
            let found = match series.lines(report, texts.as_deref(), &metrics, span) {
                Ok(found) => found,
                // It may have gained something before it was dropped and made again only.
                Err(why) => {
                    assert!((is_short || is_made) && key.is_some(), "{why}");
                    continue;
                }
            };
            if step > 1 && reach.from == reach.fine_from {
                continue;
            }
            assert_eq!(found.step, step);
            let points = &found.points[0];
            // One that was made meanwhile is not known before, and another of its name may have
            // been dropped just then.
            let first = points.iter().position(Option::is_some).unwrap_or_default();
            let first = first + usize::from(is_made);
            let in_span = |from: u64, to: u64| {
                let mut sums = Sums::default();
                line.range(from..to).for_each(|(_, more)| sums.add(more));
                sums
            };
            for (at, point) in points.iter().enumerate().skip(first) {
                // Tens are made when the wall clock shows the end of one: set, it makes longer
                // ones.
                if step == 10 || (is_short && key.is_some() && point.is_none()) {
                    continue;
                }
                let begin = found.from + step * at as u64;
                let sums = in_span(begin, begin + step);
                let expected = [sums.requests as f64, sums.hits as f64, sums.time as f64 / 1e6];
                let shown = [0, 1, 2].map(|metric| found.points[metric][at]);
                let place = format!("{report} {key:?} {begin} by {step}");
                assert_eq!(shown, expected.map(Some), "{place}");
            }
            shown += 1;
            if !is_made && (!is_short || key.is_none()) {
                let sum: f64 = points.iter().flatten().sum();
                let expected = in_span(found.from, reach.to).requests;
                assert_eq!(sum, expected as f64, "{report} {key:?} by {step}");
            }
        }
    }
    assert!(shown >= if is_short { 4 } else { 100 }, "{shown}");
}

/// Counters are what was gained ever; those of rows without a place are under `(other)`.
pub(super) fn check_metrics(world: &World, gains: &Gains, is_short: bool) {
    let text = world.metrics.write(Vec::new(), Format::Classic, Vec::new());
    let samples: BTreeMap<&str, f64> = text
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect();
    let rows = summed(gains, |(_, report, key)| (report.clone(), key.clone()));
    for report in WATCHED {
        let names: &[&str] = match report {
            "info" => &[],
            "report_by_script_name" => &["script_name"],
            "by_group" => &["timer_group"],
            _ => &["script_name", "timer_group"],
        };
        let kind = match report.starts_with("by_") {
            true => "timer",
            false => "request",
        };
        let sample = |name: &str, le: &str, key: &str| {
            let mut labels = format!("{le}report=\"{report}\"");
            let texts = key.split(' ').chain(std::iter::repeat("(other)"));
            for (name, text) in names.iter().zip(texts) {
                labels.push_str(&format!(",{name}=\"{text}\""));
            }
            let name = format!("pinbad_{kind}_{name}{{{labels}}}");
            samples.get(name.as_str()).copied()
        };
        // What the counters of a row show; hits are not among them.
        let shown = |key: &str| {
            let count = sample("duration_seconds_count", "", key)?;
            let mut below = 0;
            let times = ["0.1", "0.508", "+Inf"].map(|bound| {
                let le = format!("le=\"{bound}\",");
                let found = sample("duration_seconds_bucket", &le, key).unwrap() as u64;
                found - std::mem::replace(&mut below, found)
            });
            assert_eq!(below, count as u64, "{report} {key}");
            let requests = match kind {
                "timer" => sample("requests_total", "", key).unwrap(),
                _ => count,
            };
            let secs = sample("duration_seconds_sum", "", key).unwrap();
            Some(Sums {
                requests: requests as u64,
                time: (secs * 1e6).round() as u128,
                hits: 0,
                times,
            })
        };
        let (mut placed, mut rest) = (0, Sums::default());
        for ((_, key), sums) in rows.iter().filter(|(row, _)| row.0 == report) {
            let sums = Sums { hits: 0, ..*sums };
            match shown(key).filter(|_| key != "(other)") {
                None => rest.add(&sums),
                Some(shown) => {
                    placed += 1;
                    // A row that finds a place later is counted from then on; what it had before
                    // stays in `(other)`.
                    assert!(shown == sums || is_short, "{report} {key}: {shown:?}");
                    rest.add(&sums.without(&shown));
                }
            }
        }
        assert!(placed > 0 || is_short, "{report}");
        if rest == Sums::default() {
            assert!(names.is_empty() || shown("(other)").is_none());
        } else {
            assert!(is_short, "{report} has no place for {rest:?}");
            assert_eq!(shown("(other)"), Some(rest), "{report}");
        }
    }
    let (used, most) = ("pinbad_metrics_series", "pinbad_metrics_series_max");
    assert!(samples[used] <= samples[most], "{used}");
    let names = (0..6).map(|number| format!("made_{number}"));
    for name in names.filter(|_| !is_short) {
        let is_shown = text.contains(&format!("{{report=\"{name}\""));
        let mut made = world.made.iter();
        let is_watched = made.any(|it| it.name == name && it.is_watched);
        assert_eq!(is_shown && is_watched, is_shown, "{name}");
    }
}

/// Rows are what was gained in their minutes; those that found no room are under `(other)`.
/// Coverage is every second.
pub(super) fn check_history(world: &World, gains: &Gains, is_short: bool) {
    let mut rows = BTreeMap::new();
    let mut covered = BTreeMap::new();
    let mut others = 0;
    world.history.view(|running| {
        for dataset in running.datasets() {
            running.rows(dataset, 0..u64::MAX, |row| {
                let sum = &row.gain.sum;
                let key: Vec<&str> = key_texts(&row.key).collect();
                if dataset.is_coverage() {
                    let covered: &mut u64 =
                        covered.entry((row.time, key[0].to_owned())).or_default();
                    *covered += sum.totals.requests;
                    return;
                }
                others += usize::from(row.is_other);
                let mut times = [0; 3];
                for (bucket, count) in sum.histogram().into_iter().flat_map(|it| it.iter()) {
                    let (low, high) = dataset.buckets.bounds(bucket);
                    times[BOUNDS.partition_point(|&bound| bound < u64::midpoint(low, high))] +=
                        count;
                }
                let key = if is_short { String::new() } else { key.join(" ") };
                let sums = Sums {
                    requests: sum.totals.requests,
                    time: sum.totals.time,
                    hits: sum.totals.hits,
                    times,
                };
                let row: &mut Sums =
                    rows.entry((row.time, dataset.report.clone(), key)).or_default();
                row.add(&sums);
            });
        }
    });
    let mut expected = summed(gains, |(second, report, key)| {
        let key = if is_short { "" } else { key };
        (world.minutes[*second], report.clone(), key.to_owned())
    });
    if is_short {
        let sums = rows.values_mut().chain(expected.values_mut());
        sums.for_each(|it| it.times = [0; 3]);
    }
    assert_eq!(rows, expected);
    assert_eq!(covered, world.seen.covered);
    let status = world.history.status();
    assert!(status.count("memory_bytes") <= status.count("memory_bytes_max") / 2);
    assert_eq!(status.count("requests_missed"), world.seen.missed);
    assert_eq!(status.count("rows_lost"), 0);
    assert!(is_short || others == 0);
}
