//! Reads the fleet: rows shipped by many pinbads, summed by ClickHouse.
//!
//! ClickHouse computes sums, extremes, and buckets of histograms; everything else is derived by the
//! same code as locally. Rows are read with FINAL: rows sent twice count once. An answer is read
//! row by row, as JSON with exact integers; its keys use the memory shared by answers over the
//! past. Called on a front end's thread.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::server::Server;
use super::tables::{COVERAGE, ROLLUP, quoted};
use crate::config::ClickHouseConfig;
use crate::history::histogram::of_counts;
use crate::history::sums::{Histograms, Rows, Sums, TakeCounts};
use crate::history::{Coverage, Dataset};
use crate::report::encoded_gain::Sum;
use crate::report::histogram::{Histogram, LOG_LINEAR_BITS};
use crate::report::layout::Measure;
use crate::report::row_key::{key_of, key_texts};
use crate::report::totals::{Extremes, Totals};
use crate::value::text::joined;

/// How long a silent collector counts as missing, in seconds.
const MISSED_SECS: u64 = 7 * 86_400;
/// Most rows whose histograms are requested by key; for more, those of all rows are read.
const KEYS_ASKED_MAX: usize = 500;
/// Most collectors in an answer.
const COLLECTORS_MAX: usize = 10_000;
/// Most collectors remembered for the selection.
const MEMBERS_MAX: usize = 1_000;
/// Seconds of a minute.
const MINUTE: u64 = 60;

/// Access to the fleet's rows.
#[derive(Debug, Clone)]
pub struct Fleet {
    server: Arc<Server>,
    /// Data centres and collectors seen in answers.
    members: Arc<Mutex<BTreeSet<(String, String)>>>,
}

/// The fleet's rows of a report in a span.
#[derive(Debug, Clone)]
pub(crate) struct FleetRows {
    fleet: Fleet,
    dataset: Arc<Dataset>,
    /// Whole minutes.
    pub(crate) span: Range<u64>,
    /// The selected pinbads, as a condition appended to others.
    members: String,
    /// When the client gives up.
    deadline: Instant,
}

/// What was read, or why that is impossible.
type Read<T = ()> = Result<T, String>;

/// Start of the first step of a line, unix seconds, and the seconds of each.
type Steps = (u64, u64);

/// A collector that has shipped rows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Collector {
    pub(crate) dc: String,
    pub(crate) collector: String,
    /// End of its newest minute before the end of the span, of any report.
    pub(crate) until: u64,
}

/// How long a collector counted a report in a span, under one definition.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Counted {
    pub(crate) dc: String,
    pub(crate) collector: String,
    pub(crate) definition: String,
    #[serde(flatten)]
    pub(crate) coverage: Coverage,
}

/// A row of ClickHouse's answer: sums, the histogram, or seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Found {
    point: u64,
    key: Vec<String>,
    other: bool,
    sums: [u128; Measure::ALL.len()],
    seen: [Option<u64>; 3],
    known: bool,
    histogram: BTreeMap<u32, u64>,
    secs: u64,
}

/// In the order of [`Totals::sums`], which fit in 128 bits however many there are.
static SUMS: LazyLock<String> = LazyLock::new(|| {
    let sum = |it: Measure| format!("sum(toUInt128({}))", it.stored());
    format!("[{}] AS sums", Measure::ALL.map(sum).join(", "))
});
const SEEN: &str = "[min(time_min_us), max(time_max_us), max(memory_peak_max)] AS seen";
const HISTOGRAM: &str = "min(has_histogram) AS known, sumMap(histogram) AS histogram";

impl Fleet {
    /// The fleet of the configuration, whose `clickhouse.url` is set. Connects on the first query.
    ///
    /// # Errors
    /// Fails if the password or certificates cannot be read.
    pub fn of(config: &ClickHouseConfig) -> Result<Self, String> {
        Ok(Self { server: Arc::new(Server::of(config)?), members: Arc::default() })
    }

    /// Data centres and collectors seen in answers.
    pub(crate) fn members(&self) -> Vec<(String, String)> {
        self.members.lock().iter().cloned().collect()
    }

    /// The rows of a report in a span of whole minutes: of the named data centres and collectors,
    /// or of all.
    pub(crate) fn rows(
        &self,
        dataset: &Arc<Dataset>,
        span: &Range<u64>,
        dcs: &[String],
        collectors: &[String],
    ) -> FleetRows {
        let mut members = String::new();
        for (column, names) in [("dc", dcs), ("collector", collectors)] {
            if !names.is_empty() {
                let names = joined(names.iter().map(|name| quoted(name)), ", ");
                members += &format!(" AND {column} IN ({names})");
            }
        }
        // No row has a later time.
        let last = u64::from(u32::MAX) / MINUTE * MINUTE;
        FleetRows {
            fleet: self.clone(),
            dataset: Arc::clone(dataset),
            span: span.start.min(last)..span.end.min(last),
            members,
            deadline: Instant::now() + self.server.config.read_timeout,
        }
    }
}

impl FleetRows {
    /// Runs a query, and passes each row of the answer on.
    fn select<T: DeserializeOwned>(&self, query: &str, each: &mut dyn FnMut(T) -> Read) -> Read {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let selected = self.fleet.server.select(query, left, &mut |line| {
            let row = serde_json::from_slice(line);
            each(row.map_err(|error| format!("its answer is not understood: {error}"))?)
        });
        selected.map_err(|failure| failure.to_string())
    }

    fn all<T: DeserializeOwned>(&self, query: &str) -> Read<Vec<T>> {
        let mut all = Vec::new();
        self.select(query, &mut |row| {
            all.push(row);
            Ok(())
        })?;
        Ok(all)
    }

    /// The condition for the report under any definition.
    fn of_report(&self) -> String {
        let (report, Range { start, end }) = (quoted(&self.dataset.report), &self.span);
        format!("WHERE report = {report} AND t >= {start} AND t < {end}{}", self.members)
    }

    /// The condition for its definition.
    fn own(&self) -> String {
        let definition = quoted(&self.dataset.hash);
        format!("{} AND definition = {definition}", self.of_report())
    }

    /// A query for its rows, under its definition and one more condition.
    fn rollup(&self, columns: &str, condition: &str, group: &str) -> String {
        let (table, own) = (ROLLUP.name, self.own());
        format!("SELECT {columns} FROM {table} FINAL {own}{condition} GROUP BY {group}")
    }

    /// Runs a query for the index of each minute's step as `point`; returns values by step.
    fn by_step<T: Default>(
        &self,
        (from, step): Steps,
        query: impl FnOnce(&str) -> String,
        value: impl Fn(&Found) -> T,
    ) -> Read<Vec<T>> {
        let query = query(&format!("intDiv(toUnixTimestamp(t) - {from}, {step}) AS point"));
        // No row is later than the end of the span, but a question may be.
        let steps = self.span.end.saturating_sub(from).div_ceil(step);
        let mut values: Vec<T> = (0..steps).map(|_| T::default()).collect();
        self.select(&query, &mut |found: Found| {
            if let Some(at) = values.get_mut(found.point as usize) {
                *at = value(&found);
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Sums by key; their histograms are requested on demand.
    pub(crate) fn sums(&self) -> Read<Sums> {
        let query = self.rollup(&format!("key, max(other) AS other, {}, {SEEN}", *SUMS), "", "key");
        let mut rows = Rows::new(&self.dataset);
        self.select(&query, &mut |found: Found| {
            let row = rows.of(&self.key(&found.key)?, found.other);
            rows.add(row, &Totals::of(found.sums), &Extremes::of(found.seen));
            Ok(())
        })?;
        // They come in any order, and in another one for the next page of an answer.
        rows.sort();
        Ok(Sums::of(&self.dataset, rows, Box::new(self.clone()), LOG_LINEAR_BITS, Vec::new()))
    }

    /// The gain of one row, or of the total, in each step.
    pub(crate) fn line(
        &self,
        key: Option<&[String]>,
        steps: Steps,
        has_histograms: bool,
    ) -> Read<Vec<Option<Sum>>> {
        let key = key.filter(|_| !self.dataset.keys.is_empty());
        let of_key = key.map_or_else(String::new, |key| {
            format!(" AND key = {}", array(key.iter().map(String::as_str)))
        });
        let histogram = if has_histograms { HISTOGRAM } else { "false AS known" };
        let query = |point: &str| {
            self.rollup(&format!("{point}, {}, {histogram}", *SUMS), &of_key, "point")
        };
        let sum = |it: &Found| Some(Sum::of(Totals::of(it.sums), it.histogram(&self.dataset)));
        self.by_step(steps, query, sum)
    }

    /// Seconds of each step in which a pinbad counted: for each minute, those of the one that
    /// counted longest.
    pub(crate) fn secs(&self, steps: Steps) -> Read<Vec<u64>> {
        let query = |point: &str| {
            format!(
                "SELECT {point}, sum(most) AS secs FROM (SELECT t, max(secs) AS most FROM (SELECT t, dc, collector, store, \
                 sum(seconds) AS secs FROM {} FINAL {} GROUP BY t, dc, collector, store) GROUP BY t) GROUP BY point",
                COVERAGE.name,
                self.own()
            )
        };
        self.by_step(steps, query, |it| it.secs)
    }

    /// The collectors that have shipped anything, up to the end of the span or in the days before
    /// it.
    pub(crate) fn collectors(&self) -> Read<Vec<Collector>> {
        let Range { start, end } = &self.span;
        let found: Vec<Collector> = self.all(&format!(
            "SELECT dc, collector, toUnixTimestamp(max(t)) + {MINUTE} AS until FROM {} WHERE t >= {} AND t < {end}{} \
             GROUP BY dc, collector ORDER BY dc, collector LIMIT {COLLECTORS_MAX}",
            COVERAGE.name,
            start.saturating_sub(MISSED_SECS),
            self.members
        ))?;
        let mut members = self.fleet.members.lock();
        if self.members.is_empty() {
            members.clear();
        }
        let named = found.iter().map(|it| (it.dc.clone(), it.collector.clone()));
        let room = MEMBERS_MAX.saturating_sub(members.len());
        members.extend(named.take(room));
        Ok(found)
    }

    /// The collectors that counted the report, by definition.
    pub(crate) fn counted(&self) -> Read<Vec<Counted>> {
        self.all(&format!(
            "SELECT dc, collector, definition, sum(seconds) AS secs, sum(missed_requests) AS missed, \
             sum(histograms_dropped) AS histograms_dropped, sum(keys_folded) AS keys_folded, sum(rows_lost) AS rows_lost \
             FROM {} FINAL {} GROUP BY dc, collector, definition ORDER BY dc, collector, definition LIMIT {COLLECTORS_MAX}",
            COVERAGE.name,
            self.of_report()
        ))
    }

    /// A key as in history.
    fn key(&self, texts: &[String]) -> Read<Vec<u8>> {
        if texts.len() != self.dataset.keys.len() {
            return Err("a row there has a key of another report".to_owned());
        }
        Ok(key_of(texts))
    }
}

impl Histograms for FleetRows {
    fn read(&self, from: &Rows, wanted: &[usize], each: &mut TakeCounts<'_>) -> Read {
        if wanted.is_empty() {
            return Ok(());
        }
        let mut of_keys = String::new();
        // Keys in (other) for lack of memory here have rows of their own there.
        if wanted.len() <= KEYS_ASKED_MAX
            && !(from.is_full && wanted.iter().any(|row| from.all[*row].is_other))
            && !self.dataset.keys.is_empty()
        {
            let key = |row: &usize| Some(array(key_texts(from.all.get_index(*row)?.0)));
            of_keys = format!(" AND key IN ({})", joined(wanted.iter().filter_map(key), ", "));
        }
        let query = self.rollup(&format!("key, {HISTOGRAM}"), &of_keys, "key");
        let mut is_wanted = vec![false; from.all.len()];
        wanted.iter().for_each(|row| is_wanted[*row] = true);
        let other = from.all.values().position(|row| row.is_other);
        let mut folded = Sum::default();
        self.select(&query, &mut |found: Found| {
            let row = from.all.get_index_of(&*self.key(&found.key)?);
            let histogram = found.histogram(&self.dataset);
            match row.or(other.filter(|_| from.is_full)) {
                Some(row) if Some(row) == other => {
                    folded.add_sum(&Sum::of(Totals::ZERO, histogram));
                }
                Some(row) if is_wanted[row] => each(row, histogram.as_ref()),
                // It arrived after the sums.
                _ => {}
            }
            Ok(())
        })?;
        if let Some(other) = other.filter(|row| is_wanted[*row]) {
            each(other, folded.histogram());
        }
        if self.dataset.keys.is_empty() && from.all[0].totals == Totals::ZERO {
            each(0, Some(&Histogram::new()));
        }
        Ok(())
    }
}

impl Found {
    fn histogram(&self, dataset: &Dataset) -> Option<Histogram> {
        of_counts(&self.histogram, &dataset.buckets).filter(|_| self.known)
    }
}

/// Texts in a statement.
fn array<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    format!("[{}]", joined(texts.map(quoted), ", "))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::config::Config;

    /// As `from=2200-01-01&to=2200-01-02`: times of rows end in 2106.
    #[test]
    fn a_line_may_begin_after_all_times_of_rows() {
        let url = "http://127.0.0.1:1".to_owned();
        let config = ClickHouseConfig { url, ..Config::default().clickhouse };
        let span = 7_258_118_400..7_258_204_800;
        let dataset = Arc::new(Dataset::coverage());
        let rows = Fleet::of(&config).unwrap().rows(&dataset, &span, &[], &[]);
        let line = rows.line(None, (span.start, 60), true);
        assert!(line.is_err_and(|error| error.contains("127.0.0.1:1")));
    }

    /// As for `limit=2` and then `limit=2&offset=2`: no row is on both pages, and none on neither.
    #[test]
    fn rows_have_one_order_in_whatever_order_they_come() {
        let order_of = |sent: [&'static str; 3]| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let thread = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut request, mut part) = (Vec::new(), [0; 4096]);
                while !String::from_utf8_lossy(&request).contains("GROUP BY key") {
                    let read = stream.read(&mut part).unwrap();
                    assert!(read > 0);
                    request.extend_from_slice(&part[..read]);
                }
                let rows = sent.map(|key| format!("{{\"key\":[\"{key}\"]}}\n")).concat();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", rows.len());
                stream.write_all((head + &rows).as_bytes()).unwrap();
            });
            let config = ClickHouseConfig { url, ..Config::default().clickhouse };
            let keys = vec!["script_name".to_owned()];
            let dataset = Arc::new(Dataset { keys, ..Dataset::swaps() });
            let rows = Fleet::of(&config).unwrap().rows(&dataset, &(0..60), &[], &[]);
            let keys = rows.sums().unwrap().rows.all.into_keys();
            thread.join().unwrap();
            keys.collect::<Vec<_>>()
        };
        assert_eq!(order_of(["b", "c", "a"]), order_of(["c", "a", "b"]));
    }

    #[test]
    fn texts_stay_texts() {
        let texts = ["a', 'b", "\\", "\\' OR 1 --", "ä\n\0"];
        assert_eq!(array(texts.into_iter()), "['a\\', \\'b', '\\\\', '\\\\\\' OR 1 --', 'ä\n\0']");
    }

    #[test]
    fn rows_are_read_to_the_last_digit() {
        let line = r#"{"key":["a\"b","\u0001"],"other":true,"sums":[18446744073709551615,340282366920938463463374607431768211455,3,4,5,6,7,8,9],
            "seen":[1,18446744073709551615,null]}"#;
        let found: Found = serde_json::from_str(line).unwrap();
        assert_eq!(found.key, ["a\"b", "\u{1}"]);
        let totals = Totals::of(found.sums);
        assert_eq!((totals.requests, totals.hits), (u64::MAX, u128::MAX));
        assert_eq!((totals.time, totals.errors), (3, 8));
        let extremes = Extremes::of(found.seen);
        assert_eq!((extremes.time_max, extremes.memory_peak_max), (u64::MAX, 0));
        let line = r#"{"known":true,"histogram":{"7":1,"70":18446744073709551615}}"#;
        let found: Found = serde_json::from_str(line).unwrap();
        let mut dataset = Dataset::coverage();
        assert!(found.histogram(&dataset).is_none());
        let found: Found =
            serde_json::from_str(r#"{"known":true,"histogram":{"7":1,"70":2}}"#).unwrap();
        let histogram = found.histogram(&dataset).unwrap();
        assert_eq!(histogram.iter().collect::<Vec<_>>(), [(7, 1), (70, 2)]);
        // Buckets that no report has.
        for counts in [r#"{"4294967295":1}"#, r#"{"2944":1}"#] {
            let line = format!(r#"{{"known":true,"histogram":{counts}}}"#);
            let found: Found = serde_json::from_str(&line).unwrap();
            assert!(found.histogram(&dataset).is_none());
        }
        dataset.buckets = crate::report::histogram::BucketLayout::linear(1, 8).unwrap();
        let found: Found = serde_json::from_str(r#"{"known":false,"histogram":{"1":1}}"#).unwrap();
        assert!(found.histogram(&dataset).is_none());
    }
}
