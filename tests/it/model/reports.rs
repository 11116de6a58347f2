//! Reports as the specification words them: how each is asked for, and what it must show.
//!
//! Nothing here comes from the engine: keys, filters, columns, order and formulas are written down from the tables of
//! sections 3.5, 4, 5 and 8 of the specification, and from the design where that decides otherwise.

use super::dice::Dice;
use super::traffic::{HOSTS, REQUEST_TAGS, SCHEMAS, SERVERS, TIMER_TAGS, VALUES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Host,
    Server,
    Script,
    Status,
    Schema,
}
use Field::{Host, Schema, Script, Server, Status};

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
    Linear {
        max_us: u64,
        size: u64,
    },
    V2 {
        min_ms: u64,
        max_ms: u64,
        buckets: u64,
    },
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
    /// What stands behind an id.
    HistogramText(&'static str),
    Min,
    Max,
    PeakMax,
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
    /// Whether two reports count the same records the same way, so that they might share what they know.
    pub(super) fn might_share(&self, other: &Self) -> bool {
        self.of_timers == other.of_timers
            && self.filters == other.filters
            && self.window_ms == other.window_ms
            && self.layout == other.layout
            && self.native == other.native
    }
}

/// What the configuration says.
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
        column(
            "memory_footprint_percent",
            Cell::Percent(Measure::Memory, false),
        ),
        column("req_time_median", Cell::Quantile(0)),
    ]
}

fn field(field: Field) -> Key {
    Key {
        source: Source::Field(field),
        last: false,
        missing: Missing::Empty,
    }
}

/// Spec 4.2: keys in column order, and the index_value (numbers are places among the keys).
fn base_kind(number: usize) -> (&'static [Field], &'static [Result<usize, &'static str>]) {
    match number {
        1 => (&[Script], &[Ok(0)]),
        2 => (&[Server], &[Ok(0)]),
        3 => (&[Host], &[Ok(0)]),
        4 => (&[Server, Script], &[Ok(0), Err("/"), Ok(1)]),
        5 => (&[Host, Script], &[Ok(0), Err("/"), Ok(1)]),
        6 => (&[Host, Server], &[Ok(0), Err("/"), Ok(1)]),
        7 => (
            &[Host, Server, Script],
            &[Ok(0), Err(":"), Ok(1), Err("/"), Ok(2)],
        ),
        8 => (&[Status], &[Ok(0)]),
        9 => (&[Script, Status], &[Ok(1), Err(":"), Ok(0)]),
        10 => (&[Server, Status], &[Ok(1), Ok(0)]),
        11 => (&[Host, Status], &[Ok(1), Ok(0)]),
        12 => (&[Host, Script, Status], &[Ok(2), Ok(0), Err("/"), Ok(1)]),
        13 => (&[Schema], &[Ok(0)]),
        14 => (&[Script, Schema], &[Ok(1), Err(":"), Ok(0)]),
        15 => (&[Server, Schema], &[Ok(1), Err(":"), Ok(0)]),
        16 => (&[Host, Schema], &[Ok(1), Err(":"), Ok(0)]),
        17 => (
            &[Host, Script, Schema],
            &[Ok(2), Err("/"), Ok(0), Err("/"), Ok(1)],
        ),
        _ => (
            &[Host, Status, Schema],
            &[Ok(1), Err(":"), Ok(2), Err("/"), Ok(0)],
        ),
    }
}

/// Names under which the 18 base reports are always there.
pub(super) const BASE_TABLES: [&str; 18] = [
    "report_by_script_name",
    "report_by_server_name",
    "report_by_hostname",
    "report_by_server_and_script",
    "report_by_hostname_and_script",
    "report_by_hostname_and_server",
    "report_by_hostname_server_and_script",
    "report_by_status",
    "report_by_script_and_status",
    "report_by_server_and_status",
    "report_by_hostname_and_status",
    "report_by_hostname_script_and_status",
    "report_by_schema",
    "report_by_script_and_schema",
    "report_by_server_and_schema",
    "report_by_hostname_and_schema",
    "report_by_hostname_script_and_schema",
    "report_by_hostname_status_and_schema",
];

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

/// The section of conditions, and the filters and the histogram range in it.
fn v1_conditions(dice: &mut Dice) -> (String, Vec<Filter>, Option<u64>) {
    let mut texts = Vec::new();
    let mut filters = Vec::new();
    if dice.once_in(4) {
        let (text, us) = *dice.pick(&TIMES);
        texts.push(format!("min_time={text}"));
        filters.push(Filter::From(us));
    }
    if dice.once_in(4) {
        // Never below the minimum, which is an error.
        let (text, us) = if filters.is_empty() {
            *dice.pick(&TIMES)
        } else {
            ("10", 10_000_000)
        };
        texts.push(format!("max_time={text}"));
        filters.push(Filter::Below(us + 1));
    }
    if dice.once_in(5) {
        let (name, value) = (*dice.pick(&REQUEST_TAGS), *dice.pick(&VALUES));
        texts.push(format!("tag.{name}={value}"));
        filters.push(Filter::Of(
            Source::RequestTag(name.to_owned()),
            Comparison::Is(value.to_owned()),
        ));
    }
    let range = dice.once_in(4).then(|| dice.within(1, 20));
    if let Some(secs) = range {
        texts.push(format!("histogram_max_time={secs}"));
    }
    (texts.join(","), filters, range)
}

fn v1_layout(range: Option<u64>, view: bool, settings: &Settings) -> Layout {
    if range.is_none() && !view {
        return Layout::LogLinear;
    }
    Layout::Linear {
        max_us: range.unwrap_or(settings.histogram_max_secs) * 1_000_000,
        size: u64::from(settings.histogram_size),
    }
}

/// The sections behind the kind; those at the end that are empty are left out.
fn v1_comment(kind: &str, view: bool, params: &str, conditions: &str, pct: &[&str]) -> String {
    let mut comment = format!("{}{kind}", if view { "hv." } else { "" });
    if !pct.is_empty() {
        comment += &format!(":{params}:{conditions}:{}", pct.join(","));
    } else if !conditions.is_empty() {
        comment += &format!(":{params}:{conditions}");
    } else if !params.is_empty() {
        comment += &format!(":{params}");
    }
    comment
}

/// `info` (0) or a base report, plain: as they are there from the start.
pub(super) fn built_in(number: usize, settings: &Settings) -> Report {
    let mut report = base(
        number,
        String::new(),
        Vec::new(),
        None,
        Vec::new(),
        false,
        settings,
    );
    report.name = match number {
        0 => "info".to_owned(),
        number => BASE_TABLES[number - 1].to_owned(),
    };
    report
}

fn base(
    number: usize,
    conditions: String,
    filters: Vec<Filter>,
    range: Option<u64>,
    percentiles: Vec<&'static str>,
    view: bool,
    settings: &Settings,
) -> Report {
    let kind = match number {
        0 => "info".to_owned(),
        number => format!("report{number}"),
    };
    let given = Given::Comment(v1_comment(&kind, view, "", &conditions, &percentiles));
    let (fields, index): (&[Field], &[_]) = match number {
        0 => (&[], &[]),
        number => base_kind(number),
    };
    let mut columns;
    if number == 0 {
        use Measure::{Memory, Requests, RuStime, RuUtime, Time, Traffic};
        columns = vec![
            column("req_count", Cell::Whole(Requests)),
            column("time_total", Cell::Seconds(Time)),
            column("ru_utime_total", Cell::Seconds(RuUtime)),
            column("ru_stime_total", Cell::Seconds(RuStime)),
            column("time_interval", Cell::Interval),
            column("kbytes_total", Cell::Kib(Traffic)),
            column("memory_footprint", Cell::Kib(Memory)),
            column("req_time_median", Cell::Quantile(0)),
        ];
    } else {
        columns = request_columns();
        let names = fields.iter().enumerate();
        columns.extend(names.map(|(at, field)| column(field.v1_name(), Cell::Key(at))));
        columns.extend(memory_columns());
        columns.push(column("index_value", Cell::Index));
    }
    columns.extend(percentile_columns(&percentiles));
    Report {
        name: String::new(),
        given,
        of_timers: false,
        keys: fields.iter().map(|&f| field(f)).collect(),
        filters,
        percentiles,
        window_ms: settings.history_ms,
        layout: v1_layout(range, view, settings),
        up: false,
        columns,
        index: index.to_vec(),
        view,
        native: false,
    }
}

/// `info` or a base report with anything that one can give it.
pub(super) fn any_base(dice: &mut Dice, settings: &Settings) -> Report {
    let (conditions, filters, range) = v1_conditions(dice);
    let view = dice.once_in(4);
    let percentiles = if view {
        Vec::new()
    } else {
        some_percentiles(dice, 0)
    };
    let number = dice.below(19) as usize;
    base(
        number,
        conditions,
        filters,
        range,
        percentiles,
        view,
        settings,
    )
}

/// Any of the nine timer-tag kinds and the six request-tag kinds.
pub(super) fn any_tag(dice: &mut Dice, settings: &Settings) -> Report {
    let of_timers = !dice.once_in(3);
    tag(
        dice.below(if of_timers { 9 } else { 6 }),
        of_timers,
        dice,
        settings,
    )
}

/// Spec 5.2 and 5.4. `form`: info, report or report2 in threes; one, two or N tags in each.
fn tag(form: u64, of_timers: bool, dice: &mut Dice, settings: &Settings) -> Report {
    let (conditions, filters, range) = v1_conditions(dice);
    let view = dice.once_in(5);
    let percentiles = if view {
        Vec::new()
    } else {
        some_percentiles(dice, 0)
    };
    let (shape, many) = (form / 3, form % 3);
    let tags = match many {
        0 => 1,
        1 => 2,
        _ => dice.within(1, 4),
    };
    let names = match of_timers {
        true => some_of(dice, &TIMER_TAGS, tags),
        false => some_of(dice, &REQUEST_TAGS, tags),
    };
    let kind = format!(
        "{}tag{}_{}",
        if of_timers { "" } else { "r" },
        ["", "2", "N"][many as usize],
        ["info", "report", "report2"][shape as usize],
    );
    let tag_keys = names.iter().map(|&name| Key {
        source: match of_timers {
            true => Source::TimerTag(name.to_owned()),
            false => Source::RequestTag(name.to_owned()),
        },
        // 5.1: tag2_* use the last of several.
        last: of_timers && many == 1,
        missing: match name {
            // The field of the request stands in: never missing.
            name if of_timers && name.starts_with("__") => Missing::Empty,
            _ => Missing::Skip,
        },
    });
    let mut keys = Vec::new();
    let mut columns = Vec::new();
    if shape > 0 {
        keys.push(field(if of_timers { Script } else { Host }));
        let name = if of_timers { "script_name" } else { "hostname" };
        columns.push(column(name, Cell::Key(0)));
    }
    let first_tag = keys.len();
    for at in 0..names.len() {
        let name = match many {
            0 => "tag_value".to_owned(),
            _ => format!("tag{}_value", at + 1),
        };
        columns.push(column(name, Cell::Key(first_tag + at)));
    }
    keys.extend(tag_keys);
    let mut index = Vec::new();
    if of_timers {
        use Measure::{Hits, Requests, RuStime, RuUtime, Time};
        columns.extend([
            column("req_count", Cell::Whole(Requests)),
            column("req_per_sec", Cell::PerSec(Requests, 1.0, false)),
            column("hit_count", Cell::Whole(Hits)),
            column("hit_per_sec", Cell::PerSec(Hits, 1.0, false)),
            column("timer_value", Cell::Seconds(Time)),
        ]);
        if shape == 2 {
            columns.push(column("hostname", Cell::Key(keys.len())));
            columns.push(column("server_name", Cell::Key(keys.len() + 1)));
            index = vec![Ok(0), Ok(keys.len()), Ok(keys.len() + 1)];
            keys.extend([field(Host), field(Server)]);
        } else if shape == 1 {
            index = vec![Ok(0)];
        }
        columns.extend([
            column("timer_median", Cell::Quantile(0)),
            column("ru_utime_value", Cell::Seconds(RuUtime)),
            column("ru_stime_value", Cell::Seconds(RuStime)),
        ]);
    } else {
        columns.extend(request_columns());
        columns.extend(memory_columns());
    }
    // Request-tag kinds leave the host out of it.
    index.extend((first_tag..first_tag + names.len()).map(Ok));
    let mut barred: Vec<_> = index.iter().flat_map(|&part| [part, Err("|")]).collect();
    if many != 2 {
        barred.pop();
    }
    columns.push(column("index_value", Cell::Index));
    columns.extend(percentile_columns(&percentiles));
    let given = v1_comment(&kind, view, &names.join(","), &conditions, &percentiles);
    Report {
        name: String::new(),
        given: Given::Comment(given),
        of_timers,
        keys,
        filters,
        percentiles,
        window_ms: settings.history_ms,
        layout: v1_layout(range, view, settings),
        up: false,
        columns,
        index: barred,
        view,
        native: false,
    }
}

/// Every tag kind once.
pub(super) fn every_tag_kind(dice: &mut Dice, settings: &Settings) -> Vec<Report> {
    let timers = (0..9).map(|form| (form, true));
    let requests = (0..6).map(|form| (form, false));
    let all: Vec<_> = timers.chain(requests).collect();
    all.into_iter()
        .map(|(form, of_timers)| tag(form, of_timers, dice, settings))
        .collect()
}

fn some_hv(dice: &mut Dice) -> (String, Layout) {
    let (min_ms, max_ms, buckets) = *dice.pick(&[
        (0, 1000, 100),
        (0, 60_000, 32_768),
        (100, 5000, 250),
        (0, 10_000, 7),
    ]);
    let layout = Layout::V2 {
        min_ms,
        max_ms,
        buckets,
    };
    (format!("hv={min_ms}:{max_ms}:{buckets}"), layout)
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
    three(
        format!("{name}_count"),
        name,
        Cell::Whole(measure),
        measure,
        1.0,
        v2,
    )
}

fn timed(name: &str, measure: Measure, v2: bool) -> [(String, Cell); 3] {
    three(
        format!("{name}_total"),
        name,
        Cell::Seconds(measure),
        measure,
        1e6,
        v2,
    )
}

/// A report of pinba2; `kind`: packet, request, timer.
pub(super) fn any_v2(kind: u64, dice: &mut Dice, settings: &Settings) -> Report {
    use Measure::{Hits, Memory, Requests, RuStime, RuUtime, Time, Traffic};
    let of_timers = kind == 2;
    let (window_text, window_ms) = match dice.below(5) {
        0 => ("default_history_time".to_owned(), settings.history_ms),
        1 => ("60,5".to_owned(), 60_000),
        _ => {
            let secs = *dice.pick(&WINDOWS_SECS);
            (secs.to_string(), secs * 1000)
        }
    };
    let mut keys = Vec::new();
    let mut key_texts = Vec::new();
    if kind > 0 {
        let mut sources: Vec<(String, Source)> = FIELDS
            .iter()
            .map(|f| (format!("~{}", f.v2_name()), Source::Field(*f)))
            .collect();
        let request_tags = REQUEST_TAGS.iter();
        sources
            .extend(request_tags.map(|t| (format!("+{t}"), Source::RequestTag((*t).to_owned()))));
        if of_timers {
            let bare = dice.once_in(2);
            let mark = if bare { "" } else { "@" };
            let timer_tags = TIMER_TAGS.iter();
            sources.extend(
                timer_tags.map(|t| (format!("{mark}{t}"), Source::TimerTag((*t).to_owned()))),
            );
        }
        for _ in 0..dice.within(1, 4) {
            let at = dice.below(sources.len() as u64) as usize;
            let (text, source) = sources.remove(at);
            let missing = match source {
                Source::Field(_) if of_timers => Missing::Skip,
                Source::Field(_) => Missing::Empty,
                _ => Missing::SkipEmpty,
            };
            key_texts.push(text);
            keys.push(Key {
                source,
                last: false,
                missing,
            });
        }
    }
    let (mut histogram, mut layout, mut percentiles) =
        ("no_percentiles".to_owned(), Layout::LogLinear, Vec::new());
    if !dice.once_in(3) {
        let hv;
        (hv, layout) = some_hv(dice);
        percentiles = some_percentiles(dice, 1);
        histogram = match dice.once_in(2) {
            true => format!("{hv},percentiles={}", percentiles.join(":")),
            false => {
                let each: Vec<_> = percentiles.iter().map(|p| format!("p{p}")).collect();
                format!("{},{hv}", each.join(","))
            }
        };
    }
    let mut filters = Vec::new();
    let mut filter_texts = Vec::new();
    if dice.once_in(4) {
        let (text, us) = *dice.pick(&TIMES[..3]);
        filter_texts.push(format!("min_time={text}"));
        filters.push(Filter::From(us));
    }
    if dice.once_in(4) {
        let (text, us) = TIMES[4];
        filter_texts.push(format!("max_time={text}"));
        filters.push(Filter::Below(us));
    }
    if dice.once_in(5) {
        let (name, source, value) = match dice.below(4) {
            0 => ("~host", Host, *dice.pick(&HOSTS)),
            1 => ("~server", Server, *dice.pick(&SERVERS)),
            2 => ("~schema", Schema, *dice.pick(&SCHEMAS)),
            _ => ("~status", Status, "200"),
        };
        filter_texts.push(format!("{name}={value}"));
        filters.push(Filter::Of(
            Source::Field(source),
            Comparison::Is(value.to_owned()),
        ));
    }
    if dice.once_in(5) {
        let (name, value) = (*dice.pick(&REQUEST_TAGS), *dice.pick(&VALUES));
        filter_texts.push(format!("+{name}={value}"));
        filters.push(Filter::Of(
            Source::RequestTag(name.to_owned()),
            Comparison::Is(value.to_owned()),
        ));
    }
    if of_timers && dice.once_in(4) {
        let (name, value) = (*dice.pick(&["group", "op", "env"]), *dice.pick(&VALUES));
        filter_texts.push(format!("@{name}={value}"));
        filters.push(Filter::Of(
            Source::TimerTag(name.to_owned()),
            Comparison::Is(value.to_owned()),
        ));
    }
    if filter_texts.is_empty() {
        filter_texts.push("no_filters".to_owned());
    }
    let mut columns: Columns = Vec::new();
    match kind {
        0 => columns.extend([
            column("req_count", Cell::Whole(Requests)),
            column("timer_count", Cell::Whole(Hits)),
            column("time_total", Cell::Seconds(Time)),
            column("ru_utime_total", Cell::Seconds(RuUtime)),
            column("ru_stime_total", Cell::Seconds(RuStime)),
            column("traffic", Cell::Whole(Traffic)),
            column("memory_footprint", Cell::Whole(Memory)),
        ]),
        1 => {
            columns.extend(counted("req", Requests, true));
            columns.extend(timed("req_time", Time, true));
            columns.extend(timed("ru_utime", RuUtime, true));
            columns.extend(timed("ru_stime", RuStime, true));
            let (traffic, memory) = (Cell::Whole(Traffic), Cell::Whole(Memory));
            let name = "traffic_total".to_owned();
            columns.extend(three(name, "traffic", traffic, Traffic, 1.0, true));
            let name = "memory_footprint".to_owned();
            columns.extend(three(name, "memory", memory, Memory, 1.0, true));
        }
        _ => {
            columns.extend(counted("req", Requests, true));
            columns.extend(counted("hit", Hits, true));
            columns.extend(timed("time", Time, true));
            columns.extend(timed("ru_utime", RuUtime, true));
            columns.extend(timed("ru_stime", RuStime, true));
        }
    }
    columns.extend(percentile_columns(&percentiles));
    if layout != Layout::LogLinear {
        let gap = if kind == 0 { ": " } else { ":" };
        columns.push(column("histogram_data", Cell::HistogramText(gap)));
    }
    let named = keys.iter().enumerate().map(|(at, key)| {
        let (name, prefix) = match &key.source {
            Source::Field(field) => (field.v2_name().to_owned(), "field_"),
            Source::RequestTag(name) => (name.clone(), "tag_"),
            Source::TimerTag(name) => (name.clone(), "timer_"),
        };
        (name, prefix, Cell::KeyText(at))
    });
    let columns = before(named.collect(), columns);
    let keys_text = match kind {
        0 => "no_keys".to_owned(),
        _ => key_texts.join(","),
    };
    let comment = format!(
        "v2/{}/{window_text}/{keys_text}/{histogram}/{}",
        ["packet", "request", "timer"][kind as usize],
        filter_texts.join(",")
    );
    Report {
        name: String::new(),
        given: Given::Comment(comment),
        of_timers,
        keys,
        filters,
        percentiles,
        window_ms,
        layout,
        up: true,
        columns,
        index: Vec::new(),
        view: false,
        native: false,
    }
}

/// A report in the native form; `level`: packet, request, timer.
pub(super) fn any_native(level: u64, dice: &mut Dice, settings: &Settings) -> Report {
    use Measure::{Errors, Hits, Memory, Requests, RuStime, RuUtime, Time, Traffic};
    let of_timers = level == 2;
    let mut form = serde_json::Map::new();
    form.insert(
        "level".into(),
        ["packet", "request", "timer"][level as usize].into(),
    );
    let mut keys = Vec::new();
    let mut key_forms: Vec<serde_json::Value> = Vec::new();
    if level > 0 {
        let mut sources: Vec<(String, Source)> = FIELDS
            .iter()
            .map(|f| (f.v1_name().to_owned(), Source::Field(*f)))
            .collect();
        let request_tags = REQUEST_TAGS.iter();
        sources
            .extend(request_tags.map(|t| (format!("+{t}"), Source::RequestTag((*t).to_owned()))));
        if of_timers {
            let timer_tags = TIMER_TAGS.iter();
            sources
                .extend(timer_tags.map(|t| (format!("@{t}"), Source::TimerTag((*t).to_owned()))));
        }
        let count = if dice.once_in(8) {
            dice.within(1, 12)
        } else {
            dice.within(1, 3)
        };
        for _ in 0..count.min(sources.len() as u64) {
            let at = dice.below(sources.len() as u64) as usize;
            let (text, source) = sources.remove(at);
            let mut missing = match &source {
                Source::Field(_) => Missing::Empty,
                Source::TimerTag(name) if name.starts_with("__") => Missing::Empty,
                _ => Missing::Skip,
            };
            if dice.once_in(2) {
                let word;
                (word, missing) = *dice.pick(&[
                    ("skip", Missing::Skip),
                    ("skip_empty", Missing::SkipEmpty),
                    ("empty", Missing::Empty),
                ]);
                let last = dice.once_in(3);
                let mut table = serde_json::json!({"key": text, "missing": word});
                if last {
                    table["occurrence"] = "last".into();
                }
                key_forms.push(table);
                keys.push(Key {
                    source,
                    last,
                    missing,
                });
            } else {
                key_forms.push(text.into());
                keys.push(Key {
                    source,
                    last: false,
                    missing,
                });
            }
        }
        form.insert("keys".into(), key_forms.into());
    }
    let mut filters = Vec::new();
    let mut texts: Vec<serde_json::Value> = Vec::new();
    let mut filter = |text: serde_json::Value, filter: Filter| {
        texts.push(text);
        filters.push(filter);
    };
    if dice.once_in(5) {
        let (text, us) = *dice.pick(&TIMES[..3]);
        match dice.below(3) {
            0 => filter(format!("min_time={text}").into(), Filter::From(us)),
            1 => filter(format!("min_time>{text}").into(), Filter::From(us + 1)),
            _ => filter(
                serde_json::json!({"min_time": text.parse::<f64>().expect("a number")}),
                Filter::From(us),
            ),
        }
    }
    if dice.once_in(5) {
        let (text, us) = TIMES[4];
        match dice.once_in(2) {
            true => filter(format!("max_time={text}").into(), Filter::Below(us + 1)),
            false => filter(format!("max_time<{text}").into(), Filter::Below(us)),
        }
    }
    for _ in 0..dice.below(3) {
        let (key, source) = match dice.below(if of_timers { 6 } else { 4 }) {
            0 => ("hostname".to_owned(), Source::Field(Host)),
            1 => ("server_name".to_owned(), Source::Field(Server)),
            2 | 3 => {
                let name = *dice.pick(&REQUEST_TAGS);
                (format!("+{name}"), Source::RequestTag(name.to_owned()))
            }
            _ => {
                let name = *dice.pick(&["group", "op", "env"]);
                (format!("@{name}"), Source::TimerTag(name.to_owned()))
            }
        };
        let value = match &source {
            Source::Field(Host) => *dice.pick(&HOSTS),
            Source::Field(_) => *dice.pick(&SERVERS),
            _ => *dice.pick(&VALUES),
        };
        match dice.below(4) {
            0 => filter(
                format!("{key}={value}").into(),
                Filter::Of(source, Comparison::Is(value.to_owned())),
            ),
            1 => filter(
                serde_json::json!({"key": key, "differs": value}),
                Filter::Of(source, Comparison::IsNot(value.to_owned())),
            ),
            2 => filter(
                format!("{key}!={value}").into(),
                Filter::Of(source, Comparison::IsNot(value.to_owned())),
            ),
            _ => {
                let prefix = value.get(..2).unwrap_or(value);
                filter(
                    format!("{key}={prefix}*").into(),
                    Filter::Of(source, Comparison::Begins(prefix.to_owned())),
                );
            }
        }
    }
    if dice.once_in(8) {
        let of_status = |how| Filter::Of(Source::Field(Status), how);
        match dice.once_in(2) {
            true => filter(
                "status=5*".into(),
                of_status(Comparison::Begins("5".to_owned())),
            ),
            false => filter(
                "status!=200".into(),
                of_status(Comparison::IsNot("200".to_owned())),
            ),
        }
    }
    if !texts.is_empty() {
        form.insert("filters".into(), texts.into());
    }
    let percentiles = some_percentiles(dice, 0);
    if !percentiles.is_empty() {
        let numbers = percentiles
            .iter()
            .map(|p| p.parse::<f64>().expect("a number"));
        form.insert("percentiles".into(), numbers.collect::<Vec<_>>().into());
    }
    let mut window_ms = settings.history_ms;
    if !dice.once_in(3) {
        let secs = *dice.pick(&WINDOWS_SECS);
        window_ms = secs * 1000;
        form.insert("window".into(), format!("{secs}s").into());
    }
    let mut layout = Layout::LogLinear;
    match dice.below(4) {
        0 => {
            layout = Layout::Linear {
                max_us: 5_000_000,
                size: 50,
            };
            form.insert("histogram".into(), "linear=5:50".into());
        }
        1 => {
            let text;
            (text, layout) = some_hv(dice);
            form.insert("histogram".into(), text.into());
        }
        _ => {}
    }
    let mut columns: Columns = Vec::new();
    columns.extend(counted("req", Requests, false));
    let cpu = |columns: &mut Columns| {
        columns.extend(timed("ru_utime", RuUtime, false));
        columns.extend(timed("ru_stime", RuStime, false));
    };
    if of_timers {
        columns.extend(counted("hit", Hits, false));
        let total = "timer_value".to_owned();
        columns.extend(three(
            total,
            "timer_value",
            Cell::Seconds(Time),
            Time,
            1e6,
            false,
        ));
        columns.push(column("timer_value_min", Cell::Min));
        columns.push(column("timer_value_max", Cell::Max));
        columns.push(column("timer_median", Cell::Quantile(0)));
        columns.extend(percentile_columns(&percentiles));
        cpu(&mut columns);
    } else {
        columns.push(column("error_count", Cell::Whole(Errors)));
        columns.push(column("timer_count", Cell::Whole(Hits)));
        columns.extend(timed("req_time", Time, false));
        columns.push(column("req_time_min", Cell::Min));
        columns.push(column("req_time_max", Cell::Max));
        columns.push(column("req_time_median", Cell::Quantile(0)));
        columns.extend(percentile_columns(&percentiles));
        cpu(&mut columns);
        for (name, measure) in [("traffic", Traffic), ("memory_footprint", Memory)] {
            let total = format!("{name}_total");
            columns.extend(three(
                total,
                name,
                Cell::Whole(measure),
                measure,
                1.0,
                false,
            ));
        }
        columns.push(column("memory_peak_max", Cell::PeakMax));
    }
    if let Layout::V2 { .. } = layout {
        columns.push(column("histogram_data", Cell::HistogramText(":")));
    }
    let named = keys.iter().enumerate().map(|(at, key)| {
        let (name, prefix) = match &key.source {
            Source::Field(field) => (field.v1_name().to_owned(), "field_"),
            Source::RequestTag(name) => (format!("tag_{name}"), "tag_"),
            Source::TimerTag(name) => (format!("timer_{name}"), "timer_"),
        };
        (name, prefix, Cell::Key(at))
    });
    let columns = before(named.collect(), columns);
    Report {
        name: String::new(),
        given: Given::Json(serde_json::Value::from(form).to_string()),
        of_timers,
        keys,
        filters,
        percentiles,
        window_ms,
        layout,
        up: true,
        columns,
        index: Vec::new(),
        view: false,
        native: true,
    }
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
