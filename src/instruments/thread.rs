//! Threads on which events happen: those of the process, and connections, each of which is shown as
//! a thread.
//!
//! Bounded by [`THREADS_MAX`] entries, allocated on first use and kept. A new thread takes over a
//! free entry of the same name with its number, history and sums, so that the sums by thread add up
//! to the sums over all. Threads without an entry are counted and not measured.

use std::cell::LazyCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::digests::STATEMENT_BYTES;
use super::event::{Recorded, kind_of};
use super::event_rings::{Cell, Current, DEPTH_MAX, Ring};
use super::registry::{Instrument, Kind, registry};
use super::sums::Sum;

/// Maximum number of concurrent threads and connections.
pub const THREADS_MAX: usize = 256;

/// Events of a kind in a thread's history.
const HISTORY_EVENTS: usize = 10;

/// Returns the maximum size of all threads, with sums of `instruments` instruments, bytes.
pub(super) const fn bytes_max(instruments: usize) -> usize {
    let statements = (HISTORY_EVENTS + DEPTH_MAX) * STATEMENT_BYTES;
    THREADS_MAX * (one_bytes(instruments) + statements)
}

const fn one_bytes(instruments: usize) -> usize {
    let events = 3 * HISTORY_EVENTS * size_of::<Cell>();
    size_of::<Thread>() + events + instruments * size_of::<Sum>()
}

/// Returns the present size of all threads, bytes.
pub(super) fn bytes() -> usize {
    all().map(|thread| one_bytes(thread.sums.len())).sum()
}

static THREADS: [OnceLock<Thread>; THREADS_MAX] = [const { OnceLock::new() }; THREADS_MAX];

static LOST: AtomicU64 = AtomicU64::new(0);

/// A thread. Everything except `client` is written only by the thread itself.
#[derive(Debug)]
pub struct Thread {
    /// Number, from 1.
    pub id: u64,
    /// Its instrument, `thread/...`.
    pub class: &'static Instrument,
    /// True while a thread or connection uses the entry.
    taken: AtomicBool,
    /// Thread id of the operating system; 0 for a connection.
    os_id: AtomicU64,
    /// Client of the connection.
    client: Mutex<Option<Client>>,
    last_event: AtomicU64,
    depth: AtomicUsize,
    /// Number and kind of each running event, by which nested events refer to it.
    within: [AtomicU64; DEPTH_MAX],
    pub(super) current: Current,
    pub(super) history: [Ring; 3],
    pub(super) sums: Box<[Sum]>,
}

/// Client of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Number of the connection, if it has one.
    pub id: Option<u64>,
    /// User name.
    pub user: String,
    /// Host of the client.
    pub host: String,
    /// Protocol.
    pub protocol: &'static str,
}

impl Thread {
    fn new(id: u64, class: &'static Instrument, places: usize) -> Self {
        Self {
            id,
            class,
            taken: AtomicBool::new(true),
            os_id: AtomicU64::new(0),
            client: Mutex::new(None),
            last_event: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            within: Default::default(),
            current: Current::default(),
            history: std::array::from_fn(|_| Ring::new(HISTORY_EVENTS)),
            sums: (0..places).map(|_| Sum::default()).collect(),
        }
    }

    /// Begins an event; returns its depth, its number and the enclosing event.
    pub(super) fn enter(&self, kind: Kind) -> (usize, u64, Option<(u64, Kind)>) {
        let id = self.last_event.load(Ordering::Relaxed) + 1;
        self.last_event.store(id, Ordering::Relaxed);
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth + 1, Ordering::Relaxed);
        if let Some(own) = self.within.get(depth) {
            own.store(id << 2 | kind as u64, Ordering::Relaxed);
        }
        let outer = depth.checked_sub(1).and_then(|at| self.within.get(at));
        let outer = outer.map(|outer| outer.load(Ordering::Relaxed));
        let nesting = outer.map(|outer| (outer >> 2, kind_of(outer)));
        (depth, id, nesting)
    }

    /// Ends the event of this depth; returns the number of the thread's last event.
    pub(super) fn leave(&self, depth: usize) -> u64 {
        self.depth.store(depth, Ordering::Relaxed);
        self.last_event.load(Ordering::Relaxed)
    }

    /// Returns true if a thread or connection uses the entry.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Returns the thread id of the operating system.
    pub(crate) fn os_id(&self) -> Option<u64> {
        let id = self.os_id.load(Ordering::Relaxed);
        (id != 0).then_some(id)
    }

    /// Returns the client of the connection.
    pub(crate) fn client(&self) -> Option<Client> {
        self.client.lock().clone()
    }

    /// Returns the innermost running event of a kind.
    pub(crate) fn doing(&self, kind: Kind) -> Option<Recorded> {
        let current = self.current.of(kind);
        current.into_iter().filter(|(event, _)| event.end_id.is_none()).last()
    }

    fn release(&self) {
        *self.client.lock() = None;
        self.os_id.store(0, Ordering::Relaxed);
        self.depth.store(0, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
    }
}

/// Returns all threads, including ended ones.
pub(crate) fn all() -> impl Iterator<Item = &'static Thread> {
    THREADS.iter().filter_map(OnceLock::get)
}

/// Returns the number of threads and connections that had no entry.
pub(crate) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Takes an entry for a thread of this name.
fn attach(name: &str) -> Option<&'static Thread> {
    let registry = registry()?;
    // Threads that exist several times have numbered names.
    let name = name.trim_end_matches(|end: char| end.is_ascii_digit() || end == '-');
    let class = registry.named(format!("thread/pinbad/{name}"))?;
    for (room, id) in THREADS.iter().zip(1..) {
        let thread = match room.get() {
            Some(thread) if !std::ptr::eq(thread.class, class) => continue,
            Some(thread) => thread,
            None => match room.set(Thread::new(id, class, registry.places())) {
                Ok(()) => return room.get(),
                // Another thread took it first.
                Err(_) => continue,
            },
        };
        let took = thread.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        if took.is_ok() {
            return Some(thread);
        }
    }
    LOST.fetch_add(1, Ordering::Relaxed);
    None
}

/// The entry of a thread or connection, released when that ends.
#[derive(Debug)]
struct Here(Option<&'static Thread>);

impl Here {
    fn attach() -> Self {
        let thread = attach(std::thread::current().name().unwrap_or("unnamed"));
        if let Some(thread) = thread {
            let path = std::fs::read_link("/proc/thread-self").unwrap_or_default();
            let id = path.file_name().and_then(|id| id.to_str()?.parse().ok());
            thread.os_id.store(id.unwrap_or(0), Ordering::Relaxed);
        }
        Self(thread)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Some(thread) = self.0 {
            thread.release();
        }
    }
}

thread_local! {
    static HERE: LazyCell<Here> = LazyCell::new(Here::attach);
}

tokio::task_local! {
    static TASK: Option<&'static Thread>;
}

/// Returns the calling thread.
pub(super) fn here() -> Option<&'static Thread> {
    HERE.try_with(|here| here.0).ok().flatten()
}

/// Takes an entry for the calling thread, whether or not it will be measured.
pub(crate) fn appear() {
    here();
}

/// Returns the connection whose task is running.
pub(super) fn of_task() -> Option<&'static Thread> {
    TASK.try_with(|thread| *thread).ok().flatten()
}

/// A connection, shown as a thread. Its events are recorded on the owner of this handle.
#[derive(Debug)]
pub struct Foreground(Here);

impl Foreground {
    /// Takes an entry for a connection of this name.
    pub(crate) fn attach(name: &str) -> Self {
        Self(Here(attach(name)))
    }

    /// Sets the client of the connection.
    pub(crate) fn set_client(&self, client: Client) {
        if let Some(thread) = self.0.0 {
            *thread.client.lock() = Some(client);
        }
    }

    /// Runs `work` so that events in it belong to the connection.
    pub(crate) async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        TASK.scope(self.0.0, work).await
    }
}
