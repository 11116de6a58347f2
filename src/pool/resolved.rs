//! Requests and timers as they leave the pool, for answers and for history: with texts in place of
//! ids, and times in whole microseconds.
//!
//! Pieces of history store the fields of [`Request`] and [`Timer`] in the order given here, so it
//! is fixed.

use serde::{Deserialize, Serialize, Serializer};

use super::Pool;
use super::requests::RequestRow;
use super::strings::NONE;
use crate::input::record::{is_unmeasured, micros};

/// CPU times of a request or timer; pieces of history have two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 2]", into = "[u64; 2]")]
pub enum Rusage {
    /// User and system time, microseconds.
    Times([u64; 2]),
    /// Not known: it came as a span, which began so many microseconds after its request. A
    /// request's memory is not known either.
    Span(u64),
}

/// In the second number: it came as a span. Times are below 2^51.
const IS_SPAN: u64 = 1 << 63;

impl From<[u64; 2]> for Rusage {
    fn from([user_us, system_us]: [u64; 2]) -> Self {
        match system_us & IS_SPAN {
            0 => Self::Times([user_us, system_us]),
            _ => Self::Span(user_us),
        }
    }
}

impl From<Rusage> for [u64; 2] {
    fn from(of: Rusage) -> Self {
        match of {
            Rusage::Times(times) => times,
            Rusage::Span(start_us) => [start_us, IS_SPAN],
        }
    }
}

impl Rusage {
    fn of(ru_utime: f32, ru_stime: f32) -> Self {
        match is_unmeasured(ru_stime) {
            true => Self::Span(micros(-ru_stime)),
            false => Self::Times([micros(ru_utime), micros(ru_stime)]),
        }
    }

    /// User and system time, microseconds; `None` if they are not known.
    pub const fn times_us(self) -> Option<[u64; 2]> {
        match self {
            Self::Times(times) => Some(times),
            Self::Span(_) => None,
        }
    }

    /// Both together; `None` if they are not known.
    pub fn cpu_us(self) -> Option<u64> {
        self.times_us().map(|[user_us, system_us]| user_us + system_us)
    }

    /// The start of a span after that of its request, microseconds.
    pub const fn start_us(self) -> Option<u64> {
        match self {
            Self::Times(_) => None,
            Self::Span(start_us) => Some(start_us),
        }
    }
}

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
    /// Bytes; 0 if it [came as a span](Rusage::Span), as in `memory_footprint`.
    pub memory_peak: u32,
    /// CPU times.
    pub rusage: Rusage,
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
    /// CPU times, or start.
    pub rusage: Rusage,
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
            rusage: self.rusage,
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
        self.pool.tag_sets.pairs(self.set).map(move |(name, value)| (text(name), text(value)))
    }

    /// The first value with this name.
    pub fn get(self, name: &str) -> Option<&'a str> {
        let mut pairs = self.pairs();
        pairs.find_map(|(it, value)| (it == name).then_some(value))
    }

    /// The same as owned texts.
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
    pub fn tags(&self, set: u32) -> PoolTags<'_> {
        PoolTags { pool: self, set }
    }

    /// A row with its run and id.
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
            rusage: Rusage::of(row.ru_utime, row.ru_stime),
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
            rusage: Rusage::of(row.ru_utime, row.ru_stime),
            tags: self.tags(row.tags),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_history_have_two_numbers_for_times_and_for_starts() {
        let bytes = |of: &Rusage| postcard::to_allocvec(of).unwrap();
        let times = Rusage::of(0.25, 0.5);
        assert_eq!(times, Rusage::Times([250_000, 500_000]));
        let numbers = postcard::to_allocvec(&(250_000_u64, 500_000_u64)).unwrap();
        assert_eq!(bytes(&times), numbers, "as before there were spans");
        for of in [times, Rusage::of(0.0, -0.75), Rusage::of(0.0, -0.0)] {
            assert_eq!(postcard::from_bytes::<Rusage>(&bytes(&of)), Ok(of));
        }
        assert_eq!(Rusage::of(0.0, -0.75).start_us(), Some(750_000));
        assert_eq!((times.start_us(), times.cpu_us()), (None, Some(750_000)));
    }
}
