//! The table of Pinba's kinds: which keys each has, and how its `index_value` is put together.
//!
//! One row a kind, in the order of Pinba's own type numbers (`info` 8, `report1` 9, ... `rtagN_report` 41), which
//! `active_reports` shows. The odd separators are what clients send back to histogram views; they stay.

use crate::report::definition::{Field, Kind, Level, Occurrence};
use crate::report::layout::IndexPart::{self, Key, Text};

use Field::{Hostname, Schema, ScriptName, ServerName, Status};
use Tags::{Many, One, Two};

/// How many tags a kind takes as parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tags {
    /// `info`, `report1` to `report18`
    None,
    /// `tag_*`
    One,
    /// `tag2_*`
    Two,
    /// `tagN_*`
    Many,
}

/// A kind of Pinba.
#[derive(Debug)]
pub(super) struct V1Kind {
    /// `report1`, ...
    pub(super) name: &'static str,
    /// The table that Pinba makes for it; empty: none.
    pub(super) table: &'static str,
    pub(super) level: Level,
    /// Fields before the tags, in key and column order.
    pub(super) before: &'static [Field],
    pub(super) tags: Tags,
    /// Fields after the tags.
    pub(super) after: &'static [Field],
    /// The `index_value` of a kind without tags: digits are keys, the rest stands as it is.
    index: &'static str,
}

/// Number of the first of [`KINDS`].
const FIRST_NUMBER: usize = 8;

const fn base(
    name: &'static str,
    table: &'static str,
    before: &'static [Field],
    index: &'static str,
) -> V1Kind {
    V1Kind {
        name,
        table,
        level: Level::Request,
        before,
        tags: Tags::None,
        after: &[],
        index,
    }
}

const fn tag(
    name: &'static str,
    level: Level,
    before: &'static [Field],
    tags: Tags,
    after: &'static [Field],
) -> V1Kind {
    V1Kind {
        name,
        table: "",
        level,
        before,
        tags,
        after,
        index: "",
    }
}

/// All kinds.
#[rustfmt::skip]
pub(super) static KINDS: [V1Kind; 34] = [
    V1Kind { level: Level::Packet, ..base("info", "info", &[], "") },
    base("report1", "report_by_script_name", &[ScriptName], "0"),
    base("report2", "report_by_server_name", &[ServerName], "0"),
    base("report3", "report_by_hostname", &[Hostname], "0"),
    base("report4", "report_by_server_and_script", &[ServerName, ScriptName], "0/1"),
    base("report5", "report_by_hostname_and_script", &[Hostname, ScriptName], "0/1"),
    base("report6", "report_by_hostname_and_server", &[Hostname, ServerName], "0/1"),
    base("report7", "report_by_hostname_server_and_script", &[Hostname, ServerName, ScriptName], "0:1/2"),
    base("report8", "report_by_status", &[Status], "0"),
    base("report9", "report_by_script_and_status", &[ScriptName, Status], "1:0"),
    // Status and name with nothing between them, here and in the next two.
    base("report10", "report_by_server_and_status", &[ServerName, Status], "10"),
    base("report11", "report_by_hostname_and_status", &[Hostname, Status], "10"),
    base("report12", "report_by_hostname_script_and_status", &[Hostname, ScriptName, Status], "20/1"),
    base("report13", "report_by_schema", &[Schema], "0"),
    base("report14", "report_by_script_and_schema", &[ScriptName, Schema], "1:0"),
    base("report15", "report_by_server_and_schema", &[ServerName, Schema], "1:0"),
    base("report16", "report_by_hostname_and_schema", &[Hostname, Schema], "1:0"),
    base("report17", "report_by_hostname_script_and_schema", &[Hostname, ScriptName, Schema], "2/0/1"),
    base("report18", "report_by_hostname_status_and_schema", &[Hostname, Status, Schema], "1:2/0"),
    tag("tag_info", Level::Timer, &[], One, &[]),
    tag("tag2_info", Level::Timer, &[], Two, &[]),
    tag("tagN_info", Level::Timer, &[], Many, &[]),
    tag("tag_report", Level::Timer, &[ScriptName], One, &[]),
    tag("tag2_report", Level::Timer, &[ScriptName], Two, &[]),
    tag("tagN_report", Level::Timer, &[ScriptName], Many, &[]),
    tag("tag_report2", Level::Timer, &[ScriptName], One, &[Hostname, ServerName]),
    tag("tag2_report2", Level::Timer, &[ScriptName], Two, &[Hostname, ServerName]),
    tag("tagN_report2", Level::Timer, &[ScriptName], Many, &[Hostname, ServerName]),
    tag("rtag_info", Level::Request, &[], One, &[]),
    tag("rtag2_info", Level::Request, &[], Two, &[]),
    tag("rtagN_info", Level::Request, &[], Many, &[]),
    tag("rtag_report", Level::Request, &[Hostname], One, &[]),
    tag("rtag2_report", Level::Request, &[Hostname], Two, &[]),
    tag("rtagN_report", Level::Request, &[Hostname], Many, &[]),
];

impl V1Kind {
    /// The kind of this name and its type number.
    pub(super) fn named(name: &str) -> Option<(&'static Self, usize)> {
        let mut numbered = KINDS.iter().zip(FIRST_NUMBER..);
        numbered.find(|(kind, _)| kind.name == name)
    }

    /// Which tables belong with it.
    pub(super) fn kind(&self) -> Kind {
        match (self.tags, self.level) {
            (Tags::None, _) => Kind::Base,
            (_, Level::Timer) => Kind::Tag,
            _ => Kind::RequestTag,
        }
    }

    /// Which of several tags of one name counts.
    pub(super) fn occurrence(&self) -> Occurrence {
        match (self.level, self.tags) {
            (Level::Timer, Two) => Occurrence::Last,
            _ => Occurrence::First,
        }
    }

    /// The `index_value` for so many tags: timer-tag reports name script, host and server before the tags,
    /// request-tag reports leave the host out; `tagN` kinds end with a bar.
    pub(super) fn index(&self, tags: usize) -> Vec<IndexPart> {
        if self.tags == Tags::None {
            let parts = self.index.split("").filter(|part| !part.is_empty());
            return parts.map(|it| it.parse().map_or(Text(it), Key)).collect();
        }
        let (first_tag, end) = (self.before.len(), self.before.len() + tags);
        let fields = match self.level {
            Level::Timer => (0..first_tag).chain(end..end + self.after.len()),
            _ => (0..0).chain(0..0),
        };
        let keys = fields.chain(first_tag..end);
        let mut index: Vec<IndexPart> = keys.flat_map(|key| [Key(key), Text("|")]).collect();
        if self.tags != Many {
            index.pop();
        }
        index
    }
}
