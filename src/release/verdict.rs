//! The verdict on a release, and the differences that it lists.

use serde::{Deserialize, Serialize};

use super::judge::REQUESTS_MIN;
use crate::value::text::{change, counted, name_or_empty, percent, roughly, secs, visible};

/// A script, or all of them, became slower.
pub const SLOWER: &str = "slower";
/// Something became faster and nothing slower.
pub const FASTER: &str = "faster";
/// More errors, or a new status of errors.
pub const ERRORS: &str = "errors";
/// Nothing beyond what the old release varies by itself.
pub const NO_CHANGE: &str = "no notable change";
/// Too few requests, or too short a past.
pub const NOT_ENOUGH: &str = "not enough to judge";

/// Kinds of findings beside slower and faster; a status follows the last.
pub(super) const MORE: &str = "more errors";
pub(super) const FEWER: &str = "fewer errors";
pub(super) const STATUS: &str = "status ";

/// A difference between two releases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The script; `None` for all of them.
    pub script: Option<String>,
    /// `slower`, `faster`, `more errors`, `fewer errors`, or `status 503`.
    pub what: String,
    /// Typical time (geometric mean) in seconds, or share of errors; of a status its requests.
    pub before: f64,
    /// The same of the new release.
    pub after: f64,
    /// Chance of such a difference without a change.
    pub p: f64,
}

impl Finding {
    /// Returns the texts of both values.
    pub(crate) fn values(&self) -> [String; 2] {
        [self.before, self.after].map(|it| match &*self.what {
            SLOWER | FASTER => secs(it),
            MORE | FEWER => percent(it * 100.0),
            _ => counted(it as u64, "request"),
        })
    }

    /// Returns the change as a share; infinite from nothing.
    pub(crate) fn change(&self) -> f64 {
        self.after / self.before - 1.0
    }

    /// Returns true if it is for the better.
    pub(crate) fn is_good(&self) -> bool {
        matches!(&*self.what, FASTER | FEWER)
    }

    /// The verdict that it makes.
    pub(super) fn result(&self, error_status: u32) -> &'static str {
        let status = self.what.strip_prefix(STATUS).and_then(|it| it.parse().ok());
        match &*self.what {
            SLOWER => SLOWER,
            FASTER => FASTER,
            MORE => ERRORS,
            _ if status.is_some_and(|it: u32| it >= error_status) => ERRORS,
            _ => NO_CHANGE,
        }
    }

    fn text(&self) -> String {
        let script = visible(self.script.as_deref().map_or("all scripts", name_or_empty));
        let [before, after] = self.values();
        match &*self.what {
            SLOWER | FASTER => format!("{script} {} ({before} to {after})", change(self.change())),
            what => format!("{script} {what} ({before} to {after})"),
        }
    }
}

/// Result of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// When it was made, unix seconds.
    pub at: u64,
    /// Seconds of the new release that it covers.
    pub seconds: u64,
    /// One of the five words above.
    pub result: String,
    /// The result and the largest difference, in one line.
    pub text: String,
    /// The release before.
    pub against: String,
    /// Number of tests.
    pub tests: usize,
    /// Detection limit: in half of the scripts a change of time of this share would have been
    /// found.
    pub smallest_seen: Option<f64>,
    /// Mean time of the scripts that both have, weighted by the same mix, seconds: before and
    /// after.
    pub same_mix: Option<[f64; 2]>,
    /// Medians of the same, where the times before are still known.
    pub same_mix_p50: Option<[f64; 2]>,
    /// 95th percentiles of the same.
    pub same_mix_p95: Option<[f64; 2]>,
    /// Differences, those that matter most first.
    pub findings: Vec<Finding>,
    /// Scripts that only the new release has.
    pub new: Vec<String>,
    /// Scripts that only the old release has.
    pub gone: Vec<String>,
}

impl Verdict {
    /// Whether somebody should look.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(&*self.result, SLOWER | ERRORS)
    }

    /// The verdict in a line, over so many scripts.
    pub(super) fn words(&self, scripts: usize, too_short: Option<&str>) -> String {
        let mut text = self.result.clone();
        let more = |count: usize| match count {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        if self.result == NOT_ENOUGH {
            let span = roughly(self.seconds as f64);
            let few =
                format!("no script has {REQUESTS_MIN} requests in {span} under both releases");
            text += &format!(": {}", too_short.unwrap_or(&few));
        } else if let Some(worst) = self.findings.first() {
            let alike = self.findings.iter().filter(|it| it.what == worst.what).count();
            text += &format!(": {}{}", worst.text(), more(alike));
            let others = (self.findings.len() - alike) as u64;
            if others > 0 {
                text += &format!("; {}", counted(others, "other change"));
            }
        } else if let Some(seen) = self.smallest_seen {
            let of = if scripts == 1 { "" } else { "in half of them " };
            let (scripts, seen) = (counted(scripts as u64, "script"), percent(seen * 100.0));
            text += &format!(" in {scripts}; {of}a change of {seen} would have been noticed");
        }
        for (names, what) in [(&self.new, "new"), (&self.gone, "gone")] {
            if let Some(first) = names.first() {
                text +=
                    &format!("; {what}: {}{}", visible(name_or_empty(first)), more(names.len()));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_without_a_name_is_said_to_be_one() {
        let (script, what) = (Some(String::new()), SLOWER.to_owned());
        let finding = Finding { script, what, before: 0.1, after: 0.2, p: 0.0 };
        let new = vec![String::new(), "/a".to_owned()];
        let result = SLOWER.to_owned();
        let verdict = Verdict { result, findings: vec![finding], new, ..Verdict::default() };
        let text = "slower: (empty) +100 % (100 ms to 200 ms); new: (empty) and 1 more";
        assert_eq!(verdict.words(1, None), text);
    }
}
