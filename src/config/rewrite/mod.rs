//! `[[rewrite]]`: rules that rewrite names before anything is counted under them.
//!
//! Each entry becomes a [`RewriteRule`], or errors with file, line and key. Patterns are compiled
//! once, here, with limits on their size, so that `pinbad check` finds the same problems as a
//! start; `input::rewrite::NameRules` runs them in the receiver threads.

mod template;

use std::fmt;

use regex::{Regex, RegexBuilder};

use super::kinds::{Kind, switch};
use super::list_entry::EntryReader;
use super::location::Location;
use crate::limits::{
    REWRITE_DFA_BYTES_MAX, REWRITE_PROGRAM_BYTES_MAX, REWRITE_TEXT_BYTES_MAX, TEXT_BYTES_MAX,
};
pub use template::{Piece, Template};

/// A checked rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RewriteRule {
    /// Where the entry begins.
    pub location: Location,
    /// The text to rewrite.
    pub field: RewriteField,
    /// The match and its replacement.
    pub change: Change,
    /// Whether a match ends the rewriting of that text.
    pub stop: bool,
}

/// The text that a rule rewrites. Displays as written in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RewriteField {
    /// A field such as `script_name`.
    Text(TextField),
    /// The value of all tags of a name: `+name` or `@name`.
    Tag(TagOf, String),
}

/// A text field of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextField {
    /// The physical host.
    Hostname,
    /// The virtual host.
    ServerName,
    /// The script.
    ScriptName,
    /// The schema; rewritten only if one was sent.
    Schema,
}

/// Names of the fields, indexed by `TextField as usize`.
pub const TEXT_FIELDS: [(&str, TextField); 4] = [
    ("hostname", TextField::Hostname),
    ("server_name", TextField::ServerName),
    ("script_name", TextField::ScriptName),
    ("schema", TextField::Schema),
];

/// The owner of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TagOf {
    /// The request's: `+name`.
    Request,
    /// A timer's: `@name`.
    Timer,
}

/// The rewriting of a text. Matching is case-sensitive unless a pattern says `(?i)`.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Replaces each match of a regular expression by the template.
    Pattern(Pattern, Template),
    /// Cuts the text at the first occurrence of this.
    Cut(String),
    /// Replaces each path segment that consists of digits alone.
    Digits(String),
    /// Replaces a text that begins with the first string by the second, as a whole.
    Prefix(String, String),
}

/// A compiled regular expression; equal if the source texts are equal.
#[derive(Debug, Clone)]
pub struct Pattern(pub Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Change {
    /// The key that holds the match.
    pub(crate) const fn form(&self) -> &'static str {
        match self {
            Self::Pattern(..) => "pattern",
            Self::Cut(_) => "cut",
            Self::Digits(_) => "digits",
            Self::Prefix(..) => "prefix",
        }
    }

    /// The text to search for, as given; `None` for digits.
    pub(crate) fn pattern(&self) -> Option<&str> {
        match self {
            Self::Pattern(pattern, _) => Some(pattern.0.as_str()),
            Self::Cut(text) | Self::Prefix(text, _) => Some(text),
            Self::Digits(_) => None,
        }
    }

    /// The replacement, as given.
    pub(crate) fn replace(&self) -> &str {
        match self {
            Self::Pattern(_, template) => &template.source,
            Self::Cut(_) => "",
            Self::Digits(text) | Self::Prefix(_, text) => text,
        }
    }
}

impl fmt::Display for RewriteField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(field) => f.write_str(TEXT_FIELDS[*field as usize].0),
            Self::Tag(TagOf::Request, name) => write!(f, "+{name}"),
            Self::Tag(TagOf::Timer, name) => write!(f, "@{name}"),
        }
    }
}

/// The keys of an entry.
const KEYS: [&str; 7] = ["field", "pattern", "cut", "digits", "prefix", "replace", "stop"];

impl EntryReader<'_> {
    /// Reads a rule.
    pub(super) fn rule(&mut self) -> Option<RewriteRule> {
        self.refuse_unknown(&KEYS, |_| None);
        let (field, change) = (self.required("field", &field()), self.change());
        Some(RewriteRule {
            location: self.entry.location.clone(),
            stop: self.read("stop", &switch()).unwrap_or(false),
            field: field?,
            change: change?,
        })
    }

    fn change(&mut self) -> Option<Change> {
        let accepted = "one of pattern, cut, digits, prefix";
        match self.given(["pattern", "cut", "digits", "prefix"])[..] {
            ["pattern"] => {
                let accepted = "a text; $1 to $99 and ${name} stand for groups of the pattern, $$ for a dollar";
                let replace = self.required("replace", &text(accepted));
                let regex = self.required("pattern", &pattern())?;
                match Template::parse(&replace?, &regex) {
                    Ok(template) => Some(Change::Pattern(Pattern(regex), template)),
                    Err(problem) => self.refuse("replace", &problem, accepted),
                }
            }
            ["cut"] => {
                self.refuse_replace("cut", "leave it out: what is cut off is gone")?;
                let kind = some_text("the text from which on all goes, as in \"?\"");
                self.required("cut", &kind).map(Change::Cut)
            }
            ["digits"] => {
                let accepted = "leave it out: digits itself says what they become";
                self.refuse_replace("digits", accepted)?;
                let kind = text("the text that takes the place of digits, as in \"*\"");
                self.required("digits", &kind).map(Change::Digits)
            }
            ["prefix"] => {
                let kind = some_text("the beginning of texts, as in \"/static/\"");
                let prefix = self.required("prefix", &kind);
                let kind =
                    text("what a text that begins so becomes, all of it, as in \"/static/*\"");
                let replace = self.required("replace", &kind);
                Some(Change::Prefix(prefix?, replace?))
            }
            [first, second, ..] => {
                let problem = format!("there is {first} too, and only one of them may be given");
                self.refuse(second, &problem, accepted)
            }
            _ => self.missing("nothing says which texts match", accepted),
        }
    }

    /// Refuses a `replace` that `form` does not use.
    fn refuse_replace(&mut self, form: &str, accepted: &str) -> Option<()> {
        match self.given(["replace"])[..] {
            [] => Some(()),
            _ => self.refuse("replace", &format!("{form} takes none"), accepted),
        }
    }
}

fn field() -> Kind<RewriteField> {
    let accepted = "hostname, server_name, script_name, schema, \"+tag\" for the value of a request tag, \"@tag\" \
                    for that of a timer tag";
    Kind::new(accepted, |given| {
        let text = given.text().unwrap_or_default();
        if let Some((_, field)) = TEXT_FIELDS.iter().find(|(name, _)| *name == text) {
            return Ok(RewriteField::Text(*field));
        }
        let of = match text.as_bytes() {
            [b'+', _, ..] => TagOf::Request,
            [b'@', _, ..] => TagOf::Timer,
            _ => return Err("not a text that rules can change".into()),
        };
        Ok(RewriteField::Tag(of, text[1..].to_owned()))
    })
}

fn text(accepted: &str) -> Kind<String> {
    Kind::new(accepted, |given| match given.text().ok_or("not a text")? {
        text if text.len() <= REWRITE_TEXT_BYTES_MAX => Ok(text.to_owned()),
        _ => Err(format!("longer than {REWRITE_TEXT_BYTES_MAX} bytes").into()),
    })
}

/// A text that must not be empty: an empty text is found everywhere, which nobody means.
fn some_text(accepted: &str) -> Kind<String> {
    text(accepted).refusing(|text| text.is_empty().then_some("empty"))
}

fn pattern() -> Kind<Regex> {
    let accepted = "a regular expression, best in single quotes, as in '^/user/\\d+'; see \
                    https://docs.rs/regex/latest/regex/#syntax (no look-around, no back-references)";
    some_text(accepted).and_then(|text| {
        let regex = RegexBuilder::new(&text)
            .size_limit(REWRITE_PROGRAM_BYTES_MAX)
            .dfa_size_limit(REWRITE_DFA_BYTES_MAX)
            .build();
        Ok(regex.map_err(|error| why(&error))?)
    })
}

/// The reason why a pattern does not compile, as one line: the last line of the error of `regex`,
/// which draws the place above it.
fn why(error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(bytes) = error {
        return format!(
            "it takes more than {} KiB compiled; fewer or smaller repetitions, or [0-9] for \\d and [a-z] for \\w, \
             make it smaller",
            bytes / 1024
        );
    }
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

const _: () = assert!(REWRITE_TEXT_BYTES_MAX <= TEXT_BYTES_MAX);

#[cfg(test)]
mod tests;
