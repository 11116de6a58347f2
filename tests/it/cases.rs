//! Tables of cases, a line a case, and checks that show what they saw.
//!
//! The unit tests of `src` have this file too: it knows nothing of daemons.

use std::fmt::Arguments;

use serde_json::Value as Json;

/// A table of cases: rows as `input => expected, expected;`, each of which becomes a tuple.
macro_rules! cases {
    ($($first:expr => $($cell:expr),+;)+) => {
        [$(($first, $($cell),+)),+]
    };
}

/// Asserts that a text has all of these parts: `assert_has!(text => "one", "another")`. A format
/// behind a semicolon names the case.
macro_rules! assert_has {
    ($text:expr => $($part:expr),+) => {
        assert_has!($text => $($part),+; "text")
    };
    ($text:expr => $($part:expr),+; $($case:tt)+) => {
        $crate::cases::has(
            AsRef::<str>::as_ref(&$text),
            &[$(AsRef::<str>::as_ref(&$part)),+],
            format_args!($($case)+),
        )
    };
}

/// Asserts that a text has none of these parts, otherwise as [`assert_has`].
macro_rules! assert_lacks {
    ($text:expr => $($part:expr),+) => {
        assert_lacks!($text => $($part),+; "text")
    };
    ($text:expr => $($part:expr),+; $($case:tt)+) => {
        $crate::cases::lacks(
            AsRef::<str>::as_ref(&$text),
            &[$(AsRef::<str>::as_ref(&$part)),+],
            format_args!($($case)+),
        )
    };
}

/// Asserts that an object of JSON has these members, whatever else it has:
/// `assert_members!(row => {"kind": "tag", "rows": 2})`.
macro_rules! assert_members {
    ($object:expr => $members:tt) => {
        $crate::cases::members(&$object, &serde_json::json!($members))
    };
}

#[track_caller]
pub(crate) fn has(text: &str, parts: &[&str], case: Arguments<'_>) {
    for part in parts {
        assert!(text.contains(part), "{case}: {part:?} is not in {text}");
    }
}

#[track_caller]
pub(crate) fn lacks(text: &str, parts: &[&str], case: Arguments<'_>) {
    for part in parts {
        assert!(!text.contains(part), "{case}: {part:?} is in {text}");
    }
}

#[track_caller]
pub(crate) fn members(object: &Json, expected: &Json) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&object[name], value, "{name} of {object}");
    }
}
