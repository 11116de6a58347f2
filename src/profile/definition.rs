//! A report over samples: what rows are told apart by, what a sample must be like, how far back it
//! reaches.

use std::time::Duration;

use crate::input::record::counted;

counted! {
    /// The keys that rows can have, with the names of their columns.
    SampleKey {
        /// Where PHP runs.
        Host = "host",
        /// The script of the request.
        Script = "script",
        /// Its method.
        Method = "method",
        /// The address that was requested, after the name rules.
        Uri = "uri",
        /// The running function; `{main}` is the top level of a file, `(idle)` none.
        Function = "function",
        /// Its class.
        Scope = "scope",
        /// Where it is written.
        File = "file",
        /// The line of the file.
        Line = "line",
        /// The opcode that PHP executed.
        Opcode = "opcode",
        /// PHP code that called it, with its class; `{main}` and the file where that is the top
        /// level.
        Caller = "caller",
        /// `user`, `internal` or `memory`.
        Type = "type",
        /// The process.
        Pid = "pid",
    }
}

impl SampleKey {
    /// The key of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Whether its column has numbers.
    #[must_use]
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Line | Self::Pid)
    }
}

/// The condition on a key. A sample without the key has the empty text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// This.
    Equals(String),
    /// Anything but this.
    Differs(String),
    /// Something that begins so.
    StartsWith(String),
}

impl Wanted {
    /// Whether a text is what is wanted.
    #[must_use]
    pub fn holds(&self, shown: &str) -> bool {
        match self {
            Self::Equals(text) => shown == text,
            Self::Differs(text) => shown != text,
            Self::StartsWith(start) => shown.starts_with(start.as_str()),
        }
    }
}

/// A report over samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleReport {
    /// The keys of a row.
    pub keys: Vec<SampleKey>,
    /// Conditions that a sample must satisfy, all of them.
    pub filters: Vec<(SampleKey, Wanted)>,
    /// How far back it reaches.
    pub window: Duration,
}

impl SampleReport {
    /// Reads keys and filters as a form has them: `"script"`, `"function=md5"`, `"type!=memory"`,
    /// `"file=/lib/*"`.
    ///
    /// # Errors
    /// The list, the place in it, and what is wrong there.
    pub fn read(
        keys: &[String],
        filters: &[String],
        window: Duration,
    ) -> Result<Self, (&'static str, usize, String)> {
        let names = || SampleKey::ALL.map(SampleKey::name).join(", ");
        let named = |name: &str| {
            let unknown = || format!("'{name}' is no key of samples; accepted are {}", names());
            SampleKey::named(name).ok_or_else(unknown)
        };
        if keys.is_empty() {
            let problem = format!("there must be at least one key, of {}", names());
            return Err(("keys", 0, problem));
        }
        let mut report = Self {
            keys: Vec::with_capacity(keys.len()),
            filters: Vec::with_capacity(filters.len()),
            window,
        };
        for (place, name) in keys.iter().enumerate() {
            let key = named(name).map_err(|problem| ("keys", place, problem))?;
            if report.keys.contains(&key) {
                return Err(("keys", place, format!("the key '{name}' is given twice")));
            }
            report.keys.push(key);
        }
        for (place, text) in filters.iter().enumerate() {
            let wrong = |problem| ("filters", place, problem);
            let no_filter = || {
                wrong(format!(
                    "'{text}': a filter is KEY=value, KEY!=value or KEY=prefix*, where KEY is one of {}",
                    names()
                ))
            };
            let (key, value) = text.split_once('=').ok_or_else(no_filter)?;
            let (key, wanted) = match (key.strip_suffix('!'), value.strip_suffix('*')) {
                (None, None) => (key, Wanted::Equals(value.to_owned())),
                (None, Some(start)) => (key, Wanted::StartsWith(start.to_owned())),
                (Some(key), None) => (key, Wanted::Differs(value.to_owned())),
                (Some(_), Some(_)) => return Err(no_filter()),
            };
            report.filters.push((named(key).map_err(wrong)?, wanted));
        }
        Ok(report)
    }
}
