//! Senders: which networks may send, how much each sender may send, and how much each has sent.
//!
//! A receiver calls [`Senders::pass`] for each batch before it decodes it; a refused datagram is
//! counted as invalid with the reason, like any other. There is one table for all receivers, of
//! fixed size: 4,096 senders have a row of their own, further ones share the row "other" until a
//! row has not been used for a minute. The table is locked while a batch is counted or the list is
//! copied, some microseconds. A sender's address can be forged, so this shows who sends and stops
//! those who send too much by mistake; it proves nothing.
//!
//! Without such configuration receivers have no table, and the kernel is not even asked for
//! addresses.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ahash::RandomState;
use ipnet::IpNet;
use parking_lot::Mutex;

use crate::input::record::RejectReason;
use crate::instruments::Instrument;
use crate::value::number_by_number;

/// Waits for the table of senders.
pub(crate) static TABLE: Instrument = Instrument::wait("wait/synch/mutex/udp/senders", "lock");

/// Most senders with a row of their own.
pub const SENDERS_MAX: usize = 4096;
/// Milliseconds without a datagram after which a row may be reassigned.
const STALE_MS: u64 = 60_000;
/// Milliseconds between two searches of a full table for such rows.
const SWEEP_MS: u64 = 1_000;
/// Nanoseconds of a second: the burst that a sender may save up.
const BURST_NS: u64 = 1_000_000_000;

/// Bytes of the table, for the memory plan: the slots of a map are a power of two, of which seven
/// eighths may be used.
pub const TABLE_BYTES: usize = 2 * SENDERS_MAX * (size_of::<(u128, Row)>() + 1);

/// One sender and its counts.
#[derive(Debug, Default)]
struct Row {
    counts: Counts,
    /// When its bucket is full again, in nanoseconds of the monotonic clock.
    full_ns: u64,
    /// When it last sent, in milliseconds of the monotonic clock.
    seen_ms: u64,
}

impl Row {
    /// Takes one datagram out of the bucket, if there is one.
    fn take_one(&mut self, now_ns: u64, each_ns: u64) -> bool {
        let after = self.full_ns.max(now_ns) + each_ns;
        let is_there = after <= now_ns + BURST_NS;
        if is_there {
            self.full_ns = after;
        }
        is_there
    }
}

/// The counts of one sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams received.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams that were refused.
    pub refused: u64,
}

number_by_number!(Counts: datagrams bytes refused);

/// One sender of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderCounts {
    /// Its address.
    pub address: IpAddr,
    /// Its counts since it got its row.
    pub counts: Counts,
    /// Milliseconds since its last datagram.
    pub silent_ms: u64,
}

/// The table of all senders, and the rules for them.
#[derive(Debug)]
pub struct Senders {
    table: Mutex<Table>,
    allowed: Ranges,
    /// Nanoseconds of the bucket per datagram; 0 for no limit.
    each_ns: u64,
}

#[derive(Debug)]
struct Table {
    /// Rows by address, see [`bits`].
    rows: HashMap<u128, Row, RandomState>,
    /// Counts of senders without a row of their own, and of those that lost theirs.
    other: Row,
    swept_ms: u64,
}

impl Table {
    /// The row of `sender`: its own, a new one, or the shared one.
    fn row(&mut self, sender: u128, now_ms: u64) -> &mut Row {
        if self.rows.len() >= SENDERS_MAX && !self.rows.contains_key(&sender) {
            if now_ms >= self.swept_ms + SWEEP_MS {
                self.sweep(now_ms);
            }
            if self.rows.len() >= SENDERS_MAX {
                return &mut self.other;
            }
        }
        self.rows.entry(sender).or_default()
    }

    /// Removes the rows of senders that were silent for long.
    fn sweep(&mut self, now_ms: u64) {
        self.swept_ms = now_ms;
        self.rows.retain(|_, row| {
            let stays = row.seen_ms + STALE_MS > now_ms;
            if !stays {
                self.other.counts += &row.counts;
            }
            stays
        });
    }
}

impl Senders {
    /// An empty table. `allow` are the networks that may send, empty for all; `rate_max` is the
    /// limit in datagrams per second and sender, 0 for none.
    pub fn new(allow: &[IpNet], rate_max: u32) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::new(Table {
                rows: HashMap::with_capacity_and_hasher(SENDERS_MAX, RandomState::new()),
                other: Row::default(),
                swept_ms: 0,
            }),
            allowed: Ranges::new(allow),
            each_ns: BURST_NS.checked_div(rate_max.into()).unwrap_or(0),
        })
    }

    /// Whether this address may send.
    pub fn allows(&self, sender: IpAddr) -> bool {
        self.allowed.contains(bits(sender))
    }

    /// Counts datagrams (sender, see [`bits`], and length) that arrived together, and adds a
    /// verdict on each to `verdicts`: whether it is decoded, or why not.
    pub fn pass(
        &self,
        datagrams: impl Iterator<Item = (u128, usize)>,
        now_ms: u64,
        verdicts: &mut Vec<Result<(), RejectReason>>,
    ) {
        let now_ns = now_ms.saturating_mul(1_000_000);
        let mut table = TABLE.lock(&self.table);
        verdicts.clear();
        verdicts.extend(datagrams.map(|(sender, bytes)| {
            let row = table.row(sender, now_ms);
            row.seen_ms = now_ms;
            row.counts.datagrams += 1;
            row.counts.bytes += bytes as u64;
            let verdict = if !self.allowed.contains(sender) {
                Err(RejectReason::SourceNotAllowed)
            } else if self.each_ns != 0 && !row.take_one(now_ns, self.each_ns) {
                Err(RejectReason::SourceRate)
            } else {
                Ok(())
            };
            row.counts.refused += u64::from(verdict.is_err());
            verdict
        }));
    }

    /// The senders with the most datagrams, at most `limit` of them, and the sum of all others.
    pub fn list(&self, limit: usize, now_ms: u64) -> (Vec<SenderCounts>, Counts) {
        let table = TABLE.lock(&self.table);
        let senders = table.rows.iter().map(|(sender, row)| SenderCounts {
            address: Ipv6Addr::from_bits(*sender).to_canonical(),
            counts: row.counts,
            silent_ms: now_ms.saturating_sub(row.seen_ms),
        });
        let mut list: Vec<_> = senders.collect();
        let mut other = table.other.counts;
        drop(table);
        list.sort_by_key(|sender| (Reverse(sender.counts.datagrams), sender.address));
        for sender in list.drain(limit.min(list.len())..) {
            other += &sender.counts;
        }
        (list, other)
    }
}

/// Networks as ranges of addresses; those of one family do not touch.
#[derive(Debug)]
struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    fn new(networks: &[IpNet]) -> Self {
        let networks = IpNet::aggregate(&networks.to_vec());
        Self(networks.iter().map(|it| (bits(it.network()), bits(it.broadcast()))).collect())
    }

    fn contains(&self, sender: u128) -> bool {
        self.0.is_empty() || self.0.iter().any(|(first, last)| (*first..=*last).contains(&sender))
    }
}

/// An address as a number: IPv6, or an IPv4 address mapped into it. Never 0 for a real sender.
pub fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests;
