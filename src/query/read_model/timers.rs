//! Timers of raw requests, grouped by a tag: what is asked, and what comes of it.

use super::{RequestSearch, Scanned, TimerDetail};
use crate::report::definition::KeySource;

/// Which raw timers are wanted, and by what they are summed up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimerSearch {
    /// The requests whose timers count; `limit` and `before_id` do not matter here.
    pub requests: RequestSearch,
    /// Timer tags, name and value: the first tag of that name must have that value.
    pub tags: Vec<(String, String)>,
    /// What rows are told apart by.
    pub by: Vec<KeySource>,
    /// Requests and timers to look at, at most; the newest are taken.
    pub scanned_max: usize,
    /// Rows at most; what finds no place is added to [`TimerGroups::other`].
    pub groups_max: usize,
    /// How many single timers to show, those with the longest time per hit.
    pub slowest_max: usize,
}

/// Raw timers summed up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimerGroups {
    /// One for each combination of keys, in no promised order.
    pub rows: Vec<TimerGroup>,
    /// What found no place among the rows.
    pub other: Option<TimerGroup>,
    /// The timers with the longest time per hit, longest first.
    pub slowest: Vec<SlowTimer>,
    /// The names of timer tags that came by, in alphabetical order; at most [`TAG_NAMES_MAX`].
    pub tag_names: Vec<String>,
    /// What the sums are made from.
    pub scanned: Scanned,
    /// Timers looked at, whether they matched or not.
    pub timers_scanned: u64,
    /// What is lacking, for people.
    pub partial: Vec<String>,
}

/// Names of tags in [`TimerGroups`] at most.
pub const TAG_NAMES_MAX: usize = 200;

/// Raw timers with the same keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimerGroup {
    /// In the order of [`TimerSearch::by`]; `None`: the timer or its request has no such tag.
    pub keys: Vec<Option<String>>,
    /// Requests with such timers.
    pub requests: u64,
    /// Timers.
    pub timers: u64,
    /// Their hits.
    pub hits: u64,
    /// All hits together, microseconds.
    pub value_us: u64,
    /// User CPU, microseconds.
    pub ru_utime_us: u64,
    /// System CPU, microseconds.
    pub ru_stime_us: u64,
    /// Median, 95th and 99th percentile of the time per hit, seconds.
    pub quantiles: [f64; 3],
    /// Longest time per hit, microseconds.
    pub max_us: u64,
}

/// One timer out of many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowTimer {
    /// The run of its request, where that is one of the past.
    pub run: Option<u64>,
    /// Its request.
    pub request_id: u64,
    /// That one's script.
    pub script_name: String,
    /// When that one was received, unix seconds.
    pub timestamp: u32,
    /// The timer.
    pub timer: TimerDetail,
}
