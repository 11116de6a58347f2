//! Reads the entries of `[[rewrite]]`, `[[squid]]`, `[[stat]]` and `[[user]]` key by key and
//! collects the errors.

use super::error::ConfigError;
use super::kinds::Kind;
use super::location::Location;
use super::raw_value::Entry;
use super::suggest::nearest;

/// Part of an entry was refused; the error is already recorded.
#[derive(Debug)]
pub(super) struct Refused;

/// The entries of one of the lists, as given.
pub(super) struct Entries {
    pub(super) list: &'static str,
    pub(super) entries: Vec<Entry>,
}

/// Reads one entry.
pub(super) struct EntryReader<'e> {
    list: &'static str,
    pub(super) entry: &'e Entry,
    errors: &'e mut Vec<ConfigError>,
}

impl Entries {
    /// Reads the entries in order; `read` sees what those before became. A faulty one adds to
    /// `errors` and is left out.
    pub(super) fn read<T>(
        &self,
        most: usize,
        errors: &mut Vec<ConfigError>,
        mut read: impl FnMut(&mut EntryReader<'_>, &[T]) -> Result<T, Refused>,
    ) -> Vec<T> {
        let (list, entries) = (self.list, &self.entries);
        if let Some(beyond) = entries.get(most) {
            let problem = format!("{list}: {} entries; accepted: up to {most}", entries.len());
            errors.push(ConfigError::new(beyond.location.clone(), problem));
        }
        let mut all = Vec::with_capacity(entries.len());
        for entry in entries {
            let read = read(&mut EntryReader { list, entry, errors }, &all);
            all.extend(read.ok());
        }
        all
    }
}

impl EntryReader<'_> {
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
            let meant = nearest(key, keys.iter().copied());
            let hint = hint(key)
                .or_else(|| meant.map(|meant| format!("did you mean {list}.{meant}?")))
                .unwrap_or_else(|| format!("[[{list}]] takes {}", keys.join(", ")));
            let problem = format!("{list}.{key}{given}: unknown setting; {hint}");
            let error = ConfigError::new(value.location.clone(), problem);
            self.errors.push(error);
        }
    }

    /// Returns those of `keys` that were given.
    pub(super) fn given<const N: usize>(&self, keys: [&'static str; N]) -> Vec<&'static str> {
        let given = |key: &&str| self.entry.values.contains_key(*key);
        keys.into_iter().filter(given).collect()
    }

    /// The value of `key`, if given.
    pub(super) fn read<T: 'static>(
        &mut self,
        key: &str,
        kind: &Kind<T>,
    ) -> Result<Option<T>, Refused> {
        let Some(given) = self.entry.values.get(key) else { return Ok(None) };
        let name = format!("{}.{key}", self.list);
        kind.read(&name, given, self.errors).map(Some).ok_or(Refused)
    }

    /// The value of `key`, which is required.
    pub(super) fn required<T: 'static>(&mut self, key: &str, kind: &Kind<T>) -> Result<T, Refused> {
        match self.read(key, kind)? {
            Some(value) => Ok(value),
            None => self.missing(&format!("no {key}"), &format!("{key} = {}", kind.accepted)),
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
        self.errors.push(ConfigError::value(location, &key, problem, accepted));
        Err(Refused)
    }

    /// Refuses the entry if its value of `key` is that of others, which begin `before` it.
    pub(super) fn once<'l>(
        &mut self,
        key: &str,
        mut before: impl Iterator<Item = &'l Location>,
        accepted: &str,
    ) -> Result<(), Refused> {
        match before.next() {
            Some(at) => self.refuse(key, &format!("the entry at {at} has it too"), accepted),
            None => Ok(()),
        }
    }

    /// Refuses the entry because something is missing.
    pub(super) fn missing<T>(&mut self, problem: &str, accepted: &str) -> Result<T, Refused> {
        let problem = format!("{}: {problem}; accepted: {accepted}", self.list);
        self.errors.push(ConfigError::new(self.entry.location.clone(), problem));
        Err(Refused)
    }
}
