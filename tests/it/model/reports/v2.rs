//! Reports in the form of Pinba2.

use super::*;

pub(super) fn some_hv(dice: &mut Dice) -> (String, Layout) {
    let (min_ms, max_ms, buckets) =
        *dice.pick(&[(0, 1000, 100), (0, 60_000, 32_768), (100, 5000, 250), (0, 10_000, 7)]);
    let layout = Layout::V2 { min_ms, max_ms, buckets };
    (format!("hv={min_ms}:{max_ms}:{buckets}"), layout)
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
        let mut sources: Vec<(String, Source)> =
            FIELDS.iter().map(|f| (format!("~{}", f.v2_name()), Source::Field(*f))).collect();
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
            keys.push(Key { source, last: false, missing });
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
        filters.push(Filter::Of(Source::Field(source), Comparison::Is(value.to_owned())));
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
        filters
            .push(Filter::Of(Source::TimerTag(name.to_owned()), Comparison::Is(value.to_owned())));
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
