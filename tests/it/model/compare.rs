//! Every column of every row, against what was counted by hand.

use std::collections::BTreeMap;

use pinbad::merger::Live;
use pinbad::report::layout::ColumnLayout;
use pinbad::report::read::reading::{Reading, Want};
use pinbad::report::totals::Totals;
use pinbad::value::Value;

use super::recount::{Row, histogram_text, quantile, segment};
use super::reports::{Cell, Field, Layout, Measure, Report, Source};
use super::world::Plan;

type Rows = BTreeMap<Vec<String>, Row>;

/// Budgets below this fold keys; the rows are then the engine's choice.
pub(super) const AMPLE_MEMORY: usize = 64 << 20;

const MEASURES: [Measure; 8] = [
    Measure::Requests,
    Measure::Hits,
    Measure::Time,
    Measure::RuUtime,
    Measure::RuStime,
    Measure::Traffic,
    Measure::Memory,
    Measure::Errors,
];

/// Values that are the same for all rows.
struct Whole<'a> {
    report: &'a Report,
    grand: Row,
    covered: u64,
    /// Histograms may have been left out for want of memory.
    tight: bool,
}

pub(super) fn compare(
    live: &Live,
    report: &Report,
    rows: &Rows,
    covered: u64,
    plan: &Plan,
) -> Result<(), String> {
    let entry = live.reports.find(&report.name).ok_or("is not there")?;
    let want = Want { keys: true, quantiles: true, histograms: true };
    let reading = live.reports.read(entry, want, &live.pool, 0);
    let shape = &entry.definition.layout;
    same("window", reading.window_secs, report.window_ms as f64 / 1000.0)?;
    same("covered_seconds", reading.covered_secs, covered)?;
    same("rows()", live.reports.rows(entry), reading.len())?;
    let mut grand = Row::default();
    rows.values().for_each(|row| grand.merge(row));
    let whole = Whole { report, grand, covered, tight: plan.memory_bytes < AMPLE_MEMORY };
    if whole.tight {
        whole.totals_are_right(&reading, rows)?;
        if report.keys.is_empty() && !report.view {
            whole.columns(shape, &reading, 0, &[], &whole.grand)?;
        }
        return Ok(());
    }
    same_sums("grand total", &reading.grand, &whole.grand)?;
    let mut rest = rows.clone();
    let mut other = None;
    let mut own_rows = Vec::new();
    for row in 0..reading.len() {
        if reading.is_other(row) {
            if other.replace(row).is_some() {
                return Err("two rows are (other)".to_owned());
            }
            continue;
        }
        let key = key_texts(&reading, row, report.keys.len());
        let expected = rest
            .remove(&key)
            .ok_or_else(|| format!("row {key:?} should not be there, or not twice"))?;
        own_rows.push((row, key, expected));
    }
    same("rows of their own", own_rows.len(), rows.len().min(plan.rows_max))?;
    same("(other) is there", other.is_some(), !rest.is_empty())?;
    let mut folded = Row::default();
    rest.values().for_each(|row| folded.merge(row));
    if report.view {
        return whole.segments(shape, &reading, &own_rows);
    }
    let names: Vec<&str> = shape.columns().iter().map(|c| c.column.name.as_str()).collect();
    let expected: Vec<&str> = report.columns.iter().map(|(name, _)| name.as_str()).collect();
    if names != expected {
        return Err(format!("columns are {names:?}, should be {expected:?}"));
    }
    for (row, key, expected) in &own_rows {
        let key: Vec<Option<&str>> = key.iter().map(|text| Some(text.as_str())).collect();
        whole.columns(shape, &reading, *row, &key, expected)?;
    }
    if let Some(row) = other {
        whole.columns(shape, &reading, row, &vec![None; report.keys.len()], &folded)?;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, expected: T) -> Result<(), String> {
    if got == expected {
        return Ok(());
    }
    Err(format!("{what} is {got:?}, should be {expected:?}"))
}

fn sum_of(totals: &Totals, measure: Measure) -> u128 {
    match measure {
        Measure::Requests => totals.requests.into(),
        Measure::Hits => totals.hits,
        Measure::Time => totals.time,
        Measure::RuUtime => totals.ru_utime,
        Measure::RuStime => totals.ru_stime,
        Measure::Traffic => totals.traffic,
        Measure::Memory => totals.memory,
        Measure::Errors => totals.errors.into(),
    }
}

fn same_sums(what: &str, got: &Totals, expected: &Row) -> Result<(), String> {
    MEASURES.into_iter().try_for_each(|measure| {
        same(&format!("{what} of {measure:?}"), sum_of(got, measure), expected.sum(measure))
    })
}

fn key_texts(reading: &Reading, row: usize, keys: usize) -> Vec<String> {
    let texts = (0..keys).map(|key| reading.key(row, key).unwrap_or("(other)").to_owned());
    texts.collect()
}

impl Whole<'_> {
    /// When memory is short, keys are folded as they come; what they add up to is still right.
    fn totals_are_right(&self, reading: &Reading, expected: &Rows) -> Result<(), String> {
        for measure in MEASURES {
            let (got, expected) = (sum_of(&reading.grand, measure), self.grand.sum(measure));
            // A request whose timers have several keys counts once in each of their rows, and once
            // where they are folded.
            let once_in_other = self.report.of_timers && measure == Measure::Requests;
            if if once_in_other { got > expected } else { got != expected } {
                return Err(format!("total of {measure:?} is {got}, should be {expected}"));
            }
        }
        for row in (0..reading.len()).filter(|&row| !reading.is_other(row)) {
            let key = key_texts(reading, row, self.report.keys.len());
            let most =
                expected.get(&key).ok_or_else(|| format!("row {key:?} should not be there"))?;
            let too_much = MEASURES
                .into_iter()
                .find(|&measure| sum_of(&reading.totals[row], measure) > most.sum(measure));
            if let Some(measure) = too_much {
                return Err(format!("row {key:?} has more {measure:?} than there are"));
            }
        }
        let mut rows = Totals::ZERO;
        reading.totals.iter().for_each(|totals| rows += totals);
        same("sum of rows", rows, reading.grand)
    }

    /// Every column of one row. A key without text is `(other)`.
    fn columns(
        &self,
        shape: &ColumnLayout,
        reading: &Reading,
        row: usize,
        key: &[Option<&str>],
        expected: &Row,
    ) -> Result<(), String> {
        for (at, (name, cell)) in self.report.columns.iter().enumerate() {
            let got = shape.value(reading, row, at);
            self.cell(*cell, &got, key, expected)
                .map_err(|should| format!("row {key:?}: {name} is {got:?}, should be {should}"))?;
        }
        Ok(())
    }

    /// An error says what it should have been.
    fn cell(
        &self,
        cell: Cell,
        got: &Value<'_>,
        key: &[Option<&str>],
        row: &Row,
    ) -> Result<(), String> {
        let report = self.report;
        let text = |at: usize| key[at].unwrap_or("(other)");
        match cell {
            Cell::Key(at) if report.keys[at].source == Source::Field(Field::Status) => {
                match key[at] {
                    Some(status) => is_whole(got, status.parse().expect("a status")),
                    None => is(*got == Value::Null, "NULL"),
                }
            }
            Cell::Key(at) | Cell::KeyText(at) => is_text(got, text(at)),
            Cell::Index => is_text(got, &self.index_value(key)),
            Cell::Whole(measure) => is_whole(got, row.sum(measure)),
            Cell::Seconds(measure) => is_micros(got, row.sum(measure)),
            Cell::Kib(measure) => is_near(got, row.sum(measure) as f64 / 1024.0),
            Cell::PerSec(measure, unit, over_window) => {
                let secs = match over_window {
                    true => report.window_ms as f64 / 1000.0,
                    false => self.covered.max(1) as f64,
                };
                is_near(got, row.sum(measure) as f64 / unit / secs)
            }
            Cell::Percent(measure, null) => match (self.grand.sum(measure), null) {
                (0, true) => is(*got == Value::Null, "NULL"),
                (0, false) => is_near(got, 0.0),
                (all, _) => is_near(got, 100.0 * row.sum(measure) as f64 / all as f64),
            },
            Cell::Quantile(_) | Cell::HistogramText(_) if self.tight && *got == Value::Null => {
                Ok(())
            }
            Cell::Quantile(rank) => {
                let (percent, up) = match rank {
                    0 => ("50", report.up),
                    rank => (report.percentiles[rank - 1], report.up),
                };
                let should = quantile(row, report.layout, percent, up);
                let samples = || row.samples.keys();
                let extremes = samples().next().zip(samples().next_back());
                let should = match extremes.filter(|_| report.native) {
                    Some((shortest, longest)) => should.between(*shortest, *longest),
                    None => should,
                };
                is(matches!(got, Value::Float(got) if should.is(*got)), should)
            }
            Cell::Interval => is_whole(got, self.covered.max(1).into()),
            Cell::HistogramText(gap) => is_text(got, &histogram_text(row, report.layout, gap)),
            Cell::Min | Cell::Max | Cell::PeakMax if row.requests == 0 => {
                is(*got == Value::Null, "NULL")
            }
            Cell::Min => is_micros(got, extreme(row.samples.keys().next())),
            Cell::Max => is_micros(got, extreme(row.samples.keys().next_back())),
            Cell::PeakMax => is_whole(got, row.peak_max.into()),
            Cell::Unmeasured => is_whole(got, 0),
        }
    }

    fn index_value(&self, key: &[Option<&str>]) -> String {
        let parts = self.report.index.iter().map(|part| match part {
            Ok(at) => key[*at].unwrap_or("(other)"),
            Err(separator) => separator,
        });
        parts.collect()
    }

    /// The histogram views of some rows.
    fn segments(
        &self,
        shape: &ColumnLayout,
        reading: &Reading,
        rows: &[(usize, Vec<String>, Row)],
    ) -> Result<(), String> {
        let names: Vec<&str> = shape.columns().iter().map(|c| c.column.name.as_str()).collect();
        same("columns", names, vec!["index_value", "segment", "time_value", "cnt", "percent"])?;
        let indexed: Vec<(String, &Row)> = rows
            .iter()
            .map(|(_, key, row)| {
                let key: Vec<Option<&str>> = key.iter().map(|text| Some(text.as_str())).collect();
                (self.index_value(&key), row)
            })
            .collect();
        if !self.report.keys.is_empty() {
            same("a view of no row", shape.segments(reading, None).is_empty(), true)?;
            let nobody = shape.segments(reading, Some("nobody is called that"));
            same("a view of an unknown row", nobody.is_empty(), true)?;
        }
        let folded = self.index_value(&vec![None; self.report.keys.len()]);
        for (index, row) in indexed.iter().take(4) {
            // Texts run together may be those of two rows; then either is an answer.
            let same = indexed.iter().filter(|(other, _)| other == index);
            if same.count() > 1 || *index == folded && !self.report.keys.is_empty() {
                continue;
            }
            self.segments_of(shape, reading, index, row)
                .map_err(|problem| format!("view of {index:?}: {problem}"))?;
        }
        Ok(())
    }

    fn segments_of(
        &self,
        shape: &ColumnLayout,
        reading: &Reading,
        index: &str,
        row: &Row,
    ) -> Result<(), String> {
        let Layout::Linear { max_us, size } = self.report.layout else {
            return Err("a view has linear segments".to_owned());
        };
        let mut counts = vec![0_u64; size as usize];
        for (&us, &count) in &row.samples {
            counts[segment(us, max_us, size) as usize] += count;
        }
        let segments = shape.segments(reading, Some(index));
        same("segments", segments.len() as u64, size)?;
        let all = if self.report.of_timers { row.hits } else { row.requests.into() };
        for (at, &count) in counts.iter().enumerate() {
            let value = |column: usize| segments[at][column].clone();
            let percent = if all == 0 { 0.0 } else { 100.0 * count as f64 / all as f64 };
            let edge = at as f64 * (max_us as f64 / 1e6) / size as f64;
            match self.report.keys.is_empty() {
                true => is(value(0) == Value::Null, "NULL"),
                false => is_text(&value(0), index),
            }
            .and_then(|()| is_whole(&value(1), at as u128))
            .and_then(|()| is_near(&value(2), edge))
            .and_then(|()| is_whole(&value(3), count.into()))
            .and_then(|()| is_near(&value(4), percent))
            .map_err(|should| {
                let got: Vec<_> = (0..5).map(value).collect();
                format!("segment {at} is {got:?}, should be {should}")
            })?;
        }
        Ok(())
    }
}

fn extreme(us: Option<&u64>) -> u128 {
    u128::from(*us.expect("a row with requests"))
}

fn is(right: bool, should: impl std::fmt::Debug) -> Result<(), String> {
    if right { Ok(()) } else { Err(format!("{should:?}")) }
}

fn is_text(got: &Value<'_>, should: &str) -> Result<(), String> {
    is(matches!(got, Value::Text(text) if text == should), should)
}

/// Past 63 bits whole numbers are shown as floats.
fn is_whole(got: &Value<'_>, should: u128) -> Result<(), String> {
    match i64::try_from(should) {
        Ok(whole) => is(*got == Value::Int(whole), should),
        Err(_) => is_near(got, should as f64),
    }
}

fn is_micros(got: &Value<'_>, should: u128) -> Result<(), String> {
    match u64::try_from(should) {
        Ok(us) => is(*got == Value::Micros(us), should),
        Err(_) => is_near(got, should as f64 / 1e6),
    }
}

fn is_near(got: &Value<'_>, should: f64) -> Result<(), String> {
    let near = |got: f64| (got - should).abs() <= should.abs() * 1e-9;
    is(matches!(got, Value::Float(got) if near(*got)), should)
}
