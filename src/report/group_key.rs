//! Group keys: what the groups of an aggregate are told apart by, and how a record's values of them are found.
//!
//! A value is a key id, the number of a text in the string interner: [`NONE`] where a tag is missing, [`OTHER`] where a text
//! found no room. The status is a key id like the others, that of its decimal text. Looking up key ids is the slow path; an
//! aggregate remembers the outcome per origin and tag set (see `group_cache`).

use serde::{Deserialize, Serialize};

use super::definition::{
    DEFINITION_KEYS_MAX, Field, Filter, Key, KeySource, Missing, Occurrence, Pattern,
};
use crate::pool::dimensions::{Origin, Origins};
use crate::pool::strings::{EMPTY, NONE, OTHER, StringInterner};
use crate::pool::tag_sets::{OTHER_SET, TagSets};
use crate::pool::{Freed, Pool};

/// One value of each group key.
pub(super) type KeyIds = [u32; DEFINITION_KEYS_MAX];

/// One group key of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupKey {
    pub(super) source: KeySource,
    pub(super) occurrence: Occurrence,
    /// `Skip` or `SkipEmpty`: records without a value are not in the aggregate at all.
    pub(super) missing: Missing,
}

impl GroupKey {
    /// The group key that a key needs.
    pub(super) fn of(key: &Key) -> Self {
        let occurrence = match key.source {
            KeySource::Field(_) => Occurrence::First,
            _ => key.occurrence,
        };
        Self {
            source: key.source.clone(),
            occurrence,
            missing: key.missing,
        }
    }

    /// Whether a key finds its values in this group key.
    ///
    /// A group key that keeps what is missing apart from what is empty serves keys that skip the one or both. Not so with
    /// timers: two of one request, one of them without the tag, may be in one row, and then must be in one group.
    pub(super) fn serves(&self, key: &Key) -> bool {
        self.source == key.source
            && (self.occurrence == key.occurrence || matches!(self.source, KeySource::Field(_)))
            && (self.missing == key.missing
                || self.missing == Missing::Empty && !self.source.is_of_timer())
    }

    /// Whether a flood of different values is likely to come through here.
    pub(super) fn is_open(&self) -> bool {
        !matches!(
            self.source,
            KeySource::Field(Field::Status | Field::Schema | Field::Hostname | Field::ServerName)
        )
    }
}

/// Which of a record's parts an answer depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RecordParts {
    pub(super) origin: bool,
    pub(super) request_tags: bool,
    pub(super) timer_tags: bool,
}

impl RecordParts {
    pub(super) fn of(group_keys: &[GroupKey], filters: &[Filter]) -> Self {
        let mut parts = Self::default();
        for group_key in group_keys {
            match group_key.source {
                KeySource::Field(_) => parts.origin = true,
                KeySource::RequestTag(_) => parts.request_tags = true,
                KeySource::TimerTag(_) => parts.timer_tags = true,
                KeySource::TimerTagOrField(..) => {
                    parts.timer_tags = true;
                    parts.origin = true;
                }
            }
        }
        for filter in filters {
            match filter {
                Filter::MinTime(_) | Filter::TimeBelow(_) => {}
                Filter::Field(..) => parts.origin = true,
                Filter::RequestTag(..) => parts.request_tags = true,
                Filter::TimerTag(..) => parts.timer_tags = true,
            }
        }
        parts
    }

    pub(super) fn includes(self, side: RecordPart) -> bool {
        match side {
            RecordPart::Origin => self.origin,
            RecordPart::RequestTags => self.request_tags,
            RecordPart::TimerTags => self.timer_tags,
        }
    }
}

/// A part of a record that has a number in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordPart {
    Origin,
    RequestTags,
    TimerTags,
}

impl RecordPart {
    pub(super) const ALL: [Self; 3] = [Self::Origin, Self::RequestTags, Self::TimerTags];

    /// The numbers of this side that were freed.
    pub(super) fn freed(self, freed: &Freed) -> &[u32] {
        match self {
            Self::Origin => &freed.origins,
            Self::RequestTags | Self::TimerTags => &freed.tag_sets,
        }
    }
}

/// What an aggregate sees of one side: whether it passes the filters, then a value of each group key.
pub(super) type SideKeyIds = [u32; DEFINITION_KEYS_MAX + 1];

/// A record by its numbers in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordIds {
    /// Its origin.
    pub origin: u32,
    /// Its request tags.
    pub request_tags: u32,
    /// The timer's tags; any number at the other levels.
    pub timer_tags: u32,
}

impl RecordIds {
    pub(super) fn number(&self, side: RecordPart) -> u32 {
        match side {
            RecordPart::Origin => self.origin,
            RecordPart::RequestTags => self.request_tags,
            RecordPart::TimerTags => self.timer_tags,
        }
    }
}

/// What key ids are resolved against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) strings: &'a StringInterner,
    pub(super) origins: &'a Origins,
    pub(super) tag_sets: &'a TagSets,
}

impl<'a> Names<'a> {
    /// Those of a pool.
    pub(super) fn of(pool: &'a Pool) -> Self {
        Self {
            strings: &pool.strings,
            origins: &pool.origins,
            tag_sets: &pool.tag_sets,
        }
    }
}

impl Names<'_> {
    /// Whether the record satisfies every filter but those on time.
    pub(super) fn passes(&self, filters: &[Filter], record: RecordIds) -> bool {
        filters.iter().all(|filter| match filter {
            Filter::MinTime(_) | Filter::TimeBelow(_) => true,
            Filter::Field(field, pattern) => self.field_passes(*field, pattern, record.origin),
            Filter::RequestTag(name, pattern) => {
                let value = self.find_tag(record.request_tags, name, Occurrence::First);
                match value {
                    NONE => matches!(pattern, Pattern::Differs(_)),
                    value => pattern.matches(self.strings.bytes(value)),
                }
            }
            Filter::TimerTag(name, pattern) => {
                let mut values = self
                    .tag_sets
                    .pairs(record.timer_tags)
                    .filter(|&(tag, _)| self.strings.bytes(tag) == name.as_bytes())
                    .map(|(_, value)| pattern.matches(self.strings.bytes(value)));
                match values.next() {
                    None => matches!(pattern, Pattern::Differs(_)),
                    Some(first) => first && values.all(|passes| passes),
                }
            }
        })
    }

    fn field_passes(&self, field: Field, pattern: &Pattern, origin: u32) -> bool {
        let origin = self.origins.get(origin);
        match field_word(origin, field) {
            Some(string) => pattern.matches(self.strings.bytes(string)),
            None => pattern.matches(origin.status.to_string().as_bytes()),
        }
    }

    /// The record's key ids; `None` when a group key that is required has no value. A status key id is left [`NONE`]: its
    /// string may not exist yet, see [`intern_status`].
    pub(super) fn key_ids(&self, group_keys: &[GroupKey], record: RecordIds) -> Option<KeyIds> {
        let mut key_ids = [NONE; DEFINITION_KEYS_MAX];
        for (key_id, group_key) in key_ids.iter_mut().zip(group_keys) {
            *key_id = match &group_key.source {
                KeySource::Field(field) => self.field_key_id(*field, record.origin),
                KeySource::RequestTag(name) => {
                    self.find_tag(record.request_tags, name, group_key.occurrence)
                }
                KeySource::TimerTag(name) => {
                    self.find_tag(record.timer_tags, name, group_key.occurrence)
                }
                KeySource::TimerTagOrField(name, field) => {
                    match self.find_tag(record.timer_tags, name, group_key.occurrence) {
                        // A field that is empty stands in for nothing.
                        NONE => match self.field_key_id(*field, record.origin) {
                            EMPTY => NONE,
                            value => value,
                        },
                        value => value,
                    }
                }
            };
            if *key_id == NONE {
                if is_status(group_key) {
                    continue;
                }
                if group_key.missing == Missing::Empty && group_key.source.is_of_timer() {
                    *key_id = EMPTY;
                }
            }
            if lacks(&group_key.source, group_key.missing, *key_id) {
                return None;
            }
        }
        Some(key_ids)
    }

    /// What the aggregate sees of one side of a record: records with equal key ids on all sides are in the same group.
    pub(super) fn side_key_ids(
        &self,
        side: RecordPart,
        group_keys: &[GroupKey],
        filters: &[Filter],
        record: RecordIds,
    ) -> SideKeyIds {
        let mut key_ids = [NONE; DEFINITION_KEYS_MAX + 1];
        key_ids[0] = filters
            .iter()
            .filter(|filter| match filter {
                Filter::MinTime(_) | Filter::TimeBelow(_) => false,
                Filter::Field(..) => side == RecordPart::Origin,
                Filter::RequestTag(..) => side == RecordPart::RequestTags,
                Filter::TimerTag(..) => side == RecordPart::TimerTags,
            })
            .all(|filter| self.passes(std::slice::from_ref(filter), record))
            .into();
        for (key_id, group_key) in key_ids[1..].iter_mut().zip(group_keys) {
            *key_id = match (&group_key.source, side) {
                // A number may stand for the status here: a key id is only held against its like.
                (
                    KeySource::Field(Field::Status) | KeySource::TimerTagOrField(_, Field::Status),
                    RecordPart::Origin,
                ) => self.origins.get(record.origin).status,
                (
                    KeySource::Field(field) | KeySource::TimerTagOrField(_, field),
                    RecordPart::Origin,
                ) => self.field_key_id(*field, record.origin),
                (KeySource::RequestTag(name), RecordPart::RequestTags) => {
                    self.find_tag(record.request_tags, name, group_key.occurrence)
                }
                (
                    KeySource::TimerTag(name) | KeySource::TimerTagOrField(name, _),
                    RecordPart::TimerTags,
                ) => self.find_tag(record.timer_tags, name, group_key.occurrence),
                _ => NONE,
            };
        }
        key_ids
    }

    fn field_key_id(&self, field: Field, origin: u32) -> u32 {
        match field_word(self.origins.get(origin), field) {
            Some(NONE) => EMPTY,
            Some(string) => string,
            None => NONE,
        }
    }

    fn find_tag(&self, set: u32, name: &str, occurrence: Occurrence) -> u32 {
        if set == OTHER_SET {
            return OTHER;
        }
        let mut values = self
            .tag_sets
            .pairs(set)
            .filter(|&(tag, _)| self.strings.bytes(tag) == name.as_bytes())
            .map(|(_, value)| value);
        match occurrence {
            Occurrence::First => values.next(),
            Occurrence::Last => values.last(),
        }
        .unwrap_or(NONE)
    }
}

/// Whether a group key may show the status, whose string is made only when a group needs it.
pub(super) fn is_status(group_key: &GroupKey) -> bool {
    matches!(
        group_key.source,
        KeySource::Field(Field::Status) | KeySource::TimerTagOrField(_, Field::Status)
    )
}

/// Fills the status key ids that [`Names::key ids`] left open, and holds the strings of all that may show the status, one that a
/// tag gave included: the caller lets go of each once.
pub(super) fn intern_status(
    key_ids: &mut KeyIds,
    group_keys: &[GroupKey],
    status: u32,
    strings: &mut StringInterner,
) {
    for (key_id, group_key) in key_ids.iter_mut().zip(group_keys) {
        if !is_status(group_key) {
            continue;
        }
        if *key_id == NONE {
            let mut text = [0; 10];
            *key_id = strings.intern(decimal(status, &mut text));
        } else {
            strings.hold(*key_id);
        }
    }
}

/// Whether a key counts as missing with this key id.
pub(super) fn lacks(source: &KeySource, missing: Missing, key_id: u32) -> bool {
    match missing {
        Missing::Empty => false,
        Missing::SkipEmpty => key_id == NONE || key_id == EMPTY,
        Missing::Skip => key_id == NONE || key_id == EMPTY && matches!(source, KeySource::Field(_)),
    }
}

/// The string of a text field; `None` for the status, which is no string.
pub(crate) fn field_word(origin: &Origin, field: Field) -> Option<u32> {
    match field {
        Field::Hostname => Some(origin.hostname),
        Field::ServerName => Some(origin.server_name),
        Field::ScriptName => Some(origin.script_name),
        Field::Schema => Some(origin.schema),
        Field::Status => None,
    }
}

/// Decimal digits without an allocation.
fn decimal(mut value: u32, text: &mut [u8; 10]) -> &[u8] {
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &text[at..];
        }
    }
}

impl Pattern {
    /// Whether `text` satisfies it.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Equals(value) => text == value.as_bytes(),
            Self::Differs(value) => text != value.as_bytes(),
            Self::StartsWith(prefix) => text.starts_with(prefix.as_bytes()),
        }
    }
}
