//! pinba2's COMMENT: `v2/<type>/<window>/<keys>/<histogram>/<filters>`.
//!
//! ```text
//! v2/timer/60,1/~script,@group/hv=0:1000:1000,p95,p99.9/min_time=0.1,+env=prod
//!    type  window keys         histogram                filters
//! ```
//!
//! The tick width is checked and otherwise ignored: our ticks are a second, or a 120th of the
//! window if that is more. Filter times are seconds; `min_time` is inclusive and `max_time`
//! exclusive, as in pinba2's code.

use std::time::Duration;

use super::Comment;
use super::conditions;
use super::error::{Wrong, checked, wrong};
use crate::grammar::FixedTable;
use crate::grammar::number::tag_name;
use crate::grammar::percentile::parse_percentile_into;
use crate::report::definition::{
    Defaults, Definition, Field, Filter, KEYS_MAX, Key, KeySource, Kind, Level, Missing, Pattern,
    WINDOW_SECS_MAX,
};
use crate::report::histogram::BucketLayout;

const GRAMMAR: &str = "v2/<type>/<window>/<keys>/<histogram>/<filters>, \
    such as v2/request/60/~host/no_percentiles/no_filters";
const TYPES: &str = "packet (or info), request, timer, stats, active";
const FIELDS: &str = "~host, ~script, ~server, ~schema, ~status";

pub(super) fn parse<'a>(
    name: &str,
    whole: &'a str,
    defaults: &Defaults,
) -> Result<Comment, Wrong<'a>> {
    let sections: Vec<&str> = whole.split('/').collect();
    let [_, report_type, ref rest @ ..] = sections[..] else {
        return wrong(whole, format!("must be {GRAMMAR}"));
    };
    let (kind, level) = match report_type {
        "packet" | "info" => (Kind::V2Packet, Level::Packet),
        "request" => (Kind::V2Request, Level::Request),
        "timer" => (Kind::V2Timer, Level::Timer),
        "stats" => return Comment::fixed(FixedTable::V2Stats, rest),
        "active" => return Comment::fixed(FixedTable::V2Active, rest),
        _ => return wrong(report_type, format!("no such type; the types are {TYPES}")),
    };
    let [window, keys, histogram, filters] = *rest else {
        let problem = format!("there must be six parts, not {}: {GRAMMAR}", sections.len());
        return wrong(rest.get(4).copied().unwrap_or(whole.split_at(whole.len()).1), problem);
    };
    let window = self::window(window, defaults)?;
    let keys = self::keys(keys, level, defaults)?;
    let (percentiles, buckets) = self::histogram(histogram)?;
    let filters = self::filters(filters, level, defaults)?;
    let definition = Definition {
        comment: Some(whole.to_owned()),
        keys,
        filters,
        percentiles,
        buckets,
        ..Definition::new(name, kind, level, window)
    };
    Ok(Comment::Report(Box::new(definition.with_columns(defaults))))
}

fn window<'a>(section: &'a str, defaults: &Defaults) -> Result<Duration, Wrong<'a>> {
    if section == "default_history_time" {
        return Ok(defaults.raw_window);
    }
    let secs = |text: &'a str, what: &str| match text.parse::<u64>() {
        Ok(secs) if (1..=WINDOW_SECS_MAX).contains(&secs) && !text.starts_with('+') => Ok(secs),
        _ => {
            let problem = format!(
                "the {what} is a whole number of seconds from 1 to {WINDOW_SECS_MAX} \
                 (or the window default_history_time)"
            );
            wrong(text, problem)
        }
    };
    let Some((window, tick)) = section.split_once(',') else {
        return secs(section, "window").map(Duration::from_secs);
    };
    let (window_secs, tick_secs) = (secs(window, "window")?, secs(tick, "tick width")?);
    match window_secs % tick_secs {
        0 => Ok(Duration::from_secs(window_secs)),
        _ => {
            let problem =
                format!("the window of {window_secs} s is not a multiple of this tick width");
            wrong(tick, problem)
        }
    }
}

fn keys<'a>(section: &'a str, level: Level, defaults: &Defaults) -> Result<Vec<Key>, Wrong<'a>> {
    let kind = match level {
        Level::Packet if section == "no_keys" => return Ok(Vec::new()),
        Level::Packet => return wrong(section, "a packet report has no keys: write no_keys"),
        Level::Request => "request",
        Level::Timer => "timer",
    };
    if matches!(section, "" | "no_keys") {
        let problem = format!(
            "a {kind} report has 1 to {KEYS_MAX} keys: {FIELDS}, +<request tag>, @<timer tag>"
        );
        return wrong(section, problem);
    }
    let mut keys: Vec<Key> = Vec::new();
    for text in section.split(',') {
        let key = key(text, level, defaults)?;
        if keys.iter().any(|earlier| earlier.source == key.source) {
            return wrong(text, "this key is given twice");
        }
        if keys.len() == KEYS_MAX {
            return wrong(text, format!("there may be at most {KEYS_MAX} keys"));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn key<'a>(text: &'a str, level: Level, defaults: &Defaults) -> Result<Key, Wrong<'a>> {
    if let Some(name) = text.strip_prefix('~') {
        // A timer report leaves out requests without the field, a request report has a row for
        // them.
        let missing = if level == Level::Timer { Missing::Skip } else { Missing::Empty };
        return Ok(Key { missing, ..Key::of(KeySource::Field(field(name)?)) });
    }
    let tag = |name| checked(name, tag_name(name, defaults));
    let source = match text.strip_prefix('+') {
        Some(name) => KeySource::RequestTag(tag(name)?),
        None => KeySource::timer_tag(&tag(text.strip_prefix('@').unwrap_or(text))?),
    };
    if source.is_of_timer() && level != Level::Timer {
        let problem =
            format!("timer tags are keys in v2/timer only; here: {FIELDS}, +<request tag>");
        return wrong(text, problem);
    }
    Ok(Key { missing: Missing::SkipEmpty, ..Key::of(source) })
}

fn field(name: &str) -> Result<Field, Wrong<'_>> {
    let mut fields = Field::ALL.into_iter();
    let found = fields.find(|field| field.v2_name() == name);
    found.map_or_else(|| wrong(name, format!("no such field; the fields are {FIELDS}")), Ok)
}

fn histogram(section: &str) -> Result<(Vec<f64>, BucketLayout), Wrong<'_>> {
    if section == "no_percentiles" {
        return Ok((Vec::new(), BucketLayout::LogLinear));
    }
    let mut percentiles = Vec::new();
    let mut buckets = None;
    for part in section.split(',') {
        if let Some(hv) = part.strip_prefix("hv=") {
            if buckets.replace(checked(hv, read_hv(hv))?).is_some() {
                return wrong(part, "hv= is given twice");
            }
        } else if let Some(list) = part.strip_prefix("percentiles=") {
            for text in list.split(':') {
                checked(text, parse_percentile_into(&mut percentiles, text))?;
            }
        } else if let Some(text) = part.strip_prefix('p') {
            checked(text, parse_percentile_into(&mut percentiles, text))?;
        } else {
            let problem = "must be no_percentiles, or hv=<min ms>:<max ms>:<buckets> with p<percentile>, \
                 percentiles=<p>:<p>...";
            return wrong(part, problem);
        }
    }
    match (buckets, percentiles.is_empty()) {
        (Some(buckets), false) => Ok((percentiles, buckets)),
        (None, _) => wrong(section, "percentiles need hv=<min ms>:<max ms>:<buckets> too"),
        (_, true) => wrong(section, "hv= needs at least one percentile too, such as p95"),
    }
}

/// `<min ms>:<max ms>:<buckets>`.
pub(in crate::grammar) fn read_hv(text: &str) -> Result<BucketLayout, String> {
    let number = |part: &str| part.parse().ok().filter(|_| !part.starts_with('+'));
    let numbers: Option<Vec<u32>> = text.split(':').map(number).collect();
    match numbers.as_deref() {
        Some(&[min_ms, max_ms, buckets]) => BucketLayout::v2(min_ms, max_ms, buckets),
        _ => Err("hv= takes three whole numbers: <min ms>:<max ms>:<buckets>".to_owned()),
    }
}

fn filters<'a>(
    section: &'a str,
    level: Level,
    defaults: &Defaults,
) -> Result<Vec<Filter>, Wrong<'a>> {
    if section == "no_filters" {
        return Ok(Vec::new());
    }
    let timer = if level == Level::Timer { ", @<timer tag>=<value>" } else { "" };
    let accepted = format!(
        "must be no_filters, or min_time=<seconds>, max_time=<seconds>, \
         ~<field>=<value> ({FIELDS}), +<request tag>=<value>{timer}"
    );
    let tag = |name| checked(name, tag_name(name, defaults));
    let other = |[whole, name, value]: [&'a str; 3]| {
        let pattern = Pattern::Equals(value.to_owned());
        let filter = if let Some(name) = name.strip_prefix('~') {
            let field = field(name)?;
            if field == Field::Status && !is_status(value) {
                return wrong(value, "a status is a whole number from 0 to 4294967295");
            }
            Filter::Field(field, pattern)
        } else if let Some(name) = name.strip_prefix('+') {
            Filter::RequestTag(tag(name)?, pattern)
        } else if let Some(name) = name.strip_prefix('@').filter(|_| level == Level::Timer) {
            Filter::TimerTag(tag(name)?, pattern)
        } else {
            return wrong(whole, accepted.as_str());
        };
        Ok(Some(filter))
    };
    // Times are integer microseconds: t < 0.5 us is t < 1 us.
    conditions::parse(section, &accepted, other, |max| max.us_ceil)
}

/// Whether a text is a status as the daemon writes it.
pub(in crate::grammar) fn is_status(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|status| status.to_string() == text)
}
