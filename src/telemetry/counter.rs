//! Field types of counter sets: a [`Counter`], a [`Gauge`], a [`WrappedCounter`] kept by the
//! kernel, a [`CounterBy`] reasons; and `counters!`, which declares a set of them, see
//! [`super::counters`].
//!
//! Adds are Release and reads Acquire: a reader that sees a request leave the ring also sees that
//! it arrived.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::Value as Json;

use super::reading::Kind;

/// Summing, display and restoration of a field.
pub trait Cell {
    /// Returns the kind of the number.
    fn kind(&self) -> Kind {
        Kind::Counter
    }
    /// Adds the value of another one.
    fn absorb(&self, more: &Self);
    /// Continues from the count of another process, for this reason if the field counts by reason.
    fn restore(&self, reason: Option<&str>, value: u64);
    /// Returns the value for display.
    fn value(&self) -> Json;
}

/// Implements `Cell` for a single number.
macro_rules! number {
    ($cell:ident, $kind:ident, $to:tt, $restore:expr) => {
        impl Cell for $cell {
            fn kind(&self) -> Kind {
                Kind::$kind
            }
            fn absorb(&self, more: &Self) {
                self.$to.fetch_add(more.get(), Ordering::AcqRel);
            }
            fn restore(&self, _reason: Option<&str>, value: u64) {
                let restore: fn(&Self, u64) = $restore;
                restore(self, value);
            }
            fn value(&self) -> Json {
                self.get().into()
            }
        }
    };
}

number!(Counter, Counter, 0, Self::add);
number!(Gauge, Gauge, 0, |_, _| {});
number!(WrappedCounter, Counter, offset, |cell, value| {
    cell.offset.fetch_add(value, Ordering::AcqRel);
});

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Creates a counter at `count`.
    pub const fn new(count: u64) -> Self {
        Self(AtomicU64::new(count))
    }

    /// Adds `count`; writes nothing for 0.
    #[inline]
    pub fn add(&self, count: u64) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Release);
        }
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A number that moves both ways.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the value.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// Raises the value to the microseconds since `then`, if these are more.
    pub(crate) fn raise_to_us_since(&self, then: Instant) {
        let us = then.elapsed().as_micros() as u64;
        self.0.fetch_max(us, Ordering::Release);
    }

    /// Returns the value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A counter kept in 32 bits by the kernel, which lets it wrap.
#[derive(Debug, Default)]
pub struct WrappedCounter {
    /// The kernel's count, extended to 64 bits.
    seen: AtomicU64,
    /// Offset to add, modulo 2^64: our count before the kernel's first known count, less that
    /// count.
    offset: AtomicU64,
}

impl WrappedCounter {
    /// Starts counting at this reading of the kernel; earlier counts are excluded. Call before the
    /// first [`raise_to`](Self::raise_to).
    pub(crate) fn begin(&self, reading: u32) {
        let before = self.get();
        self.seen.store(reading.into(), Ordering::Release);
        let offset = before.wrapping_sub(reading.into());
        self.offset.store(offset, Ordering::Release);
    }

    /// Returns the last reading of the kernel.
    pub(crate) fn reading(&self) -> u32 {
        (self.seen.load(Ordering::Acquire) & u64::from(u32::MAX)) as u32
    }

    /// Takes over a reading. Threads may call this concurrently and in any order: a reading older
    /// than the last known one (by less than 2^31) changes nothing.
    pub(crate) fn raise_to(&self, reading: u32) {
        let known = &self.seen;
        let mut before = known.load(Ordering::Relaxed);
        loop {
            // The low 32 bits are the last reading, so the difference is exact across a wrap.
            let grown = reading.wrapping_sub((before & u64::from(u32::MAX)) as u32);
            if grown == 0 || grown > u32::MAX / 2 {
                return;
            }
            let after = before + u64::from(grown);
            match known.compare_exchange_weak(before, after, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.seen.load(Ordering::Acquire).wrapping_add(self.offset.load(Ordering::Acquire))
    }
}

/// Reasons by which a counter is split.
pub trait Reason {
    /// Returns the name of reason number `index`.
    fn name_of(index: usize) -> &'static str;
}

/// An enum whose variants are numbered from 0 and have names, usually one counter each.
macro_rules! counted {
    ($(#[$doc:meta])* $Enum:ident { $($(#[$of:meta])* $Variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $Enum {
            $($(#[$of])* $Variant,)+
        }

        impl $Enum {
            /// All variants, in order of their numbers.
            pub const ALL: [Self; [$(Self::$Variant),+].len()] = [$(Self::$Variant),+];

            /// Number of variants: the length of an array indexed by `as usize`.
            pub const COUNT: usize = Self::ALL.len();

            /// Its name, and that of its counter.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)+
                }
            }
        }

        impl $crate::telemetry::counter::Reason for $Enum {
            fn name_of(index: usize) -> &'static str {
                Self::ALL.get(index).map_or("", |it| it.name())
            }
        }
    };
}
pub(crate) use counted;

/// A counter for each of the `N` reasons `R`.
#[derive(Debug)]
pub struct CounterBy<R, const N: usize> {
    counts: [Counter; N],
    reasons: PhantomData<fn(R)>,
}

impl<R: Reason, const N: usize> CounterBy<R, N> {
    /// Adds to each reason's count.
    #[inline]
    pub fn add(&self, counts: &[u64; N]) {
        for (counter, count) in self.counts.iter().zip(counts) {
            counter.add(*count);
        }
    }

    /// Adds one to the count of the reason with this number.
    pub(crate) fn add_one(&self, reason: usize) {
        self.counts[reason].add(1);
    }

    /// Adds to the count of the reason with this number.
    pub(crate) fn add_many(&self, reason: usize, count: u64) {
        self.counts[reason].add(count);
    }

    /// Returns the counts, in the order of the reasons' numbers.
    pub fn get(&self) -> [u64; N] {
        std::array::from_fn(|reason| self.counts[reason].get())
    }

    /// Returns the sum over all reasons.
    pub(crate) fn total(&self) -> u64 {
        self.get().iter().sum()
    }
}

impl<R, const N: usize> Default for CounterBy<R, N> {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| Counter::default()), reasons: PhantomData }
    }
}

impl<R: Reason, const N: usize> Cell for CounterBy<R, N> {
    fn absorb(&self, more: &Self) {
        self.add(&more.get());
    }
    fn restore(&self, reason: Option<&str>, value: u64) {
        if let Some(at) = (0..N).find(|&at| reason == Some(R::name_of(at))) {
            self.counts[at].add(value);
        }
    }
    fn value(&self) -> Json {
        let counts = self.get().into_iter().enumerate();
        counts
            .map(|(at, count)| (R::name_of(at).to_owned(), count.into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// Declares a struct of counters; `as` gives a metric another name than the field. One that another
/// thread writes than its neighbors is `CachePadded`: on cache lines of its own.
macro_rules! counters {
    ( $(#[$about:meta])* $name:ident; $( $(#[doc = $help:literal])+ $field:ident $(as $metric:literal)?: $cell:ty, )+ ) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct $name {
            $( $(#[doc = $help])+ pub $field: $cell, )+
        }

        impl $name {
            /// Returns a copy of all values.
            pub fn counts(&self) -> Self {
                let counts = Self::default();
                counts.absorb(self);
                counts
            }

            /// Adds the values of `more`, field by field; later fields are read first.
            pub fn absorb(&self, more: &Self) {
                counters!(@absorb self, more, [ $($field)+ ]);
            }

            /// Continues from the count of another process; does nothing if the counter no longer
            /// exists.
            pub fn restore(&self, name: &str, reason: Option<&str>, value: u64) {
                match name {
                    $( stringify!($field) => self.$field.restore(reason, value), )+
                    _ => {}
                }
            }

            /// Returns all values, in the order of declaration.
            pub fn readings(&self) -> Vec<Reading> {
                vec![ $( Reading {
                    name: stringify!($field),
                    metric: None$(.or(Some($metric)))?,
                    help: concat!($($help),+).trim_ascii(),
                    kind: self.$field.kind(),
                    value: self.$field.value(),
                } ),+ ]
            }
        }
    };
    // Last field first.
    (@absorb $to:ident, $from:ident, [ $first:ident $($rest:ident)* ]) => {
        counters!(@absorb $to, $from, [ $($rest)* ]);
        $to.$first.absorb(&$from.$first);
    };
    (@absorb $to:ident, $from:ident, []) => {};
}

pub(crate) use counters;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counter_goes_on_past_32_bits() {
        let drops = WrappedCounter::default();
        drops.raise_to(10);
        drops.raise_to(10);
        drops.raise_to(2_000_000_000);
        drops.raise_to(4_000_000_000);
        drops.raise_to(5);
        assert_eq!(drops.get(), (1 << 32) + 5);
        // A reading taken before the others arrives late.
        drops.raise_to(u32::MAX);
        assert_eq!(drops.get(), (1 << 32) + 5);
    }
}
