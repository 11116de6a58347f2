//! The row of a report that a record belongs to, for readers that count beside the engine: the last hour, metrics.
//!
//! The same rules as the engine's, for one record at a time and in texts instead of numbers, so that the answer stays true
//! after the pool has reclaimed its strings. Called on the slow path only, under the lock that covers the pool: callers
//! remember the answer by the hashes of what it was made from.

use std::hash::{BuildHasher, Hash, Hasher};

use ahash::RandomState;

use super::definition::{DEFINITION_KEYS_MAX, Definition, Field, Filter, KeySource, Level};
use super::group_key::{GroupKey, RecordParts, field_word, is_status, parts_of};
pub use super::group_key::{RecordIds, RecordPart};
use crate::pool::Pool;
use crate::pool::dimensions::{OTHER_ORIGIN, Origin};
use crate::pool::strings::NONE;

/// How a report tells its rows apart.
#[derive(Debug)]
pub struct RowKeys {
    level: Level,
    group_keys: Vec<GroupKey>,
    filters: Vec<Filter>,
    parts: RecordParts,
    /// What of the origin it depends on.
    fields: Vec<Field>,
    hasher: RandomState,
}

impl RowKeys {
    /// Those of a report.
    #[must_use]
    pub fn of(definition: &Definition) -> Self {
        let group_keys: Vec<GroupKey> = definition.keys.iter().map(GroupKey::of).collect();
        let of_keys = group_keys.iter().filter_map(|it| match &it.source {
            KeySource::Field(field) | KeySource::TimerTagOrField(_, field) => Some(*field),
            KeySource::RequestTag(_) | KeySource::TimerTag(_) => None,
        });
        let of_filters = definition.filters.iter().filter_map(|it| match it {
            Filter::Field(field, _) => Some(*field),
            _ => None,
        });
        let mut fields: Vec<Field> = of_keys.chain(of_filters).collect();
        fields.sort_unstable();
        fields.dedup();
        Self {
            fields,
            hasher: RandomState::new(),
            level: definition.level,
            parts: parts_of(&group_keys, &definition.filters),
            group_keys,
            filters: definition.filters.clone(),
        }
    }

    /// Whether records are timers.
    #[must_use]
    pub fn of_timers(&self) -> bool {
        self.level == Level::Timer
    }

    /// What of an origin the row of a record depends on, as a number: equal for origins of one row. It holds for as long as
    /// the pool forgets no word.
    #[inline]
    #[must_use]
    pub fn of_origin(&self, origin: &Origin) -> u64 {
        // The word of a field, or the status.
        let field = |field: &Field| u64::from(field_word(origin, *field).unwrap_or(origin.status));
        match self.fields.as_slice() {
            [] => 0,
            [one] => field(one),
            [one, two] => field(one) << 32 | field(two),
            fields => {
                let mut all = [0; Field::ALL.len()];
                for (place, of) in all.iter_mut().zip(fields) {
                    *place = field(of);
                }
                self.hasher.hash_one(all)
            }
        }
    }

    /// What of a tag set the row of a record depends on, as a number made from texts, so that it holds for ever: equal for
    /// sets that the report cannot tell apart, and for others by a chance of 1 in 2^64. Slow: to be remembered.
    #[must_use]
    pub fn of_tags(&self, pool: &Pool, tags: RecordPart, set: u32) -> u64 {
        if !self.looks_at(tags) {
            return 0;
        }
        let record = RecordIds {
            origin: OTHER_ORIGIN,
            request_tags: set,
            timer_tags: set,
        };
        let [passes, values @ ..] =
            record.part_key_ids(tags, &self.group_keys, &self.filters, pool);
        let values = values.iter().take(self.group_keys.len());
        let mut hasher = self.hasher.build_hasher();
        passes.hash(&mut hasher);
        for &value in values {
            let text = (value != NONE).then(|| pool.strings.bytes(value));
            text.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Whether rows depend on this part at all.
    #[must_use]
    pub fn looks_at(&self, part: RecordPart) -> bool {
        self.parts[part as usize]
    }

    /// A number for all that the row of a record depends on, from what it depends on in its origin and its tags: equal for
    /// records of one row, and for no others but by a chance of 1 in 2^64.
    #[inline]
    #[must_use]
    pub fn identity(&self, origin: u64, request_tags: u64, timer_tags: u64) -> u64 {
        match self.parts {
            [_, false, false] => origin,
            [false, true, false] => request_tags,
            [false, false, true] => timer_tags,
            _ => self.hasher.hash_one([origin, request_tags, timer_tags]),
        }
    }

    /// Whether identities are made from numbers of words.
    #[must_use]
    pub fn on_words(&self) -> bool {
        self.looks_at(RecordPart::Origin)
    }

    /// Whether a request of this time passes the filters on time, which no key depends on.
    #[must_use]
    pub fn time_passes(&self, time_us: u64) -> bool {
        self.filters.iter().all(|it| it.time_passes(time_us))
    }

    /// Writes the record's key values to `text`, each behind its length, in column order: see [`key_texts`]. False when the
    /// record is none of this report's; filters on time are not looked at.
    pub fn read(&self, pool: &Pool, record: RecordIds, text: &mut Vec<u8>) -> bool {
        text.clear();
        if !record.passes(&self.filters, pool) {
            return false;
        }
        let Some(key_ids) = record.key_ids(&self.group_keys, pool) else {
            return false;
        };
        for (&key_id, group_key) in key_ids.iter().zip(&self.group_keys) {
            if key_id == NONE && is_status(group_key) {
                push_key(text, &pool.origins.get(record.origin).status.to_string());
            } else {
                push_key(text, pool.strings.text(key_id));
            }
        }
        true
    }
}

const _: () = assert!(DEFINITION_KEYS_MAX < 256);

/// Appends one key value behind its length.
pub fn push_key(to: &mut Vec<u8>, text: &str) {
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
    to.extend_from_slice(&len.to_le_bytes());
    to.extend_from_slice(text.as_bytes().get(..usize::from(len)).unwrap_or_default());
}

/// The values of a key that [`RowKeys::read`] or [`push_key`] wrote.
pub fn key_texts(key: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = key;
    std::iter::from_fn(move || {
        let (len, behind) = rest.split_first_chunk::<2>()?;
        let (text, behind) = behind.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        rest = behind;
        Some(std::str::from_utf8(text).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_read() {
        let mut key = Vec::new();
        for text in ["/index.php", "", "a\0b", "ä"] {
            push_key(&mut key, text);
        }
        let texts: Vec<&str> = key_texts(&key).collect();
        assert_eq!(texts, ["/index.php", "", "a\0b", "ä"]);
    }
}
