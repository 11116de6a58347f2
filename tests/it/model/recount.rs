//! The recount: a report's rows, added up record by record from everything that was sent. Slow and
//! plain.

use std::collections::BTreeMap;

use super::reports::{Comparison, Field, Filter, Key, Layout, Measure, Missing, Report, Source};
use super::traffic::{Seen, SeenTimer};

/// Statuses from here on are errors.
pub(super) const ERROR_STATUS: u32 = 500;

/// One row.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) requests: u64,
    pub(super) hits: u128,
    pub(super) time: u128,
    pub(super) ru_utime: u128,
    pub(super) ru_stime: u128,
    pub(super) traffic: u128,
    pub(super) memory: u128,
    pub(super) errors: u64,
    pub(super) peak_max: u32,
    /// Time in microseconds -> how often.
    pub(super) samples: BTreeMap<u64, u64>,
    last_request: u64,
}

impl Row {
    pub(super) fn sum(&self, measure: Measure) -> u128 {
        match measure {
            Measure::Requests => self.requests.into(),
            Measure::Hits => self.hits,
            Measure::Time => self.time,
            Measure::RuUtime => self.ru_utime,
            Measure::RuStime => self.ru_stime,
            Measure::Traffic => self.traffic,
            Measure::Memory => self.memory,
            Measure::Errors => self.errors.into(),
        }
    }

    fn count_request(&mut self, seen: &Seen) {
        self.requests += 1;
        self.hits += seen.timers.len() as u128;
        self.time += u128::from(seen.time);
        self.ru_utime += u128::from(seen.ru_utime);
        self.ru_stime += u128::from(seen.ru_stime);
        self.traffic += u128::from(seen.document_size);
        self.memory += u128::from(seen.memory_footprint);
        self.errors += u64::from(seen.status >= ERROR_STATUS);
        self.peak_max = self.peak_max.max(seen.memory_peak);
        *self.samples.entry(seen.time).or_default() += 1;
    }

    fn count_timer(&mut self, seen: &Seen, timer: &SeenTimer) {
        if self.last_request != seen.id {
            self.last_request = seen.id;
            self.requests += 1;
        }
        self.hits += u128::from(timer.hits);
        self.time += u128::from(timer.value);
        self.ru_utime += u128::from(timer.ru_utime);
        self.ru_stime += u128::from(timer.ru_stime);
        let per_hit = per_hit(timer.value, timer.hits);
        *self.samples.entry(per_hit).or_default() += u64::from(timer.hits);
    }

    /// Merges another row into this one.
    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.hits += other.hits;
        self.time += other.time;
        self.ru_utime += other.ru_utime;
        self.ru_stime += other.ru_stime;
        self.traffic += other.traffic;
        self.memory += other.memory;
        self.errors += other.errors;
        self.peak_max = self.peak_max.max(other.peak_max);
        for (&sample, &count) in &other.samples {
            *self.samples.entry(sample).or_default() += count;
        }
    }

    /// Samples in all.
    pub(super) fn count(&self) -> u64 {
        self.samples.values().sum()
    }

    /// The time at this place (from 1) of the sorted list.
    fn at(&self, place: u64) -> u64 {
        let mut passed = 0;
        for (&sample, &count) in &self.samples {
            passed += count;
            if passed >= place {
                return sample;
            }
        }
        panic!("place {place} of {passed}");
    }

    /// (samples that are smaller, samples that satisfy `same`) with the smaller ones in a list that
    /// is sorted.
    fn around(&self, below: impl Fn(u64) -> bool, same: impl Fn(u64) -> bool) -> (u64, u64) {
        let sum = |test: &dyn Fn(u64) -> bool| {
            self.samples.iter().filter(|(us, _)| test(**us)).map(|(_, n)| n).sum()
        };
        (sum(&below), sum(&same))
    }
}

/// Whole microseconds a hit, half to even.
fn per_hit(value: u64, hits: u32) -> u64 {
    let hits = u64::from(hits);
    let (low, rest) = (value / hits, value % hits);
    let up = rest * 2 > hits || rest * 2 == hits && low % 2 == 1;
    low + u64::from(up)
}

/// The rows of a report over these records.
pub(super) fn recount<'a>(
    report: &Report,
    seen: impl Iterator<Item = &'a Seen>,
) -> BTreeMap<Vec<String>, Row> {
    let mut rows: BTreeMap<Vec<String>, Row> = BTreeMap::new();
    if report.keys.is_empty() {
        rows.insert(Vec::new(), Row::default());
    }
    for seen in seen {
        if report.of_timers {
            for timer in &seen.timers {
                if let Some(key) = key_of(report, seen, Some(timer)) {
                    rows.entry(key).or_default().count_timer(seen, timer);
                }
            }
        } else if let Some(key) = key_of(report, seen, None) {
            rows.entry(key).or_default().count_request(seen);
        }
    }
    rows
}

/// The key of a record; `None`: the report does not count it.
fn key_of(report: &Report, seen: &Seen, timer: Option<&SeenTimer>) -> Option<Vec<String>> {
    let passes = report.filters.iter().all(|filter| match filter {
        Filter::From(us) => seen.time >= *us,
        Filter::Below(us) => seen.time < *us,
        Filter::Of(Source::Field(field), how) => how.holds(&field_of(seen, *field)),
        // The first tag of the name.
        Filter::Of(Source::RequestTag(name), how) => {
            match seen.tags.iter().find(|(tag, _)| tag == name) {
                Some((_, value)) => how.holds(value),
                None => matches!(how, Comparison::IsNot(_)),
            }
        }
        // Every tag of the name.
        Filter::Of(Source::TimerTag(name), how) => {
            let tags = &timer.expect("timer level").tags;
            let mut values = tags.iter().filter(|(tag, _)| tag == name).peekable();
            match values.peek() {
                Some(_) => values.all(|(_, value)| how.holds(value)),
                None => matches!(how, Comparison::IsNot(_)),
            }
        }
    });
    if !passes {
        return None;
    }
    report.keys.iter().map(|key| value_of(key, seen, timer)).collect()
}

fn value_of(key: &Key, seen: &Seen, timer: Option<&SeenTimer>) -> Option<String> {
    let tag = |tags: &[(String, String)], wanted: &str| {
        let mut values = tags.iter().filter(|(name, _)| name == wanted).map(|(_, v)| v.clone());
        if key.last { values.next_back() } else { values.next() }
    };
    let field = |field| Some(field_of(seen, field)).filter(|value| !value.is_empty());
    let found = match &key.source {
        Source::Field(name) => field(*name),
        Source::RequestTag(name) => tag(&seen.tags, name),
        Source::TimerTag(name) => {
            // The request's own field stands in for these.
            let stand_in = match name.as_str() {
                "__hostname" => Some(Field::Host),
                "__server_name" => Some(Field::Server),
                "__script_name" => Some(Field::Script),
                "__schema" => Some(Field::Schema),
                "__status" => Some(Field::Status),
                _ => None,
            };
            let own = tag(&timer.expect("timer level").tags, name);
            own.or_else(|| stand_in.and_then(field))
        }
    };
    match key.missing {
        Missing::Skip => found,
        Missing::SkipEmpty => found.filter(|value| !value.is_empty()),
        Missing::Empty => Some(found.unwrap_or_default()),
    }
}

fn field_of(seen: &Seen, field: Field) -> String {
    match field {
        Field::Host => seen.hostname.clone(),
        Field::Server => seen.server_name.clone(),
        Field::Script => seen.script_name.clone(),
        Field::Schema => seen.schema.clone(),
        Field::Status => seen.status.to_string(),
    }
}

impl Comparison {
    fn holds(&self, value: &str) -> bool {
        match self {
            Self::Is(text) => value == text,
            Self::IsNot(text) => value != text,
            Self::Begins(text) => value.starts_with(text),
        }
    }
}

/// The expected value of a quantile.
#[derive(Debug, Clone, Copy)]
pub(super) enum Quantile {
    /// Within 1 % of this sample, microseconds.
    Near(u64),
    /// The same, and from so many to so many microseconds.
    Between(u64, u64, u64),
    /// This, seconds, but for rounding.
    Exact(f64),
}

impl Quantile {
    /// The same where the shortest and the longest time are shown beside it.
    pub(super) fn between(self, shortest_us: u64, longest_us: u64) -> Self {
        match self {
            Self::Near(us) | Self::Between(us, ..) => Self::Between(us, shortest_us, longest_us),
            Self::Exact(secs) => {
                Self::Exact(secs.clamp(shortest_us as f64 / 1e6, longest_us as f64 / 1e6))
            }
        }
    }

    pub(super) fn is(self, got: f64) -> bool {
        let (wanted, error) = match self {
            // Whole microseconds are the resolution of everything.
            Self::Near(us) => (us as f64 / 1e6, us as f64 / 1e8),
            Self::Between(us, shortest, longest) => {
                let extremes = shortest as f64 / 1e6..=longest as f64 / 1e6;
                return extremes.contains(&got) && Self::Near(us).is(got);
            }
            Self::Exact(secs) => (secs, secs.abs() * 1e-9),
        };
        (got - wanted).abs() <= error + 1e-12
    }
}

/// The place (from 1) that a percentage means. `percent` has at most six decimals.
fn place(percent: &str, count: u64, up: bool) -> u64 {
    let (whole, decimals) = percent.split_once('.').unwrap_or((percent, ""));
    let millionths: u128 = format!("{whole}{decimals:0<6}").parse().expect("a number");
    let product = u128::from(count) * millionths;
    let all = 100_000_000;
    let place = if up { product.div_ceil(all) } else { product / all };
    (place as u64).max(1)
}

/// The quantile of a row at `percent`.
pub(super) fn quantile(row: &Row, layout: Layout, percent: &str, up: bool) -> Quantile {
    let count = row.count();
    if count == 0 {
        let low_ms = match layout {
            Layout::V2 { min_ms, .. } => min_ms,
            Layout::LogLinear | Layout::Linear { .. } => 0,
        };
        return Quantile::Exact(low_ms as f64 / 1e3);
    }
    let place = place(percent, count, up);
    let sample = row.at(place);
    match layout {
        Layout::LogLinear => Quantile::Near(sample),
        // Spec 6.3, with the exact maximum in the last bucket.
        Layout::Linear { max_us, size } => {
            let bucket = |us: u64| segment(us, max_us, size);
            let own = bucket(sample);
            let (below, has) = row.around(|us| bucket(us) < own, |us| bucket(us) == own);
            let width = max_us as f64 / 1e6 / size as f64;
            let passed = below + has;
            Quantile::Exact(width * (own as f64 + 1.0 - (passed - place) as f64 / has as f64))
        }
        // Spec 8.7, without adding the minimum twice, and with coarse groups as wide as they are.
        Layout::V2 { min_ms, max_ms, buckets } => {
            let group = |us: u64| v2_group(us, min_ms, max_ms, buckets);
            let (own, units) = match group(sample) {
                V2Group::Min => return Quantile::Exact(min_ms as f64 / 1e3),
                V2Group::Max => return Quantile::Exact(max_ms as f64 / 1e3),
                V2Group::Units(first, units) => (first, units),
            };
            let first = |us: u64| match group(us) {
                V2Group::Min => 0,
                V2Group::Units(first, _) => first,
                V2Group::Max => u64::MAX,
            };
            let (below, has) = row.around(|us| first(us) < own, |us| first(us) == own);
            let width_ns = (max_ms - min_ms) * 1_000_000 / buckets;
            let share = (place - below) as f64 / has as f64;
            let units = (own - 1) as f64 + units as f64 * share;
            Quantile::Exact(width_ns as f64 * units / 1e9)
        }
    }
}

/// The segment of a linear histogram.
pub(super) fn segment(us: u64, max_us: u64, size: u64) -> u64 {
    ((u128::from(us) * u128::from(size) / u128::from(max_us)) as u64).min(size - 1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum V2Group {
    Min,
    /// First unit, number of units.
    Units(u64, u64),
    Max,
}

fn v2_group(us: u64, min_ms: u64, max_ms: u64, buckets: u64) -> V2Group {
    let width_ns = (max_ms - min_ms) * 1_000_000 / buckets;
    let unit = (u128::from(us) * 1000).div_ceil(u128::from(width_ns)) as u64;
    if unit < (min_ms * 1_000_000 / width_ns).max(1) {
        return V2Group::Min;
    }
    if unit > max_ms * 1_000_000 / width_ns {
        return V2Group::Max;
    }
    // 0 to 255 exact, 256 to 511 in twos, 512 to 1023 in fours, ...
    let mut units = 1;
    while unit / units > 255 {
        units *= 2;
    }
    V2Group::Units(unit / units * units, units)
}

/// Spec 8.7: the histogram as text.
pub(super) fn histogram_text(row: &Row, layout: Layout, gap: &str) -> String {
    let Layout::V2 { min_ms, max_ms, buckets } = layout else {
        panic!("only hv= has a text");
    };
    let mut counts: BTreeMap<V2Group, u64> = BTreeMap::new();
    for (&us, &count) in &row.samples {
        *counts.entry(v2_group(us, min_ms, max_ms, buckets)).or_default() += count;
    }
    let mut parts = Vec::new();
    for (group, count) in &counts {
        if let V2Group::Units(first, _) = group {
            parts.push(format!("{first}{gap}{count}"));
        }
    }
    for (group, name) in [(V2Group::Min, "min"), (V2Group::Max, "max")] {
        if let Some(count) = counts.get(&group) {
            parts.push(format!("{name}{gap}{count}"));
        }
    }
    format!("hv={min_ms}:{max_ms}:{buckets};values=[{}]", parts.join(", "))
}
