//! Reports in the form of Pinba: `info`, base reports, reports by tags.

use super::*;

/// Spec 4.2: keys in column order, and the index_value (numbers are places among the keys).
fn base_kind(number: usize) -> (&'static [Field], &'static [Result<usize, &'static str>]) {
    match number {
        1 => (&[Script], &[Ok(0)]),
        2 => (&[Server], &[Ok(0)]),
        3 => (&[Host], &[Ok(0)]),
        4 => (&[Server, Script], &[Ok(0), Err("/"), Ok(1)]),
        5 => (&[Host, Script], &[Ok(0), Err("/"), Ok(1)]),
        6 => (&[Host, Server], &[Ok(0), Err("/"), Ok(1)]),
        7 => (&[Host, Server, Script], &[Ok(0), Err(":"), Ok(1), Err("/"), Ok(2)]),
        8 => (&[Status], &[Ok(0)]),
        9 => (&[Script, Status], &[Ok(1), Err(":"), Ok(0)]),
        10 => (&[Server, Status], &[Ok(1), Ok(0)]),
        11 => (&[Host, Status], &[Ok(1), Ok(0)]),
        12 => (&[Host, Script, Status], &[Ok(2), Ok(0), Err("/"), Ok(1)]),
        13 => (&[Schema], &[Ok(0)]),
        14 => (&[Script, Schema], &[Ok(1), Err(":"), Ok(0)]),
        15 => (&[Server, Schema], &[Ok(1), Err(":"), Ok(0)]),
        16 => (&[Host, Schema], &[Ok(1), Err(":"), Ok(0)]),
        17 => (&[Host, Script, Schema], &[Ok(2), Err("/"), Ok(0), Err("/"), Ok(1)]),
        _ => (&[Host, Status, Schema], &[Ok(1), Err(":"), Ok(2), Err("/"), Ok(0)]),
    }
}

/// Names under which the 18 base reports are always there.
pub(in crate::model) const BASE_TABLES: [&str; 18] = [
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
        let (text, us) = if filters.is_empty() { *dice.pick(&TIMES) } else { ("10", 10_000_000) };
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
pub(in crate::model) fn built_in(number: usize, settings: &Settings) -> Report {
    let mut report = base(number, String::new(), Vec::new(), None, Vec::new(), false, settings);
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
    let percentiles = if view { Vec::new() } else { some_percentiles(dice, 0) };
    let number = dice.below(19) as usize;
    base(number, conditions, filters, range, percentiles, view, settings)
}

/// Any of the nine timer-tag kinds and the six request-tag kinds.
pub(super) fn any_tag(dice: &mut Dice, settings: &Settings) -> Report {
    let of_timers = !dice.once_in(3);
    tag(dice.below(if of_timers { 9 } else { 6 }), of_timers, dice, settings)
}

/// Spec 5.2 and 5.4. `form`: info, report or report2 in threes; one, two or N tags in each.
fn tag(form: u64, of_timers: bool, dice: &mut Dice, settings: &Settings) -> Report {
    let (conditions, filters, range) = v1_conditions(dice);
    let view = dice.once_in(5);
    let percentiles = if view { Vec::new() } else { some_percentiles(dice, 0) };
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
pub(in crate::model) fn every_tag_kind(dice: &mut Dice, settings: &Settings) -> Vec<Report> {
    let timers = (0..9).map(|form| (form, true));
    let requests = (0..6).map(|form| (form, false));
    let all: Vec<_> = timers.chain(requests).collect();
    all.into_iter().map(|(form, of_timers)| tag(form, of_timers, dice, settings)).collect()
}
