//! The past of many pinbads together, as summed by ClickHouse
//! ([`clickhouse::Fleet`](crate::clickhouse::Fleet)).
//!
//! Results are derived as for local data. An answer names missing collectors: each ships how long
//! it counted which report, busy or idle, so one that ships nothing is late or down.

use std::ops::Range;
use std::sync::Arc;

use super::Catalog;
use super::covered::uncounted;
use super::{Added, Steps};
use crate::clickhouse::{Counted, FleetRows};
use crate::clock::rfc3339;
use crate::history::{Coverage, Dataset, Gain, Resolution};
use crate::query::error::QueryError;
use crate::query::question::{Fleet, LineQuestion, Spans, moved, shipped_until};
use crate::report::encoded_gain::Sum;
use crate::series::Metric;

/// Missing seconds of a collector, compared with the span, that are worth a remark.
const SHORT_SECS: u64 = 60;

/// The error when the fleet cannot be reached.
pub(super) fn away(problem: &str) -> QueryError {
    QueryError::Busy(format!(
        "the fleet cannot be queried: {problem}; omit fleet, dc and collector for this daemon's own data"
    ))
}

impl Catalog {
    /// Rows of the span, and of the span before.
    pub(super) fn fleet_sums(
        &self,
        dataset: &Arc<Dataset>,
        fleet: &Fleet,
        spans: &Spans,
    ) -> Result<Vec<Added>, QueryError> {
        let Spans { span, before } = in_minutes(spans);
        let added = [span].into_iter().chain(before).map(|span| {
            let rows = self.fleet()?.rows(dataset, &span, &fleet.dcs, &fleet.collectors);
            let span = rows.span.clone();
            let of_span = || -> Result<Added, String> {
                Ok(Added {
                    resolution: Resolution::Minute,
                    covered_secs: rows.secs(all(&span))?.iter().sum(),
                    remarks: self.fleet_remarks(&rows, fleet, dataset)?,
                    sums: rows.sums()?,
                    span: span.clone(),
                })
            };
            of_span().map_err(|problem| away(&problem))
        });
        added.collect()
    }

    /// The gain of one row by step.
    pub(super) fn fleet_steps(
        &self,
        dataset: &Arc<Dataset>,
        fleet: &Fleet,
        question: &LineQuestion,
    ) -> Result<Steps, QueryError> {
        let step = question.step.max(1).next_multiple_of(Resolution::Minute.secs());
        let span = outwards(&question.span);
        let from = span.start - span.start % step;
        let rows = self.fleet()?.rows(dataset, &span, &fleet.dcs, &fleet.collectors);
        let has_histograms = question.metrics.iter().any(Metric::is_percentile);
        let steps = || -> Result<Steps, String> {
            let line = rows.line(question.key.as_deref(), (from, step), has_histograms)?;
            let gain = |sum| Gain { sum, ..Gain::default() };
            Ok(Steps {
                from,
                step,
                resolution: Resolution::Minute,
                gains: line.into_iter().map(|sum| sum.map(gain)).collect(),
                secs: rows.secs((from, step))?,
                remarks: self.fleet_remarks(&rows, fleet, dataset)?,
            })
        };
        steps().map_err(|problem| away(&problem))
    }

    /// The gain of one row.
    pub(super) fn fleet_sum(
        &self,
        dataset: &Arc<Dataset>,
        fleet: &Fleet,
        key: &[String],
        span: &Range<u64>,
    ) -> Result<Option<Sum>, QueryError> {
        let rows = self.fleet()?.rows(dataset, &outwards(span), &fleet.dcs, &fleet.collectors);
        let line = rows.line(Some(key), all(&rows.span), true).map_err(|problem| away(&problem))?;
        Ok(line.into_iter().flatten().next())
    }

    /// Remarks on missing data.
    fn fleet_remarks(
        &self,
        rows: &FleetRows,
        fleet: &Fleet,
        dataset: &Dataset,
    ) -> Result<Vec<String>, String> {
        let (collectors, counted) = (rows.collectors()?, rows.counted()?);
        let span = &rows.span;
        let mut remarks = Vec::new();
        let shipped = shipped_until(self.clock.unix_ms() / 1_000);
        if span.end > shipped {
            let from = rfc3339(shipped.max(span.start));
            remarks.push(format!("minutes from {from} on are shipped later"));
        }
        let dcs: Vec<&String> = collectors.iter().map(|it| &it.dc).collect();
        let names: Vec<&String> = collectors.iter().map(|it| &it.collector).collect();
        for (what, asked, known) in
            [("data centre", &fleet.dcs, dcs), ("collector", &fleet.collectors, names)]
        {
            let strange = asked.iter().filter(|name| !known.contains(name));
            remarks.extend(strange.map(|name| {
                format!("{what} {name:?} has shipped nothing in this span and the 7 days before it")
            }));
        }
        if collectors.is_empty() {
            remarks.push("nothing was shipped in this span and the 7 days before it".to_owned());
        }
        let end = span.end.min(shipped);
        // The latest collectors come first.
        let mut late = Vec::new();
        for it in &collectors {
            let name = format!("collector {:?} (dc {:?})", it.collector, it.dc);
            let of_it =
                |counted: &&Counted| counted.dc == it.dc && counted.collector == it.collector;
            let own = counted.iter().filter(of_it);
            let (own, others): (Vec<_>, Vec<_>) =
                own.partition(|counted| counted.definition == dataset.hash);
            for other in others.iter().filter(|other| other.coverage.secs > 0) {
                remarks.push(format!(
                    "{name} counted another definition of the report ({}) for {} s",
                    other.definition, other.coverage.secs
                ));
            }
            let secs = own.first().map_or(0, |own| own.coverage.secs);
            if it.until < end {
                let since = rfc3339(it.until);
                late.push(format!("{name} is late: it has shipped nothing since {since}"));
            } else if secs == 0 {
                remarks.push(format!("{name} has not counted this report as it is defined here"));
            } else if secs + SHORT_SECS < end.saturating_sub(span.start) {
                let all = end - span.start;
                remarks.push(format!("{name} counted for {secs} of {all} s"));
            }
        }
        let own = counted.iter().filter(|it| it.definition == dataset.hash);
        let all = own.fold(Coverage::default(), |mut all, it| {
            all.add_missing(&it.coverage);
            all
        });
        remarks.extend(uncounted(&all));
        late.append(&mut remarks);
        Ok(late)
    }
}

/// Widens to whole minutes.
fn outwards(span: &Range<u64>) -> Range<u64> {
    let minute = Resolution::Minute;
    minute.begin(span.start)..span.end.next_multiple_of(minute.secs())
}

/// The whole minutes of spans.
pub(super) fn in_minutes(spans: &Spans) -> Spans {
    let span = outwards(&spans.span);
    let before = spans.before.as_ref();
    let before = before.map(|before| outwards(&moved(&span, &spans.span, before)));
    Spans { span, before }
}

/// One step, which is the whole span.
fn all(span: &Range<u64>) -> (u64, u64) {
    (span.start, (span.end - span.start).max(1))
}
