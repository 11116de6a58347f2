//! The dimensions of a request (host, server, script, schema and status), kept once per distinct
//! combination, called an origin.
//!
//! A raw row holds one number instead of five, and one look-up finds everything needed for every
//! packet: the receiver has hashed the five texts together, the merger probes once and compares.
//! The table is allocated at start for as many origins as the main pool has rows. Epochs of the
//! pool hold an origin (see `pool::reclaim`); when the last lets go, it is removed and its strings
//! are released.

use serde::{Deserialize, Serialize};

use super::strings::{NONE, OTHER, StringInterner};
use super::table::{Holds, Table};
use crate::input::record::Record;

/// The five request fields that distinguish the rows of base reports.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Origin {
    /// Id of the host name.
    pub hostname: u32,
    /// Id of the server name.
    pub server_name: u32,
    /// Id of the script name.
    pub script_name: u32,
    /// Id of the schema; [`NONE`] if the packet had none.
    pub schema: u32,
    /// The status as sent.
    pub status: u32,
    #[serde(skip)]
    holds: Holds,
    #[serde(skip)]
    hash: u64,
}

impl Origin {
    /// Ids of its texts.
    pub(super) fn strings(&self) -> [u32; 4] {
        [self.hostname, self.server_name, self.script_name, self.schema]
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
    /// Their [`Hasher::hash_identity`](crate::input::record::Hasher::hash_identity).
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

    /// Most bytes of a store for `origins_max` origins.
    pub(super) const fn bytes_max(origins_max: usize) -> usize {
        Table::<Origin>::bytes_max(origins_max, 1)
    }

    /// The id that [`intern`](Self::intern) will most likely find for this hash; [`NONE`] for a new
    /// one.
    pub(super) fn guess(&self, hash: u64) -> u32 {
        self.0.find(hash, |origin| origin.hash == hash).unwrap_or(NONE)
    }

    /// The id of these dimensions, which may have been [guessed](Self::guess); interns their
    /// strings if new.
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
        // It may have been removed since, or its id reused.
        if guess != NONE && self.0[guess].holds.is_held() && is(&self.0[guess]) {
            return guess;
        }
        if let Some(id) = self.0.find(sent.hash, is) {
            return id;
        }
        if self.0.room() == 0 {
            return OTHER_ORIGIN;
        }
        let mut origin = Origin {
            hostname: strings.intern(sent.hostname),
            server_name: strings.intern(sent.server_name),
            script_name: strings.intern(sent.script_name),
            schema: sent.schema.map_or(NONE, |schema| strings.intern(schema)),
            status: sent.status,
            holds: Holds::default(),
            hash: sent.hash,
        };
        if origin.strings().contains(&OTHER) {
            // Origins that differ in words for which there was no room are one.
            let text = |id| strings.bytes(id);
            let [host, server, script] =
                [origin.hostname, origin.server_name, origin.script_name].map(text);
            let schema = (origin.schema != NONE).then(|| text(origin.schema));
            let hasher = strings.hasher();
            origin.hash = hasher.hash_identity(host, server, script, schema, origin.status);
            let is = |known: &Origin| {
                known.strings() == origin.strings() && known.status == origin.status
            };
            if let Some(known) = self.0.find(origin.hash, is) {
                origin.strings().into_iter().for_each(|id| strings.release(id));
                return known;
            }
        }
        self.0.insert(origin.hash, origin, |origin| origin.hash)
    }

    /// An origin by its number.
    pub fn get(&self, id: u32) -> &Origin {
        &self.0[id]
    }

    /// Lets an epoch hold an origin; returns whether it is new to the epoch.
    #[inline]
    pub(super) fn hold(&mut self, id: u32, epoch: u32) -> bool {
        id != OTHER_ORIGIN && self.0[id].holds.hold(epoch)
    }

    /// Releases an epoch's hold; returns whether it was the last, so that the origin was removed.
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

    /// Bytes of this many origins.
    pub const fn bytes(origins: usize) -> usize {
        origins * size_of::<Origin>()
    }

    /// Number of origins.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}
