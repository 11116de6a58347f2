//! Silences: alerts of which nobody is to be told for a while.
//!
//! One holds back what has not been sent. What was sent is sent again as before, and that it is
//! over is told too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::SILENCES_MAX;

/// A silence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Its number, which is not used again.
    pub id: u64,
    /// Labels that an alert must have, each as it is or `prefix*`.
    pub matchers: BTreeMap<String, String>,
    /// From when on, unix seconds.
    pub starts: u64,
    /// Until when.
    pub ends: u64,
    /// Why.
    pub reason: String,
    /// The user who made it; `None`: nobody had to log in.
    pub author: Option<String>,
}

/// All silences.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Silences {
    last_id: u64,
    list: Vec<Silence>,
}

impl Silences {
    /// Adds one under a number of its own; `None`: there are too many.
    pub fn add(&mut self, mut silence: Silence, now: u64) -> Option<Silence> {
        self.list.retain(|it| it.ends > now);
        if self.list.len() >= SILENCES_MAX {
            return None;
        }
        self.last_id += 1;
        silence.id = self.last_id;
        self.list.push(silence.clone());
        Some(silence)
    }

    /// Ends one; false when there is none of that number.
    pub fn end(&mut self, id: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|it| it.id != id);
        self.list.len() < before
    }

    /// Those that hold at a moment.
    pub fn at(&self, now: u64) -> impl Iterator<Item = &Silence> {
        let holds = move |it: &&Silence| it.starts <= now && now < it.ends;
        self.list.iter().filter(holds)
    }

    /// The number of one that holds for an alert with these labels.
    #[must_use]
    pub fn of(&self, labels: &BTreeMap<String, String>, now: u64) -> Option<u64> {
        let fits = |(name, pattern): (&String, &String)| {
            let text = labels.get(name).map_or("", String::as_str);
            match pattern.strip_suffix('*') {
                Some(prefix) => text.starts_with(prefix),
                None => text == pattern,
            }
        };
        let mut holding = self.at(now);
        holding
            .find(|it| it.matchers.iter().all(fits))
            .map(|it| it.id)
    }
}
