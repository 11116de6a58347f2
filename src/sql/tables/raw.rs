//! The tables of raw data: requests, timers, their tags, and the names of timer tags.

use super::columns::{self, Read};
use crate::grammar::FixedTable;

/// A column whose values rise from row to row, so that conditions on it select rows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKey {
    /// The id of the row: of a request, a timer, or a tag name.
    Id,
    /// The request of a timer.
    Owner,
    /// The second of a request.
    Timestamp,
}

/// The column of tags in `request`.
pub(super) const TAGS: usize = 15;

impl FixedTable {
    /// Functions that read its columns, in order.
    pub(super) const fn reads(self) -> &'static [Read] {
        match self {
            Self::Request => &columns::REQUEST,
            Self::Timer => &columns::TIMER,
            Self::TimerTag => &columns::TIMER_TAG,
            Self::Tag => &columns::TAG,
            Self::RequestTag => &columns::REQUEST_TAG,
            Self::SquidActivity => &columns::SQUID_ACTIVITY,
            _ => &[],
        }
    }

    /// The key that a column is, if any.
    pub(super) const fn key(self, column: usize) -> Option<RowKey> {
        match (self, column) {
            (_, 0) => Some(RowKey::Id),
            (Self::Timer, 1) => Some(RowKey::Owner),
            (Self::Request, 16) => Some(RowKey::Timestamp),
            _ => None,
        }
    }

    /// Whether one row of the pool, or one name, yields any number of rows.
    pub(super) const fn is_of_pairs(self) -> bool {
        matches!(self, Self::TimerTag | Self::RequestTag | Self::Tag | Self::SquidActivity)
    }

    /// Whether its rows are read by timer id.
    pub(super) const fn by_timers(self) -> bool {
        matches!(self, Self::Timer | Self::TimerTag)
    }
}
