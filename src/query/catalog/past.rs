//! Reports over spans of the past: sums over rows of history, in any of the report's columns.
//!
//! Called on a front end's thread, without the lock of the live data except for the definition.
//! Sums are read at once, histograms when a table is asked to [`load`](Table::load) columns that
//! need them, for the rows shown. Two spans in a comparison become one table, joined by key.

mod compared;
mod covered;
mod fleet;
mod imports;
pub(crate) mod refill;
mod replay;
mod requests;
mod table;
mod timers;

use std::ops::Range;
use std::sync::Arc;

use self::compared::Compared;
use self::covered::{Covered, not_begun};
use self::table::PastTable;
use super::common_columns::spread;
use super::read_report::segments;
use super::{Catalog, key_columns};
use crate::clock::rfc3339;
use crate::history::chart_lines::{self, Asked};
use crate::history::histogram::{ends, error, settle};
use crate::history::read_plan::ReadPlan;
use crate::history::read_unit::RowsSnapshot;
use crate::history::sums::Sums;
use crate::history::{COVERAGE, Dataset, Gain, History, Resolution};
use crate::merger::answering;
use crate::query::answer::{Distribution, OfSpan, PastLines, ReportAnswer, add_new};
use crate::query::error::QueryError;
use crate::query::question::{LineQuestion, ReportQuestion, Spans, Whose, moved};
use crate::query::table::Table;
use crate::report::Reports;
use crate::report::definition::{Columns, Definition};
use crate::report::encoded_gain::Sum;
use crate::report::histogram::BucketLayout;
use crate::report::row_key::key_of;
use crate::series::{Lines, Metric, Span, Spreads, why_left_out};

/// The reason why sums of two spans have no change.
const UNEQUAL: &str =
    "the two spans were not counted for equally long: changes of sums are left out";

/// A report and its past.
pub(super) struct Kept<'a> {
    pub(super) definition: Arc<Definition>,
    pub(super) dataset: Arc<Dataset>,
    pub(super) history: &'a History,
    /// That nothing more is kept, and why.
    remark: Option<String>,
    /// The present, in unix seconds.
    now: u64,
}

impl Catalog {
    /// A report whose past is kept.
    pub(super) fn kept(&self, name: &str) -> Result<Kept<'_>, QueryError> {
        let live = answering(&self.live);
        let entry = live.reports.find(name);
        let definition = entry.map(|entry| Arc::clone(&entry.definition));
        let error_status = live.reports.error_status;
        let watched = live.reports.watched();
        let is_left_out = is_left_out(&live.reports, name);
        drop(live);
        let is_table = definition.is_none() && self.table_named(name).is_some();
        if definition.is_none() && !is_table {
            return Err(QueryError::unknown_report(name));
        }
        let history = self.kept_history()?;
        let names = watched.iter().filter(|report| report.is_kept);
        let names: Vec<&str> = names.map(|it| it.definition.name.as_str()).collect();
        let why = match &definition {
            Some(definition) => {
                let dataset = Arc::new(Dataset::of(definition, error_status));
                let has_past = is_left_out && has_rows(history, &dataset);
                if has_past || names.contains(&name) {
                    let remark =
                        has_past.then(|| format!("nothing is added now: {}", why_left_out()));
                    let definition = Arc::clone(definition);
                    let now = self.clock.unix_ms() / 1_000;
                    return Ok(Kept { definition, dataset, history, remark, now });
                }
                let why = match definition.history {
                    Some(false) => "it has history = false".to_owned(),
                    _ if is_left_out => why_left_out(),
                    _ => "history.reports does not name it".to_owned(),
                };
                format!("the past of report {name:?} is not kept: {why}; it is kept of ")
            }
            None => format!("{name:?} has no past: its rows are as of now; a past is kept of "),
        };
        Err(QueryError::NoHistory(why + &names.join(", ")))
    }

    /// The history, or why there is none.
    ///
    /// # Errors
    /// [`QueryError::NoHistory`].
    pub(crate) fn kept_history(&self) -> Result<&History, QueryError> {
        let history = self.status.history.as_ref().ok_or_else(QueryError::no_history)?;
        match history.why_off() {
            None => Ok(history),
            Some(why) => Err(QueryError::NoHistory(format!("history is off: {why}"))),
        }
    }

    /// Whether a history is configured; it may be off.
    pub(crate) fn has_history(&self) -> bool {
        self.status.history.is_some()
    }

    /// The datasets of reports as currently defined.
    pub fn kept_datasets(&self) -> Vec<Dataset> {
        let live = answering(&self.live);
        let watched = live.reports.watched();
        let kept = watched.iter().filter(|report| report.is_kept);
        let error_status = live.reports.error_status;
        let dataset = |definition: &Definition| Dataset::of(definition, error_status);
        let mut datasets: Vec<_> = kept.map(|report| dataset(&report.definition)).collect();
        let left_out = live.reports.left_out().iter().filter(|it| it.is_kept);
        let mut left_out: Vec<_> = left_out.map(|it| dataset(&it.definition)).collect();
        drop(live);
        let history = self.status.history.as_ref();
        left_out.retain(|dataset| history.is_some_and(|it| has_rows(it, dataset)));
        datasets.append(&mut left_out);
        datasets
    }
}

/// Whether history keeps no more of a report, although it is to.
fn is_left_out(reports: &Reports, name: &str) -> bool {
    reports.left_out().iter().any(|it| it.is_kept && it.definition.name == name)
}

/// Whether there is anything of a dataset.
fn has_rows(history: &History, dataset: &Dataset) -> bool {
    RowsSnapshot::of(history, dataset).kept_from(dataset).is_some()
}

/// The rows of a dataset, and those of its coverage, at one moment.
pub(super) struct KeptRows {
    dataset: Arc<Dataset>,
    own: RowsSnapshot,
    coverage: RowsSnapshot,
}

impl KeptRows {
    pub(super) fn plan(&self, span: Range<u64>) -> ReadPlan {
        ReadPlan::new(&self.own.parts, &self.dataset, span)
    }

    /// Plans the span, and the span before.
    fn plans(&self, spans: &Spans) -> impl Iterator<Item = ReadPlan> + use<> {
        let now = self.plan(spans.span.clone());
        let before = spans.before.as_ref().map(|before| {
            let asked = &spans.span;
            let found = self.plan(moved(&now.span, asked, before));
            match before.end <= asked.start && found.span.end > now.span.start {
                // Widened itself: there everything is in whole hours or days.
                true => self.plan(moved(&now.span, &now.span, &(found.span.start..now.span.start))),
                false => found,
            }
        });
        [now].into_iter().chain(before)
    }

    pub(super) fn sums(&self, plan: &ReadPlan) -> Sums {
        Sums::read(self.own.clone(), &self.dataset, plan)
    }

    fn covered(&self, span: &Range<u64>) -> Covered {
        Covered::read(&self.coverage, &self.dataset, span)
    }

    /// The unix second from which on there are any.
    fn kept_from(&self) -> Option<u64> {
        let own = self.own.kept_from(&self.dataset);
        own.into_iter().chain(self.coverage.kept_from(&COVERAGE)).min()
    }

    /// The first minute whose coverage is known, in unix seconds.
    pub(super) fn covered_from(&self) -> Option<u64> {
        self.coverage.minutes_from(&COVERAGE)
    }
}

/// Sums over the rows of a span.
pub(super) struct Added {
    /// The span, after widening.
    pub(super) span: Range<u64>,
    /// The coarsest resolution used.
    pub(super) resolution: Resolution,
    pub(super) sums: Sums,
    pub(super) covered_secs: u64,
    /// Remarks on missing data.
    pub(super) remarks: Vec<String>,
}

/// The gain of a row, or of the total, in each step of a span.
pub(super) struct Steps {
    pub(super) from: u64,
    pub(super) step: u64,
    pub(super) resolution: Resolution,
    pub(super) gains: Vec<Option<Gain>>,
    /// Seconds of each step in which requests were counted.
    pub(super) secs: Vec<u64>,
    pub(super) remarks: Vec<String>,
}

impl Steps {
    /// Takes the steps; `None` where nothing was counted.
    fn spans<'d>(
        &mut self,
        definition: &'d Definition,
    ) -> impl Iterator<Item = Option<Span<'d>>> + use<'d> {
        let (gains, secs) = (std::mem::take(&mut self.gains), std::mem::take(&mut self.secs));
        gains.into_iter().zip(secs).map(move |(gain, secs)| {
            // What a process that ended within its first second counted covers none.
            let is_known = secs > 0 || gain.is_some();
            let Gain { sum, extremes } = gain.unwrap_or_default();
            is_known.then_some(Span { definition, secs, sum, extremes })
        })
    }
}

impl Kept<'_> {
    pub(super) fn rows(&self) -> KeptRows {
        let dataset = Arc::clone(&self.dataset);
        let [own, coverage] = RowsSnapshot::of_each(self.history, [&dataset, &COVERAGE]);
        KeptRows { dataset, own, coverage }
    }

    /// Sums over the span, and over the span before.
    fn add_up(&self, spans: &Spans) -> Vec<Added> {
        let rows = self.rows();
        let added = rows.plans(spans).map(|plan| {
            let covered = rows.covered(&plan.span);
            Added {
                remarks: self.remarks(&rows, &covered, &plan.span),
                covered_secs: covered.own.secs,
                sums: rows.sums(&plan),
                resolution: plan.resolution,
                span: plan.span,
            }
        });
        added.collect()
    }

    /// Remarks on what is missing of a span.
    fn remarks(&self, rows: &KeptRows, covered: &Covered, span: &Range<u64>) -> Vec<String> {
        let mut remarks: Vec<String> = not_begun(span, self.now).into_iter().collect();
        remarks.extend(covered.remarks(self.why_not_kept(rows, span)));
        remarks.extend(self.history.lacks(&self.dataset, span));
        remarks.extend(self.history.lost_at_stops(&self.dataset, span));
        remarks.extend(self.remark.clone());
        remarks
    }

    /// A remark if a span begins before what is kept.
    fn why_not_kept(&self, rows: &KeptRows, span: &Range<u64>) -> Option<String> {
        let Some(kept) = rows.kept_from() else { return Some("nothing is kept yet".to_owned()) };
        if kept <= span.start {
            return None;
        }
        let mut remark = format!("nothing is kept from before {}", rfc3339(kept));
        // Counting began within that minute.
        let minute = kept..kept + Resolution::Minute.secs();
        if minute.end < self.now && rows.covered_from() == Some(kept) {
            let secs = rows.covered(&minute).own.secs;
            // A second is cut short by a start or stop.
            if secs > 0 && secs + 1 < Resolution::Minute.secs() {
                remark += &format!(", and only {secs} s of the minute that began then");
            }
        }
        Some(remark)
    }

    /// Likewise for one row, by step.
    fn steps(&self, question: &LineQuestion) -> Steps {
        let (dataset, rows) = (&self.dataset, self.rows());
        let mut step = question.step;
        let plan = ReadPlan::of_steps(&rows.own.parts, dataset, &question.span, &mut step);
        let mut remarks = self.remarks(&rows, &rows.covered(&plan.span), &plan.span);

        let key = question.key.as_ref().map(key_of);
        let wants_histograms = question.metrics.iter().any(Metric::is_percentile);
        let from = plan.span.start - plan.span.start % step;
        let asked = Asked {
            key: key.as_deref(),
            from,
            step,
            histogram_bits: wants_histograms.then(|| plan.resolution.bucket_bits()),
        };
        let (gains, lacking) = chart_lines::read(rows.own, dataset, &plan, asked);
        add_new(&mut remarks, &lacking);
        let key = dataset.coverage_key();
        let asked = Asked { key: Some(&key), from, step, histogram_bits: None };
        let coverage = rows.coverage;
        let mut covered =
            ReadPlan::of_steps(&coverage.parts, &COVERAGE, &plan.span, &mut step.clone());
        covered.span = plan.span.clone();
        let (secs, _) = chart_lines::read(coverage, &COVERAGE, &covered, asked);
        let secs = secs.into_iter();
        Steps {
            from,
            step,
            resolution: plan.resolution,
            gains,
            secs: secs.map(|secs| secs.map_or(0, |secs| secs.sum.totals.requests)).collect(),
            remarks,
        }
    }
}

impl Catalog {
    /// Unix second from which on a report is kept, if anything is.
    ///
    /// # Errors
    /// As for [`Catalog::report`].
    pub fn kept_from(&self, name: &str) -> Result<Option<u64>, QueryError> {
        Ok(self.kept(name)?.rows().kept_from())
    }

    /// The spans that an answer about a report really covers: widened to whole minutes, or to whole
    /// hours or days where finer rows are gone.
    pub fn widened_spans(&self, name: &str, spans: &Spans, whose: &Whose) -> Spans {
        match self.kept(name).ok().filter(|_| !whose.is_fleet()) {
            Some(kept) => {
                let mut plans = kept.rows().plans(spans).map(|plan| plan.span);
                let span = plans.next().unwrap_or_else(|| spans.span.clone());
                Spans { span, before: plans.next() }
            }
            None => fleet::in_minutes(spans),
        }
    }

    /// A report over a span.
    pub(super) fn past_report(
        &self,
        name: &str,
        spans: &Spans,
        question: &ReportQuestion,
    ) -> Result<ReportAnswer, QueryError> {
        let kept = self.kept(name)?;
        let is_view = kept.definition.layout.is_histogram_view();
        if is_view && question.columns != Columns::Own {
            return Err(QueryError::unknown_report(name));
        }
        let other = kept.definition.read_as(&question.columns, &self.defaults).map(Arc::new);
        let definition = other.unwrap_or_else(|| Arc::clone(&kept.definition));
        let layout = &definition.layout;
        if layout.is_histogram_view() && spans.before.is_some() {
            let why = "is not possible for a histogram view";
            return Err(QueryError::bad_value("compare", why));
        }
        let added = match &question.whose {
            Whose::Own => kept.add_up(spans),
            Whose::Fleet(fleet) => self.fleet_sums(&kept.dataset, fleet, spans)?,
        };
        let resolution = added.iter().map(|it| it.resolution).max().unwrap_or(Resolution::Minute);
        let bits = resolution.bucket_bits();
        let as_of_ms = self.clock.unix_ms();
        let mut partial: Vec<String> = Vec::new();
        // Those of the span before first.
        let tables = added.into_iter().rev().map(|it| {
            add_new(&mut partial, &it.remarks);
            add_new(&mut partial, &it.sums.lacking);
            let table = PastTable::new(&definition, it.sums, bits, it.covered_secs, as_of_ms);
            (table, it.span, it.covered_secs)
        });
        let mut tables: Vec<_> = tables.collect();
        let Some((mut now, span, covered_seconds)) = tables.pop() else {
            return Err(QueryError::no_history());
        };
        let before = tables.pop().map(|(table, span, _)| (table, span));
        let (before, span_before) = before.unzip();
        let mut key_columns = key_columns(layout).collect();
        let table: Box<dyn Table> = match before {
            Some(before) => {
                let compared = Compared::new(now, before);
                if !compared.has_sums {
                    partial.push(UNEQUAL.to_owned());
                }
                key_columns = compared.key_columns();
                Box::new(compared)
            }
            None if layout.is_histogram_view() => {
                now.load(&[], None)?;
                segments(layout, &now.reading, &question.equal)
            }
            None => Box::new(now),
        };
        let spans = Spans { span, before: span_before };
        partial.extend(spans.overlap_remark());
        let is_log_linear = definition.buckets == BucketLayout::LogLinear;
        // From the start of a bucket the error can be twice that from its middle.
        let times = if definition.may_understate() { 2.0 } else { 1.0 };
        Ok(ReportAnswer {
            window_seconds: (spans.span.end - spans.span.start) as f64,
            covered_seconds,
            as_of_ms,
            key_columns,
            table,
            of_span: Some(OfSpan {
                spans,
                resolution_seconds: resolution.secs(),
                percentile_error: is_log_linear.then(|| error(bits) * times),
            }),
            partial,
        })
    }

    /// The names of the keys that identify a row of a report.
    ///
    /// # Errors
    /// As for [`Catalog::report`].
    pub fn past_keys(&self, name: &str) -> Result<Vec<String>, QueryError> {
        Ok(self.kept(name)?.dataset.keys.clone())
    }

    /// A report, and the gain of one row of it by step.
    fn past_steps(
        &self,
        name: &str,
        question: &LineQuestion,
    ) -> Result<(Kept<'_>, Steps), QueryError> {
        let kept = self.kept(name).map_err(|error| self.suggesting(error))?;
        let steps = match &question.whose {
            Whose::Own => kept.steps(question),
            Whose::Fleet(fleet) => self.fleet_steps(&kept.dataset, fleet, question)?,
        };
        Ok((kept, steps))
    }

    /// Metrics of one row of a report over a span.
    ///
    /// # Errors
    /// As for [`Catalog::report`].
    pub fn past_lines(&self, name: &str, question: &LineQuestion) -> Result<PastLines, QueryError> {
        let (Kept { definition, dataset, .. }, mut steps) = self.past_steps(name, question)?;
        let bits = steps.resolution.bucket_bits();
        let covered_secs = steps.secs.clone();
        let spans: Vec<Option<Span<'_>>> = steps.spans(&definition).collect();
        let line = |metric: &Metric| {
            let points = spans.iter().map(|span| {
                let span = span.as_ref()?;
                let value = metric.of(span);
                match metric.is_percentile() && dataset.is_log_linear() {
                    true => value.map(|secs| {
                        let ends = |bucket| ends(&definition.buckets, bucket, bits);
                        span.bounded(settle(&definition.buckets, secs, bits), ends)
                    }),
                    false => value,
                }
            });
            points.collect()
        };
        Ok(PastLines {
            lines: Lines {
                from: steps.from,
                step: steps.step,
                points: question.metrics.iter().map(line).collect(),
            },
            covered_secs,
            resolution_seconds: steps.resolution.secs(),
            partial: steps.remarks,
        })
    }

    /// How the times of one row were spread in each step of a span; the metrics of the question
    /// are a percentile, so that histograms are read.
    ///
    /// # Errors
    /// As [`Catalog::report`].
    pub fn past_spreads(&self, name: &str, question: &LineQuestion) -> Result<Spreads, QueryError> {
        let (kept, mut steps) = self.past_steps(name, question)?;
        let of_span = |span: Span<'_>| (span.spread(), span.sum.totals.errors);
        let columns = steps.spans(&kept.definition).map(|it| it.map(of_span).unwrap_or_default());
        let (columns, errors) = columns.unzip();
        Ok(Spreads { from: steps.from, step: steps.step, columns, errors, partial: steps.remarks })
    }

    /// The same over a span, unix seconds.
    pub(super) fn past_distribution(
        &self,
        name: &str,
        equal: &[(String, String)],
        span: &Range<u64>,
        whose: &Whose,
    ) -> Result<Option<Distribution>, QueryError> {
        let key: Vec<String> = equal.iter().map(|(_, text)| text.clone()).collect();
        let Kept { definition, dataset, history, .. } = self.kept(name)?;
        let sum = match whose {
            Whose::Fleet(fleet) => self.fleet_sum(&dataset, fleet, &key, span)?,
            Whose::Own => {
                let view = RowsSnapshot::of(history, &dataset);
                let plan = ReadPlan::new(&view.parts, &dataset, span.clone());
                let key = key_of(&key);
                let asked = Asked {
                    key: (!dataset.keys.is_empty()).then_some(&*key),
                    from: plan.span.start,
                    step: plan.span.end - plan.span.start,
                    histogram_bits: Some(plan.resolution.bucket_bits()),
                };
                let (gains, _) = chart_lines::read(view, &dataset, &plan, asked);
                gains.into_iter().flatten().next().map(|gain| gain.sum)
            }
        };
        let histogram = sum.as_ref().and_then(Sum::histogram);
        Ok(histogram.map(|histogram| spread(&definition, histogram.iter())))
    }

    /// Data centres and collectors of the fleet, as far as seen in answers; `None` if there is no
    /// fleet.
    pub fn fleet_members(&self) -> Option<Vec<(String, String)>> {
        Some(self.status.fleet.as_ref()?.members())
    }
}
