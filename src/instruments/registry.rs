//! Which instruments there are, and which of them are on.
//!
//! One array per class, as long as the configuration says, filled at start. What does not fit is
//! counted and stays off. A key is the place in its array and one; a name that is known has its key
//! already. Switches are one atomic an instrument, read where it is used and written by whoever
//! may: UPDATE of `setup_instruments` and the start.

use std::panic::Location;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::RwLock;
use tracing::warn;

use super::timers::{TimerName, Timers};

/// The class of an instrument. Those up to `Idle` have events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// `wait/synch/mutex/...`
    Mutex,
    /// `wait/synch/rwlock/...`
    RwLock,
    /// `wait/synch/cond/...`
    Cond,
    /// `wait/io/file/...`
    File,
    /// `wait/io/socket/...`
    Socket,
    /// `stage/...`
    Stage,
    /// `statement/...`
    Statement,
    /// `memory/...`
    Memory,
    /// `thread/...`
    Thread,
    /// `idle`: the one that is no class of its own for MySQL.
    Idle,
}

/// The classes, as settings and lost counts name them, and what names begin with.
const CLASSES: [(Class, &str, &str); 10] = [
    (Class::Mutex, "mutex", "wait/synch/mutex/"),
    (Class::RwLock, "rwlock", "wait/synch/rwlock/"),
    (Class::Cond, "cond", "wait/synch/cond/"),
    (Class::File, "file", "wait/io/file/"),
    (Class::Socket, "socket", "wait/io/socket/"),
    (Class::Stage, "stage", "stage/"),
    (Class::Statement, "statement", "statement/"),
    (Class::Memory, "memory", "memory/"),
    (Class::Thread, "thread", "thread/"),
    (Class::Idle, "idle", "idle"),
];

/// The classes whose number an operator may set: all but `idle`.
pub const CLASSES_SET: usize = 9;

/// The kinds of events, each with tables of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `events_waits_...`, with `idle`.
    Waits,
    /// `events_stages_...`
    Stages,
    /// `events_statements_...`
    Statements,
}

impl Kind {
    /// All.
    pub const ALL: [Self; 3] = [Self::Waits, Self::Stages, Self::Statements];

    /// As in the names of tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        ["waits", "stages", "statements"][self as usize]
    }

    /// The timer of its events.
    pub(super) fn timer(self, class: Class, timers: &Timers) -> TimerName {
        match self {
            Self::Waits if class != Class::Idle => timers.waits,
            _ => timers.others,
        }
    }
}

impl Class {
    /// As settings and lost counts name it.
    #[must_use]
    pub fn word(self) -> &'static str {
        CLASSES[self as usize].1
    }

    /// The kind of its events.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Stage => Some(Kind::Stages),
            Self::Statement => Some(Kind::Statements),
            Self::Memory | Self::Thread => None,
            _ => Some(Kind::Waits),
        }
    }

    const fn of(name: &str) -> Self {
        let mut at = 0;
        while at < CLASSES.len() {
            if starts_with(name, CLASSES[at].2) {
                return CLASSES[at].0;
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

/// Events are made.
pub(super) const ENABLED: u32 = 1;
/// They have times.
pub(super) const TIMED: u32 = 2;
/// Bits of those two, below the place of the instrument's sums and one.
const SWITCHES: u32 = 2;

/// Something that is measured.
#[derive(Debug)]
pub struct Instrument {
    /// With its class first, parts apart by slashes.
    pub name: &'static str,
    /// Of its name.
    pub class: Class,
    /// The operation of a wait.
    pub operation: &'static str,
    /// Where it is declared.
    pub source: &'static Location<'static>,
    /// The place of its sums and one, and whether it is on; 0: it is not registered.
    pub(super) switch: AtomicU32,
}

impl Instrument {
    /// One of the class that its name begins with.
    #[must_use]
    #[track_caller]
    pub const fn new(name: &'static str) -> Self {
        Self::wait(name, "")
    }

    /// A wait that does this.
    #[must_use]
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

    /// Whether its events are made, and whether they have times.
    #[must_use]
    pub fn switches(&self) -> (bool, bool) {
        let switch = self.switch.load(Ordering::Relaxed);
        (switch & ENABLED != 0, switch & TIMED != 0)
    }

    /// The place of its sums; `None`: it is not registered.
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

/// The settings of an instrument.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Patterns of names as LIKE has them, each with `=counted` or `=timed` behind it or not; the
    /// last that matches decides.
    pub enabled: Vec<String>,
    /// How many instruments of each class there may be.
    pub classes_max: [usize; CLASSES_SET],
}

/// The instruments of one class.
#[derive(Debug)]
struct Registered {
    /// The place of the first one's sums.
    first: usize,
    max: usize,
    list: RwLock<Vec<&'static Instrument>>,
    lost: AtomicU64,
}

/// All of it, once for each process.
#[derive(Debug)]
pub struct Registry {
    /// The timers.
    pub timers: Timers,
    classes: [Registered; CLASSES.len()],
    /// Instruments declared twice under one name: the later ones.
    twins: RwLock<Vec<&'static Instrument>>,
    enabled: RwLock<Vec<String>>,
    consumers: AtomicU32,
    /// Which of them are on when those above them are too.
    pub(super) effective: AtomicU32,
}

static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// The registry; `None` before the first daemon of the process starts.
#[must_use]
pub fn registry() -> Option<&'static Registry> {
    REGISTRY.get()
}

/// Registers these instruments, and switches on those that `settings` names. Sizes are those of the
/// first call in a process.
pub(super) fn start(settings: &Settings, instruments: &[&'static Instrument]) {
    let registry = REGISTRY.get_or_init(|| Registry::new(settings));
    registry.enabled.write().clone_from(&settings.enabled);
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
            twins: RwLock::default(),
            enabled: RwLock::default(),
            consumers: AtomicU32::new((1 << CONSUMERS.len()) - 1),
            effective: AtomicU32::new(0),
        };
        registry.set_consumers(registry.consumers.load(Ordering::Relaxed));
        registry
    }

    /// The key of an instrument, which has its place from then on; 0 when there is none left.
    pub fn register(&self, instrument: &'static Instrument) -> u32 {
        let class = &self.classes[instrument.class as usize];
        let mut list = class.list.write();
        let known = list.iter().position(|it| it.name == instrument.name);
        let at = known.unwrap_or(list.len());
        if at >= class.max {
            class.lost.fetch_add(1, Ordering::Relaxed);
            return 0;
        }
        match known {
            Some(at) if std::ptr::eq(list[at], instrument) => {}
            Some(_) => {
                let mut twins = self.twins.write();
                if !twins.iter().any(|it| std::ptr::eq(*it, instrument)) {
                    twins.push(instrument);
                }
            }
            None => list.push(instrument),
        }
        let place = (class.first + at + 1) as u32;
        instrument
            .switch
            .store(place << SWITCHES, Ordering::Relaxed);
        let (enabled, timed) = match known {
            Some(at) => list[at].switches(),
            None => self.wanted(instrument.name),
        };
        instrument.set(enabled, timed);
        at as u32 + 1
    }

    /// The instrument of this name, made if there is none yet and there is room; where it is used
    /// has no declaration of its own.
    #[track_caller]
    pub fn named(&self, name: String) -> Option<&'static Instrument> {
        let of = &self.classes[Class::of(&name) as usize];
        {
            let list = of.list.read();
            let known = list.iter().find(|it| it.name == name).copied();
            if known.is_some() {
                return known;
            }
            if list.len() >= of.max {
                of.lost.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        }
        // As many as there is room for, once in a process.
        let instrument = Box::leak(Box::new(Instrument::new(String::leak(name))));
        (self.register(instrument) != 0).then_some(instrument)
    }

    /// All that are registered, class by class.
    #[must_use]
    pub fn all(&self) -> Vec<&'static Instrument> {
        let classes = self.classes.iter();
        classes
            .flat_map(|class| class.list.read().clone())
            .collect()
    }

    /// The one whose sums are at this place.
    #[must_use]
    pub fn at(&self, place: usize) -> Option<&'static Instrument> {
        let mut classes = self.classes.iter().rev();
        let class = classes.find(|class| class.first <= place)?;
        class.list.read().get(place - class.first).copied()
    }

    /// How many places for sums there are.
    pub(super) fn places(&self) -> usize {
        let last = &self.classes[CLASSES.len() - 1];
        last.first + last.max
    }

    /// How many instruments of each class found no room.
    #[must_use]
    pub fn lost(&self) -> Vec<(&'static str, u64)> {
        let classes = CLASSES.iter().zip(&self.classes).take(CLASSES_SET);
        classes
            .map(|((_, word, _), class)| (*word, class.lost.load(Ordering::Relaxed)))
            .collect()
    }

    /// Switches an instrument, wherever it is declared.
    pub fn switch(&self, name: &str, enabled: bool, timed: bool) {
        let twins = self.twins.read().clone();
        let named = self.all().into_iter().chain(twins);
        for instrument in named.filter(|it| it.name == name) {
            // Without events there are no times.
            let timed = timed && instrument.class.kind().is_some();
            instrument.set(enabled, timed);
        }
    }

    /// Whether the configuration wants a name on, and timed.
    fn wanted(&self, name: &str) -> (bool, bool) {
        let patterns = self.enabled.read();
        let wanted = patterns.iter().rev().find_map(|pattern| {
            let (like_name, how) = pattern.split_once('=').unwrap_or((pattern, "timed"));
            like(name, like_name).then_some((true, how != "counted"))
        });
        wanted.unwrap_or_default()
    }

    /// The consumers, in their order, and whether each is switched on.
    pub fn consumers(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let on = self.consumers.load(Ordering::Relaxed);
        let all = CONSUMERS.into_iter().enumerate();
        all.map(move |(at, name)| (name, on & (1 << at) != 0))
    }

    /// Switches a consumer.
    pub fn switch_consumer(&self, name: &str, enabled: bool) {
        let Some(at) = CONSUMERS.iter().position(|known| *known == name) else {
            return;
        };
        let on = self.consumers.load(Ordering::Relaxed);
        self.set_consumers(match enabled {
            true => on | 1 << at,
            false => on & !(1 << at),
        });
    }

    /// Whether what threads do is kept apart.
    #[must_use]
    pub fn has_threads(&self) -> bool {
        self.effective.load(Ordering::Relaxed) & (1 << THREAD) != 0
    }

    /// Now, in the units of an instrument's timer.
    #[must_use]
    pub fn now(&self, instrument: &Instrument) -> u64 {
        self.timers.now(self.timer(instrument))
    }

    /// Units of an instrument's timer in picoseconds.
    #[must_use]
    pub fn picos(&self, instrument: &Instrument, units: u64) -> u64 {
        self.timers.picos(self.timer(instrument), units)
    }

    /// The timer of an instrument.
    #[must_use]
    pub fn timer(&self, instrument: &Instrument) -> TimerName {
        let kind = instrument.class.kind().unwrap_or(Kind::Stages);
        kind.timer(instrument.class, &self.timers)
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

/// The rows of `setup_consumers`, in its order. A table of history needs that of current events,
/// all of those need `thread_instrumentation`, and everything needs `global_instrumentation`.
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
    /// The consumer of its current events; those of its history follow.
    pub(super) fn consumer(self) -> usize {
        [9, 0, 3][self as usize]
    }
}

/// LIKE, as it is used for names: `%` and `_`.
fn like(name: &str, pattern: &str) -> bool {
    fn matches(name: &[u8], pattern: &[u8]) -> bool {
        match (pattern, name) {
            ([b'%', rest @ ..], _) => (0..=name.len()).any(|at| matches(&name[at..], rest)),
            ([b'_', rest @ ..], [_, name @ ..]) => matches(name, rest),
            ([first, rest @ ..], [next, name @ ..]) => {
                first.eq_ignore_ascii_case(next) && matches(name, rest)
            }
            ([], _) => name.is_empty(),
            (_, []) => false,
        }
    }
    matches(name.as_bytes(), pattern.as_bytes())
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
            assert_eq!(like(name, pattern), wanted, "{name} {pattern}");
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
        registry.enabled.write().clone_from(&settings.enabled);
        assert_eq!(FIRST.place(), None);
        let keys = [&FIRST, &AGAIN, &SECOND, &THIRD].map(|it| registry.register(it));
        assert_eq!(keys, [1, 1, 2, 0]);
        assert_eq!(FIRST.place(), AGAIN.place());
        assert_eq!(
            (FIRST.switches(), SECOND.switches()),
            ((true, false), (true, true))
        );
        assert_eq!(THIRD.switches(), (false, false));
        assert_eq!(registry.lost()[Class::Stage as usize], ("stage", 1));
        assert_eq!(registry.lost()[Class::File as usize], ("file", 0));
        let second = SECOND.place().and_then(|place| registry.at(place));
        assert_eq!(second.map(|it| it.name), Some(SECOND.name));
        registry.switch("stage/test/first", false, true);
        assert_eq!(
            (FIRST.switches(), AGAIN.switches()),
            ((false, true), (false, true))
        );
        // Switching what has no place is nothing.
        registry.switch("stage/test/third", true, true);
        assert_eq!(THIRD.switches(), (false, false));
    }

    #[test]
    fn consumers_govern_those_below() {
        let registry = Registry::new(&Settings {
            enabled: Vec::new(),
            classes_max: [1; CLASSES_SET],
        });
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
