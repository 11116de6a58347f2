//! The shipping thread: sends history to ClickHouse, minute by minute, each row once.
//!
//! The disk is the queue. A shipment is sent as blocks of rows, each retried until the server has
//! accepted it; after a kill it is sent again from its first row, and replaces identical rows.
//! Bounded: a block.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tracing::{error, info, warn};

use super::native::Block;
use super::requests::{self, TagFilter};
use super::rollups::{Origin, push, table_of};
use super::server::{Failure, Server};
use super::tables::{self, Table};
use super::views;
use crate::clock::Clock;
use crate::config::ClickHouseConfig;
use crate::history::{
    Dataset, Identity, Parts, Refused, Shipment, ShipmentRows, Shipping, StoreError, Unread,
    Waiting, digest,
};
use crate::instruments::{Active, Instrument};
use crate::shutdown::Shutdown;
use crate::telemetry::counters::ClickHouseCounters;
use crate::telemetry::reading::{Group, Place, readings};

/// Sends rows of history; counts rows.
pub(super) static SHIP: Instrument = Instrument::new("stage/clickhouse/ship");

/// Interval of checks for something to ship, and for a stop.
const NAP: Duration = Duration::from_millis(50);
/// Most rows of a block, and most bytes before compression.
const BLOCK_ROWS: u64 = 65_536;
const BLOCK_BYTES: usize = 8 << 20;
/// First pause after a failed attempt, in milliseconds.
const PAUSE_MS: u64 = 500;
const PAUSE_MS_MAX: u64 = 60_000;
/// Interval of retries for refused rows, in milliseconds.
const REFUSED_MS: u64 = 600_000;

/// The state of shipping, shared by all readers.
#[derive(Debug, Clone)]
pub struct ShipStatus(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    counters: ClickHouseCounters,
    clock: Arc<dyn Clock>,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// The error of the last attempt, if it failed.
    error: Option<String>,
    waiting: Waiting,
    refused: Vec<Refused>,
}

impl ShipStatus {
    fn show(&self, shipping: &Shipping, parts: &Parts) {
        let (waiting, refused) = shipping.waiting(parts);
        let mut now = self.0.now.lock();
        (now.waiting, now.refused) = (waiting, refused);
    }

    /// Why nothing is shipped, if so.
    #[must_use]
    pub fn why_failing(&self) -> Option<String> {
        let now = self.0.now.lock();
        let why = now.error.as_ref();
        why.map(|why| format!("nothing is shipped to ClickHouse: {why}"))
    }

    /// For the daemon's status.
    #[must_use]
    pub fn group(&self) -> Group {
        let Shared { counters, clock, now } = &*self.0;
        let now = now.lock();
        let Waiting { rows, bytes, since, dropped } = now.waiting;
        let unix_secs = clock.unix_ms() / 1_000;
        let age = since.map_or(0, |since| unix_secs.saturating_sub(since));
        let refused: u64 = now.refused.iter().map(|it| it.rows).sum();
        let mut readings = readings! {
            Gauge rows_waiting = rows, "Rows of history that ClickHouse has not got yet.";
            Gauge waiting_bytes = bytes, "Bytes of the files of history.dir that have them.";
            Gauge waiting_age_seconds = age, "Since when the oldest of them lies on disk; some minutes are the rule.";
            Gauge rows_refused = refused, "Rows that ClickHouse refused; set aside, and tried again now and then.";
            Counter rows_dropped = dropped, "Rows that retention removed before ClickHouse had them.";
        };
        readings.extend(counters.counts().readings());
        let refused = now.refused.iter().map(|it| {
            json!({"table": it.table, "part": it.units.part(), "rows": it.rows, "error": it.error})
        });
        let texts = json!({"error": now.error, "refused": refused.collect::<Vec<_>>()});
        Group::new(Place::Object("clickhouse"), readings).with_texts(texts)
    }
}

/// The source of rows: a store.
#[derive(Debug, Clone)]
pub struct ShipFrom {
    /// Data kept there until it is shipped.
    pub shipping: Shipping,
    /// The parts that count.
    pub parts: Parts,
    /// The identity of the store: 32 hexadecimal digits.
    pub store: String,
}

/// Ships, as soon as there is a source.
#[derive(Debug)]
pub struct ShippingThread {
    config: ClickHouseConfig,
    server: Server,
    from: Arc<OnceLock<ShipFrom>>,
    status: ShipStatus,
    clock: Arc<dyn Clock>,
}

impl ShippingThread {
    /// Ships to the server of the configuration.
    ///
    /// # Errors
    /// Fails if the password or certificates cannot be read.
    pub fn new(config: &ClickHouseConfig, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let status = ShipStatus(Arc::new(Shared {
            counters: ClickHouseCounters::default(),
            clock: Arc::clone(&clock),
            now: Mutex::default(),
        }));
        Ok(Self {
            config: config.clone(),
            server: Server::of(config)?,
            from: Arc::default(),
            status,
            clock,
        })
    }

    /// The state of shipping.
    #[must_use]
    pub fn status(&self) -> ShipStatus {
        self.status.clone()
    }

    /// Returns a function to call with the source when history is open; from then on the status
    /// shows waiting rows.
    pub fn begin(&self) -> impl Fn(ShipFrom) + Send + use<> {
        let (begun, status) = (Arc::clone(&self.from), self.status());
        move |from| {
            status.show(&from.shipping, &from.parts);
            // Set once: the store stays open.
            let _was_empty = begun.set(from);
        }
    }

    /// Ships until a stop is requested; the rest is shipped after the next start.
    pub fn run(self, stop: &Shutdown) {
        // On Linux this applies to the thread only.
        if let Err(error) = rustix::process::setpriority_process(None, 10) {
            warn!(%error, "Could not lower the priority of the thread that ships to ClickHouse.");
        }
        while !stop.requested() {
            if let Some(from) = self.from.get() {
                let from = from.clone();
                return Shipper::new(self, from).run(stop);
            }
            std::thread::sleep(NAP);
        }
    }
}

/// Ships from a store.
#[derive(Debug)]
struct Shipper {
    thread: ShippingThread,
    from: ShipFrom,
    /// The source columns of the current rows.
    origin: Origin,
    /// The names under which shipments begin.
    names: Identity,
    tags: TagFilter,
    /// Statements to run before anything more is shipped. If one is refused, the rest of its group
    /// is skipped.
    statements: VecDeque<Vec<String>>,
    /// Reports with views, by name, and whether these match the current definition.
    viewed: HashMap<String, (Arc<Dataset>, bool)>,
    pause_ms: u64,
    /// Next retry of refused rows, in monotonic milliseconds.
    refused_ms: u64,
}

impl Shipper {
    fn new(thread: ShippingThread, from: ShipFrom) -> Self {
        let config = &thread.config;
        let collector = match config.collector.as_str() {
            "" => std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default(),
            named => named.to_owned(),
        };
        let statements = match config.create_tables {
            true => tables::statements(&config.database, None),
            false => Vec::new(),
        };
        let statements = statements.into_iter().map(|it| vec![it]).collect();
        info!(url = config.url, "Shipping history to ClickHouse.");
        let names = Identity { collector: collector.trim().to_owned(), dc: config.dc.clone() };
        Self {
            origin: Origin {
                store: u128::from_str_radix(&from.store, 16).unwrap_or_default(),
                names: names.clone(),
            },
            names,
            tags: TagFilter::of(&config.tags),
            statements,
            viewed: HashMap::new(),
            refused_ms: thread.clock.mono_ms(),
            pause_ms: 0,
            thread,
            from,
        }
    }

    /// Ships until a stop is requested.
    fn run(mut self, stop: &Shutdown) {
        let mut looked = 0;
        while !stop.requested() {
            std::thread::sleep(NAP);
            let now = self.thread.clock.unix_ms() / 1_000;
            if looked != now {
                looked = now;
                self.show();
                // One after the other while there are more.
                while self.ship(stop).unwrap_or(false) {
                    self.show();
                }
            }
        }
    }

    /// Ships the next shipment; returns whether there was one.
    fn ship(&mut self, stop: &Shutdown) -> Result<bool, Failure> {
        self.make(stop)?;
        let next = self.again(stop, |it| {
            let now = it.thread.clock.unix_ms() / 1_000;
            Ok(it.from.shipping.next(&it.from.parts, now)?)
        })?;
        if let Some(mut shipment) = next {
            self.view(&shipment);
            self.make(stop)?;
            self.origin.names =
                self.again(stop, |it| Ok(it.from.shipping.begin(&shipment, &it.names)?))?;
            let refused = self.send(&mut shipment, None, stop)?;
            self.again(stop, |it| Ok(it.from.shipping.end(&shipment, refused.clone())?))?;
            return Ok(true);
        }
        if self.thread.clock.mono_ms() >= self.refused_ms {
            self.refused_ms = self.thread.clock.mono_ms() + REFUSED_MS;
            for (before, mut shipment) in self.from.shipping.refused(&self.from.parts) {
                let names = before.identity.as_ref().unwrap_or(&self.names);
                self.origin.names = names.clone();
                let refused = self.send(&mut shipment, Some(&before.table), stop)?;
                if refused.is_empty() {
                    self.again(stop, |it| Ok(it.from.shipping.end_refused(&before)?))?;
                }
            }
        }
        Ok(false)
    }

    /// Runs the statements.
    fn make(&mut self, stop: &Shutdown) -> Result<(), Failure> {
        while let Some(together) = self.statements.front().cloned() {
            for statement in together {
                match self.again(stop, |it| it.thread.server.execute(&statement, stop)) {
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
    fn view(&mut self, shipment: &Shipment) {
        let config = &self.thread.config;
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
                let parts = self.from.parts.read();
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
        only: Option<&str>,
        stop: &Shutdown,
    ) -> Result<Vec<Refused>, Failure> {
        loop {
            let mut sending = Sending {
                blocks: BTreeMap::new(),
                refused: Vec::new(),
                unread: Vec::new(),
                stage: SHIP.begin(),
            };
            sending.stage.work(0, shipment.rows_max());
            match self.send_rows(shipment, only, &mut sending, stop) {
                Ok(()) => {
                    // Refused rows are read again and again, and were counted.
                    for unread in sending.unread.iter().filter(|_| only.is_none()) {
                        self.count_unread(unread);
                    }
                    let refused = sending.refused.into_iter().map(|(table, rows, error)| {
                        warn!(table, rows, error, "ClickHouse refuses rows: they are set aside.");
                        Refused {
                            units: shipment.units,
                            table: table.to_owned(),
                            rows,
                            error,
                            identity: Some(self.origin.names.clone()),
                        }
                    });
                    return Ok(refused.collect());
                }
                Err(Trouble::Send(failure)) => return Err(failure),
                Err(Trouble::Read(StoreError::Stopped)) => return Err(Failure::Stopped),
                Err(Trouble::Read(StoreError::Damaged { path, reason })) => {
                    let rows = shipment.leave_out(&path);
                    self.count_unread(&Unread { path, reason, rows });
                }
                Err(Trouble::Read(error)) => {
                    self.pause(&error.to_string(), stop)?;
                }
            }
        }
    }

    fn count_unread(&self, unread: &Unread) {
        let Unread { path, reason, rows } = unread;
        let Shared { counters, .. } = &*self.thread.status.0;
        counters.rows_unreadable.add(*rows);
        error!(file = %path.display(), reason, rows, "A file of history cannot be read: its rows are not shipped.");
    }

    fn send_rows(
        &mut self,
        shipment: &Shipment,
        only: Option<&str>,
        sending: &mut Sending,
        stop: &Shutdown,
    ) -> Result<(), Trouble> {
        let part = shipment.units.part();
        for dataset in shipment.datasets() {
            let Some(table) = table_of(&dataset) else {
                continue;
            };
            if only.is_some_and(|only| only != table.name) {
                continue;
            }
            let mut sent = Ok(());
            if dataset.is_raw() {
                shipment.requests(stop, &mut |request, weight, timers| {
                    let row = (request, weight, timers);
                    sent = self.add(table, sending, stop, |it, block| {
                        requests::push(block, &it.origin, part, &it.tags, row);
                    });
                    sent.is_ok()
                })?;
            } else {
                let unread = shipment.rows(&dataset, stop, &mut |row| {
                    sent = self.add(table, sending, stop, |it, block| {
                        push(block, &it.origin, part, &dataset, row);
                    });
                    sent.is_ok()
                })?;
                sending.unread.extend(unread);
            }
            sent?;
        }
        let left: Vec<&'static Table> = sending.blocks.values().map(|(table, _)| *table).collect();
        for table in left {
            self.send_block(table, sending, stop)?;
        }
        Ok(())
    }

    /// Adds a row to the block of a table, and sends that when it is full.
    fn add(
        &mut self,
        table: &'static Table,
        sending: &mut Sending,
        stop: &Shutdown,
        push: impl FnOnce(&Self, &mut Block),
    ) -> Result<(), Failure> {
        let block = sending.block(table);
        push(self, block);
        match block.rows >= BLOCK_ROWS || block.bytes() >= BLOCK_BYTES {
            true => self.send_block(table, sending, stop),
            false => Ok(()),
        }
    }

    /// Sends the block of a table, until it is accepted or refused.
    fn send_block(
        &mut self,
        table: &'static Table,
        sending: &mut Sending,
        stop: &Shutdown,
    ) -> Result<(), Failure> {
        let Some((_, block)) = sending.blocks.remove(table.name) else {
            return Ok(());
        };
        let rows = block.rows;
        if let Some((_, before, _)) = sending.refused.iter_mut().find(|it| it.0 == table.name) {
            *before += rows;
            return Ok(());
        }
        let body = block.packed().map_err(|error| Failure::Later(error.to_string()))?;
        drop(block);
        let token = digest(&body, 32);
        let statement = table.insert();
        let bytes = body.len() as u64;
        let sent = self.again(stop, |it| {
            let ShippingThread { server, .. } = &it.thread;
            server.insert(&statement, &token, body.clone(), stop)
        });
        if let Err(Failure::Refused(error)) = sent {
            sending.refused.push((table.name, rows, error));
            return Ok(());
        }
        sent?;
        let Shared { counters, .. } = &*self.thread.status.0;
        counters.rows_shipped.add(rows);
        sending.stage.advance(rows);
        counters.shipped_bytes.add(bytes);
        Ok(())
    }

    /// Retries an action until it is done, refused, or a stop is requested.
    fn again<T>(
        &mut self,
        stop: &Shutdown,
        work: impl Fn(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            match work(self) {
                Err(Failure::Later(error)) => self.pause(&error, stop)?,
                Err(Failure::Stopped) => return Err(Failure::Stopped),
                ended => {
                    self.pause_ms = 0;
                    if self.thread.status.0.now.lock().error.take().is_some() {
                        info!("History is shipped to ClickHouse again.");
                    }
                    return ended;
                }
            }
        }
    }

    /// Waits after a failure, ever longer.
    fn pause(&mut self, error: &str, stop: &Shutdown) -> Result<(), Failure> {
        let Shared { counters, now, .. } = &*self.thread.status.0;
        counters.failures.add(1);
        let before = now.lock().error.replace(error.to_owned());
        if before.as_deref() != Some(error) {
            warn!(error, "Cannot ship to ClickHouse: history keeps it, and it is tried again.");
        }
        self.pause_ms = (self.pause_ms * 2).clamp(PAUSE_MS, PAUSE_MS_MAX);
        // Prevents many pinbads from coming back at the same moment.
        let random = ahash::RandomState::new().hash_one(self.origin.store);
        let pause_ms = self.pause_ms - random % (self.pause_ms / 2);
        let until = self.thread.clock.mono_ms() + pause_ms;
        while self.thread.clock.mono_ms() < until {
            if stop.requested() {
                return Err(Failure::Stopped);
            }
            self.show();
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Publishes the rows that wait.
    fn show(&self) {
        let ShipFrom { shipping, parts, .. } = &self.from;
        self.thread.status.show(shipping, parts);
    }
}

/// Rows in transit.
struct Sending {
    /// By table.
    blocks: BTreeMap<&'static str, (&'static Table, Block)>,
    /// Table, rows, error.
    refused: Vec<(&'static str, u64, String)>,
    unread: Vec<Unread>,
    stage: Active,
}

impl Sending {
    /// The block of a table.
    fn block(&mut self, table: &'static Table) -> &mut Block {
        let block = || (table, Block::new(table.sent()));
        &mut self.blocks.entry(table.name).or_insert_with(block).1
    }
}

/// The reason why a shipment did not end.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Read(#[from] StoreError),
    #[error(transparent)]
    Send(#[from] Failure),
}
