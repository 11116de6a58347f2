//! Origins: the dimensions of a request (host, server, script, schema and status), kept once per distinct combination.
//!
//! A raw row holds one number instead of five, and what must be found for every packet is found with one look-up:
//! the receiver has hashed the five texts together, the merger probes once and compares. The table is made at start
//! for as many origins as the main pool has rows. Epochs of the pool hold an origin (see `pool::reclaim`); with the
//! last it is forgotten and its strings are let go.

use hashbrown::HashTable;

use super::strings::{NONE, OTHER, StringInterner};
use super::table_bytes;
use crate::input::record::Record;

/// The five request fields that base reports tell rows apart by.
#[derive(Debug, Clone, Copy)]
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
    /// How many epochs hold it.
    pub(super) epochs: u32,
    /// The youngest epoch that holds it.
    pub(super) last_epoch: u32,
    hash: u64,
}

impl Origin {
    /// Host, server and script name, and schema.
    #[must_use]
    pub const fn strings(&self) -> [u32; 4] {
        [
            self.hostname,
            self.server_name,
            self.script_name,
            self.schema,
        ]
    }
}

/// The store of origins.
#[derive(Debug)]
pub struct Origins {
    table: HashTable<u32>,
    origins: Vec<Origin>,
    unused: Vec<u32>,
    origins_max: usize,
}

/// The origin of requests that found no room: every text `(other)`, status 0.
pub const OTHER_ORIGIN: u32 = 0;

impl Origins {
    /// A store for `origins_max` origins.
    pub(super) fn new(origins_max: usize) -> Self {
        let mut origins = Vec::with_capacity(origins_max + 1);
        origins.push(Origin {
            hostname: OTHER,
            server_name: OTHER,
            script_name: OTHER,
            schema: OTHER,
            status: 0,
            epochs: 1,
            last_epoch: 0,
            hash: 0,
        });
        Self {
            table: HashTable::with_capacity(origins_max),
            origins,
            unused: Vec::with_capacity(origins_max),
            origins_max,
        }
    }

    /// Bytes that a store for `origins_max` origins takes once all were there.
    pub(super) const fn bytes_max(origins_max: usize) -> usize {
        (origins_max + 1) * (size_of::<Origin>() + size_of::<u32>()) + table_bytes(origins_max)
    }

    /// Reads what [`intern`](Self::intern) will read for this hash.
    pub(super) fn peek(&self, hash: u64) -> u32 {
        let found = self
            .table
            .find(hash, |&id| self.origins[id as usize].hash == hash);
        found.copied().unwrap_or_default()
    }

    /// The number of the record's origin; its strings are interned when it is new.
    pub(super) fn intern(&mut self, record: &Record<'_>, strings: &mut StringInterner) -> u32 {
        let hash = record.identity_hash();
        let found = self.table.find(hash, |&id| {
            let origin = &self.origins[id as usize];
            origin.hash == hash
                && origin.status == record.status()
                && strings.bytes(origin.script_name) == record.script_name()
                && strings.bytes(origin.server_name) == record.server_name()
                && strings.bytes(origin.hostname) == record.hostname()
                && match record.schema() {
                    None => origin.schema == NONE,
                    Some(schema) => origin.schema != NONE && strings.bytes(origin.schema) == schema,
                }
        });
        if let Some(&id) = found {
            return id;
        }
        if self.table.len() >= self.origins_max {
            return OTHER_ORIGIN;
        }
        self.insert(Origin {
            hostname: strings.intern(record.hostname()),
            server_name: strings.intern(record.server_name()),
            script_name: strings.intern(record.script_name()),
            schema: record
                .schema()
                .map_or(NONE, |schema| strings.intern(schema)),
            status: record.status(),
            epochs: 0,
            last_epoch: u32::MAX,
            hash,
        })
    }

    /// The number of an origin whose strings the caller holds, in the order hostname, server name, script name, schema: the
    /// origin takes the holds over.
    pub(super) fn intern_words(
        &mut self,
        held: [u32; 4],
        status: u32,
        strings: &mut StringInterner,
    ) -> u32 {
        let [hostname, server_name, script_name, schema] = held;
        let text = |id| strings.bytes(id);
        let sent = strings.hasher().hash_identity(
            text(hostname),
            text(server_name),
            text(script_name),
            (schema != NONE).then(|| text(schema)),
            status,
        );
        // What a text was that became `(other)` is not known any more: no record may find this origin by its texts.
        let hash = if held.contains(&OTHER) { !sent } else { sent };
        let found = self.table.find(hash, |&id| {
            let origin = &self.origins[id as usize];
            origin.hash == hash && origin.status == status && origin.strings() == held
        });
        let known = found
            .copied()
            .or_else(|| (self.table.len() >= self.origins_max).then_some(OTHER_ORIGIN));
        if let Some(id) = known {
            held.into_iter().for_each(|string| strings.release(string));
            return id;
        }
        self.insert(Origin {
            hostname,
            server_name,
            script_name,
            schema,
            status,
            epochs: 0,
            last_epoch: u32::MAX,
            hash,
        })
    }

    fn insert(&mut self, origin: Origin) -> u32 {
        let id = match self.unused.pop() {
            Some(id) => {
                self.origins[id as usize] = origin;
                id
            }
            None => {
                self.origins.push(origin);
                (self.origins.len() - 1) as u32
            }
        };
        let origins = &self.origins;
        self.table
            .insert_unique(origin.hash, id, |&id| origins[id as usize].hash);
        id
    }

    /// An origin by its number.
    #[must_use]
    pub fn get(&self, id: u32) -> &Origin {
        &self.origins[id as usize]
    }

    pub(super) fn get_mut(&mut self, id: u32) -> &mut Origin {
        &mut self.origins[id as usize]
    }

    /// Forgets an origin that no epoch holds.
    pub(super) fn forget(&mut self, id: u32, strings: &mut StringInterner) {
        let origin = self.origins[id as usize];
        if let Ok(entry) = self.table.find_entry(origin.hash, |&other| other == id) {
            entry.remove();
        }
        let held = origin.strings();
        held.into_iter().for_each(|id| strings.release(id));
        self.unused.push(id);
    }

    /// Numbers of origins are below this.
    #[must_use]
    pub fn end(&self) -> usize {
        self.origins.len()
    }

    /// How many origins are kept now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}
