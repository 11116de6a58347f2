//! Who sends: which networks may, how much one sender may, and how much each has sent.
//!
//! A receiver asks its [`SenderFilter`] before it decodes a datagram; one that is not let through is counted as invalid with
//! the reason, like any other. The counts are in one table for all receivers ([`Senders`]), of fixed size: 4,096 senders have
//! a row of their own, further ones share the row "other" until a row has not been used for a minute. Nobody waits: rows are
//! atomics, and a receiver that finds another one making a row counts under "other".
//!
//! ```text
//!   address --hash--> set of 8 rows --compare--> row: datagrams, bytes, refused, bucket, last seen
//! ```
//!
//! A receiver keeps its counts (`SenderFilter::slots`, by the same hash) and writes them to the table when a batch was not
//! full, that is when it has time, or after 16 batches. A sender's address can be forged, so this tells who sends and stops
//! who sends too much by mistake; it proves nothing.
//!
//! With nothing of this configured receivers have no filter, and the kernel is not even asked for addresses.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ipnet::IpNet;
use parking_lot::Mutex;

use crate::input::record::RejectReason;

/// Senders that have a row of their own.
pub const SENDERS_MAX: usize = 4096;
/// Rows among which a sender looks for its own.
const WAYS: usize = 8;
/// After so long without a datagram a row may be given to another sender, milliseconds.
const STALE_MS: u64 = 60_000;
/// Senders that a receiver keeps counts of before it writes them to the table.
const SLOTS: usize = 64;
/// Batches after which it writes them in any case.
const BATCHES_MAX: u32 = 16;
/// Nanoseconds of a second: what a sender may save up of its rate.
const BURST_NS: u64 = 1_000_000_000;

/// Bytes of the table, for the memory plan.
pub const TABLE_BYTES: usize = (SENDERS_MAX + 1) * size_of::<Row>();

/// One sender, and what is counted of it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Row {
    /// The address ([`bits`]), both 0: nobody's row.
    high: AtomicU64,
    low: AtomicU64,
    datagrams: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    /// When its bucket is full again, nanoseconds of the monotonic clock.
    full_ns: AtomicU64,
    /// When it was last written to, milliseconds of the monotonic clock.
    seen_ms: AtomicU64,
}

// Every access to a row is relaxed: its numbers carry no other data. A reader may see one number of a row a moment before
// another. A receiver that writes to a row which is just being given away adds its few datagrams to the next owner's: the
// sum over all rows stays right.
impl Row {
    fn is(&self, sender: u128) -> bool {
        self.low.load(Relaxed) == sender as u64 && self.high.load(Relaxed) == (sender >> 64) as u64
    }

    fn sender(&self) -> u128 {
        u128::from(self.high.load(Relaxed)) << 64 | u128::from(self.low.load(Relaxed))
    }

    fn add(&self, counts: &Counts, now_ms: u64) {
        self.datagrams.fetch_add(counts.datagrams, Relaxed);
        self.bytes.fetch_add(counts.bytes, Relaxed);
        if counts.refused > 0 {
            self.refused.fetch_add(counts.refused, Relaxed);
        }
        self.seen_ms.store(now_ms, Relaxed);
    }

    /// Takes one datagram out of the bucket, if it is in there.
    fn take_one(&self, now_ns: u64, each_ns: u64) -> bool {
        let taken = self.full_ns.fetch_update(Relaxed, Relaxed, |full_ns| {
            let after = full_ns.max(now_ns) + each_ns;
            (after <= now_ns + BURST_NS).then_some(after)
        });
        taken.is_ok()
    }
}

/// What was counted of one sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams received.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that were not decoded.
    pub refused: u64,
}

/// One sender of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderCounts {
    /// Its address.
    pub address: IpAddr,
    /// What it sent since it has its row.
    pub counts: Counts,
    /// Milliseconds since its last datagram, a tenth of a second more or less.
    pub silent_ms: u64,
}

/// The table of all senders, and the rules for them.
#[derive(Debug)]
pub struct Senders {
    rows: Box<[Row]>,
    /// What senders without a row of their own sent, and those that lost theirs.
    other: Row,
    /// Held while a row is given to a sender.
    giving: Mutex<()>,
    hasher: ahash::RandomState,
    allowed: Ranges,
    /// Nanoseconds of the bucket for a datagram; 0: as many as there are.
    each_ns: u64,
}

impl Senders {
    /// An empty table. `allow` are the networks that may send, none: all; `rate_max` the datagrams a second that one
    /// sender may send, 0: any number.
    #[must_use]
    pub fn new(allow: &[IpNet], rate_max: u32) -> Arc<Self> {
        Arc::new(Self {
            rows: (0..SENDERS_MAX).map(|_| Row::default()).collect(),
            other: Row::default(),
            giving: Mutex::new(()),
            hasher: ahash::RandomState::new(),
            allowed: Ranges::new(allow),
            each_ns: BURST_NS.checked_div(rate_max.into()).unwrap_or(0),
        })
    }

    /// The senders that have sent the most datagrams, at most `limit` of them, and all others together.
    #[must_use]
    pub fn list(&self, limit: usize, now_ms: u64) -> (Vec<SenderCounts>, Counts) {
        let counts = |row: &Row| Counts {
            datagrams: row.datagrams.load(Relaxed),
            bytes: row.bytes.load(Relaxed),
            refused: row.refused.load(Relaxed),
        };
        let mut other = counts(&self.other);
        let taken = self.rows.iter().filter(|row| row.sender() != 0);
        let mut list: Vec<_> = taken
            .map(|row| SenderCounts {
                address: Ipv6Addr::from_bits(row.sender()).to_canonical(),
                counts: counts(row),
                silent_ms: now_ms.saturating_sub(row.seen_ms.load(Relaxed)),
            })
            .collect();
        list.sort_by_key(|sender| (std::cmp::Reverse(sender.counts.datagrams), sender.address));
        for sender in list.drain(limit.min(list.len())..) {
            other.datagrams += sender.counts.datagrams;
            other.bytes += sender.counts.bytes;
            other.refused += sender.counts.refused;
        }
        (list, other)
    }

    /// The row of `sender`: its own, a new one, or the one that many share.
    fn row(&self, sender: u128, hash: u64, now_ms: u64) -> &Row {
        let first = (hash >> 32) as usize % (SENDERS_MAX / WAYS) * WAYS;
        let set = &self.rows[first..first + WAYS];
        if let Some(row) = set.iter().find(|row| row.is(sender)) {
            return row;
        }
        // Whoever cannot have the lock at once does not wait for it.
        let Some(_giving) = self.giving.try_lock() else {
            return &self.other;
        };
        if let Some(row) = set.iter().find(|row| row.is(sender)) {
            return row;
        }
        let stale = |row: &&Row| {
            row.sender() == 0 || row.seen_ms.load(Relaxed).saturating_add(STALE_MS) <= now_ms
        };
        let oldest = |row: &&Row| (row.sender() != 0, row.seen_ms.load(Relaxed));
        let Some(row) = set.iter().filter(stale).min_by_key(oldest) else {
            return &self.other;
        };
        for (of, into) in [
            (&row.datagrams, &self.other.datagrams),
            (&row.bytes, &self.other.bytes),
            (&row.refused, &self.other.refused),
        ] {
            into.fetch_add(of.swap(0, Relaxed), Relaxed);
        }
        row.full_ns.store(0, Relaxed);
        row.seen_ms.store(now_ms, Relaxed);
        row.high.store((sender >> 64) as u64, Relaxed);
        row.low.store(sender as u64, Relaxed);
        row
    }
}

/// What a receiver has counted of one sender and not written to the table.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    sender: u128,
    hash: u64,
    allowed: bool,
    counts: Counts,
}

/// What one receiver lets through and counts.
#[derive(Debug)]
pub struct SenderFilter {
    senders: Arc<Senders>,
    slots: Box<[Slot; SLOTS]>,
    /// A bit for each slot that has something to write.
    unwritten: u64,
    batches: u32,
    now_ms: u64,
}

impl SenderFilter {
    /// One that has seen nothing yet.
    #[must_use]
    pub fn new(senders: Arc<Senders>) -> Self {
        Self {
            senders,
            slots: Box::new([Slot::default(); SLOTS]),
            unwritten: 0,
            batches: 0,
            now_ms: 0,
        }
    }

    fn write(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        let row = self.senders.row(slot.sender, slot.hash, self.now_ms);
        row.add(&slot.counts, self.now_ms);
        slot.counts = Counts::default();
        self.unwritten &= !(1 << at);
    }

    fn write_all(&mut self) {
        while self.unwritten != 0 {
            self.write(self.unwritten.trailing_zeros() as usize);
        }
        self.batches = 0;
    }
}

impl SenderFilter {
    /// Begins a batch.
    pub fn begin(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Whether a datagram from `sender` ([`bits`]) is decoded.
    ///
    /// # Errors
    /// Why it is not.
    #[inline]
    pub fn pass(&mut self, sender: u128, bytes: usize) -> Result<(), RejectReason> {
        let hash = self.senders.hasher.hash_one(sender);
        let at = hash as usize % SLOTS;
        if self.slots[at].sender != sender {
            if self.unwritten & (1 << at) != 0 {
                self.write(at);
            }
            self.slots[at] = Slot {
                sender,
                hash,
                allowed: self.senders.allowed.contains(sender),
                counts: Counts::default(),
            };
        }
        self.unwritten |= 1 << at;
        let slot = &mut self.slots[at];
        slot.counts.datagrams += 1;
        slot.counts.bytes += bytes as u64;
        if !slot.allowed {
            slot.counts.refused += 1;
            return Err(RejectReason::SourceNotAllowed);
        }
        let each_ns = self.senders.each_ns;
        if each_ns != 0 {
            let now_ns = self.now_ms.saturating_mul(1_000_000);
            let row = self.senders.row(sender, hash, self.now_ms);
            if !row.take_one(now_ns, each_ns) {
                slot.counts.refused += 1;
                return Err(RejectReason::SourceRate);
            }
        }
        Ok(())
    }

    /// Ends the batch, which was full or not.
    pub fn end(&mut self, full: bool) {
        self.batches += 1;
        if !full || self.batches >= BATCHES_MAX {
            self.write_all();
        }
    }
}

impl Drop for SenderFilter {
    fn drop(&mut self) {
        self.write_all();
    }
}

/// Networks as ranges of addresses, sorted, none touching another.
#[derive(Debug)]
struct Ranges(Option<Vec<(u128, u128)>>);

impl Ranges {
    fn new(networks: &[IpNet]) -> Self {
        let mut ranges: Vec<_> = networks
            .iter()
            .map(|network| (bits(network.network()), bits(network.broadcast())))
            .collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self((!merged.is_empty()).then_some(merged))
    }

    fn contains(&self, sender: u128) -> bool {
        let Some(ranges) = &self.0 else { return true };
        let after = ranges.partition_point(|(first, _)| *first <= sender);
        after > 0 && sender <= ranges[after - 1].1
    }
}

/// An address as a number: that of IPv6, an IPv4 address mapped into it. Never 0 for what can send.
#[must_use]
pub fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

const _: () = {
    assert!(size_of::<Row>() == 64);
    assert!(SLOTS == u64::BITS as usize, "a bit for each slot");
    assert!(SENDERS_MAX.is_multiple_of(WAYS));
};

#[cfg(test)]
mod tests;
