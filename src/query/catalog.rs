//! The catalog answers the questions of all front ends, over the live pool, the reports, the past
//! and the counters.
//!
//! A question takes the lock of [`Live`](crate::merger::Live) for reading, copies what it needs
//! into its own table and releases it; formulas run later, without the lock. Changes to the set of
//! reports are serialized here (`report_set`); `status_tables` answers for the tables on the daemon
//! itself.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::answer::{
    Distribution, INDEX_VALUE, ReportAnswer, ReportSummary, RequestDetail, RequestPage,
};
use super::error::QueryError;
use super::question::{ReportQuestion, RequestQuestion, Spans, When, Whose, shipped_until};
use super::requests::RawReader;
use super::status::Status;
use super::tables::StatusTable;
use super::timer_groups::{TimerGroups, TimerSearch};
use crate::alert::Alerts;
use crate::clock::Clock;
use crate::grammar::FixedTable;
use crate::grammar::native::ReportForm;
use crate::history::History;
use crate::history::import::Importer;
use crate::input::udp::senders::{Counts, SenderCounts};
use crate::merger::{Pulse, SharedLive, answering, writing};
use crate::query::create_table::{self, CreateTable};
use crate::release::Releases;
use crate::report::definition::{Columns, Defaults};
use crate::report::layout::{Cell, ColumnLayout};
use crate::report::{DefinedBy, Entry};
use crate::state::State;
use crate::state::annotations::Annotations;
use crate::state::last_end::{LostAtStop, RunningMark};
use crate::telemetry::reading::{self, Group};
use crate::value::Column;

pub(crate) mod alerts;
mod changes;
mod common_columns;
mod health;
mod many_calls;
#[cfg_attr(not(feature = "sql"), path = "catalog/no_past.rs")]
pub(crate) mod past;
mod read_report;
mod readings;
mod reconfigure;
mod releases;
pub(crate) mod report_set;
mod status_tables;

use past::refill::Refill;
use readings::Readings;
use report_set::CHANGES;

pub use common_columns::SHARED_ROWS_MAX;
pub use read_report::SelectedRows;
pub use readings::READINGS_BYTES_MAX;
pub use reconfigure::Reconfigured;

/// Silence of the merger in milliseconds after which the daemon is not ready.
const MERGER_SILENT_MS_MAX: u64 = 5_000;

/// The data behind all answers.
#[derive(Debug)]
pub struct Catalog {
    /// Pools and reports.
    pub live: SharedLive,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Defaults of definitions.
    pub defaults: Defaults,
    /// Reader of raw rows, if any are kept.
    raw: Option<RawReader>,
    pub(crate) status: Status,
    pulse: Arc<Pulse>,
    /// Serializes changes to the set of reports, and saves them: `None` without `state.dir`, and
    /// while the daemon stops.
    changes: Mutex<Option<State>>,
    /// Whether changes are saved.
    persistent: bool,
    /// The tables on the daemon itself. Names are not those of reports.
    tables: RwLock<Vec<StatusTable>>,
    /// Monotonic milliseconds at which reports were created, for those not there from the start.
    made_ms: RwLock<HashMap<String, u64>>,
    /// Monotonic milliseconds when the catalog was created.
    started_ms: u64,
    /// The last reading of each report, valid until something changes.
    readings: Mutex<Readings>,
    /// Rankings recently shown on pages.
    shared_readings: Mutex<Vec<common_columns::SharedReading>>,
    /// The size of table `many_calls`.
    many_calls: Mutex<many_calls::Counted>,
    /// The annotations.
    pub annotations: Annotations,
    alerts: Arc<Alerts>,
    /// The releases.
    pub releases: Releases,
    /// Imports logs into history.
    pub importer: Option<Importer>,
    /// Rows that replace lost counts.
    pub refill: RwLock<Option<Arc<Refill>>>,
    /// The file `running`, which records the missing spans for the start after a kill. Locked while
    /// `refill` changes.
    pub(crate) mark: Mutex<Option<RunningMark>>,
}

impl Catalog {
    /// A catalog over a daemon's data.
    pub fn new(
        live: SharedLive,
        clock: Arc<dyn Clock>,
        defaults: Defaults,
        keeps_raw: bool,
        status: Status,
        pulse: Arc<Pulse>,
    ) -> Self {
        let _from_now_on = status.lost_lately(clock.mono_ms());
        Self {
            raw: keeps_raw.then(|| RawReader::new(Arc::clone(&live), &defaults)),
            live,
            started_ms: clock.mono_ms(),
            clock,
            defaults,
            status,
            pulse,
            changes: Mutex::new(None),
            persistent: false,
            tables: RwLock::new(StatusTable::built_in()),
            made_ms: RwLock::new(HashMap::new()),
            readings: Mutex::default(),
            shared_readings: Mutex::new(Vec::new()),
            many_calls: Mutex::default(),
            annotations: Annotations::default(),
            alerts: Arc::default(),
            releases: Releases::default(),
            importer: None,
            refill: RwLock::default(),
            mark: Mutex::default(),
        }
    }

    /// Adds what the daemon keeps beside its data: the tables on itself, annotations, alerts and
    /// releases; and a place to save changes.
    pub fn keeping(
        self,
        tables: Vec<StatusTable>,
        annotations: Annotations,
        (alerts, releases): (&Arc<Alerts>, &Releases),
        state: Option<State>,
    ) -> Self {
        Self {
            annotations,
            alerts: Arc::clone(alerts),
            releases: releases.clone(),
            tables: RwLock::new(tables),
            persistent: state.is_some(),
            changes: Mutex::new(state),
            ..self
        }
    }

    /// With the report that was probably meant by one that there is not. Takes the lock: nobody
    /// here may hold it.
    fn suggesting(&self, error: QueryError) -> QueryError {
        error.suggesting(|| self.reports().into_iter().map(|report| report.name).collect())
    }

    /// The reader of raw rows.
    ///
    /// # Errors
    /// [`QueryError::RawDataOff`] if none are kept.
    pub fn raw(&self) -> Result<&RawReader, QueryError> {
        self.raw.as_ref().ok_or(QueryError::RawDataOff)
    }

    fn entry(&self, name: &str) -> Result<Entry, QueryError> {
        let live = answering(&self.live);
        live.reports.find(name).cloned().ok_or_else(|| QueryError::unknown_report(name))
    }

    fn summary(&self, entry: &Entry, rows: usize) -> ReportSummary {
        let definition = &entry.definition;
        let columns = columns(&definition.layout);
        let keys = key_columns(&definition.layout).map(|at| columns[at].name.clone());
        let mut keys: Vec<String> = keys.collect();
        if keys.len() > 1 {
            keys.retain(|key| key != INDEX_VALUE);
        }
        ReportSummary {
            name: definition.name.clone(),
            kind: definition.kind.name().to_owned(),
            comment: definition.comment.clone(),
            keys,
            window_seconds: definition.window.as_secs_f64(),
            rows: rows as u64,
            columns,
            definition: serde_json::to_value(ReportForm::from(&**definition)).unwrap_or_default(),
            open_from: definition.buckets.open_from(),
            defined: entry.defined_by.clone(),
            persistent: self.is_persistent(&entry.defined_by),
            partial: Vec::new(),
        }
    }

    /// Whether such a definition survives a restart.
    fn is_persistent(&self, by: &DefinedBy) -> bool {
        self.persistent || *by != DefinedBy::RunTime
    }

    /// The columns of a table of any kind, and its approximate number of rows.
    pub fn columns_of(&self, name: &str) -> Option<(Vec<Column>, usize)> {
        let live = answering(&self.live);
        if let Some(table) = FixedTable::raw(name) {
            let pool = &live.pool;
            let rows = match table {
                FixedTable::Request | FixedTable::RequestTag => pool.requests.len(),
                FixedTable::Tag => pool.strings.timer_tags(),
                FixedTable::SquidActivity if !pool.activities.are_kept() => return None,
                FixedTable::SquidActivity => pool.activities.len(),
                _ => pool.timers.len(),
            };
            return Some((table.columns(&self.defaults), rows));
        }
        if let Some(entry) = live.reports.find(name) {
            return Some((columns(&entry.definition.layout), live.reports.rows(entry)));
        }
        drop(live);
        let table = self.table_named(name)?;
        let rows = self.table_rows(&table);
        Some((table.columns(&self.defaults), rows))
    }

    /// The declaration of a table in Pinba's layout, by any of its names.
    pub fn create_table(&self, name: &str) -> Option<CreateTable> {
        if let Ok(entry) = self.entry(name) {
            return Some(create_table::report(&entry.definition));
        }
        let raw = FixedTable::raw(name).filter(|_| self.columns_of(name).is_some());
        if let Some(table) = raw {
            return Some(create_table::fixed(name, table, &self.defaults));
        }
        Some(self.table_named(name)?.create_table(name, &self.defaults))
    }

    /// Whether the merger has run recently.
    pub fn merger_runs(&self) -> bool {
        let silent_ms = self.clock.mono_ms().saturating_sub(self.pulse.last_ms());
        silent_ms <= MERGER_SILENT_MS_MAX + self.status.gathering_period.load().as_millis() as u64
    }

    /// The daemon's counters: the legacy columns of table `status` first, in order, then its own.
    /// `datagrams_invalid` and the like are objects by reason; `sockets` is an array with an object
    /// per socket.
    pub fn status(&self) -> serde_json::Map<String, serde_json::Value> {
        reading::object(&self.status_groups())
    }

    /// Likewise with the kind and help of each number.
    pub fn status_groups(&self) -> Vec<Group> {
        self.status.groups(&self.live)
    }

    /// The senders of packets, the busiest `limit` of them, and the sum of all others; `None` if
    /// they are not counted.
    pub fn sources(&self, limit: usize) -> Option<(Vec<SenderCounts>, Counts)> {
        let sources = self.status.sources.as_ref()?;
        Some(sources.list(limit, self.clock.mono_ms()))
    }

    /// The wall clock, milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// All reports, in the order in which they were defined.
    pub fn reports(&self) -> Vec<ReportSummary> {
        let entries: Vec<(Entry, usize)> = {
            let live = answering(&self.live);
            let entries = live.reports.iter();
            entries.map(|entry| (entry.clone(), live.reports.rows(entry))).collect()
        };
        let reports = entries.iter().map(|(entry, rows)| self.summary(entry, *rows));
        let tables = self.tables.read().clone();
        reports.chain(tables.iter().map(|table| self.table_summary(table))).collect()
    }

    /// One report, likewise.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`].
    pub fn listed(&self, name: &str) -> Result<ReportSummary, QueryError> {
        let mut reports = self.reports().into_iter();
        let report = reports.find(|report| report.name == name);
        report.ok_or_else(|| self.suggesting(QueryError::unknown_report(name)))
    }

    /// All that the pinbads of the fleet have shipped.
    ///
    /// # Errors
    /// [`QueryError::BadValue`] without `clickhouse.url`.
    pub fn fleet(&self) -> Result<&crate::clickhouse::Fleet, QueryError> {
        self.status.fleet.as_ref().ok_or_else(|| {
            let why = "there is no fleet: clickhouse.url is not set, so nothing is shipped; accepted: false";
            QueryError::bad_value("fleet", why)
        })
    }

    /// A report at the requested time, for the requested pinbads.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`], [`QueryError::Busy`]; for a span also
    /// [`QueryError::NoHistory`].
    pub fn report(
        &self,
        name: &str,
        question: &ReportQuestion,
    ) -> Result<ReportAnswer, QueryError> {
        let answer = match (&question.when, &question.columns) {
            (When::Span(spans), _) => self.past_report(name, spans, question),
            (When::Now, _) if question.whose.is_fleet() => Err(no_present()),
            (When::Now, Columns::Own) => self.own(name, question),
            (When::Now, columns) => {
                let one = self.in_columns(&[name], columns);
                one.and_then(|mut one| one.pop().ok_or_else(|| QueryError::unknown_report(name)))
            }
        };
        answer.map_err(|error| self.suggesting(error))
    }

    /// Several reports in columns other than their own. Together they cost little more than one,
    /// and requests at about the same time share the result. If the fleet fails to answer about
    /// one, the others are not requested.
    ///
    /// # Errors
    /// As for [`Catalog::report`], for live reports; for a span each has its own result.
    pub fn reports_in(
        &self,
        names: &[&str],
        question: &ReportQuestion,
    ) -> Result<Vec<Result<ReportAnswer, QueryError>>, QueryError> {
        if question.when == When::Now && !question.whose.is_fleet() {
            let answers = self.in_columns(names, &question.columns)?;
            return Ok(answers.into_iter().map(Ok).collect());
        }
        let mut busy = None;
        let answers = names.iter().map(|name| match &busy {
            Some(why) => Err(QueryError::clone(why)),
            None => self.report(name, question).inspect_err(|why| {
                busy = matches!(why, QueryError::Busy(_)).then(|| why.clone());
            }),
        });
        Ok(answers.collect())
    }

    /// The wall clock in milliseconds; for the fleet, which ships with a delay of some minutes, the
    /// end of the newest minute that all have shipped.
    pub fn now_ms(&self, whose: &Whose) -> u64 {
        let now = self.clock.unix_ms();
        match whose.is_fleet() {
            true => shipped_until(now / 1_000) * 1_000,
            false => now,
        }
    }

    /// The distribution of times in one row of a report: the first row whose key columns show the
    /// texts in `equal`. `None` if there is no such row.
    ///
    /// # Errors
    /// As for [`Catalog::report`].
    pub fn distribution(
        &self,
        name: &str,
        equal: &[(String, String)],
        (when, whose): (&When, &Whose),
    ) -> Result<Option<Distribution>, QueryError> {
        match when {
            When::Span(Spans { span, .. }) => self.past_distribution(name, equal, span, whose),
            When::Now if whose.is_fleet() => Err(no_present()),
            When::Now => self.distribution_of(name, equal),
        }
    }

    /// The raw timers of the requests that match, summed up by keys of choice.
    ///
    /// # Errors
    /// As for [`Catalog::requests`]; for a span [`QueryError::NoHistory`].
    pub fn timer_groups(
        &self,
        search: &TimerSearch,
        when: &When,
    ) -> Result<TimerGroups, QueryError> {
        match when {
            When::Span(Spans { span, .. }) => self.past_timer_groups(span, search),
            When::Now => Ok(self.raw()?.timer_groups(search)),
        }
    }

    /// Raw requests, newest or slowest first; of equally slow ones the newest.
    ///
    /// # Errors
    /// [`QueryError::RawDataOff`], [`QueryError::Busy`]; of a span [`QueryError::NoHistory`].
    pub fn requests(&self, question: &RequestQuestion) -> Result<RequestPage, QueryError> {
        match &question.when {
            When::Span(Spans { span, .. }) => self.past_requests(span, question),
            When::Now => Ok(self.raw()?.requests(question, self.clock.unix_ms())),
        }
    }

    /// One raw request with its tags and timers; with a run, from disk or memory, including `run`
    /// and `weight`.
    ///
    /// # Errors
    /// [`QueryError::UnknownRequest`], [`QueryError::RawDataOff`]; with a run
    /// [`QueryError::NoHistory`].
    pub fn request(&self, id: u64, run: Option<u64>) -> Result<RequestDetail, QueryError> {
        match run {
            Some(run) => self.past_request(run, id),
            None => self.raw()?.request(id),
        }
    }

    /// Unix second from which on all raw requests are in memory, if any are kept.
    pub fn memory_from(&self) -> Option<u64> {
        self.raw.as_ref()?.complete_from()
    }

    /// Whether there is a Squid log source.
    pub fn has_squid(&self) -> bool {
        self.squids().next().is_some()
    }

    /// Whether there is such a source, or a report on what one sent.
    pub fn knows_squid(&self) -> bool {
        self.has_squid() || answering(&self.live).reports.find("squid_codes").is_some()
    }

    /// Clears pools and reports, also for the next process; counters stay.
    ///
    /// # Errors
    /// [`QueryError::Busy`] if the merger did not get round to it in time.
    pub fn reset(&self) -> Result<(), QueryError> {
        let _one_at_a_time = CHANGES.lock(&self.changes);
        // Before they leave the pool.
        self.status.history.iter().for_each(History::copy_requests);
        writing(&self.live).clear();
        if let Some(profile) = &self.status.profile {
            profile.clear();
        }
        for source in self.squids() {
            source.sums.lock().clear();
        }
        *self.readings.lock() = Readings::default();
        self.shared_readings.lock().clear();
        let mut mark = self.mark.lock();
        *self.refill.write() = None;
        mark.iter_mut().for_each(|mark| mark.reset(self.clock.unix_ms()));
        Ok(())
    }

    /// The span, in unix seconds, for which live reports include rows of history, by the minute: a
    /// process was killed, and its counts since the last snapshot were lost.
    pub fn refilled(&self) -> Option<std::ops::Range<u64>> {
        self.refill()?.filled()
    }

    /// The unix second of the start after that kill, or after the last of several.
    pub(crate) fn lost_until(&self) -> Option<u64> {
        self.refill().map(|refill| refill.lost_until())
    }

    /// That span, as far as this report includes rows for it, and as far as it lacks them: history
    /// may not have kept the report, or it was made since.
    pub(crate) fn refilled_in(&self, name: &str) -> Option<[std::ops::Range<u64>; 2]> {
        let refill = self.refill()?;
        let of = Arc::clone(&answering(&self.live).reports.find(name)?.definition);
        Some(refill.in_report(&of))
    }

    /// Rows and raw requests of history that were lost with the end of the process.
    pub(crate) fn history_lost_at_stop(&self) -> Option<LostAtStop> {
        self.status.history.as_ref().and_then(History::lost_at_stop)
    }
}

fn no_present() -> QueryError {
    QueryError::bad_value("fleet", "has no present; accepted: a span")
}

fn columns(layout: &ColumnLayout) -> Vec<Column> {
    layout.columns().iter().map(|column| column.column.clone()).collect()
}

/// The columns by which rows can be selected: keys, and `index_value`.
fn key_columns(layout: &ColumnLayout) -> impl Iterator<Item = usize> + '_ {
    let columns = layout.columns().iter().enumerate();
    columns.filter_map(move |(at, column)| is_key(&column.cell).then_some(at))
}

/// Whether a column has a key of its rows.
const fn is_key(cell: &Cell) -> bool {
    matches!(cell, Cell::Key(_) | Cell::IndexValue(_))
}
