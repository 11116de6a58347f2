//! `[[report]]`, `[[rewrite]]` and `[[user]]`: entries as they were given, and reading them key by key.
//!
//! An [`Entry`] keeps the location of each of its values, so that an error found late, even by the report module, names
//! file and line. [`EntryReader`] collects what is wrong; `rewrite` and `user` say what an entry may have.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::de::{DeValue, ValueDeserializer};
use toml::{Spanned, Value};

use super::error::ConfigError;
use super::location::Location;
use super::suggest::nearest;

/// The lists of tables.
pub(super) const LISTS: [&str; 3] = ["report", "rewrite", "user"];

/// Keys of a `[[user]]` whose values are no secrets, so that errors may repeat them.
const SHOWN_OF_USERS: [&str; 6] = [
    "name",
    "role",
    "password_file",
    "password_env",
    "token_file",
    "token_env",
];

/// An entry of one of the lists of tables, as it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where the entry begins; shows as "pinbad.toml:12" or "--set".
    pub location: Location,
    /// Its keys and values.
    pub table: toml::Table,
    /// Where each key's value stands, for errors about one of them.
    locations: BTreeMap<String, Location>,
}

impl Entry {
    /// An entry of `list`; `None` if `value` is no table.
    pub(super) fn new(
        list: &str,
        value: &Spanned<DeValue<'_>>,
        location: &Location,
    ) -> Option<Self> {
        let keys = value.get_ref().as_table()?;
        let locations = keys.iter().map(|(key, value)| {
            let (key, location) = (key.get_ref().to_string(), location.at(value.span()));
            match SHOWN_OF_USERS.contains(&key.as_str()) {
                true => (key, location),
                false => (key, of_list(list, location)),
            }
        });
        Some(Self {
            location: of_list(list, location.at(value.span())),
            table: toml::Table::deserialize(ValueDeserializer::from(value.clone())).ok()?,
            locations: locations.collect(),
        })
    }

    /// Where the value of `key` stands; the entry's own location when it has no such key.
    #[must_use]
    pub fn location_of(&self, key: &str) -> &Location {
        self.locations.get(key).unwrap_or(&self.location)
    }
}

/// The location of something in `list`, which errors do not repeat if there may be secrets in it.
pub(super) fn of_list(list: &str, location: Location) -> Location {
    match list {
        "user" => location.hidden(),
        _ => location,
    }
}

/// Something in an entry is not accepted; the error has been recorded.
#[derive(Debug)]
pub(super) struct Refused;

/// One entry while it is read.
pub(super) struct EntryReader<'e> {
    list: &'static str,
    pub(super) entry: &'e Entry,
    pub(super) errors: &'e mut Vec<ConfigError>,
}

impl<'e> EntryReader<'e> {
    /// A reader for each of the entries of `list`, given to `read` in turn.
    pub(super) fn each(
        list: &'static str,
        most: usize,
        entries: &'e [Entry],
        errors: &mut Vec<ConfigError>,
        mut read: impl FnMut(&mut EntryReader<'_>) -> Result<(), Refused>,
    ) {
        if let Some(beyond) = entries.get(most) {
            let problem = format!("{list}: {} entries; accepted: up to {most}", entries.len());
            errors.push(ConfigError::new(beyond.location.clone(), problem));
        }
        for entry in entries {
            let mut reader = EntryReader {
                list,
                entry,
                errors,
            };
            // What is refused has its error.
            let _left_out = read(&mut reader);
        }
    }

    /// Refuses keys that are not among `keys`; `hint` may know better than a list of all what is wrong with one.
    pub(super) fn refuse_unknown(&mut self, keys: &[&str], hint: impl Fn(&str) -> Option<String>) {
        let list = self.list;
        for key in self.entry.table.keys() {
            if keys.contains(&key.as_str()) {
                continue;
            }
            let location = self.entry.location_of(key).clone();
            // A secret may stand under a misspelt name.
            let given = match location.is_hidden() {
                true => String::new(),
                false => format!(" = {}", location.given()),
            };
            let meant = || nearest(key, keys.iter().copied());
            let hint = hint(key)
                .or_else(|| meant().map(|meant| format!("did you mean {list}.{meant}?")))
                .unwrap_or_else(|| format!("[[{list}]] takes {}", keys.join(", ")));
            let problem = format!("{list}.{key}{given}: unknown setting; {hint}");
            self.errors.push(ConfigError::new(location, problem));
        }
    }

    /// Which of `keys` there are.
    pub(super) fn given<const N: usize>(&self, keys: [&'static str; N]) -> Vec<&'static str> {
        let given = |key: &&str| self.entry.table.contains_key(*key);
        keys.into_iter().filter(given).collect()
    }

    /// The text under `key`, if there is one.
    pub(super) fn text(&mut self, key: &str, accepted: &str) -> Result<Option<String>, Refused> {
        match self.entry.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => self.refuse(key, "not a text", accepted),
        }
    }

    /// Refuses the value of `key`.
    pub(super) fn refuse<T>(
        &mut self,
        key: &str,
        problem: &str,
        accepted: &str,
    ) -> Result<T, Refused> {
        let location = self.entry.location_of(key).clone();
        let key = format!("{}.{key}", self.list);
        self.errors
            .push(ConfigError::value(location, &key, problem, accepted));
        Err(Refused)
    }

    /// Refuses the entry for what it does not have.
    pub(super) fn missing<T>(&mut self, problem: &str, accepted: &str) -> Result<T, Refused> {
        let problem = format!("{}: {problem}; accepted: {accepted}", self.list);
        self.errors
            .push(ConfigError::new(self.entry.location.clone(), problem));
        Err(Refused)
    }
}
