//! Dimensions: what the groups of a family are told apart by, and how a record's values of them are found.
//!
//! A value is a word number, a *lane*: [`NONE`] where a tag is missing, [`OTHER`] where a text found no room. Status
//! is a lane like the others, as the word of its decimal text. Looking up lanes is the slow path; a family remembers
//! the outcome per origin and tag set (see `family`).

use super::definition::{
    DEFINITION_KEYS_MAX, Field, Filter, Key, KeySource, Missing, Occurrence, Pattern,
};
use crate::pool::Freed;
use crate::pool::origins::{Origin, Origins};
use crate::pool::tag_sets::{OTHER_SET, TagSets};
use crate::pool::words::{EMPTY, NONE, OTHER, Words};

/// One value of each dimension.
pub(super) type Lanes = [u32; DEFINITION_KEYS_MAX];

/// A lane without a value.
pub(super) const NO_LANE: u32 = NONE;

/// One dimension of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dimension {
    pub(super) source: KeySource,
    pub(super) occurrence: Occurrence,
    /// `Skip` or `SkipEmpty`: records without a value are not in the family at all.
    pub(super) missing: Missing,
}

impl Dimension {
    /// The dimension that a key needs.
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

    /// Whether a key finds its values in this dimension.
    ///
    /// A dimension that keeps what is missing apart from what is empty serves keys that skip the one or both. Not so with
    /// timers: two of one request, one of them without the tag, may be in one row, and then must be in one group.
    pub(super) fn serves(&self, key: &Key) -> bool {
        self.source == key.source
            && (self.occurrence == key.occurrence || matches!(self.source, KeySource::Field(_)))
            && (self.missing == key.missing || self.missing == Missing::Empty && !self.of_timer())
    }

    /// Whether the value comes from the timer.
    pub(super) fn of_timer(&self) -> bool {
        matches!(
            self.source,
            KeySource::TimerTag(_) | KeySource::TimerTagOrField(..)
        )
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
pub(super) struct Parts {
    pub(super) origin: bool,
    pub(super) request_tags: bool,
    pub(super) timer_tags: bool,
}

impl Parts {
    pub(super) fn of(dimensions: &[Dimension], filters: &[Filter]) -> Self {
        let mut parts = Self::default();
        for dimension in dimensions {
            match dimension.source {
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

    pub(super) fn includes(self, side: Side) -> bool {
        match side {
            Side::Origin => self.origin,
            Side::RequestTags => self.request_tags,
            Side::TimerTags => self.timer_tags,
        }
    }
}

/// A part of a record that has a number in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Origin,
    RequestTags,
    TimerTags,
}

impl Side {
    pub(super) const ALL: [Self; 3] = [Self::Origin, Self::RequestTags, Self::TimerTags];

    /// The numbers of this side that were freed.
    pub(super) fn freed(self, freed: &Freed) -> &[u32] {
        match self {
            Self::Origin => &freed.origins,
            Self::RequestTags | Self::TimerTags => &freed.tag_sets,
        }
    }
}

/// What a family sees of one side: whether it passes the filters, then a value of each dimension.
pub(super) type SideLanes = [u32; DEFINITION_KEYS_MAX + 1];

/// The record whose lanes are looked for, by its numbers in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) origin: u32,
    pub(super) request_tags: u32,
    pub(super) timer_tags: u32,
}

impl Subject {
    pub(super) fn number(&self, side: Side) -> u32 {
        match side {
            Side::Origin => self.origin,
            Side::RequestTags => self.request_tags,
            Side::TimerTags => self.timer_tags,
        }
    }
}

/// What lanes are resolved against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) words: &'a Words,
    pub(super) origins: &'a Origins,
    pub(super) tag_sets: &'a TagSets,
}

impl Names<'_> {
    /// Whether the record satisfies every filter but those on time.
    pub(super) fn passes(&self, filters: &[Filter], subject: Subject) -> bool {
        filters.iter().all(|filter| match filter {
            Filter::MinTime(_) | Filter::TimeBelow(_) => true,
            Filter::Field(field, pattern) => self.field_passes(*field, pattern, subject.origin),
            Filter::RequestTag(name, pattern) => {
                let value = self.find_tag(subject.request_tags, name, Occurrence::First);
                match value {
                    NONE => matches!(pattern, Pattern::Differs(_)),
                    value => pattern.matches(self.words.bytes(value)),
                }
            }
            Filter::TimerTag(name, pattern) => {
                let mut values = self
                    .tag_sets
                    .pairs(subject.timer_tags)
                    .filter(|&(tag, _)| self.words.bytes(tag) == name.as_bytes())
                    .map(|(_, value)| pattern.matches(self.words.bytes(value)));
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
            Some(word) => pattern.matches(self.words.bytes(word)),
            None => pattern.matches(origin.status.to_string().as_bytes()),
        }
    }

    /// The record's lanes; `None` when a dimension that is required has no value. A status lane is left [`NONE`]: its
    /// word may not exist yet, see [`intern_status`].
    pub(super) fn lanes(&self, dimensions: &[Dimension], subject: Subject) -> Option<Lanes> {
        let mut lanes = [NONE; DEFINITION_KEYS_MAX];
        for (lane, dimension) in lanes.iter_mut().zip(dimensions) {
            *lane = match &dimension.source {
                KeySource::Field(field) => self.field_lane(*field, subject.origin),
                KeySource::RequestTag(name) => {
                    self.find_tag(subject.request_tags, name, dimension.occurrence)
                }
                KeySource::TimerTag(name) => {
                    self.find_tag(subject.timer_tags, name, dimension.occurrence)
                }
                KeySource::TimerTagOrField(name, field) => {
                    match self.find_tag(subject.timer_tags, name, dimension.occurrence) {
                        // A field that is empty stands in for nothing.
                        NONE => match self.field_lane(*field, subject.origin) {
                            EMPTY => NONE,
                            value => value,
                        },
                        value => value,
                    }
                }
            };
            if *lane == NONE {
                if is_status(dimension) {
                    continue;
                }
                if dimension.missing == Missing::Empty && dimension.of_timer() {
                    *lane = EMPTY;
                }
            }
            if lacks(&dimension.source, dimension.missing, *lane) {
                return None;
            }
        }
        Some(lanes)
    }

    /// What the family sees of one side of a record: records with equal lanes on all sides are in the same group.
    pub(super) fn side_lanes(
        &self,
        side: Side,
        dimensions: &[Dimension],
        filters: &[Filter],
        subject: Subject,
    ) -> SideLanes {
        let mut lanes = [NONE; DEFINITION_KEYS_MAX + 1];
        lanes[0] = filters
            .iter()
            .filter(|filter| match filter {
                Filter::MinTime(_) | Filter::TimeBelow(_) => false,
                Filter::Field(..) => side == Side::Origin,
                Filter::RequestTag(..) => side == Side::RequestTags,
                Filter::TimerTag(..) => side == Side::TimerTags,
            })
            .all(|filter| self.passes(std::slice::from_ref(filter), subject))
            .into();
        for (lane, dimension) in lanes[1..].iter_mut().zip(dimensions) {
            *lane = match (&dimension.source, side) {
                // A number may stand for the status here: a lane is only held against its like.
                (
                    KeySource::Field(Field::Status) | KeySource::TimerTagOrField(_, Field::Status),
                    Side::Origin,
                ) => self.origins.get(subject.origin).status,
                (KeySource::Field(field) | KeySource::TimerTagOrField(_, field), Side::Origin) => {
                    self.field_lane(*field, subject.origin)
                }
                (KeySource::RequestTag(name), Side::RequestTags) => {
                    self.find_tag(subject.request_tags, name, dimension.occurrence)
                }
                (
                    KeySource::TimerTag(name) | KeySource::TimerTagOrField(name, _),
                    Side::TimerTags,
                ) => self.find_tag(subject.timer_tags, name, dimension.occurrence),
                _ => NONE,
            };
        }
        lanes
    }

    fn field_lane(&self, field: Field, origin: u32) -> u32 {
        match field_word(self.origins.get(origin), field) {
            Some(NONE) => EMPTY,
            Some(word) => word,
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
            .filter(|&(tag, _)| self.words.bytes(tag) == name.as_bytes())
            .map(|(_, value)| value);
        match occurrence {
            Occurrence::First => values.next(),
            Occurrence::Last => values.last(),
        }
        .unwrap_or(NONE)
    }
}

/// Whether a dimension may show the status, whose word is made only when a group needs it.
pub(super) fn is_status(dimension: &Dimension) -> bool {
    matches!(
        dimension.source,
        KeySource::Field(Field::Status) | KeySource::TimerTagOrField(_, Field::Status)
    )
}

/// Fills the status lanes that [`Names::lanes`] left open, and holds the words of all that may show the status, one that a
/// tag gave included: the caller lets go of each once.
pub(super) fn intern_status(
    lanes: &mut Lanes,
    dimensions: &[Dimension],
    status: u32,
    words: &mut Words,
) {
    for (lane, dimension) in lanes.iter_mut().zip(dimensions) {
        if !is_status(dimension) {
            continue;
        }
        if *lane == NONE {
            let mut text = [0; 10];
            *lane = words.intern(decimal(status, &mut text));
        } else {
            words.hold(*lane);
        }
    }
}

/// Whether a key counts as missing with this lane.
pub(super) fn lacks(source: &KeySource, missing: Missing, lane: u32) -> bool {
    match missing {
        Missing::Empty => false,
        Missing::SkipEmpty => lane == NONE || lane == EMPTY,
        Missing::Skip => lane == NONE || lane == EMPTY && matches!(source, KeySource::Field(_)),
    }
}

/// The word of a text field; `None` for the status, which is no word.
fn field_word(origin: &Origin, field: Field) -> Option<u32> {
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
