//! Requests and timers as they leave the pool, for answers and for history: with texts in place of
//! ids, and times in whole microseconds.
//!
//! Pieces of history store the fields of [`Request`] and [`Timer`] in the order given here, so it is
//! fixed.

use serde::{Deserialize, Serialize, Serializer};

use super::Pool;
use super::requests::RequestRow;
use super::strings::NONE;
use crate::input::record::micros;

/// A request; `T` is its tags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request<'a, T> {
    /// Time, microseconds.
    pub time_us: u64,
    /// The run of its id; 0 where that is not known.
    pub run: u64,
    /// Its id.
    pub id: u64,
    /// Unix second of its reception.
    pub received: u32,
    /// Host name.
    pub hostname: &'a str,
    /// Number of requests that it stands for as sent, at least 1.
    pub request_count: u32,
    /// Server name.
    pub server_name: &'a str,
    /// Script name.
    pub script_name: &'a str,
    /// Bytes.
    pub document_size: u32,
    /// Bytes.
    pub memory_peak: u32,
    /// User CPU, microseconds.
    pub ru_utime_us: u64,
    /// System CPU, microseconds.
    pub ru_stime_us: u64,
    /// Number of its timers.
    pub timers: u16,
    /// Status as sent.
    pub status: u32,
    /// Bytes.
    pub memory_footprint: u32,
    /// Schema; `None` if the packet had none.
    pub schema: Option<&'a str>,
    /// Its tags.
    pub tags: T,
}

/// A timer; `T` is its tags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer<T> {
    /// Its row in table `timer`.
    pub id: u64,
    /// Number of hits.
    pub hit_count: u32,
    /// Total of all hits, in microseconds.
    pub value_us: u64,
    /// User CPU, microseconds.
    pub ru_utime_us: u64,
    /// System CPU, microseconds.
    pub ru_stime_us: u64,
    /// Its tags, by name and value, in packet order; a name may occur more than once.
    pub tags: T,
}

impl<T> Timer<T> {
    /// The same with its tags in another form.
    pub fn map_tags<U>(self, of: impl FnOnce(T) -> U) -> Timer<U> {
        Timer {
            id: self.id,
            hit_count: self.hit_count,
            value_us: self.value_us,
            ru_utime_us: self.ru_utime_us,
            ru_stime_us: self.ru_stime_us,
            tags: of(self.tags),
        }
    }
}

/// A tag set in the pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolTags<'a> {
    pool: &'a Pool,
    /// Its id in [`TagSets`](super::tag_sets::TagSets).
    pub set: u32,
}

impl<'a> PoolTags<'a> {
    /// Names and values in packet order.
    pub fn pairs(self) -> impl ExactSizeIterator<Item = (&'a str, &'a str)> + Clone {
        let text = |string| self.pool.strings.text(string);
        let pairs = self.pool.tag_sets.pairs(self.set);
        pairs.map(move |(name, value)| (text(name), text(value)))
    }

    /// The same as owned texts.
    #[must_use]
    pub fn to_vec(self) -> Vec<(String, String)> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        self.pairs().map(owned).collect()
    }
}

impl Serialize for PoolTags<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.pairs())
    }
}

/// `name=value,name=value`, in packet order.
pub fn tags_text<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push('=');
        text.push_str(value);
    }
    text
}

impl Pool {
    /// A tag set by its id.
    #[must_use]
    pub fn tags(&self, set: u32) -> PoolTags<'_> {
        PoolTags { pool: self, set }
    }

    /// A row with its run and id.
    #[must_use]
    pub fn resolve(&self, (run, id): (u64, u64), row: &RequestRow) -> Request<'_, PoolTags<'_>> {
        let origin = self.origins.get(row.origin);
        let text = |string| self.strings.text(string);
        Request {
            time_us: micros(row.request_time),
            run,
            id,
            received: row.timestamp,
            hostname: text(origin.hostname),
            request_count: row.request_count.max(1),
            server_name: text(origin.server_name),
            script_name: text(origin.script_name),
            document_size: row.document_size,
            memory_peak: row.memory_peak,
            ru_utime_us: micros(row.ru_utime),
            ru_stime_us: micros(row.ru_stime),
            timers: row.timers,
            status: origin.status,
            memory_footprint: row.memory_footprint,
            schema: (origin.schema != NONE).then(|| text(origin.schema)),
            tags: self.tags(row.request_tags),
        }
    }

    /// The timers of a row, as far as they are held.
    pub fn resolve_timers(&self, of: &RequestRow) -> impl Iterator<Item = Timer<PoolTags<'_>>> {
        self.timers_of(of).map(|(id, row)| Timer {
            id,
            hit_count: row.hit_count,
            value_us: micros(row.value),
            ru_utime_us: micros(row.ru_utime),
            ru_stime_us: micros(row.ru_stime),
            tags: self.tags(row.tags),
        })
    }
}
