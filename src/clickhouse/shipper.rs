//! The shipping thread: sends history to ClickHouse, minute by minute, each row once.
//!
//! The disk is the queue. A shipment is sent as blocks of rows, each retried until the server has
//! accepted it; after a kill it is sent again from its first row, and replaces identical rows.
//! Bounded: a block.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tracing::{error, info, warn};

use super::native::Block;
use super::rows::{self, Origin, ReportRow, RequestRow};
use super::server::{Failure, Sent, Server};
use super::tables::{self, TABLES, Table};
use super::views;
use crate::backoff::BackOff;
use crate::clock::Clock;
use crate::config::ClickHouseConfig;
use crate::history::{
    Dataset, Identity, Parts, READ_TRIES, Refused, Shipment, ShipmentRows, Shipping, Unread,
    Waiting,
};
use crate::instruments::Instrument;
use crate::shutdown::Shutdown;
use crate::telemetry::counters::ClickHouseCounters;
use crate::telemetry::reading::{Group, Place, readings};
use crate::value::text::joined;

/// Sends rows of history; counts rows.
pub(super) static SHIP: Instrument = Instrument::new("stage/clickhouse/ship");

/// Interval of checks for something to ship, and for a stop.
const NAP: Duration = Duration::from_millis(50);
/// Most rows of a block, and most bytes before compression.
const BLOCK_ROWS: u64 = 65_536;
const BLOCK_BYTES: usize = 8 << 20;
/// First and longest pause after a failed attempt, in milliseconds.
const PAUSE_MS: (u64, u64) = (500, 60_000);
/// Interval of retries for refused rows, in milliseconds.
const REFUSED_MS: u64 = 600_000;

/// The state of shipping, shared by all readers.
#[derive(Debug)]
pub struct ShipStatus {
    /// The source of rows, once history is open.
    from: OnceLock<Shipping>,
    counters: ClickHouseCounters,
    clock: Arc<dyn Clock>,
    /// The error of the last attempt, if it failed.
    error: Mutex<Option<String>>,
    waiting: Mutex<Waiting>,
}

impl ShipStatus {
    /// Ships from here; called when history is open.
    pub fn begin(&self, from: Shipping) {
        // Set once: the store stays open.
        let _was_empty = self.from.set(from);
        self.show();
    }

    fn now(&self) -> u64 {
        self.clock.unix_ms() / 1_000
    }

    /// Publishes the rows that wait.
    fn show(&self) {
        if let Some(from) = self.from.get() {
            *self.waiting.lock() = from.waiting();
        }
    }

    /// Why nothing, or not everything, is shipped, if so.
    pub(crate) fn why_failing(&self) -> Option<String> {
        if let Some(why) = &*self.error.lock() {
            return Some(format!("nothing is shipped to ClickHouse: {why}"));
        }
        let waiting = self.waiting.lock();
        let refused = |it: &Refused| format!("{} rows for {}: {}", it.rows, it.table, it.error);
        let refused = joined(waiting.refused.iter().map(refused), "; ");
        (!refused.is_empty()).then(|| format!("ClickHouse refused {refused}"))
    }

    /// For the daemon's status.
    pub(crate) fn group(&self) -> Group {
        let Waiting { rows, bytes, since, dropped, refused } = self.waiting.lock().clone();
        let age = since.map_or(0, |since| self.now().saturating_sub(since));
        let mut readings = readings! {
            Gauge rows_waiting = rows, "Rows of history that ClickHouse has not got yet.";
            Gauge waiting_bytes = bytes, "Bytes of the files of history.dir that have them.";
            Gauge waiting_age_seconds = age, "Since when the oldest of them lies on disk; some minutes are the rule.";
            Gauge rows_refused = refused.iter().map(|it| it.rows).sum::<u64>(), "Rows that ClickHouse refused; set aside, and tried again now and then.";
            Counter rows_dropped = dropped, "Rows that were removed or given up before ClickHouse had them.";
        };
        readings.extend(self.counters.counts().readings());
        let refused = refused.iter().map(|it| {
            json!({"table": it.table, "part": it.units.part(), "rows": it.rows, "error": it.error})
        });
        let texts = json!({"error": *self.error.lock(), "refused": refused.collect::<Vec<_>>()});
        Group::new(Place::Object("clickhouse"), readings).with_texts(texts)
    }
}

/// Ships, as soon as there is a source.
#[derive(Debug)]
pub struct ShippingThread {
    server: Server,
    status: Arc<ShipStatus>,
    /// The names under which shipments begin.
    names: Identity,
    /// Statements to run before anything more is shipped. If one is refused, the rest of its group
    /// is skipped.
    statements: VecDeque<Vec<String>>,
    /// Reports with views, by name, and whether these match the current definition.
    viewed: HashMap<String, (Arc<Dataset>, bool)>,
    back_off: BackOff,
    /// Next retry of refused rows, in monotonic milliseconds.
    refused_ms: u64,
}

impl ShippingThread {
    /// Ships to the server of the configuration.
    ///
    /// # Errors
    /// Fails if the password or certificates cannot be read.
    pub fn new(config: &ClickHouseConfig, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let collector = match config.collector.as_str() {
            "" => std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default(),
            named => named.to_owned(),
        };
        let made = config.create_tables.then(|| tables::statements(&config.database, None));
        let status = ShipStatus {
            from: OnceLock::new(),
            counters: ClickHouseCounters::default(),
            clock,
            error: Mutex::default(),
            waiting: Mutex::default(),
        };
        Ok(Self {
            server: Server::of(config)?,
            names: Identity { collector: collector.trim().to_owned(), dc: config.dc.clone() },
            statements: made.into_iter().flatten().map(|it| vec![it]).collect(),
            viewed: HashMap::new(),
            back_off: BackOff::new(PAUSE_MS.0, PAUSE_MS.1),
            refused_ms: status.clock.mono_ms(),
            status: Arc::new(status),
        })
    }

    /// The state of shipping.
    pub(crate) fn status(&self) -> Arc<ShipStatus> {
        Arc::clone(&self.status)
    }

    /// Ships until a stop is requested; the rest is shipped after the next start.
    pub fn run(mut self, stop: &Shutdown) {
        let mut looked = 0;
        while !stop.requested() {
            std::thread::sleep(NAP);
            let now = self.status.now();
            let Some(from) = self.status.from.get().filter(|_| looked != now).cloned() else {
                continue;
            };
            if looked == 0 {
                info!(url = self.server.config.url, "Shipping history to ClickHouse.");
            }
            looked = now;
            self.status.show();
            // One after the other while there are more.
            while self.ship(&from, stop).unwrap_or(false) {
                self.status.show();
            }
        }
    }

    /// Ships the next shipment; returns whether there was one.
    fn ship(&mut self, from: &Shipping, stop: &Shutdown) -> Sent<bool> {
        self.make(stop)?;
        if let Some(mut shipment) = self.again(stop, |it| Ok(from.next(it.status.now())?))? {
            self.view(&shipment, &from.parts);
            self.make(stop)?;
            let names = self.again(stop, |it| Ok(from.begin(&shipment, &it.names)?))?;
            let origin = Origin { store: from.store, names, units: shipment.units };
            let refused = self.send(&mut shipment, &origin, None, stop)?;
            self.again(stop, |_| Ok(from.end(&shipment, refused.clone())?))?;
            return Ok(true);
        }
        if self.status.clock.mono_ms() >= self.refused_ms {
            self.refused_ms = self.status.clock.mono_ms() + REFUSED_MS;
            for (before, mut shipment) in from.refused() {
                let names = before.identity.as_ref().unwrap_or(&self.names).clone();
                let origin = Origin { store: from.store, names, units: shipment.units };
                if self.send(&mut shipment, &origin, Some(&before.table), stop)?.is_empty() {
                    self.again(stop, |_| Ok(from.end_refused(&before)?))?;
                }
            }
        }
        Ok(false)
    }

    /// Runs the statements.
    fn make(&mut self, stop: &Shutdown) -> Sent {
        while let Some(together) = self.statements.front().cloned() {
            for statement in together {
                // There may be hundreds, on a slow server.
                self.status.show();
                match self.again(stop, |it| it.server.execute(&statement, stop)) {
                    Err(Failure::Refused(error)) => {
                        warn!(statement, error, "ClickHouse rejected a statement; skipped it.");
                        break;
                    }
                    made => made?,
                }
            }
            self.statements.pop_front();
        }
        Ok(())
    }

    /// Queues views for reports that were not shipped before, if wanted: of two definitions of a
    /// name, for the later one. Files are shipped last, and are older than pieces.
    fn view(&mut self, shipment: &Shipment, parts: &Parts) {
        let config = &self.server.config;
        if !config.create_tables {
            return;
        }
        let is_new = matches!(shipment.units, ShipmentRows::Pieces(..));
        for dataset in shipment.datasets() {
            let before = self.viewed.get(&dataset.report);
            let has = before.is_some_and(|it| it.0 == dataset || it.1 && !is_new);
            if has || !dataset.is_report() {
                continue;
            }
            let is_report = |name: &str| {
                let parts = parts.read();
                let mut sections = parts.iter().flat_map(|part| &part.sections);
                self.viewed.contains_key(name)
                    || sections.any(|section| section.dataset.report == name)
            };
            let statements = views::views(&config.database, None, &dataset, is_report);
            self.statements.extend(statements.into_iter().map(Vec::from));
            self.viewed.insert(dataset.report.clone(), (dataset, is_new));
        }
    }

    /// Sends the rows of a shipment, or only those for one table; returns the refused ones.
    fn send(
        &mut self,
        shipment: &mut Shipment,
        origin: &Origin,
        only: Option<&str>,
        stop: &Shutdown,
    ) -> Sent<Vec<Refused>> {
        loop {
            match self.send_rows(shipment, origin, only, stop) {
                Ok((refused, unread)) => {
                    // Refused rows are read again and again, and were counted.
                    for Unread { path, reason, rows } in unread.iter().filter(|_| only.is_none()) {
                        self.status.counters.rows_unreadable.add(*rows);
                        error!(file = %path.display(), reason, rows, "A file of history cannot be read: its rows are not shipped.");
                    }
                    for Refused { table, rows, error, .. } in &refused {
                        warn!(table, rows, error, "ClickHouse refuses rows: they are set aside.");
                    }
                    return Ok(refused);
                }
                Err(Failure::Unreadable { path, reason }) => {
                    if path.try_exists().is_ok_and(|exists| !exists) {
                        // Retention took it, or it is missing: `Shipping::next` knows.
                        return Err(Failure::Later(reason));
                    }
                    let tries = shipment.unread(&path);
                    // Blocks before it may have been sent, which ends a longer wait.
                    for _ in 1..tries {
                        self.back_off.failed(self.status.clock.mono_ms(), None);
                    }
                    self.pause(&format!("{}: {reason}", path.display()), stop)?;
                    if tries > READ_TRIES {
                        // It cannot even be opened: see `Shipping::next`.
                        return Err(Failure::Later(reason));
                    }
                }
                Err(Failure::Later(error)) => self.pause(&error, stop)?,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Sends the rows table by table; returns the refused ones, and files that could not be read.
    fn send_rows(
        &mut self,
        shipment: &Shipment,
        origin: &Origin,
        only: Option<&str>,
        stop: &Shutdown,
    ) -> Sent<(Vec<Refused>, Vec<Unread>)> {
        let (mut refused, mut unread) = (Vec::new(), Vec::new());
        let mut work = [0, shipment.rows_max()];
        for table in TABLES.into_iter().filter(|it| only.is_none_or(|only| only == it.name)) {
            let block = Block::new(table);
            let mut sending = Sending { table, block, origin, refused: None, work: &mut work };
            for dataset in shipment.datasets().into_iter().filter(|it| table.has(it)) {
                if dataset.is_raw() {
                    unread.extend(shipment.requests(stop, &mut |request, weight, timers| {
                        let tags = &self.server.config.tags;
                        let row = RequestRow { origin, tags, request, weight, timers };
                        let mut to = sending.block.row();
                        rows::REQUEST.iter().for_each(|(.., value)| value(&row, &mut to));
                        self.send_block(&mut sending, false, stop)
                    })?);
                } else {
                    let is_coverage = dataset.is_coverage();
                    let columns = if is_coverage { &rows::COVERAGE[..] } else { &rows::ROLLUP };
                    let columns = rows::REPORT.iter().chain(columns);
                    unread.extend(shipment.rows(&dataset, stop, &mut |row| {
                        let row = ReportRow { origin, dataset: &dataset, row };
                        let mut to = sending.block.row();
                        columns.clone().for_each(|(.., value)| value(&row, &mut to));
                        self.send_block(&mut sending, false, stop)
                    })?);
                }
            }
            self.send_block(&mut sending, true, stop)?;
            refused.extend(sending.refused);
        }
        Ok((refused, unread))
    }

    /// Sends the block if it is full, or the last one, until it is accepted or refused.
    fn send_block(&mut self, sending: &mut Sending<'_>, is_last: bool, stop: &Shutdown) -> Sent {
        let (table, block) = (sending.table, &mut sending.block);
        let is_full = block.rows >= BLOCK_ROWS || block.bytes() >= BLOCK_BYTES;
        if block.rows == 0 || !is_last && !is_full {
            return Ok(());
        }
        let block = std::mem::replace(block, Block::new(table));
        let rows = block.rows;
        if let Some(refused) = &mut sending.refused {
            refused.rows += rows;
            return Ok(());
        }
        let body = block.packed().map_err(|error| Failure::Later(error.to_string()))?;
        drop(block);
        let statement = table.insert();
        let [accepted, most] = *sending.work;
        let sent = self.again(stop, |it| {
            // A stage for each try: nothing is sent in the pauses between them.
            let mut stage = SHIP.begin();
            stage.work(accepted, most);
            it.server.insert(&statement, body.clone(), stop)?;
            stage.advance(rows);
            Ok(())
        });
        if let Err(Failure::Refused(error)) = sent {
            let Origin { names, units, .. } = sending.origin;
            sending.refused = Some(Refused {
                units: *units,
                table: table.name.to_owned(),
                rows,
                error,
                identity: Some(names.clone()),
            });
            return Ok(());
        }
        sent?;
        let counters = &self.status.counters;
        counters.rows_shipped.add(rows);
        counters.shipped_bytes.add(body.len() as u64);
        sending.work[0] += rows;
        Ok(())
    }

    /// Retries an action until it is done, refused, or a stop is requested.
    fn again<T>(&mut self, stop: &Shutdown, work: impl Fn(&Self) -> Sent<T>) -> Sent<T> {
        loop {
            match work(self) {
                Err(error @ (Failure::Later(_) | Failure::Unreadable { .. })) => {
                    self.pause(&error.to_string(), stop)?;
                }
                Err(Failure::Stopped) => return Err(Failure::Stopped),
                ended => {
                    self.back_off.succeeded();
                    if self.status.error.lock().take().is_some() {
                        info!("History is shipped to ClickHouse again.");
                    }
                    return ended;
                }
            }
        }
    }

    /// Waits after a failure, ever longer.
    fn pause(&mut self, error: &str, stop: &Shutdown) -> Sent {
        self.status.counters.failures.add(1);
        let before = self.status.error.lock().replace(error.to_owned());
        if before.as_deref() != Some(error) {
            warn!(error, "Cannot ship to ClickHouse: history keeps it, and it is tried again.");
        }
        self.back_off.failed(self.status.clock.mono_ms(), None);
        while !self.back_off.is_over(self.status.clock.mono_ms()) {
            if stop.requested() {
                return Err(Failure::Stopped);
            }
            self.status.show();
            std::thread::sleep(NAP);
        }
        Ok(())
    }
}

/// The rows for a table, in transit.
struct Sending<'s> {
    table: &'static Table,
    block: Block,
    origin: &'s Origin,
    /// Rows of earlier blocks, once one was refused.
    refused: Option<Refused>,
    /// Rows of the shipment that were accepted, and most rows that it has.
    work: &'s mut [u64; 2],
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;
    use crate::clock::ManualClock;
    use crate::config::{Config, ShippedRows};
    use crate::history::{Gain, Retention, Store, UnflushedRows};

    /// As at a start beside a slow server, which has views of many reports to make.
    #[test]
    fn what_waits_is_shown_while_statements_run() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = ClickHouseConfig { url, create_tables: true, ..Config::default().clickhouse };
        let mut shipper =
            ShippingThread::new(&config, Arc::new(ManualClock::new(600_000))).unwrap();
        let (dir, status) = (tempfile::tempdir().unwrap(), shipper.status());
        let retention = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };
        let mut store = Store::open(dir.path(), retention).unwrap();
        status.begin(store.ship(Some(&[ShippedRows::Rollups])).unwrap().unwrap());
        let mut rows = UnflushedRows::default();
        rows.add(&Arc::new(Dataset::coverage()), 60, b"", false, &Gain::default());
        store.flush(&rows, 60, || ()).unwrap();
        let stop = Shutdown::new();
        let to_stop = stop.clone();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _statement = stream.read(&mut [0; 4096]).unwrap();
            let waiting = status.group().count("rows_waiting");
            to_stop.request();
            waiting
        });
        assert_eq!(shipper.make(&stop), Err(Failure::Stopped));
        assert_eq!(server.join().unwrap(), 1);
    }
}
