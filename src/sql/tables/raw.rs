//! The tables of raw data: requests, timers, their tags, and the names of timer tags.

use super::columns::{self, Read};
use crate::pool::Pool;
use crate::report::columns::table;
use crate::report::definition::Defaults;
use crate::value::Column;

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolTable {
    Request,
    Timer,
    TimerTag,
    Tag,
    RequestTag,
}

/// A column whose values rise from row to row, so that a condition on it says which rows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKey {
    /// The id of the row that is read: of a request, a timer, or a name of tags.
    Id,
    /// The request of a timer.
    Owner,
    /// The second of a request.
    Timestamp,
}

impl PoolTable {
    pub(super) const ALL: [Self; 5] = [
        Self::Request,
        Self::Timer,
        Self::TimerTag,
        Self::Tag,
        Self::RequestTag,
    ];

    /// Request's column of tags.
    pub(super) const TAGS: usize = 15;

    /// The table of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Timer => "timer",
            Self::TimerTag => "timertag",
            Self::Tag => "tag",
            Self::RequestTag => "request_tag",
        }
    }

    /// How its columns are read, in their order.
    pub(super) const fn reads(self) -> &'static [Read] {
        match self {
            Self::Request => &columns::REQUEST,
            Self::Timer => &columns::TIMER,
            Self::TimerTag => &columns::TIMER_TAG,
            Self::Tag => &columns::TAG,
            Self::RequestTag => &columns::REQUEST_TAG,
        }
    }

    /// Its columns as they are declared.
    pub(super) fn columns(self, defaults: &Defaults) -> Vec<Column> {
        table(self.name(), defaults)
    }

    /// What a column says of the rows to read.
    pub(super) const fn key(self, column: usize) -> Option<RowKey> {
        match (self, column) {
            (_, 0) => Some(RowKey::Id),
            (Self::Timer, 1) => Some(RowKey::Owner),
            (Self::Request, 16) => Some(RowKey::Timestamp),
            _ => None,
        }
    }

    /// Whether a column can be NULL: ids and names cannot.
    pub(super) fn is_nullable(self, column: usize) -> bool {
        column > usize::from(self != Self::Request)
    }

    /// Whether one row of the pool makes any number of rows of the table.
    pub(super) const fn is_of_pairs(self) -> bool {
        matches!(self, Self::TimerTag | Self::RequestTag | Self::Tag)
    }

    /// Whether its rows are read by the ids of timers.
    pub(super) const fn by_timers(self) -> bool {
        matches!(self, Self::Timer | Self::TimerTag)
    }

    /// How many rows of the pool it is read from.
    pub(super) fn pool_rows(self, pool: &Pool) -> usize {
        match self {
            Self::Request | Self::RequestTag => pool.requests.len(),
            Self::Timer | Self::TimerTag => pool.timers.len(),
            Self::Tag => pool.strings.timer_tags(),
        }
    }
}
