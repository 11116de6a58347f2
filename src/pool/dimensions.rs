//! The dimensions of a request (host, server, script, schema and status), kept once per distinct combination, an origin.
//!
//! A raw row holds one number instead of five, and what must be found for every packet is found with one look-up:
//! the receiver has hashed the five texts together, the merger probes once and compares. The table is made at start
//! for as many origins as the main pool has rows. Epochs of the pool hold an origin (see `pool::reclaim`); with the
//! last it is forgotten and its strings are let go.

use serde::{Deserialize, Serialize};

use super::strings::{NONE, OTHER, StringInterner};
use super::table::{Holds, Table};
use crate::input::record::Record;

/// The five request fields that base reports tell rows apart by.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Origin {
    /// Word of the host name.
    pub hostname: u32,
    /// Word of the server name.
    pub server_name: u32,
    /// Word of the script name.
    pub script_name: u32,
    /// Word of the schema; [`NONE`] when the packet had none.
    pub schema: u32,
    /// The status as sent.
    pub status: u32,
    #[serde(skip)]
    holds: Holds,
    #[serde(skip)]
    hash: u64,
}

impl Origin {
    /// Another combination has another one, but for a chance of 1 in 2^64.
    #[must_use]
    pub fn identity(&self) -> u64 {
        self.hash
    }

    /// Its texts.
    pub(super) fn strings(&self) -> [u32; 4] {
        [
            self.hostname,
            self.server_name,
            self.script_name,
            self.schema,
        ]
    }
}

/// The dimensions of a request as texts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dimensions<'a> {
    pub(super) hostname: &'a [u8],
    pub(super) server_name: &'a [u8],
    pub(super) script_name: &'a [u8],
    pub(super) schema: Option<&'a [u8]>,
    pub(super) status: u32,
    /// [`Hasher::hash_identity`](crate::input::record::Hasher::hash_identity) of them.
    pub(super) hash: u64,
}

impl<'a> Dimensions<'a> {
    #[inline]
    pub(super) fn of(record: &Record<'a>) -> Self {
        Self {
            hostname: record.hostname(),
            server_name: record.server_name(),
            script_name: record.script_name(),
            schema: record.schema(),
            status: record.status(),
            hash: record.identity_hash(),
        }
    }
}

/// The store of origins.
#[derive(Debug)]
pub struct Origins(Table<Origin>);

/// The origin of requests that found no room: every text `(other)`, status 0.
pub const OTHER_ORIGIN: u32 = 0;

impl Origins {
    /// A store for `origins_max` origins.
    pub(super) fn new(origins_max: usize) -> Self {
        let other = Origin {
            hostname: OTHER,
            server_name: OTHER,
            script_name: OTHER,
            schema: OTHER,
            status: 0,
            holds: Holds::default(),
            hash: 0,
        };
        Self(Table::new(origins_max, [other]))
    }

    /// Bytes that a store for `origins_max` origins takes once all were there.
    pub(super) const fn bytes_max(origins_max: usize) -> usize {
        Table::<Origin>::bytes_max(origins_max, 1)
    }

    /// The number that [`intern`](Self::intern) will find for this hash, most likely; [`NONE`] of a new one.
    pub(super) fn guess(&self, hash: u64) -> u32 {
        let found = self.0.find(hash, |origin| origin.hash == hash);
        found.unwrap_or(NONE)
    }

    /// The number of what was sent, which may be the one that was [guessed](Self::guess); its strings are interned when it is
    /// new.
    #[inline]
    pub(super) fn intern(
        &mut self,
        sent: &Dimensions<'_>,
        guess: u32,
        strings: &mut StringInterner,
    ) -> u32 {
        let is = |origin: &Origin| {
            origin.hash == sent.hash
                && origin.status == sent.status
                && strings.is(origin.script_name, sent.script_name)
                && strings.is(origin.server_name, sent.server_name)
                && strings.is(origin.hostname, sent.hostname)
                && match sent.schema {
                    None => origin.schema == NONE,
                    Some(schema) => origin.schema != NONE && strings.is(origin.schema, schema),
                }
        };
        // It may have gone since, or its number have been given to another.
        if guess != NONE && self.0[guess].holds.is_held() && is(&self.0[guess]) {
            return guess;
        }
        if let Some(id) = self.0.find(sent.hash, is) {
            return id;
        }
        if self.0.room() == 0 {
            return OTHER_ORIGIN;
        }
        let origin = Origin {
            hostname: strings.intern(sent.hostname),
            server_name: strings.intern(sent.server_name),
            script_name: strings.intern(sent.script_name),
            schema: sent.schema.map_or(NONE, |schema| strings.intern(schema)),
            status: sent.status,
            holds: Holds::default(),
            hash: sent.hash,
        };
        self.0.insert(sent.hash, origin, |origin| origin.hash)
    }

    /// An origin by its number.
    #[must_use]
    pub fn get(&self, id: u32) -> &Origin {
        &self.0[id]
    }

    /// Lets an epoch hold an origin; true if it did not yet.
    #[inline]
    pub(super) fn hold(&mut self, id: u32, epoch: u32) -> bool {
        id != OTHER_ORIGIN && self.0[id].holds.hold(epoch)
    }

    /// One epoch lets go; true when that was the last and the origin is forgotten.
    pub(super) fn let_go(&mut self, id: u32, strings: &mut StringInterner) -> bool {
        let last = self.0[id].holds.let_go();
        if last {
            let origin = self.0[id];
            self.0.remove(origin.hash, id);
            for string in origin.strings() {
                strings.release(string);
            }
        }
        last
    }

    /// Bytes of so many.
    #[must_use]
    pub const fn bytes(origins: usize) -> usize {
        origins * size_of::<Origin>()
    }

    /// How many origins are kept now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}
