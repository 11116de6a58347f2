//! What a report is: level, keys, filters, percentiles, window, and the shape in which it is shown.
//!
//! Every way to ask for a report (a Pinba COMMENT, a pinba2 COMMENT, TOML, JSON) is translated to a
//! [`Definition`], and the engine knows nothing else. A definition is checked when it is made; the engine trusts it.

use std::time::Duration;

use super::histogram::Layout;
use super::shape::Shape;

/// One report, ready for the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name under which it is read; unique among the live reports.
    pub name: String,
    /// The Pinba or pinba2 COMMENT it came from (or could have come from); `None` for what only the native form can say.
    pub comment: Option<String>,
    /// `base`, `tag`, `rtag`, `v2/packet`, `v2/request`, `v2/timer`, `native`: what `GET /api/v1/reports` shows.
    pub kind: Kind,
    /// What is counted.
    pub level: Level,
    /// What rows are told apart by, in column order; empty: one row.
    pub keys: Vec<Key>,
    /// What a record must satisfy to be counted; all of them.
    pub filters: Vec<Filter>,
    /// Percent ranks, each in (0, 100], in column order.
    pub percentiles: Vec<f64>,
    /// How far back it reaches. Divided into ticks of `max(1 s, window / 120)`.
    pub window: Duration,
    /// How times are put into buckets for medians, percentiles and histogram views.
    pub layout: Layout,
    /// Whether the smallest and largest values inside the window are kept (native reports).
    pub extremes: bool,
    /// The columns, and how each is computed from a row.
    pub shape: Shape,
}

/// The family of table shapes that a report belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `info` and `report1` to `report18`.
    Base,
    /// Timer-tag reports of Pinba.
    Tag,
    /// Request-tag reports of Pinba.
    RequestTag,
    /// `v2/packet` of pinba2.
    V2Packet,
    /// `v2/request` of pinba2.
    V2Request,
    /// `v2/timer` of pinba2.
    V2Timer,
    /// The daemon's own form.
    Native,
}

/// What one record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// One request; the report has no keys.
    Packet,
    /// One request.
    Request,
    /// One timer of a request. A row's request count takes a request once, however many of its timers hit the row.
    Timer,
}

/// A field of a request that rows can be told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// `hostname`
    Hostname,
    /// `server_name`
    ServerName,
    /// `script_name`
    ScriptName,
    /// `schema`; absent in a packet is the empty text here.
    Schema,
    /// `status`, the only number.
    Status,
}

/// Where a key's value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// A field of the request.
    Field(Field),
    /// A tag of the request.
    RequestTag(String),
    /// A tag of the timer (timer level only).
    TimerTag(String),
    /// A tag of the timer and, when the timer has none of that name, a field of its request:
    /// `__hostname`, `__server_name`, `__script_name`, `__schema`, `__status`. Always text.
    TimerTagOrField(String, Field),
}

/// Which of several tags of one name counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Occurrence {
    /// The first in packet order.
    First,
    /// The last in packet order (Pinba's `tag2_*`).
    Last,
}

/// What happens to a record that lacks the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Missing {
    /// It is not counted. A field counts as lacking when it is empty; a tag when there is none of that name.
    Skip,
    /// As `Skip`, and an empty tag value counts as lacking too (pinba2).
    SkipEmpty,
    /// It is counted under the empty text.
    Empty,
}

/// One key of a report.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Where the value comes from.
    pub source: KeySource,
    /// Which tag counts when there are several.
    pub occurrence: Occurrence,
    /// What to do without.
    pub missing: Missing,
}

/// How a text is held against a filter's value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// `=`: byte for byte.
    Equals(String),
    /// `!=`: anything else, also a missing tag.
    Differs(String),
    /// `prefix*`
    StartsWith(String),
}

/// One condition on a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Filter {
    /// Request time at least this many microseconds.
    MinTime(u64),
    /// Request time below this many microseconds. An inclusive bound of `m` is stored as `m + 1`.
    TimeBelow(u64),
    /// A field of the request (status as decimal text).
    Field(Field, Pattern),
    /// The first request tag of that name.
    RequestTag(String, Pattern),
    /// Every timer tag of that name; at least one must be there (not for `Differs`). Timer level only.
    TimerTag(String, Pattern),
}
