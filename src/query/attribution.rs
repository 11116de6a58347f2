//! Attribution: breaks the change of a report between two spans down by key and cause.
//!
//! Rows of both spans are joined by key. When `n` calls with a mean of `m` change, the change of
//! their sum is split by the midpoint rule: `(n1 - n0) * (m0 + m1) / 2` is due to the number of
//! calls, the rest to the mean. Sums are whole microseconds, bytes or errors, and only the first
//! part is rounded. So the parts of all rows add up to the whole, and swapping the spans changes
//! the sign of every part and nothing else.
//!
//! If the spans were not counted for equally long, the longer one is scaled down to the shorter.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use super::answer::ReportAnswer;
use super::error::QueryError;
use crate::report::layout::OTHER;
use crate::value::{Column, Unit, Value, number_by_number};

/// A quantity that a report sums up by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Name in URLs.
    pub name: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Unit of its sums; microseconds are shown as seconds.
    pub unit: Unit,
    /// Columns of the native form that are added up; a report of timers has only some of them.
    columns: &'static [&'static str],
    /// Calls without it, which do not count.
    but: Option<&'static str>,
}

/// The measures whose change can be attributed; the first is the default.
pub const MEASURES: [Measure; 5] = [
    Measure::new("time", "total time", Unit::Seconds, &["req_time_total", "timer_value"]),
    Measure::new("errors", "errors", Unit::Count, &["error_count"]),
    Measure::new("memory", "memory", Unit::Bytes, &["memory_footprint_total"]).where_measured(),
    Measure::new("traffic", "traffic", Unit::Bytes, &["traffic_total"]),
    Measure::new("cpu", "CPU time", Unit::Seconds, &["ru_utime_total", "ru_stime_total"])
        .where_measured(),
];

impl Measure {
    const fn new(
        name: &'static str,
        title: &'static str,
        unit: Unit,
        columns: &'static [&'static str],
    ) -> Self {
        Self { name, title, unit, columns, but: None }
    }

    /// A measure that calls that came as spans do not have.
    const fn where_measured(self) -> Self {
        Self { but: Some("unmeasured_count"), ..self }
    }
}

/// A change, split by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// Sum in the first span.
    pub before: i64,
    /// Sum in the second span.
    pub after: i64,
    /// Part due to more or fewer calls.
    pub calls: i64,
    /// Part due to slower or faster calls.
    pub slower: i64,
    /// Part due to keys that only the second span has.
    pub new: i64,
    /// Part due to keys that only the first span has; never positive.
    pub gone: i64,
}

number_by_number!(Change: before after calls slower new gone);

impl Change {
    /// Returns the whole change.
    pub const fn change(&self) -> i64 {
        self.after - self.before
    }

    fn between([before, after]: [Sum; 2]) -> Self {
        let mut parts = Self { before: before.total, after: after.total, ..Self::default() };
        match (before.calls > 0.0, after.calls > 0.0) {
            (false, _) => parts.new = parts.change(),
            (true, false) => parts.gone = parts.change(),
            (true, true) => {
                let means = before.total as f64 / before.calls + after.total as f64 / after.calls;
                parts.calls = ((after.calls - before.calls) * means / 2.0).round() as i64;
                parts.slower = parts.change() - parts.calls;
            }
        }
        parts
    }
}

/// Calls and sum of a key in a span, scaled.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    calls: f64,
    total: i64,
}

/// The attributed change of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The columns of the keys.
    pub keys: Vec<Column>,
    /// Sum of all rows and of `other`.
    pub all: Change,
    /// Key texts and change of each row, the largest change first.
    pub rows: Vec<(Vec<String>, Change)>,
    /// Rows beyond the limit, and those without a key of their own.
    pub other: Change,
    /// The two spans as widened, unix seconds.
    pub spans: [Range<u64>; 2],
    /// Seconds for which each span was counted. Sums are scaled to the fewer.
    pub covered_secs: [u64; 2],
    /// Notes on missing data, for people.
    pub partial: Vec<String>,
}

impl Attribution {
    /// Attributes the change of `measure` between two readings of a report in the native form.
    ///
    /// # Errors
    /// [`QueryError::BadValue`] if the report does not have this sum.
    pub fn of(
        answers: [&ReportAnswer; 2],
        measure: &Measure,
        limit: usize,
    ) -> Result<Self, QueryError> {
        let covered_secs = answers.map(|answer| answer.covered_seconds);
        let columns = answers[1].table.columns();
        let mut found = Self {
            keys: answers[1].key_columns.iter().map(|at| columns[*at].clone()).collect(),
            covered_secs,
            ..Self::default()
        };
        let shorter = covered_secs[0].min(covered_secs[1]);
        let mut sums: HashMap<Vec<String>, [Sum; 2]> = HashMap::new();
        for (at, answer) in answers.into_iter().enumerate() {
            let scale = shorter as f64 / covered_secs[at].max(1) as f64;
            read(answer, measure, scale, |key, sum| {
                let sums = &mut sums.entry(key).or_default()[at];
                sums.calls += sum.calls;
                sums.total += sum.total;
            })?;
        }
        if shorter == 0 {
            return Ok(found);
        }
        let is_other = |key: &[String]| !key.is_empty() && key.iter().all(|text| text == OTHER);
        let has_other = sums.keys().any(|key| is_other(key));
        let mut unknown = [Sum::default(); 2];
        for (key, both) in sums {
            let is_known = both.iter().all(|sum| sum.calls > 0.0);
            if is_other(&key) || has_other && !is_known {
                for (sum, more) in unknown.iter_mut().zip(both) {
                    sum.calls += more.calls;
                    sum.total += more.total;
                }
            } else {
                found.rows.push((key, Change::between(both)));
            }
        }
        found.other = Change::between(unknown);
        let order = |(key, change): &(Vec<String>, Change)| {
            (Reverse(change.change().unsigned_abs()), key.clone())
        };
        found.rows.sort_by_cached_key(order);
        for (_, change) in found.rows.drain(limit.min(found.rows.len())..) {
            found.other += &change;
        }
        let rows = found.rows.iter().map(|(_, change)| change);
        rows.chain([&found.other]).for_each(|change| found.all += change);
        Ok(found)
    }
}

/// Passes the key and sum of each row of an answer to `show`.
fn read(
    answer: &ReportAnswer,
    measure: &Measure,
    scale: f64,
    mut show: impl FnMut(Vec<String>, Sum),
) -> Result<(), QueryError> {
    let table = answer.table.as_ref();
    let column = |name: &&str| table.column(name);
    let columns_of = |measure: &Measure| measure.columns.iter().filter_map(column).collect();
    let columns: Vec<usize> = columns_of(measure);
    let calls = ["hit_count", "req_count"].iter().find_map(column);
    let Some(calls) = calls.filter(|_| !columns.is_empty()) else {
        let known = MEASURES.iter().filter(|it| !Vec::is_empty(&columns_of(it))).map(|it| it.name);
        let known: Vec<&str> = known.collect();
        let why = format!("the report does not sum this up; accepted: {}", known.join(", "));
        return Err(QueryError::bad_value("measure", why));
    };
    let but = measure.but.as_ref().and_then(column);
    for row in 0..table.len() {
        let key = answer.key_columns.iter().map(|column| {
            let value = table.value(row, *column);
            match value {
                Value::Text(text) => text.into_owned(),
                Value::Int(number) => number.to_string(),
                // The key of the row for all others, in a column of numbers.
                Value::Null | Value::Micros(_) | Value::Float(_) => OTHER.to_owned(),
            }
        });
        let total: i64 =
            columns.iter().map(|column| scaled(&table.value(row, *column), scale)).sum();
        let count = |column| table.value(row, column).number().unwrap_or(0.0);
        let calls = (count(calls) - but.map_or(0.0, count)) * scale;
        show(key.collect(), Sum { calls, total });
    }
    Ok(())
}

/// Returns a sum as an integer, unchanged if there is nothing to scale.
fn scaled(value: &Value<'_>, scale: f64) -> i64 {
    match value {
        Value::Int(sum) if scale == 1.0 => *sum,
        Value::Micros(us) if scale == 1.0 => i64::try_from(*us).unwrap_or(i64::MAX),
        Value::Int(sum) => (*sum as f64 * scale).round() as i64,
        Value::Micros(us) => (*us as f64 * scale).round() as i64,
        Value::Float(sum) => (sum * scale).round() as i64,
        Value::Null | Value::Text(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::table::Rows;
    use crate::value::ColumnType;

    type Row<'a> = (&'a str, i64, u64);

    /// A report by script, with calls and microseconds.
    fn report(rows: &[Row<'_>], covered_seconds: u64) -> ReportAnswer {
        let columns = [
            ("script_name", ColumnType::Text),
            ("req_count", ColumnType::BigInt),
            ("req_time_total", ColumnType::Double),
        ];
        let columns = columns.map(|(name, of)| Column::new(name, of, Unit::None));
        let row = |(key, calls, us): &Row<'_>| {
            let key = Value::Text((*key).to_owned().into());
            vec![key, Value::Int(*calls), Value::Micros(*us)]
        };
        ReportAnswer {
            window_seconds: 60.0,
            covered_seconds,
            as_of_ms: 0,
            key_columns: vec![0],
            table: Box::new(Rows { columns: columns.into(), rows: rows.iter().map(row).collect() }),
            of_span: None,
            partial: Vec::new(),
        }
    }

    fn of(before: &ReportAnswer, after: &ReportAnswer, limit: usize) -> Attribution {
        Attribution::of([before, after], &MEASURES[0], limit).unwrap()
    }

    fn parts(change: &Change) -> [i64; 4] {
        [change.calls, change.slower, change.new, change.gone]
    }

    #[test]
    fn a_change_comes_from_calls_and_from_slower_calls() {
        let before = report(&[("/a", 1_000, 200_000_000), ("/gone", 1, 5)], 60);
        let after = report(&[("/a", 1_500, 450_000_000), ("/new", 2, 7)], 60);
        let found = of(&before, &after, 10);
        assert_eq!(found.rows[0].0, ["/a"]);
        assert_eq!(parts(&found.rows[0].1), [125_000_000, 125_000_000, 0, 0]);
        assert_eq!(parts(&found.all), [125_000_000, 125_000_000, 7, -5]);
        assert_eq!(found.other, Change::default());
        // Beyond the limit.
        let found = of(&before, &after, 1);
        assert_eq!(parts(&found.other), [0, 0, 7, -5]);
        // Half the counted time and half the calls: no change.
        let half = report(&[("/a", 500, 100_000_000)], 30);
        let found = of(&half, &report(&[("/a", 1_000, 200_000_000)], 60), 10);
        assert_eq!((found.all.after, parts(&found.all)), (100_000_000, [0, 0, 0, 0]));
        // Without counted seconds nothing can be compared.
        assert_eq!(of(&report(&[], 0), &after, 10).rows, []);
    }

    #[test]
    fn beside_others_nothing_is_new_or_gone() {
        let before = report(&[("/a", 10, 100), ("/b", 10, 100), (OTHER, 10, 100)], 60);
        let after = report(&[("/a", 10, 200), ("/c", 30, 300)], 60);
        let found = of(&before, &after, 10);
        assert_eq!(found.rows.len(), 1, "{found:?}");
        assert_eq!(parts(&found.rows[0].1), [0, 100, 0, 0]);
        // 20 calls of 200 become 30 of 300.
        assert_eq!(parts(&found.other), [100, 0, 0, 0]);
    }

    #[test]
    fn parts_add_up_and_a_swap_turns_the_signs() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut dice = |sides: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % sides
        };
        for round in 0..300 {
            let mut side = || {
                let count = dice(40);
                let rows = (0..count).map(|_| {
                    let name = match dice(12) {
                        0 if round % 3 == 0 => OTHER.to_owned(),
                        _ => format!("/{}", dice(30)),
                    };
                    let calls = 1 + dice(100_000);
                    (name, calls as i64, calls * dice(9_000_000))
                });
                let rows: Vec<(String, i64, u64)> = rows.collect();
                let rows = rows.iter().map(|(name, calls, us)| (name.as_str(), *calls, *us));
                let rows: Vec<Row<'_>> = rows.collect();
                report(&rows, 1 + dice(if round % 2 == 0 { 1 } else { 4_000 }))
            };
            let (before, after) = (side(), side());
            let (found, back) = (of(&before, &after, 20), of(&after, &before, 20));
            let all = |found: &Attribution| {
                let rows = found.rows.iter().map(|(_, change)| *change);
                rows.chain([found.other, found.all]).collect::<Vec<_>>()
            };
            for change in all(&found) {
                assert_eq!(parts(&change).iter().sum::<i64>(), change.change());
            }
            if round % 2 == 0 {
                let sum = |answer: &ReportAnswer| {
                    let rows = 0..answer.table.len();
                    let values = rows.map(|row| scaled(&answer.table.value(row, 2), 1.0));
                    values.sum::<i64>()
                };
                let whole = (sum(&before), sum(&after));
                assert_eq!((found.all.before, found.all.after), whole);
            }
            let swapped = all(&back).into_iter().map(|change| Change {
                before: change.after,
                after: change.before,
                calls: -change.calls,
                slower: -change.slower,
                new: -change.gone,
                gone: -change.new,
            });
            assert_eq!(all(&found), swapped.collect::<Vec<_>>(), "{round}");
        }
    }
}
