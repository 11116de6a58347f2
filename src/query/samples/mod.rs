//! The profile as tables: samples one by one, their requests, and reports over them.
//!
//! Called by the catalog, which has these tables when there is a `[[stat]]`. They read a snapshot
//! of the pool; reports and requests of the same moment share their common data.

mod report;
mod table;

use std::sync::Arc;

pub(super) use self::report::columns;
use self::table::Samples;
use super::answer::Followed;
use super::error::QueryError;
use super::question::{FollowStep, SampleQuestion};
use super::table::{Computed, Table};
use crate::profile::Profile;
use crate::profile::definition::{SampleKey, SampleReport};
use crate::profile::report::{SampleMetric, Step, fill_steps, is_wanted};
use crate::report::definition::Pattern;
use crate::series::Lines;
use crate::value::Column;

/// Most points of a line: an hour by the second.
const LINE_POINTS_MAX: u64 = 3_600;

/// Returns the samples as rows of table `sample`, with these columns.
///
/// # Errors
/// When readers hold on to too many samples that the pool no longer keeps.
pub(super) fn samples(
    profile: &Profile,
    columns: Vec<Column>,
) -> Result<Box<dyn Table>, QueryError> {
    let (unix_us, snapshot) = (profile.unix_us(), profile.snapshot().ok_or_else(busy)?);
    let samples = Samples::new(snapshot, unix_us);
    Ok(Box::new(Computed { columns, len: samples.len(), source: samples, value: Samples::value }))
}

/// Returns the next samples after one, oldest first, as rows of table `sample`.
pub(super) fn follow(
    profile: &Profile,
    columns: Vec<Column>,
    filters: &[(SampleKey, Pattern)],
    step: FollowStep,
) -> Followed {
    let (step, snapshot) = {
        let pool = profile.pool.lock();
        // A reader may be ahead: ids started again.
        let step = FollowStep { after_id: step.after_id.min(pool.last_id()), ..step };
        (step, pool.behind(step.after_id))
    };
    let all = snapshot.len();
    let first = snapshot.segments.first().map_or(step.after_id + 1, |it| it.first_id);
    let last = first + all as u64 - 1;
    let (mut rows, mut after_id) = (Vec::new(), step.after_id.max(first - 1));
    let samples = snapshot.segments.iter().flat_map(|segment| {
        let samples = (segment.first_id..).zip(&segment.samples);
        samples.map(move |(id, sample)| (id, &**segment, sample))
    });
    for (id, segment, sample) in samples.filter(|(id, ..)| *id > step.after_id) {
        if rows.len() >= step.rows_max {
            break;
        }
        after_id = id;
        if is_wanted(filters, segment, sample) {
            // The table has the newest first.
            rows.push(all - 1 - (id - first) as usize);
        }
    }
    let more = after_id < last && !step.sample;
    if step.sample {
        after_id = after_id.max(last);
    }
    let samples = Samples::new(snapshot, profile.unix_us());
    Followed {
        table: Box::new(Computed {
            columns,
            len: rows.len(),
            source: (samples, rows),
            value: |(all, rows), row, column| all.value(rows[row], column),
        }),
        timers: Vec::new(),
        after_id,
        missed: first.saturating_sub(step.after_id + 1),
        more,
    }
}

/// Returns the requests of all samples as rows of table `stat_request`, with these columns.
///
/// # Errors
/// As [`samples`].
pub(super) fn requests(
    profile: &Profile,
    columns: Vec<Column>,
) -> Result<Box<dyn Table>, QueryError> {
    let recent = profile.recent(None).ok_or_else(busy)?;
    Ok(report::requests(columns, recent, profile.unix_us()))
}

/// Returns a report over samples, and the seconds that its samples span: 0 without any.
///
/// # Errors
/// As [`samples`].
pub(super) fn report(
    profile: &Profile,
    report: &SampleReport,
) -> Result<(Box<dyn Table>, u64), QueryError> {
    let recent = profile.recent(Some(report.window)).ok_or_else(busy)?;
    let table = report::table(report, recent.report(report));
    let covered = recent.covered().min(report.window).as_secs();
    let covered = if table.is_empty() { 0 } else { covered.max(1) };
    Ok((table, covered))
}

/// Returns metrics of a row of a report over samples, up to the last complete second.
///
/// # Errors
/// As [`samples`]; and when no sample of the window has these keys.
pub(super) fn lines(
    profile: &Profile,
    report: &SampleReport,
    question: &SampleQuestion,
) -> Result<Lines, QueryError> {
    let key = question.key.as_deref().unwrap_or_default();
    let row = report.keys.iter().zip(key);
    let row: Vec<_> = row.map(|(key, text)| (*key, Pattern::Equals(text.clone()))).collect();
    let recent = profile.recent(Some(report.window)).ok_or_else(busy)?;
    let unix_us = profile.unix_us();
    let now = u64::try_from((recent.now_us + unix_us) / 1_000_000).unwrap_or(0);
    let (step, to) = (question.step.max(1), question.span.end.min(now));
    let from = question.span.start.max(to.saturating_sub(LINE_POINTS_MAX * step));
    let from = from - from % step;
    let us = |secs: u64| i64::try_from(secs.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    let (from_us, step_us) = (us(from) - unix_us, us(step));
    let oldest_us = recent.oldest_us.unwrap_or(i64::MAX);
    let known = |at: u64| {
        let begin_us = from_us + us(at * step);
        let end_us = (begin_us + step_us).min(us(to) - unix_us);
        Step {
            secs: end_us.saturating_sub(begin_us.max(oldest_us)).max(0) as f64 / 1e6,
            ..Step::default()
        }
    };
    let count = to.saturating_sub(from).div_ceil(step);
    let mut steps: Vec<Step> = (0..count).map(known).collect();
    if !fill_steps(&mut steps, report, &row, &recent, (from_us, step_us)) && !key.is_empty() {
        let why = "no sample in the report's window has these keys";
        return Err(QueryError::NoHistory(why.to_owned()));
    }
    let line = |(_, _, number): &&SampleMetric| {
        let of = |it: &Step| (it.secs > 0.0).then(|| number(it)).flatten();
        steps.iter().map(of).collect()
    };
    let points = question.metrics.iter().map(line).collect();
    Ok(Lines { from, step, points })
}

/// Returns the number of rows of a report over samples; none while it cannot be read.
pub(super) fn rows(profile: &Profile, report: &SampleReport) -> usize {
    let recent = profile.recent(Some(report.window));
    recent.map_or(0, |recent| Arc::clone(&recent).report(report).rows.len())
}

fn busy() -> QueryError {
    let why = "clients that read slowly hold too many old samples; ask again later";
    QueryError::Busy(why.to_owned())
}
