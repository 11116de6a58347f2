//! The threads that events happen on: those of the process, and connections, each of which is one
//! to whoever looks.
//!
//! There is room for [`THREADS_MAX`], made when it is first needed and kept: whoever comes next
//! with the same name goes on with its number, its history and its sums, so that sums over threads
//! are those over all. Who finds no room is counted and not measured.

use std::cell::LazyCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::digests::STATEMENT_BYTES;
use super::event::Recorded;
use super::event_rings::{Cell, Current, DEPTH_MAX, Ring};
use super::registry::{Instrument, Kind, registry};
use super::sums::Sum;

/// Threads and connections at once.
pub const THREADS_MAX: usize = 256;

/// Events of a kind in a thread's history.
const HISTORY_EVENTS: usize = 10;

/// The most bytes of all threads, with room for the sums of `instruments` instruments.
pub(super) const fn bytes_max(instruments: usize) -> usize {
    let statements = (HISTORY_EVENTS + DEPTH_MAX) * STATEMENT_BYTES;
    THREADS_MAX * (one_bytes(instruments) + statements)
}

const fn one_bytes(instruments: usize) -> usize {
    let events = 3 * HISTORY_EVENTS * size_of::<Cell>();
    size_of::<Thread>() + events + instruments * size_of::<Sum>()
}

/// Bytes of the threads so far.
pub(super) fn bytes() -> usize {
    all().map(|thread| one_bytes(thread.sums.len())).sum()
}

static THREADS: [OnceLock<Thread>; THREADS_MAX] = [const { OnceLock::new() }; THREADS_MAX];

static LOST: AtomicU64 = AtomicU64::new(0);

/// One thread. Everything but `client` is written by whoever it is, alone.
#[derive(Debug)]
pub struct Thread {
    /// From 1 on.
    pub id: u64,
    /// `thread/...`
    pub class: &'static Instrument,
    /// Somebody is it now.
    taken: AtomicBool,
    /// The system's thread id; 0 for a connection.
    os_id: AtomicU64,
    /// Whose connection it is.
    client: Mutex<Option<Client>>,
    last_event: AtomicU64,
    depth: AtomicUsize,
    /// The events that go on, as others within them name them.
    within: [AtomicU64; DEPTH_MAX],
    pub(super) current: Current,
    pub(super) history: [Ring; 3],
    pub(super) sums: Box<[Sum]>,
}

/// Who has a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The number of the connection, where it has one.
    pub id: Option<u64>,
    /// The user.
    pub user: String,
    /// Where from.
    pub host: String,
    /// How.
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

    /// An event begins: its depth, its number, and the event that it is within.
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
        let nesting = outer.map(|outer| (outer >> 2, Kind::ALL[(outer & 3) as usize % 3]));
        (depth, id, nesting)
    }

    /// The event of this depth ends: the last event by now.
    pub(super) fn leave(&self, depth: usize) -> u64 {
        self.depth.store(depth, Ordering::Relaxed);
        self.last_event.load(Ordering::Relaxed)
    }

    /// Whether somebody is it now.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// The system's thread id.
    #[must_use]
    pub fn os_id(&self) -> Option<u64> {
        let id = self.os_id.load(Ordering::Relaxed);
        (id != 0).then_some(id)
    }

    /// Whose connection it is.
    #[must_use]
    pub fn client(&self) -> Option<Client> {
        self.client.lock().clone()
    }

    /// The innermost event of this kind that is going on.
    #[must_use]
    pub fn doing(&self, kind: Kind) -> Option<Recorded> {
        let current = self.current.of(kind);
        let going = current
            .into_iter()
            .filter(|(event, _)| event.end_id.is_none());
        going.last()
    }

    fn release(&self) {
        *self.client.lock() = None;
        self.os_id.store(0, Ordering::Relaxed);
        self.depth.store(0, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
    }
}

/// All that there have been.
pub fn all() -> impl Iterator<Item = &'static Thread> {
    THREADS.iter().filter_map(OnceLock::get)
}

/// Threads and connections that found no room.
#[must_use]
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Takes room for a thread of this name.
fn attach(name: &str) -> Option<&'static Thread> {
    let registry = registry()?;
    // Threads of which there are several have numbers.
    let name = name.trim_end_matches(|end: char| end.is_ascii_digit() || end == '-');
    let class = registry.named(format!("thread/pinbad/{name}"))?;
    for (room, id) in THREADS.iter().zip(1..) {
        let thread = match room.get() {
            Some(thread) if !std::ptr::eq(thread.class, class) => continue,
            Some(thread) => thread,
            None => match room.set(Thread::new(id, class, registry.places())) {
                Ok(()) => return room.get(),
                // Somebody else was faster.
                Err(_) => continue,
            },
        };
        let took = thread
            .taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        if took.is_ok() {
            return Some(thread);
        }
    }
    LOST.fetch_add(1, Ordering::Relaxed);
    None
}

/// Room that is given back when the thread ends.
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

/// The calling thread.
pub(super) fn here() -> Option<&'static Thread> {
    HERE.try_with(|here| here.0).ok().flatten()
}

/// Makes room for the calling thread, whether or not anything will be measured on it.
pub fn appear() {
    here();
}

/// The connection whose task this is.
pub(super) fn of_task() -> Option<&'static Thread> {
    TASK.try_with(|thread| *thread).ok().flatten()
}

/// A connection, as a thread. Whoever has it is the one that its events happen on.
#[derive(Debug)]
pub struct Foreground(Option<&'static Thread>);

impl Foreground {
    /// A connection of this name.
    #[must_use]
    pub fn attach(name: &str) -> Self {
        Self(attach(name))
    }

    /// Whose it is.
    pub fn set_client(&self, client: Client) {
        if let Some(thread) = self.0 {
            *thread.client.lock() = Some(client);
        }
    }

    /// Work for it, in which events are its own.
    pub async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        TASK.scope(self.0, work).await
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if let Some(thread) = self.0 {
            thread.release();
        }
    }
}
