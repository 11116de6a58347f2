//! The tables on the daemon itself, as the catalog lists and answers them.
//!
//! Their data is copied under one hold of the lock; everything else happens without it. See
//! [`tables`](super::super::tables).

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{Catalog, alerts, answering, releases};
use crate::grammar::FixedTable;
use crate::grammar::native::ReportForm;
use crate::input::squid::{Source, sums};
use crate::profile::definition::{SampleKey, SampleReport};
use crate::query::answer::{Followed, ReportAnswer, ReportSummary};
use crate::query::error::QueryError;
use crate::query::question::{FollowStep, SampleQuestion};
use crate::query::samples;
use crate::query::tables::{
    KIND, ReportStatus, Row, SAMPLES, StatusSnapshot, StatusTable, row_of, squid,
};
use crate::report::DefinedBy;
use crate::report::definition::Pattern;
use crate::series::Lines;
use crate::telemetry::cpu;

impl Catalog {
    /// One of them as listed.
    pub(super) fn table_summary(&self, table: &StatusTable) -> ReportSummary {
        let columns = table.columns(&self.defaults);
        let keys = table.key_columns().into_iter().map(|at| columns[at].name.clone()).collect();
        let (kind, window) = match &table.samples {
            Some(report) => (SAMPLES, report.window.as_secs_f64()),
            None => (KIND, self.table_window(table)),
        };
        ReportSummary {
            name: table.name.clone(),
            kind: kind.to_owned(),
            comment: table.samples.is_none().then(|| table.comment.clone()),
            keys,
            window_seconds: window,
            rows: self.table_rows(table) as u64,
            columns,
            definition: serde_json::to_value(table.form()).unwrap_or_default(),
            open_from: None,
            defined: table.defined_by.clone(),
            persistent: self.is_persistent(&table.defined_by),
            partial: Vec::new(),
        }
    }

    /// The Squid log sources.
    pub(super) fn squids(&self) -> impl Iterator<Item = &Source> {
        self.status.counters.squids.iter().map(|source| &**source)
    }

    /// Now, in the seconds of [`sums`].
    fn secs(&self) -> u32 {
        sums::now(self.clock.mono_ms())
    }

    /// How far back a table reaches, in seconds; 0 if it is current, or of all time.
    fn table_window(&self, table: &StatusTable) -> f64 {
        let squid = self.squids().next().filter(|_| FixedTable::SQUID.contains(&table.table));
        squid.map_or(0.0, |source| source.sums.lock().window_secs.into())
    }

    /// The rows of a table that needs no snapshot; `None` for others.
    fn rows_of(&self, table: FixedTable) -> Option<Vec<Row>> {
        let view = || self.alerts.view();
        let objects: Vec<Json> = match table {
            FixedTable::Alerts => view().alerts.iter().map(alerts::row).collect(),
            FixedTable::Slo => view().objectives.iter().map(alerts::slo).collect(),
            FixedTable::Releases => self.releases.all().iter().map(releases::row).collect(),
            FixedTable::Annotation => self.annotations.all().iter().map(|it| json!(**it)).collect(),
            FixedTable::SquidSwap => {
                let swaps = sums::swaps(self.squids(), self.secs());
                return Some(swaps.iter().map(squid::swap).collect());
            }
            FixedTable::SquidSavings => {
                let savings = sums::savings(self.squids(), self.secs());
                return Some(savings.iter().map(squid::saved).collect());
            }
            _ => return None,
        };
        let columns = table.columns(&self.defaults);
        Some(objects.iter().map(|it| row_of(&columns, it)).collect())
    }

    /// The number of rows of a table.
    pub(super) fn table_rows(&self, table: &StatusTable) -> usize {
        match (table.table, &self.status.profile) {
            (FixedTable::ActiveReports | FixedTable::V2Active, _) => {
                // Histogram views are another view of one of the others.
                let live = answering(&self.live);
                live.reports.iter().filter(|it| !it.definition.layout.is_histogram_view()).count()
            }
            (FixedTable::ManyCalls, _) => self.many_calls_rows(table),
            (FixedTable::Sample, Some(profile)) => match &table.samples {
                Some(report) => samples::rows(profile, report),
                None => profile.pool.lock().len(),
            },
            (FixedTable::StatRequest, Some(profile)) => {
                profile.recent(None).map_or(0, |it| it.requests.len())
            }
            (of, _) => self.rows_of(of).map_or(1, |rows| rows.len()),
        }
    }

    /// The table of this name or alias. The answer may leave out rows that do not have the texts
    /// of `equal`.
    pub(super) fn table_answer(
        &self,
        name: &str,
        equal: &[(String, String)],
    ) -> Result<ReportAnswer, QueryError> {
        let unknown = || QueryError::unknown_report(name);
        let table = self.table_named(name).ok_or_else(unknown)?;
        match table.table {
            FixedTable::Sample | FixedTable::StatRequest => self.profile_answer(&table),
            FixedTable::ManyCalls => {
                let named = equal.iter().find(|(column, _)| column == "tag_name");
                self.many_calls(&table, named.map(|(_, name)| &**name))
            }
            FixedTable::Status => {
                let row = row_of(&table.columns(&self.defaults), &self.status().into());
                Ok(self.answer_of(&table, vec![row]))
            }
            of => {
                let rows = self.rows_of(of);
                let rows = rows.unwrap_or_else(|| table.read(&self.look(), &self.defaults));
                Ok(self.answer_of(&table, rows))
            }
        }
    }

    /// A table as it stands, with these rows.
    pub(super) fn answer_of(&self, table: &StatusTable, rows: Vec<Row>) -> ReportAnswer {
        let uptime_ms = self.clock.mono_ms().saturating_sub(self.started_ms);
        let uptime = u32::try_from(uptime_ms / 1000).unwrap_or(u32::MAX);
        let covered = match FixedTable::SQUID.contains(&table.table) {
            true => sums::covered(self.squids(), self.secs(), uptime),
            false => uptime,
        };
        ReportAnswer {
            window_seconds: self.table_window(table),
            covered_seconds: covered.max(1).into(),
            as_of_ms: self.clock.unix_ms(),
            key_columns: table.key_columns(),
            table: table.with_rows(rows, &self.defaults),
            of_span: None,
            partial: Vec::new(),
        }
    }

    /// A table over samples; one created while there was a `[[stat]]` is empty without.
    pub(super) fn profile_answer(&self, table: &StatusTable) -> Result<ReportAnswer, QueryError> {
        let columns = table.columns(&self.defaults);
        let mut answer = self.answer_of(table, Vec::new());
        match (&table.samples, &self.status.profile) {
            (_, None) => {}
            (Some(report), Some(profile)) => {
                answer.window_seconds = report.window.as_secs_f64();
                (answer.table, answer.covered_seconds) = samples::report(profile, report)?;
            }
            (None, Some(profile)) if table.table == FixedTable::Sample => {
                answer.table = samples::samples(profile, columns)?;
            }
            (None, Some(profile)) => answer.table = samples::requests(profile, columns)?,
        }
        Ok(answer)
    }

    /// Samples of PHP's functions, summed by keys; `None` without a `[[stat]]`.
    ///
    /// # Errors
    /// [`QueryError::Busy`].
    pub fn samples(
        &self,
        keys: &[SampleKey],
        filters: &[(SampleKey, Pattern)],
    ) -> Result<Option<ReportAnswer>, QueryError> {
        if !self.has_samples() {
            return Ok(None);
        }
        let report = SampleReport {
            keys: keys.to_vec(),
            filters: filters.to_vec(),
            window: self.defaults.raw_window,
        };
        let form = ReportForm::default();
        let table = StatusTable::new(&form, FixedTable::Sample, Some(report), DefinedBy::BuiltIn);
        self.profile_answer(&table).map(Some)
    }

    /// Metrics of a row of a report over samples, from the samples in its window.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`] if no report over samples has this name.
    /// [`QueryError::NoHistory`] if it has no such row. [`QueryError::Busy`].
    pub fn sample_lines(&self, name: &str, question: &SampleQuestion) -> Result<Lines, QueryError> {
        let unknown = || QueryError::unknown_report(name);
        let report = self.table_named(name).and_then(|table| table.samples).ok_or_else(unknown)?;
        let profile = self.status.profile.as_ref().ok_or_else(unknown)?;
        samples::lines(profile, &report, question)
    }

    /// The next samples after one, oldest first. `None` if none are taken.
    pub fn follow_samples(
        &self,
        filters: &[(SampleKey, Pattern)],
        step: FollowStep,
    ) -> Option<Followed> {
        let columns = FixedTable::Sample.columns(&self.defaults);
        let profile = self.status.profile.as_ref()?;
        Some(samples::follow(profile, columns, filters, step))
    }

    /// The number of the latest sample. `None` if none are taken.
    pub fn last_sample_id(&self) -> Option<u64> {
        Some(self.status.profile.as_ref()?.pool.lock().last_id())
    }

    /// Whether samples are taken.
    pub fn has_samples(&self) -> bool {
        self.status.profile.is_some()
    }

    /// The table of this name or alias.
    pub(super) fn table_named(&self, name: &str) -> Option<StatusTable> {
        let tables = self.tables.read();
        let named = |name: &str| tables.iter().find(|table| table.name == name).cloned();
        named(name).or_else(|| named(StatusTable::aliased(name)?))
    }

    /// Takes a snapshot of the data.
    fn look(&self) -> StatusSnapshot {
        // The merger's counts are read before arrivals, so that nothing seems to be missing.
        let merge = self.status.counters.merge.counts();
        let sockets = self.status.counters.total();
        let (mono_ms, unix_ms) = (self.clock.mono_ms(), self.clock.unix_ms());
        let made = self.made_ms.read().clone();
        let live = answering(&self.live);
        let made_ms = |name: &str| made.get(name).copied().unwrap_or(self.started_ms);
        let reports = live.reports.iter().map(|entry| ReportStatus {
            rows: live.reports.rows(entry) as u64,
            folded_groups: live.reports.overflowed(entry) as u64,
            usage: live.reports.usage(entry),
            made_ms: made_ms(&entry.definition.name),
            definition: Arc::clone(&entry.definition),
        });
        let reports = reports.collect();
        let families = live.reports.aggregates();
        let strings = &live.pool.strings;
        let strings = (strings.len() as u64, strings.arena_bytes() as u64);
        drop(live);
        StatusSnapshot {
            reports,
            families,
            mono_ms,
            unix_ms,
            started_ms: self.started_ms,
            sockets,
            merge,
            strings,
            process_cpu: cpu::process(),
            receivers_cpu: cpu::threads(|name| name.starts_with("receive-")),
            merger_cpu: cpu::threads(|name| name == "merge"),
        }
    }
}
