//! Views named like reports: Pinba's tables over all pinbads together; and their minutes, hours and
//! days.

use super::tables::{identifier, on_cluster, quoted};
use crate::history::Dataset;
use crate::limits::SHIPPED_AFTER_SECS as LATE_SECS;
use crate::report::definition::Level;
use crate::report::layout::Measure;
use crate::value::Unit;

/// The window of a report there, in seconds: Pinba's, and it ends where all minutes have arrived.
const WINDOW_SECS: u64 = 900;
/// The measures in the order of their columns.
const MEASURES: [Measure; 8] = {
    use Measure::{Errors, Hits, Memory, Requests, RuStime, RuUtime, Time, Traffic};
    [Requests, Errors, Hits, Time, RuUtime, RuStime, Traffic, Memory]
};

/// A measure over all rows, in Pinba's units.
fn sum(measure: Measure) -> String {
    let sum = format!("sum({})", measure.stored());
    match measure.unit() {
        Unit::Seconds => format!("toFloat64({sum}) / 1e6"),
        Unit::Bytes => format!("{sum} / 1024"),
        _ => sum,
    }
}

/// Three percentiles in seconds: middles of the buckets of a log-linear histogram.
const PERCENTILES: &str = "sumMap(histogram) AS _counts, mapKeys(_counts) AS _buckets, arrayCumSum(mapValues(_counts)) AS _upto,
    arrayMap(share -> toUInt64(_buckets[arrayFirstIndex(it -> it >= share * _upto[-1], _upto)]), [0.5, 0.95, 0.99]) AS _ranked,
    arrayMap(bucket -> greatest(toInt64(intDiv(bucket, 64)) - 1, 0), _ranked) AS _shifts,
    arrayMap((bucket, shift) -> (bitShiftLeft(bucket - 64 * shift, shift) + (bitShiftLeft(toUInt64(1), shift) - 1) / 2) / 1e6, _ranked, _shifts) AS _at";

/// The statements for each of a report's views, for this definition, since different ones cannot be
/// summed. The first fails if something that is not a view has the name, and leaves it alone; the
/// second replaces an earlier view, atomically if the server can do that. The name of another
/// report is reserved for it, so that the hourly view of `a` and a report `a_hour` do not replace
/// each other again and again.
pub(crate) fn views(
    database: &str,
    cluster: Option<&str>,
    dataset: &Dataset,
    is_report: impl Fn(&str) -> bool,
) -> Vec<[String; 2]> {
    let on = on_cluster(cluster);
    let create = |(suffix, begin): (&str, Option<&str>)| {
        let name = format!("{}{suffix}", dataset.report);
        if !suffix.is_empty() && is_report(&name) {
            return None;
        }
        let select = select(database, dataset, begin);
        let (its_name, in_database) = (quoted(&name), quoted(database));
        Some([
            format!(
                "SELECT throwIf(count() > 0, 'it is no view') FROM system.tables \
                 WHERE database = {in_database} AND name = {its_name} AND engine != 'View'"
            ),
            format!("CREATE OR REPLACE VIEW {database}.{}{on} AS\n{select}", identifier(&name)),
        ])
    };
    let begins = [None, Some("t"), Some("toStartOfHour(t)"), Some("toStartOfDay(t)")];
    ["", "_minute", "_hour", "_day"].into_iter().zip(begins).filter_map(create).collect()
}

/// For the window, or for each span starting at `begin`, data centre and collector.
fn select(database: &str, dataset: &Dataset, begin: Option<&str>) -> String {
    let (mut columns, mut inner, group, during) = match begin {
        Some(begin) => (
            ["_begin AS t", "dc", "collector"].map(str::to_owned).to_vec(),
            vec![format!("{begin} AS _begin, dc, collector")],
            "_begin, dc, collector, key, other",
            String::new(),
        ),
        None => {
            let from = WINDOW_SECS + LATE_SECS;
            let during = format!(
                " AND t >= toStartOfMinute(now('UTC') - {from}) AND t < toStartOfMinute(now('UTC') - {LATE_SECS})"
            );
            (Vec::new(), Vec::new(), "key, other", during)
        }
    };
    let keys = dataset.keys.iter().zip(1..);
    columns.extend(keys.map(|(name, at)| format!("key[{at}] AS {}", identifier(name))));
    inner.push("key, other".to_owned());
    for measure in MEASURES {
        // `_count` or `_total`, then `_per_sec` and `_percent`.
        let Some(column) = dataset.column_of(measure) else { continue };
        let column = column.trim_end_matches("_us");
        let name = column.trim_end_matches("_count").trim_end_matches("_total");
        columns.push(format!("_{name} AS {column}"));
        if begin.is_none() && measure != Measure::Errors {
            columns.push(format!("_{name} / {WINDOW_SECS} AS {name}_per_sec"));
            columns.push(format!("100 * _{name} / sum(_{name}) OVER () AS {name}_percent"));
        }
        inner.push(format!("{} AS _{name}", sum(measure)));
    }
    if dataset.is_log_linear() {
        let time = if dataset.level == Level::Timer { "timer" } else { "req_time" };
        inner.push(PERCENTILES.to_owned());
        columns.push(format!("_at[1] AS {time}_median, _at[2] AS p95, _at[3] AS p99"));
    }
    format!(
        "SELECT {}\nFROM (\n  SELECT {}\n  FROM {database}.rollup FINAL\n  WHERE report = {} AND definition = {}{during}\n  GROUP BY {group})",
        columns.join(",\n  "),
        inner.join(",\n    "),
        quoted(&dataset.report),
        quoted(&dataset.hash),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As of a report over tags with odd names, which anybody may create who may create reports.
    #[test]
    fn names_of_keys_stay_names() {
        let keys = ["a`, (SELECT 1) AS `b", "c\\"].map(str::to_owned).into();
        let dataset = Dataset { report: "odd".to_owned(), keys, ..Dataset::coverage() };
        let [_, create] = views("pinba", None, &dataset, |_| false).swap_remove(0);
        assert!(create.contains(r"key[1] AS `a\`, (SELECT 1) AS \`b`,"), "{create}");
        assert!(create.contains(r"key[2] AS `c\\`,"), "{create}");
    }

    #[test]
    fn a_report_has_the_view_of_its_name() {
        let reports = ["a", "a_hour", "a_hour_day"];
        let mut made = Vec::new();
        for report in reports {
            let dataset = Dataset {
                report: report.to_owned(),
                hash: "0123456789abcdef".to_owned(),
                ..Dataset::coverage()
            };
            let statements = views("pinba", None, &dataset, |name| reports.contains(&name));
            let created = statements.iter().filter_map(|[_, create]| {
                let (name, _) = create.strip_prefix("CREATE OR REPLACE VIEW ")?.split_once(' ')?;
                Some(name.replace('`', ""))
            });
            made.extend(created);
        }
        made.sort_unstable();
        let names = [
            "a",
            "a_day",
            "a_hour",
            "a_hour_day",
            "a_hour_day_day",
            "a_hour_day_hour",
            "a_hour_day_minute",
            "a_hour_hour",
            "a_hour_minute",
            "a_minute",
        ];
        assert_eq!(made, names.map(|name| format!("pinba.{name}")));
    }
}
