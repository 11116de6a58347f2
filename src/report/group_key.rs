//! The scope of an aggregate: the records that it counts, and the group keys that distinguish its
//! groups. Also finds a record's values of them.
//!
//! A value is a key id, the id of a text in the string interner: [`NONE`] if a tag is missing,
//! [`OTHER`] if a text found no room. The status is a key id like the others, that of its decimal
//! text. Looking up key ids is the slow path; an aggregate caches the result by origin and tag set
//! (see `group_cache`).

use serde::{Deserialize, Serialize};

use super::definition::{
    DEFINITION_KEYS_MAX, Definition, Field, Filter, Key, KeySource, Level, Missing, Occurrence,
    Pattern,
};
use super::histogram::BucketLayout;
use super::window::Ticks;
use crate::pool::dimensions::Origin;
use crate::pool::strings::{EMPTY, NONE, OTHER};
use crate::pool::tag_sets::OTHER_SET;
use crate::pool::{Freed, Pool};

/// One value of each group key.
pub(super) type KeyIds = [u32; DEFINITION_KEYS_MAX];

/// A part of a record that has an id in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordPart {
    /// Its origin.
    Origin,
    /// Its request tags.
    RequestTags,
    /// The timer's tags.
    TimerTags,
}

/// The parts of a record that a result depends on, in the order of [`RecordPart::ALL`].
pub(super) type RecordParts = [bool; 3];

/// The records that an aggregate counts, and how it groups them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Scope {
    pub(super) level: Level,
    pub(super) ticks: Ticks,
    pub(super) buckets: BucketLayout,
    pub(super) extremes: bool,
    pub(super) filters: Vec<Filter>,
    /// Records without a value of one that is skipped when missing are not in the aggregate at all.
    pub(super) group_keys: Vec<Key>,
}

impl Scope {
    /// The scope for the records of a report, with group keys that serve `keys`.
    pub(super) fn new(definition: &Definition, keys: &[Key]) -> Self {
        let mut group_keys: Vec<Key> = Vec::new();
        for key in keys {
            if !group_keys.iter().any(|group_key| group_key.serves(key)) {
                group_keys.push(key.clone());
            }
        }
        Self {
            level: counted(definition.level),
            ticks: Ticks::of(definition.window),
            buckets: definition.buckets,
            extremes: definition.extremes,
            filters: definition.filters.clone(),
            group_keys,
        }
    }

    /// Whether a report can be answered from an aggregate of this scope.
    pub(super) fn serves(&self, definition: &Definition) -> bool {
        let keys = &definition.keys;
        let has_key = |key| self.group_keys.iter().any(|it| it.serves(key));
        // The report must leave out whatever the aggregate leaves out, and a request with several
        // timers in a row must be in one group of that row: at timer level the group keys have to
        // be the same.
        let fits = |group_key: &Key| {
            keys.iter().any(|key| group_key.serves(key))
                || group_key.missing == Missing::Empty
                    && !(self.level == Level::Timer && group_key.source.is_of_timer())
        };
        self.level == counted(definition.level)
            && self.ticks == Ticks::of(definition.window)
            && self.buckets == definition.buckets
            && (self.extremes || !definition.extremes)
            && self.filters == definition.filters
            && keys.iter().all(has_key)
            && self.group_keys.iter().all(fits)
    }

    /// The parts of a record on which its group depends.
    pub(super) fn parts(&self) -> RecordParts {
        let of_keys = self.group_keys.iter().flat_map(|it| match it.source {
            KeySource::Field(_) => [Some(RecordPart::Origin), None],
            KeySource::RequestTag(_) => [Some(RecordPart::RequestTags), None],
            KeySource::TimerTag(_) => [Some(RecordPart::TimerTags), None],
            KeySource::TimerTagOrField(..) => {
                [Some(RecordPart::TimerTags), Some(RecordPart::Origin)]
            }
        });
        let mut parts = RecordParts::default();
        for part in of_keys.chain(self.filters.iter().map(part_of)).flatten() {
            parts[part as usize] = true;
        }
        parts
    }
}

/// A packet report is a request report without keys.
fn counted(level: Level) -> Level {
    if level == Level::Packet { Level::Request } else { level }
}

/// The part that a filter depends on; `None` for filters on time.
fn part_of(filter: &Filter) -> Option<RecordPart> {
    match filter {
        Filter::MinTime(_) | Filter::TimeBelow(_) => None,
        Filter::Field(..) => Some(RecordPart::Origin),
        Filter::RequestTag(..) => Some(RecordPart::RequestTags),
        Filter::TimerTag(..) => Some(RecordPart::TimerTags),
    }
}

impl RecordPart {
    pub(super) const ALL: [Self; 3] = [Self::Origin, Self::RequestTags, Self::TimerTags];

    /// The freed ids of this part.
    pub(super) fn freed(self, freed: &Freed) -> &[u32] {
        if self == Self::Origin { &freed.origins } else { &freed.tag_sets }
    }
}

/// An aggregate's view of one part: whether it passes the filters, then a value of each group
/// key.
pub(super) type PartClass = [u32; DEFINITION_KEYS_MAX + 1];

/// A record by its ids in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordIds {
    /// Its origin.
    pub(super) origin: u32,
    /// Its request tags.
    pub(super) request_tags: u32,
    /// The timer's tags; any id at the other levels.
    pub(super) timer_tags: u32,
}

impl RecordIds {
    pub(super) fn number(&self, part: RecordPart) -> u32 {
        [self.origin, self.request_tags, self.timer_tags][part as usize]
    }

    /// Whether the record satisfies a filter; true for filters on time.
    pub(super) fn passes(self, filter: &Filter, pool: &Pool) -> bool {
        match filter {
            Filter::MinTime(_) | Filter::TimeBelow(_) => true,
            Filter::Field(field, pattern) => {
                let origin = pool.origins.get(self.origin);
                match field_string(origin, *field) {
                    Some(string) => pattern.matches(pool.strings.bytes(string)),
                    None => pattern.matches(origin.status.to_string().as_bytes()),
                }
            }
            Filter::RequestTag(name, pattern) => {
                let value = find_tag(pool, self.request_tags, name, Occurrence::First);
                match value {
                    NONE => matches!(pattern, Pattern::Differs(_)),
                    value => pattern.matches(pool.strings.bytes(value)),
                }
            }
            Filter::TimerTag(name, pattern) => {
                let values = pool.tag_sets.pairs(self.timer_tags);
                let mut values = values
                    .filter(|&(tag, _)| pool.strings.bytes(tag) == name.as_bytes())
                    .map(|(_, value)| pattern.matches(pool.strings.bytes(value)));
                match values.next() {
                    None => matches!(pattern, Pattern::Differs(_)),
                    Some(first) => first && values.all(|passes| passes),
                }
            }
        }
    }

    /// The record's key ids, of which that of its status is given; `None` if a required group key
    /// has no value.
    pub(super) fn key_ids(self, scope: &Scope, status: u32, pool: &Pool) -> Option<KeyIds> {
        let mut key_ids = [NONE; DEFINITION_KEYS_MAX];
        for (key_id, group_key) in key_ids.iter_mut().zip(&scope.group_keys) {
            let value = |part| self.key_id(group_key, part, status, pool);
            let mut tags = [RecordPart::TimerTags, RecordPart::RequestTags].into_iter().map(value);
            *key_id =
                tags.find(|tag| *tag != NONE).unwrap_or_else(|| match value(RecordPart::Origin) {
                    // An empty field is no fallback.
                    EMPTY if group_key.source.is_of_timer() => NONE,
                    field => field,
                });
            let is_empty = group_key.missing == Missing::Empty && group_key.source.is_of_timer();
            if *key_id == NONE && is_empty {
                *key_id = EMPTY;
            }
            if lacks(group_key, *key_id) {
                return None;
            }
        }
        Some(key_ids)
    }

    /// The aggregate's view of one part of a record: records with equal key ids of all parts are
    /// in the same group.
    pub(super) fn class(self, part: RecordPart, scope: &Scope, pool: &Pool) -> PartClass {
        let mut key_ids = [NONE; DEFINITION_KEYS_MAX + 1];
        let mut filters = scope.filters.iter().filter(|it| part_of(it) == Some(part));
        key_ids[0] = filters.all(|filter| self.passes(filter, pool)).into();
        // Its number is fine here: a key id is only compared with others of its kind.
        let status = pool.origins.get(self.origin).status;
        for (key_id, group_key) in key_ids[1..].iter_mut().zip(&scope.group_keys) {
            *key_id = self.key_id(group_key, part, status, pool);
        }
        key_ids
    }

    /// The value of a group key in one part of the record; [`NONE`] if it has none there.
    fn key_id(self, group_key: &Key, part: RecordPart, status: u32, pool: &Pool) -> u32 {
        let occurrence = group_key.occurrence;
        match (&group_key.source, part) {
            (
                KeySource::Field(field) | KeySource::TimerTagOrField(_, field),
                RecordPart::Origin,
            ) => match field_string(pool.origins.get(self.origin), *field) {
                Some(NONE) => EMPTY,
                Some(string) => string,
                None => status,
            },
            (KeySource::RequestTag(name), RecordPart::RequestTags) => {
                find_tag(pool, self.request_tags, name, occurrence)
            }
            (
                KeySource::TimerTag(name) | KeySource::TimerTagOrField(name, _),
                RecordPart::TimerTags,
            ) => find_tag(pool, self.timer_tags, name, occurrence),
            _ => NONE,
        }
    }
}

fn find_tag(pool: &Pool, set: u32, name: &str, occurrence: Occurrence) -> u32 {
    if set == OTHER_SET {
        return OTHER;
    }
    let pairs = pool.tag_sets.pairs(set);
    let mut values = pairs
        .filter(|&(tag, _)| pool.strings.bytes(tag) == name.as_bytes())
        .map(|(_, value)| value);
    match occurrence {
        Occurrence::First => values.next(),
        Occurrence::Last => values.last(),
    }
    .unwrap_or(NONE)
}

/// Whether a group key may show the status, whose string is only created when a group needs it.
pub(super) fn is_status(group_key: &Key) -> bool {
    matches!(
        group_key.source,
        KeySource::Field(Field::Status) | KeySource::TimerTagOrField(_, Field::Status)
    )
}

/// Whether a record with this key id lacks the key.
pub(super) fn lacks(key: &Key, key_id: u32) -> bool {
    key.lacks((key_id != NONE).then_some(key_id == EMPTY))
}

/// The string of a text field; `None` for the status, which is not a string.
pub(crate) fn field_string(origin: &Origin, field: Field) -> Option<u32> {
    match field {
        Field::Hostname => Some(origin.hostname),
        Field::ServerName => Some(origin.server_name),
        Field::ScriptName => Some(origin.script_name),
        Field::Schema => Some(origin.schema),
        Field::Status => None,
    }
}
