//! A value as given in the file, a variable or a flag.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use super::location::Location;

/// The keys of `[[user]]` whose values are not secret, so that errors may repeat them.
pub(super) const SHOWN: [&str; 6] =
    ["name", "role", "password_file", "password_env", "token_file", "token_env"];

/// A value with its location.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    /// The value.
    pub(super) value: Value,
    /// Where it was given.
    pub(super) location: Location,
}

/// The TOML types that keys accept.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A string, or bare text of a flag or variable.
    Text(String),
    /// An integer (always decimal) or a float, as written: `units` reads the decimals exactly.
    Number(String),
    /// true or false.
    Switch(bool),
    /// An array.
    List(Vec<Given>),
    /// A table: an entry of a list.
    Table(Entry),
    /// A date, which no key accepts.
    Other,
}

/// An entry of `[[report]]`, `[[squid]]`, `[[stat]]`, `[[rewrite]]` or `[[user]]`, as given.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where the entry begins; shows as "pinbad.toml:12" or "--set".
    pub location: Location,
    /// Its keys and values.
    pub table: toml::Table,
    /// Values with their locations, for errors.
    pub(super) values: BTreeMap<String, Given>,
}

impl Entry {
    /// The location of the value of `key`; that of the entry if there is no such key.
    pub(crate) fn location_of(&self, key: &str) -> &Location {
        let value = self.values.get(key);
        value.map_or(&self.location, |value| &value.location)
    }

    /// Keys whose values have an integer beyond 64 bits, which `table` cannot hold.
    pub(crate) fn too_large(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str).filter(|key| !self.table.contains_key(*key))
    }
}

impl Given {
    /// Converts a TOML value found in the text of `location`.
    pub(super) fn from_toml(toml: &Spanned<DeValue<'_>>, text: &Location) -> Self {
        let location = text.at(toml.span());
        let value = match toml.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            // Hexadecimal and the like become decimal; numbers beyond 128 bits are out of every
            // range anyway.
            DeValue::Integer(number) => Value::Number(
                i128::from_str_radix(number.as_str(), number.radix())
                    .map_or_else(|_| number.to_string(), |number| number.to_string()),
            ),
            DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
            DeValue::Boolean(on) => Value::Switch(*on),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| Self::from_toml(item, text));
                Value::List(items.collect())
            }
            DeValue::Table(keys) => {
                let values = keys.iter().map(|(key, value)| {
                    let mut value = Self::from_toml(value, text);
                    value.location.hidden &= !SHOWN.contains(&&**key.get_ref());
                    (key.get_ref().to_string(), value)
                });
                let values: BTreeMap<_, _> = values.collect();
                let table = toml::Table::deserialize(ValueDeserializer::from(toml.clone()));
                // An integer beyond 64 bits stays in `values`, whose readers refuse it at its key.
                let table = table.unwrap_or_else(|_| {
                    let each = keys.iter().filter_map(|(key, value)| {
                        let value = ValueDeserializer::from(value.clone());
                        let value = toml::Value::deserialize(value).ok()?;
                        Some((key.get_ref().to_string(), value))
                    });
                    each.collect()
                });
                Value::Table(Entry { location: location.clone(), table, values })
            }
            DeValue::Datetime(_) => Value::Other,
        };
        Self { value, location }
    }

    /// Reads the text of a flag or variable as TOML, else as plain text.
    pub(super) fn from_text(location: Location) -> Self {
        match DeValue::parse(location.text()) {
            Ok(value) => Self::from_toml(&value, &location),
            Err(_) => Self { value: Value::Text(location.text().to_owned()), location },
        }
    }

    /// The text, if it is a string.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a string or of a number: sizes and durations are given as either.
    pub(super) fn text_or_number(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text),
            _ => None,
        }
    }

    /// The items of a list. A single value is a list of one; "" or a shell's remains of `[]` is
    /// empty, unlike `[""]`.
    ///
    /// A shell eats the quotes of `["127.0.0.1:0","[::1]:0"]` unless they are quoted again; the
    /// remainder (`[127.0.0.1:0,[::1]:0]`) is still clear, and so is `127.0.0.1:0,[::1]:0`.
    pub(super) fn items(&self) -> Vec<Self> {
        match &self.value {
            Value::List(items) => items.clone(),
            Value::Text(text) if text.is_empty() => Vec::new(),
            Value::Text(text) if !self.location.is_in_file() => {
                let inner = text
                    .strip_prefix('[')
                    .and_then(|text| text.strip_suffix(']'))
                    // "[::1]" is one address without its port, not a list.
                    .filter(|inner| !inner.starts_with(':'));
                let items = inner.unwrap_or(text).split(',').map(|item| Self {
                    value: Value::Text(item.trim().trim_matches(['"', '\'']).to_owned()),
                    location: Location::whole(self.location.origin().clone(), item),
                });
                let items: Vec<Self> = items.collect();
                match &items[..] {
                    [only] if only.text() == Some("") => Vec::new(),
                    _ => items,
                }
            }
            _ => vec![self.clone()],
        }
    }

    /// The entries, if it is a list of tables.
    pub(super) fn entries(&self) -> Option<Vec<Entry>> {
        let Value::List(items) = &self.value else { return None };
        let entry = |item: &Self| match &item.value {
            Value::Table(entry) => Some(entry.clone()),
            _ => None,
        };
        items.iter().map(entry).collect()
    }
}
