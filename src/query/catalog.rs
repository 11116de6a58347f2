//! The catalog: what every front end asks, over the live pool, the reports, the past and the counters.
//!
//! A question takes the lock of [`Live`](crate::merger::Live) for reading, copies what it needs into a table of its own and
//! lets go; formulas run later, without the lock. Changes to the set of reports come through here one at a time
//! (`changes`); `status_tables` answers for the tables in which the daemon speaks of itself.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::error::QueryError;
use super::question::{ReportQuestion, RequestQuestion, Spans, When, Whose, shipped_until};
use super::raw::RawReader;
use super::read_model::{
    Distribution, FollowStep, Followed, ReportAnswer, ReportSummary, RequestDetail, RequestPage,
    RequestSearch, TimerGroups, TimerSearch,
};
use super::status::Status;
use super::tables::StatusTable;
use crate::alert::Alerts;
use crate::clock::Clock;
#[cfg(feature = "sql")]
use crate::history::{History, import::Importer};
use crate::input::udp::senders::{Counts, SenderCounts};
use crate::merger::{Pulse, SharedLive, answering, writing};
use crate::report::comment::FixedTable;
use crate::report::ddl::{self, CreateTable};
use crate::report::definition::{Columns, Defaults};
use crate::report::layout::ColumnLayout;
use crate::report::native::ReportForm;
use crate::report::{DefinedBy, Entry};
use crate::state::State;
use crate::state::annotations::Annotations;
use crate::telemetry::reading::{self, Group};
use crate::value::Column;

mod alerts;
mod attributed;
pub(crate) mod changes;
#[cfg(feature = "sql")]
mod compared;
#[cfg(feature = "sql")]
mod fleet;
#[cfg(feature = "sql")]
mod imports;
mod many_calls;
#[cfg(not(feature = "sql"))]
mod no_past;
#[cfg(feature = "sql")]
mod past;
#[cfg(feature = "sql")]
mod past_requests;
#[cfg(feature = "sql")]
mod past_table;
#[cfg(feature = "sql")]
mod past_timers;
mod ranking;
mod readings;
mod reconfigure;
#[cfg(feature = "sql")]
pub(crate) mod refill;
#[cfg(feature = "sql")]
mod replay;
mod report_table;
mod selected;
mod status_tables;

use changes::CHANGES;
use readings::Readings;

pub use ranking::RANKED_ROWS_MAX;
pub use readings::READINGS_BYTES_MAX;
pub use reconfigure::Reconfigured;
pub use selected::SelectedRows;

/// How long the merger may be silent before the daemon is not ready.
const MERGER_SILENT_MS_MAX: u64 = 5_000;

/// What the catalog answers from.
#[derive(Debug)]
pub struct Catalog {
    live: SharedLive,
    clock: Arc<dyn Clock>,
    defaults: Defaults,
    /// Of the raw rows, if any are kept.
    raw: Option<RawReader>,
    status: Status,
    pulse: Arc<Pulse>,
    /// One change to the set of reports at a time, and where it is kept: nowhere without `state.dir`, and nowhere any
    /// more while the daemon stops.
    changes: Mutex<Option<State>>,
    /// Whether changes are kept.
    persistent: bool,
    /// The tables in which the daemon speaks of itself. Names are not those of reports.
    tables: RwLock<Vec<StatusTable>>,
    /// When the reports were made that were not there from the start, monotonic milliseconds.
    made_ms: RwLock<HashMap<String, u64>>,
    /// Monotonic milliseconds when the catalog was made.
    started_ms: u64,
    /// The last reading of each report, for as long as nothing changed.
    readings: Mutex<Readings>,
    /// What pages were shown a moment ago.
    rankings: Mutex<Vec<ranking::Ranked>>,
    annotations: Annotations,
    alerts: Alerts,
    /// What takes logs into history.
    #[cfg(feature = "sql")]
    importer: Option<Importer>,
    #[cfg(feature = "sql")]
    refill: RwLock<Option<Arc<refill::Refill>>>,
}

impl Catalog {
    /// A catalog over what a daemon keeps.
    #[must_use]
    pub fn new(
        live: SharedLive,
        clock: Arc<dyn Clock>,
        defaults: Defaults,
        keeps_raw: bool,
        status: Status,
        pulse: Arc<Pulse>,
    ) -> Self {
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
            rankings: Mutex::new(Vec::new()),
            annotations: Annotations::default(),
            alerts: Alerts::none(),
            #[cfg(feature = "sql")]
            importer: None,
            #[cfg(feature = "sql")]
            refill: RwLock::default(),
        }
    }

    /// The same, where logs can be imported.
    #[cfg(feature = "sql")]
    #[must_use]
    pub fn importing(self, importer: Option<Importer>) -> Self {
        Self { importer, ..self }
    }

    /// The same with these alerts.
    #[must_use]
    pub fn alerting(self, alerts: &Alerts) -> Self {
        let alerts = alerts.clone();
        Self { alerts, ..self }
    }

    /// The same with these tables of the daemon's own and these annotations, and with a place where changes are kept.
    #[must_use]
    pub fn keeping(
        mut self,
        tables: Vec<StatusTable>,
        annotations: Annotations,
        state: Option<State>,
    ) -> Self {
        self.annotations = annotations;
        self.tables = RwLock::new(tables);
        self.persistent = state.is_some();
        self.changes = Mutex::new(state);
        self
    }

    /// With the report that was probably meant by one that there is not. Takes the lock: nobody here may hold it.
    fn suggesting(&self, error: QueryError) -> QueryError {
        error.suggesting(|| {
            self.reports()
                .into_iter()
                .map(|report| report.name)
                .collect()
        })
    }

    /// The raw rows, if any are kept.
    fn raw(&self) -> Result<&RawReader, QueryError> {
        self.raw.as_ref().ok_or(QueryError::RawDataOff)
    }

    fn entry(&self, name: &str) -> Result<Entry, QueryError> {
        let live = answering(&self.live);
        let entry = live.reports.find(name).cloned();
        entry.ok_or_else(|| QueryError::unknown_report(name))
    }

    fn summary(&self, entry: &Entry, rows: usize) -> ReportSummary {
        let definition = &entry.definition;
        let columns = columns(&definition.layout);
        let keys = key_columns(&definition.layout).map(|at| columns[at].name.clone());
        let keys: Vec<String> = keys.collect();
        ReportSummary {
            name: definition.name.clone(),
            kind: definition.kind.name().to_owned(),
            comment: definition.comment.clone(),
            keys,
            window_seconds: definition.window.as_secs_f64(),
            rows: rows as u64,
            columns,
            definition: serde_json::to_value(ReportForm::from(&**definition)).unwrap_or_default(),
            defined: entry.defined_by.clone(),
            persistent: self.is_persistent(&entry.defined_by),
            complete: true,
        }
    }

    /// Whether what was defined so is there after a restart.
    fn is_persistent(&self, by: &DefinedBy) -> bool {
        self.persistent || *by != DefinedBy::RunTime
    }

    /// The columns of a table of any kind, and about how many rows it has.
    #[must_use]
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
        let rows = self.table_rows(&table, self.reports_listed());
        Some((table.columns(&self.defaults), rows))
    }

    /// A table as it is declared, in Pinba's layout, by whichever name it goes.
    #[must_use]
    pub fn create_table(&self, name: &str) -> Option<CreateTable> {
        if let Ok(entry) = self.entry(name) {
            return Some(ddl::report(&entry.definition));
        }
        let raw = FixedTable::raw(name).filter(|_| self.columns_of(name).is_some());
        if let Some(table) = raw {
            return Some(ddl::fixed(name, table, &self.defaults));
        }
        Some(self.table_named(name)?.create_table(name, &self.defaults))
    }

    /// Pools and reports, for those who look at them row by row.
    #[must_use]
    pub fn live(&self) -> &SharedLive {
        &self.live
    }

    /// Whether the merger has run lately.
    #[must_use]
    pub fn merger_runs(&self) -> bool {
        let silent_ms = self.clock.mono_ms().saturating_sub(self.pulse.last_ms());
        silent_ms <= MERGER_SILENT_MS_MAX + self.status.gathering_period_ms()
    }

    /// What a definition leaves open.
    #[must_use]
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }
}

impl Catalog {
    /// The daemon's counters: the legacy columns of table `status` first, in their order, then its own.
    /// `datagrams_invalid` and its kin are objects by reason; `sockets` is an array, one object a socket.
    pub fn status(&self) -> serde_json::Map<String, serde_json::Value> {
        reading::object(&self.status_groups())
    }

    /// The same with the kind and help of each number.
    pub fn status_groups(&self) -> Vec<Group> {
        self.status.groups(&self.live)
    }

    /// Who sends packets, the busiest `limit` of them, and all others together; `None`: that is not counted.
    pub fn sources(&self, limit: usize) -> Option<(Vec<SenderCounts>, Counts)> {
        let sources = self.status.sources.as_ref()?;
        Some(sources.list(limit, self.clock.mono_ms()))
    }

    /// The wall clock, milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// What happened when, as people noted it.
    pub fn annotations(&self) -> &Annotations {
        &self.annotations
    }

    /// All reports, in the order in which they were defined.
    pub fn reports(&self) -> Vec<ReportSummary> {
        let entries: Vec<(Entry, usize)> = {
            let live = answering(&self.live);
            let entries = live.reports.iter();
            entries
                .map(|entry| (entry.clone(), live.reports.rows(entry)))
                .collect()
        };
        let reports = entries
            .iter()
            .map(|(entry, rows)| self.summary(entry, *rows));
        reports.chain(self.table_summaries()).collect()
    }

    /// A report, of the time and of those that are asked for.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`], [`QueryError::Busy`]; of a span also
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
                let one = self.ranked(&[name], columns);
                one.and_then(|mut one| one.pop().ok_or_else(|| QueryError::unknown_report(name)))
            }
        };
        answer.map_err(|error| self.suggesting(error))
    }

    /// Several reports in columns that are not their own. Together they cost little more than one
    /// of them, and who asks at about the same time gets the same. Who does not answer about one is
    /// not asked about the others.
    ///
    /// # Errors
    /// As [`Catalog::report`], of reports as they stand; of a span each has its own.
    pub fn reports_in(
        &self,
        names: &[&str],
        question: &ReportQuestion,
    ) -> Result<Vec<Result<ReportAnswer, QueryError>>, QueryError> {
        if question.when == When::Now && !question.whose.is_fleet() {
            let answers = self.ranked(names, &question.columns)?;
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

    /// The wall clock; of many, who have shipped up to some minutes ago, the end of the newest
    /// minute that all have shipped; milliseconds.
    #[must_use]
    pub fn now_ms(&self, whose: &Whose) -> u64 {
        let now = self.clock.unix_ms();
        match whose.is_fleet() {
            true => shipped_until(now / 1_000) * 1_000,
            false => now,
        }
    }

    /// Makes a report and fills it from the data in memory.
    ///
    /// # Errors
    /// [`QueryError::BadValue`] naming the member and the bad part of it, [`QueryError::ReportExists`],
    /// [`QueryError::LimitReached`].
    pub fn create_report(&self, form: ReportForm) -> Result<ReportSummary, QueryError> {
        self.create(&form)
    }

    /// Drops a report that was made at run time. Whether a restart would bring it back no more: false without a state directory.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`], [`QueryError::ReportFixed`].
    pub fn drop_report(&self, name: &str) -> Result<bool, QueryError> {
        self.remove(name).map_err(|error| self.suggesting(error))?;
        Ok(self.persistent)
    }

    /// How the times of one row of a report are spread: the first row whose key columns show the texts in `equal`.
    /// `None`: there is no such row.
    ///
    /// # Errors
    /// As [`Catalog::report`].
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
    /// As [`Catalog::requests`]; of a span [`QueryError::NoHistory`].
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

    /// One raw request with its tags and timers; of a run that is named, from disk or memory, with
    /// `run` and `weight` too.
    ///
    /// # Errors
    /// [`QueryError::UnknownRequest`], [`QueryError::RawDataOff`]; of a run
    /// [`QueryError::NoHistory`].
    pub fn request(&self, id: u64, run: Option<u64>) -> Result<RequestDetail, QueryError> {
        match run {
            Some(run) => self.past_request(run, id),
            None => self.raw()?.request(id),
        }
    }

    /// The id of the youngest raw request that there has been; 0 before the first.
    ///
    /// # Errors
    /// [`QueryError::RawDataOff`].
    pub fn last_request_id(&self) -> Result<u64, QueryError> {
        Ok(self.raw()?.last_id())
    }

    /// The next raw requests behind one, oldest first: what a stream asks again and again. Of `search` only the conditions
    /// count, not the limit.
    ///
    /// # Errors
    /// [`QueryError::RawDataOff`].
    pub fn follow(&self, search: &RequestSearch, step: FollowStep) -> Result<Followed, QueryError> {
        Ok(self.raw()?.follow(search, step))
    }

    /// Whether there is a source of Squid's lines.
    pub fn has_squid(&self) -> bool {
        self.squids().next().is_some()
    }

    /// Empties pools and reports; counters stay.
    ///
    /// # Errors
    /// [`QueryError::Busy`] when the merger did not get round to it in time.
    pub fn reset(&self) -> Result<(), QueryError> {
        let _one_at_a_time = CHANGES.lock(&self.changes);
        writing(&self.live).clear();
        if let Some(profile) = &self.status.profile {
            profile.clear();
        }
        for source in self.squids() {
            source.sums.lock().clear();
        }
        self.readings.lock().clear();
        self.rankings.lock().clear();
        #[cfg(feature = "sql")]
        {
            *self.refill.write() = None;
        }
        Ok(())
    }

    /// The span, unix seconds, of which live reports have rows of history, by the minute: a process was killed, and what it had counted
    /// since its last snapshot was lost.
    #[must_use]
    pub fn refilled(&self) -> Option<std::ops::Range<u64>> {
        #[cfg(feature = "sql")]
        return Some(self.refill()?.filled());
        #[cfg(not(feature = "sql"))]
        None
    }

    /// What keeps the daemon from its work: sockets not bound, merger dead or behind. Empty: ready.
    pub fn unready(&self) -> Vec<String> {
        let silent_ms = self.clock.mono_ms().saturating_sub(self.pulse.last_ms());
        let silent = format!("the merger has not run for {} s", silent_ms / 1000);
        let silent = (!self.merger_runs()).then_some(silent);
        silent.into_iter().chain(self.status.behind()).collect()
    }

    /// What does not work although the daemon is ready, each with its reason.
    pub fn out_of_order(&self) -> Vec<String> {
        let snapshots = self.status.snapshots.as_ref();
        let failing = snapshots.and_then(|snapshots| snapshots.why_failing());
        let failing = failing.map(|why| format!("no snapshot can be written: {why}"));
        #[cfg(feature = "sql")]
        let history = self.status.history.as_ref().and_then(History::why_failing);
        #[cfg(not(feature = "sql"))]
        let history: Option<String> = None;
        history.into_iter().chain(failing).collect()
    }
}

fn no_present() -> QueryError {
    QueryError::bad_value("fleet", "has no present; accepted: a span")
}

fn columns(layout: &ColumnLayout) -> Vec<Column> {
    let columns = layout.columns().iter();
    columns.map(|column| column.column.clone()).collect()
}

/// The columns by which rows can be chosen: keys, and `index_value`.
fn key_columns(layout: &ColumnLayout) -> impl Iterator<Item = usize> + '_ {
    use crate::report::layout::Cell;
    let is_key =
        |cell: &Cell| matches!(cell, Cell::Key(_) | Cell::KeyText(_) | Cell::IndexValue(_));
    let columns = layout.columns().iter().enumerate();
    columns.filter_map(move |(at, column)| is_key(&column.cell).then_some(at))
}
