//! `[[rewrite]]`: rules that give names another form before anything is counted under them.
//!
//! `check.rs` hands over the entries as typed, in their order; each becomes a [`RewriteRule`], or errors with file, line
//! and key. Patterns are compiled here, once, with limits on their size, so that `pinbad check` finds what a start would
//! find; `wire::NameRules` runs them in the receiver threads.

mod template;

use std::fmt;

use regex::{Regex, RegexBuilder};
use toml::Value;

use super::error::ConfigError;
use super::file::ConfiguredReport;
use super::keys::nearest;
use super::place::Place;
use crate::limits::{
    REWRITE_DFA_BYTES_MAX, REWRITE_PROGRAM_BYTES_MAX, REWRITE_TYPED_BYTES_MAX, REWRITES_MAX,
    TEXT_BYTES_MAX,
};
pub use template::{Piece, Template};

/// A rule, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct RewriteRule {
    /// Where the entry begins.
    pub place: Place,
    /// Which text it is about.
    pub field: RewriteField,
    /// Which texts match, and what becomes of them.
    pub change: Change,
    /// Whether no further rule is asked about a text that matched.
    pub stop: bool,
}

/// The text that a rule is about. Shows as it is typed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RewriteField {
    /// `hostname`
    Hostname,
    /// `server_name`
    ServerName,
    /// `script_name`
    ScriptName,
    /// `schema`
    Schema,
    /// `+name`: the value of the request tags of this name.
    RequestTag(String),
    /// `@name`: the value of the timer tags of this name.
    TimerTag(String),
}

/// What a rule does to a text. All comparing is by case unless a pattern says `(?i)`.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Each match of a regular expression becomes what the template says.
    Pattern(Pattern, Template),
    /// Everything from the first occurrence of this on goes.
    Cut(String),
    /// Each segment between slashes that is nothing but digits becomes this.
    Digits(String),
    /// A text that begins with the first becomes the second, all of it.
    Prefix(String, String),
}

/// A compiled regular expression; the same as another if it was typed the same.
#[derive(Debug, Clone)]
pub struct Pattern(pub Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Change {
    /// The key that says what matches.
    #[must_use]
    pub const fn form(&self) -> &'static str {
        match self {
            Self::Pattern(..) => "pattern",
            Self::Cut(_) => "cut",
            Self::Digits(_) => "digits",
            Self::Prefix(..) => "prefix",
        }
    }

    /// What is looked for, as typed; `None` for digits.
    #[must_use]
    pub fn pattern(&self) -> Option<&str> {
        match self {
            Self::Pattern(pattern, _) => Some(pattern.0.as_str()),
            Self::Cut(text) | Self::Prefix(text, _) => Some(text),
            Self::Digits(_) => None,
        }
    }

    /// What it becomes, as typed.
    #[must_use]
    pub fn replace(&self) -> &str {
        match self {
            Self::Pattern(_, template) => template.typed(),
            Self::Cut(_) => "",
            Self::Digits(text) | Self::Prefix(_, text) => text,
        }
    }
}

impl fmt::Display for RewriteField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hostname => write!(f, "hostname"),
            Self::ServerName => write!(f, "server_name"),
            Self::ScriptName => write!(f, "script_name"),
            Self::Schema => write!(f, "schema"),
            Self::RequestTag(name) => write!(f, "+{name}"),
            Self::TimerTag(name) => write!(f, "@{name}"),
        }
    }
}

/// The keys of an entry.
const KEYS: [&str; 7] = [
    "field", "pattern", "cut", "digits", "prefix", "replace", "stop",
];

/// Those that say what matches: one of them in each entry.
const FORMS: [&str; 4] = ["pattern", "cut", "digits", "prefix"];

const FIELD: &str = "hostname, server_name, script_name, schema, \"+tag\" for the value of a request tag, \"@tag\" \
                     for that of a timer tag";
const PATTERN: &str = "a regular expression, best in single quotes, as in '^/user/\\d+'; see \
                       https://docs.rs/regex/latest/regex/#syntax (no look-around, no back-references)";
const REPLACE: &str =
    "a text; $1 to $99 and ${name} stand for groups of the pattern, $$ for a dollar";

/// The rules of all entries, in their order; what is wrong goes to `errors` and is left out.
pub(super) fn read(
    entries: &[ConfiguredReport],
    errors: &mut Vec<ConfigError>,
) -> Vec<RewriteRule> {
    if let Some(beyond) = entries.get(REWRITES_MAX) {
        errors.push(ConfigError::Conflict {
            place: beyond.place.clone(),
            problem: format!(
                "rewrite: {} entries; accepted: up to {REWRITES_MAX}",
                entries.len()
            ),
        });
    }
    entries
        .iter()
        .filter_map(|entry| Entry { entry, errors }.read().ok())
        .collect()
}

/// One entry while it is read.
struct Entry<'e> {
    entry: &'e ConfiguredReport,
    errors: &'e mut Vec<ConfigError>,
}

/// Something of an entry is not accepted; the error has been pushed.
struct Refused;

impl Entry<'_> {
    fn read(mut self) -> Result<RewriteRule, Refused> {
        self.refuse_unknown();
        // All three first: who has a slip in each learns of each.
        let (field, change, stop) = (self.field(), self.change(), self.stop());
        Ok(RewriteRule {
            place: self.entry.place.clone(),
            field: field?,
            change: change?,
            stop: stop?,
        })
    }

    fn refuse_unknown(&mut self) {
        for key in self.entry.table.keys() {
            if KEYS.contains(&key.as_str()) {
                continue;
            }
            let place = self.entry.place_of(key).clone();
            self.errors.push(ConfigError::Unknown {
                typed: format!("rewrite.{key} = {}", place.given()),
                what: "setting",
                hint: nearest(key, KEYS).map_or_else(
                    || format!("[[rewrite]] takes {}", KEYS.join(", ")),
                    |meant| format!("did you mean rewrite.{meant}?"),
                ),
                place,
            });
        }
    }

    fn field(&mut self) -> Result<RewriteField, Refused> {
        let typed = self.text("field", FIELD)?;
        let tag = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        let field = match typed.as_str() {
            "hostname" => Some(RewriteField::Hostname),
            "server_name" => Some(RewriteField::ServerName),
            "script_name" => Some(RewriteField::ScriptName),
            "schema" => Some(RewriteField::Schema),
            other => match (other.strip_prefix('+'), other.strip_prefix('@')) {
                (Some(name), _) => tag(name).map(RewriteField::RequestTag),
                (_, Some(name)) => tag(name).map(RewriteField::TimerTag),
                (None, None) => None,
            },
        };
        field.map_or_else(
            || self.refuse("field", "not a text that rules can change", FIELD),
            Ok,
        )
    }

    fn change(&mut self) -> Result<Change, Refused> {
        let given: Vec<&str> = FORMS
            .into_iter()
            .filter(|form| self.entry.table.contains_key(*form))
            .collect();
        let accepted = "one of pattern, cut, digits, prefix";
        match given[..] {
            ["pattern"] => self.pattern(),
            ["cut"] => {
                self.refuse_replace("cut", "leave it out: what is cut off is gone")?;
                let accepted = "the text from which on all goes, as in \"?\"";
                let cut = self.text("cut", accepted)?;
                self.refuse_empty("cut", &cut, accepted)?;
                Ok(Change::Cut(cut))
            }
            ["digits"] => {
                let accepted = "leave it out: digits itself says what they become";
                self.refuse_replace("digits", accepted)?;
                let accepted = "the text that takes the place of digits, as in \"*\"";
                self.text("digits", accepted).map(Change::Digits)
            }
            ["prefix"] => {
                let accepted = "the beginning of texts, as in \"/static/\"";
                let prefix = self.text("prefix", accepted);
                let whole = "what a text that begins so becomes, all of it, as in \"/static/*\"";
                let replace = self.text("replace", whole);
                let prefix = prefix?;
                self.refuse_empty("prefix", &prefix, accepted)?;
                Ok(Change::Prefix(prefix, replace?))
            }
            [first, second, ..] => {
                let problem = format!("there is {first} too, and an entry matches in one way");
                self.refuse(second, &problem, accepted)
            }
            _ => self.missing("nothing says which texts match", accepted),
        }
    }

    fn pattern(&mut self) -> Result<Change, Refused> {
        let (typed, replace) = (self.text("pattern", PATTERN), self.text("replace", REPLACE));
        let typed = typed?;
        self.refuse_empty("pattern", &typed, PATTERN)?;
        let compiled = RegexBuilder::new(&typed)
            .size_limit(REWRITE_PROGRAM_BYTES_MAX)
            .dfa_size_limit(REWRITE_DFA_BYTES_MAX)
            .build();
        let regex = match compiled {
            Ok(regex) => regex,
            Err(error) => return self.refuse("pattern", &why(&error), PATTERN),
        };
        match Template::parse(&replace?, &regex) {
            Ok(template) => Ok(Change::Pattern(Pattern(regex), template)),
            Err(problem) => self.refuse("replace", &problem, REPLACE),
        }
    }

    fn stop(&mut self) -> Result<bool, Refused> {
        match self.entry.table.get("stop") {
            None => Ok(false),
            Some(Value::Boolean(stop)) => Ok(*stop),
            Some(_) => self.refuse("stop", "neither true nor false", "true, false"),
        }
    }

    /// The text under `key`, which has to be there.
    fn text(&mut self, key: &str, accepted: &str) -> Result<String, Refused> {
        match self.entry.table.get(key) {
            Some(Value::String(text)) if text.len() > REWRITE_TYPED_BYTES_MAX => {
                let problem = format!("longer than {REWRITE_TYPED_BYTES_MAX} bytes");
                self.refuse(key, &problem, accepted)
            }
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => self.refuse(key, "not a text", accepted),
            None => self.missing(&format!("no {key}"), &format!("{key} = {accepted}")),
        }
    }

    /// An empty text is found everywhere, which nobody means.
    fn refuse_empty(&mut self, key: &str, text: &str, accepted: &str) -> Result<(), Refused> {
        if text.is_empty() {
            return self.refuse(key, "empty", accepted);
        }
        Ok(())
    }

    /// `form` has no use for a `replace`.
    fn refuse_replace(&mut self, form: &str, accepted: &str) -> Result<(), Refused> {
        if self.entry.table.contains_key("replace") {
            return self.refuse("replace", &format!("{form} takes none"), accepted);
        }
        Ok(())
    }

    fn refuse<T>(&mut self, key: &str, problem: &str, accepted: &str) -> Result<T, Refused> {
        self.errors.push(ConfigError::Value {
            place: self.entry.place_of(key).clone(),
            key: format!("rewrite.{key}"),
            problem: problem.to_owned(),
            accepted: accepted.to_owned(),
        });
        Err(Refused)
    }

    /// The same for what is not there at all.
    fn missing<T>(&mut self, problem: &str, accepted: &str) -> Result<T, Refused> {
        self.errors.push(ConfigError::Conflict {
            place: self.entry.place.clone(),
            problem: format!("rewrite: {problem}; accepted: {accepted}"),
        });
        Err(Refused)
    }
}

/// Why a pattern cannot be compiled, in one line: the last of what `regex` says, which draws the place above it.
fn why(error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(bytes) = error {
        return format!(
            "it takes more than {} KiB compiled; fewer or smaller repetitions, or [0-9] for \\d and [a-z] for \\w, \
             make it smaller",
            bytes / 1024
        );
    }
    let said = error.to_string();
    let last = said.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

const _: () = assert!(REWRITE_TYPED_BYTES_MAX <= TEXT_BYTES_MAX);

#[cfg(test)]
mod tests;
