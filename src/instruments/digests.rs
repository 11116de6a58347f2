//! Statements: their texts, results, and sums of statements that differ only in their values.
//!
//! Not on the packet path: statements are few, and each takes a lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::registry::{DIGEST, Registry};
use super::sums::Totals;

/// Bytes kept of the text of a statement or digest.
const TEXT_BYTES: usize = 1_024;

/// Maximum number of digests; all others share one row.
const DIGESTS_MAX: usize = 200;

/// Size of a statement with its text and that of its error.
pub(super) const STATEMENT_BYTES: usize = size_of::<Statement>() + TEXT_BYTES + 256;

/// Maximum size of all digests: their texts twice, and the table's overhead.
pub(super) const BYTES_MAX: usize = DIGESTS_MAX * (size_of::<Digest>() + 2 * TEXT_BYTES + 256);

/// A running or finished statement.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Text as sent, truncated.
    pub text: String,
    /// Default database.
    pub schema: Option<String>,
    /// Digest shared with statements of the same form.
    pub digest: Arc<Digest>,
    /// Rows sent.
    pub rows_sent: u64,
    /// Number, SQLSTATE and text of the error that ended it.
    pub error: Option<(u16, &'static str, String)>,
}

impl Statement {
    /// Creates a statement that begins.
    pub(crate) fn new(text: &str, digest: &str, schema: Option<&str>) -> Self {
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

/// Statements that differ only in their values.
#[derive(Debug)]
pub struct Digest {
    /// Default database.
    pub schema: Option<String>,
    /// Hash in hexadecimal digits.
    pub hash: String,
    /// Text of the statement without its values.
    pub text: String,
    /// Their sums.
    sums: Mutex<DigestSums>,
}

/// Sums of all statements of a digest.
#[derive(Debug, Clone, Copy, Default)]
pub struct DigestSums {
    /// Sums kept for any event.
    pub totals: Totals,
    /// Time of the first statement, unix seconds.
    pub first_seen: u64,
    /// Time of the last statement, unix seconds.
    pub last_seen: u64,
}

/// By database and text; digests without room are under `None` and an empty text.
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
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

/// Returns all digests seen.
pub(crate) fn all() -> Vec<Row> {
    let digests = DIGESTS.lock();
    let digests = digests.iter().flat_map(HashMap::values);
    let with_sums = digests.map(|digest| (Arc::clone(digest), *digest.sums.lock()));
    with_sums.filter(|(_, sums)| sums.totals.count > 0).collect()
}

/// Returns the number of statements whose digest had no room.
pub(crate) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Removes all digests.
pub(crate) fn truncate() {
    *DIGESTS.lock() = None;
}
