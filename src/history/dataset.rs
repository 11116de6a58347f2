//! Datasets: rows of one report under one definition.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use super::Gain;
use crate::profile::definition::SampleKey;
use crate::report::definition::{Definition, Field, Key, KeySource, Level};
use crate::report::histogram::BucketLayout;
use crate::report::key_names;
use crate::report::layout::OTHER;
use crate::report::row_key::key_of;
use crate::report::totals::{Measure, Totals};

/// The past of a report under one definition. A definition that counts differently makes another
/// dataset, even under the same name: two are equal if name and hash are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dataset {
    /// The report's name.
    pub report: String,
    /// 16 hexadecimal digits over everything that affects counting: level, keys, filters, buckets,
    /// and the error status.
    pub hash: String,
    /// The records it counts.
    pub level: Level,
    /// The names of its keys: see [`key_names`].
    pub keys: Vec<String>,
    /// Index of the key that is the status, the only number.
    pub status: Option<usize>,
    /// The buckets of times.
    pub buckets: BucketLayout,
    /// Whether smallest and largest values are kept.
    pub extremes: bool,
}

/// [`Dataset::coverage`], for all who add to it.
pub(crate) static COVERAGE: LazyLock<Arc<Dataset>> =
    LazyLock::new(|| Arc::new(Dataset::coverage()));

/// The columns of [`Coverage`] in files, and the sums that have them.
const OF_COVERAGE: [(&str, Measure); 5] = [
    ("covered_seconds", Measure::Requests),
    ("missed_requests", Measure::Hits),
    ("histograms_dropped", Measure::Traffic),
    ("keys_folded", Measure::Memory),
    ("rows_lost", Measure::Errors),
];

/// The definition of [`Dataset::swaps`], and its sums.
const SWAPS: &str = "0000000000000001";
pub(super) const OF_SWAPS: [(&str, Measure); 5] = [
    ("count", Measure::Requests),
    ("bytes", Measure::Traffic),
    ("timed", Measure::Hits),
    ("first_delay_us", Measure::RuUtime),
    ("total_us", Measure::Time),
];

/// The definition of [`Dataset::samples`], its keys and its sums.
const SAMPLES: &str = "0000000000000002";
pub(super) const SAMPLE_KEYS: [SampleKey; 5] =
    [SampleKey::Host, SampleKey::Script, SampleKey::Scope, SampleKey::Function, SampleKey::File];
pub(super) const OF_SAMPLES: [(&str, Measure); 3] = [
    ("samples", Measure::Requests),
    ("seconds_estimated_us", Measure::Time),
    ("memory_sum", Measure::Memory),
];

/// Coverage of a report in a minute, hour or day: a row of [`Dataset::coverage`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Coverage {
    /// Seconds in which the daemon ran with that definition.
    pub secs: u64,
    /// Requests that were lost.
    pub missed: u64,
    /// Rows that lost their histograms, for lack of memory.
    pub histograms_dropped: u64,
    /// Rows merged into `(other)`, for lack of memory.
    pub keys_folded: u64,
    /// Rows that could not be written or read.
    pub rows_lost: u64,
}

impl Coverage {
    /// From the sums of a row.
    pub(crate) fn of(totals: &Totals) -> Self {
        let count = |(_, measure): (_, Measure)| u64::try_from(measure.of(totals));
        let counts = OF_COVERAGE.map(|column| count(column).unwrap_or(u64::MAX));
        let [secs, missed, histograms_dropped, keys_folded, rows_lost] = counts;
        Self { secs, missed, histograms_dropped, keys_folded, rows_lost }
    }

    /// Adds what is missing, without the seconds.
    pub(crate) fn add_missing(&mut self, more: &Self) {
        self.missed += more.missed;
        self.histograms_dropped += more.histograms_dropped;
        self.keys_folded += more.keys_folded;
        self.rows_lost += more.rows_lost;
    }

    /// As sums of a row, in the columns of a coverage file.
    pub(crate) fn gain(self) -> Gain {
        let Self { secs, missed, histograms_dropped, keys_folded, rows_lost } = self;
        let counts = [secs, missed, histograms_dropped, keys_folded, rows_lost];
        Gain::of(OF_COVERAGE, counts.map(u128::from))
    }
}

impl Dataset {
    /// The dataset of coverage: how long each other dataset was counted, and what is missing of it.
    /// Keys are report and hash, sums those of [`Coverage`].
    pub fn coverage() -> Self {
        Self {
            report: "coverage".to_owned(),
            hash: String::new(),
            level: Level::Packet,
            keys: vec!["report".to_owned(), "definition".to_owned()],
            status: None,
            buckets: BucketLayout::LogLinear,
            extremes: false,
        }
    }

    /// The key of its overflow rows.
    pub(super) fn other_key(&self) -> Vec<u8> {
        key_of(self.keys.iter().map(|_| OTHER))
    }

    /// Its key in the rows of [`coverage`](Self::coverage).
    pub(crate) fn coverage_key(&self) -> Vec<u8> {
        key_of([&self.report, &self.hash])
    }

    /// Whether it is [`coverage`](Self::coverage).
    pub fn is_coverage(&self) -> bool {
        self.hash.is_empty() && !self.keys.is_empty()
    }

    /// Objects that Squid moved to and from its disk: rows of no report. Keys are action, size
    /// class and type, sums as in `squid_swap`.
    pub(crate) fn swaps() -> Self {
        Self::of_keys("squid_swap", SWAPS, &["action", "size_class", "mime"])
    }

    /// Samples of PHP's functions: rows of no report, with more keys than the live one of that name
    /// has.
    pub(crate) fn samples() -> Self {
        Self::of_keys("profile_functions", SAMPLES, &SAMPLE_KEYS.map(SampleKey::name))
    }

    fn of_keys(report: &str, hash: &str, keys: &[&str]) -> Self {
        Self {
            report: report.to_owned(),
            hash: hash.to_owned(),
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            ..Self::coverage()
        }
    }

    /// The columns of its sums in files, if it is of no report.
    pub(super) fn own_sums(&self) -> Option<&'static [(&'static str, Measure)]> {
        match &*self.hash {
            SWAPS => Some(&OF_SWAPS),
            SAMPLES => Some(&OF_SAMPLES),
            _ => self.is_coverage().then_some(&OF_COVERAGE),
        }
    }

    /// The column of a report's sum in files, if there is one.
    pub(crate) fn column_of(&self, sum: Measure) -> Option<&'static str> {
        match (sum, self.level) {
            (Measure::Errors | Measure::Traffic | Measure::Memory, Level::Timer) => None,
            (Measure::Time, Level::Timer) => Some("timer_value_total_us"),
            (Measure::Time, _) => Some("req_time_total_us"),
            (Measure::Hits, Level::Packet | Level::Request) => Some("timer_count"),
            _ => Some(sum.stored()),
        }
    }

    /// A table of raw requests: rows of no report, without keys.
    pub(crate) fn raw(table: &str) -> Self {
        Self { report: table.to_owned(), keys: Vec::new(), ..Self::coverage() }
    }

    /// Whether it is a table of raw requests.
    pub(crate) fn is_raw(&self) -> bool {
        self.hash.is_empty() && self.keys.is_empty()
    }

    /// Whether its rows are those of a report.
    pub(crate) fn is_report(&self) -> bool {
        !self.is_raw() && self.own_sums().is_none()
    }

    /// Whether its histograms can be folded to coarser ones.
    pub(crate) fn is_log_linear(&self) -> bool {
        self.buckets == BucketLayout::LogLinear
    }

    /// The dataset of a definition; this status and higher ones are errors.
    pub fn of(definition: &Definition, error_status: u32) -> Self {
        let Definition { level, filters, buckets, extremes, .. } = definition;
        let is_status = |key: &Key| key.source == KeySource::Field(Field::Status);
        let keys = definition.keys.iter();
        let keys: Vec<_> = keys.map(|key| (&key.source, key.occurrence, key.missing)).collect();
        let defining = (level, &keys, filters, buckets, extremes, error_status);
        // A structure of texts and numbers: writing it as JSON cannot fail.
        let text = serde_json::to_vec(&defining).unwrap_or_default();
        Self {
            report: definition.name.clone(),
            hash: digest(&text, 8),
            level: *level,
            keys: key_names(definition),
            status: definition.keys.iter().position(is_status),
            buckets: *buckets,
            extremes: *extremes,
        }
    }
}

/// The first bytes of a digest, in hexadecimal digits.
pub(crate) fn digest(of: &[u8], bytes: usize) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, of);
    digest.as_ref().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}
