//! The table of Pinba's kinds: which keys each has, and how its `index_value` is put together.
//!
//! One row a kind, in the order of Pinba's own type numbers (`info` 8, `report1` 9, ... `rtagN_report` 41), which
//! `active_reports` shows. The odd separators are what clients send back to histogram views; they stay.

use crate::report::definition::{Field, Level, Occurrence};
use crate::report::shape::Part::{self, Key, Text};

use Field::{Hostname, Schema, ScriptName, ServerName, Status};

/// A base report.
#[derive(Debug)]
pub(in crate::report) struct BaseKind {
    /// `report1`, ...
    pub(in crate::report) name: &'static str,
    /// The table that Pinba makes for it.
    pub(in crate::report) table: &'static str,
    /// Its keys, in column order.
    pub(in crate::report) keys: &'static [Field],
    /// Its `index_value`.
    pub(in crate::report) index: &'static [Part],
}

/// Number of the type `info`.
pub(in crate::report) const INFO_NUMBER: usize = 8;
/// Number of the first of [`BASE_KINDS`].
pub(in crate::report) const BASE_NUMBER: usize = 9;
/// Number of the first of [`TAG_KINDS`].
pub(in crate::report) const TAG_NUMBER: usize = 27;

const fn base(
    name: &'static str,
    table: &'static str,
    keys: &'static [Field],
    index: &'static [Part],
) -> BaseKind {
    BaseKind {
        name,
        table,
        keys,
        index,
    }
}

/// `report1` to `report18`.
#[rustfmt::skip]
pub(in crate::report) static BASE_KINDS: [BaseKind; 18] = [
    base("report1", "report_by_script_name", &[ScriptName], &[Key(0)]),
    base("report2", "report_by_server_name", &[ServerName], &[Key(0)]),
    base("report3", "report_by_hostname", &[Hostname], &[Key(0)]),
    base("report4", "report_by_server_and_script",
        &[ServerName, ScriptName], &[Key(0), Text("/"), Key(1)]),
    base("report5", "report_by_hostname_and_script",
        &[Hostname, ScriptName], &[Key(0), Text("/"), Key(1)]),
    base("report6", "report_by_hostname_and_server",
        &[Hostname, ServerName], &[Key(0), Text("/"), Key(1)]),
    base("report7", "report_by_hostname_server_and_script",
        &[Hostname, ServerName, ScriptName], &[Key(0), Text(":"), Key(1), Text("/"), Key(2)]),
    base("report8", "report_by_status", &[Status], &[Key(0)]),
    base("report9", "report_by_script_and_status",
        &[ScriptName, Status], &[Key(1), Text(":"), Key(0)]),
    // Status and name with nothing between them, here and in the next two.
    base("report10", "report_by_server_and_status", &[ServerName, Status], &[Key(1), Key(0)]),
    base("report11", "report_by_hostname_and_status", &[Hostname, Status], &[Key(1), Key(0)]),
    base("report12", "report_by_hostname_script_and_status",
        &[Hostname, ScriptName, Status], &[Key(2), Key(0), Text("/"), Key(1)]),
    base("report13", "report_by_schema", &[Schema], &[Key(0)]),
    base("report14", "report_by_script_and_schema",
        &[ScriptName, Schema], &[Key(1), Text(":"), Key(0)]),
    base("report15", "report_by_server_and_schema",
        &[ServerName, Schema], &[Key(1), Text(":"), Key(0)]),
    base("report16", "report_by_hostname_and_schema",
        &[Hostname, Schema], &[Key(1), Text(":"), Key(0)]),
    base("report17", "report_by_hostname_script_and_schema",
        &[Hostname, ScriptName, Schema], &[Key(2), Text("/"), Key(0), Text("/"), Key(1)]),
    base("report18", "report_by_hostname_status_and_schema",
        &[Hostname, Status, Schema], &[Key(1), Text(":"), Key(2), Text("/"), Key(0)]),
];

/// How many tags a tag report names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Tags {
    /// `tag_*`
    One,
    /// `tag2_*`
    Two,
    /// `tagN_*`
    Many,
}

/// A report by timer tags or request tags.
#[derive(Debug)]
pub(in crate::report) struct TagKind {
    /// `tag_info`, ...
    pub(in crate::report) name: &'static str,
    /// Timer tags or request tags.
    pub(in crate::report) level: Level,
    /// How many.
    pub(in crate::report) tags: Tags,
    /// Fields before the tags, in key and column order.
    pub(in crate::report) before: &'static [Field],
    /// Fields after the tags.
    pub(in crate::report) after: &'static [Field],
}

impl TagKind {
    /// Which of several tags of one name counts.
    pub(in crate::report) fn occurrence(&self) -> Occurrence {
        match (self.level, self.tags) {
            (Level::Timer, Tags::Two) => Occurrence::Last,
            _ => Occurrence::First,
        }
    }

    /// The `index_value` for so many tags: timer-tag reports name script, host and server before the tags,
    /// request-tag reports leave the host out; `tagN` kinds end with a bar.
    pub(in crate::report) fn index(&self, tags: usize) -> Vec<Part> {
        let first_tag = self.before.len();
        let mut keys: Vec<usize> = Vec::with_capacity(tags + 3);
        if self.level == Level::Timer {
            keys.extend(0..first_tag);
            keys.extend(first_tag + tags..first_tag + tags + self.after.len());
        }
        keys.extend(first_tag..first_tag + tags);
        let mut index: Vec<Part> = keys
            .into_iter()
            .flat_map(|key| [Key(key), Text("|")])
            .collect();
        if self.tags != Tags::Many {
            index.pop();
        }
        index
    }
}

const fn tag(
    name: &'static str,
    level: Level,
    tags: Tags,
    before: &'static [Field],
    after: &'static [Field],
) -> TagKind {
    TagKind {
        name,
        level,
        tags,
        before,
        after,
    }
}

/// The nine timer-tag kinds and the six request-tag kinds.
pub(in crate::report) static TAG_KINDS: [TagKind; 15] = [
    tag("tag_info", Level::Timer, Tags::One, &[], &[]),
    tag("tag2_info", Level::Timer, Tags::Two, &[], &[]),
    tag("tagN_info", Level::Timer, Tags::Many, &[], &[]),
    tag("tag_report", Level::Timer, Tags::One, &[ScriptName], &[]),
    tag("tag2_report", Level::Timer, Tags::Two, &[ScriptName], &[]),
    tag("tagN_report", Level::Timer, Tags::Many, &[ScriptName], &[]),
    tag(
        "tag_report2",
        Level::Timer,
        Tags::One,
        &[ScriptName],
        &[Hostname, ServerName],
    ),
    tag(
        "tag2_report2",
        Level::Timer,
        Tags::Two,
        &[ScriptName],
        &[Hostname, ServerName],
    ),
    tag(
        "tagN_report2",
        Level::Timer,
        Tags::Many,
        &[ScriptName],
        &[Hostname, ServerName],
    ),
    tag("rtag_info", Level::Request, Tags::One, &[], &[]),
    tag("rtag2_info", Level::Request, Tags::Two, &[], &[]),
    tag("rtagN_info", Level::Request, Tags::Many, &[], &[]),
    tag("rtag_report", Level::Request, Tags::One, &[Hostname], &[]),
    tag("rtag2_report", Level::Request, Tags::Two, &[Hostname], &[]),
    tag("rtagN_report", Level::Request, Tags::Many, &[Hostname], &[]),
];

/// A kind of Pinba, found by its name.
#[derive(Debug, Clone, Copy)]
pub(in crate::report) enum V1Kind {
    Info,
    Base(&'static BaseKind),
    Tag(&'static TagKind),
}

impl V1Kind {
    /// The kind of this name and its type number.
    pub(in crate::report) fn named(name: &str) -> Option<(Self, usize)> {
        if name == "info" {
            return Some((Self::Info, INFO_NUMBER));
        }
        let base = BASE_KINDS
            .iter()
            .zip(BASE_NUMBER..)
            .find(|(kind, _)| kind.name == name);
        let base = base.map(|(kind, number)| (Self::Base(kind), number));
        base.or_else(|| {
            let tag = TAG_KINDS
                .iter()
                .zip(TAG_NUMBER..)
                .find(|(kind, _)| kind.name == name);
            tag.map(|(kind, number)| (Self::Tag(kind), number))
        })
    }
}
