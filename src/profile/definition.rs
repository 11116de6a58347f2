//! Definition of a report over samples: keys, filters and window.

use std::time::Duration;

use crate::config::suggest::accepting;
use crate::report::definition::Pattern;
use crate::telemetry::counter::counted;

counted! {
    /// Keys of a report over samples, with the names of their columns.
    SampleKey {
        /// Host on which PHP runs.
        Host = "host",
        /// Script of the request.
        Script = "script",
        /// Method of the request.
        Method = "method",
        /// Requested URI, after the name rules.
        Uri = "uri",
        /// Running function; `{main}` is the top level of a file, `(idle)` means none.
        Function = "function",
        /// Class of the function.
        Scope = "scope",
        /// File that defines it.
        File = "file",
        /// Line in the file.
        Line = "line",
        /// Opcode that PHP executed.
        Opcode = "opcode",
        /// PHP code that called the function, with its class; `{main}` and the file for the top
        /// level.
        Caller = "caller",
        /// `user`, `internal` or `memory`.
        Type = "type",
        /// Process id.
        Pid = "pid",
    }
}

impl SampleKey {
    /// Returns the key of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Returns true if the key's column is numeric.
    pub(crate) const fn is_number(self) -> bool {
        matches!(self, Self::Line | Self::Pid)
    }
}

/// A report over samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleReport {
    /// Keys of a row.
    pub keys: Vec<SampleKey>,
    /// Conditions, all of which a sample must meet. One without the key has the empty text.
    pub filters: Vec<(SampleKey, Pattern)>,
    /// Length of the window.
    pub window: Duration,
}

impl SampleReport {
    /// Parses keys and filters as forms write them: `"script"`, `"function=md5"`, `"type!=memory"`,
    /// `"file=/lib/*"`.
    ///
    /// # Errors
    /// The list, the index in it, and what is wrong there.
    pub(crate) fn read(
        keys: &[String],
        filters: &[String],
        window: Duration,
    ) -> Result<Self, (&'static str, usize, String)> {
        let names = SampleKey::ALL.map(SampleKey::name);
        let named = |name: &str| {
            let unknown = || format!("'{name}' is not a key of samples{}", accepting(name, &names));
            SampleKey::named(name).ok_or_else(unknown)
        };
        if keys.is_empty() {
            let problem = format!("there must be at least one key, of {}", names.join(", "));
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
            let Some((key, Some(pattern))) = Pattern::of_condition(text) else {
                return Err(wrong(format!(
                    "'{text}': a filter is KEY=value, KEY!=value or KEY=prefix*, where KEY is one of {}",
                    names.join(", ")
                )));
            };
            report.filters.push((named(key).map_err(wrong)?, pattern));
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_a_filter_do_not_count() {
        let (keys, filters) = (["script".to_owned()], [" function != md5 ".to_owned()]);
        let report = SampleReport::read(&keys, &filters, Duration::from_secs(1)).unwrap();
        let wanted = Pattern::Differs("md5".to_owned());
        assert_eq!(report.filters, [(SampleKey::Function, wanted)]);
    }
}
