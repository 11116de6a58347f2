//! Statements: their text, their outcome, and the sums of those that differ in their values alone.
//!
//! None of this is on the packet path: statements are few, and take a lock each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::registry::{DIGEST, Registry};
use super::sums::Totals;

/// Bytes of a statement's text, and of its digest's, that are kept.
const TEXT_BYTES: usize = 1_024;

/// Digests that are told apart; all others share one row.
const DIGESTS_MAX: usize = 200;

/// A statement with its text and that of its error.
pub(super) const STATEMENT_BYTES: usize = size_of::<Statement>() + TEXT_BYTES + 256;

/// All digests: their texts twice, and what a table of them adds.
pub(super) const BYTES_MAX: usize = DIGESTS_MAX * (size_of::<Digest>() + 2 * TEXT_BYTES + 256);

/// A statement that runs, or has run.
#[derive(Debug, Clone)]
pub struct Statement {
    /// As it was sent, cut.
    pub text: String,
    /// The database of names without one.
    pub schema: Option<String>,
    /// The digest that it shares with statements of the same shape.
    pub digest: Arc<Digest>,
    /// Rows that were sent.
    pub rows_sent: u64,
    /// Number, state and text of the error that it ended with.
    pub error: Option<(u16, &'static str, String)>,
}

impl Statement {
    /// One that begins.
    #[must_use]
    pub fn new(text: &str, digest: &str, schema: Option<&str>) -> Self {
        let digest = Digest::named(schema, cut(digest));
        Self {
            text: cut(text).to_owned(),
            schema: schema.map(str::to_owned),
            digest,
            rows_sent: 0,
            error: None,
        }
    }

    pub(super) fn errors(&self) -> u64 {
        u64::from(self.error.is_some())
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES)]
}

/// Statements that differ in their values alone.
#[derive(Debug)]
pub struct Digest {
    /// The database of names without one.
    pub schema: Option<String>,
    /// In hexadecimal digits.
    pub hash: String,
    /// The statement without its values.
    pub text: String,
    /// Their sums.
    sums: Mutex<DigestSums>,
}

/// The sums of all statements of one digest.
#[derive(Debug, Clone, Copy, Default)]
pub struct DigestSums {
    /// As of any event.
    pub totals: Totals,
    /// The first of them, unix seconds.
    pub first_seen: u64,
    /// The last.
    pub last_seen: u64,
}

/// By database and text; what has no room is under `None` and no text.
type Digests = HashMap<(Option<String>, String), Arc<Digest>>;

static DIGESTS: Mutex<Option<Digests>> = Mutex::new(None);

static LOST: AtomicU64 = AtomicU64::new(0);

impl Digest {
    fn named(schema: Option<&str>, text: &str) -> Arc<Self> {
        let mut digests = DIGESTS.lock();
        let digests = digests.get_or_insert_default();
        let mut key = (schema.map(str::to_owned), text.to_owned());
        if !digests.contains_key(&key) && digests.len() >= DIGESTS_MAX {
            LOST.fetch_add(1, Ordering::Relaxed);
            key = (None, String::new());
        }
        let digest = digests.entry(key.clone()).or_insert_with(|| {
            let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
            let hash = hash.as_ref().iter().take(16);
            let (schema, text) = key;
            Arc::new(Self {
                schema,
                hash: hash.map(|byte| format!("{byte:02x}")).collect(),
                text,
                sums: Mutex::default(),
            })
        });
        Arc::clone(digest)
    }

    pub(super) fn add(&self, event: &Totals, registry: &Registry) {
        if registry.effective.load(Ordering::Relaxed) & (1 << DIGEST) == 0 {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |it| it.as_secs());
        let mut sums = self.sums.lock();
        sums.totals.add(event);
        if sums.first_seen == 0 {
            sums.first_seen = now;
        }
        sums.last_seen = now;
    }
}

/// A digest with its sums.
pub type Row = (Arc<Digest>, DigestSums);

/// All digests that have been seen.
#[must_use]
pub fn all() -> Vec<Row> {
    let digests = DIGESTS.lock();
    let digests = digests.iter().flat_map(HashMap::values);
    let with_sums = digests.map(|digest| (Arc::clone(digest), *digest.sums.lock()));
    with_sums
        .filter(|(_, sums)| sums.totals.count > 0)
        .collect()
}

/// Statements whose digest had no room.
#[must_use]
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Forgets all.
pub fn truncate() {
    *DIGESTS.lock() = None;
}
