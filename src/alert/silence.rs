//! Silences: suppress notifications for a while.
//!
//! A silence holds back alerts that have not been sent yet. Alerts already sent are repeated as
//! before, and their end is sent too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A silence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Number, never reused.
    pub id: u64,
    /// Labels that an alert must have: exact values or `prefix*`.
    pub matchers: BTreeMap<String, String>,
    /// Start, unix seconds.
    pub starts: u64,
    /// End, unix seconds.
    pub ends: u64,
    /// Reason given.
    pub reason: String,
    /// User who created it; `None` if no login was required.
    pub author: Option<String>,
}

impl Silence {
    /// Returns true if it matches an alert with these labels.
    #[must_use]
    pub fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matchers.iter().all(|(name, pattern)| {
            let text = labels.get(name).map_or("", String::as_str);
            match pattern.strip_suffix('*') {
                Some(prefix) => text.starts_with(prefix),
                None => text == pattern,
            }
        })
    }
}

/// All silences.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Silences {
    pub(super) last_id: u64,
    pub(super) list: Vec<Silence>,
}

impl Silences {
    /// Returns the silences in force at a moment.
    pub fn at(&self, now: u64) -> impl Iterator<Item = &Silence> {
        let holds = move |it: &&Silence| it.starts <= now && now < it.ends;
        self.list.iter().filter(holds)
    }

    /// Returns the number of a silence in force that matches these labels.
    pub(super) fn of(&self, labels: &BTreeMap<String, String>, now: u64) -> Option<u64> {
        self.at(now).find(|it| it.fits(labels)).map(|it| it.id)
    }
}
