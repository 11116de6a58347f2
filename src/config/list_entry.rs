//! Reads the entries of the lists, such as `[[squid]]` and `[[user]]`, key by key and collects the
//! errors.
//!
//! What is refused is recorded and has no value; reading goes on, so that every slip is found.

use super::error::ConfigError;
use super::kinds::Kind;
use super::location::Location;
use super::raw_value::Entry;
use super::suggest::meant;

/// Reads one entry.
pub(super) struct EntryReader<'e> {
    list: &'static str,
    pub(super) entry: &'e Entry,
    errors: &'e mut Vec<ConfigError>,
    /// Number of errors before its values are read.
    errors_before: usize,
}

impl<'e> EntryReader<'e> {
    /// Returns a reader of an entry of `list`.
    pub(super) fn new(
        list: &'static str,
        entry: &'e Entry,
        errors: &'e mut Vec<ConfigError>,
    ) -> Self {
        let errors_before = errors.len();
        Self { list, entry, errors, errors_before }
    }

    /// Refuses keys that are not among `keys`; `hint` may give a better message than the list of
    /// all keys.
    pub(super) fn refuse_unknown(&mut self, keys: &[&str], hint: impl Fn(&str) -> Option<String>) {
        let list = self.list;
        for (key, value) in &self.entry.values {
            if keys.contains(&key.as_str()) {
                continue;
            }
            // A secret may stand under a misspelt name.
            let given = match value.location.hidden {
                true => String::new(),
                false => format!(" = {}", value.location.given()),
            };
            let meant = meant(key, keys.iter().copied());
            let hint = hint(key)
                .or_else(|| meant.map(|meant| format!("did you mean {list}.{meant}?")))
                .unwrap_or_else(|| format!("[[{list}]] takes {}", keys.join(", ")));
            let problem = format!("{list}.{key}{given}: unknown setting; {hint}");
            let error = ConfigError::new(value.location.clone(), problem);
            self.errors.push(error);
        }
        self.errors_before = self.errors.len();
    }

    /// Returns whether all values so far are accepted.
    pub(super) fn is_right(&self) -> bool {
        self.errors.len() == self.errors_before
    }

    /// Returns those of `keys` that were given.
    pub(super) fn given<const N: usize>(&self, keys: [&'static str; N]) -> Vec<&'static str> {
        let given = |key: &&str| self.entry.values.contains_key(*key);
        keys.into_iter().filter(given).collect()
    }

    /// The value of `key`, if given.
    pub(super) fn read<T: 'static>(&mut self, key: &str, kind: &Kind<T>) -> Option<T> {
        let given = self.entry.values.get(key)?;
        kind.read(&format!("{}.{key}", self.list), given, self.errors)
    }

    /// The value of `key`, which is required.
    pub(super) fn required<T: 'static>(&mut self, key: &str, kind: &Kind<T>) -> Option<T> {
        match self.entry.values.contains_key(key) {
            true => self.read(key, kind),
            false => self.missing(&format!("no {key}"), &format!("{key} = {}", kind.accepted)),
        }
    }

    /// Refuses the value of `key`.
    pub(super) fn refuse<T>(&mut self, key: &str, problem: &str, accepted: &str) -> Option<T> {
        let location = self.entry.location_of(key).clone();
        let key = format!("{}.{key}", self.list);
        self.errors.push(ConfigError::value(location, &key, problem, accepted));
        None
    }

    /// Refuses the entry if its value of `key` is that of others, which begin `before` it.
    pub(super) fn once<'l>(
        &mut self,
        key: &str,
        mut before: impl Iterator<Item = &'l Location>,
        accepted: &str,
    ) {
        if let Some(at) = before.next() {
            self.refuse::<()>(key, &format!("the entry at {at} has it too"), accepted);
        }
    }

    /// Refuses the entry because something is missing.
    pub(super) fn missing<T>(&mut self, problem: &str, accepted: &str) -> Option<T> {
        let problem = format!("{}: {problem}; accepted: {accepted}", self.list);
        self.errors.push(ConfigError::new(self.entry.location.clone(), problem));
        None
    }
}
