//! Keys in forms: `"script_name"`, `"+env"`, `"@group"`, or a table for other than the defaults.

use serde::{Deserialize, Serialize};

use super::scalar::{FormTable, TextOr};
use crate::config::suggest::accepting;
use crate::grammar::number::tag_name;
use crate::report::definition::{Defaults, Field, Key, KeySource, Level, Missing, Occurrence};

/// A key: as text with defaults (a record without the tag is skipped, one without the field is
/// counted under the empty text), or as a table with all settings.
pub type KeyForm = TextOr<KeyTable>;

/// A key with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyTable {
    /// The key, as in text form.
    pub key: String,
    /// The treatment of records without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// Which of several tags of the name counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<Occurrence>,
}

impl FormTable for KeyTable {
    const EXPECTED: &str = "a key (hostname, server_name, script_name, schema, status, +<request tag>, @<timer tag>) or \
        a table with key, missing, occurrence";
}

impl KeyForm {
    pub(super) fn read(&self, level: Level, defaults: &Defaults) -> Result<Key, String> {
        let (text, missing, occurrence) = match self {
            Self::Text(text) => (text, None, None),
            Self::Table(table) => (&table.key, table.missing, table.occurrence),
        };
        let key = Key::of(read_source(text, &[], level, defaults)?);
        Ok(Key {
            missing: missing.unwrap_or(key.missing),
            occurrence: occurrence.unwrap_or(key.occurrence),
            ..key
        })
    }
}

impl From<&Key> for KeyForm {
    fn from(key: &Key) -> Self {
        let text = key.source.to_string();
        let usual = Key::of(key.source.clone());
        if *key == usual {
            return Self::Text(text);
        }
        Self::Table(KeyTable {
            key: text,
            missing: (key.missing != usual.missing).then_some(key.missing),
            occurrence: (key.occurrence != usual.occurrence).then_some(key.occurrence),
        })
    }
}

/// Parses a field, or a tag with its mark. An error names what is accepted, `others` first.
pub(super) fn read_source(
    text: &str,
    others: &[&str],
    level: Level,
    defaults: &Defaults,
) -> Result<KeySource, String> {
    let Some(name) = text.strip_prefix(['+', '@']) else {
        return Field::named(text).map(KeySource::Field).ok_or_else(|| {
            let fields = Field::ALL.map(Field::name);
            let accepted = [others, &fields, &["+<request tag>", "@<timer tag>"]].concat();
            let accepted = accepting(text, &accepted);
            format!("'{text}' is neither a field nor a tag{accepted}")
        });
    };
    if name.is_empty() {
        return Err(format!("'{text}': the tag's name is missing"));
    }
    let name = tag_name(name, defaults)?;
    if text.starts_with('+') {
        Ok(KeySource::RequestTag(name))
    } else if level == Level::Timer {
        Ok(KeySource::timer_tag(&name))
    } else {
        Err(format!("'{text}': timer tags are for reports of level timer only"))
    }
}
