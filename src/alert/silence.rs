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
    pub(crate) fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matchers.iter().all(|(name, pattern)| {
            let text = labels.get(name).map_or("", String::as_str);
            let prefix = pattern.strip_suffix('*');
            prefix.map_or(text == pattern, |prefix| text.starts_with(prefix))
        })
    }
}

/// All silences.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Silences {
    pub(super) last_id: u64,
    pub(super) list: Vec<Silence>,
}
