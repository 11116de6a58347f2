//! Reports as the specification words them: how each is asked for, and what it must show.
//!
//! Nothing here comes from the engine: keys, filters, columns, order and formulas are written down
//! from the tables of sections 3.5, 4, 5 and 8 of the specification, and from the design where that
//! decides otherwise.

mod native;
mod v1;
mod v2;

use super::traffic::{HOSTS, REQUEST_TAGS, SCHEMAS, SERVERS, TIMER_TAGS, VALUES};
use crate::dice::Dice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Host,
    Server,
    Script,
    Status,
    Schema,
}
use Field::{Host, Schema, Script, Server, Status};

use self::native::any_native;
use self::v1::{any_base, any_tag};
pub(super) use self::v1::{built_in, every_tag_kind};
use self::v2::any_v2;

impl Field {
    pub(super) fn v1_name(self) -> &'static str {
        match self {
            Host => "hostname",
            Server => "server_name",
            Script => "script_name",
            Status => "status",
            Schema => "schema",
        }
    }

    fn v2_name(self) -> &'static str {
        match self {
            Host => "host",
            Server => "server",
            Script => "script",
            Status => "status",
            Schema => "schema",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    Field(Field),
    RequestTag(String),
    TimerTag(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Skip,
    SkipEmpty,
    Empty,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub(super) source: Source,
    /// Of several tags of the name the last counts, not the first.
    pub(super) last: bool,
    pub(super) missing: Missing,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Comparison {
    Is(String),
    IsNot(String),
    Begins(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Filter {
    /// Microseconds, inclusive.
    From(u64),
    /// Microseconds, exclusive.
    Below(u64),
    Of(Source, Comparison),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Layout {
    LogLinear,
    Linear { max_us: u64, size: u64 },
    V2 { min_ms: u64, max_ms: u64, buckets: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Requests,
    Hits,
    Time,
    RuUtime,
    RuStime,
    Traffic,
    Memory,
    Errors,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell {
    /// Text; a status as a number.
    Key(usize),
    /// Text, a status too.
    KeyText(usize),
    Index,
    /// A whole number.
    Whole(Measure),
    /// A sum of microseconds in seconds.
    Seconds(Measure),
    Kib(Measure),
    /// (sum, what makes one of the unit, over the window rather than what is covered)
    PerSec(Measure, f64, bool),
    /// (sum, NULL rather than 0 when there is nothing)
    Percent(Measure, bool),
    /// 0: the median.
    Quantile(usize),
    Interval,
    /// Text of a histogram, with the separator after each id.
    HistogramText(&'static str),
    Min,
    Max,
    PeakMax,
    /// Requests without CPU times: packets have them.
    Unmeasured,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Given {
    Comment(String),
    Json(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report {
    pub(super) name: String,
    pub(super) given: Given,
    pub(super) of_timers: bool,
    pub(super) keys: Vec<Key>,
    pub(super) filters: Vec<Filter>,
    /// As written.
    pub(super) percentiles: Vec<&'static str>,
    pub(super) window_ms: u64,
    pub(super) layout: Layout,
    /// Ranks between two samples go up (pinba2 and native reports).
    pub(super) up: bool,
    pub(super) columns: Vec<(String, Cell)>,
    /// Keys and separators.
    pub(super) index: Vec<Result<usize, &'static str>>,
    pub(super) view: bool,
    /// Kept apart from others: native reports have extremes.
    pub(super) native: bool,
}

impl Report {
    /// Whether two reports count the same records the same way, so that they might share what they
    /// know.
    pub(super) fn might_share(&self, other: &Self) -> bool {
        self.of_timers == other.of_timers
            && self.filters == other.filters
            && self.window_ms == other.window_ms
            && self.layout == other.layout
            && self.native == other.native
    }
}

/// The settings that the model depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) history_ms: u64,
    pub(super) histogram_max_secs: u64,
    pub(super) histogram_size: u32,
}

type Columns = Vec<(String, Cell)>;

fn column(name: impl Into<String>, cell: Cell) -> (String, Cell) {
    (name.into(), cell)
}

fn percentile_columns(percentiles: &[&str]) -> Columns {
    let names = percentiles.iter().enumerate();
    names
        .map(|(at, p)| column(format!("p{}", p.replace('.', "_")), Cell::Quantile(at + 1)))
        .collect()
}

/// Positions 0 to 13 of base reports.
fn request_columns() -> Columns {
    use Cell::{Kib, PerSec, Percent, Seconds, Whole};
    use Measure::{Requests, RuStime, RuUtime, Time, Traffic};
    vec![
        column("req_count", Whole(Requests)),
        column("req_per_sec", PerSec(Requests, 1.0, false)),
        column("req_time_total", Seconds(Time)),
        column("req_time_percent", Percent(Time, false)),
        column("req_time_per_sec", PerSec(Time, 1e6, false)),
        column("ru_utime_total", Seconds(RuUtime)),
        column("ru_utime_percent", Percent(RuUtime, false)),
        column("ru_utime_per_sec", PerSec(RuUtime, 1e6, false)),
        column("ru_stime_total", Seconds(RuStime)),
        column("ru_stime_percent", Percent(RuStime, false)),
        column("ru_stime_per_sec", PerSec(RuStime, 1e6, false)),
        column("traffic_total", Kib(Traffic)),
        column("traffic_percent", Percent(Traffic, false)),
        column("traffic_per_sec", PerSec(Traffic, 1024.0, false)),
    ]
}

fn memory_columns() -> Columns {
    vec![
        column("memory_footprint_total", Cell::Kib(Measure::Memory)),
        column("memory_footprint_percent", Cell::Percent(Measure::Memory, false)),
        column("req_time_median", Cell::Quantile(0)),
    ]
}

fn field(field: Field) -> Key {
    Key { source: Source::Field(field), last: false, missing: Missing::Empty }
}

const PERCENTILES: [&str; 8] = ["50", "90", "95", "99", "99.9", "100", "1", "0.5"];
const TIMES: [(&str, u64); 6] = [
    ("0.1", 100_000),
    ("0.5", 500_000),
    ("1", 1_000_000),
    ("0.007812", 7_812),
    ("10", 10_000_000),
    ("0.000001", 1),
];
const WINDOWS_SECS: [u64; 6] = [5, 60, 200, 900, 3600, 86_400];

fn some_percentiles(dice: &mut Dice, least: u64) -> Vec<&'static str> {
    let mut percentiles = Vec::new();
    for _ in 0..dice.within(least, 3) {
        let p = *dice.pick(&PERCENTILES);
        if !percentiles.contains(&p) {
            percentiles.push(p);
        }
    }
    percentiles
}

/// Up to `most` different ones, at least one.
fn some_of<T: Copy + PartialEq>(dice: &mut Dice, from: &[T], count: u64) -> Vec<T> {
    let mut chosen = Vec::new();
    while (chosen.len() as u64) < count {
        let one = *dice.pick(from);
        if !chosen.contains(&one) {
            chosen.push(one);
        }
    }
    chosen
}

const FIELDS: [Field; 5] = [Host, Server, Script, Status, Schema];

/// Names before all others; one that is taken gets a prefix.
fn before(keys: Vec<(String, &str, Cell)>, columns: Columns) -> Columns {
    let mut all: Columns = Vec::new();
    for (mut name, prefix, cell) in keys {
        while all.iter().chain(&columns).any(|(taken, _)| *taken == name) {
            name = format!("{prefix}{name}");
        }
        all.push((name, cell));
    }
    all.extend(columns);
    all
}

/// Total, per second and percent of one measure.
fn three(
    total: String,
    name: &str,
    cell: Cell,
    measure: Measure,
    unit: f64,
    v2: bool,
) -> [(String, Cell); 3] {
    [
        column(total, cell),
        column(format!("{name}_per_sec"), Cell::PerSec(measure, unit, v2)),
        column(format!("{name}_percent"), Cell::Percent(measure, v2)),
    ]
}

fn counted(name: &str, measure: Measure, v2: bool) -> [(String, Cell); 3] {
    three(format!("{name}_count"), name, Cell::Whole(measure), measure, 1.0, v2)
}

fn timed(name: &str, measure: Measure, v2: bool) -> [(String, Cell); 3] {
    three(format!("{name}_total"), name, Cell::Seconds(measure), measure, 1e6, v2)
}

/// A report of any kind.
pub(super) fn any(dice: &mut Dice, settings: &Settings) -> Report {
    match dice.below(10) {
        0 | 1 => any_base(dice, settings),
        2..5 => any_tag(dice, settings),
        5 | 6 => any_v2(dice.below(3), dice, settings),
        _ => any_native(dice.below(3), dice, settings),
    }
}
