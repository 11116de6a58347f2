//! Keys in forms: `"script_name"`, `"+env"`, `"@group"`, or a table where a default is not wanted.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::report::definition::{Defaults, Field, Key, KeySource, Level, Missing, Occurrence};

const KEYS: &str =
    "hostname, server_name, script_name, schema, status, +<request tag>, @<timer tag>";

/// A key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum KeyForm {
    /// With defaults: a record without the tag is skipped, one without the field is counted under the empty text.
    Text(String),
    /// With all said.
    Table(KeyTable),
}

/// A key with what is not default about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyTable {
    /// The key as in [`KeyForm::Text`].
    pub key: String,
    /// What happens to a record without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingForm>,
    /// Which of several tags of the name counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<OccurrenceForm>,
}

/// [`Missing`] in a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingForm {
    /// The record is not counted.
    Skip,
    /// As `skip`, and a tag with an empty value counts as missing.
    SkipEmpty,
    /// The record is counted under the empty text.
    Empty,
}

/// [`Occurrence`] in a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OccurrenceForm {
    /// The first, the default.
    First,
    /// The last.
    Last,
}

impl<'de> Deserialize<'de> for KeyForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyForm;
        impl<'de> Visitor<'de> for AnyForm {
            type Value = KeyForm;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a key ({KEYS}) or a table with key, missing, occurrence")
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
                Ok(KeyForm::Text(value.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                KeyTable::deserialize(MapAccessDeserializer::new(map)).map(KeyForm::Table)
            }
        }
        deserializer.deserialize_any(AnyForm)
    }
}

impl KeyForm {
    pub(super) fn read(&self, level: Level, defaults: &Defaults) -> Result<Key, String> {
        let (text, missing, occurrence) = match self {
            Self::Text(text) => (text, None, None),
            Self::Table(table) => (&table.key, table.missing, table.occurrence),
        };
        let source = read_source(text, level, defaults)?;
        let missing = match missing {
            None => default_missing(&source),
            Some(MissingForm::Skip) => Missing::Skip,
            Some(MissingForm::SkipEmpty) => Missing::SkipEmpty,
            Some(MissingForm::Empty) => Missing::Empty,
        };
        let occurrence = match occurrence {
            None | Some(OccurrenceForm::First) => Occurrence::First,
            Some(OccurrenceForm::Last) => Occurrence::Last,
        };
        Ok(Key {
            source,
            occurrence,
            missing,
        })
    }
}

impl From<&Key> for KeyForm {
    fn from(key: &Key) -> Self {
        let text = key.source.to_string();
        let missing = (key.missing != default_missing(&key.source)).then_some(match key.missing {
            Missing::Skip => MissingForm::Skip,
            Missing::SkipEmpty => MissingForm::SkipEmpty,
            Missing::Empty => MissingForm::Empty,
        });
        let occurrence = (key.occurrence == Occurrence::Last).then_some(OccurrenceForm::Last);
        if missing.is_none() && occurrence.is_none() {
            Self::Text(text)
        } else {
            Self::Table(KeyTable {
                key: text,
                missing,
                occurrence,
            })
        }
    }
}

/// A field is always there, if only as an empty text, and so is a tag that a field stands in for.
fn default_missing(source: &KeySource) -> Missing {
    match source {
        KeySource::Field(_) | KeySource::TimerTagOrField(..) => Missing::Empty,
        KeySource::RequestTag(_) | KeySource::TimerTag(_) => Missing::Skip,
    }
}

/// A field or tag by its mark.
pub(super) fn read_source(
    text: &str,
    level: Level,
    defaults: &Defaults,
) -> Result<KeySource, String> {
    let checked = |name: &str| {
        if name.is_empty() {
            return Err(format!("'{text}': the tag's name is missing"));
        }
        if name.len() > usize::from(defaults.text_bytes_max) {
            return Err(format!(
                "tag names are kept up to {} bytes",
                defaults.text_bytes_max
            ));
        }
        Ok(())
    };
    if let Some(name) = text.strip_prefix('+') {
        checked(name)?;
        Ok(KeySource::RequestTag(name.to_owned()))
    } else if let Some(name) = text.strip_prefix('@') {
        checked(name)?;
        if level == Level::Timer {
            Ok(KeySource::timer_tag(name))
        } else {
            Err(format!(
                "'{text}': timer tags are for reports of level timer only"
            ))
        }
    } else {
        Field::named(text)
            .map(KeySource::Field)
            .ok_or_else(|| format!("'{text}' is neither a field nor a tag; accepted are {KEYS}"))
    }
}
