//! A value as it was given, whether in the file, in a variable or in a flag.

use toml::Spanned;
use toml::de::DeValue;

use super::location::Location;

/// A value with its location.
#[derive(Debug, Clone)]
pub(super) struct Given {
    /// The value.
    pub(super) value: Value,
    /// Where.
    pub(super) location: Location,
}

/// The forms of TOML that keys accept.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A string, or bare text of a flag or variable.
    Text(String),
    /// An integer, always decimal, or a float, as it was written: `units` reads the decimals exactly.
    Number(String),
    /// true or false.
    Switch(bool),
    /// An array.
    List(Vec<Given>),
    /// Anything that no key accepts: a table, a date.
    Other,
}

/// What a text of a flag or a variable means that has no quotes of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unquoted {
    /// TOML, or else itself.
    Text,
    /// Itself, also when it could be TOML: a directory may be called `2024`.
    TextAlways,
    /// TOML, or else a list with commas.
    List,
}

impl Given {
    /// A TOML value in the text of `location`.
    pub(super) fn from_toml(value: &Spanned<DeValue<'_>>, location: &Location) -> Self {
        let form = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            // Hexadecimal and the like become decimal; what is beyond 128 bits is out of every range anyway.
            DeValue::Integer(number) => Value::Number(
                i128::from_str_radix(number.as_str(), number.radix())
                    .map_or_else(|_| number.to_string(), |number| number.to_string()),
            ),
            DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
            DeValue::Boolean(on) => Value::Switch(*on),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| Self::from_toml(item, location));
                Value::List(items.collect())
            }
            DeValue::Datetime(_) | DeValue::Table(_) => Value::Other,
        };
        Self {
            value: form,
            location: location.at(value.span()),
        }
    }

    /// The text of a flag or a variable.
    ///
    /// A shell eats the quotes of `["127.0.0.1:0","[::1]:0"]` unless they are quoted again; what is left of a list
    /// (`[127.0.0.1:0,[::1]:0]`) is still clear, and so is `127.0.0.1:0,[::1]:0`.
    pub(super) fn from_text(location: &Location, unquoted: Unquoted) -> Self {
        let text = location.text();
        let quoted = text.starts_with(['"', '\'']);
        let toml = match unquoted {
            Unquoted::TextAlways if !quoted => None,
            _ => DeValue::parse(text).ok(),
        };
        let value = match toml {
            Some(value) => return Self::from_toml(&value, location),
            None if unquoted == Unquoted::List && !quoted => {
                let inner = text
                    .strip_prefix('[')
                    .and_then(|text| text.strip_suffix(']'))
                    // "[::1]" is one address without its port, not a list.
                    .filter(|inner| !inner.starts_with(':'))
                    .unwrap_or(text);
                let items = inner.split(',').map(|item| Self {
                    value: Value::Text(item.trim().trim_matches(['"', '\'']).to_owned()),
                    location: Location::whole(location.origin().clone(), item),
                });
                Value::List(items.collect())
            }
            None => Value::Text(text.to_owned()),
        };
        Self {
            value,
            location: location.clone(),
        }
    }

    /// The text, if it is one.
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

    /// The items of a list; a value alone is a list of one, and "" or what a shell leaves of `[]` one of none.
    pub(super) fn items(&self) -> &[Self] {
        let items = match &self.value {
            Value::List(items) => items,
            _ => std::slice::from_ref(self),
        };
        match items {
            [only] if only.text() == Some("") => &[],
            items => items,
        }
    }
}
