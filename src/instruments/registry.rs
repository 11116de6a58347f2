//! The registry of instruments and their switches.
//!
//! One array per class, sized by the configuration and filled at start. Instruments beyond the size
//! are counted and stay off. An instrument's key is its index plus one. A name is declared once:
//! registering a known one returns the existing key, and another declaration of it stays off. Each
//! instrument has one atomic switch, read where it is used and written at start and by UPDATE of
//! `setup_instruments`.

use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::RwLock;
use regex::Regex;
use tracing::warn;

use super::timers::{TimerName, Timers};
use crate::telemetry::counter::counted;

counted! {
    /// Class of an instrument: the prefix of its name. Those up to `Idle` have events.
    Class {
        /// A mutex.
        Mutex = "wait/synch/mutex/",
        /// A lock with many readers.
        RwLock = "wait/synch/rwlock/",
        /// A condition that is waited for.
        Cond = "wait/synch/cond/",
        /// A file.
        File = "wait/io/file/",
        /// A socket.
        Socket = "wait/io/socket/",
        /// A stage.
        Stage = "stage/",
        /// A statement.
        Statement = "statement/",
        /// A pool of memory.
        Memory = "memory/",
        /// A thread.
        Thread = "thread/",
        /// Idle time: not a class of its own in MySQL.
        Idle = "idle",
    }
}

/// Number of classes whose size can be configured: all but `idle`.
pub const CLASSES_SET: usize = Class::COUNT - 1;

counted! {
    /// Kind of events; each has tables of its own, with its name in theirs.
    Kind {
        /// `events_waits_...`, with `idle`.
        Waits = "waits",
        /// `events_stages_...`
        Stages = "stages",
        /// `events_statements_...`
        Statements = "statements",
    }
}

impl Class {
    /// Returns the kind of its events.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Self::Stage => Some(Kind::Stages),
            Self::Statement => Some(Kind::Statements),
            Self::Memory | Self::Thread => None,
            _ => Some(Kind::Waits),
        }
    }

    const fn of(name: &str) -> Self {
        let mut at = 0;
        while at < Self::COUNT {
            if starts_with(name, Self::ALL[at].name()) {
                return Self::ALL[at];
            }
            at += 1;
        }
        panic!("the name of an instrument begins with its class")
    }
}

const fn starts_with(name: &str, prefix: &str) -> bool {
    let (name, prefix) = (name.as_bytes(), prefix.as_bytes());
    let mut at = 0;
    while at < prefix.len() {
        if at >= name.len() || name[at] != prefix[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Switch: create events.
pub(super) const ENABLED: u32 = 1;
/// Switch: time events.
pub(super) const TIMED: u32 = 2;
/// Number of bits for the two switches, below the index of the instrument's sums plus one.
const SWITCHES: u32 = 2;

/// A measured operation.
#[derive(Debug)]
pub struct Instrument {
    /// Name: the class first, parts separated by slashes.
    pub name: &'static str,
    /// Class, from the name.
    pub class: Class,
    /// Operation of a wait.
    pub operation: &'static str,
    /// Location of the declaration.
    pub source: &'static Location<'static>,
    /// Index of its sums plus one, and the switches; 0 if unregistered.
    pub(super) switch: AtomicU32,
}

impl Instrument {
    /// Creates an instrument of the class that its name begins with.
    #[track_caller]
    pub const fn new(name: &'static str) -> Self {
        Self::wait(name, "")
    }

    /// Creates an instrument of waits for `operation`.
    #[track_caller]
    pub const fn wait(name: &'static str, operation: &'static str) -> Self {
        Self {
            name,
            class: Class::of(name),
            operation,
            source: Location::caller(),
            switch: AtomicU32::new(0),
        }
    }

    /// Returns whether it creates events, and whether these are timed.
    pub(crate) fn switches(&self) -> (bool, bool) {
        let switch = self.switch.load(Ordering::Relaxed);
        (switch & ENABLED != 0, switch & TIMED != 0)
    }

    /// Returns the index of its sums; `None` if it is unregistered.
    pub(super) fn place(&self) -> Option<usize> {
        place_of(self.switch.load(Ordering::Relaxed))
    }

    fn set(&self, enabled: bool, timed: bool) {
        let place = self.switch.load(Ordering::Relaxed) >> SWITCHES << SWITCHES;
        if place != 0 {
            let switches = u32::from(enabled) * ENABLED + u32::from(timed) * TIMED;
            self.switch.store(place | switches, Ordering::Relaxed);
        }
    }
}

pub(super) fn place_of(switch: u32) -> Option<usize> {
    (switch >> SWITCHES).checked_sub(1).map(|at| at as usize)
}

/// Settings of the instruments.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Patterns of names as in LIKE, each optionally followed by `=counted` or `=timed`; the last
    /// match decides.
    pub enabled: Vec<String>,
    /// Maximum number of instruments of each class.
    pub classes_max: [usize; CLASSES_SET],
}

/// Instruments of one class.
#[derive(Debug)]
struct Registered {
    /// Index of the first one's sums.
    first: usize,
    max: usize,
    list: RwLock<Vec<&'static Instrument>>,
    lost: AtomicU64,
}

/// The registry; there is one per process.
#[derive(Debug)]
pub struct Registry {
    /// The timers.
    pub timers: Timers,
    classes: [Registered; Class::COUNT],
    enabled: RwLock<Vec<(Regex, bool)>>,
    consumers: AtomicU32,
    /// Consumers that are on together with all consumers they depend on.
    pub(super) effective: AtomicU32,
}

static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// Returns the registry; `None` before the first daemon of the process starts.
pub(crate) fn registry() -> Option<&'static Registry> {
    REGISTRY.get()
}

/// Registers these instruments, and switches on those named by `settings`. Only the first call in a
/// process sets the sizes.
pub(super) fn start(settings: &Settings, instruments: &[&'static Instrument]) {
    let registry = REGISTRY.get_or_init(|| Registry::new(settings));
    registry.set_enabled(settings);
    for instrument in instruments {
        registry.register(instrument);
    }
    for instrument in registry.all() {
        let (enabled, timed) = registry.wanted(instrument.name);
        registry.switch(instrument.name, enabled, timed);
    }
}

impl Registry {
    fn new(settings: &Settings) -> Self {
        let (timers, warnings) = Timers::measure();
        for warning in warnings {
            warn!("{warning}");
        }
        let mut first = 0;
        let classes = std::array::from_fn(|at| {
            let max = settings.classes_max.get(at).copied().unwrap_or(1);
            let class = Registered {
                first,
                max,
                list: RwLock::new(Vec::with_capacity(max)),
                lost: AtomicU64::new(0),
            };
            first += max;
            class
        });
        let registry = Self {
            timers,
            classes,
            enabled: RwLock::default(),
            consumers: AtomicU32::new((1 << CONSUMERS.len()) - 1),
            effective: AtomicU32::new(0),
        };
        registry.set_consumers(registry.consumers.load(Ordering::Relaxed));
        registry
    }

    fn set_enabled(&self, settings: &Settings) {
        *self.enabled.write() = settings.enabled.iter().filter_map(|it| pattern(it)).collect();
    }

    /// Registers an instrument and returns its key; 0 if there is no room.
    pub(crate) fn register(&self, instrument: &'static Instrument) -> u32 {
        let class = &self.classes[instrument.class as usize];
        let mut list = class.list.write();
        if let Some(known) = list.iter().position(|it| it.name == instrument.name) {
            return known as u32 + 1;
        }
        let at = list.len();
        if at >= class.max {
            class.lost.fetch_add(1, Ordering::Relaxed);
            return 0;
        }
        list.push(instrument);
        let place = (class.first + at + 1) as u32;
        instrument.switch.store(place << SWITCHES, Ordering::Relaxed);
        let (enabled, timed) = self.wanted(instrument.name);
        instrument.set(enabled, timed);
        at as u32 + 1
    }

    /// Returns the instrument of this name, creating it if there is room; for code without a
    /// declaration of its own.
    #[track_caller]
    pub(crate) fn named(&self, name: String) -> Option<&'static Instrument> {
        let of = &self.classes[Class::of(&name) as usize];
        let known = |name: &str| of.list.read().iter().find(|it| it.name == name).copied();
        if let Some(known) = known(&name) {
            return Some(known);
        }
        if of.list.read().len() >= of.max {
            of.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // Leaks at most as many as there is room for, once per process.
        let instrument: &'static Instrument =
            Box::leak(Box::new(Instrument::new(String::leak(name))));
        self.register(instrument);
        // Another thread may have been faster.
        known(instrument.name)
    }

    /// Returns all registered instruments, class by class.
    pub(crate) fn all(&self) -> Vec<&'static Instrument> {
        self.classes.iter().flat_map(|class| class.list.read().clone()).collect()
    }

    /// Returns the instrument whose sums are at this index.
    pub(crate) fn at(&self, place: usize) -> Option<&'static Instrument> {
        let mut classes = self.classes.iter().rev();
        let class = classes.find(|class| class.first <= place)?;
        class.list.read().get(place - class.first).copied()
    }

    /// Returns the number of indexes for sums.
    pub(super) fn places(&self) -> usize {
        let last = &self.classes[Class::COUNT - 1];
        last.first + last.max
    }

    /// Returns the number of instruments of each class that did not fit.
    pub(crate) fn lost(&self) -> Vec<(&'static str, u64)> {
        let word = |prefix: &'static str| prefix.trim_end_matches('/').rsplit('/').next();
        let classes = Class::ALL.iter().zip(&self.classes).take(CLASSES_SET);
        let lost = |class: &Registered| class.lost.load(Ordering::Relaxed);
        classes.filter_map(|(class, of)| Some((word(class.name())?, lost(of)))).collect()
    }

    /// Switches an instrument.
    pub(crate) fn switch(&self, name: &str, enabled: bool, timed: bool) {
        if let Some(instrument) = self.all().into_iter().find(|it| it.name == name) {
            // Without events there are no times.
            let timed = timed && instrument.class.kind().is_some();
            instrument.set(enabled, timed);
        }
    }

    /// Returns whether the configuration switches a name on, and whether timed.
    fn wanted(&self, name: &str) -> (bool, bool) {
        let enabled = self.enabled.read();
        let wanted = enabled.iter().rev().find(|(names, _)| names.is_match(name));
        wanted.map_or((false, false), |(_, is_timed)| (true, *is_timed))
    }

    /// Returns the consumers in order, and whether each is switched on.
    pub(crate) fn consumers(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let on = self.consumers.load(Ordering::Relaxed);
        CONSUMERS.into_iter().enumerate().map(move |(at, name)| (name, on & (1 << at) != 0))
    }

    /// Switches a consumer.
    pub(crate) fn switch_consumer(&self, name: &str, enabled: bool) {
        let Some(at) = CONSUMERS.iter().position(|known| *known == name) else { return };
        let on = self.consumers.load(Ordering::Relaxed);
        self.set_consumers(if enabled { on | 1 << at } else { on & !(1 << at) });
    }

    /// Returns true if sums are kept by thread.
    pub(crate) fn has_threads(&self) -> bool {
        self.effective.load(Ordering::Relaxed) & (1 << THREAD) != 0
    }

    /// Returns the present time in units of an instrument's timer.
    pub(crate) fn now(&self, instrument: &Instrument) -> u64 {
        self.timers.now(self.timer(instrument))
    }

    /// Converts units of an instrument's timer to picoseconds.
    pub(crate) fn picos(&self, instrument: &Instrument, units: u64) -> u64 {
        self.timers.picos(self.timer(instrument), units)
    }

    /// Returns the timer of an instrument.
    pub(crate) fn timer(&self, instrument: &Instrument) -> TimerName {
        match instrument.class.kind() {
            Some(Kind::Waits) if instrument.class != Class::Idle => self.timers.waits,
            _ => self.timers.others,
        }
    }

    fn set_consumers(&self, on: u32) {
        self.consumers.store(on, Ordering::Relaxed);
        let is = |at: usize| on & (1 << at) != 0;
        let mut effective = 0;
        if is(GLOBAL) {
            effective = on & (1 << DIGEST | 1 << GLOBAL | 1 << THREAD);
            for current in (0..GLOBAL).step_by(3) {
                if is(THREAD) && is(current) {
                    effective |= on & 0b111 << current;
                }
            }
        }
        self.effective.store(effective, Ordering::Relaxed);
    }
}

/// Consumers, in the order of `setup_consumers`. A history table depends on the table of current
/// events, all of those on `thread_instrumentation`, and everything on `global_instrumentation`.
pub const CONSUMERS: [&str; 15] = [
    "events_stages_current",
    "events_stages_history",
    "events_stages_history_long",
    "events_statements_current",
    "events_statements_history",
    "events_statements_history_long",
    "events_transactions_current",
    "events_transactions_history",
    "events_transactions_history_long",
    "events_waits_current",
    "events_waits_history",
    "events_waits_history_long",
    "global_instrumentation",
    "thread_instrumentation",
    "statements_digest",
];

pub(super) const GLOBAL: usize = 12;
pub(super) const THREAD: usize = 13;
pub(super) const DIGEST: usize = 14;

impl Kind {
    /// Returns the index of the consumer of its current events; those of its histories follow.
    pub(super) fn consumer(self) -> usize {
        [9, 0, 3][self as usize]
    }
}

/// Parses an entry of [`Settings::enabled`]: the names that are like its pattern, and whether they
/// are timed.
fn pattern(entry: &str) -> Option<(Regex, bool)> {
    let (like, how) = entry.split_once('=').unwrap_or((entry, "timed"));
    let names = regex::escape(like).replace('%', ".*").replace('_', ".");
    Some((Regex::new(&format!("(?is)^{names}$")).ok()?, how != "counted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_like_patterns() {
        for (name, pattern, wanted) in [
            ("stage/merger/close tick", "stage/%", true),
            ("stage/merger/close tick", "%tick", true),
            ("stage/merger/close tick", "stage/merger/close_tick", true),
            ("stage/merger/close tick", "stage", false),
            ("idle", "idle", true),
            ("idle", "%/%", false),
        ] {
            let (names, is_timed) = super::pattern(pattern).unwrap();
            assert_eq!((names.is_match(name), is_timed), (wanted, true), "{name} {pattern}");
        }
    }

    #[test]
    fn a_name_has_one_key_and_what_does_not_fit_is_counted() {
        static FIRST: Instrument = Instrument::new("stage/test/first");
        static AGAIN: Instrument = Instrument::new("stage/test/first");
        static SECOND: Instrument = Instrument::new("stage/test/second");
        static THIRD: Instrument = Instrument::new("stage/test/third");
        let settings = Settings {
            enabled: vec!["stage/%=counted".to_owned(), "%second".to_owned()],
            classes_max: [2; CLASSES_SET],
        };
        let registry = Registry::new(&settings);
        registry.set_enabled(&settings);
        assert_eq!(FIRST.place(), None);
        let keys = [&FIRST, &AGAIN, &SECOND, &THIRD].map(|it| registry.register(it));
        assert_eq!(keys, [1, 1, 2, 0]);
        assert_eq!((FIRST.place().is_some(), AGAIN.place()), (true, None));
        assert_eq!((FIRST.switches(), SECOND.switches()), ((true, false), (true, true)));
        assert_eq!(THIRD.switches(), (false, false));
        assert_eq!(registry.lost()[Class::Stage as usize], ("stage", 1));
        assert_eq!(registry.lost()[Class::File as usize], ("file", 0));
        let second = SECOND.place().and_then(|place| registry.at(place));
        assert_eq!(second.map(|it| it.name), Some(SECOND.name));
        registry.switch("stage/test/first", false, true);
        assert_eq!((FIRST.switches(), AGAIN.switches()), ((false, true), (false, false)));
        // Switching an unregistered instrument has no effect.
        registry.switch("stage/test/third", true, true);
        assert_eq!(THIRD.switches(), (false, false));
    }

    /// Threads of one name take over each other's entries, by their instrument.
    #[test]
    fn a_name_that_two_threads_make_at_once_is_one_instrument() {
        let settings = Settings { enabled: Vec::new(), classes_max: [2_000; CLASSES_SET] };
        let registry = Registry::new(&settings);
        let barrier = std::sync::Barrier::new(2);
        let make = |round: u32| {
            barrier.wait();
            registry.named(format!("thread/test/{round}")).unwrap()
        };
        for round in 0..1_000 {
            let (one, other) = std::thread::scope(|scope| {
                let other = scope.spawn(|| make(round));
                (make(round), other.join().unwrap())
            });
            assert!(std::ptr::eq(one, other), "round {round}");
        }
    }

    #[test]
    fn consumers_govern_those_below() {
        let registry =
            Registry::new(&Settings { enabled: Vec::new(), classes_max: [1; CLASSES_SET] });
        let waits = Kind::Waits.consumer();
        let on = |at: usize| registry.effective.load(Ordering::Relaxed) & (1 << at) != 0;
        assert!((0..CONSUMERS.len()).all(on));
        registry.switch_consumer("events_waits_current", false);
        assert!(!on(waits) && !on(waits + 1) && !on(waits + 2) && on(0));
        registry.switch_consumer("thread_instrumentation", false);
        assert!(!on(0) && !on(THREAD) && on(GLOBAL) && on(DIGEST));
        registry.switch_consumer("global_instrumentation", false);
        assert!(!(0..CONSUMERS.len()).any(on));
        let shown: Vec<_> = registry.consumers().filter(|(_, on)| !on).collect();
        assert_eq!(shown.len(), 3);
    }
}
