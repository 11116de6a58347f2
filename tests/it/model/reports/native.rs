//! Reports in the native form.

use super::v2::some_hv;
use super::*;

/// A report in the native form; `level`: packet, request, timer.
pub(super) fn any_native(level: u64, dice: &mut Dice, settings: &Settings) -> Report {
    use Measure::{Errors, Hits, Memory, Requests, RuStime, RuUtime, Time, Traffic};
    let of_timers = level == 2;
    let mut form = serde_json::Map::new();
    form.insert("level".into(), ["packet", "request", "timer"][level as usize].into());
    let mut keys = Vec::new();
    let mut key_forms: Vec<serde_json::Value> = Vec::new();
    if level > 0 {
        let mut sources: Vec<(String, Source)> =
            FIELDS.iter().map(|f| (f.v1_name().to_owned(), Source::Field(*f))).collect();
        let request_tags = REQUEST_TAGS.iter();
        sources
            .extend(request_tags.map(|t| (format!("+{t}"), Source::RequestTag((*t).to_owned()))));
        if of_timers {
            let timer_tags = TIMER_TAGS.iter();
            sources
                .extend(timer_tags.map(|t| (format!("@{t}"), Source::TimerTag((*t).to_owned()))));
        }
        let count = if dice.once_in(8) { dice.within(1, 12) } else { dice.within(1, 3) };
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
                keys.push(Key { source, last, missing });
            } else {
                key_forms.push(text.into());
                keys.push(Key { source, last: false, missing });
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
            true => filter("status=5*".into(), of_status(Comparison::Begins("5".to_owned()))),
            false => filter("status!=200".into(), of_status(Comparison::IsNot("200".to_owned()))),
        }
    }
    if !texts.is_empty() {
        form.insert("filters".into(), texts.into());
    }
    let percentiles = some_percentiles(dice, 0);
    if !percentiles.is_empty() {
        let numbers = percentiles.iter().map(|p| p.parse::<f64>().expect("a number"));
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
            layout = Layout::Linear { max_us: 5_000_000, size: 50 };
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
        columns.extend(three(total, "timer_value", Cell::Seconds(Time), Time, 1e6, false));
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
            columns.extend(three(total, name, Cell::Whole(measure), measure, 1.0, false));
        }
        columns.push(column("memory_peak_max", Cell::PeakMax));
    }
    columns.push(column("unmeasured_count", Cell::Unmeasured));
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
