//! The table of Pinba's kinds, `v1_kinds.txt`: the keys of each, and the format of its
//! `index_value`.

use std::sync::LazyLock;

use crate::report::definition::{Field, Kind, Level, Occurrence};
use crate::report::layout::IndexPart::{self, Key, Text};

/// How many tags a kind takes as parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tags {
    /// `info`, `report1` to `report18`
    None,
    /// `tag_*`
    One,
    /// `tag2_*`
    Two,
    /// `tagN_*`
    Many,
}

/// A kind of Pinba.
#[derive(Debug)]
pub(crate) struct V1Kind {
    /// `report1`, ...
    pub(crate) name: &'static str,
    /// The table in which Pinba shows it.
    pub(crate) table: Option<&'static str>,
    pub(crate) level: Level,
    /// Fields before the tags, in key and column order.
    pub(crate) before: Vec<Field>,
    pub(crate) tags: Tags,
    /// Fields after the tags.
    pub(crate) after: Vec<Field>,
    /// The `index_value` of a kind without tags: digits are keys, the rest is literal.
    index: &'static str,
}

/// Number of the first of [`KINDS`].
const FIRST_NUMBER: usize = 8;

/// All kinds.
pub(crate) static KINDS: LazyLock<Vec<V1Kind>> =
    LazyLock::new(|| include_str!("v1_kinds.txt").lines().filter_map(V1Kind::of_line).collect());

impl V1Kind {
    fn of_line(line: &'static str) -> Option<Self> {
        let given = |word: &'static str| Some(word).filter(|word| *word != "-");
        let mut words = line.split(' ').filter(|_| !line.starts_with('#')).map(given);
        let mut word = || words.next().flatten();
        let fields = |names: Option<&str>| {
            names.into_iter().flat_map(|names| names.split(',')).filter_map(Field::named).collect()
        };
        Some(Self {
            name: word()?,
            table: word(),
            level: match word() {
                Some("packet") => Level::Packet,
                Some("timer") => Level::Timer,
                _ => Level::Request,
            },
            before: fields(word()),
            tags: match word() {
                Some("one") => Tags::One,
                Some("two") => Tags::Two,
                Some("many") => Tags::Many,
                _ => Tags::None,
            },
            after: fields(word()),
            index: word().unwrap_or_default(),
        })
    }

    /// The kind of this name and its type number.
    pub(crate) fn named(name: &str) -> Option<(&'static Self, usize)> {
        KINDS.iter().zip(FIRST_NUMBER..).find(|(kind, _)| kind.name == name)
    }

    /// The family of its tables.
    pub(crate) fn kind(&self) -> Kind {
        match (self.tags, self.level) {
            (Tags::None, _) => Kind::Base,
            (_, Level::Timer) => Kind::Tag,
            _ => Kind::RequestTag,
        }
    }

    /// Which of several tags with the same name counts.
    pub(crate) fn occurrence(&self) -> Occurrence {
        let is_tag2 = (self.level, self.tags) == (Level::Timer, Tags::Two);
        if is_tag2 { Occurrence::Last } else { Occurrence::First }
    }

    /// The `index_value` for this many tags: timer-tag reports name script, host and server before
    /// the tags, request-tag reports leave the host out; `tagN` kinds end with a bar.
    pub(crate) fn index(&self, tags: usize) -> Vec<IndexPart> {
        if self.tags == Tags::None {
            let parts = self.index.split("").filter(|part| !part.is_empty());
            return parts.map(|it| it.parse().map_or(Text(it), Key)).collect();
        }
        let (first_tag, end) = (self.before.len(), self.before.len() + tags);
        let fields = (0..first_tag).chain(end..end + self.after.len());
        let keys = fields.filter(|_| self.level == Level::Timer).chain(first_tag..end);
        let mut index: Vec<IndexPart> = keys.flat_map(|key| [Key(key), Text("|")]).collect();
        if self.tags != Tags::Many {
            index.pop();
        }
        index
    }
}
